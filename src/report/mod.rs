//! Reports about a run, for machines: the result object and the audit log.
//!
//! Opens their places before anything starts and writes once when all is over. Decides nothing about the run, except that it
//! does not start when a place is bad or open to the target.

mod asked;
mod audit;
pub mod file;
mod guard;
mod hold;
mod known;
pub mod object;
mod way;

use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};
use crate::host::Host;
use crate::log;
use crate::plan::links::reason;
use crate::plan::way_out::To;
use crate::plan::{self, Check, Plan};
use crate::stage::account::Account;
use crate::stage::output::Wish;
use crate::sys::process::describe;
pub use asked::{Asked, ResultTo};
use audit::Log;
use file::Place;
use known::{Chosen, Known};
use object::{Object, Run};
use way::Way;

/// Why nothing is written where an earlier target may have chosen what is written to.
const UNSURE: &str = "a link leads there, which an earlier command may have made";

impl ResultTo {
    fn describe(&self) -> String {
        match self {
            Self::File(path) => format!("the result to '{}'", path.display()),
            Self::Descriptor(number) => format!("the result to descriptor {number}"),
        }
    }
}

/// The reports of one call, and what is learnt for them on the way. The default is none.
#[derive(Debug, Default)]
pub struct Reports {
    result: Option<Destination>,
    log: Option<(PathBuf, Log)>,
    net_log: Option<(PathBuf, Log)>,
    /// What is known of the place of the result, and of the log.
    guarded: (Guarded, Guarded),
    capture: bool,
    known: Known,
}

/// Whether a plan was made whose target cannot choose where a report goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Guarded {
    /// No plan was made.
    #[default]
    Unknown,
    /// It could, and that was said.
    Refused,
    /// It cannot.
    Safe,
}

impl Guarded {
    fn from(checked: &Result<()>) -> Self {
        if checked.is_ok() { Self::Safe } else { Self::Refused }
    }

    /// Whether a place may be written that could be another than what its name says. What was said about it is not said again.
    fn allows(self, may_be_another: bool, what: &str) -> bool {
        if self == Self::Unknown && may_be_another {
            log::trouble(&format!("cannot write {what}: {UNSURE}"));
        }
        self == Self::Safe || !may_be_another
    }
}

/// The place of the result.
#[derive(Debug)]
struct Destination {
    to: ResultTo,
    /// The path of it, if it was one, absolute.
    path: Option<PathBuf>,
    place: Place,
}

impl Reports {
    /// Opens every place that is asked for, one that can be opened even when another cannot; the first failure counts.
    ///
    /// To be called after everything that the caller left open for us has been taken: what is opened here may get its number.
    pub fn open(&mut self, asked: Asked, host: &Host) -> Result<()> {
        self.capture = asked.capture;
        let mut failed = None;
        if let Some(to) = asked.result {
            match Destination::open(to, host) {
                Ok(result) => self.result = Some(result),
                Err(error) => failed = Some(error),
            }
        }
        if let Some(path) = asked.audit_log {
            let opened = expand(&path, host).and_then(|full| {
                Log::open(&full).map_err(|error| refuse(&describe_log(&path), &reason(&full, &error)))
            });
            match opened {
                Ok(log) => self.log = Some((path, log)),
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        if let Some(path) = asked.net_log {
            let opened = expand(&path, host).and_then(|full| {
                Log::open(&full).map_err(|error| refuse(&describe_net_log(&path), &reason(&full, &error)))
            });
            match opened {
                Ok(log) => self.net_log = Some((path, log)),
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        // To write the one would take the other away; the log has more in it.
        if let Some((_, log)) = &self.log
            && let Some(result) = self.result.take_if(|result| result.place.is(log.file()))
        {
            failed.get_or_insert(refuse(&result.to.describe(), "the audit log is the same file"));
        }
        failed.map_or(Ok(()), Err)
    }

    /// Whether there is anything to report to.
    #[must_use]
    pub fn wanted(&self) -> bool {
        self.result.is_some() || self.log.is_some()
    }

    /// What the outer stage has to do with output for the reports.
    #[must_use]
    pub fn wish(&self) -> Wish {
        Wish { capture: self.capture, count: self.wanted() }
    }

    /// Refuses a plan whose target could write to one of the places, or have a reader look elsewhere.
    pub fn guard(&mut self, plan: &Plan) -> Result<()> {
        let result = self.guard_result(plan);
        let log = self.log.as_ref().map_or(Ok(()), |(path, log)| {
            guard::check(plan, log.way(), Some(log.file()), &guard::STREAMS).map_err(|found| {
                found.refuse(&describe_log(path)).hint("a file where the command cannot write is a place for it")
            })
        });
        self.guarded = (Guarded::from(&result), Guarded::from(&log));
        result.and(log).and(self.guard_net_log(plan))
    }

    fn guard_net_log(&self, plan: &Plan) -> Result<()> {
        let Some((path, log)) = &self.net_log else { return Ok(()) };
        // An empty log would say that there were no requests.
        match plan.way_out.as_ref().map(|way| &way.to) {
            Some(To::Proxy(_)) => {}
            Some(To::Socket(_)) => {
                return Err(refuse(&describe_net_log(path), "the proxy of --egress-socket alone sees requests"));
            }
            None => {
                let error = refuse(&describe_net_log(path), "no proxy is started that would see requests");
                return Err(error.hint("--allow-host RULE starts one, for requests that RULE covers"));
            }
        }
        if log.may_be_another() {
            return Err(refuse(&describe_net_log(path), UNSURE));
        }
        guard::check(plan, log.way(), Some(log.file()), &guard::STREAMS).map_err(|found| {
            found.refuse(&describe_net_log(path)).hint("a file where the command cannot write is a place for it")
        })
    }

    /// Where lines about requests go.
    #[must_use]
    pub fn net_log(&self) -> Option<&std::fs::File> {
        self.net_log.as_ref().map(|(_, log)| log.file())
    }

    fn guard_result(&self, plan: &Plan) -> Result<()> {
        let number = self.result.as_ref().and_then(|result| match &result.place {
            Place::Stream { number, .. } => *number,
            Place::Name { .. } | Place::Fifo { .. } => None,
        });
        if let Some(result) = &self.result
            && number.is_some_and(|number| plan.keep_fds.contains(&number))
        {
            return Err(refuse(&result.to.describe(), guard::KEPT));
        }
        let ours = self.result.iter().flat_map(|result| result.place.numbers());
        let mut ours = ours.chain(self.log.iter().chain(&self.net_log).map(|(_, log)| log.number()));
        if let Some(number) = ours.find(|number| plan.keep_fds.contains(number)) {
            return Err(Error::text(Kind::Policy, format!("cannot keep descriptor {number}: it was not open")));
        }
        if plan.reach.is_some()
            && let (Some(end), Some(result)) = (self.exposed(plan), &self.result)
        {
            return Err(refuse(&result.to.describe(), "the command could change it")
                .hint(format!("under backend '{}' only a place outside of every write grant will do", plan.backend))
                .hint(format!("'{}' lies inside one", end.display())));
        }
        // What crosses in any case is the command's as well, and was named all the same.
        let shared = number.is_some_and(|number| number <= 2);
        if let Some(Destination { to, place, .. }) = &self.result
            && !shared
            && let Err(found) = guard::check(plan, place.way(), place.written(), &[])
        {
            return Err(found
                .refuse(&to.describe())
                .hint("a file where the command cannot write is a place for it, and so is a pipe of '--result-fd'"));
        }
        Ok(())
    }

    /// Makes the name of the result read-only inside, where the target could otherwise give it to a file of its own.
    pub fn protect(&self, plan: &mut Plan) {
        // Without mounts nothing inside a write grant can be kept from being written: that is refused.
        if plan.reach.is_none()
            && let Some(end) = self.exposed(plan)
        {
            plan.forbid_writing(&end);
        }
    }

    /// Takes hold of the name of the result, for a plan in which [`Self::protect`] has made it read-only.
    pub fn hold(&mut self, plan: &mut Plan) -> Result<()> {
        let Some(Destination { to, place, .. }) = &mut self.result else { return Ok(()) };
        let Some(end) = place.way().map(Way::end) else { return Ok(()) };
        let end = plan.forbidden_as(&end).unwrap_or(end);
        let forbidden = plan.forbids_writing(&end);
        // Without a view nothing can be forbidden, and all is looked at in the end.
        if !forbidden && plan.backend.filters() {
            return Ok(());
        }
        let found = place.hold(forbidden).map_err(|error| refuse(&to.describe(), &reason(&end, &error)))?;
        if let Some(found) = found.filter(|_| forbidden) {
            let (device, inode) = found.identity;
            let held = plan::Held::Protected;
            plan.checks.push(Check { path: end, device, inode, changed: found.time, held, covered: false });
        }
        Ok(())
    }

    /// The name of the result, when the target could write or make what has it.
    fn exposed(&self, plan: &Plan) -> Option<PathBuf> {
        let Place::Name { way, .. } = &self.result.as_ref()?.place else { return None };
        Some(way.end()).filter(|end| plan.lets_write(end))
    }

    /// Notes the hash of the policy.
    pub fn policy(&mut self, sha256: Option<String>) {
        self.known.policy_sha256 = sha256;
    }

    /// Notes the plan that is about to run.
    pub fn chose(&mut self, plan: &Plan) {
        if self.wanted() {
            self.known.chosen = Some(Chosen {
                backend: plan.backend,
                gaps: plan.gaps.clone(),
                env_dropped: plan
                    .environment
                    .dropped
                    .iter()
                    .map(|dropped| dropped.name.display().to_string())
                    .collect(),
            });
        }
    }

    /// Notes that the backend did not start it.
    pub fn passed_over(&mut self) {
        self.known.chosen = None;
    }

    /// Notes how it went.
    pub fn account(&mut self, account: Account) {
        self.known.account = account;
    }

    /// Writes everything; what cannot be written is said, and changes nothing else.
    pub fn write(mut self, run: Run) {
        if self.known.account.started_at.is_none()
            && let Some((_, log)) = self.net_log.take()
        {
            log.discard();
        }
        if !self.wanted() {
            return;
        }
        let mut object = Object::new(run, self.known, self.capture, log::said());
        if let Some(Destination { to, path, place }) = self.result
            && self.guarded.0.allows(place.may_be_another(), &to.describe())
            && let Err(error) = place.write(&object.line(), path.as_deref())
        {
            log::trouble(&format!("cannot write {}: {}", to.describe(), describe(&error)));
        }
        object.forget_output();
        let Some((path, log)) = self.log else { return };
        if !self.guarded.1.allows(log.may_be_another(), &describe_log(&path)) {
            log.discard();
        } else if let Err(error) = log.append(&object.line()) {
            log::trouble(&format!("cannot write {}: {}", describe_log(&path), describe(&error)));
        }
    }
}

impl Destination {
    fn open(to: ResultTo, host: &Host) -> Result<Self> {
        let (path, opened) = match &to {
            ResultTo::File(path) => {
                let path = expand(path, host)?;
                let opened = Place::open(&path, host).map_err(|error| reason(&path, &error));
                (Some(path), opened)
            }
            ResultTo::Descriptor(number) => (None, Place::descriptor(*number, host).map_err(|error| describe(&error))),
        };
        match opened {
            Ok(place) => Ok(Self { to, path, place }),
            Err(reason) => Err(refuse(&to.describe(), &reason)),
        }
    }
}

/// A path of an option made absolute, as everywhere: `~` is HOME, and what is relative begins where the caller is.
pub fn expand(path: &Path, host: &Host) -> Result<PathBuf> {
    plan::expand(path, host, host.cwd.as_deref().ok())
}

fn describe_log(path: &Path) -> String {
    format!("the audit log '{}'", path.display())
}

fn describe_net_log(path: &Path) -> String {
    format!("the log of requests '{}'", path.display())
}

fn refuse(what: &str, reason: &str) -> Error {
    Error::text(Kind::Policy, format!("cannot write {what}: {reason}"))
}
