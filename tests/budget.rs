//! Keeps the number of dependencies and the size of the program below a budget.
//!
//! Both grow unnoticed otherwise. Raise a number here only on purpose, and say why in the change.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Crates of a normal build for Linux, ours and procedural macros included. Fifteen of them are for TLS in the proxy.
const CRATES_MAX: usize = 76;

/// Bytes of a release build, stripped. More backends than one, repositories that are mended and refusals that are named take half a
/// megabyte, the filtering proxy another quarter, TLS in it a megabyte and a half: ring, rustls, rcgen. The
/// way out under Landlock and comparing what git would obey afterwards took another tenth, an upstream proxy, looking at images first
/// and checked arithmetic another.
const PROGRAM_BYTES_MAX: u64 = 6_300_000;

#[test]
#[allow(clippy::disallowed_methods, reason = "cargo is no launched program")]
fn the_number_of_crates_stays_in_budget() -> Result<()> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = env::var_os("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
    let output = Command::new(cargo)
        .args(["tree", "--locked", "--offline", "--prefix", "none", "--format", "{p}"])
        .args(["--edges", "normal", "--target", "x86_64-unknown-linux-gnu"])
        .current_dir(root)
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            let must_run = env::var_os("SANDBOX_RUN_MUST_RUN").unwrap_or_default();
            let must_run = must_run.to_string_lossy();
            let required = must_run.split(',').any(|word| word == "cargo" || word == "all");
            ensure!(!required, "cannot run cargo: {error}");
            eprintln!("skipped: cannot run cargo: {error}");
            return Ok(());
        }
    };
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo tree: {}\n{stderr}", output.status);
    // A crate that was listed before ends with `(*)`.
    let tree = String::from_utf8(output.stdout)?;
    let crates: BTreeSet<&str> = tree.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    ensure!(crates.len() <= CRATES_MAX, "{} crates, the budget is {CRATES_MAX}: {crates:#?}", crates.len());
    Ok(())
}

#[test]
fn the_size_of_the_release_build_stays_in_budget() -> Result<()> {
    let built = Path::new(env!("CARGO_BIN_EXE_sandbox-run"));
    let target = built.parent().and_then(Path::parent).context("no target directory")?;
    let musl = format!("{}-unknown-linux-musl/release/sandbox-run", env::consts::ARCH);
    for program in ["release/sandbox-run", musl.as_str()] {
        let path = target.join(program);
        let bytes = match fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                eprintln!("skipped: '{}' is not built", path.display());
                continue;
            }
            Err(error) => return Err(error).context(path.display().to_string()),
        };
        ensure!(
            bytes <= PROGRAM_BYTES_MAX,
            "'{}' has {bytes} bytes, the budget is {PROGRAM_BYTES_MAX}",
            path.display()
        );
    }
    Ok(())
}
