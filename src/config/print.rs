//! Writes a policy as a document: JSON, TOML with the origin of each setting, and the canonical bytes that are hashed.
//!
//! Pure. Paths stay as they were written, unless whoever hands the policy over has made them absolute. What is written reads
//! back as the same policy, values of variables included: the text is as secret as they are.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use sha2::{Digest as _, Sha256};

use super::document::{BASE64, Document, SESSIONS, grant_key};
use crate::backend::Backend;
use crate::log::{escape, steers};
use crate::policy::env::{EnvName, EnvRule};
use crate::policy::fs::DEFAULT_TMP_SIZE;
use crate::policy::hidden::{self, Others, Shown};
use crate::policy::{EnvEntry, Origin, PathRule, Policy, Protection};

/// The policy as an indented JSON object, with a newline at its end.
#[must_use]
pub fn json(policy: &Policy) -> String {
    let mut out = String::from("{");
    for (index, (key, value)) in entries(&Document::of(policy)).iter().enumerate() {
        out.push_str(if index == 0 { "\n  " } else { ",\n  " });
        member(&mut out, key, ": ");
        value.json(&mut out, Style::Indented(1));
    }
    out.push_str("\n}\n");
    out
}

/// The policy as TOML; behind each setting that is not a default stands who decided it.
#[must_use]
pub fn toml(policy: &Policy) -> String {
    let mut out = String::new();
    let document = Document::of(policy);
    for (key, value) in entries(&document) {
        let origins = item_origins(policy, &document, key);
        match value {
            Value::Table(pairs) => {
                for (index, (name, value)) in pairs.iter().enumerate() {
                    // Not a section: whatever somebody writes below it would belong to it.
                    line(&mut out, &format!("{key}.{name}"), &quoted(value), origins.get(index).copied());
                }
            }
            value if value.items().len() == origins.len() && !origins.is_empty() => {
                out.extend([key, " = [\n"]);
                for (item, origin) in value.items().iter().zip(origins) {
                    out.extend(["    ", item, ","]);
                    comment(&mut out, Some(origin));
                    out.push('\n');
                }
                out.push_str("]\n");
            }
            value => {
                let mut text = String::new();
                value.json(&mut text, Style::Line);
                line(&mut out, key, &text, policy.origins.get(key));
            }
        }
    }
    out
}

/// The one spelling of what a policy means: compact ASCII JSON with sorted keys, lists sorted where order says nothing.
///
/// Paths lose what only repeats itself in them. Rules about variables that a later one overrides are left out.
#[must_use]
pub fn canonical(policy: &Policy) -> Vec<u8> {
    let mut entries = entries(&normal(policy));
    entries.sort_by_key(|(key, _)| *key);
    let mut out = String::from("{");
    for (index, (key, value)) in entries.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        member(&mut out, key, ":");
        value.json(&mut out, Style::Compact);
    }
    out.push('}');
    ascii(&out).into_bytes()
}

/// The SHA-256 of [`canonical`] in hexadecimal.
#[must_use]
pub fn hash(policy: &Policy) -> String {
    let mut hex = String::new();
    for byte in Sha256::digest(canonical(policy)) {
        hex.extend([byte >> 4, byte & 0xF].map(|digit| char::from_digit(digit.into(), 16).unwrap_or_default()));
    }
    hex
}

/// A value of a document as text is made from it.
enum Value {
    Boolean(bool),
    Integer(u64),
    Text(String),
    List(Vec<String>),
    Integers(BTreeSet<i32>),
    Table(Vec<(String, String)>),
}

/// What the document says, in the order of the table of keys.
#[allow(clippy::too_many_lines, reason = "a line for each key")]
fn entries(document: &Document) -> Vec<(&'static str, Value)> {
    let Document {
        extends,
        backend_type,
        image,
        allow_gaps,
        read_roots,
        read_roots_optional,
        write_roots,
        write_roots_create,
        write_roots_optional,
        write_files,
        create_missing,
        mask_paths,
        protect_paths,
        allow_unix_socket_paths,
        deny_unix_socket_paths,
        cwd_allow_hidden,
        cwd_hidden_scan_max_entries,
        cwd_hidden_scan_overflow,
        cwd_hidden_scan_recursive,
        workdir,
        tmp_size,
        allow_network,
        allow_hosts,
        credentials,
        upstream_proxy,
        egress_socket_path,
        egress_relay_port,
        env_default,
        env,
        env_set,
        spawn_env_allowlist,
        keep_fds,
        keep_jobserver,
        new_session,
        timeout,
        kill_after,
        memory,
        cpu_time,
        max_procs,
        max_file_size,
        max_open_files,
        address_space,
        core,
        max_output,
        output_overflow,
    } = document;
    let mut out = Entries(Vec::new());
    out.list("extends", extends.iter().map(String::clone));
    out.one(
        "backend_type",
        backend_type.as_deref().map(|list| list.iter().map(|b| b.word()).collect::<Vec<_>>().join(",")),
    );
    out.one("image", image.as_ref().map(ToString::to_string));
    out.list("allow_gaps", allow_gaps.iter().map(|protection| protection.word().to_owned()));
    out.paths("read_roots", read_roots);
    out.paths("read_roots_optional", read_roots_optional);
    out.paths("write_roots", write_roots);
    out.paths("write_roots_create", write_roots_create);
    out.paths("write_roots_optional", write_roots_optional);
    out.paths("write_files", write_files);
    out.flag("create_missing", *create_missing);
    out.paths("mask_paths", mask_paths);
    out.paths("protect_paths", protect_paths);
    out.paths("allow_unix_socket_paths", allow_unix_socket_paths);
    out.paths("deny_unix_socket_paths", deny_unix_socket_paths);
    out.list_or_none("cwd_allow_hidden", cwd_allow_hidden.as_deref(), |name| text(name));
    out.integer("cwd_hidden_scan_max_entries", *cwd_hidden_scan_max_entries);
    out.one("cwd_hidden_scan_overflow", cwd_hidden_scan_overflow.map(|overflow| overflow.word().to_owned()));
    out.flag("cwd_hidden_scan_recursive", *cwd_hidden_scan_recursive);
    out.one("workdir", workdir.as_deref().map(|path| text(path.as_os_str())));
    out.size("tmp_size", *tmp_size);
    out.flag("allow_network", *allow_network);
    out.list("allow_hosts", allow_hosts.iter().map(ToString::to_string));
    out.list("credentials", credentials.iter().map(ToString::to_string));
    out.one("upstream_proxy", upstream_proxy.as_ref().map(ToString::to_string));
    out.one("egress_socket_path", egress_socket_path.as_deref().map(|path| text(path.as_os_str())));
    out.integer("egress_relay_port", egress_relay_port.map(u64::from));
    out.flag("env_default", *env_default);
    out.list("env", env.iter().map(word));
    if !env_set.is_empty() {
        let pairs = env_set.iter().map(|(name, value)| (name.as_str().to_owned(), text(value)));
        out.0.push(("env_set", Value::Table(pairs.collect())));
    }
    out.list_or_none("spawn_env_allowlist", spawn_env_allowlist.as_deref(), |name: &EnvName| name.as_str().to_owned());
    if !keep_fds.is_empty() {
        out.0.push(("keep_fds", Value::Integers(keep_fds.clone())));
    }
    out.flag("keep_jobserver", *keep_jobserver);
    out.one(
        "new_session",
        new_session.and_then(|session| {
            SESSIONS.into_iter().find(|(_, other)| *other == session).map(|(word, _)| word.to_owned())
        }),
    );
    out.one("timeout", timeout.map(duration));
    out.one("kill_after", kill_after.map(duration));
    out.size("memory", *memory);
    out.one("cpu_time", cpu_time.map(|seconds| duration(Duration::from_secs(seconds))));
    out.integer("max_procs", *max_procs);
    out.size("max_file_size", *max_file_size);
    out.integer("max_open_files", *max_open_files);
    out.size("address_space", *address_space);
    out.size("core", *core);
    out.size("max_output", *max_output);
    out.one("output_overflow", output_overflow.map(|overflow| overflow.word().to_owned()));
    out.0
}

struct Entries(Vec<(&'static str, Value)>);

impl Entries {
    fn one(&mut self, key: &'static str, value: Option<String>) {
        self.0.extend(value.map(|value| (key, Value::Text(value))));
    }

    fn flag(&mut self, key: &'static str, value: Option<bool>) {
        self.0.extend(value.map(|value| (key, Value::Boolean(value))));
    }

    fn integer(&mut self, key: &'static str, value: Option<u64>) {
        self.0.extend(value.map(|value| (key, Value::Integer(value))));
    }

    fn size(&mut self, key: &'static str, bytes: Option<u64>) {
        self.0.extend(bytes.map(|bytes| (key, with_unit(bytes).map_or_else(Value::Integer, Value::Text))));
    }

    fn list(&mut self, key: &'static str, items: impl Iterator<Item = String>) {
        let items: Vec<_> = items.collect();
        if !items.is_empty() {
            self.0.push((key, Value::List(items)));
        }
    }

    fn list_or_none<T>(&mut self, key: &'static str, items: Option<&[T]>, text: impl Fn(&T) -> String) {
        self.0.extend(items.map(|items| (key, Value::List(items.iter().map(text).collect()))));
    }

    fn paths(&mut self, key: &'static str, paths: &[PathBuf]) {
        self.list(key, paths.iter().map(|path| text(path.as_os_str())));
    }
}

impl Value {
    /// The items of a list as they are written.
    fn items(&self) -> Vec<String> {
        match self {
            Self::List(items) => items.iter().map(|item| quoted(item)).collect(),
            Self::Integers(items) => items.iter().map(ToString::to_string).collect(),
            Self::Boolean(_) | Self::Integer(_) | Self::Text(_) | Self::Table(_) => Vec::new(),
        }
    }

    /// As JSON, on one line or indented. What is no table is TOML as well.
    fn json(&self, out: &mut String, style: Style) {
        match self {
            Self::Boolean(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Integer(number) => out.push_str(&number.to_string()),
            Self::Text(text) => out.push_str(&quoted(text)),
            Self::List(_) | Self::Integers(_) => bracket(out, ['[', ']'], style, self.items().into_iter()),
            Self::Table(pairs) => {
                let colon = if style == Style::Compact { ":" } else { ": " };
                let pairs = pairs.iter().map(|(name, value)| [&quoted(name), colon, &quoted(value)].concat());
                bracket(out, ['{', '}'], style, pairs);
            }
        }
    }
}

/// How the items of a list stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Without blanks.
    Compact,
    /// On one line.
    Line,
    /// Each on a line of its own, below one that is indented this often.
    Indented(usize),
}

/// Items between brackets.
fn bracket(out: &mut String, [open, close]: [char; 2], style: Style, items: impl Iterator<Item = String>) {
    let items: Vec<_> = items.collect();
    let indent = |depth: usize| format!("\n{}", "  ".repeat(depth));
    out.push(open);
    match style {
        Style::Compact => out.push_str(&items.join(",")),
        Style::Line => out.push_str(&items.join(", ")),
        Style::Indented(_) if items.is_empty() => {}
        Style::Indented(depth) => {
            let inner = indent(depth + 1);
            out.extend([&inner, &items.join(&format!(",{inner}")), &indent(depth)].map(String::as_str));
        }
    }
    out.push(close);
}

fn member(out: &mut String, key: &str, colon: &str) {
    out.extend([&quoted(key), colon]);
}

/// A line of TOML.
fn line(out: &mut String, key: &str, value: &str, origin: Option<&Origin>) {
    out.extend([key, " = ", value]);
    comment(out, origin);
    out.push('\n');
}

fn comment(out: &mut String, origin: Option<&Origin>) {
    match origin {
        None | Some(Origin::Default) => {}
        Some(origin) => out.extend(["  # from ", &escape(&origin.to_string())]),
    }
}

/// Who decided each item of a list or table of the policy's document; empty where that is not known one by one.
fn item_origins<'a>(policy: &'a Policy, document: &Document, key: &str) -> Vec<&'a Origin> {
    let rules = |rules: &'a [PathRule]| rules.iter().map(|rule| &rule.origin).collect();
    let entries = |entries: &'a [EnvEntry]| entries.iter().map(|entry| &entry.origin).collect();
    // The document has the rules in their order, the last ones in the table.
    let (words, values) = policy.env.rules.split_at(document.env.len().min(policy.env.rules.len()));
    match key {
        "allow_gaps" => policy.accepted_gaps.values().collect(),
        "keep_fds" => policy.keep_fds.values().collect(),
        "mask_paths" => rules(&policy.files.masks),
        "protect_paths" => rules(&policy.files.protects),
        "allow_hosts" => policy.egress.hosts.iter().map(|rule| &rule.origin).collect(),
        "credentials" => policy.egress.credentials.iter().map(|credential| &credential.origin).collect(),
        "allow_unix_socket_paths" => rules(&policy.allow_sockets),
        "deny_unix_socket_paths" => rules(&policy.deny_sockets),
        "env" => entries(words),
        "env_set" => entries(values),
        _ => policy.files.grants.iter().filter(|grant| grant_key(grant) == key).map(|grant| &grant.origin).collect(),
    }
}

/// Text as JSON and TOML both quote it; no character that steers a terminal stands for itself.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            char if steers(char) => unicode_escape(&mut out, char),
            char => out.push(char),
        }
    }
    out.push('"');
    out
}

/// As `\u` with four digits each: one for the characters of [`steers`], a surrogate pair beyond U+FFFF.
fn unicode_escape(out: &mut String, char: char) {
    for unit in char.encode_utf16(&mut [0; 2]) {
        // Writing to a string cannot fail.
        write!(out, "\\u{unit:04x}").unwrap_or_default();
    }
}

/// JSON in ASCII: outside of strings it has nothing else.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for char in json.chars() {
        if char.is_ascii() { out.push(char) } else { unicode_escape(&mut out, char) }
    }
    out
}

/// Text as it stands, or `base64:` and its bytes.
fn text(text: &OsStr) -> String {
    match text.to_str() {
        Some(text) if !text.starts_with(BASE64) => text.to_owned(),
        _ => format!("{BASE64}{}", BASE64_STANDARD.encode(text.as_encoded_bytes())),
    }
}

/// The word of a rule, as `--env` takes it.
fn word(rule: &EnvRule) -> String {
    match rule {
        EnvRule::Pass(_) | EnvRule::PassPrefix(_) => rule.subject().into_owned(),
        EnvRule::Set(name, value) => {
            let mut word = OsString::from(name.as_str());
            word.push("=");
            word.push(value);
            text(&word)
        }
    }
}

/// A size with the largest unit of which it is a whole number; what has none is a number of bytes.
fn with_unit(bytes: u64) -> Result<String, u64> {
    let units = [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')];
    let fits = units.into_iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    fits.map(|(shift, unit)| format!("{}{unit}", bytes >> shift)).ok_or(bytes)
}

fn duration(duration: Duration) -> String {
    match (duration.as_secs(), duration.subsec_nanos()) {
        (seconds, 0) => format!("{seconds}s"),
        (0, nanos) if nanos % 1_000_000 == 0 => format!("{}ms", nanos / 1_000_000),
        (seconds, nanos) => format!("{}s", format!("{seconds}.{nanos:09}").trim_end_matches('0')),
    }
}

/// The document of the policy with one spelling for each meaning.
fn normal(policy: &Policy) -> Document {
    let mut document = Document::of(policy);
    for paths in [
        &mut document.read_roots,
        &mut document.read_roots_optional,
        &mut document.write_roots,
        &mut document.write_roots_create,
        &mut document.write_roots_optional,
        &mut document.write_files,
        &mut document.mask_paths,
        &mut document.protect_paths,
        &mut document.allow_unix_socket_paths,
        &mut document.deny_unix_socket_paths,
    ] {
        *paths = paths.iter().map(|path| plain(path)).collect::<BTreeSet<_>>().into_iter().collect();
    }
    document.workdir = document.workdir.as_deref().map(plain);
    document.egress_socket_path = document.egress_socket_path.as_deref().map(plain);
    (document.env, document.env_set) = normal_rules(document.env, document.env_set);
    // Under `none` it counts whether somebody asked for what is the default; elsewhere the default holds either way.
    let may_refuse = policy.backends.list.contains(&Backend::None);
    let asks_for_files = !policy.files.grants.is_empty() || !policy.files.protects.is_empty();
    document.tmp_size = document.tmp_size.filter(|size| *size != DEFAULT_TMP_SIZE || (may_refuse && !asks_for_files));
    if document.max_output.is_none() {
        document.output_overflow = None;
    }
    let asks_for_masks = policy.asked.contains(&Protection::Masks) && policy.files.masks.is_empty();
    match &policy.hidden.shown {
        Shown::All => {
            document.cwd_hidden_scan_max_entries = None;
            document.cwd_hidden_scan_overflow = None;
            document.cwd_hidden_scan_recursive = None;
        }
        Shown::Names(names) if !names.counts_alone() => {
            let all_but_secrets = names.others == Others::AllButSecrets;
            let names = document.cwd_allow_hidden.get_or_insert_default();
            names.retain(|name| !hidden::is_default(name));
            if names.len() <= 1 && !all_but_secrets && !(may_refuse && asks_for_masks) {
                document.cwd_allow_hidden = None;
            }
        }
        Shown::Names(_) => {}
    }
    if document.cwd_hidden_scan_overflow == Some(hidden::Overflow::Unlimited) {
        document.cwd_hidden_scan_max_entries = None;
    }
    document
}

/// The path without repeated and final slashes and without `.`.
fn plain(path: &Path) -> PathBuf {
    path.components().collect()
}

/// The rules without those that a later one overrides.
///
/// Of the rest only a value before a wildcard that matches its name has to stay where it is: there the caller's own value
/// wins. Other values go to the table, and when none is left the words are sorted.
fn normal_rules(words: Vec<EnvRule>, values: Vec<(EnvName, OsString)>) -> (Vec<EnvRule>, Vec<(EnvName, OsString)>) {
    let mut seen = BTreeSet::new();
    let mut rules: Vec<_> =
        words.into_iter().chain(values.into_iter().map(|(name, value)| EnvRule::Set(name, value))).collect();
    rules.reverse();
    rules.retain(|rule| seen.insert(rule.subject().into_owned()));
    let (mut words, mut table) = (Vec::new(), Vec::new());
    let mut wildcards: Vec<String> = Vec::new();
    // From the last to the first: what has gone by comes later.
    for rule in rules {
        match rule {
            EnvRule::Set(name, value) if !wildcards.iter().any(|prefix| name.as_str().starts_with(prefix)) => {
                table.push((name, value));
            }
            rule => {
                if let EnvRule::PassPrefix(prefix) = &rule {
                    wildcards.push(prefix.clone());
                }
                words.push(rule);
            }
        }
    }
    words.reverse();
    if words.iter().any(|rule| matches!(rule, EnvRule::Set(..))) {
        // A name that passes does so wherever it stands.
        words.sort_by_key(
            |rule| if matches!(rule, EnvRule::Pass(_)) { (false, word(rule)) } else { (true, String::new()) },
        );
    } else {
        words.sort_by_key(word);
    }
    table.sort();
    (words, table)
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
