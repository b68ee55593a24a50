//! Damaged policies: no panic, and nothing that is accepted gives more than what it says in a form that is right.
//!
//! `PROPTEST_CASES` makes it longer.

use std::fs;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;

use sandbox_run::config::fields::FIELDS;
use sandbox_run::config::file::{self, Format};
use sandbox_run::config::{document::Document, merge, payload, print, record};
use sandbox_run::policy::Origin;

use crate::harness::World;
use crate::wire::{Record, VECTORS, call, fixtures, vector};

/// One change of a text.
#[derive(Clone, Debug)]
enum Change {
    Flip(Index, u8),
    Put(Index, Vec<u8>),
    Cut(Index, usize),
    Double(Index, usize),
    Swap(Index, Index),
}

/// What is likely to matter to a reader.
const TOKENS: [&str; 40] = [
    "\"",
    "'",
    "\\",
    "\\u0000",
    "\\udcff",
    "\\ud83d",
    "\\u002f",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "=",
    "\n",
    "\r",
    " ",
    "#",
    "true",
    "false",
    "null",
    "0",
    "-1",
    "1e9",
    "1.0",
    "\"\"",
    "/",
    "..",
    "~",
    "*",
    "none",
    "\"active\":false,",
    "\"allow_network\":true,",
    "allow_network = true\n",
    "backend_type = \"none\"\n",
    "[env_set]\n",
    "base64:",
    "\u{feff}",
    "é",
    "\0",
];

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let put = prop_oneof![
        4 => select(TOKENS.to_vec()).prop_map(|token| token.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 1..4),
    ];
    let change = prop_oneof![
        (any::<Index>(), 1..=255_u8).prop_map(|(at, mask)| Change::Flip(at, mask)),
        (any::<Index>(), put).prop_map(|(at, bytes)| Change::Put(at, bytes)),
        (any::<Index>(), 1..30_usize).prop_map(|(at, length)| Change::Cut(at, length)),
        (any::<Index>(), 1..60_usize).prop_map(|(at, length)| Change::Double(at, length)),
        (any::<Index>(), any::<Index>()).prop_map(|(a, b)| Change::Swap(a, b)),
    ];
    vec(change, 1..4)
}

fn apply(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        if bytes.is_empty() {
            break;
        }
        let length = bytes.len();
        match change {
            Change::Flip(at, mask) => bytes[at.index(length)] ^= mask,
            Change::Put(at, more) => {
                let at = at.index(length + 1);
                bytes.splice(at..at, more.iter().copied());
            }
            Change::Cut(at, many) => {
                let at = at.index(length);
                bytes.drain(at..(at + many).min(length));
            }
            Change::Double(at, many) => {
                let at = at.index(length);
                let part = bytes[at..(at + many).min(length)].to_vec();
                bytes.splice(at..at, part);
            }
            Change::Swap(a, b) => bytes.swap(a.index(length), b.index(length)),
        }
    }
    bytes
}

/// JSON by another reader, which refuses the escape of a byte: a character takes its place.
fn other_json(bytes: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_str(&String::from_utf8_lossy(bytes).replace("\\udcff", "x"))
}

/// A record that was accepted says in strict JSON exactly what was understood: each key once, each value of its type.
///
/// `serde_json` is another reader than ours, and its objects take the last of two keys; paths are compared as text.
fn agrees(json: &[u8]) -> Result<(), TestCaseError> {
    let Ok(record) = payload::decode_json(json) else { return Ok(()) };
    let written = payload::encode_json(&record);
    prop_assert_eq!(&payload::decode_json(&written).expect("what was written is right"), &record);
    let (Ok(read), Ok(understood)) = (other_json(json), other_json(&written)) else {
        // Bytes that are no text, which that reader refuses; the path survives by the round trip above.
        return Ok(());
    };
    let (read, understood) = (read.as_object().expect("an object"), understood.as_object().expect("an object"));
    for (key, said) in read {
        let Some(found) = understood.get(key) else { return Err(TestCaseError::fail(format!("{key} was dropped"))) };
        let paths = |value: &Value| {
            let items = value.as_array().into_iter().flatten().filter_map(Value::as_str);
            items
                .map(|path| path.split('/').filter(|part| !matches!(*part, "" | ".")).map(str::to_owned).collect())
                .collect::<Vec<Vec<_>>>()
        };
        if key == "egress_socket_path" {
            prop_assert_eq!(said.is_null(), found.is_null());
        } else if said.is_array() {
            prop_assert_eq!(paths(said), paths(found), "{}", key);
            prop_assert_eq!(said.as_array().map(Vec::len), found.as_array().map(Vec::len));
        } else {
            prop_assert_eq!(said, found, "{}", key);
        }
    }
    // No sandbox only when the record says so twice.
    if !record.active {
        prop_assert_eq!(read.get("active"), Some(&Value::Bool(false)));
        prop_assert_eq!(read.get("backend_type"), Some(&Value::from("none")));
    }
    prop_assert_eq!(read.get("allow_network"), Some(&Value::Bool(record.allow_network)));
    // The policy that it becomes is one that can be written, or the refusal is an error and no panic.
    if let Ok((layer, _)) = record::layer(record) {
        let policy = merge([layer]);
        let again = file::read(print::json(&policy).as_bytes(), "p.json", None).expect("what was printed is right");
        prop_assert_eq!(print::hash(&merge([again.layer(&Origin::Payload)])), print::hash(&policy));
    }
    Ok(())
}

/// A document that was accepted is what another reader finds in the text, key for key.
fn same_document(bytes: &[u8], format: Format) -> Result<(), TestCaseError> {
    let Ok(document) = file::read(bytes, "p", Some(format)) else { return Ok(()) };
    let policy = merge([document.clone().layer(&Origin::Payload)]);
    for (text, name) in [(print::json(&policy), "p.json"), (print::toml(&policy), "p.toml")] {
        let again = file::read(text.as_bytes(), name, None).expect("what was printed is right");
        prop_assert_eq!(print::hash(&merge([again.layer(&Origin::Payload)])), print::hash(&policy));
    }
    let text = std::str::from_utf8(bytes).expect("accepted text is UTF-8");
    let read: Option<Value> = match format {
        Format::Json => other_json(bytes).ok(),
        Format::Toml => toml::from_str(text).ok(),
    };
    if let Some(read) = read {
        says(&document, &read)?;
    }
    Ok(())
}

/// Each key that decides about safety has the value that stands in the text, and none comes from nowhere.
fn says(document: &Document, read: &Value) -> Result<(), TestCaseError> {
    let flag = |key: &str| read.get(key).map(|value| value.as_bool().expect(key));
    prop_assert_eq!(document.allow_network, flag("allow_network"));
    prop_assert_eq!(document.create_missing, flag("create_missing"));
    prop_assert_eq!(document.env_default, flag("env_default"));
    prop_assert_eq!(document.backend_type.is_some(), read.get("backend_type").is_some());
    let many = |key: &str| read.get(key).map_or(0, |value| value.as_array().expect(key).len());
    prop_assert_eq!(document.read_roots.len(), many("read_roots"));
    prop_assert_eq!(document.write_roots.len(), many("write_roots"));
    prop_assert_eq!(document.write_roots_create.len(), many("write_roots_create"));
    prop_assert_eq!(document.mask_paths.len(), many("mask_paths"));
    prop_assert_eq!(document.protect_paths.len(), many("protect_paths"));
    prop_assert_eq!(document.deny_unix_socket_paths.len(), many("deny_unix_socket_paths"));
    prop_assert_eq!(document.spawn_env_allowlist.is_some(), read.get("spawn_env_allowlist").is_some());
    for key in read.as_object().expect("a table").keys() {
        prop_assert!(FIELDS.iter().any(|field| field.key == key), "{} was ignored", key);
    }
    Ok(())
}

/// Two documents with every key in them.
const TOML: &str = "extends = [\"build\"]\nbackend_type = \"bwrap\"\nallow_gaps = [\"sockets\"]\nread_roots = [\"/r\", \"~/r\"]\n\
    read_roots_optional = ['/ro']\nwrite_roots = [\".\"]\nwrite_roots_create = [\"/wc\"]\nwrite_roots_optional = [\"/wo\"]\nwrite_files = [\"/f\"]\n\
    create_missing = false\nmask_paths = [\"/m\", \"base64:L/8=\"]\nprotect_paths = [\".git\"]\nallow_unix_socket_paths = []\n\
    deny_unix_socket_paths = [\"/ds\"]\ncwd_allow_hidden = [\".git\"]\ncwd_hidden_scan_max_entries = 70\n\
    cwd_hidden_scan_overflow = \"error\"\ncwd_hidden_scan_recursive = true\nworkdir = \"sub\"\ntmp_size = \"64M\"\n\
    allow_network = false\nenv_default = false\nenv = [\"A\", \"MY_*\"]\nkeep_fds = [3]\nkeep_jobserver = false\n\
    new_session = \"auto\"\ntimeout = \"0s\"\nkill_after = \"2s\"\nmemory = \"64M\"\ncpu_time = \"9s\"\nmax_procs = 9\n\
    max_file_size = 0\nmax_open_files = 64\naddress_space = \"4G\"\ncore = 0\nmax_output = 9\noutput_overflow = \"kill\"\nspawn_env_allowlist = [\"PATH\"]\n[env_set]\nZ = \"z\"\n";

const JSON: &str = r#"{"extends":["build"],"backend_type":"bwrap","allow_gaps":["sockets"],"read_roots":["/r","~/r"],
    "write_roots":["."],"write_roots_create":["/wc"],"write_files":["/f"],"create_missing":false,"mask_paths":["/m","/\udcff","base64:L/8="],
    "protect_paths":[".git"],"deny_unix_socket_paths":["/ds"],"cwd_allow_hidden":[],"cwd_hidden_scan_max_entries":70,
    "cwd_hidden_scan_overflow":"error","cwd_hidden_scan_recursive":true,"workdir":"sub","tmp_size":"64M",
    "allow_network":false,"env_default":false,"env":["A","MY_*"],"env_set":{"Z":"z"},"keep_fds":[3],
    "new_session":"auto","timeout":"9s","kill_after":"2s","memory":67108864,"cpu_time":"9m","max_procs":9,"max_file_size":"1G",
    "max_open_files":64,"address_space":4294967296,"core":0,"max_output":"1M","output_overflow":"truncate","spawn_env_allowlist":["PATH"]}"#;

proptest! {
    #[test]
    fn records(which in select(VECTORS.to_vec()), changes in changes()) {
        agrees(&apply(vector(which).0.into_bytes(), &changes))?;
    }

    #[test]
    fn payload_texts(which in select(VECTORS.to_vec()), changes in changes()) {
        let text = apply(vector(which).1.into_bytes(), &changes);
        if let Ok(record) = payload::decode(&text) {
            let bytes = BASE64_URL_SAFE_NO_PAD.decode(text.trim_ascii().strip_suffix(b"==").or(text.trim_ascii().strip_suffix(b"=")).unwrap_or(text.trim_ascii()));
            let bytes = bytes.expect("accepted text is base64url to another reader too");
            prop_assert_eq!(payload::decode_json(&bytes).expect("the same"), record);
            agrees(&bytes)?;
        }
    }

    #[test]
    fn toml_documents(changes in changes()) {
        same_document(&apply(TOML.into(), &changes), Format::Toml)?;
    }

    #[test]
    fn json_documents(changes in changes()) {
        same_document(&apply(JSON.into(), &changes), Format::Json)?;
    }

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..200)) {
        prop_assert!(payload::decode(&bytes).is_err());
        agrees(&bytes)?;
        same_document(&bytes, Format::Toml)?;
        same_document(&bytes, Format::Json)?;
    }
}

/// What the changes start from is accepted: the properties speak of something.
#[test]
fn the_originals_are_accepted() {
    for name in VECTORS {
        assert!(payload::decode(vector(name).1.as_bytes()).is_ok(), "{name}");
        agrees(vector(name).0.as_bytes()).unwrap();
    }
    assert!(file::read(TOML.as_bytes(), "p.toml", None).is_ok() && file::read(JSON.as_bytes(), "p.json", None).is_ok());
    // To the other readers too, so that there is something to compare with.
    assert!(toml::from_str::<Value>(TOML).is_ok());
    assert!(
        other_json(JSON.as_bytes()).is_ok() && VECTORS.iter().all(|name| other_json(vector(name).0.as_bytes()).is_ok())
    );
    same_document(TOML.as_bytes(), Format::Toml).unwrap();
    same_document(JSON.as_bytes(), Format::Json).unwrap();
}

/// Cut anywhere, changed in one byte anywhere, glued: refused, or what it then says.
#[test]
fn every_cut_and_every_byte_of_the_fixed_records() {
    let mut accepted = 0;
    for name in VECTORS {
        let (json, text) = vector(name);
        let bytes = text.as_bytes();
        let right = payload::decode(bytes).expect(name);
        for length in 0..bytes.len() {
            // Without its padding it is whole.
            let whole = text[length..].chars().all(|char| char == '=') && text[..length].len() % 4 != 3
                || length == bytes.len();
            match payload::decode(&bytes[..length]) {
                Ok(record) => assert_eq!(record, right, "{name} {length}"),
                Err(_) => assert!(!whole || text[length..].len() == 1, "{name} {length}"),
            }
        }
        for length in 0..json.len() {
            assert!(payload::decode_json(&json.as_bytes()[..length]).is_err(), "{name} {length}");
        }
        for at in 0..json.len() {
            for with in [
                b'"',
                b'0',
                b'1',
                b'/',
                b'.',
                b' ',
                b'n',
                b',',
                b'_',
                b'A',
                b'\\',
                0xff,
                json.as_bytes()[at] ^ 1,
                json.as_bytes()[at] ^ 0x20,
            ] {
                let mut changed = json.clone().into_bytes();
                changed[at] = with;
                agrees(&changed).unwrap();
                accepted += usize::from(payload::decode_json(&changed).is_ok());
            }
        }
        for other in VECTORS {
            assert!(
                payload::decode([bytes, vector(other).1.as_bytes()].concat().as_slice()).is_err(),
                "{name} {other}"
            );
            assert!(payload::decode_json(format!("{json}{}", vector(other).0).as_bytes()).is_err(), "{name} {other}");
        }
    }
    assert!(accepted > 100, "a changed letter of a path is another path: {accepted}");
}

#[test]
fn the_corpus() {
    for entry in fs::read_dir(fixtures("corpus")).expect("corpus") {
        let path = entry.expect("entry").path();
        let bytes = fs::read(&path).expect("readable");
        assert!(payload::decode(&bytes).is_err(), "{}", path.display());
        agrees(&bytes).unwrap();
        for format in [Format::Toml, Format::Json] {
            same_document(&bytes, format).unwrap();
        }
        assert!(file::read(&bytes, path.to_str().expect("text"), None).is_err(), "{}", path.display());
    }
}

/// The same on the real program: what is damaged is refused before anything runs, or prints as what it then says.
#[test]
fn a_damaged_payload_never_runs_as_something_else() {
    let world = World::new();
    let record = Record::new(&world).text();
    let target = ["touch", "ran"];
    let refused = |payload: &[u8]| {
        call(&world, payload, &target).done().refused(125, &["(--policy-fd): "]);
        assert!(!world.has("w/ran"), "{}", payload.escape_ascii());
    };
    let whole = record.trim_end_matches('=');
    for length in 0..whole.len() {
        refused(&record.as_bytes()[..length]);
    }
    refused([record.as_bytes(), record.as_bytes()].concat().as_slice());
    refused([whole.as_bytes(), whole.as_bytes()].concat().as_slice());
    call(&world, whole.as_bytes(), &target).done().is(0, "", "");
    fs::remove_file(world.path("w/ran")).expect("control: the whole one runs");

    // A writer that goes away in the middle.
    for part in [0, 1, 100, whole.len() - 1] {
        let (reader, mut writer) = std::io::pipe().expect("pipe");
        std::io::Write::write_all(&mut writer, &record.as_bytes()[..part]).expect("written");
        drop(writer);
        let done = world.run([&["--policy-fd", "3"], &target[..]].concat()).fd(reader, 3).done();
        done.refused(125, &["(--policy-fd): "]);
        assert!(!world.has("w/ran"));
    }

    for at in 0..whole.len() {
        let mut changed = record.clone().into_bytes();
        changed[at] = if changed[at] == b'B' { b'C' } else { b'B' };
        let done = call(&world, &changed, &["--print-policy=json"]).done();
        match payload::decode(&changed) {
            Ok(said) => {
                let Ok((layer, _)) = record::layer(said) else {
                    done.refused(125, &["policy key "]);
                    continue;
                };
                let expected = print::json(&merge([layer]));
                done.code(0).stdout(&expected);
            }
            Err(error) => {
                done.refused(125, &[&format!("{error:#}")]);
            }
        }
    }
}
