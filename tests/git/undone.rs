//! What git keeps for later: conflicts that were resolved, an index under many names, refs in tables.

use crate::git::{inside, outside, repository};
use crate::harness::World;

/// A clone with a hook that git tracks.
fn clone() -> World {
    let world = repository();
    outside(
        &world,
        "git clone -q ../o/repo .; mkdir .githooks; printf '#!/bin/sh\\n' >.githooks/pre-commit; \
         chmod +x .githooks/pre-commit; git config core.hooksPath .githooks; git add .; git commit -qm hooks",
    );
    world
}

/// Leaves a conflict about the hook with content of the command's, and resolves it to what was there.
const CONFLICT: &str = "H=.githooks/pre-commit; old=$(git rev-parse :$H); new=$(echo evil | git hash-object -w --stdin)
    git update-index --force-remove $H
    for stage in 1 2 3; do printf '100755 %s %s\\t%s\\n' $new $stage $H; done | git update-index --index-info
    git update-index --force-remove $H; git update-index --add --cacheinfo 100755,$old,$H";

#[test]
fn a_resolved_conflict_brings_nothing_back() {
    let world = clone();
    outside(&world, CONFLICT);
    outside(&world, "git checkout -q -m -- .");
    assert!(world.read("w/.githooks/pre-commit").contains("evil"), "control: git brings it back");
    let world = clone();
    let hook = world.read("w/.githooks/pre-commit");
    inside(&world, ["-w", "."], "git status").done().code(0).stderr("");
    inside(&world, ["-w", "."], CONFLICT).done().code(0).stderr_has("names '.githooks/pre-commit'");
    world.call("git", ["checkout", "-q", "-m", "--", "."]).done();
    assert_eq!(world.read("w/.githooks/pre-commit"), hook);
}

#[test]
fn refs_in_tables_are_a_repository() {
    let world = clone();
    let head = "ref: refs/heads/.invalid\n";
    world.write("w/.git/HEAD", head);
    inside(&world, ["-w", "."], "true").done().is(0, "", "");
    assert_eq!(world.read("w/.git/HEAD"), head);
    // The control: one that leads to a file.
    world.write("w/.git/HEAD", "ref: refs/heads/main\n");
    inside(&world, ["-w", "."], "echo 'ref: config' >.git/HEAD").done().code(0).stderr_has("HEAD");
    assert_ne!(world.read("w/.git/HEAD"), "ref: config\n");
}

#[test]
fn an_index_of_many_names_goes_under_all_of_them() {
    let world = clone();
    // One entry, whose name leads out.
    let make = "import hashlib, struct, sys\n\
        name = b'../out'\n\
        entry = struct.pack('>10I', 0, 0, 0, 0, 0, 0, 0o100644, 0, 0, 0) + bytes(20) + struct.pack('>H', len(name)) + name\n\
        out = b'DIRC' + struct.pack('>II', 2, 1) + entry + bytes(8 - len(entry) % 8)\n\
        open(sys.argv[1], 'wb').write(out + hashlib.sha1(out).digest())";
    let script =
        "cd .git; python3 -c \"$1\" sharedindex.0; for name in 1 2; do ln sharedindex.0 sharedindex.$name; done; ls";
    let done = world.run(["-w", ".", "--", "sh", "-ec", script, "sh", make]).done().code(0);
    for name in ["sharedindex.0", "sharedindex.1", "sharedindex.2"] {
        assert!(done.out().contains(name), "control: {name}");
        assert!(!world.has(&format!("w/.git/{name}")), "{name}: {}", done.stderr);
    }
    assert!(world.has("w/.git/index"));
}
