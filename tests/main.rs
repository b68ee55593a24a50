//! The integration tests: one program, one file per behaviour.

#![allow(clippy::disallowed_methods, reason = "tests call programs and read their own environment")]
#![allow(dead_code, reason = "the harness serves all files")]

mod arguments;
mod budget;
mod docs;
mod harness;
