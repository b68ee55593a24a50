//! Sessions have no keyring on this system.

use std::io;

/// There is none to leave.
pub fn leave() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
