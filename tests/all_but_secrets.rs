//! `all-but-secrets`: every hidden name is shown but those of well-known secrets, and a failed run tells of names that it would show.

use crate::harness::{World, about_bwrap, find, skip};
use crate::wire::{Record, call};

const WORD: [&str; 2] = ["--show-hidden", "all-but-secrets"];

/// What the table of secrets knows, by names and by places.
const SECRETS: [&str; 10] = [
    ".env",
    ".env.local",
    ".npmrc",
    ".netrc",
    ".ssh/id",
    ".aws/credentials",
    ".config/gh/hosts.yml",
    ".cargo/credentials.toml",
    ".odd/.env",
    ".odd/.config/gcloud/x",
];

/// What nobody knows, what the default list shows (three of them), and neighbours of secrets.
const OTHERS: [&str; 8] = [
    ".odd/x",
    ".odd/.state",
    ".state",
    ".environment",
    ".env.example",
    ".config/other",
    ".cargo/config.toml",
    ".venv/bin/.x",
];

/// A world with all of these in `w` and `w/a/b`.
fn world() -> World {
    let world = World::new();
    for name in SECRETS.iter().chain(&OTHERS) {
        for place in ["w", "w/a/b"] {
            world.write(&format!("{place}/{name}"), "s3cret\n");
        }
    }
    world
}

/// A script that counts what can be read of these names, in both places.
fn count(names: &[&str]) -> String {
    let names = names.join(" ");
    format!("n=0; for d in . a/b; do cd $d; for f in {names}; do [ -s $f ] && n=$((n+1)); done; done; echo $n")
}

#[test]
fn everything_is_shown_but_well_known_secrets_at_any_depth() {
    let world = world();
    let (secrets, others) = (count(&SECRETS), count(&OTHERS));
    for grant in [&[][..], &["-r", "."], &["-w", "."], &["-w", "..", "--mask", "../home"]] {
        let words = || grant.iter().chain(&WORD).copied();
        let before = world.snapshot();
        world.sh(words(), &secrets).done().is(0, "0\n", "");
        world.sh(words(), &others).done().is(0, "16\n", "");
        assert_eq!(world.snapshot(), before, "{grant:?}");
        // The controls: what is listed besides is shown, and each of the two other ways shows what it shows.
        world.sh(words().chain(["--show-hidden", ".npmrc", "--show-hidden", ".env"]), &secrets).done().is(0, "6\n", "");
        world.sh(grant.iter().chain(&["--show-hidden", "*"]).copied(), &secrets).done().is(0, "20\n", "");
        world.sh(grant.iter().copied(), &others).done().is(0, "6\n", "");
    }
    // A grant of the place itself.
    world.sh(["-r", ".config/gh"].iter().chain(&WORD), "cat .config/gh/hosts.yml .env").done().is(0, "s3cret\n", "");
    // Nothing inside brings one back.
    for change in ["rm .env", "mv .env e", "mv .odd odd", "mv a/b c", "echo x >.odd/.env", "ln .env e"] {
        let done = world.sh(["-w", "."].iter().chain(&WORD), &format!("{change} && cat e odd/.env c/.env")).done();
        assert_ne!(done.code, Some(0), "{change}");
        done.stdout_lacks("s3cret");
    }
    // A name that is shown can be given and taken like any other.
    world.sh(["-w", "."].iter().chain(&WORD), "mv .state .other && cat .other").done().is(0, "s3cret\n", "");
}

#[test]
fn what_a_tool_left_is_there_in_the_second_run() {
    let world = World::new();
    let tool = "[ -e .state ] || { echo 1 >.state; echo TOKEN=1 >.env; }; grep -q 1 .state && ! grep -q TOKEN .env";
    world.sh(["-w", "."], "echo 1 >.state; echo TOKEN=1 >.env").done().is(0, "", "");
    world.sh(["-w", "."], tool).done().code(1);
    for run in 0..2 {
        let done = world.sh(["-w", "."].iter().chain(&WORD), tool).done();
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{run}");
    }
}

/// Of words the widest counts, wherever it stands; names stay.
#[test]
fn words_layers_and_names_add_up() {
    let world = world();
    let [secrets, others] = [count(&SECRETS), count(&OTHERS)];
    for (list, options, found) in [
        ("['all-but-secrets']", &[][..], ["0", "16"]),
        ("['default', 'all-but-secrets']", &[], ["0", "16"]),
        ("['all-but-secrets', '.env', 'default']", &[], ["4", "16"]),
        ("['all-but-secrets', '*']", &[], ["20", "16"]),
        ("['all-but-secrets']", &["--show-hidden", ".env"], ["4", "16"]),
        ("['all-but-secrets']", &["--show-hidden", "*"], ["20", "16"]),
        ("[]", &WORD, ["0", "16"]),
        ("['.env']", &WORD, ["4", "16"]),
        ("['default']", &WORD, ["0", "16"]),
        ("['*']", &WORD, ["20", "16"]),
    ] {
        world.write("p.toml", format!("cwd_allow_hidden = {list}\n"));
        for (script, number) in [&secrets, &others].into_iter().zip(found) {
            let done = world.sh(["--policy", "../p.toml"].iter().chain(options), script).done();
            assert_eq!((done.code, done.out().trim()), (Some(0), number), "{list} {options:?}: {}", done.stderr);
        }
    }
    // A later source replaces the list, as every list.
    world.write("home/.config/sandbox-run/profiles/wide.toml", "cwd_allow_hidden = ['all-but-secrets']\n");
    world.sh(["-p", "wide"], &others).done().is(0, "16\n", "");
    world.write("p.toml", "cwd_allow_hidden = ['default']\n");
    world.sh(["-p", "wide", "--policy", "../p.toml"], &others).done().is(0, "6\n", "");
    // It is shown who said it.
    let shown = world.run(["-p", "wide", "--dry-run", "true"]).done().code(0).out();
    assert!(shown.contains("setting: cwd_allow_hidden from profile 'wide'"), "{shown}");
    let shown = world.run([&["-p", "wide"], &WORD[..], &["--dry-run", "true"]].concat()).done().code(0).out();
    assert!(shown.contains("setting: cwd_allow_hidden from --show-hidden\n"), "{shown}");
}

#[test]
fn it_prints_and_hashes_as_itself() {
    if about_bwrap("a payload names bubblewrap") {
        return;
    }
    let world = World::new();
    let print = |words: &[&str], form: &str| world.run([words, &[form]].concat()).done();
    let toml = print(&WORD, "--print-policy=toml").code(0).out();
    assert!(toml.contains("cwd_allow_hidden = [\"all-but-secrets\"]  # from --show-hidden\n"), "{toml}");
    world.write("w/p.toml", &toml);
    let again = ["--policy", "p.toml"];
    let json = print(&WORD, "--print-policy=json").code(0).out();
    assert_eq!(print(&again, "--print-policy=json").code(0).out(), json);
    let hash = |words: &[&str]| {
        let out = world.run([words, &["--dry-run=json", "true"]].concat()).done().code(0).out();
        serde_json::from_str::<serde_json::Value>(&out).unwrap()["policy_sha256"].clone()
    };
    let of = hash(&WORD);
    assert_eq!(hash(&again), of);
    // What is shown anyway makes no other policy; what is wider, narrower or shows one secret more does.
    assert_eq!(hash(&[&WORD[..], &["--show-hidden", ".git"]].concat()), of);
    for other in [&[][..], &["--show-hidden", "*"], &["--show-hidden", ".env", WORD[0], WORD[1]]] {
        assert_ne!(hash(other), of, "{other:?}");
    }
    // Nothing is asked for that `none` would have to refuse, also where it widens a list that does ask.
    let none = ["-q", "-b", "none", "--net", "host"];
    world.run([&none[..], &WORD, &["true"]].concat()).done().is(0, "", "");
    world.write("w/list.toml", "cwd_allow_hidden = ['.env']\n");
    let list = [&none[..], &["--policy", "list.toml"]].concat();
    world.run([&list[..], &["true"]].concat()).done().refused(125, &["masks"]);
    world.run([&list[..], &WORD, &["true"]].concat()).done().is(0, "", "");
    let printed = world.run([&list[..], &WORD, &["--print-policy=toml"]].concat()).done().code(0).out();
    world.write("w/printed.toml", printed);
    world.run(["-q", "--policy", "printed.toml", "true"]).done().is(0, "", "");
    print(&["-b", "bwrap", "--no-default-env", WORD[0], WORD[1]], "--print-policy=payload")
        .refused(125, &["cannot print the policy as a payload", "no place for 'all-but-secrets'"]);
}

/// In a payload a list has no words but one.
#[test]
fn in_a_payload_it_is_a_name_like_any_other() {
    let world = World::new();
    world.write("w/.state", "state\n");
    let record = |list: &str| Record::new(&world).with("cwd_allow_hidden", list).text();
    let look = |list: &str| call(&world, record(list).as_bytes(), &["--", "cat", ".state"]).done();
    look(r#"["all-but-secrets"]"#).code(0).stdout("");
    look(r#"["all-but-secrets",".state"]"#).code(0).stdout("state\n");
    look(r#"["*"]"#).code(0).stdout("state\n");
    // What was typed besides is ours.
    let text = record("[]");
    call(&world, text.as_bytes(), &[&WORD[..], &["--", "cat", ".state"]].concat()).done().code(0).stdout("state\n");
}

/// Other than with `*` the search goes on: for repositories, within its limit, and into what cannot be listed.
#[test]
fn it_is_found_by_the_same_bounded_search() {
    let world = World::new();
    for number in 0..30 {
        world.write(&format!("w/.odd/f{number}"), "x");
    }
    let limit = |max: &'static str| [WORD[0], WORD[1], "--hidden-scan-max", max];
    world.run(limit("31").into_iter().chain(["true"])).done().is(0, "", "");
    world.run(limit("30").into_iter().chain(["true"])).done().refused(125, &["30", "--hidden-scan-max", "w/.odd'"]);
    world.run(["--hidden-scan-max", "1", "true"]).done().is(0, "", "");
    let Some(git) = find("git") else { return skip("git", "there is no git") };
    world.call(git, ["init", "-q", "w/.odd/repo"]).cwd(world.path("")).done().code(0);
    let hook = "echo true >.odd/repo/.git/hooks/pre-commit";
    let done = world.sh(["-w", "."].iter().chain(&WORD), hook).done();
    assert_ne!(done.code, Some(0), "{}", done.stderr);
    world.sh(["-w", "."].iter().chain(&WORD), "echo x >.odd/repo/.git/description").done().is(0, "", "");
}

#[test]
fn it_is_explained() {
    let world = world();
    let explain = |words: &[&str]| {
        let paths = ["--explain", ".state", "--explain", ".odd/.env"];
        let json = world.run([words, &paths, &["--json"]].concat()).done().code(0).out();
        let json: serde_json::Value = serde_json::from_str(&json).expect(&json);
        [0, 1].map(|path| json["paths"][path]["visible"].as_bool().unwrap())
    };
    assert_eq!(explain(&[]), [false, false]);
    assert_eq!(explain(&WORD), [true, false]);
    assert_eq!(explain(&["--show-hidden", "*"]), [true, true]);
    let text = world.run([&WORD[..], &["--explain", ".odd/.env"]].concat()).done().code(0).out();
    assert!(text.contains("--show-hidden '.env' shows all of that name"), "{text}");
}

#[test]
fn other_words_are_refused_with_those_there_are() {
    let world = World::new();
    for word in ["all", "all-but-secret", "All-But-Secrets", "none", "default"] {
        world.run(["--show-hidden", word, "true"]).done().refused(125, &[word, "'all-but-secrets'", "'*'"]);
        world.write("p.toml", format!("cwd_allow_hidden = ['{word}']\n"));
        if word != "default" {
            let done = world.run(["--policy", "../p.toml", "true"]).done();
            done.refused(125, &[word, "'all-but-secrets' stands for all but well-known secrets"]);
        }
    }
}

/// The line that names what a command may have missed.
fn told(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| line.contains("what an earlier run left")).collect()
}

#[test]
fn a_failure_names_what_an_earlier_run_may_have_left() {
    let world = World::new();
    for name in ["w/.a", "w/.env", "w/.git/x", "w/out/.b", "w/out/.ssh/id", "w/out/.c", "w/out/.d"] {
        world.write(name, "x");
    }
    let fail = |words: &[&str]| world.sh(words.iter().copied(), "exit 3").done().code(3);
    // What it could have written comes first.
    let done = fail(&["-v", "-w", "out"]);
    let [b, c, d] = ["b", "c", "d"].map(|name| world.text(&format!("w/out/.{name}")));
    let [line] = told(&done.stderr)[..] else { panic!("{}", done.stderr) };
    assert!(line.ends_with(&format!(": '{b}', '{c}', '{d}', +1 more")), "{line}");
    assert!(line.contains("'--show-hidden all-but-secrets' shows them"), "{line}");
    // Those who did not ask hear nothing, and neither do those who cannot be concerned.
    for words in [&[][..], &["-q"]] {
        fail(words).stderr("");
    }
    for words in [&["-v", "-b", "none", "--net", "host"][..], &["-v", "--show-hidden", "*"], &["-v", WORD[0], WORD[1]]]
    {
        assert!(told(&fail(words).stderr).is_empty(), "{words:?}");
    }
    assert!(told(&world.run(["-v", "true"]).done().code(0).stderr).is_empty());
    // What a mask, a grant or a list decides about is not among them, and secrets alone are no suspects.
    let one = fail(&["-v", "--mask", "out", "-r", "out/.b"]);
    assert!(told(&one.stderr)[0].ends_with(&format!(": '{}'", world.text("w/.a"))), "{}", one.stderr);
    let none = fail(&["-v", "--mask", "out", "--show-hidden", ".a"]);
    assert!(told(&none.stderr).is_empty() && none.stderr.contains("/.env'"), "{}", none.stderr);
}
