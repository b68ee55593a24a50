//! Real containers by podman, as root and rootless, in a place of their own: see `containers/hold`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::signal::Signal;

use crate::harness::{Call, World, eventually, is_root, processes_with, program, skip};
use crate::pty::Terminal;

mod contract;
mod egress;
mod ends;
mod files;
mod images;
mod rules;
mod sockets;
mod walls;

/// Who rootless podman runs as; no account of the machine.
const USER: u32 = 41234;

const IMAGE: &str = "sandbox-run-test";

/// What podman needs: see `containers/hold`, which ends and clears up when this process is gone.
struct Shared {
    _holder: Child,
    directory: PathBuf,
}

/// One for root and one for [`USER`], or why there is none. Starting one takes longer than a run, and whoever has one is alone
/// with it, so that what is left there is his.
static SHARED: [Mutex<Option<Result<Shared, String>>>; 2] = [const { Mutex::new(None) }; 2];

/// A world in which podman can be started.
pub struct Place {
    pub world: World,
    pub directory: PathBuf,
    _alone: MutexGuard<'static, Option<Result<Shared, String>>>,
}

fn script(name: &str) -> PathBuf {
    let root = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(root).join("tests/containers").join(name)
}

fn hold(user: u32) -> Result<Shared, String> {
    if !is_root() {
        return Err("only root can make a place for it that is safe for the machine".into());
    }
    let mut command = Command::new(script("hold"));
    command.arg(user.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = command.spawn().unwrap();
    let mut said = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut said).unwrap();
    match said.trim().strip_prefix("ready ") {
        Some(directory) => Ok(Shared { directory: directory.into(), _holder: holder }),
        None => Err(said.trim().to_owned()),
    }
}

impl Place {
    /// For `user`; `None` where there can be none, which is a skip.
    fn of(user: u32) -> Option<Self> {
        // A test that failed has left nothing that the next one would not tell of.
        let mut alone = SHARED[usize::from(user != 0)].lock().unwrap_or_else(PoisonError::into_inner);
        let directory = match alone.get_or_insert_with(|| hold(user)) {
            Ok(shared) => shared.directory.clone(),
            Err(reason) if is_root() => {
                skip("podman", reason);
                return None;
            }
            Err(reason) => {
                eprintln!("{reason}: not tried");
                return None;
            }
        };
        let world = World::new();
        for name in ["w", "o", "home"] {
            std::os::unix::fs::chown(world.path(name), Some(user), Some(user)).unwrap();
        }
        Some(Self { world, directory, _alone: alone })
    }

    /// As root, then rootless, where there can be such places.
    pub fn both() -> impl Iterator<Item = (u32, Self)> {
        [0, USER].into_iter().filter_map(|user| Some((user, Self::of(user)?)))
    }

    /// Any program in the place.
    pub fn call(&self, words: &[&str]) -> Call {
        self.world.call(script("enter"), [&[self.directory.to_str().unwrap()], words].concat())
    }

    /// sandbox-run with these words and a container of the image.
    pub fn run(&self, words: &[&str]) -> Call {
        self.run_image(IMAGE, words)
    }

    pub fn run_image(&self, image: &str, words: &[&str]) -> Call {
        let program = program();
        self.call(&[&[program.to_str().unwrap(), "-b", "podman", "--image", image], words].concat())
    }

    fn sh(&self, options: &[&str], script: &str) -> Call {
        self.run(&[options, &["--", "sh", "-c", script]].concat())
    }

    /// Names of the containers of ours that are there, and the directories of runs.
    fn left(&self) -> Vec<String> {
        let list = self.call(&["podman", "ps", "-a", "-q", "--filter", "label=sandbox-run"]).done().code(0).out();
        let runtime = fs::read_dir(self.directory.join("podman/runtime")).into_iter().flatten().flatten();
        let scratch = runtime.filter(|entry| entry.file_name().to_string_lossy().starts_with("sandbox-run-"));
        list.lines().map(str::to_owned).chain(scratch.map(|entry| entry.path().display().to_string())).collect()
    }
}

/// What a shell finds out about its privileges.
const LOOK: &str =
    "grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'; id -u; id -g";

#[test]
fn the_host_has_what_was_written_and_nothing_else() {
    for (user, place) in Place::both() {
        let world = &place.world;
        let script = "mkdir made && echo text >made/file && pwd && stat -c %u made/file && umask";
        let expected = format!("{}\n{user}\n0027\n", world.text("w"));
        let umask = |call: Call| {
            call.before_exec(|| {
                nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o27));
                Ok(())
            })
        };
        umask(place.sh(&["-w", "."], script)).done().is(0, &expected, "");
        let made = fs::metadata(world.path("w/made/file")).unwrap();
        assert_eq!((made.uid(), made.gid(), made.mode() & 0o777), (user, user, 0o640));
        assert_eq!(world.read("w/made/file"), "text\n");

        let before = world.snapshot();
        place.sh(&[], "touch x || echo no").done().code(0).stdout("no\n").stderr_has("Read-only file system");
        place.sh(&[], "touch /x || touch /bin/x || touch /etc/x || touch /run/x || echo no").done().stdout("no\n");
        place.run(&["-r", "missing", "true"]).done().refused(125, &["'missing'"]);
        place.run(&["-w", "missing", "true"]).done().refused(125, &["'missing'"]);
        // Private, with room as asked for, and programs in them can be executed.
        let own = "for dir in /tmp /var/tmp $HOME; do cp /bin/busybox $dir/sh && $dir/sh -c 'exit 3'; echo $?; done; ls -A $HOME";
        place.sh(&[], own).done().is(0, "3\n3\n3\nsh\n", "");
        let fill =
            "head -c 3000000 /dev/zero >/tmp/x; wc -c </tmp/x; head -c 3000000 /dev/zero >$HOME/x; wc -c <$HOME/x";
        place.sh(&["--tmp-size", "1M"], fill).done().stdout("1048576\n1048576\n").code(0);
        place.sh(&["--tmp-size", "8M"], fill).done().is(0, "3000000\n3000000\n", "");
        assert_eq!(world.snapshot(), before);
        assert_eq!(place.left(), [""; 0]);
    }
}

#[test]
fn names_of_all_kinds_are_the_same_inside() {
    let Some(place) = Place::of(0) else { return };
    let world = &place.world;
    for name in ["a,b", "a b", "it's", "c:d", "é=$x", "-rf"] {
        let dir = world.dir(&format!("o/{name}"));
        world.write(&format!("o/{name}/file"), name);
        let file = dir.join("file").display().to_string();
        let dir = dir.display().to_string();
        place.run(&["-r", &dir, "--", "cat", &file]).done().is(0, name, "");
        place.run(&["--", "cat", &file]).done().code(1).stdout("");
        place.run(&["-w", &dir, "--", "sh", "-c", "echo new >\"$1\"", "", &file]).done().is(0, "", "");
        assert_eq!(world.read(&format!("o/{name}/file")), "new\n");
    }
    let words = ["", "a b", "\n", "*", "$(x)", "it's", "{\"j\":\"\\\"q\\\"\"}"];
    let all = [&["--", "printf", "%s;"], &words[..]].concat();
    place.run(&all).done().is(0, &(words.join(";") + ";"), "");
}

#[test]
fn no_privilege_is_left() {
    let none = "0000000000000000";
    for (user, place) in Place::both() {
        let expected = ["Inh", "Prm", "Eff", "Bnd", "Amb"].map(|set| format!("Cap{set}:{none}\n")).concat();
        let expected = format!("{expected}NoNewPrivs:1\nSeccomp:2\n{user}\n{user}\n");
        place.sh(&[], LOOK).done().is(0, &expected, "");
        let refused = "unshare -U true || mount -t tmpfs none /tmp || mknod /tmp/n c 1 3 || chroot / true || echo no";
        place.sh(&[], refused).done().code(0).stdout("no\n");
        // Process 1 is ours and shows nothing; there are no others.
        let others = "cat /proc/1/environ || readlink /proc/1/exe || readlink /proc/1/fd/0 || ls -d /proc/[0-9]*";
        place.sh(&[], others).done().code(0).stdout("/proc/1\n/proc/2\n").stderr_has("Permission denied");
        place.sh(&[], "cat /proc/self/environ | grep -c .").done().code(0).stderr("");
        assert_eq!(place.left(), [""; 0]);
    }
}

/// What a user of the host may open on a device is not for the command.
#[test]
fn a_device_below_a_grant_is_none() {
    for (user, place) in Place::both() {
        for name in ["null", "with,comma"] {
            let script = format!("mknod 'w/{name}' c 1 3; chmod 666 'w/{name}'");
            place.world.call("sh", ["-c", &script]).cwd(place.world.path(".")).done().code(0);
            let script = format!("echo x >'{name}'; cat file");
            place.world.write("w/file", "there\n");
            // crun leaves a mount that can be written as it is where it is not root's.
            for options in [&[][..], &["-w", "."]].into_iter().take(if user == 0 { 2 } else { 1 }) {
                let done = place.sh(options, &script).done().code(0).stdout("there\n");
                assert!(
                    done.stderr.contains("Permission denied") || done.stderr.contains("Read-only"),
                    "{user}: {}",
                    done.stderr
                );
            }
        }
        place.world.call("sh", ["-c", "echo x >null"]).done().is(0, "", "");
    }
}

#[test]
fn the_network_is_its_own_unless_it_is_asked_for() {
    for (_, place) in Place::both() {
        let server = "import socket\nlistener = socket.create_server(('127.0.0.1', 4711))\n\
            while True:\n    accepted = listener.accept()[0]\n    accepted.send(b'heard\\n')\n    accepted.close()\n";
        let server = place.call(&["python3", "-c", server]).spawn();
        let listens = || place.call(&["cat", "/proc/net/tcp"]).done().out().contains(":1267 ");
        assert!(eventually(listens), "the listener");
        let ask = "nc -w 3 127.0.0.1 4711 </dev/null";
        let done = place.sh(&[], ask).done();
        assert!(done.code != Some(0) && done.stdout.is_empty(), "{:?} {}", done.code, done.out());
        place.sh(&["--net", "host"], ask).done().is(0, "heard\n", "");
        place.sh(&[], "ip link | grep -c mtu").done().is(0, "1\n", "");
        // Whoever talks to the engine can do anything.
        let socket = "import os, socket\nfor dir in ('/run/podman', '/run/user/podman'):\n    try: os.mkdir(dir)\n    except OSError: continue\n    \
            socket.socket(socket.AF_UNIX).bind(dir + '/podman.sock')\n";
        place.call(&["python3", "-c", socket]).done().code(0);
        let look = "ls /run/podman /run/user/podman 2>/dev/null";
        place.call(&["sh", "-c", look]).done().stdout_has("podman.sock");
        for options in [&[][..], &["--net", "host"], &["-w", "."]] {
            place.sh(options, &format!("{look}; ls /run")).done().is(0, "", "");
        }
        server.signal(Signal::SIGKILL);
        server.done();
    }
}

#[test]
fn each_status_is_the_one_of_the_contract() {
    for (_, place) in Place::both() {
        for code in [0, 125, 126, 127, 255] {
            place.sh(&[], &format!("exit {code}")).done().is(code, "", "");
        }
        for (name, number) in [("HUP", 1), ("KILL", 9), ("TERM", 15)] {
            place.sh(&[], &format!("ulimit -c 0; kill -{name} $$")).done().is(128 + number, "", "");
        }
        place.run(&["greet", "a"]).done().is(0, "from the image: a\n", "");
        place
            .run(&["nosuchcommand"])
            .done()
            .refused(127, &["'nosuchcommand'"])
            .stderr_has("the image 'sandbox-run-test'");
        place.run(&["./nosuchcommand"]).done().refused(127, &["'./nosuchcommand'"]);
        place.run(&["plain"]).done().refused(126, &["no execute permission"]);
        place.run(&["broken"]).done().refused(126, &["'/no/such/interpreter'"]);
        place.run(&["/etc"]).done().refused(126, &["is a directory"]);
        place.world.script("w/script", "echo \"plain $0 $1\"\n");
        place.run(&["./script", "x"]).done().is(0, "plain ./script x\n", "");
        let program = program();
        let other = [program.to_str().unwrap(), "-b", "podman", "--image", "no-such-image", "true"];
        place
            .call(&other)
            .done()
            .refused(125, &["no-such-image", "not known"])
            .stderr_has("hint: the image must be there");
        assert_eq!(place.left(), [""; 0]);
    }
}

#[test]
fn streams_are_those_of_the_caller() {
    for (_, place) in Place::both() {
        let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
        let done = place.run(&["cat"]).stdin(bytes.clone()).done().code(0).stderr("");
        assert!(done.stdout == bytes, "{} bytes", done.stdout.len());
        place.sh(&[], "echo out; echo err >&2; printf 'a\\nb'").done().is(0, "out\na\nb", "err\n");
        place.run(&["cat"]).done().is(0, "", "");
        place.sh(&[], "[ -t 0 ] || [ -t 1 ] || [ -t 2 ] || echo none").done().is(0, "none\n", "");
        place
            .sh(&["--keep-fd", "7"], "cat <&7")
            .fd(File::open(place.world.path("o/secret")).unwrap(), 7)
            .done()
            .is(0, "s3cret", "");
        let to = File::create(place.world.path("o/out")).unwrap();
        place.sh(&[], "echo there").stdout(to).done().code(0).stderr("");
        assert_eq!(place.world.read("o/out"), "there\n");
        let full = File::options().write(true).open("/dev/full").unwrap();
        place.sh(&[], "echo x").stdout(full).done().code(1).stderr_has("No space left");
        // A file that is open for reading stays that, whatever its mode on the host says.
        let input = place.world.write("o/input", "as it was");
        fs::set_permissions(&input, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        let again = "echo changed >/proc/self/fd/0";
        place.sh(&[], again).stdin_from(File::open(&input).unwrap()).done().stdout("");
        assert_eq!(place.world.read("o/input"), "as it was");
        let both = File::options().read(true).write(true).open(&input).unwrap();
        place.sh(&[], again).stdin_from(both).done().is(0, "", "");
        assert_eq!(place.world.read("o/input"), "changed\n", "control: open for writing");
    }
}

#[test]
fn a_terminal_is_one_inside() {
    let Some(place) = Place::of(0) else { return };
    let script = "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && stty size && read line && echo \"got $line\"; echo 'one'";
    let mut terminal = Terminal::start(place.sh(&[], script));
    terminal.expect("31 97");
    terminal.keys("typed\n");
    terminal.expect("got typed");
    terminal.expect("one");
    terminal.done().0.code(0);
    // Ctrl-C reaches the command, and its own handler decides.
    let mut terminal =
        Terminal::start(place.sh(&[], "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.1; done"));
    terminal.expect("ready");
    terminal.keys("\x03");
    terminal.expect("caught");
    terminal.done().0.code(5);
    assert_eq!(place.left(), [""; 0]);
}

#[test]
fn the_environment_is_the_policys_and_in_no_argument_list() {
    for (_, place) in Place::both() {
        let home = place.world.text("home");
        let names = "env | sed 's/=.*//' | grep -v -E '^(SHLVL|_|OLDPWD)$' | sort | tr '\\n' ' '";
        let done = place.sh(&[], names).env("SECRET", "x").done();
        assert!(!done.out().contains("SECRET"), "neither ours nor the image's: {}", done.out());
        for name in ["container", "HOSTNAME", "SANDBOX_RUN_STAGE", "LD_PRELOAD"] {
            assert!(!done.out().split(' ').any(|found| found == name), "{name}: {}", done.out());
        }
        place.sh(&[], "echo $HOME $PATH").done().is(0, &format!("{home} /usr/local/bin:/bin\n"), "");
        place.sh(&["-e", "PATH=/bin"], "echo $PATH; greet").done().code(127).stdout("/bin\n");
        let secret = "s3cret-value-in-no-list";
        place.world.write("w/value", "");
        place.world.call("chmod", ["666", &place.world.text("w/value")]).done().code(0);
        let running =
            place.sh(&["-w", ".", "-e", "SECRET"], "echo $SECRET >>value; sleep 600").env("SECRET", secret).spawn();
        let written = || place.world.read("w/value").contains(secret);
        assert!(eventually(written), "control: the command has it");
        assert_eq!(processes_with(secret), [0; 0]);
        let names = place.call(&["podman", "ps", "-q", "--filter", "label=sandbox-run"]).done().code(0).out();
        let told = place.call(&["podman", "inspect", names.trim()]).done().code(0).stdout_has("SANDBOX_RUN_STAGE");
        assert!(!told.out().contains(secret), "the engine knows it");
        running.signal(Signal::SIGTERM);
        running.done().code(143);
    }
}

#[test]
fn masks_and_protects_hold() {
    for (user, place) in Place::both() {
        let world = &place.world;
        for name in ["w/secret/key", "w/secret/deep/shown", "w/file", "w/.env", "w/kept/a/b", "w/open"] {
            world.write(name, name);
        }
        place.world.call("chown", ["-R", &format!("{user}:{user}"), &world.text("w")]).done().code(0);
        let all = "cat secret/key secret/deep/shown file .env kept/a/b open; ls -A secret";
        place
            .sh(&["--show-hidden", "*"], all)
            .done()
            .stdout("w/secret/keyw/secret/deep/shownw/filew/.envw/kept/a/bw/opendeep\nkey\n");
        let options = ["-w", ".", "--mask", "secret", "--mask", "file", "-r", "secret/deep", "--protect", "kept/a"];
        let done = place.sh(&options, all).done().stdout("w/secret/deep/shownw/kept/a/bw/opendeep\n");
        done.stderr_has("secret/key");
        let tries = "echo x >secret/new; echo x >file; echo x >.env; echo x >kept/a/b; rm -rf kept; mv kept away; \
            echo x >secret/deep/shown; echo x >open; echo x >kept/new";
        place.sh(&options, tries).done();
        for name in ["w/secret/key", "w/secret/deep/shown", "w/file", "w/.env", "w/kept/a/b"] {
            assert_eq!(world.read(name), name);
        }
        assert!(!world.has("w/secret/new"));
        assert_eq!((world.read("w/open"), world.read("w/kept/new")), ("x\n".into(), "x\n".into()), "control");
    }
}

#[test]
fn what_is_mounted_below_a_read_grant_stays_read_only() {
    let Some(place) = Place::of(0) else { return };
    let below = place.world.dir("w/below");
    let below = below.to_str().unwrap();
    place.call(&["mount", "-t", "tmpfs", "none", below]).done().code(0);
    place.call(&["sh", "-c", "echo there >below/file"]).done().code(0);
    let script = "cat below/file; echo x >below/file; rm below/file; cat below/file";
    place.sh(&[], script).done().stdout("there\nthere\n").stderr_has("Read-only file system");
    place.sh(&["-w", "."], script).done().code(1).stdout("there\n");
}

#[test]
fn limits_that_the_engine_does_not_keep_are_refused_and_the_others_hold() {
    for (_, place) in Place::both() {
        // There are no control groups in the place, and podman says nothing about that.
        for (option, value, gap) in [("--memory", "64M", "memory"), ("--max-procs", "9", "procs")] {
            place
                .run(&["-w", ".", option, value, "touch", "ran"])
                .done()
                .refused(125, &["the engine has set no limit"]);
            assert!(!place.world.has("w/ran"));
            let done = place.run(&[option, value, "--allow-gap", gap, "true"]).done();
            done.is(
                0,
                "",
                &format!(
                    "sandbox-run: warning: not enforced, as accepted: {gap} (the container engine does not set it)\n"
                ),
            );
        }
        place.sh(&["--max-file-size", "4K"], "head -c 9000 /dev/zero >/tmp/x; wc -c </tmp/x").done().stdout("4096\n");
        place.sh(&["--max-open-files", "20"], "ulimit -n").done().is(0, "20\n", "");
        let done = place.sh(&["--max-output", "1000"], "head -c 5000 /dev/zero").done().code(0);
        assert_eq!(done.stdout.len(), 1000);
        place.sh(&["--cpu-time", "1"], "while :; do :; done").done().code(152).stdout("");
        let most = "grep '^Max file size' /proc/self/limits | tr -s ' '";
        let limited = place.sh(&[], most).before_exec(|| lower_file_size(64 << 20)).done();
        limited.is(0, "Max file size 67108864 67108864 bytes \n", "");
        place.sh(&[], most).done().is(0, "Max file size unlimited unlimited bytes \n", "");
        assert_eq!(place.left(), [""; 0]);
    }
}

#[allow(unsafe_code)]
fn lower_file_size(most: u64) -> std::io::Result<()> {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: the limit is valid for reads.
    if unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) } == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

#[test]
fn what_works_is_found_out_for_real() {
    let Some(place) = Place::of(0) else { return };
    let program = program();
    let check = |words: &[&str]| {
        let all = [&[program.to_str().unwrap(), "--check", "--json"], words].concat();
        let json: serde_json::Value = serde_json::from_str(&place.call(&all).done().out()).unwrap();
        let tried = json["backends"].as_array().unwrap().iter().find(|tried| tried["backend"] == "container").unwrap();
        tried.clone()
    };
    let tried = check(&["--image", IMAGE, "-b", "container"]);
    assert_eq!(tried["works"], true, "{tried}");
    let told = |name: &str| {
        tried["protections"].as_array().unwrap().iter().find(|told| told["protection"] == name).unwrap().clone()
    };
    assert_eq!(told("network")["strength"], "enforced");
    // As the engine is set up here.
    assert_eq!(told("memory")["strength"], "absent", "{tried}");
    assert!(told("memory")["missing"].as_str().unwrap().contains("the engine has set no limit"));
    let tried = check(&[]);
    assert!(tried["works"] == false && tried["reason"].as_str().unwrap().contains("no image"), "{tried}");
    let result =
        place.run(&["--result-fd", "9", "--", "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 4"]);
    let file = File::create(place.world.path("o/result")).unwrap();
    result.fd(file, 9).done().is(4, "", "");
    let result: serde_json::Value = serde_json::from_str(&place.world.read("o/result")).unwrap();
    assert_eq!(
        (&result["backend"], &result["exit_code"], &result["status"]),
        (&"podman".into(), &4.into(), &"exited".into())
    );
    assert!(result["user_ms"].as_u64().unwrap() > 20 && result["max_rss_kib"].as_u64().unwrap() > 100, "{result}");
}
