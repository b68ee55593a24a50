//! Walls of the kernel around a command in a container, and how many of its things there may be: calls by other tables,
//! terminals, descriptors, children.

use std::collections::BTreeSet;

use super::{IMAGE, Place};
use crate::descriptors::OPEN_MANY;
use crate::harness::{eventually, processes, processes_with, program, skip};
use crate::probe::image;
use crate::pty::Terminal;
use crate::seccomp::FOREIGN;
use crate::terminal::INJECT;

#[test]
fn other_tables_of_call_numbers_are_closed() {
    if cfg!(not(target_arch = "x86_64")) {
        return skip("x86_64", "the machine code of this test is of x86_64");
    }
    for (_, place) in Place::both() {
        let image = image(&place);
        let script = |word: &str| FOREIGN.replace("sys.argv[1]", &format!("'{word}'"));
        let inside = |word: &str| {
            let words = ["-r", "/usr", "--", "/usr/bin/python3", "-c", &script(word)];
            place.run_image(&image, &words).done()
        };
        // getpid, ioctl by its x32 number, keyctl, unshare.
        for number in ["39", "514", "250", "272"] {
            inside(number).is(0, "-1 ENOSYS\n", "");
        }
        for word in ["getpid", "mount", "unshare"] {
            inside(word).is(128 + libc::SIGSYS, "", "");
        }
        let outside = place.call(&["python3", "-c", &script("getpid")]).done();
        if outside.code != Some(0) || outside.out() != "True\n" {
            skip("ia32", "this kernel takes no i386 calls, with or without the filter");
        }
        assert_eq!(place.left(), [""; 0]);
    }
}

#[test]
fn nothing_can_be_typed_for_the_user() {
    let legacy = std::fs::read_to_string("/proc/sys/dev/tty/legacy_tiocsti").unwrap_or_else(|_| "1".into());
    for (user, place) in Place::both() {
        let image = image(&place);
        place.world.write("w/inject", INJECT);
        let attempt = |words: &[&str]| {
            let script = "\"$@\" inject; echo RE\"\"ADY; read line; echo \"line=<$line>\"";
            let words = [&["sh", "-c", script, "_"], words, &["/usr/bin/python3"]].concat();
            let mut terminal = Terminal::start(place.call(&words));
            terminal.expect("READY");
            terminal.keys("typed\r");
            terminal.expect("line=<");
            terminal.expect(">");
            terminal.done().1
        };
        let program = program();
        let text = attempt(&[program.to_str().unwrap(), "-b", "podman", "--image", &image, "-r", "/usr", "--"]);
        assert!(text.contains("answers 0x5412:EPERM 0x541c:EPERM\r\n"), "{user}\n{text}");
        assert!(text.contains("line=<typed>"), "the user's own line is the first\n{text}");
        assert!(text.contains("tty ENXIO"), "{text}");
        // The control: outside the kernel takes it, unless it is one that forbids it to all but root, with another error.
        let text = attempt(&[]);
        if user == 0 || legacy.trim() == "1" {
            assert!(text.contains("0x5412:done") && text.contains("line=<x>"), "{user}\n{text}");
        } else {
            assert!(text.contains("0x5412:EIO"), "{text}");
        }
        assert_eq!(place.left(), [""; 0]);
    }
}

#[test]
fn twenty_thousand_open_descriptors_do_no_harm() {
    for (_, place) in Place::both() {
        let program = program();
        let crowd = |words: &[&str]| place.call(&[&["python3", "-c", OPEN_MANY], words].concat()).done();
        let open = crowd(&["/bin/sh", "-c", "ls /proc/self/fd | wc -l"]).out();
        assert!(open.trim().parse::<u32>().unwrap() > 900, "control: many are open outside, {open}");
        let run = |words: &[&str]| {
            crowd(&[&[program.to_str().unwrap(), "-b", "podman", "--image", IMAGE, "--"], words].concat())
        };
        run(&["sh", "-c", "ls /proc/self/fd | wc -l; exit 3"]).is(3, "4\n", "");
        run(&["no-such-command"]).refused(127, &["'no-such-command'"]);
        assert_eq!(place.left(), [""; 0]);
    }
}

#[test]
fn too_few_descriptors_are_a_refusal() {
    for (user, place) in Place::both() {
        let program = program();
        let run = |limit: u32, script: &str| {
            let under = format!("ulimit -n {limit} && exec \"$@\"");
            let words = ["sh", "-c", &under, "_", program.to_str().unwrap(), "-b", "podman", "--image", IMAGE, "--"];
            place.call(&[&words[..], &["sh", "-c", script]].concat()).done()
        };
        for limit in [4, 6, 8, 10, 12, 14, 16, 18, 20, 24, 32, 64, 256] {
            let done = run(limit, "exit 3");
            if done.code != Some(3) {
                done.refused(125, &[]);
            }
            assert_eq!(place.left(), [""; 0], "{user}: {limit}");
        }
        run(8, "exit 3").refused(125, &["too many open files"]);
        // As many as the settings of the engine have in the place: it cannot give the command more than it has itself.
        run(1024, "ulimit -n; exit 3").is(3, "1024\n", "");
    }
}

/// The target's orphans fall to process 1, which is ours and has to take them in.
#[test]
fn no_zombie_is_left_while_it_runs() {
    for (user, place) in Place::both() {
        let world = &place.world;
        let script = "i=0; while [ $i -lt 300 ]; do (: & :) & i=$((i+1)); [ $((i % 50)) != 0 ] || wait; done; wait; \
            echo done >done; while [ ! -e go ]; do sleep 0.05; done";
        let mark = format!("mark-{}-{user}.", std::process::id());
        let running = place.run(&["-w", ".", "--", "sh", "-c", script, &mark]).spawn();
        assert!(eventually(|| world.has("w/done")), "hundreds of children");
        // The command and process 1, which has started it, come of the engine and not of the caller.
        let all = processes();
        let commands = processes_with(&mark);
        let above: Vec<_> = all.iter().filter(|one| commands.contains(&one.pid)).map(|one| one.parent).collect();
        let own = std::process::id().cast_signed();
        let roots: BTreeSet<_> = commands.into_iter().chain(above).filter(|pid| ![0, 1, own].contains(pid)).collect();
        assert!(roots.len() >= 3, "control: sandbox-run, the command, process 1: {roots:?}");
        let zombies = || {
            let all = processes();
            let mut family = roots.clone();
            while all.iter().any(|process| family.contains(&process.parent) && family.insert(process.pid)) {}
            all.into_iter().filter(|process| process.state == 'Z' && family.contains(&process.pid)).count()
        };
        // The loop's own sleep is one for a moment.
        assert!(eventually(|| zombies() == 0), "{} zombies", zombies());
        world.write("w/go", "");
        running.done().is(0, "", "");
        assert_eq!(place.left(), [""; 0]);
    }
}
