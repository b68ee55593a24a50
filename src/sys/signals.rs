//! Dispositions and masks.

use std::io;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::Pid;

use super::inherited::{Inherited, all_signals, has};
pub use super::system::signals::Arrivals;
use super::system::signals::{self, block, blocked};

/// A set of signals by number, with those that the libc keeps for itself and that others may send all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals(pub(super) u64);

impl Signals {
    /// No signal.
    pub const NONE: Self = Self(0);
    /// Every signal.
    pub const ALL: Self = Self(u64::MAX);
    /// Those of which one libc or another lets nobody set the disposition.
    pub const RESERVED: Self = Self(signals::RESERVED);
    /// Those that end a program and that not every system has.
    pub const FATAL_HERE: Self = Self::of(signals::FATAL);

    /// These.
    #[must_use]
    pub const fn of(signals: &[Signal]) -> Self {
        let mut set = 0;
        let mut at = 0;
        while at < signals.len() {
            set |= 1 << (signals[at] as i32 - 1);
            at += 1;
        }
        Self(set)
    }

    /// With those of `other` as well.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Without those of `other`.
    #[must_use]
    pub const fn but(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether the signal with this number is one of them.
    #[must_use]
    pub fn has(self, number: i32) -> bool {
        all_signals().contains(&number) && has(self.0, number)
    }

    /// Adds the signal with this number.
    pub fn add(&mut self, number: i32) {
        if all_signals().contains(&number) {
            self.0 |= 1 << (number - 1);
        }
    }
}

/// Sends the signal with this number to a process.
pub fn send(process: Pid, number: i32) -> io::Result<()> {
    // SAFETY: kill takes two integers.
    if unsafe { libc::kill(process.as_raw(), number) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

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

/// Ignores each of `signals` of which the disposition can be set.
pub fn ignore_all(signals: Signals) {
    for number in all_signals().filter(|number| signals.has(*number)) {
        // SAFETY: SIG_IGN is no code of ours. SIGKILL, SIGSTOP and the numbers that the libc reserves give an error.
        unsafe { libc::signal(number, libc::SIG_IGN) };
    }
}

/// Blocks exactly `signals`.
pub fn block_only(signals: Signals) -> io::Result<()> {
    block(signals.0)
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
///
/// An alarm that the caller has set before it became this program goes on afterwards.
pub fn bounded<T>(time: Duration, act: impl FnOnce() -> T) -> T {
    // Without SA_RESTART: what waits shall come back.
    let action = SigAction::new(SigHandler::Handler(interrupt), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler does nothing.
    let old = unsafe { sigaction(Signal::SIGALRM, &action) };
    let mask = blocked();
    // Failing only means to wait longer.
    let _open = block(mask & !Signals::of(&[Signal::SIGALRM]).0);
    let start = Instant::now();
    // It goes on ringing, should the first ring come before the wait.
    let theirs = alarm(time, time);
    let done = act();
    let (left, every) = alarm(Duration::ZERO, Duration::ZERO)
        .map_or((Duration::ZERO, Duration::ZERO), |_| theirs.unwrap_or((Duration::ZERO, Duration::ZERO)));
    let _closed = block(mask);
    if let Ok(old) = old {
        // SAFETY: what was there before.
        let _restored = unsafe { sigaction(Signal::SIGALRM, &old) };
    }
    if !left.is_zero() {
        // One that is due by now rings at once.
        let _set = alarm(left.saturating_sub(start.elapsed()).max(Duration::from_micros(1)), every);
    }
    done
}

/// Sets the alarm clock of this process; returns what it was set to: the time left, and from then on how often.
fn alarm(first: Duration, every: Duration) -> io::Result<(Duration, Duration)> {
    let value = |time: Duration| libc::timeval {
        tv_sec: time.as_secs().try_into().unwrap_or(i32::MAX.into()),
        // By a type that is too wide, so that the name of theirs is not needed: one libc is about to change it.
        tv_usec: u128::from(time.subsec_micros()).try_into().unwrap_or(0),
    };
    let timer = libc::itimerval { it_interval: value(every), it_value: value(first) };
    let mut old = libc::itimerval { it_interval: value(Duration::ZERO), it_value: value(Duration::ZERO) };
    // SAFETY: the new value is valid for reads, the old one for writes.
    let set = unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, &raw mut old) };
    let time = |time: libc::timeval| {
        Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
            + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    if set == 0 { Ok((time(old.it_value), time(old.it_interval))) } else { Err(io::Error::last_os_error()) }
}

/// The first of the signals that ask for an end which waits because we block it: none that the caller ignored or blocked itself.
#[must_use]
pub fn waiting() -> Option<i32> {
    let mut pending = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is valid for writes.
    if unsafe { libc::sigpending(pending.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: it has been written.
    let pending = unsafe { pending.assume_init() };
    let Inherited { ignored, blocked, closed: _ } = Inherited::of_this_process();
    let asks = |signal: &i32| {
        // SAFETY: the set is valid for reads.
        let waits = unsafe { libc::sigismember(&raw const pending, *signal) } == 1;
        waits && !has(ignored | blocked, *signal)
    };
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT].into_iter().find(asks)
}

/// Lets the signal with this number end this process, as if nobody had handled it.
pub fn die_of(number: i32) {
    let Ok(signal) = Signal::try_from(number) else { return };
    // When one of these fails the process goes on and exits with the status that says the same. All others stay blocked:
    // one that came meanwhile is not what ended it.
    let _default = default(signal);
    let _open = block_only(Signals::ALL.but(Signals::of(&[signal])));
    let _sent = nix::sys::signal::raise(signal);
}
