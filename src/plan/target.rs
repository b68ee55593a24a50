//! Finds the program that was asked for, as execvp would, and every path that must be visible for it to start.
//!
//! Looks only at the names on the way, never at what lies beside them: a path is made visible by its links and its file
//! alone, so that neither `/bin/sh` nor `~/bin/x` opens a directory. Shared libraries are not followed; their directory is
//! a matter of the view, or of a grant. Nothing is started here.
//!
//! Terms: a name is *literal* when its own links are not resolved, *canonical* when no component of it is a link.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{AccessFlags, access, faccessat};

use super::image::{Image, env_program};
use crate::error::{Error, Kind};

/// What to look for, and where.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// The command as typed.
    pub word: &'a OsStr,
    /// Directories for a word without a slash, all absolute; see [`path_entries`].
    pub path: &'a [PathBuf],
    /// Canonical directory in which the target starts; relative names are resolved against it.
    pub workdir: &'a Path,
}

/// A program that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `argv[0]`, as typed.
    pub word: OsString,
    /// What execvp hands to execve: the word, or PATH entry and word. A script sees it as `$0`, hence it may be relative
    /// to the working directory and may contain `..`; it holds there as long as `files` are visible.
    pub literal: PathBuf,
    /// The same file by an absolute name without `.` and `..`, not resolved through its own links.
    pub exec: PathBuf,
    /// The same file by its canonical name.
    pub file: PathBuf,
    /// Everything that must be visible for the start, in the order in which the kernel meets it.
    pub files: Vec<Needed>,
    /// Neither `#!` nor ELF: expect ENOEXEC from exec and run it by `/bin/sh`, which is then part of `files`.
    pub script_without_shebang: bool,
}

/// One path that must be visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Needed {
    /// A symbolic link, also one in the middle of a name (`/bin`).
    Link {
        /// Where it is; its parent is canonical.
        at: PathBuf,
        /// What it says, unchanged.
        text: PathBuf,
    },
    /// A regular file, canonical.
    File(PathBuf),
    /// A canonical directory that a name enters and leaves again by `..`: it must exist, and may be empty. Left out where
    /// it exists anyway, on the way to the working directory or to another needed path.
    Directory(PathBuf),
}

/// Why the target cannot be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There is no such file.
    NotFound {
        /// As typed.
        word: OsString,
        /// The working directory has an executable file of that name, which PATH does not reach.
        beside: bool,
    },
    /// There is a file, and it is not a program that we may run.
    NotExecutable {
        /// As typed.
        word: OsString,
        /// One phrase; names the file when that is not the word itself.
        reason: String,
    },
    /// The program that `#!` or the ELF header names does not exist. exec reports this as if the target were missing.
    InterpreterMissing {
        /// As typed.
        word: OsString,
        /// As written in the file that names it.
        interpreter: PathBuf,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { word, beside: _ } if has_slash(word) => {
                write!(f, "cannot find '{}': no such file or directory", word.display())
            }
            Self::NotFound { word, beside: _ } => {
                write!(f, "cannot find '{}' in PATH", word.display())
            }
            Self::NotExecutable { word, reason } => {
                write!(f, "cannot execute '{}': {reason}", word.display())
            }
            Self::InterpreterMissing { word, interpreter } => write!(
                f,
                "cannot execute '{}': its interpreter '{}' does not exist",
                word.display(),
                interpreter.display()
            ),
        }
    }
}

impl std::error::Error for Fault {}

/// What a word that is no program may have been meant as.
fn mistaken(word: &OsStr) -> Option<&'static str> {
    let bytes = word.as_bytes();
    let equals = bytes.iter().position(|&byte| byte == b'=');
    if let Some(at) = equals
        && crate::policy::env::is_name(&bytes[..at])
    {
        return Some("a variable is set by '-e NAME=VALUE'");
    }
    let blank = bytes.iter().any(u8::is_ascii_whitespace);
    blank.then_some("COMMAND is one word and its arguments others; a line of shell is run by: sh -c 'LINE'")
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let text = fault.to_string();
        match fault {
            Fault::NotFound { word, beside: true } => Self::text(Kind::NotFound, text)
                .hint(format!("the working directory is not searched; type './{}'", word.display())),
            Fault::NotFound { word, beside: false } => {
                let error = Self::text(Kind::NotFound, text);
                match mistaken(&word) {
                    Some(hint) => error.hint(hint),
                    None => error,
                }
            }
            Fault::NotExecutable { .. } => Self::text(Kind::NotExecutable, text),
            Fault::InterpreterMissing { interpreter, .. } => {
                let error = Self::text(Kind::NotExecutable, text);
                if interpreter.as_os_str().as_bytes().ends_with(b"\r") {
                    return error.hint("the '#!' line ends in a carriage return; convert the file to Unix line ends");
                }
                error
            }
        }
    }
}

/// The directories of a PATH value: absolute entries only, or the customary ones where none is left.
///
/// An empty or relative entry would let the working directory decide which program runs.
#[must_use]
pub fn path_entries(path: Option<&OsStr>) -> Vec<PathBuf> {
    let absolute = |text: &OsStr| -> Vec<PathBuf> {
        let entries = text.as_bytes().split(|&byte| byte == b':');
        entries.map(|entry| PathBuf::from(OsStr::from_bytes(entry))).filter(|e| e.is_absolute()).collect()
    };
    match path.map(absolute) {
        Some(entries) if !entries.is_empty() => entries,
        _ => absolute(OsStr::new(DEFAULT_PATH)),
    }
}

const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// execvp's own fallback for a file that the kernel does not recognise.
const SHELL: &str = "/bin/sh";

/// Links in one name; the kernel says ELOOP after that (path\_resolution(7)).
const MAX_LINKS: u32 = 40;

/// Scripts in a chain of interpreters. execve(2) says four, Linux since 5.8 lets five pass (`exec_binprm`).
const MAX_SCRIPTS: u32 = 5;

/// `#!/usr/bin/env` lines that lead to each other.
const MAX_ENV: u32 = 4;

/// Finds the target and everything that must be visible for it to start.
pub fn resolve(search: &Search<'_>) -> Result<Target, Fault> {
    resolve_within(search, MAX_ENV)
}

fn resolve_within(search: &Search<'_>, env_budget: u32) -> Result<Target, Fault> {
    let Found { literal, exec, file, needed } = find(search)?;
    let mut start = Start { search, env_budget, files: Vec::new() };
    start.add(needed);
    let script_without_shebang = !start.follow(&file, 0)?;
    if script_without_shebang {
        let shell = start.interpreter(Path::new(SHELL))?;
        start.follow(&shell, 0)?;
    }
    let files = without_implied(&start.files, search.workdir);
    Ok(Target { word: search.word.to_owned(), literal, exec, file, files, script_without_shebang })
}

/// The first file that the word leads to and that may be executed.
fn find(search: &Search<'_>) -> Result<Found, Fault> {
    let Search { word, path, workdir } = *search;
    let refused = |reason: String| Fault::NotExecutable { word: word.to_owned(), reason };
    if has_slash(word) {
        return executable(workdir, Path::new(word)).map_err(|trouble| {
            if trouble.is_absence() {
                return Fault::NotFound { word: word.to_owned(), beside: false };
            }
            refused(trouble.to_string())
        });
    }
    if word == "." || word == ".." {
        return Err(refused(Trouble::Directory.to_string()));
    }
    let mut first_refusal = None;
    let candidates = if word.is_empty() { &[] } else { path };
    for name in candidates.iter().map(|entry| entry.join(word)) {
        let trouble = match fs::symlink_metadata(&name).map_err(errno) {
            Ok(_) => match executable(Path::new("/"), &name) {
                Ok(found) => return Ok(found),
                Err(trouble) => trouble,
            },
            // The name itself is at fault, whatever the directory.
            Err(Errno::ENAMETOOLONG) => Trouble::Errno(Errno::ENAMETOOLONG),
            // A directory that is missing or cannot be searched says nothing about the program.
            Err(_) => continue,
        };
        if !trouble.is_absence() {
            first_refusal.get_or_insert_with(|| format!("'{}' {}", name.display(), trouble.predicate()));
        }
    }
    Err(first_refusal.map_or_else(
        || Fault::NotFound {
            word: word.to_owned(),
            beside: !word.is_empty() && executable(workdir, Path::new(word)).is_ok(),
        },
        refused,
    ))
}

/// A file that may be executed, and the names on the way to it.
struct Found {
    literal: PathBuf,
    exec: PathBuf,
    file: PathBuf,
    needed: Vec<Needed>,
}

/// Walks `name` from `base` and asks whether the file at its end may be executed.
fn executable(base: &Path, name: &Path) -> Result<Found, Trouble> {
    if name.as_os_str().is_empty() {
        return Err(Trouble::Errno(Errno::ENOENT));
    }
    let origin = if name.has_root() { Path::new("/") } else { base };
    let mut walk = Walk { here: origin.to_owned(), links: 0, needed: Vec::new() };
    let mut exec = walk.here.clone();
    for component in components(name) {
        walk.step(component)?;
        match component.as_bytes() {
            b"." => {}
            // Behind a link, `..` is not the parent of the literal name.
            b".." => exec.clone_from(&walk.here),
            _ => exec.push(component),
        }
    }
    let Walk { here: file, mut needed, .. } = walk;
    may_execute(&exec, &file)?;
    needed.push(Needed::File(file.clone()));
    Ok(Found { literal: name.to_owned(), exec, file, needed })
}

/// Asks by the name with its links, since the kernel may refuse to follow one (`fs.protected_symlinks`).
fn may_execute(exec: &Path, file: &Path) -> Result<(), Trouble> {
    let meta = fs::symlink_metadata(file)?;
    if meta.is_dir() {
        return Err(Trouble::Directory);
    }
    if !meta.is_file() {
        return Err(Trouble::Special);
    }
    let allowed = match faccessat(AT_FDCWD, exec, AccessFlags::X_OK, AtFlags::AT_EACCESS) {
        // Seccomp filters older than faccessat2 answer so. Our real and effective ids are the same in every supported use.
        Err(Errno::EPERM | Errno::ENOSYS) => access(exec, AccessFlags::X_OK),
        answer => answer,
    };
    match allowed {
        Ok(()) => Ok(()),
        Err(Errno::EACCES) if meta.permissions().mode() & 0o111 == 0 => Err(Trouble::NoExecuteBit),
        Err(Errno::EACCES) if is_noexec(file) => Err(Trouble::NoExec),
        Err(code) => Err(Trouble::Errno(code)),
    }
}

/// By name, because only some systems have this flag.
fn is_noexec(file: &Path) -> bool {
    FsFlags::from_name("ST_NOEXEC").is_some_and(|flag| statvfs(file).is_ok_and(|system| system.flags().contains(flag)))
}

/// Why a file cannot be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Errno(Errno),
    Directory,
    Special,
    NoExecuteBit,
    NoExec,
}

impl Trouble {
    fn is_absence(self) -> bool {
        self == Self::Errno(Errno::ENOENT)
    }

    /// The trouble as it follows the name of the file.
    fn predicate(self) -> String {
        match self {
            Self::Errno(code) => format!("cannot be executed: {}", describe(code)),
            Self::Directory | Self::Special | Self::NoExecuteBit | Self::NoExec => self.to_string(),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Errno(code) => f.write_str(&describe(*code)),
            Self::Directory => f.write_str("is a directory"),
            Self::Special => f.write_str("is not a regular file"),
            Self::NoExecuteBit => f.write_str("has no execute permission"),
            Self::NoExec => f.write_str("is on a file system that is mounted noexec"),
        }
    }
}

impl From<Errno> for Trouble {
    fn from(code: Errno) -> Self {
        Self::Errno(code)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Errno(errno(error))
    }
}

/// A name with a NUL byte has no number; EINVAL is what it comes to.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn errno(error: io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EINVAL, Errno::from_raw)
}

/// The system's text in our manner: lower case, and the wording people know for loops.
fn describe(code: Errno) -> String {
    match code {
        Errno::ELOOP => "too many levels of symbolic links".to_owned(),
        _ => code.desc().to_lowercase(),
    }
}

fn has_slash(word: &OsStr) -> bool {
    word.as_bytes().contains(&b'/')
}

/// The components of a name with `.` and `..` kept, because both demand a directory; so does a slash at the end.
fn components(name: &Path) -> impl DoubleEndedIterator<Item = &OsStr> {
    let bytes = name.as_os_str().as_bytes();
    let end = bytes.ends_with(b"/").then_some(OsStr::new("."));
    let words = bytes.split(|&byte| byte == b'/').filter(|word| !word.is_empty());
    words.map(OsStr::from_bytes).chain(end)
}

/// A walk along a name, link by link, as the kernel does it.
struct Walk {
    /// Canonical name of what has been reached.
    here: PathBuf,
    links: u32,
    needed: Vec<Needed>,
}

impl Walk {
    /// One component, and every link that it leads through.
    fn step(&mut self, component: &OsStr) -> Result<(), Errno> {
        let mut pending = VecDeque::from([component.to_owned()]);
        while let Some(component) = pending.pop_front() {
            let at = self.here.join(&component);
            // Asked also of `.` and `..`: this is where the kernel says that `here` is no directory or is closed to us.
            let kind = fs::symlink_metadata(&at).map_err(errno)?.file_type();
            match component.as_bytes() {
                b"." => {}
                b".." => {
                    self.needed.push(Needed::Directory(self.here.clone()));
                    self.here.pop();
                }
                _ if kind.is_symlink() => {
                    self.links += 1;
                    if self.links > MAX_LINKS {
                        return Err(Errno::ELOOP);
                    }
                    let text = fs::read_link(&at).map_err(errno)?;
                    if text.has_root() {
                        self.here = PathBuf::from("/");
                    }
                    for component in components(&text).rev() {
                        pending.push_front(component.to_owned());
                    }
                    self.needed.push(Needed::Link { at, text });
                }
                _ => self.here = at,
            }
        }
        Ok(())
    }
}

/// What the start of one program needs, gathered file by file.
struct Start<'a> {
    search: &'a Search<'a>,
    env_budget: u32,
    files: Vec<Needed>,
}

impl Start<'_> {
    fn add(&mut self, needed: Vec<Needed>) {
        for item in needed {
            if !self.files.contains(&item) {
                self.files.push(item);
            }
        }
    }

    /// Follows a program to everything that starts it; false if the kernel will not recognise the format.
    fn follow(&mut self, file: &Path, scripts: u32) -> Result<bool, Fault> {
        match Image::read(file) {
            Image::Script { .. } if scripts == MAX_SCRIPTS => {
                Err(self.refused("too many levels of interpreters".to_owned()))
            }
            Image::Script { interpreter, argument } => {
                let next = self.interpreter(&interpreter)?;
                let recognised = self.follow(&next, scripts + 1)?;
                if recognised && interpreter.file_name() == Some(OsStr::new("env")) {
                    self.env(argument.as_deref());
                }
                Ok(recognised)
            }
            Image::Elf { native: true, interpreter: Some(loader) } => self.interpreter(&loader).map(|_| true),
            Image::Elf { native: false, interpreter: Some(loader) } => {
                // An emulator may look for the loader under a root of its own.
                if let Ok(found) = executable(self.search.workdir, &loader) {
                    self.add(found.needed);
                }
                Ok(true)
            }
            Image::Elf { interpreter: None, .. } | Image::Mach | Image::Unreadable => Ok(true),
            Image::Other => Ok(false),
        }
    }

    /// Adds an interpreter and gives its canonical name.
    fn interpreter(&mut self, name: &Path) -> Result<PathBuf, Fault> {
        match executable(self.search.workdir, name) {
            Ok(found) => {
                self.add(found.needed);
                Ok(found.file)
            }
            Err(trouble) if trouble.is_absence() => {
                Err(Fault::InterpreterMissing { word: self.search.word.to_owned(), interpreter: name.to_owned() })
            }
            Err(trouble) => Err(self.refused(format!("its interpreter '{}' {}", name.display(), trouble.predicate()))),
        }
    }

    /// Adds the program that env will look for. Whatever is wrong with it, env itself will say so.
    fn env(&mut self, argument: Option<&OsStr>) {
        let Some(budget) = self.env_budget.checked_sub(1) else { return };
        let Some(word) = argument.and_then(env_program) else { return };
        if let Ok(target) = resolve_within(&Search { word: &word, ..*self.search }, budget) {
            self.add(target.files);
        }
    }

    fn refused(&self, reason: String) -> Fault {
        Fault::NotExecutable { word: self.search.word.to_owned(), reason }
    }
}

/// Drops the directories that exist anyway because something needed lies below them.
fn without_implied(files: &[Needed], workdir: &Path) -> Vec<Needed> {
    let implied = |directory: &PathBuf| {
        workdir.starts_with(directory)
            || files.iter().any(|needed| match needed {
                Needed::Link { at, .. } => at.starts_with(directory),
                Needed::File(file) => file.starts_with(directory),
                Needed::Directory(_) => false,
            })
    };
    let superfluous = |needed: &&Needed| matches!(needed, Needed::Directory(directory) if implied(directory));
    files.iter().filter(|needed| !superfluous(needed)).cloned().collect()
}

#[cfg(test)]
mod tests;
