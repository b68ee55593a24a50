//! Control groups v1: a hierarchy for each controller, or for some of them together.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::find::{Own, missing, must_be_writable};
use super::members::{fresh_name, sweep};
use super::readings::{Memory, Procs, Readings, Time};
use super::unified::{SWAP_UNBOUNDED, has_swap};
use super::{Group, Wants, set, told};

/// Groups of v1 below which we can make ours: always our own ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Legacy {
    memory: Option<PathBuf>,
    procs: Option<PathBuf>,
    cpu: Option<PathBuf>,
}

impl Legacy {
    /// `own` is where we are in the hierarchy of a controller.
    pub(super) fn find(own: impl Fn(&str) -> Option<Own>, wants: &Wants) -> Result<Self, String> {
        let find = |controller: &str| {
            let own = own(controller).ok_or_else(|| format!("control group v1 has no {controller} controller here"))?;
            must_be_writable(&own.directory).map(|()| own.directory)
        };
        let wanted = |controller: &str, is: bool| is.then(|| find(controller)).transpose();
        let found = Self {
            memory: wanted("memory", wants.memory.is_some())?,
            procs: wanted("pids", wants.procs.is_some())?,
            cpu: match wanted("cpuacct", wants.cpu) {
                Err(_) if wants.is_limit() => None,
                result => result?,
            },
        };
        match &found.memory {
            Some(memory) if has_swap() && !is_there(&memory.join("memory.memsw.limit_in_bytes")) => {
                Err(missing(memory, SWAP_UNBOUNDED))
            }
            _ => Ok(found),
        }
    }

    /// The groups in which ours are made; one that is for several things comes once.
    pub(super) fn parents(&self) -> impl Iterator<Item = &PathBuf> {
        let Self { memory, procs, cpu } = self;
        let all: std::collections::BTreeSet<_> = [memory, procs, cpu].into_iter().flatten().collect();
        all.into_iter()
    }

    pub(super) fn create(&self, wants: &Wants) -> io::Result<Group> {
        self.parents().for_each(|parent| sweep(parent));
        let name = fresh_name()?;
        let mut group = Group::begin(self.parents().map(|parent| parent.join(&name)).collect())?;
        let mut readings = Readings::default();
        if let (Some(parent), Some(memory)) = (&self.memory, wants.memory) {
            let directory = parent.join(&name);
            // In this order: the limit with swap may never be the lower one.
            set(&directory, "memory.limit_in_bytes", memory)?;
            match set(&directory, "memory.memsw.limit_in_bytes", memory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && !has_swap() => {}
                result => result?,
            }
            if std::fs::read_to_string(directory.join("memory.oom_control"))?.contains("oom_kill_disable 1") {
                // Inherited: everything would stop where it stands.
                set(&directory, "memory.oom_control", 0)?;
            }
            readings.memory = Some(Memory::bell_in(&directory)?);
            readings.peak = File::open(directory.join("memory.max_usage_in_bytes")).ok();
        }
        if let (Some(parent), Some(procs)) = (&self.procs, wants.procs) {
            let directory = parent.join(&name);
            set(&directory, "pids.max", procs)?;
            readings.procs = Procs::in_group(&directory, procs);
        }
        if let Some(parent) = &self.cpu {
            readings.time = File::open(parent.join(&name).join("cpuacct.usage")).ok().map(Time::Usage);
        }
        group.readings = readings;
        for directory in group.members.directories() {
            let entrance = directory.join("cgroup.procs");
            let file = File::options().write(true).open(&entrance).map_err(|error| told("open", &entrance, &error))?;
            group.entrances.push(file);
        }
        Ok(group)
    }
}

fn is_there(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}
