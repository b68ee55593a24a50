//! What an index must not give to anything else: hooks, what is protected, and work trees, inside and outside of the grant.

use std::fs;

use crate::git::{inside, outside, repository};
use crate::harness::{Call, World};

/// Hooks that git does not track, in `tools/hooks`, which the settings name.
const HOOKS: &str = "mkdir -p tools/hooks; echo x >tools/run; printf '/tools/hooks\\n/e\\n' >.gitignore; \
    printf '#!/bin/sh\\n' >tools/hooks/pre-commit; chmod +x tools/hooks/pre-commit; git config core.hooksPath tools/hooks; \
    git add .gitignore tools/run; git commit -qm hooks";

/// The same hooks in another work tree of the repository.
const THERE: &str =
    "mkdir -p tools/hooks; printf '#!/bin/sh\\n' >tools/hooks/pre-commit; chmod +x tools/hooks/pre-commit";

/// One try: what the caller has, what the command does, and what git on the host does then.
struct Try<'a> {
    before: String,
    options: &'a [&'a str],
    env: &'a [(&'a str, &'a str)],
    script: String,
    then: &'a str,
    /// What the warning says of the index.
    name: &'a str,
}

impl Default for Try<'_> {
    fn default() -> Self {
        let then = "git checkout -q -- .; git commit -q --allow-empty -m x";
        Self { before: HOOKS.into(), options: &[], env: &[], script: String::new(), then, name: "tools" }
    }
}

/// A script that puts a link `name` to `to` in the place of all that the index has there.
fn put(index: &str, to: &str, name: &str) -> String {
    format!(
        "export GIT_INDEX_FILE={index}; L=$(printf %s {to} | git hash-object -w --stdin); \
         git ls-files -z {name} | git update-index -z --force-remove --stdin; git update-index --add --cacheinfo 120000,$L,{name}"
    )
}

/// Hooks of the command's own in `e` and in `e/hooks`.
fn evil(world: &World) -> String {
    let hook = format!(
        "printf '#!/bin/sh\\ntouch {}\\n' >e/hooks/$h; chmod +x e/hooks/$h; cp e/hooks/$h e/$h",
        world.text("o/ran")
    );
    format!("mkdir -p e/hooks; for h in pre-commit post-checkout; do {hook}; done; ")
}

/// `w` is a clone.
fn clone() -> World {
    let world = repository();
    outside(&world, "git clone -q ../o/repo .");
    world
}

fn with(env: &[(&str, &str)], call: Call, world: &World) -> Call {
    env.iter().fold(call, |call, (name, value)| call.env(name, value.replace("TOP", &world.text("w"))))
}

/// Whether git on the host has run what the command made, or a directory that was to stay is a link or empty.
fn lost(world: &World, tried: &Try) -> bool {
    let script =
        format!("({}) >/dev/null 2>&1; test -L s -o -L scripts -o -L ../o/wt/s && touch ../o/ran; :", tried.then);
    let names = ["AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL"].map(|name| format!("GIT_{name}"));
    let call = names.iter().fold(world.call("sh", ["-c", &script]), |call, name| call.env(name, "x@example.org"));
    with(tried.env, call, world).done().code(0);
    world.has("o/ran")
}

fn held(tried: &Try) {
    held_and_said(
        tried,
        &format!("' names '{}', which git on the host would write, read or delete: it is now '", tried.name),
    );
}

fn held_and_said(tried: &Try, said: &str) {
    let prepared = || {
        let world = clone();
        outside(&world, &tried.before);
        world
    };
    let world = prepared();
    let script = evil(&world) + &tried.script.replace("TOP", &world.text("w"));
    let options = ["-w", "."].iter().chain(tried.options).copied();
    let done = with(tried.env, inside(&world, options, &script), &world).done().code(0);
    done.stderr_has(said);
    assert!(!lost(&world, tried), "{script}");
    // The control.
    let world = prepared();
    let script = evil(&world) + &tried.script.replace("TOP", &world.text("w"));
    with(tried.env, world.call("sh", ["-ec", &script]), &world).done().code(0);
    assert!(lost(&world, tried), "the control: {script}");
}

#[test]
fn nothing_comes_in_the_place_of_a_directory_that_is_protected() {
    held(&Try { script: put(".git/index", "../e", "tools/hooks"), name: "tools/hooks", ..Try::default() });
    let husky = "mkdir -p .husky/_; echo true >.husky/pre-commit; printf '#!/bin/sh\\n' >.husky/_/pre-commit; chmod +x .husky/_/pre-commit; \
        echo '*' >.husky/_/.gitignore; git add .husky; git commit -qm x; git config core.hooksPath .husky/_";
    let script = put(".git/index", "../e", ".husky/_");
    held(&Try { before: husky.into(), script, name: ".husky/_", ..Try::default() });
    let scripts =
        "mkdir scripts; echo keep >scripts/deploy; echo /scripts >.gitignore; git add .gitignore; git commit -qm x";
    let script = put(".git/index", "e", "scripts");
    held(&Try {
        before: scripts.into(),
        options: &["--protect", "scripts"],
        script,
        name: "scripts",
        ..Try::default()
    });
}

/// git overwrites what it does not track when the index names it.
#[test]
fn nothing_new_comes_below_it() {
    let script =
        "H=$(git hash-object -w e/pre-commit); git update-index --add --cacheinfo 100755,$H,tools/hooks/pre-commit";
    held(&Try { script: script.into(), name: "tools/hooks/pre-commit", ..Try::default() });
    // Hooks that are not there yet.
    let missing = "git config core.hooksPath tools/hooks".to_owned();
    held(&Try { before: missing, script: script.into(), name: "tools/hooks/pre-commit", ..Try::default() });
    // A tracked one that is changed, also where another index has its name.
    let tracked = format!("{HOOKS}; git add -f tools/hooks; git commit -qm x");
    let split = format!("{tracked}; git update-index --split-index; git config splitIndex.maxPercentChange 100");
    for before in [tracked, split] {
        let then = "git checkout -q -- .; git commit -q --allow-empty -m x";
        held(&Try { before, script: script.into(), name: "tools/hooks/pre-commit", then, ..Try::default() });
    }
}

#[test]
fn work_trees_outside_the_grant_are_compared_with_as_well() {
    let there = "cd ../o/wt; git checkout -q -- .; git commit -q --allow-empty -m x";
    let linked = format!("{HOOKS}; git worktree add -q -b w ../o/wt; cd ../o/wt; {THERE}");
    held(&Try {
        before: linked,
        script: put(".git/worktrees/wt/index", "TOP/e", "tools"),
        then: there,
        ..Try::default()
    });
    // With all that is in a submodule there.
    let sub = "-c protocol.file.allow=always submodule --quiet";
    let linked = format!(
        "git {sub} add ../repo s; git commit -qm s; git worktree add -q -b w ../o/wt; cd ../o/wt; git {sub} update --init"
    );
    let linked = linked.replace("../repo s", "$PWD/../o/repo s");
    let script = put(".git/worktrees/wt/index", "../w", "s");
    held(&Try { before: linked, script, then: "cd ../o/wt; git checkout -q -- .", name: "s", ..Try::default() });
    // And whatever directory is there now.
    let linked = "git worktree add -q -b w ../o/wt; mkdir ../o/wt/s; echo precious >../o/wt/s/x".to_owned();
    let script = put(".git/worktrees/wt/index", "../w", "s");
    held(&Try { before: linked, script, then: "cd ../o/wt; git checkout -q -- .", name: "s", ..Try::default() });
    // The linked one is granted, and the index that of the main one.
    let main = format!("rm -rf .git file; cd ../o/repo; {HOOKS}; git worktree add -q -b w ../../w");
    let then = "cd ../o/repo; git checkout -q -- .; git commit -q --allow-empty -m x";
    held(&Try { before: main, script: put("../o/repo/.git/index", "TOP/e", "tools"), then, ..Try::default() });
    let script = |index: &str| format!("export GIT_DIR=.git GIT_WORK_TREE=.; {}", put(index, "TOP/e", "tools"));
    let elsewhere = |first: &str, last: &str| {
        format!(
            "mkdir ../o/t; {first}; cp file ../o/t; export GIT_DIR=$PWD/.git GIT_WORK_TREE=$PWD/../o/t; cd ../o/t; {HOOKS}; cd ../../w; {last}"
        )
    };
    let then = "cd ../o/t; export GIT_DIR=../../w/.git; git checkout -q -- .; git commit -q --allow-empty -m x";
    let before = elsewhere("true", "git config core.worktree ../../o/t");
    held(&Try { before, script: script(".git/index"), then, ..Try::default() });
    let env = [("GIT_DIR", "TOP/.git"), ("GIT_WORK_TREE", "TOP/../o/t")];
    held(&Try { before: elsewhere("true", "true"), env: &env, script: script(".git/index"), then, ..Try::default() });
}

#[test]
fn the_index_of_the_environment_is_compared_as_well() {
    for index in ["alt", ".git/alt"] {
        let before = format!("{HOOKS}; cp .git/index {index}");
        let env = [("GIT_INDEX_FILE", format!("TOP/{index}"))];
        let env = env.each_ref().map(|(name, value)| (*name, value.as_str()));
        held(&Try { before, env: &env, script: put(index, "e", "tools"), ..Try::default() });
    }
    // By a name that counts from the top, and a link in its place.
    let env = [("GIT_INDEX_FILE", "alt")];
    let before = format!("{HOOKS}; cp .git/index alt");
    held(&Try { before: before.clone(), env: &env, script: put("alt", "e", "tools"), ..Try::default() });
    let world = clone();
    outside(&world, &before);
    let script = "mv alt other; ln -s other alt";
    let done = with(&env, inside(&world, ["-w", "."], script), &world).done().code(0);
    done.stderr_has("alt' is a link that was made during the run").stderr_has(": it is now '");
    // Where the grant has nothing of the repository but the index.
    let env = [("GIT_INDEX_FILE", "TOP/g/alt")];
    let before = format!("{HOOKS}; mkdir g; cp .git/index g/alt");
    let evil = "export GIT_OBJECT_DIRECTORY=$PWD/g/o; mkdir g/o; H=$(git hash-object -w --stdin <file); git update-index --add --cacheinfo 100755,$H,tools/hooks/x";
    let world = clone();
    outside(&world, &before);
    let script = format!(
        "export GIT_DIR=$PWD/g/r GIT_INDEX_FILE=g/alt; git init -q; unset GIT_INDEX_FILE; export GIT_INDEX_FILE=g/alt; {evil}"
    );
    let done = with(&env, inside(&world, ["-w", "g"], &script), &world).done().code(0);
    done.stderr_has("g/alt' names 'tools/hooks/x', which git on the host would write");
    // What git makes of it stays.
    let world = clone();
    outside(&world, &before);
    let script = "export GIT_INDEX_FILE=alt; echo x >new; git add new; git commit -qm new";
    with(&env, inside(&world, ["-w", "."], script), &world).done().is(0, "", "");
}

/// The entry of a directory in a sparse index hides what is in its tree.
#[test]
fn no_entry_stands_for_a_directory_in_which_something_is_kept() {
    let forge = "import struct, hashlib, sys; n = b'top/'; \
        h = struct.pack('>10I', 0, 0, 0, 0, 0, 0, 0o040000, 0, 0, 0) + bytes.fromhex(sys.argv[1]) + struct.pack('>HH', len(n) | 0x4000, 0x4000) + n; \
        d = b'DIRC' + struct.pack('>II', 3, 1) + h + bytes(8 - len(h) % 8) + b'sdir' + struct.pack('>I', 0); \
        open('.git/index', 'wb').write(d + hashlib.sha1(d).digest())";
    let before = HOOKS.replace("tools", "top/tools");
    let sparse = "git config core.sparseCheckout true; git config core.sparseCheckoutCone true; git config index.sparse true; \
        mkdir -p .git/info; printf '/*\\n!/*/\\n' >.git/info/sparse-checkout";
    let script = format!(
        "L=$(printf ../e | git hash-object -w --stdin); T=$(printf '120000 blob %s\\ttools\\n' $L | git mktree); python3 -c \"{forge}\" $T"
    );
    held(&Try { before: format!("{before}; {sparse}"), script, name: "top/", ..Try::default() });
}

/// What is not changed stays, wherever it lies.
#[test]
fn ordinary_work_goes_on() {
    let tracked = "mkdir -p .githooks lib a; printf '#!/bin/sh\\n' >.githooks/pre-commit; chmod +x .githooks/pre-commit; touch a/x lib/x; \
        git config core.hooksPath .githooks; git add .; git commit -qm hooks";
    let sub = "git init -q s; cd s; git commit -q --allow-empty -m x; mkdir hk; git config core.hooksPath hk; cd ..; git add s 2>/dev/null; git commit -qm s";
    let lib = "mkdir -p lib/hooks a; touch lib/hooks/pre-commit a/x; git add .; git commit -qm x; git config core.hooksPath lib/hooks; \
        git sparse-checkout set --sparse-index a";
    for (before, script) in [
        (
            tracked,
            "echo x >new; git add -A; git commit -qm new; git reset -q HEAD~1; git add new; git stash -q; git stash drop -q",
        ),
        (tracked, "git update-index --index-version 4; git mv a b; git commit -qm b"),
        (&format!("{tracked}; git update-index --split-index"), "echo x >new; git add new; git commit -qm new"),
        (HOOKS, "git rm -q --cached tools/run; git commit -qm gone; git add tools/run"),
        (sub, "cd s; git commit -q --allow-empty -m y; cd ..; git add s; git commit -qm s"),
        (lib, "echo x >a/x; git add a/x; git commit -qm x"),
    ] {
        let world = clone();
        outside(&world, before);
        inside(&world, ["-w", "."], script).done().is(0, "", "");
        outside(&world, "git ls-files >/dev/null 2>&1");
    }
    // The caller's changes can be committed from outside of what is granted.
    let world = clone();
    outside(
        &world,
        "mkdir src; echo x >src/x; echo x >was; git add .; git commit -qm x; echo y >src/x; rm was; mkdir was; touch was/x",
    );
    inside(&world, ["-w", ".git", "-r", "src"], "git add src; git commit -qm y").done().is(0, "", "");
    // Whoever grants hooks means their next version as well.
    let world = clone();
    outside(&world, tracked);
    let change = "echo '#!/bin/sh' >.githooks/pre-commit; git add .githooks";
    inside(&world, ["-w", ".", "-w", ".githooks"], change).done().is(0, "", "");
    assert!(fs::exists(world.path("w/.git/index")).unwrap());
}

/// A commit of the command's own.
const COMMIT: &str = "-c user.name=x -c user.email=x@example.org";

/// What is checked out of one would come there.
#[test]
fn no_submodule_comes_in_the_place_of_a_directory_that_is_protected() {
    for (at, name) in [("tools/hooks", "tools/hooks"), ("tools", "tools")] {
        let content = if at == "tools" { "mkdir hooks; cp ../e/pre-commit hooks" } else { "cp ../e/pre-commit ." };
        let script = format!(
            "git init -q l; cd l; {content}; git add .; git {COMMIT} commit -qm h; C=$(git rev-parse HEAD); cd ..; mkdir .git/modules; \
             git clone -q --bare l .git/modules/t; git config -f .git/modules/t/config core.bare false; \
             rm -rf .git/modules/t/hooks l; printf '[submodule \"t\"]\\npath={at}\\nurl=./x\\n' >.gitmodules; \
             git add .gitmodules; git update-index --force-remove tools/run; git update-index --add --cacheinfo 160000,$C,{at}"
        );
        let then = "git submodule update --init; git commit -q --allow-empty -m x";
        held(&Try { script, then, name, ..Try::default() });
    }
}

/// git puts it into the work tree by itself: at the next commit, and even when a rebase is given up.
#[test]
fn no_stash_waits_for_the_caller() {
    let commit = "echo b >b; git add b; git commit -qm u; git commit -q --allow-empty -m x";
    for (place, name, then, when) in [
        (".git", "MERGE_AUTOSTASH", commit, "at the next commit"),
        (
            ".git/rebase-merge",
            "autostash",
            "git rebase --abort; git commit -q --allow-empty -m x",
            "when the rebase ends",
        ),
        (
            ".git/rebase-apply",
            "autostash",
            "git rebase --abort; git commit -q --allow-empty -m x",
            "when the rebase ends",
        ),
    ] {
        let script = format!(
            "cp .git/index i; export GIT_INDEX_FILE=i; H=$(git hash-object -w e/pre-commit); \
             git update-index --add --cacheinfo 100755,$H,tools/hooks/pre-commit; T=$(git write-tree); unset GIT_INDEX_FILE; rm i; \
             I=$(git {COMMIT} commit-tree -p HEAD -m i HEAD^{{tree}}); mkdir -p {place}; \
             git {COMMIT} commit-tree -p HEAD -p $I -m s $T >{place}/{name}; test {place} = .git || {{ cd {place}; \
             git rev-parse HEAD | tee orig-head >onto; echo refs/heads/main >head-name; touch interactive; echo 1 | tee next >last; }}"
        );
        let said = format!(
            "{place}/{name}' is new, so git on the host would put what the command chose into the work tree {when}"
        );
        held_and_said(&Try { script, then, ..Try::default() }, &said);
    }
    // What the caller has saved in one can still be had, and what is the caller's stays.
    let world = clone();
    let begin = "git checkout -qb b; echo two >file; git commit -qam two; echo 2 >other; git add other; git commit -qm other; \
        git checkout -q main; echo three >file; git commit -qam three; git checkout -q b; echo mine >other; \
        git rebase -q --autostash main >/dev/null 2>&1 || test -e .git/rebase-merge/autostash";
    outside(&world, begin);
    inside(&world, ["-w", "."], "git status >/dev/null; git log -1 --format=%s").done().code(0).stderr("");
    outside(
        &world,
        "git rebase --abort >/dev/null 2>&1; grep mine other; git checkout -q .; git checkout -q main; git branch -qD b",
    );
    let world = clone();
    let done = inside(&world, ["-w", "."], begin).done().code(0);
    done.stderr_has("(git stash apply, with the commit in it, does that): it is now '.autostash.sandbox-run-");
    outside(
        &world,
        "git rebase --abort >/dev/null 2>&1; git stash apply -q $(cat .git/.autostash.sandbox-run-*); grep mine other",
    );
    // One that comes to an end is no matter.
    let script = "git checkout -q .; git checkout -qb c main; echo 4 >new; git add new; git commit -qm new; echo mine >file; \
        git rebase -q --autostash main^ 2>/dev/null; grep mine file";
    inside(&world, ["-w", "."], script).done().code(0).stderr_lacks("sandbox-run:");
}

/// One that the caller has stays, and so do those that are added where nothing is kept.
#[test]
fn submodules_are_added_and_moved_on() {
    let world = clone();
    let sub = "git -c protocol.file.allow=always submodule --quiet";
    outside(&world, &format!("{sub} add $PWD/../o/repo s; git commit -qm s"));
    let script = format!(
        "{sub} add $PWD/../o/repo t; git commit -qm t; cd s; git commit -q --allow-empty -m on; cd ..; git add s; git commit -qm on"
    );
    inside(&world, ["-w", ".", "-r", "../o/repo"], &script).done().code(0).stderr_lacks("sandbox-run:");
    outside(&world, "git submodule --quiet update --init; test -z \"$(git status --porcelain)\"");
}

/// What is hidden is empty to the command: an index that has something else for it would put that there.
#[test]
fn nothing_new_comes_in_the_place_of_what_is_hidden() {
    let hidden = "printf '.env\\n/.aws\\n/key\\n' >.gitignore; mkdir .aws; echo mine | tee .env key >.aws/credentials; git add .gitignore; git commit -qm x";
    for (name, options) in [(".env", &[][..]), (".aws/credentials", &[]), ("key", &["--mask", "key"])] {
        let script =
            format!("H=$(echo evil | git hash-object -w --stdin); git update-index --add --cacheinfo 100644,$H,{name}");
        let then = format!("git checkout -q -- .; ! grep -q evil {name} || touch ../o/ran");
        held(&Try { before: hidden.into(), options, script, then: &then, name, ..Try::default() });
    }
    // What the command adds of it without knowing is told of, once.
    let world = clone();
    outside(&world, "echo mine >.mine");
    let done = inside(&world, ["-w", "."], "git add -A; git commit -qm x").done().code(0);
    let text = "index' has hidden files as empty ones, as which the command saw them: git checkout on the host would empty what is there: '";
    done.stderr_has(text).stderr_has(&world.text("w/.mine"));
    assert!(outside(&world, "git ls-files; cat .mine").ends_with(".mine\nfile\nmine\n"));
    inside(&world, ["-w", "."], "echo x >new; git add new; git commit -qm y")
        .done()
        .code(0)
        .stderr_lacks("as empty ones");
    outside(&world, "git checkout -q .; test ! -s .mine");
    // One that is empty has nothing to lose.
    let world = clone();
    outside(&world, "touch .mine");
    inside(&world, ["-w", "."], "git add -A; git commit -qm x").done().is(0, "", "");
}

/// A branch without the hooks, and back again: git has nothing to change there.
#[test]
fn what_an_index_has_as_it_lies_there_may_stay() {
    let tracked = "git branch none; mkdir .githooks; printf '#!/bin/sh\\n' >.githooks/pre-commit; chmod +x .githooks/pre-commit; \
        git config core.hooksPath .githooks; git add .; git commit -qm hooks";
    let back = "git checkout -qf main 2>/dev/null";
    for script in [back, "git read-tree main"] {
        let world = clone();
        outside(&world, tracked);
        inside(&world, ["-w", "."], "git checkout -q none 2>/dev/null").done().is(0, "", "");
        inside(&world, ["-w", "."], script).done().stderr("");
        assert!(world.has("w/.git/index"), "{script}");
        outside(&world, "git checkout -q -f main; test -x .githooks/pre-commit; test -z \"$(git status --porcelain)\"");
    }
    // Other content, and another mode.
    for change in [
        "git update-index --cacheinfo 100755,$(echo evil | git hash-object -w --stdin),.githooks/pre-commit",
        "git update-index --cacheinfo 100644,$(git rev-parse main:.githooks/pre-commit),.githooks/pre-commit",
    ] {
        let world = clone();
        outside(&world, tracked);
        outside(&world, "git checkout -q none; git checkout -q main -- .githooks; git rm -qr --cached .githooks");
        let done = inside(&world, ["-w", "."], &format!("git read-tree main; {change}")).done().code(0);
        done.stderr_has("index' names '.githooks/pre-commit', which git on the host would write");
    }
}

/// git reads and writes an index through a link of the caller's.
#[test]
fn an_index_behind_a_link_is_compared_as_well() {
    let linked = format!("{HOOKS}; mkdir idx; mv .git/index idx/index; ln -s ../idx/index .git/index");
    held(&Try {
        before: linked.clone(),
        script: put(".git/index", "../e", "tools/hooks"),
        name: "tools/hooks",
        ..Try::default()
    });
    held(&Try {
        before: linked.clone(),
        script: put("idx/index", "../e", "tools/hooks"),
        name: "tools/hooks",
        ..Try::default()
    });
    // A link on the way is given to another directory.
    let way = format!("{HOOKS}; mkdir idx; mv .git/index idx/index; ln -s idx way; ln -s ../way/index .git/index");
    let script =
        format!("mkdir evil; cp idx/index evil; {}; rm way; ln -s evil way", put("evil/index", "../e", "tools/hooks"));
    held(&Try { before: way, script, name: "tools/hooks", ..Try::default() });
    // The link goes, and what it led to stays where it was.
    let world = clone();
    outside(&world, &linked);
    inside(&world, ["-w", "."], "echo x >idx/index").done().code(0).stderr_has(".git/index' cannot be understood");
    assert!(!world.has("w/.git/index") && world.read("w/idx/index") == "x\n");
    // Ordinary work.
    let world = clone();
    outside(&world, &linked);
    inside(&world, ["-w", "."], "echo x >new; git add new; git commit -qm new; git status -s").done().is(
        0,
        "?? idx/\n",
        "",
    );
    assert!(world.path("w/.git/index").is_symlink());
}
