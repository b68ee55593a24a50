//! How an attempt to run a plan ends, and why a backend fails.

use std::fmt;
use std::io;

use super::cgroup::Wants;
use super::control::Step;
use crate::diagnose::NESTED;
use crate::exit::Status;
use crate::sys::process::describe;

/// How an attempt to run a plan ended.
#[derive(Debug)]
pub enum Outcome {
    /// The target ran, and this is how it ended.
    Ended(Status),
    /// Everything was ready, but the target could not be executed: error number.
    NotExecuted(i32),
    /// The backend failed before the target started; another one may be tried.
    NotStarted(Reason),
}

/// Why a backend failed.
#[derive(Debug)]
pub struct Reason {
    /// The step of the inner stage, if it got that far.
    pub step: Option<Step>,
    /// In our words.
    pub text: String,
    /// What the launcher program printed on its standard error.
    pub said: String,
    /// Whether it was still at it when its time was over.
    pub hung: bool,
    /// Whether it is the control group that could not be had.
    pub group: bool,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        let said = self.said.lines().next().unwrap_or_default().trim();
        if said.is_empty() { Ok(()) } else { write!(f, ": {said}") }
    }
}

impl Reason {
    /// What we could not do on the way to the launcher.
    pub(super) fn of(what: &str, error: &io::Error) -> Self {
        Self {
            step: None,
            text: format!("cannot {what}: {}", describe(error)),
            said: String::new(),
            hung: false,
            group: false,
        }
    }
}

impl Reason {
    /// There is no control group after all, although one looked possible.
    pub(super) fn without_group(wants: &Wants, error: &io::Error) -> Self {
        Self { group: true, ..Self::of(&format!("limit {}", wants.subject()), error) }
    }
}

impl Reason {
    /// The launcher was refused because of a sandbox around us.
    #[must_use]
    pub fn nested(self) -> Self {
        Self { text: NESTED.into(), said: String::new(), ..self }
    }
}

impl From<io::Error> for Reason {
    fn from(error: io::Error) -> Self {
        Self { step: None, text: describe(&error), said: String::new(), hung: false, group: false }
    }
}

impl From<nix::errno::Errno> for Reason {
    fn from(errno: nix::errno::Errno) -> Self {
        io::Error::from(errno).into()
    }
}
