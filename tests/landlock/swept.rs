//! Directories of runs under `landlock` that were killed with all their processes: a later run removes them and nothing else.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{Running, World, eventually, has_landlock, is_root, processes, processes_with};
use crate::landlock::sh;

/// Starts a command and says which directory its run has.
fn started(world: &World, name: &str, script: &str) -> (Running, PathBuf) {
    let script = format!("echo $TMPDIR >{name}.new; mv {name}.new {name}; {script}");
    // What goes on holds no pipe of ours.
    let running = sh(world, &["-w", "."], &script).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    assert!(eventually(|| world.has(&format!("w/{name}"))), "the command");
    let place = world.read(&format!("w/{name}"));
    (running, Path::new(place.trim()).parent().unwrap().to_owned())
}

/// Kills sandbox-run and all that is its own in one moment: none gets to see the end of another.
fn killed_whole(running: Running) {
    let mut all = vec![running.pid()];
    for _ in 0..2 {
        let children = processes().into_iter().filter(|process| process.parent == *all.last().unwrap());
        let children: Vec<_> = children.map(|process| process.pid).collect();
        let [child] = children[..] else { panic!("the warden and the inner stage: {children:?}") };
        all.push(child);
    }
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        for pid in &all {
            kill(Pid::from_raw(*pid), signal).unwrap();
        }
    }
    assert_eq!(running.done().signal, Some(libc::SIGKILL));
}

/// What the test has made beside the directories of runs.
struct Made(Vec<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        for path in &self.0 {
            let _gone = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
        }
    }
}

#[test]
fn a_later_run_removes_what_nobody_uses() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    let (alive, living) = started(&world, "alive", "trap 'exit 4' TERM; while :; do sleep 0.1; done");
    // Something goes on in it that nobody ends any more.
    let mark = world.text("mark");
    let script = format!(
        "mkdir -p $TMPDIR/a/b; echo x >$TMPDIR/a/b/c; chmod 0 $TMPDIR/a; ln -s / $TMPDIR/root; \
        setsid sh -c 'while :; do sleep 0.1; done' {mark} & exec sleep 600"
    );
    let (killed, left) = started(&world, "killed", &script);
    assert!(eventually(|| fs::symlink_metadata(left.join("tmp/root")).is_ok() && !processes_with(&mark).is_empty()));
    killed_whole(killed);
    let straggler = || processes_with(&mark).into_iter().next();
    let next = || drop(sh(&world, &[], "true").done().is(0, "", ""));
    next();
    assert!(fs::symlink_metadata(left.join("tmp/root")).is_ok() && straggler().is_some(), "its command goes on in it");

    // What is named like one, and what is not.
    let number = left.file_name().unwrap().to_str().unwrap().trim_start_matches("sandbox-run-").to_owned();
    let place = left.parent().unwrap();
    let other: String = number.chars().rev().collect();
    let elsewhere = world.dir("o/elsewhere");
    world.write("o/elsewhere/file", "kept");
    let link = place.join(format!("sandbox-run-{other}"));
    let mine = place.join(format!("sandbox-run-mine-{number}"));
    let letters = place.join(format!("sandbox-run-{}", "x".repeat(32)));
    let file = place.join(format!("sandbox-run-{}", other.chars().rev().skip(1).chain(['0']).collect::<String>()));
    let theirs = place.join(format!("sandbox-run-{}", other.chars().skip(1).chain(['1']).collect::<String>()));
    let _made = Made([&link, &mine, &letters, &file, &theirs].map(PathBuf::clone).to_vec());
    symlink(&elsewhere, &link).unwrap();
    for directory in [&mine, &letters, &theirs] {
        fs::create_dir(directory).unwrap();
    }
    fs::write(&file, "kept").unwrap();
    if is_root() {
        std::os::unix::fs::chown(&theirs, Some(12345), Some(12345)).unwrap();
    }

    kill(Pid::from_raw(straggler().unwrap()), Signal::SIGKILL).unwrap();
    assert!(eventually(|| straggler().is_none()));
    next();
    assert!(eventually(|| fs::symlink_metadata(&left).is_err()), "{}", left.display());
    assert!(fs::symlink_metadata(living.join("tmp")).is_ok(), "that of a run stays");
    for kept in [&link, &mine, &letters, &file] {
        assert!(fs::symlink_metadata(kept).is_ok(), "{}", kept.display());
    }
    assert_eq!(world.read("o/elsewhere/file"), "kept", "nothing is done through a link");
    assert_eq!(fs::symlink_metadata(&theirs).is_ok(), is_root(), "that of another user stays, the user's own goes");
    alive.signal(Signal::SIGTERM);
    alive.done().is(4, "", "");
    assert!(eventually(|| fs::symlink_metadata(&living).is_err()));
}

/// Many at once, with directories of killed ones between them: none loses its own.
#[test]
fn no_run_loses_its_own_to_another() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    for round in 0..3 {
        let (killed, left) = started(&world, &format!("killed{round}"), "exec sleep 600");
        killed_whole(killed);
        let script = "for i in 1 2 3; do echo x >$TMPDIR/x && [ -d ~ ] && cat $TMPDIR/x || exit 9; sleep 0.05; done";
        let all: Vec<_> = (0..12).map(|_| sh(&world, &[], script).spawn()).collect();
        for one in all {
            one.done().is(0, "x\nx\nx\n", "");
        }
        assert!(eventually(|| fs::symlink_metadata(&left).is_err()), "{}", left.display());
    }
}
