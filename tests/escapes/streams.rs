//! Sockets that the caller has as standard streams: they belong to the host's network, whatever namespace holds the command.

use std::fs::File;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};

use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use sandbox_run::sys::landlock;

use super::python;
use crate::harness::World;

/// Lets go of the peer of descriptor `$1` and connects it to port `$2`.
const ANEW: &str = "import ctypes, os, socket, sys
number, port = map(int, sys.argv[1:])
libc = ctypes.CDLL(None, use_errno=True)
libc.connect(number, bytes(16), 16)
socket.socket(fileno=os.dup(number)).connect(('127.0.0.1', port))
os.write(3 - number if number else 1, b'connected')";

/// Sends or connects to the abstract name `$1`.
const ABSTRACT: &str = "import errno, os, socket, sys
name, stream = b'\\0' + sys.argv[1].encode(), socket.socket(fileno=os.dup(0))
try: stream.sendto(b'x', name) if stream.type == socket.SOCK_DGRAM else stream.connect(name)
except OSError as error: sys.exit(errno.errorcode[error.errno])
print('reached')";

#[test]
fn a_socket_of_the_network_is_refused_where_there_is_none() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let port = address.port().to_string();
    let tcp = || OwnedFd::from(TcpStream::connect(address).unwrap());
    let udp = || OwnedFd::from(UdpSocket::bind("127.0.0.1:0").unwrap());
    let (refused, hints) = (["network", "standard input", "socket"], ["--net host", "--allow-gap network", "cat |"]);
    for stream in [&tcp as &dyn Fn() -> OwnedFd, &udp] {
        for options in [&[][..], &["-w", "."], &["-r", "/"], &["--timeout", "50s"]] {
            let done = python(&world, Some(options), ANEW, &["0", &port]).stdin_from(stream()).done();
            let done = done.refused(125, &refused);
            assert!(hints.iter().all(|hint| done.stderr.contains(hint)), "{}", done.stderr);
        }
        let call = || python(&world, Some(&[]), "print('ran')", &[]);
        call().stdout(stream()).done().refused(125, &["network", "standard output"]);
        call().stderr(stream()).done().is(125, "", "");
        // The controls: outside, with the network, and by consent.
        for options in [None, Some(&["--net", "host"][..]), Some(&["-q", "--allow-gap", "network"])] {
            python(&world, options, ANEW, &["0", &port]).stdin_from(stream()).done().is(0, "connected", "");
        }
    }
    // What is advised: the bytes pass.
    let through = format!("cat | {} -- cat | cat", crate::harness::program().display());
    let (mut far, near) = UnixStream::pair().unwrap();
    std::io::Write::write_all(&mut far, b"bytes").unwrap();
    drop(far);
    world.call("sh", ["-c", &through]).stdin_from(OwnedFd::from(near)).done().is(0, "bytes", "");
}

#[test]
fn a_unix_socket_reaches_no_abstract_name_of_the_host() {
    let world = World::new();
    let name = format!("sandbox-run-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _letters = UnixDatagram::bind_addr(&address).unwrap();
    let streams = format!("{name}-stream");
    let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&streams).unwrap()).unwrap();
    let unconnected = |kind| socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
    let scoped = landlock::scopes(landlock::version());
    for (kind, name) in [(SockType::Datagram, &name), (SockType::Stream, &streams)] {
        for options in [&[][..], &["-w", "."], &["--net", "host"]] {
            let done = python(&world, Some(options), ABSTRACT, &[name]).stdin_from(unconnected(kind)).done();
            if scoped {
                done.is(1, "", "EPERM\n")
            } else {
                done.refused(125, &["sockets"])
            };
        }
        python(&world, None, ABSTRACT, &[name]).stdin_from(unconnected(kind)).done().is(0, "reached\n", "");
    }
    // What callers use in place of pipes stays.
    let (mut far, near) = UnixStream::pair().unwrap();
    std::io::Write::write_all(&mut far, b"bytes").unwrap();
    far.shutdown(std::net::Shutdown::Write).unwrap();
    world.run(["cat"]).stdin_from(OwnedFd::from(near)).done().is(0, "bytes", "");
}

#[test]
fn a_socket_of_a_rare_family_is_no_standard_stream() {
    let world = World::new();
    let netlink =
        || socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute).unwrap();
    let links = "import os, socket, struct, sys
stream = socket.socket(fileno=os.dup(int(sys.argv[1])))
stream.send(struct.pack('IHHIIB3x', 20, 18, 0x301, 1, 0, 0))
print(len(stream.recv(1 << 16)) > 20)";
    for options in [&[][..], &["--net", "host"], &["-w", "."]] {
        let done = python(&world, Some(options), links, &["0"]).stdin_from(netlink()).done();
        done.refused(125, &["standard input", "family"]).stderr_has("--keep-fd");
    }
    python(&world, None, links, &["0"]).stdin_from(netlink()).done().is(0, "True\n", "");
    python(&world, Some(&["--keep-fd", "7"]), links, &["7"]).fd(netlink(), 7).done().is(0, "True\n", "");
    // A file is none of all this.
    world.run(["cat"]).stdin_from(File::open(world.path("o/secret")).unwrap()).done().is(0, "s3cret", "");
}

/// Flags are set by a descriptor for reading; what is set outlives the run.
#[test]
fn flags_of_a_file_behind_standard_input_stay() {
    let world = World::new();
    let file = world.write("o/input", "text\n");
    let script = "import ctypes, errno, fcntl, struct
def by_name(number, structure):
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.syscall(number, 0, b'', structure, len(structure), 0x1000) == 0
    return 'done' if done else errno.errorcode[ctypes.get_errno()]
def answer(request, argument):
    try: fcntl.ioctl(0, request, argument); return 'done'
    except OSError as error: return errno.errorcode[error.errno]
flags = struct.pack('l', 0x40)
print(answer(0x40086602, flags), answer(0x401c5820, bytes(28)), answer(0x40806685, bytes(128)), answer(0x80086601, flags),
    by_name(469, struct.pack('QIIII', 0x40, 0, 0, 0, 0)))";
    let call = |options: Option<&[&str]>| {
        super::python(&world, options, script, &[])
            .stdin_from(std::fs::File::open(&file).expect("file"))
            .done()
            .code(0)
            .out()
    };
    let outside = call(None);
    for options in [&[][..], &["-w", "."], &["--net", "host"]] {
        let inside = call(Some(options));
        // What is asked is answered as outside.
        let asked = outside.split(' ').nth(3).expect("word");
        assert_eq!(inside, format!("EPERM EPERM EPERM {asked} EPERM\n"), "{options:?}");
    }
    assert!(!outside.contains("EPERM"), "the control\n{outside}");
}
