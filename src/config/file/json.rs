//! JSON to the tree, as strictly as a payload is read.
//!
//! The syntax is checked first and alone, which takes no recursion; below the depth of a document only the kind of a value
//! is kept.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::DEPTH;
use super::node::{Fault, Key, Node, Value};

/// One object, and white space around it.
pub(super) fn parse(text: &str) -> Result<Node, Fault> {
    let whole: &RawValue = serde_json::from_str(text).map_err(|error| syntax(text, &error))?;
    let reader = Reader { text };
    let node = reader.node(whole, 0)?;
    match node.value {
        Value::Table(_) => Ok(node),
        _ => Err(Fault::at(node.at, "expected a table of settings ('{')")),
    }
}

/// The library's error with an offset in place of its line and column, and without the words about these.
fn syntax(text: &str, error: &serde_json::Error) -> Fault {
    let line_start = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
    let at = (line_start + error.column().saturating_sub(1)).min(text.len());
    let message = error.to_string();
    let what = message.split(" at line ").next().unwrap_or_default();
    Fault::at(at, format!("the file is not JSON: {}", what.to_lowercase()))
}

struct Reader<'a> {
    text: &'a str,
}

impl<'a> Reader<'a> {
    /// Where a part of the text begins.
    fn offset(&self, part: &str) -> usize {
        part.as_ptr().addr().saturating_sub(self.text.as_ptr().addr())
    }

    fn node(&self, raw: &'a RawValue, depth: usize) -> Result<Node, Fault> {
        let at = self.offset(raw.get());
        let inside = depth < DEPTH;
        let value = match raw.get().as_bytes().first() {
            Some(b'{') if inside => self.table(raw, depth)?,
            Some(b'{') => Value::Table(Vec::new()),
            Some(b'[') if inside => {
                let items: Vec<&RawValue> = parts(raw, at)?;
                Value::List(items.into_iter().map(|item| self.node(item, depth + 1)).collect::<Result<_, _>>()?)
            }
            Some(b'[') => Value::List(Vec::new()),
            Some(b'"') => Value::Text(unescape(raw.get()).map_err(|what| Fault::at(at, what))?),
            Some(b't') => Value::Boolean(true),
            Some(b'f') => Value::Boolean(false),
            Some(b'n') => Value::Null,
            // `1.0` and `1e3` are whole numbers to some readers and not to others.
            _ if raw.get().contains(['.', 'e', 'E']) => Value::Fraction,
            _ if raw.get() == "-0" => Value::MinusZero,
            _ => Value::Integer(raw.get().parse().ok()),
        };
        Ok(Node { at, value })
    }

    fn table(&self, raw: &'a RawValue, depth: usize) -> Result<Value, Fault> {
        let mut seen = std::collections::BTreeSet::new();
        let mut pairs = Vec::new();
        let Members(members) = parts(raw, self.offset(raw.get()))?;
        for (key, value) in members {
            let at = self.offset(key.get());
            let name = unescape(key.get()).map_err(|what| Fault::at(at, what))?;
            let name = String::from_utf8(name).map_err(|_| Fault::at(at, "the key is not Unicode"))?;
            let key = Key { at, name };
            if !seen.insert(key.name.clone()) {
                return Err(Fault::repeated(&key));
            }
            pairs.push((key, self.node(value, depth + 1)?));
        }
        Ok(Value::Table(pairs))
    }
}

/// The parts of a list or an object; the syntax has been checked, so there is nothing to fail.
fn parts<'a, T: Deserialize<'a>>(raw: &'a RawValue, at: usize) -> Result<T, Fault> {
    serde_json::from_str(raw.get()).map_err(|_| Fault::at(at, "the file is not JSON"))
}

/// The members of an object as they stand, repeated keys included.
struct Members<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// The bytes of a string literal whose syntax has been checked.
///
/// A lone surrogate from `\udc80` to `\udcff` is the byte 0x80 to 0xFF; any other stands for nothing.
fn unescape(literal: &str) -> Result<Vec<u8>, &'static str> {
    const HALF: &str = "the text holds half a surrogate pair that is no escaped byte";
    let mut bytes = Vec::with_capacity(literal.len());
    let inner = literal.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
    let mut rest = inner;
    while let Some(backslash) = rest.find('\\') {
        let (plain, escape) = rest.split_at(backslash);
        bytes.extend_from_slice(plain.as_bytes());
        let single = match escape.as_bytes().get(1) {
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                let (unit, after) = unit(escape).ok_or(HALF)?;
                let pair = match unit {
                    0xD800..=0xDBFF => unit_of_pair(after).map(|(low, after)| (vec![unit, low], after)),
                    _ => Some((vec![unit], after)),
                };
                let (units, after) = pair.ok_or(HALF)?;
                rest = after;
                match (char::decode_utf16(units.iter().copied()).next(), unit) {
                    (Some(Ok(char)), _) => bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
                    (_, 0xDC80..=0xDCFF) => bytes.push(unit.to_le_bytes()[0]),
                    _ => return Err(HALF),
                }
                continue;
            }
            // The quote, the slash and the backslash itself.
            Some(&other) => other,
            None => return Err(HALF),
        };
        bytes.push(single);
        rest = escape.get(2..).unwrap_or_default();
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

/// The number of a `\u` escape at the start, and what follows.
fn unit(text: &str) -> Option<(u16, &str)> {
    let digits = text.strip_prefix("\\u")?;
    let (number, after) = digits.split_at_checked(4)?;
    Some((u16::from_str_radix(number, 16).ok()?, after))
}

/// The second half of a surrogate pair.
fn unit_of_pair(text: &str) -> Option<(u16, &str)> {
    unit(text).filter(|(low, _)| (0xDC00..=0xDFFF).contains(low))
}
