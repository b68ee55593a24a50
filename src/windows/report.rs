//! Where reports about a run go: files, opened before anything starts and written once when all is over.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::windows::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::paths;
use super::plan::Plan;
use super::program::is_device;
use super::streams::Wish;
use crate::error::{Error, Kind, Result};
use crate::host::Host;
use crate::log;
use crate::report::object::{Object, Run};
use crate::report::{Asked, Chosen, Known, ResultTo};
use crate::stage::account::Account;
use crate::sys::process::describe;

/// The reports of one call, and what is learnt for them on the way. The default is none.
#[derive(Debug, Default)]
pub struct Reports {
    result: Option<Place>,
    log: Option<(PathBuf, File)>,
    capture: bool,
    known: Known,
}

/// A file that is to be replaced as a whole: what is to have its name, which nobody else can open until then.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
}

impl Place {
    fn open(path: PathBuf) -> io::Result<Self> {
        if path.is_dir() {
            return Err(io::Error::other("it is a directory"));
        }
        if path.file_name().is_none_or(|name| is_device(name.as_encoded_bytes())) {
            return Err(io::Error::other("it is the name of a device"));
        }
        let temporary = paths::beside(&path, std::process::id());
        let file = File::options().write(true).create_new(true).share_mode(0).open(&temporary)?;
        Ok(Self { path, temporary, file })
    }

    fn write(self, bytes: &[u8]) -> io::Result<()> {
        let Self { path, temporary, mut file } = self;
        let done = file.write_all(bytes);
        drop(file);
        let done = done.and_then(|()| fs::rename(&temporary, &path));
        if done.is_err() {
            // The failure that counts is told.
            let _gone = fs::remove_file(&temporary);
        }
        done
    }
}

impl Reports {
    /// Opens every place that is asked for.
    pub fn open(&mut self, asked: Asked, host: &Host) -> Result<()> {
        self.capture = asked.capture;
        let expand = |path: &Path| paths::expand(path, host, host.cwd.as_deref().ok());
        match asked.result {
            None => {}
            Some(ResultTo::Descriptor(number)) => {
                let what = format!("the result to descriptor {number}");
                return Err(
                    refuse(&what, "descriptors have no numbers on this system").hint("--result FILE writes a file")
                );
            }
            Some(ResultTo::File(path)) => {
                let opened = expand(&path)
                    .and_then(|full| Place::open(full).map_err(|error| refuse(&result(&path), &describe(&error))));
                self.result = Some(opened?);
            }
        }
        if let Some(path) = asked.audit_log {
            let what = format!("the audit log '{}'", path.display());
            let full = expand(&path)?;
            let opened = File::options().append(true).create(true).open(&full);
            self.log = Some((path, opened.map_err(|error| refuse(&what, &describe(&error)))?));
        }
        Ok(())
    }

    /// Whether there is anything to report to.
    #[must_use]
    pub fn wanted(&self) -> bool {
        self.result.is_some() || self.log.is_some()
    }

    /// What is asked of output for the reports.
    #[must_use]
    pub fn wish(&self) -> Wish {
        Wish { most: None, capture: self.capture, count: self.wanted() }
    }

    /// Notes the hash of the policy.
    pub fn policy(&mut self, sha256: Option<String>) {
        self.known.policy_sha256 = sha256;
    }

    /// Notes the plan that is about to run.
    pub fn chose(&mut self, plan: &Plan) {
        let dropped = plan.environment.dropped.iter();
        self.known.chosen = Some(Chosen {
            backend: plan.backend,
            gaps: plan.gaps.clone(),
            env_dropped: dropped.map(|dropped| dropped.name.display().to_string()).collect(),
        });
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
        if let Some(place) = self.result {
            let what = result(&place.path);
            if let Err(error) = place.write(&object.line()) {
                log::trouble(&format!("cannot write {what}: {}", describe(&error)));
            }
        }
        object.forget_output();
        if let Some((path, mut file)) = self.log
            && let Err(error) = file.write_all(&object.line())
        {
            log::trouble(&format!("cannot write the audit log '{}': {}", path.display(), describe(&error)));
        }
    }
}

fn result(path: &Path) -> String {
    format!("the result to '{}'", path.display())
}

fn refuse(what: &str, reason: &str) -> Error {
    Error::text(Kind::Policy, format!("cannot write {what}: {reason}"))
}
