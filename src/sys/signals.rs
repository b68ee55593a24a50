//! Dispositions and masks.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::Pid;

use super::inherited::{Inherited, all_signals, has};

/// A set of signals by number, with those that the libc keeps for itself and that others may send all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals(u64);

impl Signals {
    /// No signal.
    pub const NONE: Self = Self(0);
    /// Every signal.
    pub const ALL: Self = Self(u64::MAX);
    /// Those of which one libc or another lets nobody set the disposition.
    pub const RESERVED: Self = Self(0b111 << 31);

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

/// Signals that come to this process while they are blocked.
#[derive(Debug)]
pub struct Arrivals(File);

impl Arrivals {
    /// Of these signals, which the caller has to block.
    pub fn of(signals: Signals) -> io::Result<Self> {
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        let set = &raw const signals.0;
        // SAFETY: `set` has the eight bytes that the kernel is told to read; -1 asks for a new descriptor.
        let number = unsafe { libc::syscall(libc::SYS_signalfd4, -1, set, size_of::<u64>(), flags) };
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        let number = i32::try_from(number).map_err(io::Error::other)?;
        // SAFETY: the kernel just returned this descriptor, so it is open and ours alone.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(number) }.into()))
    }

    /// The number of the next one that somebody else sent; `None` when there is none for now.
    ///
    /// What this process causes itself is passed over: SIGPIPE and SIGXFSZ come with a failed write, which tells enough.
    pub fn next(&self) -> io::Result<Option<i32>> {
        Ok(self.next_from()?.map(|(number, _)| number))
    }

    /// The same, and who sent it: 0 when that is the kernel, or a process outside our process namespace.
    pub fn next_from(&self) -> io::Result<Option<(i32, i32)>> {
        let own = nix::unistd::getpid().as_raw();
        loop {
            let mut record = [0; size_of::<libc::signalfd_siginfo>()];
            match (&self.0).read(&mut record) {
                Ok(length) if length == record.len() => {}
                Ok(_) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            // signalfd(2): ssi_signo is the first field, ssi_pid the fourth.
            let field = |at: usize| record[at * 4..].first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
            if field(3) != own {
                return Ok(Some((field(0), field(3))));
            }
        }
    }
}

impl AsFd for Arrivals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
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

/// Lets SIGINT end this process, as if nobody had handled it.
pub fn die_of_interrupt() {
    // When one of these fails the process goes on and exits with the status that says the same. All others stay blocked:
    // one that came meanwhile is not what ended it.
    let _default = default(Signal::SIGINT);
    let _open = block_only(Signals::ALL.but(Signals::of(&[Signal::SIGINT])));
    let _sent = nix::sys::signal::raise(Signal::SIGINT);
}
