//! What the environment rules promise, first by example, then for any input.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::policy::env::{EnvRule, is_name};
use crate::policy::{EnvEntry, Origin};

/// One call of `prune` with everything plain but what a test sets.
#[derive(Debug)]
struct Case {
    inherited: Vec<(OsString, OsString)>,
    policy: EnvPolicy,
    keep_jobserver: bool,
    network_host: bool,
    home: Option<&'static str>,
    tmp: Option<&'static str>,
    visible: &'static [&'static str],
    allowed: &'static [&'static str],
}

fn entry(word: &str) -> EnvEntry {
    EnvEntry { rule: EnvRule::parse(OsStr::new(word)).unwrap(), origin: Origin::Flag("--env") }
}

fn case(inherited: &[(&str, &str)], rules: &[&str]) -> Case {
    let inherited = inherited.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let rules = rules.iter().map(|rule| entry(rule)).collect();
    Case {
        inherited,
        policy: EnvPolicy { defaults: true, rules },
        keep_jobserver: false,
        network_host: false,
        home: Some("/home/u"),
        tmp: Some("/tmp"),
        visible: &["/bin", "/usr", "/opt"],
        allowed: &[],
    }
}

impl Case {
    fn prune(&self) -> Environment {
        let visible = |path: &Path| {
            assert!(path.is_absolute(), "asked for {path:?}");
            self.visible.iter().any(|root| path.starts_with(root))
        };
        prune(&Inputs {
            inherited: &self.inherited,
            policy: &self.policy,
            keep_jobserver: self.keep_jobserver,
            network_host: self.network_host,
            proxy: None,
            placeholders: Vec::new(),
            pwd: Path::new("/w"),
            home: self.home.map(Path::new),
            tmp: self.tmp.map(Path::new),
            visible: &visible,
            allowed: &|path| self.allowed.iter().any(|socket| path == Path::new(socket)),
        })
    }

    fn without_defaults(mut self) -> Self {
        self.policy.defaults = false;
        self
    }
}

/// What is always set with defaults, as `NAME=VALUE` lines.
const SET: [&str; 7] = [
    "HOME=/home/u",
    "PATH=/usr/local/bin:/usr/bin:/bin",
    "PWD=/w",
    "TEMP=/tmp",
    "TEMPDIR=/tmp",
    "TMP=/tmp",
    "TMPDIR=/tmp",
];

fn lines(environment: &Environment) -> Vec<String> {
    let line = |(name, value): &(OsString, OsString)| format!("{}={}", name.display(), value.display());
    environment.vars.iter().map(line).collect()
}

/// The lines beyond those of [`SET`].
fn extra(environment: &Environment) -> Vec<String> {
    lines(environment).into_iter().filter(|line| !SET.contains(&line.as_str())).collect()
}

fn reason(environment: &Environment, name: &str) -> Option<Reason> {
    environment.dropped.iter().find(|dropped| dropped.name == name).map(|dropped| dropped.reason)
}

fn texts(names: &[OsString]) -> Vec<&str> {
    names.iter().map(|name| name.to_str().unwrap()).collect()
}

#[test]
fn nothing_inherited_gives_what_the_launcher_sets() {
    let environment = case(&[], &[]).prune();
    assert_eq!(lines(&environment), SET);
    assert_eq!(environment.kept, Vec::<OsString>::new());
    assert_eq!(environment.set.len(), SET.len());
    assert_eq!((environment.warnings.len(), environment.notes.len()), (0, 0));
}

#[test]
fn the_default_list_passes_and_nothing_else() {
    let login = [
        ("SECRET", "x"),
        ("FOO", "y"),
        ("AWS_SECRET_ACCESS_KEY", "z"),
        ("USER", "u"),
        ("LOGNAME", "u"),
        ("SHELL", "/bin/sh"),
        ("TERM", "xterm"),
        ("COLORTERM", "truecolor"),
        ("LANG", "C.UTF-8"),
        ("LC_ALL", "C"),
        ("LC_API_TOKEN", "t"),
        ("TZ", "UTC"),
        ("OLDPWD", "/x"),
        ("PWD", "/elsewhere"),
        ("COLUMNS", "80"),
        ("SHLVL", "1"),
        ("_", "/usr/bin/env"),
        ("SANDBOX_RUN_STAGE", "1"),
        ("SANDBOX_RUN_LOG", "debug"),
    ];
    let environment = case(&login, &[]).prune();
    assert_eq!(
        extra(&environment),
        [
            "COLORTERM=truecolor",
            "LANG=C.UTF-8",
            "LC_ALL=C",
            "LOGNAME=u",
            "SHELL=/bin/sh",
            "TERM=xterm",
            "TZ=UTC",
            "USER=u"
        ]
    );
    assert_eq!(reason(&environment, "FOO"), Some(Reason::NotAllowed));
    assert_eq!(reason(&environment, "OLDPWD"), Some(Reason::NotAllowed));
    assert_eq!(reason(&environment, "LC_API_TOKEN"), Some(Reason::SecretName));
    assert_eq!(reason(&environment, "SANDBOX_RUN_STAGE"), Some(Reason::Internal));
    assert_eq!(extra(&case(&login, &["FOO"]).prune())[1], "FOO=y");
}

#[test]
fn hooks_are_never_inherited_and_only_a_typed_value_sets_them() {
    let hooks = [("LD_PRELOAD", "a"), ("BASH_ENV", "b"), ("NODE_OPTIONS", "c"), ("FOO", "d")];
    let environment = case(&hooks, &[]).prune();
    assert_eq!(extra(&environment), [""; 0]);
    assert_eq!(environment.warnings, [""; 0]);
    assert_eq!(reason(&environment, "LD_PRELOAD"), Some(Reason::NeverInherited));

    let environment = case(&hooks, &["LD_*", "BASH_ENV", "NODE_OPTIONS", "FOO"]).prune();
    assert_eq!(extra(&environment), ["FOO=d"]);
    let [warning] = environment.warnings.as_slice() else { panic!("{:?}", environment.warnings) };
    assert!(warning.ends_with(": BASH_ENV, LD_PRELOAD, NODE_OPTIONS"), "{warning}");

    let environment = case(&hooks, &["LD_LIBRARY_PATH=/opt/l", "LD_PRELOAD=x", "LD_*"]).prune();
    assert_eq!(extra(&environment), ["LD_LIBRARY_PATH=/opt/l", "LD_PRELOAD=x"]);
    assert_eq!(environment.warnings, [""; 0]);
}

#[test]
fn runner_secrets_never_pass() {
    let names = ["OMNIGENT_RUNNER_INITIAL_AUTH_TOKEN", "OMNIGENT_LAUNCHER_SPAWN_WRAPPED"];
    let inherited = names.map(|name| (name, "1"));
    let environment = case(&inherited, &names).without_defaults().prune();
    assert_eq!(lines(&environment), ["PWD=/w"]);
    assert_eq!(environment.warnings.len(), 1);
}

#[test]
fn a_wildcard_holds_back_what_looks_secret() {
    let inherited = [
        ("MY_NAME", "a"),
        ("MY_API_KEY", "k"),
        ("MY_DB_PASSWORD", "p"),
        ("MY_AUTHOR", "b"),
        ("MY_URL", "https://u:p@h"),
        ("MYSELF", "x"),
        ("GIT_AUTHOR_NAME", "n"),
        ("GIT_SSH_COMMAND", "c"),
        ("TOKENIZERS_PARALLELISM", "1"),
    ];
    let mut rules = vec!["MY_*", "GIT_*", "TOKENIZERS_*", "NONE_*"];
    let environment = case(&inherited, &rules).prune();
    assert_eq!(extra(&environment), ["GIT_AUTHOR_NAME=n", "MY_AUTHOR=b", "MY_NAME=a", "TOKENIZERS_PARALLELISM=1"]);
    assert_eq!(reason(&environment, "MY_API_KEY"), Some(Reason::SecretName));
    assert_eq!(reason(&environment, "MY_DB_PASSWORD"), Some(Reason::SecretName));
    assert_eq!(reason(&environment, "MY_URL"), Some(Reason::UserInUrl));
    assert_eq!(reason(&environment, "GIT_SSH_COMMAND"), Some(Reason::ByNameOnly));
    assert_eq!(reason(&environment, "MYSELF"), Some(Reason::NotAllowed));
    let notes = environment.notes.join("\n");
    assert!(notes.contains("GIT_SSH_COMMAND, MY_API_KEY, MY_DB_PASSWORD, MY_URL"), "{notes}");
    assert!(notes.contains("NONE_*"), "{notes}");

    rules.insert(0, "MY_API_KEY");
    assert!(extra(&case(&inherited, &rules).prune()).contains(&"MY_API_KEY=k".to_owned()));
}

#[test]
fn the_last_rule_about_a_name_wins() {
    let inherited = [("A_X", "host"), ("A_KEY", "secret")];
    for (rules, expected) in [
        (["A_X", "A_X=1"].as_slice(), ["A_X=1"].as_slice()),
        (&["A_X=1", "A_X"], &["A_X=host"]),
        (&["A_X=1", "A_X=2"], &["A_X=2"]),
        (&["A_X=1", "A_*"], &["A_X=host"]),
        (&["A_*", "A_X=1"], &["A_X=1"]),
        (&["A_KEY=typed", "A_*"], &["A_KEY=typed", "A_X=host"]),
        (&["A_KEY", "A_*"], &["A_KEY=secret", "A_X=host"]),
        (&["A_Y=1", "A_*"], &["A_X=host", "A_Y=1"]),
        (&["A_Y=1", "A_Y"], &[]),
    ] {
        assert_eq!(extra(&case(&inherited, rules).prune()), expected, "{rules:?}");
    }
}

#[test]
fn a_name_that_is_not_set_is_a_note() {
    let environment = case(&[("EMPTY", "")], &["EMPTY", "NAME"]).prune();
    assert_eq!(extra(&environment), ["EMPTY="]);
    assert_eq!(environment.warnings, [""; 0]);
    assert_eq!(environment.notes, ["asked for and not set by the caller: NAME"]);
}

#[test]
fn path_has_no_empty_and_no_relative_entries() {
    for (path, expected) in [
        (":rel:/usr/bin::.", "/usr/bin"),
        ("/bin:/usr/bin", "/bin:/usr/bin"),
        ("/hidden:~/bin:/bin", "/hidden:/bin"),
        ("", DEFAULT_PATH),
        (":.:rel", DEFAULT_PATH),
    ] {
        let environment = case(&[("PATH", path)], &[]).prune();
        let value = environment.vars.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value);
        assert_eq!(value, Some(&expected.into()), "{path}");
    }
    let environment = case(&[], &["PATH=:x"]).prune();
    assert!(lines(&environment).contains(&"PATH=:x".into()), "a typed value is verbatim");
    let notes = case(&[("PATH", "/hidden:.:/bin")], &[]).prune().notes;
    assert_eq!(
        notes,
        ["empty or relative entries removed from PATH: 1", "entries of PATH that are not in the view: 1"]
    );
}

#[test]
fn home_and_the_temporary_directory_are_those_inside() {
    let inherited = [("HOME", "/root"), ("TMPDIR", "/home/u/tmp"), ("TMP", "rel"), ("PWD", "/")];
    assert_eq!(extra(&case(&inherited, &[]).prune()), [""; 0]);
    assert_eq!(extra(&case(&inherited, &["HOME", "TMPDIR", "PWD"]).prune()), [""; 0]);
    let typed = ["HOME=/h", "TMPDIR=/t", "PWD=/p"];
    assert_eq!(extra(&case(&inherited, &typed).prune()), ["HOME=/h", "PWD=/p", "TMPDIR=/t"]);

    let mut bare = case(&inherited, &[]);
    (bare.home, bare.tmp) = (None, None);
    let environment = bare.prune();
    assert_eq!(texts(&environment.kept), ["HOME", "TMPDIR"]);
    assert_eq!(reason(&environment, "TMP"), Some(Reason::NotAllowed));
    bare.inherited = vec![("TMPDIR".into(), "rel".into())];
    assert_eq!(lines(&bare.prune()), [SET[1], SET[2]]);
}

#[test]
fn without_defaults_only_pwd_and_what_is_named() {
    let inherited = [("HOME", "/x"), ("LANG", "C"), ("CARGO_HOME", "/opt"), ("PATH", "/bin:")];
    let with = |rules: &[&str]| lines(&case(&inherited, rules).without_defaults().prune());
    assert_eq!(with(&[]), ["PWD=/w"]);
    assert_eq!(
        with(&["HOME", "PATH", "TMPDIR", "LANG", "A=1"]),
        ["A=1", "HOME=/home/u", "LANG=C", "PATH=/bin", "PWD=/w", "TMPDIR=/tmp"]
    );
    let none = lines(&case(&[], &["PATH"]).without_defaults().prune());
    assert_eq!(none, ["PATH=/usr/local/bin:/usr/bin:/bin", "PWD=/w"]);
}

#[test]
fn pointers_pass_when_they_lead_somewhere() {
    let inherited = [
        ("CARGO_HOME", "/opt/cargo"),
        ("RUSTUP_HOME", "/home/u/.rustup"),
        ("RUSTUP_TOOLCHAIN", "stable"),
        ("NVM_DIR", "/home/u/.nvm"),
        ("NODE_ENV", "test"),
        ("GOPATH", "rel"),
        ("SHELL", "/hidden/zsh"),
        ("XDG_CACHE_HOME", "/opt/cache"),
        ("NIX_PATH", "/opt"),
    ];
    let environment = case(&inherited, &[]).prune();
    assert_eq!(extra(&environment), ["CARGO_HOME=/opt/cargo", "RUSTUP_TOOLCHAIN=stable", "XDG_CACHE_HOME=/opt/cache"]);
    for name in ["RUSTUP_HOME", "NVM_DIR", "GOPATH", "SHELL"] {
        assert_eq!(reason(&environment, name), Some(Reason::Hidden), "{name}");
    }
    assert_eq!(reason(&environment, "NODE_ENV"), Some(Reason::NotAllowed));

    let environment = case(&inherited, &["NVM_DIR"]).prune();
    assert!(extra(&environment).contains(&"NODE_ENV=test".into()));
    assert_eq!(environment.notes, ["passed, but the directory is not in the view: NVM_DIR"]);
}

#[test]
fn a_capability_passes_by_name_and_warns_when_it_is_unreachable() {
    let inherited = [
        ("SSH_AUTH_SOCK", "/run/a/s"),
        ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/0/bus,guid=1"),
        ("DISPLAY", ":0.1"),
        ("WAYLAND_DISPLAY", "wayland-0"),
        ("XDG_RUNTIME_DIR", "/run/user/0"),
        ("DOCKER_HOST", "unix:///run/docker.sock"),
    ];
    let rules = inherited.map(|(name, _)| name);
    assert_eq!(extra(&case(&inherited, &["SSH_*", "XDG_*"]).prune()), [""; 0]);
    let mut hidden = case(&inherited, &rules);
    let environment = hidden.prune();
    assert_eq!(extra(&environment).len(), rules.len());
    assert_eq!(environment.warnings.len(), rules.len(), "{:?}", environment.warnings);
    let sockets = |text: &&String| text.contains("--allow-socket");
    assert_eq!(environment.warnings.iter().filter(sockets).count(), rules.len() - 1);
    hidden.visible = &["/run", "/tmp"];
    assert_eq!(hidden.prune().warnings, [""; 0]);
}

/// A variable comes with the socket that was allowed, when its value leads there and nowhere else.
#[test]
fn a_variable_passes_with_its_socket() {
    for (name, value, socket, expected) in [
        ("SSH_AUTH_SOCK", "/run/s", "/run/s", Some("/run/s")),
        ("SSH_AUTH_SOCK", "/run/t", "/run/s", None),
        ("SSH_AUTH_SOCK", "run/s", "run/s", None),
        ("DOCKER_HOST", "unix:///run/s", "/run/s", Some("unix:///run/s")),
        ("DOCKER_HOST", "tcp://h:1", "/run/s", None),
        ("DOCKER_HOST", "/run/s", "/run/s", None),
        ("CONTAINER_HOST", "unix:///run/s", "/run/s", Some("unix:///run/s")),
        ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/s,guid=1", "/run/s", Some("unix:path=/run/s,guid=1")),
        ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/s;tcp:host=h", "/run/s", None),
        ("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/run/s", "/run/s", Some("unix:path=/run/s")),
        ("WAYLAND_DISPLAY", "s", "/run/user/0/s", Some("/run/user/0/s")),
        ("WAYLAND_DISPLAY", "/run/s", "/run/s", Some("/run/s")),
        ("WAYLAND_DISPLAY", "s", "/run/s", None),
        ("DISPLAY", ":3.0", "/tmp/.X11-unix/X3", Some(":3.0")),
        ("DISPLAY", "h:3", "/tmp/.X11-unix/X3", None),
        ("GPG_AGENT_INFO", "/run/s:1:1", "/run/s", Some("/run/s:1:1")),
        ("NOTIFY_SOCKET", "/run/s", "/run/s", Some("/run/s")),
        ("NOTIFY_SOCKET", "@s", "@s", None),
        ("PULSE_SERVER", "unix:/run/s", "/run/s", Some("unix:/run/s")),
        ("TMUX", "/run/s,1,0", "/run/s", Some("/run/s,1,0")),
        // No variable that is known to lead anywhere.
        ("SOMETHING", "/run/s", "/run/s", None),
        ("LD_PRELOAD", "/run/s", "/run/s", None),
    ] {
        let inherited = [(name, value), ("XDG_RUNTIME_DIR", "/run/user/0"), ("XAUTHORITY", "/home/u/.Xauthority")];
        let allowed: &'static [&'static str] = vec![socket].leak();
        let with = |rules: &[&str]| Case { allowed, visible: &["/run", "/tmp"], ..case(&inherited, rules) };
        let environment = with(&[]).prune();
        let expected: Vec<_> = expected.iter().map(|value| format!("{name}={value}")).collect();
        assert_eq!(extra(&environment), expected, "{name}={value}");
        assert_eq!(environment.with_socket.len(), expected.len());
        assert_eq!(reason(&environment, name).is_none(), !expected.is_empty());
        assert_eq!(environment.warnings, [""; 0]);
        // Not without the default list, nor in the place of what was typed.
        assert_eq!(extra(&with(&[]).without_defaults().prune()), [""; 0], "{name}");
        let typed = format!("{name}=typed");
        assert_eq!(extra(&with(&[&typed]).prune()), [typed]);
    }
    // With a screen its cookies, where they can be read.
    let inherited = [("DISPLAY", ":0"), ("XAUTHORITY", "/home/u/.Xauthority")];
    let mut screen = Case { allowed: &["/tmp/.X11-unix/X0"], visible: &["/tmp", "/home"], ..case(&inherited, &[]) };
    assert_eq!(extra(&screen.prune()), ["DISPLAY=:0", "XAUTHORITY=/home/u/.Xauthority"]);
    screen.visible = &["/tmp"];
    assert_eq!(extra(&screen.prune()), ["DISPLAY=:0"]);
    screen.allowed = &[];
    screen.visible = &["/tmp", "/home"];
    assert_eq!(extra(&screen.prune()), [""; 0]);
}

#[test]
fn odd_capabilities_do_not_confuse() {
    for (name, value, warns) in [
        ("DISPLAY", "host:10.0", false),
        ("DISPLAY", ":", false),
        ("DISPLAY", "unix:1", true),
        ("DOCKER_HOST", "tcp://h:1", false),
        ("DOCKER_HOST", "ssh://u@h", false),
        ("SSH_AUTH_SOCK", "rel", true),
        ("WAYLAND_DISPLAY", "wayland-0", true),
        ("DBUS_SESSION_BUS_ADDRESS", "tcp:host=h", false),
        ("DBUS_SESSION_BUS_ADDRESS", "unix:abstract=/tmp/x,guid=2", true),
        ("TMUX", "/tmp/tmux-0/default,1,0", true),
        ("PULSE_SERVER", "unix:/run/p", true),
        ("XAUTHORITY", "/home/u/.Xauthority", true),
    ] {
        let environment = case(&[(name, value)], &[name]).prune();
        assert_eq!(extra(&environment), [format!("{name}={value}")]);
        assert_eq!(environment.warnings.len(), usize::from(warns), "{name}={value}");
    }
}

#[test]
fn proxies_and_ca_bundles_pass_by_name_only() {
    let inherited = ["http_proxy", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE"];
    let inherited = inherited.map(|name| (name, "v"));
    for network_host in [false, true] {
        let mut case = case(&inherited, &["HTTPS_*", "SSL_*"]);
        case.network_host = network_host;
        assert_eq!(extra(&case.prune()), [""; 0]);
        // Without them there is no way out where there is one otherwise.
        let warns = |case: &Case, names: &[&str]| {
            let expected = if network_host && !names.is_empty() { vec![names.join(", ")] } else { Vec::new() };
            let warnings = case.prune().warnings;
            let told: Vec<_> = warnings.iter().filter_map(|line| line.split_once("by name only (-e NAME): ")).collect();
            assert_eq!(told.iter().map(|(_, names)| (*names).to_owned()).collect::<Vec<_>>(), expected);
        };
        warns(&case, &["ALL_PROXY", "HTTPS_PROXY", "SSL_CERT_FILE", "http_proxy"]);
        case.policy.rules = vec![entry("HTTPS_PROXY")];
        assert_eq!(extra(&case.prune()), ["HTTPS_PROXY=v"]);
        warns(&case, &["ALL_PROXY", "SSL_CERT_FILE", "http_proxy"]);
        case.policy.rules = ["HTTPS_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "http_proxy"].map(entry).to_vec();
        warns(&case, &[]);
        case.policy.rules.clear();
        case.policy.defaults = false;
        warns(&case, &[]);
    }
}

#[test]
fn makeflags_pass_without_a_jobserver_that_does_not_cross() {
    let inherited = [("MAKEFLAGS", "k -j4 --jobserver-auth=3,4"), ("MFLAGS", "-k -j4 --jobserver-auth=3,4")];
    assert_eq!(extra(&case(&inherited, &[]).prune()), [""; 0]);
    assert_eq!(extra(&case(&inherited, &["MAKEFLAGS"]).prune()), ["MAKEFLAGS=k"]);
    assert_eq!(extra(&case(&inherited, &["MAKEFLAGS=-j2"]).prune()), ["MAKEFLAGS=-j2"]);
    let mut kept = case(&inherited, &[]);
    kept.keep_jobserver = true;
    assert_eq!(extra(&kept.prune()), ["MAKEFLAGS=k -j4 --jobserver-auth=3,4"]);
}

#[test]
fn malformed_entries_go_and_the_last_of_two_stays() {
    let mut odd =
        case(&[("LANG", "1"), ("", "x"), ("A=B", "x"), ("BASH_FUNC_x%%", "() {"), ("A B", "x"), ("LANG", "2")], &[]);
    #[cfg(unix)]
    odd.inherited.push((std::os::unix::ffi::OsStringExt::from_vec(vec![0xff]), "x".into()));
    let environment = odd.prune();
    assert_eq!(extra(&environment), ["LANG=2"]);
    assert!(environment.dropped.iter().all(|dropped| dropped.reason == Reason::Malformed));
    assert_eq!(environment.dropped.len(), odd.inherited.len() - 2);
    assert_eq!(environment.notes, ["given more than once, the last one counts: LANG"]);
}

#[test]
fn an_entry_that_exec_refuses_is_reported() {
    let fits = "x".repeat(MAX_ENTRY - "A=\0".len());
    let environment = case(&[("A", &fits), ("B", &format!("{fits}x"))], &["A", "B"]).prune();
    assert_eq!(texts(&environment.too_large), ["B"]);
}

#[test]
fn a_large_environment_costs_little() {
    let inherited: Vec<(OsString, OsString)> =
        (0..100_000).map(|number| (format!("V_{number}").into(), "v".into())).collect();
    let mut large = case(&[], &[]);
    large.inherited = inherited;
    for number in 0..1000 {
        large.policy.rules.push(entry(&format!("V_{number}_*")));
    }
    let start = std::time::Instant::now();
    assert_eq!(large.prune().dropped.len(), 100_000);
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
}

/// Names of every class, and a few that are none.
fn name() -> impl Strategy<Value = String> {
    let known: Vec<&str> = names::DEFAULTS
        .iter()
        .chain(names::DENIED)
        .chain(names::BY_NAME_ONLY)
        .chain(OURS)
        .chain(names::POINTERS.iter().chain(names::SELECTORS).map(|(name, _)| name))
        .copied()
        .collect();
    prop_oneof![
        4 => prop::sample::select(known).prop_map(str::to_owned),
        2 => "(MY|LD|GIT|LC|SANDBOX_RUN|OMNIGENT_LAUNCHER_SPAWN)_[A-C]{1,2}",
        2 => "(MY|GIT|A)_(KEY|TOKEN|NAME|AUTHOR)",
        1 => Just("MAKEFLAGS".to_owned()),
        1 => "[A-C=%é]{0,2}",
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z/:. ]{0,6}",
        "/(usr|home)(/[a-z]{1,3})?",
        "(https://u:p@h|unix:path=/run/x)",
        "(k )?-j[0-4]? --jobserver-auth=[3-4],4( -- X=y)?",
    ]
}

fn rules() -> impl Strategy<Value = Vec<EnvEntry>> {
    let word = prop_oneof![
        name(),
        (name(), value()).prop_map(|(name, value)| format!("{name}={value}")),
        "(MY|LD|GIT|LC|OMNIGENT|A|RUSTUP|SSL|HTTPS|DBUS)_\\*",
    ];
    let parse = |words: Vec<String>| {
        let rules = words.iter().filter_map(|word| EnvRule::parse(OsStr::new(word)).ok());
        EnvEntry::all(rules, &Origin::Payload).collect()
    };
    prop::collection::vec(word, 0..8).prop_map(parse)
}

prop_compose! {
    fn any_case()(
        vars in prop::collection::vec((name(), value()), 0..40),
        rules in rules(),
        (defaults, keep_jobserver, network_host) in any::<(bool, bool, bool)>(),
        (home, tmp) in any::<(bool, bool)>(),
    ) -> Case {
        Case {
            inherited: vars.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            policy: EnvPolicy { defaults, rules },
            keep_jobserver,
            network_host,
            home: home.then_some("/home/u"),
            tmp: tmp.then_some("/tmp"),
            allowed: &[],
            visible: &["/usr"],
        }
    }
}

fn is_set_by(rules: &[EnvEntry], name: &OsStr) -> bool {
    rules.iter().any(|entry| matches!(&entry.rule, EnvRule::Set(set, _) if set.as_ref() == name))
}

fn is_passed_by(rules: &[EnvEntry], name: &str) -> bool {
    rules.iter().any(|entry| match &entry.rule {
        EnvRule::Pass(pass) => pass.as_str() == name,
        EnvRule::PassPrefix(prefix) => name.starts_with(prefix.as_str()),
        EnvRule::Set(..) => false,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pruning_twice_is_pruning_once(mut case in any_case()) {
        let once = case.prune();
        case.inherited = once.vars.clone();
        prop_assert_eq!(case.prune().vars, once.vars);
    }

    #[test]
    fn the_result_is_sorted_unique_and_accounted_for(case in any_case()) {
        let environment = case.prune();
        prop_assert!(environment.vars.is_sorted_by(|a, b| a.0 < b.0));
        let mut named: Vec<_> = environment.kept.iter().chain(&environment.set).collect();
        named.sort();
        prop_assert_eq!(named, environment.vars.iter().map(|(name, _)| name).collect::<Vec<_>>());
        for (name, _) in &case.inherited {
            let passed = environment.vars.iter().any(|(var, _)| var == name);
            let dropped = environment.dropped.iter().any(|dropped| dropped.name == *name);
            prop_assert!(passed != dropped, "{name:?} passed {passed} dropped {dropped}");
        }
    }

    #[test]
    fn what_never_passes_is_never_kept(case in any_case()) {
        for name in case.prune().kept {
            let name = name.to_str().unwrap();
            prop_assert!(!names::never_inherited(name) && !name.starts_with(INTERNAL_PREFIX), "{name}");
        }
    }

    #[test]
    fn nothing_passes_unasked(case in any_case()) {
        let environment = case.prune();
        let Case { policy: EnvPolicy { defaults, rules }, .. } = &case;
        for name in &environment.kept {
            let text = name.to_str().unwrap();
            let listed = OURS.contains(&text)
                || names::contains(names::DEFAULTS, text)
                || text.starts_with(names::DEFAULT_PREFIX)
                || names::toolchain(names::POINTERS, text).is_some()
                || names::toolchain(names::SELECTORS, text).is_some();
            let jobserver = case.keep_jobserver && text == "MAKEFLAGS";
            prop_assert!((*defaults && listed) || jobserver || is_passed_by(rules, text), "{text}");
        }
        for name in &environment.set {
            let ours = OURS.contains(&name.to_str().unwrap());
            prop_assert!(ours || is_set_by(rules, name), "{name:?}");
        }
    }

    #[test]
    fn a_wildcard_alone_admits_no_secret(case in any_case()) {
        let rules = &case.policy.rules;
        for name in case.prune().kept {
            let text = name.to_str().unwrap();
            let by_name = rules.iter().any(|entry| matches!(&entry.rule, EnvRule::Pass(pass) if pass.as_str() == text));
            prop_assert!(by_name || !names::looks_secret(text), "{text}");
        }
    }

    #[test]
    fn values_stay_out_of_messages(
        marker in "zq[0-9]{8}",
        names in prop::collection::vec(name(), 1..20),
        rules in rules(),
    ) {
        let mut case = case(&[], &[]);
        case.inherited = names.into_iter().map(|name| (name.into(), format!("/x/{marker}").into())).collect();
        case.policy.rules = rules;
        let environment = case.prune();
        for text in environment.warnings.iter().chain(&environment.notes) {
            prop_assert!(!text.contains(&marker), "{text}");
        }
    }

    #[test]
    fn any_word_is_a_rule_or_an_error(word in any::<String>()) {
        if let Ok(EnvRule::Pass(name) | EnvRule::Set(name, _)) = EnvRule::parse(OsStr::new(&word)) {
            prop_assert!(is_name(name.as_str().as_bytes()) && !name.as_str().starts_with(INTERNAL_PREFIX));
        }
    }
}
