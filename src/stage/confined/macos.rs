//! There is no such run on this system, as [`Confine`] says: nothing is of this type.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use nix::poll::{PollFd, PollTimeout};
use serde::{Deserialize, Serialize};

use super::control::{Inner, Report, Step};
use super::way_out::Wanted;
use crate::launch;
use crate::plan::Plan;
use crate::plan::reach::{Allowed, Right, Scratch};
use crate::sys::pidfd::PidFd;

/// What may be done, device and inode of what is there, and whether it must hold.
type Rule = (Right, Option<(u64, u64)>, bool);

/// A step that failed, and its error number.
type Failed = (Step, i32);

/// What of a confinement is no string.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Confine {}

impl Confine {
    /// That of a plan: no plan has one.
    pub fn of(_: &Plan, _: &launch::Confinement) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Of each rule all but the path.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        match *self {}
    }
}

/// Gives up privileges.
pub fn give_up_privileges(confine: &Confine) -> Result<(), Failed> {
    match *confine {}
}

/// Puts the rules on this process.
pub fn confine(confine: &Confine, _: &[Allowed], _: &[BorrowedFd], _: &Path) -> Result<(), Failed> {
    match *confine {}
}

/// What has to stay open for the rules to hold: nothing.
#[must_use]
pub fn held(_: &[Allowed]) -> Vec<File> {
    Vec::new()
}

/// The two ends of what a listener is sent over.
pub fn pair(confine: &Confine) -> nix::Result<(OwnedFd, OwnedFd)> {
    match *confine {}
}

/// Loads the filter.
pub fn load(confine: &Confine, _: Option<&OwnedFd>) -> io::Result<()> {
    match *confine {}
}

/// A connection that the inner stage makes: there is none.
#[derive(Debug)]
pub enum Switch {}

impl Switch {
    /// Whether descriptors of other processes can be had.
    pub fn probe() -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Listens.
    pub fn open(_: &Wanted) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The other end serves.
    #[must_use]
    pub fn channel(&self) -> &OwnedFd {
        match *self {}
    }
}

/// Whoever answers.
pub struct Clerk<'a>(Infallible, PhantomData<&'a ()>);

impl<'a> Clerk<'a> {
    /// Takes in a listener: there is none.
    #[must_use]
    pub fn receive(_: &OwnedFd, _: &'a [Allowed], _: Option<Switch>) -> Option<Self> {
        None
    }

    /// Where to wait for the next call.
    #[must_use]
    pub fn waiting(&self) -> Option<BorrowedFd<'_>> {
        match self.0 {}
    }

    /// What else to wait for.
    pub fn connections(&self) -> impl Iterator<Item = PollFd<'_>> {
        std::iter::empty()
    }

    /// How long to wait at most.
    #[must_use]
    pub fn patience(&self) -> PollTimeout {
        match self.0 {}
    }

    /// Sees to connections.
    pub fn connect(&mut self) {
        match self.0 {}
    }

    /// Answers what waits there.
    pub fn serve(&mut self, _: bool) {
        match self.0 {}
    }
}

/// Runs `inner` below a process that ends what is left of it.
#[must_use]
pub fn guard(_: &PidFd, _: &Scratch, inner: &Inner, _: impl FnOnce() -> Infallible) -> Infallible {
    let _told = inner.report(Report::Failed(Step::NotIsolated, 0), None);
    crate::sys::process::exit_now(125)
}
