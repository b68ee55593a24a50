//! Mode, owner, times and attributes under `landlock`: changed where a write grant lies, by whatever name, and nowhere else; and
//! what of that programs need in order to build something.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::harness::{World, has, has_landlock, is_root};
use crate::landlock::{python, sh};

/// Each changes FILE.
const CHANGES: &[&str] = &[
    "chmod 751 FILE",
    "touch -d 2001-01-01 FILE",
    "python3 -c 'import os; os.utime(\"FILE\", (1, 1))'",
    "python3 -c 'import os; os.setxattr(\"FILE\", \"user.x\", b\"x\")'",
    "python3 -c 'import os; os.chown(\"FILE\", os.getuid(), os.getgid()); os.chmod(\"FILE\", 0o600)'",
    "python3 -c 'import os; f = os.open(\"FILE\", os.O_PATH); os.chmod(f\"/proc/self/fd/{f}\", 0o777)'",
    "python3 -c 'import os; f = os.open(\"FILE\", os.O_PATH); os.chmod(f\"/dev/fd/{f}\", 0o777)'",
    "python3 -c 'import os; os.chmod(os.path.basename(\"FILE\"), 0o777, dir_fd=os.open(os.path.dirname(\"FILE\"), os.O_PATH))'",
    "cd $(dirname FILE) && chmod 777 ./$(basename FILE)",
    "ln -s $(realpath FILE) d/link && chmod 777 d/link",
    "ln -s $(dirname $(realpath FILE)) d/link && touch -d 2001-01-01 d/link/$(basename FILE)",
    "mkdir d/e && cd d/e && chmod 777 ../../FILE",
    "sh -c 'sh -c \"chmod 777 FILE\" & wait $!'",
    "python3 -c 'import os, threading; t = threading.Thread(target=os.chmod, args=(\"FILE\", 0o777)); t.start(); t.join(); \
     os.utime(\"FILE\")'",
];

/// Mode, times but for the last look, and attributes.
fn marks(world: &World, name: &str) -> (u32, i64, i64, Option<Vec<u8>>) {
    let path = world.path(name);
    let found = fs::metadata(&path).unwrap();
    let script = "import os, sys; print(os.listxattr(sys.argv[1]))";
    let attributes = world.call("/usr/bin/python3", ["-c", script, path.to_str().unwrap()]).done().stdout;
    (found.mode(), found.mtime(), found.mtime_nsec(), Some(attributes))
}

#[test]
fn it_is_changed_where_a_write_grant_lies() {
    if !has_landlock() {
        return;
    }
    for change in CHANGES {
        let world = World::new();
        world.dir("w/d");
        for name in ["w/d/file", "w/x/file"] {
            world.write(name, "x");
            fs::set_permissions(world.path(name), fs::Permissions::from_mode(0o644)).unwrap();
        }
        let before = marks(&world, "w/x/file");
        // `x` can be read, and so there is nothing but the filter to keep it from being changed.
        let done = sh(&world, &["-w", "d"], &change.replace("FILE", "x/file")).done();
        assert_ne!(done.code, Some(0), "{change}");
        assert!(
            ["ermission denied", "Errno 13"].iter().any(|word| done.stderr.contains(word)),
            "{change}: {}",
            done.stderr
        );
        assert_eq!(marks(&world, "w/x/file"), before, "{change}");
        for name in ["link", "e"] {
            let path = world.path("w/d").join(name);
            let _gone = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
        }
        let before = marks(&world, "w/d/file");
        sh(&world, &["-w", "d"], &change.replace("FILE", "d/file")).done().is(0, "", "");
        assert_ne!(marks(&world, "w/d/file"), before, "{change}");
    }
}

#[test]
fn what_cannot_even_be_read_stays_as_it_is() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    world.dir("w/d");
    let o = world.text("o");
    for change in CHANGES.iter().filter(|change| !change.contains("../../")) {
        let before = marks(&world, "o/secret");
        let done = sh(&world, &["-w", "d"], &change.replace("FILE", &format!("{o}/secret"))).done();
        assert_ne!(done.code, Some(0), "{change}");
        assert_eq!(marks(&world, "o/secret"), before, "{change}");
        let _gone = fs::remove_file(world.path("w/d/link"));
    }
    // The working directory itself, the root, and what has no place in the tree.
    let script = "import os\n\
        for name in ['.', '..', '/', '/proc/self', '/dev/null', '/proc/self/cwd', '/proc/self/root', '/proc/self/exe']:\n\
        \x20   for act in [lambda: os.chmod(name, 0o777), lambda: os.utime(name), lambda: os.chown(name, -1, os.getgid())]:\n\
        \x20       try:\n\
        \x20           act(); print(name)\n\
        \x20       except OSError as error:\n\
        \x20           assert error.errno in (1, 13, 40), (name, error)";
    python(&world, &["-w", "d"], script).done().is(0, "", "");
}

#[test]
fn a_file_of_its_own_and_a_link_are_known_by_themselves() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    for name in ["w/file", "w/file2", "w/d/file"] {
        world.write(name, "x");
    }
    // A granted file, and no other one that has a name like it.
    sh(&world, &["-w", "file"], "chmod 751 file; chmod 751 file2; stat -c %a file").done().code(0).stdout("751\n");
    assert_ne!(fs::metadata(world.path("w/file2")).unwrap().mode() & 0o777, 0o751);
    // A link to what is outside has times of its own.
    world.link("w/d/link", world.path("o/secret"));
    let before = marks(&world, "o/secret");
    let script = "touch -h -d 2001-01-01 d/link && chown -h $(id -u) d/link && stat -c %Y d/link";
    let done = sh(&world, &["-w", "d"], script).env("TZ", "UTC").done();
    done.is(0, "978307200\n", "");
    assert_eq!(marks(&world, "o/secret"), before);
    // A file that has been taken away while it is open, and the private directories.
    let script = "import os, tempfile\n\
        f = os.open('d/file', os.O_RDWR); os.unlink('d/file'); os.fchmod(f, 0o751); print(oct(os.fstat(f).st_mode))\n\
        for place in (tempfile.gettempdir(), os.path.expanduser('~')):\n\
        \x20   os.mkdir(place + '/a'); os.chmod(place + '/a', 0o750); print(oct(os.stat(place + '/a').st_mode))";
    python(&world, &["-w", "d"], script).done().is(0, "0o100751\n0o40750\n0o40750\n", "");
}

/// Calls as the kernel has them, with the error that each gives.
const RAW: &str = r"
import ctypes, errno, os, platform, struct
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(*words):
    ctypes.set_errno(0)
    if libc.syscall(*map(wrap, words)) >= 0: return 'done'
    return errno.errorcode[ctypes.get_errno()].replace('EOPNOTSUPP', 'ENOTSUP')
def wrap(word):
    return ctypes.c_char_p(word) if isinstance(word, bytes) else ctypes.c_long(word)
arm = platform.machine() == 'aarch64'
fchmodat, utimensat, fchownat, setxattr, seccomp = (53, 88, 54, 5, 277) if arm else (268, 280, 260, 188, 317)
here, empty, nofollow = -100, 0x1000, 0x100
there = os.open('d', os.O_PATH)
print(call(fchmodat, here, 0, 0o600), call(fchmodat, here, 8, 0o600), call(fchmodat, here, b'', 0o600))
print(call(fchmodat, here, b'd/nope', 0o600), call(fchmodat, here, b'd/file/x', 0o600), call(fchmodat, 99, b'file', 0o600))
print(call(fchmodat, here, b'x' * 4096, 0o600), call(fchmodat, here, b'd/' + b'x' * 300, 0o600), call(fchmodat, 99, b'd/../../o', 0o600))
print(call(fchmodat, there, b'file', 0o611), oct(os.stat('d/file').st_mode))
print(call(452, there, b'file', 0o622, 0), call(452, there, b'', 0o711, empty), call(452, there, b'file', 0o611, 1))
os.symlink('file', 'd/link')
print(call(452, there, b'link', 0o611, nofollow), oct(os.stat('d').st_mode))
print(call(utimensat, there, b'file', 0, 0), call(utimensat, there, b'file', 8, 0))
times = ctypes.create_string_buffer(struct.pack('4q', 5, 7, 6, 8))
print(call(utimensat, there, b'file', ctypes.addressof(times), 0), os.stat('d/file').st_mtime_ns)
print(call(fchownat, there, b'file', -1, -1, 0), call(fchownat, there, b'', os.getuid(), -1, empty))
print(call(setxattr, b'd/file', b'user.x', b'v', 1 << 20, 0), call(setxattr, b'd/file', b'x' * 300, b'v', 1, 0))
print(call(463, here, b'd/file', 0, b'user.x', 0, 0), call(seccomp, 1, 8, 0), call(seccomp, 1, 0, 0))
";

#[test]
fn answers_are_those_of_the_kernel() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    world.write("w/d/file", "x");
    python(&world, &["-w", "d"], RAW).done().is(
        0,
        "EFAULT EFAULT ENOENT\nENOENT ENOTDIR EBADF\nENAMETOOLONG ENAMETOOLONG EBADF\ndone 0o100611\ndone done EINVAL\n\
         ENOTSUP 0o40711\ndone EFAULT\ndone 6000000008\ndone done\nE2BIG ERANGE\nENOSYS EPERM EFAULT\n",
        "",
    );
}

#[test]
fn what_is_built_works() {
    if !has_landlock() || !has("cc") || !has("git") {
        return;
    }
    let world = World::new();
    world.write("w/main.c", "#include <stdio.h>\nint main(void) { puts(\"built\"); }\n");
    world.write("w/a/file", "1");
    world.dir("w/b");
    let sh = |script: &str| sh(&world, &["-w", "."], script).done();
    sh("cc main.c -o main && ./main").is(0, "built\n", "");
    sh("cp -p main copy && ./copy && install -m 700 main a/main && a/main").is(0, "built\nbuilt\n", "");
    sh("mv a/file b/file && mv a b/a && ls b").is(0, "a\nfile\n", "");
    sh("cp b/file b/.file.new && chmod --reference=b/file b/.file.new && mv b/.file.new b/file && cat b/file")
        .is(0, "1", "");
    sh("tar cf all.tar b && mkdir c && tar xpf all.tar -C c && ls c/b").is(0, "a\nfile\n", "");
    sh("printf '#!/bin/sh\\necho ran\\n' >script && chmod +x script && ./script").is(0, "ran\n", "");
    let commit = "git init -q r && cd r && git config user.name n && git config user.email e@example.org && \
                  echo x >f && git add f && git commit -qm m && git mv f g && git commit -qm n && git log --format=%s";
    sh(commit).is(0, "n\nm\n", "");
}

#[test]
fn cargo_builds_a_crate() {
    if !has_landlock() || !has("cargo") || !has("cc") {
        return;
    }
    let world = World::new();
    world.write("w/Cargo.toml", "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n");
    world.write("w/src/main.rs", "fn main() {\n    println!(\"{}\", env!(\"MADE\"));\n}\n");
    world.write("w/build.rs", "fn main() {\n    println!(\"cargo::rustc-env=MADE=built\");\n}\n");
    // The rest of the toolchain lies below HOME, where the profile finds it.
    let words = ["-q", "-b", "landlock", "-p", "rust", "-w", ".", "--", "cargo", "run", "-q", "--offline"];
    let outside = world.call("cargo", ["--version"]).done();
    if outside.code != Some(0) {
        crate::harness::skip("a crate", "cargo does not run in a home of its own");
        return;
    }
    world.run(words).done().is(0, "built\n", "");
}

#[test]
fn inside_another_run_it_is_refused_or_the_others_to_decide() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    world.write("w/d/file", "x");
    world.write("w/x/file", "x");
    let program = crate::harness::program();
    let program = program.to_str().unwrap();
    let inner =
        |more: &str| format!("{program} -q -b landlock -w d {more} -- sh -c 'chmod 751 d/file && stat -c %a d/file'");
    let nested = |script: &str| sh(&world, &["-w", "d", "-r", program, "--allow-gap", "processes"], script).done();
    let done = nested(&inner(""));
    assert_ne!(done.code, Some(0));
    done.stderr_has("Permission denied");
    nested(&inner("--allow-gap files-write")).is(0, "751\n", "");
    // Not more than the other run may.
    let outside = inner("--allow-gap files-write -w x").replace("d/file", "x/file");
    let done = nested(&outside);
    assert_ne!(done.code, Some(0));
    done.stderr_has("Permission denied");
}

/// A descriptor on a file of a tree that is mounted nowhere any more has the name of one in the grant.
#[test]
fn a_name_that_is_another_files_decides_nothing() {
    if !has_landlock() || !is_root() {
        return;
    }
    let world = World::new();
    world.dir("m");
    let (mount, inner) = (world.text("m"), world.text("w/f"));
    world.write("w/f", "");
    let program = crate::harness::program();
    // A command of the same shell has it as standard input.
    let outer = format!(
        "mount -t tmpfs x {mount} && mkdir -p {mount}{0} && touch {mount}{inner} && chmod 600 {mount}{inner} && exec 5<{mount}{inner} && \
         umount -l {mount} && {1} -b landlock -w . -- python3 -c 'import os; os.fchmod(0, 0o777)' <&5; stat -L -c %a /dev/fd/5",
        world.text("w"),
        program.display()
    );
    let done = world.call("unshare", ["-m", "--propagation", "private", "sh", "-c", &outer]).done().code(0);
    assert!(done.out() == "600\n" && done.stderr.contains("Permission denied"), "{} {}", done.out(), done.stderr);
    // The control, and a file that has no name any more.
    let script = "import os; f = os.open('f', os.O_RDONLY); os.fchmod(f, 0o640); os.unlink('f'); os.fchmod(f, 0o644); print(oct(os.fstat(f).st_mode))";
    world.run(["-b", "landlock", "-w", ".", "--", "python3", "-c", script]).done().is(0, "0o100644\n", "");
}

/// What is accepted and not needed is no gap.
#[test]
fn without_another_run_around_it_nothing_is_open() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    let target = world.write("o/public", "");
    let words = ["-b", "landlock", "--allow-gap", "files-write", "--", "chmod", "777", "../o/public"];
    let done = world.run(words).done().code(1).stderr_has("Permission denied");
    assert!(!done.stderr.contains("not enforced"), "{}", done.stderr);
    assert_ne!(std::fs::metadata(target).unwrap().permissions().mode() & 0o777, 0o777);
}

/// A call that has to be asked about waits like one that goes on by itself after a signal, where the caller wants that.
#[test]
fn a_signal_interrupts_none_that_restarts() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    let script = "
import ctypes, os, signal
count = 0
def heard(*_):
    global count
    count += 1
signal.signal(signal.SIGALRM, heard)
signal.siginterrupt(signal.SIGALRM, False)
open('f', 'w').close()
chmod = ctypes.CDLL(None, use_errno=True).chmod
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
while count < 500:
    for mode in (0o600, 0o640):
        if chmod(b'f', mode) != 0:
            raise SystemExit(ctypes.get_errno())
        if os.stat('f').st_mode & 0o777 != mode:
            raise SystemExit('not done')
signal.setitimer(signal.ITIMER_REAL, 0)
";
    python(&world, &["-w", "."], script).done().is(0, "", "");
}
