//! What holds of every run, in containers: arguments, descriptors, variables, signals, output, result.

use std::fs::File;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::Place;
use crate::harness::{eventually, program};
use crate::pty::Terminal;

/// The object of `--result-fd`, after a run with `words`.
fn result(place: &Place, words: &[&str]) -> (crate::harness::Done, Value) {
    let file = File::create(place.world.path("o/result")).unwrap();
    let done = place.run(&[&["--result-fd", "9"], words].concat()).fd(file, 9).done();
    let object = serde_json::from_str(&place.world.read("o/result")).unwrap();
    (done, object)
}

#[test]
fn arguments_and_the_name_of_the_program_arrive() {
    let Some(place) = Place::of(0) else { return };
    let many: Vec<_> = (0..20_000).map(|number| number.to_string()).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    place.run(&[&["--", "sh", "-c", "echo $#", "_"], &many[..]].concat()).done().is(0, "20000\n", "");
    // Linux's MAX_ARG_STRLEN counts the NUL at the end.
    let word = "x".repeat(131_071);
    place.run(&["--", "sh", "-c", "echo ${#1}", "_", &word]).done().is(0, "131071\n", "");
    place.run(&["--", "echo", "--net", "host", "--"]).done().is(0, "--net host --\n", "");
    place.run(&["--", "sh", "-c", "echo $0"]).done().is(0, "sh\n", "");
    // A program of many names: only the name says what it is to do.
    place.world.link("w/head", "/bin/busybox");
    place.run(&["--", "./head", "-n", "1"]).stdin("a\nb\n").done().is(0, "a\n", "");
}

#[test]
fn no_descriptor_crosses_but_those_that_are_named() {
    for (_, place) in Place::both() {
        let world = &place.world;
        let open = |name: &str| File::open(world.path(name)).unwrap();
        let list = "for fd in $(ls /proc/$$/fd | sort -n); do [ -e /proc/$$/fd/$fd ] && printf '%s ' $fd; done; echo";
        let call = |call: crate::harness::Call| call.fd(open("o/secret"), 7).fd(open("o"), 200).done();
        let outside = call(place.call(&["sh", "-c", list])).code(0);
        outside.stdout_has(" 7 ").stdout_has(" 200 ");
        call(place.sh(&[], list)).is(0, "0 1 2 \n", "");
        call(place.sh(&["--keep-fd", "7"], list)).is(0, "0 1 2 7 \n", "");
        call(place.sh(&[], "cat /proc/self/fd/200/secret <&7")).stdout("");
        call(place.sh(&["--keep-fd", "7"], "head -c 2 <&7")).is(0, "s3", "");
        place.sh(&["--keep-fd", "5"], "true").done().refused(125, &["5"]);
    }
}

#[test]
fn variables_pass_as_under_other_backends() {
    let Some(place) = Place::of(0) else { return };
    let env = |options: &[&str]| {
        let names =
            ["FOO", "LD_LIBRARY_PATH", "BASH_ENV", "MY_NAME", "MY_API_KEY", "HTTPS_PROXY", "AWS_SECRET_ACCESS_KEY"];
        let mut call = place.run(&[options, &["--", "env"]].concat());
        for name in names {
            call = call.env(name, "/value");
        }
        let done = call.done().code(0);
        let out = done.out();
        let found = out.lines().filter_map(|line| Some(line.split_once('=')?.0.to_owned()));
        let found: Vec<_> = names.into_iter().filter(|name| found.clone().any(|one| one == *name)).collect();
        (found, done)
    };
    env(&[]).1.stderr("");
    assert_eq!(env(&[]).0, [""; 0]);
    assert_eq!(env(&["-e", "FOO"]).0, ["FOO"]);
    assert_eq!(env(&["-e", "MY_*"]).0, ["MY_NAME"]);
    assert_eq!(env(&["-e", "MY_API_KEY", "-e", "HTTPS_PROXY"]).0, ["MY_API_KEY", "HTTPS_PROXY"]);
    let (found, done) = env(&["-e", "LD_LIBRARY_PATH", "-e", "BASH_ENV"]);
    assert_eq!(found, [""; 0]);
    done.stderr_has("never pass").stderr_has(" LD_LIBRARY_PATH").stderr_has(" BASH_ENV");
    assert_eq!(env(&["-e", "BASH_ENV=x"]).0, ["BASH_ENV"]);
    place.run(&["-e", "SANDBOX_RUN_STAGE=1", "true"]).done().refused(125, &["SANDBOX_RUN_STAGE"]);
    let odd = "a=b\n*$(x)\u{e9}";
    place.sh(&["-e", &format!("ODD={odd}")], "printf %s \"$ODD\"").done().is(0, odd, "");
    place.run(&["--no-default-env", "-e", "A=1", "--", "/bin/sh", "-c", "echo $A$TERM"]).done().is(0, "1\n", "");
    let bare = place.run(&["--", "sh", "-c", "echo ran"]).env_remove("LANG").env_remove("TERM").env_remove("HOME");
    bare.done().is(0, "ran\n", "");
}

#[test]
fn each_signal_arrives_once() {
    for (_, place) in Place::both() {
        let signals = [
            (Signal::SIGUSR1, "USR1"),
            (Signal::SIGHUP, "HUP"),
            (Signal::SIGINT, "INT"),
            (Signal::SIGQUIT, "QUIT"),
            (Signal::SIGUSR2, "USR2"),
            (Signal::SIGWINCH, "WINCH"),
        ];
        place.world.write("w/log", "");
        place.world.call("chmod", ["666", &place.world.text("w/log")]).done().code(0);
        let traps: String = signals.map(|(_, name)| format!("trap 'echo {name} >>log' {name}; ")).concat();
        let script = format!("{traps} trap 'exit 9' TERM; echo ready >>log; while :; do sleep 0.05 & wait $!; done");
        let running = place.sh(&["-w", "."], &script).spawn();
        let mut expected = "ready\n".to_owned();
        assert!(eventually(|| place.world.read("w/log") == expected), "the command");
        for (signal, name) in signals {
            running.signal(signal);
            expected.extend([name, "\n"]);
            assert!(eventually(|| place.world.read("w/log").ends_with(&format!("{name}\n"))), "{name} arrives");
        }
        // Time for one that comes twice.
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(place.world.read("w/log"), expected);
        running.signal(Signal::SIGTERM);
        running.done().is(9, "", "");
        assert_eq!(place.left(), [""; 0]);
    }
}

#[test]
fn what_the_caller_ignores_stays_ignored_and_the_end_is_the_commands() {
    let Some(place) = Place::of(0) else { return };
    let program = program();
    let ignoring = |script: &str| {
        let words = ["sh", "-c", "trap '' INT; exec \"$@\"", "_", program.to_str().unwrap()];
        place.call(&[&words[..], &["-b", "podman", "--image", "sandbox-run-test", "--", "sh", "-c", script]].concat())
    };
    let kill = "sh -c 'kill -INT $$; echo lives'";
    ignoring(kill).done().is(0, "lives\n", "");
    place.sh(&[], kill).done().code(130).stdout("");
    // The status is the command's, and nothing that it leaves holds it up.
    let done = place.sh(&[], "(sleep 30; exit 9) & setsid sleep 30 & echo hi; exit 3").done().is(3, "hi\n", "");
    assert!(done.took < Duration::from_secs(20), "{:?}", done.took);
    place.sh(&[], "kill -9 -1; kill -9 1; kill -9 $PPID; exit 4").done().code(4);
    place.sh(&[], "exec sh -c 'kill -PIPE $$'").done().code(141).stdout("");
    assert_eq!(place.left(), [""; 0]);
}

#[test]
fn output_is_cut_to_the_byte_and_the_result_tells_each_ending() {
    for (_, place) in Place::both() {
        let told = |object: &Value| json!(["status", "exit_code", "signal", "reason"].map(|field| &object[field]));
        for (words, code, expected) in [
            (&["sh", "-c", "exit 5"][..], 5, json!(["exited", 5, null, null])),
            (&["sh", "-c", "ulimit -c 0; kill -SEGV $$"], 139, json!(["signaled", null, 11, null])),
            (&["nosuchcommand"], 127, json!(["not-started", null, null, "not-found"])),
            (&["plain"], 126, json!(["not-started", null, null, "not-executable"])),
            (&["-C", "/nope", "true"], 125, json!(["not-started", null, null, "policy"])),
            (&["--image", "nosuchimage", "true"], 125, json!(["not-started", null, null, "backend"])),
            (&["--memory", "64M", "true"], 125, json!(["not-started", null, null, "backend"])),
            (&["--timeout", "0.5", "sleep", "60"], 124, json!(["timeout", null, 15, "timeout"])),
        ] {
            let (done, object) = result(&place, words);
            done.code(code);
            assert_eq!(told(&object), expected, "{words:?}: {object:#}");
            let started = expected[0] != "not-started";
            assert!(!started || object["backend"] == "podman", "{words:?}: {object:#}");
        }
        let flood = ["sh", "-c", "while :; do echo 0123456789; done"];
        let limit = ["--max-output", "1000", "--output-overflow", "kill", "--"];
        let (done, object) = result(&place, &[&limit[..], &flood].concat());
        assert_eq!(done.code(124).stdout.len(), 1000);
        assert_eq!([&object["status"], &object["reason"]], ["output-limit", "output-limit"], "{object:#}");
        let words = ["--", "sh", "-c", "head -c 1000 /dev/zero; head -c 10 /dev/zero >&2; sleep 1"];
        let (done, object) = result(&place, &words);
        assert_eq!((done.stdout.len(), done.stderr.len()), (1000, 10));
        assert!(object["wall_ms"].as_u64().unwrap() >= 1000, "{object:#}");
        assert_eq!([&object["argv"][0], &object["argv"][2]], ["sh", words[3]], "{object:#}");
        let (done, object) = result(&place, &["--capture", "--", "sh", "-c", "printf 'a\\377'; echo e >&2; exit 2"]);
        done.is(2, "", "");
        assert_eq!([&object["stdout"], &object["stderr"]], ["a\u{fffd}", "e\n"], "{object:#}");
        assert_eq!(place.left(), [""; 0]);
    }
}

#[test]
fn pipes_end_and_flow_as_without() {
    let Some(place) = Place::of(0) else { return };
    let program = program();
    let run = |before: &str, words: &str, after: &str| {
        let line = format!("{before}\"$0\" -b podman --image sandbox-run-test -- {words}{after}");
        place.call(&["sh", "-c", &line, program.to_str().unwrap()]).done()
    };
    run("", "yes", " | head -n 1").is(0, "y\n", "");
    run("yes | ", "head -n 1", "").is(0, "y\n", "");
    // Buffered anywhere, it would wait without end.
    let waits = "sh -c 'echo a; while [ ! -e go ]; do sleep 0.05; done; echo b'";
    run("", waits, " | { read first; echo $first; touch go; cat; }").is(0, "a\nb\n", "");
    let done = run("", "sh -c 'for i in 1 2 3; do echo o; echo e >&2; done'", " 2>&1").code(0);
    assert_eq!(done.out(), "o\ne\n".repeat(3), "one pipe keeps its order");
    run("exec ", "echo x", " >&-").code(1).stdout("");
}

/// A line of a terminal that goes away is told to the command.
#[test]
fn a_lost_connection_reaches_the_command() {
    let Some(place) = Place::of(0) else { return };
    place.world.write("w/log", "");
    let script = "trap 'echo hup >log; exit 5' HUP; echo ready; while :; do sleep 0.05 & wait $!; done";
    let mut terminal = Terminal::start(place.sh(&["-w", "."], script));
    terminal.expect("ready");
    terminal.hang_up().code(5);
    assert_eq!(place.world.read("w/log"), "hup\n");
    assert!(eventually(|| place.left().is_empty()), "{:?}", place.left());
}

#[test]
fn the_log_has_a_line_for_every_run_and_none_of_the_commands() {
    for (user, place) in Place::both() {
        let world = &place.world;
        let log = world.text("o/log");
        for (words, code) in [(&["true"][..], 0), (&["sh", "-c", "exit 3"], 3), (&["nosuchcommand"], 127)] {
            place.run(&[&["--audit-log", &log, "--"], words].concat()).done().code(code);
        }
        let text = world.read("o/log");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let codes: Vec<_> = lines.iter().map(|line| line["exit_code"].as_i64()).collect();
        assert_eq!(codes, [Some(0), Some(3), None], "{text}");
        // In a grant a log is refused, and a result is not for the command to write.
        world.write("w/log", "");
        std::os::unix::fs::chown(world.path("w/log"), Some(user), Some(user)).unwrap();
        place.run(&["--audit-log", "log", "-w", ".", "true"]).done().refused(125, &["the command could change it"]);
        let script = "echo forged >result; rm -f result; mv result r; echo x >$1; true";
        place.run(&["--result", "result", "-w", ".", "--", "sh", "-c", script, "sh", "other"]).done().code(0);
        let text = world.read("w/result");
        let object: Value = serde_json::from_str(text.trim()).unwrap();
        assert_eq!((text.lines().count(), &object["exit_code"]), (1, &json!(0)), "{object}");
        assert_eq!(world.read("w/other"), "x\n", "control: the rest can be written");
        assert_eq!(place.left(), [""; 0]);
    }
}
