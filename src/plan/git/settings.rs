//! Reading settings as git does, as far as they name further places that git obeys.
//!
//! Reads files and changes none. What git would refuse as an error is passed over: what is read too much only protects more.

use std::ffi::OsStr;
use std::iter::Peekable;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::User;

use super::super::links::walk;
use super::{is_too_long, read};

/// How deep git follows files that include others.
const DEEPEST: usize = 10;

/// How many files are read at most: they may include each other.
const MOST: usize = 1000;

/// So many directories of hooks, of templates and work trees are looked at: git takes the last one that holds.
const MOST_NAMED: usize = 100;

/// One setting: names in lower case.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub section: String,
    /// What stands behind it in quotes.
    pub below: Vec<u8>,
    pub key: String,
    pub value: Vec<u8>,
}

/// What the settings of a repository name.
#[derive(Clone, Debug, Default)]
pub(super) struct Named {
    /// Directories of hooks, as they stand there, but for `~`.
    pub hooks: Vec<PathBuf>,
    /// Files of further settings: absolute, perhaps with links, perhaps missing.
    pub files: Vec<PathBuf>,
    /// What new repositories begin with, hooks among it.
    pub templates: Vec<PathBuf>,
    /// Work trees, as they stand there: from the git directory.
    pub worktrees: Vec<PathBuf>,
    /// The first file that is not looked at although git does that, and why.
    pub unread: Option<(PathBuf, &'static str)>,
    /// How many bytes may still be read.
    pub left: u64,
}

impl Named {
    /// What `file` names, and what the files that it includes name, whatever their conditions are.
    pub(super) fn add(&mut self, file: &Path, home: Option<&Path>, depth: usize) {
        // One reason to refuse is enough.
        let Some(found) = walk(file).ok().filter(|_| self.unread.is_none()) else { return };
        let text = match read(&found.end) {
            Ok(Some(text)) => text,
            Err(error) if is_too_long(&error) => return self.leave_out(&found.end, "it is larger than 16 MiB"),
            // git does not read it, either.
            Ok(None) | Err(_) => return,
        };
        let Some(left) = self.left.checked_sub(text.len() as u64) else {
            return self.leave_out(&found.end, "the settings of all repositories are larger than 64 MiB");
        };
        self.left = left;
        for setting in parse(&text) {
            // From where the file lies, which is not where a link to it lies.
            self.take(setting, found.end.parent(), home, depth);
        }
    }

    /// What one setting names, of a file in `directory`.
    pub(super) fn take(&mut self, setting: Setting, directory: Option<&Path>, home: Option<&Path>, depth: usize) {
        let Setting { section, below, key, value } = setting;
        match (section.as_str(), key.as_str()) {
            ("core", "hookspath") if below.is_empty() => self.name(|named| &mut named.hooks, in_home(&value, home)),
            ("init", "templatedir") if below.is_empty() => {
                self.name(|named| &mut named.templates, in_home(&value, home));
            }
            ("core", "worktree") if below.is_empty() && !value.is_empty() && !value.contains(&0) => {
                self.name(|named| &mut named.worktrees, Some(OsStr::from_bytes(&value).into()));
            }
            ("include" | "includeif", "path") => {
                let Some(file) = in_home(&value, home) else { return };
                let file = directory.map(|directory| directory.join(&file)).unwrap_or(file);
                // git reads no other.
                if depth >= DEEPEST || !file.is_absolute() || self.files.contains(&file) {
                    return;
                }
                if self.files.len() == MOST {
                    return self.leave_out(&file, "the settings include more than 1000 files");
                }
                self.files.push(file.clone());
                self.add(&file, home, depth + 1);
            }
            _ => {}
        }
    }

    /// Adds a place to one of the lists.
    fn name(&mut self, list: impl Fn(&mut Self) -> &mut Vec<PathBuf>, place: Option<PathBuf>) {
        let Some(place) = place.filter(|place| !list(self).contains(place)) else { return };
        if list(self).len() == MOST_NAMED {
            return self.leave_out(&place, "the settings name more than 100 places for the same");
        }
        list(self).push(place);
    }

    fn leave_out(&mut self, file: &Path, why: &'static str) {
        self.unread.get_or_insert_with(|| (file.to_owned(), why));
    }
}

/// A path with `~` as the home directory and `~NAME` as that of a user; `None` for none, and for what only git's installation knows.
fn in_home(value: &[u8], home: Option<&Path>) -> Option<PathBuf> {
    if value.is_empty() || value.contains(&0) || value.starts_with(b"%(prefix)/") {
        return None;
    }
    let Some(rest) = value.strip_prefix(b"~") else { return Some(OsStr::from_bytes(value).into()) };
    let (name, below) = match rest.iter().position(|byte| *byte == b'/') {
        Some(end) => (&rest[..end], Some(&rest[end + 1..])),
        None => (rest, None),
    };
    let home =
        if name.is_empty() { home?.to_owned() } else { User::from_name(std::str::from_utf8(name).ok()?).ok()??.dir };
    Some(below.map(|below| home.join(OsStr::from_bytes(below))).unwrap_or(home))
}

/// All settings of a file, in order.
pub(super) fn parse(text: &[u8]) -> Vec<Setting> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let ends = text.iter().skip(1).map(Some).chain([None]);
    // A line can end as on other systems.
    let text = text.iter().zip(ends).filter(|(byte, next)| **byte != b'\r' || *next != Some(&b'\n'));
    let mut text = text.map(|(byte, _)| *byte).peekable();
    let (mut section, mut below) = (String::new(), Vec::new());
    let mut settings = Vec::new();
    while let Some(byte) = text.next() {
        match byte {
            b'[' => (section, below) = heading(&mut text),
            _ if byte.is_ascii_alphabetic() => {
                let mut key = vec![byte];
                while let Some(byte) = text.next_if(|byte| byte.is_ascii_alphanumeric() || *byte == b'-') {
                    key.push(byte);
                }
                while text.next_if(|byte| matches!(byte, b' ' | b'\t')).is_some() {}
                let value = if text.next_if_eq(&b'=').is_some() { value(&mut text) } else { Vec::new() };
                settings.push(Setting { section: section.clone(), below: below.clone(), key: lower(&key), value });
            }
            _ if byte.is_ascii_whitespace() => {}
            _ => while text.next_if(|byte| *byte != b'\n').is_some() {},
        }
    }
    settings
}

fn lower(name: &[u8]) -> String {
    String::from_utf8_lossy(name).to_ascii_lowercase()
}

/// What stands between brackets: `section "below"`, or `section.below` as it once was written.
fn heading(text: &mut Peekable<impl Iterator<Item = u8>>) -> (String, Vec<u8>) {
    let (mut name, mut below, mut quoted) = (Vec::new(), Vec::new(), false);
    while let Some(byte) = text.next_if(|byte| *byte != b'\n') {
        match byte {
            b'"' => quoted = !quoted,
            b'\\' if quoted => below.extend(text.next()),
            _ if quoted => below.push(byte),
            b']' => break,
            b' ' | b'\t' => {}
            _ => name.push(byte),
        }
    }
    let name = lower(&name);
    match name.split_once('.') {
        Some((section, old)) if below.is_empty() => (section.to_owned(), old.as_bytes().to_vec()),
        _ => (name, below),
    }
}

/// What stands behind `=`.
fn value(text: &mut Peekable<impl Iterator<Item = u8>>) -> Vec<u8> {
    let (mut value, mut quoted, mut ends) = (Vec::new(), false, 0);
    while let Some(byte) = text.next() {
        match byte {
            b'\n' => break,
            b'"' => quoted = !quoted,
            b'#' | b';' if !quoted => {
                while text.next_if(|byte| *byte != b'\n').is_some() {}
                continue;
            }
            b'\\' => match text.next() {
                Some(b'\n') | None => continue,
                Some(b'n') => value.push(b'\n'),
                Some(b't') => value.push(b'\t'),
                Some(b'b') => value.push(8),
                Some(other) => value.push(other),
            },
            b' ' | b'\t' if !quoted => {
                // Counts when something follows, and not in front.
                if !value.is_empty() || ends > 0 {
                    value.push(byte);
                }
                continue;
            }
            _ => value.push(byte),
        }
        ends = value.len();
    }
    value.truncate(ends);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn parsed(text: &str, expected: &[(&str, &str, &str, &str)]) {
        let settings: Vec<_> = parse(text.as_bytes())
            .into_iter()
            .map(|Setting { section, below, key, value }| {
                [section.into_bytes(), below, key.into_bytes(), value].map(|part| String::from_utf8(part).unwrap())
            })
            .collect();
        let expected: Vec<_> = expected.iter().map(|(a, b, c, d)| [*a, *b, *c, *d].map(str::to_owned)).collect();
        assert_eq!(settings, expected, "{text:?}");
    }

    #[test]
    fn settings_as_git_reads_them() {
        parsed("[core]\n\thooksPath = .husky/_\n", &[("core", "", "hookspath", ".husky/_")]);
        parsed("[CORE]hooksPath=a b \t# c\n", &[("core", "", "hookspath", "a b")]);
        parsed("[core]\r\n\thooksPath = a\r\n", &[("core", "", "hookspath", "a")]);
        parsed("\u{feff}[core] bare\nx=\"a # b\" c ;d", &[("core", "", "bare", ""), ("core", "", "x", "a # b c")]);
        parsed("[a]x=\\\"\\\\\\t\\n\\\n  b\ny=\" \"\n", &[("a", "", "x", "\"\\\t\n  b"), ("a", "", "y", " ")]);
        parsed("[includeIf \"gitdir:~/A\\\"]\"] path = p", &[("includeif", "gitdir:~/A\"]", "path", "p")]);
        parsed("[branch.Main]x=1\n# [b]\n;x\n!y\n-z", &[("branch", "main", "x", "1")]);
        parsed("[a\nx=1\n[b] # c\n ; [d]\ny=2\n", &[("a", "", "x", "1"), ("b", "", "y", "2")]);
        parsed("", &[]);
    }

    #[test]
    fn only_paths_that_lead_somewhere() {
        let home = Some(Path::new("/h"));
        for (value, expected) in [
            ("", None),
            ("%(prefix)/x", None),
            ("~nobody-of-that-name/x", None),
            ("~root", Some("/root")),
            ("~root/x/y", Some("/root/x/y")),
            ("a\0b", None),
            ("~", Some("/h")),
            ("~/x", Some("/h/x")),
            ("x/y", Some("x/y")),
            ("/x", Some("/x")),
        ] {
            assert_eq!(in_home(value.as_bytes(), home), expected.map(PathBuf::from), "{value}");
        }
        assert_eq!(in_home(b"~/x", None), None);
    }
}
