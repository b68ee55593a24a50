//! Which variables arrive, under which spelling.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::windows::ffi::OsStringExt;

use crate::harness::{Call, World, helper, said};

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

/// What the helper says when it is called with `options` and the variables that `set` adds.
fn helped(world: &World, options: &[&str], what: &[&str], set: impl FnOnce(Call) -> Call) -> Vec<String> {
    let mut words: Vec<String> = options.iter().map(|word| (*word).to_owned()).collect();
    words.push("--".into());
    words.extend(helper(what[0]));
    words.extend(what[1..].iter().map(|word| (*word).to_owned()));
    let done = set(world.quiet(&words)).done();
    assert_eq!(done.code, 0, "{}", done.stderr);
    said(&done.stdout)
}

#[test]
fn a_value_arrives_unit_for_unit() {
    let world = World::new();
    let units: Vec<u16> = (1..0x100).chain([0x20AC, 0xD83D, 0xDE00, 0xFFFD, 0xFFFF]).collect();
    // Half of a pair is no text, and a value all the same.
    for value in [vec![], units, vec![0xD800], vec![u16::from(b'='); 3], vec![u16::from(b'x'); 20_000]] {
        let expected = [format!("{:x?}", Some(&value).filter(|value| !value.is_empty()))];
        let all = |call: Call| call.env("Odd", OsString::from_wide(&value));
        let found = helped(&world, &["-e", "Odd"], &["variables", "Odd"], all);
        let empty = value.is_empty().then(|| vec![format!("{:x?}", Some::<Vec<u16>>(Vec::new()))]);
        assert!(found == expected || Some(&found) == empty.as_ref(), "{value:x?}\n{found:?}");
        assert_eq!(helped(&world, &[], &["variables", "Odd"], all), ["None"], "control: not asked for");
    }
    let typed = helped(&world, &["-e", "Odd=a=b\n*%X%\u{e9}"], &["variables", "Odd"], |call| call);
    let value: Vec<u16> = "a=b\n*%X%\u{e9}".encode_utf16().collect();
    assert_eq!(typed, [format!("{:x?}", Some(value))]);
}

#[test]
fn a_wildcard_holds_back_what_looks_secret() {
    let world = World::new();
    let harmless = ["MY_NAME", "My_Author", "MY_MONKEY2", "MY_TOKENIZERS_PARALLELISM"];
    let secret = ["MY_API_KEY", "My_Db_Password", "my_secret2", "MY_PRIVATEKEY", "MY_PW", "MY_TOKEN_2", "MY_URL"];
    let callers = |mut call: Call| {
        for name in harmless.iter().chain(&secret) {
            call = call.env(name, if *name == "MY_URL" { "https://uuuu:pppp@h" } else { "v" });
        }
        call
    };
    let names = |options: &[&str]| helped(&world, options, &["names"], callers);
    let found = names(&["-e", "mY_*"]);
    for name in harmless {
        assert!(found.iter().any(|found| found == name), "{name} is harmless\n{found:?}");
    }
    for name in secret {
        assert!(found.iter().all(|found| found != name), "{name} is held back");
        let asked = names(&["-e", "MY_*", "-e", &name.to_uppercase()]);
        assert!(asked.iter().any(|found| found == name), "{name} passes by its name");
    }
}

#[test]
fn variables_of_a_proxy_pass_by_name_only() {
    let world = World::new();
    let proxies = ["HTTP_PROXY", "https_proxy", "All_Proxy", "NO_PROXY"];
    let names = |options: &[&str]| {
        let set = |call: Call| proxies.iter().fold(call, |call, name| call.env(name, "http://u:p@127.0.0.1:9"));
        let found = helped(&world, options, &["names"], set);
        proxies.iter().filter(|name| found.iter().any(|found| found == *name)).count()
    };
    assert_eq!(names(&[]), 0);
    assert_eq!(names(&["-e", "http_proxy", "-e", "HTTPS_PROXY", "-e", "ALL_PROXY", "-e", "no_proxy"]), 4);
}

/// Names of ours, in whatever case: they are the same name here.
#[test]
fn an_internal_name_is_refused_in_every_form() {
    let world = World::new();
    for word in ["SANDBOX_RUN_STAGE", "sandbox_run_stage=1", "Sandbox_Run_*", "SANDBOX_*", "SANDBOX_RUN_LOG=debug"] {
        let name = word.split('=').next().expect("a name");
        world.quiet(["-e", word, "cmd", "/c", "exit 0"]).done().refused(125, &[name, "internal"]);
        std::fs::write(world.path("file"), word).expect("file");
        let call = world.quiet(["--env-file", "file", "cmd", "/c", "exit 0"]);
        call.done().refused(125, &["internal"]);
    }
    let set =
        |call: Call| call.env("SANDBOX_RUN_STAGE", "3 x").env("sandbox_run_other", "x").env("Sandbox_Run_Log", "info");
    let found = helped(&world, &[], &["names"], set);
    assert!(found.iter().all(|name| !name.to_lowercase().starts_with("sandbox")), "{found:?}");
}

#[test]
fn a_call_with_nothing_in_its_environment_works() {
    let world = World::new();
    let words = |options: &[&str], what: &str| {
        let words: Vec<_> = options.iter().map(|word| (*word).to_owned()).chain(["--".into()]).collect();
        [words, helper(what)].concat()
    };
    let done = world.quiet(words(&[], "names")).env_clear().done();
    assert_eq!(done.code, 0, "{}", done.stderr);
    // A search path is that of the system, where the caller has none.
    assert!(said(&done.stdout).contains(&"PATH".to_owned()), "{}", done.stdout);
    let done = world.quiet(words(&["-e", "A=1"], "names")).env_clear().done();
    assert!(done.code == 0 && said(&done.stdout).contains(&"A".to_owned()), "{}", done.stderr);
    world.quiet(["cmd", "/c", "exit 4"]).env_clear().done().is(4, "", "");
}
