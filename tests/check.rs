//! `--check` does the real thing, and both it and a run name the cause and what would help.

use std::fs::File;
use std::path::PathBuf;

use sandbox_run::backend::Backend;
use sandbox_run::policy::Protection;

use crate::fakes::{first, world_with, wrapper};
use crate::harness::{Call, World, about_bwrap, has_landlock, is_root, program};

/// What is said of backends of other systems.
const ELSEWHERE: &str = "seatbelt: does not work here\n  reason: cannot use backend 'seatbelt': it works on macOS only\n  remedy: --dry-run shows what it would be told\n";

/// `--check --json` of this call.
#[track_caller]
fn checked(call: Call, code: i32) -> serde_json::Value {
    let done = call.done().code(code).stderr("");
    let text = done.out();
    assert!(text.ends_with('\n') && text.lines().count() == 1, "one line: {text}");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn what_works_is_listed_with_what_it_enforces() {
    let world = World::new();
    let before = world.snapshot();
    let done = world.run(["--check"]).done().code(0).stderr("");
    let json = checked(world.run(["--check", "--json"]), 0);
    let told = |backend: Backend, protection: Protection| {
        let tried =
            json["backends"].as_array().unwrap().iter().find(|tried| tried["backend"] == backend.word()).unwrap();
        let mut all = tried["protections"].as_array().unwrap().iter();
        all.find(|told| told["protection"] == protection.word()).unwrap().clone()
    };
    let expected = |backend: Backend| -> String {
        let line = |protection: Protection| {
            let table = backend.strength(protection).word();
            let told = told(backend, protection);
            let by = told["by"].as_str();
            let strength = match (protection, by) {
                // What keeps these is different on each host, and named.
                (Protection::Memory | Protection::Procs, None) => "absent",
                (Protection::Cpu, Some(_)) => backend.strength(Protection::Memory).word(),
                _ => table,
            };
            assert_eq!(told["strength"], strength, "{told}");
            assert_eq!(
                told["missing"].is_string(),
                strength == "partial" || (strength == "absent" && table != "absent"),
                "{told}"
            );
            let remedy = told["remedy"].as_str().map_or(String::new(), |remedy| format!("\n    remedy: {remedy}"));
            assert_eq!(remedy.is_empty(), strength != "absent" || table == "absent", "{told}");
            format!("  {protection}: {strength}{remedy}")
        };
        Protection::ALL.map(line).join("\n")
    };
    let without_reasons: String =
        done.out().lines().map(|line| line.split(" (").next().unwrap().to_owned() + "\n").collect();
    let expected = format!(
        "bwrap: works\n  program: /usr/bin/bwrap\n{}\nnamespace: works\n{}\nlandlock: works\n  Landlock ABI: {}\n{}\n{ELSEWHERE}container: does not work here\n  reason: \
         cannot use backend 'container': no image is named\n  remedy: --image NAME says in which image the command starts, 'image' \
         does in a policy file\njobobject: does not work here\n  reason: cannot use backend \
         'jobobject': it works on Windows only\nnone: works, isolates nothing\n{}\nauto takes: bwrap\n",
        expected(Backend::Bwrap),
        expected(Backend::Namespace),
        sandbox_run::sys::landlock::version(),
        expected(Backend::Landlock),
        expected(Backend::None)
    );
    assert_eq!(without_reasons, expected);
    let abi = |tried: &serde_json::Value| tried["landlock_abi"].as_i64();
    let abis: Vec<_> = json["backends"].as_array().unwrap().iter().map(abi).collect();
    assert_eq!(abis, [None, None, Some(sandbox_run::sys::landlock::version().into()), None, None, None, None]);
    assert_eq!((&json["works"], &json["auto"]), (&true.into(), &"bwrap".into()));
    let names: Vec<_> = json["backends"].as_array().unwrap().iter().map(|tried| &tried["backend"]).collect();
    assert_eq!(names, ["bwrap", "namespace", "landlock", "seatbelt", "container", "jobobject", "none"]);
    // Without an image no engine is asked.
    let here = |tried: &&serde_json::Value| {
        !["seatbelt", "container", "jobobject"].iter().any(|backend| tried["backend"] == *backend)
    };
    for tried in json["backends"].as_array().unwrap().iter().filter(here) {
        assert_eq!(tried["works"], true);
        assert!(tried.get("reason").is_none() && tried.get("remedies").is_none(), "{tried}");
        assert_eq!(tried["protections"].as_array().unwrap().len(), Protection::ALL.len());
    }
    assert_eq!(world.snapshot(), before);
}

#[test]
fn a_report_that_cannot_be_written_is_no_success() {
    let world = World::new();
    let full = File::options().write(true).open("/dev/full").unwrap();
    world.run(["--check"]).stdout(full).done().code(125).stderr_has("standard output");
    world.run(["--check"]).stdout(File::create(world.path("report")).unwrap()).done().code(0);
    assert!(world.read("report").contains("auto takes: bwrap"));
}

#[test]
fn no_bwrap_at_all() {
    if about_bwrap("its program is looked for and judged") {
        return;
    }
    let world = World::new();
    let (cause, remedy) = ("no bwrap in an absolute directory of PATH", "install bubblewrap");
    world
        .run(["-b", "bwrap", "/bin/true"])
        .env("PATH", "/nowhere")
        .done()
        .refused(125, &[cause])
        .stderr_has(&format!("hint: {remedy}"));
    explained(world.run(["--check"]).env("PATH", "/nowhere"), cause, remedy);
    let json = checked(world.run(["--check", "--json"]).env("PATH", "/nowhere"), 0);
    assert_eq!((&json["works"], &json["auto"]), (&true.into(), &"namespace".into()));
    let [bwrap, _, _, _, _, _, none] = json["backends"].as_array().unwrap().as_slice() else { panic!("{json}") };
    assert_eq!((&bwrap["works"], &none["works"]), (&false.into(), &true.into()));
    assert!(bwrap["reason"].as_str().unwrap().contains(cause) && bwrap.get("program").is_none(), "{bwrap}");
    assert!(bwrap.get("protections").is_none(), "what does not work enforces nothing: {bwrap}");
    assert!(bwrap["remedies"][0].as_str().unwrap().contains(remedy), "{bwrap}");
}

/// The report of a call with `--check` names the cause and the remedy, for people.
#[track_caller]
fn explained(call: Call, cause: &str, remedy: &str) {
    explained_with(call, cause, remedy, Some("namespace"));
}

/// The same where another backend does not need what is missing, or none works.
#[track_caller]
fn explained_with(call: Call, cause: &str, remedy: &str, auto: Option<&str>) {
    let done = call.done().code(if auto.is_some() { 0 } else { 125 }).stderr("");
    let done = done.stdout_has("bwrap: does not work here\n").stdout_has("none: works, isolates nothing\n");
    let auto = auto.map_or("auto finds nothing that works here\n".into(), |auto| format!("auto takes: {auto}\n"));
    let done = done.stdout_has(&auto);
    let text = done.out();
    let line =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned)).unwrap_or_default();
    assert!(line("  reason: ").contains(cause), "{cause}: {text}");
    assert!(line("  remedy: ").contains(remedy), "{remedy}: {text}");
}

/// What releases of bubblewrap say, and a word of the remedy.
const SAID: &[(&str, &str)] = &[
    ("setting up uid map: Permission denied", "user namespaces here"),
    ("loopback: Failed RTM_NEWADDR: Operation not permitted", "user namespaces here"),
    ("loopback: Failed RTM_NEWLINK: Operation not permitted", "user namespaces here"),
    ("Creating new namespace failed: Permission denied", "user namespaces here"),
    ("loopback: Failed RTM_NEWADDR: File exists", "gVisor"),
    ("No permissions to create a new namespace, likely because", "user namespace"),
    ("No permissions to creating new namespace, likely because", "user namespace"),
    ("Creating new namespace failed: Operation not permitted", "refuses"),
    (
        "Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
        "already inside",
    ),
    ("Creating new namespace failed: Resource temporarily unavailable", "ulimit -u"),
    ("Creating new namespace failed: Too many open files", "ulimit -n"),
    ("setting up uid map: Read-only file system", "already inside a sandbox whose /proc is read-only"),
    ("setting up uid map: Operation not permitted", "hidepid"),
    ("Can't mount proc on /newroot/proc: Operation not permitted", "--allow-gap processes"),
    ("Can't mount proc on /proc: Operation not permitted", "--allow-gap processes"),
    ("Failed to make / slave: Permission denied", "CAP_SYS_ADMIN"),
    ("Failed to make / slave: Operation not permitted", "Landlock"),
    ("Failed to mount tmpfs: No such file or directory", "/tmp"),
    ("Can't find source path /home/x: Permission denied", "chmod a+x"),
    ("Unexpected capabilities but not setuid, old file caps config?", "ambient"),
    ("Unable to remount destination \"/x\" with correct flags: No such device", "below a grant"),
    ("Exceeded maximum number of arguments 9000", "directories instead of many files"),
    ("Unknown option --unshare-net", "too old"),
    ("something nobody has heard of", "what was found in PATH as bubblewrap is '"),
];

#[test]
fn every_cause_has_its_remedy() {
    if about_bwrap("a program in place of bubblewrap") {
        return;
    }
    for (said, remedy) in SAID {
        let world = world_with(&format!("#!/bin/sh\ncat >&2 <<'END'\nbwrap: {said}\nEND\nexit 1\n"));
        let path = first(&world, "fake");
        world
            .run(["-b", "bwrap", "touch", "ran"])
            .env("PATH", &path)
            .done()
            .refused(125, &[said])
            .stderr_has("sandbox-run: hint: ")
            .stderr_has(remedy);
        explained(world.run(["--check"]).env("PATH", &path), said, remedy);
        let json = checked(world.run(["--check", "--json"]).env("PATH", &path), 0);
        let tried = &json["backends"][0];
        assert_eq!(tried["program"], world.text("fake/bwrap"));
        assert!(
            tried["reason"].as_str().unwrap().contains(said) && tried["remedies"][0].as_str().unwrap().contains(remedy),
            "{tried}"
        );
        assert!(!world.has("w/ran"));
    }
}

#[test]
fn other_programs_and_older_ones_are_checked_as_they_are_run() {
    for (script, cause, remedy) in [
        ("#!/bin/sh\nexit 0\n", "it ended before it started the command", "what was found in PATH"),
        ("#!/bin/sh\necho bubblewrap 0.12.0\nexit 0\n", "it ended before", "what was found in PATH"),
        ("#!/nope\n", "cannot execute", "what was found in PATH"),
        (
            "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift\nexec \"$@\"\n",
            "inside the sandbox",
            "did not build the sandbox",
        ),
    ] {
        let world = world_with(script);
        explained(world.run(["--check"]).env("PATH", first(&world, "fake")), cause, remedy);
    }
    let world = World::new();
    for (settings, auto) in [
        ("", "bwrap"),
        ("lacks=--perms,--size", "bwrap"),
        ("lacks=--as-pid-1", "namespace"),
        ("drops=--unshare-net", "namespace"),
    ] {
        wrapper(&world, settings);
        let done = world.run(["-q", "--check"]).env("PATH", first(&world, "fake")).done().stderr("");
        done.stdout_has(&format!("auto takes: {auto}\n"));
    }
}

/// A world with the program and `hostile.py` in it, where everybody can execute them.
pub fn hostile_world() -> World {
    let world = World::new();
    world.write("bin/hostile.py", include_str!("fixtures/hostile.py"));
    crate::harness::alone(|| std::fs::copy(program(), world.path("bin/sandbox-run"))).expect("copy");
    world
}

/// `hostile.py MODE sandbox-run WORDS…`.
pub fn hostile(world: &World, mode: &str, words: &[&str]) -> Call {
    let script: Vec<PathBuf> = vec![world.path("bin/hostile.py"), mode.into(), world.path("bin/sandbox-run")];
    world.call("/usr/bin/python3", script.into_iter().chain(words.iter().map(PathBuf::from)))
}

/// Where bubblewrap cannot start: the machine, what is said, a word of the remedy; and what is said where we cannot either, with a
/// word of the remedy.
pub const OBSTACLES: &[(&str, &str, &str, Option<[&str; 2]>)] = &[
    (
        "nouserns",
        "max_*_namespaces exceeded",
        "user.max_user_namespaces=0",
        Some(["cannot make namespaces: no space left", "user.max_user_namespaces=0"]),
    ),
    (
        "seccomp",
        "No permissions to create",
        "already inside a container or another sandbox",
        Some(["cannot make namespaces: operation not permitted", "already inside a container or another sandbox"]),
    ),
    (
        "maskproc",
        "Can't mount proc",
        "--allow-gap processes",
        Some(["cannot mount a file system of the kernel on '/proc': operation not permitted", "--allow-gap processes"]),
    ),
    ("notmp", "Failed to mount tmpfs", "/tmp", None),
    ("noproc", "/proc/self", "/proc is not mounted here", Some(["/proc/self", "/proc is not mounted here"])),
    ("nobwrap", "no bwrap in an absolute directory", "install bubblewrap", None),
    (
        "chroot",
        "No permissions to create",
        "chroot",
        Some(["cannot make namespaces: operation not permitted", "chroot"]),
    ),
    (
        "nocaps",
        "setting up uid map: Operation not permitted",
        "took the capabilities away",
        Some(["cannot map the user into a namespace: operation not permitted", "took the capabilities away"]),
    ),
    (
        "landlock",
        "Failed to make / slave",
        "Landlock",
        Some([
            "cannot keep the mounts of the sandbox apart from those of the host: operation not permitted",
            "Landlock",
        ]),
    ),
];

/// Machines that look hostile and are none, beside the plain one.
pub const HARMLESS: &[&str] = &["user", "rofs", "hidepid"];

/// In a user namespace each kind has a switch of its own.
#[test]
fn the_kind_of_namespaces_that_is_switched_off_is_named() {
    let world = World::new();
    for backend in ["bwrap", "namespace"] {
        for kind in ["", "user", "mnt", "pid", "net", "uts", "ipc"] {
            let switch = format!("user.max_{kind}_namespaces");
            let off = format!(
                "[ -z '{kind}' ] || echo 0 >/proc/sys/user/max_{kind}_namespaces; exec \"$SR\" -b {backend} echo ran"
            );
            let call = world.call("unshare", ["--user", "--map-root-user", "sh", "-c", &off]).env("SR", program());
            match kind {
                "" => drop(call.done().is(0, "ran\n", "")),
                _ => drop(call.done().code(125).stdout("").stderr_has(&format!("({switch}=0)"))),
            }
        }
    }
}

#[test]
fn hostile_machines_are_explained() {
    if !is_root() {
        eprintln!("not run: setting up hostile machines takes root");
        return;
    }
    let world = hostile_world();
    for (mode, cause, remedy, own) in OBSTACLES {
        let auto = match own {
            None => Some("namespace"),
            Some(_) => (has_landlock() && *mode != "noproc").then_some("landlock"),
        };
        explained_with(hostile(&world, mode, &["--check"]), cause, remedy, auto);
        let code = if auto.is_some() { 0 } else { 125 };
        let json = checked(hostile(&world, mode, &["--check", "--json"]), code);
        assert!(json["backends"][0]["remedies"][0].as_str().unwrap().contains(remedy), "{mode}: {json}");
        let tried = &json["backends"][1];
        assert_eq!(tried["works"], own.is_none(), "{mode}: {json}");
        if let Some([cause, remedy]) = own {
            assert!(tried["reason"].as_str().unwrap().contains(cause), "{mode}: {tried}");
            assert!(tried["remedies"][0].as_str().unwrap().contains(remedy), "{mode}: {tried}");
        }
    }
    for mode in HARMLESS {
        hostile(&world, mode, &["--check"]).done().code(0).stderr("").stdout_has("auto takes: bwrap\n");
    }
}
