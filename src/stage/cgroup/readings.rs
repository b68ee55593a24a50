//! What the kernel counts in a group, read from files opened at its start.
//!
//! The greatest value that was ever read stays: a scope is gone with its last process, and its files with it.

use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::poll::PollFlags;

use super::set;
use crate::sys;

/// Files of one group, where it has them.
#[derive(Debug, Default)]
pub(super) struct Readings {
    pub(super) memory: Option<Memory>,
    pub(super) procs: Option<Procs>,
    pub(super) time: Option<Time>,
    pub(super) peak: Option<File>,
    was_out_of_memory: Cell<bool>,
    were_refused: Cell<bool>,
    time_so_far: Cell<Option<Duration>>,
    peak_so_far: Cell<Option<u64>>,
}

/// Where the end of memory shows.
#[derive(Debug)]
pub(super) enum Memory {
    /// v2: `memory.events`, which can be polled.
    Events(File),
    /// v1: a counter that the kernel rings, and `memory.oom_control` for whether it killed.
    Bell { rung: OwnedFd, control: File },
}

/// `pids.events`, `pids.peak` where there is one, and the limit.
#[derive(Debug)]
pub(super) struct Procs {
    events: File,
    peak: Option<File>,
    limit: u64,
}

/// Processor time.
#[derive(Debug)]
pub(super) enum Time {
    /// v2: `cpu.stat`, microseconds.
    Stat(File),
    /// v1: `cpuacct.usage`, nanoseconds.
    Usage(File),
}

impl Memory {
    pub(super) fn events_in(directory: &Path) -> io::Result<Self> {
        Ok(Self::Events(File::open(directory.join("memory.events"))?))
    }

    pub(super) fn bell_in(directory: &Path) -> io::Result<Self> {
        use std::os::fd::AsRawFd;
        let rung = sys::group::eventfd()?;
        let control = File::open(directory.join("memory.oom_control"))?;
        set(directory, "cgroup.event_control", format_args!("{} {}", rung.as_raw_fd(), control.as_raw_fd()))?;
        Ok(Self::Bell { rung, control })
    }
}

impl Procs {
    /// `None` where the kernel counts no refusals.
    pub(super) fn in_group(directory: &Path, limit: u64) -> Option<Self> {
        let open = |name: &str| File::open(directory.join(name)).ok();
        Some(Self { events: open("pids.events")?, peak: open("pids.peak"), limit })
    }

    fn refused(&self) -> bool {
        // Older kernels count a refusal by a group above here as well, but then we never had as many as we may.
        let reached = self.peak.as_ref().and_then(number).is_none_or(|peak| peak >= self.limit);
        reached && field(&self.events, "max").is_some_and(|count| count > 0)
    }
}

impl Readings {
    /// What a group of v2 has.
    pub(super) fn unified(directory: &Path, procs: Option<u64>) -> Self {
        Self {
            memory: Memory::events_in(directory).ok(),
            procs: procs.and_then(|limit| Procs::in_group(directory, limit)),
            time: File::open(directory.join("cpu.stat")).ok().map(Time::Stat),
            peak: File::open(directory.join("memory.peak")).ok(),
            ..Self::default()
        }
    }

    pub(super) fn events(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        Some(match self.memory.as_ref()? {
            Memory::Events(file) => (file.as_fd(), PollFlags::POLLPRI),
            Memory::Bell { rung, .. } => (rung.as_fd(), PollFlags::POLLIN),
        })
    }

    pub(super) fn out_of_memory(&self) -> bool {
        // Also reads what has rung away, so that a poll sleeps again.
        let now = match &self.memory {
            None => false,
            Some(Memory::Events(file)) => field(file, "oom_kill").is_some_and(|count| count > 0),
            Some(Memory::Bell { rung, control }) => {
                let rang = matches!(nix::unistd::read(rung, &mut [0; 8]), Ok(8));
                killed(control, rang)
            }
        };
        self.was_out_of_memory.set(now || self.was_out_of_memory.get());
        self.was_out_of_memory.get()
    }

    /// Each reading stays.
    pub(super) fn note(&self) {
        let _oom = self.out_of_memory();
        let _refused = self.procs_refused();
        let _time = self.cpu_time();
        let _peak = self.peak_memory();
    }

    pub(super) fn procs_refused(&self) -> bool {
        let now = self.procs.as_ref().is_some_and(Procs::refused);
        self.were_refused.set(now || self.were_refused.get());
        self.were_refused.get()
    }

    pub(super) fn cpu_time(&self) -> Option<Duration> {
        let now = match self.time.as_ref()? {
            Time::Stat(file) => field(file, "usage_usec").map(Duration::from_micros),
            Time::Usage(file) => number(file).map(Duration::from_nanos),
        };
        self.time_so_far.set(now.max(self.time_so_far.get()));
        self.time_so_far.get()
    }

    pub(super) fn peak_memory(&self) -> Option<u64> {
        let now = self.peak.as_ref().and_then(number);
        self.peak_so_far.set(now.max(self.peak_so_far.get()));
        self.peak_so_far.get()
    }
}

/// Whether the kernel killed in a group of v1.
///
/// The bell rings before that, and also when a group above ours has no memory left: then nothing of ours need die.
fn killed(control: &File, rang: bool) -> bool {
    let deadline = Instant::now() + Duration::from_millis(100);
    loop {
        match field(control, "oom_kill") {
            Some(0) if rang && Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            Some(count) => return count > 0,
            // Not counted before Linux 4.13.
            None => return rang,
        }
    }
}

/// The number after `name` in lines of name and number.
fn field(file: &File, name: &str) -> Option<u64> {
    let text = whole(file)?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// The number that is all of the file.
fn number(file: &File) -> Option<u64> {
    whole(file)?.trim().parse().ok()
}

/// From its beginning, with one call: these files are made anew for each reading.
fn whole(file: &File) -> Option<String> {
    let mut bytes = [0; 4096];
    let length = file.read_at(&mut bytes, 0).ok()?;
    Some(String::from_utf8_lossy(bytes.get(..length)?).into_owned())
}

/// A number in a file of a group; `None` for `max`, and where there is no such file.
pub(super) fn bound(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
