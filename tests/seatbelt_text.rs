//! The text of a profile for Seatbelt: what is quoted stays text, what cannot be said is refused, and no rule is lost.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use sandbox_run::backend::sbpl::{self, Expr, MAX_PROFILE, Text};
use sandbox_run::backend::{Backend, seatbelt};
use sandbox_run::error::Kind;
use sandbox_run::launch::{Launch, Word};
use sandbox_run::plan::Plan;
use sandbox_run::plan::view::{FileKind, Own, Rule, View};
use sandbox_run::policy::Network;

use crate::harness::{World, has};
use crate::properties;
use crate::sbpl::{Node, Profile, read, shim};
use crate::seatbelt::{Mac, canonical};

#[test]
fn names_are_text_whatever_they_say() {
    let world = World::new();
    for name in ["\") (allow default) (\"", "a\\", "\\\"", "a;b", "(", "#|", "é ", "a\\n"] {
        let dir = world.dir(&format!("w/{name}"));
        world.write(&format!("w/{name}/secret"), "");
        let words = ["--dry-run=json", "-b", "seatbelt", "-w", name, "--mask", &format!("{name}/secret"), "true"];
        let done = world.run(words).done().code(0);
        let json: serde_json::Value = serde_json::from_str(&done.out()).unwrap();
        let text = json["profile"].as_str().unwrap();
        let profile = Profile::of(text).unwrap_or_else(|why| panic!("{why}\n{text}"));
        assert_eq!(profile.defaults(), 1, "{text}");
        let dir = canonical(dir.to_str().unwrap());
        assert_eq!(profile.may(&format!("{dir}/x")).unwrap(), "mrxwucb", "{text}");
        assert_eq!(profile.may(&format!("{dir}/secret")).unwrap(), "", "{text}");
        assert_eq!(profile.may("/Users/u/file").unwrap(), "m", "{text}");
    }
}

#[test]
fn what_no_profile_can_name_is_refused() {
    let world = World::new();
    for (name, why) in [
        (&b"a\xff"[..], "no UTF-8"),
        (b"a\nb", "control character U+000A"),
        (b"\x1b[2J", "control character U+001B"),
        (b"\x7f", "control character U+007F"),
    ] {
        fs::create_dir(world.path("w").join(OsStr::from_bytes(name))).unwrap();
        let words = |backend| {
            let words = ["--dry-run", "-b", backend, "-r"].map(OsStr::new);
            [&words[..], &[OsStr::from_bytes(name), OsStr::new("true")]].concat()
        };
        world.run(words("seatbelt")).done().refused(125, &["in a profile of Seatbelt", why]);
        world.run(words("bwrap")).done().code(0);
    }
}

/// The profile of a plan with these rules and no host.
fn of_rules(rules: &[(&Path, Rule, FileKind)]) -> Result<String, sandbox_run::error::Error> {
    let mut view = View::default();
    for (at, rule, kind) in rules {
        view.add(at, rule.clone(), *kind);
    }
    let image = Some(PathBuf::from("/usr/local/bin/sandbox-run"));
    let plan = Plan { backend: Backend::Seatbelt, rules: view, image, ..properties::plan(Vec::new(), Network::Off) };
    let Launch::Program(command) = seatbelt::launch(&plan)? else { panic!("it starts a program") };
    let [Word::Text(option), Word::Private(profile), Word::Text(image)] = &command.arguments[..] else {
        panic!("{command:?}")
    };
    assert_eq!((command.program.to_str(), option.to_str()), (Some("/usr/bin/sandbox-exec"), Some("-f")));
    assert_eq!(
        image, "/usr/local/bin/sandbox-run",
        "what it starts is not the target, whose words are no secret of ps"
    );
    assert!(command.options.is_empty());
    Ok(profile.clone())
}

#[test]
fn a_place_with_two_names_has_one_rule() {
    let (read, write) = (Rule::Read, Rule::Write);
    let at = |path: &'static str, rule: &Rule| (Path::new(path), rule.clone(), FileKind::Directory);
    for (rules, asked, expected) in [
        // Of one place the higher rule counts, by whatever name.
        (vec![at("/tmp/x", &read), at("/private/tmp/x", &Rule::Mask)], "/private/tmp/x/f", ""),
        (vec![at("/tmp/x", &Rule::Mask), at("/private/tmp/x", &read)], "/private/tmp/x/f", ""),
        (vec![at("/tmp/x", &write), at("/private/tmp/x/y", &read)], "/private/tmp/x/y/f", "mrx"),
        (vec![at("/System/Volumes/Data/Users/u", &read)], "/Users/u/f", "mrx"),
        (vec![at("/System/Volumes/Data/Users/u", &read)], "/System/Volumes/Data/Users/u/f", ""),
        (vec![at("/", &write), at("/System/Volumes/Data/Users/u", &Rule::Mask)], "/Users/u/f", ""),
        // A name that only begins in the same way is another one.
        (vec![at("/data", &read)], "/database", "m"),
    ] {
        let text = of_rules(&rules).unwrap();
        let profile = Profile::of(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
        let found = profile.may(asked).unwrap_or_else(|why| panic!("{why}\n{text}"));
        assert_eq!(found, expected, "{asked}\n{text}");
    }
}

/// A result in a write grant is kept from the command by rules, as it is by mounts elsewhere.
#[test]
fn a_plan_without_mounts_answers_by_its_rules() {
    let mut view = View::default();
    view.add(Path::new("/Users/u/w"), Rule::Write, FileKind::Directory);
    view.add(Path::new("/Users/u/w/s"), Rule::Mask, FileKind::Directory);
    view.add(Path::new("/Users/u/r"), Rule::Read, FileKind::Directory);
    let mut plan = Plan { backend: Backend::Seatbelt, rules: view, ..properties::plan(Vec::new(), Network::Off) };
    let result = Path::new("/Users/u/w/result");
    assert!(plan.lets_write(result) && plan.shows(result) && plan.lets_rename(result) && !plan.forbids_writing(result));
    plan.forbid_writing(result);
    assert!(
        !plan.lets_write(result) && plan.shows(result) && !plan.lets_rename(result) && plan.forbids_writing(result)
    );
    for (path, write, show) in [("/Users/u/w/s/x", false, false), ("/Users/u/r/x", false, true), ("/etc", false, false)]
    {
        assert_eq!((plan.lets_write(Path::new(path)), plan.shows(Path::new(path))), (write, show), "{path}");
    }
    assert!(plan.writable().eq([Path::new("/Users/u/w")]));
    assert!(!plan.lets_rename(Path::new("/Users/u/w")) && plan.lets_rename(Path::new("/Users/u/w/dir")));
}

/// As sources have it, so that a reader finds what he knows; and no denial is followed by what it could take away.
#[test]
fn groups_have_their_order() {
    let mac = Mac::new();
    let words =
        ["-w", ".", "-r", "{o}", "--mask", "src/deep/secrets", "--protect", "src/keep", "-r", "ro", "--net", "host"];
    let text = mac.text(&[&words[..], &["true"]].concat());
    assert!(text.starts_with("(version 1)\n(deny default (with no-log))\n"), "{text}");
    let headings: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("; ")).collect();
    let expected = [
        "processes",
        "base services",
        "metadata",
        "devices",
        "system",
        "programs and links",
        "private directories",
        "read grants",
        "write grants",
        "ancestors",
        "masks and hidden names",
        "secrets",
        "read-only inside write grants",
        "names that are kept",
        "network",
        "sockets",
    ];
    assert_eq!(headings, expected);
    let of_files = |line: &str| line.contains(" file-") || line.contains("(file-");
    let rules =
        |verb: &'static str| text.lines().enumerate().filter(move |(_, line)| line.starts_with(verb) && of_files(line));
    let last_allowed = rules("(allow ").map(|(at, _)| at).last();
    let first_denied = rules("(deny ").map(|(at, _)| at).next();
    assert!(last_allowed < first_denied, "{text}");
}

#[test]
fn a_profile_has_a_size() {
    let many =
        |count: usize| -> Vec<_> { (0..count).map(|n| PathBuf::from(format!("/Users/u/w/directory/.{n}"))).collect() };
    let profile = |paths: &[PathBuf]| {
        let masks = paths.iter().map(|path| (path.as_path(), Rule::Hidden, FileKind::File));
        let grant = (Path::new("/Users/u/w"), Rule::Write, FileKind::Directory);
        of_rules(&masks.chain([grant]).collect::<Vec<_>>())
    };
    let text = profile(&many(1000)).unwrap();
    assert!(text.len() < MAX_PROFILE);
    let profile_of_many = Profile::of(&text).unwrap();
    for (path, may) in [(".0", ""), (".999", ""), (".1000", "mrxwucb"), ("x", "mrxwucb")] {
        assert_eq!(profile_of_many.may(&format!("/Users/u/w/directory/{path}")).unwrap(), may);
    }
    let error = profile(&many(5000)).unwrap_err();
    assert_eq!(error.kind(), Kind::Backend);
    assert!(error.to_string().contains("at most 262144"), "{error}");
}

fn text_of_profile() -> impl Strategy<Value = String> {
    prop_oneof![r#"[/ "\\();#a.]{0,24}"#, "\\PC{0,24}"]
}

fn path() -> impl Strategy<Value = PathBuf> {
    "(/[ab]){1,4}".prop_map(PathBuf::from)
}

fn rule() -> impl Strategy<Value = (Rule, FileKind)> {
    prop::sample::select(vec![
        (Rule::Hidden, FileKind::Directory),
        (Rule::Secret, FileKind::Directory),
        (Rule::Workdir, FileKind::Directory),
        (Rule::Read, FileKind::Directory),
        (Rule::Write, FileKind::Directory),
        (Rule::Protect, FileKind::Directory),
        (Rule::Mask, FileKind::Directory),
        (Rule::Own(Own::Shared), FileKind::Directory),
        (Rule::Folder, FileKind::Directory),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Reading the quoted text gives the text back, and nothing else.
    #[test]
    fn quoting_reads_back(text in text_of_profile()) {
        match Text::new(&text) {
            Ok(quoted) => {
                let form = Expr::of_text("literal", quoted).to_string();
                let expected = vec![Node::List(vec![Node::Word("literal".into()), Node::Text(text)])];
                prop_assert_eq!(read(&form), Ok(expected));
            }
            Err(sbpl::Unsayable::Control(char)) => prop_assert!(char.is_control() && text.contains(char)),
            Err(sbpl::Unsayable::NotUtf8) => prop_assert!(false),
        }
    }

    /// Whatever the rules, the most specific path decides under each reading, and no rule is lost.
    #[test]
    fn the_most_specific_path_decides(
        rules in prop::collection::btree_map(path(), rule(), 0..8), asked in prop::collection::vec(path(), 1..8)
    ) {
        let list: Vec<_> = rules.iter().map(|(at, (rule, kind))| (at.as_path(), rule.clone(), *kind)).collect();
        let text = of_rules(&list).unwrap();
        let profile = Profile::of(&text).unwrap();
        for path in asked {
            let deciding = |inherits: &dyn Fn(&Rule) -> bool| {
                let mut above = path.ancestors().filter_map(|at| rules.get(at)).map(|(rule, _)| rule);
                above.find(|rule| !inherits(rule)).cloned()
            };
            let read = deciding(&|rule| matches!(rule, Rule::Protect | Rule::Folder));
            let write = deciding(&|rule| matches!(rule, Rule::Folder));
            let may = profile.may(path.to_str().unwrap()).map_err(|why| TestCaseError::fail(format!("{why}\n{text}")))?;
            let reads = matches!(read, Some(Rule::Workdir | Rule::Read | Rule::Write | Rule::Own(_)));
            let writes = matches!(write, Some(Rule::Write | Rule::Own(_)));
            prop_assert_eq!(may.contains('r') && may.contains('x'), reads, "{:?} {}\n{}", &path, &may, &text);
            prop_assert_eq!(may.contains('w') && may.contains('c'), writes, "{:?} {}\n{}", &path, &may, &text);
            // Whoever may rename it cannot take along what may not be written.
            let below = rules.iter().any(|(at, (rule, _))| {
                at != &path && at.starts_with(&path) && !matches!(rule, Rule::Folder | Rule::Write | Rule::Own(_))
            });
            prop_assert!(!(may.contains('u') && below), "{:?} {}\n{}", &path, &may, &text);
        }
    }
}

/// The Scheme that macOS has inside reads the same rules.
#[test]
fn a_reader_of_scheme_takes_it() {
    if !has("tinyscheme") {
        return;
    }
    let mac = Mac::new();
    mac.world.dir("w/a\"b\\c");
    let files = ["-w", ".", "--mask", "src/deep/secrets", "-r", "src/deep/secrets/pub", "-w", "a\"b\\c"];
    for network in [["--net", "host"], ["--allow-host", "ok.test"]] {
        let words = [&files[..], &network, &["true"]].concat();
        // A port is a number where there is one.
        let text = mac.text(&words).replace("{port}", "40001");
        mac.world.write("shim.scm", shim());
        mac.world.write("profile.sb", &text);
        let load = |name: &str| format!("(load \"{}\")", mac.world.text(name));
        let end = "(display \"THE END\")";
        let script = mac.world.write("script.scm", [&load("shim.scm"), &*load("profile.sb"), end].concat());
        let done = mac.world.call("tinyscheme", ["-1", script.to_str().unwrap()]).done();
        let out = done.out();
        assert!(out.trim_end().ends_with("THE END"), "{out}");
        let rules = out.lines().filter(|line| line.starts_with("(allow ") || line.starts_with("(deny ")).count();
        let forms = Profile::of(&text).unwrap().forms;
        assert_eq!(rules, forms.len() - 1, "{out}");
        // It writes what it read in the same way.
        for form in &forms[1..] {
            let Node::List(parts) = form else { panic!("{form:?}") };
            let line = format!("({})", parts.iter().map(written).collect::<Vec<_>>().join(" "));
            assert!(out.contains(&line), "{line}\n{out}");
        }
        // The control: it complains about what it does not know.
        mac.world.write("profile.sb", "(version 1)\n(allow file-raed*)\n");
        let out = mac.world.call("tinyscheme", ["-1", script.to_str().unwrap()]).done().out();
        assert!(!out.contains("THE END"), "{out}");
    }
}

fn written(node: &Node) -> String {
    match node {
        // Names are read in one case.
        Node::Word(word) => word.to_lowercase(),
        Node::Text(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        Node::List(parts) => format!("({})", parts.iter().map(written).collect::<Vec<_>>().join(" ")),
    }
}
