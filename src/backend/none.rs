//! No isolation: the environment, descriptors, signals and the exit status are kept as under every backend, nothing else.
//!
//! Never chosen by `auto`.

use crate::launch::Launch;
use crate::plan::Plan;
use crate::policy::Protection;
use crate::policy::protection::Strength;

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
        create: _,
        checks: _,
        hidden: _,
        network: _,
        host_processes: _,
        scope_sockets: _,
        new_session: _,
        keep_fds: _,
        kill_after: _,
        gaps: _,
        warnings: _,
        notes: _,
    } = plan;
    Launch::InProcess
}
