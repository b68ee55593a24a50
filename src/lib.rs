//! sandbox-run: runs one command inside an operating-system sandbox.
//!
//! ```text
//!  argv, environ
//!    |  cli::parse          what was typed                            (pure)
//!    |  config::sources     reads what was named: profiles < policy file or payload < options
//!    |  config::merge       layers over the defaults                  (pure)
//!    v
//!  policy::Policy           what the target may do                    (pure)
//!    |  + host::Host        facts, probed once
//!    v  plan::resolve
//!  plan::Plan               ordered mounts, final environment, gaps
//!    |  backend::launch     one match on Backend                      (pure)
//!    v
//!  launch::Launch           program, arguments, files to pass
//!    |  stage::outer        first side effects: start, watch, bury
//!    v
//!  -- bubblewrap | own namespaces | Landlock in process | sandbox-exec | container | nothing --
//!    |  stage::inner        verify, restrict, start the target
//!    v
//!  exit::Status             the target's own | 124 | 125 | 126 | 127 | 128+n
//! ```
//!
//! [`call`] walks this way once, with [`attempt`] for the part from policy to status, [`explain`] for a trial in the target's place and [`report`] for what machines are told; `main` renders and leaves. The library is the program's own: it promises no stable interface.

mod answer;
pub mod backend;
pub mod cli;
pub mod config;
pub mod egress;
pub mod error;
pub mod exit;
pub mod log;
pub mod policy;
pub mod windows;

#[cfg(unix)]
pub mod attempt;
#[cfg(unix)]
pub mod call;
#[cfg(unix)]
pub mod check;
#[cfg(unix)]
pub mod denials;
#[cfg(unix)]
pub mod diagnose;
#[cfg(unix)]
pub mod dry_run;
#[cfg(unix)]
pub mod engine;
#[cfg(unix)]
pub mod explain;
#[cfg(unix)]
pub mod host;
#[cfg(unix)]
pub mod launch;
#[cfg(unix)]
pub mod permissions;
#[cfg(unix)]
pub mod plan;
#[cfg(unix)]
pub mod report;
#[cfg(unix)]
pub mod seccomp;
#[cfg(unix)]
pub mod stage;
#[cfg(unix)]
pub mod sys;

#[cfg(windows)]
pub use windows::{call, diagnose, host, sys};

/// What a plan has on Windows as elsewhere.
#[cfg(windows)]
pub mod plan {
    pub mod env;
    pub mod gap;

    pub(crate) use crate::windows::paths::{expand, links};
    pub use gap::Gap;
}

/// What reports have on Windows as elsewhere.
#[cfg(windows)]
pub mod report {
    mod asked;
    mod known;
    pub mod object;

    pub use asked::{Asked, ResultTo};
    pub(crate) use known::{Chosen, Known};
}

/// What is known of a run on Windows as elsewhere.
#[cfg(windows)]
pub mod stage {
    pub mod account;
    #[path = "output/kept.rs"]
    pub(crate) mod kept;
}

/// What `--check` prints on Windows as elsewhere.
#[cfg(windows)]
pub mod check {
    pub(crate) mod report;
}
