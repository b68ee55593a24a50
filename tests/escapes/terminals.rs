//! Terminals beside the one that is the command's own; typing into that one is tried in `terminal`.

use nix::pty::openpty;
use nix::unistd::ttyname;

use super::python;
use crate::harness::World;
use crate::pty::Terminal;

/// A terminal of the same user can be written to and read from by everything of that user.
#[test]
fn other_terminals_are_not_there() {
    let world = World::new();
    let other = openpty(None, None).expect("terminal");
    let name = ttyname(&other.slave).expect("name");
    let name = name.to_str().expect("text");
    let script = "import os, sys
for path in sys.argv[1:]:
    try: os.close(os.open(path, os.O_RDWR | os.O_NOCTTY)); print('open')
    except OSError as error: print(type(error).__name__)";
    let console =
        ["/dev/console", "/dev/tty0", "/dev/tty1", "/dev/vcs", "/dev/vcsa", "/dev/ttyS0", "/dev/fb0", "/dev/input"];
    let words = [&[name], &console[..]].concat();
    let expected = "FileNotFoundError\n".repeat(words.len());
    for options in [&[][..], &["-w", "."], &["--new-session", "never"]] {
        python(&world, Some(options), script, &words).done().is(0, &expected, "");
    }
    python(&world, None, script, &[name]).done().is(0, "open\n", "");
    // On a terminal of its own the command sees no other either.
    let mut terminal = Terminal::start(python(&world, Some(&["--new-session", "never"]), script, &[name]));
    terminal.expect("Error");
    assert!(!terminal.text().contains("open"), "{}", terminal.text());
    terminal.done().0.code(0);
}
