//! How the single values of a document are read: text to type, with what was expected when it has none.
//!
//! Never repeats the value of a variable in an error.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::BASE64;
use crate::backend::Backend;
use crate::egress::credentials::{Source, Spec};
use crate::egress::rules::Rule;
use crate::egress::upstream;
use crate::log;
use crate::policy::env::{EnvName, EnvRule, os_string};
use crate::policy::hidden::{self, Overflow};
use crate::policy::limits::{Floor, Limits, OutputOverflow};
use crate::policy::units::{BadUnit, Size, Span};
use crate::policy::{ImageName, NewSession, Protection};

/// The words of `new_session`.
pub(in crate::config) const SESSIONS: [(&str, NewSession); 3] =
    [("auto", NewSession::Auto), ("always", NewSession::Always), ("never", NewSession::Never)];

/// Stands for the backends of the platform.
pub(in crate::config) const AUTO: &str = "auto";

/// A value that is written as text.
pub(super) trait Word: Sized {
    /// What is expected, in the singular.
    const ONE: &'static str;
    /// The same for a list.
    const MANY: &'static str = "a list";

    /// From text without NUL to the value; the error is the reason, to stand behind the key.
    fn read(text: &[u8]) -> Result<Self, String>;
}

impl Word for String {
    const ONE: &'static str = "a name";
    const MANY: &'static str = "a list of names";

    fn read(text: &[u8]) -> Result<Self, String> {
        unicode(text).map(str::to_owned)
    }
}

impl Word for ImageName {
    const ONE: &'static str = "the name of an image";

    fn read(text: &[u8]) -> Result<Self, String> {
        let text = unicode(text)?;
        Self::parse(text).map_err(|reason| format!("{} {reason}", quoted(text)))
    }
}

impl Word for PathBuf {
    const ONE: &'static str = "a path";
    const MANY: &'static str = "a list of paths";

    fn read(text: &[u8]) -> Result<Self, String> {
        let path = bytes(text)?;
        if path.is_empty() { Err("expected a path, found an empty string".into()) } else { Ok(path.into()) }
    }
}

/// The name of a hidden file.
impl Word for OsString {
    const ONE: &'static str = "a name that begins with a dot";
    const MANY: &'static str = "a list of names that begin with a dot";

    fn read(text: &[u8]) -> Result<Self, String> {
        let name = bytes(text)?;
        if name == hidden::DEFAULT_NAMES {
            return Ok(name);
        }
        hidden::check_name(&name)?;
        Ok(name)
    }
}

impl Word for Rule {
    const ONE: &'static str = "a rule about hosts";
    const MANY: &'static str = "a list of rules about hosts";

    fn read(text: &[u8]) -> Result<Self, String> {
        Self::parse(unicode(text)?).map_err(|bad| bad.with_meant())
    }
}

impl Word for Spec {
    const ONE: &'static str = "words about a credential";
    const MANY: &'static str = "a list of credentials";

    fn read(text: &[u8]) -> Result<Self, String> {
        let text = unicode(text)?;
        let spec = Self::parse(text).map_err(|reason| format!("{} {reason}", quoted(text)))?;
        // It is started outside: a file that came with a repository must not decide what that is.
        if matches!(spec.source, Source::Command(_)) {
            return Err(format!(
                "{} has a 'command', which only --credential on the command line may have",
                quoted(text)
            ));
        }
        Ok(spec)
    }
}

impl Word for upstream::Spec {
    const ONE: &'static str = "the URL of a proxy";

    fn read(text: &[u8]) -> Result<Self, String> {
        // Never quoted: it may hold a password.
        Self::parse(unicode(text)?).map_err(|reason| format!("the value {reason}"))
    }
}

impl Word for EnvRule {
    const ONE: &'static str = "a word about a variable";
    const MANY: &'static str = "a list of variables";

    fn read(text: &[u8]) -> Result<Self, String> {
        Self::parse(&bytes(text)?).map_err(|error| error.to_string())
    }
}

impl Word for EnvName {
    const ONE: &'static str = "the name of a variable";
    const MANY: &'static str = "a list of variable names";

    fn read(text: &[u8]) -> Result<Self, String> {
        Self::parse(unicode(text)?).map_err(|error| error.to_string())
    }
}

impl Word for Protection {
    const ONE: &'static str = "the name of a protection";
    const MANY: &'static str = "a list of protections";

    fn read(text: &[u8]) -> Result<Self, String> {
        choose(text, &Self::ALL.map(|protection| (protection.word(), protection)))
    }
}

impl Word for NewSession {
    const ONE: &'static str = "one of auto, always, never";

    fn read(text: &[u8]) -> Result<Self, String> {
        choose(text, &SESSIONS)
    }
}

impl Word for Overflow {
    const ONE: &'static str = "one of error, warn, unlimited";

    fn read(text: &[u8]) -> Result<Self, String> {
        choose(text, &Self::ALL.map(|overflow| (overflow.word(), overflow)))
    }
}

impl Word for OutputOverflow {
    const ONE: &'static str = "one of truncate, kill";

    fn read(text: &[u8]) -> Result<Self, String> {
        choose(text, &Self::ALL.map(|overflow| (overflow.word(), overflow)))
    }
}

/// Backends in order, each once; `auto` becomes the platform's.
impl Word for Vec<Backend> {
    const ONE: &'static str = "a list of backends in one string, separated by commas";

    fn read(text: &[u8]) -> Result<Self, String> {
        let mut list = Self::new();
        for word in unicode(text)?.split(',') {
            let found = match (word, word.parse()) {
                (AUTO, _) => Backend::AUTO.to_vec(),
                (_, Ok(backend)) => vec![backend],
                (_, Err(_)) => {
                    let known: Vec<_> = [AUTO].into_iter().chain(Backend::ALL.map(Backend::word)).collect();
                    return Err(format!("{} is not one of {}", quoted(word), known.join(", ")));
                }
            };
            for backend in found {
                if !list.contains(&backend) {
                    list.push(backend);
                }
            }
        }
        Ok(list)
    }
}

/// The value of a variable.
struct Value(OsString);

impl Word for Value {
    const ONE: &'static str = "the value of a variable, a string";

    fn read(text: &[u8]) -> Result<Self, String> {
        bytes(text).map(Self)
    }
}

/// A length of time; without a unit nobody can tell seconds from milliseconds.
impl Word for Duration {
    const ONE: &'static str = "a duration with its unit, such as \"2s\" or \"250ms\"";

    fn read(text: &[u8]) -> Result<Self, String> {
        let text = unicode(text)?;
        let span: Span = text.parse().map_err(|error: BadUnit| error.with_unit().to_string())?;
        if text.ends_with(|c: char| c.is_ascii_digit()) {
            return Err(format!("{} has no unit (ms, s, m, h)", quoted(text)));
        }
        Ok(span.duration())
    }
}

/// Processor time in seconds.
struct CpuTime(u64);

impl Word for CpuTime {
    const ONE: &'static str = "a duration of whole seconds with its unit, such as \"30s\" or \"5m\"";

    fn read(text: &[u8]) -> Result<Self, String> {
        let seconds = Limits::cpu_seconds(Duration::read(text)?);
        seconds.map(Self).map_err(|reason| format!("{} {reason}", quoted(&String::from_utf8_lossy(text))))
    }
}

/// Text in quotes for an error, shortened where it is no word at all.
fn quoted(text: &str) -> String {
    format!("'{}'", log::excerpt(text, log::WORD_SHOWN_MAX))
}

fn unicode(text: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(text).map_err(|_| "the text is not Unicode".to_owned())
}

/// Text as it stands, or the bytes behind `base64:`.
fn bytes(text: &[u8]) -> Result<OsString, String> {
    let bytes = match text.strip_prefix(BASE64.as_bytes()) {
        None => Cow::Borrowed(text),
        // The library's own error shows a part of the text.
        Some(encoded) => BASE64_STANDARD
            .decode(encoded)
            .map(Cow::Owned)
            .map_err(|_| format!("what follows '{BASE64}' is not base64 with its padding"))?,
    };
    if bytes.contains(&0) {
        return Err(NUL.into());
    }
    os_string(&bytes).ok_or_else(|| "the text holds bytes that are not Unicode".into())
}

const NUL: &str = "the text holds a NUL";

fn choose<T: Copy>(text: &[u8], choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices.iter().find(|(word, _)| word.as_bytes() == text);
    found.map(|&(_, value)| value).ok_or_else(|| {
        let words: Vec<_> = choices.iter().map(|&(word, _)| word).collect();
        format!("{} is not one of {}", quoted(&String::from_utf8_lossy(text)), words.join(", "))
    })
}

/// A single word.
pub(super) fn one<'de, D: Deserializer<'de>, T: Word>(deserializer: D) -> Result<Option<T>, D::Error> {
    One(PhantomData).deserialize(deserializer).map(Some)
}

/// A duration of whole seconds.
pub(super) fn cpu_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    One(PhantomData).deserialize(deserializer).map(|CpuTime(seconds)| Some(seconds))
}

/// A list of words, in its order or as a set.
pub(super) fn list<'de, D, T, C>(deserializer: D) -> Result<C, D::Error>
where
    D: Deserializer<'de>,
    T: Word,
    C: FromIterator<T> + IntoIterator<Item = T>,
{
    deserializer.deserialize_any(Many(PhantomData)).map(|items| items.into_iter().collect())
}

/// A list that says something even when it is empty.
pub(super) fn list_or_none<'de, D: Deserializer<'de>, T: Word>(deserializer: D) -> Result<Option<Vec<T>>, D::Error> {
    deserializer.deserialize_any(Many(PhantomData)).map(Some)
}

struct One<T>(PhantomData<T>);

impl<'de, T: Word> DeserializeSeed<'de> for One<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<T: Word> Visitor<'_> for One<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::ONE)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        self.visit_bytes(text.as_bytes())
    }

    fn visit_bytes<E: Error>(self, text: &[u8]) -> Result<T, E> {
        if text.contains(&0) {
            return Err(E::custom(NUL));
        }
        T::read(text).map_err(E::custom)
    }
}

struct Many<T>(PhantomData<T>);

impl<'de, T: Word> Visitor<'de> for Many<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::MANY)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(One(PhantomData))? {
            list.push(item);
        }
        Ok(list)
    }
}

/// The table of values by variable, in the order written.
pub(super) fn table<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(EnvName, OsString)>, D::Error> {
    struct Variables;

    impl<'de> Visitor<'de> for Variables {
        type Value = Vec<(EnvName, OsString)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table of values by variable")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut list = Self::Value::new();
            let mut names = BTreeSet::new();
            while let Some(name) = map.next_key_seed(One::<EnvName>(PhantomData))? {
                let Value(value) = map.next_value_seed(One(PhantomData))?;
                if !names.insert(name.clone()) {
                    return Err(A::Error::custom(format!("variable '{name}' appears twice")));
                }
                list.push((name, value));
            }
            Ok(list)
        }
    }

    deserializer.deserialize_any(Variables)
}

/// `true` or `false`.
pub(super) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    struct Flag;

    impl Visitor<'_> for Flag {
        type Value = bool;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("true or false")
        }

        fn visit_bool<E: Error>(self, value: bool) -> Result<bool, E> {
            Ok(value)
        }
    }

    deserializer.deserialize_any(Flag).map(Some)
}

/// A number of directory entries.
pub(super) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let count = deserializer.deserialize_any(Number("a positive integer"))?;
    if count == 0 { Err(D::Error::custom("expected a positive integer, found 0")) } else { Ok(Some(count)) }
}

/// The number of a port.
pub(super) fn port<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u16>, D::Error> {
    let number = deserializer.deserialize_any(Number("the number of a port, 1 to 65535"))?;
    let port = u16::try_from(number).ok().filter(|port| *port != 0);
    port.map(Some).ok_or_else(|| D::Error::custom(format!("{number} is not the number of a port (1 to 65535)")))
}

/// A number of processes.
pub(super) fn procs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    count_from(deserializer, Limits::PROCS)
}

/// A number of open files.
pub(super) fn open_files<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    count_from(deserializer, Limits::OPEN_FILES)
}

fn count_from<'de, D: Deserializer<'de>>(deserializer: D, floor: Floor) -> Result<Option<u64>, D::Error> {
    let count = deserializer.deserialize_any(Number("a positive integer"))?;
    floor.check(count).map(Some).map_err(|reason| D::Error::custom(format!("{count} {reason}")))
}

/// Numbers of descriptors.
pub(super) fn descriptors<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<i32>, D::Error> {
    struct Descriptors;

    impl<'de> Visitor<'de> for Descriptors {
        type Value = BTreeSet<i32>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of descriptors")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            let mut set = BTreeSet::new();
            while let Some(number) = items.next_element_seed(Descriptor)? {
                set.insert(number);
            }
            Ok(set)
        }
    }

    deserializer.deserialize_any(Descriptors)
}

struct Descriptor;

impl<'de> DeserializeSeed<'de> for Descriptor {
    type Value = i32;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<i32, D::Error> {
        let number = deserializer.deserialize_any(Number("the number of a descriptor"))?;
        match i32::try_from(number) {
            Ok(0..=2) => Err(D::Error::custom(format!("{number} always crosses, only numbers from 3 are named"))),
            Ok(number) => Ok(number),
            Err(_) => Err(D::Error::custom(format!("{number} is not the number of a descriptor"))),
        }
    }
}

struct Number(&'static str);

impl Visitor<'_> for Number {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<u64, E> {
        u64::try_from(number).map_err(|_| E::custom(format!("expected {}, found {number}", self.0)))
    }
}

/// A number of bytes, of which 0 is one too.
pub(super) fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    size_from(deserializer, Floor::new(0, ""))
}

/// The size of a private directory.
pub(super) fn tmp_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    size_from(deserializer, Size::PAGE)
}

/// An amount of memory.
pub(super) fn memory<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    size_from(deserializer, Limits::MEMORY)
}

/// The size of an address space.
pub(super) fn address_space<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    size_from(deserializer, Limits::ADDRESS_SPACE)
}

/// A number of bytes, or text with its unit.
fn size_from<'de, D: Deserializer<'de>>(deserializer: D, floor: Floor) -> Result<Option<u64>, D::Error> {
    struct Bytes(Floor);

    impl Visitor<'_> for Bytes {
        type Value = u64;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a size, such as \"64M\", or a number of bytes")
        }

        fn visit_u64<E: Error>(self, bytes: u64) -> Result<u64, E> {
            let size = Size::new(bytes).and_then(|size| self.0.check(size.bytes()));
            size.map_err(|reason| E::custom(format!("{bytes} {reason}")))
        }

        fn visit_i64<E: Error>(self, bytes: i64) -> Result<u64, E> {
            let bytes = u64::try_from(bytes).map_err(|_| E::custom(format!("expected a size, found {bytes}")))?;
            self.visit_u64(bytes)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
            let size: Size = text.parse().map_err(|error: BadUnit| E::custom(error.with_unit()))?;
            let text_shown = quoted(text);
            if text.ends_with(|c: char| c.is_ascii_digit()) {
                let what = "has no unit (K, M, G, T); bytes are written without quotes";
                return Err(E::custom(format!("{text_shown} {what}")));
            }
            self.0.check(size.bytes()).map_err(|reason| E::custom(format!("{text_shown} {reason}")))
        }
    }

    deserializer.deserialize_any(Bytes(floor)).map(Some)
}
