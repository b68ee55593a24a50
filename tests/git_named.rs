//! Places in a write grant that git on the host obeys since settings name them, and repositories without a work tree.

use crate::git::{inside, outside, repository};
use crate::harness::World;

/// `w` is a clone of one commit.
fn clone() -> World {
    let world = repository();
    outside(&world, "git clone -q ../o/repo . && mkdir -p tools");
    world
}

/// What `script` makes of `at` is refused; outside, without the sandbox, it is not.
#[track_caller]
fn kept(world: &World, at: &str) {
    let before = world.read(&format!("w/{at}"));
    let name = at.rsplit_once('/').map_or(at, |(_, name)| name);
    let above = at.rsplit_once('/').map_or(".", |(above, _)| above);
    for change in [
        format!("echo x >{at}"),
        format!("rm -f {at}"),
        format!("mv {at} gone"),
        format!("echo x >new && mv -f new {at}"),
        format!(
            "test {above} = . || {{ mv {above} gone && mkdir {above} && echo x >{at}; }}; test ! -e {name}x && false"
        ),
    ] {
        let done = inside(world, ["-w", "."], &change).done();
        assert_ne!(done.code, Some(0), "{change}\n{}", done.stderr);
        assert_eq!(world.read(&format!("w/{at}")), before, "{change}");
    }
    inside(world, ["-w", "."], &format!("cat {at} >copy && rm copy && touch other && rm other")).done().is(0, "", "");
    outside(world, &format!("cp {at} copy && echo x >{at} && mv copy {at}"));
}

/// What is made at `at` is not there afterwards.
#[track_caller]
fn not_left(world: &World, at: &str) {
    let done = inside(world, ["-w", "."], &format!("mkdir -p $(dirname {at}) && echo x >{at}")).done().code(0);
    assert!(done.stderr.contains("which git on the host would obey, was made during the run"), "{}", done.stderr);
    assert!(!world.has(&format!("w/{at}")), "{at}");
}

#[test]
fn a_directory_of_hooks_in_the_work_tree() {
    let world = clone();
    outside(&world, "git config core.hooksPath tools/hooks");
    world.write("w/tools/hooks/pre-commit", "#!/bin/sh\n");
    kept(&world, "tools/hooks/pre-commit");
    inside(&world, ["-w", "."], "echo x >tools/hooks/post-commit").done().code(2);
    inside(&world, ["-w", ".", "-w", "tools/hooks"], "echo x >tools/hooks/post-commit").done().is(0, "", "");
    // Missing, and with a part of the way to it.
    for way in ["", "tools/"] {
        outside(&world, &format!("rm -r tools/hooks; test -z '{way}' || rm -r {way}"));
        not_left(&world, "tools/hooks/pre-commit");
        inside(&world, ["-w", "."], "echo y | tee tools/hooks.sandbox-run-*/pre-commit >copy").done().is(0, "", "");
        outside(&world, "rm -r tools; mkdir tools tools/hooks");
    }
    // The control: another directory.
    outside(&world, "git config core.hooksPath elsewhere");
    inside(&world, ["-w", "."], "echo x >tools/hooks/pre-commit").done().is(0, "", "");
    outside(&world, "ls tools/hooks/pre-commit");
}

#[test]
fn husky_runs_what_lies_above_its_directory() {
    let world = clone();
    outside(&world, "git config core.hooksPath .husky/_");
    world.write("w/.husky/_/pre-commit", "#!/bin/sh\n");
    world.write("w/.husky/pre-commit", "true\n");
    kept(&world, ".husky/_/pre-commit");
    kept(&world, ".husky/pre-commit");
    outside(&world, "rm -r .husky/_");
    inside(&world, ["-w", "."], "mkdir .husky/_").done().code(1);
    outside(&world, "rm -r .husky");
    not_left(&world, ".husky/_/pre-commit");
}

/// The same setting counts from the top of each work tree; settings come from several files.
#[test]
fn hooks_of_worktrees_submodules_and_of_the_user() {
    let world = clone();
    outside(&world, "git worktree add -q -b topic tree && git config core.hooksPath tools");
    world.write("w/tools/pre-commit", "x\n");
    world.write("w/tree/tools/pre-commit", "x\n");
    kept(&world, "tree/tools/pre-commit");
    kept(&world, "tools/pre-commit");
    outside(&world, "git config --unset core.hooksPath && git config extensions.worktreeConfig true");
    outside(&world, "git -C tree config --worktree core.hooksPath tools");
    kept(&world, "tree/tools/pre-commit");
    inside(&world, ["-w", "."], "echo x >tools/pre-commit").done().is(0, "", "");

    // The user's own settings.
    world.write("home/.gitconfig", "[core]\n\thooksPath = tools\n");
    kept(&world, "tools/pre-commit");
    std::fs::rename(world.path("home/.gitconfig"), world.path("home/x")).unwrap();
    world.write("home/.config/git/config", "[include]\n\tpath = ~/x\n");
    kept(&world, "tools/pre-commit");
    std::fs::remove_file(world.path("home/x")).unwrap();
    inside(&world, ["-w", "."], "echo x >tools/pre-commit").done().is(0, "", "");

    // Data that is out of sight.
    outside(&world, "git init -q -b main --separate-git-dir ../o/data sep && git -C sep config core.hooksPath tools");
    world.write("w/sep/tools/pre-commit", "x\n");
    kept(&world, "sep/tools/pre-commit");
}

#[test]
fn files_of_settings_in_the_work_tree() {
    let world = clone();
    let included = "[include]\n\tpath = below/more\n";
    for section in ["include", "includeIf.gitdir:/nowhere/"] {
        world.write("w/tools/shared", included);
        world.write("w/tools/below/more", "[core]\n\thooksPath = h\n");
        world.write("w/h/pre-commit", "x\n");
        outside(&world, &format!("git config {section}.path ../tools/shared"));
        for at in ["tools/shared", "tools/below/more", "h/pre-commit"] {
            kept(&world, at);
        }
        outside(&world, "rm -r tools/below");
        not_left(&world, "tools/below/more");
        outside(&world, "rm -r tools");
        not_left(&world, "tools/shared");
        outside(&world, &format!("git config --unset {section}.path && rm -r h tools && mkdir tools"));
        inside(&world, ["-w", "."], "echo x >tools/shared && mkdir h && rmdir h").done().is(0, "", "");
    }
    // What includes itself ends.
    world.write("w/tools/round", "[include]\n\tpath = round\n\tpath = ../tools/round\n");
    outside(&world, "git config -f .git/config include.path ../tools/round");
    inside(&world, ["-w", "."], "echo x >tools/round").done().code(2);
}

#[test]
fn what_cannot_be_protected_is_refused_or_told() {
    let world = clone();
    outside(&world, "mkdir there && ln -s there link && git config core.hooksPath link");
    let link = world.text("w/link");
    inside(&world, ["-w", "."], "true").done().refused(125, &["is a link to", &link]);
    inside(&world, ["-w", ".", "-w", "there"], "true").done().is(0, "", "");
    outside(&world, "rmdir there");
    inside(&world, ["-w", "."], "true").done().refused(125, &["is a link to", &link]);
    outside(&world, "git config core.hooksPath .");
    let done = inside(&world, ["-w", "."], "echo x >file").done().code(0);
    done.stderr_has("as the directory of hooks, which cannot be protected as a whole");
    // Nothing of these is in the grant.
    for elsewhere in ["/dev/null", "/nowhere/hooks", "~/hooks", "../o", ""] {
        outside(&world, &format!("git config core.hooksPath '{elsewhere}'"));
        inside(&world, ["-w", "."], "echo x >file").done().is(0, "", "");
    }
}

#[test]
fn repositories_without_a_work_tree() {
    let world = repository();
    outside(&world, "mkdir -p a/b && git clone -q --bare ../o/repo a/b/bare.git && mkdir -p a/b/bare.git/hooks");
    world.script("w/a/b/bare.git/hooks/post-update", "#!/bin/sh\n");
    kept(&world, "a/b/bare.git/config");
    kept(&world, "a/b/bare.git/hooks/post-update");
    not_left(&world, "a/b/bare.git/commondir");
    // It works, and pushing to it does.
    let push = "git clone -q a/b/bare.git c && cd c && git commit -q --allow-empty -m two && \
                git push -q origin HEAD:topic && git --git-dir ../a/b/bare.git log --format=%s -1 topic";
    inside(&world, ["-w", "."], push).done().is(0, "two\n", "");
    // In parts it is still one.
    for part in ["HEAD", "refs", "objects", "HEAD refs"] {
        inside(&world, ["-w", "."], &format!("for x in {part}; do mv a/b/bare.git/$x p$x; done")).done().code(0);
        kept(&world, "a/b/bare.git/config");
        inside(&world, ["-w", "."], &format!("for x in {part}; do mv p$x a/b/bare.git/$x; done")).done().code(0);
    }
    outside(&world, "rm -r a/b/bare.git/hooks a/b/bare.git/config");
    not_left(&world, "a/b/bare.git/hooks/x");
    not_left(&world, "a/b/bare.git/config");
    // The control: names alone make none.
    outside(&world, "mkdir plain && touch plain/config");
    inside(&world, ["-w", "."], "echo x >plain/config && mkdir plain/hooks").done().is(0, "", "");
}
