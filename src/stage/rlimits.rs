//! Resource limits of the target's processes, set by the process that becomes the target.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::sys;
use crate::sys::process::INHERITED;

/// Processes of ours that the kernel counts with the target's: process 1.
const OWN_PROCESSES: u64 = 1;

/// The limits to set; `None` stays as the caller left it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Rlimits {
    cpu_time: Option<u64>,
    max_file_size: Option<u64>,
    max_open_files: Option<u64>,
    address_space: Option<u64>,
    core: Option<u64>,
    max_procs: Option<u64>,
}

impl Rlimits {
    /// Those of a plan.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let limits = &plan.limits;
        Self {
            cpu_time: limits.cpu_time,
            max_file_size: limits.max_file_size,
            max_open_files: limits.max_open_files,
            address_space: limits.address_space,
            core: limits.core,
            max_procs: limits.max_procs.filter(|_| plan.procs_by_rlimit).map(|most| most.saturating_add(OWN_PROCESSES)),
        }
    }

    /// Processor time of each process in seconds.
    #[must_use]
    pub fn cpu_time(&self) -> Option<u64> {
        self.cpu_time
    }

    /// Sets them on this process and what comes of it. A lower hard limit of the caller stays.
    pub fn apply(self) -> nix::Result<()> {
        let Self { cpu_time, max_file_size, max_open_files, address_space, core, max_procs } = self;
        if let Some(seconds) = cpu_time {
            // A second apart: the first is a signal that says why, the second an end.
            set(Resource::RLIMIT_CPU, seconds, seconds.saturating_add(1))?;
        }
        if let Some(most) = max_procs {
            sys::process::limit_processes(most)?;
        }
        for (resource, most) in [
            (Resource::RLIMIT_FSIZE, max_file_size),
            (Resource::RLIMIT_CORE, core),
            (Resource::RLIMIT_NOFILE, max_open_files),
            // Last: from here on even this process may have no room to grow.
            (Resource::RLIMIT_AS, address_space),
        ] {
            if let Some(most) = most {
                set(resource, most, most)?;
            }
        }
        Ok(())
    }
}

/// All limits of this process that a container would not have: number, soft, hard.
#[must_use]
pub fn inherited() -> Vec<(u32, u64, u64)> {
    let read = |resource: &Resource| {
        let (soft, hard) = getrlimit(*resource).ok()?;
        Some((*resource as u32, soft, hard))
    };
    INHERITED.iter().filter_map(read).collect()
}

/// Sets what was inherited, as far as that takes something away.
pub fn inherit(limits: &[(u32, u64, u64)]) {
    for (number, soft, hard) in limits {
        let resource = INHERITED.iter().find(|resource| **resource as u32 == *number);
        // A limit that cannot be set is one that this process has as low already.
        let _set = resource.map(|resource| set(*resource, *soft, *hard));
    }
}

fn set(resource: Resource, soft: u64, hard: u64) -> nix::Result<()> {
    let (_, theirs) = getrlimit(resource)?;
    let hard = hard.min(theirs);
    setrlimit(resource, soft.min(hard), hard)
}
