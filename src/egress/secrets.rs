//! Secrets that the proxy adds to requests for one host, so that the target never has them.
//!
//! The target gets a placeholder. It is replaced in one field of requests to the host that the secret is for, over TLS that was
//! verified; in any other field, path or host it is refused. The secret is in no text that this module makes, but in that field.

use std::fmt;
use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::credentials::{Kind, Spec};
use super::head::{Head, Target};
use super::host::Host;

/// A secret that was looked up, with the placeholder that stands for it.
#[derive(Clone)]
pub struct Credential {
    kind: Kind,
    hosts: Vec<Host>,
    user: String,
    field: String,
    secret: Zeroizing<Vec<u8>>,
    placeholder: String,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("kind", &self.kind).field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

/// What is wrong with a secret, to stand behind where it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSecret(pub &'static str);

impl Credential {
    /// `secret` as it was read; blanks and line ends at its edges are not part of it.
    pub fn new(spec: &Spec, secret: &[u8], placeholder: &str) -> Result<Self, BadSecret> {
        let trimmed = secret.trim_ascii();
        if trimmed.is_empty() {
            return Err(BadSecret("is empty"));
        }
        if trimmed.iter().any(|byte| *byte < 0x20 || *byte == 0x7f) {
            return Err(BadSecret("has more than one line, or a control character"));
        }
        let (user, field) = (spec.user.clone(), spec.field.clone());
        let (secret, placeholder) = (Zeroizing::new(trimmed.to_vec()), placeholder.to_owned());
        Ok(Self { kind: spec.kind, hosts: spec.hosts(), user, field, secret, placeholder })
    }

    /// What the target holds instead.
    #[must_use]
    pub fn placeholder(&self) -> &str {
        &self.placeholder
    }

    /// Whether it is for `host`.
    #[must_use]
    pub fn is_for(&self, host: &Host) -> bool {
        self.hosts.contains(host)
    }

    /// Whether `text` has the secret in it. One of few characters is in many texts.
    #[must_use]
    pub fn is_in(&self, text: &[u8]) -> bool {
        text == self.secret.as_slice() || (self.secret.len() >= 8 && find(text, &self.secret).is_some())
    }

    fn value(&self, host: &Host) -> Zeroizing<Vec<u8>> {
        let basic = || {
            let pair = Zeroizing::new([self.user.as_bytes(), b":", &self.secret].concat());
            Zeroizing::new(STANDARD.encode(&*pair))
        };
        let api = self.hosts.get(1) == Some(host);
        Zeroizing::new(match self.kind {
            Kind::HttpsBearer => [b"Bearer ", self.secret.as_slice()].concat(),
            Kind::GhBasic if api => [b"token ", self.secret.as_slice()].concat(),
            Kind::HttpsBasic | Kind::GitHttps | Kind::GhBasic => [b"Basic ", basic().as_bytes()].concat(),
            Kind::Header => self.secret.to_vec(),
        })
    }

    /// `value` with the secret in the place of the placeholder, if that is in it, plainly or within a basic one.
    fn swapped(&self, value: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        if let Some(plain) = self.replaced(value) {
            return Some(plain);
        }
        let (scheme, code) = value.split_at_checked(6)?;
        let pair =
            Zeroizing::new(STANDARD.decode(code.trim_ascii()).ok().filter(|_| scheme.eq_ignore_ascii_case(b"basic "))?);
        let pair = self.replaced(&pair)?;
        Some(Zeroizing::new([b"Basic ", STANDARD.encode(&*pair).as_bytes()].concat()))
    }

    fn replaced(&self, value: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let at = find(value, self.placeholder.as_bytes())?;
        let rest = &value[at + self.placeholder.len()..];
        Some(Zeroizing::new([&value[..at], self.secret.as_slice(), rest].concat()))
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// Why a request with a placeholder is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misplaced;

/// Puts secrets into a request where they belong. `verified`: it goes to its host over TLS that was verified.
pub fn swap(credentials: &[Credential], head: &mut Head, verified: bool) -> Result<(), Misplaced> {
    // The first two give back what they are sent, also to servers that know no capitals.
    let plain =
        ["TRACE", "TRACK", "OPTIONS"].iter().any(|method| head.method.eq_ignore_ascii_case(method)) || !verified;
    for credential in credentials {
        let own = !plain && credential.is_for(&head.host);
        let mut there = false;
        for (name, value) in &mut head.fields {
            let agreed = name.eq_ignore_ascii_case(&credential.field);
            there |= agreed;
            if let Some(mut swapped) = credential.swapped(value) {
                if !own || !agreed {
                    return Err(Misplaced);
                }
                std::mem::swap(value, &mut swapped);
            }
        }
        let placeholder = credential.placeholder.as_bytes();
        if let Target::Path(path, query) = &head.target {
            let query = query.as_deref().unwrap_or_default();
            let within = [path.as_str(), query].iter().any(|text| find(text.as_bytes(), placeholder).is_some());
            if within && !own {
                return Err(Misplaced);
            }
        }
        if own && !there {
            head.fields.push((credential.field.clone(), credential.value(&head.host).to_vec()));
        }
    }
    Ok(())
}

/// Whether a field of an answer tells a secret.
#[must_use]
pub fn echoes(credentials: &[Credential], value: &[u8]) -> bool {
    let coded = |credential: &Credential| {
        let pair = Zeroizing::new([credential.user.as_bytes(), b":", &credential.secret].concat());
        find(value, Zeroizing::new(STANDARD.encode(&*pair)).as_bytes()).is_some()
    };
    credentials.iter().any(|credential| find(value, &credential.secret).is_some() || coded(credential))
}

/// What a source that is a file holds.
pub fn read_file(path: &std::path::Path) -> io::Result<Zeroizing<Vec<u8>>> {
    use std::io::Read;
    // No secret is longer; and a file of the wrong kind is not read to its end.
    let mut bytes = Zeroizing::new(Vec::with_capacity(SECRET_MAX));
    std::fs::File::open(path)?.take(SECRET_MAX as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The most bytes of a secret.
pub const SECRET_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::head::{Place, end};

    fn credential(text: &str, random: u8) -> Credential {
        Credential::new(&Spec::parse(text).unwrap(), b" s3cret\n", &format!("oa_cred_{random:048}")).unwrap()
    }

    fn head(host: &str, method: &str, path: &str, field: &str) -> Head {
        let text = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{field}\r\n");
        assert_eq!(end(text.as_bytes(), 0), Ok(Some(text.len())));
        Head::parse(text.as_bytes(), Place::Within(&Host::parse(host).unwrap(), 443)).unwrap()
    }

    /// What a request becomes.
    fn becomes(spec: &str, host: &str, method: &str, path: &str, field: &str) -> Result<String, Misplaced> {
        let credential = credential(spec, 7);
        let mut head = head(host, method, path, &field.replace("PLACEHOLDER", credential.placeholder()));
        swap(&[credential], &mut head, true)?;
        Ok(head
            .fields
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value)))
            .collect::<Vec<_>>()
            .join("\n"))
    }

    const BEARER: &str = "type=https_bearer,host=a.test,env=T";

    #[test]
    fn a_secret_is_added_where_it_belongs() {
        assert_eq!(becomes(BEARER, "a.test", "GET", "/", "").unwrap(), "Authorization: Bearer s3cret");
        assert_eq!(
            becomes("type=https_basic,host=a.test,env=T,user=u", "a.test", "GET", "/", "").unwrap(),
            "Authorization: Basic dTpzM2NyZXQ="
        );
        assert_eq!(
            becomes("type=git_https,host=a.test,file=f", "a.test", "GET", "/", "").unwrap(),
            "Authorization: Basic eC1hY2Nlc3MtdG9rZW46czNjcmV0"
        );
        assert_eq!(
            becomes("type=gh_basic,env=T", "api.github.com", "GET", "/", "").unwrap(),
            "Authorization: token s3cret"
        );
        assert!(
            becomes("type=gh_basic,env=T", "github.com", "GET", "/", "").unwrap().starts_with("Authorization: Basic ")
        );
        assert_eq!(
            becomes("type=header,name=X-Key,host=a.test,env=T", "a.test", "GET", "/", "X: y\r\n").unwrap(),
            "X: y\nX-Key: s3cret"
        );
        // What the target says of itself stays.
        assert_eq!(
            becomes(BEARER, "a.test", "GET", "/", "authorization: Bearer own\r\n").unwrap(),
            "authorization: Bearer own"
        );
        for method in ["TRACE", "trace", "TRACK", "OPTIONS"] {
            assert_eq!(becomes(BEARER, "a.test", method, "/", "").unwrap(), "");
        }
        for host in ["b.test", "x.a.test", "api.a.test", "127.0.0.1"] {
            assert_eq!(becomes(BEARER, host, "GET", "/", "").unwrap(), "", "{host}");
        }
    }

    #[test]
    fn a_placeholder_is_swapped_in_one_place_only() {
        let field = "Authorization: Bearer PLACEHOLDER\r\n";
        assert_eq!(becomes(BEARER, "a.test", "GET", "/", field).unwrap(), "Authorization: Bearer s3cret");
        assert!(becomes(BEARER, "b.test", "GET", "/", field).is_err());
        assert!(becomes(BEARER, "a.test", "TRACE", "/", field).is_err());
        assert!(becomes(BEARER, "a.test", "GET", "/", "X: PLACEHOLDER\r\n").is_err());
        assert!(becomes(BEARER, "b.test", "GET", "/", "X: PLACEHOLDER\r\n").is_err());
        let placeholder = credential(BEARER, 7).placeholder().to_owned();
        let basic = format!("Authorization: Basic {}\r\n", STANDARD.encode(format!("u:{placeholder}")));
        assert_eq!(becomes(BEARER, "a.test", "GET", "/", &basic).unwrap(), "Authorization: Basic dTpzM2NyZXQ=");
        assert!(becomes(BEARER, "b.test", "GET", "/", &basic).is_err());
        let path = format!("/{placeholder}?q={placeholder}");
        assert!(becomes(BEARER, "a.test", "GET", &path, "").is_ok());
        assert!(becomes(BEARER, "b.test", "GET", &path, "").is_err());
        // In the clear it is nobody's.
        let mut head = head("a.test", "GET", "/", "");
        swap(&[credential(BEARER, 7)], &mut head, false).unwrap();
        assert_eq!(head.fields, []);
    }

    #[test]
    fn nothing_tells_the_secret() {
        let credential = credential(BEARER, 7);
        assert!(!format!("{credential:?}").contains("s3cret"));
        assert!(credential.placeholder().starts_with("oa_cred_") && credential.placeholder().len() == 56);
        let list = [credential];
        assert!(echoes(&list, b"x s3cret") && !echoes(&list, b"x"));
        assert!(echoes(&list, b"Basic eC1hY2Nlc3MtdG9rZW46czNjcmV0"));
    }

    #[test]
    fn what_is_no_secret_is_refused() {
        let spec = Spec::parse(BEARER).unwrap();
        for secret in ["", " \n", "a\nb", "a\0"] {
            assert!(Credential::new(&spec, secret.as_bytes(), "p").is_err(), "{secret:?}");
        }
    }
}
