//! Policy and host, resolved: what is started, how, and what is not enforced by consent.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::command_line::command_line;
use super::limits::UI_RESTRICTIONS;
use super::program::{self, Found};
use super::spawn::wide;
use super::{diagnose, job, paths};
use crate::backend::Backend;
use crate::error::{Error, Kind, Result};
use crate::host::Host;
use crate::plan::env::Environment;
use crate::plan::env::windows::{Inputs, folded, prune};
use crate::plan::gap::{Gap, gaps};
use crate::policy::{Limits, Missing, NewSession, Origin, Policy};
use crate::sys::process::describe;

/// One run under one backend, decided to the last detail.
#[derive(Debug)]
pub struct Plan {
    /// Who enforces it.
    pub backend: Backend,
    /// The program's file.
    pub program: PathBuf,
    /// Its arguments, `argv[0]` as typed first.
    pub argv: Vec<OsString>,
    /// The same as the one string of this system, with its final NUL.
    pub command_line: Vec<u16>,
    /// Where it starts.
    pub workdir: PathBuf,
    /// Its variables, and what became of the others.
    pub environment: Environment,
    /// Directories to make first.
    pub create: Vec<PathBuf>,
    /// What the job may not do to the desktop, if anything.
    pub restrictions: Option<u32>,
    /// How much it may use.
    pub limits: Limits,
    /// Grace between Ctrl-Break and the end.
    pub kill_after: Duration,
    /// What is not enforced, by consent.
    pub gaps: Vec<Gap>,
    /// What a careful caller should hear of.
    pub warnings: Vec<String>,
    /// What explains surprises.
    pub notes: Vec<String>,
}

/// The plan of `backend` for `target`.
pub fn resolve(policy: &Policy, host: &Host, backend: Backend, target: &[OsString]) -> Result<Plan> {
    let (gaps, warnings) = allowed(policy, backend)?;
    let workdir = paths::workdir(policy, host)?;
    let create = granted(policy, host, &workdir)?;
    let environment = prune(&Inputs { inherited: &host.environment, policy: &policy.env });
    if !environment.too_large.is_empty() {
        let names: Vec<_> = environment.too_large.iter().map(|name| name.display().to_string()).collect();
        let text = format!("cannot pass variables: longer than 32767 characters: {}", names.join(", "));
        return Err(Error::text(Kind::Policy, text));
    }
    let program = program(target, &workdir, &environment)?;
    let words: Vec<Vec<u16>> = target.iter().map(|word| units(word)).collect();
    let command_line = command_line(&words).map_err(|reason| {
        let word = target.first().map(|word| word.display().to_string()).unwrap_or_default();
        Error::text(Kind::Usage, format!("cannot pass the arguments of '{word}': {}", reason.as_str()))
    })?;
    let mut warnings = warnings;
    warnings.extend(environment.warnings.iter().cloned());
    let mut notes = environment.notes.clone();
    let restrictions = restrictions(backend);
    if backend == Backend::JobObject && restrictions.is_none() {
        notes.push("the desktop is not restricted: sandbox-run is in a job, and one inside cannot restrict it".into());
    }
    Ok(Plan {
        backend,
        program,
        argv: target.to_vec(),
        command_line,
        workdir,
        create,
        restrictions,
        limits: policy.limits.clone(),
        kill_after: policy.kill_after,
        gaps,
        warnings,
        notes,
        environment,
    })
}

/// What a job of `backend` may not do to the desktop. The system takes no process into a second job that has such restrictions.
#[must_use]
pub fn restrictions(backend: Backend) -> Option<u32> {
    let nested = job::are_inside_one().unwrap_or(true);
    (backend == Backend::JobObject && !nested).then_some(UI_RESTRICTIONS)
}

/// The gaps that were accepted, with the one warning about them; or why the backend cannot be taken.
pub fn allowed(policy: &Policy, backend: Backend) -> Result<(Vec<Gap>, Vec<String>)> {
    diagnose::elsewhere(backend)?;
    unknown_here(policy)?;
    let gaps = gaps(policy, backend, &[])?;
    let words: Vec<_> = gaps.iter().map(|gap| gap.protection).collect();
    let warning = match backend {
        Backend::None => format!("backend 'none' isolates nothing; not enforced: {}", words.join(", ")),
        Backend::JobObject
        | Backend::Bwrap
        | Backend::Namespace
        | Backend::Landlock
        | Backend::Seatbelt
        | Backend::Container(_) => {
            format!("not enforced by '{backend}', as accepted: {}", words.join(", "))
        }
    };
    let warnings = if gaps.is_empty() { Vec::new() } else { vec![warning] };
    Ok((gaps, warnings))
}

/// Refuses what this system has no word for, and no gap either.
fn unknown_here(policy: &Policy) -> Result<()> {
    let origin = |key| policy.origins.get(key).unwrap_or(&Origin::Default);
    let refuse = |what: &str, origin: &Origin, reason: &str| {
        Err(Error::text(Kind::Policy, format!("cannot {what} ({origin}): {reason}")))
    };
    if let Some((number, origin)) = policy.keep_fds.iter().next() {
        return refuse(&format!("keep descriptor {number}"), origin, "only the three standard streams cross here");
    }
    if policy.keep_jobserver {
        return refuse("keep the jobserver", origin("keep_jobserver"), "only the three standard streams cross here");
    }
    if policy.new_session == NewSession::Always {
        return refuse("give a session of its own", origin("new_session"), "this system has none");
    }
    if let Some(credential) = policy.egress.credentials.first() {
        let what = format!("use the credential for '{}'", credential.spec.host);
        return refuse(&what, &credential.origin, "nobody adds it to requests here");
    }
    if let Some(upstream) = policy.egress.upstream.as_ref().filter(|_| policy.egress.hosts.is_empty()) {
        return refuse("use an upstream proxy", &upstream.origin, "only the proxy of --allow-host would ask it");
    }
    if policy.limits.core.is_some() {
        return refuse("limit core files", origin("core"), "this system has none");
    }
    Ok(())
}

/// Directories that grants want made; a grant of what is missing otherwise is a mistake, also where nothing enforces it.
fn granted(policy: &Policy, host: &Host, workdir: &Path) -> Result<Vec<PathBuf>> {
    let mut create = Vec::new();
    for grant in &policy.files.grants {
        let path = paths::expand(&grant.path, host, Some(workdir))?;
        let refuse = |reason: &str| {
            Error::text(Kind::Policy, format!("cannot grant '{}' ({}): {reason}", grant.path.display(), grant.origin))
        };
        match std::fs::metadata(&path) {
            Ok(found) if grant.file_only && found.is_dir() => return Err(refuse("it is a directory")),
            Ok(_) => {}
            Err(error) => match grant.missing {
                Missing::Refuse => return Err(refuse(&describe(&error))),
                Missing::Skip => {}
                Missing::Create => create.push(path),
            },
        }
    }
    Ok(create)
}

/// The file of the target.
fn program(target: &[OsString], workdir: &Path, environment: &Environment) -> Result<PathBuf> {
    let word = target.first().ok_or_else(|| Error::text(Kind::Usage, "cannot run a command: there is none"))?;
    let variable = |name: &str| {
        let named = |(key, _): &&(OsString, OsString)| key.to_str().is_some_and(|key| folded(key) == name);
        environment.vars.iter().find(named).map(|(_, value)| value.as_os_str())
    };
    let path = variable("PATH").unwrap_or_default();
    let is_file = |path: &OsStr| std::fs::metadata(path).is_ok_and(|found| found.is_file());
    let shown = word.display();
    match program::find(word, workdir.as_os_str(), path, variable("PATHEXT"), &is_file) {
        // Without the `.` of a word.
        Found::Program(file) => Ok(Path::new(&file).components().collect()),
        Found::Batch(file) => Err(Error::text(
            Kind::NotExecutable,
            format!(
                "cannot execute '{}': a batch file is read by cmd, and nothing quotes its arguments safely",
                file.display()
            ),
        )
        .hint(format!("if its arguments are trusted, cmd /c runs it: cmd /c {shown}"))),
        Found::Nothing => Err(Error::text(Kind::NotFound, format!("cannot execute '{shown}': no such program"))
            .hint("the current directory is not searched; .\\ before the name means it")),
        Found::Refused(reason) => Err(Error::text(Kind::NotFound, format!("cannot execute '{shown}': {reason}"))),
    }
}

fn units(word: &OsStr) -> Vec<u16> {
    std::os::windows::ffi::OsStrExt::encode_wide(word).collect()
}

/// The variables as one block.
pub fn block(environment: &Environment) -> Result<Vec<u16>> {
    let mut block = Vec::new();
    for (name, value) in &environment.vars {
        let mut entry = name.clone();
        entry.push("=");
        entry.push(value);
        let entry = wide(&entry).ok_or_else(|| {
            Error::text(Kind::Policy, format!("cannot pass '{}': it has a NUL in it", name.display()))
        })?;
        block.extend(entry);
    }
    // An empty block has two as well.
    if block.is_empty() {
        block.push(0);
    }
    block.push(0);
    Ok(block)
}
