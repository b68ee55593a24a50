//! Namespaces of our own, which no other system has.

use nix::unistd::Pid;

use super::cgroup::Group;
use super::control::Inner;
use super::handoff::Handoff;
use super::outcome::Reason;
use crate::launch::Namespaces;
use crate::plan::Plan;

/// Refuses: `backend` says so before it comes to this.
pub fn start(_: &Plan, _: &Namespaces, _: &Handoff, _: &Inner, _: Option<&Group>) -> Result<Pid, Reason> {
    Err(std::io::Error::from(std::io::ErrorKind::Unsupported).into())
}
