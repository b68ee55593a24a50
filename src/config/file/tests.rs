//! What is read, what is refused, and where the refusal points.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::backend::Backend;
use crate::config::{fields, merge};
use crate::policy::env::{EnvName, EnvRule};
use crate::policy::hidden::{Overflow, Shown};
use crate::policy::limits::{Limits, OutputOverflow};
use crate::policy::{Access, Missing, Network, NewSession, Origin, Protection};

fn toml(text: &str) -> Document {
    read(text.as_bytes(), "p.toml", None).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn json(text: &str) -> Document {
    read(text.as_bytes(), "p.json", None).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn fault(bytes: impl AsRef<[u8]>, name: &str) -> String {
    let error = read(bytes.as_ref(), name, None).expect_err("it was read");
    let text = format!("{error:#}");
    assert!(!text.contains('\n') && !text.ends_with('.') && text.starts_with("cannot use "), "{text}");
    text
}

fn paths(list: &[&str]) -> Vec<PathBuf> {
    list.iter().map(PathBuf::from).collect()
}

const EVERYTHING: &str = r#"
extends = ["rust"]
backend_type = "auto,none"
allow_gaps = ["sockets", "masks"]
read_roots = ["/r", "~/r", "r"]
read_roots_optional = ["/ro"]
write_roots = ["."]
write_roots_create = ["/wc"]
write_roots_optional = ["/wo"]
write_files = ["/f"]
create_missing = true
mask_paths = ["/m"]
protect_paths = [".git"]
allow_unix_socket_paths = ["/as"]
deny_unix_socket_paths = ["/ds"]
cwd_allow_hidden = [".git", ".venv"]
cwd_hidden_scan_max_entries = 7
cwd_hidden_scan_overflow = "warn"
cwd_hidden_scan_recursive = false
workdir = "sub"
tmp_size = "64M"
allow_network = true
env = ["A", "MY_*", "B=1"]
keep_fds = [3, 4]
keep_jobserver = true
new_session = "always"
timeout = "1.5h"
kill_after = "250ms"
memory = "512M"
cpu_time = "5m"
max_procs = 64
max_file_size = 0
max_open_files = 16
address_space = "4GiB"
core = 0
max_output = 1000
output_overflow = "kill"
spawn_env_allowlist = ["PATH"]
[env_set]
Z = "last = \"x\""
C = ""
"#;

#[test]
fn every_key_is_read() {
    let document = toml(EVERYTHING);
    assert_eq!(document.extends, ["rust"]);
    assert_eq!(document.backend_type, Some(vec![Backend::Bwrap, Backend::Namespace, Backend::Landlock, Backend::None]));
    assert_eq!(document.allow_gaps, [Protection::Masks, Protection::Sockets].into());
    assert_eq!(document.read_roots, paths(&["/r", "~/r", "r"]));
    assert_eq!(document.cwd_allow_hidden, Some(vec![".git".into(), ".venv".into()]));
    assert_eq!(document.tmp_size, Some(64 << 20));
    assert_eq!(document.kill_after, Some(Duration::from_millis(250)));
    assert_eq!((document.timeout, document.cpu_time), (Some(Duration::from_mins(90)), Some(300)));
    let policy = merge([document.layer(&Origin::Payload)]);
    let grants: Vec<_> =
        policy.files.grants.iter().map(|g| (g.path.to_str().unwrap(), g.access, g.missing, g.file_only)).collect();
    let expected = [
        ("/r", Access::Read, Missing::Refuse, false),
        ("~/r", Access::Read, Missing::Refuse, false),
        ("r", Access::Read, Missing::Refuse, false),
        ("/ro", Access::Read, Missing::Skip, false),
        (".", Access::Write, Missing::Create, false),
        ("/wc", Access::Write, Missing::Create, false),
        ("/wo", Access::Write, Missing::Skip, false),
        ("/f", Access::Write, Missing::Refuse, true),
    ];
    assert_eq!(grants, expected);
    assert_eq!(policy.hidden.overflow, Overflow::Warn);
    assert_eq!((policy.hidden.max_entries, policy.hidden.recursive), (7, false));
    assert_eq!((policy.network, policy.new_session), (Network::Host, NewSession::Always));
    assert!(policy.keep_jobserver && policy.keep_fds.keys().eq(&[3, 4]));
    let words: Vec<_> = ["PATH", "TEMP", "TEMPDIR", "TMP", "TMPDIR", "A", "MY_*", "B=1", "Z=last = \"x\"", "C="]
        .map(|word| EnvRule::parse(OsStr::new(word)).unwrap())
        .into();
    let read: Vec<_> = policy.env.rules.iter().map(|entry| entry.rule.clone()).collect();
    assert_eq!(read, words);
    assert!(policy.env.rules.iter().all(|entry| entry.origin == Origin::Payload));
    assert!(!policy.env.defaults);
    assert!(policy.origins.values().all(|origin| *origin == Origin::Payload));
    let limits = Limits {
        timeout: Some(Duration::from_mins(90)),
        memory: Some(512 << 20),
        cpu_time: Some(300),
        max_procs: Some(64),
        max_file_size: Some(0),
        max_open_files: Some(16),
        address_space: Some(4 << 30),
        core: Some(0),
        max_output: Some(1000),
        overflow: OutputOverflow::Kill,
    };
    assert_eq!(policy.limits, limits);
    assert_eq!(policy.origins.len(), 22, "{:?}", policy.origins);
}

#[test]
fn the_same_in_json() {
    let text = r#" {"extends":["rust"],"backend_type":"auto,none","allow_gaps":["sockets","masks"],"read_roots":["/r","~/r","r"],
        "read_roots_optional":["/ro"],"write_roots":["."],"write_roots_create":["/wc"],"write_roots_optional":["/wo"],"write_files":["/f"],
        "create_missing":true,"mask_paths":["/m"],"protect_paths":[".git"],"allow_unix_socket_paths":["/as"],
        "deny_unix_socket_paths":["/ds"],"cwd_allow_hidden":[".git",".venv"],"cwd_hidden_scan_max_entries":7,
        "cwd_hidden_scan_overflow":"warn","cwd_hidden_scan_recursive":false,"workdir":"sub","tmp_size":67108864,
        "allow_network":true,"env":["A","MY_*","B=1"],"keep_fds":[3,4],"keep_jobserver":true,"new_session":"always",
        "timeout":"90m","kill_after":"0.25s","memory":536870912,"cpu_time":"300s","max_procs":64,
        "max_file_size":0,"max_open_files":16,"address_space":"4G","core":0,"max_output":1000,"output_overflow":"kill","spawn_env_allowlist":["PATH"],"env_set":{"Z":"last = \"x\"","C":""}} "#;
    assert_eq!(json(text), toml(EVERYTHING));
}

/// The short form speaks of one list, of its own document.
#[test]
fn what_is_made_is_said_path_by_path_or_for_the_list() {
    let missing = |text: &str| {
        let policy = merge([toml(text).layer(&Origin::Payload), toml("write_roots = ['/x']").layer(&Origin::Payload)]);
        policy.files.grants.iter().map(|grant| grant.missing).collect::<Vec<_>>()
    };
    let lists = "write_roots = ['/a']\nwrite_roots_create = ['/b']\n";
    let (refuse, create) = (Missing::Refuse, Missing::Create);
    assert_eq!(missing(lists), [refuse, create, refuse]);
    assert_eq!(missing(&format!("{lists}create_missing = false")), [refuse, create, refuse]);
    assert_eq!(missing(&format!("{lists}create_missing = true")), [create, create, refuse]);
    assert_eq!(missing("create_missing = true"), [refuse]);
}

#[test]
fn an_empty_document_says_nothing() {
    assert_eq!(toml(""), Document::default());
    assert_eq!(toml("# only this\n"), Document::default());
    assert_eq!(json("{}"), Document::default());
    assert_eq!(merge([json("{}").layer(&Origin::Payload)]), merge([]));
}

#[test]
fn empty_lists_speak_where_absence_does() {
    let document = json(r#"{"cwd_allow_hidden":[],"spawn_env_allowlist":[]}"#);
    let policy = merge([document.layer(&Origin::Payload)]);
    assert_eq!(policy.hidden.shown, Shown::only([].into()));
    assert!(!policy.env.defaults && policy.env.rules.len() == 4);
    let all = merge([toml("cwd_allow_hidden = ['.a', '*']").layer(&Origin::Payload)]);
    assert_eq!(all.hidden.shown, Shown::All);
    let more = merge([toml("cwd_allow_hidden = ['.a', 'default']").layer(&Origin::Payload)]);
    let more = more.hidden.shown;
    assert_eq!(more, Shown::by_default().and(&[".a".into()].into()));
    let wide = merge([toml("cwd_allow_hidden = ['default', '.a', 'all-but-secrets']").layer(&Origin::Payload)]);
    assert_eq!(wide.hidden.shown, more.and(&["all-but-secrets".into()].into()));
}

#[test]
fn the_ending_or_the_first_character_decides_the_syntax() {
    let read = |text: &str, name| read(text.as_bytes(), name, None);
    assert!(read("{}", "p.json").is_ok() && read("", "p.toml").is_ok());
    assert!(read("{}", "p.toml").is_err() && read("", "p.json").is_err());
    assert!(read(" \n{}", "-").is_ok() && read("workdir = '/'", "-").is_ok());
    assert!(super::read(b"{}", "p.toml", Some(Format::Json)).is_ok());
    assert!(super::read(b"{}", "-", Some(Format::Toml)).is_err());
}

#[cfg(unix)]
#[test]
fn bytes_that_are_no_text_have_two_spellings() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    let odd = PathBuf::from(OsString::from_vec(b"/\xff\xc3\xa9".to_vec()));
    for text in [
        r#"{"workdir":"base64:L//DqQ=="}"#,
        r#"{"workdir":"/\udcff\u00e9"}"#,
        r#"{"workdir":"/\udcffé"}"#,
        r#"{"workdir":"/\uDCFF\udcc3\udca9"}"#,
    ] {
        assert_eq!(json(text).workdir.as_ref(), Some(&odd), "{text}");
    }
    assert_eq!(toml("workdir = 'base64:L//DqQ=='").workdir, Some(odd));
    assert_eq!(toml("workdir = 'base64:YmFzZTY0Ong='").workdir, Some("base64:x".into()));
    let value = json(r#"{"env_set":{"A":"\udc80"}}"#).env_set;
    assert_eq!(value, [(EnvName::parse("A").unwrap(), OsString::from_vec(vec![0x80]))]);
    assert_eq!(json(r#"{"workdir":"\/\ud83d\ude00\n\"\\"}"#).workdir, Some("/😀\n\"\\".into()));
}

/// The error begins with the place and text expected, or holds a text that begins with no place.
fn is_expected(text: &str, name: &str, expected: &str) -> bool {
    let found = fault(text, name);
    let placed = expected.starts_with(|c: char| c.is_ascii_digit());
    let right =
        if placed { found.starts_with(&format!("cannot use {name}:{expected}")) } else { found.contains(expected) };
    if !right {
        println!("{text}\n  found:    {found}\n  expected: {expected}");
    }
    right
}

#[test]
fn mistakes_in_toml_are_placed() {
    let mut right = true;
    for (text, expected) in [
        ("alow_network = true", "1:1: key 'alow_network' is unknown; did you mean 'allow_network'?"),
        ("\n\n  alowRead = ['/']", "3:3: key 'alowRead' is unknown; did you mean 'read_roots'?"),
        ("# é\nreadRoots = []", "2:1: key 'readRoots' is unknown; did you mean 'read_roots'?"),
        ("[network]\nallow = true", "1:2: key 'network' is unknown; did you mean 'allow_network'?"),
        ("zzz = 1", "1:1: key 'zzz' is unknown"),
        ("\"a\\nb\" = 1", "1:1: key that is no plain word is unknown"),
        ("read_roots = '/x'", "1:14: key 'read_roots': expected a list of paths, found a string"),
        ("read_roots = ['/x', 'é', 7]", "1:26: key 'read_roots': expected a path, found a number"),
        ("read_roots = [[]]", "1:15: key 'read_roots': expected a path, found a list"),
        ("read_roots = [\n  '',\n]", "2:3: key 'read_roots': expected a path, found an empty string"),
        ("workdir = \"a\\u0000b\"", "1:11: key 'workdir': the text holds a NUL"),
        ("workdir = 'base64:AA=='", "1:11: key 'workdir': the text holds a NUL"),
        ("workdir = 'base64:s3cret'", "1:11: key 'workdir': what follows 'base64:' is not base64 with its padding"),
        ("workdir = 'base64:'", "1:11: key 'workdir': expected a path, found an empty string"),
        ("allow_network = 'false'", "1:17: key 'allow_network': expected true or false, found a string"),
        ("allow_network = 0", "1:17: key 'allow_network': expected true or false, found a number"),
        ("workdir = '/a'\nworkdir = '/b'", "2:1: key 'workdir' appears twice"),
        ("[env_set]\nA='x'\nA='y'", "3:1: key 'A' appears twice"),
        ("env_set.A='x'\nenv_set.A='y'", "2:9: key 'A' appears twice"),
        (
            "kill_after = 2",
            "1:14: key 'kill_after': expected a duration with its unit, such as \"2s\" or \"250ms\", found a number",
        ),
        ("kill_after = '2'", "1:14: key 'kill_after': '2' has no unit (ms, s, m, h)"),
        (
            "kill_after = '2d'",
            "1:14: key 'kill_after': '2d' is not a duration (one number and one unit of ms, s, m, h)",
        ),
        ("tmp_size = '64'", "1:12: key 'tmp_size': '64' has no unit (K, M, G, T); bytes are written without quotes"),
        ("tmp_size = 64", "1:12: key 'tmp_size': 64 is less than one page (4K)"),
        (
            "tmp_size = 1e9",
            "1:12: key 'tmp_size': expected a size, such as \"64M\", or a number of bytes, found a fraction",
        ),
        ("tmp_size = -5", "1:12: key 'tmp_size': expected a size, found -5"),
        ("tmp_size = 2020-01-01", "found a date"),
        (
            "cwd_hidden_scan_max_entries = 0",
            "1:31: key 'cwd_hidden_scan_max_entries': expected a positive integer, found 0",
        ),
        ("cwd_hidden_scan_max_entries = -5", "expected a positive integer, found -5"),
        ("cwd_hidden_scan_max_entries = true", "expected a positive integer, found a boolean"),
        ("cwd_hidden_scan_max_entries = 99999999999999999999", "found a number of more than 64 bits"),
        ("cwd_hidden_scan_overflow = 'bogus'", "'bogus' is not one of error, warn, unlimited"),
        (
            "cwd_allow_hidden = ['a/b']",
            "1:21: key 'cwd_allow_hidden': 'a/b' is not the name of a file: a single part of a path",
        ),
        ("cwd_allow_hidden = ['..']", "'..' is not the name of a file"),
        ("new_session = 'maybe'", "'maybe' is not one of auto, always, never"),
        (
            "backend_type = 'bwrap,,none'",
            "1:16: key 'backend_type': '' is not one of auto, bwrap, namespace, landlock, seatbelt, container, jobobject, none",
        ),
        ("backend_type = ['bwrap']", "expected a list of backends in one string, separated by commas, found a list"),
        ("allow_gaps = ['net']", "'net' is not one of files-read, files-write, masks, network"),
        ("keep_fds = [2]", "1:13: key 'keep_fds': 2 always crosses, only numbers from 3 are named"),
        ("keep_fds = [2147483648]", "is not the number of a descriptor"),
        ("env = ['1A']", "1:8: key 'env': cannot use '1A' for the environment: a name consists of ASCII letters"),
        ("env = ['SANDBOX_RUN_X']", "internal"),
        ("spawn_env_allowlist = ['A*']", "1:24: key 'spawn_env_allowlist': 'A*' cannot be a variable"),
        ("env_set = 'A=1'", "1:11: key 'env_set': expected a table of values by variable, found a string"),
        ("env_set.1A = 'x'", "1:9: key 'env_set': '1A' cannot be a variable"),
        ("[env_set]\nA = 1", "2:5: key 'env_set.A': expected the value of a variable, a string, found a number"),
        (
            "[env_set]\nA = 'x'\nworkdir = '/'",
            "3:1: key 'workdir' stands in the section [env_set]: move it above, or write 'env_set.workdir'",
        ),
        (
            "env_default = true\nspawn_env_allowlist = []",
            "1:15: key 'env_default' cannot be true: 'spawn_env_allowlist' lets nothing else pass",
        ),
        ("[ \"env_set\" ] # x\nworkdir = '/'", "2:1: key 'workdir' stands in the section [env_set]"),
        ("[[env_set]]\nworkdir = '/'", "expected a table of values by variable, found a list"),
        ("workdir = '/x' y", "1:16: the file is not TOML: "),
        ("workdir = ", "1:"),
        ("[[read_roots]]\nx = 1", "found a table"),
    ] {
        right &= is_expected(text, "dir/p.toml", expected);
    }
    assert!(right);
    // A variable may have the name of a key where nobody can mean the key.
    assert_eq!(
        toml("env_set.workdir = 'x'").env_set.len() + toml("env_set = { env = '', workdir = 'x' }").env_set.len(),
        3
    );
}

#[test]
fn mistakes_in_limits_are_placed() {
    let mut right = true;
    for (text, expected) in [
        (
            "timeout = 15.0",
            "1:11: key 'timeout': expected a duration with its unit, such as \"2s\" or \"250ms\", found a fraction",
        ),
        ("timeout = '-1s'", "1:11: key 'timeout': '-1s' is not a duration"),
        ("timeout = '5'", "1:11: key 'timeout': '5' has no unit (ms, s, m, h)"),
        ("memory = 512", "1:10: key 'memory': 512 is less than 16M, the least that a sandbox starts in"),
        ("memory = '16383K'", "1:10: key 'memory': '16383K' is less than 16M, the least that a sandbox starts in"),
        ("memory = '512'", "'512' has no unit (K, M, G, T); bytes are written without quotes"),
        (
            "memory = '1.5G'",
            "1:10: key 'memory': '1.5G' is not a size (a whole number with K, M, G, T, KiB, MiB, GiB, TiB)",
        ),
        ("address_space = '1M'", "'1M' is less than 16M, the least that a program can be loaded in"),
        (
            "cpu_time = 30",
            "1:12: key 'cpu_time': expected a duration of whole seconds with its unit, such as \"30s\" or \"5m\", found a number",
        ),
        (
            "cpu_time = '0.5s'",
            "1:12: key 'cpu_time': '0.5s' is not a whole number of seconds, in which processor time is counted",
        ),
        ("cpu_time = '0s'", "1:12: key 'cpu_time': '0s' is less than one second"),
        ("max_procs = 0", "1:13: key 'max_procs': 0 is less than 1, the command itself"),
        ("max_procs = '64'", "1:13: key 'max_procs': expected a positive integer, found a string"),
        ("max_procs = -1", "expected a positive integer, found -1"),
        (
            "max_open_files = 15",
            "1:18: key 'max_open_files': 15 is less than 16, the fewest that a program can be started with",
        ),
        ("max_file_size = -1", "1:17: key 'max_file_size': expected a size, found -1"),
        ("core = false", "1:8: key 'core': expected a size, such as \"64M\", or a number of bytes, found a boolean"),
        ("max_output = '16777216T'", "1:14: key 'max_output': '16777216T' is more than 63 bits of bytes"),
        ("tmp_size = '16777215T'", "1:12: key 'tmp_size': '16777215T' is more than 63 bits of bytes"),
        ("output_overflow = 'drop'", "1:19: key 'output_overflow': 'drop' is not one of truncate, kill"),
        ("max_memory = 1", "1:1: key 'max_memory' is unknown; did you mean 'memory'?"),
    ] {
        right &= is_expected(text, "dir/p.toml", expected);
    }
    assert!(right);
}

#[test]
fn mistakes_in_json_are_placed() {
    let mut right = true;
    for (text, expected) in [
        ("{\n  \"alow_network\": true}", "2:3: key 'alow_network' is unknown; did you mean 'allow_network'?"),
        ("{\"é\\u00e9\": true}", "1:2: key 'éé' is unknown"),
        ("{\"read_roots\": \"/x\"}", "1:16: key 'read_roots': expected a list of paths, found a string"),
        ("{\"read_roots\": [\"é\", null]}", "1:22: key 'read_roots': expected a path, found null"),
        ("{\"read_roots\": null}", "1:16: key 'read_roots': expected a list of paths, found null"),
        ("{\"workdir\": null}", "1:13: key 'workdir': expected a path, found null"),
        ("{\"workdir\": {}}", "1:13: key 'workdir': expected a path, found a table"),
        ("{\"workdir\":\"/\",\n\"workdir\":\"/\"}", "2:1: key 'workdir' appears twice"),
        ("{\"workdir\":\"/\",\"work\\u0064ir\":\"/\"}", "1:16: key 'workdir' appears twice"),
        ("{\"env_set\":{\"A\":\"x\",\"A\":\"x\"}}", "1:21: key 'A' appears twice"),
        (
            "{\"env_set\":{\"A\":7}}",
            "1:17: key 'env_set.A': expected the value of a variable, a string, found a number",
        ),
        ("{\"tmp_size\": 4096.0}", "found a fraction"),
        ("{\"tmp_size\": 1e9}", "found a fraction"),
        ("{\"core\": 9223372036854775808}", "1:10: key 'core': 9223372036854775808 is more than 63 bits of bytes"),
        ("{\"tmp_size\": NaN}", "1:14: the file is not JSON: expected value"),
        ("{\"tmp_size\": Infinity}", "1:14: the file is not JSON: expected value"),
        ("{\"tmp_size\": 007}", "the file is not JSON: invalid number"),
        ("{} {}", "1:4: the file is not JSON: trailing characters"),
        ("{\"workdir\":\"/\",}", "1:16: the file is not JSON: key must be a string"),
        ("{\n\"workdir\"", "the file is not JSON: eof while parsing an object"),
        ("[]", "1:1: expected a table of settings ('{')"),
        ("null", "1:1: expected a table of settings ('{')"),
        ("", "1:1: the file is not JSON: eof while parsing a value"),
        ("{\"workdir\":\"a\\u0000\"}", "1:12: key 'workdir': the text holds a NUL"),
        ("{\"workdir\":\"a\\ud800\"}", "1:12: the text holds half a surrogate pair"),
        ("{\"workdir\":\"a\\udc7f\"}", "1:12: the text holds half a surrogate pair"),
        ("{\"workdir\":\"a\\ud83d\\udcffx\\ud83d\"}", "1:12: the text holds half a surrogate pair"),
        ("{\"\\udc80\":1}", "1:2: the key is not Unicode"),
    ] {
        right &= is_expected(text, "p.json", expected);
    }
    assert!(right);
}

#[test]
fn bytes_that_are_no_file_are_refused() {
    for name in ["p.json", "p.toml"] {
        assert_eq!(
            fault(b"\xef\xbb\xbf{}", name),
            format!("cannot use {name}:1:1: the file begins with a byte order mark")
        );
        assert_eq!(fault(b"{}\n# \xc3\xa9 \xff", name), format!("cannot use {name}:2:5: the file is not UTF-8"));
        let mut large = b"{}".to_vec();
        large.resize(MAX_SIZE + 1, b' ');
        assert!(fault(&large, name).ends_with("the file is longer than 1048576 bytes"));
        let deep = ["[", "{\"a\":", "read_roots=[", "read_roots={a="];
        for open in deep {
            let text = fault(open.repeat(50_000), name);
            assert!(text.len() < 200, "{text}");
        }
    }
    let list = format!("{{\"read_roots\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(fault(list, "p.json").ends_with("1:16: key 'read_roots': expected a path, found a list"));
    let mut fits = b"{}".to_vec();
    fits.resize(MAX_SIZE, b' ');
    assert!(read(&fits, "p.json", None).is_ok());
}

/// A slip in a key must never be read as silence.
#[test]
fn a_key_with_one_wrong_character_is_refused() {
    let keys = fields::FIELDS.map(|field| field.key);
    let mut tried = 0;
    for key in keys {
        let mut slips = vec![key.to_uppercase(), key.replace('_', "-"), format!(" {key}"), format!("{key} ")];
        for at in 0..key.len() {
            let (before, after) = key.split_at(at);
            slips.push([before, &after[1..]].concat());
            slips.extend(["x", "_", "s", "-", "\u{430}"].map(|char| [before, char, &after[1..]].concat()));
            slips.extend(["x", "_", "\u{200b}"].map(|char| [before, char, after].concat()));
        }
        for slip in slips.iter().filter(|slip| !keys.contains(&slip.as_str())) {
            tried += 1;
            let found = match tried % 2 {
                0 => fault(format!("{{\"{slip}\":[]}}"), "p.json"),
                _ => fault(format!("\"{slip}\" = []"), "p.toml"),
            };
            assert!(found.contains(" is unknown"), "{slip}: {found}");
        }
    }
    assert!(tried > 3000, "{tried}");
}

/// However many keys there are and however long they are, a file of the greatest size costs no time.
#[test]
fn size_costs_no_time() {
    let start = std::time::Instant::now();
    let names: Vec<_> = (0..50_000).map(|number| format!("\"V{number}\":\"x\"")).collect();
    assert_eq!(json(&format!("{{\"env_set\":{{{}}}}}", names.join(","))).env_set.len(), 50_000);
    let names: Vec<_> = (0..40_000).map(|number| format!("env_set.V{number}='x'")).collect();
    assert_eq!(toml(&names.join("\n")).env_set.len(), 40_000);
    let long = "k".repeat(1_000_000);
    fault(format!("{{\"{long}\":1}}"), "p.json");
    fault(format!("{long} = 1"), "p.toml");
    fault(format!("{{\"workdir\":\"{}\\ud800\"}}", "\\\\".repeat(500_000)), "p.json");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn no_error_repeats_the_value_of_a_variable() {
    for text in [
        "env_set.A = \"hunter2\\u0000\"",
        "env_set.A = ['hunter2']",
        "env_set.A = 'base64:hunter2-'",
        "env = ['A-B=hunter2']",
        "env = ['=hunter2']",
        "env = [\"A=hunter2\\u0000\"]",
        "env = ['base64:hunter2-']",
        "env_set = 'hunter2'",
        "[env_set]\nA = 'hunter2",
        "[env_set]\nA = hunter2",
        "[env_set]\nA = \"\"\"hunter2\n",
        "[env_set]\nA = 'x' hunter2",
        "[env_set]\nA = \"hunter2\\q\"",
    ] {
        let found = fault(text, "p.toml");
        assert!(!found.contains("hunter2"), "{found}");
    }
    for text in [
        r#"{"env_set":{"A":"hunter2\u0000"}}"#,
        r#"{"env_set":{"A":"hunter2\ud800"}}"#,
        r#"{"env_set":{"A":["hunter2"]}}"#,
        r#"{"env_set":"hunter2"}"#,
        r#"{"env_set":{"A":hunter2}}"#,
        r#"{"env_set":{"A":"hunter2\q"}}"#,
        r#"{"env_set":{"A":"hunter2"#,
        r#"{"env":["A B=hunter2"]}"#,
    ] {
        let found = fault(text, "p.json");
        assert!(!found.contains("hunter2"), "{found}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for format in [Format::Toml, Format::Json] {
            prop_assert!(read(&bytes, "f", Some(format)).map_err(|error| error.to_string().starts_with("cannot use f:")) != Err(false));
        }
    }

    /// Any byte of a good file changed, or the file cut.
    #[test]
    fn a_refusal_of_a_damaged_file_has_its_place(at in 0..EVERYTHING.len(), byte in any::<u8>(), cut in any::<bool>()) {
        let mut bytes = EVERYTHING.as_bytes().to_vec();
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        if let Err(error) = read(&bytes, "f", Some(Format::Toml)) {
            prop_assert!(error.to_string().starts_with("cannot use f:"), "{}", error);
        }
    }
}
