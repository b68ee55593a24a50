//! Files under `landlock`: what can be read, written and executed, what a rule cannot take away, and the private directories.

mod choice;
mod egress;
mod metadata;
mod network;
mod processes;
mod swept;

use std::ffi::OsString;
use std::fs;

use crate::harness::{Call, World, has, has_landlock};

/// `sandbox-run -q -b landlock OPTIONS -- sh -c SCRIPT`.
pub fn sh(world: &World, options: &[&str], script: &str) -> Call {
    world.sh([&["-q", "-b", "landlock"], options].concat(), script)
}

/// The same with a script for Python.
pub fn python(world: &World, options: &[&str], script: &str) -> Call {
    let words = [&["-q", "-b", "landlock"], options, &["--", "/usr/bin/python3", "-c", script]].concat();
    world.run(words)
}

/// Names of the private directories that are there, of all runs on this machine.
pub fn scratches() -> Vec<OsString> {
    let all = ["/tmp", "/var/tmp", "/dev/shm"].iter().flat_map(|place| fs::read_dir(place).expect(place).flatten());
    let names = all.map(|entry| entry.file_name());
    let ours = |name: &OsString| {
        let random = name.to_str().and_then(|name| name.strip_prefix("sandbox-run-"));
        random.is_some_and(|random| random.len() == 32 && random.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    names.filter(ours).collect()
}

#[test]
fn only_grants_are_read_listed_and_executed() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    world.write("w/file", "here");
    world.script("o/tool", "#!/bin/sh\necho ran\n");
    let o = world.text("o");
    let read = ["-r", o.as_str()];
    for (script, answer) in [
        (format!("cat {o}/secret"), "s3cret"),
        (format!("ls {o}"), "secret\ntool\n"),
        (format!("{o}/tool"), "ran\n"),
        (format!("sh {o}/tool"), "ran\n"),
        (format!("cat <{o}/secret"), "s3cret"),
        (format!("head -c 6 {o}/../o/secret"), "s3cret"),
    ] {
        let done = sh(&world, &[], &script).done().stdout("").stderr_has("ermission denied");
        assert_ne!(done.code, Some(0), "{script}");
        sh(&world, &read, &script).done().is(0, answer, "");
    }
    sh(&world, &[], "cat file; ls").done().is(0, "herefile\n", "");
    // By the working directory, by a link, by what `/proc` leads to.
    world.link("w/link", world.path("o/secret"));
    for script in
        ["cat link", "cd ../o && cat secret", "cat /proc/self/root/$PWD/../o/secret", "cat /proc/self/cwd/../o/secret"]
    {
        let done = sh(&world, &[], script).done().stdout("").stderr_has("ermission denied");
        assert_ne!(done.code, Some(0), "{script}");
        sh(&world, &read, script).done().is(0, "s3cret", "");
    }
    // What has the name is no secret here, and the table says so.
    sh(&world, &[], &format!("stat -c %s {o}/secret")).done().is(0, "6\n", "");
    // A program by its own name is shown by that name alone.
    world.run(["-q", "-b", "landlock", &format!("{o}/tool")]).done().is(0, "ran\n", "");
    for place in
        ["/etc/shadow", "/root", "/var/log", "/home", "/boot", "/dev/shm", "/tmp", "/sys/kernel", "/proc/keys", "/"]
    {
        if let Ok(found) = fs::metadata(place) {
            let look = if found.is_dir() { "ls" } else { "cat" };
            let done = sh(&world, &[], &format!("{look} {place}")).done().stdout("");
            assert_ne!(done.code, Some(0), "{place}");
        }
    }
}

/// Each changes something in the directory `d`, in which are `f`, `g` and the empty directory `e`.
const CHANGES: &[&str] = &[
    "echo x >d/new",
    "echo x >d/f",
    "echo x >>d/f",
    ": >d/f",
    "truncate -s 1 d/f",
    "mkdir d/new",
    "mkfifo d/new",
    "ln -s f d/new",
    "ln d/f d/new",
    "mv d/f d/new",
    "mv d/f d/g",
    "mv d/f d/e/f",
    "rm d/f",
    "rmdir d/e",
    "cp d/f d/new",
    "sed -i s/f/x/ d/f",
    "python3 -c 'import os; os.rename(\"d/f\", \"d/e/f\")'",
    "python3 -c 'import os; os.link(\"d/f\", \"d/e/f\")'",
    "python3 -c 'import os; os.truncate(\"d/f\", 0)'",
    "python3 -c 'import os; os.open(\"d/f\", os.O_RDONLY | os.O_TRUNC)'",
    "python3 -c 'import socket; s = socket.socketpair()[0]; import os; os.mknod(\"d/new\", 0o140600)'",
];

#[test]
fn only_write_grants_are_changed() {
    if !has_landlock() {
        return;
    }
    for change in CHANGES {
        let world = World::new();
        world.write("w/d/f", "f");
        world.write("w/d/g", "g");
        world.dir("w/d/e");
        let before = world.snapshot();
        let done = sh(&world, &[], change).done();
        assert_ne!(done.code, Some(0), "{change}");
        assert_eq!(world.snapshot(), before, "{change}");
        // No lack of a rule for moving between directories, either.
        sh(&world, &["-w", "d"], change).done().is(0, "", "");
        assert_ne!(world.snapshot(), before, "{change}");
    }
}

#[test]
fn nothing_is_pulled_into_a_grant() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    let o = world.text("o");
    world.write("o/d/f", "inner");
    let before = fs::read(world.path("o/secret")).unwrap();
    for script in [
        format!("import os; os.link('{o}/secret', 'mine')"),
        format!("import os; os.rename('{o}/secret', 'mine')"),
        format!("import os; os.rename('{o}/d', 'mine')"),
    ] {
        for options in [&["-w", "."][..], &["-w", ".", "-r", &o]] {
            let done = python(&world, options, &script).done().code(1).stdout("");
            assert!(
                ["PermissionError", "EXDEV", "cross-device"].iter().any(|word| done.stderr.contains(word)),
                "{}",
                done.stderr
            );
        }
        assert!(!world.has("w/mine"));
        assert_eq!(fs::read(world.path("o/secret")).unwrap(), before);
        // Where both may be written, it works.
        python(&world, &["-w", ".", "-w", &o], &script).done().is(0, "", "");
        assert!(world.has("w/mine"));
        let back = if script.contains("link") {
            fs::remove_file(world.path("w/mine"))
        } else {
            fs::rename(world.path("w/mine"), world.path(if script.contains("/d'") { "o/d" } else { "o/secret" }))
        };
        back.unwrap();
    }
}

#[test]
fn masks_in_read_grants_are_left_out() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    for name in ["w/.env", "w/a/b/c/hidden", "w/a/b/c/deep/hidden", "w/a/.hid/x"] {
        world.write(name, "s3cret");
    }
    for name in ["w/file", "w/a/file", "w/a/b/file", "w/a/b/d/file", "w/a/b/c/shown/file"] {
        world.write(name, "shown\n");
    }
    let options = ["--mask", "a/b/c", "-r", "a/b/c/shown"];
    for hidden in [".env", "a/b/c/hidden", "a/b/c/deep/hidden", "a/.hid/x"] {
        let done = sh(&world, &options, &format!("cat {hidden}")).done().code(1).stdout("");
        done.stderr_has("Permission denied");
        sh(&world, &["--show-hidden", "*"], &format!("cat {hidden}")).done().is(0, "s3cret", "");
    }
    let all = "cat file a/file a/b/file a/b/d/file a/b/c/shown/file; ls a/b/d";
    sh(&world, &options, all).done().is(0, "shown\nshown\nshown\nshown\nshown\nfile\n", "");
    // What is masked is no name for something else, either.
    let before = world.snapshot();
    for change in ["rm -r a/b/c", "mv a/b/c x", "mv .env x", "echo x >.env", "ln .env x", "cp -r a/b/c/deep x"] {
        let done = sh(&world, &options, change).done();
        assert_ne!(done.code, Some(0), "{change}");
    }
    assert_eq!(world.snapshot(), before);
    // A directory that cannot be listed is opened by nobody, and the whole of the host but for its secrets by everybody.
    let o = world.text("o");
    sh(&world, &["-r", "/", "--mask", &o], &format!("cat {o}/secret")).done().code(1).stdout("");
    sh(&world, &["-r", "/"], &format!("cat {o}/secret; ls -d /")).done().is(0, "s3cret/\n", "");
    sh(&world, &["-r", "/"], "cat /proc/1/cmdline /etc/shadow").done().code(1).stdout("");
}

#[test]
fn what_a_write_grant_cannot_keep_is_a_gap() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    world.write("w/.env", "s3cret");
    world.write("w/d/f", "f");
    let refused = |options: &[&str], words: &[&str]| {
        let command = [&["-b", "landlock"], options, &["touch", "ran"]].concat();
        world.run(command).done().refused(125, words)
    };
    for (options, protection, name) in [
        (&["-w", "."][..], "masks", ".env"),
        (&["-w", "d", "--mask", "d/f"], "masks", "d/f"),
        (&["-w", "d", "--protect", "d/f"], "files-write", "d/f"),
        (&["-w", "d", "-r", "d/f"], "files-write", "d/f"),
        (&["-w", "d", "--tmp-size", "1M"], "files-write", "private directories"),
    ] {
        let done = refused(options, &[&format!("with backend 'landlock': {protection} ("), name]);
        done.stderr_has(&format!("hint: --allow-gap {protection} accepts that"));
        let allowed = [options, &["--allow-gap", protection]].concat();
        let words = [&["-b", "landlock"], &allowed[..], &["--", "sh", "-c", "echo ran"]].concat();
        let done = world.run(words).done().code(0).stdout("ran\n");
        done.stderr_has(&format!("warning: not enforced, as accepted: {protection} (")).stderr_has(name);
    }
    refused(&["-w", ".", "--protect", "d"], &["masks (", ".env", "files-write (", "/d'"]);
    assert!(!world.has("w/ran"));
    // Without the rule nothing is missing.
    sh(&world, &["-w", ".", "--show-hidden", ".env"], "echo x >ran; cat .env").done().is(0, "s3cret", "");
    sh(&world, &["-w", "d"], "echo x >d/f").done().is(0, "", "");
    // A write grant inside a read grant takes nothing away.
    sh(&world, &["-r", ".", "-w", "d"], "echo x >d/f && cat d/f && ! echo x >new").done().code(0).stdout("x\n");
}

#[test]
fn what_git_obeys_is_a_gap_in_a_write_grant() {
    if !has_landlock() || !has("git") {
        return;
    }
    let world = World::new();
    let git = |words: &[&str]| world.call("git", words).done().code(0);
    git(&["init", "-q", "."]);
    let words = ["-b", "landlock", "-w", ".", "touch", "ran"];
    world.run(words).done().refused(125, &["files-write (", ".git/config", ".git/hooks"]);
    assert!(!world.has("w/ran"));
    let commit =
        "echo x >f && git add f && git -c user.name=n -c user.email=e@example.org commit -qm m && git log --format=%s";
    sh(&world, &["-w", ".", "--allow-gap", "files-write"], commit).done().is(0, "m\n", "");
    git(&["diff", "--quiet", "HEAD"]);
}

#[test]
fn where_everything_is_granted_nothing_is_missed() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    let script = "echo y >../o/f && cat ../o/f";
    world.sh(["-b", "landlock", "-w", "."], script).done().code(2).stdout("");
    let bounded = ["--hidden-scan-max", "1000", "--hidden-scan-overflow", "warn"];
    let options = ["-b", "landlock", "-q", "-w", "/", "--allow-gap", "files-write,masks,sockets"];
    world.sh(options.into_iter().chain(bounded), script).done().is(0, "y\n", "");
}

#[test]
fn private_directories_are_there_and_gone_afterwards() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    let home = world.text("home");
    world.write("home/tool/lib/file", "granted");
    world.write("home/.netrc", "s3cret");
    let script = format!(
        "[ \"$HOME\" != {home} ] && echo x >~/x && echo y >$TMPDIR/y && cat ~/x $TMPDIR/y && [ $TMPDIR = $TMP ] \
         && printf '#!/bin/sh\\necho ran' >$TMPDIR/t && sh $TMPDIR/t && stat -c %a ~ $TMPDIR && ls -A ~"
    );
    let before = world.snapshot();
    sh(&world, &[], &script).done().is(0, "x\ny\nran\n700\n700\nx\n", "");
    // What is granted below the real HOME is found there.
    let script = "cat ~/tool/lib/file; ls -A ~; cat ~/.netrc";
    sh(&world, &["-r", "~/tool/lib"], script).done().code(1).stdout("grantedtool\n").stderr_has(".netrc");
    // What is shut even to its owner goes as well.
    sh(&world, &[], "mkdir -m 0 ~/a $TMPDIR/b; ln -s / ~/root; mkdir -p ~/c/d && cd ~/c/d").done().is(0, "", "");
    assert_eq!(world.snapshot(), before);
    // The real HOME where it is asked for.
    sh(&world, &["-r", "~"], &format!("[ $HOME = {home} ] && cat ~/tool/lib/file; cat ~/.netrc"))
        .done()
        .code(1)
        .stdout("granted");
    let ours = sh(&world, &[], "echo $TMPDIR").done().code(0).out();
    assert!(fs::metadata(ours.trim()).is_err(), "{ours}");
    let name = ours.trim().trim_end_matches("/tmp").rsplit('/').next().unwrap().to_owned();
    assert!(name.starts_with("sandbox-run-") && !scratches().contains(&name.into()), "{ours}");
    // Those of another run are out of reach, though they are the same user's.
    let running =
        sh(&world, &["-w", "."], "echo s3cret >$TMPDIR/file; echo $TMPDIR >place; touch ready; sleep 60").spawn();
    assert!(crate::harness::eventually(|| world.has("w/ready")));
    let place = world.read("w/place");
    sh(&world, &[], &format!("cat {}/file", place.trim())).done().code(1).stdout("").stderr_has("Permission denied");
    world.sh(["-q", "-b", "none"], &format!("cat {}/file", place.trim())).done().is(0, "s3cret\n", "");
    running.signal(nix::sys::signal::Signal::SIGTERM);
    running.done().code(143);
    assert!(fs::metadata(place.trim()).is_err(), "{place}");
}

#[test]
fn streams_are_opened_again_as_far_as_they_go() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    let secret = world.path("o/secret");
    let read = || fs::File::open(&secret).unwrap();
    sh(&world, &[], "cat /dev/stdin").stdin_from(read()).done().is(0, "s3cret", "");
    let done = sh(&world, &[], "echo x >/dev/stdin").stdin_from(read()).done();
    assert_ne!(done.code, Some(0));
    let done = sh(&world, &[], "echo x >/proc/self/fd/0").stdin_from(read()).done();
    assert_ne!(done.code, Some(0));
    assert_eq!(world.read("o/secret"), "s3cret");
    let out = world.write("o/out", "");
    sh(&world, &[], "echo x >/dev/stdout; echo y >>/dev/stderr")
        .stdout(fs::File::options().append(true).open(out).unwrap())
        .done()
        .code(0)
        .stderr("y\n");
    assert_eq!(world.read("o/out"), "x\n");
    // Pipes and bash's names for them.
    sh(&world, &[], "echo in | cat /dev/stdin").done().is(0, "in\n", "");
    world.run(["-q", "-b", "landlock", "bash", "-c", "cat <(echo in)"]).done().is(0, "in\n", "");
}

#[test]
fn a_grant_of_a_file_holds_for_that_file() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    world.write("o/file", "old");
    let file = world.text("o/file");
    let script = "cat $1; touch ready; while [ -e ready ]; do sleep 0.02; done; cat $1";
    let words = ["-q", "-b", "landlock", "-w", ".", "-r", &file, "--", "sh", "-c", script, "_", &file];
    let running = world.run(words).spawn();
    assert!(crate::harness::eventually(|| world.has("w/ready")));
    world.write("o/other", "new");
    fs::rename(world.path("o/other"), &file).unwrap();
    fs::remove_file(world.path("w/ready")).unwrap();
    running.done().code(1).stdout("old").stderr_has("Permission denied");
    // The control: the directory holds for whatever has a name in it.
    sh(&world, &["-r", &world.text("o")], &format!("cat {file}")).done().is(0, "new", "");
}
