//! The system-call filter: each refused call gives its error number, by every way into the kernel, and what programs need of
//! the kernel they still have.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use sandbox_run::seccomp::table::{Answer, Applies, GROUPS};

use crate::harness::{Call, World, find, has_landlock, is_root, program, skip, usable};
use crate::pty::Terminal;

/// Reads lines `WORD NUMBER ARGUMENT…` and prints each word with `done` or the name of the error. Each call in a child.
const CALLS: &str = r#"
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
for line in sys.stdin:
    word, *numbers = line.split()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        text = lambda n: ctypes.c_char_p(n.encode()) if not n.lstrip("-").isdigit() else ctypes.c_long(int(n))
        done = libc.syscall(*map(text, numbers))
        os.write(writer, b"done" if done >= 0 else errno.errorcode[ctypes.get_errno()].encode())
        os._exit(0)
    os.close(writer)
    print(word, os.read(reader, 100).decode() or "killed")
    os.close(reader)
    os.waitpid(child, 0)
"#;

fn python(world: &World, options: Option<&[&str]>, script: &str) -> Call {
    let python = find("python3").expect("python3");
    let words = ["-c", script];
    match options {
        None => world.call(python, words),
        Some(options) => world.run([options, &["--", python.to_str().unwrap()], &words].concat()),
    }
}

/// The answers to these calls, outside or inside.
fn answers(world: &World, options: Option<&[&str]>, calls: &str) -> BTreeMap<String, String> {
    let done = python(world, options, CALLS).stdin(calls).done().code(0);
    let out = done.out();
    let found: BTreeMap<_, _> =
        out.lines().filter_map(|line| line.split_once(' ')).map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
    assert_eq!(found.len(), calls.lines().count(), "{out}");
    found
}

/// Whether this process has all capabilities of its machine.
fn is_mighty() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap().count_ones() >= 38
}

/// Calls that are refused whatever their arguments, by name: what may never drop out of the table.
const REFUSED: &str = "init_module finit_module delete_module mount umount2 pivot_root chroot open_tree open_tree_attr \
    move_mount fsopen fsconfig fsmount fspick mount_setattr open_by_handle_at setns ptrace process_vm_readv \
    process_vm_writev pidfd_getfd process_madvise kcmp add_key request_key keyctl bpf perf_event_open fanotify_init \
    lookup_dcookie userfaultfd clock_settime settimeofday reboot kexec_load kexec_file_load swapon swapoff acct quotactl \
    quotactl_fd syslog vhangup sethostname setdomainname nfsservctl";
const UNKNOWN: &str = "clone3 io_uring_setup io_uring_enter io_uring_register";

#[test]
fn every_refused_call_gives_its_error() {
    let world = World::new();
    let whole = || {
        let groups = GROUPS.iter().filter(|group| matches!(group.applies, Applies::Always | Applies::Untraced));
        groups.flat_map(|group| group.calls.iter().filter(|call| call.tests.is_empty()).map(move |call| (group, call)))
    };
    for (list, answer) in [(REFUSED, Answer::Refused), (UNKNOWN, Answer::Unknown)] {
        for name in list.split_whitespace() {
            assert!(whole().any(|(group, call)| call.name() == name && group.answer == answer), "{name}");
        }
    }
    // Arguments that mean nothing, so that nothing happens where a call is not refused.
    let mut calls = String::new();
    let mut expected = BTreeMap::new();
    for (group, call) in whole().filter(|(_, call)| call.number >= 0) {
        writeln!(calls, "{} {} -1 -1 -1 -1 -1 -1", call.name(), call.number).unwrap();
        expected.insert(call.name().to_owned(), group.answer.name().to_owned());
    }
    for options in [&[][..], &["-w", "."], &["-q", "--net", "host", "-r", "/"], &["--new-session", "never"]] {
        assert_eq!(answers(&world, Some(options), &calls), expected, "{options:?}");
    }
    // The control: the kernel itself has another answer, at least for who may ask. This one has no arguments to get wrong.
    let calls: String =
        calls.lines().filter(|line| !line.starts_with("vhangup ")).flat_map(|line| [line, "\n"]).collect();
    let outside = answers(&world, None, &calls);
    let same: Vec<_> = outside.iter().filter(|(name, answer)| expected[*name] == **answer).collect();
    let missing = |(_, answer): &(&String, &String)| *answer == "ENOSYS";
    if is_mighty() {
        assert!(same.iter().all(missing), "as without the filter: {same:?}");
    } else {
        assert!(outside.len() - same.len() >= 20, "as without the filter: {same:?}");
    }
    let none = answers(&world, Some(&["-q", "-b", "none"]), &calls);
    assert_eq!(none, outside, "nothing is refused where nothing is to be enforced");
}

/// Word, call, arguments, answer inside. Outside it has to be another, but for what works in both.
#[allow(clippy::too_many_lines, reason = "a table")]
fn by_arguments() -> Vec<(&'static str, libc::c_long, &'static str, &'static str)> {
    vec![
        ("tiocsti", libc::SYS_ioctl, "-1 21522 0", "EPERM"),
        // 0x5412 and 0x541C with bits that a comparison of 64 bits would see.
        ("tiocsti-high", libc::SYS_ioctl, "-1 4294988818 0", "EPERM"),
        ("tiocsti-sign", libc::SYS_ioctl, "-1 -4294945774 0", "EPERM"),
        ("tioclinux", libc::SYS_ioctl, "-1 21532 0", "EPERM"),
        ("tioclinux-high", libc::SYS_ioctl, "-1 9223372036854797340 0", "EPERM"),
        ("tiocgwinsz", libc::SYS_ioctl, "-1 21523 0", "EBADF"),
        ("tiocsetd", libc::SYS_ioctl, "-1 21539 0", "EPERM"),
        ("tiocsetd-high", libc::SYS_ioctl, "-1 4294988835 0", "EPERM"),
        ("tiocexcl", libc::SYS_ioctl, "-1 21516 0", "EPERM"),
        ("tiocnxcl", libc::SYS_ioctl, "-1 21517 0", "EBADF"),
        ("tcooff", libc::SYS_ioctl, "-1 21514 0", "EPERM"),
        ("tcooff-high", libc::SYS_ioctl, "-1 21514 4294967296", "EPERM"),
        ("tcoon", libc::SYS_ioctl, "-1 21514 1", "EBADF"),
        // TCGETS, TCSETS, TCSETSW, TCSETSF, TIOCSCTTY, TIOCGPGRP, TIOCSPGRP, TIOCSWINSZ, FIONREAD, TIOCNOTTY, TIOCGETD, FIONBIO.
        ("btrfs-snapshot", libc::SYS_ioctl, "-1 1342215191 0", "EPERM"),
        ("btrfs-snapshot-high", libc::SYS_ioctl, "-1 5637182487 0", "EPERM"),
        ("btrfs-destroy", libc::SYS_ioctl, "-1 1342215183 0", "EPERM"),
        ("btrfs-flags", libc::SYS_ioctl, "-1 1074304026 0", "EPERM"),
        ("bcachefs-subvolume", libc::SYS_ioctl, "-1 1075887120 0", "EPERM"),
        ("ficlonerange", libc::SYS_ioctl, "-1 1075876877 0", "EBADF"),
        ("fideduperange", libc::SYS_ioctl, "-1 3222836278 0", "EBADF"),
        ("fs-add-key", libc::SYS_ioctl, "-1 3226494487 0", "EPERM"),
        ("fs-remove-key", libc::SYS_ioctl, "-1 3225445912 0", "EPERM"),
        ("fs-remove-key-all", libc::SYS_ioctl, "-1 3225445913 0", "EPERM"),
        ("fs-encrypt", libc::SYS_ioctl, "-1 2148296211 0", "EPERM"),
        ("fs-encryption", libc::SYS_ioctl, "-1 3221841430 0", "EBADF"),
        ("reflink-by-path", libc::SYS_ioctl, "-1 1075343108 0", "EPERM"),
        ("fat-attributes", libc::SYS_ioctl, "-1 1074033169 0", "EPERM"),
        ("fat-attributes-asked", libc::SYS_ioctl, "-1 2147774992 0", "EBADF"),
        ("tcgets", libc::SYS_ioctl, "-1 21505 0", "EBADF"),
        ("tcsets", libc::SYS_ioctl, "-1 21506 0", "EBADF"),
        ("tcsetsw", libc::SYS_ioctl, "-1 21507 0", "EBADF"),
        ("tcsetsf", libc::SYS_ioctl, "-1 21508 0", "EBADF"),
        ("tiocsctty", libc::SYS_ioctl, "-1 21518 0", "EBADF"),
        ("tiocgpgrp", libc::SYS_ioctl, "-1 21519 0", "EBADF"),
        ("tiocspgrp", libc::SYS_ioctl, "-1 21520 0", "EBADF"),
        ("tiocswinsz", libc::SYS_ioctl, "-1 21524 0", "EBADF"),
        ("fionread", libc::SYS_ioctl, "-1 21531 0", "EBADF"),
        ("tiocnotty", libc::SYS_ioctl, "-1 21538 0", "EBADF"),
        ("tiocgetd", libc::SYS_ioctl, "-1 21540 0", "EBADF"),
        ("fionbio", libc::SYS_ioctl, "-1 21537 0", "EBADF"),
        // KDSETMODE, KDSKBMODE, PIO_FONT, KIOCSOUND, KDFONTOP; KDGKBTYPE, KDGKBMODE.
        ("kdsetmode", libc::SYS_ioctl, "-1 19258 0", "EPERM"),
        ("kdskbmode", libc::SYS_ioctl, "-1 19269 0", "EPERM"),
        ("pio-font", libc::SYS_ioctl, "-1 19297 0", "EPERM"),
        ("kiocsound", libc::SYS_ioctl, "-1 19247 0", "EPERM"),
        ("kdfontop", libc::SYS_ioctl, "-1 19314 0", "EPERM"),
        ("kdgkbtype", libc::SYS_ioctl, "-1 19251 0", "EBADF"),
        ("kdgkbmode", libc::SYS_ioctl, "-1 19268 0", "EBADF"),
        // VT_SETMODE, VT_ACTIVATE, VT_RESIZE, VT_LOCKSWITCH; VT_GETSTATE.
        ("vt-setmode", libc::SYS_ioctl, "-1 22018 0", "EPERM"),
        ("vt-activate", libc::SYS_ioctl, "-1 22022 0", "EPERM"),
        ("vt-resize", libc::SYS_ioctl, "-1 22025 0", "EPERM"),
        ("vt-lockswitch", libc::SYS_ioctl, "-1 22027 0", "EPERM"),
        ("vt-getstate", libc::SYS_ioctl, "-1 22019 0", "EBADF"),
        // FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_ENABLE_VERITY; FS_IOC_GETFLAGS, FICLONE.
        ("setflags", libc::SYS_ioctl, "-1 1074292226 0", "EPERM"),
        ("setflags-high", libc::SYS_ioctl, "-1 5369259522 0", "EPERM"),
        ("fssetxattr", libc::SYS_ioctl, "-1 1075599392 0", "EPERM"),
        ("enable-verity", libc::SYS_ioctl, "-1 1082156677 0", "EPERM"),
        ("getflags", libc::SYS_ioctl, "-1 2148034049 0", "EBADF"),
        ("ficlone", libc::SYS_ioctl, "-1 1074041865 0", "EBADF"),
        ("personality-query", libc::SYS_personality, "4294967295", "done"),
        ("personality-query-64", libc::SYS_personality, "-1", "done"),
        ("personality-linux", libc::SYS_personality, "0", "done"),
        ("personality-no-randomize", libc::SYS_personality, "262144", "done"),
        ("personality-read-implies-exec", libc::SYS_personality, "4194304", "EPERM"),
        ("personality-both", libc::SYS_personality, "4456448", "EPERM"),
        ("personality-compat", libc::SYS_personality, "2097152", "EPERM"),
        ("personality-high", libc::SYS_personality, "4299161600", "EPERM"),
        ("unshare-nothing", libc::SYS_unshare, "0", "done"),
        ("unshare-files-fs", libc::SYS_unshare, "1536", "done"),
        ("unix", libc::SYS_socket, "1 1 0", "done"),
        ("unix-pair", libc::SYS_socketpair, "1 1 0 -1", "EFAULT"),
        ("inet", libc::SYS_socket, "2 1 0", "done"),
        ("inet6-udp", libc::SYS_socket, "10 2 0", "done"),
        ("inet-high", libc::SYS_socket, "4294967298 1 0", "done"),
        ("route", libc::SYS_socket, "16 3 0", "done"),
        ("diag", libc::SYS_socket, "16 3 4", "EPERM"),
        ("audit", libc::SYS_socket, "16 3 9", "EPERM"),
        ("uevent", libc::SYS_socket, "16 3 15", "EPERM"),
        ("generic", libc::SYS_socket, "16 3 16", "EPERM"),
        ("netfilter-high", libc::SYS_socket, "4294967312 3 12", "EPERM"),
        ("unspecified", libc::SYS_socket, "0 1 0", "EPERM"),
        ("packet", libc::SYS_socket, "17 3 0", "EPERM"),
        ("vsock", libc::SYS_socket, "40 1 0", "EPERM"),
        ("alg", libc::SYS_socket, "38 5 0", "EPERM"),
        ("bluetooth", libc::SYS_socket, "31 3 1", "EPERM"),
        ("can", libc::SYS_socket, "29 3 1", "EPERM"),
        ("tipc", libc::SYS_socket, "30 5 0", "EPERM"),
        ("kcm", libc::SYS_socket, "41 5 0", "EPERM"),
        ("qipcrtr", libc::SYS_socket, "42 2 0", "EPERM"),
        ("smc", libc::SYS_socket, "43 1 0", "EPERM"),
        ("xdp", libc::SYS_socket, "44 3 0", "EPERM"),
        ("mctp", libc::SYS_socket, "45 2 0", "EPERM"),
        ("appletalk", libc::SYS_socket, "5 2 0", "EPERM"),
        ("minus-one", libc::SYS_socket, "-1 1 0", "EPERM"),
        ("tipc-pair", libc::SYS_socketpair, "30 5 0 -1", "EPERM"),
        ("limits-of-1", libc::SYS_prlimit64, "1 7 0 0", "EPERM"),
        ("limits-of-1-high", libc::SYS_prlimit64, "4294967297 7 0 0", "EPERM"),
        ("own-limits", libc::SYS_prlimit64, "0 7 0 0", "done"),
        // CLONE_NEWUSER, and all bits.
        ("clone-user", libc::SYS_clone, "268435456 0 0 0 0", "EPERM"),
        ("clone-high", libc::SYS_clone, "4563402752 0 0 0 0", "EPERM"),
        ("clone-all", libc::SYS_clone, "-1 0 0 0 0", "EPERM"),
        ("name-to-handle", libc::SYS_name_to_handle_at, "-1 -1 -1 -1 -1", "EFAULT EINVAL"),
        ("renice-own", libc::SYS_setpriority, "0 0 10", "done"),
        ("ioprio-own", libc::SYS_ioprio_set, "1 0 24576", "done"),
    ]
}

#[test]
fn arguments_decide_by_their_low_32_bits() {
    let world = World::new();
    let cases = by_arguments();
    let mut calls = String::new();
    for (word, call, arguments, _) in &cases {
        writeln!(calls, "{word} {call} {arguments}").unwrap();
    }
    let outside = answers(&world, None, &calls);
    for options in [&[][..], &["--net", "host"], &["-w", "."], &["--new-session", "never"]] {
        let inside = answers(&world, Some(options), &calls);
        for (word, _, _, expected) in &cases {
            let found = inside[*word].as_str();
            assert!(expected.split(' ').any(|one| one == found), "{word}: {found} {options:?}");
        }
    }
    for (word, call, ..) in &cases {
        assert!(*call != libc::SYS_ioctl || outside[*word] == "EBADF", "control: {word} {}", outside[*word]);
    }
    for word in
        ["tiocsti", "tiocsti-high", "personality-read-implies-exec", "audit", "uevent", "generic", "limits-of-1"]
    {
        // A socket may want a capability, and process 1 outside is root's.
        assert!(outside[word] != "EPERM" || (word == "limits-of-1" && !is_root()), "control: {word} {}", outside[word]);
    }
}

/// Makes files with the setuid bit in the working directory in every way, and prints what came of each.
const SETUID: &str = r#"
import ctypes, errno, os, stat, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
numbers = dict(item.split("=") for item in sys.argv[1:])
bits = 0o4755
def answer(done): return "done" if done >= 0 else errno.errorcode[ctypes.get_errno()]
def call(name, *arguments):
    if int(numbers[name]) < 0: return "EPERM"
    return answer(libc.syscall(int(numbers[name]), *arguments))
open("f", "w").close()
fd = os.open("f", os.O_RDONLY)
create = os.O_CREAT | os.O_WRONLY
ways = {
    "chmod": lambda: call("chmod", b"f", bits),
    "fchmod": lambda: call("fchmod", fd, bits),
    "fchmodat": lambda: call("fchmodat", -100, b"f", bits),
    "fchmodat2": lambda: call("fchmodat2", -100, b"f", bits, 0),
    "only": lambda: call("fchmodat", -100, b"f", 0o4000),
    "and-setgid": lambda: call("fchmodat", -100, b"f", 0o6777),
    "open": lambda: call("open", b"a", create, bits),
    "creat": lambda: call("creat", b"b", bits),
    "openat": lambda: call("openat", -100, b"c", create, bits),
    "tmpfile": lambda: call("openat", -100, b".", os.O_TMPFILE | os.O_WRONLY, bits),
    "mknod": lambda: call("mknod", b"d", stat.S_IFREG | bits, 0),
    "mknodat": lambda: call("mknodat", -100, b"e", stat.S_IFREG | bits, 0),
    "openat2": lambda: call("openat2", -100, b"g", struct.pack("QQQ", create, bits, 0), 24),
    # What has to go on working: no file is made, other bits, directories.
    "no-create": lambda: call("openat", -100, b"f", os.O_RDONLY, bits),
    "plain": lambda: call("fchmodat", -100, b"f", 0o755),
    "setgid": lambda: call("fchmodat", -100, b"f", 0o2755),
    "sticky": lambda: (os.mkdir("dir"), call("fchmodat", -100, b"dir", 0o3777))[1],
}
for name, way in ways.items():
    print(name, way())
left = sorted(n for n in os.listdir() if os.stat(n).st_mode & stat.S_ISUID)
print("left", ",".join(left) or "none")
"#;

#[test]
fn keys_of_encrypted_directories_are_the_hosts() {
    if !is_root() {
        return eprintln!("not tried: a file system of our own takes root");
    }
    let world = World::new();
    let script = "truncate -s 24M img; /sbin/mkfs.ext4 -q -F -O encrypt img; mkdir m
        mount -o loop img m && cp \"$KEY\" m/key.py && cd m || exit 77
        key() { python3 key.py $1 .; }; inside() { \"$SR\" -b $B -- python3 key.py $1 .; }
        key add; inside remove; key look; key remove; inside add; key look; cd ..; umount m";
    let tree = std::env::var_os("CARGO_MANIFEST_DIR").expect("by cargo");
    let program_of_test = std::path::Path::new(&tree).join("tests/fixtures/key.py");
    for backend in ["bwrap", "namespace", "landlock"].into_iter().filter(|name| *name != "landlock" || has_landlock()) {
        let call = world.call("unshare", ["-m", "--propagation", "private", "sh", "-c", script]);
        let done = call.env("KEY", &program_of_test).env("SR", program()).env("B", backend).done();
        if done.code == Some(77) || done.out().starts_with("EOPNOTSUPP") {
            return eprintln!("not tried: no such file system can be mounted here: {}", done.stderr);
        }
        assert_eq!(done.out(), "added\nEPERM\npresent\nremoved\nEPERM\nabsent\n", "{backend}: {}", done.stderr);
        std::fs::remove_dir(world.path("w/m")).expect("mount point");
    }
}

#[test]
fn root_leaves_no_setuid_file_on_the_host() {
    let numbers = |world: &World, options: Option<&[&str]>| {
        let names =
            ["chmod", "fchmod", "fchmodat", "fchmodat2", "open", "creat", "openat", "mknod", "mknodat", "openat2"];
        let number = |name| {
            let mut calls = GROUPS.iter().flat_map(|group| group.calls);
            format!("{name}={}", calls.find(|call| call.name() == name).expect("in the table").number)
        };
        let mut words = vec!["-c".to_owned(), SETUID.to_owned()];
        words.extend(names.map(number));
        let python = find("python3").unwrap();
        let done = match options {
            None => world.call(python, &words).done(),
            Some(options) => {
                let words = options
                    .iter()
                    .map(ToString::to_string)
                    .chain(["--".to_owned(), python.display().to_string()])
                    .chain(words);
                world.run(words).done()
            }
        };
        done.code(0).out()
    };
    let outside = numbers(&World::new(), None);
    assert!(
        outside.contains("fchmodat done") && outside.contains("left a,b,c,d,e") && outside.contains("openat2 done"),
        "{outside}"
    );
    let world = World::new();
    let inside = numbers(&world, Some(&["-w", "."]));
    if !is_root() {
        // A file of the caller's own, who may give it whichever mode.
        assert_eq!(inside, outside);
        return;
    }
    for line in inside.lines() {
        let (way, found) = line.split_once(' ').unwrap();
        let expected = match way {
            "no-create" | "plain" | "setgid" | "sticky" => "done",
            "left" => "none",
            "openat2" => "ENOSYS",
            _ => "EPERM",
        };
        assert_eq!(found, expected, "{way}\n{inside}");
    }
    // Programs that would make one say so.
    let world = World::new();
    world.sh(["-w", "."], "cp /usr/bin/env e && chmod 4755 e").done().code(1).stdout("").stderr_has("not permitted");
    // Nor without a write grant, in what is private: whether a descriptor is the host's no filter sees.
    let private = numbers(&World::new(), Some(&["--", "env", "-C", "/tmp"]));
    assert_eq!(private, inside);
}

/// Machine code that asks for the process number: i386 by `int 0x80`, and x32.
pub const FOREIGN: &str = r#"
import ctypes, errno, mmap, os, sys
def run(code):
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(bytes.fromhex(code))
    call = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
    return call()
number = {"getpid": "b814000000cd80c3", "mount": "b815000000cd80c3", "unshare": "b836010000bb00000010cd80c3"}
if sys.argv[1] in number:
    print(run(number[sys.argv[1]]) == os.getpid())
else:
    libc = ctypes.CDLL(None, use_errno=True)
    print(libc.syscall(0x40000000 | int(sys.argv[1])), errno.errorcode.get(ctypes.get_errno()))
"#;

#[test]
fn other_tables_of_call_numbers_are_closed() {
    if cfg!(not(target_arch = "x86_64")) {
        return skip("x86_64", "the machine code of this test is of x86_64");
    }
    let world = World::new();
    let script = |word: &str| FOREIGN.replace("sys.argv[1]", &format!("'{word}'"));
    for options in usable([["-b", "bwrap"], ["-b", "landlock"]]) {
        // getpid, ioctl by its x32 number, keyctl, unshare.
        for number in ["39", "514", "250", "272"] {
            python(&world, Some(&options), &script(number)).done().is(0, "-1 ENOSYS\n", "");
        }
        for word in ["getpid", "mount", "unshare"] {
            python(&world, Some(&options), &script(word)).done().is(128 + libc::SIGSYS, "", "");
        }
    }
    // A program of its own, beside this one's interpreter, dies alone.
    let text = format!("python3 -c '{}' 2>/dev/null; echo went on", script("getpid").replace('\'', "\""));
    world.sh([""; 0], &text).done().code(0).stdout_has("went on\n").stdout_lacks("True");
    let outside = python(&world, None, &script("getpid")).done();
    if outside.code != Some(0) || outside.out() != "True\n" {
        skip("ia32", "this kernel takes no i386 calls, with or without the filter");
    }
}

/// From a terminal that is shared, the priority of its other processes is not the target's to set.
#[test]
fn the_priority_of_the_callers_group_stays() {
    let world = World::new();
    let inside =
        "import os\ntry: os.setpriority(os.PRIO_PGRP, 0, 7); print('set')\nexcept PermissionError: print('refused')";
    world.write("o/renice.py", inside);
    let renice = world.text("o/renice.py");
    let nice = |started: &str| {
        let mut terminal =
            Terminal::start(world.call("sh", ["-c", &format!("sleep 600 & echo pid $! .; {started}; wait")]));
        terminal.expect("the-end");
        let pid = terminal.text().split_once("pid ").and_then(|(_, rest)| rest.split(' ').next()).unwrap();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let text = terminal.text().to_owned();
        terminal.hang_up();
        (text, stat.rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().to_owned())
    };
    let before = nice("echo the-end").1;
    let launcher = program();
    let (said, after) =
        nice(&format!("{} -r {renice} -- python3 {renice}; {0} -- ionice -c 3 -P 0; echo the-end", launcher.display()));
    assert!(said.contains("refused"), "{said}");
    assert_eq!(before, after, "{said}");
    // The controls: outside, and of the process itself inside.
    let (said, outside) = nice(&format!("/usr/bin/python3 {renice}; echo the-end"));
    assert!(said.contains("set"), "{said}");
    assert_ne!(before, outside);
    world
        .sh(["--new-session", "never"], "base=$(nice); echo $(($(nice -n 5 nice) - base)); renice -n $((base + 5)) -p $$ >/dev/null && echo $(($(nice) - base))")
        .done()
        .is(0, "5\n5\n", "");
    // In a session of its own there is nobody else in the group.
    world.run(["--new-session", "always", "-r", &renice, "--", "python3", &renice]).done().is(0, "set\n", "");
}

/// A key that only who has the caller's session keyring can see is not seen inside: the target has another.
#[test]
fn the_session_keyring_is_a_new_one() {
    let world = World::new();
    // A new named session keyring, a key in it, and that nobody but a possessor may do anything with either.
    let text = format!(
        "import ctypes, os, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n\
         if libc.syscall({keyctl}, 1, b'sandbox-run-test') < 0: sys.exit(9)\n\
         key = libc.syscall({add}, b'user', b'sandbox-run-key', b'x', 1, -3)\n\
         if key < 0 or libc.syscall({keyctl}, 5, key, 0x3f000000) < 0: sys.exit(9)\n\
         os.execv(sys.argv[1], sys.argv[1:])",
        keyctl = libc::SYS_keyctl,
        add = libc::SYS_add_key
    );
    let call = |words: &[&str]| {
        let words: Vec<_> = ["-c", &text].iter().chain(words).map(ToString::to_string).collect();
        world.call(find("python3").unwrap(), words).done()
    };
    let outside = call(&["/bin/cat", "/proc/keys"]);
    if outside.code == Some(9) || !outside.out().contains("sandbox-run-key") {
        return skip("keyrings", "this kernel, or the container around, has no keyrings");
    }
    let launcher = program();
    let launcher = launcher.to_str().unwrap();
    call(&[launcher, "--", "cat", "/proc/keys"]).code(0).stdout_lacks("sandbox-run-key");
    // Where nothing is enforced it stays: ticket caches lie there.
    call(&[launcher, "-q", "-b", "none", "--", "cat", "/proc/keys"]).code(0).stdout_has("sandbox-run-key");
}

#[test]
fn a_dry_run_shows_the_filter() {
    let world = World::new();
    let plan = |options: &[&str]| -> serde_json::Value {
        let words = [options, &["--dry-run=json", "true"]].concat();
        serde_json::from_slice(&world.run(words).done().code(0).stdout).unwrap()
    };
    let whole = plan(&[]);
    let refused = whole["seccomp"]["refused"].as_array().unwrap();
    let named: BTreeSet<_> = refused.iter().map(|group| group["group"].as_str().unwrap()).collect();
    for group in GROUPS {
        assert_eq!(
            named.contains(group.name),
            matches!(group.applies, Applies::Always | Applies::Untraced)
                || (is_root() && group.applies == Applies::Root),
            "{}",
            group.name
        );
    }
    assert!(refused.iter().any(|group| group["errno"] == "ENOSYS" && group["calls"][0] == "clone3"));
    let program = whole["seccomp"]["program"].as_array().unwrap();
    // Its first word loads the architecture.
    assert_eq!(program[0], serde_json::json!([0x20, 0, 0, 4]));
    assert!(program.len() > 50);
    let text = world.run(["--dry-run", "true"]).done().code(0).out();
    assert!(text.contains("\nsystem calls refused: kernel modules, mounts, "), "{text}");
    assert!(plan(&["-q", "-b", "none"]).get("seccomp").is_none());
}

fn file(path: &str) -> PathBuf {
    let root = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(root).join(path)
}

#[test]
fn the_table_of_the_documentation_is_that_of_the_code() {
    let mut table = "| what | calls | answer | when | reason |\n|---|---|---|---|---|\n".to_owned();
    for group in GROUPS {
        let calls: Vec<_> = group.calls.iter().map(|call| format!("`{}`", call.name()) + &when(call.when)).collect();
        let applies = match group.applies {
            Applies::Always => "always",
            Applies::Untraced => "without `--trace`",
            Applies::OwnGroup => "shared session, no Landlock ABI 6",
            Applies::SharedGroup => "shared session",
            Applies::Root => "root",
            Applies::OldLandlock => "Landlock below ABI 3",
            Applies::Bare | Applies::NoMetadata => "`landlock`",
            Applies::NoNetwork => "`landlock` with `--net off`",
            Applies::WayOut => "`landlock` with `--allow-host` or `--egress-socket`",
            Applies::NoUnix => "`landlock` below ABI 9, unless sockets are a gap",
            Applies::RootNoMetadata => "the same for root",
        };
        let row = [group.name, &calls.join(", "), group.answer.name(), applies, group.reason].join(" | ");
        writeln!(table, "| {row} |").unwrap();
    }
    let path = file("docs/system-calls.md");
    let text = fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once("<!-- table -->\n").expect("where the table begins");
    let (found, tail) = rest.split_once("<!-- end -->\n").expect("where the table ends");
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, format!("{head}<!-- table -->\n{table}<!-- end -->\n{tail}")).unwrap();
    } else {
        assert_eq!(found, table, "docs/system-calls.md: BLESS=1 writes it anew");
    }
}

fn when(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(" ({words})") }
}
