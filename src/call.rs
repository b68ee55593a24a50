//! One call of the program, from argv to status.
//!
//! Reads what was typed, gathers the policy, hands it to whoever does what was asked for, and prints what is not the target's.

use std::ffi::OsString;
use std::io::{self, Write};

use crate::attempt::{self, execute, plan_only};
use crate::cli::{self, Action, EnvWord, Format, Invocation, Misread, PolicyForm, PolicySource};
use crate::config::sources::{self, Sources};
use crate::config::{payload, print, profiles, record};
use crate::error::{Error, Kind, Result};
use crate::exit::Status;
use crate::host::Host;
use crate::policy::Policy;
use crate::report::object::Run;
use crate::report::{Asked, Reports};
use crate::{check, dry_run, log, plan, sys};

/// Does what `arguments` (without `argv[0]`) say.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Status {
    let host = Host::probe();
    let invocation = match cli::read(arguments) {
        Ok(invocation) => invocation,
        Err(misread) => return misread_command(*misread, &host),
    };
    log::start(invocation.verbosity, invocation.log_format, host.variable(log::VARIABLE));
    let Invocation { action, layer, profiles, source, env, reports, target, verbosity: _, log_format: _ } = invocation;
    let sources = Sources { profiles, policy: source, env, options: layer };
    let done = match action {
        Action::Run => return run_target(sources, reports, target, &host),
        Action::Help(text) | Action::Version(text) => show(text.as_bytes(), &host),
        Action::Completions(shell) => show(&cli::completions(shell), &host),
        Action::ListProfiles => show(&list_of_profiles(&host), &host),
        Action::Check { json } => gather(sources, &host).and_then(|policy| tried(&policy, json, &host)),
        Action::PrintPolicy(form) => {
            gather(sources, &host).and_then(|policy| show(&printed(&policy, form, &host)?, &host))
        }
        Action::DryRun(format) => {
            gather(sources, &host).and_then(|policy| show(&planned(&policy, &target, format, &host)?, &host))
        }
    };
    done.unwrap_or_else(|error| failed(&error))
}

/// Runs the target and reports about it, whatever happens.
fn run_target(sources: Sources, asked: Asked, target: Vec<OsString>, host: &Host) -> Status {
    let mut reports = Reports::default();
    // A signal is something to report, too. Not while it may be needed to end a wait.
    let early = if asked.any() && !may_wait(&sources, &asked) { attempt::settle() } else { Ok(()) };
    let gathered = early.and_then(|()| gather(sources, host));
    let opened = reports.open(asked, host);
    let done = gathered.and_then(|policy| {
        if reports.wanted() {
            // A policy without a hash is one that cannot be planned either.
            reports.policy(plan::absolute(&policy, host).ok().map(|policy| print::hash(&policy)));
        }
        opened?;
        execute(&policy, host, &target, &mut reports)
    });
    let status = done.unwrap_or_else(|error| failed(&error));
    reports.write(Run { argv: Some(target), status });
    status
}

/// Whether something that has to be opened is no plain file: a FIFO waits for its other end.
fn may_wait(sources: &Sources, asked: &Asked) -> bool {
    let policy = match &sources.policy {
        Some(PolicySource::StandardInput | PolicySource::Descriptor(_)) => return true,
        Some(PolicySource::File(path)) => Some(path.as_path()),
        Some(PolicySource::Payload(_)) | None => None,
    };
    let variables = sources.env.iter().filter_map(|word| match word {
        EnvWord::File(path) => Some(path.as_path()),
        EnvWord::Rule(_) => None,
    });
    let mut files = policy.into_iter().chain(variables).chain(asked.files());
    files.any(|path| std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()))
}

/// Says what is wrong with the command line, also where the run was to be reported.
fn misread_command(misread: Misread, host: &Host) -> Status {
    log::start(cli::Verbosity::default(), cli::LogFormat::Text, None);
    let status = failed(&misread.error);
    let mut reports = Reports::default();
    if let Err(error) = reports.open(misread.reports, host) {
        // One mistake at a time.
        tracing::debug!("{error}");
    }
    reports.write(Run { argv: misread.target, status });
    status
}

fn failed(error: &Error) -> Status {
    log::failure(error);
    Status::Failed(error.kind())
}

fn gather(sources: Sources, host: &Host) -> Result<Policy> {
    let (policy, warnings) = sources::gather(sources, host)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    Ok(policy)
}

fn tried(policy: &Policy, json: bool, host: &Host) -> Result<Status> {
    let report = check::check(host, policy)?;
    show(&report.render(json), host)?;
    if report.works() { Ok(Status::Done) } else { Ok(Status::Failed(Kind::Backend)) }
}

fn planned(policy: &Policy, target: &[OsString], format: Format, host: &Host) -> Result<Vec<u8>> {
    let planned = plan_only(policy, host, target)?;
    let hash = print::hash(&plan::absolute(policy, host)?);
    Ok(dry_run::render(&planned, policy, hash, format))
}

fn list_of_profiles(host: &Host) -> Vec<u8> {
    let list = profiles::list(sources::profile_directory(host).as_deref());
    let lines = list.iter().flat_map(|(name, line)| [name.clone(), ": ".into(), log::escape(line), "\n".into()]);
    lines.collect::<String>().into_bytes()
}

fn printed(policy: &Policy, form: PolicyForm, host: &Host) -> Result<Vec<u8>> {
    let policy = plan::absolute(policy, host)?;
    let text = match form {
        PolicyForm::Json => print::json(&policy),
        PolicyForm::Toml => print::toml(&policy),
        PolicyForm::Payload => {
            let record = record::record(&policy)
                .map_err(|error| Error::text(Kind::Policy, format!("cannot print the policy as a payload: {error:#}")))
                .map_err(|error| error.hint("--print-policy=toml has a place for everything"))?;
            payload::encode(&record) + "\n"
        }
    };
    Ok(text.into_bytes())
}

/// Writes to standard output what is not the target's; a reader that is gone or a full disk is a failure.
fn show(bytes: &[u8], host: &Host) -> Result<Status> {
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
