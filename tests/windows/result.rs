//! The result object and the audit log.

use std::fs;

use serde_json::json;

use crate::harness::{World, helper};

#[test]
fn a_result_is_written_in_every_ending() {
    let world = World::new();
    fs::write(world.path("r"), "old").expect("file");
    let result = || crate::harness::json(&world.path("r"));
    world.quiet(["--result", "r", "cmd", "/c", "echo out& exit 3"]).done().is(3, "out\n", "");
    let told = result();
    let facts =
        |told: &serde_json::Value| ["status", "exit_code", "signal", "reason", "backend"].map(|key| told[key].clone());
    assert_eq!(facts(&told), [json!("exited"), json!(3), json!(null), json!(null), json!("jobobject")]);
    assert_eq!([&told["stdout_bytes"], &told["stderr_bytes"]], [&json!(5), &json!(0)]);
    assert_eq!(told["argv"], json!(["cmd", "/c", "echo out& exit 3"]));
    assert_eq!(told["gaps"].as_array().unwrap().len(), 6);
    assert!(told["pid"].as_i64().unwrap() > 0 && told["wall_ms"].is_u64() && told["policy_sha256"].is_string());
    // A crash has a number that is shown as cmd shows it.
    let mut words: Vec<String> = ["--result", "r", "--"].map(str::to_owned).to_vec();
    words.extend(helper("exit"));
    words.push(0xC000_0005_u32.to_string());
    assert_eq!(world.quiet(&words).done().code, 0xC000_0005);
    assert_eq!(result()["exit_code"], json!(-1_073_741_819));
    for (words, code, reason) in [
        (&["no-such-program"][..], 127, "not-found"),
        (&["-r", "not-there", "cmd"], 125, "policy"),
        (&["--no-such-option", "cmd"], 125, "usage"),
    ] {
        assert_eq!(world.quiet([&["--result", "r"], words].concat()).done().code, code);
        assert_eq!(facts(&result()), [json!("not-started"), json!(null), json!(null), json!(reason), json!(null)]);
    }
    world.run(["--result", "r", "cmd"]).done().refused(125, &["network"]);
    assert_eq!(result()["reason"], "gap");
    let left: Vec<_> = fs::read_dir(world.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["r"], "nothing else is left");
}

#[test]
fn output_can_be_kept_in_the_result() {
    let world = World::new();
    let words = ["--capture", "--result", "r", "cmd", "/c", "echo out& echo err>&2"];
    world.quiet(words).done().is(0, "", "");
    let told = crate::harness::json(&world.path("r"));
    assert_eq!([&told["stdout"], &told["stderr"]], [&json!("out\r\n"), &json!("err\r\n")]);
}

#[test]
fn an_audit_log_grows_by_a_line() {
    let world = World::new();
    for code in [3, 4] {
        let words = ["--audit-log", "log", "cmd", "/c", &format!("exit {code}")];
        assert_eq!(world.quiet(words).done().code, code);
    }
    let log = fs::read_to_string(world.path("log")).expect("log");
    let codes: Vec<_> = log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["exit_code"].clone())
        .collect();
    assert_eq!(codes, [json!(3), json!(4)]);
}

#[test]
fn a_place_that_cannot_be_written_is_refused() {
    let world = World::new();
    fs::create_dir(world.path("d")).expect("directory");
    for place in ["d", "nowhere\\r", "nul", "\\\\.\\pipe\\x"] {
        let done = world.quiet(["--result", place, "cmd", "/c", "echo x> ran"]).done();
        done.refused(125, &[place]);
    }
    assert!(!world.has("ran"));
}
