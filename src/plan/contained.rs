//! What is different about a plan for a container: the image has the programs, and the engine makes the mounts.
//!
//! Reads the host's table of mounts and the names of its devices, and nothing else of the host.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::resolve::Attempt;
use super::target::{Search, Target};
use super::view::{Rule, View, is_of_devices};
use super::{Container, MountOp, target};
use crate::backend::Backend;
use crate::error::{Error, Kind, Result};
use crate::host::mounts;
use crate::policy::{NewSession, Origin, Policy};

/// What an image is used for under `policy`; `None` for a backend that has none.
pub(super) fn container(policy: &Policy, backend: Backend, attempt: Attempt, view: &View) -> Result<Option<Container>> {
    let Backend::Container(_) = backend else {
        let nowhere = !policy.backends.list.iter().any(|backend| matches!(backend, Backend::Container(_)));
        if nowhere && let Some(Origin::Flag(flag)) = policy.origins.get("image") {
            let text = format!("cannot use {flag}: no backend of the list is a container");
            return Err(Error::text(Kind::Policy, text).hint("--backend container takes it"));
        }
        return Ok(None);
    };
    let refuse = |reason: &str| Error::text(Kind::Backend, format!("cannot use backend '{backend}': {reason}"));
    let Some(image) = policy.image.clone() else {
        let error = refuse("no image is named");
        return Err(error.hint("--image NAME says in which image the command starts, 'image' does in a policy file"));
    };
    if policy.new_session == NewSession::Never {
        let error = refuse("a container cannot share the caller's session");
        return Err(error.hint("leave out --new-session never"));
    }
    if attempt.trace {
        let text = format!("cannot trace with backend '{backend}': the image has no tracer of ours");
        return Err(Error::text(Kind::Backend, text).hint("--backend bwrap can, or run strace of the image"));
    }
    // Before the whole host is searched for what would have to be hidden.
    if let Some((_, Rule::Read | Rule::Write)) = view.decides(Path::new("/")) {
        let text = "cannot show '/' in a container: it would take the place of the image";
        return Err(Error::text(Kind::Backend, text).hint("name the directories that the command needs"));
    }
    let names_path = |entry: &crate::policy::EnvEntry| entry.rule.subject() == "PATH";
    Ok(Some(Container { image, path_of_image: !policy.env.rules.iter().any(names_path) }))
}

/// The target; in a container before it is looked for, since the image is not here.
pub(super) fn target(container: Option<&Container>, search: &Search) -> Result<Target> {
    if container.is_none() {
        return Ok(target::resolve(search)?);
    }
    let word = search.word;
    Ok(Target {
        word: word.to_owned(),
        literal: word.into(),
        exec: word.into(),
        file: word.into(),
        files: Vec::new(),
        script_without_shebang: false,
    })
}

/// In a container: makes the operations such that an engine can carry them out, `size` bounding each file system in memory.
pub(super) fn adapt(container: Option<&Container>, ops: &mut Vec<MountOp>, size: u64, warnings: &mut Vec<String>) {
    if container.is_some() {
        *ops = operations(std::mem::take(ops), size, warnings);
    }
}

/// The operations as an engine can carry them out, `size` bounding each file system in memory.
fn operations(ops: Vec<MountOp>, size: u64, warnings: &mut Vec<String>) -> Vec<MountOp> {
    let table = mounts::table().unwrap_or_default();
    let points: Vec<_> = table.split(|byte| *byte == b'\n').filter_map(mounts::point).collect();
    let mut own = Vec::new();
    for op in ops {
        match op {
            MountOp::Link { at, text } if text == Path::new("/tmp") => {
                own.push(MountOp::Tmpfs { at, mode: 0o1777, size });
            }
            MountOp::Link { at, text } => warnings.push(format!(
                "'{}' is a link to '{}' on the host and nothing in the container: use the name that it leads to",
                at.display(),
                text.display()
            )),
            // Sealed by its own option, or the engine's.
            MountOp::ReadOnly { at } if at != Path::new("/") => {}
            op => own.push(op),
        }
    }
    below_read_grants(&mut own, &points);
    own
}

/// Adds the mounts that lie below read-only ones: engines leave those writable.
fn below_read_grants(ops: &mut Vec<MountOp>, points: &[PathBuf]) {
    for point in points {
        let deciding = ops.iter().rposition(|op| {
            !matches!(op, MountOp::ReadOnly { .. } | MountOp::Dir { .. }) && point.starts_with(op.at())
        });
        let Some(MountOp::Bind { from, at, write: false, device: false }) = deciding.and_then(|at| ops.get(at)) else {
            continue;
        };
        if from != at || point == at {
            continue;
        }
        let after = ops.iter().position(|op| matches!(op, MountOp::ReadOnly { .. }) || op.at() > point.as_path());
        let op = MountOp::Bind { from: point.clone(), at: point.clone(), write: false, device: false };
        ops.insert(after.unwrap_or(ops.len()), op);
    }
}

/// The nodes of devices in a directory of them, at any depth.
pub(super) fn nodes(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = if is_of_devices(directory) { vec![directory.to_owned()] } else { Vec::new() };
    while let Some(directory) = todo.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => todo.push(entry.path()),
                Ok(kind) if kind.is_char_device() || kind.is_block_device() => found.push(entry.path()),
                Ok(_) | Err(_) => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(at: &str, write: bool) -> MountOp {
        MountOp::Bind { from: at.into(), at: at.into(), write, device: false }
    }

    #[test]
    fn what_is_mounted_below_a_read_grant_is_mounted_read_only_as_well() {
        let empty = MountOp::EmptyFile { at: "/r/m/.env".into() };
        let seal = MountOp::ReadOnly { at: "/".into() };
        let mut ops = vec![bind("/r", false), empty.clone(), bind("/r/w", true), bind("/w", true), seal.clone()];
        below_read_grants(&mut ops, &["/", "/r", "/r/m", "/r/w/x", "/w/x", "/other"].map(PathBuf::from));
        let expected = [bind("/r", false), bind("/r/m", false), empty, bind("/r/w", true), bind("/w", true), seal];
        assert_eq!(ops, expected);
    }

    #[test]
    fn links_are_told_of_and_a_second_tmp_is_a_directory() {
        let mut warnings = Vec::new();
        let link = |at: &str, text: &str| MountOp::Link { at: at.into(), text: text.into() };
        let seals = ["/dev", "/"].map(|at| MountOp::ReadOnly { at: at.into() });
        let ops = [vec![link("/h", "/home"), link("/var/tmp", "/tmp")], seals.to_vec()].concat();
        let expected = [MountOp::Tmpfs { at: "/var/tmp".into(), mode: 0o1777, size: 7 }, seals[1].clone()];
        assert_eq!(operations(ops, 7, &mut warnings), expected);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
    }
}
