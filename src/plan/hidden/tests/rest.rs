//! The search of the rest of a host: no directory takes from the share of another.

use super::*;

/// What a command makes in one directory takes from that one's share: flat, branching, and in long chains.
#[test]
fn no_directory_of_the_rest_keeps_others_from_being_searched() {
    let flat: Vec<String> = (0..1500).map(|number| format!("/{number}/")).collect();
    let tree: Vec<String> =
        (1..2048_u32).map(|number| format!("{number:b}").chars().flat_map(|bit| ['/', bit]).collect()).collect();
    let chains: Vec<String> = (0..20).map(|number| format!("/{number}{}", "/d".repeat(80))).collect();
    let files: Vec<String> = (0..1500).map(|number| format!("/{number}")).collect();
    for (what, shape) in [("flat", flat), ("tree", tree), ("chains", chains), ("files", files)] {
        for name in ["aproj", "zproj"] {
            let mut names: Vec<String> = shape.iter().map(|end| format!("home/{name}{end}")).collect();
            names.extend(["home/far/1/2/3/.npmrc".into(), "home/far/1/2/3/f".into(), "home/.npmrc".into()]);
            names.iter_mut().filter(|name| what != "files" && name.contains("proj")).for_each(|name| name.push('/'));
            let tree = Tree::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
            let ground = Ground { rest: vec![tree.path("home")], ..tree.ground(&[], &[]) };
            let scan = scan(&ground, &rule(1200, Overflow::Error), &default_and(&[])).unwrap();
            assert_eq!(tree.names(&scan), ["home/.npmrc", "home/far/1/2/3/.npmrc"], "{what} {name}");
            // What was not looked at is told.
            let warning = scan.warnings.concat();
            assert!(
                warning.contains("1200 entries")
                    && warning.contains(&tree.path("home").join(name).display().to_string()),
                "{what}: {warning}"
            );
        }
    }
}

/// A directory with more entries than one turn is looked at to its end, if nothing else needs the limit.
#[test]
fn a_long_directory_of_the_rest_is_searched_to_its_end() {
    let names: Vec<String> = (0..1000).map(|number| format!("home/{number}/.npmrc")).collect();
    let tree = Tree::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let ground = Ground { rest: vec![tree.path("home")], ..tree.ground(&[], &[]) };
    let scan = scan(&ground, &rule(50_000, Overflow::Error), &default_and(&[])).unwrap();
    assert_eq!((scan.len(), scan.warnings.len()), (1000, 0), "{:?}", scan.warnings);
}

/// The tree of a container, a chroot.
#[test]
fn password_hashes_of_other_systems_are_hidden_in_the_rest() {
    let tree = Tree::new(&[
        "srv/c/etc/passwd",
        "srv/c/etc/shadow",
        "srv/c/etc/gshadow-",
        "srv/c/etc/group",
        "srv/d/etc/shadow",
        "srv/e/passwd",
        "srv/e/shadow",
    ]);
    let ground = Ground { rest: vec![tree.path("srv")], ..tree.ground(&[], &[]) };
    let found = scan(&ground, &rule(99, Overflow::Error), &default_and(&[])).unwrap();
    assert_eq!(tree.names(&found), ["srv/c/etc/gshadow-", "srv/c/etc/shadow"]);
    // Whoever names such a tree means it.
    assert_eq!(
        tree.names(&scan(&tree.ground(&["srv"], &[]), &rule(99, Overflow::Error), &default_and(&[])).unwrap()),
        [""; 0]
    );
}
