//! Profiles: policy files that are asked for by name, built in or the user's.
//!
//! Reads the files of the names it is given and what these extend, nothing else. A built-in name means the same on every
//! machine: no file replaces it. The caller's environment decides nothing but where the sockets of two built-in profiles
//! lie, see `surroundings`.

mod surroundings;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};

use super::document::Document;
use super::file::{self, Format, MAX_SIZE, Position};
use crate::log;
use crate::plan::links::{dangling, reason};
use crate::policy::Origin;

/// The built-in profiles by name, each with its text.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("build", include_str!("profiles/build.toml")),
    ("default", include_str!("profiles/default.toml")),
    ("display", include_str!("profiles/display.toml")),
    ("git", include_str!("profiles/git.toml")),
    ("go", include_str!("profiles/go.toml")),
    ("gpu", include_str!("profiles/gpu.toml")),
    ("host-read", include_str!("profiles/host-read.toml")),
    ("jvm", include_str!("profiles/jvm.toml")),
    ("node", include_str!("profiles/node.toml")),
    ("python", include_str!("profiles/python.toml")),
    ("rust", include_str!("profiles/rust.toml")),
    ("ssh-agent", include_str!("profiles/ssh-agent.toml")),
    ("strict", include_str!("profiles/strict.toml")),
];

/// The word that asks for the list instead of a profile.
pub const HELP: &str = "help";

/// How many profiles may extend one another in a row.
const DEPTH_MAX: usize = 32;

/// The longest description that a list has room for.
const ABOUT_MAX: usize = 160;

/// Every profile that can be asked for, with one line about it: the built-in ones, then the user's, as their files have it.
#[must_use]
pub fn list(user_dir: Option<&Path>) -> Vec<(String, String)> {
    let mut all: Vec<_> = BUILT_IN.iter().map(|(name, text)| ((*name).to_owned(), about(text))).collect();
    for name in users(user_dir) {
        let path = user_dir.map(|dir| path_of(dir, &name)).unwrap_or_default();
        let about = match read(&path) {
            _ if built_in(&name).is_some() => {
                format!("cannot be used, the name is that of a built-in profile: {}", path.display())
            }
            _ if name == HELP => format!("cannot be used, the name asks for this list: {}", path.display()),
            Err(error) => format!("cannot be read: {}", reason(&path, &error)),
            Ok(bytes) => match about(&String::from_utf8_lossy(&bytes)) {
                line if line.is_empty() => path.display().to_string(),
                line => line,
            },
        };
        all.push((name, about));
    }
    all
}

/// What is extending others: a profile, or the policy file over all of them.
struct Step {
    /// `None` is the policy file, which no profile can extend.
    profile: Option<String>,
    /// What and where it is, with the place of the name that is being looked up.
    place: String,
}

/// The profiles of one call, lowest first: before each one what it extends, and each once: at the last place where an option
/// names it, else at the first where anything extends it.
pub struct Profiles<'a> {
    user_dir: Option<&'a Path>,
    environment: &'a [(OsString, OsString)],
    /// What extends what, down to the profile that is being read.
    chain: Vec<Step>,
    loaded: BTreeSet<String>,
    documents: Vec<(Origin, Document)>,
}

impl<'a> Profiles<'a> {
    /// None yet. `user_dir` holds the user's own as `NAME.toml`. `environment` is the caller's.
    #[must_use]
    pub fn new(user_dir: Option<&'a Path>, environment: &'a [(OsString, OsString)]) -> Self {
        Self { user_dir, environment, chain: Vec::new(), loaded: BTreeSet::new(), documents: Vec::new() }
    }

    /// All that were added, lowest first.
    #[must_use]
    pub fn documents(self) -> Vec<(Origin, Document)> {
        self.documents
    }

    /// Adds what a policy file extends; `file` is its name for messages, `places` are those of the names.
    pub fn extended(&mut self, file: &str, document: &Document, places: &[Position]) -> Result<()> {
        self.beneath(None, file, document, places)
    }

    /// Adds what a document extends.
    fn beneath(&mut self, profile: Option<&str>, what: &str, document: &Document, places: &[Position]) -> Result<()> {
        for (index, name) in document.extends.iter().enumerate() {
            let at = places.get(index).map(|at| format!(":{at}")).unwrap_or_default();
            self.chain.push(Step { profile: profile.map(str::to_owned), place: format!("{what}{at}") });
            self.add(name)?;
            self.chain.pop();
        }
        Ok(())
    }

    /// Adds a profile, and before it what it extends.
    pub fn add(&mut self, name: &str) -> Result<()> {
        if self.loaded.contains(name) {
            // Whoever types a name last wants it over all that went before.
            if self.chain.is_empty()
                && let Some(at) = self.documents.iter().position(|(origin, _)| *origin == Origin::Profile(name.into()))
            {
                let last = self.documents.remove(at);
                self.documents.push(last);
            }
            return Ok(());
        }
        if let Some(first) = self.chain.iter().position(|step| step.profile.as_deref() == Some(name)) {
            let steps = self.chain[first..].iter().filter_map(|step| step.profile.as_deref());
            let circle: Vec<_> = steps.chain([name]).collect();
            return Err(self.refuse(name, &format!("it extends itself ({})", circle.join(" -> "))));
        }
        if self.chain.iter().filter(|step| step.profile.is_some()).count() == DEPTH_MAX {
            return Err(self.refuse(name, &format!("more than {DEPTH_MAX} profiles extend one another")));
        }
        if !is_name(name) {
            return Err(self.refuse(
                name,
                "a name consists of lower-case letters, digits, '.', '_' and '-' and begins with a letter or digit",
            ));
        }
        let own = self.user_dir.map(|dir| path_of(dir, name));
        let (text, path) = match (built_in(name), own) {
            (Some(text), own) => {
                if let Some(own) = own.filter(|path| fs::symlink_metadata(path).is_ok()) {
                    let reason =
                        format!("'{}' has the name of a built-in profile, which no file replaces", own.display());
                    return Err(self.refuse(name, &reason));
                }
                (text.as_bytes().to_owned(), None)
            }
            (None, own) => {
                let (bytes, path) = self.read_own(name, own)?;
                (bytes, Some(path))
            }
        };
        let place = match &path {
            Some(path) => format!("profile '{name}', {}", path.display()),
            None => format!("profile '{name}'"),
        };
        let (mut document, places) = file::read_with_places(&text, &place, Some(Format::Toml))?;
        if path.is_none() {
            surroundings::complete(name, &mut document, self.environment)
                .map_err(|reason| self.refuse(name, &reason))?;
        }
        self.beneath(Some(name), &place, &document, &places)?;
        self.loaded.insert(name.to_owned());
        self.documents.push((Origin::Profile(name.into()), document));
        Ok(())
    }

    fn read_own(&self, name: &str, path: Option<PathBuf>) -> Result<(Vec<u8>, PathBuf)> {
        let Some(path) = path else { return Err(self.unknown(name)) };
        match read(&path) {
            _ if name == HELP => Err(self.refuse(name, "the name asks for the list of profiles")),
            Ok(bytes) => Ok((bytes, path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && dangling(&path).is_none() => {
                Err(self.unknown(name))
            }
            Err(error) => Err(anyhow!(
                "cannot read profile '{}', {}{}: {}",
                log::excerpt(name, log::WORD_SHOWN_MAX),
                path.display(),
                self.from(),
                reason(&path, &error)
            )),
        }
    }

    fn unknown(&self, name: &str) -> anyhow::Error {
        let mut known: Vec<_> = BUILT_IN.iter().map(|(name, _)| (*name).to_owned()).collect();
        known.extend(users(self.user_dir).into_iter().filter(|name| built_in(name).is_none() && name != HELP));
        let nearest = known.iter().min_by_key(|other| strsim::osa_distance(name, other));
        let near = nearest.filter(|other| strsim::osa_distance(name, other) <= 1.max(other.len() / 3));
        let near = near.map(|other| format!(", did you mean '{other}'?")).unwrap_or_default();
        self.refuse(name, &format!("there is none of that name{near} (known: {})", known.join(", ")))
    }

    /// Who extends the profile that is being looked up, and where; empty when it was asked for by an option.
    fn from(&self) -> String {
        self.chain.last().map(|step| format!(" (extended by {})", step.place)).unwrap_or_default()
    }

    fn refuse(&self, name: &str, reason: &str) -> anyhow::Error {
        anyhow!("cannot use profile '{}'{}: {reason}", log::excerpt(name, log::WORD_SHOWN_MAX), self.from())
    }
}

fn built_in(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// A single path component that is no option, no hidden file and the same in every shell.
fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.bytes().next().is_some_and(plain) && name.bytes().all(|byte| plain(byte) || b"._-".contains(&byte))
}

fn path_of(user_dir: &Path, name: &str) -> PathBuf {
    user_dir.join(format!("{name}.toml"))
}

/// Names of the user's files, sorted; those that could not be asked for are left out.
fn users(user_dir: Option<&Path>) -> BTreeSet<String> {
    let entries = user_dir.and_then(|dir| fs::read_dir(dir).ok()).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".toml").map(str::to_owned));
    names.filter(|name| is_name(name)).collect()
}

/// A file of at most the size of a policy, and a little of one that is larger.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a named pipe would wait for a writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_SIZE as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The first comment line, as much of it as a list has room for.
fn about(text: &str) -> String {
    let line = text.lines().map(str::trim).find_map(|line| line.strip_prefix('#'));
    log::excerpt(line.unwrap_or_default().trim(), ABOUT_MAX).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(names: &[String], environment: &[(OsString, OsString)]) -> Result<Vec<(Origin, Document)>> {
        let mut profiles = Profiles::new(None, environment);
        names.iter().try_for_each(|name| profiles.add(name))?;
        Ok(profiles.documents())
    }

    fn surroundings() -> Vec<(OsString, OsString)> {
        [("SSH_AUTH_SOCK", "/run/agent"), ("WAYLAND_DISPLAY", "wayland-1"), ("XDG_RUNTIME_DIR", "/run/user/1")]
            .map(|(name, value)| (name.into(), value.into()))
            .into()
    }

    #[test]
    fn every_built_in_profile_is_read_and_described() {
        assert!(BUILT_IN.is_sorted());
        for (name, text) in BUILT_IN {
            assert!(is_name(name) && *name != HELP, "{name}");
            let loaded = load(&[(*name).to_owned()], &surroundings()).unwrap();
            let (origin, document) = loaded.last().unwrap();
            assert_eq!(*origin, Origin::Profile((*name).into()));
            // Nothing but the lists of grants could be taken back by a later profile; only `strict` and `default` narrow.
            let narrows = matches!(*name, "strict" | "default");
            assert_eq!(document.allow_network, narrows.then_some(false), "{name}");
            assert!(document.env_default != Some(true) && document.backend_type.is_none(), "{name}");
            assert!(document.allow_gaps.is_empty() && document.extends.is_empty(), "{name}");
            let line = about(text);
            assert!((20..=110).contains(&line.len()) && !line.ends_with('.'), "{name}: {line}");
        }
        assert_eq!(list(None).len(), BUILT_IN.len());
    }

    #[test]
    fn only_two_profiles_look_at_the_environment() {
        for (name, _) in BUILT_IN {
            let of = |environment: &[_]| load(&[(*name).to_owned()], environment).map(|mut all| all.pop());
            let looks = matches!(*name, "ssh-agent" | "display");
            match of(&[]) {
                Ok(without) => assert!(!looks && without == of(&surroundings()).unwrap(), "{name}"),
                Err(error) => assert!(looks, "{name}: {error:#}"),
            }
        }
        let (_, agent) = load(&["ssh-agent".into()], &surroundings()).unwrap().pop().unwrap();
        assert_eq!(agent.allow_unix_socket_paths, [PathBuf::from("/run/agent")]);
        let (_, display) = load(&["display".into()], &surroundings()).unwrap().pop().unwrap();
        assert_eq!(display.allow_unix_socket_paths, [PathBuf::from("/run/user/1/wayland-1")]);
    }

    #[test]
    fn names() {
        for name in ["a", "0", "ci", "a.b", "a_b-c", "1.x"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".", "..", ".a", "-a", "_a", "A", "a/b", "../a", "/a", "a b", "a\n", "a\0", "ä", "aB"] {
            assert!(!is_name(name), "{name:?}");
        }
    }

    #[test]
    fn the_description_is_the_first_comment() {
        for (text, line) in
            [("# one\n# two\n", "one"), ("\n\n  #one  \n", "one"), ("a = 1\n", ""), ("#\n# two\n", ""), ("", "")]
        {
            assert_eq!(about(text), line, "{text:?}");
        }
    }
}
