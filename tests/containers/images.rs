//! Images that want something else than we do: what they set and hold changes nothing about a run.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::{IMAGE, LOOK, Place};
use crate::harness::eventually;

const NAME: &str = "sandbox-run-test-hostile";

/// An image with `files` over those of the plain one; what begins with `->` is a link.
fn import(place: &Place, name: &str, files: &[(&str, &str)], changes: &[&str]) {
    let tree = place.world.path("o").join(name);
    place.call(&["cp", "-a", &format!("{}/podman/image", place.directory.display()), tree.to_str().unwrap()]).done();
    for (file, content) in files {
        let path = tree.join(file);
        let _gone = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        if let Some(to) = content.strip_prefix("-> ") {
            symlink(to, &path).unwrap();
        } else {
            place.world.script(&format!("o/{name}/{file}"), content);
        }
    }
    let changes: Vec<_> = changes.iter().map(|change| format!(" --change '{change}'")).collect();
    let changes = changes.concat();
    let script =
        format!("tar -C '{}' --owner 0 --group 0 -cf - . | podman import -q{changes} - {name}", tree.display());
    place.call(&["sh", "-c", &script]).done().code(0);
}

/// Whether the programs of the image need no library: Debian has such a busybox and another.
fn is_static(place: &Place) -> bool {
    let told = std::process::Command::new("ldd").arg(place.directory.join("podman/image/bin/busybox")).output();
    told.is_ok_and(|told| String::from_utf8_lossy(&[told.stdout, told.stderr].concat()).contains("not a dynamic"))
}

/// What was said, without what the loader says in programs of an image that has a list of its own. Where these are static, all of
/// it: then only ours could have read the list.
fn without_loader(place: &Place, stderr: &str) -> String {
    let of_image = |line: &&str| !is_static(place) && line.contains("from /etc/ld.so.preload cannot be preloaded");
    stderr.split_inclusive('\n').filter(|line| !of_image(line)).collect()
}

const EVIL: &str = "#!/bin/sh\necho evil\n";

#[test]
fn what_an_image_sets_is_not_obeyed() {
    for (user, place) in Place::both() {
        let files = [
            (".sandbox-run/sandbox-run", EVIL),
            (".sandbox-run/loader", EVIL),
            (".sandbox-run/lib/libc.so.6", EVIL),
            // Where an image could once say what becomes of ours.
            (".sandbox-run-podman/sandbox-run", EVIL),
            ("etc/ld.so.preload", "/evil.so\n"),
            ("data/file", "of the image\n"),
        ];
        let changes = [
            "ENTRYPOINT [\"/bin/sh\", \"-c\", \"echo entry\"]",
            "CMD [\"echo\", \"cmd\"]",
            "VOLUME /data /tmp",
            "USER 12345:12345",
            "WORKDIR /nowhere",
            "STOPSIGNAL KILL",
            "ENV LD_PRELOAD=/evil.so",
            "ENV LD_AUDIT=/evil.so",
            "ENV LD_LIBRARY_PATH=/.sandbox-run:/evil",
            "ENV GLIBC_TUNABLES=glibc.malloc.check=3",
            "ENV SANDBOX_RUN_STAGE=3 x",
            "ENV HOME=/evil",
        ];
        import(&place, "base", &files, &changes);
        // What only a build can set.
        let build = format!(
            "printf 'FROM base\\nHEALTHCHECK --interval=1s CMD touch /tmp/healthy\\n' | \
            podman build -q --format docker --isolation chroot -t {NAME} -f - ."
        );
        place.call(&["sh", "-c", &build]).done().code(0);
        let told = place.call(&["podman", "inspect", NAME]).done().code(0).out();
        for word in ["HEALTHCHECK", "LD_PRELOAD", "12345", "echo entry"] {
            assert!(told.contains(word), "control: {word}\n{told}");
        }
        let none = "0000000000000000";
        let look = ["Inh", "Prm", "Eff", "Bnd", "Amb"].map(|set| format!("Cap{set}:{none}\n")).concat();
        let expected = format!("{look}NoNewPrivs:1\nSeccomp:2\n{user}\n{user}\n");
        let done = place.run_image(NAME, &["--", "sh", "-c", LOOK]).done().code(0).stdout(&expected);
        assert_eq!(without_loader(&place, &done.stderr), "");
        let script = "pwd; echo $HOME; env | grep -E '^(LD_|GLIBC|SANDBOX_RUN_STAGE)'; cat /data/file; touch /data/x || ls -A /tmp; \
            sleep 1.5; ls -A /tmp; exit 7";
        let expected = format!("{}\n{}\nof the image\n", place.world.text("w"), place.world.text("home"));
        let done = place.run_image(NAME, &["--", "sh", "-c", script]).done().code(7).stdout(&expected);
        assert_eq!(without_loader(&place, &done.stderr), "touch: /data/x: Read-only file system\n");
        place.call(&["podman", "volume", "ls", "-q"]).done().is(0, "", "");
        // The way a run is ended is ours.
        let script = "trap 'exit 3' TERM; while :; do sleep 0.1; done";
        place.run_image(NAME, &["--timeout", "1", "--", "sh", "-c", script]).done().code(124);
        assert_eq!(place.left(), [""; 0]);
    }
}

/// Links of the image where ours is mounted lead into the image; where grants are mounted they change
/// nothing or are a reason to refuse.
#[test]
fn links_of_an_image_lead_into_the_image() {
    let Some(place) = Place::of(0) else { return };
    let world = &place.world;
    for name in ["w/secret/key", "w/file", "o/read/file"] {
        world.write(name, name);
    }
    let top = world.path("w");
    let top = top.parent().unwrap();
    let above = top.parent().and_then(Path::to_str).unwrap().trim_start_matches('/');
    let read = world.text("o/read");
    let script = format!(
        "cat secret/key; cat file {read}/file; echo new >made; echo x >{read}/file; echo x >secret/new; echo x >/x"
    );
    let ours = [("elsewhere/x", EVIL)];
    let tried = ["/elsewhere", "/proc/1/root", "/dev/fd"];
    for (number, to) in std::iter::once("").chain(tried).enumerate() {
        let link = format!("-> {to}");
        // None is the control.
        let links = [(above, link.as_str())];
        let files = [&ours[..], if to.is_empty() { &[] } else { &links }].concat();
        let name = format!("links{number}");
        import(&place, &name, &files, &[]);
        let options = ["-w", ".", "-r", &read, "--mask", "secret", "--", "sh", "-c", &script];
        let done = place.run_image(&name, &options).done();
        // Whether it runs then is the engine's affair, what is seen is not.
        if to.is_empty() || done.code == Some(1) {
            done.code(1).stdout("w/fileo/read/file").stderr_has("Read-only file system");
            assert_eq!(world.read("w/made"), "new\n", "{to}: where it runs the view is the planned one");
            std::fs::remove_file(world.path("w/made")).unwrap();
        } else {
            done.refused(125, &["cannot start the sandbox with backend 'podman'"]);
            assert!(!world.has("w/made"), "{to}: it ran");
        }
        for name in ["w/secret/key", "w/file", "o/read/file"] {
            assert_eq!(world.read(name), name, "{to}");
        }
        let new = world.has("w/secret/new") || ["/x", "/elsewhere"].iter().any(|path| Path::new(path).exists());
        assert!(!new, "{to}: something was made on the host");
        assert_eq!(place.left(), [""; 0]);
    }
}

/// Ours needs nothing of the image, not even a C library, and does not take one that is there.
#[test]
fn an_image_without_libraries_or_with_others_is_enough() {
    let Some(place) = Place::of(0) else { return };
    // The program of the image may be static; nothing else there needs a library.
    let fake = "not a library\n";
    let libraries = ["lib", "lib64", "usr/lib", "lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"];
    if !is_static(&place) {
        return eprintln!("not tried: busybox of this machine needs libraries, and so the image has them");
    }
    assert!(!place.directory.join("podman/image/lib").exists(), "control: the plain image has none");
    place.sh(&[], "echo ran; ls -d /lib* /usr/lib* 2>/dev/null").done().code(1).stdout("ran\n");
    let files: Vec<_> = libraries
        .iter()
        .flat_map(|dir| ["libc.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"].map(|name| format!("{dir}/{name}")))
        .collect();
    let files: Vec<_> = files.iter().map(|file| (file.as_str(), fake)).collect();
    import(&place, "libraries", &files, &["ENV LD_LIBRARY_PATH=/lib:/lib64"]);
    place.run_image("libraries", &["--", "cat", "/lib64/libc.so.6"]).done().is(0, fake, "");
}

/// An image knows no name of ours: nothing of it, and nothing of a grant that its links lead to, runs in the place of ours, before
/// or beside it.
#[test]
fn no_link_of_an_image_leads_ours_into_a_grant() {
    for (user, place) in Place::both() {
        let world = &place.world;
        let w = world.text("w");
        world.write("w/secret/key", "key");
        world.write("w/list", "/evil.so\n");
        for name in ["sandbox-run", "loader", "door/socket"] {
            world.script(&format!("w/evil/{name}"), &format!("#!/bin/sh\ncat {w}/secret/key >{w}/leaked; echo evil\n"));
        }
        world.call("chown", ["-R", &format!("{user}:{user}"), &w]).done().code(0);
        let evil = format!("-> {w}/evil");
        let list = format!("-> {w}/list");
        let mask = format!("{}/secret", w.trim_start_matches('/'));
        let links = [
            (".sandbox-run", evil.as_str()),
            (".sandbox-run-podman", &evil),
            (".sandbox-run/sandbox-run", &format!("{evil}/sandbox-run")),
            ("etc/ld.so.preload", &list),
        ];
        import(&place, "links-to-grants", &[&links[1..], &[("elsewhere/x", "")]].concat(), &[]);
        let script = "ls secret; cat list; exit 3";
        let options = ["-w", ".", "--mask", "secret", "--", "sh", "-c", script];
        import(&place, "whole-links", &[links[0], links[3]], &[]);
        for image in ["links-to-grants", "whole-links"] {
            let done = place.run_image(image, &options).done().code(3).stdout("/evil.so\n");
            assert_eq!(without_loader(&place, &done.stderr), "", "{image}");
        }
        // The list counts for programs of the image, and not for ours: each says what it cannot load.
        let loader =
            std::fs::read_dir("/usr/lib64").into_iter().chain(std::fs::read_dir("/usr/lib")).flatten().flatten();
        let loader = loader.map(|entry| entry.path()).find(|path| path.to_string_lossy().contains("/ld-linux"));
        let loader = loader.and_then(|path| path.canonicalize().ok()).expect("a loader of glibc");
        let own = ["-r", "/usr", "-w", ".", "--", loader.to_str().unwrap(), "/usr/bin/true"];
        let done = place.run_image("links-to-grants", &own).done().code(0);
        assert_eq!(done.stderr.matches("'/evil.so' from /etc/ld.so.preload").count(), 1, "{}", done.stderr);
        // With a mask that the engine carries out somewhere else nothing runs.
        import(&place, "moved", &[&links[1..], &[(&mask, "-> /elsewhere"), ("elsewhere/x", "")]].concat(), &[]);
        let done = place.run_image("moved", &options).done();
        assert_ne!(done.stdout, b"key\n");
        assert!(done.code == Some(125) || done.code == Some(3), "{:?} {}", done.code, done.stderr);
        assert!(!world.has("w/leaked"));
        assert_eq!(place.left(), [""; 0]);
    }
}

/// An engine follows the links of an image where it mounts, and makes what is missing there: an image is looked at before there is
/// anything of the host's.
#[test]
fn no_link_of_an_image_has_the_engine_make_anything_in_a_grant() {
    for (user, place) in Place::both() {
        let world = &place.world;
        let w = world.text("w");
        for name in ["w/there", "o/read"] {
            world.dir(name);
        }
        world.call("chown", ["-R", &format!("{user}:{user}"), &w, &world.text("o")]).done().code(0);
        let read = world.text("o/read");
        let inside = |path: &str| path.trim_start_matches('/').to_owned();
        // What the image has in the grant's place is covered by the grant, whose own directories are there or not.
        let to = |name: &str| format!("-> {w}/{name}");
        let private = inside(&world.text("home"));
        for (number, (at, to)) in [
            // Above another grant, which is mounted later than what the link leads to.
            (inside(&world.text("o")), to("made")),
            ("tmp".to_owned(), to("there/tmp")),
            // To a directory that is there, crun 1.8 follows this one on the host by itself.
            ("dev".to_owned(), to("there/dev")),
            ("etc/hosts".to_owned(), to("hosts")),
            ("run".to_owned(), to("there/../run")),
            // By two links, the first of which is in the image.
            ("var/tmp".to_owned(), "-> ../x/y".to_owned()),
            (private, to("home")),
            (inside(&read), to("read")),
        ]
        .into_iter()
        .enumerate()
        {
            let name = format!("leads{number}");
            let second = to.ends_with("x/y").then(|| ("x", format!("-> {w}")));
            let second: Vec<_> = second.iter().map(|(at, to)| (*at, to.as_str())).collect();
            import(&place, &name, &[&[(at.as_str(), to.as_str())], &second[..]].concat(), &[]);
            for options in [&["-w", "."][..], &["-r", ".", "-r", &read]] {
                let before = world.snapshot();
                let options = [options, &["-r", &read, "--", "sh", "-c", "echo ran"]].concat();
                place.run_image(&name, &options).done().refused(125, &["cannot"]);
                // What the engine keeps in HOME itself is not of the image.
                let mut after = world.snapshot();
                after.retain(|path, _| !path.starts_with(world.path("home")));
                assert!(after.iter().all(|(path, what)| before.get(path) == Some(what)), "{user}: {at} {to}");
            }
        }
        // The controls: the engine does so by itself, and links that lead nowhere near a grant are none to refuse.
        let mount = format!("type=bind,src={w},dst={w}");
        let words =
            ["podman", "run", "--rm", "--network", "none", "--mount", &mount, "--tmpfs", &read, "leads0", "true"];
        let _ended = place.call(&words).done();
        assert!(world.has("w/made/read"), "{user}: control");
        let usual = [("var/run", "-> ../run"), ("etc/resolv.conf", "-> ../run/systemd/resolve/stub-resolv.conf")];
        import(&place, "usual", &usual, &[]);
        place.run_image("usual", &["-w", ".", "--", "sh", "-c", "echo ran"]).done().is(0, "ran\n", "");
        assert_eq!(place.left(), [""; 0]);
    }
}

/// An engine passes the annotations of an image on, and what starts the container obeys some: it connects to sockets of the host.
#[test]
fn no_annotation_of_an_image_is_obeyed() {
    for (user, place) in Place::both() {
        let world = &place.world;
        let socket = world.text("o/socket");
        let server = format!(
            "import socket, sys\nlistener = socket.socket(socket.AF_UNIX)\nlistener.bind('{socket}')\n\
            listener.listen()\nwhile True:\n    listener.accept()\n    open('{socket}.asked', 'w').close()\n"
        );
        let server = place.call(&["python3", "-c", &server]).spawn();
        assert!(eventually(|| world.has("o/socket")), "the listener");
        let build = |name: &str, annotation: &str| {
            let script = format!(
                "printf 'FROM {IMAGE}\\nLABEL {name}=1\\n' | podman build -q --no-cache --format oci --isolation chroot \
                --annotation '{annotation}' -t {name} -f - ."
            );
            place.call(&["sh", "-c", &script]).done().code(0);
        };
        build("asks", &format!("run.oci.pidfd_receiver={socket}"));
        place.run_image("asks", &["true"]).done().refused(125, &["by the annotation 'run.oci.pidfd_receiver'"]);
        for (name, annotation) in [
            ("filters", "run.oci.seccomp_bpf_data=AAAA"),
            ("unknown", "org.example.whatever=1"),
            ("odd", "run.oci.\u{1b}[2J=1"),
        ] {
            build(name, annotation);
            let done = place.run_image(name, &["true"]).done().refused(125, &["by the annotation '"]);
            assert!(!done.stderr.contains('\u{1b}'), "{}", done.stderr);
        }
        assert!(!world.has("o/socket.asked"), "{user}: somebody has connected");
        // The control: whoever starts it without us.
        let _ended = place.call(&["podman", "run", "--rm", "--network", "none", "asks", "true"]).done();
        assert!(eventually(|| world.has("o/socket.asked")), "{user}: control");
        // And an image that is only described runs.
        build("described", "org.opencontainers.image.title=An image");
        place.run_image("described", &["--", "sh", "-c", "echo ran"]).done().is(0, "ran\n", "");
        server.signal(nix::sys::signal::Signal::SIGKILL);
        server.done();
        assert_eq!(place.left(), [""; 0]);
    }
}

/// What is private lies in memory, and nowhere in a grant.
#[test]
fn a_link_of_an_image_makes_no_private_directory_the_hosts() {
    for (user, place) in Place::both() {
        let world = &place.world;
        let evil = world.dir("w/evil");
        world.call("chown", ["-R", &format!("{user}:{user}"), &world.text("w")]).done().code(0);
        let evil = evil.to_str().unwrap();
        import(
            &place,
            "private",
            &[("tmp", &format!("-> {evil}")), (&format!("{}/x", evil.trim_start_matches('/')), "")],
            &[],
        );
        let done = place.run_image("private", &["-w", ".", "--", "sh", "-c", "echo TOKEN >/tmp/t"]).done();
        done.refused(125, &["cannot start the sandbox with backend 'podman'"]);
        assert!(!world.has("w/evil/t"));
        import(&place, "plain-tmp", &[("tmp/x", "")], &[]);
        place.run_image("plain-tmp", &["-w", ".", "--", "sh", "-c", "echo TOKEN >/tmp/t"]).done().is(0, "", "");
    }
}

#[test]
fn an_image_is_one_that_is_there() {
    let Some(place) = Place::of(0) else { return };
    let file = place.world.text("o/image.tar");
    place.call(&["podman", "save", "-q", "-o", &file, super::IMAGE]).done().code(0);
    let images = || place.call(&["podman", "images", "-aq"]).done().code(0).out();
    let before = images();
    place
        .run_image(&format!("docker-archive:{file}"), &["true"])
        .done()
        .refused(125, &["a place to fetch an image from"]);
    assert_eq!(images(), before);
}
