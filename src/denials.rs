//! What a trace tells of refused calls, and the option that would allow each.
//!
//! Reads lines of strace, which are no more to be trusted than the target that it runs beside; `summary` finds out which of
//! them the sandbox answers for. Decides nothing, changes nothing.

mod danger;
mod filter;
mod line;
mod network;
mod probes;
mod summary;
mod toolchains;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use crate::plan::Plan;
use crate::seccomp;
use crate::seccomp::table::Group;
use crate::stage::handoff;
use line::{Call, Line, Raw};
use network::Peer;

pub use danger::danger;
pub(crate) use filter::traced;
pub use summary::{ByProxy, Summary, abbreviated};

/// How many different refusals of one kind are kept.
const MOST: usize = 10_000;

/// How many processes are followed at once; a line that is cut in two by another process is lost beyond that.
const PROCESSES: usize = 10_000;

/// Refused calls of one run.
#[derive(Clone, Debug, Default)]
pub struct Denials {
    start: PathBuf,
    /// A directory of the run, and the HOME that it stands for.
    home: Option<(PathBuf, PathBuf)>,
    /// What the filter of this run depends on, if it has one.
    filter: Option<seccomp::Options>,
    /// Places that are empty inside and not on the host.
    hidden: BTreeSet<PathBuf>,
    processes: HashMap<u32, Process>,
    found: BTreeMap<Wish, Refusal>,
    /// Of those places, what was opened all the same.
    emptied: BTreeSet<PathBuf>,
    /// Whom nobody reached.
    peers: BTreeMap<(Peer, &'static str), String>,
    /// What the filter refused, by the name of the group and that of the call.
    filtered: BTreeMap<(&'static str, String), &'static Group>,
    /// Kinds of sockets that take a capability.
    privileged: BTreeSet<String>,
}

/// What is known of one process.
#[derive(Clone, Debug, Default)]
struct Process {
    directory: Option<PathBuf>,
    /// The first half of a line.
    begun: Option<String>,
}

/// What somebody wanted of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wish {
    path: PathBuf,
    want: Want,
}

/// What for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Want {
    /// To look at it or read it.
    Read,
    /// To change it.
    Write,
    /// To make the name, give it to something else, or take it away.
    Name,
    /// To speak to whoever listens there.
    Connect,
}

impl Want {
    /// Whether something on the host would be different afterwards.
    fn changes(self) -> bool {
        matches!(self, Self::Write | Self::Name)
    }
}

/// How it was refused the first time.
#[derive(Clone, Debug)]
struct Refusal {
    call: String,
    error: String,
}

impl Denials {
    /// Of the target of `plan`.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        Self {
            start: plan.workdir.clone(),
            home: plan.reach.as_ref().and_then(|reach| Some((reach.scratch.home(), reach.scratch.home.clone()?))),
            filter: plan.backend.filters().then(|| handoff::filter(plan)),
            hidden: plan.rules.hiding().map(PathBuf::from).collect(),
            ..Self::default()
        }
    }

    /// Takes in one line of strace.
    pub fn line(&mut self, text: &str) {
        let Some((number, text)) = line::process(text) else { return };
        if self.processes.len() >= PROCESSES && !self.processes.contains_key(&number) {
            self.processes.clear();
        }
        let process = self.processes.entry(number).or_default();
        let whole;
        let text = match line::half(text) {
            line::Half::First(first) => {
                process.begun = Some(first.to_owned());
                return;
            }
            line::Half::Second(second) => {
                let Some(first) = process.begun.take() else { return };
                whole = first + second;
                &whole
            }
            line::Half::Whole => text,
        };
        let Some(raw) = line::raw(text) else { return };
        match raw.result {
            Err(error) if self.filtered(&raw, error) || self.unreached(&raw, error, number) => return,
            Err(_) => {}
            Ok(result) => self.opened(&raw, result),
        }
        self.file(text, number);
    }

    /// Whether it is the filter that refused the call, or the lack of a capability.
    fn filtered(&mut self, raw: &Raw, error: &str) -> bool {
        let Some(options) = self.filter else { return false };
        if let Some(group) = filter::refuses(options, raw.name, raw.arguments, error) {
            if self.filtered.len() < MOST {
                let call = match (raw.name, raw.arguments.split(", ").next()) {
                    ("socket" | "socketpair" | "unshare", Some(what)) => format!("{}({what})", raw.name),
                    (name, _) => name.to_owned(),
                };
                self.filtered.insert((group.name, call), group);
            }
            return true;
        }
        let bare = raw.name == "socket" && error == "EPERM";
        if bare && self.privileged.len() < MOST {
            let mut words = raw.arguments.split(", ");
            let [family, kind] = [words.next(), words.next()].map(Option::unwrap_or_default);
            let kind = kind.split('|').next().unwrap_or_default();
            self.privileged.insert(format!("{family}, {kind}"));
        }
        bare
    }

    /// Whether the call is about somebody who was not reached, or an address that was not to be had.
    fn unreached(&mut self, raw: &Raw, error: &str, process: u32) -> bool {
        let Some(call) = network::CALLS.into_iter().find(|call| *call == raw.name) else { return false };
        match network::peer(call, raw.arguments) {
            Some(Peer::Path(path)) => {
                let want = if call == "bind" { Want::Name } else { Want::Connect };
                let path = self.directory(process).join(path);
                self.wish(path, want, call, error);
            }
            Some(peer) if self.peers.len() < MOST => {
                self.peers.entry((peer, call)).or_insert_with(|| error.to_owned());
            }
            _ => {}
        }
        true
    }

    /// What was opened and is empty because it is hidden.
    fn opened(&mut self, raw: &Raw, result: &str) {
        let opens = matches!(raw.name, "open" | "openat" | "openat2");
        if let Some(path) = line::opened(result).filter(|path| opens && self.hidden.contains(path)) {
            self.emptied.insert(path);
        }
    }

    fn file(&mut self, text: &str, number: u32) {
        let Some(Line { call, error }) = line::parse(text) else { return };
        let Call { name, paths, want, directory } = call;
        if let Some(directory) = directory {
            self.processes.entry(number).or_default().directory = Some(directory);
        }
        let base = self.directory(number);
        let mut paths = paths.into_iter().map(|path| base.join(path));
        let Some(error) = error else {
            if let ("chdir", Some(to)) = (name.as_str(), paths.next()) {
                self.processes.entry(number).or_default().directory = Some(to);
            }
            return;
        };
        for path in paths {
            self.wish(path, want, &name, &error);
        }
    }

    /// Where a process stands, as far as it was told.
    fn directory(&self, process: u32) -> PathBuf {
        let known = self.processes.get(&process).and_then(|process| process.directory.as_ref());
        known.unwrap_or(&self.start).clone()
    }

    fn wish(&mut self, mut path: PathBuf, want: Want, call: &str, error: &str) {
        // What is missing there lies, if anywhere, below the real one, and grants are links from there.
        if let Some((home, real)) = &self.home
            && let Ok(below) = path.strip_prefix(home)
        {
            path = real.join(below);
        }
        if self.found.len() < MOST {
            let refusal = Refusal { call: call.to_owned(), error: error.to_owned() };
            self.found.entry(Wish { path, want }).or_insert(refusal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: &[&str]) -> Vec<(String, bool, String)> {
        let mut denials = Denials { start: PathBuf::from("/w"), ..Denials::default() };
        for line in lines {
            denials.line(line);
        }
        let found = denials.found.iter();
        found
            .map(|(wish, refusal)| (wish.path.display().to_string(), wish.want != Want::Read, refusal.error.clone()))
            .collect()
    }

    #[test]
    fn relative_names_belong_to_the_directory_of_their_process() {
        let lines = [
            "7 open(\"a\", O_RDONLY) = -1 ENOENT (No such file or directory)",
            "7 chdir(\"d\")   = 0",
            "8 stat(\"b\", 0x7ff) = -1 ENOENT (No such file or directory)",
            "7 stat(\"b\", 0x7ff) = -1 ENOENT (No such file or directory)",
            "9 openat(AT_FDCWD</x y>, \"c\", O_WRONLY|O_CREAT, 0666) = -1 EROFS (Read-only file system)",
            "9 access(\"e\", R_OK) = -1 EACCES (Permission denied)",
            "9 openat(3</z>, \"f\", O_RDONLY) = -1 ENOENT (No such file or directory)",
        ];
        let expected = [
            ("/w/a", false, "ENOENT"),
            ("/w/b", false, "ENOENT"),
            ("/w/d/b", false, "ENOENT"),
            ("/x y/c", true, "EROFS"),
            ("/x y/e", false, "EACCES"),
            ("/z/f", false, "ENOENT"),
        ];
        assert_eq!(found(&lines), expected.map(|(path, write, error)| (path.to_owned(), write, error.to_owned())));
    }

    #[test]
    fn halves_are_put_together_and_the_rest_is_passed_over() {
        let lines = [
            "7 openat(AT_FDCWD</w>, \"/a\", O_RDONLY <unfinished ...>",
            "8 openat(AT_FDCWD</w>, \"/b\", O_RDONLY) = 3</b>",
            "7 <... openat resumed>) = -1 ENOENT (No such file or directory)",
            "8 <... openat resumed>) = -1 ENOENT (No such file or directory)",
            "8 --- SIGCHLD {si_signo=SIGCHLD} ---",
            "8 +++ exited with 0 +++",
            "8 openat(AT_FDCWD</w>, \"/c",
            "8 = -1 ENOENT",
            "x",
            "",
        ];
        assert_eq!(found(&lines), [("/a".to_owned(), false, "ENOENT".to_owned())]);
    }
}
