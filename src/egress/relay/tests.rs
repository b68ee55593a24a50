#![allow(clippy::cast_possible_truncation, reason = "numbers of tests are small, or cut on purpose")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::thread::{self, JoinHandle};

use super::*;

/// A relay that runs until it is dropped.
struct Running {
    address: SocketAddr,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<io::Result<()>>>,
    directory: tempfile::TempDir,
}

impl Running {
    fn start(outside: impl FnOnce(UnixListener) + Send + 'static) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("s");
        let unix = UnixListener::bind(&socket).unwrap();
        thread::spawn(move || outside(unix));
        Self::to(directory, &socket)
    }

    fn to(directory: tempfile::TempDir, socket: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = UnixStream::pair().unwrap();
        let socket = socket.to_owned();
        let thread = thread::spawn(move || run(&Source::Port(listener), &socket, stopped.as_fd()));
        Self { address, stop: Some(stop), thread: Some(thread), directory }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().unwrap().join();
        if !thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

fn echo(listener: &UnixListener) {
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        thread::spawn(move || {
            let mut reader = stream.try_clone().unwrap();
            let _copied = io::copy(&mut reader, &mut stream);
            let _shut = stream.shutdown(Shutdown::Write);
        });
    }
}

/// Bytes that show whether some are missing or have changed places.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251 + index / 65_536) as u8).collect()
}

#[test]
fn bytes_come_back_and_ends_are_told_one_by_one() {
    let relay = Running::start(|listener| echo(&listener));
    let mut stream = relay.connect();
    stream.write_all(b"hello").unwrap();
    let mut five = [0; 5];
    stream.read_exact(&mut five).unwrap();
    assert_eq!(&five, b"hello");
    stream.shutdown(Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
}

#[test]
fn the_outside_may_end_first_and_still_listen() {
    let (tell, told) = std::sync::mpsc::channel();
    let relay = Running::start(move |listener| {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"bye").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        tell.send(heard).unwrap();
    });
    let mut stream = relay.connect();
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, b"bye");
    stream.write_all(b"late").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(told.recv().unwrap(), b"late");
}

#[test]
fn much_in_both_directions_at_once() {
    const LENGTH: usize = 48 * 1024 * 1024;
    let relay = Running::start(|listener| echo(&listener));
    let stream = relay.connect();
    let mut writer = stream.try_clone().unwrap();
    let sent = pattern(LENGTH);
    let expected = sent.clone();
    let sender = thread::spawn(move || {
        writer.write_all(&sent).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut got = Vec::with_capacity(LENGTH);
    (&stream).read_to_end(&mut got).unwrap();
    sender.join().unwrap();
    assert!(got == expected, "{} of {LENGTH} bytes, or others", got.len());
}

#[test]
fn who_does_not_read_stops_who_writes() {
    let relay = Running::start(|listener| {
        let (stream, _) = listener.accept().unwrap();
        // Kept and not read.
        thread::sleep(Duration::from_mins(10));
        drop(stream);
    });
    let mut stream = relay.connect();
    stream.set_nonblocking(true).unwrap();
    let piece = vec![0; 1024 * 1024];
    let mut written = 0;
    let mut idle = 0;
    while idle < 50 && written < 256 * 1024 * 1024 {
        match stream.write(&piece) {
            Ok(count) => (written, idle) = (written + count, 0),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                idle += 1;
                thread::sleep(Duration::from_millis(10));
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(written < 64 * 1024 * 1024, "{written} bytes were taken for somebody who reads none");
    // Meanwhile others are served: the relay waits for nobody.
    drop(relay.connect());
}

#[test]
fn an_answer_arrives_though_nobody_reads_the_question() {
    let relay = Running::start(|listener| {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.write_all(b"no").unwrap();
        }
    });
    for _ in 0..20 {
        let mut stream = relay.connect();
        // What was not read when the other side closed is an error here, and none of the answer.
        let _sent = stream.write_all(&vec![0; 300_000]);
        let mut answer = [0; 2];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"no");
    }
}

#[test]
fn a_thousand_connections_at_once() {
    const COUNT: usize = 1000;
    crate::egress::raise_open_files();
    let relay = Running::start(|listener| {
        // One thread reads a byte of each and answers in the order in which they came.
        let mut streams: Vec<UnixStream> = listener.incoming().take(COUNT).map(Result::unwrap).collect();
        for stream in &mut streams {
            let mut byte = [0; 2];
            stream.read_exact(&mut byte).unwrap();
            stream.write_all(&byte).unwrap();
        }
    });
    let mut streams: Vec<TcpStream> = (0..COUNT).map(|_| relay.connect()).collect();
    for (index, stream) in streams.iter_mut().enumerate() {
        stream.write_all(&(index as u16).to_be_bytes()).unwrap();
    }
    for (index, stream) in streams.iter_mut().enumerate() {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, (index as u16).to_be_bytes());
    }
}

#[test]
fn nobody_outside_is_an_end_inside() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("none");
    let relay = Running::to(directory, &socket);
    let mut rest = Vec::new();
    // A reset, if the close came before the connection was looked at, and an end otherwise.
    let _read = relay.connect().read_to_end(&mut rest);
    assert!(rest.is_empty());
    // It goes on as soon as somebody is there.
    let unix = UnixListener::bind(&socket).unwrap();
    thread::spawn(move || echo(&unix));
    let mut stream = relay.connect();
    stream.write_all(b"x").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    assert!(relay.directory.path().is_dir());
}

#[test]
fn a_full_queue_outside_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    // One place in its queue, and nobody who takes from it for a while.
    let listener =
        nix::sys::socket::socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    nix::sys::socket::bind(listener.as_raw_fd(), &UnixAddr::new(&socket).unwrap()).unwrap();
    nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(1).unwrap()).unwrap();
    let relay = Running::to(directory, &socket);
    let mut streams: Vec<TcpStream> = (0..20).map(|_| relay.connect()).collect();
    let unix = UnixListener::from(listener);
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        echo(&unix);
    });
    for stream in &mut streams {
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
    }
}
