//! What a rule about a name covers, what a name leads to, and requests that mean two things: asked of the real proxy.

use super::Server;
use super::named::Named;
use crate::harness::program;

/// A call with curl for each host in turn, which says what came of it.
fn statuses(named: &Named, rules: &[String], hosts: &[&str], port: u16) -> Vec<String> {
    let urls: Vec<_> = hosts.iter().map(|host| format!("http://{host}:{port}/")).collect();
    let script = "for url; do curl -sS -o /dev/null --max-time 10 -w '%{http_code}\\n' \"$url\"; done";
    let options = rules.iter().flat_map(|rule| ["--allow-host", rule]);
    let words = options.chain(["--", "sh", "-c", script, "sh"]).chain(urls.iter().map(String::as_str));
    let done = named.call(program().to_str().unwrap(), words).done().code(0);
    done.out().lines().map(str::to_owned).collect()
}

fn rules(names: &[&str], port: u16) -> Vec<String> {
    names.iter().map(|name| format!("{name}:{port}")).collect()
}

#[test]
fn a_rule_covers_its_name_and_nothing_like_it() {
    let Some(named) = Named::new() else { return };
    let server = Server::start();
    let hosts = "ok.test a.sub.test a.b.sub.test sub.test notok.test ok.test.evil.test xsub.test";
    named.world.write("hosts", format!("127.0.0.1 localhost {hosts}\n"));
    let rules = rules(&["ok.test", "*.sub.test", "127.0.0.1"], server.port);
    let asked = ["ok.test", "OK.test", "ok.test.", "a.sub.test", "a.b.sub.test"];
    assert_eq!(statuses(&named, &rules, &asked, server.port), ["200"; 5]);
    let heard = server.heard();
    let asked = ["sub.test", "notok.test", "ok.test.evil.test", "xsub.test"];
    assert_eq!(statuses(&named, &rules, &asked, server.port), ["403"; 4]);
    assert_eq!(server.heard(), heard);
}

#[test]
fn a_host_that_is_allowed_does_not_open_its_other_ports() {
    let Some(named) = Named::new() else { return };
    let (server, other) = (Server::start(), Server::start());
    named.world.write("hosts", "127.0.0.1 localhost ok.test\n");
    let all = rules(&["127.0.0.1"], server.port).into_iter().chain(rules(&["127.0.0.1"], other.port));
    let ask = |rule: String, port: u16, tunnel: bool| {
        let rules: Vec<_> = all.clone().chain([rule]).collect();
        let url = format!("http://ok.test:{port}/");
        let options = rules.iter().flat_map(|rule| ["--allow-host", rule]);
        let curl = ["--", "curl", "-sS", "--max-time", "10", if tunnel { "-p" } else { "-s" }, &url];
        named.call(program().to_str().unwrap(), options.chain(curl)).done()
    };
    for tunnel in [false, true] {
        ask(format!("ok.test:{}", server.port), server.port, tunnel).is(0, "hello\n", "");
        for (rule, port) in [(format!("ok.test:{}", server.port), other.port), ("ok.test".into(), server.port)] {
            let done = ask(rule, port, tunnel);
            let said = format!("{}{}", done.out(), done.stderr);
            assert!(said.contains("403") || said.contains("only other ports of it"), "{said}");
        }
    }
    assert_eq!(other.heard(), "");
}

#[test]
fn a_name_leads_to_no_private_address() {
    let Some(named) = Named::new() else { return };
    let server = Server::start();
    let addresses = [
        ("127.0.0.1", "loopback.test"),
        ("10.0.0.1", "private.test"),
        ("169.254.169.254", "metadata.test"),
        ("100.100.100.200", "shared.test"),
        ("168.63.129.16", "wire.test"),
        ("::1", "loopback6.test"),
        ("::ffff:127.0.0.1", "mapped.test"),
        ("64:ff9b::7f00:1", "translated.test"),
        ("224.0.0.1", "multicast.test"),
        ("0.0.0.0", "unspecified.test"),
        // One bad address spoils the answer.
        ("93.184.215.14", "mixed.test"),
        ("127.0.0.1", "mixed.test"),
    ];
    let lines: Vec<_> = addresses.iter().map(|(address, name)| format!("{address} {name}")).collect();
    named.world.write("hosts", lines.join("\n") + "\n127.0.0.1 localhost\n");
    let mut asked: Vec<&str> = addresses.iter().map(|(_, name)| *name).collect();
    asked.dedup();
    // What nobody resolves is allowed, and fails.
    asked.push("nowhere.invalid");
    let mut all = rules(&asked, server.port);
    let mut expected = vec!["403"; asked.len()];
    expected[asked.len() - 1] = "502";
    assert_eq!(statuses(&named, &all, &asked, server.port), expected);
    assert_eq!(server.heard(), "");
    all.push(format!("127.0.0.1:{}", server.port));
    assert_eq!(statuses(&named, &all, &["loopback.test", "private.test"], server.port), ["200", "403"]);
}

/// Sends each word of the argument list to the proxy, as it is, and says how the answer begins.
const RAW: &str = "import socket, sys\n\
    for text in sys.argv[1:]:\n    \
        s = socket.create_connection(('127.0.0.1', 3128), 10)\n    \
        s.sendall(text.encode('latin-1').decode('unicode_escape').encode('latin-1')); s.shutdown(socket.SHUT_WR)\n    \
        answer = b''.join(iter(lambda: s.recv(65536), b''))\n    \
        print(answer[9:12].decode() if answer.startswith(b'HTTP/1.1 ') else answer)";

#[test]
fn a_request_that_means_two_things_reaches_nobody() {
    let Some(named) = Named::new() else { return };
    let (server, other) = (Server::start(), Server::start());
    named.world.write("hosts", "127.0.0.1 localhost ok.test no.test\n");
    let (ok, no) = (format!("ok.test:{}", server.port), format!("no.test:{}", other.port));
    let address = rules(&["127.0.0.1"], server.port).into_iter().chain(rules(&["127.0.0.1"], other.port));
    let allowed: Vec<_> = address.chain([ok.clone()]).collect();
    let ask = |requests: &[String]| {
        let options = allowed.iter().flat_map(|rule| ["--allow-host", rule]);
        let words = options.chain(["--net-log", "log", "--", "python3", "-c", RAW]);
        let words = words.chain(requests.iter().map(String::as_str));
        named.call(program().to_str().unwrap(), words).done().code(0).out()
    };
    let get = |target: &str, fields: &str| format!("GET {target} HTTP/1.1\\r\\n{fields}\\r\\n");
    let clean = get(&format!("http://{ok}/"), &format!("Host: {ok}\\r\\n"));
    let requests = [
        get(&format!("http://{no}\\0.{ok}/"), ""),
        get(&format!("http://{no}%2e{ok}/"), ""),
        get(&format!("http://{no}@{ok}/"), ""),
        get(&format!("http://{ok}@{no}/"), ""),
        get(&format!("http://{no}#{ok}/"), ""),
        get(&format!("http://no.test .{ok}/"), ""),
        get(&format!("http://{ok}/"), &format!("Host: {no}\\r\\n")),
        get(&format!("http://{ok}/"), &format!("Host: {ok}\\r\\nHost: {ok}\\r\\n")),
        get(&format!("http://{ok}/"), &format!("Host: {ok}\\r\\nX: a\\r\\n b\\r\\n")),
        get(
            &format!("http://{ok}/"),
            &format!("Host: {ok}\\r\\nContent-Length: 3\\r\\nTransfer-Encoding: chunked\\r\\n"),
        ),
        get(&format!("http://{ok}/"), &format!("Host: {ok}\\r\\nContent-Length: 1\\r\\nContent-Length: 2\\r\\n")),
        get(&format!("http://{ok}/"), &format!("Host: {ok}\\r\\nTransfer-Encoding: gzip\\r\\n")),
        format!("GET http://{ok}/ HTTP/1.1\\nHost: {ok}\\n\\n"),
        format!("GET http://{ok}/\\r\\n\\r\\n"),
        get(&format!("http://{ok}/{}", "a".repeat(100_000)), ""),
        get("/", "Host: 127.0.0.1:3128\\r\\n"),
        get("http://127.0.0.1:3128/", ""),
        format!("CONNECT {no} HTTP/1.1\\r\\nHost: {ok}\\r\\n\\r\\n"),
    ];
    let said = ask(&requests);
    for (answer, request) in said.lines().zip(&requests) {
        assert!(answer.starts_with('4') || answer == "b''" || answer.starts_with("50"), "{request}: {answer}");
    }
    assert_eq!(said.lines().count(), requests.len(), "{said}");
    assert_eq!((server.heard(), other.heard()), (String::new(), String::new()));
    let log = named.world.read("w/log");
    assert_eq!(log.lines().filter(|line| line.contains("\"denied\"")).count(), requests.len(), "{log}");
    // A second request behind the first is never looked at, and never passed on.
    let second = get(&format!("http://{no}/"), &format!("Host: {no}\\r\\n"));
    assert_eq!(ask(&[clean.clone() + &second]), "200\n");
    assert_eq!(server.heard(), format!("GET / HTTP/1.1\r\nHost: {ok}\r\nConnection: close\r\n\r\n"));
    assert_eq!(other.heard(), "");
}
