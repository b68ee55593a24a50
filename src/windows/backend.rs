//! How far each backend enforces a policy on this system.

use crate::backend::{Backend, jobobject};
use crate::policy::Protection;
use crate::policy::protection::Strength;

impl Backend {
    /// How far this backend enforces `protection` where it works at all.
    #[must_use]
    pub fn strength(self, protection: Protection) -> Strength {
        match self {
            // The same job, without its restrictions.
            Self::JobObject | Self::None => jobobject::strength(protection),
            Self::Bwrap | Self::Namespace | Self::Landlock | Self::Seatbelt | Self::Container(_) => Strength::Absent,
        }
    }
}
