//! Each system call by which we build a sandbox, made to fail: nothing starts, the reason names what could not be done, and nothing
//! is left.

use std::collections::BTreeSet;

use crate::harness::{Done, World, eventually, has, is_root, program};
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

    fn run(&self, call: &str, error: &str, nth: Option<usize>) -> (Done, bool) {
        self.run_at(call, None, error, nth)
    }

    /// The same for a call about this path alone.
    fn run_at(&self, call: &str, path: Option<&str>, error: &str, nth: Option<usize>) -> (Done, bool) {
        let when = nth.map(|nth| format!(":when={nth}")).unwrap_or_default();
        let [trace, inject] = [format!("trace={call}"), format!("inject={call}:error={error}{when}")];
        let log = self.log.text("o/log");
        let mut words = vec!["-f", "-qq", "-o", &log, "-e", &trace, "-e", &inject];
        words.extend(path.iter().flat_map(|path| ["-P", path]));
        words.extend([&self.link, "-q", "-b", "namespace"]);
        words.extend(["-w", "sub", "--mask", "sub/file", "--", "sh", "-c"]);
        words.extend(["echo ran; touch sub/ran; cat sub/file", &self.mark]);
        let running = self.world.call("strace", words).spawn();
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

/// Files that are opened to be written, in this order, each once for either of the two user namespaces.
const FILES: [&str; 3] = ["self/setgroups", "self/uid_map", "self/gid_map"];

#[test]
fn a_file_that_cannot_be_opened_starts_nothing_and_is_named() {
    if !has("strace") {
        return;
    }
    for file in FILES {
        let injected = Injected::new();
        let before = injected.world.snapshot();
        for (nth, step) in [(1, "map the user into a namespace"), (2, "give up the say over what was mounted")] {
            let (done, hit) = injected.run_at("openat", Some(file), "EPERM", Some(nth));
            assert!(hit, "control: {file} is opened");
            done.refused(125, &[step, "operation not permitted"]);
            assert_eq!(injected.world.snapshot(), before, "{file} {nth}");
        }
    }
    // What else keeps the same is told in the code.
    let injected = Injected::new();
    let (done, hit) = injected.run_at("openat", Some("sys/user/max_user_namespaces"), "EACCES", None);
    assert!(hit, "control: it is opened");
    done.is(0, "ran\n", "");
    let (done, hit) = injected.run_at("openat", Some(FILES[0]), "EACCES", Some(1));
    assert!(hit, "control: it is opened, and once more by root's way");
    done.is(0, "ran\n", "");
}

/// Each write, be it to a file of `/proc` or to one in memory.
#[test]
fn a_file_that_cannot_be_written_starts_nothing_and_is_named() {
    if !has("strace") {
        return;
    }
    let injected = Injected::new();
    let before = injected.world.snapshot();
    let mut reasons = String::new();
    let mut ran = 0;
    for nth in 1.. {
        let (done, hit) = injected.run("write", "EPERM", Some(nth));
        if !hit {
            done.is(0, "ran\n", "");
            break;
        }
        if nth == 2 {
            // The first one that writes twice is the process that tells, and this is what it tells.
            done.code(125).stdout("").stderr_lacks("cannot");
        } else if done.code == Some(0) {
            ran += 1;
            done.is(0, "ran\n", "");
            std::fs::remove_file(injected.world.path("w/sub/ran")).expect("control: it ran");
            continue;
        } else {
            reasons += &done.refused(125, &["operation not permitted"]).stderr;
        }
        assert!(!injected.world.has("w/sub/ran"), "write {nth}");
    }
    for step in ["map the user into a namespace", "copy '/etc/passwd'", "give up the say over what was mounted"] {
        assert!(reasons.contains(step), "control: {step}: {reasons}");
    }
    // The number of user namespaces, which the filter limits as well.
    assert_eq!(ran, 1, "{reasons}");
    assert_eq!(injected.world.snapshot().len(), before.len() + 1, "control: the last one ran");
}

/// Becomes a program for which one operation of `prctl` fails with an error, both numbers.
const WITHOUT: &str = "
import ctypes, os, platform, struct, sys
operation, errno = map(int, sys.argv[1:3])
number = {'x86_64': 157, 'aarch64': 167}[platform.machine()]
steps = [(0x20, 0, 0, 0), (0x15, 0, 3, number), (0x20, 0, 0, 16), (0x15, 0, 1, operation), (6, 0, 0, 0x50000 | errno), (6, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *step) for step in steps))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, struct.pack('HP', len(steps), ctypes.addressof(code)), 0, 0) == 0
os.execv(sys.argv[3], sys.argv[3:])
";

/// What is set of a process, and what is asked: no capability is left by a call that fails, whatever its error seems to say.
#[test]
fn an_attribute_that_cannot_be_set_starts_nothing_and_is_named() {
    let world = World::new();
    let before = world.snapshot();
    let program = program();
    let program = program.to_str().expect("text");
    let gone = "confirm that all privileges are gone";
    let operations = [
        (libc::PR_SET_CHILD_SUBREAPER, "prepare this process"),
        (libc::PR_SET_NO_NEW_PRIVS, "give up privileges"),
        (libc::PR_CAPBSET_DROP, gone),
        (libc::PR_SET_PDEATHSIG, "end with the process that started it"),
        (libc::PR_SET_DUMPABLE, gone),
        (libc::PR_GET_NO_NEW_PRIVS, gone),
        (libc::PR_CAPBSET_READ, gone),
        (libc::PR_SET_SECCOMP, "filter"),
    ];
    for errno in [libc::EPERM, libc::EINVAL] {
        let run = |operation: i32| {
            let [operation, errno] = [operation, errno].map(|number| number.to_string());
            let words = ["-c", WITHOUT, &operation, &errno, program, "-q", "-b", "namespace", "echo", "ran"];
            world.call("python3", words).done()
        };
        run(9999).is(0, "ran\n", "");
        for (operation, step) in operations {
            run(operation).refused(125, &[step]);
        }
    }
    assert_eq!(world.snapshot(), before);
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

/// Debian's kernel with `kernel.unprivileged_userns_clone=0`: root makes one user namespace and no other in it.
#[test]
fn root_is_as_closed_in_one_user_namespace_as_in_two() {
    if !has("strace") {
        return;
    }
    let world = World::new();
    let script = "awk '/^Cap/ { seen[$2] } END { for (set in seen) print set }' /proc/self/status; tr -s ' ' </proc/self/uid_map; \
                  for try in 'touch /usr/x' 'touch x' 'umount /proc' 'mount -o remount,bind,rw /' 'chroot /usr true' 'unshare -U true'; do \
                  $try 2>/dev/null && echo $try; done; touch sub/made && echo control";
    let inject = "inject=unshare:error=EPERM:when=2";
    let log = world.text("o/log");
    let program = program();
    let program = program.to_str().expect("text");
    let words = ["-f", "-qq", "-o", &log, "-e", "trace=unshare", "-e", inject, program];
    world.dir("w/sub");
    let run = || {
        let options = ["-q", "-b", "namespace", "-w", "sub", "--", "sh", "-c", script];
        world.call("strace", words.iter().chain(&options)).done()
    };
    if is_root() {
        run().is(0, "0000000000000000\n 0 0 1\ncontrol\n", "");
    } else {
        run().refused(125, &["give up the say over what was mounted"]);
    }
    assert!(world.read("o/log").contains("(INJECTED)"), "control: it came to that");
}
