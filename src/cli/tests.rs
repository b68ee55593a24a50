//! The command line as a table: words in, invocation or one line out.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use clap_complete::Shell;

use super::*;
use crate::config::merge;
use crate::policy::Limits;

mod refusals;

fn typed(words: &[&str]) -> Result<Invocation> {
    parse(words.iter().map(OsString::from))
}

fn good(words: &[&str]) -> Invocation {
    typed(words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

fn target(words: &[&str]) -> Vec<OsString> {
    good(words).target
}

fn os(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

#[test]
fn clap_accepts_the_command() {
    options::command().debug_assert();
    command().debug_assert();
}

#[test]
fn nothing_typed_is_silence() {
    let invocation = good(&["true"]);
    assert_eq!(invocation.action, Action::Run);
    assert_eq!(invocation.layer, Layer::default());
    assert_eq!(invocation.env, []);
    assert_eq!(invocation.target, ["true"]);
    assert_eq!(invocation.verbosity, Verbosity::default());
    assert_eq!(invocation.log_format, LogFormat::Text);
}

#[test]
fn options_stop_at_the_target() {
    for (words, expected) in [
        (&["true"][..], &["true"][..]),
        (&["--", "true"], &["true"]),
        (&["-w", ".", "true"], &["true"]),
        (&["-w", ".", "--", "true"], &["true"]),
        (&["cmd", "--net", "host", "-w", "/"], &["cmd", "--net", "host", "-w", "/"]),
        (&["cmd", "--", "--help"], &["cmd", "--", "--help"]),
        (&["--", "--net", "host"], &["--net", "host"]),
        (&["--", "--", "x"], &["--", "x"]),
        (&["--", "-"], &["-"]),
        (&["--", "-w"], &["-w"]),
        (&["", "-w"], &["", "-w"]),
        (&["check"], &["check"]),
        (&["--dry-run", "json", "x"], &["json", "x"]),
        (&["-v", "-q", "--new-session", "never", "--", "a", "-v"], &["a", "-v"]),
        (&["-e", "A=-x", "b"], &["b"]),
        (&["-C", "-", "b"], &["b"]),
    ] {
        assert_eq!(target(words), os(expected), "{words:?}");
    }
    assert_eq!(good(&["cmd", "--net", "host"]).layer.network.map(|set| set.value), None);
}

#[test]
fn target_words_are_bytes() {
    let words = [&b"\xff\xfe"[..], b"--\x80", b"", b"-rw", b"\n", b"a b", "größe".as_bytes()]
        .map(|word| OsStr::from_bytes(word).to_owned());
    assert_eq!(parse(words.clone()).unwrap().target, words);
    let many: Vec<OsString> = (0..20_000).map(|n| n.to_string().into()).collect();
    assert_eq!(parse(many.clone()).unwrap().target, many);
}

#[test]
fn option_values_are_bytes() {
    let path = OsStr::from_bytes(b"/a\xffb");
    for words in [
        vec![OsStr::new("-r"), path, OsStr::new("x")],
        vec![OsStr::new("--read"), path, OsStr::new("x")],
        vec![OsStr::from_bytes(b"--read=/a\xffb"), OsStr::new("x")],
    ] {
        let invocation = parse(words.iter().map(OsString::from)).unwrap();
        assert_eq!(invocation.layer.grants[0].path, Path::new(path), "{words:?}");
    }
    let words = [OsStr::new("-e"), OsStr::from_bytes(b"X=\xff"), OsStr::new("x")];
    let EnvWord::Rule(EnvRule::Set(_, value)) = &parse(words.map(OsString::from)).unwrap().env[0] else {
        panic!("not a rule that sets")
    };
    assert_eq!(value.as_bytes(), b"\xff");
}

#[test]
fn grants_masks_and_sockets() {
    let grant = |path: &str, access, missing, flag| Grant {
        path: path.into(),
        access,
        missing,
        file_only: false,
        origin: Origin::Flag(flag),
    };
    let words = ["-w", "a", "-r", "b", "--write-try", "c", "--read-try=d", "--write=~/e", "--read", "../f"];
    let words = words.map(str::to_owned);
    let words: Vec<&str> = words.iter().map(String::as_str).chain(["true"]).collect();
    let expected = |missing_write| {
        vec![
            grant("a", Access::Write, missing_write, "--write"),
            grant("b", Access::Read, Missing::Refuse, "--read"),
            grant("c", Access::Write, Missing::Skip, "--write-try"),
            grant("d", Access::Read, Missing::Skip, "--read-try"),
            grant("~/e", Access::Write, missing_write, "--write"),
            grant("../f", Access::Read, Missing::Refuse, "--read"),
        ]
    };
    assert_eq!(good(&words).layer.grants, expected(Missing::Refuse));
    let words: Vec<&str> = ["--create-missing"].into_iter().chain(words).collect();
    assert_eq!(good(&words).layer.grants, expected(Missing::Create));

    let rule = |path: &str, flag| PathRule { path: path.into(), origin: Origin::Flag(flag) };
    let layer = good(&[
        "--mask",
        "a",
        "--mask",
        "b",
        "--protect",
        "c",
        "--deny-socket",
        "d",
        "--allow-socket",
        "e",
        "--allow-socket",
        "f",
        "true",
    ])
    .layer;
    assert_eq!(layer.masks, [rule("a", "--mask"), rule("b", "--mask")]);
    assert_eq!(layer.protects, [rule("c", "--protect")]);
    assert_eq!(layer.deny_sockets, [rule("d", "--deny-socket")]);
    assert_eq!(layer.allow_sockets, [rule("e", "--allow-socket"), rule("f", "--allow-socket")]);
}

#[test]
fn the_last_scalar_wins_and_lists_add() {
    let layer = |words: &[&str]| good(words).layer;
    assert_eq!(layer(&["--net", "off", "--net", "host", "x"]).network.map(|set| set.value), Some(Network::Host));
    assert_eq!(layer(&["--net", "host", "--net=off", "x"]).network.map(|set| set.value), Some(Network::Off));
    assert_eq!(layer(&["-C", "a", "--workdir=b", "x"]).workdir.map(|set| set.value), Some("b".into()));
    assert_eq!(layer(&["--tmp-size", "1M", "--tmp-size", "4K", "x"]).tmp_size.map(|set| set.value), Some(4096));
    assert_eq!(
        layer(&["--kill-after", "5m", "--kill-after", "0.2", "x"]).kill_after.map(|set| set.value),
        Some(Duration::from_millis(200))
    );
    assert_eq!(
        layer(&["--new-session", "always", "--new-session", "never", "x"]).new_session.map(|set| set.value),
        Some(NewSession::Never)
    );
    assert_eq!(layer(&["-b", "none", "-b", "bwrap", "x"]).backends.map(|set| set.value), Some(vec![Backend::Bwrap]));
    assert_eq!(
        layer(
            &["--allow-gap", "network,masks", "--allow-gap", "cpu", "x"]
                .map(|word| { if word == "cpu" { "sockets" } else { word } })
        )
        .accepted_gaps,
        [Protection::Network, Protection::Masks, Protection::Sockets]
            .map(|gap| (gap, Origin::Flag("--allow-gap")))
            .into()
    );
    assert_eq!(
        layer(&["--keep-fd", "9", "--keep-fd", "3", "--keep-fd", "9", "x"]).keep_fds,
        [3, 9].map(|number| (number, Origin::Flag("--keep-fd"))).into()
    );
    assert_eq!(good(&["--log-format", "json", "x"]).log_format, LogFormat::Json);
    let switches = layer(&["--keep-jobserver", "--keep-jobserver", "--no-default-env", "x"]);
    assert_eq!(
        (switches.keep_jobserver.map(|set| set.value), switches.env_defaults.map(|set| set.value)),
        (Some(true), Some(false))
    );
}

#[test]
fn limits() {
    let layer = |words: &[&str]| good(words).layer;
    let flag = |flag| Origin::Flag(flag);
    let seconds = Duration::from_secs;
    let times = [
        ("0.2", Duration::from_millis(200)),
        ("250ms", Duration::from_millis(250)),
        ("10s", seconds(10)),
        ("1m", seconds(60)),
        ("1h", seconds(3600)),
        ("0", Duration::ZERO),
        ("1000000000", seconds(1_000_000_000)),
        ("99999999999999999999h", Span::MAX.duration()),
    ];
    for (text, time) in times {
        assert_eq!(layer(&["--timeout", text, "x"]).timeout, Some(Set::new(time, flag("--timeout"))), "{text}");
    }
    assert_eq!(merge([layer(&["--timeout", "5", "--timeout", "0", "x"])]).limits.timeout, None);

    let sizes = [("4096", 4096), ("1K", 1024), ("1KiB", 1024), ("1M", 1 << 20), ("2G", 2 << 30), ("0", 0)];
    for (text, bytes) in sizes {
        for option in ["--max-file-size", "--core", "--max-output"] {
            let layer = layer(&[option, text, "x"]);
            let found = [layer.max_file_size, layer.core, layer.max_output].into_iter().flatten();
            assert_eq!(found.collect::<Vec<_>>(), [Set::new(bytes, flag(option))], "{option} {text}");
        }
    }
    for (text, bytes) in [("16M", 16 << 20), ("16777216", 16 << 20), ("2GiB", 2 << 30)] {
        for option in ["--memory", "--address-space"] {
            let layer = layer(&[option, text, "x"]);
            let found = [layer.memory, layer.address_space].into_iter().flatten();
            assert_eq!(found.collect::<Vec<_>>(), [Set::new(bytes, flag(option))], "{option} {text}");
        }
    }
    for (text, seconds) in [("1", 1), ("30s", 30), ("5m", 300), ("3000ms", 3), ("1.5m", 90), ("1h", 3600)] {
        assert_eq!(layer(&["--cpu-time", text, "x"]).cpu_time, Some(Set::new(seconds, flag("--cpu-time"))), "{text}");
    }
    for (text, count) in [("1", 1), ("64", 64), ("18446744073709551615", u64::MAX)] {
        assert_eq!(layer(&["--max-procs", text, "x"]).max_procs, Some(Set::new(count, flag("--max-procs"))), "{text}");
    }
    assert_eq!(
        layer(&["--max-open-files=16", "x"]).max_open_files,
        Some(Set::new(Limits::MIN_OPEN_FILES, flag("--max-open-files")))
    );
    for (text, overflow) in [("truncate", OutputOverflow::Truncate), ("kill", OutputOverflow::Kill)] {
        // Without a limit too: a policy file may have it.
        let layer = layer(&["--output-overflow", text, "x"]);
        assert_eq!(layer.output_overflow, Some(Set::new(overflow, flag("--output-overflow"))));
    }
}

/// Both ways to write a limit have the same bounds, and every message has the right number.
#[test]
fn the_least_of_each_limit_is_the_one_that_is_told() {
    for (option, floor) in [
        ("--memory", Limits::MEMORY),
        ("--address-space", Limits::ADDRESS_SPACE),
        ("--max-open-files", Limits::OPEN_FILES),
        ("--max-procs", Limits::PROCS),
    ] {
        let least = floor.least();
        let told = if least % (1 << 20) == 0 { format!("{}M", least >> 20) } else { least.to_string() };
        let error = typed(&[option, &(least - 1).to_string(), "x"]).unwrap_err().to_string();
        assert!(error.contains(&format!("'{}' is less than {told}", least - 1)), "{error}");
        good(&[option, &least.to_string(), "x"]);
    }
}

#[test]
fn backends() {
    for (list, expected) in [
        ("auto", Backend::AUTO),
        ("bwrap", &[Backend::Bwrap]),
        ("bubblewrap", &[Backend::Bwrap]),
        ("none", &[Backend::None]),
        ("auto,none", &[Backend::Bwrap, Backend::Namespace, Backend::Landlock, Backend::None]),
        ("none,auto", &[Backend::None, Backend::Bwrap, Backend::Namespace, Backend::Landlock]),
        ("bwrap,linux_bwrap,auto", Backend::AUTO),
    ] {
        assert_eq!(good(&["-b", list, "x"]).layer.backends.map(|set| set.value).as_deref(), Some(expected), "{list}");
    }
}

#[test]
fn environment_words_keep_their_order() {
    let rule = |word: &str| EnvWord::Rule(EnvRule::parse(OsStr::new(word)).unwrap());
    let file = |path: &str| EnvWord::File(path.into());
    let invocation = good(&["-e", "A=1", "--env-file", "f", "--env=B", "-r", "/", "--env-file=g", "-e", "C_*", "x"]);
    assert_eq!(invocation.env, [rule("A=1"), file("f"), rule("B"), file("g"), rule("C_*")]);
    assert_eq!(invocation.layer.env, []);
}

#[test]
fn verbosity() {
    for (words, verbose, quiet) in [
        (&["x"][..], 0, false),
        (&["-v", "x"], 1, false),
        (&["-vv", "--verbose", "x"], 3, false),
        (&["-q", "x"], 0, true),
        (&["-qv", "x"], 1, true),
        (&["-vq", "-q", "x"], 1, true),
    ] {
        assert_eq!(good(words).verbosity, Verbosity { verbose, quiet }, "{words:?}");
    }
    let many = "-".to_owned() + &"v".repeat(300);
    assert_eq!(good(&[&many, "x"]).verbosity.verbose, u8::MAX);
}

#[test]
fn actions() {
    for (words, action) in [
        (&["--dry-run", "x"][..], Action::DryRun(Format::Text)),
        (&["--dry-run=text", "x"], Action::DryRun(Format::Text)),
        (&["--dry-run=json", "x"], Action::DryRun(Format::Json)),
        (&["--dry-run=json", "--dry-run", "x"], Action::DryRun(Format::Text)),
        (&["--check"], Action::Check { json: false }),
        (&["--check", "--check", "--"], Action::Check { json: false }),
        (&["--json", "--check", "-b", "bwrap"], Action::Check { json: true }),
        (&["--explain", "a"], Action::Explain { paths: vec!["a".into()], json: false }),
        (
            &["--json", "--explain", "a", "--explain=b", "x"],
            Action::Explain { paths: vec!["a".into(), "b".into()], json: true },
        ),
        (&["--completions", "bash"], Action::Completions(Shell::Bash)),
        (&["--completions=powershell"], Action::Completions(Shell::PowerShell)),
    ] {
        assert_eq!(good(words).action, action, "{words:?}");
    }
}

#[test]
fn help_and_version() {
    let text = |words: &[&str]| match good(words).action {
        Action::Help(text) => text,
        other => panic!("{words:?}: {other:?}"),
    };
    let (short, long) = (text(&["-h"]), text(&["--help"]));
    assert!(short.len() < long.len());
    for words in [&["-vh"][..], &["-h", "x"], &["-w", ".", "-h"], &["--check", "-h", "--bogus"]] {
        assert_eq!(text(words), short, "{words:?}");
    }
    assert_eq!(text(&["--help", "--net", "maybe"]), long);
    assert_eq!(target(&["x", "--help"]), os(&["x", "--help"]));
    let version = Action::Version(format!("sandbox-run {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(good(&["-V"]).action, version);
    assert_eq!(good(&["--version", "x"]).action, version);
}
