//! The launcher as the way out: its options, its image, values that are empty.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::harness::{World, alone, is_root, program};

/// flatpak handed the name of the command to bubblewrap where an option could stand.
#[test]
fn a_command_that_looks_like_an_option_stays_a_command() {
    let world = World::new();
    let secret = world.text("o/secret");
    for word in [
        "--bind",
        "--ro-bind",
        "--tmpfs",
        "--share-net",
        "--args",
        "--dev-bind",
        "--cap-add",
        "--unshare-user-try",
        "--",
    ] {
        // After `--` it is the command; without a slash it is looked for in PATH.
        let done = world.run(["--", word, "/", "/", "cat", &secret]).done();
        if word == "--" {
            done.refused(127, &["'--'"]);
        } else {
            done.refused(127, &[word]);
        }
        // As a program of that name, and as the name of what is granted, masked and entered.
        world.script(&format!("w/{word}/{word}"), "#!/bin/sh\nprintf '%s\\n' \"${0##*/}\" \"$@\"\n");
        let path = format!("./{word}/{word}");
        world.run(["--", &path, word, "/", &secret]).done().is(0, &format!("{word}\n{word}\n/\n{secret}\n"), "");
        let (dir, rule) = (format!("./{word}"), format!("--protect=./{word}/{word}"));
        let script = format!("cat {secret}; echo x >{dir}/made && echo x >>{path}");
        world
            .sh(["-w", &dir, &rule], &script)
            .done()
            .code(2)
            .stdout("")
            .stderr_has("No such file")
            .stderr_has("Read-only");
        assert!(world.has(&format!("w/{word}/made")), "the control");
    }
    world.run(["-r", &secret, "--", "cat", &secret]).done().is(0, "s3cret", "");
}

/// An unset variable in somebody's script: bubblewrap took it for the root, an allow list that was empty for everything.
#[test]
fn an_empty_value_widens_nothing() {
    let world = World::new();
    for option in [
        "-r",
        "--read-try",
        "-w",
        "--write-try",
        "--mask",
        "--protect",
        "-C",
        "--net",
        "-b",
        "--allow-gap",
        "--policy",
        "-p",
        "-e",
        "--show-hidden",
        "--allow-socket",
        "--deny-socket",
        "--keep-fd",
        "--env-file",
        "--policy-payload",
        "--hidden-scan-max",
    ] {
        world.run([option, "", "--", "touch", "ran"]).done().refused(125, &[]);
    }
    // Empty lists are empty.
    for list in ["read_roots", "write_roots", "allow_unix_socket_paths", "allow_gaps", "env", "spawn_env_allowlist"] {
        let policy = world.write("o/policy.toml", format!("{list} = []\n"));
        let words = [
            "--policy",
            policy.to_str().unwrap(),
            "--",
            "sh",
            "-c",
            "cat $0; touch ran; cat /proc/net/dev | wc -l; env",
        ];
        let done =
            world.run(words.iter().copied().chain([world.text("o/secret").as_str()])).env("API_KEY", "s3cret").done();
        let done = done.code(0).stderr_has("No such file").stderr_has("Read-only").stdout_lacks("s3cret");
        assert!(done.out().starts_with("3\n"), "two lines of title and the loopback interface\n{}", done.out());
    }
    world.run(["-w", ".", "--", "touch", "ran"]).done().is(0, "", "");
}

/// runc was started again by the container as the interpreter of a script, and written through `/proc/PID/exe` meanwhile.
#[test]
fn our_own_image_cannot_be_written_while_it_runs() {
    let world = World::new();
    world.dir("w/bin");
    let copy = world.path("w/bin/sandbox-run");
    alone(|| fs::copy(program(), &copy)).unwrap();
    let image = fs::read(&copy).unwrap();
    world.script("w/again", "#!/proc/self/exe\n");
    world.script("w/own", "#!/bin/sh\nexec sleep 600\n");
    let script = "import os, subprocess, sys, time
for words in [['./again'], ['bin/sandbox-run', '--check'], ['./bin/sandbox-run', '--', 'sleep', '9']]:
    try: child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError: continue
    for pid in [child.pid, 1, os.getppid()]:
        for name in [f'/proc/{pid}/exe', f'/proc/{pid}/map_files', f'/proc/{pid}/root{sys.argv[1]}', sys.argv[1]]:
            for flags in [os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND]:
                try: os.write(os.open(name, flags), b'#!/bin/sh'); print('written', name)
                except OSError: pass
            try: os.truncate(name, 0); print('truncated', name)
            except OSError: pass
    child.kill(); child.wait()";
    for options in [&["-w", "."][..], &["-w", ".", "-w", "bin"], &["-w", "..", "-w", "bin/sandbox-run"]] {
        let words = [options, &["--", "python3", "-c", script, copy.to_str().unwrap()]].concat();
        world.call(&copy, words).done().is(0, "", "");
        assert!(fs::read(&copy).unwrap() == image, "{options:?}");
    }
    // The control: another file in that place is written.
    let plain = world.write("w/bin/plain", "");
    let words = ["-w", ".", "--", "python3", "-c", script, plain.to_str().unwrap()];
    world.call(&copy, words).done().code(0).stdout_has("written ");
}

/// Names that mean our own program, or a descriptor of ours, to the process that is about to become the command.
#[test]
fn no_command_is_one_of_our_own_files() {
    let world = World::new();
    world.write("w/policy.toml", "backend_type = \"none\"\n");
    world.link("w/link", "/proc/self/exe");
    let chain = world.script("w/chain", "#!/proc/self/exe --policy=policy.toml\n");
    world.script("w/next", &format!("#!{}\n", chain.display()));
    world.script("w/linked", &format!("#!{}\n", world.text("w/link")));
    world.script("w/descriptor", "#!/proc/self/fd/4\n");
    world.script("w/parent", "#!/proc/1/exe\n");
    world.script("w/devices", "#!/dev/fd/4\n");
    let program = || fs::File::open("/bin/true").unwrap();
    for word in
        ["./chain", "./next", "./linked", "./descriptor", "./devices", "./link", "/proc/self/exe", "/proc/1/exe"]
    {
        for options in [&[][..], &["-w", "."], &["-r", "/"]] {
            let done = world.run([options, &["--", word]].concat()).fd(program(), 4).done();
            // Whose program that is may not be ours to know.
            done.refused(126, &[if word == "/proc/1/exe" { "'/proc/1/exe'" } else { "is not the same file inside" }]);
        }
    }
    // The control: scripts whose interpreters have names of their own, links among them.
    world.link("w/shell", "/bin/sh");
    world.script("w/plain", &format!("#!{}\nexit 7\n", world.text("w/shell")));
    world.run(["./plain"]).done().is(7, "", "");
}

/// Changes what can be changed about a file without writing it.
const CHANGE: &str = "
import os, sys
def change(name):
    for what in [lambda: os.chmod(name, 0o777), lambda: os.utime(name, (1, 1)), lambda: os.setxattr(name, 'user.x', b'x')]:
        try: what()
        except OSError: pass
";

/// What is executed can be reached by `/proc/PID/exe` on the mount that it was executed from, with the rights of its owner.
#[test]
fn the_file_of_our_own_image_takes_no_change() {
    let world = World::new();
    let copy = world.path("o/sandbox-run");
    alone(|| fs::copy(program(), &copy)).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    let state = || {
        let found = fs::metadata(&copy).unwrap();
        (found.mode(), found.mtime(), found.uid())
    };
    let before = state();
    // By the descriptor, to whoever gets it first.
    world.script(
        "fake/bwrap",
        &format!("#!/usr/bin/python3{CHANGE}change(sys.argv[-1])\nprint(sys.argv[-1], file=sys.stderr)\n"),
    );
    let fake = crate::fakes::first(&world, "fake");
    let done = world.call(&copy, ["-b", "bwrap", "true"]).env("PATH", &fake).done();
    done.code(125).stderr_has(if is_root() { "/proc/self/fd/" } else { "/dev/.sandbox-run" });
    assert_eq!(state(), before);
    // It is what runs inside, as well.
    world.call(&copy, ["--", "sh", "-c", "exit 7"]).done().is(7, "", "");
    world.call(&copy, ["--explain", "/usr"]).done().code(0);
    if !is_root() {
        let inside = format!("{CHANGE}change('/dev/.sandbox-run')");
        world.call(&copy, ["--", "/usr/bin/python3", "-c", &inside]).done().is(0, "", "");
        assert_eq!(state(), before);
    }
    // A file that has no name any more.
    let nameless = world.path("o/nameless");
    alone(|| fs::copy(program(), &nameless)).unwrap();
    let script = "import os, sys; fd = os.open(sys.argv[1], os.O_RDONLY); os.unlink(sys.argv[1]); os.execve(fd, sys.argv[1:], os.environ)";
    let words = [&[nameless.to_str().unwrap()], &["--", "sh", "-c", "exit 7"][..]].concat();
    super::python(&world, None, script, &words).done().is(7, "", "");
    if is_root() {
        // By a name of it that no plan knows: another process file system of the host, which nobody is given.
        let (proc, own) = (world.dir("o/proc"), world.text("o/proc/self/exe"));
        world.write("w/policy.toml", "backend_type = \"none\"\nworkdir = \"d\"\n");
        world.script("w/again", &format!("#!{own} --policy=policy.toml\n"));
        world.script("w/d/again", &format!("#!/usr/bin/python3{CHANGE}change('/proc/1/exe')\n"));
        for (grant, code, says) in [("$1", 125, "cannot grant"), ("$1/..", 127, "lies in another /proc of the host")] {
            let line = format!("mount -t proc proc \"$1\" && exec \"$2\" -r \"{grant}\" --show-hidden '*' -- ./again");
            let words = ["-m", "--propagation", "private", "sh", "-c", &line, "sh", proc.to_str().unwrap()];
            let done = world.call("unshare", words.iter().chain(&[copy.to_str().unwrap()])).done();
            done.code(code).stderr_has(says);
            assert_eq!(state(), before);
        }
    }
    // The control.
    let python = format!("{CHANGE}change(sys.argv[1])");
    super::python(&world, None, &python, &[copy.to_str().unwrap()]).done().is(0, "", "");
    assert_ne!(state(), before);
}
