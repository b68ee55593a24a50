//! What this machine and this call are: facts, probed once, decided by nobody here.

pub mod mounts;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use mounts::Mounts;

use crate::sys::inherited::Inherited;

/// Facts about the caller and the machine.
#[derive(Debug)]
pub struct Host {
    /// The caller's working directory, without links; or why there is none.
    pub cwd: io::Result<PathBuf>,
    /// HOME of the caller, from the environment or else from the user database; absolute.
    pub home: Option<PathBuf>,
    /// The environment as it came, in order, duplicates included.
    pub environment: Vec<(OsString, OsString)>,
    /// Descriptors, signals and mask as the caller left them.
    pub inherited: Inherited,
    /// Whether each of the three standard streams is a terminal.
    pub terminals: [bool; 3],
    /// Path of the first of these terminals.
    pub terminal: Option<PathBuf>,
    /// Our own executable, as long as it lies where it was started.
    pub image: Option<PathBuf>,
    /// Children that this process already has: a shell started them before it became us. Not ours to end.
    pub children: Vec<nix::unistd::Pid>,
    /// What is mounted, read once when somebody asks.
    pub mounts: OnceLock<Arc<Mounts>>,
}

impl Host {
    /// Looks at this process and this machine.
    #[must_use]
    pub fn probe() -> Self {
        let environment: Vec<_> = std::env::vars_os().collect();
        let home =
            value(&environment, "HOME").map(PathBuf::from).filter(|home| home.is_absolute()).or_else(home_of_user);
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let streams = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let terminals = streams.map(|stream| nix::unistd::isatty(stream).unwrap_or(false));
        let first = streams.iter().zip(terminals).find(|(_, terminal)| *terminal).map(|(stream, _)| stream);
        Self {
            cwd: std::env::current_dir(),
            home,
            environment,
            inherited: Inherited::of_this_process(),
            terminals,
            terminal: first.and_then(|stream| nix::unistd::ttyname(stream).ok()),
            image: crate::sys::process::image()
                .filter(|path| std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file())),
            children: crate::sys::process::children(),
            mounts: OnceLock::new(),
        }
    }

    /// What is mounted.
    #[must_use]
    pub fn mounts(&self) -> &Arc<Mounts> {
        self.mounts.get_or_init(|| Arc::new(Mounts::of_this_process()))
    }

    /// The home that the user database knows, when it is not the one of the environment.
    #[must_use]
    pub fn listed_home(&self) -> Option<PathBuf> {
        home_of_user().filter(|listed| Some(listed) != self.home.as_ref())
    }

    /// The caller's value of a variable; the last one of duplicates.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        value(&self.environment, name)
    }

    /// Whether an absolute directory of the caller's PATH has an executable of this name.
    #[must_use]
    pub fn has_program(&self, name: &OsStr) -> bool {
        let path = crate::plan::target::path_entries(self.variable("PATH"));
        std::env::join_paths(path).is_ok_and(|path| which::which_in(name, Some(path), "/").is_ok())
    }

    /// The first program `name` in an absolute directory of the caller's PATH that may be used, or why each was passed over.
    ///
    /// Never below `workdir` or a directory in `writable`: whoever can write there would choose the launcher. Never setuid:
    /// two local-root bugs (CVE-2020-5291, CVE-2026-41163), and half of its options are switched off.
    pub fn find_tool(&self, name: &str, untrusted: &[&Path]) -> std::result::Result<PathBuf, Vec<String>> {
        use std::os::unix::fs::MetadataExt;
        let mut passed_over = Vec::new();
        let path = crate::plan::target::path_entries(self.variable("PATH"));
        let found = std::env::join_paths(path).ok().and_then(|path| which::which_in_all(name, Some(path), "/").ok());
        for candidate in found.into_iter().flatten() {
            let real = std::fs::canonicalize(&candidate).unwrap_or_else(|_| candidate.clone());
            let names = self.names_of_program(&candidate, &real);
            if let Some(place) = untrusted.iter().find(|place| names.iter().any(|name| name.starts_with(place))) {
                passed_over.push(format!(
                    "'{}' lies below '{}', which the target or whoever wrote to it controls",
                    candidate.display(),
                    place.display()
                ));
                continue;
            }
            match std::fs::metadata(&real) {
                Ok(metadata) if metadata.mode() & 0o6000 != 0 => {
                    passed_over.push(format!("'{}' is setuid", candidate.display()));
                }
                Ok(_) => return Ok(real),
                Err(error) => passed_over.push(format!("'{}': {error}", candidate.display())),
            }
        }
        Err(passed_over)
    }

    /// All names by which somebody could replace a program: its own, without links and as it was found, and those that other
    /// mounts give it.
    fn names_of_program(&self, found: &Path, real: &Path) -> Vec<PathBuf> {
        let above = found.parent().and_then(|above| std::fs::canonicalize(above).ok());
        let entry = above.zip(found.file_name()).map(|(above, name)| above.join(name));
        let mut names = vec![found.to_owned(), real.to_owned()];
        names.extend(entry);
        let second: Vec<_> = names.iter().skip(1).flat_map(|name| self.mounts().names_of_entry(name, true)).collect();
        names.extend(second);
        names.extend(self.mounts().names(real, true));
        names
    }
}

fn value<'a>(environment: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    environment.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_os_str())
}

fn home_of_user() -> Option<PathBuf> {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).ok()??;
    user.dir.is_absolute().then_some(user.dir)
}
