//! The way into a container where none is started: everything is refused.

use std::ffi::OsString;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use nix::unistd::Pid;

use super::handoff::Handoff;
use crate::host::Host;

/// Processes whose parent is gone never come to this process here.
#[allow(clippy::unnecessary_wraps, reason = "on Linux there is something that can fail")]
pub(super) fn leave_orphans(_: bool) -> io::Result<()> {
    Ok(())
}

fn refused<T>() -> io::Result<T> {
    Err(io::Error::other("containers are started on Linux only"))
}

/// The directory of a run: none is made here.
pub(super) fn choose(_: &Host, _: &str) -> io::Result<PathBuf> {
    refused()
}

/// The directory of a run of which no process is there any more, which there is none of.
#[derive(Debug)]
pub(super) enum Abandoned {}

impl Abandoned {
    pub(super) fn path(&self) -> &Path {
        match *self {}
    }

    pub(super) fn clear(self, _: &Removal) {
        match self {}
    }
}

/// Nothing was left.
pub(super) fn abandoned(_: &Host, _: &str) -> Vec<Abandoned> {
    Vec::new()
}

/// What removes a container whose program was killed.
#[derive(Debug)]
#[allow(dead_code, reason = "read where there are containers")]
pub(super) struct Removal {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
}

/// How a run has ended, for whoever clears up after it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    /// The program that started the container has seen to its removal.
    Removed,
    /// It may have left it.
    Left,
    /// It did not answer.
    Hung,
}

/// The process at the door, which there is none of.
#[derive(Debug)]
pub(super) enum Keeper {}

impl Keeper {
    #[allow(clippy::needless_pass_by_value, reason = "on Linux they are kept")]
    pub(super) fn start(_: PathBuf, _: Option<&Path>, _: &str, _: &[RawFd], _: Removal) -> io::Result<Self> {
        refused()
    }

    pub(super) fn pid(&self) -> Pid {
        match *self {}
    }

    pub(super) fn announce(&self) -> io::Result<()> {
        match *self {}
    }

    pub(super) fn end(self, _: Ending) {
        match self {}
    }
}

/// Nobody waits at a door.
pub(super) fn enter(_: &str, _: &str) -> io::Result<Handoff> {
    refused()
}
