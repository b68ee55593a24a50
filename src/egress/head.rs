//! Heads of requests and answers: read strictly, written anew from what was understood.
//!
//! Nothing is copied through and nothing is mended: what two readers could understand in two ways is refused, because
//! one of the two is the server. Nothing is decided here about who may reach what.

use super::body::Framing;
use super::host::{self, Host};
use super::path::{RequestPath, encode};

/// The most bytes of a head.
pub const HEAD_MAX: usize = 64 * 1024;

/// The most bytes of its first line.
pub const LINE_MAX: usize = 16 * 1024;

const FIELDS_MAX: usize = 128;

/// Why a request is refused: a status of HTTP, and what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For the answer.
    pub status: u16,
    /// To stand behind "the request".
    pub reason: &'static str,
}

const fn bad(reason: &'static str) -> Refusal {
    Refusal { status: 400, reason }
}

/// Looks for the end of a head in `bytes`, of which those before `seen` were looked at before; `None` when it is not there yet.
///
/// Line ends without a carriage return are found before anybody waits for more.
pub fn end(bytes: &[u8], seen: usize) -> Result<Option<usize>, Refusal> {
    let mut line = bytes[..seen].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut first = line == 0;
    for at in seen..bytes.len() {
        match bytes[at] {
            b'\n' => {
                if at == 0 || bytes[at - 1] != b'\r' {
                    return Err(bad("has a line that ends without a carriage return"));
                }
                if at - 1 == line {
                    return if first { Err(bad("begins with an empty line")) } else { Ok(Some(at + 1)) };
                }
                line = at + 1;
                first = false;
            }
            0 => return Err(bad("has a NUL byte in its head")),
            _ if at > 0 && bytes[at - 1] == b'\r' => return Err(bad("has a carriage return that ends no line")),
            _ => {}
        }
        if first && at >= LINE_MAX {
            return Err(Refusal { status: 414, reason: "has a first line that is too long" });
        }
        if at >= HEAD_MAX {
            return Err(Refusal { status: 431, reason: "has a head that is too long" });
        }
    }
    Ok(None)
}

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A connection for bytes of any kind.
    Tunnel,
    /// A path at the host.
    Path(RequestPath, Option<String>),
    /// The server as a whole: `OPTIONS *`.
    Server,
}

/// The head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// In capitals or not, as it came: methods are case-sensitive.
    pub method: String,
    /// Whom it is for.
    pub host: Host,
    /// At which port.
    pub port: u16,
    /// What of it.
    pub target: Target,
    /// Its own fields, without those that are about this connection only.
    pub fields: Vec<(String, Vec<u8>)>,
    /// How its body ends.
    pub body: Framing,
    /// What it says to this proxy about who sends it.
    pub token: Option<Vec<u8>>,
}

/// Where a request came in.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// At the proxy itself: it names its host.
    Proxy,
    /// Within a connection to this host and port, whose name it has to repeat.
    Within(&'a Host, u16),
}

/// Fields that are about one connection and not about the message.
const HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "http2-settings",
];

/// Fields that nobody may declare to be about the connection only.
const OWN: [&str; 6] = ["host", "content-length", "transfer-encoding", "max-forwards", "expect", "content-type"];

impl Head {
    /// Reads a whole head, its empty line included.
    pub fn parse(bytes: &[u8], place: Place) -> Result<Self, Refusal> {
        let mut room = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut room);
        match request.parse(bytes) {
            Ok(httparse::Status::Complete(length)) if length == bytes.len() => {}
            Ok(_) => return Err(bad("has a head that does not end where it should")),
            Err(httparse::Error::TooManyHeaders) => {
                return Err(Refusal { status: 431, reason: "has too many fields in its head" });
            }
            Err(httparse::Error::Version) => {
                return Err(Refusal { status: 505, reason: "has no version that is known" });
            }
            Err(_) => return Err(bad("has a head that is not HTTP")),
        }
        let (Some(method), Some(path), Some(minor)) = (request.method, request.path, request.version) else {
            return Err(bad("has a head that is not HTTP"));
        };
        // One blank between each of three words: what the parser skipped, the next one may not.
        let line = [method.as_bytes(), b" ", path.as_bytes(), b" HTTP/1.", &[b'0' + minor], b"\r\n"].concat();
        if !bytes.starts_with(&line) {
            return Err(bad("has a first line of odd spelling"));
        }
        if bytes.windows(3).any(|three| matches!(three, b"\r\n " | b"\r\n\t")) {
            return Err(bad("has a folded field"));
        }
        if path.bytes().any(|byte| !(0x21..0x7f).contains(&byte) && byte < 0x80) {
            return Err(bad("has a blank or control character in its target"));
        }
        let fields = Fields::read(request.headers, minor == 0)?;
        let (host, port, target) = whom(method, path, place)?;
        match (&fields.host, minor) {
            (Some(text), _) => {
                let text = std::str::from_utf8(text).map_err(|_| bad("has a Host that is no host"))?;
                let (named, named_port) = host::authority(text).map_err(|_| bad("has a Host that is no host"))?;
                let default = if target == Target::Tunnel { port } else { place.default_port() };
                if named != host || named_port.unwrap_or(default) != port {
                    return Err(Refusal {
                        status: 421,
                        reason: "names one host in its target and another in its Host",
                    });
                }
            }
            (None, 0) => {}
            (None, _) => return Err(bad("has no Host")),
        }
        if target == Target::Tunnel && fields.framing != Framing::Length(0) {
            return Err(bad("has a body where none belongs"));
        }
        if method == "TRACE" && fields.framing != Framing::Length(0) {
            return Err(bad("has a body where none belongs"));
        }
        let mut kept = fields.kept;
        if matches!(method, "TRACE" | "OPTIONS") {
            forward_once_less(&mut kept)?;
        }
        Ok(Self {
            method: method.to_owned(),
            host,
            port,
            target,
            fields: kept,
            body: fields.framing,
            token: fields.token,
        })
    }

    /// The path that rules are asked about; the server as a whole has one that only rules without a path match.
    #[must_use]
    pub fn path_for_rules(&self) -> RequestPath {
        match &self.target {
            Target::Path(path, _) => path.clone(),
            Target::Server | Target::Tunnel => RequestPath::whole_server(),
        }
    }

    fn host_field(&self, default: u16) -> String {
        if self.port == default { self.host.to_string() } else { format!("{}:{}", self.host, self.port) }
    }

    /// The head that the server gets, for a connection that ends after it. `default` is the port of the scheme. Where it goes
    /// `through` a proxy, that is told whom it is for.
    #[must_use]
    pub fn rebuilt(&self, default: u16, through: bool) -> Vec<u8> {
        let host = self.host_field(default);
        let start = if through { format!("http://{host}") } else { String::new() };
        let target = match &self.target {
            Target::Path(path, Some(query)) => format!("{start}{}?{query}", path.as_str()),
            Target::Path(path, None) => format!("{start}{}", path.as_str()),
            // RFC 9112, section 3.2.4: a proxy is told of the server as a whole without a path.
            Target::Server | Target::Tunnel if through => start,
            Target::Server | Target::Tunnel => "*".to_owned(),
        };
        let mut out = format!("{} {target} HTTP/1.1\r\nHost: {host}\r\n", self.method).into_bytes();
        write_fields(&mut out, &self.fields);
        match self.body {
            Framing::Length(0) if !matches!(&*self.method, "POST" | "PUT" | "PATCH") => {}
            Framing::Length(length) => out.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes()),
            Framing::Chunked | Framing::ToEnd => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        }
        out.extend_from_slice(b"Connection: close\r\n\r\n");
        out
    }
}

impl Place<'_> {
    fn default_port(self) -> u16 {
        match self {
            Self::Within(_, 443) => 443,
            Self::Proxy | Self::Within(..) => 80,
        }
    }
}

fn write_fields(out: &mut Vec<u8>, fields: &[(String, Vec<u8>)]) {
    for (name, value) in fields {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
}

/// Whom a request is for, and what of it.
fn whom(method: &str, target: &str, place: Place) -> Result<(Host, u16, Target), Refusal> {
    const NO_HOST: Refusal = bad("has a target that is no host");
    if method == "CONNECT" {
        return match (place, host::authority(target)) {
            (Place::Within(..), _) => Err(bad("asks for a tunnel within a tunnel")),
            (Place::Proxy, Ok((host, Some(port)))) => Ok((host, port, Target::Tunnel)),
            (Place::Proxy, _) => Err(bad("has a target that is no host with a port")),
        };
    }
    if method.eq_ignore_ascii_case("CONNECT") {
        return Err(bad("has a method of odd spelling"));
    }
    let (host, port, rest) = match place {
        Place::Within(host, port) => (host.clone(), port, target),
        Place::Proxy => {
            let Some(rest) = strip_scheme(target) else {
                return Err(if target.starts_with('/') || target == "*" {
                    bad("is for this proxy itself, which serves nothing")
                } else {
                    bad("has a target that is no http URL")
                });
            };
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            let (host, port) = host::authority(&rest[..end]).map_err(|_| NO_HOST)?;
            (host, port.unwrap_or(80), &rest[end..])
        }
    };
    if rest == "*" || (rest.is_empty() && method == "OPTIONS") {
        return if method == "OPTIONS" { Ok((host, port, Target::Server)) } else { Err(bad("has '*' for a path")) };
    }
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    let path = if path.is_empty() && matches!(place, Place::Proxy) { "/" } else { path };
    let path =
        RequestPath::parse(path.as_bytes()).map_err(|_| bad("has a path that servers read in different ways"))?;
    let query = query.map(|query| {
        let mut text = String::with_capacity(query.len());
        for byte in query.bytes() {
            if byte < 0x80 { text.push(char::from(byte)) } else { encode(&mut text, byte) }
        }
        text
    });
    if query.as_ref().is_some_and(|query| query.contains('#')) {
        return Err(bad("has a fragment"));
    }
    Ok((host, port, Target::Path(path, query)))
}

fn strip_scheme(target: &str) -> Option<&str> {
    let scheme = target.get(..7)?;
    scheme.eq_ignore_ascii_case("http://").then(|| &target[7..])
}

fn forward_once_less(fields: &mut [(String, Vec<u8>)]) -> Result<(), Refusal> {
    for (name, value) in fields {
        if name.eq_ignore_ascii_case("max-forwards") {
            let left = std::str::from_utf8(value).ok().and_then(|text| text.parse::<u32>().ok());
            match left {
                Some(0) => {
                    return Err(Refusal {
                        status: 405,
                        reason: "is for the last proxy on its way, which answers nothing",
                    });
                }
                Some(left) => *value = (left - 1).to_string().into_bytes(),
                None => return Err(bad("has a Max-Forwards that is no number")),
            }
        }
    }
    Ok(())
}

#[derive(Debug)]
struct Fields {
    host: Option<Vec<u8>>,
    token: Option<Vec<u8>>,
    framing: Framing,
    kept: Vec<(String, Vec<u8>)>,
}

impl Fields {
    fn read(fields: &[httparse::Header], old: bool) -> Result<Self, Refusal> {
        let (mut host, mut token, mut length, mut chunked) = (None, None, None, false);
        let dropped = dropped(fields)?;
        let mut kept = Vec::new();
        for field in fields {
            let value = field.value.trim_ascii();
            if value.iter().any(|byte| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f) {
                return Err(bad("has a control character in a field"));
            }
            let name = field.name.to_ascii_lowercase();
            match &*name {
                "host" if host.replace(value.to_vec()).is_some() => return Err(bad("has two Hosts")),
                "proxy-authorization" if token.replace(value.to_vec()).is_some() => {
                    return Err(bad("says twice who sends it"));
                }
                "content-length" if length.replace(read_length(value)?).is_some() => {
                    return Err(bad("has two Content-Lengths"));
                }
                "host" | "content-length" => {}
                "transfer-encoding" => {
                    if chunked {
                        return Err(bad("has two Transfer-Encodings"));
                    }
                    if old {
                        return Err(bad("has a Transfer-Encoding that its version does not know"));
                    }
                    if !value.eq_ignore_ascii_case(b"chunked") {
                        return Err(Refusal { status: 501, reason: "has a Transfer-Encoding other than chunked" });
                    }
                    chunked = true;
                }
                "upgrade" => {
                    return Err(Refusal { status: 501, reason: "wants another protocol, which is not passed on" });
                }
                "expect" if !value.eq_ignore_ascii_case(b"100-continue") => {
                    return Err(Refusal { status: 417, reason: "has an Expect that is not known" });
                }
                // Servers and gateways take both for one.
                _ if name.contains('_') && HOP.iter().chain(&OWN).any(|own| *own == name.replace('_', "-")) => {
                    return Err(bad("has a field of odd spelling"));
                }
                _ if dropped.contains(&name) || HOP.contains(&&*name) => {}
                _ => kept.push((field.name.to_owned(), value.to_vec())),
            }
        }
        let framing = match (length, chunked) {
            (Some(_), true) => return Err(bad("has a Content-Length and a Transfer-Encoding")),
            (Some(length), false) => Framing::Length(length),
            (None, true) => Framing::Chunked,
            (None, false) => Framing::Length(0),
        };
        Ok(Self { host, token, framing, kept })
    }
}

/// The fields that `Connection` declares to be about the connection.
fn dropped(fields: &[httparse::Header]) -> Result<Vec<String>, Refusal> {
    let mut dropped = Vec::new();
    for field in fields {
        if field.name.eq_ignore_ascii_case("connection") || field.name.eq_ignore_ascii_case("proxy-connection") {
            for word in field.value.split(|byte| *byte == b',') {
                let word = String::from_utf8_lossy(word).trim().to_ascii_lowercase();
                if OWN.contains(&&*word) {
                    return Err(bad("has a Connection that takes away what it needs"));
                }
                dropped.push(word);
            }
        }
    }
    Ok(dropped)
}

fn read_length(value: &[u8]) -> Result<u64, Refusal> {
    let digits = (1..=18).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).unwrap_or_default();
    text.parse().ok().filter(|_| digits).ok_or(bad("has a Content-Length that is no plain number"))
}

/// The head of an answer, as it goes on to who asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its status; below 200 another head follows.
    pub status: u16,
    /// The head to send.
    pub bytes: Vec<u8>,
    /// How its body ends.
    pub body: Framing,
}

impl Answer {
    /// Reads the head of an answer to a request with `method`, without what is `hidden`: fields with such a name or value, words behind the status; what is wrong with it stands behind "the answer".
    pub fn parse(bytes: &[u8], method: &str, hidden: &dyn Fn(&[u8]) -> bool) -> Result<Self, &'static str> {
        let mut room = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut answer = httparse::Response::new(&mut room);
        match answer.parse(bytes) {
            Ok(httparse::Status::Complete(length)) if length == bytes.len() => {}
            _ => return Err("has a head that is not HTTP"),
        }
        let (Some(status), Some(_)) = (answer.code, answer.version) else { return Err("has a head that is not HTTP") };
        if status == 101 || !(100..=999).contains(&status) {
            return Err("changes the protocol, which nobody asked for");
        }
        let dropped = dropped(answer.headers).map_err(|_| "has a Connection that takes away what it needs")?;
        let (mut length, mut chunked, mut kept) = (None, false, Vec::new());
        for field in answer.headers.iter() {
            let name = field.name.to_ascii_lowercase();
            let value = field.value.trim_ascii();
            match &*name {
                "content-length" => {
                    let read = read_length(value).map_err(|_| "has a Content-Length that is no plain number")?;
                    if length.is_some_and(|other| other != read) {
                        return Err("has two Content-Lengths");
                    }
                    length = Some(read);
                }
                "transfer-encoding" if chunked || !value.eq_ignore_ascii_case(b"chunked") => {
                    return Err("has a Transfer-Encoding other than chunked");
                }
                "transfer-encoding" => chunked = true,
                _ if hidden(value) || hidden(field.name.as_bytes()) => {}
                _ if dropped.contains(&name) || HOP.contains(&&*name) => {}
                _ => kept.push((field.name.to_owned(), value.to_vec())),
            }
        }
        let empty = status < 200 || status == 204 || status == 304 || method == "HEAD";
        let body = match (length, chunked) {
            _ if empty => Framing::Length(0),
            (Some(_), true) => return Err("has a Content-Length and a Transfer-Encoding"),
            (_, true) => Framing::Chunked,
            (Some(length), false) => Framing::Length(length),
            (None, false) => Framing::ToEnd,
        };
        let mut out = format!(
            "HTTP/1.1 {status} {}\r\n",
            answer.reason.filter(|text| !hidden(text.as_bytes())).unwrap_or_default()
        )
        .into_bytes();
        write_fields(&mut out, &kept);
        if chunked && status >= 200 && status != 204 {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        } else if let Some(length) = length.filter(|_| status >= 200 && status != 204) {
            out.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
        }
        if status >= 200 {
            out.extend_from_slice(b"Connection: close\r\n");
        }
        out.extend_from_slice(b"\r\n");
        Ok(Self { status, bytes: out, body })
    }
}

#[cfg(test)]
mod tests;
