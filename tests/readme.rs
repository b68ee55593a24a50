//! The examples of the README and of docs/, run as written.

use std::fs;
use std::path::PathBuf;

use crate::harness::{PATHS, World, program};

/// A file of the project; where the tests run elsewhere, the copy beside them.
pub fn project(name: &str) -> PathBuf {
    let top = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    top.join(name)
}

/// Runs each `console` block: lines after `$ ` in one shell, the rest is what they print.
fn run_examples(name: &str) {
    let text = fs::read_to_string(project(name)).expect("readable");
    let mut blocks = 0;
    for block in text.split("```console\n").skip(1) {
        let block = block.split("```").next().expect("closed");
        let (commands, expected): (Vec<&str>, Vec<&str>) = block.lines().partition(|line| line.starts_with("$ "));
        let script: String = commands.iter().flat_map(|line| [&line[2..], "\n"]).collect();
        let world = World::new();
        let bin = world.dir("bin");
        crate::harness::alone(|| fs::copy(program(), bin.join("sandbox-run"))).expect("copy");
        let done = world
            .call("sh", ["-c", &format!("exec 2>&1\n{script}")])
            .env("PATH", format!("{}:{PATHS}", bin.display()))
            .done();
        let expected: String = expected.iter().flat_map(|line| [line, "\n"]).collect();
        assert_eq!(done.out(), expected, "in {name}:\n{block}");
        blocks += 1;
    }
    assert!(blocks > 0, "no example in {name}");
}

#[test]
fn the_examples_of_the_readme_do_what_they_show() {
    run_examples("README.md");
}

#[test]
fn the_examples_of_the_integrations_do_what_they_show() {
    run_examples("docs/integrations.md");
}

#[test]
fn the_examples_of_the_profiles_do_what_they_show() {
    run_examples("docs/profiles.md");
}

#[test]
fn the_examples_of_the_network_do_what_they_show() {
    run_examples("docs/network.md");
}

#[test]
fn the_examples_of_the_policies_do_what_they_show() {
    run_examples("docs/policy.md");
}
