//! Control group v2.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::find::{Own, missing, must_be_writable, words};
use super::members::{fresh_name, sweep};
use super::readings::{Readings, bound};
use super::{Group, Wants, set, told};
use crate::sys;

/// A group of v2 below which we can make ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unified {
    /// The one in which ours is made.
    pub(super) parent: PathBuf,
    /// The groups that hold us below it, if we are not in it: what they bound, ours must not exceed.
    pub(super) beside: Vec<PathBuf>,
}

impl Unified {
    /// The nearest group above us that already passes on what is needed and that we may make groups in.
    ///
    /// `managed`: a service manager owns all groups but those that it has delegated.
    pub(super) fn find(own: &Own, wants: &Wants, managed: bool) -> Result<Self, String> {
        let needed: Vec<&str> = [(wants.memory.is_some(), "memory"), (wants.procs.is_some(), "pids")]
            .into_iter()
            .filter(|(is, _)| *is)
            .map(|(_, name)| name)
            .collect();
        let available = words(&own.directory.join("cgroup.controllers"));
        if let Some(name) = needed.iter().find(|name| !available.iter().any(|word| word == *name)) {
            return Err(format!("control group v2 has no {name} controller here"));
        }
        let mut why = String::new();
        let mut beside = Vec::new();
        for directory in own.directory.ancestors().take_while(|directory| directory.starts_with(&own.top)) {
            let passed_on = words(&directory.join("cgroup.subtree_control"));
            let lacks = needed.iter().find(|name| !passed_on.iter().any(|word| word == *name));
            let result = match lacks {
                Some(name) => Err(format!("'{}' passes no {name} controller on", directory.display())),
                None => usable(directory, own, managed),
            };
            match result {
                Ok(()) => return Ok(Self { parent: directory.to_owned(), beside }),
                // That of the nearest one explains best.
                Err(error) if why.is_empty() => why = error,
                Err(_) => {}
            }
            beside.push(directory.to_owned());
        }
        Err(why)
    }

    pub(super) fn create(&self, wants: &Wants) -> io::Result<Group> {
        sweep(&self.parent);
        let directory = self.parent.join(fresh_name()?);
        let mut group = Group::begin(vec![directory.clone()])?;
        if let Some(memory) = wants.memory {
            set(&directory, "memory.max", self.no_more_than("memory.max", memory))?;
            match set(&directory, "memory.swap.max", 0) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if has_swap() {
                        return Err(io::Error::other(SWAP_UNBOUNDED));
                    }
                }
                result => result?,
            }
            // One that is killed takes all others along. Since Linux 4.19; without it we do that ourselves.
            match set(&directory, "memory.oom.group", 1) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let procs = wants.procs.map(|procs| self.no_more_than("pids.max", procs));
        if let Some(procs) = procs {
            set(&directory, "pids.max", procs)?;
        }
        group.readings = Readings::unified(&directory, procs);
        let entrance = directory.join("cgroup.procs");
        group.entrances =
            vec![File::options().write(true).open(&entrance).map_err(|error| told("open", &entrance, &error))?];
        Ok(group)
    }

    /// Leaving the groups that hold us must not be a way out of their limits.
    fn no_more_than(&self, name: &str, wanted: u64) -> u64 {
        self.beside.iter().filter_map(|directory| bound(&directory.join(name))).fold(wanted, u64::min)
    }
}

/// Memory could go to swap unseen.
pub(super) const SWAP_UNBOUNDED: &str = "swap is in use here and the kernel does not count it for groups";

/// Whether the machine has swap.
pub(super) fn has_swap() -> bool {
    // The first line is a heading. What cannot be read may be there.
    std::fs::read_to_string("/proc/swaps").map_or(true, |text| text.lines().count() > 1)
}

/// Whether we may make groups in `directory` and move a process of ours from our own group to there.
fn usable(directory: &Path, own: &Own, managed: bool) -> Result<(), String> {
    must_be_writable(directory)?;
    must_be_writable(&directory.join("cgroup.procs"))?;
    if managed && !is_delegated(directory, &own.top) {
        return Err(missing(directory, "belongs to the service manager, which has not delegated it"));
    }
    Ok(())
}

/// Whether a service manager has given this group, or one that it lies in, out of its hands: and not to another one.
fn is_delegated(directory: &Path, top: &Path) -> bool {
    let marked = |path: &&Path| {
        [c"trusted.delegate", c"user.delegate"].iter().any(|name| sys::group::has_attribute(path, name, b"1"))
    };
    let above = directory.ancestors().take_while(|path| path.starts_with(top));
    let nearest = above.into_iter().find(marked).and_then(Path::file_name).map(std::ffi::OsStr::as_encoded_bytes);
    nearest.is_some_and(|name| !(name.starts_with(b"user@") && name.ends_with(b".service")))
}
