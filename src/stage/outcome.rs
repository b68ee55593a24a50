//! How an attempt to run a plan ends, and why a backend fails.

use std::fmt;
use std::io;
use std::time::Duration;

use super::account::Usage;
use super::cgroup::Wants;
use super::control::Step;
use super::fault::Fault;
use crate::diagnose::NESTED;
use crate::error::{Error, Kind};
use crate::exit::Status;
use crate::sys::process::describe;

/// How an attempt to run a plan ended.
#[derive(Debug)]
pub enum Outcome {
    /// The target ran, and this is how it ended.
    Ended(Status),
    /// Everything was ready, but the target could not be executed: error number.
    NotExecuted(i32),
    /// There is no such target where it was looked for inside, or it cannot be executed.
    Unfit(Error),
    /// The backend failed before the target started; another one may be tried.
    NotStarted(Reason),
}

/// Why a backend failed.
#[derive(Debug, Default)]
pub struct Reason {
    /// What the process that builds a sandbox around itself could not do, if it is that.
    pub fault: Option<Fault>,
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
        Self { text: format!("cannot {what}: {}", describe(error)), ..Self::default() }
    }
}

impl Reason {
    /// Whether it is the limit on open files, of whichever process.
    #[must_use]
    pub fn lacks_descriptors(&self) -> bool {
        let words = crate::sys::process::reason(libc::EMFILE);
        let said = self.said.lines().next().unwrap_or_default().to_ascii_lowercase();
        [self.text.as_str(), said.trim()].iter().any(|text| text.ends_with(&words))
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
        Self { text: describe(&error), ..Self::default() }
    }
}

impl From<Fault> for Reason {
    fn from(fault: Fault) -> Self {
        Self { text: fault.to_string(), fault: Some(fault), ..Self::default() }
    }
}

impl From<nix::errno::Errno> for Reason {
    fn from(errno: nix::errno::Errno) -> Self {
        io::Error::from(errno).into()
    }
}

/// What follows a report that the target cannot be started: its kind, what is wrong, and what would help.
#[derive(Debug)]
pub struct Refusal;

impl Refusal {
    /// As it is sent.
    #[must_use]
    pub fn of(error: &Error) -> Vec<u8> {
        let kind = if error.kind() == Kind::NotFound { "not-found" } else { "not-executable" };
        let texts = [kind.to_owned(), error.to_string()].into_iter().chain(error.hints().iter().cloned());
        texts.flat_map(|text| [text.into_bytes(), vec![0]].concat()).collect()
    }

    /// As it was sent; `None` when it is no such thing.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Error> {
        let mut texts = bytes.strip_suffix(b"\0")?.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let kind = match &*texts.next()? {
            "not-found" => Kind::NotFound,
            "not-executable" => Kind::NotExecutable,
            _ => return None,
        };
        let error = Error::text(kind, texts.next()?);
        Some(texts.fold(error, Error::hint))
    }
}

/// What follows a report about what was used: three numbers.
#[derive(Debug)]
pub struct Used;

impl Used {
    /// Of all that this process has taken in, as it is sent.
    #[must_use]
    pub fn now() -> Vec<u8> {
        let Usage { user, system, max_rss_kib } = crate::sys::process::usage_of_children();
        format!("{} {} {max_rss_kib}", user.as_micros(), system.as_micros()).into_bytes()
    }

    /// As it was sent.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Usage> {
        let mut numbers = str::from_utf8(bytes).ok()?.split(' ').map(|word| word.parse::<u64>().ok());
        let mut next = || numbers.next().flatten();
        let (user, system) = (Duration::from_micros(next()?), Duration::from_micros(next()?));
        Some(Usage { user, system, max_rss_kib: next()? })
    }
}
