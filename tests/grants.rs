//! Read and write grants: what they show, what they refuse, which one decides, and what they leave on the host.

use std::os::unix::fs::PermissionsExt;
use std::{fs, io};

use crate::harness::{Call, Done, World, has_landlock, is_root, usable};

/// Runs the call and finds the world as it was before.
#[track_caller]
fn untouched(world: &World, call: Call) -> Done {
    let before = world.snapshot();
    let done = call.done();
    assert_eq!(world.snapshot(), before, "the host's files changed");
    done
}

#[test]
fn what_cannot_be_granted_is_refused_by_name() {
    let world = World::new();
    world.link("w/dangling", "nowhere");
    world.link("w/out", "/oldroot/etc");
    world.link("w/loop", "loop");
    world.write("w/file", "");
    let broken = [
        ("loop", "too many"),
        ("file/below", "not a directory"),
        ("missing/../file", "'..' below a directory that does not"),
    ];
    let missing = ["missing", "dangling", "out", "out/below", "missing/below"];
    let options = [("-r", false), ("--read-try", true), ("-w", false), ("--write-try", true)];
    let backends = usable(["bwrap", "landlock"]);
    for (backend, (option, skips)) in backends.flat_map(|backend| options.map(|option| (backend, option))) {
        for path in missing {
            let call = world.run(["-b", backend, option, path, "true"]);
            if skips {
                let done = untouched(&world, call).is(0, "", "");
                drop(done);
                world
                    .run(["-v", "-b", backend, option, path, "true"])
                    .done()
                    .code(0)
                    .stderr_has(&format!("{path}' ({option}) does not exist"));
            } else {
                untouched(&world, call).refused(125, &[path, "no such file"]).stderr_has("-try");
            }
        }
        for (path, reason) in broken {
            untouched(&world, world.run(["-b", backend, option, path, "true"]))
                .refused(125, &[path, reason, option.trim_start_matches('-')]);
        }
        world.run(["-b", backend, option, "file", "true"]).done().is(0, "", "");
    }
    if is_root() {
        return eprintln!("root may search any directory");
    }
    let shut = world.dir("w/shut");
    let mode = |bits| fs::set_permissions(&shut, fs::Permissions::from_mode(bits)).unwrap();
    for option in ["-r", "--read-try", "-w", "--write-try"] {
        mode(0o000);
        world.run([option, "shut/below", "true"]).done().refused(125, &["shut/below", "permission denied"]);
        mode(0o700);
        assert!(!world.has("w/shut/below"));
    }
}

#[test]
fn a_missing_directory_is_made_only_when_asked() {
    let world = World::new();
    let touch = ["--", "touch", "out/a/f"];
    let with = |options: &[&'static str]| world.run(options.iter().copied().chain(touch));
    untouched(&world, with(&["-w", "out/a"])).refused(125, &["out/a", "no such file"]).stderr_has("--create-missing");
    untouched(&world, with(&["--write-try", "out/a"])).code(1).stderr_has("No such file or directory");
    untouched(&world, with(&["--write-try", "out/a", "--create-missing"]))
        .code(1)
        .stderr_has("No such file or directory");
    with(&["-w", "out/a", "--create-missing"]).done().is(0, "", "");
    assert!(world.has("w/out/a/f"));
    with(&["-w", "out/a"]).done().is(0, "", "");
    // Reading asks for nothing new.
    untouched(&world, world.run(["--create-missing", "-r", "none", "true"])).refused(125, &["none"]);
    // Made through a link that leads somewhere; never through one that does not, nor past `..` of what is missing.
    world.link("w/l", world.path("o"));
    world.run(["--create-missing", "-w", "l/new/n", "touch", "l/new/n/f"]).done().is(0, "", "");
    assert!(world.has("o/new/n/f"));
    world.link("w/dangling", "nowhere");
    world.link("w/old", format!("/oldroot{}", world.text("o")));
    for path in ["dangling", "dangling/x", "old", "old/x/y", "none/../../o/x", "old/../../o/x"] {
        untouched(&world, world.run(["--create-missing", "-w", path, "true"])).refused(125, &[path, "--write"]);
    }
}

#[test]
fn a_single_file_can_be_written_but_not_replaced() {
    let world = World::new();
    let (file, sibling) = (world.text("o/f"), world.text("o/g"));
    world.write("o/f", "n\n");
    world.sh(["-w", &file], &format!("echo new >{file}; cat {file}")).done().is(0, "new\n", "");
    assert_eq!(world.read("o/f"), "new\n");
    let beside = ["-r", &world.text("o"), "-w", &file];
    untouched(&world, world.run(beside.into_iter().chain(["touch", &sibling])))
        .code(1)
        .stderr_has("Read-only file system");
    untouched(&world, world.run(["-w", &file, "touch", &sibling])).stdout("");
    let sed = ["sed", "-i", "s/n/m/", &file];
    let one = untouched(&world, world.run(["-w", &file].into_iter().chain(sed)));
    assert_ne!(one.code, Some(0));
    let rename = "import os, sys; open('/tmp/t', 'w'); os.rename(sys.argv[1], sys.argv[1] + '2')";
    untouched(&world, world.run(["-w", &file, "python3", "-c", rename, &file])).code(1).stderr_has("resource busy");
    let whole = world.text("o");
    world.run(["-w", &whole].into_iter().chain(sed)).done().is(0, "", "");
    world.run(["-w", &whole, "touch", &sibling]).done().is(0, "", "");
    assert_eq!(world.read("o/f"), "mew\n");
    assert!(world.has("o/g"));
}

#[test]
fn the_most_specific_grant_decides_in_any_order() {
    let world = World::new();
    for name in ["w/lib/x", "w/sub/ro/x", "w/sub/x", "o/a/x"] {
        world.write(name, "");
    }
    let (o, a) = (world.text("o"), world.text("o/a"));
    let try_all = |dirs: &[&str]| {
        let each = dirs.iter().map(|dir| format!("touch {dir}/new 2>/dev/null && echo {dir}; rm -f {dir}/new\n"));
        each.collect::<Vec<_>>().concat()
    };
    for options in [["-r", &o, "-w", &a], ["-w", &a, "-r", &o]] {
        world.sh(options, &(try_all(&[&o, &a]) + "exit 0")).done().is(0, &format!("{a}\n"), "");
    }
    for options in [["-w", ".", "-r", "lib"], ["-r", "./lib", "-w", "."], ["-r", "lib/../lib/", "-w", "../w"]] {
        world.sh(options, &(try_all(&[".", "lib", "sub"]) + "exit 0")).done().is(0, ".\nsub\n", "");
    }
    for options in [
        ["-w", ".", "-w", "sub", "-r", "sub/ro"],
        ["-r", "sub/ro", "-w", "sub", "-w", "."],
        ["-w", "sub", "-r", "sub/ro", "-w", "."],
    ] {
        world.sh(options, &(try_all(&[".", "sub", "sub/ro", "lib"]) + "exit 0")).done().is(0, ".\nsub\nlib\n", "");
    }
    // The same path twice: writing wins over reading.
    for options in [["-r", ".", "-w", "."], ["-w", ".", "-r", "."]] {
        world.sh(options, &(try_all(&["."]) + "exit 0")).done().is(0, ".\n", "");
    }
}

#[test]
fn links_and_what_they_lead_to_are_shown() {
    let world = World::new();
    let top = world.text("");
    let here = world.text("w");
    let absolute = world.text("w/abs");
    world.dir("far/real/sub");
    world.write("far/real/sub/secret", "deep\n");
    world.link("w/abs", world.path("o"));
    world.link("w/rel", "../o");
    world.link("w/file", "../o/secret");
    world.link("far/mid", "real");
    world.link("w/parent", "../far/mid");
    world.link("w/chain", "rel");
    for (link, file, text) in [
        ("abs", "abs/secret", "s3cret"),
        ("rel", "rel/secret", "s3cret"),
        (absolute.as_str(), "abs/secret", "s3cret"),
        ("file", "file", "s3cret"),
        ("chain", "chain/secret", "s3cret"),
        ("parent/sub", "parent/sub/secret", "deep\n"),
    ] {
        untouched(&world, world.run(["cat", file])).code(1).stdout("").stderr_has("No such file");
        untouched(&world, world.run(["-r", link, "cat", file])).is(0, text, "");
        if has_landlock() {
            let run = |words: &[&str]| untouched(&world, world.run([&["-b", "landlock"], words].concat()));
            run(&["cat", file]).code(1).stdout("").stderr_has("Permission denied");
            run(&["-r", link, "cat", file]).is(0, text, "");
        }
        // Also from elsewhere: then the links are made anew.
        let full = format!("{here}/{file}");
        let link = if link.starts_with('/') { link.to_owned() } else { format!("{here}/{link}") };
        untouched(&world, world.run(["-C", "/", "-r", &link, "cat", &full])).is(0, text, "");
        untouched(&world, world.run(["-C", "/", "-r", &link, "touch", &full])).code(1).stderr_has("Read-only");
    }
    world.run(["-w", "chain", "touch", "chain/made"]).done().is(0, "", "");
    assert!(world.has("o/made"));
    // The link shows its end, nothing beside it.
    world.write("far/real/beside", "");
    world
        .run(["-C", "/", "-r", &format!("{here}/parent/sub"), "ls", "-A", &format!("{top}far/real")])
        .done()
        .is(0, "sub\n", "");
}

#[test]
fn a_link_out_of_a_grant_leads_nowhere() {
    let world = World::new();
    let o = world.text("o");
    world.write("o/data/s", "data\n");
    world.write("o/database/s", "base\n");
    world.link("o/data/out", "../database");
    world.link("w/l", &o);
    let script = format!(
        "ln -s {o} made; cat l/secret made/secret; echo x >l/f; echo x >made/f; ln {o}/secret h; ln /etc/passwd h2; \
         ln l/secret h3; cat {o}/database/s {o}/data/out/s; rm made; cat {o}/data/s"
    );
    let before = world.snapshot();
    let done = world.sh(["-w", ".", "-r", &world.text("o/data")], &script).done().code(0).stdout("data\n");
    // The parent of a grant is a directory of the private /var/tmp here: what is written there stays there.
    assert_eq!(done.stderr.lines().count(), 7, "{}", done.stderr);
    let changed = |name: &str| world.snapshot()[&world.path(name)] != before[&world.path(name)];
    assert!(!changed("o") && !changed("o/secret") && !changed("o/data") && !changed("o/database"));
    assert!(!world.has("w/h") && !world.has("w/h2") && !world.has("w/h3"));
    world.run(["-w", ".", "-r", &o, "cat", "l/secret"]).done().is(0, "s3cret", "");
}

#[test]
fn a_planted_link_to_the_old_root_redirects_nothing() {
    let world = World::new();
    let o = world.text("o");
    world.dir("w/d");
    let links = ["w/out", "w/d/out"];
    for link in links {
        world.link(link, format!("/oldroot{o}"));
    }
    world.link("w/up", format!("../../../../../../../oldroot{o}"));
    world.link("w/new", "/newroot/etc");
    for place in ["out", "d/out", "up", "new", "out/x", "up/secret", "new/x", "/oldroot", "/newroot/x"] {
        for option in ["--mask", "--protect", "--deny-socket", "--read-try", "--write-try"] {
            for grant in [vec![], vec!["-r", "."], vec!["-w", "."]] {
                let words = grant.iter().copied().chain([option, place, "true"]);
                untouched(&world, world.run(words)).is(0, "", "");
            }
        }
        for option in ["-r", "-w", "-C", "--allow-socket"] {
            untouched(&world, world.run([option, place, "true"])).refused(125, &[place]);
        }
    }
    for option in ["--mask", "--protect", "--deny-socket", "--read-try", "--write-try", "-r", "-w", "-C"] {
        untouched(&world, world.run([option, "d/out/../x", "true"])).refused(125, &["d/out/../x"]);
    }
    for option in [vec!["-w", "."], vec!["-q", "-r", "/"]] {
        let script = format!("cat out/secret up/secret d/out/secret /oldroot{o}/secret");
        let call = world.sh(option, &script);
        untouched(&world, call).code(1).stdout("").stderr_lacks("s3cret");
    }
    // Links of the host's `/proc` are others inside.
    for (way, end) in
        [("/proc/self/root/etc", "'/etc'"), ("/proc/thread-self/root/usr", "'/usr'"), ("/dev/fd/0", "/dev/null")]
    {
        let done = untouched(&world, world.run(["-r", way, "true"]));
        done.refused(125, &[way, "leads through '/proc/"]).stderr_has(end);
    }
}

#[test]
fn parents_that_cannot_be_searched() {
    let world = World::new();
    let file = world.write("o/p/q/f", "deep\n");
    world.write("o/p/beside", "s3cret");
    let (q, file) = (world.text("o/p/q"), file.to_str().unwrap().to_owned());
    let control = |world: &World| {
        world.run(["-r", &q, "cat", &file]).done().is(0, "deep\n", "");
        world.run(["-r", &q, "ls", "-A", &world.text("o/p")]).done().is(0, "q\n", "");
    };
    let mode = |mode| fs::set_permissions(world.path("o/p"), fs::Permissions::from_mode(mode)).unwrap();
    control(&world);
    for bits in if is_root() { [0o700, 0o711, 0o000] } else { [0o100, 0o500, 0o700] } {
        mode(bits);
        control(&world);
    }
    if !is_root() {
        mode(0o600);
        world.run(["-r", &q, "true"]).done().refused(125, &["o/p", "permission denied"]);
        mode(0o755);
    }
}

#[test]
fn reading_the_whole_host_shows_no_secrets() {
    let world = World::new();
    for name in [".ssh/id_rsa", ".aws/credentials", ".netrc"] {
        world.write(&format!("home/{name}"), "s3cret key");
    }
    world.write("home/notes", "notes\n");
    let (w, o) = (world.text("w"), world.text("o"));
    let read = format!(
        "cat {o}/secret ~/notes; cat ~/.ssh/id_rsa ~/.aws/credentials ~/.netrc; ls -A /run ~/.ssh; \
         echo x >/dev/null && test -r /proc/self/stat && echo x >/tmp/t && ls /tmp"
    );
    for options in [vec!["-q", "--read", "/"], vec!["-q", "-w", "/"], vec!["-q", "--read", "/", "-w", "."]] {
        let done = untouched(&world, world.sh(&options, &read)).code(0).stderr_lacks("key").stdout_lacks("key");
        assert!(done.out().starts_with("s3cretnotes\n") && done.out().ends_with("\nt\n"), "{}", done.out());
    }
    let write = format!("touch {o}/f {w}/f ~/f ~/.ssh/f; rm -f {o}/f {w}/f ~/f");
    let done = untouched_but_times(&world, world.sh(["-q", "--read", "/"], &write));
    assert_eq!(done.stderr.matches("Read-only file system").count(), 4, "{}", done.stderr);
    let done = untouched_but_times(&world, world.sh(["-q", "--read", "/", "-w", &o], &write));
    assert_eq!(done.stderr.matches("Read-only file system").count(), 3, "{}", done.stderr);
    let done = untouched_but_times(&world, world.sh(["-q", "-w", "/"], &write));
    assert_eq!(done.stderr.matches("Read-only file system").count(), 1, "{}", done.stderr);
    // What only root can read stays hidden from root as well.
    for file in ["/etc/shadow", "/etc/gshadow"].into_iter().filter(|file| fs::metadata(file).is_ok()) {
        world.run(["-q", "--read", "/", "wc", "-c", file]).done().is(0, &format!("0 {file}\n"), "");
        world.run(["wc", "-c", file]).cwd("/etc").done().is(0, &format!("0 {file}\n"), "");
    }
    if is_root() && fs::metadata("/etc/shadow").is_ok_and(|data| data.len() > 0) {
        let done = world.run(["-r", "/etc/shadow", "wc", "-c", "/etc/shadow"]).done().code(0);
        assert!(!done.out().starts_with("0 "), "{}", done.out());
    }
    for whole in ["--read", "-w"] {
        let call = world.sh(["-q", whole, "/", "--mask", &o], &format!("ls -A {o}; echo x >/dev/null; ls ~"));
        untouched(&world, call).is(0, "notes\n", "");
    }
}

/// The names of the world are as before the call.
#[track_caller]
fn untouched_but_times(world: &World, call: Call) -> Done {
    let before: Vec<_> = world.snapshot().into_keys().collect();
    let done = call.done();
    assert_eq!(world.snapshot().into_keys().collect::<Vec<_>>(), before);
    done
}

#[test]
fn ordinary_work_in_a_write_grant_is_as_outside() {
    let world = World::new();
    let script = r"
        set -e
        echo one >f; sed -i s/one/two/ f; cat f
        echo three >.f.tmp; mv .f.tmp f; cat f
        mkdir -p d/e; mv d d2; ln f d2/hard; ln -s f soft; cat d2/hard soft
        chmod 600 f; touch -d @0 f; stat -c '%a %Y' f
        printf 'all: x\nx:\n\techo made >x\n' >Makefile; make -s; cat x
        mv x ../o/x; cat ../o/x; mv ../o/x x
    ";
    let o = world.text("o");
    let inside = world.sh(["-w", ".", "-w", &o], script).done().code(0).stderr("");
    assert_eq!(world.read("w/x"), "made\n");
    let other = World::new();
    other.call("sh", ["-c", script]).done().is(0, &inside.out(), "");
    // The settings of the system are not in the view, so nothing is said about their owner.
    world.run(["ssh", "-T", "-G", "host.test"]).done().code(0).stdout_has("hostname host.test").stderr("");
    let save = "import os\nf = os.open('t', os.O_WRONLY | os.O_CREAT); os.write(f, b'saved'); os.fsync(f); os.rename('t', 'x')";
    world.run(["-w", ".", "python3", "-c", save]).done().is(0, "", "");
    assert_eq!(world.read("w/x"), "saved");
    // Between two grants a rename is one between file systems.
    let rename = "import os; os.rename('x', '../o/x')";
    world.run(["-w", ".", "-w", &o, "python3", "-c", rename]).done().code(1).stderr_has("cross-device");
}

#[test]
fn a_grant_below_the_shared_memory_directory_is_an_ordinary_one() {
    let world = World::new();
    let dir = tempfile::Builder::new().prefix("sandbox-run-test-").tempdir_in("/dev/shm").unwrap();
    let (top, file) = (dir.path().to_str().unwrap(), dir.path().join("f"));
    let name = file.to_str().unwrap();
    fs::write(&file, "host\n").unwrap();
    world.run(["cat", name]).done().code(1).stderr_has("No such file");
    for grant in [top, name] {
        let script = format!("cat {name}; echo new >{name}");
        world.sh(["-r", grant], &script).done().code(2).stdout("host\n").stderr_has("Read-only");
        assert_eq!(fs::read(&file).unwrap(), b"host\n");
    }
    world.sh(["-w", top, "--mask", name], &format!("cat {name}; echo x >{name}")).done().code(2).stdout("");
    assert_eq!(fs::read(&file).unwrap(), b"host\n");
    world.sh(["-w", top], &format!("echo new >{name}")).done().is(0, "", "");
    assert_eq!(fs::read(&file).unwrap(), b"new\n");
    let tool = dir.path().join("tool");
    fs::write(&tool, "#!/bin/sh\necho ran\n").unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    // A writer of an executable that was forked meanwhile makes the first try fail, outside as well.
    crate::harness::eventually(
        || !matches!(std::process::Command::new(&tool).output(), Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy),
    );
    world.run([tool.to_str().unwrap()]).done().is(0, "ran\n", "");
}

#[test]
fn files_with_any_name_can_be_granted() {
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::OsStrExt;
    let world = World::new();
    for name in [&b"a b"[..], b"new\nline", b"\xff\xfe", b"--bind", b"~", b"-r", b"'\"$(x)\\"] {
        let name = OsStr::from_bytes(name);
        let dir = world.path("o").join(name);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("f"), "text\n").unwrap();
        for option in ["-r", "-w"] {
            let mut words: Vec<OsString> = vec![option.into(), dir.clone().into()];
            words.extend(["cat".into(), dir.join("f").into_os_string()]);
            world.run(words).done().is(0, "text\n", "");
        }
        let words =
            [OsStr::new("-w"), world.path("o").as_os_str(), OsStr::new("--mask"), dir.as_os_str()].map(OsString::from);
        let words = words.into_iter().chain(["ls".into(), "-A".into(), dir.into_os_string()]);
        world.run(words).done().is(0, "", "");
    }
    for empty in [["-r", ""], ["-w", ""], ["--mask", ""], ["--protect", ""], ["-C", ""]] {
        world.run(empty.into_iter().chain(["true"])).done().refused(125, &["'' is not a path"]);
    }
}
