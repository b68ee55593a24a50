//! Inside a profile of Seatbelt: the system has confined this process and all that comes of it before it began.

use std::io;
use std::os::fd::OwnedFd;

use nix::unistd::getpid;
use serde::{Deserialize, Serialize};

use super::control::Step;
use super::handoff::Handoff;
use super::inner::{At, Failure};
use crate::plan::Plan;
use crate::sys;

/// What must hold inside: that there is a sandbox. What it allows cannot be asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Isolation {}

/// What must differ inside: nothing that is known outside.
pub fn isolation(_: &Plan) -> io::Result<Isolation> {
    Ok(Isolation {})
}

/// Before there is any target: the profile lets no process look into another one.
#[allow(clippy::unnecessary_wraps, reason = "on Linux there is something that can fail")]
pub(super) fn shut() -> Result<(), Failure> {
    Ok(())
}

/// Makes sure that this process is in a sandbox.
pub(super) fn enter(_: &Handoff, _: &Isolation) -> Result<(), Failure> {
    if sys::sandbox::is_confined(getpid()) { Ok(()) } else { Err(Failure(Step::NotIsolated, 0)) }
}

/// A standard stream as the target gets it: as it came.
pub(super) fn stream(_: &Handoff, stream: OwnedFd) -> OwnedFd {
    stream
}

/// In the process that becomes the target.
pub(super) fn confine(handoff: &Handoff, _: &Isolation) -> Result<(), Failure> {
    handoff.header.rlimits.apply().at(Step::Limits)
}
