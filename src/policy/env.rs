//! Which variables may reach the target, as written.
//!
//! Words and files become rules here, checked once. Nothing here knows the caller's environment: `plan::env` applies the
//! rules. Error texts never hold a value: they end up in logs.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;

use anyhow::{Result, anyhow, bail};

use super::Origin;
use crate::log;

/// How every internal variable of ours begins; such a name is refused in every form.
pub const INTERNAL_PREFIX: &str = "SANDBOX_RUN_";

/// One word about the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvRule {
    /// `NAME`: pass the caller's value, if there is one.
    Pass(EnvName),
    /// `PREFIX_*`: pass every variable whose name begins so, but for secret-looking ones. Holds the prefix with its `_`.
    PassPrefix(String),
    /// `NAME=VALUE`: set it.
    Set(EnvName, OsString),
}

/// A rule about the environment and who asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvEntry {
    /// What was asked for.
    pub rule: EnvRule,
    /// Who asked.
    pub origin: Origin,
}

impl EnvEntry {
    /// The rules, all of them from `origin`.
    pub fn all(rules: impl IntoIterator<Item = EnvRule>, origin: &Origin) -> impl Iterator<Item = Self> {
        rules.into_iter().map(|rule| Self { rule, origin: origin.clone() })
    }
}

/// Variables that hold the private temporary directory.
pub const TEMPORARY: [&str; 4] = ["TEMP", "TEMPDIR", "TMP", "TMPDIR"];

/// Rules for a list that says exactly which variables pass: these, and what the launcher sets beside them.
#[must_use]
pub fn exactly(names: impl IntoIterator<Item = EnvName>) -> Vec<EnvRule> {
    let beside = TEMPORARY.map(|name| EnvName(name.to_owned()));
    let names: BTreeSet<EnvName> = names.into_iter().chain(beside).collect();
    names.into_iter().map(EnvRule::Pass).collect()
}

/// What the policy says about the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvPolicy {
    /// Whether the default allowlist applies beneath the rules.
    pub defaults: bool,
    /// In the order given; the last rule about a name wins.
    pub rules: Vec<EnvEntry>,
}

impl EnvPolicy {
    /// The rules that count, in their order: of several about the same word only the last.
    #[must_use]
    pub fn deciding(&self) -> Vec<&EnvEntry> {
        let mut words = BTreeSet::new();
        let mut last: Vec<_> = self.rules.iter().rev().filter(|entry| words.insert(entry.rule.subject())).collect();
        last.reverse();
        last
    }
}

/// A variable name that can be passed or set: `[A-Za-z_][A-Za-z0-9_]*`, and none of our own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnvName(String);

impl EnvName {
    /// Reads a name; the error quotes it and says what is wrong.
    pub fn parse(name: impl AsRef<OsStr>) -> Result<Self> {
        let name = name.as_ref();
        checked_name(name.as_encoded_bytes())
            .map_err(|fault| anyhow!("'{}' cannot be a variable: {fault}", Quoted(name)))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<OsStr> for EnvName {
    fn as_ref(&self) -> &OsStr {
        OsStr::new(&self.0)
    }
}

impl fmt::Display for EnvName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl EnvRule {
    /// Reads `NAME`, `NAME=VALUE` or `PREFIX_*`; the error quotes the word up to the `=`.
    ///
    /// The first `=` ends the name. The value is any bytes but NUL, and may be empty.
    pub fn parse(word: &OsStr) -> Result<Self> {
        parse_word(word.as_encoded_bytes())
            .map_err(|fault| anyhow!("cannot use '{}' for the environment: {fault}", Quoted(word)))
    }

    /// What the rule is about, never a value: `NAME` or `PREFIX_*`.
    #[must_use]
    pub fn subject(&self) -> Cow<'_, str> {
        match self {
            Self::Pass(name) | Self::Set(name, _) => Cow::Borrowed(name.as_str()),
            Self::PassPrefix(prefix) => Cow::Owned(format!("{prefix}*")),
        }
    }
}

/// Reads a file of `NAME=VALUE` lines in docker's convention; `name` is the file for messages (`name:line`).
///
/// A value is the rest of its line, taken literally: no quotes, no expansion, no continuation. A bare `NAME` passes the
/// caller's value and `PREFIX_*` those of a prefix. Blank lines and lines that begin with `#` count for nothing.
pub fn parse_env_file(bytes: &[u8], name: &str) -> Result<Vec<EnvRule>> {
    let mut rules = Vec::new();
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = line.trim_ascii_start();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        // What stands before the `=` is not quoted either: in a broken multi-line value it is part of a secret.
        match parse_word(line) {
            Ok(rule) => rules.push(rule),
            Err(fault) => bail!("cannot use {name}:{}: {fault}", index + 1),
        }
    }
    Ok(rules)
}

/// Whether `name` has the shape of a variable name that shells and programs agree on.
pub(crate) fn is_name(name: &[u8]) -> bool {
    name.first().is_some_and(|first| first.is_ascii_alphabetic() || *first == b'_')
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// The bytes as an OS string; `None` where the platform has no OS string of these bytes.
#[cfg_attr(unix, expect(clippy::unnecessary_wraps, reason = "any bytes do on Unix, not elsewhere"))]
pub(crate) fn os_string(bytes: &[u8]) -> Option<OsString> {
    #[cfg(unix)]
    {
        Some(std::os::unix::ffi::OsStringExt::from_vec(bytes.to_vec()))
    }
    #[cfg(not(unix))]
    {
        std::str::from_utf8(bytes).ok().map(OsString::from)
    }
}

/// What is wrong with a word; never holds any of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Empty,
    NoName,
    Shape,
    Internal,
    Wildcard,
    InternalWildcard,
    Nul,
    NotText,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "it is empty",
            Self::NoName => "no name stands before the '='",
            Self::Shape => "a name consists of ASCII letters, digits and '_' and does not begin with a digit",
            Self::Internal => "names that begin with SANDBOX_RUN_ are internal",
            Self::Wildcard => {
                "a wildcard is a single '*' at the end, directly after a prefix that ends in '_', as in 'MY_*'"
            }
            Self::InternalWildcard => "the wildcard includes the internal names SANDBOX_RUN_*",
            Self::Nul => "the value holds a NUL byte",
            Self::NotText => "the value is not Unicode text",
        })
    }
}

fn parse_word(word: &[u8]) -> std::result::Result<EnvRule, Fault> {
    if let Some(equals) = word.iter().position(|&byte| byte == b'=') {
        let (name, value) = (&word[..equals], &word[equals + 1..]);
        if name.is_empty() {
            return Err(Fault::NoName);
        }
        let name = checked_name(name)?;
        if value.contains(&0) {
            return Err(Fault::Nul);
        }
        return Ok(EnvRule::Set(name, os_string(value).ok_or(Fault::NotText)?));
    }
    if word.contains(&b'*') {
        return checked_prefix(word).map(EnvRule::PassPrefix);
    }
    checked_name(word).map(EnvRule::Pass)
}

/// A name as this system compares it.
fn as_compared(name: &str) -> Cow<'_, str> {
    if cfg!(windows) { name.to_ascii_uppercase().into() } else { name.into() }
}

fn checked_name(name: &[u8]) -> std::result::Result<EnvName, Fault> {
    if name.is_empty() {
        return Err(Fault::Empty);
    }
    let text = std::str::from_utf8(name).ok().filter(|_| is_name(name)).ok_or(Fault::Shape)?;
    if as_compared(text).starts_with(INTERNAL_PREFIX) {
        return Err(Fault::Internal);
    }
    Ok(EnvName(text.to_owned()))
}

fn checked_prefix(word: &[u8]) -> std::result::Result<String, Fault> {
    let prefix = word.strip_suffix(b"*").ok_or(Fault::Wildcard)?;
    if prefix.contains(&b'*') || prefix.len() < 2 || !prefix.ends_with(b"_") {
        return Err(Fault::Wildcard);
    }
    let text = std::str::from_utf8(prefix).ok().filter(|_| is_name(prefix)).ok_or(Fault::Shape)?;
    let compared = as_compared(text);
    if compared.starts_with(INTERNAL_PREFIX) || INTERNAL_PREFIX.starts_with(&*compared) {
        return Err(Fault::InternalWildcard);
    }
    Ok(text.to_owned())
}

/// A word for a message: up to its `=`, since nobody can tell from a value whether it is a secret.
struct Quoted<'a>(&'a OsStr);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string_lossy();
        let name = without_value(&text);
        f.write_str(&log::excerpt(&name, log::WORD_SHOWN_MAX))
    }
}

/// `text` up to its first `=`, with a sign for what follows there.
pub(crate) fn without_value(text: &str) -> Cow<'_, str> {
    match text.split_once('=') {
        Some((name, value)) if !value.is_empty() => Cow::Owned(format!("{name}=…")),
        _ => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(word: &str) -> EnvRule {
        EnvRule::parse(OsStr::new(word)).unwrap()
    }

    fn fault(word: impl AsRef<OsStr>) -> String {
        format!("{:#}", EnvRule::parse(word.as_ref()).unwrap_err())
    }

    fn set(name: &str, value: &str) -> EnvRule {
        EnvRule::Set(EnvName(name.into()), value.into())
    }

    #[test]
    fn the_three_forms() {
        assert_eq!(rule("NAME"), EnvRule::Pass(EnvName("NAME".into())));
        assert_eq!(rule("_1a"), EnvRule::Pass(EnvName("_1a".into())));
        assert_eq!(rule("MY_*"), EnvRule::PassPrefix("MY_".into()));
        assert_eq!(rule("__*"), EnvRule::PassPrefix("__".into()));
        assert_eq!(rule("A_B=x"), set("A_B", "x"));
    }

    #[test]
    fn of_rules_about_one_word_the_last_decides() {
        let entry = |(word, origin)| EnvEntry { rule: rule(word), origin: Origin::Flag(origin) };
        let words =
            [("A=1", "1"), ("A_*", "2"), ("A_B=1", "3"), ("A", "4"), ("A_*", "5"), ("A_B=2", "6"), ("A=3", "7")];
        let policy = EnvPolicy { defaults: true, rules: words.map(entry).into() };
        let deciding: Vec<_> =
            policy.deciding().iter().map(|entry| (entry.rule.subject(), entry.origin.to_string())).collect();
        assert_eq!(deciding, [("A_*", "5"), ("A_B", "6"), ("A", "7")].map(|(word, by)| (word.into(), by.to_owned())));
    }

    #[test]
    fn a_value_is_everything_after_the_first_equals_sign() {
        assert_eq!(rule("A=b=c"), set("A", "b=c"));
        assert_eq!(rule("E="), set("E", ""));
        assert_eq!(rule("NL=a\nb"), set("NL", "a\nb"));
        assert_eq!(rule("STAR=*"), set("STAR", "*"));
        assert_eq!(rule("LD_PRELOAD=x"), set("LD_PRELOAD", "x"));
    }

    #[cfg(unix)]
    #[test]
    fn a_value_is_bytes_and_a_name_is_not() {
        use std::os::unix::ffi::OsStrExt;
        let word = OsStr::from_bytes(b"X=\xff\xfe");
        let EnvRule::Set(name, value) = EnvRule::parse(word).unwrap() else { panic!("not set") };
        assert_eq!((name.as_str(), value.as_bytes()), ("X", b"\xff\xfe".as_slice()));
        for word in [b"\xff".as_slice(), b"A\xff=x", b"A\xff_*", "Ä=x".as_bytes()] {
            assert!(EnvRule::parse(OsStr::from_bytes(word)).is_err(), "{word:?}");
        }
    }

    #[test]
    fn a_bad_word_is_quoted() {
        for word in ["1A", "A B", "A-B=", "", "=", "A*", "*_X", "A*B", "*", "_*", "A_**", "1_*", "A_*B", "A*=", "A ="] {
            let text = fault(word);
            assert!(text.contains(&format!("'{word}'")), "{text}");
            assert!(!text.ends_with('.') && text.starts_with("cannot "), "{text}");
        }
        assert!(EnvRule::parse(OsStr::new("A=b\0c")).is_err());
    }

    #[test]
    fn a_value_is_not_quoted() {
        for name in ["MY-TOKEN", "1A", "API KEY", "A_*", "SANDBOX_RUN_X", "A\n", ""] {
            for value in ["s3c", "s3c=", "s3c\0", "=s3c", "s3c0123456789abcdef0123456789abcdef"] {
                let text = fault(format!("{name}={value}"));
                assert!(text.contains(&format!("'{name}=…'")) && !text.contains("s3c"), "{text}");
            }
        }
        let text = fault("A=s3c\0");
        assert!(text.contains("'A=…'") && !text.contains("s3c"), "{text}");
        let text = format!("{:#}", EnvName::parse("A=s3c").unwrap_err());
        assert!(text.contains("'A=…'") && !text.contains("s3c"), "{text}");
    }

    #[test]
    fn internal_names_are_errors_in_every_form() {
        for word in [
            "SANDBOX_RUN_STAGE",
            "SANDBOX_RUN_LOG",
            "SANDBOX_RUN_STAGE=1",
            "SANDBOX_RUN_*",
            "SANDBOX_RUN_S_*",
            "SANDBOX_*",
        ] {
            assert!(fault(word).contains("internal"), "{word}");
        }
        assert!(EnvName::parse("SANDBOX_RUN_X").is_err());
        assert_eq!(EnvName::parse("Sandbox_Run_X").is_err(), cfg!(windows), "another name, but on Windows");
        assert_eq!(rule("SANDBOX_RUN"), EnvRule::Pass(EnvName("SANDBOX_RUN".into())));
        assert_eq!(rule("SANDBOXES_*"), EnvRule::PassPrefix("SANDBOXES_".into()));
    }

    #[test]
    fn an_env_file_is_literal() {
        let text = b"\xef\xbb\xbf# comment\n\n  \t\n  # too\nA=1\r\nB=\"q\" $HOME # kept \nNAME\nMY_*\n  C= x\nD=";
        let rules = parse_env_file(text, "f").unwrap();
        assert_eq!(
            rules,
            [set("A", "1"), set("B", "\"q\" $HOME # kept "), rule("NAME"), rule("MY_*"), set("C", " x"), set("D", "")]
        );
        assert_eq!(parse_env_file(b"", "f").unwrap(), []);
    }

    #[test]
    fn an_env_file_error_names_the_line_and_no_content() {
        for (text, line) in [
            ("A=1\nhunter2-key/abc=\n", 2),
            ("hunter2 x\n", 1),
            ("\n\nA=hunter2\0\n", 3),
            ("export A=hunter2\n", 1),
            ("SANDBOX_RUN_X=hunter2\n", 1),
            ("=hunter2", 1),
            ("hunter2*", 1),
        ] {
            let text = parse_env_file(text.as_bytes(), "dir/env").unwrap_err().to_string();
            assert!(text.contains(&format!("dir/env:{line}: ")), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
}
