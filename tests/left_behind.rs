//! Under `none` a command may leave something running that writes on: it is not counted, and notices nothing of the end.

use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::json;

use crate::harness::{Done, World, eventually, processes_with};
use crate::result::object;

const NONE: [&str; 4] = ["-q", "-b", "none", "--result"];

/// A run that leaves something behind, with its standard output going to `to`.
fn run(world: &World, script: &str, to: impl Into<OwnedFd>) -> Done {
    let result = world.text("o/r");
    world.sh(NONE.iter().chain(&[result.as_str()]), script).stdout(to.into()).done()
}

/// What waits for the file `go` and then does `then`, left running by the command.
fn later(then: &str) -> String {
    format!("(i=0; until [ -e go ] || [ $i = 400 ]; do sleep 0.05; i=$((i+1)); done; {then}) 2>/dev/null & echo now")
}

/// The process that passes on what is written: a copy of the program, as its command line has it.
fn relay(world: &World) -> Vec<i32> {
    processes_with(&format!("--result {}", world.text("o/r")))
}

#[test]
fn what_is_written_later_arrives_and_does_not_count() {
    let (mut ours, theirs) = UnixStream::pair().expect("sockets");
    let (mut reader, writer) = std::io::pipe().expect("pipe");
    let to: [(&mut dyn Read, OwnedFd); 2] = [(&mut reader, writer.into()), (&mut ours, theirs.into())];
    for (from, to) in to {
        let world = World::new();
        run(&world, &later("echo late"), to).is(0, "", "");
        assert_eq!(object(&world, "o/r")["stdout_bytes"], json!(4));
        assert_eq!(relay(&world).len(), 1, "somebody passes on");
        world.write("w/go", "");
        let mut text = String::new();
        from.read_to_string(&mut text).expect("readable to its end");
        assert_eq!(text, "now\nlate\n");
        assert!(eventually(|| relay(&world).is_empty()), "it ends with the last writer");
    }
}

#[test]
fn both_streams_go_on() {
    let world = World::new();
    let result = world.text("o/r");
    let script = "(i=0; until [ -e go ] || [ $i = 400 ]; do sleep 0.05; i=$((i+1)); done; echo o; echo e >&2) & exit 3";
    let running = world.sh(NONE.iter().chain(&[result.as_str()]), script).spawn();
    assert!(eventually(|| world.has("o/r")), "the run is over");
    world.write("w/go", "");
    running.done().is(3, "o\n", "e\n");
    let object = object(&world, "o/r");
    assert_eq!(json!([object["stdout_bytes"], object["stderr_bytes"]]), json!([0, 0]));
}

#[test]
fn a_reader_that_leaves_is_seen_by_the_writer() {
    let world = World::new();
    let (reader, writer) = std::io::pipe().expect("pipe");
    run(&world, &later("trap '' PIPE; while echo more; do sleep 0.02; done; touch over"), writer).code(0);
    world.write("w/go", "");
    drop(reader);
    assert!(eventually(|| world.has("w/over")), "the writer meets an error");
    assert!(eventually(|| relay(&world).is_empty()), "and nobody is left");
}

#[test]
fn a_flood_holds_nobody_up_and_needs_no_memory() {
    let world = World::new();
    let (mut reader, writer) = std::io::pipe().expect("pipe");
    let swallow = std::thread::spawn(move || {
        let mut some = vec![0; 1 << 20];
        let mut all = 0;
        while all < 200 << 20 {
            all += reader.read(&mut some).expect("readable");
        }
        all
    });
    let done = run(&world, "yes 2>/dev/null & sleep 0.2; exit 4", writer).code(4);
    assert!(done.took < Duration::from_secs(20), "{:?}", done.took);
    let counted = object(&world, "o/r")["stdout_bytes"].as_u64().expect("number");
    assert!(counted > 0, "what came in time counts");
    for pid in relay(&world) {
        let place = format!("/proc/{pid}");
        let status = fs::read_to_string(format!("{place}/status")).expect("status");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("line");
        let kib: u64 = peak.split_whitespace().next().expect("word").parse().expect("number");
        assert!(kib < 40 << 10, "{kib} KiB");
        let open: Vec<_> = fs::read_dir(format!("{place}/fd"))
            .expect("descriptors")
            .filter_map(|entry| fs::read_link(entry.expect("entry").path()).ok())
            .filter(|to| !to.starts_with("/dev/null"))
            .collect();
        assert!(open.len() == 2 && open.iter().all(|to| to.to_string_lossy().starts_with("pipe:")), "{open:?}");
        assert_eq!(fs::read_link(format!("{place}/cwd")).expect("directory"), std::path::Path::new("/"));
    }
    assert!(swallow.join().expect("reader") >= 200 << 20);
    assert!(eventually(|| relay(&world).is_empty()), "without a reader it ends");
    assert!(eventually(|| !processes_with("yes").iter().any(|pid| in_world(*pid, &world))), "and so does the writer");
}

/// Whoever reads may wait for our end first.
#[test]
fn a_reader_that_waits_for_the_end_gets_everything() {
    for options in [&[][..], &["--timeout", "60"]] {
        let world = World::new();
        let (mut reader, writer) = std::io::pipe().expect("pipe");
        let script = "(head -c 200000 /dev/zero; echo written >over) 2>/dev/null & sleep 0.3; exit 3";
        let result = world.text("o/r");
        let words = [&NONE[..], &[&result], options].concat();
        world.sh(words, script).stdout(writer).done().code(3);
        let object = object(&world, "o/r");
        assert_eq!((object["status"].as_str(), object["exit_code"].as_i64()), (Some("exited"), Some(3)));
        assert!(!world.has("w/over"), "the control: the writer had to wait");
        let mut all = Vec::new();
        reader.read_to_end(&mut all).expect("readable");
        assert_eq!(all.len(), 200_000);
        assert!(eventually(|| world.has("w/over")) && eventually(|| relay(&world).is_empty()));
    }
}

/// Whether a process works in this world.
fn in_world(pid: i32, world: &World) -> bool {
    fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == world.path("w"))
}

#[test]
fn what_we_end_leaves_nobody_to_pass_anything_on() {
    let world = World::new();
    let (mut reader, writer) = std::io::pipe().expect("pipe");
    let result = world.text("o/r");
    let limit = [result.as_str(), "--timeout", "0.5"];
    world.sh(NONE.iter().chain(&limit), "setsid sleep 60 & echo now; sleep 60").stdout(writer).done().code(124);
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("readable to its end");
    assert_eq!((text.as_str(), &object(&world, "o/r")["stdout_bytes"]), ("now\n", &json!(4)));
    assert!(relay(&world).is_empty());
}

#[test]
fn a_file_counts_up_to_the_end_of_the_run() {
    let world = World::new();
    let file = fs::File::create(world.path("o/out")).expect("file");
    run(&world, &later("echo late"), file).is(0, "", "");
    assert_eq!(object(&world, "o/r")["stdout_bytes"], json!(4));
    assert!(eventually(|| relay(&world).is_empty()), "a file needs nobody");
    world.write("w/go", "");
    assert!(eventually(|| world.read("o/out") == "now\nlate\n"));
    // Appended to, whose bytes they are cannot be told.
    let file = fs::File::options().append(true).open(world.path("o/out")).expect("file");
    run(&world, "echo more", file).is(0, "", "");
    assert_eq!(object(&world, "o/r")["stdout_bytes"], json!(null));
}
