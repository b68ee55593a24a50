//! What mounts and namespaces do not hold back: descriptors that lead out of the view, the machine's settings, keyrings,
//! the caller's process group, sockets without a namespace. Each denial has a control that shows the same thing working.

use std::fs::File;

use crate::harness::{World, is_root, program, skip};
use crate::pty::Terminal;

/// A Python program that prints `ok` or the name of the error for each attempt.
const TRY: &str = "
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    result = libc.syscall(*arguments)
    print(name, 'ok' if result >= 0 else errno.errorcode[ctypes.get_errno()])
";

fn python(world: &World, options: &[&str], script: &str) -> String {
    let script = format!("{TRY}{script}");
    let words: Vec<&str> = options.iter().copied().chain(["--", "/usr/bin/python3", "-c", &script]).collect();
    world.run(words).done().code(0).out()
}

fn outside(world: &World, script: &str) -> String {
    world.call("/usr/bin/python3", ["-c", &format!("{TRY}{script}")]).done().code(0).out()
}

#[test]
fn a_descriptor_for_reading_cannot_be_opened_for_writing() {
    let write = "echo over > /proc/self/fd/0; echo over >> /dev/stdin; cat";
    for options in [&[][..], &["-w", "."], &["-q", "-r", "/"], &["--net", "host"]] {
        let world = World::new();
        let file = world.write("o/data", "kept");
        world.sh(options, write).stdin_from(File::open(&file).unwrap()).done().code(0).stdout("kept");
        assert_eq!(world.read("o/data"), "kept");
    }
    // The controls: without the program it is written, and so is a file below a write grant.
    let world = World::new();
    let file = world.write("o/data", "kept");
    world.call("sh", ["-c", write]).stdin_from(File::open(&file).unwrap()).done().code(0);
    assert_ne!(world.read("o/data"), "kept");
    let file = world.write("w/data", "kept");
    world.sh(["-w", "."], write).stdin_from(File::open(&file).unwrap()).done().code(0);
    assert_ne!(world.read("w/data"), "kept");
}

#[test]
fn a_descriptor_for_writing_can_be_opened_again() {
    let world = World::new();
    let file = File::create(world.path("o/out")).unwrap();
    let script = "echo one; echo two >> /dev/stdout; echo three >> /proc/self/fd/1";
    world.sh([""; 0], script).stdout(file).done().code(0);
    assert_eq!(world.read("o/out").lines().count(), 3);
    world.sh([""; 0], script).done().is(0, "one\ntwo\nthree\n", "");
    // A file in memory, which lies in no tree.
    let memory = nix::sys::memfd::memfd_create(c"out", nix::sys::memfd::MFdFlags::MFD_CLOEXEC).unwrap();
    let mut memory = File::from(memory);
    world.sh([""; 0], script).stdout(memory.try_clone().unwrap()).done().code(0);
    let mut text = String::new();
    std::io::Seek::rewind(&mut memory).unwrap();
    std::io::Read::read_to_string(&mut memory, &mut text).unwrap();
    assert_eq!(text.lines().count(), 3);
}

#[test]
fn a_directory_is_no_standard_stream() {
    let world = World::new();
    let open = || File::open(world.path("o")).unwrap();
    world
        .run(["cat", "/proc/self/fd/0/secret"])
        .stdin_from(open())
        .done()
        .refused(125, &["standard input", "directory"]);
    // The controls: without isolation it passes, and on purpose it can be kept.
    world.run(["-q", "-b", "none", "cat", "/proc/self/fd/0/secret"]).stdin_from(open()).done().stdout("s3cret");
    world.run(["--keep-fd", "7", "cat", "/proc/self/fd/7/secret"]).fd(open(), 7).done().is(0, "s3cret", "");
}

#[test]
fn files_move_between_directories() {
    let world = World::new();
    let script = "mkdir a b && echo x > a/f && mv a/f b/f && ln b/f a/g && python3 - <<END && cat b/h
import os
os.rename('a/g', 'b/h')
END";
    world.sh(["-w", "."], script).done().is(0, "x\n", "");
}

#[test]
fn root_cannot_set_the_machine() {
    if !is_root() {
        eprintln!("not tried: only root's user id opens these files");
        return;
    }
    let world = World::new();
    let value = std::fs::read_to_string("/proc/sys/vm/swappiness").unwrap();
    let script = "for f in vm/swappiness kernel/core_pattern; do echo 1 2>/dev/null >> /proc/sys/$f || echo refused; done; \
                  cat /proc/sys/vm/swappiness";
    for options in [&[][..], &["-w", "."], &["-q", "-r", "/"], &["-q", "-w", "/"], &["--net", "host"]] {
        // dash ends at a redirection that fails for a special builtin only; echo is none.
        world.sh(options, script).done().stdout(&format!("refused\nrefused\n{value}"));
    }
    // The control: what the process may say about itself it still says.
    world.sh([""; 0], "echo 100 > /proc/self/oom_score_adj && cat /proc/self/oom_score_adj").done().is(0, "100\n", "");
}

#[test]
fn keyrings_of_the_caller_are_out_of_reach() {
    // keyctl(KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_SESSION_KEYRING, 0), add_key, request_key.
    let script = "
call('keyctl', 250, 0, -5, 0)
call('add_key', 248, b'user', b'sandbox-run-test', b'x', 1, -2)
call('request_key', 249, b'user', b'sandbox-run-test', None, -2)
";
    if cfg!(not(target_arch = "x86_64")) {
        return skip("x86_64", "the call numbers of this test are of x86_64");
    }
    let world = World::new();
    for options in [&[][..], &["-q", "--net", "host", "-w", "/"]] {
        assert_eq!(python(&world, options, script), "keyctl EPERM\nadd_key EPERM\nrequest_key EPERM\n");
    }
    assert!(outside(&world, script).contains("keyctl ok"), "the control");
}

#[test]
fn sockets_without_a_namespace_are_refused() {
    let script = "
for family in [socket.AF_VSOCK, socket.AF_UNIX, socket.AF_INET]:
    try:
        socket.socket(family, socket.SOCK_STREAM)
        print('ok')
    except OSError as error:
        print(errno.errorcode[error.errno])
";
    let world = World::new();
    for options in [&[][..], &["--net", "host"]] {
        assert_eq!(python(&world, options, script), "EPERM\nok\nok\n");
    }
    if outside(&world, script) != "ok\nok\nok\n" {
        skip("vsock", "this kernel has no AF_VSOCK to be refused");
    }
}

#[test]
fn limits_of_process_1_stay() {
    let script = "
import resource
for pid in [1, 0, os.getpid()]:
    try:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (50, 50))
        print('ok')
    except OSError as error:
        print(errno.errorcode[error.errno])
";
    assert_eq!(python(&World::new(), &[], script), "EPERM\nok\nok\n");
}

/// `kill 0` from a target that shares the terminal: the script that called us, and its neighbours, live on.
#[test]
fn the_process_group_of_the_caller_cannot_be_signalled() {
    for signal in ["KILL", "TERM"] {
        let world = World::new();
        let text = format!(
            "{} -q -- sh -c 'trap \"\" TERM; kill -{signal} 0 2>/dev/null; sleep 0.2; echo inside'; echo the-caller-lives",
            program().display()
        );
        let mut terminal = Terminal::start(world.call("sh", ["-c", &text]));
        terminal.expect("the-caller-lives");
        terminal.done().0.code(0);
    }
    // The control: without the program the script goes with its group.
    let world = World::new();
    let text = "sh -c 'kill -KILL 0'; echo the-caller-lives";
    let mut terminal = Terminal::start(world.call("sh", ["-c", text]));
    terminal.settle(std::time::Duration::from_millis(300));
    assert!(!terminal.text().contains("the-caller-lives"));
    assert_eq!(terminal.done().0.signal, Some(libc::SIGKILL));
}
