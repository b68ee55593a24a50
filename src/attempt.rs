//! Attempts: the backends of a policy in order, each adapted to what the machine turns out to be.
//!
//! The launch is its own probe: the first backend that works here and enforces the whole policy runs the target. Once the
//! target has started there is no second attempt.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use crate::backend::bwrap::Features;
use crate::backend::{self, Backend, Tools};
use crate::denials::{ByProxy, Summary};
use crate::error::{Error, Kind, Result};
use crate::exit::Status;
use crate::host::Host;
use crate::plan::hidden::{Scan, suspects};
use crate::plan::resolve::Attempt;
use crate::plan::{self, Check, Held, Plan, identity};
use crate::policy::hidden::ALL_BUT_SECRETS;
use crate::policy::{Origin, Policy, Protection};
use crate::report::Reports;
use crate::stage::account::Account;
use crate::stage::cgroup::Mechanism;
use crate::stage::control::Step;
use crate::stage::fault::Fault;
use crate::stage::made::Made;
use crate::stage::outcome::{Outcome, Reason};
use crate::stage::outer;
use crate::stage::private::Private;
use crate::stage::secrets::Secrets;
use crate::stage::trial::{Act, Answer, Trial};
use crate::stage::way_out::Port;
use crate::{diagnose, engine, explain, log, sys};

/// A plan with the tools it was made for.
pub type Planned = (Plan, Tools);

/// The plan of the first backend that can be planned for, without trying it.
pub fn plan_only(policy: &Policy, host: &Host, target: &[OsString], trace: bool) -> Result<Planned> {
    let mut refusals = Vec::new();
    for backend in &policy.backends.list {
        match prepare(policy, host, *backend, target, Attempt { trace, ..Attempt::default() }) {
            Ok(planned) => return Ok(planned),
            Err(error) if passes_to_next(&error) => refusals.push((*backend, error)),
            Err(error) => return Err(error),
        }
    }
    Err(all_failed(refusals))
}

/// Plan and tools for one backend.
pub fn prepare(
    policy: &Policy,
    host: &Host,
    backend: Backend,
    target: &[OsString],
    attempt: Attempt,
) -> Result<Planned> {
    if matches!(backend, Backend::Bwrap | Backend::Namespace) {
        // What it is told depends on mounts that no other system has.
        diagnose::elsewhere(backend)?;
    }
    prepare_knowing(policy, host, backend, target, attempt, None)
}

/// The same with what the scan for hidden names found in an earlier attempt.
fn prepare_knowing(
    policy: &Policy,
    host: &Host,
    backend: Backend,
    target: &[OsString],
    attempt: Attempt,
    known: Option<&Scan>,
) -> Result<Planned> {
    if backend == Backend::Landlock {
        // Before the plan, which would only have gaps to tell of.
        let version = sys::landlock::probe().map_err(|error| diagnose::no_landlock(&error))?;
        if !sys::landlock::binds_writing(version) {
            return Err(diagnose::old_landlock(version));
        }
    }
    if backend == Backend::JobObject {
        return Err(backend::jobobject::of_windows());
    }
    let plan = plan::resolve(policy, host, backend, target, attempt, known)?;
    let (mut bwrap, mut engine) = (PathBuf::new(), None);
    match backend {
        Backend::Bwrap | Backend::Container(_) => {
            // A working directory of `/` or `/usr` would distrust the system itself, and so would a write grant of `/`.
            let system = |path: &Path| plan::base::PROGRAMS.iter().any(|dir| Path::new(dir).starts_with(path));
            let workdir = Some(plan.workdir.as_path()).filter(|path| !system(path));
            let writable = plan.writable().filter(|path| *path != Path::new("/"));
            let untrusted: Vec<_> = workdir.into_iter().chain(writable).collect();
            if let Backend::Container(wanted) = backend {
                let found = engine::find(host, wanted, &untrusted)?;
                let settings = engine::settings(host, found.engine);
                backend::container::check(&plan, &found, &engine::sockets(host), &settings)?;
                engine = Some(found);
            } else {
                bwrap = host.find_tool("bwrap", &untrusted).map_err(|passed_over| diagnose::no_bwrap(&passed_over))?;
            }
        }
        Backend::Namespace | Backend::Landlock | Backend::Seatbelt | Backend::JobObject | Backend::None => {}
    }
    Ok((plan, Tools { bwrap, features: attempt.features, engine }))
}

/// Whether another backend of the list may still do better.
fn passes_to_next(error: &Error) -> bool {
    matches!(error.kind(), Kind::Gap | Kind::Backend)
}

/// All backends of the list failed: one error with every reason, and the remedies of all.
fn all_failed(mut refusals: Vec<(Backend, Error)>) -> Error {
    let all_gaps = refusals.iter().all(|(_, error)| error.kind() == Kind::Gap);
    let kind = if all_gaps { Kind::Gap } else { Kind::Backend };
    if refusals.len() == 1
        && let Some((_, only)) = refusals.pop()
    {
        return only;
    }
    let reasons: Vec<_> = refusals.iter().map(|(_, error)| error.to_string()).collect();
    let mut all = Error::text(kind, format!("cannot run the command in any sandbox: {}", reasons.join("; ")));
    for hint in refusals.iter().flat_map(|(_, error)| error.hints()) {
        all = all.hint(hint.clone());
    }
    all
}

/// Prepares this process for a run; signals wait from here on until the run takes them.
pub fn settle() -> Result<()> {
    // Inside there is one user; what another one may do would come along, and could be taken up again.
    if !sys::process::is_one_user() {
        let text = "cannot run as two users at once: real, effective and saved ids differ";
        return Err(
            Error::text(Kind::Backend, text).hint("'sudo -u USER' or 'setpriv --reuid USER' becomes one of them")
        );
    }
    outer::settle().map_err(|error| {
        Error::text(Kind::Backend, format!("cannot prepare this process: {}", sys::process::describe(&error)))
    })
}

/// What a sandbox is started for.
enum Errand<'a> {
    /// The target, under a tracer or not.
    Run { trace: bool, reports: &'a mut Reports, secrets: Secrets },
    /// Finding out what the target could do: asked for once the plan is known.
    Try { trace: bool, ask: &'a mut dyn FnMut(&mut Plan) -> Result<Vec<Trial>> },
}

/// How an errand ended.
struct Ran {
    status: Status,
    plan: Plan,
    tried: Vec<(Act, Answer)>,
}

/// Everything tried with one path: [`Act::ALL`] in order.
pub type Tried = [Answer; 4];

/// Runs the target under the first backend of the policy that starts it.
pub fn execute(
    policy: &Policy,
    host: &Host,
    target: &[OsString],
    trace: bool,
    reports: &mut Reports,
) -> Result<Status> {
    let ran = run_errand(policy, host, target, &mut Errand::Run { trace, reports, secrets: Secrets::default() })?;
    if matches!(ran.status, Status::Exited(1..)) && ran.plan.backend.keeps_rules() {
        if let Some(names) = suspects(&ran.plan.hidden, &ran.plan.rules) {
            tracing::info!(
                "if the command wants what an earlier run left: names that nobody listed and that are no well-known secrets are \
                 hidden, '--show-hidden {ALL_BUT_SECRETS}' shows them, '--show-hidden NAME' one: {names}"
            );
        }
        tracing::info!(
            "if the sandbox may be the reason: '--trace' lists what the command was refused, '--explain PATH' tells what it can \
             do with a path"
        );
    }
    Ok(ran.status)
}

/// Starts a sandbox as for the target under the first backend of the policy that works, and tries in its place what `ask` says.
pub fn try_out(
    policy: &Policy,
    host: &Host,
    target: &[OsString],
    trace: bool,
    ask: &mut dyn FnMut(&mut Plan) -> Result<Vec<Trial>>,
) -> Result<(Plan, Vec<Tried>)> {
    let Ran { status, plan, tried } = run_errand(policy, host, target, &mut Errand::Try { trace, ask })?;
    if !matches!(status, Status::Exited(0) | Status::Done) {
        return Err(Error::text(Kind::Backend, "cannot finish: interrupted by a signal"));
    }
    let (each, rest) = tried.as_chunks::<4>();
    if !rest.is_empty() || each.iter().any(|answers| answers.map(|(act, _)| act) != Act::ALL) {
        return Err(Error::text(Kind::Backend, "cannot try what the plan says: an answer is missing"));
    }
    Ok((plan, each.iter().map(|answers| answers.map(|(_, answer)| answer)).collect()))
}

fn run_errand(policy: &Policy, host: &Host, target: &[OsString], errand: &mut Errand) -> Result<Ran> {
    settle()?;
    let mut created = Made::default();
    let done = run_by_any(policy, host, target, errand, &mut created);
    created.take_back();
    done
}

fn run_by_any(
    policy: &Policy,
    host: &Host,
    target: &[OsString],
    errand: &mut Errand,
    created: &mut Made,
) -> Result<Ran> {
    let mut refusals = Vec::new();
    let mut told = BTreeSet::new();
    for backend in &policy.backends.list {
        match attempt(policy, host, *backend, target, &mut told, errand, created) {
            Ok(ran) => return Ok(ran),
            Err(error) if passes_to_next(&error) => {
                tracing::info!("backend '{backend}' is passed over: {error}");
                refusals.push((*backend, error));
            }
            Err(error) => return Err(error),
        }
    }
    Err(all_failed(refusals))
}

/// Runs the target under `backend`, adapting to what the launcher program turns out not to do.
///
/// `told` is what earlier attempts have warned of; nobody needs to hear it twice. What is missing of write grants is made,
/// and left in `created` until the target has started.
fn attempt(
    policy: &Policy,
    host: &Host,
    backend: Backend,
    target: &[OsString],
    told: &mut BTreeSet<String>,
    errand: &mut Errand,
    created: &mut Made,
) -> Result<Ran> {
    diagnose::elsewhere(backend)?;
    let (Errand::Run { trace, .. } | Errand::Try { trace, .. }) = *errand;
    let mut attempt = Attempt { trace, run: Private::number(backend)?, ..Attempt::default() };
    let mut known: Option<Scan> = None;
    let mut stale = 0;
    let mut remade = 0;
    loop {
        let begun = Instant::now();
        let port = take_port(policy, backend)?;
        attempt.port = port.as_ref().map(Port::number);
        let (mut plan, tools) = prepare_knowing(policy, host, backend, target, attempt, known.as_ref())?;
        plan::heed()?;
        let trials = match errand {
            Errand::Run { .. } => Vec::new(),
            Errand::Try { ask, .. } => ask(&mut plan)?,
        };
        if let Errand::Run { reports, .. } = errand {
            reports.protect(&mut plan);
        }
        let launch = backend::launch(&plan, &tools)?;
        backend::check_size(&launch).map_err(|error| told_of_hidden(error, &plan))?;
        if let Errand::Run { reports, secrets, .. } = errand {
            reports.guard(&plan)?;
            if !plan.create.is_empty() && remade < MAX_STALE {
                plan.create.iter().try_for_each(|wanted| created.make(wanted))?;
                // From now on it is a directory like any other: nothing is known of it that a plan would not see.
                remade += 1;
                known = None;
                continue;
            }
            reports.hold(&mut plan)?;
            secrets.find(&plan, host)?;
        }
        announce(&plan, told);
        let mode = match errand {
            Errand::Run { reports, secrets, .. } => {
                reports.chose(&plan);
                if tracing::enabled!(tracing::Level::DEBUG) {
                    for line in explain::decisions(&plan, policy, host) {
                        tracing::debug!("{line}");
                    }
                    let (mounts, names) = (plan.view.len(), plan.hidden.len());
                    let text = format!("{mounts} mounts, {names} hidden names, after {}", milliseconds(begun));
                    tracing::debug!("backend '{backend}' is tried: {text}");
                }
                tracing::info!(
                    "backend '{backend}' starts '{}' in '{}'",
                    plan.target.exec.display(),
                    plan.workdir.display()
                );
                outer::Mode::Run(outer::Run { wish: reports.wish(), net_log: reports.net_log(), secrets })
            }
            Errand::Try { .. } => outer::Mode::Try(&trials),
        };
        let begun = Instant::now();
        let (outcome, mut account) = outer::run(&plan, &launch, host, mode, port);
        if account.started_at.is_some() {
            created.keep();
        }
        let tried = std::mem::take(&mut account.tried);
        tell_denials(&mut account, &plan, policy, host, succeeded(&outcome));
        if let Errand::Run { reports, .. } = errand {
            reports.account(account);
        }
        match outcome {
            Outcome::Ended(status) => {
                tracing::debug!("backend '{backend}' is done, after {}", milliseconds(begun));
                return Ok(Ran { status, plan, tried });
            }
            Outcome::NotExecuted(errno) => return Err(not_executed(&plan, errno)),
            Outcome::Unfit(error) => return Err(told_of_image(error, &plan)),
            Outcome::NotStarted(reason) => {
                if let Errand::Run { reports, .. } = errand {
                    reports.passed_over();
                }
                tracing::debug!("backend '{backend}' did not start, after {}: {reason}", milliseconds(begun));
                if stale < MAX_STALE && overtaken(&plan, &reason) {
                    stale += 1;
                    known = Some(plan.hidden);
                    continue;
                }
                match adapt(policy, &plan, &tools, attempt, &reason)? {
                    Some(next) => attempt = next,
                    None => {
                        return Err(told_of_hidden(
                            diagnose::not_started(backend, tools.program(backend).unwrap_or(Path::new("")), &reason),
                            &plan,
                        ));
                    }
                }
            }
        }
    }
}

/// The port of this host that the proxy is to have, where it needs one: known before there is a plan.
fn take_port(policy: &Policy, backend: Backend) -> Result<Option<Port>> {
    Port::of(policy, backend).map_err(|error| {
        let text = format!("cannot take a port for the proxy of --allow-host: {}", sys::process::describe(&error));
        Error::text(Kind::Backend, text)
    })
}

/// Says what a trace told of, and the proxy of such a run.
fn tell_denials(account: &mut Account, plan: &Plan, policy: &Policy, host: &Host, succeeded: bool) {
    let Some(denials) = account.denials.take() else { return };
    let by_proxy = ByProxy { requests: account.requests.as_ref(), remedies: &account.remedies };
    let Summary { denials, probes } = denials.summary(plan, policy, host, succeeded, &by_proxy);
    for denial in &denials {
        log::wanted(denial);
    }
    for probe in &probes {
        tracing::info!("{probe}");
    }
}

/// Whether the target says of itself that it did its work.
fn succeeded(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Ended(Status::Exited(0)))
}

/// How long ago that was, for readers.
fn milliseconds(since: Instant) -> String {
    format!("{} ms", since.elapsed().as_millis())
}

/// From this number of hidden names on they may be the reason why a launch is too large: bubblewrap keeps a descriptor open for
/// each file, and 1024 is a common limit.
const MANY: usize = 500;

/// How long a program may take to print its help.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often a run is started anew because hidden names came and went meanwhile: two or three are the rule, each takes
/// milliseconds.
const MAX_STALE: u32 = 100;

/// Whether an attempt can have failed because something went away between plan and mount that nobody named, or that is only
/// kept from changes: no fault of the backend.
///
/// The next attempt hides what the first scan found and what is still there. A new scan could meet new names for ever.
fn overtaken(plan: &Plan, reason: &Reason) -> bool {
    // A number of a deleted file is given again at once; the time of the last change is not.
    let gone = |check: &Check| match std::fs::symlink_metadata(&check.path) {
        Err(_) => true,
        Ok(now) => {
            let by_engine = plan.container.is_some();
            let other = identity(&check.path, &now, check.held, by_engine) != (check.device, check.inode);
            // A directory is changed by whatever is made in it, and is younger only when it is another.
            let (seconds, nanoseconds) = check.changed;
            let changed = u64::try_from(seconds).ok().zip(u32::try_from(nanoseconds).ok());
            let changed = changed.and_then(|(seconds, rest)| UNIX_EPOCH.checked_add(Duration::new(seconds, rest)));
            let younger = changed.zip(now.created().ok()).is_some_and(|(changed, born)| born > changed);
            let changed = check.held == Held::Protected && (now.ctime(), now.ctime_nsec()) != check.changed;
            other || younger || changed
        }
    };
    let mut kept = plan.checks.iter().filter(|check| matches!(check.held, Held::Pinned | Held::Protected));
    let in_time = matches!(reason.step, None | Some(Step::View | Step::Cover | Step::Landlock));
    !reason.hung && in_time && (plan.hidden.is_stale() || kept.any(gone))
}

/// Says what makes a plan large when nobody typed that many paths.
fn told_of_hidden(error: Error, plan: &Plan) -> Error {
    if plan.hidden.len() < MANY {
        return error;
    }
    error.hint(format!(
        "{} of its mounts hide names that begin with a dot; those in cwd_allow_hidden stay visible",
        plan.hidden.len()
    ))
}

/// Says where a target was looked for that is not there.
fn told_of_image(error: Error, plan: &Plan) -> Error {
    match &plan.container {
        Some(container) if error.kind() == Kind::NotFound => error.hint(format!(
            "it was looked for in the image '{}'; of the host only what is granted is there",
            container.image
        )),
        _ => error,
    }
}

/// A weaker or older way that may work where this attempt failed; `None` when there is none.
///
/// Decided by what the program lists and by what the policy accepts; its error text is no evidence.
pub fn adapt(
    policy: &Policy,
    plan: &Plan,
    tools: &Tools,
    attempt: Attempt,
    reason: &Reason,
) -> Result<Option<Attempt>> {
    // A scope is made by a program that runs before the launcher. Who of the two spoke only decides what is tried first.
    let by_systemd = plan.cgroup.as_ref().is_some_and(Mechanism::is_systemd) && !reason.said.starts_with("bwrap: ");
    if reason.group || (by_systemd && reason.step.is_none() && !reason.hung) {
        let wanted = [(plan.limits.memory, Protection::Memory), (plan.limits.max_procs, Protection::Procs)];
        let may = wanted.iter().all(|(limit, which)| limit.is_none() || policy.accepted_gaps.contains_key(which));
        return Ok((may && !attempt.ungrouped).then_some(Attempt { ungrouped: true, ..attempt }));
    }
    if let Backend::Container(_) = plan.backend {
        return Ok(None);
    }
    if plan.backend == Backend::Namespace {
        let no_proc = reason.fault.as_ref().is_some_and(Fault::is_of_proc);
        let may = no_proc && !attempt.host_processes && policy.accepted_gaps.contains_key(&Protection::Processes);
        return Ok(may.then_some(Attempt { host_processes: true, ..attempt }));
    }
    // Some hosts let nobody but bubblewrap itself mount anything.
    if reason.step == Some(Step::Cover) && !attempt.bare {
        return Ok(Some(Attempt { bare: true, ..attempt }));
    }
    // The inner stage's own answer is final, what hangs hangs again, and the rest is about bubblewrap.
    if reason.step.is_some() || reason.hung || !plan.backend.has_view() {
        return Ok(None);
    }
    if attempt.features == Features::ALL
        && let Ok(help) = sys::process::run(&tools.bwrap, &["--help".into()], &[], PATIENCE)
        && let Some(features) = Features::from_help(&String::from_utf8_lossy(&help.stdout))
        && features != Features::ALL
    {
        return with_features(policy, attempt, features).map(Some);
    }
    if !attempt.host_processes && policy.accepted_gaps.contains_key(&Protection::Processes) {
        return Ok(Some(Attempt { host_processes: true, ..attempt }));
    }
    Ok(None)
}

fn with_features(policy: &Policy, attempt: Attempt, features: Features) -> Result<Attempt> {
    if !features.size {
        if policy.files.tmp_size.is_some() {
            let origin = policy.origins.get("tmp_size").unwrap_or(&Origin::Default);
            let word = if matches!(origin, Origin::Flag(_)) { "--tmp-size" } else { "tmp_size" };
            return Err(Error::text(
                Kind::Backend,
                format!("cannot bound private directories ({origin}): this bwrap has no option --size"),
            )
            .hint(format!("bubblewrap 0.7.0 or newer has it; without {word} the command runs, unbounded")));
        }
        tracing::warn!(
            "this bwrap has no option --size: /tmp, /dev/shm and HOME are bounded by half of the memory only"
        );
    }
    Ok(Attempt { features, ..attempt })
}

fn announce(plan: &Plan, told: &mut BTreeSet<String>) {
    let gaps = plan.gaps.iter().filter(|_| plan.backend != Backend::None);
    let gaps = gaps.map(|gap| format!("not enforced, as accepted: {} ({})", gap.protection, gap.missing));
    for warning in plan.warnings.iter().cloned().chain(gaps) {
        if told.insert(warning.clone()) {
            tracing::warn!("{warning}");
        }
    }
    for note in &plan.notes {
        tracing::info!("{note}");
    }
}

/// The kernel's answer to exec, as 126 or 127.
fn not_executed(plan: &Plan, errno: i32) -> Error {
    let kind = if errno == libc::ENOENT { Kind::NotFound } else { Kind::NotExecutable };
    let word = plan.target.word.display();
    Error::text(kind, format!("cannot execute '{word}': {}", sys::process::reason(errno)))
}
