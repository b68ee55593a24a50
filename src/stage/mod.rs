//! Carrying a launch out: the outer stage on the host, the inner stage inside, and what passes between them.

mod abandoned;
pub mod account;
mod aside;
#[cfg(target_os = "linux")]
pub mod cgroup;
#[cfg(not(target_os = "linux"))]
#[path = "cgroup/none.rs"]
pub mod cgroup;
#[cfg(target_os = "linux")]
#[path = "confined/linux.rs"]
pub mod confined;
#[cfg(target_os = "macos")]
#[path = "confined/macos.rs"]
pub mod confined;
pub mod contained;
pub mod control;
#[cfg(target_os = "linux")]
#[path = "door/linux.rs"]
pub mod door;
#[cfg(target_os = "macos")]
#[path = "door/macos.rs"]
pub mod door;
pub mod fault;
mod gate;
pub mod handoff;
mod held;
mod indexes;
pub mod inner;
#[cfg(target_os = "linux")]
#[path = "inside/linux.rs"]
pub mod inside;
#[cfg(target_os = "macos")]
#[path = "inside/macos.rs"]
pub mod inside;
pub mod left;
pub mod look;
pub mod made;
pub mod mend;
#[cfg(target_os = "linux")]
#[path = "namespace/linux.rs"]
pub mod namespace;
#[cfg(target_os = "macos")]
#[path = "namespace/macos.rs"]
pub mod namespace;
pub mod outcome;
pub mod outer;
pub mod output;
pub mod planted;
pub mod private;
pub mod rlimits;
pub mod scratch;
pub mod secrets;
pub mod strace;
pub mod strays;
pub mod supervise;
pub mod terminal;
pub mod traces;
pub mod trial;
pub mod way_out;
