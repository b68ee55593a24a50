//! What was typed: from argv to an [`Invocation`].
//!
//! Reads no file, prints nothing and never leaves the process; the only thing it asks the system for
//! is the width of the terminal, when there is help to wrap. Values are checked for their form, never
//! against this host.
//!
//! The words of the target never reach clap: `words` cuts them off first, so that they are neither
//! interpreted nor copied, however many there are.

mod help;
mod message;
mod options;
mod texts;
mod value;
mod words;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use clap::error::ErrorKind;

pub use help::{Code, ENDS, ENVIRONMENT, EXAMPLES, EXIT_NOTE, command, completions};

use crate::backend::Backend;
use crate::config::{Layer, Set};
use crate::egress::credentials::Spec;
use crate::egress::rules::Rule;
use crate::egress::upstream;
use crate::error::{Error, Result};
use crate::policy::env::EnvRule;
use crate::policy::hidden::Overflow;
use crate::policy::limits::OutputOverflow;
use crate::policy::units::Span;
use crate::policy::{
    Access, Credential, Grant, HostRule, ImageName, Missing, Network, NewSession, Origin, PathRule, Protection,
};
use crate::report::{Asked, ResultTo};

/// The whole command line, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// What to do.
    pub action: Action,
    /// The settings; `env` is empty, see [`Invocation::env`].
    pub layer: Layer,
    /// Profiles in the order typed.
    pub profiles: Vec<String>,
    /// The one policy file or payload.
    pub source: Option<PolicySource>,
    /// Words about the environment in the order typed: files among them still have to be read.
    pub env: Vec<EnvWord>,
    /// Where to report.
    pub reports: Asked,
    /// Whether the target runs under a tracer.
    pub trace: bool,
    /// Command and arguments as they were typed. Empty only for actions that run nothing and plan nothing.
    pub target: Vec<OsString>,
    /// How much to say on standard error.
    pub verbosity: Verbosity,
    /// How to say it.
    pub log_format: LogFormat,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run the target.
    Run,
    /// Print what would be done.
    DryRun(Format),
    /// Try every backend and print what works.
    Check {
        /// As one JSON object instead of text.
        json: bool,
    },
    /// Say what the target could do with these paths, and try it.
    Explain {
        /// As typed, not empty.
        paths: Vec<PathBuf>,
        /// As one JSON object instead of text.
        json: bool,
    },
    /// Print the merged policy.
    PrintPolicy(PolicyForm),
    /// Print the names of all profiles, a line each.
    ListProfiles,
    /// Print a completion script.
    Completions(clap_complete::Shell),
    /// Print this help on standard output.
    Help(String),
    /// Print this version on standard output.
    Version(String),
}

/// How a policy is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyForm {
    /// One JSON object.
    Json,
    /// TOML with the origin of each setting as a comment.
    Toml,
    /// The base64url text of a record.
    Payload,
}

/// Where settings come from besides profiles and options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicySource {
    /// `--policy`; the path is not empty.
    File(PathBuf),
    /// `--policy -`.
    StandardInput,
    /// `--policy-payload`.
    Payload(OsString),
    /// `--policy-fd`.
    Descriptor(i32),
}

/// How a plan is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

/// How diagnostics are written on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines of text.
    Text,
    /// One JSON object per line.
    Json,
}

/// How much to say; what wins when both were typed is decided where diagnostics are set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verbosity {
    /// How often `-v` was typed.
    pub verbose: u8,
    /// Whether `-q` was typed.
    pub quiet: bool,
}

/// One word about the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvWord {
    /// From `--env`.
    Rule(EnvRule),
    /// From `--env-file`; the path is not empty.
    File(PathBuf),
}

/// A command line with a mistake, and what can be told of it all the same.
#[derive(Debug)]
pub struct Misread {
    /// The leftmost mistake, always as [`Kind::Usage`](crate::error::Kind::Usage).
    pub error: Error,
    /// Where to report it.
    pub reports: Asked,
    /// Command and arguments, if it is clear where they begin.
    pub target: Option<Vec<OsString>>,
    /// How to say it.
    pub log_format: LogFormat,
}

/// Takes the command line apart; `args` come without the program's own name. The leftmost mistake is reported.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation> {
    read(args).map_err(|misread| misread.error)
}

/// The same, with what is known of a command line that cannot be understood.
pub fn read(args: impl IntoIterator<Item = OsString>) -> std::result::Result<Invocation, Box<Misread>> {
    let mut command = options::command();
    let words::Split { options, target, refused, after } = words::split(&command, args);
    let complete = refused.is_none();
    match understand(&mut command, &options, &target, refused) {
        Ok(invocation) => Ok(Invocation { target, ..invocation }),
        Err(error) => {
            let options = [options, after].concat();
            Err(Box::new(Misread {
                error,
                log_format: log_format_of(&options),
                reports: reports_of(command, &options),
                target: Some(target).filter(|words| complete && !words.is_empty()),
            }))
        }
    }
}

/// The invocation without its target.
fn understand(
    command: &mut clap::Command,
    options: &[OsString],
    target: &[OsString],
    refused: Option<Error>,
) -> Result<Invocation> {
    let long_help = options.iter().any(|word| word == "--help");
    let matches = match command.try_get_matches_from_mut(options) {
        Ok(matches) => matches,
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {
            return Ok(printed(Action::Help(help::text(long_help))));
        }
        Err(error) if error.kind() == ErrorKind::DisplayVersion => {
            return Ok(printed(Action::Version(command.render_version())));
        }
        Err(error) => return Err(message::from_clap(&error)),
    };
    match refused {
        Some(error) => Err(error),
        None => collect(matches, target),
    }
}

/// An invocation that prints a text and needs nothing else.
fn printed(action: Action) -> Invocation {
    Invocation {
        action,
        layer: Layer::default(),
        env: Vec::new(),
        profiles: Vec::new(),
        source: None,
        reports: Asked::default(),
        trace: false,
        target: Vec::new(),
        verbosity: Verbosity::default(),
        log_format: LogFormat::Text,
    }
}

fn collect(mut matches: ArgMatches, target: &[OsString]) -> Result<Invocation> {
    let matches = &mut matches;
    let profiles: Vec<String> = list(matches, "profile").collect();
    let action = action(matches, target, &profiles)?;
    let layer = layer(matches);
    one_network(&layer)?;
    Ok(Invocation {
        action,
        layer,
        env: env_words(matches),
        profiles,
        source: source(matches)?,
        reports: reports(matches)?,
        trace: matches.get_flag("trace"),
        target: Vec::new(),
        verbosity: Verbosity { verbose: matches.get_count("verbose"), quiet: matches.get_flag("quiet") },
        log_format: matches.remove_one("log-format").unwrap_or(LogFormat::Text),
    })
}

/// The one source of settings that was named. A second one, of the same kind too, would take denials away in silence.
fn source(matches: &mut ArgMatches) -> Result<Option<PolicySource>> {
    let files = list::<PathBuf>(matches, "policy").map(|path| {
        let standard_input = path.as_os_str() == "-";
        ("--policy", if standard_input { PolicySource::StandardInput } else { PolicySource::File(path) })
    });
    let mut typed: Vec<_> = files.collect();
    typed.extend(list(matches, "policy-payload").map(|text| ("--policy-payload", PolicySource::Payload(text))));
    typed.extend(list(matches, "policy-fd").map(|number| ("--policy-fd", PolicySource::Descriptor(number))));
    if let [(name, _), (other, _), ..] = typed[..] {
        let text = format!("options '{name}' and '{other}' exclude each other: there is one policy file or payload");
        return Err(message::refuse(&text).hint("settings that add up are profiles, see '--profile help'"));
    }
    Ok(typed.pop().map(|(_, source)| source))
}

fn reports(matches: &mut ArgMatches) -> Result<Asked> {
    let file = matches.remove_one("result").map(ResultTo::File);
    let descriptor = matches.remove_one("result-fd").map(ResultTo::Descriptor);
    if file.is_some() && descriptor.is_some() {
        let error = message::refuse("options '--result' and '--result-fd' exclude each other");
        return Err(error.hint("there is one result; '--audit-log' can be added to either"));
    }
    let capture = matches.get_flag("capture");
    let result = file.or(descriptor);
    if capture && result.is_none() {
        return Err(message::refuse("option '--capture' needs '--result' or '--result-fd'"));
    }
    let audit_log: Option<PathBuf> = matches.remove_one("audit-log");
    let net_log: Option<PathBuf> = matches.remove_one("net-log");
    let dash = |path: &PathBuf| path.as_os_str() == "-";
    if matches!(&result, Some(ResultTo::File(path)) if dash(path)) {
        let error = message::refuse("option '--result': '-' is no file, and standard output is the command's");
        return Err(error.hint("--result-fd N writes to an open descriptor; a file of that name is './-'"));
    }
    if audit_log.as_ref().is_some_and(dash) {
        let error = message::refuse("option '--audit-log': '-' is no file, and standard output is the command's");
        return Err(error.hint("a file of that name is './-'"));
    }
    if net_log.as_ref().is_some_and(dash) {
        let error = message::refuse("option '--net-log': '-' is no file, and standard output is the command's");
        return Err(error.hint("a file of that name is './-'"));
    }
    Ok(Asked { result, capture, audit_log, net_log })
}

/// Where a mistake among `options` is to be reported: nowhere if nothing was to run, or if that is what is wrong.
fn reports_of(command: clap::Command, options: &[OsString]) -> Asked {
    const INSTEAD: [&str; 7] = ["check", "dry-run", "explain", "print-policy", "completions", "help", "version"];
    if !words::named(options, &INSTEAD).is_empty() {
        return Asked::default();
    }
    let words = words::named(options, &["result", "result-fd", "capture", "audit-log"]);
    let matches = command.try_get_matches_from(words).ok();
    matches.and_then(|mut matches| reports(&mut matches).ok()).unwrap_or_default()
}

/// The last format among `options` that is one.
fn log_format_of(options: &[OsString]) -> LogFormat {
    let words = words::named(options, &["log-format"]);
    let values = words.iter().filter_map(|word| match word.as_encoded_bytes().strip_prefix(b"--log-format") {
        Some(rest) => std::str::from_utf8(rest.strip_prefix(b"=")?).ok(),
        None => word.to_str(),
    });
    values.filter_map(|text| (value::LOG_FORMAT.read)(text.as_ref()).ok()).next_back().unwrap_or(LogFormat::Text)
}

fn action(matches: &mut ArgMatches, target: &[OsString], profiles: &[String]) -> Result<Action> {
    let json = matches.get_flag("json");
    let check = matches.get_flag("check").then_some(Action::Check { json });
    let dry_run = matches.remove_one::<Format>("dry-run").map(Action::DryRun);
    let completions = matches.remove_one::<clap_complete::Shell>("completions").map(Action::Completions);

    let paths: Vec<PathBuf> = list(matches, "explain").collect();
    let explain = (!paths.is_empty()).then_some(Action::Explain { paths, json });
    let print_policy = matches.remove_one::<PolicyForm>("print-policy").map(Action::PrintPolicy);
    let profiles = profiles.iter().any(|name| name == "help").then_some(Action::ListProfiles);

    let mut typed = [
        ("--check", check),
        ("--dry-run", dry_run),
        ("--explain", explain),
        ("--print-policy", print_policy),
        ("--profile help", profiles),
        ("--completions", completions),
    ]
    .into_iter()
    .filter_map(|(name, action)| action.map(|action| (name, action)));
    let (name, action) = typed.next().unwrap_or(("", Action::Run));
    if let Some((other, _)) = typed.next() {
        let text = format!("options '{name}' and '{other}' exclude each other");
        return Err(message::refuse(&text).hint("each of them is done instead of running a command"));
    }
    if json && !["--check", "--explain"].contains(&name) {
        let error = message::refuse("option '--json' needs '--check' or '--explain'");
        return Err(error.hint("a plan is printed as JSON by '--dry-run=json'"));
    }
    let wants_target = matches!(action, Action::Run | Action::DryRun(_));
    match target.first() {
        None if wants_target => {
            Err(message::refuse("no command given").hint(format!("{}; see 'sandbox-run --help'", options::USAGE)))
        }
        // A whole command line can be turned into a file as it stands.
        Some(word) if !wants_target && !matches!(action, Action::PrintPolicy(_) | Action::Explain { .. }) => {
            let word = message::quote(word);
            Err(message::refuse(&format!("option '{name}' runs no command, found {word}")))
        }
        _ => Ok(action),
    }
}

fn layer(matches: &mut ArgMatches) -> Layer {
    let flag = |name| matches.get_flag(name).then_some(true);
    let keep_jobserver = flag("keep-jobserver");
    let env_defaults = flag("no-default-env").map(|no| !no);
    let grants = grants(matches);
    Layer {
        backends: set(matches.remove_one::<Vec<Backend>>("backend"), "--backend"),
        image: set(matches.remove_one::<ImageName>("image"), "--image"),
        accepted_gaps: each(list::<Vec<Protection>>(matches, "allow-gap").flatten(), "--allow-gap"),
        grants,
        masks: rules(matches, "mask", "--mask"),
        protects: rules(matches, "protect", "--protect"),
        hidden_added: list::<OsString>(matches, "show-hidden").collect(),
        hidden_max_entries: number(matches, "hidden-scan-max", "--hidden-scan-max"),
        hidden_overflow: set(matches.remove_one::<Overflow>("hidden-scan-overflow"), "--hidden-scan-overflow"),
        tmp_size: number(matches, "tmp-size", "--tmp-size"),
        workdir: set(matches.remove_one::<PathBuf>("workdir"), "--workdir"),
        network: set(matches.remove_one::<Network>("net"), "--net"),
        allow_hosts: list::<Rule>(matches, "allow-host")
            .map(|rule| HostRule { rule, origin: Origin::Flag("--allow-host") })
            .collect(),
        credentials: list::<Spec>(matches, "credential")
            .map(|spec| Credential { spec, origin: Origin::Flag("--credential") })
            .collect(),
        upstream_proxy: set(matches.remove_one::<upstream::Spec>("upstream-proxy"), "--upstream-proxy"),
        egress_socket: set(matches.remove_one::<PathBuf>("egress-socket"), "--egress-socket"),
        egress_port: set(matches.remove_one::<u16>("egress-port"), "--egress-port"),
        allow_sockets: rules(matches, "allow-socket", "--allow-socket"),
        deny_sockets: rules(matches, "deny-socket", "--deny-socket"),
        // Filled by the caller, who reads the files among the words.
        env: Vec::new(),
        env_defaults: set(env_defaults, "--no-default-env"),
        keep_fds: each(list::<i32>(matches, "keep-fd"), "--keep-fd"),
        keep_jobserver: set(keep_jobserver, "--keep-jobserver"),
        new_session: set(matches.remove_one::<NewSession>("new-session"), "--new-session"),
        timeout: span(matches, "timeout", "--timeout"),
        kill_after: span(matches, "kill-after", "--kill-after"),
        memory: number(matches, "memory", "--memory"),
        cpu_time: number(matches, "cpu-time", "--cpu-time"),
        max_procs: number(matches, "max-procs", "--max-procs"),
        max_file_size: number(matches, "max-file-size", "--max-file-size"),
        max_open_files: number(matches, "max-open-files", "--max-open-files"),
        address_space: number(matches, "address-space", "--address-space"),
        core: number(matches, "core", "--core"),
        max_output: number(matches, "max-output", "--max-output"),
        output_overflow: set(matches.remove_one::<OutputOverflow>("output-overflow"), "--output-overflow"),
        ..Layer::default()
    }
}

/// Refuses all of the host's network beside a part of it. Typed over what a file says, either narrows that or is told of.
fn one_network(layer: &Layer) -> Result<()> {
    let host = layer.network.as_ref().is_some_and(|set| set.value == Network::Host);
    match layer.way_out() {
        Some(Origin::Flag(other)) if host => {
            let text = format!("options '--net host' and '{other}' exclude each other");
            Err(message::refuse(&text).hint(format!("without '--net', '{other}' leaves no other way out")))
        }
        _ => Ok(()),
    }
}

/// A single setting that was typed.
fn set<T>(value: Option<T>, flag: &'static str) -> Option<Set<T>> {
    value.map(|value| Set::new(value, Origin::Flag(flag)))
}

fn number(matches: &mut ArgMatches, id: &str, flag: &'static str) -> Option<Set<u64>> {
    set(matches.remove_one(id), flag)
}

fn span(matches: &mut ArgMatches, id: &str, flag: &'static str) -> Option<Set<Duration>> {
    set(matches.remove_one::<Span>(id).map(Span::duration), flag)
}

fn list<T: Clone + Send + Sync + 'static>(matches: &mut ArgMatches, id: &str) -> impl Iterator<Item = T> {
    matches.remove_many::<T>(id).into_iter().flatten()
}

fn rules(matches: &mut ArgMatches, id: &str, flag: &'static str) -> Vec<PathRule> {
    list::<PathBuf>(matches, id).map(|path| PathRule { path, origin: Origin::Flag(flag) }).collect()
}

fn each<T: Ord>(items: impl Iterator<Item = T>, flag: &'static str) -> BTreeMap<T, Origin> {
    items.map(|item| (item, Origin::Flag(flag))).collect()
}

/// The values of an option, each with its position on the command line.
fn placed<T: Clone + Send + Sync + 'static>(matches: &mut ArgMatches, id: &str) -> Vec<(usize, T)> {
    let places: Vec<usize> = matches.indices_of(id).into_iter().flatten().collect();
    places.into_iter().zip(list(matches, id)).collect()
}

/// Brings values of several options back into the order in which they were typed.
fn in_order<T>(mut placed: Vec<(usize, T)>) -> Vec<T> {
    placed.sort_by_key(|&(place, _)| place);
    placed.into_iter().map(|(_, value)| value).collect()
}

fn grants(matches: &mut ArgMatches) -> Vec<Grant> {
    let missing_write = if matches.get_flag("create-missing") { Missing::Create } else { Missing::Refuse };
    let mut grants = Vec::new();
    for (id, flag, access, missing) in [
        ("read", "--read", Access::Read, Missing::Refuse),
        ("read-try", "--read-try", Access::Read, Missing::Skip),
        ("write", "--write", Access::Write, missing_write),
        ("write-try", "--write-try", Access::Write, Missing::Skip),
    ] {
        let origin = Origin::Flag(flag);
        let paths = placed::<PathBuf>(matches, id).into_iter();
        grants.extend(
            paths.map(|(at, path)| (at, Grant { path, access, missing, file_only: false, origin: origin.clone() })),
        );
    }
    in_order(grants)
}

fn env_words(matches: &mut ArgMatches) -> Vec<EnvWord> {
    let rules = placed::<EnvRule>(matches, "env").into_iter();
    let files = placed::<PathBuf>(matches, "env-file").into_iter();
    let mut words: Vec<(usize, EnvWord)> = rules.map(|(at, rule)| (at, EnvWord::Rule(rule))).collect();
    words.extend(files.map(|(at, path)| (at, EnvWord::File(path))));
    in_order(words)
}

#[cfg(test)]
mod tests;
