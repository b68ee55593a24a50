//! Carrying a launch out: the outer stage on the host, the inner stage inside, and what passes between them.

pub mod account;
pub mod cgroup;
pub mod control;
pub mod cover;
pub mod handoff;
mod held;
pub mod inner;
pub mod left;
pub mod made;
pub mod mend;
pub mod outcome;
pub mod outer;
pub mod output;
pub mod rlimits;
pub mod strace;
pub mod strays;
pub mod supervise;
pub mod terminal;
pub mod traces;
pub mod trial;
