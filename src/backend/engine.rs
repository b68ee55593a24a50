//! Programs that start containers, by their names.

/// A program that starts containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Engine {
    /// Whichever is found, podman first: it needs no service that is root.
    Any,
    /// `podman`.
    Podman,
    /// `docker`.
    Docker,
}

impl Engine {
    /// The word on the command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Any => "container",
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }

    /// The programs to look for, in this order.
    #[must_use]
    pub const fn candidates(self) -> &'static [Self] {
        match self {
            Self::Any => &[Self::Podman, Self::Docker],
            Self::Podman => &[Self::Podman],
            Self::Docker => &[Self::Docker],
        }
    }
}
