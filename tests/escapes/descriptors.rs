//! Open directories as ladders: the launcher's own, the caller's, those of every process inside.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;

use super::python;
use crate::harness::{World, is_root};

/// runc let the working directory be a descriptor of the host that it had left open.
#[test]
fn no_open_directory_leads_out() {
    let world = World::new();
    let secret = world.text("o/secret");
    let root = || File::open("/").unwrap();
    let script = "for p in /proc/[0-9]*/fd/* /proc/[0-9]*/task/*/fd/* /proc/[0-9]*/cwd /proc/[0-9]*/root /dev/fd/*; \
                  do cat \"$p$0\" 2>/dev/null && echo \" by $p\"; done; cat \".$0\" 2>/dev/null; true";
    let call = |options: &[&str]| world.run([options, &["--", "sh", "-c", script, &secret]].concat()).fd(root(), 7);
    let at_once = "/proc/self/fd/7";
    for options in [&[][..], &["-C", at_once], &["-w", "."], &["-r", "/etc", "-C", at_once]] {
        let done = call(options).done();
        if done.code == Some(125) {
            assert!(done.stderr.contains(at_once), "{}", done.stderr);
        } else {
            done.is(0, "", "");
        }
    }
    // The controls: kept on purpose it leads where it leads, and so it does outside.
    call(&["--keep-fd", "7"]).done().code(0).stdout_has("s3cret by /proc/");
    let outside = world.call("sh", ["-c", script, &secret]).fd(root(), 7).cwd("/").done();
    outside.code(0).stdout_has("/fd/7\n");
}

/// Without a write grant, too: the owner of a file changes its mode by any descriptor of it.
#[test]
fn a_stream_becomes_no_setuid_file_of_root() {
    let world = World::new();
    let script = "import os, sys
for number in map(int, sys.argv[1:]):
    for way in [lambda: os.fchmod(number, 0o4755), lambda: os.chmod(f'/proc/self/fd/{number}', 0o4755)]:
        try: way(); print('done')
        except OSError as error: print(error.strerror)";
    let mode = |name: &str| fs::metadata(world.path(name)).unwrap().permissions().mode() & 0o7777;
    let expected = if is_root() { "Operation not permitted\n" } else { "done\n" };
    for (name, options, number) in [("read", &[][..], "0"), ("kept", &["--keep-fd", "7"], "7")] {
        let path = world.write(&format!("o/{name}"), "");
        let file = || File::open(&path).unwrap();
        let done = python(&world, Some(options), script, &[number]).stdin_from(file()).fd(file(), 7).done();
        done.is(0, &expected.repeat(2), "");
        // What is another user's own that user may give any mode.
        assert_eq!(mode(&format!("o/{name}")) & 0o4000, if is_root() { 0 } else { 0o4000 }, "{name}");
        // The control.
        python(&world, None, script, &["0"]).stdin_from(file()).done().is(0, "done\ndone\n", "");
        assert_eq!(mode(&format!("o/{name}")), 0o4755, "{name}");
    }
    let written = world.write("o/written", "");
    let out = File::options().write(true).open(&written).unwrap();
    world.sh([""; 0], "chmod 4755 /dev/stdout").stdout(out).done().code(i32::from(is_root()));
    assert_eq!(mode("o/written") & 0o4000 != 0, !is_root());
}
