//! Signals to the program reach the command, each once, and the command's end is the program's.

use std::fmt::Write as _;
use std::fs::File;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, setsid};

use crate::harness::{Call, Running, World, about_bwrap, eventually, processes, processes_with, program, usable};

/// Options for each backend that let the command write to its working directory.
const WRITABLE: [&[&str]; 4] = [
    &["-q", "-b", "bwrap", "-w", "."],
    &["-q", "-b", "none"],
    &["-q", "-b", "landlock", "-w", "."],
    &["-q", "-b", "namespace", "-w", "."],
];

/// `script` as a command, in a session of its own; returns when the script has made the file `ready`.
fn begin(world: &World, options: &[&str], script: &str) -> Running {
    started(world, world.sh(options, script))
}

fn started(world: &World, call: Call) -> Running {
    let running = call.before_exec(|| Ok(setsid().map(drop)?)).spawn();
    assert!(eventually(|| world.has("w/ready")), "the command is ready");
    std::fs::remove_file(world.path("w/ready")).expect("file");
    running
}

/// The same in a process group of its own in the test's session, which is no orphan: there the kernel ignores SIGTSTP.
fn begin_in_group(world: &World, options: &[&str], script: &str) -> Running {
    let own_group = || Ok(nix::unistd::setpgid(Pid::from_raw(0), Pid::from_raw(0))?);
    let running = world.sh(options, script).before_exec(own_group).spawn();
    assert!(eventually(|| world.has("w/ready")), "the command is ready");
    running
}

/// The command line of the program with `script` as a command, for a program that starts it.
fn words(before: &[&str], options: &[&str], script: &str) -> Vec<String> {
    let program = program();
    let words = before.iter().copied().chain([program.to_str().expect("text")]);
    words.chain(options.iter().copied()).chain(["--", "sh", "-c", script]).map(str::to_owned).collect()
}

/// Whether a process is stopped.
fn is_stopped(pid: i32) -> bool {
    processes().iter().any(|process| process.pid == pid && process.state == 'T')
}

/// A loop that takes signals at once and ends when nobody looks any more.
const LOOP: &str = "touch ready; i=0; while [ $i -lt 1200 ]; do sleep 0.05 & wait $!; i=$((i+1)); done";

#[test]
fn a_command_that_traps_term_has_its_own_status() {
    for options in usable(WRITABLE) {
        let world = World::new();
        let running = begin(&world, options, &format!("trap 'echo bye; exit 7' TERM; {LOOP}"));
        running.signal(Signal::SIGTERM);
        running.done().is(7, "bye\n", "");
    }
}

#[test]
fn a_command_that_does_nothing_about_a_signal_dies_of_it() {
    for options in usable(WRITABLE) {
        for (signal, status) in
            [(Signal::SIGTERM, 143), (Signal::SIGINT, 130), (Signal::SIGHUP, 129), (Signal::SIGQUIT, 131)]
        {
            let world = World::new();
            let running = begin(&world, options, LOOP);
            running.signal(signal);
            running.done().is(status, "", "");
        }
    }
}

#[test]
fn a_command_that_ignores_term_is_killed_after_the_grace() {
    for options in usable(WRITABLE) {
        let world = World::new();
        let options = [options, &["--kill-after", "0.6"]].concat();
        let running = begin(&world, &options, &format!("trap '' TERM; {LOOP}"));
        let sent = Instant::now();
        running.signal(Signal::SIGTERM);
        running.done().is(137, "", "");
        assert!(sent.elapsed() >= Duration::from_millis(600), "killed within the grace");
    }
}

#[test]
fn a_second_term_kills_at_once() {
    for options in usable(WRITABLE) {
        let world = World::new();
        let options = [options, &["--kill-after", "1h"]].concat();
        let running = begin(&world, &options, &format!("trap '' TERM; {LOOP}"));
        running.signal(Signal::SIGTERM);
        // Closer together they count as one.
        std::thread::sleep(Duration::from_millis(400));
        running.signal(Signal::SIGTERM);
        running.done().is(137, "", "");
    }
}

#[test]
fn a_stopped_command_is_continued_to_end() {
    for options in usable(WRITABLE) {
        for (trap, status, text) in [("", 143, ""), ("trap 'echo bye; exit 7' TERM;", 7, "bye\n")] {
            let world = World::new();
            let running = begin(&world, options, &format!("{trap} echo $$ > pid; touch ready; kill -STOP $$; {LOOP}"));
            running.signal(Signal::SIGTERM);
            running.done().is(status, text, "");
        }
    }
}

#[test]
fn each_signal_arrives_once_and_only_at_the_command() {
    const SIGNALS: [(Signal, &str); 7] = [
        (Signal::SIGUSR1, "USR1"),
        (Signal::SIGHUP, "HUP"),
        (Signal::SIGINT, "INT"),
        (Signal::SIGQUIT, "QUIT"),
        (Signal::SIGUSR2, "USR2"),
        (Signal::SIGWINCH, "WINCH"),
        (Signal::SIGCONT, "CONT"),
    ];
    for options in usable(WRITABLE) {
        let world = World::new();
        let traps: String = SIGNALS.map(|(_, name)| format!("trap 'echo $who {name} >> log' {name}; ")).concat();
        // The loop of another process beside the command ends when the command is gone.
        let script = format!(
            "touch log; (who=other; {traps} while [ -e log ]; do sleep 0.05 & wait $!; done) & \
             who=command; {traps} trap 'rm log; exit 9' TERM; {LOOP}"
        );
        let running = begin(&world, options, &script);
        let mut expected = String::new();
        for (signal, name) in SIGNALS {
            running.signal(signal);
            writeln!(expected, "command {name}").expect("text");
            assert!(eventually(|| world.read("w/log").ends_with(&format!("{name}\n"))), "{name} arrives");
        }
        // Time for one that comes twice.
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(world.read("w/log"), expected);
        running.signal(Signal::SIGTERM);
        running.done().is(9, "", "");
    }
}

#[test]
fn a_signal_to_the_whole_group_arrives_once() {
    for session in ["always", "never"] {
        for options in usable(WRITABLE) {
            let world = World::new();
            let script = format!("trap 'echo hup >> log' HUP; trap 'exit 9' TERM; {LOOP}");
            let running = begin(&world, &[options, &["--new-session", session]].concat(), &script);
            for round in 1..=3 {
                killpg(Pid::from_raw(running.pid()), Signal::SIGHUP).expect("signal");
                assert!(eventually(|| world.has("w/log")), "it arrives");
                std::thread::sleep(Duration::from_millis(200));
                assert_eq!(world.read("w/log"), "hup\n".repeat(round), "--new-session {session}");
            }
            running.signal(Signal::SIGTERM);
            // The shell says on standard error that its child took the signal too.
            running.done().code(9).stdout("");
        }
    }
}

#[test]
fn timeout_ends_the_command_gently_and_once() {
    for options in usable(WRITABLE) {
        let world = World::new();
        let sandbox_run = program();
        let script = format!("trap 'echo term >> log; sleep 0.7; exit 9' TERM; {LOOP}");
        let mut words = vec!["1", sandbox_run.to_str().expect("text")];
        words.extend(options);
        words.extend(["--", "sh", "-c", &script, "timeout-mark"]);
        let mark = world.text("w");
        words.push(&mark);
        world.call("timeout", &words).done().is(124, "", "");
        // TERM went to the program and to its group. The command took its time: it was not killed.
        assert_eq!(world.read("w/log"), "term\n");
        assert!(eventually(|| processes_with(&mark).is_empty()), "nothing is left");
    }
}

#[test]
fn timeout_with_kill_leaves_nothing() {
    // To its whole group, itself included, or in the foreground to the program alone.
    for (options, foreground) in [(WRITABLE[0], false), (WRITABLE[0], true), (WRITABLE[1], true)] {
        let world = World::new();
        let mark = world.text("w");
        let sandbox_run = program();
        let mut words = vec!["-s", "KILL", "1", sandbox_run.to_str().expect("text")];
        if foreground {
            words.insert(0, "--foreground");
        }
        words.extend(options);
        words.extend(["--", "sh", "-c", LOOP, "timeout-mark", &mark]);
        let done = world.call("timeout", &words).before_exec(|| Ok(setsid().map(drop)?)).done();
        assert!((done.code, done.signal) == if foreground { (Some(137), None) } else { (None, Some(9)) });
        assert!(eventually(|| processes_with(&mark).is_empty()), "nothing is left");
        assert!(done.took < Duration::from_secs(20));
    }
}

#[test]
fn what_the_caller_ignores_stays_ignored() {
    for options in usable(WRITABLE) {
        let world = World::new();
        let script = format!("trap 'exit 9' TERM; trap 'echo usr >> log' USR1; {LOOP}");
        let words = words(&["-c", "trap '' INT HUP; exec \"$@\"", "_"], options, &script);
        let running = started(&world, world.call("sh", &words));
        running.signal(Signal::SIGINT);
        running.signal(Signal::SIGHUP);
        killpg(Pid::from_raw(running.pid()), Signal::SIGINT).expect("signal");
        // Later than these, and passed on in order.
        running.signal(Signal::SIGUSR1);
        assert!(eventually(|| world.has("w/log")), "the command lives");
        running.signal(Signal::SIGTERM);
        running.done().is(9, "", "");
    }
}

#[test]
fn nohup_holds_inside() {
    for options in usable(WRITABLE) {
        let world = World::new();
        let script = format!("trap 'exit 9' TERM; trap 'echo usr >> log' USR1; {LOOP}");
        let running = started(&world, world.call("nohup", words(&[], options, &script)));
        running.signal(Signal::SIGHUP);
        running.signal(Signal::SIGUSR1);
        assert!(eventually(|| world.has("w/log")), "the command lives");
        running.signal(Signal::SIGTERM);
        running.done().code(9);
    }
}

#[test]
fn the_command_has_the_callers_dispositions_and_mask() {
    let lines = "grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status";
    let mut seen = Vec::new();
    for before in ["", "trap '' INT USR2 CHLD PIPE; "] {
        let world = World::new();
        let outside = world.call("sh", ["-c", &format!("{before}exec {lines}")]).done().code(0).out();
        let sandbox_run = program();
        for options in usable(WRITABLE) {
            let mut words = vec!["-c".to_owned(), format!("{before}exec \"$@\" -- {lines}"), "_".to_owned()];
            words.push(sandbox_run.to_str().expect("text").to_owned());
            words.extend(options.iter().map(|word| (*word).to_owned()));
            world.call("sh", &words).done().is(0, &outside, "");
        }
        seen.push(outside);
    }
    assert_ne!(seen[0], seen[1], "control: the caller's settings show");
}

#[test]
fn a_command_has_ordinary_signal_behaviour() {
    let world = World::new();
    for options in usable(WRITABLE) {
        let python = ["--", "python3", "-c", "import os; os.kill(os.getpid(), 15)"];
        world.run([options, &python].concat()).done().is(143, "", "");
        world.sh(options, "kill -KILL $$").done().is(137, "", "");
    }
}

#[test]
fn stop_and_continue_go_along() {
    for session in ["always", "never"] {
        for options in usable(WRITABLE) {
            let world = World::new();
            let script = format!("trap 'echo cont >> log' CONT; trap 'exit 9' TERM; echo $$ > pid; {LOOP}");
            let running = begin_in_group(&world, &[options, &["--new-session", session]].concat(), &script);
            for round in 1..=2 {
                killpg(Pid::from_raw(running.pid()), Signal::SIGTSTP).expect("signal");
                assert!(
                    eventually(|| is_stopped(running.pid())),
                    "stops, round {round}, session {session}, {options:?}"
                );
                killpg(Pid::from_raw(running.pid()), Signal::SIGCONT).expect("signal");
                assert!(eventually(|| world.has("w/log") && world.read("w/log") == "cont\n".repeat(round)), "goes on");
                assert!(eventually(|| !is_stopped(running.pid())));
            }
            running.signal(Signal::SIGTERM);
            running.done().is(9, "", "");
        }
    }
}

/// The processes below `pid`, one under the other.
fn chain(pid: i32) -> Vec<i32> {
    let all = processes();
    let child = |pid: i32| all.iter().find(|process| process.parent == pid).map(|process| process.pid);
    std::iter::successors(child(pid), |pid| child(*pid)).collect()
}

/// How many processes of a run are between the program and the inner stage.
fn before_inner(options: &[&str]) -> usize {
    usize::from(["bwrap", "landlock"].iter().any(|backend| options.contains(backend)))
}

#[test]
fn an_old_stop_is_not_repeated() {
    if about_bwrap("tries each backend by itself") {
        return;
    }
    for options in usable(WRITABLE) {
        let world = World::new();
        let script = format!("trap 'echo usr >> log' USR1; trap 'exit 9' TERM; {LOOP}");
        let running = begin_in_group(&world, &[options, &["--new-session", "never"]].concat(), &script);
        let group = Pid::from_raw(running.pid());
        let command = chain(running.pid())[1 + before_inner(options)];
        // While the program cannot look, the command stops and goes on.
        running.signal(Signal::SIGSTOP);
        assert!(eventually(|| is_stopped(running.pid())));
        killpg(group, Signal::SIGTSTP).expect("signal");
        assert!(eventually(|| is_stopped(command)));
        // Until the report of it is on the way.
        std::thread::sleep(Duration::from_millis(100));
        killpg(group, Signal::SIGCONT).expect("signal");
        // And until it has come to a wrong conclusion, if it does.
        std::thread::sleep(Duration::from_millis(100));
        running.signal(Signal::SIGUSR1);
        assert!(eventually(|| world.has("w/log")), "it listens");
        running.signal(Signal::SIGTERM);
        running.done().is(9, "", "");
    }
}

#[test]
fn a_stage_that_cannot_listen_loses_no_signal() {
    if about_bwrap("tries each backend by itself") {
        return;
    }
    for options in usable(WRITABLE) {
        let world = World::new();
        let options = [options, &["--kill-after", "1h"]].concat();
        let running = begin(&world, &options, &format!("trap : USR1; trap 'exit 9' TERM; {LOOP}"));
        let inner = Pid::from_raw(chain(running.pid())[before_inner(&options)]);
        kill(inner, Signal::SIGSTOP).expect("signal");
        // Far more than a socket holds.
        for _ in 0..2000 {
            running.signal(Signal::SIGUSR1);
            std::thread::sleep(Duration::from_micros(20));
        }
        running.signal(Signal::SIGTERM);
        std::thread::sleep(Duration::from_millis(100));
        kill(inner, Signal::SIGCONT).expect("signal");
        running.done().is(9, "", "");
    }
}

#[test]
fn stops_and_continues_in_a_row_leave_nothing_stopped() {
    for options in usable(WRITABLE) {
        let world = World::new();
        let script = format!("trap 'echo usr >> log' USR1; trap 'exit 9' TERM; {LOOP}");
        let running = begin_in_group(&world, &[options, &["--new-session", "never"]].concat(), &script);
        let group = Pid::from_raw(running.pid());
        for round in 0..60 {
            killpg(group, Signal::SIGSTOP).expect("signal");
            std::thread::sleep(Duration::from_micros(round * 30));
            killpg(group, Signal::SIGCONT).expect("signal");
            std::thread::sleep(Duration::from_micros(round % 10 * 100));
            running.signal(Signal::SIGUSR1);
            let heard = eventually(|| world.has("w/log"));
            assert!(heard, "round {round}: it listens no more");
            std::fs::remove_file(world.path("w/log")).expect("file");
        }
        running.signal(Signal::SIGTERM);
        running.done().is(9, "", "");
    }
}

/// A `bwrap` that never starts anything, first on PATH.
fn hanging(world: &World) -> String {
    world.script("fake/bwrap", "#!/bin/sh\n: >\"${0%/*}/../o/called\"\nexec sleep 60\n");
    format!("{}:{}", world.text("fake"), crate::harness::PATHS)
}

#[test]
fn a_signal_before_the_command_started_is_not_lost() {
    if about_bwrap("a program in place of bubblewrap") {
        return;
    }
    for (signal, status) in [
        (Signal::SIGTERM, 143),
        (Signal::SIGINT, 130),
        (Signal::SIGHUP, 129),
        (Signal::SIGALRM, 142),
        (Signal::SIGSEGV, 139),
    ] {
        let world = World::new();
        // The second backend must not get its turn.
        let options = ["-q", "-b", "bwrap,none", "--kill-after", "0.2"];
        let running = world.sh(options, "touch ran").env("PATH", hanging(&world)).spawn();
        assert!(eventually(|| world.has("o/called")), "the launcher runs");
        running.signal(signal);
        let done = running.done().is(status, "", "");
        assert!(done.took < Duration::from_secs(8), "did not wait for the end of the start");
        assert!(!world.has("w/ran"));
    }
}

#[test]
fn signals_of_all_kinds_in_a_storm_end_in_one_status() {
    for options in usable(WRITABLE) {
        let world = World::new();
        let script = format!("trap : USR1 USR2 HUP INT QUIT WINCH CONT; trap 'exit 9' TERM; {LOOP}");
        let running = begin(&world, options, &script);
        for round in 0..2000 {
            let all = [Signal::SIGUSR1, Signal::SIGHUP, Signal::SIGINT, Signal::SIGWINCH, Signal::SIGCONT];
            running.signal(all[round % all.len()]);
        }
        running.signal(Signal::SIGTERM);
        running.done().is(9, "", "");
    }
}

#[test]
fn a_signal_on_the_way_does_not_hide_the_end() {
    for options in usable(WRITABLE) {
        for _ in 0..30 {
            let world = World::new();
            let script = "trap : USR1; touch ready; i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; exit 7";
            let running = begin(&world, options, script);
            // For longer than the command lives: some of these come when it has just ended.
            for _ in 0..10_000 {
                running.signal(Signal::SIGUSR1);
            }
            running.done().is(7, "", "");
        }
    }
}

#[test]
fn output_before_a_kill_is_kept() {
    for options in usable(WRITABLE) {
        let world = World::new();
        let out = File::create(world.path("o/out")).expect("file");
        let call = world.sh(options, &format!("echo first; {LOOP}")).stdout(out);
        let running = started(&world, call);
        running.signal(Signal::SIGTERM);
        running.done().code(143);
        assert_eq!(world.read("o/out"), "first\n");
    }
}

#[test]
fn a_signal_from_inside_to_the_stage_takes_none_from_outside_away() {
    for options in usable(WRITABLE) {
        let world = World::new();
        let script = format!("trap 'echo got >>log; exit 9' USR1; kill -USR1 $PPID; {LOOP}");
        let running = begin(&world, &[options, &["--new-session", "never"]].concat(), &script);
        // Longer than the two ways of one signal to a whole group can be apart.
        std::thread::sleep(Duration::from_millis(2500));
        assert!(!world.has("w/log"), "it was for the stage");
        running.signal(Signal::SIGUSR1);
        assert!(eventually(|| world.has("w/log")), "it arrives");
        running.done().code(9);
    }
}

#[test]
fn a_launcher_that_was_stopped_holds_up_nothing() {
    if about_bwrap("the process between is bubblewrap's") {
        return;
    }
    let world = World::new();
    let script = "echo $$ >up; until [ -e go ]; do sleep 0.02; done; exit 3";
    let running = world.sh(["-b", "bwrap", "-w", "."], script).spawn();
    assert!(eventually(|| world.has("w/up")));
    let launcher = chain(running.pid())[0];
    kill(Pid::from_raw(launcher), Signal::SIGSTOP).expect("signal");
    assert!(eventually(|| is_stopped(launcher)));
    world.write("w/go", "");
    let ended = Instant::now();
    running.done().code(3);
    assert!(ended.elapsed() < Duration::from_secs(4), "{:?}", ended.elapsed());
}
