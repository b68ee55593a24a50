//! CONNECT and SOCKS: what passes, what is looked at first, and how both ends end.

use super::*;
use crate::egress::hello::{UNRECOGNIZED_NAME, example};

fn socks(world: &World, kind: u8, address: &[u8], port: u16) -> (UnixStream, u8) {
    let mut stream = world.connect();
    stream.write_all(&[5, 1, 0]).unwrap();
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [5, 0]);
    stream.write_all(&[&[5, 1, 0, kind][..], address, &port.to_be_bytes()].concat()).unwrap();
    let mut answer = [0; 10];
    stream.read_exact(&mut answer).unwrap();
    (stream, answer[1])
}

#[test]
fn a_tunnel_carries_bytes_and_ends_one_by_one() {
    let server = Server::echo();
    let world = world_for(server.port).start();
    let mut stream = world.tunnel(&format!("ok.test:{}", server.port)).unwrap();
    stream.write_all(b"\0hello").unwrap();
    let mut six = [0; 6];
    stream.read_exact(&mut six).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&mut stream), "");
    let line = &world.lines(1)[0];
    assert_eq!(
        (&line["verdict"], &line["kind"], &line["bytes_up"], &line["bytes_down"]),
        (&"allowed".into(), &"connect".into(), &6.into(), &6.into())
    );
}

#[test]
fn a_tunnel_elsewhere_is_denied_in_its_first_line() {
    let server = Server::echo();
    let world = world_for(server.port).start();
    let answer = world.tunnel("no.test:443").unwrap_err();
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden by sandbox-run, hint: --allow-host no.test\r\n"), "{answer}");
    assert!(world.tunnel("ok.test:22").unwrap_err().contains("only other ports"));
    assert_eq!(server.connections(), 0);
}

#[test]
fn socks_reaches_the_same_and_no_more() {
    let server = Server::echo();
    let port = server.port;
    let world = world_for(port).start();
    for (kind, address) in [(3, &b"\x07ok.test"[..]), (1, &[127, 0, 0, 1]), (3, b"\x09127.0.0.1")] {
        let (mut stream, reply) = socks(&world, kind, address, port);
        assert_eq!(reply, 0);
        stream.write_all(b"\0x").unwrap();
        stream.read_exact(&mut [0; 2]).unwrap();
    }
    let connections = server.connections();
    for (kind, address, port, expected) in [
        (3, &b"\x07no.test"[..], port, 2),
        (3, b"\x07ok.test", 22, 2),
        (1, &[127, 0, 0, 2], port, 2),
        (3, b"\x0a2130706433", port, 1),
        (3, b"\x08ok.test\0", port, 1),
        (9, b"", port, 8),
    ] {
        let (_, reply) = socks(&world, kind, address, port);
        assert_eq!(reply, expected, "{address:?}");
    }
    assert_eq!(server.connections(), connections);
    assert_eq!(world.lines(9).iter().filter(|line| line["verdict"] == "denied").count(), 6);
    let mut stream = world.connect();
    stream.write_all(&[4, 1, 0, 80, 1, 1, 1, 1, 0]).unwrap();
    assert!(!rest(&mut stream).starts_with("\0Z"));
}

/// At whichever port: what a client speaks is seen.
#[test]
fn a_client_of_socks_that_speaks_http_hears_why() {
    let server = Server::ok();
    let port = server.port;
    let world = world_for(port).start();
    let ask = |request: &str| {
        let (mut stream, reply) = socks(&world, 3, b"\x07ok.test", port);
        assert_eq!(reply, 0);
        stream.write_all(request.as_bytes()).unwrap();
        let _shut = stream.shutdown(Shutdown::Write);
        rest(&mut stream)
    };
    let request = |first: &str, host: &str| format!("{first} / HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
    let answer = ask(&request("GET", "ok.test"));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let answer = ask(&request("GET", "no.test"));
    assert!(answer.starts_with("HTTP/1.1 4") && answer.contains("\r\n\r\nsandbox-run: "), "{answer}");
    // Another protocol is not answered in this one.
    let answer = ask("\x16\x03\x01 no");
    assert!(!answer.contains("HTTP"), "{answer}");
}

#[test]
fn socks_with_a_password() {
    let server = Server::echo();
    let mut setup = world_for(server.port);
    setup.token = Some(Token::new("user:pass"));
    let world = setup.start();
    let say = |message: &[u8]| {
        let mut stream = world.connect();
        stream.write_all(&[5, 2, 0, 2]).unwrap();
        stream.read_exact(&mut [0; 2]).unwrap();
        stream.write_all(message).unwrap();
        let mut answer = [0; 2];
        stream.read_exact(&mut answer).unwrap();
        answer
    };
    assert_eq!(say(b"\x01\x04user\x04pass"), [1, 0]);
    assert_eq!(say(b"\x01\x04user\x04pasS"), [1, 1]);
    let mut stream = world.connect();
    stream.write_all(&[5, 1, 0]).unwrap();
    assert_eq!(rest(&mut stream).as_bytes().first(), Some(&5));
    // None of it is a request of whom the proxy is for.
    assert_eq!((world.sums(), world.lines(0).len()), (Sums::default(), 0));
    let mut stream = world.connect();
    stream.write_all(b"\x05\x01\x02\x01\x04user\x04pass\x05\x01\x00\x03\x06x.test\x00\x50").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    rest(&mut stream);
    assert_eq!((world.sums().denied, world.lines(1).len()), (1, 1));
}

#[test]
fn tls_asks_for_the_host_of_its_tunnel() {
    let server = Server::echo();
    let port = server.port;
    let mut setup = world_for(port);
    setup.web = vec![port];
    let world = setup.start();
    let to = format!("ok.test:{port}");
    let hello = example(&["OK.test"]);
    let mut stream = world.tunnel(&to).unwrap();
    for byte in &hello {
        stream.write_all(&[*byte]).unwrap();
    }
    let mut echoed = vec![0; hello.len()];
    stream.read_exact(&mut echoed).unwrap();
    assert_eq!(echoed, hello);
    // From here on it is bytes.
    stream.write_all(b"GET / HTTP/1.1\r\nHost: no.test\r\n\r\n").unwrap();
    stream.read_exact(&mut [0; 10]).unwrap();
    let heard = server.heard().len();

    for names in [&["no.test"][..], &["ok.test.no.test"], &[], &["ok.test", "no.test"], &["127.0.0.1"]] {
        let mut stream = world.tunnel(&to).unwrap();
        stream.write_all(&example(names)).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.is_empty() || answer == UNRECOGNIZED_NAME, "{answer:?}");
    }
    for bytes in [&b"SSH-2.0-x\r\n"[..], b"\0\0", b"\x80\x2e\x01\x03\x01", b"\x16\x03\x01\0\x05\x02\0\0\x01\0"] {
        let mut stream = world.tunnel(&to).unwrap();
        stream.write_all(bytes).unwrap();
        assert_eq!(rest(&mut stream), "");
    }
    assert_eq!(server.heard().len(), heard);
    // The first one goes on.
    assert_eq!(world.lines(9).iter().filter(|line| line["verdict"] == "denied").count(), 9);
    // An address was granted with all names that are there.
    let mut stream = world.tunnel(&format!("127.0.0.1:{port}")).unwrap();
    stream.write_all(&example(&[])).unwrap();
    stream.read_exact(&mut [0; 5]).unwrap();
}

#[test]
fn requests_in_a_tunnel_are_looked_at() {
    let server = Server::ok();
    let port = server.port;
    let rules = rules_for(port);
    let world = setup(&[&rules[0], &rules[1]]).start();
    let to = format!("ok.test:{port}");
    let ask = |text: String| {
        let mut stream = world.tunnel(&to).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        rest(&mut stream)
    };
    assert!(ask(format!("GET /x HTTP/1.1\r\nHost: {to}\r\n\r\n")).ends_with("hello"));
    let heard = server.heard();
    assert!(heard.starts_with("GET /x HTTP/1.1\r\n") && heard.contains("Connection: close"), "{heard}");
    for text in [
        format!("GET / HTTP/1.1\r\nHost: no.test:{port}\r\n\r\n"),
        format!("GET http://no.test/ HTTP/1.1\r\nHost: {to}\r\n\r\n"),
        format!("\r\nGET / HTTP/1.1\r\nHost: no.test:{port}\r\n\r\n"),
        format!("get / http/1.1\r\nHost: no.test:{port}\r\n\r\n"),
        format!("GET / HTTP/1.1\nHost: no.test:{port}\n\n"),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n"),
    ] {
        let answer = ask(text.clone());
        assert!(answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.1 5"), "{text} {answer}");
    }
    assert_eq!(server.heard(), heard);
    let lines = world.lines(8);
    assert_eq!((&lines[0]["kind"], &lines[0]["path"]), (&"connect".into(), &"/x".into()));
}

#[test]
fn a_server_may_speak_first_where_the_web_is_not() {
    let server = Server::start(|mut stream, heard| {
        stream.write_all(b"220 hello\r\n").unwrap();
        let mut five = [0; 5];
        heard.read_exact(&mut five).unwrap();
        stream.write_all(&five).unwrap();
    });
    let world = world_for(server.port).start();
    let mut stream = world.tunnel(&format!("ok.test:{}", server.port)).unwrap();
    let mut greeting = [0; 11];
    stream.read_exact(&mut greeting).unwrap();
    stream.write_all(b"HELO\n").unwrap();
    assert_eq!(rest(&mut stream), "HELO\n");
}

#[test]
fn much_crosses_a_tunnel_both_ways() {
    const LENGTH: usize = 64 * 1024 * 1024;
    let server = Server::echo();
    let world = world_for(server.port).start();
    let mut stream = world.tunnel(&format!("ok.test:{}", server.port)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let bytes: Vec<u8> = (0..LENGTH).map(|index| (index % 253) as u8).collect();
    let sent = bytes.clone();
    let sender = thread::spawn(move || {
        writer.write_all(&sent).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    sender.join().unwrap();
    assert!(got == bytes, "{} of {LENGTH} bytes, or others", got.len());
    let line = &world.lines(1)[0];
    assert_eq!((&line["bytes_up"], &line["bytes_down"]), (&LENGTH.into(), &LENGTH.into()));
}

#[test]
fn the_end_of_the_run_ends_everything() {
    let server = Server::echo();
    let mut world = world_for(server.port).start();
    let mut stream = world.tunnel(&format!("ok.test:{}", server.port)).unwrap();
    stream.write_all(b"\0x").unwrap();
    stream.read_exact(&mut [0; 2]).unwrap();
    let mut silent = world.connect();
    world.end();
    assert_eq!(rest(&mut stream), "");
    assert_eq!(rest(&mut silent), "");
    assert_eq!(world.lines(1)[0]["bytes_up"], 2);
}
