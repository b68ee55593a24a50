//! One table of the keys of a document: what each takes, what holds without it, what it means, what backends do with it.
//!
//! Manual page, JSON schema and suggestions come from it; a test holds it against the type that is read.

mod container;
mod jobobject;
mod kind;
mod namespace;
mod near;
mod table;

use crate::backend::Backend;

pub use kind::Kind;
pub use near::{is_slip_of, nearest, remark};
pub use table::FIELDS;

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name.
    pub key: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What holds when no source has the key.
    pub default: &'static str,
    /// What its numbers count; empty when it has none.
    pub unit: &'static str,
    /// What it means, one paragraph.
    pub about: &'static str,
    /// What bubblewrap does with it.
    bwrap: &'static str,
    /// What Landlock does with it.
    landlock: &'static str,
    /// What Seatbelt does with it.
    seatbelt: &'static str,
    /// What the backend without isolation does with it.
    none: &'static str,
    /// Other words that people write for it: of options, of other programs.
    guesses: &'static [&'static str],
}

impl Field {
    /// What a backend does with the key.
    #[must_use]
    pub fn does(&self, backend: Backend) -> &'static str {
        match backend {
            Backend::Bwrap => self.bwrap,
            Backend::Namespace => namespace::does(self.key).unwrap_or(self.bwrap),
            Backend::Landlock => self.landlock,
            Backend::Seatbelt => self.seatbelt,
            Backend::Container(_) => container::does(self.key).unwrap_or(self.bwrap),
            Backend::JobObject => jobobject::does(self.key).unwrap_or(self.none),
            Backend::None => self.none,
        }
    }
}

#[cfg(test)]
mod tests;
