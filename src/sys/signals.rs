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

/// The signals that are blocked, as bits: `n - 1` for signal `n`. Allocates nothing.
pub(super) fn blocked() -> u64 {
    let mut set = 0_u64;
    let unchanged = std::ptr::null::<u64>();
    // SAFETY: a null new set only queries, and `set` has the eight bytes that the kernel is told to write.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, unchanged, &raw mut set, size_of::<u64>()) };
    set
}

/// Blocks exactly these signals. By the kernel itself: musl's functions leave out 32 to 34, which it uses itself.
fn block(set: u64) -> io::Result<()> {
    let old = std::ptr::null_mut::<u64>();
    // SAFETY: `set` has the eight bytes that the kernel is told to read; the old set is not asked for.
    let done =
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const set, old, size_of::<u64>()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives this process the dispositions and the mask that our caller had, right before the target is executed.
pub fn restore(inherited: &Inherited) -> io::Result<()> {
    for signal in all_signals() {
        let ignored = has(inherited.ignored, signal);
        let handler = if ignored { libc::SIG_IGN } else { libc::SIG_DFL };
        // SAFETY: SIGKILL, SIGSTOP and the numbers that the libc reserves give an error, which is what is wanted: no change.
        unsafe { libc::signal(signal, handler) };
    }
    block(inherited.blocked)
}

extern "C" fn interrupt(_: libc::c_int) {}

/// Does something that may wait in the kernel, for about `time` at most: then it fails with EINTR, or does less.
pub fn bounded<T>(time: std::time::Duration, act: impl FnOnce() -> T) -> T {
    // Without SA_RESTART: what waits shall come back.
    let action = SigAction::new(SigHandler::Handler(interrupt), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler does nothing.
    let old = unsafe { sigaction(Signal::SIGALRM, &action) };
    let micros = libc::suseconds_t::try_from(time.as_micros()).unwrap_or(libc::suseconds_t::MAX);
    let every = libc::timeval { tv_sec: 0, tv_usec: micros };
    let mut timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: the new value is valid for reads, and the old one is not asked for. It goes on ringing, should the first ring
    // come before the wait.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
    let done = act();
    timer.it_interval.tv_usec = 0;
    timer.it_value.tv_usec = 0;
    // SAFETY: as before; zero stops it.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
    if let Ok(old) = old {
        // SAFETY: what was there before.
        let _restored = unsafe { sigaction(Signal::SIGALRM, &old) };
    }
    done
}

/// Lets SIGINT end this process, as if nobody had handled it.
pub fn die_of_interrupt() {
    // When one of these fails the process goes on and exits with the status that says the same.
    let _default = default(Signal::SIGINT);
    let _open = block_only(&[]);
    let _sent = nix::sys::signal::raise(Signal::SIGINT);
}
