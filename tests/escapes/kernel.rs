//! What the kernel offers to everybody or to root, and no namespace holds.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::python;
use crate::harness::{World, alone, find, is_root, program};

/// Opens each for writing, writes nothing, and prints those that could be opened.
const OPEN: &str = "import glob, os, sys
for pattern in sys.argv[1:]:
    for path in glob.glob(pattern):
        try: os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC))
        except OSError: continue
        print(path)";

/// Each is a way to have the kernel start a program outside, or to stop, watch or reset the machine.
const MACHINE: [&str; 21] = [
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hotplug",
    "/proc/sys/kernel/poweroff_cmd",
    "/proc/sys/kernel/*/*",
    "/proc/sys/vm/*",
    "/proc/sys/fs/*",
    "/proc/sys/fs/binfmt_misc/*",
    "/proc/sysrq-trigger",
    "/proc/irq/*/*",
    "/proc/bus/*/*",
    "/proc/acpi/*",
    "/proc/kcore",
    "/sys/kernel/uevent_helper",
    "/sys/kernel/mm/*/*",
    "/sys/power/*",
    "/sys/devices/*/*/*",
    "/sys/fs/cgroup/*",
    "/sys/fs/cgroup/*/*",
    "/dev/mem",
    "/dev/kmsg",
];

#[test]
fn files_that_set_the_machine_cannot_be_opened_for_writing() {
    let world = World::new();
    for options in [&[][..], &["-w", "."], &["-q", "-r", "/"], &["-r", "/sys"], &["--net", "host", "-w", "."]] {
        python(&world, Some(options), OPEN, &MACHINE).done().is(0, "", "");
    }
    python(&world, Some(&[]), OPEN, &["/proc/self/oom_score_adj"]).done().is(0, "/proc/self/oom_score_adj\n", "");
    let outside = python(&world, None, OPEN, &MACHINE).done().code(0).out();
    if is_root() {
        assert!(outside.contains("/proc/sys/kernel/core_pattern\n"), "the control\n{outside}");
        assert!(outside.lines().count() >= 20, "the control\n{outside}");
    } else {
        let all = python(
            &world,
            None,
            "import glob, sys; print(len([f for p in sys.argv[1:] for f in glob.glob(p)]))",
            &MACHINE,
        );
        let count = all.done().code(0).out();
        assert!(
            count.trim().parse::<u32>().unwrap() >= 20,
            "the control: they are there, and not this user's: {count}"
        );
    }
}

/// Everything outside the processes' own directories; what the kernel is to watch (`/proc/pressure`) can be told by every user.
/// In a tree of another system, as people make them who are root, the kernel's files are the host's.
#[test]
fn file_systems_of_the_kernel_in_a_grant_tell_and_set_nothing() {
    if !is_root() {
        return eprintln!("only root can mount: not tried");
    }
    let world = World::new();
    for name in ["proc", "sys", "dev/pts", "cgroup", "plain", "etc"] {
        world.dir(&format!("w/c/{name}"));
    }
    let mounts = "cd c; mount -t proc x proc; mount -t sysfs x sys; mount -t tmpfs x plain; mount -t devpts x dev/pts
        mount --bind $(ls -d /sys/fs/cgroup/memory /sys/fs/cgroup | tail -1) cgroup; mount --bind /etc etc";
    let look = "cat $C/proc/1/cmdline
        for d in proc sys cgroup; do find $C/$d -writable -type f 2>/dev/null | grep -v '/proc/[0-9]' | head -1; done
        echo x >$C/plain/file; ls $C/sys/kernel >/dev/null && echo sys; wc -c <$C/etc/shadow";
    let run = |words: &[&str]| {
        let outer = format!("set -e; {mounts}; C=$PWD; export C; cd \"$1\"; shift; exec \"$@\"");
        let inner = [&["-m", "--propagation", "private", "sh", "-c", &outer, "_"], words].concat();
        world.call("unshare", inner).done().code(0)
    };
    let program = program();
    let program = program.to_str().expect("text");
    for (place, options) in [
        (".", &["-w", "."][..]),
        ("..", &["-w", "."]),
        ("..", &["-p", "build"]),
        ("/", &["-q", "-w", world.path("w").to_str().expect("text")]),
        (".", &["-q", "-r", "/", "-w", "."]),
    ] {
        let words = [&[place, program], options, &["-e", "C", "--", "sh", "-c", look]].concat();
        let done = run(&words);
        assert_eq!(done.out(), "sys\n0\n", "{place} {options:?}: {}", done.stderr);
        done.stderr_has("c/proc/1/cmdline");
    }
    // The control, and what is typed.
    let outside = run(&[".", "sh", "-c", look]).out();
    assert!(
        ["/c/proc/", "/c/sys/"].iter().all(|place| outside.contains(place)) && !outside.ends_with("\n0\n"),
        "{outside}"
    );
    let words =
        [".", program, "-w", ".", "-w", "sys/kernel/mm", "--", "sh", "-c", "find sys -writable -type f | head -1"];
    assert!(run(&words).out().starts_with("sys/kernel/mm/"));
    for (place, words) in [(".", &["-r", "proc"][..]), (".", &["-w", "proc/sys"]), ("proc", &[])] {
        let outer = format!("{mounts}; cd {place}; exec \"$@\"");
        let inner = ["-m", "--propagation", "private", "sh", "-c", &outer, "_", program];
        let call = world.call("unshare", [&inner[..], words, &["--", "true"]].concat());
        call.done().refused(125, &["cannot", "proc"]);
    }
}

#[test]
fn no_file_of_the_kernel_can_be_opened_for_writing() {
    let world = World::new();
    let walk = "import os, sys
for top, directories, files in os.walk('/proc'):
    if top == '/proc': directories[:] = [d for d in directories if not d.isdigit() and d not in ('self', 'thread-self')]
    for name in files:
        try: os.close(os.open(os.path.join(top, name), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError: continue
        print(os.path.join(top, name))";
    // Settings of the namespaces for memory, queues and processes, which are the sandbox's and an ordinary user's own.
    let own = [
        "fs/mqueue/",
        "kernel/auto_msgmni",
        "kernel/msgm",
        "kernel/ns_last_pid",
        "kernel/pid_max",
        "kernel/sem",
        "kernel/shm",
    ];
    let is_own = |line: &&str| own.iter().any(|own| line.starts_with(&format!("/proc/sys/{own}")));
    for options in [&[][..], &["-w", "."], &["-q", "-r", "/"], &["--net", "host", "-w", "."]] {
        let found = python(&world, Some(options), walk, &[]).done().code(0).out();
        let (own, others): (Vec<&str>, Vec<&str>) = found.lines().partition(is_own);
        assert_eq!(others, [""; 0], "{options:?}");
        assert!(own.is_empty() || !is_root(), "{options:?} {own:?}");
        python(&world, Some(options), "print(len(open('/proc/stat').read()) > 0)", &[]).done().is(0, "True\n", "");
    }
    let pressure = "/proc/pressure/memory";
    if fs::metadata(pressure).is_ok() {
        python(&world, None, OPEN, &[pressure]).done().is(0, &format!("{pressure}\n"), "");
        python(&world, Some(&[]), "print(open('/proc/pressure/memory').read()[:4])", &[]).done().is(0, "some\n", "");
    }
}

#[test]
fn no_capability_is_left_in_any_set() {
    let world = World::new();
    let sandbox_run = world.path("o/sandbox-run");
    alone(|| fs::copy(program(), &sandbox_run)).expect("copy");
    let script = "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status";
    let none = "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\n\
                CapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n";
    for options in [&[][..], &["--net", "host"], &["--new-session", "never"]] {
        world.sh(options.iter().copied(), script).done().is(0, none, "");
    }
    let outside = world.call("sh", ["-c", script]).done().code(0).out();
    assert_ne!(outside, none, "the control");
    if !is_root() {
        return;
    }
    // A caller whose capabilities would pass an exec of whatever comes next.
    let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps", "+chown,+net_raw"];
    let root = ["--inh-caps", "+chown,+net_raw", "--ambient-caps", "+chown,+net_raw"];
    for raised in [&user[..], &root] {
        let outside = world.call("setpriv", raised.iter().chain(&["sh", "-c", script])).done().code(0);
        outside.stdout_has("CapInh:\t0000000000002001\n");
        let sandbox_run = sandbox_run.to_str().unwrap();
        let inside = world.call("setpriv", raised.iter().chain(&[sandbox_run, "--", "sh", "-c", script])).done();
        inside.is(0, none, "");
    }
    // Bubblewrap starts for no user who has them already.
    let ambient = [&user[..], &["--ambient-caps", "+chown,+net_raw"]].concat();
    let sandbox_run = sandbox_run.to_str().unwrap();
    let refused =
        world.call("setpriv", ambient.iter().chain(&[sandbox_run, "-b", "bwrap", "--", "sh", "-c", script])).done();
    refused.refused(125, &["bwrap"]).stderr_has("ambient");
}

#[test]
fn a_setuid_program_gives_nothing() {
    let world = World::new();
    let (suid, caps) = (world.path("o/suid-id"), world.path("o/capable"));
    alone(|| fs::copy(find("id").expect("id"), &suid).and(fs::copy(find("cat").expect("cat"), &caps))).expect("copies");
    fs::set_permissions(&suid, fs::Permissions::from_mode(0o4755)).expect("mode");
    let sandbox_run = world.path("o/sandbox-run");
    alone(|| fs::copy(program(), &sandbox_run)).expect("copy");
    let o = world.text("o");
    if !is_root() {
        // The file is this user's own, so there is nothing to gain; what takes the gain away is there all the same.
        return drop(world.sh(["-r", &o], "grep NoNewPrivs /proc/self/status").done().is(0, "NoNewPrivs:\t1\n", ""));
    }
    let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let as_user = |words: &[&str]| world.call("setpriv", [&user[..], words].concat()).done();
    let id = suid.to_str().unwrap();
    as_user(&[id, "-u"]).is(0, "0\n", "");
    let sandbox_run = sandbox_run.to_str().unwrap();
    for options in [&["-r", &o][..], &["-q", "-r", "/"]] {
        as_user(&[&[sandbox_run], options, &["--", id, "-u"]].concat()).is(0, "65534\n", "");
    }
    // The same with a capability of the file.
    fs::write(world.path("o/hidden"), "s3cret").expect("file");
    fs::set_permissions(world.path("o/hidden"), fs::Permissions::from_mode(0o600)).expect("mode");
    let hidden = world.text("o/hidden");
    let set = "import os, struct, sys; os.setxattr(sys.argv[1], 'security.capability', \
               struct.pack('<5I', 0x02000001, 1 << 1, 0, 0, 0))";
    python(&world, None, set, &[caps.to_str().unwrap()]).done().is(0, "", "");
    let read = [caps.to_str().unwrap(), hidden.as_str()];
    as_user(&read).is(0, "s3cret", "");
    as_user(&[&[sandbox_run, "-r", &o, "--"], &read[..]].concat()).code(1).stdout("").stderr_has("Permission denied");
}

#[test]
fn keys_of_the_caller_are_not_listed() {
    let world = World::new();
    let read =
        "cat /proc/keys /proc/key-users; for f in /proc/keys /proc/key-users; do echo x 2>/dev/null >$f; done; true";
    for options in [&[][..], &["-w", "."], &["-q", "-r", "/"], &["--net", "host"]] {
        let done = world.sh(options.iter().copied(), read).done().code(0).stdout("");
        assert!(!done.stderr.contains("No such file"), "{}", done.stderr);
    }
    let outside = world.call("cat", ["/proc/keys", "/proc/key-users"]).done();
    if fs::metadata("/proc/keys").is_ok() {
        assert!(outside.code(0).out().lines().count() > 1, "the control");
    } else {
        crate::harness::skip("keys", "this kernel has no keys to list");
    }
}

/// A `/dev` for the program alone: nothing that goes wrong here reaches the machine's.
const DEVICES: &str = r#"
mount -t tmpfs tmpfs "$1" && cd "$1" && mkdir pts shm more &&
mknod null c 1 3 && mknod zero c 1 5 && mknod full c 1 7 && mknod random c 1 8 && mknod urandom c 1 9 && mknod tty c 5 0 &&
mknod extra c 1 3 && mknod more/node c 1 5 && chmod 666 null zero full random urandom tty extra more/node &&
ln -s /proc/self/fd fd && ln -s fd/0 stdin && ln -s fd/1 stdout && ln -s fd/2 stderr && ln -s pts/ptmx ptmx &&
mount --bind "$1" /dev && cd "$2" && shift 2 || exit 99
"$@" </dev/zero >/dev/stdout
status=$?
cd /dev && find . -type c ! -perm 666
find . -type c -newermt 2100-01-01
exit $status
"#;

/// Node by node, by its name and by what is given as standard input: mode, times and access control list.
const NODES: &str = r"
import os, struct, sys
acl = struct.pack('<I', 2) + b''.join(struct.pack('<HHI', tag, 7, id) for tag, id in [(1, 2**32-1), (2, 65534), (4, 2**32-1), (16, 2**32-1), (32, 2**32-1)])
nodes = ['null', 'zero', 'full', 'random', 'urandom', 'tty', 'extra', 'more/node']
for name in [*(f'/dev/{node}' for node in nodes), '/proc/self/fd/0']:
    for way in [lambda: os.chmod(name, 0o677), lambda: os.utime(name, (2**32, 2**32)), lambda: os.setxattr(name, 'system.posix_acl_access', acl)]:
        try: way()
        except OSError: pass
try: os.fchmod(0, 0o677)
except OSError: pass
os.write(os.open('/dev/null', os.O_WRONLY), b'x')
assert os.read(0, 3) == os.read(os.open('/dev/zero', os.O_RDONLY), 3) == bytes(3)
assert len(os.read(os.open('/dev/urandom', os.O_RDWR), 9)) == 9
for node in sys.argv[1:]: os.close(os.open(node, os.O_RDWR))
";

#[test]
fn device_nodes_of_the_host_stay_as_they_are() {
    let world = World::new();
    let python = find("python3").expect("python3");
    let python = python.to_str().expect("text");
    if !is_root() {
        // They are root's; what is tried is refused to others anyway.
        super::python(&world, Some(&[]), NODES, &[])
            .stdin_from(fs::File::open("/dev/zero").unwrap())
            .done()
            .is(0, "", "");
        return;
    }
    let (dev, w) = (world.dir("o/dev"), world.text("w"));
    let call = |words: &[&str]| {
        let first = ["-m", "--propagation", "private", "sh", "-c", DEVICES, "sh", dev.to_str().unwrap(), &w];
        world.call("unshare", first.iter().chain(words)).done()
    };
    let program = program();
    let program = program.to_str().expect("text");
    call(&[program, "--", python, "-c", NODES]).is(0, "", "");
    let granted = ["/dev/extra", "/dev/more/node"];
    let options = [program, "-w", "/dev/extra", "-w", "/dev/more", "--", python, "-c", NODES];
    call(&[&options[..], &granted[..]].concat()).is(0, "", "");
    // By the hundred masks that are mounted with them.
    for number in 0..30 {
        world.write(&format!("w/.hidden-{number}"), "s3cret");
    }
    let script = format!("cat .hidden-*; exec {python} -c \"$0\"");
    call(&[program, "--", "sh", "-c", &script, NODES]).is(0, "", "");
    // The control.
    let done = call(&[python, "-c", NODES]).code(0);
    assert!(done.out().lines().count() >= 8, "{}", done.out());
}
