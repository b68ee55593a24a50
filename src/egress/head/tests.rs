use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Result<Head, Refusal> {
    read_bytes(text.as_bytes(), Place::Proxy)
}

fn read_bytes(bytes: &[u8], place: Place) -> Result<Head, Refusal> {
    let end = end(bytes, 0)?.ok_or(Refusal { status: 0, reason: "is not whole" })?;
    Head::parse(&bytes[..end], place)
}

fn status(text: &str) -> u16 {
    read(text).map_or_else(|refusal| refusal.status, |_| 200)
}

fn rebuilt(text: &str) -> String {
    String::from_utf8(read(text).unwrap().rebuilt(80, false)).unwrap()
}

#[test]
fn a_clean_request_is_written_anew() {
    assert_eq!(
        rebuilt(
            "POST http://OK.test:80/a/../b%7e?q=/../%2f HTTP/1.1\r\nhOst: ok.TEST.\r\nX-One:  1 \r\nConnection: keep-alive, x-two\r\n\
             X-Two: 2\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eDp5\r\nKeep-Alive: 5\r\nTE: trailers\r\n\
             Content-Length: 03\r\n\r\n"
        ),
        "POST /b~?q=/../%2f HTTP/1.1\r\nHost: ok.test\r\nX-One: 1\r\nContent-Length: 3\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(
        rebuilt("GET http://ok.test:81 HTTP/1.0\r\n\r\n"),
        "GET / HTTP/1.1\r\nHost: ok.test:81\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(
        rebuilt("PUT http://[::1]:8080/?x HTTP/1.1\r\nHost: [::1]:8080\r\nTransfer-Encoding: Chunked\r\n\r\n"),
        "PUT /?x HTTP/1.1\r\nHost: [::1]:8080\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(
        rebuilt("OPTIONS http://ok.test HTTP/1.1\r\nHost: ok.test\r\nMax-Forwards: 3\r\n\r\n"),
        "OPTIONS * HTTP/1.1\r\nHost: ok.test\r\nMax-Forwards: 2\r\nConnection: close\r\n\r\n"
    );
    let tunnel =
        read("CONNECT ok.test:443 HTTP/1.1\r\nHost: ok.test:443\r\nProxy-Authorization: Basic eDp5\r\n\r\n").unwrap();
    assert_eq!((tunnel.host.to_string().as_str(), tunnel.port, &tunnel.target), ("ok.test", 443, &Target::Tunnel));
    assert_eq!(tunnel.token.as_deref(), Some(&b"Basic eDp5"[..]));
    // Python's http.client sends the name alone.
    assert_eq!(status("CONNECT ok.test:443 HTTP/1.1\r\nHost: ok.test\r\n\r\n"), 200);
    assert_eq!(status("CONNECT ok.test:443 HTTP/1.0\r\n\r\n"), 200);
}

#[test]
fn a_proxy_is_told_whom_a_request_is_for() {
    for (text, line) in [
        ("GET http://OK.test:80/a/../b?q HTTP/1.1\r\nHost: ok.test\r\n\r\n", "GET http://ok.test/b?q HTTP/1.1"),
        ("GET http://ok.test:81 HTTP/1.1\r\nHost: ok.test:81\r\n\r\n", "GET http://ok.test:81/ HTTP/1.1"),
        ("OPTIONS http://ok.test HTTP/1.1\r\nHost: ok.test\r\n\r\n", "OPTIONS http://ok.test HTTP/1.1"),
    ] {
        let head = String::from_utf8(read(text).unwrap().rebuilt(80, true)).unwrap();
        assert_eq!(head.lines().next(), Some(line));
    }
}

#[test]
fn what_two_readers_could_understand_in_two_ways_is_refused() {
    for (text, expected) in [
        ("GET http://ok.test/ HTTP/1.1\r\nHost: no.test\r\n\r\n", 421),
        ("GET http://ok.test/ HTTP/1.1\r\nHost: ok.test:81\r\n\r\n", 421),
        ("CONNECT ok.test:443 HTTP/1.1\r\nHost: no.test:443\r\n\r\n", 421),
        ("GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nHost: ok.test\r\n\r\n", 400),
        ("GET http://ok.test/ HTTP/1.1\r\n\r\n", 400),
        ("GET http://ok.test/ HTTP/1.1\r\nHost: \r\n\r\n", 400),
        (
            "POST http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
        ),
        ("POST http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400),
        ("POST http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 1, 1\r\n\r\n", 400),
        ("POST http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nContent-Length: +1\r\n\r\n", 400),
        ("POST http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 0x1\r\n\r\n", 400),
        ("POST http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nContent-Length: \r\n\r\n", 400),
        ("POST http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
        ("POST http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nContent_Length: 1\r\n\r\n", 400),
        ("POST http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nContent-Length : 1\r\n\r\n", 400),
        ("POST http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: xchunked\r\n\r\n", 501),
        ("POST http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: chunked, identity\r\n\r\n", 501),
        ("POST http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: \"chunked\"\r\n\r\n", 501),
        ("POST http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding:\x0bchunked\r\n\r\n", 400),
        (
            "POST http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
        ),
        ("POST http://ok.test/ HTTP/1.0\r\nHost: ok.test\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nX: a\r\n b\r\n\r\n", 400),
        ("GET http://ok.test/ HTTP/1.1\r\n Host: ok.test\r\n\r\n", 400),
        ("GET http://ok.test/ HTTP/1.1\nHost: ok.test\n\n", 400),
        ("GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\nX: y\r\n\r\n", 400),
        ("GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nX: a\rb\r\n\r\n", 400),
        ("GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nX: a\0b\r\n\r\n", 400),
        ("GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nX: a\x01b\r\n\r\n", 400),
        ("GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n: y\r\n\r\n", 400),
        ("GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nX\r\n\r\n", 400),
        ("GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nConnection: Host\r\n\r\n", 400),
        ("GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nConnection: close, content-length\r\n\r\n", 400),
        ("GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n", 501),
        ("GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nExpect: everything\r\n\r\n", 417),
        ("TRACE http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nMax-Forwards: 0\r\n\r\n", 405),
        ("TRACE http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nContent-Length: 1\r\n\r\n", 400),
        ("CONNECT ok.test:443 HTTP/1.1\r\nHost: ok.test:443\r\nContent-Length: 1\r\n\r\n", 400),
        ("GET http://ok.test/\r\n", 0),
        ("GET http://ok.test/\r\n\r\n", 400),
        ("GET http://ok.test/ HTTP/2.0\r\nHost: ok.test\r\n\r\n", 505),
        ("PRI * HTTP/2.0\r\n\r\n", 505),
        ("GET  http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400),
        ("GET http://ok.test/  HTTP/1.1\r\nHost: ok.test\r\n\r\n", 505),
        ("GET\thttp://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400),
        ("GET http://ok.test/ HTTP/1.1 \r\nHost: ok.test\r\n\r\n", 400),
        ("\r\nGET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400),
        ("G@T http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400),
        ("GET * HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400),
        ("GET ok.test HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400),
        ("GET https://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400),
        ("GET ftp://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400),
        ("connect ok.test:443 HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400),
        ("CONNECT ok.test HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400),
        ("CONNECT ok.test:443/ HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400),
        ("CONNECT http://ok.test:443 HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400),
        ("CONNECT u@ok.test:443 HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400),
        ("CONNECT ok.test\0.no.test:443 HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400),
        ("CONNECT [::1]:443@ok.test:443 HTTP/1.1\r\nHost: ok.test\r\n\r\n", 400),
    ] {
        assert_eq!(status(text), expected, "{text:?}");
    }
}

#[test]
fn hosts_of_odd_spelling_are_refused() {
    for host in [
        "ok.test%2eno.test",
        "ok.test%00.no.test",
        "no.test\0.ok.test",
        "u@ok.test",
        "u:p@ok.test",
        "ok.test#",
        "ok.test\\",
        "ok test",
        "",
        "ok..test",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "[::1",
        "::1",
        "ok.test:",
        "ok.test:0",
        "ok.test:80:80",
        "ok.test\r\nX: y",
        "ök.test",
    ] {
        let text = format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert!(status(&text) >= 400, "{text:?}");
    }
}

#[test]
fn limits_are_said_and_not_cut() {
    let long = "a".repeat(LINE_MAX);
    assert_eq!(status(&format!("GET http://ok.test/{long} HTTP/1.1\r\nHost: ok.test\r\n\r\n")), 414);
    let long = "a".repeat(HEAD_MAX);
    assert_eq!(status(&format!("GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nX: {long}\r\n\r\n")), 431);
    let many = "X: y\r\n".repeat(FIELDS_MAX + 1);
    assert_eq!(status(&format!("GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\n{many}\r\n")), 431);
}

#[test]
fn within_a_connection_the_host_is_that_of_the_connection() {
    let host = Host::parse("ok.test").unwrap();
    let within =
        |text: &str, port| read_bytes(text.as_bytes(), Place::Within(&host, port)).map(|head| (head.port, head.target));
    let path = |text: &str| Target::Path(RequestPath::parse(text.as_bytes()).unwrap(), None);
    assert_eq!(within("GET /x HTTP/1.1\r\nHost: ok.test\r\n\r\n", 443), Ok((443, path("/x"))));
    assert_eq!(within("GET /x HTTP/1.1\r\nHost: ok.test:443\r\n\r\n", 443), Ok((443, path("/x"))));
    assert_eq!(within("GET /x HTTP/1.1\r\nHost: ok.test:8080\r\n\r\n", 8080), Ok((8080, path("/x"))));
    for text in [
        "GET /x HTTP/1.1\r\nHost: no.test\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: ok.test:81\r\n\r\n",
        "GET http://no.test/x HTTP/1.1\r\nHost: ok.test\r\n\r\n",
        "GET http://ok.test/x HTTP/1.1\r\nHost: ok.test\r\n\r\n",
        "CONNECT ok.test:443 HTTP/1.1\r\nHost: ok.test\r\n\r\n",
        "GET x HTTP/1.1\r\nHost: ok.test\r\n\r\n",
        "GET ?x HTTP/1.1\r\nHost: ok.test\r\n\r\n",
    ] {
        assert!(within(text, 443).is_err(), "{text:?}");
    }
}

#[test]
fn answers_are_written_anew_for_a_connection_that_ends() {
    let read = |text: &str, method| {
        Answer::parse(text.as_bytes(), method, &|value| value == b"hidden")
            .map(|answer| (String::from_utf8(answer.bytes).unwrap(), answer.body))
    };
    assert_eq!(
        read(
            "HTTP/1.0 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\nKeep-Alive: 5\r\nX: y\r\nZ: hidden\r\n\r\n",
            "GET"
        ),
        Ok(("HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 3\r\nConnection: close\r\n\r\n".into(), Framing::Length(3)))
    );
    assert_eq!(
        read("HTTP/1.1 200 hidden\r\nhidden: y\r\nContent-Length: 0\r\n\r\n", "GET").unwrap().0,
        "HTTP/1.1 200 \r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(
        read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "GET"),
        Ok(("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n".into(), Framing::Chunked))
    );
    assert_eq!(
        read("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "HEAD"),
        Ok(("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\n".into(), Framing::Length(0)))
    );
    assert_eq!(
        read("HTTP/1.1 100 Continue\r\n\r\n", "PUT"),
        Ok(("HTTP/1.1 100 Continue\r\n\r\n".into(), Framing::Length(0)))
    );
    assert_eq!(read("HTTP/1.1 200 \r\n\r\n", "GET").unwrap().1, Framing::ToEnd);
    assert_eq!(read("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "GET").unwrap().1, Framing::Length(0));
    for text in [
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
    ] {
        assert!(read(text, "GET").is_err(), "{text:?}");
    }
}

proptest! {
    #[test]
    fn reading_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(head) = read_bytes(&bytes, Place::Proxy) {
            prop_assert!(!head.rebuilt(80, false).is_empty());
        }
    }

    /// What goes on is understood by this reader as it was understood the first time, and has one Host and one end.
    #[test]
    fn what_goes_on_reads_the_same(
        method in "GET|POST|PATCH|X-Y",
        path in "(/[a-z.%;~]{0,6}){1,4}",
        names in proptest::collection::vec("[Hh]ost|Content-Length|Transfer-Encoding|Connection|X-[a-z]{1,3}|Cookie", 0..5),
        values in proptest::collection::vec("ok.test|chunked|close|[0-9]{1,3}|[ -~]{0,10}", 5),
    ) {
        let fields: Vec<_> = names.iter().zip(&values).map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let fields = fields.concat();
        if let Ok(head) = read(&format!("{method} http://ok.test{path} HTTP/1.1\r\nHost: ok.test\r\n{fields}\r\n")) {
            let bytes = head.rebuilt(80, false);
            let host = Host::parse("ok.test").unwrap();
            let again = read_bytes(&bytes, Place::Within(&host, 80)).unwrap();
            prop_assert_eq!((&again.method, &again.target, &again.fields, again.body), (&head.method, &head.target, &head.fields, head.body));
            let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
            prop_assert_eq!(text.matches("\r\nhost:").count(), 1);
            prop_assert!(text.matches("\r\ncontent-length:").count() + text.matches("\r\ntransfer-encoding:").count() <= 1);
        }
    }

    #[test]
    fn the_end_is_found_however_the_bytes_arrive(bytes in proptest::collection::vec(proptest::sample::select(b"aG: /\r\n".to_vec()), 0..40)) {
        let whole = end(&bytes, 0);
        let mut parts = Ok(None);
        for length in 1..=bytes.len() {
            parts = end(&bytes[..length], length - 1);
            if parts != Ok(None) {
                break;
            }
        }
        prop_assert_eq!(whole, parts);
    }
}
