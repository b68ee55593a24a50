//! Filling a view: rules that were written first ([`written`]), then what every view holds ([`defaults`], or [`by_rules`] where
//! nothing is mounted) and what [`machinery`] takes away of that, then what the search for hidden names takes away ([`hidden`]), then what protects later runs ([`own`]),
//! then the same under other names ([`second_names`]), then what the target needs to start ([`program`]).
//!
//! Resolves each written path once; whatever is added names no link.

mod by_rules;
mod defaults;
mod hidden;
mod machinery;
mod own;
mod place;
mod program;
mod second_names;
mod written;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::base;
use super::git::bounds::Looked;
use super::git::whole::Recognised;
use super::links::{Link, Walk};
use super::secrets::Secrets;
use super::view::{FileKind, Rule, View};
use super::{Absent, Create};
use crate::host::Host;
use crate::policy::Origin;

pub(crate) use place::expand;

/// A view in the making.
pub(super) struct Builder<'a> {
    pub(super) host: &'a Host,
    pub(super) workdir: &'a Path,
    /// What is known so far.
    pub view: View,
    /// Directories to make on the host.
    pub create: Vec<Create>,
    /// What explains surprises.
    pub notes: Vec<String>,
    /// What a careful caller should hear of.
    pub warnings: Vec<String>,
    /// What git on the host would obey and what does not exist: see [`super::Plan::absent`].
    pub absent: BTreeSet<Absent>,
    /// How git recognises the repositories that can be written.
    pub recognised: Recognised,
    /// Protects of what does not exist in a write grant: see [`super::Plan::unprotected`].
    pub unprotected: Vec<(PathBuf, Origin)>,
    /// What has been looked at for git.
    pub(super) looked: Looked,
    /// Where this host has secrets.
    secrets: Secrets,
}

impl<'a> Builder<'a> {
    pub fn new(host: &'a Host, workdir: &'a Path) -> Self {
        Self {
            host,
            workdir,
            view: View::default(),
            create: Vec::new(),
            notes: Vec::new(),
            warnings: Vec::new(),
            absent: BTreeSet::new(),
            recognised: Recognised::default(),
            unprotected: Vec::new(),
            looked: Looked::default(),
            secrets: Secrets::of(host),
        }
    }

    /// Adds a rule at the end of a walk, and the links that lead there.
    fn add(&mut self, found: &Walk, rule: Rule) {
        self.links(&found.links);
        self.view.add(&found.end, rule, FileKind::of(&found.metadata));
    }

    fn links(&mut self, links: &[Link]) {
        for link in links {
            self.view.add(&link.at, Rule::Link { text: link.text.clone() }, FileKind::File);
        }
    }
}

/// Whether `path` is a part of the sandbox's own `/proc` or `/dev`.
fn reserved(path: &Path) -> bool {
    let shared = Path::new(base::SHARED);
    base::RESERVED.iter().any(|tree| path.starts_with(tree)) && (path == shared || !path.starts_with(shared))
}
