//! Profiles: which there are, how they add up, and what those do that are not about a toolchain.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::harness::{Call, World, about_bwrap, program};

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
    // Each one once, at its first place: `base` does not come back over `top`. But what is typed last wins.
    with_own(&world, &[&["-p", "twice"], &cat[..]].concat()).done().is(0, "xytop\n", "");
    with_own(&world, &[&["-p", "top", "-p", "base"], &cat[..]].concat()).done().is(0, "xybase\n", "");
    with_own(&world, &[&["-p", "base", "-p", "top", "-p", "base"], &cat[..]].concat()).done().is(0, "xybase\n", "");
    with_own(&world, &[&["-p", "top", "-p", "twice"], &cat[..]].concat()).done().is(0, "xytop\n", "");
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

/// Options and the policy file name the same profile: it counts where an option names it last, and its lists once.
#[test]
fn a_profile_counts_once_for_the_whole_call() {
    if about_bwrap("the policy has the default list of backends") {
        return;
    }
    let world = World::new();
    own(&world, "lax", "allow_network = true\ntimeout = '1h'\nmask_paths = ['/srv/x']\nenv = ['A']\n");
    own(&world, "tight", "allow_network = false\ntimeout = '1m'\n");
    own(&world, "both", "extends = ['tight', 'lax']\n");
    world.write("w/p.toml", "extends = ['lax']\n");
    world.write("w/q.toml", "extends = ['both']\n");
    let printed = |words: &[&str]| {
        let done = with_own(&world, &[words, &["--print-policy=json"]].concat()).done().code(0);
        serde_json::from_slice::<serde_json::Value>(&done.stdout).unwrap()
    };
    let once = printed(&["-p", "lax", "-p", "tight"]);
    assert_eq!(once["allow_network"], false);
    for words in [&["-p", "tight", "-p", "lax"][..], &["--policy", "p.toml"], &["-p", "tight", "--policy", "p.toml"]] {
        assert_eq!(printed(words)["allow_network"], true, "control: {words:?}");
    }
    for words in [
        &["-p", "tight", "-p", "lax", "-p", "tight"][..],
        &["-p", "both", "-p", "tight"],
        &["-p", "lax", "-p", "tight", "--policy", "p.toml"],
        &["-p", "lax", "--policy", "q.toml"],
    ] {
        assert_eq!(printed(words), once, "{words:?}");
    }
}

/// Wherever a profile is asked for that there is not, the place of its name is told.
#[test]
fn a_profile_that_cannot_be_used_is_named_with_its_place() {
    let world = World::new();
    let lost = own(&world, "lost", "# x\n\"extends\" = [\"build\",\n  \"nosuch\"]\n");
    let upper = own(&world, "upper", "# extends\nenv = [\"A\"]\nextends = [\"lost\"]\n");
    world.write("w/p.toml", "\n\nextends = [\"build\",\n \"nosuch\"]\n");
    world.write("w/p.json", "{\"extends\":\n[\"nosuch\"]}");
    world.write("w/q.toml", "extends = [\"upper\"]\n");
    let refused = |words: &[&str], place: &str| {
        let from = format!("profile 'nosuch' (extended by {place}): there is none");
        with_own(&world, &[words, &["true"]].concat()).done().refused(125, &[&from]);
    };
    refused(&["--policy", "p.toml"], "p.toml:4:2");
    refused(&["--policy", "p.json"], "p.json:2:2");
    refused(&["-p", "lost"], &format!("profile 'lost', {lost}:3:3"));
    refused(&["--policy", "q.toml"], &format!("profile 'lost', {lost}:3:3"));
    let call = with_own(&world, &["--policy", "-", "true"]).stdin("extends = ['nosuch']");
    call.done().refused(125, &["(extended by standard input:1:12)"]);
    own(&world, "lost", "extends = ['dir']\n");
    world.dir("o/config/sandbox-run/profiles/dir.toml");
    let words =
        ["cannot read profile 'dir', ", &format!(" (extended by profile 'lost', {lost}:1:12): "), "regular file"];
    with_own(&world, &["-p", "upper", "true"]).done().refused(125, &words);
    own(&world, "lost", "extends = ['upper']\n");
    let circle = [format!("(extended by profile 'lost', {lost}:1:12)"), "upper -> lost -> upper".into()];
    with_own(&world, &["--policy", "q.toml", "true"]).done().refused(125, &[&circle[0], &circle[1]]);
    with_own(&world, &["-p", "lost", "true"]).done().refused(125, &["lost -> upper -> lost", &format!("{upper}:3:12")]);
    own(&world, "lost", "");
    with_own(&world, &["--policy", "q.toml", "true"]).done().is(0, "", "");
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
    // No package can make one appear, so that this is no skip that could fail.
    let Some(device) = device else { return eprintln!("not tried: there is no graphics device here") };
    let node = "for f in \"$1\" \"$1\"/*; do [ -c \"$f\" ] && echo device && exit; done; exit 1";
    world.run(["-p", "gpu", "sh", "-c", node, "-", device]).done().is(0, "device\n", "");
    world.run(["ls", device]).done().code(2);
}
