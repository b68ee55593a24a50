//! The terminal that a run shares with its caller: remembered before, given back after.

use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::sys::signal::killpg;
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp, tcsetpgrp};

use crate::host::Host;
use crate::sys;

/// The terminal that the target has among its standard streams.
#[derive(Debug)]
pub struct Terminal {
    fd: OwnedFd,
    /// Whether it is the terminal of the target's session as well, whose keys send it signals.
    pub shared: bool,
    modes: Option<Termios>,
    /// Whether we were in the foreground when the run began.
    foreground: bool,
}

impl Terminal {
    /// As it is now, before there is a target that could change it; `None` when it gets none.
    #[must_use]
    pub fn of(host: &Host, new_session: bool) -> Option<Self> {
        let stream = host.terminals.iter().position(|terminal| *terminal)?;
        let fd = sys::fd::duplicate_stream(i32::try_from(stream).ok()?).ok()??;
        let modes = tcgetattr(&fd).ok();
        let foreground = tcgetpgrp(&fd).is_ok_and(|group| group == getpgrp());
        Some(Self { fd, shared: !new_session, modes, foreground })
    }

    /// Gives the terminal back as it was: its modes if the target had no chance to, the foreground if its group is gone.
    pub fn restore(&self, died: bool) {
        let Ok(group) = tcgetpgrp(&self.fd) else { return };
        if !self.foreground {
            return;
        }
        if group != getpgrp() {
            // Unless nobody is in it, it is a shell's that has put us in the background since. Some kernels have no number
            // any more for a group that is gone.
            if group.as_raw() != 0 && killpg(group, None) != Err(Errno::ESRCH) {
                return;
            }
            let _set = tcsetpgrp(&self.fd, getpgrp());
        }
        if died && let Some(modes) = &self.modes {
            // Now, and not when all output is out: nobody may be reading it.
            let _set = tcsetattr(&self.fd, SetArg::TCSANOW, modes);
        }
    }
}
