//! No combination of policy and backend drops a restriction without naming it: tried with random policies, against what plans say.

use proptest::prelude::*;
use serde_json::Value;

use crate::fakes::first;
use crate::harness::{World, about_bwrap, has_landlock};

/// What a policy may ask for: the words, and what must be true of a plan that does not name a gap for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// `--mask` of this file.
    Mask(&'static str),
    /// `--protect` of this file.
    Protect(&'static str),
    /// `--read` of this file.
    Read(&'static str),
    /// `--write` of this file or directory.
    Write(&'static str),
    DenySocket,
    NetOff,
    NetHost,
    TmpSize,
    /// An option with its value, and the key and number in a plan's limits.
    Limit(&'static str, &'static str, &'static str, u64),
}

const WISHES: &[Wish] = &[
    Wish::Mask("m"),
    Wish::Mask("d/f"),
    Wish::Mask("d/e"),
    Wish::Protect("d/g"),
    Wish::Protect("m"),
    Wish::Read("d/g"),
    Wish::Read("../o"),
    Wish::Write("d"),
    Wish::Write("."),
    Wish::Write("../o/w"),
    Wish::DenySocket,
    Wish::NetOff,
    Wish::NetHost,
    Wish::TmpSize,
    Wish::Limit("--timeout", "9s", "timeout_ms", 9000),
    Wish::Limit("--memory", "64M", "memory_bytes", 64 << 20),
    Wish::Limit("--cpu-time", "9", "cpu_time_seconds", 9),
    Wish::Limit("--max-procs", "99", "max_procs", 99),
    Wish::Limit("--max-file-size", "1M", "max_file_size_bytes", 1 << 20),
    Wish::Limit("--max-open-files", "99", "max_open_files", 99),
    Wish::Limit("--max-output", "1M", "max_output_bytes", 1 << 20),
];

const GAPS: &[&str] =
    &["files-read", "files-write", "masks", "network", "sockets", "processes", "privileges", "memory", "procs"];

fn words(wish: Wish) -> Vec<String> {
    let words: &[&str] = match wish {
        Wish::Mask(path) => &["--mask", path],
        Wish::Protect(path) => &["--protect", path],
        Wish::Read(path) => &["--read", path],
        Wish::Write(path) => &["--write", path],
        Wish::DenySocket => &["--deny-socket", "d/socket"],
        Wish::NetOff => &["--net", "off"],
        Wish::NetHost => &["--net", "host"],
        Wish::TmpSize => &["--tmp-size", "1M"],
        Wish::Limit(option, value, ..) => &[option, value],
    };
    words.iter().map(ToString::to_string).collect()
}

/// What a plan says.
struct Told<'a> {
    json: &'a Value,
    backend: &'a str,
}

impl Told<'_> {
    fn has_gap(&self, protection: &str) -> bool {
        self.json["gaps"].as_array().unwrap().iter().any(|gap| gap["protection"] == protection)
    }

    /// Whether `path` of the host can be read and written, as far as mounts or rules say.
    fn gives(&self, path: &str) -> [bool; 2] {
        let below = |at: &Value| std::path::Path::new(path).starts_with(at.as_str().unwrap());
        match self.backend {
            "bwrap" | "namespace" | "podman" => {
                let mounts = self.json["mounts"].as_array().unwrap();
                // Deeper places come later, and what is sealed is no place.
                let last = mounts.iter().rfind(|mount| below(&mount["at"]) && mount["operation"] != "seal");
                match last.map(|mount| mount["operation"].as_str().unwrap()) {
                    Some("write") => [true, true],
                    Some("read" | "copy") => [true, false],
                    _ => [false, false],
                }
            }
            "landlock" => {
                let rules = self.json["landlock"]["rules"].as_array().unwrap();
                rules.iter().filter(|rule| below(&rule["path"])).fold([false, false], |[read, write], rule| {
                    match rule["right"].as_str().unwrap() {
                        "write" => [true, true],
                        "read" => [true, write],
                        _ => [read, write],
                    }
                })
            }
            _ => [true, true],
        }
    }

    fn refuses(&self, group: &str) -> bool {
        self.json["seccomp"]["refused"].as_array().is_some_and(|all| all.iter().any(|one| one["group"] == group))
    }
}

/// Checks that each wish is kept by the plan, or named as a gap.
fn kept(world: &World, wishes: &[Wish], told: &Told) -> Result<(), TestCaseError> {
    let w = |path: &str| world.text("w/") + path;
    let wants = |wish| wishes.contains(&wish);
    for wish in wishes {
        match *wish {
            Wish::Mask(path) => {
                prop_assert!(told.has_gap("masks") || told.gives(&w(path)) == [false, false], "{wish:?}");
            }
            Wish::Protect(path) => prop_assert!(told.has_gap("files-write") || !told.gives(&w(path))[1], "{wish:?}"),
            // A write grant of the very file, or a mask, decides otherwise; a wider write grant does not.
            Wish::Read("d/g") => prop_assert!(told.has_gap("files-write") || !told.gives(&w("d/g"))[1], "{wish:?}"),
            Wish::Read(_) | Wish::Write(_) | Wish::NetHost | Wish::NetOff => {}
            Wish::DenySocket => prop_assert!(
                told.has_gap("sockets") || told.refuses("Unix sockets") || told.gives(&w("d/socket")) == [false, false],
                "{wish:?}"
            ),
            Wish::TmpSize => {
                let mounts = told.json["mounts"].as_array().unwrap();
                let bounded = mounts
                    .iter()
                    .any(|mount| mount["at"] == "/dev/shm" && mount["detail"].to_string().contains(" 1048576 bytes"));
                prop_assert!(told.has_gap("files-write") || bounded, "{wish:?}");
            }
            Wish::Limit(option, _, key, number) => {
                let gap = ["memory", "procs", "cpu"].iter().any(|gap| option.contains(gap) && told.has_gap(gap));
                prop_assert!(gap || told.json["limits"][key] == number, "{wish:?}");
            }
        }
    }
    // Nobody has to ask for these.
    if !wants(Wish::NetHost) || wants(Wish::NetOff) {
        let options = &told.json["launcher"]["options"];
        let off = match told.backend {
            "bwrap" => options.as_array().unwrap().contains(&"--unshare-net".into()),
            "namespace" => told.json["namespaces"].as_array().unwrap().contains(&"network".into()),
            "podman" => {
                let arguments = told.json["launcher"]["arguments"].as_array().unwrap();
                arguments.windows(2).filter(|words| words[0] == "--network").all(|words| words[1] == "none")
                    && arguments.contains(&"--network".into())
            }
            "landlock" => told.refuses("network") && told.json["landlock"]["tcp"] == false,
            _ => false,
        };
        // The last one counts, and off is typed last.
        prop_assert!(off || told.has_gap("network"), "network");
    }
    if !wants(Wish::Read("../o")) {
        prop_assert!(told.has_gap("files-read") || !told.gives(&world.text("o/secret"))[0], "files-read");
    }
    prop_assert!(told.has_gap("files-write") || !told.gives(&world.text("o/secret"))[1], "files-write");
    prop_assert!(told.has_gap("masks") || told.gives(&w("d/.netrc")) == [false, false], "hidden names");
    prop_assert!(told.has_gap("sockets") || told.backend != "none", "sockets");
    prop_assert!(told.has_gap("processes") || told.backend != "none", "processes");
    prop_assert!(told.has_gap("privileges") || told.backend != "none", "privileges");
    Ok(())
}

#[test]
fn what_a_backend_does_not_enforce_is_named() {
    if about_bwrap("tries each backend by itself") {
        return;
    }
    let backends = ["bwrap", "namespace", "landlock", "podman", "none"].into_iter();
    let backends: Vec<_> = backends.filter(|backend| *backend != "landlock" || has_landlock()).collect();
    let world = World::new();
    // Nothing is started, and so any program does.
    world.script("fake/podman", "#!/bin/sh\nexit 1\n");
    for name in ["w/m", "w/d/f", "w/d/g", "w/d/.netrc", "w/d/e/x", "o/w/x"] {
        world.write(name, "");
    }
    let _listener = std::os::unix::net::UnixListener::bind(world.path("w/d/socket")).unwrap();
    let some = |all: &'static [Wish]| prop::sample::subsequence(all, 0..8);
    let gaps = prop::sample::subsequence(GAPS, 0..=GAPS.len());
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let ran = std::cell::Cell::new([0, 0]);
    let tried = runner.run(&(some(WISHES), gaps), |(wishes, gaps)| {
        for backend in &backends {
            let mut line: Vec<String> = ["-q", "-b", *backend, "--dry-run=json"].map(str::to_owned).to_vec();
            // Off is typed last, so that it counts.
            let (last, others): (Vec<_>, Vec<_>) = wishes.iter().copied().partition(|wish| *wish == Wish::NetOff);
            line.extend(others.into_iter().chain(last).flat_map(words));
            if !gaps.is_empty() {
                line.extend(["--allow-gap".to_owned(), gaps.join(",")]);
            }
            if *backend == "podman" {
                line.extend(["--image", "any"].map(str::to_owned));
            }
            line.push("true".to_owned());
            let done = world.run(&line).env("PATH", first(&world, "fake")).done();
            let [refused, planned] = ran.get();
            if done.code == Some(125) {
                ran.set([refused + 1, planned]);
                prop_assert!(done.stderr.contains(": cannot "), "{line:?}: {}", done.stderr);
                continue;
            }
            ran.set([refused, planned + 1]);
            prop_assert_eq!(done.code, Some(0), "{:?}: {}", line, done.stderr);
            let json: Value = serde_json::from_str(&done.out()).unwrap();
            let told = Told { json: &json, backend };
            kept(&world, &wishes, &told).map_err(|error| TestCaseError::fail(format!("{error}: {line:?}")))?;
        }
        Ok(())
    });
    tried.unwrap_or_else(|error| panic!("{error}"));
    // Both are tried, or the test says nothing.
    assert!(ran.get().iter().all(|count| *count > 10), "{:?}", ran.get());
}

/// Where a mask is given up, what else was asked for at the same path is not given up with it.
#[test]
fn a_protect_under_a_mask_is_named_as_well() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    world.write("w/m", "");
    world.write("w/d/g", "");
    let run = |gaps: &str, words: &[&str]| {
        world
            .run([&["-q", "-b", "landlock", "--allow-gap", gaps, "-w", "."], words, &["--dry-run", "true"]].concat())
            .done()
    };
    for words in
        [["--mask", "m", "--protect", "m"], ["--protect", "m", "--mask", "m"], ["--mask", "d", "--protect", "d/g"]]
    {
        run("masks", &words).refused(125, &["files-write"]);
        run("files-write", &words).refused(125, &["masks"]);
        run("masks,files-write", &words).code(0);
    }
    run("masks", &["--mask", "m"]).code(0);
}
