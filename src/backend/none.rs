//! No isolation: the environment, descriptors, signals and the exit status are kept as under every backend, nothing else.
//!
//! Never chosen by `auto`.

use crate::launch::Launch;
use crate::plan::Plan;
use crate::policy::Protection;
use crate::policy::protection::{PER_PROCESS, Strength};

/// What is enforced: the environment.
#[must_use]
pub const fn strength(protection: Protection) -> Strength {
    match protection {
        Protection::FilesRead
        | Protection::FilesWrite
        | Protection::Masks
        | Protection::Network
        | Protection::Sockets
        | Protection::Processes
        | Protection::Privileges => Strength::Absent,
        Protection::Environment => Strength::Enforced,
        Protection::FileSize | Protection::OpenFiles => {
            Strength::Partial("root, and whoever else has CAP_SYS_RESOURCE, can raise it again")
        }
        Protection::Output => {
            Strength::Partial("a process can open the caller's own streams by the descriptors of sandbox-run in /proc")
        }
        Protection::Cpu => Strength::Partial(PER_PROCESS),
        Protection::Memory | Protection::Procs => {
            Strength::Partial("a process that may write to the control group's files can leave the group")
        }
        Protection::Time => Strength::Partial(
            "what is left at the end is looked for from outside: a process that hides by forking may outlive the run where there is no control group, and one that stops sandbox-run (SIGSTOP) stops the clock",
        ),
    }
}

/// The target starts in a copy of this process.
#[must_use]
pub fn launch(plan: &Plan) -> Launch {
    let Plan {
        backend: _,
        target: _,
        argv: _,
        workdir: _,
        environment: _,
        view: _,
        covers: _,
        frozen: _,
        reach: _,
        image: _,
        container: _,
        create: _,
        absent: _,
        recognised: _,
        unprotected: _,
        checks: _,
        hidden: _,
        rules: _,
        trace: _,
        network: _,
        way_out: _,
        host_processes: _,
        scope_sockets: _,
        new_session: _,
        keep_fds: _,
        kill_after: _,
        limits: _,
        cgroup: _,
        procs_by_rlimit: _,
        gaps: _,
        warnings: _,
        notes: _,
        mounts: _,
    } = plan;
    Launch::InProcess
}
