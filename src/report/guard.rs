//! Whether the target could write what is reported, or have whoever reads it look elsewhere.
//!
//! Looks at the plan and at open files, changes nothing.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

use nix::sys::stat::fstat;

use super::refuse;
use super::way::Way;
use crate::error::Error;
use crate::plan::Plan;
use crate::sys;

/// The streams that the target always has.
pub const STREAMS: [i32; 3] = [0, 1, 2];

/// Why a descriptor that crosses is no place.
pub const KEPT: &str = "--keep-fd keeps it open for the command";

/// How the target could interfere.
#[derive(Debug)]
pub enum Found {
    /// It can give a name on the way to something else.
    Renamed {
        /// The name.
        at: PathBuf,
        /// Whether it is a link.
        link: bool,
    },
    /// It can write the file.
    Writable(PathBuf),
    /// It can write to the FIFO, as everybody who sees one.
    Fifo(PathBuf),
    /// The file has a second name, which is not looked for.
    Linked,
    /// It has the file open.
    Open(i32),
}

impl Found {
    /// The error about `what` cannot be written, with the remedy that leaves `what` where it is.
    pub fn refuse(&self, what: &str) -> Error {
        let error = refuse(what, &self.reason());
        match self {
            Self::Renamed { at, link: false } => {
                error.hint(format!("--write '{}' as well holds that directory in its place", at.display()))
            }
            Self::Writable(at) => error.hint(format!("--protect '{}' forbids that", at.display())),
            Self::Fifo(at) => error.hint(format!("--mask '{}' hides it from the command", at.display())),
            Self::Linked => error.hint("remove it first, or name another one"),
            Self::Renamed { link: true, .. } | Self::Open(_) => error,
        }
    }

    fn reason(&self) -> String {
        match self {
            Self::Renamed { at, link } => {
                let what = if *link { "link" } else { "directory" };
                format!("the command could put something else in place of the {what} '{}'", at.display())
            }
            Self::Writable(_) => "the command could change it".to_owned(),
            Self::Fifo(_) => "the command could write to that FIFO, which no read-only view forbids".to_owned(),
            Self::Linked => "it has a second name (a hard link), under which the command could change it".to_owned(),
            Self::Open(0) => "the command has it as standard input".to_owned(),
            Self::Open(1) => "the command has it as standard output".to_owned(),
            Self::Open(2) => "the command has it as standard error".to_owned(),
            Self::Open(_) => KEPT.to_owned(),
        }
    }
}

/// Checks the way to a place, and the file there if it is `written` and not replaced. `streams` are descriptors that the
/// target has besides those that are kept.
pub fn check(plan: &Plan, way: Option<&Way>, written: Option<&File>, streams: &[i32]) -> Result<(), Found> {
    let written = written.and_then(|file| Some((file, file.metadata().ok()?)));
    if let (Some((_, data)), Some(end)) = (&written, way.map(Way::end)) {
        if data.file_type().is_fifo() && plan.shows(&end) {
            return Err(Found::Fifo(end));
        }
        if let Some(at) = plan.written_as(&end) {
            return Err(Found::Writable(at));
        }
    }
    if let Some(met) = way.iter().flat_map(|way| &way.met).find(|met| plan.lets_rename(&met.at)) {
        return Err(Found::Renamed { at: met.at.clone(), link: met.link });
    }
    // Until it is replaced a reader takes it for what it was; that is for ever, where we are killed.
    let old = way.and_then(|way| way.found.as_ref()).filter(|_| written.is_none());
    if old.is_some_and(|old| old.nlink() > 1) && plan.writable().next().is_some() {
        return Err(Found::Linked);
    }
    let Some((file, data)) = written else { return Ok(()) };
    let kind = data.file_type();
    // Every FIFO that is visible can be written.
    let grants = plan.writable().next().is_some() || (kind.is_fifo() && !plan.view.is_empty());
    if (kind.is_file() || kind.is_fifo()) && data.nlink() > 1 && grants {
        return Err(Found::Linked);
    }
    // A device is nobody's, and a terminal everybody's who is there.
    let shared = |number: &i32| !kind.is_char_device() && is_open_as(file, *number);
    plan.keep_fds.iter().chain(streams).copied().find(shared).map_or(Ok(()), |number| Err(Found::Open(number)))
}

/// Whether descriptor `number` leads to the same file.
fn is_open_as(file: &File, number: i32) -> bool {
    let own = fstat(file);
    let other = match number {
        0 => fstat(std::io::stdin().as_fd()),
        1 => fstat(std::io::stdout().as_fd()),
        2 => fstat(std::io::stderr().as_fd()),
        number => sys::fd::lend(number).map_or(Err(nix::errno::Errno::EBADF), fstat),
    };
    matches!((own, other), (Ok(own), Ok(other)) if (own.st_dev, own.st_ino) == (other.st_dev, other.st_ino))
}
