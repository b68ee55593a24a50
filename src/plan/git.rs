//! git in the view: what git on the host would run or obey is write-protected, and a worktree or submodule has its data.
//!
//! A file that lies about may not widen the view: the data of a worktree is granted only where the repository itself, which
//! nobody inside can write, says that the worktree is its own. Reads the host's files, changes none.
//!
//! Terms: a *git directory* holds `HEAD`, `config` and `hooks`; `.git` is one, or a file that names one; the *common directory*
//! is the git directory that several worktrees share.

mod around;
pub mod bounds;
pub mod compare;
mod data;
pub mod family;
mod given;
pub mod harmless;
pub mod index;
pub mod kept;
mod named;
pub mod paths;
mod places;
pub mod refs;
pub mod rerere;
pub mod seen;
mod settings;
mod shut;
mod split;
pub mod strays;
pub mod whole;

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Absent;
use super::build::Builder;
use super::closed;
use super::heed;
use super::links::{Walk, walk};
use super::view::{FileKind, Rule};
use crate::error::{Error, Kind, Result};
pub(super) use data::data_of;
pub use data::is_sha256;
use data::{common_directory, is_linked, is_submodule, setting};
use family::{Look, Role};
pub use places::work_tree_of;
use shut::{known, unsure};

/// Files and directories of a git directory from which code is run: hooks, and settings that name programs.
///
/// The last two are the old form of `remote.*` in settings: what goes by the name of a remote, `origin` as well, goes there first.
const OBEYED: &[&str] = &["hooks", "config", "config.worktree", "info/attributes", COMMON, "remotes", "branches"];

/// In a git directory it comes before that: git looks for it first wherever it is.
const FIRST: &[&str] = &[".git"];

/// Sends git to another directory for its `config` and `hooks`. git makes it in the data of a linked worktree only.
///
/// Where one of them is missing nothing can be mounted, and a file that says `.` would have to be left on the host if we are killed.
const COMMON: &str = "commondir";

/// What comes before the path in a `.git` file.
const GITDIR: &str = "gitdir: ";

/// The same in the data of a linked worktree.
const OBEYED_IN_WORKTREE: &[&str] = &["commondir", "gitdir", "config.worktree"];

/// What a repository has: one of them is enough to know that a `.git` belongs to one.
const REPOSITORY: &[&str] = &["HEAD", "objects", "refs", "config"];

/// No longer file is read, and none is passed over for that.
const LONGEST: usize = 16 << 20;

impl Builder<'_> {
    /// What `.git`s and directories at `paths` need.
    pub(super) fn repositories(&mut self, paths: &[PathBuf]) -> Result<()> {
        for path in paths {
            heed()?;
            if path.file_name().is_some_and(|name| name == ".git") {
                self.dot_git(path)?;
                continue;
            }
            if !self.opens(path)? {
                continue;
            }
            if looks_like_git_directory(path) {
                self.named_by(&[path], path)?;
                self.git_directory(path)?;
            }
            // Whatever lies beside it.
            self.dot_git(&path.join(".git"))?;
        }
        Ok(())
    }

    fn dot_git(&mut self, path: &Path) -> Result<()> {
        let Some(place) = path.parent() else { return Ok(()) };
        if !self.view.shows(path) || !self.opens(place)? {
            return Ok(());
        }
        // Only what can be written matters, and the data of it.
        let metadata = match known(path) {
            Err(_) if !self.view.writable(path) => return Ok(()),
            metadata => metadata?,
        };
        let Some(metadata) = metadata else { return Ok(()) };
        if metadata.is_symlink() {
            return self.dot_git_link(path, place);
        }
        if metadata.is_dir() {
            self.around(path, place);
            self.top_of(path, place);
            self.named_by(&[path], place)?;
            return self.git_directory(path);
        }
        self.way_to(place);
        self.protect_from_git(path, FileKind::File);
        let Some(named) = self.named_in(path, GITDIR)? else { return Ok(()) };
        self.top_of(&named, place);
        let Some(common) = self.named_in(&named.join(COMMON), "")? else {
            self.named_by(&[&named], place)?;
            if is_submodule(&named, place) {
                self.grant_data(&named, place);
            }
            return self.git_directory(&named);
        };
        self.named_by(&[&common, &named], place)?;
        if is_linked(&named, &common, path) {
            self.grant_data(&common, place);
        } else if !self.view.shows(&common) {
            self.notes.push(format!(
                "'{}' names the repository '{}', which does not know this worktree and is not shown",
                path.display(),
                common.display()
            ));
        }
        self.git_directory(&common)
    }

    /// A link cannot be a mount point: whoever can write its directory gives the name to something else.
    fn dot_git_link(&mut self, path: &Path, place: &Path) -> Result<()> {
        let end = match walk(path).map(|found| found.end) {
            Err(error) if self.view.writable(place) && error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(unsure(path, &error, path));
            }
            Err(_) => return Ok(()),
            Ok(end) => end,
        };
        if self.view.writable(place) && !self.is_granted(&end) {
            let error = refuse(path, &end);
            return Err(if self.view.writable(&end) {
                error.hint(format!("--write '{}' accepts that", path.display()))
            } else {
                // A grant would let that be written, which a command may have aimed at.
                error.hint("a command may have made the link: remove it if it is none of yours")
            });
        }
        self.top_of(&end, place);
        self.named_by(&[&end], place)?;
        self.git_directory(&end)
    }

    /// Shows the data of a repository as far as its worktree at `place` can be used.
    fn grant_data(&mut self, data: &Path, place: &Path) {
        let known = self.view.shows(data) || self.view.hidden_by(data).is_some();
        if !known {
            let rule = if self.view.writable(place) { Rule::Write } else { Rule::Read };
            self.notes.push(format!(
                "'{}' is shown because the worktree '{}' is one of its own",
                data.display(),
                place.display()
            ));
            self.view.add(data, rule, FileKind::Directory);
        }
    }

    /// Protects what is obeyed in a git directory, in those of its submodules and in the data of its worktrees.
    fn git_directory(&mut self, directory: &Path) -> Result<()> {
        self.tell_of_common(directory);
        self.recognise(directory);
        let hooks = directory.join("hooks");
        if !self.view.writable(directory) {
            return self.named_place(&hooks, FileKind::Directory, directory);
        }
        if !self.is_new(directory) {
            return Ok(());
        }
        self.count(directory)?;
        if !self.opens(directory)? {
            return Ok(());
        }
        self.links_in(directory);
        self.see(directory);
        // Who works in a worktree does not come by the `.git` of the main one.
        if let Some(top) = work_tree_of(directory) {
            self.top_of(directory, &top);
            self.named_by(&[directory], &top)?;
        }
        self.obeyed(directory, OBEYED)?;
        self.hook_links(&hooks)?;
        // What is no repository yet may become one.
        if REPOSITORY.iter().any(|name| !is_missing(&directory.join(name))) {
            self.not_to_be_made(directory, OBEYED);
            self.not_to_be_made(directory, FIRST);
        }
        self.family(directory, directory, Role::Repository, Look::Protect)
    }

    /// Warns of a file that leads git away from a git directory of its own, as git never makes one.
    fn tell_of_common(&mut self, directory: &Path) {
        let file = directory.join(COMMON);
        // Where one cannot look, nothing is known to be there.
        if fs::symlink_metadata(&file).is_err() || !self.view.shows(directory) {
            return;
        }
        let elsewhere = common_directory(directory);
        let mut above = directory.ancestors().skip(1);
        let linked =
            above.next().is_some_and(|above| above.ends_with("worktrees")) && above.next() == elsewhere.as_deref();
        if linked || elsewhere.as_deref() == Some(directory) {
            return;
        }
        let place = elsewhere.map_or("a place that cannot be found".into(), |path| format!("'{}'", path.display()));
        let text = format!(
            "'{}' sends git to {place} for its settings and hooks, which git itself never sets up there: perhaps a command left \
             it behind in a run that was killed",
            file.display()
        );
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    /// Remembers which of `names` are missing in `directory`, which keeps its name: what is moved aside afterwards has to lie in
    /// it, and not where a link in its place leads.
    fn not_to_be_made(&mut self, directory: &Path, names: &[impl AsRef<Path>]) {
        self.keep_missing(directory, names, "git on the host");
    }

    /// The same for what somebody else, `obeyed_by`, would obey.
    pub(super) fn keep_missing(&mut self, directory: &Path, names: &[impl AsRef<Path>], obeyed_by: &'static str) {
        let names = names.iter().map(AsRef::as_ref);
        let missing: Vec<_> = names.filter(|name| is_missing(&directory.join(name))).collect();
        let Ok(metadata) = fs::symlink_metadata(directory) else { return };
        if missing.is_empty() || !metadata.is_dir() || !self.view.writable(directory) {
            return;
        }
        self.view.add(directory, Rule::Pin, FileKind::Directory);
        let mode = metadata.mode() & 0o7777;
        self.absent.extend(missing.into_iter().map(|name| Absent {
            directory: directory.to_owned(),
            name: name.into(),
            mode,
            links_only: false,
            obeyed_by,
        }));
    }

    fn obeyed(&mut self, directory: &Path, names: &[&str]) -> Result<()> {
        for name in names {
            let path = directory.join(name);
            let parent = path.parent().unwrap_or(directory);
            if !self.view.writable(parent) || !self.opens(parent)? {
                continue;
            }
            let mut way: Vec<_> = path.ancestors().take_while(|path| *path != directory).collect();
            way.reverse();
            // One that leads to nothing yet is no better.
            let link = way.into_iter().find(|path| fs::symlink_metadata(path).is_ok_and(|data| data.is_symlink()));
            if let Some(link) = link {
                if self.view.writable(directory) && !self.is_granted(directory) {
                    let end = walk(link).map(|found| found.end).or_else(|_| fs::read_link(link)).unwrap_or_default();
                    return Err(refuse(link, &end).hint(format!("--write '{}' accepts that", directory.display())));
                }
                continue;
            }
            let Some(metadata) = known(&path)? else { continue };
            self.protect_from_git(&path, FileKind::of(&metadata));
        }
        Ok(())
    }

    /// Whatever somebody has said about this very path stays.
    fn protect_from_git(&mut self, path: &Path, kind: FileKind) {
        if self.view.writable(path) && !self.is_granted(path) {
            self.view.add(path, Rule::Protect, kind);
        }
    }

    /// Whether a write grant names this very path.
    pub(super) fn is_granted(&self, path: &Path) -> bool {
        self.view.decides(path).is_some_and(|(at, rule)| at == path && *rule == Rule::Write)
    }
}

fn refuse(link: &Path, end: &Path) -> Error {
    Error::text(
        Kind::Policy,
        format!(
            "cannot protect what git runs: '{}' is a link to '{}' in a directory that can be written, so the name can be \
             given to something else",
            link.display(),
            end.display()
        ),
    )
}

fn is_missing(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// Whether git may take `path` for a git directory.
#[must_use]
pub fn is_git_directory(path: &Path) -> bool {
    ["HEAD", "objects", "refs"].iter().all(|name| !is_missing(&path.join(name)))
}

/// Whether `path` is a git directory or was one before somebody took a part of it away: `config` of one stays, since it is
/// protected.
fn looks_like_git_directory(path: &Path) -> bool {
    // git takes one for a repository that says neither.
    let settings = || match read(&path.join("config")) {
        Ok(text) => {
            text.is_some() && ["repositoryformatversion", "bare"].iter().any(|key| setting(path, "core", key).is_some())
        }
        Err(error) => is_too_long(&error),
    };
    let has = |name| !is_missing(&path.join(name));
    match ["objects", "refs", "HEAD", "hooks"].map(has) {
        [true, true, _, true] | [true, _, true, _] | [_, true, true, _] => true,
        _ => settings(),
    }
}

/// The way to the git directory that a `.git` file names.
#[must_use]
pub fn way_to_data(dot_git: &Path) -> Option<Walk> {
    way_in(dot_git, GITDIR).ok().flatten()
}

/// Why it cannot be said what a file names.
enum Unclear {
    /// It cannot be read.
    File(io::Error),
    /// This path, which it names, cannot be followed.
    Way(PathBuf),
}

/// The path in the first line of a small file, behind `prefix`, from the file's directory: without links.
fn path_in(file: &Path, prefix: &str) -> std::result::Result<Option<PathBuf>, Unclear> {
    way_in(file, prefix).map(|found| found.map(|found| found.end))
}

/// The same with the links on the way.
fn way_in(file: &Path, prefix: &str) -> std::result::Result<Option<Walk>, Unclear> {
    let text = match read(file) {
        // No path is as long.
        Err(error) if is_too_long(&error) => None,
        text => text.map_err(Unclear::File)?,
    };
    let Some(text) = text else { return Ok(None) };
    let Some(line) = text.strip_prefix(prefix.as_bytes()).and_then(|text| text.split(|byte| *byte == b'\n').next())
    else {
        return Ok(None);
    };
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (Some(directory), false) = (file.parent(), line.is_empty()) else { return Ok(None) };
    let way = directory.join(std::ffi::OsStr::from_bytes(line));
    match walk(&way) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(Unclear::Way(way)),
        // git cannot follow it either.
        Err(_) => Ok(None),
    }
}

/// A small regular file; `None` when it is none. One that is too long is an error.
fn read(file: &Path) -> io::Result<Option<Vec<u8>>> {
    if !closed::look(file)?.is_some_and(|data| data.is_file()) {
        return Ok(None);
    }
    let Some(opened) = closed::there(File::open(file))? else { return Ok(None) };
    // What its size is now says nothing of what can be read.
    let mut bytes = Vec::new();
    opened.take(LONGEST as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > LONGEST { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(Some(bytes)) }
}

fn is_too_long(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::FileTooLarge
}
