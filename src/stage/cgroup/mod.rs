//! Control groups: memory, processes and processor time of the whole tree, counted and bounded by the kernel.
//!
//! A group of one run is a directory of its own. No group that is not ours is written to, and no process is moved but
//! our own children, before they become somebody else's program. Finding changes nothing.

mod engine;
mod find;
mod guardian;
mod legacy;
mod members;
mod readings;
mod systemd;
#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests start programs")]
mod tests;
mod unified;
mod wants;

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::poll::PollFlags;
use nix::unistd::Pid;

pub use find::{find, places};
use guardian::Guardian;
use legacy::Legacy;
use members::Members;
use readings::Readings;
use systemd::Systemd;
use unified::Unified;
pub use wants::Wants;

use crate::sys::process::describe;

/// A way in which this host lets us have a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// A directory of control group v2.
    Unified(Unified),
    /// A directory in each hierarchy of v1.
    Legacy(Legacy),
    /// A scope of the system's or the user's service manager.
    Systemd(Systemd),
    /// The group that a container engine makes for the container.
    Engine,
}

impl Mechanism {
    /// What it is, without saying where.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Unified(_) => "control group v2",
            Self::Legacy(_) => "control group v1",
            Self::Systemd(Systemd { user: true, .. }) => "scope of the user's systemd",
            Self::Systemd(Systemd { user: false, .. }) => "scope of systemd",
            Self::Engine => "container engine",
        }
    }

    /// Whether the group is made by another program, which takes a while.
    #[must_use]
    pub fn is_systemd(&self) -> bool {
        match self {
            Self::Systemd(_) => true,
            Self::Unified(_) | Self::Legacy(_) | Self::Engine => false,
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        match self {
            Self::Unified(unified) => write!(f, " below '{}'", unified.parent.display()),
            Self::Legacy(legacy) => {
                let parents: Vec<_> = legacy.parents().map(|parent| format!("'{}'", parent.display())).collect();
                write!(f, " below {}", parents.join(", "))
            }
            Self::Systemd(_) | Self::Engine => Ok(()),
        }
    }
}

/// A program that starts another one: its path, its words up to and including `--`, and the variables it needs.
pub type Prefix = (PathBuf, Vec<OsString>, Vec<(OsString, OsString)>);

/// The group that a container engine makes.
#[must_use]
pub fn of_engine() -> Option<Mechanism> {
    Some(Mechanism::Engine)
}

/// The group of one run. Removed when it is dropped, or by its guardian when this process is killed before.
#[derive(Debug)]
pub struct Group {
    /// Where a process of ours goes in.
    entrances: Vec<File>,
    members: Members,
    readings: Readings,
    scope: Option<systemd::Scope>,
    /// What an engine was told.
    promised: Option<Wants>,
    guardian: Option<Guardian>,
}

impl Group {
    /// Makes a group and sets its limits.
    pub fn create(mechanism: &Mechanism, wants: &Wants) -> io::Result<Self> {
        match mechanism {
            Mechanism::Unified(unified) => unified.create(wants),
            Mechanism::Legacy(legacy) => legacy.create(wants),
            Mechanism::Systemd(systemd) => systemd.prepare(wants),
            Mechanism::Engine => Ok(engine::prepare(wants)),
        }
    }

    /// A group that is made of these directories, which are not there yet. Whatever fails after this, nothing is left.
    fn begin(directories: Vec<PathBuf>) -> io::Result<Self> {
        let members = Members::new(directories);
        let guardian = Some(Guardian::start(&members)?);
        let group = Self {
            entrances: Vec::new(),
            members,
            readings: Readings::default(),
            scope: None,
            promised: None,
            guardian,
        };
        for directory in group.members.directories() {
            fs::create_dir(directory).map_err(|error| told("make", directory, &error))?;
        }
        Ok(group)
    }

    /// Puts the calling process into the group: for a child of ours before its exec. Nothing to do for a scope.
    pub fn enter(&self) -> io::Result<()> {
        self.entrances.iter().try_for_each(|mut entrance| entrance.write_all(b"0"))
    }

    /// For a scope: the program that makes it and starts the launcher in it.
    #[must_use]
    pub fn prefix(&self) -> Option<Prefix> {
        self.scope.as_ref().and_then(systemd::Scope::prefix)
    }

    /// Whether the launcher has to wait until it was put into the group from outside, by [`take_in`](Self::take_in).
    #[must_use]
    pub fn takes_in(&self) -> bool {
        self.scope.as_ref().is_some_and(systemd::Scope::takes_in)
    }

    /// For a scope around a process that is there already: puts `launcher` into it, a child of ours.
    pub fn take_in(&self, launcher: Pid) -> io::Result<()> {
        self.scope.as_ref().map_or(Ok(()), |scope| scope.take_in(launcher))
    }

    /// For a scope or a container: looks for the group in which `launcher` is by now, and confirms its limits.
    pub fn joined(&mut self, launcher: Pid) -> io::Result<()> {
        if let Some(promised) = &self.promised {
            self.readings = engine::joined(promised, launcher)?;
            return Ok(());
        }
        let Some(scope) = &self.scope else { return Ok(()) };
        let (members, readings) = scope.joined(launcher)?;
        self.members = members;
        self.readings = readings;
        Ok(())
    }

    /// Wakes a poll when the group may have run out of memory; [`out_of_memory`](Self::out_of_memory) says whether it did.
    #[must_use]
    pub fn events(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.readings.events()
    }

    /// Whether the kernel killed something in the group for want of memory.
    #[must_use]
    pub fn out_of_memory(&self) -> bool {
        self.readings.out_of_memory()
    }

    /// Whether a process or thread was refused because there were as many as there may be.
    #[must_use]
    pub fn procs_refused(&self) -> bool {
        self.readings.procs_refused()
    }

    /// Processor time of everything that is or was in the group.
    #[must_use]
    pub fn cpu_time(&self) -> Option<Duration> {
        self.readings.cpu_time()
    }

    /// The greatest memory that the group had at one time, in bytes.
    #[must_use]
    pub fn peak_memory(&self) -> Option<u64> {
        self.readings.peak_memory()
    }

    /// Reads all that there is to read: after the end of the last process a scope can no longer be asked.
    pub fn note(&self) {
        self.readings.note();
    }

    /// Kills everything in the group.
    pub fn kill(&self) {
        self.members.kill();
    }

    /// A child of ours that removes the group when we are killed: not to be killed with the others.
    #[must_use]
    pub fn guardian(&self) -> Option<Pid> {
        self.guardian.as_ref().map(Guardian::pid)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What still runs inside is not ours to end any more: the guardian waits for it.
        let gone = self.members.remove_within(Duration::from_millis(300));
        if let Some(guardian) = self.guardian.take() {
            if gone { guardian.end() } else { guardian.leave() }
        }
    }
}

/// Writes a setting of a group of ours.
fn set(directory: &Path, name: &str, value: impl fmt::Display) -> io::Result<()> {
    let path = directory.join(name);
    // Opened for writing only: a file that is not there must not be made.
    let mut file = File::options().write(true).open(&path).map_err(|error| told("open", &path, &error))?;
    // One write: the kernel takes each for a whole value.
    file.write_all(value.to_string().as_bytes()).map_err(|error| told("write", &path, &error))
}

/// An error that names the file.
fn told(what: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {what} '{}': {}", path.display(), describe(error)))
}
