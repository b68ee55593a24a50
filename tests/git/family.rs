//! What belongs to a repository: the submodules of its worktrees, and data that nobody knew before.

use std::os::unix::fs::PermissionsExt;

use crate::git::{inside, outside, repository};
use crate::harness::World;

/// `w` is a clone with a linked worktree in `o/wt`; with its submodule `s`, if that is wanted.
fn clone(with_submodule: bool) -> World {
    let world = repository();
    let sub = "git -c protocol.file.allow=always submodule --quiet";
    outside(&world, "git clone -q ../o/repo .");
    if with_submodule {
        outside(
            &world,
            &format!(
                "{sub} add $PWD/../o/repo s; git commit -qm s; git worktree add -q -b w ../o/wt; cd ../o/wt; {sub} update --init"
            ),
        );
    } else {
        outside(&world, "git worktree add -q -b w ../o/wt");
    }
    world
}

fn hooks(world: &World, at: &str) -> String {
    let hook = format!("printf '#!/bin/sh\\ntouch {}\\n' >{at}/$h; chmod +x {at}/$h", world.text("o/ran"));
    format!("mkdir -p {at}; for h in pre-commit post-checkout; do {hook}; done")
}

/// What git on the host does, and whether that has run something of the command's.
fn ran(world: &World, then: &str) -> bool {
    outside(world, &format!("({then}) >/dev/null 2>&1 || :"));
    world.has("o/ran")
}

#[test]
fn submodules_of_a_worktree_keep_their_hooks_and_settings() {
    let data = ".git/worktrees/wt/modules/s";
    let commit = "git -C ../o/wt/s commit -q --allow-empty -m x";
    let status = "git -C ../o/wt status";
    let settings = |world: &World| {
        format!("printf '[core]\\n\\tfsmonitor = \"touch {}; false\"\\n' >>{data}/config", world.text("o/ran"))
    };
    for (script, then) in [
        (&(|world: &World| hooks(world, &format!("{data}/hooks"))) as &dyn Fn(&World) -> String, commit),
        (&settings, status),
    ] {
        let world = clone(true);
        let done = inside(&world, ["-w", "."], &script(&world)).done();
        assert_ne!(done.code, Some(0));
        done.stderr_has("Read-only file system");
        assert!(!ran(&world, then));
        let world = clone(true);
        outside(&world, &script(&world));
        assert!(ran(&world, then), "the control");
    }
    // What is missing is not made, and links go.
    let world = clone(true);
    outside(&world, &format!("rm -r {data}/hooks"));
    let script = format!(
        "mkdir {data}/hooks; echo x >{data}/hooks/pre-commit; echo . >{data}/commondir; ln -s /etc {data}/logs/l"
    );
    let done = inside(&world, ["-w", "."], &script).done().code(0);
    for name in ["hooks", "commondir", "logs/l"] {
        assert!(done.stderr.contains(&format!("'{}'", world.text(&format!("w/{data}/{name}")))), "{}", done.stderr);
        assert!(!world.has(&format!("w/{data}/{name}")), "{name}");
    }
}

/// Above a grant of which git knows nothing.
#[test]
fn their_settings_are_obeyed_in_a_grant_as_well() {
    let then = "git -C ../o/wt/s commit -q --allow-empty -m x";
    let prepared = || {
        let world = clone(true);
        outside(&world, "mkdir g; git -C ../o/wt/s config core.hooksPath $PWD/g/hk");
        world
    };
    let world = prepared();
    let done = inside(&world, ["-w", "g"], &format!("cd g; {}", hooks(&world, "hk"))).done().code(0);
    done.stderr_has("g/hk', which git on the host would obey, was made during the run and is now '");
    assert!(!ran(&world, then));
    let world = prepared();
    outside(&world, &format!("cd g; {}", hooks(&world, "hk")));
    assert!(ran(&world, then), "the control");
}

/// Data that git would find for a submodule of a worktree, or of a worktree that the command has made.
#[test]
fn new_data_of_a_submodule_of_a_worktree_has_no_hooks() {
    let sub = "git -c protocol.file.allow=always submodule --quiet";
    let then = format!("cd ../o/wt; {sub} add --force $OLDPWD/../o/repo s; {sub} update --init");
    let make = |world: &World| {
        let data = ".git/worktrees/wt/modules/s";
        format!(
            "mkdir -p .git/worktrees/wt/modules; cp -r .git {data}.; mv {data}. {data}; rm -r {data}/worktrees; {}",
            hooks(world, &format!("{data}/hooks"))
        )
    };
    let make = |world: &World| make(world).replace("cp -r .git ", "cp -r .git /tmp/d$$; mv /tmp/d$$ ");
    let world = clone(false);
    inside(&world, ["-w", "."], &make(&world))
        .done()
        .code(0)
        .stderr_has("/modules/s/hooks' has hooks that git on the host would run");
    assert!(!ran(&world, &then));
    let world = clone(false);
    outside(&world, &make(&world));
    assert!(ran(&world, &then), "the control");
    let world = clone(false);
    let script = format!("git worktree add -q -b n new; {}", make(&world).replace("worktrees/wt/", "worktrees/new/"));
    inside(&world, ["-w", "."], &script).done().code(0).stderr_has("worktrees/new/modules/s/hooks' has hooks");
}

/// Neither the number of directories nor that of descriptors ends the search.
#[test]
fn many_new_directories_hide_no_hooks() {
    let world = clone(false);
    let script = format!(
        "mkdir -p .git/modules; cd .git/modules; seq 3000 | xargs mkdir; cp -r ../../.git /tmp/d; rm -r /tmp/d/modules /tmp/d/worktrees; \
         for x in a b c d e f; do cp -r /tmp/d $x; {}; done",
        hooks(&world, "$x/hooks")
    );
    let outer =
        format!("ulimit -n 256; exec {} -b bwrap -w . -- sh -c \"$SCRIPT\"", crate::harness::program().display());
    let done = world.call("sh", ["-c", &outer]).env("SCRIPT", &script).done().code(0);
    for name in ["a", "b", "c", "d", "e", "f"] {
        assert!(!world.has(&format!("w/.git/modules/{name}/hooks")), "{name}: {}", done.stderr);
    }
    assert!(!done.stderr.contains("cannot be"), "{}", done.stderr);
    // Few of many are told of.
    let world = clone(false);
    let done = inside(&world, ["-w", "."], "cd .git/worktrees; seq 100 | xargs mkdir").done().code(0);
    assert_eq!(done.stderr.lines().count(), 21, "{}", done.stderr);
    done.stderr_has("so were 80 more in '");
    assert!(!world.has("w/.git/worktrees/7"));
}

/// What git before 2.48 reads from the top of the work tree, and later ones from the data.
#[test]
fn a_relative_place_of_a_work_tree_is_read_in_one_way() {
    let script = "mkdir q; git worktree add -q -b n q/other; cd .git/worktrees/other; G=$(cat gitdir); echo ../../../q/other/.git >gitdir";
    let world = clone(false);
    let done = inside(&world, ["-w", "."], script).done().code(0);
    done.stderr_has(
        "worktrees/other' names '../../../q/other/.git', which not every git reads from there: it is now '",
    );
    // The control: an absolute one, and settings that only newer ones take.
    let world = clone(false);
    inside(&world, ["-w", "."], &format!("{script}; echo $G >gitdir")).done().is(0, "", "");
    let make = "mkdir -p q/other .git/worktrees/other; echo gitdir: $PWD/.git/worktrees/other >q/other/.git; cd .git/worktrees/other; \
        echo ../.. >commondir; cp ../../HEAD .; echo ../../../q/other/.git >gitdir";
    for (version, stays) in [("1", true), ("0", false)] {
        let world = clone(false);
        outside(&world, "git config extensions.relativeWorktrees true");
        // A git that does not know it refuses the repository from here on.
        outside(&world, &format!("sed -i 's/formatversion = 0/formatversion = {version}/' .git/config"));
        inside(&world, ["-w", "."], make).done().code(0);
        assert_eq!(world.has("w/.git/worktrees/other"), stays, "{version}");
    }
}

#[test]
fn a_fifo_keeps_nobody_waiting() {
    let world = clone(false);
    let make = "mkdir .git/modules; cp -r .git /tmp/d; rm -r /tmp/d/worktrees /tmp/d/hooks; cp -r /tmp/d .git/modules/x; \
        cd .git; rm -f modules/x/config; mkfifo modules/x/config packed-refs~ ORIG_HEAD logs/refs/f";
    outside(&world, "mkfifo .git/own");
    let done = inside(&world, ["-w", "."], make).done().code(0);
    for name in ["modules/x/config", "ORIG_HEAD", "logs/refs/f"] {
        assert!(!world.has(&format!("w/.git/{name}")), "{name}: {}", done.stderr);
    }
    assert!(world.has("w/.git/own"));
    done.stderr_has("ORIG_HEAD', a FIFO on which git on the host would wait, was made during the run and is now '");
}

#[test]
fn a_group_can_write_its_repository_again() {
    let world = clone(false);
    outside(&world, "chmod 2775 .git .git/objects .git/refs");
    inside(&world, ["-w", "."], "chmod 700 .git .git/refs; chmod 755 .git/objects")
        .done()
        .code(0)
        .stderr_has("others can read it again, and write what they could write");
    for name in [".git", ".git/objects", ".git/refs"] {
        let mode = std::fs::metadata(world.path(&format!("w/{name}"))).unwrap().permissions().mode() & 0o7777;
        assert_eq!(format!("{mode:o}"), "2775", "{name}");
    }
}

/// Nothing can be mounted on a link, nor behind one that leads elsewhere later.
#[test]
fn places_of_submodules_and_worktrees_are_no_links() {
    for (place, kind) in [("modules", "lib"), ("worktrees", "tree")] {
        let world = repository();
        let data = format!(
            "git clone -q ../o/repo .; mkdir -p data/{kind}; cp -r .git/. data/{kind}; ln -s ../data .git/{place}"
        );
        outside(&world, &data);
        let words = &["cannot protect what git runs: '", &format!("w/.git/{place}' is a link to '")];
        inside(&world, ["-w", "."], "touch ran").done().refused(125, words);
        assert!(!world.has("w/ran"));
        // Without a grant nothing is lost, and a grant of the git directory accepts it.
        inside(&world, [], "git status --short >/dev/null").done().code(0);
        inside(&world, ["-w", ".", "-w", ".git"], "touch ran").done().code(0);
        assert!(world.has("w/ran"));
    }
}
