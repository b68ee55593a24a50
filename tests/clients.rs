//! Real clients and a way out: what is allowed they reach as they would without us, what is denied fails at once and says why,
//! and past the proxy there is nothing.
//!
//! Live servers on loopback with a certificate of the test's own authority. Names are those of a hosts file that only the call sees.

use std::ffi::CString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde_json::Value;

use crate::harness::{Call, Done, PATHS, World, eventually, find, has_landlock, is_root, skip};

/// A web site by https, in a world of its own; `w/ca.pem` is the authority that its certificate is from.
struct Site {
    world: World,
    server: Child,
    port: u16,
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ended = self.server.kill();
        let _waited = self.server.wait();
    }
}

const OPENSSL: &str = "set -e; new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
    openssl req -x509 $new -keyout ca.key -out ca.pem -days 2 -subj /CN=test -addext basicConstraints=critical,CA:TRUE
    openssl req $new -keyout key.pem -out request.pem -subj /CN=ok.test -addext subjectAltName=\"$1\"
    openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -copy_extensions copy -days 2 -out cert.pem";

impl Site {
    /// Nothing where `programs` or what serves them is missing, or where a call cannot have a hosts file of its own.
    fn for_client(programs: &[&str]) -> Option<Self> {
        for program in ["python3", "openssl", "git"].iter().chain(programs) {
            if find(program).is_none() {
                skip(program, "not installed");
                return None;
            }
        }
        let world = World::new();
        world.write("hosts", "127.0.0.1 localhost\n127.0.0.1 ok.test no.test\n");
        if own_hosts(&world, world.call("grep", ["-q", "ok.test", "/etc/hosts"])).done().code != Some(0) {
            skip("namespaces", "no mount of our own over /etc/hosts");
            return None;
        }
        let names = "DNS:ok.test,DNS:no.test,IP:127.0.0.1,IP:::1";
        world.dir("tls");
        world.call("sh", ["-c", OPENSSL, "-", names]).cwd(world.path("tls")).done().code(0);
        fs::copy(world.path("tls/ca.pem"), world.path("w/ca.pem")).unwrap();
        let script = "set -e; git init -q --bare git/tiny.git; git -C git/tiny.git config http.receivepack true
            git -C git/tiny.git symbolic-ref HEAD refs/heads/main
            git init -q -b main work; cd work; echo hello >file; git add file
            git -c user.name=x -c user.email=x@test commit -q -m first; git push -q ../git/tiny.git main";
        world.dir("site");
        world.call("sh", ["-c", script]).cwd(world.path("site")).done().code(0);
        let root = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
        let mut command = Command::new(find("python3").unwrap());
        command
            .arg(PathBuf::from(root).join("tests/fixtures/site.py"))
            .args(["site", "tls/cert.pem", "tls/key.pem", "log"].map(|name| world.path(name)));
        command.env_clear().env("PATH", PATHS).env("HOME", world.path("home"));
        let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a port");
        Some(Self { world, server, port })
    }

    /// Runs `script` with `$URL` at `host`.
    fn run(&self, options: &[&str], host: &str, script: &str) -> Done {
        let ca = self.world.text("w/ca.pem");
        let url = format!("URL=https://{host}:{}", self.port);
        let mut words: Vec<String> = options.iter().map(|word| (*word).to_owned()).collect();
        for name in [
            "CA",
            "SSL_CERT_FILE",
            "CURL_CA_BUNDLE",
            "GIT_SSL_CAINFO",
            "PIP_CERT",
            "REQUESTS_CA_BUNDLE",
            "NODE_EXTRA_CA_CERTS",
            "CARGO_HTTP_CAINFO",
        ] {
            words.extend(["-e".to_owned(), format!("{name}={ca}")]);
        }
        words.extend(["-e".to_owned(), url]);
        own_hosts(&self.world, self.world.sh(words, script)).done()
    }

    /// Options that allow `ok.test`, at which this site is.
    fn allowed(&self) -> [String; 4] {
        let option = || "--allow-host".to_owned();
        [option(), format!("ok.test:{}", self.port), option(), format!("127.0.0.1:{}", self.port)]
    }

    /// What the server has seen so far.
    fn seen(&self) -> String {
        fs::read_to_string(self.world.path("log")).unwrap_or_default()
    }
}

/// Gives a call a hosts file of its own, in a mount namespace of its own.
fn own_hosts(world: &World, call: Call) -> Call {
    let path = CString::new(world.path("hosts").as_os_str().as_bytes()).unwrap();
    let (root, uid, gid) = (is_root(), nix::unistd::getuid(), nix::unistd::getgid());
    let maps =
        [("uid_map", format!("{uid} {uid} 1")), ("setgroups", "deny".into()), ("gid_map", format!("{gid} {gid} 1"))];
    call.before_exec(move || {
        if root {
            unshare(CloneFlags::CLONE_NEWNS)?;
        } else {
            unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
            for (name, text) in &maps {
                fs::write(format!("/proc/self/{name}"), text)?;
            }
        }
        let nothing = None::<&str>;
        mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)?;
        Ok(mount(Some(path.as_c_str()), "/etc/hosts", nothing, MsFlags::MS_BIND, nothing)?)
    })
}

/// What the scripts of all clients begin with, and what makes one ignore the proxy.
const BEGIN: &str = "set -e; cd; ";
const IGNORE: &str =
    "unset http_proxy HTTP_PROXY https_proxy HTTPS_PROXY all_proxy ALL_PROXY JAVA_TOOL_OPTIONS NODE_USE_ENV_PROXY; ";

/// A client fetches something whose name or text has `got` in it, and complains with `complaint` where it is denied.
fn check(programs: &[&str], script: &str, got: &str, complaint: &str) {
    check_with(&[], programs, script, got, complaint);
}

/// The same with more options, by a port of an own network and by connections that are made in the place of the client.
fn check_with(options: &[&str], programs: &[&str], script: &str, got: &str, complaint: &str) {
    check_by(options, programs, script, got, complaint);
    if has_landlock() {
        // Two files that may not be read, and of which a client would say more than of one that is not there.
        let landlock = ["-b", "landlock", "--read-try", "/etc/debian_version", "--read-try", "/etc/wgetrc"];
        check_by(&[&landlock, options].concat(), programs, script, got, complaint);
    }
}

fn check_by(options: &[&str], programs: &[&str], script: &str, got: &str, complaint: &str) {
    let Some(site) = Site::for_client(programs) else { return };
    let allowed = site.allowed();
    let allowed: Vec<&str> =
        allowed.iter().map(String::as_str).chain(["--net-log", "log"]).chain(options.iter().copied()).collect();
    let by_proxy = format!("{BEGIN}{script}");
    let past_it = format!("{BEGIN}{IGNORE}{script}");

    site.run(&allowed, "ok.test", &by_proxy).code(0).stdout_has(got);
    let seen = site.seen();
    assert!(seen.contains(&format!(" ok.test:{} /", site.port)), "{seen}");

    // The same server under another name.
    fs::remove_file(site.world.path("w/log")).unwrap();
    let denied = site.run(&allowed, "no.test", &by_proxy);
    assert!(denied.code != Some(0) && !denied.out().contains(got), "{}{}", denied.out(), denied.stderr);
    assert!(
        format!("{}{}", denied.out(), denied.stderr).contains(complaint),
        "expected {complaint:?}\n{}{}",
        denied.out(),
        denied.stderr
    );
    // Clients give up by themselves after thirty seconds of silence.
    assert!(denied.took < Duration::from_secs(20), "{:?}", denied.took);
    let log = site.world.read("w/log");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!lines.is_empty(), "{}{}", denied.out(), denied.stderr);
    for line in &lines {
        let told = (line["verdict"].as_str(), line["host"].as_str(), line["port"].as_u64());
        assert_eq!(told, (Some("denied"), Some("no.test"), Some(site.port.into())), "{log}");
    }

    // Past the proxy, by name and by address of either kind.
    for host in ["ok.test", "127.0.0.1", "[::1]"] {
        let done = site.run(&allowed, host, &past_it);
        assert!(done.code != Some(0) && !done.out().contains(got), "{host}: {}{}", done.out(), done.stderr);
    }
    assert_eq!(site.seen(), seen);
    site.run(&[&["--net", "host"], options].concat(), "ok.test", &past_it).code(0).stdout_has(got);
}

#[test]
fn curl() {
    // Libraries of curl tell the status alone; the program tells all when it is asked.
    check(&["curl"], "curl -sS --max-time 30 $URL/hello", "welcome\n", "403");
    check(
        &["curl"],
        "curl -sSv --max-time 30 $URL/hello",
        "welcome\n",
        "403 Forbidden by sandbox-run, hint: --allow-host no.test:",
    );
}

#[test]
fn wget() {
    check(
        &["wget"],
        "wget -nv -O - --tries=1 --timeout=30 --ca-certificate=$CA $URL/hello",
        "welcome\n",
        "Forbidden by sandbox-run, hint: --allow-host no.test:",
    );
}

#[test]
fn git_clone_and_push() {
    let script = "git clone -q $URL/git/tiny.git tiny; cd tiny; cat file; date +%N >file
        git -c user.name=x -c user.email=x@test commit -q -a -m more; git push -q origin main; git log --format=%s origin/main";
    check(&["git"], script, "more\nfirst\n", "403");
    let script = "git init -q -b main new; cd new; echo hello >file; git add file
        git -c user.name=x -c user.email=x@test commit -q -m first
        git push -q $URL/git/tiny.git HEAD:refs/heads/b$(date +%s%N); echo pushed";
    check(&["git"], script, "pushed\n", "403");
}

#[test]
fn pip() {
    let script = "pip3 download --no-cache-dir --disable-pip-version-check --retries 1 --timeout 30 --no-deps \
        --index-url $URL/simple/ -d out tiny; ls out";
    check(&["pip3"], script, "tiny-1.0-py3-none-any.whl\n", "403 Forbidden");
}

/// A whole installation: a package as it is, and one that is built first.
#[test]
fn pip_install() {
    let install = "pip3 install -q --no-cache-dir --disable-pip-version-check --retries 1 --timeout 30 --no-deps \
        --index-url $URL/simple/ --target out";
    let script = format!("{install} tiny; PYTHONPATH=out python3 -c 'import tiny; print(tiny.NAME)'");
    check(&["pip3"], &script, "as it came\n", "403 Forbidden");
    if has_module("setuptools") && has_module("wheel") {
        let build = "--no-build-isolation --no-binary :all:";
        let script =
            format!("{install} {build} sourced; PYTHONPATH=out python3 -c 'import sourced; print(sourced.NAME)'");
        check(&["pip3"], &script, "built here\n", "403 Forbidden");
    }
}

#[test]
fn npm() {
    let script = "mkdir p; cd p; echo {} >package.json; export npm_config_cafile=$CA
        npm install --no-audit --no-fund --no-update-notifier --fetch-retries=0 --registry $URL/npm/ tiny; ls node_modules";
    check(&["npm", "node"], script, "tiny\n", "403");
}

#[test]
fn node_fetch() {
    let Some(node) = find("node") else { return skip("node", "not installed") };
    let version = Command::new(node).arg("--version").output().unwrap();
    let numbers: Vec<u32> = String::from_utf8_lossy(&version.stdout)
        .trim_start_matches('v')
        .split('.')
        .filter_map(|number| number.trim().parse().ok())
        .collect();
    let script = "node -e 'fetch(process.env.URL + \"/hello\").then(a => a.text()).then(t => process.stdout.write(t))'";
    if numbers >= vec![24] || (numbers >= vec![22, 21] && numbers < vec![23]) {
        return check(&["node"], script, "welcome\n", "403");
    }
    // Older ones know of no proxy: they fail, and `-v` says which way there is.
    let Some(site) = Site::for_client(&["node"]) else { return };
    let allowed = site.allowed();
    let allowed: Vec<&str> = allowed.iter().map(String::as_str).chain(["-v"]).collect();
    let done = site.run(&allowed, "ok.test", &format!("{BEGIN}{script}"));
    done.code(1).stdout("").stderr_has("nothing is reached but by the proxy at 127.0.0.1:");
    assert_eq!(site.seen(), "");
    site.run(&["--net", "host"], "ok.test", &format!("{BEGIN}{script}")).is(0, "welcome\n", "");
}

/// Where a cargo lies that starts no other one: in a toolchain of rustup, or installed for everybody.
fn cargo_place() -> Option<PathBuf> {
    let rustup = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
    let rustup = rustup.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".rustup")));
    let toolchains =
        rustup.and_then(|place| fs::read_dir(place.join("toolchains")).ok()).into_iter().flatten().flatten();
    toolchains.map(|entry| entry.path()).chain([PathBuf::from("/usr")]).find(|top| top.join("bin/cargo").is_file())
}

#[test]
fn cargo_fetch() {
    let Some(top) = cargo_place() else { return skip("cargo", "no toolchain that this user can read") };
    let top = top.to_str().unwrap();
    let path = format!("PATH={top}/bin:{PATHS}");
    let script = "mkdir -p c/src c/.cargo; cd c; echo 'fn main() {}' >src/main.rs
        printf '[package]\\nname = \"x\"\\nversion = \"1.0.0\"\\nedition = \"2021\"\\n[dependencies]\\ntiny = \"1\"\\n' >Cargo.toml
        printf '[source.crates-io]\\nreplace-with = \"local\"\\n[source.local]\\nregistry = \"sparse+%s/index/\"\\n' $URL >.cargo/config.toml
        printf '[net]\\nretry = 0\\n' >>.cargo/config.toml
        cargo fetch -q; ls ~/.cargo/registry/src/*";
    check_with(&["-r", top, "-e", &path], &[], script, "tiny-1.0.0\n", "403");
}

/// Whether Debian's Python has that module.
fn has_module(name: &str) -> bool {
    let found = Command::new("/usr/bin/python3").args(["-c", &format!("import {name}")]).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        skip(name, "not installed");
    }
    found
}

#[test]
fn python_requests() {
    if has_module("requests") {
        let script =
            "python3 -c 'import os, requests; print(requests.get(os.environ[\"URL\"] + \"/hello\", timeout=30).text)'";
        check(&["python3"], script, "welcome\n", "403 Forbidden by sandbox-run, hint: --allow-host no.test:");
    }
}

#[test]
fn python_aiohttp() {
    if has_module("aiohttp") {
        let script = "python3 -c '
import aiohttp, asyncio, os
async def main():
    async with aiohttp.ClientSession(trust_env=True) as session:
        async with session.get(os.environ[\"URL\"] + \"/hello\") as answer:
            print(await answer.text())
asyncio.run(main())'";
        check(&["python3"], script, "welcome\n", "403");
    }
}

/// A connection that becomes another protocol within a tunnel, into which nobody looks.
#[test]
fn a_web_socket() {
    if has_module("aiohttp") {
        let script = "python3 -c '
import aiohttp, asyncio, os
async def main():
    async with aiohttp.ClientSession(trust_env=True) as session:
        async with session.ws_connect(os.environ[\"URL\"] + \"/socket\") as socket:
            for text in (\"one\", \"two\"):
                await socket.send_str(text)
                print(await socket.receive_str(timeout=30))
asyncio.run(main())'";
        check(&["python3"], script, "one\ntwo\n", "403");
    }
}

/// A server of HTTP/2 and of nothing else.
const SECOND: &str = "const fs = require('fs'), http2 = require('http2'), [key, cert] = process.argv.slice(1).map(name => fs.readFileSync(name));
    const server = http2.createSecureServer({ key, cert });
    server.on('stream', stream => { stream.respond({ ':status': 200 }); stream.end('second\\n'); });
    server.listen(0, '127.0.0.1', () => console.log(server.address().port));
    process.stdin.on('end', () => process.exit()).resume();";

#[test]
fn curl_by_http_2() {
    let Some(mut site) = Site::for_client(&["curl", "node"]) else { return };
    let mut command = Command::new(find("node").unwrap());
    command.args(["-e", SECOND]).args(["tls/key.pem", "tls/cert.pem"].map(|name| site.world.path(name)));
    command.env_clear().env("PATH", PATHS).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut second = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(second.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let first = std::mem::replace(&mut site.port, line.trim().parse().expect("a port"));
    let script = "curl -sS --http2 --max-time 30 -w '%{http_version}' $URL/";
    for backend in [&[][..], &["-b", "landlock"]].into_iter().filter(|list| list.is_empty() || has_landlock()) {
        let allowed = site.allowed();
        let allowed: Vec<&str> = backend.iter().copied().chain(allowed.iter().map(String::as_str)).collect();
        site.run(&allowed, "ok.test", script).is(0, "second\n2", "");
        site.run(&allowed, "no.test", script).code(56).stdout_lacks("second").stderr_has("403");
        site.run(&allowed, "ok.test", &format!("{IGNORE}{script}")).code(7);
    }
    // The other server speaks what is older, so that it was this one's choice.
    site.port = first;
    let allowed = site.allowed();
    let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
    site.run(&allowed, "ok.test", &script.replace("$URL/", "$URL/hello")).is(0, "welcome\n1.1", "");
    drop(second.stdin.take());
    second.wait().unwrap();
}

#[test]
fn apt() {
    let script = "/usr/lib/apt/apt-helper -o APT::Sandbox::User= -o Acquire::Retries=0 -o Acquire::https::CaInfo=$CA \
        download-file $URL/hello there; cat there";
    check(&["apt-get"], script, "welcome\n", "403");
}

#[test]
fn go_modules() {
    let script = "export GOPROXY=$URL/go GOSUMDB=off GOFLAGS=-modcacherw GOTOOLCHAIN=local
        go mod download -json tiny.test/tiny@v1.0.0";
    check(&["go"], script, "\"Zip\"", "Forbidden by sandbox-run");
}

#[test]
fn java() {
    let program = "import java.net.*; class Fetch { public static void main(String[] words) throws Exception {
        System.out.write(new URL(words[0]).openStream().readAllBytes()); System.out.flush(); } }";
    let script = format!(
        "keytool -importcert -noprompt -file $CA -keystore keys -storepass changeit 2>/dev/null
        echo '{program}' >Fetch.java
        java -Djavax.net.ssl.trustStore=keys -Djavax.net.ssl.trustStorePassword=changeit Fetch.java $URL/hello"
    );
    check_with(
        &["-p", "jvm"],
        &["java", "javac", "keytool"],
        &script,
        "welcome\n",
        "403 Forbidden by sandbox-run, hint: --allow-host no.test:",
    );
}

/// Live listeners of each kind, to which one program turns at once.
#[test]
fn datagrams_and_addresses_lead_nowhere() {
    let world = World::new();
    let four = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = four.local_addr().unwrap().port();
    four.set_nonblocking(true).unwrap();
    let six = TcpListener::bind("[::1]:0").ok();
    let script = "import socket, sys
for kind, family, to in (('udp', socket.AF_INET, ('127.0.0.1', int(sys.argv[1]))), ('six', socket.AF_INET6, ('::1', int(sys.argv[2])))):
    try:
        s = socket.socket(family, socket.SOCK_DGRAM if kind == 'udp' else socket.SOCK_STREAM)
        s.connect(to); s.send(b'x'); s.settimeout(0.2); s.recv(1)
    except TimeoutError:
        print(kind, 'silence')
    except OSError as error:
        print(kind, 'refused')
";
    let other = six.as_ref().map_or(9, |six| six.local_addr().unwrap().port());
    let words = ["--", "python3", "-c", script, &port.to_string(), &other.to_string()];
    let heard = || four.recv(&mut [0; 9]).is_ok();
    world
        .run(["--allow-host", "127.0.0.1:80"].iter().chain(&words))
        .done()
        .code(0)
        .stdout("udp refused\nsix refused\n");
    assert!(!heard());
    let control = world.run(["--net", "host"].iter().chain(&words)).done().code(0);
    control.stdout_has("udp silence\n").stdout_has(if six.is_some() { "six silence\n" } else { "six" });
    assert!(eventually(heard));
}
