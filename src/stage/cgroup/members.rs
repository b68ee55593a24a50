//! The directories of a group and what is in them: names, removal, killing.
//!
//! Knows paths only, so that a guardian can do the same as we.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::sys::pidfd::PidFd;

/// How long killing one by one may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// From this age on an empty group of a process that is gone is a leftover. A younger one may be of somebody who numbers
/// processes differently and is about to enter it.
const OLD: Duration = Duration::from_secs(10);

const PREFIX: &str = "sandbox-run-";

/// The directories of a group.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    directories: Vec<PathBuf>,
    /// Whether the directories are ours to remove: a scope is its manager's.
    ours: bool,
}

impl Members {
    /// Directories that we make.
    pub(super) fn new(directories: Vec<PathBuf>) -> Self {
        Self { directories, ours: true }
    }

    /// A directory that somebody else made for us.
    pub(super) fn of_scope(directory: PathBuf) -> Self {
        Self { directories: vec![directory], ours: false }
    }

    pub(super) fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// Kills everything inside: at once where the kernel can, else one by one until nothing is left, for two seconds at most.
    pub(super) fn kill(&self) {
        if self.ours {
            for directory in &self.directories {
                // No further fork. Fails where processes are not counted.
                let _bounded = put(&directory.join("pids.max"), b"0");
            }
        }
        let at_once = self.directories.iter().any(|dir| put(&dir.join("cgroup.kill"), b"1").is_ok());
        let deadline = Instant::now() + PATIENCE;
        while !at_once && self.kill_each() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// One round; whether there was something to kill.
    fn kill_each(&self) -> bool {
        let handles: Vec<_> =
            self.processes().into_iter().filter_map(|pid| Some((pid, PidFd::open(pid).ok()?))).collect();
        // A number that is still in the group after the handle was taken is the handle's.
        let still = self.processes();
        for (_, handle) in handles.iter().filter(|(pid, _)| still.contains(pid)) {
            // Gone is as good as killed.
            let _sent = handle.send(Signal::SIGKILL);
        }
        !still.is_empty()
    }

    fn processes(&self) -> BTreeSet<i32> {
        let lists = self.directories.iter().filter_map(|dir| fs::read_to_string(dir.join("cgroup.procs")).ok());
        // 0 stands for a process that our numbers do not reach.
        lists.flat_map(|list| numbers(&list)).filter(|pid| *pid > 0).collect()
    }

    /// Removes the directories as soon as nothing is in them; whether they are gone.
    pub(super) fn remove_within(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut pause = Duration::from_millis(1);
        loop {
            if self.remove() {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    fn remove(&self) -> bool {
        if !self.ours {
            return true;
        }
        let removed = self.directories.iter().map(|directory| match fs::remove_dir(directory) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        });
        // All of them, each time: one that has to wait does not keep the others.
        removed.filter(|removed| !removed).count() == 0
    }
}

/// Writes to a file that is there, and makes none.
fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write;
    fs::File::options().write(true).open(path)?.write_all(bytes)
}

fn numbers(text: &str) -> Vec<i32> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Whether the calling process is listed as being in the group `directory`.
///
/// Version 1 counts the members, then lists as many: whoever comes in between pushes others off the end. So it is looked at again
/// before the answer is no.
pub(super) fn holds_us(directory: &Path) -> bool {
    let ours = nix::unistd::getpid().as_raw();
    let listed = || fs::read_to_string(directory.join("cgroup.procs")).map(|list| numbers(&list).contains(&ours));
    (0..20).map_while(|_| listed().ok()).any(|listed| listed)
}

/// A name for a group of this process that nobody else uses: process number, time of its start, count.
pub(super) fn fresh_name() -> io::Result<String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let pid = nix::unistd::getpid().as_raw();
    let start = start_time(pid).ok_or_else(|| io::Error::other("cannot read '/proc/self/stat'"))?;
    Ok(match COUNT.fetch_add(1, Ordering::Relaxed) {
        0 => format!("{PREFIX}{pid}-{start}"),
        count => format!("{PREFIX}{pid}-{start}-{count}"),
    })
}

/// Process number and start time in a name that [`fresh_name`] can have made.
pub(super) fn owner(name: &str) -> Option<(i32, u64)> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let words: Vec<_> = name.strip_prefix(PREFIX)?.split('-').collect();
    match words.as_slice() {
        [pid, start] | [pid, start, _] if words.iter().all(|word| digits(word)) => {
            Some((pid.parse().ok()?, start.parse().ok()?))
        }
        _ => None,
    }
}

/// When the process started, in ticks since the start of the machine.
fn start_time(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program may hold anything, a parenthesis too.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(19)?.parse().ok()
}

/// Removes what is left in `parent` of runs that nobody could clean up after: empty, and their process is gone.
pub(super) fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some((pid, start)) = name.to_str().and_then(owner) else { continue };
        let is_old = entry
            .metadata()
            .and_then(|data| data.modified())
            .is_ok_and(|made| made.elapsed().is_ok_and(|age| age > OLD));
        if is_old && start_time(pid) != Some(start) {
            // One that is not empty, or not ours, stays.
            let _removed = fs::remove_dir(entry.path());
        }
    }
}
