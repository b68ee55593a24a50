//! TOML to the tree.

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::DEPTH;
use super::node::{Fault, Key, Node, Value};
use crate::config::fields;

/// A whole file.
pub(super) fn parse(text: &str) -> Result<Node, Fault> {
    let table = DeTable::parse(text).map_err(|error| syntax(text, &error))?;
    let root = Node { at: 0, value: table_value(table.into_inner(), 0) };
    check_sections(text, &root)?;
    Ok(root)
}

fn syntax(text: &str, error: &toml::de::Error) -> Fault {
    let span = error.span().unwrap_or_default();
    if error.message() == "duplicate key"
        && let Some(key) = text.get(span.clone())
    {
        return Fault::repeated(&Key { at: span.start, name: plain(key) });
    }
    Fault::at(span.start, format!("the file is not TOML: {}", error.message()))
}

/// The name that a key stands for, without its quotes and escapes.
fn plain(key: &str) -> String {
    let line = format!("{key} = 0");
    let table = DeTable::parse(&line).ok().map(toml::Spanned::into_inner);
    let name = table.and_then(|table| table.into_iter().next()).map(|(name, _)| name.into_inner().into_owned());
    name.unwrap_or_else(|| key.to_owned())
}

/// A key of ours below a section belongs to the section, whatever its writer meant; so does one that is nearly ours.
fn check_sections(text: &str, root: &Node) -> Result<(), Fault> {
    let Some(section) = root.get("env_set") else { return Ok(()) };
    let Value::Table(pairs) = &section.value else { return Ok(()) };
    if text.as_bytes().get(section.at) != Some(&b'[') {
        return Ok(());
    }
    for (Key { at, name }, node) in pairs {
        let is_text = matches!(node.value, Value::Text(_));
        let advice = match fields::nearest(name) {
            Some(key) if key == name => format!("move it above, or write 'env_set.{name}'"),
            // No value of a variable, so there is nothing else that it could mean.
            Some(key) if !is_text => format!("did you mean '{key}'? It has to stand above"),
            // Names of variables are in capitals by custom, and those of the others are no misspelt keys.
            Some(key) if fields::is_slip_of(name, key) => {
                format!("if it is meant as '{key}', write that above, otherwise 'env_set.{name}'")
            }
            _ => continue,
        };
        return Err(Fault::at(*at, format!("key '{name}' stands in the section [env_set]: {advice}")));
    }
    Ok(())
}

fn node(value: Spanned<DeValue<'_>>, depth: usize) -> Node {
    let at = value.span().start;
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned().into_bytes()),
        DeValue::Integer(number) if number.as_str() == "-0" => Value::MinusZero,
        DeValue::Integer(number) => Value::Integer(integer(&number)),
        DeValue::Float(_) => Value::Fraction,
        DeValue::Boolean(value) => Value::Boolean(value),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(items) if depth < DEPTH => {
            Value::List(items.into_iter().map(|item| node(item, depth + 1)).collect())
        }
        DeValue::Array(_) => Value::List(Vec::new()),
        DeValue::Table(table) => table_value(table, depth),
    };
    Node { at, value }
}

fn table_value(table: DeTable<'_>, depth: usize) -> Value {
    if depth >= DEPTH {
        return Value::Table(Vec::new());
    }
    let pairs = table.into_iter().map(|(key, value)| {
        let key = Key { at: key.span().start, name: key.into_inner().into_owned() };
        (key, node(value, depth + 1))
    });
    let mut pairs: Vec<_> = pairs.collect();
    // The library sorts by name.
    pairs.sort_by_key(|(key, _)| key.at);
    Value::Table(pairs)
}

fn integer(number: &DeInteger<'_>) -> Option<i128> {
    i128::from_str_radix(number.as_str(), number.radix()).ok()
}
