//! Exit status, arguments, and which program a word means.

use std::fs;

use crate::harness::{World, helper, said};

#[test]
fn all_bits_of_a_status_come_through() {
    let world = World::new();
    for code in [0_u32, 1, 7, 124, 127, 255, 256, 259, 65_536, 0xC000_0005, 0xFFFF_FFFF] {
        let mut words = helper("exit");
        words.push(code.to_string());
        assert_eq!(world.outside(&words).done().code, code, "outside");
        assert_eq!(world.quiet(&words).done().code, code);
    }
    world.quiet(["cmd", "/c", "exit 9"]).done().is(9, "", "");
}

#[test]
fn arguments_arrive_as_they_were() {
    let words = [
        "",
        "a b",
        "\"",
        "\\",
        "a\\\\\"b\\",
        "\t",
        "*",
        "%PATH%",
        "^&|<>",
        "ü\u{1f600}",
        "--",
        "'x y'",
        "{\"j\":\"\\\"q\\\"\"}",
    ];
    let world = World::new();
    let mut all = helper("arguments");
    all.extend(words.map(str::to_owned));
    let expected: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
    let done = world.quiet(&all).done();
    assert_eq!((done.code, said(&done.stdout)), (0, expected), "{}", done.stderr);
}

#[test]
fn streams_are_the_callers() {
    let world = World::new();
    world.quiet(["cmd", "/c", "more"]).stdin("in\n").done();
    let done = world.quiet(["cmd", "/c", "echo out& echo err>&2& exit 3"]).done();
    done.is(3, "out\n", "err\n");
    let done = world.quiet(["findstr", "b"]).stdin("abc\nxyz\n").done();
    assert_eq!(done.code, world.outside(["findstr", "b"]).stdin("abc\nxyz\n").done().code);
}

#[test]
fn the_current_directory_is_not_searched() {
    let world = World::new();
    let image = std::env::current_exe().expect("image");
    fs::copy(&image, world.path("tool-of-mine.exe")).expect("copy");
    let act = ["helper::act", "--exact", "-q", "--", "exit", "5"];
    let run = |word: &str| world.quiet([&[word], &act[..]].concat()).done();
    run("tool-of-mine").refused(127, &["'tool-of-mine'", "no such program"]);
    run("tool-of-mine.exe").refused(127, &["no such program"]);
    // The control: by its place, and in a directory of PATH.
    assert_eq!(run(".\\tool-of-mine").code, 5);
    assert_eq!(run("./tool-of-mine.exe").code, 5);
    assert_eq!(run(&world.text("tool-of-mine")).code, 5);
    let path = format!("{};.;C:\\nowhere", world.text(""));
    let call = world.quiet([&["tool-of-mine"], &act[..]].concat());
    assert_eq!(call.env("PATH", &path).done().code, 5);
}

#[test]
fn what_is_no_program_is_refused() {
    let world = World::new();
    fs::write(world.path("batch.bat"), "@echo made> ran\r\n").expect("file");
    fs::write(world.path("text.exe"), "no program\r\n").expect("file");
    for word in [".\\batch.bat", ".\\batch", ".\\BATCH.BAT"] {
        let done = world.quiet([word, "\"&calc.exe"]).done().refused(126, &["batch file"]);
        assert!(done.stderr.contains("hint: "), "{}", done.stderr);
    }
    for word in [".\\batch.bat.", ".\\batch.bat ", ".\\batch.bat::$DATA", "nul", "C:batch.bat"] {
        world.quiet([word]).done().refused(127, &["cannot execute"]);
    }
    assert!(!world.has("ran"));
    world.quiet([".\\text.exe"]).done().refused(126, &["text.exe", "not a program"]);
    world.quiet(["no-such-program"]).done().refused(127, &["no-such-program"]);
    world.quiet([".\\nothing\\x.exe"]).done().refused(127, &["no such program"]);
    // The control: cmd reads it.
    world.quiet(["cmd", "/c", ".\\batch.bat"]).done().is(0, "", "");
    assert!(world.has("ran"));
}
