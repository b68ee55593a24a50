//! What is written when the run is over: passed on by a small process that nobody waits for.
//!
//! Keeps no more than its one buffer for each stream, opens nothing, has no opinion on what passes.

use std::fs::File;
use std::io::{self, Read};

use nix::poll::{PollTimeout, poll};
use nix::unistd::setsid;

use super::Output;
use crate::sys;
use crate::sys::signals::Signals;

impl Output {
    /// Leaves what others may still write to a process of its own, which passes it on like a `tee` until the last of them or
    /// the last reader is gone: they shall notice nothing of us, and neither of our end.
    pub fn leave(&mut self) -> io::Result<()> {
        if !self.relayed || self.streams.iter().all(|stream| stream.source.is_none()) {
            return Ok(());
        }
        let ends = self.piped();
        let (ready, settled) = sys::fd::pipe()?;
        sys::process::fork(|| {
            // In a session of its own, with nothing else of ours open: nobody shall wait for it, or for a file or a disk.
            let _own = setsid();
            let _silent = sys::fd::silence(&[0, 1, 2]);
            let _closed = sys::fd::close_others(&ends);
            let _elsewhere = nix::unistd::chdir("/");
            // Whoever wants it to end can have that.
            let _open = sys::signals::block_only(Signals::NONE);
            loop {
                self.pump();
                if self.streams.iter().all(|stream| stream.source.is_none()) {
                    sys::process::exit_now(0);
                }
                // A failed poll only means looking again too early.
                let _woken = poll(&mut self.interests(), PollTimeout::NONE);
            }
        })?;
        drop(settled);
        // Not before it is out of reach of what is sent to our process group, and has closed the rest, do we go on.
        let _settled = File::from(ready).read(&mut [0])?;
        for stream in &mut self.streams {
            stream.end();
        }
        Ok(())
    }
}
