//! Resource limits of the command's processes: exactly what was asked for, set inside, never above the caller's own.

use std::fs;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::json;

use crate::harness::{World, backends, find, open_proc, skip};
use crate::result::{self, object};

fn with(backend: &[&str], options: &[&str]) -> Vec<String> {
    backend.iter().chain(options).map(ToString::to_string).collect()
}

/// Soft and hard of each limit that differs from the caller's.
const LIST: &str = "grep -E 'cpu time|file size|core|open files|address space' /proc/self/limits | sed 's/  */ /g'";

#[test]
fn they_are_what_was_asked_for_and_cannot_be_raised() {
    for backend in backends() {
        let world = World::new();
        let options = with(
            &open_proc(backend),
            &[
                "--max-open-files",
                "64",
                "--address-space",
                "4G",
                "--core",
                "0",
                "--max-file-size",
                "1G",
                "--cpu-time",
                "9",
            ],
        );
        world.sh(&options, LIST).done().is(
            0,
            "Max cpu time 9 10 seconds \nMax file size 1073741824 1073741824 bytes \nMax core file size 0 0 bytes \n\
             Max open files 64 64 files \nMax address space 4294967296 4294967296 bytes \n",
            "",
        );
        world.sh(&options, "ulimit -n 128 && echo raised").done().stdout("").stderr_has("error setting limit");
        world.sh(&options, "ulimit -n 32 && ulimit -n").done().is(0, "32\n", "");
    }
}

#[test]
fn without_options_they_are_the_callers() {
    let world = World::new();
    let outside = world.call("sh", ["-c", LIST]).done().code(0).out();
    for backend in backends() {
        world.sh(open_proc(backend), LIST).done().is(0, &outside, "");
    }
}

#[test]
fn a_lower_limit_of_the_caller_stays() {
    for backend in backends() {
        let world = World::new();
        let call = world.sh(with(&backend, &["--max-open-files", "640"]), "ulimit -Sn; ulimit -Hn");
        let call = call.before_exec(|| Ok(setrlimit(Resource::RLIMIT_NOFILE, 400, 500)?));
        call.done().is(0, "500\n500\n", "");
    }
}

#[test]
fn too_small_for_a_start_is_refused_with_the_least() {
    let world = World::new();
    for (option, value, least) in [
        ("--max-open-files", "2", "16"),
        ("--address-space", "1M", "16M"),
        ("--memory", "1M", "16M"),
        ("--max-procs", "0", "1"),
        ("--cpu-time", "0", "one second"),
    ] {
        world.run([option, value, "--", "touch", "f"]).done().refused(125, &[option, value, least]);
    }
    // The least is enough.
    for backend in backends() {
        let options = ["--max-open-files", "16", "--address-space", "16M", "--cpu-time", "1"];
        world.run([with(&backend, &options), vec!["true".into()]].concat()).done().is(0, "", "");
    }
}

#[test]
fn a_file_ends_at_its_size() {
    for (backend, more) in backends().zip([&["-w", "."][..], &[], &["-w", "."], &["-w", "."]]) {
        let world = World::new();
        let mut options = with(&backend, &["--max-file-size", "1M"]);
        options.extend(more.iter().map(ToString::to_string));
        let dd = |count: &str| {
            vec!["dd".into(), "if=/dev/zero".into(), "of=f".into(), "bs=64k".into(), format!("count={count}")]
        };
        world.run([options.clone(), dd("64")].concat()).done().code(153);
        assert_eq!(fs::metadata(world.path("w/f")).expect("file").len(), 1 << 20);
        world.run([options.clone(), dd("8")].concat()).done().code(0);
        assert_eq!(fs::metadata(world.path("w/f")).expect("file").len(), 512 << 10);
        // Who ignores the signal sees an error.
        let python = "import errno\ntry:\n f = open('g', 'wb', 0)\n while True: f.write(b'x' * 65536)\nexcept OSError as e: print(e.errno == errno.EFBIG)";
        if find("python3").is_some() {
            world
                .run([options.clone(), vec!["python3".into(), "-c".into(), python.into()]].concat())
                .done()
                .is(0, "True\n", "");
        } else {
            skip("python3", "not installed");
        }
        // Pipes are not files.
        let done = world.sh(&options, "head -c 5M /dev/zero").done().code(0);
        assert_eq!(done.stdout.len(), 5 << 20);
    }
}

#[test]
fn a_file_of_the_sandbox_itself_is_one_too() {
    let world = World::new();
    world.sh(["--max-file-size", "1M"], "head -c 5M /dev/zero > /tmp/f; stat -c %s /tmp/f").done().stdout("1048576\n");
    world.sh(["--max-file-size", "8M"], "head -c 5M /dev/zero > /tmp/f; stat -c %s /tmp/f").done().stdout("5242880\n");
}

#[test]
fn processor_time_ends_with_a_signal_that_says_why() {
    for backend in backends() {
        let world = World::new();
        world.sh(with(&backend, &["--cpu-time", "1"]), "while :; do :; done").done().code(152);
        // One that ignores it has another second.
        world.sh(with(&backend, &["--cpu-time", "1"]), "trap '' XCPU; while :; do :; done").done().code(137);
        world.sh(with(&backend, &["--cpu-time", "1"]), "sleep 1.5; exit 2").done().is(2, "", "");
    }
}

#[test]
fn a_program_that_needs_more_address_space_fails_by_itself() {
    for backend in backends() {
        let world = World::new();
        let script = "head -c 200000000 /dev/zero | tail -n 1 | wc -c";
        world.sh(with(&backend, &["--address-space", "100M"]), script).done().stderr_has("memory exhausted");
        world.sh(with(&backend, &["--address-space", "2G"]), script).done().is(0, "200000000\n", "");
    }
}

#[test]
fn no_core_file_of_size_zero() {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.starts_with('|') || pattern.contains('/') {
        skip("core", "the kernel writes core files elsewhere");
        return;
    }
    if getrlimit(Resource::RLIMIT_CORE).is_ok_and(|(_, hard)| hard < 64 << 20) {
        skip("core", "the caller allows no core files");
        return;
    }
    let world = World::new();
    let cores = || {
        let names = fs::read_dir(world.path("w")).expect("directory").map(|entry| entry.expect("entry").file_name());
        names.filter(|name| name.to_string_lossy().starts_with("core")).count()
    };
    world.sh(["-w", ".", "--core", "0"], "kill -SEGV $$").done().code(139);
    assert_eq!(cores(), 0);
    world.sh(["-w", ".", "--core", "64M"], "kill -SEGV $$").done().code(139);
    assert_eq!(cores(), 1, "the control");
}

#[test]
fn floods_of_the_private_directories_end_at_their_size() {
    let world = World::new();
    for place in ["/tmp", "/dev/shm", "$HOME"] {
        let script = format!("head -c 40M /dev/zero > {place}/f; stat -c %s {place}/f");
        world.sh(["--tmp-size", "16M"], &script).done().stdout("16777216\n").stderr_has("No space left");
        world.sh(["--tmp-size", "64M"], &script).done().is(0, "41943040\n", "");
    }
}

#[test]
fn a_hog_of_descriptors_fails_by_itself() {
    let world = World::new();
    let script = "i=3; while [ $i -lt 60 ]; do eval \"exec $i</dev/null\" || exit 9; i=$((i+1)); done; echo all";
    let bash = |options: &[&str]| {
        let words = [options, &["--", "bash", "-c", script]].concat();
        world.run(words).done()
    };
    bash(&["--max-open-files", "32"]).stdout_lacks("all").stderr_has("Too many open files");
    bash(&["--max-open-files", "80"]).is(0, "all\n", "");
}

#[test]
fn a_command_that_catches_the_signal_has_reached_the_limit_all_the_same() {
    let busy = "while :; do :; done";
    for backend in backends() {
        let world = World::new();
        let file = world.text("o/r");
        for (script, status, told) in [
            (format!("trap 'exit 3' XCPU; {busy}"), 3, json!(["exited", 3, null, "cpu-limit"])),
            (format!("trap 'exit 0' XCPU; {busy}"), 0, json!(["exited", 0, null, null])),
            (format!("trap '' XCPU; {busy}"), 137, json!(["signaled", null, 9, "cpu-limit"])),
            (busy.to_owned(), 152, json!(["signaled", null, 24, "cpu-limit"])),
        ] {
            world.sh(with(&backend, &["--cpu-time", "1", "--result", &file]), &script).done().code(status);
            let object = object(&world, "o/r");
            assert_eq!((result::told(&object), &object["limits_hit"]), (told, &json!(["cpu-limit"])), "{script}");
        }
        // The controls: less than the limit, however it ends.
        for (script, status) in
            [("exit 3", 3), ("kill -KILL $$", 137), ("kill -XCPU $$", 152), ("ulimit -S -t 2; exit 3", 3)]
        {
            world.sh(with(&backend, &["--cpu-time", "1", "--result", &file]), script).done().code(status);
            assert_eq!(object(&world, "o/r")["limits_hit"], json!([]), "{script}");
        }
    }
}

/// The status alone does not say it: others send such signals, too.
#[test]
fn a_limit_that_ends_the_command_by_a_signal_is_told() {
    const CPU: &str = "sandbox-run: warning: the command was ended: its processor time is over (--cpu-time)\n";
    const FILE: &str = "sandbox-run: warning: the command was ended: a file became too large (--max-file-size)\n";
    let world = World::new();
    for backend in backends() {
        // The options silence what is looked for, but not the name of the backend.
        let loud = &backend[1..];
        let call = |options: &[&str], script: &str| {
            world.sh([loud, &["-w", ".", "--allow-gap", GAPS], options].concat(), script).done()
        };
        let busy = "while :; do :; done";
        call(&["--cpu-time", "1"], busy).code(152).stderr_has(CPU);
        call(&["--cpu-time", "1"], &format!("trap '' XCPU; {busy}")).code(137).stderr_has(CPU);
        call(&["--max-file-size", "1M"], "exec head -c 2M /dev/zero >f").code(153).stderr_has(FILE);
        // One line, and none of it where nobody wants to hear.
        let quiet = [loud, &["-q", "--allow-gap", GAPS, "--cpu-time", "1"]].concat();
        world.sh(quiet, busy).done().code(152).stderr("");
        // The controls: the same signals from elsewhere, and limits that were not reached, or not by the command.
        for (script, status) in [("kill -XCPU $$", 152), ("kill -KILL $$", 137), ("kill -TERM $$", 143), ("exit 3", 3)]
        {
            call(&["--cpu-time", "1", "--max-file-size", "1M"], script).code(status).stderr_lacks("was ended");
        }
        call(&[], "kill -XFSZ $$").code(153).stderr_lacks("was ended");
        call(&["--max-file-size", "1M"], "head -c 2M /dev/zero >f; exit 3").code(3).stderr_lacks("was ended");
    }
}

/// What a write grant asks of a backend that has no view.
const GAPS: &str = "files-read,files-write";
