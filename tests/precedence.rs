//! The most specific rule decides and a denial wins a tie: every mix of rules at three nested depths, against a model of
//! ten lines.

use std::fmt::Write as _;
use std::fs;

use crate::containers::Place;
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
    let states = states(rules);
    assert_eq!(done.out(), expected(states, true), "{rules:?}, states {states:?}");
    on_the_host(world, "o", rules);
}

/// What the rules make of each depth.
fn states(rules: [Rules; 3]) -> [State; 3] {
    let mut states = [Absent; 3];
    let mut above = Absent;
    for (slot, rules) in states.iter_mut().zip(rules) {
        above = state(rules, above);
        *slot = above;
    }
    states
}

/// What the target has to print; `own` says whether the directories on the way to what is shown are its own.
fn expected(states: [State; 3], own: bool) -> String {
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
        if here == Write || (here == Absent && exists && own) {
            expected.push_str("touched\n");
        }
    }
    if !states.iter().any(|state| shows(*state)) {
        expected.clear();
    }
    expected
}

/// What became of the tree in `top`, which is put in order again.
fn on_the_host(world: &World, top: &str, rules: [Rules; 3]) {
    for (dir, state) in DIRS.into_iter().zip(states(rules)) {
        let (file, new) = (format!("{top}/{dir}/f"), format!("{top}/{dir}/new"));
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

/// A tree for each mix, and all of them in one container: an engine takes too long to start one for each.
#[test]
fn all_mixes_at_once_in_a_container() {
    let single = ONE.iter().flat_map(|a| ONE.iter().flat_map(move |b| ONE.iter().map(move |c| [*a, *b, *c])));
    let ties = TIES.iter().flat_map(|a| TIES.iter().map(move |b| [*a, *b, ""]));
    let mixes: Vec<[Rules; 3]> = single.chain(ties).collect();
    for (user, place) in Place::both() {
        let world = &place.world;
        let mut options = Vec::new();
        for (number, mix) in mixes.iter().enumerate() {
            for (rules, dir) in mix.iter().zip(DIRS) {
                world.write(&format!("o/{number}/{dir}/f"), dir);
                options.extend(words(rules, &world.text(&format!("o/{number}/{dir}"))));
            }
        }
        world.call("chown", ["-R", &format!("{user}:{user}"), &world.text("o")]).done().code(0);
        let each = "probe=$1; shift; for top; do echo \"= $top\"; sh -c \"$probe\" \"$top\"; done";
        options.extend(["--", "sh", "-c", each, "_", PROBE].map(String::from));
        options.extend((0..mixes.len()).map(|number| world.text(&format!("o/{number}"))));
        let options: Vec<_> = options.iter().map(String::as_str).collect();
        let out = place.run(&options).done().code(0).out();
        let answers: Vec<_> = out.split("= /").skip(1).map(|answer| answer.split_once('\n').unwrap().1).collect();
        assert_eq!(answers.len(), mixes.len());
        for ((number, mix), answer) in mixes.iter().enumerate().zip(answers) {
            let states = states(*mix);
            // They are root's, who has made them there.
            assert_eq!(answer, expected(states, user == 0), "{user}: {mix:?}, states {states:?}");
            on_the_host(world, &format!("o/{number}"), *mix);
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
