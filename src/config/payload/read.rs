//! From JSON to a [`Record`]: first the set of keys, then each value by its type, then what must agree.
//!
//! Never fills in a value that was not written, and never repeats one in an error.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::fmt;
use std::num::NonZero;
use std::path::{Component, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::text::unescape_bytes;
use super::{BACKENDS, Generation, NONE, Overflow, Record, SEATBELT};
use crate::policy::env::{is_name, os_string};

/// Every key with the generation that brought it, sorted.
const KEYS: [(&str, Generation); 19] = [
    ("active", Generation::Fourteen),
    ("allow_network", Generation::Fourteen),
    ("backend_type", Generation::Fourteen),
    ("copy_on_write_namespace", Generation::Nineteen),
    ("copy_on_write_roots", Generation::Nineteen),
    ("credential_source_paths", Generation::Nineteen),
    ("cwd_allow_hidden", Generation::Fourteen),
    ("cwd_hidden_scan_max_entries", Generation::Fourteen),
    ("cwd_hidden_scan_overflow", Generation::Fourteen),
    ("cwd_hidden_scan_recursive", Generation::Sixteen),
    ("deny_unix_socket_paths", Generation::Fourteen),
    ("egress_relay_port", Generation::Fourteen),
    ("egress_socket_path", Generation::Fourteen),
    ("env_passthrough", Generation::Fourteen),
    ("mask_paths", Generation::Sixteen),
    ("read_roots", Generation::Fourteen),
    ("spawn_env_allowlist", Generation::Fourteen),
    ("write_files", Generation::Fourteen),
    ("write_roots", Generation::Fourteen),
];

/// The longest unknown key that an error repeats; a longer one is more likely a value in the wrong place.
const KEY_SHOWN_MAX: usize = 40;

/// `sun_path` has 108 bytes on Linux and 104 on macOS, and its last one ends the name.
const SOCKET_PATH_MAX: usize = 107;
const SOCKET_PATH_MAX_MACOS: usize = 103;

/// Reads one record and nothing after it.
pub(super) fn record(json: &[u8]) -> Result<Record> {
    let fields = Fields::read(json)?;
    // In sorted order: the first wrong value of a canonical record is the one that the error names.
    let record = Record {
        generation: fields.generation,
        active: fields.get("active")?.boolean()?,
        allow_network: fields.get("allow_network")?.boolean()?,
        backend_type: fields.get("backend_type")?.one_of(BACKENDS, |word| word)?.to_owned(),
        copy_on_write_namespace: fields.later("copy_on_write_namespace", |value| value.optional(Value::integers))?,
        copy_on_write_roots: fields.later("copy_on_write_roots", Value::paths)?,
        credential_source_paths: fields.later("credential_source_paths", |value| value.optional(Value::paths))?,
        cwd_allow_hidden: fields.get("cwd_allow_hidden")?.optional(Value::hidden_names)?,
        cwd_hidden_scan_max_entries: fields.get("cwd_hidden_scan_max_entries")?.integer("a positive integer")?,
        cwd_hidden_scan_overflow: fields.get("cwd_hidden_scan_overflow")?.one_of(Overflow::ALL, Overflow::word)?,
        cwd_hidden_scan_recursive: fields
            .later("cwd_hidden_scan_recursive", |value| value.boolean().map(Some))?
            .unwrap_or(true),
        deny_unix_socket_paths: fields.get("deny_unix_socket_paths")?.optional(Value::paths)?,
        egress_relay_port: fields.get("egress_relay_port")?.optional(Value::port)?,
        egress_socket_path: fields.get("egress_socket_path")?.optional(Value::path)?,
        env_passthrough: fields.get("env_passthrough")?.optional(Value::variable_names)?,
        mask_paths: fields.later("mask_paths", |value| value.optional(Value::paths))?,
        read_roots: fields.get("read_roots")?.optional(Value::paths)?,
        spawn_env_allowlist: fields.get("spawn_env_allowlist")?.optional(Value::variable_names)?,
        write_files: fields.get("write_files")?.paths()?,
        write_roots: fields.get("write_roots")?.paths()?,
    };
    check_agreement(&record)?;
    Ok(record)
}

/// What no single key can tell.
fn check_agreement(record: &Record) -> Result<()> {
    match (record.active, record.backend_type == NONE) {
        (true, true) => bail!("policy key 'active' is true, but 'backend_type' is 'none', which cannot be active"),
        (false, false) => bail!(
            "policy key 'active' is false, but 'backend_type' names a sandbox: a record without a sandbox says 'none'"
        ),
        (true, false) | (false, true) => {}
    }
    match (&record.egress_relay_port, &record.egress_socket_path) {
        (Some(_), None) => bail!("policy key 'egress_socket_path' is null, but 'egress_relay_port' needs it"),
        (None, Some(_)) => bail!("policy key 'egress_relay_port' is null, but 'egress_socket_path' needs it"),
        (Some(_), Some(_)) | (None, None) => {}
    }
    let most = if record.backend_type == SEATBELT { SOCKET_PATH_MAX_MACOS } else { SOCKET_PATH_MAX };
    if record.egress_socket_path.as_ref().is_some_and(|path| path.as_os_str().len() > most) {
        bail!("policy key 'egress_socket_path': the address of a socket has at most {most} bytes");
    }
    Ok(())
}

/// The values by key: exactly the keys of `generation`.
struct Fields<'a> {
    generation: Generation,
    values: BTreeMap<&'static str, &'a RawValue>,
}

impl<'a> Fields<'a> {
    fn read(json: &'a [u8]) -> Result<Self> {
        if json.starts_with(b"\xef\xbb\xbf") {
            bail!("policy payload begins with a byte order mark");
        }
        let json = std::str::from_utf8(json)
            .map_err(|error| anyhow!("policy payload is not UTF-8 at byte {}", error.valid_up_to() + 1))?;
        // First the syntax alone, which takes no recursion, so that depth costs nothing.
        let whole: &RawValue = serde_json::from_str(json).context("policy payload is not JSON")?;
        if !whole.get().starts_with('{') {
            bail!("Invalid launcher sandbox payload: expected an object, found {}", kind(whole));
        }
        let Pairs(pairs) = serde_json::from_str(json).context("policy payload is not JSON")?;
        let mut values = BTreeMap::new();
        for (key, value) in pairs {
            let Some((key, _)) = KEYS.into_iter().find(|(known, _)| *known == key) else {
                bail!("{}", unknown(&key));
            };
            if values.insert(key, value).is_some() {
                bail!("policy key '{key}' appears twice");
            }
        }
        let generation = generation(&values)?;
        Ok(Self { generation, values })
    }

    fn get(&self, key: &'static str) -> Result<Value<'a>> {
        let raw = self.values.get(key).ok_or_else(|| anyhow!("policy key '{key}' is missing"))?;
        Ok(Value { raw, key, item: None })
    }

    /// The value of a key that only later generations have; in the others it says nothing.
    fn later<T: Default>(&self, key: &'static str, read: impl FnOnce(Value<'a>) -> Result<T>) -> Result<T> {
        match KEYS.iter().find(|(known, _)| *known == key) {
            Some((_, since)) if *since > self.generation => Ok(T::default()),
            _ => read(self.get(key)?),
        }
    }
}

/// The generation whose keys these are; otherwise the keys that are missing from the smallest one that could be meant.
fn generation(values: &BTreeMap<&str, &RawValue>) -> Result<Generation> {
    let present = KEYS.iter().filter(|(key, _)| values.contains_key(key));
    let meant = present.max_by_key(|(_, since)| since);
    let generation = meant.map_or(Generation::Fourteen, |&(_, since)| since);
    let needed = KEYS.iter().filter(|(_, since)| *since <= generation);
    let missing: Vec<_> = needed.filter(|(key, _)| !values.contains_key(key)).collect();
    let because = match meant {
        // Only where it is not plain that every record has the key.
        Some((key, _)) if missing.iter().any(|(_, since)| *since > Generation::Fourteen) => {
            format!(", which a record with '{key}' has")
        }
        _ => String::new(),
    };
    let names: Vec<String> = missing.iter().map(|(key, _)| format!("'{key}'")).collect();
    match names.as_slice() {
        [] => Ok(generation),
        [key] => bail!("policy key {key} is missing{because}"),
        keys if meant.is_none() => bail!(
            "policy keys {} are missing: a record has every key; only in a policy file (--policy FILE) can each be left out",
            keys.join(", ")
        ),
        keys => bail!("policy keys {} are missing{because}", keys.join(", ")),
    }
}

fn unknown(key: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if key.is_empty() || key.len() > KEY_SHOWN_MAX || !key.bytes().all(plain) {
        return "policy payload has an unknown key that is no plain word".to_owned();
    }
    format!("policy key '{key}' is unknown")
}

/// The members of an object as they stand, repeated keys included.
struct Pairs<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// What a value is, as a person says it; the syntax has been checked, so the first byte tells.
fn kind(raw: &RawValue) -> &'static str {
    match raw.get().as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// A value and where it stands.
#[derive(Clone, Copy)]
struct Value<'a> {
    raw: &'a RawValue,
    key: &'static str,
    /// Counted from 1, in a list.
    item: Option<usize>,
}

impl<'a> Value<'a> {
    fn fault(self, what: impl fmt::Display) -> anyhow::Error {
        let key = self.key;
        match self.item {
            Some(item) => anyhow!("policy key '{key}', item {item}: {what}"),
            None => anyhow!("policy key '{key}': {what}"),
        }
    }

    fn expected(self, what: impl fmt::Display) -> anyhow::Error {
        self.fault(format_args!("expected {what}, found {}", kind(self.raw)))
    }

    fn optional<T>(self, read: impl FnOnce(Self) -> Result<T>) -> Result<Option<T>> {
        if self.raw.get() == "null" { Ok(None) } else { read(self).map(Some) }
    }

    fn boolean(self) -> Result<bool> {
        match self.raw.get() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(self.expected("true or false")),
        }
    }

    /// Also refuses `-0`, `1.0` and `1e3`, which other readers take for a fraction.
    fn integer<T: DeserializeOwned>(self, what: &str) -> Result<T> {
        serde_json::from_str(self.raw.get()).map_err(|_| match kind(self.raw) {
            "a number" => self.fault(format_args!("expected {what}, found another number")),
            _ => self.expected(what),
        })
    }

    fn integers(self) -> Result<[i64; 3]> {
        let what = "a list of three integers or null";
        let items = self.list(what)?;
        let [a, b, c] = items.as_slice() else {
            return Err(self.fault(format_args!("expected {what}, found a list of {}", items.len())));
        };
        let integer = |value: &Self| value.integer("an integer of 64 bits");
        Ok([integer(a)?, integer(b)?, integer(c)?])
    }

    fn port(self) -> Result<u16> {
        self.integer("an integer from 1 to 65535 or null").map(NonZero::<u16>::get)
    }

    /// The text of a string as bytes without NUL.
    fn text(self, what: &str) -> Result<Vec<u8>> {
        if kind(self.raw) != "a string" {
            return Err(self.expected(what));
        }
        // A C string takes bytes that are no Unicode; all that it can refuse in a valid JSON string is a NUL.
        let text: CString = serde_json::from_str(self.raw.get()).map_err(|_| self.fault("the text holds a NUL"))?;
        unescape_bytes(text.as_bytes())
            .ok_or_else(|| self.fault("the text holds half a surrogate pair that is no escaped byte"))
    }

    fn one_of<T: Copy, const N: usize>(self, choices: [T; N], word: fn(T) -> &'static str) -> Result<T> {
        let what = || format!("one of {}", choices.map(word).join(", "));
        let text = self.text(&what())?;
        let found = choices.into_iter().find(|&choice| word(choice).as_bytes() == text);
        found.ok_or_else(|| self.fault(format_args!("expected {}, found another string", what())))
    }

    fn list(self, what: &str) -> Result<Vec<Self>> {
        if kind(self.raw) != "a list" {
            return Err(self.expected(what));
        }
        let items: Vec<&'a RawValue> = serde_json::from_str(self.raw.get()).map_err(|_| self.expected(what))?;
        Ok(items.into_iter().zip(1..).map(|(raw, item)| Self { raw, key: self.key, item: Some(item) }).collect())
    }

    fn paths(self) -> Result<Vec<PathBuf>> {
        self.list("a list of paths")?.into_iter().map(Self::path).collect()
    }

    /// An absolute path; what only repeats itself in it is dropped, `..` is refused.
    fn path(self) -> Result<PathBuf> {
        let path = PathBuf::from(self.os_text("an absolute path")?);
        if path.as_os_str().is_empty() {
            return Err(self.fault("expected an absolute path, found an empty string"));
        }
        if !path.is_absolute() {
            return Err(self.fault("the path is not absolute (a payload knows no '~' and no working directory)"));
        }
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(self.fault("the path has a '..' in it"));
        }
        Ok(path.components().collect())
    }

    fn hidden_names(self) -> Result<Vec<OsString>> {
        self.list("a list of names")?.into_iter().map(Self::hidden_name).collect()
    }

    fn hidden_name(self) -> Result<OsString> {
        let name = self.os_text("a name")?;
        let separated = name.as_encoded_bytes().iter().any(|&byte| std::path::is_separator(char::from(byte)));
        if separated || name.is_empty() || name == "." || name == ".." {
            return Err(self.fault("the name is not a single path component"));
        }
        Ok(name)
    }

    fn variable_names(self) -> Result<Vec<String>> {
        self.list("a list of variable names")?.into_iter().map(Self::variable_name).collect()
    }

    fn variable_name(self) -> Result<String> {
        let name = self.text("the name of a variable")?;
        let name = String::from_utf8(name).ok().filter(|name| is_name(name.as_bytes()));
        name.ok_or_else(|| {
            self.fault("a variable name consists of ASCII letters, digits and '_' and does not begin with a digit")
        })
    }

    fn os_text(self, what: &str) -> Result<OsString> {
        let bytes = self.text(what)?;
        os_string(&bytes).ok_or_else(|| self.fault("the text holds bytes that are not Unicode"))
    }
}
