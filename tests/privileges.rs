//! What the command may not do to processes and namespaces: no new ones of these, no look into process 1.

use crate::harness::{Done, World, backends, find};

/// Runs a Python program outside or, with options, inside.
fn python(world: &World, options: Option<&[&str]>, text: &str) -> Done {
    let python = find("python3").expect("python3");
    let python = python.to_str().expect("text");
    match options {
        None => world.call(python, ["-c", text]).done(),
        Some(options) => world.run([options, &["--", python, "-c", text]].concat()).done(),
    }
}

/// System calls by number, and their answers.
const SYSCALL: &str = r#"
import ctypes, errno, os, platform
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
arm = platform.machine() == "aarch64"
UNSHARE, SETNS, CLONE, CLONE3 = (97, 268, 220, 435) if arm else (272, 308, 56, 435)
PTRACE, READV = (117, 270) if arm else (101, 310)
def call(number, *arguments):
    words = [a if isinstance(a, ctypes.Array) else ctypes.c_long(a) for a in arguments]
    ctypes.set_errno(0)
    done = libc.syscall(ctypes.c_long(number), *words)
    return done, "done" if done >= 0 else errno.errorcode[ctypes.get_errno()]
"#;

/// Every kind of namespace, by every call that makes one; each in a child of its own.
const NAMESPACES: &str = r#"
KINDS = dict(mnt=0x20000, cgroup=0x2000000, uts=0x4000000, ipc=0x8000000, user=0x10000000, pid=0x20000000,
             net=0x40000000, time=0x80)
def in_child(action):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, action().encode())
        os._exit(0)
    os.close(writer)
    text = os.read(reader, 100).decode()
    os.waitpid(child, 0)
    return text
def clone(flags):
    done, text = call(CLONE, flags | 17, 0, 0, 0, 0)
    if done == 0:
        os._exit(0)
    return text
def clone3(flags):
    words = (ctypes.c_uint64 * 8)()
    words[0], words[4] = flags, 17
    done, text = call(CLONE3, words, 64)
    if done == 0:
        os._exit(0)
    return text
def setns(kind):
    return call(SETNS, os.open("/proc/self/ns/" + kind, os.O_RDONLY), 0)[1]
for kind, flag in KINDS.items():
    if kind != "time":
        print("clone", kind, in_child(lambda: clone(flag)))
        print("clone with user", kind, in_child(lambda: clone(flag | KINDS["user"])))
    print("unshare", kind, in_child(lambda: call(UNSHARE, flag)[1]))
    print("unshare with user", kind, in_child(lambda: call(UNSHARE, flag | KINDS["user"])[1]))
    print("clone3", kind, in_child(lambda: clone3(flag | KINDS["user"])))
    print("setns", kind, in_child(lambda: setns(kind)))
print("high bits", in_child(lambda: call(UNSHARE, KINDS["user"] | 1 << 32)[1]))
print("plain clone", in_child(lambda: clone(0)))
print("plain clone3", in_child(lambda: clone3(0)))
"#;

#[test]
fn no_new_namespace_can_be_made_or_entered() {
    let world = World::new();
    let text = format!("{SYSCALL}{NAMESPACES}");
    let outside = python(&world, None, &text).code(0).out();
    let allowed = outside.contains("unshare user done");
    if allowed {
        for line in ["clone with user mnt done", "clone3 net done", "plain clone3 done"] {
            assert!(outside.contains(line), "control: {line}\n{outside}");
        }
    } else {
        eprintln!("this machine makes no user namespaces for anybody: no control");
    }
    for session in ["always", "never"] {
        let inside = python(&world, Some(&["--new-session", session]), &text).code(0).stderr("").out();
        assert_eq!(inside.lines().count(), outside.lines().count(), "{inside}");
        for line in inside.lines() {
            let expected = match line {
                _ if line.starts_with("plain clone3") || line.starts_with("clone3") => "ENOSYS",
                _ if line.starts_with("plain clone") => "done",
                _ => "EPERM",
            };
            assert!(line.ends_with(&format!(" {expected}")), "{line}");
        }
    }
    // Programs that make them, with words of their own.
    for flags in ["-U", "-Ur", "-Urm", "-Urn", "-Urpf"] {
        let unshare = world.run(["--", "unshare", flags, "true"]).done();
        unshare.code(1).stdout("").stderr_has("Operation not permitted");
    }
    world.run(["--", "nsenter", "-t", "1", "-n", "true"]).done().code(1).stdout("");
    // Nothing is refused where nothing is to be enforced.
    let none = python(&world, Some(&["-q", "-b", "none"]), &text).code(0).out();
    assert_eq!(none, outside);
}

#[test]
fn threads_and_processes_of_all_kinds_work() {
    let world = World::new();
    let text = r#"
import multiprocessing, os, subprocess, threading
seen = []
threads = [threading.Thread(target=seen.append, args=(i,)) for i in range(20)]
[t.start() for t in threads], [t.join() for t in threads]
print(sorted(seen) == list(range(20)))
print(os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", "exit 5"], {}), 0)[1]))
print(subprocess.run(["sh", "-c", "exit 6"]).returncode)
print(multiprocessing.get_context("fork").Pool(2).map(abs, [-1, -2]))
"#;
    let outside = python(&world, None, text).is(0, "True\n5\n6\n[1, 2]\n", "").out();
    for backend in backends() {
        if backend[2] == "landlock" {
            // There is no shared memory by name, which a Pool takes.
            let text = text.lines().filter(|line| !line.contains("Pool(")).collect::<Vec<_>>().join("\n");
            python(&world, Some(&backend), &text).is(0, outside.trim_end_matches("[1, 2]\n"), "");
            continue;
        }
        python(&world, Some(&backend), text).is(0, &outside, "");
    }
}

/// Looks into process `pid` in every way.
const LOOK: &str = r#"
import sys
def look(pid):
    def attempt(name, action):
        try:
            print(name, action())
        except OSError as error:
            print(name, errno.errorcode[error.errno])
    def read(name):
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            # No address of the process's memory is mapped at 0.
            return "done" if name == "mem" or len(file.read(1)) == 1 else "empty"
    for name in ("maps", "environ", "mem", "auxv", "pagemap", "stack", "syscall", "personality"):
        attempt("read " + name, lambda: read(name))
    attempt("write mem", lambda: [os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR)), "done"][1])
    # The list of numbers is no secret, what they lead to is.
    for name in ("exe", "cwd", "root", "fd/0"):
        attempt("follow " + name, lambda: [os.readlink(f"/proc/{pid}/{name}"), "done"][1])
        attempt("open " + name, lambda: [os.close(os.open(f"/proc/{pid}/{name}", os.O_RDONLY)), "done"][1])
    for name, request in (("attach", 16), ("seize", 0x4206)):
        done, text = call(PTRACE, request, pid, 0, 0)
        print(name, text)
        if done == 0:
            os.waitpid(pid, 0x40000000 | (0 if name == "attach" else 1))
            call(PTRACE, 17, pid, 0, 0)
    here, there = ctypes.create_string_buffer(8), ctypes.create_string_buffer(8)
    vector = lambda buffer: (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), 8)
    print("readv", call(READV, pid, vector(here), 1, vector(there), 1, 0)[1])
"#;

#[test]
fn process_1_cannot_be_looked_into() {
    let world = World::new();
    let inside = python(&world, Some(&[]), &format!("{SYSCALL}{LOOK}look(1)")).code(0).stderr("").out();
    assert_eq!(inside.lines().count(), 20, "{inside}");
    for line in inside.lines() {
        assert!(line.ends_with(" EPERM") || line.ends_with(" EACCES"), "{line}\n{inside}");
    }
    // The control: a child outside shows all that.
    let child = "child = os.fork()\nif child == 0:\n    import time; time.sleep(60)\n";
    let end = "\nos.kill(child, 9)\nos.waitpid(child, 0)";
    let outside = python(&world, None, &format!("{SYSCALL}{LOOK}{child}look(child){end}")).code(0).out();
    for line in
        ["read maps done", "read environ done", "write mem done", "follow fd/0 done", "open cwd done", "readv done"]
    {
        assert!(outside.contains(line), "control: {line}\n{outside}");
    }
}

#[test]
fn a_debugger_on_process_1_fails_at_once_and_the_run_goes_on() {
    let world = World::new();
    let Some(strace) = find("strace") else { panic!("strace is among the programs of tests/deps") };
    let words = ["--", strace.to_str().expect("text"), "-p", "1"];
    let done = world.run(words).done();
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(done.stderr.contains("Operation not permitted"), "{}", done.stderr);
    world.sh::<&str>([], "strace -p 1 2>/dev/null; exit 7").done().is(7, "", "");
    // The control: outside it can be attached to a process that is its user's.
    let sleeper = world.call("sleep", ["60"]).spawn();
    let text = format!("timeout -s INT 1 strace -p {} 2>&1", sleeper.pid());
    let outside = world.call("sh", ["-c", &text]).done();
    sleeper.signal(nix::sys::signal::Signal::SIGKILL);
    sleeper.done();
    assert!(outside.out().contains("attached"), "{}", outside.out());
}
