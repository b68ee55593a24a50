//! On a terminal: job control, window size, modes and hang-up work as without the program; typing for the user does not.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::termios::LocalFlags;
use nix::unistd::Pid;

use crate::harness::{Call, World, eventually, find, is_root, processes, program, usable};
use crate::pty::Terminal;

/// Options for each backend that let the command write to its working directory.
const WRITABLE: [&str; 4] = ["-q -b bwrap -w .", "-q -b none", "-q -b landlock -w .", "-q -b namespace -w ."];

/// A call of a shell in which `$SR` is the program with `options`.
fn with_program(call: Call, options: &str) -> Call {
    let sandbox_run = program();
    let call = call.env("SR", format!("{} {options}", sandbox_run.to_str().expect("text")));
    // Not typed, so that it is not taken for a prompt.
    call.env("HISTFILE", "/dev/null").env("PROMPT", "PS1=Q> ")
}

/// An interactive shell with job control, at its first prompt.
fn shell(world: &World, options: &str) -> Terminal {
    let call = world.call("bash", ["--norc", "--noprofile", "-i"]).env("PS1", "P> ");
    let mut terminal = Terminal::start(with_program(call, options));
    terminal.expect("P> ");
    terminal
}

/// A shell script on a terminal.
fn script(world: &World, options: &str, text: &str) -> Terminal {
    Terminal::start(with_program(world.call("sh", ["-c", text]), options))
}

/// The words before a command, without a shell.
fn words<'a>(options: &'a str, command: &[&'a str]) -> Vec<&'a str> {
    options.split(' ').chain(["--"]).chain(command.iter().copied()).collect()
}

/// The program itself on a terminal.
fn direct(world: &World, options: &str, text: &str) -> Terminal {
    Terminal::start(world.run(words(options, &["sh", "-c", text])))
}

fn child_of(pid: i32) -> Option<i32> {
    processes().into_iter().find(|process| process.parent == pid).map(|process| process.pid)
}

#[test]
fn a_job_stops_resumes_and_is_interrupted() {
    for options in usable(WRITABLE) {
        let world = World::new();
        let mut terminal = shell(&world, options);
        let shell = Pid::from_raw(terminal.pid());
        for _ in 0..2 {
            terminal.keys("$SR -- sh -c 'echo RE\"\"ADY; exec sleep 77'\r");
            terminal.expect("READY\r\n");
            terminal.keys("\x1a");
            terminal.expect("Stopped");
            terminal.expect("P> ");
            assert_eq!(terminal.foreground(), shell);
            terminal.keys("jobs\r");
            terminal.expect("Stopped");
            terminal.expect("exec sleep 77");
            terminal.expect("P> ");
            terminal.keys("fg\r");
            assert!(eventually(|| terminal.foreground() != shell), "the job is in the foreground");
            terminal.keys("\x03");
            terminal.expect("P> ");
            terminal.keys("echo status=$?\r");
            terminal.expect("status=130");
            terminal.expect("P> ");
            assert_eq!(terminal.foreground(), shell);
        }
        terminal.keys("exit\r");
        let (done, text) = terminal.done();
        done.code(0);
        for complaint in ["Cannot set", "no job control", "cannot"] {
            assert!(!text.contains(complaint), "{text}");
        }
    }
}

#[test]
fn a_background_reader_stops_until_it_is_in_the_foreground() {
    for options in usable(WRITABLE) {
        let world = World::new();
        let mut terminal = shell(&world, options);
        let shell = Pid::from_raw(terminal.pid());
        for _ in 0..2 {
            terminal.keys("$SR -- sh -c 'read line; echo got:$line' &\r");
            terminal.expect("P> ");
            let job = || {
                let stopped =
                    |process: &crate::harness::Process| process.parent == shell.as_raw() && process.state == 'T';
                processes().iter().any(stopped)
            };
            assert!(eventually(job), "stopped by reading in the background");
            terminal.keys("jobs\r");
            terminal.expect("Stopped");
            terminal.expect("P> ");
            terminal.keys("fg\r");
            assert!(eventually(|| terminal.foreground() != shell), "the job is in the foreground");
            terminal.keys("hello\r");
            terminal.expect("got:hello");
            terminal.expect("P> ");
            terminal.keys("echo status=$?\r");
            terminal.expect("status=0");
            terminal.expect("P> ");
            assert_eq!(terminal.foreground(), shell);
        }
        terminal.keys("exit\r");
        terminal.done().0.code(0);
    }
}

#[test]
fn keys_that_send_signals_send_one() {
    for options in usable(WRITABLE) {
        let world = World::new();
        let text = "trap 'echo int >> log' INT; trap 'echo quit >> log' QUIT; echo READY; \
                    while [ ! -e stop ]; do sleep 0.05 & wait $!; done; exit 6";
        let mut terminal = direct(&world, options, text);
        terminal.expect("READY");
        let mut expected = String::new();
        for (keys, name) in [("\x03", "int\n"), ("\x1c", "quit\n"), ("\x03", "int\n")] {
            terminal.keys(keys);
            expected += name;
            assert!(eventually(|| world.has("w/log") && world.read("w/log").len() >= expected.len()), "{name} arrives");
            // Time for one that comes twice.
            terminal.settle(Duration::from_millis(200));
            assert_eq!(world.read("w/log"), expected);
        }
        world.write("w/stop", "");
        terminal.done().0.code(6);
    }
}

#[test]
fn an_untrapped_key_ends_the_command() {
    for options in usable(WRITABLE) {
        // Ctrl-C ends the program by the same signal: a shell leaves its loop only then, and shows 130 in any case.
        for (keys, end) in [("\x03", (None, Some(libc::SIGINT))), ("\x1c", (Some(131), None))] {
            let world = World::new();
            let mut terminal = direct(&world, options, "ulimit -c 0; echo READY; exec sleep 60");
            terminal.expect("READY");
            terminal.keys(keys);
            let done = terminal.done().0;
            assert_eq!((done.code, done.signal), end);
        }
    }
}

#[test]
fn the_size_of_the_window_and_its_changes_arrive() {
    for options in usable(WRITABLE) {
        let world = World::new();
        let text = "trap 'n=$((n+1)); echo change $n $(stty size)' WINCH; stty size; echo READY; \
                    while [ ! -e stop ]; do sleep 0.05 & wait $!; done; exit 0";
        let mut terminal = direct(&world, options, text);
        terminal.expect("31 97\r\n");
        terminal.expect("READY");
        terminal.resize(40, 120);
        terminal.expect("change 1 40 120\r\n");
        terminal.settle(Duration::from_millis(200));
        assert!(!terminal.text().contains("change 2"), "{}", terminal.text());
        terminal.resize(41, 121);
        terminal.expect("change 2 41 121\r\n");
        world.write("w/stop", "");
        terminal.done().0.code(0);
    }
}

#[test]
fn the_streams_are_the_terminal() {
    for options in usable(WRITABLE) {
        let world = World::new();
        let text = "for i in 0 1 2; do test -t $i && echo yes $i; done; echo spoken > /dev/tty; \
                    readlink /proc/self/fd/0; stty -a > /dev/null && echo modes";
        let mut terminal = direct(&world, options, text);
        let name = terminal.name().to_owned();
        for line in ["yes 0", "yes 1", "yes 2", "spoken", &name, "modes"] {
            terminal.expect(&format!("{line}\r\n"));
        }
        terminal.done().0.code(0);
        // With a session of its own it has streams and no controlling terminal.
        let options = format!("{options} --new-session always");
        let text = "test -t 0 && echo yes; (echo spoken > /dev/tty) 2>/dev/null || echo none; echo END";
        let mut terminal = direct(&world, &options, text);
        terminal.expect("yes\r\nnone\r\nEND");
        terminal.done().0.code(0);
    }
}

/// What a shell does behind a run, to show the modes that it finds.
const KEPT: &str = "echo MODES; stty -a; read line; echo got:$line";

/// The terminal has these modes after the run, and lines are still read.
fn ends_with_echo(mut terminal: Terminal, echo: &str) {
    terminal.expect("MODES");
    terminal.expect(" icanon ");
    terminal.expect(echo);
    terminal.keys("line\r");
    terminal.expect("got:line");
    terminal.done().0.code(0);
}

#[test]
fn modes_that_a_killed_command_left_are_restored() {
    for options in usable(WRITABLE) {
        // It dies by itself; it is killed by us after the grace.
        for end in ["kill -9 $$", "trap \"\" TERM; touch ready; while :; do sleep 0.1; done"] {
            let world = World::new();
            let text = format!("$SR --kill-after 0.1 -- sh -c 'stty raw -echo; {end}'; {KEPT}");
            let terminal = script(&world, options, &text);
            if end.contains("ready") {
                assert!(eventually(|| world.has("w/ready")));
                assert!(!terminal.modes().local_flags.contains(LocalFlags::ECHO), "control: it changed the modes");
                let sandbox_run = child_of(terminal.pid()).expect("program");
                kill(Pid::from_raw(sandbox_run), Signal::SIGTERM).expect("signal");
            }
            ends_with_echo(terminal, " echo ");
        }
        // What it leaves on purpose stays, as outside.
        let world = World::new();
        let terminal = script(&world, options, &format!("$SR -- stty -echo; {KEPT}"));
        ends_with_echo(terminal, " -echo ");
    }
}

#[test]
fn modes_are_restored_after_a_session_of_its_own_as_well() {
    for options in usable(WRITABLE) {
        for (more, end) in
            [("", "kill -9 $$"), ("--timeout 0.3 --kill-after 0.1", "trap \"\" TERM; while :; do sleep 0.1; done")]
        {
            let world = World::new();
            let text =
                format!("$SR --new-session always {more} -- sh -c 'stty raw -echo <&2; echo there; {end}'; {KEPT}");
            let mut terminal = script(&world, options, &text);
            terminal.expect("there");
            ends_with_echo(terminal, " echo ");
        }
    }
}

#[test]
fn a_job_that_dies_in_the_background_leaves_the_shells_modes() {
    for options in usable(WRITABLE) {
        let world = World::new();
        let mut terminal = shell(&world, options);
        terminal.keys("$SR -- sh -c 'echo RE\"\"ADY; exec sleep 60'\r");
        terminal.expect("READY\r\n");
        terminal.keys("\x1a");
        terminal.expect("P> ");
        terminal.keys("bg\r");
        terminal.expect("P> ");
        let raw = |terminal: &Terminal| !terminal.modes().local_flags.contains(LocalFlags::ICANON);
        assert!(eventually(|| raw(&terminal)), "control: the shell edits its line");
        let sandbox_run = child_of(terminal.pid()).expect("program");
        kill(Pid::from_raw(sandbox_run), Signal::SIGTERM).expect("signal");
        let gone = || !processes().iter().any(|process| process.pid == sandbox_run && process.state != 'Z');
        assert!(eventually(gone));
        assert!(raw(&terminal), "the shell's modes are its own");
        terminal.keys("exit\r");
        terminal.done();
    }
}

#[test]
fn a_shell_inside_has_job_control_and_gives_the_terminal_back() {
    for options in usable(WRITABLE) {
        let world = World::new();
        let mut terminal = shell(&world, options);
        let outside = terminal.foreground();
        terminal.keys("$SR -e \"$PROMPT\" -- bash --norc --noprofile -i\r");
        terminal.expect("Q> ");
        let inside = terminal.foreground();
        terminal.keys("sh -c 'echo RE\"\"ADY; exec sleep 55'\r");
        terminal.expect("READY\r\n");
        assert_ne!(terminal.foreground(), inside, "it runs in the foreground");
        terminal.keys("\x1a");
        terminal.expect("Stopped");
        terminal.expect("Q> ");
        terminal.keys("fg\r");
        assert!(eventually(|| terminal.foreground() != inside), "it is back in the foreground");
        terminal.keys("\x03");
        terminal.expect("Q> ");
        terminal.keys("echo status=$?\r");
        terminal.expect("status=130");
        terminal.expect("Q> ");
        terminal.keys("exit 5\r");
        terminal.expect("P> ");
        assert_eq!(terminal.foreground(), outside);
        terminal.keys("echo status=$?\r");
        terminal.expect("status=5");
        terminal.expect("P> ");
        terminal.keys("exit\r");
        terminal.done().0.code(0);
    }
}

#[test]
fn the_terminal_is_taken_back_from_a_dead_foreground_group() {
    for options in usable(WRITABLE) {
        let world = World::new();
        let text = "$SR --kill-after 0.1 -e \"$PROMPT\" -- bash --norc --noprofile -i; echo status=$?; \
                    read line; echo got:$line";
        let mut terminal = script(&world, options, text);
        terminal.expect("Q> ");
        let sandbox_run = child_of(terminal.pid()).expect("program");
        // An interactive shell ignores it, so that it is killed with no time to give anything back.
        kill(Pid::from_raw(sandbox_run), Signal::SIGTERM).expect("signal");
        terminal.expect("status=137");
        assert_eq!(terminal.foreground().as_raw(), terminal.pid());
        terminal.keys("line\r");
        terminal.expect("got:line");
        terminal.done().0.code(0);
    }
}

#[test]
fn a_lost_connection_reaches_the_command() {
    let text = "trap 'echo hup >> f; exit 5' HUP; touch ready; sleep 60 & wait $!";
    for options in usable(WRITABLE) {
        let world = World::new();
        let terminal = direct(&world, options, text);
        assert!(eventually(|| world.has("w/ready")));
        let session = terminal.pid();
        terminal.hang_up().code(5);
        assert_eq!(world.read("w/f"), "hup\n");
        let left = || processes().iter().any(|process| process.session == session && process.state != 'Z');
        // Without a sandbox its background process is its own affair, as outside.
        assert!(options.contains("none") || eventually(|| !left()), "nothing is left");
    }
    // Below an interactive shell, and below a script.
    for leader in ["bash --norc --noprofile -i", "sh"] {
        let world = World::new();
        let call = world.call("sh", ["-c", &format!("exec {leader}")]);
        let mut terminal = Terminal::start(with_program(call, WRITABLE[0]));
        terminal.keys(&format!("$SR -- sh -c \"{}\"\r", text.replace('$', "\\$")));
        assert!(eventually(|| world.has("w/ready")));
        let session = terminal.pid();
        terminal.hang_up();
        assert!(eventually(|| !processes().iter().any(|p| p.session == session && p.state != 'Z')), "nothing is left");
        // An interactive shell sends it to its jobs once more, as outside.
        assert!(world.has("w/f") && world.read("w/f").starts_with("hup\n"), "the command hears of it");
    }
}

#[test]
fn script_gives_it_a_terminal() {
    for options in usable(WRITABLE) {
        let world = World::new();
        let command = "$SR -- sh -c 'test -t 0 && test -t 1 && echo TTY; exit 4'";
        let call = world.call("script", ["-qec", command, "/dev/null"]).env("SHELL", "/bin/sh");
        with_program(call, options).done().code(4).stdout_has("TTY");
    }
}

/// Tries to type `x` and a newline for the user, in every way.
pub const INJECT: &str = r#"
import ctypes, errno, os, platform
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
number = {"x86_64": 16, "aarch64": 29}[platform.machine()]
fds = [0, 1, 2]
try:
    fds.append(os.open("/dev/tty", os.O_RDWR))
except OSError as error:
    print("tty", errno.errorcode[error.errno])
answers = set()
for request in (0x5412, 0x541c):
    for high in (0, 1 << 32, 0x7fffffff << 32, -1 << 32):
        for fd in fds:
            for byte in (b"x\n" if request == 0x5412 else b"\3"):
                data = ctypes.create_string_buffer(bytes([byte]))
                ctypes.set_errno(0)
                done = libc.syscall(ctypes.c_long(number), ctypes.c_long(fd), ctypes.c_long(request | high), data)
                answers.add((hex(request), "done" if done == 0 else errno.errorcode[ctypes.get_errno()]))
print("answers", *sorted(":".join(answer) for answer in answers))
"#;

#[test]
fn nothing_can_be_typed_for_the_user() {
    let world = World::new();
    world.write("w/inject", INJECT);
    // An ordinary user: root is refused nothing by the terminal itself.
    let sandbox_run = world.path("o/sandbox-run");
    crate::harness::alone(|| std::fs::copy(program(), &sandbox_run)).expect("copy");
    let user = if is_root() { "setpriv --reuid 65534 --regid 65534 --clear-groups" } else { "" };
    let legacy = std::fs::read_to_string("/proc/sys/dev/tty/legacy_tiocsti").unwrap_or_else(|_| "1".into());
    let python = find("python3").expect("python3");
    let attempt = |prefix: &str| {
        let text = format!(
            "{user} {prefix} {} inject; echo RE\"\"ADY; read line; echo \"line=<$line>\"",
            python.to_str().expect("text")
        );
        let mut terminal = Terminal::start(world.call("sh", ["-c", &text]));
        terminal.expect("READY");
        terminal.keys("typed\r");
        terminal.expect("line=<");
        terminal.expect(">");
        terminal.done().1
    };
    let sandbox_run = sandbox_run.to_str().expect("text");
    let options = ["", "--new-session never", "--new-session always", "-b landlock", "-b landlock --new-session never"];
    for options in usable(options) {
        let text = attempt(&format!("{sandbox_run} {options} --"));
        assert!(text.contains("answers 0x5412:EPERM 0x541c:EPERM\r\n"), "{options}\n{text}");
        assert!(text.contains("line=<typed>"), "the user's own line is the first\n{text}");
        assert_eq!(text.contains("tty ENXIO"), options.ends_with("always"), "{text}");
    }
    // The control: outside the kernel takes it, unless it is one that forbids it to everybody, with another error.
    let text = attempt("");
    if legacy.trim() == "1" {
        assert!(text.contains("0x5412:done"), "{text}");
        assert!(text.contains("line=<x>"), "{text}");
    } else {
        assert!(text.contains("0x5412:EIO"), "{text}");
    }
    // Nothing is isolated, and nothing is promised, without a sandbox.
    assert!(attempt(&format!("{sandbox_run} -q -b none --")).contains(if legacy.trim() == "1" {
        "done"
    } else {
        "EIO"
    }));
}

/// Asks for what the kernel would keep beyond the run, and says what it answered.
const DEADEN: &str = r#"
import errno, fcntl, sys
for name, request, argument in (
    ("discipline", 0x5423, (27).to_bytes(4, sys.byteorder)),
    ("exclusive", 0x540C, 0),
    ("output", 0x540A, 0),
):
    if name not in sys.argv[1:]: continue
    try:
        fcntl.ioctl(0, request, argument)
        print(name, "done", flush=name == "output")
    except OSError as error:
        print(name, errno.errorcode[error.errno])
"#;

/// `N_NULL` as the discipline, `TIOCEXCL` and `TCOOFF`: modes can be put right, these not by who only reads and writes.
#[test]
fn nothing_leaves_the_terminal_dead() {
    let world = World::new();
    world.write("w/deaden", DEADEN);
    let sandbox_run = world.path("o/sandbox-run");
    crate::harness::alone(|| std::fs::copy(program(), &sandbox_run)).expect("copy");
    let sandbox_run = sandbox_run.to_str().expect("text");
    // Root opens what is exclusive, too.
    let user = if is_root() { "setpriv --reuid 65534 --regid 65534 --clear-groups" } else { "" };
    let python = find("python3").expect("python3");
    let start = |prefix: &str, what: &str| {
        let text = format!(
            "echo READY; until [ -e go ]; do sleep 0.01; done; {user} {prefix} {} deaden {what} >answers 2>&1; \
             {user} sh -c 'exec 3<\"$(tty)\"' 2>/dev/null && echo opened >>answers; \
             echo HE\"\"ARD; read line; echo \"line=<$line>\"",
            python.to_str().expect("text")
        );
        for name in ["w/go", "w/answers"] {
            let _absent = std::fs::remove_file(world.path(name));
        }
        let mut terminal = Terminal::start(world.call("sh", ["-c", &text]));
        terminal.expect("READY");
        // Root's terminal is opened by an ordinary user here.
        std::fs::set_permissions(terminal.name(), std::os::unix::fs::PermissionsExt::from_mode(0o666)).expect("mode");
        world.write("w/go", "");
        terminal
    };
    let answers = || std::fs::read_to_string(world.path("w/answers")).unwrap_or_default();
    for options in ["", "--new-session never", "--new-session always"] {
        let mut terminal = start(&format!("{sandbox_run} {options} --"), "discipline exclusive output");
        terminal.expect("HEARD");
        terminal.keys("typed\r");
        terminal.expect("line=<typed>");
        terminal.done().0.code(0);
        assert_eq!(answers(), "discipline EPERM\nexclusive EPERM\noutput EPERM\nopened\n", "{options}");
    }
    // The control: each of them by itself, outside and where nothing is isolated.
    for prefix in ["env", &format!("{sandbox_run} -q -b none --")] {
        let mut terminal = start(prefix, "exclusive");
        terminal.expect("HEARD");
        terminal.keys("typed\r");
        terminal.expect("line=<typed>");
        terminal.done();
        assert_eq!(answers(), "exclusive done\n", "{prefix}");
        for what in ["discipline", "output"] {
            let mut terminal = start(prefix, what);
            assert!(eventually(|| answers().contains("done")), "{prefix} {what}: {}", answers());
            terminal.keys("typed\r");
            terminal.settle(Duration::from_millis(300));
            assert!(!terminal.text().contains("line=<"), "{prefix} {what}: {}", terminal.text());
            terminal.hang_up();
        }
    }
}

/// In a session of its own a key of the terminal reaches the command and what it waits for, as it does in the caller's.
#[test]
fn an_interrupt_ends_what_a_shell_waits_for() {
    for options in usable(WRITABLE) {
        for session in ["always", "never"] {
            let world = World::new();
            let options = format!("{options} --new-session {session}");
            let mut terminal = direct(&world, &options, "sh -c 'echo re\"\"ady; exec sleep 30'; echo af\"\"ter");
            terminal.expect("ready\r\n");
            terminal.keys("\x03");
            let (done, text) = terminal.done();
            assert!(done.took < Duration::from_secs(20), "{options}: {:?}", done.took);
            assert!(!text.contains("after"), "{options}: {text}");
            assert!(
                done.code == Some(130) || done.signal == Some(libc::SIGINT),
                "{options}: {:?} {:?}",
                done.code,
                done.signal
            );
        }
        // From a process it is for the command alone, which waits.
        let world = World::new();
        let options = format!("{options} --new-session always");
        let mut terminal = direct(&world, &options, "trap 'echo told' INT; echo re\"\"ady; sleep 1; echo af\"\"ter");
        terminal.expect("ready\r\n");
        kill(Pid::from_raw(terminal.pid()), Signal::SIGINT).unwrap();
        terminal.expect("told\r\nafter\r\n");
        terminal.done();
    }
}
