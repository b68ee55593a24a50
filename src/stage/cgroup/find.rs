//! Where we are in the hierarchies of control groups, and which of the ways leads to a group of our own.
//!
//! Reads only. What the kernel says in `/proc` is mapped to what is mounted: in a container both may be cut off at some
//! group, and what cannot be mapped does not count.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use nix::unistd::{AccessFlags, Pid, getpid};

use super::legacy::Legacy;
use super::members::holds_us;
use super::systemd::Systemd;
use super::unified::Unified;
use super::{Mechanism, Wants};
use crate::host::{Host, mounts};

/// The way to a group for `wants` on this host, or what is missing.
///
/// Where systemd manages the machine it is asked, unless it has given a group into our hands. It starts a program in a group, or
/// takes in a process that runs: `by_program` says whether the tree starts with a program.
pub fn find(wants: &Wants, host: &Host, by_program: bool) -> Result<Mechanism, String> {
    let tables =
        Tables::of(nix::unistd::getpid()).ok_or("/proc does not say in which control group this process is")?;
    let managed = fs::symlink_metadata("/run/systemd/system").is_ok_and(|data| data.is_dir());
    let mut reasons = Vec::new();
    let unified = match tables.unified().filter(|own| holds_us(&own.directory)) {
        Some(own) => Unified::find(&own, wants, managed),
        None => Err("control group v2 is not mounted here".into()),
    };
    match unified {
        Ok(unified) => return Ok(Mechanism::Unified(unified)),
        Err(why) => reasons.push(why),
    }
    if managed && wants.is_limit() {
        match Systemd::find(host, &tables, wants, by_program) {
            Ok(systemd) => return Ok(Mechanism::Systemd(systemd)),
            Err(why) => reasons.push(why),
        }
    }
    match Legacy::find(|controller| tables.legacy(controller).filter(|own| holds_us(&own.directory)), wants) {
        Ok(legacy) => return Ok(Mechanism::Legacy(legacy)),
        // Where there is no v1 at all, nobody needs to hear of it.
        Err(_) if !tables.has_legacy() => {}
        Err(why) => reasons.push(why),
    }
    Err(reasons.join("; "))
}

/// A group that holds us, and how far up its hierarchy can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Own {
    pub(super) directory: PathBuf,
    pub(super) top: PathBuf,
}

/// Every place where control groups of any kind are mounted.
#[must_use]
pub fn places() -> Vec<PathBuf> {
    Tables::of(getpid()).map_or_else(Vec::new, |tables| tables.points().cloned().collect())
}

/// What the kernel says of mounts and of the groups of one process.
#[derive(Debug, Default)]
pub(super) struct Tables {
    mounts: Vec<Mount>,
    groups: Vec<Membership>,
}

#[derive(Debug, PartialEq, Eq)]
struct Mount {
    /// The group that is seen at the mount point.
    root: PathBuf,
    point: PathBuf,
    /// Controllers, or `None` for v2.
    controllers: Option<Vec<String>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Membership {
    /// Empty for v2.
    controllers: Vec<String>,
    path: PathBuf,
}

impl Tables {
    pub(super) fn of(process: Pid) -> Option<Self> {
        let mounts = mounts::table().ok()?;
        let groups = fs::read(format!("/proc/{process}/cgroup")).ok()?;
        Some(Self::parse(&mounts, &groups))
    }

    pub(super) fn parse(mountinfo: &[u8], cgroup: &[u8]) -> Self {
        let lines = |text: &[u8]| -> Vec<Vec<u8>> { text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect() };
        Self {
            mounts: lines(mountinfo).iter().filter_map(|line| Mount::parse(line)).collect(),
            groups: lines(cgroup).iter().filter_map(|line| Membership::parse(line)).collect(),
        }
    }

    /// Where control groups are mounted.
    pub(super) fn points(&self) -> impl Iterator<Item = &PathBuf> {
        self.mounts.iter().map(|mount| &mount.point)
    }

    /// Our group of v2.
    pub(super) fn unified(&self) -> Option<Own> {
        let group = self.groups.iter().find(|group| group.controllers.is_empty())?;
        self.mounts.iter().rev().filter(|mount| mount.controllers.is_none()).find_map(|mount| mount.map(&group.path))
    }

    /// Our group in the hierarchy of v1 that has this controller.
    pub(super) fn legacy(&self, controller: &str) -> Option<Own> {
        let has = |list: &[String]| list.iter().any(|name| name == controller);
        let group = self.groups.iter().find(|group| has(&group.controllers))?;
        let mut mounts = self.mounts.iter().rev().filter(|mount| mount.controllers.as_deref().is_some_and(has));
        mounts.find_map(|mount| mount.map(&group.path))
    }

    /// Whether some controller is mounted as v1; a hierarchy that only has a name is systemd's own.
    fn has_legacy(&self) -> bool {
        let known = ["memory", "pids", "cpuacct"];
        self.mounts
            .iter()
            .filter_map(|mount| mount.controllers.as_ref())
            .flatten()
            .any(|name| known.contains(&name.as_str()))
    }

    /// The mount point of the whole hierarchy of v2.
    pub(super) fn top(&self) -> Option<&Path> {
        let whole = |mount: &&Mount| mount.controllers.is_none() && mount.root == Path::new("/");
        self.mounts.iter().rev().find(whole).map(|mount| mount.point.as_path())
    }
}

impl Mount {
    /// From a line of `mountinfo` (`proc_pid_mountinfo(5)`); `None` for other file systems.
    fn parse(line: &[u8]) -> Option<Self> {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        // Optional fields come between the sixth and the hyphen.
        let hyphen = fields.iter().skip(6).position(|field| *field == b"-")? + 6;
        let options = String::from_utf8_lossy(fields.get(hyphen + 3)?).into_owned();
        let controllers = match *fields.get(hyphen + 1)? {
            b"cgroup2" => None,
            b"cgroup" => Some(options.split(',').map(str::to_owned).collect()),
            _ => return None,
        };
        Some(Self { root: unescaped(fields.get(3)?), point: unescaped(fields.get(4)?), controllers })
    }

    /// Where the group with this path in the hierarchy is mounted.
    fn map(&self, path: &Path) -> Option<Own> {
        // A group outside our namespace has no name here.
        let outside = |path: &Path| path.components().any(|part| part == Component::ParentDir);
        if outside(&self.root) || outside(path) {
            return None;
        }
        let below = path.strip_prefix(&self.root).ok()?;
        // Joining nothing would add a slash.
        let directory = if below.as_os_str().is_empty() { self.point.clone() } else { self.point.join(below) };
        Some(Own { directory, top: self.point.clone() })
    }
}

impl Membership {
    /// From a line of `/proc/PID/cgroup`: number, controllers, path; the path may hold a colon.
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.splitn(3, |byte| *byte == b':');
        let _number = fields.next()?;
        let controllers = String::from_utf8_lossy(fields.next()?).into_owned();
        let path = PathBuf::from(OsString::from_vec(fields.next()?.to_vec()));
        let controllers = controllers.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        path.is_absolute().then_some(Self { controllers, path })
    }
}

/// A path with the four bytes that mountinfo writes in octal.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| *first == b'\\');
        let code = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        if let Some(code) = code {
            bytes.push(code);
            rest = &after[3..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// The words of a file of a group; none where it cannot be read.
pub(super) fn words(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// Whether we could write there: asked and not tried.
pub(super) fn must_be_writable(path: &Path) -> Result<(), String> {
    let wanted = AccessFlags::W_OK | if path.is_dir() { AccessFlags::X_OK } else { AccessFlags::empty() };
    nix::unistd::eaccess(path, wanted).map_err(|errno| missing(path, &crate::sys::process::reason(errno as i32)))
}

/// What is wrong with a group.
pub(super) fn missing(path: &Path, what: &str) -> String {
    format!("'{}': {what}", path.display())
}
