//! Processes of the host and what they share: none is seen, no memory is had by its key or name.

use std::fs;

use super::python;
use crate::harness::{World, is_root};

#[test]
fn processes_of_the_host_are_not_seen() {
    let world = World::new();
    let nap = crate::fakes::nap();
    let sleeper = world.call("sleep", [&nap]).spawn();
    let script = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/task/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '; ls -d /proc/[0-9]* | wc -l";
    let outside = world.call("sh", ["-c", script]).done().code(0);
    let is_seen = |text: &str| text.contains(&format!("sleep {nap}"));
    let inside = ["", "-w=.", "--net=host", "--new-session=never", "--read=/"].map(|option| {
        let options: Vec<&str> = option.split('=').filter(|word| !word.is_empty()).collect();
        world.sh(options, script).done().code(0).out()
    });
    sleeper.signal(nix::sys::signal::Signal::SIGKILL);
    sleeper.done();
    assert!(is_seen(&outside.out()), "the control\n{}", outside.out());
    for text in inside {
        assert!(!is_seen(&text), "{text}");
        let count: usize = text.lines().last().unwrap().rsplit(' ').next().unwrap().parse().expect("a number");
        assert!(count <= 6, "process 1, the shell and what it runs\n{text}");
    }
}

/// System V shared memory by its key, a POSIX queue and shared memory by name.
const SHARED: &str = r#"
import ctypes, errno, os, sys
libc, rt = ctypes.CDLL(None, use_errno=True), ctypes.CDLL("librt.so.1", use_errno=True)
key, name = int(sys.argv[2]), sys.argv[3]
if sys.argv[1] == "make":
    made = libc.shmget(key, 4096, 0o1666)
    queue = rt.mq_open(name.encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
    open("/dev/shm" + name, "w").write("s3cret")
    print(made >= 0, queue >= 0)
elif sys.argv[1] == "remove":
    libc.shmctl(libc.shmget(key, 0, 0), 0, None)
    rt.mq_unlink(name.encode())
    os.unlink("/dev/shm" + name)
else:
    def answer(done): return "had" if done >= 0 else errno.errorcode[ctypes.get_errno()]
    print(answer(libc.shmget(key, 0, 0)), answer(rt.mq_open(name.encode(), os.O_RDONLY)), os.path.exists("/dev/shm" + name))
"#;

#[test]
fn shared_memory_of_the_host_is_not_there() {
    let world = World::new();
    let key = (0x5352_0000 + std::process::id() % 0x10000).to_string();
    let name = format!("/sandbox-run-test-{key}-{}", if is_root() { "root" } else { "user" });
    let outside = |what: &str| python(&world, None, SHARED, &[what, &key, &name]).done();
    let made = outside("make").code(0).out();
    let control = outside("look").out();
    let inside = [&[][..], &["-w", "."], &["--net", "host"], &["-q", "-r", "/"]]
        .map(|options| python(&world, Some(options), SHARED, &["look", &key, &name]).done());
    outside("remove").is(0, "", "");
    assert!(fs::metadata(format!("/dev/shm{name}")).is_err());
    assert_eq!(made, "True True\n");
    assert_eq!(control, "had had True\n", "the control");
    for done in inside {
        done.is(0, "ENOENT ENOENT False\n", "");
    }
}

/// The kernel gives each session a share of the processor, and lets it be set by the name of any process in it.
#[test]
fn the_priority_of_the_callers_session_stays() {
    if fs::metadata("/proc/self/autogroup").is_err() {
        eprintln!("not tried: this kernel has no groups by session");
        return;
    }
    let world = World::new();
    let set = "for n in 1 2 3 4 5 6 7 8 9; do echo 7 >\"$f\" && break; sleep 0.1; done 2>/dev/null";
    let attack = format!("for f in /proc/[0-9]*/autogroup; do {set}; done");
    let line = "cat /proc/self/autogroup; \"$@\"; cat /proc/self/autogroup";
    let in_session = |words: &[&str]| {
        let first = ["-w", "sh", "-c", line, "sh"];
        let done = world.call("setsid", first.iter().chain(words)).done().code(0);
        done.out().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let program = crate::harness::program();
    let program = program.to_str().expect("text");
    for options in [&[][..], &["-w", "."], &["--net", "host"]] {
        let lines = in_session(&[&[program], options, &["--", "sh", "-c", &attack]].concat());
        assert!(lines.len() == 2 && lines[0] == lines[1], "{options:?} {lines:?}");
    }
    let lines = in_session(&["sh", "-c", &format!("f=/proc/self/autogroup; {set}")]);
    assert!(lines.len() == 2 && lines[0] != lines[1], "the control {lines:?}");
}
