//! From the text of one value to its type, with a reason that quotes the text when it has none.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::builder::{PossibleValue, TypedValueParser};
use clap_complete::Shell;

use super::message::{bad_value, quote};
use super::{Format, LogFormat, PolicyForm};
use crate::backend::Backend;
use crate::egress::credentials::Spec;
use crate::egress::rules::Rule;
use crate::egress::upstream;
use crate::policy::env::EnvRule;
use crate::policy::hidden::{self, Overflow};
use crate::policy::limits::{Floor, Limits, OutputOverflow};
use crate::policy::units::{Size, Span};
use crate::policy::{ImageName, Network, NewSession, Protection};

/// Words with their meaning, in the order of lists shown to people.
type Choices<T> = &'static [(&'static str, T)];

/// `--net`.
const NETWORKS: Choices<Network> = &[("off", Network::Off), ("host", Network::Host)];

/// `--new-session`.
const SESSIONS: Choices<NewSession> =
    &[("auto", NewSession::Auto), ("always", NewSession::Always), ("never", NewSession::Never)];

/// `--output-overflow`.
const OVERFLOWS: Choices<OutputOverflow> =
    &[(OutputOverflow::Truncate.word(), OutputOverflow::Truncate), (OutputOverflow::Kill.word(), OutputOverflow::Kill)];

/// `--hidden-scan-overflow`.
const SCAN_OVERFLOWS: Choices<Overflow> = &[
    (Overflow::Error.word(), Overflow::Error),
    (Overflow::Warn.word(), Overflow::Warn),
    (Overflow::Unlimited.word(), Overflow::Unlimited),
];

/// `--dry-run`.
const FORMATS: Choices<Format> = &[("text", Format::Text), ("json", Format::Json)];

/// `--print-policy`.
const FORMS: Choices<PolicyForm> =
    &[("json", PolicyForm::Json), ("toml", PolicyForm::Toml), ("payload", PolicyForm::Payload)];

/// `--log-format`.
const LOG_FORMATS: Choices<LogFormat> = &[("text", LogFormat::Text), ("json", LogFormat::Json)];

/// `--completions`.
const SHELLS: Choices<Shell> = &[
    ("bash", Shell::Bash),
    ("zsh", Shell::Zsh),
    ("fish", Shell::Fish),
    ("elvish", Shell::Elvish),
    ("powershell", Shell::PowerShell),
];

/// Stands for the platform's backends in `--backend`.
const AUTO: &str = "auto";

/// How the value of one option is read: a clap parser whose messages are ours.
pub(super) struct Value<T> {
    pub(super) read: fn(&OsStr) -> Result<T, String>,
    words: fn() -> Vec<&'static str>,
}

// Not derived: that would ask for `T: Clone`.
impl<T> Clone for Value<T> {
    fn clone(&self) -> Self {
        Self { read: self.read, words: self.words }
    }
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Value<T> {
    type Value = T;

    fn parse_ref(&self, _: &clap::Command, arg: Option<&clap::Arg>, value: &OsStr) -> Result<T, clap::Error> {
        let option = arg.and_then(clap::Arg::get_long).unwrap_or_default();
        (self.read)(value).map_err(|reason| bad_value(option, &reason))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let words = (self.words)();
        if words.is_empty() {
            return None;
        }
        Some(Box::new(words.into_iter().map(PossibleValue::new)))
    }
}

/// A value without a list of words to choose from.
const fn free<T>(read: fn(&OsStr) -> Result<T, String>) -> Value<T> {
    Value { read, words: Vec::new }
}

pub(super) const BACKENDS: Value<Vec<Backend>> = Value { read: backends, words: backend_words };
pub(super) const GAPS: Value<Vec<Protection>> = Value { read: gaps, words: gap_words };
pub(super) const NETWORK: Value<Network> = Value { read: |text| choose(NETWORKS, text), words: || words(NETWORKS) };
pub(super) const HOST_RULE: Value<Rule> = free(host_rule);
pub(super) const CREDENTIAL: Value<Spec> = free(credential);
pub(super) const UPSTREAM: Value<upstream::Spec> = free(upstream_proxy);
pub(super) const PORT: Value<u16> = free(port);
pub(super) const NEW_SESSION: Value<NewSession> =
    Value { read: |text| choose(SESSIONS, text), words: || words(SESSIONS) };
pub(super) const OUTPUT_OVERFLOW: Value<OutputOverflow> =
    Value { read: |text| choose(OVERFLOWS, text), words: || words(OVERFLOWS) };
pub(super) const HIDDEN_NAME: Value<OsString> = free(hidden_name);
pub(super) const SCAN_MAX: Value<u64> = free(|text| count_from(text, Floor::new(1, "looks at nothing")));
pub(super) const SCAN_OVERFLOW: Value<Overflow> =
    Value { read: |text| choose(SCAN_OVERFLOWS, text), words: || words(SCAN_OVERFLOWS) };
pub(super) const FORMAT: Value<Format> = Value { read: |text| choose(FORMATS, text), words: || words(FORMATS) };
pub(super) const LOG_FORMAT: Value<LogFormat> =
    Value { read: |text| choose(LOG_FORMATS, text), words: || words(LOG_FORMATS) };
pub(super) const SHELL: Value<Shell> = Value { read: |text| choose(SHELLS, text), words: || words(SHELLS) };
pub(super) const POLICY_FORM: Value<PolicyForm> = Value { read: |text| choose(FORMS, text), words: || words(FORMS) };
pub(super) const PATH: Value<PathBuf> = free(path);
pub(super) const NAME: Value<String> = free(name);
pub(super) const IMAGE: Value<ImageName> = free(image);
pub(super) const TEXT: Value<OsString> = free(|text| Ok(text.to_owned()));
pub(super) const TMP_SIZE: Value<u64> = free(|text| size_from(text, Size::PAGE));
pub(super) const SIZE: Value<u64> = free(|text| size(text).map(Size::bytes));
pub(super) const MEMORY: Value<u64> = free(|text| size_from(text, Limits::MEMORY));
pub(super) const ADDRESS_SPACE: Value<u64> = free(|text| size_from(text, Limits::ADDRESS_SPACE));
pub(super) const OPEN_FILES: Value<u64> = free(|text| count_from(text, Limits::OPEN_FILES));
pub(super) const PROCS: Value<u64> = free(|text| count_from(text, Limits::PROCS));
pub(super) const CPU_TIME: Value<u64> = free(cpu_time);
pub(super) const DURATION: Value<Span> = free(duration);
pub(super) const ENV: Value<EnvRule> = free(env_rule);
pub(super) const KEEP_FD: Value<i32> = free(|text| descriptor(text, "always crosses, only numbers from 3 are named"));
pub(super) const OWN_FD: Value<i32> =
    free(|text| descriptor(text, "is a standard stream, only numbers from 3 are taken"));

fn choose<T: Copy>(choices: Choices<T>, text: &OsStr) -> Result<T, String> {
    let found = choices.iter().find(|(word, _)| *word == text);
    found.map(|&(_, value)| value).ok_or_else(|| not_one_of(text, &words(choices)))
}

fn words<T>(choices: Choices<T>) -> Vec<&'static str> {
    choices.iter().map(|&(word, _)| word).collect()
}

fn not_one_of(text: &OsStr, words: &[&str]) -> String {
    format!("{} is not one of {}", quote(text), words.join(", "))
}

/// Backends in order, each once; `auto` becomes the platform's.
fn backends(text: &OsStr) -> Result<Vec<Backend>, String> {
    let mut list = Vec::new();
    for word in entries(text, &backend_words())? {
        let found = match word {
            AUTO => Backend::AUTO.to_vec(),
            _ => match word.parse() {
                Ok(backend) => vec![backend],
                Err(_) => return Err(not_one_of(OsStr::new(word), &backend_words())),
            },
        };
        for backend in found {
            if !list.contains(&backend) {
                list.push(backend);
            }
        }
    }
    Ok(list)
}

fn image(text: &OsStr) -> Result<ImageName, String> {
    let parsed = text.to_str().ok_or("is not Unicode text").and_then(ImageName::parse);
    parsed.map_err(|reason| format!("{} {reason}", quote(text)))
}

fn backend_words() -> Vec<&'static str> {
    [AUTO].into_iter().chain(Backend::ALL.map(Backend::word)).collect()
}

fn gaps(text: &OsStr) -> Result<Vec<Protection>, String> {
    let read = |word: &str| word.parse().map_err(|_| not_one_of(OsStr::new(word), &gap_words()));
    entries(text, &gap_words())?.map(read).collect()
}

fn gap_words() -> Vec<&'static str> {
    Protection::ALL.map(Protection::word).to_vec()
}

/// The entries of a comma list.
fn entries<'a>(text: &'a OsStr, words: &[&str]) -> Result<impl Iterator<Item = &'a str> + use<'a>, String> {
    let list = text.to_str().ok_or_else(|| not_one_of(text, words))?;
    if list.split(',').any(str::is_empty) {
        return Err(format!("{} has an empty entry", quote(text)));
    }
    Ok(list.split(','))
}

fn path(text: &OsStr) -> Result<PathBuf, String> {
    if text.is_empty() { Err("'' is not a path".to_owned()) } else { Ok(text.into()) }
}

fn hidden_name(text: &OsStr) -> Result<OsString, String> {
    // A message of one line, whatever was typed.
    hidden::check_name(text).map_err(|_| {
        format!(
            "{} is not a name that begins with a dot; '{}' stands for all but well-known secrets, '{}' for all of them",
            quote(text),
            hidden::ALL_BUT_SECRETS,
            hidden::ALL_NAMES
        )
    })?;
    Ok(text.to_owned())
}

/// Text; which names there are is known where profiles are read.
fn name(text: &OsStr) -> Result<String, String> {
    text.to_str().map(str::to_owned).ok_or_else(|| format!("{} is not a name", quote(text)))
}

fn size(text: &OsStr) -> Result<Size, String> {
    number(text, "size")
}

fn size_from(text: &OsStr, floor: Floor) -> Result<u64, String> {
    floor.check(size(text)?.bytes()).map_err(|reason| format!("{} {reason}", quote(text)))
}

fn count_from(text: &OsStr, floor: Floor) -> Result<u64, String> {
    let Some(digits) = digits(text) else { return Err(format!("{} is not a whole number", quote(text))) };
    let Ok(count) = digits.parse() else { return Err(format!("{} is a number of more than 64 bits", quote(text))) };
    floor.check(count).map_err(|reason| format!("{} {reason}", quote(text)))
}

/// The text, if it is one or more digits: the standard library would take `+3` for a number.
fn digits(text: &OsStr) -> Option<&str> {
    text.to_str().filter(|text| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit()))
}

fn cpu_time(text: &OsStr) -> Result<u64, String> {
    Limits::cpu_seconds(duration(text)?.duration()).map_err(|reason| format!("{} {reason}", quote(text)))
}

fn duration(text: &OsStr) -> Result<Span, String> {
    number(text, "duration")
}

fn number<T: std::str::FromStr>(text: &OsStr, what: &str) -> Result<T, String>
where
    T::Err: ToString,
{
    let text = text.to_str().ok_or_else(|| format!("{} is not a {what}", quote(text)))?;
    text.parse().map_err(|error: T::Err| error.to_string())
}

fn host_rule(text: &OsStr) -> Result<Rule, String> {
    let text = text.to_str().ok_or_else(|| format!("{} has a host that is not ASCII", quote(text)))?;
    Rule::parse(text).map_err(|bad| bad.with_meant())
}

fn credential(text: &OsStr) -> Result<Spec, String> {
    // Never quoted: it may be the secret itself, typed in the wrong place.
    let text = text.to_str().ok_or("the value is not UTF-8")?;
    Spec::parse(text).map_err(|reason| format!("the value {reason}"))
}

fn upstream_proxy(text: &OsStr) -> Result<upstream::Spec, String> {
    // Never quoted: it may hold a password.
    let text = text.to_str().ok_or("the value is not UTF-8")?;
    upstream::Spec::parse(text).map_err(|reason| format!("the value {reason}"))
}

fn port(text: &OsStr) -> Result<u16, String> {
    let number = digits(text).and_then(|digits| digits.parse().ok()).filter(|number| *number != 0);
    number.ok_or_else(|| format!("{} is not the number of a port (1 to 65535)", quote(text)))
}

fn env_rule(text: &OsStr) -> Result<EnvRule, String> {
    EnvRule::parse(text).map_err(|error| format!("{error:#}"))
}

/// The number of a descriptor, and the reason why no standard stream will do.
fn descriptor(text: &OsStr, standard: &str) -> Result<i32, String> {
    match digits(text).and_then(|digits| digits.parse().ok()) {
        None => Err(format!("{} is not the number of a descriptor", quote(text))),
        Some(0..=2) => Err(format!("{} {standard}", quote(text))),
        Some(fd) => Ok(fd),
    }
}
