//! A way out under `landlock`, where the network is the host's: one port that is none of the host's, and nothing else.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use serde_json::Value;

use crate::egress::{SAY, Server, other_proxy, told};
use crate::harness::{World, eventually, find, has_landlock, is_root, processes_with, program};

const PYTHON: &str = "/usr/bin/python3";

#[test]
fn requests_leave_by_rules() {
    if !has_landlock() {
        return;
    }
    let (world, server) = (World::new(), Server::start());
    let rule = format!("127.0.0.1:{}", server.port);
    let url = format!("http://{rule}/a?q=s3cret");
    let curl = |options: &[&str], words: &[&str]| {
        let options = [&["-b", "landlock", "--allow-host", &rule], options, &["--", "curl", "-sS", "--max-time", "10"]];
        world.run(options.concat().iter().chain(words)).done()
    };
    curl(&[], &[&url]).is(0, "hello\n", "");
    curl(&[], &["-p", &url]).is(0, "hello\n", "");
    curl(&[], &["--proxy", "socks5h://127.0.0.1:3128", &url]).is(0, "hello\n", "");
    let denied = "sandbox-run: no rule allows 'no.test:80'\nsandbox-run: hint: --allow-host no.test\n";
    curl(&[], &["http://no.test/"]).is(0, denied, &told(&["no.test:80"]));
    curl(&[], &["https://no.test/"]).code(56).stderr_has("403");
    curl(&["--net-log", "log", "--result", "result"], &[&url, "http://no.test/"]).code(0);
    let log = world.read("w/log");
    assert!(log.lines().count() == 2 && log.contains("\"path\":\"/a\"") && !log.contains("s3cret"), "{log}");
    let result: Value = serde_json::from_str(&world.read("w/result")).unwrap();
    assert_eq!((&result["requests"]["allowed"], &result["requests"]["denied"]), (&1.into(), &1.into()), "{result}");
    assert_eq!(result["gaps"], Value::Array(Vec::new()));
    assert_eq!(server.heard().matches("GET ").count(), 4);
}

/// Each prints what came of it: `PORT OTHER UDP` are the port of the way out, one of another listener, and one of UDP.
const WAYS: &str = r"
import errno, socket as s, sys
port, other, datagrams = map(int, sys.argv[1:4])
def way(what, action):
    try:
        action()
        print(what, 'works')
    except OSError as error:
        print(what, errno.errorcode[error.errno] if error.errno in errno.errorcode else 'fails')
def tcp(host, port, family=s.AF_INET, *more):
    return lambda: s.socket(family, s.SOCK_STREAM, *more).connect((host, port))
def of(action, *arguments):
    return lambda: getattr(s.socket(), action)(*arguments)
def fast():
    s.socket().sendto(b'x', s.MSG_FASTOPEN, ('127.0.0.1', other))
def fast_message():
    s.socket().sendmsg([b'x'], [], s.MSG_FASTOPEN, ('127.0.0.1', other))
way('proxy', tcp('127.0.0.1', port))
way('mapped', tcp('::ffff:127.0.0.1', port, s.AF_INET6))
way('neighbour', tcp('127.0.0.2', port))
way('inet6', tcp('::1', port, s.AF_INET6))
way('mapped neighbour', tcp('::ffff:127.0.0.2', port, s.AF_INET6))
way('other port', tcp('127.0.0.1', other))
way('any', tcp('0.0.0.0', port))
way('raw', tcp('192.0.2.1', port))
way('fast', fast)
way('fast message', fast_message)
way('mptcp', tcp('127.0.0.1', other, s.AF_INET, 262))
way('udp', lambda: s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', datagrams)))
way('udp6', lambda: s.socket(s.AF_INET6, s.SOCK_DGRAM))
way('raw socket', lambda: s.socket(s.AF_INET, s.SOCK_RAW, 1))
way('netlink', lambda: s.socket(s.AF_NETLINK, s.SOCK_RAW, 0))
way('bind', of('bind', ('127.0.0.1', 0)))
way('listen', of('listen'))
way('source route', of('setsockopt', 0, 4, bytes([0x83, 7, 4, 127, 0, 0, 1, 0])))
way('device', of('setsockopt', s.SOL_SOCKET, 25, b'lo\0'))
way('name', lambda: s.getaddrinfo('ok.test', 80))
";

#[test]
fn nothing_else_is_reached() {
    if !has_landlock() {
        return;
    }
    let world = World::apart();
    // On the port that the command knows others listen: on the address itself, on one beside it, and on that of the other kind.
    let squatter = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = squatter.local_addr().unwrap().port();
    let neighbour = TcpListener::bind(("127.0.0.2", port)).unwrap();
    let newer = TcpListener::bind(("::1", port));
    let (other, datagrams) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    datagrams.set_nonblocking(true).unwrap();
    let socket = world.path("s");
    other_proxy(&socket);
    let numbers = [port, other.local_addr().unwrap().port(), datagrams.local_addr().unwrap().port()];
    let numbers = numbers.map(|number| number.to_string());
    let ways = |options: &[&str]| {
        let words = [&["-q"], options, &["--", PYTHON, "-c", WAYS]].concat();
        let done = world.run(words.iter().copied().chain(numbers.iter().map(String::as_str))).done();
        done.code(0).stderr("").out().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let found = ways(&["-b", "landlock", "--egress-socket", socket.to_str().unwrap(), "--egress-port", &numbers[0]]);
    let expected = [
        "proxy works",
        "mapped works",
        "neighbour EACCES",
        "inet6 EACCES",
        "mapped neighbour EACCES",
        "other port EACCES",
        "any EACCES",
        "raw EACCES",
        "fast EPERM",
        "fast message EPERM",
        "mptcp EPERM",
        "udp EPERM",
        "udp6 EPERM",
        "raw socket EPERM",
        "netlink EPERM",
        "bind EACCES",
        "listen EACCES",
        "source route EPERM",
        "device EPERM",
    ];
    assert_eq!(found[..19], expected);
    assert_ne!(found[19], "name works");
    let mut listeners = vec![&squatter, &neighbour, &other];
    listeners.extend(&newer);
    for listener in &listeners {
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "{listener:?}");
    }
    assert_eq!(datagrams.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    // The controls: each is there for a command that has the network of the host.
    let host = ways(&["-b", "landlock", "--net", "host"]);
    for way in ["proxy", "mapped", "neighbour", "other port", "any", "fast", "udp", "netlink", "bind", "listen"] {
        assert!(host.contains(&format!("{way} works")), "{way}: {host:?}");
    }
    if newer.is_ok() {
        assert!(host.contains(&"inet6 works".to_owned()), "{host:?}");
    }
    for listener in [&squatter, &neighbour, &other] {
        assert!(listener.accept().is_ok(), "{listener:?}");
    }
    assert!(datagrams.recv(&mut [0]).is_ok());
}

#[test]
fn nobody_else_is_served() {
    if !has_landlock() {
        return;
    }
    let (world, server) = (World::new(), Server::start());
    let rule = format!("127.0.0.1:{}", server.port);
    // The command tells the port that really serves it, and asks for something when the others have tried.
    let script = "import os, socket, sys, time
s = socket.create_connection(('127.0.0.1', 3128), 10)
with open('port.new', 'w') as file: file.write(str(s.getpeername()[1]))
os.rename('port.new', 'port')
while not os.path.exists('tried'): time.sleep(0.01)
s.sendall(b'GET http://%b/command HTTP/1.1\\r\\nHost: %b\\r\\n\\r\\n' % ((sys.argv[1].encode(),) * 2))
print(s.recv(15).decode())";
    let words = ["-b", "landlock", "-w", ".", "--allow-host", &rule, "--", PYTHON, "-c", script, &rule];
    let running = world.run(words).spawn();
    assert!(eventually(|| world.has("w/port")));
    let port: u16 = world.read("w/port").parse().unwrap();
    let request = format!("GET http://{rule}/stranger HTTP/1.1\r\nHost: {rule}\r\n\r\n");
    // Of the same user.
    let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stranger.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _sent = stranger.write_all(request.as_bytes());
    let mut answer = Vec::new();
    match stranger.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    assert_eq!(answer, b"");
    // And of another one.
    if is_root() && find("setpriv").is_some() {
        let ask = "import socket, sys
s = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 20)
try:
    s.sendall(sys.argv[2].encode())
    print(s.recv(15))
except OSError: print(b'')";
        let as_nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups", PYTHON, "-c", ask];
        let words = as_nobody.map(str::to_owned).into_iter().chain([port.to_string(), request.clone()]);
        world.call("setpriv", words).done().is(0, "b''\n", "");
    }
    // Nor is a second connection of the command that somebody else has made for it: there is none by that port.
    world.write("w/tried", "");
    running.done().is(0, "HTTP/1.1 200 OK\n", "");
    assert!(server.heard().contains("/command") && !server.heard().contains("/stranger"), "{}", server.heard());
}

#[test]
fn connections_of_all_kinds_are_made() {
    if !has_landlock() {
        return;
    }
    let world = World::apart();
    let socket = world.path("s");
    other_proxy(&socket);
    let options = ["-b", "landlock", "--egress-socket", socket.to_str().unwrap(), "--egress-port", "8642"];
    let run = |words: &[&str]| world.run([&options[..], &["--", PYTHON, "-c"], words].concat()).done();
    run(&[SAY, "8642"]).is(0, "heard hello\n", "");
    let script = "import asyncio, errno, socket, threading
address = ('127.0.0.1', 8642)
def say(s):
    s.sendall(b'x'); s.shutdown(socket.SHUT_WR)
    return s.makefile().read()
# What the kernel says of a socket that is connected, or on its way, it says here.
s = socket.socket(); s.setblocking(False)
assert s.connect_ex(address) == errno.EINPROGRESS
while s.connect_ex(address) in (errno.EALREADY, errno.EINPROGRESS): pass
assert s.connect_ex(address) == errno.EISCONN
s.setblocking(True); print(say(s))
s = socket.socket(); s.connect(address)
assert s.getblocking() and s.connect_ex(address) == errno.EISCONN
print(say(s))
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for number, length in (99, 16), (0, 16), (socket.socket().detach(), 15), (socket.socket(socket.AF_INET6).detach(), 16):
    wrong = (2).to_bytes(2, 'little') + (8642).to_bytes(2, 'big') + bytes([127, 0, 0, 1]) + bytes(8)
    assert libc.connect(number, wrong, length) == -1
    print(errno.errorcode[ctypes.get_errno()], end=' ')
assert libc.connect(socket.socket().detach(), ctypes.c_void_p(1), 16) == -1
print(errno.errorcode[ctypes.get_errno()])
async def one(n):
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b'%d' % n); writer.write_eof()
    return await reader.read() == b'heard %d' % n
async def all(): return sum(await asyncio.gather(*map(one, range(200))))
print(asyncio.run(all()))
done = []
def thread():
    for n in range(25):
        with socket.create_connection(address, 30) as s: done.append(say(s) == 'heard x')
threads = [threading.Thread(target=thread) for _ in range(16)]
for t in threads: t.start()
for t in threads: t.join()
print(sum(done))";
    run(&[script]).is(0, "heard x\nheard x\nEBADF ENOTSOCK EINVAL EAFNOSUPPORT EFAULT\n200\n400\n", "");
    let much = "import socket, threading
s = socket.create_connection(('127.0.0.1', 8642), 30)
t = threading.Thread(target=lambda: (s.sendall(bytes(50_000_000)), s.shutdown(socket.SHUT_WR))); t.start()
print(sum(len(p) for p in iter(lambda: s.recv(1 << 20), b'')))";
    run(&[much]).is(0, "50000006\n", "");
    // Limits of the command are none of the relay's, and its own name leads nowhere.
    let limited = [&options[..], &["--max-open-files", "16", "--", PYTHON, "-c", SAY, "8642"]].concat();
    world.run(limited).done().code(0).stdout("heard hello\n");
    let by_name = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])";
    run(&[by_name, socket.to_str().unwrap()]).code(1).stderr_has("PermissionError");
}

/// Whoever accepts outside is slow: more wait than there is room for, and none is lost.
#[test]
fn a_crowd_waits_for_who_is_slow() {
    if !has_landlock() {
        return;
    }
    let world = World::apart();
    let socket = world.path("s");
    let listener = UnixListener::bind(&socket).unwrap();
    nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(1).unwrap()).unwrap();
    let crowd = "import socket, sys
crowd = [socket.create_connection(('127.0.0.1', 8642), 20) for _ in range(600)]
print(len(crowd), flush=True)
print(sum(len(s.recv(2)) for s in crowd))";
    let options = ["-b", "landlock", "--egress-socket", socket.to_str().unwrap(), "--egress-port", "8642"];
    let running = world.run(options.iter().chain(&["--result", "result", "--", PYTHON, "-c", crowd])).spawn();
    let served = std::thread::spawn(move || {
        let mut all = Vec::new();
        for _ in 0..600 {
            let mut stream = listener.accept().unwrap().0;
            stream.write_all(b"ok").unwrap();
            all.push(stream);
        }
        all
    });
    running.done().is(0, "600\n1200\n", "");
    assert_eq!(served.join().unwrap().len(), 600);
}

/// Unix sockets are judged by Landlock, not here: neither do they get lost, nor is there a way past by exchanging descriptors.
#[test]
fn other_sockets_are_what_they_were() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    let (server, path) = (UnixListener::bind(world.path("o/s")).unwrap(), world.text("o/s"));
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let _sent = stream.unwrap().write_all(b"unix\n");
        }
    });
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    tcp.set_nonblocking(true).unwrap();
    let port = tcp.local_addr().unwrap().port().to_string();
    let script = "import os, socket, sys, threading, time
path, port = sys.argv[1], int(sys.argv[2])
s = socket.socket(socket.AF_UNIX); s.connect(path); print(s.makefile().read(), end='')
l = socket.socket(socket.AF_UNIX); l.bind('own'); l.listen(3)
c = socket.socket(socket.AF_UNIX); c.connect('own'); l.accept()[0].sendall(b'own'); print(c.recv(3).decode())
pair = socket.socketpair(); pair[0].sendall(b'x'); print(len(pair[1].recv(1)))
number = os.dup(0)
end = time.monotonic() + 2
def exchange():
    unix, internet = socket.socket(socket.AF_UNIX), socket.socket()
    while time.monotonic() < end:
        os.dup2(unix.fileno(), number); os.dup2(internet.fileno(), number)
threading.Thread(target=exchange, daemon=True).start()
libc = __import__('ctypes').CDLL(None, use_errno=True)
address = (2).to_bytes(2, 'little') + port.to_bytes(2, 'big') + bytes([127, 0, 0, 1]) + bytes(8)
tries, made = 0, 0
while time.monotonic() < end:
    tries += 1; made += libc.connect(number, address, 16) == 0
print(tries > 100, made)";
    let options: &[&str] = if sandbox_run::sys::landlock::version() >= 9 { &[] } else { &["--allow-gap", "sockets"] };
    let options = [&["-q", "-b", "landlock", "-w", ".", "--allow-host", "ok.test", "--allow-socket", &path], options];
    let words = [&options.concat()[..], &["--", PYTHON, "-c", script, &path, &port]].concat();
    world.run(words).done().is(0, "unix\nown\n1\nTrue 0\n", "");
    assert_eq!(tcp.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    // The control: the address is right.
    let control = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 10)";
    world.run(["-q", "-b", "landlock", "--net", "host", "--", PYTHON, "-c", control, &port]).done().is(0, "", "");
    assert!(tcp.accept().is_ok());
}

#[test]
fn inside_another_sandbox_there_is_none() {
    if !has_landlock() {
        return;
    }
    let world = World::new();
    let program = program();
    let above = program.parent().unwrap().to_str().unwrap();
    let inner = ["-b", "landlock", "--allow-host", "ok.test", "--", "echo", "ran"];
    for outer in [&["-b", "bwrap"][..], &["-b", "landlock", "--allow-gap", "processes"]] {
        let call = |inner: &[&str]| {
            let words = [&["-q"], outer, &["-r", above, "--", program.to_str().unwrap()], inner].concat();
            world.run(words).done()
        };
        let done = call(&inner);
        done.refused(125, &["cannot make connections in the place of the command"]).stderr_has("hint: inside another");
        call(&["-q", "-b", "landlock", "--", "echo", "ran"]).is(0, "ran\n", "");
    }
}

#[test]
fn the_proxy_ends_with_the_run() {
    if !has_landlock() {
        return;
    }
    let (world, server) = (World::new(), Server::start());
    let rule = format!("127.0.0.1:{}", server.port);
    let script = format!("curl -s http://{rule}/; touch ready; exec sleep 1000.25");
    let running = world.sh(["-b", "landlock", "-w", ".", "--allow-host", &rule], &script).spawn();
    assert!(eventually(|| world.has("w/ready")));
    running.signal(nix::sys::signal::Signal::SIGKILL);
    assert_eq!(running.done().signal, Some(9));
    assert!(eventually(|| processes_with(&rule).is_empty()), "{:?}", processes_with(&rule));
}

#[cfg(feature = "intercept")]
#[test]
fn a_secret_goes_to_its_host_and_the_command_never_has_it() {
    use crate::egress::named::Named;
    if !has_landlock() {
        return;
    }
    let Some(named) = Named::new() else { return };
    let script = format!(
        "curl -sS --max-time 10 {} {}; echo $TOKEN | cut -c 1-8; cat /proc/$$/environ $SSL_CERT_FILE | grep -c s3cret-of",
        named.url("a.test"),
        named.url("b.test")
    );
    let options = ["-b", "landlock", "--credential", "type=https_bearer,host=a.test,env=TOKEN"];
    let done = named.sh(&options, &script).env("TOKEN", "s3cret-of-this-test").done();
    done.is(1, "hello\nhello\noa_cred_\n0\n", "");
    let (a, b) = (named.a.heard_now(), named.b.heard_now());
    assert!(a.contains("Authorization: Bearer s3cret-of-this-test\r\n") && !b.contains("Authorization"), "{a}{b}");
}
