//! Reports about a run, for machines: the result object and the audit log.
//!
//! Opens their places before anything starts and writes once when all is over. Decides nothing about the run, except that it
//! does not start when a place is bad or open to the target.

mod audit;
pub mod file;
pub mod object;

use std::path::{Path, PathBuf};

use crate::backend::Backend;
use crate::error::{Error, Kind, Result};
use crate::host::Host;
use crate::log;
use crate::plan::{Gap, Plan};
use crate::stage::account::Account;
use crate::stage::output::Wish;
use crate::sys::process::describe;
use audit::Log;
use file::Place;
use object::{Object, Run};

/// What the command line asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Where the result goes.
    pub result: Option<ResultTo>,
    /// Whether output is kept for the result instead of being passed on.
    pub capture: bool,
    /// The file that a line is added to.
    pub audit_log: Option<PathBuf>,
}

impl Asked {
    /// Whether there is anything to report to.
    #[must_use]
    pub fn any(&self) -> bool {
        self.result.is_some() || self.audit_log.is_some()
    }

    /// The files that are named.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let result = match &self.result {
            Some(ResultTo::File(path)) => Some(path.as_path()),
            Some(ResultTo::Descriptor(_)) | None => None,
        };
        result.into_iter().chain(self.audit_log.as_deref())
    }
}

/// Where the result goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultTo {
    /// `--result`; the path is not empty.
    File(PathBuf),
    /// `--result-fd`.
    Descriptor(i32),
}

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
    result: Option<(ResultTo, Place)>,
    log: Option<(PathBuf, Log)>,
    capture: bool,
    known: Known,
}

/// What is known before the end.
#[derive(Debug, Default)]
pub struct Known {
    policy_sha256: Option<String>,
    chosen: Option<Chosen>,
    account: Account,
}

/// What a report says about the plan that runs.
#[derive(Debug)]
struct Chosen {
    backend: Backend,
    gaps: Vec<Gap>,
    env_dropped: Vec<String>,
}

impl Reports {
    /// Opens every place that is asked for, one that can be opened even when another cannot; the first failure counts.
    ///
    /// To be called after everything that the caller left open for us has been taken: what is opened here may get its number.
    pub fn open(&mut self, asked: Asked, host: &Host) -> Result<()> {
        self.capture = asked.capture;
        let mut failed = None;
        if let Some(to) = asked.result {
            let opened = match &to {
                ResultTo::File(path) => Place::open(path, host),
                ResultTo::Descriptor(number) => Place::descriptor(*number, host),
            };
            match opened {
                Ok(place) => self.result = Some((to, place)),
                Err(error) => failed = Some(refuse(&to.describe(), &describe(&error))),
            }
        }
        if let Some(path) = asked.audit_log {
            match Log::open(&path) {
                Ok(log) => self.log = Some((path, log)),
                Err(error) => {
                    let error = refuse(&format!("the audit log '{}'", path.display()), &describe(&error));
                    failed.get_or_insert(error);
                }
            }
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

    /// Refuses a plan whose target could write to one of the places.
    pub fn guard(&self, plan: &Plan) -> Result<()> {
        if let Some((ResultTo::Descriptor(number), _)) = &self.result
            && plan.keep_fds.contains(number)
        {
            return Err(refuse(
                &format!("the result to descriptor {number}"),
                "--keep-fd keeps it open for the command",
            ));
        }
        let ours = self.result.iter().flat_map(|(_, place)| place.numbers());
        let mut ours = ours.chain(self.log.iter().map(|(_, log)| log.number()));
        if let Some(number) = ours.find(|number| plan.keep_fds.contains(number)) {
            return Err(Error::text(Kind::Policy, format!("cannot keep descriptor {number}: it was not open")));
        }
        let result = self.result.iter().filter_map(|(to, place)| Some((to.describe(), place.lasting()?)));
        let log = self.log.iter().map(|(path, log)| (format!("the audit log '{}'", path.display()), log.path()));
        for (what, path) in result.chain(log) {
            if plan.lets_write(path) {
                return Err(refuse(&what, "the command could change it")
                    .hint(format!("--protect '{}' forbids that", path.display())));
            }
        }
        Ok(())
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
    pub fn write(self, run: Run) {
        if !self.wanted() {
            return;
        }
        let mut object = Object::new(run, self.known, self.capture, log::said());
        if let Some((to, place)) = self.result
            && let Err(error) = place.write(&object.line())
        {
            log::trouble(&format!("cannot write {}: {}", to.describe(), describe(&error)));
        }
        object.forget_output();
        if let Some((path, log)) = self.log
            && let Err(error) = log.append(&object.line())
        {
            log::trouble(&format!("cannot write the audit log '{}': {}", path.display(), describe(&error)));
        }
    }
}

fn refuse(what: &str, reason: &str) -> Error {
    Error::text(Kind::Policy, format!("cannot write {what}: {reason}"))
}
