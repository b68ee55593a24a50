//! What is left behind for the host to run later.

use crate::harness::{Call, World, eventually};

/// snapd let an application write to `~/bin`, which login shells search first.
#[test]
fn nothing_is_left_in_home() {
    let world = World::new();
    for name in [".bashrc", ".profile", "bin/ls", ".local/bin/ls", ".ssh/authorized_keys"] {
        world.write(&format!("home/{name}"), "mine\n");
    }
    let script = "cd ~ && for f in .bashrc .profile .bash_aliases .zshenv bin/ls .local/bin/ls .ssh/authorized_keys .ssh/config \
                  .config/autostart/x.desktop .config/systemd/user/x.service .gitconfig .pam_environment .cargo/config.toml; do \
                  mkdir -p \"${f%/*}x\" \"$(dirname \"$f\")\" && echo evil >>\"$f\"; done; ls -A | wc -l";
    let before = world.snapshot();
    for options in [&[][..], &["-w", "."], &["--net", "host"], &["-r", "~"]] {
        world.sh(options.iter().copied(), script).done();
        assert_eq!(
            world.snapshot().into_iter().filter(|(path, _)| path.starts_with(world.path("home"))).collect::<Vec<_>>(),
            before.clone().into_iter().filter(|(path, _)| path.starts_with(world.path("home"))).collect::<Vec<_>>(),
            "{options:?}"
        );
    }
    // It did write, to a HOME of its own; and where HOME is granted, what lies open in it is written on the host.
    assert_ne!(world.sh([""; 0], script).done().code(0).out().trim(), "0");
    world.sh(["-w", "~"], script).done();
    assert_eq!(world.read("home/bin/ls"), "mine\nevil\n");
    // Names that begin with a dot are not among it.
    assert_eq!(world.read("home/.bashrc"), "mine\n");
    assert_eq!(world.read("home/.ssh/authorized_keys"), "mine\n");
}

/// Claude Code wrote, outside, through links that the command had left inside. What is taken away after a run is taken away
/// by us: a link on the way to it must not lead that anywhere else.
#[test]
fn nothing_is_removed_by_way_of_a_link() {
    let bare = "git init -q . && rm -rf .git/config .git/hooks .git/info .git/description";
    let module = "git init -q . && rm -r .git/hooks && mkdir -p .git/modules/a/b && cp -r .git/HEAD .git/objects .git/refs .git/modules/a/b";
    let nested = "mkdir -p a/b && cd a/b && git init -q . && rm -rf .git/config .git/hooks .git/info";
    for (make, place, plant) in [
        (bare, ".git", &["mv .git g; ln -s OUT .git", "rm -rf .git; ln -s OUT .git"][..]),
        (module, ".git/modules/a/b", &["mv .git/modules m; mkdir -p .git/modules/a; ln -s OUT .git/modules/a/b"]),
        (
            module,
            ".git/modules/a/b",
            &["mv .git/modules/a m; ln -s OUTER .git/modules/a", "rm -rf .git/modules/a/b; ln -s OUT .git/modules/a/b"],
        ),
        (
            nested,
            "a/b/.git",
            &[
                "mv a/b/.git g; ln -s OUT a/b/.git",
                "mv a x; mkdir -p a/b; ln -s OUT a/b/.git",
                "rm -rf a; mkdir -p a/b; ln -s OUT a/b/.git",
            ],
        ),
    ] {
        for plant in plant {
            let world = World::new();
            world.call("sh", ["-ec", make]).done().is(0, "", "");
            world.write("o/b/hooks/precious", "mine");
            world.write("o/b/commondir", "mine");
            let plant = plant.replace("OUTER", &world.text("o")).replace("OUT", &world.text("o/b"));
            world.sh(["-w", "."], &plant).done();
            assert_eq!(world.read("o/b/hooks/precious") + &world.read("o/b/commondir"), "minemine", "{plant}");
            // Where the host itself puts a link there meanwhile, it is not followed either.
            let world = World::new();
            world.call("sh", ["-ec", make]).done().is(0, "", "");
            world.write("o/b/hooks/precious", "mine");
            world.write("o/b/commondir", "mine");
            let running = world.sh(["-w", "."], "touch ready; until [ -e go ]; do sleep 0.02; done").spawn();
            assert!(eventually(|| world.has("w/ready")));
            std::fs::rename(world.path(&format!("w/{place}")), world.path("w/away")).expect("rename");
            world.link(&format!("w/{place}"), world.path("o/b"));
            world.write("w/go", "");
            running.done().code(0).stderr_has("cannot be looked for and moved aside");
            assert_eq!(world.read("o/b/hooks/precious") + &world.read("o/b/commondir"), "minemine");
        }
        // The control: what is made in the place itself is moved aside.
        let world = World::new();
        world.call("sh", ["-ec", make]).done().is(0, "", "");
        let made = format!("mkdir {place}/hooks && echo evil >{place}/hooks/pre-commit");
        world.sh(["-w", "."], &made).done().code(0).stderr_has("and is now");
        assert!(!world.has(&format!("w/{place}/hooks")));
    }
}

/// Claude Code protected its settings where they were there, and a command could make them where not.
#[test]
fn a_protected_file_that_is_made_is_told() {
    let settings = ".claude/settings.json";
    let write = format!("mkdir -p .claude && echo evil >{settings}");
    let told =
        |world: &World| format!("'{}' (--protect) was made during the run", world.text(&format!("w/{settings}")));
    let call = |world: &World, options: &[&str], script: &str| -> Call {
        world.sh([options, &["-w", ".", "--protect", settings]].concat(), script)
    };
    // It is there: nobody changes it, and nobody puts something else there.
    let world = World::new();
    world.write(&format!("w/{settings}"), "mine");
    for change in
        [&write, &format!("mv .claude x; {write}"), "rm -rf .claude; mkdir .claude && echo evil >.claude/settings.json"]
    {
        let done = call(&world, &[], change).done();
        assert_ne!(done.code, Some(0), "{change}");
        assert_eq!(world.read(&format!("w/{settings}")), "mine");
        done.stderr_lacks("was made during the run");
    }
    // It is not there: that it was made is said, and stands in the result.
    for script in [
        &write,
        &format!("ln -s ../o .claude; echo evil >../o/settings.json; ln -sf x {settings}"),
        "mkdir -p .claude/settings.json",
    ] {
        let world = World::new();
        let done = call(&world, &["-w", "../o", "--result", "../r.json"], script).done().code(0);
        let done = done.stderr_has(&told(&world));
        assert!(world.read("r.json").contains("was made during the run"), "{}", done.stderr);
        assert_eq!(world.read("o/secret"), "s3cret");
    }
    // A directory that is there keeps everything out of it.
    let world = World::new();
    world.dir("w/.claude");
    world.sh(["-w", ".", "--protect", ".claude"], &write).done().code(2).stderr_has("Read-only file system");
    // And nothing is said where nothing was made, or where it could not be.
    let world = World::new();
    call(&world, &[], "true").done().is(0, "", "");
    world.sh(["--protect", settings], "true").done().is(0, "", "");
}
