//! The wording of mistakes on the command line: always one line, always with the word that was typed.
//!
//! clap's own messages span lines and name its notions, so only its findings are used. Control
//! characters stay as they are here; whoever prints to a terminal escapes them.

use std::ffi::OsStr;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::error::{Error, Kind};

/// A usage error with this reason.
pub(super) fn refuse(reason: &str) -> Error {
    Error::text(Kind::Usage, format!("cannot read the command line: {reason}"))
}

/// The word in quotes, bytes that are not text as `\xff`.
pub(super) fn quote(word: &OsStr) -> String {
    let mut quoted = String::from("'");
    for chunk in word.as_encoded_bytes().utf8_chunks() {
        quoted.push_str(chunk.valid());
        quoted.extend(chunk.invalid().iter().flat_map(|&b| std::ascii::escape_default(b)).map(char::from));
    }
    quoted.push('\'');
    quoted
}

/// An option that does not exist, with the one that was probably meant.
pub(super) fn unknown_option(command: &Command, name: &OsStr) -> Error {
    let error = refuse(&format!("unknown option {}", quote(name)));
    match nearest(command, name) {
        Some(option) => error.hint(format!("did you mean '{option}'?")),
        None => error.hint("see 'sandbox-run --help' for the options"),
    }
}

/// The option whose name looks most like this word; clap does the comparing.
fn nearest(command: &Command, word: &OsStr) -> Option<String> {
    let error = command.clone().try_get_matches_from([word]).err()?;
    match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(option)) => Some(option.clone()),
        _ => None,
    }
}

/// A value that an option does not take, in the form in which clap hands it through to [`from_clap`].
pub(super) fn bad_value(option: &str, reason: &str) -> clap::Error {
    let mut error = clap::Error::new(ErrorKind::ValueValidation);
    let text = format!("option '--{option}': {reason}");
    error.insert(ContextKind::Custom, ContextValue::String(text));
    error
}

/// The reason that [`bad_value`] put in. Nothing else is expected, since the words were checked before clap saw them.
pub(super) fn from_clap(error: &clap::Error) -> Error {
    if let Some(ContextValue::String(reason)) = error.get(ContextKind::Custom) {
        return refuse(reason);
    }
    let what = error.kind().as_str().unwrap_or("unexpected word");
    match error.get(ContextKind::InvalidArg) {
        Some(word) => refuse(&format!("{what}: '{word}'")),
        None => refuse(what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_shows_every_byte() {
        use std::os::unix::ffi::OsStrExt;
        for (word, quoted) in [
            (&b"a b"[..], "'a b'"),
            (b"", "''"),
            ("größe".as_bytes(), "'größe'"),
            (b"a\xff\xfez\x80", "'a\\xff\\xfez\\x80'"),
        ] {
            assert_eq!(quote(OsStr::from_bytes(word)), quoted);
        }
    }
}
