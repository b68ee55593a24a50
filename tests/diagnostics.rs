//! What the program says itself: nothing by default, on standard error only, the same run whatever is said.

use std::fs::File;

use crate::harness::{World, about_bwrap};

const SCRIPT: &str = "cat; echo out; echo err >&2; exit 5";

/// Options and value of `SANDBOX_RUN_LOG`, and whether they make it talk.
const WAYS: &[(&[&str], Option<&str>, bool)] = &[
    (&[], None, false),
    (&["-q"], None, false),
    (&["-v"], None, true),
    (&["-vv"], None, true),
    (&["-v", "-v", "-v"], None, true),
    (&["--log-format", "json"], None, false),
    (&["--log-format", "text"], None, false),
    (&["-v", "--log-format", "json"], None, true),
    (&["-vvv", "--log-format", "json"], None, true),
    (&[], Some("debug"), true),
    (&[], Some("info"), true),
    (&[], Some("warn"), false),
    (&[], Some("error"), false),
    (&[], Some("off"), false),
    (&[], Some("nonsense"), true),
    (&["-q"], Some("nonsense"), false),
    (&[], Some(""), false),
    (&["-q"], Some("trace"), false),
    (&["-v"], Some("error"), true),
    (&["--log-format", "json"], Some("debug"), true),
];

#[test]
fn the_run_is_the_same_whatever_is_said() {
    let world = World::new();
    for (options, variable, talks) in WAYS {
        let mut call = world.sh(*options, SCRIPT).stdin("in\n").env("PASSED_VALUE", "v4lue");
        if let Some(value) = variable {
            call = call.env("SANDBOX_RUN_LOG", value);
        }
        let done = call.done().code(5).stdout("in\nout\n").stderr_lacks("v4lue");
        let json = options.contains(&"json");
        let mut said = done.stderr.lines().filter(|line| *line != "err").peekable();
        assert_eq!(said.peek().is_some(), *talks, "{options:?} {variable:?}: {}", done.stderr);
        for line in said {
            if json {
                let line: serde_json::Value = serde_json::from_str(line).expect("a JSON line");
                assert!(line["level"].is_string() && line["message"].is_string(), "{line}");
            } else {
                assert!(line.starts_with("sandbox-run: "), "{line}");
            }
        }
        assert_eq!(done.stderr.matches("err\n").count(), 1, "{}", done.stderr);
    }
}

#[test]
fn json_steers_no_terminal_either() {
    let name = "n\u{9b}2J\u{7f}\u{202e}";
    let world = World::new();
    world.write(&format!("w/{name}"), "");
    let missing = format!("missing-{name}");
    for (options, code) in [
        (&["--log-format", "json", "-r", &missing, "true"][..], 125),
        (&["--dry-run=json", "--mask", name, "true"], 0),
        (&["--json", "--explain", name], 0),
    ] {
        let done = world.run(options).done().code(code);
        let said = format!("{}{}", done.out(), done.stderr);
        assert!(!said.contains(['\u{9b}', '\u{7f}', '\u{202e}']), "{said:?}");
        let meant: serde_json::Value = serde_json::from_str(said.lines().next().expect("a line")).expect("JSON");
        let mut all = Vec::new();
        texts(&meant, &mut all);
        assert!(all.iter().any(|text| text.contains(name)), "{options:?}: {meant}");
    }
}

/// Every text in `value`.
fn texts(value: &serde_json::Value, all: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => all.push(text.clone()),
        serde_json::Value::Array(values) => values.iter().for_each(|value| texts(value, all)),
        serde_json::Value::Object(fields) => fields.values().for_each(|value| texts(value, all)),
        _ => {}
    }
}

#[test]
fn warnings_can_be_silenced_and_errors_cannot() {
    let world = World::new();
    let run = |options: &[&str], command: &[&str]| world.run([options, &["-b", "none"], command].concat()).done();
    run(&[], &["true"]).code(0).stderr_has("sandbox-run: warning: backend 'none'");
    run(&["-q"], &["true"]).is(0, "", "");
    for options in [&[][..], &["-q"], &["-v"]] {
        let done = run(options, &["--mask", "x", "true"]).code(125).stdout("");
        assert!(done.stderr.lines().any(|line| line.starts_with("sandbox-run: cannot enforce")), "{}", done.stderr);
        assert!(done.stderr.lines().any(|line| line.starts_with("sandbox-run: hint: ")), "{}", done.stderr);
    }
    let done = run(&["-q", "--log-format", "json"], &["--mask", "x", "true"]).code(125).stdout("");
    let lines: Vec<serde_json::Value> = done.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().all(|line| line["level"] == "ERROR") && lines.len() == 2, "{lines:?}");
    assert!(lines[0]["message"].as_str().unwrap().starts_with("cannot enforce"), "{lines:?}");
    world.run(["--log-format", "xml", "true"]).done().refused(125, &["xml"]);
}

/// A command line that cannot be understood, with the format as far as it can.
#[test]
fn mistakes_on_the_command_line_are_told_in_the_format_asked_for() {
    let world = World::new();
    for words in [
        &["--log-format", "json", "--no-such-option", "true"][..],
        &["--log-format=json", "--net", "maybe", "true"],
        &["--no-such-option", "--log-format", "json", "true"],
        &["--net=maybe", "--log-format", "json", "true"],
        &["--log-format", "json", "--mask"],
        &["--log-format", "json"],
        &["--log-format", "json", "-x", "-r"],
        &["--log-format", "text", "--log-format", "json", "-rw", ".", "true"],
        &["--log-format", "json", "--log-format", "xml", "true"],
        &["--log-format", "json", "--check", "--dry-run"],
    ] {
        let done = world.run(words).done().code(125).stdout("");
        let lines: Vec<serde_json::Value> =
            done.stderr.lines().map(|line| serde_json::from_str(line).expect(&done.stderr)).collect();
        assert!(lines.iter().all(|line| line["level"] == "ERROR"), "{words:?}: {lines:?}");
        let first = lines[0]["message"].as_str().unwrap();
        assert!(first.starts_with("cannot read the command line: "), "{words:?}: {lines:?}");
        assert!(lines[1..].iter().all(|line| line["message"].as_str().unwrap().starts_with("hint: ")), "{lines:?}");
    }
    // The last one counts, and what is the command's or another option's value is none.
    for words in [
        &["--log-format", "json", "--log-format", "text", "--no-such-option"][..],
        &["--no-such-option", "true", "--log-format", "json"],
        &["--no-such-option", "--", "--log-format", "json"],
        &["--env=--log-format=json", "--no-such-option"],
        &["--no-such-option"],
    ] {
        world.run(words).done().refused(125, &["cannot read the command line: "]);
    }
}

#[test]
fn nowhere_to_say_it_is_no_failure() {
    let world = World::new();
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for options in [&["-v"][..], &["-vvv", "--log-format", "json"], &["-b", "none"]] {
        world.sh(options, "echo out; exit 5").stderr(full()).done().code(5).stdout("out\n");
        world.sh(options, "echo out; exit 5").closed(&[2]).done().code(5).stdout("out\n");
    }
    world.run(["-r", "missing", "true"]).stderr(full()).done().code(125).stdout("");
}

/// `-v` says what happened, `-vv` what was decided as well, and neither the value of a variable.
#[test]
fn twice_says_every_decision() {
    if about_bwrap("a program in place of bubblewrap") {
        return;
    }
    let world = World::new();
    world.write("w/.env", "A=1");
    world.write("w/.odd/x", "x");
    world.write("w/key", "x");
    world.write("w/p.toml", "read_roots = ['../o']\ncwd_allow_hidden = ['.git']\ntimeout = '1m'\n");
    let words = ["--policy", "p.toml", "-w", ".", "--mask", "key", "-e", "SET=s3t-value", "-e", "PASSED", "--", "true"];
    let run = |option: &str| {
        let call = world.run([&[option], &words[..]].concat()).env("PASSED", "passed-v4lue").env("DROPPED", "dr0pped");
        let done = call.done().code(0).stdout("");
        for value in ["s3t-value", "passed-v4lue", "dr0pped"] {
            assert!(!done.stderr.contains(value), "{}", done.stderr);
        }
        done.stderr
    };
    let (once, twice) = (run("-v"), run("-vv"));
    let lines: Vec<&str> = twice.lines().collect();
    for line in once.lines() {
        assert!(lines.contains(&line), "{line}\n{twice}");
    }
    let (w, o) = (world.text("w"), world.text("o"));
    for line in [
        "network: off from default",
        "setting: timeout from p.toml",
        &format!("rule: write '{w}' from --write, as '.'"),
        &format!("rule: read '{o}' from p.toml, as '../o'"),
        &format!("rule: mask '{w}/key' from --mask, as 'key'"),
        &format!("rule: hidden-name '{w}/.env' from p.toml (passwords and tokens of an application)"),
        &format!("rule: hidden-name '{w}/.odd' from p.toml"),
        "rule: private '/tmp' from default",
        "variables: 'SET' from --env",
        "variable dropped: DROPPED: not on the allowlist",
    ] {
        assert!(lines.contains(&&*format!("sandbox-run: debug: {line}")), "{line}\n{twice}");
        assert!(!once.contains(line), "{line}\n{once}");
    }
    for start in
        ["backend 'bwrap' is tried: ", "backend 'bwrap' is done, after ", "system calls refused: kernel modules, "]
    {
        let start = format!("sandbox-run: debug: {start}");
        assert!(lines.iter().any(|line| line.starts_with(&start)), "{start}\n{twice}");
    }
    let passed = lines.iter().find(|line| line.starts_with("sandbox-run: debug: variables passed (")).expect("a line");
    assert!(passed.split(' ').any(|name| name == "PASSED"), "{passed}");
    // A backend that is passed over has its time, too.
    world.script("fake/bwrap", "#!/bin/sh\nexit 1\n");
    let path =
        std::env::join_paths([world.path("fake")].into_iter().chain(std::env::split_paths(crate::harness::PATHS)));
    let done = world.run(["-vv", "-b", "bwrap,none", "true"]).env("PATH", path.unwrap()).done().code(0);
    done.stderr_has("backend 'bwrap' did not start, after ").stderr_has("backend 'none' is done, after ");
}
