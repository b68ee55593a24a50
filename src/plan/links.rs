//! Following a path the way the kernel does, one component at a time, and keeping what was met.
//!
//! The result names no link any more, so that nothing planted later can redirect what was resolved once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use crate::sys::process::describe;

/// The kernel's own limit on the number of links, `MAXSYMLINKS`.
const MAX_LINKS: usize = 40;

thread_local! {
    /// What was met at each place, while somebody remembers.
    static MET: RefCell<Option<HashMap<PathBuf, Met>>> = const { RefCell::new(None) };
}

/// What is at a place.
#[derive(Clone, Debug)]
struct Met {
    metadata: Rc<fs::Metadata>,
    /// What it says, if it is a link.
    text: Option<Rc<Path>>,
}

/// While this lives, walks of this thread look at each place that is there only once.
///
/// For a stretch in which nothing is made and whatever others change meanwhile is noticed later, by device and inode.
#[derive(Debug)]
pub struct Memory(());

impl Memory {
    /// Begins with nothing remembered.
    #[must_use]
    pub fn begin() -> Self {
        MET.set(Some(HashMap::new()));
        Self(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        MET.set(None);
    }
}

/// What is at `place`, the last name not followed.
fn meet(place: &Path) -> io::Result<Met> {
    if let Some(met) = MET.with_borrow(|all| all.as_ref()?.get(place).cloned()) {
        return Ok(met);
    }
    let metadata = fs::symlink_metadata(place)?;
    let text = metadata.is_symlink().then(|| fs::read_link(place)).transpose()?;
    let met = Met { metadata: metadata.into(), text: text.map(|text| text.as_path().into()) };
    MET.with_borrow_mut(|all| all.as_mut().map(|all| all.insert(place.to_owned(), met.clone())));
    Ok(met)
}

/// A symbolic link on the way to a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// Where it is; its parent holds no link.
    pub at: PathBuf,
    /// What it says.
    pub text: PathBuf,
}

/// Where a path leads.
#[derive(Clone, Debug)]
pub struct Walk {
    /// The links met, in order.
    pub links: Vec<Link>,
    /// The end: absolute, without links, `.` and `..`.
    pub end: PathBuf,
    /// Metadata of the end.
    pub metadata: fs::Metadata,
}

/// Follows the absolute `path` to an existing file or directory.
pub fn walk(path: &Path) -> io::Result<Walk> {
    walk_from(Path::new("/"), path)
}

/// Follows `path` from `start`, which is absolute and without links.
pub fn walk_from(start: &Path, path: &Path) -> io::Result<Walk> {
    let mut todo: Vec<OsString> = reversed(path);
    let mut end = start.to_owned();
    // Not looked at until it is needed: the kernel says itself when it is no directory.
    let mut metadata = None;
    let mut links = Vec::new();
    while let Some(name) = todo.pop() {
        if name == ".." || name == "." {
            if metadata.as_ref().is_some_and(|found: &Rc<fs::Metadata>| !found.is_dir()) {
                return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
            }
            if name == ".." {
                end.pop();
                metadata = None;
            }
            continue;
        }
        end.push(&name);
        let met = meet(&end)?;
        let Some(text) = met.text else {
            metadata = Some(met.metadata);
            continue;
        };
        if links.len() == MAX_LINKS {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        let text = text.to_path_buf();
        todo.extend(reversed(&text));
        let at = end.clone();
        if text.is_absolute() {
            end = PathBuf::from("/");
        } else {
            end.pop();
        }
        metadata = None;
        links.push(Link { at, text });
    }
    let metadata = metadata.map_or_else(|| meet(&end).map(|met| met.metadata), Ok)?;
    Ok(Walk { links, end, metadata: Rc::unwrap_or_clone(metadata) })
}

/// What is at `path`, which names no link: an error where one has come on the way since.
#[cfg(target_os = "linux")]
pub fn unfollowed(path: &Path) -> io::Result<fs::Metadata> {
    fs::File::from(crate::sys::beneath::open_absolute(path)?).metadata()
}

/// What is at `path`, which names no link.
#[cfg(not(target_os = "linux"))]
pub fn unfollowed(path: &Path) -> io::Result<fs::Metadata> {
    fs::symlink_metadata(path)
}

/// The deepest directory above `path`, which does not exist, and what is missing below it.
///
/// What is missing has no `.`, and no `..`: whoever writes `missing/../x` may mean `x`, and the system finds nothing by that name.
pub fn beyond(path: &Path) -> Result<(Walk, PathBuf), &'static str> {
    let nothing = "no such file or directory";
    let (above, found) = path.ancestors().skip(1).find_map(|above| Some((above, walk(above).ok()?))).ok_or(nothing)?;
    let rest = path.strip_prefix(above).map_err(|_| nothing)?;
    if !found.metadata.is_dir() {
        return Err("not a directory");
    }
    if rest.components().any(|part| part == Component::ParentDir) {
        return Err("'..' below a directory that does not exist");
    }
    let names = rest.components().filter(|part| matches!(part, Component::Normal(_)));
    Ok((found, names.collect()))
}

/// Whether the system takes `path` only for a directory, by the slash at its end.
#[must_use]
pub fn asks_for_directory(path: &Path) -> bool {
    matches!(path.as_os_str().as_encoded_bytes(), [.., b'/'] | [.., b'/', b'.'])
}

/// The link on the way of `path` that leads nowhere, in words: what a person has to look at when nothing is found.
#[must_use]
pub fn dangling(path: &Path) -> Option<String> {
    let (link, text) = path.ancestors().find_map(|at| Some((at, fs::read_link(at).ok()?)))?;
    let nowhere = fs::metadata(link).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    nowhere.then(|| format!("'{}' is a link to '{}'", link.display(), text.display()))
}

/// What the system said about `path`, with the link in it that is the reason.
#[must_use]
pub fn reason(path: &Path, error: &io::Error) -> String {
    let link = if error.kind() == io::ErrorKind::NotFound { dangling(path) } else { None };
    let link = link.map(|link| format!(" ({link})")).unwrap_or_default();
    format!("{}{link}", describe(error))
}

/// The names of `path` with the first one last; the root and `.` are left out, but for a `.` that stands for a slash at the end.
fn reversed(path: &Path) -> Vec<OsString> {
    let mut names: Vec<OsString> = path
        .components()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
        .map(|part| part.as_os_str().to_owned())
        .collect();
    if asks_for_directory(path) {
        names.push(".".into());
    }
    names.reverse();
    names
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    #[test]
    fn follows_as_the_kernel_does() {
        let top = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(top.path()).unwrap();
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/b/f"), "").unwrap();
        symlink("a", top.join("l")).unwrap();
        symlink(top.join("l/b"), top.join("m")).unwrap();
        symlink("loop", top.join("loop")).unwrap();
        symlink("nowhere", top.join("dangling")).unwrap();
        symlink("a/b/f/", top.join("slashed")).unwrap();
        for path in
            ["a/b/f", "l/b/f", "m/f", "m/../b/f", "l/./b//f", "l/b/..", "a/", "l/", "l/.", "m//", "./m/./", "a/b/../"]
        {
            let walked = walk(&top.join(path)).unwrap();
            assert_eq!(walked.end, fs::canonicalize(top.join(path)).unwrap(), "{path}");
            let found = (unfollowed(&walked.end).unwrap(), fs::symlink_metadata(&walked.end).unwrap());
            assert_eq!((found.0.dev(), found.0.ino()), (found.1.dev(), found.1.ino()), "{path}");
        }
        if cfg!(target_os = "linux") {
            for (path, errno) in [("l/b", libc::ELOOP), ("l", libc::ELOOP), ("a/c", libc::ENOENT)] {
                assert_eq!(unfollowed(&top.join(path)).unwrap_err().raw_os_error(), Some(errno), "{path}");
            }
        }
        let links = walk(&top.join("m/f")).unwrap().links;
        assert_eq!(links.len(), 2);
        assert_eq!(links[1], Link { at: top.join("l"), text: "a".into() });
        for (path, errno) in [
            ("loop", libc::ELOOP),
            ("dangling", libc::ENOENT),
            ("dangling/", libc::ENOENT),
            ("a/b/f/x", libc::ENOTDIR),
            ("a/b/f/..", libc::ENOTDIR),
            ("a/b/f/", libc::ENOTDIR),
            ("m/f//", libc::ENOTDIR),
            ("m/f/.", libc::ENOTDIR),
            ("slashed", libc::ENOTDIR),
        ] {
            assert_eq!(walk(&top.join(path)).unwrap_err().raw_os_error(), Some(errno), "{path}");
            assert_eq!(fs::canonicalize(top.join(path)).unwrap_err().raw_os_error(), Some(errno), "{path}");
        }
    }
}
