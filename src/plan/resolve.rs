//! From policy and host to a plan.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::unistd::AccessFlags;

use super::bounds::{self, Bounds};
use super::build::Builder;
use super::env::{self, Inputs, Jobserver};
use super::hidden::Scan;
use super::links::{Memory, reason, unfollowed, walk};
use super::obeyed::{self, Told};
use super::reach::{self, Scratch};
use super::streams::{self, Streams};
use super::target::{Search, Target};
use super::trace::{self, Trace, Tracing};
use super::view::{Own, Rule, View};
use super::way_out::{self, WayOut};
use super::{
    Check, Container, Create, Held, MountOp, Plan, absolute, base, closed, contained, gap, hard_links, patterns, target,
};
use crate::backend::Backend;
use crate::backend::bwrap::Features;
use crate::error::{Error, Kind, Result};
use crate::host::Host;
use crate::policy::fs::DEFAULT_TMP_SIZE;
use crate::policy::{Network, NewSession, Policy, Protection};
use crate::sys;

/// So many masks, pins and protects are left to the launcher program: below that they cost less than one more mount namespace.
const FEW: usize = 24;

/// Protections that a backend has in general and that are missing here, each with what is lost.
pub type Lost = Vec<(Protection, Cow<'static, str>)>;

/// What differs between two attempts to start the same policy.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
pub struct Attempt {
    /// No new `/proc` can be mounted here: show the host's.
    pub host_processes: bool,
    /// A control group that should have been possible could not be made: do without.
    pub ungrouped: bool,
    /// What the `bwrap` at hand can do.
    pub features: Features,
    /// Whether the target is to be traced.
    pub trace: bool,
    /// The inner stage cannot mount here: leave every mask to the launcher program.
    pub bare: bool,
    /// The number in the name of the run's own directory, where there is one; `None` where nothing is started.
    pub run: Option<u64>,
    /// The port of this host that was taken for a proxy, where the target has no other; `None` where nothing is started.
    pub port: Option<u16>,
}

impl Default for Attempt {
    fn default() -> Self {
        Self {
            host_processes: false,
            ungrouped: false,
            features: Features::ALL,
            trace: false,
            bare: false,
            run: None,
            port: None,
        }
    }
}

/// Resolves `policy` for `backend` on `host`, to start `argv`.
///
/// `known` is what the scan for hidden names found in an earlier attempt of the same call.
#[allow(clippy::too_many_lines, reason = "each step needs what those before it found")]
pub fn resolve(
    policy: &Policy,
    host: &Host,
    backend: Backend,
    argv: &[OsString],
    attempt: Attempt,
    known: Option<&Scan>,
) -> Result<Plan> {
    let mut warnings = Vec::new();
    let _memory = Memory::begin();
    let workdir = workdir(policy, host)?;
    let path = target::path_entries(host.variable("PATH"));
    let word = argv.first().ok_or_else(|| Error::text(Kind::Usage, "cannot run anything: no command given"))?;
    let (has_view, keeps_rules) = (backend.has_view(), backend.keeps_rules());
    let streams = if keeps_rules { streams::look(host)? } else { Streams::default() };
    // A socket on a standard stream belongs to the host's network, and with it to its abstract names.
    let scope_sockets = has_view && (policy.network == Network::Host || streams.open.is_some());

    let mut builder = Builder::new(host, &workdir);
    if keeps_rules {
        builder.rules(policy).map_err(|error| patterns::hint(error, policy, host, &workdir))?;
    } else {
        // What cannot be resolved is a mistake, whoever would have held it.
        absolute(policy, host)?;
        builder.missing(policy)?;
    }
    let mut hidden = Scan::default();
    let container = contained::container(policy, backend, attempt, &builder.view)?;
    let new_session = container.is_some() || new_session(policy, host);
    let target = contained::target(container.as_ref(), &Search { word, path: &path, workdir: &workdir })?;
    if keeps_rules {
        if backend == Backend::Seatbelt {
            builder.defaults_by_rules(policy, backend, attempt.run)?;
        } else {
            builder.defaults(container.is_some())?;
        }
        hidden = builder.hidden(&policy.hidden, known)?;
        builder.own_settings(policy.read_from.as_deref());
        if let Some(device) = host.terminal.as_deref().filter(|_| !new_session) {
            builder.terminal(backend, device);
        }
        builder.second_names();
        builder.remember_entries()?;
        if has_view {
            builder.view.pin();
        }
        builder.program(&target)?;
    }
    let trace = attempt.trace.then(|| trace(&mut builder, keeps_rules, host, &workdir, &target, argv, &mut warnings));
    let trace = trace.transpose()?;
    let Builder { view, create, mut notes, warnings: heeded, absent, recognised, unprotected, .. } = builder;
    warnings.extend(heeded);
    warnings.extend(patterns::warnings(policy, host, &workdir));
    match obeyed::told(&hidden, &target.literal, &workdir) {
        Some(Told::Warning(warning)) => warnings.push(warning),
        Some(Told::Note(note)) => notes.push(note),
        None => {}
    }

    let mut lost = lost(attempt, scope_sockets);
    lost.extend(streams.lost(policy.network));
    if let Some(what) = reopened(host, policy.keep_fds.keys()).filter(|_| has_view) {
        lost.push((Protection::FilesWrite, what.into()));
    }
    let mut way_out = way_out::find(policy, host, backend, attempt.port, &mut lost)?;
    notes.extend(way_out.as_ref().map(WayOut::note));
    bounds::refuse(policy, backend)?;
    let asked = reach::Asked { policy, host, streams: &streams };
    let reach = (backend == Backend::Landlock).then(|| reach::find(&view, &asked, &mut lost)).transpose()?;
    let Bounds { limits, cgroup, procs_by_rlimit } = Bounds::find(policy, backend, host, attempt, &view, &mut lost);
    let gaps = gap::gaps(policy, backend, &lost).map_err(|error| streams.hint(error, policy.network))?;
    let scratch = reach.as_ref().map(|reach| &reach.scratch);
    if let Some(way) = way_out.as_mut().filter(|way| way.looks_inside()) {
        way.trust = Some(way_out::place_for_trust(&view, scratch)?);
    }
    let environment = environment(policy, host, backend, &view, scratch, way_out.as_ref(), &workdir)?;
    warnings.extend(environment.warnings.iter().cloned());
    notes.extend(environment.notes.iter().cloned());
    warnings.extend(unisolated(backend, &gaps));
    let Mounts { operations, covers, frozen } = if has_view {
        mounts(&view, policy, backend, attempt, container.as_ref(), &mut warnings)
    } else {
        Mounts::default()
    };
    hard_links::warn(&view, host.image.as_deref(), &mut warnings, &mut notes);
    Ok(Plan {
        backend,
        argv: argv.to_vec(),
        // What is hidden by denial is still the host's file.
        checks: if has_view { checks(&view, &covers, &create, container.is_some()) } else { Vec::new() },
        view: operations,
        covers,
        frozen,
        image: image(backend, host),
        reach,
        container,
        rules: view,
        mounts: if keeps_rules { Arc::clone(host.mounts()) } else { Arc::default() },
        trace,
        create,
        absent,
        recognised,
        unprotected,
        hidden,
        environment,
        network: policy.network,
        way_out,
        host_processes: attempt.host_processes,
        scope_sockets: has_view && !lost.iter().any(|(which, _)| *which == Protection::Sockets),
        new_session,
        keep_fds: keep_fds(policy, host, &mut warnings)?,
        kill_after: policy.kill_after,
        limits,
        cgroup,
        procs_by_rlimit,
        gaps,
        warnings,
        notes,
        target,
        workdir,
    })
}

/// What is to be said where nothing is isolated.
fn unisolated(backend: Backend, gaps: &[gap::Gap]) -> Option<String> {
    let words: Vec<_> = gaps.iter().map(|gap| gap.protection).collect();
    (backend == Backend::None).then(|| format!("backend 'none' isolates nothing; not enforced: {}", words.join(", ")))
}

/// What is mounted, where a target has a view.
#[derive(Default)]
struct Mounts {
    operations: Vec<MountOp>,
    covers: BTreeSet<PathBuf>,
    frozen: Vec<PathBuf>,
}

fn mounts(
    view: &View,
    policy: &Policy,
    backend: Backend,
    attempt: Attempt,
    container: Option<&Container>,
    warnings: &mut Vec<String>,
) -> Mounts {
    let size = policy.files.tmp_size.unwrap_or(DEFAULT_TMP_SIZE);
    let mut operations = view.operations(size, attempt.host_processes);
    if container.is_some() {
        contained::adapt(container, &mut operations, size, warnings);
        return Mounts { operations, ..Mounts::default() };
    }
    let frozen = frozen(&operations, attempt, warnings);
    // Who mounts by himself has no need to leave anything to others.
    let covers = if backend == Backend::Bwrap { covers(view, attempt) } else { BTreeSet::new() };
    Mounts { operations, covers, frozen }
}

/// The environment of a target that sees `view`, or all of the host where `backend` keeps no rules.
fn environment(
    policy: &Policy,
    host: &Host,
    backend: Backend,
    view: &View,
    scratch: Option<&Scratch>,
    way_out: Option<&WayOut>,
    workdir: &Path,
) -> Result<env::Environment> {
    let mounted = backend.has_view();
    let view = Some(view).filter(|_| backend.keeps_rules());
    // Nothing can be mounted at the real place of what is private: the variables lead elsewhere.
    let private = |own| view.filter(|_| !mounted && scratch.is_none()).and_then(|view| view.own(own));
    let home = scratch.filter(|scratch| scratch.home.is_some()).map(Scratch::home);
    let tmp = match (view.map(temporary), scratch) {
        // Of the places for temporary files only one that was granted is there at its own name.
        (Some(tmp), Some(scratch)) if !view.is_some_and(|view| view.writable(tmp)) => Some(scratch.tmp()),
        (Some(tmp), _) if mounted || scratch.is_some() => Some(tmp.to_owned()),
        _ => private(Own::Shared).map(Path::to_owned),
    };
    let visible = |path: &Path| view.is_none_or(|view| walk(path).is_ok_and(|found| view.shows(&found.end)));
    let allowed = |path: &Path| {
        let found = walk(path).ok();
        let decision = view.zip(found.as_ref()).and_then(|(view, found)| Some((view.decides(&found.end)?, &found.end)));
        decision.is_some_and(|((at, rule), end)| at == end && *rule == Rule::AllowSocket)
    };
    let environment = env::prune(&Inputs {
        inherited: &host.environment,
        policy: &policy.env,
        keep_jobserver: policy.keep_jobserver,
        network_host: policy.network == Network::Host,
        proxy: way_out.map(|way| env::Proxy {
            port: way.entry.number(),
            token: way.entry.token(),
            loopback: way.serves_loopback(),
            trust: way.trust.as_deref(),
        }),
        placeholders: way_out.into_iter().flat_map(WayOut::placeholders).collect(),
        pwd: workdir,
        home: home.as_deref().or(private(Own::Home)).or(host.home.as_deref()),
        tmp: tmp.as_deref(),
        visible: &visible,
        allowed: &allowed,
    });
    let Some(name) = environment.too_large.first() else { return Ok(environment) };
    Err(Error::text(
        Kind::Policy,
        format!(
            "cannot pass variable '{}': name and value together are longer than 131071 bytes, the limit of the system",
            name.display()
        ),
    ))
}

/// The mounts that are left to the inner stage.
fn covers(view: &View, attempt: Attempt) -> BTreeSet<PathBuf> {
    let mounts = if attempt.bare { BTreeSet::new() } else { view.last_mounts() };
    if mounts.len() > FEW { mounts } else { BTreeSet::new() }
}

/// Our own executable, where it is executed by name.
fn image(backend: Backend, host: &Host) -> Option<PathBuf> {
    match backend {
        Backend::Bwrap => own_image(host).map(Path::to_owned),
        Backend::Seatbelt => host.image.clone(),
        Backend::Namespace | Backend::Landlock | Backend::Container(_) | Backend::JobObject | Backend::None => None,
    }
}

/// Our own executable, for a user who can change it and is not root, for whom there is a better way (`sys::image`).
fn own_image(host: &Host) -> Option<&Path> {
    let user = nix::unistd::geteuid();
    let image = host.image.as_deref()?;
    let own = std::fs::metadata(image).ok()?.uid() == user.as_raw();
    (!user.is_root() && (own || nix::unistd::access(image, AccessFlags::W_OK).is_ok())).then_some(image)
}

/// Devices that the inner stage makes read-only: for root, whose they are.
fn frozen(operations: &[MountOp], attempt: Attempt, warnings: &mut Vec<String>) -> Vec<PathBuf> {
    let devices = if nix::unistd::geteuid().is_root() { devices(operations) } else { Vec::new() };
    if !attempt.bare || devices.is_empty() {
        return devices;
    }
    warnings.push(
        "the command can change mode, owner and times of device nodes of the host: nothing can be mounted read-only here".into(),
    );
    Vec::new()
}

/// Device nodes that the view takes from the host, and directories of the host's `/dev`.
fn devices(operations: &[MountOp]) -> Vec<PathBuf> {
    let mut devices = Vec::new();
    let host = std::fs::metadata("/dev").ok().map(|found| found.dev());
    for op in operations {
        match op {
            MountOp::Dev { at } => devices.extend(base::DEVICES.iter().map(|(name, ..)| at.join(name))),
            MountOp::Bind { from, at, device: true, .. }
                if std::fs::symlink_metadata(from).is_ok_and(|found| {
                    let kind = found.file_type();
                    kind.is_char_device() || kind.is_block_device() || (kind.is_dir() && Some(found.dev()) == host)
                }) =>
            {
                devices.push(at.clone());
            }
            _ => {}
        }
    }
    devices
}

/// How `target` is traced. Without a tracer, or where a mask hides it, nothing runs: a list was asked for, and there would be none.
fn trace(
    builder: &mut Builder,
    keeps_rules: bool,
    host: &Host,
    workdir: &Path,
    target: &Target,
    argv: &[OsString],
    warnings: &mut Vec<String>,
) -> Result<Tracing> {
    const LOUD: &str =
        "--trace: the command may trace its processes and read their memory in this run, which is refused otherwise";
    let refuse = |reason: &str| Error::text(Kind::Policy, format!("cannot trace the command (--trace): {reason}"));
    if !cfg!(target_os = "linux") {
        return Err(refuse("it takes strace, which only Linux has"));
    }
    if trace::is_tracer(&target.literal) {
        let name = target.literal.file_name().unwrap_or_default().display();
        warnings.push(format!("{LOUD}; '{name}' is a tracer itself: what it is refused is not listed"));
        return Ok(Tracing::Target);
    }
    let path = host.variable("PATH");
    let Some(strace) = trace::find(&target::path_entries(path), workdir) else {
        return Err(refuse("there is no strace in PATH").hint(
            "install strace (Debian, Ubuntu: apt-get install strace; Fedora: dnf install strace); without --trace the \
             command runs untraced",
        ));
    };
    let trace = Trace::new(&strace, target, argv, path);
    if keeps_rules {
        builder.program(&strace).map_err(|error| {
            let refused = refuse(&error.to_string());
            error.hints().iter().fold(refused, |refused, hint| refused.hint(hint.clone()))
        })?;
    }
    warnings.push(format!("{LOUD}; it runs slower, and inherits one more descriptor"));
    Ok(Tracing::Strace(trace))
}

/// The directory in which the target starts, without links; it must be there and be searchable.
pub(super) fn workdir(policy: &Policy, host: &Host) -> Result<PathBuf> {
    let refuse = |what: &Path, reason: &dyn std::fmt::Display| {
        Error::text(Kind::Policy, format!("cannot start in directory '{}': {reason}", what.display()))
    };
    let cwd = host.cwd.as_ref().map_err(|error| {
        Error::text(Kind::Policy, format!("cannot find the working directory: {}", sys::process::describe(error)))
    });
    let written = match &policy.workdir {
        None => cwd?.clone(),
        Some(path) => super::build::expand(path, host, cwd.ok().map(PathBuf::as_path))?,
    };
    let found = walk(&written).map_err(|error| refuse(&written, &reason(&written, &error)))?;
    if !found.metadata.is_dir() {
        return Err(refuse(&written, &"not a directory"));
    }
    nix::unistd::access(&found.end, AccessFlags::X_OK)
        .map_err(|errno| refuse(&written, &sys::process::reason(errno as i32)))?;
    Ok(found.end)
}

/// What this host, or this attempt, takes away from the backend.
fn lost(attempt: Attempt, scope_sockets: bool) -> Lost {
    let mut lost = Vec::new();
    if attempt.host_processes {
        lost.push((
            Protection::Processes,
            "/proc of the host shows through, with the command lines of all its processes".into(),
        ));
    }
    if scope_sockets && !sys::landlock::scopes(sys::landlock::version()) {
        lost.push((
            Protection::Sockets,
            "abstract sockets of the host stay reachable with --net host, and by a Unix socket as a standard stream, on a \
             kernel without Landlock ABI 6"
                .into(),
        ));
    }
    lost
}

/// A file that the target gets for reading, and could open again for writing where Landlock does not keep it from that.
fn reopened<'a>(host: &Host, kept: impl IntoIterator<Item = &'a i32>) -> Option<String> {
    if sys::landlock::binds_writing(sys::landlock::version()) {
        return None;
    }
    let streams = (0..3).zip(host.inherited.closed).filter(|(_, closed)| !closed).map(|(number, _)| number);
    let number = streams.chain(kept.into_iter().copied()).find(|number| sys::fd::could_be_written_anew(*number))?;
    Some(format!(
        "descriptor {number} is a file open for reading; without Landlock ABI 2 it can be written by its name in /proc"
    ))
}

/// Where temporary files go: `/tmp`, unless a rule took that away.
fn temporary(view: &View) -> &'static Path {
    let tmp = Path::new("/tmp");
    match view.decides(tmp) {
        Some((_, Rule::Own(Own::Shared) | Rule::Write)) => tmp,
        _ => Path::new("/dev/shm"),
    }
}

fn new_session(policy: &Policy, host: &Host) -> bool {
    match policy.new_session {
        NewSession::Always => true,
        NewSession::Never => false,
        NewSession::Auto => !host.terminals.contains(&true),
    }
}

/// The descriptors that cross; each must be open.
fn keep_fds(policy: &Policy, host: &Host, warnings: &mut Vec<String>) -> Result<BTreeSet<i32>> {
    if let Some((closed, origin)) = policy.keep_fds.iter().find(|(fd, _)| !sys::fd::is_open(**fd)) {
        return Err(Error::text(Kind::Policy, format!("cannot keep descriptor {closed} ({origin}): it is not open")));
    }
    let mut keep: BTreeSet<i32> = policy.keep_fds.keys().copied().collect();
    if policy.keep_jobserver {
        match host.variable("MAKEFLAGS").and_then(env::jobserver) {
            Some(Jobserver::Pipe { read, write }) if [read, write].iter().all(|fd| sys::fd::is_open(*fd)) => {
                keep.extend([read, write].into_iter().filter(|fd| *fd > 2));
            }
            Some(Jobserver::Pipe { .. }) => warnings.push(
                "the jobserver of make is not open here; put '+' before the recipe line that calls sandbox-run".into(),
            ),
            Some(Jobserver::Fifo(_)) | None => {}
        }
    }
    Ok(keep)
}

fn checks(view: &View, covers: &BTreeSet<PathBuf>, create: &[Create], by_engine: bool) -> Vec<Check> {
    let to_be_made = |path: &Path| create.iter().any(|wanted| path.starts_with(&wanted.first));
    let promises = view.promises().map(|(path, held)| (Cow::Borrowed(path), held));
    // An engine makes a directory of its own, which is the host's by what is in it.
    let nodes = view.promises().filter(|(_, held)| by_engine && *held == Held::Shown);
    let nodes = nodes.flat_map(|(path, held)| contained::nodes(path).into_iter().map(move |node| (node.into(), held)));
    promises
        .chain(nodes)
        .filter_map(|(path, held): (Cow<Path>, Held)| {
            let (device, inode, changed) = match unfollowed(&path) {
                Ok(found) => {
                    let (device, inode) = super::identity(&path, &found, held, by_engine);
                    (device, inode, (found.ctime(), found.ctime_nsec()))
                }
                // Gone since the rule was made, or a link has come: no file has these numbers, so that it is missed.
                Err(error) => {
                    let gone = closed::is_absence(&error);
                    let must = matches!(held, Held::Pinned | Held::Protected) && !to_be_made(&path);
                    if gone && !must {
                        return None;
                    }
                    (0, 0, (0, 0))
                }
            };
            let covered = covers.contains(&*path);
            Some(Check { path: path.into_owned(), device, inode, changed, held, covered })
        })
        .collect()
}
