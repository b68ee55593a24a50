//! The host's files are what they were, to the last time stamp, after a run with rules about what is there and what is not, also
//! when it is killed at any moment.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::{World, eventually};
use crate::life::{left, mark, marked};

/// Everything about the files that a run could get at, but for what the test itself writes.
fn files(world: &World) -> Vec<(PathBuf, String)> {
    let own = world.path("o/errors");
    world.snapshot().into_iter().filter(|(path, _)| *path != own && *path != world.path("o")).collect()
}

/// A tree with something for every kind of rule.
fn world() -> World {
    let world = World::new();
    for name in ["p/f", "p/m", "d/f", ".hidden", "sub/.env", ".config/gh/hosts.yml"] {
        world.write(&format!("w/{name}"), "s3cret\n");
    }
    for name in ["HEAD", "config", "hooks/pre-commit", "objects/x", "refs/x"] {
        let text = if name == "HEAD" { "ref: refs/heads/main\n" } else { "host\n" };
        world.write(&format!("w/.git/{name}"), text);
        world.write(&format!("w/sub/repo/.git/{name}"), text);
    }
    world.write("home/.netrc", "s3cret\n");
    world.write("o/errors", "");
    world
}

const RULES: &[&str] = &[
    "-w",
    ".",
    "-w",
    "~",
    "--mask",
    "p/m",
    "--protect",
    "p/f",
    "--mask",
    "d",
    "--mask",
    "none",
    "--mask",
    "none/deeper",
    "--protect",
    "p/none",
    "--protect",
    ".git/commondir",
    "--deny-socket",
    "sock",
    "--mask",
    "~/.aws",
    "--protect",
    "~/.bashrc",
];

fn killed_at_any_moment(more: &[String], tries: u32) {
    let world = world();
    let rules: Vec<&str> = RULES.iter().copied().chain(more.iter().map(String::as_str)).collect();
    for name in more.chunks(2).map(|pair| &pair[1]) {
        world.write(&format!("w/{name}"), "s3cret\n");
    }
    let before = files(&world);
    let begun = Instant::now();
    world.run(rules.iter().copied().chain(["--", "true"])).done().is(0, "", "");
    assert_eq!(files(&world), before);
    let span = begun.elapsed().max(Duration::from_millis(15)) * 5 / 4;
    for attempt in 0..tries {
        let mark = mark();
        let running = marked(&world, &rules, "exec sleep 60", &mark).spawn();
        let session = running.pid();
        std::thread::sleep(span * attempt / tries);
        running.signal(Signal::SIGKILL);
        assert_eq!(running.done().signal, Some(9));
        assert!(eventually(|| left(session, &mark).is_empty()), "{attempt}");
        assert_eq!(files(&world), before, "killed after {:?} of {span:?}", span * attempt / tries);
    }
}

#[test]
fn killed_at_any_moment_with_a_few_rules() {
    killed_at_any_moment(&[], 60);
}

/// So many that another stage makes the mounts.
#[test]
fn killed_at_any_moment_with_many_rules() {
    let more: Vec<_> = (0..60).flat_map(|number| ["--mask".to_owned(), format!("many{number}")]).collect();
    killed_at_any_moment(&more, 40);
}

#[test]
fn two_runs_that_overlap_and_one_is_killed() {
    let world = world();
    let before = files(&world);
    for _ in 0..10 {
        let mark = mark();
        let first = marked(&world, RULES, "exec sleep 60", &mark).spawn();
        let second = world.sh(RULES, "cat p/f; ls -A d").spawn();
        first.signal(Signal::SIGKILL);
        second.done().is(0, "s3cret\n", "");
        let session = first.pid();
        first.done();
        assert!(eventually(|| left(session, &mark).is_empty()));
        assert_eq!(files(&world), before);
    }
}
