//! Which bwrap is used, which backend is taken, and what an older bubblewrap changes: nothing but what it says.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::fakes::{first, world_with, wrapper};
use crate::harness::{Call, Done, PATHS, World, about_bwrap, find, is_root};

const BROKEN: &str = "#!/bin/sh\necho 'bwrap: does not work' >&2\nexit 1\n";

/// A `bwrap` that leaves a trace when it is started, and fails.
fn trap(world: &World, name: &str) {
    let trace = world.text("trace");
    world.script(name, &format!("#!/bin/sh\n: >{trace}\nexit 1\n"));
}

#[track_caller]
fn not_used(world: &World, done: Done) -> Done {
    assert!(!world.has("trace"), "the wrong bwrap was started\n{}", done.stderr);
    done
}

#[test]
fn a_bwrap_where_the_target_may_write_is_passed_over() {
    if about_bwrap("its program is looked for and judged") {
        return;
    }
    let world = World::new();
    trap(&world, "w/bwrap");
    trap(&world, "w/bin/bwrap");
    trap(&world, "o/bin/bwrap");
    world.dir("fake");
    world.link("fake/bwrap", world.path("w/bwrap"));
    world.link("linked", world.path("w/bin"));
    let (cwd, below, fake, linked) = (world.text("w"), world.text("w/bin"), world.text("fake"), world.text("linked"));
    for path in [".", "", "bin", "./bin", "../w", &cwd, &below, &fake, &linked] {
        for path in [format!("{path}:{PATHS}"), format!("/nowhere:{path}:{PATHS}")] {
            let done = world.run(["-b", "bwrap", "echo", "real"]).env("PATH", &path).done();
            not_used(&world, done).is(0, "real\n", "");
        }
    }
    // Without another one behind it, the reason is told: only where it was looked at all.
    for path in [&cwd, &below, &fake, &linked] {
        let done = world.run(["-b", "bwrap", "/bin/true"]).env("PATH", path).done();
        not_used(&world, done).refused(125, &[path, "lies below", &cwd]).stderr_has("hint: put a bwrap that only root");
    }
    for path in [".", "", "bin"] {
        let done = world.run(["-b", "bwrap", "/bin/true"]).env("PATH", path).done();
        // A PATH without any absolute directory counts as none.
        not_used(&world, done).is(0, "", "");
    }
    let done = world.run(["-b", "bwrap", "/bin/true"]).env_remove("PATH").done();
    not_used(&world, done).code(0);
    // A write grant.
    let (granted, path) = (world.text("o"), world.text("o/bin"));
    let done = world.run(["-w", &granted, "echo", "real"]).env("PATH", format!("{path}:{PATHS}")).done();
    not_used(&world, done).is(0, "real\n", "");
    let done = world.run(["-b", "bwrap", "-w", &granted, "/bin/true"]).env("PATH", &path).done();
    not_used(&world, done).refused(125, &[&path, "lies below", &granted]);
    // The working directory of the target counts, not only the caller's.
    let done = world.run(["-b", "bwrap", "-C", &granted, "/bin/true"]).env("PATH", &path).done();
    not_used(&world, done).refused(125, &["lies below"]);
    // The control: outside of all these it is started, and fails.
    world.run(["-b", "bwrap", "-r", &granted, "/bin/true"]).env("PATH", &path).done().refused(125, &["ended before"]);
    assert!(world.has("trace"));
}

#[test]
fn a_setuid_bwrap_is_passed_over() {
    if about_bwrap("its program is looked for and judged") {
        return;
    }
    let world = World::new();
    let copy = world.path("fake/bwrap");
    world.dir("fake");
    crate::harness::alone(|| fs::copy(find("bwrap").expect("bwrap"), &copy)).expect("copy");
    let path = world.text("fake");
    let run = || world.run(["-b", "bwrap", "/bin/echo", "out"]).env("PATH", &path).done();
    run().is(0, "out\n", "");
    for mode in [0o4755, 0o2755] {
        fs::set_permissions(&copy, fs::Permissions::from_mode(mode)).expect("mode");
        run().refused(125, &[&world.text("fake/bwrap"), "is setuid"]);
        trap(&world, "o/bwrap");
        world.run(["echo", "real"]).env("PATH", first(&world, "fake")).done().is(0, "real\n", "");
    }
}

#[test]
fn system_directories_are_good_places_to_work_in() {
    let world = World::new();
    for cwd in ["/", "/usr", "/usr/bin", "/usr/local"] {
        world.run(["pwd"]).cwd(cwd).done().is(0, &format!("{cwd}\n"), "");
    }
    if is_root() && !about_bwrap("its program is looked for and judged") {
        world.run(["-b", "bwrap", "-w", "/usr", "true"]).done().refused(125, &["/usr/bin/bwrap", "lies below '/usr'"]);
    }
}

#[test]
fn none_gives_up_what_is_only_a_default() {
    let world = World::new();
    let warning = "sandbox-run: warning: backend 'none' isolates nothing; not enforced: files-read, files-write, masks, \
                   network, sockets, processes, privileges\n";
    for words in [vec!["-b", "none"], vec!["-b", "native"], vec!["-b", "direct"], vec!["-b", "none", "--net", "host"]] {
        let mut words = words.clone();
        words.extend(["cat", "../o/secret"]);
        let warning = if words.contains(&"host") { warning.replace("network, ", "") } else { warning.to_owned() };
        world.run(words).done().is(0, "s3cret", &warning);
    }
    world.run(["-b", "auto", "cat", "../o/secret"]).done().code(1).stdout("").stderr_has("No such file");
}

#[test]
fn none_refuses_what_was_asked_for() {
    let world = World::new();
    world.write("w/x", "");
    for (options, missing) in [
        (&["--net", "off"][..], &["network"][..]),
        (&["--mask", "x"], &["masks"]),
        (&["--mask", "not-there"], &["masks"]),
        (&["-r", "x"], &["files-read", "files-write"]),
        (&["-w", "x"], &["files-read", "files-write"]),
        (&["--write-try", "y"], &["files-read", "files-write"]),
        (&["--protect", "x"], &["files-write"]),
        (&["--tmp-size", "1M"], &["files-write"]),
        (&["--deny-socket", "x"], &["sockets"]),
        (&["--net", "off", "--mask", "x", "--allow-gap", "network"], &["masks"]),
        (&["--net", "off", "--mask", "x"], &["masks", "network"]),
    ] {
        let words = |list, command| [&["-b", list][..], options, &["--", "sh", "-c", command]].concat();
        let done = world.run(words("none", "touch ran")).done().refused(125, &["backend 'none'"]);
        for word in missing {
            assert!(done.stderr.contains(word), "{word}: {}", done.stderr);
        }
        done.stderr_has(&format!("hint: --allow-gap {}", missing.join(",")));
        // The next of the list does it.
        world.run(words("none,bwrap", "cat ../o/secret")).done().code(1).stderr_lacks("isolates nothing");
    }
    assert!(!world.has("w/ran"));
    let words = ["-b", "none", "--net", "off", "--mask", "x", "--allow-gap", "network,masks", "--", "echo", "ran"];
    world.run(words).done().code(0).stdout("ran\n").stderr_has("isolates nothing").stderr_has("masks, network");
    for (words, expected) in [
        (["--allow-gap", "bogus", "true"], &["bogus", "files-read", "network", "environment"][..]),
        (["-b", "bogus", "true"], &["bogus", "bwrap", "none", "auto"]),
        (["-b", "", "true"], &["--backend"]),
        (["-b", "bwrap,", "true"], &["--backend"]),
    ] {
        let done = world.run(words).done().code(125).stdout("");
        for word in expected {
            assert!(done.stderr.contains(word), "{word}: {}", done.stderr);
        }
    }
}

#[test]
fn a_job_object_is_not_had_here() {
    let world = World::new();
    let all = "files-read,files-write,masks,network,sockets,privileges";
    for words in [&["-b", "jobobject"][..], &["-b", "windows_jobobject"], &["--dry-run", "-b", "jobobject"]] {
        let words = [words, &["--allow-gap", all, "touch", "ran"]].concat();
        world.run(words).done().refused(125, &["'jobobject'", "works on Windows only"]);
    }
    assert!(!world.has("w/ran"));
    world.run(["-w", ".", "-b", "jobobject,bwrap", "touch", "ran"]).done().is(0, "", "");
    assert!(world.has("w/ran"));
}

#[test]
fn the_next_of_the_list_is_taken_only_when_the_one_before_fails() {
    if about_bwrap("a program in place of bubblewrap") {
        return;
    }
    let works = World::new();
    works.run(["-b", "auto,none", "cat", "../o/secret"]).done().code(1).stdout("").stderr_lacks("warning");
    let broken = world_with(BROKEN);
    let path = first(&broken, "fake");
    let run = |words: &[&str]| broken.run(words).env("PATH", &path);
    // Nothing of the streams is lost to the attempt that failed.
    let done = run(&["-b", "bwrap,none", "--", "sh", "-c", "cat; echo err >&2; exit 7"]).stdin("in").done();
    done.code(7).stdout("in").stderr_has("warning: backend 'none' isolates nothing").stderr_has("\nerr\n");
    run(&["-v", "-b", "bwrap,none", "true"]).done().code(0).stderr_has("bwrap: does not work");
    // What was asked for is not given up, and both reasons are told.
    let done = run(&["-b", "bwrap,none", "--net", "off", "--", "touch", "ran"]).done();
    done.refused(125, &["bwrap: does not work", "network (none does not enforce it)"]);
    run(&["-b", "bwrap", "touch", "ran"]).done().refused(125, &["bwrap: does not work"]);
    assert!(!broken.has("w/ran"));
    // A target that is missing is no reason to try another backend.
    works.run(["-b", "auto,none", "nosuchcmd"]).done().refused(127, &["nosuchcmd"]);
    // A warning about the policy is told once, however many attempts there are.
    let done = run(&["-b", "auto,none", "-e", "LD_PRELOAD", "true"]).env("LD_PRELOAD", "").done().code(0);
    assert_eq!(done.stderr.matches("LD_PRELOAD").count(), 1, "{}", done.stderr);
}

/// What a release lacks: 0.4, 0.6, 0.8.
const RELEASES: [&str; 3] =
    ["lacks=--perms,--size,--chmod,--clearenv,--disable-userns", "lacks=--size", "lacks=--argv0"];

#[test]
fn older_releases_give_the_same_answers() {
    for release in RELEASES {
        let world = World::new();
        wrapper(&world, release);
        world.write("w/masked/file", "s3cret");
        world.write("w/single", "s3cret");
        let granted = world.text("o");
        let path = first(&world, "fake");
        let sh = |options: &[&str], script: &str| -> Call {
            let mut words = vec!["-q", "-b", "bwrap"];
            words.extend(options);
            world.sh(words, script).env("PATH", &path)
        };
        for code in [0, 1, 7, 125, 255] {
            sh(&[], &format!("exit {code}")).done().is(code, "", "");
        }
        sh(&[], "kill -TERM $$").done().is(143, "", "");
        sh(&[], "cat; echo err >&2").stdin("in").done().is(0, "in", "err\n");
        world.run(["-q", "nosuchcmd"]).env("PATH", &path).done().refused(127, &["nosuchcmd"]);
        // View.
        let read = format!("cat {granted}/secret");
        sh(&["-r", &granted], &read).done().is(0, "s3cret", "");
        sh(&[], &read).done().code(1).stdout("").stderr_has("No such file");
        sh(&["-r", &granted], &format!("echo x >{granted}/new")).done().code(2).stderr_has("Read-only");
        sh(&["-w", &granted], &format!("echo x >{granted}/new")).done().is(0, "", "");
        let masks = ["--mask", "masked", "--mask", "single", "-w", "."];
        sh(&masks, "ls -A masked; cat single").done().is(0, "", "");
        sh(&["-w", "."], "ls -A masked; cat single").done().is(0, "file\ns3cret", "");
        for change in ["echo x >masked/new", "echo x >single", "rm single", "mv masked m", "chmod 777 masked"] {
            let done = sh(&masks, change).done();
            assert_ne!(done.code, Some(0), "{release}: {change}");
        }
        assert_eq!(world.read("w/single"), "s3cret");
        sh(&[], "echo x >/tmp/x && echo x >/dev/shm/x && echo x >~/x && cat /tmp/x ~/x").done().is(0, "x\nx\n", "");
        for place in ["/x", "/dev/x", "/etc/x", "/usr/x", "./x"] {
            sh(&[], &format!("echo x >{place}")).done().code(2).stderr_has("Read-only");
        }
        // Network, processes, privileges.
        sh(&[], "tail -n +3 /proc/net/dev | cut -d: -f1").done().is(0, "    lo\n", "");
        sh(&[], "echo /proc/[0-9]*").done().is(0, "/proc/1 /proc/2\n", "");
        sh(&[], "grep -h '^Cap' /proc/self/status | grep -v 0000000000000000").done().is(1, "", "");
        sh(&[], "unshare -U true").done().code(1).stderr_has("Operation not permitted");
    }
}

#[test]
fn an_older_release_is_no_silent_loss() {
    if about_bwrap("a program in place of bubblewrap") {
        return;
    }
    let world = World::new();
    wrapper(&world, "lacks=--size");
    let run = |words: &[&str]| world.run(words).env("PATH", first(&world, "fake")).done();
    run(&["true"]).code(0).stderr_has("warning: this bwrap has no option --size");
    let done = run(&["-b", "bwrap", "--tmp-size", "1M", "touch", "/tmp/x"]);
    done.refused(125, &["--tmp-size", "no option --size"]).stderr_has("hint: bubblewrap 0.7.0 or newer");
    // Control: a release that has it enforces it, and says nothing.
    wrapper(&world, "");
    run(&["true"]).is(0, "", "");
    run(&["--tmp-size", "1M", "--", "sh", "-c", "head -c 2000000 /dev/zero >/tmp/x"])
        .code(1)
        .stderr_has("No space left");
    // One that lacks what has always been there is refused, with what it said.
    for lacks in ["--unshare-net", "--as-pid-1", "--cap-drop", "--remount-ro"] {
        wrapper(&world, &format!("lacks={lacks}"));
        let done = run(&["-b", "bwrap", "touch", "ran"]).refused(125, &[&format!("Unknown option {lacks}")]);
        done.stderr_has("hint: this bwrap is too old");
    }
}
