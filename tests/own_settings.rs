//! Our own settings: what the user's profiles say is nobody's word but the user's.

use crate::harness::{Call, World};

const MINE: &str = "# mine\nread_roots_optional = [\"~/x\"]\n";
const EVIL: &str = "printf 'write_roots = [\"~\"]\\n'";

const PROFILE: &str = "home/.config/sandbox-run/profiles/ci.toml";

fn call(world: &World, options: &[&str], script: &str) -> Call {
    world.sh(options, script)
}

#[test]
fn a_command_writes_no_profile_of_later_runs() {
    let world = World::new();
    world.write(PROFILE, MINE);
    world.write("home/.config/other", "");
    for change in [
        format!("{EVIL} >~/.config/sandbox-run/profiles/ci.toml"),
        format!("{EVIL} >~/.config/sandbox-run/profiles/new.toml"),
        "rm ~/.config/sandbox-run/profiles/ci.toml".into(),
        "mv ~/.config/sandbox-run/profiles ~/x".into(),
        "mv ~/.config/sandbox-run ~/.config/x".into(),
        "mv ~/.config ~/x".into(),
    ] {
        for grant in ["~", "~/.config", "/"] {
            let done = call(&world, &["-q", "-w", grant], &change).done();
            assert_ne!(done.code, Some(0), "{change}");
            assert_eq!(world.read(PROFILE), MINE, "{grant}: {change}");
            assert!(!world.has("home/.config/sandbox-run/profiles/new.toml"), "{grant}: {change}");
        }
    }
    call(&world, &["-w", "~"], "echo x >~/.config/other").done().is(0, "", "");
    // The control: whoever grants the place itself means it.
    let write = format!("{EVIL} >~/.config/sandbox-run/profiles/new.toml");
    call(&world, &["-w", "~/.config/sandbox-run"], &write).done().code(1 + 1);
    call(&world, &["-w", "~/.config/sandbox-run/profiles"], &write).done().is(0, "", "");
    assert!(world.has("home/.config/sandbox-run/profiles/new.toml"));
}

#[test]
fn what_was_missing_is_not_there_afterwards() {
    for there in ["", ".config", ".config/sandbox-run"] {
        let world = World::new();
        world.dir(&format!("home/{there}"));
        let make = format!("mkdir -p ~/.config/sandbox-run/profiles && {EVIL} >~/.config/sandbox-run/profiles/ci.toml");
        let done = call(&world, &["-w", "~"], &make).done();
        if there == ".config/sandbox-run" {
            done.code(1).stderr_has("Read-only file system");
        } else {
            done.code(0).stderr_has("which a later run of sandbox-run would obey, was made during the run and is now");
        }
        world.run(["-p", "ci", "true"]).done().refused(125, &["'ci'"]);
        // Nor by a link.
        let make = format!(
            "mkdir -p ~/y/profiles ~/.config && {EVIL} >~/y/profiles/ci.toml && ln -s ~/y ~/.config/sandbox-run"
        );
        call(&world, &["-w", "~"], &make).done();
        world.run(["-p", "ci", "true"]).done().refused(125, &["'ci'"]);
    }
    let world = World::new();
    world.dir("home/.config/sandbox-run/profiles");
    world.write("home/.config/sandbox-run/profiles/ci.toml", MINE);
    world.run(["-p", "ci", "true"]).done().is(0, "", "");
}

#[test]
fn settings_elsewhere_are_held_as_well() {
    let world = World::new();
    world.write("w/cfg/sandbox-run/profiles/ci.toml", MINE);
    let change = format!("{EVIL} >cfg/sandbox-run/profiles/ci.toml");
    let with = |options: &[&str]| call(&world, options, &change).env("XDG_CONFIG_HOME", world.path("w/cfg")).done();
    with(&["-w", "."]).code(2).stderr_has("Read-only file system");
    with(&["-w", ".", "-w", "cfg/sandbox-run/profiles"]).is(0, "", "");
    assert!(world.read("w/cfg/sandbox-run/profiles/ci.toml").contains("write_roots"), "control");

    // Behind links: what they lead to is held, and one that can be replaced is told of.
    let world = World::new();
    world.write("home/dots/profiles/ci.toml", MINE);
    world.write("home/more/one.toml", MINE);
    world.link("home/dots/profiles/one.toml", world.path("home/more/one.toml"));
    world.dir("home/.config");
    world.link("home/.config/sandbox-run", "../dots");
    for file in ["dots/profiles/ci.toml", "more/one.toml"] {
        let change = format!("{EVIL} >~/{file}");
        let done = call(&world, &["-w", "~"], &change).done().code(2).stderr_has("Read-only file system");
        done.stderr_has(&format!(
            "'{}' is a link that the command can replace",
            world.text("home/.config/sandbox-run")
        ));
        let directory = format!("~/{}", file.split('/').next().unwrap());
        let done = call(&world, &["-w", &directory], &change).done().code(2);
        done.stderr_lacks("can replace");
        assert_eq!(world.read(&format!("home/{file}")), MINE);
        call(&world, &["-w", &format!("~/{file}")], &change).done().is(0, "", "");
        world.write(&format!("home/{file}"), MINE);
    }
}

#[test]
fn what_the_owner_has_closed_stays_closed() {
    let world = World::new();
    world.write("home/.config/sandbox-run/profiles/ci.toml", MINE);
    // In two runs: close, then open and write.
    let close = "chmod 0 ~/.config";
    let open = format!("chmod 700 ~/.config && {EVIL} >~/.config/sandbox-run/profiles/ci.toml");
    for script in [close, &open] {
        call(&world, &["-q", "-w", "~", "--show-hidden", "*"], script).done();
    }
    world.call("chmod", ["700".into(), world.path("home/.config")]).done().is(0, "", "");
    assert_eq!(world.read("home/.config/sandbox-run/profiles/ci.toml"), MINE);
}

/// The file of `--policy` lies beside the sources, and the next run reads it again.
#[test]
fn a_command_does_not_rewrite_its_policy() {
    let policy = "write_roots = [\".\"]\n";
    for (name, at) in [("job.toml", "."), ("ci/job.toml", "."), ("job.toml", "..")] {
        let world = World::new();
        world.write(&format!("w/{name}"), policy);
        for change in [
            format!("echo 'read_roots = [\"{}\"]' >>{name}", world.text("o")),
            format!("rm {name}"),
            format!("echo x >x && mv x {name}"),
            "test ! -d ci || mv ci x || exit 1; exit 1".into(),
        ] {
            let done = call(&world, &["-q", "-w", at, "--policy", name], &change).done();
            assert_ne!(done.code, Some(0), "{name}: {change}");
            assert_eq!(world.read(&format!("w/{name}")), policy, "{name}: {change}");
        }
        // The controls: what lies beside it, and a grant of the very file.
        call(&world, &["--policy", name], "echo x >beside").done().is(0, "", "");
        call(&world, &["--policy", name, "-w", name], &format!("echo '# x' >>{name}")).done().is(0, "", "");
        assert_ne!(world.read(&format!("w/{name}")), policy);
    }
    // From a pipe nothing is anybody's file.
    let world = World::new();
    world
        .call(
            "sh",
            [
                "-c",
                &format!(
                    "echo 'write_roots = [\".\"]' | {} --policy /dev/stdin -- true",
                    crate::harness::program().display()
                ),
            ],
        )
        .done()
        .is(0, "", "");
}
