//! Limits as they are typed and written: which values are taken, what they come to, and what is refused before anything starts.

use serde_json::{Value, json};

use crate::harness::{World, about_bwrap};

/// The limits of a dry run; gaps accepted, since this is about numbers and not about who holds them.
fn limits(world: &World, words: &[&str]) -> Value {
    let words = [&["-q"], words, &["--dry-run=json", "true"]].concat();
    let done = world.run(words).done().code(0);
    let report: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    report["limits"].clone()
}

/// Each option with its key, how a dry run calls it, and values with what they come to.
type Row = (&'static str, &'static str, &'static str, &'static [(&'static str, u64)]);

const SIZES: &[(&str, u64)] =
    &[("4096", 4096), ("1K", 1024), ("1KiB", 1024), ("1M", 1 << 20), ("2G", 2 << 30), ("0", 0)];

const ACCEPTED: [Row; 7] = [
    (
        "--timeout",
        "timeout",
        "timeout_ms",
        &[
            ("0.2", 200),
            ("250ms", 250),
            ("10s", 10_000),
            ("1m", 60_000),
            ("1h", 3_600_000),
            ("1000000000", 1_000_000_000_000),
            ("99999999999999999999h", 100 * 365 * 24 * 3_600_000),
        ],
    ),
    ("--cpu-time", "cpu_time", "cpu_time_seconds", &[("1", 1), ("30s", 30), ("5m", 300), ("2000ms", 2)]),
    ("--max-file-size", "max_file_size", "max_file_size_bytes", SIZES),
    ("--core", "core", "core_bytes", SIZES),
    ("--max-output", "max_output", "max_output_bytes", SIZES),
    ("--address-space", "address_space", "address_space_bytes", &[("16M", 16 << 20), ("4G", 4 << 30)]),
    ("--max-open-files", "max_open_files", "max_open_files", &[("16", 16), ("1024", 1024)]),
];

/// Numbers are no text in a file, and text has its unit.
fn in_a_file(key: &str, value: &str) -> String {
    let time = matches!(key, "timeout" | "cpu_time");
    match (time, value.ends_with(|c: char| c.is_ascii_digit())) {
        (true, true) => format!("{key} = \"{value}s\"\n"),
        (false, true) => format!("{key} = {value}\n"),
        (_, false) => format!("{key} = \"{value}\"\n"),
    }
}

#[test]
fn what_is_taken_means_the_same_everywhere() {
    let world = World::new();
    let none = limits(&world, &[]);
    for (option, key, name, values) in ACCEPTED {
        assert_eq!(none[name], Value::Null, "{option}");
        for (value, expected) in values {
            let mut wanted = none.clone();
            wanted[name] = json!(expected);
            assert_eq!(limits(&world, &[option, value]), wanted, "{option} {value}");
            assert_eq!(limits(&world, &[&format!("{option}={value}")]), wanted, "{option}={value}");
            world.write("p.toml", in_a_file(key, value));
            assert_eq!(limits(&world, &["--policy", "../p.toml"]), wanted, "{key} {value}");
        }
    }
    assert_eq!(limits(&world, &["--timeout", "0"]), none);
    world.write("p.toml", "timeout = '5s'\n");
    assert_eq!(limits(&world, &["--policy", "../p.toml", "--timeout", "0"]), none);
}

/// Whether a host can hold these is another question; the numbers are the same.
#[test]
fn limits_of_the_whole_tree_are_taken_too() {
    if about_bwrap("the policy has the default list of backends") {
        return;
    }
    let world = World::new();
    let accept = ["-q", "--allow-gap", "memory,procs", "--print-policy=json"];
    for (option, value, key, expected) in [
        ("--memory", "16M", "memory", json!("16M")),
        ("--memory", "16777217", "memory", json!(16_777_217)),
        ("--memory", "2GiB", "memory", json!("2G")),
        ("--max-procs", "1", "max_procs", json!(1)),
        ("--max-procs", "64", "max_procs", json!(64)),
    ] {
        let done = world.run([&accept[..], &[option, value]].concat()).done().code(0);
        let by_option: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        assert_eq!(by_option[key], expected, "{option} {value}");
        world.write("p.toml", in_a_file(key, value));
        let done = world.run([&accept[..], &["--policy", "../p.toml"]].concat()).done().code(0);
        assert_eq!(serde_json::from_slice::<Value>(&done.stdout).expect("JSON"), by_option);
    }
}

#[test]
fn what_is_refused_names_option_and_value() {
    let world = World::new();
    let before = world.snapshot();
    let sizes = ["1.5M", "-1", "10X", "", "18446744073709551616", "99999999999G"];
    let rows: [(&str, &[&str]); 9] = [
        ("--timeout", &["-1", "abc", "1x", "", "1e400", "5 s"]),
        ("--cpu-time", &["0", "0.5", "1500ms", "-1", "1d", ""]),
        ("--memory", &["0", "16383K", "1.5G", "-1", "10X", "", "18446744073709551616"]),
        ("--max-procs", &["0", "-1", "1.5", "1K", "many", "", "18446744073709551616"]),
        ("--max-file-size", &sizes),
        ("--max-open-files", &["0", "2", "15", "-1", "1K", ""]),
        ("--address-space", &["0", "16383K", "1.5G", ""]),
        ("--core", &sizes),
        ("--max-output", &sizes),
    ];
    for (option, values) in rows {
        for value in values {
            let done = world.run(["-w", ".", option, value, "touch", "ran"]).done();
            done.refused(125, &[&format!("'{option}'"), &format!("'{value}'")]);
        }
    }
    let done = world.run(["-w", ".", "--output-overflow", "drop", "touch", "ran"]).done();
    done.refused(125, &["'--output-overflow'", "'drop'", "truncate, kill"]);
    // A value that is too small tells the smallest one.
    for (option, value, least) in
        [("--memory", "1M", "16M"), ("--address-space", "1M", "16M"), ("--max-open-files", "2", "16")]
    {
        world.run([option, value, "true"]).done().refused(125, &[&format!("less than {least}")]);
    }
    assert_eq!(world.snapshot(), before);
    world.run(["-w", ".", "--timeout", "60", "--core", "0", "touch", "ran"]).done().is(0, "", "");
    assert!(world.has("w/ran"));
}

/// A limit and what happens at it may come from two sources.
#[test]
fn an_overflow_needs_no_limit_beside_it() {
    let world = World::new();
    world.run(["--output-overflow", "kill", "echo", "ok"]).done().is(0, "ok\n", "");
    world.write("p.toml", "max_output = 4\n");
    let words = ["--policy", "../p.toml", "--output-overflow", "kill"];
    let found = limits(&world, &words);
    assert_eq!((&found["max_output_bytes"], &found["output_overflow"]), (&json!(4), &json!("kill")));
    world.run([&words[..], &["echo", "abc"]].concat()).done().is(0, "abc\n", "");
    world.run([&words[..], &["echo", "abcdef"]].concat()).done().code(124).stdout("abcd");
}

#[test]
fn a_dry_run_says_each_limit_and_who_set_it() {
    let world = World::new();
    world.write("p.toml", "core = 0\ntimeout = '90s'\nmax_output = '1M'\noutput_overflow = 'kill'\n");
    let words = ["--policy", "../p.toml", "--timeout", "1.5", "--cpu-time", "5m", "--max-open-files", "64"];
    let more = ["--max-file-size", "1000", "--address-space", "4G", "--dry-run", "true"];
    let text = world.run([&words[..], &more].concat()).done().code(0).stderr("").out();
    let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("limit: ")).collect();
    let expected = [
        "timeout 1.5s",
        "cpu time 300s",
        "file size 1000 bytes",
        "open files 64",
        "address space 4 GiB",
        "core 0 bytes",
        "output 1 MiB, then kill",
    ];
    assert_eq!(lines, expected, "{text}");
    for line in [
        "timeout from --timeout",
        "cpu_time from --cpu-time",
        "core from ../p.toml",
        "output_overflow from ../p.toml",
        "address_space from --address-space",
    ] {
        assert!(text.contains(&format!("setting: {line}\n")), "{line}\n{text}");
    }
    let text = world.run(["--dry-run", "true"]).done().code(0).out();
    assert!(!text.contains("limit: "), "{text}");
}

/// A record has no key for any of them, so nothing is lost on the way into one.
#[test]
fn a_payload_has_no_place_for_limits() {
    let world = World::new();
    let run = |words: &[&str]| {
        world.run([&["-q", "-b", "none", "--net", "host"], words, &["--print-policy=payload"]].concat())
    };
    run(&[]).done().code(0);
    run(&["--timeout", "0"]).done().code(0);
    for (option, value, key) in [
        ("--timeout", "5", "timeout"),
        ("--memory", "64M", "memory"),
        ("--cpu-time", "5", "cpu_time"),
        ("--max-procs", "5", "max_procs"),
        ("--max-file-size", "5", "max_file_size"),
        ("--max-open-files", "50", "max_open_files"),
        ("--address-space", "5G", "address_space"),
        ("--core", "0", "core"),
        ("--max-output", "5", "max_output"),
        ("--output-overflow", "kill", "output_overflow"),
    ] {
        run(&[option, value]).done().refused(125, &["has no place for", &format!("'{key}'")]);
    }
}
