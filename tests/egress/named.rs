//! Servers of https with names of their own, an authority that this host trusts, and calls that see both.
//!
//! Names and authority are files of this host, so that a call is made in a mount namespace in which those files are ours.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use base64::Engine;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::harness::{Call, World, find, is_root, program, skip};

/// Where Debian has all certificates that are trusted.
pub const TRUSTED: &str = "/etc/ssl/certs/ca-certificates.crt";

/// An authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl Authority {
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority of a test");
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    fn pem(&self) -> String {
        let code = base64::engine::general_purpose::STANDARD.encode(&self.certificate);
        let lines: Vec<_> = code.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
    }
}

/// A server of https that greets, and all that it was told.
pub struct Server {
    pub port: u16,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Server {
    pub fn start(authority: &Authority, name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &authority.issuer).unwrap().der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let (config, listener) = (Arc::new(config), TcpListener::bind("127.0.0.1:0").unwrap());
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&heard);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let (stream, all) = (StreamOwned::new(connection, stream.unwrap()), Arc::clone(&all));
                thread::spawn(move || answer(stream, &all));
            }
        });
        Self { port, heard }
    }

    /// What it was told so far.
    pub fn heard(&self) -> String {
        String::from_utf8_lossy(&self.heard.lock().unwrap()).into_owned()
    }

    /// What it was told since the last time.
    pub fn heard_now(&self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut *self.heard.lock().unwrap())).into_owned()
    }
}

/// Reads one request with its body, keeps it, and greets.
fn answer(mut stream: impl Read + Write, all: &Mutex<Vec<u8>>) {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                break;
            }
        }
        match stream.read(&mut part) {
            Ok(count @ 1..) => bytes.extend_from_slice(&part[..count]),
            _ => break,
        }
    }
    if !bytes.is_empty() {
        all.lock().unwrap().extend_from_slice(&bytes);
        let _sent = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n");
        let _sent = stream.flush();
    }
}

/// A world in which `a.test` and `b.test` are here, and an authority is trusted.
pub struct Named {
    pub world: World,
    pub authority: Authority,
    pub a: Server,
    pub b: Server,
}

impl Named {
    /// `None` where nothing can be mounted, or what is needed is missing.
    pub fn new() -> Option<Self> {
        if std::fs::metadata(TRUSTED).is_err() || find("curl").is_none() {
            skip("curl", "no curl here, or no certificates for it");
            return None;
        }
        let (world, authority) = (World::apart(), Authority::new());
        let (a, b) = (Server::start(&authority, "a.test"), Server::start(&authority, "b.test"));
        world.write("hosts", "127.0.0.1 localhost a.test b.test\n");
        world.write("trusted", authority.pem());
        let named = Self { world, authority, a, b };
        if named.call("true", [""; 0]).done().code != Some(0) {
            skip("names", "nothing can be mounted here");
            return None;
        }
        Some(named)
    }

    /// The rules by which both can be reached.
    pub fn allowed(&self) -> Vec<String> {
        let (a, b) = (self.a.port, self.b.port);
        let rules = [format!("a.test:{a}"), format!("b.test:{b}"), format!("127.0.0.1:{a}"), format!("127.0.0.1:{b}")];
        rules.into_iter().flat_map(|rule| ["--allow-host".to_owned(), rule]).collect()
    }

    /// A URL at one of the servers.
    pub fn url(&self, name: &str) -> String {
        let server = if name.starts_with('a') { &self.a } else { &self.b };
        match name.split_once('/') {
            Some((host, path)) => format!("https://{host}:{}/{path}", server.port),
            None => format!("https://{name}:{}/", server.port),
        }
    }

    /// A call of any program where the names are.
    pub fn call<S: AsRef<OsStr>>(&self, program: &str, words: impl IntoIterator<Item = S>) -> Call {
        let id = nix::unistd::getuid();
        let mount = format!(
            "mount --bind '{}' /etc/hosts && mount --bind '{}' {TRUSTED} && exec {}\"$@\"",
            self.world.text("hosts"),
            self.world.text("trusted"),
            // Without the rights that it took to mount.
            if is_root() { String::new() } else { format!("unshare --user --map-user={id} --map-group={id} ") },
        );
        let unshare: &[&str] = if is_root() { &["-m"] } else { &["--user", "--map-root-user", "-m"] };
        let outer = [unshare, &["--propagation", "private", "sh", "-c", &mount, "sh", program]].concat();
        let words: Vec<_> = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
        self.world.call("unshare", outer.iter().map(OsStr::new).chain(words.iter().map(OsString::as_os_str)))
    }

    /// A call of the program where both servers can be reached.
    pub fn run<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Call {
        let words: Vec<_> = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
        let allowed = self.allowed();
        let all = allowed.iter().map(OsStr::new).chain(words.iter().map(OsString::as_os_str));
        self.call(program().to_str().unwrap(), all)
    }

    /// The same for a script.
    pub fn sh(&self, options: &[&str], script: &str) -> Call {
        self.run(options.iter().chain(&["--", "sh", "-c", script]))
    }
}
