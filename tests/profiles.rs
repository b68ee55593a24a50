//! Profiles: which there are, what each one really lets a toolchain do, and that the credentials beside it stay out of reach.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use crate::harness::{Call, World, find, program};

const BUILT_IN: [&str; 13] = [
    "build",
    "default",
    "display",
    "git",
    "go",
    "gpu",
    "host-read",
    "jvm",
    "node",
    "python",
    "rust",
    "ssh-agent",
    "strict",
];

/// Says that a toolchain is not on this machine. No demand can make it appear, so this is no skip that could fail.
fn absent(what: &str) {
    eprintln!("not tried: there is no {what} here");
}

/// A call with the user's profiles in `o/config`.
fn with_own(world: &World, words: &[&str]) -> Call {
    world.run(words).env("XDG_CONFIG_HOME", world.path("o/config"))
}

fn own(world: &World, name: &str, text: &str) -> String {
    let path = world.write(&format!("o/config/sandbox-run/profiles/{name}.toml"), text);
    path.to_str().unwrap().to_owned()
}

#[test]
fn help_lists_every_profile_with_one_line() {
    let world = World::new();
    own(&world, "mine", "# what I need\nread_roots = []\n");
    let path = own(&world, "silent", "read_roots = []\n");
    own(&world, "escape", "# red \u{1b}[31m\n");
    own(&world, "default", "# not the real one\n");
    own(&world, "Not-A-Name", "# never\n");
    let done = with_own(&world, &["-p", "help"]).done().code(0).stderr("");
    let text = done.out();
    for name in BUILT_IN {
        let lines = text.lines().filter(|line| line.split([':', ' ']).next() == Some(name)).count();
        assert_eq!(lines, if name == "default" { 2 } else { 1 }, "{name}:\n{text}");
    }
    assert!(text.contains("what I need") && text.contains(&path) && text.contains("cannot be used"), "{text}");
    assert!(!text.contains("never") && !text.contains('\u{1b}'), "{text}");
    // Without a directory of one's own.
    let done = world.run(["--profile", "help"]).done().code(0).stderr("");
    assert_eq!(done.out().lines().filter(|line| !line.trim().is_empty()).count(), BUILT_IN.len(), "{}", done.out());
}

#[test]
fn names_that_are_none() {
    let world = World::new();
    own(&world, "mine", "read_roots = []\n");
    world.write("o/config/sandbox-run/evil.toml", "read_roots = [\"/\"]\n");
    let secret = world.text("o/secret");
    let absolute = world.text("o/config/sandbox-run/profiles/mine");
    let shape = "a name consists of lower-case letters";
    for name in ["", "a/b", "../evil", "../../../etc/passwd", ".", "..", ".hidden", "-x", "A", "mine\n", "ü", &absolute]
    {
        let done = with_own(&world, &[&format!("--profile={name}"), "cat", &secret]).done();
        let shown = if name.ends_with('\n') { "mine\\n" } else { name };
        done.refused(125, &[&format!("'{shown}'"), shape]);
    }
    let known = BUILT_IN.join(", ");
    with_own(&world, &["-p", "nosuch", "true"]).done().refused(125, &["profile 'nosuch'", &known, "mine"]);
    with_own(&world, &["-p", "rsut", "true"]).done().refused(125, &["'rsut'", "did you mean 'rust'?", &known]);
    with_own(&world, &["-p", "mien", "true"]).done().refused(125, &["'mien'", "did you mean 'mine'?"]);
    // Nothing of the good ones counts when one is bad.
    with_own(&world, &["-p", "host-read", "-p", "nosuch", "cat", &secret]).done().refused(125, &["'nosuch'"]);
    with_own(&world, &["-p", "mine", "-p", "rust", "echo", "ok"]).done().is(0, "ok\n", "");
}

#[test]
fn a_mistake_in_a_profile_names_file_and_line() {
    let world = World::new();
    let typo = own(&world, "typo", "# a typo\nread_roots = []\nraed_roots = [\"/\"]\n");
    own(&world, "upon", "extends = [\"typo\"]\n");
    for name in ["typo", "upon"] {
        let done = with_own(&world, &["-p", name, "true"]).done();
        done.refused(125, &["profile 'typo'", &format!("{typo}:3"), "raed_roots", "read_roots"]);
    }
    let text = own(&world, "text", "\n\nkill_after = soon\n");
    with_own(&world, &["-p", "text", "true"]).done().refused(125, &["profile 'text'", &format!("{text}:3")]);
    // What cannot be read is not passed over.
    let dir = world.dir("o/config/sandbox-run/profiles/dir.toml");
    with_own(&world, &["-p", "dir", "true"]).done().refused(125, &["'dir'", dir.to_str().unwrap(), "regular file"]);
    nix::unistd::mkfifo(&world.path("o/config/sandbox-run/profiles/fifo.toml"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    with_own(&world, &["-p", "fifo", "true"]).done().refused(125, &["'fifo'", "regular file"]);
    own(&world, "large", &format!("# {}\n", "x".repeat(2 << 20)));
    with_own(&world, &["-p", "large", "true"]).done().refused(125, &["'large'"]);
    own(&world, "typo", "# a typo\nread_roots = []\n");
    with_own(&world, &["-p", "upon", "echo", "ok"]).done().is(0, "ok\n", "");
}

#[test]
fn profiles_extend_others_and_never_themselves() {
    let world = World::new();
    let (x, y) = (world.write("o/x", "x"), world.write("o/y", "y"));
    let (x, y) = (x.to_str().unwrap(), y.to_str().unwrap());
    own(&world, "base", &format!("read_roots = [{x:?}]\nkill_after = \"7s\"\nenv_set = {{ WHO = \"base\" }}\n"));
    own(&world, "top", &format!("extends = [\"base\"]\nread_roots = [{y:?}]\nenv_set = {{ WHO = \"top\" }}\n"));
    own(&world, "twice", "extends = [\"top\", \"base\", \"build\"]\n");
    let cat = ["sh", "-c", "cat \"$@\"; echo $WHO", "-", x, y];
    with_own(&world, &[&["-p", "top"], &cat[..]].concat()).done().is(0, "xytop\n", "");
    // Each one once, at its first place: `base` does not come back over `top`.
    with_own(&world, &[&["-p", "twice"], &cat[..]].concat()).done().is(0, "xytop\n", "");
    with_own(&world, &[&["-p", "top", "-p", "base"], &cat[..]].concat()).done().is(0, "xytop\n", "");
    with_own(&world, &["-p", "twice", "touch", "made"]).done().is(0, "", "");
    assert!(world.has("w/made"));
    with_own(&world, &["-p", "top", "touch", "other"]).done().code(1);

    let a = own(&world, "a", "# one\nextends = [\"b\"]\n");
    let b = own(&world, "b", "extends = [\"a\"]\n");
    let own_self = own(&world, "self", "extends = [\"self\"]\n");
    with_own(&world, &["-p", "a", "true"]).done().refused(125, &["profile 'a'", "a -> b -> a", &format!("{b}:1")]);
    with_own(&world, &["-p", "b", "true"]).done().refused(125, &["profile 'b'", "b -> a -> b", &format!("{a}:2")]);
    let words = ["profile 'self'", "self -> self", &format!("{own_self}:1")];
    with_own(&world, &["-p", "self", "true"]).done().refused(125, &words);
    let lost = own(&world, "lost", "\nextends = [\"nosuch\"]\n");
    with_own(&world, &["-p", "lost", "true"])
        .done()
        .refused(125, &["'nosuch'", "'lost'", &format!("{lost}:2"), "known"]);
    own(&world, "up", "extends = [\"../evil\"]\n");
    with_own(&world, &["-p", "up", "true"]).done().refused(125, &["'../evil'", "'up'"]);
    for number in 0..40 {
        own(&world, &format!("n{number}"), &format!("extends = [\"n{}\"]\n", number + 1));
    }
    own(&world, "n40", "");
    with_own(&world, &["-p", "n0", "true"]).done().refused(125, &["extend one another"]);
    with_own(&world, &["-p", "n20", "echo", "ok"]).done().is(0, "ok\n", "");
}

#[test]
fn nothing_that_lies_about_changes_a_built_in_name() {
    let world = World::new();
    let secret = world.text("o/secret");
    let wide = format!("read_roots = [{:?}]\n", world.text("o"));
    let lying = own(&world, "default", &wide);
    for name in ["sandbox-run.toml", ".sandbox-run/profiles/default.toml", ".config/sandbox-run/profiles/default.toml"]
    {
        world.write(&format!("w/{name}"), &wide);
        world.write(&format!("home/{name}"), &wide);
    }
    with_own(&world, &["cat", &secret]).done().code(1).stdout("");
    world.run(["cat", &secret]).done().code(1).stdout("");
    with_own(&world, &["-p", "default", "cat", &secret]).done().refused(125, &["'default'", &lying, "built-in"]);
    own(&world, "upon", "extends = [\"default\"]\n");
    with_own(&world, &["-p", "upon", "cat", &secret]).done().refused(125, &["'default'", &lying, "'upon'"]);
    let at_home = world.text("home/.config/sandbox-run/profiles/default.toml");
    world.run(["-p", "default", "cat", &secret]).done().refused(125, &["'default'", &at_home]);
    // A directory that is no absolute path is none, as the XDG specification has it.
    world.write("w/rel/sandbox-run/profiles/mine.toml", &wide);
    world.run(["-p", "mine", "cat", &secret]).env("XDG_CONFIG_HOME", "rel").done().refused(125, &["'mine'"]);
    // Under another name, or as a policy file, the same text counts.
    own(&world, "other", &wide);
    with_own(&world, &["-p", "other", "cat", &secret]).done().is(0, "s3cret", "");
    world.run(["--policy", &lying, "cat", &secret]).done().is(0, "s3cret", "");
}

#[test]
fn default_is_what_happens_anyway() {
    let world = World::new();
    let secret = world.text("o/secret");
    world.run(["-p", "default", "cat", &secret]).done().code(1).stdout("");
    world.run(["-p", "default", "touch", "made"]).done().code(1);
    assert!(!world.has("w/made"));
    // As a demand it is one more than nothing: a backend without it is refused.
    world.run(["-p", "default", "-b", "none", "true"]).done().refused(125, &["network"]);
    world.run(["-q", "-b", "none", "true"]).done().is(0, "", "");
    // It takes nothing back from another profile.
    let script = "env | sort | sed 's/=.*//'";
    let strict = world.sh(["-p", "strict"], script).done().code(0).out();
    world.sh(["-p", "strict", "-p", "default"], script).done().is(0, &strict, "");
    assert_ne!(world.sh(["-p", "default"], script).env("USER", "u").done().code(0).out(), strict);
}

#[test]
fn build_writes_the_working_directory_but_for_git_hooks_and_settings() {
    let world = World::new();
    world.call("git", ["init", "-q", "."]).done().code(0);
    world.dir("w/.git/hooks");
    world.sh(["-p", "build"], "echo x >made && git add made && cat made").done().is(0, "x\n", "");
    assert_eq!(world.read("w/made"), "x\n");
    for change in [
        "echo x >.git/hooks/pre-commit",
        "echo x >.git/config",
        "git config core.hooksPath x",
        "mv .git g",
        &format!("echo x >{}", world.text("o/made")),
    ] {
        let (before, config) = (world.snapshot(), world.read("w/.git/config"));
        let done = world.sh(["-p", "build"], change).done();
        assert_ne!(done.code, Some(0), "{change}");
        // git makes a lock file and removes it again: only names and settings are the same.
        assert!(world.snapshot().keys().eq(before.keys()) && world.read("w/.git/config") == config, "{change}");
    }
    // The control: nothing but the sandbox is in the way.
    let outside = ["-c", "git config core.hooksPath x && echo x >.git/hooks/pre-commit"];
    world.call("sh", outside).done().is(0, "", "");
}

#[test]
fn host_read_shows_the_host_and_no_credentials() {
    let world = World::new();
    world.write("home/.ssh/id", "key");
    world.write("home/.netrc", "password");
    world.write("home/plain", "plain");
    let script = "cat ~/plain \"$0\"; echo; cat ~/.ssh/id ~/.netrc /run/* 2>/dev/null; touch ~/new /var/tmp/new \"$0\"";
    let words = |options: &[&'static str]| {
        let secret = world.text("o/secret");
        world.run([options, &["sh", "-c", script, &secret]].concat().iter().map(ToString::to_string))
    };
    let before = world.snapshot();
    words(&["-p", "host-read"]).done().code(1).stdout("plains3cret\n").stderr_has("Read-only file system");
    assert_eq!(world.snapshot(), before);
    words(&[]).done().stdout("\n");
    world.call("sh", ["-c", "cat ~/plain ~/.ssh/id ~/.netrc"]).done().is(0, "plainkeypassword", "");
}

#[test]
fn strict_leaves_little() {
    let world = World::new();
    world.write("home/plain", "plain");
    let call = |options: &[&str], script: &str| {
        world.sh(options, script).env("USER", "u").env("TZ", "UTC").env("SSH_AUTH_SOCK", "/s").env("COLORTERM", "x")
    };
    let names = "env | sed 's/=.*//' | grep -vx -e _ -e SHLVL | sort | tr '\\n' ' '";
    call(&["-p", "strict"], names).done().is(0, "HOME LANG PATH PWD TERM TMPDIR TZ ", "");
    let usual = call(&[], names).done().code(0).out();
    assert!(usual.contains("COLORTERM") && usual.contains("USER"), "{usual}");
    call(&["-p", "strict"], "ls -A ~").done().is(0, "", "");
    for place in ["/tmp", "~"] {
        let fill = |size: u32| format!("head -c {size}M /dev/zero >{place}/f");
        call(&["-p", "strict"], &fill(15)).done().is(0, "", "");
        call(&["-p", "strict"], &fill(17)).done().code(1).stderr_has("No space left");
        call(&[], &fill(17)).done().is(0, "", "");
    }
    // Options still add to it, and the other way round.
    call(&["-p", "strict", "-e", "USER"], "echo $USER").done().is(0, "u\n", "");
}

/// Files below HOME that a toolchain's profile shows, and such that it must not.
const BESIDE: &[(&str, &[&str], &[&str])] = &[
    (
        "rust",
        &[".cargo/env", ".cargo/registry/index", ".rustup/settings.toml"],
        &[".cargo/credentials", ".cargo/credentials.toml", ".ssh/id", "plain"],
    ),
    (
        "node",
        &[".nvm/alias/default", ".volta/bin/node", ".local/share/fnm/aliases", "n/bin/node"],
        &[".npmrc", ".yarnrc.yml", ".npm/_logs/x", ".ssh/id", "plain"],
    ),
    (
        "python",
        &[".pyenv/version", ".local/share/uv/python/x", ".virtualenvs/v/pyvenv.cfg", ".local/bin/uv", "miniconda3/x"],
        &[
            ".pypirc",
            ".netrc",
            ".config/pip/pip.conf",
            ".config/pypoetry/auth.toml",
            ".local/share/uv/credentials/x",
            ".local/share/keyrings/x",
            "plain",
        ],
    ),
    ("go", &["go/pkg/mod/x", "go/bin/tool", "sdk/x"], &[".config/go/env", "go/src/mine/.env", ".netrc", "plain"]),
    (
        "jvm",
        &[".m2/repository/x.jar", ".sdkman/candidates/java/x", ".gradle/wrapper/x", ".jdks/x"],
        &[".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties", "plain"],
    ),
    (
        "git",
        &[".gitconfig", ".config/git/ignore"],
        &[".git-credentials", ".config/git/credentials", ".config/gh/hosts.yml", ".ssh/id", "plain"],
    ),
];

#[test]
fn toolchain_profiles_show_what_is_there_and_no_credentials() {
    for (name, shown, hidden) in BESIDE {
        let world = World::new();
        // Nothing is there yet: nothing is missing.
        let before = world.snapshot();
        world.run(["-p", name, "true"]).done().is(0, "", "");
        assert_eq!(world.snapshot(), before, "{name}");
        for file in shown.iter().chain(*hidden) {
            let text = if *file == ".gitconfig" { "# x\n" } else { "x\n" };
            world.write(&format!("home/{file}"), text);
        }
        let script = "cd; for file; do [ -z \"$(cat \"$file\" 2>/dev/null)\" ] || echo \"$file\"; done";
        let seen = |options: &[&str], files: &[&str]| {
            let words = [options, &["sh", "-c", script, "-"], files].concat();
            world.run(words).done().code(0).out().lines().map(String::from).collect::<Vec<_>>()
        };
        let all = [*shown, *hidden].concat();
        let outside = world.call("sh", [&["-c", script, "-"], &all[..]].concat()).done().code(0).out();
        assert_eq!(outside.lines().collect::<Vec<_>>(), all, "{name}: outside");
        assert_eq!(seen(&[], &all), [""; 0], "{name}: without it");
        assert_eq!(seen(&["-p", name], &all), *shown, "{name}");
        // A read grant, not a write grant.
        let before = world.snapshot();
        for file in *shown {
            let done = world.sh(["-p", name], &format!("echo y >>~/{file}")).done();
            assert_ne!(done.code, Some(0), "{name}: {file}");
        }
        assert_eq!(world.snapshot(), before, "{name}");
        // The same under a view that shows all of HOME.
        let secret = |file: &&&str| {
            [".ssh", "credentials", ".npmrc", ".yarnrc", ".pypirc", ".netrc", "settings", "gradle.p", "/gh/"]
                .iter()
                .any(|part| file.contains(part))
        };
        let secrets: Vec<&str> = hidden.iter().filter(secret).filter(|file| !file.contains("/uv/")).copied().collect();
        assert_eq!(seen(&["-p", "host-read", "-p", name], &secrets), [""; 0], "{name}: with host-read");
    }
}

/// Where the toolchain of this machine lies, if rustup put it there.
fn rustup() -> Option<(PathBuf, PathBuf)> {
    let home = std::env::var_os("HOME").map(PathBuf::from)?;
    let place = |variable: &str, name: &str| {
        fs::canonicalize(std::env::var_os(variable).map_or_else(|| home.join(name), PathBuf::from)).ok()
    };
    let (cargo, rustup) = (place("CARGO_HOME", ".cargo")?, place("RUSTUP_HOME", ".rustup")?);
    (cargo.join("bin/rustup").is_file() && rustup.join("toolchains").is_dir()).then_some((cargo, rustup))
}

#[test]
fn rust_builds_a_crate() {
    let Some((cargo, rustup)) = rustup() else { return absent("rustup with a toolchain") };
    let world = World::new();
    // A HOME of our own, with the toolchain of this machine behind a link.
    world.dir("home/.cargo/bin");
    for tool in ["cargo", "rustc"] {
        crate::harness::alone(|| fs::copy(cargo.join("bin/rustup"), world.path("home/.cargo/bin").join(tool))).unwrap();
    }
    world.link("home/.rustup", &rustup);
    world.write("home/.cargo/credentials.toml", "token");
    world.write("home/.cargo/plain", "plain");
    world.write("w/Cargo.toml", "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    world.write("w/src/main.rs", "fn main() { println!(\"tiny\"); }\n");
    let path = format!("{}:{}", world.text("home/.cargo/bin"), crate::harness::PATHS);
    let call = |options: &[&str], script: &str| world.sh(options, script).env("PATH", &path);
    let pointed =
        |call: Call| call.env("CARGO_HOME", world.path("home/.cargo")).env("RUSTUP_HOME", world.path("home/.rustup"));
    call(&["-p", "rust"], "cargo --version && rustc --version").done().code(0).stderr("").stdout_has("cargo 1");
    pointed(call(&["-p", "rust"], "cargo --version; echo $CARGO_HOME $RUSTUP_HOME"))
        .done()
        .code(0)
        .stdout_has(&format!("{} {}\n", world.text("home/.cargo"), world.text("home/.rustup")));
    call(&["-p", "build", "-p", "rust"], "cargo build -q --offline && target/debug/tiny").done().is(0, "tiny\n", "");
    assert!(world.has("w/target/debug/tiny"));
    let without = call(&["-p", "build"], "~/.cargo/bin/cargo --version").done();
    assert_ne!(without.code, Some(0));
    let cat = world.sh(["-p", "rust"], "cat ~/.cargo/plain ~/.cargo/credentials.toml 2>/dev/null; env");
    let done = pointed(cat).done().code(0).stdout_has("plain").stdout_lacks("token");
    done.stdout_lacks("SANDBOX_RUN");
    world.call("cat", [world.text("home/.cargo/credentials.toml")]).done().is(0, "token", "");
}

#[test]
fn cargo_home_elsewhere_hides_its_credentials_too() {
    let world = World::new();
    world.write("o/cargo/credentials.toml", "token");
    world.write("o/cargo/plain", "plain");
    let cargo = world.text("o/cargo");
    let script = "echo \"$CARGO_HOME\"; cat \"$CARGO_HOME\"/* 2>/dev/null";
    let call = |options: &[&str]| world.sh(options, script).env("CARGO_HOME", &cargo);
    call(&["-p", "rust", "-r", &cargo]).done().stdout_has(&cargo).stdout_has("plain").stdout_lacks("token");
    call(&["-p", "rust"]).done().stdout("\n");
}

#[test]
fn node_runs_a_script() {
    if find("node").is_none() {
        return absent("node");
    }
    let world = World::new();
    // As a version manager has it: the program below HOME, found by PATH.
    let node = find("node").unwrap();
    world.script("home/.nvm/versions/node/v0/bin/node", &format!("#!/bin/sh\nexec {} \"$@\"\n", node.display()));
    world.write("home/.npmrc", "//registry.example.org/:_authToken=token\n");
    world.write("w/package.json", "{\"name\":\"tiny\",\"scripts\":{\"go\":\"node main.js\"}}\n");
    world.write("w/main.js", "require('fs').writeFileSync('made', 'x'); console.log(process.env.NVM_DIR)\n");
    let nvm = world.text("home/.nvm");
    let path = format!("{nvm}/versions/node/v0/bin:{}", crate::harness::PATHS);
    let call = |options: &[&str], script: &str| world.sh(options, script).env("PATH", &path).env("NVM_DIR", &nvm);
    call(&["-p", "node", "-p", "build"], "node main.js && cat made").done().is(0, &format!("{nvm}\nx"), "");
    if find("npm").is_some() {
        call(&["-p", "node", "-p", "build"], "npm run -s go").done().is(0, &format!("{nvm}\n"), "");
    }
    let read = "console.log(require('fs').readFileSync(process.env.HOME + '/.npmrc', 'utf8'))";
    let quoted = format!("node -e \"{read}\"");
    call(&["-p", "node"], &quoted).done().code(1).stdout("").stderr_has("ENOENT");
    world.call("sh", ["-c", &quoted]).done().code(0).stdout_has("token");
}

#[test]
fn python_runs_from_a_virtual_environment_and_by_pyenv() {
    let world = World::new();
    world.write("home/.pypirc", "password = token\n");
    world.write("home/.netrc", "password token\n");
    let venv = world.text("home/.virtualenvs/v");
    world.call("python3", ["-m", "venv", "--without-pip", &venv]).done().code(0);
    let call = |options: &[&str], script: &str| {
        let path = format!("{venv}/bin:{}", crate::harness::PATHS);
        world.sh(options, script).env("PATH", path).env("VIRTUAL_ENV", &venv)
    };
    let prefix = "python3 -c 'import sys, os; print(sys.prefix, os.environ.get(\"VIRTUAL_ENV\"))'";
    call(&["-p", "python"], prefix).done().is(0, &format!("{venv} {venv}\n"), "");
    call(&[], prefix).done().stdout_lacks(&venv);
    let read = "python3 -c 'import os; print(open(os.path.expanduser(\"~/.pypirc\")).read())'";
    call(&["-p", "python"], read).done().code(1).stdout("").stderr_has("FileNotFoundError");
    world.call("sh", ["-c", read]).done().code(0).stdout_has("token");

    let pyenv = std::env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv"));
    let used = |root: &PathBuf| root.join("shims/python3").is_file() && root.join("version").is_file();
    let Some(pyenv) = pyenv.filter(used) else {
        return absent("pyenv");
    };
    world.link("home/.pyenv", &pyenv);
    let root = world.text("home/.pyenv");
    let path = format!("{root}/shims:{root}/bin:{}", crate::harness::PATHS);
    let version = "python3 -c 'import sys; print(sys.prefix)'; echo $PYENV_ROOT";
    let call = world.sh(["-p", "python"], version).env("PATH", &path).env("PYENV_ROOT", &root);
    let done = call.done().code(0).stdout_has("/versions/").stdout_has(&root);
    done.stderr("");
}

#[test]
fn java_compiles_and_runs() {
    if find("java").is_none() || find("javac").is_none() {
        return absent("JDK");
    }
    let world = World::new();
    world.write("home/.m2/settings.xml", "password");
    world.write("home/.m2/repository/plain", "plain");
    let source = "import java.nio.file.*;
        class Main { public static void main(String[] a) throws Exception {
            for (String f : a) System.out.print(Files.readString(Path.of(System.getenv(\"HOME\"), f)) + \"\\n\"); } }";
    world.write("w/Main.java", source);
    let compile = "javac Main.java && java Main .m2/repository/plain";
    world.sh(["-p", "jvm", "-p", "build"], compile).done().is(0, "plain\n", "");
    let run = "java Main .m2/settings.xml";
    world.sh(["-p", "jvm"], run).done().code(1).stdout("").stderr_has("NoSuchFileException");
    world.call("sh", ["-c", run]).done().is(0, "password\n", "");
}

#[test]
fn go_builds_a_program() {
    if find("go").is_none() {
        return absent("go");
    }
    let world = World::new();
    world.write("w/go.mod", "module tiny\n");
    world.write("w/main.go", "package main\nfunc main() { println(\"tiny\") }\n");
    world.sh(["-p", "go", "-p", "build"], "go build -o tiny . && ./tiny 2>&1").done().code(0).stdout("tiny\n");
}

#[test]
fn git_commits_under_the_users_name() {
    let world = World::new();
    world.write("home/.gitconfig", "[user]\nname = Somebody\nemail = somebody@example.org\n");
    world.write("home/.config/git/ignore", "ignored\n");
    world.write("home/.git-credentials", "https://user:token@example.org\n");
    world.call("git", ["init", "-q", "-b", "main", "."]).done().code(0);
    let commit =
        "touch file ignored; git add file; git commit -q -m one && git log --format='%an %ae' && git status -s";
    world.sh(["-p", "git", "-p", "build"], commit).done().is(0, "Somebody somebody@example.org\n", "");
    world.sh(["-p", "build"], "git commit -q --allow-empty -m two").done().code(128).stdout("");
    let call = world.sh(["-p", "git", "-p", "build"], "git commit -q --allow-empty -m two; git log -1 --format=%an");
    call.env("GIT_AUTHOR_NAME", "Other").done().is(0, "Other\n", "");
    let fill = "printf 'protocol=https\\nhost=example.org\\n\\n' | GIT_TERMINAL_PROMPT=0 git -c credential.helper=store credential fill";
    world.sh(["-p", "git"], fill).done().stdout_lacks("token");
    world.call("sh", ["-c", fill]).done().stdout_has("token");
}

#[test]
fn an_agent_signs_and_keeps_its_keys() {
    let world = World::new();
    let key = world.text("home/.ssh/id_ed25519");
    world.dir("home/.ssh");
    fs::set_permissions(world.path("home/.ssh"), fs::Permissions::from_mode(0o700)).unwrap();
    let sandbox = program();
    let script = |inside: &str| {
        format!(
            "test -e {key} || ssh-keygen -q -t ed25519 -N '' -C mark -f {key}; ssh-add -q {key}; exec {} {inside}",
            sandbox.display()
        )
    };
    let agent = |inside: &str| world.call("ssh-agent", ["sh", "-ec", &script(inside)]).done();
    agent("-p ssh-agent ssh-add -l").code(0).stdout_has("mark");
    let sign = "-p ssh-agent sh -c 'echo x | ssh-keygen -q -Y sign -n file -f ~/.ssh/id_ed25519.pub'";
    agent(&format!("-r ~/.ssh/id_ed25519.pub {sign}")).code(0).stdout_has("SSH SIGNATURE");
    // The key itself, and the agent without the profile.
    agent(&format!("-p ssh-agent cat {key}")).code(1).stdout("");
    assert_ne!(agent("ssh-add -l").stdout("").code, Some(0));
    assert_ne!(agent("-e SSH_AUTH_SOCK ssh-add -l").stdout("").code, Some(0));

    let words = ["-p", "ssh-agent", "true"];
    world.run(words).done().refused(125, &["'ssh-agent'", "SSH_AUTH_SOCK is not set"]);
    world.run(words).env("SSH_AUTH_SOCK", "rel/s").done().refused(125, &["'ssh-agent'", "'rel/s'"]);
    world.write("o/ssh/secret", "s3cret");
    let _docker = UnixListener::bind(world.path("o/docker.sock")).unwrap();
    let (none, secret) = (world.text("o/ssh/none"), world.text("o/ssh/secret"));
    world.run(words).env("SSH_AUTH_SOCK", &none).done().refused(125, &["'ssh-agent'", &none, "no such file"]);
    world.run(words).env("SSH_AUTH_SOCK", &secret).done().refused(125, &["'ssh-agent'", &secret, "not a socket"]);
    // The profile is for agents, whatever a variable says.
    let docker = world.text("o/docker.sock");
    world.run(words).env("SSH_AUTH_SOCK", &docker).done().refused(125, &["'ssh-agent'", &docker, "--allow-socket"]);
    world.run(["--allow-socket", &docker, "true"]).done().is(0, "", "");
}

const CONNECT: &str = "import os, socket, sys
socket.socket(socket.AF_UNIX).connect(sys.argv[1])
print('connected', *(os.environ.get(name) for name in ['WAYLAND_DISPLAY', 'DISPLAY']))";

#[test]
fn display_opens_wayland_or_else_x11() {
    let world = World::new();
    world.dir("o/run");
    let _wayland = UnixListener::bind(world.path("o/run/wayland-0")).unwrap();
    let _other = UnixListener::bind(world.path("o/run/bus")).unwrap();
    let (socket, run) = (world.text("o/run/wayland-0"), world.text("o/run"));
    let call = |options: &[&str], socket: &str| {
        world.run([options, &["python3", "-c", CONNECT, socket]].concat()).env("XDG_RUNTIME_DIR", &run)
    };
    let display = ["-p", "display"];
    let connected = format!("connected {socket} None\n");
    call(&display, &socket).env("WAYLAND_DISPLAY", "wayland-0").done().is(0, &connected, "");
    let bare = call(&display, &socket).env("WAYLAND_DISPLAY", &socket).env_remove("XDG_RUNTIME_DIR");
    bare.done().is(0, &connected, "");
    // X11 does not come along with Wayland, nor do other sockets beside it.
    let both = call(&display, &socket).env("WAYLAND_DISPLAY", "wayland-0").env("DISPLAY", ":97");
    both.done().is(0, &connected, "");
    call(&display, &world.text("o/run/bus")).env("WAYLAND_DISPLAY", "wayland-0").done().code(1).stdout("");
    call(&[], &socket).env("WAYLAND_DISPLAY", "wayland-0").done().code(1).stdout("");

    call(&display, &socket).done().refused(125, &["'display'", "neither WAYLAND_DISPLAY nor DISPLAY"]);
    let above = call(&display, &socket).env("WAYLAND_DISPLAY", "../run/bus");
    above.done().refused(125, &["'display'", "'../run/bus'"]);
    let nowhere = call(&display, &socket).env("WAYLAND_DISPLAY", "wayland-0").env_remove("XDG_RUNTIME_DIR");
    nowhere.done().refused(125, &["'display'", "XDG_RUNTIME_DIR"]);
    let bus = call(&display, &socket).env("WAYLAND_DISPLAY", "bus");
    bus.done().refused(125, &["'display'", "/o/run/bus", "--allow-socket"]);
    let key = world.write("home/.ssh/id", "key");
    let cookie = call(&display, &socket).env("DISPLAY", ":97").env("XAUTHORITY", &key);
    cookie.done().refused(125, &["'display'", key.to_str().unwrap(), "--read"]);
    for remote in ["host:0", ":", ":x", "tcp/host:1"] {
        call(&display, &socket).env("DISPLAY", remote).done().refused(125, &["'display'", &format!("'{remote}'")]);
    }

    let place = Path::new("/tmp/.X11-unix");
    let made = fs::create_dir(place).is_ok();
    let number = 9000 + std::process::id() % 1000;
    let path = place.join(format!("X{number}"));
    match UnixListener::bind(&path) {
        Err(error) => eprintln!("not tried: cannot make '{}': {error}", path.display()),
        Ok(_x11) => {
            world.write("home/.Xauthority", "cookie");
            let name = format!(":{number}.0");
            let x11 = path.to_str().unwrap();
            let done = call(&display, x11).env("DISPLAY", &name).done().code(0);
            done.stdout(&format!("connected None {name}\n")).stderr_has("can read what is typed");
            call(&[], x11).env("DISPLAY", &name).done().code(1).stdout("");
            let cookie = world.run(["-q", "-p", "display", "cat", &world.text("home/.Xauthority")]);
            cookie.env("DISPLAY", &name).done().is(0, "cookie", "");
            fs::remove_file(&path).unwrap();
        }
    }
    if made {
        // Another test program may have put something there meanwhile.
        let _left = fs::remove_dir(place);
    }
}

#[test]
fn gpu_shows_what_drivers_read() {
    let world = World::new();
    world.run(["-p", "gpu", "true"]).done().is(0, "", "");
    if fs::metadata("/sys/devices").is_ok() {
        world.run(["-p", "gpu", "ls", "/sys/devices"]).done().code(0).stdout_has("system");
        world.run(["ls", "/sys/devices"]).done().code(2);
        world.sh(["-p", "gpu"], "echo x >/sys/devices/system/cpu/cpu0/online").done().code(2).stdout("");
    }
    let device = ["/dev/dri", "/dev/nvidiactl", "/dev/kfd"].into_iter().find(|path| fs::metadata(path).is_ok());
    let Some(device) = device else { return absent("graphics device") };
    let node = "for f in \"$1\" \"$1\"/*; do [ -c \"$f\" ] && echo device && exit; done; exit 1";
    world.run(["-p", "gpu", "sh", "-c", node, "-", device]).done().is(0, "device\n", "");
    world.run(["ls", device]).done().code(2);
}
