//! `..` in paths: the run, the plan and the printed policy resolve it alike, or refuse it alike.

use crate::harness::{World, backends};

/// Every option that takes a path of the view, with what else it needs.
const RULES: [&[&str]; 8] = [
    &["--mask"],
    &["--protect"],
    &["--deny-socket"],
    &["--read"],
    &["--read-try"],
    &["--write"],
    &["--write-try"],
    &["--create-missing", "--write"],
];

/// What the three ways say to these words: status, and the error without what stands before the reason.
fn answers(world: &World, words: &[&str]) -> [(i32, String); 3] {
    let last = [&["--", "true"][..], &["--dry-run", "--", "true"], &["--print-policy", "--", "true"]];
    last.map(|tail| {
        let done = world.run([words, tail].concat()).done();
        let text = &done.stderr;
        let line = text.lines().next().unwrap_or_default();
        (done.code.unwrap_or(-1), line.rsplit(": ").next().unwrap_or_default().to_owned())
    })
}

/// The kernel finds nothing there, and a person may mean `secret`: a mask of it would hide nothing, so nobody guesses.
#[test]
fn dots_below_nothing_are_refused_in_each_way() {
    let world = World::new();
    world.write("w/secret", "hidden");
    world.link("w/dangling", "nowhere");
    for rule in RULES {
        for path in ["missing/../secret", "missing/../nothing", "dangling/../secret", "../w/a/b/../../secret"] {
            for backend in backends() {
                let gaps = ["--allow-gap", "files-read,files-write,masks,sockets"];
                let found = answers(&world, &[&backend[..], &gaps, rule, &[path]].concat());
                let right = (125, "'..' below a directory that does not exist".to_owned());
                assert!(found.iter().all(|answer| *answer == right), "{rule:?} {path} {backend:?}: {found:?}");
            }
        }
    }
    assert!(!world.has("w/missing") && !world.has("w/nowhere"));
}

/// Only the last name is missing: the commonest `..` there is.
#[test]
fn dots_before_a_missing_name_run_in_each_way() {
    let world = World::new();
    world.link("w/dangling", "nowhere");
    for rule in RULES.into_iter().filter(|rule| !matches!(rule, [.., "--read"] | ["--write"])) {
        for path in ["../missing", "../o/../missing/more", "../w/dangling"] {
            if path == "../w/dangling" && rule.contains(&"--create-missing") {
                continue;
            }
            let found = answers(&world, &[rule, &[path]].concat());
            assert!(found.iter().all(|(status, _)| *status == 0), "{rule:?} {path}: {found:?}");
        }
        let printed = world.run([rule, &["../o/../missing", "--print-policy=json"]].concat()).done().code(0);
        printed.stdout_has("\"../o/../missing\"");
        assert_eq!(std::fs::remove_dir_all(world.path("missing")).is_ok(), rule.contains(&"--create-missing"));
    }
    // And what is there is what is meant.
    world.run(["--mask", "../o/../o/secret", "-r", "../o", "cat", "../o/secret"]).done().is(0, "", "");
    world.run(["-r", "../o", "cat", "../o/secret"]).done().is(0, "s3cret", "");
}
