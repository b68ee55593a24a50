//! What the outer stage hands to the inner stage: one sealed memory file and a nonce.
//!
//! A header in JSON, then NUL-terminated strings: they may hold any other byte, and `execve` takes none that has a NUL.
//! Nothing here is secret from the launcher program in between; it never reaches the target.

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::confined::Confine;
use super::contained::Container;
use super::inside::Isolation;
use super::left::Wanted;
use super::rlimits::Rlimits;
use super::trial::Trial;
use super::way_out;
use crate::plan::reach::Allowed;
use crate::plan::{Check, Held, MountOp, Plan};
use crate::policy::Network;
use crate::sys::inherited::Inherited;
use crate::{seccomp, sys};

/// The marker variable. It stops a re-execution loop and proves nothing: see [`super::inner::claim`].
pub const MARKER: &str = "SANDBOX_RUN_STAGE";

/// What the inner stage has to do, apart from strings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Header {
    /// Equal to the one in the marker.
    pub nonce: String,
    /// Descriptor of the control socket.
    pub control: RawFd,
    /// Descriptors that become the target's standard streams; `None` stays closed.
    pub streams: [Option<RawFd>; 3],
    /// Descriptors above 2 that cross.
    pub keep: BTreeSet<RawFd>,
    /// Signals as the caller of sandbox-run left them.
    pub inherited: Inherited,
    /// Whether the target gets a session of its own.
    pub new_session: bool,
    /// What the kernel must say before anything starts; `None` when nothing is isolated.
    pub isolation: Option<Isolation>,
    /// What the process that becomes the target does to itself, where no namespace is around it.
    pub confine: Option<Confine>,
    /// What is different in a container; `None` elsewhere.
    pub container: Option<Container>,
    /// Whether the target is a script without `#!`, which the shell runs.
    pub by_shell: bool,
    /// Resource limits of the target.
    pub rlimits: Rlimits,
    /// Start nothing: report that everything would be ready.
    pub rehearsal: bool,
    /// Where to say what the target leaves in places that end with the sandbox, if anybody wants to hear of it.
    pub left: Option<Wanted>,
    /// The port to listen on, and who serves it.
    pub way_out: Option<way_out::Wanted>,
    /// How many of the strings are arguments, variables, checks (one file and its path each), writable places, trials,
    /// devices and rules of Landlock.
    pub counts: [usize; 7],
    /// Device, inode, what must be there and whether the inner stage has to mount it, for each check.
    pub checks: Vec<(u64, u64, Held, bool)>,
    /// Device and inode of what the host has, for each trial. With trials no target is started.
    pub trials: Vec<Option<(u64, u64)>>,
}

/// The hand-off, taken apart.
#[derive(Clone, Debug)]
pub struct Handoff {
    /// The part without strings.
    pub header: Header,
    /// Program to execute.
    pub program: CString,
    /// Directory to start in.
    pub workdir: PathBuf,
    /// Made read-only by the last operation of the plan, or closed to the target: proof that all was carried out.
    pub seal: PathBuf,
    /// Arguments.
    pub argv: Vec<CString>,
    /// Environment, `NAME=VALUE`.
    pub environment: Vec<CString>,
    /// Promises to verify.
    pub checks: Vec<Check>,
    /// Where the target may write.
    pub writable: Vec<PathBuf>,
    /// What to try in place of the target.
    pub trials: Vec<Trial>,
    /// Device nodes to make read-only.
    pub devices: Vec<PathBuf>,
    /// Rules of Landlock.
    pub rules: Vec<Allowed>,
}

/// What is started inside.
#[derive(Clone, Copy, Debug)]
pub struct Errand<'a> {
    /// Program to execute.
    pub program: &'a Path,
    /// Its arguments.
    pub argv: &'a [OsString],
    /// What to try instead, if anything.
    pub trials: &'a [Trial],
}

/// What the system-call filter of a run inside a sandbox depends on.
#[must_use]
pub fn filter(plan: &Plan) -> seccomp::Options {
    let reach = plan.reach.as_ref();
    seccomp::Options {
        own_group: !plan.new_session && !sys::landlock::scopes(sys::landlock::version()),
        shared_group: !plan.new_session,
        trace: plan.trace.is_some(),
        old_landlock: !sys::landlock::binds_emptying(sys::landlock::version()),
        // Also without a write grant: a standard stream may be a file of the host.
        as_root: nix::unistd::geteuid().is_root(),
        bare: reach.is_some(),
        no_network: reach.is_some() && plan.network == Network::Off && plan.way_out.is_none(),
        way_out: reach.is_some() && plan.way_out.is_some(),
        no_unix: reach.is_some_and(|reach| !reach.unix_sockets),
        no_metadata: reach.is_some(),
        // The process that loads the filter finds out whether it can be.
        asked: false,
    }
}

/// The place that the last mount operation makes read-only, or that Landlock closes; empty when there is neither.
fn last_seal(plan: &Plan) -> PathBuf {
    match (plan.by_launcher().last(), &plan.reach) {
        (Some(MountOp::ReadOnly { at }), _) => at.clone(),
        (_, Some(reach)) => reach.scratch.closed(),
        _ => PathBuf::new(),
    }
}

/// Writes the hand-off for `plan`.
pub fn write(header: &Header, plan: &Plan, errand: &Errand) -> io::Result<OwnedFd> {
    let mut bytes = serde_json::to_vec(header)?;
    bytes.push(0);
    let mut push = |text: &[u8]| -> io::Result<()> {
        if text.contains(&0) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a NUL byte in an argument or variable"));
        }
        bytes.extend_from_slice(text);
        bytes.push(0);
        Ok(())
    };
    push(errand.program.as_os_str().as_bytes())?;
    push(plan.workdir.as_os_str().as_bytes())?;
    push(last_seal(plan).as_os_str().as_bytes())?;
    for word in errand.argv {
        push(word.as_bytes())?;
    }
    for (name, value) in &plan.environment.vars {
        let mut text = name.as_bytes().to_vec();
        text.push(b'=');
        text.extend_from_slice(value.as_bytes());
        push(&text)?;
    }
    for check in &plan.checks {
        push(check.path.as_os_str().as_bytes())?;
    }
    for place in plan.walls() {
        push(place.as_os_str().as_bytes())?;
    }
    for trial in errand.trials {
        push(trial.path.as_os_str().as_bytes())?;
    }
    for device in &plan.frozen {
        push(device.as_os_str().as_bytes())?;
    }
    for rule in plan.reach.iter().flat_map(|reach| &reach.rules) {
        push(rule.path.as_os_str().as_bytes())?;
    }
    sys::fd::sealed(c"handoff", &bytes)
}

/// Reads a hand-off back. Without an error number when `file` is not one that can be trusted to be constant and complete.
pub fn read(file: impl AsFd, nonce: &str) -> io::Result<Handoff> {
    let file = file.as_fd();
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "what was handed over is damaged");
    if !sys::fd::is_sealed(file) {
        return Err(damaged());
    }
    take_apart(&sys::fd::read_whole(file)?, nonce).ok_or_else(damaged)
}

fn take_apart(bytes: &[u8], nonce: &str) -> Option<Handoff> {
    let mut strings = bytes.strip_suffix(b"\0")?.split(|byte| *byte == 0);
    let header: Header = serde_json::from_slice(strings.next()?).ok()?;
    if header.nonce != nonce {
        return None;
    }
    let [arguments, variables, checks, writable, trials, devices, rules] = header.counts;
    let mut string = || strings.next().and_then(|text| CString::new(text).ok());
    let program = string()?;
    let mut path = || Some(PathBuf::from(OsString::from_vec(string()?.into_bytes())));
    let workdir = path()?;
    let seal = path()?;
    let argv = (0..arguments).map(|_| string()).collect::<Option<Vec<_>>>()?;
    let environment = (0..variables).map(|_| string()).collect::<Option<Vec<_>>>()?;
    let paths = (0..checks).map(|_| string()).collect::<Option<Vec<_>>>()?;
    let writable = (0..writable).map(|_| string()).collect::<Option<Vec<_>>>()?;
    let tried = (0..trials).map(|_| string()).collect::<Option<Vec<_>>>()?;
    let devices = (0..devices).map(|_| string()).collect::<Option<Vec<_>>>()?;
    let rules = (0..rules).map(|_| string()).collect::<Option<Vec<_>>>()?;
    let told = header.confine.as_ref().map(Confine::rules).unwrap_or_default();
    if string().is_some()
        || header.checks.len() != paths.len()
        || header.trials.len() != tried.len()
        || told.len() != rules.len()
    {
        return None;
    }
    let checks = paths
        .into_iter()
        .zip(&header.checks)
        .map(|(path, &(device, inode, held, covered))| Check {
            path: path_of(&path),
            device,
            inode,
            changed: (0, 0),
            held,
            covered,
        })
        .collect();
    let writable = writable.iter().map(path_of).collect();
    let devices = devices.iter().map(path_of).collect();
    let rules = rules.iter().zip(told);
    let rules =
        rules.map(|(path, &(right, file, named))| Allowed { path: path_of(path), right, file, named }).collect();
    let trials =
        tried.iter().zip(&header.trials).map(|(path, file)| Trial { path: path_of(path), file: *file }).collect();
    Some(Handoff { header, program, workdir, seal, argv, environment, checks, writable, trials, devices, rules })
}

fn path_of(text: &CString) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(text.as_bytes()))
}
