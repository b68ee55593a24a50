//! A terminal for the tests: a real pseudo-terminal with somebody who types and reads.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::{Pid, setsid, tcgetpgrp};

use crate::harness::{Call, Done, Running};

/// How long to wait for a text.
const PATIENCE: Duration = Duration::from_secs(30);

/// A terminal and the program that was started in it, leader of a session.
pub struct Terminal {
    master: PtyMaster,
    name: String,
    running: Running,
    /// All that came out so far.
    text: String,
    /// Up to where `expect` has read.
    read: usize,
}

impl Terminal {
    /// Starts `call` with a new terminal of 31 lines and 97 columns as its controlling terminal.
    pub fn start(call: Call) -> Self {
        // Not for any other process that a parallel test starts: closing it must hang the terminal up.
        let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).expect("terminal");
        grantpt(&master).expect("terminal");
        unlockpt(&master).expect("terminal");
        let name = ptsname_r(&master).expect("terminal");
        let open = || {
            let mut options = File::options();
            options.read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits()).open(&name).expect("terminal")
        };
        set_size(&master, 31, 97);
        let call = call.stdin_from(open()).stdout(open()).stderr(open()).before_exec(|| {
            setsid()?;
            take_terminal()
        });
        Self { running: call.spawn(), master, name, text: String::new(), read: 0 }
    }

    /// Process number of the program.
    pub fn pid(&self) -> i32 {
        self.running.pid()
    }

    /// Path of the terminal's device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Types `keys`.
    pub fn keys(&mut self, keys: &str) {
        (&self.master).write_all(keys.as_bytes()).expect("terminal");
    }

    /// Waits until `text` comes out, after what was expected before.
    #[track_caller]
    pub fn expect(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.text[self.read..].find(text) {
                self.read += at + text.len();
                return;
            }
            assert!(self.more(deadline), "expected {text:?}\n--- after\n{}\n---", self.text);
        }
    }

    /// Takes in what comes out within some time.
    pub fn settle(&mut self, time: Duration) {
        let deadline = Instant::now() + time;
        while self.more(deadline) {}
    }

    /// All that came out so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Process group in the foreground.
    pub fn foreground(&self) -> Pid {
        tcgetpgrp(&self.master).expect("terminal")
    }

    /// Modes of the terminal.
    pub fn modes(&self) -> Termios {
        tcgetattr(&self.master).expect("terminal")
    }

    /// Changes the size.
    pub fn resize(&self, lines: u16, columns: u16) {
        set_size(&self.master, lines, columns);
    }

    /// Pulls the plug.
    pub fn hang_up(self) -> Done {
        drop(self.master);
        self.running.done()
    }

    /// Waits for the end of the program.
    pub fn done(mut self) -> (Done, String) {
        // Up to the end: the other side is closed.
        let deadline = Instant::now() + PATIENCE;
        while self.more(deadline) {}
        (self.running.done(), self.text)
    }

    /// Reads once; whether there was something.
    fn more(&mut self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut polled = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
        if poll(&mut polled, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)) != Ok(1) {
            return false;
        }
        let mut bytes = [0; 4096];
        // EIO is the end.
        let Ok(length @ 1..) = (&self.master).read(&mut bytes) else { return false };
        self.text.push_str(&String::from_utf8_lossy(&bytes[..length]));
        true
    }
}

#[allow(unsafe_code)]
fn set_size(master: &PtyMaster, lines: u16, columns: u16) {
    let size = libc::winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the request reads one winsize, which is valid.
    let set = unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// In the child: standard input becomes the controlling terminal.
#[allow(unsafe_code)]
fn take_terminal() -> std::io::Result<()> {
    // SAFETY: the request takes an integer.
    if unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) } == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
