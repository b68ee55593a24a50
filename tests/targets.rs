//! Wherever the target lies, it starts: it and its interpreter are visible by the file alone, never by their directories.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::harness::{World, find, is_root};

/// A script that says where it is and what lies beside it.
const LOOK: &str = "#!/bin/sh\nls -A \"${0%/*}\"\n";

#[test]
fn a_script_anywhere_is_seen_alone() {
    let world = World::new();
    for place in ["o/opt/x", "home/bin", "w/bin", "o/name with blanks"] {
        world.write(&format!("{place}/beside"), "s3cret");
        world.write(&format!("{place}/../also"), "s3cret");
        let tool = world.script(&format!("{place}/tool"), LOOK);
        let before = world.snapshot();
        let expected = if place.starts_with("w/") { "beside\ntool\n" } else { "tool\n" };
        world.run([&tool]).done().is(0, expected, "");
        // By PATH as well.
        let path = format!("{}:/usr/bin:/bin", world.text(place));
        world.run(["tool"]).env("PATH", path).done().is(0, expected, "");
        assert_eq!(world.snapshot(), before);
        world
            .sh(["true"; 0], &format!("cat '{}'", world.text(&format!("{place}/../also"))))
            .done()
            .code(i32::from(!place.starts_with("w/")));
    }
    world.run(["bin/tool"]).done().is(0, "beside\ntool\n", "");
    world.run(["./tool"]).cwd(world.path("w/bin")).done().is(0, "beside\ntool\n", "");
    world.run(["~/bin/tool"]).done().refused(127, &["~/bin/tool"]);
}

#[test]
fn a_tool_below_opt() {
    if !is_root() {
        return eprintln!("only root can write to /opt");
    }
    let dir = tempfile::Builder::new().prefix("sandbox-run-test-").tempdir_in("/opt").unwrap();
    let tool = dir.path().join("tool");
    fs::write(dir.path().join("beside"), "").unwrap();
    let world = World::new();
    // Written by another process, since one that is forked meanwhile would hold it open for writing.
    let write = "printf '#!/bin/sh\\nls -A \"${0%%/*}\" /opt\\n' >\"$0\" && chmod 755 \"$0\"";
    world.call("sh", ["-c", write, tool.to_str().unwrap()]).done().is(0, "", "");
    let (top, name) = (dir.path().to_str().unwrap(), dir.path().file_name().unwrap().to_str().unwrap());
    world.run([&tool]).done().is(0, &format!("/opt:\n{name}\n\n{top}:\ntool\n"), "");
}

#[test]
fn each_link_of_a_chain_is_there() {
    let world = World::new();
    world.script("o/far/real", "#!/bin/sh\necho \"$0\" ran\n");
    world.write("o/far/beside", "s3cret");
    world.link("o/mid", "far/real");
    world.link("w/abs", world.path("o/mid"));
    world.link("w/rel", "../o/mid");
    world.link("home/dir", world.path("o"));
    let home = world.text("home/dir/mid");
    for name in ["./abs", "./rel", home.as_str()] {
        world.run([name]).done().is(0, &format!("{name} ran\n"), "");
    }
    world.sh(["--mask", &world.text("o/far")], "./rel").done().code(127);
    world.run(["--mask", &world.text("o/far"), "./rel"]).done().refused(127, &["rel", "hidden"]);
    let list = world.script("w/list", &format!("#!{}\n", world.text("w/sh")));
    world.link("w/sh", "/bin/sh");
    fs::write(&list, format!("#!{}\nls -AR {}\n", world.text("w/sh"), world.text("o"))).unwrap();
    world.run(["./list"]).done().code(2).stderr_has("No such file");
}

#[test]
fn interpreters_of_the_system_and_of_ones_own() {
    let world = World::new();
    world.run(["/usr/bin/awk", "BEGIN { print 1 }"]).done().is(0, "1\n", "");
    world.run(["awk", "BEGIN { print 1 }"]).done().is(0, "1\n", "");
    world.script("o/env", "#!/usr/bin/env python3\nprint('ran')\n");
    world.script("o/plain", "echo \"ran $1\"\n");
    world.run([world.path("o/env")]).done().is(0, "ran\n", "");
    world.run([world.text("o/plain"), "well".into()]).done().is(0, "ran well\n", "");
    // An interpreter outside the system directories, itself behind a link.
    crate::harness::alone(|| fs::copy(find("dash").or_else(|| find("sh")).unwrap(), world.path("o/shell"))).unwrap();
    fs::set_permissions(world.path("o/shell"), fs::Permissions::from_mode(0o755)).unwrap();
    world.link("o/link", "shell");
    world.script("home/own", &format!("#!{}\nls -A {}\n", world.text("o/link"), world.text("o")));
    world.run([world.path("home/own")]).done().is(0, "link\nshell\n", "");
}

#[test]
fn python_of_a_virtual_environment() {
    let world = World::new();
    world.call("python3", ["-m", "venv", "--without-pip", "../o/venv"]).done().is(0, "", "");
    world.write("o/beside", "s3cret");
    let python = world.text("o/venv/bin/python");
    world.run([python.as_str(), "-c", "print('ran')"]).done().is(0, "ran\n", "");
    world.run([python.as_str(), "-c", "import os; print(os.listdir('../o'))"]).done().is(0, "['venv']\n", "");
    let prefix = ["-c", "import sys; print(sys.prefix)"];
    let venv = world.text("o/venv");
    world.run(["-r", &venv, &python].iter().chain(&prefix)).done().is(0, &format!("{venv}\n"), "");
    world.call("python3", ["-m", "venv", "--without-pip", "venv"]).done().is(0, "", "");
    world.run(["venv/bin/python"].iter().chain(&prefix)).done().is(0, &format!("{}\n", world.text("w/venv")), "");
}

/// A script's first line can name other files, as values of options: none of them is the program that it starts.
#[test]
fn no_value_of_an_option_of_env_is_shown() {
    let world = World::new();
    world.script("w/real", "#!/bin/sh\nls -A ../o\n");
    let other = world.script("o/deploy.sh", "#!/bin/sh\n: s3cret\n");
    let other = other.to_str().unwrap();
    for options in
        ["--unset OTHER", "--unse OTHER", "--u OTHER", "-u OTHER", "-iu OTHER", "--block-signal --unse OTHER"]
    {
        world.script("w/run", &format!("#!/usr/bin/env -S {} ./real\n", options.replace("OTHER", other)));
        world.run(["./run"]).done().code(2).stdout("").stderr_has("../o");
    }
    // The control: what it does start is shown.
    world.script("w/run", &format!("#!/usr/bin/env -S --unse NAME {other} ./real\n"));
    world.run(["./run"]).done().is(0, "", "");
}
