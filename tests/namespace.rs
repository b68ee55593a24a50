//! The sandbox that we build by ourselves: taken where there is no bubblewrap, as whole as its own, and closed to what comes later.

use std::fs;

use serde_json::Value;

use crate::harness::{World, about_bwrap, eventually, is_root, processes, program};

/// No bubblewrap in any of its directories.
const NO_BWRAP: &str = "/nowhere";

#[test]
fn auto_takes_it_where_bubblewrap_is_missing() {
    if about_bwrap("the policy has the default list of backends") {
        return;
    }
    let world = World::new();
    let secret = world.text("o/secret");
    let run = |words: &[&str]| world.run(words).env("PATH", NO_BWRAP).done();
    run(&["/bin/sh", "-c", "exit 7"]).is(7, "", "");
    run(&["/bin/cat", &secret]).code(1).stdout("").stderr_has("No such file");
    run(&["-r", &secret, "/bin/cat", &secret]).is(0, "s3cret", "");
    run(&["-v", "/bin/true"])
        .code(0)
        .stderr_has("backend 'bwrap' is passed over")
        .stderr_has("backend 'namespace' starts");
    run(&["-b", "bwrap", "/bin/true"]).refused(125, &["no bwrap in an absolute directory"]);
    run(&["--result", &world.text("o/result"), "/bin/true"]).is(0, "", "");
    let told = || serde_json::from_str::<Value>(&world.read("o/result")).unwrap();
    assert_eq!((&told()["backend"], &told()["gaps"]), (&"namespace".into(), &Value::Array(Vec::new())));
    // The control: where it is there, it comes first.
    world.run(["--result", &world.text("o/result"), "/bin/true"]).done().is(0, "", "");
    assert_eq!(told()["backend"], "bwrap");
}

#[test]
fn what_is_done_is_printed_in_order() {
    let world = World::new();
    world.write("w/.env", "");
    let words = ["-b", "namespace", "-w", ".", "--net", "host", "true"];
    let text = world.run([&["--dry-run"], &words[..]].concat()).done().code(0).stderr("").out();
    let (_, operations) =
        text.split_once("\nnamespaces: user, mount, process, ipc, host name, control group\n").unwrap();
    let place = |line: &str| operations.find(&format!("\n  {line}\n")).unwrap_or_else(|| panic!("{line}: {text}"));
    let bind = format!("bind {} rw,nosuid,nodev, made first", world.text("w"));
    let hide = format!("hide file {}", world.text("w/.env"));
    let order = ["mount tmpfs /dev mode=0755,size=1048576, made first", "mount proc /proc, made first", &bind, &hide];
    let order: Vec<_> = order.into_iter().chain(["remount /dev ro", "remount / ro"]).map(place).collect();
    assert!(order.is_sorted(), "{text}");
    let json = world.run([&["--dry-run=json", "-b", "namespace", "true"][..], &[]].concat()).done().code(0).out();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(json["namespaces"].as_array().unwrap().contains(&"network".into()), "{json}");
    assert!(json.get("launcher").is_none(), "{json}");
}

/// The mounts belong to a user namespace above that of the command, which allows no other one.
#[test]
fn a_capability_would_be_none_over_the_mounts() {
    let world = World::new();
    let levels = "import os\nprint(open('/proc/self/uid_map').read().split())";
    let user = nix::unistd::geteuid().to_string();
    let done = world.run(["-b", "namespace", "--", "python3", "-c", levels]).done();
    // The number outside is that in the namespace between the two, where it is root.
    done.is(0, &format!("['{user}', '0', '1']\n"), "");
}

/// The kernel's own limit, which holds for whoever comes from outside and has no filter.
#[test]
fn one_more_user_namespace_is_one_too_many() {
    let world = World::new();
    let script = "import ctypes, os, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n\
        if len(sys.argv) > 1:\n    place = os.open(sys.argv[1], os.O_RDONLY)\n    assert libc.setns(place, 0x10000000) == 0, ctypes.get_errno()\n\
        print(libc.unshare(0x10000000), ctypes.get_errno())";
    let running = world.run(["-b", "namespace", "-w", ".", "--", "sh", "-c", "touch up; exec sleep 60"]).spawn();
    assert!(eventually(|| world.has("w/up")));
    let inner = children(running.pid());
    let inside = children(inner[0]);
    let place = format!("/proc/{}/ns/user", inside[0]);
    world.call("python3", ["-c", script, &place]).done().is(0, &format!("-1 {}\n", libc::ENOSPC), "");
    world.call("python3", ["-c", script]).done().is(0, "0 0\n", "");
    running.signal(nix::sys::signal::Signal::SIGTERM);
    running.done().code(143);
}

fn children(pid: i32) -> Vec<i32> {
    let all = processes().into_iter().filter(|process| process.parent == pid);
    all.map(|process| process.pid).collect()
}

/// Nothing is executed anew, so that the file of process 1 is the host's own: out of reach, as all of that process is.
#[test]
fn process_1_cannot_be_looked_into() {
    let world = World::new();
    let script = "for name in exe root cwd environ mem maps fd/0; do head -c 1 /proc/1/$name && echo $name; done; chmod 777 /proc/1/exe; \
                  tr -d '\\0' </proc/1/cmdline; head -c 1 /proc/self/maps >/dev/null && echo control";
    let before = fs::metadata(program()).unwrap().permissions();
    world.sh(["-b", "namespace"], &format!("{{ {script}; }} 2>/dev/null")).done().is(0, "control\n", "");
    assert_eq!(fs::metadata(program()).unwrap().permissions(), before);
}

#[test]
fn what_is_mounted_later_stays_outside() {
    if !is_root() {
        eprintln!("not run: mounting takes root");
        return;
    }
    let world = World::new();
    world.dir("o/late");
    let script = "touch ready; until [ -e mounted ]; do sleep 0.02; done; ls $O/late; touch $O/late/x; echo $?";
    let outside = "mount --make-rshared / && \"$SR\" -b namespace -e O -r \"$O\" -w . -- sh -c \"$1\" 2>/dev/null & \
         until [ -e ready ]; do sleep 0.02; done; mount -t tmpfs none \"$O/late\" && echo x >\"$O/late/file\"; \
         ls \"$O/late\" >seen; touch mounted; wait";
    let words = ["-m", "--propagation", "private", "sh", "-c", outside, "_", script];
    let call = world.call("unshare", words).env("SR", program()).env("O", world.path("o"));
    call.done().is(0, "1\n", "");
    assert_eq!(world.read("w/seen"), "file\n", "control: it was mounted");
}

#[test]
fn nothing_is_left_on_the_host() {
    let world = World::new();
    world.write("w/.env", "x");
    world.write("w/sub/f", "x");
    let before = world.snapshot();
    let mounts =
        || fs::read_to_string("/proc/self/mountinfo").unwrap().lines().filter(|line| line.contains("test-")).count();
    for script in ["exit 3", "kill -9 $$", "cat sub/f >/dev/null; exit 3"] {
        let done = world.sh(["-b", "namespace", "-r", ".", "--mask", "sub"], script).done();
        assert!(done.code == Some(3) || done.code == Some(137), "{:?}", done.code);
    }
    assert!(eventually(|| world.snapshot() == before));
    assert_eq!(mounts(), 0);
}
