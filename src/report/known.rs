//! What is learnt for a report on the way to the end of a run.

use crate::backend::Backend;
use crate::plan::Gap;
use crate::stage::account::Account;

/// What is known before the end.
#[derive(Debug, Default)]
pub struct Known {
    pub(super) policy_sha256: Option<String>,
    pub(super) chosen: Option<Chosen>,
    pub(super) account: Account,
}

/// What a report says about the plan that runs.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) backend: Backend,
    pub(super) gaps: Vec<Gap>,
    pub(super) env_dropped: Vec<String>,
}
