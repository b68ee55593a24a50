//! What the target sees when nobody asked for more: system directories, a short `/etc`, and places of its own.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::harness::{Done, World, has_landlock, is_root, program, skip, usable};

/// No options.
const NONE: [&str; 0] = [];

/// A world whose HOME holds what nobody should see, and `notes`.
fn with_secrets() -> World {
    let world = World::new();
    world.write("home/notes", "notes\n");
    for name in [".ssh/id_rsa", ".aws/credentials", ".netrc", ".config/gh/hosts.yml", ".cargo/credentials.toml"] {
        world.write(&format!("home/{name}"), "s3cret");
    }
    world.write("home/.config/app", "plain\n");
    world
}

/// Runs the call and finds the world as it was before.
#[track_caller]
fn untouched(world: &World, call: crate::harness::Call) -> Done {
    let before = world.snapshot();
    let done = call.done();
    assert_eq!(world.snapshot(), before, "the host's files changed");
    done
}

#[test]
fn the_root_holds_the_system_and_nothing_else() {
    let mut expected: BTreeSet<String> = ["dev", "etc", "proc", "tmp", "var"].map(String::from).into();
    for name in ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        if fs::symlink_metadata(Path::new("/").join(name)).is_ok() {
            expected.insert(name.into());
        }
    }
    let world = World::new();
    let done = world.run(["find", "/", "-xdev", "-mindepth", "1", "-maxdepth", "1", "-printf", "%f\n"]).done().code(0);
    assert_eq!(done.out().lines().map(String::from).collect::<BTreeSet<_>>(), expected);
    // On a merged /usr the links are links, with the host's text.
    for name in ["bin", "sbin", "lib", "lib64"] {
        let at = Path::new("/").join(name);
        if let Ok(text) = fs::read_link(&at) {
            world.run(["readlink", at.to_str().unwrap()]).done().is(0, &format!("{}\n", text.display()), "");
        }
    }
}

#[test]
fn private_files_are_not_there_whoever_asks() {
    let world = with_secrets();
    let files = [
        world.text("home/.ssh/id_rsa"),
        world.text("home/.aws/credentials"),
        world.text("home/notes"),
        world.text("o/secret"),
    ];
    for file in files.iter().map(String::as_str).chain(["/etc/shadow", "/run", "/root", "/srv", "/mnt", "/boot"]) {
        let done = untouched(&world, world.run(["cat", file])).code(1);
        done.is(1, "", &format!("cat: {file}: No such file or directory\n"));
    }
    assert!(files.iter().all(|file| Path::new(file).exists()));
    // The same files, one difference.
    world.run(["-r", &world.text("o"), "cat", &world.text("o/secret")]).done().is(0, "s3cret", "");
    world.run(["-r", &world.text("home/notes"), "cat", &world.text("home/notes")]).done().is(0, "notes\n", "");
    world.run(["cmp", "/etc/passwd", "-"]).stdin(fs::read("/etc/passwd").unwrap()).done().is(0, "", "");
}

#[test]
fn tmp_is_private_empty_and_open_to_all() {
    let outside = tempfile::Builder::new().prefix("sandbox-run-test-").tempdir_in("/tmp").unwrap();
    let _socket = UnixListener::bind(outside.path().join("socket")).unwrap();
    fs::write(outside.path().join("file"), "host").unwrap();
    let world = World::new();
    world
        .sh(
            NONE,
            &format!(
                "ls -A /tmp; stat -c %a /tmp /dev/shm; echo mine >/tmp/x; cat /tmp/x; ls {}",
                outside.path().display()
            ),
        )
        .done()
        .code(2)
        .stdout("1777\n1777\nmine\n");
    assert_eq!(fs::read(outside.path().join("file")).unwrap(), b"host");
    // Names of one place.
    world.sh(NONE, "echo a >/tmp/a; echo b >/var/tmp/b; cat /tmp/a /var/tmp/b; stat -c %a /var/tmp/").done().is(
        0,
        "a\nb\n1777\n",
        "",
    );
}

#[test]
fn private_places_are_bounded() {
    let world = World::new();
    for place in ["/tmp", "/dev/shm", &world.text("home")] {
        let file = format!("{place}/x");
        let script = format!("dd if=/dev/zero of={file} bs=64k count=64 status=none; stat -c %s {file}");
        untouched(&world, world.sh(["--tmp-size", "1M"], &script))
            .code(0)
            .stdout("1048576\n")
            .stderr_has("No space left on device");
        untouched(&world, world.sh(["--tmp-size", "8M"], &script)).is(0, "4194304\n", "");
    }
}

#[test]
fn the_rest_is_read_only() {
    let world = World::new();
    for place in ["/", "/dev", "/etc", "/usr", "/var", "/proc", &world.text("w")] {
        let file = format!("{}/sandbox-run-test", place.trim_end_matches('/'));
        let done = untouched(&world, world.run(["touch", &file])).code(1).stdout("");
        assert!(
            ["Read-only file system", "No such file or directory", "Permission denied"]
                .iter()
                .any(|reason| done.stderr.contains(reason)),
            "{place}: {}",
            done.stderr
        );
        assert!(!Path::new(&file).exists(), "{file}");
    }
    world.run(["touch", "/tmp/sandbox-run-test"]).done().is(0, "", "");
}

#[test]
fn devices_work_and_are_few() {
    let world = World::new();
    world
        .sh(NONE, "echo x >/dev/null && head -c4 /dev/urandom | wc -c && head -c2 /dev/zero | od -An -tx1 && echo x >/dev/stdout")
        .done()
        .is(0, "4\n 00 00\nx\n", "");
    world.sh(NONE, "head -c1 /dev/zero >/dev/full").done().code(1).stderr_has("No space left on device");
    world.run(["bash", "-c", "cat <(echo a)"]).done().is(0, "a\n", "");
    let python = "import os, multiprocessing as m; os.openpty(); m.Lock(); q = m.Queue(); q.put(1); print(q.get())";
    world.run(["python3", "-c", python]).done().is(0, "1\n", "");
    world.sh(NONE, "ls -A /dev | grep -vx -e core | tr '\\n' ' '").done().is(
        0,
        "fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero ",
        "",
    );
    let bind = "import os, socket; socket.socket(socket.AF_UNIX).bind(os.environ['TMPDIR'] + '/s'); print('bound')";
    world.run(["python3", "-c", bind]).done().is(0, "bound\n", "");
}

#[test]
fn a_device_comes_by_a_write_grant_alone() {
    let world = World::new();
    let own = ["full", "null", "random", "tty", "urandom", "zero"];
    let is_device = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_char_device());
    let mut names =
        fs::read_dir("/dev").unwrap().flatten().filter(is_device).filter_map(|it| it.file_name().into_string().ok());
    let Some(name) = names.find(|name| !own.contains(&name.as_str()) && name != "ptmx") else {
        return skip("device", "nothing in /dev but what every view has");
    };
    let node = &format!("/dev/{name}");
    world.run(["ls", node]).done().code(2);
    world.run(["-w", node, "ls", node]).done().is(0, &format!("{node}\n"), "");
    let list = "ls -A /dev | grep -vx -e core";
    let before = world.sh(NONE, list).done().code(0).out();
    let with = world.sh(["-w", node], list).done().code(0).out();
    assert_eq!(with.lines().filter(|line| *line != name).collect::<Vec<_>>(), before.lines().collect::<Vec<_>>());
    // A read-only mount does not stop writing to a device, so a read grant would promise too much.
    world.run(["-r", node, "true"]).done().refused(125, &[node, "--read"]).stderr_has("--write");
    for tree in ["/dev", "/proc", "/proc/self"] {
        world.run(["-w", tree, "true"]).done().refused(125, &[tree, "--write"]);
        world.run(["-r", tree, "true"]).done().refused(125, &[tree, "--read"]);
        world.run(["--mask", tree, "true"]).done().refused(125, &[tree, "--mask"]);
    }
}

#[test]
fn nodes_cannot_be_made_or_opened() {
    let world = World::new();
    let script =
        "mknod x c 1 3; mknod y b 8 0; mkfifo p && test -p p && echo fifo; cat /dev/mem; cat /dev/kmsg; cat /dev/sda";
    let done = world.sh(["-w", "."], script).done().code(1).stdout("fifo\n");
    assert_eq!(done.stderr.matches("Operation not permitted").count(), 2, "{}", done.stderr);
    assert_eq!(done.stderr.matches("No such file or directory").count(), 3, "{}", done.stderr);
    assert!(world.has("w/p") && !world.has("w/x") && !world.has("w/y"));
    if !is_root() {
        return eprintln!("only root can make a node outside");
    }
    for words in [["zero", "c", "1", "5"], ["disk", "b", "7", "0"]] {
        world.call("mknod", words).done().is(0, "", "");
    }
    world.call("sh", ["-c", "head -c1 zero | wc -c"]).done().is(0, "1\n", "");
    for name in ["zero", "disk"] {
        for grant in ["-w", "-r"] {
            world.run([grant, ".", "head", "-c1", name]).done().code(1).stdout("").stderr_has("Permission denied");
        }
    }
}

#[test]
fn the_working_directory_is_shown_read_only() {
    let world = with_secrets();
    world.run(["pwd"]).done().is(0, &format!("{}\n", world.text("w")), "");
    untouched(&world, world.run(["cat", "secret"]).cwd(world.path("o"))).is(0, "s3cret", "");
    // The root adds nothing, /tmp stays private.
    for (cwd, file) in [("/", "etc/shadow"), ("/", &world.text("home/notes")[1..]), ("/tmp", "sandbox-run-test")] {
        world.run(["cat", file]).cwd(cwd).done().code(1).stdout("").stderr_has("No such file or directory");
        world.run(["pwd"]).cwd(cwd).done().is(0, &format!("{cwd}\n"), "");
    }
    untouched(&world, world.run(["-C", &world.text("o"), "sh", "-c", "pwd; cat secret; touch x"]))
        .code(1)
        .stdout(&format!("{}\ns3cret", world.text("o")))
        .stderr_has("Read-only file system");
    // A link in the name is gone, as getcwd(3) says.
    world.link("link", world.path("o"));
    world.run(["-C", "../link", "sh", "-c", "pwd; cat secret"]).done().is(
        0,
        &format!("{}\ns3cret", world.text("o")),
        "",
    );
}

#[test]
fn home_as_working_directory_shows_itself_but_no_secrets() {
    let world = with_secrets();
    world.write("home/.local/share/keyrings/k", "s3cret");
    let script = "cat notes .config/app; cat .ssh/id_rsa .aws/credentials .netrc .config/gh/hosts.yml; touch x .ssh/x";
    let call = world.sh(NONE, script).cwd(world.path("home"));
    untouched(&world, call).code(1).stdout("notes\nplain\n").stderr_lacks("s3cret");
    if has_landlock() {
        let call = world.sh(["-b", "landlock"], script).cwd(world.path("home"));
        untouched(&world, call).code(1).stdout("notes\nplain\n").stderr_lacks("s3cret");
    }
    // Writable HOME: secrets can be neither read, written nor renamed away.
    let script = "cat .ssh/id_rsa .netrc; mv .ssh s; mv .config c; rm -r .aws; echo x >.netrc; mkdir -p .config/gh/x; touch made";
    let done = world.sh(["-w", "."], script).cwd(world.path("home")).done().code(0).stdout("");
    assert_eq!(done.stderr.matches("Device or resource busy").count(), 3, "{}", done.stderr);
    assert_eq!(done.stderr.matches("Read-only file system").count(), 2, "{}", done.stderr);
    assert!(world.has("home/made"));
    for name in [".ssh/id_rsa", ".aws/credentials", ".netrc", ".config/gh/hosts.yml"] {
        assert_eq!(world.read(&format!("home/{name}")), "s3cret");
    }
    // The place itself, named, is shown; as a working directory alone it is refused.
    world.run(["-r", "~/.ssh", "cat", &world.text("home/.ssh/id_rsa")]).done().is(0, "s3cret", "");
    world.run(["-r", "~", "-r", "~/.ssh/id_rsa", "cat", &world.text("home/.ssh/id_rsa")]).done().is(0, "s3cret", "");
    world.run(["pwd"]).cwd(world.path("home/.ssh")).done().refused(125, &[".ssh", "private keys"]);
    world.run(["-r", ".", "cat", "id_rsa"]).cwd(world.path("home/.ssh")).done().is(0, "s3cret", "");
}

#[test]
fn a_working_directory_that_cannot_be_had_is_refused() {
    let world = World::new();
    let sr = program();
    for backend in usable(["bwrap", "landlock"]) {
        let call = |script: &str| world.call("sh", ["-c", script, sr.to_str().unwrap(), backend]);
        let run = |words: &[&str]| world.run([&["-b", backend], words].concat());
        call("mkdir gone && cd gone && rmdir ../gone && exec \"$0\" -b $1 pwd")
            .done()
            .refused(125, &["working directory"]);
        let hidden = &["--mask", ".", "touch", "made"][..];
        untouched(&world, run(hidden)).refused(125, &[&world.text("w"), "mask"]);
        let more = if backend == "bwrap" { &["-w", ".."][..] } else { &["-r", ".."] };
        untouched(&world, run(&[more, hidden].concat())).refused(125, &[&world.text("w"), "mask"]);
        run(&["-C", "/missing", "pwd"]).done().refused(125, &["/missing", "no such file"]);
        run(&["-C", &world.text("o/secret"), "pwd"]).done().refused(125, &["o/secret", "not a directory"]);
        if !world.has("w/loop") {
            world.link("w/loop", "loop");
        }
        run(&["-C", "loop", "pwd"]).done().refused(125, &["loop", "too many"]);
        run(&["-C", &world.text("o"), "pwd"]).done().is(0, &format!("{}\n", world.text("o")), "");
        if is_root() {
            eprintln!("root may enter any directory");
            continue;
        }
        call("mkdir shut && cd shut && chmod 0 ../shut && exec \"$0\" -b $1 pwd")
            .done()
            .refused(125, &["shut", "permission denied"]);
        fs::set_permissions(world.path("w/shut"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::remove_dir(world.path("w/shut")).unwrap();
    }
}

#[test]
fn every_kind_of_home() {
    let world = World::new();
    world.write("w/inside/k", "host\n");
    world.write("w/file", "host\n");
    world.write("o/k", "host\n");
    world.link("w/link", world.path("o"));
    world.link("w/dangling", "/oldroot/nowhere");
    let script = "ls -A \"$HOME\"; touch \"$HOME/made\" && echo private";
    let inside = |name: &str| world.text(&format!("w/{name}"));
    let private = [
        world.text("home"),
        format!("{}/", world.text("home")),
        world.text("missing"),
        world.text("missing/below"),
        format!("{}/../home", world.text("w")),
        "/nonexistent".into(),
        "/tmp/home".into(),
        "/dev/shm/home".into(),
        "/run/user/1/home".into(),
        inside("inside"),
        inside("link"),
        // The parent of the working directory, and of everything.
        world.text(""),
    ];
    for home in &private {
        let done = untouched(&world, world.sh(NONE, script).env("HOME", home)).code(0).stdout_has("private\n");
        assert!(!done.out().contains('k'), "{home}: {}", done.out());
    }
    // Shown by the working directory, or no place for a directory: nothing private, nothing made, and it starts.
    let plain = [
        world.text("w"),
        inside("missing"),
        inside("dangling"),
        inside("dangling/below"),
        inside("file"),
        inside("file/below"),
        "/usr/missing".into(),
        "/bin/missing".into(),
        "/proc/missing".into(),
        "/dev/null".into(),
        "/".into(),
    ];
    for home in &plain {
        untouched(&world, world.sh(NONE, script).env("HOME", home)).code(1).stdout_lacks("private\n");
    }
    // Without HOME the user database knows; nothing stops the start.
    untouched(&world, world.run(["true"]).env_remove("HOME")).is(0, "", "");
    untouched(&world, world.run(["true"]).env("HOME", "")).is(0, "", "");
    untouched(&world, world.run(["true"]).env("HOME", "relative")).is(0, "", "");
}

#[test]
fn home_cannot_reach_the_host_by_dots_or_links() {
    let world = World::new();
    let top = world.text("");
    let top = top.trim_end_matches('/');
    world.link("w/out", format!("/oldroot{top}/o"));
    for home in [
        format!("/nonexistent/../oldroot{top}/o/made"),
        format!("/nonexistent/../../oldroot{top}/o/made"),
        format!("{top}/missing/../../../../oldroot{top}/o/made"),
        format!("{top}/w/out"),
        format!("{top}/w/out/made"),
    ] {
        for options in [vec![], vec!["-w", "."], vec!["-C", "/"], vec!["-q", "-r", "/"]] {
            untouched(&world, world.sh(options, "true").env("HOME", &home)).is(0, "", "");
        }
    }
}

#[test]
fn every_kind_of_working_directory() {
    let world = World::new();
    let fresh = |parent: &str| tempfile::Builder::new().prefix("sandbox-run-test-").tempdir_in(parent).unwrap();
    for dir in [fresh("/tmp"), fresh("/dev/shm"), fresh("/var/tmp")] {
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(dir.path().join("file"), "host\n").unwrap();
        world.sh(NONE, "cat file; touch made").cwd(dir.path()).done().code(1).stdout("host\n").stderr_has("Read-only");
        world.sh(["-r", "."], "cat file; echo x >file").cwd(dir.path()).done().code(2).stdout("host\n");
        world.sh(["-w", "."], "cat file; echo new >file").cwd(dir.path()).done().is(0, "host\n", "");
        assert_eq!(fs::read(dir.path().join("file")).unwrap(), b"new\n");
        assert!(!dir.path().join("made").exists());
    }
    // The sandbox has its own there, whatever lies below on the host.
    for dir in ["/", "/tmp", "/var/tmp", "/dev/shm", "/dev", "/proc", "/etc"] {
        world.run(["pwd"]).cwd(dir).done().is(0, &format!("{dir}\n"), "");
    }
    // An ancestor of HOME shows its other entries.
    untouched(&world, world.sh(NONE, "cat o/secret; ls -A home; touch home/x").cwd(world.path(""))).is(0, "s3cret", "");
    if !is_root() {
        return eprintln!("only root can make a directory below /run");
    }
    // Sockets of the host lie there: not by chance, only by name.
    let dir = fresh("/run");
    let path = dir.path().to_str().unwrap();
    world.run(["pwd"]).cwd(dir.path()).done().refused(125, &[path, "/run", "control sockets"]).stderr_has("--read '");
    world.run(["-r", ".", "pwd"]).cwd(dir.path()).done().is(0, &format!("{path}\n"), "");
}

#[test]
fn ids_modes_and_umask_are_the_callers() {
    for backend in usable(["bwrap", "landlock"]) {
        let world = World::new();
        let script = "umask 027; exec \"$0\" -b $1 -w . -- sh -c \
            'touch f; mkdir d; stat -c \"%a %u %g\" f d; id -u; id -g; umask'";
        let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
        world.call("sh", ["-c", script, program().to_str().unwrap(), backend]).done().is(
            0,
            &format!("640 {uid} {gid}\n750 {uid} {gid}\n{uid}\n{gid}\n0027\n"),
            "",
        );
        let stat = world.call("stat", ["-c", "%a %u %g", "f", "d"]).done();
        stat.is(0, &format!("640 {uid} {gid}\n750 {uid} {gid}\n"), "");
        let outside = world.call("whoami", NONE).done();
        world.run(["-b", backend, "whoami"]).done().is(0, &outside.out(), "");
        if !is_root() {
            eprintln!("only root can become a user without an entry");
            continue;
        }
        // A user that no database knows.
        crate::harness::alone(|| fs::copy(program(), world.path("sandbox-run"))).unwrap();
        let ids = ["--reuid=54321", "--regid=54322", "--clear-groups"];
        let program = world.text("sandbox-run");
        let words = [&ids[..], &[&program, "-b", backend, "sh", "-c", "id -u; id -g"]].concat();
        world.call("setpriv", &words).done().is(0, "54321\n54322\n", "");
        world.call("setpriv", &words).env_remove("HOME").done().is(0, "54321\n54322\n", "");
    }
}

/// What the other one may do would come along: under rules of Landlock it could be taken up again.
#[test]
fn two_users_at_once_are_refused() {
    if !is_root() {
        return eprintln!("only root can be another user at the same time: not tried");
    }
    let world = World::new();
    crate::harness::alone(|| fs::copy(program(), world.path("sandbox-run"))).unwrap();
    let program = world.text("sandbox-run");
    for backend in crate::harness::backends() {
        for [ids, code] in [["--ruid=0", "0"], ["--euid=54321", "125"], ["--egid=54321", "125"]] {
            let words =
                [&[ids, "--clear-groups"], &[program.as_str()][..], &backend, &["sh", "-c", "echo ran"]].concat();
            let done = world.call("setpriv", &words).done();
            match code {
                "0" => drop(done.code(0).stdout("ran\n")),
                _ => drop(done.refused(125, &["as two users at once"])),
            }
        }
    }
}
