//! The integration tests: one program, one file per behaviour.

#![allow(clippy::disallowed_methods, reason = "tests call programs and read their own environment")]
#![allow(dead_code, reason = "the harness serves all files")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a skipped test prints why")]

mod aliases;
mod arguments;
mod audit;
mod backends;
mod budget;
mod bystanders;
mod cgroup;
mod check;
mod descriptors;
mod diagnostics;
mod docs;
mod dots;
mod environment;
mod escapes;
mod every_signal;
mod examples;
mod exit;
mod explain;
mod exposure;
mod fakes;
mod forgery;
mod fuzz;
mod git;
mod git_made;
mod grants;
mod harness;
mod held;
mod hidden;
mod hints;
mod hooks;
mod inheritance;
mod layers;
mod left_behind;
mod life;
mod limits;
mod load;
mod made;
mod masks;
mod matrix;
mod nesting;
mod network;
mod output;
mod payload;
mod payload_fields;
mod places;
mod plans;
mod policy;
mod precedence;
mod printing;
mod privileges;
mod profiles;
mod programs;
mod properties;
mod pty;
mod readme;
mod result;
mod rlimits;
mod seccomp;
mod signals;
mod sockets;
mod streams;
mod targets;
mod terminal;
mod time;
mod toolchains;
mod trace;
mod tracked;
mod untouched;
mod view;
mod walls;
mod wire;
