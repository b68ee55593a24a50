//! Rules that somebody wrote, added to a view: grants, sockets, masks, protects.
//!
//! Resolves each path once and refuses what cannot hold; makes nothing on the host, but says what is to be made.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use nix::unistd::AccessFlags;

use super::super::Create;
use super::super::base;
use super::super::env::{Jobserver, jobserver};
use super::super::links::{Link, beyond, reason, walk};
use super::super::view::{FileKind, Rule, View};
use super::place::{Place, expand, place};
use super::{Builder, reserved};
use crate::error::{Error, Kind, Result};
use crate::policy::{Access, Grant, Missing, Origin, PathRule, Policy};
use crate::sys::process::describe;

impl Builder<'_> {
    /// Everything the policy says about paths.
    pub fn rules(&mut self, policy: &Policy) -> Result<()> {
        for grant in &policy.files.grants {
            self.grant(grant)?;
        }
        for rule in &policy.allow_sockets {
            self.allow_socket(rule)?;
        }
        if policy.keep_jobserver
            && let Some(Jobserver::Fifo(path)) = self.host.variable("MAKEFLAGS").and_then(jobserver)
            && let Ok(found) = walk(&path)
        {
            self.add(&found, Rule::Write);
        }
        for rule in &policy.files.masks {
            self.hide(rule, Rule::Mask)?;
        }
        for (path, origin) in policy.egress.secret_files() {
            // A pipe is read once, by us.
            let full = expand(path, self.host, Some(self.workdir))?;
            if std::fs::metadata(&full).is_ok_and(|found| !found.is_file()) {
                continue;
            }
            self.hide(&PathRule { path: path.to_owned(), origin: origin.clone() }, Rule::Mask)?;
        }
        for rule in &policy.deny_sockets {
            self.hide(rule, Rule::DenySocket)?;
        }
        for rule in &policy.files.protects {
            self.protect(rule)?;
        }
        // Whoever could write our own file would choose what the next run is started by.
        if let Some(image) = &self.host.image
            && let Ok(found) = walk(image)
        {
            for name in std::iter::once(found.end.clone()).chain(self.host.mounts().names(&found.end, true)) {
                if self.view.writable(&name) {
                    self.view.add(&name, Rule::Protect, FileKind::File);
                }
            }
        }
        Ok(())
    }

    fn grant(&mut self, grant: &Grant) -> Result<()> {
        let option = &grant.origin;
        let refuse = |reason: &str| {
            Error::text(Kind::Policy, format!("cannot grant '{}' ({option}): {reason}", grant.path.display()))
        };
        let path = expand(&grant.path, self.host, Some(self.workdir))?;
        let rule = match grant.access {
            Access::Read => Rule::Read,
            Access::Write => Rule::Write,
        };
        let found = match walk(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                beyond(&path).map_err(refuse)?;
                return match grant.missing {
                    Missing::Skip => {
                        self.notes.push(format!("'{}' ({option}) does not exist and is left out", path.display()));
                        Ok(())
                    }
                    Missing::Create => self.create(&path, option).map_err(|reason| refuse(&reason)),
                    Missing::Refuse => Err(hinted(refuse(&reason(&path, &error)), if_missing(grant))),
                };
            }
            Err(error) => return Err(refuse(&describe(&error))),
        };
        if found.end == Path::new("/dev") || found.end.starts_with("/proc") || self.shows_processes(&found.end) {
            return Err(refuse("the sandbox has its own; single device nodes below /dev can be granted"));
        }
        if let Some(link) = found.links.iter().find(|link| link.at.starts_with("/proc")) {
            let reason = format!("the way there leads through '{}', which is another one inside", link.at.display());
            return Err(refuse(&reason).hint(format!("'{}' in its place grants that", found.end.display())));
        }
        if grant.file_only && found.metadata.is_dir() {
            return Err(refuse("is a directory, expected a file").hint("write_roots is the key for directories"));
        }
        if rule == Rule::Read && reserved(&found.end) && found.end != Path::new(base::SHARED) {
            let error = refuse("a read-only mount keeps nobody from writing to a device");
            return Err(error.hint(match grant.origin {
                Origin::Flag(_) => format!("--write '{}' grants it", grant.path.display()),
                Origin::Default | Origin::Profile(_) | Origin::File(_) | Origin::Payload => {
                    "write_roots grants it".into()
                }
            }));
        }
        self.secrets.refuse_led(&path, &found, &refuse)?;
        self.add(&found, rule);
        Ok(())
    }

    /// A write grant of a directory that is still to be made.
    fn create(&mut self, path: &Path, origin: &Origin) -> std::result::Result<(), String> {
        let Place { links, path, first } = place(path)?;
        // What cannot be made is a mistake, and found before anything is tried.
        if let Some(above) = first.parent() {
            nix::unistd::access(above, AccessFlags::W_OK | AccessFlags::X_OK).map_err(|errno| {
                let reason = crate::sys::process::reason(errno as i32);
                format!("no directory can be made in '{}': {reason}", above.display())
            })?;
        }
        self.links(&links);
        self.view.add(&path, Rule::Write, FileKind::Directory);
        self.create.push(Create { path, first, origin: origin.clone() });
        Ok(())
    }

    /// What is to be made for a run without a view.
    pub fn missing(&mut self, policy: &Policy) -> Result<()> {
        let wanted = policy.files.grants.iter().filter(|grant| grant.missing == Missing::Create);
        for grant in wanted {
            let path = expand(&grant.path, self.host, Some(self.workdir))?;
            if walk(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
                self.grant(grant)?;
            }
        }
        // There is none that they could be rules of.
        self.view = View::default();
        Ok(())
    }

    /// What a rule about `path` covers, and the links that lead there; `None` when there is no such thing. What is to be made
    /// is there by the time the rule holds.
    fn covered(&self, rule: &PathRule, path: &Path) -> io::Result<Option<(Vec<Link>, PathBuf, FileKind)>> {
        match walk(path) {
            Ok(found) => Ok(Some((found.links, found.end, FileKind::of(&found.metadata)))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let place =
                    place(path).ok().filter(|place| self.create.iter().any(|made| made.path.starts_with(&place.path)));
                Ok(place.map(|place| (place.links, place.path, FileKind::Directory)))
            }
            Err(_) if is_below_file(rule, path) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn allow_socket(&mut self, rule: &PathRule) -> Result<()> {
        let refuse = |reason: &str| {
            Error::text(
                Kind::Policy,
                format!("cannot allow socket '{}' ({}): {reason}", rule.path.display(), rule.origin),
            )
        };
        let path = expand(&rule.path, self.host, Some(self.workdir))?;
        let found = walk(&path).map_err(|error| refuse(&reason(&path, &error)))?;
        if !found.metadata.file_type().is_socket() {
            return Err(refuse("not a socket"));
        }
        self.secrets.refuse_led(&path, &found, &refuse)?;
        self.add(&found, Rule::AllowSocket);
        Ok(())
    }

    /// A mask or a denied socket. Only what exists can be hidden: a mount needs a place, and making one would leave it there.
    fn hide(&mut self, written: &PathRule, rule: Rule) -> Result<()> {
        let option = &written.origin;
        let refuse = |reason: &str| {
            Error::text(Kind::Policy, format!("cannot hide '{}' ({option}): {reason}", written.path.display()))
        };
        let path = expand(&written.path, self.host, Some(self.workdir))?;
        let Some((_, end, kind)) = self.covered(written, &path).map_err(|error| refuse(&describe(&error)))? else {
            if !is_below_file(written, &path) {
                beyond(&path).map_err(refuse)?;
            }
            self.notes.push(format!("'{}' ({option}) does not exist: nothing to hide", path.display()));
            return Ok(());
        };
        if end == Path::new("/") || reserved(&end) {
            return Err(refuse("the sandbox cannot start without it"));
        }
        self.view.add(&end, rule, kind);
        Ok(())
    }

    fn protect(&mut self, rule: &PathRule) -> Result<()> {
        let option = &rule.origin;
        let refuse = |reason: &str| {
            Error::text(Kind::Policy, format!("cannot protect '{}' ({option}): {reason}", rule.path.display()))
        };
        let path = expand(&rule.path, self.host, Some(self.workdir))?;
        let Some((links, end, kind)) = self.covered(rule, &path).map_err(|error| refuse(&describe(&error)))? else {
            let below_file = is_below_file(rule, &path);
            if !below_file {
                beyond(&path).map_err(refuse)?;
            }
            self.notes.push(format!(
                "'{}' ({option}) does not exist: the target can make it where it may write",
                path.display()
            ));
            // A file can have become a directory by then.
            let made = place(&path).map(|place| place.path).ok().or_else(|| below_file.then_some(path));
            if let Some(made) = made.filter(|made| self.view.writable(made)) {
                self.unprotected.push((made, option.clone()));
            }
            return Ok(());
        };
        for link in &links {
            // The link itself cannot be a mount point: whoever can write its directory puts something else there.
            if link.at.parent().is_some_and(|parent| self.view.writable(parent)) {
                return Err(refuse(&format!(
                    "'{}' is a link to '{}' in a directory that can be written, so the name can be given to something else",
                    link.at.display(),
                    end.display()
                )));
            }
        }
        self.view.remember_protect(&end);
        if self.view.writable(&end) {
            self.view.add(&end, Rule::Protect, kind);
        } else {
            self.notes.push(format!("'{}' ({option}) cannot be written anyway", path.display()));
        }
        Ok(())
    }
}

/// Whether the end of a path lies below a file, as `.git/config` does in a linked worktree. Typed for one place that is a mistake; a
/// policy or profile is for many.
fn is_below_file(rule: &PathRule, path: &Path) -> bool {
    let typed = matches!(rule.origin, Origin::Flag(_));
    !typed && walk(path).is_err_and(|error| error.kind() == io::ErrorKind::NotADirectory)
}

/// What helps where the path of a grant is missing, in the words of whoever asked for it.
fn if_missing(grant: &Grant) -> Option<&'static str> {
    Some(match (&grant.origin, grant.access, grant.file_only) {
        (Origin::Default, ..) => return None,
        (Origin::Payload, ..) => "nothing in a payload skips or makes what is missing: make it before the start",
        (_, Access::Write, true) => "write_files makes no file: make it before the start, or grant its directory",
        (Origin::Flag(_), Access::Read, _) => "--read-try skips what does not exist",
        (Origin::Flag(_), Access::Write, false) if looks_like_file(&grant.path) => {
            "make the file before the start, or grant its directory; --write-try skips what does not exist"
        }
        (Origin::Flag(_), Access::Write, false) => {
            "--create-missing makes the directory, --write-try skips what does not exist"
        }
        (Origin::Profile(_) | Origin::File(_), Access::Read, _) => "read_roots_optional skips what does not exist",
        (Origin::Profile(_) | Origin::File(_), Access::Write, false) if looks_like_file(&grant.path) => {
            "make the file before the start, or grant its directory; write_roots_optional skips what does not exist"
        }
        (Origin::Profile(_) | Origin::File(_), Access::Write, false) => {
            "write_roots_create makes the directory, write_roots_optional skips what does not exist"
        }
    })
}

/// Whether the name has an ending, as few directories do: one of letters, since versions have numbers.
fn looks_like_file(path: &Path) -> bool {
    let ends = !path.as_os_str().as_encoded_bytes().ends_with(b"/");
    let ending = path.extension().and_then(|ending| ending.to_str());
    ends && ending.is_some_and(|ending| ending.starts_with(|c: char| c.is_ascii_alphabetic()) && ending != "d")
}

fn hinted(error: Error, hint: Option<&str>) -> Error {
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}
