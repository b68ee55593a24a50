//! Requests that two readers understand in two ways: none of them reaches a server.

use super::*;

#[test]
fn nothing_ambiguous_reaches_a_server() {
    let server = Server::ok();
    let port = server.port;
    let world = world_for(port).start();
    let head = |line: &str, fields: &str| format!("{line}\r\nHost: ok.test:{port}\r\n{fields}\r\n");
    let line = format!("GET http://ok.test:{port}/ HTTP/1.1");
    let post = format!("POST http://ok.test:{port}/ HTTP/1.1");
    let hosts = [
        "ok.test\0.no.test",
        "no.test\0.ok.test",
        "ok.test\r\n.no.test",
        "ok test",
        "x@ok.test",
        "ok.test#.no.test",
        "ok.test%2eno.test",
        "ok.test\\.no.test",
        "ok.test?.no.test",
        "[ok.test]",
        "ok..test",
    ];
    let mut cases: Vec<String> =
        hosts.iter().map(|host| format!("GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n")).collect();
    cases.extend(hosts.iter().map(|host| format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: ok.test:{port}\r\n\r\n")));
    cases.extend([
        format!("GET http://ok.test:{port}/ HTTP/1.1\r\nHost: no.test:{port}\r\n\r\n"),
        head(&line, &format!("Host: ok.test:{port}\r\n")),
        head(&line, "X: a\r\n b\r\n"),
        head(&post, "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n",
        head(&post, "Content-Length: 4\r\nContent-Length: 5\r\n") + "hello",
        head(&post, "Transfer-Encoding: chunked, chunked\r\n") + "0\r\n\r\n",
        head(&post, "Transfer-Encoding: x\r\n") + "0\r\n\r\n",
        head(&post, "Transfer-Encoding : chunked\r\n") + "0\r\n\r\n",
        head(&line, "").replace("\r\n", "\n"),
        head(&line, "X: a\rb\r\n"),
        head(&line, "X: a\0b\r\n"),
        format!("GET http://ok.test:{port}/\r\n"),
        format!("GET http://ok.test:{port}/\r\n\r\n"),
        head(&format!("GET http://ok.test:{port}/{} HTTP/1.1", "a".repeat(70_000)), ""),
        head(&line, &format!("X: {}\r\n", "a".repeat(70_000))),
        head(&format!("GET http://ok.test:{port}/a%2f..%2fb HTTP/1.1"), ""),
        head(&format!("GET http://ok.test:{port}/a\\b HTTP/1.1"), ""),
        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
        format!("GET /http://ok.test:{port}/ HTTP/1.1\r\nHost: ok.test:{port}\r\n\r\n"),
        "\x16\x03\x01\0\x05hello".to_owned(),
        "\0".to_owned(),
        "SSH-2.0-x\r\n".to_owned(),
    ]);
    let count = cases.len();
    for case in &cases {
        let mut stream = world.connect();
        // Whatever was not whole ends here.
        let _sent = stream.write_all(case.as_bytes()).and_then(|()| stream.shutdown(Shutdown::Write));
        let answer = rest(&mut stream);
        assert!(
            answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.1 5"),
            "{:?}: {answer}",
            case.get(..100)
        );
    }
    assert_eq!((server.connections(), server.heard().as_str()), (0, ""));
    assert_eq!(world.lines(count).iter().filter(|line| line["verdict"] == "denied").count(), count);
    assert!(world.ask(head(&line, "")).ends_with("hello"));
}

#[test]
fn a_second_request_on_a_connection_is_not_passed_on() {
    let server = Server::ok();
    let port = server.port;
    let world = world_for(port).start();
    let first = get("ok.test", port, "/1");
    let answer = world.ask(format!("{first}{}", get("ok.test", port, "/2")));
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    assert!(answer.ends_with("hello"), "{answer}");
    // A body that is longer than it says is the same.
    let post = format!(
        "POST http://ok.test:{port}/3 HTTP/1.1\r\nHost: ok.test:{port}\r\nContent-Length: 2\r\n\r\nhiGET /4 HTTP/1.1\r\n"
    );
    assert!(world.ask(post).ends_with("hello"));
    let heard = server.heard();
    assert!(
        heard.contains("/1 ") && heard.contains("/3 ") && !heard.contains("/2 ") && !heard.contains("/4 "),
        "{heard}"
    );
    let lines = world.lines(4);
    assert_eq!(lines.iter().filter(|line| line["verdict"] == "denied" && line["reason"] == "request").count(), 2);
}

#[test]
fn a_body_that_turns_out_odd_ends_both_connections() {
    let (tell, told) = std::sync::mpsc::channel();
    let tell = Mutex::new(tell);
    let server = Server::start(move |_stream, heard| {
        let mut all = Vec::new();
        let _read = heard.read_to_end(&mut all);
        tell.lock().unwrap().send(String::from_utf8_lossy(&all).into_owned()).unwrap();
    });
    let world = world_for(server.port).start();
    let head = format!(
        "POST http://ok.test:{0}/ HTTP/1.1\r\nHost: ok.test:{0}\r\nTransfer-Encoding: chunked\r\n\r\n",
        server.port
    );
    for body in ["5;x\r\nhello\r\n0\r\n\r\n", "5\r\nhelloGET / HTTP/1.1\r\n\r\n", "5\nhello\n0\n\n", "\r\n", "zz\r\n"] {
        let answer = world.ask(format!("{head}{body}"));
        assert!(answer.starts_with("HTTP/1.1 400 "), "{body:?} {answer}");
        let heard = told.recv().unwrap();
        assert!(!heard.contains("0\r\n\r\n") && !heard.contains("GET /"), "{heard}");
    }
}

#[test]
fn garbage_ends_no_proxy() {
    let server = Server::ok();
    let world = world_for(server.port).limits(|limits| limits.opening = Duration::from_millis(300)).start();
    let mut state = 1_u32;
    for round in 0..200 {
        let bytes: Vec<u8> = (0..round * 7 % 300)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        let mut stream = world.connect();
        let start: &[u8] = [&b""[..], b"\x05\x01\0", b"GET ", b"CONNECT ok.test:1 HTTP/1.1\r\n"][round % 4];
        let _sent = stream.write_all(&[start, &bytes].concat());
        let _shut = stream.shutdown(Shutdown::Write);
        rest(&mut stream);
    }
    assert!(world.ask(get("ok.test", server.port, "/")).ends_with("hello"));
}
