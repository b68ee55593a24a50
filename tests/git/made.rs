//! What git on the host would obey and what was not there before the run: it is there afterwards under another name only.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::git::{inside, outside, repository, with_repository};
use crate::harness::World;

/// `w` is a clone without hooks and `.git/info`, with a submodule's data without settings and a worktree `tree`; `evil` is a
/// repository whose settings make git run something that leaves `w/ran`.
fn clone() -> World {
    clone_in(repository())
}

fn clone_in(world: World) -> World {
    outside(
        &world,
        "git clone -q ../o/repo . && rm -r .git/hooks .git/info && git worktree add -q -b topic tree && \
         git init -q --bare .git/modules/lib/sub && rm -r .git/modules/lib/sub/config .git/modules/lib/sub/hooks && \
         git init -q -b main evil && git -C evil config core.fsmonitor \"touch $PWD/ran; false\"",
    );
    world
}

/// The names below `.git` that we have given, without the number of the process.
fn aside(world: &World) -> Vec<String> {
    let top = world.path("w/.git");
    let names = world.snapshot().into_keys().filter_map(|path| {
        let name = path.strip_prefix(&top).ok()?.to_str()?.to_owned();
        let (before, after) = name.split_once(".sandbox-run-")?;
        after.bytes().all(|byte| byte.is_ascii_digit()).then(|| before.to_owned())
    });
    names.collect()
}

/// git on the host goes where `commondir` says for its settings and hooks, and runs hooks that somebody else has made.
#[test]
fn what_git_would_obey_is_not_left_behind() {
    let world = clone();
    let script = "echo $PWD/evil/.git >.git/commondir; mkdir .git/hooks; echo x >.git/hooks/pre-commit";
    let done = inside(&world, ["-w", ".", "--result", "../r.json"], script).done().code(0);
    for name in ["commondir", "hooks"] {
        let path = world.text(&format!("w/.git/{name}"));
        let warning = format!(
            "sandbox-run: warning: '{path}', which git on the host would obey, was made during the run and is now '{path}.sandbox-run-"
        );
        assert_eq!(done.stderr.matches(&warning).count(), 1, "{}", done.stderr);
        assert!(world.read("r.json").contains("would obey"));
        assert!(!world.has(&format!("w/.git/{name}")), "{name}");
    }
    assert_eq!(done.stderr.lines().count(), 2, "{}", done.stderr);
    assert_eq!(aside(&world), ["commondir", "hooks"]);
    outside(&world, "git status");
    assert!(!world.has("w/ran"));
    outside(&world, "cat .git/hooks.sandbox-run-*/pre-commit && ! ls .git/hooks.sandbox-run-*/x 2>&1");
    // The control: left behind, it is obeyed.
    outside(&world, "echo $PWD/evil/.git >.git/commondir; git status >/dev/null 2>&1; rm .git/commondir; ls ran");
}

/// Every place of a setting, in the repository, in its submodule and in its worktree.
#[test]
fn settings_that_were_missing_stay_missing() {
    let world = clone();
    outside(&world, "git config extensions.worktreeConfig true");
    let places = ["config.worktree", "info/attributes", "modules/lib/sub/config", "worktrees/tree/config.worktree"];
    let script: Vec<_> = places.iter().map(|place| format!("cp evil/.git/config .git/{place}; ")).collect();
    let script = format!("mkdir .git/info; {}", script.concat());
    let done = inside(&world, ["-w", "."], &script).done().code(0);
    assert_eq!(aside(&world), places);
    assert_eq!(done.stderr.lines().count(), places.len(), "{}", done.stderr);
    outside(&world, "git status; cd tree; git status");
    assert!(!world.has("w/ran"));
    // The control.
    outside(&world, "cp evil/.git/config .git/config.worktree; git status >/dev/null 2>&1; ls ran");
}

/// A link in the place of a directory on the way leads git to the rest, and us to nothing.
#[test]
fn a_link_on_the_way_is_moved_aside_and_not_followed() {
    let world = clone();
    world.write("o/victim/attributes", "host");
    world.link("w/there", "../o/victim");
    let script = "ln -s ../../o/victim .git/info; ln -s ../../o/victim .git/hooks; ln -s ../../o/victim/attributes .git/commondir";
    inside(&world, ["-w", "."], script).done().code(0);
    assert_eq!(aside(&world), ["commondir", "hooks", "info"]);
    assert_eq!(world.read("o/victim/attributes"), "host");
    // One that is there already could lead somewhere else during the run.
    for (name, to) in [("info", "../there"), ("hooks", "nothing"), ("commondir", "nothing")] {
        world.link(&format!("w/.git/{name}"), to);
        let at = world.text(&format!("w/.git/{name}"));
        inside(&world, ["-w", "."], "true").done().refused(125, &["is a link to", &at]);
        fs::remove_file(world.path(&format!("w/.git/{name}"))).unwrap();
    }
    inside(&world, ["-w", "."], "true").done().is(0, "", "");
}

/// Permissions that keep the owner out keep nothing in its place.
#[test]
fn permissions_do_not_keep_it_there() {
    for mode in ["000", "444", "500", "555", "666"] {
        let world = clone();
        fs::set_permissions(world.path("w/.git"), Permissions::from_mode(0o750)).unwrap();
        let make = "echo $PWD/evil/.git >.git/commondir; mkdir .git/hooks; echo x >.git/hooks/pre-commit";
        let script = format!("{make}; chmod 555 .git/hooks; chmod {mode} .git");
        let done = inside(&world, ["-w", "."], &script).done().code(0);
        assert_eq!(done.stderr.matches("and is now").count(), 2, "{mode}: {}", done.stderr);
        // Where it was in the way it is as before; where it keeps its owner out, git would pass over it.
        let now = fs::metadata(world.path("w/.git")).unwrap().permissions().mode() & 0o777;
        let left = u32::from_str_radix(mode, 8).unwrap();
        let closed = left & 0o100 == 0 && crate::harness::is_root();
        assert_eq!(done.stderr.matches("is open again").count(), usize::from(closed), "{mode}: {}", done.stderr);
        assert_eq!(done.stderr.lines().count(), 2 + usize::from(closed), "{mode}: {}", done.stderr);
        let left = if closed { 0o750 } else { left };
        assert_eq!(now, if crate::harness::is_root() { left } else { 0o750 }, "{mode}");
        outside(&world, "chmod 755 .git; chmod 755 .git/hooks.*");
        assert_eq!(aside(&world), ["commondir", "hooks"], "{mode}");
    }
    // A directory above.
    let world = repository();
    outside(&world, "git clone -q ../o/repo a/b && rm -r a/b/.git/hooks; chmod 750 a a/b");
    let script = "mkdir a/b/.git/hooks; chmod 000 a/b; chmod 000 a";
    inside(&world, ["-w", "."], script).done().code(0).stderr_has("and is now");
    for place in ["w/a", "w/a/b"] {
        assert_eq!(fs::metadata(world.path(place)).unwrap().permissions().mode() & 0o777, 0o750);
    }
    outside(&world, "chmod 755 a; chmod 755 a/b; ! ls a/b/.git/hooks 2>&1 && ls a/b/.git/hooks.*");
}

/// Names that the command has taken, since it could foresee them, and a name that leaves no room for more.
#[test]
fn no_name_keeps_it_there() {
    let world = clone();
    let program = crate::harness::program();
    let taken = "for p in $P $((P + 1)) $((P + 2)) $((P + 3)) $((P + 4)); do \
        touch .git/hooks.sandbox-run-$p $(seq -f .git/hooks.sandbox-run-$p-%g 999); done; mkdir .git/hooks";
    let outer = format!("P=$$ exec {} -b bwrap --env P=$$ -w . -- sh -c '{taken}'", program.display());
    world.call("sh", ["-c", &outer]).done().code(0).stderr_has("and is now '");
    assert!(!world.has("w/.git/hooks"));
    for length in [100, 101, 250, 255] {
        let name = "n".repeat(length);
        outside(&world, &format!("git config core.hooksPath .git/{name}"));
        let script = format!("mkdir .git/{name}; echo x >.git/{name}/pre-commit");
        inside(&world, ["-w", "."], &script).done().code(0).stderr_has("and is now '");
        assert!(!world.has(&format!("w/.git/{name}")), "{length}");
    }
}

/// A disk without room for another name.
#[test]
fn a_full_disk_keeps_nothing_that_is_obeyed() {
    if !crate::harness::is_root() {
        return eprintln!("only root can mount: not tried");
    }
    let world = World::new();
    world.dir("disk");
    let (disk, program) = (world.text("disk"), crate::harness::program());
    // Neither the blocks of the directory nor the disk have room left then.
    let script = "mkdir .git/hooks; cp evil/hook .git/hooks/pre-commit; mkdir .git/hooks/x; ln -s ../evil/there .git/commondir; \
        touch .git/l; cat /dev/zero >fill; i=0; for l in 200 100 50 20 10 4; do \
        while i=$((i + 1)); ln .git/l .git/$(printf %0${l}d $i); do :; done; done 2>/dev/null; exit 0";
    world.write("inside.sh", script);
    world.write("hook", "#!/bin/sh\necho ran\n");
    let commit = "git -c user.name=n -c user.email=e -c advice.ignoredHook=false commit -q --allow-empty -m x 2>&1";
    for (user, how) in [("0", "emptied"), ("65534", "closed to everybody")] {
        let outer = format!(
            "command -v mkfs.ext4 >/dev/null || exit 99; set -e; truncate -s 4M ../image; mkfs.ext4 -q -F -O ^has_journal,^dir_index -b 1024 ../image
            mount -o loop ../image {disk} || exit 99
            cd {disk}; git init -q .; rm -rf .git/hooks; mkdir .git/hooks evil
            cp ../hook .git/hooks/pre-commit; cp ../hook evil/hook; chmod 755 evil/hook .git/hooks/pre-commit; chown -R {user} .
            as='setpriv --reuid {user} --clear-groups'
            $as {commit}; rm -r .git/hooks
            $as {program} -b bwrap -w . -- sh -c \"$(cat ../inside.sh)\"
            rm fill; $as {commit}; git -c safe.directory='*' rev-list --count HEAD; ls .git | grep -x -e commondir -e hooks",
            program = program.display(),
        );
        let call = world.call("unshare", ["-m", "--propagation", "private", "sh", "-c", &outer]);
        let done = call.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").done();
        if done.code == Some(99) {
            return eprintln!("not tried: no file system can be made and mounted here");
        }
        // The control: a hook that is left is run.
        let done = done.code(0).stdout("ran\n2\nhooks\n");
        let is = "which git on the host would obey, was made during the run and is now";
        done.stderr_has(&format!("commondir', {is} removed; it cannot be renamed: no space left on device"))
            .stderr_has(&format!("hooks', {is} {how}; it cannot be renamed: no space left on device"));
    }
}

/// What was made by the host meanwhile is kept.
#[test]
fn hooks_of_the_host_are_not_lost() {
    let world = clone();
    let running =
        inside(&world, ["-w", "."], "touch here; i=0; until [ -e go ] || [ $i = 200 ]; do sleep 0.05; done").spawn();
    assert!(crate::harness::eventually(|| world.has("w/here")));
    outside(&world, "mkdir .git/hooks; echo host >.git/hooks/pre-push; touch go");
    running.done().code(0).stderr_has("and is now");
    assert_eq!(outside(&world, "cat .git/hooks.sandbox-run-*/pre-push"), "host\n");
}

/// Whoever has taken a part of a repository away in one run does not find it unprotected in the next.
#[test]
fn a_repository_in_parts_is_one() {
    let world = clone_in(with_repository(World::apart()));
    outside(&world, "git init -q --bare .git/modules/other");
    for (part, top) in [
        ("refs", ".git"),
        ("objects", ".git"),
        ("HEAD", ".git"),
        ("refs", ".git/modules/other"),
        ("HEAD", ".git/modules/other"),
    ] {
        // A run that was killed leaves it so.
        outside(&world, &format!("mv {top}/{part} part"));
        inside(&world, ["-w", "."], &format!("echo x >>{top}/config")).done().code(2);
        inside(&world, ["-w", "."], &format!("echo x >{top}/commondir; mv part {top}/{part}"))
            .done()
            .code(0)
            .stderr_has("and is now");
        assert!(!world.has(&format!("w/{top}/commondir")), "{part} {top}");
    }
    // What looks like one hides no repository beside it.
    inside(&world, ["-w", "."], "touch HEAD; mkdir objects refs").done().code(0);
    for options in [&["-w", "."][..], &["-w", ".", "--show-hidden", "*"]] {
        inside(&world, options.iter().copied(), "echo x >>.git/config").done().code(2);
    }
}

/// The old form of settings of remotes: `git push origin` goes where a file of that name says, before any setting.
#[test]
fn where_a_remote_leads_is_not_changed() {
    let world = clone();
    outside(&world, "git init -q --bare ../o/evil && mkdir -p .git/branches && rm -rf .git/remotes");
    let evil = world.text("o/evil");
    let push = "git push -q origin main:pushed";
    let plant = |kind: &str, text: &str| format!("mkdir -p .git/{kind}; echo '{text}' >.git/{kind}/origin");
    let [branch, remote] = [plant("branches", &evil), plant("remotes", &format!("URL: {evil}"))];
    inside(&world, ["-w", "."], &branch).done().code(2).stderr_has("Read-only file system");
    let done = inside(&world, ["-w", "."], &remote).done().code(0);
    done.stderr_has(&format!("'{}', which git on the host would obey", world.text("w/.git/remotes")));
    outside(&world, push);
    assert_eq!(
        outside(&world, "git -C ../o/evil branch; git -C ../o/repo branch --format='%(refname:short)'"),
        "main\npushed\n"
    );
    // The controls: what is there is obeyed, and a grant of it lets it be written.
    outside(&world, "git remote remove origin && mkdir .git/remotes");
    inside(&world, ["-w", "."], &remote).done().code(2).stderr_has("Read-only file system");
    inside(&world, ["-w", ".", "-w", ".git/remotes"], &remote).done().is(0, "", "");
    outside(&world, push);
    assert_eq!(outside(&world, "git -C ../o/evil branch --format='%(refname:short)'"), "pushed\n");
}
