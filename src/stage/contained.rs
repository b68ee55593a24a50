//! What is different for the inner stage in a container: nothing is inherited there, and the command is the image's.
//!
//! Decides nothing that isolates.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;

use serde::{Deserialize, Serialize};

use super::control::{GO_ON, Inner, Step};
use super::handoff::Handoff;
use super::inner::{At, FAILED, Failure};
use super::look::Place;
use super::outer::Mode;
use super::rlimits;
use crate::error::Error;
use crate::plan::Plan;
use crate::plan::target::{self, Search};
use crate::sys;

/// What a container does not inherit, or has of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Container {
    /// The caller's mask for the modes of new files.
    pub umask: u32,
    /// The caller's resource limits: number, soft, hard.
    pub rlimits: Vec<(u32, u64, u64)>,
    /// Whether `PATH` is that of the image.
    pub path_of_image: bool,
    /// What would be mounted, where that is what to look for.
    pub look: Option<Vec<Place>>,
}

impl Container {
    /// As they are in this process; `None` where there is no container.
    #[must_use]
    pub fn of(plan: &Plan, mode: Mode) -> Option<Self> {
        let look = match mode {
            Mode::Look(places) => Some(places.to_vec()),
            Mode::Run(_) | Mode::Rehearse | Mode::Try(_) => None,
        };
        let container = plan.container.as_ref()?;
        Some(Self {
            umask: sys::process::umask(),
            rlimits: rlimits::inherited(),
            path_of_image: container.path_of_image,
            look,
        })
    }
}

/// Waits until the outer stage has found out that the engine keeps its promises. Signals that are to be passed on come first.
pub(super) fn wait_for_word(control: &Inner) -> Result<Vec<i32>, Failure> {
    let mut early = Vec::new();
    loop {
        match control.receive() {
            Ok(Some(GO_ON)) => return Ok(early),
            Ok(Some(number)) => early.push(number),
            // Gone, or it has found out that not.
            Ok(None) => sys::process::exit_now(FAILED),
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            Err(error) => return Err(error).at(Step::Handle),
        }
    }
}

/// The hand-off with the target as it is found in the image.
pub(super) fn fit(handoff: &Handoff, container: &Container) -> Result<Handoff, Error> {
    let mut handoff = handoff.clone();
    if container.path_of_image
        && let Some(path) = std::env::var_os("PATH")
    {
        let mut own = CString::new(["PATH=".as_bytes(), path.as_bytes()].concat()).unwrap_or_default();
        for variable in handoff.environment.iter_mut().filter(|variable| variable.as_bytes().starts_with(b"PATH=")) {
            std::mem::swap(variable, &mut own);
        }
    }
    if !handoff.trials.is_empty() {
        return Ok(handoff);
    }
    let path = handoff.environment.iter().find_map(|variable| variable.as_bytes().strip_prefix(b"PATH="));
    let path = target::path_entries(path.map(OsStr::from_bytes));
    let word = OsStr::from_bytes(handoff.program.as_bytes());
    let found = target::resolve(&Search { word, path: &path, workdir: &handoff.workdir })?;
    handoff.header.by_shell = found.script_without_shebang;
    handoff.program = CString::new(found.literal.into_os_string().as_bytes()).unwrap_or_default();
    Ok(handoff)
}
