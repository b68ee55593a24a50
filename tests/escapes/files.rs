//! Ways to files that no grant names: swapped directories, handles, the old root, names that climb.

use super::python;
use crate::fakes::{first, world_with};
use crate::harness::{World, about_bwrap, is_root};

/// Between the plan and the mounts a directory becomes another: what two processes race for is done here in the launcher's
/// place, at exactly that moment.
#[test]
fn a_place_that_is_swapped_before_the_mount_is_found_out() {
    if about_bwrap("a program in place of bubblewrap") {
        return;
    }
    let (planned, mount) = ("the files inside are the ones that were planned", "mount");
    let link = "mv w/sub w/real; ln -s ../o w/sub";
    for (swap, options, words) in [
        // Bubblewrap follows the link and mounts what it leads to.
        (link, &["-C", "/", "-r", "TOP/w/sub"][..], planned),
        (link, &["-C", "/", "-w", "TOP/w/sub"], planned),
        (link, &["-C", "/", "-r", "TOP/w/sub/deep"], planned),
        (link, &["-C", "/", "-w", "TOP/w/sub/deep/m"], planned),
        // Where the place itself lies in what is mounted already it finds none for it.
        (link, &["-w", "sub"], mount),
        ("mv w/sub/deep w/real; ln -s ../../o w/sub/deep", &["-w", ".", "--mask", "sub/deep"], mount),
        // Found out by the mounts, and looked at anew: by then a link stands there.
        (
            "mv w/sub w/real; mkdir w/sub; ln -s ../../o w/sub/deep",
            &["-w", ".", "--protect", "sub/deep"],
            "is a link to",
        ),
        // Without any link.
        ("mv w/sub w/real; cp -r o w/sub", &["-w", "sub"], planned),
        ("mv w/sub/deep/m w/real; echo s3cret >w/sub/deep/m", &["-w", ".", "--protect", "sub/deep/m"], planned),
    ] {
        let run = |swap: &str| {
            let world = world_with("");
            world.write("w/sub/deep/m", "mine");
            world.write("o/deep/m", "s3cret");
            let top = world.text("");
            let top = top.trim_end_matches('/');
            world.script("fake/bwrap", &format!("#!/bin/sh\ncd {top} && {swap}\ncd w && exec /usr/bin/bwrap \"$@\"\n"));
            let look = format!("echo ran; cd {top}/w && cat sub/secret sub/deep/m; echo x >sub/x; echo x >>sub/deep/m");
            let options = options.iter().map(|word| word.replace("TOP", top));
            let call = world.sh(["-b".to_owned(), "bwrap".to_owned()].into_iter().chain(options), &look);
            let done = call.env("PATH", first(&world, "fake")).done();
            (world, done)
        };
        let (world, done) = run(swap);
        done.refused(125, &[words]);
        assert!(!world.has("o/x") && !world.has("o/m"), "{swap}");
        assert_eq!(world.read("o/secret") + &world.read("o/deep/m"), "s3crets3cret");
        // The control: the same program, and nothing is swapped.
        run(":").1.stdout_has("ran\n");
    }
}

/// `name_to_handle_at`, then `open_by_handle_at`: prints what the file at the handle holds.
const HANDLE: &str = r#"
import ctypes, errno, os, platform, sys
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == "aarch64"
NAME, OPEN = (264, 265) if arm else (303, 304)
handle = (ctypes.c_uint * 34)(128)
mount = ctypes.c_int()
if libc.syscall(NAME, -100, sys.argv[1].encode(), handle, ctypes.byref(mount), 0) < 0:
    sys.exit("no handle: " + errno.errorcode[ctypes.get_errno()])
at = os.open(os.path.dirname(sys.argv[1]), os.O_RDONLY)
fd = libc.syscall(OPEN, at, handle, os.O_RDONLY)
print(os.read(fd, 99).decode() if fd >= 0 else errno.errorcode[ctypes.get_errno()])
"#;

#[test]
fn a_file_handle_opens_nothing() {
    let world = World::new();
    let plain = world.write("w/plain", "plain");
    let plain = plain.to_str().unwrap();
    for options in [&[][..], &["-w", "."], &["-q", "-r", "/"]] {
        python(&world, Some(options), HANDLE, &[plain]).done().is(0, "EPERM\n", "");
    }
    let outside = python(&world, None, HANDLE, &[plain]).done();
    if is_root() {
        outside.is(0, "plain\n", "");
    } else {
        // The kernel asks for a capability that only root has: the call itself works as it does inside up to there.
        outside.is(0, "EPERM\n", "");
    }
}

#[test]
fn no_name_climbs_out_of_the_view() {
    let world = World::new();
    let secret = world.text("o/secret");
    let script = "for p in /oldroot /newroot /.oldroot /proc/self/root /proc/self/root/.. /proc/self/cwd/../../../../../../.. \
                  /proc/1/root /proc/1/cwd /proc/self/task/$$/root ../../../../../../../.. /proc/thread-self/root /dev/fd/../../..; \
                  do cat \"$p$0\" 2>/dev/null && echo \" by $p\"; done; true";
    let call = |options: &[&str]| world.run([options, &["--", "sh", "-c", script, &secret]].concat());
    for options in [&[][..], &["-w", "."], &["-w", ".", "--net", "host"], &["-C", "/"]] {
        call(options).done().is(0, "", "");
    }
    let granted = call(&["-r", &secret]).done().code(0);
    assert!(granted.out().lines().count() >= 6, "the control\n{}", granted.out());
    let outside = world.call("sh", ["-c", script, &secret]).done().code(0);
    assert!(outside.out().lines().count() >= 6, "the control\n{}", outside.out());
}
