//! The audit log: one line for each run, whole, for its owner only, out of the target's reach.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::docs::result::validate;
use crate::harness::{World, backends};

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
    for backend in backends() {
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

/// Words that are no rule about a variable are quoted without what may be its value: here, in results and on the terminal.
#[test]
fn no_value_of_a_variable_is_told_in_an_error() {
    let world = World::new();
    let (log, file) = (world.text("o/log"), world.text("o/r"));
    let secret = "s3cr3t";
    world.write("w/vars", format!("1A={secret}\n"));
    world.write("w/p.toml", format!("env = ['1A={secret}']\n"));
    world.write("w/q.toml", format!("[env_set]\n'A={secret}' = 'x'\n"));
    world.write("w/r.toml", format!("[env_set]\nA = '{secret}'\nA = '{secret}'\n"));
    let typed = |text: &str| text.replace('#', secret);
    let mut count = 0;
    for words in [
        &["-e", "API KEY=#"][..],
        &["-e", "1A=#"],
        &["-e", "=#"],
        &["-e", "SANDBOX_RUN_X=#"],
        &["-e", "A_*=#"],
        &["--env=1A=#"],
        &["--env==#"],
        &["-eA=#"],
        &["-e=A=#"],
        &["-veA=#"],
        &["-xA=#"],
        &["-A=#"],
        &["-e", "-A=#"],
        &["-w", "--env=A=#"],
        &["--enw=A=#"],
        &["--no-default-env=A=#"],
        &["--env-file", "vars"],
        &["--policy", "p.toml"],
        &["--policy", "q.toml"],
        &["--policy", "r.toml"],
    ] {
        let words: Vec<_> = words.iter().map(|text| typed(text)).collect();
        let options = ["--audit-log", &log, "--result", &file].map(str::to_owned);
        let call = [&options[..], &words, &["--".into(), "true".into()]].concat();
        world.run(&call).done().refused(125, &[]).stderr_lacks(secret);
        count += 1;
        assert_eq!(lines(&world, "o/log").len(), count, "{words:?}");
        for told in [world.read("o/log"), world.read("o/r")] {
            assert!(!told.contains(secret), "{words:?}: {told}");
        }
    }
}

#[test]
fn fifty_at_once_add_fifty_whole_lines() {
    for backend in backends() {
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
    world.link("o/name", "../w");
    let log = world.text("w/log");
    let name = world.text("o/name/log");
    world.sh(["-b", "bwrap", "--audit-log", &name, "-w", &log], "true").done().refused(125, &["could change it"]);
}

#[test]
fn a_log_that_cannot_be_written_changes_no_status() {
    for backend in backends() {
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

#[test]
fn the_target_cannot_reach_it_in_a_roundabout_way() {
    let world = World::new();
    world.write("o/log", "");
    world.dir("w/sub");
    world.link("w/link", "../o");
    let open = |name: &str| File::options().append(true).create(true).open(world.path(name)).expect("file");
    let run = |log: &str, options: &[&str]| {
        world.sh([&["-b", "bwrap", "--audit-log", log], options].concat(), "echo forged >&5; mv sub moved; exit 5")
    };
    // A link or a directory that it could put something else in place of.
    let link = format!("link '{}'", world.text("w/link"));
    run("link/log", &["-w", "."]).done().refused(125, &["the audit log 'link/log'", &link]);
    run("sub/log", &["-w", "."]).done().refused(125, &["could change it"]).stderr_has("--protect");
    run("sub/log", &["-w", ".", "--protect", "sub/log"]).done().code(5).stderr_has("busy");
    // Descriptors that lead to it.
    let kept = run("../o/log", &["--keep-fd", "5"]).fd(open("o/log"), 5);
    kept.done().refused(125, &["--keep-fd keeps it open"]);
    run("../o/log", &[]).stdout(open("o/log")).done().code(125).stderr_has("the command has it as standard output");
    run("../o/log", &[]).stderr(open("o/log")).done().code(125);
    assert!(world.read("o/log").contains("the command has it as standard error"));
    let lines_before = lines_of(&world, "o/log");
    run("../o/log", &["--keep-fd", "5"]).fd(open("o/other"), 5).done().code(5);
    assert_eq!((lines_of(&world, "o/log"), world.read("o/other")), (lines_before + 1, "forged\n".into()));
    // A second name of it, wherever that lies, as soon as anything can be written.
    fs::hard_link(world.path("o/log"), world.path("w/second")).expect("link");
    run("../o/log", &["-w", "sub"]).done().refused(125, &["second name"]);
    run("../o/log", &[]).done().code(5);
    assert!(world.has("w/sub") && !world.has("w/moved"));
}

fn lines_of(world: &World, name: &str) -> usize {
    world.read(name).lines().count()
}

#[test]
fn only_files_and_terminals_are_logs() {
    for backend in backends() {
        let world = World::new();
        let fifo = world.path("o/fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o600)).expect("fifo");
        let _socket = std::os::unix::net::UnixListener::bind(world.path("o/socket")).expect("socket");
        let run = |log: &str| world.sh(backend.iter().chain(&["--audit-log", log]), "touch made");
        // With nobody at the other end, with somebody who does not read, and what the caller's own output is.
        run("../o/fifo").done().refused(125, &["the audit log '../o/fifo'", "it is a pipe"]);
        let _stuck = File::options().read(true).write(true).open(&fifo).expect("fifo");
        run("../o/fifo").done().refused(125, &["it is a pipe"]);
        run("../o/socket").done().refused(125, &["it is neither a file nor a terminal"]);
        run("/dev/stdout").done().refused(125, &["the audit log '/dev/stdout'", "it is a pipe"]);
        let (_read, write) = std::io::pipe().expect("pipe");
        run("/dev/fd/5").fd(write, 5).done().refused(125, &["it is a pipe"]);
        assert!(!world.has("w/made"));
        let log = File::create(world.path("o/log")).expect("file");
        world.run([&backend[..], &["--audit-log", "/dev/fd/5", "true"]].concat()).fd(log, 5).done().code(0);
        world.run([&backend[..], &["--audit-log", "/dev/null", "true"]].concat()).done().code(0);
        assert_eq!(lines(&world, "o/log").len(), 1);
    }
}

#[test]
fn log_and_result_are_two_files() {
    for backend in backends() {
        let world = World::new();
        world.write("o/log", "{}\n");
        world.link("link", "o");
        let call = |result: &str, log: &str| {
            let options = [&backend[..], &["--result", result, "--audit-log", log]].concat();
            world.sh(&options, "touch made").cwd(world.path("")).done()
        };
        for (result, log) in [("o/log", "o/log"), ("link/log", "o/log"), ("o/new", "o/new")] {
            call(result, log).refused(125, &[&format!("'{result}'"), "the audit log is the same file"]);
        }
        let text = world.read("o/log");
        assert!(text.starts_with("{}\n") && text.lines().count() == 3, "{text}");
        assert_eq!(lines(&world, "o/new")[0]["reason"], "policy");
        // Also where the command line is wrong.
        let options = [&backend[..], &["--bogus", "--result", "o/log", "--audit-log", "o/log"]].concat();
        world.sh(&options, "true").cwd(world.path("")).done().code(125);
        assert_eq!(world.read("o/log").lines().count(), 4);
        // Another name could be that of a file that an earlier command chose.
        fs::hard_link(world.path("o/log"), world.path("o/again")).expect("link");
        call("o/again", "o/log").code(125).stderr_has("the same file").stderr_has("a link leads there");
        assert_eq!((world.read("o/log").lines().count(), world.has("made")), (4, false));
        let options = [&backend[..], &["--result", "/dev/null", "--audit-log", "/dev/null"]].concat();
        world.sh(&options, "true").done().code(0);
    }
}

#[test]
fn half_a_line_does_not_swallow_the_next() {
    for backend in backends() {
        let world = World::new();
        let log = world.write("o/log", "{}\n{\"version\":1,\"sta");
        let run = || world.run([&backend[..], &["--audit-log", "../o/log", "true"]].concat()).done().code(0);
        run();
        run();
        let text = world.read("o/log");
        let mut lines = text.lines();
        assert_eq!([lines.next(), lines.next()], [Some("{}"), Some("{\"version\":1,\"sta")]);
        assert!(lines.all(|line| serde_json::from_str::<Value>(line).is_ok()) && text.lines().count() == 4, "{text}");
        // One that we cannot read is written all the same.
        fs::set_permissions(&log, fs::Permissions::from_mode(0o200)).expect("mode");
        run();
        fs::set_permissions(&log, fs::Permissions::from_mode(0o600)).expect("mode");
        assert_eq!(lines_of(&world, "o/log"), 5);
    }
}
