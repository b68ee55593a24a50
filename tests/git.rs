//! git in a write grant: a clone, submodules, a worktree whose data lies elsewhere, and what stays protected.

mod around;
mod bounds;
mod data;
mod family;
mod given;
mod index;
mod kept;
mod links;
mod made;
mod named;
mod taken;
mod undone;

use crate::harness::World;

/// What a person sets once; every call has it from the environment, since HOME is private.
const IDENTITY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "Test"),
    ("GIT_AUTHOR_EMAIL", "test@example.org"),
    ("GIT_COMMITTER_NAME", "Test"),
    ("GIT_COMMITTER_EMAIL", "test@example.org"),
];

/// `o/repo` with one commit of one file, made outside the sandbox.
pub fn repository() -> World {
    with_repository(World::new())
}

/// The same in this world.
pub fn with_repository(world: World) -> World {
    let script =
        "git init -q -b main ../o/repo && cd ../o/repo && echo one >file && git add file && git commit -q -m one";
    outside(&world, script);
    world
}

/// A script outside of the sandbox, as that person.
#[track_caller]
pub fn outside(world: &World, script: &str) -> String {
    let call = IDENTITY.iter().fold(world.call("sh", ["-ec", script]), |call, (name, value)| call.env(name, value));
    call.done().code(0).stderr("").out()
}

/// A script in the sandbox, as that person.
pub fn inside<'a>(world: &World, options: impl IntoIterator<Item = &'a str>, script: &str) -> crate::harness::Call {
    let options = ["-e", "GIT_AUTHOR_*", "-e", "GIT_COMMITTER_*"].into_iter().chain(options);
    let call = world.sh(options, script);
    IDENTITY.iter().fold(call, |call, (name, value)| call.env(name, value))
}

#[test]
fn a_clone_is_worked_on_without_noise() {
    let world = repository();
    outside(&world, "git clone -q ../o/repo . ");
    let script = "set -e; git status --short; echo two >file; git add file; git commit -q -m two; git status --short
        git branch topic; git stash -q; git gc -q; git log --format=%s; git rev-parse --show-toplevel";
    let script = &script.replace("git stash -q", "echo three >file; git stash -q; git stash drop -q");
    inside(&world, ["-w", "."], script).done().is(0, &format!("two\none\n{}\n", world.text("w")), "");
    assert_eq!(
        outside(&world, "git log --format=%s; git branch --format='%(refname:short)'; git status --short"),
        "two\none\nmain\ntopic\n"
    );
    // Without the grant git reads and cannot write.
    inside(&world, [], "git log --format=%s -1").done().is(0, "two\n", "");
    let before = world.snapshot();
    inside(&world, [], "git commit -q --allow-empty -m x").done().code(128).stderr_has("Read-only file system");
    assert_eq!(world.snapshot(), before);
}

/// Everything about the hooks and settings at these places.
fn kept(world: &World, places: &[&str]) -> Vec<(std::path::PathBuf, String)> {
    let places: Vec<_> = places.iter().map(|place| world.path(place)).collect();
    let parts = world.snapshot().into_iter().filter(|(path, _)| places.iter().any(|place| path.starts_with(place)));
    parts.collect()
}

#[test]
fn hooks_and_settings_are_protected_at_any_depth() {
    let world = with_repository(World::apart());
    outside(&world, "git clone -q ../o/repo . && git clone -q ../o/repo a/b/nested");
    outside(
        &world,
        "for r in . a/b/nested; do mkdir -p $r/.git/hooks $r/.git/info && echo '* text' >$r/.git/info/attributes; done",
    );
    let before = world.snapshot();
    for repository in [".", "a/b/nested"] {
        let top = format!("w/{repository}/.git");
        let places = ["hooks", "config", "info/attributes"].map(|name| format!("{top}/{name}"));
        let places = places.each_ref().map(String::as_str);
        let protected = kept(&world, &places);
        assert!(protected.len() >= 3, "the control: there is something to keep");
        for change in [
            "echo x >.git/hooks/pre-commit",
            "echo x >.git/config",
            "echo x >.git/info/attributes",
            "git config core.hooksPath x",
            "rm -r .git/hooks",
            "mv .git g",
            "python3 -c \"import os; os.rename('.git', 'g')\"",
            "rm -rf .git; test ! -e .git",
        ] {
            // What belongs to nobody but git may go with the last of them: done in a copy.
            outside(&world, "cp -a . ../copy");
            let done = inside(&world, ["-w", "."], &format!("cd {repository} && {{ {change}; }}")).done();
            assert_ne!(done.code, Some(0), "{change}");
            assert_eq!(kept(&world, &places), protected, "{change}");
            if change.starts_with("rm -rf") {
                outside(&world, "cp -a --remove-destination ../copy/. .");
            }
            outside(&world, "rm -r ../copy");
        }
        let work = format!(
            "cd {repository} && git commit -q --allow-empty -m two && git update-ref refs/heads/x HEAD && git log --format=%s -1"
        );
        inside(&world, ["-w", "."], &work).done().is(0, "two\n", "");
        // The control.
        let free =
            "git config a.b c && echo x >.git/hooks/pre-commit && rm .git/hooks/pre-commit && git config --unset a.b";
        outside(&world, &format!("cd {repository} && {free}"));
    }
    let lost: Vec<_> = before.keys().filter(|path| !world.snapshot().contains_key(*path)).collect();
    assert!(lost.is_empty(), "{lost:?}");
    // What somebody names is granted; the others stay.
    inside(&world, ["-w", ".", "-w", ".git/hooks"], "echo x >.git/hooks/pre-commit && rm .git/hooks/pre-commit")
        .done()
        .is(0, "", "");
    inside(&world, ["-w", ".", "-w", ".git"], "echo x >.git/config").done().code(2);
}

/// bubblewrap looks at every mount for each new one, and reads no more than 9000 words.
#[test]
fn hundreds_of_repositories_below_one_grant() {
    const COUNT: usize = 800;
    let world = World::new();
    for number in 0..COUNT {
        for name in ["objects", "refs", "hooks"] {
            world.dir(&format!("w/{number}/.git/{name}"));
        }
        for (name, text) in [("HEAD", "ref: refs/heads/main\n"), ("config", "host\n"), ("hooks/pre-commit", "host\n")] {
            world.write(&format!("w/{number}/.git/{name}"), text);
        }
    }
    let before = world.snapshot();
    let script = "
import glob, os
done = 0
def attempt(name, change):
    global done
    try: change()
    except OSError: return
    done += 1
    print(name)
for top in glob.glob('*'):
    git = top + '/.git'
    attempt(git + '/config', lambda: open(git + '/config', 'a'))
    attempt(git + '/config', lambda: os.chmod(git + '/config', 0o777))
    attempt(git + '/hooks', lambda: open(git + '/hooks/new', 'w'))
    attempt(git + '/hooks', lambda: open(git + '/hooks/pre-commit', 'w'))
    for path in [top, git, git + '/hooks', git + '/config']: attempt(path, lambda: os.rename(path, path + 'x'))
print('changed', done)
for top in glob.glob('*'): open(top + '/new', 'w'); os.mkdir(top + '/.git/objects/aa')
";
    world.run(["-w", ".", "python3", "-c", script]).done().is(0, "changed 0\n", "");
    for number in 0..COUNT {
        std::fs::remove_file(world.path(&format!("w/{number}/new"))).unwrap();
        std::fs::remove_dir(world.path(&format!("w/{number}/.git/objects/aa"))).unwrap();
    }
    let untimed = |snapshot: std::collections::BTreeMap<_, String>| {
        let timeless = |text: String| text.split(" mtime ").next().map(str::to_owned);
        snapshot.into_iter().map(|(path, text)| (path, timeless(text))).collect::<Vec<_>>()
    };
    assert_eq!(untimed(world.snapshot()), untimed(before));
    // The control: outside all of it works, but in a directory that has just been moved.
    world.call("python3", ["-c", script]).done().code(0).stdout_has(&format!("changed {}\n", 5 * COUNT));
}

/// Repositories come and go: what went before it could be mounted on needs no protection.
#[test]
fn a_repository_that_goes_stops_no_run() {
    // Longer than time stamps lag behind: the number of a deleted file is given again at once.
    let tick = std::time::Duration::from_millis(25);
    let world = std::sync::Arc::new(World::apart());
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let churn = {
        let (world, stop) = (world.clone(), stop.clone());
        std::thread::spawn(move || {
            // Now and then long enough for a start on a busy machine.
            for turn in (0..16).cycle().take_while(|_| !stop.load(std::sync::atomic::Ordering::Relaxed)) {
                for name in ["HEAD", "config", "hooks/x", "objects/x", "refs/x"] {
                    let path = world.path(&format!("w/sub/r/.git/{name}"));
                    // A run that has found no hooks moves them aside at its end, maybe right now.
                    let _made =
                        std::fs::create_dir_all(path.parent().unwrap()).and_then(|()| std::fs::write(&path, ""));
                }
                std::thread::sleep(tick * (1 + turn));
                // Something of it may be a mount point at this moment.
                let _gone = std::fs::remove_dir_all(world.path("w/sub/r"));
                std::thread::sleep(tick);
            }
        })
    };
    let failed: Vec<_> = (0..60)
        .map(|_| world.run(["-w", ".", "true"]).done())
        .filter(|done| done.code != Some(0))
        .map(|done| done.stderr)
        .collect();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    churn.join().unwrap();
    assert!(failed.is_empty(), "{} of 60: {:?}", failed.len(), failed.first());
}

/// git makes none in a `.git`; one can be left by a command whose run was killed.
#[test]
fn a_commondir_that_is_there_is_told_of_and_kept() {
    let world = repository();
    outside(&world, "git clone -q ../o/repo . && git init -q -b main ../o/other");
    world.write("w/.git/commondir", format!("{}\n", world.text("o/other/.git")));
    let text = world.read("w/.git/commondir");
    for change in ["echo x >.git/commondir", "rm -f .git/commondir", "mv .git/commondir .git/c", "mv .git g"] {
        let done = inside(&world, ["-w", "."], change).done().stderr_has(&world.text("w/.git/commondir"));
        assert_ne!(done.code, Some(0), "{change}");
        assert_eq!(world.read("w/.git/commondir"), text, "{change}");
    }
    // To read it is no better, nor is one that leads nowhere, nor in a repository of any other kind.
    inside(&world, [], "true").done().code(0).stderr_has(&world.text("w/.git/commondir"));
    world.write("w/.git/commondir", "/nowhere\n");
    inside(&world, ["-w", "."], "true").done().code(0).stderr_has("a place that cannot be found");
    outside(&world, "git init -q --bare bare && git init -q --separate-git-dir data sep && git init -q --bare m");
    outside(&world, "rm .git/commondir && mkdir .git/modules && mv m .git/modules");
    for place in ["bare", "data", ".git/modules/m"] {
        let file = format!("w/{place}/commondir");
        world.write(&file, &text);
        let done = inside(&world, ["-w", "."], "true").done().code(0);
        assert_eq!(done.stderr.matches(&world.text(&file)).count(), 1, "{}", done.stderr);
        std::fs::remove_file(world.path(&file)).unwrap();
    }
    // The controls: data of a linked worktree, one that says what holds anyway, and none.
    outside(
        &world,
        "git --git-dir bare fetch -q ../o/repo main:main && git --git-dir bare worktree add -q linked main",
    );
    outside(&world, "mkdir -p bare/worktrees/linked/refs && touch .git/commondir");
    for change in ["echo . >.git/commondir", "rm .git/commondir"] {
        outside(&world, change);
        inside(&world, ["-w", "."], "git log --format=%s").done().is(0, "one\n", "");
    }
}

#[test]
fn submodules_keep_their_hooks_and_settings() {
    let world = repository();
    let add = "git init -q -b main . && git -c protocol.file.allow=always submodule --quiet add ../o/repo lib/sub && \
               git commit -q -m one && mkdir -p .git/modules/lib/sub/hooks";
    outside(&world, add);
    let module = "w/.git/modules/lib/sub";
    let places = [format!("{module}/hooks"), format!("{module}/config"), "w/lib/sub/.git".into()];
    let places = places.each_ref().map(String::as_str);
    let protected = kept(&world, &places);
    let commit = "git status --short && git commit -q --allow-empty -m two && git log --format=%s -1";
    inside(&world, ["-w", "."], &format!("cd lib/sub && {commit}")).done().is(0, "two\n", "");
    for change in [
        "echo x >.git/modules/lib/sub/hooks/pre-commit",
        "echo x >.git/modules/lib/sub/config",
        "cd lib/sub && git config a.b c",
        "cd lib/sub && rm -f .git && mkdir .git",
        "python3 -c \"import os; os.rename('.git/modules', 'm')\"",
    ] {
        let done = inside(&world, ["-w", "."], change).done();
        assert_ne!(done.code, Some(0), "{change}");
        assert_eq!(kept(&world, &places), protected, "{change}");
    }
    // Started in the submodule, its data comes along, and nothing else of the repository.
    let there = |script: &str| inside(&world, ["-w", "."], script).cwd(world.path("w/lib/sub")).done();
    there(&commit.replace("two", "three")).is(0, "three\n", "");
    assert_ne!(there("echo x >../../.git/modules/lib/sub/config").code, Some(0));
    assert_ne!(there("cat ../../.git/config").code, Some(0));
}

/// A `.git` that lies about opens nothing: only what the repository itself says counts.
#[test]
fn a_planted_dot_git_file_grants_nothing() {
    let world = repository();
    outside(&world, "cd ../o/repo && git worktree add -q -b topic ../tree");
    let repo = world.text("o/repo/.git");
    for planted in
        [repo.clone(), format!("{repo}/worktrees/tree"), world.text("o/repo"), world.text("o"), world.text("w/fake")]
    {
        world.write("w/fake/commondir", &repo);
        world.write("w/fake/gitdir", world.text("w/.git"));
        world.write("w/.git", format!("gitdir: {planted}\n"));
        let look = format!("ls {repo} || ls {repo}/worktrees/tree || ls {}", world.text("o"));
        let before = world.snapshot();
        let done = inside(&world, ["-w", "."], &look).done();
        assert_ne!(done.code, Some(0), "{planted}");
        done.stdout("");
        assert_eq!(world.snapshot(), before);
    }
}

#[test]
fn a_worktree_commits_with_its_common_directory() {
    let world = repository();
    outside(
        &world,
        "cd ../o/repo && git worktree add -q -b topic ../../w/tree && git worktree add -q -b other ../other",
    );
    let common = world.text("o/repo/.git");
    let commit = "cd tree && git status --short && echo two >file && git add file && git commit -q -m two && git log --format=%s";
    let other = |world: &World| {
        let top = world.path("o/other");
        world.snapshot().into_iter().filter(|(path, _)| path.starts_with(&top)).collect::<Vec<_>>()
    };
    let before = other(&world);
    // The common directory comes along, for reading where the worktree is read-only.
    inside(&world, ["-C", "tree"], "git log --format=%s").done().is(0, "one\n", "");
    inside(&world, ["-w", "."], commit).done().is(0, "two\none\n", "");
    assert_eq!(outside(&world, "cd ../o/repo && git log --format=%s -1 topic"), "two\n");
    assert_eq!(other(&world), before);
    // Data can be written, what the host would run cannot.
    let hooks = format!("{common}/hooks");
    let config = format!("{common}/config");
    let data = format!("{common}/worktrees/tree");
    for grants in [&["-w", "."][..], &["-w", ".", "-w", &common]] {
        for change in [
            format!("echo x >{hooks}/pre-commit"),
            format!("echo x >{config}"),
            format!("echo /tmp >{data}/commondir"),
            "cd tree && git config a.b c".into(),
            "rm -f tree/.git && mkdir tree/.git".into(),
        ] {
            let before = kept(&world, &["o/repo/.git/hooks", "o/repo/.git/config", "w/tree/.git"]);
            let done = inside(&world, grants.iter().copied(), &change).done();
            assert_ne!(done.code, Some(0), "{change}");
            assert_eq!(kept(&world, &["o/repo/.git/hooks", "o/repo/.git/config", "w/tree/.git"]), before, "{change}");
        }
    }
    // A mask is stronger.
    inside(&world, ["-w", ".", "--mask", &common], "cd tree && git status").done().code(128);
}

#[test]
fn a_directory_that_is_no_repository_stays_one() {
    let world = repository();
    let before = world.snapshot();
    let rules = ["-w", ".", "--protect", ".git/hooks", "--protect", ".git/config"];
    inside(&world, rules, "true").done().is(0, "", "");
    assert_eq!(world.snapshot(), before);
    inside(&world, rules, "git rev-parse --show-toplevel").done().code(128).stderr_has("not a git repository");
    // One is made, which is no fault, and what should have been protected is named.
    let made = |name: &str| {
        format!(
            "sandbox-run: warning: '{}' (--protect) was made during the run: it did not exist before, so nothing protected it\n",
            world.text(&format!("w/.git/{name}"))
        )
    };
    let script = "git init -q -b main . && mkdir -p .git/hooks && git rev-parse --show-toplevel";
    let warnings = [made("hooks"), made("config")].concat();
    inside(&world, rules, script).done().is(0, &format!("{}\n", world.text("w")), &warnings);
    inside(&world, rules, "git rev-parse --show-toplevel").done().is(0, &format!("{}\n", world.text("w")), "");
    // A subdirectory finds its repository only where that is shown.
    world.dir("o/repo/sub");
    let top = world.text("o/repo");
    let find = "git rev-parse --show-toplevel";
    inside(&world, ["-w", "."], find).cwd(world.path("o/repo/sub")).done().code(128).stderr_has("not a git repository");
    inside(&world, ["-w", ".", "-r", &top], find).cwd(world.path("o/repo/sub")).done().is(0, &format!("{top}\n"), "");
    assert!(!world.has("o/repo/sub/.git"));
}

/// A profile names `.git/config`, and in these trees `.git` is a file: what it leads to is protected.
#[test]
fn the_profile_of_builds_starts_in_a_worktree_and_in_a_submodule() {
    let world = repository();
    outside(&world, "cd ../o/repo && git worktree add -q -b topic ../../w/tree");
    outside(
        &world,
        "git init -q -b main super && git -C super -c protocol.file.allow=always submodule --quiet add ../../o/repo sub",
    );
    let super_config = world.read("w/super/.git/modules/sub/config");
    for (place, config) in [("w/tree", "o/repo/.git/config"), ("w/super/sub", "w/super/.git/modules/sub/config")] {
        let run = |script: &str| inside(&world, ["-p", "build"], script).cwd(world.path(place)).done();
        let before = world.read(config);
        run("git status --porcelain && echo more >>file && git commit -q -a -m two && git log --format=%s -1")
            .is(0, "two\n", "");
        for change in [
            "git config core.fsmonitor x",
            "echo x >\"$(git rev-parse --git-common-dir)\"/hooks/pre-commit",
            "mv .git x",
        ] {
            assert_ne!(run(change).code, Some(0), "{place}: {change}");
        }
        assert_eq!(world.read(config), before);
        // Whoever types it in such a place has made a mistake.
        let typed = inside(&world, ["-w", ".", "--protect", ".git/config"], "true").cwd(world.path(place)).done();
        typed.refused(125, &["'.git/config' (--protect)", "not a directory"]);
    }
    assert_eq!(world.read("w/super/.git/modules/sub/config"), super_config);
    // Nor does a policy file keep from starting what it masks below a file.
    world.write("p.toml", "mask_paths = ['file/x']\nprotect_paths = ['file/y']\nwrite_roots = ['.']\n");
    let policy = world.text("p.toml");
    inside(&world, ["--policy", &policy], "cat file").cwd(world.path("w/tree")).done().is(0, "one\nmore\n", "");
    let made =
        inside(&world, ["--policy", &policy], "rm file && mkdir file && touch file/y").cwd(world.path("w/tree")).done();
    made.code(0).stderr_has("was made during the run: it did not exist before, so nothing protected it");
}

/// A repository is known by its settings alone, which stay when the rest is moved away, whatever they leave out.
#[test]
fn settings_of_few_words_belong_to_a_repository() {
    for settings in ["[core]\n\tbare = true\n", "[CORE]\n\trepositoryFormatVersion = 0\n"] {
        let world = World::new();
        outside(&world, "git init -q --bare b.git");
        world.write("w/b.git/config", settings);
        // As after a run that was killed: otherwise they are made anew.
        outside(&world, "mkdir away && mv b.git/HEAD b.git/refs b.git/objects away");
        let done = inside(&world, ["-w", "."], "echo evil >>b.git/config").done();
        done.code(2).stderr_has("Read-only file system");
        outside(&world, "rm -rf b.git/HEAD b.git/refs b.git/objects && mv away/* b.git");
        assert_eq!(outside(&world, "cat b.git/config"), settings);
        // The control.
        inside(&world, ["-w", ".", "-w", "b.git/config"], "echo '# x' >>b.git/config").done().is(0, "", "");
    }
}
