//! One call of the program, from argv to status.
//!
//! Reads what was typed, gathers the policy, hands it to whoever does what was asked for, and prints what is not the target's.

use std::ffi::OsString;
use std::io::{self, Write};

use super::paths::absolute;
use super::report::Reports;
use super::run::{self, Left};
use super::{check, dry_run};
use crate::cli::{self, Action, Invocation, Misread, PolicyForm};
use crate::config::sources::{self, Sources};
use crate::config::{payload, print, profiles, record};
use crate::error::{Error, Kind, Result};
use crate::exit::Status;
use crate::host::Host;
use crate::log;
use crate::policy::Policy;
use crate::report::Asked;
use crate::report::object::Run;
use crate::sys;

/// Does what `arguments` (without `argv[0]`) say; the number for whoever called.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u32 {
    let host = Host::probe();
    let invocation = match cli::read(arguments) {
        Ok(invocation) => invocation,
        Err(misread) => return misread_command(*misread, &host).code().into(),
    };
    log::start(invocation.verbosity, invocation.log_format, host.variable(log::VARIABLE));
    let Invocation { action, layer, profiles, source, env, reports, trace, target, verbosity: _, log_format: _ } =
        invocation;
    let sources = Sources { profiles, policy: source, env, options: layer };
    let untraced = || {
        let refused = "cannot trace the command (--trace): there is no tracer on this system";
        if trace { Err(Error::text(Kind::Policy, refused)) } else { Ok(()) }
    };
    let done = match action {
        Action::Run => return run_target(sources, reports, untraced(), target, &host).code,
        Action::Help(text) | Action::Version(text) => show(text.as_bytes(), &host),
        Action::Completions(shell) => show(&cli::completions(shell), &host),
        Action::ListProfiles => show(&list_of_profiles(&host), &host),
        Action::Check { json } => gather(sources, &host).and_then(|policy| {
            let report = check::check(&policy);
            show(&report.render(json), &host)?;
            if report.works() { Ok(Status::Done) } else { Ok(Status::Failed(Kind::Backend)) }
        }),
        Action::PrintPolicy(form) => {
            gather(sources, &host).and_then(|policy| show(&printed(&policy, form, &host)?, &host))
        }
        Action::DryRun(format) => untraced().and_then(|()| gather(sources, &host)).and_then(|policy| {
            let plan = run::plan(&policy, &host, &target)?;
            show(&dry_run::render(&plan, print::hash(&absolute(&policy, &host)?), format), &host)
        }),
        Action::Explain { .. } => {
            Err(Error::text(Kind::Backend, "cannot explain paths: no backend of this system isolates files"))
        }
    };
    done.unwrap_or_else(|error| failed(&error)).code().into()
}

/// Runs the target and reports about it, whatever happens.
fn run_target(sources: Sources, asked: Asked, untraced: Result<()>, target: Vec<OsString>, host: &Host) -> Left {
    let mut reports = Reports::default();
    let gathered = untraced.and_then(|()| gather(sources, host));
    let opened = reports.open(asked, host);
    let done = gathered.and_then(|policy| {
        if reports.wanted() {
            // A policy without a hash is one that cannot be planned either.
            reports.policy(absolute(&policy, host).ok().map(|policy| print::hash(&policy)));
        }
        opened?;
        run::execute(&policy, host, &target, &mut reports)
    });
    let left = done.unwrap_or_else(|error| failed(&error).into());
    reports.write(Run { argv: Some(target), status: left.status });
    left
}

/// Says what is wrong with the command line, also where the run was to be reported.
fn misread_command(misread: Misread, host: &Host) -> Status {
    log::start(cli::Verbosity::default(), misread.log_format, None);
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

fn list_of_profiles(host: &Host) -> Vec<u8> {
    let list = profiles::list(sources::profile_directory(host).as_deref());
    let lines = list.iter().flat_map(|(name, line)| [name.clone(), ": ".into(), log::escape(line), "\n".into()]);
    lines.collect::<String>().into_bytes()
}

fn printed(policy: &Policy, form: PolicyForm, host: &Host) -> Result<Vec<u8>> {
    // What cannot be resolved is a mistake in any form. A file keeps the words, a payload has no place for them.
    let absolute = absolute(policy, host)?;
    let text = match form {
        PolicyForm::Json => print::json(policy),
        PolicyForm::Toml => print::toml(policy),
        PolicyForm::Payload => {
            let record = record::record(&absolute)
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
    let written = if host.inherited.closed[1] {
        Err(sys::streams::not_open())
    } else {
        out.write_all(bytes).and_then(|()| out.flush())
    };
    written.map_err(|error| {
        Error::text(Kind::Usage, format!("cannot write to standard output: {}", sys::process::describe(&error)))
    })?;
    Ok(Status::Done)
}
