//! A write grant inside a repository of which nothing else is shown, or in none: git on the host obeys what settings name in it.

use crate::git::{inside, outside, repository};
use crate::harness::{Call, World};

const HOOK: &str =
    "mkdir -p HOOKS; printf '#!/bin/sh\\necho >>%s/ran\\n' $TOP >HOOKS/pre-commit; chmod +x HOOKS/pre-commit";
const SETTING: &str = "printf '[core]\\nfsmonitor = \"echo >>%s/ran; false\"\\n' $TOP >FILE";
const COMMIT: &str = "git commit -q --allow-empty -m x; git status >/dev/null 2>&1 || :";

/// `w` is a clone with a directory `d`.
fn clone() -> World {
    let world = repository();
    outside(&world, "git clone -q ../o/repo .; mkdir d");
    world
}

/// From the directory `at` a script plants what `commit` on the host runs, and only without the sandbox.
#[track_caller]
fn not_run(prepare: &str, at: &str, script: &str, with: &dyn Fn(&World, Call) -> Call) {
    let top = |world: &World, text: &str| text.replace("$TOP", &world.text("w"));
    let commit = |world: &World| {
        let call =
            with(world, world.call("sh", ["-c", COMMIT])).env("GIT_AUTHOR_NAME", "x").env("GIT_AUTHOR_EMAIL", "x");
        call.env("GIT_COMMITTER_NAME", "x").env("GIT_COMMITTER_EMAIL", "x").done().code(0);
        world.has("w/ran")
    };
    for plant in [true, false] {
        let world = clone();
        outside(&world, &top(&world, prepare));
        let call = if plant {
            inside(&world, ["-w", "."], &top(&world, script))
        } else {
            world.call("sh", ["-c", &top(&world, script)])
        };
        with(&world, call).cwd(world.path(&format!("w/{at}"))).done();
        assert_eq!(commit(&world), !plant, "{prepare}: {script}");
    }
    // What nothing names is free.
    let world = clone();
    outside(&world, &top(&world, prepare));
    let call = inside(&world, ["-w", "."], "mkdir other && echo x >other/pre-commit");
    with(&world, call).cwd(world.path(&format!("w/{at}"))).done().is(0, "", "");
}

fn as_it_is(_: &World, call: Call) -> Call {
    call
}

#[test]
fn settings_of_the_repository_above() {
    let hooks = HOOK.replace("HOOKS", "hk");
    not_run("git config core.hooksPath d/hk; mkdir d/hk", "d", &hooks, &as_it_is);
    not_run("git config core.hooksPath d/hk", "d", &hooks, &as_it_is);
    not_run("git config core.hooksPath $TOP/d/e/hk; mkdir d/e", "d/e", &hooks, &as_it_is);
    let setting = SETTING.replace("FILE", "inc");
    not_run("git config include.path ../d/inc; echo >d/inc", "d", &setting, &as_it_is);
    not_run("git config include.path ../d/inc", "d", &setting, &as_it_is);
    // Around a submodule as well.
    not_run("git init -q d; git config core.hooksPath d/e/hk; mkdir d/e", "d/e", &hooks, &as_it_is);
}

/// What belongs to that repository is checked out anywhere.
#[test]
fn settings_of_what_belongs_to_the_repository_above() {
    let hook = HOOK.replace("HOOKS", "hk");
    for (prepare, commit) in [
        (
            "git -c protocol.file.allow=always submodule -q add $PWD/../o/repo s 2>&1; git -C s config core.hooksPath ../d/hk",
            "cd s",
        ),
        (
            "git -c protocol.file.allow=always submodule -q add $PWD/../o/repo s 2>&1; git -C s config core.hooksPath $PWD/d/hk",
            "cd s",
        ),
        (
            "git config extensions.worktreeConfig true; git worktree add -q -b t ../o/t; git -C ../o/t config --worktree core.hooksPath $PWD/d/hk",
            "cd ../o/t",
        ),
        (
            "git worktree add -q -b t s; git config extensions.worktreeConfig true; git -C s config --worktree core.hooksPath ../d/hk",
            "cd s",
        ),
    ] {
        let commit = format!("{commit}; git commit -q --allow-empty -m x");
        for sandbox in [true, false] {
            let world = clone();
            outside(&world, &format!("({prepare}) >/dev/null"));
            let hook = hook.replace("$TOP", &world.text("w"));
            let call = if sandbox { inside(&world, ["-w", "."], &hook) } else { world.call("sh", ["-c", &hook]) };
            call.cwd(world.path("w/d")).done();
            outside(&world, &commit);
            assert_eq!(world.has("w/ran"), !sandbox, "{prepare}");
        }
    }
}

#[test]
fn settings_of_a_repository_that_the_environment_names() {
    let hooks = HOOK.replace("HOOKS", "hk");
    let given = |world: &World, call: Call| {
        call.env("GIT_DIR", world.text("o/repo/.git")).env("GIT_WORK_TREE", world.text("o/none"))
    };
    not_run("mkdir ../o/none; git -C ../o/repo config core.hooksPath hk", "../o/none", &hooks, &given);
    let absolute = |world: &World, call: Call| call.env("GIT_DIR", world.text("o/repo/.git"));
    not_run(
        "mkdir ../o/none; git -C ../o/repo config core.hooksPath $PWD/../o/none/hk",
        "../o/none",
        &hooks,
        &absolute,
    );
}

#[test]
fn settings_of_a_linked_worktree() {
    let world = clone();
    outside(&world, "git worktree add -q -b t ../o/tree; git config core.hooksPath d/hk; mkdir ../o/tree/d");
    let at = world.path("o/tree/d");
    let hook = HOOK.replace("HOOKS", "hk").replace("$TOP", &world.text("w"));
    let commit = "cd ../o/tree; git commit -q --allow-empty -m x";
    inside(&world, ["-w", "."], &hook).cwd(&at).done().stderr_has("which git on the host would obey");
    outside(&world, commit);
    assert!(!world.has("w/ran"));
    world.call("sh", ["-c", &hook]).cwd(&at).done().is(0, "", "");
    outside(&world, commit);
    assert!(world.has("w/ran"), "the control");
}

#[test]
fn settings_that_nobody_wrote_into_a_repository() {
    let hooks = HOOK.replace("HOOKS", "hk");
    let count = |world: &World, call: Call| {
        let call = call.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "core.hooksPath");
        call.env("GIT_CONFIG_VALUE_0", world.text("w/d/hk"))
    };
    not_run("true", "d", &hooks, &count);
    // No repository is around the grant.
    let global = |world: &World, call: Call| call.env("GIT_CONFIG_GLOBAL", world.text("o/global"));
    for prepare in ["", "mkdir ../o/none/hk;"] {
        let prepare = format!("mkdir ../o/none; {prepare} git config -f ../o/global core.hooksPath $PWD/../o/none/hk");
        not_run(&prepare, "../o/none", &hooks, &global);
    }
    not_run(
        "mkdir ../o/none; git config -f ../o/global include.path $PWD/../o/none/inc",
        "../o/none",
        &SETTING.replace("FILE", "inc"),
        &global,
    );
}

#[test]
fn a_repository_above_that_is_somebody_elses_to_read_stops_no_run() {
    let world = World::apart();
    let at = world.dir("w/closed/d");
    outside(&world, "git init -q closed; chmod 0 closed/.git");
    inside(&world, ["-w", "."], "echo x >made").cwd(&at).done().is(0, "", "");
    outside(&world, "chmod 700 closed/.git");
    assert!(world.has("w/closed/d/made"));
}
