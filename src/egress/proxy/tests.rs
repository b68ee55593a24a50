//! The proxy over real sockets: servers on loopback under names that a resolver of the test knows.

#![allow(
    clippy::cast_possible_truncation,
    clippy::similar_names,
    reason = "numbers of tests are small, or cut on purpose; what is heard and what is said are near to each other"
)]

#[cfg(feature = "intercept")]
mod inside;
mod limits;
mod requests;
mod smuggling;
mod tunnels;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use base64::Engine;

use super::*;
use crate::egress::host::HostName;
use crate::egress::log::Sums;
use crate::egress::rules::Rule;

/// Names of the test. Each answer is given once; the last one stays.
#[derive(Default)]
struct Names {
    answers: Mutex<BTreeMap<String, Vec<Vec<IpAddr>>>>,
    asked: Arc<AtomicUsize>,
}

impl Resolve for Names {
    fn resolve(&self, name: &HostName) -> io::Result<Vec<IpAddr>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        let list = answers.get_mut(name.as_str()).ok_or(io::ErrorKind::NotFound)?;
        Ok(if list.len() > 1 { list.remove(0) } else { list[0].clone() })
    }
}

/// How a proxy of a test differs from others.
struct Setup {
    rules: Vec<String>,
    names: BTreeMap<String, Vec<Vec<IpAddr>>>,
    limits: Limits,
    inspection: Option<Inspection>,
    token: Option<Token>,
    web: Vec<u16>,
}

/// A proxy with rules; `ok.test` and `no.test` are at 127.0.0.1, and every port of that may be reached by a name.
fn setup(rules: &[&str]) -> Setup {
    let loopback = vec![vec!["127.0.0.1".parse().unwrap()]];
    Setup {
        rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
        names: ["ok.test", "no.test", "a.ok.test"].map(|name| (name.to_owned(), loopback.clone())).into(),
        limits: Limits { opening: Duration::from_secs(5), ..Limits::default() },
        inspection: None,
        token: None,
        web: vec![80, 443],
    }
}

impl Setup {
    fn name(mut self, name: &str, answers: &[&[&str]]) -> Self {
        let read = |answer: &&[&str]| answer.iter().map(|text| text.parse().unwrap()).collect();
        self.names.insert(name.to_owned(), answers.iter().map(read).collect());
        self
    }

    fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    fn start(self) -> World {
        World::start(self, None)
    }
}

/// A running proxy.
struct World {
    _directory: tempfile::TempDir,
    socket: PathBuf,
    log: PathBuf,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<io::Result<()>>>,
    proxy: Arc<Proxy>,
    asked: Arc<AtomicUsize>,
}

impl World {
    fn start(setup: Setup, tcp: Option<TcpListener>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("s");
        let log = directory.path().join("log");
        let own = tcp.iter().map(|listener| listener.local_addr().unwrap()).collect();
        let listener = match tcp {
            Some(listener) => Listener::Tcp(listener),
            None => Listener::Unix(UnixListener::bind(&socket).unwrap()),
        };
        let (stop, stopped) = UnixStream::pair().unwrap();
        let names = Names { answers: Mutex::new(setup.names), asked: Arc::default() };
        let asked = Arc::clone(&names.asked);
        let file = std::fs::File::options().append(true).create(true).open(&log).unwrap();
        let proxy = Arc::new(Proxy {
            rules: Rules::new(setup.rules.iter().map(|rule| Rule::parse(rule).unwrap()).collect()),
            limits: setup.limits,
            resolver: Box::new(names),
            log: NetLog::new(Some(file)),
            inspection: setup.inspection,
            upstream: None,
            token: setup.token,
            web: setup.web,
            own,
            stop: stopped.into(),
        });
        let serving = Arc::clone(&proxy);
        let thread = thread::spawn(move || serve(&serving, &listener));
        Self { _directory: directory, socket, log, stop: Some(stop), thread: Some(thread), proxy, asked }
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Sends `bytes` and reads to the end; what came is text or at least looks like it.
    fn ask(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect();
        // A proxy that has heard enough may close before everything is written.
        let _sent = stream.write_all(bytes.as_ref());
        rest(&mut stream)
    }

    /// Opens a tunnel as whom the proxy is for, or gives the answer that it did not open.
    fn tunnel(&self, to: &str) -> Result<UnixStream, String> {
        let code = |token: &Token| base64::engine::general_purpose::STANDARD.encode(token.in_url());
        let token = self.proxy.token.as_ref().map(|token| format!("Proxy-Authorization: Basic {}\r\n", code(token)));
        let mut stream = self.connect();
        write!(stream, "CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{}\r\n", token.unwrap_or_default()).unwrap();
        let head = head_of(&mut stream);
        if head.starts_with("HTTP/1.1 200 ") { Ok(stream) } else { Err(head + &rest(&mut stream)) }
    }

    /// Lines of the log, once there are `count` of them.
    fn lines(&self, count: usize) -> Vec<serde_json::Value> {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let text = std::fs::read_to_string(&self.log).unwrap();
            let lines: Vec<_> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            if lines.len() >= count || Instant::now() > end {
                assert_eq!(lines.len(), count, "{text}");
                return lines;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn sums(&self) -> Sums {
        self.proxy.log.counted().sums
    }

    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.end();
        }
    }
}

fn rest(stream: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    // A reset after what was to be said is an end, too.
    let _read = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads up to an empty line and no further.
fn head_of(stream: &mut (impl Read + ?Sized)) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => bytes.push(byte[0]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A server on loopback that does the same with each connection, and what it was told over all of them.
struct Server {
    port: u16,
    heard: Arc<Mutex<Vec<u8>>>,
    connections: Arc<AtomicUsize>,
}

impl Server {
    /// Each connection is handled on a thread, and what is read through its second argument is remembered.
    fn start(handle: impl Fn(TcpStream, &mut dyn Read) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicUsize::new(0));
        let (all, count, handle) = (Arc::clone(&heard), Arc::clone(&connections), Arc::new(handle));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                let (all, handle) = (Arc::clone(&all), Arc::clone(&handle));
                thread::spawn(move || {
                    let mut listening = Listening { stream: stream.try_clone().unwrap(), heard: all };
                    handle(stream, &mut listening);
                });
            }
        });
        Self { port, heard, connections }
    }

    /// A server of HTTP that answers `answer` to whatever has a head.
    fn http(answer: &'static str) -> Self {
        Self::start(move |mut stream, heard| {
            head_of(heard);
            stream.write_all(answer.as_bytes()).unwrap();
        })
    }

    fn ok() -> Self {
        Self::http("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    }

    fn echo() -> Self {
        Self::start(|mut stream, heard| {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = heard.read(&mut buffer) {
                if stream.write_all(&buffer[..count]).is_err() {
                    return;
                }
            }
            let _shut = stream.shutdown(Shutdown::Write);
        })
    }

    fn heard(&self) -> String {
        String::from_utf8_lossy(&self.heard.lock().unwrap()).into_owned()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

struct Listening {
    stream: TcpStream,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Read for Listening {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        // What is large is not kept.
        if count < 16 * 1024 {
            self.heard.lock().unwrap().extend_from_slice(&buffer[..count]);
        }
        Ok(count)
    }
}

/// Rules that let `ok.test` be reached at a port of a server.
fn rules_for(port: u16) -> [String; 2] {
    [format!("ok.test:{port}"), format!("127.0.0.1:{port}")]
}

fn world_for(port: u16) -> Setup {
    let rules = rules_for(port);
    setup(&[&rules[0], &rules[1]])
}

fn get(host: &str, port: u16, path: &str) -> String {
    format!("GET http://{host}:{port}{path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n")
}
