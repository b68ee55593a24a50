//! Inside another sandbox or a container: sandboxed again, or refused with the obstacle named; never bare.

use std::ffi::OsString;

use crate::check::{HARMLESS, OBSTACLES, hostile, hostile_world};
use crate::harness::{Call, Done, World, find, has_landlock, is_root, program};

/// Backends that take namespaces.
const BOTH: [&str; 2] = ["bwrap", "namespace"];

/// `sandbox-run OPTIONS -- sandbox-run OPTIONS -- … COMMAND`, one layer for each of `layers`, under `backend` where no other is named.
fn nested_by(backend: &str, world: &World, layers: &[&[&str]], command: &[&str]) -> Call {
    let mut words: Vec<OsString> = Vec::new();
    for (depth, options) in layers.iter().enumerate() {
        if depth > 0 {
            words.push(program().into());
        }
        // What Landlock makes of it has tests of its own.
        if !options.contains(&"-b") {
            words.extend(["-b", backend].map(OsString::from));
        }
        words.extend(options.iter().map(OsString::from));
        words.push("--".into());
    }
    words.extend(command.iter().map(OsString::from));
    world.run(words)
}

fn nested(world: &World, layers: &[&[&str]], command: &[&str]) -> Call {
    nested_by("bwrap", world, layers, command)
}

#[track_caller]
fn already_inside(done: Done) {
    done.refused(125, &["cannot start the sandbox"])
        .stderr_has("hint: this is already inside a container or another sandbox");
}

#[test]
fn a_second_sandbox_says_why_not() {
    let world = World::new();
    let (granted, secret) = (world.text("o"), world.text("o/secret"));
    let read = ["-r", &granted];
    let before = world.snapshot();
    for layers in
        [&[&[][..], &[]][..], &[&[], &[], &[]], &[&read, &[]], &[&[], &["-w", "."]], &[&["--net", "host"], &[]]]
    {
        for backend in BOTH {
            already_inside(nested_by(backend, &world, layers, &["cat", &secret]).done());
            already_inside(nested_by(backend, &world, layers, &["touch", "ran"]).done());
        }
    }
    // A grant of what the outer one hides is a grant of what does not exist.
    nested(&world, &[&[], &read], &["cat", &secret]).done().refused(125, &[&granted, "no such file or directory"]);
    assert_eq!(world.snapshot(), before);
    // The controls: one layer reads it, and so does a second one that asks for no sandbox of its own.
    for backend in BOTH {
        nested_by(backend, &world, &[&read], &["cat", &secret]).done().is(0, "s3cret", "");
    }
    nested(&world, &[&read, &["-q", "-b", "none"]], &["cat", &secret]).done().is(0, "s3cret", "");
    let done = nested(&world, &[&[], &["-q", "-b", "none"]], &["cat", &secret]).done();
    done.code(1).stdout("").stderr_has("No such file");
    nested(&world, &[&[], &["-q", "-b", "bwrap,none"]], &["cat", &secret]).done().code(1).stderr_has("No such file");
}

/// Landlock needs no namespace, and no layer gives back what another took.
#[test]
fn a_second_sandbox_is_made_by_landlock() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    let (granted, secret) = (world.text("o"), world.text("o/secret"));
    let read = ["-r", &granted];
    let auto = ["-b", "auto"];
    nested(&world, &[&[], &auto], &["sh", "-c", "exit 7"]).done().is(7, "", "");
    nested(&world, &[&[], &auto], &["cat", &secret]).done().code(1).stdout("").stderr_has("No such file");
    let done = nested(&world, &[&read, &auto], &["cat", &secret]).done();
    done.code(1).stdout("").stderr_has("Permission denied");
    let inner = [&read[..], &auto].concat();
    nested(&world, &[&read, &inner], &["cat", &secret]).done().is(0, "s3cret", "");
    nested(&world, &[&[], &inner], &["cat", &secret]).done().refused(125, &[&granted, "no such file or directory"]);
}

#[test]
fn the_program_answers_inside() {
    let world = World::new();
    let inside = |word: &str| world.run([OsString::from("--"), program().into(), word.into()]).done();
    inside("--version").is(0, &world.run(["--version"]).done().code(0).out(), "");
    inside("--check")
        .code(if has_landlock() { 0 } else { 125 })
        .stdout_has("remedy: this is already inside")
        .stderr("");
}

#[test]
fn a_second_sandbox_is_told_nothing_by_the_marker() {
    let world = World::new();
    for value in ["1", "3 x", "outer", ""] {
        let marker = format!("SANDBOX_RUN_STAGE={value}");
        let shown = [OsString::from("-r"), program().into(), "--".into()];
        let words = shown.into_iter().chain(["env".into(), marker.into(), program().into()]);
        let words = words.chain(["-b", "bwrap", "true"].map(OsString::from));
        already_inside(world.run(words).done());
    }
}

/// A sandbox made by bubblewrap itself, and what a run inside it says: `None` when it works.
fn outer(options: &[&str], backend: &str, command: &[&str]) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["--ro-bind", "/", "/", "--dev", "/dev"].map(OsString::from).to_vec();
    words.extend(options.iter().map(OsString::from));
    words.extend(["--".into(), program().into(), "-b".into(), backend.into(), "--".into()]);
    words.extend(command.iter().map(OsString::from));
    words
}

#[test]
fn inside_another_sandbox() {
    const PROC: &[&str] = &["--unshare-user", "--unshare-pid", "--proc", "/proc"];
    let root = is_root();
    let masked = root.then_some("parts of /proc are masked here");
    let no_caps = root.then_some("took the capabilities away");
    let read_only = Some("already inside a sandbox whose /proc is read-only");
    let world = World::new();
    let secret = world.text("o/secret");
    let bwrap = find("bwrap").expect("bwrap");
    for (options, obstacle) in [
        (vec![], read_only),
        (vec!["--unshare-user", "--unshare-pid"], read_only),
        (vec!["--unshare-user", "--ro-bind", "/proc", "/proc"], read_only),
        (vec!["--unshare-user", "--bind", "/proc", "/proc"], None),
        (vec!["--unshare-user", "--tmpfs", "/proc"], Some("/proc is not mounted here")),
        (PROC.to_vec(), masked),
        ([PROC, &["--cap-drop", "ALL"]].concat(), no_caps),
        ([PROC, &["--unshare-net", "--new-session"]].concat(), masked),
        (
            [PROC, &["--disable-userns"]].concat(),
            Some("already inside a sandbox that allows no further user namespaces"),
        ),
    ] {
        for backend in BOTH {
            let run = |command: &[&str]| world.call(&bwrap, outer(&options, backend, command)).done();
            match obstacle {
                None => {
                    run(&["sh", "-c", "exit 7"]).is(7, "", "");
                    run(&["cat", &secret]).code(1).stdout("").stderr_has("No such file");
                }
                Some(obstacle) => {
                    run(&["sh", "-c", "exit 7"]).refused(125, &["cannot start the sandbox"]);
                    let done = run(&["cat", &secret]).refused(125, &["cannot start the sandbox"]);
                    assert!(done.stderr.contains(obstacle), "{options:?}: {}", done.stderr);
                }
            }
        }
    }
    // The control, without the outer one.
    world.run(["-r", &world.text("o"), "cat", &secret]).done().is(0, "s3cret", "");
}

#[test]
fn root_of_a_user_namespace_is_no_root() {
    let world = World::new();
    for backend in BOTH {
        let run = |command: &[&str]| {
            let mut words: Vec<OsString> =
                vec!["-Ur".into(), program().into(), "-b".into(), backend.into(), "--".into()];
            words.extend(command.iter().map(OsString::from));
            world.call("unshare", words).done()
        };
        run(&["sh", "-c", "exit 7"]).is(7, "", "");
        run(&["cat", &world.text("o/secret")]).code(1).stdout("").stderr_has("No such file");
        run(&["sh", "-c", "grep ^Cap /proc/self/status | grep -v 0000000000000000"]).is(1, "", "");
    }
}

#[test]
fn hostile_machines_run_it_whole_or_not_at_all() {
    if !is_root() {
        eprintln!("not run: setting up hostile machines takes root");
        return;
    }
    let world = hostile_world();
    let secret = world.text("o/secret");
    for (mode, backend) in HARMLESS.iter().flat_map(|mode| BOTH.map(|backend| (mode, backend))) {
        hostile(&world, mode, &["-b", backend, "--", "sh", "-c", "exit 7"]).done().is(7, "", "");
        hostile(&world, mode, &["-b", backend, "cat", &secret]).done().code(1).stdout("").stderr_has("No such file");
    }
    for (mode, cause, remedy, own) in OBSTACLES {
        for command in [&["sh", "-c", "exit 7"][..], &["cat", &secret], &["true"]] {
            let done = hostile(&world, mode, &[&["-b", "bwrap", "--"], command].concat()).done().refused(125, &[cause]);
            assert!(done.stderr.contains(remedy), "{mode}: {}", done.stderr);
            let by_us = hostile(&world, mode, &[&["-b", "namespace", "--"], command].concat()).done();
            match own {
                Some([cause, remedy]) => by_us.refused(125, &[cause]).stderr_has(remedy),
                None => by_us.stderr_lacks("sandbox-run: "),
            };
        }
        if own.is_none() {
            hostile(&world, mode, &["-b", "namespace", "sh", "-c", "exit 7"]).done().is(7, "", "");
        }
    }
    hostile(&world, "user", &["-r", &world.text("o"), "cat", &secret]).done().is(0, "s3cret", "");
}

#[test]
fn a_masked_proc_is_accepted_by_name_only() {
    if !is_root() {
        eprintln!("not run: setting up hostile machines takes root");
        return;
    }
    let world = hostile_world();
    let secret = world.text("o/secret");
    let lost = "sandbox-run: warning: not enforced, as accepted: processes (/proc of the host shows through, with the \
                command lines of all its processes)\n";
    for (backend, refused) in
        [("bwrap", "Can't mount proc"), ("namespace", "cannot mount a file system of the kernel on '/proc'")]
    {
        let run = |mode, command: &[&str]| {
            hostile(&world, mode, &[&["-b", backend, "--allow-gap", "processes", "--"], command].concat()).done()
        };
        run("maskproc", &["sh", "-c", "exit 7"]).is(7, "", lost);
        run("maskproc", &["cat", &secret]).code(1).stdout("").stderr_has("No such file");
        run("maskproc", &["sh", "-c", "test -d /proc/self && cat /proc/1/cmdline >/dev/null"]).is(0, "", lost);
        // What shows through are command lines, no variables, and nothing can be signalled.
        let pid = std::process::id();
        let peek = format!("cat /proc/{pid}/environ || kill -0 {pid} || ls /proc/{pid}/root/");
        run("maskproc", &["sh", "-c", &peek]).code(2).stdout("");
        // Another gap does not stand for it.
        hostile(&world, "maskproc", &["-b", backend, "--allow-gap", "network,masks", "true"])
            .done()
            .refused(125, &[refused]);
        // The control: where nothing is masked nothing is lost.
        run("user", &["sh", "-c", "echo /proc/[0-9]*"]).is(0, "/proc/1 /proc/2\n", "");
    }
}
