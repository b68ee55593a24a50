//! A way out under Seatbelt: what its profile lets through, and the proxy on a port of this host, to which everybody can connect.
//!
//! Plan, port and proxy are those of a run. Only the command is in no sandbox, since no Mac is at hand: real clients take its
//! variables.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, IntoRawFd};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use sandbox_run::backend::{Backend, seatbelt};
use sandbox_run::config::layer::merge;
use sandbox_run::egress::log::Sums;
use sandbox_run::egress::rules::Rule;
use sandbox_run::egress::token::Token;
use sandbox_run::host::Host;
use sandbox_run::launch::{Launch, Word};
use sandbox_run::plan::resolve::Attempt;
use sandbox_run::plan::{Plan, resolve};
use sandbox_run::policy::{HostRule, Origin};
use sandbox_run::stage::secrets::Secrets;
use sandbox_run::stage::way_out::{self, Outside, Port, Proxy};

use crate::egress::Server;
use crate::harness::{World, eventually, find};
use crate::sbpl::Profile;
use crate::seatbelt::Mac;

/// The plan of a run with these rules on this host as if it were a Mac, with the port that was taken for it.
fn planned(world: &World, rules: &[&str], port: Option<u16>) -> Plan {
    let mut policy = merge(Vec::new());
    let rule = |text: &&str| HostRule { rule: Rule::parse(text).unwrap(), origin: Origin::Flag("--allow-host") };
    policy.egress.hosts = rules.iter().map(rule).collect();
    let home = world.path("home");
    let environment = vec![("HOME".into(), home.clone().into()), ("PATH".into(), "/usr/bin:/bin".into())];
    let host = Host { cwd: Ok(world.path("w")), home: Some(home), environment, ..Host::probe() };
    let attempt = Attempt { run: Some(7), port, ..Attempt::default() };
    resolve(&policy, &host, Backend::Seatbelt, &["/bin/sh".into()], attempt, None).expect("a plan")
}

fn token(plan: &Plan) -> Token {
    plan.way_out.as_ref().unwrap().entry.token().expect("a word that the command says").clone()
}

fn variable(plan: &Plan, name: &str) -> String {
    let found = plan.environment.vars.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value.to_str().unwrap().to_owned()).unwrap_or_default()
}

/// A run without its command.
struct Run {
    world: World,
    plan: Plan,
    port: u16,
    proxy: Proxy,
}

impl Run {
    fn start(rules: &[&str]) -> Self {
        let world = World::new();
        let port = Port::take().unwrap();
        let number = port.number();
        let plan = planned(&world, rules, Some(number));
        let log = File::create(world.path("log")).unwrap();
        let outside = Outside::start(&plan, &Secrets::default(), Some(&log), Some(port)).unwrap().unwrap();
        assert_eq!(outside.wanted().port(), None, "nobody has to listen inside");
        let (_inside, proxy) = outside.part();
        Self { world, plan, port: number, proxy: proxy.unwrap() }
    }

    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// What curl prints with the variables of the command, and how it ends.
    fn curl(&self, words: &[&str]) -> (String, bool) {
        let mut command = Command::new(find("curl").unwrap());
        command.args(["-sS", "--max-time", "20"]).args(words).env_clear();
        command.envs(self.plan.environment.vars.iter().map(|(name, value)| (name, value)));
        let done = command.output().unwrap();
        (String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned(), done.status.success())
    }

    /// What the proxy says to `bytes`.
    fn ask(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _read = stream.read_to_end(&mut answer);
        answer
    }

    /// Sums and lines at the end.
    fn end(self) -> (Sums, String) {
        let sums = self.proxy.finish().unwrap().sums;
        let log = self.world.read("log");
        (sums, log)
    }
}

#[test]
fn the_command_reaches_servers_by_its_variables() {
    let server = Server::start();
    let run = Run::start(&[&format!("127.0.0.1:{}", server.port)]);
    let url = format!("http://127.0.0.1:{}/a", server.port);
    let done = |words: &[&str]| run.curl(words);
    assert_eq!(done(&[&url]), ("hello\n".into(), true));
    // By CONNECT, and by SOCKS.
    assert_eq!(done(&["-p", &url]), ("hello\n".into(), true));
    assert_eq!(done(&["--proxy", &variable(&run.plan, "ALL_PROXY"), &url]), ("hello\n".into(), true));
    // As git does it, who says nothing before it is asked to.
    assert_eq!(done(&["--proxy-anyauth", &url]), ("hello\n".into(), true));
    assert!(done(&["http://no.test/"]).0.starts_with("sandbox-run: no rule allows 'no.test:80'\n"));
    // What is for the proxy is no server's business.
    let heard = server.heard();
    assert!(heard.contains("GET /a ") && !heard.contains("Authorization"), "{heard}");
    let (sums, log) = run.end();
    assert_eq!((sums.allowed, sums.denied, sums.denied_hosts.len()), (4, 1, 1), "{log}");
    assert_eq!(log.lines().count(), 5, "{log}");
}

#[test]
fn whoever_else_connects_is_served_nothing() {
    let server = Server::start();
    let run = Run::start(&[&format!("127.0.0.1:{}", server.port)]);
    let url = format!("http://127.0.0.1:{}/", server.port);
    let own = token(&run.plan).in_url();
    let (name, word) = own.split_once(':').unwrap();
    let mut other = word.to_owned();
    let last = if other.pop() == Some('0') { '1' } else { '0' };
    other.push(last);
    let users = [
        String::new(),
        format!("{name}:{other}@"),
        format!("{name}:@"),
        format!("{name}:{word}0@"),
        format!("x:{word}@"),
    ];
    for user in &users {
        for scheme in ["http", "socks5h"] {
            let proxy = format!("{scheme}://{user}127.0.0.1:{}", run.port);
            for words in [&["--fail", "--proxy", &proxy, &url][..], &["-p", "--fail", "--proxy", &proxy, &url]] {
                let (said, success) = run.curl(words);
                assert!(!success && !said.contains("hello"), "{proxy}: {said}");
            }
        }
        let plain = run.curl(&[
            "--proxy",
            &format!("http://{user}127.0.0.1:{}", run.port),
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            &url,
        ]);
        assert_eq!(plain, ("407".into(), true));
    }
    // What is no request, and what is none yet.
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"[..],
        b"GET",
        b"\x05\x01\x00",
        b"\x05\x01\x02\x01\x01x\x01x",
        b"\x16\x03",
        b"\r\n",
    ] {
        let answer = run.ask(bytes);
        assert!(!answer.starts_with(b"HTTP/1.1 2"), "{bytes:?}");
    }
    assert_eq!(run.ask(b"\x05\x01\x00"), b"\x05\xff");
    assert_eq!(run.ask(b"\x05\x01\x02\x01\x01x\x01x"), b"\x05\x02\x01\x01");
    assert_eq!(server.heard(), "");
    // The control; and nothing of what others wanted is told as if the command had.
    assert_eq!(run.curl(&[&url]), ("hello\n".into(), true));
    let (sums, log) = run.end();
    assert_eq!((sums.allowed, sums.denied, sums.failed), (1, 0, 0), "{log}");
    assert_eq!(log.lines().count(), 1, "{log}");
}

#[test]
fn the_word_is_in_the_variables_of_the_command_and_nowhere_else() {
    let server = Server::start();
    let rule = format!("127.0.0.1:{}", server.port);
    let run = Run::start(&[&rule]);
    let own = token(&run.plan).in_url();
    let word = own.split_once(':').unwrap().1;
    let with_word: Vec<_> =
        run.plan.environment.vars.iter().filter(|(_, value)| value.to_string_lossy().contains(word)).collect();
    let names: Vec<_> = with_word.iter().map(|(name, _)| name.to_str().unwrap()).collect();
    let expected = [
        "ALL_PROXY",
        "GRPC_PROXY",
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "all_proxy",
        "grpc_proxy",
        "http_proxy",
        "https_proxy",
    ];
    assert_eq!(names, expected);
    assert_eq!(variable(&run.plan, "HTTP_PROXY"), format!("http://{own}@127.0.0.1:{}", run.port));
    assert_eq!(variable(&run.plan, "ALL_PROXY"), format!("socks5h://{own}@127.0.0.1:{}", run.port));
    // Java would print it, and could not use it.
    assert_eq!(variable(&run.plan, "JAVA_TOOL_OPTIONS"), "");
    assert_ne!(token(&planned(&run.world, &[&rule], Some(1))), token(&run.plan), "each run has another one");

    let launch = seatbelt::launch(&run.plan).unwrap();
    let rest = format!("{launch:?} {:?} {:?}", run.plan.way_out, run.plan.notes);
    assert!(!rest.contains(word), "{rest}");
    run.curl(&["-v", &format!("http://{rule}/")]);
    let (sums, log) = run.end();
    assert!(!log.contains(word) && !serde_json::to_string(&sums).unwrap().contains(word), "{log}");
}

#[test]
fn the_port_is_the_runs_until_its_end() {
    let run = Run::start(&["ok.test"]);
    let number = run.port;
    // The proxy dies, and nobody can take its place.
    nix::sys::signal::kill(run.proxy.pid(), nix::sys::signal::Signal::SIGKILL).unwrap();
    let taken = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, number)).unwrap_err();
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
    drop(run);
    assert!(eventually(|| std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok()));
    // A plan for another port than the one that is held starts nothing.
    let world = World::new();
    for (port, planned_for) in
        [(None, Some(1)), (Some(Port::take().unwrap()), Some(1)), (Some(Port::take().unwrap()), None)]
    {
        let plan = planned(&world, &["ok.test"], planned_for);
        assert!(Outside::start(&plan, &Secrets::default(), None, port).is_err());
    }
}

#[cfg(feature = "intercept")]
#[test]
fn whom_to_trust_comes_before_the_command() {
    let world = World::new();
    let port = Port::take().unwrap();
    let mut plan = planned(&world, &["GET ok.test/a"], Some(port.number()));
    let inside = Path::new("/private/tmp/sandbox-run-0000000000000007/tmp/.sandbox-run-ca.pem");
    assert_eq!(plan.way_out.as_ref().unwrap().trust.as_deref(), Some(inside), "in a directory of the run");
    for name in ["SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS"] {
        assert_eq!(Path::new(&variable(&plan, name)), inside);
    }
    let there = world.path("w/trust");
    plan.way_out.as_mut().unwrap().trust = Some(there.clone());
    let outside = Outside::start(&plan, &Secrets::default(), None, Some(port)).unwrap().unwrap();
    let wanted = outside.wanted();
    let (file, _proxy) = outside.part();
    assert_eq!(wanted.number(), Some(file.into_raw_fd()), "the inner stage takes it by its number");
    let channel = way_out::open(&wanted).unwrap().expect("a channel");
    assert!(channel.as_fd().try_clone_to_owned().is_ok());
    way_out::trust(&wanted, &channel).unwrap();
    assert!(world.read("w/trust").contains("-----BEGIN CERTIFICATE-----"), "{}", there.display());
}

/// The profile with a port that was taken.
fn profile_with(port: u16) -> Profile {
    let world = World::new();
    let plan = planned(&world, &["ok.test"], Some(port));
    let Launch::Program(command) = seatbelt::launch(&plan).unwrap() else { panic!("it starts a program") };
    let text = command.arguments.iter().find_map(|word| match word {
        Word::Private(text) => Some(text.clone()),
        _ => None,
    });
    let text = text.unwrap();
    assert!(text.contains("\n(allow network-outbound (remote ip \"localhost:40001\"))\n"), "{text}");
    Profile::of(&text).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

#[test]
fn a_profile_with_rules_has_one_port_of_loopback() {
    let profile = profile_with(40001);
    for (address, reached) in [
        ("127.0.0.1:40001", true),
        ("localhost:40001", true),
        ("127.0.0.1:40002", false),
        ("127.0.0.1:53", false),
        ("127.0.0.1:4000", false),
        ("10.0.0.1:40001", false),
        ("192.0.2.1:443", false),
        ("192.0.2.1:53", false),
    ] {
        // Nobody listens inside.
        assert_eq!(profile.reaches(address).unwrap(), (reached, false), "{address}");
    }
    // Names are for the proxy to resolve. A service of the system that judges certificates fetches what these name.
    assert_eq!(profile.may("/private/var/run/mDNSResponder").unwrap(), "m");
    for service in [
        "com.apple.trustd.agent",
        "com.apple.networkd",
        "com.apple.SystemConfiguration.configd",
        "com.apple.dnssd.service",
    ] {
        assert!(!profile.allows_name("mach-lookup", service).unwrap(), "{service}");
    }
    assert_eq!(profile.may("/private/var/run/docker.sock").unwrap(), "m");
    assert_eq!(profile.may("/private/tmp/sandbox-run-0000000000000007/tmp/x").unwrap(), "mrxwucb");
}

#[test]
fn what_is_printed_has_no_port_and_no_word() {
    let mac = Mac::new();
    let rules = ["--allow-host", "ok.test", "true"];
    let text = mac.text(&rules);
    assert!(text.contains("\n(allow network-outbound (remote ip \"localhost:{port}\"))\n"), "{text}");
    let off = mac.text(&["true"]);
    assert!(!off.contains(" ip "), "{off}");
    for format in ["--dry-run", "--dry-run=json"] {
        let words = [&[format, "-vv", "-b", "seatbelt"], &rules[..]].concat();
        let done = mac.world.run(&words).done().code(0);
        assert!(done.out().contains("HTTPS_PROXY") && !done.out().contains("JAVA_TOOL_OPTIONS"), "{}", done.out());
        for said in [done.out(), done.stderr.clone()] {
            assert!(!said.contains("sandbox-run:0") && !said.contains("@127.0.0.1"), "{said}");
            assert!(!said.split(|char: char| !char.is_ascii_hexdigit()).any(|word| word.len() == 48), "{said}");
        }
        done.stderr_lacks("Token");
    }
}

#[cfg(feature = "intercept")]
#[test]
fn a_credential_has_its_placeholder() {
    let mac = Mac::new();
    let words = ["--dry-run=json", "-b", "seatbelt", "--allow-host", "ok.test"];
    let credential = ["--credential", "type=https_bearer,host=ok.test,env=API_TOKEN", "true"];
    let done = mac.world.run([&words[..], &credential].concat()).env("API_TOKEN", "s3cret").done().code(0);
    let json: serde_json::Value = serde_json::from_str(&done.out()).unwrap();
    let set = json["environment"]["set"].as_array().unwrap();
    for name in ["API_TOKEN", "SSL_CERT_FILE", "HTTPS_PROXY"] {
        assert!(set.iter().any(|set| set == name), "{set:?}");
    }
    assert!(!done.out().contains("s3cret"));
}

#[test]
fn a_socket_of_somebody_elses_proxy_is_a_gap() {
    let world = World::apart();
    let socket = world.path("s");
    crate::egress::other_proxy(&socket);
    let options = ["--dry-run", "-b", "seatbelt", "--egress-socket", socket.to_str().unwrap(), "--egress-port", "8642"];
    let done = world.run([&options[..], &["true"]].concat()).done();
    done.refused(125, &["backend 'seatbelt': network (", "a port of this host"]).stderr_has("--allow-gap network");
    let done = world.run([&options[..], &["--allow-gap", "network", "true"]].concat()).done().code(0);
    done.stdout_has("\ngap: network (").stdout_lacks("localhost:").stdout_lacks("HTTP_PROXY");
}
