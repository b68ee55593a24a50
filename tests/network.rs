//! No network by default: nothing of the host is reached, and everything local works.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use sandbox_run::sys::filter::{self, Instruction};
use sandbox_run::sys::landlock;

use crate::harness::{Call, World, about_bwrap, eventually, find, program, skip};

/// No options.
const NONE: [&str; 0] = [];

#[test]
fn everything_local_works() {
    let world = World::new();
    for python in [
        "import asyncio; asyncio.run(asyncio.sleep(0))",
        "import socket; a, b = socket.socketpair(); a.sendmsg([b'x']); assert b.recv(1) == b'x'",
        "import multiprocessing as m; p = m.Pool(2); assert p.map(abs, [-1, -2]) == [1, 2]; p.close(); p.join()",
        "import socket; s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname()); \
         a, _ = s.accept(); c.sendall(b'x'); assert a.recv(1) == b'x'",
        "import socket\n\
         if socket.has_ipv6 and __import__('os').path.exists('/proc/net/if_inet6'):\n \
         s = socket.create_server(('::1', 0), family=socket.AF_INET6); socket.create_connection(s.getsockname()[:2])",
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('127.0.0.1', 0)); \
         s.sendto(b'x', s.getsockname()); assert s.recv(1) == b'x'",
        "import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0inside'); s.listen(); \
         c = socket.socket(socket.AF_UNIX); c.connect('\\0inside')",
        "import asyncio\nasync def main():\n p = await asyncio.create_subprocess_exec('true'); assert await p.wait() == 0\n\
         asyncio.run(main())",
    ] {
        world.run(["python3", "-c", python]).done().is(0, "", "");
    }
    world.run(["getent", "ahosts", "localhost"]).done().code(0).stdout_has("STREAM");
    if find("node").is_some() {
        world
            .run(["node", "-e", "require('net').createServer().listen(0, '127.0.0.1', function () { this.close() })"])
            .done()
            .is(0, "", "");
    }
}

#[test]
fn there_is_one_interface_and_it_cannot_be_changed() {
    let world = World::new();
    let names = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '";
    world.sh(NONE, names).done().is(0, "lo\n", "");
    world.sh(NONE, "tail -n +2 /proc/net/route").done().is(0, "", "");
    world.sh(["--net", "off"], names).done().is(0, "lo\n", "");
    world.sh(["--net", "host", "--net", "off"], names).done().is(0, "lo\n", "");
    let outside = world.call("sh", ["-c", names]).done();
    world.sh(["--net", "host"], names).done().is(0, &outside.out(), "");
    // SIOCSIFFLAGS with no flags takes an interface down.
    let down = "import fcntl, socket, struct\n\
        fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh22x', b'lo', 0))";
    world.run(["python3", "-c", down]).done().code(1).stderr_has("PermissionError");
    let up = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname())";
    world.run(["python3", "-c", up]).done().is(0, "", "");
    for raw in ["socket.AF_PACKET, socket.SOCK_RAW", "socket.AF_INET, socket.SOCK_RAW, 1"] {
        let script = format!("import socket; socket.socket({raw})");
        world.run(["python3", "-c", &script]).done().code(1).stderr_has("PermissionError");
    }
    if find("ip").is_some() {
        for change in [["link", "add", "d", "type", "dummy"].as_slice(), &["link", "set", "lo", "down"]] {
            let done = world.run(["ip"].iter().chain(change)).done();
            assert_ne!(done.code, Some(0), "ip {change:?}");
        }
    }
}

/// Connects by TCP to a port of the loopback interface and prints what comes.
const DIAL: &str =
    "import socket, sys; print(socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5).recv(9).decode())";

/// A listener that greets once per connection, and its port. The thread ends with the test program.
fn greeter() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // The other end may be gone already.
            let _gone = stream.write_all(b"hello").and_then(|()| stream.read(&mut [0; 64]).map(drop));
        }
    });
    port
}

#[test]
fn a_listener_of_the_host_is_reached_only_with_its_network() {
    let world = World::new();
    let port = greeter();
    world.call("python3", ["-c", DIAL, &port]).done().is(0, "hello\n", "");
    for options in [vec![], vec!["--net", "off"], vec!["--net", "host", "--net", "off"], vec!["-q", "-w", "/"]] {
        let words = options.iter().copied().chain(["python3", "-c", DIAL, &port]);
        world.run(words).done().code(1).stdout("").stderr_has("ConnectionRefusedError");
    }
    world.run(["--net", "host", "python3", "-c", DIAL, &port]).done().is(0, "hello\n", "");
}

#[test]
fn abstract_sockets_of_the_host_are_out_of_reach() {
    let world = World::new();
    let name = format!("sandbox-run-test-{}", std::process::id());
    let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let script = "import socket, sys; socket.socket(socket.AF_UNIX).connect('\\0' + sys.argv[1]); print('connected')";
    let dial = ["python3", "-c", script, &name];
    world.call(dial[0], &dial[1..]).done().is(0, "connected\n", "");
    world.run(dial).done().code(1).stdout("").stderr_has("ConnectionRefusedError");
    let with_network = || world.run(["--net", "host"].iter().chain(&dial));
    if landlock::scopes(landlock::version()) {
        with_network().done().code(1).stdout("").stderr_has("PermissionError");
        // What is made inside is reached inside.
        let own = "import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0'); s.listen(); \
            socket.socket(socket.AF_UNIX).connect(s.getsockname()); print('connected')";
        world.run(["--net", "host", "python3", "-c", own]).done().is(0, "connected\n", "");
    } else {
        with_network().done().refused(125, &["sockets"]);
        world.run(["--allow-gap", "sockets", "--net", "host"].iter().chain(&dial)).done().code(0).stdout("connected\n");
    }
    // Names made inside are not seen outside.
    let wait = "import os, socket, sys, time
s = socket.socket(socket.AF_UNIX); s.bind('\\0' + sys.argv[1]); s.listen()
print(open('/proc/net/unix').read().count(sys.argv[1]))
open('bound', 'w')
while not os.path.exists('seen'): time.sleep(0.01)";
    let own = format!("{name}-inside");
    let running = world.run(["-w", ".", "python3", "-c", wait, &own]).spawn();
    assert!(eventually(|| world.has("w/bound")));
    let outside = std::fs::read_to_string("/proc/net/unix").unwrap();
    assert!(outside.contains(&name) && !outside.contains(&own));
    world.write("w/seen", "");
    running.done().is(0, "1\n", "");
}

#[test]
fn without_a_network_namespace_nothing_runs() {
    let world = World::new();
    let port = greeter();
    let sr = program();
    let sr = sr.to_str().unwrap();
    // A user namespace in which no network namespace may be made.
    let none_left = "echo 0 >/proc/sys/user/max_net_namespaces && exec \"$@\"";
    let wrap = ["--user", "--map-root-user", "sh", "-c", none_left, "sh"];
    let dial = ["touch", "started"];
    let words = |options: &[&'static str]| -> Vec<String> {
        let parts = [&wrap[..], &[sr, "-w", "."], options, &dial];
        parts.concat().into_iter().map(String::from).collect()
    };
    if world.call("unshare", ["--user", "--map-root-user", "sh", "-c", none_left, "sh", "true"]).done().code != Some(0)
    {
        return skip("userns", "user namespaces cannot be made or limited here");
    }
    for backend in [&["-b", "bwrap"][..], &["-b", "bwrap", "--net", "off"]] {
        world.call("unshare", words(backend)).done().refused(125, &["bwrap"]);
        assert!(!world.has("w/started"));
    }
    world.call("unshare", words(&["-b", "bwrap", "--net", "host"])).done().code(0);
    assert!(world.has("w/started"));
    // The same with the network of the host, on purpose, outside.
    world.run(["--net", "host", "python3", "-c", DIAL, &port]).done().is(0, "hello\n", "");
}

/// A filter under which `socket(AF_NETLINK, …)`, by which a new loopback interface is set up, fails with EPERM.
fn without_netlink() -> [Instruction; 6] {
    const LOAD: u16 = 0x20;
    const IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let step = |code, jf, k| Instruction { code, jt: 0, jf, k };
    let number = |value: i64| u32::try_from(value).unwrap();
    [
        step(LOAD, 0, 0),
        step(IF_EQUAL, 3, number(libc::SYS_socket)),
        step(LOAD, 0, 16),
        step(IF_EQUAL, 1, number(libc::AF_NETLINK.into())),
        step(RETURN, 0, libc::SECCOMP_RET_ERRNO | number(libc::EPERM.into())),
        step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

#[test]
fn a_loopback_interface_that_cannot_be_set_up_is_named() {
    if about_bwrap("the words are bubblewrap's") {
        return;
    }
    let filtered = |call: Call| {
        let filter = without_netlink();
        call.before_exec(move || {
            nix::sys::prctl::set_no_new_privs()?;
            filter::load(&filter)
        })
    };
    let world = World::new();
    let words = ["-b", "bwrap", "-w", ".", "touch", "started"];
    filtered(world.run(words)).done().refused(125, &["bwrap", "loopback"]);
    assert!(!world.has("w/started"));
    filtered(world.run(["--net", "host", "-w", ".", "touch", "started"])).done().is(0, "", "");
    assert!(world.has("w/started"));
}
