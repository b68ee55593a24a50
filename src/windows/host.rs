//! What this machine and this call are: facts, probed once, decided by nobody here.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::windows::io::AsRawHandle;
use std::path::{Path, PathBuf};

use super::program::{self, Found};
use crate::plan::env::windows::{folded, is_absolute};

/// Facts about the caller and the machine.
#[derive(Debug)]
pub struct Host {
    /// The caller's working directory, or why there is none.
    pub cwd: io::Result<PathBuf>,
    /// The user's own directory, from the environment; absolute.
    pub home: Option<PathBuf>,
    /// The environment as it came, in order, entries like `=C:` included.
    pub environment: Vec<(OsString, OsString)>,
    /// What the caller left open.
    pub inherited: Inherited,
}

/// What the caller left open.
#[derive(Debug)]
pub struct Inherited {
    /// Which of the three standard streams are not.
    pub closed: [bool; 3],
}

impl Host {
    /// Looks at this process and this machine.
    #[must_use]
    pub fn probe() -> Self {
        let environment: Vec<_> = std::env::vars_os().collect();
        let home = value(&environment, "USERPROFILE").or_else(|| value(&environment, "HOME"));
        let home = home.filter(|home| is_absolute(home)).map(PathBuf::from);
        let streams = [io::stdin().as_raw_handle(), io::stdout().as_raw_handle(), io::stderr().as_raw_handle()];
        Self {
            cwd: std::env::current_dir(),
            home,
            environment,
            inherited: Inherited { closed: streams.map(<*mut std::ffi::c_void>::is_null) },
        }
    }

    /// The caller's value of a variable, in any case.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        value(&self.environment, name)
    }

    /// Whether an absolute directory of the caller's PATH has a program of this name.
    #[must_use]
    pub fn has_program(&self, name: &OsStr) -> bool {
        let path = self.variable("PATH").unwrap_or_default();
        let is_file = |path: &OsStr| Path::new(path).is_file();
        let found = program::find(name, OsStr::new(""), path, self.variable("PATHEXT"), &is_file);
        matches!(found, Found::Program(_) | Found::Batch(_))
    }
}

fn value<'a>(environment: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    let same = |key: &OsString| key.to_str().is_some_and(|key| folded(key) == name);
    environment.iter().rev().find(|(key, _)| same(key)).map(|(_, value)| value.as_os_str())
}
