//! What a command leaves for later runs where directories of toolchains lie: links in their place, secrets and repositories in
//! them.

use std::fs;

use crate::git::outside;
use crate::harness::World;

/// `o/ext` is a repository with a secret and another hidden name in it.
fn world() -> World {
    let world = World::new();
    outside(&world, "git init -q -b main ../o/ext");
    world.write("o/ext/.env", "s3cret\n");
    world.write("o/ext/.private", "s3cret\n");
    world
}

#[test]
fn no_link_in_the_place_of_a_toolchain_takes_what_it_leads_to_out_of_the_search() {
    for (make, grant, name, to) in [
        ("go", "~/go", "go/bin", "/"),
        ("go", "~/go", "go/bin", "OUT"),
        ("go", "~/go", "go/pkg", "EXT"),
        (".local", "~/.local", ".local/go", "/"),
        (".local", "~/.local", ".local/share", "OUT"),
        ("x", "~", "n", "/"),
        ("x", "~", "sdk", "EXT"),
        ("x", "~", "miniconda3", "OUT"),
    ] {
        let world = world();
        world.dir(&format!("home/{make}"));
        let [out, ext] = ["o", "o/ext"].map(|name| world.text(name));
        let look = format!("cd {ext}; cat .env .private; echo evil >>.git/config");
        let run = |options: &[&str], script: &str| world.sh(options, script).done();
        let plant = format!("ln -s {} ~/{name}", to.replace("OUT", &out).replace("EXT", &ext));
        run(&["-w", grant], &plant).code(0);
        assert!(fs::symlink_metadata(world.path(&format!("home/{name}"))).unwrap().is_symlink(), "{name}");
        let before = world.read("o/ext/.git/config");
        for options in [&["-w", grant, "-w", &ext][..], &["-w", grant, "-w", &out], &["-w", &ext, "-p", "go"]] {
            run(options, &look).code(2).stdout("");
            assert_eq!(world.read("o/ext/.git/config"), before, "{name} -> {to}: {options:?}");
        }
        run(&["-r", &ext], &look).code(2).stdout("");
        // Started in what it leads to.
        let done = world.sh(["-w", grant, "-w", "."], &look).cwd(&ext).done();
        done.code(2).stdout("");
        assert_eq!(world.read("o/ext/.git/config"), before);
        // The control: what is asked for is shown and written.
        let config = format!("{ext}/.git/config");
        let options = ["-w", grant, "-w", &ext, "--show-hidden", ".env", "-w", &config];
        run(&options, &look).is(0, "s3cret\n", "");
        assert_eq!(world.read("o/ext/.git/config"), format!("{before}evil\n"));
    }
}

#[test]
fn what_is_granted_for_writing_among_toolchains_is_searched() {
    for place in [
        ".local/share/chezmoi",
        ".local/share",
        ".pyenv",
        ".nvm",
        ".cargo",
        ".cargo/registry/src",
        ".cache/x",
        "go/pkg/mod/x",
        "miniconda3",
        "n",
        "sdk",
    ] {
        let world = World::new();
        let top = format!("home/{place}");
        world.dir(&top);
        outside(&world, &format!("git init -q -b main ../{top} && git init -q ../{top}/deep/er"));
        for name in [".env", "deep/.ssh/id", "deep/.config/gh/hosts.yml"] {
            world.write(&format!("{top}/{name}"), "s3cret\n");
        }
        world.write(&format!("{top}/plain"), "plain\n");
        let grant = format!("~/{place}");
        let run = |options: &[&str], script: &str| {
            world.sh([&["-w", &grant], options].concat(), &format!("cd {}; {script}", world.text(&top))).done()
        };
        run(&[], "cat .env deep/.ssh/id deep/.config/gh/hosts.yml 2>/dev/null; cat plain; echo more >>plain")
            .is(0, "plain\n", "");
        assert_eq!(world.read(&format!("{top}/plain")), "plain\nmore\n");
        for settings in [".git/config", "deep/er/.git/config"] {
            let (file, repository) = (format!("{top}/{settings}"), settings.trim_end_matches("/config"));
            let before = world.read(&file);
            let set = format!("printf '[core]\\nfsmonitor=x\\n' >>{settings}");
            run(&[], &set).code(2).stdout("").stderr_has("Read-only file system");
            let done = run(&[], &format!("mv {repository} {repository}x || mv deep/er deep/x"));
            assert_ne!(done.code, Some(0), "{place}: {repository}");
            assert_eq!(world.read(&file), before, "{place}");
            // The control.
            run(&["-w", &world.text(&file)], &set).is(0, "", "");
            assert_ne!(world.read(&file), before, "{place}");
        }
        run(&["--show-hidden", ".env"], "cat .env deep/.ssh/id").code(1).stdout("s3cret\n");
    }
}

#[test]
fn a_toolchain_has_its_own_hidden_names_and_no_secrets() {
    let world = World::new();
    for name in [".cargo/.lock", ".cargo/registry/src/x/.cargo-ok", ".cargo/registry/t1/plain"] {
        world.write(&format!("home/{name}"), "ok\n");
    }
    // An earlier run has moved them there, or an installer has left them.
    for name in ["t1/.ssh/id_rsa", "t1/proj/.env", "t2/.config/gh/hosts.yml", "t2/.npmrc"] {
        world.write(&format!("home/.cargo/registry/{name}"), "s3cret\n");
    }
    let secrets =
        "cd ~/.cargo/registry && cat t1/.ssh/id_rsa t1/proj/.env t2/.config/gh/hosts.yml t2/.npmrc 2>/dev/null";
    let tools = "cd ~/.cargo && cat .lock registry/src/x/.cargo-ok registry/t1/plain";
    for options in [&["-p", "rust"][..], &["-r", "~"], &["-r", "~/.cargo"], &["-w", "~/.cargo"], &["-q", "-r", "/"]] {
        let hidden = world.sh(options, secrets).done();
        assert!(hidden.stdout.is_empty(), "{options:?}: {}", hidden.out());
        world.sh(options, tools).done().is(0, "ok\nok\nok\n", "");
        let options = [options, &["--show-hidden", ".env"]].concat();
        world.sh(options, secrets).done().stdout("s3cret\n");
    }
    world.sh(["-w", "~/.cargo"], "echo more >>~/.cargo/.lock").done().is(0, "", "");
    assert_eq!(world.read("home/.cargo/.lock"), "ok\nmore\n");
}

#[test]
fn where_the_search_of_toolchains_ends_is_told() {
    let world = World::new();
    for number in 0..60 {
        world.write(&format!("home/.cargo/registry/src/x{number}"), "");
    }
    world.write("home/.cargo/registry/z/.env", "s3cret\n");
    let look = "cat ~/.cargo/registry/z/.env";
    let with = |limit: &str, options: &[&str]| world.sh([&["--hidden-scan-max", limit], options].concat(), look).done();
    with("50", &["-r", "~/.cargo"])
        .code(0)
        .stdout("s3cret\n")
        .stderr_has("warning: well-known secrets stay visible in directories of toolchains")
        .stderr_has(&world.text("home/.cargo/registry/z"));
    with("50", &["-p", "rust"]).code(0).stderr_has("directories of toolchains");
    // What a command can make weakens no later run.
    with("50", &["-w", "~/.cargo"]).refused(125, &["more than 50 entries", ".cargo/registry"]);
    for options in [["-r", "~/.cargo"], ["-w", "~/.cargo"]] {
        with("70", &options).is(0, "", "");
    }
}
