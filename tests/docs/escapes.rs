//! `docs/escapes.md` names tests that exist, and all of those that were written for it.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};

use super::file;

pub const DOCUMENT: &str = "docs/escapes.md";

/// The cells of each row of each table but its head.
fn rows() -> Result<Vec<Vec<String>>> {
    let text = fs::read_to_string(file(DOCUMENT))?;
    let lines =
        text.lines().filter(|line| line.starts_with('|') && !line.starts_with("|---") && !line.starts_with("| case |"));
    Ok(lines.map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect())
}

/// What stands between backticks.
pub fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Names of the test functions in a file.
fn tests(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut marked = false;
    for line in text.lines().map(str::trim_start) {
        if let Some(rest) = line.strip_prefix("fn ").filter(|_| marked) {
            found.extend(rest.split('(').next().map(str::to_owned));
        }
        // Between the mark and the function stand other attributes at most.
        marked = line == "#[test]" || (marked && line.starts_with("#["));
    }
    found
}

/// The file of the test of this name, its text and the name of the function; an error where there is none.
pub fn exists(name: &str) -> Result<(String, String, &str)> {
    let (module, function) = name.rsplit_once("::").context("no module")?;
    let path = format!("tests/{}.rs", module.replace("::", "/"));
    let text = fs::read_to_string(file(&path)).with_context(|| format!("{path}, of {name}"))?;
    // Properties are written without the mark.
    let known = tests(&text).contains(function) || text.contains(&format!("    fn {function}(\n"));
    ensure!(known, "{name} is no test of {path}");
    Ok((path, text, function))
}

#[test]
fn every_case_names_tests_that_exist() -> Result<()> {
    let rows = rows()?;
    ensure!(rows.len() > 80, "{} rows", rows.len());
    for row in &rows {
        let [case, was, closes, tried] = &row[..] else { anyhow::bail!("not four cells: {row:?}") };
        ensure!(!case.is_empty() && was.len() >= 8 && closes.len() >= 6, "an empty cell: {row:?}");
        ensure!(quoted(tried).next().is_some(), "no test: {case}");
        for name in quoted(tried) {
            exists(name).with_context(|| case.clone())?;
        }
    }
    Ok(())
}

#[test]
fn every_test_of_an_escape_stands_in_the_document() -> Result<()> {
    let named: BTreeSet<String> =
        rows()?.iter().flat_map(|row| quoted(&row[3]).map(str::to_owned).collect::<Vec<_>>()).collect();
    for entry in fs::read_dir(file("tests/escapes"))? {
        let path = entry?.path();
        let module = path.file_stem().context("no name")?.to_string_lossy().into_owned();
        for function in tests(&fs::read_to_string(&path)?) {
            let name = format!("escapes::{module}::{function}");
            ensure!(named.contains(&name), "{name} is in no table of {DOCUMENT}");
        }
    }
    Ok(())
}

#[test]
fn enough_published_cases_stand_there_once_each() -> Result<()> {
    let mut numbers = BTreeSet::new();
    let mut cases = BTreeSet::new();
    let mut reports = 0;
    for row in rows()? {
        let case = &row[0];
        ensure!(cases.insert(case.clone()), "twice: {case}");
        reports += usize::from(!case.starts_with("Class: "));
        for word in case.split([' ', ',', ';']).filter(|word| word.starts_with("CVE-")) {
            let digits: Vec<_> = word.split('-').skip(1).collect();
            let right = matches!(digits[..], [year, number] if year.len() == 4 && number.len() >= 4);
            ensure!(right && digits.concat().bytes().all(|byte| byte.is_ascii_digit()), "no number of a CVE: {word}");
            ensure!(numbers.insert(word.to_owned()), "twice: {word}");
        }
    }
    ensure!(numbers.len() >= 25 && reports >= 60, "{} CVEs, {reports} published cases", numbers.len());
    Ok(())
}

#[test]
fn it_can_be_found() -> Result<()> {
    for path in ["README.md", "SECURITY.md"] {
        ensure!(fs::read_to_string(file(path))?.contains("(docs/escapes.md)"), "{path} does not link to {DOCUMENT}");
    }
    Ok(())
}
