//! A tracer beside the target: how it is started, and reading what it writes.
//!
//! It runs inside, under the same filter and wall as the target, and its words are no more to be trusted than the target's: they
//! make a report and decide nothing.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::handoff;
use super::output::PATIENCE;
use crate::denials::{Denials, traced};
use crate::plan::Plan;
use crate::plan::trace::Trace;
use crate::sys;

/// The least number under which the tracer finds its end of the pipe. The target inherits it: out of the way of what programs
/// and shells open by number.
const NUMBER: RawFd = 200;

/// The longest line that is looked at, in bytes.
const LINE: usize = 64 << 10;

/// The most that is read before others have their turn, in reads.
const TURN: u32 = 32;

/// A tracer that is about to be started.
#[derive(Debug)]
pub struct Strace {
    /// What to execute instead of the target.
    pub program: PathBuf,
    /// Its arguments.
    pub argv: Vec<OsString>,
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Strace {
    /// Makes the pipe.
    pub fn start(trace: &Trace, plan: &Plan) -> io::Result<Self> {
        let (reader, writer) = sys::fd::pipe()?;
        fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        // A limit on open files may be lower.
        let writer = sys::fd::duplicate_above(&writer, NUMBER).or_else(|_| writer.as_fd().try_clone_to_owned())?;
        // `-D`: the target stays our child, so that signals, stops and its status go as without a tracer.
        let options = ["strace", "-D", "-qq", "-f", "-y", "-e"];
        let mut argv: Vec<OsString> = options.map(OsString::from).to_vec();
        argv.extend([calls(plan).into(), "-o".into()]);
        argv.push(sys::fd::name(writer.as_raw_fd()).into());
        argv.push("--".into());
        argv.extend(trace.command.iter().cloned());
        Ok(Self { program: trace.program.clone(), argv, reader, writer })
    }

    /// The descriptor that has to reach the tracer.
    #[must_use]
    pub fn number(&self) -> RawFd {
        self.writer.as_raw_fd()
    }

    /// The descriptor that is for us alone.
    #[must_use]
    pub fn reader(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// Lets go of the tracer's end.
    #[must_use]
    pub fn listen(self, plan: &Plan) -> Listener {
        let Self { reader, writer, .. } = self;
        drop(writer);
        Listener { pipe: Some(reader.into()), partial: Vec::new(), skipping: false, denials: Denials::new(plan) }
    }
}

/// What is traced: files, the network, and what the filter of this run refuses.
fn calls(plan: &Plan) -> String {
    const NETWORK: &str = "bind,connect,sendmsg,sendto,socket";
    let filter = plan.backend.filters().then(|| handoff::filter(plan));
    // A strace that does not know a call leaves it out.
    let refused = filter.map(traced).unwrap_or_default().into_iter().map(|call| format!(",?{call}"));
    format!("trace=%file,{NETWORK}{}", refused.collect::<String>())
}

/// Whether a line may be printed: what is sent may be a secret, and nobody wants to read of terminals.
fn is_printed(line: &str) -> bool {
    let call = line.split_once(' ').map_or("", |(_, call)| call.trim_start().trim_start_matches("<... "));
    !["ioctl", "sendmsg", "sendto"].iter().any(|silent| call.starts_with(silent))
}

/// Our end of the pipe.
#[derive(Debug)]
pub struct Listener {
    pipe: Option<File>,
    /// A line whose end has not come.
    partial: Vec<u8>,
    /// Whether that line has become too long.
    skipping: bool,
    denials: Denials,
}

impl Listener {
    /// What to wait for.
    #[must_use]
    pub fn interest(&self) -> Option<PollFd<'_>> {
        self.pipe.as_ref().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN))
    }

    /// Takes what is there, and never waits.
    pub fn pump(&mut self) {
        for _ in 0..TURN {
            if !self.read() {
                return;
            }
        }
    }

    /// Whether there may be more.
    fn read(&mut self) -> bool {
        let mut chunk = [0; 16 << 10];
        let Some(pipe) = &mut self.pipe else { return false };
        match pipe.read(&mut chunk) {
            Ok(0) => self.pipe = None,
            Ok(length) => {
                self.take(&chunk[..length]);
                return true;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.pipe = None,
        }
        false
    }

    fn take(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = part.strip_suffix(b"\n").map_or((part, false), |text| (text, true));
            self.skipping |= self.partial.len() + text.len() > LINE;
            if !self.skipping {
                self.partial.extend_from_slice(text);
            }
            if ends {
                if !std::mem::take(&mut self.skipping) {
                    let line = String::from_utf8_lossy(&self.partial);
                    if is_printed(&line) {
                        tracing::info!("{line}");
                    }
                    self.denials.line(&line);
                }
                self.partial.clear();
            }
        }
    }

    /// What was told in all.
    #[must_use]
    pub fn finish(mut self) -> Denials {
        // Without isolation the tracer may live for a moment more, or for as long as what the target left behind.
        let deadline = Instant::now() + PATIENCE;
        loop {
            while Instant::now() < deadline && self.read() {}
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(interest) = self.interest().filter(|_| !left.is_zero()) else { return self.denials };
            let timeout = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::ZERO);
            // A failed poll only means looking again too early.
            let _woken = poll(&mut [interest], timeout);
        }
    }
}
