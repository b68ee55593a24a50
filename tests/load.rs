//! Many runs at once, some killed from outside: each tells the truth about itself, and nothing is left of any.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::harness::{Running, World, eventually, processes_with};

const RUNS: u32 = 200;

/// What one of the runs is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    EndsByItself,
    EndsInTime,
    IsKilled,
}

/// Control groups of this program that are there now.
fn groups() -> BTreeSet<std::path::PathBuf> {
    let mut found = BTreeSet::new();
    let mut todo = vec![std::path::PathBuf::from("/sys/fs/cgroup")];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with("sandbox-run-") {
                    found.insert(entry.path());
                }
                todo.push(entry.path());
            }
        }
    }
    found
}

#[test]
fn two_hundred_at_once() {
    let world = World::new();
    let marker = format!("{}.25", 4_000_000 + u64::from(std::process::id()));
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts").lines().count();
    let before: BTreeSet<_> = world.snapshot().into_keys().collect();
    let start = |number: u32| {
        let (part, script) = match number % 3 {
            0 => (Part::EndsByItself, format!("exit {}", number % 100)),
            1 => (Part::EndsInTime, format!("trap '' TERM; sleep {marker} & sleep {marker}")),
            _ => (Part::IsKilled, format!("sleep {marker} & setsid sleep {marker}")),
        };
        let result = world.text(&format!("o/result{number}"));
        let options =
            ["--timeout", "4", "--kill-after", "0.2", "--cpu-time", "50", "--max-output", "1M", "--result", &result];
        let options = if part == Part::EndsInTime { &options[..] } else { &options[2..] };
        (number, part, world.sh(options, &script).spawn())
    };
    let runs: Vec<(u32, Part, Running)> = (0..RUNS).map(start).collect();
    // Moments that differ from run to run, and from one test run to the next.
    let mut moment = u64::from(std::process::id());
    for (_, _, run) in runs.iter().filter(|(_, part, _)| *part == Part::IsKilled) {
        moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros((moment >> 33) % 9_000));
        run.signal(Signal::SIGKILL);
    }
    for (number, part, run) in runs {
        let done = run.done();
        let result = fs::read_to_string(world.path(&format!("o/result{number}")));
        match part {
            Part::EndsByItself => {
                done.code((number % 100).cast_signed());
                let result = result.expect("a result");
                assert!(result.contains(&format!("\"status\":\"exited\",\"exit_code\":{}", number % 100)), "{result}");
            }
            Part::EndsInTime => {
                done.code(124);
                let result = result.expect("a result");
                assert!(result.contains("\"status\":\"timeout\"") && result.contains("\"signal\":9"), "{result}");
            }
            Part::IsKilled => {
                assert_eq!(done.signal, Some(9));
                assert!(result.is_err(), "whoever is killed says nothing: {result:?}");
            }
        }
    }
    assert!(eventually(|| processes_with(&marker).is_empty()), "left: {:?}", processes_with(&marker));
    let ours = || processes_with(&world.text("o/result"));
    assert!(eventually(|| ours().is_empty()), "left: {:?}", ours());
    // Other tests have groups at the same time, but none for long.
    let seen = groups();
    assert!(eventually(|| groups().is_disjoint(&seen)), "left: {:?}", groups());
    assert_eq!(fs::read_to_string("/proc/self/mountinfo").expect("mounts").lines().count(), mounts);
    let after: BTreeSet<_> = world.snapshot().into_keys().collect();
    let new: Vec<_> = after.difference(&before).collect();
    assert!(new.iter().all(|path| path.to_string_lossy().contains("/o/result")), "{new:?}");
}
