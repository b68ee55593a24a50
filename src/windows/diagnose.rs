//! Causes and remedies that only this system knows.

use crate::backend::Backend;
use crate::error::{Error, Kind, Result};
use crate::policy::Protection;

/// What helps where a limit on a whole tree has nobody to keep it: here a job does.
#[must_use]
pub fn without_group(_: Protection, _: &str) -> Option<&'static str> {
    None
}

/// Refuses a backend that this system does not have.
pub fn elsewhere(backend: Backend) -> Result<()> {
    match backend.elsewhere() {
        None => Ok(()),
        Some(system) => {
            Err(Error::text(Kind::Backend, format!("cannot use backend '{backend}': it works on {system} only")))
        }
    }
}
