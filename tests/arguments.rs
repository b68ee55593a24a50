//! Arguments reach the target byte for byte, and mistakes are refused by name.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use crate::harness::{World, backends, find, program};

#[test]
fn words_arrive_as_they_are() {
    let words = ["", "a b", "\n", "*", "\\", "$(x)", "it's", "{\"j\":\"\\\"q\\\"\"}", "--", "--net", "-x"];
    let expected = format!("{};", words.join(";"));
    for backend in backends() {
        let call = [&backend[..], &["--", "printf", "%s;"], &words].concat();
        World::new().run(call).done().is(0, &expected, "");
    }
}

#[test]
fn bytes_that_are_not_text_arrive() {
    let odd = OsStr::from_bytes(b"\xff\xfe\x80");
    let world = World::new();
    let mut dir = world.path("o").into_os_string();
    dir.push("/");
    dir.push(odd);
    fs::create_dir(&dir).expect("directory");
    let mut tool = dir.clone();
    tool.push("/tool");
    fs::write(&tool, "#!/bin/sh\nprintf '%s\\n' \"$0\" \"$1\" \"$PWD\"; pwd -P\n").expect("file");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("mode");
    let expected = [tool.as_bytes(), odd.as_bytes(), dir.as_bytes(), dir.as_bytes(), b""].join(&b'\n');
    for backend in backends() {
        let words: Vec<&OsStr> = backend.iter().map(OsStr::new).chain([OsStr::new("--"), &tool, odd]).collect();
        assert_eq!(world.run(&words).cwd(&dir).done().code(0).stdout, expected);
        let elsewhere = [&[OsStr::new("-C"), &dir], &words[..]].concat();
        assert_eq!(world.run(elsewhere).done().code(0).stdout, expected);
    }
}

#[test]
fn twenty_thousand_words_are_one_run() {
    for backend in backends() {
        let mut words: Vec<OsString> = backend.map(OsString::from).to_vec();
        words.extend(["--", "sh", "-c", "echo $#", "_"].map(OsString::from));
        words.extend((0..20_000).map(|number| number.to_string().into()));
        World::new().run(words).done().is(0, "20000\n", "");
    }
}

#[test]
fn the_longest_word_arrives() {
    // Linux's MAX_ARG_STRLEN counts the NUL at the end.
    let word = "x".repeat(131_071);
    for backend in backends() {
        let words = [&backend[..], &["--", "sh", "-c", "echo ${#1}", "_", &word]].concat();
        World::new().run(words).done().is(0, "131071\n", "");
    }
}

#[test]
fn the_name_of_the_program_arrives_as_typed() {
    let world = World::new();
    world.link("w/head", find("busybox").expect("busybox"));
    world.script("w/says", "#!/bin/sh\necho \"$0\"\n");
    for backend in backends() {
        let run = |words: &[&str]| world.run([&backend[..], &["--"], words].concat()).stdin("a\nb\n").done();
        // A program of many names: only the name says what it is to do.
        run(&["./head", "-n", "1"]).is(0, "a\n", "");
        run(&["sh", "-c", "echo $0"]).is(0, "sh\n", "");
        run(&["./says"]).is(0, "./says\n", "");
        run(&["../w/says"]).is(0, "../w/says\n", "");
        run(&["/usr/bin/../bin/sh", "-c", "tr '\\0' '\\n' </proc/$$/cmdline"]).stdout_has("/usr/bin/../bin/sh\n");
    }
}

#[test]
fn options_end_at_the_first_word_that_is_none() {
    let world = World::new();
    for backend in backends() {
        let run = |words: &[&str]| world.run([&backend[..], words].concat()).done();
        run(&["echo", "--net", "host"]).is(0, "--net host\n", "");
        run(&["echo", "--", "x"]).is(0, "-- x\n", "");
        run(&["--", "echo", "--"]).is(0, "--\n", "");
        run(&["--", "--help"]).refused(127, &["'--help'"]);
        run(&["check"]).refused(127, &["'check'"]);
    }
}

#[test]
fn the_last_single_value_wins() {
    let world = World::new();
    let interfaces = |words: &[&str]| {
        let words = [words, &["--", "sh", "-c", "ls /proc/self/ns/net -l; wc -l </proc/net/route"]].concat();
        world.run(words).done().code(0).stderr("").out()
    };
    let routes = |words: &[&str]| interfaces(words).lines().last().expect("a count").to_owned();
    let outside = fs::read_link("/proc/self/ns/net").expect("namespace");
    let outside = outside.to_str().expect("text");
    assert_eq!(routes(&["--net", "host", "--net", "off"]), "1", "the heading alone");
    assert!(!interfaces(&["--net", "host", "--net", "off"]).contains(outside));
    assert!(interfaces(&["--net", "off", "--net", "host"]).contains(outside), "control: host came last");

    let size = |words: &[&str]| world.sh(words, "df -Pk /tmp | awk 'NR == 2 { print $2 }'").done().code(0).out();
    assert_eq!(size(&["--tmp-size", "1M", "--tmp-size=8M"]), "8192\n");
    assert_eq!(size(&["--tmp-size", "8M", "--tmp-size=1M"]), "1024\n");
    world.run(["-b", "none", "-b", "bwrap", "--", "cat", &world.text("o/secret")]).done().code(1).stdout("");
    world.run(["-q", "-b", "bwrap", "-b", "none", "--", "cat", &world.text("o/secret")]).done().is(0, "s3cret", "");
}

#[test]
fn lists_add_up() {
    let world = World::new();
    let (a, b) = (world.write("o/a", "A"), world.write("o/b", "B"));
    let (a, b) = (a.to_str().expect("text"), b.to_str().expect("text"));
    world.run(["-r", a, "-r", b, "--", "cat", a, b]).done().is(0, "AB", "");
    world.run(["-r", a, "--", "cat", a, b]).done().code(1).stdout("A");
    world.run(["-e", "A=1", "-e", "B=2", "--", "sh", "-c", "echo $A$B"]).done().is(0, "12\n", "");
}

#[test]
fn a_mistyped_option_never_becomes_the_command() {
    let world = World::new();
    let before = world.snapshot();
    for (words, named) in [
        (&["--alow-socket", "x", "touch", "x"][..], "--alow-socket"),
        (&["-rw", ".", "touch", "x"], "-rw"),
        (&["-z", "touch", "x"], "-z"),
        (&["--re", "/usr", "touch", "x"], "--re"),
        (&["--net", "--", "touch", "x"], "--net"),
        (&["--no-default-env=yes", "touch", "x"], "--no-default-env"),
        (&["-", "touch", "x"], "'-'"),
        (&["---", "touch", "x"], "'---'"),
    ] {
        world.run(words).done().refused(125, &[named]);
    }
    assert_eq!(world.snapshot(), before);
}

#[test]
fn the_nearest_option_is_suggested_and_works() {
    let world = World::new();
    for (typed, meant) in [("--alow-socket", "--allow-socket"), ("--wriet", "--write"), ("--tmp-sise", "--tmp-size")] {
        world.run([typed, "x", "true"]).done().refused(125, &[typed]).stderr_has(&format!("did you mean '{meant}'?"));
    }
    world.run(["--write", ".", "touch", "x"]).done().is(0, "", "");
    assert!(world.has("w/x"), "control: the full spelling works");
}

/// What runs `sandbox-run` as its shell or interpreter, and what it runs itself.
#[test]
fn it_fits_where_commands_fit() {
    let world = World::new();
    let sandbox_run = program();
    let sandbox_run = sandbox_run.to_str().expect("text");
    let bin = world.dir("bin");
    std::os::unix::fs::symlink(sandbox_run, bin.join("sandbox-run")).expect("link");
    let path = format!("{}:{}", bin.display(), crate::harness::PATHS);
    let outside = |program: &str, words: &[&str]| world.call(program, words).env("PATH", &path).done();

    world.write("w/Makefile", "SHELL = sandbox-run\n.SHELLFLAGS = -w . -- sh -c\nout: ; @echo made > $@ && cat out\n");
    outside("make", &["-s"]).is(0, "made\n", "");
    assert_eq!(world.read("w/out"), "made\n");

    world.write("w/one", "1\n");
    world.write("w/two", "2\n");
    let found = outside("find", &[".", "-name", "[ot][nw][eo]", "-exec", sandbox_run, "--", "cat", "{}", "+"]);
    let mut lines: Vec<_> = found.code(0).stderr("").out().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["1", "2"]);

    world.script("w/script", "#!/usr/bin/env -S sandbox-run -- sh\necho \"$1 $#\"; exit 6\n");
    outside("./script", &["a b", "c"]).is(6, "a b 2\n", "");

    outside("sh", &["-c", "seq 20000 | xargs -s 1500000 sandbox-run -- sh -c 'echo $#' _"]).is(0, "20000\n", "");
    outside("sh", &["-c", "printf 'a\\nb\\n' | xargs -n 1 sandbox-run -- sh -c 'exit 255'"]).code(124);

    for backend in backends() {
        let run = |words: &[&str]| world.run([&backend[..], words].concat());
        run(&["--", "sh", "-c", "echo hi | tr a-z A-Z"]).done().is(0, "HI\n", "");
        run(&["--", "python3"]).stdin("import sys\nprint(sys.argv)\n").done().is(0, "['']\n", "");
    }
    outside("sh", &["-c", "sandbox-run -- python3 <<'END'\nprint(6 * 7)\nEND"]).is(0, "42\n", "");
}
