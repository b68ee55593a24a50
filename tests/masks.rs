//! Masks and protects: no other name leads past them, nobody inside removes them, and the host keeps no trace of them.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::harness::{Call, Done, World, has_landlock, is_root, usable};

/// Runs the call and finds the world as it was before.
#[track_caller]
fn untouched(world: &World, call: Call) -> Done {
    let before = world.snapshot();
    let done = call.done();
    assert_eq!(world.snapshot(), before, "the host's files changed");
    done
}

/// Everything about what lies at `name` and below.
fn part(world: &World, name: &str) -> Vec<String> {
    let top = world.path(name);
    world.snapshot().into_iter().filter(|(path, _)| path.starts_with(&top)).map(|(_, text)| text).collect()
}

#[test]
fn a_mask_is_an_empty_file_or_directory() {
    let world = World::new();
    world.write("o/m", "s3cret\n");
    world.write("o/d/f", "s3cret\n");
    let o = world.text("o");
    let masks = ["--mask", "m", "--mask", "d"];
    let look = "cat m; stat -c %F m d; ls -A d; wc -c <m";
    for grant in ["-r", "-w"] {
        let options = [grant, &o].into_iter().chain(masks);
        let call = world.sh(options.clone(), look).cwd(&o);
        untouched(&world, call).is(0, "regular empty file\ndirectory\n0\n", "");
        for change in [
            "echo x >m",
            "echo x >>m",
            "rm -f m",
            "mv m n",
            "chmod 777 m",
            "touch -d @5 m",
            "truncate -s 5 m",
            "umount m",
            "touch d/x",
            "mkdir d/x",
            "rm -r d",
            "rmdir d",
            "mv d e",
            "chmod 777 d",
            "umount d",
            "mount -o remount,rw d",
        ] {
            let done = untouched(&world, world.sh(options.clone(), change).cwd(&o));
            assert_ne!(done.code, Some(0), "{grant} {change}");
        }
    }
    world.sh(["-r", &o], "cat m; ls -A d").cwd(&o).done().is(0, "s3cret\nf\n", "");
    // Other kinds of file, by the same means.
    let _socket = UnixListener::bind(world.path("o/socket")).unwrap();
    world.call("mkfifo", [world.path("o/fifo")]).done().is(0, "", "");
    let words = ["-w", ".", "--mask", "socket", "--mask", "fifo"];
    untouched(&world, world.sh(words, "cat socket fifo; stat -c %F socket fifo").cwd(&o)).is(
        0,
        "regular empty file\nregular empty file\n",
        "",
    );
}

#[test]
fn what_does_not_exist_leaves_no_trace() {
    let world = World::new();
    let rules =
        ["--mask", "~/.aws", "--mask", ".env", "--protect", ".git/hooks", "--deny-socket", "sock", "--mask", "/none/x"];
    let grants = [vec![], vec!["-w", "."], vec!["-w", ".", "-w", "~"], vec!["-r", "/", "--show-hidden", "*"]];
    let backends = usable(["bwrap", "landlock"]);
    let all = backends.flat_map(|backend| grants.clone().map(|grants| [vec!["-b", backend], grants].concat()));
    for grants in all {
        let words = || grants.iter().copied().chain(rules).chain(["true"]);
        for _ in 0..2 {
            untouched(&world, world.run(words())).is(0, "", "");
        }
        let done = untouched(&world, world.run(["-v"].into_iter().chain(words()))).code(0);
        for name in ["/.aws' (--mask)", "/.env' (--mask)", "/.git/hooks' (--protect)", "/sock' (--deny-socket)"] {
            assert!(done.stderr.contains(&format!("{name} does not exist")), "{name}: {}", done.stderr);
        }
        let before = world.snapshot();
        let two = [world.run(words()).spawn(), world.run(words()).spawn()];
        for run in two {
            run.done().is(0, "", "");
        }
        assert_eq!(world.snapshot(), before);
    }
    // What is missing can be made, as the note says.
    world.sh(["-w", ".", "--mask", ".env"], "echo mine >.env; cat .env").done().is(0, "mine\n", "");
    assert_eq!(world.read("w/.env"), "mine\n");
}

#[test]
fn two_runs_at_once_with_the_same_rules() {
    let world = World::new();
    world.write("w/p/f", "host\n");
    world.write("w/p/m", "s3cret\n");
    world.write("w/d/f", "s3cret\n");
    let words = ["-w", ".", "--mask", "p/m", "--mask", "d", "--protect", "p/f"];
    let before = world.snapshot();
    let script = "cat p/m p/f; ls -A d; sleep 0.2; cat p/m p/f; ls -A d";
    let runs: Vec<_> = (0..6).map(|_| world.sh(words, script).spawn()).collect();
    for run in runs {
        run.done().is(0, "host\nhost\n", "");
    }
    assert_eq!(world.snapshot(), before);
}

#[test]
fn a_killed_run_leaves_no_trace() {
    let world = World::new();
    world.write("w/p/m", "s3cret\n");
    world.write("w/p/f", "host\n");
    let words = ["-w", ".", "--mask", "p/m", "--protect", "p/f", "--mask", "none", "--protect", "p/none"];
    for script in ["kill -9 $$", "sleep 60"] {
        let before = world.snapshot();
        let run = world.sh(words, script).spawn();
        if script.starts_with("sleep") {
            std::thread::sleep(std::time::Duration::from_millis(100));
            run.signal(nix::sys::signal::Signal::SIGKILL);
            assert_eq!(run.done().signal, Some(9));
        } else {
            run.done().is(137, "", "");
        }
        assert_eq!(world.snapshot(), before);
    }
}

/// Prints what it reads by each name of the file `argv[1]` in the working directory.
const NAMES: &str = r"
import ctypes, os, struct, subprocess, sys
s = sys.argv[1]; here = os.getcwd()
def by(name, read):
    try: text = read()
    except (OSError, subprocess.CalledProcessError): text = ''
    print(name, text.strip() or '-')
def plain(path): return lambda: open(path).read()
def openat2():
    how = struct.pack('QQQ', os.O_RDONLY, 0, 0)
    fd = ctypes.CDLL(None, use_errno=True).syscall(437, -100, s.encode(), how, len(how))
    if fd < 0: raise OSError(ctypes.get_errno(), 'openat2')
    return os.read(fd, 99).decode()
def o_path():
    fd = os.open(s, os.O_PATH)
    return open(f'/proc/self/fd/{fd}').read()
def run(*words): return lambda: (subprocess.run(words, check=True, stderr=subprocess.DEVNULL), open('t').read())[1]
for name in [f'x/../{s}', f'.//{s}', here + '/' + s, 'link-' + s, f'/proc/self/root{here}/{s}', f'/proc/self/cwd/{s}', f'/proc/1/root{here}/{s}', f'/proc/1/cwd/{here}/{s}']:
    by(name.replace(here, ''), plain(name))
by('openat2', openat2)
by('O_PATH', o_path)
by('cp', run('cp', '--reflink=auto', s, 't')); subprocess.run(['rm', '-f', 't'])
by('ln', run('ln', s, 't')); subprocess.run(['rm', '-f', 't'])
by('mv', run('mv', s, 't'))
";

#[test]
fn no_other_name_leads_past_a_mask() {
    let world = World::new();
    world.dir("w/x");
    world.write("w/n", "plain\n");
    world.write("w/s", "s3cret\n");
    world.link("w/link-s", "s");
    world.link("w/link-n", "n");
    let call = |name: &str| world.run(["-w", ".", "--mask", "s", "python3", "-c", NAMES, name]);
    let done = call("s").done().code(0).stderr("");
    assert_eq!(done.out().lines().count(), 13, "{}", done.out());
    assert!(done.out().lines().all(|line| line.ends_with(" -")), "{}", done.out());
    assert_eq!(world.read("w/s"), "s3cret\n");
    // The control: each way but PID 1, which belongs to the sandbox, leads to an ordinary file.
    let done = call("n").done().code(0).stderr("");
    let (init, ways): (Vec<_>, Vec<_>) =
        done.out().lines().map(String::from).partition(|line| line.starts_with("/proc/1/"));
    // Root is told that there is no openat2.
    let leads = |line: &String| line.ends_with(" plain") || (is_root() && line == "openat2 -");
    assert!(ways.len() == 11 && ways.iter().all(leads), "{ways:?}");
    assert!(init.iter().all(|line| line.ends_with(" -")), "{init:?}");
    if !has_landlock() {
        return;
    }
    fs::remove_file(world.path("w/t")).unwrap();
    world.write("w/n", "plain\n");
    // Where the working directory can only be read, since no mask is kept beside what can be written; with a private directory as `t`.
    let call = |name: &str| {
        let names = NAMES.replace("'t'", "os.environ['TMPDIR'] + '/t'");
        world.run(["-b", "landlock", "--mask", "s", "python3", "-c", &names, name])
    };
    let done = call("s").done().code(0).stderr("");
    assert_eq!(done.out().lines().count(), 13, "{}", done.out());
    assert!(done.out().lines().all(|line| line.ends_with(" -")), "{}", done.out());
    let done = call("n").done().code(0).stderr("");
    let ways: Vec<_> = done.out().lines().filter(|line| line.ends_with(" plain")).map(str::to_owned).collect();
    assert!(ways.len() >= 7, "{}", done.out());
}

#[test]
fn a_second_hard_link_is_never_passed_over_in_silence() {
    let world = World::new();
    world.write("w/s", "s3cret\n");
    fs::hard_link(world.path("w/s"), world.path("w/t")).unwrap();
    for rule in ["--mask", "--protect"] {
        let done = world.run(["-w", ".", rule, "s", "true"]).done().code(0);
        assert!(
            done.stderr.contains(&world.text("w/s")) && done.stderr.contains("hard link"),
            "{rule}: {}",
            done.stderr
        );
    }
    fs::remove_file(world.path("w/t")).unwrap();
    for rule in ["--mask", "--protect"] {
        world.run(["-w", ".", rule, "s", "true"]).done().is(0, "", "");
    }
}

/// A rule about the directory covers the name in it.
#[test]
fn a_second_hard_link_below_a_rule_is_told() {
    let world = World::new();
    world.write("w/tools/a/x", "mine\n");
    world.write("w/tools/plain", "mine\n");
    fs::hard_link(world.path("w/tools/a/x"), world.path("w/y")).unwrap();
    // All names of this one are covered.
    fs::hard_link(world.path("w/tools/plain"), world.path("w/tools/a/plain")).unwrap();
    for rule in ["--mask", "--protect"] {
        for at in ["tools", "tools/a"] {
            let done = world.run(["-w", ".", rule, at, "true"]).done().code(0);
            let done = done.stderr_has("further names on the host (hard links)").stderr_has(&world.text("w/tools/a/x"));
            assert!(at == "tools/a" || !done.stderr.contains("plain"), "{}", done.stderr);
            assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
        }
    }
    // What it is told of.
    world.sh(["-q", "-w", ".", "--protect", "tools"], "echo evil >>y; echo evil >>tools/a/x").done().code(2);
    assert_eq!(world.read("w/tools/a/x"), "mine\nevil\n");
    fs::remove_file(world.path("w/y")).unwrap();
    world.run(["-w", ".", "--protect", "tools", "true"]).done().is(0, "", "");
    // What git obeys is protected without a word of anybody.
    world.call("sh", ["-ec", "git init -q . && mkdir -p .git/hooks && echo x >.git/hooks/pre-commit"]).done().code(0);
    world.run(["-w", ".", "true"]).done().is(0, "", "");
    fs::hard_link(world.path("w/.git/hooks/pre-commit"), world.path("w/y")).unwrap();
    world.run(["-w", ".", "true"]).done().code(0).stderr_has(&world.text("w/.git/hooks/pre-commit"));
    // Where there is too much to look at, that is said as well.
    for number in 0..10_001 {
        fs::File::create(world.path(&format!("w/tools/{number}"))).unwrap();
    }
    let done = world.run(["-v", "-w", ".", "--protect", "tools", "true"]).done().code(0);
    done.stderr_has("not searched to the end for files with further names (hard links), after 10000 entries");
}

#[test]
fn masks_and_protects_by_a_link_hold_at_its_end() {
    let world = World::new();
    world.write("w/real/s", "s3cret\n");
    world.write("w/real/open", "plain\n");
    world.link("w/l", "real/s");
    world.link("w/dir", "real");
    world.link("w/abs", world.path("w/real/s"));
    for mask in ["l", "dir/s", "abs", "dir/../real/./s"] {
        for grant in ["-r", "-w"] {
            let call = world.sh([grant, ".", "--mask", mask], "cat l dir/s abs real/s; cat dir/open");
            untouched(&world, call).is(0, "plain\n", "");
        }
    }
    untouched(&world, world.sh(["-q", "-r", "/", "--mask", "/bin/awk"], "wc -c </usr/bin/awk; wc -c </bin/awk"))
        .is(0, "0\n0\n", "");
    // Who can write the directory of a link gives its name to something else, so such a protect would promise too much.
    for protect in ["l", "dir/s", "abs"] {
        let call = world.run(["-w", ".", "--protect", protect, "true"]);
        untouched(&world, call).refused(125, &[protect.split('/').next().unwrap(), &world.text("w/real")]);
    }
    let call = world.sh(["-w", "real", "--protect", "l"], "cat l; echo x >l");
    untouched(&world, call).code(2).stdout("s3cret\n").stderr_has("Read-only");
}

#[test]
fn hooks_behind_a_link() {
    let world = World::new();
    world.dir("o/shared");
    world.write("w/real/x", "");
    world.link("w/.git", "real");
    world.link("w/real/hooks", world.path("o/shared"));
    let refused = world.run(["-w", ".", "--protect", ".git/hooks", "true"]);
    untouched(&world, refused).refused(125, &[&world.text("w/.git"), &world.text("o/shared")]);
    // Nor is that left open in silence when nobody asks: what git runs on the host is protected by default.
    let refused = world.run(["-w", ".", "true"]);
    untouched(&world, refused).refused(125, &[&world.text("w/.git"), &world.text("w/real")]).stderr_has("--write");
    // Accepted by name, the link still leads nowhere.
    let script = "echo x >.git/hooks/h; rm .git; mkdir -p .git/hooks; echo y >real/x";
    world.sh(["-w", ".", "-w", ".git"], script).done().code(0).stderr_has("cannot create");
    assert_eq!(fs::read_dir(world.path("o/shared")).unwrap().count(), 0);
    assert_eq!(world.read("w/real/x"), "y\n");
}

/// What can be done to the file `p` beside the file `n` and the link `l`.
const TO_A_FILE: &[&str] = &[
    "echo x >p",
    "echo x >>p",
    "truncate -s 0 p",
    "rm -f p",
    "mv p q",
    "mv -f n p",
    "ln -f n p",
    "chmod 777 p",
    "touch -d @5 p",
    "echo x >l",
    "echo x >../w/p",
    "ln p hard && echo x >hard",
    "exec 3<p && echo x >/proc/self/fd/3",
    "cp -f n p",
    "python3 -c \"import os; os.rename('n', 'p')\"",
    "sed -i s/host/new/ p",
    "python3 -c \"import ctypes; exit(ctypes.CDLL(None).renameat2(-100, b'n', -100, b'p', 2) != 0)\"",
];

/// The same for a directory `p` that holds a file `f` and a directory `d`.
const TO_A_DIRECTORY: &[&str] = &[
    "rm -rf p",
    "mv p q",
    "rmdir p/d",
    "mkdir p/new",
    "touch p/new",
    "echo x >p/f",
    "echo x >l/f",
    "rm -f p/f",
    "mv p/f .",
    "mv n p/",
    "chmod 700 p",
    "chmod 700 p/f",
    "touch -d @5 p",
    "ln n p/hard",
    "ln -s n p/soft",
    "mkfifo p/fifo",
    "exec 3<p/f && echo x >/proc/self/fd/3",
    "ln p/f hard && echo x >hard",
    "python3 -c \"import os; os.mkdir('e'); os.rename('p', 'e')\"",
    "python3 -c \"import ctypes; exit(ctypes.CDLL(None).renameat2(-100, b'n', -100, b'p', 2) != 0)\"",
];

/// The tree that these commands are for.
fn protected(directory: bool) -> World {
    let world = World::new();
    if directory {
        world.write("w/p/f", "host\n");
        world.dir("w/p/d");
    } else {
        world.write("w/p", "host\n");
    }
    world.write("w/n", "neighbour\n");
    world.link("w/l", "p");
    world
}

#[test]
fn a_protected_path_cannot_be_changed_in_any_way() {
    for (directory, changes) in [(false, TO_A_FILE), (true, TO_A_DIRECTORY)] {
        let world = protected(directory);
        let before = part(&world, "w/p");
        for change in changes {
            let done = world.sh(["-w", ".", "--protect", "p"], change).done();
            assert_ne!(done.code, Some(0), "{change}: {}", done.stderr);
            assert_eq!(part(&world, "w/p"), before, "{change}");
            // A sibling can be written, and reading stays.
            let file = if directory { "p/f" } else { "p" };
            let rest = "rm -rf e hard; echo neighbour >n; cat ";
            world.sh(["-w", ".", "--protect", "p"], &format!("{rest}{file}")).done().is(0, "host\n", "");
            protected(directory).sh(["-w", "."], change).done().code(0);
        }
    }
}

#[test]
fn parents_of_a_rule_stay_in_place() {
    let tree = || {
        let world = World::new();
        world.write("w/a/b/hooks/pre", "host\n");
        world.write("w/a/b/s", "s3cret\n");
        world.write("w/a/b/lib/x", "host\n");
        world.write("w/other/b/x", "");
        world
    };
    let hooks = "mkdir -p a/b/hooks && echo evil >a/b/hooks/pre";
    let rename = |from: &str, to: &str, flags: u32| {
        format!(
            "python3 -c \"import ctypes; exit(ctypes.CDLL(None).renameat2(-100, b'{from}', -100, b'{to}', {flags}) != 0)\""
        )
    };
    let renames = [
        rename("a", "z", 0),
        rename("a/b", "y", 0),
        rename("a/b", "a/y", 0),
        rename("a", "other/a", 0),
        rename("a", "other", 2),
        rename("a/b", "other/b", 2),
    ];
    let world = tree();
    let before = world.snapshot();
    for grants in [&["-w", "."][..], &["-w", ".", "-w", "a/b"], &["-w", ".", "-w", "a"]] {
        for (rule, path) in [("--protect", "a/b/hooks"), ("--mask", "a/b/s"), ("-r", "a/b/lib")] {
            let options = || grants.iter().copied().chain([rule, path]);
            for change in &renames {
                let done = world.sh(options(), &format!("{change} || exit 3; {hooks}; exit 0")).done();
                assert_eq!(done.code, Some(3), "{grants:?} {rule} {change}: {}", done.stderr);
                assert_eq!(world.snapshot(), before, "{grants:?} {rule} {change}");
            }
            // mv(1) and rm(1) do what can be done: what the rule is about stays.
            for change in ["mv a z", "mv a/b y", "rm -rf a"] {
                let world = tree();
                let kept = part(&world, &format!("w/{path}"));
                let done =
                    world.sh(options(), &format!("{change}; {hooks}; cat a/b/s */b/s y/s; exit 0")).done().code(0);
                if rule == "--protect" || rule == "-r" {
                    assert_eq!(part(&world, &format!("w/{path}")), kept, "{grants:?} {rule} {change}");
                } else {
                    done.stdout("");
                    assert_eq!(world.read(&format!("w/{path}")), "s3cret\n", "{grants:?} {change}");
                }
            }
        }
    }
    // Without a rule each works.
    for change in &renames {
        tree().sh(["-w", "."], &format!("{change} && {hooks}")).done().is(0, "", "");
    }
    let words = ["-w", ".", "--protect", "a/b/hooks"];
    world.sh(words, "mv other z && mv z other && touch a/b/new a/new").done().is(0, "", "");
}

#[test]
fn deeper_grants_show_through_a_mask() {
    let world = World::new();
    for name in [".cfg/secret", ".cfg/sub/secret", ".cfg/tool/data", ".cfg/tool/state/old", ".cfg/tool/secret"] {
        world.write(&format!("home/{name}"), "text\n");
    }
    world.script(
        "home/.cfg/tool/t",
        "#!/bin/sh\ncd ~/.cfg; find . -type f | sort | tr '\\n' ' '; cat secret sub/secret 2>/dev/null\n\
         touch x sub/x tool/x 2>/dev/null; find . -name x; touch tool/state/x && echo written; echo y >>tool/state/old\n",
    );
    let cfg = world.text("home/.cfg");
    let words = ["--mask", &cfg, "-r", "~/.cfg/tool", "-w", "~/.cfg/tool/state", "--mask", "~/.cfg/tool/secret"];
    let target = world.text("home/.cfg/tool/t");
    let seen = "./tool/data ./tool/secret ./tool/state/old ./tool/t written\n";
    // Over the private HOME, over a read grant, over a write grant.
    for wider in [vec![], vec!["-r", "~"], vec!["-w", "~"], vec!["-q", "-r", "/"]] {
        world.run(wider.iter().copied().chain(words).chain([target.as_str()])).done().is(0, seen, "");
        assert!(world.has("home/.cfg/tool/state/x") && !world.has("home/.cfg/x") && !world.has("home/.cfg/tool/x"));
        fs::remove_file(world.path("home/.cfg/tool/state/x")).unwrap();
    }
    assert_eq!(world.read("home/.cfg/tool/state/old").lines().count(), 5);
    world.sh(["-r", "~/.cfg"], "cat ~/.cfg/secret ~/.cfg/sub/secret ~/.cfg/tool/data").done().is(
        0,
        "text\ntext\ntext\n",
        "",
    );
}

#[test]
fn a_mask_of_the_target_says_how_to_show_it() {
    let world = World::new();
    let tool = world.script("o/tool", "#!/bin/sh\necho ran\n");
    let (o, tool) = (world.text("o"), tool.to_str().unwrap().to_owned());
    for (mask, grant) in [(&o, None), (&tool, None), (&o, Some(&o)), (&tool, Some(&o))] {
        let grant = grant.map_or(vec![], |path| vec!["-r", path.as_str()]);
        let words = grant.iter().copied().chain(["--mask", mask, &tool]);
        let done = untouched(&world, world.run(words)).refused(127, &[&tool, mask, "hidden"]);
        // A grant at the path of the mask would not win.
        if mask == &tool {
            done.stderr_lacks("--read")
        } else {
            done.stderr_has("--read")
        };
    }
    world.run(["--mask", &o, "-r", &tool, &tool]).done().is(0, "ran\n", "");
    world.run([&tool]).done().is(0, "ran\n", "");
}

/// 150 masked files, masked directories and protected directories in `w`, each with what it holds, and the options for them.
pub fn hundreds_of_rules(world: &World) -> Vec<String> {
    let mut words: Vec<String> = vec!["-w".into(), ".".into()];
    for number in 0..150 {
        world.write(&format!("w/m{number}"), "s3cret\n");
        world.write(&format!("w/d{number}/f"), "s3cret\n");
        world.write(&format!("w/p{number}/f"), "plain\n");
        for (option, name) in [("--mask", "m"), ("--mask", "d"), ("--protect", "p")] {
            words.extend([option.into(), format!("{name}{number}")]);
        }
    }
    words
}

#[test]
fn hundreds_of_rules_at_once() {
    let world = World::new();
    let words = hundreds_of_rules(&world);
    let script = "cat m* d*/f 2>/dev/null; cat p*/f | wc -l; for p in p*; do touch $p/x; done 2>&1 | grep -c Read-only";
    untouched(&world, world.sh(words, script)).is(0, "150\n150\n", "");
    assert!(!Path::new("/oldroot").exists());
}
