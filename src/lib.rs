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
//!  ------ bubblewrap | Landlock in process | sandbox-exec | nothing ------
//!    |  stage::inner        verify, restrict, start the target
//!    v
//!  exit::Status             the target's own | 124 | 125 | 126 | 127 | 128+n
//! ```
//!
//! [`call`] walks this way once, with [`attempt`] for the part from policy to status, [`explain`] for a trial in the target's place and [`report`] for what machines are told; `main` renders and leaves. The library is the program's own: it promises no stable interface.

pub mod attempt;
pub mod backend;
pub mod call;
pub mod check;
pub mod cli;
pub mod config;
pub mod denials;
pub mod diagnose;
pub mod dry_run;
pub mod error;
pub mod exit;
pub mod explain;
pub mod host;
pub mod launch;
pub mod log;
pub mod plan;
pub mod policy;
pub mod report;
pub mod seccomp;
pub mod stage;
pub mod sys;
