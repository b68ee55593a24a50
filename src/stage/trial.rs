//! Trials: what the target could do with a path, tried by a process that stands where the target would.
//!
//! Changes nothing: opens without truncating, makes nothing that has a name, connects to nothing, and opens nothing that could
//! answer by itself (a FIFO, a device). Decides nothing; the plan is compared with what is found here by somebody else.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::Mode;

use crate::plan::own_number;
use crate::sys;

/// The kernel's own limit on the number of links, `MAXSYMLINKS`.
const MAX_LINKS: usize = 40;

/// A path to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Absolute, as the target would write it: links are for the kernel inside.
    pub path: PathBuf,
    /// Device and inode of what the host has there, if it has something.
    pub file: Option<(u64, u64)>,
}

/// What is tried with each path, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Act {
    /// Looking at the name, without following it.
    Name,
    /// Looking at what it leads to.
    File,
    /// Opening it for reading; of a directory the first entry is read.
    Read,
    /// Opening it for writing. In a directory, also that of a name that does not exist, a file without a name is made.
    Write,
}

impl Act {
    /// All of them, in order.
    pub const ALL: [Self; 4] = [Self::Name, Self::File, Self::Read, Self::Write];

    /// The act with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It can be done; of [`Act::File`]: and it is the host's file.
    Works,
    /// There is a file, and it is not the host's.
    Another,
    /// Not tried: nothing that can be opened without consequences.
    Untried,
    /// The error number.
    Failed(i32),
}

impl Answer {
    /// As it travels: error numbers are positive.
    #[must_use]
    pub fn number(self) -> i32 {
        match self {
            Self::Works => 0,
            Self::Another => -1,
            Self::Untried => -2,
            Self::Failed(errno) => errno,
        }
    }

    /// Back from [`Answer::number`].
    #[must_use]
    pub fn from_number(number: i32) -> Self {
        match number {
            0 => Self::Works,
            -1 => Self::Another,
            errno if errno > 0 => Self::Failed(errno),
            _ => Self::Untried,
        }
    }

    fn of<T>(result: io::Result<T>) -> Self {
        match result {
            Ok(_) => Self::Works,
            // What has no number is a name that the system does not take.
            Err(error) => Self::Failed(error.raw_os_error().unwrap_or(libc::EINVAL)),
        }
    }
}

/// Everything tried with one path; with `rights` it is more than permissions and mounts that stands in the way of this process.
#[must_use]
pub fn attempt(trial: &Trial, rights: bool) -> [(Act, Answer); 4] {
    let path = trial.path.as_path();
    let make =
        |directory: &Path| if rights { made_in(directory).unwrap_or(Answer::Untried) } else { unnamed_in(directory) };
    let name = fs::symlink_metadata(path);
    let file = fs::metadata(path);
    let seen = match (&file, trial.file) {
        (Ok(found), Some(host)) if identity(found) == host => Answer::Works,
        (Ok(_), _) => Answer::Another,
        (Err(_), _) => Answer::of(file.as_ref().map_err(copy)),
    };
    let (read, write) = match &file {
        Ok(found) if found.is_dir() => (Answer::of(list(path)), make(path)),
        Ok(found) if found.is_file() => (Answer::of(open(path, false)), Answer::of(open(path, true))),
        Ok(_) => (Answer::Untried, Answer::Untried),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            (Answer::Untried, missing(path).map_or_else(Answer::Failed, |directory| make(&directory)))
        }
        Err(_) => (Answer::of(open(path, false)), Answer::of(open(path, true))),
    };
    [(Act::Name, Answer::of(name)), (Act::File, seen), (Act::Read, read), (Act::Write, write)]
}

/// The directory in which a file would be made by the name `path`, of which links at its end lead nowhere; or the error number.
fn missing(path: &Path) -> Result<PathBuf, i32> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let directory = path.parent().ok_or(libc::ENOENT)?.to_owned();
        match fs::read_link(&path) {
            Ok(text) => path = directory.join(text),
            Err(_) => return Ok(directory),
        }
    }
    Err(libc::ELOOP)
}

fn copy(error: &io::Error) -> io::Error {
    io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EINVAL))
}

fn open(path: &Path, write: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(!write)
        .write(write)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC)
        .open(path)
}

fn list(path: &Path) -> io::Result<()> {
    fs::read_dir(path)?.next().transpose().map(drop)
}

/// Whether a file can be made in a directory, by one that never gets a name.
#[must_use]
pub fn unnamed_in(directory: &Path) -> Answer {
    made_in(directory).unwrap_or_else(|| {
        // All that can be asked without leaving something is its permissions.
        let flags = nix::unistd::AccessFlags::W_OK | nix::unistd::AccessFlags::X_OK;
        Answer::of(nix::unistd::access(directory, flags).map_err(io::Error::from))
    })
}

/// The same; `None` where the file system has no such files.
fn made_in(directory: &Path) -> Option<Answer> {
    match sys::at::unnamed(AT_FDCWD, directory.as_os_str(), Mode::S_IRUSR | Mode::S_IWUSR) {
        Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL) => None,
        Err(errno) => Some(Answer::Failed(errno as i32)),
        Ok(_) => Some(Answer::Works),
    }
}

/// Device and inode by which a file is known again inside; of a device its own number, since there can be another node of it.
#[must_use]
pub fn identity(metadata: &Metadata) -> (u64, u64) {
    let kind = metadata.file_type();
    let device = kind.is_char_device() || kind.is_block_device();
    if device { own_number(metadata) } else { (metadata.dev(), metadata.ino()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for answer in [Answer::Works, Answer::Another, Answer::Untried, Answer::Failed(libc::EROFS)] {
            assert_eq!(Answer::from_number(answer.number()), answer);
        }
        for (number, act) in (0..).zip(Act::ALL) {
            assert_eq!(act as u8, number);
            assert_eq!(Act::from_number(number), Some(act));
        }
    }

    #[test]
    fn nothing_is_left_or_changed() {
        let top = tempfile::tempdir().unwrap();
        let [file, missing] = ["file", "missing"].map(|name| top.path().join(name));
        fs::write(&file, "text").unwrap();
        let before = fs::metadata(top.path()).unwrap().modified().unwrap();
        let of = |path: &Path| {
            let file = fs::metadata(path).ok().as_ref().map(identity);
            attempt(&Trial { path: path.to_owned(), file }, false).map(|(_, answer)| answer)
        };
        assert_eq!(of(&file), [Answer::Works; 4]);
        assert_eq!(of(top.path()), [Answer::Works; 4]);
        let absent = Answer::Failed(libc::ENOENT);
        assert_eq!(of(&missing), [absent, absent, Answer::Untried, Answer::Works]);
        assert_eq!(fs::read(&file).unwrap(), b"text");
        assert_eq!(fs::metadata(top.path()).unwrap().modified().unwrap(), before);
        assert_eq!(fs::read_dir(top.path()).unwrap().count(), 1);
    }
}
