//! Network and sockets under `landlock`: against live listeners of this test, each refusal with its control.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use crate::harness::{World, has_landlock};
use crate::landlock::{python, sh};

/// Tries each way out and prints what came of it: `TCP UDP PATH DATAGRAM NAME` are those of the listeners.
const WAYS: &str = r"
import errno, socket as s, sys
tcp, udp, path, datagram, name = sys.argv[1:]
def way(what, action):
    try:
        print(what, 'works' if action() is not False else 'nothing')
    except OSError as error:
        print(what, errno.errorcode[error.errno])
def kind(*args):
    return lambda: s.socket(*args).close()
def tcp_connect():
    s.create_connection(('127.0.0.1', int(tcp))).close()
def fast():
    s.socket().sendto(b'x', 0x20000000, ('127.0.0.1', int(tcp)))
def mptcp():
    s.socket(s.AF_INET, s.SOCK_STREAM, 262).connect(('127.0.0.1', int(tcp)))
def udp_send():
    s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', int(udp)))
def listen():
    s.socket().listen()
def bind():
    s.socket().bind(('127.0.0.1', 0))
def unix(address):
    return lambda: s.socket(s.AF_UNIX).connect(address)
def log():
    s.socketpair(s.AF_UNIX, s.SOCK_DGRAM)[0].sendto(b'x', datagram)
way('tcp', tcp_connect)
way('fast', fast)
way('mptcp', mptcp)
way('udp', udp_send)
way('listen', listen)
way('bind', bind)
way('inet6', kind(s.AF_INET6))
way('netlink', kind(s.AF_NETLINK, s.SOCK_RAW, 0))
way('path', unix(path))
way('abstract', unix('\0' + name))
way('log', log)
";

struct Listeners {
    tcp: TcpListener,
    udp: UdpSocket,
    _path: UnixListener,
    _datagram: UnixDatagram,
    _name: UnixListener,
    words: Vec<String>,
}

fn listeners(world: &World) -> Listeners {
    let (tcp, udp) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let (path, datagram) = (world.text("o/socket"), world.text("o/log"));
    let name = format!("sandbox-run-test-{}-{:?}", std::process::id(), std::thread::current().id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let words = vec![
        tcp.local_addr().unwrap().port().to_string(),
        udp.local_addr().unwrap().port().to_string(),
        path.clone(),
        datagram.clone(),
        name,
    ];
    Listeners {
        _path: UnixListener::bind(path).unwrap(),
        _datagram: UnixDatagram::bind(datagram).unwrap(),
        _name: UnixListener::bind_addr(&address).unwrap(),
        tcp,
        udp,
        words,
    }
}

fn ways(world: &World, listeners: &Listeners, options: &[&str]) -> Vec<String> {
    let mut words: Vec<&str> = [&["-q"], options, &["--", "/usr/bin/python3", "-c", WAYS]].concat();
    words.extend(listeners.words.iter().map(String::as_str));
    let done = world.run(words).done().code(0).stderr("");
    done.out().lines().map(str::to_owned).collect()
}

fn by_path() -> bool {
    sandbox_run::sys::landlock::version() >= 9
}

#[test]
fn every_way_out_is_closed() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    let listeners = listeners(&world);
    listeners.tcp.set_nonblocking(true).unwrap();
    listeners.udp.set_nonblocking(true).unwrap();
    let grant = world.text("o");
    // Before ABI 9 there are no Unix sockets; after it there are, and these are out of reach.
    let [unix, abstracts, log] = if by_path() { ["EACCES", "EPERM", "EACCES"] } else { ["EPERM"; 3] };
    for options in [&["-b", "landlock"][..], &["-b", "landlock", "-r", &grant]] {
        let found = ways(&world, &listeners, options);
        let refused =
            ["tcp", "fast", "mptcp", "udp", "listen", "bind", "inet6", "netlink"].map(|way| format!("{way} EPERM"));
        assert_eq!(found[..8], refused);
        assert_eq!(found[8..], [format!("path {unix}"), format!("abstract {abstracts}"), format!("log {log}")]);
        assert!(listeners.tcp.accept().is_err() && listeners.udp.recv(&mut [0]).is_err());
    }
    // The controls: with the network of the host, and with everything.
    let host = ways(&world, &listeners, &["-b", "landlock", "--net", "host"]);
    for way in ["tcp works", "udp works", "listen works", "bind works", "netlink works"] {
        assert!(host.contains(&way.to_owned()), "{host:?}");
    }
    assert_eq!(host[8..], found_unix(unix, abstracts, log));
    assert!(listeners.tcp.accept().is_ok() && listeners.udp.recv(&mut [0]).is_ok());
    let all = ways(&world, &listeners, &["-b", "none"]);
    for way in ["tcp works", "udp works", "path works", "abstract works", "log works"] {
        assert!(all.contains(&way.to_owned()), "{all:?}");
    }
}

fn found_unix(unix: &str, abstracts: &str, log: &str) -> [String; 3] {
    [format!("path {unix}"), format!("abstract {abstracts}"), format!("log {log}")]
}

#[test]
fn one_allowed_socket_is_a_gap_where_the_kernel_cannot_tell_them_apart() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    let listeners = listeners(&world);
    let (path, log) = (world.text("o/socket"), world.text("o/log"));
    let options = ["-b", "landlock", "--allow-socket", &path];
    if by_path() {
        let found = ways(&world, &listeners, &options);
        assert_eq!(found[8..], found_unix("works", "EPERM", "EACCES"));
        let options = ["-b", "landlock", "--allow-socket", &path, "--allow-socket", &log];
        assert_eq!(ways(&world, &listeners, &options)[10], "log works");
        return;
    }
    let words = [&options[..], &["touch", "ran"]].concat();
    let done = world.run(words).done().refused(125, &["sockets (", "Landlock ABI 9"]);
    done.stderr_has("hint: --allow-gap sockets accepts that");
    assert!(!world.has("w/ran"));
    // Accepted, all of them are in reach but those without a path.
    let options = [&options[..], &["--allow-gap", "sockets"]].concat();
    assert_eq!(ways(&world, &listeners, &options)[8..], found_unix("works", "EPERM", "works"));
    assert_eq!(ways(&world, &listeners, &options)[0], "tcp EPERM");
}

#[test]
fn pairs_and_what_is_made_of_them_work() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    let script = r"
import asyncio, os, socket, subprocess, sys, threading
for kind in socket.SOCK_STREAM, socket.SOCK_SEQPACKET:
    for flags in 0, socket.SOCK_NONBLOCK, socket.SOCK_CLOEXEC, socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC:
        a, b = socket.socketpair(socket.AF_UNIX, kind | flags)
        a.send(b'x')
        assert b.recv(1) == b'x'
async def main():
    child = await asyncio.create_subprocess_exec('echo', 'out', stdout=asyncio.subprocess.PIPE)
    out, _ = await child.communicate()
    return out + await asyncio.to_thread(lambda: b'thread')
print(asyncio.run(main()))
";
    python(&world, &[], script).done().is(0, "b'out\\nthread'\n", "");
    sh(
        &world,
        &[],
        "getent hosts localhost >/dev/null; python3 -c 'import socket; socket.getaddrinfo(\"localhost\", 80)'",
    )
    .done()
    .code(0);
}

#[test]
fn nothing_is_told_of_the_host_network() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    let script = "import sys\nfor path in sys.argv[1:]:\n    try: print(len(open(path).read()) > 0)\n    except OSError as e: print(e.errno)";
    let paths = ["/proc/net/tcp", "/proc/self/net/dev", "/proc/thread-self/net/dev", "/proc/self/task/self/net/dev"];
    let mut words = vec!["-q", "-b", "landlock", "--", "/usr/bin/python3", "-c", script];
    words.extend(paths);
    world.run(words).done().is(0, "13\n13\n13\n2\n", "");
    world.run(["-q", "-b", "none", "--", "/usr/bin/python3", "-c", script, paths[0]]).done().is(0, "True\n", "");
}
