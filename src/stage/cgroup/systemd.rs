//! A transient scope of systemd: the group is made and removed by the service manager.
//!
//! A launcher that is a program is started in it; one that is a copy of this process is put into it, and never this process:
//! that stays where its caller has it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::unistd::{Pid, getuid};

use super::find::{Tables, words};
use super::members::{Members, fresh_name};
use super::readings::{Readings, bound};
use super::unified::{SWAP_UNBOUNDED, has_swap};
use super::{Group, Prefix, Wants};
use crate::host::Host;
use crate::sys;

/// A service manager that makes scopes for us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Systemd {
    /// Whether it is the user's and not the system's.
    pub user: bool,
    /// Absolute path of `systemd-run`, or of `busctl` where the manager has to take a process in.
    program: PathBuf,
    /// Whether it takes a process in rather than starting a program.
    takes_in: bool,
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
    pub(super) fn find(host: &Host, tables: &Tables, wants: &Wants, by_program: bool) -> Result<Self, String> {
        let name = if by_program { "systemd-run" } else { "busctl" };
        let program =
            program(host, name).ok_or_else(|| format!("no {name} of root's in an absolute directory of PATH"))?;
        let takes_in = !by_program;
        if getuid().is_root() {
            // A program is started by the manager's own socket, and everything else is said on the bus.
            let socket = if by_program { "/run/systemd/private" } else { "/run/dbus/system_bus_socket" };
            if !is_socket(Path::new(socket)) {
                return Err(format!("the service manager of the system cannot be reached: no socket '{socket}'"));
            }
            passes_on(tables.top().map(|top| top.join("system.slice")).as_deref(), wants)?;
            return Ok(Self { user: false, program, takes_in, variables: Vec::new() });
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
        Ok(Self { user: true, program, takes_in, variables })
    }

    pub(super) fn prepare(&self, wants: &Wants) -> io::Result<Group> {
        let scope = Scope { systemd: self.clone(), name: fresh_name()?, wants: *wants };
        Ok(Group {
            entrances: Vec::new(),
            members: Members::default(),
            readings: Readings::default(),
            scope: Some(scope),
            promised: None,
            guardian: None,
        })
    }
}

impl Scope {
    /// What starts a program in the scope.
    pub(super) fn prefix(&self) -> Option<Prefix> {
        if self.systemd.takes_in {
            return None;
        }
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
        Some((
            self.systemd.program.clone(),
            words.into_iter().map(OsString::from).collect(),
            self.systemd.variables.clone(),
        ))
    }

    /// Whether [`take_in`](Self::take_in) is to be called.
    pub(super) fn takes_in(&self) -> bool {
        self.systemd.takes_in
    }

    /// Makes the scope around `process`, a child of ours, and waits until it is in there.
    pub(super) fn take_in(&self, process: Pid) -> io::Result<()> {
        const PATIENCE: Duration = Duration::from_secs(10);
        let deadline = Instant::now() + PATIENCE;
        let said = sys::process::run(&self.systemd.program, &self.message(process), &self.systemd.variables, PATIENCE)?;
        if !said.success {
            let text = String::from_utf8_lossy(&said.stderr);
            let line = text.lines().next().unwrap_or("it did not answer");
            return Err(io::Error::other(format!("systemd made no scope: {line}")));
        }
        // It has only promised to by now.
        while !self.holds(process) {
            if Instant::now() >= deadline || sys::process::has_ended(process) {
                return Err(io::Error::other("systemd did not put the process into its scope"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// The words of a call on the bus, org.freedesktop.systemd1(5): name, mode, properties, no other units.
    fn message(&self, process: Pid) -> Vec<OsString> {
        let mut properties = vec![
            vec!["Description".to_owned(), "s".into(), "sandbox-run".into()],
            vec!["CollectMode".into(), "s".into(), "inactive-or-failed".into()],
            vec!["PIDs".into(), "au".into(), "1".into(), process.to_string()],
        ];
        let number = |name: &str, value: u64| vec![name.to_owned(), "t".into(), value.to_string()];
        if let Some(memory) = self.wants.memory {
            properties.extend([number("MemoryMax", memory), number("MemorySwapMax", 0)]);
        }
        if let Some(procs) = self.wants.procs {
            properties.push(number("TasksMax", procs));
        }
        if self.wants.cpu {
            properties.push(vec!["CPUAccounting".into(), "b".into(), "true".into()]);
        }
        let manager = ["org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"];
        let mut words = vec![if self.systemd.user { "--user" } else { "--system" }.to_owned(), "call".into()];
        words.extend(manager.map(str::to_owned));
        words.extend(["StartTransientUnit".into(), "ssa(sv)a(sa(sv))".into(), self.unit(), "fail".into()]);
        words.push(properties.len().to_string());
        words.extend(properties.into_iter().flatten());
        words.push("0".into());
        words.into_iter().map(OsString::from).collect()
    }

    fn unit(&self) -> String {
        format!("{}.scope", self.name)
    }

    fn directory_of(process: Pid) -> Option<PathBuf> {
        Tables::of(process).and_then(|tables| tables.unified()).map(|own| own.directory)
    }

    fn holds(&self, process: Pid) -> bool {
        Self::directory_of(process).is_some_and(|directory| directory.file_name() == Some(OsStr::new(&self.unit())))
    }

    /// The group in which `launcher` is, if it is the one that was asked for, with the limits that were asked for.
    pub(super) fn joined(&self, launcher: Pid) -> io::Result<(Members, Readings)> {
        let directory = Self::directory_of(launcher);
        let directory = directory.ok_or_else(|| io::Error::other("cannot find the group of the launcher"))?;
        if directory.file_name() != Some(OsStr::new(&self.unit())) {
            return Err(io::Error::other(format!("the launcher is not in '{}'", self.unit())));
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

/// The first program of this name in PATH that only root can have put there.
fn program(host: &Host, name: &str) -> Option<PathBuf> {
    let path = std::env::join_paths(crate::plan::target::path_entries(host.variable("PATH"))).ok()?;
    which::which_in_all(name, Some(path), "/")
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
