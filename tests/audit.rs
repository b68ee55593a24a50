//! The audit log: one line for each run, whole, for its owner only, out of the target's reach.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::docs::result::validate;
use crate::harness::{BACKENDS, World};

/// The lines of a log, each an object as the schema has it.
fn lines(world: &World, name: &str) -> Vec<Value> {
    let text = world.read(name);
    assert!(text.ends_with('\n'), "{text}");
    let parse = |line| {
        let object: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        validate(&object).expect("as the schema has it");
        object
    };
    text.lines().map(parse).collect()
}

#[test]
fn every_run_adds_a_line() {
    for backend in BACKENDS {
        let world = World::new();
        let log = world.text("o/log");
        let run = |options: &[&str], target: &[&str]| {
            world.run([&backend[..], &["--audit-log", &log], options, &["--"], target].concat()).done()
        };
        run(&["-e", "TOKEN=t0p"], &["sh", "-c", "echo $TOKEN; exit 5"]).is(5, "t0p\n", "");
        assert_eq!(fs::metadata(&log).expect("log").permissions().mode() & 0o777, 0o600);
        run(&["-C", "/nope"], &["true"]).code(125);
        run(&["--bogus"], &["true"]).code(125);
        let file = world.text("o/r");
        run(&["--capture", "--result", &file], &["echo", "captured"]).is(0, "", "");
        let lines = lines(&world, "o/log");
        let reasons: Vec<_> = lines.iter().map(|line| line["reason"].clone()).collect();
        assert_eq!(reasons, [json!(null), json!("policy"), json!("usage"), json!(null)]);
        assert!(lines.iter().all(|line| line.get("stdout").is_none()), "{lines:#?}");
        assert!(!world.read("o/log").contains("t0p"));
        let mut result: Value = serde_json::from_str(&world.read("o/r")).expect("object");
        let object = result.as_object_mut().expect("object");
        assert_eq!(object.remove("stdout"), Some(json!("captured\n")));
        object.remove("stderr");
        assert_eq!(result, lines[3], "the same object");
        // Nothing that runs no command adds one.
        world.run(["--audit-log", &log, "--dry-run", "true"]).done().code(0);
        assert_eq!(world.read("o/log").lines().count(), 4);
    }
}

#[test]
fn fifty_at_once_add_fifty_whole_lines() {
    for backend in BACKENDS {
        let world = World::new();
        world.write("o/log", "");
        let log = world.text("o/log");
        let padding = "x".repeat(20_000);
        let start = |number: i32| {
            let number = number.to_string();
            world.run([&backend[..], &["--audit-log", &log, "--", "true", &number, &padding]].concat()).spawn()
        };
        let running: Vec<_> = (0..50).map(start).collect();
        for call in running {
            call.done().code(0);
        }
        let mut found: Vec<i32> = lines(&world, "o/log")
            .iter()
            .map(|line| line["argv"][1].as_str().expect("text").parse().expect("number"))
            .collect();
        found.sort_unstable();
        assert_eq!(found, (0..50).collect::<Vec<_>>());
    }
}

#[test]
fn the_target_cannot_write_it() {
    let world = World::new();
    let (mut read, write) = std::io::pipe().expect("pipe");
    let script = "touch made; echo forged >>log";
    let options = ["-b", "bwrap", "--result-fd", "3", "--audit-log", "log", "-w", "."];
    let done = world.sh(options, script).fd(write, 3).done();
    done.refused(125, &["the audit log 'log'", "the command could change it"]).stderr_has("--protect");
    assert!(!world.has("w/made"));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut read, &mut text).expect("readable");
    assert_eq!(serde_json::from_str::<Value>(&text).expect("object")["reason"], "policy");
    assert_eq!(lines(&world, "w/log")[0]["reason"], "policy");
    // Protected, it can be; and what lies beside it can be written.
    let options = ["-b", "bwrap", "--audit-log", "log", "-w", ".", "--protect", "log"];
    world.sh(options, script).done().code(2).stderr_has("log: ");
    let lines = lines(&world, "w/log");
    assert_eq!((lines.len(), &lines[1]["exit_code"], world.has("w/made")), (2, &json!(2), true));
    // A write grant of the file alone, under another name.
    world.link("o/name", "../w/log");
    let log = world.text("w/log");
    let name = world.text("o/name");
    world.sh(["-b", "bwrap", "--audit-log", &name, "-w", &log], "true").done().refused(125, &["could change it"]);
}

#[test]
fn a_log_that_cannot_be_written_changes_no_status() {
    for backend in BACKENDS {
        let world = World::new();
        let done = world.sh(backend.iter().chain(&["--audit-log", "/dev/full"]), "exit 5").done();
        done.is(5, "", "sandbox-run: cannot write the audit log '/dev/full': no space left on device\n");
        // The result is written all the same, and the other way round.
        let file = world.text("o/r");
        let options = [&backend[..], &["--audit-log", "/dev/full", "--result", &file]].concat();
        world.sh(&options, "exit 5").done().code(5);
        assert!(world.has("o/r"));
        let log = world.text("o/log");
        let options = [&backend[..], &["--audit-log", &log, "--result", "/nope/r"]].concat();
        world.sh(&options, "exit 5").done().refused(125, &["'/nope/r'"]);
        assert_eq!(lines(&world, "o/log")[0]["reason"], "policy");
    }
}

#[test]
fn an_existing_log_keeps_its_mode_and_content() {
    let world = World::new();
    let log = world.write("o/log", "first\n");
    fs::set_permissions(&log, fs::Permissions::from_mode(0o644)).expect("mode");
    let out = File::create(world.path("o/out")).expect("file");
    world.run(["--audit-log", log.to_str().expect("text"), "true"]).stdout(out).done().code(0);
    let text = world.read("o/log");
    assert!(text.starts_with("first\n{") && text.lines().count() == 2, "{text}");
    assert_eq!(fs::metadata(&log).expect("log").permissions().mode() & 0o777, 0o644);
}
