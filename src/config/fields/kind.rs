//! What a key of a document takes: its type, as people say it, and the words that it knows.

use crate::backend::Backend;
use crate::config::document::{AUTO, SESSIONS};
use crate::policy::Protection;
use crate::policy::hidden::Overflow;
use crate::policy::limits::OutputOverflow;

/// What a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A whole number, and the least that it can be.
    Count(u64),
    /// A number of bytes, or text with a unit, and the least that it can be.
    Size(u64),
    /// Text with a unit.
    Duration,
    /// Text with a unit that comes to whole seconds, at least one.
    Seconds,
    /// A path.
    Path,
    /// The name of a container image.
    Image,
    /// A list of paths.
    Paths,
    /// A list of rules about hosts.
    HostRules,
    /// A list of words about secrets.
    Credentials,
    /// The URL of a proxy, or where it is read.
    Upstream,
    /// The number of a port.
    Port,
    /// A list of names of profiles.
    Profiles,
    /// A list of names of variables.
    VariableNames,
    /// A list of names that begin with a dot, or `*`.
    HiddenNames,
    /// A list of words about variables.
    Variables,
    /// A table of text by variable.
    Values,
    /// A list of numbers of at least 3.
    Descriptors,
    /// Backends in one string, separated by commas.
    Backends,
    /// A list of protections.
    Protections,
    /// `error`, `warn` or `unlimited`.
    Overflow,
    /// `truncate` or `kill`.
    OutputOverflow,
    /// `auto`, `always` or `never`.
    Session,
}

impl Kind {
    /// The type as people say it.
    #[must_use]
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Boolean => "true or false",
            Self::Count(_) => "positive integer",
            Self::Size(_) => "integer, or string with K, M, G or T",
            Self::Duration | Self::Seconds => "string with ms, s, m or h",
            Self::Path => "path",
            Self::Image => "name of an image",
            Self::Paths => "list of paths",
            Self::HostRules => "list of rules",
            Self::Credentials => "list of strings",
            Self::Upstream => "URL of a proxy",
            Self::Port => "integer from 1 to 65535",
            Self::Profiles | Self::VariableNames => "list of names",
            Self::HiddenNames => "list of names that begin with a dot",
            Self::Variables => "list of words",
            Self::Values => "table of strings",
            Self::Descriptors => "list of integers from 3",
            Self::Backends => "string, a comma list",
            Self::Protections => "list of protections",
            Self::Overflow | Self::OutputOverflow | Self::Session => "one of the words below",
        }
    }

    /// The words to choose from, where there is a fixed set of them.
    #[must_use]
    pub fn words(self) -> Vec<&'static str> {
        match self {
            Self::Backends => [AUTO].into_iter().chain(Backend::ALL.map(Backend::word)).collect(),
            Self::Protections => Protection::ALL.map(Protection::word).to_vec(),
            Self::Overflow => Overflow::ALL.map(Overflow::word).to_vec(),
            Self::OutputOverflow => OutputOverflow::ALL.map(OutputOverflow::word).to_vec(),
            Self::Session => SESSIONS.map(|(word, _)| word).to_vec(),
            Self::Boolean
            | Self::Count(_)
            | Self::Size(_)
            | Self::Duration
            | Self::Seconds
            | Self::Path
            | Self::Image
            | Self::Paths
            | Self::HostRules
            | Self::Credentials
            | Self::Upstream
            | Self::Port
            | Self::Profiles
            | Self::VariableNames
            | Self::HiddenNames
            | Self::Variables
            | Self::Values
            | Self::Descriptors => Vec::new(),
        }
    }
}
