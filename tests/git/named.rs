//! Places in a write grant that git on the host obeys since settings name them, and repositories without a work tree.

use crate::git::{inside, outside, repository};
use crate::harness::World;

/// `w` is a clone of one commit.
pub fn clone() -> World {
    let world = repository();
    outside(&world, "git clone -q ../o/repo . && mkdir -p tools");
    world
}

/// What `script` makes of `at` is refused; outside, without the sandbox, it is not.
#[track_caller]
pub fn kept(world: &World, at: &str) {
    let before = world.read(&format!("w/{at}"));
    let name = at.rsplit_once('/').map_or(at, |(_, name)| name);
    let above = at.rsplit_once('/').map_or(".", |(above, _)| above);
    for change in [
        format!("echo x >{at}"),
        format!("rm -f {at}"),
        format!("mv {at} gone"),
        format!("echo x >new && mv -f new {at}"),
        format!(
            "test {above} = . || {{ mv {above} gone && mkdir {above} && echo x >{at}; }}; test ! -e {name}x && false"
        ),
    ] {
        let done = inside(world, ["-w", "."], &change).done();
        assert_ne!(done.code, Some(0), "{change}\n{}", done.stderr);
        assert_eq!(world.read(&format!("w/{at}")), before, "{change}");
    }
    inside(world, ["-w", "."], &format!("cat {at} >copy && rm copy && touch other && rm other")).done().is(0, "", "");
    outside(world, &format!("cp {at} copy && echo x >{at} && mv copy {at}"));
}

/// What is made at `at` is not there afterwards.
#[track_caller]
fn not_left(world: &World, at: &str) {
    let done = inside(world, ["-w", "."], &format!("mkdir -p $(dirname {at}) && echo x >{at}")).done().code(0);
    assert!(done.stderr.contains("which git on the host would obey, was made during the run"), "{}", done.stderr);
    assert!(!world.has(&format!("w/{at}")), "{at}");
}

#[test]
fn a_directory_of_hooks_in_the_work_tree() {
    let world = clone();
    outside(&world, "git config core.hooksPath tools/hooks");
    world.write("w/tools/hooks/pre-commit", "#!/bin/sh\n");
    kept(&world, "tools/hooks/pre-commit");
    inside(&world, ["-w", "."], "echo x >tools/hooks/post-commit").done().code(2);
    inside(&world, ["-w", ".", "-w", "tools/hooks"], "echo x >tools/hooks/post-commit").done().is(0, "", "");
    // Missing, and with a part of the way to it.
    for way in ["", "tools/"] {
        outside(&world, &format!("rm -r tools/hooks; test -z '{way}' || rm -r {way}"));
        not_left(&world, "tools/hooks/pre-commit");
        inside(&world, ["-w", "."], "echo y | tee tools/hooks.sandbox-run-*/pre-commit >copy").done().is(0, "", "");
        outside(&world, "rm -r tools; mkdir tools tools/hooks");
    }
    // The control: another directory.
    outside(&world, "git config core.hooksPath elsewhere");
    inside(&world, ["-w", "."], "echo x >tools/hooks/pre-commit").done().is(0, "", "");
    outside(&world, "ls tools/hooks/pre-commit");
}

#[test]
fn husky_runs_what_lies_above_its_directory() {
    let world = clone();
    outside(&world, "git config core.hooksPath .husky/_");
    world.write("w/.husky/_/pre-commit", "#!/bin/sh\n");
    world.write("w/.husky/pre-commit", "true\n");
    kept(&world, ".husky/_/pre-commit");
    kept(&world, ".husky/pre-commit");
    outside(&world, "rm -r .husky/_");
    inside(&world, ["-w", "."], "mkdir .husky/_").done().code(1);
    outside(&world, "rm -r .husky");
    not_left(&world, ".husky/_/pre-commit");
}

/// The same setting counts from the top of each work tree; settings come from several files.
#[test]
fn hooks_of_worktrees_submodules_and_of_the_user() {
    let world = clone();
    outside(&world, "git worktree add -q -b topic tree && git config core.hooksPath tools");
    world.write("w/tools/pre-commit", "x\n");
    world.write("w/tree/tools/pre-commit", "x\n");
    kept(&world, "tree/tools/pre-commit");
    kept(&world, "tools/pre-commit");
    outside(&world, "git config --unset core.hooksPath && git config extensions.worktreeConfig true");
    outside(&world, "git -C tree config --worktree core.hooksPath tools");
    kept(&world, "tree/tools/pre-commit");
    inside(&world, ["-w", "."], "echo x >tools/pre-commit").done().is(0, "", "");

    // The user's own settings.
    world.write("home/.gitconfig", "[core]\n\thooksPath = tools\n");
    kept(&world, "tools/pre-commit");
    std::fs::rename(world.path("home/.gitconfig"), world.path("home/x")).unwrap();
    world.write("home/.config/git/config", "[include]\n\tpath = ~/x\n");
    kept(&world, "tools/pre-commit");
    std::fs::remove_file(world.path("home/x")).unwrap();
    inside(&world, ["-w", "."], "echo x >tools/pre-commit").done().is(0, "", "");

    // Data that is out of sight.
    outside(&world, "git init -q -b main --separate-git-dir ../o/data sep && git -C sep config core.hooksPath tools");
    world.write("w/sep/tools/pre-commit", "x\n");
    kept(&world, "sep/tools/pre-commit");
}

#[test]
fn files_of_settings_in_the_work_tree() {
    let world = clone();
    let included = "[include]\n\tpath = below/more\n";
    for section in ["include", "includeIf.gitdir:/nowhere/"] {
        world.write("w/tools/shared", included);
        world.write("w/tools/below/more", "[core]\n\thooksPath = h\n");
        world.write("w/h/pre-commit", "x\n");
        outside(&world, &format!("git config {section}.path ../tools/shared"));
        for at in ["tools/shared", "tools/below/more", "h/pre-commit"] {
            kept(&world, at);
        }
        outside(&world, "rm -r tools/below");
        not_left(&world, "tools/below/more");
        outside(&world, "rm -r tools");
        not_left(&world, "tools/shared");
        outside(&world, &format!("git config --unset {section}.path && rm -r h tools && mkdir tools"));
        inside(&world, ["-w", "."], "echo x >tools/shared && mkdir h && rmdir h").done().is(0, "", "");
    }
    // What includes itself ends.
    world.write("w/tools/round", "[include]\n\tpath = round\n\tpath = ../tools/round\n");
    outside(&world, "git config -f .git/config include.path ../tools/round");
    inside(&world, ["-w", "."], "echo x >tools/round").done().code(2);
}

#[test]
fn what_cannot_be_protected_is_refused_or_told() {
    let world = clone();
    outside(&world, "mkdir there && ln -s there link && git config core.hooksPath link");
    let link = world.text("w/link");
    inside(&world, ["-w", "."], "true").done().refused(125, &["is a link to", &link]);
    inside(&world, ["-w", ".", "-w", "there"], "true").done().is(0, "", "");
    outside(&world, "rmdir there");
    inside(&world, ["-w", "."], "true").done().refused(125, &["is a link to", &link]);
    outside(&world, "git config core.hooksPath .");
    let done = inside(&world, ["-w", "."], "echo x >file").done().code(0);
    done.stderr_has("as the directory of hooks, which cannot be protected as a whole");
    // Nothing of these is in the grant.
    for elsewhere in ["/dev/null", "/nowhere/hooks", "~/hooks", "../o", ""] {
        outside(&world, &format!("git config core.hooksPath '{elsewhere}'"));
        inside(&world, ["-w", "."], "echo x >file").done().is(0, "", "");
    }
}

/// A directory of hooks, as settings name it, and with the links in it how far the top is.
const HOOKS: [(&str, &str); 3] = [(".git/hooks", "../.."), ("hooks", ".."), (".husky/_", "../..")];

/// A clone whose hooks lie there.
fn hooks_in(directory: &str) -> World {
    let world = clone();
    outside(&world, &format!("mkdir -p {directory}"));
    if directory != ".git/hooks" {
        outside(&world, &format!("git config core.hooksPath {directory}"));
    }
    world
}

#[test]
fn hooks_that_are_links_into_the_work_tree() {
    for (hooks, up) in HOOKS {
        let world = hooks_in(hooks);
        world.script("w/tools/pc", "#!/bin/sh\necho hook >&2\n");
        world.script("w/tools/free", "#!/bin/sh\n");
        outside(&world, &format!("ln -s {up}/tools/pc {hooks}/pre-commit"));
        kept(&world, "tools/pc");
        inside(&world, ["-w", "."], "echo x >tools/free").done().is(0, "", "");
        // It is run, inside as on the host.
        inside(&world, ["-w", "."], "git commit -q --allow-empty -m two").done().is(0, "", "hook\n");
        // Through a second link, which is as safe; absolute; with another grant than that of the repository.
        outside(&world, &format!("ln -sfn second {hooks}/pre-commit; ln -s $PWD/tools/pc {hooks}/second"));
        kept(&world, "tools/pc");
        inside(&world, ["-w", "tools"], "echo x >tools/pc").done().code(2);
        inside(&world, ["-w", ".", "--protect", ".git"], "echo x >tools/pc").done().code(2);
        // A directory in its place could be replaced.
        outside(&world, "mv tools/pc tools/program && mkdir tools/pc && touch tools/pc/file");
        kept(&world, "tools/pc/file");
        // The controls: what is asked for is granted.
        inside(&world, ["-w", ".", "-w", "tools/pc"], "echo x >tools/pc/file").done().is(0, "", "");
        inside(&world, ["-w", ".", "-w", hooks], "echo x >tools/pc/file").done().is(0, "", "");
    }
}

/// Where the hooks themselves are out of reach.
#[test]
fn links_of_the_users_own_hooks_and_of_submodules() {
    let world = clone();
    world.script("w/tools/pc", "#!/bin/sh\n");
    world.script("home/hooks/other", "#!/bin/sh\n");
    world.write("home/.gitconfig", "[core]\n\thooksPath = ~/hooks\n");
    inside(&world, ["-w", "."], "echo x >>tools/pc").done().is(0, "", "");
    outside(&world, "ln -s $PWD/tools/pc $HOME/hooks/pre-commit");
    kept(&world, "tools/pc");
    outside(&world, "rm $HOME/hooks/pre-commit && ln -s $PWD/tools/new $HOME/hooks/pre-commit");
    not_left(&world, "tools/new");
    std::fs::remove_file(world.path("home/.gitconfig")).unwrap();

    outside(&world, "git -c protocol.file.allow=always submodule --quiet add $PWD/../o/repo sub");
    inside(&world, ["-w", "."], "echo x >>tools/pc").done().is(0, "", "");
    outside(&world, "mkdir -p .git/modules/sub/hooks && ln -s $PWD/tools/pc .git/modules/sub/hooks/pre-commit");
    kept(&world, "tools/pc");
}

#[test]
fn hooks_that_are_links_to_nothing() {
    for (hooks, up) in HOOKS {
        for (to, made) in [("tools/pc", "tools/pc"), ("some/tools/pc", "some/tools/pc"), ("some/../file", "some/x")] {
            let world = hooks_in(hooks);
            outside(&world, &format!("ln -s {up}/{to} {hooks}/pre-commit"));
            not_left(&world, made);
            inside(&world, ["-w", "."], "echo x >tools/free").done().is(0, "", "");
            // The controls: what is asked for is granted, and nothing is said without need.
            inside(&world, ["-w", ".", "-w", hooks], &format!("mkdir -p $(dirname {made}) && echo x >{made}"))
                .done()
                .is(0, "", "");
        }
        // A file where a directory would be.
        let world = hooks_in(hooks);
        outside(&world, &format!("ln -s {up}/file/pc {hooks}/pre-commit"));
        inside(&world, ["-w", "."], "rm file").done().code(1);
        inside(&world, ["-w", "."], "echo x >file").done().code(2);
        // A directory that the command closed, to open it in the next run.
        let world = hooks_in(hooks);
        world.script("w/tools/pc", "#!/bin/sh\n");
        outside(&world, &format!("ln -s {up}/tools/pc {hooks}/pre-commit"));
        inside(&world, ["-w", "."], "chmod 0 tools").done().is(0, "", "");
        let done = inside(&world, ["-w", "."], "chmod 755 tools; echo x >tools/pc").done();
        assert_ne!(done.code, Some(0), "{}", done.stderr);
        outside(&world, "chmod 755 tools");
        assert_eq!(world.read("w/tools/pc"), "#!/bin/sh\n");
    }
}

#[test]
fn hooks_by_links_that_can_be_replaced() {
    for (hooks, up) in HOOKS {
        let world = hooks_in(hooks);
        world.script("w/tools/pc", "#!/bin/sh\n");
        let run = |options: &[&str]| inside(&world, options.iter().copied(), "true").done();
        for (at, text) in [
            ("second", "tools/pc"),
            ("second", "tools/nothing"),
            ("second", "second"),
            ("second", "/bin/true"),
            ("tools/second", "pc"),
        ] {
            outside(&world, &format!("ln -s {text} {at}; ln -sfn {up}/{at} {hooks}/pre-commit"));
            run(&["-w", "."])
                .refused(125, &["cannot protect what git runs", "is a link to", &world.text(&format!("w/{at}"))]);
            run(&["-w", ".", "-w", hooks]).is(0, "", "");
            run(&["-w", ".git/objects"]).is(0, "", "");
            outside(&world, &format!("rm {at}"));
        }
        // A directory on the way.
        outside(&world, &format!("ln -s tools way; ln -sfn {up}/way/pc {hooks}/pre-commit"));
        run(&["-w", "."]).refused(125, &["is a link to", &world.text("w/way")]);
        outside(&world, &format!("ln -sfn {up}/way/nothing {hooks}/pre-commit"));
        run(&["-w", "."]).refused(125, &["is a link to", &world.text("w/way")]);
    }
}

/// What many repositories have: it starts as ever, says nothing, and leaves nothing behind.
#[test]
fn ordinary_hooks_are_no_trouble() {
    for (hooks, up) in HOOKS {
        let world = hooks_in(hooks);
        world.script(&format!("w/{hooks}/pre-commit.sample"), "#!/bin/sh\n");
        world.script(&format!("w/{hooks}/pre-commit"), "#!/bin/sh\n");
        outside(
            &world,
            &format!(
                "cd {hooks}; ln -s pre-commit pre-push; ln -s /dev/null post-merge; ln -s /bin/true post-commit
                 ln -s /nowhere/x post-checkout; ln -s round post-rewrite; ln -s round round; ln -s {up} top; ln -s . here
                 mkdir d; ln -s ../{up}/tools d/x"
            ),
        );
        outside(&world, "git commit -q --allow-empty -m one");
        let before = outside(&world, "ls -A . .git tools");
        let script = "git commit -q --allow-empty -m two && touch new tools/x && rm new tools/x && echo x >/dev/null";
        inside(&world, ["-w", "."], script).done().is(0, "", "");
        assert_eq!(outside(&world, "ls -A . .git tools"), before);
    }
}

/// Whoever receives a push reads the setting from the git directory.
#[test]
fn a_directory_of_hooks_counts_from_the_git_directory_as_well() {
    let world = clone();
    outside(&world, "git config core.hooksPath hk && git config receive.denyCurrentBranch ignore");
    let run = "mkdir -p .git/hk && printf '#!/bin/sh\\necho hook ran >&2\\n' >.git/hk/pre-receive && chmod +x .git/hk/pre-receive";
    let push = "git clone -q . ../o/c && cd ../o/c && git commit -q --allow-empty -m x && git push -q origin HEAD:main 2>&1; \
                cd .. && rm -rf c";
    // The control: such a hook is run.
    outside(&world, run);
    assert!(outside(&world, push).contains("hook ran"));
    outside(&world, "rm -r .git/hk");
    let done = inside(&world, ["-w", "."], run).done().code(0);
    done.stderr_has("which git on the host would obey, was made during the run");
    assert_eq!(outside(&world, push), "");
    outside(&world, "rm -r .git/hk.*");
    // One that is there.
    world.script("w/.git/hk/pre-receive", "#!/bin/sh\n");
    kept(&world, ".git/hk/pre-receive");
    // The data of a worktree, and what they share.
    outside(&world, "rm -r .git/hk; git worktree add -q -b topic tree");
    not_left(&world, ".git/hk/x");
    not_left(&world, ".git/worktrees/tree/hk/x");
    // The controls: what is named from the root, and another name.
    inside(&world, ["-w", "."], "mkdir .git/other && echo x >.git/other/x && rm -r .git/other").done().is(0, "", "");
    outside(&world, "git config core.hooksPath /nowhere/hk");
    inside(&world, ["-w", "."], "mkdir .git/hk && echo x >.git/hk/x").done().is(0, "", "");
}

/// The data of a submodule that is not checked out, and of a worktree out of sight.
#[test]
fn a_directory_of_hooks_counts_where_no_work_tree_is_seen() {
    let world = clone();
    outside(
        &world,
        "git -c protocol.file.allow=always submodule add -q \"$PWD/../o/repo\" sub && git commit -q -m sub
         mkdir tools/a tools/b && git -C sub config core.hooksPath \"$PWD/tools/a\" && git submodule -q deinit -f sub
         git config extensions.worktreeConfig true && git worktree add -q -b topic ../o/away
         git -C ../o/away config --worktree core.hooksPath \"$PWD/tools/b\"",
    );
    for hook in ["tools/a/post-checkout", "tools/b/pre-commit"] {
        world.script(&format!("w/{hook}"), "#!/bin/sh\n");
        kept(&world, hook);
    }
    // The control: what nothing names.
    world.write("w/tools/c/x", "x");
    inside(&world, ["-w", "."], "echo y >>tools/c/x").done().is(0, "", "");
}

/// Settings that name a file as the directory of hooks: it could become one.
#[test]
fn a_file_as_the_directory_of_hooks() {
    let world = clone();
    outside(&world, "git config core.hooksPath file");
    kept(&world, "file");
    outside(&world, "git config core.hooksPath file/hooks");
    kept(&world, "file");
}

#[test]
fn repositories_without_a_work_tree() {
    let world = repository();
    outside(&world, "mkdir -p a/b && git clone -q --bare ../o/repo a/b/bare.git && mkdir -p a/b/bare.git/hooks");
    world.script("w/a/b/bare.git/hooks/post-update", "#!/bin/sh\n");
    kept(&world, "a/b/bare.git/config");
    kept(&world, "a/b/bare.git/hooks/post-update");
    not_left(&world, "a/b/bare.git/commondir");
    // It works, and pushing to it does.
    let push = "git clone -q a/b/bare.git c && cd c && git commit -q --allow-empty -m two && \
                git push -q origin HEAD:topic && git --git-dir ../a/b/bare.git log --format=%s -1 topic";
    inside(&world, ["-w", "."], push).done().is(0, "two\n", "");
    // In parts it is still one.
    for part in ["HEAD", "refs", "objects", "HEAD refs"] {
        inside(&world, ["-w", "."], &format!("for x in {part}; do mv a/b/bare.git/$x p$x; done")).done().code(0);
        kept(&world, "a/b/bare.git/config");
        inside(&world, ["-w", "."], &format!("for x in {part}; do mv p$x a/b/bare.git/$x; done")).done().code(0);
    }
    outside(&world, "rm -r a/b/bare.git/hooks a/b/bare.git/config");
    not_left(&world, "a/b/bare.git/hooks/x");
    not_left(&world, "a/b/bare.git/config");
    // One without settings whose HEAD a run that was killed has taken away.
    outside(&world, "git clone -q --bare ../o/repo c.git && rm -f c.git/config c.git/HEAD && mkdir -p c.git/hooks");
    world.script("w/c.git/hooks/post-update", "#!/bin/sh\n");
    kept(&world, "c.git/hooks/post-update");
    outside(&world, "mkdir -p app/hooks app/objects && touch app/hooks/x");
    inside(&world, ["-w", "."], "echo x >app/hooks/x").done().is(0, "", "");
    // The control: names alone make none.
    outside(&world, "mkdir plain && touch plain/config");
    inside(&world, ["-w", "."], "echo x >plain/config && mkdir plain/hooks").done().is(0, "", "");
}
