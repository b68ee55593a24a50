//! Programs that call themselves bwrap: none of them makes a run end well, let alone without a sandbox.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::harness::{Call, Done, PATHS, World, about_bwrap, is_root, processes_with};

/// PATH of a call that finds the programs in `dir` of `world` first.
pub fn first(world: &World, dir: &str) -> String {
    format!("{}:{PATHS}", world.text(dir))
}

/// A world with this script as `fake/bwrap`.
pub fn world_with(script: &str) -> World {
    let world = World::new();
    world.script("fake/bwrap", script);
    world
}

/// A script that is bubblewrap, with the changes that `settings` name: see `fixtures/wrapper.py`.
pub fn wrapper(world: &World, settings: &str) {
    world.write("fake/wrapper.py", include_str!("fixtures/wrapper.py"));
    let wrapper = world.text("fake/wrapper.py");
    world.script("fake/bwrap", &format!("#!/bin/sh\nexec /usr/bin/python3 {wrapper} {settings} -- \"$@\"\n"));
}

/// A command that shows a granted secret and leaves a file, by the bwrap in `fake`.
fn tempted(world: &World) -> Call {
    let (fake, secret) = (first(world, "fake"), world.text("o/secret"));
    world.sh(["-b", "bwrap", "-r", &world.text("o"), "-w", "."], &format!("touch ran; cat {secret}")).env("PATH", fake)
}

/// The run was refused and nothing of the command was carried out.
#[track_caller]
fn nothing_ran(world: &World, done: Done, words: &[&str]) -> Done {
    let done = done.refused(125, words);
    assert!(!world.has("w/ran"), "the command ran");
    done
}

/// A time to sleep that nobody else sleeps: to find the process again.
pub fn nap() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("600.{}{:04}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

const PYTHON: &str = "#!/usr/bin/python3
import os, socket, stat, struct
fds = [int(name) for name in os.listdir('/proc/self/fd') if int(name) > 2]
open_fds = [fd for fd in fds if os.path.exists(f'/proc/self/fd/{fd}')]
sockets = [fd for fd in open_fds if stat.S_ISSOCK(os.fstat(fd).st_mode)]
assert sockets
";

#[test]
fn the_real_one_runs_the_command() {
    let world = World::new();
    wrapper(&world, "");
    tempted(&world).done().is(0, "s3cret", "");
    assert!(world.has("w/ran"));
}

#[test]
fn a_program_that_starts_nothing_is_no_success() {
    if about_bwrap("a program in place of bubblewrap") {
        return;
    }
    let json = "text = b'{\"child-pid\": 2}\\n{\"exit-code\": 0}\\n'\n";
    let write = "for fd in sockets + [1, 2]: os.write(fd, text)\n";
    for (script, words) in [
        ("#!/bin/sh\nexit 0\n".to_owned(), &["ended before it started the command"][..]),
        ("#!/bin/sh\nexit 1\n".to_owned(), &["ended before"]),
        ("#!/bin/sh\necho s3cret\nexit 0\n".to_owned(), &["ended before"]),
        ("#!/bin/sh\nkill -9 $$\n".to_owned(), &["ended before"]),
        ("#!/bin/sh\nkill -TERM $$\n".to_owned(), &["ended before"]),
        ("#!/bin/sh\necho 'bwrap: quite another text' >&2\nexit 1\n".to_owned(), &["bwrap: quite another text"]),
        ("#!/bin/sh\nprintf '\\n\\n' >&2\nexit 1\n".to_owned(), &["ended before"]),
        ("#!/nope\n".to_owned(), &["cannot execute", "no such file or directory"]),
        (String::new(), &["cannot execute", "exec format error"]),
        (format!("{PYTHON}{json}{write}"), &["with backend 'bwrap'"]),
        (format!("{PYTHON}{json}{write}os.kill(os.getpid(), 9)\n"), &["with backend 'bwrap'"]),
    ] {
        let world = world_with(&script);
        let before = world.snapshot();
        let done = nothing_ran(&world, tempted(&world).done(), words);
        assert!(done.stderr.contains("hint: ") && done.stderr.contains(&world.text("fake/bwrap")), "{}", done.stderr);
        assert_eq!(world.snapshot(), before, "{script}");
    }
}

/// The records of the control socket, made up: `Exited(0)`, and with everything that has to go before it.
#[test]
fn made_up_reports_are_no_success() {
    if about_bwrap("a program in place of bubblewrap") {
        return;
    }
    let send = "
for fd in sockets:
    end = socket.socket(fileno=fd)
    for tag, handle in RECORDS:
        record = struct.pack('=BBi', tag, 0, 0)
        handles = [os.pidfd_open(os.getpid())] if handle else []
        socket.send_fds(end, [record], handles)
";
    for records in [
        "(5, False)",
        "(0, False), (3, False), (5, False)",
        "(3, True), (5, False)",
        "(0, True), (5, False)",
        "(0, True), (7, False)",
        "(0, True), (4, False)",
        "(0, True), (6, False)",
        "(0, True), (0, True)",
        "(99, False)",
    ] {
        let world = world_with(&format!("{PYTHON}{}", send.replace("RECORDS", &format!("[{records}]"))));
        nothing_ran(&world, tempted(&world).done(), &["with backend 'bwrap'"]);
    }
}

#[test]
fn a_program_that_only_starts_what_it_is_told_to_is_found_out() {
    if about_bwrap("a program in place of bubblewrap") {
        return;
    }
    let script = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift\nexec \"$@\"\n";
    let world = world_with(script);
    let done = nothing_ran(&world, tempted(&world).done(), &["confirm that the process is inside the sandbox"]);
    assert!(done.stderr.contains("did not build the sandbox"), "{}", done.stderr);
}

#[test]
fn a_program_that_starts_the_command_itself_runs_nothing_of_it() {
    if about_bwrap("a program in place of bubblewrap") {
        return;
    }
    // It knows the command only from the hand-off; the arguments that it is given hold none of it.
    let script = "#!/bin/sh\necho \"$@\" >&2\nexit 1\n";
    let world = world_with(script);
    let done = nothing_ran(&world, tempted(&world).done(), &["--args"]);
    assert!(!done.stderr.contains("cat"), "{}", done.stderr);
}

#[test]
fn a_sandbox_that_lacks_a_part_is_found_out() {
    if about_bwrap("a program in place of bubblewrap") {
        return;
    }
    let not_isolated = "confirm that the process is inside the sandbox";
    let privileges = "confirm that all privileges are gone";
    let view = "confirm that the files inside are the ones that were planned";
    let incomplete = "confirm that the launcher did everything it was told";
    let mut rows = vec![
        ("drops=--unshare-net".to_owned(), not_isolated),
        ("drops=--unshare-pid".to_owned(), "with backend 'bwrap'"),
        ("drops=--as-pid-1".to_owned(), not_isolated),
        // The last words make the root and then nothing read-only: `--remount-ro /dev --remount-ro / --chdir /`.
        ("ends=6".to_owned(), incomplete),
    ];
    if is_root() {
        // For an ordinary user bubblewrap does this by itself.
        rows.push(("drops=--unshare-user".to_owned(), not_isolated));
        rows.push(("drops=--cap-drop+ALL".to_owned(), privileges));
    }
    for (settings, words) in rows {
        let world = World::new();
        wrapper(&world, &settings);
        nothing_ran(&world, tempted(&world).done(), &[words]);
    }
    let world = World::new();
    world.write("w/masked/inside", "s3cret");
    let (grant, masked) = (world.text("o"), world.text("w/masked"));
    let mask = format!("drops=--perms+0555+--size+1048576+--tmpfs+{masked},--remount-ro+{masked}");
    for settings in [format!("drops=--ro-bind+{grant}+{grant}"), mask] {
        wrapper(&world, &settings);
        let call = world.sh(["-b", "bwrap", "-r", &grant, "-w", ".", "--mask", "masked"], "touch ran; cat masked/*");
        nothing_ran(&world, call.env("PATH", first(&world, "fake")).done(), &[view]);
    }
}

#[test]
fn what_it_says_cannot_drive_a_terminal() {
    if about_bwrap("a program in place of bubblewrap") {
        return;
    }
    let world = world_with("#!/bin/sh\nprintf 'bwrap: \\033]0;x\\007\\033[2Jgone\\n' >&2\nexit 1\n");
    let done = nothing_ran(&world, tempted(&world).done(), &["gone"]);
    assert!(!done.stderr.bytes().any(|byte| byte < b' ' && byte != b'\n'), "{:?}", done.stderr);
}

#[test]
fn what_it_says_without_end_is_cut() {
    if about_bwrap("a program in place of bubblewrap") {
        return;
    }
    let world = world_with("#!/bin/sh\nyes no | head -c 10000000 | tr -d '\\n' >&2\nexit 1\n");
    let done = tempted(&world).done().code(125).stdout("");
    assert!(done.stderr.len() < 200_000, "{} bytes", done.stderr.len());
}

#[test]
fn what_cannot_be_executed_is_not_found() {
    if about_bwrap("a program in place of bubblewrap") {
        return;
    }
    let world = World::new();
    world.write("fake/bwrap", "#!/bin/sh\nexit 0\n");
    world.dir("fake2/bwrap");
    let path = format!("{}:{}", world.text("fake"), world.text("fake2"));
    let done = world.run(["-b", "bwrap", "/bin/cat", &world.text("o/secret")]).env("PATH", path).done();
    done.refused(125, &["no bwrap in an absolute directory of PATH"]).stderr_has("hint: install bubblewrap");
    // With another one behind it, that one is taken, as a shell would.
    tempted(&world).done().is(0, "s3cret", "");
}

/// The one slow test of this kind: ten seconds.
#[test]
fn one_that_hangs_is_ended_with_all_it_started() {
    if about_bwrap("a program in place of bubblewrap") {
        return;
    }
    let nap = nap();
    let world = world_with(&format!("#!/bin/sh\nexec 2>/dev/null\nsetsid sleep {nap} &\nsleep {nap}\nexit 0\n"));
    let done = nothing_ran(&world, tempted(&world).done(), &["did not start the command within 10 s"]);
    assert!(done.took > Duration::from_secs(9) && done.took < Duration::from_secs(20), "{:?}", done.took);
    assert_eq!(processes_with(&nap), [0; 0], "processes are left");
}

#[test]
fn one_that_fails_and_hangs_when_asked_what_it_can_do_is_ended() {
    if about_bwrap("a program in place of bubblewrap") {
        return;
    }
    let nap = nap();
    let world = world_with(&format!("#!/bin/sh\nif [ \"$1\" = --help ]; then sleep {nap}; fi\nexit 1\n"));
    let done = nothing_ran(&world, tempted(&world).done(), &["ended before"]);
    assert!(done.took < Duration::from_secs(20), "{:?}", done.took);
    assert_eq!(processes_with(&nap), [0; 0], "processes are left");
}

#[test]
fn one_that_hangs_after_the_command_does_not_change_its_status() {
    let nap = nap();
    let world = world_with(&format!("#!/bin/sh\n/usr/bin/bwrap \"$@\"\nsleep {nap}\nexit 0\n"));
    let done = world.sh(["-b", "bwrap"], "echo out; exit 3").env("PATH", first(&world, "fake")).done();
    let done = done.is(3, "out\n", "");
    assert!(done.took < Duration::from_secs(20), "{:?}", done.took);
    assert_eq!(processes_with(&nap), [0; 0], "processes are left");
}
