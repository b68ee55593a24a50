//! One call of the program, from argv to status.
//!
//! Reads what was typed, gathers the policy, hands it to whoever does what was asked for, and prints what is not the target's.

use std::ffi::OsString;
use std::io::{self, Write};

use crate::attempt::{execute, plan_only};
use crate::cli::{self, Action, Invocation, PolicyForm};
use crate::config::sources::{self, Sources};
use crate::config::{payload, print, profiles, record};
use crate::error::{Error, Kind, Result};
use crate::exit::Status;
use crate::host::Host;
use crate::policy::{Access, Missing, Policy};
use crate::{check, log, plan, report, sys};

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
    let Invocation { action, layer, profiles, source, env, target, verbosity: _, log_format: _ } = invocation;
    match action {
        Action::Help(text) | Action::Version(text) => return show(text.as_bytes(), host),
        Action::Completions(shell) => return show(&cli::completions(shell), host),
        Action::ListProfiles => return show(&list_of_profiles(host), host),
        Action::Run | Action::DryRun(_) | Action::PrintPolicy(_) | Action::Check { .. } => {}
    }
    let (policy, warnings) = sources::gather(Sources { profiles, policy: source, env, options: layer }, host)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    match action {
        Action::Check { json } => {
            let report = check::check(host, &policy)?;
            show(&report.render(json), host)?;
            if report.works() { Ok(Status::Done) } else { Ok(Status::Failed(Kind::Backend)) }
        }
        Action::PrintPolicy(form) => show(&printed(&policy, form, host)?, host),
        Action::DryRun(format) => {
            let planned = plan_only(&policy, host, &target)?;
            let hash = print::hash(&plan::absolute(&policy, host)?);
            show(&report::dry_run(&planned, &policy, hash, format), host)
        }
        Action::Run | Action::Help(_) | Action::Version(_) | Action::ListProfiles | Action::Completions(_) => {
            execute(&policy, host, &target)
        }
    }
}

fn list_of_profiles(host: &Host) -> Vec<u8> {
    let list = profiles::list(sources::profile_directory(host).as_deref());
    let lines = list.iter().flat_map(|(name, line)| [name.clone(), ": ".into(), log::escape(line), "\n".into()]);
    lines.collect::<String>().into_bytes()
}

fn printed(policy: &Policy, form: PolicyForm, host: &Host) -> Result<Vec<u8>> {
    let policy = plan::absolute(policy, host)?;
    let whole = |missing| {
        let mut writes = policy.files.grants.iter().filter(|grant| grant.access == Access::Write && !grant.file_only);
        writes.any(|grant| grant.missing == missing)
    };
    if whole(Missing::Create) && whole(Missing::Refuse) {
        return Err(Error::text(
            Kind::Policy,
            "cannot print the policy: some write grants make what is missing and some refuse it, and 'create_missing' is one word for all",
        ));
    }
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
