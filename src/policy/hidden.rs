//! Which names that begin with a dot are visible below the working directory and grants.

mod shown;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

use crate::log;

pub use shown::{DEFAULT_SHOWN, matches};

/// What to do when a scan reaches its limit before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Refuse to start.
    Error,
    /// Start with what was found, and say so.
    Warn,
    /// There is no limit.
    Unlimited,
}

impl Overflow {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Error, Self::Warn, Self::Unlimited];

    /// The word in files and on the command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Unlimited => "unlimited",
        }
    }
}

/// Names that stay visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Every name: nothing is scanned.
    All,
    /// These.
    Names(Names),
}

/// A list of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Whether those of [`DEFAULT_SHOWN`] belong to it.
    pub default: bool,
    /// The others, each a single path component.
    pub listed: BTreeSet<OsString>,
}

impl Names {
    /// Whether `name` is on the list.
    #[must_use]
    pub fn contains(&self, name: &OsStr) -> bool {
        self.listed.contains(name) || (self.default && shown::is_default(name.as_encoded_bytes()))
    }
}

impl Shown {
    /// What holds when nobody says anything: the list of [`DEFAULT_SHOWN`].
    #[must_use]
    pub fn by_default() -> Self {
        Self::Names(Names { default: true, listed: BTreeSet::new() })
    }

    /// Exactly these.
    #[must_use]
    pub fn only(listed: BTreeSet<OsString>) -> Self {
        Self::Names(Names { default: false, listed })
    }

    /// These, and what `self` shows.
    #[must_use]
    pub fn and(self, more: &BTreeSet<OsString>) -> Self {
        match self {
            Self::All => Self::All,
            Self::Names(_) if more.contains(OsStr::new(ALL_NAMES)) => Self::All,
            Self::Names(mut names) => {
                names.listed.extend(more.iter().cloned());
                Self::Names(names)
            }
        }
    }
}

/// Stands for every name in a list.
pub const ALL_NAMES: &str = "*";

/// Whether a file of this name is hidden at all.
#[must_use]
pub fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// Whether `name` stays visible when nobody says which do.
#[must_use]
pub fn is_default(name: &OsStr) -> bool {
    shown::is_default(name.as_encoded_bytes())
}

/// Whether `name` can be listed: a single part of a path that begins with a dot, or [`ALL_NAMES`].
pub fn check_name(name: &OsStr) -> Result<(), String> {
    let text = name.display().to_string();
    let shown = log::excerpt(&text, log::WORD_SHOWN_MAX);
    let separated = name.as_encoded_bytes().iter().any(|&byte| std::path::is_separator(char::from(byte)));
    if separated || name.is_empty() || name == "." || name == ".." {
        return Err(format!("'{shown}' is not the name of a file: a single part of a path"));
    }
    if !is_hidden(name) && name != ALL_NAMES {
        return Err(format!(
            "'{shown}' shows nothing: hidden names begin with a dot, and '{ALL_NAMES}' alone stands for all of them"
        ));
    }
    Ok(())
}

/// The rule about hidden names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hidden {
    /// Names that stay visible.
    pub shown: Shown,
    /// How many directory entries a scan looks at.
    pub max_entries: u64,
    /// What happens at that number.
    pub overflow: Overflow,
    /// Whether directories below the top of each scanned place are looked at as well.
    pub recursive: bool,
}

/// How many directory entries a scan looks at when nothing else was asked for: more than there are in ordinary directories of
/// dependencies and build results, a fifth of a second.
pub const DEFAULT_MAX_ENTRIES: u64 = 500_000;
