//! Filling a view: explicit rules first, then what every view holds, then the target.
//!
//! Resolves each written path once; whatever is added names no link.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Components, Path, PathBuf};

use nix::unistd::AccessFlags;

use super::base;
use super::env::{Jobserver, jobserver};
use super::hidden::{self, Ground, Scan, Told};
use super::links::{Link, Walk, asks_for_directory, beyond, reason, walk, walk_from};
use super::secrets::{self, Secrets};
use super::target::{Needed, Target};
use super::view::{FileKind, Own, Rule, View};
use super::{Absent, Create};
use crate::error::{Error, Kind, Result};
use crate::host::Host;
use crate::policy::hidden::Shown;
use crate::policy::{Access, Grant, Hidden, Missing, Origin, PathRule, Policy};
use crate::sys::process::describe;

/// Up to this size a system file is copied into the view instead of being mounted there, in bytes.
const SMALL: u64 = 64 << 10;

fn readable(path: &Path) -> bool {
    nix::unistd::access(path, nix::unistd::AccessFlags::R_OK).is_ok()
}

/// A view in the making.
pub(super) struct Builder<'a> {
    pub(super) host: &'a Host,
    pub(super) workdir: &'a Path,
    /// What is known so far.
    pub view: View,
    /// Directories to make on the host.
    pub create: Vec<Create>,
    /// What explains surprises.
    pub notes: Vec<String>,
    /// What a careful caller should hear of.
    pub warnings: Vec<String>,
    /// What git on the host would obey and what does not exist: see [`super::Plan::absent`].
    pub absent: BTreeSet<Absent>,
    /// Protects of what does not exist in a write grant: see [`super::Plan::unprotected`].
    pub unprotected: Vec<(PathBuf, Origin)>,
    /// Where this host has secrets.
    secrets: Secrets,
}

/// `~` and relative paths made absolute; links and `..` stay.
pub(crate) fn expand(path: &Path, host: &Host, base: Option<&Path>) -> Result<PathBuf> {
    let refuse =
        |reason: &str| Err(Error::text(Kind::Policy, format!("cannot resolve path '{}': {reason}", path.display())));
    // Without `.`, but with a slash at the end: it asks for a directory.
    let below = |base: &Path, parts: Components| {
        let parts = base.components().chain(parts);
        let mut whole: PathBuf = parts.filter(|part| *part != Component::CurDir).collect();
        if asks_for_directory(path) {
            whole.push("");
        }
        whole
    };
    let mut parts = path.components();
    if let Some(Component::Normal(first)) = parts.next() {
        if first == "~" {
            return match &host.home {
                Some(home) => Ok(below(home, parts)),
                None => refuse("there is no home directory"),
            };
        }
        if first.as_encoded_bytes().starts_with(b"~") {
            return refuse("homes of other users are not looked up; for a file of that name write './~…'");
        }
    }
    match base {
        _ if path.is_absolute() => Ok(below(path, Path::new("").components())),
        Some(base) => Ok(below(base, path.components())),
        None => refuse("it is relative and there is no working directory"),
    }
}

impl<'a> Builder<'a> {
    pub fn new(host: &'a Host, workdir: &'a Path) -> Self {
        Self {
            host,
            workdir,
            view: View::default(),
            create: Vec::new(),
            notes: Vec::new(),
            warnings: Vec::new(),
            absent: BTreeSet::new(),
            unprotected: Vec::new(),
            secrets: Secrets::of(host),
        }
    }

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
        for rule in &policy.deny_sockets {
            self.hide(rule, Rule::DenySocket)?;
        }
        for rule in &policy.files.protects {
            self.protect(rule)?;
        }
        // Whoever could write our own file would choose what the next run is started by.
        if let Some(image) = &self.host.image
            && let Ok(found) = walk(image)
            && self.view.writable(&found.end)
        {
            self.view.add(&found.end, Rule::Protect, FileKind::File);
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
        if found.end == Path::new("/dev") || found.end.starts_with("/proc") {
            return Err(refuse("the sandbox has its own; single device nodes below /dev can be granted"));
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
    fn covered(&self, path: &Path) -> io::Result<Option<(Vec<Link>, PathBuf, FileKind)>> {
        match walk(path) {
            Ok(found) => Ok(Some((found.links, found.end, FileKind::of(&found.metadata)))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let place =
                    place(path).ok().filter(|place| self.create.iter().any(|made| made.path.starts_with(&place.path)));
                Ok(place.map(|place| (place.links, place.path, FileKind::Directory)))
            }
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
        let Some((_, end, kind)) = self.covered(&path).map_err(|error| refuse(&describe(&error)))? else {
            beyond(&path).map_err(refuse)?;
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
        let Some((links, end, kind)) = self.covered(&path).map_err(|error| refuse(&describe(&error)))? else {
            beyond(&path).map_err(refuse)?;
            self.notes.push(format!(
                "'{}' ({option}) does not exist: the target can make it where it may write",
                path.display()
            ));
            if let Ok(place) = place(&path)
                && self.view.writable(&place.path)
            {
                self.unprotected.push((place.path, option.clone()));
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
        if self.view.writable(&end) {
            self.view.add(&end, Rule::Protect, kind);
        } else {
            self.notes.push(format!("'{}' ({option}) cannot be written anyway", path.display()));
        }
        Ok(())
    }

    /// Adds a rule at the end of a walk, and the links that lead there.
    fn add(&mut self, found: &Walk, rule: Rule) {
        self.links(&found.links);
        self.view.add(&found.end, rule, FileKind::of(&found.metadata));
    }

    fn links(&mut self, links: &[Link]) {
        for link in links {
            self.view.add(&link.at, Rule::Link { text: link.text.clone() }, FileKind::File);
        }
    }

    /// What is there without anybody asking.
    pub fn defaults(&mut self) -> Result<()> {
        self.system();
        let places = self.secrets.places();
        self.start_directory(&places)?;
        self.home();
        for place in &places {
            let shown = self.view.decides(&place.end).is_some_and(|(at, _)| at != place.end);
            if shown && self.view.shows(&place.end) {
                self.view.add(&place.end, Rule::Secret, place.kind);
            }
        }
        for (at, own) in [("/proc", Own::Proc), ("/dev", Own::Dev), ("/dev/shm", Own::Shared), ("/tmp", Own::Shared)] {
            self.view.add(Path::new(at), Rule::Own(own), FileKind::Directory);
        }
        if nix::unistd::getuid().is_root() {
            for path in base::MACHINE.iter().map(Path::new) {
                if let Ok(metadata) = std::fs::symlink_metadata(path) {
                    let rule = Rule::System { from: path.to_owned(), small: false };
                    self.view.add(path, rule, FileKind::of(&metadata));
                }
            }
        }
        for path in base::CALLERS.iter().map(Path::new) {
            if std::fs::symlink_metadata(path).is_ok() {
                self.view.add(path, Rule::Own(Own::Nothing), FileKind::File);
            }
        }
        if !self.view.shows(Path::new("/var/tmp")) {
            self.view.add(Path::new("/var/tmp"), Rule::Own(Own::SecondTmp), FileKind::Directory);
        }
        Ok(())
    }

    /// Names that begin with a dot, below everything that is shown because a wider directory is, and what git needs. `known` is
    /// what an earlier attempt of this call has found.
    pub fn hidden(&mut self, rule: &Hidden, known: Option<&Scan>) -> Result<Scan> {
        let Shown::Names(names) = &rule.shown else {
            self.view.drop_hidden_protects();
            let tops: Vec<_> = self.view.write_grants().map(Path::to_owned).collect();
            self.repositories(&tops)?;
            return Ok(Scan::default());
        };
        let home = self.host.home.as_deref().and_then(|home| walk(home).ok()).map(|found| found.end);
        let mut scan = match known {
            Some(known) => known.clone(),
            None => hidden::scan(&Ground::of(&self.view, self.workdir, home.as_deref(), names), rule, names)?,
        };
        scan.look_again()?;
        // Whoever starts in a hidden directory, or in one that a hidden link leads to, means that directory.
        if self.view.shows(self.workdir) && scan.present().any(|(path, _)| self.workdir.starts_with(path)) {
            let rule = if self.view.writable(self.workdir) { Rule::Write } else { Rule::Workdir };
            self.view.add(self.workdir, rule, FileKind::Directory);
        }
        let mut hidden = Vec::new();
        for (path, kind) in scan.present() {
            if self.view.shows(path) {
                self.view.hide_name(path, kind);
                hidden.push(path);
            }
        }
        self.view.drop_hidden_protects();
        self.repositories(&scan.repositories)?;
        self.notes.extend(scan.notes.iter().cloned());
        self.warnings.extend(scan.warnings.iter().cloned());
        self.tell_of_git(&scan.told);
        if !hidden.is_empty() {
            self.notes.push(format!(
                "names that begin with a dot are hidden, --show-hidden NAME shows one: {}",
                hidden::list(hidden.iter().copied())
            ));
        }
        let linked = scan.linked().count();
        if let Some(first) = scan.linked().next() {
            self.notes.push(format!(
                "{linked} hidden files have further names on the host (hard links), which are not looked for: '{}' is the first",
                first.display()
            ));
        }
        Ok(scan)
    }

    /// Says what git's word came to, since whoever works with git inside would wonder.
    fn tell_of_git(&mut self, told: &Told) {
        let Told { shown, changed, secret, unread } = told;
        let all = |paths: &[PathBuf]| hidden::list(paths.iter().map(PathBuf::as_path));
        if !shown.is_empty() {
            self.notes.push(format!("shown although they begin with a dot, since git has the same: {}", all(shown)));
        }
        let committed = |path: &PathBuf| self.view.write_grants().any(|grant| path.starts_with(grant));
        let emptied = [
            (secret, "git tracks these names, which are hidden as secrets"),
            (changed, "git tracks these hidden names with another content than they have"),
        ];
        for (paths, what) in emptied.into_iter().filter(|(paths, _)| !paths.is_empty()) {
            let text = format!(
                "{what}, so that git sees them emptied and 'git commit -a' would commit that (--show-hidden NAME shows one): {}",
                all(paths)
            );
            if paths.iter().any(committed) { self.warnings.push(text) } else { self.notes.push(text) }
        }
        for (path, reason) in unread {
            self.notes.push(format!("'{}' was not asked which names it tracks: {reason}", path.display()));
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
    fn start_directory(&mut self, secrets: &[secrets::Place]) -> Result<()> {
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
        let own = ["/", "/tmp", "/var/tmp"].iter().any(|path| workdir == Path::new(path)) || reserved(workdir);
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

    /// The terminal that the target shares with us, under the one name that programs find it by: `/dev/pts` is its own.
    pub fn terminal(&mut self, device: &Path) {
        let rule = Rule::System { from: device.to_owned(), small: false };
        self.view.add(Path::new("/dev/console"), rule, FileKind::File);
    }

    /// The target and its interpreter: each file alone and each link of the way.
    pub fn program(&mut self, target: &Target) -> Result<()> {
        for needed in &target.files {
            let (Needed::Link { at, .. } | Needed::File(at) | Needed::Directory(at)) = needed;
            // What is there differs by who looks: to the process that becomes the target, our own program and descriptors.
            if at.starts_with("/proc") {
                let (word, at) = (target.word.display(), at.display());
                let text = format!("cannot execute '{word}': '{at}' is not the same file inside");
                return Err(Error::text(Kind::NotExecutable, text).hint(
                    "COMMAND and the interpreter of its '#!' line need a name that does not lead through /proc",
                ));
            }
            if reserved(at) {
                continue;
            }
            // A hidden name shows the file that is asked for by name; a mask does not.
            if let Some((mask, rule)) = self.view.decides(at)
                && rule.hides()
                && *rule != Rule::Hidden
            {
                return Err(Error::text(
                    Kind::Hidden,
                    format!(
                        "cannot find '{}': '{}' exists on the host and is hidden by the mask on '{}'",
                        target.word.display(),
                        at.display(),
                        mask.display()
                    ),
                )
                .hint(if mask == at {
                    format!("leave out the mask on '{}'", at.display())
                } else {
                    format!("--read '{}' shows this file, or leave out the mask", at.display())
                }));
            }
            if self.view.shows(at) {
                continue;
            }
            // Whoever wrote the script or the link would have chosen what is shown. A directory is an empty one.
            let named = !matches!(needed, Needed::Directory(_));
            if let Some((place, what)) = self.secrets.above(at).filter(|_| named) {
                return Err(Error::text(
                    Kind::Hidden,
                    format!(
                        "cannot find '{}': '{}' exists on the host and is hidden: '{}' holds {what}",
                        target.word.display(),
                        at.display(),
                        place.display()
                    ),
                )
                .hint(format!("--read '{}' shows this file", at.display())));
            }
            match needed {
                Needed::Link { at, text } => {
                    self.view.add(at, Rule::Link { text: text.clone() }, FileKind::File);
                }
                Needed::File(at) => self.view.add(at, Rule::Program, FileKind::File),
                Needed::Directory(at) => self.view.add(at, Rule::Folder, FileKind::Directory),
            }
        }
        Ok(())
    }
}

/// Whether `path` is a part of the sandbox's own `/proc` or `/dev`.
fn reserved(path: &Path) -> bool {
    let shared = Path::new(base::SHARED);
    base::RESERVED.iter().any(|tree| path.starts_with(tree)) && (path == shared || !path.starts_with(shared))
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

/// Where something that does not exist would be made.
pub(super) struct Place {
    /// The links that lead there.
    pub links: Vec<Link>,
    /// Without links.
    pub path: PathBuf,
    /// The highest part of it that does not exist.
    pub first: PathBuf,
}

/// Where `path`, which does not exist, would be made.
pub(super) fn place(path: &Path) -> std::result::Result<Place, &'static str> {
    let (found, rest) = beyond(path)?;
    let first = found.end.join(rest.iter().next().unwrap_or_default());
    if std::fs::symlink_metadata(&first).is_ok() {
        return Err("a link that leads nowhere");
    }
    Ok(Place { links: found.links, path: found.end.join(rest), first })
}
