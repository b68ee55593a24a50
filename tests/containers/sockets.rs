//! Unix sockets in containers, with a client of the host's own programs: by path, denied, and by names of the host's network.

use super::Place;
use crate::probe::image;
use crate::sockets::{CLIENT, Server};

#[test]
fn sockets_are_reached_where_that_is_allowed() {
    for (user, place) in Place::both() {
        let world = &place.world;
        let image = image(&place);
        let _servers = ["o/s", "o/t"].map(|name| {
            let server = Server::new(world.path(name));
            std::os::unix::fs::chown(world.path(name), Some(user), Some(user)).unwrap();
            server
        });
        let [s, t] = ["o/s", "o/t"].map(|name| world.text(name));
        let asked = |options: &[&str]| {
            let words = [options, &["-r", "/usr", "--", "/usr/bin/python3", "-c", CLIENT, &s, &t]].concat();
            place.run_image(&image, &words).done().code(0).stderr("").out()
        };
        assert_eq!(asked(&[]), "FileNotFoundError\nFileNotFoundError\n");
        assert_eq!(asked(&["--allow-socket", &s]), "hello\nFileNotFoundError\n");
        assert_eq!(asked(&["-w", "../o"]), "hello\nhello\n");
        let denied = asked(&["-w", "../o", "--deny-socket", &s]);
        assert!(denied.ends_with("hello\n") && denied.lines().count() == 2 && !denied.starts_with("hello"), "{denied}");
        assert_eq!(place.left(), [""; 0]);
    }
}

/// Names without a path belong to the network.
#[test]
fn abstract_sockets_of_the_host_are_out_of_reach() {
    for (_, place) in Place::both() {
        let image = image(&place);
        let script = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\n\
            try: s.connect('\\0' + sys.argv[1]); print('connected')\nexcept OSError as error: print(type(error).__name__)\n";
        let name = format!("sandbox-run-test-{}-container", std::process::id());
        // In the network namespace of the place, which is the host of what runs there.
        let listen = "import socket, sys, time\ns = socket.socket(socket.AF_UNIX); s.bind('\\0' + sys.argv[1]); s.listen()\n\
            time.sleep(600)\n";
        let listener = place.call(&["/usr/bin/python3", "-c", listen, &name]).spawn();
        let control = || place.call(&["/usr/bin/python3", "-c", script, &name]).done().out();
        assert!(crate::harness::eventually(|| control() == "connected\n"), "control: outside");
        let inside = |options: &[&str]| {
            let words = [options, &["-r", "/usr", "--", "/usr/bin/python3", "-c", script, &name]].concat();
            place.run_image(&image, &words).done()
        };
        inside(&[]).is(0, "ConnectionRefusedError\n", "");
        inside(&["--net", "host"]).is(0, "PermissionError\n", "");
        listener.signal(nix::sys::signal::Signal::SIGKILL);
        listener.done();
        assert_eq!(place.left(), [""; 0]);
    }
}
