//! What a command closes or fills in one run, so that the next cannot look: nothing gets seen or written by that.
//!
//! Two runs with the same grant, the first of which prepares the second. The owner of a directory can always open it again.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::git::outside;
use crate::harness::{Call, World, has, is_root};

/// Without a right that a look needs.
const MODES: [u32; 8] = [0o600, 0o400, 0o444, 0o644, 0o666, 0o000, 0o200, 0o311];

/// Lets everybody in again: the run itself may not.
fn open(world: &World, name: &str) {
    fs::set_permissions(world.path(name), Permissions::from_mode(0o755)).unwrap();
}

fn close(world: &World, name: &str, mode: u32) {
    fs::set_permissions(world.path(name), Permissions::from_mode(mode)).unwrap();
}

/// A run with a write grant of everything in `w`.
fn run(world: &World, script: &str) -> Call {
    world.sh(["-w", "."], script)
}

#[test]
fn a_closed_directory_is_hidden_as_a_whole() {
    let world = World::apart();
    for name in ["w/d/.env", "w/d/e/.env", "w/d/plain"] {
        world.write(name, "s3cret\n");
    }
    let look = "chmod 755 d; cat d/.env; cat d/e/.env; ls d >&2; true";
    for mode in MODES {
        for closed in ["d", "d/e"] {
            run(&world, &format!("chmod {mode:o} {closed}")).done().is(0, "", "");
            assert_eq!(fs::metadata(world.path("w").join(closed)).unwrap().mode() & 0o777, mode);
            run(&world, look).done().code(0).stdout("");
            // Without the grant nothing is different.
            world.sh([""; 0], look).done().code(0).stdout("");
            open(&world, &format!("w/{closed}"));
        }
    }
    // The controls: open, it is shown without that name, and the name is there for whoever may see it.
    run(&world, "cat d/plain d/.env").done().is(0, "s3cret\n", "");
    world.sh(["-w", ".", "--show-hidden", ".env"], "cat d/.env").done().is(0, "s3cret\n", "");
}

#[test]
fn a_closed_grant_is_refused() {
    let world = World::apart();
    world.write("o/in/.env", "s3cret\n");
    let options = |access: &'static str| [access.to_owned(), world.text("o/in")];
    for access in ["-r", "-w"] {
        for mode in [0o600, 0o444, 0o000] {
            close(&world, "o/in", mode);
            let done = world.sh(options(access), "true").done();
            open(&world, "o/in");
            let words = [&world.text("o/in"), "names that begin with a dot", "permission denied"];
            done.refused(125, &words).stderr_has("hint: chmod u+rx");
        }
        world.sh(options(access), &format!("cat {}/.env", world.text("o/in"))).done().is(0, "", "");
    }
}

#[test]
fn a_closed_place_of_secrets_is_hidden() {
    let world = World::apart();
    world.write("home/.config/gh/hosts.yml", "s3cret\n");
    let home = world.text("home");
    let options = ["-w", &home, "--show-hidden", "*"];
    let look = "chmod 755 ~/.config; cat ~/.config/gh/hosts.yml; true";
    for mode in [0o600, 0o444, 0o000] {
        world.sh(options, &format!("chmod {mode:o} ~/.config")).done().is(0, "", "");
        world.sh(options, look).done().code(0).stdout("");
        open(&world, "home/.config");
    }
    let shown = [&options[..], &["-r", "~/.config/gh"]].concat();
    world.sh(shown, look).done().is(0, "s3cret\n", "");
}

/// Inside, root is not above permissions: it can neither see what lies there nor could a mount be put over it.
#[test]
fn root_starts_beside_what_others_have_closed() {
    if !is_root() {
        eprintln!("not tried: only root finds names there");
        return;
    }
    let world = World::apart();
    world.write("w/of/p/.env", "s3cret\n");
    for path in ["w/of", "w/of/p", "w/of/p/.env"] {
        std::os::unix::fs::chown(world.path(path), Some(1000), Some(1000)).unwrap();
    }
    for (mode, rest) in [(0o700, "cat of/p/.env; true"), (0o711, "cat of/p/.env")] {
        close(&world, "w/of", mode);
        for options in [&[][..], &["-r", "."], &["-w", "."]] {
            world.sh(options.iter().copied(), &format!("echo in; {rest}")).done().code(0).stdout("in\n");
        }
    }
}

/// Repositories of every kind: a submodule, a linked worktree, one in a directory.
fn repositories() -> World {
    let world = World::apart();
    let script = "git init -q -b main ../o/repo; git -C ../o/repo commit -q --allow-empty -m one
        git init -q -b main . ; git commit -q --allow-empty -m one
        git -c protocol.file.allow=always submodule --quiet add ../o/repo sub; git commit -q -m sub
        git worktree add -q -b wt wt; git init -q -b main nested/repo
        touch .git/info/attributes .git/worktrees/wt/config.worktree";
    outside(&world, script);
    world
}

/// What git obeys in them.
const OBEYED: [&str; 8] = [
    ".git/config",
    ".git/info/attributes",
    ".git/hooks/pre-commit.sample",
    ".git/modules/sub/config",
    ".git/worktrees/wt/gitdir",
    ".git/worktrees/wt/config.worktree",
    "nested/repo/.git/config",
    "sub/.git",
];

#[test]
fn what_is_closed_in_a_repository_is_not_written() {
    if !has("git") {
        return;
    }
    let world = repositories();
    let texts = || OBEYED.map(|name| fs::read_to_string(world.path("w").join(name)).unwrap());
    let before = texts();
    let append = OBEYED.map(|name| format!("echo '# x' >>{name}")).join("; ");
    let closed = [
        ".git",
        ".git/info",
        ".git/modules",
        ".git/modules/sub",
        ".git/worktrees",
        ".git/worktrees/wt",
        "nested",
        "nested/repo",
        "nested/repo/.git",
        "sub",
    ];
    for name in closed {
        for mode in [0o600, 0o000, 0o311] {
            run(&world, &format!("chmod {mode:o} {name}")).done().code(0);
            let done = run(&world, &format!("chmod 755 {name}; {append}; true")).done();
            open(&world, &format!("w/{name}"));
            assert_eq!(texts(), before, "{name} {mode:o}\n{}", done.stderr);
            done.code(0);
        }
    }
    // Without the search for names it is the same.
    for mode in [0o600, 0o000] {
        close(&world, "w/.git", mode);
        let script = "chmod 755 .git; echo '# x' >>.git/config; true";
        let done = world.sh(["-w", ".", "--show-hidden", "*"], script).done();
        open(&world, "w/.git");
        assert_eq!(texts(), before);
        done.code(0).stderr_has("nothing in it can be written").stderr_has("chmod u+rwx");
    }
    // The control: nothing else keeps them from being written.
    outside(&world, &append);
    let after = texts();
    assert!(after.iter().zip(&before).all(|(now, then)| now != then));
}

/// Which directory it names cannot be known then; root reads it all the same.
#[test]
fn a_closed_dot_git_file_stops_the_run() {
    if !has("git") {
        return;
    }
    let world = World::apart();
    outside(&world, "git init -q -b main --separate-git-dir gd .");
    let config = world.read("w/gd/config");
    close(&world, "w/.git", 0o000);
    let done = run(&world, "echo '# x' >>gd/config; true").done();
    close(&world, "w/.git", 0o644);
    assert_eq!(world.read("w/gd/config"), config);
    if is_root() {
        done.code(0);
    } else {
        done.refused(125, &[&world.text("w/.git"), "permission denied"]).stderr_has("hint: chmod u+r");
    }
    run(&world, "echo '# x' >>gd/config; git status --short").done().code(0).stderr_has("gd/config: Read-only");
}

#[test]
fn no_name_that_a_command_makes_ends_the_search_early() {
    for (place, prepare) in [("aaa", "touch CACHEDIR.TAG"), ("node_modules", "true"), ("d/vendor", "true")] {
        let world = World::apart();
        outside(&world, "git init -q -b main d/repo");
        world.write("w/d/x/.env", "s3cret\n");
        let config = world.read("w/d/repo/.git/config");
        let with = |max: &'static str, script: &str| world.sh(["--hidden-scan-max", max, "-w", "."], script).done();
        let fill = format!("{prepare}; mkdir {place}; cd {place}; seq 60 | xargs touch");
        with("40", &fill).is(0, "", "");
        let moved = if place == "d/vendor" { "mv d/x d/vendor" } else { "true" };
        with("400", moved).code(0);
        let look = "cat */.env */*/.env */*/*/.env 2>/dev/null; echo x >>d/repo/.git/config; true";
        with("40", look).refused(125, &["more than 40 entries", "--hidden-scan-max"]);
        // The control: a search that ends finds both.
        with("400", look).code(0).stdout("");
        assert_eq!(world.read("w/d/repo/.git/config"), config);
    }
}

/// Directories of dependencies and build results are large, and ordinary.
#[test]
fn tens_of_thousands_of_entries_are_searched_by_default() {
    let world = World::apart();
    world.write("w/node_modules/last/.env", "s3cret\n");
    for package in 0..60 {
        let directory = world.dir(&format!("w/node_modules/p{package}"));
        for file in 0..1000 {
            fs::hard_link(world.path("o/secret"), directory.join(file.to_string())).unwrap();
        }
    }
    run(&world, "cat node_modules/last/.env").done().is(0, "", "");
    world.sh(["--hidden-scan-max", "50000", "-w", "."], "true").done().refused(125, &["more than 50000 entries"]);
}

/// Step by step whoever is inside goes further than any path.
#[test]
fn a_path_that_is_too_long_hides_nothing_from_the_search() {
    if !has("python3") {
        return;
    }
    // Directories of 200 bytes and a slash each, and one more that makes the length exact.
    let walk = "import os, sys\ntop, length, what = os.getcwd(), int(sys.argv[1]), sys.argv[2]\nat = len(top)\n\
        def step(name):\n    if what == 'make': os.mkdir(name)\n    os.chdir(name)\n\
        while length - at > 250:\n    step('n' * 200)\n    at += 201\n\
        step('m' * (length - at - 1))\n\
        if what == 'make': open('.env', 'w').write('s3cret')\n\
        else: print(open('.env').read())\n";
    for length in [3700, 3800, 3801, 4000, 4089, 4090, 4091, 4095, 4096, 4097, 6000] {
        let world = World::apart();
        let length = length.to_string();
        let python = |what: &str| world.run(["-w", ".", "--", "python3", "-c", walk, length.as_str(), what]).done();
        python("make").is(0, "", "");
        let done = python("read");
        assert!(!done.out().contains("s3cret"), "{length}: {}", done.stderr);
        assert!(!done.stderr.contains("sandbox-run: "), "{length}: {}", done.stderr);
        let shown = ["-w", ".", "--show-hidden", "*", "--", "python3", "-c", walk, &length, "read"];
        world.run(shown).done().is(0, "s3cret\n", "");
    }
}

#[test]
fn no_hint_opens_what_a_link_leads_to() {
    let world = World::apart();
    outside(&world, "git init -q -b main in; git init -q -b main ../o/out");
    world.dir("w/x");
    world.link("w/x/.git", world.path("o/out/.git"));
    let done = run(&world, "true").done().refused(125, &["is a link to", &world.text("o/out/.git")]);
    assert!(!done.stderr.contains("--write"), "{}", done.stderr);
    done.stderr_has("hint: a command may have made the link");
    // The control: to something that can be written anyway a grant adds nothing but consent.
    fs::remove_file(world.path("w/x/.git")).unwrap();
    world.link("w/x/.git", "../in/.git");
    run(&world, "true").done().refused(125, &["is a link to"]).stderr_has("hint: --write");
    world.sh(["-w", ".", "-w", "x/.git"], "true").done().code(0);
}
