//! The environment of the target: the caller's, pruned by the policy's rules, with what the launcher sets.
//!
//! A pure function of bytes. Nothing here reads or changes the environment of this process, looks at the file system, or
//! puts a value into a message. In the order of precedence:
//!
//! 1. Internal names and names that are no variable names never pass.
//! 2. `NAME=VALUE` sets anything else, verbatim.
//! 3. An inherited value under a name of [`names::never_inherited`] never passes.
//! 4. `NAME` passes the caller's value, secret or not.
//! 5. `PREFIX_*` passes what it matches, without names and values that look secret and without what passes by name only.
//! 6. The default list passes ([`names::DEFAULTS`], toolchain directories that are in the view, variables that lead to an allowed
//!    socket and to nothing else), unless it was turned off.
//!
//! Among rules that apply to a name the last one wins. `PWD` is always set. `PATH`, `HOME` and the four names of the
//! temporary directory hold what is true inside; without the default list they are there only when a rule names them.

mod endpoint;
mod make;
mod messages;
pub mod names;
mod proxy;
mod sources;
#[cfg(test)]
mod tests;
pub mod windows;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

pub use make::{Jobserver, jobserver};
pub use proxy::Proxy;

use endpoint::{Endpoint, endpoint};
use sources::{Caller, Exact, Rules};

use crate::policy::env::{EnvPolicy, INTERNAL_PREFIX};

/// Where programs are looked for when the caller has no usable `PATH`.
pub const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Linux's `MAX_ARG_STRLEN`: an entry of this many bytes, its final NUL included, still fits; one more makes exec fail.
pub const MAX_ENTRY: usize = 131_072;

/// Variables whose value the launcher decides, unless one is typed.
const OURS: &[&str] = &["HOME", "PATH", "PWD", "TEMP", "TEMPDIR", "TMP", "TMPDIR"];

/// What the environment is made from.
pub struct Inputs<'a> {
    /// The caller's environment in its own order, malformed entries and duplicates included.
    pub inherited: &'a [(OsString, OsString)],
    /// The rules.
    pub policy: &'a EnvPolicy,
    /// Whether `MAKEFLAGS` passes whole, its descriptors crossing too.
    pub keep_jobserver: bool,
    /// Whether the target has the host's network, and with it abstract sockets.
    pub network_host: bool,
    /// The proxy inside.
    pub proxy: Option<Proxy<'a>>,
    /// Names and values of variables that stand for secrets.
    pub placeholders: Vec<(&'a str, &'a str)>,
    /// The working directory inside.
    pub pwd: &'a Path,
    /// `HOME` as the target sees it; `None` leaves the caller's value, or its absence.
    pub home: Option<&'a Path>,
    /// The private temporary directory; `None` when the backend has none, then an absolute `TMPDIR` of the caller stays.
    pub tmp: Option<&'a Path>,
    /// Whether an absolute host path is in the view at its own place.
    pub visible: &'a dyn Fn(&Path) -> bool,
    /// Whether an absolute host path is a socket that was allowed by name.
    pub allowed: &'a dyn Fn(&Path) -> bool,
}

/// The environment of the target and how it came about. Everything but `vars` holds names only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// Final, sorted by name, each name once.
    pub vars: Vec<(OsString, OsString)>,
    /// Passed from the caller, perhaps cleaned (`PATH`, `MAKEFLAGS`); sorted.
    pub kept: Vec<OsString>,
    /// Those of them that pass because their socket is allowed; sorted.
    pub with_socket: Vec<OsString>,
    /// Set by the launcher or by `NAME=VALUE`; sorted.
    pub set: Vec<OsString>,
    /// Not passed; sorted by name.
    pub dropped: Vec<Dropped>,
    /// What the caller should know, one line each.
    pub warnings: Vec<String>,
    /// What a curious caller may want to know, one line each.
    pub notes: Vec<String>,
    /// Variables of `vars` that exec on Linux refuses as too long; sorted.
    pub too_large: Vec<OsString>,
}

/// A variable of the caller that the target does not get.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dropped {
    /// Its name, any bytes.
    pub name: OsString,
    /// Why.
    pub reason: Reason,
}

/// Why a variable is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// No rule and no default names it.
    NotAllowed,
    /// Its inherited value never passes.
    NeverInherited,
    /// It belongs to the launcher.
    Internal,
    /// A wildcard matches, but the name looks secret.
    SecretName,
    /// A wildcard matches, but the value is a URL with a user part.
    UserInUrl,
    /// A wildcard matches, but only the full name admits it.
    ByNameOnly,
    /// Allowed by default only when what it points at is in the view.
    Hidden,
    /// The name is not one that a shell could hold.
    Malformed,
}

impl Reason {
    /// The reason as text, for reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotAllowed => "not on the allowlist",
            Self::NeverInherited => "never inherited",
            Self::Internal => "internal to sandbox-run",
            Self::SecretName => "held back from a wildcard, the name looks secret",
            Self::UserInUrl => "held back from a wildcard, the value is a URL with a user part",
            Self::ByNameOnly => "held back from a wildcard, passes by its full name only",
            Self::Hidden => "points at something that is not in the view",
            Self::Malformed => "not a variable name",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The environment of the target.
///
/// The cost grows with the size of the inputs and no faster than their sorting.
#[must_use]
pub fn prune(inputs: &Inputs<'_>) -> Environment {
    let mut out = Environment::default();
    let caller = Caller::read(inputs.inherited, &mut out);
    let rules = Rules::read(&inputs.policy.rules);
    let mut pruning = Pruning { inputs, caller, rules, chosen: BTreeMap::new(), asked: Asked::default(), out };
    pruning.inherit();
    pruning.set_typed();
    pruning.set_ours();
    pruning.set_proxy();
    pruning.select();
    pruning.follow_sockets();
    pruning.warn();
    pruning.finish()
}

/// A variable of the target.
struct Choice<'a> {
    value: Cow<'a, OsStr>,
    kept: bool,
}

/// Requests that came to nothing, for one message each.
#[derive(Default)]
struct Asked<'a> {
    refused: BTreeSet<&'a str>,
    held_back: BTreeSet<&'a str>,
    unset: BTreeSet<&'a str>,
}

struct Pruning<'a> {
    inputs: &'a Inputs<'a>,
    caller: Caller<'a>,
    rules: Rules<'a>,
    chosen: BTreeMap<&'a str, Choice<'a>>,
    asked: Asked<'a>,
    out: Environment,
}

impl<'a> Pruning<'a> {
    /// Decides about each variable of the caller that is neither ours nor one that waits for others.
    fn inherit(&mut self) {
        let matched = self.match_prefixes();
        let vars = std::mem::take(&mut self.caller.vars);
        for ((name, value), prefix) in vars.iter().copied().zip(matched) {
            if OURS.contains(&name) {
                continue;
            }
            match self.decide(name, value, prefix) {
                Verdict::Keep => {
                    let value = self.clean(name, value);
                    self.chosen.insert(name, Choice { value, kept: true });
                }
                Verdict::Drop(reason) => self.out.leave_out(OsStr::new(name), reason),
                Verdict::Elsewhere => {}
            }
        }
        self.caller.vars = vars;
    }

    /// For each variable of the caller the place of the last wildcard that matches its name.
    fn match_prefixes(&mut self) -> Vec<Option<usize>> {
        let vars = &self.caller.vars;
        let mut matched: Vec<Option<usize>> = vec![None; vars.len()];
        let mut idle = Vec::new();
        for (&prefix, &place) in &self.rules.prefixes {
            let from = vars.partition_point(|(name, _)| *name < prefix);
            let with_prefix = vars[from..].iter().take_while(|(name, _)| name.starts_with(prefix));
            let count = with_prefix.count();
            for slot in &mut matched[from..from + count] {
                *slot = (*slot).max(Some(place));
            }
            if count == 0 {
                idle.push(format!("{prefix}*"));
            }
        }
        if !idle.is_empty() {
            self.out.notes.push(format!("wildcards that match nothing: {}", idle.join(", ")));
        }
        matched
    }

    /// The verdict on a variable of the caller; `wildcard` is the place of the last one that matches it.
    fn decide(&mut self, name: &'a str, value: &OsStr, wildcard: Option<usize>) -> Verdict {
        if name.starts_with(INTERNAL_PREFIX) {
            return Verdict::Drop(Reason::Internal);
        }
        let objection = wildcard.and_then(|_| objection_to_wildcard(name, value));
        let admitted = wildcard.filter(|_| objection.is_none());
        match self.rules.exact.get(name).copied() {
            Some((place, Exact::Set(_))) if admitted > Some(place) => {
                // The wildcard came last, so the typed value is no longer wanted.
                self.rules.exact.remove(name);
                return Verdict::Keep;
            }
            Some((_, Exact::Set(_))) => return Verdict::Elsewhere,
            Some((_, Exact::Pass)) if names::never_inherited(name) => {
                self.asked.refused.insert(name);
                return Verdict::Drop(Reason::NeverInherited);
            }
            Some((_, Exact::Pass)) => return Verdict::Keep,
            None if admitted.is_some() => return Verdict::Keep,
            None => {}
        }
        let verdict = self.decide_by_default(name, value);
        let (Verdict::Drop(_), Some(objection)) = (verdict, objection) else { return verdict };
        match objection {
            Reason::NeverInherited => self.asked.refused.insert(name),
            _ => self.asked.held_back.insert(name),
        };
        Verdict::Drop(objection)
    }

    /// The verdict on a variable that no rule admits.
    fn decide_by_default(&self, name: &str, value: &OsStr) -> Verdict {
        if names::never_inherited(name) {
            return Verdict::Drop(Reason::NeverInherited);
        }
        if name == "MAKEFLAGS" && self.inputs.keep_jobserver {
            return Verdict::Keep;
        }
        if !self.inputs.policy.defaults {
            return Verdict::Drop(Reason::NotAllowed);
        }
        if name == "SHELL" || names::toolchain(names::POINTERS, name).is_some() {
            if self.is_visible(value) { Verdict::Keep } else { Verdict::Drop(Reason::Hidden) }
        } else if names::toolchain(names::SELECTORS, name).is_some() {
            Verdict::Elsewhere
        } else if names::contains(names::DEFAULTS, name) {
            Verdict::Keep
        } else if self.socket_of(name, value).is_some() {
            Verdict::Elsewhere
        } else if name.starts_with(names::DEFAULT_PREFIX) {
            objection_to_wildcard(name, value).map_or(Verdict::Keep, Verdict::Drop)
        } else {
            Verdict::Drop(Reason::NotAllowed)
        }
    }

    /// The value as it passes: a jobserver that does not cross is taken out, or make would warn about its descriptors.
    fn clean(&mut self, name: &str, value: &'a OsStr) -> Cow<'a, OsStr> {
        if self.inputs.keep_jobserver || !make::carries_options(name) {
            return Cow::Borrowed(value);
        }
        match make::without_jobserver(value) {
            Some(rest) => {
                self.out.notes.push(format!("{name} passes without its jobserver; --keep-jobserver passes both"));
                Cow::Owned(rest)
            }
            None => Cow::Borrowed(value),
        }
    }

    /// Applies `NAME=VALUE`, and finds names that were asked for in vain.
    fn set_typed(&mut self) {
        for (&name, &(_, exact)) in &self.rules.exact {
            match exact {
                Exact::Set(value) => {
                    self.chosen.insert(name, Choice { value: Cow::Borrowed(value), kept: false });
                }
                Exact::Pass if !OURS.contains(&name) && self.caller.get(name).is_none() => {
                    self.asked.unset.insert(name);
                }
                Exact::Pass => {}
            }
        }
    }

    /// Decides about the variables that are ours, where no value was typed.
    fn set_ours(&mut self) {
        for &name in OURS {
            if self.chosen.contains_key(name) {
                continue;
            }
            let inherited = self.caller.get(name);
            let by_name = self.rules.passes_by_name(name);
            let choice = if name == "PWD" {
                Some(Choice { value: Cow::Borrowed(self.inputs.pwd.as_os_str()), kept: false })
            } else if !by_name && !self.inputs.policy.defaults {
                None
            } else if name == "PATH" {
                Some(self.search_path(inherited))
            } else {
                let ours = if name == "HOME" { self.inputs.home } else { self.inputs.tmp };
                let passes = by_name || name == "HOME" || (name == "TMPDIR" && is_absolute(inherited));
                match ours {
                    Some(path) => {
                        let value = path.as_os_str();
                        Some(Choice { value: Cow::Borrowed(value), kept: inherited == Some(value) })
                    }
                    None => {
                        inherited.filter(|_| passes).map(|value| Choice { value: Cow::Borrowed(value), kept: true })
                    }
                }
            };
            match choice {
                Some(choice) => {
                    self.chosen.insert(name, choice);
                }
                None if inherited.is_some() => {
                    self.out.leave_out(OsStr::new(name), Reason::NotAllowed);
                }
                None if by_name => {
                    self.asked.unset.insert(name);
                }
                None => {}
            }
        }
    }

    /// Points programs to the proxy inside, whatever the caller's variables lead to: nothing else can be reached. What stands for a
    /// secret takes its place. What was typed stays.
    fn set_proxy(&mut self) {
        let inputs = self.inputs;
        let mut variables: Vec<(&'a str, OsString)> = Vec::new();
        if let Some(proxy) = &inputs.proxy {
            variables.extend(proxy::variables(proxy));
        }
        variables.extend(inputs.placeholders.iter().map(|&(name, value)| (name, OsString::from(value))));
        for (name, value) in variables {
            if matches!(self.rules.exact.get(name), Some((_, Exact::Set(_)))) {
                continue;
            }
            self.out.dropped.retain(|dropped| dropped.name != name);
            self.asked.unset.remove(name);
            self.chosen.insert(name, Choice { value: Cow::Owned(value), kept: false });
        }
    }

    /// The caller's `PATH` without empty and relative entries, which would search wherever the target happens to be.
    fn search_path(&mut self, inherited: Option<&'a OsStr>) -> Choice<'a> {
        let fallback = Choice { value: Cow::Borrowed(OsStr::new(DEFAULT_PATH)), kept: false };
        let Some(inherited) = inherited else { return fallback };
        let mut count = 0;
        let entries: Vec<PathBuf> =
            std::env::split_paths(inherited).inspect(|_| count += 1).filter(|entry| entry.is_absolute()).collect();
        let removed = count - entries.len();
        if removed > 0 && !inherited.is_empty() {
            self.out.notes.push(format!("empty or relative entries removed from PATH: {removed}"));
        }
        let hidden = entries.iter().filter(|entry| !(self.inputs.visible)(entry)).count();
        if hidden > 0 {
            // Not which: they are the value of a variable.
            self.out.notes.push(format!("entries of PATH that are not in the view: {hidden}"));
        }
        if entries.is_empty() {
            return fallback;
        }
        if removed == 0 {
            return Choice { value: Cow::Borrowed(inherited), kept: true };
        }
        match std::env::join_paths(&entries) {
            Ok(value) => Choice { value: Cow::Owned(value), kept: true },
            Err(_) => fallback,
        }
    }

    /// Passes the selectors of the toolchains that have a pointer in the target's environment.
    fn select(&mut self) {
        if !self.inputs.policy.defaults {
            return;
        }
        for &(name, toolchain) in names::SELECTORS {
            let Some(value) = self.caller.get(name) else { continue };
            if self.chosen.contains_key(name) {
                continue;
            }
            let has_pointer =
                names::POINTERS.iter().any(|(pointer, of)| *of == toolchain && self.chosen.contains_key(pointer));
            if has_pointer {
                self.chosen.insert(name, Choice { value: Cow::Borrowed(value), kept: true });
            } else {
                self.out.leave_out(OsStr::new(name), Reason::NotAllowed);
            }
        }
    }

    /// The allowed socket to which the value leads, and to nothing else.
    fn socket_of(&self, name: &str, value: &OsStr) -> Option<PathBuf> {
        // Of several addresses a client may take any.
        let one = !value.as_encoded_bytes().contains(&b';');
        match endpoint(name, value, self.caller.get("XDG_RUNTIME_DIR"))? {
            Endpoint::Socket(path) if one && path.is_absolute() && (self.inputs.allowed)(&path) => Some(path),
            Endpoint::Socket(_) | Endpoint::Abstract | Endpoint::Other => None,
        }
    }

    /// Passes variables along with the sockets that they lead to, and the cookies of a screen with it where they can be read.
    fn follow_sockets(&mut self) {
        if !self.inputs.policy.defaults {
            return;
        }
        let vars = self.caller.vars.clone();
        let mut screen = false;
        for (name, value) in vars.iter().copied() {
            if self.chosen.contains_key(name) || self.rules.exact.contains_key(name) {
                continue;
            }
            let Some(path) = self.socket_of(name, value) else { continue };
            screen |= name == "DISPLAY";
            // The whole path, since nobody could look for it below an XDG_RUNTIME_DIR that does not pass.
            let value =
                if name == "WAYLAND_DISPLAY" { Cow::Owned(path.into_os_string()) } else { Cow::Borrowed(value) };
            self.pass_with_socket(name, value);
        }
        let cookies = "XAUTHORITY";
        if screen
            && !self.chosen.contains_key(cookies)
            && let Some(value) = self.caller.get(cookies).filter(|value| self.is_visible(value))
        {
            self.pass_with_socket(cookies, Cow::Borrowed(value));
        }
    }

    fn pass_with_socket(&mut self, name: &'a str, value: Cow<'a, OsStr>) {
        self.out.dropped.retain(|dropped| dropped.name != name);
        self.out.with_socket.push(name.into());
        self.chosen.insert(name, Choice { value, kept: true });
    }

    fn finish(self) -> Environment {
        let mut out = self.out;
        for (name, choice) in self.chosen {
            let value = choice.value.into_owned();
            let name = OsString::from(name);
            // `=` and the final NUL.
            if name.len() + value.len() + 2 > MAX_ENTRY {
                out.too_large.push(name.clone());
            }
            (if choice.kept { &mut out.kept } else { &mut out.set }).push(name.clone());
            out.vars.push((name, value));
        }
        out.with_socket.sort_unstable();
        out.dropped.sort_unstable();
        out.dropped.dedup();
        out
    }

    fn is_visible(&self, value: &OsStr) -> bool {
        let path = Path::new(value);
        path.is_absolute() && (self.inputs.visible)(path)
    }
}

/// What becomes of a variable of the caller.
#[derive(Clone, Copy)]
enum Verdict {
    Keep,
    Drop(Reason),
    /// Typed, or decided once the others are.
    Elsewhere,
}

impl Environment {
    fn leave_out(&mut self, name: &OsStr, reason: Reason) {
        self.dropped.push(Dropped { name: name.to_os_string(), reason });
    }
}

/// Why a wildcard does not admit the variable, if so.
fn objection_to_wildcard(name: &str, value: &OsStr) -> Option<Reason> {
    if names::never_inherited(name) {
        Some(Reason::NeverInherited)
    } else if names::by_name_only(name) {
        Some(Reason::ByNameOnly)
    } else if names::looks_secret(name) {
        Some(Reason::SecretName)
    } else if names::has_user_in_url(value.as_encoded_bytes()) {
        Some(Reason::UserInUrl)
    } else {
        None
    }
}

fn is_absolute(value: Option<&OsStr>) -> bool {
    value.is_some_and(|value| Path::new(value).is_absolute())
}

fn list(names: &BTreeSet<&str>) -> String {
    names.iter().copied().collect::<Vec<_>>().join(", ")
}
