//! A repository that was there before, of which the command makes git take another for it: git passes over a `.git` that is not whole.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::git::{inside, outside, with_repository};
use crate::harness::{World, is_root};

/// Makes a git directory of the working directory, whose settings make git run something that leaves `ran` at the top of `w`.
const EVIL: &str = "mkdir -p objects refs; rm -f HEAD; echo ref: refs/heads/x >HEAD; printf \
    '[core]\\nrepositoryformatversion=0\\nbare=false\\nworktree=.\\nfsmonitor=\"touch %s/ran; false\"\\n' $TOP >config";

/// Ways to make git pass over a `.git`.
const DAMAGE: [&str; 13] = [
    "rm .git/HEAD",
    "echo junk >.git/HEAD",
    // git reads no more than 255 bytes.
    "(printf ref:; head -c 300 /dev/zero | tr '\\0' ' '; echo refs/heads/main) >.git/HEAD",
    "rm .git/HEAD; ln -s ../x .git/HEAD",
    "rm .git/HEAD; mkdir .git/HEAD",
    "rm .git/HEAD; mkfifo .git/HEAD",
    "chmod 0 .git/HEAD",
    "mv .git/refs .git/r",
    "mv .git/objects .git/o",
    "mv .git/refs .git/r; ln -s nowhere .git/refs",
    "mv .git/objects .git/o; touch .git/objects",
    "chmod 0 .git/refs",
    "chmod 0 .git",
];

/// Where nobody who searches the whole host is warned of what is damaged.
fn apart() -> World {
    with_repository(World::apart())
}

/// `w/sub/nested` is a clone.
fn nested() -> World {
    let world = apart();
    outside(&world, "git clone -q ../o/repo sub/nested");
    world
}

/// What git on the host says in a directory, whose hooks and settings may be the command's.
fn status(world: &World, place: &str) {
    let script = format!("cd {place}; exec >/dev/null 2>&1; git status || :; git commit --allow-empty -m x || :");
    outside(world, &script);
}

#[track_caller]
fn not_taken(world: &World, options: &[&str], place: &str, script: &str) {
    let top = world.text("w");
    let script = format!("TOP={top}; cd {place}; {script}");
    let done = inside(world, options.iter().copied(), &script).done();
    assert_eq!(done.code, Some(0), "{script}: {}", done.stderr);
    let warned = done.stderr.lines().filter(|line| line.starts_with("sandbox-run: warning: '")).count();
    assert!(warned > 0, "{script}: {}", done.stderr);
    status(world, place);
    assert!(!world.has("w/ran"), "{script}: {}", done.stderr);
}

/// The control: what `script` leaves is obeyed where the sandbox is not.
#[track_caller]
fn taken(world: &World, place: &str, script: &str) {
    outside(world, &format!("TOP={}; cd {place}; {script}", world.text("w")));
    status(world, place);
    assert!(world.has("w/ran"), "{script}");
    // Else it could not be removed.
    outside(world, "chmod -R u+rwX .");
}

#[test]
fn a_damaged_repository_does_not_make_git_obey_what_is_around_it() {
    for damage in DAMAGE {
        for place in ["sub/nested", "."] {
            let world = apart();
            outside(&world, &format!("git clone -q ../o/repo {place}"));
            not_taken(&world, &["-w", "."], place, &format!("{EVIL}; {damage}"));
            // The repository is what it was, and its settings are obeyed.
            let dir =
                outside(&world, &format!("cd {place}; git rev-parse --absolute-git-dir; git config remote.origin.url"));
            let git = world.path(&format!("w/{place}/.git")).components().collect::<std::path::PathBuf>();
            assert!(dir.starts_with(&format!("{}\n/", git.display())), "{damage}: {dir}");
        }
    }
    // Above permissions nothing is closed, and git waits at a FIFO.
    let untaken = if is_root() { ["chmod", "mkfifo"] } else { ["mkfifo"; 2] };
    for damage in DAMAGE.iter().filter(|damage| !untaken.iter().any(|word| damage.contains(word))) {
        let world = nested();
        taken(&world, "sub/nested", &format!("{EVIL}; {damage}"));
    }
}

#[test]
fn nor_what_is_above_it() {
    // A repository and a git directory above, and closed directories on the way to where somebody's shell is.
    for (make, damage) in [
        ("cd ../..; git init -q .; cd .git; EVIL; cd ../sub/nested", "rm .git/HEAD"),
        ("cd ../..; EVIL; cd sub/nested", "rm .git/HEAD"),
        ("cd ..; git init -q --bare x; mv x/* .; EVIL; cd nested", "mv .git/refs .git/r"),
    ] {
        let script = format!("{}; {damage}", make.replace("EVIL", EVIL));
        not_taken(&nested(), &["-w", "."], "sub/nested", &script);
        taken(&nested(), "sub/nested", &script);
    }
    for closed in [".", ".."] {
        let world = nested();
        let done = inside(&world, ["-w", "."], &format!("cd sub/nested; chmod 0 {closed}")).done().code(0);
        let path = world.text(if closed == "." { "w/sub/nested" } else { "w/sub" });
        done.stderr(&format!(
            "sandbox-run: warning: '{path}' was closed to its owner during the run and is open again: git would have gone on to a \
             repository above it\n"
        ));
        outside(&world, "cd sub/nested && git log -1 >/dev/null");
    }
    // Where no repository lies below, whoever closes a directory may.
    let world = nested();
    inside(&world, ["-w", "."], "mkdir mine; chmod 0 mine; chmod 700 sub").done().is(0, "", "");
    assert_eq!(fs::metadata(world.path("w/mine")).unwrap().permissions().mode() & 0o777, 0);
    // Else it could not be removed.
    fs::set_permissions(world.path("w/mine"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(fs::metadata(world.path("w/sub")).unwrap().permissions().mode() & 0o777, 0o700);
}

/// What the command closes to its owner is mended all the same, and stays as closed as git can bear.
#[test]
fn nor_in_closed_directories() {
    for damage in DAMAGE {
        for mode in ["555", "111", "0"] {
            let world = nested();
            let script = format!("{EVIL}; {damage}; chmod {mode} .git .");
            not_taken(&world, &["-w", "."], "sub/nested", &script);
            for path in ["w/sub/nested", "w/sub/nested/.git"] {
                let now = fs::metadata(world.path(path)).unwrap().permissions().mode() & 0o777;
                assert!(is_root() || now & 0o100 != 0, "{damage}, {mode}: {path} {now:o}");
                // What can be listed needs no more.
                let kept = mode == "555" && damage != "chmod 0 .git";
                assert!(!kept || now == 0o555, "{damage}, {mode}: {path} {now:o}");
            }
            assert_eq!(outside(&world, "chmod -R u+rwX . && cd sub/nested && git rev-parse --git-dir"), ".git\n");
        }
    }
    // A part that is closed itself, and out of a closed directory.
    let world = nested();
    let script = "cd sub/nested/.git; mkdir d; mv objects d/o; chmod 555 d/o d; ln -s d/o objects; chmod 555 .";
    inside(&world, ["-w", "."], script).done().code(0).stderr_has("'objects' is back in its place");
    outside(&world, "chmod -R u+rwX . && cd sub/nested && rmdir .git/d && git log -1");
    // The control.
    taken(&nested(), "sub/nested", &format!("{EVIL}; {}; chmod 555 .git .", DAMAGE[0]));
}

/// The parts can be made in different runs.
#[test]
fn nor_what_was_prepared_in_an_earlier_run() {
    let world = nested();
    not_taken(&world, &["-w", "."], "sub/nested", EVIL);
    let aside = outside(&world, "cd sub/nested; test ! -e HEAD; cat HEAD.sandbox-run-*; git rev-parse --git-dir");
    assert_eq!(aside, "ref: refs/heads/x\n.git\n");
    not_taken(&world, &["-w", "."], "sub/nested", &format!("{EVIL}; rm .git/HEAD"));
    // A repository above that was there.
    let world = nested();
    inside(&world, ["-w", "."], "git init -q . && git config core.fsmonitor \"touch $PWD/ran; false\"")
        .done()
        .is(0, "", "");
    not_taken(&world, &["-w", "."], "sub/nested", "rm .git/HEAD");
    // The controls: nothing is said, and nothing moved, where nothing is damaged.
    let world = nested();
    inside(&world, ["-w", "."], "cd sub/nested; mkdir objects refs; touch HEAD; git checkout -q -b y")
        .done()
        .is(0, "", "");
    inside(&world, ["-w", "."], "cd sub/nested; git checkout -q --detach; git pack-refs --all; git gc -q")
        .done()
        .is(0, "", "");
    outside(&world, "cd sub/nested; ls HEAD; git status");
}

/// The history stays, and `git commit` runs a hook.
#[test]
fn nor_what_shares_its_objects() {
    let script = "ln -s .git/objects objects; ln -s .git/refs refs; cp .git/HEAD HEAD; mkdir hooks
        printf '#!/bin/sh\\ntouch %s/ran\\n' $TOP >hooks/pre-commit; chmod +x hooks/pre-commit
        printf '[core]\\nrepositoryformatversion=0\\nbare=false\\nworktree=.\\n' >config; rm .git/HEAD";
    not_taken(&nested(), &["-w", "."], "sub/nested", script);
    not_taken(&nested(), &["-p", "build"], "sub/nested", script);
    taken(&nested(), "sub/nested", script);
}

/// What git accepts, although no git makes it, and what some other program may: `.git` is whole after each run, so the last word has
/// whatever damages it without us.
#[test]
fn what_is_hardly_a_git_directory() {
    let common = "mkdir c; mv objects refs c; echo c >commondir; printf '[core]\\nrepositoryformatversion=1\\nfsmonitor=\"touch \
        %s/ran; false\"\\n[extensions]\\nworktreeConfig=true\\n' $TOP >c/config; printf '[core]\\nbare=false\\nworktree=.\\n' \
        >config.worktree";
    let forms = [
        (common, true),
        ("rmdir objects refs; printf x >objects; cp objects refs; chmod +x objects refs", true),
        ("rmdir objects refs; ln -s /bin/sh objects; ln -s /bin/sh refs", true),
        ("chmod 0 objects refs", is_root()),
        ("chmod 0 HEAD", is_root()),
    ];
    for (form, accepted) in forms {
        let script = format!("{EVIL}; {form}");
        let world = nested();
        not_taken(&world, &["-w", "."], "sub/nested", &script);
        assert!(!world.has("w/sub/nested/HEAD"), "{form}");
        outside(&world, "rm sub/nested/.git/HEAD");
        status(&world, "sub/nested");
        assert!(!world.has("w/ran"), "{form}");
        // Else it could not be removed.
        outside(&world, "chmod -R u+rwX .");
        if accepted {
            taken(&nested(), "sub/nested", &format!("{script}; rm .git/HEAD"));
        }
    }
    // Not everybody reads what `HEAD` says; where `.git` stays whole it stays, and so does what was there.
    let loose = "cd sub/nested; mkdir objects refs; echo text >HEAD";
    let world = nested();
    inside(&world, ["-w", "."], loose).done().is(0, "", "");
    let done = inside(&world, ["-w", "."], "rm sub/nested/.git/HEAD").done().code(0);
    done.stderr_has("became a git directory").stderr_has("'HEAD' says again");
    assert_eq!(outside(&world, "cd sub/nested; test ! -e HEAD; cat HEAD.sandbox-run-*"), "text\n");
    let world = nested();
    outside(&world, "cd sub/nested; echo ref: refs/heads/x >HEAD; touch objects refs");
    inside(&world, ["-w", "."], "echo x >sub/nested/refs").done().is(0, "", "");
    outside(&world, "cat sub/nested/HEAD");
}

/// A link that leads to a part of the repository only while we look.
#[test]
fn a_part_that_becomes_a_link() {
    let log = |world: &World| outside(world, "cd sub/nested; git log --format=%s; test ! -L .git/objects");
    for to in ["o", "/proc/self/cwd/sub/nested/.git/o", "$PWD/.git/o"] {
        let world = nested();
        let script = format!("cd sub/nested; mv .git/objects .git/o; ln -s {to} .git/objects");
        let done = inside(&world, ["-w", "."], &script).done().code(0);
        let done = done.stderr_has("'objects' is back in its place and what had the name is now 'objects.sandbox-run-");
        assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
        assert_eq!(log(&world), "one\n", "{to}");
    }
    // What was moved further is a copy.
    let world = nested();
    let script = "cd sub/nested; mv .git/objects o; ln -s /proc/self/cwd/sub/nested/o .git/objects";
    inside(&world, ["-w", "."], script)
        .done()
        .code(0)
        .stderr_has("'objects' is made anew and what had the name is now");
    assert_eq!(outside(&world, "cd sub/nested; rmdir .git/objects; mv o .git/objects; git log --format=%s"), "one\n");
    // To the objects of another, where git would write.
    let write =
        "cd sub/nested; echo new | git hash-object -w --stdin >/dev/null; cd ../../../o/repo; git count-objects";
    let swap = "cd sub/nested; mv .git/objects .git/o; ln -s ../../../../o/repo/.git/objects .git/objects";
    let world = nested();
    let before = outside(&world, "cd ../o/repo; git count-objects");
    inside(&world, ["-w", "."], swap).done().code(0).stderr_has("'objects' is made anew");
    assert_eq!(outside(&world, write), before);
    // The control.
    let world = nested();
    outside(&world, swap);
    assert_ne!(outside(&world, write), before);
    // One that was a link is one again.
    let world = nested();
    outside(&world, "cd sub/nested; mv .git/objects o; ln -s ../o .git/objects");
    inside(&world, ["-w", "."], "cd sub/nested; git commit -q --allow-empty -m two").done().is(0, "", "");
    let done = inside(&world, ["-w", "."], "cd sub/nested; mv o p; ln -sfn ../p .git/objects; mkdir o").done().code(0);
    done.stderr_has("'objects' is the link again that it was");
    assert_eq!(
        outside(&world, "cd sub/nested; readlink .git/objects; rmdir o; mv p o; git log --format=%s"),
        "../o\ntwo\none\n"
    );
}

/// One that is not whole at the start, as a run that was killed may have left it.
#[test]
fn one_that_is_damaged_at_the_start() {
    let world = nested();
    outside(&world, "rm sub/nested/.git/HEAD");
    let warning = format!("sandbox-run: warning: '{}' is no whole repository", world.text("w/sub/nested/.git"));
    let done = inside(&world, ["-w", "."], "true").done().code(0).stderr_has(&warning);
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    not_taken(&world, &["-w", "."], "sub/nested", EVIL);
    // Whoever can write nothing hears nothing.
    inside(&world, [], "true").done().is(0, "", "");
}

/// git looks for a `.git` in a git directory before it takes that, and so does whoever pushes to it.
#[test]
fn a_repository_inside_a_git_directory() {
    for place in ["bare.git", "sub/nested/.git"] {
        let world = nested();
        outside(&world, "git clone -q --bare ../o/repo bare.git");
        let (path, before) = (world.text(&format!("w/{place}/.git")), outside(&world, &format!("ls -A {place}")));
        let make = format!("TOP=$PWD; mkdir x; git init -q x; cd x/.git; {EVIL}; cd ../..; mv x/.git {place}; rmdir x");
        let done = inside(&world, ["-w", "."], &make).done().code(0);
        done.stderr_has(&format!(
            "'{path}', which git on the host would obey, was made during the run and is now '{path}."
        ));
        outside(&world, &format!("rm -r {place}/.git.sandbox-run-*"));
        assert_eq!(outside(&world, &format!("ls -A {place}")), before);
        outside(&world, &make);
        status(&world, place);
        assert!(world.has("w/ran"), "{place}");
    }
    // A bare one that is damaged lets git go on to what lies above, too.
    let bare = || {
        let world = apart();
        outside(&world, "git clone -q --bare ../o/repo sub/bare.git");
        world
    };
    let up = format!("cd ..; {EVIL}; cd bare.git; rm HEAD");
    not_taken(&bare(), &["-w", "."], "sub/bare.git", &up);
    taken(&bare(), "sub/bare.git", &up);
}

/// A `.git` file leads through a link that can be given to something else. Below a hidden name, so that no other run is refused.
#[test]
fn a_way_to_the_git_directory_that_can_be_replaced() {
    let world = apart();
    world.dir("w/.in");
    let outside = |script: &str| outside(&world, &format!("cd .in; {script}"));
    let run = || inside(&world, ["-w", "."], "true").cwd(world.path("w/.in")).done();
    outside("git init -q -b main --separate-git-dir data sub && ln -s data link && echo 'gitdir: ../link' >sub/.git");
    run().refused(125, &["cannot protect what git runs", "is a link to", &world.text("w/.in/link")]);
    // The controls: git follows it; without it, and where it cannot be replaced, nothing is wrong.
    let top = world.text("w");
    outside(&format!("TOP={top}; git init -q other && cd other/.git && {EVIL}; cd ../..; ln -sfn other/.git link"));
    status(&world, ".in/sub");
    assert!(world.has("w/ran"));
    outside("rm link; ln -s ../w/.in/data ../../o/link; echo 'gitdir: ../../../o/link' >sub/.git");
    run().is(0, "", "");
    outside("echo 'gitdir: ../data' >sub/.git");
    run().is(0, "", "");
}

/// Whoever protects a `.git` whole keeps the index too, by which git at the top would go on to what the command has made.
#[test]
fn a_protected_index_names_no_submodule() {
    let script = "mkdir s; cd s; git init -q .; git commit -q --allow-empty -m x; git config core.fsmonitor \"touch $TOP/ran; false\"
        cd ..; git log --format=%s; git update-index --add --cacheinfo 160000,$(git -C s rev-parse HEAD),s 2>/dev/null || echo kept";
    let script = format!("TOP=$PWD; {script}");
    for (options, says) in [(&["-w", ".", "--protect", ".git"][..], "one\nkept\n"), (&["-w", "."], "one\n")] {
        let world = apart();
        outside(&world, "git clone -q --no-hardlinks ../o/repo .");
        let done = inside(&world, options.iter().copied(), &script).done().code(0).stdout(says);
        assert!(!done.stderr.contains("warning"), "{}", done.stderr);
        status(&world, ".");
        // The control is what the documents say is not covered.
        assert_eq!(world.has("w/ran"), options.len() == 2, "{options:?}");
    }
}
