//! Which hidden names git tracks: what its index says about them, and whether a file is what git has under that name.
//!
//! A file whose content git has is no secret from whoever sees the repository. The index alone proves nothing: a command in a
//! write grant can put any name into it, so a name counts only while the file's content has the hash that the index gives, which
//! nobody knows who cannot read the file or git's copy of it. Reads regular files, as far as bounds allow, and follows no link.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use sha1::{Digest, Sha1};
use sha2::Sha256;

use super::git;
use super::git::index::{self, Hash, malformed};

/// With more names below a dot an index is made up, or of no project of people.
const MOST_NAMES: usize = 200_000;

/// So many bytes of files are compared at once, tenths of a second; what is left counts as changed.
pub(super) const MOST_BYTES: u64 = 64 << 20;

/// So many bytes of indexes are read for one start, with names written out that version 4 cuts short: a tenth of a second.
const MOST_INDEX: u64 = 256 << 20;

/// Longer than the kernel lets a name be.
const LONGEST_PART: usize = 255;

/// What lies deeper is no file of a project.
const DEEPEST: usize = 64;

/// What a look at one directory on the way to a file counts for, as bytes that are compared.
const LOOK: u64 = 512;

/// Regular files of a work tree that have a part of their path with a dot in front, from its top.
#[derive(Debug, Default)]
pub struct Tracked {
    /// By bytes: to compare paths by their parts takes a hundred times as long.
    names: BTreeMap<OsString, Stamp>,
}

/// What the index says of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    /// As there.
    size: u32,
    hash: Hash,
    /// A submodule: a directory, which no content shows.
    submodule: bool,
}

/// What a file is to the index that has its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The content that git has.
    Same,
    /// Another, or a submodule.
    Changed,
    /// Neither regular file nor directory, or none at all.
    Gone,
}

/// How much may still be read for this start, in bytes: a command can make indexes and files.
#[derive(Debug)]
pub struct Budget {
    files: u64,
    indexes: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { files: MOST_BYTES, indexes: MOST_INDEX }
    }
}

impl Budget {
    /// Whether the file with this name may still be looked at.
    pub fn look(&mut self, name: &Path) -> bool {
        let cost = name.components().map(|_| LOOK).sum();
        let left = self.files.checked_sub(cost);
        self.files = left.unwrap_or(0);
        left.is_some()
    }
}

impl Tracked {
    /// Reads the index of the work tree whose `.git` is `dot_git`; a repository without one tracks nothing.
    pub fn read(dot_git: &Path, budget: &mut Budget) -> Result<Self, String> {
        let Some(data) = git::data_of(dot_git) else { return Err("it is not the repository's own".into()) };
        let file = match open(&data.directory.join("index")) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(crate::sys::process::describe(&error)),
        };
        if file.metadata().is_ok_and(|data| data.len() > index::LONGEST) {
            return Err(format!("it is longer than {} MiB", index::LONGEST >> 20));
        }
        let source = BufReader::with_capacity(256 << 10, file.take(index::LONGEST));
        parse(source, git::is_sha256(&data.common), budget).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => {
                format!("its names, or those of all repositories, are longer than {} MiB", MOST_INDEX >> 20)
            }
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
                "it is malformed, or of an unknown version".into()
            }
            _ => crate::sys::process::describe(&error),
        })
    }

    /// Names at `path`, from the top, and below it.
    pub fn below<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a Path> {
        let mut directory = path.as_os_str().to_owned();
        directory.push("/");
        let own = self.names.get_key_value(path.as_os_str());
        let inner = self.names.range(directory.clone()..);
        let inner =
            inner.take_while(move |(name, _)| name.as_encoded_bytes().starts_with(directory.as_encoded_bytes()));
        own.into_iter().chain(inner).map(|(name, _)| Path::new(name))
    }

    /// What the file with one of these names is below `top`.
    pub fn state(&self, top: &Path, name: &Path, budget: &mut Budget) -> State {
        let Some(stamp) = self.names.get(name.as_os_str()) else { return State::Gone };
        // A link on the way leads to another file.
        let directories = name.ancestors().skip(1).filter(|part| !part.as_os_str().is_empty());
        let is_directory = |part: &Path| fs::symlink_metadata(top.join(part)).is_ok_and(|data| data.is_dir());
        if !directories.into_iter().all(is_directory) {
            return State::Gone;
        }
        let path = top.join(name);
        match fs::symlink_metadata(&path) {
            Ok(data) if data.is_dir() && stamp.submodule => return State::Changed,
            Ok(data) if data.is_file() && !stamp.submodule => {}
            _ => return State::Gone,
        }
        // What cannot be read cannot be compared.
        if stamp.matches(&path, budget).unwrap_or(false) { State::Same } else { State::Changed }
    }
}

impl Stamp {
    fn matches(&self, path: &Path, budget: &mut Budget) -> io::Result<bool> {
        let size = open(path)?.metadata()?.len();
        #[allow(clippy::cast_possible_truncation, reason = "the index has the lower half")]
        let other_size = self.size != 0 && self.size != size as u32;
        if other_size { Ok(false) } else { has_content(path, &self.hash, &mut budget.files) }
    }
}

/// Whether a regular file has the content that this is the hash of; none that is longer than what is `left` to be read.
pub(super) fn has_content(path: &Path, hash: &Hash, left: &mut u64) -> io::Result<bool> {
    let mut file = open(path)?;
    let length = file.metadata()?.len();
    let Some(rest) = left.checked_sub(length) else { return Ok(false) };
    *left = rest;
    let head = format!("blob {length}\0");
    // A file that grows meanwhile is not read for ever.
    let content = file.by_ref().take(length + 1);
    Ok(match hash {
        Hash::Sha1(hash) => digest::<Sha1>(&head, content)? == hash[..],
        Hash::Sha256(hash) => digest::<Sha256>(&head, content)? == hash[..],
    })
}

/// The hash of `head` and all of `content`.
fn digest<D: Digest>(head: &str, mut content: impl Read) -> io::Result<Vec<u8>> {
    let mut sum = D::new_with_prefix(head);
    let mut buffer = [0; 16 << 10];
    loop {
        match content.read(&mut buffer)? {
            0 => return Ok(sum.finalize().to_vec()),
            count => sum.update(&buffer[..count]),
        }
    }
}

/// Opens a regular file by its own name, without waiting for whoever is at the other end of anything else.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(malformed()) }
}

/// Keeps entries of regular files below a dot.
fn parse(from: impl BufRead, sha256: bool, budget: &mut Budget) -> io::Result<Tracked> {
    let mut tracked = Tracked::default();
    index::entries(from, sha256, |entry| {
        if entry.name.is_empty() {
            return Err(malformed());
        }
        budget.indexes = budget.indexes.checked_sub(entry.length as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        let kind = entry.mode & 0o17_0000;
        let submodule = kind == 0o16_0000;
        if (kind == 0o10_0000 || submodule) && has_dot(entry.name) {
            let parts = || entry.name.split(|byte| *byte == b'/');
            if parts().any(|part| matches!(part, b"" | b"." | b"..")) || tracked.names.len() == MOST_NAMES {
                return Err(malformed());
            }
            // There is no such file.
            if parts().any(|part| part.len() > LONGEST_PART) || parts().nth(DEEPEST).is_some() {
                return Ok(());
            }
            let stamp = Stamp { size: entry.size, hash: entry.hash.clone(), submodule };
            tracked.names.insert(OsString::from_vec(entry.name.to_owned()), stamp);
        }
        Ok(())
    })?;
    Ok(tracked)
}

fn has_dot(name: &[u8]) -> bool {
    name.first() == Some(&b'.') || name.windows(2).any(|pair| pair == b"/.")
}

#[cfg(test)]
mod tests;
