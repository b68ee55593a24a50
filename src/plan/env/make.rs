//! The jobserver of `make` in `MAKEFLAGS`: where it is, and how to leave it out.
//!
//! Nothing here opens or checks a descriptor. The words before ` -- ` are options, those after it are variables of the
//! makefile and never touched; a backslash takes the meaning from the next byte, also from a blank.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::policy::env::os_string;

/// Where a jobserver can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Jobserver {
    /// Two inherited descriptors.
    Pipe {
        /// The end that tokens are taken from.
        read: i32,
        /// The end that tokens are given back to.
        write: i32,
    },
    /// A named pipe on the host.
    Fifo(PathBuf),
}

/// Options that carry the jobserver; the second is the spelling before make 4.2.
const AUTH: &[&[u8]] = &[b"--jobserver-auth=", b"--jobserver-fds="];

/// A lock file that make 4.4 opens by itself and dies without.
const MUTEX: &[u8] = b"--sync-mutex=";

/// Variables that carry `make`'s options and perhaps its jobserver.
pub(super) fn carries_options(name: &str) -> bool {
    matches!(name, "CARGO_MAKEFLAGS" | "MAKEFLAGS" | "MFLAGS")
}

/// The jobserver that a value of `MAKEFLAGS` names. The last word about it wins, as in make; negative descriptors, by
/// which a make says that the rule is not recursive, mean none.
#[must_use]
pub fn jobserver(makeflags: &OsStr) -> Option<Jobserver> {
    let bytes = makeflags.as_encoded_bytes();
    let word = options(bytes).filter_map(|word| auth(word.text)).last()?;
    let word = unescaped(word);
    if let Some(path) = word.strip_prefix(b"fifo:") {
        let path = PathBuf::from(os_string(path)?);
        return path.is_absolute().then_some(Jobserver::Fifo(path));
    }
    let (read, write) = std::str::from_utf8(&word).ok()?.split_once(',')?;
    let (read, write) = (descriptor(read)?, descriptor(write)?);
    Some(Jobserver::Pipe { read, write })
}

/// The value without its jobserver and the `-j` that belongs to it; `None` when it names no jobserver.
pub(super) fn without_jobserver(makeflags: &OsStr) -> Option<OsString> {
    let bytes = makeflags.as_encoded_bytes();
    if !options(bytes).any(|word| auth(word.text).is_some() || word.text.starts_with(MUTEX)) {
        return None;
    }
    let mut kept = Vec::with_capacity(bytes.len());
    let mut end = 0;
    for word in options(bytes) {
        let whole = &bytes[word.start..word.end];
        end = word.end;
        if auth(word.text).is_none() && !word.text.starts_with(MUTEX) && !is_jobs(word.text) {
            kept.extend_from_slice(whole);
        }
    }
    kept.extend_from_slice(&bytes[end..]);
    if kept.iter().all(u8::is_ascii_whitespace) {
        kept.clear();
    }
    os_string(&kept)
}

fn descriptor(text: &str) -> Option<i32> {
    text.parse().ok().filter(|number| *number >= 0)
}

fn auth(word: &[u8]) -> Option<&[u8]> {
    AUTH.iter().find_map(|prefix| word.strip_prefix(*prefix))
}

fn is_jobs(word: &[u8]) -> bool {
    let count = word.strip_prefix(b"--jobs=").or_else(|| word.strip_prefix(b"-j"));
    word == b"--jobs" || count.is_some_and(|count| count.iter().all(u8::is_ascii_digit))
}

/// One option: its text, and its place with the blanks before it.
struct Word<'a> {
    text: &'a [u8],
    start: usize,
    end: usize,
}

/// The words up to `--`, which is not among them.
fn options(bytes: &[u8]) -> impl Iterator<Item = Word<'_>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let blanks = bytes[start..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let from = start + blanks;
        let mut end = from;
        while let Some(byte) = bytes.get(end).filter(|byte| !byte.is_ascii_whitespace()) {
            end = (end + if *byte == b'\\' { 2 } else { 1 }).min(bytes.len());
        }
        let text = &bytes[from..end];
        let word = Word { text, start, end };
        start = end;
        (!text.is_empty() && text != b"--").then_some(word)
    })
    .fuse()
}

/// What make reads from a word: `\x` is `x`, `$$` is `$`.
fn unescaped(word: &[u8]) -> Cow<'_, [u8]> {
    if !word.iter().any(|byte| matches!(byte, b'\\' | b'$')) {
        return Cow::Borrowed(word);
    }
    let mut plain = Vec::with_capacity(word.len());
    let mut bytes = word.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte == b'\\' || (byte == b'$' && bytes.peek() == Some(&b'$')) {
            plain.extend(bytes.next());
        } else {
            plain.push(byte);
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe(read: i32, write: i32) -> Jobserver {
        Jobserver::Pipe { read, write }
    }

    #[test]
    fn the_last_jobserver_counts() {
        for (value, expected) in [
            ("", None),
            ("k", None),
            (" -j4", None),
            (" -j4 --jobserver-auth=3,4", Some(pipe(3, 4))),
            ("ks --jobserver-fds=5,6 -j", Some(pipe(5, 6))),
            (" --jobserver-auth=3,4 --jobserver-auth=7,8", Some(pipe(7, 8))),
            (" --jobserver-auth=3,4 --jobserver-auth=-2,-2", None),
            (" --jobserver-auth=3", None),
            (" --jobserver-auth=a,b", None),
            (" --jobserver-auth=gmake_semaphore_12", None),
            (" -- X=a --jobserver-auth=3,4", None),
            (" -j2 --jobserver-auth=3,4 -- X=--jobserver-auth=9,9", Some(pipe(3, 4))),
            (r" --eval=a\ --jobserver-auth=9,9", None),
        ] {
            assert_eq!(jobserver(OsStr::new(value)), expected, "{value}");
        }
    }

    #[test]
    fn a_fifo_is_an_absolute_path() {
        let fifo = |path: &str| Some(Jobserver::Fifo(PathBuf::from(path)));
        let of = |value: &str| jobserver(OsStr::new(value));
        assert_eq!(of("-j2 --jobserver-auth=fifo:/tmp/GMfifo1"), fifo("/tmp/GMfifo1"));
        assert_eq!(of(r"--jobserver-auth=fifo:/tmp/a\ b$$c/f -k"), fifo("/tmp/a b$c/f"));
        assert_eq!(of("--jobserver-auth=fifo:rel"), None);
        assert_eq!(of("--jobserver-auth=fifo:"), None);
    }

    #[test]
    fn the_jobserver_is_left_out_and_nothing_else() {
        for (value, expected) in [
            ("", None),
            ("ks -j4 -- CC=gcc", None),
            (" -j4 --jobserver-auth=3,4", Some("")),
            ("ks -j4 --jobserver-auth=3,4", Some("ks")),
            ("ks --jobserver-fds=3,4 -j -Otarget", Some("ks -Otarget")),
            (" -j --jobserver-auth=-2,-2 -- CC=gcc", Some(" -- CC=gcc")),
            (
                " -j2 --jobserver-auth=fifo:/a\\ b -Oline --sync-mutex=fnm:/tmp/m -- X=a\\ -j4  Y=1 ",
                Some(" -Oline -- X=a\\ -j4  Y=1 "),
            ),
            (" --jobs=4 --jobs --jobserver-auth=3,4 -jx", Some(" -jx")),
        ] {
            let stripped = without_jobserver(OsStr::new(value));
            assert_eq!(stripped.as_deref(), expected.map(OsStr::new), "{value}");
        }
    }
}
