//! What a directory surely does not have, from one look at all of its names where many are asked for.
//!
//! Only says no: what it does not rule out has to be looked for by its own name.

use std::ffi::OsString;
use std::fs::{self, FileType};
use std::path::Path;

/// With more names than this, single looks are cheaper.
const MOST: usize = 2000;

/// The names in some directories.
#[derive(Debug)]
pub(super) struct Listings(Vec<(&'static str, Vec<Vec<u8>>)>);

impl Listings {
    /// Of these directories below `top`, each ending with a slash; of `top` itself with "".
    pub fn of(top: &Path, directories: &[&'static str]) -> Self {
        Self(directories.iter().filter_map(|below| Some((*below, list(&top.join(below))?))).collect())
    }

    /// Whether there surely is no `name`, in ASCII, below the top.
    pub fn lack(&self, name: &str) -> bool {
        self.0.iter().any(|(below, names)| {
            let part = name.strip_prefix(below).and_then(|rest| rest.split('/').next());
            part.is_some_and(|part| {
                let small = || part.bytes().map(|byte| byte.to_ascii_lowercase());
                names.binary_search_by(|name| name.iter().copied().cmp(small())).is_err()
            })
        })
    }
}

/// All names in small letters and in order, `None` where they do not tell which names can be opened: a file system may ignore case,
/// and then letters outside ASCII stand for some within; one that is not known may have more than it lists.
fn list(directory: &Path) -> Option<Vec<Vec<u8>>> {
    if !lists_all(directory) {
        return None;
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).ok()? {
        let mut name = entry.ok()?.file_name().into_encoded_bytes();
        if !name.is_ascii() || names.len() == MOST {
            return None;
        }
        name.make_ascii_lowercase();
        names.push(name);
    }
    names.sort_unstable();
    Some(names)
}

/// Directories of earlier states that file systems of servers answer by name in each directory, or at their top, and leave out of lists:
/// Ceph, filers over NFS, ZFS.
const UNLISTED: &[&str] = &[".snap", ".snapshot", ".zfs"];

/// What `directory` has beside what it lists.
pub(super) fn unlisted(directory: &Path) -> Vec<(OsString, FileType)> {
    if lists_all(directory) {
        return Vec::new();
    }
    let there =
        |name: &&str| Some((OsString::from(name), fs::symlink_metadata(directory.join(name)).ok()?.file_type()));
    UNLISTED.iter().filter_map(there).collect()
}

/// Whether `directory` is on a file system that is known to list all of its names.
#[cfg(target_os = "linux")]
fn lists_all(directory: &Path) -> bool {
    use nix::sys::statfs::{BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, FsType, OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC, statfs};
    // xfs: the libraries do not all have its name.
    const XFS: FsType = FsType(0x5846_5342);
    let known = [BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC, XFS];
    statfs(directory).is_ok_and(|found| known.contains(&found.filesystem_type()))
}

/// The same; none is known here.
#[cfg(not(target_os = "linux"))]
fn lists_all(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_is_there_is_never_ruled_out() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir_all(top.path().join(".config/gh")).unwrap();
        fs::create_dir_all(top.path().join(".SSH")).unwrap();
        let listings = Listings::of(top.path(), &["", ".config/", ".missing/"]);
        for there in [".config", ".config/gh", ".config/gh/hosts.yml", ".ssh", ".ssh/id", ".Ssh"] {
            assert!(!listings.lack(there), "{there}");
        }
        // The control, where a directory of a known kind is at hand.
        if lists_all(top.path()) {
            for missing in [".aws", ".aws/credentials", ".config/hub", ".config/hub/x", ".missing/x"] {
                assert!(listings.lack(missing), "{missing}");
            }
        }
        // The Kelvin sign is a k where case does not count.
        fs::create_dir(top.path().join(".\u{212a}ube")).unwrap();
        let listings = Listings::of(top.path(), &[""]);
        assert!(!listings.lack(".kube") && !listings.lack(".aws"));
        assert!(!Listings::of(Path::new("/proc"), &[""]).lack("none"));
    }

    #[test]
    fn a_directory_that_cannot_be_listed_rules_nothing_out() {
        let top = tempfile::tempdir().unwrap();
        assert!(!Listings::of(&top.path().join("missing"), &[""]).lack(".ssh"));
        if !nix::unistd::geteuid().is_root() {
            fs::set_permissions(top.path(), fs::Permissions::from_mode(0o300)).unwrap();
            assert!(!Listings::of(top.path(), &[""]).lack(".ssh"));
        }
    }
}
