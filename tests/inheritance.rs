//! What a process inherits besides arguments, variables and descriptors arrives as the caller left it.

use std::time::Duration;

use crate::harness::{Call, Done, World, backends, program};

/// Becomes the program in its arguments after doing what the first one says.
const BECOME: &str = "import os, resource, signal, sys\nexec(sys.argv[1])\nos.execvp(sys.argv[2], sys.argv[2:])";

/// A call that has the state which the Python code `prepare` makes.
fn after(world: &World, prepare: &str, words: &[&str]) -> Call {
    world.call("python3", [&["-c", BECOME, prepare], words].concat())
}

/// The status as a shell sees it.
fn status(done: &Done) -> Option<i32> {
    done.code.or(done.signal.map(|signal| 128 + signal))
}

/// Runs `words` outside and under every backend, after `prepare`, and compares all three; the one outside is returned.
fn same(world: &World, prepare: &str, words: &[&str]) -> Done {
    let outside = after(world, prepare, words).done();
    let program = program();
    let program = program.to_str().expect("text");
    for backend in backends() {
        let inside = after(world, prepare, &[&[program], &backend[..], &["--"], words].concat()).done();
        assert_eq!(inside.code, status(&outside), "{backend:?} {prepare}\n{}", inside.stderr);
        assert_eq!(inside.out(), outside.out(), "{backend:?} {prepare}");
        assert_eq!(inside.stderr, outside.stderr, "{backend:?} {prepare}");
    }
    outside
}

/// Prints its own signal sets, and sets none.
const SIGNALS: &[&str] = &["sed", "-n", "/^Sig[BIC]/p; /^ShdPnd/p", "/proc/self/status"];

/// Every signal but KILL, STOP and the two that the C library keeps to itself.
const ALL: u64 = !(1 << 8 | 1 << 18 | 1 << 31 | 1 << 32);

/// A set of signals in what [`SIGNALS`] printed, as bits.
fn set_of(done: &Done, name: &str) -> u64 {
    let out = done.out();
    let set = out.lines().find_map(|line| line.strip_prefix(name)).expect("a set of signals");
    // How this test itself was started decides about the C library's own.
    u64::from_str_radix(set.trim(), 16).expect("hexadecimal") & ALL
}

#[test]
fn ignored_signals_stay_ignored_and_others_are_not() {
    let world = World::new();
    // Python itself ignores PIPE and XFSZ; without them nothing is.
    let none = "[signal.signal(s, signal.SIG_DFL) for s in signal.valid_signals() - {9, 19}]";
    assert_eq!(set_of(&same(&world, none, SIGNALS), "SigIgn:"), 0);
    let all = none.replace("SIG_DFL", "SIG_IGN");
    assert_eq!(set_of(&same(&world, &all, SIGNALS), "SigIgn:"), ALL);
    for signal in [1, 2, 3, 13, 15, 17, 20, 25, 28, 34, 64] {
        let one = format!("{none}; signal.signal({signal}, signal.SIG_IGN)");
        assert_eq!(set_of(&same(&world, &one, SIGNALS), "SigIgn:"), 1 << (signal - 1));
    }
}

#[test]
fn blocked_signals_stay_blocked() {
    let world = World::new();
    let block = |set: &str| format!("signal.pthread_sigmask(signal.SIG_SETMASK, {set})");
    assert_eq!(set_of(&same(&world, &block("signal.valid_signals()"), SIGNALS), "SigBlk:"), ALL);
    for signal in [1, 2, 13, 15, 17, 18, 20, 34, 64] {
        let done = same(&world, &block(&format!("{{{signal}}}")), SIGNALS);
        assert_eq!(set_of(&done, "SigBlk:"), 1 << (signal - 1));
    }
    // A signal that is blocked does not end the command, in whatever way it comes.
    let script = &["sh", "-c", "kill -TERM $$; echo alive; exit 3"];
    same(&world, &block("{15}"), script).is(3, "alive\n", "");
    assert_eq!(status(&same(&world, &block("set()"), script)), Some(128 + 15), "control");
}

#[test]
fn nohup_and_its_like_work_as_outside() {
    let world = World::new();
    let program = program();
    let program = program.to_str().expect("text");
    for backend in backends() {
        let kill = [&backend[..], &["--", "sh", "-c", "kill -HUP $$; echo survived"]].concat();
        world.call("nohup", [&[program], &kill[..]].concat()).done().code(0).stdout("survived\n");
        world.run(&kill).done().is(129, "", "");
    }
    // A writer whose reader left.
    let write = &["sh", "-c", "sleep 0.1; echo x && echo y"];
    for ignore in ["SIG_IGN", "SIG_DFL"] {
        let prepare = format!(
            "signal.signal(signal.SIGPIPE, signal.{ignore}); r, w = os.pipe(); os.close(r); os.dup2(w, 1); os.close(w)"
        );
        let outside = after(&world, &prepare, write).done();
        for backend in backends() {
            let inside = after(&world, &prepare, &[&[program], &backend[..], &["--"], write].concat()).done();
            inside.is(status(&outside).expect("an end"), "", &outside.stderr);
        }
        assert_eq!(outside.signal.is_some(), ignore == "SIG_DFL", "control: {ignore}");
    }
}

#[test]
fn a_caller_that_ignores_the_end_of_children_gets_the_status() {
    let world = World::new();
    let prepare = "signal.signal(signal.SIGCHLD, signal.SIG_IGN)";
    let done = same(&world, prepare, &["sh", "-c", "sleep 0.05; exit 3"]).code(3);
    assert!(done.took < Duration::from_secs(10));
    let prepare = format!("{prepare}; signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGCHLD}})");
    same(&world, &prepare, &["sh", "-c", "exit 3"]).code(3);
}

#[test]
fn the_mask_of_new_files_arrives() {
    let world = World::new();
    let make = &["sh", "-c", "umask; cd ${TMPDIR-$0} && touch f && mkdir d && stat -c %a f d; rm -rf f d", "/var/tmp"];
    for (mask, modes) in [("000", "666\n777\n"), ("027", "640\n750\n"), ("077", "600\n700\n"), ("0777", "0\n0\n")] {
        let prepare = format!("os.umask(0o{mask})");
        let program = program();
        for backend in backends() {
            let words = [&[program.to_str().expect("text")], &backend[..], &["-e", "TMPDIR", "--"], make].concat();
            let call = after(&world, &prepare, &words).env("TMPDIR", world.path("o"));
            call.done().is(0, &format!("{:0>4}\n{modes}", mask.trim_start_matches("00")), "");
        }
    }
}

#[test]
fn priority_processors_and_limits_arrive() {
    let world = World::new();
    same(&world, "os.nice(5)", &["nice"]).stdout("5\n");
    same(&world, "os.sched_setaffinity(0, {0})", &["grep", "Cpus_allowed_list", "/proc/self/status"])
        .stdout("Cpus_allowed_list:\t0\n");
    same(
        &world,
        "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))",
        &["sh", "-c", "chrt -p $$ | grep -c BATCH"],
    )
    .stdout("1\n");
    same(&world, "open('/proc/self/oom_score_adj', 'w').write('500')", &["cat", "/proc/self/oom_score_adj"])
        .stdout("500\n");
    for limit in
        ["NOFILE, (128, 256)", "CORE, (0, 0)", "CPU, (100, 100)", "STACK, (1 << 20, 1 << 22)", "FSIZE, (1 << 20, -1)"]
    {
        same(&world, &format!("resource.setrlimit(resource.RLIMIT_{limit})"), &["cat", "/proc/self/limits"]).code(0);
    }
}

#[test]
fn a_limit_that_leaves_no_room_is_a_refusal_and_not_a_death() {
    let world = World::new();
    let program = program();
    let program = program.to_str().expect("text");
    for backend in backends() {
        let run = |limit: u64, words: &[&str]| {
            let prepare = format!(
                "signal.signal(signal.SIGXFSZ, signal.SIG_DFL); resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
            );
            after(&world, &prepare, &[&[program], &backend[..], &["--"], words].concat()).done()
        };
        run(0, &["true"]).refused(125, &["file too large"]);
        run(1 << 20, &["sh", "-c", "ulimit -f; exit 3"]).is(3, "2048\n", "");
        // The signal is the command's again.
        run(
            1 << 20,
            &["sh", "-c", "f=$(mktemp); trap 'rm $f' EXIT; dd if=/dev/zero of=$f bs=1M count=2 2>/dev/null; exit $?"],
        )
        .code(128 + 25);
    }
}
