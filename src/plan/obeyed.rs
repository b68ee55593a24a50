//! Settings of tools that are hidden as secrets, although their absence changes what the tool does: told, not shown.
//!
//! Looks at what the scan has found, and at no file's content.

use std::ffi::OsStr;
use std::path::Path;

use super::hidden::Scan;

/// Places of settings, and the programs that follow them: what may run (`ignore-scripts`, `enableScripts`), from where things
/// are fetched, which version of the tool is started (`yarnPath`).
const SETTINGS: &[(&str, &[&str])] = &[
    (".npmrc", &["npm", "npx", "pnpm", "pnpx", "yarn", "bun", "bunx"]),
    (".yarnrc", &["yarn"]),
    (".yarnrc.yml", &["yarn"]),
    (".bundle/config", &["bundle", "bundler"]),
];

/// What is to be said, and whether to those who ask only.
pub(super) enum Told {
    /// The command is the tool, and stands where it would read them.
    Warning(String),
    /// It may start the tool.
    Note(String),
}

/// At most one sentence about settings that `program` runs without, started in `workdir`.
pub(super) fn told(scan: &Scan, program: &Path, workdir: &Path) -> Option<Told> {
    let found: Vec<(&Path, &str, &[&str])> = scan
        .present()
        .filter_map(|(path, _)| {
            let (name, tools) = SETTINGS.iter().find(|(name, _)| path.ends_with(name))?;
            Some((path, *name, *tools))
        })
        .collect();
    let tool = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let read_there = |path: &Path, name: &str| {
        let top = path.ancestors().nth(Path::new(name).components().count());
        top.is_some_and(|top| workdir.starts_with(top))
    };
    let own = found.iter().find(|(path, name, tools)| tools.contains(&tool) && read_there(path, name));
    if let Some((path, name, _)) = own {
        return Some(Told::Warning(format!(
            "'{}' is hidden, so '{tool}' runs without its settings (what they switch off is on): {} shows it",
            path.display(),
            option(path, name)
        )));
    }
    let (path, name, tools) = found.first()?;
    let more = if found.len() > 1 { format!(", and {} more like it", found.len() - 1) } else { String::new() };
    Some(Told::Note(format!(
        "'{}' is hidden{more}, so {} started by the command runs without its settings: {} shows it",
        path.display(),
        tools[0],
        option(path, name)
    )))
}

/// The option that shows it: of a name without a dot only a grant does.
fn option(path: &Path, name: &str) -> String {
    if name.contains('/') { format!("-r '{}'", path.display()) } else { format!("--show-hidden {name}") }
}
