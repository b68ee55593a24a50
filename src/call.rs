//! One call of the program, from argv to status.
//!
//! Reads what was typed, gathers the policy, hands it to whoever does what was asked for, and prints what is not the target's.

use std::ffi::OsString;
use std::os::unix::fs::FileTypeExt;

use nix::sys::signal::Signal;

use crate::answer::{failed, gather, list_of_profiles, printed, show};
use crate::attempt::{self, execute, plan_only};
use crate::cli::{self, Action, EnvWord, Format, Invocation, Misread, PolicySource};
use crate::config::print;
use crate::config::sources::Sources;
use crate::error::{Kind, Result};
use crate::exit::Status;
use crate::host::Host;
use crate::policy::Policy;
use crate::report::object::Run;
use crate::report::{self, Asked, Reports};
use crate::{check, dry_run, explain, log, plan, sys};

/// Does what `arguments` (without `argv[0]`) say.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Status {
    let host = Host::probe();
    // Under a limit on file sizes a file that becomes too large shall be an error and not our death. Cannot fail for this signal.
    let _ignored = sys::signals::ignore(Signal::SIGXFSZ);
    let invocation = match cli::read(arguments) {
        Ok(invocation) => invocation,
        Err(misread) => return misread_command(*misread, &host),
    };
    log::start(invocation.verbosity, invocation.log_format, host.variable(log::VARIABLE));
    let Invocation { action, layer, profiles, source, env, reports, trace, target, verbosity: _, log_format: _ } =
        invocation;
    let sources = Sources { profiles, policy: source, env, options: layer };
    let done = match action {
        Action::Run => return run_target(sources, reports, trace, target, &host),
        Action::Help(text) | Action::Version(text) => show(text.as_bytes(), &host),
        Action::Completions(shell) => show(&cli::completions(shell), &host),
        Action::ListProfiles => show(&list_of_profiles(&host), &host),
        Action::Check { json } => gather(sources, &host).and_then(|policy| tried(&policy, json, &host)),
        Action::PrintPolicy(form) => {
            if let Some(hint) = stray_form("--print-policy", &["json", "toml", "payload"], &target)
                && !target.first().is_some_and(|word| host.has_program(word))
            {
                tracing::warn!("the word after --print-policy is the command: {hint}");
            }
            gather(sources, &host)
                .and_then(|policy| show(&printed(&policy, &plan::absolute(&policy, &host)?, form)?, &host))
        }
        Action::DryRun(format) => {
            let done = gather(sources, &host)
                .and_then(|policy| show(&planned(&policy, &target, trace, format, &host)?, &host));
            done.map_err(|error| match stray_form("--dry-run", &["text", "json"], &target) {
                Some(hint) if error.kind() == Kind::NotFound => error.hint(hint),
                _ => error,
            })
        }
        Action::Explain { paths, json } => gather(sources, &host).and_then(|policy| {
            let report = explain::explain(&policy, &host, &target, trace, &paths)?;
            let shown = show(&report.render(json), &host)?;
            report.verdict().map(|()| shown)
        }),
    };
    done.unwrap_or_else(|error| failed(&error))
}

/// Runs the target and reports about it, whatever happens.
fn run_target(sources: Sources, asked: Asked, trace: bool, target: Vec<OsString>, host: &Host) -> Status {
    let mut reports = Reports::default();
    // A signal is something to report, too. Not while it may be needed to end a wait.
    let early = if asked.any() && !may_wait(&sources, &asked, host) { attempt::settle() } else { Ok(()) };
    let gathered = early.and_then(|()| gather(sources, host));
    let opened = reports.open(asked, host);
    let done = gathered.and_then(|policy| {
        if reports.wanted() {
            // A policy without a hash is one that cannot be planned either.
            reports.policy(plan::absolute(&policy, host).ok().map(|policy| print::hash(&policy)));
        }
        opened?;
        execute(&policy, host, &target, trace, &mut reports)
    });
    let status = done.unwrap_or_else(|error| failed(&error));
    reports.write(Run { argv: Some(target), status });
    status
}

/// Whether something that has to be opened is no plain file: a FIFO waits for its other end.
fn may_wait(sources: &Sources, asked: &Asked, host: &Host) -> bool {
    let policy = match &sources.policy {
        Some(PolicySource::StandardInput | PolicySource::Descriptor(_)) => return true,
        Some(PolicySource::File(path)) => Some(path.as_path()),
        Some(PolicySource::Payload(_)) | None => None,
    };
    let variables = sources.env.iter().filter_map(|word| match word {
        EnvWord::File(path) => Some(path.as_path()),
        EnvWord::Rule(_) => None,
    });
    let found = |path| report::expand(path, host).ok().and_then(|path| std::fs::metadata(path).ok());
    policy.into_iter().chain(variables).any(|path| found(path).is_some_and(|found| !found.is_file()))
        // A FIFO of these is opened in the end.
        || asked.files().any(|path| found(path).is_some_and(|found| !found.is_file() && !found.file_type().is_fifo()))
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

/// A word that was taken for the command where a form of what is printed was meant.
fn stray_form(option: &str, forms: &[&str], target: &[OsString]) -> Option<String> {
    let word = target.first()?.to_str()?;
    forms.contains(&word).then(|| format!("a form is typed after '=': {option}={word}"))
}

fn tried(policy: &Policy, json: bool, host: &Host) -> Result<Status> {
    let report = check::check(host, policy)?;
    show(&report.render(json), host)?;
    if report.works() { Ok(Status::Done) } else { Ok(Status::Failed(Kind::Backend)) }
}

fn planned(policy: &Policy, target: &[OsString], trace: bool, format: Format, host: &Host) -> Result<Vec<u8>> {
    let planned = plan_only(policy, host, target, trace)?;
    let hash = print::hash(&plan::absolute(policy, host)?);
    dry_run::render(&planned, policy, hash, format)
}
