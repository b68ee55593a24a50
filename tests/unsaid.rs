//! What would otherwise go by without a word: patterns that nobody expands, and settings of tools that are hidden.

use crate::harness::World;

const REASON: &str =
    "does not exist: nothing in a path is a pattern: '*', '?' and '[' stand for themselves, so name each path";

#[test]
fn a_pattern_that_nobody_expands_is_warned_of() {
    let world = World::new();
    world.write("w/a.key", "x");
    world.write("w/p.toml", "mask_paths = ['*.key']\n");
    for words in [
        &["--mask", "*.key"][..],
        &["--mask", "?.key"],
        &["--protect", "[a-z].key", "-w", "."],
        &["--read-try", "~/*.key"],
        &["--write-try", "sub*/x"],
        &["--deny-socket", "/run/*.sock"],
        &["--policy", "p.toml"],
    ] {
        let done = world.run([words, &["cat", "a.key"]].concat()).done().code(0).stdout("x");
        let told: Vec<_> = done.stderr.lines().filter(|line| line.starts_with("sandbox-run: warning: ")).collect();
        assert!(told.len() == 1 && told[0].ends_with(REASON), "{words:?}: {}", done.stderr);
        world.run([words, &["--dry-run", "true"]].concat()).done().code(0).stdout_has(REASON);
    }
    // What is needed fails, with the same words as a remedy.
    world
        .run(["-r", "*.key", "true"])
        .done()
        .refused(125, &["*.key", "no such file"])
        .stderr_has("hint: nothing in a path");
    // Such names are allowed, and then there is nothing to say; nor of a path that is only missing.
    world.write("w/*.key", "star");
    world.run(["--mask", "*.key", "cat", "*.key", "a.key"]).done().is(0, "x", "");
    world.run(["--mask", "missing", "true"]).done().is(0, "", "");
    let done = world.run(["-r", "missing", "true"]).done().refused(125, &["missing"]);
    assert!(!done.stderr.contains("pattern"), "{}", done.stderr);
}

/// npm without its `.npmrc` runs scripts that its owner had switched off.
#[test]
fn settings_that_are_hidden_from_their_tool_are_told_of() {
    let world = World::new();
    world.write("w/.npmrc", "ignore-scripts=true\n");
    world.write("w/sub/file", "x");
    let path =
        std::env::join_paths([world.path("tools")].into_iter().chain(std::env::split_paths(crate::harness::PATHS)))
            .unwrap();
    for tool in ["npm", "yarn", "make-like"] {
        world.script(&format!("tools/{tool}"), "#!/bin/sh\ncat .npmrc 2>/dev/null || :\n");
    }
    let run = |words: &[&str], at: &str| world.run(words).env("PATH", &path).cwd(world.path(at)).done().code(0);
    let line = |tool: &str| {
        format!(
            "sandbox-run: warning: '{}' is hidden, so '{tool}' runs without its settings (what they switch off is on): \
             --show-hidden .npmrc shows it\n",
            world.text("w/.npmrc")
        )
    };
    for tool in ["npm", "yarn"] {
        run(&[tool], "w").is(0, "", &line(tool));
    }
    run(&["-r", "..", "npm"], "w/sub").is(0, "", &line("npm"));
    run(&["--dry-run", "npm"], "w").stdout_has("so 'npm' runs without its settings");
    // The option that it names shows it, and then there is nothing to say.
    run(&["--show-hidden", ".npmrc", "npm"], "w").is(0, "ignore-scripts=true\n", "");
    run(&["-r", ".npmrc", "npm"], "w").is(0, "ignore-scripts=true\n", "");
    // Others may start it: told to those who ask for more.
    run(&["make-like"], "w").is(0, "", "");
    let note = format!(
        "note: '{}' is hidden, so npm started by the command runs without its settings: ",
        world.text("w/.npmrc")
    );
    run(&["-v", "make-like"], "w").stderr_has(&note);
    // One of a package that the tool would not read from here is no matter of this run.
    std::fs::rename(world.path("w/.npmrc"), world.path("w/sub/.npmrc")).unwrap();
    run(&["npm"], "w").is(0, "", "");
    run(&["-v", "npm"], "w").stderr_has("started by the command runs without its settings");
    // Nothing is hidden without a view.
    run(&["-q", "-b", "none", "npm"], "w/sub").is(0, "ignore-scripts=true\n", "");
}
