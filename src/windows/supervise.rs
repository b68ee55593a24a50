//! Watching a target until its end: the clock, the output, and whoever presses Ctrl-C.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::console;
use super::job::{ENDED, Job, OUT_OF_TIME};
use super::spawn::{self, Process};
use crate::policy::Limits;
use crate::policy::limits::{Limit, OutputOverflow};
use crate::stage::account::{Account, End};

/// What a run hears of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The target has ended.
    Ended,
    /// There was more output than there may be.
    Over,
}

/// How the target ended; its status unless we ended it.
#[derive(Debug)]
pub struct Ended {
    /// All 32 bits of it.
    pub status: Option<u32>,
    /// The limit for which we ended it.
    pub by: Option<Limit>,
}

/// The events of a process, and where others may be added.
pub fn events(process: &Process) -> std::io::Result<(mpsc::Sender<Event>, Receiver<Event>)> {
    let (sender, receiver) = mpsc::channel();
    let (handle, ended) = (process.handle()?, sender.clone());
    thread::spawn(move || {
        spawn::wait(&handle);
        // Nobody listens any more when the run was given up.
        let _heard = ended.send(Event::Ended);
    });
    Ok((sender, receiver))
}

/// Waits for the end of the target, or brings it about; then nothing is left in the job.
pub fn watch(
    job: &Job,
    process: &Process,
    events: &Receiver<Event>,
    limits: &Limits,
    kill_after: Duration,
    account: &mut Account,
) -> Ended {
    let begun = Instant::now();
    account.started_at = Some(SystemTime::now());
    account.pid = i32::try_from(process.id).ok();
    // What is too long to be reckoned is none.
    let end = limits.timeout.and_then(|time| begun.checked_add(time));
    let by = loop {
        match next(events, end) {
            Some(Event::Ended) => break None,
            Some(Event::Over) if limits.overflow == OutputOverflow::Kill => break Some(Limit::Output),
            Some(Event::Over) => {}
            None => break Some(Limit::Time),
        }
    };
    if by.is_some() && console::interrupt(process.id).is_ok() {
        let end = Instant::now().checked_add(kill_after);
        while !matches!(next(events, end), Some(Event::Ended) | None) {}
    }
    account.wall = Some(begun.elapsed());
    // Before the end of the others: then it is its own.
    let ended = process.status().ok();
    if let Err(error) = job.end() {
        tracing::warn!("cannot end every process of the job: {}", crate::sys::process::describe(&error));
    }
    // A process that still ran has its status now.
    let running = by.is_some() && ended == Some(STILL_ACTIVE);
    let status = if running { None } else { ended.or_else(|| process.status().ok()) };
    account.usage = job.usage().ok();
    account.limits_hit = job.reached();
    account.limits_hit.extend(by);
    if status == Some(OUT_OF_TIME) && limits.cpu_time.is_some() {
        account.limits_hit.insert(Limit::Cpu);
    }
    account.ended_by = by;
    let status = status.filter(|status| *status != ENDED);
    account.end = status.map(|status| End::Exited(status.cast_signed()));
    // Number of the signal that Ctrl-C is elsewhere.
    account.asked = console::asked().then_some(2);
    Ended { status, by }
}

/// What `GetExitCodeProcess` says of a process that runs.
const STILL_ACTIVE: u32 = 259;

/// The next event; `None` when there is none until `end`.
fn next(events: &Receiver<Event>, end: Option<Instant>) -> Option<Event> {
    let Some(end) = end else {
        // The thread that waits for the target always tells of its end.
        return Some(events.recv().unwrap_or(Event::Ended));
    };
    match events.recv_timeout(end.saturating_duration_since(Instant::now())) {
        Ok(event) => Some(event),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => Some(Event::Ended),
    }
}
