//! What the permissions of the host's files leave to whoever has no capabilities, as nobody has inside, not even root.
//!
//! Looks at files and changes nothing.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{AccessFlags, access};

/// Whether the permissions of the host's file at `path` let somebody do that who has no capabilities.
#[must_use]
pub fn permits(path: &Path, metadata: &Metadata, want: AccessFlags) -> bool {
    if access(path, want).is_err() {
        return false;
    }
    // What the kernel says of root counts its capabilities, which nobody has inside.
    if !nix::unistd::geteuid().is_root() {
        return true;
    }
    let bit = if want.contains(AccessFlags::W_OK) { 0o2 } else { 0o4 };
    has_bit(metadata, bit) && searchable(path)
}

/// Whether root without capabilities gets through all directories above `path`.
#[must_use]
pub fn searchable(path: &Path) -> bool {
    let above = path.ancestors().skip(1);
    above.filter_map(|above| std::fs::metadata(above).ok()).all(|directory| has_bit(&directory, 0o1))
}

/// Whether a permission bit is set in the class that root, or its groups, fall in.
fn has_bit(metadata: &Metadata, bit: u32) -> bool {
    let groups = crate::sys::process::groups().unwrap_or_default();
    let in_group = metadata.gid() == nix::unistd::getegid().as_raw()
        || groups.iter().any(|group| group.as_raw() == metadata.gid());
    let shift = match (metadata.uid() == nix::unistd::geteuid().as_raw(), in_group) {
        (true, _) => 6,
        (false, true) => 3,
        (false, false) => 0,
    };
    metadata.mode() >> shift & bit != 0
}

/// Why root may not do inside with what somebody else has at `path` what it may do outside; `None` where it may, and for others
/// than root, whose permissions are the same on both sides.
#[must_use]
pub fn refusal(path: &Path, read: bool, write: bool) -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return None;
    }
    let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
    above.reverse();
    // What is its own it has closed to itself, and could open.
    let closed = |path: &Path, bit: u32| {
        let found = std::fs::metadata(path).ok()?;
        (found.uid() != 0 && !has_bit(&found, bit)).then_some(found)
    };
    let wanted = [(read, 0o4), (write, 0o2)].into_iter().filter(|(wanted, _)| *wanted);
    let (place, found) = above
        .into_iter()
        .find_map(|above| Some((above, closed(above, 0o1)?)))
        .or_else(|| wanted.into_iter().find_map(|(_, bit)| Some((path, closed(path, bit)?))))?;
    Some(format!(
        "'{}' belongs to user {} (mode {:04o}), and root has no capabilities inside: run as that user, or change its permissions",
        place.display(),
        found.uid(),
        found.mode() & 0o7777
    ))
}
