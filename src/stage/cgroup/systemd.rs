//! A transient scope of systemd: the group is made and removed by the service manager, and the launcher is started in it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::unistd::{Pid, getuid};

use super::find::{Tables, words};
use super::members::{Members, fresh_name};
use super::readings::{Readings, bound};
use super::unified::{SWAP_UNBOUNDED, has_swap};
use super::{Group, Prefix, Wants};
use crate::host::Host;

/// A service manager that makes scopes for us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Systemd {
    /// Whether it is the user's and not the system's.
    pub user: bool,
    /// Absolute path of `systemd-run`.
    program: PathBuf,
    /// Variables by which it finds the manager.
    variables: Vec<(OsString, OsString)>,
}

/// A scope that is asked for by the start of the launcher.
#[derive(Debug)]
pub(super) struct Scope {
    systemd: Systemd,
    name: String,
    wants: Wants,
}

impl Systemd {
    pub(super) fn find(host: &Host, tables: &Tables, wants: &Wants) -> Result<Self, String> {
        let program = program(host).ok_or("no systemd-run of root's in an absolute directory of PATH")?;
        if getuid().is_root() {
            if !is_socket(Path::new("/run/systemd/private")) {
                return Err("the service manager of the system cannot be reached".into());
            }
            passes_on(tables.top().map(|top| top.join("system.slice")).as_deref(), wants)?;
            return Ok(Self { user: false, program, variables: Vec::new() });
        }
        let uid = getuid();
        let given = host.variable("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_absolute());
        let runtime = given.map_or_else(|| PathBuf::from(format!("/run/user/{uid}")), PathBuf::from);
        let bus = runtime.join("bus");
        if !is_socket(&bus) || std::fs::metadata(&runtime).map_or(true, |data| data.uid() != uid.as_raw()) {
            return Err(format!("no service manager of the user: no socket '{}'", bus.display()));
        }
        let service = format!("user.slice/user-{uid}.slice/user@{uid}.service");
        passes_on(tables.top().map(|top| top.join(service)).as_deref(), wants)?;
        let mut address = OsString::from("unix:path=");
        address.push(&bus);
        let variables = vec![("XDG_RUNTIME_DIR".into(), runtime.into()), ("DBUS_SESSION_BUS_ADDRESS".into(), address)];
        Ok(Self { user: true, program, variables })
    }

    pub(super) fn prepare(&self, wants: &Wants) -> io::Result<Group> {
        let scope = Scope { systemd: self.clone(), name: fresh_name()?, wants: *wants };
        Ok(Group {
            entrances: Vec::new(),
            members: Members::default(),
            readings: Readings::default(),
            scope: Some(scope),
            guardian: None,
        })
    }
}

impl Scope {
    pub(super) fn prefix(&self) -> Prefix {
        let mut words = vec![
            if self.systemd.user { "--user" } else { "--system" }.to_owned(),
            "--scope".into(),
            "--quiet".into(),
            "--collect".into(),
            format!("--unit={}", self.name),
            // The default is the whole command line, and ends up in the journal.
            "--description=sandbox-run".into(),
        ];
        if let Some(memory) = self.wants.memory {
            words.extend(["-p".into(), format!("MemoryMax={memory}"), "-p".into(), "MemorySwapMax=0".into()]);
        }
        if let Some(procs) = self.wants.procs {
            words.extend(["-p".into(), format!("TasksMax={procs}")]);
        }
        if self.wants.cpu {
            words.extend(["-p".into(), "CPUAccounting=yes".into()]);
        }
        words.push("--".into());
        (self.systemd.program.clone(), words.into_iter().map(OsString::from).collect(), self.systemd.variables.clone())
    }

    /// The group in which `launcher` is, if it is the one that was asked for, with the limits that were asked for.
    pub(super) fn joined(&self, launcher: Pid) -> io::Result<(Members, Readings)> {
        let directory = Tables::of(launcher).and_then(|tables| tables.unified()).map(|own| own.directory);
        let directory = directory.ok_or_else(|| io::Error::other("cannot find the group of the launcher"))?;
        let expected = format!("{}.scope", self.name);
        if directory.file_name() != Some(OsStr::new(&expected)) {
            return Err(io::Error::other(format!("the launcher is not in '{expected}'")));
        }
        let holds = |name: &str, wanted: Option<u64>| {
            wanted.is_none_or(|wanted| bound(&directory.join(name)).is_some_and(|set| set <= wanted))
        };
        // What the manager cannot set it leaves out without a word.
        if !holds("memory.max", self.wants.memory) || !holds("pids.max", self.wants.procs) {
            return Err(io::Error::other("systemd did not set the limits"));
        }
        if self.wants.memory.is_some() && has_swap() && bound(&directory.join("memory.swap.max")) != Some(0) {
            return Err(io::Error::other(SWAP_UNBOUNDED));
        }
        let readings = Readings::unified(&directory, self.wants.procs);
        Ok((Members::of_scope(directory), readings))
    }
}

/// The first `systemd-run` in PATH that only root can have put there.
fn program(host: &Host) -> Option<PathBuf> {
    let path = std::env::join_paths(crate::plan::target::path_entries(host.variable("PATH"))).ok()?;
    which::which_in_all("systemd-run", Some(path), "/")
        .ok()?
        .filter_map(|found| std::fs::canonicalize(found).ok())
        .find(|real| std::fs::metadata(real).is_ok_and(|data| data.uid() == 0 && data.mode() & 0o022 == 0))
}

fn is_socket(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|data| data.file_type().is_socket())
}

/// Whether the manager has the controllers in the group below which it makes ours.
fn passes_on(group: Option<&Path>, wants: &Wants) -> Result<(), String> {
    let found = group.map(|group| words(&group.join("cgroup.controllers"))).unwrap_or_default();
    for (wanted, name) in [(wants.memory.is_some(), "memory"), (wants.procs.is_some(), "pids")] {
        if wanted && !found.iter().any(|word| word == name) {
            return Err(format!("the service manager has no {name} controller of control group v2"));
        }
    }
    Ok(())
}
