//! Layouts of hosts as text, and real groups where this host allows some.

use std::process::{Command, Stdio};
use std::time::Instant;

use nix::poll::{PollFd, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;

use super::find::{Own, Tables};
use super::members::{owner, sweep};
use super::*;
use crate::host::Host;

fn own(directory: &str, top: &str) -> Own {
    Own { directory: directory.into(), top: top.into() }
}

fn tables(mountinfo: &str, cgroup: &str) -> Tables {
    Tables::parse(mountinfo.as_bytes(), cgroup.as_bytes())
}

#[test]
fn pure_v2_with_a_session_of_systemd() {
    let tables = tables(
        "29 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n",
        "0::/user.slice/user-1000.slice/session-3.scope\n",
    );
    let expected = own("/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope", "/sys/fs/cgroup");
    assert_eq!(tables.unified(), Some(expected));
    assert_eq!(tables.legacy("memory"), None);
    assert_eq!(tables.top(), Some(Path::new("/sys/fs/cgroup")));
}

#[test]
fn hybrid_with_hierarchies_of_several_controllers() {
    let tables = tables(
        "30 24 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:9 - tmpfs tmpfs ro,mode=755\n\
         31 30 0:27 / /sys/fs/cgroup/unified rw,relatime shared:10 - cgroup2 cgroup2 rw\n\
         32 30 0:28 / /sys/fs/cgroup/systemd rw,relatime shared:11 - cgroup cgroup rw,xattr,name=systemd\n\
         37 30 0:33 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:16 - cgroup cgroup rw,cpu,cpuacct\n\
         40 30 0:36 / /sys/fs/cgroup/memory rw,relatime shared:19 - cgroup cgroup rw,memory\n\
         41 30 0:37 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n",
        "12:pids:/user.slice/session-3.scope\n8:memory:/jobs/a:b\n5:cpu,cpuacct:/\n1:name=systemd:/user.slice\n0::/user.slice/session-3.scope\n",
    );
    assert_eq!(
        tables.unified(),
        Some(own("/sys/fs/cgroup/unified/user.slice/session-3.scope", "/sys/fs/cgroup/unified"))
    );
    assert_eq!(tables.legacy("memory"), Some(own("/sys/fs/cgroup/memory/jobs/a:b", "/sys/fs/cgroup/memory")));
    assert_eq!(tables.legacy("cpuacct"), Some(own("/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct")));
    assert_eq!(
        tables.legacy("pids"),
        Some(own("/sys/fs/cgroup/pids/user.slice/session-3.scope", "/sys/fs/cgroup/pids"))
    );
    assert_eq!(tables.legacy("freezer"), None);
}

#[test]
fn containers_see_their_own_group_as_the_top_or_by_its_full_name() {
    let private = tables("600 590 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n", "0::/\n");
    assert_eq!(private.unified(), Some(own("/sys/fs/cgroup", "/sys/fs/cgroup")));
    let docker = tables(
        "700 690 0:33 /docker/4f5e /sys/fs/cgroup/memory ro,nosuid master:19 - cgroup cgroup rw,memory\n",
        "8:memory:/docker/4f5e/inner\n3:pids:/docker/4f5e\n",
    );
    assert_eq!(docker.legacy("memory"), Some(own("/sys/fs/cgroup/memory/inner", "/sys/fs/cgroup/memory")));
    assert_eq!(docker.legacy("pids"), None);
    assert_eq!(docker.unified(), None);
}

#[test]
fn what_cannot_be_mapped_does_not_count() {
    let mount = "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    for (mountinfo, cgroup) in [
        // Outside the namespace, a mount of somebody else's part, a relative path, nothing.
        (mount, "0::/../other\n"),
        ("29 23 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/\n"),
        ("29 23 0:26 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/docker/12\n"),
        (mount, "0::\n"),
        (mount, ""),
        ("", "0::/\n"),
        ("29 23 0:26 / /sys/fs/cgroup rw - cgroup2\n29 23 0:26 / rw\n\n", "0::/\n"),
    ] {
        assert_eq!(tables(mountinfo, cgroup).unified(), None, "{mountinfo} {cgroup}");
    }
}

#[test]
fn mount_points_are_read_as_they_are_written_and_the_last_mount_counts() {
    let tables = tables(
        "29 23 0:26 / /old rw - cgroup2 cgroup2 rw\n30 23 0:26 / /a\\040b\\134c rw shared:1 master:2 - cgroup2 none rw\n",
        "0::/x\n",
    );
    assert_eq!(tables.unified(), Some(own("/a b\\c/x", "/a b\\c")));
}

#[test]
fn only_names_of_ours_are_ours() {
    assert_eq!(owner("sandbox-run-12-3456"), Some((12, 3456)));
    assert_eq!(owner("sandbox-run-12-3456-7"), Some((12, 3456)));
    for name in [
        "sandbox-run",
        "sandbox-run-",
        "sandbox-run-12",
        "sandbox-run-12-x",
        "sandbox-run-12-3-4-5",
        "sandbox-run--12",
        "sandbox-run-+1-2",
        "sandbox-run-1-2.scope",
        "xsandbox-run-1-2",
    ] {
        assert_eq!(owner(name), None, "{name}");
    }
}

#[test]
fn leftovers_are_removed_and_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    let dead = "sandbox-run-2147483647-1";
    let alive = fresh();
    for name in [dead, &alive, "sandbox-run-2147483647-2", "sandbox-run-x", "other"] {
        fs::create_dir(place.path().join(name)).unwrap();
    }
    fs::create_dir(place.path().join("sandbox-run-2147483647-2/inner")).unwrap();
    let left = || -> Vec<_> {
        let mut names: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    sweep(place.path());
    assert_eq!(left().len(), 5, "nothing is removed while it is young");
    for name in left() {
        let an_hour_ago = std::time::SystemTime::now() - Duration::from_hours(1);
        File::open(place.path().join(name)).unwrap().set_modified(an_hour_ago).unwrap();
    }
    sweep(place.path());
    let mut expected = [alive.as_str(), "other", "sandbox-run-2147483647-2", "sandbox-run-x"];
    expected.sort_unstable();
    assert_eq!(left(), expected);
}

fn fresh() -> String {
    members::fresh_name().unwrap()
}

/// A group on this host, if it can have one.
fn group(wants: &Wants) -> Option<Group> {
    match find(wants, &Host::probe(), false) {
        Ok(mechanism) if !mechanism.is_systemd() => Some(Group::create(&mechanism, wants).unwrap()),
        Ok(mechanism) => {
            eprintln!("skipped: {mechanism}");
            None
        }
        Err(why) => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

/// A shell in the group.
fn inside(group: &Group, script: &str) -> std::process::Child {
    let enter: Vec<_> =
        group.members.directories().iter().map(|dir| format!("echo 0 >{}/cgroup.procs; ", dir.display())).collect();
    Command::new("sh")
        .args(["-c", &(enter.concat() + script)])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

const HOG: &str = "head -c 200M /dev/zero | tail >/dev/null";

#[test]
fn memory_is_bounded_and_its_end_wakes() {
    let Some(group) = group(&Wants { memory: Some(64 << 20), cpu: true, ..Wants::default() }) else { return };
    assert!(inside(&group, "head -c 20M /dev/zero | tail >/dev/null").wait().unwrap().success());
    assert!(!group.out_of_memory());
    let mut child = inside(&group, HOG);
    let (fd, flags) = group.events().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !group.out_of_memory() && Instant::now() < deadline {
        poll(&mut [PollFd::new(fd, flags)], PollTimeout::from(20_000_u16)).unwrap();
    }
    assert!(group.out_of_memory());
    group.kill();
    child.wait().unwrap();
    assert!(group.peak_memory().is_none_or(|peak| (20 << 20..=64 << 20).contains(&peak)), "{:?}", group.peak_memory());
    assert!(group.cpu_time().is_none_or(|time| time > Duration::ZERO && time < Duration::from_mins(1)));
    assert!(!group.procs_refused());
    let directories = group.members.directories().to_vec();
    drop(group);
    assert!(directories.iter().all(|dir| fs::symlink_metadata(dir).is_err()), "{directories:?}");
}

#[test]
fn processes_are_bounded() {
    for (count, refused) in [(4, false), (20, true)] {
        let Some(group) = group(&Wants { procs: Some(10), ..Wants::default() }) else { return };
        let script = format!("for i in $(seq {count}); do sleep 0.2 & done; wait");
        inside(&group, &script).wait().unwrap();
        assert_eq!(group.procs_refused(), refused, "{count}");
        assert!(!group.out_of_memory() && group.events().is_none_or(|_| true));
    }
}

#[test]
fn killing_reaches_what_left_its_session_and_forks_on() {
    let Some(group) = group(&Wants { procs: Some(50), ..Wants::default() }) else { return };
    let mut child = inside(&group, "setsid sh -c 'while :; do sleep 60 & done' & wait");
    while !group.procs_refused() {
        std::thread::sleep(Duration::from_millis(5));
    }
    group.kill();
    child.wait().unwrap();
    let directories = group.members.directories().to_vec();
    drop(group);
    assert!(directories.iter().all(|dir| fs::symlink_metadata(dir).is_err()), "{directories:?}");
}

#[test]
fn a_group_goes_with_a_process_that_is_killed() {
    let wants = Wants { procs: Some(50), ..Wants::default() };
    if group(&wants).is_none() {
        return;
    }
    let Ok(mechanism) = find(&wants, &Host::probe(), false) else { return };
    let (read, write) = nix::unistd::pipe().unwrap();
    let victim = crate::sys::process::fork(|| {
        let group = Group::create(&mechanism, &wants).unwrap();
        let mut child = inside(&group, "setsid sleep 60 & sleep 60");
        while fs::read_to_string(group.members.directories()[0].join("cgroup.procs")).unwrap().lines().count() < 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let names: Vec<_> = group.members.directories().iter().map(|dir| dir.to_str().unwrap()).collect();
        nix::unistd::write(&write, names.join("\n").as_bytes()).unwrap();
        child.wait().unwrap();
    })
    .unwrap();
    drop(write);
    let mut names = [0; 4096];
    let length = nix::unistd::read(&read, &mut names).unwrap();
    let directories = String::from_utf8(names[..length].to_vec()).unwrap();
    assert!(length > 0 && directories.lines().all(|dir| fs::symlink_metadata(dir).is_ok()), "{directories}");
    kill(victim, Signal::SIGKILL).unwrap();
    waitpid(victim, None).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while directories.lines().any(|dir| fs::symlink_metadata(dir).is_ok()) {
        assert!(Instant::now() < deadline, "left: {directories}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
