//! Who holds the limits on a whole tree: a control group, a resource limit, or nobody here.

use super::resolve::{Attempt, Lost};
use super::view::View;
use crate::backend::Backend;
use crate::diagnose::NO_GROUP;
use crate::error::{Error, Kind};
use crate::host::Host;
use crate::policy::protection::Strength;
use crate::policy::{Limits, Origin, Policy, Protection};
use crate::stage::cgroup::{self, Group, Mechanism, Wants};
use crate::sys::process::describe;

/// How the limits of a plan are kept.
#[derive(Debug)]
pub(super) struct Bounds {
    /// Without those that nobody keeps.
    pub(super) limits: Limits,
    pub(super) cgroup: Option<Mechanism>,
    pub(super) procs_by_rlimit: bool,
}

/// What the first kernel was that counts processes of a user namespace apart: 5.14.
const COUNTS_APART: (u32, u32) = (5, 14);

impl Bounds {
    /// Adds to `lost` what cannot be had on this host.
    pub(super) fn find(
        policy: &Policy,
        backend: Backend,
        host: &Host,
        attempt: Attempt,
        view: &View,
        lost: &mut Lost,
    ) -> Self {
        if let Backend::Container(_) = backend {
            return Self::by_engine(policy, attempt, lost);
        }
        let mut limits = policy.limits.clone();
        let mut procs_by_rlimit = false;
        if backend.strength(Protection::Memory) == Strength::Absent {
            (limits.memory, limits.max_procs) = (None, None);
            return Self { limits, cgroup: None, procs_by_rlimit };
        }
        let mut wants = Wants::default();
        let find = |wants: &Wants| {
            if attempt.ungrouped {
                Err("making one failed".to_owned())
            } else if let Some(place) = cgroup::places().into_iter().find(|place| view.lets_write_in(place)) {
                Err(format!("a write grant covers the control groups in '{}'", place.display()))
            } else {
                cgroup::find(wants, host, backend.has_view())
            }
        };
        if let Some(memory) = limits.memory {
            match find(&Wants { memory: Some(memory), ..Wants::default() }) {
                Ok(_) => wants.memory = Some(memory),
                Err(why) => {
                    limits.memory = None;
                    lost.push((Protection::Memory, no_group(&why).into()));
                }
            }
        }
        if let Some(procs) = limits.max_procs {
            let total = Some(Wants::procs_with_ours(procs, backend));
            match find(&Wants { procs: total, ..wants }) {
                // A scope takes a while, and the resource limit does as much.
                Ok(mechanism) if mechanism.is_systemd() && wants.memory.is_none() && by_rlimit(backend) => {
                    procs_by_rlimit = true;
                }
                Ok(_) => wants.procs = total,
                Err(_) if by_rlimit(backend) => procs_by_rlimit = true,
                Err(why) => {
                    limits.max_procs = None;
                    lost.push((Protection::Procs, no_group(&why).into()));
                }
            }
        }
        wants.cpu = limits.cpu_time.is_some();
        let cgroup = if wants.is_limit() {
            find(&wants).ok()
        } else if wants.cpu {
            find(&wants).ok().filter(|mechanism| !mechanism.is_systemd())
        } else {
            None
        };
        Self { limits, cgroup, procs_by_rlimit }
    }
}

impl Bounds {
    /// With an engine, which is told of them; what it did not set the last attempt has found out.
    fn by_engine(policy: &Policy, attempt: Attempt, lost: &mut Lost) -> Self {
        const UNSET: &str = "the container engine does not set it";
        let mut limits = policy.limits.clone();
        if attempt.ungrouped {
            if limits.memory.take().is_some() {
                lost.push((Protection::Memory, UNSET.into()));
            }
            if limits.max_procs.take().is_some() {
                lost.push((Protection::Procs, UNSET.into()));
            }
        }
        let wants = limits.memory.is_some() || limits.max_procs.is_some();
        Self { limits, cgroup: cgroup::of_engine().filter(|_| wants), procs_by_rlimit: false }
    }
}

/// What keeps one limit.
#[derive(Debug)]
pub enum Keeper {
    /// A control group.
    Group(Mechanism),
    /// A resource limit.
    Rlimit,
}

/// What would keep such a limit on this host, or why nothing would.
///
/// Makes a group to find out, and removes it again: what can be written to may still be refused.
pub fn keeper(backend: Backend, host: &Host, wants: &Wants) -> Result<Keeper, String> {
    if let Backend::Container(_) = backend {
        return cgroup::of_engine().map(Keeper::Group).ok_or_else(|| "this system has none".to_owned());
    }
    let found = cgroup::find(wants, host, backend.has_view()).and_then(|mechanism| {
        Group::create(&mechanism, wants).map(drop).map_err(|error| describe(&error)).map(|()| mechanism)
    });
    match found {
        Ok(mechanism) if !(mechanism.is_systemd() && wants.procs.is_some() && by_rlimit(backend)) => {
            Ok(Keeper::Group(mechanism))
        }
        _ if wants.procs.is_some() && by_rlimit(backend) => Ok(Keeper::Rlimit),
        found => found.map(Keeper::Group).map_err(|why| no_group(&why)),
    }
}

fn no_group(why: &str) -> String {
    format!("{NO_GROUP}: {why}")
}

/// Whether a resource limit set inside counts the processes of the sandbox and no others, and holds for this user.
fn by_rlimit(backend: Backend) -> bool {
    backend.has_view() && !nix::unistd::getuid().is_root() && kernel().is_some_and(|version| version >= COUNTS_APART)
}

fn kernel() -> Option<(u32, u32)> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Refuses a limit that macOS takes and does not keep.
pub(super) fn refuse(policy: &Policy, backend: Backend) -> Result<(), Error> {
    let there = backend == Backend::Seatbelt || cfg!(target_os = "macos");
    if !there || policy.limits.address_space.is_none() {
        return Ok(());
    }
    let origin = policy.origins.get("address_space").unwrap_or(&Origin::Default);
    Err(Error::text(
        Kind::Backend,
        format!("cannot limit the address space ({origin}) with backend '{backend}': macOS keeps no such limit"),
    ))
}
