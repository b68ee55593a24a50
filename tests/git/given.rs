//! Settings from elsewhere than a repository's own `config`: the environment, other users, large files, and work trees that settings name.

use crate::git::named::{clone, kept};
use crate::git::{inside, outside};
use crate::harness::{Call, World, is_root};

/// A hook that leaves `ran` in the directory that it is started in.
const HOOK: &str = "#!/bin/sh\ntouch \"$RAN\"\n";

/// Whether `git commit` on the host, with these variables, runs a hook.
fn ran(world: &World, set: &str) -> bool {
    let _none = std::fs::remove_file(world.path("ran"));
    outside(
        world,
        &format!("export RAN={}; {set} git commit -q --allow-empty -m x >/dev/null 2>&1 || :", world.text("ran")),
    );
    world.has("ran")
}

fn with(call: Call, variables: &[(&str, String)]) -> Call {
    variables.iter().fold(call, |call, (name, value)| call.env(name, value))
}

/// A relative `core.hooksPath` counts from the work tree, wherever that is.
#[test]
fn hooks_in_a_work_tree_that_settings_name() {
    for (name, of) in [("../wt", "config"), ("/w/wt", "config"), ("../wt", "config.worktree")] {
        let world = clone();
        let name = name.replace("/w/", &format!("{}/", world.text("w")));
        outside(&world, "mkdir wt; git config extensions.worktreeConfig true; git config core.hooksPath hk");
        outside(&world, &format!("git config -f .git/{of} core.worktree {name}"));
        // The control: such a hook is run.
        world.script("w/wt/hk/pre-commit", HOOK);
        assert!(ran(&world, ""), "{name} {of}");
        kept(&world, "wt/hk/pre-commit");
        inside(&world, ["-w", "."], "echo x >wt/other").done().is(0, "", "");
        // Missing, and with the work tree.
        for gone in ["wt/hk", "wt"] {
            outside(&world, &format!("rm -r {gone}"));
            let script =
                "mkdir -p wt/hk; printf '#!/bin/sh\\ntouch \"$RAN\"\\n' >wt/hk/pre-commit; chmod +x wt/hk/pre-commit";
            let done = inside(&world, ["-w", "."], script).done().code(0);
            done.stderr_has("which git on the host would obey, was made during the run");
            assert!(!world.has("w/wt/hk") && !ran(&world, ""), "{name} {of}");
            outside(&world, "rm -rf wt wt.*; mkdir -p wt/hk");
        }
        // The top itself cannot be read-only.
        outside(&world, "git config core.hooksPath .");
        inside(&world, ["-w", "."], "echo x >wt/file").done().code(0).stderr_has("as the directory of hooks");
    }
    let world = clone();
    outside(&world, "git config core.hooksPath hk; mkdir wt");
    world.script("w/wt/hk/pre-commit", HOOK);
    assert!(ran(&world, "GIT_WORK_TREE=$PWD/wt GIT_DIR=$PWD/.git"));
    for tree in [world.text("w/wt"), "wt".into()] {
        let change = inside(&world, ["-w", "."], "echo x >wt/hk/pre-commit").env("GIT_WORK_TREE", tree);
        assert_ne!(change.done().code, Some(0));
    }
    inside(&world, ["-w", "."], "echo x >wt/hk/pre-commit").done().is(0, "", "");
}

/// What the caller has in the environment git on the host obeys.
#[test]
fn settings_of_the_environment() {
    let world = clone();
    world.write("w/cfg", "[core]\n\thooksPath = hk\n");
    world.write("w/more", "[core]\n\thooksPath = hk\n");
    let (cfg, more) = (world.text("w/cfg"), world.text("w/more"));
    let counted = |key: &str, value: &str| {
        let (key, value) = (("GIT_CONFIG_KEY_1", key.to_owned()), ("GIT_CONFIG_VALUE_1", value.to_owned()));
        let first = [("GIT_CONFIG_KEY_0", "a.b".to_owned()), ("GIT_CONFIG_VALUE_0", "c".to_owned())];
        [("GIT_CONFIG_COUNT", "2".to_owned())].into_iter().chain(first).chain([key, value]).collect::<Vec<_>>()
    };
    for (variables, own) in [
        (vec![("GIT_CONFIG_GLOBAL", cfg.clone())], Some("cfg")),
        (vec![("GIT_CONFIG_GLOBAL", "cfg".into())], Some("cfg")),
        (vec![("GIT_CONFIG_SYSTEM", cfg.clone())], Some("cfg")),
        (counted("Core.HooksPath", "hk"), None),
        (counted("include.path", &more), Some("more")),
        (vec![("GIT_CONFIG_PARAMETERS", "'a.b'='c' 'core.hookspath'='hk'".into())], None),
        (vec![("GIT_CONFIG_PARAMETERS", "'a.b=c' 'core.hookspath=hk'".into())], None),
    ] {
        world.script("w/hk/pre-commit", HOOK);
        let set = variables.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect::<Vec<_>>().join(" ");
        assert!(ran(&world, &set), "{set}");
        let run = |script: &str| with(inside(&world, ["-w", "."], script), &variables).done();
        for at in ["hk/pre-commit"].into_iter().chain(own) {
            for change in ["echo x >AT", "rm -f AT", "mv AT gone"] {
                let change = change.replace("AT", at);
                let before = world.read(&format!("w/{at}"));
                assert_ne!(run(&change).code, Some(0), "{set}: {change}");
                assert_eq!(world.read(&format!("w/{at}")), before, "{set}: {change}");
            }
        }
        // Missing ones, and the control: without the variables nobody minds.
        outside(&world, "rm -r hk");
        run("mkdir hk; echo x >hk/pre-commit").code(0).stderr_has("was made during the run");
        assert!(!world.has("w/hk"));
        inside(&world, ["-w", "."], "mkdir hk; echo x >hk/pre-commit; touch cfg more").done().is(0, "", "");
    }
    std::fs::remove_file(world.path("w/cfg")).unwrap();
    let done = inside(&world, ["-w", "."], "echo x >cfg").env("GIT_CONFIG_GLOBAL", &cfg).done().code(0);
    done.stderr_has("was made during the run");
    // What git would refuse is passed over.
    for (name, value) in [
        ("GIT_CONFIG_COUNT", "x"),
        ("GIT_CONFIG_COUNT", "3"),
        ("GIT_CONFIG_PARAMETERS", "core.hookspath=tools"),
        ("GIT_CONFIG_PARAMETERS", "'include.path'='more'"),
        ("GIT_CONFIG_GLOBAL", ""),
    ] {
        inside(&world, ["-w", "."], "touch tools/x more").env(name, value).done().is(0, "", "");
    }
}

/// The user's own file can lead into a grant.
#[test]
fn settings_of_the_user_that_lie_in_a_grant() {
    let world = clone();
    world.write("w/dots/gitconfig", "[a]\n\tb = c\n");
    inside(&world, ["-w", "."], "echo >>dots/gitconfig").done().is(0, "", "");
    world.link("home/.gitconfig", world.path("w/dots/gitconfig"));
    kept(&world, "dots/gitconfig");
    inside(&world, ["-w", ".", "-w", "dots/gitconfig"], "echo >>dots/gitconfig").done().is(0, "", "");
}

/// No file is passed over for its size, and no number of them. Below a hidden name, so that no other run is refused.
#[test]
fn large_settings() {
    let world = World::new();
    world.dir("w/.in");
    outside(&world, "cd .in; git init -q -b main .");
    world.script("w/.in/hk/pre-commit", HOOK);
    let run = |options: &[&str], script: &str| {
        inside(&world, options.iter().copied(), script).cwd(world.path("w/.in")).done()
    };
    let kept = || {
        for change in ["echo x >hk/pre-commit", "rm -f hk/pre-commit", "mv hk gone", "echo x >hk/post-commit"] {
            assert_ne!(run(&["-w", "."], change).code, Some(0), "{change}");
        }
        assert!(ran(&world, "cd .in;"), "the control");
        run(&["-w", "."], "echo x >other").is(0, "", "");
    };
    let config = world.read("w/.in/.git/config");
    let filled = |size: usize| format!("{config}{}[core]\n\thooksPath = hk\n", "# 34567\n".repeat(size >> 3));
    let set = |text: String| world.write("w/.in/.git/config", text);
    set(filled(2 << 20));
    kept();
    set(filled(17 << 20));
    assert!(ran(&world, "cd .in;"));
    let file = world.text("w/.in/.git/config");
    run(&["-w", "."], "true").refused(125, &["cannot protect what git runs", &file, "larger than 16 MiB"]);
    // Who can write nothing is not bothered.
    run(&[], "true").is(0, "", "");
    let included = |count: usize| {
        let one = |number| format!("[include]\n\tpath = /nowhere/{number}\n");
        format!("{config}{}[include]\n\tpath = ../more\n", (0..count).map(one).collect::<Vec<_>>().concat())
    };
    set(included(1100));
    world.write("w/.in/more", "[core]\n\thooksPath = hk\n");
    assert!(ran(&world, "cd .in;"));
    run(&["-w", "."], "true").refused(125, &["cannot protect what git runs", "more than 1000 files"]);
    set(included(500));
    kept();
}

/// `~NAME` is the home of a user, which the user database knows.
#[test]
fn hooks_in_the_home_of_another_user() {
    if !is_root() {
        return eprintln!("only root can mount: not tried");
    }
    let world = clone();
    world.script("w/tools/hk/pre-commit", HOOK);
    outside(&world, "git config core.hooksPath '~someone/hk'");
    let home = world.text("w/tools");
    let outer = format!(
        "cp /etc/passwd passwd; echo 'someone:x:4711:4711::{home}:/bin/sh' >>passwd; mount --bind passwd /etc/passwd || exit 99
         export RAN={}; git -c user.name=n -c user.email=e commit -q --allow-empty -m x; ls $RAN
         {program} -b bwrap -w . -- sh -c 'echo x >tools/hk/pre-commit'; {program} -b bwrap -w . -- sh -c 'echo x >tools/x'",
        world.text("ran"),
        program = crate::harness::program().display(),
    );
    let done = world.call("unshare", ["-m", "--propagation", "private", "sh", "-c", &outer]).done();
    if done.code == Some(99) {
        return eprintln!("not tried: nothing can be mounted here");
    }
    done.code(0).stdout(&format!("{}\n", world.text("ran"))).stderr_has("Read-only file system");
    assert_eq!(world.read("w/tools/hk/pre-commit"), HOOK);
    assert!(world.has("w/tools/x"));
}

/// Files of the user's that are not there, in a home that can be written.
#[test]
fn settings_of_the_user_that_are_missing() {
    for (at, set) in [
        ("home/.gitconfig", ""),
        ("home/.config/git/config", ""),
        ("home/.config/git/attributes", ""),
        ("home/.config/git/ignore", ""),
        ("xdg/git/config", "xdg"),
    ] {
        // With and without another one of them.
        for other in [None, Some("home/.gitconfig"), Some("home/.config/git/config")] {
            if other == Some(at) {
                continue;
            }
            let world = clone();
            world.dir("home");
            world.dir("xdg");
            if let Some(other) = other {
                world.write(other, "[core]\n\tabbrev = 8\n");
            }
            let (home, xdg, path) = (world.text("home"), world.text("xdg"), world.text(at));
            let script = format!("mkdir -p $(dirname {path}) && echo '[core]hooksPath = /tmp/h' >{path}");
            let show = ["-w", ".", "-w", &home, "-w", &xdg, "--show-hidden", ".config", "--show-hidden", ".gitconfig"];
            let call = inside(&world, show, &script);
            let call = if set.is_empty() { call } else { call.env("XDG_CONFIG_HOME", &xdg) };
            let done = call.done().code(0);
            done.stderr_has("which git on the host would obey, was made during the run and is now '");
            assert!(!world.has(at), "{at} {other:?}");
            // The control: another file.
            let script = format!("echo x >{home}/other");
            inside(&world, ["-w", ".", "-w", &home], &script).done().is(0, "", "");
        }
    }
}

/// What new repositories begin with has hooks.
#[test]
fn templates_in_a_grant() {
    let world = clone();
    let ran = |world: &World, set: &str| {
        let script = format!(
            "rm -rf new; {set} git init -q new 2>/dev/null; ls new/.git/hooks/pre-commit 2>/dev/null || :; rm -r new"
        );
        !outside(world, &script).is_empty()
    };
    world.script("w/tools/t/hooks/pre-commit", HOOK);
    let templates = world.text("w/tools/t");
    let set = format!("GIT_TEMPLATE_DIR={templates}");
    assert!(ran(&world, &set), "the control");
    let change = "echo x >>tools/t/hooks/pre-commit";
    inside(&world, ["-w", "."], change).done().is(0, "", "");
    assert_ne!(inside(&world, ["-w", "."], change).env("GIT_TEMPLATE_DIR", &templates).done().code, Some(0));
    outside(&world, &format!("git config init.templateDir {templates}"));
    kept(&world, "tools/t/hooks/pre-commit");
    outside(&world, "rm -r tools/t");
    let done = inside(&world, ["-w", "."], "mkdir -p tools/t/hooks; echo x >tools/t/hooks/pre-commit").done().code(0);
    done.stderr_has("which git on the host would obey, was made during the run and is now '");
    assert!(!world.has("w/tools/t") && !ran(&world, &set));
}
