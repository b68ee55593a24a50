//! What the limits on a whole tree ask for, whoever keeps them.

use crate::backend::Backend;
use crate::plan::Plan;

/// What a group is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Memory of the tree in bytes, swap included.
    pub memory: Option<u64>,
    /// Processes and threads, our own in the group included.
    pub procs: Option<u64>,
    /// Whether processor time is counted: made use of where it is there, and no reason to fail.
    pub cpu: bool,
}

impl Wants {
    /// What the group of `plan` is for.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let limits = &plan.limits;
        let procs = limits.max_procs.filter(|_| !plan.procs_by_rlimit);
        Self {
            memory: limits.memory,
            procs: procs.map(|procs| Self::procs_with_ours(procs.saturating_add(plan.relays()), plan.backend)),
            cpu: limits.cpu_time.is_some(),
        }
    }

    /// The limit on processes of a group in which the target has `procs`.
    #[must_use]
    pub fn procs_with_ours(procs: u64, backend: Backend) -> u64 {
        // The kernel has no more numbers than that, and refuses a greater limit.
        procs.saturating_add(backend.own_processes()).min(4 << 20)
    }

    /// Whether a run without the group would be less than what was asked for.
    #[must_use]
    pub fn is_limit(&self) -> bool {
        self.memory.is_some() || self.procs.is_some()
    }

    /// What cannot be limited without a group, for messages.
    #[must_use]
    pub fn subject(&self) -> &'static str {
        match (self.memory, self.procs) {
            (Some(_), Some(_)) => "memory and processes",
            (None, Some(_)) => "processes",
            (Some(_), None) => "memory",
            (None, None) => "processor time",
        }
    }
}
