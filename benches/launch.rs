//! Cost of a launch against a hand-written `bwrap` line that builds the same view, interleaved in one run.
//!
//! `cargo bench --bench launch [-- ROUNDS]`; `SANDBOX_RUN_BIN` names another build of the program. Prints medians and their
//! ratios: absolute times are the machine's, ratios are ours.

#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::expect_used, clippy::cast_precision_loss)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn main() {
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(200);
    let program =
        std::env::var_os("SANDBOX_RUN_BIN").map_or_else(|| env!("CARGO_BIN_EXE_sandbox-run").into(), PathBuf::from);
    if std::env::args().any(|word| word == MOUNTED) {
        return compare(&program, &[], rounds, &format!("{MOUNTS} mounts on the host"));
    }
    println!("program: {}", program.display());
    let top = tempfile::tempdir_in("/var/tmp").expect("temporary directory");
    // What a search for hidden names costs is another bench.
    let here = top.path().join("here");
    std::fs::create_dir(&here).expect("directory");
    std::env::set_current_dir(&here).expect("directory");
    // With a few rounds nobody wants to know more than that it runs.
    let most = if rounds < 10 { 100 } else { 1000 };
    for grants in [0, 10, 100, 1000].into_iter().filter(|grants| *grants <= most) {
        let options = grant_options(top.path(), grants);
        let rounds = if grants > 50 { rounds / 10 } else { rounds };
        compare(&program, &options, rounds.max(1), &format!("{grants} extra grants"));
    }
    many_at_once(&program, rounds.min(100), rounds.min(5));
    many_mounts(top.path(), (rounds / 10).max(1));
    for backend in ["bwrap", "namespace"] {
        memory(&program, backend);
    }
}

/// What is compared with the line.
const BACKENDS: [&str; 4] = ["bwrap", "namespace", "landlock", "none"];

fn grant_options(top: &Path, count: usize) -> Vec<String> {
    (0..count)
        .flat_map(|number| {
            let dir = top.join(format!("grants-{count}/{number}"));
            std::fs::create_dir_all(&dir).expect("directory");
            ["--read".to_owned(), dir.display().to_string()]
        })
        .collect()
}

/// Our call, and the line a careful person would write for the same view.
fn lines(program: &Path, options: &[String]) -> ([Command; BACKENDS.len()], Command) {
    let mut ours = BACKENDS.map(|backend| {
        let mut ours = Command::new(program);
        ours.args(["-q", "-b", backend]).args(options);
        // It keeps nothing, and says so where something is typed.
        if backend == "none" {
            ours.args(["--allow-gap", "files-read,files-write"]);
        }
        ours.args(["--", "/bin/true"]);
        ours
    });
    let plan = Command::new(program)
        .args(["--dry-run=json", "-b", "bwrap"])
        .args(options)
        .args(["--", "/bin/true"])
        .output()
        .expect("dry run");
    let plan: serde_json::Value = serde_json::from_slice(&plan.stdout).expect("plan");
    let words = plan["launcher"]["options"].as_array().expect("options");
    let mut theirs = Command::new(plan["launcher"]["program"].as_str().expect("bwrap"));
    let mut words = words.iter().filter_map(|word| word.as_str()).peekable();
    while let Some(word) = words.next() {
        match word {
            // Our own inner stage is process 1; a hand-written line uses bubblewrap's.
            "--as-pid-1" => {}
            // A person mounts what we hand over as a descriptor.
            "--file" => {
                let file = words.next().expect("file").trim_matches(['{', '}']);
                theirs.args(["--ro-bind", file, words.next().expect("place")]);
            }
            // Nothing can be read there; a person takes what is at hand.
            "--ro-bind-data" => {
                words.next();
                theirs.args(["--ro-bind", "/dev/null", words.next().expect("place")]);
            }
            "--perms" if words.peek() == Some(&"0444") => drop(words.next()),
            word => drop(theirs.arg(word)),
        }
    }
    theirs.args(["--new-session", "--", "/bin/true"]);
    for command in ours.iter_mut().chain([&mut theirs]) {
        command.stdin(Stdio::null()).stdout(Stdio::null());
    }
    (ours, theirs)
}

fn time(command: &mut Command) -> Duration {
    let start = Instant::now();
    let status = command.status().expect("starts");
    let took = start.elapsed();
    assert!(status.success(), "{command:?} failed");
    took
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e3
}

fn compare(program: &Path, options: &[String], rounds: usize, name: &str) {
    let (mut ours, mut theirs) = lines(program, options);
    let (mut mine, mut other) = (BACKENDS.map(|_| Vec::new()), Vec::new());
    for _ in 0..rounds {
        for (command, times) in ours.iter_mut().zip(&mut mine) {
            times.push(time(command));
        }
        other.push(time(&mut theirs));
    }
    tell(name, &mut mine, &mut other);
}

/// All started before the first is awaited; time per launch.
fn tell(name: &str, mine: &mut [Vec<Duration>; BACKENDS.len()], other: &mut [Duration]) {
    let other = median(other);
    println!("{name}: bwrap by hand {other:.2} ms");
    for (backend, times) in BACKENDS.iter().zip(mine) {
        let mine = median(times);
        println!("  -b {backend}: {mine:.2} ms, ratio {:.2}", mine / other);
    }
}

fn many_at_once(program: &Path, count: usize, rounds: usize) {
    let (mut ours, mut theirs) = lines(program, &[]);
    let burst = |command: &mut Command| {
        let start = Instant::now();
        let children: Vec<_> = (0..count).map(|_| command.spawn().expect("starts")).collect();
        for mut child in children {
            assert!(child.wait().expect("wait").success(), "one of {count} at once failed");
        }
        start.elapsed() / u32::try_from(count).expect("count")
    };
    let (mut mine, mut other) = (BACKENDS.map(|_| Vec::new()), Vec::new());
    for _ in 0..rounds {
        for (command, times) in ours.iter_mut().zip(&mut mine) {
            times.push(burst(command));
        }
        other.push(burst(&mut theirs));
    }
    tell(&format!("{count} at once, per launch"), &mut mine, &mut other);
}

/// Says that this program was started where many file systems are mounted.
const MOUNTED: &str = "--mounted";
const MOUNTS: usize = 1000;

/// This program once more, in a mount namespace of its own with many mounts; they end with it.
fn many_mounts(top: &Path, rounds: usize) {
    let place = top.join("mounts");
    for number in 0..MOUNTS {
        std::fs::create_dir_all(place.join(number.to_string())).expect("directory");
    }
    let root = nix::unistd::geteuid().is_root();
    let script = "cd \"$0\" && for each in *; do echo \"none $0/$each tmpfs size=4k\"; done >../table && mount -a -T ../table && \
                  cd ../here && exec \"$@\"";
    let status = Command::new("unshare")
        .args(if root { &["-m"][..] } else { &["-m", "-U", "-r"] })
        .args(["--propagation", "private", "sh", "-c", script])
        .arg(&place)
        .arg(std::env::current_exe().expect("own path"))
        .args([&rounds.to_string(), MOUNTED])
        .status()
        .expect("unshare starts");
    assert!(status.success(), "{MOUNTS} mounts");
}

/// Proportional memory of all processes of one run but the target.
fn memory(program: &Path, backend: &str) {
    let mut ours = Command::new(program);
    let mut child = ours.args(["-b", backend, "--", "sleep", "5"]).stdin(Stdio::null()).spawn().expect("starts");
    std::thread::sleep(Duration::from_millis(500));
    let mut kib = 0;
    let mut todo = vec![child.id().to_string()];
    while let Some(pid) = todo.pop() {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        // The target is the only one without children.
        if !children.trim().is_empty() {
            let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
            let pss = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap_or_default();
            kib += pss.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default();
        }
        todo.extend(children.split_whitespace().map(str::to_owned));
    }
    child.wait().expect("wait");
    println!("memory of our processes under {backend}: {kib} KiB proportional");
}
