//! What is said about an environment: requests that came to nothing, variables that lead nowhere.
//!
//! Nothing here changes what passes, and no message holds a value.

use std::collections::BTreeSet;

use super::endpoint::{Endpoint, endpoint};
use super::{Asked, Pruning, list, names};

impl Pruning<'_> {
    /// Turns what came to nothing into warnings and notes.
    pub(super) fn warn(&mut self) {
        let Asked { refused, held_back, unset } = std::mem::take(&mut self.asked);
        if !refused.is_empty() {
            self.out.warnings.push(format!(
                "inherited values of these variables never pass, only NAME=VALUE sets them: {}",
                list(&refused)
            ));
        }
        if !held_back.is_empty() {
            self.out.notes.push(format!("held back from wildcards, pass by their full names: {}", list(&held_back)));
        }
        if !unset.is_empty() {
            self.out.notes.push(format!("asked for and not set by the caller: {}", list(&unset)));
        }
        self.warn_of_pointers();
        // Whoever starts from nothing knows that.
        if self.inputs.network_host && self.inputs.policy.defaults {
            let lost: BTreeSet<&str> = (self.caller.vars.iter())
                .filter(|(name, value)| !value.is_empty() && names::is_way_out(name) && !self.chosen.contains_key(name))
                .map(|(name, _)| *name)
                .collect();
            if !lost.is_empty() {
                self.out.warnings.push(format!(
                    "--net host, but these of the caller's variables for proxies and certificates pass by name only (-e NAME): {}",
                    list(&lost)
                ));
            }
        }
    }

    /// Says which variables that were passed by name lead nowhere inside.
    fn warn_of_pointers(&mut self) {
        let runtime_dir = self.caller.get("XDG_RUNTIME_DIR");
        let mut sockets = BTreeSet::new();
        let mut paths = BTreeSet::new();
        let mut directories = BTreeSet::new();
        for (&name, choice) in self.chosen.iter().filter(|(_, choice)| choice.kept) {
            match endpoint(name, &choice.value, runtime_dir) {
                Some(Endpoint::Socket(path)) if !self.is_visible(path.as_os_str()) => {
                    sockets.insert(name);
                }
                Some(Endpoint::Abstract) if !self.inputs.network_host => {
                    self.out
                        .warnings
                        .push(format!("{name} is passed, but its abstract socket is not reachable without --net host"));
                }
                Some(Endpoint::Other) if !self.is_visible(&choice.value) => {
                    paths.insert(name);
                }
                Some(Endpoint::Socket(_) | Endpoint::Abstract | Endpoint::Other) => {}
                None => {
                    let pointer = names::toolchain(names::POINTERS, name).is_some();
                    if pointer && !self.is_visible(&choice.value) {
                        directories.insert(name);
                    }
                }
            }
        }
        for name in sockets {
            self.out.warnings.push(format!(
                "{name} is passed, but its socket is not reachable; --allow-socket with the socket's path opens it"
            ));
        }
        for name in paths {
            self.out
                .warnings
                .push(format!("{name} is passed, but its path is not in the view; --read with that path shows it"));
        }
        if !directories.is_empty() {
            self.out.notes.push(format!("passed, but the directory is not in the view: {}", list(&directories)));
        }
    }
}
