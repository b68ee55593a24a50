//! The limit on output: exactly the first bytes pass, nothing deadlocks, nothing is held in memory.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use serde_json::json;

use crate::harness::{BACKENDS, World, backends, processes_with};

const MIB: usize = 1 << 20;

fn with(backend: [&str; 3], options: &[&str]) -> Vec<String> {
    // Warnings are part of what is tested here.
    backend[1..].iter().chain(options).map(ToString::to_string).collect()
}

/// Standard error without the words of `none` about itself.
fn notices(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| !line.contains("backend 'none'")).collect()
}

const NOTICE: &str = "sandbox-run: warning: output is cut: 1048576 bytes are passed on (--max-output)";

#[test]
fn exactly_the_first_bytes_pass() {
    for backend in backends() {
        let world = World::new();
        let script = "i=0; while [ $i -lt 200000 ]; do echo line $i of many; i=$((i+1)); done; exit 3";
        let whole = world.sh(with(backend, &[]), script).done().code(3).stdout;
        let done = world.sh(with(backend, &["--max-output", "1M"]), script).done().code(3);
        assert!(whole.len() > MIB && done.stdout == whole[..MIB], "{} bytes", done.stdout.len());
        assert_eq!(notices(&done.stderr), [NOTICE]);
    }
}

#[test]
fn what_fits_is_whole_and_nobody_speaks_of_it() {
    for backend in backends() {
        let world = World::new();
        for (size, cut) in [(0, false), (99, false), (100, false), (101, true), (5000, true)] {
            let script = format!("head -c {size} /dev/zero | tr '\\0' x");
            let done = world.sh(with(backend, &["--max-output", "100"]), &script).done().code(0);
            assert_eq!(done.out(), "x".repeat(size.min(100)), "{size}");
            assert_eq!(notices(&done.stderr).len(), usize::from(cut), "{size}: {}", done.stderr);
        }
        let done = world.sh(with(backend, &["--max-output", "0"]), "echo x; echo y >&2; exit 2").done().code(2);
        assert_eq!(done.out(), "");
        assert_eq!(notices(&done.stderr).len(), 1);
    }
}

#[test]
fn both_streams_at_once_count_together() {
    for backend in backends() {
        let world = World::new();
        let script = "head -c 5M /dev/zero & head -c 5M /dev/zero >&2; wait; exit 4";
        let done = world.sh(with(backend, &["--max-output", "1M"]), script).done().code(4);
        let err = done.stderr.bytes().filter(|byte| *byte == 0).count();
        assert_eq!(done.stdout.len() + err, MIB);
        assert!(done.stderr.trim_matches('\0').ends_with(&format!("{NOTICE}\n")), "the notice comes last");
        // The control: all of it.
        let done = world.sh(with(backend, &[]), script).done().code(4);
        assert_eq!(done.stdout.len(), 5 * MIB);
    }
}

#[test]
fn the_run_can_end_there() {
    for backend in backends() {
        for script in ["exec yes", "trap '' TERM; yes; yes", "yes & yes >&2"] {
            let world = World::new();
            let options = ["--max-output", "1M", "--output-overflow", "kill", "--kill-after", "0.3", "--timeout", "40"];
            let done = world.sh(with(backend, &options), script).done().code(124);
            let said = notices(&done.stderr).into_iter().filter(|line| *line == "y").count() * 2;
            assert_eq!(done.stdout.len() + said, MIB, "{script}");
            assert!(done.took < Duration::from_secs(20), "{:?}", done.took);
        }
        let world = World::new();
        let options = ["--max-output", "1M", "--output-overflow", "kill"];
        world.sh(with(backend, &options), "head -c 1M /dev/zero; exit 5").done().code(5);
    }
}

#[test]
fn the_reader_may_be_slow() {
    for backend in backends() {
        let world = World::new();
        let (reader, writer) = std::io::pipe().expect("pipe");
        let running = world.sh(with(backend, &["--max-output", "1M"]), "head -c 300K /dev/zero").stdout(writer).spawn();
        std::thread::sleep(Duration::from_millis(300));
        let mut all = Vec::new();
        { reader }.read_to_end(&mut all).expect("readable");
        running.done().code(0);
        assert_eq!(all.len(), 300 << 10);
    }
}

#[test]
fn a_reader_that_leaves_ends_a_writer_as_without_us() {
    for backend in backends() {
        for options in [&[][..], &["--max-output", "1G"]] {
            let world = World::new();
            let (reader, writer) = std::io::pipe().expect("pipe");
            let running = world.run([with(backend, options), vec!["yes".into()]].concat()).stdout(writer).spawn();
            let mut some = [0; 4];
            (&reader).read_exact(&mut some).expect("readable");
            drop(reader);
            running.done().code(141);
        }
    }
}

#[test]
fn a_writer_that_is_silent_meanwhile_is_left_alone() {
    let world = World::new();
    let (reader, writer) = std::io::pipe().expect("pipe");
    drop(reader);
    let done = world.sh(["--max-output", "1M"], "sleep 0.5; exit 7").stdout(writer).done();
    done.code(7);
}

#[test]
fn the_first_line_arrives_before_the_second_is_made() {
    let world = World::new();
    let (reader, writer) = std::io::pipe().expect("pipe");
    let running = world
        .sh(["--max-output", "1M", "-w", "."], "echo a; until [ -e go ]; do sleep 0.02; done; echo b")
        .stdout(writer);
    let running = running.spawn();
    let mut first = [0; 2];
    (&reader).read_exact(&mut first).expect("readable");
    world.write("w/go", "");
    let mut rest = String::new();
    { reader }.read_to_string(&mut rest).expect("readable");
    running.done().code(0);
    assert_eq!((&first, rest.as_str()), (b"a\n", "b\n"));
}

#[test]
fn order_is_kept_where_both_streams_are_one() {
    let world = World::new();
    let script = "for i in 1 2 3 4 5 6 7 8 9; do echo o$i; echo e$i >&2; done";
    let expected = (1..10).fold(String::new(), |all, i| all + &format!("o{i}\ne{i}\n"));
    let (mut reader, writer) = std::io::pipe().expect("pipe");
    let stderr = writer.try_clone().expect("pipe");
    let running = world.sh(["--max-output", "1M"], script).stdout(writer).stderr(stderr).spawn();
    let mut all = String::new();
    reader.read_to_string(&mut all).expect("readable");
    running.done().code(0);
    assert_eq!(all, expected);
}

#[test]
fn a_file_is_appended_to_and_a_full_device_is_an_error_for_the_writer() {
    let world = World::new();
    let file = world.write("o/log", "before\n");
    let append = File::options().append(true).open(&file).expect("file");
    world.sh(["--max-output", "6"], "printf 123456789").stdout(append).done().code(0);
    assert_eq!(world.read("o/log"), "before\n123456");
    let full = File::options().write(true).custom_flags(libc::O_NOCTTY).open("/dev/full").expect("device");
    let done = world.run(["--max-output", "1G", "--", "yes"]).stdout(full).done();
    done.code(141).stderr_has("cannot pass standard output on: no space left on device");
}

#[test]
fn without_a_limit_the_streams_are_the_callers_own() {
    for backend in backends() {
        let world = World::new();
        let file = File::create(world.path("o/out")).expect("file");
        world.sh(with(backend, &[]), "readlink /proc/self/fd/1").stdout(file).done().code(0);
        assert_eq!(world.read("o/out").trim_end(), world.text("o/out"));
        // The control: with one it is a pipe.
        let file = File::create(world.path("o/out")).expect("file");
        world.sh(with(backend, &["--max-output", "1M"]), "readlink /proc/self/fd/1").stdout(file).done().code(0);
        assert!(world.read("o/out").starts_with("pipe:["), "{}", world.read("o/out"));
    }
}

#[test]
fn memory_is_flat_however_much_passes() {
    let world = World::new();
    let null = File::options().write(true).open("/dev/null").expect("device");
    let (mut reader, writer) = std::io::pipe().expect("pipe");
    let swallow = std::thread::spawn(move || std::io::copy(&mut reader, &mut &null).expect("readable"));
    let running = world.sh(["--max-output", "20G"], "head -c 2G /dev/zero").stdout(writer).spawn();
    let status = || fs::read_to_string(format!("/proc/{}/status", running.pid())).unwrap_or_default();
    let mut most = 0;
    while let Some(line) = status().lines().find(|line| line.starts_with("VmHWM:")) {
        let kib: u64 = line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("number");
        most = most.max(kib);
        std::thread::sleep(Duration::from_millis(5));
    }
    running.done().code(0);
    assert_eq!(swallow.join().expect("reader"), 2 << 30);
    assert!(most > 0 && most < 40 << 10, "{most} KiB");
}

#[test]
fn nothing_is_waited_for_that_outlives_the_command() {
    let world = World::new();
    let options = with(BACKENDS[1], &["--max-output", "1M"]);
    let done = world.sh(options, "sleep 4999.5 & echo hi").done().code(0).stdout("hi\n");
    for pid in processes_with("sleep 4999.5") {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).expect("signal");
    }
    assert!(done.took < Duration::from_secs(10), "{:?}", done.took);
}

#[test]
fn a_full_disk_is_the_commands_affair_unless_there_is_a_limit() {
    let world = World::new();
    // A file size limit of the caller fails a write as a full disk does, and needs no file system of its own.
    let bounded = |options: &[&str]| {
        let file = File::create(world.path("o/out")).expect("file");
        let call = world.sh(options, "trap '' XFSZ; head -c 300000 /dev/zero; echo status $? >&2").stdout(file);
        let limit = nix::sys::resource::Resource::RLIMIT_FSIZE;
        let done = call.before_exec(move || Ok(nix::sys::resource::setrlimit(limit, 65_536, 65_536)?)).done().code(0);
        assert_eq!(fs::metadata(world.path("o/out")).expect("file").len(), 65_536);
        done
    };
    bounded(&[]).stderr_has("status 1");
    let result = world.text("o/result");
    bounded(&["--result", &result]).stderr_has("status 1");
    assert!(world.read("o/result").contains("\"stdout_bytes\":65536,"), "{}", world.read("o/result"));
    let done = bounded(&["--max-output", "1G", "--result", &result]);
    done.stderr_has("cannot pass standard output on: file too large").stderr_lacks("status 0");
    assert!(world.read("o/result").contains("\"truncated\":true"), "{}", world.read("o/result"));
}

#[test]
fn nobody_outside_who_was_given_the_output_is_waited_for() {
    let world = World::new();
    let script = "import array, socket, sys\n\
        s = socket.socket(socket.AF_UNIX); s.connect('s')\n\
        s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1]))])\n\
        print('hi', flush=True); sys.exit(3)";
    let result = world.text("o/r");
    // What is sent waits here for ever, and with it the write end of the command's output.
    let _holder = std::os::unix::net::UnixListener::bind(world.path("w/s")).expect("socket");
    for options in [
        &["--max-output", "1M", "--result", &result][..],
        &["--result", &result],
        &["--capture", "--result", &result],
        &["--timeout", "20", "--result", &result],
        &["--max-output", "10", "--output-overflow", "kill", "--result", &result],
    ] {
        let words = [&["-b", "bwrap", "-w", "."], options, &["/usr/bin/python3", "-c", script]].concat();
        let done = world.run(words).done().code(3).stderr("");
        assert!(done.took < Duration::from_secs(15), "{options:?}: {:?}", done.took);
        let object = crate::result::object(&world, "o/r");
        let told = json!([object["status"], object["stdout_bytes"], object["truncated"], object["limits_hit"]]);
        assert_eq!(told, json!(["exited", 3, false, []]), "{options:?}");
        done.stdout(if options.contains(&"--capture") { "" } else { "hi\n" });
    }
}

#[test]
fn what_is_lost_is_no_limit_that_was_reached() {
    for backend in backends() {
        let world = World::new();
        let result = world.text("o/r");
        let told = |options: &[&str], script: &str, to: File| {
            world.sh(with(backend, &[options, &["--result", &result]].concat()), script).stdout(to).done();
            let object = crate::result::object(&world, "o/r");
            json!([object["truncated"], object["limits_hit"]])
        };
        let full = || File::options().write(true).open("/dev/full").expect("device");
        let file = || File::create(world.path("o/out")).expect("file");
        assert_eq!(told(&["--max-output", "1M"], "echo hi", full()), json!([true, []]));
        let both = ["--max-output", "10000", "--max-file-size", "500"];
        assert_eq!(told(&both, "head -c 3000 /dev/zero", file()), json!([true, ["file-size-limit"]]));
        // The controls: a limit that was reached, and nothing lost.
        assert_eq!(told(&["--max-output", "10"], "echo 0123456789", file()), json!([true, ["output-limit"]]));
        assert_eq!(told(&["--max-output", "11"], "echo 0123456789", file()), json!([false, []]));
    }
}

#[test]
fn in_a_file_its_position_is_what_counts() {
    for backend in backends() {
        let world = World::new();
        let result = world.text("o/r");
        let script = "import os; os.write(1, b'abc'); os.lseek(1, 1000, 0)";
        let words = [&backend[..], &["--result", &result, "/usr/bin/python3", "-c", script]].concat();
        world.run(words).stdout(File::create(world.path("o/out")).expect("file")).done().code(0);
        assert_eq!(crate::result::object(&world, "o/r")["stdout_bytes"], json!(1000));
    }
}
