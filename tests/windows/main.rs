//! The integration tests of Windows: the real program, on Windows or under wine; `tests/cross-windows` runs them there.

#![cfg(windows)]
#![allow(clippy::disallowed_methods, reason = "tests call programs and read their own environment")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::zombie_processes, reason = "a process that is left behind is what is tested")]
#![allow(clippy::print_stdout, clippy::exit, reason = "the helper is a program")]

mod environment;
mod exit;
mod gaps;
mod handles;
mod harness;
mod helper;
mod limits;
mod processes;
mod result;
mod streams;
