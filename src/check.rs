//! `--check`: tries every backend for real and says what works, why the rest does not, and what would help.

mod report;

use std::path::Path;

use crate::attempt;
use crate::backend::{self, Backend};
use crate::diagnose;
use crate::error::{Error, Kind, Result};
use crate::exit::Status;
use crate::host::Host;
use crate::plan::bounds::{self, Keeper};
use crate::plan::resolve::Attempt;
use crate::policy::protection::Strength;
use crate::policy::{Policy, Protection};
use crate::stage::cgroup::Wants;
use crate::stage::outcome::Outcome;
use crate::stage::outer;
use crate::stage::private::Private;
pub use report::Report;
use report::{Told, Tried, tell_table};

/// Builds the sandbox of `policy` with each backend, without a target in it.
pub fn check(host: &Host, policy: &Policy) -> Result<Report> {
    outer::settle().map_err(|error| {
        Error::text(Kind::Backend, format!("cannot prepare this process: {}", crate::sys::process::describe(&error)))
    })?;
    let backends: Vec<_> = Backend::ALL.into_iter().map(|backend| try_one(host, policy, backend)).collect();
    let auto = Backend::AUTO
        .iter()
        .find(|auto| backends.iter().any(|tried| tried.works && tried.backend == auto.word()))
        .map(|backend| backend.word());
    Ok(Report { works: auto.is_some(), auto, backends })
}

fn try_one(host: &Host, policy: &Policy, backend: Backend) -> Tried {
    let mut tried = Tried {
        backend: backend.word(),
        works: false,
        program: None,
        landlock_abi: Some(crate::sys::landlock::version())
            .filter(|version| backend == Backend::Landlock && *version > 0),
        reason: None,
        remedies: Vec::new(),
        protections: Vec::new(),
    };
    let mut policy = policy.clone();
    if !matches!(backend, Backend::Container(_)) {
        // Meant for another one.
        policy.image = None;
        policy.origins.remove("image");
    }
    let policy = &policy;
    match rehearse(host, policy, backend, &mut tried.program) {
        Ok(()) => {
            tried.works = true;
            // What does not work enforces nothing.
            tried.protections = Protection::ALL
                .into_iter()
                .map(|which| match backend {
                    Backend::Container(_) => tell_of_engine(host, policy, backend, which),
                    Backend::Bwrap
                    | Backend::Namespace
                    | Backend::Landlock
                    | Backend::Seatbelt
                    | Backend::JobObject
                    | Backend::None => tell(host, backend, which),
                })
                .collect();
        }
        Err(error) => {
            tried.reason = Some(error.to_string());
            tried.remedies = error.hints().to_vec();
        }
    }
    tried
}

/// How far `backend` enforces `protection` on this host, and by what where hosts differ.
fn tell(host: &Host, backend: Backend, protection: Protection) -> Told {
    let plain = tell_table(backend, protection, protection);
    // Any number will do.
    let wants = match protection {
        Protection::Memory => Wants { memory: Some(1 << 30), ..Wants::default() },
        Protection::Procs => Wants { procs: Some(1 << 20), ..Wants::default() },
        Protection::Cpu => Wants { cpu: true, ..Wants::default() },
        Protection::FilesRead
        | Protection::FilesWrite
        | Protection::Masks
        | Protection::Network
        | Protection::Sockets
        | Protection::Processes
        | Protection::Privileges
        | Protection::Environment
        | Protection::FileSize
        | Protection::OpenFiles
        | Protection::Output
        | Protection::Time => return plain,
    };
    match (bounds::keeper(backend, host, &wants), protection) {
        // With a group processor time is that of the tree, as memory is.
        (Ok(Keeper::Group(mechanism)), Protection::Cpu) => {
            Told { by: Some(mechanism.word()), ..tell_table(backend, Protection::Memory, protection) }
        }
        (Ok(Keeper::Group(mechanism)), _) => Told { by: Some(mechanism.word()), ..plain },
        (Ok(Keeper::Rlimit), _) => Told { by: Some("resource limit"), ..plain },
        // A resource limit it is, as the text says.
        (Err(_), Protection::Cpu) => plain,
        (Err(why), _) => {
            let remedy = diagnose::without_group(protection, &why);
            Told { strength: Strength::Absent.word(), missing: Some(why), remedy, ..plain }
        }
    }
}

/// How far a container enforces `protection` on this host: what its engine does with a limit shows when it has one.
fn tell_of_engine(host: &Host, policy: &Policy, backend: Backend, protection: Protection) -> Told {
    let plain = tell_table(backend, protection, protection);
    let mut policy = policy.clone();
    policy.accepted_gaps.remove(&protection);
    if protection == Protection::Memory {
        policy.limits.memory = Some(1 << 30);
    } else if protection == Protection::Procs {
        policy.limits.max_procs = Some(1 << 10);
    } else {
        return plain;
    }
    match rehearse(host, &policy, backend, &mut None) {
        Ok(()) => Told { by: Some("container engine"), ..plain },
        Err(error) => Told {
            strength: Strength::Absent.word(),
            missing: Some(error.to_string()),
            remedy: Some("give the engine a control group of its own: a service manager or a delegated group"),
            ..plain
        },
    }
}

fn rehearse(host: &Host, policy: &Policy, backend: Backend, program: &mut Option<String>) -> Result<()> {
    diagnose::elsewhere(backend)?;
    // Never executed: a rehearsal ends where the target would start.
    let target = ["/bin/sh".into()];
    let mut attempt = Attempt { run: Private::number(backend)?, ..Attempt::default() };
    loop {
        let (mut plan, tools) = attempt::prepare(policy, host, backend, &target, attempt)?;
        plan.without_created();
        *program = tools.program(backend).map(|path| path.display().to_string());
        let launch = backend::launch(&plan, &tools)?;
        match outer::run(&plan, &launch, host, outer::Mode::Rehearse, None).0 {
            Outcome::Ended(Status::Done) => return Ok(()),
            Outcome::Ended(
                Status::Exited(_) | Status::Signaled(_) | Status::Limited(_) | Status::Interrupted | Status::Failed(_),
            ) => {
                return Err(Error::text(Kind::Backend, "cannot finish: interrupted by a signal"));
            }
            Outcome::NotExecuted(errno) => {
                return Err(Error::text(Kind::Backend, crate::sys::process::reason(errno)));
            }
            Outcome::Unfit(error) => return Err(error),
            Outcome::NotStarted(reason) => match attempt::adapt(policy, &plan, &tools, attempt, &reason)? {
                Some(next) => attempt = next,
                None => {
                    return Err(diagnose::not_started(
                        backend,
                        tools.program(backend).unwrap_or(Path::new("")),
                        &reason,
                    ));
                }
            },
        }
    }
}
