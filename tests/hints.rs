//! A remedy is one where the words stand that it is about: an option for an option, a key for a file, none that does not exist.

use std::process::Command;

use crate::harness::{PATHS, World};
use crate::wire::{Record, call};

/// The hints of a refused call.
fn hints(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("sandbox-run: hint: ")).collect()
}

#[test]
fn a_missing_grant() {
    let world = World::new();
    let home = world.dir("home/.config/sandbox-run/profiles");
    let of_file = |text: &str| {
        world.write("p.toml", text);
        std::fs::write(home.join("mine.toml"), text).unwrap();
        let [file, profile] = [["--policy", "../p.toml"], ["-p", "mine"]].map(|words| {
            let done = world.run([&words[..], &["true"]].concat()).done().refused(125, &["nope", "no such file"]);
            hints(&done.stderr).join("\n")
        });
        assert_eq!(file, profile);
        file
    };
    assert_eq!(of_file("read_roots = ['nope']"), "read_roots_optional skips what does not exist");
    assert_eq!(
        of_file("write_roots = ['nope']"),
        "write_roots_create makes the directory, write_roots_optional skips what does not exist"
    );
    let file = "write_files makes no file: make it before the start, or grant its directory";
    assert_eq!(of_file("write_files = ['nope']"), file);
    // What looks like a file would become a directory of that name.
    let file = "make the file before the start, or grant its directory; write_roots_optional skips what does not exist";
    assert_eq!(of_file("write_roots = ['nope.log']"), file);
    for path in ["out/nope.log", "./dbg.txt"] {
        let done = world.run(["--write", path, "true"]).done().refused(125, &[path, "no such file"]);
        let hint = "make the file before the start, or grant its directory; --write-try skips what does not exist";
        assert_eq!(hints(&done.stderr), [hint]);
    }
    for path in ["nope", ".cache", "lib-1.2", "conf.d", "x.log/"] {
        let done = world.run(["--write", path, "true"]).done().refused(125, &["no such file"]);
        assert!(done.stderr.contains("--create-missing makes the directory"), "{path}");
    }
    for key in ["read_roots", "write_roots", "write_files"] {
        let record = Record::new(&world).with(key, "[\"/nope\"]").text();
        let done = call(&world, record.as_bytes(), &["true"]).done().refused(125, &["'/nope'", "payload"]);
        assert_eq!(
            hints(&done.stderr),
            ["nothing in a payload skips or makes what is missing: make it before the start"]
        );
    }
    for (option, hint) in [
        ("--read", "--read-try skips what does not exist"),
        ("--write", "--create-missing makes the directory, --write-try skips what does not exist"),
    ] {
        let done = world.run([option, "nope", "true"]).done().refused(125, &["'nope'", option]);
        assert_eq!(hints(&done.stderr), [hint]);
    }
    // What the hints say helps.
    world.write(
        "p.toml",
        "read_roots_optional = ['nope']\nwrite_roots_optional = ['nope']\nwrite_roots_create = ['new']",
    );
    world.run(["--policy", "../p.toml", "true"]).done().is(0, "", "");
}

#[test]
fn a_device_and_a_directory() {
    let world = World::new();
    world.write("p.toml", "read_roots = ['/dev/null']");
    let done = world.run(["--policy", "../p.toml", "true"]).done().refused(125, &["'/dev/null'"]);
    assert_eq!(hints(&done.stderr), ["write_roots grants it"]);
    let done = world.run(["-r", "/dev/null", "true"]).done().refused(125, &["'/dev/null'"]);
    assert_eq!(hints(&done.stderr), ["--write '/dev/null' grants it"]);
    world.write("p.toml", "write_files = ['.']");
    let done = world.run(["--policy", "../p.toml", "true"]).done().refused(125, &["is a directory"]);
    assert_eq!(hints(&done.stderr), ["write_roots is the key for directories"]);
}

/// "No such file" alone is what nobody believes: the name is there.
#[test]
fn a_link_that_leads_nowhere_is_named_with_its_target() {
    let world = World::new();
    world.dir("home/.config/sandbox-run/profiles");
    let link = world.link("home/.config/sandbox-run/profiles/x.toml", "gone.toml");
    let said = format!("no such file or directory ('{}' is a link to 'gone.toml')", link.display());
    world.run(["-p", "x", "true"]).done().refused(125, &["profile 'x'", &said]).stderr_lacks("none of that name");
    world.run(["-p", "help"]).done().code(0).stdout_has(&format!("x: cannot be read: {said}"));
    world.run(["-p", "y", "true"]).done().refused(125, &["none of that name"]);
    let link = world.link("w/d", "/gone");
    let said = format!("no such file or directory ('{}' is a link to '/gone')", link.display());
    for option in ["--policy", "--env-file", "--read", "--write", "--allow-socket", "--workdir"] {
        world.run([option, "d", "true"]).done().refused(125, &[&said]);
        world.run([option, "d/more", "true"]).done().refused(125, &[&said]);
        world.run([option, "e", "true"]).done().refused(125, &["no such file"]).stderr_lacks("is a link");
    }
    // The whole directory of profiles is a link.
    std::fs::rename(world.path("home/.config"), world.path("home/away")).unwrap();
    world.link("home/.config", "unmounted");
    world.run(["-p", "x", "true"]).done().refused(125, &["is a link to 'unmounted'"]);
    world.run(["-p", "git", "true"]).done().is(0, "", "");
}

#[test]
fn what_is_no_payload() {
    let world = World::new();
    for json in ["{}", r#"{"active":true}"#, &Record::new(&world).json()] {
        let done = world.run(["--policy-payload", json, "true"]).done();
        done.refused(125, &["is bare JSON", "base64url", "--policy FILE"]).stderr_lacks("active");
    }
    let empty = ["every key", "--policy FILE", "'active'", "'write_roots'"];
    world.run(["--policy-payload", "e30=", "true"]).done().refused(125, &empty);
    // The file that the message speaks of.
    world.write("p.json", "{}");
    world.run(["--policy", "../p.json", "true"]).done().is(0, "", "");
    world.write("p.json", Record::new(&world).json());
    world.run(["--policy", "../p.json", "true"]).done().is(0, "", "");
}

#[test]
fn keys_that_a_section_swallows() {
    let world = World::new();
    for (line, said) in [
        ("read_roots = ['/x']", "key 'read_roots' stands in the section [env_set]: move it above"),
        ("read_root = ['/x']", "key 'read_root' stands in the section [env_set]: did you mean 'read_roots'?"),
        ("readRoots = ['/x']", "key 'readRoots' stands in the section [env_set]: did you mean 'read_roots'?"),
        ("network = false", "key 'network' stands in the section [env_set]: did you mean 'allow_network'?"),
        (
            "backend_typ = 'bwrap'",
            "if it is meant as 'backend_type', write that above, otherwise 'env_set.backend_typ'",
        ),
        ("tmp_sise = '64M'", "if it is meant as 'tmp_size', write that above"),
    ] {
        world.write("p.toml", format!("[env_set]\nA = 'x'\n{line}\n"));
        world.run(["--policy", "../p.toml", "true"]).done().refused(125, &["p.toml:3:1: ", said]);
    }
    // Names that are nobody's keys, in capitals, and said in so many words.
    let names =
        "[env_set]\nWORKDIR = '1'\nTMP_SIZE = '2'\nhttp_proxy = '3'\nno_proxy = '4'\nprofile = '5'\nEXTENDS = '6'\n";
    for text in [names, "env_set.backend_typ = 'x'\n"] {
        world.write("p.toml", text);
        world.run(["--policy", "../p.toml", "true"]).done().is(0, "", "");
    }
}

/// A name that cannot match leaves hidden what its writer meant to show, or worse, is thought to hide the rest.
#[test]
fn names_that_show_nothing() {
    let world = World::new();
    for (name, said) in [
        ("git", "'git' shows nothing"),
        ("*.env", "'*.env' shows nothing"),
        ("a/.git", "is not the name of a file"),
        (".git/", "is not the name of a file"),
        ("", "is not the name of a file"),
        (".", "is not the name of a file"),
        ("..", "is not the name of a file"),
        ("base64:Z2l0", "'git' shows nothing"),
    ] {
        world.write("p.toml", format!("allow_network = false\ncwd_allow_hidden = ['.ok', '{name}']\n"));
        world
            .run(["--policy", "../p.toml", "true"])
            .done()
            .refused(125, &["p.toml:2:28: key 'cwd_allow_hidden'", said]);
        world.write("p.json", format!("{{\n\"cwd_allow_hidden\": [\"{name}\"]}}"));
        world
            .run(["--policy", "../p.json", "true"])
            .done()
            .refused(125, &["p.json:2:22: key 'cwd_allow_hidden'", said]);
    }
    for name in ["*", ".git", "...", "..a", "base64:LmdpdA=="] {
        world.write("p.toml", format!("cwd_allow_hidden = ['{name}']\n"));
        world.run(["--policy", "../p.toml", "true"]).done().is(0, "", "");
    }
    // A payload takes any single name; what is printed of it can be read back.
    let record = Record::new(&world).with("cwd_allow_hidden", r#"["git",".git"]"#).text();
    let printed = call(&world, record.as_bytes(), &["--print-policy"]).done().code(0);
    world.write("p.toml", printed.out());
    world.run(["--policy", "../p.toml", "true"]).done().is(0, "", "");
}

/// A FIFO is read like a file: of a shell, and of a writer that comes later.
#[test]
fn a_policy_from_a_fifo() {
    let world = World::new();
    world.write("w/secret", "hidden");
    let program = crate::harness::program();
    let script = format!("'{}' --policy <(echo \"mask_paths = ['secret']\") cat secret", program.display());
    world.call("bash", ["-c", &script]).done().is(0, "", "");
    let fifo = world.path("fifo.toml");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let waiting = world.run(["--policy", "../fifo.toml", "cat", "secret"]).spawn();
    std::thread::sleep(std::time::Duration::from_millis(100));
    std::fs::write(&fifo, "mask_paths = ['secret']\n").unwrap();
    waiting.done().is(0, "", "");
    world.run(["cat", "secret"]).done().is(0, "hidden", "");
    // Nobody writes: a signal ends the wait.
    let waiting = world.run(["--policy", "../fifo.toml", "true"]).spawn();
    std::thread::sleep(std::time::Duration::from_millis(100));
    waiting.signal(nix::sys::signal::Signal::SIGTERM);
    assert_ne!(waiting.done().code, Some(0));
}

/// Words that other habits put where a command belongs.
#[test]
fn what_was_no_command() {
    let world = World::new();
    let line = "COMMAND is one word and its arguments others; a line of shell is run by: sh -c 'LINE'";
    for (words, code, hint) in [
        (&["echo hi"][..], 127, line),
        (&["A=s3c", "true"], 127, "a variable is set by '-e NAME=VALUE'"),
        (&["--dry-run", "json"], 127, "a form is typed after '=': --dry-run=json"),
        (&["--dry-run", "text", "true"], 127, "a form is typed after '=': --dry-run=text"),
    ] {
        let done = world.run(words).done().code(code);
        assert_eq!(hints(&done.stderr), [hint], "{words:?}");
    }
    for words in [&["nope"][..], &["./a=b"], &["--dry-run", "toml"]] {
        let done = world.run(words).done().code(127);
        assert_eq!(hints(&done.stderr), [""; 0], "{words:?}");
    }
    // Programs with such names are run.
    let bin = world.dir("bin");
    for name in ["echo hi", "A=1", "json"] {
        let program = world.write(&format!("bin/{name}"), "#!/bin/sh\necho ran\n");
        std::fs::set_permissions(program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let path = format!("{}:{PATHS}", bin.display());
        world.run([name]).env("PATH", &path).done().is(0, "ran\n", "");
        world.run(["--print-policy", name]).env("PATH", &path).done().code(0).stderr("");
        world.run(["--dry-run", name]).env("PATH", &path).done().code(0).stderr("");
    }
    let said = "the word after --print-policy is the command: a form is typed after '=': --print-policy=json";
    world.run(["--print-policy", "json"]).done().code(0).stderr_has(said);
    world.run(["--print-policy=json", "json"]).done().code(0);
}

/// A limit of the caller's that is too low to start anything is named as such, and not an innocent program.
#[test]
fn a_resource_limit_that_is_too_low_to_start() {
    let world = World::new();
    for (limit, said) in [
        ("-f 4", "the limit on the size of files is too low for a start (ulimit -f)"),
        ("-n 20", "the limit on open files is too low for a start (ulimit -n)"),
        ("-n 9", "the limit on open files is too low for a start (ulimit -n)"),
    ] {
        let script = format!("ulimit {limit}; exec '{}' -b bwrap true", crate::harness::program().display());
        let done = world.call("bash", ["-c", &script]).done().refused(125, &[]).stderr_has(said);
        done.stderr_lacks("what was found in PATH");
    }
}

#[test]
fn a_directory_that_is_not_shown_is_named() {
    let world = World::new();
    let done = world.run(["-C", "/run", "true"]).done().refused(125, &["'/run'"]);
    assert_eq!(hints(&done.stderr), ["--read '/run' shows it, -C DIR starts elsewhere"]);
    world.run(["-C", "/run", "--read", "/run", "true"]).done().is(0, "", "");
    world.dir("w/m/in");
    let done = world.run(["-C", "m/in", "--mask", "..", "true"]).done().refused(125, &["is hidden by the mask"]);
    let inner = world.path("w/m/in");
    assert_eq!(hints(&done.stderr), [format!("-C DIR starts elsewhere, --read '{}' shows it", inner.display())]);
}

#[test]
fn a_level_that_does_not_exist() {
    let world = World::new();
    let said = "SANDBOX_RUN_LOG is none of off, error, warn, info, debug, trace: warnings and errors are shown";
    world.run(["true"]).env("SANDBOX_RUN_LOG", "bogus").done().code(0).stderr_has(said).stderr_lacks("bogus");
    for (options, value) in [(&["-q"][..], "bogus"), (&["-v"], "bogus"), (&[], "warn"), (&[], "WARN"), (&[], "")] {
        let words = [options, &["true"]].concat();
        world.run(words).env("SANDBOX_RUN_LOG", value).done().code(0).stderr_lacks("is none of");
    }
}
