//! What is not accepted: words in, one line and its hint out.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{good, parse, typed};
use crate::error::{Error, Kind};
use crate::exit;

fn refused(words: &[&str]) -> Error {
    let error = typed(words).expect_err(&format!("{words:?} must be refused"));
    assert_eq!(error.kind(), Kind::Usage, "{words:?}");
    assert_eq!(exit::Status::Failed(error.kind()).code(), 125);
    let line = error.to_string();
    assert!(line.starts_with("cannot read the command line: "), "{line}");
    assert!(!line.contains('\n') && !line.ends_with('.'), "{line}");
    error
}

/// Words, the line after its common start, the hint.
fn check_refusals(table: &[(&[&str], &str, &str)]) {
    for (words, reason, hint) in table {
        let error = refused(words);
        assert_eq!(error.to_string(), format!("cannot read the command line: {reason}"), "{words:?}");
        assert_eq!(error.hints().join(" | "), *hint, "{words:?}");
    }
}

#[test]
fn actions_exclude_each_other() {
    let each = "each of them is done instead of running a command";
    check_refusals(&[
        (&["--dry-run", "--check", "x"], "options '--check' and '--dry-run' exclude each other", each),
        (
            &["--completions", "zsh", "--dry-run=json"],
            "options '--dry-run' and '--completions' exclude each other",
            each,
        ),
        (
            &["--json", "x"],
            "option '--json' needs '--check' or '--explain'",
            "a plan is printed as JSON by '--dry-run=json'",
        ),
        (
            &["--json", "--dry-run", "x"],
            "option '--json' needs '--check' or '--explain'",
            "a plan is printed as JSON by '--dry-run=json'",
        ),
        (&["--check", "true"], "option '--check' runs no command, found 'true'", ""),
        (&["--explain", "x", "--check"], "options '--check' and '--explain' exclude each other", each),
        (&["--explain", "", "x"], "option '--explain': '' is not a path", ""),
        (&["--completions", "bash", "--", "true"], "option '--completions' runs no command, found 'true'", ""),
    ]);
}

#[test]
fn no_command() {
    let hint = "sandbox-run [OPTIONS] [--] COMMAND [ARG]...; see 'sandbox-run --help'";
    for words in [&[][..], &["--"], &["-w", "."], &["--dry-run"], &["-v", "--"]] {
        check_refusals(&[(words, "no command given", hint)]);
    }
}

#[test]
fn unknown_options() {
    let help = "see 'sandbox-run --help' for the options";
    check_refusals(&[
        (&["--alow-socket", "x", "true"], "unknown option '--alow-socket'", "did you mean '--allow-socket'?"),
        (&["--alow-socket=x", "true"], "unknown option '--alow-socket'", "did you mean '--allow-socket'?"),
        (&["--writ", ".", "true"], "unknown option '--writ'", "did you mean '--write'?"),
        (&["--create", "x"], "unknown option '--create'", "did you mean '--create-missing'?"),
        (&["--Net", "off", "x"], "unknown option '--Net'", "did you mean '--net'?"),
        (&["--xyzzy", "true"], "unknown option '--xyzzy'", help),
        (&["--cpus", "2", "true"], "unknown option '--cpus'", "did you mean '--cpu-time'?"),
        (&["--nproc=9", "true"], "unknown option '--nproc'", "did you mean '--max-procs'?"),
        (&["--max-time", "9", "true"], "unknown option '--max-time'", "did you mean '--timeout'?"),
        (&["--ro-bind", "/a", "/a", "true"], "unknown option '--ro-bind'", "did you mean '--read'?"),
        (&["--rlimit_as", "9", "true"], "unknown option '--rlimit_as'", "did you mean '--address-space'?"),
        (&["--=x", "true"], "unknown option '--'", help),
        (&["-x", "true"], "unknown option '-x'", help),
        (&["-5", "true"], "unknown option '-5'", help),
        (&["-vx", "true"], "unknown option '-x' in '-vx'", help),
        (&["-ö", "true"], "unknown option '-ö'", help),
        (&["-net", "off", "true"], "unknown option '-net'", "did you mean '--net'?"),
        (
            &["-", "true"],
            "a lone '-' is neither an option nor a command",
            "an empty environment is '--no-default-env', a program called '-' is '-- -'",
        ),
        // The leftmost mistake is the one reported.
        (&["--net", "maybe", "--bogus"], "option '--net': 'maybe' is not one of off, host", ""),
    ]);
    for word in [&b"--\xff"[..], b"--read\xff=x", b"-\xff", b"-v\xff"] {
        let error = parse([OsStr::from_bytes(word).to_owned()]).unwrap_err().to_string();
        assert!(error.contains("unknown option '-") && error.contains("\\xff"), "{error}");
    }
}

#[test]
fn values_of_short_options_stand_alone() {
    let reason =
        |option: &str, word: &str| format!("option '{option}' takes its value as a separate word, found '{word}'");
    for (word, option, hint) in [
        ("-rw", "-r", "write '-r w', or '-r PATH -w PATH' for several options"),
        ("-rv", "-r", "write '-r v', or '-r PATH -v' for several options"),
        ("-rfoo", "-r", "write '-r foo'"),
        ("-b=bwrap", "-b", "write '-b bwrap'"),
        ("-r=", "-r", "write '-r PATH'"),
        ("-vr", "-r", "write '-v -r PATH'"),
        ("-vrfoo", "-r", "write '-v -r foo'"),
        ("-eA", "-e", "write '-e A'"),
        ("-read", "-r", "did you mean '--read'?"),
        ("-backend", "-b", "did you mean '--backend'?"),
        ("-rö", "-r", "write '-r ö'"),
    ] {
        check_refusals(&[(&[word, ".", "true"], &reason(option, word), hint)]);
    }
}

#[test]
fn values_of_variables_are_not_quoted() {
    let help = "see 'sandbox-run --help' for the options";
    let alone =
        |option: &str, word: &str| format!("option '{option}' takes its value as a separate word, found '{word}'");
    check_refusals(&[
        (&["-eA=s3c"], &alone("-e", "-eA=…"), "write '-e A=…'"),
        (&["-e=A=s3c"], &alone("-e", "-e=…"), "write '-e NAME[=VALUE]'"),
        (&["-e=s3c"], &alone("-e", "-e=…"), "write '-e NAME[=VALUE]'"),
        (&["-e=="], &alone("-e", "-e=…"), "write '-e NAME[=VALUE]'"),
        (&["-veA=s3c"], &alone("-e", "-veA=…"), "write '-v -e A=…'"),
        (&["-weA=s3c"], &alone("-w", "-weA=…"), "write '-w eA=…'"),
        (&["-w=dir"], &alone("-w", "-w=dir"), "write '-w dir'"),
        (&["-w=A=s3c"], &alone("-w", "-w=A=…"), "write '-w A=…'"),
        (&["-xA=s3c"], "unknown option '-x' in '-xA=…'", help),
        (&["-vx=s3c"], "unknown option '-x' in '-vx=…'", help),
        (&["-A=s3c"], "unknown option '-A' in '-A=…'", help),
        (&["--ENV=s3c"], "unknown option '--ENV'", help),
        (&["--capture=A=s3c", "x"], "option '--capture' takes no value, found '--capture=A=…'", ""),
        (
            &["-e", "-A=s3c"],
            "option '-e' needs a value (NAME[=VALUE]), found '-A=…'",
            "write '--env=-A=…' if that is the value",
        ),
        (
            &["-w", "--env=A=s3c"],
            "option '-w' needs a value (PATH), found '--env=…'",
            "write '--write=--env=…' if that is the value",
        ),
    ]);
    for word in [&b"--\xff=s3c"[..], b"-\xff=s3c", b"-eA\xff=s3c"] {
        let error = parse([OsStr::from_bytes(word).to_owned()]).unwrap_err().to_string();
        assert!(error.contains("\\xff=…") && !error.contains("s3c"), "{error}");
    }
    for word in ["API KEY=s3c", "1A=s3c", "=s3c", "SANDBOX_RUN_X=s3c", "A_*=s3c", "A=s3c\0"] {
        for words in [&["-e", word][..], &[&format!("--env={word}")]] {
            let line = refused(words).to_string();
            let (name, _) = word.split_once('=').expect("a value");
            assert!(line.contains(&format!("'{name}=…'")) && !line.contains("s3c"), "{line}");
        }
    }
}

#[test]
fn reports_go_to_no_dash() {
    let dash = |option: &str| format!("option '{option}': '-' is no file, and standard output is the command's");
    let result = "--result-fd N writes to an open descriptor; a file of that name is './-'";
    check_refusals(&[
        (&["--result", "-", "true"], &dash("--result"), result),
        (&["--audit-log=-", "true"], &dash("--audit-log"), "a file of that name is './-'"),
    ]);
    good(&["--result", "./-", "--audit-log", "./-", "true"]);
}

#[test]
fn missing_values() {
    check_refusals(&[
        (&["-r"], "option '-r' needs a value (PATH)", ""),
        (&["--net"], "option '--net' needs a value (off|host)", ""),
        (
            &["-r", "-w", ".", "true"],
            "option '-r' needs a value (PATH), found '-w'",
            "write '--read=-w' if that is the value",
        ),
        (
            &["--kill-after", "--", "true"],
            "option '--kill-after' needs a value (DUR), found '--'",
            "write '--kill-after=--' if that is the value",
        ),
        (&["--check=yes"], "option '--check' takes no value, found '--check=yes'", ""),
        (&["--verbose=2", "x"], "option '--verbose' takes no value, found '--verbose=2'", ""),
    ]);
    assert_eq!(good(&["--read=-w", "x"]).layer.grants[0].path, Path::new("-w"));
}

#[test]
fn values_with_other_units() {
    for (option, value, end) in [
        ("--timeout", "10sec", "seconds without): did you mean '10s'?"),
        ("--timeout", "1h30m", "one number and one unit of ms, s, m, h; seconds without)"),
        ("--cpu-time", "5min", "did you mean '5m'?"),
        ("--memory", "512m", "TiB): did you mean '512M'?"),
        ("--tmp-size", "512MB", "TiB): did you mean '512M'?"),
    ] {
        let line = refused(&[option, value, "true"]).to_string();
        assert!(line.contains(&format!("option '{option}': '{value}' is not a")) && line.ends_with(end), "{line}");
    }
}

#[test]
fn empty_paths() {
    for name in [
        "read",
        "read-try",
        "write",
        "write-try",
        "mask",
        "protect",
        "workdir",
        "deny-socket",
        "allow-socket",
        "env-file",
    ] {
        let (option, reason) = (format!("--{name}"), format!("option '--{name}': '' is not a path"));
        check_refusals(&[(&[&option, "", "true"], &reason, ""), (&[&format!("{option}="), "true"], &reason, "")]);
    }
}

#[test]
fn bad_values() {
    let size = "is not a size (a whole number of bytes, or with K, M, G, T, KiB, MiB, GiB, TiB)";
    let duration = "is not a duration (one number and one unit of ms, s, m, h; seconds without)";
    let gaps = "files-read, files-write, masks, network, sockets, processes, privileges, environment, memory, cpu, procs, \
        file-size, open-files, output, time";
    let memory = "is less than 16M, the least that a sandbox starts in";
    let program = "is less than 16M, the least that a program can be loaded in";
    let files = "is less than 16, the fewest that a program can be started with";
    let whole = "is not a whole number of seconds, in which processor time is counted";
    let large = "is more than 63 bits of bytes";
    let backends = "is not one of auto, bwrap, namespace, landlock, seatbelt, container, jobobject, none";
    for (option, value, reason) in [
        ("--net", "maybe", "'maybe' is not one of off, host"),
        ("--net", "", "'' is not one of off, host"),
        ("--net", "OFF", "'OFF' is not one of off, host"),
        ("--new-session", "yes", "'yes' is not one of auto, always, never"),
        ("--log-format", "xml", "'xml' is not one of text, json"),
        ("--completions", "nosuch", "'nosuch' is not one of bash, zsh, fish, elvish, powershell"),
        ("--backend", "dockr", &format!("'dockr' {backends}")),
        ("--backend", "bwrap,nosuch", &format!("'nosuch' {backends}")),
        ("--backend", "bwrap,", "'bwrap,' has an empty entry"),
        ("--backend", "", "'' has an empty entry"),
        ("--allow-gap", "nets", &format!("'nets' is not one of {gaps}")),
        ("--allow-gap", "network,,masks", "'network,,masks' has an empty entry"),
        ("--tmp-size", "1X", &format!("'1X' {size}")),
        ("--tmp-size", "-1", &format!("'-1' {size}")),
        ("--tmp-size", "4095", "'4095' is less than one page (4K)"),
        ("--tmp-size", "0", "'0' is less than one page (4K)"),
        ("--tmp-size", "99999999T", &format!("'99999999T' {large}")),
        ("--tmp-size", "16777215T", &format!("'16777215T' {large}")),
        ("--kill-after", "abc", &format!("'abc' {duration}")),
        ("--kill-after", "-1", &format!("'-1' {duration}")),
        ("--kill-after", "", &format!("'' {duration}")),
        ("--timeout", "-1", &format!("'-1' {duration}")),
        ("--timeout", "abc", &format!("'abc' {duration}")),
        ("--timeout", "1x", &format!("'1x' {duration}")),
        ("--timeout", "", &format!("'' {duration}")),
        ("--timeout", "1e400", &format!("'1e400' {duration}")),
        ("--timeout", "5 s", &format!("'5 s' {duration}: did you mean '5s'?")),
        ("--memory", "1.5M", &format!("'1.5M' {size}")),
        ("--memory", "16777215", &format!("'16777215' {memory}")),
        ("--memory", "0", &format!("'0' {memory}")),
        ("--memory", "18446744073709551616", &format!("'18446744073709551616' {large}")),
        ("--memory", "9223372036854775808", &format!("'9223372036854775808' {large}")),
        ("--max-file-size", "1.5M", &format!("'1.5M' {size}")),
        ("--max-file-size", "-1", &format!("'-1' {size}")),
        ("--max-file-size", "10X", &format!("'10X' {size}")),
        ("--max-file-size", "", &format!("'' {size}")),
        ("--max-file-size", "18446744073709551616", &format!("'18446744073709551616' {large}")),
        ("--max-file-size", "99999999999G", &format!("'99999999999G' {large}")),
        ("--core", "unlimited", &format!("'unlimited' {size}")),
        ("--max-output", "-1", &format!("'-1' {size}")),
        ("--address-space", "15M", &format!("'15M' {program}")),
        ("--cpu-time", "0.5", &format!("'0.5' {whole}")),
        ("--cpu-time", "1500ms", &format!("'1500ms' {whole}")),
        ("--cpu-time", "0", "'0' is less than one second"),
        ("--cpu-time", "-1", &format!("'-1' {duration}")),
        ("--cpu-time", "1d", &format!("'1d' {duration}")),
        ("--max-procs", "0", "'0' is less than 1, the command itself"),
        ("--max-procs", "-1", "'-1' is not a whole number"),
        ("--max-procs", "+1", "'+1' is not a whole number"),
        ("--max-procs", "1.5", "'1.5' is not a whole number"),
        ("--max-procs", "1K", "'1K' is not a whole number"),
        ("--max-procs", "", "'' is not a whole number"),
        ("--max-procs", "18446744073709551616", "'18446744073709551616' is a number of more than 64 bits"),
        ("--max-open-files", "2", &format!("'2' {files}")),
        ("--max-open-files", "0x40", "'0x40' is not a whole number"),
        ("--output-overflow", "drop", "'drop' is not one of truncate, kill"),
        ("--output-overflow", "", "'' is not one of truncate, kill"),
        ("--keep-fd", "1", "'1' always crosses, only numbers from 3 are named"),
        ("--keep-fd", "-1", "'-1' is not the number of a descriptor"),
        ("--keep-fd", "+3", "'+3' is not the number of a descriptor"),
        ("--keep-fd", "", "'' is not the number of a descriptor"),
        ("--keep-fd", "9999999999", "'9999999999' is not the number of a descriptor"),
    ] {
        let reason = format!("option '{option}': {reason}");
        check_refusals(&[
            (&[option, value, "true"], &reason, ""),
            (&[&format!("{option}={value}"), "true"], &reason, ""),
        ]);
    }
    check_refusals(&[
        (&["--dry-run=yaml", "x"], "option '--dry-run': 'yaml' is not one of text, json", ""),
        (&["--dry-run=", "x"], "option '--dry-run': '' is not one of text, json", ""),
    ]);
    for word in ["1A", "A B", "A-B=", "", "A*", "*_X", "A*B"] {
        let line = refused(&["-e", word, "true"]).to_string();
        assert!(line.contains("option '--env': ") && line.contains(&format!("'{word}'")), "{line}");
    }
    let words = [OsStr::new("--net"), OsStr::from_bytes(b"o\xff"), OsStr::new("x")];
    let line = parse(words.map(OsString::from)).unwrap_err().to_string();
    assert!(line.ends_with("'o\\xff' is not one of off, host"), "{line}");
}
