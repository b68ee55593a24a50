//! `--explain`: what the plan says about a path, by which rule, and whether it holds: tried inside a sandbox of the same plan.
//!
//! Runs no command and changes nothing on the host. Where plan and trial disagree it says so and fails: one of them is wrong, and
//! nobody should have to find out which one by accident.

mod decisions;
mod look;
mod rules;

use std::ffi::OsString;
use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};
use serde::Serialize;

use crate::attempt::{self, Tried};
use crate::denials::danger;
use crate::error::{Error, Kind, Result};
use crate::host::Host;
use crate::log::{escape, json_line};
use crate::permissions::{permits, refusal, searchable};
use crate::plan::links::walk;
use crate::plan::{Plan, expand};
use crate::policy::Policy;
use crate::stage::trial::{Answer, Trial, identity};
pub use decisions::decisions;
use look::{Look, Thing, look, look_by_rights};
pub use rules::given;
use rules::{Deciding, deciding};

/// All answers.
#[derive(Debug, Serialize)]
pub struct Report {
    backend: &'static str,
    paths: Vec<Explained>,
}

/// The answer about one path.
#[derive(Debug, Serialize)]
struct Explained {
    /// As typed.
    path: String,
    /// Absolute.
    absolute: String,
    /// Links on the way that are visible.
    links: Vec<Leads>,
    /// Where it leads, or would lead.
    end: String,
    exists_on_host: bool,
    kind: Option<&'static str>,
    /// Whether the command sees what the host has there.
    visible: bool,
    /// What it finds there.
    shows: &'static str,
    /// Null: not known, since it is neither file nor directory.
    readable: Option<bool>,
    writable: Option<bool>,
    /// Whether a socket can be connected to.
    #[serde(skip_serializing_if = "Option::is_none")]
    connectable: Option<bool>,
    #[serde(flatten)]
    deciding: Deciding,
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    tried: Option<Attempted>,
    agrees: bool,
}

/// A link and what it says.
#[derive(Debug, Serialize)]
struct Leads {
    at: String,
    to: String,
}

/// What was tried inside: "works", "another" (a file that is not the host's), "untried", or the name of the error.
#[derive(Debug, Serialize)]
struct Attempted {
    name: String,
    file: String,
    read: String,
    write: String,
}

/// What the plan says, before anything is tried.
struct Expected {
    look: Look,
    absolute: PathBuf,
    /// What the host has at the end of the path, seen from outside.
    host: Option<(PathBuf, Metadata)>,
    /// Whether a rule lets it be written, or be made.
    by_rule: bool,
    /// Whether permissions on the way let it be seen.
    reachable: bool,
    /// Whether the file's own permissions let it be read and written.
    permitted: [bool; 2],
    /// Whether it lies in a directory that a run would make first, and this does not.
    to_be_made: bool,
}

/// Explains `paths` under the first backend of `policy` that works.
pub fn explain(policy: &Policy, host: &Host, target: &[OsString], trace: bool, paths: &[PathBuf]) -> Result<Report> {
    let shell = ["/bin/sh".into()];
    let target = if target.is_empty() { &shell[..] } else { target };
    let mut expected = Vec::new();
    let mut ask = |plan: &mut Plan| {
        expected = paths.iter().map(|path| expect(plan, host, path)).collect::<Result<Vec<_>>>()?;
        // Nothing is made for a question.
        plan.without_created();
        let tried = expected.iter().filter(|expected| !expected.to_be_made);
        Ok(tried
            .map(|expected| Trial {
                path: expected.absolute.clone(),
                file: expected.host.as_ref().map(|(_, metadata)| identity(metadata)),
            })
            .collect())
    };
    let (plan, tried) = attempt::try_out(policy, host, target, trace, &mut ask)?;
    let mut tried = tried.into_iter();
    let mut explained = Vec::new();
    for (path, expected) in paths.iter().zip(expected) {
        let answers = if expected.to_be_made {
            None
        } else {
            let answers = tried
                .next()
                .ok_or_else(|| Error::text(Kind::Backend, "cannot try what the plan says: no answer from inside"))?;
            Some(answers)
        };
        let deciding = deciding(&plan, policy, host, &expected.look.end);
        explained.push(finish(path, expected, deciding, answers, host));
    }
    Ok(Report { backend: plan.backend.word(), paths: explained })
}

fn expect(plan: &Plan, host: &Host, written: &Path) -> Result<Expected> {
    let absolute = expand(written, host, Some(&plan.workdir))?;
    let found = walk(&absolute).ok().map(|found| (found.end, found.metadata));
    let look = if let Some(reach) = &plan.reach {
        look_by_rights(reach, &absolute)
    } else if plan.backend.keeps_rules() {
        look(&plan.rules, &absolute)
    } else {
        // The same without rules.
        let (end, thing) = match &found {
            Some((end, metadata)) => (end.clone(), Thing::Host(metadata.clone())),
            None => (absolute.clone(), Thing::Unknown),
        };
        Look { links: Vec::new(), end, thing, has_directory: true }
    };
    let parent = look.end.parent().unwrap_or(Path::new("/"));
    let writable = |path: &Path| match &plan.reach {
        Some(reach) => reach.gives(path, false)[1],
        None => !plan.backend.keeps_rules() || plan.rules.writable(path),
    };
    let is_private =
        |path: &Path| plan.reach.is_none() && matches!(self::look::look(&plan.rules, path).thing, Thing::Private);
    let by_rule = match &look.thing {
        Thing::Host(_) => writable(&look.end),
        Thing::Private => true,
        Thing::Absent => look.has_directory && (writable(parent) || is_private(parent)),
        Thing::Copy(_) | Thing::Folder | Thing::System | Thing::Hidden | Thing::Shut(_) | Thing::Unknown => false,
    };
    let permitted = match &look.thing {
        Thing::Host(metadata) => [AccessFlags::R_OK, AccessFlags::W_OK].map(|want| permits(&look.end, metadata, want)),
        Thing::Absent => {
            let directory = std::fs::metadata(parent);
            [false, directory.is_ok_and(|found| permits(parent, &found, AccessFlags::W_OK))]
        }
        _ => [true, true],
    };
    let to_be_made =
        plan.create.iter().any(|made| look.end.starts_with(&made.first) || absolute.starts_with(&made.first));
    let reachable = !nix::unistd::geteuid().is_root() || searchable(&look.end);
    Ok(Expected { look, absolute, host: found, by_rule, reachable, permitted, to_be_made })
}

fn finish(written: &Path, expected: Expected, deciding: Deciding, tried: Option<Tried>, host: &Host) -> Explained {
    let Expected { look, absolute, host: found, by_rule, reachable, permitted: [may_read, may_write], to_be_made } =
        expected;
    let visible = matches!(look.thing, Thing::Host(_) | Thing::Copy(_)) && reachable;
    let socket = visible && found.as_ref().is_some_and(|(_, metadata)| metadata.file_type().is_socket());
    let special = match &look.thing {
        Thing::Host(metadata) | Thing::Copy(metadata) => !metadata.is_file() && !metadata.is_dir(),
        _ => false,
    };
    let known = !special && !matches!(look.thing, Thing::System | Thing::Unknown);
    let planned = |rule: bool, permitted: bool| known.then_some(rule && permitted);
    let inside = matches!(look.thing, Thing::Private | Thing::Folder);
    let mut readable = planned(visible || inside, may_read || inside);
    let mut writable =
        planned(by_rule, may_write || matches!(look.thing, Thing::Private) || private_parent(&look, by_rule));
    let mut agrees = true;
    let mut notes = Vec::new();
    if let Some([_, file, read, write]) = tried {
        agrees = !reachable
            || agree(&look.thing, file, read, write, [visible && may_read, by_rule && writable == Some(true)], by_rule);
        // Where the plan has no say, what was tried has.
        let settled = |answer: Answer, planned: Option<bool>| match answer {
            Answer::Works => Some(true),
            Answer::Failed(_) => Some(false),
            Answer::Another | Answer::Untried => planned,
        };
        if !matches!(look.thing, Thing::Hidden) {
            readable = settled(read, readable);
        }
        writable = settled(write, writable);
    }
    let shows = match look.thing {
        Thing::Host(_) => "host",
        Thing::Copy(_) => "copy",
        Thing::Private | Thing::Folder => "own",
        Thing::System if tried.is_some_and(|[_, file, ..]| matches!(file, Answer::Works | Answer::Another)) => "own",
        Thing::Hidden if tried.is_some_and(|[_, file, ..]| file == Answer::Another) => "placeholder",
        Thing::Hidden | Thing::Absent | Thing::Unknown | Thing::System | Thing::Shut(_) => "nothing",
    };
    let missing = matches!(look.thing, Thing::Absent) && found.is_none();
    if to_be_made {
        notes.push("a run makes the directory first, nothing is made and tried here".into());
        writable = Some(true);
    } else if missing {
        notes.push(
            if writable == Some(true) { "it does not exist and can be made" } else { "it does not exist" }.into(),
        );
    }
    if visible && matches!(deciding.rule, "mask" | "hidden-name" | "secret" | "deny-socket") {
        notes.push("the rule is not kept inside a write grant: an accepted gap".into());
    }
    if matches!(look.thing, Thing::Shut(_)) {
        notes.push("its name, size and times can be seen".into());
    } else if found.is_some() && !visible && writable == Some(true) && !to_be_made {
        notes.push("what is written there is the sandbox's own and gone afterwards".into());
    }
    let refused =
        found.as_ref().and_then(|_| refusal(&look.end, !may_read || deciding.rule == "closed", by_rule && !may_write));
    if let Some(why) = refused.as_ref().filter(|_| !special) {
        notes.push(why.clone());
    } else {
        if visible && !special && by_rule && !may_write {
            notes.push("the permissions of the file itself do not let this user write".into());
        }
        if visible && !special && !may_read {
            notes.push("the permissions of the file itself do not let this user read".into());
        }
    }
    if let Some(why) = look.end.parent().filter(|_| missing && by_rule && !may_write) {
        notes.extend(refusal(why, false, true));
    }
    if let Some(link) = look.links.last().filter(|_| !visible && !inside) {
        notes.push(format!("the link '{}' is visible, what it leads to is not", link.at.display()));
    }
    // No option helps against permissions.
    let hint = hint(&look, &deciding, found.is_some(), writable, host).filter(|_| refused.is_none());
    Explained {
        path: written.display().to_string(),
        absolute: absolute.display().to_string(),
        links: look
            .links
            .iter()
            .map(|link| Leads { at: link.at.display().to_string(), to: link.text.display().to_string() })
            .collect(),
        end: look.end.display().to_string(),
        exists_on_host: found.is_some(),
        kind: found.as_ref().map(|(_, metadata)| kind(metadata)),
        visible,
        shows,
        readable,
        writable,
        connectable: socket.then_some(may_write),
        deciding,
        notes,
        hint,
        tried: tried.map(|[name, file, read, write]| Attempted {
            name: word(name),
            file: word(file),
            read: word(read),
            write: word(write),
        }),
        agrees,
    }
}

/// Whether something absent would be made in a directory of the sandbox's own.
fn private_parent(look: &Look, by_rule: bool) -> bool {
    let parent = look.end.parent();
    by_rule && matches!(look.thing, Thing::Absent) && parent.is_some_and(|parent| !parent.is_dir())
}

/// Whether a trial had the outcome that the plan lets expect. Errors that have nothing to do with a sandbox (a busy file, a full
/// disk) say nothing.
fn agree(
    thing: &Thing,
    file: Answer,
    read: Answer,
    write: Answer,
    [readable, writable]: [bool; 2],
    by_rule: bool,
) -> bool {
    let refused = |answer: Answer| {
        matches!(
            answer,
            Answer::Failed(libc::ENOENT | libc::ENOTDIR | libc::ELOOP | libc::EROFS | libc::EACCES | libc::EPERM)
        )
    };
    let sees = match thing {
        Thing::Host(_) => !refused(file) && file != Answer::Another,
        Thing::Copy(_) | Thing::Private | Thing::Folder => !refused(file),
        Thing::Hidden => file != Answer::Works,
        Thing::Absent => refused(file),
        // Only a directory that others lead to can be opened, for its names.
        Thing::Shut(found) => found.is_dir() || read != Answer::Works,
        Thing::System | Thing::Unknown => return true,
    };
    let reads = !(readable && refused(read));
    let writes = if writable { !refused(write) } else { by_rule || write != Answer::Works };
    sees && reads && writes
}

fn hint(look: &Look, deciding: &Deciding, exists: bool, writable: Option<bool>, host: &Host) -> Option<String> {
    let path = crate::denials::abbreviated(&look.end, host);
    let remark =
        |write: bool| danger(&look.end, write, host).map(|why| format!(" (careful: {why})")).unwrap_or_default();
    let shown = matches!(look.thing, Thing::Host(_) | Thing::Copy(_));
    match deciding.rule {
        "no-view" | "own-proc" | "own-dev" => None,
        _ if host.mounts().kind(&look.end) == Some("proc") => {
            Some("no option shows another /proc of the host, the command has its own".into())
        }
        "mask" | "deny-socket" if !shown => Some("leave that rule out".into()),
        // Nobody's rule: what git obeys is protected unasked, and a grant of the very place lifts that.
        "protect" if deciding.given.is_empty() => {
            // A grant of a file is a mount on it.
            let kept = if look.end.is_file() { ", not replaced, as git and many editors do" } else { "" };
            Some(format!("-w {path} lets it be written{kept}{}", remark(true)))
        }
        "protect" => Some("leave that rule out to let it be written".into()),
        "hidden-name" => {
            let name = deciding.at.as_deref().and_then(|at| Path::new(at).file_name()).unwrap_or_default();
            Some(format!(
                "--show-hidden '{}' shows all of that name, -r {path} this one{}",
                name.display(),
                remark(false)
            ))
        }
        _ if shown && writable == Some(false) && access(&look.end, AccessFlags::W_OK).is_ok() => {
            Some(format!("-w {path} lets it be written{}", remark(true)))
        }
        _ if exists && !shown => {
            Some(format!("-r {path} shows it, -w {path} lets it be written as well{}", remark(true)))
        }
        _ => None,
    }
}

fn kind(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_dir() {
        "directory"
    } else if kind.is_file() {
        "file"
    } else if kind.is_socket() {
        "socket"
    } else if kind.is_fifo() {
        "fifo"
    } else {
        "device"
    }
}

fn word(answer: Answer) -> String {
    match answer {
        Answer::Works => "works".into(),
        Answer::Another => "another".into(),
        Answer::Untried => "untried".into(),
        Answer::Failed(errno) => format!("{:?}", Errno::from_raw(errno)),
    }
}

impl Report {
    /// The first path about which plan and trial disagree, as an error.
    pub fn verdict(&self) -> Result<()> {
        let Some(wrong) = self.paths.iter().find(|explained| !explained.agrees) else { return Ok(()) };
        Err(Error::text(
            Kind::Backend,
            format!(
                "cannot confirm what the plan says about '{}': tried inside, it is otherwise (both are printed)",
                wrong.path
            ),
        )
        .hint("files that changed meanwhile can be the reason: ask again; otherwise this is a fault of sandbox-run"))
    }

    /// For people, or as one JSON object.
    #[must_use]
    pub fn render(&self, json: bool) -> Vec<u8> {
        if json {
            return json_line(self);
        }
        let mut lines = vec![format!("backend: {}", self.backend)];
        for explained in &self.paths {
            lines.extend(explained.lines());
        }
        lines.iter().flat_map(|line| [escape(line), "\n".to_owned()]).collect::<String>().into_bytes()
    }
}

impl Explained {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{}:", self.path)];
        let mut say = |what: &str, text: &dyn fmt::Display| lines.push(format!("  {what}: {text}"));
        for link in &self.links {
            say("link", &format!("{} -> {}", link.at, link.to));
        }
        if self.end != self.path {
            say("leads to", &self.end);
        }
        say(
            "visible",
            &match (self.visible, self.shows) {
                (true, "copy") => "yes, as a copy",
                (true, _) => "yes",
                (false, "own") => "no, the sandbox has its own",
                (false, "placeholder") => "no, something empty is in its place",
                (false, _) => "no",
            },
        );
        let answer = |answer: Option<bool>| match answer {
            Some(true) => "yes",
            Some(false) => "no",
            None => "not tried, since that alone can have effects",
        };
        if self.connectable.is_some() {
            say("connect", &answer(self.connectable));
        } else {
            say("read", &answer(self.readable));
            say("write", &answer(self.writable));
        }
        let Deciding { at, given, text, .. } = &self.deciding;
        let about = at.as_ref().map(|at| format!(" ('{at}')")).unwrap_or_default();
        say("rule", &format!("{text}{about}"));
        for given in given {
            say("given", &format!("'{}' by {}", given.path, given.from));
        }
        for note in &self.notes {
            say("note", note);
        }
        if let Some(hint) = &self.hint {
            say("hint", hint);
        }
        if let Some(Attempted { name, file, read, write }) = &self.tried {
            let verdict = match (self.agrees, self.readable.or(self.connectable)) {
                (false, _) => "NOT as planned",
                (true, Some(_)) => "as planned",
                (true, None) => "as planned, as far as it was tried",
            };
            say("tried inside", &format!("{verdict} (name {name}, file {file}, read {read}, write {write})"));
        }
        lines
    }
}
