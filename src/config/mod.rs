//! From what was typed to what is meant: layers of optional settings, merged into one policy.
//!
//! Pure: nothing here reads a file or the environment.

pub mod layer;

pub use layer::{Layer, merge};
