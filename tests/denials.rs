//! What `--trace` lists: what was refused by the filter, the network and hidden names, short, the most telling first.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;

use crate::harness::{Done, World, find, has, skip};

/// Whether there is what these tests run; says so when not.
fn ready() -> bool {
    let found = find("strace").is_some();
    if !found {
        skip("strace", "not installed");
    }
    found && has("python3")
}

/// Lines of the list.
fn denied(done: &Done) -> Vec<&str> {
    done.stderr.lines().filter_map(|line| line.strip_prefix("sandbox-run: denied: ")).collect()
}

/// The only line that begins so.
fn line<'a>(done: &'a Done, start: &str) -> &'a str {
    let all = denied(done);
    let found: Vec<_> = all.iter().copied().filter(|line| line.starts_with(start)).collect();
    assert_eq!(found.len(), 1, "{start}: {all:#?}");
    found[0]
}

/// Calls a Python program that goes on after errors of each of its steps.
fn python(steps: &[&str]) -> String {
    let mut text = "import ctypes, os, socket\nlibc = ctypes.CDLL(None, use_errno=True)\ndef step(what):\n    try: what()\n    except OSError: pass\n".to_owned();
    for step in steps {
        text.extend(["step(lambda: ", step, ")\n"]);
    }
    text
}

#[test]
fn what_the_filter_refuses_is_told_with_its_rule() {
    if !ready() {
        return;
    }
    let world = World::new();
    let script = python(&[
        "libc.unshare(0x10000000)",
        "libc.mount(b'a', b'b', b'tmpfs', 0, None)",
        "libc.umount2(b'/', 0)",
        "libc.sethostname(b'x', 1)",
        "socket.socket(40, socket.SOCK_STREAM)",
        "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    ]);
    let done = world.run(["--trace", "--", "python3", "-c", &script]).done().code(0);
    for (start, has) in [
        ("EPERM unshare(CLONE_NEWUSER): ", "refused by the system-call filter (namespaces: "),
        ("EPERM mount, umount2: ", "refused by the system-call filter (mounts: "),
        ("EPERM sethostname: ", "(host name: it is the sandbox's, and fixed): no option allows it"),
        ("EPERM socket(AF_VSOCK): ", "(sockets: "),
        ("EPERM socket (AF_INET, SOCK_RAW): ", "it takes a capability, and the command has none: no option allows it"),
    ] {
        let line = line(&done, start);
        assert!(line.contains(has) && line.ends_with("no option allows it"), "{line}");
    }
    // What is the command's own matter is none of the list's.
    let script = python(&["os.kill(1 << 22, 0)", "libc.unshare(0x400)", "os.chmod('/', 0o755)", "socket.socket()"]);
    let done = world.run(["--trace", "--", "python3", "-c", &script]).done().code(0);
    assert!(
        !denied(&done).iter().any(|line| line.contains("filter") || line.contains("EPERM socket")),
        "{}",
        done.stderr
    );
}

#[test]
fn a_network_that_is_not_there_is_told_once() {
    if !ready() {
        return;
    }
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let to = |host: &str, port: u16| format!("socket.socket().connect(('{host}', {port}))");
    let script = python(&[
        &to("192.0.2.7", 443),
        &to("192.0.2.8", 443),
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'pa55word', ('192.0.2.9', 53))",
        &to("127.0.0.1", port),
        "socket.socket().bind(('127.0.0.1', 80))",
    ]);
    let traced = |options: &[&str]| {
        let done = world.run([options, &["--trace", "--", "python3", "-c", &script]].concat()).done().code(0);
        done.stderr_lacks("EINPROGRESS")
    };
    let done = traced(&[]);
    let network = line(&done, "ENETUNREACH connect ");
    assert_eq!(
        network,
        "ENETUNREACH connect 192.0.2.7:443, 192.0.2.8:443, 192.0.2.9:53 (a name server): there is no network inside: \
         --net host gives all of the host's"
    );
    let own = line(&done, &format!("ECONNREFUSED connect 127.0.0.1:{port}: "));
    assert!(own.contains("a service of the host") && own.contains("--net host"), "{own}");
    assert!(line(&done, "EACCES bind 127.0.0.1:80: ").ends_with("no option allows it"));
    // The control: what the host's network refuses is not the sandbox's doing, and there the service answers. Nothing that
    // is sent is printed.
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let script = python(&[
        &to("127.0.0.1", port),
        &to("127.0.0.1", free),
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'pa55word', ('127.0.0.1', 9))",
    ]);
    let words = ["-v", "--net", "host", "--allow-gap", "sockets", "--trace", "--", "python3", "-c", &script];
    let done = world.run(words).done().code(0).stderr_has("sin_port=htons").stderr_lacks("sendto(");
    assert!(!denied(&done).iter().any(|line| line.contains(" connect ")), "{}", done.stderr);
    // A port at which nobody waits on the host either is nobody's loss.
    let script = python(&[&to("127.0.0.1", free)]);
    let done = world.run(["--trace", "--", "python3", "-c", &script]).done().code(0);
    assert!(!denied(&done).iter().any(|line| line.contains(" connect ")), "{}", done.stderr);
}

#[test]
fn a_socket_that_is_hidden_is_told_with_its_option() {
    if !ready() {
        return;
    }
    let world = World::new();
    let _listeners = ["o/plain.sock", "o/docker.sock"].map(|name| UnixListener::bind(world.path(name)).unwrap());
    let [plain, docker] = ["o/plain.sock", "o/docker.sock"].map(|name| world.text(name));
    let to = |path: &str| format!("socket.socket(socket.AF_UNIX).connect('{path}')");
    let script = python(&[&to(&plain), &to(&docker), &to("/nowhere.sock")]);
    let run =
        |options: &[&str]| world.run([options, &["--trace", "--", "python3", "-c", &script]].concat()).done().code(0);
    let done = run(&[]);
    assert_eq!(
        line(&done, &format!("ENOENT connect '{plain}': ")).split(" (").next().unwrap(),
        format!("ENOENT connect '{plain}': --allow-socket {plain}")
    );
    let careful = line(&done, &format!("ENOENT connect '{docker}': "));
    assert!(careful.ends_with("(careful: whoever speaks to it has the host, as root)"), "{careful}");
    assert!(!denied(&done).iter().any(|line| line.contains("nowhere")), "{}", done.stderr);
    // The option helps.
    let done = run(&["--allow-socket", &plain, "--deny-socket", &docker, "-r", "../o"]);
    assert!(!denied(&done).iter().any(|line| line.contains("plain.sock")), "{}", done.stderr);
    assert!(
        denied(&done).iter().any(|line| line.ends_with(&format!("'{docker}' is denied by --deny-socket"))),
        "{}",
        done.stderr
    );
}

#[test]
fn what_is_hidden_and_so_empty_is_told() {
    if !ready() {
        return;
    }
    let world = World::new();
    for (name, text) in
        [("w/.env", "A=1"), ("w/.odd/below", "x"), ("w/masked", "x"), ("w/plain", "x"), ("w/sub/.env", "B=1")]
    {
        world.write(name, text);
    }
    let script = "cat .env masked plain sub/.env; ls .odd; cat .odd/below; true";
    let done = world.sh(["--trace", "--mask", "masked"], script).done().code(0).stdout("x");
    let (env, odd, masked) = (world.text("w/.env"), world.text("w/.odd"), world.text("w/masked"));
    assert_eq!(
        line(&done, &format!("open '{env}' ")),
        format!(
            "open '{env}' found an empty file: --show-hidden .env (careful: it holds passwords and tokens of an application)"
        )
    );
    assert_eq!(
        line(&done, &format!("open '{masked}' ")),
        format!("open '{masked}' found an empty file: the mask on '{masked}' hides it, leave that out")
    );
    let all = denied(&done);
    assert_eq!(all.iter().filter(|line| line.ends_with(": --show-hidden .odd")).count(), 1, "{all:#?}");
    assert!(all.iter().any(|line| line.contains(&odd)), "{all:#?}");
    assert_eq!(all.iter().filter(|line| line.contains(".env")).count(), 1, "each name once: {all:#?}");
    // The remedies help, and then there is nothing to tell.
    let done = world.sh(["--trace", "--show-hidden", ".env", "--show-hidden", ".odd"], script).done().code(0);
    let done = done.stdout("A=1xxB=1below\nx");
    assert!(!denied(&done).iter().any(|line| line.contains(".env") || line.contains(".odd")), "{}", done.stderr);
}

/// The list was asked for: `-q` keeps notices back, and nothing else.
#[test]
fn the_list_is_there_when_nothing_else_is_said() {
    if !ready() {
        return;
    }
    let world = World::new();
    let secret = world.text("o/secret");
    let expected = format!("sandbox-run: denied: ENOENT open '{secret}' for read: -r {secret}\n");
    let done = world.run(["-q", "--trace", "--", "python3", "-c", &python(&[&format!("open('{secret}')")])]).done();
    done.is(0, "", &expected);
    let words = ["-q", "--log-format", "json", "--trace", "--", "cat", &secret];
    let done = world.run(words).done().code(1).stdout("");
    let lines = done.stderr.lines().filter(|line| line.starts_with('{')).collect::<Vec<_>>();
    assert_eq!(lines.len(), 1, "{}", done.stderr);
    assert!(lines[0].contains("denied: ENOENT open"), "{}", done.stderr);
}

/// What every program looks for is left out, and shown to those who want to see it.
#[test]
fn probes_that_programs_do_without_are_left_out() {
    if !ready() {
        return;
    }
    let world = World::new();
    let cpus = "/sys/devices/system/cpu/online";
    let probe = python(&[&format!("open('{cpus}')"), "open('/etc/ld.so.preload')"]);
    for command in [&["ls"][..], &["sh", "-c", "sort /dev/null"], &["python3", "-c", &probe]] {
        let done = world.run([&["--trace", "--"], command].concat()).env("LANG", "de_DE.UTF-8").done().code(0);
        assert_eq!(denied(&done), [""; 0], "{command:?}");
    }
    if fs::metadata(cpus).is_ok() {
        let done = world.run(["-v", "--trace", "--", "python3", "-c", &probe]).done().code(0);
        done.stderr_has(&format!("note: looked for and done without: ENOENT open '{cpus}' for read\n"));
    }
}

/// Who only asks needs no lock, and who changes something does.
#[test]
fn a_lock_of_git_is_told_to_whoever_needs_it() {
    if !ready() || !has("git") {
        return;
    }
    let world = World::new();
    let set = "git init -q . && echo a >a && git add a && git -c user.name=a -c user.email=a@b commit -qm x";
    world.call("sh", ["-c", set]).done().code(0);
    let lock = world.text("w/.git/index.lock");
    // So that git looks at the file and would write down what it saw.
    world.write("w/a", "a\n");
    let done = world.run(["--trace", "--", "git", "status", "-s"]).done().code(0).stdout("");
    assert_eq!(denied(&done), [""; 0]);
    world.write("w/a", "a\n");
    let done = world.run(["-v", "--trace", "--", "git", "status", "-s"]).done().code(0).stdout("");
    done.stderr_has(&format!("note: tried and done without: EROFS open '{lock}' for write\n"));
    world.write("w/a", "b\n");
    let done = world.run(["--trace", "--", "git", "add", "a"]).done().code(128);
    line(&done, &format!("EROFS open '{lock}' for write: -w "));
}

/// A suggestion that gives much away says so, and none is wider than it has to be.
#[test]
fn a_dangerous_suggestion_says_why() {
    if !ready() {
        return;
    }
    let world = World::new();
    for name in ["home/.ssh/id", "home/.bashrc", "home/.gitconfig", "home/.aws/credentials", "home/notes"] {
        world.write(name, "x");
    }
    let home = world.text("home");
    let script =
        "cat ~/.ssh/id ~/.aws/credentials ~/.gitconfig ~/notes /etc/shadow; echo x >/usr/bin/x; echo x >/x; true";
    let done = world.sh(["--trace", "-r", "~"], script).done().code(0);
    let all = denied(&done);
    let told = |text: &str| all.iter().any(|line| line.contains(text));
    for (option, why) in [
        ("-r ~/.ssh/id", "it holds private keys"),
        ("-r ~/.aws/credentials", "it holds cloud credentials"),
        ("-r /etc/shadow", "it holds password hashes"),
        ("-w /usr/bin", "programs outside the sandbox run or obey what is written there"),
    ] {
        assert!(told(&format!(": {option} (careful: {why})")), "{option}: {all:#?}");
    }
    assert!(told("open '/x' for write: only a write grant of the whole host, '/', would allow it"), "{all:#?}");
    for broad in [": -r /", ": -w /", ": -r ~", ": -w ~", &format!(": -r {home}")] {
        assert!(
            !all.iter().any(|line| line.ends_with(broad) || line.contains(&format!("{broad} "))),
            "{broad}: {all:#?}"
        );
    }
    // The same of --explain, and no remark where there is nothing to be careful of.
    world
        .run(["--explain", "~/.ssh", "--explain", "~/notes"])
        .done()
        .code(0)
        .stdout_has("(careful: it holds private keys)");
    world.run(["--explain", "~/notes"]).done().code(0).stdout_lacks("careful").stdout_has("-r ~/notes");
}

/// Many files of one directory are one line, the most telling lines come first, and each run lists the same.
#[test]
fn the_list_is_short_and_ordered() {
    if !ready() {
        return;
    }
    let world = World::new();
    let many: Vec<String> = (0..9).map(|number| format!("o/many/{number}")).collect();
    for name in many.iter().map(String::as_str).chain(["o/two/a", "o/two/b", "o/look"]) {
        world.write(name, "x");
    }
    let o = world.text("o");
    let mut steps: Vec<String> = many.iter().map(|name| format!("open('{}')", world.text(name))).collect();
    steps.extend(["a", "b"].map(|name| format!("open('{o}/two/{name}')")));
    steps.extend([format!("os.stat('{o}/look')"), format!("os.stat('{o}/two')"), format!("open('{o}/secret')")]);
    steps.extend(
        ["libc.unshare(0x10000000)", "socket.socket().connect(('192.0.2.7', 443))", "open('/usr/x', 'w')"]
            .map(String::from),
    );
    let script = python(&steps.iter().map(String::as_str).collect::<Vec<_>>());
    let done = world.run(["--trace", "--", "python3", "-c", &script]).done().code(0);
    let first = denied(&done).iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let starts: Vec<_> = first.iter().map(|line| line.split(": ").next().unwrap_or_default().to_owned()).collect();
    assert_eq!(
        starts,
        [
            "EROFS open '/usr/x' for write".to_owned(),
            "ENETUNREACH connect 192.0.2.7:443".to_owned(),
            "EPERM unshare(CLONE_NEWUSER)".to_owned(),
            format!("ENOENT open '{o}/many/0' for read and 8 more of '{o}/many'"),
            format!("ENOENT open '{o}/secret' for read"),
            format!("ENOENT open '{o}/two/a' for read"),
            format!("ENOENT open '{o}/two/b' for read"),
            format!("ENOENT stat '{o}/look' for read"),
        ]
    );
    assert!(first[3].ends_with(&format!(": -r {o}/many")), "{first:#?}");
    let again = world.run(["--trace", "--", "python3", "-c", &script]).done().code(0);
    assert_eq!(denied(&again), first);
}

#[test]
fn requests_that_the_proxy_refused_are_told_with_the_rule_that_allows_them() {
    if !ready() || !has("curl") {
        return;
    }
    let world = World::new();
    let fetch =
        "curl -s http://no.test/ http://no.test/b https://no.test/ http://odd.test:81/ http://never.test/; true";
    let rules = ["--allow-host", "ok.test", "--allow-host", "!never.test"];
    let done = world.sh([&rules[..], &["--trace"]].concat(), fetch).done().code(0);
    for expected in [
        "request to 'no.test:80' (2): --allow-host no.test",
        "request to 'no.test:443' (1): --allow-host no.test",
        "request to 'odd.test:81' (1): --allow-host odd.test:81",
        "request to 'never.test:80' (1): the rule '!never.test' forbids 'never.test:80'",
    ] {
        assert_eq!(line(&done, expected.split(" (").next().unwrap()), expected);
    }
    // The remedy helps, and without a trace there is no list.
    let allowed = [&rules[..], &["--allow-host", "no.test", "--allow-host", "odd.test:81", "--trace"]].concat();
    let done = world.sh(allowed, fetch).done().code(0);
    assert!(!denied(&done).iter().any(|line| line.ends_with("--allow-host no.test")), "{}", done.stderr);
    let done = world.sh(rules, fetch).done().code(0);
    assert!(denied(&done).is_empty(), "{}", done.stderr);
}

#[test]
fn a_toolchain_is_suggested_by_its_profile() {
    if !ready() {
        return;
    }
    let world = World::new();
    let places = [
        ("home/.cargo/registry/one/lib.rs", "-p rust"),
        ("home/.pyenv/versions/3/python", "-p python"),
        ("home/.nvm/versions/node", "-p node"),
        // Of several, of none, and of what a profile keeps hidden.
        ("home/.asdf/shims/x", "-r ~/.asdf/shims/x"),
        ("home/.local/bin/x", "-r ~/.local/bin/x"),
        ("home/.other/x", "-r ~/.other/x"),
    ];
    for (place, _) in places {
        world.write(place, "x");
    }
    world.write("home/.cargo/credentials.toml", "x");
    let reads: Vec<_> = places.iter().map(|(place, _)| world.text(place)).collect();
    let words = |options: &[&str]| {
        let words = [options, &["--trace", "--", "cat"]].concat().into_iter().map(str::to_owned);
        words.chain(reads.iter().cloned()).chain([world.text("home/.cargo/credentials.toml")]).collect::<Vec<_>>()
    };
    let done = world.run(words(&[])).done().code(1);
    for (place, expected) in places {
        let line = line(&done, &format!("ENOENT open '{}' for read: ", world.text(place)));
        assert!(line.ends_with(&format!(": {expected}")), "{line}");
    }
    let secret = format!("ENOENT open '{}' for read: ", world.text("home/.cargo/credentials.toml"));
    assert!(line(&done, &secret).contains("-r ~/.cargo/credentials.toml (careful: "), "{}", done.stderr);
    // Each helps, and is not suggested again.
    let done = world.run(words(&["-p", "rust", "-p", "python", "-p", "node"])).done().code(1);
    for (place, _) in &places[..3] {
        assert!(!denied(&done).iter().any(|line| line.contains(&world.text(place))), "{place}: {}", done.stderr);
    }
    assert!(!denied(&done).iter().any(|line| line.contains("-p ")), "{}", done.stderr);
}

#[test]
fn names_that_stay_are_told() {
    if !ready() {
        return;
    }
    let world = World::new();
    for name in ["w/f", "w/g", "w/d/kept", "w/m"] {
        world.write(name, "old\n");
    }
    let script = "mv g f; mv d e; rm -f m; mv g h";
    let options = ["--trace", "-w", ".", "--protect", "f", "--protect", "d/kept", "--mask", "m"];
    let done = world.sh(options, script).done().code(0);
    let text = |name: &str| world.text(&format!("w/{name}"));
    let end = "is protected, so that its name stays, and nothing can be put in its place";
    line(&done, &format!("EBUSY rename '{0}' for write: '{0}' {end}", text("f")));
    line(&done, &format!("EBUSY rename '{0}' for write: something below '{0}' is protected or hidden", text("d")));
    line(&done, &format!("EBUSY unlink '{0}' for write: '{0}' is hidden, so that its name stays", text("m")));
    // The control: what is nobody's is moved, and not told of.
    assert!(world.has("w/h") && !done.stderr.contains(&text("h")), "{}", done.stderr);
}
