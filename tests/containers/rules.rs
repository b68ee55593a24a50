//! Rules about files in containers, many and odd: hundreds at once, below parents that cannot be searched, about devices.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::Place;
use crate::harness::skip;

#[test]
fn hundreds_of_rules_at_once() {
    for (user, place) in Place::both() {
        let world = &place.world;
        let words = crate::masks::hundreds_of_rules(world);
        world.call("chown", ["-R", &format!("{user}:{user}"), &world.text("w")]).done().code(0);
        // What the engine keeps in HOME itself is there before.
        place.run(&["true"]).done().is(0, "", "");
        let before = world.snapshot();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let script = "cat m* d*/f 2>/dev/null; cat p*/f | wc -l; \
            for p in p*; do touch $p/x; done 2>&1 | grep -c Read-only; touch new; rm new";
        place.sh(&words, script).done().is(0, "150\n150\n", "");
        let mut after = world.snapshot();
        // What was made and removed again has changed the time of its directory.
        let top = world.path("w");
        after.insert(top.clone(), before[&top].clone());
        assert!(after == before, "the host is as it was");
        assert_eq!(place.left(), [""; 0]);
    }
}

#[test]
fn parents_that_cannot_be_searched() {
    for (user, place) in Place::both() {
        let world = &place.world;
        let file = world.write("o/p/q/f", "deep\n");
        world.write("o/p/beside", "s3cret");
        world.call("chown", ["-R", &format!("{user}:{user}"), &world.text("o")]).done().code(0);
        let (q, file) = (world.text("o/p/q"), file.to_str().unwrap().to_owned());
        let look = format!("cat {file}; ls -A {}", world.text("o/p"));
        let mode = |mode| fs::set_permissions(world.path("o/p"), fs::Permissions::from_mode(mode)).unwrap();
        for bits in if user == 0 { [0o755, 0o711, 0o000] } else { [0o755, 0o100, 0o500] } {
            mode(bits);
            place.sh(&["-r", &q], &look).done().is(0, "deep\nq\n", "");
        }
        if user != 0 {
            mode(0o600);
            place.run(&["-r", &q, "true"]).done().refused(125, &["o/p", "permission denied"]);
        }
        mode(0o755);
        assert_eq!(place.left(), [""; 0]);
    }
}

/// An engine that is root's makes a node of its own, and directories; a rootless one shows that of the host.
#[test]
fn a_granted_device_is_that_device() {
    for (_, place) in Place::both() {
        let Ok(top) = fs::read_to_string(place.directory.join("devices")) else {
            return skip("devices", "no directory in /dev to mount some in");
        };
        let top = top.trim();
        let zero = format!("{top}/zero");
        let look = format!("head -c 3 {zero} | wc -c; ls {top}; echo x >{zero} && echo written; true");
        let done = place.sh(&[], &look).done().code(0);
        assert!(
            done.out().starts_with("0\n") && !done.out().contains("full"),
            "control: none is there\n{}",
            done.out()
        );
        place.sh(&["-w", &zero], &look).done().is(0, "3\nzero\nwritten\n", "");
        place.sh(&["-w", top], &look).done().is(0, "3\nfull\nzero\nwritten\n", "");
        // The terminals of the host are not those of the container, whose directory this is.
        let master = nix::pty::posix_openpt(nix::fcntl::OFlag::O_RDWR).unwrap();
        nix::pty::unlockpt(&master).unwrap();
        place.sh(&["-w", "/dev/pts"], "true").done().refused(125, &["'podman'"]);
        drop(master);
        place.sh(&["-r", &zero], &look).done().refused(125, &["keeps nobody from writing to a device"]);
        // An engine that makes the node of another device.
        let script = "#!/bin/bash\nwords=()\nfor word; do words+=(\"${word/zero:/full:}\"); done\n\
            exec /usr/bin/podman \"${words[@]}\"\n";
        place.world.script("fake/podman", script);
        let lied = place.sh(&["-w", &zero], &look).env("PATH", crate::fakes::first(&place.world, "fake"));
        lied.done().refused(125, &["confirm that the files inside are the ones that were planned"]);
        let explained = place.run(&["-w", &zero, "--explain", &zero]).done().code(0);
        explained.stdout_has("as planned").stdout_has("visible: yes");
        assert_eq!(place.left(), [""; 0]);
    }
}
