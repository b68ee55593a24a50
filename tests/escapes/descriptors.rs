//! Open directories as ladders: the launcher's own, the caller's, those of every process inside.

use std::fs::File;

use crate::harness::World;

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
