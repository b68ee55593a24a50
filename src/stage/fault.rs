//! What a process that builds a sandbox around itself could not do: sent to the outer stage, told to people.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::sys::process::reason;

/// One thing on the way to a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Act {
    /// A copy of the process in namespaces.
    Namespaces,
    /// Descriptors.
    Descriptors,
    /// The control group of the run.
    Group,
    /// Its user inside.
    Ids,
    /// Mounts that are not shared with the host.
    Apart,
    /// A new root directory.
    Root,
    /// A file system in memory.
    Tmpfs,
    /// A directory in memory.
    Directory,
    /// A link in memory.
    Link,
    /// Something of the host, before it is mounted.
    Source,
    /// A place for a mount.
    Place,
    /// Something of the host, mounted.
    Tree,
    /// A file of the host, copied.
    Copy,
    /// A file system of the kernel.
    Kernel,
    /// Something hidden.
    Hide,
    /// Something made read-only.
    ReadOnly,
    /// The loopback interface.
    Loopback,
    /// The host name.
    Name,
    /// The new root directory in the place of the old one.
    Enter,
    /// Another user namespace, which has no say in what was built.
    Leave,
    /// Privileges.
    Privileges,
    /// The end of its parent.
    Parent,
}

impl Act {
    const ALL: [Self; 22] = [
        Self::Namespaces,
        Self::Descriptors,
        Self::Group,
        Self::Ids,
        Self::Apart,
        Self::Root,
        Self::Tmpfs,
        Self::Directory,
        Self::Link,
        Self::Source,
        Self::Place,
        Self::Tree,
        Self::Copy,
        Self::Kernel,
        Self::Hide,
        Self::ReadOnly,
        Self::Loopback,
        Self::Name,
        Self::Enter,
        Self::Leave,
        Self::Privileges,
        Self::Parent,
    ];

    /// What could not be done; `{}` stands for a path.
    fn text(self) -> &'static str {
        match self {
            Self::Namespaces => "make namespaces",
            Self::Descriptors => "arrange descriptors",
            Self::Group => "enter the control group of the run",
            Self::Ids => "map the user into a namespace",
            Self::Apart => "keep the mounts of the sandbox apart from those of the host",
            Self::Root => "make a root directory in memory",
            Self::Tmpfs => "mount a file system in memory on {}",
            Self::Directory => "make directory {} in memory",
            Self::Link => "make link {} in memory",
            Self::Source => "take {} into the sandbox",
            Self::Place => "find a place inside for {}",
            Self::Tree => "mount {} inside",
            Self::Copy => "copy {}",
            Self::Kernel => "mount a file system of the kernel on {}",
            Self::Hide => "hide {}",
            Self::ReadOnly => "make {} read-only",
            Self::Loopback => "switch the loopback interface on",
            Self::Name => "set a host name",
            Self::Enter => "enter the new root directory",
            Self::Leave => "give up the say over what was mounted",
            Self::Privileges => "give up privileges",
            Self::Parent => "end with the process that started it",
        }
    }
}

/// What failed, with its error number and the path that it was about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What was done.
    pub act: Act,
    /// Error number; 0 when there is none.
    pub errno: i32,
    /// The path, if it was about one.
    pub at: Option<PathBuf>,
}

impl Fault {
    /// `act`, which is about no path, failed with `error`.
    pub fn of(act: Act, error: impl Into<io::Error>) -> Self {
        Self { act, errno: error.into().raw_os_error().unwrap_or(0), at: None }
    }

    /// `act` on `at` failed with `error`.
    pub fn at(act: Act, at: &Path, error: impl Into<io::Error>) -> Self {
        Self { at: Some(at.to_owned()), ..Self::of(act, error) }
    }

    /// Whether it is a new `/proc` that could not be had.
    #[must_use]
    pub fn is_of_proc(&self) -> bool {
        self.act == Act::Kernel && self.at.as_deref() == Some(Path::new("/proc"))
    }

    /// As it is sent.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let path = self.at.as_deref().map_or(&b""[..], |path| path.as_os_str().as_bytes());
        [&[self.act as u8], &self.errno.to_ne_bytes()[..], path].concat()
    }

    /// As it was sent; `None` when it is no such thing.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (act, rest) = bytes.split_first()?;
        let (errno, path) = rest.split_first_chunk::<4>()?;
        let at = Some(path).filter(|path| !path.is_empty()).map(|path| PathBuf::from(OsStr::from_bytes(path)));
        Some(Self { act: *Act::ALL.get(usize::from(*act))?, errno: i32::from_ne_bytes(*errno), at })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.as_deref().unwrap_or(Path::new("/"));
        let what = self.act.text().replace("{}", &format!("'{}'", at.display()));
        write!(f, "cannot {what}")?;
        if self.errno == 0 { Ok(()) } else { write!(f, ": {}", reason(self.errno)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_arrives_as_it_was_sent_and_has_a_text() {
        for act in Act::ALL {
            for at in [None, Some(PathBuf::from("/a b"))] {
                let fault = Fault { act, errno: libc::EPERM, at };
                assert_eq!(Fault::read(&fault.bytes()).as_ref(), Some(&fault));
                let text = fault.to_string();
                assert!(text.starts_with("cannot ") && text.ends_with(": operation not permitted"), "{text}");
                assert!(!text.contains('{'), "{text}");
            }
        }
        for bytes in [&b""[..], &[0, 1, 2, 3], &[200, 0, 0, 0, 0]] {
            assert_eq!(Fault::read(bytes), None);
        }
    }
}
