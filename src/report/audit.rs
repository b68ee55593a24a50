//! The audit log: one line for each run, added at its end.
//!
//! Never locks: whoever can read a file can lock it. That lines of several runs do not mix is the kernel's doing, which
//! carries a single write at the end of a local file out as a whole. A pipe does that for short ones only, and is no log.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::file::{aside, same, wait_for_room, way_of};
use super::way::Way;
use crate::sys;

/// How long a line without an end is given to grow: another run may be writing it.
const GROWTH: Duration = Duration::from_millis(50);

/// How many times that.
const ROUNDS: u32 = 40;

/// The log of one call, open.
#[derive(Debug)]
pub struct Log {
    file: File,
    way: Option<Way>,
    /// Whether we made it.
    made: bool,
}

impl Log {
    /// Opens the file that the absolute `path` leads to at its end, or makes it so that only its owner can read it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let way = Way::follow(path)?;
        let mut options = File::options();
        // Whatever it is by now, opening it shall not wait.
        options.append(true).mode(0o600).custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK);
        let mut made = false;
        let opened = if let Some(number) = way.descriptor {
            let place = sys::fd::name(number);
            refuse_streams(&std::fs::metadata(&place)?)?;
            options.open(place)?
        } else {
            way.found.as_ref().map_or(Ok(()), refuse_streams)?;
            options.custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK | libc::O_NOFOLLOW);
            match options.clone().create_new(true).open(way.end()) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.create(true).open(way.end())?,
                opened => {
                    made = opened.is_ok();
                    opened?
                }
            }
        };
        refuse_streams(&opened.metadata()?)?;
        fcntl(&opened, FcntlArg::F_SETFL(OFlag::O_APPEND))?;
        let file = File::from(aside(opened.into()));
        let way = if way.descriptor.is_some() { way_of(&file) } else { Some(way) };
        Ok(Self { file, way, made })
    }

    /// The way that a reader of it takes.
    pub fn way(&self) -> Option<&Way> {
        self.way.as_ref()
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Its descriptor.
    pub fn number(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Whether adding to it could be adding to something else: a link is on the way, or the file has a second name.
    pub fn may_be_another(&self) -> bool {
        self.way.as_ref().is_some_and(|way| way.detour().is_some())
            || self.file.metadata().is_ok_and(|found| found.is_file() && found.nlink() > 1)
    }

    /// Closes it unused, and removes it if it was not there before.
    pub fn discard(self) {
        let Some(way) = self.way.filter(|_| self.made) else { return };
        let ours = |found: &std::fs::Metadata| self.file.metadata().is_ok_and(|own| same(&own, found));
        if std::fs::symlink_metadata(way.end()).is_ok_and(|found| found.len() == 0 && ours(&found)) {
            let _removed = std::fs::remove_file(way.end());
        }
    }

    /// Adds one line, by one write.
    pub fn append(mut self, line: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::new();
        if self.ends_in_half_a_line() {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(line);
        wait_for_room(&self.file)?;
        let written = loop {
            match self.file.write(&bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        if written < bytes.len() {
            return Err(io::Error::other(format!("only {written} of {} bytes could be written", bytes.len())));
        }
        Ok(())
    }

    /// Whether a full disk or the like has left a line without its end.
    fn ends_in_half_a_line(&self) -> bool {
        if !self.file.metadata().is_ok_and(|found| found.is_file()) {
            return false;
        }
        // A log that we can only add to is left as it is.
        let Ok(reader) = File::open(sys::fd::name(self.number())) else { return false };
        let mut length = None;
        for _ in 0..ROUNDS {
            // Writes nothing, but waits until a write that is under way has ended: half of one can be seen before.
            let _waited = (&self.file).write(&[]);
            let now = match reader.metadata() {
                Ok(found) if found.len() > 0 => found.len(),
                _ => return false,
            };
            let mut last = [0];
            if reader.read_exact_at(&mut last, now - 1).is_err() || last == *b"\n" {
                return false;
            }
            if length == Some(now) {
                return true;
            }
            length = Some(now);
            std::thread::sleep(GROWTH);
        }
        false
    }
}

fn refuse_streams(found: &std::fs::Metadata) -> io::Result<()> {
    let kind = found.file_type();
    if kind.is_file() || kind.is_char_device() || kind.is_dir() {
        return Ok(());
    }
    let what = if kind.is_fifo() { "a pipe" } else { "neither a file nor a terminal or the like" };
    Err(io::Error::other(format!("it is {what}, and lines of several runs could mix there")))
}
