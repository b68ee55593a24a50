//! Where a result goes: a file that is replaced as a whole, or a stream that is written.
//!
//! A file that is to be replaced has no name until its content is complete, so that a run that is killed leaves nothing.
//! Its directory is held open from the start: whoever can rename directories meanwhile cannot lead it elsewhere.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, FcntlArg, OFlag, fcntl, openat, renameat};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat};
use nix::unistd::{AccessFlags, UnlinkatFlags, access, linkat, unlinkat};

use super::hold::{self, Held, Version};
use super::way::Way;
use crate::host::Host;
use crate::sys;
use crate::sys::acl::{self, List};
use crate::sys::at::through;

/// Our descriptors are numbered from here, out of the way of numbers that somebody may call his own.
const ASIDE: RawFd = 64;

/// How long a reader may take before the next part. Signals wait for us while we wait for him.
const PATIENCE: Duration = Duration::from_secs(10);

/// What always fits into a pipe that has room at all: `PIPE_BUF`, pipe(7).
const PART: usize = 4096;

/// A place that is open.
#[derive(Debug)]
pub enum Place {
    /// A name in a directory, given at the end.
    Name {
        /// The directory, by path only.
        directory: OwnedFd,
        /// How it was found.
        way: Way,
        /// The file to be, where the file system has such files.
        unnamed: Option<File>,
        /// What had the name at the start, where the target could give it to something else.
        held: Option<Held>,
    },
    /// A FIFO that has a name: opened for writing in the end, so that nothing waits for a reader before.
    Fifo {
        /// By path only.
        file: File,
        /// How it was found.
        way: Way,
    },
    /// A device or what a descriptor leads to.
    Stream {
        /// Open for writing.
        file: File,
        /// How it was found, when it has a place in the tree.
        way: Option<Way>,
        /// Its number, when the caller opened it.
        number: Option<RawFd>,
    },
}

impl Place {
    /// Opens what the absolute `path` leads to.
    pub fn open(path: &Path, host: &Host) -> io::Result<Self> {
        let way = Way::follow(path)?;
        if let Some(number) = way.descriptor {
            return Self::descriptor(number, host);
        }
        if way.found.as_ref().is_some_and(|found| found.file_type().is_fifo()) {
            let file = File::from(aside(sys::at::hold_fifo(&way.end())?));
            access(&through(&file), AccessFlags::W_OK)?;
            return Ok(Self::Fifo { file, way });
        }
        if way.found.as_ref().is_some_and(|found| !found.is_file()) {
            let file = File::options().write(true).custom_flags(libc::O_NOCTTY | libc::O_NOFOLLOW).open(way.end())?;
            return Ok(Self::Stream { file: aside(file.into()).into(), way: Some(way), number: None });
        }
        Self::in_directory(way)
    }

    /// What the caller left open for us under `number`.
    pub fn descriptor(number: RawFd, host: &Host) -> io::Result<Self> {
        let closed = usize::try_from(number).ok().and_then(|number| host.inherited.closed.get(number));
        let file = match sys::fd::duplicate_stream(number)? {
            Some(file) if closed != Some(&true) => file,
            _ => return Err(Errno::EBADF.into()),
        };
        let flags = OFlag::from_bits_truncate(fcntl(&file, FcntlArg::F_GETFL)?);
        if flags & OFlag::O_ACCMODE == OFlag::O_RDONLY {
            return Err(io::Error::other("it is not open for writing"));
        }
        let file = File::from(aside(file));
        Ok(Self::Stream { way: way_of(&file), file, number: Some(number) })
    }

    fn in_directory(way: Way) -> io::Result<Self> {
        let directory = aside(nix::fcntl::open(&way.directory, sys::at::DIRECTORY, Mode::empty())?);
        let unnamed = match sys::at::unnamed(&directory, OsStr::new("."), mode(&way)) {
            Ok(file) => Some(File::from(aside(file))),
            // File systems and kernels without such files: see whether there can be others.
            Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::ENOENT | Errno::EINVAL) => {
                let temporary = temporary()?;
                sys::process::apart(|| {
                    create(&directory, &temporary, &way)?;
                    Ok(unlinkat(&directory, temporary.as_os_str(), UnlinkatFlags::NoRemoveDir)?)
                })?;
                None
            }
            Err(errno) => return Err(errno.into()),
        };
        if let Some(file) = &unnamed {
            inherit(file, &way);
        }
        Ok(Self::Name { directory, way, unnamed, held: None })
    }

    /// The descriptors of it.
    pub fn numbers(&self) -> impl Iterator<Item = RawFd> {
        let numbers = match self {
            Self::Name { directory, unnamed, .. } => {
                [Some(directory.as_raw_fd()), unnamed.as_ref().map(AsRawFd::as_raw_fd)]
            }
            Self::Fifo { file, .. } | Self::Stream { file, .. } => [Some(file.as_raw_fd()), None],
        };
        numbers.into_iter().flatten()
    }

    /// The way that a reader of it takes, when it has a place in the tree.
    #[must_use]
    pub fn way(&self) -> Option<&Way> {
        match self {
            Self::Name { way, .. } | Self::Fifo { way, .. } => Some(way),
            Self::Stream { way, .. } => way.as_ref(),
        }
    }

    /// What is written and not replaced.
    #[must_use]
    pub fn written(&self) -> Option<&File> {
        match self {
            Self::Name { .. } => None,
            Self::Fifo { file, .. } | Self::Stream { file, .. } => Some(file),
        }
    }

    /// Whether a link that an earlier target may have made is on the way. What the caller has opened is what he meant.
    #[must_use]
    pub fn may_be_another(&self) -> bool {
        match self {
            Self::Name { way, .. } | Self::Fifo { way, .. } => way.detour().is_some(),
            Self::Stream { way, number, .. } => {
                number.is_none() && way.as_ref().is_some_and(|way| way.detour().is_some())
            }
        }
    }

    /// Whether writing to it would write to `other` or replace that.
    #[must_use]
    pub fn is(&self, other: &File) -> bool {
        let found = match self {
            // Made meanwhile, perhaps.
            Self::Name { way, .. } | Self::Fifo { way, .. } => fs::symlink_metadata(way.end()),
            Self::Stream { file, .. } => file.metadata(),
        };
        matches!((found, other.metadata()), (Ok(one), Ok(other)) if same(&one, &other) && one.is_file())
    }

    /// Takes note of what has the name, before a target can change that. With `take` a free name is taken, and what has it
    /// then is returned.
    pub fn hold(&mut self, take: bool) -> io::Result<Option<Version>> {
        let Self::Name { directory, way, unnamed, held } = self else { return Ok(None) };
        let mut made = held.as_ref().is_some_and(|held| held.made);
        let mut before = Version::of(&*directory, &way.name)?;
        if before.is_none() && take {
            match create(directory, &way.name, way) {
                Ok(_) => made = true,
                // Somebody was quicker: then it is taken.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            before = Version::of(&*directory, &way.name)?;
        } else if held
            .as_ref()
            .is_some_and(|held| held.before.map(|old| old.identity) != before.map(|new| new.identity))
        {
            // Somebody else's by now.
            made = false;
        }
        if held.is_none()
            && let Some(file) = unnamed
        {
            hold::reserve(file);
        }
        *held = Some(Held { made, before });
        Ok(before)
    }

    /// Writes `bytes`, and gives the file its name. `path` is what led here, if it was a path.
    pub fn write(self, bytes: &[u8], path: Option<&Path>) -> io::Result<()> {
        match self {
            Self::Stream { file, .. } => write_patiently(file, bytes),
            Self::Fifo { file, .. } => write_patiently(wait_for_reader(&file)?, bytes),
            Self::Name { directory, way, unnamed, held } => {
                let written = unnamed.as_ref().map_or(Ok(()), |file| fill(file, bytes));
                let put = || {
                    let published = match &unnamed {
                        Some(file) => publish(file, &directory, &way.name)?,
                        None => false,
                    };
                    if published {
                        return Ok(());
                    }
                    replace(&directory, &way.name, |temporary| create(&directory, temporary, &way)?.write_all(bytes))
                };
                let done = match &held {
                    None => written.and_then(|()| put()),
                    Some(held) => {
                        let writable = written.is_ok();
                        written.and_then(|()| hold::insist(&directory, put)).or_else(|error| {
                            // What is in the way may be what takes the room.
                            let again = held.clear(&directory, &way.name) && writable;
                            if again { hold::insist(&directory, put) } else { Err(error) }
                        })
                    }
                };
                done?;
                let Some(path) = path else { return Ok(()) };
                hold::along(&way, || arrived(&directory, &way.name, path))
            }
        }
    }
}

/// Writes all of a file that has no name yet, and gives back room that it does not need.
fn fill(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)
}

/// Whether both are the same file.
pub(super) fn same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// How somebody else finds what is open here, when it is a file of the tree.
pub(super) fn way_of(file: &File) -> Option<Way> {
    let text = sys::at::name(file)?;
    let way = Way::follow(&text).ok()?;
    way.found.as_ref().is_some_and(|found| file.metadata().is_ok_and(|open| same(&open, found))).then_some(way)
}

/// An error when `path` does not lead to what now has `name`: whoever reads there would read something else.
fn arrived(directory: &OwnedFd, name: &OsStr, path: &Path) -> io::Result<()> {
    let ours = fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    match fs::metadata(path) {
        Ok(found) if (found.dev(), found.ino()) == sys::fd::identity(&ours) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
        _ => {}
    }
    // Another run may have given the name to its own result between the two looks: then it is still the name in this directory.
    let link = SFlag::from_bits_truncate(ours.st_mode).contains(SFlag::S_IFLNK);
    let held = fstat(directory)?;
    match path.parent().map(fs::metadata) {
        Some(Ok(above))
            if !link && path.file_name() == Some(name) && (above.dev(), above.ino()) == sys::fd::identity(&held) =>
        {
            Ok(())
        }
        Some(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        _ => Err(io::Error::other("the path leads elsewhere by now")),
    }
}

/// Permission bits of the file while it is made. What `umask` makes of a new one counts; one that takes another's place shall
/// at no time show more than that.
fn mode(way: &Way) -> Mode {
    Mode::from_bits_truncate(if way.found.is_some() { 0o600 } else { 0o666 })
}

/// Gives `file` owner, permission bits and access control list of the one whose place it takes, as it was before the run.
fn inherit(file: &File, way: &Way) {
    let Some(old) = &way.found else { return };
    let mut mode = old.mode() & 0o777;
    // What the directory gives to new files would be more than the old one had.
    let lists = acl::of(&way.end(), List::Access).and_then(|list| acl::remove(file, List::Access).map(|()| list));
    // With a list the middle bits are what it grants at most, and not what the group may.
    let without = |mode| mode & 0o707;
    let mut list = lists.unwrap_or_else(|_| {
        mode = without(mode);
        None
    });
    let differs = file.metadata().is_ok_and(|new| (old.uid(), old.gid()) != (new.uid(), new.gid()));
    // Only root gives files away; whoever is in a group can give them to that.
    if differs
        && fchown(file, Some(old.uid()), Some(old.gid())).is_err()
        && fchown(file, None, Some(old.gid())).is_err()
    {
        // Another group gets what everybody had. The list speaks of the old one.
        mode &= 0o707 | (mode & 0o007) << 3;
        list = None;
    }
    // Where that is impossible it stays its owner's alone.
    let kept = file.set_permissions(Permissions::from_mode(mode));
    if let (Ok(()), Some(list)) = (kept, list)
        && acl::set(file, List::Access, &list).is_err()
    {
        let _kept = file.set_permissions(Permissions::from_mode(without(mode)));
    }
}

/// Gives a complete file its name; says whether that was possible at all.
fn publish(file: &File, directory: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    let open = through(file);
    let link = |name: &OsStr| linkat(AT_FDCWD, &open, directory, name, AtFlags::AT_SYMLINK_FOLLOW);
    match link(name) {
        Ok(()) => Ok(true),
        Err(Errno::EEXIST) => replace(directory, name, |temporary| Ok(link(temporary)?)).map(|()| true),
        // No /proc, or a file system of its own mind.
        Err(_) => Ok(false),
    }
}

/// Puts a file that `make` makes under a temporary name in place of what has `name`.
fn replace(directory: &OwnedFd, name: &OsStr, make: impl Fn(&OsStr) -> io::Result<()>) -> io::Result<()> {
    let temporary = temporary()?;
    let remove = || unlinkat(directory, temporary.as_os_str(), UnlinkatFlags::NoRemoveDir);
    let done = sys::process::apart(|| {
        let done = make(&temporary).and_then(|()| Ok(renameat(directory, temporary.as_os_str(), directory, name)?));
        if done.is_err() {
            // It was ours, and nobody can use half of it.
            let _removed = remove();
        }
        done
    });
    if done.is_err() {
        // Once more, if the copy of this process was killed.
        let _removed = remove();
    }
    done
}

fn create(directory: &OwnedFd, name: &OsStr, way: &Way) -> io::Result<File> {
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    let file = File::from(openat(directory, name, flags, mode(way))?);
    inherit(&file, way);
    Ok(file)
}

/// A name that nobody else has and nobody could foresee.
fn temporary() -> io::Result<OsString> {
    let mut bytes = [0_u8; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!(".sandbox-run-{:032x}", u128::from_ne_bytes(bytes)).into())
}

/// Moves a descriptor to a high number, where there is one.
pub(super) fn aside(file: OwnedFd) -> OwnedFd {
    match sys::fd::duplicate_above(&file, ASIDE) {
        Ok(moved) => moved,
        Err(_) => file,
    }
}

/// Opens a FIFO for writing as soon as somebody has it open for reading.
fn wait_for_reader(fifo: &File) -> io::Result<File> {
    const PAUSE: Duration = Duration::from_millis(10);
    let end = Instant::now() + PATIENCE;
    loop {
        match File::options().write(true).custom_flags(libc::O_NONBLOCK).open(through(fifo)) {
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) && Instant::now() < end => thread::sleep(PAUSE),
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => return Err(io::Error::other("nobody reads it")),
            opened => return opened,
        }
    }
}

/// Writes part by part, so that a reader who does not come is an error and no hang.
fn write_patiently(mut file: File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        wait_for_room(&file)?;
        match file.write(&bytes[..bytes.len().min(PART)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => bytes = &bytes[length..],
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits until a write does not block.
pub(super) fn wait_for_room(file: &File) -> io::Result<()> {
    let timeout = PollTimeout::try_from(PATIENCE).unwrap_or(PollTimeout::MAX);
    loop {
        match poll(&mut [PollFd::new(file.as_fd(), PollFlags::POLLOUT)], timeout) {
            Ok(0) => return Err(io::Error::other("nobody reads it")),
            Err(Errno::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn a_name_that_others_give_away_all_the_time_is_still_the_place() {
        let top = tempfile::tempdir().unwrap();
        let (place, elsewhere) = (top.path().join("place"), top.path().join("elsewhere"));
        for directory in [&place, &elsewhere] {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join("r"), "").unwrap();
        }
        let open = OwnedFd::from(File::open(&place).unwrap());
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    fs::write(place.join("new"), "").unwrap();
                    fs::rename(place.join("new"), place.join("r")).unwrap();
                }
            });
            let results: Vec<_> = (0..20_000)
                .map(|_| arrived(&open, OsStr::new("r"), &place.join("r")).map_err(|e| e.to_string()))
                .collect();
            over.store(true, Ordering::Relaxed);
            assert_eq!(results.into_iter().find(Result::is_err), None);
        });
        // The controls: another file is another place, and so is what a link leads to.
        assert!(arrived(&open, OsStr::new("r"), &elsewhere.join("r")).is_err());
        fs::remove_file(place.join("r")).unwrap();
        std::os::unix::fs::symlink("../elsewhere/r", place.join("r")).unwrap();
        assert!(arrived(&open, OsStr::new("r"), &place.join("r")).is_err());
    }
}
