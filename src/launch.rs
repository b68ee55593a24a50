//! What it takes to start a plan under a backend: bytes, not actions.
//!
//! Pure data, the same on every platform, so that translations are tested as text. `stage::outer` carries it out.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::plan::reach::Allowed;

/// How the inner stage comes to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launch {
    /// By a program that builds the sandbox and then executes our image inside it.
    Program(Command),
    /// In a copy of this process, which builds the sandbox around itself.
    Namespaces(Namespaces),
    /// In a copy of this process, which confines itself before it becomes the target.
    Confined(Confinement),
    /// In a copy of this process: nothing is built around it.
    InProcess,
}

/// What a process does to itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// Version of Landlock that is made use of.
    pub landlock: i32,
    /// What may be done below which path; more than one rule may speak of a file.
    pub rules: Vec<Allowed>,
    /// Whether TCP is refused, as far as this version knows of it.
    pub no_tcp: bool,
}

/// Namespaces of its own, and what a process does in them, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespaces {
    /// Whether the network is one of them.
    pub network: bool,
    /// What it does to a new root directory, before that takes the place of the host's.
    pub operations: Vec<Operation>,
}

/// One thing that is done in a new root directory. Paths are absolute, without links, `.` and `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// An empty file system in memory.
    Tmpfs {
        /// Where.
        at: PathBuf,
        /// Whether there is a directory for it.
        place: Place,
        /// Permission bits of its top directory.
        mode: u32,
        /// Bytes.
        size: u64,
    },
    /// A directory, parents included.
    Directory {
        /// Where.
        at: PathBuf,
    },
    /// A symbolic link.
    Link {
        /// Where.
        at: PathBuf,
        /// What it says.
        text: PathBuf,
    },
    /// A file or directory of the host, with all that is mounted below.
    Tree {
        /// On the host.
        from: PathBuf,
        /// Where.
        at: PathBuf,
        /// Whether there is a file or directory for it.
        place: Place,
        /// Whether it can be written.
        write: bool,
        /// Whether device nodes work.
        devices: bool,
    },
    /// A file with the content that one of the host has now.
    Copy {
        /// On the host.
        from: PathBuf,
        /// Where.
        at: PathBuf,
    },
    /// A file system of the kernel, of the namespaces.
    Kernel {
        /// Which.
        kind: Kernel,
        /// Where.
        at: PathBuf,
        /// Whether there is a directory for it.
        place: Place,
    },
    /// The empty file or the empty directory, read-only, over something of the host.
    Empty {
        /// Where.
        at: PathBuf,
        /// Whether it is a directory.
        directory: bool,
    },
    /// Makes the file system mounted at exactly this place read-only.
    ReadOnly {
        /// Where.
        at: PathBuf,
    },
}

/// What an operation finds at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nothing: it is in memory, and made first.
    Made,
    /// A file or directory; on the host nothing is ever made.
    There,
}

/// File systems of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Processes.
    Proc,
    /// Terminals.
    Terminals,
    /// POSIX message queues.
    Queues,
}

/// A launcher program and all it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Absolute path.
    pub program: PathBuf,
    /// Its arguments, visible to everybody in `ps`, without `argv[0]`.
    pub arguments: Vec<Word>,
    /// Further arguments that it reads from the file [`File::Options`], NUL-separated.
    pub options: Vec<Word>,
    /// How the inner stage is handed what it needs, where the program passes no descriptor on.
    pub door: Option<Door>,
}

/// A launch by way of a socket in a directory of the run, and what is left of it if the launcher is killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Door {
    /// Variables of the launcher program.
    pub environment: Vec<(OsString, OsString)>,
    /// Arguments with which it prints the annotations of the image, where it passes them on to whatever makes the container.
    pub question: Option<Vec<OsString>>,
    /// Arguments with which it starts a container of the same image and with nothing of the host's in it, for a look at the image
    /// before.
    pub look: Vec<Word>,
    /// Arguments with which the same program removes what a killed launcher leaves.
    pub removal: Vec<Word>,
    /// The dynamic loader of which the directory of the run has a copy, without the list of what it loads into every program.
    pub loader: Option<PathBuf>,
}

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// As it is, but for [`RUN`].
    Text(OsString),
    /// The number of a descriptor that is opened at the start.
    Fd(File),
    /// The path `/proc/self/fd/N` of such a descriptor.
    FdPath(File),
    /// The path of a file that only the caller can read, made for the run with this text and removed after it.
    Private(String),
    /// A path in the directory of the run, between other text.
    Scratch {
        /// What stands before the path.
        before: OsString,
        /// The name in the directory.
        name: OsString,
        /// What stands after it, as a [`Text`](Self::Text).
        after: OsString,
    },
}

/// Stands for the name of the run, unique and not to be guessed, where the launcher has one. Nothing else in an argument is a NUL.
pub const RUN: &str = "\0";

/// `text` with the `name` of the run in it.
#[must_use]
pub fn named(text: &OsStr, name: &OsStr) -> OsString {
    let parts: Vec<_> = text.as_bytes().split(|byte| *byte == 0).map(OsStr::from_bytes).collect();
    parts.join(name)
}

/// What a descriptor that goes along refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum File {
    /// The [`options`](Command::options).
    Options,
    /// Our own executable.
    Image,
    /// An empty file; each occurrence is a descriptor of its own, since bubblewrap closes each after one use.
    Empty,
    /// A file of the host, open for reading.
    Host(PathBuf),
}

impl<T: Into<OsString>> From<T> for Word {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}
