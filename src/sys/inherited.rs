//! What this process inherited, recorded before the Rust runtime changes it.
//!
//! The runtime ignores SIGPIPE and opens `/dev/null` on closed standard streams before `main`. A launcher has to hand on
//! what its caller gave, so a constructor looks first. Nothing here may allocate: it runs before the runtime is ready.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use super::system::signals::LAST as LAST_SIGNAL;

static RECORDED: AtomicBool = AtomicBool::new(false);
static CLOSED_STREAMS: AtomicU8 = AtomicU8::new(0);
static IGNORED: AtomicU64 = AtomicU64::new(0);
static BLOCKED: AtomicU64 = AtomicU64::new(0);

#[used]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(not(target_os = "macos"), unsafe(link_section = ".init_array"))]
static RECORD: extern "C" fn() = record;

extern "C" fn record() {
    let mut closed = 0;
    for stream in 0..3 {
        // SAFETY: F_GETFD takes no pointer and changes nothing.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1 {
            closed |= 1 << stream;
        }
    }
    let mut ignored = 0_u64;
    for signal in 1..=LAST_SIGNAL {
        // SAFETY: all-zero bytes are a valid sigaction: SIG_DFL, no flags, empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: a null new action only queries; `action` is valid for writes. Numbers the libc reserves give EINVAL.
        let known = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) } == 0;
        if known && action.sa_sigaction == libc::SIG_IGN {
            ignored |= bit(signal);
        }
    }
    CLOSED_STREAMS.store(closed, Ordering::Relaxed);
    IGNORED.store(ignored, Ordering::Relaxed);
    BLOCKED.store(super::system::signals::blocked(), Ordering::Relaxed);
    RECORDED.store(true, Ordering::Release);
}

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// What the caller left to this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Inherited {
    /// Standard streams that were closed; index is the descriptor.
    pub closed: [bool; 3],
    /// Signals that were ignored: bit `n - 1` for signal `n`.
    pub ignored: u64,
    /// Signals that were blocked: bit `n - 1` for signal `n`.
    pub blocked: u64,
}

impl Inherited {
    /// The record made before `main`; empty when the platform ran no constructor.
    #[must_use]
    pub fn of_this_process() -> Self {
        if !RECORDED.load(Ordering::Acquire) {
            return Self::default();
        }
        let closed = CLOSED_STREAMS.load(Ordering::Relaxed);
        Self {
            closed: [closed & 1 != 0, closed & 2 != 0, closed & 4 != 0],
            ignored: IGNORED.load(Ordering::Relaxed),
            blocked: BLOCKED.load(Ordering::Relaxed),
        }
    }

    /// Whether the caller ignored `signal`.
    #[must_use]
    pub fn ignores(&self, signal: i32) -> bool {
        self.ignored & bit(signal) != 0
    }
}

/// All signal numbers that a caller may have set something for.
pub(crate) fn all_signals() -> std::ops::RangeInclusive<i32> {
    1..=LAST_SIGNAL
}

/// Whether bit `signal - 1` is set.
pub(crate) fn has(set: u64, signal: i32) -> bool {
    set & bit(signal) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constructor_ran() {
        assert!(RECORDED.load(Ordering::Acquire));
    }
}
