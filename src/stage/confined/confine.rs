//! What a process does to itself where no namespace is around it: privileges, keyring and Landlock, in that order.
//!
//! Runs in the process that becomes the target, between fork and exec. Trusts names only as far as what has them is what was
//! planned.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;
use nix::unistd::getpid;
use serde::{Deserialize, Serialize};

use super::super::control::Step;
use crate::launch;
use crate::plan::Plan;
use crate::plan::reach::{Allowed, Right};
use crate::sys::at::place;
use crate::sys::landlock::{Domain, Rights};
use crate::{seccomp, sys};

/// What may be done, device and inode of what is there, and whether it must hold.
pub type Rule = (Right, Option<(u64, u64)>, bool);

/// What of a confinement is no string.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Confine {
    /// Version of Landlock.
    pub landlock: i32,
    /// Whether TCP is refused.
    pub no_tcp: bool,
    /// Of each rule all but the path.
    pub rules: Vec<Rule>,
    /// What the system-call filter depends on.
    pub filter: seccomp::Options,
    /// Whether the file that stands for all that is closed lies in no grant.
    pub closed: bool,
    /// Whether metadata of all files can be changed where nobody can decide about it.
    pub lenient: bool,
}

impl Confine {
    /// That of a plan.
    #[allow(clippy::unnecessary_wraps, reason = "elsewhere there is none")]
    pub fn of(plan: &Plan, confinement: &launch::Confinement) -> io::Result<Self> {
        let launch::Confinement { landlock, rules, no_tcp } = confinement;
        let closed = plan.reach.as_ref().is_some_and(|reach| !reach.gives(&reach.scratch.closed(), false)[0]);
        Ok(Self {
            landlock: *landlock,
            no_tcp: *no_tcp,
            rules: rules.iter().map(|rule| (rule.right, rule.file, rule.named)).collect(),
            filter: crate::stage::handoff::filter(plan),
            closed,
            lenient: plan.reach.as_ref().is_some_and(|reach| reach.metadata),
        })
    }

    /// Of each rule all but the path.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }
}

/// A step that failed, and its error number.
pub type Failed = (Step, i32);

fn failed(step: Step) -> impl Fn(io::Error) -> Failed {
    move |error| (step, error.raw_os_error().unwrap_or(0))
}

/// Gives up privileges: before anything is looked for, since a target finds no more than this process does then.
pub fn give_up_privileges(_: &Confine) -> Result<(), Failed> {
    sys::process::drop_capabilities().map_err(failed(Step::Privileges))?;
    match sys::process::holds_capabilities(&[]) {
        Ok(false) => {}
        Ok(true) => return Err((Step::Privileges, 0)),
        Err(error) => return Err(failed(Step::Privileges)(error)),
    }
    // Where there is no room for a new one, the filter still keeps the target from the caller's.
    let _left = sys::keyring::leave();
    // Nothing else ends this process when the inner stage is killed.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(|errno| (Step::Signals, errno as i32))
}

/// Puts the rules on this process. `given` are the descriptors that it got: what they are open on can be opened again.
pub fn confine(confine: &Confine, rules: &[Allowed], given: &[BorrowedFd], closed: &Path) -> Result<(), Failed> {
    let mut domain = Domain::new(confine.landlock, confine.no_tcp).map_err(|error| of_landlock(&error))?;
    for rule in rules {
        match open(&rule.path) {
            Ok((file, found)) if rule.file.is_none_or(|file| file == (found.dev(), found.ino())) => {
                let allowed = domain.allow(file.as_fd(), found.is_dir(), rights(rule.right));
                allowed.map_err(|error| of_landlock(&error))?;
            }
            // Replaced, or gone: nobody named it, and leaving it out only forbids more.
            Ok(_) | Err(_) if !rule.named => {}
            Ok(_) => return Err((Step::View, 0)),
            Err(error) => return Err(failed(Step::View)(error)),
        }
    }
    for path in own_process() {
        if let Ok((file, found)) = open(&path) {
            let allowed = domain.allow(file.as_fd(), found.is_dir(), rights(Right::Read));
            allowed.map_err(|error| of_landlock(&error))?;
        }
    }
    for file in given {
        again(&mut domain, *file);
    }
    domain.close().map_err(|error| of_landlock(&error))?;
    match File::open(closed) {
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => Ok(()),
        _ if !confine.closed => Ok(()),
        Ok(_) => Err((Step::NotIsolated, 0)),
        Err(error) => Err(failed(Step::NotIsolated)(error)),
    }
}

fn rights(right: Right) -> Rights {
    let none = Rights { list: false, read: false, write: false, set: false, connect: false };
    match right {
        Right::List => Rights { list: true, ..none },
        Right::Read => Rights { list: true, read: true, ..none },
        Right::Write => Rights { list: true, read: true, write: true, set: true, connect: true },
        Right::Device => Rights { read: true, write: true, set: true, ..none },
        Right::Socket => Rights { connect: true, ..none },
    }
}

/// A path without following a link at its end, as a place in the tree that cannot be read.
fn open(path: &Path) -> io::Result<(File, fs::Metadata)> {
    let file = place(path, false)?;
    let found = file.metadata()?;
    Ok((file, found))
}

/// Lets what a descriptor is open on be opened again by its name in `/proc`, as far as the descriptor itself goes.
fn again(domain: &mut Domain, file: BorrowedFd) {
    let found = file.try_clone_to_owned().ok().and_then(|owned| File::from(owned).metadata().ok());
    let (Some(found), Ok(flags)) = (found, fcntl(file, FcntlArg::F_GETFL)) else { return };
    let access = OFlag::from_bits_truncate(flags) & OFlag::O_ACCMODE;
    let (read, write) = (access != OFlag::O_WRONLY, access != OFlag::O_RDONLY && !found.is_dir());
    // A pipe or socket has no place in a tree and needs no rule. Whatever else fails here only forbids more.
    let _allowed = domain.allow(file, found.is_dir(), Rights { list: read, read, write, set: true, connect: false });
}

/// What `/proc` says of this process, without what it says of the network: that is the host's.
fn own_process() -> Vec<PathBuf> {
    let process = PathBuf::from(format!("/proc/{}", getpid()));
    let thread = process.join(format!("task/{}", getpid()));
    let mut all = Vec::new();
    for directory in [process, thread] {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let link = entry.file_type().map_or(true, |kind| kind.is_symlink());
            if !link && !["net", "task"].iter().any(|name| entry.file_name() == *name) {
                all.push(entry.path());
            }
        }
    }
    all
}

fn of_landlock(error: &anyhow::Error) -> Failed {
    let errno = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>()).and_then(io::Error::raw_os_error);
    match errno {
        // landlock_restrict_self(2): so many layers are on this process already.
        Some(libc::E2BIG) => (Step::Layers, 0),
        errno => (Step::Landlock, errno.unwrap_or(0)),
    }
}

/// Keeps what `/proc` has of the machine: a rule follows the file, and the kernel forgets such a file that nobody holds.
#[must_use]
pub fn held(rules: &[Allowed]) -> Vec<File> {
    let of_proc = rules.iter().filter(|rule| rule.path.starts_with("/proc"));
    of_proc.filter_map(|rule| open(&rule.path).ok()).map(|(file, _)| file).collect()
}
