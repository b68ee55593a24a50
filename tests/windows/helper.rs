//! What targets do in these tests: this program again, with one test that acts on the words behind `--`.

#![allow(unsafe_code)]

use std::io::Write;
use std::os::windows::io::FromRawHandle;
use std::os::windows::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, process, thread};

use crate::harness::helper;

/// `CREATE_BREAKAWAY_FROM_JOB`
const BREAKAWAY: u32 = 0x0100_0000;

/// Does nothing when it is run as a test.
#[test]
fn act() {
    let mut words = std::env::args().skip_while(|word| word != "--").skip(1);
    let Some(what) = words.next() else { return };
    let words: Vec<_> = words.collect();
    match what.as_str() {
        "exit" => process::exit(words[0].parse::<u32>().expect("a number").cast_signed()),
        "arguments" => {
            for word in words {
                println!("\nhelper: {word:?}");
            }
        }
        // Leaves a process behind that makes a file later, and ends when that process has begun.
        "leave" | "leave-and-wait" => {
            let mut command = child("late");
            command.args(&words);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut left = command.spawn().expect("it starts");
            while fs::metadata(Path::new(&words[0]).join("begun")).is_err() {
                thread::sleep(Duration::from_millis(10));
            }
            if what == "leave-and-wait" {
                left.wait().expect("it ends");
            }
        }
        "late" => {
            let directory = Path::new(&words[0]);
            fs::write(directory.join("begun"), "").expect("a file");
            thread::sleep(Duration::from_secs(2));
            fs::write(directory.join("late"), "").expect("a file");
        }
        "break-away" => {
            let flags = if words.is_empty() { BREAKAWAY } else { 0 };
            let mut command = child("exit");
            let done = command.arg("0").creation_flags(flags).stdout(Stdio::null()).status();
            match done {
                Ok(status) => println!("\nhelper: {:?}", status.code()),
                Err(error) => println!("\nhelper: refused {:?}", error.raw_os_error()),
            }
        }
        "write-to-handle" => {
            let number: usize = words[0].parse().expect("a number");
            // SAFETY: whether there is such a handle is what is tested, and nothing else here knows it.
            let mut file = unsafe { fs::File::from_raw_handle(std::ptr::without_provenance_mut(number)) };
            println!("\nhelper: {}", if file.write_all(b"leaked").is_ok() { "written" } else { "refused" });
        }
        other => panic!("cannot do '{other}'"),
    }
    process::exit(0);
}

fn child(what: &str) -> Command {
    let words = helper(what);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}
