//! The page about backends has the tables of the code, and a section for each backend.

use anyhow::{Context, Result, ensure};
use sandbox_run::backend::Backend;
use sandbox_run::policy::Protection;
use sandbox_run::policy::protection::Strength;

use super::{bless, file};

const PAGE: &str = "docs/backends.md";

/// What each backend enforces, and where that ends.
fn tables() -> String {
    let mut text = super::backend_table();
    for backend in Backend::ALL {
        let ends: Vec<_> = Protection::ALL
            .into_iter()
            .filter_map(|protection| match backend.strength(protection) {
                Strength::Partial(missing) => Some(format!("- {protection}: {missing}\n")),
                Strength::Enforced | Strength::Absent => None,
            })
            .collect();
        text.extend(["\nPartial under `", backend.word(), "`:\n\n", &ends.concat()]);
    }
    text
}

#[test]
fn the_page_of_backends_shows_what_each_enforces() -> Result<()> {
    let path = file(PAGE);
    let page = std::fs::read_to_string(&path).context(PAGE)?;
    let (head, rest) = page.split_once("<!-- table -->\n").context("no table")?;
    let (found, tail) = rest.split_once("<!-- end -->\n").context("no end")?;
    let expected = tables();
    if bless() {
        std::fs::write(&path, format!("{head}<!-- table -->\n{expected}<!-- end -->\n{tail}"))?;
    } else {
        ensure!(found == expected, "{PAGE}: BLESS=1 writes it anew: {found}");
    }
    for backend in Backend::ALL {
        ensure!(tail.contains(&format!("\n## {backend}\n")), "no section about {backend}");
    }
    Ok(())
}
