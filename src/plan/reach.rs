//! The rules of a view as what Landlock can be told: what may be done below which path.
//!
//! Landlock adds up what it is told along a path and takes nothing away. A rule that takes something away inside a read grant is
//! kept by granting all its neighbours instead; inside a write grant it cannot be, since what is made there later has no rule of
//! its own: that is a gap. Reads the host's files, changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::links::{self, unfollowed};
use super::resolve::Lost;
use super::streams::Streams;
use super::view::{Own, Rule, View};
use super::{base, closed, hidden};
use crate::error::{Error, Kind, Result};
use crate::host::Host;
use crate::policy::{Policy, Protection};
use crate::stage::{scratch, trial};
use crate::sys::landlock;

/// What may be done below a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Right {
    /// Directories can be listed.
    List,
    /// Files can be read and executed as well.
    Read,
    /// Everything.
    Write,
    /// A device node can be used; nothing can be made.
    Device,
    /// A Unix socket can be connected to.
    Socket,
}

impl Right {
    /// The word of plans.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Read => "read",
            Self::Write => "write",
            Self::Device => "device",
            Self::Socket => "socket",
        }
    }
}

/// One rule of Landlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Absolute, without links.
    pub path: PathBuf,
    /// What may be done below it.
    pub right: Right,
    /// Device and inode of what is there; `None` when it is still to be made.
    pub file: Option<(u64, u64)>,
    /// Whether a run that cannot have it is not the run that was asked for.
    pub named: bool,
}

/// What the target of one run can reach.
#[derive(Clone, Debug)]
pub struct Reach {
    /// Version of Landlock on this kernel.
    pub landlock: i32,
    /// Every rule.
    pub rules: Vec<Allowed>,
    /// The directories that stand for the private ones of a view.
    pub scratch: Scratch,
    /// Whether Unix sockets can be made.
    pub unix_sockets: bool,
    /// Whether mode, owner, times and attributes of every file can be changed where nobody can be asked about each.
    pub metadata: bool,
}

impl Reach {
    /// Whether what is at `path`, absolute and without links, can be read and written; with `listed` a directory whose names can
    /// be seen counts as read.
    #[must_use]
    pub fn gives(&self, path: &Path, listed: bool) -> [bool; 2] {
        let mut gives = [false; 2];
        for rule in self.rules.iter().filter(|rule| path.starts_with(&rule.path)) {
            let [read, write] = match rule.right {
                Right::List => [listed, false],
                Right::Read => [true, false],
                Right::Write => [true, true],
                // A device holds nothing of the host's.
                Right::Device | Right::Socket => [false, false],
            };
            gives = [gives[0] || read, gives[1] || write];
        }
        gives
    }

    /// Places of the host that can be written.
    pub fn writable(&self) -> impl Iterator<Item = &Path> {
        let ours = |path: &Path| path.starts_with(&self.scratch.top);
        let all = self.rules.iter().filter(move |rule| rule.right == Right::Write && !ours(&rule.path));
        all.map(|rule| rule.path.as_path())
    }
}

/// Private directories of one run, made before it and removed after it.
#[derive(Clone, Debug)]
pub struct Scratch {
    /// The directory that holds them; nobody inside can list it.
    pub top: PathBuf,
    /// The HOME that one of them stands for.
    pub home: Option<PathBuf>,
    /// Links in that one to what a rule shows below the real one: where, from its top, and to what.
    pub links: Vec<(PathBuf, PathBuf)>,
}

impl Scratch {
    /// For temporary files.
    #[must_use]
    pub fn tmp(&self) -> PathBuf {
        self.top.join("tmp")
    }

    /// For HOME, where one stands for that.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.top.join("home")
    }

    /// A file that nobody inside may open: proof that Landlock does its work.
    #[must_use]
    pub fn closed(&self) -> PathBuf {
        self.top.join("closed")
    }
}

/// What a rule gives of the host's files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Gives {
    Nothing,
    Read,
    Write,
}

impl Gives {
    /// `None` for a rule that only makes a place.
    fn of(rule: &Rule) -> Option<Self> {
        match rule {
            Rule::Folder | Rule::Link { .. } => None,
            Rule::Own(_) | Rule::Hidden | Rule::Secret | Rule::Mask | Rule::DenySocket => Some(Self::Nothing),
            Rule::System { .. } | Rule::Workdir | Rule::Program | Rule::Read | Rule::Protect => Some(Self::Read),
            Rule::Pin | Rule::Write | Rule::AllowSocket => Some(Self::Write),
        }
    }
}

/// So many rules are put on a process at most: each takes some microseconds, and looking one up is no slower for many.
const MOST: usize = 50_000;

/// Where private directories are made; the first that can be written.
const PLACES: &[&str] = &["/tmp", "/var/tmp", "/dev/shm"];

/// What is asked for, as far as the gaps depend on it.
pub(super) struct Asked<'a> {
    pub policy: &'a Policy,
    pub host: &'a Host,
    pub streams: &'a Streams,
}

/// What `view` comes to under Landlock. Adds to `lost` what cannot be kept.
pub(super) fn find(view: &View, asked: &Asked, lost: &mut Lost) -> Result<Reach> {
    let Asked { policy, host, streams } = asked;
    let version = landlock::version();
    let accepted = |protection| policy.accepted_gaps.contains_key(&protection);
    let mut gaps = Gaps::default();
    if !landlock::scopes(version) {
        let text = "processes outside can be sent signals on a kernel without Landlock ABI 6 (Linux 6.12)";
        gaps.add(Protection::Processes, text);
    }
    let all_processes = accepted(Protection::Processes);
    if all_processes {
        gaps.add(Protection::Processes, "/proc of the host shows through, with the command lines of all its processes");
    }
    let by_path = landlock::binds_sockets(version);
    let unix_sockets = by_path || accepted(Protection::Sockets) || !policy.allow_sockets.is_empty();
    if unix_sockets && !by_path {
        gaps.add(
            Protection::Sockets,
            "whoever may connect to one Unix socket may connect to all of the host on a kernel without Landlock ABI 9 (Linux 7.1)",
        );
    }
    if let Some(name) = streams.open.filter(|_| !by_path) {
        let text =
            format!("{name} is a Unix socket, from which others of the host can be reached without Landlock ABI 9");
        gaps.add(Protection::Sockets, &text);
    }
    let metadata = accepted(Protection::FilesWrite);
    // Where there is no filter yet, there is nobody yet who decides in our place.
    if metadata && crate::diagnose::filtered() {
        gaps.add(
            Protection::FilesWrite,
            "inside another run of this backend mode, owner, times and attributes of every file of this user can be changed",
        );
    }
    if policy.files.tmp_size.is_some() {
        gaps.add(Protection::FilesWrite, "nothing bounds the private directories");
    }
    let mut rules = Rules::new(view);
    rules.grant_all(&mut gaps, unix_sockets);
    rules.devices();
    rules.processes(all_processes);
    let scratch = choose(view, host)?;
    for (path, wanted) in [(scratch.tmp(), true), (scratch.home(), scratch.home.is_some())] {
        if wanted {
            rules.list.push(Allowed { path, right: Right::Write, file: None, named: true });
        }
    }
    if rules.list.len() > MOST {
        let text = format!("it would take more than {MOST} rules to leave out what is masked");
        gaps.add(Protection::Masks, &text);
    }
    lost.extend(gaps.0.into_iter().map(|(protection, text)| (protection, text.into())));
    Ok(Reach { landlock: version, rules: rules.list, scratch, unix_sockets, metadata })
}

/// What is missing of each protection.
#[derive(Default)]
struct Gaps(BTreeMap<Protection, String>);

impl Gaps {
    fn add(&mut self, protection: Protection, text: &str) {
        let all = self.0.entry(protection).or_default();
        if !all.is_empty() {
            all.push_str("; ");
        }
        all.push_str(text);
    }
}

struct Rules<'a> {
    view: &'a View,
    entries: BTreeMap<&'a Path, (&'a Rule, Gives)>,
    /// Entries that take away something that one above gives.
    takers: Vec<&'a Path>,
    list: Vec<Allowed>,
}

impl<'a> Rules<'a> {
    fn new(view: &'a View) -> Self {
        let entries: BTreeMap<_, _> =
            view.entries().filter_map(|(at, rule)| Some((at, (rule, Gives::of(rule)?)))).collect();
        let above = |at: &Path| at.ancestors().skip(1).find_map(|above| entries.get(above)).map(|(_, gives)| *gives);
        let takers = entries.iter().filter(|(at, (_, gives))| above(at) > Some(*gives)).map(|(at, _)| *at).collect();
        Self { view, entries, takers, list: Vec::new() }
    }

    /// Those that take away something inside `path`.
    fn takers_in(&self, path: &Path) -> impl Iterator<Item = &'a Path> {
        let first = self.takers.partition_point(|taker| *taker <= path);
        self.takers[first..]
            .iter()
            .copied()
            .take_while(move |taker| taker.starts_with(path))
            .collect::<Vec<_>>()
            .into_iter()
    }

    fn grant_all(&mut self, gaps: &mut Gaps, unix_sockets: bool) {
        let mut writable = Vec::new();
        for (at, (rule, gives)) in self.entries.clone() {
            let place = match rule {
                Rule::System { from, .. } => from,
                _ => at,
            };
            match gives {
                Gives::Nothing => {}
                // What of it can be read is seen to apart.
                _ if at.starts_with("/proc") => {}
                Gives::Write if *rule == Rule::AllowSocket => self.add(place, Right::Socket, true),
                Gives::Write => {
                    writable.extend(self.takers_in(at));
                    self.add(place, Right::Write, true);
                }
                Gives::Read => {
                    let named = matches!(rule, Rule::Read | Rule::Workdir | Rule::Protect);
                    if self.takers_in(at).any(|taker| self.entries[taker].1 == Gives::Nothing) {
                        self.around(place, named);
                    } else {
                        self.add(place, Right::Read, named);
                    }
                }
            }
        }
        // What lies in one grant inside another is found twice.
        writable.sort_unstable();
        writable.dedup();
        let (sockets, rest): (Vec<_>, Vec<_>) =
            writable.into_iter().partition(|taker| *self.entries[taker].0 == Rule::DenySocket);
        let (masks, mut protects): (Vec<_>, Vec<_>) = rest.into_iter().partition(|taker| self.entries[taker].0.hides());
        // Whoever gives up a mask has not given up what else was asked for there.
        protects.extend(masks.iter().chain(&sockets).filter(|taker| self.view.has_protect(taker)));
        // Without Unix sockets every one is denied.
        if unix_sockets && !sockets.is_empty() {
            gaps.add(
                Protection::Sockets,
                &format!("inside a write grant nothing can be denied: {}", hidden::list(sockets.into_iter())),
            );
        }
        if !masks.is_empty() {
            gaps.add(
                Protection::Masks,
                &format!("inside a write grant nothing can be hidden: {}", hidden::list(masks.into_iter())),
            );
        }
        if !protects.is_empty() {
            let text = format!(
                "inside a write grant nothing can be kept from being written: {}",
                hidden::list(protects.into_iter())
            );
            gaps.add(Protection::FilesWrite, &text);
        }
    }

    /// Grants reading of what lies in a directory, but for what must not be seen.
    fn around(&mut self, directory: &Path, named: bool) {
        self.add(directory, Right::List, named);
        let Ok(found) = fs::read_dir(directory) else { return };
        let mut found: Vec<_> = found.flatten().collect();
        found.sort_by_key(fs::DirEntry::file_name);
        for entry in found {
            let path = entry.path();
            // A link is nothing by itself, and what has a rule is seen to by that.
            let skip = entry.file_type().map_or(true, |kind| kind.is_symlink());
            if skip || self.entries.contains_key(path.as_path()) || self.list.len() > MOST {
                continue;
            }
            if self.takers_in(&path).any(|taker| self.entries[taker].1 == Gives::Nothing) {
                self.around(&path, false);
            } else {
                self.add(&path, Right::Read, false);
            }
        }
    }

    fn add(&mut self, path: &Path, right: Right, named: bool) {
        let file = match unfollowed(path) {
            Ok(found) => Some((found.dev(), found.ino())),
            Err(error) if closed::is_absence(&error) => None,
            // A link has come on the way: no file has these numbers, so that it is missed.
            Err(_) => Some((0, 0)),
        };
        self.list.push(Allowed { path: path.to_owned(), right, file, named });
    }

    fn devices(&mut self) {
        for (name, ..) in base::DEVICES {
            self.add(&Path::new("/dev").join(name), Right::Device, false);
        }
    }

    /// What `/proc` says of the machine; what it says of the target's own process is added when there is one.
    fn processes(&mut self, all: bool) {
        let proc = Path::new("/proc");
        if all {
            return self.add(proc, Right::Read, false);
        }
        let mut found: Vec<_> = fs::read_dir(proc).into_iter().flatten().flatten().collect();
        found.sort_by_key(fs::DirEntry::file_name);
        for entry in found {
            let path = entry.path();
            let process = entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
            let link = entry.file_type().map_or(true, |kind| kind.is_symlink());
            if !process && !link && !base::CALLERS.iter().any(|caller| path == Path::new(caller)) {
                self.add(&path, Right::Read, false);
            }
        }
    }
}

/// Where the private directories of a run with this view are to be made.
fn choose(view: &View, host: &Host) -> Result<Scratch> {
    let home = view.own(Own::Home).map(Path::to_owned);
    let links = home.as_deref().map(|home| shown_below(view, home)).unwrap_or_default();
    // The caller's own directory comes last: it may be anything.
    let callers = host.variable("TMPDIR").map(Path::new).filter(|path| path.is_absolute());
    let places = PLACES.iter().map(Path::new).chain(callers);
    let place = places.filter_map(|place| links::walk(place).ok()).map(|found| found.end).find(|place| {
        // Permissions are not all that can be in the way.
        trial::unnamed_in(place) == trial::Answer::Works
    });
    let Some(place) = place else {
        return Err(Error::text(
            Kind::Backend,
            format!(
                "cannot use backend 'landlock': no directory for temporary files can be written: {}",
                PLACES.join(", ")
            ),
        ));
    };
    Ok(Scratch { top: place.join(format!("{}{}", scratch::PREFIX, random()?)), home, links })
}

/// What a rule shows below the real HOME, each with its place in there; nothing below another such place.
fn shown_below(view: &View, home: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut links: Vec<(PathBuf, PathBuf)> = Vec::new();
    let gives = |rule| Gives::of(rule).is_some_and(|gives| gives > Gives::Nothing);
    for (at, _) in view.entries().filter(|(_, rule)| gives(rule)) {
        let below = at.strip_prefix(home).ok().filter(|name| *name != Path::new(""));
        if let Some(name) = below
            && !links.last().is_some_and(|(_, last)| at.starts_with(last))
        {
            links.push((name.to_owned(), at.to_owned()));
        }
    }
    links
}

/// Sixteen random bytes in hexadecimal: a name that nobody can foresee.
fn random() -> Result<String> {
    let mut bytes = [0_u8; 16];
    let read = fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| {
        let reason = crate::sys::process::describe(&error);
        Error::text(Kind::Backend, format!("cannot use backend 'landlock': cannot read /dev/urandom: {reason}"))
    })?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
