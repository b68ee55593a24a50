//! The launcher as the way out: its options, its image, values that are empty.

use std::fs;

use crate::harness::{World, alone, program};

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
