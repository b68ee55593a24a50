//! The profile for Seatbelt: printed here, decided by in `sbpl`, since no Mac is at hand.

use std::fs;
use std::os::unix::net::UnixListener;

use sandbox_run::backend::{Backend, seatbelt};
use sandbox_run::config::layer::merge;
use sandbox_run::diagnose::not_started;
use sandbox_run::host::Host;
use sandbox_run::plan::base::macos;
use sandbox_run::plan::resolve::Attempt;
use sandbox_run::plan::view::Own;
use sandbox_run::plan::{Plan, resolve};
use sandbox_run::policy::Policy;
use sandbox_run::stage::outcome::Reason;

use crate::harness::{World, program};
use crate::sbpl::{Profile, Query};

/// A world with something of everything, by the names that macOS would have for it.
pub struct Mac {
    pub world: World,
}

impl Mac {
    pub fn new() -> Self {
        let world = World::new();
        for name in [
            "w/main.c",
            "w/.env",
            "w/src/deep/secrets/key",
            "w/src/deep/secrets/pub/doc",
            "w/src/deep/secretsx",
            "w/src/keep/file",
            "w/ro/rw/file",
            "o/file",
            "home/.ssh/id",
            "home/Library/Mail/box",
            "home/Library/Caches/tool/x",
            "home/notes",
        ] {
            world.write(name, "");
        }
        Self { world }
    }

    pub fn text(&self, words: &[&str]) -> String {
        let words = self.words(words);
        let done =
            self.world.run([&["--dry-run=json", "-b", "seatbelt"].map(str::to_owned), &words[..]].concat()).done();
        let json: serde_json::Value = serde_json::from_str(&done.code(0).out()).expect("JSON");
        json["profile"].as_str().expect("a profile").to_owned()
    }

    /// Paths of this world in words.
    fn words(&self, words: &[&str]) -> Vec<String> {
        let path = |word: &str, sign: &str, name| word.replace(sign, &self.world.text(name));
        words.iter().map(|word| path(&path(&path(word, "{w}", "w"), "{o}", "o"), "{home}", "home")).collect()
    }

    #[track_caller]
    fn profile(&self, words: &[&str]) -> Profile {
        let text = self.text(words);
        Profile::of(&text).unwrap_or_else(|why| panic!("{why}\n{text}"))
    }

    /// What may be done with each path, as letters of [`Profile::may`].
    #[track_caller]
    fn may(&self, words: &[&str], cells: &[(&str, &str)]) {
        let text = self.text(words);
        let profile = Profile::of(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
        for (path, expected) in cells {
            let path = canonical(&self.words(&[path])[0]);
            let found = profile.may(&path).unwrap_or_else(|why| panic!("{why}\n{text}"));
            assert_eq!(found, *expected, "{path}\n{text}");
        }
    }
}

/// Below `/var/tmp` the system has another name for everything.
pub fn canonical(path: &str) -> String {
    path.strip_prefix("/var/").map_or(path.to_owned(), |rest| format!("/private/var/{rest}"))
}

const SCRATCH: &str = "/private/tmp/sandbox-run-{run}";

/// What every profile gives, and what none does without having been asked.
const ALWAYS: &[(&str, &str)] = &[
    ("/usr/bin/true", "mrx"),
    ("/bin/sh", "mrx"),
    ("/System/Library/Frameworks/x", "mrx"),
    ("/private/etc/hosts", "mrx"),
    ("/private/etc/master.passwd", "m"),
    ("/private/var/db/dslocal/nodes", "m"),
    ("/private/var/select/sh", "mrx"),
    ("/", "mr"),
    ("/tmp", "mr"),
    ("/etc", "mr"),
    ("/var", "mr"),
    ("/opt/homebrew/bin/x", "mrx"),
    ("/opt/homebrew/var/db", "m"),
    ("/Library/Keychains/System.keychain", "m"),
    ("/Users/u/.ssh/id", "m"),
    ("/Applications/x", "m"),
    ("/Volumes/x", "m"),
    ("/private/tmp", "m"),
    ("/private/tmp/other", "m"),
    (SCRATCH, "m"),
    ("/private/tmp/sandbox-run-{run}/profile", "m"),
    ("/private/tmp/sandbox-run-{run}/tmp", "mrxwcb"),
    ("/private/tmp/sandbox-run-{run}/tmp/x", "mrxwucb"),
    ("/private/tmp/sandbox-run-{run}/home/x", "mrxwucb"),
    ("/private/var/folders/aa/bb/T/x", "m"),
    ("/private/var/folders/aa/bb/C/com.apple.dyld/x", "mrx"),
    ("/private/var/folders/aa/bb/C/com.apple.dyldx", "m"),
    ("/private/var/run/docker.sock", "m"),
    ("/private/var/run/mDNSResponder", "m"),
    ("/dev/null", "mrwu"),
    ("/dev/urandom", "mr"),
    ("/dev/disk0", "m"),
    ("/dev/ttys001", "m"),
    ("/System/Volumes/Data/Users/u/.ssh/id", ""),
    ("/System/Volumes/Data{w}/main.c", ""),
    ("{home}/.ssh/id", "m"),
    ("{home}/Library/Mail/box", ""),
    ("{home}/library", "m"),
    ("{o}/file", "m"),
];

#[test]
fn the_default_shows_the_working_directory_and_writes_nothing() {
    let mac = Mac::new();
    mac.may(&["true"], ALWAYS);
    mac.may(
        &["true"],
        &[
            ("{w}", "mrx"),
            ("{w}/main.c", "mrx"),
            ("{w}/src/deep/secrets/key", "mrx"),
            ("{w}/.env", ""),
            ("{w}x", "m"),
            ("{o}", "m"),
        ],
    );
}

#[test]
fn a_writable_working_directory() {
    let mac = Mac::new();
    mac.may(&["-w", ".", "make"], ALWAYS);
    mac.may(
        &["-w", ".", "make"],
        &[
            // The name of a grant is kept, as if something were mounted there.
            ("{w}", "mrxwcb"),
            ("{w}/main.c", "mrxwucb"),
            ("{w}/new", "mrxwucb"),
            ("{w}/src", "mrxwucb"),
            ("{w}/.env", ""),
            ("{w}/.env.example", "mrxwucb"),
            ("{w}x", "m"),
        ],
    );
}

#[test]
fn masks_and_protects_below_a_write_grant() {
    let mac = Mac::new();
    let words = ["-w", ".", "--mask", "src/deep/secrets", "--protect", "src/keep", "-r", "ro", "-w", "ro/rw", "true"];
    mac.may(
        &words,
        &[
            ("{w}/src/deep/secrets", ""),
            ("{w}/src/deep/secrets/key", ""),
            ("{w}/src/deep/secrets/new", ""),
            ("{w}/src/deep/secretsx", "mrxwucb"),
            ("{w}/src/deep/Secrets/key", ""),
            ("{w}/SRC/deep/secrets/key", ""),
            ("{w}/.ENV", "mrxwucb"),
            ("{w}/src/keep", "mrx"),
            ("{w}/src/keep/file", "mrx"),
            ("{w}/src/Keep/file", "mrx"),
            ("{w}/src/keepx", "mrxwucb"),
            ("{w}/ro/x", "mrx"),
            ("{w}/ro/rw", "mrxwcb"),
            ("{w}/ro/rw/file", "mrxwucb"),
            // Parents and grandparents are written, and keep their names.
            ("{w}/src/deep", "mrxwcb"),
            ("{w}/SRC/Deep", "mrxwcb"),
            ("{w}/src", "mrxwcb"),
            ("{w}", "mrxwcb"),
            ("{w}/src/other", "mrxwucb"),
        ],
    );
    // The control: without the rules nothing of it is kept.
    mac.may(
        &["-w", ".", "true"],
        &[
            ("{w}/src/deep/secrets/key", "mrxwucb"),
            ("{w}/src/keep/file", "mrxwucb"),
            ("{w}/src/deep", "mrxwucb"),
            ("{w}/src", "mrxwucb"),
            ("{w}/ro/x", "mrxwucb"),
        ],
    );
}

#[test]
fn a_typed_name_is_denied_in_either_case() {
    let mac = Mac::new();
    mac.may(&["-w", ".", "--mask", ".env", "true"], &[("{w}/.ENV", ""), ("{w}/.env", ""), ("{w}/xenv", "mrxwucb")]);
    mac.may(&["-w", ".", "--mask", "main.c", "true"], &[("{w}/MAIN.C", ""), ("{w}/main-c", "mrxwucb")]);
}

#[test]
fn deeper_grants_show_again() {
    let mac = Mac::new();
    let secrets = "src/deep/secrets";
    let public = "src/deep/secrets/pub";
    mac.may(
        &["-w", ".", "--mask", secrets, "-r", public, "true"],
        &[
            ("{w}/src/deep/secrets/key", ""),
            // On the way to what is granted, and not listed.
            ("{w}/src/deep/secrets", "m"),
            ("{w}/src/deep/secrets/pub", "mrx"),
            ("{w}/src/deep/secrets/pub/doc", "mrx"),
            ("{w}/src/deep/secrets/public", ""),
            ("{w}/src/deep", "mrxwcb"),
        ],
    );
    mac.may(
        &["-w", ".", "--mask", secrets, "-w", public, "--mask", "src/deep/secrets/pub/doc", "true"],
        &[
            ("{w}/src/deep/secrets/key", ""),
            ("{w}/src/deep/secrets", "m"),
            ("{w}/src/deep/secrets/pub", "mrxwcb"),
            ("{w}/src/deep/secrets/pub/new", "mrxwucb"),
            ("{w}/src/deep/secrets/pub/doc", ""),
        ],
    );
    // A mask of the very path wins.
    mac.may(&["-r", public, "--mask", public, "true"], &[("{w}/src/deep/secrets/pub/doc", "")]);
}

#[test]
fn the_whole_host_without_its_secrets() {
    let mac = Mac::new();
    let cells = [
        ("/Users/u/file", "mrx"),
        ("/Applications/x", "mrx"),
        ("/private/etc/hosts", "mrx"),
        ("/private/etc/master.passwd", ""),
        ("/private/etc/ssh/ssh_config", "mrx"),
        ("/private/etc/ssh/ssh_host_rsa_key", ""),
        ("/private/var/db/dslocal/nodes", ""),
        ("/private/var/db/timezone/x", "mrx"),
        ("/private/var/run/docker.sock", ""),
        ("/private/var/run/resolv.conf", "mrx"),
        ("/private/var/folders/aa/bb/C/com.apple.dyld/x", ""),
        ("/Library/Keychains/x", ""),
        ("/library/keychains/x", ""),
        ("/Library/Fonts/x", "mrx"),
        ("/System/Volumes/Data/Users/u/file", ""),
        ("{home}/notes", "mrx"),
        ("{home}/Library/Mail/box", ""),
        ("{home}/.ssh/id", ""),
        ("{o}/file", "mrx"),
    ];
    mac.may(&["-r", "/", "--show-hidden", "*", "true"], &cells);
}

#[test]
fn the_library_of_a_home_is_shown_by_name_only() {
    let mac = Mac::new();
    let (mail, cache, notes) = ("{home}/Library/Mail/box", "{home}/Library/Caches/tool/x", "{home}/notes");
    mac.may(&["true"], &[(mail, ""), (cache, ""), (notes, "m")]);
    mac.may(&["-r", "~", "true"], &[(mail, ""), (cache, ""), (notes, "mrx"), ("{home}/LIBRARY/Mail", "")]);
    let part = ["-r", "{home}/Library/Caches/tool", "true"];
    mac.may(&part, &[(mail, ""), (cache, "mrx"), ("{home}/Library/Caches", "m"), ("{home}/Library/Caches/x", "")]);
    mac.may(&["-w", "~/Library", "true"], &[(mail, "mrxwucb"), (notes, "m")]);
}

#[test]
fn the_real_home_is_used_where_it_is_granted() {
    let mac = Mac::new();
    let private = [(format!("{SCRATCH}/home/x"), "mrxwucb"), (format!("{SCRATCH}/tmp/x"), "mrxwucb")];
    let private: Vec<_> = private.iter().map(|(path, may)| (path.as_str(), *may)).collect();
    mac.may(&["true"], &private);
    mac.may(&["-w", "~", "true"], &[("{home}/notes", "mrxwucb"), (private[0].0, "m"), private[1]]);
    // What is above it as a working directory does not show it.
    mac.may(&["-C", "{home}/..", "true"], &[("{o}/file", "mrx"), ("{home}/notes", ""), private[0]]);
    mac.may(&["-C", "{home}", "true"], &[("{home}/notes", "mrx"), ("{home}/.ssh/id", ""), (private[0].0, "m")]);
}

#[test]
fn the_network_is_on_or_off() {
    let mac = Mac::new();
    let names = "/private/var/run/mDNSResponder";
    let off = mac.profile(&["true"]);
    let on = mac.profile(&["--net", "host", "true"]);
    for address in ["10.0.0.1:443", "127.0.0.1:8080", "localhost:53", "[::]:80"] {
        assert_eq!(off.reaches(address).unwrap(), (false, false), "{address}");
        assert_eq!(on.reaches(address).unwrap(), (true, true), "{address}");
    }
    for (profile, trust, resolver) in [(&off, false, "m"), (&on, true, "mrxcb")] {
        assert_eq!(profile.allows_name("mach-lookup", "com.apple.trustd.agent").unwrap(), trust);
        assert_eq!(profile.may(names).unwrap(), resolver);
        // A network opens no other socket of the host.
        assert_eq!(profile.may("/private/var/run/docker.sock").unwrap(), "m");
        assert_eq!(profile.may("/private/tmp/ssh-agent").unwrap(), "m");
    }
    // Also where all the host is written.
    let all = mac.profile(&["--net", "host", "--show-hidden", "*", "-w", "/", "true"]);
    assert_eq!(all.may(names).unwrap(), "mrxcb");
    assert_eq!(all.may("/private/var/run/docker.sock").unwrap(), "");
}

#[test]
fn sockets_by_path() {
    let mac = Mac::new();
    let _sockets: Vec<_> = ["w/denied", "w/near", "o/allowed", "o/other", "w/ro/sock", "w/src/deep/secrets/agent"]
        .map(|name| UnixListener::bind(mac.world.path(name)).unwrap())
        .into();
    let words = ["-w", ".", "-r", "{o}", "-r", "ro", "--deny-socket", "denied", "--allow-socket", "{o}/allowed"];
    let agent = "src/deep/secrets/agent";
    let more = ["--mask", "src/deep/secrets", "--allow-socket", agent, "true"];
    mac.may(
        &[&words[..], &more].concat(),
        &[
            ("{w}/denied", ""),
            ("{w}/Denied", ""),
            ("{w}/near", "mrxwucb"),
            // To see a socket is not to connect to it.
            ("{o}/other", "mrx"),
            ("{o}/allowed", "mrxcb"),
            ("{w}/ro/sock", "mrx"),
            ("{w}/src/deep/secrets/agent", "mrxcb"),
            ("{w}/src/deep/secrets/agent2", ""),
        ],
    );
}

#[test]
fn services_and_signals() {
    let mac = Mac::new();
    let profile = mac.profile(&["true"]);
    let name = |operation, name| profile.allows_name(operation, name).unwrap();
    assert!(name("mach-lookup", "com.apple.system.logger"));
    for service in ["com.apple.SecurityServer", "com.apple.securityd.xpc", "com.apple.coreservices.launchservicesd"] {
        assert!(!name("mach-lookup", service), "{service}");
    }
    assert!(name("sysctl-read", "hw.ncpu") && name("sysctl-read", "kern.osrelease"));
    // The arguments and variables of other processes.
    assert!(!name("sysctl-read", "kern.procargs2") && !name("sysctl-write", "hw.ncpu"));
    assert!(!name("mach-priv-host-port", "") && !name("iokit-open", ""));
    for operation in ["signal", "process-info*"] {
        let to = |target| Query { operation, target, ..Default::default() };
        assert!(profile.allows(&to("same-sandbox")).unwrap() && !profile.allows(&to("others")).unwrap());
    }
    let tty = |extension| Query {
        operation: "file-write-data",
        path: "/dev/ttys001".into(),
        extension,
        ..Default::default()
    };
    assert!(profile.allows(&tty("com.apple.sandbox.pty")).unwrap() && !profile.allows(&tty("")).unwrap());
}

#[test]
fn a_program_is_shown_by_itself_with_every_link() {
    let mac = Mac::new();
    mac.world.script("home/.pyenv/3.12/bin/python3.12", "#!/bin/sh\n");
    mac.world.link("home/.pyenv/3.12/bin/python3", "python3.12");
    mac.world.dir("home/.venv/bin");
    mac.world.link("home/.venv/bin/python", mac.world.path("home/.pyenv/3.12/bin/python3"));
    let text = mac.text(&["{home}/.venv/bin/python"]);
    let profile = Profile::of(&text).unwrap();
    let home = canonical(&mac.world.text("home"));
    for hop in [".venv/bin/python", ".pyenv/3.12/bin/python3", ".pyenv/3.12/bin/python3.12"] {
        assert!(text.contains(&format!("(literal \"{home}/{hop}\")")), "{hop}\n{text}");
        assert_eq!(profile.may(&format!("{home}/{hop}")).unwrap(), "mrx");
    }
    for (beside, may) in
        [(".venv", "m"), (".venv/bin", "m"), (".venv/bin/pip", "m"), (".pyenv/3.12/lib", "m"), ("", "m")]
    {
        let path = format!("{home}/{beside}");
        assert_eq!(profile.may(path.trim_end_matches('/')).unwrap(), may, "{beside}");
    }
    // Our own file, which sandbox-exec starts.
    let own = canonical(fs::canonicalize(program()).unwrap().to_str().unwrap());
    assert_eq!(profile.may(&own).unwrap(), "mrx");
    // The control: typed, the directory is there.
    let home = ["-r", "~", "--show-hidden", ".venv", "{home}/.venv/bin/python"];
    mac.may(&home, &[("{home}/.venv/bin/pip", "mrx"), ("{home}/notes", "mrx")]);
}

#[test]
fn links_are_resolved_and_named() {
    let mac = Mac::new();
    mac.world.link("linked", mac.world.path("home"));
    let linked = mac.world.text("linked");
    let done = mac.world.run(["--dry-run=json", "-b", "seatbelt", "-r", &linked, "true"]).done().code(0);
    let json: serde_json::Value = serde_json::from_str(&done.out()).unwrap();
    let profile = Profile::of(json["profile"].as_str().unwrap()).unwrap();
    assert_eq!(profile.may(&canonical(&linked)).unwrap(), "mrx");
    assert_eq!(profile.may(&canonical(&mac.world.text("home/notes"))).unwrap(), "mrx");
    // Below a link there is nothing: the system asks about the real name.
    assert_eq!(profile.may(&canonical(&mac.world.text("linked/notes"))).unwrap(), "m");
}

#[test]
fn it_is_text_only_where_there_is_no_mac() {
    let world = World::new();
    for word in ["seatbelt", "sandbox-exec", "sandbox_exec", "darwin_seatbelt"] {
        let done = world.run(["-b", word, "touch", "made"]).done();
        done.refused(125, &["'seatbelt'", "macOS only"]).stderr_has("--dry-run");
    }
    world.run(["-b", "seatbelt", "--explain", "."]).done().refused(125, &["macOS only"]);
    assert!(!world.has("w/made"));
    // The next of the list is taken, and auto never has it here.
    world.run(["-b", "seatbelt,bwrap", "echo", "ran"]).done().is(0, "ran\n", "");
    let done = world.run(["--dry-run", "/bin/true"]).env("PATH", "/nowhere").done();
    assert!(!done.out().contains("seatbelt") && !done.stderr.contains("seatbelt"), "{} {}", done.out(), done.stderr);
    assert!(!Backend::AUTO.contains(&Backend::Seatbelt));
    let report = world.run(["--check", "--json"]).done().code(0).out();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let all = report["backends"].as_array().unwrap();
    let seatbelt = all.iter().find(|tried| tried["backend"] == "seatbelt").unwrap();
    assert_eq!(seatbelt["works"], false);
    assert!(seatbelt["reason"].as_str().unwrap().contains("macOS only"), "{seatbelt}");
}

#[test]
fn what_it_does_not_enforce_is_refused() {
    let world = World::new();
    for (words, protection) in [(["--memory", "64M"], "memory"), (["--max-procs", "8"], "procs")] {
        let call = |more: &[&str]| world.run([&["--dry-run", "-b", "seatbelt"], &words[..], more, &["true"]].concat());
        call(&[]).done().refused(125, &[protection]).stderr_has(&format!("--allow-gap {protection}"));
        let done = call(&["--allow-gap", protection]).done().code(0).stdout_has(&format!("\ngap: {protection} ("));
        done.stdout_lacks("\nlimit: ");
    }
    for (option, size) in [("--tmp-size", "1M"), ("--address-space", "1G")] {
        world.run(["--dry-run", "-b", "seatbelt", option, size, "true"]).done().refused(125, &[option]);
    }
    // The control: where there is something that keeps it.
    world.run(["--dry-run", "--address-space", "1G", "true"]).done().code(0).stdout_has("limit: address space");
    world
        .run(["--dry-run", "-b", "seatbelt", "--cpu-time", "1", "true"])
        .done()
        .code(0)
        .stdout_has("limit: cpu time 1s");
}

#[test]
fn a_payload_names_the_same_paths() {
    let mac = Mac::new();
    let words = ["-b", "seatbelt", "-r", &mac.world.text("o"), "--print-policy=payload", "true"];
    let payload = mac.world.run(words).done().code(0).out();
    let done = mac.world.run(["--dry-run=json", "--policy-payload", payload.trim(), "true"]).done().code(0);
    let json: serde_json::Value = serde_json::from_str(&done.out()).unwrap();
    assert_eq!(json["backend"], "seatbelt");
    let profile = Profile::of(json["profile"].as_str().unwrap()).unwrap();
    assert_eq!(profile.may(&canonical(&mac.world.text("o/file"))).unwrap(), "mrx");
}

#[test]
fn nesting_is_told_from_a_target_with_the_same_status() {
    assert!(seatbelt::is_nested(71, false));
    assert!(!seatbelt::is_nested(71, true));
    assert!(!seatbelt::is_nested(1, false));
    let said = "sandbox-exec: sandbox_apply: Operation not permitted\n".to_owned();
    let reason = Reason { text: "it ended".into(), said, ..Reason::default() };
    let error = not_started(Backend::Seatbelt, seatbelt::PROGRAM.as_ref(), &reason.nested());
    assert_eq!(
        error.to_string(),
        "cannot start the sandbox with backend 'seatbelt': this is already inside a sandbox of the system, and profiles do not nest"
    );
    assert_eq!(error.hints().len(), 1);
    assert!(error.hints()[0].contains("'--backend none'"), "{:?}", error.hints());
}

#[test]
fn the_private_directories_of_a_run_lie_in_one_that_is_its_own() {
    let world = World::new();
    let plan = planned(&world, &merge(Vec::new()), Some(7));
    let root = macos::scratch(Some(7));
    let places: Vec<_> = plan.private_places().collect();
    assert_eq!(places, [root.join("home"), root.join("tmp")]);
    // What the launcher reads there is not for the target: nothing shows the directory itself.
    assert!(!plan.rules.shows(&root.join("profile")));
}

/// The plan of `policy` on this host as if it were a Mac.
fn planned(world: &World, policy: &Policy, run: Option<u64>) -> Plan {
    let home = world.path("home");
    let environment = vec![("HOME".into(), home.clone().into()), ("TMPDIR".into(), "/elsewhere".into())];
    let host = Host { cwd: Ok(world.path("w")), home: Some(home), environment, ..Host::probe() };
    let attempt = Attempt { run, ..Attempt::default() };
    resolve(policy, &host, Backend::Seatbelt, &["/bin/sh".into()], attempt, None).expect("a plan")
}

#[test]
fn variables_lead_to_what_is_private() {
    let world = World::new();
    let policy = merge(Vec::new());
    let value = |plan: &Plan, name: &str| {
        let found = plan.environment.vars.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.to_str().unwrap().to_owned()).unwrap_or_default()
    };
    let plan = planned(&world, &policy, Some(7));
    let scratch = macos::scratch(Some(7));
    assert_eq!(value(&plan, "HOME"), scratch.join("home").to_str().unwrap());
    assert_eq!(value(&plan, "TMPDIR"), scratch.join("tmp").to_str().unwrap());
    assert_eq!(plan.rules.own(Own::Home), Some(scratch.join("home").as_path()), "what the outer stage has to make");
    assert_ne!(value(&planned(&world, &policy, Some(8)), "HOME"), value(&plan, "HOME"));
    assert!(plan.view.is_empty() && plan.checks.is_empty() && plan.covers.is_empty(), "nothing is mounted");
}
