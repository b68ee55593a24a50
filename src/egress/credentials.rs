//! Secrets that the proxy adds to requests for one host, so that the target never has them.
//!
//! The target gets a placeholder. It is replaced in one field of requests to the host that the secret is for, over TLS that was
//! verified; in any other field, path or host it is refused. The secret is in no text that this module makes, but in that field.

use std::fmt;
use std::io;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::head::Head;
use super::head::Target;
use super::host::{Host, HostName};

/// How a secret stands in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `Authorization: Bearer SECRET`.
    HttpsBearer,
    /// `Authorization: Basic`, with a user.
    HttpsBasic,
    /// The same, for git.
    GitHttps,
    /// The same for the web host, and `token SECRET` for its API.
    GhBasic,
    /// A field of its own.
    Header,
}

/// Where a secret is read, once, outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A variable of the caller.
    Env(String),
    /// A file.
    File(PathBuf),
    /// What a shell command prints.
    Command(String),
}

/// One `--credential`, read and not yet looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// How it stands in a request.
    pub kind: Kind,
    /// Whom it is for.
    pub host: HostName,
    /// Where it is.
    pub source: Source,
    /// The variable of the target that holds the placeholder.
    pub variable: Option<String>,
    /// The user of basic kinds.
    pub user: String,
    /// The field of `header`.
    pub field: String,
}

/// Who a token is presented as where nobody said otherwise.
const DEFAULT_USER: &str = "x-access-token";

impl Spec {
    /// Reads comma-separated pairs; the reason stands behind what was written.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut kind, mut host, mut source, mut variable, mut user, mut field) = (None, None, None, None, None, None);
        for pair in text.split(',') {
            let (key, value) = pair.split_once('=').ok_or_else(|| format!("has '{pair}', which is no KEY=VALUE"))?;
            let slot: &mut Option<String> = match key {
                "type" => &mut kind,
                "host" => &mut host,
                "as" => &mut variable,
                "user" => &mut user,
                "name" => &mut field,
                "env" | "file" | "command" => {
                    let read = match key {
                        "env" => Source::Env(value.to_owned()),
                        "file" => Source::File(value.into()),
                        _ => Source::Command(value.to_owned()),
                    };
                    if value.is_empty() {
                        return Err(format!("has an empty '{key}'"));
                    }
                    if source.replace(read).is_some() {
                        return Err("has more than one of 'env', 'file' and 'command'".into());
                    }
                    continue;
                }
                _ => {
                    return Err(format!(
                        "has the unknown key '{key}' (known are type, host, env, file, command, as, user, name)"
                    ));
                }
            };
            if value.is_empty() {
                return Err(format!("has an empty '{key}'"));
            }
            if slot.replace(value.to_owned()).is_some() {
                return Err(format!("has '{key}' twice"));
            }
        }
        let kind = match kind.as_deref() {
            Some("https_bearer") => Kind::HttpsBearer,
            Some("https_basic") => Kind::HttpsBasic,
            Some("git_https") => Kind::GitHttps,
            Some("gh_basic") => Kind::GhBasic,
            Some("header") => Kind::Header,
            Some(other) => {
                return Err(format!(
                    "has the unknown type '{other}' (known are https_bearer, https_basic, git_https, gh_basic, header)"
                ));
            }
            None => return Err("has no 'type'".into()),
        };
        let host = match (host, kind) {
            (Some(host), _) if host.starts_with('*') => {
                return Err("has a host with '*', and a secret is for one host".into());
            }
            (Some(host), _) => HostName::parse(&host)?,
            (None, Kind::GhBasic) => HostName::parse("github.com")?,
            (None, _) => return Err("has no 'host'".into()),
        };
        let source = source.ok_or("has none of 'env', 'file' and 'command'")?;
        if user.is_some() && !matches!(kind, Kind::HttpsBasic | Kind::GitHttps | Kind::GhBasic) {
            return Err("has a 'user', which only basic types have".into());
        }
        if user.as_ref().is_some_and(|user| user.contains(':')) {
            return Err("has a 'user' with a colon, which would end it".into());
        }
        let field = match (kind, field) {
            (Kind::Header, Some(field)) if is_token(&field) && !RESERVED.contains(&&*field.to_ascii_lowercase()) => {
                field
            }
            (Kind::Header, Some(_)) => return Err("has a 'name' that is no field of a secret".into()),
            (Kind::Header, None) => return Err("has no 'name' for its field".into()),
            (_, Some(_)) => return Err("has a 'name', which only the type header has".into()),
            (_, None) => "Authorization".into(),
        };
        let user = user.unwrap_or_else(|| DEFAULT_USER.into());
        Ok(Self { kind, host, source, variable, user, field })
    }
}

/// Fields that frame a message or name its host.
const RESERVED: [&str; 8] =
    ["host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "expect"];

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// A secret that was looked up, with the placeholder that stands for it.
pub struct Credential {
    kind: Kind,
    hosts: Vec<HostName>,
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
    /// `secret` as it was read; blanks and line ends at its edges are not part of it. `random` is 24 bytes.
    pub fn new(spec: &Spec, secret: &[u8], random: &[u8; 24]) -> Result<Self, BadSecret> {
        let trimmed = secret.trim_ascii();
        if trimmed.is_empty() {
            return Err(BadSecret("is empty"));
        }
        if trimmed.iter().any(|byte| *byte < 0x20 || *byte == 0x7f) {
            return Err(BadSecret("has more than one line, or a control character"));
        }
        let mut hosts = vec![spec.host.clone()];
        if spec.kind == Kind::GhBasic {
            hosts.extend(HostName::parse(&format!("api.{}", spec.host)).ok());
        }
        let placeholder = random.iter().fold("oa_cred_".to_owned(), |text, byte| text + &format!("{byte:02x}"));
        let (user, field) = (spec.user.clone(), spec.field.clone());
        Ok(Self { kind: spec.kind, hosts, user, field, secret: Zeroizing::new(trimmed.to_vec()), placeholder })
    }

    /// What the target holds instead.
    #[must_use]
    pub fn placeholder(&self) -> &str {
        &self.placeholder
    }

    /// Whether it is for `host`.
    #[must_use]
    pub fn is_for(&self, host: &Host) -> bool {
        matches!(host, Host::Name(name) if self.hosts.contains(name))
    }

    fn value(&self, host: &Host) -> Zeroizing<Vec<u8>> {
        let basic = || {
            let pair = Zeroizing::new([self.user.as_bytes(), b":", &self.secret].concat());
            Zeroizing::new(STANDARD.encode(&*pair))
        };
        let api = matches!((host, self.hosts.get(1)), (Host::Name(name), Some(api)) if name == api);
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
    let plain = matches!(&*head.method, "TRACE" | "OPTIONS") || !verified;
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
        Credential::new(&Spec::parse(text).unwrap(), b" s3cret\n", &[random; 24]).unwrap()
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
        for method in ["TRACE", "OPTIONS"] {
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
        assert!(credential.placeholder().starts_with("oa_cred_0707") && credential.placeholder().len() == 56);
        let list = [credential];
        assert!(echoes(&list, b"x s3cret") && !echoes(&list, b"x"));
        assert!(echoes(&list, b"Basic eC1hY2Nlc3MtdG9rZW46czNjcmV0"));
    }

    #[test]
    fn specs_are_read_strictly() {
        for text in [
            "",
            "type=https_bearer",
            "type=https_bearer,host=a.test",
            "type=x,host=a.test,env=T",
            "host=a.test,env=T",
            "type=https_bearer,host=*.a.test,env=T",
            "type=https_bearer,host=a b,env=T",
            "type=https_bearer,host=a.test,env=T,file=f",
            "type=https_bearer,host=a.test,env=",
            "type=https_bearer,host=a.test,env=T,x=y",
            "type=https_bearer,host=a.test,host=b.test,env=T",
            "type=https_bearer,host=a.test,env=T,user=u",
            "type=https_basic,host=a.test,env=T,user=u:v",
            "type=header,host=a.test,env=T",
            "type=header,host=a.test,env=T,name=Host",
            "type=header,host=a.test,env=T,name=a b",
            "type=https_bearer,host=a.test,env=T,name=X",
            "type=https_bearer,host=a.test,env=T,as=",
            "type=https_bearer,host=127.1,env=T",
        ] {
            assert!(Spec::parse(text).is_err(), "{text}");
        }
        let spec = Spec::parse("type=https_bearer,host=A.test.,command=pass show x=y,as=TOKEN").unwrap();
        assert_eq!(
            (spec.host.as_str(), spec.source, spec.variable.as_deref()),
            ("a.test", Source::Command("pass show x=y".into()), Some("TOKEN"))
        );
        let spec = Spec::parse(BEARER).unwrap();
        for secret in ["", " \n", "a\nb", "a\0"] {
            assert!(Credential::new(&spec, secret.as_bytes(), &[0; 24]).is_err(), "{secret:?}");
        }
    }
}
