//! The audit log: one line for each run, added at its end.
//!
//! Never locks: whoever can read a file can lock it. That lines of several runs do not mix is the kernel's doing, which
//! carries a single write at the end of a local file out as a whole.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::file::{aside, wait_for_room};

/// The log of one call, open.
#[derive(Debug)]
pub struct Log {
    file: File,
    /// Absolute, without links.
    path: PathBuf,
}

impl Log {
    /// Opens the file at its end, or makes it so that only its owner can read it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        options.append(true).create(true).mode(0o600).custom_flags(libc::O_NOCTTY);
        let file = File::from(aside(options.open(path)?.into()));
        Ok(Self { path: std::fs::canonicalize(path)?, file })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its descriptor.
    pub fn number(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Adds one line, by one write.
    pub fn append(mut self, line: &[u8]) -> io::Result<()> {
        wait_for_room(&self.file)?;
        let written = loop {
            match self.file.write(line) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        if written < line.len() {
            return Err(io::Error::other(format!("only {written} of {} bytes could be written", line.len())));
        }
        Ok(())
    }
}
