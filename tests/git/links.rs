//! Links that the command makes in a git directory: git on the host would write through them, and delete behind them.

use std::fs;

use crate::git::{inside, outside, repository};
use crate::harness::World;

/// `w` is a clone with a worktree and the data of a submodule, `o/victim` a directory of the caller's with a file.
fn clone() -> World {
    let world = repository();
    world.write("o/victim/file", "host\n");
    outside(
        &world,
        "git clone -q ../o/repo . && git worktree add -q -b topic tree && git init -q --bare .git/modules/lib/sub && \
         mkdir -p .git/objects/info .git/info",
    );
    world
}

/// Links below `.git`, and where they lead.
fn links(world: &World) -> Vec<(String, String)> {
    let top = world.path("w/.git");
    let mut links: Vec<_> = (world.snapshot().into_keys())
        .filter_map(|path| {
            let to = fs::read_link(&path).ok()?.to_str()?.to_owned();
            Some((path.strip_prefix(&top).ok()?.to_str()?.to_owned(), to))
        })
        .collect();
    links.sort();
    links
}

/// The settings of the repository, and files of the caller.
#[test]
fn git_writes_through_no_link_of_the_command() {
    let settings = "cd .git; rm -f COMMIT_EDITMSG; ln -s config COMMIT_EDITMSG; \
        printf '[core]\\nrepositoryformatversion=0\\nfsmonitor=\"touch %s/ran; false\"\\n' $TOP >SQUASH_MSG";
    let commit = "GIT_EDITOR=true git commit -q --allow-empty; git status";
    let victim = "../../o/victim";
    let log = format!("rm -r .git/logs/HEAD; ln -s ../{victim}/file .git/logs/HEAD");
    let branch = format!("rm -r .git/logs; mkdir -p .git/logs/refs; ln -s ../../{victim} .git/logs/refs/heads");
    let message = format!("rm -f .git/COMMIT_EDITMSG; ln -s {victim}/file .git/COMMIT_EDITMSG");
    let fetched = format!("rm -f .git/FETCH_HEAD; ln -s {victim}/file .git/FETCH_HEAD");
    let worktree = format!("ln -s ../{victim} .git/worktrees/x");
    for (script, then) in [
        (settings, commit),
        (&log, "git commit -q --allow-empty -m x"),
        (&branch, "git commit -q --allow-empty -m x"),
        (&message, "git commit -q --allow-empty -m x"),
        (&fetched, "git fetch -q"),
        // git deletes what is in the data of a worktree that has gone.
        (&worktree, "git worktree prune"),
    ] {
        let all = |world: &World| {
            let ours = ["o/victim", "w/ran", "w/.git/config"].map(|path| world.path(path));
            let kept = world.snapshot().into_iter().filter(|(path, _)| ours.iter().any(|one| path.starts_with(one)));
            kept.filter(|(path, _)| path.is_file() || path.ends_with("ran")).collect::<Vec<_>>()
        };
        let script = format!("TOP=$PWD; {script}");
        let then = format!("({then}) >/dev/null 2>&1 || :");
        let world = clone();
        let before = all(&world);
        let done = inside(&world, ["-w", "."], &script).done().code(0);
        let done = done.stderr_has("through which git on the host would write, was made during the run and is now '.");
        assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
        outside(&world, &then);
        assert_eq!(all(&world), before, "{script}");
        // The control.
        let world = clone();
        outside(&world, &script);
        outside(&world, &then);
        assert_ne!(all(&world), before, "{script}");
    }
}

/// Wherever git may write, and where the command closes what they lie in.
#[test]
fn links_are_found_at_every_level() {
    let places = [
        "AUTO_MERGE",
        "info/exclude",
        "logs/refs/x/y/z",
        "modules/lib/sub/index",
        "modules/new",
        "objects/00",
        "objects/info/x/y",
        "objects/pack/x",
        "rebase-merge/message",
        "refs/heads/a/b",
        "rr-cache/x/postimage",
        "worktrees/tree/logs/x",
        "worktrees/x",
    ];
    let world = clone();
    outside(&world, "rm -f .git/info/exclude");
    let before = world.snapshot();
    let make = |place| format!("mkdir -p .git/$(dirname {place}); ln -s /nowhere .git/{place}; ");
    let script: String = places.iter().map(make).collect();
    let mut done = inside(&world, ["-w", "."], &script).done().code(0);
    for place in places {
        let path = world.text(&format!("w/.git/{place}"));
        done = done.stderr_has(&format!("sandbox-run: warning: '{path}', a link to '/nowhere' through which"));
    }
    assert_eq!(done.stderr.lines().count(), places.len(), "{}", done.stderr);
    let left: Vec<_> = links(&world).into_iter().map(|(path, _)| path).collect();
    assert_eq!(left.len(), places.len(), "{left:?}");
    assert!(left.iter().all(|path| path.rsplit('/').next().is_some_and(|name| name.starts_with('.'))), "{left:?}");
    // The rest is as it was, and git has no complaint.
    let now = world.snapshot();
    assert!(before.keys().all(|path| now.contains_key(path)));
    outside(&world, "git gc -q; git fsck --no-progress; git status; git worktree prune; git worktree list");
    // Closed, and the git directory as well.
    for mode in ["000", "300", "600", "555", "111"] {
        for top in ["755", "555"] {
            let world = clone();
            let script = format!("mkdir .git/x; ln -s /nowhere .git/x/y; chmod {mode} .git/x; chmod {top} .git");
            let done = inside(&world, ["-w", "."], &script).done().code(0).stderr_has("and is now '.y.sandbox-run-");
            // What can be looked at stays closed.
            let closed = usize::from(!crate::harness::is_root() && mode != "555");
            assert_eq!(done.stderr.matches("is open again").count(), closed, "{mode}: {}", done.stderr);
            assert_eq!(links(&world).len(), 1);
            outside(&world, &format!("test $(stat -c %a .git) = {top} && chmod -R u+rwX ."));
        }
    }
    // Many are told of in few lines.
    let world = clone();
    let done = inside(&world, ["-w", "."], "i=0; while [ $i -lt 50 ]; do ln -s x .git/l$i; i=$((i + 1)); done").done();
    let done = done.stderr_has(&format!("sandbox-run: warning: so were 30 more in '{}'", world.text("w/.git")));
    assert_eq!(done.stderr.lines().count(), 21, "{}", done.stderr);
    assert_eq!(links(&world).len(), 50);
}

#[test]
fn links_of_the_host_stay() {
    let world = clone();
    outside(
        &world,
        "mv .git/logs ../o/logs; ln -s ../../o/logs .git/logs; ln -s x .git/y; git symbolic-ref HEAD refs/heads/main",
    );
    let before = links(&world);
    assert_eq!(before.len(), 2);
    // git's old form of a `HEAD` is one of its own.
    inside(&world, ["-w", "."], "ln -sf refs/heads/main .git/HEAD; git status -s").done().code(0).stderr("");
    assert_eq!(fs::read_link(world.path("w/.git/HEAD")).unwrap(), std::path::Path::new("refs/heads/main"));
    let upwards = "ln -sf refs/../config .git/HEAD";
    inside(&world, ["-w", "."], upwards).done().code(0).stderr_has("'HEAD' says again what it said before");
    outside(&world, "git status; rm .git/HEAD.sandbox-run-*");
    assert_eq!(links(&world), before);
    // One that leads somewhere else now is none of them.
    let done = inside(&world, ["-w", "."], "ln -sfn ../../o/victim .git/logs").done().code(0);
    done.stderr_has("'.logs.sandbox-run-");
    assert!(!world.has("w/.git/logs"));
    assert_eq!(links(&world).len(), 2);
    // Outside of git directories nobody looks.
    inside(&world, ["-w", "."], "ln -s config COMMIT_EDITMSG; mkdir logs; ln -s x logs/HEAD").done().is(0, "", "");
}

/// What cannot be looked at is no `commondir`.
#[test]
fn a_closed_repository_has_no_commondir() {
    for options in [&[][..], &["-w", "."]] {
        let world = clone();
        outside(&world, "chmod 0 .git");
        let done = inside(&world, options.iter().copied(), "true").done();
        outside(&world, "chmod 755 .git");
        assert!(!done.stderr.contains("commondir"), "{}", done.stderr);
        // The control.
        outside(&world, "echo ../tree >.git/commondir");
        inside(&world, options.iter().copied(), "true").done().stderr_has("commondir' sends git to");
    }
}

/// git looks at no name that a symbolic ref leads to: it writes that and, where it keeps logs, beside.
#[test]
fn git_writes_through_no_ref_of_the_command() {
    let commit = "git commit -q --allow-empty -m x";
    for (file, target, then, written) in [
        ("refs/heads/main", "../config", commit, "w/.git/config"),
        ("refs/heads/main", "../hooks/post-commit", commit, "w/.git/hooks/post-commit"),
        ("refs/heads/main", "../../o/new", commit, "o/new"),
        ("HEAD", "refs/heads/../../hooks/new", commit, "w/.git/hooks/new"),
        ("ORIG_HEAD", "../../o/new", "git reset -q --hard", "o/new"),
        ("refs/tags/v", "../../o/new", "git fetch -q ../o/repo main:refs/tags/v", "o/new"),
        ("worktrees/tree/ORIG_HEAD", "../../o/new", "cd tree; git reset -q --hard", "o/new"),
        (
            "modules/lib/sub/HEAD",
            "../../../../../o/new",
            "git -C .git/modules/lib/sub --bare fetch -q $PWD/file main",
            "o/new",
        ),
    ] {
        let script = format!("rm -f .git/{file}; echo 'ref: {target}' >.git/{file}");
        let then = format!("({then}) >/dev/null 2>&1 || :");
        let prepared = || {
            let world = clone();
            outside(&world, "echo '#!/bin/sh' >.git/hooks/post-commit; mkdir ../o/hooks");
            world
        };
        let changed = |world: &World| {
            let before = world.has(written).then(|| world.read(written));
            outside(world, &then);
            world.has(written).then(|| world.read(written)) != before
        };
        let world = prepared();
        let done = inside(&world, ["-w", "."], &script).done().code(0);
        if file.ends_with("HEAD") && !file.contains("ORIG") {
            done.stderr_has("'HEAD' says again what it said before");
        } else {
            let path = world.text(&format!("w/.git/{file}"));
            done.stderr_has(&format!(
                "'{path}', a ref that leads to '{target}', where git on the host would write, was made"
            ));
        }
        assert!(!changed(&world), "{script}");
        // The control.
        if !file.starts_with("modules") {
            let world = prepared();
            outside(&world, &script);
            assert!(changed(&world), "the control: {script}");
        }
    }
    // Those of git lead to refs.
    let world = clone();
    let script = "git symbolic-ref refs/heads/alias refs/heads/main; git remote set-head origin main; git checkout -q --detach; \
        git checkout -q main; git bisect start -q; git bisect reset 2>/dev/null; git commit -q --allow-empty -m x; git reset -q --hard HEAD^";
    inside(&world, ["-w", "."], script).done().code(0).stderr_lacks("sandbox-run:");
    outside(&world, "git symbolic-ref refs/heads/alias; git log -1 alias; test -e .git/ORIG_HEAD");
}
