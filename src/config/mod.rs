//! From what was typed to what is meant: layers of optional settings, merged into one policy.
//!
//! Pure: nothing here reads a file or the environment.

pub mod document;
pub mod fields;
pub mod file;
pub mod layer;
pub mod payload;
pub mod print;
pub mod profiles;
pub mod record;
pub mod sources;

pub use layer::{Layer, Set, merge};
