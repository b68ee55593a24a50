//! Where a policy may come from: what was named, by one way at a time, and nothing that lies about.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;

use crate::harness::{World, about_bwrap, eventually, is_root, program};
use crate::wire::{Record, call, descriptor, fixtures};

/// A policy file and a payload of the same meaning.
fn same(world: &World) -> (String, Record) {
    let (w, o) = (world.text("w"), world.text("o"));
    let file = format!(
        "backend_type = \"bwrap\"\nread_roots = [\"{o}\"]\nwrite_roots = [\"{w}\"]\nallow_network = false\n\
         cwd_allow_hidden = []\ncwd_hidden_scan_max_entries = 50000\ncwd_hidden_scan_overflow = \"error\"\n\
         cwd_hidden_scan_recursive = true\nspawn_env_allowlist = [\"HOME\", \"PATH\"]\n"
    );
    (file, Record::new(world).with("read_roots", format!("[\"{o}\"]")))
}

/// A dry run without what says where a setting came from.
fn plan(text: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once(" from ") {
        Some((setting, _)) if line.starts_with("setting: ") => setting,
        _ => line,
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// The masks of the first file must not go with it.
#[test]
fn a_second_policy_is_refused() {
    let world = World::new();
    world.write("w/a.toml", "mask_paths = [\"b.toml\"]\n");
    world.write("w/b.toml", "allow_network = false\n");
    for words in [
        ["--policy", "a.toml", "--policy", "b.toml"],
        ["--policy", "-", "--policy", "b.toml"],
        ["--policy-payload", "e30", "--policy-payload", "e30"],
        ["--policy", "a.toml", "--policy-fd", "3"],
    ] {
        world.run(words.iter().copied().chain(["true"])).done().refused(125, &[words[0], words[2], "exclude"]);
    }
    world.run(["--policy", "a.toml", "cat", "b.toml"]).done().is(0, "", "");
}

#[test]
fn four_ways_to_the_same_plan() {
    let world = World::new();
    let (toml, record) = same(&world);
    let payload = record.text();
    let file = world.write("p/policy.toml", &toml);
    let file = file.to_str().unwrap();
    let script = "cat ../o/secret; touch here && echo made; touch ../o/x 2>/dev/null || echo kept; echo $LANG";
    let expected = "s3cretmade\nkept\n\n";
    let mut plans = Vec::new();
    for tail in [&["--dry-run", "true"][..], &["--", "sh", "-c", script]] {
        let by_file = |name: &str| world.run([&["--policy", name], tail].concat());
        let ways = [
            world.run([&["--policy-payload", &payload], tail].concat()),
            call(&world, payload.as_bytes(), tail),
            by_file(file),
            by_file("../p/policy.toml"),
            by_file("-").stdin(toml.clone()),
        ];
        for way in ways {
            let done = way.done().code(0).stderr("");
            if tail[0] == "--" {
                done.stdout(expected);
            } else {
                plans.push(plan(&done.out()));
            }
        }
    }
    for other in &plans[1..] {
        assert_eq!(&plans[0], other);
    }
    assert!(plans[0].contains("policy sha256: "), "{}", plans[0]);
}

#[test]
fn one_way_at_a_time() {
    let world = World::new();
    let (toml, record) = same(&world);
    let payload = record.text();
    world.write("policy.toml", &toml);
    let ways = [
        ["--policy-payload", payload.as_str()],
        ["--policy-fd", "3"],
        ["--policy", "../policy.toml"],
        ["--policy", "-"],
    ];
    let open = || File::open(world.write("payload", &payload)).expect("file");
    for (index, first) in ways.iter().enumerate() {
        let words = [&first[..], &["touch", "ran"]].concat();
        world.run(words).fd(open(), 3).stdin(toml.clone()).done().is(0, "", "");
        fs::remove_file(world.path("w/ran")).expect("control: each alone runs");
        for second in ways.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, way)| way) {
            // Twice the same option is the last one, as everywhere.
            if first[0] == second[0] {
                continue;
            }
            let words = [&first[..], second, &["touch", "ran"]].concat();
            world.run(words).fd(open(), 3).stdin(toml.clone()).done().refused(125, &[first[0], second[0]]);
            assert!(!world.has("w/ran"));
        }
    }
}

#[test]
fn a_source_that_cannot_be_read() {
    let world = World::new();
    let (toml, _) = same(&world);
    world.write("policy.toml", &toml);
    fs::set_permissions(world.write("closed.toml", &toml), fs::Permissions::from_mode(0o000)).expect("mode");
    world.write("large.toml", format!("{toml}#{}", "x".repeat(1 << 20)));
    let before = world.snapshot();
    for (source, words) in [
        (&["--policy", "../missing.toml"][..], &["'../missing.toml'", "no such file"][..]),
        (&["--policy", ".."], &["'..'", "is a directory"]),
        (&["--policy", ""], &["''"]),
        (&["--policy", "../large.toml"], &["../large.toml", "1048576"]),
        (&["--policy", "../policy.toml/x"], &["'../policy.toml/x'"]),
        (&["--policy-fd", "3"], &["descriptor 3", "bad file descriptor"]),
        (&["--policy-fd", "77"], &["descriptor 77", "bad file descriptor"]),
        (&["--policy-fd", "0"], &["'0'"]),
        (&["--policy-fd", "2"], &["'2'"]),
        (&["--policy-fd", "-1"], &["'-1'"]),
        (&["--policy-fd", "x"], &["'x'"]),
        (&["--policy-fd", "99999999999"], &["'99999999999'"]),
    ] {
        world.run([source, &["touch", "ran"]].concat()).done().refused(125, words);
    }
    assert_eq!(world.snapshot(), before, "something ran");
    let with_directory = descriptor(&world, File::open(world.path("o")).expect("directory"), &["touch", "ran"]);
    with_directory.done().refused(125, &["descriptor 3", "is a directory"]);
    let write_only = File::create(world.path("o/write-only")).expect("file");
    descriptor(&world, write_only, &["touch", "ran"]).done().refused(125, &["descriptor 3", "bad file descriptor"]);
    fs::remove_file(world.path("o/write-only")).expect("file");
    world.run(["--policy", "-", "touch", "ran"]).closed(&[0]).done().refused(125, &["'-'", "bad file descriptor"]);
    if is_root() {
        eprintln!("not as root: a file that cannot be read");
    } else {
        let done = world.run(["--policy", "../closed.toml", "touch", "ran"]).done();
        done.refused(125, &["'../closed.toml'", "permission denied"]);
    }
    world.run(["--policy", "../policy.toml", "cat", "../o/secret"]).done().is(0, "s3cret", "");
    assert!(!world.has("w/ran"));
}

/// Nothing at all on standard input says nothing: the defaults, not more.
#[test]
fn an_empty_document_is_the_defaults() {
    if about_bwrap("the policy has the default list of backends") {
        return;
    }
    let world = World::new();
    world.run(["--policy", "-", "cat", "../o/secret"]).done().code(1).stdout("");
    world.run(["--policy", "-", "touch", "ran"]).done().code(1).stdout("");
    world.run(["--policy", "/dev/null", "cat", "../o/secret"]).done().code(1).stdout("");
    let plain = world.run(["--dry-run", "true"]).done().code(0).out();
    world.run(["--policy", "-", "--dry-run", "true"]).done().is(0, &plain, "");
}

#[test]
fn two_hundred_kibibytes() {
    let world = World::new();
    let many = |count: usize| (0..count).map(|n| format!("/nowhere/{n:0>90}")).collect::<Vec<_>>();
    let list = serde_json::to_string(&many(2000)).unwrap();
    let record = Record::new(&world).with("mask_paths", &*list);
    assert!(record.text().len() > 200 << 10);
    call(&world, record.text().as_bytes(), &["touch", "ran"]).done().is(0, "", "");
    // A pipe holds less than that at a time.
    let words = format!("exec {} --policy-fd 3 touch piped 3<&0 < /dev/null", program().display());
    world.call("sh", ["-c", &words]).stdin(record.text()).done().is(0, "", "");
    let toml = format!("write_roots = ['.']\nmask_paths = {list}\n");
    world.run(["--policy", "-", "touch", "typed"]).stdin(toml).done().is(0, "", "");
    assert!(["ran", "piped", "typed"].iter().all(|file| world.has(&format!("w/{file}"))));
}

#[test]
fn the_target_meets_no_trace_of_the_source() {
    let world = World::new();
    let (toml, record) = same(&world);
    let payload = record.text();
    world.write("policy.toml", &toml);
    let see = ["--", "sh", "-c", "ls /proc/self/fd | wc -l; test -e /proc/self/fd/3 && echo three; cat; true"];
    let plain = world.run([&["-r", "../o"], &see[..]].concat()).done().code(0).out();
    call(&world, payload.as_bytes(), &see).done().is(0, &plain, "");
    world
        .run([&["--policy", "../policy.toml"], &see[..]].concat())
        .stdin("typed")
        .done()
        .stdout(&format!("{plain}typed"));
    // The document was all there is on standard input.
    world.run([&["--policy", "-"], &see[..]].concat()).stdin(toml.clone()).done().is(0, &plain, "");
    // A descriptor that is asked for twice can be read once.
    let kept = call(&world, payload.as_bytes(), &["--keep-fd", "3", "touch", "ran"]).done();
    kept.refused(125, &["3"]);
    assert!(!world.has("w/ran"));
}

/// Command lines of all processes of a run, for as long as the target sleeps.
#[test]
fn no_command_line_shows_the_policy() {
    let world = World::new();
    let (toml, _) = same(&world);
    let marked = world.dir("o/unlikely-name");
    let record = Record::new(&world).with("read_roots", format!("[\"{}\"]", marked.display()));
    let toml = toml.replace(&format!("\"{}\"", world.text("o")), &format!("\"{}\"", marked.display()));
    world.write("hidden-policy.toml", &toml);
    let target = ["--", "sh", "-c", "touch started; while ! test -e stop; do sleep 0.02; done; cat /proc/*/cmdline"];
    for way in ["fd", "file", "stdin"] {
        let call = match way {
            "fd" => call(&world, record.text().as_bytes(), &target),
            "file" => world.run([&["--policy", "../hidden-policy.toml"], &target[..]].concat()),
            _ => world.run([&["--policy", "-"], &target[..]].concat()).stdin(toml.clone()),
        };
        let running = call.spawn();
        assert!(eventually(|| world.has("w/started")), "{way}");
        let lines = tree(running.pid());
        fs::write(world.path("w/stop"), "").expect("stop");
        let done = running.done().code(0);
        // sandbox-run, the backend, the first process inside and the target.
        assert!(lines.len() >= 4, "{way}: {lines:?}");
        let own = lines.iter().filter(|line| line.contains("hidden-policy")).count();
        assert_eq!(own, usize::from(way == "file"), "only what was typed: {lines:?}");
        for line in lines.iter().map(String::as_str).chain([done.out().as_str()]) {
            assert!(!line.contains("unlikely-name") && !line.contains("eyJ"), "{way}: {line}");
        }
        done.stdout_lacks("hidden-policy");
        for file in ["started", "stop"] {
            fs::remove_file(world.path("w").join(file)).expect(file);
        }
    }
}

/// Command lines of a process and all below it.
fn tree(top: i32) -> Vec<String> {
    let all = crate::harness::processes();
    let mut pids = vec![top];
    let mut index = 0;
    while let Some(pid) = pids.get(index).copied() {
        pids.extend(all.iter().filter(|process| process.parent == pid).map(|process| process.pid));
        index += 1;
    }
    let line = |pid: &i32| {
        fs::read(format!("/proc/{pid}/cmdline")).map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
    };
    pids.iter().filter_map(|pid| line(pid).ok()).collect()
}

/// Each mistake with its place, key and what was probably meant; corrected, it runs.
#[test]
fn mistakes_in_files() {
    let world = World::new();
    let check = |name: &str, content: &str, words: &[&str]| {
        world.write(name, content);
        let path = format!("../{name}");
        let done = world.run(["--policy", &path, "touch", "ran"]).done();
        let first = done.stderr.lines().next().unwrap_or_default();
        assert!(first.starts_with(&format!("sandbox-run: cannot use {path}:")), "{content}\n{first}");
        done.refused(125, words);
        assert!(!world.has("w/ran"));
    };
    let fine = |name: &str, content: &str| {
        world.write(name, content);
        world.run(["--policy", &format!("../{name}"), "touch", "ran"]).done().is(0, "", "");
        fs::remove_file(world.path("w/ran")).expect("control: corrected, it runs");
    };
    for (content, place, words) in [
        ("write_roots = ['.']\nalowRead = ['/']", "2:1:", &["'alowRead'", "unknown", "did you mean 'read_roots'?"][..]),
        ("write_rots = ['.']", "1:1:", &["'write_rots'", "did you mean 'write_roots'?"]),
        ("\n\n   allow_netwrok = true", "3:4:", &["'allow_netwrok'", "did you mean 'allow_network'?"]),
        ("write_roots = '.'", "1:15:", &["'write_roots'", "list of paths", "string"]),
        ("write_roots = [\n  '.',\n  7,\n]", "3:3:", &["'write_roots'", "a path", "a number"]),
        ("write_roots = ['']", "1:16:", &["'write_roots'", "empty"]),
        ("allow_network = 'false'", "1:17:", &["'allow_network'", "true or false"]),
        ("[files]\nwrite_roots = ['.']", "1:2:", &["'files'", "unknown"]),
        ("[env_set]\nA = 'x'\nwrite_roots = ['.']", "3:1:", &["'write_roots'", "[env_set]"]),
        ("[env_set]\nA = 7", "2:5:", &["'env_set.A'", "a string", "a number"]),
        ("env_set = { B = 'x', A = [] }", "1:26:", &["'env_set.A'"]),
        ("write_roots = ['.']\nwrite_roots = ['.']", "2:1:", &["'write_roots'", "twice"]),
        ("[env_set]\nA = 'x'\nA = 'y'", "3:1:", &["'A'", "twice"]),
        ("kill_after = '2'", "1:14:", &["'kill_after'", "no unit"]),
        ("kill_after = 2", "1:14:", &["'kill_after'", "unit"]),
        ("tmp_size = '64'", "1:12:", &["'tmp_size'", "no unit"]),
        ("cwd_hidden_scan_max_entries = 0", "1:31:", &["'cwd_hidden_scan_max_entries'"]),
        ("keep_fds = [1]", "1:13:", &["'keep_fds'"]),
        ("backend_type = 'nosuch'", "1:16:", &["'backend_type'", "'nosuch'"]),
        ("write_roots = ['.'", "1:", &["not TOML"]),
        ("active = true", "1:1:", &["'active'"]),
        ("no_network = true", "1:1:", &["did you mean 'allow_network = false'?"]),
        ("env_allowlist = ['A']", "1:1:", &["did you mean 'spawn_env_allowlist'?"]),
        ("copy_on_write_roots = ['/']", "1:1:", &["copy-on-write is not available"]),
        ("timeout = '5M'", "1:11:", &["'5M' is not a duration (one number and one unit of ms, s, m, h)"]),
        ("allow_network = true\n\"allow\\u005fnetwork\" = true", "2:1:", &["'allow_network'", "twice"]),
        ("core = -0", "1:8:", &["'core'", "found -0"]),
        ("'$schema' = 'x'", "1:1:", &["'$schema' is for JSON", "#:schema"]),
        // A word of the alphabet of payloads is none under a name that says otherwise.
        ("eyJh", "1:5:", &["not TOML"]),
    ] {
        check("policy.toml", content, &[&[place][..], words].concat());
    }
    for (content, place, words) in [
        (
            "{\"write_roots\": [\".\"],\n \"alowRead\": [\"/\"]}",
            "2:2:",
            &["'alowRead'", "did you mean 'read_roots'?"][..],
        ),
        ("{\"write_roots\": \".\"}", "1:17:", &["'write_roots'", "list of paths"]),
        ("{\"write_roots\": null}", "1:17:", &["'write_roots'", "null"]),
        ("{\n\"write_roots\": [\n\".\", {}]}", "3:6:", &["'write_roots'", "a path"]),
        ("{\"files\": {\"write_roots\": [\".\"]}}", "1:2:", &["'files'", "unknown"]),
        ("{\"env_set\": {\"A\": 7}}", "1:19:", &["'env_set.A'"]),
        ("{\"workdir\": \"/\",\n\"workdir\": \"/\"}", "2:1:", &["'workdir'", "twice"]),
        ("{\"kill_after\": \"2\"}", "1:16:", &["'kill_after'", "no unit"]),
        ("{\"tmp_size\": 4096.0}", "1:14:", &["'tmp_size'"]),
        ("[]", "1:1:", &["table"]),
        ("{\"core\": -0}", "1:10:", &["'core'", "found -0"]),
        ("{\"$schema\": 7}", "1:13:", &["'$schema'", "a string"]),
        ("{\"env_set\": {\"$schema\": \"x\"}}", "1:14:", &["variable"]),
        ("eyJh", "1:1:", &["not JSON"]),
        ("{\"write_roots\": [\".\"]} x", "1:", &["not JSON"]),
        ("{\"write_roots\": [\".\"],}", "1:", &["not JSON"]),
        ("", "1:1:", &["not JSON"]),
    ] {
        check("policy.json", content, &[&[place][..], words].concat());
    }
    fine("policy.toml", "write_roots = ['.']\ntmp_size = '64M'\nkill_after = '2s'\n[env_set]\nA = 'x'\n");
    fine("policy.json", "{\"write_roots\": [\".\"], \"tmp_size\": \"64M\", \"env_set\": {\"A\": \"x\"}}");
    fine("policy.json", "{\"$schema\": \"../policy.schema.json\", \"write_roots\": [\".\"], \"core\": 0}");
    fine("policy.toml", "#:schema ../policy.schema.json\nwrite_roots = ['.']\ncore = +0");
    fine("policy", "{\"write_roots\": [\".\"]}");
    fine("policy", "write_roots = ['.']");
}

/// Variables of every option's name, files of likely names, and a profile called `default`: nothing of it counts.
/// However long what was written is, what is said about it can be read.
#[test]
fn no_message_is_longer_than_anybody_reads() {
    const MOST: usize = 600;
    let world = World::new();
    let long = "x".repeat(1_000_000);
    let (digits, zeros) = ("9".repeat(1_000_000), "0".repeat(1_000_000));
    let blanks = "x ".repeat(500_000);
    for (content, word) in [
        (format!("backend_type = '{long}'"), "'backend_type'"),
        (format!("extends = ['{long}']"), "p.toml:1:12"),
        (format!("allow_gaps = ['{long}']"), "'allow_gaps'"),
        (format!("new_session = '{blanks}'"), "'new_session'"),
        (format!("timeout = '{long}'"), "is not a duration"),
        (format!("timeout = '{blanks}'"), "is not a duration"),
        (format!("timeout = '{digits}'"), "no unit"),
        (format!("cpu_time = '{zeros}1ms'"), "whole number"),
        (format!("memory = '{long}'"), "is not a size"),
        (format!("memory = '{digits}m'"), "is not a size"),
        (format!("memory = '{digits}K'"), "63 bits"),
        (format!("memory = '{zeros}'"), "no unit"),
        (format!("memory = '{zeros}K'"), "16M"),
        (format!("env = ['{blanks}']"), "'env'"),
        (format!("spawn_env_allowlist = ['{long} ']"), "'spawn_env_allowlist'"),
        (format!("env_set.'{blanks}' = 'x'"), "'env_set"),
        (format!("cwd_allow_hidden = ['{long}']"), "'cwd_allow_hidden'"),
        (format!("cwd_allow_hidden = ['.{blanks}/']"), "'cwd_allow_hidden'"),
        (format!("read_roots = ['/{long}']"), "'/xxx"),
        (format!("workdir = '/{long}'"), "'/xxx"),
        (format!("{long} = 1"), "no plain word"),
        (format!("env_set.{long} = 1"), "a string"),
    ] {
        world.write("w/p.toml", &content);
        let done = world.run(["--policy", "p.toml", "true"]).done().refused(125, &[]);
        let line = done.stderr.lines().map(str::len).max().unwrap_or_default();
        let start: String = content.chars().take(40).collect();
        assert!(
            line < MOST && done.stderr.contains(word),
            "{start}: {line}\n{}",
            &done.stderr[..done.stderr.len().min(4000)]
        );
    }
    let long = "x".repeat(100_000);
    for option in [
        "--net",
        "--timeout",
        "--memory",
        "--cpu-time",
        "--max-procs",
        "--output-overflow",
        "--keep-fd",
        "--backend",
        "--hidden-scan-max",
        "--allow-gap",
        "--profile",
        "--policy",
        "--policy-fd",
        "--read",
        "--write",
        "--mask",
        "--show-hidden",
        "--workdir",
        "--allow-socket",
        "--env-file",
        "--result",
        "--result-fd",
        "--log-format",
        "--nosuch",
        "--dry-run",
    ] {
        let done = world.run([&format!("{option}={long}"), "true"]).done();
        let line = done.stderr.lines().map(str::len).max().unwrap_or_default();
        // What may be missing is no error.
        assert!(line < MOST && (line > 0 || option == "--mask"), "{option}: {line}");
    }
    for words in [
        &["-e", &format!("{long} ")][..],
        &["-e", &format!("SANDBOX_RUN_{long}")],
        &["--", &long],
        &["-b", "none", &long],
    ] {
        let done = world.run([words, &["true"]].concat()).done();
        let line = done.stderr.lines().map(str::len).max().unwrap_or_default();
        assert!(line > 0 && line < MOST, "{:?}: {line}", &words[0]);
    }
    let home = world.dir("home/.config/sandbox-run/profiles");
    fs::write(home.join("long.toml"), format!("# about {}\n", "x".repeat(900_000))).expect("file");
    let out = world.run(["-p", "help"]).done().code(0).stdout_has("about xxx").out();
    assert!(out.lines().all(|line| line.len() < MOST));
}

#[test]
fn nothing_lying_about_is_read() {
    let world = World::new();
    let weaker = "read_roots = ['/']\nwrite_roots = ['/']\nallow_gaps = ['sockets']\n";
    for dir in ["", "w/", "home/"] {
        for file in [
            "sandbox-run.toml",
            ".sandbox-run.toml",
            ".sandbox-run/policy.toml",
            ".sandbox-run/config.toml",
            ".sandbox-run/profiles/default.toml",
            ".config/sandbox-run/policy.toml",
            ".config/sandbox-run/config.toml",
            ".config/sandbox-run/profiles/default.toml",
            "policy.toml",
        ] {
            world.write(&format!("{dir}{file}"), weaker);
        }
    }
    world.write("xdg/sandbox-run/profiles/default.toml", weaker);
    world.write("xdg/sandbox-run/policy.toml", weaker);
    let help = world.run(["--help"]).done().code(0).out();
    let options = help.split_whitespace().filter_map(|word| word.strip_prefix("--"));
    let options = options.map(|word| word.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next().unwrap());
    let names: std::collections::BTreeSet<String> =
        options.filter(|name| !name.is_empty()).map(|name| name.to_uppercase().replace('-', "_")).collect();
    assert!(names.len() > 25 && names.contains("POLICY_PAYLOAD"), "{names:?}");
    let secret = ["cat", "../o/secret"];
    let plain = world.run(["--dry-run", "cat"]).done().code(0).out();
    for values in ["none", "/", "host", "1", "../policy.toml"] {
        let laden = |words: &[&str]| {
            let mut call = world.run(words).env("XDG_CONFIG_HOME", world.path("xdg"));
            for name in &names {
                call = call.env(format!("SANDBOX_RUN_{name}"), values);
            }
            call.env("SANDBOX_RUN_OPTIONS", "-b none").env("SANDBOX_RUN_CONFIG", world.path("policy.toml"))
        };
        laden(&secret).done().code(1).stdout("").stderr_has("No such file");
        laden(&["touch", "ran"]).done().code(1).stdout("");
        laden(&["-p", "nosuch", "true"]).done().refused(125, &["'nosuch'"]);
        assert!(!world.has("w/ran"));
        // Dropped variables are listed; all else is the same.
        let only = |text: &str| {
            text.lines()
                .filter(|line| {
                    !line.contains("variables dropped")
                        && !line.starts_with("  SANDBOX_RUN_")
                        && !line.starts_with("  XDG_")
                })
                .collect::<Vec<_>>()
                .join("\n")
        };
        let dry = laden(&["--dry-run", "cat"]).done().code(0).out();
        assert_eq!(only(&dry), only(&plain));
    }
    // One that the program knows: it only says more on standard error.
    let done = world.run(["echo", "x"]).env("SANDBOX_RUN_LOG", "debug").done().code(0).stdout("x\n");
    assert!(!done.stderr.is_empty());
    // The controls: named, the same file and the same profile count.
    for words in [&["-q", "--policy", "../policy.toml"][..], &["-q", "--policy", "policy.toml"]] {
        world.run([words, &secret].concat()).done().is(0, "s3cret", "");
    }
    world.write("xdg/sandbox-run/profiles/mine.toml", weaker);
    let mine = || world.run([&["-q", "-p", "mine"], &secret[..]].concat());
    mine().env("XDG_CONFIG_HOME", world.path("xdg")).done().is(0, "s3cret", "");
    mine().done().refused(125, &["'mine'"]);
}

/// Files that once were of interest: read without a crash, and never as something that gives more than it says.
#[test]
fn the_corpus_is_read_without_a_crash() {
    let world = World::new();
    let mut count = 0;
    for entry in fs::read_dir(fixtures("corpus")).expect("corpus") {
        let path = entry.expect("entry").path();
        count += 1;
        let name = path.to_str().expect("text");
        let as_file = world.run(["-w", ".", "--policy", name, "touch", "ran"]).done();
        let as_payload = descriptor(&world, File::open(&path).expect("file"), &["touch", "ran"]).done();
        for done in [as_file, as_payload] {
            done.refused(125, &[]);
        }
        assert!(!world.has("w/ran"), "{name}");
    }
    assert!(count >= 20, "{count}");
}

/// Whatever is read in full has an end: no endless or huge file costs the memory of the machine.
#[test]
fn what_has_no_end_is_refused() {
    let world = World::new();
    let sparse = |name: &str| {
        let path = world.write(name, "");
        fs::File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (huge, profile) = (sparse("o/huge"), sparse("o/config/sandbox-run/profiles/huge.toml"));
    // Less memory than half of the machine's, so that a reader without bounds fails and harms nobody.
    let call = |script: &str| {
        let words = ["-c".to_owned(), format!("ulimit -v 1000000; {script}"), program().display().to_string()];
        world.call("sh", words).env("XDG_CONFIG_HOME", world.path("o/config")).done()
    };
    for (options, name, limit) in [
        ("--env-file /dev/zero", "'/dev/zero' (--env-file)", "8388608 bytes"),
        (&format!("--env-file {huge}"), &huge, "8388608 bytes"),
        ("--policy /dev/zero", "/dev/zero", "1048576 bytes"),
        (&format!("--policy {huge}"), &huge, "1048576 bytes"),
        (&format!("--policy {huge}.json"), "huge.json", "no such file"),
        ("--policy - </dev/zero", "standard input", "1048576 bytes"),
        ("--policy-fd 3 3</dev/zero", "--policy-fd", "1048576 bytes"),
        ("--profile huge", &profile, "1048576 bytes"),
    ] {
        let (options, redirected) = options.split_once(" 3<").or(options.split_once(" <")).map_or_else(
            || (options.to_owned(), String::new()),
            |(before, file)| (before.to_owned(), format!("{}<{file}", if before.contains("-fd") { "3" } else { "" })),
        );
        call(&format!("exec \"$0\" {options} touch ran {redirected}")).refused(125, &[name, limit]);
        assert!(!world.has("w/ran"), "{options}");
    }
    // A writer that never stops.
    let endless =
        "mkfifo ../o/fifo; yes 'A=1' >../o/fifo & \"$0\" --env-file ../o/fifo touch ran; status=$?; wait; exit $status";
    call(endless).refused(125, &["../o/fifo", "8388608 bytes"]);
    // The controls: as long as may be, and the memory does for it.
    world.write("o/full", [&b"A=1\n#"[..], &vec![b'x'; (8 << 20) - 5]].concat());
    call("exec \"$0\" --env-file ../o/full sh -c 'echo $A'").is(0, "1\n", "");
    world.write("o/over", [&b"A=1\n#"[..], &vec![b'x'; (8 << 20) - 4]].concat());
    call("exec \"$0\" --env-file ../o/over touch ran").refused(125, &["../o/over", "8388608 bytes"]);
}
