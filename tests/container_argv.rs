//! What a plan comes to as the command line of `docker` and `podman`: text, so that no engine is needed here.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::fakes::{first, nap};
use crate::harness::{Call, World, eventually, find, processes, processes_with, program};

/// A world with programs under the names of the engines, which leave a trace when they are started.
fn world() -> World {
    let world = World::new();
    for name in ["docker", "podman"] {
        world.script(&format!("fake/{name}"), &format!("#!/bin/sh\ntouch {}\n", world.text("o/started")));
    }
    world
}

fn call(world: &World, engine: &str, words: &[&str]) -> Call {
    let all = [&["-b", engine, "--image", "debian:12@sha256:0a"], words].concat();
    world.run(all).env("PATH", first(world, "fake"))
}

/// The command line of a dry run, one option a line, without what differs between machines.
fn argv(world: &World, engine: &str, words: &[&str]) -> String {
    let json: serde_json::Value =
        serde_json::from_str(&call(world, engine, &[&["--dry-run=json"], words].concat()).done().code(0).out())
            .unwrap();
    let launcher = &json["launcher"];
    assert_eq!(launcher["program"], world.text(&format!("fake/{engine}")));
    assert_eq!(launcher["options"], serde_json::json!([]));
    let words = launcher["arguments"].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned());
    let user = format!("{}:{}", nix::unistd::getuid(), nix::unistd::getgid());
    let mut out = String::new();
    for word in words {
        let mut text = word.replace(&user, "{user}");
        for (name, sign) in [("w", "{w}"), ("o", "{o}"), ("home", "{home}")] {
            text = text.replace(&world.text(name), sign);
        }
        out += if text.starts_with("--") || out.is_empty() { "\n" } else { " " };
        out += &text;
    }
    let image = program().canonicalize().unwrap();
    let out = out.replace(image.to_str().unwrap(), "{sandbox-run}");
    let (uid, gid) = (nix::unistd::getuid(), nix::unistd::getgid());
    let out = out.replace(&format!("uid={uid},gid={gid}"), "uid={uid},gid={gid}");
    // Our own libraries, and what is different for a user who is not root.
    let own = ["/.{run}/lib", "/.{run}/loader", "--userns keep-id", "dst=/sys,", "--env LD_", "--env GLIBC_"];
    let lines = out.lines().filter(|line| !line.is_empty() && !own.iter().any(|word| line.contains(word)));
    let mut lines: Vec<_> = lines.map(str::to_owned).collect();
    lines.retain(|line| !line.starts_with("--entrypoint") && !line.starts_with("--library-path"));
    lines.join("\n") + "\n"
}

#[track_caller]
fn golden(name: &str, engine: &str, words: &[&str]) -> String {
    let world = world();
    for file in ["w/src/main.c", "w/src/keep/file", "w/secrets/key", "w/.env", "w/a, b\"c/file"] {
        world.write(file, "");
    }
    let granted = world.text("o");
    let words: Vec<_> = words.iter().map(|word| word.replace("{o}", &granted)).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let found = argv(&world, engine, &words);
    assert!(!world.has("o/started"), "a dry run starts nothing");
    let root = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
    let path = PathBuf::from(root).join("tests/fixtures/containers").join(format!("{engine}-{name}.txt"));
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{}: BLESS=1 writes it anew\n--- found\n{found}\n---", path.display());
    found
}

/// Each command line with both engines, compared with the committed one, and what holds of every one of them.
#[test]
fn command_lines_are_the_committed_ones() {
    let policies: [(&str, &[&str]); 11] = [
        ("default", &["true"]),
        ("write", &["-w", ".", "--", "sh", "-c", "make 'it all'"]),
        ("read", &["-r", "{o}", "true"]),
        ("masks", &["-w", ".", "--mask", "secrets", "--mask", ".env", "--protect", "src/keep", "true"]),
        ("again", &["--mask", "src", "-r", "src/keep", "true"]),
        ("network", &["--net", "host", "true"]),
        // The way out goes by the door, and is no option.
        ("requests", &["--allow-host", "ok.test", "true"]),
        ("limits", &["--memory", "64M", "--max-procs", "9", "--cpu-time", "5", "--max-open-files", "64", "true"]),
        ("environment", &["-e", "A=s3cret-value", "-e", "PATH", "--no-default-env", "true"]),
        ("tmp", &["--tmp-size", "1M", "true"]),
        ("workdir", &["-C", "/", "true"]),
    ];
    for (name, words) in policies {
        for engine in ["docker", "podman"] {
            let found = golden(name, engine, words);
            let line = |text: &str| found.lines().filter(|line| *line == text).count();
            for needed in [
                "--rm",
                "--pull never",
                "--log-driver none",
                "--no-healthcheck",
                "--ipc private",
                "--cap-drop ALL",
                "--security-opt no-new-privileges",
                "--read-only",
                "--env SANDBOX_RUN_STAGE",
            ] {
                assert_eq!(line(needed), 1, "{engine} {name}: {needed}\n{found}");
            }
            let network = if name == "network" { "--network host" } else { "--network none" };
            assert_eq!(line(network), 1, "{found}");
            for never in ["--volume", "-v ", "--privileged", "s3cret", "unconfined", "--pid ", " make", " true\n"] {
                assert!(!found.contains(never), "{engine} {name}: {never}\n{found}");
            }
        }
    }
}

/// Names that mean something to an engine's parser are quoted, passed by another option, or refused; never split.
#[test]
fn odd_names_are_quoted_or_refused() {
    let world = world();
    for name in ["w/a,b", "w/a b", "w/a:b", "w/q\"q", "w/a,b:c", "w/line\nbreak"] {
        world.write(&format!("{name}/file"), "");
    }
    let mounted = |engine: &str, name: &str| argv(&world, engine, &["-r", name, "true"]);
    assert!(mounted("docker", "a,b").contains("--mount type=bind,\"src={w}/a,b\",\"dst={w}/a,b\",readonly\n"));
    assert!(mounted("docker", "q\"q").contains("--mount type=bind,\"src={w}/q\"\"q\",\"dst={w}/q\"\"q\",readonly\n"));
    assert!(mounted("docker", "a b").contains("--mount type=bind,src={w}/a b,dst={w}/a b,readonly\n"));
    assert!(mounted("docker", "a,b:c").contains("\"dst={w}/a,b:c\",readonly\n"));
    assert!(mounted("podman", "a,b").contains("--volume {w}/a,b:{w}/a,b:ro,nodev,nosuid\n"));
    assert!(mounted("podman", "a:b").contains("--mount type=bind,src={w}/a:b,dst={w}/a:b,readonly,nodev,nosuid\n"));
    for name in ["q\"q", "a,b:c", "line\nbreak"] {
        call(&world, "podman", &["-r", name, "true"]).done().refused(125, &["podman has no way to write that name"]);
    }
    call(&world, "docker", &["-r", "line\nbreak", "--dry-run", "true"]).done().code(0);
    assert!(!world.has("o/started"));
}

/// The client of docker reads the whole line before it looks for its service.
#[test]
fn the_real_client_understands_the_line() {
    if find("docker").is_none() {
        eprintln!("not tried: there is no client of docker here");
        return;
    }
    let world = world();
    for name in ["w/a,b", "w/q\"q", "w/c:d", "w/secret", "w/line\nbreak"] {
        world.write(&format!("{name}/file"), "");
    }
    let run = |words: &[&str]| {
        let all = [&["-b", "docker", "--image", "debian:12"], words].concat();
        world.run(all).env("DOCKER_HOST", "unix:///nonexistent/docker.sock").done()
    };
    let all =
        ["-w", ".", "-r", "a,b", "-r", "q\"q", "-r", "c:d", "-r", "line\nbreak", "--mask", "secret", "--memory", "64M"];
    let rest = ["--max-procs", "9", "--tmp-size", "4K", "--net", "host", "-e", "A=1", "true"];
    for words in [&["true"][..], &[&all[..], &rest].concat()] {
        run(words).refused(125, &["Cannot connect to the Docker daemon"]);
    }
}

#[test]
fn what_nobody_can_mean_is_refused_before_anything_starts() {
    let world = world();
    let _docker = UnixListener::bind(world.path("o/docker.sock")).unwrap();
    let _other = UnixListener::bind(world.path("o/other.sock")).unwrap();
    let (socket, other) = (world.text("o/docker.sock"), world.text("o/other.sock"));
    let known = format!("unix://{}", world.text("o/docker.sock"));
    for engine in ["docker", "podman", "container"] {
        let run = |words: &[&str]| call(&world, engine, words);
        run(&["-w", "/", "true"]).done().refused(125, &["'/'", "take the place of the image"]);
        run(&["-r", "/etc", "true"]).done().refused(125, &["'/etc'", "the container has its own"]);
        run(&["-r", "/sys", "true"]).done().refused(125, &["'/sys", "the container has its own"]);
        run(&["-r", "/proc", "true"]).done().refused(125, &["'/proc'", "the sandbox has its own"]);
        run(&["--allow-socket", &socket, "true"]).done().refused(125, &["docker.sock", "container engine"]);
        run(&["-r", &world.text("o"), "true"]).env("DOCKER_HOST", &known).done().refused(125, &["container engine"]);
        run(&["--new-session", "never", "true"]).done().refused(125, &["session"]);
        for name in ["DOCKER_HOST", "CONTAINER_HOST"] {
            let away = run(&["true"]).env(name, "tcp://192.0.2.1:2375");
            away.done().refused(125, &[name, "another machine"]);
        }
    }
    assert!(!world.has("o/started"), "nothing was started");
    call(&world, "docker", &["--allow-socket", &other, "true"]).done().refused(125, &["before it started"]);
    assert!(world.has("o/started"), "control: the others are started");
}

/// An engine starts what its settings name, on the host: a command that could write them would have its own program run there next.
#[test]
fn no_command_writes_what_its_engine_reads() {
    let world = world();
    world.write("w/conf/containers.conf", "");
    let file = world.text("w/conf/containers.conf");
    world.link("o/link", "../w/conf");
    let told = ["reads there which programs it starts on the host"];
    for (engine, variables) in [
        ("podman", &["CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE", "CONTAINERS_STORAGE_CONF"][..]),
        ("docker", &["DOCKER_CONFIG"]),
    ] {
        for name in variables {
            for value in [file.clone(), "conf/containers.conf".into(), world.text("o/link/none/yet")] {
                call(&world, engine, &["-w", ".", "true"]).env(name, &value).done().refused(125, &told);
            }
            // Elsewhere, and where it cannot be written.
            let elsewhere = call(&world, engine, &["-w", ".", "--dry-run", "true"]).env(name, world.text("o/none"));
            elsewhere.done().code(0);
            call(&world, engine, &["--dry-run", "true"]).env(name, &file).done().code(0);
            let words = ["-w", ".", "--protect", "conf", "--dry-run", "true"];
            call(&world, engine, &words).env(name, &file).done().code(0);
        }
        // The usual place, there or not.
        call(&world, engine, &["-w", "~", "true"]).done().refused(125, &told);
    }
    let home = world.text("o/config");
    call(&world, "podman", &["-w", "../o", "true"]).env("XDG_CONFIG_HOME", &home).done().refused(125, &told);
    assert!(!world.has("o/started"), "nothing was started");
}

#[test]
fn an_image_must_be_named_and_only_for_a_container() {
    let world = world();
    let run = |words: &[&str]| world.run(words).env("PATH", first(&world, "fake"));
    run(&["-b", "docker", "true"]).done().refused(125, &["no image is named"]).stderr_has("hint: --image");
    run(&["--image", "debian:12", "true"]).done().refused(125, &["--image", "no backend of the list is a container"]);
    for name in ["-x", "", "a b", "--privileged"] {
        run(&["-b", "docker", &format!("--image={name}"), "true"]).done().refused(125, &["'--image'"]);
    }
    let policy = world.write("w/policy.toml", "image = 'debian:12'\n");
    run(&["--policy", policy.to_str().unwrap(), "true"]).done().is(0, "", "");
    assert!(!world.has("o/started"));
    run(&["-b", "docker", "--policy", policy.to_str().unwrap(), "true"]).done().refused(125, &["before it started"]);
    assert!(world.has("o/started"), "control: with an image it is started");
}

/// A program by that name that starts nothing, or says that it did, is no success and no reason to run bare.
#[test]
fn an_engine_that_starts_nothing_is_no_success() {
    for (script, words) in [
        ("#!/bin/sh\nexit 0\n", &["ended before it started the command"][..]),
        ("#!/bin/sh\necho out; exit 3\n", &["ended before it started the command"]),
        ("#!/bin/sh\necho 'Error: quite another text' >&2; exit 125\n", &["quite another text"]),
        ("#!/bin/sh\nkill -9 $$\n", &["ended before it started the command"]),
        ("#!/nope\n", &["cannot execute"]),
    ] {
        let world = World::new();
        for name in ["podman", "docker"] {
            world.script(&format!("fake/{name}"), script);
        }
        // Only there, where nobody else has a say, is the directory of a run.
        fs::set_permissions(world.path("home"), fs::Permissions::from_mode(0o700)).unwrap();
        for engine in ["podman", "docker", "container", "container,podman"] {
            let run =
                call(&world, engine, &["-w", ".", "--", "touch", "ran"]).env("XDG_RUNTIME_DIR", world.path("home"));
            run.done().refused(125, words);
            assert!(!world.has("w/ran"), "the command ran");
            assert_eq!(fs::read_dir(world.path("home")).unwrap().count(), 0, "the directory of the run is gone");
        }
        call(&world, "container,bwrap", &["-w", ".", "--", "touch", "ran"]).done().is(0, "", "");
        assert!(world.has("w/ran"), "control: a backend that works");
    }
}

/// Engines that start processes and hang, and say nothing about what they are asked to remove either.
fn hanging(script: &str) -> (World, String) {
    let nap = nap();
    let world = World::new();
    // Where the directory of the run is then.
    fs::set_permissions(world.path("home"), fs::Permissions::from_mode(0o700)).unwrap();
    for name in ["docker", "podman"] {
        let all = script.replace("NAP", &nap);
        // What it is asked before is nothing to hang at.
        world.script(
            &format!("fake/{name}"),
            &format!("#!/bin/sh\nexec 2>/dev/null\n[ \"$1\" != image ] || exit 0\n{all}"),
        );
    }
    (world, nap)
}

fn has_ended(pid: i32) -> bool {
    processes().iter().all(|process| process.pid != pid || process.state == 'Z')
}

/// Asked to end meanwhile, with the grace that the command would have.
#[test]
fn one_that_hangs_is_ended_with_all_it_started_when_the_caller_ends() {
    for engine in ["podman", "docker"] {
        let (world, nap) = hanging("[ \"$1\" = run ] || exit 0\nsetsid sleep NAP &\nsleep NAP\n");
        let running = call(&world, engine, &["--kill-after", "200ms", "-w", ".", "--", "touch", "ran"])
            .env("XDG_RUNTIME_DIR", world.path("home"))
            .spawn();
        assert!(eventually(|| processes_with(&nap).len() == 2), "control");
        assert_eq!(fs::read_dir(world.path("home")).unwrap().count(), 1, "control: the directory of the run");
        running.signal(Signal::SIGTERM);
        let done = running.done().code(143).stdout("");
        assert!(done.took < Duration::from_secs(20), "{:?}", done.took);
        assert_eq!(processes_with(&nap), [0; 0], "{engine}: processes are left");
        assert!(!world.has("w/ran"));
        assert_eq!(fs::read_dir(world.path("home")).unwrap().count(), 0, "the directory of the run is gone");
    }
}

/// Killed meanwhile: nobody is left to end it but the process at the door.
#[test]
fn one_that_hangs_is_ended_with_all_it_started_when_the_caller_is_killed() {
    let begin = |engine| {
        let (world, nap) = hanging("[ \"$1\" != run ] || setsid sleep NAP &\nsleep NAP\n");
        let words = ["-w", ".", "--", "touch", "ran"];
        let running = call(&world, engine, &words).env("XDG_RUNTIME_DIR", world.path("home")).spawn();
        assert!(eventually(|| processes_with(&nap).len() == 2), "control");
        running.signal(Signal::SIGKILL);
        assert_eq!(running.done().signal, Some(9));
        assert_eq!(processes_with(&nap).len(), 2, "control: it goes on for a while");
        (world, nap)
    };
    for (world, nap) in ["podman", "docker"].map(begin) {
        // What is asked to remove the container hangs as well.
        let gone = || processes_with(&nap).is_empty() && fs::read_dir(world.path("home")).unwrap().count() == 0;
        assert!(eventually(gone) || eventually(gone), "{:?}", processes_with(&nap));
        assert!(!world.has("w/ran"), "the command ran");
    }
}

/// The slow one: a minute to start a container in.
#[test]
fn one_that_hangs_is_ended_with_all_it_started() {
    let begin = |engine| {
        let (world, nap) = hanging("[ \"$1\" != run ] || setsid sleep NAP &\nsleep NAP\n");
        let words = ["-w", ".", "--", "touch", "ran"];
        let running = call(&world, engine, &words).env("XDG_RUNTIME_DIR", world.path("home")).spawn();
        assert!(eventually(|| processes_with(&nap).len() == 2), "control");
        assert_eq!(fs::read_dir(world.path("home")).unwrap().count(), 1, "control: the directory of the run");
        (world, nap, running)
    };
    for (world, nap, running) in ["podman", "docker"].map(begin) {
        let deadline = Instant::now() + Duration::from_mins(2);
        while !has_ended(running.pid()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
        }
        let done = running.done().refused(125, &["did not start the command within 60 s"]);
        assert!(done.took > Duration::from_mins(1), "{:?}", done.took);
        // And not half a minute more for the removal, by an engine that does not answer.
        assert!(done.took < Duration::from_secs(85), "{:?}", done.took);
        assert_eq!(processes_with(&nap), [0; 0], "processes are left");
        assert!(!world.has("w/ran"), "the command ran");
        assert_eq!(fs::read_dir(world.path("home")).unwrap().count(), 0, "the directory of the run is gone");
    }
}

/// Who stands at the door without the nonce gets nothing; who has it gets what the inner stage is to have.
#[test]
fn the_door_opens_for_the_nonce_only() {
    let world = World::new();
    let script = "#!/usr/bin/python3
import array, os, re, socket, sys
if sys.argv[1] in ('rm', 'image'): sys.exit(0)
assert not [fd for fd in map(int, os.listdir('/proc/self/fd')) if fd > 3], 'a descriptor was passed on'
marker = os.environ['SANDBOX_RUN_STAGE'].split()
name = sys.argv[sys.argv.index('--name') + 1]
assert re.fullmatch('sandbox-run-podman-[0-9a-f]{32}', name), name
assert marker[0] == f'/.{name}/door/socket'
source = next(filter(None, (re.search(f'src=(.*),dst=/[.]{name}/door,readonly,nodev,nosuid$', word) for word in sys.argv)))
place = source.group(1) + '/socket'
def knock(word):
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    door.connect(place)
    door.send(word)
    data, rights, _, _ = door.recvmsg(9, socket.CMSG_SPACE(4 * 99))
    return sum(len(bytes) // 4 for _, _, bytes in rights)
wrong = [knock(word) for word in [b'x', b'0' * 32, marker[1].encode()[:-1], marker[1].encode() + b'0']]
right = knock(marker[1].encode())
try: again = knock(marker[1].encode())
except OSError: again = 'closed'
print('Error:', wrong, right, again, oct(os.stat(source.group(1)).st_mode), file=sys.stderr)
";
    world.script("fake/podman", script);
    let run = call(&world, "podman", &["--keep-fd", "7", "true"]).fd(fs::File::open("/dev/null").unwrap(), 7);
    // The control socket, the hand-off and three streams: for a look at the image, and what is kept is not for that.
    run.done().refused(125, &["[0, 0, 0, 0] 5 closed 0o40700"]);
}

/// A marker that names a door is one for the first process of a container: nobody else knocks there.
#[test]
fn a_door_that_somebody_names_is_not_opened() {
    let world = World::new();
    let door = UnixListener::bind(world.path("o/socket")).unwrap();
    door.set_nonblocking(true).unwrap();
    let marker = format!("{} 0123456789abcdef", world.text("o/socket"));
    let secret = world.text("o/secret");
    world.run(["--", "cat", &secret]).env("SANDBOX_RUN_STAGE", &marker).done().code(1).stdout("");
    world.run(["-r", &secret, "--", "cat", &secret]).env("SANDBOX_RUN_STAGE", &marker).done().is(0, "s3cret", "");
    assert!(door.accept().is_err(), "somebody knocked");
}
