//! One place under two names by a mount of the host: what is forbidden by one name is forbidden by the other.
//!
//! Each test mounts in a mount namespace of its own.

use std::fs;

use crate::harness::{Call, Done, World, has, is_root, program};

/// `script` after `mounts`, in `w`, where `$SR` is the program. An ordinary user mounts by a user namespace, in which he stays himself.
fn call(world: &World, mounts: &str, script: &str) -> Call {
    let user = if is_root() { &[][..] } else { &["--user", "--map-current-user", "--keep-caps"] };
    let text = format!("set -e\n{mounts}\nset +e\n{script}");
    let words = ["--mount", "--propagation", "private", "sh", "-c", &text];
    // What he mounted with is not for the program.
    let without = if is_root() { "" } else { "setpriv --inh-caps -all --ambient-caps -all " };
    world.call("unshare", user.iter().chain(&words)).env("SR", format!("{without}{}", program().display()))
}

fn done(world: &World, mounts: &str, script: &str) -> Done {
    call(world, mounts, script).done()
}

/// `al` beside the working directory is the working directory.
const ALIAS: &str = "mount --bind . ../al";

fn world() -> World {
    let world = World::new();
    world.dir("al");
    world
}

#[test]
fn a_report_is_no_place_where_another_name_can_be_written() {
    for (options, what, control) in [
        ("-w . --audit-log ../al/a.log", "../al/a.log", "-w . --audit-log ../al/a.log"),
        ("-w . --audit-log ../al/sub/a.log", "../al/sub/a.log", "-w . --protect sub --audit-log ../al/sub/a.log"),
        ("-w ../al -C ../al --audit-log ../w/a.log", "../w/a.log", "-w . --audit-log ../o/a.log"),
        ("-w . -C sub --audit-log ../al/sub/a.log", "../al/sub/a.log", "-w . -C sub --audit-log ../al/a.log"),
    ] {
        let world = world();
        world.write("w/sub/a.log", "");
        world.dir("al/sub");
        let script = |options: &str| format!("$SR -q {options} -- sh -c 'echo FORGED >a.log; touch ran'");
        done(&world, ALIAS, &script(options)).refused(125, &[what, "the command could change it"]);
        assert!(!world.has("w/ran") && !world.has("w/sub/ran"), "{options}");
        // Where nothing leads there by a mount, where it is protected, and elsewhere.
        let mounts = if control == options { "" } else { ALIAS };
        done(&world, mounts, &script(control)).code(0);
    }
    let world = world();
    let script = "$SR -q -w . --result-fd 5 -- touch ran 5>../al/fd";
    done(&world, ALIAS, script).refused(125, &["descriptor 5", "the command could change it"]);
    assert!(!world.has("w/ran"));
    done(&world, "", script).is(0, "", "");
    assert!(world.read("al/fd").contains("\"exit_code\":0"));
}

#[test]
fn a_result_by_another_name_is_kept_from_the_command() {
    let world = world();
    let forge =
        "$SR -q -w . --result ../al/r.json -- sh -c 'echo FORGED >r.json; rm -f r.json; mv r.json x; mkdir -p r.json'";
    let refused = done(&world, ALIAS, forge);
    refused.stderr_has("Read-only file system").stdout("");
    assert!(world.read("w/r.json").contains("\"status\":\"exited\""), "{}", world.read("w/r.json"));
    // A directory on the way can be given another name only where nothing holds it.
    world.dir("w/sub");
    let script = "$SR -q -w . --result ../al/sub/r.json -- true";
    done(&world, ALIAS, script).refused(125, &["in place of the directory", "al/sub"]);
    // The control.
    done(&world, "", forge).stderr_lacks("Read-only").code(0);
    assert!(fs::metadata(world.path("w/r.json")).unwrap().is_dir());
}

#[test]
fn no_launcher_is_taken_from_another_name_of_a_grant() {
    let world = world();
    let mark = world.path("o/mark");
    world.script("w/bin/bwrap", &format!("#!/bin/sh\necho >{}\n", mark.display()));
    world.link("o/bwrap", world.path("al/bin/bwrap"));
    for directory in ["al/bin", "o"] {
        let path = format!("PATH={}:$PATH", world.text(directory));
        for options in ["-w .", "-w bin", "-r .", ""] {
            let done = call(&world, ALIAS, &format!("{path} $SR {options} -- true")).done();
            // A link in another directory leads to the same.
            assert!(!mark.exists(), "{directory} {options}: {}", done.stderr);
            done.is(0, "", "");
        }
        // The control: from elsewhere, with other grants, nobody inside could have written it.
        call(&world, ALIAS, &format!("cd ../home && {path} $SR -- true")).done();
        assert!(mark.exists(), "the control");
        fs::remove_file(&mark).unwrap();
    }
}

/// A mount in the grant shows what is protected or hidden: the file itself, a directory above it, a part of it.
#[test]
fn a_rule_holds_for_other_names_of_the_same() {
    let write = "echo evil >>hk/pre-commit; echo evil >>cf; echo evil >>g/config; echo evil >>deep/x; cat envf; cat sub/plain; \
                 echo good >>ok/y; true";
    let mounts =
        "mount --bind .git/hooks hk; mount --bind .git/config cf; mount --bind .git g; mount --bind tools/deep deep
                  mount --bind .env envf; mount --bind ok sub";
    let make = || {
        let world = World::new();
        world.call("sh", ["-ec", "git init -q . && mkdir -p .git/hooks"]).done().code(0);
        for name in ["hk", "g", "deep", "sub"] {
            world.dir(&format!("w/{name}"));
        }
        for name in ["cf", "envf", "tools/deep/x"] {
            world.write(&format!("w/{name}"), "");
        }
        world.write("w/.env", "s3cret\n");
        world.write("w/ok/plain", "plain\n");
        world
    };
    let world = make();
    let script = |options: &str| format!("$SR {options} -w . --protect tools -- sh -c '{write}'");
    let before = world.read("w/.git/config");
    let found = done(&world, mounts, &script("-q")).code(0).stdout("plain\n");
    assert_eq!(found.stderr.matches("Read-only file system").count(), 4, "{}", found.stderr);
    assert!(!world.has("w/.git/hooks/pre-commit"));
    assert_eq!(world.read("w/.git/config"), before);
    assert_eq!((world.read("w/tools/deep/x"), world.read("w/ok/y")), (String::new(), "good\n".into()));
    done(&world, mounts, &script("-v")).code(0).stderr_has("since a mount shows the same there: ");
    // A grant of such a name by itself is what somebody meant.
    done(&world, mounts, "$SR -q -w . -r envf -- cat envf").is(0, "s3cret\n", "");
    done(&world, mounts, "$SR -w . -r envf -- true").code(0).stderr_has("granted by itself: it stays open");
    // Without the rule all of it is open, and without a mount nothing is said.
    let world = make();
    done(
        &world,
        mounts,
        &format!("$SR -q -w . --show-hidden '*' -w .git -w .git/hooks -w .git/config -- sh -c '{write}'"),
    )
    .code(0)
    .stdout("s3cret\nplain\n");
    let world = make();
    done(&world, "", "$SR -w . --protect tools -- sh -c 'cat ok/plain'").is(0, "plain\n", "");
}

/// Masks for reading; two grants, of which one shows what is masked in the other.
#[test]
fn a_mask_holds_for_other_names_of_the_same() {
    let world = world();
    world.write("w/keys/k", "s3cret\n");
    world.write("w/plain", "plain\n");
    let look = "cat keys/k ../al/keys/k 2>/dev/null; cat ../al/plain";
    for grant in ["-r", "-w"] {
        for mask in ["keys", "keys/k"] {
            let script = format!("$SR -q {grant} . {grant} ../al --mask {mask} -- sh -c '{look}'");
            done(&world, ALIAS, &script).is(0, "plain\n", "");
        }
        let script = format!("$SR -q {grant} . {grant} ../al -- sh -c '{look}'");
        done(&world, ALIAS, &script).is(0, "s3cret\ns3cret\nplain\n", "");
    }
}

/// Nothing leads to a mount that another one covers, be the mounts copied in one piece or each by its name.
#[test]
fn a_covered_mount_is_in_nobodys_way() {
    if !has("strace") {
        return;
    }
    let mounts = "mkdir r && mount -t tmpfs r r && mkdir r/k && mount -t tmpfs k r/k && mount -t tmpfs hide r && \
        mkdir r/sub && mount -t tmpfs sub r/sub && touch r/sub/file";
    let older =
        "strace -f -qq -o /dev/null -e trace=mount_setattr,openat2 -e inject=mount_setattr,openat2:error=ENOSYS";
    for (backend, by) in [("bwrap", ""), ("namespace", ""), ("namespace", older)] {
        let world = World::new();
        let run = "-r . sh -c 'ls r; touch r/sub/made 2>/dev/null || ls r/sub'";
        let done = done(&world, mounts, &format!("{by} $SR -q -b {backend} {run}"));
        done.is(0, "sub\nfile\n", "");
    }
}
