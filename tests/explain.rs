//! `--explain`: what it says of a path is what a run meets there, and asking changes nothing.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use serde_json::Value;

use crate::fakes::{first, wrapper};
use crate::harness::{World, about_bwrap, is_root};

/// One path of the table: how it is typed, what is visible, readable and writable, the rule, and who gave it.
struct Row {
    path: &'static str,
    sees: [bool; 3],
    rule: &'static str,
    from: &'static str,
}

const fn row(path: &'static str, sees: [bool; 3], rule: &'static str, from: &'static str) -> Row {
    Row { path, sees, rule, from }
}

const ALL: [bool; 3] = [true, true, true];
const READ: [bool; 3] = [true, true, false];
const NONE: [bool; 3] = [false, false, false];

const OPTIONS: [&str; 12] = [
    "-r",
    "../o/r",
    "-w",
    "../o/w",
    "--mask",
    "../o/r/masked",
    "--mask",
    "../o/w/gone",
    "--protect",
    "../o/w/kept",
    "--deny-socket",
    "../o/w/no",
];

const ROWS: [Row; 26] = [
    row("../o/r", READ, "read", "--read"),
    row("../o/r/file", READ, "read", "--read"),
    row("../o/w", ALL, "write", "--write"),
    row("../o/w/file", ALL, "write", "--write"),
    row("../o/w/dir/deep", ALL, "write", "--write"),
    row("../o/r/masked", NONE, "mask", "--mask"),
    row("../o/r/masked/below", NONE, "mask", "--mask"),
    row("../o/w/gone", NONE, "mask", "--mask"),
    row("../o/w/kept", READ, "protect", "--protect"),
    row("../o/w/kept/below", READ, "protect", "--protect"),
    row("../o/r/.hidden", NONE, "hidden-name", ""),
    row("../o/r/.hidden/below", NONE, "hidden-name", ""),
    row("../o/r/out", [false, false, true], "private", ""),
    row("../o/r/in", READ, "read", "--read"),
    row("../o/secret", [false, false, true], "private", ""),
    row("/../o/r/./file", NONE, "none", ""),
    row(".", READ, "working-directory", "default"),
    row("here", READ, "working-directory", "default"),
    row("../o/r/missing", NONE, "read", "--read"),
    row("../o/w/missing", [false, false, true], "write", "--write"),
    row("/usr/bin/env", READ, "system", ""),
    row("/tmp", [false, true, true], "private", ""),
    row("/tmp/missing", [false, false, true], "private", ""),
    row("~", [false, true, true], "private-home", ""),
    row("~/file", [false, false, true], "private-home", ""),
    row("/etc/shadow", NONE, "none", ""),
];

fn world() -> World {
    let world = World::new();
    for name in [
        "o/r/file",
        "o/r/masked/below",
        "o/r/.hidden/below",
        "o/w/file",
        "o/w/dir/deep",
        "o/w/gone",
        "o/w/kept/below",
        "w/here",
        "home/file",
    ] {
        world.write(name, "text");
    }
    world.link("o/r/out", "../secret");
    world.link("o/r/in", "file");
    world
}

fn explained(world: &World, words: &[&str]) -> Vec<Value> {
    let done = world.run([&["--json"], words].concat()).done().code(0).stderr("");
    let report: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    report["paths"].as_array().expect("a list").clone()
}

/// What a command finds that looks: whether it is the host's file, can be read, and can be written or made.
fn tried(world: &World, options: &[&str], path: &str) -> [bool; 3] {
    let script = "id=$(stat -L -c %i \"$0\" 2>/dev/null) && echo \"inode $id\"
        if test -d \"$0\"; then ls \"$0\" >/dev/null 2>&1 && echo read; (: >\"$0/probe\") 2>/dev/null && rm \"$0/probe\" && echo write
        elif test -e \"$0\"; then cat \"$0\" >/dev/null 2>&1 && echo read; (: >>\"$0\") 2>/dev/null && echo write
        else (: >>\"$0\") 2>/dev/null && rm -f \"$(realpath \"$0\")\" && echo write; fi; true";
    let done = world.run([options, &["--", "sh", "-c", script, path]].concat()).done().code(0);
    let out = done.out();
    let on_host = fs::metadata(world.path("w").join(path)).map(|found| format!("inode {}", found.ino()));
    let has = |line: &str| out.lines().any(|found| found == line);
    [on_host.is_ok_and(|line| has(&line)), has("read"), has("write")]
}

fn flags(explained: &Value) -> [bool; 3] {
    ["visible", "readable", "writable"]
        .map(|key| explained[key].as_bool().unwrap_or_else(|| panic!("{key}: {explained}")))
}

#[test]
fn the_answer_is_what_a_run_meets() {
    let world = world();
    let _denied = UnixListener::bind(world.path("o/w/no")).unwrap();
    let mut words = OPTIONS.to_vec();
    for Row { path, .. } in &ROWS {
        words.extend(["--explain", path]);
    }
    let before = world.snapshot();
    let answers = explained(&world, &words);
    assert_eq!(world.snapshot(), before, "asking changed the host");
    assert_eq!(answers.len(), ROWS.len());
    for (Row { path, sees, rule, from }, answer) in ROWS.iter().zip(&answers) {
        assert_eq!(answer["path"], *path);
        assert_eq!(answer["agrees"], true, "{answer}");
        assert_eq!(flags(answer), *sees, "{path}: {answer}");
        if !rule.is_empty() {
            assert_eq!(answer["rule"], *rule, "{path}: {answer}");
        }
        let given = answer["given"].as_array().unwrap();
        assert_eq!(given.first().map_or("", |given| given["from"].as_str().unwrap()), *from, "{path}: {answer}");
        let typed = path.replace('~', &world.text("home"));
        let mut met = tried(&world, &OPTIONS, &typed);
        // What is in place of a masked file can be read, and is empty. A copy has an inode of its own.
        met[1] &= answer["shows"] != "placeholder";
        met[0] |= answer["shows"] == "copy";
        assert_eq!(met, *sees, "a run meets something else at {path}: {answer}");
    }
}

#[test]
fn sockets_are_judged_and_left_alone() {
    let world = world();
    let names = ["o/r/s", "o/w/s", "o/w/no", "o/alone", "o/closed"];
    let listeners = names.map(|name| UnixListener::bind(world.path(name)).unwrap());
    for listener in &listeners {
        listener.set_nonblocking(true).unwrap();
    }
    let options = [&OPTIONS[..], &["--allow-socket", "../o/alone"]].concat();
    for (name, visible, rule) in [
        ("../o/r/s", true, "read"),
        ("../o/w/s", true, "write"),
        ("../o/w/no", false, "deny-socket"),
        ("../o/alone", true, "allow-socket"),
        ("../o/closed", false, ""),
    ] {
        let answer = &explained(&world, &[&options[..], &["--explain", name]].concat())[0];
        assert_eq!(answer["visible"], visible, "{answer}");
        assert_eq!(answer["agrees"], true, "{answer}");
        assert!(rule.is_empty() || answer["rule"] == rule, "{answer}");
        for listener in &listeners {
            assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "asking connected");
        }
        let client = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])";
        let done = world.run([&options[..], &["--", "python3", "-c", client, name]].concat()).done();
        let connectable = answer["connectable"].as_bool().unwrap_or(false);
        assert_eq!(done.code == Some(0), connectable, "{name}: {answer}\n{}", done.stderr);
        for listener in &listeners {
            drop(listener.accept());
        }
    }
}

#[test]
fn text_for_people() {
    if about_bwrap("the printed backend is bubblewrap") {
        return;
    }
    let world = World::new();
    world.write("w/sub/file", "x");
    let file = world.text("w/sub/file");
    world.run(["-w", "sub", "--explain", "sub/file"]).done().is(
        0,
        &format!(
            "backend: bwrap\nsub/file:\n  leads to: {file}\n  visible: yes\n  read: yes\n  write: yes\n  rule: write grant ('{}')\n  \
             given: 'sub' by --write\n  tried inside: as planned (name works, file works, read works, write works)\n",
            world.text("w/sub")
        ),
        "",
    );
    // By which layer, and what would help.
    world.write("p.toml", "mask_paths = ['sub']");
    world
        .run(["--policy", "../p.toml", "--explain", "sub/file", "--explain", "../o/secret"])
        .done()
        .code(0)
        .stdout_has("given: 'sub' by ../p.toml")
        .stdout_has(&format!("hint: -r {} shows it", world.text("o/secret")));
    // Names are shown as text that no terminal obeys.
    world.write("w/\u{1b}[2Jx", "");
    let done = world.run(["--explain", "\u{1b}[2Jx"]).done().code(0);
    assert!(!done.out().contains('\u{1b}'), "{}", done.out());
}

#[test]
fn a_link_out_of_a_grant_is_told_apart_from_what_it_leads_to() {
    let world = world();
    let answer = &explained(&world, &[&OPTIONS[..], &["--explain", "../o/r/out"]].concat())[0];
    assert_eq!(answer["visible"], false);
    assert!(answer["notes"].to_string().contains("what is written there is the sandbox's own"), "{answer}");
    assert_eq!(answer["links"][0]["to"], "../secret");
    assert_eq!(answer["end"], world.text("o/secret"));
    assert_eq!(answer["tried"]["name"], "works");
    assert_eq!(answer["tried"]["file"], "ENOENT");
    // With a grant of its end the same link works.
    let answer = &explained(&world, &[&OPTIONS[..], &["-r", "../o/secret", "--explain", "../o/r/out"]].concat())[0];
    assert_eq!((flags(answer), answer["rule"].as_str()), (READ, Some("read")));
    world.link("w/ring", "ring");
    let answer = &explained(&world, &["--explain", "ring"])[0];
    assert_eq!((flags(answer), &answer["agrees"]), (NONE, &Value::Bool(true)));
}

#[test]
fn permissions_of_the_files_themselves_are_no_disagreement() {
    let world = world();
    for (name, mode, sees) in [
        ("none", 0o000, [true, false, false]),
        ("read", 0o400, [true, true, false]),
        ("write", 0o200, [true, false, true]),
        ("both", 0o600, ALL),
    ] {
        let file = world.write(&format!("o/w/{name}"), "x");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let path = format!("../o/w/{name}");
        let answer = &explained(&world, &["-w", "../o/w", "--explain", &path])[0];
        assert_eq!((flags(answer), &answer["agrees"]), (sees, &Value::Bool(true)), "{answer}");
        assert_eq!(tried(&world, &["-w", "../o/w"], &path), sees, "{name}");
    }
    let closed = world.dir("o/w/closed");
    world.write("o/w/closed/x", "x");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let answer = &explained(&world, &["-w", "../o/w", "--explain", "../o/w/closed/x"])[0];
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!((&answer["agrees"], &answer["readable"]), (&Value::Bool(true), &Value::Bool(false)), "{answer}");
    if is_root() {
        // Somebody else's: root has no capability inside.
        nix::unistd::chown(&world.path("o/w/both"), Some(12345.into()), Some(12345.into())).unwrap();
        let answer = &explained(&world, &["-w", "../o/w", "--explain", "../o/w/both"])[0];
        assert_eq!((flags(answer), &answer["agrees"]), ([true, false, false], &Value::Bool(true)), "{answer}");
    }
}

#[test]
fn what_cannot_be_opened_without_consequences_is_not_opened() {
    let world = World::new();
    nix::unistd::mkfifo(&world.path("w/fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let before = world.snapshot();
    let answer = &explained(&world, &["-w", ".", "--explain", "fifo"])[0];
    assert_eq!(
        (&answer["visible"], &answer["tried"]["read"], &answer["kind"]),
        (&true.into(), &"untried".into(), &"fifo".into())
    );
    assert_eq!(world.snapshot(), before);
}

#[test]
fn nothing_is_made_for_a_question() {
    let world = World::new();
    let before = world.snapshot();
    let answers = explained(&world, &["-w", "new/dir", "--create-missing", "--explain", "new/dir/x", "--explain", "."]);
    assert_eq!(world.snapshot(), before);
    assert_eq!((&answers[0]["writable"], &answers[0]["tried"]), (&Value::Bool(true), &Value::Null));
    assert_eq!(answers[1]["tried"]["name"], "works");
    // Also when there is nothing else to try.
    world.run(["-w", "new", "--create-missing", "--explain", "new", "--", "touch", "ran"]).done().code(0);
    assert_eq!(world.snapshot(), before);
    world.run(["-w", ".", "--explain", ".", "touch", "ran"]).done().code(0);
    assert_eq!(world.snapshot(), before);
}

#[test]
fn a_command_decides_what_it_needs() {
    let world = World::new();
    let tool = world.script("o/tool", "#!/bin/sh\n");
    let answer = |words: &[&str]| explained(&world, words)[0]["rule"].as_str().unwrap().to_owned();
    assert_eq!(answer(&["--explain", "../o/tool", "--", "../o/tool"]), "program");
    assert_ne!(answer(&["--explain", "../o/tool"]), "program");
    world.run(["--explain", ".", "--", "no-such-command"]).done().refused(127, &["no-such-command"]);
    assert!(Path::new(&tool).exists());
}

#[test]
fn without_a_view_it_says_so() {
    let world = world();
    let answers = explained(&world, &["-q", "-b", "none", "--explain", "../o/secret", "--explain", "nope"]);
    assert_eq!((flags(&answers[0]), answers[0]["rule"].as_str()), (ALL, Some("no-view")));
    assert_eq!(answers[1]["exists_on_host"], false);
    world.run(["-q", "-b", "none", "--explain", "."]).done().code(0).stdout_has("has no view of its own");
}

/// A bwrap that grants less, or more, than it was told is found out.
#[test]
fn a_disagreement_is_never_hidden() {
    if about_bwrap("a program in place of bubblewrap") {
        return;
    }
    let world = world();
    wrapper(&world, "");
    let ask = |path: &str| {
        let call = world.run(["-b", "bwrap", "-w", "../o/w", "--explain", path]);
        call.env("PATH", first(&world, "fake")).done()
    };
    ask("../o/w/file").code(0).stdout_has("as planned");
    wrapper(&world, "swaps=--bind:--ro-bind");
    let done =
        ask("../o/w/file").code(125).stdout_has("write: no").stdout_has("NOT as planned").stdout_has("write EROFS");
    done.stderr_has("sandbox-run: cannot confirm what the plan says about '../o/w/file'").stderr_has("hint: ");
}

#[test]
fn the_command_line() {
    let world = World::new();
    world.run(["--explain"]).done().refused(125, &["'--explain' needs a value"]);
    world.run(["--explain", ".", "--check"]).done().refused(125, &["'--check' and '--explain' exclude each other"]);
    world.run(["--explain", ".", "--dry-run", "true"]).done().refused(125, &["exclude each other"]);
    world.run(["--json", "true"]).done().refused(125, &["'--json' needs '--check' or '--explain'"]);
    world.run(["--explain", "~nobody/x"]).done().refused(125, &["'~nobody/x'"]);
    // A policy that cannot be carried out is one here, too.
    world.run(["-r", "nope", "--explain", "."]).done().refused(125, &["'nope'", "no such file"]);
}

/// What protects git's settings was asked for by nobody: the remedy is a grant, and it is one.
#[test]
fn the_remedy_for_what_git_obeys_works() {
    let world = World::new();
    world.call("git", ["init", "-q", "."]).done().code(0);
    let hint =
        format!("-w {} lets it be written, not replaced, as git and many editors do", world.text("w/.git/config"));
    world.run(["-w", ".", "--explain", ".git/config"]).done().code(0).stdout_has(&hint);
    let change = "echo '# x' >>.git/config";
    world.sh(["-w", "."], change).done().stderr_has("Read-only file system");
    world.sh(["-w", ".", "-w", ".git/config"], change).done().is(0, "", "");
    // A rule that somebody gave can be left out.
    world.write("w/f", "x");
    let done = world.run(["-w", ".", "--protect", "f", "--explain", "f"]).done().code(0);
    done.stdout_has("leave that rule out to let it be written");
}
