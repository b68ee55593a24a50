//! What a job object does not enforce is refused, unless it is accepted by name.

use crate::harness::{GAPS, World, helper, said};

#[test]
fn the_default_policy_is_refused() {
    let world = World::new();
    let make = ["cmd", "/c", "echo x> ran"];
    for options in
        [&[][..], &["-b", "auto"], &["-b", "jobobject"], &["-b", "windows_jobobject"], &["-r", "."], &["--net", "off"]]
    {
        let done = world.run([options, &make[..]].concat()).done();
        let done = done.refused(125, &["'jobobject'", "files-read", "files-write", "network", "masks"]);
        assert!(done.stderr.contains(&format!("hint: --allow-gap {GAPS} accepts that")), "{}", done.stderr);
    }
    // Each must be named.
    for missing in GAPS.split(',') {
        let rest: Vec<_> = GAPS.split(',').filter(|word| *word != missing).collect();
        let done = world.run([&["--allow-gap", &rest.join(",")], &make[..]].concat()).done();
        done.refused(125, &[missing]);
    }
    assert!(!world.has("ran"));
    // The control: with one warning that says what is not enforced.
    let done = world.run([&["--allow-gap", GAPS], &make[..]].concat()).done();
    let warning =
        format!("sandbox-run: warning: not enforced by 'jobobject', as accepted: {}\n", GAPS.replace(',', ", "));
    done.is(0, "", &warning);
    assert!(world.has("ran"));
    // What is not needed is no gap.
    let done = world.run([&["--net", "host", "--allow-gap", GAPS], &make[..]].concat()).done();
    assert!(done.code == 0 && !done.stderr.contains("network"), "{}", done.stderr);
}

#[test]
fn a_limit_that_is_not_enforced_is_a_gap() {
    let world = World::new();
    for (options, word) in [(["--max-file-size", "1M"], "file-size"), (["--max-open-files", "20"], "open-files")] {
        let words = [&options[..], &["cmd", "/c", "exit 4"]].concat();
        world.quiet(&words).done().refused(125, &[word]);
        let accepted = format!("{GAPS},{word}");
        let done = world.run([&["-q", "--allow-gap", &accepted], &words[..]].concat()).done();
        done.is(4, "", "");
    }
    for (options, words) in [
        (&["--core", "0"][..], &["core files", "--core"][..]),
        (&["--keep-fd", "3"], &["descriptor 3", "--keep-fd"]),
        (&["--new-session", "always"], &["session"]),
        (&["--keep-jobserver"], &["jobserver"]),
        (&["--result-fd", "3"], &["descriptor 3"]),
        (&["--trace"], &["trace"]),
        (&["-r", "not-there"], &["'not-there'", "no such file"]),
        (&["-C", "not-there"], &["not-there"]),
    ] {
        world.quiet([options, &["cmd", "/c", "echo x> ran"]].concat()).done().refused(125, words);
    }
    world.quiet(["--explain", "C:\\"]).done().refused(125, &["explain"]);
    assert!(!world.has("ran"));
}

#[test]
fn other_backends_are_not_here() {
    let world = World::new();
    for (backend, system) in [("bwrap", "Linux"), ("landlock", "Linux"), ("seatbelt", "macOS")] {
        world.quiet(["-b", backend, "cmd"]).done().refused(125, &[backend, system]);
    }
    let warning = "sandbox-run: warning: backend 'none' isolates nothing; not enforced: files-read, files-write, masks, network, \
                   sockets, privileges\n";
    for list in ["none", "bwrap,none", "auto,none"] {
        world.run(["-b", list, "cmd", "/c", "exit 6"]).done().is(6, "", warning);
    }
    world.run(["-b", "none", "--net", "off", "cmd"]).done().refused(125, &["network"]);
}

#[test]
fn a_check_tells_the_truth() {
    let world = World::new();
    let check = |options: &[&str]| {
        let done = world.run([&["--check", "--json"], options].concat()).done();
        (done.code, serde_json::from_str::<serde_json::Value>(&done.stdout).expect("JSON"))
    };
    let of = |report: &serde_json::Value, backend: &str| {
        report["backends"].as_array().unwrap().iter().find(|tried| tried["backend"] == backend).unwrap().clone()
    };
    let (code, report) = check(&[]);
    assert_eq!((code, &report["works"], &report["auto"]), (125, &false.into(), &serde_json::Value::Null));
    let job = of(&report, "jobobject");
    assert!(job["works"] == false && job["reason"].as_str().unwrap().contains("network"), "{job}");
    assert!(of(&report, "bwrap")["protections"].is_null());
    let (code, report) = check(&["--allow-gap", GAPS]);
    assert_eq!((code, &report["works"], &report["auto"]), (0, &true.into(), &"jobobject".into()));
    let strength = |word: &str| {
        let all = of(&report, "jobobject")["protections"].as_array().unwrap().clone();
        all.iter().find(|told| told["protection"] == word).unwrap()["strength"].as_str().unwrap().to_owned()
    };
    for word in GAPS.split(',').chain(["file-size", "open-files"]) {
        assert_eq!(strength(word), "absent", "{word}");
    }
    assert_eq!(
        [strength("environment"), strength("processes"), strength("memory")],
        ["enforced", "partial", "partial"]
    );
}

#[test]
fn a_missing_directory_is_made_only_when_asked() {
    let world = World::new();
    let run = |options: &[&str]| world.quiet([options, &["cmd", "/c", "exit 0"]].concat()).done();
    run(&["-w", "out\\deep"]).refused(125, &["out\\deep", "no such directory"]);
    assert_eq!(run(&["--write-try", "out\\deep"]).code, 0);
    assert!(!world.has("out"));
    run(&["--create-missing", "-w", "out\\deep"]).is(0, "", "");
    assert!(world.has("out\\deep"));
}

#[test]
fn the_dry_run_is_what_runs() {
    let world = World::new();
    std::fs::create_dir(world.path("d")).expect("directory");
    let words = [&["-C", "d", "--no-default-env", "-e", "A=1", "--"].map(str::to_owned)[..], &helper("place")].concat();
    let dry = world.quiet([&["--dry-run=json".to_owned()], &words[..]].concat()).done();
    assert_eq!((dry.code, &*dry.stderr), (0, ""));
    let plan: serde_json::Value = serde_json::from_str(&dry.stdout).expect("JSON");
    let done = world.quiet(&words).done();
    assert_eq!(done.code, 0, "{}", done.stderr);
    let [place, names] = said(&done.stdout).try_into().expect("two lines");
    assert_eq!(plan["workdir"], place, "{plan:#}");
    assert_eq!(plan["environment"]["set"], serde_json::json!(["A"]));
    // Wine adds some of its own, and so does the system.
    let added = |name: &&str| name.starts_with("WINE") || ["SystemDrive", "SystemRoot"].contains(name);
    let names: Vec<_> = names.split(' ').filter(|name| !added(name)).collect();
    assert_eq!(names, ["A"], "{plan:#}");
}
