//! Paths that git itself never takes into a work tree, since they lead out of it or into a git directory.
//!
//! As git's `verify_path` has it, on every system at once: what one file system takes for `.git` is refused on all. Looks at no file.

/// Whether git refuses `path` when it does not read it from a file of its own. `directory`: one may end in a slash.
pub fn is_refused(path: &[u8], directory: bool) -> bool {
    let path = if directory { path.strip_suffix(b"/").unwrap_or(path) } else { path };
    path.split(|byte| *byte == b'/').any(is_refused_part)
}

fn is_refused_part(part: &[u8]) -> bool {
    match part {
        b"" | b"." | b".." => true,
        // With the first byte of what a file system may pass over.
        [b'.' | b'g' | b'G' | 0xe2 | 0xef, ..] => is_git_to_ntfs(part) || is_git_to_hfs(part),
        _ => part.contains(&0),
    }
}

/// With a short name, and with trailing dots, blanks and streams that do not count.
fn is_git_to_ntfs(part: &[u8]) -> bool {
    let names: [&[u8]; 2] = [b".git", b"git~1"];
    let rest = names
        .iter()
        .find_map(|name| part.split_at_checked(name.len()).filter(|(head, _)| head.eq_ignore_ascii_case(name)));
    let Some((_, rest)) = rest else { return false };
    let rest = rest.iter().find(|byte| !matches!(byte, b'.' | b' '));
    matches!(rest, None | Some(b'\\' | b':'))
}

/// With characters that are not seen and do not count.
fn is_git_to_hfs(part: &[u8]) -> bool {
    let Ok(part) = std::str::from_utf8(part) else { return false };
    let ignored = |char: &char| matches!(char, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    part.chars().filter(|char| !ignored(char)).map(|char| char.to_ascii_lowercase()).eq(".git".chars())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_refuses_is_refused() {
        for path in [
            "",
            "/",
            "/etc/passwd",
            "a/",
            "a//b",
            ".",
            "..",
            "a/./b",
            "a/../b",
            "../x",
            ".git",
            ".git/config",
            "a/.GIT/x",
            ".git./x",
            ".git . ",
            ".git::$INDEX_ALLOCATION/x",
            ".git\\x",
            "git~1",
            "GIT~1/config",
            "a/git~1.",
            ".g\u{200c}it/x",
            "\u{feff}.GiT",
            "\u{200d}.git",
            "a\0b",
        ] {
            assert!(is_refused(path.as_bytes(), false), "{path:?}");
        }
        assert!(is_refused(b"a//", true));
        for path in [
            "a",
            "a/b.c",
            "...",
            "..a",
            ".gitignore",
            ".gitmodules",
            ".github/x",
            "git",
            "git~2",
            "git~10",
            "g/it~1",
            "a.git",
            ".git-x",
            ".g\u{e9}it",
            "\u{200c}git",
            "\\",
            "a\\.git",
        ] {
            assert!(!is_refused(path.as_bytes(), false), "{path:?}");
        }
        assert!(!is_refused(b"a/", true));
        assert!(!is_refused(b"a/\xff", false));
    }
}
