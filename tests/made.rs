//! Directories that are made for write grants: for every rule as if they had been there, only for a run, and gone again when
//! nothing was started.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::fakes::{first, world_with};
use crate::harness::{World, about_bwrap, backends, is_root};

/// The files of a world, without the times of its directories.
fn names(world: &World) -> Vec<PathBuf> {
    world.snapshot().into_keys().collect()
}

/// The mounts of a plan, without those that a directory which is there needs and one that is to be made does not.
fn mounts(world: &World, words: &[&str]) -> Vec<String> {
    let done = world.run([words, &["--dry-run", "true"]].concat()).done().code(0);
    let text = done.out();
    text.lines().filter(|line| line.starts_with("  ")).map(str::to_owned).collect()
}

#[test]
fn a_rule_about_what_is_made_holds_in_the_first_run_too() {
    let masked = "touch m/x || touch m/a/x || echo closed; ls m/a";
    let protected = "touch m/a/x || echo closed";
    for (options, script, output) in [
        (&["--mask", "m", "-w", "m"][..], "touch m/x || echo closed; ls -A m", "closed\n"),
        (&["--mask", "m/", "-w", "./m"], "touch m/x || echo closed; ls -A m", "closed\n"),
        (
            &["--mask", "m/a", "-w", "m", "-w", "m/a"],
            "touch m/a/x || echo closed; touch m/y && echo beside",
            "closed\nbeside\n",
        ),
        (&["--mask", "m", "-w", "m/a"], "touch m/x || echo closed; touch m/a/y && echo below", "closed\nbelow\n"),
        (&["--deny-socket", "m", "-w", "m"], "touch m/x || echo closed", "closed\n"),
        (&["--protect", "m", "-w", "m"], "touch m/x || echo closed", "closed\n"),
        (&["--protect", "m/a", "-w", "m", "-w", "m/a"], protected, "closed\n"),
        (&["--protect", "m/a", "-w", "m", "-w", "m/a"], "mv m/a m/b || mv m n || echo closed", "closed\n"),
        (&["--mask", "m/a", "-w", "m", "-w", "m/a/b/c"], masked, "b\n"),
    ] {
        let world = World::new();
        let words = [&["--create-missing"], options].concat();
        let planned = mounts(&world, &words);
        for _ in 0..2 {
            let done = world.sh(&words, script).done();
            assert!(done.out().ends_with(output), "{words:?}: {} {}", done.out(), done.stderr);
        }
        assert_eq!(mounts(&world, &words), planned, "{words:?}");
    }
    // The control.
    let world = World::new();
    world.sh(["--create-missing", "-w", "m"], "touch m/x && echo open").done().is(0, "open\n", "");
}

#[test]
fn what_cannot_be_made_is_no_fault_of_the_backend() {
    if is_root() {
        // Root writes everywhere: the file system has to refuse.
        let world = World::new();
        for backend in ["bwrap", "auto,none"] {
            let words =
                ["-b", backend, "--allow-gap", "files-read,files-write", "--create-missing", "-w", "/sys/none/x"];
            let done = world.run(words.into_iter().chain(["echo", "ran"])).done();
            done.refused(125, &["cannot make directory '/sys/none' (--write): "]);
        }
        return;
    }
    let world = World::new();
    let shut = world.dir("w/ro");
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o555)).unwrap();
    world.write("w/p.toml", "write_roots_create = ['ro/x']\n");
    for backend in ["bwrap", "auto", "none", "auto,none"] {
        let gaps = ["-b", backend, "--allow-gap", "files-read,files-write", "-q"];
        for (grant, origin) in
            [(&["--create-missing", "-w", "ro/x/y"][..], "--write"), (&["--policy", "p.toml"], "p.toml")]
        {
            let words = [&gaps[..], grant].concat();
            for tail in [&["--", "sh", "-c", "echo ran"][..], &["--dry-run", "--", "true"]] {
                let done = world.run([&words[..], tail].concat()).done();
                done.refused(125, &["ro/x", origin, "permission denied"]);
            }
        }
    }
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(!world.has("w/ro/x"));
    // The control.
    world.run(["--create-missing", "-w", "ro/x/y", "true"]).done().is(0, "", "");
    assert!(world.has("w/ro/x/y"));
}

#[test]
fn each_backend_makes_what_is_missing() {
    for backend in backends() {
        let world = World::new();
        let gaps = ["--allow-gap", "files-read,files-write", "--create-missing", "-w", "a/b", "-w", "./a/./c"];
        world.run([&backend[..], &gaps, &["touch", "a/b/f", "a/c/f"]].concat()).done().is(0, "", "");
        assert!(world.has("w/a/b/f") && world.has("w/a/c/f"));
    }
}

#[test]
fn nothing_is_made_for_a_question() {
    let world = World::new();
    let before = world.snapshot();
    for words in [
        &["--check"][..],
        &["--dry-run", "true"],
        &["--print-policy"],
        &["--mask", "k/m", "-w", "k/m", "--check"],
        &["--protect", "k/m/n", "-w", "k/m/n", "--check"],
    ] {
        world.run([&["--create-missing", "-w", "k/m", "-w", "k/m/n/o"], words].concat()).done().code(0);
    }
    assert_eq!(world.snapshot(), before);
}

#[test]
fn nothing_is_left_when_nothing_was_started() {
    if about_bwrap("a program in place of bubblewrap") {
        return;
    }
    for script in ["#!/bin/sh\nexit 1\n", "#!/bin/sh\nexit 0\n", "#!/bin/sh\nkill -9 $$\n"] {
        let world = world_with(script);
        let before = names(&world);
        let call = world.run(["-b", "bwrap", "--create-missing", "-w", "k/m", "-w", "k/n/o", "true"]);
        call.env("PATH", first(&world, "fake")).done().code(125);
        assert_eq!(names(&world), before, "{script}");
    }
    let world = World::new();
    world.dir("w/there");
    world.script("w/broken", "#!/nope\n");
    let before = names(&world);
    let options = ["--create-missing", "-w", "there/k/m"];
    for (tail, code) in [
        (&["nosuchcmd"][..], 127),
        (&["./broken"], 126),
        (&["-w", "there", "-r", "missing", "true"], 125),
        (&["--keep-fd", "77", "true"], 125),
        (&["--mask", "there/none/../x", "true"], 125),
    ] {
        world.run([&options[..], tail].concat()).done().code(code);
        assert_eq!(names(&world), before, "{tail:?}");
    }
    // The control: the command has run, whatever became of it.
    world.run([&options[..], &["false"]].concat()).done().is(1, "", "");
    assert!(world.has("w/there/k/m"));
}

/// A backend that fails takes nothing from the one that works.
#[test]
fn the_next_backend_finds_it_made() {
    let world = world_with("#!/bin/sh\nexit 1\n");
    let words = ["-q", "-b", "auto,none", "--allow-gap", "files-read,files-write", "--create-missing", "-w", "k/m"];
    let call = world.run(words.into_iter().chain(["touch", "k/m/f"]));
    call.env("PATH", first(&world, "fake")).done().is(0, "", "");
    assert!(world.has("w/k/m/f"));
}

/// The system takes `file/` for nothing but a directory, and `.` on the way for nothing at all.
#[test]
fn slashes_and_dots_at_the_end() {
    let world = World::new();
    world.write("w/f", "text");
    world.write("home/f", "text");
    world.link("w/l", "f");
    world.link("w/slashed", "f/");
    world.dir("w/d");
    for rule in ["--read", "--read-try", "--write", "--write-try", "--mask", "--protect", "--deny-socket"] {
        for path in ["f/", "f/.", "f//", "./f/", "l/", "slashed", "~/f/"] {
            for tail in
                [&["true"][..], &["--dry-run", "true"], &["-q", "-b", "none", "--dry-run", "true"], &["--print-policy"]]
            {
                let done = world
                    .run([&[rule, path, "--allow-gap", "files-read,files-write,masks,sockets"], tail].concat())
                    .done();
                if path == "slashed" && (tail.contains(&"none") || tail == ["--print-policy"]) {
                    done.code(0);
                } else {
                    let name = path.trim_start_matches(['.', '~', '/']).trim_end_matches(['.', '/']);
                    done.refused(125, &[name, "not a directory"]);
                }
            }
        }
        for path in ["f", "./f", "l", "d/", "d/.", "./d/./", "~/f"] {
            world.run([rule, path, "true"]).done().code(0);
        }
    }
    let mut made = BTreeMap::new();
    for path in ["a", "./a", "a/", "a/.", "./a//.", "d/../a", "d/./../a/"] {
        let done = world.run(["--create-missing", "-w", path, "--dry-run=json", "true"]).done().code(0);
        let plan: serde_json::Value = serde_json::from_str(&done.out()).unwrap();
        made.insert(path, plan["created_on_host"].clone());
    }
    assert!(made.values().all(|made| *made == serde_json::json!([world.text("w/a")])), "{made:#?}");
}
