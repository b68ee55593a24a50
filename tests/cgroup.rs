//! Memory and processes of the whole tree are bounded by a control group, and nothing of a group is left afterwards.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, setsid};

use crate::harness::{BACKENDS, Call, World, backends, find, has_memory_groups, is_root};

/// What `--check` says of a protection under bwrap.
fn checked(world: &World, protection: &str) -> serde_json::Value {
    let done = world.run(["--check", "--json"]).done().code(0);
    let report: serde_json::Value = serde_json::from_str(&done.out()).expect("JSON");
    let told = report["backends"][0]["protections"].as_array().expect("list").clone();
    told.into_iter().find(|told| told["protection"] == protection).expect("all are told")
}

/// Whether the tree's memory can be bounded here. Where it can, the program must say so.
fn has_memory(world: &World) -> bool {
    let possible = has_memory_groups();
    let told = checked(world, "memory");
    assert!(!possible || told["strength"] == "enforced", "{told}");
    told["strength"] == "enforced"
}

/// Groups of ours on this machine, of whichever run.
fn groups() -> Vec<PathBuf> {
    fn look(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if entry.file_name().to_string_lossy().starts_with("sandbox-run-") {
                found.push(entry.path());
            }
            look(&entry.path(), found);
        }
    }
    let mut found = Vec::new();
    look(Path::new("/sys/fs/cgroup"), &mut found);
    found
}

/// Groups of the process with this number.
fn groups_of(pid: i32) -> Vec<PathBuf> {
    let prefix = format!("sandbox-run-{pid}-");
    let is_its = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix));
    groups().into_iter().filter(is_its).collect()
}

/// Waits until the groups of `pid` are gone.
#[track_caller]
fn no_group_is_left(pid: i32) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !groups_of(pid).is_empty() {
        assert!(Instant::now() < deadline, "left: {:?}", groups_of(pid));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Takes a number of megabytes in one process and says so.
const TAKE: &str = "import sys; x = bytearray(int(sys.argv[1]) << 20); print('taken', flush=True)";

fn limited(world: &World, backend: &[&str], script: &str) -> Call {
    // Without a view there is nothing to grant.
    let view = match backend {
        [.., "none"] => &[][..],
        // Its private directories are on disk.
        [.., "landlock"] => &["-w", "."],
        _ => &["--tmp-size", "2G", "-w", "."],
    };
    world.sh([backend, &["--memory", "128M"], view].concat(), script)
}

#[test]
fn memory_of_one_process_and_of_many() {
    let world = World::new();
    if !has_memory(&world) || find("python3").is_none() {
        return;
    }
    world.write("w/take.py", TAKE);
    let many = |each: u32| {
        format!(
            "for i in 1 2 3 4 5 6 7 8 9 10; do python3 -c 'import time; x = bytearray({each} << 20); time.sleep(60)' & done; wait; echo all"
        )
    };
    for backend in backends() {
        limited(&world, &backend, "python3 take.py 64").done().is(0, "taken\n", "");
        // The shell would go on, were it only the one process that is killed.
        limited(&world, &backend, "python3 take.py 1024; echo went on").done().code(137).stdout("");
        limited(&world, &backend, &many(100)).done().code(137).stdout("");
        let small = "for i in 1 2 3 4; do python3 take.py 4 & done; wait; echo all";
        limited(&world, &backend, small).done().code(0).stdout_has("all\n");
    }
}

#[test]
fn files_in_memory_count_and_the_page_cache_gives_way() {
    let world = World::new();
    if !has_memory(&world) {
        return;
    }
    for place in ["/tmp", "/dev/shm", "$HOME"] {
        let fill = |count: u32| format!("dd if=/dev/zero of={place}/f bs=1M count={count} 2>/dev/null && echo full");
        limited(&world, &BACKENDS[0], &fill(64)).done().is(0, "full\n", "");
        limited(&world, &BACKENDS[0], &fill(1024)).done().code(137).stdout("");
    }
    // Only pages that can be written back or read again.
    let cache = "dd if=/dev/zero of=f bs=1M count=300 2>/dev/null && cat f f >/dev/null && rm f && echo cached";
    for backend in backends() {
        limited(&world, &backend, cache).done().is(0, "cached\n", "");
    }
}

#[test]
fn what_ran_out_of_memory_is_said() {
    let world = World::new();
    if !has_memory(&world) {
        return;
    }
    let result = |script: &str| -> serde_json::Value {
        limited(&world, &["-q", "--result", "r"], script).done();
        serde_json::from_str(&world.read("w/r")).expect("JSON")
    };
    let over = result("dd if=/dev/zero of=/dev/shm/f bs=1M count=1024");
    assert!(over["limits_hit"].to_string().contains("memory-limit"), "{over}");
    // Whoever was killed, one line names the limit.
    let line = "sandbox-run: warning: the command was ended: there was no memory left for it (--memory)\n";
    for script in
        ["exec dd if=/dev/zero of=/dev/shm/f bs=1M count=1024", "dd if=/dev/zero of=/dev/shm/f bs=1M count=1024; :"]
    {
        let done = limited(&world, &["-b", "bwrap"], script).done().code(137);
        assert_eq!(done.stderr.matches(line).count(), 1, "{script}: {}", done.stderr);
    }
    limited(&world, &["-b", "bwrap"], "kill -KILL $$").done().code(137).stderr_lacks("was ended");
    let peak = over["max_rss_kib"].as_u64().expect("peak");
    assert!((64 << 10..=128 << 10).contains(&peak), "{over}");
    let under = result("dd if=/dev/zero of=/dev/shm/f bs=1M count=40");
    assert!(under["limits_hit"].as_array().is_some_and(Vec::is_empty), "{under}");
    let peak = under["max_rss_kib"].as_u64().expect("peak");
    assert!((40 << 10..=128 << 10).contains(&peak), "{under}");
}

/// Starts this many processes that stay, and prints how many there were.
fn start(count: u32) -> String {
    format!(
        "import os, time\nn = 0\ntry:\n  for i in range({count}):\n    if os.fork() == 0: time.sleep(60)\n    n += 1\n\
         except OSError: pass\nprint(n, flush=True)\nos.kill(0, 9)\n"
    )
}

/// Options that bound processes to ten; `none` only where there is a group.
fn bounded(world: &World) -> Vec<Vec<&'static str>> {
    let mut all = Vec::new();
    if checked(world, "procs")["strength"] == "enforced" {
        all.push([&BACKENDS[0][..], &["--max-procs", "10", "--new-session", "always"]].concat());
    }
    if checked(world, "procs")["by"].as_str().is_some_and(|by| by.starts_with("control group")) {
        all.push([&BACKENDS[1][..], &["--max-procs", "10", "--new-session", "always"]].concat());
    }
    // An ordinary user always has the resource limit.
    assert!(!all.is_empty() || is_root() && !has_memory_groups(), "processes can be bounded here");
    all
}

#[test]
fn processes_are_counted_exactly_and_a_fork_bomb_is_held() {
    let world = World::new();
    for options in bounded(&world) {
        let python = |script: String| {
            let words = [&options[..], &["--", "python3", "-c"]].concat();
            world.run(words.into_iter().map(str::to_owned).chain([script])).done().code(137)
        };
        python(start(9)).stdout("9\n");
        // Ten with the first.
        python(start(30)).stdout("9\n");
        let bomb = ["--timeout", "2", "--kill-after", "1", "--", "sh", "-c", "b() { b | b & }; b; sleep 30"];
        let started = world.run([&options[..], &bomb].concat()).spawn();
        std::thread::sleep(Duration::from_millis(500));
        // The host is usable meanwhile.
        world.call("true", [""; 0]).done().code(0);
        let pid = started.pid();
        let done = started.done();
        assert!(done.took < Duration::from_secs(20), "{:?}", done.took);
        no_group_is_left(pid);
    }
}

#[test]
fn runs_that_are_killed_leave_no_group() {
    let world = World::new();
    if !has_memory(&world) {
        return;
    }
    let mut pids = Vec::new();
    let mut seen = 0;
    // The pauses reach from before the start of the target to well after it.
    for round in 0..100_u64 {
        let options = ["-q", "-b", if round % 3 == 0 { "none" } else { "bwrap" }];
        let more = ["--memory", "256M", "--max-procs", "100", "--", "sh", "-c", "sleep 60 & setsid sleep 60 & wait"];
        let call = world.run([&options[..], &more].concat()).before_exec(|| Ok(setsid().map(drop)?));
        let running = call.spawn();
        std::thread::sleep(Duration::from_micros(round * round * 10 % 60_000));
        seen += usize::from(!groups_of(running.pid()).is_empty());
        // Alone, or with all that has not left its process group yet.
        if round % 2 == 0 {
            running.signal(Signal::SIGKILL);
        } else {
            killpg(Pid::from_raw(running.pid()), Signal::SIGKILL).expect("signal");
        }
        pids.push(running.pid());
        assert_eq!(running.done().signal, Some(9));
    }
    assert!(seen > 0, "none of the runs had a group when it was killed");
    for pid in pids {
        no_group_is_left(pid);
    }
}

#[test]
fn a_group_stays_as_long_as_something_that_was_left_running() {
    let world = World::new();
    if !has_memory(&world) {
        return;
    }
    let options = ["-q", "-b", "none", "--memory", "256M"];
    let running = world.sh(options, "sleep 3 >/dev/null 2>&1 & echo over").spawn();
    let pid = running.pid();
    let done = running.done().is(0, "over\n", "");
    assert!(done.took < Duration::from_secs(3), "waited for: {:?}", done.took);
    assert!(!groups_of(pid).is_empty(), "the process that stays is not bounded any more");
    no_group_is_left(pid);
}

#[test]
fn what_cannot_be_bounded_is_refused_unless_that_is_accepted() {
    let world = World::new();
    // Where no group can be made by this user; with groups the tests above hold.
    if checked(&world, "memory")["strength"] == "enforced" {
        return;
    }
    for backend in backends() {
        let options = |more: &[&'static str]| [&backend[..], &["--memory", "64M"], more].concat();
        let done = world.sh(options(&[]), "echo ran").done();
        let done =
            done.refused(125, &["memory", "no control group can be made"]).stderr_has("hint: --allow-gap memory");
        done.stderr_has("hint: run it as root").stderr_has("--address-space bounds each process");
        world.sh(options(&["--allow-gap", "memory"]), "echo ran").done().is(0, "ran\n", "");
    }
    let remedy = checked(&world, "memory")["remedy"].clone();
    assert!(remedy.as_str().is_some_and(|remedy| remedy.starts_with("run it as root")), "{remedy}");
    world.run(["--check"]).done().code(0).stdout_has("\n    remedy: run it as root");
    let done = world.sh(["--memory", "64M", "--allow-gap", "memory"], "echo ran").done().code(0).stdout("ran\n");
    done.stderr_has("sandbox-run: warning: not enforced, as accepted: memory (no control group can be made");
    if checked(&world, "procs")["by"] == "resource limit" {
        // It counts the processes of a user, which without a sandbox are everybody's.
        let done = world.run(["-q", "-b", "none", "--max-procs", "9", "--", "true"]).done();
        done.refused(125, &["procs", "no control group can be made"]);
    }
}

#[test]
fn a_write_grant_of_the_groups_themselves_is_no_way_out() {
    let world = World::new();
    if !has_memory(&world) {
        return;
    }
    // What is granted in so many words, each place where groups are mounted.
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let of_groups = mounts.lines().filter(|line| line.contains(" - cgroup"));
    let places: Vec<_> = of_groups.filter_map(|line| line.split(' ').nth(4)).collect();
    let granted: Vec<_> = places.iter().flat_map(|place| ["-w", place]).collect();
    for limit in [["--memory", "64M"], ["--max-procs", "20"]] {
        // An ordinary user has another way to count processes.
        let done = world.run([&limit[..], &granted, &["--", "true"]].concat()).done();
        if limit[0] == "--memory" || is_root() {
            done.refused(125, &["a write grant covers the control groups"]);
        }
    }
    // A wider grant does not reach them, and the run starts.
    let script = "for f in /sys/fs/cgroup/*/cgroup.procs /sys/fs/cgroup/cgroup.procs; do if [ -e $f ] && (echo $$ > $f) 2>/dev/null; then echo left; fi; done; echo ran";
    for grant in ["/", "/sys", "/sys/fs"] {
        let done = world.sh(["-q", "--memory", "64M", "-w", grant], script).done();
        done.code(0).stdout("ran\n");
    }
}

#[test]
fn a_forced_end_is_no_later_with_a_group() {
    let world = World::new();
    if !has_memory(&world) {
        return;
    }
    for backend in backends() {
        let options = ["--memory", "256M", "--timeout", "0.5", "--kill-after", "0.2"];
        let done = world.sh([&backend[..], &options].concat(), "trap '' TERM; sleep 40; sleep 40").done();
        assert!(done.took < Duration::from_secs(4), "{:?}", done.took);
        done.code(124);
    }
}
