//! Carrying a launch out: the outer stage on the host, the inner stage inside, and what passes between them.

pub mod account;
#[cfg(target_os = "linux")]
pub mod cgroup;
#[cfg(not(target_os = "linux"))]
#[path = "cgroup/none.rs"]
pub mod cgroup;
pub mod control;
pub mod handoff;
mod held;
pub mod inner;
#[cfg(target_os = "linux")]
#[path = "inside/linux.rs"]
pub mod inside;
#[cfg(target_os = "macos")]
#[path = "inside/macos.rs"]
pub mod inside;
pub mod left;
pub mod made;
pub mod mend;
pub mod outcome;
pub mod outer;
pub mod output;
pub mod private;
pub mod rlimits;
pub mod strace;
pub mod strays;
pub mod supervise;
pub mod terminal;
pub mod traces;
pub mod trial;
