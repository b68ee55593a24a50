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
