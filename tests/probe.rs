//! One probe of many accesses under each backend that isolates: the same answers, but for a list of differences.
//!
//! A policy that a backend refuses is refused here, too.

use std::collections::BTreeMap;

use crate::containers::Place;
use crate::harness::{Call, World, has_landlock, program};

/// Prints `ACT PATH yes|no` for every access; the arguments are the directories of the world.
const PROBE: &str = r"
import os, socket, sys
w, o, home = sys.argv[1:]
places = {
    'w/file': f'{w}/file', 'w/.env': f'{w}/.env', 'w/d/file': f'{w}/d/file', 'w/d': f'{w}/d', 'w/m': f'{w}/m',
    'o/secret': f'{o}/secret', 'o/tool': f'{o}/tool', 'o': o, 'home/file': f'{home}/file', 'home/.netrc': f'{home}/.netrc',
    'passwd': '/etc/passwd', 'shadow': '/etc/shadow', 'env': '/usr/bin/env', 'usr': '/usr', 'null': '/dev/null',
    'other': '/proc/1/environ', 'log': '/var/log', 'boot': '/boot', 'hosts': '/etc/hosts', 'lib': '/usr/lib', 'run': '/run',
}
def opens(path, flags):
    os.close(os.open(path, flags))
acts = {
    # What is masked may be empty or closed.
    'read': lambda path: (os.listdir(path) if os.path.isdir(path) else open(path, 'rb').read(1)) or sys.exit('empty'),
    'write': lambda path: opens(path + '/new' if os.path.isdir(path) else path,
                                os.O_WRONLY | (os.O_CREAT if os.path.isdir(path) else 0)),
    'run': lambda path: run(path),
}
def run(path):
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open('/dev/null', os.O_WRONLY), 1)
            os.execv(path, [path])
        except OSError:
            os._exit(99)
    if os.waitstatus_to_exitcode(os.wait()[1]) == 99:
        raise PermissionError(1, path)
def one(name, action):
    try:
        action()
        print(name, 'yes')
    except (OSError, SystemExit):
        print(name, 'no')
for place, path in places.items():
    for act, action in acts.items():
        if act != 'run' or place in ('o/tool', 'env', 'w/file', 'w/d'):
            one(f'{act} {place}', lambda: action(path))
def mkdir(path):
    os.mkdir(path)
    os.rmdir(path)
def rename(a, b):
    os.rename(a, b)
    os.rename(b, a)
def link(a, b):
    os.link(a, b)
    os.unlink(b)
one('mkdir w', lambda: mkdir(f'{w}/new'))
one('mkdir o', lambda: mkdir(f'{o}/new'))
one('mkdir temporary', lambda: mkdir(os.environ['TMPDIR'] + '/new'))
one('mkdir HOME', lambda: mkdir(os.environ['HOME'] + '/new'))
one('rename w', lambda: rename(f'{w}/file', f'{w}/renamed'))
one('rename across', lambda: rename(f'{w}/file', f'{w}/d/renamed'))
one('link across', lambda: link(f'{w}/file', f'{w}/d/linked'))
one('link o', lambda: link(f'{o}/secret', f'{w}/linked'))
one('truncate w', lambda: os.truncate(f'{w}/d/file', 0))
one('fifo w', lambda: (os.mkfifo(f'{w}/fifo'), os.unlink(f'{w}/fifo')))
one('symlink w', lambda: (os.symlink('x', f'{w}/s'), os.unlink(f'{w}/s')))
one('device', lambda: (os.mknod(f'{w}/node', 0o20666, os.makedev(1, 3)), os.unlink(f'{w}/node')))
one('pair', lambda: socket.socketpair())
one('packet', lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
one('vsock', lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM))
one('unshare', lambda: os.system('unshare -U true 2>/dev/null') == 0 or sys.exit('no'))
one('kill parent', lambda: os.kill(os.getppid(), 15) if os.getppid() > 1 else sys.exit('process 1'))
";

fn probe(world: &World, call: &dyn Fn(&[&str]) -> Call, options: &[&str]) -> BTreeMap<String, bool> {
    let places = ["w", "o", "home"].map(|name| world.text(name));
    let [w, o, home] = places.each_ref().map(String::as_str);
    let words = [&["-q"], options, &["--", "/usr/bin/python3", "-c", PROBE, w, o, home]].concat();
    let out = call(&words).done().code(0).stderr("").out();
    let lines = out.lines().filter_map(|line| line.rsplit_once(' '));
    lines.map(|(name, answer)| (name.to_owned(), answer == "yes")).collect()
}

/// The working directory, without and with writing, a grant, a wide one with secrets in it, and profiles.
const POLICIES: [(&str, &[&str]); 6] = [
    ("default", &["--mask", "m"]),
    ("write", &["-w", "."]),
    ("grant", &["-r", "../o", "--mask", "m"]),
    ("wide", &["-r", "..", "-r", "/var/log", "--mask", "m"]),
    ("build", &["-p", "build"]),
    ("host-read", &["-p", "host-read", "--mask", "m"]),
];

/// The files of the world, as they are at first; secrets where nothing is writable, since not every backend keeps them there.
fn fill(world: &World, policy: &str) {
    for name in ["w/file", "w/d/file", "home/file", "home/.netrc"] {
        world.write(name, "x");
    }
    world.script("o/tool", "#!/bin/sh\n");
    if !["write", "build"].contains(&policy) {
        world.write("w/.env", "s3cret");
        world.write("w/m", "masked");
    }
}

fn differences(bwrap: &BTreeMap<String, bool>, other: &BTreeMap<String, bool>) -> Vec<String> {
    assert!(bwrap.len() > 60, "{}", bwrap.len());
    assert!(bwrap.values().any(|yes| *yes) && bwrap.values().any(|yes| !*yes));
    assert_eq!(bwrap.len(), other.len());
    bwrap.iter().filter(|(act, answer)| other.get(*act) != Some(answer)).map(|(act, _)| act.clone()).collect()
}

#[test]
fn both_give_the_same_answers() {
    if !has_landlock() {
        return;
    }
    for (name, options) in POLICIES {
        let [bwrap, namespace, landlock] = ["bwrap", "namespace", "landlock"].map(|backend| {
            let world = World::new();
            fill(&world, name);
            probe(&world, &|words| world.run([&["-b", backend], words].concat()), options)
        });
        // Names can be listed wherever the whole tree is read; `files-read` is partial for that.
        let expected = if name == "host-read" { &["read run"][..] } else { &[] };
        assert_eq!(differences(&bwrap, &landlock), expected, "{name}");
        assert_eq!(differences(&bwrap, &namespace), Vec::<String>::new(), "{name}");
    }
}

/// The one difference: the engine's own mark is in `/run` of every container, and without it there is no such directory.
#[test]
fn a_container_of_the_hosts_own_programs_gives_the_same_answers() {
    for (user, place) in Place::both() {
        let Place { world, .. } = &place;
        let (image, program) = (image(&place), program());
        for (name, options) in POLICIES {
            let fresh = || {
                let _old = std::fs::remove_dir_all(world.path("w/d"));
                fill(world, name);
                world
                    .call("chown", ["-R", &user.to_string(), &world.text("w"), &world.text("o"), &world.text("home")])
                    .done()
                    .code(0);
            };
            fresh();
            if name == "host-read" {
                let refused = place.run_image(&image, &[options, &["true"]].concat()).done();
                refused.refused(125, &["cannot show '/' in a container: it would take the place of the image"]);
                continue;
            }
            let bwrap = probe(
                world,
                &|words| place.call(&[&[program.to_str().unwrap(), "-b", "bwrap"], words].concat()),
                options,
            );
            fresh();
            let podman = &|words: &[&str]| place.run_image(&image, words);
            let podman = probe(world, podman, &[options, &["-r", "/usr"]].concat());
            assert_eq!(differences(&bwrap, &podman), ["read run"], "{user} {name}");
        }
    }
}

/// An image without programs, for those of the host.
pub fn image(place: &Place) -> String {
    const NAME: &str = "sandbox-run-test-probe";
    let script = "
        set -e
        top=$(mktemp -d \"$HOME/image.XXXXXX\")
        cd \"$top\"
        mkdir usr etc tmp proc sys dev run
        for name in bin lib lib64 sbin; do ln -s usr/$name $name; done
        cp /etc/passwd /etc/group /etc/ld.so.cache etc
        chmod 755 .
        tar --owner 0 --group 0 -cf - . | podman import -q - $0";
    place.call(&["sh", "-c", script, NAME]).done().code(0);
    NAME.to_owned()
}
