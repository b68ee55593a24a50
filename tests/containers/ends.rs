//! How containers end: with the run, whoever is killed and whenever.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Place;
use crate::harness::{Running, eventually, processes, processes_with, program};

/// `script` runs in the place, and has said so in a file.
fn started(place: &Place, options: &[&str], script: &str) -> Running {
    place.world.write("w/ready", "");
    place.world.call("chmod", ["666", &place.world.text("w/ready")]).done().code(0);
    let script = format!("echo ready >ready; {script}");
    let running = place.sh(&[&["-w", "."], options].concat(), &script).spawn();
    assert!(eventually(|| place.world.read("w/ready") == "ready\n"), "the command");
    running
}

#[test]
fn the_container_ends_with_the_run() {
    for (_, place) in Place::both() {
        let gone = |place: &Place| eventually(|| place.left().is_empty());
        let wait = "while :; do sleep 0.1; done";
        let running = started(&place, &[], &format!("trap 'echo bye; exit 3' TERM; {wait}"));
        assert_eq!(place.left().len(), 2, "control");
        running.signal(Signal::SIGTERM);
        running.done().is(3, "bye\n", "");
        assert_eq!(place.left(), [""; 0]);

        let running =
            started(&place, &["--timeout", "500ms", "--kill-after", "200ms"], &format!("trap '' TERM; {wait}"));
        running.done().code(124).stderr_has("its time is over");
        assert_eq!(place.left(), [""; 0]);

        let running = started(&place, &[], &format!("trap '' TERM HUP INT; {wait}"));
        running.signal(Signal::SIGKILL);
        assert_eq!(running.done().signal, Some(9));
        assert!(gone(&place), "{:?}", place.left());
    }
}

/// The directories of runs.
fn directories(place: &Place) -> Vec<String> {
    place.left().into_iter().filter(|left| left.starts_with('/')).collect()
}

fn containers(place: &Place) -> usize {
    place.left().iter().filter(|left| !left.starts_with('/')).count()
}

/// Starts a command and kills sandbox-run with all that is its own outside; the directory that stays.
fn killed_whole(place: &Place) -> String {
    let (before, others) = (directories(place), containers(place));
    let running = started(place, &[], "trap '' TERM HUP INT; while :; do sleep 0.1; done");
    let children = processes().into_iter().filter(|process| process.parent == running.pid());
    let children: Vec<_> = children.map(|process| process.pid).collect();
    assert!(children.len() > 1, "control: {children:?}");
    running.signal(Signal::SIGKILL);
    for child in children {
        let _sent = kill(Pid::from_raw(child), Signal::SIGKILL);
    }
    assert_eq!(running.done().signal, Some(9));
    // That of a run which is none of ours stays.
    assert!(eventually(|| containers(place) == others), "{:?}", place.left());
    let mut new = directories(place);
    new.retain(|directory| !before.contains(directory));
    let [directory] = new.as_slice() else { panic!("{new:?}") };
    // Nothing of the command's.
    let names = walk(Path::new(directory));
    assert!(names.iter().all(|name| ["door", "empty", "loader", "socket"].contains(&name.as_str())), "{names:?}");
    directory.clone()
}

/// By whether a process of that run is there, and not by age or name.
#[test]
fn the_next_run_removes_what_a_killed_one_left() {
    for (user, place) in Place::both() {
        let alive = started(&place, &[], "trap 'exit 4' TERM; while :; do sleep 0.1; done");
        let [living] = directories(&place).try_into().unwrap();
        // One that is named like it and of another engine, and one whose name is none of ours; as old as the killed one's.
        let runtime = Path::new(&living).parent().unwrap();
        let number = living.rsplit('-').next().unwrap();
        let others = [format!("sandbox-run-docker-{number}"), "sandbox-run-podman-mine".to_owned()];
        for other in &others {
            fs::create_dir(runtime.join(other)).unwrap();
            std::os::unix::fs::chown(runtime.join(other), Some(user), Some(user)).unwrap();
        }
        for next in [&["true"][..], &["--check"]] {
            let killed = killed_whole(&place);
            place.run(next).done().code(0);
            let mut left = directories(&place);
            left.sort();
            let mut expected: Vec<_> = others.iter().map(|other| runtime.join(other).display().to_string()).collect();
            expected.push(living.clone());
            expected.sort();
            assert_eq!(left, expected, "{killed}");
        }
        alive.signal(Signal::SIGTERM);
        alive.done().is(4, "", "");
        for other in &others {
            fs::remove_dir(runtime.join(other)).unwrap();
        }
        assert_eq!(place.left(), [""; 0]);
    }
}

/// A directory that only looks abandoned: of a run whose outside is dead except for one process.
#[test]
fn one_process_of_a_run_keeps_its_directory() {
    let Some(place) = Place::of(0) else { return };
    let running = started(&place, &[], "trap 'exit 4' TERM; while :; do sleep 0.1; done");
    let [living] = directories(&place).try_into().unwrap();
    // The one that waits at the door: the outer stage is left, and it is the one that has a session of its own and no program.
    let keeper = processes().into_iter().find(|process| {
        let own = fs::read_link(format!("/proc/{}/exe", process.pid)).ok();
        process.parent == running.pid() && own == fs::read_link(format!("/proc/{}/exe", running.pid())).ok()
    });
    let keeper = keeper.expect("the process at the door").pid;
    kill(Pid::from_raw(keeper), Signal::SIGKILL).unwrap();
    place.run(&["true"]).done().is(0, "", "");
    assert_eq!(directories(&place), [living]);
    running.signal(Signal::SIGTERM);
    running.done().is(4, "", "");
    assert_eq!(place.left(), [""; 0]);
}

/// Names of all that is below `top`.
fn walk(top: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(top).unwrap().flatten() {
        names.push(entry.file_name().to_string_lossy().into_owned());
        if entry.file_type().unwrap().is_dir() {
            names.extend(walk(&entry.path()));
        }
    }
    names
}

/// Killed at any moment of a start, alone or with the engine's program: the container goes.
#[test]
fn nothing_is_left_whenever_it_is_killed() {
    for (user, place) in Place::both() {
        let marker = format!("{}.5", 5_000_000 + u64::from(std::process::id()) + u64::from(user));
        // Moments that differ from one test run to the next; a run takes half a second to start here.
        let mut moment = u64::from(std::process::id());
        for round in 0..3 {
            let running: Vec<_> = (0..4).map(|_| place.run(&["sleep", &marker]).spawn()).collect();
            for (number, running) in running.into_iter().enumerate() {
                moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // The first is sandbox-run by then.
                let least = if number == 0 { 100 } else { 0 };
                std::thread::sleep(Duration::from_millis(least + (moment >> 33) % 300));
                let over = AtomicBool::new(false);
                let done = std::thread::scope(|scope| {
                    if number == 0 {
                        // What looks at the image first may be over by then, and its end is none of the run's.
                        let launcher = running.pid();
                        let over = &over;
                        scope.spawn(move || {
                            for step in 0.. {
                                if over.load(Ordering::Relaxed) {
                                    break;
                                }
                                // Who takes away what is left has its time.
                                let children = processes().into_iter().filter(|process| process.parent == launcher);
                                for child in children.filter(|_| step % 400 == 0) {
                                    let _sent = kill(Pid::from_raw(child.pid), Signal::SIGKILL);
                                }
                                std::thread::sleep(Duration::from_millis(20));
                            }
                        });
                    } else {
                        running.signal(Signal::SIGKILL);
                    }
                    let done = running.done();
                    over.store(true, Ordering::Relaxed);
                    done
                });
                let told = done.signal == Some(9) || [Some(125), Some(137)].contains(&done.code);
                assert!(told, "{:?} {}", done.code, done.stderr);
            }
            assert!(eventually(|| place.left().is_empty()), "round {round}: {:?}", place.left());
            assert!(eventually(|| processes_with(&marker).is_empty()), "round {round}");
        }
    }
}

/// Asked to end at any moment of a start, without much grace: what the engine has begun by then goes as well.
#[test]
fn nothing_is_left_whenever_it_is_asked_to_end() {
    for (user, place) in Place::both() {
        let marker = format!("{}.25", 6_000_000 + u64::from(std::process::id()) + u64::from(user));
        let mounts = || place.call(&["sh", "-c", "wc -l </proc/self/mountinfo; ls /run/user"]).done().code(0).out();
        place.run(&["true"]).done().is(0, "", "");
        let before = mounts();
        for moment in (0..12).map(|step| step * 50) {
            let running = place.run(&["--kill-after", "10ms", "--", "sleep", &marker]).spawn();
            // What is sent before is for the shell.
            let own = || fs::read_link(format!("/proc/{}/exe", running.pid())).is_ok_and(|exe| exe == program());
            assert!(eventually(own), "sandbox-run");
            std::thread::sleep(Duration::from_millis(moment));
            running.signal(Signal::SIGTERM);
            let done = running.done();
            // Of the signal itself, before it has begun.
            let ended = [Some(143), Some(137)].contains(&done.code) || done.signal == Some(15);
            assert!(ended, "{moment}: {:?} {:?} {}", done.code, done.signal, done.stderr);
            assert_eq!(place.left(), [""; 0], "{user}: {moment}");
            assert!(eventually(|| processes_with(&marker).is_empty()), "{user}: {moment}");
        }
        assert_eq!(mounts(), before, "{user}: mounts are left");
        place.run(&["true"]).done().is(0, "", "");
    }
}

/// Whoever waits for the container is killed with its program: then nobody but us removes it.
#[test]
fn a_container_that_its_engine_forgot_is_removed() {
    let Some(place) = Place::of(0) else { return };
    let running = started(&place, &[], "trap '' TERM HUP INT; while :; do sleep 0.1; done");
    let is =
        |pid: i32, name: &str| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name);
    let name = |place: &Place| directories(place).first().and_then(|path| Some(path.rsplit_once('/')?.1.to_owned()));
    let name = name(&place).expect("the directory of the run");
    let mut found = processes_with(&name);
    found.retain(|pid| is(*pid, "conmon") || is(*pid, "podman"));
    assert_eq!(found.len(), 2, "control");
    for pid in found {
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    }
    running.done().code(137);
    assert!(eventually(|| place.left().is_empty()), "{:?}", place.left());
}

#[test]
fn many_at_once_do_not_meet() {
    let Some(place) = Place::of(0) else { return };
    let running: Vec<_> =
        (0..20).map(|number| place.sh(&[], &format!("echo {number}; exit {number}")).spawn()).collect();
    for (number, running) in (0..).zip(running) {
        running.done().is(number, &format!("{number}\n"), "");
    }
    assert_eq!(place.left(), [""; 0]);
}
