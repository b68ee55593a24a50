//! Plain requests, answers, addresses, and what is told about them.

use super::*;

#[test]
fn an_allowed_request_arrives_and_a_denied_one_names_its_rule() {
    let server = Server::ok();
    let port = server.port;
    let world = world_for(port).start();
    let answer = world.ask(get("OK.test.", port, "/a/../b?q=s3cret"));
    assert_eq!(answer, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
    assert_eq!(
        server.heard(),
        format!("GET /b?q=s3cret HTTP/1.1\r\nHost: ok.test:{port}\r\nConnection: close\r\n\r\n")
    );

    let answer = world.ask(get("no.test", port, "/"));
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    assert!(answer.contains("X-Sandbox-Run: allowlist\r\n"), "{answer}");
    let body = format!("no rule allows 'no.test:{port}'\nsandbox-run: hint: --allow-host no.test:{port}\n");
    assert!(answer.ends_with(&body), "{answer}");
    assert_eq!(server.connections(), 1);

    let lines = world.lines(2);
    let field = |line: usize, name: &str| lines[line][name].to_string();
    assert_eq!(
        ["verdict", "kind", "method", "host", "path", "rule", "status", "bytes_down"].map(|name| field(0, name)),
        ["\"allowed\"", "\"http\"", "\"GET\"", "\"ok.test\"", "\"/b\"", &format!("\"ok.test:{port}\""), "200", "43"]
    );
    assert_eq!(lines[0]["address"], format!("127.0.0.1:{port}"));
    assert_eq!(
        ["verdict", "host", "reason", "status"].map(|name| field(1, name)),
        ["\"denied\"", "\"no.test\"", "\"allowlist\"", "403"]
    );
    assert!(!std::fs::read_to_string(&world.log).unwrap().contains("s3cret"));
    let sums = world.sums();
    assert_eq!((sums.allowed, sums.denied, sums.denied_hosts[&format!("no.test:{port}")]), (1, 1, 1));
}

#[test]
fn an_answer_to_head_has_no_body() {
    let server = Server::http("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    let world = world_for(server.port).start();
    let head = |host: &str| world.ask(get(host, server.port, "/").replacen("GET", "HEAD", 1));
    assert!(head("ok.test").ends_with("\r\n\r\n"));
    assert!(head("no.test").ends_with("\r\n\r\n"));
}

#[test]
fn methods_and_paths_count_in_the_clear() {
    let server = Server::ok();
    let port = server.port;
    let world =
        setup(&[&format!("GET ok.test:{port}/repos/me/**"), &format!("127.0.0.1:{port}"), "!ok.test/repos/me/secret"])
            .start();
    for (request, status) in [
        (get("ok.test", port, "/repos/me/x"), "200"),
        (get("ok.test", port, "/repos/me?x"), "200"),
        (get("ok.test", port, "/repos/me/../../admin"), "403"),
        (get("ok.test", port, "/repos/me/%2e%2e/you"), "403"),
        (get("ok.test", port, "/repos/me%2fx"), "400"),
        (get("ok.test", port, "/repos/me/secret"), "403"),
        (get("ok.test", port, "/repos/me//secret"), "403"),
        (get("ok.test", port, "/repos/me//x"), "200"),
        (get("ok.test", port, "/repos//me/secret"), "403"),
        // As some servers read it.
        (get("ok.test", port, "/repos/me/secret;x"), "403"),
        (get("ok.test", port, "/repos/me/SECRET"), "403"),
        (get("ok.test", port, "/repos/me/secret%20"), "403"),
        (get("ok.test", port, "/repos/me/secret.;x=y"), "403"),
        (get("ok.test", port, "/repos/me/secrets"), "200"),
        (get("ok.test", port, "/REPOS/me/x"), "403"),
        (get("ok.test", port, "/").replacen("GET", "POST", 1), "403"),
    ] {
        let answer = world.ask(&request);
        assert_eq!(answer.get(9..12), Some(status), "{request} {answer}");
    }
    let answer = world.ask(get("ok.test", port, "/you"));
    assert!(answer.contains(&format!("hint: --allow-host 'GET ok.test:{port}/you'\n")), "{answer}");
    // Nobody sees a path in there.
    let answer = world.tunnel(&format!("ok.test:{port}")).unwrap_err();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
}

#[test]
fn names_that_lead_to_addresses_of_no_rule_are_denied() {
    let server = Server::ok();
    let port = server.port;
    let name = format!("*.names.test:{port}");
    let world = setup(&[&name])
        .name("loop.names.test", &[&["127.0.0.1"]])
        .name("mapped.names.test", &[&["::ffff:127.0.0.1"]])
        .name("nat64.names.test", &[&["64:ff9b::7f00:1"]])
        .name("six.names.test", &[&["::1"]])
        .name("any.names.test", &[&["0.0.0.0"]])
        .name("private.names.test", &[&["10.0.0.1"]])
        .name("meta.names.test", &[&["169.254.169.254"]])
        .name("mixed.names.test", &[&["192.88.98.1", "127.0.0.1"]])
        .name("none.names.test", &[&[]])
        .start();
    for (names, status) in [
        (&["loop", "mapped", "nat64", "six", "any", "private", "meta", "mixed"][..], 403),
        // That is nobody's decision.
        (&["none", "unknown"], 502),
    ] {
        for name in names {
            let answer = world.ask(get(&format!("{name}.names.test"), port, "/"));
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{name}: {answer}");
        }
    }
    assert_eq!(server.connections(), 0);
    let answer = world.ask(get("loop.names.test", port, "/"));
    assert!(answer.contains("is at 127.0.0.1, which is loopback"), "{answer}");
    assert!(answer.contains(&format!("hint: --allow-host 127.0.0.1:{port}\n")), "{answer}");

    let granted = setup(&[&name, &format!("127.0.0.1:{port}")]).name("loop.names.test", &[&["127.0.0.1"]]).start();
    assert!(granted.ask(get("loop.names.test", port, "/")).ends_with("hello"));
}

#[test]
fn a_name_is_resolved_once_and_connected_to_where_it_was() {
    let server = Server::ok();
    let port = server.port;
    // The second answer would be another address, which nobody listens at.
    let world = world_for(port).name("ok.test", &[&["127.0.0.1"], &["127.0.0.9"]]).start();
    assert!(world.ask(get("ok.test", port, "/")).ends_with("hello"));
    assert_eq!(world.asked.load(Ordering::SeqCst), 1);
    assert!(world.ask(get("ok.test", port, "/")).contains("127.0.0.9, which is loopback"));
}

#[test]
fn addresses_are_reached_by_rules_about_addresses() {
    let server = Server::ok();
    let port = server.port;
    let world = setup(&[&format!("127.0.0.1:{port}")]).start();
    assert!(world.ask(get("127.0.0.1", port, "/")).ends_with("hello"));
    for (host, port) in [("127.0.0.1", port.wrapping_add(1).max(1)), ("127.0.0.2", port), ("ok.test", port)] {
        assert!(world.ask(get(host, port, "/")).starts_with("HTTP/1.1 403 "), "{host}");
    }
    for host in ["2130706433", "0x7f.1", "0177.0.0.1", "127.1"] {
        assert!(world.ask(get(host, port, "/")).starts_with("HTTP/1.1 400 "), "{host}");
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn nobody_there_is_no_denial() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let world = world_for(port).start();
    let answer = world.ask(get("ok.test", port, "/"));
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert!(answer.contains(&format!("cannot connect to 'ok.test:{port}': ")), "{answer}");
    assert_eq!((world.sums().failed, world.sums().denied), (1, 0));
}

#[test]
fn the_proxy_does_not_serve_itself() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let world = World::start(world_for(address.port()), Some(listener));
    let ask = |bytes: String| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(bytes.as_bytes()).unwrap();
        rest(&mut stream)
    };
    assert!(ask(get("ok.test", address.port(), "/")).starts_with("HTTP/1.1 508 "));
    assert!(ask(get("127.0.0.1", address.port(), "/")).starts_with("HTTP/1.1 508 "));
    assert!(ask("GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n".into()).starts_with("HTTP/1.1 400 "));
    assert_eq!(world.sums().denied, 3);
}

#[test]
fn bodies_go_both_ways() {
    let server = Server::start(|mut stream, heard| {
        let head = head_of(heard);
        if head.contains("Expect: 100-continue") {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        }
        let mut body = [0; 15];
        heard.read_exact(&mut body).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        stream.write_all(&body).unwrap();
    });
    let world = world_for(server.port).start();
    let head = format!("PUT http://ok.test:{0}/ HTTP/1.1\r\nHost: ok.test:{0}\r\n", server.port);
    let answer = world.ask(format!("{head}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n00\r\nX: y\r\n\r\n"));
    assert!(answer.ends_with("\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), "{answer}");

    let mut stream = world.connect();
    write!(stream, "{head}Expect: 100-continue\r\nContent-Length: 15\r\n\r\n").unwrap();
    assert_eq!(head_of(&mut stream), "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"5\r\nhel").unwrap();
    stream.write_all(b"lo\r\n0\r\n\r\n").unwrap();
    assert!(rest(&mut stream).ends_with("\r\n\r\n5\r\nhello\r\n0\r\n\r\n"));
}

#[test]
fn large_bodies_cross_both_ways_at_once() {
    const LENGTH: usize = 100 * 1024 * 1024;
    // It sends what it reads at once: a proxy that first reads all of the request would come to a stop.
    let server = Server::start(|mut stream, heard| {
        head_of(heard);
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n").unwrap();
        io::copy(heard, &mut stream).unwrap();
    });
    let world = world_for(server.port).start();
    let mut stream = world.connect();
    let mut writer = stream.try_clone().unwrap();
    let port = server.port;
    let sender = thread::spawn(move || {
        write!(
            writer,
            "POST http://ok.test:{port}/ HTTP/1.1\r\nHost: ok.test:{port}\r\nContent-Length: {LENGTH}\r\n\r\n"
        )
        .unwrap();
        for piece in 0..LENGTH / (1024 * 1024) {
            writer.write_all(&vec![piece as u8; 1024 * 1024]).unwrap();
        }
    });
    assert!(head_of(&mut stream).starts_with("HTTP/1.1 200 "));
    let mut buffer = vec![0; 1024 * 1024];
    for piece in 0..LENGTH / (1024 * 1024) {
        stream.read_exact(&mut buffer).unwrap();
        assert!(buffer.iter().all(|byte| *byte == piece as u8), "{piece}");
    }
    assert_eq!(rest(&mut stream), "");
    sender.join().unwrap();
    let line = &world.lines(1)[0];
    assert!(line["bytes_up"].as_u64().unwrap() > LENGTH as u64 && line["bytes_down"].as_u64().unwrap() > LENGTH as u64);
}

#[test]
fn an_answer_before_the_end_of_the_request_arrives() {
    let server = Server::start(|mut stream, heard| {
        head_of(heard);
        stream.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        // Closed while the rest comes in, which resets the connection.
        let _some = heard.read(&mut [0; 1000]);
    });
    let world = world_for(server.port).start();
    let head = format!(
        "PUT http://ok.test:{0}/ HTTP/1.1\r\nHost: ok.test:{0}\r\nContent-Length: 9000000\r\n\r\n",
        server.port
    );
    let answer = world.ask([head.as_bytes(), &vec![b'x'; 3_000_000]].concat());
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.ends_with("\r\n\r\nno"), "{answer}");
}

#[test]
fn answers_that_are_odd_or_cut_are_told() {
    for (answer, status, reason) in [
        ("", "502", "does not come"),
        ("HTTP/1.1 200 OK\r\n", "502", "ends before its head does"),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", "502", "changes the protocol"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "502", "two Content-Lengths"),
        ("SSH-2.0-x\r\n\r\n", "502", "head that is not HTTP"),
    ] {
        let server = Server::http(answer);
        let world = world_for(server.port).start();
        let got = world.ask(get("ok.test", server.port, "/"));
        assert_eq!(got.get(9..12), Some(status), "{got}");
        assert!(got.contains(reason), "{got}");
    }
    let server = Server::http("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut");
    let world = world_for(server.port).start();
    let got = world.ask(get("ok.test", server.port, "/"));
    assert!(got.contains("Content-Length: 9\r\n") && got.ends_with("cut"), "{got}");
    assert_eq!(world.lines(1)[0]["verdict"], "failed");
    let server = Server::http("HTTP/1.0 200 OK\r\n\r\nto the end");
    let world = world_for(server.port).start();
    assert!(world.ask(get("ok.test", server.port, "/")).ends_with("\r\n\r\nto the end"));
}

#[test]
fn strangers_are_told_to_say_who_they_are() {
    let server = Server::ok();
    let mut setup = world_for(server.port);
    setup.token = Some(Token::new("user:pass"));
    let world = setup.start();
    let with = |field: &str| {
        world.ask(get("ok.test", server.port, "/").replacen(
            "\r\n\r\n",
            &format!("\r\nProxy-Authorization: {field}\r\n\r\n"),
            1,
        ))
    };
    assert!(world.ask(get("ok.test", server.port, "/")).starts_with("HTTP/1.1 407 "));
    for wrong in [
        "Basic dXNlcjpwYXNT",
        "Basic dXNlcjpwYXM=",
        "Basic dXNlcjpwYXNzcw==",
        "Basic ",
        "Basic *",
        "Bearer dXNlcjpwYXNz",
    ] {
        assert!(with(wrong).starts_with("HTTP/1.1 407 "), "{wrong}");
    }
    assert_eq!(server.connections(), 0);
    // Not even what is wrong with it is told of what strangers say.
    assert!(world.ask("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").starts_with("HTTP/1.1 400 "));
    assert_eq!((world.sums().denied, world.lines(0).len()), (0, 0));
    assert!(with("Basic dXNlcjpwYXNz").ends_with("hello"));
    assert!(!server.heard().contains("Authorization"));
    assert_eq!((world.sums().allowed, world.lines(1).len()), (1, 1));
    // The control: what a client is denied that has said it is told.
    let denied =
        get("no.test", server.port, "/").replacen("\r\n\r\n", "\r\nProxy-Authorization: basic dXNlcjpwYXNz\r\n\r\n", 1);
    assert!(world.ask(denied).starts_with("HTTP/1.1 403 "));
    assert_eq!((world.sums().denied, world.lines(2).len()), (1, 2));
}

#[test]
fn what_no_rule_can_name_is_no_hint() {
    let server = Server::ok();
    let port = server.port;
    let world = setup(&[&format!("GET ok.test:{port}/a"), &format!("127.0.0.1:{port}")]).start();
    for (request, reason) in [
        (get("ok.test", port, "//x"), "has an empty segment in its path"),
        (get("ok.test", port, "/x**y"), "has '**' beside other characters"),
        (get("ok.test", port, "/a").replacen("GET", "get", 1), "methods are in capitals"),
        (get("ok.test", port, "/a").replacen("GET", "BREW", 1), "has a method that is none of GET, "),
    ] {
        let answer = world.ask(request);
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("and none can name it: "), "{answer}");
        assert!(answer.contains(reason) && !answer.contains("hint"), "{answer}");
    }
    let answer = world.ask(get("ok.test", port, "/it's"));
    let hint = format!("hint: --allow-host 'GET ok.test:{port}/it'\\''s'\n");
    assert!(answer.ends_with(&hint), "{answer}");
    assert!(world.ask(get("ok.test", port, "/a")).starts_with("HTTP/1.1 200 "));
}
