//! Which variables arrive, under which spelling.

use std::collections::BTreeMap;

use crate::harness::{Call, World};

/// What `set` prints, by name as spelt.
fn variables(call: Call) -> BTreeMap<String, String> {
    let done = call.done();
    assert_eq!((done.code, &*done.stderr), (0, ""));
    done.stdout.lines().filter_map(|line| line.split_once('=')).map(|(n, v)| (n.to_owned(), v.to_owned())).collect()
}

#[test]
fn names_are_the_same_in_any_case_and_keep_their_spelling() {
    let world = World::new();
    let set = |options: &[&str]| {
        let call = world.quiet([options, &["--", "cmd", "/c", "set"]].concat());
        let call = call.env("Secret_Thing", "s3cret").env("COR_PROFILER", "{1}").env("Cor_Enable_Profiling", "1");
        variables(call.env("My_Name", "x").env("MY_API_KEY", "k").env("PSModulePath", "C:\\m"))
    };
    let plain = set(&[]);
    let find = |name: &str| {
        plain.iter().find(|(spelt, _)| spelt.eq_ignore_ascii_case(name)).map(|(spelt, value)| (spelt.as_str(), value))
    };
    for name in ["SYSTEMROOT", "COMSPEC", "PATHEXT", "PATH", "SYSTEMDRIVE", "WINDIR", "NUMBER_OF_PROCESSORS"] {
        let (spelt, value) = find(name).unwrap_or_else(|| panic!("no {name}"));
        // As the caller has it: `set` outside tells.
        let outside = variables(world.outside(["cmd", "/c", "set"]));
        assert_eq!(outside.get(spelt), Some(value), "{spelt}");
    }
    for name in ["SECRET_THING", "COR_PROFILER", "COR_ENABLE_PROFILING", "PSMODULEPATH", "MY_NAME", "MY_API_KEY"] {
        assert_eq!(find(name), None, "{name}");
    }
    assert!(plain.keys().all(|name| !name.is_empty()), "an entry like =C: came through");
    // The control: by name in any case, by prefix but for what looks secret, typed.
    assert_eq!(set(&["-e", "sEcReT_tHiNg"]).get("Secret_Thing").map(String::as_str), Some("s3cret"));
    let wild = set(&["-e", "my_*"]);
    assert_eq!((wild.get("My_Name").map(String::as_str), wild.get("MY_API_KEY")), (Some("x"), None));
    let typed = set(&["-e", "MY_NAME=typed", "-e", "cor_profiler=typed", "-e", "Fresh=1"]);
    let value = |name: &str| typed.get(name).map(String::as_str);
    assert_eq!([value("My_Name"), value("COR_PROFILER"), value("Fresh")], [Some("typed"), Some("typed"), Some("1")]);
    assert_eq!(typed.keys().filter(|name| name.eq_ignore_ascii_case("my_name")).count(), 1);
}

#[test]
fn a_hook_that_is_asked_for_is_warned_of() {
    let world = World::new();
    let gaps = crate::harness::GAPS;
    let call = world.run(["--allow-gap", gaps, "-e", "COR_PROFILER", "cmd", "/c", "exit 0"]).env("COR_PROFILER", "{1}");
    let done = call.done();
    assert!(
        done.code == 0 && done.stderr.contains("never pass, only NAME=VALUE sets them: COR_PROFILER"),
        "{}",
        done.stderr
    );
}

#[test]
fn nothing_is_inherited_when_that_is_asked_for() {
    let world = World::new();
    let call = world.quiet(["--dry-run=json", "--no-default-env", "-e", "A=1", "C:\\windows\\system32\\cmd.exe"]);
    let done = call.done();
    let plan: serde_json::Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_eq!(plan["environment"]["kept"], serde_json::json!([]));
    assert_eq!(plan["environment"]["set"], serde_json::json!(["A"]));
}
