//! What the caller kept to itself can be read nowhere: not in another process inside, not in any list of processes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::harness::{Call, Running, World, about_bwrap, backends, eventually, find, open_proc};

/// Values of variables, one for each way in which a caller may have them.
const DROPPED: &str = "value-of-a-dropped-variable";
const PASSED: &str = "value-of-a-passed-variable";
const FILED: &str = "value-from-a-file";
const TYPED: &str = "value-on-the-command-line";

/// A call whose caller has secrets of every kind.
fn with_secrets(world: &World, options: &[&str], script: &str) -> Call {
    let file = world.write("o/variables", format!("FILED={FILED}\n"));
    let typed = format!("TYPED={TYPED}");
    let more = ["--env-file", file.to_str().expect("text"), "-e", "PASSED", "-e", &typed];
    world.sh([options, &more].concat(), script).env("DROPPED", DROPPED).env("PASSED", PASSED)
}

/// Backends with processes of the command's own.
const BOTH: [&str; 2] = ["bwrap", "namespace"];

#[test]
fn no_process_inside_shows_what_was_dropped() {
    let world = World::new();
    let script = "cat /proc/*/environ /proc/*/cmdline /proc/*/task/*/environ | tr '\\0' '\\n'";
    let control = world.call("sh", ["-c", "cat /proc/$$/environ"]).env("DROPPED", DROPPED).done();
    assert!(control.out().contains(DROPPED), "control: an environment can be read in /proc");
    for backend in BOTH {
        let done = with_secrets(&world, &["-b", backend], script).done().code(0);
        // The command's own environment is among it, and nothing else's.
        let done = done.stdout_has(PASSED).stdout_has(FILED).stdout_has(TYPED);
        done.stdout_lacks(DROPPED).stdout_lacks("SANDBOX_RUN_");
    }
}

#[test]
fn no_command_line_inside_shows_a_value_or_the_policy() {
    let world = World::new();
    for backend in BOTH {
        let options = ["-b", backend, "-r", "/etc/hosts"];
        let done = with_secrets(&world, &options, "cat /proc/*/cmdline").done().code(0);
        let lines = done.out();
        assert!(lines.contains("cat /proc/*/cmdline"), "control: command lines can be read\n{lines}");
        for text in [DROPPED, PASSED, FILED, TYPED, "--env-file", "/etc/hosts", "--ro-bind", backend, "sandbox-run"] {
            assert!(!lines.contains(text), "{text}\n{lines}");
        }
    }
}

#[test]
fn no_internal_name_reaches_the_command() {
    let world = World::new();
    for backend in backends() {
        let done =
            world.sh(open_proc(backend), "env; cat /proc/self/environ").env("SANDBOX_RUN_LOG", "debug").done().code(0);
        assert!(done.out().contains("PATH="), "control: variables are listed");
        assert!(!done.out().to_ascii_lowercase().contains("sandbox_run"), "{}", done.out());
    }
}

/// All processes below `pid`, itself included.
fn tree(pid: i32) -> BTreeSet<i32> {
    let mut found = BTreeSet::from([pid]);
    let mut todo = vec![pid];
    while let Some(pid) = todo.pop() {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|word| word.parse().ok()) {
            found.insert(child);
            todo.push(child);
        }
    }
    found
}

/// A run that said that it has begun and goes on until its standard input ends.
struct Begun {
    running: Running,
    input: std::io::PipeWriter,
    processes: BTreeSet<i32>,
}

fn begin(call: Call) -> Begun {
    let (stdin, input) = std::io::pipe().expect("pipe");
    let (output, stdout) = std::io::pipe().expect("pipe");
    let running = call.stdin_from(stdin).stdout(stdout).spawn();
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).expect("read");
    assert_eq!(line, "begun\n");
    let processes = tree(running.pid());
    Begun { running, input, processes }
}

fn file(pid: i32, name: &str) -> String {
    // What is not ours to read shows nothing to anybody like us.
    String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default()).replace('\0', "\n")
}

#[test]
fn no_process_outside_shows_a_value_either() {
    let world = World::new();
    for backend in backends() {
        let script = "sleep 60 & echo begun; read -r line; kill $!; exit 4";
        let begun = begin(with_secrets(&world, &backend, script));
        let caller = begun.running.pid();
        assert!(begun.processes.len() >= 4, "control: the whole run is looked at, {:?}", begun.processes);
        for &pid in &begun.processes {
            let (line, environment) = (file(pid, "cmdline"), file(pid, "environ"));
            for value in [DROPPED, PASSED, FILED] {
                assert!(!line.contains(value), "{value} in the command line of {pid}: {line}");
            }
            // What was typed is in the line that was typed, and in no other.
            assert_eq!(line.contains(TYPED), pid == caller || is_copy(pid, caller), "{pid}: {line}");
            assert_eq!(environment.contains(DROPPED), pid == caller || is_copy(pid, caller), "{pid}: {environment}");
        }
        drop(begun.input);
        begun.running.done().is(4, "", "");
    }
}

/// Whether `pid` is a fork of `caller` that executed nothing: without a sandbox nothing stands in between.
fn is_copy(pid: i32, caller: i32) -> bool {
    file(pid, "cmdline") == file(caller, "cmdline")
}

#[test]
fn the_launcher_gets_no_variable_of_the_caller() {
    if about_bwrap("the process between is bubblewrap's") {
        return;
    }
    let world = World::new();
    let begun = begin(with_secrets(&world, &[], "echo begun; read -r line; exit 4"));
    let bwrap: Vec<_> = begun
        .processes
        .iter()
        .filter(|pid| file(**pid, "cmdline").lines().next().is_some_and(|name| name.ends_with("/bwrap")))
        .collect();
    assert!(!bwrap.is_empty(), "control: bubblewrap is running");
    for pid in bwrap {
        let environment = file(*pid, "environ");
        assert!(environment.lines().all(|entry| entry.starts_with("SANDBOX_RUN_STAGE=")), "{environment}");
        assert!(file(*pid, "cmdline").lines().count() <= 6, "the policy is not in its command line");
    }
    drop(begun.input);
    begun.running.done().is(4, "", "");
}

/// An agent of the caller on a socket, with one key.
struct Agent {
    process: Child,
    socket: PathBuf,
}

impl Agent {
    fn start(world: &World) -> Self {
        let socket = world.path("o/agent");
        let mut command = Command::new(find("ssh-agent").expect("ssh-agent"));
        command.arg("-D").arg("-a").arg(&socket).env_clear().stdin(Stdio::null()).stdout(Stdio::null());
        let process = command.spawn().expect("ssh-agent");
        let agent = Self { process, socket };
        assert!(eventually(|| fs::symlink_metadata(&agent.socket).is_ok()), "the agent listens");
        agent
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _gone = self.process.wait();
    }
}

#[test]
fn variables_that_lead_to_sockets_pass_by_name_and_with_a_warning() {
    let world = World::new();
    let agent = Agent::start(&world);
    let socket = agent.socket.to_str().expect("text");
    let run = |options: &[&str], script: &str| {
        let mut call = world.sh(options, script).env("SSH_AUTH_SOCK", socket);
        for (name, value) in [
            ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/0/bus"),
            ("DISPLAY", ":0"),
            ("WAYLAND_DISPLAY", "wayland-0"),
            ("DOCKER_HOST", "unix:///run/docker.sock"),
        ] {
            call = call.env(name, value);
        }
        call.done()
    };
    let list = "env | grep -cE '^(SSH_AUTH_SOCK|DBUS_SESSION_BUS_ADDRESS|DISPLAY|WAYLAND_DISPLAY|DOCKER_HOST)='";
    run(&[], list).is(1, "0\n", "");
    let by_name =
        ["-e", "SSH_AUTH_SOCK", "-e", "DBUS_SESSION_BUS_ADDRESS", "-e", "WAYLAND_DISPLAY", "-e", "DOCKER_HOST"];
    let done = run(&by_name, list).code(0).stdout("4\n");
    for name in ["SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "WAYLAND_DISPLAY", "DOCKER_HOST"] {
        let warned = done.stderr.lines().any(|line| line.starts_with(&format!("sandbox-run: warning: {name} ")));
        assert!(warned, "{name}\n{}", done.stderr);
    }
    // Status 2: no agent. Status 1: an agent without keys.
    let ask = "ssh-add -l";
    run(&["-e", "SSH_AUTH_SOCK"], ask).code(2).stderr_has("--allow-socket");
    run(&["-e", "SSH_AUTH_SOCK", "--allow-socket", socket], ask).is(1, "The agent has no identities.\n", "");
    world.call("ssh-add", ["-l"]).env("SSH_AUTH_SOCK", socket).done().code(1);
}

#[test]
fn a_value_is_in_no_message() {
    let world = World::new();
    let file = world.write("o/variables", format!("FILED={FILED}\n"));
    let file = file.to_str().expect("text");
    for backend in backends() {
        let backend = &backend[1..];
        let words = ["-vvv", "--env-file", file, "-e", "PASSED", "-e", "DROPPED_*", "--", "true"];
        let call = world.run([backend, &words].concat()).env("PASSED", PASSED).env("DROPPED_KEY", DROPPED);
        let done = call.done().code(0).stdout("");
        assert!(done.stderr.contains("DROPPED_KEY"), "control: names are said\n{}", done.stderr);
        done.stderr_lacks(PASSED).stderr_lacks(FILED).stderr_lacks(DROPPED);
    }
}
