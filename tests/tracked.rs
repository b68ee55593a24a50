//! Hidden names that git tracks: shown as long as they are what git has, so that git inside finds nothing changed; and what
//! nobody can show by putting names into an index.

use std::fs;

use crate::git::{inside, outside};
use crate::harness::{World, skip};

const IGNORED: &str = "/.token\n/.tool/secret\n";

/// A repository in `w` that tracks hidden names of all kinds, beside some that it ignores.
fn world(init: &str) -> World {
    let world = World::new();
    let files = [
        (".gitignore", IGNORED),
        (".tool.yml", "setting\n"),
        (".empty", ""),
        (".tool/conf", "conf\n"),
        (".tool/.deep/x", "deep\n"),
        ("sub/.x", "x\n"),
        ("sub/plain", "plain\n"),
    ];
    for (name, text) in files {
        world.write(&format!("w/{name}"), text);
    }
    world.link("w/.link", "sub/plain");
    outside(&world, &format!("{init} && git add . && git commit -q -m one"));
    world.write("w/.token", "s3cret\n");
    world.write("w/.tool/secret", "s3cret\n");
    world
}

const INIT: &str = "git init -q -b main .";
const LOOK: &str = "cat .tool.yml .tool/conf .tool/.deep/x sub/.x .token .tool/secret; git status --porcelain";
const SHOWN: &str = "setting\nconf\ndeep\nx\n";

#[test]
fn git_finds_nothing_changed() {
    for index in ["", "git update-index --index-version 4", "touch i && git add -N i && git rm -q --cached i && rm i"] {
        let world = world(INIT);
        outside(&world, index);
        for options in [&[][..], &["-w", "."], &["-r", "."], &["-r", "/", "-q"]] {
            inside(&world, options.iter().copied(), LOOK).done().is(0, SHOWN, "");
        }
        let done = inside(&world, ["-w", ".", "-v"], "true").done().code(0);
        done.stderr_has("since git has the same: ").stderr_has(&format!("'{}'", world.text("w/.tool.yml")));
        // Nothing is committed as emptied.
        let commit = "git commit -q -a --allow-empty -m two && git diff --stat HEAD~";
        inside(&world, ["-w", "."], commit).done().is(0, "", "");
        assert_eq!(outside(&world, "git diff --stat HEAD~ && git status --porcelain"), "");
        // A file that is shown can be written like any other in the grant.
        inside(&world, ["-w", "."], "echo more >>.tool/conf && git add . && git commit -q -m three")
            .done()
            .is(0, "", "");
        inside(&world, ["-w", "."], "git status --porcelain; cat .tool/conf").done().is(0, "conf\nmore\n", "");
    }
}

#[test]
fn in_a_repository_of_the_other_object_format() {
    let world = world("git init -q -b main --object-format=sha256 .");
    inside(&world, ["-w", "."], LOOK).done().is(0, SHOWN, "");
}

#[test]
fn a_list_of_names_counts_alone() {
    let world = world(INIT);
    world.write("p.toml", "cwd_allow_hidden = ['.git', '.gitignore']\n");
    let policy = world.text("p.toml");
    let done = inside(&world, ["--policy", &policy], LOOK).done().code(0).stderr_lacks(".tool.yml");
    assert!(!done.out().contains("setting") && done.out().contains(" M .tool.yml"), "{}", done.out());
    world.write("p.toml", "cwd_allow_hidden = ['default', '.other']\n");
    inside(&world, ["--policy", &policy], LOOK).done().is(0, SHOWN, "");
    inside(&world, ["--show-hidden", ".other"], LOOK).done().is(0, SHOWN, "");
}

/// A command can put any name into the index, and any hash. It does not know the one of a file that it cannot read.
#[test]
fn no_index_shows_what_git_does_not_have() {
    let world = world(INIT);
    let blob = "$(echo guess | git hash-object -w --stdin)";
    for plant in [
        "git add -f .token .tool/secret".to_owned(),
        format!("git update-index --add --cacheinfo 100644,{blob},.token --cacheinfo 100644,{blob},.tool/secret"),
        format!("git update-index --add --cacheinfo 120000,{blob},.token --cacheinfo 160000,{blob},.tool/secret"),
    ] {
        if plant.starts_with("git add") {
            inside(&world, ["-w", "."], &plant).done().code(0).stderr_has("as empty ones");
        } else {
            // Such an index goes after the run, but for one that was killed.
            outside(&world, &plant);
        }
        let done = inside(&world, ["-w", "."], "cat .token .tool/secret .tool/conf").done().code(0).stdout("conf\n");
        if plant.contains("120000") {
            done.stderr("");
        } else {
            done.stderr_has("git tracks these hidden names with another content").stderr_has(&world.text("w/.token"));
        }
        inside(&world, ["-q", "-w", "."], "ls -A .tool").done().is(0, ".deep\nconf\nsecret\n", "");
    }
    // Who can write no commit hears of it with -v.
    outside(
        &world,
        "rm .git/index && git reset -q && git update-index --add --cacheinfo 100644,$(git rev-parse HEAD:sub/.x),.token",
    );
    inside(&world, [], "cat .token").done().is(0, "", "");
    inside(&world, ["-v"], "cat .token").done().code(0).stdout("").stderr_has("with another content");
    // The control: what git has is not worth hiding.
    outside(&world, "git add -f .token");
    inside(&world, [], "cat .token; git show :.token").done().is(0, "s3cret\ns3cret\n", "");
}

#[test]
fn a_file_that_was_changed_stays_hidden_and_is_told_of() {
    let world = world(INIT);
    world.write("w/.tool.yml", "setting\npassword\n");
    let warning = format!("(--show-hidden NAME shows one): '{}'\n", world.text("w/.tool.yml"));
    let done = inside(&world, ["-w", "."], "cat .tool.yml sub/.x").done().code(0).stdout("x\n");
    assert!(done.stderr.ends_with(&warning) && done.stderr.lines().count() == 1, "{}", done.stderr);
    inside(&world, ["-w", ".", "--show-hidden", ".tool.yml"], "cat .tool.yml").done().is(0, "setting\npassword\n", "");
    outside(&world, "git add .");
    inside(&world, ["-w", "."], "cat .tool.yml").done().is(0, "setting\npassword\n", "");
    // One that is gone is nothing to hide.
    fs::remove_file(world.path("w/.tool.yml")).unwrap();
    inside(&world, ["-w", "."], "git status --porcelain").done().is(0, "MD .tool.yml\n", "");
}

/// To git inside it looks removed.
#[test]
fn a_submodule_in_a_hidden_directory_is_told_of() {
    let world = world(INIT);
    outside(&world, "git init -q ../o/up && git -C ../o/up commit -q --allow-empty -m up");
    outside(
        &world,
        "git -c protocol.file.allow=always submodule --quiet add \"$PWD/../o/up\" .other/plug && git commit -q -m two",
    );
    let done = inside(&world, ["-w", "."], "ls .other").done().code(0).stdout("");
    done.stderr_has("'git commit -a' would commit that").stderr_has(&world.text("w/.other/plug"));
    inside(&world, ["-w", ".", "--show-hidden", ".other"], "ls .other; git status --porcelain")
        .done()
        .is(0, "plug\n", "");
}

#[test]
fn secrets_are_hidden_whatever_git_says() {
    let world = world(INIT);
    for name in [".env", ".npmrc", ".ssh/id", ".tool/.env", "sub/.aws/credentials"] {
        world.write(&format!("w/{name}"), "s3cret\n");
    }
    outside(&world, "git add -f . && git commit -q -m two");
    let look = "cat .env .npmrc .ssh/id .tool/.env sub/.aws/credentials 2>/dev/null; cat .tool/conf";
    inside(&world, [], look).done().is(0, "conf\n", "");
    // Whoever can commit hears what would be committed.
    let done = inside(&world, ["-w", "."], look).done().code(0).stdout("conf\n");
    done.stderr_has("'git commit -a' would commit that").stderr_has(&world.text("w/.npmrc"));
    let done =
        inside(&world, ["-v"], "true").done().code(0).stderr_has("git tracks these names, which are hidden as secrets");
    done.stderr_has(&world.text("w/.env")).stderr_has(&world.text("w/.ssh"));
    inside(&world, ["--show-hidden", ".env"], "cat .env .tool/.env .npmrc").done().is(0, "s3cret\ns3cret\n", "");
}

#[test]
fn an_index_that_cannot_be_read_tracks_nothing() {
    let world = world(INIT);
    let index = world.path("w/.git/index");
    let good = fs::read(&index).unwrap();
    let hidden = || {
        let done = world.sh(["-v"], "cat .tool.yml .tool/conf sub/.x 2>/dev/null").done().code(1).stdout("");
        done.stderr_has(&format!("'{}' was not asked which names it tracks: ", world.text("w/.git")));
    };
    for bad in [&b"DIRC"[..], b"", b"DIRC\0\0\0\x09\0\0\0\0", &[b'x'; 4096], &good[..good.len() / 2]] {
        fs::write(&index, bad).unwrap();
        hidden();
    }
    fs::remove_file(&index).unwrap();
    nix::unistd::mkfifo(&index, nix::sys::stat::Mode::S_IRWXU).unwrap();
    hidden();
    fs::remove_file(&index).unwrap();
    world.write("o/index", &good);
    std::os::unix::fs::symlink(world.path("o/index"), &index).unwrap();
    hidden();
    fs::remove_file(&index).unwrap();
    fs::create_dir(&index).unwrap();
    hidden();
    fs::remove_dir(&index).unwrap();
    // Sparse: longer than any index, and no byte of it read.
    fs::File::create(&index).unwrap().set_len(1 << 40).unwrap();
    hidden();
    fs::write(&index, &good).unwrap();
    world.sh(["-v"], "cat .tool.yml").done().code(0).stdout("setting\n").stderr_lacks("was not asked");
}

/// Only the repository that the work tree belongs to is asked, and only when that says so itself.
#[test]
fn of_worktrees_and_submodules_their_own_index_counts() {
    let world = world(INIT);
    outside(&world, "git worktree add -q -b topic ../w/tree && git worktree add -q -b other ../o/tree");
    for tree in ["w/tree", "o/tree"] {
        world.write(&format!("{tree}/.token"), "s3cret\n");
        let look = "cat .tool.yml .tool/conf .token; git status --porcelain";
        inside(&world, ["-w", "."], look).cwd(world.path(tree)).done().is(0, "setting\nconf\n", "");
    }
    let parent = World::new();
    outside(
        &parent,
        &format!(
            "{INIT} && git init -q -b main ../o/src && cd ../o/src && echo a >.a && git add . && \
        git commit -q -m one && cd ../../w && git -c protocol.file.allow=always submodule --quiet add ../o/src lib && \
        git commit -q -m two"
        ),
    );
    parent.write("w/lib/.token", "s3cret\n");
    let look = "cat lib/.a lib/.token; git -C lib status --porcelain; git status --porcelain";
    let status = outside(&parent, "git -C lib status --porcelain; git status --porcelain");
    assert!(status.starts_with("?? .token\n"), "{status}");
    inside(&parent, ["-w", "."], look).done().is(0, &format!("a\n{status}"), "");
    // A `.git` that lies about: another repository, whose index has the name and the content.
    let liar = World::new();
    liar.write("w/.tool.yml", "setting\n");
    for planted in [world.text("w/.git"), world.text("w/.git/worktrees/tree")] {
        liar.write("w/.git", format!("gitdir: {planted}\n"));
        liar.sh(["-v"], "cat .tool.yml").done().code(0).stdout("").stderr_has("was not asked");
    }
}

/// Below the top of a repository its index counts where the repository is shown.
#[test]
fn from_a_directory_of_the_work_tree() {
    let world = world(INIT);
    let (top, sub) = (world.text("w"), world.path("w/sub"));
    inside(&world, ["-w", "."], "cat .x").cwd(&sub).done().is(0, "", "");
    for grant in [["-r", &top], ["-w", &top]] {
        let look = "cat .x ../.tool.yml ../.token; git status --porcelain";
        inside(&world, ["-q"].into_iter().chain(grant), look).cwd(&sub).done().is(0, "x\nsetting\n", "");
    }
    inside(&world, ["-q", "-r", "/"], "cat .x").cwd(&sub).done().is(0, "x\n", "");
    // Nobody else's: a directory without a repository has none.
    let plain = World::new();
    plain.write("w/.tool.yml", "setting\n");
    plain.sh(["-w", "."], "cat .tool.yml").done().is(0, "", "");
}

#[test]
fn git_itself_agrees_about_many_names() {
    let world = World::new();
    if crate::harness::find("git").is_none() {
        return skip("git", "there is no git");
    }
    for number in 0..300 {
        world.write(&format!("w/d{}/.n{number}", number % 7), format!("{number}\n").repeat(number));
    }
    outside(&world, &format!("{INIT} && git add . && git commit -q -m one && git update-index --index-version 4"));
    inside(&world, ["-w", "."], "git status --porcelain; cat d*/.n* | wc -l").done().is(0, "44850\n", "");
}
