//! Seatbelt of macOS: the plan as a profile, which `sandbox-exec` applies to the inner stage and all that comes of it.
//!
//! Pure text, the same on every system, so that it is tested where there is no Mac; none of it was tried on one. Nothing is
//! mounted: a file is hidden by denial, and what is to be private is a directory of the run with variables that lead there.
//!
//! Denials come after all that they touch, and except what they do not mean: see `regions`.

mod regions;
mod services;

use crate::error::{Error, Kind, Result};
use crate::launch::{Command, Launch, Word};
use crate::plan::Plan;
use crate::plan::base::macos;
use crate::plan::view::{Rule, View};
use crate::plan::way_out::Entry;
use crate::policy::protection::{PER_PROCESS, Strength};
use crate::policy::{Network, Protection};

use super::sbpl::{Expr, MAX_PROFILE, Profile, Text, Unsayable};
use regions::{Access, Denial, Regions};

/// What is enforced, and where it ends.
#[must_use]
pub const fn strength(protection: Protection) -> Strength {
    match protection {
        Protection::FilesRead => {
            Strength::Partial("that a file exists, its size and its times can be asked for anywhere but below masks")
        }
        Protection::FilesWrite | Protection::Network | Protection::Environment | Protection::Output => {
            Strength::Enforced
        }
        Protection::Masks => Strength::Partial(
            "names of what is masked are listed, and a file is seen under another name (hard link) that the host gives it",
        ),
        Protection::Sockets => Strength::Partial(
            "a Unix socket inside a write grant can be used unless it is denied, and so can system services",
        ),
        Protection::Processes => {
            Strength::Partial("processes of the host can be counted, and one that hides by forking may outlive the run")
        }
        Protection::Privileges => Strength::Partial(
            "root stays root within the rules, and a terminal that is shared takes input from the command",
        ),
        Protection::Cpu => Strength::Partial(PER_PROCESS),
        Protection::FileSize | Protection::OpenFiles => Strength::Partial("root can raise it again"),
        Protection::Time => Strength::Partial(
            "what is left at the end is looked for from outside, and one that hides by forking may outlive it",
        ),
        Protection::Memory | Protection::Procs => Strength::Absent,
    }
}

/// The program that applies a profile: never looked for in PATH.
pub const PROGRAM: &str = "/usr/bin/sandbox-exec";

/// The status of that program when the profile was not applied.
pub const NOT_APPLIED: i32 = 71;

/// Whether a launcher that ended with `status` did so because it is inside a sandbox already: profiles do not nest.
///
/// Only the inner stage's word tells that from a target that exits with the same status.
#[must_use]
pub fn is_nested(status: i32, started: bool) -> bool {
    status == NOT_APPLIED && !started
}

/// What makes a file readable, as a program and as a library too.
const READ: [&str; 3] = ["file-read*", "file-map-executable", "process-exec*"];

/// The same with writing.
const WRITE: [&str; 4] = ["file-read*", "file-map-executable", "process-exec*", "file-write*"];

/// All that is allowed of a file by some rule, each by its own name: by the reading that takes the rule about the most specific
/// operation, a denial of what contains it would not count.
const HIDE: [&str; 5] = ["file-read*", "file-read-metadata", "file-map-executable", "process-exec*", "file-write*"];

/// Reading without asking whether it is there.
const LIST: [&str; 4] = ["file-read-data", "file-read-xattr", "file-map-executable", "process-exec*"];

/// Which rules, of directories or of single files, belong to a group.
type Wanted = fn(&Rule, bool) -> bool;

/// The profile of a plan, and how it is applied.
pub fn launch(plan: &Plan) -> Result<Launch> {
    let Plan {
        rules,
        network,
        way_out,
        image,
        container: _,
        trace,
        // Mounts are not made here.
        view: _,
        covers: _,
        frozen: _,
        host_processes: _,
        mounts: _,
        scope_sockets: _,
        // Another backend's.
        reach: _,
        // The inner stage's part: it gets these by the hand-off.
        backend: _,
        target: _,
        argv: _,
        workdir: _,
        environment: _,
        create: _,
        absent: _,
        recognised: _,
        unprotected: _,
        checks: _,
        hidden: _,
        new_session: _,
        keep_fds: _,
        kill_after: _,
        limits: _,
        cgroup: _,
        procs_by_rlimit: _,
        gaps: _,
        warnings: _,
        notes: _,
    } = plan;
    let image = image.as_ref().ok_or_else(|| {
        Error::text(
            Kind::Backend,
            "cannot start the sandbox: the file of sandbox-run is no longer where it was started",
        )
    })?;
    let entry = way_out.as_ref().map(|way| &way.entry);
    let profile = profile(rules, *network, entry, trace.is_some())?;
    if profile.len() > MAX_PROFILE {
        let text = format!(
            "cannot write the profile of Seatbelt: it comes to {} bytes, and at most {MAX_PROFILE} are written",
            profile.len()
        );
        return Err(Error::text(Kind::Backend, text).hint("grant or mask directories instead of many files"));
    }
    Ok(Launch::Program(Command {
        program: PROGRAM.into(),
        arguments: vec!["-f".into(), Word::Private(profile), Word::Text(image.clone().into_os_string())],
        options: Vec::new(),
        door: None,
    }))
}

/// The text for `rules`, with the one port of `entry`; with `logged` the system's log tells of each denial.
fn profile(rules: &View, network: Network, entry: Option<&Entry>, logged: bool) -> Result<String> {
    let regions = Regions::of(rules);
    let mut profile = Profile::new();
    let silent = (!logged).then(|| Expr::form("with", [Expr::Word("no-log")]));
    match silent {
        Some(silent) => profile.rule("deny", &["default"], [silent]),
        None => profile.everywhere("deny", &["default"]),
    }
    processes(&mut profile);
    services::base(&mut profile)?;
    // A program may ask about a pipe, which has no path.
    profile.heading("metadata");
    profile.everywhere("allow", &["file-read-metadata"]);
    services::devices(&mut profile)?;
    allow_files(&mut profile, &regions)?;
    deny_files(&mut profile, &regions)?;
    services::network(&mut profile, network, entry)?;
    sockets(&mut profile, &regions)?;
    Ok(profile.text())
}

fn processes(profile: &mut Profile) {
    profile.heading("processes");
    profile.everywhere("allow", &["process-fork"]);
    let inside = || Expr::form("target", [Expr::Word("same-sandbox")]);
    profile.rule("allow", &["signal", "process-info*"], [inside()]);
}

/// Every rule that shows something.
fn allow_files(profile: &mut Profile, regions: &Regions) -> Result<()> {
    profile.heading("system");
    profile.rule("allow", &READ, regions.allowed(Access::Read, |rule, _| matches!(rule, Rule::System { .. }))?);
    let links = macos::LINKS.iter().map(|(link, _)| *link).chain(["/"]);
    let links: Result<Vec<_>> = links.map(|link| regions::whole(link.as_ref(), false)).collect();
    profile.rule("allow", &["file-read*"], links?);
    if !regions.hides(services::CACHES.as_ref()) {
        profile.rule("allow", &READ, [services::dyld_cache()?]);
    }
    let groups: [(&str, &[&str], Wanted); 6] = [
        ("working directory", &READ, |rule, _| *rule == Rule::Workdir),
        ("programs and links", &READ, |rule, _| matches!(rule, Rule::Program | Rule::Link { .. } | Rule::AllowSocket)),
        ("private directories", &WRITE, |rule, _| matches!(rule, Rule::Own(_))),
        ("read grants", &READ, |rule, _| matches!(rule, Rule::Read | Rule::Protect)),
        ("write grants", &WRITE, |rule, directory| *rule == Rule::Write && directory),
        ("files with a write grant", &WRITE, |rule, directory| *rule == Rule::Write && !directory),
    ];
    for (heading, operations, wanted) in groups {
        let filters = regions.allowed(Access::Read, wanted)?;
        if !filters.is_empty() {
            profile.heading(heading);
            profile.rule("allow", operations, filters);
        }
    }
    // Whoever asks for the real name of a file looks at each directory above it.
    profile.heading("ancestors");
    profile.rule("allow", &["file-read-metadata"], regions.ancestors()?);
    Ok(())
}

/// Every rule that takes something away from what a wider one shows.
fn deny_files(profile: &mut Profile, regions: &Regions) -> Result<()> {
    let groups: [(&str, Wanted); 2] = [
        ("masks and hidden names", |rule, _| matches!(rule, Rule::Mask | Rule::Hidden | Rule::DenySocket)),
        ("secrets", |rule, _| *rule == Rule::Secret),
    ];
    for (heading, wanted) in groups {
        let as_it_is = |filter| filter;
        let Denial { covered: unread, passed } = regions.denied(Access::Read, wanted, as_it_is)?;
        let Denial { covered: unwritten, .. } = regions.denied(Access::Write, wanted, as_it_is)?;
        if unread.is_empty() {
            continue;
        }
        profile.heading(heading);
        // One list where both are the same: the rule is.
        if unread == unwritten {
            profile.rule("deny", &HIDE, unread);
        } else {
            profile.rule("deny", &HIDE[..4], unread);
            profile.rule("deny", &LIST, passed);
            profile.rule("deny", &["file-write*"], unwritten);
        }
    }
    // The second name of everything, in case the system should ever decide by that one.
    profile.rule("deny", &HIDE, [regions::whole(macos::DATA.as_ref(), true)?]);
    let Denial { covered: kept, .. } = regions.denied(Access::Write, |rule, _| !rule.hides(), |filter| filter)?;
    if !kept.is_empty() {
        profile.heading("read-only inside write grants");
        profile.rule("deny", &["file-write*"], kept);
    }
    profile.heading("names that are kept");
    profile.rule("deny", &["file-write-unlink"], regions.held()?);
    Ok(())
}

/// Unix sockets by path: those in write grants, and those that are allowed.
fn sockets(profile: &mut Profile, regions: &Regions) -> Result<()> {
    let allowed = regions.allowed(Access::Connect, |_, _| true)?;
    profile.heading("sockets");
    profile.rule("allow", &["system-socket"], [Expr::form("socket-domain", [Expr::Word("AF_UNIX")])]);
    profile.rule("allow", &["network-outbound"], allowed.iter().cloned().map(remote));
    profile.rule("allow", &["network-bind", "network-inbound"], allowed.into_iter().map(local));
    let away = regions.denied(Access::Connect, |_, _| true, remote)?.covered;
    profile.rule("deny", &["network-outbound"], away);
    let away = regions.denied(Access::Connect, |_, _| true, local)?.covered;
    profile.rule("deny", &["network-bind", "network-inbound"], away);
    Ok(())
}

/// The filter of a socket at the other end, from that of its path.
fn remote(path: Expr) -> Expr {
    Expr::form("remote", [Expr::Word("unix-socket"), of_socket(path)])
}

/// The filter of a socket of one's own.
fn local(path: Expr) -> Expr {
    Expr::form("local", [Expr::Word("unix-socket"), of_socket(path)])
}

/// Filters of paths have other names about sockets.
fn of_socket(path: Expr) -> Expr {
    match path {
        Expr::Form("literal", of) => Expr::Form("path-literal", of),
        Expr::Form("regex", of) => Expr::Form("path-regex", of),
        other => other,
    }
}

/// A filter of one of our own names.
fn of(name: &'static str, text: &str) -> Result<Expr> {
    Ok(Expr::of_text(name, Text::new(text).map_err(unsayable)?))
}

fn unsayable(reason: Unsayable) -> Error {
    Error::text(Kind::Backend, format!("cannot write a profile of Seatbelt: {reason}"))
}
