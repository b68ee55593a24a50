//! Dispositions and masks.

use std::io;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction, sigprocmask};

use super::inherited::{Inherited, all_signals, has};

/// Sets `signal` to its default action.
pub fn default(signal: Signal) -> nix::Result<()> {
    set(signal, SigHandler::SigDfl)
}

/// Ignores `signal`.
pub fn ignore(signal: Signal) -> nix::Result<()> {
    set(signal, SigHandler::SigIgn)
}

fn set(signal: Signal, handler: SigHandler) -> nix::Result<()> {
    let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler is SIG_DFL or SIG_IGN, so no code of ours runs in signal context.
    unsafe { sigaction(signal, &action) }.map(drop)
}

/// Blocks exactly `signals`.
pub fn block_only(signals: &[Signal]) -> nix::Result<()> {
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&signals.iter().copied().collect()), None)
}

/// Gives this process the dispositions and the mask that our caller had, right before the target is executed.
pub fn restore(inherited: &Inherited) -> io::Result<()> {
    for signal in all_signals() {
        let ignored = has(inherited.ignored, signal);
        let handler = if ignored { libc::SIG_IGN } else { libc::SIG_DFL };
        // SAFETY: SIGKILL, SIGSTOP and the numbers that the libc reserves give an error, which is what is wanted: no change.
        unsafe { libc::signal(signal, handler) };
    }
    // SAFETY: all-zero bytes are a valid, empty signal set.
    let mut mask: libc::sigset_t = unsafe { std::mem::zeroed() };
    for signal in all_signals().filter(|signal| has(inherited.blocked, *signal)) {
        // SAFETY: `mask` is a valid set; a number the libc does not know gives an error and changes nothing.
        unsafe { libc::sigaddset(&raw mut mask, signal) };
    }
    // SAFETY: `mask` is valid for reads; the old mask is not asked for.
    if unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut()) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
