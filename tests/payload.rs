//! Payloads are read strictly: the fixed ones run or are refused by name, and whatever a lax reader would bend is refused
//! before anything runs.

use std::time::Duration;

use crate::harness::{Done, World, find, program};
use crate::wire::{Record, VECTORS, call, encode, list, vector};

/// What the target would do if it ran: a file in the directory that the record lets it write.
const TARGET: [&str; 2] = ["touch", "ran"];

/// Refused with one line that has each of `words` in it, shows no part of the payload and leaves no trace of a run; by
/// descriptor and, where argv can hold it, as an argument.
#[track_caller]
fn refused(world: &World, payload: impl AsRef<[u8]>, words: &[&str]) {
    let payload = payload.as_ref();
    let before = world.snapshot();
    let check = |done: Done| {
        let done = done.refused(125, words);
        assert!(done.stderr.lines().count() == 1 && done.stderr.len() < 500, "{}", done.stderr);
        assert!(done.stderr.is_ascii() || words.iter().any(|word| !word.is_ascii()), "{}", done.stderr);
        let text = String::from_utf8_lossy(payload);
        assert!(text.len() < 20 || !done.stderr.contains(text.trim()), "{}", done.stderr);
        assert!(done.took < Duration::from_secs(10), "{:?}", done.took);
    };
    check(call(world, payload, &TARGET).done());
    if payload.len() < 100_000 && !payload.contains(&0) {
        use std::os::unix::ffi::OsStrExt;
        let argument = std::ffi::OsStr::from_bytes(payload);
        check(world.run([std::ffi::OsStr::new("--policy-payload"), argument, "touch".as_ref(), "ran".as_ref()]).done());
    }
    assert_eq!(world.snapshot(), before, "something ran");
}

/// The control: it runs, and the file is there.
#[track_caller]
fn runs(world: &World, payload: impl AsRef<[u8]>) {
    call(world, payload.as_ref(), &TARGET).done().is(0, "", "");
    std::fs::remove_file(world.path("w/ran")).expect("control: the target ran");
}

#[test]
fn a_fixed_record_without_a_sandbox_runs_with_warnings() {
    let world = World::new();
    for name in ["none-14", "none-16", "none-19"] {
        let (_, text) = vector(name);
        let script = "echo ran; cat ../o/secret; echo $LANG $FOREIGN; touch it";
        let done = world.run(["--policy-payload", &text, "--", "sh", "-c", script]).env("FOREIGN", "x").done();
        let done = done.code(0).stdout("ran\ns3cretC.UTF-8\n");
        let warnings: Vec<_> = done.stderr.lines().collect();
        assert!(warnings.len() == 2 && warnings.iter().all(|line| line.starts_with("sandbox-run: warning: ")));
        done.stderr_has("spawn_env_allowlist is null").stderr_has("backend 'none' isolates nothing");
        std::fs::remove_file(world.path("w/it")).expect("the target ran on the host");
        // The later generations say in their own text what the first says by its name.
        let printed = world.run(["--policy-payload", &text, "--print-policy"]).done().code(0);
        printed
            .stdout_has("backend_type = \"none\"  # from payload")
            .stdout_has("allow_network = true  # from payload");
    }
}

/// Inside a sandbox of bubblewrap's own that has directories of the names that the record grants.
#[test]
fn a_fixed_record_with_a_sandbox_runs() {
    let world = World::new();
    let (_, text) = vector("bwrap-16");
    world.run(["--policy-payload", &text, "touch", "ran"]).done().refused(125, &["'/srv/données'", "payload"]);

    let program = program();
    let program = program.to_str().unwrap();
    let mut outer = vec!["--unshare-user", "--tmpfs", "/", "--dev", "/dev", "--bind", "/proc", "/proc"];
    for dir in ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/var"] {
        outer.extend(["--ro-bind-try", dir, dir]);
    }
    outer.extend(["--tmpfs", "/tmp", "--ro-bind", program, "/tmp/program", "--chdir", "/"]);
    for dir in ["/srv/données", "/srv/😀", "/srv/other", "/w s"] {
        outer.extend(["--dir", dir]);
    }
    outer.extend(["--symlink", "1", "/srv/données/a", "--symlink", "2", "/srv/😀/b", "--symlink", "3", "/srv/other/c"]);
    let outer = |words: &[&str]| {
        let bwrap = find("bwrap").expect("bwrap");
        world.call(bwrap, [&outer[..], &["--"], words].concat()).env("FOREIGN", "x").done()
    };
    let see = "readlink /srv/*/*; touch '/w s/made' && ls '/w s'";
    outer(&["sh", "-c", see]).is(0, "1\n3\n2\nmade\n", "");
    let inside = |script: &str| outer(&["/tmp/program", "--policy-payload", &text, "--", "sh", "-c", script]);
    inside(see).is(0, "1\n2\nmade\n", "");
    inside("touch /srv/données/x").code(1).stdout("").stderr_has("Read-only file system");
    inside("touch /srv/😀/x").code(1).stdout("").stderr_has("Read-only file system");
    inside("env | cut -d= -f1 | sort | tr '\\n' ' '").is(0, "HOME PATH PWD TEMP TEMPDIR TMP TMPDIR ", "");
    inside("tail -n +3 /proc/net/dev | cut -d: -f1").is(0, "    lo\n", "");
}

/// The same record as an argument, as a file of text and as a file of JSON is the same policy.
#[test]
fn a_record_may_lie_in_a_file() {
    let (json, text) = vector("none-16");
    let hash = |options: &[&str]| {
        let world = World::new();
        world.write("w/record", &text);
        world.write("w/record.json", &json);
        let done = world.run(options.iter().copied().chain(["--dry-run", "true"])).done().code(0);
        done.out().lines().find(|line| line.starts_with("policy sha256")).expect("a hash").to_owned()
    };
    let expected = hash(&["--policy-payload", &text]);
    assert_eq!(hash(&["--policy", "record"]), expected);
    assert_eq!(hash(&["--policy", "record.json"]), expected);
    let world = World::new();
    world.write("w/record", &text[..text.len() - 7]);
    world.run(["--policy", "record", "true"]).done().refused(125, &["--policy record"]);
    world.write("w/record.json", json.replace("false", "0"));
    world.run(["--policy", "record.json", "true"]).done().refused(125, &["'active'"]);
}

#[test]
fn what_is_not_available_is_refused_by_name() {
    let world = World::new();
    refused(&world, vector("bwrap-19").1, &["'copy_on_write_roots'", "not available"]);
    let base = || Record::new(&world).nineteen();
    runs(&world, base().text());
    for (record, words) in [
        (base().with("copy_on_write_roots", r#"["/w"]"#), "'copy_on_write_roots'"),
        (base().with("copy_on_write_namespace", "[1,2,3]"), "'copy_on_write"),
    ] {
        refused(&world, record.text(), &[words, "not available"]);
    }
    // A way out is had where the proxy is there, which tests of the way out are about.
    let way = base().with("egress_relay_port", "8080").with("egress_socket_path", r#""/nope/e.sock""#);
    refused(&world, way.text(), &["'/nope/e.sock'", "no such file or directory"]);
    // A backend of another system is known, and not had here.
    for (word, told) in
        [("darwin_seatbelt", ["'seatbelt'", "macOS only"]), ("windows_jobobject", ["'jobobject'", "Windows only"])]
    {
        let elsewhere = base().with("backend_type", format!("\"{word}\"")).text();
        world.run(["--policy-payload", &elsewhere, "true"]).done().refused(125, &told);
    }
}

/// Print → read → print changes nothing, and the bytes are those of the fixed ones where a policy has the same words.
#[test]
fn encoding_is_canonical() {
    let world = World::new();
    let mut seen = Vec::new();
    for name in VECTORS {
        let (json, text) = vector(name);
        assert_eq!(encode(&json), text, "{name}");
        if name == "bwrap-19" {
            continue;
        }
        let print = |text: &str| world.run(["--policy-payload", text, "--print-policy=payload"]).done().code(0);
        let first = print(&text).out();
        let again = print(first.trim_end()).stdout(&first).out();
        seen.push(again);
    }
    // The three that ask for no sandbox mean the same but for the scan, which the first generation does at every depth.
    assert!(seen[0] == seen[3] && seen[1] != seen[0], "{seen:?}");
    let nulls = [("\"deny_unix_socket_paths\":[]", "null")];
    let nulls = nulls.iter().chain(&[("\"mask_paths\":[]", "null"), ("\"read_roots\":[]", "null")]);
    let decode = |text: &str| base64::Engine::decode(&base64::prelude::BASE64_URL_SAFE, text.trim_end()).unwrap();
    let json = nulls.fold(String::from_utf8(decode(&seen[0])).unwrap(), |json, (from, to)| {
        assert!(json.contains(from), "{json}");
        json.replace(from, &format!("{}:{to}", from.split(':').next().unwrap()))
    });
    assert_eq!(json, vector("none-16").0);
    let bwrap = String::from_utf8(decode(&seen[2])).unwrap();
    assert!(bwrap.contains(r#""deny_unix_socket_paths":["/tmp/\udcff.sock"]"#), "{bwrap}");
    assert!(bwrap.contains(r#""read_roots":["/srv/donn\u00e9es","/srv/\ud83d\ude00"]"#), "{bwrap}");
}

#[test]
fn text_quirks() {
    let world = World::new();
    // A record whose text ends in padding.
    let record = (0..3).map(|n| Record::new(&world).with("env_passthrough", format!("[\"A{}\"]", "B".repeat(n))));
    let text = record.map(|record| record.text()).find(|text| text.ends_with("==")).expect("one of three");
    let clean = text.trim_end_matches('=');
    let insert = |at: usize, more: &str| format!("{}{more}{}", &text[..at], &text[at..]);
    for accepted in [text.clone(), clean.to_owned(), format!(" \t\n{text}\r\n "), format!("\n{clean}\n")] {
        runs(&world, &accepted);
        world.run(["--policy-payload", &accepted, "touch", "ran"]).done().is(0, "", "");
        std::fs::remove_file(world.path("w/ran")).expect("control");
    }
    // Of the same text in the other alphabet: one with a character of it.
    let odd = Record::new(&world).with("mask_paths", r#"["/no/a\u007f>>>???~~~"]"#).with("write_files", "[]").text();
    let odd = if odd.contains(['-', '_']) { odd } else { insert(8, "-") };
    let standard = odd.replace('-', "+").replace('_', "/");
    assert_ne!(odd, standard);
    let at = format!("character {} ", standard.find(['+', '/']).unwrap() + 1);
    refused(&world, standard, &["policy payload: ", &at, "standard base64"]);
    for (payload, words) in [
        (insert(100, " "), "character 101 is white space"),
        (insert(100, "\n"), "character 101 is white space"),
        (insert(64, "!"), "character 65 is not base64url"),
        (insert(64, "*"), "character 65 is not base64url"),
        (insert(64, "#"), "character 65 is not base64url"),
        (insert(64, "%"), "character 65 is not base64url"),
        (insert(64, "é"), "character 65 is not ASCII"),
        (format!("{text}e30="), "is padding before the end"),
        (format!("{text}{text}"), "is padding before the end"),
        (format!("{text}="), "is padding before the end"),
        (format!("{clean}="), "wrong padding"),
        (text[..text.len() - 3].to_owned(), "cannot be whole bytes"),
        (clean[..clean.len() - 1].to_owned(), "cannot be whole bytes"),
        (text[..text.len() - 5].to_owned(), "has bits that belong to no byte: the text is damaged or cut off"),
        ("e31=".to_owned(), "character 3 has bits that belong to no byte"),
        (String::new(), "policy payload is empty"),
        (" \n ".to_owned(), "policy payload is empty"),
        ("====".to_owned(), "character 1 is padding before the end"),
        ("\u{feff}".to_owned() + &text, "character 1 is not ASCII"),
        (insert(64, "\0"), "character 65 is not base64url"),
        (insert(text.len(), "\0"), "is not base64url"),
        ("x".repeat(2 << 20), "longer than 1048576 bytes"),
    ] {
        refused(&world, payload, &[words]);
    }
    refused(&world, [text.as_bytes(), b"\xff"].concat(), &["is not ASCII"]);
}

#[test]
fn json_quirks() {
    let world = World::new();
    let record = || Record::new(&world);
    let json = record().json();
    for accepted in [format!(" \n\t{json}\r\n "), json.replace(':', " : ").replace(',', " ,\n")] {
        runs(&world, encode(accepted));
    }
    let deep = |open: &str, close: &str| open.repeat(100_000) + "1" + &close.repeat(100_000);
    let invalid = "Invalid launcher sandbox payload";
    for (json, words) in [
        (record().twice("active", "false").json(), &["'active'", "twice"][..]),
        (record().twice("write_roots", "[]").json(), &["'write_roots'", "twice"]),
        (record().twice("\\u0061ctive", "false").json(), &["'active'", "twice"]),
        (record().with("write_root", "[]").json(), &["'write_root'", "unknown"]),
        (record().with("Active", "true").json(), &["'Active'", "unknown"]),
        (record().with("egress_auth_token", "null").json(), &["'egress_auth_token'", "unknown"]),
        (format!("{json}{json}"), &["trailing characters"]),
        (format!("{json}x"), &["trailing characters"]),
        (format!("{json},"), &["trailing characters"]),
        (record().with("cwd_hidden_scan_max_entries", "NaN").json(), &["not JSON"]),
        (record().with("cwd_hidden_scan_max_entries", "Infinity").json(), &["not JSON"]),
        (record().with("cwd_hidden_scan_max_entries", "-Infinity").json(), &["not JSON"]),
        (record().with("cwd_hidden_scan_max_entries", "50000.0").json(), &["'cwd_hidden_scan_max_entries'", "integer"]),
        (record().with("cwd_hidden_scan_max_entries", "5e4").json(), &["'cwd_hidden_scan_max_entries'", "integer"]),
        (format!("\u{feff}{json}"), &["byte order mark"]),
        ("[]".into(), &[invalid, "a list"]),
        (format!("[{json}]"), &[invalid, "a list"]),
        ("null".into(), &[invalid, "null"]),
        ("true".into(), &[invalid, "a boolean"]),
        ("1".into(), &[invalid, "a number"]),
        ("\"{}\"".into(), &[invalid, "a string"]),
        (deep("[", "]"), &[invalid]),
        (deep("{\"a\":", "}"), &["'a'", "unknown"]),
        (record().with("mask_paths", deep("[", "]")).json(), &["'mask_paths'"]),
        (record().with("active", deep("[", "]")).json(), &["'active'"]),
        (
            record().with("env_passthrough", format!("[\"{}\"]", "A".repeat(1 << 20))).json(),
            &["longer than 1048576 bytes"],
        ),
        (json.replace(':', "="), &["not JSON"]),
        (json.replace('"', "'"), &["not JSON"]),
        (json.replace('}', ",}"), &["not JSON"]),
        (format!("{json}// end"), &["trailing characters"]),
    ] {
        refused(&world, encode(json), words);
    }
    for (bytes, words) in [
        ([json.as_bytes(), b"\xff"].concat(), "not UTF-8"),
        ([b"\xff\xfe", json.as_bytes()].concat(), "not UTF-8 at byte 1"),
        (json.replace("/w\"", "/\u{7f}\"").replace('\u{7f}', "\u{0}").into_bytes(), "not JSON: control character"),
    ] {
        refused(&world, encode(bytes), &[words]);
    }
}

/// Exactly the keys of one generation: nothing is filled in.
#[test]
fn whole_sets_of_keys() {
    let world = World::new();
    let fourteen = || Record::new(&world).without("mask_paths").without("cwd_hidden_scan_recursive");
    runs(&world, fourteen().text());
    runs(&world, Record::new(&world).text());
    runs(&world, Record::new(&world).nineteen().text());
    for key in [
        "active",
        "allow_network",
        "backend_type",
        "cwd_allow_hidden",
        "cwd_hidden_scan_max_entries",
        "cwd_hidden_scan_overflow",
        "deny_unix_socket_paths",
        "egress_relay_port",
        "egress_socket_path",
        "env_passthrough",
        "read_roots",
        "spawn_env_allowlist",
        "write_files",
        "write_roots",
    ] {
        let quoted = format!("'{key}'");
        for record in [fourteen(), Record::new(&world), Record::new(&world).nineteen()] {
            refused(&world, record.without(key).text(), &[&quoted, "missing"]);
        }
    }
    for key in ["mask_paths", "cwd_hidden_scan_recursive"] {
        let quoted = format!("'{key}'");
        refused(&world, Record::new(&world).without(key).text(), &[&quoted, "missing"]);
        refused(&world, Record::new(&world).nineteen().without(key).text(), &[&quoted, "missing"]);
    }
    for key in ["copy_on_write_namespace", "copy_on_write_roots", "credential_source_paths"] {
        let quoted = format!("'{key}'");
        refused(&world, Record::new(&world).nineteen().without(key).text(), &[&quoted, "missing"]);
    }
    for empty in ["e30", "e30="] {
        // A lax reader takes it for "no sandbox, with the network".
        refused(&world, empty, &["'active'", "'allow_network'", "'backend_type'", "missing"]);
    }
    for (short, words) in [("W10=", "a list"), ("bnVsbA==", "null"), ("MQ==", "a number")] {
        refused(&world, short, &["Invalid launcher sandbox payload", words]);
    }
}

#[test]
fn lax_values() {
    let world = World::new();
    let w = world.text("w");
    let under = |more: &str| format!("[\"{w}{more}\"]");
    runs(&world, Record::new(&world).nineteen().text());
    let mut rows: Vec<(&str, String)> = Vec::new();
    let mut row = |key: &'static str, values: &[&str]| rows.extend(values.iter().map(|value| (key, (*value).into())));
    row("active", &[r#""no""#, r#""false""#, r#""true""#, "0", "1", "null", "[]", "{}", "false"]);
    row("backend_type", &["null", r#""""#, r#""None""#, r#""linux_bwrap ""#, r#""bwrap""#, r#""auto""#, "[]", "true"]);
    row("allow_network", &["null", "0", "1", r#""false""#, r#""true""#, "[]"]);
    row("cwd_hidden_scan_recursive", &["null", "0", r#""true""#]);
    row(
        "cwd_hidden_scan_max_entries",
        &["-5", "0", "true", "null", "1.0", "5e4", r#""5""#, "18446744073709551616", "-0"],
    );
    row("cwd_hidden_scan_overflow", &[r#""bogus""#, r#""WARN""#, "null", "0"]);
    row("egress_relay_port", &["0", "65536", "-1", r#""80""#, "true", "1.9", "80"]);
    row("egress_socket_path", &["5", r#""e.sock""#, r#""""#, r#""/run/../e""#, r#""/run/e.sock""#]);
    for key in ["spawn_env_allowlist", "env_passthrough"] {
        row(key, &[r#""PATH""#, "false", "{}", r#"["A=1"]"#, r#"[""]"#, r#"["1A"]"#, r#"["LC_*"]"#, r#"["A B"]"#]);
        row(key, &[r#"["A\u0000"]"#, r#"["\udcff"]"#, "[null]", "[1]", "[true]", r#"[["A"]]"#]);
    }
    row("cwd_allow_hidden", &[r#"".git""#, "true", r#"["."]"#, r#"[".."]"#, r#"["a/b"]"#, r#"["/a"]"#, r#"["a/"]"#]);
    row("cwd_allow_hidden", &[r#"[""]"#, r#"["a\u0000"]"#, "[null]", "[1]"]);
    row("write_roots", &["null"]);
    row("write_files", &["null"]);
    for key in ["read_roots", "write_roots", "write_files", "mask_paths", "deny_unix_socket_paths"] {
        row(key, &[r#""/x""#, r#"{"/x":1}"#, "true", "[null]", "[1]", "[true]", r#"[["/x"]]"#, r#"["/x",null]"#]);
        row(
            key,
            &[r#"[""]"#, r#"["."]"#, r#"["w"]"#, r#"["./w"]"#, r#"["a//b"]"#, r#"["~"]"#, r#"["~/x"]"#, r#"[" /x"]"#],
        );
        row(key, &[r#"["/.."]"#, r#"["/usr/../etc"]"#, r#"["/a\u002f.\u002e/b"]"#, r#"["/a\u0000b"]"#]);
        row(key, &[r#"["/\ud83d"]"#, r#"["/\udc7f"]"#, r#"["/\udd00"]"#, r#"["/\udfff"]"#, r#"["$HOME"]"#]);
    }
    for (key, value) in rows {
        let quoted = format!("'{key}'");
        refused(&world, Record::new(&world).with(key, &*value).text(), &["policy key ", &quoted]);
    }
    refused(&world, Record::new(&world).with("write_roots", under("/../w")).text(), &["'write_roots'", "'..'"]);
    refused(&world, Record::new(&world).with("backend_type", r#""none""#).text(), &["'active' is true", "'none'"]);
    refused(
        &world,
        Record::new(&world).nineteen().with("copy_on_write_namespace", "[1,2]").text(),
        &["three integers"],
    );
    refused(
        &world,
        Record::new(&world).nineteen().with("copy_on_write_roots", "null").text(),
        &["'copy_on_write_roots'"],
    );
    // The controls: spelt another way, they are right.
    for (key, value) in [
        ("write_roots", under("//")),
        ("write_roots", under("/.")),
        ("write_roots", format!("[\"//{}\"]", &w[1..])),
        ("write_roots", format!("[\"{}\"]", w.replace('/', r"\/"))),
        ("read_roots", list([world.path("o")])),
        ("mask_paths", r#"["/nowhere/\udcff"]"#.into()),
        ("cwd_hidden_scan_max_entries", "18446744073709551615".into()),
        ("spawn_env_allowlist", r#"["PATH","_","a1"]"#.into()),
    ] {
        runs(&world, Record::new(&world).with(key, value).text());
    }
}

/// An inactive record that asks for a restriction all the same is refused: nothing would enforce it.
#[test]
fn no_sandbox_enforces_nothing() {
    let world = World::new();
    let none = || {
        let record = Record::new(&world).with("active", "false").with("backend_type", r#""none""#);
        record.with("allow_network", "true").with("write_roots", "[]").with("cwd_allow_hidden", "null")
    };
    call(&world, none().text().as_bytes(), &["-q", "touch", "ran"]).done().is(0, "", "");
    std::fs::remove_file(world.path("w/ran")).expect("control");
    for (key, value, word) in [
        ("allow_network", "false", "network"),
        ("mask_paths", r#"["/no"]"#, "masks"),
        ("deny_unix_socket_paths", r#"["/no"]"#, "sockets"),
        ("read_roots", r#"["/usr"]"#, "files-read"),
        ("write_roots", r#"["/var/tmp"]"#, "files-write"),
        ("write_files", r#"["/dev/null"]"#, "files-write"),
    ] {
        let before = world.snapshot();
        let text = none().with(key, value).text();
        call(&world, text.as_bytes(), &TARGET).done().refused(125, &[word]);
        assert_eq!(world.snapshot(), before, "{key}");
    }
}
