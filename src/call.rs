//! One call of the program, from argv to status.
//!
//! Tries the backends of the policy in order: the first that works here and enforces the whole policy runs the target.
//! The launch is its own probe. Once the target has started there is no second attempt.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::backend::bwrap::Features;
use crate::backend::{self, Backend, Tools};
use crate::cli::{self, Action, EnvWord, Invocation};
use crate::error::{Error, Kind, Result, ResultExt};
use crate::exit::Status;
use crate::host::Host;
use crate::plan::resolve::Attempt;
use crate::plan::{self, Plan};
use crate::policy::{Policy, Protection};
use crate::stage::outer::{self, Outcome, Reason};
use crate::{check, config, diagnose, log, report, sys};

/// Does what `arguments` (without `argv[0]`) say.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Status {
    let host = Host::probe();
    let done = match cli::parse(arguments) {
        Ok(invocation) => {
            log::start(invocation.verbosity, invocation.log_format, host.variable(log::VARIABLE));
            act(invocation, &host)
        }
        Err(error) => {
            log::start(cli::Verbosity::default(), cli::LogFormat::Text, None);
            Err(error)
        }
    };
    done.unwrap_or_else(|error| {
        log::failure(&error);
        Status::Failed(error.kind())
    })
}

fn act(invocation: Invocation, host: &Host) -> Result<Status> {
    let Invocation { action, mut layer, env, target, verbosity: _, log_format: _ } = invocation;
    match action {
        Action::Help(text) | Action::Version(text) => return print(text.as_bytes(), host),
        Action::Completions(shell) => return print(&cli::completions(shell), host),
        Action::Run | Action::DryRun(_) | Action::Check { .. } => {}
    }
    layer.env = environment_rules(env, host)?;
    let policy = config::merge(layer);
    match action {
        Action::Check { json } => {
            let report = check::check(host, &policy)?;
            print(&report.render(json), host)?;
            if report.works() { Ok(Status::Done) } else { Ok(Status::Failed(Kind::Backend)) }
        }
        Action::DryRun(format) => print(&report::dry_run(&plan_only(&policy, host, &target)?, format), host),
        Action::Run | Action::Help(_) | Action::Version(_) | Action::Completions(_) => execute(&policy, host, &target),
    }
}

/// Writes to standard output what is not the target's; a reader that is gone or a full disk is a failure.
fn print(bytes: &[u8], host: &Host) -> Result<Status> {
    let mut out = io::stdout().lock();
    // What was closed is open by now, and leads nowhere.
    let written = if host.inherited.closed[1] {
        Err(io::Error::from_raw_os_error(libc::EBADF))
    } else {
        out.write_all(bytes).and_then(|()| out.flush())
    };
    written.map_err(|error| {
        Error::text(Kind::Usage, format!("cannot write to standard output: {}", sys::process::describe(&error)))
    })?;
    Ok(Status::Done)
}

fn environment_rules(words: Vec<EnvWord>, host: &Host) -> Result<Vec<crate::policy::env::EnvRule>> {
    let mut rules = Vec::new();
    for word in words {
        match word {
            EnvWord::Rule(rule) => rules.push(rule),
            EnvWord::File(path) => {
                let name = path.display().to_string();
                let file = plan::expand(&path, host, host.cwd.as_deref().ok())?;
                let bytes = std::fs::read(file).map_err(|error| {
                    let reason = sys::process::describe(&error);
                    Error::text(Kind::Policy, format!("cannot read '{name}' (--env-file): {reason}"))
                })?;
                rules.extend(crate::policy::env::parse_env_file(&bytes, &name).kind(Kind::Policy)?);
            }
        }
    }
    Ok(rules)
}

/// A plan with the tools it was made for.
pub type Planned = (Plan, Tools);

/// The plan of the first backend that can be planned for, without trying it.
fn plan_only(policy: &Policy, host: &Host, target: &[OsString]) -> Result<Planned> {
    let mut refusals = Vec::new();
    for backend in &policy.backends.list {
        match prepare(policy, host, *backend, target, Attempt::default()) {
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
    let plan = plan::resolve(policy, host, backend, target, attempt)?;
    let bwrap = match backend {
        Backend::Bwrap => {
            // A working directory of `/` or `/usr` would distrust the system itself, and so would a write grant of `/`.
            let system = |path: &Path| plan::base::PROGRAMS.iter().any(|dir| Path::new(dir).starts_with(path));
            let workdir = Some(plan.workdir.as_path()).filter(|path| !system(path));
            let writable = plan.writable().filter(|path| *path != Path::new("/"));
            let untrusted: Vec<_> = workdir.into_iter().chain(writable).collect();
            host.find_bwrap(&untrusted).map_err(|passed_over| diagnose::no_bwrap(&passed_over))?
        }
        Backend::None => PathBuf::new(),
    };
    Ok((plan, Tools { bwrap, features: attempt.features }))
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

fn execute(policy: &Policy, host: &Host, target: &[OsString]) -> Result<Status> {
    outer::settle().map_err(|error| Error::text(Kind::Backend, format!("cannot prepare this process: {error}")))?;
    let mut refusals = Vec::new();
    let mut told = BTreeSet::new();
    for backend in &policy.backends.list {
        match attempt(policy, host, *backend, target, &mut told) {
            Ok(status) => return Ok(status),
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
/// `told` is what earlier attempts have warned of; nobody needs to hear it twice.
fn attempt(
    policy: &Policy,
    host: &Host,
    backend: Backend,
    target: &[OsString],
    told: &mut BTreeSet<String>,
) -> Result<Status> {
    let mut attempt = Attempt::default();
    loop {
        let (plan, tools) = prepare(policy, host, backend, target, attempt)?;
        let launch = backend::launch(&plan, &tools);
        backend::check_size(&launch)?;
        announce(&plan, told);
        match outer::run(&plan, &launch, host, false) {
            Outcome::Ended(status) => return Ok(status),
            Outcome::NotExecuted(errno) => return Err(not_executed(&plan, errno)),
            Outcome::NotStarted(reason) => {
                tracing::debug!("backend '{backend}' did not start: {reason}");
                match adapt(policy, &tools, attempt, &reason)? {
                    Some(next) => attempt = next,
                    None => return Err(diagnose::not_started(backend, &tools.bwrap, &reason)),
                }
            }
        }
    }
}

/// A weaker or older way that may work where this attempt failed; `None` when there is none.
///
/// Decided by what the program lists and by what the policy accepts; its error text is no evidence.
pub fn adapt(policy: &Policy, tools: &Tools, attempt: Attempt, reason: &Reason) -> Result<Option<Attempt>> {
    // The inner stage's own answer is final, and what hangs hangs again.
    if reason.step.is_some() || reason.hung {
        return Ok(None);
    }
    if attempt.features == Features::ALL
        && let Ok(help) = sys::process::output(&tools.bwrap, "--help")
        && let Some(features) = Features::from_help(&String::from_utf8_lossy(&help))
        && features != Features::ALL
    {
        return with_features(policy, attempt, features).map(Some);
    }
    if !attempt.host_processes && policy.accepted_gaps.contains(&Protection::Processes) {
        return Ok(Some(Attempt { host_processes: true, ..attempt }));
    }
    Ok(None)
}

fn with_features(policy: &Policy, attempt: Attempt, features: Features) -> Result<Attempt> {
    if !features.size {
        if policy.files.tmp_size.is_some() {
            return Err(Error::text(
                Kind::Backend,
                "cannot bound private directories (--tmp-size): this bwrap has no option --size",
            )
            .hint("bubblewrap 0.7.0 or newer has it; without --tmp-size the command runs, unbounded"));
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
    tracing::info!(
        "backend '{}' starts '{}' in '{}'",
        plan.backend,
        plan.target.exec.display(),
        plan.workdir.display()
    );
}

/// The kernel's answer to exec, as 126 or 127.
fn not_executed(plan: &Plan, errno: i32) -> Error {
    let kind = if errno == libc::ENOENT { Kind::NotFound } else { Kind::NotExecutable };
    let word = plan.target.word.display();
    Error::text(kind, format!("cannot execute '{word}': {}", sys::process::reason(errno)))
}
