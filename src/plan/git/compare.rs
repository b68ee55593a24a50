//! What is wrong with an index after a run: names that git would never take into one, and entries that are new where something is kept.
//!
//! Reads the host's files, changes none.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::super::links::unfollowed;
use super::super::tracked::{MOST_BYTES, has_content};
use super::super::view::View;
use super::index::{DIRECTORY, FILE, Hash, PROGRAM};
use super::kept::{Entries, Kept};
use super::paths::is_refused;
use super::split;

/// What an index is compared with.
pub struct Comparison<'a> {
    /// From the top of each work tree that git may use with it.
    pub kept: Vec<Kept>,
    /// Entries that were there before.
    pub before: &'a Entries,
    /// Whether names are those of SHA-256.
    pub sha256: bool,
    /// Where indexes lie that another one can be based on.
    pub bases: &'a Path,
    /// What can be written.
    pub rules: &'a View,
}

/// What is wrong with an index.
#[derive(Debug, Default)]
pub struct Wrong {
    /// The first name that git would refuse, or that is not to be there.
    pub refused: Option<Vec<u8>>,
    /// Hidden files that are empty in it, as the command saw them.
    pub emptied: BTreeSet<PathBuf>,
}

impl Comparison<'_> {
    /// What is wrong with an index; that it is none is an error.
    pub fn wrong(&self, file: &File) -> io::Result<Wrong> {
        let (mut wrong, mut left) = (Wrong::default(), MOST_BYTES);
        split::each(file, self.sha256, self.bases, &mut |name, mode, hash| {
            if wrong.refused.is_some() {
                return;
            }
            if is_refused(name, mode == DIRECTORY) {
                wrong.refused = Some(name.to_owned());
            }
            for kept in self.kept.iter().filter(|kept| kept.refuses(name, mode, hash, self.before)) {
                if is_there(kept, name, mode, hash, self.rules, &mut left) {
                    continue;
                }
                // So `git add` finds what is hidden.
                if kept.hidden.contains(name) && mode == FILE && hash.is_of_nothing() {
                    wrong.emptied.insert(kept.place(name));
                } else {
                    wrong.refused = Some(name.to_owned());
                }
            }
        })?;
        Ok(wrong)
    }
}

/// Whether an entry is just what lies in its place, where the command cannot write: git has nothing to change there. No more than
/// `left` bytes are read.
fn is_there(kept: &Kept, name: &[u8], mode: u32, hash: &Hash, rules: &View, left: &mut u64) -> bool {
    let place = kept.place(name);
    let executable = match mode {
        FILE => false,
        PROGRAM => true,
        _ => return false,
    };
    let same = |data: fs::Metadata| data.is_file() && (data.mode() & 0o100 != 0) == executable;
    !rules.writable(&place) && unfollowed(&place).is_ok_and(same) && has_content(&place, hash, left).unwrap_or(false)
}
