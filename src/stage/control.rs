//! Messages on the socket between the stages: one fixed record each, descriptors beside it.
//!
//! The socket is also the lifeline: when the outer stage is gone the inner end reads its end, whatever killed it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::sys::signal::Signal;

use super::trial::{Act, Answer};
use crate::sys::channel::{self, Arrived};
use crate::sys::process::Moment;
use crate::sys::signals::Signals;

/// Signals that are for the target when they come to us: all that can be caught but one. Faults are among them, since one
/// that we make ourselves ends us although it is blocked.
pub const FORWARDED: Signals = Signals::ALL.but(Signals::of(&[Signal::SIGKILL, Signal::SIGSTOP, Signal::SIGCHLD]));

/// What both stages wait for: the same, and changes of their children.
pub const WATCHED: Signals = FORWARDED.and(Signals::of(&[Signal::SIGCHLD]));

/// What the outer stage sends in place of a signal's number to a process in a container that may go on.
pub const GO_ON: i32 = 0;

/// What is said instead of the number of a signal that is for the whole process group of the target.
#[must_use]
pub const fn to_group(number: i32) -> i32 {
    -number
}

/// A step of the inner stage, for messages about its failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Step {
    /// A handle on ourselves.
    Handle,
    /// Checking that we are where we have to be.
    NotIsolated,
    /// Capabilities or `no_new_privs`.
    Privileges,
    /// A path is not what was planned.
    View,
    /// The launcher program stopped reading its options early.
    Incomplete,
    /// Mounting masks.
    Cover,
    /// Putting Landlock on the target.
    Landlock,
    /// Descriptors.
    Descriptors,
    /// Signals.
    Signals,
    /// Starting a process.
    Fork,
    /// A session of its own.
    Session,
    /// Going to the working directory.
    Workdir,
    /// Loading the system-call filter.
    Filter,
    /// Setting resource limits.
    Limits,
    /// One more layer of Landlock than there can be.
    Layers,
    /// Making private directories.
    Scratch,
    /// Looking for one's own children.
    Children,
    /// Something can be written that the plan does not name.
    Writable,
    /// Listening on the port of the way out.
    WayOut,
    /// Taking the certificates that the proxy is trusted by.
    Trust,
    /// Connecting sockets of the target.
    Connections,
    /// A link of an image leads what is to be mounted into a grant.
    Image,
}

impl Step {
    const ALL: [Self; 22] = [
        Self::Handle,
        Self::NotIsolated,
        Self::Privileges,
        Self::View,
        Self::Incomplete,
        Self::Cover,
        Self::Landlock,
        Self::Descriptors,
        Self::Signals,
        Self::Fork,
        Self::Session,
        Self::Workdir,
        Self::Filter,
        Self::Limits,
        Self::Layers,
        Self::Scratch,
        Self::Children,
        Self::Writable,
        Self::WayOut,
        Self::Trust,
        Self::Connections,
        Self::Image,
    ];

    /// The step with this number; one that no inner stage sends counts as [`Step::Fork`].
    #[must_use]
    pub fn from_number(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Fork)
    }

    /// What could not be done.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Handle => "get a handle on the process inside",
            Self::NotIsolated => "confirm that the process is inside the sandbox",
            Self::Privileges => "confirm that all privileges are gone inside the sandbox",
            Self::View => "confirm that the files inside are the ones that were planned",
            Self::Incomplete => "confirm that the launcher did everything it was told",
            Self::Cover => "hide files inside the sandbox",
            Self::Landlock => "confine the command by Landlock",
            Self::Descriptors => "arrange descriptors",
            Self::Signals => "restore signals",
            Self::Fork => "start a process inside the sandbox",
            Self::Session => "make a new session",
            Self::Workdir => "go to the working directory",
            Self::Filter => "load the system-call filter",
            Self::Limits => "set the resource limits",
            Self::Layers => "confine the command by Landlock: nested too deeply, 16 layers are the most",
            Self::Scratch => "make private directories",
            Self::Trust => "put the certificates of the proxy where programs find them",
            Self::Connections => "make connections in the place of the command",
            Self::WayOut => "listen on the port inside that leads to the proxy",
            Self::Children => {
                "look after what the command leaves behind: /proc does not tell of the children of a process here"
            }
            Self::Image => "mount anything in this image: a link or a volume of it leads into what is granted",
            Self::Writable => "confirm that nothing else can be written inside the sandbox",
        }
    }
}

/// What the inner stage says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// The inner stage runs; a handle on it goes along.
    Alive,
    /// It cannot go on: what, and the error number (0: none).
    Failed(Step, i32),
    /// The target cannot be executed: error number.
    NotExecuted(i32),
    /// Everything is ready, and there is nothing to start: a rehearsal.
    Ready,
    /// From here on the target may run: whatever comes, no other attempt may follow.
    Executing,
    /// This process is about to become the target, at this time of the clock; the kernel adds its number.
    Target(Moment),
    /// In place of the target: what came of trying this with the next path.
    Tried(Act, Answer),
    /// The target runs.
    Started,
    /// The target stopped.
    Stopped,
    /// SIGCONT was passed on to the target.
    Continued,
    /// The target goes on, whoever made it.
    Resumed,
    /// The target ended by itself.
    Exited(i32),
    /// A signal ended the target.
    Signaled(i32),
    /// One process has used the processor time that each may use.
    Spent,
    /// There is no such target, or it cannot be executed: by the kind of the `Refusal` that follows.
    Unfit,
    /// What all that ran inside has used: the `Usage` that follows.
    Used,
    /// It could not build the sandbox around itself: the `Fault` that follows.
    Unbuilt,
}

/// Bytes of each record.
const RECORD: usize = 6;

/// At most so many follow one.
const MOST_MORE: usize = 8 << 10;

impl Report {
    /// Whether bytes may follow.
    fn has_more(self) -> bool {
        matches!(self, Self::Unfit | Self::Used | Self::Unbuilt)
    }

    fn encode(self) -> [u8; 6] {
        let (tag, step, value) = match self {
            Self::Alive => (0, 0, 0),
            Self::Failed(step, errno) => (1, step as u8, errno),
            Self::NotExecuted(errno) => (2, 0, errno),
            Self::Started => (3, 0, 0),
            Self::Stopped => (4, 0, 0),
            Self::Exited(code) => (5, 0, code),
            Self::Signaled(signal) => (6, 0, signal),
            Self::Ready => (7, 0, 0),
            Self::Continued => (8, 0, 0),
            Self::Executing => (9, 0, 0),
            Self::Target(moment) => (10, 0, moment.number()),
            Self::Resumed => (12, 0, 0),
            Self::Spent => (13, 0, 0),
            Self::Unfit => (14, 0, 0),
            Self::Used => (15, 0, 0),
            Self::Unbuilt => (16, 0, 0),
            Self::Tried(act, answer) => (11, act as u8, answer.number()),
        };
        let mut record = [tag, step, 0, 0, 0, 0];
        record[2..].copy_from_slice(&value.to_ne_bytes());
        record
    }

    fn decode(record: [u8; 6]) -> Option<Self> {
        let value = i32::from_ne_bytes([record[2], record[3], record[4], record[5]]);
        match record[0] {
            0 => Some(Self::Alive),
            1 => Some(Self::Failed(Step::from_number(record[1]), value)),
            2 => Some(Self::NotExecuted(value)),
            3 => Some(Self::Started),
            4 => Some(Self::Stopped),
            5 => Some(Self::Exited(value)),
            6 => Some(Self::Signaled(value)),
            7 => Some(Self::Ready),
            8 => Some(Self::Continued),
            9 => Some(Self::Executing),
            10 => Some(Self::Target(Moment::from_number(value))),
            12 => Some(Self::Resumed),
            13 => Some(Self::Spent),
            14 => Some(Self::Unfit),
            15 => Some(Self::Used),
            16 => Some(Self::Unbuilt),
            11 => Some(Self::Tried(Act::from_number(record[1])?, Answer::from_number(value))),
            _ => None,
        }
    }
}

/// A report as it arrives.
#[derive(Debug)]
pub struct Message {
    /// What is said.
    pub report: Report,
    /// The handle that came with it.
    pub handle: Option<OwnedFd>,
    /// What follows the record, for those that have more to say.
    pub more: Vec<u8>,
    /// Number of the process that said it, as the kernel knows it here, be it gone or not.
    pub sender: i32,
}

/// The two ends: outer, inner. Both close-on-exec.
pub fn pair() -> nix::Result<(Outer, Inner)> {
    let (outer, inner) = channel::pair()?;
    Ok((Outer(outer), Inner(inner)))
}

/// The end on the host.
#[derive(Debug)]
pub struct Outer(OwnedFd);

impl Outer {
    /// The next report and what came with it; `None` at the end.
    pub fn receive(&self) -> io::Result<Option<Message>> {
        let mut record = [0_u8; RECORD + MOST_MORE];
        let Arrived { length, descriptor: handle, sender } = channel::receive(self.as_fd(), &mut record)?;
        if length == 0 {
            return Ok(None);
        }
        let (head, more) = record.get(..length).and_then(<[u8]>::split_first_chunk::<RECORD>).unzip();
        let more = more.map_or_else(Vec::new, <[u8]>::to_vec);
        let report = head.copied().and_then(Report::decode).filter(|report| report.has_more() || more.is_empty());
        report
            .map(|report| Some(Message { report, handle, more, sender }))
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a record that no inner stage sends"))
    }

    /// Passes a signal number on. Never waits: an inner stage that is slow or stopped must not stop us.
    pub fn signal(&self, number: i32) -> io::Result<()> {
        channel::send(self.as_fd(), &number.to_ne_bytes(), None, false)
    }
}

impl AsFd for Outer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The end inside.
#[derive(Debug)]
pub struct Inner(OwnedFd);

impl Inner {
    /// Sends a report that is followed by bytes; too many are cut off.
    pub fn report_more(&self, report: Report, more: &[u8]) -> io::Result<()> {
        let more = more.get(..MOST_MORE).unwrap_or(more);
        channel::send(self.as_fd(), &[&report.encode(), more].concat(), None, true)
    }

    /// Sends a report, with a handle where it has one.
    pub fn report(&self, report: Report, handle: Option<BorrowedFd>) -> io::Result<()> {
        channel::send(self.as_fd(), &report.encode(), handle, true)
    }

    /// The next signal to pass on; `None` when the outer stage is gone.
    pub fn receive(&self) -> io::Result<Option<i32>> {
        let mut record = [0_u8; 4];
        let length = channel::receive_plain(self.as_fd(), &mut record)?;
        Ok((length == record.len()).then(|| i32::from_ne_bytes(record)))
    }
}

impl From<OwnedFd> for Inner {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl From<Inner> for OwnedFd {
    fn from(end: Inner) -> Self {
        end.0
    }
}

impl AsFd for Inner {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_is_heard_whatever_was_not_read_inside() {
        let (outer, inner) = pair().unwrap();
        inner.report(Report::Started, None).unwrap();
        inner.report(Report::Exited(7), None).unwrap();
        outer.signal(1).unwrap();
        drop(inner);
        let reports: Vec<_> = std::iter::from_fn(|| outer.receive().unwrap()).map(|message| message.report).collect();
        assert_eq!(reports, [Report::Started, Report::Exited(7)]);
    }
}
