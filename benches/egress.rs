//! Cost of the way out: a client in a sandbox against the same client on the host, in turn and in one run.
//!
//! `cargo bench --bench egress [-- MIB]`, 1 for a round that only shows that it works; `SANDBOX_RUN_BIN` names another build of
//! the program. This program is client, server and measure; what is measured are real runs of `sandbox-run`. Absolute numbers
//! are the machine's, ratios are ours.

#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::expect_used, clippy::cast_precision_loss)]

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use sandbox_run::egress::address::Resolve;
use sandbox_run::egress::host::HostName;
use sandbox_run::egress::log::NetLog;
use sandbox_run::egress::proxy::{Limits, Listener, Proxy, serve};
use sandbox_run::egress::raise_open_files;
use sandbox_run::egress::rules::{Rule, Rules};

/// Each is tried so often, in turn, so that what else this machine does is shared.
const TURNS: usize = 5;

fn main() {
    raise_open_files();
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(place) = words.iter().position(|word| word == "client") {
        return client(&words[place + 1..]);
    }
    let mib: usize = words.iter().find_map(|word| word.parse().ok()).unwrap_or(1024);
    let program =
        std::env::var_os("SANDBOX_RUN_BIN").map_or_else(|| env!("CARGO_BIN_EXE_sandbox-run").into(), PathBuf::from);
    println!("program: {}", program.display());
    let top = tempfile::tempdir_in("/var/tmp").expect("temporary directory");
    let here = top.path().join("here");
    std::fs::create_dir(&here).expect("directory");
    let (turns, connections, starts) = if mib == 1 { (1, 50, 1) } else { (TURNS, 1000, 100) };
    let place = Place { program, here, ways: ways(top.path()), turns };
    for order in ["down", "up"] {
        let rates = place.each(|way| mib as f64 / place.measure(way, &[order, &mib.to_string()])[0], f64::max);
        let told = |rate: f64| format!("{rate:.0} MiB/s, {:.0} %", 100.0 * rate / rates[0]);
        place.say(&format!("{mib} MiB {order}"), &rates.iter().map(|rate| told(*rate)).collect::<Vec<_>>());
    }
    let mut medians = vec![f64::INFINITY; place.ways.len()];
    let mut number = 0;
    let slowest = place.each(
        |way| {
            let times = place.measure(way, &["small", &connections.to_string()]);
            let median = &mut medians[number % place.ways.len()];
            *median = median.min(times[0]);
            number += 1;
            times[1]
        },
        f64::min,
    );
    let told: Vec<_> = medians
        .iter()
        .zip(&slowest)
        .map(|(median, slow)| format!("median {:.2} ms, p99 {:.2} ms", median * 1e3, slow * 1e3))
        .collect();
    place.say("connection and echo", &told);
    let many = place.each(|way| place.measure(way, &["many", &connections.to_string()])[0], f64::min);
    place.say(
        &format!("{connections} connections at once"),
        &many.iter().map(|time| format!("{:.0} ms", time * 1e3)).collect::<Vec<_>>(),
    );
    place.starts(starts);
}

/// How a client gets to the server.
struct Way {
    name: &'static str,
    /// Options of `sandbox-run`; without any the client is no part of a run.
    options: Vec<String>,
    /// What the client is told.
    words: Vec<String>,
}

struct Place {
    program: PathBuf,
    here: PathBuf,
    ways: Vec<Way>,
    turns: usize,
}

impl Place {
    /// The best of some turns for each way.
    fn each(&self, mut measure: impl FnMut(&Way) -> f64, better: fn(f64, f64) -> f64) -> Vec<f64> {
        let mut best = vec![f64::NAN; self.ways.len()];
        for _ in 0..self.turns {
            for (way, best) in self.ways.iter().zip(&mut best) {
                *best = better(*best, measure(way));
            }
        }
        best
    }

    fn say(&self, what: &str, told: &[String]) {
        for (way, told) in self.ways.iter().zip(told) {
            println!("{what}, {}: {told}", way.name);
        }
    }

    /// What a client prints.
    fn measure(&self, way: &Way, words: &[&str]) -> Vec<f64> {
        let own = std::env::current_exe().expect("own name");
        let mut command = if way.options.is_empty() {
            Command::new(&own)
        } else {
            let mut command = Command::new(&self.program);
            command.args(&way.options).arg("--").arg(&own);
            command
        };
        command.arg("client").args(&way.words).args(words).current_dir(&self.here);
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().expect("starts");
        assert!(output.status.success(), "{command:?} failed");
        let text = String::from_utf8(output.stdout).expect("text");
        text.split_whitespace().map(|word| word.parse().expect("a number")).collect()
    }

    /// What rules cost a run that asks for nothing.
    fn starts(&self, rounds: usize) {
        let mut times = [&[][..], &["--allow-host", "ok.test"]].map(|options| (options, Vec::new()));
        for _ in 0..rounds {
            for (options, times) in &mut times {
                let mut command = Command::new(&self.program);
                command.args(*options).args(["--", "/bin/true"]).current_dir(&self.here).stdin(Stdio::null());
                let start = Instant::now();
                assert!(command.status().expect("starts").success(), "{command:?} failed");
                times.push(start.elapsed());
            }
        }
        let [without, with] = times.map(|(_, mut times)| {
            times.sort_unstable();
            times[times.len() / 2].as_secs_f64() * 1e3
        });
        println!("start: {without:.2} ms without rules, {with:.2} ms with, {:.2} ms more", with - without);
    }
}

/// Servers and ways to them, for as long as this program runs.
fn ways(top: &Path) -> Vec<Way> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
    let port = listener.local_addr().expect("an address").port();
    nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::MAXCONN).expect("a longer queue");
    thread::spawn(move || listener.incoming().for_each(|stream| start_server(stream.expect("a connection"))));

    let plain = top.join("plain");
    let listener = UnixListener::bind(&plain).expect("listens");
    nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::MAXCONN).expect("a longer queue");
    thread::spawn(move || listener.incoming().for_each(|stream| start_server(stream.expect("a connection"))));

    let filtered = top.join("filtered");
    let listener = Listener::Unix(UnixListener::bind(&filtered).expect("listens"));
    thread::spawn(move || start_proxy(port, &listener));

    let direct = vec!["direct".to_owned(), port.to_string()];
    let connect = |proxy: u16| vec!["connect".to_owned(), proxy.to_string(), port.to_string()];
    let relay = |socket: &Path| {
        let socket = socket.to_str().expect("text").to_owned();
        vec!["--egress-socket".to_owned(), socket, "--egress-port".to_owned(), "8642".to_owned()]
    };
    vec![
        Way { name: "directly", options: Vec::new(), words: direct },
        Way {
            name: "our proxy",
            options: vec!["--allow-host".to_owned(), format!("127.0.0.1:{port}")],
            words: connect(3128),
        },
        Way { name: "relay to a server", options: relay(&plain), words: vec!["direct".to_owned(), "8642".to_owned()] },
        Way { name: "relay to a proxy", options: relay(&filtered), words: connect(8642) },
    ]
}

struct Nobody;

impl Resolve for Nobody {
    fn resolve(&self, _: &HostName) -> io::Result<Vec<IpAddr>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Somebody else's proxy, as far as a run can tell.
fn start_proxy(port: u16, listener: &Listener) {
    let (_stop, stopped) = UnixStream::pair().expect("a pair");
    let proxy = Arc::new(Proxy {
        rules: Rules::new(vec![Rule::parse(&format!("127.0.0.1:{port}")).expect("a rule")]),
        limits: Limits::default(),
        resolver: Box::new(Nobody),
        log: NetLog::default(),
        inspection: None,
        upstream: None,
        token: None,
        web: vec![80, 443],
        own: Vec::new(),
        stop: stopped.into(),
    });
    serve(&proxy, listener).expect("serves");
}

fn start_server(mut stream: impl Read + Write + Send + 'static) {
    thread::Builder::new().stack_size(64 * 1024).spawn(move || serve_one(&mut stream)).expect("a thread");
}

/// An order is a zero, so that a proxy takes it for neither TLS nor HTTP, and a letter.
fn serve_one(stream: &mut (impl Read + Write)) {
    let mut order = [0; 2];
    if stream.read_exact(&mut order).is_err() {
        return;
    }
    if order[1] == b's' {
        stream.write_all(&order).expect("writes");
        // Until the other side has had enough.
        let _read = stream.read(&mut [0]);
        return;
    }
    let mut mib = [0; 8];
    stream.read_exact(&mut mib).expect("a number");
    let mut buffer = vec![0; 1024 * 1024];
    if order[1] == b'd' {
        for _ in 0..u64::from_be_bytes(mib) {
            stream.write_all(&buffer).expect("writes");
        }
    } else {
        while let Ok(1..) = stream.read(&mut buffer) {}
        stream.write_all(b"!").expect("writes");
    }
}

/// `direct PORT` or `connect PROXY PORT`, then `down MIB`, `up MIB`, `small COUNT` or `many COUNT`. Prints seconds.
fn client(words: &[String]) {
    let number = |index: usize| words[index].parse::<u16>().expect("a number");
    let here = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let (first, behind, rest) =
        if words[0] == "direct" { (number(1), None, &words[2..]) } else { (number(1), Some(number(2)), &words[3..]) };
    let connect = || {
        let mut stream = TcpStream::connect(here(first)).expect("connects");
        if let Some(port) = behind {
            let host = here(port);
            write!(stream, "CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("writes");
            let mut answer = [0; 39];
            stream.read_exact(&mut answer).expect("an answer");
            assert!(answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(b"\r\n\r\n"));
        }
        stream
    };
    let count: usize = rest[1].parse().expect("a number");
    let start = Instant::now();
    match rest[0].as_str() {
        "down" => println!("{}", transfer(connect(), *b"\0d", count).as_secs_f64()),
        "up" => println!("{}", transfer(connect(), *b"\0u", count).as_secs_f64()),
        "small" => {
            let mut times: Vec<Duration> = (0..count)
                .map(|_| {
                    let start = Instant::now();
                    let mut stream = connect();
                    stream.write_all(b"\0s").expect("writes");
                    stream.read_exact(&mut [0; 2]).expect("an echo");
                    start.elapsed()
                })
                .collect();
            times.sort_unstable();
            println!("{} {}", times[count / 2].as_secs_f64(), times[count * 99 / 100].as_secs_f64());
        }
        _ => {
            let mut streams: Vec<TcpStream> = (0..count).map(|_| connect()).collect();
            for stream in &mut streams {
                stream.write_all(b"\0s").expect("writes");
            }
            for stream in &mut streams {
                stream.read_exact(&mut [0; 2]).expect("an echo");
            }
            println!("{}", start.elapsed().as_secs_f64());
        }
    }
}

/// How long so many mebibytes take in the direction of `order`.
fn transfer(mut stream: TcpStream, order: [u8; 2], mib: usize) -> Duration {
    let mut buffer = vec![0; 1024 * 1024];
    let start = Instant::now();
    stream.write_all(&order).expect("writes");
    stream.write_all(&u64::try_from(mib).expect("fits").to_be_bytes()).expect("writes");
    if order[1] == b'u' {
        for _ in 0..mib {
            stream.write_all(&buffer).expect("writes");
        }
        stream.shutdown(Shutdown::Write).expect("ends");
    }
    let mut total = 0;
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        total += count;
    }
    assert_eq!(total, if order[1] == b'd' { mib * 1024 * 1024 } else { 1 });
    start.elapsed()
}
