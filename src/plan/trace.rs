//! Running the target under strace: which strace, and what it is told to run.
//!
//! Decides nothing about the sandbox; `resolve` makes the program visible as it does with the target.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::target::{self, Search, Target};

/// The program.
const PROGRAM: &str = "strace";

/// A run that is traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The tracer, as exec gets it.
    pub program: PathBuf,
    /// The target and its arguments, so that the tracer starts the same file under the same `argv[0]`.
    pub command: Vec<OsString>,
}

/// Finds strace, and what must be visible for its start. `None` when there is none.
#[must_use]
pub fn find(path: &[PathBuf], workdir: &Path) -> Option<Target> {
    target::resolve(&Search { word: OsStr::new(PROGRAM), path, workdir }).ok()
}

impl Trace {
    /// To start `target` with `argv`; `path` is the caller's PATH.
    #[must_use]
    pub fn new(strace: &Target, target: &Target, argv: &[OsString], path: Option<&OsStr>) -> Self {
        let mut command = argv.to_vec();
        // strace searches PATH as execvp does, by entries that are relative, too. Where it might find another program it gets
        // the path of ours, at the price of another `argv[0]`.
        let plain =
            path.is_some_and(|path| path.as_bytes().split(|byte| *byte == b':').all(|entry| entry.starts_with(b"/")));
        let has_slash = target.word.as_bytes().contains(&b'/');
        if let Some(first) = command.first_mut().filter(|_| !plain && !has_slash) {
            *first = target.literal.clone().into_os_string();
        }
        if target.script_without_shebang {
            command.splice(..1, ["/bin/sh".into(), target.literal.clone().into_os_string()]);
        }
        Self { program: strace.literal.clone(), command }
    }
}
