//! Each field of a payload has its effect on the target: what it gives works, and what lies beside it does not.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use crate::harness::{Done, World};
use crate::wire::{Record, call, list};

/// A script under the record.
fn sh(world: &World, record: &Record, script: &str) -> Done {
    call(world, record.text().as_bytes(), &["--", "sh", "-c", script]).done()
}

/// A script that prints `yes` or `no`: whether a command works.
fn tries(world: &World, record: &Record, commands: &[String]) -> Vec<bool> {
    let lines = commands.iter().map(|command| format!("({command}) > /dev/null 2>&1 && echo yes || echo no"));
    let done = sh(world, record, &lines.collect::<Vec<_>>().join("\n")).code(0);
    done.out().lines().map(|line| line == "yes").collect()
}

#[test]
fn read_roots() {
    let world = World::new();
    world.write("o/in/file", "x");
    world.dir("o/beside");
    let commands = ["cat o/in/file", "cat o/secret", "ls o/beside", "touch o/in/new", "echo x >> o/in/file", "ls o/in"]
        .map(|c| c.replace("o/", &format!("{}/", world.text("o"))));
    let record = Record::new(&world).with("read_roots", list([world.path("o/in")]));
    let before = world.snapshot();
    assert_eq!(tries(&world, &record, &commands), [true, false, false, false, false, true]);
    assert_eq!(tries(&world, &record.clone().with("read_roots", "null"), &commands), [false; 6]);
    assert_eq!(tries(&world, &record.clone().with("read_roots", "[]"), &commands), [false; 6]);
    let one = record.with("read_roots", list([world.path("o/secret")]));
    assert_eq!(tries(&world, &one, &commands), [false, true, false, false, false, false]);
    assert_eq!(world.snapshot(), before);
}

/// Runs each command by itself; what it left on the host counts, since the view has private places that can be written.
fn leaves(world: &World, record: &Record, commands: &[(String, &str)]) -> Vec<bool> {
    let run = |(command, file): &(String, &str)| {
        let before = world.has(file).then(|| world.read(file));
        sh(world, record, &format!("{{ {command}; }} 2> /dev/null || true")).is(0, "", "");
        before != world.has(file).then(|| world.read(file))
    };
    commands.iter().map(run).collect()
}

#[test]
fn write_roots() {
    let world = World::new();
    world.dir("o/in");
    let touch = |file: &'static str| (format!("echo new > {}", world.text(file)), file);
    let files = ["o/in/new", "o/new", "o/secret", "w/new"];
    let record = Record::new(&world);
    assert_eq!(leaves(&world, &record, &files.map(touch)), [false, false, false, true]);
    std::fs::remove_file(world.path("w/new")).expect("new");
    let other = record.with("write_roots", list([world.path("o/in")]));
    assert_eq!(leaves(&world, &other, &files.map(touch)), [true, false, false, false]);
    // What a list names must be there: nothing is left out in silence.
    let missing = other.with("write_roots", list([world.path("o/in"), world.path("o/missing")]));
    sh(&world, &missing, "touch ran").refused(125, &["o/missing", "payload", "no such file"]);
}

#[test]
fn write_files() {
    let world = World::new();
    world.write("o/file", "1");
    let touch = |file: &'static str| (format!("echo new > {}", world.text(file)), file);
    let record = Record::new(&world).with("write_files", list([world.path("o/file")]));
    assert_eq!(leaves(&world, &record, &["o/file", "o/secret", "o/new"].map(touch)), [true, false, false]);
    assert_eq!((world.read("o/file"), world.read("o/secret")), ("new\n".into(), "s3cret".into()));
    sh(&world, &record.with("write_files", list([world.path("o")])), "touch ran").refused(125, &["/o'", "payload"]);
    assert!(!world.has("w/ran"));
}

#[test]
fn mask_paths_and_credential_source_paths() {
    let world = World::new();
    for file in ["w/key", "w/dir/key", "w/open"] {
        world.write(file, "x");
    }
    let commands = ["grep x key", "grep x dir/key", "ls -A dir | grep .", "grep x open"].map(String::from);
    let record = Record::new(&world).nineteen();
    assert_eq!(tries(&world, &record, &commands), [true; 4]);
    for key in ["mask_paths", "credential_source_paths"] {
        let masked = record.clone().with(key, list([world.path("w/key"), world.path("w/dir")]));
        assert_eq!(tries(&world, &masked, &commands), [false, false, false, true], "{key}");
        // Beneath a grant of its own parent too, and for what does not exist.
        let granted = masked
            .with("read_roots", list([world.path("w")]))
            .with(key, list([world.path("w/key"), "/nowhere".into()]));
        assert_eq!(tries(&world, &granted, &commands), [false, true, true, true], "{key}");
    }
    assert_eq!(world.read("w/key"), "x");
}

#[test]
fn deny_unix_socket_paths() {
    let world = World::new();
    for name in ["w/open", "w/denied"] {
        let listener = UnixListener::bind(world.path(name)).expect("socket");
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                // The client may be gone.
                let _gone = stream.write_all(b"hello");
            }
        });
    }
    let commands = ["open", "denied"].map(|name| {
        format!("python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"{name}\"); assert s.recv(9) == b\"hello\"'")
    });
    let record = Record::new(&world);
    assert_eq!(tries(&world, &record, &commands), [true, true]);
    let denied = record.with("deny_unix_socket_paths", list([world.path("w/denied"), "/run/none.sock".into()]));
    assert_eq!(tries(&world, &denied, &commands), [true, false]);
}

#[test]
fn allow_network() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("listener");
    let port = listener.local_addr().expect("address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // The client may be gone.
            let _gone = stream.write_all(b"hello");
        }
    });
    let dial = format!(
        "python3 -c 'import socket; print(socket.create_connection((\"127.0.0.1\", {port}), 5).recv(9).decode())'"
    );
    let record = Record::new(&world);
    sh(&world, &record, &dial).code(1).stdout("").stderr_has("ConnectionRefusedError");
    // On older kernels the network brings a gap with it that a payload cannot accept.
    let open = record.with("allow_network", "true").text();
    call(&world, open.as_bytes(), &["--allow-gap", "sockets", "--", "sh", "-c", &dial])
        .done()
        .code(0)
        .stdout("hello\n");
    call(&world, open.as_bytes(), &["--net", "off", "--", "sh", "-c", &dial]).done().code(1).stdout("");
}

#[test]
fn cwd_allow_hidden() {
    let world = World::new();
    for file in ["w/.env", "w/.git/HEAD", "w/.venv/x", "w/.special", "w/sub/.env", "w/sub/.special", "w/plain"] {
        world.write(file, "x");
    }
    let files = [".env", ".git/HEAD", ".venv/x", ".special", "sub/.env", "sub/.special", "plain"];
    let commands = files.map(|file| format!("grep x {file}"));
    let record = Record::new(&world);
    for (value, recursive, visible) in [
        ("null", "true", [false, true, true, false, false, false, true]),
        ("[]", "true", [false, false, false, false, false, false, true]),
        (r#"[".special"]"#, "true", [false, false, false, true, false, true, true]),
        (r#"[".special",".env"]"#, "true", [true, false, false, true, true, true, true]),
        (r#"["*"]"#, "true", [true; 7]),
        ("[]", "false", [false, false, false, false, true, true, true]),
        (r#"[".env"]"#, "false", [true, false, false, false, true, true, true]),
    ] {
        let record = record.clone().with("cwd_allow_hidden", value).with("cwd_hidden_scan_recursive", recursive);
        assert_eq!(tries(&world, &record, &commands), visible, "{value} {recursive}");
    }
    // The first generation has no key for the depth and always looks at all.
    let fourteen = record.without("mask_paths").without("cwd_hidden_scan_recursive");
    assert_eq!(tries(&world, &fourteen, &commands), [false, false, false, false, false, false, true]);
}

#[test]
fn scan_limits() {
    let world = World::new();
    for number in 0..40 {
        world.write(&format!("w/file{number}"), "x");
    }
    world.write("w/.env", "x");
    let record = |most: &str, overflow: &str| {
        let overflow = format!("\"{overflow}\"");
        Record::new(&world).with("cwd_hidden_scan_max_entries", most).with("cwd_hidden_scan_overflow", overflow)
    };
    sh(&world, &record("10", "error"), "touch ran").refused(125, &["10"]);
    assert!(!world.has("w/ran"));
    let done = sh(&world, &record("10", "warn"), "echo ran").code(0).stdout("ran\n");
    assert!(done.stderr.starts_with("sandbox-run: warning: ") && done.stderr.contains("10"), "{}", done.stderr);
    sh(&world, &record("10", "unlimited"), "cat .env").is(0, "", "");
    for overflow in ["error", "warn", "unlimited"] {
        sh(&world, &record("50000", overflow), "cat .env; cat file1").is(0, "x", "");
    }
}

#[test]
fn spawn_env_allowlist() {
    let world = World::new();
    let names = |record: &Record| {
        let payload = record.text();
        let call = call(&world, payload.as_bytes(), &["--", "/usr/bin/env"]);
        let call =
            call.env("ALPHA", "1").env("BETA", "2").env("API_KEY", "3").env("LD_PRELOAD_X", "4").env("LC_ALL", "C");
        let done = call.env("SANDBOX_RUN_X", "5").done().code(0);
        let mut names: Vec<_> = done.out().lines().map(|line| line.split('=').next().unwrap().to_owned()).collect();
        names.sort();
        (names.join(" "), done.stderr)
    };
    let own = "TEMP TEMPDIR TMP TMPDIR";
    let record = Record::new(&world);
    let list = |value: &str| names(&record.clone().with("spawn_env_allowlist", value));
    assert_eq!(list(r#"["ALPHA","PATH","ABSENT"]"#), (format!("ALPHA PATH PWD {own}"), String::new()));
    assert_eq!(list("[]").1, "");
    let (none, _) = list("[]");
    assert!(none.split(' ').all(|name| format!("PATH PWD {own}").contains(name)), "{none}");
    let (default, warning) = list("null");
    assert_eq!(default, "HOME LANG LC_ALL PATH PWD TEMP TEMPDIR TERM TMP TMPDIR");
    assert_eq!(
        warning,
        "sandbox-run: warning: the payload names no variables (spawn_env_allowlist is null): the default list passes\n"
    );
    // A secret passes when its very name is listed, and an internal one never.
    assert_eq!(list(r#"["API_KEY"]"#).0.matches("API_KEY").count(), 1);
    call(
        &world,
        record.clone().with("spawn_env_allowlist", r#"["SANDBOX_RUN_STAGE"]"#).text().as_bytes(),
        &["touch", "ran"],
    )
    .done()
    .refused(125, &["'spawn_env_allowlist'", "internal"]);
    // What the asking process may inherit itself is nothing to the target.
    assert_eq!(names(&record.with("env_passthrough", r#"["BETA"]"#)).0, format!("HOME PATH PWD {own}"));
}

/// The options narrow a payload freely; what they add is theirs in the list of origins.
#[test]
fn options_over_a_payload() {
    let world = World::new();
    world.write("w/key", "x");
    let text = Record::new(&world).with("allow_network", "true").text();
    let dry = |words: &[&str]| {
        let words = [words, &["--allow-gap", "sockets", "--dry-run", "true"]].concat();
        call(&world, text.as_bytes(), &words).done().code(0).out()
    };
    let plain = dry(&[]);
    assert!(plain.contains("network: host\n") && plain.contains("setting: allow_network from payload\n"), "{plain}");
    assert!(plain.contains(&format!("setting: write '{}' from payload\n", world.text("w"))), "{plain}");
    let off = dry(&["--net", "off"]);
    assert!(off.contains("network: off\n") && off.contains("setting: allow_network from --net\n"), "{off}");
    let more = dry(&["-r", "../o"]);
    assert!(more.contains("setting: read '../o' from --read\n"), "{more}");
    let key = world.text("w/key");
    let masked = ["--mask", &key, "--allow-gap", "sockets", "--", "cat", &key];
    call(&world, text.as_bytes(), &masked).done().is(0, "", "");
    let protected = ["--protect", &key, "--allow-gap", "sockets", "--", "sh", "-c", "echo > key"];
    call(&world, text.as_bytes(), &protected).done().code(2).stdout("");
    assert_eq!(world.read("w/key"), "x");
}
