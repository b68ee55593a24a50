//! A job object of Windows: all processes of a run in one kernel object, with its limits, and no process outlives it.
//!
//! Isolates neither files nor network, and says so: a policy that needs them is refused unless the gap is accepted by name.
//! What it takes to start one is in `windows`.

use crate::error::{Error, Kind};
use crate::policy::Protection;
use crate::policy::protection::Strength;

/// What a job object cannot hold: a process that somebody else starts is not a child of a member.
const BY_SERVICE: &str = "a process that a service of the system was asked to start is outside of the job";

/// What is enforced, and where it ends.
#[must_use]
pub const fn strength(protection: Protection) -> Strength {
    match protection {
        Protection::FilesRead
        | Protection::FilesWrite
        | Protection::Masks
        | Protection::Network
        | Protection::Sockets
        | Protection::Privileges
        | Protection::FileSize
        | Protection::OpenFiles => Strength::Absent,
        Protection::Processes => Strength::Partial(
            "processes of the user outside can be seen, opened and ended, and a service of the system can be asked to start one there",
        ),
        Protection::Environment => Strength::Enforced,
        Protection::Memory | Protection::Procs | Protection::Time => Strength::Partial(BY_SERVICE),
        Protection::Cpu => Strength::Partial("time in the kernel is not counted"),
        Protection::Output => Strength::Partial("a process can write to the console itself"),
    }
}

/// This system has no job objects.
#[must_use]
pub fn of_windows() -> Error {
    Error::text(Kind::Backend, "cannot use backend 'jobobject': it works on Windows only")
}
