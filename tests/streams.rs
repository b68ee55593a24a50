//! Standard input, output and error pass through untouched, unbuffered and in order.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use crate::harness::{Done, World, backends, program};

/// A bash script in which `$SR` is the program with these options, and what it gives without the program.
fn both(world: &World, options: &[&str], script: &str) -> (Done, Done) {
    let sandbox_run = program();
    let with = format!("{} {} --", sandbox_run.to_str().expect("text"), options.join(" "));
    let run = |prefix: &str| world.call("bash", ["-c", script]).env("SR", prefix).done();
    (run(&with), run(""))
}

#[test]
fn pipes_end_as_without() {
    for options in backends() {
        let world = World::new();
        for script in [
            "yes | $SR head -1; echo \"${PIPESTATUS[*]}\"",
            "$SR yes | head -1; echo \"${PIPESTATUS[*]}\"",
            "$SR sh -c 'yes; echo $? >&2' | head -1; echo \"${PIPESTATUS[*]}\"",
            "$SR sh -c 'echo one; exec cat' < /dev/null | cat | tr a-z A-Z; echo \"${PIPESTATUS[*]}\"",
            "$SR sort -r <<< $'a\\nb' | $SR cat | $SR tr a-z A-Z",
            "echo unread | $SR true; echo \"${PIPESTATUS[1]}\"",
            "x=$($SR echo inside); echo \"<$x>\"",
            "$SR cat < <(echo two)",
        ] {
            let (with, without) = both(&world, &options, script);
            assert!(!without.stdout.is_empty(), "control: {script}\n{}", without.stderr);
            assert_eq!(with.out(), without.out(), "{script}\n{}", with.stderr);
            assert_eq!((with.code, &with.stderr), (without.code, &without.stderr), "{script}");
        }
    }
}

#[test]
fn a_hundred_megabytes_arrive_as_they_are() {
    let world = World::new();
    world.call("sh", ["-c", "head -c 104857600 /dev/urandom > data"]).done().is(0, "", "");
    let sum = world.call("sha256sum", ["-b"]).stdin_from(File::open(world.path("w/data")).expect("data")).done().out();
    assert_eq!(sum.len(), 68, "{sum}");
    for options in backends() {
        for script in
            ["$SR cat < data | sha256sum -b", "cat data | $SR cat | cat | sha256sum -b", "$SR sha256sum -b < data"]
        {
            let (with, _) = both(&world, &options, script);
            with.is(0, &sum, "");
        }
    }
}

#[test]
fn every_byte_passes_in_both_directions() {
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    for options in backends() {
        let world = World::new();
        let done = world.run([&options[..], &["--", "cat"]].concat()).stdin(bytes.clone()).done().code(0);
        assert!(done.stdout == bytes, "{} bytes came back", done.stdout.len());
        assert_eq!(done.stderr, "");
        let done = world.sh(options, "cat >&2").stdin(&b"\0\x01binary\r\n\x1b[31m"[..]).done().code(0).stdout("");
        assert_eq!(done.stderr.as_bytes(), b"\0\x01binary\r\n\x1b[31m");
    }
}

#[test]
fn the_first_line_arrives_before_the_second_is_made() {
    for options in backends() {
        for script in ["echo a; read x; echo b; exit 3", "exec 1>&2; echo a; read x; echo b; exit 3"] {
            let world = World::new();
            let (mut out, writer) = io::pipe().expect("pipe");
            let (reader, mut input) = io::pipe().expect("pipe");
            let streams: OwnedFd = writer.into();
            let errors = streams.try_clone().expect("pipe");
            let call = world.sh(options, script).stdout(streams).stderr(Stdio::from(errors));
            let running = call.stdin_from(OwnedFd::from(reader)).spawn();
            let mut line = [0; 2];
            // The second line is made only after we have the first.
            out.read_exact(&mut line).expect("first line");
            assert_eq!(&line, b"a\n");
            input.write_all(b"\n").expect("pipe");
            let mut rest = String::new();
            out.read_to_string(&mut rest).expect("rest");
            assert_eq!(rest, "b\n");
            running.done().code(3);
        }
    }
}

#[test]
fn output_and_errors_on_one_pipe_keep_their_order() {
    let script = "for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done";
    let expected: String = (1..=9).flat_map(|i| [format!("out {i}\n"), format!("err {i}\n")]).collect();
    for options in backends() {
        let world = World::new();
        let (mut out, writer) = io::pipe().expect("pipe");
        let streams: OwnedFd = writer.into();
        let errors = streams.try_clone().expect("pipe");
        let running = world.sh(options, script).stdout(streams).stderr(Stdio::from(errors)).spawn();
        let mut text = String::new();
        out.read_to_string(&mut text).expect("pipe");
        assert_eq!(text, expected);
        running.done().code(0);
    }
}

#[test]
fn files_keep_their_offset_and_mode() {
    for options in backends() {
        let world = World::new();
        world.write("o/log", "before\n");
        world.write("o/in", "one\ntwo\nthree\n");
        let log = File::options().append(true).open(world.path("o/log")).expect("file");
        let mut input = File::open(world.path("o/in")).expect("file");
        input.read_exact(&mut [0; 4]).expect("first line");
        let ours = input.try_clone().expect("file");
        world.sh(options, "read line; echo \"$line\"").stdout(log).stdin_from(input).done().code(0);
        assert_eq!(world.read("o/log"), "before\ntwo\n");
        // The shell reads a file line by line and leaves the offset there: it is the same open file.
        let mut rest = String::new();
        (&ours).read_to_string(&mut rest).expect("file");
        assert_eq!(rest, "three\n");
    }
}

#[test]
fn a_reader_that_is_gone_is_no_failure_of_ours() {
    for options in backends() {
        let world = World::new();
        let broken = || {
            let (reader, writer) = io::pipe().expect("pipe");
            drop(reader);
            OwnedFd::from(writer)
        };
        // The shell's own message and status for a write to nobody, with the signal ignored or not.
        let outside = world.call("sh", ["-c", "echo x; echo y"]).stdout(broken()).done();
        assert_eq!(outside.signal, Some(13), "control: it dies of the broken pipe");
        world.sh(options, "echo x; echo y").stdout(broken()).done().code(141).stderr("");
        // What is never written to does no harm.
        world.sh(options, "exit 4").stdout(broken()).done().code(4).stderr("");
    }
}
