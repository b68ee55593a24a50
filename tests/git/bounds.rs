//! How long git is looked at before a run: as far as a project goes, and no longer than somebody waits.

use std::fs;

use nix::sys::signal::Signal;

use crate::harness::{World, eventually};

/// Repositories, each in the one before, in so many chains.
fn nested(world: &World, chains: usize, depth: usize) {
    for chain in 0..chains {
        let mut at = world.path(&format!("w/c{chain}"));
        for _ in 0..depth {
            for name in ["objects", "refs", "hooks"] {
                fs::create_dir_all(at.join(".git").join(name)).unwrap();
            }
            fs::write(at.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
            fs::write(at.join(".git/config"), "[core]\n\tbare = false\n").unwrap();
            at.push("a");
        }
    }
}

#[test]
fn a_repository_that_is_too_deep_is_refused() {
    let world = World::new();
    nested(&world, 1, 62);
    world.sh(["-w", "."], "echo x >c0/.git/config").done().code(2).stderr_has("Read-only file system");
    nested(&world, 1, 64);
    let deep = world.text(&format!("w/c0{}/.git", "/a".repeat(63)));
    world
        .sh(["-w", "."], "touch ran")
        .done()
        .refused(125, &["is more than 64 directories deep in a write grant", &deep]);
    assert!(!world.has("w/ran"));
    // Of submodules of submodules, too, and where a name has too many parts.
    let world = World::new();
    nested(&world, 1, 1);
    let names = "c0/.git/modules".to_owned() + &"/n".repeat(33);
    fs::create_dir_all(world.path(&format!("w/{names}"))).unwrap();
    let deep = world.text(&format!("w/{names}"));
    world.sh(["-w", "."], "true").done().refused(125, &["is too deep for the name of a submodule", &deep]);
}

#[test]
fn too_many_repositories_are_refused() {
    let world = World::new();
    nested(&world, 1, 1);
    let many = |count: usize| {
        for number in 0..count {
            fs::create_dir_all(world.path(&format!("w/c0/.git/worktrees/w{number}"))).unwrap();
        }
    };
    many(5000);
    let words = &["there are more than 5000 repositories and worktrees, and '", "worktrees/w999' is not looked at"];
    world.sh(["-w", "."], "touch ran").done().refused(125, words);
    assert!(!world.has("w/ran"));
    fs::remove_dir_all(world.path("w/c0/.git/worktrees")).unwrap();
    many(50);
    world.sh(["-q", "-w", "."], "true").done().is(0, "", "");
}

/// Whether the program keeps `signal` from ending it, as it does from before it plans.
fn blocks(pid: i32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let set =
        status.lines().find_map(|line| line.strip_prefix("SigBlk:")).map(|set| u64::from_str_radix(set.trim(), 16));
    set.is_some_and(|set| set.is_ok_and(|set| set & (1 << (signal as i32 - 1)) != 0))
}

#[test]
fn a_signal_ends_planning() {
    let world = World::new();
    nested(&world, 12, 60);
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        for options in [&[][..], &["--result", "../r.json"]] {
            let options = ["--core", "0", "-w", "."].iter().chain(options);
            let running = world.sh(options, "touch ran").before_exec(no_core).spawn();
            assert!(eventually(|| blocks(running.pid(), signal)));
            let begun = std::time::Instant::now();
            running.signal(signal);
            let done = running.done();
            // Nothing is said, as by a program that knows no signals.
            assert_eq!((done.code, done.signal, done.stderr.as_str()), (None, Some(signal as i32), ""));
            assert!(begun.elapsed().as_secs() < 5, "{signal}: {:?}", begun.elapsed());
        }
        let result: serde_json::Value = serde_json::from_str(&world.read("r.json")).unwrap();
        assert_eq!((&result["status"], &result["reason"]), (&"not-started".into(), &"terminated".into()));
    }
    assert!(!world.has("w/ran"));
    // What the caller ignores ends nothing.
    fs::remove_dir_all(world.path("w")).unwrap();
    world.dir("w");
    nested(&world, 1, 60);
    let running =
        world.sh(["-w", "."], "touch ran; trap '' HUP; kill -HUP $$").before_exec(|| ignore(Signal::SIGHUP)).spawn();
    assert!(eventually(|| blocks(running.pid(), Signal::SIGHUP)));
    running.signal(Signal::SIGHUP);
    running.done().code(0);
    assert!(world.has("w/ran"));
}

/// SIGQUIT would leave one.
fn no_core() -> std::io::Result<()> {
    Ok(nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0)?)
}

fn ignore(signal: Signal) -> std::io::Result<()> {
    sandbox_run::sys::signals::ignore(signal).map_err(Into::into)
}

/// Bytes that a run of the program reads, as the kernel counts them; `None` where it does not.
fn bytes_read(world: &World, options: &str) -> Option<u64> {
    let program = crate::harness::program();
    let script = format!("'{}' {options} >/dev/null && grep ^rchar: /proc/$$/io || :", program.display());
    let out = world.call("sh", ["-c", &script]).done().out();
    out.strip_prefix("rchar: ")?.trim().parse().ok()
}

/// Settings of a repository hold for each of its worktrees, and are read once.
#[test]
fn long_settings_are_not_read_for_each_worktree() {
    let world = World::new();
    nested(&world, 1, 1);
    for number in 0..60 {
        let data = format!("w/c0/.git/worktrees/w{number}");
        world.write(&format!("{data}/HEAD"), "ref: refs/heads/main\n");
        world.write(&format!("{data}/commondir"), "../..\n");
        world.write(&format!("{data}/gitdir"), world.text(&format!("o/w{number}/.git\n")));
    }
    let Some(before) = bytes_read(&world, "--dry-run -w . true") else {
        return crate::harness::skip("bytes that are read", "the kernel does not count them");
    };
    let long = 1 << 20;
    let settings = format!("[core]\n\thooksPath = hk\n[x]\n\ty = {}\n", "z".repeat(long));
    world.write("w/c0/.git/config", settings);
    world.sh(["-w", "."], "mkdir c0/hk").done().code(0).stderr_has("c0/hk', which git on the host would obey");
    let read = bytes_read(&world, "--dry-run -w . true").unwrap() - before;
    assert!(read > long as u64, "the control: {read}");
    assert!(read < 20 * long as u64, "{read}");
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().concat()
}

#[test]
fn more_settings_than_anybody_has_are_refused() {
    // Holes take no room.
    let world = World::new();
    nested(&world, 1, 1);
    let include = lines(5, |number| format!("[include]\n\tpath = ../../i{number}\n"));
    world.write("w/c0/.git/config", include);
    for number in 0..5 {
        fs::File::create(world.path(&format!("w/i{number}"))).unwrap().set_len(15 << 20).unwrap();
    }
    let words = &["cannot look at the settings in '", "w/i4': the settings of all repositories are larger than 64 MiB"];
    world.sh(["-w", "."], "touch ran").done().refused(125, words);
    assert!(!world.has("w/ran"));
    // The control.
    fs::remove_file(world.path("w/i4")).unwrap();
    world.sh(["-w", "."], "true").done().code(0);
    // One list of settings has a hundred directories of hooks.
    let world = World::new();
    nested(&world, 1, 1);
    let hooks = |count| lines(count, |number| format!("[core]\n\thooksPath = h{number}\n"));
    world.write("w/c0/.git/config", hooks(101));
    let words = &["cannot look at the settings in 'h100': the settings name more than 100 places for the same"];
    world.sh(["-w", "."], "touch ran").done().refused(125, words);
    assert!(!world.has("w/ran"));
    world.write("w/c0/.git/config", hooks(100) + &hooks(100));
    world.sh(["-w", "."], "true").done().code(0);
}

#[test]
fn more_places_in_settings_than_anybody_has_are_refused() {
    let world = World::new();
    nested(&world, 51, 1);
    for chain in 0..51 {
        let include = lines(1000, |number| format!("[include]\n\tpath = i{number}\n"));
        world.write(&format!("w/c{chain}/.git/config"), include);
    }
    let words = &["settings name more than 50000 places, and '", "' is not looked at"];
    world.sh(["-w", "."], "touch ran").done().refused(125, words);
    assert!(!world.has("w/ran"));
}
