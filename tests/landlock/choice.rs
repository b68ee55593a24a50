//! When `landlock` is taken, what is told of it before, during and after a run, and what it cannot be asked for.

use serde_json::Value;

use crate::check::{hostile, hostile_world};
use crate::harness::{PATHS, World, about_bwrap, has_landlock, is_root};

/// No bubblewrap in any of its directories.
const NO_BWRAP: &str = "/nowhere";

/// Without what needs no more than the kernel.
const EITHER: [&str; 2] = ["-b", "bwrap,landlock"];

#[test]
fn it_is_taken_where_bubblewrap_is_missing() {
    if about_bwrap("the policy has the default list of backends") {
        return;
    }
    if !has_landlock() {
        return;
    }
    let world = World::new();
    let secret = world.text("o/secret");
    let run = |words: &[&str]| world.run([&EITHER[..], words].concat()).env("PATH", NO_BWRAP).done();
    run(&["/bin/sh", "-c", "exit 7"]).is(7, "", "");
    run(&["/bin/cat", &secret]).code(1).stdout("").stderr_has("Permission denied");
    run(&["-r", &secret, "/bin/cat", &secret]).is(0, "s3cret", "");
    run(&["-v", "/bin/true"])
        .code(0)
        .stderr_has("backend 'bwrap' is passed over")
        .stderr_has("backend 'landlock' starts");
    run(&["-b", "bwrap", "/bin/true"]).refused(125, &["no bwrap in an absolute directory"]);
    run(&["--result", &world.text("o/result"), "/bin/true"]).is(0, "", "");
    let result: Value = serde_json::from_str(&world.read("o/result")).unwrap();
    assert_eq!((&result["backend"], &result["gaps"]), (&"landlock".into(), &Value::Array(Vec::new())));
    // The control: where it is there, it comes first.
    world.run(["--result", &world.text("o/result"), "/bin/true"]).env("PATH", PATHS).done().is(0, "", "");
    let result: Value = serde_json::from_str(&world.read("o/result")).unwrap();
    assert_eq!(result["backend"], "bwrap");
}

#[test]
fn a_policy_that_does_not_fit_is_refused_with_both_reasons() {
    if about_bwrap("the policy has the default list of backends") {
        return;
    }
    if !has_landlock() {
        return;
    }
    let world = World::new();
    world.write("w/d/f", "f");
    let run = |words: &[&str]| world.run([&EITHER[..], words].concat()).env("PATH", NO_BWRAP).done();
    let done = run(&["-w", "d", "--protect", "d/f", "/bin/touch", "ran"]);
    let done = done.refused(125, &["no bwrap in an absolute directory", "backend 'landlock': files-write (", "d/f"]);
    done.stderr_has("hint: install bubblewrap").stderr_has("hint: --allow-gap files-write accepts that");
    assert!(!world.has("w/ran"));
    let options = ["--result", &world.text("o/result"), "-w", "d", "--protect", "d/f", "--allow-gap", "files-write"];
    let done = run(&[&options[..], &["/bin/sh", "-c", "echo x >d/f"]].concat()).code(0);
    done.stderr_has("warning: not enforced, as accepted: files-write (").stderr_has("d/f");
    let result: Value = serde_json::from_str(&world.read("o/result")).unwrap();
    assert_eq!(result["gaps"][0]["protection"], "files-write", "{result}");
    // With bubblewrap nothing is missing, and nothing is given up.
    let words = ["-w", "d", "--protect", "d/f", "--allow-gap", "files-write", "--", "sh", "-c", "echo y >d/f"];
    world.run(words).done().code(2).stderr_has("Read-only").stderr_lacks("warning");
}

#[test]
fn auto_takes_it_where_namespaces_are_forbidden() {
    if !has_landlock() {
        return;
    }
    if !is_root() {
        eprintln!("not run: setting up hostile machines takes root");
        return;
    }
    let world = hostile_world();
    let secret = world.text("o/secret");
    // In `noproc` there is nothing to look after processes by.
    for mode in ["nouserns", "seccomp", "maskproc", "notmp", "nobwrap", "chroot", "nocaps", "user", "rofs"] {
        hostile(&world, mode, &["-q", "sh", "-c", "exit 7"]).done().is(7, "", "");
        let done = hostile(&world, mode, &["-q", "cat", &secret]).done().code(1).stdout("");
        assert!(done.stderr.contains("ermission denied") || done.stderr.contains("No such file"), "{}", done.stderr);
        hostile(&world, mode, &["-q", "-r", &secret, "cat", &secret]).done().is(0, "s3cret", "");
    }
    let done = hostile(&world, "noproc", &["sh", "-c", "exit 7"]).done();
    done.refused(125, &["/proc/self", "what the command leaves behind"]);
}

#[test]
fn the_plan_shows_every_rule() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    world.write("w/.env", "");
    world.write("w/file", "");
    let o = world.text("o");
    let show = |form: &str| world.run(["-b", "landlock", "-w", &o, form, "true"]).done().code(0).stderr("").out();
    let text = show("--dry-run");
    assert_eq!(text, show("--dry-run"), "the same bytes each time");
    for line in [
        "backend: landlock",
        &format!("  list {}", world.text("w")),
        &format!("  read {}", world.text("w/file")),
        &format!("  write {o}"),
        "  write {private}/tmp",
        "  write {private}/home",
        "  device /dev/null",
        "  read /usr",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert!(text.contains("system calls refused: ") && text.contains(", network, Unix sockets, "), "{text}");
    assert!(!text.contains(&world.text("w/.env\n")) || text.contains("note: "), "{text}");
    let json: Value = serde_json::from_str(&show("--dry-run=json")).unwrap();
    assert_eq!((&json["landlock"]["tcp"], &json["launcher"]), (&false.into(), &Value::Null));
    let rules = json["landlock"]["rules"].as_array().unwrap();
    assert!(rules.iter().all(|rule| rule["path"] != world.text("w/.env").as_str()), "{rules:?}");
}

#[test]
fn explanations_come_from_the_rules() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    world.write("w/.env", "s3cret");
    world.write("w/file", "");
    let explain = |options: &[&str], path: &str| -> Value {
        let words = [&["-q", "-b", "landlock"], options, &["--json", "--explain", path]].concat();
        let report: Value = serde_json::from_str(&world.run(words).done().code(0).out()).unwrap();
        report["paths"][0].clone()
    };
    let flags = |found: &Value| ["visible", "readable", "writable", "agrees"].map(|key| found[key].as_bool().unwrap());
    let o = world.text("o/secret");
    for (options, path, expected) in [
        (&[][..], "file", [true, true, false, true]),
        (&[], ".env", [false, false, false, true]),
        (&["--show-hidden", ".env"], ".env", [true, true, false, true]),
        (&[], &o, [false, false, false, true]),
        (&["-r", &o], &o, [true, true, false, true]),
        (&["-w", &o], &o, [true, true, true, true]),
        (&[], "new", [false, false, false, true]),
        (&["-w", ".", "--show-hidden", "*"], "new", [false, false, true, true]),
        (&["-w", ".", "--allow-gap", "masks"], ".env", [true, true, true, true]),
        (&[], "/tmp", [false, false, false, true]),
        (&[], "/usr/bin/env", [true, true, false, true]),
    ] {
        let found = explain(options, path);
        assert_eq!(flags(&found), expected, "{options:?} {path}: {found}");
    }
}

#[test]
fn a_result_where_the_command_could_write_is_refused() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    for option in ["--result", "--audit-log"] {
        let words = ["-b", "landlock", "-w", ".", option, "file", "touch", "ran"];
        world.run(words).done().refused(125, &["the command could"]);
        assert!(!world.has("w/ran"));
        let words = ["-b", "landlock", "-w", ".", option, &world.text("o/file"), "touch", "ran"];
        world.run(words).done().is(0, "", "");
        std::fs::remove_file(world.path("w/ran")).unwrap();
    }
}
