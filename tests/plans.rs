//! `--dry-run`: what a command line comes to, in files that a reviewer can read. `BLESS=1` writes them anew.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use sandbox_run::plan::base::{self, macos};

use crate::fakes::first;
use crate::harness::{Call, World, about_bwrap, find, has_landlock, program, skip};

fn fixture(name: &str) -> PathBuf {
    let root = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(root).join("tests/fixtures/plans").join(format!("{name}.txt"))
}

/// A file of the machine's own, which differs from one machine to the next.
fn of_the_machine(path: &str) -> bool {
    let system = base::SYSTEM.iter().any(|name| path.trim_start_matches('/') == name.trim_start_matches('/'));
    let (etc, proc) = (path == "/etc" || path.starts_with("/etc/"), path.starts_with("/proc/"));
    let sys = path.starts_with("/sys/");
    // The home of whoever runs the tests.
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten();
    let home = user.is_some_and(|user| user.dir.parent().is_some() && Path::new(path).starts_with(user.dir));
    system || etc || proc || sys || home
}

/// The words of a launcher's options, one option a line, without those for files of the machine.
fn options(line: &str) -> String {
    let mut lines: Vec<Vec<&str>> = Vec::new();
    for word in line.split(' ') {
        // What says how to do the next operation goes with it.
        let modifies = |line: &Vec<&str>| ["--perms", "--size"].contains(&line[line.len().saturating_sub(2)]);
        match lines.last_mut() {
            Some(last) if !word.starts_with("--") || (last.len() > 1 && modifies(last)) => last.push(word),
            _ => lines.push(vec![word]),
        }
    }
    let kept = lines.iter().filter(|line| !line.last().is_some_and(|at| of_the_machine(at)));
    kept.flat_map(|line| ["  ".to_owned(), line.join(" "), "\n".to_owned()]).collect()
}

/// The lines of a profile, but for ancestors, which come of the other rules, and files of the machine: programs that the target and
/// we are started by, and secrets that lie on it.
fn profile(lines: &[&str], is_own: impl Fn(&str) -> bool) -> String {
    let mut kept: Vec<String> = Vec::new();
    let mut ancestors = false;
    for &line in lines {
        ancestors = line == "  ; ancestors" || (ancestors && !line.is_empty());
        let path = line.split('"').nth(1).unwrap_or_default();
        // A pattern of a path may stand for any.
        let path = path.trim_start_matches('^').trim_end_matches('$').trim_end_matches("(/|)");
        let plain = path.replace("[.]", ".");
        let of_system = macos::SYSTEM.iter().any(|(own, _)| *own == path)
            || macos::SECRETS.iter().any(|(own, _)| *own == path)
            || ["/etc", "/bin", "/sbin"].contains(&path);
        let elsewhere = plain.strip_prefix("/private").unwrap_or(&plain).to_ascii_lowercase();
        let elsewhere = folded(&elsewhere);
        let of_machine = of_the_machine(&elsewhere) || elsewhere.starts_with("/usr/") || elsewhere == "/run";
        if ancestors || is_own(line) || (line.starts_with("    (") && !of_system && of_machine) {
            // What it closed besides itself.
            let open = line.matches('(').count();
            let closed = line.matches(')').count();
            if let Some(last) = kept.last_mut().filter(|_| !ancestors && closed > open) {
                last.push(')');
            }
        } else {
            // That they stand for either case is tested elsewhere.
            kept.push(if line.contains("regex \"") { folded(line) } else { line.to_owned() });
        }
    }
    kept.into_iter().flat_map(|line| [line, "\n".to_owned()]).collect()
}

/// A pattern of a name in either case as the name.
fn folded(pattern: &str) -> String {
    let mut name = String::new();
    let mut rest = pattern;
    while let Some(char) = rest.chars().next() {
        let pair = rest.as_bytes();
        let letter = matches!(pair, [b'[', lower, upper, b']', ..] if lower.eq_ignore_ascii_case(upper));
        name.push(if letter { pair[1].into() } else { char });
        rest = &rest[if letter { 4 } else { char.len_utf8() }..];
    }
    name
}

/// A plan without what differs between machines and runs.
fn normalised(world: &World, text: &str) -> String {
    let mut text = text.to_owned();
    let own = fs::canonicalize(program()).expect("the program");
    let own = own.to_str().expect("text");
    if let Some((before, rules)) = text.split_once("\nprofile:\n") {
        // Where it stands among others depends on its name.
        let other = format!("/private{}", own.strip_prefix("/private").unwrap_or(own));
        let named = |line: &str| [own, &other].iter().any(|own| line.contains(&format!("(literal \"{own}\")")));
        let rules: Vec<_> = rules.lines().collect();
        let own = rules.iter().filter(|line| named(line)).count();
        assert!(own == 1 || (own == 0 && text.contains("setting: read '/'")), "our own file is shown, once");
        text = format!("{before}\nprofile:\n{}", profile(&rules, named));
    }
    for (name, sign) in [("w", "{w}"), ("o", "{o}"), ("home", "{home}")] {
        text = text.replace(&world.text(name), sign).replace(&world.text(name).to_lowercase(), sign);
    }
    text = text.replace(world.text("").trim_end_matches('/'), "{top}");
    text = text.replace(own, "{sandbox-run}");
    let bwrap = fs::canonicalize(find("bwrap").expect("bwrap")).expect("bwrap");
    text = text.replace(bwrap.to_str().expect("text"), "{bwrap}");
    let mut out = String::new();
    let mut mounts = false;
    for line in text.lines() {
        // It depends on the paths, which no two worlds share.
        if line.starts_with("policy sha256: ") {
            continue;
        }
        if let Some(words) = line.strip_prefix("launcher options: ") {
            out += "launcher options:\n";
            // For root the inner stage always has something to mount.
            let words = &words.replace("--cap-add CAP_SYS_ADMIN --cap-add CAP_SETPCAP ", "");
            out += &options(words);
            continue;
        }
        // What root is refused beyond others.
        let line = line.strip_suffix(", setuid files of root, openat2 of root").unwrap_or(line);
        // By the kernel, and by whether it is root's.
        let rules = line.starts_with("rules of Landlock ABI ");
        let line = line.strip_suffix(", metadata of root's files").unwrap_or(line);
        let line = &line.replace(", setuid files of root, openat2 of root, ", ", ");
        let operations = line.starts_with("operations (");
        // For root device nodes are read-only.
        let line = &if line.starts_with("  bind /dev/") { line.replace(" ro,", " rw,") } else { line.clone() };
        mounts =
            if line.starts_with("mounts (") || rules || operations { true } else { mounts && line.starts_with("  ") };
        let path = line.split(' ').find(|word| word.starts_with('/')).unwrap_or_default();
        if line.starts_with("mounts (") {
            out += "mounts, without those of the machine:\n";
        } else if operations {
            out += "operations, without those of the machine:\n";
        } else if rules {
            let (_, tcp) = line.split_once("), ").expect("what becomes of TCP");
            out.extend(["rules of Landlock, without those of the machine, ", tcp, "\n"]);
        } else if !mounts || !of_the_machine(path) {
            out += line;
            out += "\n";
        }
    }
    out
}

/// The plan of this call is the one in `fixtures/plans/NAME.txt`, and asking again gives the same bytes.
#[track_caller]
fn plan_is(name: &str, world: &World, call: impl Fn() -> Call) {
    let named = ["none", "seatbelt", "namespace", "landlock"].iter().any(|backend| name.starts_with(backend));
    if !named && about_bwrap("the printed backend is bubblewrap") {
        return;
    }
    let before = world.snapshot();
    let done = call().done().code(0).stderr("");
    call().done().is(0, &done.out(), "");
    assert_eq!(world.snapshot(), before, "a dry run changed something");
    let found = normalised(world, &done.out());
    let path = fixture(name);
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        fs::create_dir_all(path.parent().expect("parent")).expect("directory");
        fs::write(&path, &found).expect("fixture");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{}: BLESS=1 writes it anew\n--- found\n{found}\n---", path.display());
}

/// The plan of these words, in a world that holds something of everything.
#[track_caller]
fn plan_of(name: &str, words: &[&str]) {
    let world = furnished();
    let granted = world.text("o");
    let words: Vec<_> = words.iter().map(|word| word.replace("{o}", &granted)).collect();
    plan_is(name, &world, || world.run([&["--dry-run".to_owned()], &words[..]].concat()));
}

fn furnished() -> World {
    let world = World::new();
    for name in ["w/src/main.c", "w/src/keep/file", "w/secrets/key", "w/.env", "w/ro/rw/deep/file", "home/.ssh/id"] {
        world.write(name, "");
    }
    world.write("home/.netrc", "");
    world.link("w/link", world.path("o"));
    world.link("w/env", ".env");
    world.script("home/bin/tool", "#!/bin/sh\n");
    world.link("home/bin/alias", "tool");
    world
}

#[test]
fn nothing_asked_for() {
    plan_of("default", &["true"]);
}

#[test]
fn a_writable_working_directory() {
    plan_of("write", &["-w", ".", "--", "sh", "-c", "make 'it all'"]);
}

#[test]
fn masks_and_protects_below_a_write_grant() {
    plan_of("masks", &["-w", ".", "--mask", "secrets", "--mask", ".env", "--protect", "src/keep", "-r", "{o}", "true"]);
}

#[test]
fn grants_inside_grants() {
    plan_of("nested", &["-w", ".", "-r", "ro", "-w", "ro/rw", "--mask", "ro/rw/deep", "-r", "ro/rw/deep/file", "true"]);
}

#[test]
fn links_of_the_workspace_are_resolved() {
    plan_of("links", &["-r", "link", "--mask", "env", "true"]);
}

#[test]
fn the_whole_host_without_its_secrets() {
    // Without a search, which would find what else lies on this machine, some of it secret.
    plan_of("host", &["-r", "/", "--show-hidden", "*", "true"]);
}

#[test]
fn what_does_not_exist() {
    plan_of("missing", &["--create-missing", "-w", "new/dir", "--read-try", "nope", "--mask", "nope", "true"]);
}

#[test]
fn elsewhere_and_small() {
    plan_of("workdir", &["-C", "{o}", "--tmp-size", "1M", "--new-session", "never", "true"]);
}

#[test]
fn no_sandbox() {
    plan_of("none", &["-b", "none", "true"]);
}

#[test]
fn profiles_for_macos() {
    let seatbelt =
        |name: &str, words: &[&str]| plan_of(&format!("seatbelt-{name}"), &[&["-b", "seatbelt"], words].concat());
    seatbelt("default", &["true"]);
    seatbelt("write", &["-w", ".", "--", "sh", "-c", "make 'it all'"]);
    let masks = ["-w", ".", "--mask", "secrets", "--mask", ".env", "--protect", "src/keep", "-r", "{o}", "true"];
    seatbelt("masks", &masks);
    seatbelt(
        "nested",
        &["-w", ".", "-r", "ro", "-w", "ro/rw", "--mask", "ro/rw/deep", "-r", "ro/rw/deep/file", "true"],
    );
    seatbelt("links", &["-r", "link", "--mask", "env", "true"]);
    seatbelt("host", &["-r", "/", "--show-hidden", "*", "true"]);
    seatbelt("network", &["--net", "host", "-w", ".", "true"]);
    seatbelt("rules", &["--allow-host", "example.org", "true"]);
}

#[test]
fn operations_of_our_own() {
    let own =
        |name: &str, words: &[&str]| plan_of(&format!("namespace-{name}"), &[&["-b", "namespace"], words].concat());
    own("masks", &["-w", ".", "--mask", "secrets", "--mask", ".env", "--protect", "src/keep", "-r", "{o}", "true"]);
    own("nested", &["-w", ".", "-r", "ro", "-w", "ro/rw", "--mask", "ro/rw/deep", "-r", "ro/rw/deep/file", "true"]);
    own("host", &["-r", "/", "--show-hidden", "*", "--net", "host", "true"]);
}

#[test]
fn rules_for_landlock() {
    // By an older one some things are gaps, and calls are refused in its place.
    if !has_landlock() {
        return;
    }
    if sandbox_run::sys::landlock::version() >= 9 {
        return skip("plans for Landlock", "that of this kernel knows Unix sockets, and the filter allows them");
    }
    let landlock =
        |name: &str, words: &[&str]| plan_of(&format!("landlock-{name}"), &[&["-b", "landlock"], words].concat());
    landlock("write", &["-w", "src", "-r", "{o}", "--", "sh", "-c", "make 'it all'"]);
    // What is hidden is left out by granting all that lies around it.
    landlock(
        "masks",
        &["-w", "src", "--mask", "secrets", "-r", "ro", "--mask", "ro/rw/deep", "-r", "ro/rw/deep/file", "true"],
    );
    landlock("network", &["--net", "host", "true"]);
}

#[test]
fn variables_by_name_only() {
    let world = furnished();
    plan_is("environment", &world, || {
        let words =
            ["--dry-run", "--no-default-env", "-e", "KEPT", "-e", "SET=v4lue", "-e", "PRE_*", "-e", "ABSENT", "true"];
        let call = world.run(words).env("KEPT", "v4lue").env("PRE_ONE", "v4lue").env("PRE_TOKEN", "v4lue");
        call.env("LD_PRELOAD", "").env("OTHER", "v4lue").env("SANDBOX_RUN_STAGE", "v4lue")
    });
    assert!(!fs::read_to_string(fixture("environment")).unwrap().contains("v4lue"));
}

#[test]
fn a_script_and_its_interpreter() {
    let world = furnished();
    let tool = world.text("home/bin/alias");
    plan_is("script", &world, || world.run(["--dry-run", &tool, "argument"]));
}

#[test]
fn sockets_by_path() {
    let world = furnished();
    let _denied = UnixListener::bind(world.path("w/denied")).unwrap();
    let _allowed = UnixListener::bind(world.path("home/allowed")).unwrap();
    let allowed = world.text("home/allowed");
    let words = ["--dry-run", "-w", ".", "--deny-socket", "denied", "--allow-socket", &allowed, "true"];
    plan_is("sockets", &world, || world.run(words));
    plan_is("seatbelt-sockets", &world, || world.run([&["-b", "seatbelt"], &words[..]].concat()));
}

#[test]
fn a_dry_run_starts_nothing() {
    if about_bwrap("a program in place of bubblewrap") {
        return;
    }
    let world = World::new();
    let trace = world.text("trace");
    world.script("fake/bwrap", &format!("#!/bin/sh\n: >{trace}\n"));
    let path = first(&world, "fake");
    let before = world.snapshot();
    for format in ["--dry-run", "--dry-run=text", "--dry-run=json"] {
        for words in [&["-w", ".", "--", "touch", "f"][..], &["--create-missing", "-w", "made", "touch", "made/f"]] {
            let words = [&[format], words].concat();
            let done = world.run(&words).env("PATH", &path).done().code(0).stderr("");
            world.run(&words).env("PATH", &path).done().is(0, &done.out(), "");
            done.stdout_has(&world.text("fake/bwrap"));
        }
        world.run([format, "nosuchcmd"]).done().refused(127, &["nosuchcmd"]);
        world.run([format, "-r", "missing", "true"]).done().refused(125, &["missing"]);
        world.run([format, "-b", "none", "--net", "off", "true"]).done().refused(125, &["network"]);
    }
    assert_eq!(world.snapshot(), before);
    // The control: a run does start it.
    world.run(["-b", "bwrap", "true"]).env("PATH", &path).done().code(125);
    assert!(world.has("trace"));
    world.run(["--dry-run=yaml", "true"]).done().refused(125, &["yaml"]);
}

#[test]
fn json_says_the_same_as_text() {
    if about_bwrap("the printed backend is bubblewrap") {
        return;
    }
    let world = furnished();
    let words = ["-w", ".", "--mask", "secrets", "-b", "bwrap", "--", "sh", "-c", "echo \"$1\"", "a b"];
    let run = |format: &str| {
        let call = world.run([&[format], &words[..]].concat()).env("GONE", "v4lue").env("MY_TOKEN", "v4lue");
        call.done().code(0).stderr("").stdout_lacks("v4lue").out()
    };
    let text = run("--dry-run");
    let json = run("--dry-run=json");
    assert!(json.lines().count() == 1 && json.ends_with('\n'), "one line");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let list = |value: &serde_json::Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(json["backend"], "bwrap");
    assert_eq!(list(&json["arguments"]), words[7..]);
    let mounts = json["mounts"].as_array().unwrap();
    assert!(text.contains(&format!("mounts ({}):\n", mounts.len())));
    for mount in mounts {
        let line = format!("  {} {}", mount["operation"].as_str().unwrap(), mount["at"].as_str().unwrap());
        assert!(text.contains(&line), "{line}");
    }
    let dropped: BTreeSet<_> = json["environment"]["dropped"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| &d["name"])
        .map(|n| n.as_str().unwrap())
        .collect();
    assert_eq!(dropped, BTreeSet::from(["GONE", "MY_TOKEN"]));
    assert!(text.contains("variables dropped (2):\n  GONE: ") && text.contains("\n  MY_TOKEN: "), "{text}");
    for word in list(&json["launcher"]["options"]) {
        assert!(text.contains(&word), "{word}");
    }
}

/// What the plan shows as private, empty or hidden is so in the run.
#[test]
fn the_run_is_what_the_plan_says() {
    let world = furnished();
    fs::write(world.path("w/secrets/key"), "s3cret").unwrap();
    fs::write(world.path("w/.env"), "s3cret").unwrap();
    let words = ["-w", ".", "--mask", "secrets", "--mask", ".env", "--protect", "src/keep"];
    let plan = world.run([&["--dry-run=json"], &words[..], &["true"]].concat()).done().code(0);
    let plan: serde_json::Value = serde_json::from_str(&plan.out()).unwrap();
    let mut seen = BTreeSet::new();
    for mount in plan["mounts"].as_array().unwrap() {
        let (operation, at) = (mount["operation"].as_str().unwrap(), mount["at"].as_str().unwrap());
        let holds = match operation {
            "private" => format!("test -d {at} && mountpoint -q {at}"),
            "empty file" => format!("test -f {at} && ! test -s {at} && mountpoint -q {at}"),
            "read" => format!("test -e {at} && ! test -w {at}"),
            "copy" => format!("test -f {at} && ! test -w {at}"),
            "write" => format!("test -w {at}"),
            "link" => format!("test -L {at}"),
            "directory" => format!("test -d {at} && ! mountpoint -q {at}"),
            "processes" | "devices" | "message queues" => format!("mountpoint -q {at}"),
            "seal" => format!("! test -w {at}"),
            other => panic!("unknown operation {other}"),
        };
        world.sh(words, &holds).done().is(0, "", "");
        seen.insert(operation.to_owned());
    }
    assert!(seen.len() >= 9, "{seen:?}");
    world.sh(words, "find . -type f -size +0 -exec cat {} +").done().is(0, "", "");
}

#[test]
fn bytes_that_are_not_text_and_escapes_stay_on_one_line() {
    let world = World::new();
    let name = OsStr::from_bytes(b"a\xff\n\x1b[2J");
    fs::create_dir(world.path("w").join(name)).unwrap();
    for format in ["--dry-run", "--dry-run=json"] {
        let words = [OsStr::new(format), OsStr::new("-w"), name, OsStr::new("true"), name];
        let done = world.run(words.map(OsString::from)).done().code(0).stderr("");
        assert!(!done.stdout.contains(&0x1b), "{format}");
        assert!(done.out().lines().all(|line| !line.starts_with('[')), "{format}");
    }
}
