//! What does not fit, ends early or is there many times: long command lines, pipes that break, many runs.

use std::io::Read;
use std::process::Stdio;

use crate::harness::{World, helper, said};

/// Windows takes 32767 characters for all words together; what sandbox-run can be told fits into what it tells.
#[test]
fn many_words_and_the_longest_one_arrive() {
    let world = World::new();
    let counted = |words: Vec<String>| {
        let done = world.quiet([helper("count"), words].concat()).done();
        assert_eq!(done.code, 0, "{}", done.stderr);
        said(&done.stdout)
    };
    // Each with a space before it, and some for the words before them and those of sandbox-run.
    assert_eq!(counted(vec!["x".into(); 16_000]), ["16000 16000"]);
    assert_eq!(counted(vec!["x".repeat(32_000)]), ["1 32000"]);
}

#[test]
fn a_broken_stdout_is_for_the_command_to_report() {
    let world = World::new();
    for (call, sandboxed) in [(world.outside(helper("flood")), false), (world.quiet(helper("flood")), true)] {
        let mut child =
            call.command().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 1000];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        // Nobody reads on.
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!((child.wait().unwrap().code(), &*said), (Some(9), ""), "{sandboxed}");
    }
}

#[test]
fn pipes_end_as_without() {
    let world = World::new();
    let text = "line\n".repeat(200_000);
    let done = world.quiet(helper("drain")).stdin(&text).done();
    assert_eq!((done.code, said(&done.stdout)), (0, vec![text.len().to_string()]), "{}", done.stderr);
    // Whoever reads sees the end when the command ends, and what it leaves behind holds nothing open.
    let mut words = helper("leave");
    words.push(world.text(""));
    let start = std::time::Instant::now();
    assert_eq!(world.quiet(&words).done().code, 0);
    assert!(start.elapsed() < crate::harness::PATIENCE && !world.has("late"));
    // In the sandbox reads what out of it comes.
    let mut from = world.quiet(helper("names")).command();
    let mut from = from.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut to = world.quiet(helper("drain")).command();
    let to = to.stdin(from.stdout.take().unwrap()).stderr(Stdio::null()).output().unwrap();
    assert!(from.wait().unwrap().success() && to.status.success());
    let count = said(&String::from_utf8_lossy(&to.stdout).replace("\r\n", "\n"));
    assert!(count.len() == 1 && count[0].parse::<u64>().unwrap() > 100, "{count:?}");
}

#[test]
fn many_runs_at_once_do_not_meet() {
    let world = World::new();
    let runs: Vec<_> = (0..12_u32)
        .map(|number| {
            let mut words = helper("exit");
            words.push((number + 20).to_string());
            (number + 20, world.quiet(&words).start())
        })
        .collect();
    for (number, run) in runs {
        assert_eq!(run.done().code, number);
    }
}
