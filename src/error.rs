//! The one error type that crosses stage boundaries: what kind of failure, why, and what would help.
//!
//! Inside a module errors are `anyhow`; at a boundary they become an [`Error`] with a closed [`Kind`]. Only `exit` turns a
//! kind into a number, only `main` prints.

use std::fmt;

use crate::log;

/// What went wrong, as far as the caller's reaction differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The command line cannot be understood.
    Usage,
    /// The policy cannot be carried out as written: a missing path, a bad name, a hidden working directory.
    Policy,
    /// A protection that was asked for cannot be enforced by any backend of the list.
    Gap,
    /// No backend could start the target.
    Backend,
    /// The target does not exist.
    NotFound,
    /// The target exists on the host and is hidden by the policy.
    Hidden,
    /// The target exists and cannot be executed, or its interpreter is missing.
    NotExecutable,
    /// A signal with this number asks for an end before the target has started: it ends this process, as if nobody had blocked it.
    Interrupted(i32),
}

/// A failure before the target ran.
///
/// Displays as one line: `cannot …: reason`, lower case, no full stop, quoting what was typed.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    source: anyhow::Error,
    hints: Vec<String>,
}

/// The result of every function at a stage boundary.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of `kind` with its cause; an `anyhow` chain is joined with `: `.
    pub fn new(kind: Kind, source: impl Into<anyhow::Error>) -> Self {
        Self { kind, source: source.into(), hints: Vec::new() }
    }

    /// An error of `kind` from text.
    pub fn text(kind: Kind, text: impl Into<String>) -> Self {
        Self::new(kind, anyhow::Error::msg(text.into()))
    }

    /// The same error with one more remedy; each is printed on a line of its own after `sandbox-run: hint: `.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        let hint = hint.into();
        // Two backends may fail for the same reason, with the same remedy.
        if !self.hints.contains(&hint) {
            self.hints.push(hint);
        }
        self
    }

    /// What went wrong, as far as the exit status needs to know.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Remedies, most likely first.
    #[must_use]
    pub fn hints(&self) -> &[String] {
        &self.hints
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&log::readable(&format!("{:#}", self.source)))
    }
}

impl std::error::Error for Error {}

/// Gives an `anyhow` failure the kind under which it crosses a boundary.
pub trait ResultExt<T> {
    /// Wraps the failure as an [`Error`] of `kind`.
    fn kind(self, kind: Kind) -> Result<T>;
}

impl<T, E: Into<anyhow::Error>> ResultExt<T> for std::result::Result<T, E> {
    fn kind(self, kind: Kind) -> Result<T> {
        self.map_err(|source| Error::new(kind, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_is_told_once() {
        let error = Error::text(Kind::Gap, "x").hint("a").hint("b").hint("a");
        assert_eq!(error.hints(), ["a", "b"]);
    }
}
