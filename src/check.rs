//! `--check`: tries every backend for real and says what works, why the rest does not, and what would help.

use serde::Serialize;

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

/// What was found.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Whether some backend enforces the policy.
    works: bool,
    /// The first one that does; what `auto` would take.
    auto: Option<&'static str>,
    backends: Vec<Tried>,
}

#[derive(Debug, Serialize)]
struct Tried {
    backend: &'static str,
    works: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    remedies: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    protections: Vec<Told>,
}

#[derive(Debug, Serialize)]
struct Told {
    protection: &'static str,
    strength: &'static str,
    /// What enforces it, where hosts differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
    /// What would help, where something does.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<&'static str>,
}

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
        reason: None,
        remedies: Vec::new(),
        protections: Vec::new(),
    };
    match rehearse(host, policy, backend, &mut tried.program) {
        Ok(()) => {
            tried.works = true;
            // What does not work enforces nothing.
            tried.protections = Protection::ALL.into_iter().map(|which| tell(host, backend, which)).collect();
        }
        Err(error) => {
            tried.reason = Some(error.to_string());
            tried.remedies = error.hints().to_vec();
        }
    }
    tried
}

/// What the table of `backend` says of `like`, told of `protection`.
fn tell_table(backend: Backend, like: Protection, protection: Protection) -> Told {
    let strength = backend.strength(like);
    let missing = match strength {
        Strength::Partial(missing) => Some(missing.to_owned()),
        Strength::Enforced | Strength::Absent => None,
    };
    Told { protection: protection.word(), strength: strength.word(), by: None, missing, remedy: None }
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

fn rehearse(host: &Host, policy: &Policy, backend: Backend, program: &mut Option<String>) -> Result<()> {
    diagnose::elsewhere(backend)?;
    // Never executed: a rehearsal ends where the target would start.
    let target = ["/bin/sh".into()];
    let mut attempt = Attempt { run: Private::number(backend)?, ..Attempt::default() };
    loop {
        let (mut plan, tools) = attempt::prepare(policy, host, backend, &target, attempt)?;
        plan.without_created();
        if backend == Backend::Bwrap {
            *program = Some(tools.bwrap.display().to_string());
        }
        let launch = backend::launch(&plan, &tools)?;
        match outer::run(&plan, &launch, host, outer::Mode::Rehearse).0 {
            Outcome::Ended(Status::Done) => return Ok(()),
            Outcome::Ended(
                Status::Exited(_) | Status::Signaled(_) | Status::Limited(_) | Status::Interrupted | Status::Failed(_),
            ) => {
                return Err(Error::text(Kind::Backend, "cannot finish: interrupted by a signal"));
            }
            Outcome::NotExecuted(errno) => {
                return Err(Error::text(Kind::Backend, crate::sys::process::reason(errno)));
            }
            Outcome::NotStarted(reason) => match attempt::adapt(policy, &plan, &tools, attempt, &reason)? {
                Some(next) => attempt = next,
                None => return Err(diagnose::not_started(backend, &tools.bwrap, &reason)),
            },
        }
    }
}

impl Report {
    /// Whether some backend that `auto` would take enforces the policy.
    #[must_use]
    pub fn works(&self) -> bool {
        self.works
    }

    /// For people, or as one JSON object.
    #[must_use]
    pub fn render(&self, json: bool) -> Vec<u8> {
        if json {
            let mut text = serde_json::to_vec(self).unwrap_or_default();
            text.push(b'\n');
            return text;
        }
        let mut out = String::new();
        for tried in &self.backends {
            let verdict = match (tried.works, tried.backend == Backend::None.word()) {
                (true, true) => "works, isolates nothing",
                (true, false) => "works",
                (false, _) => "does not work here",
            };
            line(&mut out, &format!("{}: {verdict}", tried.backend));
            if let Some(program) = &tried.program {
                line(&mut out, &format!("  program: {program}"));
            }
            if let Some(reason) = &tried.reason {
                line(&mut out, &format!("  reason: {reason}"));
            }
            for remedy in &tried.remedies {
                line(&mut out, &format!("  remedy: {remedy}"));
            }
            for told in &tried.protections {
                let details: Vec<_> = told.by.into_iter().chain(told.missing.as_deref()).collect();
                let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join("; ")) };
                line(&mut out, &format!("  {}: {}{details}", told.protection, told.strength));
                if let Some(remedy) = told.remedy {
                    line(&mut out, &format!("    remedy: {remedy}"));
                }
            }
        }
        line(
            &mut out,
            &match self.auto {
                Some(backend) => format!("auto takes: {backend}"),
                None => "auto finds nothing that works here".to_owned(),
            },
        );
        out.into_bytes()
    }
}

fn line(out: &mut String, text: &str) {
    out.push_str(&crate::log::escape(text));
    out.push('\n');
}
