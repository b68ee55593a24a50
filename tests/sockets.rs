//! Unix sockets by path: which can be connected to, and that no other name leads to a denied one.

use std::fs;
use std::io::Write;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::harness::{World, is_root};

/// A server that greets everybody, until it goes out of scope.
pub struct Server {
    path: PathBuf,
    thread: Option<std::thread::JoinHandle<()>>,
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl Server {
    pub fn new(path: PathBuf) -> Self {
        let listener = UnixListener::bind(&path).expect("socket");
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if told.load(std::sync::atomic::Ordering::SeqCst) {
                    return;
                }
                // A client that is gone already is no fault of the server.
                let _gone = stream.and_then(|mut stream| stream.write_all(b"hello"));
            }
        });
        Self { path, thread: Some(thread), stop }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, std::sync::atomic::Ordering::SeqCst);
        if UnixStream::connect(&self.path).is_ok() {
            let _ended = self.thread.take().map(std::thread::JoinHandle::join);
        }
    }
}

/// Connects to each argument and prints the answer or the error.
pub const CLIENT: &str = "import socket, sys
for path in sys.argv[1:]:
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect(path)
        print(s.recv(9).decode())
    except OSError as error: print(type(error).__name__)";

/// The words of a client that connects to these.
fn client<'a>(options: &[&'a str], paths: &[&'a str]) -> Vec<&'a str> {
    [options, &["--", "python3", "-c", CLIENT], paths].concat()
}

const REFUSED: [&str; 3] = ["FileNotFoundError", "PermissionError", "ConnectionRefusedError"];

#[track_caller]
fn refused(world: &World, words: &[&str], count: usize) {
    let done = world.run(words).done().code(0);
    let answers: Vec<_> = done.out().lines().map(String::from).collect();
    assert!(
        answers.len() == count && answers.iter().all(|answer| REFUSED.contains(&answer.as_str())),
        "{words:?}: {answers:?}"
    );
}

#[test]
fn an_allowed_socket_works_alone() {
    let world = World::new();
    let (s, other) = (world.text("o/s"), world.text("o/s2"));
    let _servers = [Server::new(world.path("o/s")), Server::new(world.path("o/s2"))];
    world.call("python3", ["-c", CLIENT, &s, &other]).done().is(0, "hello\nhello\n", "");
    refused(&world, &client(&[], &[&s, &other]), 2);
    let before = world.snapshot();
    world.run(client(&["--allow-socket", &s], &[&s, &other])).done().is(0, "hello\nFileNotFoundError\n", "");
    world.run(["--allow-socket", &s, "ls", "-A", &world.text("o")]).done().is(0, "s\n", "");
    // Through a link, and twice.
    world.link("w/l", &s);
    world.run(client(&["--allow-socket", "l"], &["l", &s])).done().is(0, "hello\nhello\n", "");
    world.run(client(&["--allow-socket", &s, "--allow-socket", &other], &[&s, &other])).done().is(
        0,
        "hello\nhello\n",
        "",
    );
    // The socket is there to connect to, not to be replaced.
    world.run(["--allow-socket", &s, "rm", "-f", &s]).done().code(1);
    assert_eq!(world.snapshot().get(&world.path("o/s")), before.get(&world.path("o/s")));
}

#[test]
fn only_a_socket_that_is_there_can_be_allowed() {
    let world = World::new();
    world.link("w/dangling", "nowhere");
    for (path, reason) in [
        (world.text("o/none"), "no such file"),
        (world.text("o/secret"), "not a socket"),
        (world.text("o"), "not a socket"),
        (world.text("w/dangling"), "no such file"),
        (world.text("o/secret/below"), "not a directory"),
    ] {
        let before = world.snapshot();
        world.run(["--allow-socket", &path, "true"]).done().refused(125, &[&path, "--allow-socket", reason]);
        assert_eq!(world.snapshot(), before);
    }
    let _server = Server::new(world.path("o/s"));
    world.run(["--allow-socket", &world.text("o/s"), "true"]).done().is(0, "", "");
}

#[test]
fn a_denied_socket_answers_under_no_name() {
    let world = World::new();
    world.dir("o/d");
    let _servers = [Server::new(world.path("o/d/s")), Server::new(world.path("o/d/t"))];
    world.link("o/l", "d/s");
    let names = ["d/s", "d/./s", "d/../d/s", "l", "/proc/self/cwd/d/s"].map(String::from);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let o = world.text("o");
    let at = |words: Vec<&str>| world.run(words).cwd(&o);
    at(client(&["-w", "."], &names)).done().is(0, &"hello\n".repeat(5), "");
    for denied in ["d/s", "l", "d/./s"] {
        for allow in [vec![], vec!["--allow-socket", "d/s"]] {
            let options = [&["-w", ".", "--deny-socket", denied], &allow[..]].concat();
            let done = at(client(&options, &names)).done().code(0);
            assert!(done.out().lines().count() == 5 && !done.out().contains("hello"), "{options:?}: {}", done.out());
            at(client(&options, &["d/t"])).done().is(0, "hello\n", "");
        }
    }
    // Its directory cannot be moved, nor the denial be taken away.
    let rename = "import os; os.rename('d', 'e')";
    let denial = ["-w", ".", "--deny-socket", "d/s"];
    let move_it = "import os; os.rename('d/s', 'x')";
    for change in [
        vec!["python3", "-c", rename],
        vec!["python3", "-c", move_it],
        vec!["rm", "-f", "d/s"],
        vec!["ln", "d/s", "x"],
        vec!["chmod", "777", "d/s"],
        vec!["umount", "d/s"],
    ] {
        let before = world.snapshot();
        let done = at([&denial[..], &change].concat()).done();
        assert_ne!(done.code, Some(0), "{change:?}");
        assert_eq!(world.snapshot(), before, "{change:?}");
    }
    at(vec!["-w", ".", "python3", "-c", rename]).done().is(0, "", "");
    fs::rename(world.path("o/e"), world.path("o/d")).unwrap();
    // A hard link is another name: told, not hidden.
    fs::hard_link(world.path("o/d/s"), world.path("o/h")).unwrap();
    at(client(&denial, &["d/s"])).done().code(0).stdout("PermissionError\n").stderr_has("hard link");
}

#[test]
fn a_denied_socket_that_does_not_exist_stays_free() {
    let world = World::new();
    let (o, none) = (world.text("o"), world.text("o/none"));
    for grant in [vec![], vec!["-r", &o], vec!["-w", &o]] {
        let before = world.snapshot();
        let words = grant.iter().copied().chain(["--deny-socket", &none, "true"]);
        world.run(words).done().is(0, "", "");
        assert_eq!(world.snapshot(), before);
        drop(Server::new(world.path("o/none")));
        fs::remove_file(world.path("o/none")).unwrap();
    }
    let done = world.run(["-v", "--deny-socket", &none, "true"]).done().code(0);
    assert!(done.stderr.contains(&format!("{none}' (--deny-socket) does not exist")), "{}", done.stderr);
}

#[test]
fn control_sockets_of_the_host_are_out_of_reach() {
    if !is_root() {
        return eprintln!("only root can make a socket below /run");
    }
    let world = World::new();
    let dir = tempfile::Builder::new().prefix("sandbox-run-test-").tempdir_in("/run").unwrap();
    let path = dir.path().join("s");
    let _server = Server::new(path.clone());
    let (path, by_var) = (path.to_str().unwrap(), Path::new("/var").join(path.strip_prefix("/").unwrap()));
    let by_var = by_var.to_str().unwrap();
    world.call("python3", ["-c", CLIENT, path, by_var]).done().is(0, "hello\nhello\n", "");
    for options in [
        vec![],
        vec!["-q", "-r", "/"],
        vec!["-q", "-w", "/"],
        vec!["-r", "/var", "-w", "/var/tmp", "--show-hidden", "*"],
    ] {
        refused(&world, &client(&options, &[path, by_var]), 2);
        let allowed = [&options[..], &["--allow-socket", path]].concat();
        world.run(client(&allowed, &[path])).done().is(0, "hello\n", "");
    }
    let denied = ["-q", "-r", "/", "--allow-socket", path, "--deny-socket", path];
    refused(&world, &client(&denied, &[path]), 1);
}

#[test]
fn sockets_made_inside_stay_like_any_file() {
    let world = World::new();
    let script = "import socket, sys, os
for path in sys.argv[1:]:
    s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen()
    c = socket.socket(socket.AF_UNIX); c.connect(path)
    a, _ = s.accept()
    socket.send_fds(c, [b'x'], [os.open('/etc/passwd', os.O_RDONLY)])
    print(len(socket.recv_fds(a, 1, 1)[1]))";
    let home = world.text("home/s");
    world.run(["-w", ".", "python3", "-c", script, "/tmp/s", &home, "s"]).done().is(0, "1\n1\n1\n", "");
    assert!(world.has("w/s") && !world.has("home/s"));
}

/// Variables of a session, the names of the sockets that they lead to, and how they say it around the path.
const SESSION: &[(&str, &str, &str, &str)] = &[
    ("SSH_AUTH_SOCK", "agent.1", "", ""),
    ("DOCKER_HOST", "docker.sock", "unix://", ""),
    ("CONTAINER_HOST", "podman.sock", "unix://", ""),
    ("DBUS_SESSION_BUS_ADDRESS", "bus", "unix:path=", ",guid=0123"),
    ("DBUS_SYSTEM_BUS_ADDRESS", "system_bus_socket", "unix:path=", ""),
    ("WAYLAND_DISPLAY", "wayland-7", "", ""),
    ("GPG_AGENT_INFO", "S.gpg-agent", "", ":1:1"),
    ("PULSE_SERVER", "native", "unix:", ""),
    ("TMUX", "default", "", ",1,0"),
];

/// Out of the variable in the first argument makes a path, and connects.
const BY_VARIABLE: &str = "import os, re, socket, sys
value = os.environ.get(sys.argv[1])
if value is None: sys.exit('not set')
path = re.search('/[^,:]*', value.removeprefix('unix://'))[0]
s = socket.socket(socket.AF_UNIX); s.connect(path); print(s.recv(9).decode())";

#[test]
fn sockets_of_a_session_are_out_of_reach_and_come_with_their_variables() {
    let world = World::new();
    let places = if is_root() { &["/tmp", "/run"][..] } else { &["/tmp"] };
    for place in places {
        let dir = tempfile::Builder::new().prefix("sandbox-run-test-").tempdir_in(place).unwrap();
        let dir = fs::canonicalize(dir.path()).unwrap();
        let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
        let _servers: Vec<_> = SESSION.iter().map(|(_, name, ..)| Server::new(dir.join(name))).collect();
        let caller = |words: &[&str]| {
            let call = world.run(words).env("XDG_RUNTIME_DIR", &dir);
            SESSION.iter().fold(call, |call, (variable, name, before, after)| {
                // The name alone is a path below XDG_RUNTIME_DIR.
                let path = if *variable == "WAYLAND_DISPLAY" { (*name).to_owned() } else { path(name) };
                call.env(variable, format!("{before}{path}{after}"))
            })
        };
        let paths: Vec<_> = SESSION.iter().map(|(_, name, ..)| path(name)).collect();
        let paths: Vec<_> = paths.iter().map(String::as_str).collect();
        let all = "hello\n".repeat(SESSION.len());
        world.call("python3", [&["-c", CLIENT][..], &paths].concat()).done().is(0, &all, "");
        let variables: Vec<_> = SESSION.iter().map(|(name, ..)| *name).collect();
        let pattern = format!("^({})=", variables.join("|"));
        let whole = ["-q", "-r", "/", "--hidden-scan-max", "1000", "--net"];
        let whole = ["off", "host"].map(|network| [&whole[..], &[network]].concat());
        for options in [&["-q"][..], &["-q", "--net", "host"], &whole[0], &whole[1]] {
            refused(&world, &client(options, &paths), SESSION.len());
            caller(&[options, &["--", "sh", "-c", "env | grep -E \"$0\"", &pattern]].concat()).done().is(1, "", "");
            for (variable, name, ..) in SESSION {
                let socket = path(name);
                let allow = [options, &["--allow-socket", &socket]].concat();
                let words = [&allow[..], &["--", "python3", "-c", BY_VARIABLE, variable]].concat();
                caller(&words).done().is(0, "hello\n", "");
                // With it comes no other, neither socket nor variable.
                let done = caller(&client(&allow, &paths)).done().code(0);
                assert_eq!(done.out().matches("hello").count(), 1, "{variable}: {}", done.out());
                let words = [&allow[..], &["--", "sh", "-c", "env | grep -E \"$0\" | cut -d= -f1", &pattern]].concat();
                caller(&words).done().is(0, &format!("{variable}\n"), "");
            }
        }
        // Said with its reason, and not where nothing passes without being named.
        let words = ["--allow-socket", paths[0], "--dry-run", "true"];
        caller(&words).done().code(0).stdout_has("because the socket they lead to is allowed: SSH_AUTH_SOCK\n");
        let none = ["--no-default-env", "--allow-socket", paths[0], "--", "/usr/bin/env"];
        caller(&none).done().code(0).stdout_lacks("SSH_AUTH_SOCK");
        let denied = ["--allow-socket", paths[0], "--deny-socket", paths[0], "--", "env"];
        caller(&denied).done().code(0).stdout_lacks("SSH_AUTH_SOCK");
        let typed = ["--allow-socket", paths[0], "-e", "SSH_AUTH_SOCK=typed", "--", "printenv", "SSH_AUTH_SOCK"];
        caller(&typed).done().is(0, "typed\n", "");
    }
}

#[test]
fn a_service_can_say_that_it_is_ready_where_that_is_allowed() {
    let world = World::new();
    let path = world.text("o/notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_nonblocking(true).unwrap();
    let script = "import os, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.sendto(b'READY=1', os.environ.get('NOTIFY_SOCKET', PATH))";
    let script = script.replace("PATH", &format!("{path:?}"));
    let run = |options: &[&str]| {
        world.run([options, &["python3", "-c", &script]].concat()).env("NOTIFY_SOCKET", &path).done()
    };
    let mut buffer = [0; 64];
    for options in [&[][..], &["--net", "host"], &["-e", "NOTIFY_*"]] {
        assert_ne!(run(options).code, Some(0));
        assert!(socket.recv(&mut buffer).is_err(), "{options:?}");
    }
    run(&["--allow-socket", &path]).is(0, "", "");
    assert_eq!(socket.recv(&mut buffer).unwrap(), 7);
}
