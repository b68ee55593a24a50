//! Landlock: the plan as a ruleset that a process puts on itself, for hosts that allow no namespaces.
//!
//! Needs no program and no privilege. Rights only add up along a path and no right hides a name, so that what bubblewrap does by
//! mounts is here a matter of what is left out; what cannot be left out is a gap. Network, sockets and metadata are the business
//! of the system-call filter as far as the kernel's version of Landlock does not know them.

use crate::launch::{Confinement, Launch};
use crate::plan::Plan;
use crate::policy::protection::{PER_PROCESS, Strength};
use crate::policy::{Network, Protection};

/// What is enforced where nothing of it is lost to an old kernel, and where it ends.
#[must_use]
pub const fn strength(protection: Protection) -> Strength {
    match protection {
        Protection::FilesRead => Strength::Partial(
            "names, sizes, times and owners of all files can be seen, and whether somebody uses them; a device node below a \
             grant works; a grant of a single file holds for the file that was there, not for another one by its name",
        ),
        Protection::FilesWrite => Strength::Partial(
            "times of a file that may be read, and for others than root its mode and attributes, can be changed by a descriptor; \
             nothing bounds the private directories",
        ),
        Protection::Masks => Strength::Partial(
            "a mask can be neither read nor written, but its name, size and times, and the names in it, can be seen; what the \
             host makes later in a directory above a mask stays out of reach",
        ),
        Protection::Sockets => Strength::Partial(
            "a Unix socket or FIFO inside a write grant can be used unless it is denied; before Landlock ABI 9 there are no Unix \
             sockets at all but connected pairs",
        ),
        Protection::Processes => Strength::Partial(
            "numbers and owners of processes outside can be found out, and on which processors those of the user run can be set",
        ),
        Protection::Network
        | Protection::Privileges
        | Protection::Environment
        | Protection::Memory
        | Protection::Procs
        | Protection::FileSize
        | Protection::OpenFiles
        | Protection::Output
        | Protection::Time => Strength::Enforced,
        Protection::Cpu => Strength::Partial(PER_PROCESS),
    }
}

/// The target starts in a copy of this process, which gives up all that the plan does not grant.
#[must_use]
pub fn launch(plan: &Plan) -> Launch {
    let Plan {
        reach,
        network,
        // Mounts, which there are none of.
        view: _,
        covers: _,
        frozen: _,
        image: _,
        container: _,
        // What becomes of them is in `reach`.
        rules: _,
        way_out: _,
        host_processes: _,
        scope_sockets: _,
        // The inner stage's part: it gets these by the hand-off.
        backend: _,
        target: _,
        argv: _,
        workdir: _,
        environment: _,
        create: _,
        absent: _,
        unprotected: _,
        recognised: _,
        mounts: _,
        checks: _,
        hidden: _,
        trace: _,
        new_session: _,
        keep_fds: _,
        kill_after: _,
        limits: _,
        // The outer stage's.
        cgroup: _,
        procs_by_rlimit: _,
        gaps: _,
        warnings: _,
        notes: _,
    } = plan;
    let no_tcp = match network {
        Network::Off => true,
        Network::Host => false,
    };
    // Without rules nothing can be opened at all.
    let (landlock, rules) = reach.as_ref().map(|reach| (reach.landlock, reach.rules.clone())).unwrap_or_default();
    Launch::Confined(Confinement { landlock, rules, no_tcp })
}
