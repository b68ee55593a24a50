//! The time limit: counted from the start of the command, it ends everything, whatever the command does about it.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::harness::{BACKENDS, Done, World, backends, eventually, is_root, processes, processes_with, program};
use crate::pty::Terminal;

/// What a loaded machine may need on top of what was asked for.
const SLACK: Duration = Duration::from_secs(3);

fn with(backend: [&str; 3], options: &[&str]) -> Vec<String> {
    backend.iter().chain(options).map(ToString::to_string).collect()
}

#[track_caller]
fn took(done: Done, at_least: Duration) -> Done {
    assert!(done.took >= at_least && done.took < at_least + SLACK, "took {:?}, not {at_least:?}", done.took);
    done
}

/// A number that marks the processes of one test.
fn marker(world: &World) -> String {
    let digits: u32 = world.text("").bytes().fold(0, |sum, byte| (sum * 31 + u32::from(byte)) % 1_000_000);
    format!("3{digits:06}")
}

#[track_caller]
fn none_left(marker: &str) {
    let left = || processes_with(&format!("sleep {marker}"));
    assert!(eventually(|| left().is_empty()), "left: {:?}", left());
}

#[test]
fn what_was_printed_before_the_end_is_kept() {
    for backend in backends() {
        let world = World::new();
        let done = world.sh(with(backend, &["--timeout", "1"]), "echo part; sleep 30").done();
        took(done, Duration::from_secs(1)).is(124, "part\n", "");
        world.sh(with(backend, &["--timeout", "20"]), "echo part; exit 6").done().is(6, "part\n", "");
    }
}

#[test]
fn a_status_of_124_can_be_the_commands_own_and_an_end_in_time_is_one() {
    for backend in backends() {
        let world = World::new();
        world.sh(with(backend, &["--timeout", "20"]), "exit 124").done().is(124, "", "");
        let marker = marker(&world);
        let done = world.sh(with(backend, &["--timeout", "5"]), &format!("(sleep {marker} &) >&- 2>&-; exit 0")).done();
        assert!(done.took < Duration::from_secs(5), "{:?}", done.took);
        done.is(0, "", "");
        for pid in processes_with(&format!("sleep {marker}")) {
            // Without a sandbox what is left running is the command's affair.
            assert_eq!(backend[2], "none");
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL).expect("signal");
        }
    }
}

#[test]
fn zero_is_no_limit() {
    for backend in backends() {
        let world = World::new();
        world.sh(with(backend, &["--timeout", "0"]), "sleep 0.3; exit 3").done().is(3, "", "");
        world.sh(with(backend, &["--timeout", "0.01", "--timeout", "0"]), "sleep 0.3; exit 3").done().is(3, "", "");
    }
}

#[test]
fn the_grace_is_for_the_command_and_not_for_its_status() {
    for backend in backends() {
        let world = World::new();
        let options = with(backend, &["--timeout", "0.5", "--kill-after", "20"]);
        let done = world.sh(options, "trap 'echo bye; exit 0' TERM; while :; do sleep 0.05; done").done();
        took(done, Duration::from_millis(500)).is(124, "bye\n", "");
    }
}

#[test]
fn who_ignores_the_request_is_killed_after_the_grace() {
    for backend in backends() {
        let world = World::new();
        let options = with(backend, &["--timeout", "0.5", "--kill-after", "0.5"]);
        let done = world.sh(options, "trap '' TERM; while :; do sleep 0.05; done").done();
        took(done, Duration::from_secs(1)).is(124, "", "");
        let done = world.sh(with(backend, &["--timeout", "0.5", "--kill-after", "0"]), "trap '' TERM; sleep 30").done();
        took(done, Duration::from_millis(500)).is(124, "", "");
    }
}

#[test]
fn a_stopped_command_ends_too() {
    for backend in backends() {
        let world = World::new();
        let options = with(backend, &["--timeout", "0.5", "--kill-after", "20"]);
        let done = world.sh(options, "kill -STOP $$; sleep 30").done();
        took(done, Duration::from_millis(500)).is(124, "", "");
    }
}

#[test]
fn a_child_that_holds_the_output_in_its_own_session_does_not_stretch_it() {
    for backend in backends() {
        for cap in [&[][..], &["--max-output", "1M"]] {
            let world = World::new();
            let marker = marker(&world);
            let mut options = with(backend, &["--timeout", "0.5", "--kill-after", "0.5"]);
            options.extend(cap.iter().map(ToString::to_string));
            let script = format!("setsid sh -c 'trap \"\" TERM; sleep {marker}' & sleep {marker}");
            let done = world.sh(options, &script).done();
            assert!(done.took < Duration::from_secs(1) + SLACK, "{:?}", done.took);
            done.is(124, "", "");
            none_left(&marker);
        }
    }
}

#[test]
fn a_command_that_kills_all_it_can_is_ended() {
    let world = World::new();
    let marker = marker(&world);
    // Only where that reaches nothing else.
    let options = with(BACKENDS[0], &["--timeout", "0.5", "--kill-after", "0.5"]);
    let script = format!("trap '' TERM; kill -9 -1; kill -9 $PPID; kill -STOP $PPID; sleep {marker}");
    took(world.sh(options, &script).done(), Duration::from_millis(500)).code(124);
    none_left(&marker);
}

#[test]
fn a_command_that_stops_the_stage_beside_it_is_ended() {
    let world = World::new();
    let marker = marker(&world);
    let options = with(BACKENDS[1], &["--timeout", "0.5", "--kill-after", "0.5"]);
    let done = world.sh(options, &format!("trap '' TERM; kill -STOP $PPID; sleep {marker} & sleep {marker}")).done();
    took(done, Duration::from_secs(1)).is(124, "", "");
    none_left(&marker);
}

#[test]
fn a_loop_of_forks_is_ended() {
    for backend in backends() {
        let world = World::new();
        let marker = marker(&world);
        let options = with(backend, &["--timeout", "0.5", "--kill-after", "0.2"]);
        // Bounded by itself, should all else fail.
        let script =
            format!("trap '' TERM; i=0; while [ $i -lt 3000 ]; do (setsid sleep {marker} &); i=$((i+1)); done");
        let done = world.sh(options, &script).done();
        assert!(done.took < Duration::from_secs(3) + SLACK, "{:?}", done.took);
        assert!(done.code == Some(124) || done.code == Some(0), "{:?}", done.code);
        if done.code == Some(124) {
            none_left(&marker);
        }
    }
}

#[test]
fn a_job_that_was_stopped_from_the_terminal_ends_in_time() {
    for backend in backends() {
        let world = World::new();
        let mut call = world.call("bash", ["--norc", "-i"]);
        call = call.env("PS1", "$ ").env("SR", program());
        let mut terminal = Terminal::start(call);
        terminal.expect("$ ");
        let options = backend.join(" ");
        // By exec: a shell that is stopped while it starts a program waits for that, and its caller for it.
        terminal.keys(&format!("$SR {options} --timeout 3 -- sh -c 'echo re\"\"ady; exec sleep 60'\n"));
        terminal.expect("ready\r\n");
        terminal.keys("\x1a");
        terminal.expect("Stopped");
        // A job that is stopped does not end; this one does, since its time is over. It runs for a moment before.
        terminal.keys("while jobs %1 2>&1 | grep -q 'Stopped\\|Running'; do sleep 0.1; done\n");
        terminal.expect("Exit 124");
        terminal.keys("exit\n");
        terminal.done();
    }
}

#[test]
fn a_signal_in_the_grace_does_not_change_the_reason() {
    for backend in backends() {
        let world = World::new();
        let options = with(backend, &["--timeout", "0.3", "--kill-after", "30"]);
        let running = world
            .sh(options, "trap '[ -e t ] || { : > /dev/null; echo asked; }' TERM; while :; do sleep 0.05; done")
            .spawn();
        // The limit has asked once; the second request is the user's, and the third skips the grace.
        std::thread::sleep(Duration::from_millis(900));
        running.signal(Signal::SIGTERM);
        std::thread::sleep(Duration::from_millis(400));
        running.signal(Signal::SIGTERM);
        let done = running.done();
        assert!(done.took < Duration::from_secs(10), "{:?}", done.took);
        done.code(124).stdout_has("asked");
    }
}

#[test]
fn a_terminal_that_nobody_reads_stops_neither_clock_nor_signals() {
    let world = World::new();
    let limits = ["--max-output", "100M", "--timeout", "0.5", "--kill-after", "0.5", "--", "yes"];
    let mut calls = vec![world.run(limits)];
    if is_root() {
        // One that belongs to somebody else cannot be opened anew.
        let program = program();
        let as_nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups", program.to_str().expect("text")];
        calls.push(world.call("setpriv", [&as_nobody[..], &limits].concat()));
    }
    for call in calls {
        let mut terminal = Terminal::start(call);
        let pid = terminal.pid();
        let ended = || !processes().iter().any(|process| process.pid == pid && process.state != 'Z');
        assert!(eventually(ended), "it waits for the terminal");
        terminal.settle(Duration::from_millis(100));
        terminal.done().0.code(124);
    }
}

#[test]
fn output_that_nobody_reads_counts_as_time() {
    let world = World::new();
    let result = world.text("o/result");
    let (reader, writer) = std::io::pipe().expect("pipe");
    let options = ["--timeout", "1", "--max-output", "100M", "--result", &result];
    let done = world.run([&options[..], &["--", "head", "-c", "200000", "/dev/zero"]].concat()).stdout(writer).done();
    drop(reader);
    took(done, Duration::from_secs(1)).code(124).stderr_has("were not read by anybody in time");
    let result = world.read("o/result");
    assert!(result.contains("\"truncated\":true"), "{result}");
}

#[test]
fn looking_at_processor_time_does_not_wake_a_stopped_job() {
    let world = World::new();
    let call = world.call("bash", ["--norc", "--noprofile", "-i"]).env("PS1", "P> ").env("SR", program());
    let mut terminal = Terminal::start(call);
    terminal.expect("P> ");
    terminal.keys("$SR -q --cpu-time 3 -- sh -c 'echo re\"\"ady; exec sleep 60'\r");
    terminal.expect("ready\r\n");
    terminal.keys("\x1a");
    terminal.expect("Stopped");
    terminal.expect("P> ");
    terminal.settle(Duration::from_secs(2));
    terminal.keys("jobs; echo so\"\"far\r");
    terminal.expect("Stopped");
    terminal.expect("sofar");
    terminal.hang_up();
}

#[test]
fn a_command_that_is_made_to_go_on_from_inside_goes_on_with_us() {
    for backend in backends() {
        for (signal, status) in [("CONT", 5), ("KILL", 137)] {
            let world = World::new();
            let script = format!("(sleep 0.5; kill -{signal} $$) & kill -STOP $$; exit 5");
            // Nobody does job control here, so nobody else would wake us.
            let terminal = Terminal::start(world.sh(backend, &script));
            terminal.done().0.code(status);
        }
    }
}

#[test]
fn no_process_of_ours_is_left_behind_by_a_stop() {
    let world = World::new();
    let call = world.call("bash", ["--norc", "--noprofile", "-i"]).env("PS1", "P> ").env("SR", program());
    let mut terminal = Terminal::start(call);
    terminal.expect("P> ");
    terminal.keys("$SR -q --timeout 60 -- sh -c 'echo re\"\"ady; exec sleep 61'\r");
    terminal.expect("ready\r\n");
    for _ in 0..3 {
        terminal.keys("\x1a");
        terminal.expect("Stopped");
        terminal.expect("P> ");
        terminal.keys("fg\r");
        terminal.expect("exec sleep 61");
        terminal.settle(Duration::from_millis(300));
    }
    let shell = terminal.pid();
    let children = |of: i32| processes().into_iter().filter(move |process| process.parent == of);
    let ours = children(shell).next().expect("the program").pid;
    assert!(eventually(|| children(ours).all(|child| child.state != 'Z')), "a zombie");
    terminal.keys("\x03");
    terminal.expect("P> ");
    terminal.keys("exit\r");
    terminal.done();
}

#[test]
fn what_was_used_by_those_who_were_killed_is_known() {
    let world = World::new();
    for options in [&["--timeout", "1.5"][..], &["--timeout", "1.5", "--kill-after", "0.1"]] {
        let result = world.text("o/result");
        let words = [&["-q", "--result", &result][..], options].concat();
        let script = "trap '' TERM; (while :; do :; done) & (while :; do :; done) & wait";
        let script = if options.len() == 2 { &script["trap '' TERM; ".len()..] } else { script };
        world.sh(words, script).done().code(124);
        let result: serde_json::Value = serde_json::from_str(&world.read("o/result")).expect("JSON");
        // How much depends on what else this machine does, but without them it would be next to nothing.
        let used = result["user_ms"].as_u64().expect("number") + result["system_ms"].as_u64().expect("number");
        assert!(used >= 200, "{result}");
    }
}
