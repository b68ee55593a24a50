//! Each system call by which we build a sandbox, made to fail: nothing starts, the reason names what could not be done, and nothing
//! is left.

use std::collections::BTreeSet;

use crate::harness::{World, eventually, has};
use crate::life::{called, left, mark};

/// The calls, each with the error that it answers in turn at each of its places.
const CALLS: &[(&str, &str)] = &[
    ("clone", "EPERM"),
    ("unshare", "EPERM"),
    ("mount", "EPERM"),
    ("open_tree", "EPERM"),
    ("move_mount", "EPERM"),
    ("mount_setattr", "EPERM"),
    ("openat2", "EACCES"),
    ("mkdirat", "ENOSPC"),
    ("mknodat", "ENOSPC"),
    ("symlinkat", "ENOSPC"),
    ("sethostname", "EPERM"),
    ("socket", "EAFNOSUPPORT"),
    ("sendto", "EPERM"),
    ("recvfrom", "ENOBUFS"),
    ("fchdir", "EACCES"),
    ("pivot_root", "EINVAL"),
    ("umount2", "EINVAL"),
    ("chdir", "EACCES"),
    ("capset", "EPERM"),
    ("pidfd_open", "ENOSYS"),
];

/// Calls that may fail: what they do is had by other means, or kept by other walls as well.
const SPARED: &[(&str, &str)] = &[
    ("keyctl", "EDQUOT"),
    ("close_range", "ENOSYS"),
    ("openat2", "ENOSYS"),
    ("mount_setattr", "ENOSYS"),
    ("openat2", "EPERM"),
];

/// A run in which `call` fails with `error`, the `nth` time that a process makes it, or each time; and whether it came to that.
struct Injected {
    world: World,
    mark: String,
    link: String,
    log: World,
}

impl Injected {
    fn new() -> Self {
        let world = World::new();
        let mark = mark();
        let link = world.program_as(called(&mark)).to_str().expect("text").to_owned();
        world.write("w/sub/file", "text");
        world.write("w/.git/config", "");
        Self { world, mark, link, log: World::new() }
    }

    fn run(&self, call: &str, error: &str, nth: Option<usize>) -> (crate::harness::Done, bool) {
        let when = nth.map(|nth| format!(":when={nth}")).unwrap_or_default();
        let inject = format!("inject={call}:error={error}{when}");
        let log = self.log.text("o/log");
        let words = [
            "-f",
            "-qq",
            "-o",
            &log,
            "-e",
            &format!("trace={call}"),
            "-e",
            &inject,
            &self.link,
            "-q",
            "-b",
            "namespace",
        ];
        let options =
            ["-w", "sub", "--mask", "sub/file", "--", "sh", "-c", "echo ran; touch sub/ran; cat sub/file", &self.mark];
        let running = self.world.call("strace", words.iter().chain(&options)).spawn();
        let session = running.pid();
        let done = running.done();
        assert!(eventually(|| left(session, &self.mark).is_empty()), "{call}: something is left");
        (done, self.log.read("o/log").contains("(INJECTED)"))
    }
}

#[test]
fn a_call_that_fails_starts_nothing_and_is_named() {
    if !has("strace") {
        return;
    }
    for (call, error) in CALLS {
        let injected = Injected::new();
        let before = injected.world.snapshot();
        let mut reasons = BTreeSet::new();
        for nth in 1.. {
            let (done, hit) = injected.run(call, error, Some(nth));
            if !hit {
                done.is(0, "ran\n", "");
                assert!(!reasons.is_empty(), "control: {call} is made");
                break;
            }
            // The command itself, and what ends the run, make some of these as well.
            if done.stdout == b"ran\n" {
                break;
            }
            assert!(!done.stderr.contains("ended before it started"), "{call} {nth}: {}", done.stderr);
            reasons.insert(done.refused(125, &[]).stderr);
            assert_eq!(injected.world.snapshot(), before, "{call} {nth}");
        }
        assert!(!reasons.is_empty(), "control: {call} can fail");
    }
}

#[test]
fn a_call_that_can_be_done_without_changes_nothing() {
    if !has("strace") {
        return;
    }
    for (call, error) in SPARED {
        let injected = Injected::new();
        let (done, hit) = injected.run(call, error, None);
        done.is(0, "ran\n", "");
        assert!(hit && injected.world.has("w/sub/ran"), "control: {call} is made");
    }
}
