//! Gathering the policy of a call: profiles under the policy file or payload under the options.
//!
//! The only part of `config` that reads files, and it reads only what was named: nothing that lies about is looked for.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use super::payload::{self, MAX_TEXT, Record};
use super::profiles::Profiles;
use super::{Layer, file, merge, record};
use crate::cli::{EnvWord, PolicySource};
use crate::error::{Error, Kind, Result, ResultExt};
use crate::host::Host;
use crate::plan;
use crate::policy::env::parse_env_file;
use crate::policy::{EnvEntry, Network, Origin, Policy};
use crate::sys;

/// The most bytes of a file of variables: more than an environment can hold on any kernel.
pub const MAX_ENV_FILE: usize = 8 << 20;

/// What was typed that makes up the policy.
#[derive(Debug)]
pub struct Sources {
    /// Profiles, lowest first.
    pub profiles: Vec<String>,
    /// The policy file or payload over them.
    pub policy: Option<PolicySource>,
    /// Words about the environment, files among them.
    pub env: Vec<EnvWord>,
    /// The other options over all.
    pub options: Layer,
}

/// The policy, and what a careful caller should hear of.
pub fn gather(sources: Sources, host: &Host) -> Result<(Policy, Vec<String>)> {
    let Sources { profiles, policy, env, mut options } = sources;
    let mut warnings = Vec::new();
    let directory = profile_directory(host);
    let mut beneath = Profiles::new(directory.as_deref(), &host.environment);
    profiles.iter().try_for_each(|name| beneath.add(name)).kind(Kind::Policy)?;
    let mut read_from = None;
    let policy = match policy {
        None => None,
        Some(PolicySource::Payload(text)) => {
            Some(from_payload(text.as_encoded_bytes(), "--policy-payload", &mut warnings)?)
        }
        Some(PolicySource::Descriptor(number)) => {
            let text = read_descriptor(number)?;
            Some(from_payload(&text, "--policy-fd", &mut warnings)?)
        }
        Some(PolicySource::StandardInput) => {
            let closed = host.inherited.closed[0].then(sys::streams::not_open);
            let bytes =
                closed.map_or_else(|| bounded(io::stdin().lock(), MAX_TEXT), Err).map_err(|e| unreadable("-", &e))?;
            Some(from_file(&bytes, "-", "standard input", &mut beneath, &mut warnings)?)
        }
        Some(PolicySource::File(path)) => {
            let name = path.display().to_string();
            let full = plan::expand(&path, host, host.cwd.as_deref().ok())?;
            let bytes = File::open(&full).and_then(|file| bounded(file, MAX_TEXT)).map_err(|error| {
                let reason = plan::links::reason(&full, &error);
                Error::text(Kind::Policy, format!("cannot read the policy '{name}': {reason}"))
            })?;
            read_from = Some(full);
            Some(from_file(&bytes, &name, &name, &mut beneath, &mut warnings)?)
        }
    };
    options.env = environment_rules(env, host)?;
    let beneath = beneath.documents().into_iter().map(|(origin, document)| document.layer(&origin));
    let typed = options.network.as_ref().is_some_and(|set| set.value == Network::Host);
    let policy = Policy { read_from, ..merge(beneath.chain(policy).chain([options])) };
    // What is typed is wider than what a file says, and narrower is what counts: whoever typed it should not look for the reason.
    if let Some(origin) = policy.origins.get("allow_network").filter(|_| typed && policy.network == Network::Off) {
        warnings.push(format!("--net host is without effect: requests leave by the rules of {origin} alone"));
    }
    Ok((policy, warnings))
}

/// The user's own profiles: `$XDG_CONFIG_HOME/sandbox-run/profiles`, or the same below `~/.config`.
#[must_use]
pub fn profile_directory(host: &Host) -> Option<PathBuf> {
    let config = host.variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let config = config.or_else(|| host.home.as_ref().map(|home| home.join(".config")))?;
    Some(config.join("sandbox-run/profiles"))
}

/// The layer of a policy file; the profiles that it extends are added to those `beneath`.
fn from_file(
    bytes: &[u8],
    file: &str,
    name: &str,
    beneath: &mut Profiles<'_>,
    warnings: &mut Vec<String>,
) -> Result<Layer> {
    let format = file::by_ending(file);
    if let Some(read) = wire_record(bytes, format) {
        return from_record(read, &format!("--policy {name}"), warnings);
    }
    let (document, places) = file::read_with_places(bytes, name, format).kind(Kind::Policy)?;
    beneath.extended(name, &document, &places).kind(Kind::Policy)?;
    Ok(document.layer(&Origin::File(name.into())))
}

fn from_payload(text: &[u8], option: &str, warnings: &mut Vec<String>) -> Result<Layer> {
    from_record(payload::decode(text), option, warnings)
}

fn from_record(read: anyhow::Result<Record>, option: &str, warnings: &mut Vec<String>) -> Result<Layer> {
    let read = read.and_then(record::layer);
    let (layer, found) =
        read.map_err(|error| Error::text(Kind::Policy, format!("cannot read the policy ({option}): {error:#}")))?;
    warnings.extend(found);
    Ok(layer)
}

/// What a file says when it holds a wire record and no policy document: its text in base64url, or its JSON.
///
/// Never both: no document is one word of that alphabet, and none has the key `active`, which every record has. One word in
/// a file whose name says that it is a document is a mistake in it.
fn wire_record(bytes: &[u8], format: Option<file::Format>) -> Option<anyhow::Result<Record>> {
    #[derive(serde::Deserialize)]
    struct Telltale {
        active: Option<serde::de::IgnoredAny>,
    }
    let text = bytes.trim_ascii();
    let unpadded = text.strip_suffix(b"==").or(text.strip_suffix(b"=")).unwrap_or(text);
    let letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    if format.is_none() && !unpadded.is_empty() && unpadded.iter().all(letter) {
        return Some(payload::decode(text));
    }
    let record = serde_json::from_slice::<Telltale>(text).is_ok_and(|found| found.active.is_some());
    record.then(|| payload::decode_json(text))
}

/// Reads a descriptor to its end and closes it, so that the target does not see it.
fn read_descriptor(number: i32) -> Result<Vec<u8>> {
    let name = format!("descriptor {number}");
    let file = sys::fd::adopt(number).map(File::from).ok_or_else(sys::streams::not_open);
    file.and_then(|file| bounded(file, MAX_TEXT)).map_err(|error| unreadable(&name, &error))
}

/// All of a file that is no larger than `most`, and a little of one that is: whoever uses it refuses the length.
fn bounded(file: impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(name: &str, error: &io::Error) -> Error {
    Error::text(Kind::Policy, format!("cannot read the policy '{name}': {}", sys::process::describe(error)))
}

fn environment_rules(words: Vec<EnvWord>, host: &Host) -> Result<Vec<EnvEntry>> {
    let mut rules = Vec::new();
    for word in words {
        match word {
            EnvWord::Rule(rule) => rules.push(EnvEntry { rule, origin: Origin::Flag("--env") }),
            EnvWord::File(path) => {
                let name = path.display().to_string();
                let file = plan::expand(&path, host, host.cwd.as_deref().ok())?;
                let refuse =
                    |reason: &str| Error::text(Kind::Policy, format!("cannot read '{name}' (--env-file): {reason}"));
                let bytes = File::open(&file)
                    .and_then(|file| bounded(file, MAX_ENV_FILE))
                    .map_err(|error| refuse(&plan::links::reason(&file, &error)))?;
                if bytes.len() > MAX_ENV_FILE {
                    return Err(refuse(&format!("it is longer than {MAX_ENV_FILE} bytes")));
                }
                let read = parse_env_file(&bytes, &name).kind(Kind::Policy)?;
                rules.extend(EnvEntry::all(read, &Origin::Flag("--env-file")));
            }
        }
    }
    Ok(rules)
}
