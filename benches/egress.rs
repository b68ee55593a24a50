//! Cost of the way out: relay and proxy against the same connection made directly, in one run.
//!
//! `cargo bench --bench egress [-- MIB]`. All parts are threads of one process, so the numbers of a sandbox are no better.

#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::expect_used, clippy::cast_precision_loss)]

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use sandbox_run::egress::address::Resolve;
use sandbox_run::egress::host::HostName;
use sandbox_run::egress::log::NetLog;
use sandbox_run::egress::proxy::{Limits, Listener, Proxy, serve};
use sandbox_run::egress::rules::{Rule, Rules};
use sandbox_run::egress::{raise_open_files, relay};

struct Loopback;

impl Resolve for Loopback {
    fn resolve(&self, _: &HostName) -> io::Result<Vec<IpAddr>> {
        Ok(vec![IpAddr::from([127, 0, 0, 1])])
    }
}

fn main() {
    let mib = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(1024);
    raise_open_files();
    let server = start_server();
    let (relay, _stops) = start_way(server.port());
    let connect = |through: bool| {
        if !through {
            return TcpStream::connect(server).expect("connects");
        }
        let mut stream = TcpStream::connect(relay).expect("connects");
        write!(stream, "CONNECT ok.test:{0} HTTP/1.1\r\nHost: ok.test:{0}\r\n\r\n", server.port()).expect("writes");
        let mut answer = [0; 39];
        stream.read_exact(&mut answer).expect("an answer");
        assert!(answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(b"\r\n\r\n"));
        stream
    };
    for (name, order) in [("down", *b"\0d"), ("up", *b"\0u")] {
        // Each in turn, so that what else this machine does is shared.
        let [mut direct, mut through] = [f64::INFINITY, f64::INFINITY];
        for _ in 0..3 {
            direct = direct.min(transfer(connect(false), order, mib));
            through = through.min(transfer(connect(true), order, mib));
        }
        let rate = |seconds: f64| mib as f64 / seconds;
        println!(
            "{mib} MiB {name}: {:.0} MiB/s directly, {:.0} MiB/s through relay and proxy, {:.0} %",
            rate(direct),
            rate(through),
            100.0 * direct / through
        );
    }
    let rounds = 1000;
    let small = |through: bool| {
        let mut times: Vec<f64> = (0..rounds)
            .map(|_| {
                let start = Instant::now();
                let mut stream = connect(through);
                stream.write_all(b"\0e").expect("writes");
                stream.read_exact(&mut [0; 2]).expect("an echo");
                start.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        times.sort_by(f64::total_cmp);
        [times[rounds / 2], times[rounds * 99 / 100]]
    };
    let ([direct, direct_99], [through, through_99]) = (small(false), small(true));
    println!(
        "connection and echo: median {direct:.0} µs directly, {through:.0} µs through; p99 {direct_99:.0} and {through_99:.0} µs"
    );

    let start = Instant::now();
    let mut streams: Vec<TcpStream> = (0..1000).map(|_| connect(true)).collect();
    for stream in &mut streams {
        stream.write_all(b"\0e").expect("writes");
    }
    for stream in &mut streams {
        stream.read_exact(&mut [0; 2]).expect("an echo");
    }
    println!("1000 at once: {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
}

/// Seconds for so many mebibytes in the direction of `order`.
fn transfer(mut stream: TcpStream, order: [u8; 2], mib: usize) -> f64 {
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
    start.elapsed().as_secs_f64()
}

fn start_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            thread::Builder::new().stack_size(64 * 1024).spawn(move || serve_one(&mut stream)).expect("a thread");
        }
    });
    address
}

fn serve_one(stream: &mut TcpStream) {
    let mut order = [0; 2];
    if stream.read_exact(&mut order).is_err() {
        return;
    }
    if order[1] == b'e' {
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

/// A relay and a proxy, and what has to be kept for them to go on.
fn start_way(port: u16) -> (SocketAddr, [UnixStream; 2]) {
    let directory = tempfile::tempdir().expect("a directory").keep();
    let socket = directory.join("s");
    let listener = Listener::Unix(UnixListener::bind(&socket).expect("listens"));
    let (stop, stopped) = UnixStream::pair().expect("a pair");
    let rule = |text: String| Rule::parse(&text).expect("a rule");
    let proxy = Arc::new(Proxy {
        rules: Rules::new(vec![rule(format!("ok.test:{port}")), rule(format!("127.0.0.1:{port}"))]),
        limits: Limits::default(),
        resolver: Box::new(Loopback),
        log: NetLog::default(),
        inspection: None,
        token: None,
        web: vec![80, 443],
        own: Vec::new(),
        stop: stopped.into(),
    });
    thread::spawn(move || serve(&proxy, &listener));
    let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
    let address = listener.local_addr().expect("an address");
    let (stop_relay, stopped) = UnixStream::pair().expect("a pair");
    thread::spawn(move || {
        relay::run(&listener, &socket, stopped.as_fd()).expect("relays");
        std::fs::remove_dir_all(&directory)
    });
    (address, [stop, stop_relay])
}
