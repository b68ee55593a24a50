//! What every system's [`call`](crate::call) has in common: gathering the policy, and printing what is not the target's.
//!
//! Starts nothing.

use std::io::{self, Write};

use crate::cli::PolicyForm;
use crate::config::sources::{self, Sources};
use crate::config::{payload, print, profiles, record};
use crate::error::{Error, Kind, Result};
use crate::exit::Status;
use crate::host::Host;
use crate::policy::Policy;
use crate::{log, sys};

/// Says why nothing ran.
pub(crate) fn failed(error: &Error) -> Status {
    // Who dies of a signal has no last words.
    if !matches!(error.kind(), Kind::Interrupted(_)) {
        log::failure(error);
    }
    Status::Failed(error.kind())
}

/// The policy; says what a careful caller should hear of.
pub(crate) fn gather(sources: Sources, host: &Host) -> Result<Policy> {
    let (policy, warnings) = sources::gather(sources, host)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    Ok(policy)
}

/// Each profile in a line.
pub(crate) fn list_of_profiles(host: &Host) -> Vec<u8> {
    let list = profiles::list(sources::profile_directory(host).as_deref());
    let lines = list.iter().flat_map(|(name, line)| [name.clone(), ": ".into(), log::escape(line), "\n".into()]);
    lines.collect::<String>().into_bytes()
}

/// A policy in words for people or programs. `absolute` is the same with absolute paths: a file keeps the words, a payload has no
/// place for them.
pub(crate) fn printed(policy: &Policy, absolute: &Policy, form: PolicyForm) -> Result<Vec<u8>> {
    let text = match form {
        PolicyForm::Json => print::json(policy),
        PolicyForm::Toml => print::toml(policy),
        PolicyForm::Payload => {
            let record = record::record(absolute)
                .map_err(|error| Error::text(Kind::Policy, format!("cannot print the policy as a payload: {error:#}")))
                .map_err(|error| error.hint("--print-policy=toml has a place for everything"))?;
            payload::encode(&record) + "\n"
        }
    };
    Ok(text.into_bytes())
}

/// Writes to standard output what is not the target's; a reader that is gone or a full disk is a failure.
pub(crate) fn show(bytes: &[u8], host: &Host) -> Result<Status> {
    let mut out = io::stdout().lock();
    // What was closed is open by now, and leads nowhere.
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
