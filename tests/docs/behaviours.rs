//! `docs/behaviours.md` has a cell for each behaviour under each backend, with tests that exist and run there, or a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, bail, ensure};
use sandbox_run::backend::Backend;
use sandbox_run::policy::Protection;
use sandbox_run::policy::protection::Strength;

use super::escapes::{exists, quoted};
use super::{bless, file};

const DOCUMENT: &str = "docs/behaviours.md";

/// Where the numbers stand.
const PAGE: &str = "docs/backends.md";

/// What `tests/run --vm` runs with our own namespaces in place of bubblewrap: tests of their column that do not take them anyway.
const INSTEAD: &str = "tests/instead.txt";

/// Columns after the first, and what a test that runs the backend has in it or in what it uses of its file.
const COLUMNS: [(&str, &[&str]); 7] = [
    ("bwrap", &[]),
    (
        "namespace",
        &["tests/namespace.rs", "\"namespace\"", "-b namespace", "Backend::Namespace", "backends()", "BACKENDS"],
    ),
    ("landlock", &["landlock", "backends()", "BACKENDS"]),
    ("container", &["podman", "Place", "docker"]),
    ("none", &["\"none\"", "-b none", "backends()", "BACKENDS"]),
    ("seatbelt", &["seatbelt", "Seatbelt"]),
    ("jobobject", &[]),
];

/// A cell that names no test.
const REASONS: &[&str] = &[
    "before",
    "not isolated",
    "no Mac",
    "not on Windows",
    "the image's own",
    "not tried",
    // Why the question does not arise.
    "none there",
    "no descriptors there",
    "no filter there",
    "no modes there",
    "no signals there",
    "no strace there",
    "no terminal there",
    "no tracing there",
    "no way out there",
    "no engine inside",
    "no program",
    "no text",
    "none can be made before ABI 9",
    "nothing is off",
    "nothing is refused",
    "refused: it would hide the image",
    "the engine's affair",
    "the filter is its own",
    "the host's disk is the bound",
    "the proxy is the same",
];

#[derive(Debug, PartialEq)]
enum Cell {
    Tests(Vec<String>),
    Reason(String),
}

struct Row {
    what: String,
    cells: Vec<Cell>,
}

/// All groups with their rows.
fn groups() -> Result<Vec<(String, Vec<Row>)>> {
    let text = fs::read_to_string(file(DOCUMENT))?;
    let mut groups: Vec<(String, Vec<Row>)> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            groups.push((name.to_owned(), Vec::new()));
        }
        let Some((_, rows)) = groups.last_mut().filter(|_| line.starts_with("| ")) else { continue };
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if cells[0] == "what holds" {
            ensure!(cells[1..] == COLUMNS.map(|(name, _)| name), "{line}");
            continue;
        }
        ensure!(cells.len() == 1 + COLUMNS.len() && !cells.contains(&""), "a cell for each backend: {line}");
        rows.push(row(&cells)?);
    }
    Ok(groups)
}

fn row(cells: &[&str]) -> Result<Row> {
    let [what, first, ..] = cells else { bail!("no cells") };
    let cells = cells[1..].iter().map(|cell| {
        let names: Vec<_> = quoted(if *cell == "same" { first } else { cell }).map(str::to_owned).collect();
        if names.is_empty() { Cell::Reason((*cell).to_owned()) } else { Cell::Tests(names) }
    });
    Ok(Row { what: (*what).to_owned(), cells: cells.collect() })
}

/// What of a file belongs to the function: itself, and what it uses of its file.
fn belongs(text: &str, function: &str) -> String {
    let mut items: BTreeMap<&str, String> = BTreeMap::new();
    let mut name = "";
    for line in text.lines() {
        let words: Vec<_> = line.split(['(', ':', '<', ' ', '!']).filter(|word| *word != "pub").collect();
        if let ["fn" | "const" | "static", next, ..] = words[..] {
            name = next;
        }
        items.entry(name).or_default().extend([line, "\n"]);
    }
    let mut todo = vec![function];
    let mut seen = BTreeSet::new();
    let mut all = String::new();
    while let Some(next) = todo.pop() {
        let Some(text) = items.get(next).filter(|_| seen.insert(next)) else { continue };
        let used: BTreeSet<_> = text.split(|char: char| !char.is_alphanumeric() && char != '_').collect();
        todo.extend(items.keys().copied().filter(|name| used.contains(name)));
        all.push_str(text);
    }
    all
}

#[test]
fn every_cell_names_tests_that_run_there_or_a_reason() -> Result<()> {
    let groups = groups()?;
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for Row { what, cells } in groups.iter().flat_map(|(_, rows)| rows) {
        ensure!(seen.insert(what), "twice: {what}");
        for ((backend, marks), cell) in COLUMNS.iter().zip(cells) {
            let checked = match cell {
                Cell::Reason(reason) => has_sense(backend, reason),
                Cell::Tests(names) => names.iter().try_for_each(|name| runs(name, backend, marks)),
            };
            wrong.extend(checked.err().map(|error| format!("{what}, {backend}: {error:#}")));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    ensure!(seen.len() > 90, "{} rows", seen.len());
    Ok(())
}

/// Whether there is a test of this name, and it has to do with the backend.
fn runs(name: &str, backend: &str, marks: &[&str]) -> Result<()> {
    let (path, text, function) = exists(name)?;
    ensure!((backend == "jobobject") == path.starts_with("tests/windows/"), "{name} runs on another system");
    // The name of a file says it of all that is in it.
    let text = format!("{path}\n{}", belongs(&text, function));
    if backend == "namespace" && !marks.iter().any(|mark| text.contains(mark)) {
        ensure!(!text.contains("about_bwrap("), "{name} is about bubblewrap itself");
        return Ok(());
    }
    ensure!(marks.is_empty() || marks.iter().any(|mark| text.contains(mark)), "{name} does not run under {backend}");
    Ok(())
}

#[test]
fn what_runs_in_place_of_bubblewrap_is_on_the_list() -> Result<()> {
    let column = COLUMNS.iter().position(|(name, _)| *name == "namespace").context("no column")?;
    let mut names = BTreeSet::new();
    for Row { cells, .. } in groups()?.iter().flat_map(|(_, rows)| rows) {
        let Cell::Tests(tests) = &cells[column] else { continue };
        for name in tests {
            let (path, text, function) = exists(name)?;
            let text = format!("{path}\n{}", belongs(&text, function));
            if !COLUMNS[column].1.iter().any(|mark| text.contains(mark)) {
                names.insert(name.clone());
            }
        }
    }
    let expected = names.iter().fold(String::new(), |all, name| all + name + "\n");
    if bless() {
        fs::write(file(INSTEAD), &expected)?;
    }
    ensure!(fs::read_to_string(file(INSTEAD))? == expected, "{INSTEAD}: BLESS=1 writes it anew");
    ensure!(names.len() > 50, "{} tests", names.len());
    Ok(())
}

fn has_sense(backend: &str, reason: &str) -> Result<()> {
    ensure!(backend != "bwrap", "what holds is tried under bwrap first");
    if let Some(word) = reason.strip_prefix("gap: ") {
        let protection = Protection::ALL.into_iter().find(|known| known.word() == word).context("no protection")?;
        let known = Backend::ALL.into_iter().find(|known| known.word() == backend).context("no backend")?;
        ensure!(known.strength(protection) != Strength::Enforced, "{word} is no gap");
        return Ok(());
    }
    ensure!(REASONS.contains(&reason), "no reason: {reason}");
    ensure!((reason == "no Mac") <= (backend == "seatbelt"), "not of this backend: {reason}");
    ensure!((reason == "not on Windows") <= (backend == "jobobject"), "not of this backend: {reason}");
    ensure!((reason == "the image's own") <= (backend == "container"), "not of this backend: {reason}");
    Ok(())
}

/// How many behaviours of each group are tried under each backend, of those that it should show.
fn numbers() -> Result<String> {
    let names: Vec<_> = COLUMNS.iter().map(|(name, _)| *name).collect();
    let mut text = format!("| tried | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for (group, rows) in groups()? {
        write!(text, "| {} |", group.to_lowercase())?;
        for column in 0..names.len() {
            let cells = rows.iter().map(|row| &row.cells[column]);
            let tried = cells.clone().filter(|cell| matches!(cell, Cell::Tests(_))).count();
            let missing = |cell: &&Cell| matches!(cell, Cell::Reason(reason) if ["not tried", "no Mac"].contains(&reason.as_str()));
            let applies = tried + cells.filter(missing).count();
            write!(text, " {} |", if applies == 0 { "–".to_owned() } else { format!("{tried} of {applies}") })?;
        }
        text.push('\n');
    }
    Ok(text)
}

#[test]
fn the_page_of_backends_has_the_numbers() -> Result<()> {
    let path = file(PAGE);
    let page = fs::read_to_string(&path)?;
    let (head, rest) = page.split_once("<!-- tried -->\n").context("no numbers")?;
    let (found, tail) = rest.split_once("<!-- /tried -->\n").context("no end")?;
    let expected = numbers()?;
    if bless() {
        fs::write(&path, format!("{head}<!-- tried -->\n{expected}<!-- /tried -->\n{tail}"))?;
    } else {
        ensure!(found == expected, "{PAGE}: BLESS=1 writes it anew");
    }
    ensure!(page.contains("(behaviours.md)"), "{PAGE} does not link to {DOCUMENT}");
    Ok(())
}

/// The check itself: a helper, a constant and a loop count, what others in the file do does not.
#[test]
fn what_a_test_uses_of_its_file_is_its_own() {
    let text = "const LIST: [&str; 1] = [\"landlock\"];\nfn helper() { use_of(LIST); }\n#[test]\nfn one() {\n    helper();\n}\n\
        #[test]\nfn two() {\n    other();\n}\n";
    assert!(belongs(text, "one").contains("landlock"));
    assert!(!belongs(text, "two").contains("landlock"));
}
