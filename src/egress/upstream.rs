//! What `--upstream-proxy` says: the proxy by which requests leave where this host reaches no server itself.
//!
//! What is typed or printed holds no password: such a URL is read from a variable or a file, and only what was read has one.

use std::fmt;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::host::{self, Host};

/// Where the proxy is, or where that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// There; without a password.
    Url(Url),
    /// In a variable of the caller.
    Env(String),
    /// In a file.
    File(PathBuf),
}

/// A proxy, and who asks it.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    /// Its host.
    pub host: Host,
    /// Its port.
    pub port: u16,
    user: Option<String>,
    password: Option<String>,
}

/// No longer URL is read from a file.
pub const URL_MAX: usize = 16 * 1024;

impl Spec {
    /// Reads what was typed or written in a document; the reason stands behind "the value". Nothing of it is quoted: it may hold a
    /// password all the same.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix("env=") {
            return match crate::policy::env::EnvName::parse(name) {
                Ok(_) => Ok(Self::Env(name.to_owned())),
                Err(_) => Err("has no name of a variable behind 'env='".into()),
            };
        }
        if let Some(path) = text.strip_prefix("file=") {
            return match path {
                "" => Err("has no path behind 'file='".into()),
                _ if path.contains(|c: char| c.is_control()) => Err("has a control character in its path".into()),
                _ => Ok(Self::File(path.into())),
            };
        }
        let url = Url::parse(text)?;
        if url.password.is_some() {
            return Err("has a password, which lists of processes and printed policies would show: 'env=NAME' or \
                        'file=PATH' says where a URL with one is read"
                .into());
        }
        Ok(Self::Url(url))
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(Url { user: None, host, port, .. }) => write!(f, "http://{host}:{port}"),
            Self::Url(Url { user: Some(user), host, port, .. }) => write!(f, "http://{}@{host}:{port}", encoded(user)),
            Self::Env(name) => write!(f, "env={name}"),
            Self::File(path) => write!(f, "file={}", path.display()),
        }
    }
}

impl Url {
    /// Reads `http://[USER[:PASSWORD]@]HOST:PORT`; nothing of it is in the reason.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err("has no scheme, as in http://HOST:PORT".into());
        };
        match &*scheme.to_ascii_lowercase() {
            "http" => {}
            known @ ("https" | "socks" | "socks4" | "socks4a" | "socks5" | "socks5h") => {
                return Err(format!(
                    "has the scheme '{known}', and only an http:// proxy is spoken to; https servers are reached \
                                    through one as well"
                ));
            }
            _ => return Err("has a scheme other than http".into()),
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        if !matches!(&rest[end..], "" | "/") {
            return Err(
                "has a path, and a proxy has none (in a user or password '/', '?' and '#' are %2F, %3F and %23)".into(),
            );
        }
        let (login, place) = match rest[..end].rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, &rest[..end]),
        };
        let (user, password) =
            match login.map(|login| login.split_once(':').map_or((login, None), |(a, b)| (a, Some(b)))) {
                None => (None, None),
                Some((user, password)) => (Some(decoded(user)?), password.map(decoded).transpose()?),
            };
        if user.as_ref().is_some_and(String::is_empty) {
            return Err("has an '@' and no user before it".into());
        }
        if user.as_ref().is_some_and(|user| user.contains(':')) {
            return Err("has a user with a colon, which would end it".into());
        }
        let (host, port) = host::authority(place)?;
        // curl takes 1080 then, others 80: nobody should have to know whom we follow.
        let port = port.ok_or("has no port, and programs do not agree on one (write http://HOST:PORT)")?;
        Ok(Self { host, port, user, password })
    }

    /// What is said to the proxy about who asks, if anything is.
    #[must_use]
    pub fn authorization(&self) -> Option<String> {
        let user = self.user.as_ref()?;
        Some(format!("Basic {}", STANDARD.encode(format!("{user}:{}", self.password.as_deref().unwrap_or_default()))))
    }

    /// Whether it is given requests in the clear as they are. One that is told who asks is not: its own answers would go to the
    /// command, and some have in them what it was sent (CVE-2025-62168). By CONNECT nothing that it says gets there.
    #[must_use]
    pub fn takes_requests(&self) -> bool {
        self.user.is_none()
    }

    /// Whether `text` has the password in it. One of few characters is in many texts.
    #[must_use]
    pub fn is_in(&self, text: &[u8]) -> bool {
        let Some(password) = self.password.as_deref().filter(|password| !password.is_empty()) else { return false };
        let code = self.authorization().unwrap_or_default();
        let code = code.trim_start_matches("Basic ");
        let decoded = percent_decoded(text);
        let within = |part: &str| {
            [text, &decoded].iter().any(|text| text.windows(part.len()).any(|window| window == part.as_bytes()))
        };
        text == password.as_bytes() || within(code) || (password.len() >= 8 && within(password))
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Url").field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}

/// Text with `%41` taken for `A`.
fn decoded(text: &str) -> Result<String, String> {
    const ODD: &str = "has a '%' in its user or password that begins no %41";
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (code, behind) = rest.split_at_checked(2).ok_or(ODD)?;
        if !code.iter().all(u8::is_ascii_hexdigit) {
            return Err(ODD.into());
        }
        let code = std::str::from_utf8(code).ok().and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.ok_or(ODD)?);
        rest = behind;
    }
    let text = String::from_utf8(bytes).map_err(|_| "has a user or password that is not UTF-8")?;
    if text.contains(|c: char| c.is_control()) {
        return Err("has a control character in its user or password".into());
    }
    Ok(text)
}

/// Any bytes, with `%41` taken for `A` wherever it stands.
fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        let code = behind.get(..2).filter(|_| byte == b'%').and_then(|code| std::str::from_utf8(code).ok());
        let code = code.filter(|code| !code.starts_with('+')).and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.unwrap_or(byte));
        rest = if code.is_some() { &behind[2..] } else { behind };
    }
    bytes
}

/// The same back, with everything in it that could mean something else.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_strictly() {
        for (text, host, port, authorization) in [
            ("http://proxy.test:3128", "proxy.test", 3128, None),
            ("HTTP://Proxy.test:3128/", "proxy.test", 3128, None),
            ("http://[::1]:80", "[::1]", 80, None),
            ("http://u@192.0.2.1:8080", "192.0.2.1", 8080, Some("u:")),
            ("http://u:p%40%3a%C3%A4@proxy.test:1", "proxy.test", 1, Some("u:p@:ä")),
            ("http://u:a:b@proxy.test:1", "proxy.test", 1, Some("u:a:b")),
            ("http://u:@proxy.test:1", "proxy.test", 1, Some("u:")),
        ] {
            let url = Url::parse(text).unwrap();
            let said = authorization.map(|pair| format!("Basic {}", STANDARD.encode(pair)));
            assert_eq!((url.host.to_string(), url.port, url.authorization()), (host.to_owned(), port, said), "{text}");
        }
        for text in [
            "",
            "proxy.test",
            "proxy.test:3128",
            "http://",
            "http://proxy.test",
            "http://proxy.test:0",
            "http://proxy.test:65536",
            "http://proxy.test:3128/path",
            "http://proxy.test:3128?q",
            "http://pass/word@proxy.test:3128",
            "http://@proxy.test:3128",
            "http://:p@proxy.test:3128",
            "http://u%3ax:p@proxy.test:3128",
            "http://u:%4@proxy.test:3128",
            "http://u:%+1@proxy.test:3128",
            "http://u:%0d@proxy.test:3128",
            "http://u:%ff@proxy.test:3128",
            "http://127.1:3128",
            "https://proxy.test:3128",
            "socks5h://proxy.test:1080",
            "ftp://proxy.test:21",
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_typed_has_no_password_and_survives_printing() {
        for text in ["http://proxy.test:3128", "http://u%40v@proxy.test:3128", "env=CORP_PROXY", "file=/etc/proxy"] {
            let spec = Spec::parse(text).unwrap();
            assert_eq!(spec.to_string(), text);
            assert_eq!(Spec::parse(&spec.to_string()), Ok(spec));
        }
        for text in ["http://u:s3cret@proxy.test:3128", "env=", "env=A B", "env=SANDBOX_RUN_X", "file=", "file=a\nb"] {
            let reason = Spec::parse(text).unwrap_err();
            assert!(!reason.contains("s3cret"), "{reason}");
        }
    }

    #[test]
    fn a_password_is_found_and_not_shown() {
        let url = Url::parse("http://u:s3cret%2fword@proxy.test:3128").unwrap();
        assert!(!format!("{url:?} {url}").contains("s3cret"));
        for text in [
            "s3cret/word",
            "http://u:s3cret%2Fword@x:1",
            "x%20%733cret%2fword",
            "x s3cret/word",
            "dTpzM2NyZXQvd29yZA==",
        ] {
            assert!(url.is_in(text.as_bytes()), "{text}");
        }
        for text in ["", "s3cret", "word", "http://proxy.test:3128"] {
            assert!(!url.is_in(text.as_bytes()), "{text}");
        }
        assert!(!Url::parse("http://u@proxy.test:3128").unwrap().is_in(b""));
    }
}
