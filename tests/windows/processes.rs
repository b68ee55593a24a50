//! The tree of processes: nothing outlives the run, and nothing leaves the job.

use std::thread;
use std::time::Duration;

use crate::harness::{GAPS, World, helper, said};

/// Longer than a process that was left waits before it makes its file.
const LONG: Duration = Duration::from_secs(5);

fn leave(world: &World, what: &str) -> Vec<String> {
    let mut words = helper(what);
    words.push(world.text(""));
    words
}

#[test]
fn what_is_left_behind_ends_with_the_run() {
    let world = World::new();
    assert_eq!(world.quiet(leave(&world, "leave")).done().code, 0);
    assert!(world.has("begun"), "it was never there");
    thread::sleep(LONG);
    assert!(!world.has("late"), "a process outlives the run");
    // The control: without a job it makes its file.
    let outside = World::new();
    assert_eq!(outside.outside(leave(&outside, "leave")).done().code, 0);
    outside.wait_for("late");
}

#[test]
fn the_end_of_the_launcher_is_the_end_of_all() {
    let world = World::new();
    let mut running = world.quiet(leave(&world, "leave-and-wait")).start();
    world.wait_for("begun");
    running.kill();
    running.done();
    thread::sleep(LONG);
    assert!(!world.has("late"), "a process outlives the launcher");
}

#[test]
fn no_process_breaks_away() {
    let world = World::new();
    let run = |words: Vec<String>| {
        let done = world.quiet(words).done();
        assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
        said(&done.stdout)
    };
    assert_eq!(run(helper("break-away")), ["refused Some(5)"]);
    // The control: an ordinary child starts, and one that breaks away from nothing.
    let mut plain = helper("break-away");
    plain.push("plain".into());
    assert_eq!(run(plain), ["Some(0)"]);
    assert_eq!(said(&world.outside(helper("break-away")).done().stdout), ["Some(0)"]);
}

#[test]
fn jobs_are_nested() {
    let world = World::new();
    let program = crate::harness::program();
    let program = program.to_str().expect("test paths are text");
    let inner = |words: &[&str]| -> Vec<String> {
        [&[program, "-v", "--allow-gap", GAPS], words].concat().iter().map(|&word| word.to_owned()).collect()
    };
    let done = world.quiet(inner(&["cmd", "/c", "exit 5"])).done();
    // Such a job cannot restrict the desktop as well.
    assert!(done.code == 5 && done.stderr.contains("note: the desktop is not restricted"), "{}", done.stderr);
    let plan = |stdout: &str| serde_json::from_str::<serde_json::Value>(stdout).expect("JSON")["job"].clone();
    let nested = world.quiet(inner(&["--dry-run=json", "cmd"])).done();
    assert_eq!(plan(&nested.stdout)["ui_restrictions"], 0);
    let alone = world.outside(inner(&["--dry-run=json", "cmd"])).done();
    assert_eq!(plan(&alone.stdout)["ui_restrictions"], 0xff);
    // The end of the outer one is the end of what the inner one holds.
    let mut words = inner(&["--"]);
    words.extend(leave(&world, "leave-and-wait"));
    let mut running = world.quiet(words).start();
    world.wait_for("begun");
    running.kill();
    running.done();
    thread::sleep(LONG);
    assert!(!world.has("late"), "a process outlives the outer launcher");
}
