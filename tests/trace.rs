//! `--trace`: the run is what it is without, ptrace apart, and what the sandbox refused is told with its remedy.

use std::fs;
use std::os::unix::fs::symlink;

use nix::sys::signal::Signal;

use crate::fakes::{first, nap};
use crate::harness::{World, backends, eventually, find, processes_with, skip};

const LOUD: &str = "sandbox-run: warning: --trace: the command may trace its processes";

/// Whether there is a strace; says so when not.
fn has_strace() -> bool {
    let found = find("strace").is_some();
    if !found {
        skip("strace", "not installed");
    }
    found
}

/// Lines of the summary.
fn denied(stderr: &str) -> Vec<&str> {
    stderr.lines().filter_map(|line| line.strip_prefix("sandbox-run: denied: ")).collect()
}

#[test]
fn a_refused_access_is_told_with_the_option_that_allows_it() {
    if !has_strace() {
        return;
    }
    let world = World::new();
    world.write("home/notes", "notes");
    let (secret, notes) = (world.text("o/secret"), world.text("home/notes"));
    let before = world.snapshot();
    let words = ["--trace", "--", "cat", "/missing", &secret, &notes];
    let done = world.run(words).done().code(1).stdout("");
    assert_eq!(world.snapshot(), before);
    let done = done.stderr_has(LOUD).stderr_has("cat: /missing: No such file or directory\n").stderr_lacks("openat(");
    let told = denied(&done.stderr);
    assert!(told.contains(&format!("ENOENT open '{secret}' for read: -r {secret}").as_str()), "{told:?}");
    assert!(told.contains(&format!("ENOENT open '{notes}' for read: -r ~/notes").as_str()), "{told:?}");
    assert!(
        !told.iter().any(|line| line.contains("/missing")),
        "what is nowhere is no matter of the sandbox: {told:?}"
    );
    // The remedies help, and then there is nothing to tell of these.
    let words = ["--trace", "-r", &secret, "-r", "~/notes", "--", "cat", &secret, &notes];
    let done = world.run(words).done().code(0).stdout("s3cretnotes");
    assert!(
        !denied(&done.stderr).iter().any(|line| line.contains(&secret) || line.contains(&notes)),
        "{}",
        done.stderr
    );
    // All that strace says is for those who ask.
    let done = world.run(["-v", "--trace", "--", "cat", "/missing", &secret]).done().code(1);
    for path in ["/missing", &secret] {
        assert!(
            done.stderr.lines().any(|line| line.contains(&format!("\"{path}\"")) && line.contains("= -1 ENOENT")),
            "{}",
            done.stderr
        );
    }
}

#[test]
fn refused_writing_masks_and_protects() {
    if !has_strace() {
        return;
    }
    let world = World::new();
    world.write("w/kept", "x");
    world.write("w/dir/masked/below", "x");
    world.dir("o/a b");
    let (o, masked, odd) = (world.text("o"), world.text("w/dir/masked"), world.text("o/a b"));
    let options = ["--trace", "-r", "../o", "-w", ".", "--protect", "kept", "--mask", "dir/masked", "--"];
    let script = "echo x >../o/new; mkdir ../o/dir; rm ../o/secret; echo x >../o/secret; echo y >kept; cat dir/masked/below; cd ../o; cd 'a b' && echo z >x; true";
    let done = world.run([&options[..], &["sh", "-c", script]].concat()).done().code(0);
    let told = denied(&done.stderr);
    let kept = world.text("w/kept");
    for line in [
        format!("EROFS mkdir '{o}/dir' for write: -w {o}"),
        format!("EROFS open '{o}/secret' for write: -w {o}/secret"),
        format!("EROFS open '{kept}' for write: the protect of '{kept}' keeps it, leave that out"),
        format!("ENOENT open '{masked}/below' for read: the mask on '{masked}' hides it, leave that out"),
        format!("EROFS open '{odd}/x' for write: -w '{odd}'"),
    ] {
        assert!(told.contains(&line.as_str()), "{line}\n{told:?}\n{}", done.stderr);
    }
    // What holds by itself is lifted by a grant, which says at what price.
    world.dir("w/.git");
    world.write("w/.git/config", "");
    let options = ["--trace", "-w", ".", "--", "sh", "-c", "echo >>.git/config; true"];
    let git = world.run(options).done().code(0);
    let config = world.text("w/.git/config");
    let lifts = format!("EROFS open '{config}' for write: -w {config} lifts the protection of '{config}'");
    assert!(denied(&git.stderr).iter().any(|line| line.starts_with(&lifts)), "{lifts}\n{}", git.stderr);
    // Each remedy once: making the directory takes no other than making the file.
    assert_eq!(told.iter().filter(|line| line.ends_with(&format!(": -w {o}"))).count(), 1, "{told:?}");
    // What the files' own permissions refuse is theirs.
    fs::set_permissions(world.path("w/kept"), std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    let done = world.run(["--trace", "-w", ".", "--", "cat", "kept"]).done().code(1);
    assert!(!denied(&done.stderr).iter().any(|line| line.contains(&kept)), "{}", done.stderr);
}

#[test]
fn the_run_is_what_it_is_without() {
    if !has_strace() {
        return;
    }
    let world = World::new();
    let plain = world.script("w/plain", "echo \"$0\" \"$@\"\n");
    world.script("w/script", "#!/bin/sh\necho \"$0\" \"$@\"\n");
    assert!(plain.exists());
    for options in backends() {
        for target in [
            &["sh", "-c", "echo $0; echo err >&2; exit 7"][..],
            &["sh", "-c", "kill -KILL $$"],
            &["sh", "-c", "kill -TERM $$"],
            &["sh", "-c", "cat; echo $PWD ${HOME#/tmp/sandbox-run-????????????????????????????????} $PATH; ls -A"],
            &["./script", "a b", ""],
            &["./plain", "a b"],
            &["/bin/sh", "-c", "sh -c 'exit 3' & wait $!"],
        ] {
            let without = world.run([&options[..], &["--"], target].concat()).stdin("in").done();
            let with = world.run([&options[..], &["--trace", "--"], target].concat()).stdin("in").done();
            assert_eq!(
                (with.code, with.out()),
                (without.code, without.out()),
                "{options:?} {target:?}\n{}",
                with.stderr
            );
            // The list is there with `-q`, too; what a shell of this machine looks for may be on it.
            let listed = |line: &&str| !line.starts_with("sandbox-run: denied: ");
            let rest: Vec<_> = with.stderr.lines().filter(listed).collect();
            assert_eq!(rest, without.stderr.lines().collect::<Vec<_>>(), "{options:?} {target:?}");
        }
        for missing in ["no-such-command", "./none"] {
            world.run([&options[..], &["--trace", "--", missing]].concat()).done().refused(127, &[missing]);
        }
        world.run([&options[..], &["--trace", "--timeout", "200ms", "sleep", "600"]].concat()).done().code(124);
    }
}

#[test]
fn signals_reach_the_command_and_nothing_is_left() {
    if !has_strace() {
        return;
    }
    let world = World::new();
    for options in backends() {
        let nap = nap();
        let script = format!("sleep {nap} & trap 'kill $!; echo got; exit 9' TERM; : >ready; wait");
        let gaps: &[&str] = if options.contains(&"none") { &["--allow-gap", GAPS] } else { &[] };
        let running = world.sh([&options[..], &["--trace", "-w", "."], gaps].concat(), &script).spawn();
        assert!(eventually(|| world.has("w/ready")));
        running.signal(Signal::SIGTERM);
        running.done().is(9, "got\n", "");
        assert!(eventually(|| processes_with(&nap).is_empty()), "{options:?}");
        fs::remove_file(world.path("w/ready")).unwrap();
    }
}

/// What a write grant asks of a backend that has no view.
const GAPS: &str = "files-read,files-write";

/// The control: what is relaxed is relaxed for such a run only.
#[test]
fn only_a_traced_run_may_trace() {
    if !has_strace() {
        return;
    }
    let world = World::new();
    let read = "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
class Part(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('len', ctypes.c_size_t)]
a, b = ctypes.create_string_buffer(b'x'), ctypes.create_string_buffer(1)
parts = [Part(ctypes.addressof(buffer), 1) for buffer in (b, a)]
done = libc.process_vm_readv(os.getpid(), ctypes.byref(parts[0]), 1, ctypes.byref(parts[1]), 1, 0)
print(done, ctypes.get_errno())";
    world.call("python3", ["-c", read]).done().is(0, "1 0\n", "");
    world.run(["python3", "-c", read]).done().is(0, "-1 1\n", "");
    world.run(["--trace", "--", "python3", "-c", read]).done().code(0).stdout("1 0\n").stderr_has(LOUD);
}

/// Whoever asks for a list does not get a run without one.
#[test]
fn without_strace_nothing_runs() {
    let world = World::new();
    world.dir("bin");
    for program in ["bwrap", "touch"] {
        symlink(find(program).expect("installed"), world.path("bin").join(program)).unwrap();
    }
    let run = |words: &[&str]| world.run(words).env("PATH", world.path("bin")).done();
    for options in backends() {
        let gaps: &[&str] = if options.contains(&"none") { &["--allow-gap", GAPS] } else { &[] };
        let options = [&options[..], gaps, &["-w", "."]].concat();
        let done = run(&[&options[..], &["--trace", "touch", "ran"]].concat()).code(125).stdout("");
        let done = done.stderr_has("sandbox-run: cannot trace the command (--trace): there is no strace in PATH\n");
        done.stderr_has("hint: install strace (Debian, Ubuntu: apt-get install strace; ").stderr_lacks(LOUD);
        assert!(!world.has("w/ran"), "{options:?}");
        run(&[&options[..], &["touch", "ran"]].concat()).is(0, "", "");
        fs::remove_file(world.path("w/ran")).unwrap();
    }
    run(&["--trace", "--dry-run", "touch", "x"]).refused(125, &["no strace in PATH"]);
}

/// The same where a mask hides it.
#[test]
fn a_hidden_strace_is_a_missing_one() {
    if !has_strace() {
        return;
    }
    let world = World::new();
    let strace = find("strace").expect("installed");
    let strace = fs::canonicalize(strace).unwrap().display().to_string();
    let words = ["-w", ".", "--mask", &strace];
    let done = world.run([&words[..], &["--trace", "touch", "ran"]].concat()).done();
    done.refused(125, &["cannot trace the command (--trace): ", &strace]);
    assert!(!world.has("w/ran"));
    world.run([&words[..], &["touch", "ran"]].concat()).done().is(0, "", "");
}

/// Whatever stands in for strace decides nothing.
#[test]
fn words_of_a_tracer_are_only_words() {
    let world = World::new();
    let script = "#!/bin/sh
while [ $# -gt 0 ] && [ \"$1\" != -- ]; do [ \"$1\" = -o ] && out=$2; shift; done; shift
{ printf '1 open(\"/\\033[2J\\\\33[2J/x\", O_RDONLY) = -1 ENOENT (x)\\n'; printf '%070000d\\n' 7; printf '1 <... open resumed>) = -1 ENOENT\\n1 x('
  printf '\\n1 openat(AT_FDCWD</etc>, \"shadow\", O_RDONLY) = -1 ENOENT (No)\\n'; } >\"$out\"
exec \"$@\"\n";
    world.script("fake/strace", script);
    let done = world
        .run(["-v", "--trace", "--", "echo", "hi"])
        .env("PATH", first(&world, "fake"))
        .done()
        .code(0)
        .stdout("hi\n");
    assert_eq!(
        denied(&done.stderr),
        ["ENOENT open '/etc/shadow' for read: -r /etc/shadow (careful: it holds password hashes)"],
        "{}",
        done.stderr
    );
    assert!(!done.stderr.contains('\u{1b}'), "{}", done.stderr);
}

#[test]
fn it_is_told_in_plan_and_result() {
    if !has_strace() {
        return;
    }
    let world = World::new();
    world.run(["--trace", "--dry-run", "true"]).done().code(0).stdout_has("warning: --trace: the command may trace");
    world.run(["--dry-run", "true"]).done().code(0).stdout_lacks("--trace");
    world.run(["-q", "--trace", "--result", "../result", "cat", &world.text("o/secret")]).done().code(1);
    let result: serde_json::Value = serde_json::from_str(&world.read("result")).unwrap();
    let warnings = result["warnings"].to_string();
    assert!(
        warnings.contains("--trace: the command may trace") && warnings.contains("denied: ENOENT open"),
        "{result}"
    );
    assert_eq!(result["argv"][0], "cat");
    assert!(result["pid"].is_number());
}

/// After a failure those who ask for more hear what would tell them more.
#[test]
fn a_failure_names_both_with_v() {
    let world = World::new();
    world.run(["-v", "false"]).done().code(1).stderr_has("'--trace' lists what").stderr_has("'--explain PATH'");
    for words in [&["false"][..], &["-v", "true"]] {
        assert!(!world.run(words).done().stderr.contains("--explain"), "{words:?}");
    }
}
