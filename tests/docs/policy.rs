//! The manual page and the schema of policy files say what the table of keys says.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use sandbox_run::backend::Backend;
use sandbox_run::config::document::Document;
use sandbox_run::config::fields::{FIELDS, Field, Kind};
use sandbox_run::config::{file, merge, payload};
use sandbox_run::plan::base::SECRETS;
use sandbox_run::policy::Origin;
use sandbox_run::policy::hidden::DEFAULT_SHOWN;
use sandbox_run::policy::units::Size;
use serde_json::{Value, json};

use super::{committed, plain, sound};
use crate::harness::{World, about_bwrap};
use crate::wire::{Record, vector};

const PAGE: &str = "man/sandbox-run.5";
const SCHEMA: &str = "docs/policy.schema.json";

/// A policy file as small as a useful one can be.
const EXAMPLE: &str = "\
read_roots = [\"~/.cargo/registry\"]
write_roots = [\".\"]
mask_paths = [\".env\"]
env = [\"CI\", \"CARGO_*\"]
kill_after = \"5s\"
";

const DESCRIPTION: &[&str] = &[
    "A policy file says what a command may do inside the sandbox: sandbox-run --policy FILE. A profile is the same under a \
     name: sandbox-run --profile NAME. Both are TOML, or, for --policy, JSON: a name that ends in .json or .toml decides, \
     otherwise a file that begins with '{' is JSON. JSON may name its schema for editors in the key $schema, TOML in a comment, '#:schema \
     PLACE'; nothing else is done with either. Every key is optional. All keys stand at the top; env_set alone is a table.",
    "A policy file is read once, to its end. It can be a FIFO, such as the '<(command)' of a shell, and a FIFO that nobody has \
     opened for writing is waited for. A profile is a regular file.",
    "Reading is strict. An unknown key, one that appears twice, a value of the wrong type, a duration without its unit, a byte \
     order mark, text that is not UTF-8, a NUL, and a file of more than 1 MiB are errors that name file, line and column; \
     nothing is started then, and the status is 125.",
    "Sources are laid over one another: defaults, profiles in their order, the policy file or payload, options. Of a single \
     setting the highest source counts, lists add up. No source takes away a mask, a protected path or a denied socket of \
     another.",
    "Paths are resolved as those of options are: relative ones and '..' once against the working directory, '~' at the start \
     is the home directory, '$NAME' is not expanded. A path or value that is not UTF-8, or that begins with 'base64:', is \
     written as 'base64:' and its bytes in standard base64 with padding; JSON also takes the escapes \\udc80 to \\udcff for \
     the bytes 0x80 to 0xff. Nothing in a path is a pattern: '*', '?' and '[' are expanded by no key, and a warning tells of \
     a path with one of them that does not exist. '..' below a directory that does \
     not exist is an error.",
    "A path of mask_paths, protect_paths or deny_unix_socket_paths that does not exist is noted only with -v: nothing is there to \
     hide, and nothing that comes there later is hidden.",
    "--print-policy writes the policy of a whole command line in this form, with the source of each setting as a comment. Of that \
     file is portable, to other directories, users and machines, what is written so: paths that begin with '~/' or are relative \
     stand as they were typed, limits, hidden names and variables say the same everywhere. Not portable are absolute paths, \
     those that a profile takes from a variable of the caller among them; extends, in whose place stands what the profiles \
     said at that time; backend_type, which is what auto stood for; env_set, which holds values, secrets too; and keep_fds, \
     numbers of the caller. A payload has absolute paths only.",
];

/// Options that decide about the policy, each as it is typed, the key that says the same, and what that key is then.
const OPTIONS: &[(&str, &[&str], &str, &str)] = &[
    ("--backend LIST", &["--backend", "bwrap,none"], "backend_type", r#""bwrap,none""#),
    ("--image NAME", &["--image", "debian:12"], "image", r#""debian:12""#),
    ("--allow-gap LIST", &["--allow-gap", "sockets"], "allow_gaps", r#"["sockets"]"#),
    ("--profile NAME", &[], "extends", ""),
    ("--read PATH", &["--read", "/usr"], "read_roots", r#"["/usr"]"#),
    ("--read-try PATH", &["--read-try", "/nope"], "read_roots_optional", r#"["/nope"]"#),
    ("--write PATH", &["--write", "/nope"], "write_roots", r#"["/nope"]"#),
    ("--create-missing", &["--write", "/nope", "--create-missing"], "write_roots_create", r#"["/nope"]"#),
    ("--write-try PATH", &["--write-try", "/nope"], "write_roots_optional", r#"["/nope"]"#),
    ("--mask PATH", &["--mask", "/nope"], "mask_paths", r#"["/nope"]"#),
    ("--protect PATH", &["--protect", "/nope"], "protect_paths", r#"["/nope"]"#),
    ("--show-hidden NAME", &["--show-hidden", ".x"], "cwd_allow_hidden", r#"["default",".x"]"#),
    ("--hidden-scan-max N", &["--hidden-scan-max", "9"], "cwd_hidden_scan_max_entries", "9"),
    ("--hidden-scan-overflow WHAT", &["--hidden-scan-overflow", "warn"], "cwd_hidden_scan_overflow", r#""warn""#),
    ("--workdir DIR", &["--workdir", "/"], "workdir", r#""/""#),
    ("--tmp-size SIZE", &["--tmp-size", "64M"], "tmp_size", r#""64M""#),
    ("--net off|host", &["--net", "host"], "allow_network", "true"),
    ("--allow-host RULE", &["--allow-host", "ok.test"], "allow_hosts", r#"["ok.test"]"#),
    (
        "--credential SPEC",
        &["--credential", "type=https_bearer,host=ok.test,env=T"],
        "credentials",
        r#"["type=https_bearer,host=ok.test,env=T"]"#,
    ),
    (
        "--upstream-proxy URL",
        &["--upstream-proxy", "http://proxy.test:3128"],
        "upstream_proxy",
        r#""http://proxy.test:3128""#,
    ),
    ("--egress-socket PATH", &["--egress-socket", "/nope"], "egress_socket_path", r#""/nope""#),
    ("--egress-port N", &["--egress-port", "8080"], "egress_relay_port", "8080"),
    ("--deny-socket PATH", &["--deny-socket", "/nope"], "deny_unix_socket_paths", r#"["/nope"]"#),
    ("--allow-socket PATH", &["--allow-socket", "/nope"], "allow_unix_socket_paths", r#"["/nope"]"#),
    ("--env NAME", &["--env", "NAME"], "env", r#"["NAME"]"#),
    ("--env 'PREFIX_*'", &["--env", "PREFIX_*"], "env", r#"["PREFIX_*"]"#),
    ("--env NAME=VALUE", &["--env", "A", "--env", "NAME=VALUE"], "env_set", r#"{"NAME":"VALUE"}"#),
    (" before a NAME or PREFIX_*", &["--env", "NAME=VALUE", "--env", "A"], "env", r#"["NAME=VALUE","A"]"#),
    ("--env-file FILE, of NAME", &["--env-file", "words"], "env", r#"["FROM_FILE"]"#),
    ("--env-file FILE, of NAME=VALUE", &["--env-file", "values"], "env_set", r#"{"FROM_FILE":"1"}"#),
    ("--no-default-env", &["--no-default-env"], "env_default", "false"),
    ("--keep-fd N", &["--keep-fd", "5"], "keep_fds", "[5]"),
    ("--keep-jobserver", &["--keep-jobserver"], "keep_jobserver", "true"),
    ("--new-session WHEN", &["--new-session", "always"], "new_session", r#""always""#),
    ("--timeout DUR", &["--timeout", "1.5"], "timeout", r#""1.5s""#),
    ("--kill-after DUR", &["--kill-after", "5s"], "kill_after", r#""5s""#),
    ("--memory SIZE", &["--memory", "64M"], "memory", r#""64M""#),
    ("--cpu-time DUR", &["--cpu-time", "5m"], "cpu_time", r#""300s""#),
    ("--max-procs N", &["--max-procs", "50"], "max_procs", "50"),
    ("--max-file-size SIZE", &["--max-file-size", "1M"], "max_file_size", r#""1M""#),
    ("--max-open-files N", &["--max-open-files", "64"], "max_open_files", "64"),
    ("--address-space SIZE", &["--address-space", "1G"], "address_space", r#""1G""#),
    ("--core SIZE", &["--core", "0"], "core", "0"),
    ("--max-output SIZE", &["--max-output", "1M"], "max_output", r#""1M""#),
    ("--output-overflow WHAT", &["--output-overflow", "kill"], "output_overflow", r#""kill""#),
];

/// What happens to names that begin with a dot.
const HIDDEN_ABOUT: &[&str] = &[
    "Below the working directory and every directory that is granted, at any depth, a name that begins with a dot is hidden, \
     unless it is on the list of cwd_allow_hidden. In its place stands an empty file or directory that cannot be written. A \
     grant of the place itself shows it, and the command and its interpreter are shown by the file alone. What the command \
     makes is visible to it and hidden in the next run, unless its name is shown: for tools that keep state in names that nobody \
     knows there is \"all-but-secrets\".",
    "The search for such names ends after cwd_hidden_scan_max_entries. But for a list that counts alone, in the \
     directories in HOME where toolchains keep what they have fetched only well-known secrets and repositories are looked for, as many \
     entries once more where only reading is granted, unless a wider write grant reaches them. Of a grant of / the working directory is \
     searched like that; of the rest of the host 50,000 entries or a tenth of that number, if that is more, nearest first, and there only well-known \
     secrets are hidden. A directory that cannot be searched is hidden as a whole. Backend none hides nothing.",
    "In write grants the .git directories that are found stay usable, but what git runs or obeys cannot be written: hooks, config, \
     config.worktree, info/attributes, and remotes and branches, in submodules, in repositories without a work tree and in the common directory of a \
     worktree as well, and no .git can be replaced. The same holds for directories and files that core.hooksPath and \
     include.path name, not for programs and scripts that settings start (core.fsmonitor, filters). Where the command makes \
     what is missing of these, or a commondir, it is renamed after the run, with a warning: look at it before git does. The data of a \
     linked worktree or submodule is granted along with it, if the repository itself says that it belongs there. A write grant \
     of such a file or directory itself lifts that for it.",
    "Below a wider write grant the file of --policy and the user's own profiles cannot be written either: $XDG_CONFIG_HOME/sandbox-run, or the same in \
     ~/.config, is protected, and renamed after the run, with a warning, where the command has made it.",
];

/// Well-known secrets by what they are.
fn secrets() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (place, what) in SECRETS {
        all.entry(*what).or_default().push(*place);
    }
    all
}

/// Options that no key has a part in: they name sources, or something else than a policy.
const NO_KEY: &[&str] = &[
    "--policy",
    "--policy-payload",
    "--policy-fd",
    "--print-policy",
    "--check",
    "--json",
    "--result",
    "--result-fd",
    "--capture",
    "--audit-log",
    "--net-log",
    "--dry-run",
    "--explain",
    "--trace",
    "--verbose",
    "--quiet",
    "--log-format",
    "--completions",
    "--help",
    "--version",
];

/// Keys that no option has.
const NO_OPTION: &[&str] = &["write_files", "create_missing", "cwd_hidden_scan_recursive", "spawn_env_allowlist"];

const RECORD_ABOUT: &str = "A payload (--policy-payload, --policy-fd, or a file named by --policy) is a JSON object in base64url, \
     padding optional. A record has 14 keys; 16 with the two marked 16; 19 with the three marked 19 as well. Each key of its set \
     must be there, paths are absolute, without '..' and '~', and their bytes that are no UTF-8 are the escapes \\udc80 to \\udcff. \
     null is taken only where it is spoken of.";

/// The keys of a wire record.
const RECORD: &[(&str, &str)] = &[
    ("active", "Whether there is a sandbox; false exactly with the backend_type none."),
    ("allow_network", "As the key of policy files, but true or false must be said."),
    ("backend_type", "linux_bwrap or none. Those of other platforms are refused."),
    ("copy_on_write_namespace", "(19) Must be null: copy-on-write is not available."),
    ("copy_on_write_roots", "(19) Must be the empty list: copy-on-write is not available."),
    ("credential_source_paths", "(19) Hidden like mask_paths; null means none."),
    (
        "cwd_allow_hidden",
        "Names that stay visible, as the key of policy files; one that begins with no dot is taken and without effect. null \
         means a fixed list of what tools need and what holds no secret by custom, not all names.",
    ),
    ("cwd_hidden_scan_max_entries", "As the key of policy files."),
    ("cwd_hidden_scan_overflow", "As the key of policy files."),
    ("cwd_hidden_scan_recursive", "(16) As the key of policy files; a record of 14 keys means true."),
    ("deny_unix_socket_paths", "As the key of policy files; null means none."),
    ("egress_relay_port", "Must be null: filtered egress is not available."),
    ("egress_socket_path", "Must be null: filtered egress is not available."),
    (
        "env_passthrough",
        "Names for the process that asks for the sandbox; checked, and without effect. null means none.",
    ),
    ("mask_paths", "(16) As the key of policy files; null means none."),
    ("read_roots", "As the key of policy files; null means none, like the empty list."),
    (
        "spawn_env_allowlist",
        "As the key of policy files; null means the default list of variables, with a warning, and the empty list none.",
    ),
    ("write_files", "As the key of policy files."),
    ("write_roots", "As the key of policy files; what is missing is an error."),
];

const FILES: &[(&str, &str)] = &[(
    "$XDG_CONFIG_HOME/sandbox-run/profiles/NAME.toml",
    "The user's profiles; ~/.config stands for an unset variable.",
)];

fn page() -> Result<Vec<u8>> {
    let mut roff = Roff::new();
    let source = format!("sandbox-run {}", env!("CARGO_PKG_VERSION"));
    roff.control("TH", ["SANDBOX-RUN", "5", "\"\"", &source, "File Formats"]);
    // Names are typed as they stand.
    roff.control("nh", []);
    roff.control("SH", ["NAME"]).text([roman("sandbox-run - policy files and profiles")]);
    roff.control("SH", ["DESCRIPTION"]);
    for (at, paragraph) in DESCRIPTION.iter().enumerate() {
        if at > 0 {
            roff.control("PP", []);
        }
        roff.text([roman(*paragraph)]);
    }
    roff.control("SH", ["KEYS"]);
    for field in &FIELDS {
        entry(&mut roff, field);
    }
    roff.control("SH", ["OPTIONS AND KEYS"]);
    roff.text([roman("What each option of the command line is in a policy file:")]);
    roff.control("PP", []).control("EX", []);
    for (option, _, key, _) in OPTIONS {
        roff.text([roman(format!("{option:<32}{key}"))]);
    }
    roff.control("EE", []);
    roff.control("PP", []).text([roman(format!("No option has the keys {}.", NO_OPTION.join(", ")))]);
    let sources = "These options name sources, or say what one call prints or reports, and have no key:";
    roff.control("PP", []).text([roman(format!("{sources} {}.", NO_KEY.join(", ")))]);
    roff.control("SH", ["WIRE RECORD"]).text([roman(RECORD_ABOUT)]);
    for (key, about) in RECORD {
        roff.control("TP", []).text([bold(*key)]).text([roman(*about)]);
    }
    roff.control("SH", ["HIDDEN NAMES"]);
    for paragraph in HIDDEN_ABOUT {
        roff.control("PP", []).text([roman(*paragraph)]);
    }
    roff.control("PP", []).text([roman("The default list; * stands for any text:")]);
    for (reason, names) in DEFAULT_SHOWN {
        roff.control("TP", []).text([roman(*reason)]).text([roman(names.join(", "))]);
    }
    roff.control("PP", []).text([roman(
        "Well-known secrets, hidden also below the names above; with ./ in front, unless git has the very content:",
    )]);
    for (what, places) in secrets() {
        roff.control("TP", []).text([roman(what)]).text([roman(places.join(", "))]);
    }
    roff.control("SH", ["EXAMPLE"]);
    roff.text([roman("A command that may write its working directory, but for one file:")]);
    roff.control("PP", []).control("EX", []);
    for line in EXAMPLE.lines() {
        roff.text([roman(line)]);
    }
    roff.control("EE", []);
    roff.control("SH", ["FILES"]);
    for (path, what) in FILES {
        roff.control("TP", []).text([italic(*path)]).text([roman(*what)]);
    }
    roff.control("SH", ["SEE ALSO"]).text([bold("sandbox-run"), roman("(1)")]);
    let mut page = Vec::new();
    roff.to_writer(&mut page)?;
    Ok(page)
}

fn entry(roff: &mut Roff, field: &Field) {
    roff.control("TP", []).text([bold(field.key), roman(format!(": {}", field.kind.phrase()))]);
    roff.text([roman(field.about)]);
    let words = field.kind.words();
    if !words.is_empty() {
        labelled(roff, "Words", &words.join(", "));
    }
    labelled(roff, "Default", field.default);
    if !field.unit.is_empty() {
        labelled(roff, "Unit", field.unit);
    }
    for backend in Backend::ALL {
        labelled(roff, &format!("Backend {backend}"), field.does(backend).trim_end_matches('.'));
    }
}

fn labelled(roff: &mut Roff, label: &str, text: &str) {
    let line: [Inline; 2] = [italic(format!("{label}:")), roman(format!(" {text}."))];
    roff.control("br", []).text(line);
}

pub fn schema() -> Value {
    let mut properties: serde_json::Map<_, _> =
        FIELDS.iter().map(|field| (field.key.to_owned(), property(field))).collect();
    let about = "The place of this schema, for editors; nothing else is done with it. TOML says it in a comment, #:schema PLACE.";
    properties.insert("$schema".into(), json!({ "type": "string", "description": about }));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Policy file of sandbox-run",
        "description": "What a command may do inside the sandbox; see sandbox-run(5).",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    })
}

/// A whole number with a unit, of no more than 63 bits of bytes as far as its digits can tell.
const SIZE: &str = "^0*([0-9]{1,16}K|[0-9]{1,13}M|[0-9]{1,10}G|[0-9]{1,7}T)(iB)?$";

/// What comes to whole seconds: 0.05 minutes and 0.0025 hours are the least.
const WHOLE_SECONDS: &str = "^([0-9]*000([.]0+)?ms|[0-9]+s|[0-9]*[.]0+s|[0-9]+m|[0-9]*[.][0-9]([05]0*)?m|[0-9]+h|\
    [0-9]*[.]([0-9]{1,2}|[0-9]{2}(0|25|5|75)0*)h)$";

/// Other words for backends.
const BACKEND_ALIASES: &[&str] = &[
    "bubblewrap",
    "linux_bwrap",
    "sandbox-exec",
    "sandbox_exec",
    "darwin_seatbelt",
    "podman",
    "docker",
    "windows_jobobject",
    "native",
    "direct",
];

fn property(field: &Field) -> Value {
    let name = "[A-Za-z_][A-Za-z0-9_]*";
    let text = || json!({ "type": "string", "pattern": "^[^\\u0000]+$" });
    let internal = json!({ "pattern": "^SANDBOX_RUN_" });
    let list = |items: Value| json!({ "type": "array", "items": items });
    let words = field.kind.words();
    let mut value = match field.kind {
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Port => json!({ "type": "integer", "minimum": 1, "maximum": u16::MAX }),
        Kind::Count(least) => json!({ "type": "integer", "minimum": least, "maximum": u64::MAX }),
        Kind::Size(least) => json!({ "oneOf": [
            { "type": "integer", "minimum": least, "maximum": Size::MAX.bytes() },
            { "type": "string", "pattern": SIZE },
        ] }),
        Kind::Duration => json!({ "type": "string", "pattern": "^([0-9]+|[0-9]*[.][0-9]+)(ms|s|m|h)$" }),
        Kind::Seconds => json!({ "type": "string", "pattern": WHOLE_SECONDS, "not": { "pattern": "^[0.]*[a-z]+$" } }),
        Kind::Path => text(),
        Kind::Image => json!({ "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._/:@+-]*$" }),
        Kind::Upstream => {
            json!({ "type": "string", "pattern": "^([Hh][Tt][Tt][Pp]://[^/?#\\s]+:[0-9]+/?|env=[A-Za-z_][A-Za-z0-9_]*|file=[^\\u0000]+)$" })
        }
        Kind::Paths => list(text()),
        Kind::Credentials => {
            list(json!({ "type": "string", "pattern": "^[a-z]+=[^,\\u0000]+(,[a-z]+=[^,\\u0000]+)*$" }))
        }
        Kind::HostRules => list(json!({ "type": "string", "pattern": "^!?([*A-Za-z,]+[ \\t]+)?[^ \\t\\u0000@?#]+$" })),
        Kind::Profiles => list(json!({ "type": "string", "pattern": "^[a-z0-9][a-z0-9._-]*$" })),
        Kind::VariableNames => list(json!({ "type": "string", "pattern": format!("^{name}$"), "not": internal })),
        Kind::HiddenNames => list(json!({
            "type": "string",
            "pattern": "^([*]|default|all-but-secrets|[.]([^./\\u0000][^/\\u0000]*|[.][^/\\u0000]+)|base64:[A-Za-z0-9+/]+=*)$",
        })),
        Kind::Variables => list(json!({
            "type": "string",
            "pattern": format!("^({name}|{name}_[*]|{name}=[^\\u0000]*|base64:[A-Za-z0-9+/]+=*)$"),
            "not": { "pattern": "^SANDBOX_(RUN_|[*])" },
        })),
        Kind::Values => json!({
            "type": "object",
            "propertyNames": { "pattern": format!("^{name}$"), "not": internal },
            "additionalProperties": { "type": "string", "pattern": "^[^\\u0000]*$" },
        }),
        Kind::Descriptors => list(json!({ "type": "integer", "minimum": 3, "maximum": i32::MAX })),
        Kind::Backends => {
            let words = [&words[..], BACKEND_ALIASES].concat().join("|");
            json!({ "type": "string", "pattern": format!("^({words})(,({words}))*$") })
        }
        Kind::Protections => list(json!({ "enum": words })),
        Kind::Overflow | Kind::OutputOverflow | Kind::Session => json!({ "enum": words }),
    };
    let unit = if field.unit.is_empty() { String::new() } else { format!(" Unit: {}.", field.unit) };
    value["description"] = format!("{} Default: {}.{unit}", field.about, field.default).into();
    value
}

/// `[^]` is any character in JavaScript and a mistake elsewhere.
#[test]
fn the_patterns_mean_the_same_in_every_language() {
    fn check(value: &Value) {
        match value {
            Value::Object(members) => {
                let pattern = members.get("pattern").and_then(Value::as_str).unwrap_or_default();
                assert!(!["[^]", "[]", "(?"].iter().any(|only| pattern.contains(only)), "{pattern}");
                members.values().for_each(check);
            }
            Value::Array(items) => items.iter().for_each(check),
            _ => {}
        }
    }
    check(&schema());
    let python = "import json, re, sys\n\
        items = json.load(open(sys.argv[1]))['properties']['env']['items']\n\
        known = re.compile(items['pattern'])\n\
        assert all(known.search(word) for word in ['A', 'A_*', 'A=', 'A=x\\ny=z', 'base64:QT0='])\n\
        assert not any(known.search(word) for word in ['', '1A', 'A*', '=x', 'A b'])\n";
    let world = World::new();
    let file = world.write("w/schema.json", schema().to_string());
    let file = file.to_str().expect("text");
    world.call("/usr/bin/python3", ["-c", python, file]).done().is(0, "", "");
}

#[test]
fn the_page_of_policy_files_is_up_to_date() -> Result<()> {
    committed(PAGE, &page()?)
}

#[test]
fn the_page_of_policy_files_is_sound() -> Result<()> {
    sound(PAGE)
}

#[test]
fn the_page_has_every_key_with_every_backend() -> Result<()> {
    let page = plain(&String::from_utf8(page()?)?);
    let (_, keys) = page.split_once("\n.SH KEYS\n").context("no keys")?;
    let (keys, _) = keys.split_once("\n.SH ").context("no end")?;
    let entries: Vec<_> = format!("\n{keys}").split("\n.TP\n").skip(1).map(str::to_owned).collect();
    ensure!(entries.len() == FIELDS.len(), "{} entries", entries.len());
    for (entry, field) in entries.iter().zip(FIELDS) {
        ensure!(entry.starts_with(&format!("{}: ", field.key)), "{entry}");
        ensure!(entry.contains("\nDefault: "), "{entry}");
        for backend in Backend::ALL {
            ensure!(entry.contains(&format!("\nBackend {backend}: ")), "{entry}");
        }
    }
    Ok(())
}

/// Each option leads to the key that the page names, on the real program, and no option and no key is forgotten.
#[test]
fn the_page_names_the_key_of_every_option() -> Result<()> {
    if about_bwrap("the policy has the default list of backends") {
        return Ok(());
    }
    let world = World::new();
    world.write("w/words", "FROM_FILE\n");
    world.write("w/values", "FROM_FILE=1\n");
    for (option, words, key, value) in OPTIONS {
        if words.is_empty() {
            continue;
        }
        let done = world.run(words.iter().chain(&["--print-policy=json"])).done().code(0);
        let printed: Value = serde_json::from_str(&done.out())?;
        ensure!(printed[key] == serde_json::from_str::<Value>(value)?, "{option}: {printed}");
        let silent: Value = serde_json::from_str(&world.run(["--print-policy=json"]).done().code(0).out())?;
        ensure!(silent[key] != printed[key], "{option}");
    }
    let long = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    let options = OPTIONS.iter().filter(|row| !row.0.starts_with(' '));
    let told: BTreeSet<_> = options.map(|row| long(row.0)).chain(NO_KEY.iter().map(|word| long(word))).collect();
    let all: BTreeSet<_> = super::options().into_iter().filter(|option| option.starts_with("--")).collect();
    ensure!(told == all, "{:?}", told.symmetric_difference(&all));
    let told: BTreeSet<_> = OPTIONS.iter().map(|row| row.2).chain(NO_OPTION.iter().copied()).collect();
    let all: BTreeSet<_> = FIELDS.iter().map(|field| field.key).collect();
    ensure!(told == all, "{:?}", told.symmetric_difference(&all));
    Ok(())
}

/// The keys of a record, with null exactly where the page speaks of it.
#[test]
fn the_page_has_the_keys_of_a_record_and_what_null_means() -> Result<()> {
    let world = World::new();
    let whole = Record::new(&world).nineteen();
    let json: Value = serde_json::from_str(&whole.json())?;
    let keys: Vec<_> = json.as_object().context("no object")?.keys().map(String::as_str).collect();
    ensure!(keys == RECORD.iter().map(|(key, _)| *key).collect::<Vec<_>>(), "{keys:?}");
    for (key, about) in RECORD {
        let read = payload::decode_json(whole.clone().with(key, "null").json().as_bytes());
        ensure!(read.is_ok() == about.contains("null"), "{key}: {read:?}");
    }
    for (name, size) in [("none-14", 14), ("none-16", 16), ("none-19", 19)] {
        let json: Value = serde_json::from_str(&vector(name).0)?;
        let since =
            |about: &str| [16, 19].into_iter().find(|size| about.starts_with(&format!("({size}) "))).unwrap_or(14);
        let told: Vec<_> = RECORD.iter().filter(|(_, about)| since(about) <= size).map(|(key, _)| *key).collect();
        ensure!(json.as_object().context("no object")?.keys().eq(told.iter()), "{name}: {told:?}");
    }
    Ok(())
}

#[test]
fn the_schema_is_up_to_date() -> Result<()> {
    committed(SCHEMA, format!("{:#}\n", schema()).as_bytes())
}

#[test]
fn the_schema_has_the_keys_that_are_read() -> Result<()> {
    let schema = schema();
    let properties = schema["properties"].as_object().context("no keys")?;
    let keys: BTreeSet<_> = properties.keys().map(String::as_str).filter(|key| *key != "$schema").collect();
    ensure!(keys == FIELDS.iter().map(|field| field.key).collect(), "{keys:?}");
    for key in keys {
        // A value of a type that no key takes: what is refused is the value, not the key.
        let error =
            file::read(format!("{{\"{key}\": null}}").as_bytes(), "p.json", None).err().context("null is read")?;
        ensure!(error.to_string().contains(&format!("key '{key}': expected ")), "{error}");
    }
    Ok(())
}

#[test]
fn the_example_is_a_policy_of_five_lines() -> Result<()> {
    ensure!(EXAMPLE.lines().count() == 5);
    let document = file::read(EXAMPLE.as_bytes(), "p.toml", None)?;
    ensure!(document != Document::default());
    let policy = merge([document.layer(&Origin::Payload)]);
    ensure!(policy.files.grants.len() == 2 && policy.files.masks.len() == 1 && policy.env.rules.len() == 2);
    Ok(())
}
