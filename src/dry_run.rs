//! `--dry-run`: the plan as text or JSON. Names of variables only, never a value; the same bytes each time.

mod operations;

use std::path::Path;

use serde::Serialize;

use operations::Own;

use crate::attempt::Planned;
use crate::backend;
use crate::cli::Format;
use crate::error::Result;
use crate::launch::{Confinement, File, Launch, Word, named};
use crate::log::{escape, json_line};
use crate::plan::reach::Right;
use crate::plan::way_out::To;
use crate::plan::{Gap, MountOp, Plan};
use crate::policy::env::EnvRule;
use crate::policy::{Access, Limits, Network, Origin, Policy};
use crate::seccomp;
use crate::stage::handoff;

#[derive(Serialize)]
struct DryRun<'a> {
    policy_sha256: String,
    backend: &'static str,
    command: String,
    arguments: Vec<String>,
    workdir: String,
    network: &'static str,
    /// What leaves all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    way_out: Option<&'static str>,
    new_session: bool,
    settings: Vec<Decision>,
    limits: Bounds,
    kill_after_ms: u128,
    kept_descriptors: Vec<i32>,
    mounts: Vec<Mount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    landlock: Option<Ruleset>,
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    own: Option<Own>,
    created_on_host: Vec<String>,
    environment: Environment,
    #[serde(skip_serializing_if = "Option::is_none")]
    seccomp: Option<Filter>,
    gaps: &'a [Gap],
    warnings: &'a [String],
    notes: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    launcher: Option<Launcher>,
    /// What the launcher reads its rules from.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<String>,
}

/// Who decided what: an item with its rule, or a single setting.
#[derive(Default, Serialize)]
struct Decision {
    setting: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    variable: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protection: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    descriptor: Option<i32>,
    from: String,
}

/// What is enforced; null is no limit.
#[derive(Serialize)]
struct Bounds {
    timeout_ms: Option<u128>,
    memory_bytes: Option<u64>,
    cpu_time_seconds: Option<u64>,
    max_procs: Option<u64>,
    max_file_size_bytes: Option<u64>,
    max_open_files: Option<u64>,
    address_space_bytes: Option<u64>,
    core_bytes: Option<u64>,
    max_output_bytes: Option<u64>,
    output_overflow: &'static str,
}

#[derive(Serialize)]
struct Mount {
    operation: &'static str,
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

/// What a process lets itself do.
#[derive(Serialize)]
struct Ruleset {
    version: i32,
    rules: Vec<Allowed>,
    tcp: bool,
}

#[derive(Serialize)]
struct Allowed {
    right: Right,
    path: String,
}

#[derive(Serialize)]
struct Environment {
    kept: Vec<String>,
    /// Of these, because their socket is allowed.
    with_socket: Vec<String>,
    set: Vec<String>,
    dropped: Vec<Dropped>,
}

#[derive(Serialize)]
struct Dropped {
    name: String,
    reason: String,
}

/// The system-call filter.
#[derive(Serialize)]
struct Filter {
    refused: Vec<Refused>,
    /// Instructions of classic BPF: code, jt, jf, k.
    program: Vec<(u16, u8, u8, u32)>,
}

#[derive(Serialize)]
struct Refused {
    group: &'static str,
    errno: &'static str,
    reason: &'static str,
    calls: Vec<String>,
}

#[derive(Serialize)]
struct Launcher {
    program: String,
    arguments: Vec<String>,
    options: Vec<String>,
}

/// What a run of this plan would do.
pub fn render((plan, tools): &Planned, policy: &Policy, hash: String, format: Format) -> Result<Vec<u8>> {
    let text = |path: &std::path::Path| path.display().to_string();
    let names = |names: &[std::ffi::OsString]| names.iter().map(|name| name.display().to_string()).collect();
    let launch = backend::launch(plan, tools)?;
    let report = DryRun {
        policy_sha256: hash,
        backend: plan.backend.word(),
        command: text(&plan.target.exec),
        arguments: names(&plan.argv),
        workdir: text(&plan.workdir),
        network: match plan.network {
            Network::Off => "off",
            Network::Host => "host",
        },
        way_out: plan.way_out.as_ref().map(|way| match way.to {
            To::Proxy(_) => "requests that rules allow",
            To::Socket(_) => "what the proxy behind the socket lets leave",
        }),
        new_session: plan.new_session,
        settings: settings(policy),
        limits: bounds(&plan.limits),
        kill_after_ms: plan.kill_after.as_millis(),
        kept_descriptors: plan.keep_fds.iter().copied().collect(),
        mounts: plan.view.iter().map(mount).collect(),
        landlock: match &launch {
            Launch::Confined(confinement) => Some(ruleset(plan, confinement)),
            Launch::Program(_) | Launch::Namespaces(_) | Launch::InProcess => None,
        },
        own: match &launch {
            Launch::Namespaces(namespaces) => Some(Own::of(namespaces)),
            Launch::Program(_) | Launch::Confined(_) | Launch::InProcess => None,
        },
        created_on_host: plan.create.iter().map(|made| text(&made.path)).collect(),
        environment: Environment {
            kept: names(&plan.environment.kept),
            with_socket: names(&plan.environment.with_socket),
            set: names(&plan.environment.set),
            dropped: plan
                .environment
                .dropped
                .iter()
                .map(|dropped| Dropped { name: dropped.name.display().to_string(), reason: dropped.reason.to_string() })
                .collect(),
        },
        seccomp: plan.backend.filters().then(|| filter(handoff::filter(plan))),
        gaps: &plan.gaps,
        warnings: &plan.warnings,
        notes: &plan.notes,
        profile: profile(&launch).cloned(),
        launcher: match launch {
            Launch::Program(command) => Some(Launcher {
                program: text(&command.program),
                arguments: command.arguments.iter().map(word).collect(),
                options: command.options.iter().map(word).collect(),
            }),
            Launch::Namespaces(_) | Launch::Confined(_) | Launch::InProcess => None,
        },
    };
    Ok(match format {
        Format::Json => json_line(&report),
        Format::Text => report.text(&plan.limits).into_bytes(),
    })
}

/// The text of rules that a launcher gets in a file.
fn profile(launch: &Launch) -> Option<&String> {
    let Launch::Program(command) = launch else { return None };
    command.arguments.iter().find_map(|word| match word {
        Word::Private(text) => Some(text),
        Word::Text(_) | Word::Fd(_) | Word::FdPath(_) | Word::Scratch { .. } => None,
    })
}

/// The rules; the private directories have another name in each run.
fn ruleset(plan: &Plan, confinement: &Confinement) -> Ruleset {
    let Confinement { landlock, rules, no_tcp } = confinement;
    let private = plan.reach.as_ref().map(|reach| reach.scratch.top.as_path());
    let name = |path: &Path| match private.and_then(|top| path.strip_prefix(top).ok()) {
        Some(below) => format!("{{private}}/{}", below.display()),
        None => path.display().to_string(),
    };
    let rules = rules.iter().map(|rule| Allowed { right: rule.right, path: name(&rule.path) });
    Ruleset { version: *landlock, rules: rules.collect(), tcp: !no_tcp }
}

fn filter(options: seccomp::Options) -> Filter {
    let refused = seccomp::groups(options).map(|group| Refused {
        group: group.name,
        errno: group.answer.name(),
        reason: group.reason,
        calls: group.calls.iter().filter(|call| call.number >= 0).map(ToString::to_string).collect(),
    });
    let program = seccomp::program(options).into_iter().map(|step| (step.code, step.jt, step.jf, step.k));
    Filter { refused: refused.collect(), program: program.collect() }
}

fn bounds(limits: &Limits) -> Bounds {
    let Limits {
        timeout,
        memory,
        cpu_time,
        max_procs,
        max_file_size,
        max_open_files,
        address_space,
        core,
        max_output,
        overflow,
    } = limits;
    Bounds {
        timeout_ms: timeout.map(|time| time.as_millis()),
        memory_bytes: *memory,
        cpu_time_seconds: *cpu_time,
        max_procs: *max_procs,
        max_file_size_bytes: *max_file_size,
        max_open_files: *max_open_files,
        address_space_bytes: *address_space,
        core_bytes: *core,
        max_output_bytes: *max_output,
        output_overflow: overflow.word(),
    }
}

/// Each limit in words; what is none is left out.
fn limit_lines(limits: &Limits) -> impl Iterator<Item = String> {
    let number = |number: u64| number.to_string();
    let lines = [
        ("timeout", limits.timeout.map(|time| format!("{time:?}"))),
        ("memory", limits.memory.map(size)),
        ("cpu time", limits.cpu_time.map(|seconds| format!("{seconds}s"))),
        ("processes", limits.max_procs.map(number)),
        ("file size", limits.max_file_size.map(size)),
        ("open files", limits.max_open_files.map(number)),
        ("address space", limits.address_space.map(size)),
        ("core", limits.core.map(size)),
        ("output", limits.max_output.map(|bytes| format!("{}, then {}", size(bytes), limits.overflow.word()))),
    ];
    lines.into_iter().filter_map(|(what, value)| Some(format!("{what} {}", value?)))
}

/// A number of bytes for readers.
fn size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift) {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} bytes"),
    }
}

/// Everything that somebody asked for, by whom.
fn settings(policy: &Policy) -> Vec<Decision> {
    let one = |setting, origin: &Origin| Decision { setting, from: origin.to_string(), ..Decision::default() };
    let upstream = |key: &str| policy.egress.upstream.as_ref().filter(|_| key == "upstream_proxy");
    let single = policy
        .origins
        .iter()
        .map(|(key, origin)| Decision { rule: upstream(key).map(|proxy| proxy.spec.to_string()), ..one(key, origin) });
    let gaps = policy.accepted_gaps.iter();
    let gaps = gaps.map(|(gap, origin)| Decision { protection: Some(gap.word()), ..one("allow gap", origin) });
    let kept = policy.keep_fds.iter();
    let kept = kept.map(|(number, origin)| Decision { descriptor: Some(*number), ..one("keep descriptor", origin) });
    let path = |setting, path: &std::path::Path, origin: &Origin| Decision {
        path: Some(path.display().to_string()),
        ..one(setting, origin)
    };
    let grants = policy.files.grants.iter().map(|grant| {
        let setting = match grant.access {
            Access::Read => "read",
            Access::Write => "write",
        };
        path(setting, &grant.path, &grant.origin)
    });
    let rules = [
        ("mask", &policy.files.masks),
        ("protect", &policy.files.protects),
        ("allow socket", &policy.allow_sockets),
        ("deny socket", &policy.deny_sockets),
    ];
    let rules =
        rules.iter().flat_map(|(setting, rules)| rules.iter().map(|rule| path(setting, &rule.path, &rule.origin)));
    let hosts = policy.egress.hosts.iter();
    let hosts = hosts.map(|host| Decision { rule: Some(host.rule.to_string()), ..one("allow host", &host.origin) });
    let credentials = policy.egress.credentials.iter();
    let credentials =
        credentials.map(|one_of| Decision { rule: Some(one_of.spec.to_string()), ..one("credential", &one_of.origin) });
    let variables = policy.env.deciding().into_iter().map(|entry| {
        let setting = match entry.rule {
            EnvRule::Pass(_) | EnvRule::PassPrefix(_) => "pass variable",
            EnvRule::Set(..) => "set variable",
        };
        Decision { variable: Some(entry.rule.subject().into_owned()), ..one(setting, &entry.origin) }
    });
    single.chain(gaps).chain(grants).chain(rules).chain(hosts).chain(credentials).chain(variables).chain(kept).collect()
}

fn word(word: &Word) -> String {
    let file = |file: &File| match file {
        File::Options => "{options}".to_owned(),
        File::Image => "{sandbox-run}".to_owned(),
        File::Empty => "{empty}".to_owned(),
        File::Host(path) => format!("{{{}}}", path.display()),
    };
    match word {
        Word::Text(text) => named(text, "{run}".as_ref()).display().to_string(),
        Word::Fd(which) => file(which),
        Word::FdPath(which) => format!("/proc/self/fd/{}", file(which)),
        Word::Private(_) => "{profile}".to_owned(),
        Word::Scratch { before, name, after } => {
            let after = named(after, "{run}".as_ref());
            format!("{}{{scratch}}/{}{}", before.display(), name.display(), after.display())
        }
    }
}

fn mount(op: &MountOp) -> Mount {
    let (operation, at, from, detail) = match op {
        MountOp::Tmpfs { at, mode, size } => {
            ("private", at, None, Some(format!("mode {mode:04o}, at most {size} bytes")))
        }
        MountOp::Dir { at } => ("directory", at, None, None),
        MountOp::Link { at, text } => ("link", at, None, Some(format!("-> {}", text.display()))),
        MountOp::Bind { from, at, write: true, .. } => ("write", at, Some(from), None),
        MountOp::Bind { from, at, write: false, .. } => ("read", at, Some(from), None),
        MountOp::Copy { from, at } => ("copy", at, Some(from), None),
        MountOp::Proc { at } => ("processes", at, None, None),
        MountOp::Dev { at } => ("devices", at, None, None),
        MountOp::Queues { at } => ("message queues", at, None, None),
        MountOp::EmptyFile { at } => ("empty file", at, None, None),
        MountOp::ReadOnly { at } => ("seal", at, None, None),
    };
    Mount {
        operation,
        at: at.display().to_string(),
        from: from.filter(|from| *from != at).map(|from| from.display().to_string()),
        detail,
    }
}

impl DryRun<'_> {
    fn text(&self, limits: &Limits) -> String {
        let mut lines = vec![
            format!("backend: {}", self.backend),
            format!("policy sha256: {}", self.policy_sha256),
            format!("command: {}", self.command),
            format!("arguments: {}", quoted(&self.arguments)),
            format!("working directory: {}", self.workdir),
            match self.way_out {
                Some(way) => format!("network: {}, but for {way}", self.network),
                None => format!("network: {}", self.network),
            },
            format!("new session: {}", if self.new_session { "yes" } else { "no" }),
        ];
        if !self.kept_descriptors.is_empty() {
            lines.push(format!("kept descriptors: {:?}", self.kept_descriptors));
        }
        lines.extend(limit_lines(limits).map(|line| format!("limit: {line}")));
        for Decision { setting, path, variable, rule, protection, descriptor, from } in &self.settings {
            let about = path.as_deref().or(variable.as_deref()).or(rule.as_deref()).or(*protection);
            let about = about.map(|about| format!(" '{about}'"));
            let about = about.or(descriptor.map(|number| format!(" {number}"))).unwrap_or_default();
            lines.push(format!("setting: {setting}{about} from {from}"));
        }
        if let Some(Ruleset { version, rules, tcp }) = &self.landlock {
            let tcp = if *tcp { "TCP as the network" } else { "no TCP" };
            lines.push(format!("rules of Landlock ABI {version} ({}), {tcp}:", rules.len()));
            lines.extend(rules.iter().map(|Allowed { right, path }| format!("  {} {path}", right.word())));
        } else {
            lines.push(format!("mounts ({}):", self.mounts.len()));
        }
        for mount in &self.mounts {
            let from = mount.from.as_ref().map(|from| format!(" from {from}")).unwrap_or_default();
            let detail = mount.detail.as_ref().map(|detail| format!(" {detail}")).unwrap_or_default();
            lines.push(format!("  {} {}{from}{detail}", mount.operation, mount.at));
        }
        for path in &self.created_on_host {
            lines.push(format!("made on the host: {path}"));
        }
        lines.push(format!("variables passed: {}", self.environment.kept.join(" ")));
        if !self.environment.with_socket.is_empty() {
            let names = self.environment.with_socket.join(" ");
            lines.push(format!("  of these, because the socket they lead to is allowed: {names}"));
        }
        lines.push(format!("variables set: {}", self.environment.set.join(" ")));
        lines.push(format!("variables dropped ({}):", self.environment.dropped.len()));
        for dropped in &self.environment.dropped {
            lines.push(format!("  {}: {}", dropped.name, dropped.reason));
        }
        if let Some(filter) = &self.seccomp {
            let groups: Vec<_> = filter.refused.iter().map(|refused| refused.group).collect();
            lines.push(format!("system calls refused: {}", groups.join(", ")));
        }
        for gap in self.gaps {
            lines.push(format!("gap: {} ({})", gap.protection, gap.missing));
        }
        lines.extend(self.warnings.iter().map(|warning| format!("warning: {warning}")));
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        if let Some(Own { namespaces, operations }) = &self.own {
            lines.push(format!("namespaces: {}", namespaces.join(", ")));
            lines.push(format!("operations ({}):", operations.len()));
            lines.extend(operations.iter().map(|operation| format!("  {operation}")));
        }
        if let Some(launcher) = &self.launcher {
            lines.push(format!("launcher: {} {}", launcher.program, quoted(&launcher.arguments)));
            if !launcher.options.is_empty() {
                lines.push(format!("launcher options: {}", quoted(&launcher.options)));
            }
        }
        if let Some(profile) = &self.profile {
            lines.push("profile:".to_owned());
            lines.extend(profile.lines().map(|line| format!("  {line}").trim_end().to_owned()));
        }
        lines.iter().flat_map(|line| [escape(line), "\n".to_owned()]).collect()
    }
}

/// Words as a shell would take them, as far as a reader needs.
fn quoted(words: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty() && word.chars().all(|char| char.is_alphanumeric() || "-_./=:,+@%{}".contains(char))
    };
    words
        .iter()
        .map(|word| if plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) })
        .collect::<Vec<_>>()
        .join(" ")
}
