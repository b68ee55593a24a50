//! The most specific rule decides and a denial wins a tie: every mix of rules at three nested depths, against a model of
//! ten lines.

use std::fmt::Write as _;
use std::fs;

use crate::harness::World;

/// Rules at one path: `r`ead, `w`rite, `m`ask, `p`rotect, or none.
type Rules = &'static str;

const ONE: [Rules; 5] = ["", "r", "w", "m", "p"];
const TIES: [Rules; 11] = ["", "r", "w", "m", "p", "rw", "rm", "wm", "rp", "wp", "mp"];

/// What a path is to the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    /// Nothing shows it and nothing hides it.
    Absent,
    Masked,
    Read,
    Write,
}

use State::{Absent, Masked, Read, Write};

/// What `rules` at a path make of it when its parent is `above`.
fn state(rules: Rules, above: State) -> State {
    let granted = match (rules.contains('w'), rules.contains('r')) {
        (true, _) => Write,
        (_, true) => Read,
        _ => above,
    };
    match (rules.contains('m'), rules.contains('p')) {
        (true, _) => Masked,
        (_, true) if granted == Write => Read,
        _ => granted,
    }
}

fn shows(state: State) -> bool {
    matches!(state, Read | Write)
}

/// The words for `rules` at `path`.
fn words(rules: Rules, path: &str) -> Vec<String> {
    let option = |rule| match rule {
        'r' => "-r",
        'w' => "-w",
        'm' => "--mask",
        _ => "--protect",
    };
    rules.chars().flat_map(|rule| [option(rule).to_owned(), path.to_owned()]).collect()
}

const DIRS: [&str; 3] = ["a", "a/b", "a/b/c"];

/// A tree `a/b/c` with a file `f` in each, outside the working directory.
fn tree() -> World {
    let world = World::new();
    for dir in DIRS {
        world.write(&format!("o/{dir}/f"), dir);
    }
    world
}

/// Looks at each directory, tries to read and to write each.
const PROBE: &str = "cd \"$0\" 2>/dev/null || exit 0
for d in a a/b a/b/c; do
    echo \"$d: $(ls -A $d 2>/dev/null | tr '\\n' ' ')= $(cat $d/f 2>/dev/null)\"
    [ ! -e $d/f ] || echo x 2>/dev/null >>$d/f && [ -s $d/f ] && grep -q x $d/f && echo appended
    touch $d/new 2>/dev/null && echo touched
done
exit 0";

/// Runs one mix and compares what the target saw and did, and what became of the host.
fn check(world: &World, rules: [Rules; 3], reverse: bool, more: &[String]) {
    let mut parts: Vec<_> =
        rules.iter().zip(DIRS).map(|(rules, dir)| words(rules, &world.text(&format!("o/{dir}")))).collect();
    if reverse {
        parts.reverse();
    }
    let mut call: Vec<String> = [parts.concat(), more.to_vec()].concat();
    call.extend(["--", "sh", "-c", PROBE].map(String::from));
    call.push(world.text("o"));
    let done = world.run(call).done().code(0).stderr("");

    let mut states = [Absent; 3];
    let mut above = Absent;
    for (slot, rules) in states.iter_mut().zip(rules) {
        above = state(rules, above);
        *slot = above;
    }
    let mut expected = String::new();
    for (depth, dir) in DIRS.into_iter().enumerate() {
        let here = states[depth];
        // Names on the way to what is shown deeper exist in any case.
        let deeper = states[depth + 1..].iter().any(|state| shows(*state));
        let parent_shows = depth > 0 && shows(states[depth - 1]);
        let exists = shows(here) || parent_shows || deeper;
        let mut names = if shows(here) { "f " } else { "" }.to_owned();
        if let Some(next) = DIRS.get(depth + 1)
            && (shows(here) || deeper)
        {
            names.insert_str(0, &format!("{} ", &next[next.len() - 1..]));
        }
        let text = if shows(here) { dir } else { "" };
        writeln!(expected, "{dir}: {names}= {text}").unwrap();
        if here == Write {
            expected.push_str("appended\n");
        }
        // A directory on the way is one of the private /var/tmp, above all grants; below a mask it is sealed.
        if here == Write || (here == Absent && exists) {
            expected.push_str("touched\n");
        }
    }
    if !states.iter().any(|state| shows(*state)) {
        expected.clear();
    }
    assert_eq!(done.out(), expected, "{rules:?}, states {states:?}");
    for (dir, state) in DIRS.into_iter().zip(states) {
        let (file, new) = (format!("o/{dir}/f"), format!("o/{dir}/new"));
        assert_eq!(world.read(&file) != dir, state == Write, "{rules:?}: {file}");
        assert_eq!(world.has(&new), state == Write, "{rules:?}: {new}");
        if state == Write {
            world.write(&file, dir);
            fs::remove_file(world.path(&new)).unwrap();
        }
    }
}

#[test]
fn three_depths_one_rule_each() {
    let world = tree();
    for a in ONE {
        for b in ONE {
            for c in ONE {
                check(&world, [a, b, c], false, &[]);
            }
        }
    }
}

#[test]
fn two_depths_with_ties() {
    let world = tree();
    for a in TIES {
        for b in TIES {
            check(&world, [a, b, ""], true, &[]);
        }
    }
}

#[test]
fn files_below_a_directory_with_ties() {
    let world = tree();
    let (dir, file) = (world.text("o/a/b"), world.text("o/a/b/f"));
    let script = format!("cat {file} && echo; [ -e {file} ] && echo x >>{file} && echo appended; touch {file}; exit 0");
    for above in TIES {
        for rules in TIES {
            let mut options = words(rules, &file);
            options.extend(words(above, &dir));
            let done = world.sh(options, &format!("{{ {script}; }} 2>/dev/null")).done().code(0).stderr("");
            let parent = state(above, Absent);
            let here = state(rules, parent);
            let expected = match here {
                // Hidden, it is an empty file where its directory is shown.
                Masked if shows(parent) => "\n".to_owned(),
                Absent | Masked => String::new(),
                Read => "a/b\n".to_owned(),
                Write => "a/b\nappended\n".to_owned(),
            };
            assert_eq!(done.out(), expected, "{above:?} above {rules:?}: {parent:?}, {here:?}");
            assert_eq!(world.read("o/a/b/f") != "a/b", here == Write, "{above:?} above {rules:?}");
            world.write("o/a/b/f", "a/b");
        }
    }
}
