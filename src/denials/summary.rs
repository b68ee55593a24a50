//! From what was refused to lines for people: whether the sandbox is the reason, and the narrowest option that would help.
//!
//! Looks at the host's files to find what is missing inside only. The most telling lines come first, each remedy once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::network::{self, Verdict};
use super::probes::{is_probe, is_spare_lock};
use super::toolchains::profile_for;
use super::{Denials, Refusal, Want, Wish, danger, filter};
use crate::egress::log::Sums;
use crate::explain::given;
use crate::host::Host;
use crate::permissions::refusal;
use crate::plan::Plan;
use crate::plan::links::walk;
use crate::plan::view::{Own, Rule};
use crate::policy::{Network, Policy, hidden};
use crate::seccomp::table::Answer;

/// How many lines are told.
const TOLD: usize = 40;

/// How many names a line lists.
const LISTED: usize = 3;

/// From so many files of one directory on the directory is suggested in their place.
const MANY: usize = 4;

/// What is told at the end of a traced run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// A line for each refusal that comes from the sandbox and not from the files themselves.
    pub denials: Vec<String>,
    /// The same of what programs look for and do without.
    pub probes: Vec<String>,
}

/// What the proxy of a run has refused.
#[derive(Clone, Copy, Debug)]
pub struct ByProxy<'a> {
    /// How often which host, if there was a proxy.
    pub requests: Option<&'a Sums>,
    /// What would allow it, or why nothing does.
    pub remedies: &'a BTreeMap<String, String>,
}

/// How telling a line is; the first is told first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Write,
    Network,
    Socket,
    Filter,
    Hidden,
    Read,
    Look,
}

/// What would allow something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Remedy {
    /// A grant.
    Grant { place: PathBuf, write: bool },
    /// The socket of this path.
    Socket(PathBuf),
    /// All hidden names like this one, of which one is `place`.
    Show { name: String, place: PathBuf },
    /// Lifting the protect of this path.
    Protect(PathBuf),
    /// Nothing that is typed more: words.
    Words(String),
}

impl Denials {
    /// All of it in words; `succeeded` is what the target said of itself at the end.
    #[must_use]
    pub fn summary(&self, plan: &Plan, policy: &Policy, host: &Host, succeeded: bool, by_proxy: &ByProxy) -> Summary {
        if !plan.backend.filters() {
            return Summary::default();
        }
        let mut lines = Lines { plan, policy, host, told: BTreeSet::new(), remedies: BTreeSet::new() };
        let mut probes = Vec::new();
        let mut reads = Vec::new();
        for (wish, refusal) in &self.found {
            let Some(remedy) = remedy(wish, &refusal.error, plan, host) else { continue };
            match remedy {
                _ if succeeded && wish.want.changes() && is_spare_lock(&wish.path) => {
                    probes.push(format!("tried and done without: {}", told(wish, refusal)));
                }
                Remedy::Grant { place, write: false } if is_probe(&wish.path) || is_probe(&place) => {
                    probes.push(format!("looked for and done without: {}", told(wish, refusal)));
                }
                Remedy::Grant { place, write: false } => reads.push(Read { wish, refusal, place }),
                remedy => lines.add(rank(wish, refusal, &remedy), &told(wish, refusal), &remedy),
            }
        }
        lines.reads(reads);
        for place in &self.emptied {
            let what = if fs::metadata(place).is_ok_and(|found| found.is_dir()) { "directory" } else { "file" };
            if let Some(remedy) = hiding(place, false, plan) {
                lines.add(Rank::Hidden, &format!("open '{}' found an empty {what}", place.display()), &remedy);
            }
        }
        lines.network(self);
        lines.requests(by_proxy);
        lines.filtered(self);
        let mut denials: Vec<String> = lines.told.into_iter().map(|(_, line)| format!("denied: {line}")).collect();
        if denials.len() > TOLD {
            let more = denials.split_off(TOLD).len();
            denials.push(format!("denied: {more} more"));
        }
        Summary { denials, probes }
    }
}

/// A read that a grant would allow.
struct Read<'a> {
    wish: &'a Wish,
    refusal: &'a Refusal,
    place: PathBuf,
}

/// Lines in the making.
struct Lines<'a> {
    plan: &'a Plan,
    policy: &'a Policy,
    host: &'a Host,
    told: BTreeSet<(Rank, String)>,
    remedies: BTreeSet<String>,
}

impl Lines<'_> {
    /// Tells of something, unless its remedy was told already.
    fn add(&mut self, rank: Rank, what: &str, remedy: &Remedy) {
        let remedy = self.words(remedy);
        if self.remedies.insert(remedy.clone()) {
            self.told.insert((rank, format!("{what}: {remedy}")));
        }
    }

    /// As one would type it, with a remark where it gives much away.
    fn words(&self, remedy: &Remedy) -> String {
        let (words, place, write) = match remedy {
            Remedy::Words(words) => return words.clone(),
            Remedy::Protect(place) if given(&Rule::Protect, place, self.plan, self.policy, self.host) => {
                return format!("the protect of '{}' keeps it, leave that out", place.display());
            }
            Remedy::Protect(place) => {
                let grant = written(place, self.plan, self.host);
                (format!("-w {grant} lifts the protection of '{}'", place.display()), place, true)
            }
            Remedy::Grant { place, write: false } if let Some(profile) = profile_for(place, self.policy, self.host) => {
                return format!("-p {profile}");
            }
            Remedy::Grant { place, write } => {
                let letter = if *write { 'w' } else { 'r' };
                (format!("-{letter} {}", written(place, self.plan, self.host)), place, *write)
            }
            Remedy::Socket(place) => (format!("--allow-socket {}", abbreviated(place, self.host)), place, true),
            Remedy::Show { name, place } => (format!("--show-hidden {}", quoted(name.clone())), place, false),
        };
        match danger(place, write, self.host) {
            Some(why) => format!("{words} (careful: {why})"),
            None => words,
        }
    }

    /// Reads, those of one directory together.
    fn reads(&mut self, mut reads: Vec<Read>) {
        // Whoever may read a file sees the directories that lead to it.
        let places: BTreeSet<PathBuf> = reads.iter().map(|read| read.place.clone()).collect();
        let leads = |place: &Path| places.range(place.to_owned()..).nth(1).is_some_and(|next| next.starts_with(place));
        reads.retain(|read| !(is_look(&read.refusal.call) && leads(&read.place)));
        // A grant of a directory that was opened itself gives what lies below it.
        let opened: BTreeSet<PathBuf> =
            reads.iter().filter(|read| !is_look(&read.refusal.call)).map(|read| read.place.clone()).collect();
        reads.retain(|read| {
            let given = read.place.ancestors().skip(1).any(|above| opened.contains(above));
            !given || danger(&read.place, false, self.host).is_some()
        });
        let mut directories: BTreeMap<PathBuf, BTreeSet<PathBuf>> = BTreeMap::new();
        for read in &reads {
            if let Some(parent) = read.place.parent() {
                directories.entry(parent.to_owned()).or_default().insert(read.place.clone());
            }
        }
        let top = |path: &Path| path.components().count() <= 2;
        directories.retain(|directory, places| {
            let broad =
                self.plan.rules.shows(directory) || top(directory) || danger(directory, false, self.host).is_some();
            places.len() >= MANY && !broad
        });
        for Read { wish, refusal, place } in reads {
            let rank = if is_look(&refusal.call) { Rank::Look } else { Rank::Read };
            let known = place.parent().and_then(|parent| directories.get_key_value(parent));
            match known.filter(|_| danger(&place, false, self.host).is_none()) {
                Some((directory, places)) => {
                    let remedy = Remedy::Grant { place: directory.clone(), write: false };
                    let more =
                        format!("{} and {} more of '{}'", told(wish, refusal), places.len() - 1, directory.display());
                    self.add(Rank::Read, &more, &remedy);
                }
                None => self.add(rank, &told(wish, refusal), &Remedy::Grant { place, write: false }),
            }
        }
    }

    fn network(&mut self, denials: &Denials) {
        let host_network = self.plan.network == Network::Host;
        let mut unreached: BTreeMap<Verdict, (String, Vec<String>)> = BTreeMap::new();
        for ((peer, call), error) in &denials.peers {
            if let Some(verdict) = network::verdict(call, peer, error, host_network) {
                let (_, peers) = unreached.entry(verdict).or_insert_with(|| (format!("{error} {call}"), Vec::new()));
                let peer = peer.to_string();
                if !peers.contains(&peer) {
                    peers.push(peer);
                }
            }
        }
        for (verdict, (first, peers)) in unreached {
            let what = format!("{first} {}", list(&peers));
            self.add(Rank::Network, &what, &Remedy::Words(verdict.remedy().into()));
        }
        if !denials.privileged.is_empty() {
            let kinds: Vec<_> = denials.privileged.iter().map(|kind| format!("({kind})")).collect();
            let what = format!("EPERM socket {}", list(&kinds));
            self.add(Rank::Network, &what, &Remedy::Words(Verdict::Privileged.remedy().into()));
        }
    }

    /// Requests that the proxy refused, each host once.
    fn requests(&mut self, by_proxy: &ByProxy) {
        for (host, count) in by_proxy.requests.into_iter().flat_map(|sums| &sums.denied_hosts) {
            let remedy = by_proxy.remedies.get(host).map_or("no rule of --allow-host allows it", String::as_str);
            // Also where one rule would allow two ports.
            self.told.insert((Rank::Network, format!("request to '{host}' ({count}): {remedy}")));
        }
    }

    fn filtered(&mut self, denials: &Denials) {
        let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (group, call) in denials.filtered.keys() {
            groups.entry(group).or_default().push(call.clone());
        }
        for ((name, _), group) in &denials.filtered {
            let Some(calls) = groups.remove(name) else { continue };
            let what = format!("{} {}", group.answer.name(), list(&calls));
            let remedy = filter::remedy(group);
            let words = format!("refused by the system-call filter ({name}: {}): {remedy}", group.reason);
            // Whoever is told that there is no such call takes another way.
            let rank = if group.answer == Answer::Unknown { Rank::Look } else { Rank::Filter };
            self.add(rank, &what, &Remedy::Words(words));
        }
    }
}

/// The first of many words, and how many more there are.
fn list(words: &[String]) -> String {
    let shown = words.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ");
    match words.len().saturating_sub(LISTED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn told(wish: &Wish, Refusal { call, error }: &Refusal) -> String {
    let path = plain(&wish.path);
    match wish.want {
        Want::Read => format!("{error} {call} '{}' for read", path.display()),
        Want::Write | Want::Name => format!("{error} {call} '{}' for write", path.display()),
        Want::Connect => format!("{error} {call} '{}'", path.display()),
    }
}

fn rank(wish: &Wish, refusal: &Refusal, remedy: &Remedy) -> Rank {
    match (wish.want, remedy) {
        (Want::Write | Want::Name, _) => Rank::Write,
        (Want::Connect, _) => Rank::Socket,
        (Want::Read, Remedy::Show { .. } | Remedy::Words(_)) => Rank::Hidden,
        (Want::Read, _) if is_look(&refusal.call) => Rank::Look,
        (Want::Read, _) => Rank::Read,
    }
}

/// Whether a call only asks what is there.
fn is_look(call: &str) -> bool {
    !matches!(call, "open" | "chdir" | "execve" | "execveat" | "chroot" | "uselib")
}

/// What would allow it; `None` where the sandbox is not the reason.
fn remedy(wish: &Wish, error: &str, plan: &Plan, host: &Host) -> Option<Remedy> {
    if wish.path.starts_with("/proc") {
        let closed = plan.reach.as_ref().is_some_and(|reach| !reach.gives(&wish.path, true)[0]);
        let refused = closed && error == "EACCES" && wish.want == Want::Read;
        return refused
            .then(|| Remedy::Words("--allow-gap processes opens /proc, with what it says of all processes".into()));
    }
    let rules = &plan.rules;
    if error == "EBUSY" {
        return kept_name(&plain(&wish.path), plan);
    }
    let write = wish.want.changes();
    let found = walk(&wish.path).ok().filter(|_| wish.want != Want::Name);
    if wish.want == Want::Connect {
        let found = found?;
        let closed = found.metadata.file_type().is_socket() && !rules.shows(&found.end);
        return closed.then(|| hiding(&found.end, false, plan).unwrap_or(Remedy::Socket(found.end)));
    }
    // A name that is to be made, or taken away, belongs to the deepest directory that exists.
    let (place, exists) = match found {
        Some(found) => (found.end, true),
        None if write => {
            let above = wish.path.ancestors().skip(1);
            let mut above = above.map(walk).take(if error == "ENOENT" { 1 } else { usize::MAX });
            (above.find_map(Result::ok)?.end, false)
        }
        None => return None,
    };
    let shown = rules.shows(&place);
    let closed = || refusal(&place, exists && !write, write).map(Remedy::Words);
    if shown && (!write || rules.writable(&place)) {
        // The files' own permissions, or a name that is not there on the host either.
        return closed().filter(|_| matches!(error, "EACCES" | "EPERM"));
    }
    // Hidden because nobody inside could search it.
    if let Some((at, Rule::Hidden)) = rules.decides(&place)
        && !at.file_name().is_some_and(hidden::is_hidden)
        && let Some(remedy) = closed()
    {
        return Some(remedy);
    }
    // A directory that everybody has: of its own inside.
    let private =
        matches!(rules.decides(&place), Some((at, Rule::Own(Own::Shared | Own::SecondTmp | Own::Home))) if at == place);
    if !exists && private {
        return None;
    }
    if place == Path::new("/") {
        // Nobody should be told to grant that.
        return write.then(|| Remedy::Words("only a write grant of the whole host, '/', would allow it".into()));
    }
    if error != "ENOENT" && !write && fs::metadata(&place).is_err() {
        return None;
    }
    if host.mounts().kind(&place) == Some("proc") {
        return Some(Remedy::Words("no option shows another /proc of the host, the command has its own".into()));
    }
    if let Some(remedy) = hiding(&place, write, plan) {
        return Some(remedy);
    }
    Some(match rules.decides(&place) {
        Some((at, Rule::Protect)) if write => Remedy::Protect(at.to_owned()),
        _ => Remedy::Grant { place, write },
    })
}

/// Why a name cannot be taken away or given to something else: no option but one less allows it.
fn kept_name(place: &Path, plan: &Plan) -> Option<Remedy> {
    let (_, rule) = plan.rules.decides(place).filter(|(at, _)| *at == place)?;
    let place = place.display();
    Some(Remedy::Words(match rule {
        Rule::Protect => format!("'{place}' is protected, so that its name stays, and nothing can be put in its place"),
        Rule::Pin => format!("something below '{place}' is protected or hidden, so that its name stays"),
        rule if rule.hides() => format!("'{place}' is hidden, so that its name stays"),
        _ => format!("'{place}' is a grant of its own, so that its name stays"),
    }))
}

/// What would show a place that a rule hides.
fn hiding(place: &Path, write: bool, plan: &Plan) -> Option<Remedy> {
    let (at, rule) = plan.rules.decides(place)?;
    match rule {
        Rule::Mask => Some(Remedy::Words(format!("the mask on '{}' hides it, leave that out", at.display()))),
        Rule::DenySocket => Some(Remedy::Words(format!("'{}' is denied by --deny-socket", at.display()))),
        Rule::Hidden => {
            let name = at.file_name()?;
            let above = at.parent().is_some_and(|parent| plan.rules.writable(parent));
            let shows = hidden::is_hidden(name) && (above || !write);
            let text = name.to_str().filter(|_| shows)?;
            Some(Remedy::Show { name: text.to_owned(), place: place.to_owned() })
        }
        _ if rule.hides() => Some(Remedy::Grant { place: place.to_owned(), write }),
        _ => None,
    }
}

/// Without `.` and `..`, as far as the host knows the way.
fn plain(path: &Path) -> PathBuf {
    match (path.parent().and_then(|parent| walk(parent).ok()), path.file_name()) {
        (Some(parent), Some(name)) => parent.end.join(name),
        _ => path.to_owned(),
    }
}

fn written(place: &Path, plan: &Plan, host: &Host) -> String {
    if place == plan.workdir { ".".to_owned() } else { abbreviated(place, host) }
}

/// As one would type it in a shell.
#[must_use]
pub fn abbreviated(path: &Path, host: &Host) -> String {
    let below_home =
        host.home.as_deref().and_then(|home| path.strip_prefix(home).ok()).filter(|rest| *rest != Path::new(""));
    quoted(match below_home {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    })
}

fn quoted(text: String) -> String {
    let plain = text.chars().all(|char| char.is_alphanumeric() || "-_./+:@%,~".contains(char));
    // `~` in quotes is expanded by us.
    if plain { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
