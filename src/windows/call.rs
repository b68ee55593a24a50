//! One call of the program, from argv to status.
//!
//! Reads what was typed, gathers the policy, hands it to whoever does what was asked for, and prints what is not the target's.

use std::ffi::OsString;

use super::paths::absolute;
use super::report::Reports;
use super::run::{self, Left};
use super::{check, dry_run};
use crate::answer::{failed, gather, list_of_profiles, printed, show};
use crate::cli::{self, Action, Invocation, Misread};
use crate::config::print;
use crate::config::sources::Sources;
use crate::error::{Error, Kind, Result};
use crate::exit::Status;
use crate::host::Host;
use crate::log;
use crate::report::Asked;
use crate::report::object::Run;

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
            gather(sources, &host).and_then(|policy| show(&printed(&policy, &absolute(&policy, &host)?, form)?, &host))
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
