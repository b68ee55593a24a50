//! No other name of a file leads past a mask or a protect, for reading and for writing, below a write grant.

use std::fs;

use crate::harness::World;

/// Goes each way to the file `argv[1]` in the working directory, or `argv[1]/f` if that is a directory, and says what came of
/// reading it (`argv[2]` is `read`) or of writing to it.
///
/// A way is a function that gives a path. Some change names first; what they have changed is put back.
const WAYS: &str = r"
import ctypes, os, struct, subprocess, sys
s, act = sys.argv[1:]; here = os.getcwd(); libc = ctypes.CDLL(None, use_errno=True)
directory = os.path.isdir(s); below = '/f' if directory else ''
AT = -100
def checked(answer):
    if answer < 0: raise OSError(ctypes.get_errno(), 'no')
    return answer
def attempt(name, way, back=lambda: None):
    try:
        path = way()
        try:
            if act == 'read': text = open(path).read().strip()
            else:
                file = os.open(path, os.O_WRONLY | os.O_APPEND)
                os.write(file, b'x'); os.close(file)
                text = 'written'
        finally: back()
    except (OSError, subprocess.CalledProcessError): text = ''
    print(name, text or '-')
def plain(path): return lambda: path + below
def run(*words): subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
def after(action, path): return lambda: (action(), path + below)[1]
fd = os.open('.', os.O_RDONLY); o_path = os.open(s, os.O_PATH); parent = os.open('x', os.O_RDONLY)
for name, path in {
    'plain': s, 'dots': f'x/../{s}', 'slashes': f'.//.///{s}', 'absolute': f'{here}/{s}', 'link': f'link-{s}', 'link to link': f'x/link',
    'link to directory': f'around/{s}', 'root': f'/proc/self/root{here}/{s}', 'cwd': f'/proc/self/cwd/{s}', 'thread': f'/proc/thread-self/cwd/{s}',
    'task': f'/proc/self/task/{os.getpid()}/root{here}/{s}', 'descriptor': f'/proc/self/fd/{fd}/{s}', 'dev': f'/dev/fd/{fd}/{s}',
    'parent of descriptor': f'/proc/self/fd/{parent}/../{s}', 'O_PATH': f'/proc/self/fd/{o_path}', 'process 1': f'/proc/1/cwd{here}/{s}',
    'root of process 1': f'/proc/1/root{here}/{s}', 'old root': f'/oldroot{here}/{s}', 'upper case': s.upper(),
}.items(): attempt(name, plain(path))
def openat2(flags, resolve):
    how = struct.pack('QQQ', flags, 0, resolve)
    return f'/proc/self/fd/{checked(libc.syscall(437, fd, s.encode(), how, len(how)))}'
attempt('openat2', lambda: openat2(os.O_PATH, 0) + below)
attempt('openat2 beneath', lambda: openat2(os.O_PATH, 8) + below)
attempt('open_tree', lambda: f'/proc/self/fd/{checked(libc.syscall(428, fd, s.encode(), 1))}' + below)
gone = lambda: subprocess.run(['rm', '-rf', 't', 'u'])
if not directory:
    attempt('hard link', after(lambda: os.link(s, 't'), 't'), gone)
    attempt('hard link of a descriptor', after(lambda: checked(libc.linkat(AT, f'/proc/self/fd/{o_path}'.encode(), AT, b't', 0x400)), 't'), gone)
attempt('rename', after(lambda: os.rename(s, 't'), 't'), lambda: os.rename('t', s))
attempt('exchange', after(lambda: checked(libc.renameat2(AT, s.encode(), AT, b'other', 2)), 'other'), lambda: libc.renameat2(AT, s.encode(), AT, b'other', 2))
attempt('replaced link', after(lambda: (os.symlink('plain', 't'), os.symlink(s, 'u'), os.rename('u', 't')), 't'), gone)
attempt('copy', after(lambda: run('cp', '-a', '--reflink=auto', s, 't'), 't') if act == 'read' else plain('nowhere/x'), gone)
bind = f'mount --bind {s} other && cat other{below}'
attempt('bind', after(lambda: run('mount', '--bind', s, 'other'), 'other'))
attempt('bind elsewhere', after(lambda: run('unshare', '-Urm', 'sh', '-c', bind), 'other'))
attempt('unmounted', after(lambda: run('umount', s), s))
attempt('lazily unmounted', after(lambda: checked(libc.umount2(s.encode(), 2)), s))
attempt('remounted', after(lambda: run('mount', '-o', 'remount,bind,rw', s), s))
attempt('chroot', after(lambda: os.chroot('.'), s))
attempt('moved parent', after(lambda: os.rename(here, here + '~'), f'{here}~/{s}'))
";

/// Ways that nobody may go inside, whatever the file.
const CLOSED: &[&str] = &[
    "process 1",
    "root of process 1",
    "old root",
    "upper case",
    "open_tree",
    "bind",
    "bind elsewhere",
    "unmounted",
    "lazily unmounted",
    "remounted",
    "chroot",
    "moved parent",
];

fn world(directory: bool) -> World {
    let world = World::new();
    for name in ["s", "n"] {
        let text = if name == "s" { "s3cret\n" } else { "plain\n" };
        let file = if directory { format!("w/{name}/f") } else { format!("w/{name}") };
        world.write(&file, text);
        world.link(&format!("w/link-{name}"), name);
    }
    world.dir("w/x");
    world.link("w/around", ".");
    if directory {
        world.write("w/other/f", "another\n");
    } else {
        world.write("w/other", "another\n");
    }
    world
}

#[test]
fn no_way_around_a_rule() {
    for directory in [false, true] {
        // Past these no way leads: each rule by itself, and by a name that is a link.
        for (rule, act) in [("--mask", "read"), ("--mask", "write"), ("--protect", "write"), ("-r", "write")] {
            let world = world(directory);
            let call = |name: &str| {
                let link = world.path("w/x/link");
                let _absent = fs::remove_file(&link);
                std::os::unix::fs::symlink(format!("../link-{name}"), &link).unwrap();
                world.run(["-w", ".", rule, "./s", "python3", "-c", WAYS, name, act]).done().code(0)
            };
            let before = world.snapshot();
            let done = call("s");
            let ways: Vec<_> = done.out().lines().map(String::from).collect();
            assert_eq!(ways.len(), if directory { 33 } else { 35 }, "{}", done.out());
            for way in &ways {
                // What was exchanged or copied was nothing, or was not the file.
                assert!(way.ends_with(" -"), "{rule} {act}, directory: {directory}: {way}");
            }
            let kept = |world: &World| {
                let all = world.snapshot().into_iter().filter(|(path, _)| path.starts_with(world.path("w/s")));
                all.collect::<Vec<_>>()
            };
            let part: Vec<_> = before.into_iter().filter(|(path, _)| path.starts_with(world.path("w/s"))).collect();
            assert_eq!(kept(&world), part, "{rule} {act}");
            // The control: every way but those leads to a neighbour.
            let done = call("n");
            for way in done.out().lines() {
                let closed = CLOSED.iter().any(|closed| way.strip_suffix(" -") == Some(closed));
                // Root is told that there is no openat2; there is nothing to copy for who writes.
                let rare = way.starts_with("openat2") || (act == "write" && way.starts_with("copy"));
                assert!(
                    closed || rare || way.ends_with(if act == "read" { " plain" } else { " written" }),
                    "{rule} {act}: {way}"
                );
            }
        }
    }
}
