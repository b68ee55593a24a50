//! Nothing of a run outlives it, whoever is killed and when; and nothing of it ends too early.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, setsid};

use crate::harness::{Call, Running, World, eventually, processes, processes_with, program, usable};

/// Options for each backend that let the command write to its working directory.
const WRITABLE: [&[&str]; 4] = [
    &["-q", "-b", "bwrap", "-w", "."],
    &["-q", "-b", "none"],
    &["-q", "-b", "landlock", "-w", "."],
    &["-q", "-b", "namespace", "-w", "."],
];

/// What is left of a run whose program led a session of its own: the stages and the launcher are in that session, or have the name
/// by which the program was called; the command and its children carry `mark` in their arguments.
pub fn left(session: i32, mark: &str) -> BTreeSet<i32> {
    let is_one =
        |pid: i32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() == called(mark));
    let of_run = processes().into_iter().filter(|one| one.state != 'Z' && (one.session == session || is_one(one.pid)));
    of_run.map(|process| process.pid).chain(processes_with(mark)).collect()
}

/// The name by which the program is called for `mark`, short enough for the kernel.
pub fn called(mark: &str) -> &str {
    mark.trim_start_matches("mark-")
}

fn describe(pids: &BTreeSet<i32>) -> String {
    let line = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ");
    pids.iter().map(|pid| format!("{pid}: {}", line(pid))).collect::<Vec<_>>().join("\n")
}

/// The process whose parent is `pid`.
fn child_of(pid: i32) -> Option<i32> {
    processes().into_iter().find(|process| process.parent == pid).map(|process| process.pid)
}

/// `script` as a command that carries `mark`, in a session of its own. Its output goes to files: what is left of it must
/// not hold a pipe that is read to the end here, until nothing is left.
pub fn marked(world: &World, options: &[&str], script: &str, mark: &str) -> Call {
    let words = [options, &["--", "sh", "-c", script, mark]].concat();
    // Where a careless launcher would leave things.
    let call = world
        .call(world.program_as(called(mark)), words)
        .env("TMPDIR", world.path("o"))
        .env("XDG_RUNTIME_DIR", world.path("o"));
    let errors = File::create(world.path("o/errors")).expect("file");
    call.stdout(Stdio::null()).stderr(errors).before_exec(|| {
        no_core()?;
        Ok(setsid().map(drop)?)
    })
}

/// SIGQUIT leaves a file where the machine is set up so; that is not one of ours.
#[allow(unsafe_code)]
fn no_core() -> io::Result<()> {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is valid for reads.
    if unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// A mark that no other process has.
pub fn mark() -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    format!("mark-{}-{}.", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn mounts() -> BTreeSet<String> {
    let all = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    all.lines().filter(|line| line.contains("sandbox-run") || line.contains("newroot")).map(str::to_owned).collect()
}

/// Ends with one of its parents, or by itself after a minute.
const TICKS: &str = "i=0; while [ $i -lt 1200 ]; do echo $i >> ticks; sleep 0.05; i=$((i+1)); done";

/// Kills the program with `signal` at `tries` moments over the whole of a start, and looks what is left.
fn kill_at_any_moment(options: &[&str], signal: Signal, tries: u32) {
    let world = World::new();
    world.write("w/ticks", "");
    world.write("o/errors", "");
    let files = || world.snapshot().into_keys().collect::<BTreeSet<_>>();
    let before = (files(), mounts());
    // How long a start takes here and now: the moments cover it and some more.
    let begun = Instant::now();
    world.run([options, &["--", "true"]].concat()).done().is(0, "", "");
    let span = begun.elapsed().max(Duration::from_millis(15));
    for attempt in 0..tries {
        let mark = mark();
        let running = marked(&world, options, TICKS, &mark).spawn();
        let session = running.pid();
        let delay = span * attempt / tries;
        std::thread::sleep(delay);
        running.signal(signal);
        let done = running.done();
        // Before the program looks after signals it dies of one like any other.
        let own = 128 + signal as i32;
        assert!(
            done.signal == Some(signal as i32) || (signal != Signal::SIGKILL && done.code == Some(own)),
            "{signal} after {delay:?}: {:?} {:?} {}",
            done.code,
            done.signal,
            world.read("o/errors")
        );
        let gone = eventually(|| left(session, &mark).is_empty());
        assert!(gone, "{signal} after {delay:?} leaves:\n{}", describe(&left(session, &mark)));
    }
    let ticks = world.read("w/ticks");
    std::thread::sleep(Duration::from_millis(150));
    assert_eq!(world.read("w/ticks"), ticks, "somebody still writes");
    assert_eq!((files(), mounts()), before);
}

#[test]
fn kill_at_any_moment_leaves_nothing() {
    kill_at_any_moment(WRITABLE[0], Signal::SIGKILL, 200);
    kill_at_any_moment(WRITABLE[3], Signal::SIGKILL, 200);
}

#[test]
fn kill_without_a_sandbox_leaves_nothing() {
    kill_at_any_moment(WRITABLE[1], Signal::SIGKILL, 60);
}

#[test]
fn kill_in_a_shared_session_leaves_nothing() {
    kill_at_any_moment(&[WRITABLE[0], &["--new-session", "never"]].concat(), Signal::SIGKILL, 60);
    kill_at_any_moment(&[WRITABLE[3], &["--new-session", "never"]].concat(), Signal::SIGKILL, 60);
}

#[test]
fn term_and_int_at_any_moment_leave_nothing() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        kill_at_any_moment(WRITABLE[0], signal, 50);
        kill_at_any_moment(WRITABLE[1], signal, 20);
        kill_at_any_moment(WRITABLE[3], signal, 20);
    }
}

#[test]
fn hup_and_quit_at_any_moment_leave_nothing() {
    for signal in [Signal::SIGHUP, Signal::SIGQUIT] {
        kill_at_any_moment(WRITABLE[0], signal, 50);
        kill_at_any_moment(WRITABLE[1], signal, 20);
        kill_at_any_moment(WRITABLE[3], signal, 20);
    }
}

#[test]
fn other_signals_that_end_the_program_leave_nothing() {
    for options in usable(WRITABLE) {
        for signal in [Signal::SIGALRM, Signal::SIGVTALRM, Signal::SIGIO] {
            let world = World::new();
            let (running, mark) = begin(&world, options, TICKS);
            let session = running.pid();
            running.signal(signal);
            running.done().is(128 + signal as i32, "", "");
            assert!(eventually(|| left(session, &mark).is_empty()), "{}", describe(&left(session, &mark)));
        }
    }
}

/// A run whose command ticks.
fn begin(world: &World, options: &[&str], script: &str) -> (Running, String) {
    let mark = mark();
    let running = marked(world, options, script, &mark).spawn();
    assert!(eventually(|| world.has("w/ticks")), "the command runs");
    (running, mark)
}

#[test]
fn a_loop_that_nobody_kills_goes_on() {
    // The control of all the above.
    for options in usable(WRITABLE) {
        let world = World::new();
        let (running, mark) = begin(&world, options, TICKS);
        let ticks = world.read("w/ticks");
        assert!(eventually(|| world.read("w/ticks").len() > ticks.len()), "it ticks");
        let alive = left(running.pid(), &mark);
        assert!(alive.len() >= 3, "the program, the stages and the command are found\n{}", describe(&alive));
        running.signal(Signal::SIGTERM);
        running.done().code(143);
    }
}

#[test]
fn a_killed_launcher_ends_the_run() {
    let world = World::new();
    let (running, mark) = begin(&world, WRITABLE[0], TICKS);
    let session = running.pid();
    let monitor = child_of(session).expect("bwrap");
    kill(Pid::from_raw(monitor), Signal::SIGKILL).expect("signal");
    let done = running.done().is(137, "", "");
    assert!(done.took < Duration::from_secs(20));
    assert!(eventually(|| left(session, &mark).is_empty()), "{}", describe(&left(session, &mark)));
}

#[test]
fn a_killed_process_1_ends_the_run() {
    for options in usable(WRITABLE) {
        let world = World::new();
        // With a session of its own below it, which has to go too.
        let (running, mark) = begin(&world, options, &format!("setsid sh -c '{TICKS}' \"$0\" & {TICKS}"));
        let session = running.pid();
        let mut inner = child_of(session).expect("child");
        if options.contains(&"bwrap") {
            inner = child_of(inner).expect("process 1");
        }
        kill(Pid::from_raw(inner), Signal::SIGKILL).expect("signal");
        running.done().is(137, "", "");
        assert!(eventually(|| left(session, &mark).is_empty()), "{}", describe(&left(session, &mark)));
    }
}

#[test]
fn a_killed_process_group_ends_the_run() {
    for session in ["always", "never"] {
        let world = World::new();
        let options = [WRITABLE[0], &["--new-session", session]].concat();
        let (running, mark) = begin(&world, &options, TICKS);
        let session = running.pid();
        killpg(Pid::from_raw(session), Signal::SIGKILL).expect("signal");
        assert_eq!(running.done().signal, Some(9));
        assert!(eventually(|| left(session, &mark).is_empty()), "{}", describe(&left(session, &mark)));
    }
}

#[test]
fn a_launcher_killed_while_it_starts_ends_the_run() {
    let world = World::new();
    let begun = Instant::now();
    world.run(["-w", ".", "--", "true"]).done().is(0, "", "");
    let span = begun.elapsed().max(Duration::from_millis(15));
    let mut early = 0;
    for attempt in 0..60 {
        let mark = mark();
        let running = marked(&world, WRITABLE[0], TICKS, &mark).spawn();
        let session = running.pid();
        let at = Instant::now() + span * attempt / 60;
        // As soon as there is one, or some time later.
        let mut monitor = None;
        while monitor.is_none() || Instant::now() < at {
            monitor = monitor.or_else(|| child_of(session));
        }
        let sent = Instant::now();
        kill(Pid::from_raw(monitor.expect("launcher")), Signal::SIGKILL).expect("signal");
        let done = running.done();
        let errors = world.read("o/errors");
        assert!(matches!(done.code, Some(125 | 137)), "{:?} {:?} {errors}", done.code, done.signal);
        assert!(sent.elapsed() < Duration::from_secs(8), "it waits for what never comes");
        early += u32::from(done.code == Some(125));
        let expected = if done.code == Some(125) { "sandbox-run: cannot " } else { "" };
        assert!(errors.starts_with(expected) && errors.is_empty() == expected.is_empty(), "{errors}");
        assert!(eventually(|| left(session, &mark).is_empty()), "{}", describe(&left(session, &mark)));
    }
    assert!(early > 0, "no try came early enough to say anything");
}

#[test]
fn the_end_of_the_command_is_the_end_of_all() {
    let world = World::new();
    for script in ["setsid sleep 99 & exit 3", "(sleep 50; exit 9) & exit 3", "sleep 98 & sleep 97 & exit 3"] {
        let mark = mark();
        let script = format!("{script} # {mark}");
        let running = marked(&world, WRITABLE[0], &script, &mark).spawn();
        let session = running.pid();
        let done = running.done().is(3, "", "");
        assert!(done.took < Duration::from_secs(20), "{script}");
        assert!(left(session, &mark).is_empty(), "at once\n{}", describe(&left(session, &mark)));
    }
    // Outside, and where nothing was to be isolated, what goes to the background survives.
    for options in [None, Some(WRITABLE[1])] {
        let (mark, sandbox_run) = (mark(), program());
        let sleeper = format!("exec sh -c \"touch up; sleep 20\" {mark}");
        let script =
            format!("setsid sh -c '{sleeper}' </dev/null >/dev/null 2>&1 & until [ -e up ]; do :; done; exit 3");
        let done = match options {
            None => world.call("sh", ["-c", &script]).done(),
            Some(options) => world.call(sandbox_run, [options, &["--", "sh", "-c", &script]].concat()).done(),
        };
        done.is(3, "", "");
        let left = processes_with(&mark);
        assert!(!left.is_empty(), "control: the sleeper lives");
        for pid in left {
            // Its group too: the mark is on the shell, not on what the shell started.
            let _gone = (kill(Pid::from_raw(pid), Signal::SIGKILL), killpg(Pid::from_raw(pid), Signal::SIGKILL));
        }
        fs::remove_file(world.path("w/up")).expect("file");
    }
}

#[test]
fn a_background_process_does_not_hold_the_output() {
    let world = World::new();
    let sandbox_run = program();
    let words = ["-c", "out=$(\"$1\" -- sh -c 'sleep 99 & echo hi'); echo \"[$out]\"", "_"].map(String::from);
    let words = words.into_iter().chain([sandbox_run.to_str().expect("text").to_owned()]);
    let done = world.call("sh", words).done().is(0, "[hi]\n", "");
    assert!(done.took < Duration::from_secs(20));
}

#[test]
fn nothing_outside_can_be_hit_from_inside() {
    let world = World::new();
    // A bystander of the same user, and everything else of it.
    let bystander = world.call("sleep", ["120"]).spawn();
    let pid = bystander.pid();
    // Each kill is guarded by being inside, where the parent of the command is process 1.
    let all = "test $PPID = 1 || exit 99; trap '' TERM HUP INT USR1; ";
    for (script, status) in [
        ("kill -9 -1; kill -TERM -1; exit 4", 4),
        ("kill -9 $PPID; kill -TERM 1; kill -INT 1; kill -STOP 1; kill -SEGV 1; exit 5", 5),
        ("i=1; while [ $i -le 65535 ]; do [ $i = $$ ] || kill -9 $i 2>/dev/null; i=$((i+1)); done; exit 6", 6),
    ] {
        world.sh::<&str>([], &format!("{all}{script}")).done().code(status).stdout("");
        world.sh::<&str>([], &format!("{all}kill -9 {pid} && exit 98; {script}")).done().code(status).stdout("");
    }
    assert!(kill(Pid::from_raw(pid), None).is_ok(), "the bystander lives");
    // Still under control after it tried everything.
    let ready = "touch ready; while :; do sleep 0.05 & wait $!; done";
    let script = format!("{all}kill -STOP 1; kill -9 1; kill -TERM 1; {ready}");
    let running = world.sh(["-w", ".", "--kill-after", "0.3"], &script).spawn();
    assert!(eventually(|| world.has("w/ready")));
    running.signal(Signal::SIGTERM);
    running.done().code(137).stdout("");
    // The control: outside the same signal arrives.
    world.call("sh", ["-c", &format!("kill -9 {pid}")]).done().is(0, "", "");
    assert_eq!(bystander.done().signal, Some(9));
}

#[test]
fn no_zombie_is_left_while_it_runs() {
    for options in usable(WRITABLE) {
        let world = World::new();
        // Each orphan falls to the inner stage, which has to take it in.
        let script = "i=0; while [ $i -lt 1000 ]; do (: & :) & i=$((i+1)); [ $((i % 50)) != 0 ] || wait; done; wait; \
                      touch done; while [ ! -e go ]; do sleep 0.05; done";
        let mark = mark();
        let running = marked(&world, options, script, &mark).spawn();
        let session = running.pid();
        assert!(eventually(|| world.has("w/done")), "a thousand children");
        let zombies = || {
            let all = processes();
            let mut family = BTreeSet::from([session]);
            while all.iter().any(|process| family.contains(&process.parent) && family.insert(process.pid)) {}
            all.into_iter().filter(|process| process.state == 'Z' && family.contains(&process.pid)).count()
        };
        // The loop's own sleep is one for a moment.
        assert!(eventually(|| zombies() == 0), "{} zombies", zombies());
        world.write("w/go", "");
        running.done().is(0, "", "");
    }
}

#[test]
fn a_stopped_program_can_be_killed() {
    for options in usable(WRITABLE) {
        let world = World::new();
        let (running, mark) = begin(&world, options, TICKS);
        let session = running.pid();
        running.signal(Signal::SIGSTOP);
        running.signal(Signal::SIGCONT);
        running.signal(Signal::SIGSTOP);
        running.signal(Signal::SIGKILL);
        assert_eq!(running.done().signal, Some(9));
        assert!(eventually(|| left(session, &mark).is_empty()), "{}", describe(&left(session, &mark)));
    }
}

/// Makes this process ignore SIGCHLD, as some callers do.
fn ignore_children() -> io::Result<()> {
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, sigaction};
    let action = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    ignored(&action, sigaction)
}

#[allow(unsafe_code)]
fn ignored<A>(action: &A, set: unsafe fn(Signal, &A) -> nix::Result<A>) -> io::Result<()> {
    // SAFETY: the action is to ignore the signal, so no code runs in signal context.
    Ok(unsafe { set(Signal::SIGCHLD, action) }.map(drop)?)
}

#[test]
fn odd_callers_get_the_same_end() {
    for options in usable(WRITABLE) {
        let world = World::new();
        let words = || [options, &["--", "sh", "-c", "echo out; echo err >&2; exit 3"]].concat();
        world.run(words()).before_exec(ignore_children).done().is(3, "out\n", "err\n");
        world.run(words()).before_exec(|| Ok(setsid().map(drop)?)).done().is(3, "out\n", "err\n");
        world.run(words()).closed(&[0]).env_clear().env("PATH", "/usr/bin:/bin").done().is(3, "out\n", "err\n");
        let sandbox_run = program();
        let through = |program: &str, first: &[&str]| {
            let words = [first, &[sandbox_run.to_str().expect("text")], &words()].concat();
            world.call(program, words)
        };
        through("setsid", &["-w"]).done().is(3, "out\n", "err\n");
        through("nohup", &[]).done().is(3, "out\n", "err\n");
        through("timeout", &["60"]).done().is(3, "out\n", "err\n");
        through("env", &["-i", "PATH=/usr/bin:/bin"]).done().is(3, "out\n", "err\n");
        // 123: one of its commands ended with a status between 1 and 125.
        through("xargs", &["-n", "1"]).stdin("a b").done().is(123, "out\nout\n", "err\nerr\n");
        // A caller with a child of its own before it became the program: that one is nobody's to kill.
        let mark = mark();
        let script = format!("sh -c 'sleep 20' {mark} </dev/null >/dev/null 2>&1 & exec \"$@\"");
        through("sh", &["-c", &script, "_"]).done().is(3, "out\n", "err\n");
        let left = processes_with(&mark);
        assert!(!left.is_empty(), "the caller's own child lives");
        for pid in left {
            kill(Pid::from_raw(pid), Signal::SIGKILL).expect("signal");
        }
    }
}

#[test]
fn the_reader_sees_the_end_when_the_command_closes_its_output() {
    use std::io::{Read, Write};
    for options in usable(WRITABLE) {
        let world = World::new();
        let (mut out, writer) = io::pipe().expect("pipe");
        let (reader, mut input) = io::pipe().expect("pipe");
        let call = world.sh(options, "echo one; exec >&-; read line; exit 3");
        let running = call.stdout(OwnedFd::from(writer)).stdin_from(OwnedFd::from(reader)).spawn();
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            let _late = out.read_to_string(&mut text).map(|_| send.send(text));
        });
        // The command waits for us: until then only a stage could hold it open.
        let text = receive.recv_timeout(Duration::from_secs(20)).expect("the end of its output");
        assert_eq!(text, "one\n");
        input.write_all(b"\n").expect("pipe");
        running.done().is(3, "", "");
    }
}
