//! The integration tests: one program, one file per behaviour.

#![allow(clippy::disallowed_methods, reason = "tests call programs and read their own environment")]
#![allow(dead_code, reason = "the harness serves all files")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a skipped test prints why")]

mod arguments;
mod backends;
mod budget;
mod bystanders;
mod check;
mod descriptors;
mod diagnostics;
mod docs;
mod environment;
mod examples;
mod exit;
mod exposure;
mod fakes;
mod forgery;
mod fuzz;
mod git;
mod grants;
mod harness;
mod hidden;
mod hooks;
mod inheritance;
mod layers;
mod life;
mod masks;
mod nesting;
mod network;
mod payload;
mod payload_fields;
mod plans;
mod policy;
mod precedence;
mod printing;
mod privileges;
mod profiles;
mod properties;
mod pty;
mod readme;
mod signals;
mod sockets;
mod streams;
mod targets;
mod terminal;
mod view;
mod walls;
mod wire;
