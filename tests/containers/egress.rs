//! A way out of a container whose network is off: real requests by podman, as root and rootless.

use std::os::unix::fs::chown;

use nix::sys::signal::Signal;

use super::Place;
use crate::egress::{SAY, other_proxy};
use crate::harness::{Running, eventually};
use crate::probe::image;

/// A server of HTTP in the network that is the host's for what runs in the place.
const SERVER: &str = "import http.server as h, sys
class Answer(h.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', '6')
        self.end_headers()
        self.wfile.write(b'hello\\n')
h.ThreadingHTTPServer(('127.0.0.1', 4712), Answer).serve_forever()
";

/// Each way that is none prints what came of it.
const WAYS: &str = "import socket as s
def way(what, action):
    try:
        action()
        print(what, 'works')
    except OSError as error:
        print(what, 'fails')
tcp = lambda address: lambda: s.create_connection(address, 5).close()
udp = lambda family, address: lambda: s.socket(family, s.SOCK_DGRAM).sendto(b'x', address)
way('host', tcp(('127.0.0.1', 4712)))
way('raw', tcp(('192.0.2.1', 80)))
way('raw6', tcp(('2001:db8::1', 443)))
way('udp', udp(s.AF_INET, ('192.0.2.1', 53)))
way('quic', udp(s.AF_INET6, ('2001:db8::1', 443)))
way('name', lambda: s.getaddrinfo('ok.test', 80))
way('proxy', tcp(('127.0.0.1', 3128)))
";

fn serve(place: &Place) -> Running {
    let server = place.call(&["python3", "-c", SERVER]).spawn();
    let listens = || place.call(&["cat", "/proc/net/tcp"]).done().out().contains(":1268 ");
    assert!(eventually(listens), "the server");
    server
}

#[test]
fn what_is_allowed_is_reached_and_nothing_else() {
    for (_, place) in Place::both() {
        let (image, server) = (image(&place), serve(&place));
        let url = "http://127.0.0.1:4712/";
        let run = |options: &[&str], words: &[&str]| {
            place.run_image(&image, &[options, &["-r", "/usr", "--"], words].concat()).done()
        };
        let curl = ["/usr/bin/curl", "-sS", "--max-time", "10"];
        let rule = ["--allow-host", "127.0.0.1:4712"];
        run(&rule, &[&curl[..], &[url]].concat()).is(0, "hello\n", "");
        run(&rule, &[&curl[..], &["-p", url]].concat()).is(0, "hello\n", "");
        let denied = "sandbox-run: no rule allows 'no.test:80'\nsandbox-run: hint: --allow-host no.test\n";
        run(&rule, &[&curl[..], &["http://no.test/"]].concat()).is(0, denied, &crate::egress::told(&["no.test:80"]));
        run(&["--allow-host", "ok.test"], &[&curl[..], &[url]].concat()).code(7).stdout("");

        let ways = |last: &str| {
            let fail = ["raw", "raw6", "udp", "quic", "name"].map(|way| format!("{way} fails\n")).concat();
            format!("host {last}\n{fail}proxy ")
        };
        let python = ["/usr/bin/python3", "-c", WAYS];
        run(&rule, &python).code(0).stdout(&format!("{}works\n", ways("fails")));
        run(&[], &python).code(0).stdout(&format!("{}fails\n", ways("fails")));
        // The control: with the network of the host its server is there, and the port of the proxy is not.
        run(&["--net", "host"], &python).code(0).stdout_has("host works\n").stdout_has("proxy fails\n");

        let log = [&rule[..], &["--net-log", "log", "--result", "result"]].concat();
        run(&log, &[&curl[..], &[url, "http://no.test/"]].concat()).code(0);
        let log = place.world.read("w/log");
        assert!(log.lines().count() == 2 && log.contains("\"allowed\"") && log.contains("\"denied\""), "{log}");
        let result: serde_json::Value = serde_json::from_str(&place.world.read("w/result")).unwrap();
        assert_eq!((&result["requests"]["allowed"], &result["requests"]["denied"]), (&1.into(), &1.into()));
        server.signal(Signal::SIGKILL);
        server.done();
        assert_eq!(place.left(), [""; 0]);
    }
}

#[test]
fn bytes_are_carried_to_the_proxy_of_somebody_else() {
    for (user, place) in Place::both() {
        let (image, socket) = (image(&place), place.world.path("o/s"));
        other_proxy(&socket);
        chown(&socket, Some(user), Some(user)).unwrap();
        let options = ["--egress-socket", socket.to_str().unwrap(), "--egress-port", "8642", "-r", "/usr", "--"];
        let run = |words: &[&str]| place.run_image(&image, &[&options[..], words].concat()).done();
        run(&["/usr/bin/python3", "-c", SAY, "8642"]).is(0, "heard hello\n", "");
        // The relay and process 1 are not for the command, and neither is the socket by its name.
        let look = "for p in 1 2; do cat /proc/$p/environ /proc/$p/maps; kill -9 $p; done 2>&1 | \
            grep -c -e 'Permission denied' -e 'not permitted'; ls $0 || exec python3 -c \"$1\" 8642";
        let done = run(&["/usr/bin/sh", "-c", look, socket.to_str().unwrap(), SAY]);
        done.code(0).stdout("6\nheard hello\n");
        assert_eq!(place.left(), [""; 0]);
    }
}

#[cfg(feature = "intercept")]
#[test]
fn the_command_has_a_placeholder_and_whom_to_trust() {
    for (_, place) in Place::both() {
        let image = image(&place);
        let script = "echo $TOKEN; head -n 1 $SSL_CERT_FILE; cat /proc/[0-9]*/environ 2>/dev/null | grep -c s3cret-of";
        let words = ["--allow-host", "a.test", "--credential", "type=https_bearer,host=a.test,env=TOKEN"];
        let words = [&words[..], &["-r", "/usr", "--", "/usr/bin/sh", "-c", script]].concat();
        let done = place.run_image(&image, &words).env("TOKEN", "s3cret-of-this-test").done().code(1);
        let out = done.out();
        let lines: Vec<_> = out.lines().collect();
        assert!(lines[0].starts_with("oa_cred_"), "{out}");
        assert_eq!(lines[1..], ["-----BEGIN CERTIFICATE-----", "0"]);
        assert_eq!(place.left(), [""; 0]);
    }
}
