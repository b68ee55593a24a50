//! Reads a [`Document`] from the text of a policy file, TOML or JSON, with the position of every mistake.
//!
//! Pure: the bytes are given. Nothing is guessed and nothing is ignored: an unknown key, a repeated one or a wrong type is an
//! error, because a mistake in a policy must not make a weaker one. Error texts hold no value of a variable and no line of
//! the file.
//!
//! Both syntaxes become one tree of nodes, each with its place; the document is read from that.

mod json;
mod node;
mod toml;

#[cfg(test)]
mod tests;

use std::path::Path;

use anyhow::{Result, anyhow};
use serde::Deserialize as _;

use super::document::Document;
use node::{Fault, Node, Value};

/// The most bytes that are looked at.
pub const MAX_SIZE: usize = 1 << 20;

/// Tables and lists are looked into down to this depth; a document has none that is deeper.
const DEPTH: usize = 3;

/// The syntax of a policy file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

/// Reads a document; `name` is the file for messages, in which it stands as `name:line:column`.
///
/// Without a format the ending of the name decides; a name that ends in neither `.json` nor `.toml` holds JSON when the
/// first character is a `{`, with which no TOML begins.
pub fn read(bytes: &[u8], name: &str, format: Option<Format>) -> Result<Document> {
    read_with_places(bytes, name, format).map(|(document, _)| document)
}

/// The same, and where each of the document's `extends` stands.
pub fn read_with_places(bytes: &[u8], name: &str, format: Option<Format>) -> Result<(Document, Vec<Position>)> {
    let (document, places) = document(bytes, format.unwrap_or_else(|| guess(bytes, name)))
        .map_err(|fault| anyhow!("cannot use {name}:{}: {fault}", Position::of(bytes, fault.at.unwrap_or(0))))?;
    Ok((document, places.into_iter().map(|at| Position::of(bytes, at)).collect()))
}

/// The syntax that the ending of a name says, if it says one.
#[must_use]
pub fn by_ending(name: &str) -> Option<Format> {
    match Path::new(name).extension()?.to_str()? {
        "json" => Some(Format::Json),
        "toml" => Some(Format::Toml),
        _ => None,
    }
}

fn guess(bytes: &[u8], name: &str) -> Format {
    match by_ending(name) {
        Some(format) => format,
        None if bytes.trim_ascii_start().starts_with(b"{") => Format::Json,
        None => Format::Toml,
    }
}

/// The document, and the offsets of its `extends`.
fn document(bytes: &[u8], format: Format) -> Result<(Document, Vec<usize>), Fault> {
    if bytes.len() > MAX_SIZE {
        return Err(Fault::at(MAX_SIZE, format!("the file is longer than {MAX_SIZE} bytes")));
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err(Fault::at(0, "the file begins with a byte order mark"));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| Fault::at(error.valid_up_to(), "the file is not UTF-8"))?;
    let tree = match format {
        Format::Toml => toml::parse(text)?,
        Format::Json => json::parse(text)?.without_schema()?,
    };
    check_agreement(&tree)?;
    let places = tree.get("extends").map(Node::places).unwrap_or_default();
    Ok((Document::deserialize(tree)?, places))
}

/// What no single key can tell.
fn check_agreement(tree: &Node) -> Result<(), Fault> {
    if tree.get("spawn_env_allowlist").is_some()
        && let Some(default) = tree.get("env_default")
        && matches!(default.value, Value::Boolean(true))
    {
        let what = "key 'env_default' cannot be true: 'spawn_env_allowlist' lets nothing else pass";
        return Err(Fault::at(default.at, what));
    }
    Ok(())
}

/// A place in a text as people count: lines and characters from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    line: usize,
    column: usize,
}

impl Position {
    fn of(bytes: &[u8], offset: usize) -> Self {
        let before = bytes.get(..offset).unwrap_or(bytes);
        let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        let line = before.split(|&byte| byte == b'\n').count();
        // The bytes that begin a character.
        let column = before[start..].iter().filter(|&&byte| byte & 0xC0 != 0x80).count() + 1;
        Self { line, column }
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}
