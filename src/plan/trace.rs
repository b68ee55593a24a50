//! Running the target traced: under which strace and what that is told to run, or by itself where it is a tracer.
//!
//! Decides nothing about the sandbox; `resolve` makes the program visible as it does with the target.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::target::{self, Search, Target};

/// The program.
const PROGRAM: &str = "strace";

/// Programs that trace others. A process has one tracer, so that under strace they could do nothing.
const TRACERS: &[&str] = &["gdb", "gdb-multiarch", "gdbserver", "lldb", "lldb-server", "ltrace", "rr", PROGRAM];

/// How a run is traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tracing {
    /// Under strace.
    Strace(Trace),
    /// By the target, which is a tracer.
    Target,
}

impl Tracing {
    /// The strace above the target, if there is one.
    #[must_use]
    pub fn strace(&self) -> Option<&Trace> {
        match self {
            Self::Strace(trace) => Some(trace),
            Self::Target => None,
        }
    }
}

/// A run under strace.
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

/// Whether `program` is named like a tracer, with or without a version as in `lldb-14`.
#[must_use]
pub fn is_tracer(program: &Path) -> bool {
    let name = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let version = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let plain = name.rsplit_once('-').filter(|(_, last)| version(last)).map_or(name, |(plain, _)| plain);
    TRACERS.contains(&plain)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracers_are_known_by_name() {
        for name in
            ["gdb", "/usr/bin/gdb", "./lldb", "lldb-14", "lldb-server-14", "gdb-multiarch", "gdb-13.2", "strace"]
        {
            assert!(is_tracer(Path::new(name)), "{name}");
        }
        for name in ["", "/", "gdbx", "gdb-x", "xgdb", "sh", "gdb/sh", "stracer"] {
            assert!(!is_tracer(Path::new(name)), "{name}");
        }
    }
}
