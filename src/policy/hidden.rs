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

/// Names one by one, and what holds for all the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// What becomes of names that are not listed.
    pub others: Others,
    /// Each a single path component.
    pub listed: BTreeSet<OsString>,
}

/// What becomes of names that nobody listed, from the narrowest to the widest. Well-known secrets are hidden by each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Others {
    /// They are hidden: the list counts alone.
    #[default]
    Hidden,
    /// Those of [`DEFAULT_SHOWN`] stay visible, and what git has.
    Default,
    /// All stay visible.
    AllButSecrets,
}

impl Names {
    /// Whether `name` stays visible where it is no well-known secret.
    #[must_use]
    pub fn contains(&self, name: &OsStr) -> bool {
        self.others == Others::AllButSecrets || self.vouches_for(name)
    }

    /// Whether `name` is listed, or on the default list where that belongs to it: by somebody's word, and not only because
    /// nothing speaks against it.
    #[must_use]
    pub fn vouches_for(&self, name: &OsStr) -> bool {
        self.listed.contains(name) || (!self.counts_alone() && is_default(name))
    }

    /// Whether nothing is shown but what is listed.
    #[must_use]
    pub fn counts_alone(&self) -> bool {
        self.others == Others::Hidden
    }
}

impl Shown {
    /// What holds when nobody says anything: the list of [`DEFAULT_SHOWN`].
    #[must_use]
    pub fn by_default() -> Self {
        Self::Names(Names { others: Others::Default, listed: BTreeSet::new() })
    }

    /// Exactly these.
    #[must_use]
    pub fn only(listed: BTreeSet<OsString>) -> Self {
        Self::Names(Names { others: Others::Hidden, listed })
    }

    /// What a list says in which [`ALL_NAMES`], [`ALL_BUT_SECRETS`] and [`DEFAULT_NAMES`] are words.
    #[must_use]
    pub fn of_words(words: impl IntoIterator<Item = OsString>) -> Self {
        let mut listed: BTreeSet<OsString> = words.into_iter().collect();
        let mut said = |word: &str| listed.remove(OsStr::new(word));
        let [all, all_but_secrets, default] = [ALL_NAMES, ALL_BUT_SECRETS, DEFAULT_NAMES].map(&mut said);
        if all {
            return Self::All;
        }
        let others = match (all_but_secrets, default) {
            (true, _) => Others::AllButSecrets,
            (false, true) => Others::Default,
            (false, false) => Others::Hidden,
        };
        Self::Names(Names { others, listed })
    }

    /// What this list of words shows, and what `self` shows.
    #[must_use]
    pub fn and(self, more: &BTreeSet<OsString>) -> Self {
        match (self, Self::of_words(more.iter().cloned())) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::Names(mut names), Self::Names(more)) => {
                names.others = names.others.max(more.others);
                names.listed.extend(more.listed);
                Self::Names(names)
            }
        }
    }
}

/// Stands for every name in a list.
pub const ALL_NAMES: &str = "*";

/// Stands for every name but those of well-known secrets; no hidden name is like it.
pub const ALL_BUT_SECRETS: &str = "all-but-secrets";

/// Stands for the names of the default list, in files; no hidden name is like it.
pub const DEFAULT_NAMES: &str = "default";

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

/// Whether `name` can be listed: a single part of a path that begins with a dot, [`ALL_NAMES`] or [`ALL_BUT_SECRETS`].
pub fn check_name(name: &OsStr) -> Result<(), String> {
    let text = name.display().to_string();
    let shown = log::excerpt(&text, log::WORD_SHOWN_MAX);
    let separated = name.as_encoded_bytes().iter().any(|&byte| std::path::is_separator(char::from(byte)));
    if separated || name.is_empty() || name == "." || name == ".." {
        return Err(format!("'{shown}' is not the name of a file: a single part of a path"));
    }
    if !is_hidden(name) && name != ALL_NAMES && name != ALL_BUT_SECRETS {
        return Err(format!(
            "'{shown}' shows nothing: hidden names begin with a dot, '{ALL_BUT_SECRETS}' stands for all but well-known secrets, and \
             '{ALL_NAMES}' alone for all of them"
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
