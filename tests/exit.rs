//! The exit status tells how the command ended, or why it never started.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::harness::{Done, World, backends, find, is_root, skip};

/// `/dev/full`, to be written to.
fn full() -> File {
    File::options().write(true).open("/dev/full").expect("/dev/full")
}

#[test]
fn the_status_of_the_command_is_ours() {
    for backend in backends() {
        for code in [0, 1, 2, 77, 124, 125, 126, 127, 128, 137, 254, 255] {
            let script = format!("echo out; echo err >&2; exit {code}");
            World::new().sh(backend, &script).done().is(code, "out\n", "err\n");
        }
    }
}

#[test]
fn death_by_a_signal_is_128_and_its_number() {
    for backend in backends() {
        // The last two are real-time signals.
        for signal in [1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 31, 34, 64] {
            World::new().sh(backend, &format!("kill -{signal} $$")).done().is(128 + signal, "", "");
        }
    }
}

#[test]
fn signals_that_end_others_inside_change_nothing() {
    for backend in backends() {
        for signal in [9, 15, 34, 64] {
            // The first is a child of the shell; the second loses its parent and falls to whoever buries orphans.
            let script = format!(
                "sh -c 'kill -{signal} $$'; echo $?
                 sh -c \"sh -c 'kill -{signal} \\$\\$' & echo left\"
                 sleep 0.1; exit 5"
            );
            let done = World::new().sh(backend, &script).done().code(5);
            assert_eq!(done.out(), format!("{}\nleft\n", 128 + signal));
        }
    }
}

#[test]
fn what_cannot_be_executed_is_126() {
    let world = World::new();
    let touched = "#!/bin/sh\ntouch \"$PWD/ran\"\n";
    fs::set_permissions(world.script("w/plain", touched), fs::Permissions::from_mode(0o644)).expect("mode");
    world.dir("w/directory");
    world.link("w/loop", "loop");
    world.script("w/no-interpreter", "#!/nope\n");
    world.script("w/interpreter-not-executable", &format!("#!{}\n", world.text("w/plain")));
    world.script("w/interpreter-is-a-directory", &format!("#!{}\n", world.text("w/directory")));
    world.script("w/broken", "\u{7f}ELFjunk");
    let before = world.snapshot();
    for backend in backends() {
        for (word, reason) in [
            ("./plain", "no execute permission"),
            ("./directory", "is a directory"),
            ("./loop", "too many levels of symbolic links"),
            ("./no-interpreter", "its interpreter '/nope' does not exist"),
            ("./interpreter-not-executable", "has no execute permission"),
            ("./interpreter-is-a-directory", "is a directory"),
            ("./broken", "exec format error"),
            ("./plain/x", "not a directory"),
        ] {
            let words = [&backend[..], &["--", word]].concat();
            world.run(words).done().refused(126, &[&format!("'{word}'"), reason]);
        }
    }
    assert_eq!(world.snapshot(), before);

    fs::set_permissions(world.path("w/plain"), fs::Permissions::from_mode(0o755)).expect("mode");
    world.run(["-w", ".", "--", "./plain"]).done().is(0, "", "");
    assert!(world.has("w/ran"), "control: the same file runs once it is executable");
}

#[test]
fn a_file_on_a_noexec_mount_is_126() {
    if !is_root() {
        return eprintln!("only root can mount: not tried");
    }
    let world = World::new();
    world.dir("w/mount");
    let script = format!(
        "mount -t tmpfs -o $1 none mount && cp /bin/true mount/thing && exec {} -- ./mount/thing",
        crate::harness::program().display()
    );
    let run = |options: &str| world.call("unshare", ["-m", "sh", "-c", &script, "_", options]).done();
    run("noexec").refused(126, &["'./mount/thing'", "noexec"]);
    run("exec").is(0, "", "");
}

#[test]
fn a_missing_loader_is_named() {
    let world = World::new();
    let original = fs::read("/bin/true").expect("/bin/true");
    let Some(at) = original.windows(7).position(|bytes| bytes == b"/lib64/" || bytes == b"/lib/ld") else {
        return skip("loader", "the loader of /bin/true has an unknown place");
    };
    let end = at + original[at..].iter().position(|byte| *byte == 0).expect("a NUL at the end");
    let mut broken = original.clone();
    broken[end - 1] = b'~';
    let loader = String::from_utf8_lossy(&broken[at..end]).into_owned();
    for (name, bytes) in [("w/broken", &broken), ("w/whole", &original)] {
        fs::set_permissions(world.write(name, bytes), fs::Permissions::from_mode(0o755)).expect("mode");
    }
    for backend in backends() {
        world.run([&backend[..], &["./broken"]].concat()).done().refused(126, &["'./broken'", &loader]);
        world.run([&backend[..], &["./whole"]].concat()).done().is(0, "", "");
    }
}

#[test]
fn a_missing_interpreter_is_named_and_one_behind_env_is_its_own_matter() {
    let world = World::new();
    world.script("w/direct", "#!/nope -x\n");
    world.script("w/by-env", "#!/usr/bin/env nope\n");
    world.script("w/good", "#!/bin/sh\necho good\n");
    for backend in backends() {
        let run = |word: &str| world.run([&backend[..], &["--", word]].concat()).done();
        run("./direct").refused(126, &["'./direct'", "'/nope'"]);
        run("./by-env").is(127, "", &world.call("./by-env", [""; 0]).done().code(127).stderr);
        run("./good").is(0, "good\n", "");
    }
}

#[test]
fn a_script_without_an_interpreter_line_runs_by_the_shell() {
    let world = World::new();
    world.script("w/plain", "echo \"$0 $*\"; exit 4\n");
    world.script("w/empty", "");
    world.script("w/blank", "#!\necho blank\n");
    for backend in backends() {
        let run = |words: &[&str]| world.run([&backend[..], words].concat()).done();
        run(&["./plain", "a", "b c"]).is(4, "./plain a b c\n", "");
        run(&["./empty"]).is(0, "", "");
        run(&["./blank"]).is(0, "blank\n", "");
    }
}

#[test]
fn a_hidden_command_is_127_and_the_hint_says_by_what() {
    let world = World::new();
    let tool = world.script("o/tool", "#!/bin/sh\necho tool\n");
    let (o, tool) = (world.text("o"), tool.to_str().expect("text"));
    let reason = format!("exists on the host and is hidden by the mask on '{o}'");
    let hint = format!("hint: --read '{tool}' shows");
    // Without a sandbox nothing is hidden.
    for backend in backends().filter(|words| !words.contains(&"none")) {
        let run = |words: &[&str]| world.run([&backend[..], words].concat()).done();
        run(&["--mask", &o, "--", tool]).refused(127, &[tool, &reason]).stderr_has(&hint);
        run(&["--mask", &o, "--read", tool, "--", tool]).is(0, "tool\n", "");
        run(&["--", tool]).is(0, "tool\n", "");
    }
}

#[test]
fn a_command_line_that_cannot_be_read_is_125() {
    let world = World::new();
    let before = world.snapshot();
    for (words, named) in [
        (&[][..], "no command"),
        (&["--"], "no command"),
        (&["--no-such-option", "touch", "x"], "'--no-such-option'"),
        (&["-w", ".", "--tmp-size", "abc", "touch", "x"], "'abc'"),
        (&["-w", ".", "--kill-after", "abc", "touch", "x"], "'abc'"),
        (&["-w", ".", "-r", "/missing", "touch", "x"], "'/missing'"),
        (&["-w", ".", "--net", "maybe", "touch", "x"], "'maybe'"),
        (&["-w", ".", "-b", "nothing", "touch", "x"], "'nothing'"),
        (&["-w", ".", "-C", "/missing", "touch", "x"], "'/missing'"),
        (&["-w", ".", "--read"], "'--read'"),
    ] {
        world.run(words).done().refused(125, &[named]);
    }
    assert_eq!(world.snapshot(), before);
    world.run(["-w", ".", "--tmp-size", "1M", "-r", "/usr", "--net", "off", "touch", "x"]).done().is(0, "", "");
    assert!(world.has("w/x"), "control: the corrected line runs");
}

#[test]
fn help_and_version_go_to_stdout() {
    let world = World::new();
    for word in ["--help", "-h"] {
        world.run([word]).done().code(0).stderr("").stdout_has("Usage: sandbox-run");
    }
    world.run(["--version"]).done().is(0, concat!("sandbox-run ", env!("CARGO_PKG_VERSION"), "\n"), "");
}

#[test]
fn what_cannot_be_printed_is_a_failure() {
    let world = World::new();
    for words in [
        &["--help"][..],
        &["-h"],
        &["--version"],
        &["--dry-run", "true"],
        &["--dry-run=json", "true"],
        &["--check"],
        &["--check", "--json"],
        &["--completions", "bash"],
    ] {
        world.run(words).stdout(full()).done().refused(125, &["standard output", "no space left"]);
        world.run(words).closed(&[1]).done().refused(125, &["standard output"]);
        world.run(words).closed(&[0, 1, 2]).done().is(125, "", "");
        assert!(!world.run(words).done().code(0).stdout.is_empty(), "control: {words:?} prints");
    }
}

#[test]
fn messages_that_nobody_can_read_change_no_status() {
    let world = World::new();
    for (words, code) in [
        (&["no-such-command"][..], 127),
        (&["."], 126),
        (&["--no-such-option"], 125),
        (&["-b", "none", "sh", "-c", "exit 3"], 3),
        (&["-vvv", "sh", "-c", "exit 3"], 3),
    ] {
        assert!(!world.run(words).done().code(code).stderr.is_empty(), "control: {words:?} has a message");
        world.run(words).stderr(full()).done().is(code, "", "");
        world.run(words).closed(&[2]).done().is(code, "", "");
    }
}

#[test]
fn a_broken_stdout_is_for_the_command_to_report() {
    let world = World::new();
    let echo = find("echo").expect("echo");
    let same = |inside: Done, outside: Done| {
        assert_ne!(outside.code, Some(0), "control: it fails outside");
        inside.is(outside.code.expect("status"), "", &outside.stderr);
    };
    for backend in backends() {
        let words = [&backend[..], &["--", echo.to_str().expect("text"), "x"]].concat();
        same(world.run(&words).stdout(full()).done(), world.call(&echo, ["x"]).stdout(full()).done());
        same(world.run(&words).closed(&[1]).done(), world.call(&echo, ["x"]).closed(&[1]).done());
        world.run(&words).done().is(0, "x\n", "");
    }
}

#[test]
fn a_path_lookup_takes_the_first_that_can_be_executed() {
    let world = World::new();
    let plain = world.script("o/plain/tool", "#!/bin/sh\necho plain\n");
    fs::set_permissions(plain, fs::Permissions::from_mode(0o644)).expect("mode");
    world.dir("o/directory/tool");
    world.script("o/good/tool", "#!/bin/sh\necho good $0\n");
    world.script("o/script/tool", "echo script $0\n");
    let (plain, directory) = (world.text("o/plain"), world.text("o/directory"));
    let (good, script) = (world.text("o/good"), world.text("o/script"));
    fs::write(world.path("w/tool"), "#!/bin/sh\n").expect("file");
    for backend in backends() {
        let run = |word: &str, entries: &[&str]| {
            let path = [entries, &["/usr/bin"]].concat().join(":");
            world.run([&backend[..], &["--", word]].concat()).env("PATH", path).done()
        };
        run("tool", &[&plain, &directory, &good]).is(0, &format!("good {good}/tool\n"), "");
        run("tool", &[&script, &good]).is(0, &format!("script {script}/tool\n"), "");
        run("tool", &[&plain]).refused(126, &["'tool'", "no execute permission"]);
        run("tool", &[&directory]).refused(126, &["'tool'", "is a directory"]);
        // A word with a slash is that file and no other.
        run("./tool", &[&good]).refused(126, &["'./tool'", "no execute permission"]);
    }
}

#[test]
fn only_absolute_directories_of_path_are_searched() {
    let world = World::new();
    world.script("w/mytool", "#!/bin/sh\necho mine\n");
    let bin = world.script("o/bin/mytool", "#!/bin/sh\necho absolute\n");
    let locked = world.dir("o/locked");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).expect("mode");
    let path = |entries: &[PathBuf]| {
        let entries: Vec<_> = entries.iter().map(|entry| entry.to_str().expect("text")).collect();
        entries.join(":")
    };
    let poor = [locked, "".into(), ".".into(), "..".into(), "w".into(), "/usr/bin".into()];
    let rich = [&poor[..], &[bin.parent().expect("directory").to_owned()]].concat();
    for backend in backends() {
        let run = |word: &str, entries: &[PathBuf]| {
            world.run([&backend[..], &["--", word]].concat()).env("PATH", path(entries)).done()
        };
        run("nosuchcmd", &poor).refused(127, &["'nosuchcmd'"]);
        run("mytool", &poor).refused(127, &["'mytool'"]);
        run("./mytool", &poor).is(0, "mine\n", "");
        run("mytool", &rich).is(0, "absolute\n", "");
    }
    fs::set_permissions(world.path("o/locked"), fs::Permissions::from_mode(0o700)).expect("mode");
}
