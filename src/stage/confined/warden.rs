//! A small process between the outer stage and an inner stage that no namespace holds: with the end of either all that came of
//! the run ends, and its private directories go.
//!
//! It has a session of its own, hears no signal but SIGKILL, keeps nothing open but the lock on those directories, and decides nothing.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::SigSet;
use nix::unistd::Pid;

use super::super::control::{Inner, Report, Step};
use super::super::scratch;
use crate::plan::reach::Scratch;
use crate::sys;
use crate::sys::pidfd::PidFd;
use crate::sys::process::{Change, changed_child};

/// How long the inner stage may take to end by itself when the outer stage is gone.
const PATIENCE: Duration = Duration::from_millis(500);

/// In a process forked for it: makes the private directories, runs `inner` as a child, and never returns.
pub fn guard(
    outer: &PidFd,
    scratch: &Scratch,
    inner: &Inner,
    run: impl FnOnce() -> std::convert::Infallible,
) -> std::convert::Infallible {
    if !sys::process::knows_children() {
        let _told = inner.report(Report::Failed(Step::Children, 0), None);
        sys::process::exit_now(FAILED);
    }
    match scratch::make(scratch) {
        Ok(lock) => sys::process::exit_now(watch(outer, scratch, lock.as_ref(), run)),
        Err(error) => {
            let _told = inner.report(Report::Failed(Step::Scratch, error.raw_os_error().unwrap_or(0)), None);
            scratch::remove(scratch);
            sys::process::exit_now(FAILED);
        }
    }
}

/// Starts `inner` as a child, waits for its end, and returns what to exit with.
fn watch(
    outer: &PidFd,
    scratch: &Scratch,
    lock: Option<&OwnedFd>,
    inner: impl FnOnce() -> std::convert::Infallible,
) -> i32 {
    // Without it orphans would fall to somebody who does not look for them.
    if nix::sys::prctl::set_child_subreaper(true).is_err() {
        return FAILED;
    }
    let Ok(child) = sys::process::fork(inner) else { return FAILED };
    // Nothing that is sent to a group or by a terminal shall end it. Failing only means that it is easier to kill.
    let _own = nix::unistd::setsid();
    let _blocked = SigSet::all().thread_block();
    let _here = std::env::set_current_dir("/");
    let handle = PidFd::open(child.as_raw());
    let handles = handle.iter().chain([outer]).map(|handle| handle.as_fd().as_raw_fd());
    let kept: Vec<_> = handles.chain(lock.map(OwnedFd::as_raw_fd)).collect();
    let _silent = sys::fd::silence(&[0, 1, 2]);
    // Above all the sockets: whoever waits for their end must see it.
    let _closed = sys::fd::close_others(&kept);
    // Beside the command, so that no start is later for it.
    scratch::sweep(scratch);
    if let Ok(handle) = &handle {
        wait(outer, handle);
    }
    let status = end(child);
    sys::process::kill_tree(&[], &mut |_, _| {});
    scratch::remove(scratch);
    status
}

/// The status of a stage that could not do its work.
const FAILED: i32 = 125;

/// Waits for the end of the inner stage, not much longer than for that of the outer stage.
fn wait(outer: &PidFd, inner: &PidFd) {
    let mut until: Option<Instant> = None;
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = left.map_or(PollTimeout::NONE, |left| PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
        let mut polled = vec![PollFd::new(inner.as_fd(), PollFlags::POLLIN)];
        if until.is_none() {
            polled.push(PollFd::new(outer.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut polled, timeout) {
            Err(Errno::EINTR) => continue,
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let has_ended = |fd: &PollFd| fd.revents().is_some_and(|events| !events.is_empty());
        if has_ended(&polled[0]) {
            return;
        }
        until = Some(Instant::now() + PATIENCE);
    }
}

/// The status of the inner stage if it has ended by itself.
fn end(inner: Pid) -> i32 {
    loop {
        match changed_child() {
            Ok(Some((pid, Change::Exited(status)))) if pid == inner => return status,
            Ok(Some((pid, Change::Signaled(_)))) if pid == inner => return FAILED,
            Ok(Some(_)) | Err(Errno::EINTR) => {}
            Ok(None) | Err(_) => return FAILED,
        }
    }
}
