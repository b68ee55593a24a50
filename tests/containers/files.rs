//! Rules about files in containers: what is missing, single files, what git obeys.

use std::os::unix::fs::chown;

use super::Place;

#[test]
fn what_cannot_be_had_is_refused_and_what_is_missing_is_made() {
    for (user, place) in Place::both() {
        let world = &place.world;
        let before = world.snapshot();
        for words in [&["--mask", ".", "true"][..], &["-C", "/missing", "true"], &["-w", "out", "true"]] {
            place.run(words).done().refused(125, &[]);
        }
        assert_eq!(world.snapshot(), before);
        place.run(&["--write-try", "out", "true"]).done().is(0, "", "");
        assert!(!world.has("w/out"));
        place.sh(&["--create-missing", "-w", "out/deep"], "echo x >out/deep/file").done().is(0, "", "");
        assert_eq!(world.read("w/out/deep/file"), "x\n");
        let made = std::fs::metadata(world.path("w/out")).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&made), user);
        assert_eq!(place.left(), [""; 0]);
    }
}

#[test]
fn a_single_file_can_be_written_but_not_replaced() {
    for (user, place) in Place::both() {
        let world = &place.world;
        let file = world.write("o/file", "old\n");
        world.write("o/beside", "beside\n");
        for name in ["o/file", "o/beside"] {
            chown(world.path(name), Some(user), Some(user)).unwrap();
        }
        let file = file.to_str().unwrap();
        let beside = world.text("o/beside");
        let script = format!("echo new >{file}; mv {file} {file}2; rm {file}; cat {beside}; echo x >{beside}");
        place.sh(&["-w", file], &script).done().stdout("");
        assert_eq!((world.read("o/file"), world.read("o/beside")), ("new\n".into(), "beside\n".into()));
        assert!(!world.has("o/file2"));
        // The control: with its directory.
        place.sh(&["-w", "../o"], &format!("mv {file} {file}2; cat {beside}")).done().is(0, "beside\n", "");
        assert!(world.has("o/file2"));
        assert_eq!(place.left(), [""; 0]);
    }
}

/// An engine makes what it is to mount something on.
#[test]
fn rules_about_what_is_missing_leave_no_trace() {
    for (_, place) in Place::both() {
        // What the engine keeps in HOME itself is there before.
        place.run(&["true"]).done().is(0, "", "");
        let rules = ["--mask", "~/.aws", "--mask", ".env", "--protect", ".git/hooks", "--mask", "/none/x"];
        for grants in [&[][..], &["-w", "."], &["-w", ".", "-w", "~"]] {
            let before = place.world.snapshot();
            place.run(&[grants, &rules, &["true"]].concat()).done().is(0, "", "");
            assert_eq!(place.world.snapshot(), before, "{grants:?}");
        }
        place.sh(&["-w", ".", "--mask", ".env"], "echo mine >.env; cat .env").done().is(0, "mine\n", "");
        assert_eq!(place.left(), [""; 0]);
    }
}

#[test]
fn what_git_obeys_is_not_written() {
    for (user, place) in Place::both() {
        let world = &place.world;
        let all = ["w/.git/config", "w/.git/hooks/pre-commit", "w/sub/.git/config"];
        for name in all {
            world.write(name, "");
        }
        for name in ["w/.git/HEAD", "w/sub/.git/HEAD"] {
            world.write(name, "ref: refs/heads/main\n");
        }
        for name in ["w/.git/objects", "w/.git/refs", "w/sub/.git/objects", "w/sub/.git/refs"] {
            world.dir(name);
        }
        world.call("chown", ["-R", &format!("{user}:{user}"), &world.text("w")]).done().code(0);
        let tries = "for file in .git/config .git/hooks/pre-commit .git/hooks/new sub/.git/config; do echo x >$file; done; \
            rm -rf .git/hooks; mv .git g; echo x >.git/refs/new";
        place.sh(&["-w", "."], tries).done();
        for name in all {
            assert_eq!(world.read(name), "", "{name}");
        }
        assert!(!world.has("w/.git/hooks/new") && !world.has("w/g"));
        assert_eq!(world.read("w/.git/refs/new"), "x\n", "control: the rest can be written");
        place.sh(&["-w", ".", "-w", ".git/config"], "echo x >.git/config").done().is(0, "", "");
        assert_eq!(place.left(), [""; 0]);
    }
}

#[test]
fn no_name_leads_to_what_is_hidden() {
    for (user, place) in Place::both() {
        let world = &place.world;
        for name in ["home/.ssh/id", "home/.netrc", "o/proj/.ssh/id", "o/proj/.aws/credentials", "o/proj/key", "w/s"] {
            world.write(name, "s3cret\n");
        }
        for name in ["home/notes", "o/proj/plain", "w/n"] {
            world.write(name, "plain\n");
        }
        world.link("o/proj/out", "../secret");
        world.link("w/link-s", "s");
        world.link("w/link-n", "n");
        for name in ["home", "o", "w"] {
            world.call("chown", ["-R", &format!("{user}:{user}"), &world.text(name)]).done().code(0);
        }
        // HOME as the working directory.
        place.sh(&[], "cat notes .ssh/id .netrc").cwd(world.path("home")).done().stdout("plain\n");
        // Secrets below any grant, and links out of one.
        for grant in ["-r", "-w"] {
            let options = [grant, "../o/proj", "--mask", "../o/proj/key"];
            let look = "cd ../o/proj; cat plain .ssh/id .aws/credentials key out ../secret";
            place.sh(&options, look).done().stdout("plain\n").code(1);
        }
        place.sh(&["-r", "../o"], "cat ../o/proj/out").done().is(0, "s3cret", "");
        // Other names of what is masked, and of what is not.
        let names = "for name in ./x/../$1 .//$1 $PWD/$1 link-$1 /proc/self/root$PWD/$1 /proc/self/cwd/$1; do cat $name; done; \
            ln $1 t && cat t; rm -f t; mv $1 t; cat t; mv t $1; true";
        world.dir("w/x");
        for (name, expected) in [("s", String::new()), ("n", "plain\n".repeat(8))] {
            let words = ["-w", ".", "--mask", "s", "--", "sh", "-c", names, "sh", name];
            place.run(&words).done().code(0).stdout(&expected);
            assert_eq!(world.read(&format!("w/{name}")), if name == "s" { "s3cret\n" } else { "plain\n" });
        }
        assert_eq!(place.left(), [""; 0]);
    }
}

/// What the plan says of a path holds inside.
#[test]
fn explanations_are_what_a_run_meets() {
    let Some(place) = Place::of(0) else { return };
    let world = &place.world;
    for name in ["w/file", "w/masked", "w/.env", "o/r/file"] {
        world.write(name, "text\n");
    }
    for (path, visible, writable) in
        [("file", true, true), ("masked", false, false), (".env", false, false), ("../o/r/file", true, false)]
    {
        let options = ["-w", ".", "-r", "../o/r", "--mask", "masked"];
        let said = |yes| if yes { "yes" } else { "no" };
        let done = place.run(&[&options[..], &["--explain", path]].concat()).done().code(0).stdout_has("as planned");
        done.stdout_has(&format!("visible: {}", said(visible))).stdout_has(&format!("write: {}", said(writable)));
        let met =
            place.sh(&options, &format!("grep -q text {path} && echo visible; echo text >>{path} && echo written"));
        let met = met.done().out();
        assert_eq!((met.contains("visible"), met.contains("written")), (visible, writable), "{path}: {met}");
    }
    assert_eq!(place.left(), [""; 0]);
}
