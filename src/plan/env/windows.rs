//! The environment of a target on Windows, where names are the same in any case, and keep the one they were written in.
//!
//! The rules are those of [`super::prune`], in the same order; what differs is which names there are, how they are compared,
//! and that nothing is hidden from the target. A pure function of text, the same on every system.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};

use super::{Dropped, Environment, Reason, list, make, names, objection_to_wildcard};
use crate::policy::env::{EnvPolicy, EnvRule, INTERNAL_PREFIX, os_string};

/// What hardly any program starts without, or finds its files by; sorted, in upper case.
const SYSTEM: &[&str] = &[
    "ALLUSERSPROFILE",
    "APPDATA",
    "COMMONPROGRAMFILES",
    "COMMONPROGRAMFILES(X86)",
    "COMMONPROGRAMW6432",
    "COMPUTERNAME",
    "COMSPEC",
    "HOME",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "OS",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROCESSOR_ARCHITEW6432",
    "PROCESSOR_IDENTIFIER",
    "PROCESSOR_LEVEL",
    "PROCESSOR_REVISION",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "PROGRAMW6432",
    "PUBLIC",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "USERDOMAIN",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];

/// Passed when they hold an absolute path; sorted.
const PLACES: &[&str] = &["TEMP", "TMP", "TMPDIR"];

/// Hooks of this system, besides those of every system: profilers and modules that any .NET program or PowerShell loads; sorted.
const HOOKS: &[&str] = &[
    "COR_PROFILER_PATH",
    "COR_PROFILER_PATH_32",
    "COR_PROFILER_PATH_64",
    "DOTNET_ADDITIONAL_DEPS",
    "DOTNET_SHARED_STORE",
    "PSMODULEPATH",
];

/// The settings of the older .NET runtime, hooks among them.
const HOOKS_PREFIX: &str = "COMPLUS_";

/// The longest value of a variable, in UTF-16 units, its final NUL included.
const MAX_VALUE: usize = 32_767;

/// What the environment is made from.
pub struct Inputs<'a> {
    /// The caller's environment in its own order, entries like `=C:` and duplicates included.
    pub inherited: &'a [(OsString, OsString)],
    /// The rules.
    pub policy: &'a EnvPolicy,
}

/// A name as it is compared.
#[must_use]
pub fn folded(name: &str) -> String {
    name.to_ascii_uppercase()
}

/// Whether a path begins at a drive or a share, and not at a directory that somebody is in.
#[must_use]
pub fn is_absolute(path: &OsStr) -> bool {
    match path.as_encoded_bytes() {
        [drive, b':', b'\\' | b'/', ..] => drive.is_ascii_alphabetic(),
        [b'\\' | b'/', b'\\' | b'/', rest @ ..] => !rest.is_empty(),
        _ => false,
    }
}

/// The entries of a search path, without quotes, empty and relative ones left out.
#[must_use]
pub fn path_entries(path: &OsStr) -> Vec<OsString> {
    let entry = |bytes: Vec<u8>| os_string(&bytes).filter(|entry| is_absolute(entry));
    entries(path.as_encoded_bytes()).into_iter().filter_map(entry).collect()
}

/// All entries; a `;` inside quotes is part of one.
fn entries(path: &[u8]) -> Vec<Vec<u8>> {
    let mut entries = vec![Vec::new()];
    let mut quoted = false;
    for byte in path {
        match byte {
            b'"' => quoted = !quoted,
            b';' if !quoted => entries.push(Vec::new()),
            _ => entries.last_mut().into_iter().for_each(|entry| entry.push(*byte)),
        }
    }
    entries
}

/// The environment of the target, sorted by folded name; each name once, as it was spelt.
#[must_use]
pub fn prune(inputs: &Inputs<'_>) -> Environment {
    let mut out = Environment::default();
    let caller = read_caller(inputs.inherited, &mut out);
    let rules = Rules::read(inputs.policy);
    let mut pruning =
        Pruning { defaults: inputs.policy.defaults, caller: &caller, rules, chosen: BTreeMap::new(), out };
    pruning.inherit();
    pruning.search_path();
    pruning.set_typed();
    pruning.select();
    pruning.finish()
}

/// A variable of the caller: how its name is spelt, and its value.
type Variable<'a> = (&'a str, &'a OsStr);

/// By folded name; the last of duplicates.
fn read_caller<'a>(inherited: &'a [(OsString, OsString)], out: &mut Environment) -> BTreeMap<String, Variable<'a>> {
    let mut caller = BTreeMap::new();
    let mut twice = BTreeSet::new();
    for (name, value) in inherited {
        match name.to_str().filter(|name| is_name(name)) {
            Some(spelt) => {
                if caller.insert(folded(spelt), (spelt, value.as_os_str())).is_some() {
                    twice.insert(spelt);
                }
            }
            None => out.dropped.push(Dropped { name: name.clone(), reason: Reason::Malformed }),
        }
    }
    if !twice.is_empty() {
        out.notes.push(format!("given more than once, the last one counts: {}", list(&twice)));
    }
    caller
}

/// As on other systems, and with the brackets that names of this one have.
fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_()".contains(&byte))
}

/// Whether an inherited value under this folded name never passes.
fn never_inherited(name: &str) -> bool {
    names::never_inherited(name) || names::contains(HOOKS, name) || name.starts_with(HOOKS_PREFIX)
}

fn objection(name: &str, value: &OsStr) -> Option<Reason> {
    if never_inherited(name) { Some(Reason::NeverInherited) } else { objection_to_wildcard(name, value) }
}

#[derive(Clone, Copy)]
enum Exact<'a> {
    Pass,
    Set(&'a OsStr),
}

/// Rules by folded name; each with its place in the order.
struct Rules<'a> {
    exact: HashMap<String, (usize, &'a str, Exact<'a>)>,
    prefixes: Vec<(String, usize)>,
}

impl<'a> Rules<'a> {
    fn read(policy: &'a EnvPolicy) -> Self {
        let mut rules = Self { exact: HashMap::new(), prefixes: Vec::new() };
        for (place, entry) in policy.rules.iter().enumerate() {
            match &entry.rule {
                EnvRule::Pass(name) => {
                    rules.exact.insert(folded(name.as_str()), (place, name.as_str(), Exact::Pass));
                }
                EnvRule::Set(name, value) => {
                    rules.exact.insert(folded(name.as_str()), (place, name.as_str(), Exact::Set(value)));
                }
                EnvRule::PassPrefix(prefix) => rules.prefixes.push((folded(prefix), place)),
            }
        }
        rules
    }

    /// The place of the last wildcard that matches.
    fn wildcard(&self, name: &str) -> Option<usize> {
        self.prefixes.iter().filter(|(prefix, _)| name.starts_with(prefix.as_str())).map(|(_, place)| *place).max()
    }
}

/// A variable of the target.
struct Choice<'a> {
    spelt: Cow<'a, str>,
    value: Cow<'a, OsStr>,
    kept: bool,
}

struct Pruning<'a> {
    defaults: bool,
    caller: &'a BTreeMap<String, Variable<'a>>,
    rules: Rules<'a>,
    chosen: BTreeMap<String, Choice<'a>>,
    out: Environment,
}

impl<'a> Pruning<'a> {
    fn keep(&mut self, name: &str, (spelt, value): Variable<'a>) {
        let choice = Choice { spelt: spelt.into(), value: clean(name, value), kept: true };
        self.chosen.insert(name.to_owned(), choice);
    }

    fn leave_out(&mut self, spelt: &str, reason: Reason) {
        self.out.dropped.push(Dropped { name: spelt.into(), reason });
    }

    /// Decides about each variable of the caller.
    fn inherit(&mut self) {
        let (mut refused, mut held_back) = (BTreeSet::new(), BTreeSet::new());
        for (name, variable @ (spelt, value)) in self.caller.iter().map(|(name, variable)| (name, *variable)) {
            if name == "PATH" {
                continue;
            }
            if name.starts_with(INTERNAL_PREFIX) {
                self.leave_out(spelt, Reason::Internal);
                continue;
            }
            let wildcard = self.rules.wildcard(name);
            let against = wildcard.and_then(|_| objection(name, value));
            let admitted = wildcard.filter(|_| against.is_none());
            match self.rules.exact.get(name).map(|(place, _, exact)| (*place, *exact)) {
                Some((place, Exact::Set(_))) if admitted > Some(place) => {
                    // The wildcard came last, so the typed value is no longer wanted.
                    self.rules.exact.remove(name);
                    self.keep(name, variable);
                }
                Some((_, Exact::Set(_))) => {}
                Some((_, Exact::Pass)) if never_inherited(name) => {
                    refused.insert(spelt);
                    self.leave_out(spelt, Reason::NeverInherited);
                }
                Some((_, Exact::Pass)) => self.keep(name, variable),
                None if admitted.is_some() => self.keep(name, variable),
                None => match (self.by_default(name, value), against) {
                    (Ok(true), _) => self.keep(name, variable),
                    // Decided once the others are.
                    (Ok(false), _) => {}
                    (Err(_), Some(Reason::NeverInherited)) => {
                        refused.insert(spelt);
                        self.leave_out(spelt, Reason::NeverInherited);
                    }
                    (Err(_), Some(against)) => {
                        held_back.insert(spelt);
                        self.leave_out(spelt, against);
                    }
                    (Err(reason), None) => self.leave_out(spelt, reason),
                },
            }
        }
        if !refused.is_empty() {
            let text = "inherited values of these variables never pass, only NAME=VALUE sets them";
            self.out.warnings.push(format!("{text}: {}", list(&refused)));
        }
        if !held_back.is_empty() {
            self.out.notes.push(format!("held back from wildcards, pass by their full names: {}", list(&held_back)));
        }
    }

    /// Whether a variable that no rule names passes; `false` when that depends on others.
    fn by_default(&self, name: &str, value: &OsStr) -> Result<bool, Reason> {
        if never_inherited(name) {
            return Err(Reason::NeverInherited);
        }
        if !self.defaults {
            return Err(Reason::NotAllowed);
        }
        if names::contains(SYSTEM, name) || names::contains(names::DEFAULTS, name) {
            return Ok(true);
        }
        if names::contains(PLACES, name) || names::toolchain(names::POINTERS, name).is_some() {
            return if is_absolute(value) { Ok(true) } else { Err(Reason::NotAllowed) };
        }
        if names::toolchain(names::SELECTORS, name).is_some() {
            return Ok(false);
        }
        if name.starts_with(names::DEFAULT_PREFIX) {
            return objection(name, value).map_or(Ok(true), Err);
        }
        Err(Reason::NotAllowed)
    }

    /// The caller's search path without empty and relative entries, or that of the system.
    fn search_path(&mut self) {
        let inherited = self.caller.get("PATH").copied();
        let by_name = match self.rules.exact.get("PATH") {
            Some((_, _, Exact::Set(_))) => return,
            Some((_, _, Exact::Pass)) => true,
            None => false,
        };
        if !by_name && !self.defaults {
            if let Some((spelt, _)) = inherited {
                self.leave_out(spelt, Reason::NotAllowed);
            }
            return;
        }
        if let Some((spelt, value)) = inherited {
            let all = entries(value.as_encoded_bytes());
            let good: Vec<_> = path_entries(value);
            if good.len() == all.len() {
                self.keep("PATH", (spelt, value));
                return;
            }
            if !value.is_empty() {
                let removed = all.len() - good.len();
                self.out.notes.push(format!("empty or relative entries removed from PATH: {removed}"));
            }
            if !good.is_empty() {
                let value = joined(&good);
                self.chosen.insert("PATH".into(), Choice { spelt: spelt.into(), value: value.into(), kept: true });
                return;
            }
        }
        let root = self.caller.get("SYSTEMROOT").map(|(_, value)| *value).filter(|value| is_absolute(value));
        let root = root.unwrap_or(OsStr::new("C:\\Windows"));
        let mut system = root.to_owned();
        system.push("\\System32");
        let value = joined(&[system, root.to_owned()]);
        let spelt = inherited.map_or("PATH", |(spelt, _)| spelt);
        self.chosen.insert("PATH".into(), Choice { spelt: spelt.into(), value: value.into(), kept: false });
    }

    /// Applies `NAME=VALUE`, and finds names that were asked for in vain.
    fn set_typed(&mut self) {
        let mut unset = BTreeSet::new();
        for (name, (_, typed, exact)) in &self.rules.exact {
            match exact {
                Exact::Set(value) => {
                    // A name that the caller has keeps the caller's spelling: programs would take the two for one.
                    let spelt = self.caller.get(name).map_or(*typed, |(spelt, _)| spelt);
                    let choice = Choice { spelt: spelt.into(), value: Cow::Borrowed(value), kept: false };
                    self.chosen.insert(name.clone(), choice);
                }
                Exact::Pass if !self.caller.contains_key(name) && name != "PATH" => {
                    unset.insert(*typed);
                }
                Exact::Pass => {}
            }
        }
        if !unset.is_empty() {
            self.out.notes.push(format!("asked for and not set by the caller: {}", list(&unset)));
        }
    }

    /// Passes the selectors of the toolchains that have a pointer in the target's environment.
    fn select(&mut self) {
        if !self.defaults {
            return;
        }
        for (name, toolchain) in names::SELECTORS {
            let Some((spelt, value)) = self.caller.get(*name).copied() else { continue };
            if self.chosen.contains_key(*name) {
                continue;
            }
            let pointed =
                names::POINTERS.iter().any(|(pointer, of)| of == toolchain && self.chosen.contains_key(*pointer));
            if pointed {
                self.keep(name, (spelt, value));
            } else {
                self.leave_out(spelt, Reason::NotAllowed);
            }
        }
    }

    fn finish(self) -> Environment {
        let mut out = self.out;
        for (_, choice) in self.chosen {
            let name = OsString::from(choice.spelt.into_owned());
            let value = choice.value.into_owned();
            if value.to_string_lossy().encode_utf16().count() >= MAX_VALUE {
                out.too_large.push(name.clone());
            }
            (if choice.kept { &mut out.kept } else { &mut out.set }).push(name.clone());
            out.vars.push((name, value));
        }
        out.dropped.sort_unstable();
        out.dropped.dedup();
        out
    }
}

/// No jobserver crosses, so make must not be told of one.
fn clean<'a>(name: &str, value: &'a OsStr) -> Cow<'a, OsStr> {
    let without = if make::carries_options(name) { make::without_jobserver(value) } else { None };
    without.map_or(Cow::Borrowed(value), Cow::Owned)
}

/// Entries as one search path; quotes around what has a `;` in it.
fn joined(entries: &[OsString]) -> OsString {
    let mut path = OsString::new();
    for (index, entry) in entries.iter().enumerate() {
        let quote = if entry.as_encoded_bytes().contains(&b';') { "\"" } else { "" };
        path.push(if index == 0 { "" } else { ";" });
        path.push(quote);
        path.push(entry);
        path.push(quote);
    }
    path
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::{EnvEntry, Origin};

    fn pruned(inherited: &[(&str, &str)], rules: &[&str], defaults: bool) -> Environment {
        let inherited: Vec<_> =
            inherited.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
        let rule = |word: &&str| EnvRule::parse(OsStr::new(word)).unwrap();
        let rules = rules.iter().map(|word| EnvEntry { rule: rule(word), origin: Origin::Flag("--env") }).collect();
        prune(&Inputs { inherited: &inherited, policy: &EnvPolicy { defaults, rules } })
    }

    fn shown(environment: &Environment) -> Vec<String> {
        environment.vars.iter().map(|(name, value)| format!("{}={}", name.display(), value.display())).collect()
    }

    #[test]
    fn names_are_compared_in_any_case_and_kept_as_spelt() {
        let caller = [
            ("Path", "C:\\Windows;D:\\bin"),
            ("SystemRoot", "C:\\Windows"),
            ("ProgramFiles(x86)", "C:\\Program Files (x86)"),
            ("windir", "C:\\Windows"),
            ("Secret", "x"),
            ("secret_two", "y"),
            ("cor_profiler", "{1}"),
            ("Cor_Enable_Profiling", "1"),
            ("PSModulePath", "C:\\m"),
            ("COMPlus_X", "1"),
            ("=C:", "C:\\x"),
            ("=ExitCode", "0"),
            ("sandbox_run_stage", "1"),
            ("tmp", "relative"),
            ("Temp", "C:\\t"),
        ];
        let expected = [
            "Path=C:\\Windows;D:\\bin",
            "ProgramFiles(x86)=C:\\Program Files (x86)",
            "SystemRoot=C:\\Windows",
            "Temp=C:\\t",
            "windir=C:\\Windows",
        ];
        assert_eq!(shown(&pruned(&caller, &[], true)), expected);
        // By name in any case, and the caller's spelling counts.
        let named = shown(&pruned(&caller, &["sEcReT"], false));
        assert_eq!(named, ["Secret=x"]);
        // A typed value takes the place of the caller's, whatever the case.
        let typed = shown(&pruned(&caller, &["SECRET=z", "new=1"], false));
        assert_eq!(typed, ["new=1", "Secret=z"]);
        let hook = pruned(&caller, &["COR_PROFILER"], false);
        assert_eq!(shown(&hook), [""; 0]);
        assert!(hook.warnings.iter().any(|text| text.ends_with(": cor_profiler")), "{:?}", hook.warnings);
        assert_eq!(shown(&pruned(&caller, &["COR_PROFILER=x"], false)), ["cor_profiler=x"]);
    }

    #[test]
    fn the_last_rule_wins_and_wildcards_hold_secrets_back() {
        let caller = [("My_Name", "a"), ("MY_API_KEY", "k"), ("my_url", "https://u:p@h/"), ("My_name", "b")];
        let wild = pruned(&caller, &["my_*"], false);
        assert_eq!(shown(&wild), ["My_name=b"], "the last of two");
        assert!(wild.notes.iter().any(|text| text.contains("MY_API_KEY, my_url")), "{:?}", wild.notes);
        assert_eq!(shown(&pruned(&caller, &["MY_NAME=z", "my_*"], false)), ["My_name=b"]);
        assert_eq!(shown(&pruned(&caller, &["my_*", "MY_NAME=z"], false)), ["My_name=z"]);
        assert_eq!(shown(&pruned(&caller, &["my_api_key"], false)), ["MY_API_KEY=k"]);
    }

    #[test]
    fn a_search_path_has_absolute_entries_only() {
        for (path, expected) in [
            ("C:\\a;C:\\b", "Path=C:\\a;C:\\b"),
            (";.;C:\\a;rel;C:;C:x;\\y", "Path=C:\\a"),
            ("\"C:\\a;b\";.;\\\\srv\\share", "Path=\"C:\\a;b\";\\\\srv\\share"),
            (".", "Path=R:\\W\\System32;R:\\W"),
            ("", "Path=R:\\W\\System32;R:\\W"),
        ] {
            let environment = pruned(&[("Path", path), ("SystemRoot", "R:\\W")], &["-"; 0], true);
            assert_eq!(shown(&environment)[0], expected, "{path}");
        }
        assert_eq!(shown(&pruned(&[], &[], true)), ["PATH=C:\\Windows\\System32;C:\\Windows"]);
        assert_eq!(shown(&pruned(&[], &[], false)), [""; 0]);
    }

    #[test]
    fn the_tables_are_sorted_and_in_upper_case() {
        for table in [SYSTEM, PLACES, HOOKS] {
            assert!(table.is_sorted());
            assert!(table.iter().all(|name| folded(name) == *name));
        }
    }

    proptest! {
        /// No two names of the target differ in case only; nothing but what was asked for or is listed passes.
        #[test]
        fn nothing_else_passes(
            caller in prop::collection::vec(("[A-Za-z_=][A-Za-z_()=]{0,6}", "[a-z;:\\\\]{0,5}"), 0..20),
            asked in prop::collection::vec("[A-Za-z_][A-Za-z_]{0,3}", 0..5),
        ) {
            let inherited: Vec<_> = caller.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
            let environment = pruned(&inherited, &asked, false);
            let names: Vec<_> = environment.vars.iter().map(|(name, _)| folded(name.to_str().unwrap())).collect();
            prop_assert!(names.iter().collect::<BTreeSet<_>>().len() == names.len());
            for name in &names {
                prop_assert!(asked.iter().any(|word| folded(word) == *name), "{name}");
            }
        }
    }
}
