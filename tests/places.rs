//! Where a result goes: nobody else can write there or lead a reader astray, and what is replaced keeps what it had.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use nix::sys::signal::Signal;
use sandbox_run::sys::acl::{self, List};
use serde_json::json;

use crate::harness::{World, backends, eventually, find, is_root, processes, program, skip};
use crate::result::{object, parsed, told};

#[test]
fn the_target_cannot_lead_a_reader_astray() {
    let world = World::new();
    world.dir("w/sub/deep");
    world.dir("o/real");
    world.link("w/link", "../o/real");
    world.link("w/here", "sub/deep");
    world.link("o/back", "../w/link");
    let (sub, deep, work) = (world.text("w/sub"), world.text("w/sub/deep"), world.text("w"));
    for (place, name) in [
        ("sub/r", "directory '{}/sub'"),
        ("sub/deep/r", "directory '{}/sub'"),
        ("sub/../r", "directory '{}/sub'"),
        ("../w/sub/../../o/r", "directory '{}/sub'"),
        ("link/r", "link '{}/link'"),
        ("here/r", "link '{}/here'"),
        ("../o/back/r", "link '{}/link'"),
    ] {
        let _earlier = fs::remove_file(world.path(&format!("w/{place}")));
        let done = world.sh(["-b", "bwrap", "-w", ".", "--result", place], "touch made").done();
        done.refused(125, &[&format!("'{place}'"), &name.replace("{}", &work)]).stderr_has("--result-fd");
        // An earlier target may have chosen where a link leads, and nothing else.
        if name.starts_with("link") {
            assert!(!world.has(&format!("w/{place}")));
        } else {
            assert_eq!(told(&object(&world, &format!("w/{place}"))), json!(["not-started", null, null, "policy"]));
        }
    }
    assert!(!world.has("w/made"));
    // The remedy holds, and so do a mount of any other kind and names that lie elsewhere.
    let file = world.text("w/sub/r");
    for options in [
        &["-w", ".", "-w", &sub, "--result", "sub/r"][..],
        &["-w", &sub, "--result", "sub/r"],
        &["-w", ".", "-r", &sub, "--result", "sub/r"],
        &["-w", ".", "--mask", &deep, "--result", "sub/r"],
    ] {
        let _old = fs::remove_file(&file);
        let script = "mv sub moved; mv deep moved; rm -rf sub/deep; exit 7";
        world.sh(["-b", "bwrap"].iter().chain(options), script).done().code(7);
        assert_eq!(told(&object(&world, "w/sub/r")), json!(["exited", 7, null, null]), "{options:?}");
        world.dir("w/sub/deep");
    }
    for place in ["r", "../w/r", "../o/real/r"] {
        world
            .sh(["-b", "bwrap", "-w", ".", "--result", place], "{ echo forged >r; } 2>/dev/null; exit 5")
            .done()
            .is(5, "", "");
        assert_eq!(object(&world, &format!("w/{place}"))["exit_code"], 5);
        fs::remove_file(world.path("w/r")).expect("result or forgery");
    }
    // Nothing holds it under no sandbox: said at the end, and written where it belongs.
    let forge = "mv sub moved && mkdir sub && echo forged >sub/r; exit 5";
    let done = world.sh(["-q", "-b", "none", "--result", "sub/r"], forge).done();
    done.is(5, "", "sandbox-run: cannot write the result to 'sub/r': the path leads elsewhere by now\n");
    assert_eq!((world.read("w/sub/r"), &object(&world, "w/moved/r")["exit_code"]), ("forged\n".into(), &json!(5)));
}

#[test]
fn the_target_cannot_write_to_it_under_another_name() {
    let world = World::new();
    let fifo = |name: &str| {
        let fifo = world.path(name);
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o600)).expect("fifo");
        fifo
    };
    let read = |fifo: &Path| {
        let fifo = fifo.to_owned();
        std::thread::spawn(move || parsed(&fs::read_to_string(fifo).expect("readable")))
    };
    // A FIFO that it sees, with or without the right to write there, by path or by descriptor.
    let seen = fifo("w/fifo");
    for options in [&["-w", "."][..], &[], &["-w", ".", "--protect", "fifo"]] {
        for by_path in [true, false] {
            let reader = read(&seen);
            let place: &[&str] = if by_path { &["--result", "fifo"] } else { &["--result-fd", "3"] };
            let call = world.sh([&["-b", "bwrap"], options, place].concat(), "touch made; echo forged >fifo");
            let call = if by_path { call } else { call.fd(File::create(&seen).expect("fifo"), 3) };
            call.done().refused(125, &["the command could write to that FIFO"]).stderr_has("--mask");
            assert_eq!(told(&reader.join().expect("reader")), json!(["not-started", null, null, "policy"]));
        }
    }
    let hidden = ["-b", "bwrap", "-w", ".", "--result", "fifo", "--mask", "fifo"];
    let reader = read(&seen);
    world.sh(hidden, "echo forged >fifo; exit 5").done().code(5).stderr_has("fifo: ");
    assert_eq!(told(&reader.join().expect("reader")), json!(["exited", 5, null, null]));
    let outside = fifo("o/fifo");
    let reader = read(&outside);
    world.run(["-b", "bwrap", "--result", "../o/fifo", "true"]).done().code(0);
    assert_eq!(told(&reader.join().expect("reader")), json!(["exited", 0, null, null]));
    fs::hard_link(&outside, world.path("w/second")).expect("link");
    let reader = read(&outside);
    world.run(["-b", "bwrap", "--result", "../o/fifo", "true"]).done().refused(125, &["second name"]);
    reader.join().expect("reader");
    // A file that the caller opened where it can write.
    let open = |name: &str| File::create(world.path(name)).expect("file");
    let by_number = |options: &[&str]| world.sh([&["-b", "bwrap", "--result-fd", "3"], options].concat(), "exit 5");
    by_number(&["-w", "."]).fd(open("w/r"), 3).done().refused(125, &["could change it"]).stderr_has("--protect");
    by_number(&["-w", ".", "--protect", "r"]).fd(open("w/r"), 3).done().code(5);
    assert_eq!(object(&world, "w/r")["exit_code"], 5);
    by_number(&[]).fd(open("w/r"), 3).done().code(5);
    by_number(&["-w", "."]).fd(open("o/r"), 3).done().code(5);
    fs::hard_link(world.path("o/r"), world.path("w/again")).expect("link");
    by_number(&["-w", "."]).fd(open("o/r"), 3).done().refused(125, &["second name"]);
    by_number(&[]).fd(open("o/r"), 3).done().code(5);
    // One that crosses, whatever it is called.
    for place in ["/dev/fd/5", "/proc/self/fd/5"] {
        let call = world.sh(["-b", "bwrap", "--keep-fd", "5", "--result", place], "echo forged >&5");
        call.fd(open("o/f"), 5).done().refused(125, &[place, "--keep-fd keeps it open"]);
    }
    let call = by_number(&["--keep-fd", "5"]).fd(open("o/f"), 3).fd(open("o/f"), 5);
    call.done().refused(125, &["descriptor 3", "--keep-fd keeps it open"]);
    by_number(&["--keep-fd", "5"]).fd(open("o/f"), 3).fd(open("o/g"), 5).done().code(5);
    assert!(!world.has("w/made"));
}

#[test]
fn a_replaced_file_keeps_owner_and_permissions() {
    for backend in backends() {
        let world = World::new();
        for mode in [0o600, 0o640, 0o444, 0o666] {
            let old = world.write("o/r", "old");
            fs::set_permissions(&old, fs::Permissions::from_mode(mode)).expect("mode");
            if is_root() {
                std::os::unix::fs::chown(&old, Some(65_534), Some(12)).expect("owner");
            }
            let before = fs::metadata(&old).expect("data");
            result_beside(&world, &backend);
            let after = fs::metadata(&old).expect("data");
            let told = |data: &fs::Metadata| (data.mode() & 0o7777, data.uid(), data.gid());
            assert_eq!((told(&before), object(&world, "o/r")["exit_code"].as_i64()), (told(&after), Some(5)));
            fs::remove_file(&old).expect("removed");
        }
    }
    // Of what the target leaves under the name nothing is kept.
    let world = World::new();
    let script = "echo forged >r; chmod 666 r; exit 5";
    world.sh(["-b", "bwrap", "-w", ".", "--result", "r"], script).done().code(5);
    let plain = world.write("w/plain", "").metadata().expect("data").mode();
    assert_eq!(fs::metadata(world.path("w/r")).expect("data").mode(), plain);
}

/// An access control list as the kernel keeps it (`linux/posix_acl_xattr.h`): what the owner, user 12345, the group and others
/// may, and the most for those between.
fn access_list([owner, named, group, mask, other]: [u16; 5]) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, may, id) in
        [(1, owner, u32::MAX), (2, named, 12345), (4, group, u32::MAX), (16, mask, u32::MAX), (32, other, u32::MAX)]
    {
        bytes.extend(u16::to_le_bytes(tag));
        bytes.extend(may.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[test]
fn a_replaced_file_keeps_its_access_control_list() {
    for backend in backends() {
        let world = World::new();
        let (file, list) = (world.path("o/r"), || acl::of(&world.path("o/r"), List::Access).expect("list"));
        let old = access_list([6, 4, 0, 6, 0]);
        let set = acl::set(&File::create(&file).expect("file"), List::Access, &old);
        if set.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EOPNOTSUPP)) {
            return eprintln!("not tried: this file system has no access control lists");
        }
        set.expect("set");
        let mode = || fs::metadata(&file).expect("data").mode();
        let before = mode();
        result_beside(&world, &backend);
        assert_eq!((list(), mode()), (Some(old), before));
        // What the directory gives to new files is not for one that had no list.
        let directory = File::open(world.path("o")).expect("directory");
        acl::set(&directory, List::Default, &access_list([7, 7, 7, 7, 7])).expect("set");
        acl::remove(&File::open(&file).expect("file"), List::Access).expect("removed");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("mode");
        result_beside(&world, &backend);
        assert_eq!((list(), mode() & 0o777), (None, 0o640));
        // The control: a new one has it.
        fs::remove_file(&file).expect("removed");
        result_beside(&world, &backend);
        assert_eq!(list(), Some(access_list([6, 7, 7, 6, 6])));
    }
}

/// A run whose result takes the place of `o/r`.
fn result_beside(world: &World, options: &[&str]) {
    world.sh([options, &["--result", "../o/r"]].concat(), "exit 5").done().is(5, "", "");
}

#[test]
fn sigkill_while_a_file_is_replaced_leaves_one_whole_file() {
    let Some(strace) = find("strace") else { return skip("strace", "it is not installed") };
    let world = World::new();
    world.write("o/r", "old");
    let names = || {
        let entries = fs::read_dir(world.path("o")).expect("directory").map(|entry| entry.expect("entry").file_name());
        entries.map(|name| name.into_string().expect("text")).collect::<BTreeSet<_>>()
    };
    let calls = "renameat,renameat2";
    let (trace, delay) = (format!("trace={calls}"), format!("inject={calls}:delay_enter=2000000"));
    let program = program();
    let words = ["-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &delay, program.to_str().expect("text")];
    let run = ["-q", "-b", "none", "--result", "../o/r", "true"];
    let running = world.call(&strace, words.iter().chain(&run)).spawn();
    assert!(eventually(|| names().iter().any(|name| name.starts_with(".sandbox-run-"))));
    let ours = processes().into_iter().find(|process| process.parent == running.pid()).expect("it waits");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(ours.pid), Signal::SIGKILL).expect("killed");
    assert_eq!(running.done().signal, Some(9), "strace ends as its program does");
    assert!(eventually(|| names() == ["r", "secret"].map(String::from).into()));
    assert_eq!(object(&world, "o/r")["exit_code"], 0);
}

#[test]
fn a_file_system_without_nameless_files_will_do() {
    let Some(strace) = find("strace") else { return skip("strace", "it is not installed") };
    let program = program();
    for fault in ["inject=linkat:error=EOPNOTSUPP", "inject=openat:error=EOPNOTSUPP:when=OPEN"] {
        let world = World::new();
        let run = |fault: &str| {
            let words = ["-qq", "-o", "../o/trace", "-e", "trace=openat,linkat", "-e", fault];
            let run = [program.to_str().expect("text"), "-q", "-b", "none", "--result", "../o/r", "sh", "-c", "exit 5"];
            world.call(&strace, words.iter().chain(&run)).done().is(5, "", "");
            world.read("o/trace")
        };
        // Which of the calls asks for such a file depends on the machine.
        let trace = run("inject=linkat:error=EOPNOTSUPP");
        let nameless = trace.lines().filter(|line| line.starts_with("openat(")).position(|l| l.contains("O_TMPFILE"));
        let number = nameless.expect("asked for") + 1;
        for mode in [None, Some(0o600)] {
            match mode {
                None => fs::remove_file(world.path("o/r")).expect("removed"),
                Some(mode) => fs::set_permissions(world.path("o/r"), fs::Permissions::from_mode(mode)).expect("mode"),
            }
            let trace = run(&fault.replace("OPEN", &number.to_string()));
            assert!(trace.contains("(INJECTED)"), "{trace}");
            assert_eq!(object(&world, "o/r")["exit_code"], 5);
            let plain = world.write("o/plain", "").metadata().expect("data").mode() & 0o777;
            assert_eq!(fs::metadata(world.path("o/r")).expect("data").mode() & 0o777, mode.unwrap_or(plain));
        }
        assert_eq!(fs::read_dir(world.path("o")).expect("directory").count(), 4, "r, trace, plain and the secret");
    }
}

#[test]
fn a_limit_on_file_sizes_is_one_line_and_not_our_death() {
    use nix::sys::resource::{Resource, setrlimit};
    for words in [&["-e", "A-B", "true"][..], &["--bogus", "true"], &["true"]] {
        for option in ["--result", "--audit-log"] {
            let world = World::new();
            let call = world.run([&["-q", "-b", "none", option, "../o/r"], words].concat());
            let call = call.before_exec(|| Ok(setrlimit(Resource::RLIMIT_FSIZE, 0, 0)?));
            call.done().code(125).stderr_has("'../o/r': file too large\n");
        }
    }
    let world = World::new();
    let out = File::create(world.path("o/out")).expect("file");
    let call = world.run(["--help"]).stdout(out).before_exec(|| Ok(setrlimit(Resource::RLIMIT_FSIZE, 0, 0)?));
    call.done().code(125).stderr_has("cannot write to standard output: file too large");
}

#[test]
fn paths_begin_where_the_caller_is() {
    for backend in backends() {
        let world = World::new();
        let options = [&backend[..], &["-C", "../o", "--result", "r", "--audit-log", "a"]].concat();
        world.sh(&options, "exit 5").done().code(5);
        assert_eq!(
            (object(&world, "w/r"), object(&world, "w/a")["exit_code"].clone()),
            (object(&world, "w/a"), json!(5))
        );
        let options = [&backend[..], &["--result", "~/r", "--audit-log", "~/a"]].concat();
        world.sh(&options, "exit 5").done().code(5);
        assert_eq!((&object(&world, "home/r")["exit_code"], world.has("home/a")), (&json!(5), true));
        for option in ["--result", "--audit-log"] {
            let call = world.sh(backend.iter().chain(&[option, "~other/r"]), "touch made");
            call.done().refused(125, &["'~other/r'", "homes of other users"]);
        }
        assert!(!world.has("w/made"));
    }
}

#[test]
fn a_signal_ends_the_wait_for_a_pipe() {
    let world = World::new();
    for option in ["--policy", "--env-file"] {
        // Each its own: a process that a parallel test is starting may hold the writer of the last one for a moment.
        let fifo = world.path(&format!("home/fifo{option}"));
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o600)).expect("fifo");
        let running = world.run([option, &format!("~/fifo{option}"), "--result", "../o/r", "true"]).spawn();
        let mut writer = None;
        // Nobody can open it so before a reader is there.
        assert!(eventually(|| {
            // Not for any process that a parallel test starts: it would be one writer too many.
            let open = nix::fcntl::OFlag::O_WRONLY | nix::fcntl::OFlag::O_NONBLOCK | nix::fcntl::OFlag::O_CLOEXEC;
            writer = nix::fcntl::open(&fifo, open, nix::sys::stat::Mode::empty()).ok();
            writer.is_some()
        }));
        running.signal(Signal::SIGTERM);
        assert_eq!(running.done().signal, Some(15));
    }
}

#[test]
fn what_another_user_left_in_a_directory_for_everybody_is_refused() {
    if !is_root() {
        return eprintln!("only root can make files of other users: not tried");
    }
    let world = World::new();
    let shared = world.dir("o/shared");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).expect("mode");
    world.write("o/victim", "old");
    let give = |path: &Path, user| std::os::unix::fs::lchown(path, Some(user), Some(user)).expect("owner");
    let link = world.link("o/shared/link", "../victim");
    let directory = world.link("o/shared/dir", "..");
    let file = world.write("o/shared/file", "");
    let fifo = world.path("o/shared/fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o600)).expect("fifo");
    for path in [&link, &directory, &file, &fifo] {
        give(path, 65_534);
    }
    for place in ["link", "file", "fifo", "dir/victim"] {
        for option in ["--result", "--audit-log"] {
            let done = world.run([option, &format!("../o/shared/{place}"), "sh", "-c", "touch ../w/made"]).done();
            done.refused(125, &[place, "is another user's"]);
        }
    }
    assert_eq!((world.read("o/victim"), world.has("w/made")), ("old".into(), false));
    // Our own, the directory's owner's, and those in a directory that is not for everybody.
    give(&directory, 0);
    world.run(["--result", "../o/shared/dir/victim", "true"]).done().code(0);
    give(&shared, 65_534);
    world.run(["--result", "../o/shared/file", "true"]).done().code(0);
    give(&shared, 0);
    give(&file, 65_534);
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).expect("mode");
    world.run(["--result", "../o/shared/file", "true"]).done().code(0);
    assert!(["o/victim", "o/shared/file"].iter().all(|name| object(&world, name)["exit_code"] == 0));
}

/// What an earlier command may have left: the next call writes nothing where it leads.
#[test]
fn a_link_in_the_place_of_a_report_leads_it_nowhere() {
    for backend in backends() {
        for option in ["--result", "--audit-log"] {
            let world = World::new();
            world.write("o/victim", "kept");
            world.dir("o/real");
            for (link, to) in
                [("file", "../o/victim"), ("new", "../o/new"), ("dir", "../o/real"), ("null", "/dev/null")]
            {
                world.link(&format!("w/{link}"), to);
            }
            let untouched = || {
                let left = fs::read_dir(world.path("o/real")).expect("directory").count();
                assert_eq!((world.read("o/victim"), world.has("o/new"), left), ("kept".into(), false, 0), "{option}");
            };
            // As it is, where nothing can be written, and with every kind of mistake.
            for words in [&["true"][..], &["-w", ".", "true"], &["-r", "/nope", "true"], &["nope"], &["--bogus"], &[]] {
                let words = if backend[2] == "none" && words.contains(&"-w") { &["true"] } else { words };
                for place in ["file", "new", "null"] {
                    let done = world.run([&backend[..], &[option, place], words].concat()).done().code(125);
                    untouched();
                    if words == ["true"] {
                        done.refused(125, &[&format!("'{place}'"), "it is a link", "name the file"]);
                    }
                }
            }
            for words in [&["-r", "/nope", "true"][..], &["nope"], &["--bogus"]] {
                let words = if backend[2] == "none" && words.contains(&"-r") { &["nope"] } else { words };
                let done = world.run([&backend[..], &[option, "dir/r"], words].concat()).done();
                done.stderr_has("cannot write the").stderr_has("a link leads there");
                assert!(
                    fs::metadata(world.path("o/real/r")).is_ok_and(|made| made.len() == 0) || !world.has("o/real/r")
                );
                let _empty = fs::remove_file(world.path("o/real/r"));
            }
            // The controls: the place itself, and a directory by a link once the plan is known.
            for place in ["../o/victim", "dir/r", "/dev/null"] {
                world.run([&backend[..], &[option, place, "true"]].concat()).done().code(0);
            }
            world.run([&backend[..], &[option, "r", "nope"]].concat()).done().code(127);
            assert!(
                world.read("o/victim").contains("\"exit_code\":0")
                    && world.read("o/real/r").contains("\"exit_code\":0")
            );
            assert!(world.read("w/r").contains("\"reason\":\"not-found\""));
        }
    }
}

#[test]
fn a_pipe_that_nobody_reads_delays_no_start() {
    let world = World::new();
    nix::unistd::mkfifo(&world.path("o/fifo"), nix::sys::stat::Mode::from_bits_truncate(0o600)).expect("fifo");
    for backend in backends() {
        let done = world.sh(backend.iter().chain(&["--result", "../o/fifo"]), "echo ran; exit 5").done();
        done.is(5, "ran\n", "sandbox-run: cannot write the result to '../o/fifo': nobody reads it\n");
    }
}
