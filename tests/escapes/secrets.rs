//! Places of secrets, reached by what is shown without being named: scripts, interpreters, links that somebody left.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use sandbox_run::plan::base::{COMMITTED, ROOT_SECRETS, SECRETS};

use crate::harness::{World, is_root, program};

/// A file is executable, and so would be shown for a script that names it.
#[test]
fn no_script_and_no_link_shows_a_place_of_secrets() {
    let world = World::new();
    let text = "#!/bin/sh\necho 's3cret key'; cat \"$0\"\n";
    for place in ["home/.ssh/tok", "home/.config/gh/tok", "o/proj/.aws/tok", "o/proj/.env"] {
        let secret = world.script(place, text);
        let secret = secret.to_str().unwrap();
        let words = || ["exists on the host and is hidden", secret];
        for script in [format!("#!{secret}\n"), format!("#!{secret} -x\n"), format!("#!/usr/bin/env -S {secret} -x\n")]
        {
            world.script("w/run", &script);
            for options in [&[][..], &["-w", "."], &["-r", "."]] {
                let done = world.run([options, &["./run"]].concat()).done();
                done.refused(127, &words()).stderr_has(&format!("--read '{secret}'"));
            }
            // Without a sandbox, and with the place granted by its name.
            world.call("./run", [""; 0]).done().code(0).stdout_has("s3cret key");
            world.run(["-r", secret, "./run"]).done().code(0).stdout_has("s3cret key");
        }
        // Two scripts and a link on the way to it.
        world.script("w/second", "#!run\n");
        fs::write(world.path("w/run"), format!("#!{}\n", world.text("w/second"))).unwrap();
        fs::write(world.path("w/second"), format!("#!{secret}\n")).unwrap();
        world.run(["./run"]).done().refused(127, &words());
        let link = world.link("w/link", secret);
        world.run(["./link"]).done().refused(127, &words());
        world.run([secret]).done().refused(127, &words());
        fs::remove_file(&link).unwrap();
        for name in ["w/run", "w/second"] {
            fs::remove_file(world.path(name)).unwrap();
        }
    }
    // A program beside no secret is shown alone, as ever.
    world.script("o/tool", "#!/bin/sh\necho tool\n");
    world.script("w/run", &format!("#!{}\n", world.text("o/tool")));
    world.run(["./run"]).done().is(0, "tool\n", "");
}

/// What a command leaves in a write grant: the next run's grant of that name would lead to the keys.
#[test]
fn no_grant_is_led_to_a_place_of_secrets() {
    let world = World::new();
    let secret = world.write("home/.ssh/key", "s3cret key");
    world.write("o/proj/.config/gh/key", "s3cret key");
    world.write("home/real/key", "s3cret key");
    symlink("real", world.path("home/.gnupg")).unwrap();
    let sub = "home/.ssh/sub";
    world.write(&format!("{sub}/key"), "s3cret key");
    for to in ["../home/.ssh", "../home/.ssh/key", "../home/.ssh/sub/..", "../o/proj/.config/gh", "../home/.gnupg"] {
        let link = world.link("w/build", to);
        for option in ["-r", "-w", "--read-try", "--write-try"] {
            let done = world.sh([option, "build"], "cat build build/key 2>/dev/null").done();
            let end = fs::canonicalize(&link).unwrap();
            done.refused(125, &["'build'", "link", end.to_str().unwrap()]).stderr_has("hint: ");
        }
        // Two links, and one on the way.
        world.link("w/more", "build/.");
        for path in ["more", "./more/key"] {
            if fs::metadata(world.path("w").join(path)).is_ok() {
                world.run(["-r", path, "true"]).done().refused(125, &["link"]);
            }
        }
        fs::remove_file(world.path("w/more")).unwrap();
        fs::remove_file(link).unwrap();
    }
    let seen = |options: &[&str], path: &str| {
        let done = world.run([options, &["--", "cat", path]].concat()).done();
        done.is(0, "s3cret key", "");
    };
    // The place itself, typed; one that is a link itself; one below a link to HOME; a link to a place without secrets.
    let key = secret.to_str().unwrap();
    seen(&["-r", "~/.ssh"], key);
    seen(&["-r", key], key);
    seen(&["-r", "~/.gnupg"], &world.text("home/.gnupg/key"));
    seen(&["-r", "~/real"], &world.text("home/real/key"));
    world.link("w/home", "../home");
    seen(&["-r", "home/.ssh"], key);
    world.link("w/o", "../o");
    world.run(["-r", "o", "--", "cat", &world.text("o/secret")]).done().is(0, "s3cret", "");
}

/// A file for each place of the table, in HOME and in another tree, under grants that are wider.
#[test]
fn every_place_of_the_table_is_hidden() {
    let world = World::new();
    let places: Vec<String> =
        SECRETS.iter().map(|(place, _)| place.trim_start_matches(COMMITTED).replace('*', "x")).collect();
    for top in ["home", "o/other"] {
        for place in &places {
            // Some are files and some directories: whichever it is, it is hidden.
            if !places.iter().any(|other| other.starts_with(&format!("{place}/"))) {
                world.write(&format!("{top}/{place}"), "s3cret key\n");
            }
        }
        world.write(&format!("{top}/plain"), "plain\n");
    }
    let look = "cd \"$1\" && cat plain && find . -type f -exec grep -l s3cret {} +";
    let call =
        |options: &[&str], top: &str| world.run([options, &["--", "sh", "-c", look, "sh", &world.text(top)]].concat());
    let far = ["-q", "-r", "/", "--hidden-scan-max", "100000000"];
    let (home, other, root) = (world.text("home"), world.text("o/other"), "/");
    for (options, variable) in [(&["-r", &home, "-r", &other][..], home.as_str()), (&["-w", &other, "-w", &home], root)]
    {
        for top in ["home", "o/other"] {
            call(options, top).env("HOME", variable).done().stdout("plain\n");
        }
    }
    for variable in [&home, root] {
        for top in ["home", "o/other"] {
            call(&far, top).env("HOME", variable).done().stdout("plain\n");
        }
    }
    for top in ["home", "o/other"] {
        let outside = world.call("sh", ["-c", look, "sh", &world.text(top)]).done();
        assert!(outside.out().lines().count() > 90, "the control\n{}", outside.out());
    }
}

/// Secrets of the system that only root reads, and what tells of the host's processes. They lie in a mount namespace of the
/// test's own.
#[test]
fn the_whole_host_has_no_secrets_of_the_system() {
    if !is_root() {
        return eprintln!("not tried: only root can mount, and read what lies there");
    }
    let world = World::new();
    let places: Vec<String> = ROOT_SECRETS.iter().map(|(place, _)| format!("/{place}")).collect();
    // Over a copy of each directory a place has at the top, so that places that this host lacks are there.
    let prepare = "set -e
        for top in /etc /var/lib /var/backups /var/spool; do
            mkdir -p \"$0$top\" \"$0/work$top\"
            mount -t tmpfs none \"$0$top\"
            [ $top != /etc ] || cp -a /etc/. \"$0$top\"
            mount --bind \"$0$top\" $top
        done
        for place; do [ -e $place ] || { mkdir -p ${place%/*}; echo s3cret >$place; }; done
        for place; do [ -d $place ] && echo s3cret >$place/s3cret; done
        mount -t tmpfs none /sys/kernel/debug; mkdir -p /sys/kernel/debug/x; echo s3cret >/sys/kernel/debug/x/y
        mount -t tmpfs none /sys/kernel/tracing; echo s3cret >/sys/kernel/tracing/trace
        mount -t tmpfs none /sys/fs/bpf; echo s3cret >/sys/fs/bpf/map
        mount -t tmpfs none /sys/fs/pstore; echo s3cret >/sys/fs/pstore/dmesg";
    let look = "cat \"$@\" 2>/dev/null | grep -c s3cret; \
                cat /sys/kernel/debug/x/y /sys/kernel/tracing/trace /sys/fs/bpf/map /sys/fs/pstore/dmesg 2>/dev/null; true";
    let all: Vec<String> = places.iter().flat_map(|place| [place.clone(), format!("{place}/s3cret")]).collect();
    let run = |options: Option<&str>| {
        let inside = options.map(|options| format!("{} {options} -- ", program().display())).unwrap_or_default();
        let script = format!("{prepare}\nset +e\ncd /\nexec {inside}sh -c '{look}' sh {}", all.join(" "));
        let top = world.text("mounts");
        let words: Vec<&str> = places.iter().map(String::as_str).collect();
        world
            .call("unshare", [&["-m", "--propagation", "private", "sh", "-c", &script, &top], &words[..]].concat())
            .done()
    };
    for options in ["-q -r /", "-q -r / -w /tmp", "-q -r /etc -r /sys -r /var/lib -r /var/backups -r /var/spool"] {
        run(Some(options)).is(0, "0\n", "");
    }
    let tracing = run(Some("-q -r / -r /sys/kernel/tracing -r /etc/shadow -r /etc/wireguard"));
    tracing.code(0).stdout_has("s3cret\n").stdout_lacks("0\n");
    let outside = run(None).code(0).out();
    assert!(outside.matches("s3cret\n").count() == 4, "the control\n{outside}");
    assert!(outside.lines().next().unwrap().parse::<usize>().unwrap() >= 30, "the control\n{outside}");
}

/// Names that tools know and that hold tokens by custom: shown as git has them, and not otherwise.
#[test]
fn settings_that_hold_tokens_are_shown_as_git_has_them() {
    let world = World::new();
    let files = [".yarnrc.yml", ".yarnrc", ".bundle/config", ".mvn/settings.xml", ".devcontainer/dev.env"];
    let others =
        [".gradle/gradle.properties", ".terraform/terraform.tfstate", ".idea/dataSources.xml", ".direnv/x.env"];
    for name in files.iter().chain(&others) {
        world.write(&format!("w/{name}"), "setting\n");
    }
    world.write("w/.mvn/maven.config", "shown\n");
    let git = "git init -q . && git add -f . && git -c user.name=n -c user.email=e commit -q -m one";
    world.call("sh", ["-c", git]).done().code(0);
    let look = |names: &[&str]| format!("cat {} .mvn/maven.config", names.join(" "));
    for options in [&[][..], &["-w", "."]] {
        // Of the others, where they could be committed emptied, there is a warning.
        let done = world.sh(options.iter().copied(), &look(&files)).done().code(0);
        done.stdout(&format!("{}shown\n", "setting\n".repeat(5)));
        world.sh(["-q"].iter().chain(options), &look(&others)).done().is(0, "shown\n", "");
    }
    for name in files {
        fs::write(world.path("w").join(name), "token\n").unwrap();
    }
    world.sh(["-q"], &look(&files)).done().is(0, "shown\n", "");
    fs::remove_dir_all(world.path("w/.git")).unwrap();
    world.sh([""; 0], &look(&files)).done().is(0, "shown\n", "");
    // The control: named, each is there.
    let named: Vec<&str> = files.iter().flat_map(|name| ["-r", name]).collect();
    world.sh(named, &look(&files)).done().is(0, &format!("{}shown\n", "token\n".repeat(5)), "");
    assert_eq!(fs::metadata(world.path("w/.yarnrc")).unwrap().permissions().mode() & 0o777, 0o644);
}
