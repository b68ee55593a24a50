//! Standard input, output and error are the command's own; no other descriptor crosses unless it is named.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::RawFd;
use std::time::Duration;

use crate::harness::{Call, World, backends, eventually, has_view, is_root, open_proc, program};

/// Prints the numbers of the shell's open descriptors. Those that listing them takes are closed again when it looks.
const LIST: &str = "for fd in $(ls /proc/$$/fd | sort -n); do [ -e /proc/$$/fd/$fd ] && printf '%s ' $fd; done; echo";

/// All that comes out of the pipe. It ends only when nobody holds the other end any more.
fn all_of(mut pipe: std::io::PipeReader) -> String {
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).expect("read");
        text
    });
    assert!(eventually(|| reading.is_finished()), "somebody still holds the other end");
    reading.join().expect("reader")
}

fn open(world: &World, name: &str) -> File {
    File::open(world.path(name)).expect("file")
}

#[test]
fn no_other_descriptor_crosses() {
    let world = World::new();
    world.write("w/list", LIST);
    let call = |call: Call| {
        let written = File::create(world.path("o/w")).expect("file");
        let mut call = call.fd(open(&world, "o/secret"), 7).fd(written, 251);
        if is_root() {
            call = call.fd(File::open("/etc/shadow").expect("shadow"), 8);
        }
        call.done()
    };
    let outside = call(world.call("sh", ["-c", "ls /proc/self/fd"])).code(0).out();
    for number in ["7", "251"].into_iter().chain(is_root().then_some("8")) {
        assert!(outside.lines().any(|line| line == number), "control: {number} is open outside\n{outside}");
    }
    for backend in backends() {
        call(world.sh(backend, LIST)).is(0, "0 1 2 \n", "");
        // What is only marked to be closed at exec would be open in between.
        call(world.sh(backend, "exec env sh -c \"$(cat ./list)\"")).is(0, "0 1 2 \n", "");
    }
}

#[test]
fn what_is_behind_a_descriptor_is_out_of_reach() {
    let world = World::new();
    let directory = || open(&world, "o");
    let written = || File::create(world.path("o/w")).expect("file");
    for backend in backends() {
        let run = |options: &[&str], words: &[&str]| world.run([&backend[..], options, &["--"], words].concat());
        let read = ["cat", "/proc/self/fd/7/secret"];
        run(&[], &read).fd(directory(), 7).done().code(1).stdout("").stderr_has("No such file or directory");
        run(&["--keep-fd", "7"], &read).fd(directory(), 7).done().is(0, "s3cret", "");

        let write = ["sh", "-c", "echo x >&9"];
        run(&[], &write).fd(written(), 9).done().code(2).stdout("").stderr_has("Bad file descriptor");
        assert_eq!(world.read("o/w"), "");
        run(&["--keep-fd", "9"], &write).fd(written(), 9).done().is(0, "", "");
        assert_eq!(world.read("o/w"), "x\n");
    }
}

#[test]
fn the_process_that_waits_inside_shows_nothing() {
    let world = World::new();
    // As root its descriptors can be counted; what they are stays closed to everybody.
    let script = "cat /proc/self/fd/7 /proc/self/environ >/dev/null && echo mine
        cat /proc/1/fd/0; cat /proc/1/environ; cat /proc/1/maps; cat /proc/1/mem; ls /proc/1/cwd/; true";
    let done = world.sh(["--keep-fd", "7"], script).fd(open(&world, "o/secret"), 7).done().code(0).stdout("mine\n");
    assert_eq!(done.stderr.matches("Permission denied").count(), 5, "{}", done.stderr);
}

#[test]
fn a_named_descriptor_crosses_as_it_is() {
    let world = World::new();
    world.write("o/five", "0123456789");
    let five = || {
        let mut file = File::options().read(true).append(true).open(world.path("o/five")).expect("file");
        file.seek(SeekFrom::Start(4)).expect("seek");
        file
    };
    let state = "head -n 2 /proc/self/fdinfo/5";
    let outside = world.call("sh", ["-c", state]).fd(five(), 5).done().code(0).out();
    assert!(outside.contains("pos:\t4\n"), "control: {outside}");
    for backend in backends() {
        let run = |options: &[&str], script: &str| {
            let options = [&open_proc(backend)[..], options].concat();
            world.sh(options, script).fd(five(), 5).fd(open(&world, "o/secret"), 6).done()
        };
        run(&["--keep-fd", "5"], LIST).is(0, "0 1 2 5 \n", "");
        run(&["--keep-fd", "6"], LIST).is(0, "0 1 2 6 \n", "");
        run(&["--keep-fd=6", "--keep-fd=5", "--keep-fd=5"], LIST).is(0, "0 1 2 5 6 \n", "");
        run(&["--keep-fd", "5"], state).is(0, &outside, "");
        run(&["--keep-fd", "5"], "exec cat <&5").is(0, "456789", "");
    }
}

#[test]
fn closing_a_kept_descriptor_closes_it_for_good() {
    let world = World::new();
    for backend in backends() {
        let (reader, writer) = std::io::pipe().expect("pipe");
        let (stop, stopper) = std::io::pipe().expect("pipe");
        let options = [&backend[..], &["--keep-fd", "5"]].concat();
        let running =
            world.sh(options, "echo ready >&5; exec 5>&-; read -r line; exit 7").fd(writer, 5).stdin_from(stop);
        let running = running.spawn();
        assert_eq!(all_of(reader), "ready\n");
        // The command is still there: it ends only now.
        drop(stopper);
        running.done().is(7, "", "");
    }
}

#[test]
fn every_number_can_be_kept() {
    let world = World::new();
    // Low numbers are those that a launcher uses itself.
    let numbers: Vec<RawFd> = (3..=16).chain([99, 255]).collect();
    let names: Vec<String> = numbers.iter().map(|number| format!("{number}:")).collect();
    for (number, name) in numbers.iter().zip(&names) {
        world.write(&format!("o/{number}"), name);
    }
    for backend in backends() {
        let mut words: Vec<String> = backend.map(str::to_owned).to_vec();
        words.extend(numbers.iter().map(|number| format!("--keep-fd={number}")));
        words.extend(["--", "python3", "-c"].map(str::to_owned));
        words.push(format!("import os\nfor fd in {numbers:?}: print(os.read(fd, 9).decode(), end='')"));
        let mut call = world.run(words);
        for number in &numbers {
            call = call.fd(open(&world, &format!("o/{number}")), *number);
        }
        call.done().is(0, &names.concat(), "");
    }
}

#[test]
fn a_descriptor_that_cannot_be_kept_is_refused() {
    let world = World::new();
    let before = world.snapshot();
    for number in ["5", "x", "-1", "", "0", "1", "2", "+3", "3x", "99999999999"] {
        let option = format!("--keep-fd={number}");
        world.run([&option, "-w", ".", "--", "touch", "x"]).done().refused(125, &["--keep-fd", number]);
    }
    assert_eq!(world.snapshot(), before);
    world.run(["--keep-fd=5", "-w", ".", "touch", "x"]).fd(open(&world, "o/secret"), 5).done().is(0, "", "");
    assert!(world.has("w/x"), "control: an open one");
}

#[test]
fn closed_streams_stay_closed() {
    let world = World::new();
    // The status holds what is open, since nothing can be printed in every case.
    let script = "status=64; [ -e /proc/self/fd/0 ] && status=$((status + 1))
        [ -e /proc/self/fd/1 ] && status=$((status + 2)); [ -e /proc/self/fd/2 ] && status=$((status + 4))
        exit $status";
    for open in 0..8 {
        let closed: Vec<RawFd> = (0..3).filter(|stream| open & (1 << stream) == 0).collect();
        world.call("sh", ["-c", script]).closed(&closed).done().is(64 + open, "", "");
        for backend in backends() {
            world.sh(backend, script).closed(&closed).done().is(64 + open, "", "");
            world.run([&backend[..], &["no-such-command"]].concat()).closed(&closed).done().code(127);
        }
    }
}

#[test]
fn streams_are_the_callers_own_files() {
    let world = World::new();
    // Shared offsets, and no copy in between: a seek inside is seen outside.
    for backend in backends() {
        let mut input = open(&world, "o/secret");
        let mut output = File::options().read(true).write(true).create(true).truncate(true).open(world.path("o/out"));
        let output = output.as_mut().expect("file");
        output.write_all(b"0123456789").expect("write");
        output.seek(SeekFrom::Start(2)).expect("seek");
        let words = [&backend[..], &["--", "python3", "-c"]].concat();
        let code = "import os; os.lseek(0, 3, 0); os.write(1, b'ab')";
        world
            .run([&words[..], &[code]].concat())
            .stdin_from(input.try_clone().expect("clone"))
            .stdout(output.try_clone().expect("clone"))
            .done()
            .is(0, "", "");
        let mut rest = String::new();
        input.read_to_string(&mut rest).expect("read");
        assert_eq!(rest, "ret");
        assert_eq!(output.stream_position().expect("position"), 4);
        assert_eq!(world.read("o/out"), "01ab456789");
    }
}

#[test]
fn the_end_of_the_output_is_seen_when_the_command_closes_it() {
    let world = World::new();
    for backend in backends() {
        let (reader, writer) = std::io::pipe().expect("pipe");
        let (stop, stopper) = std::io::pipe().expect("pipe");
        let script = "echo early; exec >&-; read -r line; exit 7";
        let running = world.sh(backend, script).stdin_from(stop).stdout(writer).spawn();
        assert_eq!(all_of(reader), "early\n");
        // The command is still there: it ends only now.
        drop(stopper);
        running.done().is(7, "", "");
    }
}

#[test]
fn a_reader_that_leaves_ends_the_command() {
    let world = World::new();
    for backend in backends() {
        let (reader, writer) = std::io::pipe().expect("pipe");
        let running = world.run([&backend[..], &["--", "yes"]].concat()).stdout(writer).spawn();
        drop(reader);
        running.done().is(128 + 13, "", "");
    }
}

/// Opens descriptors until `count` are open or the limit is reached but for `spare`, then becomes a program.
pub const OPEN_MANY: &str = "
import os, resource, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
count = min(20000, hard - 64)
for _ in range(count):
    os.set_inheritable(os.dup(0), True)
os.execv(sys.argv[1], sys.argv[1:])
";

#[test]
fn twenty_thousand_open_descriptors_do_no_harm() {
    let world = World::new();
    let program = program();
    let program = program.to_str().expect("text");
    let crowd = |words: &[&str]| world.call("python3", [&["-c", OPEN_MANY, program], words].concat()).done();
    let open = world.call("python3", ["-c", OPEN_MANY, "/bin/sh", "-c", "ls /proc/self/fd | wc -l"]).done().out();
    assert!(open.trim().parse::<u32>().expect("a number") > 900, "control: many are open outside, {open}");
    for backend in backends() {
        let script = "ls /proc/self/fd | wc -l; exit 3";
        let done = crowd(&[&open_proc(backend)[..], &["--", "sh", "-c", script]].concat()).is(3, "4\n", "");
        assert!(done.took < Duration::from_secs(10), "{:?}", done.took);
        crowd(&[&open_proc(backend)[..], &["--", "no-such-command"]].concat()).refused(127, &["'no-such-command'"]);
    }
}

#[test]
fn too_few_descriptors_are_a_refusal() {
    let world = World::new();
    world.write("w/.git/config", "");
    world.write("w/sub/.env", "");
    let program = program();
    let program = program.to_str().expect("text");
    let result = world.text("o/result");
    for backend in backends() {
        let run = |limit: u32, options: &[&str]| {
            let under = format!("ulimit -n {limit} && exec \"$@\"");
            let command = ["--", "sh", "-c", "ulimit -n; exit 3"];
            world.call("sh", [&["-c", &under, "_", program], &backend[..], options, &command].concat()).done()
        };
        let more: &[&str] = if has_view(&backend) { &["-w", ".", "--mask", "sub"] } else { &[] };
        let more = [more, &["--result", &result, "--timeout", "60", "--max-output", "1K"]].concat();
        // Without a sandbox there is little to open.
        let last = if backend.contains(&"none") { 24 } else { 60 };
        for limit in 3..=last {
            let options = if limit % 2 == 0 { &more[..] } else { &[] };
            let done = run(limit, options);
            // With 3 the loader finds no room for our own libraries.
            if limit == 3 && done.code == Some(127) {
                done.stderr_has("error while loading shared libraries");
            } else if done.code == Some(3) {
                done.is(3, &format!("{limit}\n"), "");
            } else {
                let done = done.refused(125, &["too many open files"]);
                let hint = "hint: the limit on open files is too low";
                assert!(done.stderr.contains(hint) || !done.stderr.contains("cannot start"), "{}", done.stderr);
            }
        }
        run(8, &[]).code(125);
        run(40, &[]).is(3, "40\n", "");
        run(80, &more).is(3, "80\n", "");
    }
}

/// A recursive make of four jobs in `w/sub`. Each job waits until four run at once, or for a while.
fn jobs(world: &World, options: &str) -> String {
    let top = format!(
        "all:\n\t+'{}' {options} -w . -- $(MAKE) --no-print-directory -C sub WAIT=$(WAIT)\n",
        program().display()
    );
    let sub = "all: a b c d\na b c d:\n\t@touch running.$@; n=0; while [ $$(ls running.* | wc -l) -lt 4 ] && \
               [ $$n -lt $(WAIT) ]; do sleep 0.02; n=$$((n+1)); done; ls running.* | wc -l >>seen; sleep 0.1; \
               rm running.$@\n";
    world.write("w/Makefile", top);
    world.write("w/sub/Makefile", sub);
    let wait = if options.contains("jobserver") { "WAIT=1000" } else { "WAIT=5" };
    let make = world.call("make", ["-s", "-j4", wait]).done().is(0, "", "");
    assert!(make.took < Duration::from_secs(30), "{:?}", make.took);
    world.read("w/sub/seen")
}

#[test]
fn the_jobserver_of_make_crosses_when_it_is_asked_for() {
    for backend in backends() {
        let options = format!("{} --allow-gap files-read,files-write --keep-jobserver", backend.join(" "));
        assert!(jobs(&World::new(), &options).starts_with("4\n"), "four at once");
    }
}

#[test]
fn without_its_jobserver_make_runs_one_job_after_the_other_and_does_not_complain() {
    for backend in backends() {
        let options = format!("{} --allow-gap files-read,files-write", backend.join(" "));
        assert_eq!(jobs(&World::new(), &options), "1\n1\n1\n1\n");
    }
}

#[test]
fn a_jobserver_that_does_not_cross_leaves_no_trace() {
    let world = World::new();
    let (reader, writer) = std::io::pipe().expect("pipe");
    let flags = " -j4 --jobserver-auth=3,4";
    let script = format!("echo \"[$MAKEFLAGS]\"; {LIST}");
    for backend in backends() {
        let run = |options: &[&str]| {
            let (reader, writer) = (reader.try_clone().expect("clone"), writer.try_clone().expect("clone"));
            let options = [&backend[..], options].concat();
            world.sh(options, &script).env("MAKEFLAGS", flags).fd(reader, 3).fd(writer, 4).done()
        };
        run(&[]).is(0, "[]\n0 1 2 \n", "");
        run(&["-e", "MAKEFLAGS"]).is(0, "[]\n0 1 2 \n", "");
        run(&["--keep-jobserver"]).is(0, "[ -j4 --jobserver-auth=3,4]\n0 1 2 3 4 \n", "");
    }
}

#[test]
fn a_jobserver_that_is_a_fifo_crosses_too() {
    let world = World::new();
    let fifo = world.path("o/job server");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o600)).expect("fifo");
    let mut tokens = File::options().read(true).write(true).open(&fifo).expect("fifo");
    tokens.write_all(b"+++").expect("tokens");
    // make puts a backslash before a blank.
    let flags = format!(" -j4 --jobserver-auth=fifo:{}", fifo.display().to_string().replace(' ', "\\ "));
    let client = format!(
        "import os\nfd = os.open('{}', os.O_RDWR)\ntoken = os.read(fd, 1)\nos.write(fd, token)\nprint(token)",
        fifo.display()
    );
    let before = fs::read_dir(world.path("o")).expect("directory").count();
    for backend in backends() {
        let run = |options: &[&str]| {
            let words = [&backend[..], options, &["--", "python3", "-c", &client]].concat();
            world.run(words).env("MAKEFLAGS", &flags).done()
        };
        run(&["--keep-jobserver"]).is(0, "b'+'\n", "");
        if has_view(&backend) {
            run(&[]).code(1).stdout("").stderr_has("No such file or directory");
        }
        world
            .sh([&backend[..], &["--keep-jobserver"]].concat(), "echo \"$MAKEFLAGS\"")
            .env("MAKEFLAGS", &flags)
            .done()
            .is(0, &format!("{flags}\n"), "");
    }
    assert_eq!(fs::read_dir(world.path("o")).expect("directory").count(), before);
    let mut left = [0_u8; 3];
    tokens.read_exact(&mut left).expect("tokens");
    assert_eq!(&left, b"+++", "every token was given back");
}
