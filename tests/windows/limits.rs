//! Time, output, and what the job is told.

use std::time::{Duration, Instant};

use crate::harness::{World, helper, json};

/// `JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE` and `JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION`
const ALWAYS: u64 = 0x2400;

#[test]
fn the_job_is_told_what_was_asked_for() {
    let world = World::new();
    let plan = |options: &[&str]| {
        let done = world.quiet([&["--dry-run=json"], options, &["--", "cmd"]].concat()).done();
        serde_json::from_str::<serde_json::Value>(&done.stdout).expect("JSON")["job"].clone()
    };
    let told = |options: &[&str]| {
        let job = plan(options);
        let field = |name: &str| job[name].as_u64().unwrap();
        assert_eq!(field("ui_restrictions"), 0xff);
        let numbers = ["active_process_limit", "process_memory_limit", "job_memory_limit", "per_job_user_time_limit"];
        (field("limit_flags") - ALWAYS, numbers.map(field))
    };
    assert_eq!(told(&[]), (0, [0; 4]));
    assert_eq!(told(&["--max-procs", "7"]), (0x8, [7, 0, 0, 0]));
    assert_eq!(told(&["--address-space", "64M"]), (0x100, [0, 64 << 20, 0, 0]));
    assert_eq!(told(&["--memory", "64M"]), (0x200, [0, 0, 64 << 20, 0]));
    assert_eq!(told(&["--cpu-time", "3"]), (0x4, [0, 0, 0, 30_000_000]));
    // And it takes them.
    let all = ["--max-procs", "50", "--address-space", "2G", "--memory", "3G", "--cpu-time", "60"];
    world.quiet([&all[..], &["--", "cmd", "/c", "exit 8"]].concat()).done().is(8, "", "");
}

#[test]
fn time_ends_everything() {
    let world = World::new();
    for options in [&["--kill-after", "0"][..], &["--kill-after", "300ms"]] {
        let mut words: Vec<String> = ["--timeout", "4", "--result", "r"].map(str::to_owned).to_vec();
        words.extend(options.iter().map(|&word| word.to_owned()));
        words.push("--".to_owned());
        words.extend(["cmd", "/c", "echo begun& ping -n 120 127.0.0.1 >nul"].map(str::to_owned));
        let begun = Instant::now();
        world.quiet(&words).done().is(124, "begun\n", "");
        assert!(begun.elapsed() < Duration::from_mins(1));
        let result = json(&world.path("r"));
        assert_eq!((&result["status"], &result["reason"]), (&"timeout".into(), &"timeout".into()));
        assert_eq!(result["limits_hit"], serde_json::json!(["timeout"]));
    }
    // The control: within its time it has its own status.
    world.quiet(["--timeout", "100", "cmd", "/c", "exit 5"]).done().is(5, "", "");
}

#[test]
fn a_run_out_of_time_leaves_nothing() {
    let world = World::new();
    let mut words: Vec<String> = ["--timeout", "1", "--kill-after", "0", "--"].map(str::to_owned).to_vec();
    // It begins late, and is ended before the file is made.
    words.extend(helper("leave-and-wait"));
    words.push(world.text(""));
    assert_eq!(world.quiet(&words).done().code, 124);
    std::thread::sleep(Duration::from_secs(4));
    assert!(!world.has("late"));
}

#[test]
fn output_is_cut_to_the_byte() {
    let world = World::new();
    let echo = "echo 0123456789& echo abc>&2";
    for (most, expected) in [("5", 5), ("1", 1), ("0", 0)] {
        let done = world.quiet(["--max-output", most, "--result", "r", "cmd", "/c", echo]).done();
        assert_eq!((done.code, done.bytes), (0, expected), "{}{}", done.stdout, done.stderr);
        let result = json(&world.path("r"));
        assert_eq!((&result["truncated"], &result["limits_hit"]), (&true.into(), &serde_json::json!(["output-limit"])));
        assert_eq!((&result["stdout_bytes"], &result["stderr_bytes"]), (&12.into(), &5.into()));
    }
    // The control: what fits passes.
    let done = world.quiet(["--max-output", "17", "--result", "r", "cmd", "/c", echo]).done();
    done.is(0, "0123456789\n", "abc\n");
    assert_eq!(json(&world.path("r"))["truncated"], false);
}

#[test]
fn too_much_output_ends_the_run_when_that_is_asked_for() {
    let world = World::new();
    let flood = "echo 0123456789& ping -n 120 127.0.0.1 >nul";
    let limit = ["--max-output", "4", "--output-overflow", "kill", "--result", "r", "cmd", "/c"];
    let begun = Instant::now();
    world.quiet([&limit[..], &[flood]].concat()).done().is(124, "0123", "");
    assert!(begun.elapsed() < Duration::from_mins(1));
    assert_eq!(json(&world.path("r"))["status"], "output-limit");
    world.quiet([&limit[..], &["echo 1& exit 3"]].concat()).done().is(3, "1\n", "");
}
