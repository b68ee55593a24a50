//! A printed policy reads back as the same policy, in each form, and the hash knows each difference that means something.

use std::fs::File;

use crate::harness::{Call, World, about_bwrap};
use crate::wire::Record;

/// A dry run without who decided what: the list of settings, and the brackets of a note.
fn plan(call: Call) -> String {
    let out = call.done().code(0).out();
    let lines = out.lines().filter(|line| !line.starts_with("setting: "));
    let lines = lines.map(|line| match (line.starts_with("note: "), line.find(" ("), line.find(')')) {
        (true, Some(from), Some(to)) => format!("{}{}", &line[..from], &line[to + 1..]),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn hash(call: Call) -> String {
    let done = call.done().code(0);
    let out: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let hash = out["policy_sha256"].as_str().expect("hash").to_owned();
    assert!(hash.len() == 64 && hash.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c)), "{hash}");
    hash
}

/// A world with everything that the command lines name.
pub fn world() -> World {
    let world = World::new();
    for file in ["w/key", "w/.env", "w/.git/HEAD", "w/sub/file", "o/file", "o/dir/x", "home/data/x", "home/.cache/x"] {
        world.write(file, "x");
    }
    // Nobody answers, but it is a socket.
    drop(std::os::unix::net::UnixListener::bind(world.path("o/sock")).expect("socket"));
    world.write("w/vars", "FROM_FILE=one two\n");
    world
}

/// Command lines of all kinds, with whether a payload has a place for all they say.
pub const LINES: [(&str, bool); 30] = [
    ("", false),
    ("-b bwrap -e X --no-default-env", false),
    ("-w .", false),
    ("-r ../o -w sub", false),
    ("-r ~/data --read-try /nowhere -r ../o/file", false),
    ("-w sub --write-try /nowhere", false),
    ("-w ../o/../o/dir -r ../w/../w/sub", false),
    ("-w new/deep --create-missing", false),
    ("--mask key --mask ~/.cache -r ~", false),
    ("-w . --protect .git --protect sub", false),
    ("-C sub -r ../../o -w .", false),
    ("-C ../o", false),
    ("--tmp-size 64M", false),
    ("--show-hidden .env --show-hidden .git --hidden-scan-max 70000 --hidden-scan-overflow warn", false),
    ("--tmp-size 4096 --kill-after 250ms --new-session always", false),
    ("--net host --allow-gap sockets", false),
    ("--net off", false),
    ("--deny-socket /run/x.sock --allow-socket ../o/sock", false),
    ("-e A=1 -e B= -e C=a=b -e MY_* -e HOME", false),
    ("--no-default-env -e PATH", false),
    ("--no-default-env", false),
    ("--env-file vars -e LANG=C", false),
    ("--keep-fd 3 --keep-fd 4 --keep-jobserver", false),
    ("-b auto,none --allow-gap masks,network", false),
    ("-q -b none", false),
    ("-q -b none --net host", true),
    ("-p build -p rust -e X=1 --mask key", false),
    ("--timeout 1.5 --cpu-time 5m --max-open-files 64 --max-file-size 0 --core 0 --address-space 4G", false),
    ("--max-output 1000 --output-overflow kill --memory 64M --max-procs 9 --allow-gap memory,procs", false),
    ("-p strict --timeout 0 --output-overflow truncate --core 1M", false),
];

/// What is made and what must be there stay apart in print, in the hash and in what the printed file does.
#[test]
fn each_write_grant_keeps_what_a_missing_path_means() {
    let world = World::new();
    world.write("w/p.toml", "create_missing = true\nwrite_roots = ['one']\n");
    world.write("w/q.toml", "write_roots_create = ['one']\n");
    let mixed = ["--policy", "p.toml", "-w", "two"];
    let one = "write_roots_create = [\n    \"one\",  # from ";
    let two = "write_roots = [\n    \"two\",  # from --write\n]\n";
    let printed = |words: &[&str], form: &str| world.run([words, &[form]].concat()).done().code(0).stderr("").out();
    let text = printed(&mixed, "--print-policy=toml");
    assert!(text.contains(one) && text.contains(two) && !text.contains("create_missing"), "{text}");
    assert!(printed(&["--policy", "p.toml"], "--print-policy").contains(&format!("{one}p.toml\n]\n")));
    assert!(printed(&["--create-missing", "-w", "one"], "--print-policy").contains(&format!("{one}--write\n]\n")));
    world.run([&mixed[..], &["--print-policy=payload"]].concat()).done().refused(125, &["write_roots_create"]);

    for (form, name) in [("--print-policy=toml", "o/m.toml"), ("--print-policy=json", "o/m.json")] {
        let file = world.write(name, printed(&mixed, form));
        let from = ["--policy", file.to_str().unwrap()];
        let run = |words: &[&str]| world.run([words, &["touch", "one/f"]].concat());
        for words in [&mixed[..], &from] {
            run(words).done().refused(125, &["two", "no such file"]);
            assert!(!world.has("w/one"), "{words:?}");
        }
        std::fs::create_dir(world.path("w/two")).unwrap();
        run(&from).done().is(0, "", "");
        assert!(world.has("w/one/f"));
        for made in ["w/one", "w/two"] {
            std::fs::remove_dir_all(world.path(made)).unwrap();
        }
    }

    std::fs::create_dir(world.path("w/two")).unwrap();
    let of = |words: &[&str]| hash(world.run([words, &["--dry-run=json", "true"]].concat()));
    let by_file = of(&mixed);
    assert_eq!(of(&["--policy", "q.toml", "-w", "two"]), by_file);
    assert_eq!(of(&["--policy", "../o/m.toml"]), by_file);
    assert_eq!(of(&["--policy", "../o/m.json"]), by_file);
    // The same two paths, made both or the other one.
    assert_ne!(of(&["--create-missing", "-w", "one", "-w", "two"]), by_file);
    world.write("w/r.toml", "create_missing = true\nwrite_roots = ['two']\n");
    std::fs::create_dir(world.path("w/one")).unwrap();
    let (other, neither) = (of(&["--policy", "r.toml", "-w", "one"]), of(&["-w", "one", "-w", "two"]));
    assert!(other != by_file && neither != by_file && other != neither);
    assert_eq!(of(&mixed), by_file);
}

/// What widens a run is never silent: each item of a list has its origin, in print and in the plan.
#[test]
fn each_item_of_a_list_says_who_wants_it() {
    let world = World::new();
    world.write("w/p.toml", "allow_gaps = ['memory', 'procs']\nkeep_fds = [5]\n");
    let words = ["--policy", "p.toml", "--allow-gap", "cpu,procs", "--keep-fd", "4"];
    let call = |words: &[&str]| {
        let open = || std::fs::File::open("/dev/null").unwrap();
        world.run(words).fd(open(), 4).fd(open(), 5)
    };
    let printed = call(&[&words[..], &["--print-policy=toml"]].concat()).done().code(0).out();
    let gaps = [r#""memory",  # from p.toml"#, r#""cpu",  # from --allow-gap"#, r#""procs",  # from --allow-gap"#];
    for line in gaps.into_iter().chain(["4,  # from --keep-fd", "5,  # from p.toml"]) {
        assert!(printed.contains(&format!("\n    {line}\n")), "{line}: {printed}");
    }
    let plan = call(&[&words[..], &["--dry-run", "true"]].concat()).done().code(0).out();
    for line in [
        "allow gap 'memory' from p.toml",
        "allow gap 'cpu' from --allow-gap",
        "allow gap 'procs' from --allow-gap",
        "keep descriptor 4 from --keep-fd",
        "keep descriptor 5 from p.toml",
    ] {
        assert!(plan.contains(&format!("\nsetting: {line}\n")), "{line}: {plan}");
    }
    let plan = call(&[&words[..], &["--dry-run=json", "true"]].concat()).done().code(0).out();
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    let settings = plan["settings"].as_array().unwrap();
    for expected in [
        serde_json::json!({"setting": "allow gap", "protection": "memory", "from": "p.toml"}),
        serde_json::json!({"setting": "keep descriptor", "descriptor": 4, "from": "--keep-fd"}),
    ] {
        assert!(settings.contains(&expected), "{expected}: {settings:#?}");
    }
    world.run(["--policy", "p.toml", "true"]).done().refused(125, &["5", "p.toml", "not open"]);
}

#[test]
fn what_is_printed_reads_back() {
    let world = world();
    let null = || File::open("/dev/null").expect("null");
    for (line, payload) in LINES {
        let words: Vec<&str> = line.split_whitespace().collect();
        let run = |more: &[&str]| world.run([&words, more].concat()).env("MY_OWN", "1").fd(null(), 3).fd(null(), 4);
        let again = |source: &[&str], more: &[&str]| {
            let quiet: &[&str] = if line.contains("-q") { &["-q"] } else { &[] };
            world.run([quiet, source, more].concat()).env("MY_OWN", "1").fd(null(), 3).fd(null(), 4)
        };
        let expected = plan(run(&["--dry-run", "--", "touch", "ran"]));
        let sha = hash(run(&["--dry-run=json", "touch", "ran"]));
        for (form, name) in
            [("--print-policy", "p.toml"), ("--print-policy=toml", "p.toml"), ("--print-policy=json", "p.json")]
        {
            let text = run(&[form, "touch", "ran"]).done().code(0).stderr("").out();
            assert!(!world.has("w/ran"), "{line}");
            assert_eq!(run(&[form]).done().code(0).out(), text, "the command is no part of it");
            let file = world.write(name, &text);
            let file = file.to_str().unwrap();
            assert_eq!(
                plan(again(&["--policy", file], &["--dry-run", "--", "touch", "ran"])),
                expected,
                "{line}\n{text}"
            );
            assert_eq!(hash(again(&["--policy", file], &["--dry-run=json", "touch", "ran"])), sha, "{line}\n{text}");
            // Standard input says nothing of its form.
            let piped = again(&["--policy", "-"], &["--dry-run=json", "touch", "ran"]).stdin(text.clone());
            assert_eq!(hash(piped), sha, "{line}");
            // And once more: the same, to the byte where no origin is in it.
            let second = again(&["--policy", file], &[form]).done().code(0).stderr("").out();
            let bare = |text: &str| {
                text.lines().map(|line| line.split("  # ").next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
            };
            assert_eq!(bare(&second), bare(&text), "{line}");
        }
        let done = run(&["--print-policy=payload", "touch", "ran"]).done();
        if payload || done.code == Some(0) {
            let text = done.code(0).stderr("").out();
            let text = text.strip_suffix('\n').expect("one line");
            let source = ["--policy-payload", text];
            // A payload names one backend: of those of auto the first, and that alone tells it apart.
            let apart = |text: &str| {
                text.lines().filter(|line| !line.starts_with("policy sha256: ")).collect::<Vec<_>>().join("\n")
            };
            let found = plan(again(&source, &["-q", "--dry-run", "--", "touch", "ran"]));
            assert_eq!(apart(&found), apart(&expected), "{line}");
            if !run(&["--print-policy"]).done().out().contains("backend_type = \"bwrap,namespace,landlock\"") {
                assert_eq!(hash(again(&source, &["-q", "--dry-run=json", "touch", "ran"])), sha, "{line}");
            }
        } else {
            done.refused(125, &["as a payload: ", "has no place for "]).stderr_has("hint: --print-policy=toml");
        }
    }
}

/// The same policy as options, TOML, JSON and payload.
#[test]
fn four_spellings_of_one_policy() {
    if about_bwrap("the policy has the default list of backends") {
        return;
    }
    let world = world();
    let (w, o) = (world.text("w"), world.text("o"));
    let allowed = ["-e", "PATH", "-e", "TMP", "-e", "TMPDIR", "-e", "TEMP", "-e", "TEMPDIR"];
    let options =
        [&["-b", "bwrap", "--no-default-env", "-r", "../o", "-w", ".", "--mask", "key"], &allowed[..]].concat();
    let toml = format!(
        "backend_type = 'bwrap'\nspawn_env_allowlist = ['PATH']\nwrite_roots = ['{w}']\nread_roots = ['{o}']\nmask_paths = ['key']"
    );
    let json = format!(
        r#"{{"mask_paths": ["{w}/key"], "env_default": false, "read_roots": ["../o/"], "write_roots": ["."],
        "env": ["TMPDIR", "TEMPDIR", "TMP", "TEMP", "PATH"], "backend_type": "linux_bwrap", "allow_network": false}}"#
    );
    let record = Record::new(&world).with("read_roots", format!("[\"{o}\"]"));
    let record = record.with("mask_paths", format!("[\"{w}/key\"]")).with("spawn_env_allowlist", r#"["PATH"]"#);
    let record = record.with("cwd_allow_hidden", "null").with("cwd_hidden_scan_max_entries", "500000");
    world.write("p.toml", &toml);
    world.write("p.json", &json);
    let dry = ["--dry-run=json", "true"];
    let by_options = hash(world.run([&options[..], &dry].concat()));
    assert_eq!(hash(world.run([&["--policy", "../p.toml"], &dry[..]].concat())), by_options);
    assert_eq!(hash(world.run([&["--policy", "../p.json"], &dry[..]].concat())), by_options);
    assert_eq!(hash(world.run([&["--policy-payload", &record.text()], &dry[..]].concat())), by_options);
    let key = format!("{w}/key");
    // From elsewhere too, since what is hashed is what was meant.
    let absolute =
        [&["-b", "bwrap", "--no-default-env", "-r", &o, "-w", &w, "--mask"][..], &[&*key][..], &allowed[..]].concat();
    assert_eq!(hash(world.run([&absolute[..], &dry].concat()).cwd("/")), by_options);
    let plans: Vec<_> =
        [&options[..], &["--policy", "../p.toml"], &["--policy", "../p.json"], &["--policy-payload", &record.text()]]
            .iter()
            .map(|source| plan(world.run([source, &["--dry-run", "true"][..]].concat())))
            .collect();
    assert!(plans.iter().all(|other| *other == plans[0]), "{plans:#?}");
}

/// Each line says something else; two spellings of one meaning do not.
#[test]
fn the_hash_tells_policies_apart() {
    if about_bwrap("the policy has the default list of backends") {
        return;
    }
    let world = world();
    let of = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().chain(["--dry-run=json", "true"]).collect();
        hash(world.run(words).fd(File::open("/dev/null").expect("null"), 3))
    };
    let mut seen = std::collections::BTreeMap::new();
    for line in [
        "-r ../o/dir -r ../o/file",
        "-r ../o/dir",
        "-w ../o/dir",
        "--read-try ../o/dir",
        "--mask ../o/dir",
        "--protect ../o/dir",
        "--deny-socket ../o/dir",
        "--allow-socket ../o/sock",
        "",
        "-C sub",
        "-b bwrap,none",
        "--allow-gap sockets",
        "--net host --allow-gap sockets",
        "--tmp-size 64M",
        "--kill-after 3s",
        "--timeout 3s",
        "--timeout 4s",
        "--memory 64M --allow-gap memory",
        "--cpu-time 3",
        "--max-procs 3 --allow-gap procs",
        "--max-file-size 0",
        "--max-file-size 3",
        "--max-open-files 33",
        "--address-space 3G",
        "--core 0",
        "--core 3",
        "--max-output 0",
        "--max-output 3",
        "--max-output 3 --output-overflow kill",
        "--show-hidden .npmrc",
        "--show-hidden *",
        "--hidden-scan-max 60000",
        "--hidden-scan-overflow warn --hidden-scan-max 60000",
        "--hidden-scan-overflow unlimited",
        "-b bwrap,none --tmp-size 1G",
        "-b bwrap,none --show-hidden .npmrc",
        "--new-session always",
        "--keep-fd 3",
        "--keep-jobserver",
        "-e A",
        "-e A=",
        "-e A=1",
        "-e A_*",
        "--no-default-env",
    ] {
        if let Some(other) = seen.insert(of(line), line) {
            panic!("the same hash: {line:?} and {other:?}");
        }
    }
    for (line, other) in [
        ("-r ../o/dir -r ../o/file", "-r ../o/file -r ../o//dir/"),
        ("--net off", ""),
        ("--kill-after 2s", "--kill-after 2000ms"),
        ("--timeout 0", ""),
        ("--timeout 60", "--timeout 1m"),
        ("--cpu-time 60", "--cpu-time 60000ms"),
        ("--core 4096", "--core 4KiB"),
        ("--output-overflow truncate", ""),
        ("--output-overflow kill", ""),
        ("--tmp-size 1G", ""),
        ("--tmp-size 1G -b bwrap,none -w .", "-b bwrap,none -w ."),
        ("--show-hidden .git --show-hidden .eslintrc.js", ""),
        ("--show-hidden .git --show-hidden .npmrc", "--show-hidden .npmrc"),
        ("-b bwrap,none --show-hidden .git", "-b bwrap,none"),
        ("--show-hidden * --hidden-scan-max 5 --hidden-scan-overflow warn", "--show-hidden *"),
        ("--hidden-scan-overflow unlimited --hidden-scan-max 5", "--hidden-scan-overflow unlimited"),
        ("-b auto", ""),
        ("-e A=0 -e A=1", "-e A=1"),
        ("-v -r ~/data", "-r ~/data"),
    ] {
        assert_eq!(of(line), of(other), "{line:?} and {other:?}");
    }
}

/// What is only the default counts as asked for under `none` once somebody has said it: the policies do different things.
#[test]
fn what_hashes_the_same_does_the_same_under_none() {
    let world = World::new();
    let none = ["-q", "-b", "none", "--net", "host"];
    world.run([&none[..], &["--tmp-size", "1G", "true"]].concat()).done().refused(125, &["files-write"]);
    world.run([&none[..], &["true"]].concat()).done().is(0, "", "");
    world.run([&none[..], &["--show-hidden", ".git", "true"]].concat()).done().is(0, "", "");
    // To show more is no demand, neither here nor in the file that it becomes; a list that counts alone is one.
    world.run([&none[..], &["--show-hidden", ".other", "true"]].concat()).done().is(0, "", "");
    let printed =
        world.run([&none[..], &["--show-hidden", ".other", "--print-policy=toml"]].concat()).done().code(0).out();
    world.write("w/p.toml", &printed);
    world.run(["-q", "--policy", "p.toml", "true"]).done().is(0, "", "");
    world.write("w/p.toml", printed.replace("\"default\", ", ""));
    world.run(["-q", "--policy", "p.toml", "true"]).done().refused(125, &["masks"]);
}

/// A list that a document asks for is asked for by the payload that it becomes.
#[test]
fn a_demand_survives_the_payload() {
    let world = World::new();
    world.write("w/p.toml", "backend_type = 'none'\nallow_network = true\ncwd_allow_hidden = ['.git']\n");
    let print = ["-q", "--policy", "p.toml", "--print-policy=payload"];
    let payload = world.run(print).done().code(0).out();
    let again = |words: &[&str]| world.run([&["-q", "--policy-payload", payload.trim_end()], words].concat()).done();
    again(&["--print-policy=payload"]).is(0, &payload, "");
    world.run(["-q", "--policy", "p.toml", "true"]).done().refused(125, &["masks"]);
    again(&["true"]).refused(125, &["masks"]);
    again(&["--allow-gap", "masks", "true"]).is(0, "", "");
    // What was not said asks for nothing.
    world.write("w/p.toml", "backend_type = 'none'\nallow_network = true\n");
    let payload = world.run(print).done().code(0).out();
    world.run(["-q", "--policy-payload", payload.trim_end(), "true"]).done().is(0, "", "");
}

/// A long command line becomes a file with a reason behind each line.
#[test]
fn a_long_command_line_becomes_a_file() {
    let world = world();
    let words = "-r ../../o --read-try ~/.rustup -w .. --protect ../.git --mask ../.env --tmp-size 64M --kill-after 5s -e CI=1 -e MY_* \
        --deny-socket /run/docker.sock --new-session never -C sub";
    let words: Vec<&str> = words.split_whitespace().collect();
    let text = world.run([&words[..], &["--print-policy=toml"]].concat()).done().code(0).out();
    for (key, origin) in [
        ("tmp_size = \"64M\"", "--tmp-size"),
        ("kill_after = \"5s\"", "--kill-after"),
        ("new_session = \"never\"", "--new-session"),
    ] {
        assert!(text.contains(&format!("{key}  # from {origin}\n")), "{text}");
    }
    assert!(
        text.contains("# from --protect") && text.contains("# from --mask") && text.contains("# from --read"),
        "{text}"
    );
    let file = world.write("o/policy.toml", &text);
    let file = file.to_str().unwrap();
    let script = [
        "--",
        "sh",
        "-c",
        "pwd; env | sort; cat ../../o/secret; cat ../key ../.env; touch ../made; touch ../.git/x; ls -A /tmp",
    ];
    let run = |source: &[&str], dir: &str| world.run([source, &script].concat()).cwd(dir).env("MY_OWN", "1").done();
    let (w, elsewhere) = (world.text("w"), world.text("home"));
    let first = run(&words, &w);
    let second = run(&["--policy", file], &w);
    assert_eq!((first.code, first.out(), &first.stderr), (second.code, second.out(), &second.stderr));
    assert!(second.out().contains("s3cret") && second.out().contains("CI=1") && second.out().contains("MY_OWN=1"));
    // Its paths stand as they were written, so elsewhere it means what lies there.
    std::fs::create_dir_all(world.path("home/sub")).unwrap();
    for (name, text) in [("home/key", "k"), ("home/.env", "x"), ("home/.git/HEAD", "x")] {
        world.write(name, text);
    }
    let third = run(&["--policy", file], &elsewhere);
    assert_eq!(third.out().lines().next(), Some(&*world.text("home/sub")));
    assert!(third.out().contains("s3cretk") && world.has("home/made"), "{} {}", third.out(), third.stderr);
}

/// A printed file goes along with a project: to another directory, and to somebody else's HOME.
#[test]
fn paths_are_printed_as_they_were_written() {
    let world = world();
    world.write("w/p.toml", "read_roots = ['~/data', '/usr/share']\nmask_paths = ['./key', 'sub/../.env']\n");
    let words = ["--policy", "p.toml", "-w", ".", "-r", "../o/file", "--protect", "sub/", "-C", "../w"];
    for (form, name) in [("--print-policy=toml", "policy.toml"), ("--print-policy=json", "policy.json")] {
        let text = world.run([&words[..], &[form]].concat()).done().code(0).stderr("").out();
        for path in ["~/data", "/usr/share", "./key", "sub/../.env", ".", "../o/file", "sub/", "../w"] {
            assert!(text.contains(&format!("\"{path}\"")), "{path}: {text}");
        }
        assert!(!text.contains(&world.text("")), "{text}");
        let file = world.write(&format!("o/{name}"), &text);
        let again = |more: &[&str]| world.run([&["--policy", file.to_str().unwrap()], more].concat());
        let second = again(&[form]).done().code(0).stderr("").out();
        let bare =
            |text: &str| text.lines().map(|line| line.split("  # ").next().unwrap().to_owned()).collect::<Vec<_>>();
        assert_eq!(bare(&second), bare(&text));
        let of = |call: Call| hash(call);
        assert_eq!(
            of(again(&["--dry-run=json", "true"])),
            of(world.run([&words[..], &["--dry-run=json", "true"]].concat()))
        );
        // The same words in another project of somebody with another HOME.
        for (at, content) in [
            ("w/home2/data/x", "mine"),
            ("w/p/w/key", "k"),
            ("w/p/w/sub/f", "f"),
            ("w/p/w/.env", "E"),
            ("w/p/o/file", "other"),
        ] {
            world.write(at, content);
        }
        let script =
            ["--", "sh", "-c", "cat ~/data/x ../o/file key .env; echo x >made; echo x >sub/f || echo protected"];
        let done = again(&script).cwd(world.path("w/p/w")).env("HOME", world.path("w/home2")).done().code(0);
        assert_eq!(done.out(), "mineotherprotected\n", "{}", done.stderr);
        std::fs::remove_dir_all(world.path("w/p")).unwrap();
        std::fs::remove_dir_all(world.path("w/home2")).unwrap();
    }
    // What cannot be resolved is a mistake in any form, and a payload has absolute paths only.
    for form in ["toml", "json", "payload"] {
        let form = format!("--print-policy={form}");
        world.run(["-r", "~nobody/x", &form]).done().refused(125, &["~nobody/x"]);
    }
    let payload =
        world.run(["-q", "-b", "none", "--net", "host", "-r", "~/data", "--print-policy=payload"]).done().code(0);
    let text = String::from_utf8(
        base64::Engine::decode(
            &base64::prelude::BASE64_URL_SAFE_NO_PAD,
            payload.out().trim_end().trim_end_matches('='),
        )
        .unwrap(),
    );
    assert!(text.unwrap().contains(&world.text("home/data")));
}
