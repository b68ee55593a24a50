//! No control groups, on a system that has none: there is no value of these types.

#[path = "wants.rs"]
mod wants;

use std::convert::Infallible;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

use nix::poll::PollFlags;
use nix::unistd::Pid;

pub use wants::Wants;

use crate::host::Host;

/// A way in which this host lets us have a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mechanism {}

impl Mechanism {
    /// What it is.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match *self {}
    }

    /// Whether the group is made by another program.
    #[must_use]
    pub fn is_systemd(&self) -> bool {
        match *self {}
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

/// The way that serves `wants`: none.
pub fn find(_: &Wants, _: &Host, _: bool) -> Result<Mechanism, String> {
    Err("this system has none".to_owned())
}

/// The group that a container engine makes: it has none here.
#[must_use]
pub fn of_engine() -> Option<Mechanism> {
    None
}

/// Where groups lie: nowhere.
#[must_use]
pub fn places() -> Vec<PathBuf> {
    Vec::new()
}

/// A program that starts another one: its path, its words up to and including `--`, and the variables it needs.
pub type Prefix = (PathBuf, Vec<OsString>, Vec<(OsString, OsString)>);

/// The group of one run.
#[derive(Debug)]
pub struct Group(Infallible);

impl Group {
    /// Makes a group.
    pub fn create(mechanism: &Mechanism, _: &Wants) -> io::Result<Self> {
        match *mechanism {}
    }

    /// Puts the calling process into the group.
    pub fn enter(&self) -> io::Result<()> {
        match self.0 {}
    }

    /// The program that makes it.
    #[must_use]
    pub fn prefix(&self) -> Option<Prefix> {
        match self.0 {}
    }

    /// Whether the launcher is put into it from outside.
    #[must_use]
    pub fn takes_in(&self) -> bool {
        match self.0 {}
    }

    /// Puts `launcher` into it.
    pub fn take_in(&self, _: Pid) -> io::Result<()> {
        match self.0 {}
    }

    /// Looks for the group of `launcher`.
    pub fn joined(&mut self, _: Pid) -> io::Result<()> {
        match self.0 {}
    }

    /// What wakes a poll when it ran out of memory.
    #[must_use]
    pub fn events(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        match self.0 {}
    }

    /// Whether it ran out of memory.
    #[must_use]
    pub fn out_of_memory(&self) -> bool {
        match self.0 {}
    }

    /// Whether a process was refused.
    #[must_use]
    pub fn procs_refused(&self) -> bool {
        match self.0 {}
    }

    /// Processor time of the group.
    #[must_use]
    pub fn cpu_time(&self) -> Option<Duration> {
        match self.0 {}
    }

    /// Its greatest memory.
    #[must_use]
    pub fn peak_memory(&self) -> Option<u64> {
        match self.0 {}
    }

    /// Reads all that there is to read.
    pub fn note(&self) {
        match self.0 {}
    }

    /// Kills everything in it.
    pub fn kill(&self) {
        match self.0 {}
    }

    /// The process that removes it.
    #[must_use]
    pub fn guardian(&self) -> Option<Pid> {
        match self.0 {}
    }
}
