//! A look at an image before there is anything of the host's in a container of it.
//!
//! An image says more than which files it has: an engine follows its links where it mounts, mounts its volumes, and passes its
//! annotations on to what makes the container. What is found out only once the grants are mounted has been done by then.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::account::Account;
use super::control::Step;
use super::handoff::Header;
use super::inner::{At, Failure};
use super::outcome::{Outcome, Reason};
use super::outer::{self, Mode};
use super::supervise;
use super::terminal::Terminal;
use crate::diagnose;
use crate::exit::Status;
use crate::host::{Host, mounts};
use crate::launch::{Command, Launch};
use crate::plan::{MountOp, Plan};
use crate::policy::Network;
use crate::policy::limits::Limits;
use crate::sys;
use crate::sys::signals::{Arrivals, Signals};

/// In a container: looks at the image before anything of the host is mounted in it. What comes of it, if nothing may follow.
///
/// An engine follows the links of an image, and makes directories and devices where they lead: in a grant, they would be the host's.
pub(super) fn first(plan: &Plan, launch: &Launch, host: &Host) -> Option<(Outcome, Account)> {
    let Launch::Program(command) = launch else { return None };
    let door = command.door.as_ref()?;
    if let Some(question) = &door.question {
        let asked = asks_for_nothing(&command.program, question, &door.environment, host);
        if let Err((outcome, asked)) = asked {
            return Some((outcome, Account { asked, ..Account::default() }));
        }
    }
    let look = Launch::Program(Command { arguments: door.look.clone(), ..command.clone() });
    let bare = bare(plan);
    let places = places(plan);
    let terminal = Terminal::of(host, plan.new_session);
    let (outcome, account) = match outer::start(&bare, &look, host, Mode::Look(&places), None, None) {
        Ok((started, ..)) => supervise::watch(&bare, host, started, terminal),
        Err(reason) => (Outcome::NotStarted(reason), Account::default()),
    };
    match (outcome, account.asked) {
        (Outcome::Ended(Status::Done), None) => None,
        // When it was over: there is nothing that could be told of it.
        (Outcome::Ended(Status::Done), Some(number)) => Some((Outcome::Ended(Status::Signaled(number)), account)),
        (outcome, _) => Some((outcome, account)),
    }
}

/// A place where the engine mounts something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// By its name inside.
    pub at: PathBuf,
    /// Whether that is a file or directory of the host's.
    pub of_host: bool,
}

/// Where engines mount or make something of their own in any container.
const OF_ENGINE: &[&str] = &[
    "/proc",
    "/sys",
    "/sys/fs/cgroup",
    "/dev",
    "/dev/console",
    "/dev/mqueue",
    "/dev/pts",
    "/dev/shm",
    "/etc/group",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/mtab",
    "/etc/passwd",
    "/etc/resolv.conf",
    "/run/.containerenv",
    "/run/secrets",
    "/.dockerenv",
];

/// Where the engine mounts or makes something under `plan`.
fn places(plan: &Plan) -> Vec<Place> {
    let planned = plan.view.iter().filter_map(|op| match op {
        MountOp::Bind { at, device, .. } => Some(Place { at: at.clone(), of_host: !device }),
        MountOp::Tmpfs { at, .. } | MountOp::EmptyFile { at } | MountOp::Copy { at, .. } => {
            Some(Place { at: at.clone(), of_host: false })
        }
        MountOp::Dir { .. }
        | MountOp::Link { .. }
        | MountOp::Proc { .. }
        | MountOp::Dev { .. }
        | MountOp::Queues { .. }
        | MountOp::ReadOnly { .. } => None,
    });
    planned.chain(OF_ENGINE.iter().map(|at| Place { at: at.into(), of_host: false })).collect()
}

/// The plan for a container with nothing of the host's in it.
fn bare(plan: &Plan) -> Plan {
    let own = |op: &&MountOp| {
        matches!(
            op,
            MountOp::Dir { .. }
                | MountOp::Proc { .. }
                | MountOp::Dev { .. }
                | MountOp::Queues { .. }
                | MountOp::ReadOnly { .. }
        )
    };
    Plan {
        view: plan.view.iter().filter(own).cloned().collect(),
        covers: BTreeSet::new(),
        frozen: Vec::new(),
        reach: None,
        trace: None,
        create: Vec::new(),
        absent: BTreeSet::new(),
        unprotected: Vec::new(),
        checks: Vec::new(),
        network: Network::Off,
        way_out: None,
        keep_fds: BTreeSet::new(),
        limits: Limits::default(),
        cgroup: None,
        ..plan.clone()
    }
}

/// What annotations of an image begin with that describe it, and that no program obeys.
const DESCRIPTIONS: &[&str] = &["com.docker.", "com.github.", "org.label-schema.", "org.opencontainers.image."];

/// How long the engine may take to say what an image has.
const ANSWER: Duration = Duration::from_secs(30);

/// Makes sure that the image has no annotation that changes how its container is made: an engine passes on those of the image, and
/// what starts the container connects to sockets of the host for them, or takes another system-call filter.
///
/// Otherwise how the run has ended, and the signal that has asked for it.
fn asks_for_nothing(
    program: &Path,
    question: &[OsString],
    environment: &[(OsString, OsString)],
    host: &Host,
) -> Result<(), (Outcome, Option<i32>)> {
    let not_started = |reason: Reason| (Outcome::NotStarted(reason), None);
    let ending = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];
    let ending: Vec<_> = ending.into_iter().filter(|signal| !host.inherited.ignores(*signal as i32)).collect();
    let signals = Arrivals::of(Signals::of(&ending)).map_err(|error| not_started(error.into()))?;
    let said = sys::process::run_until(program, question, environment, ANSWER, Some(signals.as_fd()));
    if let Ok(Some(number)) = signals.next() {
        return Err((Outcome::Ended(Status::Signaled(number)), Some(number)));
    }
    let said = said.map_err(|error| not_started(Reason::of(&format!("execute {}", program.display()), &error)))?;
    let text = String::from_utf8_lossy(&said.stdout);
    if !said.success {
        return Err(not_started(Reason {
            text: "it ended before it started the command".into(),
            said: diagnose::said_by_engine(&String::from_utf8_lossy(&said.stderr)),
            ..Reason::default()
        }));
    }
    let text = text.trim();
    if text.is_empty() {
        return Ok(());
    }
    let Ok(annotations) = serde_json::from_str::<Option<BTreeMap<String, String>>>(text) else {
        return Err(not_started(Reason {
            text: "what it says of the image makes no sense".into(),
            ..Reason::default()
        }));
    };
    let mut names = annotations.iter().flatten().map(|(name, _)| name);
    match names.find(|name| !DESCRIPTIONS.iter().any(|known| name.starts_with(known))) {
        None => Ok(()),
        Some(name) => Err(not_started(Reason {
            text: format!(
                "the image would change how its container is made, by the annotation '{}'",
                name.escape_debug()
            ),
            ..Reason::default()
        })),
    }
}

/// In the container: where this is the look, nothing may stand in the way of what is to come.
pub(super) fn verify(header: &Header) -> Result<(), Failure> {
    let places = header.container.as_ref().and_then(|container| container.look.as_ref());
    match places.map(|places| is_straight(places)).transpose().at(Step::Image)? {
        None | Some(true) => Ok(()),
        Some(false) => Err(Failure(Step::Image, 0)),
    }
}

/// Whether what the engine mounts at these places in this image comes to lie where it should, and nothing in a grant.
///
/// Before there is any grant: what cannot be found out is as bad as a link.
fn is_straight(places: &[Place]) -> io::Result<bool> {
    let grants: Vec<_> = places.iter().filter(|place| place.of_host).map(|place| place.at.as_path()).collect();
    for place in places {
        let way = Way::follow(&place.at, &grants)?;
        if way.enters || way.linked && place.of_host {
            return Ok(false);
        }
    }
    // What the engine or a volume of the image has mounted, by its real place. It takes back its own file where a grant is one.
    let table = mounts::table()?;
    let mut points = table.split(|byte| *byte == b'\n').filter_map(mounts::point);
    Ok(points.all(|point| grants.iter().all(|grant| point == *grant || !point.starts_with(grant))))
}

/// Where a path leads in the image.
#[derive(Default)]
struct Way {
    /// Whether there is a link on it.
    linked: bool,
    /// Whether a link leads into a grant.
    enters: bool,
}

impl Way {
    /// Follows the links of `path` as an engine does; what is missing is a directory that it makes.
    fn follow(path: &Path, grants: &[&Path]) -> io::Result<Self> {
        /// As many as the kernel follows.
        const MOST: u32 = 40;
        let mut links = 0;
        let mut at = PathBuf::from("/");
        let mut rest: Vec<OsString> = path.iter().rev().map(OsStr::to_owned).collect();
        while let Some(name) = rest.pop() {
            match name.as_bytes() {
                b"/" => at = "/".into(),
                b"." => {}
                b".." => {
                    at.pop();
                }
                _ => at.push(name),
            }
            let inside =
                |strictly: bool| grants.iter().any(|grant| at.starts_with(grant) && !(strictly && at == *grant));
            if links > 0 && inside(false) {
                return Ok(Self { linked: true, enters: true });
            }
            // Planned on the host: what the image has below is covered.
            if inside(true) {
                break;
            }
            match fs::symlink_metadata(&at) {
                Ok(found) if found.is_symlink() => {
                    links += 1;
                    if links > MOST {
                        return Err(io::Error::from_raw_os_error(libc::ELOOP));
                    }
                    rest.extend(fs::read_link(&at)?.iter().rev().map(OsStr::to_owned));
                    at.pop();
                }
                Ok(_) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { linked: links > 0, enters: false })
    }
}
