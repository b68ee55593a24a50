//! What a trace tells of refused calls, and the option that would allow each.
//!
//! Reads lines of strace, which are no more to be trusted than the target that it runs beside, and looks at the host's files to
//! find what is missing inside only. Decides nothing, changes nothing.

mod line;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use crate::host::Host;
use crate::plan::Plan;
use crate::plan::links::walk;
use crate::plan::view::{Own, Rule};
use line::{Call, Line};

/// How many different refusals are kept.
const MOST: usize = 10_000;

/// How many of them are told.
const TOLD: usize = 100;

/// How many processes are followed at once; a line that is cut in two by another process is lost beyond that.
const PROCESSES: usize = 10_000;

/// Refused calls of one run.
#[derive(Clone, Debug, Default)]
pub struct Denials {
    start: PathBuf,
    processes: HashMap<u32, Process>,
    found: BTreeMap<Wish, Refusal>,
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
}

/// How it was refused the first time.
#[derive(Clone, Debug)]
struct Refusal {
    call: String,
    error: String,
}

impl Denials {
    /// Of a target that starts in `directory`.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self { start: directory.to_owned(), ..Self::default() }
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
        let Some(Line { call, error }) = line::parse(text) else { return };
        let Call { name, paths, want, directory } = call;
        if let Some(directory) = directory {
            process.directory = Some(directory);
        }
        let base = process.directory.clone().unwrap_or_else(|| self.start.clone());
        let mut paths = paths.into_iter().map(|path| base.join(path));
        let Some(error) = error else {
            if let ("chdir", Some(to)) = (name.as_str(), paths.next()) {
                process.directory = Some(to);
            }
            return;
        };
        for path in paths {
            if self.found.len() < MOST {
                let refusal = Refusal { call: name.clone(), error: error.clone() };
                self.found.entry(Wish { path, want }).or_insert(refusal);
            }
        }
    }

    /// A line for each refusal that comes from the sandbox and not from the files themselves, each remedy once.
    #[must_use]
    pub fn summary(&self, plan: &Plan, host: &Host) -> Vec<String> {
        let mut lines = Vec::new();
        let mut remedies = BTreeSet::new();
        let mut more = 0_usize;
        for (wish, Refusal { call, error }) in &self.found {
            let Some(remedy) = remedy(wish, error, plan, host) else { continue };
            if !remedies.insert(remedy.clone()) {
                continue;
            }
            if lines.len() == TOLD {
                more += 1;
                continue;
            }
            let what = if wish.want == Want::Read { "read" } else { "write" };
            lines.push(format!("denied: {error} {call} '{}' for {what}: {remedy}", plain(&wish.path).display()));
        }
        if more > 0 {
            lines.push(format!("denied: {more} more"));
        }
        lines
    }
}

/// What would allow it; `None` where the sandbox is not the reason.
fn remedy(wish: &Wish, error: &str, plan: &Plan, host: &Host) -> Option<String> {
    if !plan.backend.has_view() || wish.path.starts_with("/proc") {
        return None;
    }
    let rules = &plan.rules;
    let write = wish.want != Want::Read;
    let found = walk(&wish.path).ok().filter(|_| wish.want != Want::Name);
    // A name that is to be made, or taken away, belongs to the deepest directory that exists.
    let (place, exists) = match found {
        Some(found) => (found.end, true),
        None if write => (wish.path.ancestors().skip(1).find_map(|above| walk(above).ok())?.end, false),
        None => return None,
    };
    let shown = rules.shows(&place);
    if shown && (!write || rules.writable(&place)) {
        // The files' own permissions, or a name that is not there on the host either.
        return None;
    }
    // A directory that everybody has: of its own inside.
    let private =
        matches!(rules.decides(&place), Some((at, Rule::Own(Own::Shared | Own::SecondTmp | Own::Home))) if at == place);
    if place == Path::new("/") || !exists && private {
        return None;
    }
    if error != "ENOENT" && !write && fs::metadata(&place).is_err() {
        return None;
    }
    let written = if place == plan.workdir { ".".to_owned() } else { abbreviated(&place, host) };
    Some(match rules.decides(&place) {
        Some((at, Rule::Mask)) => format!("the mask on '{}' hides it", at.display()),
        Some((at, Rule::DenySocket)) => format!("'{}' is denied by --deny-socket", at.display()),
        Some((at, Rule::Protect)) if write => format!("'{}' is protected", at.display()),
        _ if write => format!("-w {written}"),
        _ => format!("-r {written}"),
    })
}

/// Without `.` and `..`, as far as the host knows the way.
fn plain(path: &Path) -> PathBuf {
    match (path.parent().and_then(|parent| walk(parent).ok()), path.file_name()) {
        (Some(parent), Some(name)) => parent.end.join(name),
        _ => path.to_owned(),
    }
}

/// As one would type it in a shell.
#[must_use]
pub fn abbreviated(path: &Path, host: &Host) -> String {
    let below_home =
        host.home.as_deref().and_then(|home| path.strip_prefix(home).ok()).filter(|rest| *rest != Path::new(""));
    let text = match below_home {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    };
    let plain = text.chars().all(|char| char.is_alphanumeric() || "-_./+:@%,~".contains(char));
    // `~` in quotes is expanded by us.
    if plain { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: &[&str]) -> Vec<(String, bool, String)> {
        let mut denials = Denials::new(Path::new("/w"));
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
