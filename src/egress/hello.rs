//! The first bytes of a connection: TLS, HTTP or something else, and which host a TLS client asks for.
//!
//! Only the plain name at the beginning of TLS is read. Nothing is decrypted, and nothing is decided.

use super::host::{Host, HostName};

/// The most bytes in which a client may say hello.
pub const HELLO_MAX: usize = 32 * 1024;

/// What the first bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Too few to tell.
    Partial,
    /// A client of TLS, and the name that it asks for.
    Tls(Option<HostName>),
    /// A request of HTTP.
    Http,
    /// Something else.
    Other,
    /// Something that begins as TLS and goes on in no way that is known.
    Broken(&'static str),
}

impl Opening {
    /// Looks at the first bytes of a client.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        match bytes.first() {
            None => Self::Partial,
            Some(22) => match hello(bytes) {
                Ok(name) => Self::Tls(name),
                Err(Stop::More) if bytes.len() < HELLO_MAX => Self::Partial,
                Err(Stop::More) => Self::Broken("says hello at too great length"),
                Err(Stop::Bad(reason)) => Self::Broken(reason),
            },
            Some(_) => first_line(bytes),
        }
    }
}

/// A line that ends with a version is a request, whatever blanks somebody puts before it.
fn first_line(bytes: &[u8]) -> Opening {
    let start = bytes.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(bytes.len());
    let text = &bytes[start..];
    let end = text.iter().position(|byte| *byte == b'\n');
    let line = &text[..end.unwrap_or(text.len())];
    // Servers take other blanks for one.
    if line
        .windows(6)
        .any(|part| (part[0].is_ascii_whitespace() || part[0] == 0x0b) && part[1..].eq_ignore_ascii_case(b"HTTP/"))
    {
        return Opening::Http;
    }
    // A method is a word of letters and a blank behind it; what cannot become one needs no more bytes.
    let word = line.iter().position(|byte| !byte.is_ascii_graphic()).unwrap_or(line.len());
    let method = line[..word].iter().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_'));
    let open = end.is_none() && method && word <= 20 && line.get(word).is_none_or(|byte| *byte == b' ');
    if open && bytes.len() < super::head::LINE_MAX { Opening::Partial } else { Opening::Other }
}

enum Stop {
    More,
    Bad(&'static str),
}

const BAD: Stop = Stop::Bad("does not say hello as TLS does");

/// The server name in the records at the beginning of `bytes`.
fn hello(bytes: &[u8]) -> Result<Option<HostName>, Stop> {
    // A message may be cut into records anywhere.
    let mut message = Vec::new();
    let mut rest = bytes;
    loop {
        let [kind, major, _, high, low, body @ ..] = rest else {
            return if matches!(rest, [22, 3, ..] | [22] | []) { Err(Stop::More) } else { Err(BAD) };
        };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if *kind != 22 || *major != 3 || length == 0 || length > 16 * 1024 {
            return Err(BAD);
        }
        message.extend_from_slice(&body[..length.min(body.len())]);
        if message.first().is_some_and(|kind| *kind != 1) {
            return Err(BAD);
        }
        if let [_, a, b, c, content @ ..] = &*message {
            let whole = usize::try_from(u32::from_be_bytes([0, *a, *b, *c])).unwrap_or(usize::MAX);
            if whole > HELLO_MAX {
                return Err(Stop::Bad("says hello at too great length"));
            }
            if let Some(content) = content.get(..whole) {
                return name(content);
            }
        }
        if body.len() < length {
            return Err(Stop::More);
        }
        rest = &body[length..];
    }
}

/// The server name in the content of a client's hello.
fn name(content: &[u8]) -> Result<Option<HostName>, Stop> {
    let mut rest = Reader(content);
    rest.take(2 + 32)?;
    rest.counted(1)?;
    rest.counted(2)?;
    rest.counted(1)?;
    if rest.0.is_empty() {
        return Ok(None);
    }
    let mut extensions = Reader(rest.counted(2)?);
    if !rest.0.is_empty() {
        return Err(BAD);
    }
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number(2)?;
        let body = extensions.counted(2)?;
        if kind != 0 {
            continue;
        }
        if found.is_some() {
            return Err(Stop::Bad("names its server twice"));
        }
        let mut names = Reader(Reader(body).counted(2)?);
        if names.number(1)? != 0 {
            return Err(BAD);
        }
        let name = names.counted(2)?;
        if !names.0.is_empty() {
            return Err(Stop::Bad("names its server twice"));
        }
        let name = std::str::from_utf8(name).ok().and_then(|text| HostName::parse(text).ok());
        found = Some(name.ok_or(Stop::Bad("names a server that is no host"))?);
    }
    Ok(found)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Stop> {
        let (part, rest) = self.0.split_at_checked(count).ok_or(BAD)?;
        self.0 = rest;
        Ok(part)
    }

    fn number(&mut self, bytes: usize) -> Result<usize, Stop> {
        Ok(self.take(bytes)?.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    }

    fn counted(&mut self, bytes: usize) -> Result<&'a [u8], Stop> {
        let count = self.number(bytes)?;
        self.take(count)
    }
}

/// Why a client of TLS does not get to `host`: an allowed name must not carry a connection to another one.
#[must_use]
pub fn mismatch(host: &Host, asked: Option<&HostName>) -> Option<&'static str> {
    match (host, asked) {
        (Host::Name(host), Some(asked)) if host == asked => None,
        (Host::Name(_), Some(_)) => Some("asks for another host within TLS than outside"),
        (Host::Name(_), None) => Some("names no host within TLS"),
        // An address was granted with everything that is there.
        (Host::Address(_), _) => None,
    }
}

/// What tells a client of TLS at once that the name was refused.
pub const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 1, 0, 2, 2, 112];

/// A client's hello, for tests.
#[cfg(test)]
pub(super) fn example(names: &[&str]) -> Vec<u8> {
    fn counted(bytes: usize, content: &[u8]) -> Vec<u8> {
        [&content.len().to_be_bytes()[8 - bytes..], content].concat()
    }
    let extension = |name: &&str| {
        let entry = [&[0][..], &counted(2, name.as_bytes())].concat();
        [&[0, 0][..], &counted(2, &counted(2, &entry))].concat()
    };
    let extensions = [[vec![0, 43, 0, 3, 2, 3, 4]].concat(), names.iter().flat_map(extension).collect()].concat();
    let content =
        [&[3, 3][..], &[7; 32], &counted(1, &[]), &counted(2, &[0x13, 1]), &counted(1, &[0]), &counted(2, &extensions)]
            .concat();
    let message = [&[1][..], &counted(3, &content)].concat();
    [&[22, 3, 1][..], &counted(2, &message)].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_name_is_found_however_it_is_cut() {
        let name = HostName::parse("ok.test").unwrap();
        let bytes = example(&["OK.test"]);
        for length in 0..bytes.len() {
            assert_eq!(Opening::of(&bytes[..length]), Opening::Partial, "{length}");
        }
        assert_eq!(Opening::of(&bytes), Opening::Tls(Some(name.clone())));
        // The same message in two records.
        let cut = [
            &[22, 3, 1, 0, 9][..],
            &bytes[5..14],
            &[22, 3, 1],
            &u16::try_from(bytes.len() - 14).unwrap().to_be_bytes(),
            &bytes[14..],
        ]
        .concat();
        assert_eq!(Opening::of(&cut), Opening::Tls(Some(name)));
        assert_eq!(Opening::of(&example(&[])), Opening::Tls(None));
        for names in [&["ok.test", "no.test"][..], &["ok.test\0.no.test"], &[""], &["127.0.0.1"]] {
            assert!(matches!(Opening::of(&example(names)), Opening::Broken(_)), "{names:?}");
        }
        for bytes in [
            &[22, 3, 1, 0, 0, 1][..],
            &[22, 2, 1, 0, 5, 1],
            &[22, 3, 1, 0, 5, 2, 0, 0, 1],
            &[22, 3, 1, 0, 5, 1, 0, 0, 1, 9],
        ] {
            assert!(matches!(Opening::of(bytes), Opening::Broken(_)), "{bytes:?}");
        }
    }

    #[test]
    fn http_is_told_from_the_rest() {
        for text in [
            "GET / HTTP/1.1\r\n",
            "GET /\tHTTP/1.1\r\n",
            "GET\t/\x0bHTTP/1.1\r\n",
            "GET /\x0cHTTP/1.0",
            "\r\n \r\nGET / HTTP/1.1",
            "get / http/1.1\n",
            "PRI * HTTP/2.0\r\n",
        ] {
            assert_eq!(Opening::of(text.as_bytes()), Opening::Http, "{text:?}");
        }
        for text in ["", "GET", "GET /x", "\r\n", "PROPFIND /"] {
            assert_eq!(Opening::of(text.as_bytes()), Opening::Partial, "{text:?}");
        }
        for text in ["SSH-2.0-x\r\n", "*1\r\n", "\0\0\0\x08", "get key\r\n", "EHLO x\r\n", "\x16x\r\n"] {
            assert!(
                !matches!(Opening::of(text.as_bytes()), Opening::Http | Opening::Partial | Opening::Tls(_)),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_name_within_is_the_name_outside() {
        let host = |text| Host::parse(text).unwrap();
        let name = |text| HostName::parse(text).unwrap();
        assert!(mismatch(&host("ok.test"), Some(&name("ok.test"))).is_none());
        assert!(mismatch(&host("ok.test"), Some(&name("no.test"))).is_some());
        assert!(mismatch(&host("ok.test"), None).is_some());
        assert!(mismatch(&host("127.0.0.1"), None).is_none());
    }

    proptest! {
        #[test]
        fn looking_never_panics(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), tls: bool) {
            if tls && bytes.len() > 9 {
                bytes[..3].copy_from_slice(&[22, 3, 1]);
                bytes[5] = 1;
            }
            let _opening = Opening::of(&bytes);
        }

        #[test]
        fn a_changed_byte_never_panics(at in 0_usize..80, byte: u8) {
            let mut bytes = example(&["ok.test"]);
            let at = at % bytes.len();
            bytes[at] = byte;
            let _opening = Opening::of(&bytes);
        }
    }
}
