//! What `--trace`, `--explain` and messages say where no option would help, or not the one that seems to: permissions of other
//! users, another `/proc`, a HOME that stands elsewhere, a network without its proxy.

use std::fs;

use crate::harness::{Done, World, find, has_landlock, is_root, program, skip, usable};

/// Options for both backends that keep rules, with what a trace under `landlock` needs.
const BOTH: [&[&str]; 2] = [&["-q", "-b", "bwrap"], &["-q", "-b", "landlock", "--allow-gap", "processes,masks"]];

fn denied(done: &Done) -> Vec<&str> {
    done.stderr.lines().filter_map(|line| line.strip_prefix("sandbox-run: denied: ")).collect()
}

fn has_strace() -> bool {
    let found = find("strace").is_some();
    if !found {
        skip("strace", "not installed");
    }
    found
}

#[test]
fn what_root_may_not_do_with_files_of_others_is_told() {
    if !is_root() {
        return eprintln!("only root has anything taken away: not tried");
    }
    if !has_strace() {
        return;
    }
    let world = World::new();
    for (name, mode) in [("w/file", 0o644), ("w/shut", 0o600), ("w/deep/file", 0o644)] {
        let path = world.write(name, "text");
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    }
    fs::set_permissions(world.path("w/deep"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let w = world.text("w");
    let script = "touch new; cat shut; cat deep/file; echo >file; rm file; cat file";
    let trace = |backend: &[&str]| world.run([backend, &["--trace", "-w", ".", "--", "sh", "-c", script]].concat());
    let explain = |backend: &[&str], path: &str| world.run([backend, &["-w", ".", "--explain", path]].concat()).done();
    let because = |name: &str, mode: &str| {
        format!(
            "'{w}{name}' belongs to user 12345 (mode {mode}), and root has no capabilities inside: run as that user"
        )
    };
    for backend in usable(BOTH) {
        // The control: what is its own it may, and nothing is told.
        for path in ["file", "shut", "deep/file", "new"] {
            explain(backend, path).code(0).stdout_lacks("belongs to").stdout_has("write: yes");
        }
        let own = trace(backend).done().code(1).stdout("texttext").stderr_lacks("belongs to");
        assert_eq!(denied(&own), [""; 0]);
        fs::remove_file(world.path("w/new")).unwrap();
        world.write("w/file", "text");
        world.call("chown", ["-R", "12345:12345", &w]).done().code(0);

        let done = trace(backend).done().code(0).stdout("text");
        for (call, name, mode) in
            [("open", "/file", "0644"), ("open", "/shut", "0600"), ("open", "/deep", "0700"), ("unlink", "", "0755")]
        {
            let because = because(name, mode);
            let told = denied(&done).iter().any(|line| line.contains(call) && line.contains(&because));
            assert!(told, "{call} {because}: {}", done.stderr);
        }
        assert!(!denied(&done).iter().any(|line| line.contains(": -r ") || line.contains(": -w ")), "{}", done.stderr);
        for (path, name, mode) in
            [("file", "/file", "0644"), ("shut", "/shut", "0600"), ("deep/file", "/deep", "0700"), ("new", "", "0755")]
        {
            let done = explain(backend, path).code(0).stdout_has(&format!("note: {}", because(name, mode)));
            done.stdout_lacks("hint:").stdout_lacks("begins with a dot").stdout_has("write: no");
        }
        explain(backend, "deep").code(0).stdout_has(&because("/deep", "0700")).stdout_lacks("hint:");
        world.call("chown", ["-R", "0:0", &w]).done().code(0);
    }
    // A grant in a directory that is closed to it.
    world.call("chown", ["-R", "12345:12345", &w]).done().code(0);
    for backend in usable(BOTH) {
        let file = format!("{w}/deep/file");
        let done = world.run([backend, &["-r", &file, "true"]].concat()).cwd("/").done();
        done.refused(125, &["ermission denied"]).stderr_has("root is not above the permissions of others");
    }
}

#[test]
fn what_lies_below_the_real_home_is_told_where_home_is_elsewhere() {
    if !has_strace() {
        return;
    }
    let world = World::new();
    world.write("home/notes", "notes");
    world.write("home/.config/app/set", "set");
    world.write("home/tool/file", "tool");
    let script = "cat ~/notes; cat ~/.config/app/set; cat ~/tool/file; cat ~/none; echo x >~/own; cat ~/own";
    for backend in usable(BOTH) {
        let run = |options: &[&str]| {
            let words = [backend, &["--trace", "-r", "~/tool"], options, &["--", "sh", "-c", script]].concat();
            world.run(words).done().code(0)
        };
        let done = run(&[]).stdout("toolx\n");
        let (notes, set) = (world.text("home/notes"), world.text("home/.config/app/set"));
        let expected = [
            format!("ENOENT open '{set}' for read: -r ~/.config/app/set"),
            format!("ENOENT open '{notes}' for read: -r ~/notes"),
        ];
        assert_eq!(denied(&done), expected, "{backend:?}");
        // And those help.
        let done = run(&["-r", "~/notes", "-r", "~/.config/app/set"]).stdout("notessettoolx\n");
        assert_eq!(denied(&done), [""; 0], "{backend:?}");
    }
}

#[test]
fn a_home_that_is_not_there_has_a_private_one() {
    let world = World::new();
    let script = "[ -d \"$HOME\" ] && echo x >~/x && cat ~/x; ls -A ~";
    for options in usable([&["-q", "-b", "bwrap"][..], &["-q", "-b", "landlock"]]) {
        for home in ["/nonexistent", "/nonexistent/deeper", &world.text("o/none")] {
            world.sh(options, script).env("HOME", home).done().is(0, "x\nx\n", "");
            assert!(fs::symlink_metadata(home).is_err(), "{home}");
        }
        // The control: where there is one.
        world.sh(options, script).done().is(0, "x\nx\n", "");
    }
}

const NO_PROC: &str = "no option shows another /proc of the host";

/// Another `/proc` in a grant is hidden, and no grant of it is taken: so none is advised.
#[test]
fn no_hint_advises_a_grant_of_another_proc() {
    if !is_root() {
        return eprintln!("only root can mount: not tried");
    }
    let world = World::new();
    world.dir("o/p");
    world.write("o/q/file", "plain");
    let program = program();
    let program = program.to_str().unwrap();
    let run = |words: &[&str]| {
        let outer = "set -e; mount -t proc x ../o/p; exec \"$@\"";
        let words = [&["-m", "--propagation", "private", "sh", "-c", outer, "_", program], words].concat();
        world.call("unshare", words).done()
    };
    for backend in usable(BOTH) {
        let with = |words: &[&str]| run(&[backend, &["-r", "../o"], words].concat());
        with(&["--explain", "../o/p/version"]).code(0).stdout_has(NO_PROC).stdout_lacks("-r ");
        with(&["../o/p/self/exe"]).refused(127, &["which no option shows"]);
        if has_strace() {
            let done = with(&["--trace", "--", "cat", "../o/p/version"]).code(1).stdout("");
            assert!(
                denied(&done).iter().all(|line| line.contains(NO_PROC)) && !denied(&done).is_empty(),
                "{}",
                done.stderr
            );
        }
        with(&["-r", "../o/p", "true"]).refused(125, &["the sandbox has its own"]);
        with(&["cat", "../o/q/file"]).is(0, "plain", "");
    }
}

/// A file system that knows no files without a name: permissions say nothing there of what the kernel refuses by rules.
#[test]
fn what_cannot_be_tried_is_no_disagreement() {
    if !is_root() {
        return eprintln!("only root can mount: not tried");
    }
    if !has_landlock() {
        return;
    }
    let world = World::new();
    world.dir("o/d");
    let program = program();
    let outer = "mount -t debugfs x ../o/d || exit 99; exec \"$@\"";
    let words = ["-m", "--propagation", "private", "sh", "-c", outer, "_", program.to_str().unwrap()];
    let words =
        [&words[..], &["-b", "landlock", "-r", "../o", "--explain", "../o/d", "--explain", "../o/d/new"]].concat();
    let done = world.call("unshare", words).done();
    if done.code == Some(99) {
        return skip("debugfs", "cannot be mounted");
    }
    done.code(0).stderr("").stdout_has("write untried").stdout_lacks("write: yes");
}

const WARNING: &str = "sandbox-run: warning: --net host, but these of the caller's variables for proxies and certificates \
    pass by name only (-e NAME): ";

#[test]
fn a_network_without_the_variables_that_lead_out_is_told() {
    let world = World::new();
    let with = |options: &[&str]| {
        let call = world.run([options, &["--", "true"]].concat()).env("https_proxy", "http://u:hunter2@p:1");
        call.env("SSL_CERT_FILE", "/etc/hosts").env("NO_PROXY", "localhost").done().code(0).stdout("")
    };
    for backend in usable([&["-b", "bwrap"][..], &["-b", "landlock"]]) {
        let with = |words: &[&str]| with(&[backend, words].concat());
        with(&["--net", "host"]).stderr(&format!("{WARNING}SSL_CERT_FILE, https_proxy\n"));
        with(&["--net", "host", "-e", "https_proxy"]).stderr(&format!("{WARNING}SSL_CERT_FILE\n"));
        with(&["--net", "host", "-e", "https_proxy", "-e", "SSL_CERT_FILE"]).stderr("");
        with(&["--net", "host", "--no-default-env"]).stderr("");
        with(&[]).stderr("");
    }
}
