//! The new root directory: operations carried out one after the other, each at a place that is opened without following a link.
//!
//! What is made is made in memory: before anything is, the file system there has to be one that was mounted here.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::{Mode, SFlag, fstat, mkdirat, mknodat};
use nix::unistd::{fchdir, symlinkat};

use super::super::fault::{Act, Fault};
use crate::host::mounts;
use crate::launch::{Kernel, Operation, Place};
use crate::sys::at::DIRECTORY;
use crate::sys::beneath;
use crate::sys::mounts::{Refused, Tree, remount};

/// Where the host has its processes.
const PROC: &str = "/proc";

/// Flags of file systems in memory.
const LOCKED: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV);

/// Permission bits of what leads to something, and of what something is mounted on.
const LEADS: Mode = Mode::from_bits_truncate(0o755);

/// Builds a root directory and returns it: mounted over the one of this process, which is still the host's. `proc` is the `/proc`
/// of the host, which is covered from here on.
pub fn build(operations: &[Operation], proc: &OwnedFd) -> Result<OwnedFd, Fault> {
    let (whole, operations) = match operations.split_first() {
        // Nothing of our own stands beneath the host's.
        Some((Operation::Tree { from, at, write, devices, .. }, rest)) if at == Path::new("/") => {
            (Some((from, Refused { write: !write, devices: !devices })), rest)
        }
        _ => (None, operations),
    };
    // It would show what is mounted there from here on.
    let shown = |op: &Operation| matches!(op, Operation::Tree { from, .. } if from == Path::new(PROC));
    let shown = operations.iter().any(shown).then(|| Tree::of(proc, Path::new(""), true)).transpose();
    let shown = shown.map_err(|error| Fault::at(Act::Source, Path::new(PROC), error))?;
    let mut root = Root::new(whole, proc)?;
    root.shown = shown;
    for operation in operations {
        root.carry_out(operation)?;
    }
    Ok(root.top)
}

struct Root<'p> {
    top: OwnedFd,
    proc: &'p OwnedFd,
    /// The empty file and the empty directory, on a mount that is as read-only as each copy of it will be.
    empty: [OwnedFd; 2],
    /// The `/proc` of the host, where that is shown.
    shown: Option<Tree>,
    /// Devices of the file systems in memory.
    own: BTreeSet<u64>,
    /// The directory that was used last, and whether it is in memory.
    above: Option<(PathBuf, OwnedFd, bool)>,
    /// What is mounted on the host, by place and number, where this has to be known.
    mounted: Option<BTreeSet<(PathBuf, u64)>>,
}

impl<'p> Root<'p> {
    /// An empty one, or one of the host's.
    fn new(whole: Option<(&PathBuf, Refused)>, proc: &'p OwnedFd) -> Result<Self, Fault> {
        let of = |error: io::Error| Fault::of(Act::Root, error);
        let whole = whole.map(|(from, refused)| (from, refused, Tree::of(AT_FDCWD, from, true)));
        // At a place that is there in any case and stays in reach. Over the root directory it would be in the way when the old
        // one is unmounted: what lies on that goes first, and alone.
        let memory = fchdir(proc).and_then(|()| mount(Some("tmpfs"), ".", Some("tmpfs"), LOCKED, Some("mode=0755")));
        let base = memory.and_then(|()| nix::fcntl::open(PROC, DIRECTORY, Mode::empty()));
        let base = base.map_err(|errno| of(errno.into()))?;
        let made = |done: nix::Result<()>| done.map_err(|errno| of(errno.into()));
        made(mkdirat(&base, "root", LEADS))?;
        made(mkdirat(&base, "directory", Mode::from_bits_truncate(0o555)))?;
        made(mknodat(&base, "file", SFlag::S_IFREG, Mode::from_bits_truncate(0o444), 0))?;
        let own = BTreeSet::from([fstat(&base).map_err(|errno| of(errno.into()))?.st_dev]);
        let mut root = Self {
            top: beneath::open(&base, Path::new("root")).map_err(of)?,
            proc,
            empty: [
                beneath::open(&base, Path::new("file")).map_err(of)?,
                beneath::open(&base, Path::new("directory")).map_err(of)?,
            ],
            own,
            shown: None,
            above: None,
            mounted: None,
        };
        let (from, refused, tree) = match whole {
            Some((from, refused, tree)) => {
                (Some(from), Some(refused), tree.map_err(|error| Fault::at(Act::Source, from, error))?)
            }
            None => (None, None, Tree::of_open(&root.top).map_err(|errno| of(errno.into()))?),
        };
        read_only(base.as_fd()).map_err(of)?;
        let left = refused.map(|refused| root.refuse(&tree, refused)).transpose();
        let left = left.map_err(|error| Fault::at(Act::Tree, Path::new("/"), error))?.unwrap_or(true);
        tree.attach(AT_FDCWD, OsStr::new("/")).map_err(of)?;
        root.top = tree.into();
        if let (Some(from), Some(refused), false) = (from, refused, left) {
            root.refuse_below(from, Path::new("/"), refused).map_err(of)?;
        }
        Ok(root)
    }

    fn carry_out(&mut self, operation: &Operation) -> Result<(), Fault> {
        match operation {
            Operation::Tmpfs { at, place, mode, size } => {
                let options = format!("mode={mode:04o},size={size}");
                self.mount(Act::Tmpfs, at, *place, "tmpfs", LOCKED, Some(&options))?;
                let opened = beneath::open(&self.top, at).map_err(|error| Fault::at(Act::Tmpfs, at, error))?;
                let found = fstat(&opened).map_err(|errno| Fault::at(Act::Tmpfs, at, errno))?;
                self.own.insert(found.st_dev);
                self.above = Some((at.clone(), opened, true));
                Ok(())
            }
            Operation::Directory { at } => self.directory(at),
            Operation::Link { at, text } => {
                let (above, name) = self.memory(Act::Link, at)?;
                symlinkat(text, above, name).map_err(|errno| Fault::at(Act::Link, at, errno))
            }
            Operation::Tree { from, at, place, write, devices } => {
                self.tree(from, at, *place, Refused { write: !write, devices: !devices })
            }
            Operation::Copy { from, at } => self.copy(from, at),
            Operation::Kernel { kind, at, place } => self.kernel(*kind, at, *place),
            Operation::Empty { at, directory } => self.hide(at, *directory),
            Operation::ReadOnly { at } => {
                let done = beneath::open(&self.top, at).and_then(|opened| read_only(opened.as_fd()));
                done.map_err(|error| Fault::at(Act::ReadOnly, at, error))
            }
        }
    }

    /// The directory above `at`, the name of `at` in it, and whether it is in memory.
    fn above<'a>(&mut self, at: &'a Path) -> io::Result<(BorrowedFd<'_>, &'a OsStr, bool)> {
        let (Some(above), Some(name)) = (at.parent(), at.file_name()) else { return Err(Errno::EINVAL.into()) };
        if self.above.as_ref().is_none_or(|(path, ..)| path != above) {
            let opened = beneath::open(&self.top, above)?;
            let own = self.own.contains(&fstat(&opened)?.st_dev);
            self.above = Some((above.to_owned(), opened, own));
        }
        match &self.above {
            Some((_, opened, own)) => Ok((opened.as_fd(), name, *own)),
            None => Err(Errno::EBADF.into()),
        }
    }

    /// The same for something that is to be made, and nowhere but in memory.
    fn memory<'a>(&mut self, act: Act, at: &'a Path) -> Result<(BorrowedFd<'_>, &'a OsStr), Fault> {
        match self.above(at) {
            Ok((above, name, true)) => Ok((above, name)),
            Ok((_, _, false)) => Err(Fault::at(act, at, Errno::EROFS)),
            Err(error) => Err(Fault::at(act, at, error)),
        }
    }

    /// Makes a directory, and those above it that are missing.
    fn directory(&mut self, at: &Path) -> Result<(), Fault> {
        let missing = match self.above(at) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => at.parent(),
            _ => None,
        };
        if let Some(above) = missing {
            self.directory(above)?;
        }
        let (above, name) = self.memory(Act::Directory, at)?;
        match mkdirat(above, name, LEADS) {
            Ok(()) | Err(Errno::EEXIST) => Ok(()),
            Err(errno) => Err(Fault::at(Act::Directory, at, errno)),
        }
    }

    /// Mounts a file system that is no part of the host's tree.
    fn mount(
        &mut self,
        act: Act,
        at: &Path,
        place: Place,
        kind: &str,
        flags: MsFlags,
        options: Option<&str>,
    ) -> Result<(), Fault> {
        if place == Place::Made {
            self.directory(at)?;
        }
        let opened = beneath::open(&self.top, at).map_err(|error| Fault::at(Act::Place, at, error))?;
        // By the working directory, which has no name that somebody could put a link in.
        let mounted = fchdir(&opened).and_then(|()| mount(Some(kind), ".", Some(kind), flags, options));
        self.forget(at);
        mounted.map_err(|errno| Fault::at(act, at, errno))
    }

    fn kernel(&mut self, kind: Kernel, at: &Path, place: Place) -> Result<(), Fault> {
        let quiet = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
        match kind {
            Kernel::Proc => self.mount(Act::Kernel, at, place, "proc", quiet | MsFlags::MS_NODEV, None),
            Kernel::Queues => self.mount(Act::Kernel, at, place, "mqueue", quiet | MsFlags::MS_NODEV, None),
            Kernel::Terminals => {
                self.mount(Act::Kernel, at, place, "devpts", quiet, Some("newinstance,ptmxmode=0666,mode=620"))
            }
        }
    }

    fn tree(&mut self, from: &Path, at: &Path, place: Place, refused: Refused) -> Result<(), Fault> {
        let source = |error: io::Error| Fault::at(Act::Source, from, error);
        let failed = |error: io::Error| Fault::at(Act::Tree, at, error);
        let tree = match from.strip_prefix(PROC) {
            Ok(below) if below.as_os_str().is_empty() => self.shown.take().ok_or_else(|| Errno::EINVAL.into()),
            Ok(below) => Tree::of(self.proc, below, true),
            Err(_) => Tree::of(AT_FDCWD, from, true),
        };
        let tree = tree.map_err(source)?;
        if place == Place::Made {
            let kind = fstat(&tree).map_err(|errno| source(errno.into()))?.st_mode;
            let directory = SFlag::from_bits_truncate(kind) & SFlag::S_IFMT == SFlag::S_IFDIR;
            let (above, name) = self.memory(Act::Place, at)?;
            let made = if directory {
                mkdirat(above, name, LEADS)
            } else {
                mknodat(above, name, SFlag::S_IFREG, Mode::from_bits_truncate(0o444), 0)
            };
            match made {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(errno) => return Err(Fault::at(Act::Place, at, errno)),
            }
        }
        let done = self.refuse(&tree, refused).map_err(failed)?;
        let (above, name, _) = self.above(at).map_err(|error| Fault::at(Act::Place, at, error))?;
        tree.attach(above, name).map_err(failed)?;
        self.forget(at);
        if done { Ok(()) } else { self.refuse_below(from, at, refused).map_err(failed) }
    }

    /// Has a tree refuse something; `false` where this kernel takes it for mounted ones only.
    fn refuse(&mut self, tree: &Tree, refused: Refused) -> io::Result<bool> {
        match tree.refuse(refused, true) {
            Ok(()) => Ok(true),
            Err(Errno::ENOSYS) => {
                if self.mounted.is_none() {
                    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
                    let mut table = Vec::new();
                    File::from(openat(self.proc, "self/mountinfo", flags, Mode::empty())?).read_to_end(&mut table)?;
                    let lines = table.split(|byte| *byte == b'\n');
                    self.mounted =
                        Some(lines.filter_map(|line| Some((mounts::point(line)?, mounts::number(line)?))).collect());
                }
                Ok(false)
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// The same for what is mounted at `at` by now, and below it as below `from` on the host.
    fn refuse_below(&self, from: &Path, at: &Path, refused: Refused) -> io::Result<()> {
        let below = self.mounted.iter().flat_map(|all| all.range((from.to_owned(), 0)..));
        let below = below
            .take_while(|(point, _)| point.starts_with(from))
            .filter(|(point, number)| point != from && self.shows(point, *number));
        let below: BTreeSet<&Path> = below.filter_map(|(point, _)| point.strip_prefix(from).ok()).collect();
        for part in std::iter::once(Path::new("")).chain(below) {
            let path = if part.as_os_str().is_empty() { at.to_owned() } else { at.join(part) };
            let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
                fchdir(&self.top)?;
                remount(Path::new("."), refused)?;
                continue;
            };
            // The name is that of a mount, and no link.
            fchdir(beneath::open(&self.top, above)?)?;
            remount(Path::new(name), refused)?;
        }
        Ok(())
    }

    /// Whether the mount with this number is what `point` leads to on the host, and not covered by another one: then it is in the
    /// copy as well, where nothing leads to it.
    fn shows(&self, point: &Path, number: u64) -> bool {
        let opened = match beneath::open_absolute(point) {
            Ok(opened) => opened,
            // Whatever else is in the way may be taken away inside.
            Err(error) => return !matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP)),
        };
        let name = format!("self/fdinfo/{}", opened.as_raw_fd());
        let mut text = String::new();
        let read = openat(self.proc, name.as_str(), OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty());
        let read = read.map_err(io::Error::from).and_then(|file| File::from(file).read_to_string(&mut text));
        let shown = text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
        // Where nobody tells, it is asked to refuse as well, and the start fails if it is covered.
        read.is_err() || shown.is_none_or(|shown: u64| shown == number)
    }

    fn copy(&mut self, from: &Path, at: &Path) -> Result<(), Fault> {
        let content = std::fs::read(from).map_err(|error| Fault::at(Act::Copy, from, error))?;
        let (above, name) = self.memory(Act::Copy, at)?;
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let made = openat(above, name, flags, Mode::from_bits_truncate(0o444));
        let mut made = File::from(made.map_err(|errno| Fault::at(Act::Copy, at, errno))?);
        made.write_all(&content).map_err(|error| Fault::at(Act::Copy, at, error))
    }

    /// Mounts the empty file or directory over something; what is not there any more need not be hidden.
    fn hide(&mut self, at: &Path, directory: bool) -> Result<(), Fault> {
        let failed = |error: io::Error| Fault::at(Act::Hide, at, error);
        let tree = Tree::of_open(&self.empty[usize::from(directory)]).map_err(|errno| failed(errno.into()))?;
        let (above, name, _) = match self.above(at) {
            Ok(found) => found,
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        match tree.attach(above, name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// What was opened at or below `at` is under something else now.
    fn forget(&mut self, at: &Path) {
        if self.above.as_ref().is_some_and(|(path, ..)| path.starts_with(at)) {
            self.above = None;
        }
    }
}

/// Makes the mount on which `opened` is the highest directory read-only.
fn read_only(opened: BorrowedFd) -> io::Result<()> {
    match crate::sys::mounts::set_read_only(Some(opened), Path::new("")) {
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            fchdir(opened)?;
            remount(Path::new("."), Refused { write: true, devices: false })
        }
        done => done,
    }
}
