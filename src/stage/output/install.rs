//! Putting ourselves between the target and its standard output and error: which stream gets a pipe, which is only measured.
//!
//! Moves nothing yet.

use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use nix::fcntl::OFlag;
use nix::sys::socket::sockopt::SockType as SockTypeOption;
use nix::sys::socket::{SockType, getsockopt};

use super::kept::Kept;
use super::sink::{Sink, is_appended};
use super::{CHUNK, Measured, Output, Stream, Wish};
use crate::plan::Plan;
use crate::policy::limits::OutputOverflow;

/// How much is kept when nobody said how much: 10 MiB.
const DEFAULT_KEPT: u64 = 10 << 20;

impl Output {
    /// Puts pipes into the target's `streams` where something is to be done with what comes through; `None` if nothing is.
    pub fn install(plan: &Plan, wish: Wish, streams: &mut [Option<OwnedFd>; 3]) -> io::Result<Option<Self>> {
        let limit = plan.limits.max_output;
        let needed = limit.is_some() || wish.capture;
        if !needed && !wish.count {
            return Ok(None);
        }
        let [_, stdout, stderr] = streams;
        let same = match (&stdout, &stderr) {
            (Some(stdout), Some(stderr)) => !wish.capture && same_file(stdout, stderr)?,
            _ => false,
        };
        // Two pipes would lose the order, and one the counts.
        if same && !needed {
            return Ok(None);
        }
        let mut output = Self {
            streams: Vec::new(),
            measured: Vec::new(),
            limit: if wish.capture { None } else { limit },
            kill: plan.limits.overflow == OutputOverflow::Kill,
            passed: 0,
            over: false,
            lost: false,
            largest: plan.limits.max_file_size,
            too_large: false,
            kept: wish.capture.then(|| Kept::new(limit.unwrap_or(DEFAULT_KEPT))),
            buffer: vec![0; CHUNK],
            merged: same,
            relayed: !needed,
        };
        if let Some(stream) = stdout {
            output.redirect(0, stream, needed, wish.capture)?;
        }
        match (stdout, stderr) {
            (Some(stdout), Some(stderr)) if same => *stderr = stdout.try_clone()?,
            (_, Some(stream)) => output.redirect(1, stream, needed, wish.capture)?,
            (_, None) => {}
        }
        Ok(Some(output))
    }

    fn redirect(&mut self, index: usize, stream: &mut OwnedFd, needed: bool, capture: bool) -> io::Result<()> {
        if !needed {
            let mut file = File::from(stream.try_clone()?);
            let kind = file.metadata()?.file_type();
            if kind.is_file() {
                // Others may append as well, and then nothing tells whose bytes they were.
                if !is_appended(&file) {
                    let start = file.stream_position()?;
                    self.measured.push(Measured { index, file, start, end: None });
                }
                return Ok(());
            }
            // Of a socket that keeps messages apart we would make one that does not.
            let socket = || getsockopt(&file, SockTypeOption).is_ok_and(|kind| kind == SockType::Stream);
            let stream_like = kind.is_fifo() || kind.is_socket() && socket();
            if !stream_like {
                return Ok(());
            }
        }
        let (ours, theirs) = crate::sys::fd::pipe()?;
        let flags = OFlag::from_bits_truncate(nix::fcntl::fcntl(&ours, nix::fcntl::FcntlArg::F_GETFL)?);
        // Only our end: the target's has another open file behind it.
        nix::fcntl::fcntl(&ours, nix::fcntl::FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        let stream = std::mem::replace(stream, theirs);
        let sink = if capture { Sink::Kept } else { Sink::of(stream, self.largest)? };
        let source = Some(File::from(ours));
        self.streams.push(Stream {
            index,
            source,
            sink,
            written: 0,
            in_time: None,
            last: false,
            pending: Vec::new(),
            waits: false,
        });
        Ok(())
    }
}

fn same_file(a: &OwnedFd, b: &OwnedFd) -> io::Result<bool> {
    let [a, b] = [File::from(a.try_clone()?).metadata()?, File::from(b.try_clone()?).metadata()?];
    Ok((a.dev(), a.ino()) == (b.dev(), b.ino()))
}
