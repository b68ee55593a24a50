//! Following a path through a view as the target would, without entering it: what the plan says is there.
//!
//! Reads the host's files where the view shows them. What a file system of the sandbox's own holds is known only as far as the
//! plan made it.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::plan::links::{Link, beyond, walk};
use crate::plan::reach::Reach;
use crate::plan::view::{Own, Rule, View};

/// The kernel's own limit on the number of links, `MAXSYMLINKS`.
const MAX_LINKS: usize = 40;

/// What is at the end of a path.
#[derive(Debug)]
pub(super) enum Thing {
    /// The host's file.
    Host(Metadata),
    /// The same as a copy.
    Copy(Metadata),
    /// A directory of the sandbox's own that the target can write.
    Private,
    /// A directory of the sandbox's own that leads to something.
    Folder,
    /// Something below `/proc` or `/dev`, of the sandbox's own.
    System,
    /// Nothing, or an empty file or directory in place of what the host has.
    Hidden,
    /// Nothing.
    Absent,
    /// What the host has, which can be neither read nor written: its name is all that can be seen, or the names in it.
    Shut(Metadata),
    /// The host does not say.
    Unknown,
}

/// Where a path leads inside.
#[derive(Debug)]
pub(super) struct Look {
    /// Links on the way that are there.
    pub links: Vec<Link>,
    /// Absolute, without links: the end, or where the end would be.
    pub end: PathBuf,
    pub thing: Thing,
    /// Of something absent: whether its directory is there.
    pub has_directory: bool,
}

/// The same where there is no view, and rights alone say what can be done with what the host has.
pub(super) fn look_by_rights(reach: &Reach, path: &Path) -> Look {
    let (end, thing, has_directory) = match walk(path) {
        Ok(found) if found.end.starts_with("/proc") || found.end.starts_with("/dev") => {
            (found.end, Thing::System, true)
        }
        Ok(found) => {
            let [read, _] = reach.gives(&found.end, false);
            let thing = if read { Thing::Host(found.metadata) } else { Thing::Shut(found.metadata) };
            (found.end, thing, true)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => match beyond(path) {
            Ok((found, rest)) => {
                let has_directory = rest.iter().count() < 2;
                (found.end.join(rest), Thing::Absent, has_directory)
            }
            Err(_) => (path.to_owned(), Thing::Absent, false),
        },
        Err(_) => (path.to_owned(), Thing::Unknown, false),
    };
    Look { links: Vec::new(), end, thing, has_directory }
}

/// Follows the absolute `path`.
pub(super) fn look(view: &View, path: &Path) -> Look {
    let mut todo = reversed(path);
    let mut links = Vec::new();
    let mut end = PathBuf::from("/");
    let mut last = None;
    while let Some(name) = todo.pop() {
        if name == ".." {
            end.pop();
            last = None;
            continue;
        }
        end.push(&name);
        match step(view, &end) {
            Step::Link(text) if links.len() < MAX_LINKS => {
                todo.extend(reversed(&text));
                let at = end.clone();
                if text.is_absolute() {
                    end = PathBuf::from("/");
                } else {
                    end.pop();
                }
                last = None;
                links.push(Link { at, text });
            }
            // Nobody gets through a ring of links.
            Step::Link(_) => return Look { links, end, thing: Thing::Absent, has_directory: false },
            Step::Thing(thing) => {
                let ends = match &thing {
                    Thing::Host(found) | Thing::Copy(found) => !found.is_dir(),
                    Thing::Absent | Thing::Unknown => true,
                    Thing::Hidden => !view.leads_on(&end),
                    Thing::Private | Thing::Folder | Thing::System | Thing::Shut(_) => false,
                };
                if ends && !todo.is_empty() {
                    let thing = match thing {
                        Thing::Hidden => Thing::Hidden,
                        Thing::Unknown => Thing::Unknown,
                        _ => Thing::Absent,
                    };
                    end.extend(todo.into_iter().rev().filter(|name| name != ".."));
                    return Look { links, end, thing, has_directory: false };
                }
                last = Some(thing);
            }
        }
    }
    let thing = last.unwrap_or_else(|| match step(view, &end) {
        Step::Thing(thing) => thing,
        Step::Link(_) => Thing::Unknown,
    });
    Look { links, end, thing, has_directory: true }
}

enum Step {
    Link(PathBuf),
    Thing(Thing),
}

/// What is at `at`, whose parent is a directory that is there.
fn step(view: &View, at: &Path) -> Step {
    let made = || if at == Path::new("/") || view.leads_on(at) { Thing::Folder } else { Thing::Absent };
    let Some((place, rule)) = view.decides(at) else { return Step::Thing(made()) };
    let itself = place == at;
    Step::Thing(match rule {
        Rule::Link { text } if itself => return Step::Link(text.clone()),
        Rule::Own(Own::SecondTmp) if itself && !view.leads_on(at) => return Step::Link("/tmp".into()),
        Rule::Folder if itself && is_private(view, at) => Thing::Private,
        Rule::Folder if itself => Thing::Folder,
        Rule::Own(Own::Home | Own::Shared | Own::SecondTmp) if itself => Thing::Private,
        // A directory that leads to a grant is the target's like all that it makes there itself.
        Rule::Own(Own::Home | Own::Shared | Own::SecondTmp) if view.leads_on(at) => Thing::Private,
        Rule::Link { .. } | Rule::Folder | Rule::Own(Own::Home | Own::Shared | Own::SecondTmp) => made(),
        Rule::Own(Own::Proc | Own::Dev) => Thing::System,
        Rule::Own(Own::Nothing) | Rule::Hidden | Rule::Secret | Rule::Mask | Rule::DenySocket => Thing::Hidden,
        Rule::System { from, small } => {
            let below = at.strip_prefix(place).unwrap_or(Path::new(""));
            return on_host(&if itself { from.clone() } else { from.join(below) }, *small);
        }
        Rule::Pin | Rule::Workdir | Rule::Program | Rule::Read | Rule::Write | Rule::AllowSocket | Rule::Protect => {
            return on_host(at, false);
        }
    })
}

/// Whether a place is made on a file system that the target can write.
fn is_private(view: &View, at: &Path) -> bool {
    let mut above = at.ancestors().skip(1).filter_map(|above| view.decides(above));
    let above = above.find(|(_, rule)| !matches!(rule, Rule::Folder | Rule::Link { .. }));
    matches!(above, Some((_, Rule::Own(Own::Home | Own::Shared | Own::SecondTmp))))
}

fn on_host(at: &Path, copied: bool) -> Step {
    match fs::symlink_metadata(at) {
        Ok(found) if found.is_symlink() => match fs::read_link(at) {
            Ok(text) => Step::Link(text),
            Err(_) => Step::Thing(Thing::Unknown),
        },
        Ok(found) if copied => Step::Thing(Thing::Copy(found)),
        Ok(found) => Step::Thing(Thing::Host(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound || error.kind() == io::ErrorKind::NotADirectory => {
            Step::Thing(Thing::Absent)
        }
        Err(_) => Step::Thing(Thing::Unknown),
    }
}

/// The names of `path` with the first one last; a slash at the end is lost.
fn reversed(path: &Path) -> Vec<OsString> {
    let mut names: Vec<OsString> = path
        .components()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
        .map(|part| part.as_os_str().to_owned())
        .filter(|name| !name.as_bytes().is_empty())
        .collect();
    names.reverse();
    names
}
