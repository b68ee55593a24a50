//! From policy to status: the backends of the list in order, the first that enforces the policy runs the target.

use std::ffi::OsString;
use std::io;

use super::begin::{Failure, begin};
use super::limits::Values;
use super::plan::{self, Plan};
use super::report::Reports;
use super::spawn::{Start, wide};
use super::streams::{self, Wish};
use super::{console, supervise};
use crate::backend::Backend;
use crate::error::{Error, Kind, Result};
use crate::exit::Status;
use crate::host::Host;
use crate::policy::Policy;
use crate::stage::account::Account;
use crate::sys::process::describe;

/// How a run ended: for reports, and the target's own status in all its bits.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    /// The status as it is told.
    pub status: Status,
    /// The number for the caller.
    pub code: u32,
}

impl From<Status> for Left {
    fn from(status: Status) -> Self {
        Self { status, code: status.code().into() }
    }
}

/// The plan of the first backend of the list that can be taken.
pub fn plan(policy: &Policy, host: &Host, target: &[OsString]) -> Result<Plan> {
    let mut refusals = Vec::new();
    for backend in &policy.backends.list {
        match plan::resolve(policy, host, *backend, target) {
            Err(error) if matches!(error.kind(), Kind::Gap | Kind::Backend) => refusals.push(error),
            done => return done,
        }
    }
    Err(all_failed(refusals))
}

/// One error with every reason and every remedy.
fn all_failed(mut refusals: Vec<Error>) -> Error {
    if let [_] = refusals[..]
        && let Some(only) = refusals.pop()
    {
        return only;
    }
    let kind = if refusals.iter().all(|error| error.kind() == Kind::Gap) { Kind::Gap } else { Kind::Backend };
    let reasons: Vec<_> = refusals.iter().map(ToString::to_string).collect();
    let all = Error::text(kind, format!("cannot run the command in any sandbox: {}", reasons.join("; ")));
    refusals.iter().flat_map(Error::hints).fold(all, |all, hint| all.hint(hint.clone()))
}

/// Runs the target.
pub fn execute(policy: &Policy, host: &Host, target: &[OsString], reports: &mut Reports) -> Result<Left> {
    let plan = plan(policy, host, target)?;
    for warning in &plan.warnings {
        tracing::warn!("{warning}");
    }
    for note in &plan.notes {
        tracing::info!("{note}");
    }
    for directory in &plan.create {
        std::fs::create_dir_all(directory).map_err(|error| {
            Error::text(Kind::Policy, format!("cannot make '{}': {}", directory.display(), describe(&error)))
        })?;
    }
    reports.chose(&plan);
    let (streams, relay) = streams::make(Wish { most: plan.limits.max_output, ..reports.wish() })
        .map_err(|error| cannot(plan.backend, "hand the standard streams on", &error))?;
    // Only the clock and the output end a target from outside, which takes a group of its own; without them the keys reach it.
    let group = plan.limits.timeout.is_some() || plan.limits.max_output.is_some();
    let start = start(&plan, streams, group)?;
    console::survive().map_err(|error| cannot(plan.backend, "survive Ctrl-C", &error))?;
    tracing::info!("backend '{}' starts '{}' in '{}'", plan.backend, plan.program.display(), plan.workdir.display());
    let (job, process) = begin(&start, &Values::of(&plan.limits), plan.restrictions).map_err(|failure| {
        let word = plan.argv.first().map(|word| word.display().to_string()).unwrap_or_default();
        not_started(plan.backend, &word, &failure)
    })?;
    // Our copies of the target's ends would keep its pipes open.
    drop(start);
    if group {
        console::pass_on(process.id);
    }
    let mut account = Account::default();
    let (sender, events) =
        supervise::events(&process).map_err(|error| cannot(plan.backend, "wait for the command", &error))?;
    let passing = relay.map(|relay| relay.begin(&sender));
    let ended = supervise::watch(&job, &process, &events, &plan.limits, plan.kill_after, &mut account);
    account.output = passing.map(|passing| passing.finish(ended.by.is_some()));
    if plan.limits.max_output.is_some() && account.output.as_ref().is_some_and(|output| output.over) {
        account.limits_hit.insert(crate::policy::limits::Limit::Output);
    }
    reports.account(account);
    if let Some(limit) = ended.by {
        tracing::warn!("the command was ended: {}", limit.reached());
        return Ok(Status::Limited(limit).into());
    }
    let code = ended.status.unwrap_or(super::job::ENDED);
    Ok(Left { status: Status::Exited(code.to_le_bytes()[0]), code })
}

/// What the system is told.
pub fn start(plan: &Plan, streams: [std::os::windows::io::OwnedHandle; 3], group: bool) -> Result<Start> {
    let text = |path: &std::path::Path| {
        wide(path.as_os_str())
            .ok_or_else(|| Error::text(Kind::Policy, format!("cannot use '{}': it has a NUL in it", path.display())))
    };
    Ok(Start {
        program: text(&plan.program)?,
        command_line: plan.command_line.clone(),
        environment: plan::block(&plan.environment)?,
        directory: text(&plan.workdir)?,
        streams,
        group,
    })
}

fn cannot(backend: Backend, what: &str, error: &io::Error) -> Error {
    Error::text(
        Kind::Backend,
        format!("cannot start the sandbox with backend '{backend}': cannot {what}: {}", describe(error)),
    )
}

/// Why a target did not start: it is no program, or nothing would have held it.
#[must_use]
pub fn not_started(backend: Backend, word: &str, failure: &Failure<io::Error>) -> Error {
    match failure {
        Failure::Program(error) => {
            let kind = match error.raw_os_error() {
                Some(2 | 3) => Kind::NotFound,
                // Access denied, not a program, of another processor, elevation, a virus, a broken manifest.
                Some(5 | 193 | 216 | 225 | 740 | 14001) => Kind::NotExecutable,
                _ => Kind::Backend,
            };
            Error::text(kind, format!("cannot execute '{word}': {}", describe(error)))
        }
        Failure::Job(what, error) => cannot(backend, what, error),
        Failure::Outside => Error::text(
            Kind::Backend,
            format!(
                "cannot start the sandbox with backend '{backend}': the system says that the command is not in the job"
            ),
        ),
    }
}
