//! What is known about a run when it is over: for the result, and for nobody's decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

#[cfg(unix)]
use super::trial::{Act, Answer};
#[cfg(unix)]
use crate::denials::Denials;
use crate::egress::log::Sums;
use crate::policy::limits::Limit;
pub use crate::sys::process::Usage;

/// The account of one run. What was not measured, or could not be, is `None`.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Number of the target on the host.
    pub pid: Option<i32>,
    /// When the target started.
    pub started_at: Option<SystemTime>,
    /// From then until its end.
    pub wall: Option<Duration>,
    /// What everything inside has used; its memory is that of the whole tree where a control group counted it.
    pub usage: Option<Usage>,
    /// How the target itself ended, whoever made it.
    pub end: Option<End>,
    /// The limit for which we ended it.
    pub ended_by: Option<Limit>,
    /// All limits that were reached, as far as that is known.
    pub limits_hit: BTreeSet<Limit>,
    /// The signal by which somebody asked us to end.
    pub asked: Option<i32>,
    /// What was written, where it went through us.
    pub output: Option<Written>,
    /// What became of requests, where a proxy of ours counted them.
    pub requests: Option<Sums>,
    /// For hosts that were denied what would allow them, or why nothing does.
    pub remedies: BTreeMap<String, String>,
    /// What was tried in place of the target, all acts of one path after another.
    #[cfg(unix)]
    pub tried: Vec<(Act, Answer)>,
    /// What a trace told of refused calls.
    #[cfg(unix)]
    pub denials: Option<Denials>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this status.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
}

/// Output that went through us.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Bytes that the target wrote on standard output; `None` when they were not counted.
    pub stdout: Option<u64>,
    /// Bytes that it wrote on standard error.
    pub stderr: Option<u64>,
    /// Whether some did not arrive where they were to go.
    pub truncated: bool,
    /// Whether there were more than the limit.
    pub over: bool,
    /// Whether a file that we write for the target reached its greatest size.
    pub too_large: bool,
    /// What was kept of both instead of being passed on.
    pub captured: Option<[Vec<u8>; 2]>,
}
