//! Arguments reach the target byte for byte, and mistakes are refused by name.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::harness::World;

#[test]
fn words_arrive_as_they_are() {
    let words = ["", "a b", "\n", "*", "\\", "$(x)", "it's", "{\"j\":\"\\\"q\\\"\"}", "--", "--net", "-x"];
    let expected: String = words.iter().map(|word| format!("{word};")).collect();
    let mut call: Vec<&str> = vec!["--", "printf", "%s;"];
    call.extend(words);
    World::new().run(call).done().is(0, &expected, "");
}

#[test]
fn bytes_that_are_not_text_arrive() {
    let world = World::new();
    let word = OsStr::from_bytes(b"\xff\xfe\x80");
    let done = world.run([OsStr::new("printf"), OsStr::new("%s"), word]).done().code(0);
    assert_eq!(done.stdout, word.as_bytes());
}

#[test]
fn twenty_thousand_words_are_one_run() {
    let mut words: Vec<OsString> = ["--", "sh", "-c", "echo $#", "_"].map(OsString::from).to_vec();
    words.extend((0..20_000).map(|number| number.to_string().into()));
    World::new().run(words).done().is(0, "20000\n", "");
}

#[test]
fn a_mistyped_option_never_becomes_the_command() {
    for (words, named) in [
        (vec!["--alow-socket", "x", "true"], "--alow-socket"),
        (vec!["-rw", ".", "true"], "-rw"),
        (vec!["--net", "maybe", "true"], "maybe"),
        (vec![], "no command"),
        (vec!["--"], "no command"),
    ] {
        let world = World::new();
        world.run(&words).done().refused(125, &[named]);
    }
}
