//! Which rule decides about a path, who gave it, and what would decide otherwise.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::host::Host;
use crate::plan::links::{beyond, walk};
use crate::plan::view::{Own, Rule};
use crate::plan::{Plan, expand};
use crate::policy::{Access, Policy, hidden};

/// A rule as it was given.
#[derive(Debug, Serialize)]
pub(super) struct Given {
    /// The path as written.
    pub path: String,
    /// Who gave it.
    pub from: String,
}

/// The rule that decides.
#[derive(Debug, Serialize)]
pub(super) struct Deciding {
    pub rule: &'static str,
    /// What it is about.
    pub at: Option<String>,
    pub given: Vec<Given>,
    /// In words.
    #[serde(skip)]
    pub text: &'static str,
}

/// The rule of `plan` that decides about `path`, which names no link.
pub(super) fn deciding(plan: &Plan, policy: &Policy, host: &Host, path: &Path) -> Deciding {
    if !plan.backend.keeps_rules() {
        let text = "backend 'none' has no view of its own: what the host shows, the command sees";
        return Deciding { rule: "no-view", at: None, given: Vec::new(), text };
    }
    let Some((at, rule)) = plan.rules.decides(path) else {
        let text = "no rule shows it, and it is no part of every view";
        return Deciding { rule: "none", at: None, given: Vec::new(), text };
    };
    if plan.reach.is_some() && matches!(rule, Rule::Own(_)) {
        let text = "the host's is out of reach, and this backend has none of its own under that name";
        return Deciding { rule: "no-own", at: Some(at.display().to_string()), given: Vec::new(), text };
    }
    // A directory between a grant and a rule below it is mounted by itself and has the grant's rule.
    let (at, rule) = match rule {
        Rule::Pin => {
            let above = at.ancestors().skip(1);
            let mut above = above.filter_map(|above| plan.rules.decides(above));
            above.find(|(_, rule)| **rule != Rule::Pin).unwrap_or((at, rule))
        }
        _ => (at, rule),
    };
    let (word, text) = match (rule, at.file_name()) {
        (Rule::Hidden, Some(name)) if !hidden::is_hidden(name) => {
            ("closed", "what cannot be searched is hidden as a whole, below a wider grant or the working directory")
        }
        _ => word(rule),
    };
    let given = Asking { plan, policy, host }.given(rule, at);
    Deciding { rule: word, at: Some(at.display().to_string()), given, text }
}

/// Whether somebody asked for `rule` at `at`, and it does not hold by itself.
#[must_use]
pub fn given(rule: &Rule, at: &Path, plan: &Plan, policy: &Policy, host: &Host) -> bool {
    !Asking { plan, policy, host }.given(rule, at).is_empty()
}

/// The word for machines and the text for people.
pub(super) fn word(rule: &Rule) -> (&'static str, &'static str) {
    match rule {
        Rule::System { .. } => ("system", "a part of every view, read-only"),
        Rule::Folder => ("folder", "an empty directory that a name passes through"),
        Rule::Link { .. } => ("link", "a link that leads to something visible"),
        Rule::Own(Own::Proc) => ("own-proc", "the sandbox's own processes"),
        Rule::Own(Own::Dev) => ("own-dev", "the sandbox's own few devices"),
        Rule::Own(Own::Shared | Own::SecondTmp) => {
            ("private", "a private directory, empty at the start and gone afterwards")
        }
        Rule::Own(Own::Nothing) => ("own-empty", "empty in every view: it tells of the caller"),
        Rule::Own(Own::Home) => ("private-home", "a private HOME, empty at the start and gone afterwards"),
        Rule::Hidden => ("hidden-name", "a name that begins with a dot, below a wider grant or the working directory"),
        Rule::Secret => ("secret", "a well-known place of secrets or control sockets, below a wider grant"),
        Rule::Pin | Rule::Write => ("write", "write grant"),
        Rule::Workdir => ("working-directory", "the working directory, read-only by itself"),
        Rule::Program => ("program", "a file that the command needs to start, this file alone"),
        Rule::Read => ("read", "read grant"),
        Rule::AllowSocket => ("allow-socket", "an allowed socket"),
        Rule::Protect => ("protect", "protect: not to be written inside a write grant"),
        Rule::Mask => ("mask", "mask"),
        Rule::DenySocket => ("deny-socket", "a denied socket"),
    }
}

pub(super) struct Asking<'a> {
    pub plan: &'a Plan,
    pub policy: &'a Policy,
    pub host: &'a Host,
}

impl Asking<'_> {
    /// Everybody who asked for `rule` at `at`; nobody where it holds by itself.
    pub fn given(&self, rule: &Rule, at: &Path) -> Vec<Given> {
        let files = &self.policy.files;
        let rules = match rule {
            Rule::Read | Rule::Write | Rule::Pin => {
                let access = if *rule == Rule::Read { Access::Read } else { Access::Write };
                let grants = files.grants.iter().filter(|grant| grant.access == access);
                return self.those_at(at, grants.map(|grant| (grant.path.as_path(), grant.origin.to_string())));
            }
            Rule::Workdir => {
                let origin =
                    self.policy.origins.get("workdir").map_or_else(|| "default".to_owned(), ToString::to_string);
                let written = self.policy.workdir.as_deref().unwrap_or(&self.plan.workdir);
                return vec![Given { path: written.display().to_string(), from: origin }];
            }
            Rule::Mask => &files.masks,
            Rule::Protect => &files.protects,
            Rule::AllowSocket => &self.policy.allow_sockets,
            Rule::DenySocket => &self.policy.deny_sockets,
            Rule::System { .. }
            | Rule::Folder
            | Rule::Link { .. }
            | Rule::Own(_)
            | Rule::Hidden
            | Rule::Secret
            | Rule::Program => return Vec::new(),
        };
        self.those_at(at, rules.iter().map(|rule| (rule.path.as_path(), rule.origin.to_string())))
    }

    fn those_at<'a>(&self, at: &Path, written: impl Iterator<Item = (&'a Path, String)>) -> Vec<Given> {
        let there = written.filter(|(path, _)| self.end(path).is_some_and(|end| end == at));
        there.map(|(path, from)| Given { path: path.display().to_string(), from }).collect()
    }

    fn end(&self, written: &Path) -> Option<PathBuf> {
        let path = expand(written, self.host, Some(&self.plan.workdir)).ok()?;
        match walk(&path) {
            Ok(found) => Some(found.end),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                beyond(&path).ok().map(|(found, rest)| found.end.join(rest))
            }
            Err(_) => None,
        }
    }
}
