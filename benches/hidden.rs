//! Cost of the search for hidden names against `find` in the same tree, and of masks by the thousand against a bare launch.
//!
//! `cargo bench --bench hidden [-- ROUNDS]`; `SANDBOX_RUN_BIN` names another build of the program. Prints medians and their
//! ratios: absolute times are the machine's, ratios are ours.

#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

fn main() {
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(9);
    let program =
        std::env::var_os("SANDBOX_RUN_BIN").map_or_else(|| env!("CARGO_BIN_EXE_sandbox-run").into(), PathBuf::from);
    println!("program: {}", program.display());
    let top = tempfile::tempdir_in("/var/tmp").expect("temporary directory");
    let empty = top.path().join("empty");
    fs::create_dir(&empty).expect("directory");

    let tree = top.path().join("tree");
    for number in 0..3000 {
        let dir = tree.join(format!("{}/{}/{number}", number % 10, number % 300));
        fs::create_dir_all(&dir).expect("directory");
        for file in 0..100 {
            fs::write(dir.join(format!("file{file}.js")), "").expect("file");
        }
    }
    let mut find = Command::new("find");
    find.args([".", "-name", ".x"]);
    let mut scan = Command::new(&program);
    scan.args(["--hidden-scan-overflow", "unlimited", "--dry-run", "true"]);
    let bare = time(&empty, &mut scan, rounds);
    let (find, scan) = (time(&tree, &mut find, rounds), time(&tree, &mut scan, rounds) - bare);
    println!("search of 300,000 files: {scan:.1} ms, find {find:.1} ms, ratio {:.2}", scan / find);

    for count in [10, 100, 1000, 5000] {
        let dir = top.path().join(format!("names-{count}"));
        fs::create_dir(&dir).expect("directory");
        for number in 0..count {
            fs::write(dir.join(format!(".name{number}")), "").expect("file");
        }
        let mut launch = Command::new(&program);
        launch.arg("/bin/true");
        let bare = time(&empty, &mut launch, rounds);
        println!(
            "{count} hidden files: {:.1} ms more than the {bare:.1} of a launch",
            time(&dir, &mut launch, rounds) - bare
        );
    }
}

/// Median in milliseconds.
fn time(dir: &Path, command: &mut Command, rounds: usize) -> f64 {
    command.current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null());
    let mut once = || {
        let start = Instant::now();
        let status = command.status().expect("starts");
        let took = start.elapsed();
        assert!(status.success(), "{command:?} failed");
        took
    };
    once();
    let mut times: Vec<_> = (0..rounds).map(|_| once()).collect();
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e3
}
