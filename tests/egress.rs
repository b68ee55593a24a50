//! A way out of a network that is off: what is allowed is reached, all else fails at once, and nobody needs to be asked twice.
//!
//! Real clients, real servers on loopback. Names resolve by the host's own files, so most servers are asked for by address; the
//! proxy's own tests ask by name.

#[cfg(feature = "intercept")]
mod credentials;
#[cfg(feature = "intercept")]
mod inside;
#[cfg(feature = "intercept")]
pub mod named;
#[cfg(feature = "intercept")]
mod names;
#[cfg(feature = "intercept")]
mod upstream;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use crate::harness::{Call, World, about_bwrap, eventually, find, processes_with, skip};

/// A server of HTTP that greets, and what it was told.
pub struct Server {
    pub port: u16,
    heard: Arc<Mutex<String>>,
}

impl Server {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(String::new()));
        let all = Arc::clone(&heard);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, all) = (stream.unwrap(), Arc::clone(&all));
                thread::spawn(move || {
                    let mut bytes = Vec::new();
                    while !bytes.ends_with(b"\r\n\r\n") {
                        let mut byte = [0];
                        match stream.read(&mut byte) {
                            Ok(1) => bytes.push(byte[0]),
                            _ => break,
                        }
                    }
                    all.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes));
                    let _sent = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n");
                });
            }
        });
        Self { port, heard }
    }

    pub fn heard(&self) -> String {
        self.heard.lock().unwrap().clone()
    }
}

/// A call with curl that allows a port of 127.0.0.1.
fn curl(world: &World, server: &Server, words: &[&str]) -> Call {
    let rule = format!("127.0.0.1:{}", server.port);
    let options = ["--allow-host", &rule, "--", "curl", "-sS", "--max-time", "10"];
    world.run(options.iter().chain(words))
}

/// What is said at the end of a run of requests that were denied, one to each of these.
pub fn told(hosts: &[&str]) -> String {
    let hosts: Vec<_> = hosts.iter().map(|host| format!("'{host}' (1)")).collect();
    format!("sandbox-run: warning: denied by the rules of --allow-host: {}\n", hosts.join(", "))
}

#[test]
fn a_credential_that_cannot_be_one_is_refused_and_not_quoted() {
    let world = World::new();
    let credential = |spec: &str| world.run(["--credential", spec, "true"]).env("TOKEN", "x").done();
    credential("type=https_bearer,host=127.0.0.1,env=TOKEN").refused(125, &["has an address as 'host'"]);
    credential("s3cret").refused(125, &["no KEY=VALUE"]).stderr_lacks("s3cret");
}

#[test]
fn what_is_allowed_is_reached_and_what_is_not_names_its_rule() {
    let (world, server) = (World::new(), Server::start());
    let url = format!("http://127.0.0.1:{}/a?q=s3cret", server.port);
    curl(&world, &server, &[&url]).done().is(0, "hello\n", "");
    assert!(server.heard().contains("GET /a?q=s3cret HTTP/1.1\r\n"), "{}", server.heard());
    // By CONNECT, which asks for the same host inside.
    curl(&world, &server, &["-p", &url]).done().is(0, "hello\n", "");
    // By SOCKS.
    curl(&world, &server, &["--proxy", "socks5h://127.0.0.1:3128", &url]).done().is(0, "hello\n", "");

    let denied = "sandbox-run: no rule allows 'no.test:80'\nsandbox-run: hint: --allow-host no.test\n";
    curl(&world, &server, &["http://no.test/"]).done().is(0, denied, &told(&["no.test:80"]));
    let done = curl(&world, &server, &["https://no.test/"]).done();
    done.code(56).stderr_has("403");
    let verbose = curl(&world, &server, &["-v", "https://no.test/"]).done();
    verbose.stderr_has("403 Forbidden by sandbox-run, hint: --allow-host no.test");
}

#[test]
fn requests_are_told_to_log_and_result() {
    let (world, server) = (World::new(), Server::start());
    let rule = format!("127.0.0.1:{}", server.port);
    let script = format!("curl -s 'http://{rule}/a?q=s3cret' http://no.test/b https://no.test/c; true");
    let options = ["--allow-host", &rule, "--net-log", "log", "--result", "result"];
    world.sh(options, &script).done().code(0).stdout_has("hello\n");
    let log = world.read("w/log");
    assert!(!log.contains("s3cret"), "{log}");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> =
        lines.iter().map(|line| [&line["verdict"], &line["host"], &line["path"]].map(Value::as_str)).collect();
    assert_eq!(
        told,
        [
            [Some("allowed"), Some("127.0.0.1"), Some("/a")],
            [Some("denied"), Some("no.test"), Some("/b")],
            [Some("denied"), Some("no.test"), None],
        ]
    );
    let result: Value = serde_json::from_str(&world.read("w/result")).unwrap();
    let requests = &result["requests"];
    assert_eq!((&requests["allowed"], &requests["denied"]), (&1.into(), &2.into()), "{requests}");
    assert_eq!(requests["denied_hosts"]["no.test:443"], 1, "{requests}");
    // Without a proxy there is nothing to log, which an empty file would hide.
    std::fs::remove_file(world.path("w/log")).unwrap();
    for options in [&["--net-log", "log"][..], &["--net-log", "log", "--net", "host"]] {
        let done = world.sh(options, "echo started").done();
        done.refused(125, &["cannot write the log of requests 'log': no proxy"]).stderr_has("hint: --allow-host");
        assert!(!world.has("w/log"));
    }
    world.sh(["--allow-host", &rule, "--net-log", "log"], "echo started").done().is(0, "started\n", "");
    assert_eq!(world.read("w/log"), "");
    // A place where the command could write is none.
    world
        .sh(["-w", ".", "--allow-host", &rule, "--net-log", "log"], "touch started")
        .done()
        .refused(125, &["cannot write the log of requests 'log'"]);
    assert!(!world.has("w/started"));
}

#[test]
fn nothing_else_is_reached() {
    let (world, server) = (World::new(), Server::start());
    let url = format!("http://127.0.0.1:{}/", server.port);
    curl(&world, &server, &[&url]).done().is(0, "hello\n", "");
    curl(&world, &server, &["--noproxy", "*", &url]).done().code(7).stdout("");
    let rule = format!("127.0.0.1:{}", server.port);
    for python in [
        format!("import socket; socket.create_connection(('127.0.0.1', {}), 5)", server.port),
        "import socket; socket.create_connection(('192.0.2.1', 80), 5)".to_owned(),
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))".to_owned(),
        "import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x', ('2001:db8::1', 443))"
            .to_owned(),
        "import socket; socket.getaddrinfo('ok.test', 80)".to_owned(),
    ] {
        let done = world.run(["--allow-host", &rule, "--", "python3", "-c", &python]).done();
        done.code(1).stderr_has("rror");
    }
    world
        .run(["--allow-host", &rule, "--", "sh", "-c", "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"])
        .done()
        .is(0, "lo\n", "");
    assert_eq!(server.heard().matches("GET ").count(), 1);
}

#[test]
fn ports_and_addresses_are_those_of_the_rule() {
    let (world, server, other) = (World::new(), Server::start(), Server::start());
    for (url, allowed) in [
        (format!("http://127.0.0.1:{}/", server.port), true),
        (format!("http://127.0.0.1:{}/", other.port), false),
        (format!("http://127.0.0.2:{}/", server.port), false),
        (format!("http://localhost:{}/", server.port), false),
    ] {
        let done = curl(&world, &server, &["--fail", &url]).done();
        assert_eq!(done.code == Some(0), allowed, "{url}: {}", done.out());
    }
    assert_eq!(other.heard(), "");
    // A name needs a rule of its own, and its address as well.
    let rules =
        [format!("localhost:{}", server.port), format!("127.0.0.1:{}", server.port), format!("[::1]:{}", server.port)];
    let url = format!("http://localhost:{}/", server.port);
    let call = |rules: &[String]| {
        let options = rules.iter().flat_map(|rule| ["--allow-host", rule]);
        world.run(options.chain(["--", "curl", "-sS", "--max-time", "10", &url])).done()
    };
    call(&rules).is(0, "hello\n", "");
    call(&rules[..1]).code(0).stdout_has("which is loopback").stdout_has("hint: --allow-host");
    // What forbids wins.
    let denied = [&rules[..], &["!localhost".to_owned()]].concat();
    call(&denied).code(0).stdout_has("the rule '!localhost' forbids");
}

#[test]
fn rules_that_can_never_match_start_nothing() {
    let world = World::new();
    for rule in [
        "",
        "* *",
        "https://ok.test",
        "FOO ok.test/x",
        "GET, POST ok.test/x",
        "ok.test:0",
        "ok.test:99999",
        "::1",
        "a b",
        "ok..test",
    ] {
        let done = world.sh(["-w", ".", "--allow-host", rule], "touch started").done();
        done.refused(125, &["--allow-host", &format!("'{rule}'")]);
    }
    world.sh(["-w", ".", "--allow-host", "!ok.test"], "touch started").done().refused(125, &["every rule"]);
    assert!(!world.has("w/started"));
    world.sh(["-w", ".", "--allow-host", "[::1]:80"], "touch started").done().is(0, "", "");
    assert!(world.has("w/started"));
}

#[test]
fn the_environment_leads_to_the_proxy_whatever_the_caller_has() {
    let world = World::new();
    let names =
        ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"];
    let print = names.map(|name| format!("echo \"{name}=${name}\"")).join("; ");
    let call = |options: &[&str]| {
        let mut call = world.sh(options, &print);
        for name in names {
            call = call.env(name, "http://caller.test");
        }
        call.done()
    };
    let own = "localhost,127.0.0.1,::1";
    let expected = |own: &str| {
        names
            .map(|name| match name.to_ascii_lowercase().as_str() {
                "no_proxy" => format!("{name}={own}\n"),
                "all_proxy" => format!("{name}=socks5h://127.0.0.1:3128\n"),
                _ => format!("{name}=http://127.0.0.1:3128\n"),
            })
            .concat()
    };
    call(&["--allow-host", "ok.test"]).is(0, &expected(own), "");
    call(&["--allow-host", "127.0.0.1:80"]).is(0, &expected(""), "");
    call(&["--allow-host", "ok.test", "-e", "HTTP_PROXY"]).is(0, &expected(own), "");
    let typed = expected(own).replacen("HTTP_PROXY=http://127.0.0.1:3128", "HTTP_PROXY=x", 1);
    call(&["--allow-host", "ok.test", "-e", "HTTP_PROXY=x"]).is(0, &typed, "");
    call(&[]).is(0, &names.map(|name| format!("{name}=\n")).concat(), "");
}

#[test]
fn the_proxy_ends_with_the_run() {
    let (world, server) = (World::new(), Server::start());
    let rule = format!("127.0.0.1:{}", server.port);
    let script = format!("curl -s http://{rule}/; touch ready; exec sleep 1000.5");
    let running = world.sh(["-w", ".", "--allow-host", &rule], &script).spawn();
    assert!(eventually(|| world.has("w/ready")));
    running.signal(nix::sys::signal::Signal::SIGKILL);
    let done = running.done();
    assert_eq!(done.signal, Some(9));
    // All of its processes have the words of the command, or those of the call.
    assert!(eventually(|| processes_with(&rule).is_empty()), "{:?}", processes_with(&rule));
}

#[test]
fn many_requests_at_once() {
    let (world, server) = (World::new(), Server::start());
    let rule = format!("127.0.0.1:{}", server.port);
    let python = format!(
        "import concurrent.futures as c, urllib.request as u\n\
         with c.ThreadPoolExecutor(64) as pool:\n \
         print(sum(pool.map(lambda n: len(u.urlopen('http://{rule}/' + str(n), timeout=60).read()), range(500))))"
    );
    world.run(["--allow-host", &rule, "--", "python3", "-c", &python]).done().is(0, "3000\n", "");
}

#[test]
fn backends_without_a_way_out_say_so() {
    let world = World::new();
    let done = world.sh(["-b", "none", "--allow-host", "ok.test"], "echo started").done();
    done.refused(125, &["backend 'none': network ("]);
    let gaps = ["-b", "none", "--allow-gap", "network", "--allow-host", "ok.test"];
    world.sh(gaps, "echo started").done().code(0).stdout("started\n");
    world.sh(["-b", "bwrap", "--allow-host", "ok.test"], "echo started").done().is(0, "started\n", "");
}

#[test]
fn the_host_network_is_not_beside_it() {
    let world = World::new();
    let devices = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '";
    // Typed both is a contradiction, whatever comes first.
    let token = ["--credential", "type=https_bearer,host=ok.test,env=T"];
    let other = [["--allow-host", "ok.test"], ["--egress-socket", "/s"], ["--egress-port", "8642"], token];
    for (name, options) in other.iter().map(|words| (words[0], words)) {
        for words in [[&["--net", "host"], &options[..]].concat(), [&options[..], &["--net", "host"]].concat()] {
            let done = world.sh([&["-w", "."], &words[..]].concat(), "touch started").done();
            done.refused(125, &[&format!("options '--net host' and '{name}' exclude each other")]);
        }
    }
    assert!(!world.has("w/started"));
    world.sh(["--net", "host", "--net", "off", "--allow-host", "ok.test"], devices).done().is(0, "lo\n", "");
    // A file is narrowed by what is typed, in silence, and not widened, which is told.
    world.write("w/host.toml", "allow_network = true\n");
    world.sh(["--policy", "host.toml", "--allow-host", "ok.test"], devices).done().is(0, "lo\n", "");
    world.write("w/rules.toml", "allow_hosts = ['ok.test']\n");
    let told = "sandbox-run: warning: --net host is without effect: requests leave by the rules of rules.toml alone\n";
    world.sh(["--policy", "rules.toml", "--net", "host"], devices).done().is(0, "lo\n", told);
    world.sh(["--policy", "rules.toml"], devices).done().is(0, "lo\n", "");
    let all = world.call("sh", ["-c", devices]).done().out();
    for options in [&["--net", "host"][..], &["--policy", "host.toml"]] {
        world.sh(options, devices).done().is(0, &all, "");
    }
}

/// A proxy of somebody else's that says what it was told and answers.
pub fn other_proxy(path: &Path) {
    let listener = UnixListener::bind(path).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut bytes = Vec::new();
                let _read = stream.read_to_end(&mut bytes);
                let _sent = stream.write_all(&[b"heard ", bytes.as_slice()].concat());
            });
        }
    });
}

pub const SAY: &str = "import socket, sys\n\
    s = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 10)\n\
    s.sendall(b'hello'); s.shutdown(socket.SHUT_WR); print(s.makefile().read())";

#[test]
fn bytes_are_carried_to_the_proxy_of_somebody_else() {
    let world = World::apart();
    let socket = world.path(".egress.sock");
    other_proxy(&socket);
    let options = ["--egress-socket", socket.to_str().unwrap(), "--egress-port", "8642"];
    let say = |more: &[&str]| world.run(options.iter().chain(more).chain(&["--", "python3", "-c", SAY, "8642"])).done();
    say(&[]).is(0, "heard hello\n", "");
    // Neither masks nor limits of the command reach it.
    say(&["--mask", socket.to_str().unwrap()]).is(0, "heard hello\n", "");
    say(&["--max-open-files", "16"]).is(0, "heard hello\n", "");
    world.sh(options, "echo $http_proxy").done().is(0, "http://127.0.0.1:8642\n", "");
    // Nobody here sees requests.
    let log = world.text("log");
    let done = world.sh(options.iter().chain(&["--net-log", &log]), "echo started").done();
    done.refused(125, &["cannot write the log of requests", "--egress-socket"]);
    assert!(!world.has("log"));
    // Much, both ways.
    let much = "import socket, threading\n\
        s = socket.create_connection(('127.0.0.1', 8642), 30)\n\
        t = threading.Thread(target=lambda: (s.sendall(bytes(50_000_000)), s.shutdown(socket.SHUT_WR))); t.start()\n\
        print(sum(len(p) for p in iter(lambda: s.recv(1 << 20), b'')))";
    world.run(options.iter().chain(&["--", "python3", "-c", much])).done().is(0, "50000006\n", "");
}

#[test]
fn a_crowd_waits_for_who_is_slow() {
    let world = World::apart();
    let socket = world.path("s");
    // Nobody accepts, and few may wait. Whoever finds no place inside is counted by the kernel, and tries again after a second.
    let listener = UnixListener::bind(&socket).unwrap();
    nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(1).unwrap()).unwrap();
    let crowd = "import socket\n\
        crowd = [socket.create_connection(('127.0.0.1', 8642), 20) for _ in range(600)]\n\
        names, counts = [line.split() for line in open('/proc/net/netstat') if line.startswith('TcpExt:')]\n\
        print(len(crowd), dict(zip(names, counts))['ListenOverflows'])";
    let options = ["--egress-socket", socket.to_str().unwrap(), "--egress-port", "8642"];
    world.run(options.iter().chain(&["--", "python3", "-c", crowd])).done().is(0, "600 0\n", "");
}

#[test]
fn the_relay_is_out_of_reach_of_the_command() {
    let world = World::apart();
    let socket = world.path("s");
    other_proxy(&socket);
    let options = ["--egress-socket", socket.to_str().unwrap(), "--egress-port", "8642"];
    // Process 1 and the relay: their memory and environment are not for the command, and neither are they themselves.
    let look = "for p in 1 2; do cat /proc/$p/environ /proc/$p/maps; kill -9 $p; done 2>&1 | \
        grep -c -e 'Permission denied' -e 'not permitted'; exec python3 -c \"$0\" 8642";
    let words = [&options[..], &["--", "sh", "-c", look, SAY]].concat();
    world.run(words).done().is(0, "6\nheard hello\n", "");
}

#[test]
fn a_pair_that_is_none_starts_nothing() {
    let world = World::apart();
    let socket = world.path("s");
    other_proxy(&socket);
    let (plain, socket) = (world.write("plain", ""), socket.to_str().unwrap().to_owned());
    let plain = plain.to_str().unwrap();
    let missing = world.text("missing");
    let long = format!("/{}", "a".repeat(107));
    for (options, words) in [
        (&["--egress-socket", &socket][..], &["--egress-port is missing"][..]),
        (&["--egress-port", "8642"], &["--egress-socket is missing"]),
        (&["--egress-socket", &socket, "--egress-port", "0"], &["'0' is not the number of a port"]),
        (&["--egress-socket", &socket, "--egress-port", "65536"], &["'65536' is not the number of a port"]),
        (&["--egress-socket", &socket, "--egress-port", "x"], &["'x' is not the number of a port"]),
        (&["--egress-socket", &missing, "--egress-port", "8642"], &["missing", "no such file"]),
        (&["--egress-socket", plain, "--egress-port", "8642"], &["plain", "not a socket"]),
        (&["--egress-socket", "s", "--egress-port", "8642"], &["'s'", "absolute"]),
        (&["--egress-socket", &long, "--egress-port", "8642"], &["longer than 107 bytes"]),
        (&["--egress-socket", &socket, "--egress-port", "80"], &["listen on the port inside", "permission denied"]),
        (&["--egress-socket", &socket, "--egress-port", "8642", "--allow-host", "ok.test"], &["two proxies"]),
    ] {
        let done = world.sh([&["-b", "bwrap", "-w", "."], options].concat(), "touch started").done();
        done.refused(125, words);
        assert!(!world.has("w/started"), "{options:?}");
    }
}

#[test]
fn a_payload_has_its_way_out() {
    if about_bwrap("a payload names bubblewrap") {
        return;
    }
    let world = World::apart();
    let socket = world.path("s");
    other_proxy(&socket);
    let path = socket.to_str().unwrap();
    let typed = ["--egress-socket", path, "--egress-port", "8642", "-b", "bwrap", "--no-default-env"];
    let typed = [&typed[..], &["-e", "PATH", "-e", "TMPDIR", "-e", "TMP", "-e", "TEMP", "-e", "TEMPDIR"]].concat();
    let payload = world.run(typed.iter().chain(&["--print-policy=payload"])).done();
    let text = payload.out();
    world
        .run(["--policy-payload", text.trim(), "--", "python3", "-c", SAY, "8642"])
        .done()
        .code(0)
        .stdout("heard hello\n");
}

#[test]
fn documents_have_rules() {
    let (world, server) = (World::new(), Server::start());
    let rule = format!("127.0.0.1:{}", server.port);
    world.write("w/policy.toml", format!("allow_network = true\nallow_hosts = [\"{rule}\"]\n"));
    let url = format!("http://{rule}/");
    world.run(["--policy", "policy.toml", "--", "curl", "-sS", &url]).done().is(0, "hello\n", "");
    world.run(["--policy", "policy.toml", "--print-policy"]).done().code(0).stdout_has(&format!("\"{rule}\""));
    world.write("w/policy.toml", "allow_hosts = [\"https://ok.test\"]\n");
    world
        .run(["--policy", "policy.toml", "--", "true"])
        .done()
        .refused(125, &["allow_hosts", "has a scheme", "did you mean 'ok.test'"]);
}

#[test]
fn real_clients_find_the_proxy() {
    let (world, server) = (World::new(), Server::start());
    let rule = format!("127.0.0.1:{}", server.port);
    let url = format!("http://{rule}/");
    for (program, words) in [
        ("curl", vec!["-sS", "--fail", &url]),
        ("wget", vec!["-q", "-O", "-", "--tries=1", &url]),
        (
            "python3",
            vec!["-c", "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode(), end='')", &url],
        ),
    ] {
        if find(program).is_none() {
            skip(program, "not installed");
            continue;
        }
        let call = |rule: &str| world.run(["--allow-host", rule, "--", program].iter().chain(&words)).done();
        call(&rule).is(0, "hello\n", "");
        let done = call("other.test");
        assert_ne!((done.code, done.out().as_str()), (Some(0), "hello\n"), "{program}");
    }
}
