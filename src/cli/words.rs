//! Cuts argv into the words of our options and the words of the target.
//!
//! Knows from the clap command which options exist and which take a value, and refuses what would be
//! ambiguous. Looks into no value: that is clap's part, which gets only the option words. Quotes no value of a variable:
//! the reason goes into logs.
//!
//! Terms: a *switch* takes no value; a *value option* takes one, as the next word or after `--name=`.
//! `--dry-run` counts as a switch, since its value comes only after `=`.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Command};

use super::message::{quote, quote_without_value, refuse, unknown_option};
use crate::error::{Error, Result};
use crate::policy::env::without_value;

/// The two halves of argv.
pub(super) struct Split {
    /// Options and their values, each known and complete.
    pub(super) options: Vec<OsString>,
    /// The target and its arguments, untouched.
    pub(super) target: Vec<OsString>,
    /// The first word that could not be understood; the options before it are in `options`.
    pub(super) refused: Option<Error>,
    /// Options after that word, if it was none that takes a value.
    pub(super) after: Vec<OsString>,
}

/// What a word in option position is.
enum Word<'a> {
    /// Complete by itself: switches, or `--name=value`.
    Option,
    /// A value option; the value is the next word.
    ValueNext(&'a Arg),
    /// `--`.
    End,
    /// The first word of the target.
    Target,
}

/// Options stop at the first word that is not an option, or after `--`.
pub(super) fn split(command: &Command, words: impl IntoIterator<Item = OsString>) -> Split {
    let mut words = words.into_iter().peekable();
    let mut options = Vec::new();
    let mut target = Vec::new();
    let mut refused = None;
    let mut after = Vec::new();
    while let Some(word) = words.next() {
        let known = if refused.is_none() { &mut options } else { &mut after };
        match classify(command, &word) {
            Ok(Word::Option) => known.push(word),
            Ok(Word::ValueNext(arg)) => match words.next_if(|next| !looks_like_option(next)) {
                Some(value) => known.extend([word, value]),
                None => {
                    refused.get_or_insert_with(|| forgotten_value(&word, arg, words.peek()));
                }
            },
            Ok(Word::End) => break,
            Ok(Word::Target) => {
                target.push(word);
                break;
            }
            Err(error) => {
                refused.get_or_insert(error);
            }
        }
    }
    target.extend(words);
    Split { options, target, refused, after }
}

fn classify<'a>(command: &'a Command, word: &OsStr) -> Result<Word<'a>> {
    match word.as_encoded_bytes() {
        b"--" => Ok(Word::End),
        // `env -` starts with an empty environment: whoever types that here must not get a program called `-`.
        b"-" => Err(refuse("a lone '-' is neither an option nor a command")
            .hint("an empty environment is '--no-default-env', a program called '-' is '-- -'")),
        [b'-', b'-', ..] => long_option(command, word),
        [b'-', ..] => short_options(command, word),
        _ => Ok(Word::Target),
    }
}

fn long_option<'a>(command: &'a Command, word: &OsStr) -> Result<Word<'a>> {
    let bytes = word.as_encoded_bytes();
    let equals = bytes.iter().position(|&byte| byte == b'=');
    // A name that is not text is the name of no option.
    let name = std::str::from_utf8(&bytes[2..equals.unwrap_or(bytes.len())]).ok();
    let Some(arg) = name.and_then(|name| by_long(command, name)) else {
        return Err(match name {
            Some(name) => unknown_option(command, OsStr::new(&format!("--{name}"))),
            None => unknown_option(command, word),
        });
    };
    match equals {
        None if value_is_next(arg) => Ok(Word::ValueNext(arg)),
        Some(_) if !arg.get_action().takes_values() => {
            let name = name.unwrap_or_default();
            let word = quote_without_value(word, "--=".len() + name.len());
            Err(refuse(&format!("option '--{name}' takes no value, found {word}")))
        }
        _ => Ok(Word::Option),
    }
}

fn short_options<'a>(command: &'a Command, word: &OsStr) -> Result<Word<'a>> {
    let Some(letters) = word.to_str().map(|text| &text[1..]) else {
        return Err(unknown_option(command, word));
    };
    for (at, letter) in letters.char_indices() {
        let Some(arg) = by_short(command, letter) else {
            return Err(match by_long(command, letters) {
                Some(_) => {
                    refuse(&format!("unknown option {}", quote(word))).hint(format!("did you mean '--{letters}'?"))
                }
                None if letters.chars().nth(1).is_none() => unknown_option(command, word),
                None => refuse(&format!("unknown option '-{letter}' in {}", quote_without_value(word, 0)))
                    .hint("see 'sandbox-run --help' for the options"),
            });
        };
        if value_is_next(arg) {
            if letters.len() == letter.len_utf8() {
                return Ok(Word::ValueNext(arg));
            }
            return Err(attached_value(command, word, letters, at, arg));
        }
    }
    Ok(Word::Option)
}

/// `-rw` could mean two options or one with a value. Tools differ about which, so it means neither here.
fn attached_value(command: &Command, word: &OsStr, letters: &str, at: usize, arg: &Arg) -> Error {
    let (before, after) = letters.split_at(at);
    let letter = after.chars().next().unwrap_or_default();
    let after = &after[letter.len_utf8()..];
    // What stands behind `-e=` has no name that it could be told from a value by.
    let equals = if arg.get_id() == "env" { None } else { after.strip_prefix('=') };
    let from = word.len() - equals.unwrap_or(after).len();
    let word = quote_without_value(word, from);
    let error = refuse(&format!("option '-{letter}' takes its value as a separate word, found {word}"));

    if by_long(command, letters).is_some() {
        return error.hint(format!("did you mean '--{letters}'?"));
    }
    let switches = if before.is_empty() { String::new() } else { format!("-{before} ") };
    let value = without_value(equals.unwrap_or(after));
    if value.is_empty() || value.starts_with('=') {
        return error.hint(format!("write '{switches}-{letter} {}'", value_name(arg)));
    }
    let one = format!("{switches}-{letter} {value}");
    let others: Option<Vec<&Arg>> = after.chars().map(|c| by_short(command, c)).collect();
    match others {
        Some(others) => {
            let mut several = format!("{switches}-{letter} {}", value_name(arg));
            for (other, name) in others.iter().zip(after.chars()) {
                several.extend([' ', '-', name]);
                if value_is_next(other) {
                    several.extend([" ", value_name(other)]);
                }
            }
            error.hint(format!("write '{one}', or '{several}' for several options"))
        }
        None => error.hint(format!("write '{one}'")),
    }
}

/// A value option is followed by nothing or by what looks like an option itself: the value was forgotten, and taking the
/// option for it would lose a restriction.
fn forgotten_value(option: &OsStr, arg: &Arg, next: Option<&OsString>) -> Error {
    let needs = format!("option {} needs a value ({})", quote(option), value_name(arg));
    let Some(word) = next else { return refuse(&needs) };
    let name = arg.get_long().unwrap_or_default();
    let whole = [OsStr::new("--"), OsStr::new(name), OsStr::new("="), word];
    let whole: OsString = whole.into_iter().collect();
    let whole = quote_without_value(&whole, "--=".len() + name.len());
    refuse(&format!("{needs}, found {}", quote_without_value(word, 0)))
        .hint(format!("write {whole} if that is the value"))
}

/// Of complete options those with these long names, with their values.
///
/// No value in a word of its own looks like an option, so that none is taken for one here.
pub(super) fn named(options: &[OsString], names: &[&str]) -> Vec<OsString> {
    let mut found = Vec::new();
    let mut with_value = false;
    for word in options {
        let long = word.as_encoded_bytes().strip_prefix(b"--");
        let name = long.and_then(|long| long.split(|byte| *byte == b'=').next());
        let wanted = name.is_some_and(|name| names.iter().any(|wanted| wanted.as_bytes() == name));
        if wanted || with_value && !looks_like_option(word) {
            found.push(word.clone());
        }
        with_value = wanted;
    }
    found
}

/// Negative numbers do not: no option is a digit, and "negative" is the better message.
fn looks_like_option(word: &OsStr) -> bool {
    match word.as_encoded_bytes() {
        [b'-', second, ..] => !second.is_ascii_digit(),
        _ => false,
    }
}

fn value_is_next(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

fn value_name(arg: &Arg) -> &str {
    arg.get_value_names().and_then(|names| names.first()).map_or("VALUE", |name| name.as_str())
}

fn by_long<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| arg.get_long() == Some(name))
}

fn by_short(command: &Command, letter: char) -> Option<&Arg> {
    command.get_arguments().find(|arg| arg.get_short() == Some(letter))
}
