//! Nothing that a caller or a target can set, make or overwrite stands for the real thing.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;

use nix::sys::signal::Signal;

use crate::harness::{Call, World, eventually, processes_with, program};

const STAGE: &str = "SANDBOX_RUN_STAGE";

#[test]
fn a_preset_marker_changes_nothing() {
    let world = World::new();
    let secret = world.text("o/secret");
    let file = || File::open(world.path("o/secret")).unwrap();
    let zeros = "0".repeat(32);
    for value in ["1", "", "inner", "0", "0 x", "2 ", "3", "3 ", " 3", "3 x", "-1 x", "99 x", "99999999999999999999 x"]
        .map(str::to_owned)
        .into_iter()
        .chain(["3", "1", "0"].map(|number| format!("{number} {zeros}")))
    {
        let run = |words: &[&str]| world.run(words).env(STAGE, &value).fd(file(), 3).done();
        run(&["sh", "-c", "exit 7"]).is(7, "", "");
        run(&["cat", &secret]).code(1).stdout("").stderr_has("No such file");
        run(&["-r", &secret, "cat", &secret]).is(0, "s3cret", "");
        run(&["env"]).code(0).stdout_lacks(STAGE);
        run(&["--net", "maybe", "true"]).refused(125, &["maybe"]);
    }
    let bytes = OsStr::from_bytes(b"3 \xff\xfe");
    world.run(["cat", &secret]).env(STAGE, bytes).done().code(1).stdout("");
}

/// `forge.py KIND sandbox-run WORDS…`, which pretends that a run is to end in `cat SECRET`.
fn forged(world: &World, kind: &str, words: &[&str]) -> Call {
    let script = world.write("o/forge.py", include_str!("fixtures/forge.py"));
    let first: [OsString; 3] = [script.into(), kind.into(), program().into()];
    let words = first.into_iter().chain(words.iter().map(OsString::from));
    world.call("/usr/bin/python3", words).env("FORGED", world.text("o/secret")).env("TMPDIR", world.text("o"))
}

const KINDS: [&str; 8] = ["bare", "unsealed", "nonce", "garbage", "cut", "file", "stream", "closed"];

#[test]
fn a_forged_hand_off_is_ignored() {
    let world = World::new();
    for kind in KINDS {
        forged(&world, kind, &["sh", "-c", "exit 7"]).done().is(7, "", "");
        forged(&world, kind, &["cat", &world.text("o/secret")]).done().code(1).stdout("").stderr_has("No such file");
        forged(&world, kind, &["sh", "-c", "env; ls /proc/self/fd"])
            .done()
            .code(0)
            .stdout_lacks(STAGE)
            .stdout_lacks("9\n");
        forged(&world, kind, &[]).done().refused(125, &["no command"]);
    }
}

#[test]
fn a_forged_hand_off_that_claims_isolation_is_refused() {
    let world = World::new();
    // It differs from `bare` in one word, so this also shows that `bare` is well-formed.
    for words in [&["sh", "-c", "touch ran"][..], &["--version"], &[]] {
        forged(&world, "claimed", words).done().refused(125, &["a run that nobody started", STAGE]);
    }
    forged(&world, "listened", &["sh", "-c", "touch ran"]).done().is(125, "", "");
    // As close as a caller can come: process 1, no privileges, no way to get any.
    let (script, program) = (world.text("o/forge.py"), program());
    for kind in ["listened", "claimed", "bare"] {
        let words = ["-r", "--pid", "--fork", "--mount-proc", "setpriv", "--no-new-privs", "--bounding-set=-all"];
        let rest =
            ["--inh-caps=-all", "/usr/bin/python3", &script, kind, program.to_str().unwrap(), "-b", "bwrap", "true"];
        let call = world.call("unshare", words.iter().chain(&rest)).env("FORGED", world.text("o/secret"));
        call.done().code(125).stdout("");
    }
    assert!(!world.has("w/ran"));
}

#[test]
fn a_target_gains_nothing_by_the_program() {
    let world = World::new();
    let secret = world.text("o/secret");
    let script = world.write("w/forge.py", include_str!("fixtures/forge.py"));
    let (script, program) = (script.to_str().unwrap(), program());
    let program = program.to_str().unwrap();
    let before = world.snapshot();
    let inside = |command: &[&str]| {
        let mut words = vec!["-r", program, "-e", "FORGED", "--"];
        words.extend(command);
        world.run(words).env("FORGED", &secret).done()
    };
    let refused = "already inside a container or another sandbox";
    for kind in KINDS {
        inside(&["python3", script, kind, program, "-b", "bwrap", "cat", &secret])
            .refused(125, &[])
            .stderr_has(refused);
    }
    inside(&["python3", script, "claimed", program, "cat", &secret]).refused(125, &["nobody started"]);
    inside(&["python3", script, "listened", program, "cat", &secret]).is(125, "", "");
    inside(&[program, "-b", "bwrap", "cat", &secret]).refused(125, &[]).stderr_has(refused);
    // No isolation is no gain either, and the image that runs as process 1 cannot be had from there.
    inside(&[program, "-q", "-b", "none", "cat", &secret]).code(1).stdout("").stderr_has("No such file");
    for image in ["/proc/1/exe", "/proc/1/fd/3", "/proc/1/root/bin/true", "/proc/1/cwd"] {
        inside(&["ls", "-L", image]).code(2).stdout("").stderr_has("Permission denied");
    }
    let attack = "import ctypes, errno; c = ctypes.CDLL(None, use_errno=True); \
                  print([c.ptrace(16, 1, 0, 0), ctypes.get_errno() == errno.EPERM])";
    inside(&["python3", "-c", attack]).is(0, "[-1, True]\n", "");
    assert_eq!(world.snapshot(), before);
    // The control: it is visible and it runs.
    inside(&[program, "--version"]).code(0).stdout_has("sandbox-run ");
}

#[test]
fn no_path_from_the_environment_is_touched() {
    let world = World::new();
    world.write("o/dir/file", "kept");
    let (dir, file) = (world.text("o/dir"), world.text("o/dir/file"));
    let before = world.snapshot();
    let call = |words: &[&str]| {
        let mut call = world.run(words);
        for name in ["TMPDIR", "TMP", "TEMP", "TEMPDIR", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"] {
            call = call.env(name, &dir);
        }
        for name in ["STAGE", "HANDOFF", "SCRATCH", "OPTIONS", "CONTROL", "BACKEND", "BWRAP", "POLICY", "TMP", "BIN"] {
            call = call.env(format!("SANDBOX_RUN_{name}"), if name == "SCRATCH" { &dir } else { &file });
        }
        call
    };
    call(&["true"]).done().is(0, "", "");
    call(&["-q", "-b", "none", "true"]).done().is(0, "", "");
    call(&["nosuchcmd"]).done().refused(127, &["nosuchcmd"]);
    call(&["--check"]).done().code(0);
    for backend in ["bwrap", "none"] {
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            let nap = crate::fakes::nap();
            let running = call(&["-q", "-b", backend, "sleep", &nap]).spawn();
            assert!(eventually(|| processes_with(&format!("sleep {nap}")).len() > 1));
            running.signal(signal);
            running.done();
            assert!(eventually(|| processes_with(&nap).is_empty()), "{backend}, {signal}");
        }
    }
    assert_eq!(world.snapshot(), before);
}

#[test]
fn no_name_of_ours_reaches_the_target() {
    let world = World::new();
    let run = |words: &[&str]| {
        let call = world.run(words).env(STAGE, "1").env("SANDBOX_RUN_LOG", "error").env("SANDBOX_RUN_X", "2");
        call.env("PLAIN_VALUE", "v4lue").done()
    };
    for backend in ["bwrap", "none"] {
        let with = |command: &[&str]| run(&[&["-q", "-b", backend], command].concat()).code(0);
        for command in [&["env"][..], &["--", "sh", "-c", "cat /proc/self/environ /proc/$$/environ"]] {
            let done = with(command);
            assert!(!done.out().to_uppercase().contains("SANDBOX_RUN"), "{}", done.out());
            done.stdout_lacks("v4lue");
        }
        with(&["-e", "PLAIN_VALUE", "env"]).stdout_has("PLAIN_VALUE=v4lue\n");
    }
    // No process inside shows any of it: process 1 shows nothing at all.
    let all = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null; cat /proc/1/environ";
    let done = run(&["--", "sh", "-c", all]).code(1).stderr_has("Permission denied");
    let text = done.out();
    assert!(text.contains("HOME="), "{text:?}");
    assert!(!text.contains("SANDBOX_RUN") && !text.contains("v4lue") && !text.contains("--"), "{text:?}");
    for name in [STAGE, "SANDBOX_RUN_STAGE=1"] {
        run(&["-e", name, "true"]).refused(125, &[STAGE]);
    }
}

#[test]
fn the_program_cannot_be_replaced_from_inside() {
    let world = World::new();
    world.dir("w/deep/bin");
    world.write("w/deep/bin/plain", "old");
    let copy = world.path("w/deep/bin/sandbox-run");
    crate::harness::alone(|| fs::copy(program(), &copy)).unwrap();
    let image = fs::read(&copy).unwrap();
    let run = |script: &str| world.call(&copy, ["-w", ".", "--", "sh", "-c", script]).done();
    for change in [
        "echo x >deep/bin/sandbox-run",
        "truncate -s 0 deep/bin/sandbox-run",
        "rm -f deep/bin/sandbox-run",
        "mv deep/bin/sandbox-run moved",
        "mv deep/bin moved",
        "mv deep moved",
        "cp /bin/true new; mv -f new deep/bin/sandbox-run",
        "cp --remove-destination /bin/true deep/bin/sandbox-run",
        "ln -sf /bin/true deep/bin/sandbox-run",
        "chmod 777 deep/bin/sandbox-run",
        "touch deep/bin/sandbox-run",
    ] {
        let done = run(change);
        assert_ne!(done.code, Some(0), "{change}");
        assert!(fs::read(&copy).unwrap() == image, "{change}");
    }
    run("deep/bin/sandbox-run -b bwrap true").refused(125, &[]).stderr_has("already inside");
    // The control: its neighbour can be replaced.
    run("echo new >deep/bin/plain && mv deep/bin/plain deep/bin/p && mv deep/bin/p deep/bin/plain").is(0, "", "");
    assert_eq!(world.read("w/deep/bin/plain"), "new\n");
    // Granted as a file of its own it stays read-only all the same.
    let words = ["-w", "deep/bin/sandbox-run", "--", "sh", "-c", "echo x >deep/bin/sandbox-run"];
    world.call(&copy, words).done().code(2).stderr_has("Read-only");
    // And where it is out of reach nothing is said about it.
    world.run(["-w", ".", "-v", "true"]).done().code(0).stderr_lacks(program().to_str().unwrap());
}
