//! An upstream proxy: what the rules allow leaves through it alone, nothing else ever gets there, and its password stays outside.
//!
//! The upstream proxy is a program of this test; it takes every name for this host.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use super::named::{Authority, Named, Server as Https};
use super::{Server, told};
use crate::harness::{Call, World, has_landlock, program};

const PASSWORD: &str = "s3cret/of-this-test";
const ENCODED: &str = "s3cret%2Fof-this-test";
/// `user:` and the password, as they are sent.
const AUTHORIZATION: &str = "Basic dXNlcjpzM2NyZXQvb2YtdGhpcy10ZXN0";

/// What an upstream proxy does.
#[derive(Clone, Copy)]
enum Manner {
    /// What it is asked for.
    Good,
    /// The same for who says this.
    Wants(&'static str),
    /// It answers that, whatever it is asked for.
    Says(&'static str),
}

/// A proxy, and all heads that it was sent.
struct Upstream {
    port: u16,
    heard: Arc<Mutex<String>>,
}

impl Upstream {
    fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(String::new()));
        let all = Arc::clone(&heard);
        thread::spawn(move || {
            for client in listener.incoming() {
                let all = Arc::clone(&all);
                thread::spawn(move || serve(client.unwrap(), manner, &all));
            }
        });
        Self { port, heard }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What it was sent since the last time.
    fn heard_now(&self) -> String {
        std::mem::take(&mut self.heard.lock().unwrap())
    }
}

fn serve(mut client: TcpStream, manner: Manner, all: &Mutex<String>) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    all.lock().unwrap().push_str(&head);
    let refusal = match manner {
        Manner::Wants(who) if !head.contains(&format!("\r\nProxy-Authorization: {who}\r\n")) => Some(
            "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n",
        ),
        Manner::Good | Manner::Wants(_) => None,
        Manner::Says(answer) => Some(answer),
    };
    if let Some(answer) = refusal {
        return client.write_all(answer.as_bytes()).ok();
    }
    let target = head.split(' ').nth(1)?;
    let (place, first) = match target.strip_prefix("http://") {
        None => (target, None),
        Some(rest) => {
            let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
            (place, Some(head.replacen(target, &format!("/{path}"), 1)))
        }
    };
    let port = place.rsplit_once(':').map_or(80, |(_, port)| port.parse().unwrap());
    let mut server = TcpStream::connect(("127.0.0.1", port)).ok()?;
    match first {
        Some(head) => server.write_all(head.as_bytes()).ok()?,
        None => client.write_all(b"HTTP/1.1 200 Connection established\r\nVia: 1.1 upstream\r\n\r\n").ok()?,
    }
    let (mut up, mut down) = ((client.try_clone().ok()?, server.try_clone().ok()?), (server, client));
    let upwards = thread::spawn(move || {
        let _sent = io::copy(&mut up.0, &mut up.1);
        let _told = up.1.shutdown(Shutdown::Write);
    });
    let _sent = io::copy(&mut down.0, &mut down.1);
    let _told = down.1.shutdown(Shutdown::Write);
    upwards.join().ok()
}

/// A call with curl by `options`, and each of `rules`.
fn curl(world: &World, options: &[&str], rules: &[&str], words: &[&str]) -> Call {
    let rules = rules.iter().flat_map(|rule| ["--allow-host", rule]);
    // Programs ask no proxy for a loopback that no rule is about, unless they are told to.
    let command = ["--", "curl", "-sS", "--max-time", "20", "--noproxy", ""];
    world.run(options.iter().copied().chain(rules).chain(command).chain(words.iter().copied()))
}

#[test]
fn what_is_allowed_leaves_through_it_and_what_is_not_never_gets_there() {
    let (world, server, upstream) = (World::new(), Server::start(), Upstream::start(Manner::Good));
    // Nobody knows that name here.
    let at = format!("ok.corp.invalid:{}", server.port);
    let url = format!("http://{at}/a?q=1");
    let proxy = upstream.url();
    let backends: &[&[&str]] = if has_landlock() { &[&[], &["-b", "landlock"]] } else { &[&[]] };
    for backend in backends {
        let options = [*backend, &["--upstream-proxy", &proxy, "--net-log", "log"]].concat();
        let call = |words: &[&str]| curl(&world, &options, &[&at], words).done();
        call(&[&url]).is(0, "hello\n", "");
        assert!(upstream.heard_now().starts_with(&format!("GET {url} HTTP/1.1\r\nHost: {at}\r\n")));
        for way in [&["-p"][..], &["--proxy", "socks5h://127.0.0.1:3128"]] {
            call(&[way, &[&url]].concat()).is(0, "hello\n", "");
            let heard = upstream.heard_now();
            assert_eq!(heard, format!("CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\n"));
        }
        // What the server gets is what it would get anyway.
        assert!(server.heard().contains("GET /a?q=1 HTTP/1.1\r\n"), "{}", server.heard());
        let address = format!("\"address\":\"127.0.0.1:{}\"", upstream.port);
        let log = world.read("w/log");
        assert_eq!(log.matches(&address).count(), 3, "{log}");
        assert_eq!(log.matches("\"verdict\":\"allowed\"").count(), 3, "{log}");
        std::fs::remove_file(world.path("w/log")).unwrap();

        let denied = "sandbox-run: no rule allows 'no.test:80'\nsandbox-run: hint: --allow-host no.test\n";
        call(&["http://no.test/"]).is(0, denied, &told(&["no.test:80"]));
        call(&["https://no.test/"]).code(56).stderr_has("403");
        call(&["--proxy", "socks5h://127.0.0.1:3128", "http://no.test/"]).code(97);
        assert_eq!(upstream.heard_now(), "");
        std::fs::remove_file(world.path("w/log")).unwrap();
    }
    // The control: without it the name leads nowhere, and the caller's own variable is not asked.
    let done = curl(&world, &[], &[&at], &[&url]).env("HTTP_PROXY", &proxy).env("http_proxy", &proxy).done();
    done.code(0).stdout_has(&format!("cannot resolve '{at}'"));
    assert_eq!(upstream.heard_now(), "");
    // It is where it is named.
    curl(&world, &["--upstream-proxy", "env=HTTP_PROXY"], &[&at], &[&url])
        .env("HTTP_PROXY", &proxy)
        .done()
        .is(0, "hello\n", "");
    world.write("w/policy.toml", format!("allow_hosts = ['{at}']\nupstream_proxy = '{proxy}'\n"));
    curl(&world, &["--policy", "policy.toml"], &[], &[&url]).done().is(0, "hello\n", "");
    assert_eq!(upstream.heard_now().matches("GET http://").count(), 2);
}

#[test]
fn a_server_that_speaks_first_loses_nothing() {
    let (world, upstream) = (World::new(), Upstream::start(Manner::Good));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("ok.corp.invalid:{}", listener.local_addr().unwrap().port());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"220 welcome\r\n").unwrap();
        let _until_the_end = stream.read_to_end(&mut Vec::new());
    });
    let python = "import socket, sys\n\
        s = socket.create_connection(('127.0.0.1', 3128), 20)\n\
        s.sendall(f'CONNECT {sys.argv[1]} HTTP/1.1\\r\\nHost: {sys.argv[1]}\\r\\n\\r\\n'.encode())\n\
        f = s.makefile('rb'); [f.readline(), f.readline()]; print(f.readline())";
    let proxy = upstream.url();
    let words = ["--upstream-proxy", &proxy, "--allow-host", &at, "--", "python3", "-c", python, &at];
    world.run(words).done().is(0, "b'220 welcome\\r\\n'\n", "");
}

#[test]
fn addresses_follow_the_rules_and_names_go_there_as_names() {
    let (world, server, upstream) = (World::new(), Server::start(), Upstream::start(Manner::Good));
    let port = server.port;
    let at = |host: &str| format!("{host}:{port}");
    let proxy = upstream.url();
    let call = |rules: &[String], host: &str| {
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        curl(
            &world,
            &["-q", "--allow-gap", "network", "--upstream-proxy", &proxy],
            &rules,
            &[&format!("http://{}/", at(host))],
        )
        .done()
        .code(0)
        .out()
    };
    // An address takes a rule about addresses.
    let named = [at("ok.test")];
    assert!(call(&named, "127.0.0.1").contains(&format!("no rule allows '{}'", at("127.0.0.1"))));
    // The name of the loopback is the loopback everywhere.
    for name in ["localhost", "x.localhost"] {
        assert!(call(&[at(name)], name).contains("127.0.0.1, which is loopback"), "{name}");
        let forbidden = [at(name), at("127.0.0.1"), "!127.0.0.0/8".to_owned()];
        assert!(call(&forbidden, name).contains("which the rule '!127.0.0.0/8' forbids"), "{name}");
    }
    assert!(call(&[at("127.0.0.1"), "!127.0.0.1".to_owned()], "127.0.0.1").contains("the rule '!127.0.0.1' forbids"));
    assert_eq!((upstream.heard_now(), server.heard()), (String::new(), String::new()));
    assert_eq!(call(&[at("127.0.0.1")], "127.0.0.1"), "hello\n");
    assert_eq!(call(&[at("localhost"), at("127.0.0.1")], "localhost"), "hello\n");
    assert_eq!(call(&named, "ok.test"), "hello\n");
    assert_eq!(upstream.heard_now().matches("GET http://").count(), 3);
    // At its port every loopback would be its own.
    for host in ["127.0.0.1", "127.0.0.2", "0.0.0.0", "[::1]"] {
        let own = format!("{host}:{}", upstream.port);
        let options = ["-q", "--upstream-proxy", &proxy];
        let done = curl(&world, &options, &[&own], &["--noproxy", "", &format!("http://{own}/")]).done();
        done.code(0).stdout_has("is the upstream proxy itself");
    }
    assert_eq!(upstream.heard_now().matches("GET http://").count(), 0);
    // A rule that forbids addresses cannot be kept for names, and is not given up in silence.
    let options = ["-w", ".", "--upstream-proxy", &proxy, "--allow-host", "ok.test"];
    let missing = "network (the rule '!10.0.0.0/8' does not hold for names: the upstream proxy resolves them)";
    let rule = ["--allow-host", "!10.0.0.0/8"];
    world.sh([&options[..], &rule].concat(), "touch started").done().refused(125, &[missing]);
    assert!(!world.has("w/started"));
    let done = world.sh([&options[..], &rule, &["--allow-gap", "network"]].concat(), "touch started").done().code(0);
    done.stderr_has(&format!("not enforced, as accepted: {missing}"));
    world.sh([&options[..], &["--allow-host", "!no.test"]].concat(), "touch started").done().is(0, "", "");
}

#[test]
fn who_asks_is_told_to_it_and_to_nobody_else() {
    let (world, server) = (World::new(), Server::start());
    let upstream = Upstream::start(Manner::Wants(AUTHORIZATION));
    let at = format!("ok.corp.invalid:{}", server.port);
    let url = format!("http://{at}/");
    let with = |login: &str| format!("http://{login}@127.0.0.1:{}/", upstream.port);
    let right = with(&format!("user:{ENCODED}"));
    world.write("o/proxy", format!("{right}\n"));
    let file = format!("file={}", world.text("o/proxy"));
    let outside = world.text("o");
    let reports = ["--result", "result", "--audit-log", "audit", "--net-log", "log", "-vv"];
    for spec in ["env=CORP_PROXY", &file] {
        let options = [&["--upstream-proxy", spec, "-r", &outside], &reports[..]].concat();
        let call = |words: &[&str]| {
            let done = curl(&world, &options, &[&at], words).env("CORP_PROXY", &right).done();
            done.code(0).stdout("hello\n").stderr_lacks("s3cret").stderr_lacks(&AUTHORIZATION[6..])
        };
        // Also for a request in the clear by CONNECT: what it has to say of itself does not go to the command.
        call(&[&url]);
        call(&["-p", &url]);
        let connect = format!("CONNECT {at} HTTP/1.1\r\nHost: {at}\r\nProxy-Authorization: {AUTHORIZATION}\r\n\r\n");
        assert_eq!(upstream.heard_now(), connect.repeat(2));
        for name in ["result", "audit", "log"] {
            let text = world.read(&format!("w/{name}"));
            assert!(text.contains("ok.corp.invalid") && !text.contains("s3cret"), "{text}");
            assert!(!text.contains(&AUTHORIZATION[6..]), "{text}");
            std::fs::remove_file(world.path(&format!("w/{name}"))).unwrap();
        }
        for option in ["--dry-run", "--dry-run=json", "--print-policy", "--print-policy=json"] {
            let words = ["--upstream-proxy", spec, "--allow-host", "ok.test", option, "--", "true"];
            let done = world.run(words).env("CORP_PROXY", &right).done().code(0);
            done.stdout_has(spec).stdout_lacks("s3cret").stderr_lacks("s3cret");
        }
    }
    assert!(!server.heard().contains("Proxy-Authorization"), "{}", server.heard());
    // Whoever only asks what would be does not read it.
    let asks = ["--upstream-proxy", "env=UNSET", "--allow-host", "ok.test", "--explain", "/etc/passwd", "--", "true"];
    world.run(asks).done().code(0).stdout_has("visible");
    // A user without a password may be typed.
    let typed = ["--upstream-proxy", &with("user"), "--allow-host", "ok.test", "--print-policy"];
    world
        .run(typed)
        .done()
        .code(0)
        .stdout_has(&format!("upstream_proxy = \"http://user@127.0.0.1:{}\"", upstream.port));
    // The file is masked, and nothing else of what is granted.
    world.write("o/other", "other\n");
    let options = ["--upstream-proxy", &file, "--allow-host", "ok.test", "-r", &outside];
    world.sh(options, "cat ../o/proxy ../o/other").done().is(0, "other\n", "");
    world.sh(["-r", &outside], "cat ../o/proxy").done().is(0, &format!("{right}\n"), "");
    // What is hashed does not depend on it.
    let hash = |url: &str| {
        let words = ["--upstream-proxy", "env=CORP_PROXY", "--allow-host", "ok.test", "--result", "result"];
        world.sh(words, "true").env("CORP_PROXY", url).done().code(0);
        let result: Value = serde_json::from_str(&world.read("w/result")).unwrap();
        result["policy_sha256"].as_str().unwrap().to_owned()
    };
    assert_eq!(hash(&right), hash("http://u:other@192.0.2.1:3128"));
}

#[test]
fn a_password_in_the_wrong_place_starts_nothing() {
    let world = World::new();
    let url = format!("http://user:{ENCODED}@127.0.0.1:9");
    let refused = |options: &[&str], script: &str, words: &[&str]| {
        let options = [&["-w", ".", "--allow-host", "ok.test"], options].concat();
        let done = world.sh(options, script).env("CORP_PROXY", &url).done().refused(125, words);
        done.stderr_lacks("s3cret");
        assert!(!world.has("w/started"), "{words:?}");
    };
    refused(&["--upstream-proxy", &url], "touch started", &["option '--upstream-proxy'", "has a password", "env=NAME"]);
    world.write("w/policy.toml", format!("upstream_proxy = '{url}'\n"));
    refused(&["--policy", "policy.toml"], "touch started", &["policy.toml:1", "upstream_proxy", "has a password"]);
    // The command would have it.
    let spec = ["--upstream-proxy", "env=CORP_PROXY"];
    let passed = [&spec[..], &["-e", "CORP_PROXY"]].concat();
    refused(&passed, "touch started", &["the variable 'CORP_PROXY' of the command has its password"]);
    refused(&spec, &format!("touch started {PASSWORD}"), &["an argument of the command has its password"]);
    world
        .sh([&["-w", ".", "--allow-host", "ok.test"], &spec[..]].concat(), "touch started")
        .env("CORP_PROXY", &url)
        .done()
        .code(0);
    assert!(world.has("w/started"));
}

#[test]
fn what_it_answers_is_told() {
    let (world, server) = (World::new(), Server::start());
    let at = format!("ok.corp.invalid:{}", server.port);
    let url = format!("http://{at}/");
    // By a request in the clear, and by CONNECT, of whose answer clients show the first line.
    let answers = |spec: &str, value: &str, expected: &str| {
        let call = |words: &[&str]| {
            let options = ["--upstream-proxy", spec, "--net-log", "log"];
            curl(&world, &options, &[&at], words).env("CORP_PROXY", value).done().stderr_lacks("s3cret")
        };
        let done = call(&["-w", "%{http_code}", &url]).code(0).stdout_has(expected).stdout_has("502");
        assert!(!done.out().contains("s3cret"), "{}", done.out());
        call(&["-v", "-p", &url]).code(56).stderr_has(&format!("502 Bad Gateway by sandbox-run: {expected}"));
        let log = world.read("w/log");
        for line in log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            let found = [&line["verdict"], &line["reason"]].map(Value::as_str);
            assert_eq!(found, [Some("failed"), Some("upstream")], "{log}");
        }
        std::fs::remove_file(world.path("w/log")).unwrap();
    };
    let wants = Upstream::start(Manner::Wants(AUTHORIZATION));
    let begin = |port: u16| format!("cannot reach '{at}': the upstream proxy '127.0.0.1:{port}'");
    let expected = format!("{} answers 407, it wants a user and a password", begin(wants.port));
    answers(&wants.url(), "", &expected);
    let expected = format!("{} answers 407, it does not accept the user and password", begin(wants.port));
    answers("env=CORP_PROXY", &format!("http://user:s3cret@127.0.0.1:{}", wants.port), &expected);
    // Somebody who is not there.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let expected = format!("cannot connect to the upstream proxy '127.0.0.1:{gone}': connection refused");
    answers(&format!("http://127.0.0.1:{gone}"), "", &expected);
    answers("http://upstream.invalid:3128", "", "cannot resolve the upstream proxy 'upstream.invalid:3128'");
    assert_eq!(server.heard(), "");
}

#[test]
fn a_tunnel_that_it_refuses_is_refused() {
    let (world, server) = (World::new(), Server::start());
    let at = format!("ok.corp.invalid:{}", server.port);
    for (answer, expected) in [
        ("HTTP/1.1 403 Not by me\r\n\r\n", "answers 403 (Not by me)"),
        ("HTTP/1.0 502 Bad\x1b[2J Gateway\r\n\r\n", "answers in no way that is HTTP"),
        ("HTTP/1.1 502 Bad Gateway\r\nX: y\r\n\r\n", "answers 502 (Bad Gateway)"),
        ("SSH-2.0-x\r\n\r\n", "answers in no way that is HTTP"),
        ("HTTP/1.1 200 OK\r\n", "answers in no way that is HTTP"),
        ("", "closes the connection without an answer"),
    ] {
        let upstream = Upstream::start(Manner::Says(answer));
        let options = ["--upstream-proxy", &upstream.url()];
        let done = curl(&world, &options, &[&at], &["-v", "-p", &format!("http://{at}/")]).done();
        done.code(56)
            .stderr_has(&format!("502 Bad Gateway by sandbox-run: cannot reach '{at}': the upstream proxy"))
            .stderr_has(expected);
    }
    // In the clear its answers are those of servers, as with any proxy, but for the one that is about who asks.
    let upstream = Upstream::start(Manner::Says("HTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\nlater"));
    let done =
        curl(&world, &["--upstream-proxy", &upstream.url()], &[&at], &["-w", "%{http_code}", &format!("http://{at}/")]);
    done.done().is(0, "later503", "");
    // Who is told a user is asked for a tunnel, and nothing of its page arrives.
    let upstream = Upstream::start(Manner::Says("HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\npage"));
    let url = format!("http://user@127.0.0.1:{}", upstream.port);
    let done = curl(&world, &["--upstream-proxy", &url], &[&at], &[&format!("http://{at}/")]).done().code(0);
    done.stdout_has("answers 403\nsandbox-run: hint: an upstream proxy that is told").stdout_lacks("page");
    // Another answer comes first.
    let upstream = Upstream::start(Manner::Says(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nsaid\n",
    ));
    curl(&world, &["--upstream-proxy", &upstream.url()], &[&at], &["-p", &format!("http://{at}/")])
        .done()
        .is(0, "said\n", "");
}

#[test]
fn the_command_does_not_reach_it() {
    let Some(named) = Named::new() else { return };
    let (server, upstream) = (Server::start(), Upstream::start(Manner::Good));
    named.world.write("hosts", "127.0.0.1 localhost upstream.test alias.test\n");
    let (at, port) = (format!("ok.test:{}", server.port), upstream.port);
    let call = |proxy: &str, rules: &[String], words: &[&str]| {
        let rules = rules.iter().flat_map(|rule| ["--allow-host", rule]);
        let options = ["--upstream-proxy", proxy].into_iter().chain(rules);
        let curl = ["--", "curl", "-sS", "--max-time", "20", "--noproxy", ""].into_iter().chain(words.iter().copied());
        named.call(program().to_str().unwrap(), options.chain(curl)).done()
    };
    for proxy in [format!("http://upstream.test:{port}"), upstream.url()] {
        call(&proxy, std::slice::from_ref(&at), &[&format!("http://{at}/")]).is(0, "hello\n", "");
        upstream.heard_now();
        for host in ["127.0.0.1", "upstream.test", "alias.test"] {
            // No rule, and then one, by which the command could ask it for everything.
            let (url, rule) = (format!("http://{host}:{port}/"), format!("{host}:{port}"));
            let denied = call(&proxy, std::slice::from_ref(&at), &[&url]).code(0);
            denied.stdout_has(&format!("no rule allows '{rule}'"));
            let rules = [at.clone(), rule.clone()];
            call(&proxy, &rules, &[&url]).code(0).stdout_has(&format!("'{rule}' is the upstream proxy itself"));
            call(&proxy, &rules, &["-p", &url]).code(56).stderr_has("508");
        }
        call(&proxy, &[at.clone(), format!("127.0.0.1:{port}")], &["--noproxy", "*", &upstream.url()]).code(7);
        assert_eq!(upstream.heard_now(), "");
    }
}

#[test]
fn https_and_secrets_go_through_it() {
    let Some(named) = Named::new() else { return };
    let upstream = Upstream::start(Manner::Wants(AUTHORIZATION));
    // Names that only the upstream proxy knows.
    named.world.write("hosts", "127.0.0.1 localhost\n");
    let proxy = format!("http://user:{ENCODED}@127.0.0.1:{}", upstream.port);
    let url = named.url("a.test");
    let script = format!("curl -sS --max-time 20 {url}");
    let spec = ["--upstream-proxy", "env=CORP_PROXY"];
    let call = |options: &[&str], script: &str| {
        let options = [&spec[..], options].concat();
        named.sh(&options, script).env("CORP_PROXY", &proxy).env("TOKEN", "t0ken-of-this-test").done()
    };
    let connect = format!("CONNECT a.test:{} HTTP/1.1\r\n", named.a.port);
    // Nobody looks inside.
    call(&[], &script).is(0, "hello\n", "");
    assert!(upstream.heard_now().starts_with(&connect));
    assert!(named.a.heard_now().starts_with("GET / HTTP/1.1\r\n"));
    // Somebody adds a secret.
    let credential = ["--credential", "type=https_bearer,host=a.test,env=TOKEN"];
    call(&credential, &script).is(0, "hello\n", "");
    let heard = upstream.heard_now();
    assert!(heard.starts_with(&connect) && !heard.contains("t0ken"), "{heard}");
    let heard = named.a.heard_now();
    assert!(heard.contains("Authorization: Bearer t0ken-of-this-test\r\n"), "{heard}");
    assert!(!heard.contains("Proxy-Authorization"), "{heard}");
    // Servers are verified as always.
    let stranger = Https::start(&Authority::new(), "a.test");
    let rule = format!("a.test:{}", stranger.port);
    let options = [&credential[..], &["--allow-host", &rule]].concat();
    let done = call(&options, &format!("curl -sS -w '%{{http_code}}' https://{rule}/")).code(0);
    done.stdout_has("cannot speak TLS").stdout_has("502");
    assert_eq!(stranger.heard(), "");
    // The control.
    named.sh(&[], &script).done().code(56).stderr_has("502");
}

#[test]
fn what_cannot_be_one_is_refused() {
    let world = World::new();
    world.write("w/empty", "");
    world.write("w/odd", "https://proxy.test:3128\n");
    let refused = |options: &[&str], words: &[&str]| {
        let done = world.sh([&["-w", "."], options].concat(), "touch started").env("ODD", "proxy:3128").done();
        done.refused(125, words);
        assert!(!world.has("w/started"), "{words:?}");
    };
    let url = "http://proxy.test:3128";
    refused(&["--upstream-proxy", url], &["upstream proxy (--upstream-proxy) without the proxy of --allow-host"]);
    refused(
        &["--upstream-proxy", url, "--egress-socket", "/s", "--egress-port", "8642"],
        &["without the proxy of --allow-host"],
    );
    world.write("w/policy.toml", "upstream_proxy = 'http://proxy.test:3128'\n");
    refused(&["--policy", "policy.toml"], &["upstream proxy (policy.toml) without the proxy of --allow-host"]);
    for (spec, words) in [
        ("proxy.test:3128", "the value has no scheme, as in http://HOST:PORT"),
        ("http://proxy.test", "the value has no port"),
        ("http://proxy.test:3128/x", "the value has a path"),
        ("https://proxy.test:3128", "the value has the scheme 'https', and only an http:// proxy is spoken to"),
        ("socks5h://proxy.test:1080", "the value has the scheme 'socks5h'"),
        ("env=1", "the value has no name of a variable"),
        ("file=", "the value has no path"),
        ("env=UNSET", "cannot use the upstream proxy (--upstream-proxy): the variable 'UNSET' is not set"),
        ("env=ODD", "the variable 'ODD' has no scheme"),
        ("file=/nope", "the file '/nope' cannot be read: no such file or directory"),
        ("file=empty", "the file 'empty' has no scheme"),
        ("file=odd", "the file 'odd' has the scheme 'https'"),
    ] {
        refused(&["--allow-host", "ok.test", "--upstream-proxy", spec], &[words]);
    }
    refused(
        &["--print-policy=payload", "--allow-host", "ok.test", "--upstream-proxy", url],
        &["cannot print the policy as a payload: a payload has no place for"],
    );
}
