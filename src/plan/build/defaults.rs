//! What every view holds without anybody asking: system files, the working directory, a private home, `/proc`, `/dev`, `/tmp`.
//!
//! Adds nothing where a rule that was written speaks already.

use std::path::Path;

use super::super::base;
use super::super::links::{walk, walk_from};
use super::super::secrets;
use super::super::view::{FileKind, Own, Rule};
use super::place::place;
use super::{Builder, reserved};
use crate::backend::Backend;
use crate::error::{Error, Kind, Result};

/// Up to this size a system file is copied into the view instead of being mounted there, in bytes.
const SMALL: u64 = 64 << 10;

fn readable(path: &Path) -> bool {
    nix::unistd::access(path, nix::unistd::AccessFlags::R_OK).is_ok()
}

impl Builder<'_> {
    /// What is there without anybody asking; in an image, what that does not have.
    pub fn defaults(&mut self, in_image: bool) -> Result<()> {
        if !in_image {
            self.system();
        }
        let places = self.secrets.places();
        self.start_directory(&places)?;
        self.home();
        self.hide_places(&places);
        for (at, own) in [("/proc", Own::Proc), ("/dev", Own::Dev), ("/dev/shm", Own::Shared), ("/tmp", Own::Shared)] {
            self.view.add(Path::new(at), Rule::Own(own), FileKind::Directory);
        }
        // An engine has seen to these.
        let machine = if nix::unistd::getuid().is_root() { base::MACHINE } else { &[] };
        for path in machine.iter().chain(base::WATCHED).map(Path::new).filter(|_| !in_image) {
            if let Ok(metadata) = std::fs::symlink_metadata(path) {
                let rule = Rule::System { from: path.to_owned(), small: false };
                self.view.add(path, rule, FileKind::of(&metadata));
            }
        }
        for path in base::CALLERS.iter().map(Path::new).filter(|_| !in_image) {
            if std::fs::symlink_metadata(path).is_ok() {
                self.view.add(path, Rule::Own(Own::Nothing), FileKind::File);
            }
        }
        if !self.view.shows(Path::new("/var/tmp")) {
            self.view.add(Path::new("/var/tmp"), Rule::Own(Own::SecondTmp), FileKind::Directory);
        }
        self.machinery();
        Ok(())
    }

    /// Hides each of these below a wider rule that shows it, under any name that mounts give it.
    pub(super) fn hide_places(&mut self, places: &[secrets::Place]) {
        let mounts = self.host.mounts();
        for place in places {
            for name in std::iter::once(place.end.clone()).chain(mounts.names(&place.end, false)) {
                let shown = self.view.decides(&name).is_some_and(|(at, _)| at != name);
                if shown && self.view.shows(&name) {
                    self.view.add(&name, Rule::Secret, place.kind);
                }
            }
        }
    }

    /// System directories and the short list from `/etc`, where no rule speaks of them.
    fn system(&mut self) {
        for name in base::SYSTEM {
            self.system_entry(Path::new("/"), name);
        }
        if let Ok(etc) = walk(Path::new("/etc")) {
            for name in base::ETC {
                self.system_entry(&etc.end, name);
            }
        }
    }

    /// `name` below `directory`, which names no link.
    fn system_entry(&mut self, directory: &Path, name: &str) {
        let at = directory.join(name);
        if self.view.decides(&at).is_some() {
            return;
        }
        let Ok(found) = walk_from(directory, Path::new(name)) else { return };
        match found.links.first() {
            Some(link) if link.at == at && self.view.shows(&found.end) => {
                self.view.add(&at, Rule::Link { text: link.text.clone() }, FileKind::File);
            }
            _ => {
                // Each mount costs bubblewrap a look at all the others.
                let small = found.metadata.is_file() && found.metadata.len() <= SMALL && readable(&found.end);
                self.view.add(&at, Rule::System { from: found.end, small }, FileKind::of(&found.metadata));
            }
        }
    }

    /// The working directory, read-only, unless a rule speaks of it.
    pub(super) fn start_directory(&mut self, secrets: &[secrets::Place]) -> Result<()> {
        let workdir = self.workdir;
        if let Some(place) =
            secrets.iter().find(|place| workdir.starts_with(&place.end) && !self.typed_below(&place.end, workdir))
        {
            return Err(Error::text(
                Kind::Policy,
                format!(
                    "cannot start in directory '{}': '{}' holds {} and is not shown by default",
                    workdir.display(),
                    place.end.display(),
                    place.what
                ),
            )
            .hint(format!("--read '{}' shows it, -C DIR starts elsewhere", workdir.display())));
        }
        if let Some(at) = self.view.hidden_by(workdir) {
            return Err(Error::text(
                Kind::Policy,
                format!(
                    "cannot start in directory '{}': it is hidden by the mask on '{}'",
                    workdir.display(),
                    at.display()
                ),
            )
            .hint(if at == workdir {
                "-C DIR starts elsewhere".to_owned()
            } else {
                format!("-C DIR starts elsewhere, --read '{}' shows it", workdir.display())
            }));
        }
        if self.shows_processes(workdir) && !reserved(workdir) {
            let text = format!("cannot start in directory '{}': it shows the processes of the host", workdir.display());
            return Err(Error::text(Kind::Policy, text).hint("-C DIR starts elsewhere"));
        }
        let own =
            ["/", "/tmp", "/var/tmp", "/private/tmp", "/private/var/tmp"].iter().any(|path| workdir == Path::new(path))
                || reserved(workdir);
        if !own && !self.view.shows(workdir) {
            self.view.add(workdir, Rule::Workdir, FileKind::Directory);
        }
        Ok(())
    }

    /// Whether a rule shows `path`, in a place of secrets, or something below that place that it lies in.
    fn typed_below(&self, place: &Path, path: &Path) -> bool {
        self.view.decides(path).is_some_and(|(at, _)| at.starts_with(place))
    }

    /// A private home, unless a grant or the working directory shows the real one.
    fn home(&mut self) {
        let Some(home) = &self.host.home else { return };
        let (end, links, exists) = match walk(home) {
            Ok(found) if found.metadata.is_dir() => (found.end, found.links, true),
            Ok(_) => return self.notes.push(format!("HOME, '{}', is not a directory", home.display())),
            Err(_) => match place(home) {
                Ok(place) => (place.path, place.links, false),
                Err(reason) => return self.notes.push(format!("no private HOME, '{}': {reason}", home.display())),
            },
        };
        let taken = end == Path::new("/") || end == Path::new("/tmp") || reserved(&end);
        let decided = match self.view.decides(&end) {
            None => false,
            Some((at, Rule::Workdir)) => at == end || !exists,
            Some(_) => true,
        };
        if !taken && !decided {
            self.links(&links);
            self.view.add(&end, Rule::Own(Own::Home), FileKind::Directory);
        }
    }

    /// The terminal that the target shares with us.
    pub fn terminal(&mut self, backend: Backend, device: &Path) {
        match backend {
            // Under the one name that programs find it by: `/dev/pts` is the view's own.
            Backend::Bwrap | Backend::Namespace => {
                let rule = Rule::System { from: device.to_owned(), small: false };
                self.view.add(Path::new("/dev/console"), rule, FileKind::File);
            }
            // And no other one.
            Backend::Seatbelt => self.view.add(device, Rule::Write, FileKind::File),
            // What can be opened below /dev is a short list, a container has a session of its own, and none has no rules.
            Backend::Landlock | Backend::Container(_) | Backend::JobObject | Backend::None => {}
        }
    }
}
