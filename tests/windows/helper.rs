//! What targets do in these tests: this program again, with one test that acts on the words behind `--`.

#![allow(unsafe_code)]

use std::io::Write;
use std::os::windows::ffi::OsStrExt;
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
        // How many words there are, and how long they are together.
        "count" => println!("\nhelper: {} {}", words.len(), words.iter().map(String::len).sum::<usize>()),
        // The units of each variable that is named, or that it is not there.
        "variables" => {
            for name in words {
                println!(
                    "\nhelper: {:x?}",
                    std::env::var_os(name).map(|value| value.encode_wide().collect::<Vec<_>>())
                );
            }
        }
        // All names, as spelt.
        "names" => {
            for (name, _) in std::env::vars_os() {
                println!("\nhelper: {}", name.display());
            }
        }
        // Where it is and what it has.
        "place" => {
            println!("\nhelper: {}", std::env::current_dir().expect("a directory").display());
            let names: Vec<_> = std::env::vars_os().map(|(name, _)| name.display().to_string()).collect();
            println!("\nhelper: {}", names.join(" "));
        }
        // Writes until nobody takes it any more, at most a gigabyte.
        "flood" => {
            let lines = vec![b'x'; 1 << 16];
            let mut stdout = std::io::stdout().lock();
            let taken = (0..1 << 14).all(|_| stdout.write_all(&lines).and_then(|()| stdout.flush()).is_ok());
            process::exit(if taken { 0 } else { 9 });
        }
        // Takes all that comes, to its end.
        "drain" => {
            let count = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()).expect("input");
            println!("\nhelper: {count}");
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
