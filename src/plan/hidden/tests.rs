use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use super::*;
use crate::plan::view::{Own, Rule};
use crate::policy::hidden::{Others, Shown};

mod rest;

/// A fresh directory, removed at the end.
struct Tree(tempfile::TempDir);

impl Tree {
    /// Names that end in `/` are directories, names with ` -> ` links.
    fn new(names: &[&str]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for name in names {
            let (name, to) = name.split_once(" -> ").map_or((*name, None), |(name, to)| (name, Some(to)));
            let path = tree.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match to {
                Some(to) => symlink(to, path).unwrap(),
                None if name.ends_with('/') => fs::create_dir_all(path).unwrap(),
                None => fs::write(path, "").unwrap(),
            }
        }
        tree
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.0.path()).unwrap().join(name)
    }

    fn ground(&self, roots: &[&str], decided: &[&str]) -> Ground {
        Ground {
            roots: roots.iter().map(|name| self.path(name).components().collect()).collect(),
            decided: decided.iter().map(|name| self.path(name).into_os_string()).collect(),
            ..Ground::default()
        }
    }

    fn names(&self, scan: &Scan) -> Vec<String> {
        let top = self.path("");
        scan.found.iter().map(|found| found.path.strip_prefix(&top).unwrap().display().to_string()).collect()
    }

    /// What is found below the whole tree.
    fn found(&self, shown: &[&str]) -> Vec<String> {
        self.names(&scan(&self.ground(&[""], &[]), &rule(u64::MAX, Overflow::Error), &set(shown)).unwrap())
    }
}

fn rule(max_entries: u64, overflow: Overflow) -> Hidden {
    Hidden { shown: Shown::All, max_entries, overflow, recursive: true }
}

/// Exactly these names.
fn set(names: &[&str]) -> Names {
    Names { others: Others::Hidden, listed: names.iter().map(OsString::from).collect() }
}

/// The default list, and these names.
fn default_and(names: &[&str]) -> Names {
    Names { others: Others::Default, ..set(names) }
}

#[test]
fn finds_names_at_any_depth_and_enters_none_of_them() {
    let tree =
        Tree::new(&[".env", ".d/.x", ".d/y", "a/.env", "a/b/.netrc", "a/..odd", "a/b/plain", ".venv/.lock", "z/"]);
    assert_eq!(tree.found(&[]), [".d", ".env", ".venv", "a/..odd", "a/.env", "a/b/.netrc"]);
    // What is shown is shown at any depth, and what lies in it is looked at like everything else.
    assert_eq!(tree.found(&[".env", ".venv"]), [".d", ".venv/.lock", "a/..odd", "a/b/.netrc"]);
    assert_eq!(tree.found(&[".env", ".venv", ".d"])[0], ".d/.x");
    assert_eq!(tree.found(&[".env", ".venv"]), tree.found(&[".venv", ".env"]), "the same each time");
    // A name is a whole name.
    assert_eq!(tree.found(&["env", ".en", ".envx", "."]), tree.found(&[]));
}

#[test]
fn git_has_no_hidden_names_of_its_own() {
    let tree = Tree::new(&[".git/.cache", ".git/config", ".git/a/.env", "sub/.git -> ../.git", "sub/.gitignore"]);
    // A command can give the name to any directory.
    assert_eq!(tree.found(&[".git"]), [".git/.cache", ".git/a/.env", "sub/.gitignore"]);
    assert_eq!(tree.found(&[]), [".git", "sub/.gitignore"]);
    let from_within = scan(&tree.ground(&[".git"], &[]), &rule(10, Overflow::Error), &set(&[])).unwrap();
    assert_eq!(tree.names(&from_within), [".git/.cache", ".git/a/.env"]);
}

#[test]
fn every_kind_of_file_and_every_byte() {
    let tree = Tree::new(&["a/"]);
    let _socket = UnixListener::bind(tree.path("a/.socket")).unwrap();
    nix::unistd::mkfifo(&tree.path("a/.fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::write(tree.path("a").join(OsStr::from_bytes(b".\xff\n")), "").unwrap();
    let found = scan(&tree.ground(&[""], &[]), &rule(9, Overflow::Error), &set(&[])).unwrap();
    let names: Vec<_> = found.found.iter().map(|found| found.path.file_name().unwrap().as_bytes()).collect();
    assert_eq!(names, [&b".fifo"[..], b".socket", b".\xff\n"]);
}

#[test]
fn only_the_top_of_each_root() {
    let tree = Tree::new(&[".a", "b/.c", "d/.e", "d/f/.g"]);
    let flat = Hidden { recursive: false, ..rule(100, Overflow::Error) };
    let found = scan(&tree.ground(&["", "d"], &[]), &flat, &set(&[])).unwrap();
    assert_eq!(tree.names(&found), [".a", "d/.e"]);
    // Roots in each other are looked at once: a limit that fits the tree fits both.
    let ground = tree.ground(&["", "d"], &["d"]);
    let found = scan(&ground, &rule(7, Overflow::Error), &set(&[])).unwrap();
    assert_eq!(tree.names(&found), [".a", "b/.c", "d/.e", "d/f/.g"]);
    assert!(scan(&ground, &rule(6, Overflow::Error), &set(&[])).is_err());
}

#[test]
fn links_are_not_followed_and_what_hidden_ones_lead_to_is_hidden() {
    let tree = Tree::new(&[
        "w/conf/env",
        "w/conf/plain",
        "w/.env -> conf/env",
        "w/sub/.env -> ../.env",
        "w/.loop -> .loop",
        "w/.nothing -> nowhere",
        "w/.out -> ../o/secret",
        "w/.system -> /etc/passwd",
        "w/.here -> .",
        "w/sub/.up -> ..",
        "w/sub/deep/.up -> ..",
        "w/.repo -> .git",
        "w/.git/x",
        "w/dir -> .",
        "w/.data -> data",
        "w/data/.inner",
        "w/granted",
        "w/.granted -> granted",
        "o/secret",
        "o/.hidden",
        "w/o -> ../o",
    ]);
    let ground = tree.ground(&["w"], &["w/granted"]);
    let found = scan(&ground, &rule(100, Overflow::Error), &set(&[".git"])).unwrap();
    assert_eq!(tree.names(&found), ["w/conf/env", "w/data", "w/data/.inner"]);
    // Below a root of its own the end is in sight.
    let found = scan(&tree.ground(&["w", "o"], &[]), &rule(100, Overflow::Error), &set(&[".git", ".env"])).unwrap();
    assert_eq!(tree.names(&found), ["o/.hidden", "o/secret", "w/data", "w/data/.inner", "w/granted"]);
}

#[test]
fn what_a_rule_speaks_of_is_left_alone() {
    let tree = Tree::new(&[".a/.x", "b/.c", ".d", "e/.f"]);
    let found = scan(&tree.ground(&[""], &[".a", "b"]), &rule(9, Overflow::Error), &set(&[])).unwrap();
    assert_eq!(tree.names(&found), [".d", "e/.f"]);
}

#[test]
fn a_limit_is_exact_and_names_what_is_unfinished() {
    let names: Vec<_> = (0..20).map(|number| format!("d{number:02}/f")).chain(["z/.env".into()]).collect();
    let tree = Tree::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let ground = tree.ground(&[""], &[]);
    let with = |max, overflow| scan(&ground, &rule(max, overflow), &set(&[]));
    assert_eq!(tree.names(&with(42, Overflow::Error).unwrap()), ["z/.env"]);
    let error = with(41, Overflow::Error).unwrap_err();
    assert_eq!(error.kind(), Kind::Policy);
    let z = tree.path("z").display().to_string();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot find all names that begin with a dot and have to be hidden: more than 41 entries (--hidden-scan-max), \
             and --hidden-scan-overflow is 'error'; not finished: '{z}'"
        )
    );
    // Five directories, and the number of the others.
    let text = with(22, Overflow::Error).unwrap_err().to_string();
    let listed: Vec<_> = (1..6).map(|number| format!("'{}'", tree.path(&format!("d{number:02}")).display())).collect();
    assert!(text.ends_with(&format!("not finished: {}, +15 more", listed.join(", "))), "{text}");

    let partly = with(41, Overflow::Warn).unwrap();
    assert_eq!(tree.names(&partly), [""; 0]);
    let warning = partly.warnings.concat();
    for part in ["41 entries", "--hidden-scan-max", &z, "stay visible"] {
        assert!(warning.contains(part), "{part}: {warning}");
    }
    let all = with(1, Overflow::Unlimited).unwrap();
    assert_eq!((tree.names(&all), all.warnings.is_empty()), (vec!["z/.env".into()], true));
    // Nothing at all to look at needs no entries; an empty directory is finished at any limit.
    assert!(with(42, Overflow::Warn).unwrap().warnings.is_empty());
}

#[test]
fn a_limit_leaves_out_what_is_deep_or_slow() {
    let tree = Tree::new(&["a/b/c/.deep", "node_modules/m/.x", "z/.top", "target/.y"]);
    let ground = tree.ground(&[""], &[]);
    let warned = |max| scan(&ground, &rule(max, Overflow::Warn), &set(&[])).unwrap();
    assert_eq!(tree.names(&warned(6)), ["z/.top"]);
    assert_eq!(tree.names(&warned(8)), ["a/b/c/.deep", "z/.top"]);
    let list = warned(8).warnings.concat();
    assert!(list.ends_with(&format!("'{}', '{}'", tree.path("node_modules").display(), tree.path("target").display())));
    assert_eq!(warned(20).found.len(), 4);
}

#[test]
fn what_cannot_be_listed_is_hidden_as_a_whole() {
    let tree = Tree::new(&["closed/.x", "open/.y"]);
    fs::set_permissions(tree.path("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let ground = tree.ground(&["", "missing", "open/.y"], &[]);
    let found = scan(&ground, &rule(9, Overflow::Error), &set(&[])).unwrap();
    fs::set_permissions(tree.path("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    let names = tree.names(&found);
    assert_eq!(names.last().unwrap(), "open/.y");
    assert_eq!(names, ["closed", "open/.y"]);
}

#[test]
fn names_come_and_go_between_scan_and_use() {
    let tree = Tree::new(&[".a", ".b", ".c", ".d"]);
    let mut found = scan(&tree.ground(&[""], &[]), &rule(9, Overflow::Error), &set(&[])).unwrap();
    let present = |found: &Scan| {
        found.present().map(|(path, kind)| (path.file_name().unwrap().to_owned(), kind)).collect::<Vec<_>>()
    };
    assert!(present(&found).is_empty(), "nobody has looked yet");
    fs::remove_file(tree.path(".a")).unwrap();
    fs::remove_file(tree.path(".b")).unwrap();
    fs::create_dir(tree.path(".b")).unwrap();
    fs::remove_file(tree.path(".c")).unwrap();
    symlink("x", tree.path(".c")).unwrap();
    found.look_again().unwrap();
    assert_eq!(present(&found), [(".b".into(), FileKind::Directory), (".d".into(), FileKind::File)]);
    assert!(!found.is_stale());
    fs::write(tree.path(".e"), "").unwrap();
    assert!(!found.is_stale(), "new names are of no interest");
    fs::rename(tree.path(".e"), tree.path(".d")).unwrap();
    assert!(found.is_stale());
    found.look_again().unwrap();
    assert!(!found.is_stale());
    fs::remove_file(tree.path(".d")).unwrap();
    assert!(found.is_stale());
    fs::write(tree.path(".d"), "").unwrap();
    assert!(found.is_stale(), "the same number is given again");
}

#[test]
fn only_what_was_made_in_place_of_a_name_that_went_is_a_trace() {
    let tree = Tree::new(&[".gone", ".replaced", ".same", ".written", ".other"]);
    let make = |name: &str, mode| {
        fs::write(tree.path(name), "").unwrap();
        fs::set_permissions(tree.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    make(".same", 0o444);
    let mut found = scan(&tree.ground(&[""], &[]), &rule(9, Overflow::Error), &set(&[])).unwrap();
    let traces = |found: &Scan| found.traces().map(|(path, _)| path.to_owned()).collect::<Vec<_>>();
    std::thread::sleep(2 * TICK);
    found.look_again().unwrap();
    std::thread::sleep(TICK);
    for name in [".gone", ".replaced", ".written", ".other"] {
        fs::remove_file(tree.path(name)).unwrap();
    }
    make(".replaced", 0o444);
    make(".other", 0o644);
    fs::write(tree.path(".written"), "x").unwrap();
    fs::set_permissions(tree.path(".written"), fs::Permissions::from_mode(0o444)).unwrap();
    make(".new", 0o444);
    assert_eq!(traces(&found), [tree.path(".replaced")]);
    // What was there at the last look is nobody's trace.
    std::thread::sleep(2 * TICK);
    found.look_again().unwrap();
    assert!(traces(&found).is_empty());
}

#[test]
fn the_ground_is_what_somebody_named() {
    let tree = Tree::new(&["w/", "o/", "home/"]);
    let mut view = View::default();
    let add = |view: &mut View, at: &Path, rule| view.add(at, rule, FileKind::Directory);
    let [w, o, home] = ["w", "o", "home"].map(|name| tree.path(name));
    add(&mut view, &w, Rule::Workdir);
    add(&mut view, &o, Rule::Write);
    add(&mut view, Path::new("/usr"), Rule::System { from: "/usr".into(), small: false });
    for place in ["/usr/share/x", "/sys", "/usr/src", "/usr/src/app", "/opt/tool"] {
        add(&mut view, Path::new(place), Rule::Read);
    }
    add(&mut view, &home, Rule::Own(Own::Home));
    view.add(&tree.path("o/file"), Rule::Read, FileKind::File);
    let of = |view: &View, workdir: &Path, home: Option<&Path>, names: Names| {
        let ground = Ground::of(view, workdir, home, &names);
        (ground.roots, ground.rest)
    };
    let mut expected = vec!["/opt/tool".into(), "/usr/src/app".into(), o.clone()];
    expected.sort();
    expected.insert(0, w.clone());
    assert_eq!(of(&view, &w, Some(&home), set(&[])), (expected, vec![]));

    // The whole host is too much: the working directory, HOME when somebody lists names, and of the rest well-known secrets.
    let mut view = View::default();
    add(&mut view, Path::new("/"), Rule::Read);
    add(&mut view, &o, Rule::Mask);
    let (roots, rest) = of(&view, &w, Some(&home), set(&[]));
    assert_eq!(roots, [w.clone(), home.clone()]);
    let (roots, beginning) = of(&view, &w, Some(&home), default_and(&[]));
    assert_eq!((roots, &beginning[0]), (vec![w.clone()], &home));
    assert_eq!(beginning[1..], rest);
    for (place, expected) in [("/var", true), ("/etc", true), ("/usr", false), ("/proc", false), ("/bin", false)] {
        assert_eq!(rest.contains(&PathBuf::from(place)), expected, "{place}");
    }
    assert_eq!(of(&view, &o, None, set(&[])).0, [""; 0].map(PathBuf::from));
    assert_eq!(of(&view, Path::new("/"), Some(Path::new("/")), set(&[])).0, [""; 0].map(PathBuf::from));
}

#[test]
fn directories_of_toolchains_are_not_searched_under_the_default_list() {
    let tree = Tree::new(&["home/.cargo/registry/.x", "home/.rustup/.y", "home/p/.z"]);
    let home = tree.path("home");
    let found = |grants: &[&str], workdir: &str, names: Names| {
        let mut view = View::default();
        for grant in grants {
            view.add(&tree.path(grant), Rule::Read, FileKind::Directory);
        }
        view.add(&tree.path(workdir), Rule::Workdir, FileKind::Directory);
        let ground = Ground::of(&view, &tree.path(workdir), Some(&home), &names);
        tree.names(&scan(&ground, &rule(99, Overflow::Error), &names).unwrap())
    };
    assert_eq!(found(&["home/.cargo", "home/.rustup"], "home/p", default_and(&[])), ["home/p/.z"]);
    assert_eq!(found(&[], "home", default_and(&[])), ["home/.rustup", "home/p/.z"]);
    assert_eq!(found(&[], "home/.cargo", default_and(&[])), ["home/.cargo/registry/.x"], "started there");
    let all = ["home/.cargo/registry/.x", "home/.rustup/.y", "home/p/.z"];
    assert_eq!(found(&["home/.cargo", "home/.rustup"], "home/p", set(&[])), all, "somebody listed names");
}

#[test]
fn what_can_be_written_is_searched_wherever_it_lies() {
    let home = Path::new("/home/user");
    for (place, narrow) in [
        ("/usr/local/lib/x", true),
        ("/usr/share/x", true),
        ("/usr/src/x", false),
        ("/home/user/.cargo", true),
        ("/home/user/.local/share/x", true),
        ("/home/user/sdk", false),
        ("/dev/dri", false),
    ] {
        let of = |rule: Rule| {
            let mut view = View::default();
            view.add(Path::new(place), rule, FileKind::Directory);
            Ground::of(&view, Path::new("/w"), Some(home), &default_and(&[]))
        };
        assert_eq!(of(Rule::Write).narrow.contains(&PathBuf::from(place)), narrow, "{place}");
        let read = of(Rule::Read);
        assert!(read.narrow.is_empty(), "{place}");
        assert_eq!(read.tools.is_empty(), !place.contains("/."), "{place}");
    }
}

#[test]
fn the_default_list_shows_what_tools_need_and_no_secret() {
    let tree = Tree::new(&[
        ".git/config",
        ".github/workflows/ci.yml",
        ".eslintrc.json",
        ".env",
        ".env.local",
        ".env.example",
        ".npmrc",
        ".config/gh/hosts.yml",
        ".config/nvim/init",
        ".cargo/config.toml",
        ".cargo/credentials.toml",
        "a/.config/gcloud/x",
        "a/.netrc",
        "a/.new",
        "a/config/gh/x",
        ".npm -> a/config",
        ".secrets -> a/config",
    ]);
    let found = |names: &Names| {
        let ground = tree.ground(&[""], &[]);
        tree.names(&scan(&ground, &rule(99, Overflow::Error), names).unwrap())
    };
    let hidden = [
        ".cargo/credentials.toml",
        ".config/gh",
        ".env",
        ".env.local",
        ".npmrc",
        "a/.config/gcloud",
        "a/.netrc",
        "a/.new",
    ];
    // Of hidden links only one with the name of a secret takes along what it leads to.
    let with_link = [&hidden[..], &["a/config"]].concat();
    assert_eq!(found(&default_and(&[])), with_link);
    let more = found(&default_and(&[".netrc", ".new", ".secrets"]));
    assert_eq!(more, [&hidden[..6]].concat());
    // A list of one's own shows what it names, but no secret below it.
    assert_eq!(found(&set(&[".config", ".npmrc", ".npm"]))[..3], [".cargo", ".config/gh", ".env"]);
}

#[test]
fn all_but_secrets_are_entered_and_shown() {
    let tree = Tree::new(&[
        ".env",
        ".env.example",
        ".odd/.env",
        ".odd/.x/.netrc",
        ".odd/.x/y",
        ".config/gh/hosts.yml",
        ".config/nvim/init",
        "a/.state",
        "a/config/gh/x",
        "a/.data/key",
        "a/.yarnrc",
        ".git/.env",
        ".git/x",
        ".npm -> a/config",
        ".secrets -> a/config",
        ".pgpass -> a/.data/key",
        ".boto -> a/.state",
        ".s3cfg -> a/.listed",
        "a/.listed",
        ".netrc -> .env.example",
    ]);
    let found = |listed: &[&str]| {
        let names = Names { others: Others::AllButSecrets, ..set(listed) };
        let found = scan(&tree.ground(&[""], &[]), &rule(99, Overflow::Error), &names).unwrap();
        assert_eq!(found.unknown().count(), 0);
        tree.names(&found)
    };
    let hidden =
        [".config/gh", ".env", ".git/.env", ".odd/.env", ".odd/.x/.netrc", "a/.data/key", "a/.state", "a/.yarnrc"];
    // What a link with the name of a secret leads to is one, unless somebody vouches for its own name.
    assert_eq!(found(&[".listed"]), [&hidden[..], &["a/config"]].concat());
    let fewer = [".config/gh", ".odd/.x/.netrc", "a/.data/key", "a/.yarnrc", "a/config"];
    assert_eq!(found(&[".listed", ".env", ".boto"]), fewer);
}

#[test]
fn unknown_names_are_told_from_secrets() {
    let tree =
        Tree::new(&[".env", ".new", ".config/gh/x", ".git/HEAD", "a/.odd/.env", "a/.netrc", ".ssh -> a/b", "a/b"]);
    let unknown = |names: &Names| {
        let mut scan = scan(&tree.ground(&[""], &[]), &rule(99, Overflow::Error), names).unwrap();
        scan.look_again().unwrap();
        let top = tree.path("");
        scan.unknown().map(|path| path.strip_prefix(&top).unwrap().display().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(unknown(&default_and(&[])), [".new", "a/.odd"]);
    assert_eq!(unknown(&set(&[".new"])), [".config", ".git", "a/.odd"]);
}

#[test]
fn of_the_rest_of_a_host_only_secrets_are_hidden() {
    let tree =
        Tree::new(&["w/.any", "rest/.any", "rest/p/.ssh/id", "rest/.config/gh/x", "rest/p/.git/x", "rest/p/.env"]);
    let ground = Ground { rest: vec![tree.path("rest")], ..tree.ground(&["w"], &["rest/p/.env"]) };
    let names = default_and(&[]);
    let found = scan(&ground, &rule(99, Overflow::Error), &names).unwrap();
    assert_eq!(tree.names(&found), ["rest/.config/gh", "rest/p/.ssh", "w/.any"]);
    assert!(found.repositories.contains(&tree.path("rest/p/.git")));
    // It has a limit of its own, and reaching that is no failure.
    assert_eq!(tree.names(&scan(&ground, &rule(1, Overflow::Error), &names).unwrap()), ["w/.any"]);
}

/// Their names, and whatever else a command can make, would let it end the search where it likes.
#[test]
fn the_limit_counts_in_directories_of_dependencies_and_caches() {
    let tree = Tree::new(&["node_modules/a/.x", "node_modules/b/.y", "src/f", ".z", "CACHEDIR.TAG"]);
    for names in [default_and(&[]), set(&[])] {
        let with = |max_entries, overflow| scan(&tree.ground(&[""], &[]), &rule(max_entries, overflow), &names);
        for max in [5, 6, 8] {
            assert!(with(max, Overflow::Error).unwrap_err().to_string().contains("node_modules"), "{max}");
        }
        let partly = with(6, Overflow::Warn).unwrap();
        assert_eq!((tree.names(&partly), partly.warnings.len()), (vec![".z".into()], 1));
        assert_eq!(with(9, Overflow::Error).unwrap().len(), 3);
    }
}

#[test]
fn a_root_that_cannot_be_searched_is_an_error() {
    let tree = Tree::new(&["w/.x", "o/.y"]);
    let close = |mode| fs::set_permissions(tree.path("w"), fs::Permissions::from_mode(mode)).unwrap();
    let with = |overflow| scan(&tree.ground(&["w", "o"], &[]), &rule(9, overflow), &set(&[]));
    for mode in [0o000, 0o444, 0o600] {
        close(mode);
        let (refused, warned) = (with(Overflow::Error), with(Overflow::Warn));
        close(0o700);
        let error = refused.unwrap_err().to_string();
        assert!(
            error.ends_with(&format!(
                "'{}' for names that begin with a dot: permission denied",
                tree.path("w").display()
            ))
        );
        // What else there is to hide is found.
        let warned = warned.unwrap();
        assert_eq!((tree.names(&warned), warned.warnings.len()), (vec!["o/.y".into()], 1));
    }
    assert_eq!(tree.names(&with(Overflow::Error).unwrap()), ["o/.y", "w/.x"]);
}

#[test]
fn file_systems_that_can_take_long_are_known_by_their_types() {
    let table =
        b"1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:5 / /proc rw - proc proc rw\n3 1 0:9 / /mnt/c rw shared:3 - 9p c rw\n\
        4 1 0:8 / /net/h rw - fuse.sshfs h rw\n5 1 0:7 / /sys/fs/fuse/connections rw - fusectl x rw\ngarbage\n";
    let found = far_mounts(table);
    let names: Vec<_> = found.iter().map(|(point, kind)| (point.to_str().unwrap(), kind.as_str())).collect();
    assert_eq!(names, [("/proc", "proc"), ("/mnt/c", "9p"), ("/net/h", "fuse")]);
    let tree = Tree::new(&["home/.npmrc"]);
    let ground = Ground { unsearched: vec!["/mnt/c".into()], ..tree.ground(&[], &[]) };
    let scan = scan(&ground, &rule(99, Overflow::Error), &default_and(&[])).unwrap();
    assert!(scan.warnings.concat().contains("not searched (a grant of one is, a mask hides it): '/mnt/c'"));
}
