//! `--check`: makes a job for real, with a halted process in it, and says what works and what is enforced.

use std::io;
use std::path::Path;

use super::begin::{System, begin};
use super::job::Job;
use super::limits::Values;
use super::plan;
use super::run::not_started;
use super::spawn::{Process, Start, wide};
use super::streams::{self, Wish};
use crate::backend::Backend;
use crate::check::report::{Report, Tried, tell_table};
use crate::error::{Error, Kind, Result};
use crate::policy::{Policy, Protection};
use crate::sys::process::describe;

/// Tries every backend with the limits of `policy`.
#[must_use]
pub fn check(policy: &Policy) -> Report {
    let backends: Vec<_> = Backend::ALL.into_iter().map(|backend| try_one(policy, backend)).collect();
    let auto = Backend::AUTO
        .iter()
        .find(|auto| backends.iter().any(|tried| tried.works && tried.backend == auto.word()))
        .map(|backend| backend.word());
    Report { works: auto.is_some(), auto, backends }
}

fn try_one(policy: &Policy, backend: Backend) -> Tried {
    let tried = plan::allowed(policy, backend);
    // What it would enforce is told also where that is not enough for the policy.
    let starts = match &tried {
        Ok(_) => rehearse(policy, backend),
        Err(error) if error.kind() == Kind::Gap => rehearse(policy, backend),
        Err(_) => Ok(()),
    };
    let told = matches!(&tried, Err(error) if error.kind() != Kind::Gap) || starts.is_err();
    let failed = tried.map(|_| ()).and(starts).err();
    let protections =
        if told { Vec::new() } else { Protection::ALL.map(|which| tell_table(backend, which, which)).into() };
    Tried {
        backend: backend.word(),
        works: failed.is_none(),
        program: None,
        landlock_abi: None,
        reason: failed.as_ref().map(ToString::to_string),
        remedies: failed.map(|error| error.hints().to_vec()).unwrap_or_default(),
        protections,
    }
}

/// The steps of a start, but for the last.
struct Rehearsal(Start);

impl System for Rehearsal {
    type Job = Job;
    type Process = Process;
    type Error = io::Error;

    fn job(&self) -> io::Result<Job> {
        self.0.job()
    }
    fn limit(&self, job: &Job, values: &Values) -> io::Result<()> {
        self.0.limit(job, values)
    }
    fn restrict(&self, job: &Job, restrictions: u32) -> io::Result<()> {
        self.0.restrict(job, restrictions)
    }
    fn born(&self, job: &Job) -> io::Result<Option<Process>> {
        self.0.born(job)
    }
    fn halted(&self) -> io::Result<Process> {
        self.0.halted()
    }
    fn take(&self, job: &Job, process: &Process) -> io::Result<()> {
        self.0.take(job, process)
    }
    fn holds(&self, job: &Job, process: &Process) -> io::Result<bool> {
        self.0.holds(job, process)
    }
    fn resume(&self, _: &Process) -> io::Result<()> {
        Ok(())
    }
    fn end(&self, process: &Process) {
        self.0.end(process);
    }
}

/// Makes a job with a halted process of our own program in it, and ends both.
fn rehearse(policy: &Policy, backend: Backend) -> Result<()> {
    let refuse =
        |error: io::Error| Error::text(Kind::Backend, format!("cannot try backend '{backend}': {}", describe(&error)));
    let image = std::env::current_exe().map_err(refuse)?;
    let text = |path: &Path| wide(path.as_os_str()).ok_or_else(|| refuse(io::ErrorKind::InvalidInput.into()));
    let program = text(&image)?;
    let mut command_line = vec![u16::from(b'"')];
    command_line.extend(program.iter().filter(|unit| **unit != 0));
    command_line.extend([u16::from(b'"'), 0]);
    let (streams, _) = streams::make(Wish { most: None, capture: false, count: false }).map_err(refuse)?;
    let directory = text(image.parent().unwrap_or(Path::new("C:\\")))?;
    let start = Start { program, command_line, environment: vec![0, 0], directory, streams, group: false };
    let rehearsal = Rehearsal(start);
    let begun = begin(&rehearsal, &Values::of(&policy.limits), plan::restrictions(backend));
    match begun {
        Ok((job, process)) => {
            rehearsal.end(&process);
            job.end().map_err(refuse)
        }
        Err(failure) => Err(not_started(backend, &image.display().to_string(), &failure)),
    }
}
