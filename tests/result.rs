//! The result object: written once in every ending, by nobody but us, and true.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use nix::sys::signal::Signal;
use sandbox_run::report::object::FIELDS;
use serde_json::{Value, json};

use crate::docs::result::validate;
use crate::harness::{
    Done, PATHS, World, about_bwrap, backends, eventually, find, is_root, processes_with, program, skip,
};

/// The object in a file of the world: one line, one object, as the schema has it.
pub fn object(world: &World, name: &str) -> Value {
    parsed(&world.read(name))
}

pub fn parsed(text: &str) -> Value {
    assert!(text.ends_with("}\n") && text.matches('\n').count() == 1, "{text}");
    let object = serde_json::from_str(text).expect("one JSON object");
    validate(&object).expect("as the schema has it");
    object
}

/// What tells endings apart.
pub fn told(object: &Value) -> Value {
    json!([object["status"], object["exit_code"], object["signal"], object["reason"]])
}

/// A call with `--result` outside the working directory, and its object.
fn result(world: &World, options: &[&str], target: &[&str]) -> (Done, Value) {
    let file = world.text("o/r");
    let _old = fs::remove_file(&file);
    let done = world.run([&["--result", &file], options, target].concat()).done();
    let object = object(world, "o/r");
    (done, object)
}

#[test]
fn every_ending_is_told_apart() {
    for backend in backends() {
        let world = World::new();
        world.write("w/data", "x");
        let run = |options: &[&str], target: &[&str]| result(&world, &[&backend, options].concat(), target);
        for (options, target, code, expected) in [
            (&[][..], &["true"][..], 0, json!(["exited", 0, null, null])),
            (&[], &["sh", "-c", "exit 5"], 5, json!(["exited", 5, null, null])),
            (&[], &["sh", "-c", "exit 124"], 124, json!(["exited", 124, null, null])),
            (&[], &["sh", "-c", "kill -SEGV $$"], 139, json!(["signaled", null, 11, null])),
            (&[], &["nosuchcommand"], 127, json!(["not-started", null, null, "not-found"])),
            (&[], &["./data"], 126, json!(["not-started", null, null, "not-executable"])),
            (&["-e", "A-B"], &["true"], 125, json!(["not-started", null, null, "usage"])),
            (&["--bogus"], &["true"], 125, json!(["not-started", null, null, "usage"])),
            (&["--policy", "/nope"], &["true"], 125, json!(["not-started", null, null, "policy"])),
            (&["-C", "/nope"], &["true"], 125, json!(["not-started", null, null, "policy"])),
            (&["--timeout", "0.3"], &["sleep", "60"], 124, json!(["timeout", null, 15, "timeout"])),
        ] {
            let (done, object) = run(options, target);
            done.code(code);
            assert_eq!(told(&object), expected, "{options:?} {target:?}: {object:#}");
            if expected[0] == "not-started" {
                for field in ["pid", "started_at", "wall_ms", "stdout_bytes"] {
                    assert_eq!(object[field], Value::Null, "{object:#}");
                }
                assert!(object["warnings"][0].as_str().expect("text").starts_with("cannot "), "{object:#}");
            }
        }
        let flood = ["sh", "-c", "while :; do echo 0123456789; done"];
        let (done, object) = run(&["--max-output", "1000", "--output-overflow", "kill"], &flood);
        assert_eq!(done.code(124).stdout.len(), 1000);
        assert_eq!([&object["status"], &object["reason"]], ["output-limit", "output-limit"], "{object:#}");
        assert_eq!([&object["truncated"], &object["limits_hit"]], [&json!(true), &json!(["output-limit"])]);
        // Cut and gone on: that ended nothing.
        let (_, object) = run(&["--max-output", "1"], &["echo", "more"]);
        assert_eq!(told(&object), json!(["exited", 0, null, null]));
        assert_eq!([&object["truncated"], &object["limits_hit"]], [&json!(true), &json!(["output-limit"])]);
    }
}

#[test]
fn a_hidden_target_and_a_missing_backend_and_a_gap_are_told_apart() {
    if about_bwrap("its program is looked for and judged") {
        return;
    }
    let world = World::new();
    world.script("o/tool", "#!/bin/sh\n");
    let (tool, outside) = (world.text("o/tool"), world.text("o"));
    let (done, object) = result(&world, &["-b", "bwrap", "--mask", &outside], &[&tool]);
    done.refused(127, &[&tool, "hidden"]);
    assert_eq!(told(&object), json!(["not-started", null, null, "hidden"]));
    assert_eq!(object["warnings"].as_array().expect("list").len(), 2, "the error and its hint: {object:#}");
    let (done, object) = result(&world, &["-b", "bwrap"], &[&tool]);
    done.code(0);
    assert_eq!(told(&object), json!(["exited", 0, null, null]));

    let file = world.text("o/r");
    let call = world.run(["-b", "bwrap", "--result", &file, "true"]).env("PATH", "/nonexistent");
    let call = call.done();
    assert_eq!(told(&object_of(&world, call, 127)), json!(["not-started", null, null, "not-found"]));
    let call = world.run(["-b", "bwrap", "--result", &file, "/bin/true"]).env("PATH", "/nonexistent").done();
    assert_eq!(told(&object_of(&world, call, 125)), json!(["not-started", null, null, "backend"]));
    let call = world.run(["-b", "none", "--net", "off", "--result", &file, "true"]).done();
    assert_eq!(told(&object_of(&world, call, 125)), json!(["not-started", null, null, "gap"]));
    let call = world.run(["-qb", "none", "--net", "off", "--allow-gap", "network", "--result", &file, "true"]).done();
    call.code(125);
    let call =
        world.run(["-q", "-b", "none", "--net", "off", "--allow-gap", "network", "--result", &file, "true"]).done();
    let object = object_of(&world, call, 0);
    let gaps = object["gaps"].as_array().expect("list").iter().filter(|gap| gap["protection"] == "network").count();
    assert_eq!((gaps, &object["backend"]), (1, &json!("none")));
    assert!(object["warnings"][0].as_str().expect("text").contains("isolates nothing"), "also under -q: {object:#}");
}

fn object_of(world: &World, done: Done, code: i32) -> Value {
    done.code(code);
    object(world, "o/r")
}

#[test]
fn a_signal_to_us_is_told() {
    for backend in backends() {
        let world = World::new();
        for (script, expected) in [
            ("echo up; exec sleep 60", json!(["signaled", null, 15, "terminated"])),
            ("trap 'exit 3' TERM; echo up; while :; do sleep 0.1; done", json!(["exited", 3, null, "terminated"])),
        ] {
            let file = world.text("o/r");
            let out = world.path("o/out");
            let call = world.sh(backend.into_iter().chain(["--result", &file]), script);
            let running = call.stdout(File::create(&out).expect("file")).spawn();
            assert!(eventually(|| fs::read(&out).is_ok_and(|text| text == b"up\n")));
            assert!(!world.has("o/r"));
            running.signal(Signal::SIGTERM);
            running.done();
            assert_eq!(told(&object(&world, "o/r")), expected);
            fs::remove_file(&file).expect("removed");
        }
    }
}

#[test]
fn a_signal_before_the_target_is_told() {
    if about_bwrap("a program in place of bubblewrap") {
        return;
    }
    let world = World::new();
    // A launcher that never comes to the point.
    world.script("bin/bwrap", "#!/bin/sh\n: >\"${0%/*}/up\"\nexec sleep 60\n");
    let path = format!("{}:{PATHS}", world.text("bin"));
    let file = world.text("o/r");
    let running = world.run(["-b", "bwrap", "--result", &file, "true"]).env("PATH", path).spawn();
    assert!(eventually(|| world.has("bin/up")));
    running.signal(Signal::SIGTERM);
    running.done().code(143);
    assert_eq!(told(&object(&world, "o/r")), json!(["not-started", null, null, "terminated"]));
}

#[test]
fn a_signal_at_any_moment_is_told_or_nothing_was_begun() {
    let world = World::new();
    for step in 0..40 {
        let name = format!("o/r{step}");
        let running = world.run(["--result", &world.text(&name), "sleep", "60"]).spawn();
        std::thread::sleep(std::time::Duration::from_millis(step));
        running.signal(Signal::SIGTERM);
        let done = running.done();
        if !world.has(&name) {
            // It was not yet up to anything, and died as every program does.
            assert_eq!((done.code, done.signal), (None, Some(15)));
            continue;
        }
        // Until a launcher is started the signal itself ends us; a shell says the same of both.
        assert!(
            [(Some(143), None), (None, Some(15))].contains(&(done.code, done.signal)),
            "{:?} {:?}",
            done.code,
            done.signal
        );
        assert_eq!(object(&world, &name)["reason"], "terminated");
    }
}

#[test]
fn sigkill_leaves_nothing() {
    for backend in backends() {
        let world = World::new();
        world.write("o/r", "old");
        let (file, new) = (world.text("o/r"), world.text("o/new"));
        for result in [&file, &new] {
            let marker = world.text("o/up");
            let script = format!("echo x >&2; exec sleep 60 # {marker}");
            let running = world.sh(backend.into_iter().chain(["--result", result]), &script).spawn();
            assert!(eventually(|| !processes_with(&script).is_empty()));
            running.signal(Signal::SIGKILL);
            running.done();
            let left: BTreeSet<_> = fs::read_dir(world.path("o"))
                .expect("directory")
                .map(|entry| entry.expect("entry").file_name())
                .collect();
            assert_eq!(left, ["r", "secret"].map(Into::into).into());
            assert_eq!(world.read("o/r"), "old");
            assert!(eventually(|| processes_with(&script).is_empty()));
        }
    }
}

#[test]
fn the_fields_are_true() {
    if about_bwrap("the printed backend is bubblewrap") {
        return;
    }
    let world = World::new();
    for backend in backends() {
        let script =
            "sleep 1; head -c 1000 /dev/zero; sh -c 'head -c 65536 /dev/zero & wait'; head -c 10 /dev/zero >&2";
        let (done, object) = result(&world, &[&backend[..], &["-e", "SECRET_X=t0p"]].concat(), &["sh", "-c", script]);
        assert_eq!(done.code(0).stdout.len(), 66_536);
        let keys: BTreeSet<_> = object.as_object().expect("object").keys().map(String::as_str).collect();
        let all = FIELDS.iter().map(|(field, _)| *field).filter(|field| !["stdout", "stderr"].contains(field));
        assert_eq!(keys, all.collect());
        let number = |field: &str| object[field].as_u64().unwrap_or_else(|| panic!("{field}: {object:#}"));
        assert!((1000..30_000).contains(&number("wall_ms")), "{object:#}");
        assert!(number("user_ms") < 1000 && number("system_ms") < 1000, "{object:#}");
        assert_eq!(json!([object["stdout_bytes"], object["stderr_bytes"]]), json!([66_536, 10]));
        let limited = [&backend[..], &["--max-output", "1M"]].concat();
        let (_, counted) = result(&world, &limited, &["sh", "-c", "echo 12; echo 3 >&2"]);
        assert_eq!(json!([counted["stdout_bytes"], counted["stderr_bytes"]]), json!([3, 2]));
        assert!(number("pid") > 1 && number("max_rss_kib") > 100);
        assert_eq!(object["argv"], json!(["sh", "-c", script]));
        assert_eq!(object["backend"], backend[2]);
        assert!(!object.to_string().contains("t0p"), "{object:#}");
    }
}

#[test]
fn processor_time_and_memory_are_true() {
    let Some(python) = find("python3") else { return skip("python3", "it is not installed") };
    let python = python.to_str().expect("text").to_owned();
    let world = World::new();
    for backend in backends() {
        let busy = "import time\nwhile time.process_time() < 1: pass";
        let (done, object) = result(&world, &backend, &[&python, "-c", busy]);
        done.code(0);
        let spent = object["user_ms"].as_u64().expect("number") + object["system_ms"].as_u64().expect("number");
        assert!((950..2000).contains(&spent), "{object:#}");
        let (done, object) = result(&world, &backend, &[&python, "-c", "x = b'x' * (100 << 20)"]);
        done.code(0);
        let peak = object["max_rss_kib"].as_u64().expect("number");
        assert!((100 << 10..150 << 10).contains(&peak), "{object:#}");
    }
}

#[test]
fn the_hash_is_that_of_the_plan() {
    let world = World::new();
    let (_, object) = result(&world, &["-r", "/usr"], &["true"]);
    let dry = world.run(["-r", "/usr", "--dry-run=json", "true"]).done().code(0);
    let dry: Value = serde_json::from_str(&dry.out()).expect("JSON");
    assert_eq!(object["policy_sha256"], dry["policy_sha256"]);
    let (_, other) = result(&world, &["-r", "/etc"], &["true"]);
    assert_ne!(object["policy_sha256"], other["policy_sha256"]);
}

#[test]
fn a_descriptor_is_written_and_never_crosses() {
    for backend in backends() {
        let world = World::new();
        let (mut read, write) = std::io::pipe().expect("pipe");
        let options = [&backend[..], &["--result-fd", "3"]].concat();
        let script = "[ -e /proc/self/fd/3 ] && echo there; echo x >&3";
        world.sh(&options, script).fd(write, 3).done().code(2).stdout("").stderr_has("3: Bad file descriptor");
        let mut text = String::new();
        read.read_to_string(&mut text).expect("readable");
        assert_eq!(told(&parsed(&text)), json!(["exited", 2, null, null]));
        // Two places that exclude each other, a closed one, one for reading, one that the target would have.
        for (words, reason) in [
            (&["--result-fd", "3", "--result", "x"][..], "'--result' and '--result-fd' exclude each other"),
            (&["--result-fd", "77"], "descriptor 77: bad file descriptor"),
            (&["--result-fd", "4"], "descriptor 4: it is not open for writing"),
            (&["--result-fd", "3", "--keep-fd", "3"], "descriptor 3: --keep-fd keeps it open for the command"),
            (&["--result-fd", "2"], "'2' is a standard stream, only numbers from 3 are taken"),
            (&["--result-fd", "x"], "'x'"),
            (&["--capture"], "'--capture' needs '--result' or '--result-fd'"),
            (&["--result", "o/r", "--keep-fd", "64"], "descriptor 64"),
        ] {
            let (_read, write) = std::io::pipe().expect("pipe");
            let call = world.sh(backend.iter().chain(words), "touch made").fd(write, 3);
            let call = call.fd(File::open("/dev/null").expect("null"), 4).cwd(world.path(""));
            call.done().refused(125, &[reason]);
        }
        assert!(!world.has("made"));
    }
}

#[test]
fn a_descriptor_that_we_opened_is_nobodys_to_keep() {
    let world = World::new();
    for number in (3..80).map(|number| number.to_string()) {
        let words = ["--result", "o/r", "--audit-log", "o/a", "--keep-fd", &number, "sh", "-c", "touch made"];
        // Whoever runs the tests may have left some open.
        let call = world.run(words).cwd(world.path("")).before_exec(sandbox_run::sys::fd::cloexec_all);
        call.done().refused(125, &[&number, "open"]);
    }
    assert!(!world.has("made"));
}

#[test]
fn a_closed_reader_is_one_line_and_no_other_status() {
    for backend in backends() {
        let world = World::new();
        let (read, write) = std::io::pipe().expect("pipe");
        drop(read);
        let options = [&backend[..], &["--result-fd", "3"]].concat();
        let done = world.sh(&options, "exit 5").fd(write, 3).done();
        done.is(5, "", "sandbox-run: cannot write the result to descriptor 3: broken pipe\n");
        let full = world.sh(backend.iter().chain(&["--result", "/dev/full"]), "exit 5").done();
        full.is(5, "", "sandbox-run: cannot write the result to '/dev/full': no space left on device\n");
    }
}

#[test]
fn a_full_disk_is_one_line_and_keeps_the_old_file() {
    if !is_root() {
        return eprintln!("only root can mount: not tried");
    }
    for backend in backends() {
        let world = World::new();
        let disk = world.dir("disk");
        let script = "mount -t tmpfs -o size=4k,mode=777 none \"$1\" && echo old >\"$1/r\" && shift && \"$@\"; \
            s=$?; cat disk/r; ls -A disk; exit $s";
        let (disk, program) = (disk.to_str().expect("text"), program());
        let mut words = vec!["-m", "--propagation", "private", "sh", "-c", script, "_", disk];
        words.push(program.to_str().expect("text"));
        words.extend(backend);
        words.extend(["--result", "disk/r", "--", "sh", "-c", "exit 5"]);
        let line = "sandbox-run: cannot write the result to 'disk/r': no space left on device\n";
        world.call("unshare", words).cwd(world.path("")).done().is(5, "old\nr\n", line);
    }
}

#[test]
fn bad_places_are_refused_before_anything_starts() {
    for backend in backends() {
        let world = World::new();
        world.dir("o/dir");
        world.link("o/loop", "loop");
        let before = world.snapshot();
        let mut places =
            vec![("o/none/r", "no such file or directory"), ("o/dir", "is a directory"), ("o/new/", "is a directory")];
        places.extend([
            ("o/loop", "it is a link"),
            ("o/loop/r", "too many levels of symbolic links"),
            ("o/secret/r", "not a directory"),
        ]);
        places.push(("/proc/r", ""));
        for (place, reason) in &places {
            for option in ["--result", "--audit-log"] {
                if option == "--audit-log" && place.ends_with('/') {
                    continue;
                }
                let call = world.sh(backend.iter().chain(&[option, place]), "touch made").cwd(world.path(""));
                call.done().refused(125, &["cannot write the", &format!("'{place}'"), reason]);
            }
        }
        if !is_root() {
            fs::set_permissions(world.path("o/dir"), fs::Permissions::from_mode(0o555)).expect("mode");
            for option in ["--result", "--audit-log"] {
                let call = world.sh(backend.iter().chain(&[option, "o/dir/r"]), "touch made").cwd(world.path(""));
                call.done().refused(125, &["'o/dir/r'", "permission denied"]);
            }
            fs::set_permissions(world.path("o/dir"), fs::Permissions::from_mode(0o755)).expect("mode");
        }
        assert_eq!(before, world.snapshot());
    }
}

#[test]
fn a_file_is_replaced_where_it_lies() {
    for backend in backends() {
        let world = World::new();
        let run = |place: &str| {
            let call = world.sh(backend.iter().chain(&["--result", place]), "exit 5").cwd(world.path(""));
            call.done().is(5, "", "");
        };
        run("o/r");
        let umask = world.write("o/umask", "");
        assert_eq!(world.path("o/r").metadata().expect("data").mode(), umask.metadata().expect("data").mode());
        // What somebody has open stays what it was.
        let mut old = File::open(world.write("o/r", "old")).expect("file");
        run("o/r");
        let mut text = String::new();
        old.read_to_string(&mut text).expect("readable");
        assert_eq!((text.as_str(), &object(&world, "o/r")["exit_code"]), ("old", &json!(5)));
        let left = fs::read_dir(world.path("o")).expect("directory").count();
        assert_eq!(left, 3, "r, umask and the secret");
    }
}

#[test]
fn fifos_and_devices_are_written_and_stay() {
    for backend in backends() {
        let world = World::new();
        let fifo = world.path("o/fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o600)).expect("fifo");
        let reader = std::thread::spawn({
            let fifo = fifo.clone();
            move || fs::read_to_string(fifo).expect("readable")
        });
        world.sh(backend.iter().chain(&["--result", fifo.to_str().expect("text")]), "exit 5").done().is(5, "", "");
        assert_eq!(told(&parsed(&reader.join().expect("reader"))), json!(["exited", 5, null, null]));
        assert!(!fifo.symlink_metadata().expect("data").is_file());
        world.sh(backend.iter().chain(&["--result", "/dev/null"]), "exit 5").done().is(5, "", "");
        assert!(!Path::new("/dev/null").symlink_metadata().expect("data").is_file());
        // In line with the target's output, and not over it.
        for place in ["/dev/stdout", "/proc/self/fd/1", "/dev/fd/1"] {
            let out = world.path("o/out");
            let mut file = File::create(&out).expect("file");
            file.write_all(b"before\n").expect("written");
            world.sh(backend.iter().chain(&["--result", place]), "echo target").stdout(file).done().code(0);
            let text = world.read("o/out");
            let object = text.strip_prefix("before\ntarget\n").unwrap_or_else(|| panic!("{text}"));
            assert_eq!(told(&parsed(object)), json!(["exited", 0, null, null]));
        }
    }
}

#[test]
fn the_target_cannot_redirect_or_forge_it() {
    let world = World::new();
    let forge = "mkdir ../w2 2>/dev/null; ln -s ../o/secret r; ls -A; echo forged >r 2>/dev/null; true";
    let options = ["-b", "bwrap", "-w", ".", "--result", "r"];
    world.sh(options, forge).done().code(0).stdout_has("r\n");
    assert_eq!(world.read("o/secret"), "s3cret");
    assert_eq!(told(&object(&world, "w/r")), json!(["exited", 0, null, null]));
    // Without a view it can leave there what is no file, and that is said.
    for leave in ["mkdir r", "mkdir r && : >r/x"] {
        let world = World::new();
        let line = "sandbox-run: cannot write the result to 'r': is a directory\n";
        world.sh(["-q", "-b", "none", "--result", "r"], leave).done().is(0, "", line);
        assert!(fs::metadata(world.path("w/r")).expect("left").is_dir());
    }
}

#[test]
fn captured_output_is_in_the_object_and_nowhere_else() {
    for backend in backends() {
        let world = World::new();
        let capture = |options: &[&str], script: &str| {
            let options = [&backend[..], &["--capture"], options].concat();
            result(&world, &options, &["sh", "-c", script])
        };
        let (done, object) = capture(&[], "printf '\\377\\000a'; echo e >&2");
        done.is(0, "", "");
        assert_eq!([&object["stdout"], &object["stderr"]], ["\u{fffd}\0a", "e\n"]);
        assert_eq!([&object["stdout_bytes"], &object["stderr_bytes"]], [3, 2]);
        let (done, object) = capture(&["--timeout", "0.5"], "echo kept; echo so >&2; sleep 60");
        done.is(124, "", "");
        assert_eq!([&object["stdout"], &object["stderr"], &object["status"]], ["kept\n", "so\n", "timeout"]);
        let (done, object) = capture(&["-C", "/nope"], "true");
        done.code(125);
        assert_eq!([&object["stdout"], &object["stderr"]], [&Value::Null, &Value::Null]);
        // The control: without it both streams pass.
        let (done, object) = result(&world, &backend, &["sh", "-c", "echo o; echo e >&2"]);
        done.is(0, "o\n", "e\n");
        assert!(object.get("stdout").is_none());
    }
}

#[test]
fn mistakes_beside_the_option_are_reported_and_mistakes_in_it_are_not() {
    let world = World::new();
    let file = world.text("o/r");
    let with = format!("--result={file}");
    for (words, argv) in [
        (&["--bogus", "--result", &file, "true"][..], Value::Null),
        (&["--result", &file, "--bogus", "true"], Value::Null),
        (&[&with, "--env-file", "--net", "off", "true"], Value::Null),
        (&["--net", "maybe", &with, "--", "true", "x"], json!(["true", "x"])),
        (&[&with], Value::Null),
        (&[&with, "--policy", "a", "--policy", "b", "true"], json!(["true"])),
    ] {
        world.run(words).done().refused(125, &["cannot read the command line"]);
        let object = object(&world, "o/r");
        assert_eq!((told(&object), &object["argv"]), (json!(["not-started", null, null, "usage"]), &argv), "{words:?}");
        fs::remove_file(&file).expect("removed");
    }
    // Words of the command, values of other options, and what is done instead of running are none of it.
    for words in [
        &["--bogus", "true", "--result", &file][..],
        &["--bogus", "--", "--result", &file],
        &["--result", "", "true"],
        &["--bogus", "--dry-run", "--result", &file, "true"],
    ] {
        world.run(words).done().code(125);
        assert!(!world.has("o/r"), "{words:?}");
    }
    world.run(["--dry-run", "--result", &file, "true"]).done().code(0);
    world.run(["--print-policy", "--result", &file, "true"]).done().code(0);
    assert!(!world.has("o/r"));
}

#[test]
fn hostile_names_stay_text() {
    let world = World::new();
    let name = "a\u{1b}[2J\n\u{7}\u{202e}\u{9b}b";
    let odd = std::ffi::OsStr::from_bytes(b"\xff");
    let file = world.text("o/r");
    let words = ["--result", &file, "--audit-log", "../o/a", "-e", "BAD\u{1b}=1", "--", "printf", "%s", name];
    let words: Vec<_> = words.map(std::ffi::OsStr::new).into_iter().chain([odd]).collect();
    let done = world.run(words).env(name, "v").done();
    assert!(done.code == Some(0) || done.code == Some(125), "{}", done.stderr);
    for file in ["o/r", "o/a"] {
        let text = world.read(file);
        assert!(text.trim_end_matches('\n').chars().all(|char| !char.is_control() && char != '\u{202e}'), "{text}");
        let argv = parsed(&text)["argv"].clone();
        assert_eq!(argv, json!(["printf", "%s", name, "\u{fffd}"]));
    }
    // The target's own sequences pass as they are.
    let done = world.run(["--result", &file, "printf", name]).done();
    done.is(0, name, "");
}
