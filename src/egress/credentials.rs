//! What `--credential` says: which secret goes to which host, how it stands in a request, and where it is read.
//!
//! Knows no secret: those are in [`super::secrets`].

use std::fmt;
use std::path::PathBuf;

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
    /// As it was written.
    text: String,
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
    /// Reads comma-separated pairs; the reason stands behind what was written. A `command` ends where
    /// another pair begins, and has all other commas.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut kind, mut host, mut source, mut variable, mut user, mut field) = (None, None, None, None, None, None);
        let mut rest = Some(text);
        while let Some(pairs) = rest {
            let mut commas = pairs.match_indices(',').map(|(at, _)| at);
            let begins = |at: &usize| KEYS.iter().any(|key| is_pair(&pairs[at + 1..], key));
            let end = if is_pair(pairs, "command") { commas.find(begins) } else { commas.next() };
            let (pair, behind) = end.map_or((pairs, None), |at| (&pairs[..at], Some(&pairs[at + 1..])));
            rest = behind;
            let (key, value) = pair
                .split_once('=')
                .ok_or("has a part that is no KEY=VALUE, as in type=https_bearer,host=HOST,env=NAME")?;
            if value.is_empty() {
                return Err(format!("has an empty '{key}'"));
            }
            if value.contains(|c: char| c.is_control()) {
                return Err(format!("has a control character in '{key}'"));
            }
            let slot: &mut Option<String> = match key {
                "type" => &mut kind,
                "host" => &mut host,
                "as" => &mut variable,
                "user" => &mut user,
                "name" => &mut field,
                "env" | "file" | "command" => {
                    let read = match key {
                        "env" if is_variable(value) => Source::Env(value.to_owned()),
                        "env" => return Err(format!("has '{value}', which is no name of a variable")),
                        "file" => Source::File(value.into()),
                        _ => Source::Command(value.to_owned()),
                    };
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
            (Some(host), _) if host.parse::<std::net::IpAddr>().is_ok() => {
                return Err("has an address as 'host', and a secret is for a name".into());
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
        if let Some(name) = variable.as_ref().filter(|name| !is_variable(name)) {
            return Err(format!("has '{name}', which is no name of a variable"));
        }
        let user = user.unwrap_or_else(|| DEFAULT_USER.into());
        Ok(Self { text: text.to_owned(), kind, host, source, variable, user, field })
    }

    /// The hosts that it is for.
    #[must_use]
    pub fn hosts(&self) -> Vec<Host> {
        let mut hosts = vec![self.host.clone()];
        if self.kind == Kind::GhBasic {
            hosts.extend(HostName::parse(&format!("api.{}", self.host)).ok());
        }
        hosts.into_iter().map(Host::Name).collect()
    }

    /// The variables of the target that hold the placeholder: the one that was named; otherwise the one that holds the secret
    /// outside, and those that programs for the service read.
    #[must_use]
    pub fn variables(&self) -> Vec<&str> {
        match (&self.variable, &self.source, self.kind) {
            (None, _, Kind::GhBasic) => vec!["GH_TOKEN", "GITHUB_TOKEN"],
            (Some(name), ..) | (None, Source::Env(name), _) => vec![name],
            (None, Source::File(_) | Source::Command(_), _) => Vec::new(),
        }
    }

    /// The same with another file.
    #[must_use]
    pub fn with_file(&self, path: PathBuf) -> Self {
        let Source::File(old) = &self.source else { return self.clone() };
        let part = |path: &std::path::Path| format!("file={}", path.display());
        // As a whole pair: nothing else has the key in it.
        let pairs = self.text.split(',').map(|pair| if pair == part(old) { part(&path) } else { pair.to_owned() });
        Self { text: pairs.collect::<Vec<_>>().join(","), source: Source::File(path), ..self.clone() }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether `text` can be the name of a variable, and of none that is ours.
fn is_variable(text: &str) -> bool {
    crate::policy::env::EnvName::parse(text).is_ok()
}

/// What begins a pair.
const KEYS: [&str; 8] = ["type", "host", "env", "file", "command", "as", "user", "name"];

/// Whether `text` begins with a pair of `key`.
fn is_pair(text: &str, key: &str) -> bool {
    text.strip_prefix(key).is_some_and(|rest| rest.starts_with('='))
}

/// Fields that frame a message or name its host, and those of a proxy.
const RESERVED: [&str; 11] = [
    "proxy-authorization",
    "proxy-connection",
    "keep-alive",
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "te",
    "trailer",
    "upgrade",
    "expect",
];

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

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
            "type=header,host=a.test,env=T,name=Proxy-Authorization",
            "type=https_bearer,host=a.test,env=T,name=X",
            "type=https_bearer,host=a.test,env=T,as=",
            "type=https_bearer,host=127.1,env=T",
            "type=https_bearer,host=a.test,env=T=x",
            "type=https_bearer,host=a.test,env=T,as=1",
            "type=https_bearer,host=a.test,env=SANDBOX_RUN_X",
            "type=https_bearer,host=a.test,file=a\nb",
        ] {
            assert!(Spec::parse(text).is_err(), "{text}");
        }
        let spec = Spec::parse("type=https_bearer,host=A.test.,command=pass show x=y,as=TOKEN").unwrap();
        assert_eq!(
            (spec.host.as_str(), spec.source, spec.variable.as_deref()),
            ("a.test", Source::Command("pass show x=y".into()), Some("TOKEN"))
        );
        let spec = Spec::parse("type=https_bearer,command=f a=b,x=y | cut -d, -f2,host=a.test").unwrap();
        assert_eq!(spec.source, Source::Command("f a=b,x=y | cut -d, -f2".into()));
        assert!(Spec::parse("type=https_bearer,host=a.test,command=f -d,env=x").is_err());
    }

    #[test]
    fn a_placeholder_stands_where_programs_look() {
        let variables = |text: &str| Spec::parse(text).unwrap().variables().join(" ");
        assert_eq!(variables("type=https_bearer,host=a.test,env=T"), "T");
        assert_eq!(variables("type=https_bearer,host=a.test,env=T,as=X"), "X");
        assert_eq!(variables("type=https_bearer,host=a.test,file=f"), "");
        assert_eq!(variables("type=gh_basic,command=gh auth token"), "GH_TOKEN GITHUB_TOKEN");
    }

    #[test]
    fn another_file_takes_the_place_of_one() {
        let spec = Spec::parse("type=https_bearer,file=f,host=a.test").unwrap().with_file("/x/f".into());
        assert_eq!(spec.to_string(), "type=https_bearer,file=/x/f,host=a.test");
        assert_eq!(Spec::parse(&spec.to_string()).unwrap(), spec);
    }
}
