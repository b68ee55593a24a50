//! Escapes that hit other sandboxes, tried here as they were carried out there; `docs/escapes.md` says which.
//!
//! Only what no file about a behaviour tries already: most escapes are tried where the behaviour that closes them is.

mod descriptors;
mod files;
mod kernel;
mod later;
mod launcher;
mod processes;
mod secrets;
mod streams;
mod terminals;

use crate::harness::{Call, World, find};

/// A Python program, outside or, with options, inside.
fn python(world: &World, options: Option<&[&str]>, script: &str, words: &[&str]) -> Call {
    let python = find("python3").expect("python3");
    let program = ["-c", script];
    match options {
        None => world.call(python, program.iter().chain(words)),
        Some(options) => world.run([options, &["--", python.to_str().expect("text")], &program, words].concat()),
    }
}
