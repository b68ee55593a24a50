//! What a command makes of a git directory for later: data of worktrees and submodules, lists and permissions of what git makes there,
//! directories deeper than any search.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::git::{inside, outside, with_repository};
use crate::harness::{World, is_root, skip};

/// `w` is a clone, `o/victim` a directory of the caller's.
fn clone() -> World {
    // Where nobody who searches the whole host meets what is closed.
    let world = with_repository(World::apart());
    world.dir("o/victim");
    outside(&world, "git clone -q ../o/repo .");
    world
}

fn mode(world: &World, path: &str) -> u32 {
    fs::metadata(world.path(path)).unwrap().permissions().mode() & 0o7777
}

/// A script that lets what is made in these places begin without permissions for its owner.
fn listed(places: &str) -> String {
    format!(
        "python3 -c \"import os, struct, sys
acl = struct.pack('<I', 2) + b''.join(struct.pack('<HHI', tag, rights, 0xffffffff) for tag, rights in ((1, 0), (4, 6), (32, 6)))
for place in sys.argv[1:]: os.setxattr(place, 'system.posix_acl_default', acl)\" {places}"
    )
}

fn has_lists(world: &World) -> bool {
    let script = format!("mkdir ../lists; {} 2>/dev/null && echo yes || :", listed("../lists"));
    let has = outside(world, &script) == "yes\n";
    if !has {
        skip("lists", "the file system keeps no access control lists");
    }
    has
}

#[test]
fn what_git_makes_belongs_to_its_owner() {
    let world = clone();
    if !has_lists(&world) {
        return;
    }
    for damage in [
        "true",
        "rm .git/HEAD",
        "rm -rf .git/refs .git/HEAD",
        "chmod 0 .git/objects",
        "mv .git/refs r; ln -s ../r .git/refs",
    ] {
        let world = clone();
        let script = format!("{}; {damage}", listed(".git .git/objects .git/refs"));
        inside(&world, ["-w", "."], &script)
            .done()
            .code(0)
            .stderr_has("what is made in it has the permissions again that it had before");
        outside(
            &world,
            "git checkout -q -b x 2>/dev/null || git symbolic-ref HEAD refs/heads/x; mkdir .git/refs/x .git/objects/x",
        );
        for path in ["HEAD", "refs/x", "objects/x", "refs", "objects"] {
            assert_eq!(mode(&world, &format!("w/.git/{path}")) & 0o600, 0o600, "{damage}: {path}");
        }
    }
    let world = clone();
    outside(&world, &format!("{}; git checkout -q -b x", listed(".git")));
    assert_eq!(mode(&world, "w/.git/HEAD") & 0o600, 0, "the control");
    // The caller's own stays, and is not missed.
    fs::set_permissions(world.path("w/.git/HEAD"), fs::Permissions::from_mode(0o644)).unwrap();
    let list = "python3 -c \"import os; print(len(os.getxattr('.git', 'system.posix_acl_default')))\"";
    let before = outside(&world, list);
    inside(&world, ["-w", "."], "true").done().is(0, "", "");
    assert_eq!(outside(&world, list), before);
    let gone = "python3 -c \"import os; os.removexattr('.git', 'system.posix_acl_default')\"";
    inside(&world, ["-w", "."], gone).done().code(0).stderr_has("the permissions again");
    assert_eq!(outside(&world, list), before);
}

#[test]
fn what_is_mended_has_its_permissions() {
    for damage in ["chmod 0 .git/objects .git/refs", "rm -rf .git/refs .git/objects .git/HEAD", "chmod 0 .git"] {
        let world = clone();
        outside(&world, "chmod 2775 .git .git/objects .git/refs; chmod 664 .git/HEAD");
        let done = inside(&world, ["-w", "."], damage).done().code(0);
        // Whoever is not above permissions opens it to look for what was made in it.
        assert!(done.stderr.contains("was damaged during the run") || damage == "chmod 0 .git", "{}", done.stderr);
        let modes = ["w/.git", "w/.git/objects", "w/.git/refs", "w/.git/HEAD"].map(|path| mode(&world, path));
        assert_eq!(modes.map(|mode| format!("{mode:o}")), ["2775", "2775", "2775", "664"], "{damage}");
    }
}

/// What the caller has closed is looked at, and closed again.
#[test]
fn what_was_closed_stays_closed() {
    let world = clone();
    outside(
        &world,
        "mkdir -p .git/priv/x .git/logs/x/y; chmod 0 .git/priv/x; chmod 100 .git/priv; chmod 333 .git/logs/x",
    );
    // For whoever is not above permissions nothing can be written in it.
    let planted = ["true", "chmod 700 .git/priv; ln -s /nowhere .git/priv/l; chmod 100 .git/priv"];
    for script in planted.into_iter().take(if is_root() { 2 } else { 1 }) {
        let done = inside(&world, ["-w", "."], script).done().code(0).stderr_lacks("is open again");
        assert_eq!(done.stderr.lines().count(), usize::from(script != "true"), "{}", done.stderr);
        let modes = ["w/.git/priv", "w/.git/logs/x"].map(|path| mode(&world, path));
        assert_eq!(modes, [0o100, 0o333]);
    }
    outside(&world, "chmod 700 .git/priv; test $(stat -c %a .git/priv/x) = 0; chmod -R u+rwX .; test ! -L .git/priv/l");
}

#[test]
fn a_head_on_a_full_disk() {
    if !is_root() {
        return eprintln!("only root can mount: not tried");
    }
    let world = World::new();
    world.dir("disk");
    let outer = format!(
        "mount -t tmpfs -o size=2m none {disk} || exit 99; set -e; cd {disk}; git init -q -b main .; rm .git/HEAD
        ! git rev-parse --git-dir 2>/dev/null; echo 'ref: refs/heads/main' >.git/HEAD
        {program} -b bwrap -w . -- sh -c 'rm .git/HEAD; cat /dev/zero >fill 2>/dev/null || :'
        readlink .git/HEAD; git rev-parse --git-dir",
        disk = world.text("disk"),
        program = crate::harness::program().display(),
    );
    let done = world.call("unshare", ["-m", "--propagation", "private", "sh", "-c", &outer]).done();
    if done.code == Some(99) {
        return skip("a full disk", "nothing can be mounted here");
    }
    done.code(0).stdout("refs/heads/main\n.git\n").stderr_has("what it said before, as a link, since the disk is full");
}

/// A script that makes directories in `place`, one in another, and a link in the last.
fn deep(place: &str, depth: usize) -> String {
    format!(
        "python3 -c \"import os
os.makedirs('{place}', exist_ok=True); os.chdir('{place}')
for _ in range({depth}): os.makedirs('d', exist_ok=True); os.chdir('d')
os.path.lexists('l') or os.symlink('/nowhere', 'l')\""
    )
}

#[test]
fn no_directory_is_too_deep() {
    let link = "ln -sfn ../../../o/victim/x .git/logs/HEAD";
    for depth in [31, 40, 200] {
        let world = clone();
        let done = inside(&world, ["-w", "."], &deep(".git/logs/refs/heads", depth)).done().code(0);
        done.stderr_has(
            "d/l', a link to '/nowhere' through which git on the host would write, was made during the run",
        );
        inside(&world, ["-w", "."], "true").done().is(0, "", "");
    }
    // Deeper than any name of a branch: moved aside, and no next run is misled.
    for script in [
        deep(".git/logs/refs/heads", 300),
        deep(".git/x", 300),
        format!("{}; chmod -R 500 .git/x", deep(".git/x", 300)),
    ] {
        let world = clone();
        let done = inside(&world, ["-w", "."], &script).done().code(0);
        done.stderr_has(
            "', a directory too deep for git and to be looked at, was made during the run and is now '.d.sandbox-run-",
        );
        inside(&world, ["-w", "."], "true").done().is(0, "", "");
        inside(&world, ["-w", "."], link)
            .done()
            .code(0)
            .stderr_has("logs/HEAD', a link to '../../../o/victim/x' through which");
        outside(&world, "chmod -R u+rwX .git");
    }
    // One that was there is told of, and what lies elsewhere is known all the same.
    let world = clone();
    outside(&world, &deep(".git/x", 300));
    let done = inside(&world, ["-w", "."], link).done().code(0);
    done.stderr_has("logs/HEAD', a link to")
        .stderr_has("to know each link in it, so links that the command makes there are not looked for");
    let left = outside(&world, &format!("test -d .git/x; {}", deep(".git/x", 300)));
    assert_eq!(left, "");
    // Nor are descriptors few.
    let world = clone();
    let script = format!("{}; {link}", deep(".git/logs/refs/heads", 100));
    let call = inside(&world, ["-w", "."], &script).before_exec(|| {
        nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, 32, 32).map_err(Into::into)
    });
    call.done().code(0).stderr_has("d/l', a link to '/nowhere'").stderr_has("logs/HEAD', a link to");
}

/// `w` is a clone that has a submodule, of which nobody has made data yet.
fn above() -> World {
    let world = clone();
    outside(
        &world,
        "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),lib
        git config -f .gitmodules submodule.lib.path lib; git config -f .gitmodules submodule.lib.url $PWD/../o/repo
        git add .gitmodules; git commit -q -m sub; git submodule -q init",
    );
    world
}

const UPDATE: &str = "git -c protocol.file.allow=always submodule -q update --init";

#[test]
fn new_submodules_have_nothing_that_is_obeyed() {
    let planted = "git clone -q --bare . .git/modules/lib; cd .git/modules/lib; git config core.bare false";
    let hook =
        "mkdir -p HOOKS; printf '#!/bin/sh\\ntouch %s/ran\\n' $TOP >HOOKS/post-checkout; chmod +x HOOKS/post-checkout";
    for (script, name) in [
        (hook.replace("HOOKS", "hooks"), "hooks"),
        (format!("{}; chmod 111 hooks", hook.replace("HOOKS", "hooks")), "hooks"),
        (format!("{}; git config core.hooksPath $TOP/h", hook.replace("HOOKS", "$TOP/h")), "config"),
        ("git config core.fsmonitor \"touch $TOP/ran; false\"".into(), "config"),
        ("echo '[core]fsmonitor=\"touch '$TOP'/ran; false\"' >more; git config include.path more".into(), "config"),
        (
            "mkdir ../../e; cp -r HEAD config objects refs ../../e; git config -f ../../e/config core.fsmonitor \"touch $TOP/ran; false\"; \
             echo ../../e >commondir"
                .into(),
            "commondir",
        ),
    ] {
        let script = format!("TOP=$PWD; {planted}; {script}");
        let then = format!("{{ {UPDATE}; git status; }} >/dev/null 2>&1 || :");
        let world = above();
        let done = inside(&world, ["-w", "."], &script).done().code(0);
        done.stderr_has(&format!("sandbox-run: warning: '{}' ", world.text(&format!("w/.git/modules/lib/{name}"))));
        outside(&world, &then);
        assert!(!world.has("w/ran"), "{script}");
        // Else it could not be removed.
        outside(&world, "chmod -R u+rwX .");
        let world = above();
        outside(&world, &script);
        outside(&world, &then);
        assert!(world.has("w/ran"), "the control: {script}");
        outside(&world, "chmod -R u+rwX .");
    }
    // Where a name has many parts, links, and the index.
    for (script, text) in [
        ("git init -q --bare .git/modules/a/b/c; touch .git/modules/a/b/c/hooks/update", "a/b/c/hooks' has hooks"),
        (
            "git init -q --bare .git/modules/a; git init -q --bare .git/modules/a/modules/b; touch .git/modules/a/modules/b/hooks/update",
            "a/modules/b/hooks' has hooks",
        ),
        (
            "git init -q --bare .git/modules/a; ln -s /nowhere .git/modules/a/ORIG_HEAD",
            "a/ORIG_HEAD', a link to '/nowhere'",
        ),
        ("git init -q --bare .git/modules/a; ln -s /nowhere .git/modules/a/hooks/x", "a/hooks' has hooks"),
        ("git init -q --bare .git/modules/a; echo x >.git/modules/a/index", "a/index' cannot be understood"),
        (
            "git init -q --bare .git/modules/a; git --git-dir .git/modules/a config core.worktree /nowhere",
            "a/config' sets 'core.worktree'",
        ),
        (
            "git init -q --bare .git/modules/a; git --git-dir .git/modules/a config submodule.x.update '!x'",
            "a/config' sets 'submodule.update'",
        ),
    ] {
        let world = clone();
        inside(&world, ["-w", "."], script).done().code(0).stderr_has(&format!("w/.git/modules/{text}"));
        inside(&world, ["-w", "."], "true").done().is(0, "", "");
    }
    // git's own.
    let world = above();
    let repo = world.text("o");
    inside(&world, ["-w", ".", "-r", &repo, "--show-hidden", ".git"], UPDATE).done().code(0).stderr("");
    assert!(world.has("w/lib/file") && world.has("w/.git/modules/lib/config"));
    outside(&world, "git -C lib status >/dev/null");
}

/// git on the host empties and fills the work tree that the data names.
#[test]
fn the_work_tree_of_new_data_is_nothing_that_is_kept() {
    let reset = "git submodule foreach -q 'git reset -q --hard' >/dev/null 2>&1 || :";
    let clean = "git submodule foreach -q 'git clean -qffdx' >/dev/null 2>&1 || :";
    for (tree, then) in [("../../../.git/hooks", reset), ("../../../kept", clean), ("../..", clean)] {
        let make = || {
            let world = clone();
            outside(
                &world,
                "mkdir kept; echo x >kept/hook; rm -f .git/hooks/*; mkdir -p .git/hooks; git add kept; git commit -q -m kept",
            );
            world
        };
        let script = format!(
            "C=$(git rev-parse HEAD); git clone -q --bare . .git/modules/lib; rm -rf .git/modules/lib/hooks
            printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = {tree}\\n' >.git/modules/lib/config
            mkdir lib; echo gitdir: ../.git/modules/lib >lib/.git
            printf '[submodule \"lib\"]\\n\\tpath = lib\\n\\turl = ./x\\n' >.gitmodules
            git update-index --add --cacheinfo 160000,$C,lib; git add .gitmodules; git commit -q -m lib"
        );
        let changed = |world: &World| {
            world.has("w/.git/hooks/file")
                || !world.has("w/kept/hook")
                || !world.has("w/.git/config")
                || !world.has("w/mine")
        };
        let options = ["-w", ".", "--protect", "kept"];
        let world = make();
        outside(&world, "echo x >mine");
        let done = inside(&world, options, &script).done().code(0);
        done.stderr_has(&format!("'{}' sets 'core.worktree'", world.text("w/.git/modules/lib/config")));
        outside(&world, then);
        assert!(!changed(&world), "{tree}");
        let world = make();
        outside(&world, &format!("echo x >mine; {script}; {then}"));
        assert!(changed(&world), "the control: {tree}");
    }
}

/// A place that is nothing yet, or nothing that is kept, is anything later.
#[test]
fn the_work_tree_of_new_data_is_there_and_says_so() {
    let data = |tree: &str| {
        format!(
            "git clone -q --bare . .git/modules/lib; rm -rf .git/modules/lib/hooks
            printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = {tree}\\n' >.git/modules/lib/config"
        )
    };
    let dot_git = "echo gitdir: ../.git/modules/lib >lib/.git";
    for (tree, more) in [
        ("../../../lib", ""),
        ("../../../lib", "touch lib"),
        ("../../../lib", "mkdir lib"),
        ("../../../lib", "mkdir lib; mkdir lib/.git"),
        ("../../../lib", "mkdir lib; echo gitdir: ../.git >lib/.git"),
        ("../../../lib", "mkdir e; ln -s e lib; echo gitdir: ../.git/modules/lib >lib/.git"),
        ("../../../lib", "mkdir lib; ln -s e lib/.git; echo gitdir: ../.git/modules/lib >lib/e"),
        ("../../../lib", "ln -s ../o/victim lib"),
        ("../../../d", &format!("mkdir d lib; {dot_git}; cp lib/.git d")),
    ] {
        let world = clone();
        outside(&world, "git config core.hooksPath d/hooks");
        let done = inside(&world, ["-w", "."], &format!("{}; {more}", data(tree))).done().code(0);
        done.stderr_has(&format!("'{}' sets 'core.worktree'", world.text("w/.git/modules/lib/config")));
    }
    // What is kept stays where it is: also in the next run, and also a work tree that the caller has taken away.
    let world = clone();
    inside(&world, ["-w", "."], &format!("{}; mkdir lib; {dot_git}", data("../../../lib"))).done().is(0, "", "");
    let taken = "rm -rf lib; mv lib e; ln -s .git lib; ls -l lib";
    inside(&world, ["-w", "."], taken).done().stderr_has("busy");
    assert!(!world.path("w/lib").is_symlink());
    for prepare in ["rm -r lib", "rm -r lib; mkdir lib"] {
        outside(&world, prepare);
        let linked = "rm -rf lib; ln -s .git lib";
        let done = inside(&world, ["-w", "."], linked).done().code(0);
        done.stderr_has(&format!(
            "'{}', which git on the host would obey, was made during the run",
            world.text("w/lib")
        ));
        assert!(!world.has("w/lib"));
        inside(&world, ["-w", "."], "mkdir lib").done().is(0, "", "");
    }
}

#[test]
fn a_worktree_that_has_gone_is_no_link() {
    let make = || {
        let world = clone();
        outside(&world, "git worktree add -q -b t tree; rm -r tree; touch ../o/victim/mine");
        world
    };
    let world = make();
    let link = "ln -s ../o/victim tree";
    let after = "git worktree repair >/dev/null 2>&1; git worktree remove -f tree 2>/dev/null; test -e ../o/victim/mine && echo there || echo gone";
    let done = inside(&world, ["-w", "."], link).done().code(0);
    done.stderr_has("which git on the host would obey, was made during the run");
    assert_eq!(outside(&world, &format!("{{ {after}; }} || :")), "there\n");
    let world = make();
    inside(&world, ["-w", "."], "mkdir tree && rmdir tree").done().is(0, "", "");
    outside(&world, link);
    assert_eq!(outside(&world, &format!("{{ {after}; }} || :")), "gone\n", "the control");
}

/// git of others passes over what it cannot read.
#[test]
fn a_shared_repository_stays_open_to_others() {
    for damage in [
        "chmod 600 .git/HEAD",
        "rm .git/HEAD; (umask 077; echo ref: refs/heads/main >.git/HEAD)",
        "chmod 2700 .git",
        "chmod 700 .git/refs",
        "mv .git/refs .git/r; mkdir -m 700 .git/refs",
    ] {
        let world = clone();
        let share = "chmod 2775 .git .git/objects .git/refs; chmod 664 .git/HEAD";
        outside(&world, share);
        let done = inside(&world, ["-w", "."], damage).done().code(0);
        done.stderr_has("was damaged during the run").stderr_has("others can read it again");
        for (path, bits) in [("", 0o055), ("/refs", 0o055), ("/objects", 0o055), ("/HEAD", 0o044)] {
            assert_eq!(mode(&world, &format!("w/.git{path}")) & bits, bits, "{damage}: {path}");
        }
    }
    // One that is the caller's alone may be closed to others.
    let world = clone();
    outside(&world, "chmod 755 .git");
    inside(&world, ["-w", "."], "chmod 700 .git; chmod 600 .git/HEAD").done().is(0, "", "");
    assert_eq!((mode(&world, "w/.git"), mode(&world, "w/.git/HEAD")), (0o700, 0o600));
}

/// Nothing can be made in them, so what is there was there.
#[test]
fn links_in_directories_of_the_caller_that_are_closed_stay() {
    for mode in ["000", "111", "311", "333", "444"] {
        let world = clone();
        outside(&world, &format!("mkdir .git/priv; ln -s /nowhere .git/priv/l; chmod {mode} .git/priv"));
        let done = inside(&world, ["-w", "."], "true").done().code(0);
        done.stderr_lacks("was made during the run");
        outside(&world, "chmod 700 .git/priv; test -L .git/priv/l");
    }
}

#[test]
fn new_worktrees_are_those_of_git() {
    let data = "mkdir -p .git/worktrees/x; cd .git/worktrees/x; cp ../../HEAD .; echo ../.. >commondir; echo $TOP/t/.git >gitdir";
    let repair = "git worktree repair >/dev/null 2>&1 || :";
    let status = "git -C t status >/dev/null 2>&1 || :";
    let evil = "cp -r $TOP/.git/. $TOP/e; git config -f $TOP/e/config core.fsmonitor \"touch $TOP/ran; false\"";
    let file = "mkdir $TOP/t; echo gitdir: $TOP/.git/worktrees/x >$TOP/t/.git; git --git-dir $TOP/.git read-tree --index-output=index HEAD";
    for (script, then) in [
        ("echo $TOP/../o/victim/.git >gitdir".to_owned(), repair),
        (
            "echo ../../../../o/victim/.git >gitdir; ln -s ../o/victim $TOP/v; echo $TOP/v/.git >gitdir".to_owned(),
            repair,
        ),
        (format!("{evil}; {file}; echo $TOP/e >commondir"), status),
        (format!("{file}; git config -f config.worktree core.fsmonitor \"touch $TOP/ran; false\""), status),
    ] {
        let script = format!("TOP=$PWD; {data}; {script}");
        let changed = |world: &World| world.has("w/ran") || world.has("o/victim/.git");
        let world = clone();
        outside(&world, "git config extensions.worktreeConfig true");
        let done = inside(&world, ["-w", "."], &script).done().code(0);
        done.stderr_has(&format!("sandbox-run: warning: '{}' ", world.text("w/.git/worktrees/x")));
        assert!(!world.has("w/.git/worktrees/x"));
        outside(&world, then);
        assert!(!changed(&world), "{script}");
        let world = clone();
        outside(&world, &format!("git config extensions.worktreeConfig true; {script}"));
        outside(&world, then);
        assert!(changed(&world), "the control: {script}");
    }
    let world = clone();
    inside(&world, ["-w", "."], "git worktree add -q -b topic tree && git -C tree status >/dev/null")
        .done()
        .is(0, "", "");
    outside(&world, "git worktree list | grep -q tree; git -C tree status >/dev/null");
    inside(&world, ["-w", "."], "cd tree; echo x >new; git add new; git commit -qm x").done().is(0, "", "");
}
