//! What is written to places that end with the sandbox is told with `-v`: names and sizes, never what is in it.

use crate::harness::{BACKENDS, Done, World};

/// Lines about what is gone.
fn lost(done: &Done) -> Vec<&str> {
    done.stderr.lines().filter_map(|line| line.strip_prefix("sandbox-run: note: written to the private ")).collect()
}

const KEEPS: &str = "; -w PATH keeps what is written there";

#[test]
fn what_is_lost_is_told_to_those_who_ask() {
    let world = World::new();
    let script = "mkdir -p ~/.cache/pip ~/empty; printf 12345 >~/.cache/pip/s3cret-content; printf 1 >~/notes; ln -s / ~/link; \
                  printf 12 >/tmp/scratch; exit 3";
    let done = world.sh(["-v"], script).done().code(3).stdout("");
    let mut all = lost(&done);
    all.sort_unstable();
    let home = format!("HOME and gone: ~/.cache (1 file, 5 bytes), ~/link (1 byte), ~/notes (1 byte){KEEPS}");
    let tmp = format!("'/tmp' and gone: /tmp/scratch (2 bytes){KEEPS}");
    // By place, and where HOME lies is this world's.
    assert_eq!(all, [&*tmp, &*home], "{}", done.stderr);
    done.stderr_lacks("s3cret");
    assert!(!world.has("home/notes") && !world.has("home/.cache"));
    // The control: what a grant keeps is not lost, and nobody hears of it who did not ask.
    world.dir("home/.cache");
    let done = world.sh(["-v", "-w", "~/.cache"], "printf 12345 >~/.cache/kept").done().code(0);
    assert_eq!(lost(&done), [""; 0], "{}", done.stderr);
    assert_eq!(world.read("home/.cache/kept"), "12345");
    world.sh(["--"; 0], script).done().is(3, "", "");
    for options in BACKENDS {
        let done = world.sh([&options[1..], &["-v"]].concat(), "true").done().code(0);
        assert_eq!(lost(&done), [""; 0], "{}", done.stderr);
    }
}

/// Beside a project in HOME there is a place to write that nobody asked for.
#[test]
fn what_is_written_beside_the_project_is_told() {
    let world = World::new();
    world.write("home/src/project/file", "x");
    world.write("home/src/project/.hidden/x", "x");
    let before = world.snapshot();
    let script = "mkdir ../tree && printf 123 >../tree/a && printf 4 >../tree/b; printf 12 >../file";
    let done = world.sh(["-v"], script).cwd(world.path("home/src/project")).done().code(0);
    let line = format!("HOME and gone: ~/src/tree (2 files, 4 bytes), ~/src/file (2 bytes){KEEPS}");
    assert_eq!(lost(&done), [&*line], "{}", done.stderr);
    assert_eq!(world.snapshot(), before);
}

/// Many files cost little, and are not listed one by one.
#[test]
fn many_files_are_a_short_line() {
    let world = World::new();
    let script = "cd ~; i=0; while [ $i -lt 300 ]; do : >$i; i=$((i + 1)); done; mkdir big; head -c 3000 /dev/zero >big/f; exit 0";
    let done = world.sh(["-v"], script).done().code(0);
    let all = lost(&done);
    assert!(all.len() == 1 && all[0].starts_with("HOME and gone: ~/big (1 file, 3 KiB), ~/0 (0 bytes), "), "{all:?}");
    assert!(all[0].contains(", 296 more; ") || all[0].contains("as far as it was looked at"), "{all:?}");
    // Names cannot steer a terminal.
    let done = world.sh(["-v"], "printf x >\"$HOME/$(printf 'a\\033[2Jb\\nc')\"").done().code(0);
    assert!(!done.stderr.contains('\u{1b}') && lost(&done).len() == 1, "{}", done.stderr);
}

/// What nobody can enter keeps nobody from telling the rest, and from ending.
#[test]
fn what_cannot_be_looked_at_is_passed_over() {
    let world = World::new();
    let script = "cd ~; mkdir closed loop; : >closed/x; chmod 0 closed; ln -s .. loop/up; mkfifo pipe; printf 1 >f; sleep 600 & exit 4";
    let done = world.sh(["-v"], script).done().code(4);
    let all = lost(&done);
    assert!(all.len() == 1 && all[0].contains("~/f (1 byte)"), "{all:?} {}", done.stderr);
}
