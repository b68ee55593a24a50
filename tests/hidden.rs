//! Names that begin with a dot: hidden wherever a wider directory is shown, and only there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::harness::{Call, Done, World, about_bwrap, has_landlock, is_root, program};

/// A world with a policy file outside of what the target sees, made of these lines.
fn world(lines: &str, files: &[&str]) -> World {
    let world = World::new();
    for file in files {
        world.write(file, "s3cret\n");
    }
    world.write("policy.toml", lines);
    world
}

/// `sandbox-run --policy … OPTIONS -- sh -c SCRIPT`.
fn sh(world: &World, options: &[&str], script: &str) -> Call {
    let policy = world.text("policy.toml");
    world.sh(["--policy", &policy].into_iter().chain(options.iter().copied()), script)
}

/// Runs the call and finds the world as it was before.
#[track_caller]
fn untouched(world: &World, call: Call) -> Done {
    let before = world.snapshot();
    let done = call.done();
    assert_eq!(world.snapshot(), before, "the host's files changed");
    done
}

const NOTHING: &str = "cwd_allow_hidden = []\n";

#[test]
fn hidden_names_are_empty_at_any_depth() {
    let files = ["w/.env", "w/a/b/.env", "w/.d/x", "w/.venv/x", "w/plain", "w/a/plain"];
    let look = "cat .env a/b/.env plain a/plain; ls -A .d .venv";
    let shown = "s3cret\ns3cret\n";
    let world = world(NOTHING, &files);
    for options in [&[][..], &["-w", "."], &["-r", "."]] {
        let call = sh(&world, options, look);
        untouched(&world, call).is(0, &format!("{shown}.d:\n\n.venv:\n"), "");
    }
    // Nothing inside brings them back or changes them.
    for change in ["echo x >.env", "rm .env", "mv .env e", "umount .env", "rm -r .d", "mv .d d", "touch .d/y"] {
        let done = untouched(&world, sh(&world, &["-w", "."], change));
        assert_ne!(done.code, Some(0), "{change}");
    }
    // A list shows what it names and nothing else.
    world.write("policy.toml", "cwd_allow_hidden = [\".env\", \".d\"]\n");
    sh(&world, &[], look).done().is(0, &format!("{shown}{shown}.d:\nx\n\n.venv:\n"), "");
    world.write("policy.toml", "cwd_allow_hidden = [\"*\"]\n");
    sh(&world, &[], look).done().is(0, &format!("{shown}{shown}.d:\nx\n\n.venv:\nx\n"), "");
    // Without a list it is the default one.
    for lines in ["", "cwd_allow_hidden = [\"default\"]\n"] {
        world.write("policy.toml", lines);
        sh(&world, &[], look).done().is(0, &format!("{shown}.d:\n\n.venv:\nx\n"), "");
    }
}

#[test]
fn every_directory_that_is_granted_is_searched() {
    let secrets = [
        ".ssh/id",
        ".aws/credentials",
        ".netrc",
        ".npmrc",
        ".docker/config.json",
        ".config/gh/hosts.yml",
        ".env.local",
    ];
    let mut files: Vec<_> = secrets.iter().map(|name| format!("o/proj/{name}")).collect();
    files.extend(secrets.iter().map(|name| format!("home/x/{name}")));
    files.push("o/proj/README".into());
    let world = world("cwd_allow_hidden = [\".npmrc\"]\n", &files.iter().map(String::as_str).collect::<Vec<_>>());
    let [o, home] = ["o", "home"].map(|name| world.text(name));
    let read =
        |top: &str| format!("cd {top} && for f in {}; do cat $f 2>/dev/null; done; cat README", secrets.join(" "));
    for grant in [["-r", &o], ["-w", &o]] {
        // README and the one that is listed.
        untouched(&world, sh(&world, &grant, &read(&format!("{o}/proj")))).is(0, "s3cret\ns3cret\n", "");
    }
    // Of the whole host: HOME and the working directory.
    let done = untouched(&world, sh(&world, &["-q", "-r", "/"], &format!("{}; true", read(&format!("{home}/x")))));
    done.code(0).stdout("s3cret\n");
    let done = sh(&world, &["-v", "-r", "/"], &read(&format!("{o}/proj"))).cwd(world.path("o/proj")).done();
    done.code(0).stdout("s3cret\ns3cret\n").stderr_has("of a grant of '/' the working directory");
    // The control: the list is everything, and everything is there.
    world.write("policy.toml", "cwd_allow_hidden = ['*']\n");
    sh(&world, &["-r", &o], &read(&format!("{o}/proj"))).done().is(0, &"s3cret\n".repeat(8), "");
}

#[test]
fn a_deeper_grant_and_the_target_itself_are_seen() {
    let world = world(NOTHING, &["w/.tools/token", "w/.config/app/x", "w/.config/app/.y", "w/.config/other", "w/.one"]);
    world.script("w/.tools/bin/t", "#!/bin/sh\ncat .tools/token; ls -A .tools .tools/bin .config; cat .config/app/x");
    world.script("w/.t", "#!/bin/sh\necho ran");
    let policy = world.text("policy.toml");
    let run = |options: &[&str], target: &str| {
        world.run(["--policy", &policy].into_iter().chain(options.iter().copied()).chain(["--", target]))
    };
    for options in [&["-r", "./.config/app"][..], &["-r", "./.config/app", "-w", "."], &["-w", "./.config/app"]] {
        let done = untouched(&world, run(options, ".tools/bin/t"));
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        done.stdout(".config:\napp\n\n.tools:\nbin\n\n.tools/bin:\nt\ns3cret\n");
    }
    run(&[], ".tools/bin/t").done().stdout(".config:\n\n.tools:\nbin\n\n.tools/bin:\nt\n");
    run(&[], "./.t").done().is(0, "ran\n", "");
    // A grant of the very name shows it; what is hidden in it stays hidden.
    sh(&world, &["-r", ".config"], "cat .config/other; cat .config/app/.y").done().is(0, "s3cret\n", "");
    sh(&world, &["-r", ".one", "-w", "."], "cat .one").done().is(0, "s3cret\n", "");
    sh(&world, &["-w", ".one"], "cat .one; echo x >.one").done().is(0, "s3cret\n", "");
    assert_eq!(world.read("w/.one"), "x\n");
    // A mask is stronger than a grant, a protect is none.
    sh(&world, &["-r", ".one", "--mask", ".one"], "cat .one").done().is(0, "", "");
    let protects = ["-w", ".", "--protect", ".config", "--protect", ".tools/token"];
    sh(&world, &protects, "ls -A .config .tools").done().is(0, ".config:\n\n.tools:\n", "");
    let both = ["-w", ".config/app", "--protect", ".config/app"];
    sh(&world, &both, "ls -A .config .config/app; cat .config/app/.y; echo x >.config/app/x || echo no")
        .done()
        .code(0)
        .stdout(".config:\napp\n\n.config/app:\n.y\nx\nno\n");
}

#[test]
fn a_directory_that_answers_to_its_name_and_is_in_no_list_is_hidden() {
    if !is_root() || !std::path::Path::new("/dev/fuse").exists() {
        return eprintln!("not tried: a file system of our own takes root and /dev/fuse");
    }
    let world = World::new();
    let tree = std::env::var_os("CARGO_MANIFEST_DIR").expect("by cargo");
    let server = std::path::Path::new(&tree).join("tests/fixtures/unlisted.py");
    let script = "mkdir m; python3 \"$SERVER\" m; cat m/code m/.snapshot/s1/.env; ls -A m; cd m
        for options in '' '--show-hidden all-but-secrets'; do
            \"$SR\" -b $B $options -- sh -c \"cd '$PWD' && cat code; cat .snapshot/s1/.env .env; echo end\"
        done
        \"$SR\" -b $B --show-hidden .snapshot -- cat .snapshot/s1/code; cd ..; umount m";
    for backend in ["bwrap", "namespace"] {
        let call = world.call("unshare", ["-m", "--propagation", "private", "sh", "-c", script]);
        let done = call.env("SERVER", &server).env("SR", program()).env("B", backend).done().code(0);
        // The control, then twice without the secrets, then asked for by name.
        assert_eq!(done.out(), "code\nold secret\n.env\ncode\ncode\nend\ncode\nend\ncode\n", "{}", done.stderr);
        std::fs::remove_dir(world.path("w/m")).expect("mount point");
    }
}

#[test]
fn starting_in_a_hidden_directory_shows_that_directory() {
    let world = world(NOTHING, &["o/.d/in/x", "o/.d/in/.y", "o/.d/out", "o/cur/z", "w/f"]);
    world.link("o/.cur", "cur");
    let o = world.text("o");
    let look = "cat x .y ../out; echo new >n";
    let done = sh(&world, &["-r", &o], look).cwd(world.path("o/.d/in")).done();
    assert_ne!(done.code, Some(0));
    done.stdout("s3cret\n");
    // As writable as it is without being hidden.
    let done = sh(&world, &["-w", &o], look).cwd(world.path("o/.d/in")).done();
    done.code(0).stdout("s3cret\n");
    assert!(world.has("o/.d/in/n"));
    sh(&world, &["-r", &o], "cat z").cwd(world.path("o/cur")).done().is(0, "s3cret\n", "");
    sh(&world, &["-r", &o], "ls -A ../cur").cwd(world.path("w")).done().code(2);
    sh(&world, &["-r", &o], &format!("ls -A {o}/cur")).done().is(0, "", "");
}

#[test]
fn links_do_not_lead_past_it() {
    let world = world(NOTHING, &["w/conf/env", "w/conf/plain", "home/.ssh/id_rsa"]);
    world.link("w/esc", world.path("home/.ssh"));
    for (name, to) in [(".env", "conf/env"), (".loop", ".loop"), ("dir", "."), (".x", "nowhere"), (".up", "..")] {
        world.link(&format!("w/{name}"), to);
    }
    for options in [&[][..], &["-w", "."], &["-q", "-r", "/"]] {
        let look = "cat esc/id_rsa .env conf/env dir/.env 2>/dev/null; cat conf/plain";
        untouched(&world, sh(&world, options, look)).is(0, "s3cret\n", "");
    }
}

#[test]
fn the_limit() {
    let files: Vec<String> = (0..5)
        .flat_map(|dir| (0..40).map(move |file| format!("w/{}/f{file}", ["a", "b", "c", "d", "z"][dir])))
        .chain(["w/z/.env".into()])
        .collect();
    let world = world("", &files.iter().map(String::as_str).collect::<Vec<_>>());
    let with = |max: &str, overflow: &str| {
        world.write("policy.toml", format!("{NOTHING}cwd_hidden_scan_max_entries = {max}\n{overflow}"));
        sh(&world, &[], "cat z/.env")
    };
    let words = ["50", "--hidden-scan-max", "--hidden-scan-overflow", "w/b'", "w/z'"];
    with("50", "").done().refused(125, &words).stderr_has("'warn' or 'unlimited'");
    with("50", "cwd_hidden_scan_overflow = 'error'\n").done().refused(125, &words);
    let done = with("50", "cwd_hidden_scan_overflow = 'warn'\n").done();
    done.code(0).stdout("s3cret\n").stderr_has("stay visible").stderr_has("w/z'");
    with("1", "cwd_hidden_scan_overflow = 'unlimited'\n").done().is(0, "", "");
    with("500", "").done().is(0, "", "");
    // 206 files, 5 directories: the number is exact.
    with("206", "").done().is(0, "", "");
    with("205", "").done().refused(125, &["205"]);
    // The same by options, which win over the file.
    let options = |words: &[&str]| sh(&world, words, "cat z/.env").done();
    options(&["--hidden-scan-max", "50"]).refused(125, &words);
    let done = options(&["--hidden-scan-max", "50", "--hidden-scan-overflow", "warn", "--result", "../r.json"]);
    done.code(0).stdout("s3cret\n").stderr_has("stay visible");
    assert!(world.read("r.json").contains("stay visible"), "{}", world.read("r.json"));
    options(&["--hidden-scan-max", "50", "--hidden-scan-overflow", "unlimited"]).is(0, "", "");
    options(&["--hidden-scan-max", "500"]).is(0, "", "");
    if has_landlock() {
        let landlock = |words: &[&str]| options(&[&["-b", "landlock"], words].concat());
        landlock(&["--hidden-scan-max", "50"]).refused(125, &words);
        let done = landlock(&["--hidden-scan-max", "50", "--hidden-scan-overflow", "warn"]);
        done.code(0).stdout("s3cret\n").stderr_has("stay visible");
        landlock(&["--hidden-scan-max", "500"]).code(1).stdout("").stderr_has("Permission denied");
    }
    // Only the top: five entries.
    with("5", "cwd_hidden_scan_recursive = false\n").done().is(0, "s3cret\n", "");
}

#[test]
fn git_stays_usable() {
    let world = world("cwd_allow_hidden = [\".git\"]\n", &["w/file", "w/.gitignore", "w/.env"]);
    if crate::harness::find("git").is_none() {
        return crate::harness::skip("git", "there is no git");
    }
    for words in [&["init", "-q"][..], &["add", "file"]] {
        world.call("git", words).done().code(0);
    }
    sh(&world, &["-w", "."], "git status --short file && cat .gitignore").done().is(0, "A  file\n", "");
    world.write("policy.toml", NOTHING);
    sh(&world, &["-w", "."], "git status 2>/dev/null || ls -A .git").done().is(0, "", "");
}

#[test]
fn what_the_target_makes_is_its_own_until_the_next_run() {
    let world = world(NOTHING, &[]);
    sh(&world, &["-w", "."], "echo a >.new; cat .new").done().is(0, "a\n", "");
    untouched(&world, sh(&world, &["-w", "."], "cat .new")).is(0, "", "");
    assert_eq!(world.read("w/.new"), "a\n");
    world.write("policy.toml", "cwd_allow_hidden = [\".new\"]\n");
    sh(&world, &["-w", "."], "cat .new").done().is(0, "a\n", "");
}

#[test]
fn a_private_home_in_a_hidden_directory_works() {
    let world = world(NOTHING, &["w/.home/x", "w/.other"]);
    let call = sh(&world, &[], "ls -A ~; echo y >~/y && cat ~/y .other").env("HOME", world.path("w/.home"));
    untouched(&world, call).is(0, "y\n", "");
}

#[test]
fn names_that_come_and_go_stop_no_run() {
    let world = Arc::new(world(NOTHING, &["w/sub/plain", "w/.steady"]));
    let stop = Arc::new(AtomicBool::new(false));
    // Names that come back, and names that never do.
    let churn = |fresh: bool| {
        let (world, stop) = (world.clone(), stop.clone());
        std::thread::spawn(move || {
            let mut turn = 0_u64;
            let mut last = None;
            while !stop.load(Ordering::Relaxed) {
                turn += 1;
                let number = if fresh { turn + 1000 } else { turn % 7 };
                let names = [format!("w/.tmp{number}"), format!("w/sub/.tmp{number}")].map(|name| world.path(&name));
                for name in &names {
                    // What bubblewrap makes in place of a name that went is there for a moment, and nobody can write it.
                    let _written = fs::write(name, "s3cret");
                }
                // Always one in existence, so that no moment is quiet.
                for name in last.replace(names).into_iter().flatten() {
                    let _gone = fs::remove_file(name);
                }
                if turn.is_multiple_of(16) {
                    std::thread::sleep(std::time::Duration::from_micros(300));
                }
            }
        })
    };
    let threads = [churn(false), churn(true)];
    let policy = world.text("policy.toml");
    let mut failed = Vec::new();
    for turn in 0..200 {
        let grant = ["-r", "-w"][turn % 2];
        let done = world.run(["--policy", &policy, grant, ".", "--", "sh", "-c", "cat .steady"]).done();
        if done.code != Some(0) || !done.stdout.is_empty() || !done.stderr.is_empty() {
            failed.push(format!("{:?} {} {}", done.code, done.out(), done.stderr));
        }
    }
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
    for place in ["w", "w/sub"] {
        // One file of each thread is left to it; a run leaves none.
        let left = fs::read_dir(world.path(place)).unwrap().map(|entry| entry.unwrap().path());
        let left: Vec<_> = left.filter(|path| path.is_file() && fs::read(path).unwrap().is_empty()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
    assert!(failed.is_empty(), "{} of 200 failed: {:?}", failed.len(), failed.first());
}

#[test]
fn nothing_is_searched_when_nothing_asks_for_it() {
    let world = world("", &["w/a/f", "w/.env"]);
    let Some(strace) = crate::harness::find("strace") else {
        return crate::harness::skip("strace", "there is no strace");
    };
    let opened = |lines: &str, backend: &str| {
        world.write("policy.toml", lines);
        let program = crate::harness::program();
        let words = ["-f", "-e", "trace=?open,openat"].map(Into::into).into_iter();
        let words = words.chain([program.into_os_string(), "--policy".into(), world.path("policy.toml").into()]);
        let words = words.chain(["-b", backend, "-q", "--dry-run", "true"].map(std::ffi::OsString::from));
        world.call(&strace, words).done().code(0).stderr.contains(&format!("{}\"", world.text("w/a")))
    };
    assert!(!opened("cwd_allow_hidden = [\"*\"]\n", "bwrap"));
    assert!(!opened("", "none"), "a default that it gives up");
    assert!(opened("", "bwrap") && opened(NOTHING, "bwrap"), "the control");
}

/// Names in it could be opened by whoever knows them, or listed after a chmod.
#[test]
fn a_directory_that_cannot_be_listed_is_hidden_as_a_whole() {
    let world = world("cwd_allow_hidden = []\nwrite_roots = [\".\"]\n", &["w/app/.env", "w/open/.env", "w/open/plain"]);
    let script = "cat app/.env; chmod 700 app; cat app/.env; cat open/.env";
    // Without the right to list, root finds the names all the same, and each is hidden alone.
    for mode in [0o311, 0o000].into_iter().skip(usize::from(is_root())) {
        std::fs::set_permissions(world.path("w/app"), std::fs::Permissions::from_mode(mode)).unwrap();
        let done = sh(&world, &[], script).done();
        std::fs::set_permissions(world.path("w/app"), std::fs::Permissions::from_mode(0o755)).unwrap();
        done.stdout("").stderr_has("app/.env");
    }
    // The controls: the name in a directory that can be listed is hidden alone, and shown it is read.
    let text = world.read("w/open/plain");
    sh(&world, &[], "cat open/plain").done().is(0, &text, "");
    let shown = ["-w", ".", "--show-hidden", ".env"];
    world.sh(shown, "cat app/.env").done().is(0, &world.read("w/app/.env"), "");
}

#[test]
fn the_option_adds_to_the_list() {
    let files = ["w/.env", "w/a/.env", "w/.secret", "w/.npmrc", "w/.github/x", "w/.odd"];
    let world = world("cwd_allow_hidden = ['.odd']\n", &files);
    let look = "cat .env a/.env .secret .npmrc .odd .github/x 2>/dev/null | wc -l";
    for (options, lines) in [
        (&[][..], 1),
        (&["--show-hidden", ".env"], 3),
        (&["--show-hidden", ".env", "--show-hidden", ".secret"], 4),
        (&["--show-hidden", "*"], 6),
        (&["--show-hidden", ".env", "--show-hidden", "*"], 6),
    ] {
        world.sh(options.iter().copied(), look).done().is(0, &format!("{lines}\n"), "");
    }
    // A file replaces the default list, and the option adds to that.
    sh(&world, &[], look).done().is(0, "1\n", "");
    sh(&world, &["--show-hidden", ".npmrc"], look).done().is(0, "2\n", "");
    world.sh(["--show-hidden", ".env"], "cat .npmrc").done().is(0, "", "");
    let printed = world.run(["--show-hidden", ".env", "--print-policy=json"]).done().code(0).out();
    assert!(printed.contains(r#""default""#) && printed.contains(r#"".env""#), "{printed}");
}

#[test]
fn bad_values_are_refused() {
    let world = World::new();
    for (option, values) in [
        ("--show-hidden", &["", ".", "..", "a/b", ".a/b", "env", "/"][..]),
        ("--hidden-scan-max", &["0", "-1", "x", "", "1.5", "+1", "18446744073709551616"]),
        ("--hidden-scan-overflow", &["explode", "", "Warn"]),
    ] {
        for value in values {
            world.run([option, value, "true"]).done().refused(125, &[option, &format!("'{value}'")]);
        }
    }
    let good = ["--show-hidden", "...", "--hidden-scan-max", "18446744073709551615", "--hidden-scan-overflow", "error"];
    world.run(good.into_iter().chain(["true"])).done().is(0, "", "");
}

#[test]
fn well_known_secrets_are_hidden_at_any_depth_of_every_grant() {
    let secrets = [
        ".ssh/id",
        ".aws/credentials",
        ".gnupg/key",
        ".netrc",
        ".npmrc",
        ".pypirc",
        ".docker/config.json",
        ".kube/config",
        ".config/gh/hosts.yml",
        ".config/gcloud/x",
        ".cargo/credentials.toml",
        ".env",
        ".env.local",
    ];
    let open = ["README", ".env.example", ".env.sample", ".config/app/x", ".cargo/config.toml", ".github/x"];
    let files: Vec<_> = secrets.iter().chain(&open).map(|name| format!("o/proj/deep/{name}")).collect();
    let world = world("", &files.iter().map(String::as_str).collect::<Vec<_>>());
    let (o, proj) = (world.text("o"), world.text("o/proj/deep"));
    let count = |names: &[&str]| format!("cd {proj} && cat {} 2>/dev/null | wc -l", names.join(" "));
    let (hidden, shown) = (count(&secrets), count(&open));
    // Of the whole host what is near comes first; nobody knows how much lies beside this directory.
    // What it meets there, and warns of, is somebody else's.
    let far = ["-q", "--hidden-scan-max", "100000000"];
    for grant in [["-r", &o], ["-w", &o], ["-r", "/"], ["-w", "/"]] {
        let grant = [&grant[..], if grant[1] == "/" { &far } else { &[] }].concat();
        let grant = || grant.iter().copied();
        untouched(&world, world.sh(grant(), &hidden)).is(0, "0\n", "");
        world.sh(grant(), &shown).done().is(0, &format!("{}\n", open.len()), "");
        world.sh(grant().chain(["--show-hidden", ".netrc"]), &hidden).done().is(0, "1\n", "");
        world.sh(grant().chain(["--show-hidden", "*"]), &hidden).done().is(0, &format!("{}\n", secrets.len()), "");
    }
    // A grant of the place itself shows it.
    let place = format!("{proj}/.config/gh");
    world.sh(["-r", &o, "-r", &place], &hidden).done().is(0, "1\n", "");
}

#[test]
fn a_build_in_the_sandbox_finds_what_it_left_in_the_run_before() {
    let world = World::new();
    let left =
        [".deps/x.Po", ".libs/x.o", ".foo.o.cmd", ".config", ".fingerprint/x", ".pytest_cache/x", ".eslintcache"];
    let script = left.map(|name| format!("mkdir -p $(dirname {name}) && echo a >>{name}")).join(" && ");
    for run in 1..=2 {
        world.sh(["-w", "."], &script).done().is(0, "", "");
        assert_eq!(world.read("w/.foo.o.cmd").lines().count(), run);
    }
}

/// Hidden files and directories by the thousand, in `w`.
fn thousands(world: &World) {
    for number in 0..3000 {
        fs::write(world.path("w").join(format!(".f{number}")), "s3cret\n").unwrap();
    }
    for number in 0..300 {
        fs::create_dir(world.path("w").join(format!(".d{number}"))).unwrap();
        fs::write(world.path("w").join(format!(".d{number}/x")), "s3cret\n").unwrap();
    }
}

/// bubblewrap alone would take a descriptor and three words for each, of 1024 and 9000, and seconds.
#[test]
fn thousands_of_names_with_few_descriptors() {
    let world = World::new();
    thousands(&world);
    world.write("w/.config/app/x", "shown\n");
    let run = |options: &[&str], script: &str| {
        let program = crate::harness::program();
        let words = ["-c", "ulimit -n 1024 && exec \"$0\" \"$@\"", program.to_str().unwrap()];
        let words = words.into_iter().chain(options.iter().copied()).chain(["--", "sh", "-c", script]);
        world.call("sh", words)
    };
    let look = "find . -name '.[fd]*' -type f -size +0 | wc -l; ls -A | grep -c '^\\.f'; cat .config/app/x";
    for grant in [&[][..], &["-w", "."], &["-r", "."], &["-w", ".", "--mask", ".config/none"]] {
        untouched(&world, run(grant, look)).is(0, "0\n3000\nshown\n", "");
    }
    // A deeper grant is seen through its mask.
    let deep = world.text("w/.d7/x");
    run(&["-r", &deep], &format!("{look}; cat {deep}; ls -A .d7 .d8")).done().code(0).stderr("");
    // What it takes is gone before the command starts, and nothing brings the names back.
    let caps = "grep -c '^Cap.*0000000000000000$' /proc/self/status";
    run(&["-w", "."], caps).done().is(0, "5\n", "");
    for change in
        ["umount .f1", "rm .f1", "mv .f1 f", "echo x >.f1", "touch .d1/x", "rmdir .d1", "unshare -Urm umount .f1"]
    {
        let done = untouched(&world, run(&["-w", "."], change));
        assert_ne!(done.code, Some(0), "{change}");
    }
    // /dev/pts is as it always is.
    run(&[], "python3 -c 'import os; os.openpty()'; ls /dev/pts").done().is(0, "ptmx\n", "");
    // The control.
    run(&["--show-hidden", "*"], "cat .f1 .d1/x").done().is(0, "s3cret\ns3cret\n", "");
}

/// Some hosts let only bubblewrap itself mount anything: then it has to do all of it.
#[test]
fn many_names_where_only_bubblewrap_may_mount() {
    if about_bwrap("a program in place of bubblewrap") {
        return;
    }
    let world = World::new();
    for number in 0..100 {
        world.write(&format!("w/.f{number}"), "s3cret\n");
    }
    world.write("w/.d/x", "s3cret\n");
    let bwrap = crate::harness::find("bwrap").expect("bwrap");
    let wrapper = format!(
        "#!/bin/sh\necho >>{}\nargs=$1 fd=$2; shift 2; exec {} $args $fd --cap-drop ALL \"$@\"\n",
        world.text("starts"),
        bwrap.display()
    );
    world.script("bin/bwrap", &wrapper);
    world.write("starts", "");
    fs::set_permissions(world.path("starts"), fs::Permissions::from_mode(0o666)).unwrap();
    let path = format!("{}:{}", world.text("bin"), crate::harness::PATHS);
    // Root hears that the nodes in /dev could not be made read-only without that right.
    let done = world.sh(["-w", "."], "cat .f* .d/* 2>/dev/null; ls -A .d").env("PATH", path).done().code(0).stdout("");
    if is_root() {
        done.stderr_has("device nodes of the host");
    } else {
        done.stderr("");
    }
    assert_eq!(world.read("starts").lines().count(), 2, "first the quick way");
}

/// What is hidden stays so in the next run, whatever a run does to the directories above.
#[test]
fn no_name_given_to_a_directory_above_opens_it() {
    let world = World::new();
    for name in [".env", ".ssh/id", "deep/.env", "deep/.cargo/credentials.toml", "objects/.env", "modules/.x/y"] {
        world.write(&format!("w/svc/{name}"), "s3cret\n");
    }
    for name in ["plain", "deep/plain"] {
        world.write(&format!("w/svc/{name}"), "plain\n");
    }
    let look = "cat $(find . -type f) 2>/dev/null | sort -u";
    world.sh(["-w", "."], look).done().is(0, "plain\n", "");
    world.call("sh", ["-c", look]).done().is(0, "plain\ns3cret\n", "");
    // A name alone makes no repository, nor do the parts of one.
    let parts = "mkdir -p x/y && mv svc x/y/.git && mkdir x/y/.git/refs && echo ref: refs/heads/m >x/y/.git/HEAD";
    world.sh(["-w", "."], parts).done().is(0, "", "");
    assert!(world.has("w/x/y/.git/deep/.env") && !world.has("w/svc"));
    for options in [&["-w", "."][..], &["-p", "build"], &[], &["-w", "x/y"], &["-w", "x/y/.git"], &["-q", "-r", "/"]] {
        world.sh(options, look).done().code(0).stdout_lacks("s3cret");
    }
    // What is hidden for the sake of a directory's name stays below that name.
    world.write("w/.config/gh/hosts.yml", "s3cret\n");
    world.write("w/a/.devcontainer/a.env", "s3cret\n");
    world.write("w/a/.devcontainer/b", "plain\n");
    for from in [".config", ".config/gh", "a/.devcontainer"] {
        let done = world.sh(["-w", "."], &format!("mv {from} moved")).done();
        assert_ne!(done.code, Some(0), "{from}");
        assert!(world.has(&format!("w/{from}")));
        world.sh(["-w", "."], look).done().code(0).stdout_lacks("s3cret");
    }
    // The control: the directory above it goes, with the name.
    world.sh(["-w", "."], "mkdir b && mv a b/a").done().is(0, "", "");
    world.sh(["-w", "."], "cat b/a/.devcontainer/*").done().is(0, "plain\n", "");
    world.sh(["-w", "."], look).done().code(0).stdout_has("plain").stdout_lacks("s3cret");
}
