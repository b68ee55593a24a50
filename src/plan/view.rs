//! The file view: every rule about a path in one map, and the ordered mount operations that make it true.
//!
//! The most specific path decides; at the same path the higher [`Rule`] decides, so a denial wins a tie. Mounting in path
//! order, parents before children, is then all there is to precedence. Looks at the host's files, changes nothing.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::Held;
use super::hidden::is_dotted;
use super::path_map::PathMap;

/// One mount operation. Paths are absolute, without links, `.` and `..`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case", tag = "op")]
pub enum MountOp {
    /// An empty file system in memory of at most `size` bytes.
    Tmpfs {
        /// Where.
        at: PathBuf,
        /// Permission bits of its top directory.
        mode: u32,
        /// Bytes.
        size: u64,
    },
    /// A directory, parents included, on a file system of the sandbox's own.
    Dir {
        /// Where.
        at: PathBuf,
    },
    /// A symbolic link on a file system of the sandbox's own.
    Link {
        /// Where.
        at: PathBuf,
        /// What it says.
        text: PathBuf,
    },
    /// A file or directory of the host.
    Bind {
        /// On the host.
        from: PathBuf,
        /// Where.
        at: PathBuf,
        /// Whether it can be written.
        write: bool,
        /// Whether it is a device node that has to work.
        device: bool,
    },
    /// A small file of the system, as it is now: as good as a read-only mount of it, and cheaper than one.
    Copy {
        /// On the host.
        from: PathBuf,
        /// Where.
        at: PathBuf,
    },
    /// A process file system of the new process namespace.
    Proc {
        /// Where.
        at: PathBuf,
    },
    /// A minimal `/dev`.
    Dev {
        /// Where.
        at: PathBuf,
    },
    /// The POSIX message queues of the new namespace: Landlock lets nobody write to one that lies below no place it was told.
    Queues {
        /// Where.
        at: PathBuf,
    },
    /// An empty read-only file over a file of the host.
    EmptyFile {
        /// Where.
        at: PathBuf,
    },
    /// Makes the file system mounted at exactly this place read-only.
    ReadOnly {
        /// Where.
        at: PathBuf,
    },
}

impl MountOp {
    /// The path inside that it is about.
    #[must_use]
    pub fn at(&self) -> &Path {
        match self {
            Self::Tmpfs { at, .. }
            | Self::Dir { at }
            | Self::Link { at, .. }
            | Self::Bind { at, .. }
            | Self::Copy { at, .. }
            | Self::Proc { at }
            | Self::Dev { at }
            | Self::Queues { at }
            | Self::EmptyFile { at }
            | Self::ReadOnly { at } => at,
        }
    }
}

/// What holds at a path. Later variants win at the same path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A part of every view, from the host, read-only.
    System {
        /// Where it lies on the host.
        from: PathBuf,
        /// Whether it is a file that is quicker copied than mounted.
        small: bool,
    },
    /// An empty directory that a name passes through.
    Folder,
    /// A link that leads to something visible.
    Link {
        /// What it says.
        text: PathBuf,
    },
    /// Something of the sandbox's own.
    Own(Own),
    /// A name that begins with a dot, below a wider grant.
    Hidden,
    /// A well-known place of secrets below a wider grant.
    Secret,
    /// A directory of a write grant, mounted on itself so that it cannot be renamed away from under a rule below it.
    Pin,
    /// The working directory, read-only.
    Workdir,
    /// The target or its interpreter, this file alone.
    Program,
    /// A read grant.
    Read,
    /// A write grant.
    Write,
    /// A socket that may be connected to.
    AllowSocket,
    /// A protect inside a write grant.
    Protect,
    /// A mask.
    Mask,
    /// A socket that must not be connected to.
    DenySocket,
}

/// File systems of the sandbox's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Own {
    /// Processes.
    Proc,
    /// Devices.
    Dev,
    /// A directory for everybody: `/tmp`, `/dev/shm`.
    Shared,
    /// A second name of `/tmp`, or a directory like it when something else is shown below that name.
    SecondTmp,
    /// The private home.
    Home,
    /// An empty file in `/proc`.
    Nothing,
}

impl Rule {
    /// Whether the path shows what the host has there.
    fn shows_host(&self) -> bool {
        match self {
            Self::System { .. }
            | Self::Pin
            | Self::Workdir
            | Self::Program
            | Self::Read
            | Self::Write
            | Self::AllowSocket
            | Self::Protect => true,
            Self::Folder
            | Self::Link { .. }
            | Self::Own(_)
            | Self::Hidden
            | Self::Secret
            | Self::Mask
            | Self::DenySocket => false,
        }
    }

    /// Whether the path hides what the host has there.
    #[must_use]
    pub fn hides(&self) -> bool {
        matches!(self, Self::Hidden | Self::Secret | Self::Mask | Self::DenySocket)
    }

    fn writable(&self) -> bool {
        matches!(self, Self::Write | Self::Pin)
    }
}

/// A rule with what is needed to carry it out and to explain it.
#[derive(Clone, Debug)]
struct Entry {
    rule: Rule,
    directory: bool,
    device: bool,
    /// Whether a protect covers a grant of the very path, and so shows it.
    granted: bool,
}

impl Entry {
    /// Whether it only takes writing away, from whatever shows the path.
    fn only_protects(&self) -> bool {
        self.rule == Rule::Protect && !self.granted
    }
}

/// A rule and what it is about.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// Absolute, without links.
    pub at: &'a Path,
    /// What holds there.
    pub rule: &'a Rule,
    /// Whether it holds for what lies below, too.
    pub directory: bool,
    /// Whether a protect covers a grant of the very path, and so shows it.
    pub granted: bool,
}

/// Size of the file system that stands for a masked directory, in bytes.
const MASK_SIZE: u64 = 1 << 20;

/// Permission bits of its top directory, which no other file system in memory has.
pub const MASK_MODE: u32 = 0o555;

/// The rules of one view, by path.
#[derive(Clone, Debug, Default)]
pub struct View {
    entries: PathMap<Entry>,
    /// Directories among them that a write grant names: they are asked for at every step, and all else is many times as much.
    write_grants: BTreeSet<PathBuf>,
    /// Where protects were asked for, be it that a mask decides there.
    protects: BTreeSet<PathBuf>,
}

/// The kind of file a rule is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A directory.
    Directory,
    /// Anything else.
    File,
}

impl FileKind {
    /// From what the host says.
    #[must_use]
    pub fn of(metadata: &std::fs::Metadata) -> Self {
        if metadata.is_dir() { Self::Directory } else { Self::File }
    }
}

impl View {
    /// Adds `rule` at `at`, unless a higher one is there.
    pub fn add(&mut self, at: &Path, rule: Rule, kind: FileKind) {
        debug_assert!(
            at.is_absolute() && !at.components().any(|part| part == Component::ParentDir),
            "{}",
            at.display()
        );
        let device = is_of_devices(at);
        let mut entry = Entry { rule, directory: kind == FileKind::Directory, device, granted: false };
        let grants = entry.rule == Rule::Write && entry.directory;
        match self.entries.get_mut(at) {
            None => self.entries.insert(at, entry),
            Some(old) if old.rule < entry.rule => {
                entry.granted = matches!(old.rule, Rule::Read | Rule::Write);
                *old = entry;
            }
            Some(_) => return,
        }
        if grants {
            self.write_grants.insert(at.to_owned());
        } else {
            self.write_grants.remove(at);
        }
    }

    /// Every rule and where it is attached, parents first.
    pub fn entries(&self) -> impl Iterator<Item = (&Path, &Rule)> {
        self.entries.iter().map(|(at, entry)| (at.as_path(), &entry.rule))
    }

    /// Remembers that a protect was asked for at this path, whatever decides there.
    pub fn remember_protect(&mut self, at: &Path) {
        self.protects.insert(at.to_owned());
    }

    /// Whether one was at this path or below.
    #[must_use]
    pub fn has_protect(&self, at: &Path) -> bool {
        self.protects.range(at.to_owned()..).next().is_some_and(|path| path.starts_with(at))
    }

    /// The rule that decides about `path` and where it is attached.
    #[must_use]
    pub fn decides(&self, path: &Path) -> Option<(&Path, &Rule)> {
        self.entries.nearest(path).map(|(at, entry)| (at, &entry.rule))
    }

    /// Whether what the host has at `path` (without links) is visible.
    #[must_use]
    pub fn shows(&self, path: &Path) -> bool {
        self.decides(path).is_some_and(|(at, rule)| match rule {
            Rule::Program | Rule::AllowSocket => at == path,
            rule => rule.shows_host(),
        })
    }

    /// Whether a rule hides `path`, and where that rule is attached.
    #[must_use]
    pub fn hidden_by(&self, path: &Path) -> Option<&Path> {
        self.decides(path).filter(|(_, rule)| rule.hides()).map(|(at, _)| at)
    }

    /// Whether the host's file at `path` can be written.
    #[must_use]
    pub fn writable(&self, path: &Path) -> bool {
        self.decides(path).is_some_and(|(_, rule)| rule.writable())
    }

    /// Whether the host's file at `path`, or one below it, can be written.
    #[must_use]
    pub fn lets_write_in(&self, path: &Path) -> bool {
        self.writable(path) || self.entries.below(path).any(|(_, entry)| entry.rule.writable())
    }

    /// Every rule and where it is attached, parents first.
    pub fn all(&self) -> impl Iterator<Item = (&Path, &Rule)> {
        self.entries.iter().map(|(at, entry)| (at.as_path(), &entry.rule))
    }

    /// Places that are empty because a rule hides what the host has there.
    pub fn hiding(&self) -> impl Iterator<Item = &Path> {
        self.entries.iter().filter(|(_, entry)| entry.rule.hides()).map(|(at, _)| at.as_path())
    }

    /// Hides a name that begins with a dot, unless it is granted. A protect of it goes: there is nothing left to write.
    pub fn hide_name(&mut self, at: &Path, kind: FileKind) {
        if self.entries.get(at).is_some_and(Entry::only_protects) {
            self.entries.remove(at);
        }
        self.add(at, Rule::Hidden, kind);
    }

    /// Takes away the protects in what is hidden by itself: they are no grants, and nothing can be written there.
    pub fn drop_hidden_protects(&mut self) {
        let hidden = |at: &Path| at.parent().is_some_and(|parent| self.hidden_by(parent).is_some());
        let protects = self.entries.iter().filter(|(at, entry)| entry.only_protects() && hidden(at));
        let protects: Vec<_> = protects.map(|(at, _)| at.clone()).collect();
        for at in protects {
            self.entries.remove(&at);
        }
    }

    /// Directories of the host that are shown because somebody named them.
    pub fn grants(&self) -> impl Iterator<Item = &Path> {
        let named = |entry: &Entry| {
            matches!(entry.rule, Rule::Workdir | Rule::Read | Rule::Write)
                || (entry.rule == Rule::Protect && entry.granted)
        };
        self.entries.iter().filter(move |(_, entry)| entry.directory && named(entry)).map(|(at, _)| at.as_path())
    }

    /// Paths whose rule no scan for names can change: all but links, which are nothing by themselves, and protects.
    pub fn decided(&self) -> impl Iterator<Item = &Path> {
        let open = |entry: &Entry| matches!(entry.rule, Rule::Link { .. }) || entry.only_protects();
        self.entries.iter().filter(move |(_, entry)| !open(entry)).map(|(at, _)| at.as_path())
    }

    /// Directories that the target can write on the host.
    pub fn write_grants(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.write_grants.iter().map(PathBuf::as_path)
    }

    /// Mounts each directory between a write grant and a carve-out below it on itself.
    ///
    /// A mount travels with its parent when that is renamed, and then the old name can be made anew. A directory that is
    /// itself a mount cannot be renamed (EBUSY).
    pub fn pin(&mut self) {
        let mut pins = BTreeSet::new();
        for (at, entry) in self.entries.iter() {
            let above = || at.ancestors().skip(1).take_while(|parent| self.writable(parent));
            let top = match entry.rule {
                Rule::Protect | Rule::Mask | Rule::Read | Rule::DenySocket | Rule::Secret | Rule::Pin => None,
                // A name with a dot is hidden under whatever name a directory above it is given, for the next run too. One without is
                // hidden for the sake of a directory above whose name has one.
                Rule::Hidden if !at.file_name().is_some_and(is_dotted) => {
                    let Some(top) = above().filter(|parent| parent.file_name().is_some_and(is_dotted)).last() else {
                        continue;
                    };
                    Some(top)
                }
                _ => continue,
            };
            for parent in above() {
                // A write grant inside another is a mount as well; what lies between the two is not.
                if !self.entries.contains(parent) {
                    pins.insert(parent.to_owned());
                }
                if top == Some(parent) {
                    break;
                }
            }
        }
        for pin in pins {
            self.add(&pin, Rule::Pin, FileKind::Directory);
        }
    }

    /// The operations, in order. `size` bounds each file system in memory, in bytes.
    #[must_use]
    pub fn operations(&self, size: u64, host_processes: bool) -> Vec<MountOp> {
        let mut ops = Vec::new();
        let mut seal = Vec::new();
        let mut made: BTreeSet<&Path> = BTreeSet::new();
        let root = Path::new("/");
        let own_root = !self.entries.contains(root);
        if own_root {
            seal.push(root.to_owned());
        }
        for (at, entry) in self.entries.iter() {
            let parent = at.parent().unwrap_or(root);
            let on_own = self.on_own_file_system(at);
            let nothing_there = entry.rule.hides() && on_own && !self.leads_on(at);
            let emitted = !nothing_there;
            if emitted && on_own && parent != root && !self.entries.contains(parent) && made.insert(parent) {
                ops.push(MountOp::Dir { at: parent.to_owned() });
            }
            let at = at.clone();
            let bind = |from: &PathBuf, write| MountOp::Bind {
                from: from.clone(),
                at: at.clone(),
                write,
                device: entry.device,
            };
            match &entry.rule {
                // Nothing of the host is there that would have to be hidden.
                Rule::Hidden | Rule::Secret | Rule::Mask | Rule::DenySocket if nothing_there => {}
                // Where the host's directory is visible its link is as well.
                Rule::Folder | Rule::Link { .. } if !on_own => {}
                Rule::Folder => ops.push(MountOp::Dir { at }),
                Rule::Link { text } => ops.push(MountOp::Link { at, text: text.clone() }),
                Rule::Own(Own::Proc) if host_processes => ops.push(bind(&at, false)),
                Rule::Own(Own::Proc) => ops.push(MountOp::Proc { at }),
                Rule::Own(Own::Dev) => {
                    seal.push(at.clone());
                    let queues = at.join("mqueue");
                    ops.push(MountOp::Dev { at });
                    if kernel_has_queues() {
                        ops.push(MountOp::Queues { at: queues });
                    }
                }
                Rule::Own(Own::SecondTmp) if !self.has_entries_below(&at) => {
                    ops.push(MountOp::Link { at, text: "/tmp".into() });
                }
                Rule::Own(Own::Shared | Own::SecondTmp) => ops.push(MountOp::Tmpfs { at, mode: 0o1777, size }),
                Rule::Own(Own::Home) => ops.push(MountOp::Tmpfs { at, mode: 0o700, size }),
                Rule::Hidden | Rule::Secret | Rule::Mask | Rule::DenySocket if entry.directory => {
                    seal.push(at.clone());
                    // It holds only the directories that lead to deeper grants.
                    ops.push(MountOp::Tmpfs { at, mode: MASK_MODE, size: MASK_SIZE });
                }
                Rule::Own(Own::Nothing) | Rule::Hidden | Rule::Secret | Rule::Mask | Rule::DenySocket => {
                    ops.push(MountOp::EmptyFile { at });
                }
                Rule::System { from, small: true } if on_own => ops.push(MountOp::Copy { from: from.clone(), at }),
                Rule::System { from, small: _ } => ops.push(bind(from, false)),
                Rule::Pin | Rule::Write => ops.push(bind(&at, true)),
                Rule::Workdir | Rule::Program | Rule::Read | Rule::AllowSocket | Rule::Protect => {
                    ops.push(bind(&at, false));
                }
            }
        }
        ops.extend(seal.into_iter().rev().map(|at| MountOp::ReadOnly { at }));
        ops
    }

    /// What can be mounted after all else, parents first: masks and protects of something of the host below which nothing is
    /// shown, and pins.
    #[must_use]
    pub fn last_mounts(&self) -> BTreeSet<PathBuf> {
        let last = |at: &PathBuf, entry: &Entry| {
            let ends = entry.rule.hides() || entry.rule == Rule::Protect;
            entry.rule == Rule::Pin || (ends && !self.on_own_file_system(at) && !self.leads_on(at))
        };
        self.entries.iter().filter(|(at, entry)| last(at, entry)).map(|(at, _)| at.clone()).collect()
    }

    fn has_entries_below(&self, at: &Path) -> bool {
        self.entries.below(at).next().is_some()
    }

    /// Whether the way to something that is there leads through `at`.
    #[must_use]
    pub fn leads_on(&self, at: &Path) -> bool {
        self.entries.below(at).any(|(_, entry)| !entry.rule.hides())
    }

    /// Whether the place for a mount at `at` is on a file system of the sandbox's own, where it has to be made.
    fn on_own_file_system(&self, at: &Path) -> bool {
        let Some(parent) = at.parent() else { return false };
        self.decides(parent).is_none_or(|(_, rule)| !rule.shows_host())
    }

    /// Paths at which a rule takes something away that another name of the same file would still give.
    pub fn covered(&self) -> impl Iterator<Item = &Path> {
        self.entries
            .iter()
            .filter(|(at, entry)| match entry.rule {
                Rule::Protect => true,
                // Nobody named it; the scan itself tells of these, in one line.
                Rule::Hidden => false,
                Rule::Read => at.parent().is_some_and(|parent| self.writable(parent)),
                ref rule => rule.hides() && !self.on_own_file_system(at),
            })
            .map(|(at, _)| at.as_path())
    }

    /// Rules that take something away, with what they are attached to: it must be out of reach under its other names, too.
    pub fn denials(&self) -> impl Iterator<Item = (&Path, &Rule, FileKind)> {
        let denies = |entry: &Entry| entry.rule.hides() || entry.rule == Rule::Protect;
        self.entries.iter().filter(move |(_, entry)| denies(entry)).map(|(at, entry)| {
            let kind = if entry.directory { FileKind::Directory } else { FileKind::File };
            (at.as_path(), &entry.rule, kind)
        })
    }

    /// Every rule with its place, parents first, for whoever carries rules out by permissions and not by mounts.
    pub fn placed(&self) -> impl Iterator<Item = Placed<'_>> {
        self.entries.iter().map(|(at, entry)| Placed {
            at,
            rule: &entry.rule,
            directory: entry.directory,
            granted: entry.granted,
        })
    }

    /// The place of the first file system of the sandbox's own of this kind.
    #[must_use]
    pub fn own(&self, own: Own) -> Option<&Path> {
        self.entries.iter().find(|(_, entry)| entry.rule == Rule::Own(own)).map(|(at, _)| at.as_path())
    }

    /// Every path that shows the host's file or has to hide it, for checks from inside; parents first.
    pub fn promises(&self) -> impl Iterator<Item = (&Path, Held)> {
        self.entries.iter().filter_map(|(at, entry)| match &entry.rule {
            Rule::Folder | Rule::System { .. } | Rule::Link { .. } | Rule::Own(_) => None,
            rule if rule.hides() && self.on_own_file_system(at) => None,
            Rule::Pin => Some((at.as_path(), Held::Pinned)),
            Rule::Protect => Some((at.as_path(), Held::Protected)),
            rule => Some((at.as_path(), if rule.shows_host() { Held::Shown } else { Held::Hidden })),
        })
    }
}

/// Whether what lies there is shown as a device.
#[must_use]
pub fn is_of_devices(path: &Path) -> bool {
    path.starts_with("/dev") && !path.starts_with(super::base::SHARED)
}

/// Whether this kernel knows POSIX message queues; a mount of them would fail without.
fn kernel_has_queues() -> bool {
    std::fs::read_to_string("/proc/filesystems").is_ok_and(|list| list.lines().any(|line| line == "nodev\tmqueue"))
}
