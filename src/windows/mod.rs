//! What is done on Windows: a target inside a job object.
//!
//! What only computes is compiled on every system, and tested there; the rest is for Windows alone. Unsafe code is in
//! the modules whose first line allows it, and in no other.

pub mod begin;
pub mod command_line;
pub mod limits;
pub mod program;

#[cfg(windows)]
mod backend;
#[cfg(windows)]
pub mod call;
#[cfg(windows)]
pub mod check;
#[cfg(windows)]
pub mod console;
#[cfg(windows)]
pub mod diagnose;
#[cfg(windows)]
pub mod dry_run;
#[cfg(windows)]
pub mod host;
#[cfg(windows)]
pub mod job;
#[cfg(windows)]
pub mod paths;
#[cfg(windows)]
pub mod plan;
#[cfg(windows)]
pub mod report;
#[cfg(windows)]
pub mod run;
#[cfg(windows)]
pub mod spawn;
#[cfg(windows)]
pub mod streams;
#[cfg(windows)]
pub mod supervise;
#[cfg(windows)]
pub mod sys;
