//! Clients and servers that are slow, silent or many.

use super::*;

#[test]
fn who_does_not_finish_a_head_is_told_so() {
    let world = setup(&["ok.test"]).limits(|limits| limits.opening = Duration::from_millis(200)).start();
    let begun = Instant::now();
    let mut stream = world.connect();
    stream.write_all(b"GET http://ok.test/ HTTP/1.1\r\nHost: ok").unwrap();
    assert!(rest(&mut stream).starts_with("HTTP/1.1 408 "));
    assert!(begun.elapsed() >= Duration::from_millis(200));
    // Drops do not help: the time is for the whole head.
    let mut stream = world.connect();
    let mut writer = stream.try_clone().unwrap();
    let dropping = thread::spawn(move || {
        writer.write_all(b"GET http://ok.test/ HTTP/1.1\r\nX: ").unwrap();
        while writer.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(10));
        }
    });
    assert!(rest(&mut stream).starts_with("HTTP/1.1 408 "));
    dropping.join().unwrap();
    // Silence is nobody's business.
    assert_eq!(rest(&mut world.connect()), "");
    assert_eq!(world.lines(2).len(), 2);
}

#[test]
fn who_says_nothing_more_is_left() {
    let server = Server::start(|_stream, heard| {
        let mut all = Vec::new();
        let _read = heard.read_to_end(&mut all);
    });
    let world = world_for(server.port).limits(|limits| limits.idle = Duration::from_millis(200)).start();
    assert!(world.ask(get("ok.test", server.port, "/")).starts_with("HTTP/1.1 504 "));
    let mut stream = world.tunnel(&format!("ok.test:{}", server.port)).unwrap();
    stream.write_all(b"\0").unwrap();
    assert_eq!(rest(&mut stream), "");
    let lines = world.lines(2);
    assert_eq!((&lines[0]["verdict"], &lines[1]["reason"]), (&"failed".into(), &"idle".into()));
}

#[test]
fn a_connection_has_a_time_in_all() {
    let server = Server::echo();
    let world = world_for(server.port).limits(|limits| limits.total = Some(Duration::from_millis(300))).start();
    let mut stream = world.tunnel(&format!("ok.test:{}", server.port)).unwrap();
    let begun = Instant::now();
    while stream.write_all(b"\0").is_ok() && begun.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(10));
    }
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(rest(&mut stream).trim_matches('\0'), "");
}

#[test]
fn more_than_there_are_places_wait() {
    let server = Server::echo();
    let world = world_for(server.port).limits(|limits| limits.connections = 2).start();
    let to = format!("ok.test:{}", server.port);
    let mut tunnels: Vec<UnixStream> = (0..2).map(|_| world.tunnel(&to).unwrap()).collect();
    let mut waiting = world.connect();
    write!(waiting, "CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").unwrap();
    waiting.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(waiting.read(&mut [0]).is_err());
    drop(tunnels.pop());
    waiting.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(head_of(&mut waiting).starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_thousand_tunnels_at_once() {
    const COUNT: usize = 1000;
    crate::egress::raise_open_files();
    // One thread for all of them: the test needs its threads for the proxy.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = thread::spawn(move || {
        let mut streams: Vec<TcpStream> = (0..COUNT).map(|_| listener.accept().unwrap().0).collect();
        for stream in &mut streams {
            let mut three = [0; 3];
            stream.read_exact(&mut three).unwrap();
            stream.write_all(&three).unwrap();
        }
        streams
    });
    let world = world_for(port).start();
    let mut tunnels: Vec<UnixStream> = (0..COUNT).map(|_| world.tunnel(&format!("ok.test:{port}")).unwrap()).collect();
    for (index, stream) in tunnels.iter_mut().enumerate() {
        stream.write_all(&[0, (index >> 8) as u8, index as u8]).unwrap();
    }
    for (index, stream) in tunnels.iter_mut().enumerate() {
        let mut three = [0; 3];
        stream.read_exact(&mut three).unwrap();
        assert_eq!(three, [0, (index >> 8) as u8, index as u8]);
    }
    drop(serving.join().unwrap());
    drop(tunnels);
    assert_eq!(world.lines(COUNT).len(), COUNT);
}

#[test]
fn who_goes_away_is_not_served_for_ever() {
    let server = Server::start(|_stream, heard| {
        let mut all = Vec::new();
        let _read = heard.read_to_end(&mut all);
    });
    let world = world_for(server.port).start();
    let mut stream = world.connect();
    stream.write_all(get("ok.test", server.port, "/").as_bytes()).unwrap();
    // Asked and gone, long before the server would answer.
    let end = Instant::now() + Duration::from_secs(10);
    while server.connections() == 0 && Instant::now() < end {
        thread::sleep(Duration::from_millis(5));
    }
    drop(stream);
    assert_eq!(world.lines(1)[0]["host"], "ok.test");
}

#[test]
fn the_socket_of_a_proxy_is_all_that_a_relay_needs() {
    let server = Server::ok();
    let world = world_for(server.port).start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let source = crate::egress::source::Source::Port(listener);
    let (stop, stopped) = UnixStream::pair().unwrap();
    let socket: &Path = &world.socket;
    thread::scope(|scope| {
        let relay = scope.spawn(|| crate::egress::relay::run(&source, socket, stopped.as_fd()));
        for host in ["ok.test", "no.test"] {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(get(host, server.port, "/").as_bytes()).unwrap();
            let answer = rest(&mut stream);
            assert_eq!(answer.starts_with("HTTP/1.1 200 "), host == "ok.test", "{answer}");
        }
        drop(stop);
        relay.join().unwrap().unwrap();
    });
}

/// A busy tunnel looks between two pieces whether the run is over: a look that waits is what it then consists of.
#[test]
fn a_look_does_not_wait() {
    use nix::sys::resource::{UsageWho, getrusage};
    const LOOKS: i64 = 200;
    let (_stop, stopped) = UnixStream::pair().unwrap();
    let clock = wire::Clock::new(stopped.as_fd());
    let given_up = || getrusage(UsageWho::RUSAGE_THREAD).unwrap().voluntary_context_switches();
    let look = |later: Duration| {
        let before = given_up();
        for _ in 0..LOOKS {
            let end = Instant::now() + later;
            assert_eq!(clock.wait(&[], Some(end)).unwrap_err().kind(), io::ErrorKind::TimedOut);
        }
        given_up() - before
    };
    assert!(look(Duration::from_micros(100)) >= LOOKS / 2);
    assert!(look(Duration::ZERO) < LOOKS / 2);
}
