//! The group that a container engine makes: it is told the limits, and it is looked at whether it set them.
//!
//! An engine whose settings or whose host leave control groups out says nothing and starts the container all the same.

use std::io;
use std::path::{Path, PathBuf};

use nix::unistd::Pid;

use super::find::Tables;
use super::members::Members;
use super::readings::{Readings, bound};
use super::unified::{SWAP_UNBOUNDED, has_swap};
use super::{Group, Wants};

/// A group that is there only when the container is.
pub(super) fn prepare(wants: &Wants) -> Group {
    Group {
        entrances: Vec::new(),
        members: Members::default(),
        readings: Readings::default(),
        scope: None,
        promised: Some(*wants),
        guardian: None,
    }
}

/// The group in which `process`, the first one of the container, is, with the limits that were asked for.
pub(super) fn joined(wants: &Wants, process: Pid) -> io::Result<Readings> {
    let tables = Tables::of(process).ok_or_else(|| io::Error::other("cannot find the group of the container"))?;
    let unified = tables.unified().map(|own| own.directory);
    let legacy = |controller: &str| tables.legacy(controller).map(|own| own.directory);
    let unset = |what: &str| Err(io::Error::other(format!("the engine has set no limit on {what}")));
    if let Some(memory) = wants.memory {
        let set = first(&[(unified.clone(), "memory.max"), (legacy("memory"), "memory.limit_in_bytes")]);
        if set.is_none_or(|set| set > memory) {
            return unset("memory");
        }
        let with_swap = legacy("memory").and_then(|own| bound(&own.join("memory.memsw.limit_in_bytes")));
        let swap = unified.as_deref().and_then(|own| bound(&own.join("memory.swap.max")));
        if has_swap() && swap != Some(0) && with_swap.is_none_or(|set| set > memory) {
            return Err(io::Error::other(SWAP_UNBOUNDED));
        }
    }
    if let Some(procs) = wants.procs {
        let set = first(&[(unified.clone(), "pids.max"), (legacy("pids"), "pids.max")]);
        if set.is_none_or(|set| set > procs) {
            return unset("processes");
        }
    }
    Ok(unified.map_or_else(Readings::default, |own| Readings::unified(&own, wants.procs)))
}

/// The number in the first of these files that is there.
fn first(places: &[(Option<PathBuf>, &str)]) -> Option<u64> {
    places.iter().find_map(|(own, name)| bound(&Path::new(own.as_deref()?).join(name)))
}
