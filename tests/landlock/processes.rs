//! Processes under `landlock`: those outside are out of reach, those inside end with the run, and so do the private directories.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;

use crate::harness::{World, eventually, has, has_landlock, is_root, processes_with};
use crate::landlock::{python, sh};

/// A process outside, of the same user.
struct Outside(Child);

impl Outside {
    fn start(mark: &str) -> Self {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "sleep 60; :", mark]).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        let child = crate::harness::alone(|| command.spawn()).unwrap();
        Self(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let group = nix::unistd::Pid::from_raw(self.0.id().cast_signed());
        let _sent = nix::sys::signal::killpg(group, Signal::SIGKILL);
        let _waited = self.0.wait();
    }
}

/// Tries to reach the process whose number is the argument, and prints what came of each way.
const REACH: &str = r"
import ctypes, errno, os, resource, signal, sys
pid = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
def way(what, action):
    try:
        action()
        print(what, 'works')
    except OSError as error:
        print(what, errno.errorcode[error.errno])
def call(function, *args):
    if function(*args) == -1:
        raise OSError(ctypes.get_errno(), '')
def read(name):
    return lambda: open(f'/proc/{pid}/{name}', 'rb').read(1)
way('signal', lambda: os.kill(pid, 0))
way('pidfd', lambda: signal.pidfd_send_signal(os.pidfd_open(pid), 0))
way('ptrace', lambda: call(libc.ptrace, 16, pid, 0, 0))
way('prlimit', lambda: resource.prlimit(pid, resource.RLIMIT_CORE))
way('priority', lambda: os.setpriority(os.PRIO_PROCESS, pid, 10))
for name in 'cmdline', 'status', 'environ', 'maps', 'mem', 'root/etc/shadow', 'cwd/.':
    way(name, read(name))
";

#[test]
fn processes_outside_are_out_of_reach() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    let outside = Outside::start("outside");
    let reach = |options: &[&str]| -> Vec<String> {
        let pid = outside.pid();
        let words = [&["-q"], options, &["--", "/usr/bin/python3", "-c", REACH, &pid]].concat();
        world.run(words).done().code(0).stderr("").out().lines().map(str::to_owned).collect()
    };
    let found = reach(&["-b", "landlock"]);
    let closed = ["signal", "pidfd", "ptrace", "prlimit", "priority"].map(|way| format!("{way} EPERM"));
    assert_eq!(found[..5], closed);
    assert!(found[5..].iter().all(|way| way.ends_with("EACCES")), "{found:?}");
    // What is accepted is what can be read of the processes, and no more.
    let open = reach(&["-b", "landlock", "--allow-gap", "processes"]);
    assert_eq!(open[..5], closed);
    assert_eq!(open[5..7], ["cmdline works", "status works"]);
    assert!(open[7..].iter().all(|way| way.ends_with("EACCES")), "{open:?}");
    let control = reach(&["-b", "none"]);
    for way in ["signal works", "pidfd works", "prlimit works", "cmdline works", "environ works"] {
        assert!(control.contains(&way.to_owned()), "{control:?}");
    }
    // All that can be signalled at once is what is inside.
    sh(&world, &[], "trap '' TERM; kill -TERM -1; echo alive").done().is(0, "alive\n", "");
    assert!(outside.0.id() > 0 && fs::metadata(format!("/proc/{}", outside.pid())).is_ok());
}

#[test]
fn a_process_knows_itself() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    let script = r"
import os
for name in 'status', 'maps', 'stat', 'cmdline', 'task/%d/comm' % os.getpid():
    assert open('/proc/self/' + name).read(1)
assert os.listdir('/proc/self/fd') and os.readlink('/proc/self/exe') and open('/proc/meminfo').read(1)
print('itself')
child = os.fork()
if child == 0:
    try: open('/proc/self/status')
    except PermissionError: print('not its child')
    os._exit(0)
os.wait()
";
    python(&world, &[], script).done().is(0, "itself\n", "").code(0);
}

#[test]
fn objects_without_a_path_are_out_of_reach() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    let script = r"
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
rt = ctypes.CDLL('librt.so.1', use_errno=True)
for what, function, args in (
    ('shmget', libc.shmget, (0, 4096, 0o1600)),
    ('semget', libc.semget, (0, 1, 0o1600)),
    ('msgget', libc.msgget, (0, 0o1600)),
    ('mq_unlink', rt.mq_unlink, (b'/sandbox-run-test-none',)),
):
    found = function(*args)
    print(what, errno.errorcode[ctypes.get_errno()] if found == -1 else 'works')
    if found != -1:
        {'shmget': lambda: libc.shmctl(found, 0, None), 'semget': lambda: libc.semctl(found, 0, 0),
         'msgget': lambda: libc.msgctl(found, 0, None)}[what]()
";
    let expected = "shmget ENOSYS\nsemget ENOSYS\nmsgget ENOSYS\nmq_unlink ENOSYS\n";
    python(&world, &[], script).done().is(0, expected, "");
    let control = world.run(["-q", "-b", "none", "--", "/usr/bin/python3", "-c", script]).done().code(0).out();
    assert!(control.contains("shmget works"), "{control}");
}

#[test]
fn no_privilege_is_left() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    let script = "print(''.join(l for l in open('/proc/self/status') if l.split(':')[0] in ('CapInh', 'CapPrm', 'CapEff', 'CapAmb', 'NoNewPrivs', 'Seccomp')))";
    let zero = "0000000000000000";
    let expected =
        format!("CapInh:\t{zero}\nCapPrm:\t{zero}\nCapEff:\t{zero}\nCapAmb:\t{zero}\nNoNewPrivs:\t1\nSeccomp:\t2\n\n");
    python(&world, &[], script).done().is(0, &expected, "");
    sh(&world, &[], "unshare -U true").done().code(1).stderr_has("Operation not permitted");
    if is_root() {
        let bounding = "print([l.split()[1] for l in open('/proc/self/status') if l.startswith('CapBnd')][0])";
        python(&world, &[], bounding).done().is(0, &format!("{zero}\n"), "");
        // Root is above nobody's permissions.
        world.write("w/other", "s3cret");
        std::os::unix::fs::chown(world.path("w/other"), Some(1), Some(1)).unwrap();
        fs::set_permissions(world.path("w/other"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        sh(&world, &[], "cat other").done().code(1).stdout("").stderr_has("Permission denied");
        world.sh(["-q", "-b", "none"], "cat other").done().is(0, "s3cret", "");
    }
}

/// A command that leaves processes of all kinds behind, each with `mark` in its arguments, and says where its private directory is.
fn straggler(mark: &str) -> String {
    format!(
        "setsid sh -c 'sleep 60; :' {mark}a & (setsid sh -c 'trap \"\" TERM HUP INT; sleep 60; :' {mark}b &) & \
         sh -c 'sleep 60; :' {mark}c & echo $TMPDIR >place; touch ready; "
    )
}

#[test]
fn nothing_outlives_a_run() {
    if !has_landlock() || !has("setsid") {
        return;
    }
    let options = ["-w", "."];
    for session in ["always", "never"] {
        // By itself, by a signal of its own, by its limit.
        for (end, code) in [("exit 7", 7), ("kill -KILL $$", 137), ("exec sleep 60", 124)] {
            let world = World::new();
            let mark = format!("{}{session}", world.text("mark"));
            let options =
                [&options[..], &["--new-session", session, "--timeout", "1s", "--kill-after", "100ms"]].concat();
            sh(&world, &options, &(straggler(&mark) + end)).done().code(code);
            assert!(eventually(|| processes_with(&mark).is_empty()), "{session} {end}");
            assert!(fs::metadata(world.read("w/place").trim()).is_err(), "{session} {end}");
        }
        // By SIGKILL for the program alone, and for its whole process group.
        for group in [false, true] {
            let world = World::new();
            let mark = format!("{}{session}", world.text("mark"));
            let words = [&options[..], &["--new-session", session]].concat();
            let call = sh(&world, &words, &(straggler(&mark) + "exec sleep 60"));
            let call = call.before_exec(|| Ok(nix::unistd::setsid().map(|_| ())?));
            let running = call.spawn();
            assert!(eventually(|| world.has("w/ready")));
            let place = world.read("w/place");
            assert!(fs::metadata(place.trim()).is_ok());
            if group {
                nix::sys::signal::killpg(nix::unistd::Pid::from_raw(running.pid()), Signal::SIGKILL).unwrap();
            } else {
                running.signal(Signal::SIGKILL);
            }
            let gone = || processes_with(&mark).is_empty() && fs::metadata(place.trim()).is_err();
            assert!(eventually(gone), "{session} {group}: {:?}", processes_with(&mark));
            assert_eq!(running.done().signal, Some(libc::SIGKILL));
            let top = place.trim().strip_suffix("/tmp").unwrap();
            assert!(eventually(|| fs::metadata(top).is_err()), "{top}");
        }
    }
}

#[test]
fn layers_of_landlock_are_finite() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    let program = crate::harness::program();
    // The program and its directory may be read in each of the layers, and the private directory of the one before is used.
    let program = program.to_str().unwrap();
    let mut words: Vec<&str> = Vec::new();
    for _ in 0..17 {
        words.extend(["-q", "-b", "landlock", "--allow-gap", "processes", "-r", program, "--", program]);
    }
    words.extend(["-q", "-b", "none", "true"]);
    world.run(&words).done().refused(125, &["Landlock", "nested too deeply"]);
    // A few are fine, and each takes away what it does not grant.
    let o = world.text("o");
    let secret = world.text("o/secret");
    let nested = |outer: &[&str], inner: &[&str]| {
        let words = [
            &["-q", "-b", "landlock", "--allow-gap", "processes", "-r", program],
            outer,
            &["--", program, "-q", "-b", "landlock"],
            inner,
            &["cat", &secret],
        ];
        world.run(words.concat()).done()
    };
    nested(&["-r", &o], &["-r", &o]).is(0, "s3cret", "");
    nested(&["-r", &o], &[]).code(1).stdout("");
    nested(&[], &[]).code(1).stdout("");
    let done = nested(&[], &["-r", &o]);
    assert_ne!(done.code, Some(0), "{}", done.stderr);
    done.stdout("");
    // Without a look at processes nobody can promise that none is left.
    let words = ["-q", "-b", "landlock", "-r", program, "--", program, "-q", "-b", "landlock", "true"];
    world.run(words).done().refused(125, &["what the command leaves behind"]).stderr_has("--allow-gap processes");
}
