//! Symbolic refs: git on the host writes where one leads, and its log beside that, also out of `refs`, and looks at no name on the way.
//!
//! Reads files, changes none.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What `HEAD` says where refs are in tables (gitformat-reftable in git's documentation): it leads nowhere.
const IN_TABLES: &[u8] = b"refs/heads/.invalid";

/// No longer one leads anywhere: a path ends before.
const LONGEST: u64 = 8192;

/// Whether a name in a git directory, or in the data of a worktree, is one that git reads as a ref: `HEAD`, `ORIG_HEAD`.
#[must_use]
pub fn is_pseudo(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_')
}

/// Where a symbolic ref of this text leads, if that is no ref.
#[must_use]
pub fn leads_out(text: &[u8]) -> Option<&[u8]> {
    let target = text.strip_prefix(b"ref:")?.trim_ascii();
    let part = |part: &[u8]| !part.is_empty() && !part.starts_with(b".") && !part.iter().any(u8::is_ascii_control);
    let plain = target.starts_with(b"refs/") && target.split(|byte| *byte == b'/').all(part);
    (!plain && target != IN_TABLES && !is_pseudo(target)).then_some(target)
}

/// The same of a file.
#[must_use]
pub fn file_leads_out(path: &Path) -> Option<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).ok()?;
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text).ok()?;
    leads_out(&text).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refs_are_led_to() {
        for text in [
            "",
            "0123",
            "ref: refs/heads/main\n",
            "ref:refs/x/\u{e4}.b\r\n",
            "ref: HEAD",
            "ref:\tORIG_HEAD ",
            "ref: refs/heads/.invalid\n",
        ] {
            assert_eq!(leads_out(text.as_bytes()), None, "{text:?}");
        }
        for target in [
            "../config",
            "../../x",
            "/etc/x",
            "config",
            "hooks/x",
            "refs/../config",
            "refs/heads/../../x",
            "refs//x",
            "refs/./x",
            "refs/heads/.invalid/x",
            "refs/..\0/x",
            "refs/x\ny",
            "REFS/x",
            "",
        ] {
            assert_eq!(leads_out(format!("ref: {target}\n").as_bytes()), Some(target.as_bytes()), "{target:?}");
        }
    }
}
