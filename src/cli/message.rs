//! The wording of mistakes on the command line: always one line, always with the word that was typed.
//!
//! clap's own messages span lines and name its notions, so only its findings are used. Control
//! characters stay as they are here; whoever prints to a terminal escapes them.

use std::ffi::OsStr;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::error::{Error, Kind};
use crate::log;

/// A usage error with this reason.
pub(super) fn refuse(reason: &str) -> Error {
    Error::text(Kind::Usage, format!("cannot read the command line: {reason}"))
}

/// The word in quotes, bytes that are not text as `\xff`.
pub(super) fn quote(word: &OsStr) -> String {
    quote_bytes(word.as_encoded_bytes(), "")
}

fn quote_bytes(bytes: &[u8], rest: &str) -> String {
    let mut quoted = String::new();
    for chunk in bytes.utf8_chunks() {
        quoted.push_str(chunk.valid());
        quoted.extend(chunk.invalid().iter().flat_map(|&b| std::ascii::escape_default(b)).map(char::from));
    }
    format!("'{}{rest}'", log::excerpt(&quoted, log::WORD_SHOWN_MAX))
}

/// The word in quotes without what follows its first `=` from byte `from` on: it may be the value of a variable.
pub(super) fn quote_without_value(word: &OsStr, from: usize) -> String {
    let bytes = word.as_encoded_bytes();
    match bytes.iter().skip(from).position(|&byte| byte == b'=') {
        Some(at) if from + at + 1 < bytes.len() => quote_bytes(&bytes[..=from + at], "…"),
        _ => quote(word),
    }
}

/// An option that does not exist, with the one that was probably meant.
pub(super) fn unknown_option(command: &Command, name: &OsStr) -> Error {
    let error = refuse(&format!("unknown option {}", quote_without_value(name, 0)));
    if let Some(option) = elsewhere(name) {
        return error.hint(format!("did you mean '--{option}'?"));
    }
    match nearest(command, name) {
        Some(option) => error.hint(format!("did you mean '{option}'?")),
        None => error.hint("see 'sandbox-run --help' for the options"),
    }
}

/// What options of container engines, other sandboxes, `timeout` and `prlimit` are called here, where the names are too far
/// apart, or too near to something else, for a comparison of letters.
const ELSEWHERE: &[(&str, &[&str])] = &[
    ("address-space", &["as", "rlimit-as", "vmem"]),
    ("core", &["rlimit-core"]),
    ("cpu-time", &["cpu", "cpus", "rlimit-cpu"]),
    ("env", &["keep-env", "pass-env", "setenv"]),
    ("keep-fd", &["pass-fd", "preserve-fds"]),
    ("mask", &["blacklist", "hide"]),
    ("max-file-size", &["fsize", "rlimit-fsize"]),
    ("max-open-files", &["nofile", "open-files", "rlimit-nofile"]),
    ("max-procs", &["nproc", "pids-limit", "procs", "max-processes", "processes", "rlimit-nproc", "cgroup-pids-max"]),
    ("memory", &["cgroup-mem-max", "mem", "ram"]),
    ("net", &["allow-net", "allow-network", "network", "share-net", "unshare-net"]),
    ("no-default-env", &["clear-env", "clearenv", "ignore-environment"]),
    ("read", &["allow-read", "bindmount-ro", "ro", "ro-bind"]),
    ("read-try", &["ro-bind-try"]),
    ("timeout", &["max-time", "time-limit", "wall-time"]),
    ("tmp-size", &["private-tmp", "shm-size"]),
    ("workdir", &["chdir", "cwd"]),
    ("write", &["allow-write", "bind", "bindmount", "mount", "rw", "volume"]),
    ("write-try", &["bind-try"]),
];

/// The option here for a long name from elsewhere.
fn elsewhere(word: &OsStr) -> Option<&'static str> {
    let name = word.to_str()?.strip_prefix("--")?.replace('_', "-");
    ELSEWHERE.iter().find(|(_, names)| names.contains(&name.as_str())).map(|(option, _)| *option)
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
    fn names_from_elsewhere_lead_to_options_and_are_none() {
        let command = crate::cli::options::command();
        let exists = |name: &str| command.get_arguments().any(|arg| arg.get_long() == Some(name));
        for (option, names) in ELSEWHERE {
            assert!(exists(option), "{option}");
            for name in *names {
                assert!(!exists(name), "{name}");
                assert_eq!(elsewhere(OsStr::new(&format!("--{name}"))), Some(*option), "{name} twice");
            }
        }
        assert_eq!(elsewhere(OsStr::new("--rlimit_as")), Some("address-space"));
        assert_eq!(elsewhere(OsStr::new("cpus")), None);
    }

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
