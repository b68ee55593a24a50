//! Every signal that can be caught reaches the command, whatever its number; the run ends in order and is reported.

use std::fs;

use nix::sys::signal::Signal;
use nix::unistd::{Pid, setsid};
use sandbox_run::sys::signals::send;
use serde_json::json;

use crate::harness::{Call, Running, World, eventually, find, processes_with, program, skip, usable};
use crate::result::{object, told};

/// Options for each backend that let the command write to its working directory.
const WRITABLE: [&[&str]; 4] = [
    &["-q", "-b", "bwrap", "-w", ".", "--core", "0"],
    &["-q", "-b", "none", "--core", "0"],
    &["-q", "-b", "landlock", "-w", ".", "--core", "0"],
    &["-q", "-b", "namespace", "-w", ".", "--core", "0"],
];

/// Signals that nobody can catch, and the one that we take as news of our children.
const OURS: [i32; 3] = [libc::SIGKILL, libc::SIGSTOP, libc::SIGCHLD];

/// Signals that end nothing by themselves.
const HARMLESS: [i32; 6] = [libc::SIGCONT, libc::SIGURG, libc::SIGWINCH, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

fn begin(world: &World, options: &[&str], script: &str) -> Running {
    ready(world, world.sh(options.iter().chain(&["--result", &world.text("o/r")]), script))
}

fn ready(world: &World, call: Call) -> Running {
    let running = call.before_exec(|| Ok(setsid().map(drop)?)).spawn();
    assert!(eventually(|| world.has("w/ready")), "the command is ready");
    running
}

fn signal(running: &Running, number: i32) {
    send(Pid::from_raw(running.pid()), number).expect("signal");
}

/// Signals that this process ignores, and what it starts with it: glibc has some of its own ignored in what it spawns.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("status");
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("line");
    // Rust ignores it in itself, and not in what it starts.
    u64::from_str_radix(set.trim(), 16).expect("number") & !(1 << (libc::SIGPIPE - 1))
}

#[test]
fn a_command_without_plans_dies_of_any_and_that_is_told() {
    let ignored = ignored();
    for options in usable(WRITABLE) {
        for number in (1..=64).filter(|number| !OURS.contains(number)) {
            let world = World::new();
            let mark = world.text("w/ready");
            let running = begin(&world, options, &format!("touch ready; exec tail -f '{mark}'"));
            signal(&running, number);
            let mut last = number;
            if HARMLESS.contains(&number) || ignored & (1 << (number - 1)) != 0 {
                // Those that stop it end nothing either, and TERM is for it in any state.
                std::thread::sleep(std::time::Duration::from_millis(20));
                last = libc::SIGTERM;
                signal(&running, last);
                signal(&running, libc::SIGCONT);
            }
            running.done().is(128 + last, "", "");
            let object = object(&world, "o/r");
            assert_eq!(told(&object), json!(["signaled", null, last, "terminated"]), "signal {number}: {object:#}");
            assert!(eventually(|| processes_with(&mark).is_empty()), "signal {number}: something is left");
            assert_eq!(fs::read_dir(world.path("o")).expect("directory").count(), 2, "the result and the secret");
        }
    }
}

#[test]
fn a_command_that_handles_one_goes_on() {
    for options in usable(WRITABLE) {
        for number in [libc::SIGALRM, libc::SIGSEGV, libc::SIGABRT, libc::SIGXCPU, libc::SIGPIPE, 37, 64] {
            let world = World::new();
            let script = format!(
                "trap 'echo {number} >>log' {number}; touch ready; i=0; \
                 until [ -s log ] || [ $i = 400 ]; do sleep 0.05; i=$((i+1)); done; exit 9"
            );
            let running = begin(&world, options, &script);
            signal(&running, number);
            running.done().is(9, "", "");
            assert_eq!(world.read("w/log"), format!("{number}\n"));
            assert_eq!(told(&object(&world, "o/r")), json!(["exited", 9, null, null]), "signal {number}");
        }
    }
}

#[test]
fn one_to_the_whole_group_arrives_once() {
    for options in usable(WRITABLE) {
        for (session, number) in [("always", libc::SIGALRM), ("never", libc::SIGALRM), ("always", 40), ("never", 40)] {
            let world = World::new();
            let script = format!(
                "trap 'echo x >>log' {number}; touch ready; i=0; \
                 until [ -e over ] || [ $i = 400 ]; do sleep 0.05; i=$((i+1)); done; exit 9"
            );
            let running = begin(&world, &[options, &["--new-session", session]].concat(), &script);
            send(Pid::from_raw(-running.pid()), number).expect("signal");
            assert!(eventually(|| world.has("w/log")), "it arrives");
            // Time for one that comes twice.
            std::thread::sleep(std::time::Duration::from_millis(200));
            world.write("w/over", "");
            running.done().code(9);
            assert_eq!(world.read("w/log"), "x\n", "signal {number}, session {session}");
        }
    }
}

#[test]
fn an_alarm_that_the_caller_has_set_rings_for_the_command() {
    if find("perl").is_none() {
        return skip("perl", "it is not installed");
    }
    for options in usable(WRITABLE) {
        let world = World::new();
        let sandbox_run = program();
        let result = world.text("o/r");
        let mut words = vec!["-e", "alarm 1; exec @ARGV", sandbox_run.to_str().expect("text")];
        words.extend(options);
        words.extend(["--result", &result, "sleep", "60"]);
        world.call("perl", &words).done().is(128 + libc::SIGALRM, "", "");
        assert_eq!(told(&object(&world, "o/r")), json!(["signaled", null, libc::SIGALRM, "terminated"]));
    }
}

#[test]
fn what_the_command_sends_to_itself_is_no_request_of_others() {
    for options in usable(WRITABLE) {
        for number in [libc::SIGALRM, libc::SIGSEGV, libc::SIGUSR1, 40] {
            let world = World::new();
            let running = begin(&world, options, &format!("touch ready; kill -{number} $$"));
            running.done().is(128 + number, "", "");
            assert_eq!(told(&object(&world, "o/r")), json!(["signaled", null, number, null]));
        }
    }
}

#[test]
fn a_signal_that_the_caller_ignores_ends_nothing() {
    for options in usable(WRITABLE) {
        let world = World::new();
        let sandbox_run = program();
        let mut words = vec!["-c", "trap '' ALRM USR1; exec \"$@\"", "_", sandbox_run.to_str().expect("text")];
        words.extend(options);
        words.extend([
            "--",
            "sh",
            "-c",
            "trap 'exit 9' HUP; touch ready; i=0; while [ $i -lt 400 ]; do sleep 0.05; i=$((i+1)); done",
        ]);
        let running = ready(&world, world.call("sh", &words));
        for number in [libc::SIGALRM, libc::SIGUSR1, Signal::SIGHUP as i32] {
            signal(&running, number);
        }
        running.done().is(9, "", "");
    }
}
