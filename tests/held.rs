//! The name of a result in a directory that the command can write: nothing that it does leaves words of its own there.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::harness::{World, backends, eventually, has_view, is_root, processes_with, program};
use crate::result::{object, told};

#[test]
fn inside_the_name_can_be_given_to_nothing_else() {
    for old in [None, Some("old")] {
        let world = World::new();
        let change = |change: &str| {
            let _left = fs::remove_file(world.path("w/r"));
            old.map(|old| world.write("w/r", old));
            let script = format!("{{ {change}; }} 2>/dev/null && touch changed; exit 7");
            world.sh(["-b", "bwrap", "-w", ".", "--result", "r"], &script).done().is(7, "", "");
            assert!(!world.has("w/changed"), "{change}");
            assert_eq!(told(&object(&world, "w/r")), json!(["exited", 7, null, null]), "{change}");
        };
        for made in ["echo forged >r", "echo forged >>r", "true <>r", "rm -f r", "mv r q", "mv -T . ../q"] {
            change(made);
        }
        for made in ["echo forged >n; mv -f n r", "echo forged >n; ln -f n r", "ln -sf n r", "mkdir r", "ln r q"] {
            change(made);
        }
        // The control: the names beside it can be had, and it can be read.
        let script = "cat r; echo x >s; mv s t; rm t";
        world.sh(["-b", "bwrap", "-w", ".", "--result", "r"], script).done().code(0);
    }
}

#[test]
fn a_directory_that_is_closed_at_the_end_has_the_result_and_stays_closed() {
    // Under Landlock a place where the command may write is refused.
    for backend in backends().filter(|backend| backend[2] != "landlock") {
        for script in ["chmod 555 .; exit 7", "{ echo forged >r; } 2>/dev/null; chmod 000 .; exit 7"] {
            let world = World::new();
            let options = if has_view(&backend) { &["-w", ".", "--result", "r"][..] } else { &["--result", "r"] };
            world.sh(backend.iter().chain(options), script).done().is(7, "", "");
            let mode = fs::metadata(world.path("w")).expect("directory").permissions().mode() & 0o777;
            assert_eq!(mode, if script.contains("000") { 0 } else { 0o555 });
            fs::set_permissions(world.path("w"), Permissions::from_mode(0o755)).expect("mode");
            assert_eq!(told(&object(&world, "w/r")), json!(["exited", 7, null, null]));
        }
    }
}

/// The way to it is looked at in the end, through directories that are closed by then.
#[test]
fn a_way_that_is_closed_at_the_end_is_the_same_way() {
    for path in ["out/r", "out/deep/r", "link/r"] {
        let world = World::new();
        world.dir("w/out/deep");
        world.link("home/link", "../w/out/deep");
        let path = if path == "link/r" { world.text("home/link/r") } else { path.to_owned() };
        let script = "chmod 0 out/deep out .; exit 3";
        let options = ["-b", "bwrap", "-w", ".", "-w", "out", "-w", "out/deep", "--result", &path];
        world.sh(options, script).done().is(3, "", "");
        for closed in ["w", "w/out", "w/out/deep"] {
            let closed = world.path(closed);
            assert_eq!(fs::metadata(&closed).expect("directory").permissions().mode() & 0o777, 0);
            fs::set_permissions(closed, Permissions::from_mode(0o755)).expect("mode");
        }
        let at = if path.ends_with("link/r") { "w/out/deep/r".to_owned() } else { format!("w/{path}") };
        assert_eq!(told(&object(&world, &at)), json!(["exited", 3, null, null]));
    }
    // The control: one that leads elsewhere is an error, closed or not.
    for close in ["true", "chmod 0 out ."] {
        let world = World::new();
        world.dir("w/out");
        let script =
            format!("touch here; i=0; until [ -e go ] || [ $((i += 1)) = 200 ]; do sleep 0.05; done; {close}; exit 3");
        let running = world.sh(["-b", "bwrap", "-w", ".", "-w", "out", "--result", "out/r"], &script).spawn();
        assert!(eventually(|| world.has("w/here")));
        fs::rename(world.path("w/out"), world.path("w/old")).expect("rename");
        fs::create_dir(world.path("w/out")).expect("directory");
        world.write("w/go", "");
        running.done().code(3).stderr_has("the path leads elsewhere by now");
        fs::set_permissions(world.path("w"), Permissions::from_mode(0o755)).expect("mode");
    }
}

#[test]
fn a_disk_that_the_command_fills_has_room_for_it_or_nothing_of_the_commands() {
    if !is_root() {
        return eprintln!("only root can mount: not tried");
    }
    // Under Landlock a place where the command may write is refused.
    for backend in backends().filter(|backend| backend[2] != "landlock") {
        let world = World::new();
        let disk = world.dir("disk");
        let run = |mount: &str, script: &str| {
            let outside =
                format!("mount -t tmpfs -o {mount} none \"$1\" && cd \"$1\" && shift && \"$@\"; s=$?; cat r; exit $s");
            let mut words = vec!["-m", "--propagation", "private", "sh", "-c", &outside, "_"];
            let (disk, program) = (disk.to_str().expect("text"), program());
            words.extend([disk, program.to_str().expect("text")]);
            words.extend(backend);
            if has_view(&backend) {
                words.extend(["-w", "."]);
            }
            words.extend(["--result", "r", "--", "sh", "-c", script]);
            world.call("unshare", words).done()
        };
        let script = "{ echo forged >r; dd if=/dev/zero of=fill bs=4k; } 2>/dev/null; exit 7";
        run("size=256k,mode=777", script).code(7).stdout_has("\"exit_code\":7").stderr("");
        // No room from the start on: there is nothing then, and above all nothing forged.
        let full = "{ echo forged >r; dd if=/dev/zero of=fill bs=4k; } 2>/dev/null; exit 7";
        run("size=4k,mode=777", full).code(7).stdout("").stderr_has("no space left on device");
    }
}

/// What is written under it would be there for ever where the launcher is killed.
#[test]
fn an_old_result_with_a_second_name_is_refused() {
    let world = World::new();
    for (result, link) in [("r", "w/s"), ("../r", "w/s"), ("r", "s")] {
        let old = world.write(&format!("w/{result}"), "old");
        fs::hard_link(&old, world.path(link)).expect("link");
        let run = |options: &[&str]| {
            let options = ["-b", "bwrap", "--result", result].into_iter().chain(options.iter().copied());
            world.sh(options, "echo forged >s; true").done()
        };
        run(&["-w", "."]).stderr_has("remove it first").refused(125, &["second name"]);
        assert_eq!(world.read(link), "old", "{result}");
        // The controls: nobody can write it, or it has one name.
        run(&["-q"]).code(0);
        assert_eq!(world.read(link), "old", "{result}");
        fs::remove_file(world.path(link)).expect("remove");
        run(&["-w", "."]).code(0);
        assert_eq!(told(&object(&world, &format!("w/{result}"))), json!(["exited", 0, null, null]));
        for made in [&old, &world.path("w/s")] {
            let _gone = fs::remove_file(made);
        }
    }
}

/// What cannot be looked at without permissions is looked at with them.
#[test]
fn what_was_there_stays_in_a_directory_that_is_closed_and_full() {
    if !is_root() {
        return eprintln!("only root can mount: not tried");
    }
    let world = World::new();
    let disk = world.dir("disk");
    // Root would not notice that the directory is closed.
    for user in ["0", "65534"] {
        let script = "cat /dev/zero >fill; head -c 400000 /dev/urandom; chmod 0 .; exit 7";
        let outside = format!(
            "mount -t tmpfs -o size=600k,mode=777,uid={user} none \"$1\" && cd \"$1\" && echo old >r && \
             chown {user} r && shift && setpriv --reuid {user} --clear-groups \"$@\" >/dev/null; s=$?; cat r; exit $s"
        );
        let (disk, program) = (disk.to_str().expect("text"), program());
        let mut words = vec!["-m", "--propagation", "private", "sh", "-c", &outside, "_", disk];
        words.extend([program.to_str().expect("text"), "-b", "bwrap", "-w", ".", "--capture", "--result", "r", "--"]);
        words.extend(["sh", "-c", script]);
        // What was there before and is as it was stays.
        world.call("unshare", words).done().code(7).stderr_has("no space left on device").stdout("old\n");
    }
}

#[test]
fn sigkill_leaves_nothing_of_the_commands() {
    let world = World::new();
    let nap = crate::fakes::nap();
    let script = format!("{{ echo forged >r; }} 2>/dev/null; exec sleep {nap}");
    let running = world.sh(["-b", "bwrap", "-w", ".", "--result", "r"], &script).spawn();
    let sleeps = || processes_with(&format!("sleep {nap}")).len() > 1 && world.has("w/r");
    assert!(eventually(sleeps));
    running.signal(Signal::SIGKILL);
    running.done();
    assert_eq!(world.read("w/r"), "", "as the manual page has it");
    // The next call takes its place, as it does with an older result.
    world.run(["-b", "bwrap", "-w", ".", "--result", "r", "true"]).done().is(0, "", "");
    assert_eq!(told(&object(&world, "w/r")), json!(["exited", 0, null, null]));
}

#[test]
fn calls_side_by_side_share_a_name() {
    let world = World::new();
    let call = || world.run(["-b", "bwrap", "-w", ".", "--result", "r", "true"]).spawn();
    for _ in 0..4 {
        let calls: Vec<_> = (0..8).map(|_| call()).collect();
        for running in calls {
            running.done().is(0, "", "");
        }
        assert_eq!(told(&object(&world, "w/r")), json!(["exited", 0, null, null]));
    }
}
