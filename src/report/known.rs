//! What is learnt for a report on the way to the end of a run.

use crate::backend::Backend;
use crate::plan::Gap;
use crate::stage::account::Account;

/// What is known before the end.
#[derive(Debug, Default)]
pub struct Known {
    pub(crate) policy_sha256: Option<String>,
    pub(crate) chosen: Option<Chosen>,
    pub(crate) account: Account,
}

/// What a report says about the plan that runs.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) backend: Backend,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) env_dropped: Vec<String>,
}
