//! Every cell of the table of rules: none, read, write, mask and protect at each of three nested depths, the deepest a file, a
//! directory or a link, each read, listed, appended to, created in, renamed and removed inside a sandbox.
//!
//! What is expected follows from two sentences, not from the program: the most specific rule decides, and it decides for all
//! below it; a protect only takes writing away.

use std::collections::BTreeMap;
use std::fs;

use crate::harness::World;
use crate::precedence::State;

const RULES: [&str; 5] = ["", "-r", "-w", "--mask", "--protect"];

use State::{Absent, Masked, Read, Write};

/// The most specific rule decides.
fn state(rule: &str, above: State) -> State {
    match rule {
        "-r" => Read,
        "-w" => Write,
        "--mask" => Masked,
        "--protect" if above == Write => Read,
        _ => above,
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Leaf {
    File,
    Directory,
    Link,
}

/// Tries all that can be done at the three depths below `argv[1]`; prints a line for what worked.
///
/// What is changed is left changed, so that the host shows it.
const PROBE: &str = r"
import os, sys
os.chdir(sys.argv[1]); kind = sys.argv[2]
def cell(name, action):
    try: worked = action()
    except OSError: return
    if worked is not False: print(name)
def text(path, expected): return lambda: open(path).read().startswith(expected)
def append(path): return lambda: (os.stat(path), open(path, 'a').write('+'))
def create(path): return lambda: os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
def move(path): return lambda: (os.rename(path, path + '~'), os.rename(path + '~', path))
def anew(path, make): return lambda: (os.unlink(path), make())
for depth, top in enumerate(['a', 'a/b']):
    f = top + '/f'
    cell(f'{depth} cat', text(f, 'host'))
    cell(f'{depth} ls', lambda: 'f' in os.listdir(top))
    cell(f'{depth} append', append(f))
    cell(f'{depth} create', create(top + '/new'))
    cell(f'{depth} rename', move(f))
    cell(f'{depth} unlink', anew(f, create(f)))
leaf = 'a/b/leaf'
if kind == 'Directory':
    x = leaf + '/x'
    cell('2 cat', text(x, 'host'))
    cell('2 ls', lambda: 'x' in os.listdir(leaf))
    cell('2 append', append(x))
    cell('2 create', create(leaf + '/new'))
    cell('2 rename', move(leaf))
    cell('2 unlink', anew(x, create(x)))
else:
    again = create(leaf) if kind == 'File' else lambda: os.symlink('real', leaf)
    cell('2 cat', text(leaf, 'host'))
    cell('2 append', append(leaf))
    cell('2 rename', move(leaf))
    cell('2 unlink', anew(leaf, again))
";

/// The tree that it is tried on, the same each time.
fn plant(world: &World, leaf: Leaf) {
    let _absent = fs::remove_dir_all(world.path("o/a"));
    for name in ["o/a/f", "o/a/b/f", "o/a/b/real"] {
        world.write(name, "host");
    }
    match leaf {
        Leaf::File => drop(world.write("o/a/b/leaf", "host")),
        Leaf::Directory => drop(world.write("o/a/b/leaf/x", "host")),
        Leaf::Link => drop(world.link("o/a/b/leaf", "real")),
    }
}

/// Every cell and whether it has to work.
fn expected(rules: [&str; 3], leaf: Leaf) -> BTreeMap<String, (State, bool)> {
    let mut cells = BTreeMap::new();
    let mut above = Absent;
    let mut states = [Absent; 3];
    for (slot, rule) in states.iter_mut().zip(rules) {
        above = state(rule, above);
        *slot = above;
    }
    for (depth, here) in states.into_iter().enumerate() {
        let (reads, writes) = (matches!(here, Read | Write), here == Write);
        let mut cell = |name: &str, works: bool| cells.insert(format!("{depth} {name}"), (here, works));
        cell("cat", reads);
        cell("append", writes);
        if depth < 2 || leaf == Leaf::Directory {
            cell("ls", reads);
            cell("create", writes);
        }
        match (depth, leaf) {
            (0 | 1, _) => {
                cell("rename", writes);
                cell("unlink", writes);
            }
            // A name belongs to its directory. One that a rule is about keeps its place.
            (_, Leaf::Link) => {
                cells.insert("2 rename".into(), (states[1], states[1] == Write));
                cells.insert("2 unlink".into(), (states[1], states[1] == Write));
            }
            (_, Leaf::File) => {
                let free = states[1] == Write && rules[2].is_empty();
                cells.insert("2 rename".into(), (states[1], free));
                cells.insert("2 unlink".into(), (states[1], free));
            }
            (_, Leaf::Directory) => {
                cells.insert("2 rename".into(), (states[1], states[1] == Write && rules[2].is_empty()));
                cells.insert("2 unlink".into(), (here, writes));
            }
        }
    }
    cells
}

/// Tries each mix of rules. With `many` further rules the mounts are made in another place.
fn try_all(leaf: Leaf, many: bool) {
    let world = World::new();
    let mut more = Vec::new();
    for number in 0..if many { 30 } else { 0 } {
        world.write(&format!("w/m{number}"), "s3cret");
        more.extend(["--mask".to_owned(), format!("m{number}")]);
    }
    let (top, kind) = (world.text("o"), format!("{leaf:?}"));
    let mut tried = 0;
    for (a, b, c) in RULES.iter().flat_map(|a| RULES.iter().flat_map(move |b| RULES.iter().map(move |c| (*a, *b, *c))))
    {
        plant(&world, leaf);
        let mut options = more.clone();
        for (rule, path) in [(a, "o/a"), (b, "o/a/b"), (c, "o/a/b/leaf")] {
            if !rule.is_empty() {
                options.extend([rule.to_owned(), world.text(path)]);
            }
        }
        options.extend(["--", "python3", "-c", PROBE, &top, &kind].map(String::from));
        let before = world.snapshot();
        let done = world.run(&options).done();
        let cells = expected([a, b, c], leaf);
        if leaf == Leaf::Link && c == "--protect" && state(b, state(a, Absent)) == Write {
            // Who can write its directory gives the name of a link to something else.
            done.refused(125, &["cannot protect", "is a link"]);
            assert_eq!(world.snapshot(), before);
            continue;
        }
        let nothing = [a, b, c].iter().all(|rule| !matches!(*rule, "-r" | "-w"));
        if nothing {
            done.code(1).stderr_has("No such file");
        } else {
            let done = done.code(0).stderr("");
            let worked: Vec<String> = done.out().lines().map(String::from).collect();
            for (cell, (state, works)) in &cells {
                let did = worked.contains(cell);
                // Where nothing is shown is a place of the sandbox's own, on the way to what is.
                let own = *state == Absent && !works && !cell.ends_with("cat") && !cell.ends_with("ls");
                assert!(did == *works || own, "{leaf:?} [{a}, {b}, {c}] {cell}: {did}, expected {works} as {state:?}");
            }
        }
        // What the host has to show for it.
        let after = world.snapshot();
        let changed: Vec<_> = before.iter().filter(|(path, text)| after.get(*path) != Some(text)).collect();
        let new: Vec<_> = after.keys().filter(|path| !before.contains_key(*path)).collect();
        let writes = cells.values().any(|(state, _)| *state == Write);
        assert_eq!(!changed.is_empty(), writes, "{leaf:?} [{a}, {b}, {c}]: {changed:?}");
        for (name, cell) in [("o/a/new", "0 create"), ("o/a/b/new", "1 create"), ("o/a/b/leaf/new", "2 create")] {
            let works = cells.get(cell).is_some_and(|(_, works)| *works);
            assert_eq!(new.contains(&&world.path(name)), works, "{leaf:?} [{a}, {b}, {c}]: {name}");
        }
        for (name, depth) in [("o/a/f", 0), ("o/a/b/f", 1)] {
            let works = cells[&format!("{depth} append")].1;
            let text = if works { "" } else { "host" };
            assert_eq!(world.read(name), text, "{leaf:?} [{a}, {b}, {c}]: {name}");
        }
        tried += 1;
    }
    assert!(tried >= 100, "{tried}");
}

#[test]
fn a_file_in_two_directories() {
    try_all(Leaf::File, false);
}

#[test]
fn a_directory_in_two_directories() {
    try_all(Leaf::Directory, false);
}

#[test]
fn a_link_in_two_directories() {
    try_all(Leaf::Link, false);
}

#[test]
fn a_directory_among_many_rules() {
    try_all(Leaf::Directory, true);
}

#[test]
fn a_file_among_many_rules() {
    try_all(Leaf::File, true);
}
