//! Lists of files in a git directory: the index and `MERGE_RR`. git on the host writes, reads and deletes what they name.

use crate::git::{inside, outside, repository};
use crate::harness::World;

/// `w` is a clone with a worktree, `o/victim` a directory of the caller's with a file.
fn clone() -> World {
    let world = repository();
    world.write("o/victim/file", "host\n");
    outside(&world, "git clone -q ../o/repo . && git worktree add -q -b topic tree");
    world
}

/// What a list that leads to `path` makes of the host's files: of what is in `kept`, and of what git has copied.
fn after(world: &World, then: &str) -> (String, bool, bool) {
    outside(world, &format!("({then}) >/dev/null 2>&1 || :"));
    let copied = !outside(world, "grep -ls host .git/rr-cache/*/postimage || :").is_empty();
    let victim = if world.has("o/victim/file") { world.read("o/victim/file") } else { String::new() };
    (victim, copied, world.has("w/ran"))
}

#[test]
fn conflicts_name_files_of_the_work_tree_only() {
    let hash = "1".repeat(40);
    let list = |at: &str, name: &str, before: &str| {
        format!(
            "TOP=$PWD; D=$PWD/.git/rr-cache/{hash}; mkdir -p $D; {before}; test -e $D/preimage || echo x >$D/preimage; \
             printf \"{hash}{name}\\0\" >{at}/MERGE_RR"
        )
    };
    let absolute = "\\t$TOP/../o/victim/file";
    let planted = "cp .git/config $D/preimage; cp .git/config $D/postimage; \
        printf '\tfsmonitor=\"touch %s/ran; false\"\n' $TOP >evil; sed -i '1r evil' $D/postimage";
    for (at, name, before, place) in [
        (".git", absolute, ":", "."),
        (".git", "\\t../o/victim/file", ":", "."),
        (".git", "\\t./../o/victim/file", ":", "."),
        (".git", "\\tlink", "ln -s ../o/victim/file link", "."),
        (".git", "\\tlink/file", "ln -s ../o/victim link", "."),
        (".git/worktrees/tree", absolute, ":", "tree"),
        (".git", ".-1\\t.git/config", planted, "."),
    ] {
        let script = list(at, name, before);
        let then = format!("cd {place}; git commit -q --allow-empty -m x; git status");
        let world = clone();
        let done = inside(&world, ["-w", "."], &script).done().code(0);
        done.stderr_has(&format!("sandbox-run: warning: '{}' ", world.text(&format!("w/{at}/MERGE_RR"))))
            .stderr_has("so git on the host would read or write what it should not: it is now '");
        let config = world.read("w/.git/config");
        assert_eq!(after(&world, &then), ("host\n".into(), false, false), "{script}");
        assert_eq!(world.read("w/.git/config"), config, "{script}");
        // The control: copied, or written.
        let world = clone();
        outside(&world, &script);
        let (_, copied, ran) = after(&world, &then);
        assert!(copied || ran, "{script}");
    }
}

#[test]
fn conflicts_of_the_host_stay() {
    let world = clone();
    let conflict = "git config rerere.enabled true; git checkout -q -b other; echo b >file; git commit -qam b; git checkout -q main; \
        echo a >file; git commit -qam a; git merge other >/dev/null 2>&1 || :; test -s .git/MERGE_RR";
    outside(&world, conflict);
    let list = world.read("w/.git/MERGE_RR");
    inside(&world, ["-w", "."], "git status >/dev/null; git rerere status").done().is(0, "file\n", "");
    assert_eq!(world.read("w/.git/MERGE_RR"), list);
    inside(&world, ["-w", "."], "echo c >file; git commit -qam c").done().code(0).stderr_lacks("warning: ");
    // One that is found at the start is warned of.
    world.write("w/.git/MERGE_RR", format!("{}\t../x\0", "2".repeat(40)));
    inside(&world, ["-w", "."], "true").done().code(0).stderr_has("MERGE_RR' names '../x', so git on the host");
    assert!(!world.has("w/.git/MERGE_RR"));
    inside(&world, ["-w", "."], "true").done().is(0, "", "");
}

/// Gives a name in an index another one of the same length.
const FORGE: &str = "import hashlib, sys; name, old, new = sys.argv[1:]; data = open(name, 'rb').read()[:-20]; \
    assert old.encode() in data; data = data.replace(old.encode(), new.encode()); \
    open(name, 'wb').write(data + hashlib.sha1(data).digest())";

/// A script that puts `name` into the index of the work tree at `place`.
fn forged(place: &str, name: &str) -> String {
    let other: String = name.chars().map(|char| if matches!(char, '.' | '~') { 'X' } else { char }).collect();
    let other = other.strip_prefix('/').map(|rest| format!("X{rest}")).unwrap_or(other);
    format!(
        "cd {place}; B=$(echo planted | git hash-object -w --stdin); git update-index --add --cacheinfo 100644,$B,{other}; \
         python3 -c \"{FORGE}\" $(git rev-parse --git-path index) {other} {name}"
    )
}

#[test]
fn the_index_names_files_of_the_work_tree_only() {
    for (place, name) in [
        (".", "../o/victim/file".to_owned()),
        (".", "/ABSOLUTE/o/victim/file".into()),
        (".", ".git/ORIG_HEAD".into()),
        ("tree", "../../o/victim/file".into()),
    ] {
        for then in ["git checkout-index -af", "git rm -rfq ."] {
            let make = |world: &World| forged(place, &name.replace("/ABSOLUTE", world.text("").trim_end_matches('/')));
            let then = format!("cd {place}; git rev-parse HEAD >$(git rev-parse --git-path ORIG_HEAD); {then}");
            let changed = |world: &World| {
                outside(world, &format!("({then}) >/dev/null 2>&1 || :"));
                let head = outside(world, "cat .git/ORIG_HEAD 2>/dev/null || :");
                let victim = outside(world, "cat ../o/victim/file 2>/dev/null || :");
                head.trim().len() != 40 && place == "." || victim != "host\n"
            };
            let world = clone();
            let script = make(&world);
            let done = inside(&world, ["-w", "."], &script).done().code(0);
            done.stderr_has("index' names '")
                .stderr_has("which git on the host would write, read or delete: it is now '");
            assert!(!changed(&world), "{script}; {then}");
            // The control.
            let world = clone();
            outside(&world, &make(&world));
            assert!(changed(&world), "{script}; {then}");
        }
    }
    let names = ["a/.GIT/x", "git~1/x", ".git./x"];
    for name in names {
        let world = clone();
        inside(&world, ["-w", "."], &forged(".", name))
            .done()
            .code(0)
            .stderr_has(&format!("index' names '{name}', which"));
        assert!(!world.has("w/.git/index"));
    }
    // What is no index, and one that is the base of another.
    for (script, name) in [
        ("echo x >.git/index", "index' cannot be understood (it is malformed"),
        ("rm .git/index; mkfifo .git/index", "index' cannot be understood (it is malformed"),
        (&format!("{}; git update-index --split-index", forged(".", "../x")), ".git/sharedindex."),
    ] {
        let world = clone();
        inside(&world, ["-w", "."], script).done().code(0).stderr_has(name);
    }
}

#[test]
fn indexes_of_git_stay() {
    let many = "B=$(git rev-parse HEAD:file); seq 40000 | sed \"s,.*,100644 $B\td/&,\" | git -c index.threads=3 update-index --index-info";
    for (before, script) in [
        ("", "git add -A . 2>/dev/null; git update-index --index-version 4"),
        ("", many),
        ("git update-index --index-version 4", many),
        ("", "git update-index --split-index; echo x >new; git add new; git rm -q --cached file"),
        (
            "git config index.sparse true; git sparse-checkout set --sparse-index a; mkdir b c; touch b/x c/x; git add --sparse b c; git commit -qm x",
            "git sparse-checkout reapply --sparse-index 2>/dev/null; git status >/dev/null",
        ),
        ("", "cd tree; echo x >new; git add new"),
        (
            "rm -rf .git tree *; git init -q --object-format=sha256 .",
            "echo x >new; git add new; git update-index --index-version 4",
        ),
    ] {
        let world = clone();
        outside(&world, before);
        let done = inside(&world, ["-w", "."], script).done();
        done.stderr_lacks("sandbox-run: warning").stderr_lacks("is now");
        outside(&world, "git ls-files >/dev/null 2>&1");
    }
}

/// git takes a directory away for a file or a link that the index names in its place.
#[test]
fn no_entry_takes_the_place_of_a_directory_that_is_kept() {
    let link = |to: &str, at: &str| {
        format!("L=$(printf '{to}' | git hash-object -w --stdin); git update-index --add --cacheinfo 120000,$L,{at}")
    };
    let worktree = "git worktree add -q -b p p/victim";
    let then = "git checkout -f .; git worktree repair; git worktree remove -f p/victim";
    let hooks = "mkdir -p hk/in; printf '#!/bin/sh\\n' >hk/in/pre-commit; chmod +x hk/in/pre-commit; git config core.hooksPath hk/in";
    let planted = "git checkout -f .; git commit -q --allow-empty -m x";
    let evil = "mkdir -p e/in; printf '#!/bin/sh\\ntouch ran\\n' >e/in/pre-commit; chmod +x e/in/pre-commit";
    for (before, script, then) in [
        (worktree.to_owned(), link("../o", "p"), then),
        ("true".to_owned(), format!("{worktree}; {}", link("../o", "p")), then),
        (hooks.to_owned(), format!("{evil}; {}", link("e", "hk")), planted),
    ] {
        let world = clone();
        let lost = |world: &World| !world.has("o/victim/file") || world.has("w/ran");
        outside(&world, &before);
        inside(&world, ["-w", "."], &script)
            .done()
            .code(0)
            .stderr_has("which git on the host would write, read or delete");
        after(&world, then);
        assert!(!lost(&world), "{script}");
        let world = clone();
        outside(&world, &before);
        outside(&world, &script);
        after(&world, then);
        assert!(lost(&world), "the control: {script}");
    }
    // A submodule has its entry where its work tree is, and files lie in directories that are kept.
    let world = clone();
    outside(&world, &format!("{hooks}; git add hk; git init -q sub; cd sub; git commit -q --allow-empty -m x"));
    inside(
        &world,
        ["-w", "."],
        "git update-index --add --cacheinfo 160000,$(git -C sub rev-parse HEAD),sub; git commit -qm sub",
    )
    .done()
    .is(0, "", "");
}
