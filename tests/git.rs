//! git in a write grant: a clone, a worktree whose data lies elsewhere, and what stays protected when asked for.

use crate::harness::World;

/// What a person sets once; every call has it from the environment, since HOME is private.
const IDENTITY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "Test"),
    ("GIT_AUTHOR_EMAIL", "test@example.org"),
    ("GIT_COMMITTER_NAME", "Test"),
    ("GIT_COMMITTER_EMAIL", "test@example.org"),
];

/// `o/repo` with one commit of one file, made outside the sandbox.
fn repository() -> World {
    let world = World::new();
    let script =
        "git init -q -b main ../o/repo && cd ../o/repo && echo one >file && git add file && git commit -q -m one";
    outside(&world, script);
    world
}

#[track_caller]
fn outside(world: &World, script: &str) -> String {
    let call = IDENTITY.iter().fold(world.call("sh", ["-ec", script]), |call, (name, value)| call.env(name, value));
    call.done().code(0).stderr("").out()
}

fn inside<'a>(world: &World, options: impl IntoIterator<Item = &'a str>, script: &str) -> crate::harness::Call {
    let options = ["-e", "GIT_AUTHOR_*", "-e", "GIT_COMMITTER_*"].into_iter().chain(options);
    let call = world.sh(options, script);
    IDENTITY.iter().fold(call, |call, (name, value)| call.env(name, value))
}

#[test]
fn a_clone_is_worked_on_without_noise() {
    let world = repository();
    outside(&world, "git clone -q ../o/repo . ");
    let script = "set -e; git status --short; echo two >file; git add file; git commit -q -m two; git status --short
        git branch topic; git stash -q; git gc -q; git log --format=%s; git rev-parse --show-toplevel";
    let script = &script.replace("git stash -q", "echo three >file; git stash -q; git stash drop -q");
    inside(&world, ["-w", "."], script).done().is(0, &format!("two\none\n{}\n", world.text("w")), "");
    assert_eq!(
        outside(&world, "git log --format=%s; git branch --format='%(refname:short)'; git status --short"),
        "two\none\nmain\ntopic\n"
    );
    // Without the grant git reads and cannot write.
    inside(&world, [], "git log --format=%s -1").done().is(0, "two\n", "");
    let before = world.snapshot();
    inside(&world, [], "git commit -q --allow-empty -m x").done().code(128).stderr_has("Read-only file system");
    assert_eq!(world.snapshot(), before);
}

#[test]
fn hooks_and_settings_are_protected_when_asked_for() {
    let world = repository();
    outside(&world, "git clone -q ../o/repo .");
    let protects = ["-w", ".", "--protect", ".git/hooks", "--protect", ".git/config"];
    let before = world.snapshot();
    let kept = |world: &World| {
        let (hooks, config) = (world.path("w/.git/hooks"), world.path("w/.git/config"));
        let parts = world.snapshot().into_iter().filter(|(path, _)| path.starts_with(&hooks) || *path == config);
        parts.collect::<Vec<_>>()
    };
    let protected = kept(&world);
    for change in [
        "echo x >.git/hooks/pre-commit",
        "echo x >.git/config",
        "git config core.hooksPath x",
        "rm -r .git/hooks",
        "python3 -c \"import os; os.rename('.git', 'g')\"",
    ] {
        let done = inside(&world, protects, change).done();
        assert_ne!(done.code, Some(0), "{change}");
        assert_eq!(kept(&world), protected, "{change}");
    }
    assert_eq!(world.snapshot().keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    let work = "git commit -q --allow-empty -m two && git update-ref refs/heads/x HEAD && git log --format=%s -1";
    inside(&world, protects, work).done().is(0, "two\n", "");
    inside(&world, ["-w", "."], "git config core.hooksPath x && echo x >.git/hooks/pre-commit").done().is(0, "", "");
}

#[test]
fn a_worktree_commits_with_its_common_directory() {
    let world = repository();
    outside(
        &world,
        "cd ../o/repo && git worktree add -q -b topic ../../w/tree && git worktree add -q -b other ../other",
    );
    let common = world.text("o/repo/.git");
    let commit = "cd tree && git status --short && echo two >file && git add file && git commit -q -m two && git log --format=%s";
    // Without the common directory there is no repository.
    inside(&world, ["-w", "."], commit).done().code(128).stderr_has("not a git repository");
    let other = |world: &World| {
        let top = world.path("o/other");
        world.snapshot().into_iter().filter(|(path, _)| path.starts_with(&top)).collect::<Vec<_>>()
    };
    let before = other(&world);
    inside(&world, ["-w", ".", "-w", &common], commit).done().is(0, "two\none\n", "");
    assert_eq!(outside(&world, "cd ../o/repo && git log --format=%s -1 topic"), "two\n");
    assert_eq!(other(&world), before);
    // Data can be written, what the host would run cannot.
    let hooks = format!("{common}/hooks");
    let config = format!("{common}/config");
    let protects = ["-w", ".", "-w", &common, "--protect", &hooks, "--protect", &config];
    inside(&world, protects, &commit.replace("two", "three")).done().is(0, "three\ntwo\none\n", "");
    for change in
        [format!("echo x >{hooks}/pre-commit"), format!("echo x >{config}"), "cd tree && git config a.b c".into()]
    {
        let done = inside(&world, protects, &change).done();
        assert_ne!(done.code, Some(0), "{change}");
    }
    assert!(!world.has("o/repo/.git/hooks/pre-commit"));
}

#[test]
fn a_directory_that_is_no_repository_stays_one() {
    let world = repository();
    let before = world.snapshot();
    let rules = ["-w", ".", "--protect", ".git/hooks", "--protect", ".git/config"];
    inside(&world, rules, "true").done().is(0, "", "");
    assert_eq!(world.snapshot(), before);
    inside(&world, rules, "git rev-parse --show-toplevel").done().code(128).stderr_has("not a git repository");
    inside(&world, rules, "git init -q -b main . && git rev-parse --show-toplevel").done().is(
        0,
        &format!("{}\n", world.text("w")),
        "",
    );
    // A subdirectory finds its repository only where that is shown.
    world.dir("o/repo/sub");
    let top = world.text("o/repo");
    let find = "git rev-parse --show-toplevel";
    inside(&world, ["-w", "."], find).cwd(world.path("o/repo/sub")).done().code(128).stderr_has("not a git repository");
    inside(&world, ["-w", ".", "-r", &top], find).cwd(world.path("o/repo/sub")).done().is(0, &format!("{top}\n"), "");
    assert!(!world.has("o/repo/sub/.git"));
}
