//! Ends planning where somebody asks for an end: signals are blocked by then, and there is no target yet that could have them.
//!
//! Takes no signal, so that whoever asks next hears the same.

use crate::error::{Error, Kind, Result};
use crate::sys::signals;

/// An error if a signal that asks for an end waits. Costs a system call: for each directory, not for each name.
pub fn heed() -> Result<()> {
    match signals::waiting() {
        Some(signal) => {
            Err(Error::text(Kind::Interrupted(signal), "cannot start the command: interrupted by a signal"))
        }
        None => Ok(()),
    }
}
