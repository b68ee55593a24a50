//! The tree between the two syntaxes and the document: values with their places, and errors that know theirs.
//!
//! Knows no key. An error says of a value only what kind it is; what may be repeated of one is decided where it is read.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, Expected, MapAccess, SeqAccess, Unexpected, Visitor};

use crate::config::fields;

/// The longest unknown key that an error repeats; a longer one is more likely a value in the wrong place.
const KEY_SHOWN_MAX: usize = 40;

/// A value and where it begins.
pub(super) struct Node {
    pub at: usize,
    pub value: Value,
}

/// What both syntaxes have in common, and what only one has as far as an error has to name it.
pub(super) enum Value {
    Null,
    Boolean(bool),
    /// `None` has more than 64 bits.
    Integer(Option<i128>),
    /// `-0`, which some readers take for a number below zero.
    MinusZero,
    Fraction,
    Date,
    /// Bytes: JSON has a spelling for those that are no text.
    Text(Vec<u8>),
    List(Vec<Node>),
    /// In the order written, each key once.
    Table(Vec<(Key, Node)>),
}

/// The name of a value and where it begins.
pub(super) struct Key {
    pub at: usize,
    pub name: String,
}

impl Node {
    /// The value of a key, if this is a table that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Value::Table(pairs) = &self.value else { return None };
        pairs.iter().find(|(other, _)| other.name == key).map(|(_, node)| node)
    }
}

impl Node {
    /// Where the items of a list begin.
    pub fn places(&self) -> Vec<usize> {
        let Value::List(items) = &self.value else { return Vec::new() };
        items.iter().map(|item| item.at).collect()
    }

    /// Without the text by which a JSON document tells an editor its schema; it means nothing else.
    pub fn without_schema(mut self) -> Result<Self, Fault> {
        if let Value::Table(pairs) = &mut self.value
            && let Some(index) = pairs.iter().position(|(key, _)| key.name == SCHEMA)
        {
            let (_, node) = pairs.remove(index);
            if !matches!(node.value, Value::Text(_)) {
                return Err(Fault::at(node.at, format!("key '{SCHEMA}': expected a string, the place of a schema")));
            }
        }
        Ok(self)
    }
}

/// The key by which JSON documents name their schema.
const SCHEMA: &str = "$schema";

/// What is wrong, and where.
#[derive(Debug)]
pub(super) struct Fault {
    /// Offset in bytes; `None` until the place is known.
    pub at: Option<usize>,
    /// Keys on the way to it, joined by dots; empty when the text names the key itself.
    path: String,
    names_key: bool,
    what: String,
}

impl Fault {
    pub fn at(at: usize, what: impl Into<String>) -> Self {
        Self { at: Some(at), path: String::new(), names_key: true, what: what.into() }
    }

    pub fn repeated(key: &Key) -> Self {
        Self::at(key.at, format!("key {} appears twice", shown(&key.name)))
    }

    fn or_at(mut self, at: usize) -> Self {
        self.at = self.at.or(Some(at));
        self
    }

    fn under(mut self, key: &str) -> Self {
        if !self.names_key {
            self.path = if self.path.is_empty() { key.to_owned() } else { format!("{key}.{}", self.path) };
        }
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "key '{}': ", self.path)?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for Fault {}

impl Error for Fault {
    fn custom<T: fmt::Display>(what: T) -> Self {
        Self { at: None, path: String::new(), names_key: false, what: what.to_string() }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format!("expected {expected}, found {}", kind(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_field(name: &str, _: &'static [&'static str]) -> Self {
        if name == SCHEMA {
            let what = format!("key '{SCHEMA}' is for JSON; in TOML a comment names the schema, '#:schema PLACE'");
            return Self { names_key: true, ..Self::custom(what) };
        }
        let hint = fields::remark(name).map(|remark| format!("; {remark}")).unwrap_or_default();
        Self { names_key: true, ..Self::custom(format!("key {} is unknown{hint}", shown(name))) }
    }
}

/// What a value is, without any of it.
fn kind(found: Unexpected<'_>) -> &str {
    match found {
        Unexpected::Bool(_) => "a boolean",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) => "a number",
        Unexpected::Float(_) => "a fraction",
        Unexpected::Str(_) | Unexpected::Bytes(_) | Unexpected::Char(_) => "a string",
        Unexpected::Unit => "null",
        Unexpected::Seq => "a list",
        Unexpected::Map => "a table",
        Unexpected::Other(what) => what,
        _ => "something else",
    }
}

/// A key in quotes, unless it is none of the words that keys are.
fn shown(key: &str) -> String {
    let plain = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-' | '.' | ' ');
    if key.len() > KEY_SHOWN_MAX || !key.chars().all(plain) {
        return "that is no plain word".to_owned();
    }
    format!("'{key}'")
}

impl<'de> Deserializer<'de> for Node {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let at = self.at;
        let read = match self.value {
            Value::Null => Err(Fault::invalid_type(Unexpected::Unit, &visitor)),
            Value::Boolean(value) => visitor.visit_bool(value),
            Value::Integer(number) => match (number.map(u64::try_from), number.map(i64::try_from)) {
                (Some(Ok(number)), _) => visitor.visit_u64(number),
                (_, Some(Ok(number))) => visitor.visit_i64(number),
                _ => Err(Fault::invalid_type(Unexpected::Other("a number of more than 64 bits"), &visitor)),
            },
            Value::MinusZero => Err(Fault::invalid_type(Unexpected::Other("-0"), &visitor)),
            Value::Fraction => Err(Fault::invalid_type(Unexpected::Float(0.0), &visitor)),
            Value::Date => Err(Fault::invalid_type(Unexpected::Other("a date"), &visitor)),
            Value::Text(bytes) => match std::str::from_utf8(&bytes) {
                Ok(text) => visitor.visit_str(text),
                Err(_) => visitor.visit_bytes(&bytes),
            },
            Value::List(items) => visitor.visit_seq(Items(items.into_iter())),
            Value::Table(pairs) => visitor.visit_map(Pairs { rest: pairs.into_iter(), value: None }),
        };
        read.map_err(|fault| fault.or_at(at))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct seq
        tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct Items(std::vec::IntoIter<Node>);

impl<'de> SeqAccess<'de> for Items {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some(node) = self.0.next() else { return Ok(None) };
        let at = node.at;
        seed.deserialize(node).map(Some).map_err(|fault| fault.or_at(at))
    }
}

struct Pairs {
    rest: std::vec::IntoIter<(Key, Node)>,
    /// What belongs to the key that was handed out.
    value: Option<(String, Node)>,
}

impl<'de> MapAccess<'de> for Pairs {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let Some((key, node)) = self.rest.next() else { return Ok(None) };
        let read = seed.deserialize(StrDeserializer::new(&key.name)).map_err(|fault: Fault| fault.or_at(key.at));
        self.value = Some((key.name, node));
        read.map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let Some((key, node)) = self.value.take() else { return Err(Fault::custom("a key has no value")) };
        let at = node.at;
        seed.deserialize(node).map_err(|fault| fault.or_at(at).under(&key))
    }
}
