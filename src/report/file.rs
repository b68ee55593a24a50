//! Where a result goes: a file that is replaced as a whole, or a stream that is written.
//!
//! A file that is to be replaced has no name until its content is complete, so that a run that is killed leaves nothing.
//! Its directory is held open from the start: whoever can rename directories meanwhile cannot lead it elsewhere.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, FcntlArg, OFlag, fcntl, openat, renameat};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};

use crate::host::Host;
use crate::sys;

/// The most links that are followed, as in the kernel.
const MAX_LINKS: u32 = 40;

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
        /// The last part of the path.
        name: OsString,
        /// The file to be, where the file system has such files.
        unnamed: Option<File>,
    },
    /// A FIFO, a device or what a descriptor leads to.
    Stream {
        /// Open for writing.
        file: File,
        /// Where it lies, when it was named by a path.
        path: Option<PathBuf>,
    },
}

impl Place {
    /// Opens what `path` leads to. Waits for a reader when that is a FIFO.
    pub fn open(path: &Path, host: &Host) -> io::Result<Self> {
        match follow(path)? {
            End::Descriptor(number) => Self::descriptor(number, host),
            End::Stream(path) => {
                let file = File::options().write(true).custom_flags(libc::O_NOCTTY).open(&path)?;
                Ok(Self::Stream { file: aside(file.into()).into(), path: Some(path) })
            }
            End::File { directory, name } => Self::in_directory(&directory, name),
        }
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
        Ok(Self::Stream { file: aside(file).into(), path: None })
    }

    fn in_directory(directory: &Path, name: OsString) -> io::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let directory = aside(nix::fcntl::open(directory, flags, Mode::empty())?);
        let flags = OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        let unnamed = match openat(&directory, ".", flags, mode()) {
            Ok(file) => Some(aside(file).into()),
            // File systems and kernels without such files: see whether there can be others.
            Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::ENOENT | Errno::EINVAL) => {
                let temporary = temporary()?;
                create(&directory, &temporary)?;
                unlinkat(&directory, temporary.as_os_str(), UnlinkatFlags::NoRemoveDir)?;
                None
            }
            Err(errno) => return Err(errno.into()),
        };
        Ok(Self::Name { directory, name, unnamed })
    }

    /// The path at which a target that can write there could write into the report itself.
    #[must_use]
    pub fn lasting(&self) -> Option<&Path> {
        match self {
            Self::Name { .. } => None,
            Self::Stream { path, .. } => path.as_deref(),
        }
    }

    /// The descriptors of it.
    pub fn numbers(&self) -> impl Iterator<Item = RawFd> {
        let numbers = match self {
            Self::Name { directory, unnamed, .. } => {
                [Some(directory.as_raw_fd()), unnamed.as_ref().map(AsRawFd::as_raw_fd)]
            }
            Self::Stream { file, .. } => [Some(file.as_raw_fd()), None],
        };
        numbers.into_iter().flatten()
    }

    /// Writes `bytes`, and gives the file its name.
    pub fn write(self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Stream { file, .. } => write_patiently(file, bytes),
            Self::Name { directory, name, unnamed } => {
                if let Some(mut file) = unnamed {
                    file.write_all(bytes)?;
                    if publish(&file, &directory, &name)? {
                        return Ok(());
                    }
                }
                replace(&directory, &name, |temporary| create(&directory, temporary).map(Some), bytes)
            }
        }
    }
}

/// What a path leads to.
enum End {
    File {
        directory: PathBuf,
        name: OsString,
    },
    Stream(PathBuf),
    /// `/dev/stdout` and the like: opening it anew would be another open file, at its beginning.
    Descriptor(RawFd),
}

fn follow(path: &Path) -> io::Result<End> {
    let descriptors = fs::canonicalize("/proc/self/fd").ok();
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Some(name) = path.file_name().filter(|_| !path.as_os_str().as_bytes().ends_with(b"/")) else {
            return Err(Errno::EISDIR.into());
        };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let directory = fs::canonicalize(parent)?;
        let name = name.to_owned();
        if Some(&directory) == descriptors.as_ref()
            && let Some(number) = name.to_str().and_then(|name| name.parse().ok())
        {
            return Ok(End::Descriptor(number));
        }
        let whole = directory.join(&name);
        let kind = match fs::symlink_metadata(&whole) {
            Ok(metadata) => metadata.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(End::File { directory, name }),
            Err(error) => return Err(error),
        };
        if kind.is_symlink() {
            path = directory.join(fs::read_link(&whole)?);
        } else if kind.is_dir() {
            return Err(Errno::EISDIR.into());
        } else if kind.is_file() {
            return Ok(End::File { directory, name });
        } else {
            return Ok(End::Stream(whole));
        }
    }
    Err(Errno::ELOOP.into())
}

/// What `umask` makes of it counts.
fn mode() -> Mode {
    Mode::from_bits_truncate(0o666)
}

/// Gives a complete file its name; says whether that was possible at all.
fn publish(file: &File, directory: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    let link = |name: &OsStr| linkat(AT_FDCWD, open.as_str(), directory, name, AtFlags::AT_SYMLINK_FOLLOW);
    match link(name) {
        Ok(()) => Ok(true),
        Err(Errno::EEXIST) => {
            replace(directory, name, |temporary| link(temporary).map(|()| None).map_err(Into::into), &[]).map(|()| true)
        }
        // No /proc, or a file system of its own mind.
        Err(_) => Ok(false),
    }
}

/// Puts a file that `make` makes under a temporary name in place of what has `name`, with `bytes` if it is to be written.
fn replace(
    directory: &OwnedFd,
    name: &OsStr,
    make: impl Fn(&OsStr) -> io::Result<Option<File>>,
    bytes: &[u8],
) -> io::Result<()> {
    let temporary = temporary()?;
    let file = make(&temporary)?;
    let done = file.map_or(Ok(()), |mut file| file.write_all(bytes));
    let done = done.and_then(|()| Ok(renameat(directory, temporary.as_os_str(), directory, name)?));
    if done.is_err() {
        // It was ours, and nobody can use half of it.
        let _removed = unlinkat(directory, temporary.as_os_str(), UnlinkatFlags::NoRemoveDir);
    }
    done
}

fn create(directory: &OwnedFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    Ok(openat(directory, name, flags, mode())?.into())
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
