//! The caller's variables and the policy's rules, sorted for look-up.
//!
//! Nothing here decides what passes; only what cannot be a variable is left out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};

use super::{Environment, Reason, list};
use crate::policy::EnvEntry;
use crate::policy::env::{EnvRule, is_name};

/// The caller's variables that have a proper name: sorted, the last of duplicates.
pub(super) struct Caller<'a> {
    pub(super) vars: Vec<(&'a str, &'a OsStr)>,
}

impl<'a> Caller<'a> {
    pub(super) fn read(inherited: &'a [(OsString, OsString)], out: &mut Environment) -> Self {
        let mut vars = Vec::with_capacity(inherited.len());
        for (name, value) in inherited {
            match name.to_str().filter(|name| is_name(name.as_bytes())) {
                Some(name) => vars.push((name, value.as_os_str())),
                None => out.leave_out(name, Reason::Malformed),
            }
        }
        // Programs differ in which of two they read, so one must go; a shell would take the last.
        vars.reverse();
        vars.sort_by_key(|(name, _)| *name);
        let mut twice = BTreeSet::new();
        vars.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                twice.insert(kept.0);
            }
            same
        });
        if !twice.is_empty() {
            out.notes.push(format!("given more than once, the last one counts: {}", list(&twice)));
        }
        Self { vars }
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a OsStr> {
        let index = self.vars.binary_search_by_key(&name, |(name, _)| name).ok()?;
        self.vars.get(index).map(|(_, value)| *value)
    }
}

/// The rules by name; each with its place in the order.
pub(super) struct Rules<'a> {
    pub(super) exact: HashMap<&'a str, (usize, Exact<'a>)>,
    pub(super) prefixes: BTreeMap<&'a str, usize>,
}

#[derive(Clone, Copy)]
pub(super) enum Exact<'a> {
    Pass,
    Set(&'a OsStr),
}

impl<'a> Rules<'a> {
    pub(super) fn read(rules: &'a [EnvEntry]) -> Self {
        let mut exact = HashMap::new();
        let mut prefixes = BTreeMap::new();
        for (place, entry) in rules.iter().enumerate() {
            match &entry.rule {
                EnvRule::Pass(name) => {
                    exact.insert(name.as_str(), (place, Exact::Pass));
                }
                EnvRule::Set(name, value) => {
                    exact.insert(name.as_str(), (place, Exact::Set(value)));
                }
                EnvRule::PassPrefix(prefix) => {
                    prefixes.insert(prefix.as_str(), place);
                }
            }
        }
        Self { exact, prefixes }
    }

    pub(super) fn exact(&self, name: &str) -> Option<Exact<'a>> {
        self.exact.get(name).map(|(_, exact)| *exact)
    }

    pub(super) fn passes_by_name(&self, name: &str) -> bool {
        matches!(self.exact(name), Some(Exact::Pass))
    }
}
