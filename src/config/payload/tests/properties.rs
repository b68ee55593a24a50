//! What holds for any record and for any damage.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;

/// Any bytes that can be one path component, with characters of every length among them.
fn component() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        4 => "[a-z.~ ]{1,4}".prop_map(String::into_bytes),
        2 => any::<char>().prop_map(|char| char.to_string().into_bytes()),
        1 => select(vec!["é", "😀", "\u{ffff}", "\u{10000}", "\u{10ffff}", "\u{7f}", "\"\\"]).prop_map(Into::into),
        2 => vec(1..=255u8, 1..4),
    ];
    vec(part, 1..4).prop_map(|parts| {
        let mut bytes = parts.concat();
        bytes.iter_mut().filter(|byte| matches!(byte, b'/' | 0)).for_each(|byte| *byte = b'_');
        if matches!(bytes[..], [b'.'] | [b'.', b'.']) { b"...".to_vec() } else { bytes }
    })
}

fn path() -> impl Strategy<Value = PathBuf> {
    vec(component(), 0..4).prop_map(|parts| OsString::from_vec([b"/", &parts.join(&b'/')[..]].concat()).into())
}

fn paths() -> impl Strategy<Value = Vec<PathBuf>> {
    vec(path(), 0..3)
}

fn names() -> impl Strategy<Value = Option<Vec<String>>> {
    option::of(vec("[A-Za-z_][A-Za-z0-9_]{0,8}", 0..3))
}

fn record() -> impl Strategy<Value = Record> {
    let socket = component().prop_map(|name| OsString::from_vec([b"/", &name[..]].concat()).into());
    let egress = option::of((1..=u16::MAX, socket));
    let generation = select(vec![Generation::Fourteen, Generation::Sixteen, Generation::Nineteen]);
    let hidden = option::of(vec(component().prop_map(OsString::from_vec), 0..3));
    let scan = (hidden, 1..=u64::MAX, select(Overflow::ALL.to_vec()), any::<bool>());
    let copies = (any::<Option<[i64; 3]>>(), paths(), option::of(paths()));
    let lists = (option::of(paths()), option::of(paths()), option::of(paths()), paths(), paths());
    let first = (generation, select(BACKENDS.to_vec()), any::<bool>());
    (first, copies, scan, egress, (names(), names()), lists).prop_map(|(first, copies, scan, egress, names, lists)| {
        let (generation, backend, allow_network) = first;
        let (port, socket) = egress.unzip();
        let nineteen = generation == Generation::Nineteen;
        let fourteen = generation == Generation::Fourteen;
        Record {
            generation,
            active: backend != NONE,
            allow_network,
            backend_type: backend.into(),
            copy_on_write_namespace: copies.0.filter(|_| nineteen),
            copy_on_write_roots: if nineteen { copies.1 } else { vec![] },
            credential_source_paths: copies.2.filter(|_| nineteen),
            cwd_allow_hidden: scan.0,
            cwd_hidden_scan_max_entries: NonZero::new(scan.1).unwrap(),
            cwd_hidden_scan_overflow: scan.2,
            cwd_hidden_scan_recursive: scan.3 || fourteen,
            deny_unix_socket_paths: lists.0,
            egress_relay_port: port,
            egress_socket_path: socket,
            env_passthrough: names.0,
            mask_paths: lists.1.filter(|_| !fourteen),
            read_roots: lists.2,
            spawn_env_allowlist: names.1,
            write_files: lists.3,
            write_roots: lists.4,
        }
    })
}

/// What JSON says, read by another reader and with paths brought to one spelling.
fn said(json: &[u8]) -> Option<serde_json::Value> {
    fn settle(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::String(text) if text.starts_with('/') => {
                *text = Path::new(text).components().collect::<PathBuf>().into_os_string().into_string().unwrap();
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(settle),
            serde_json::Value::Object(members) => members.values_mut().for_each(settle),
            _ => {}
        }
    }
    let mut value = serde_json::from_slice(json).ok()?;
    settle(&mut value);
    Some(value)
}

/// Damaged input is refused, or its record says what the input now says and nothing less.
fn check_damaged(json: &[u8]) {
    let Ok(record) = decode_json(json) else { return };
    let canonical = encode_json(&record);
    assert_eq!(decode_json(&canonical).unwrap(), record, "{}", json.escape_ascii());
    // The other reader takes no lone surrogates.
    if let Some(said_before) = said(json) {
        assert_eq!(said(&canonical), Some(said_before), "{}", json.escape_ascii());
    }
}

/// The JSON of a valid record.
fn json() -> impl Strategy<Value = String> {
    let vectors = vectors::ALL.iter().map(|vector| vector.json.to_owned());
    select(vectors.chain([values::object(values::BASE)]).collect::<Vec<_>>())
}

/// A value that some key takes, or none does.
fn value() -> impl Strategy<Value = &'static str> {
    let odd =
        ["null", "true", "false", "0", "-0", "1.0", "1e3", "\"\"", "\"/\"", "[]", "{}", "[null]", "[[]]", "[\"/a/\"]"];
    select(values::BASE.into_iter().map(|(_, value)| value).chain(odd).collect::<Vec<_>>())
}

/// Bytes that mean something in JSON or base64, and any others.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![select(b"\"\\{}[],:/._-+= \n0159eEutfn\0\x80\xed\xff".to_vec()), any::<u8>()]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reading_undoes_writing(record in record()) {
        let json = encode_json(&record);
        prop_assert!(json.iter().all(|byte| (b' '..=b'~').contains(byte)));
        prop_assert_eq!(&decode_json(&json).unwrap(), &record);
        let text = encode(&record);
        prop_assert_eq!(&decode(text.as_bytes()).unwrap(), &record);
        prop_assert_eq!(&decode(text.trim_end_matches('=').as_bytes()).unwrap(), &record);
    }

    /// Another reader of JSON sees the same text wherever it is text.
    #[test]
    fn writing_is_json(record in record()) {
        let Some(value) = said(&encode_json(&record)) else { return Ok(()) };
        let members = value.as_object().unwrap();
        prop_assert!(members.keys().is_sorted());
        let read = members["write_roots"].as_array().unwrap().iter().map(|path| path.as_str().unwrap());
        prop_assert!(read.map(Path::new).eq(&record.write_roots));
    }

    #[test]
    fn damaged_json(json in json(), edits in vec((any::<Index>(), 0..3usize, vec(byte(), 0..3)), 1..4)) {
        let mut json = json.into_bytes();
        for (at, removed, added) in edits {
            let at = at.index(json.len() + 1);
            json.splice(at..(at + removed).min(json.len()), added);
        }
        check_damaged(&json);
    }

    #[test]
    fn exchanged_values(changes in vec((select(values::BASE.to_vec()), value()), 1..4)) {
        let mut members = values::BASE;
        for ((changed, _), new) in changes {
            members.iter_mut().filter(|(key, _)| *key == changed).for_each(|(_, value)| *value = new);
        }
        check_damaged(values::object(members).as_bytes());
    }

    #[test]
    fn damaged_text(json in json(), at in any::<Index>(), removed in 0..5usize, added in vec(byte(), 0..5)) {
        let mut text = URL_SAFE.encode(json).into_bytes();
        let at = at.index(text.len() + 1);
        text.splice(at..(at + removed).min(text.len()), added);
        if decode(&text).is_ok() {
            let text = String::from_utf8(text).unwrap();
            check_damaged(&URL_SAFE_NO_PAD.decode(text.trim().trim_end_matches('=')).unwrap());
        }
    }

    #[test]
    fn any_bytes_at_all(bytes in vec(byte(), 0..64)) {
        let error = refused(decode(&bytes));
        prop_assert!(error.len() < 400);
        refused(decode_json(&bytes));
    }

    /// No part of a value shows up in an error.
    #[test]
    fn errors_hold_no_value(json in json(), at in any::<Index>(), added in vec(byte(), 1..3)) {
        let json = json.replace("/w", "/hunter2").replace("HOME", "hunter2").replace("50000", "\"hunter2\"");
        let mut json = json.into_bytes();
        let at = at.index(json.len());
        json.splice(at..=at, added);
        prop_assert!(!refused(decode_json(&json)).contains("hunter2"));
    }
}

/// Whether two texts of JSON differ only in the case of one digit of an escape.
fn respelled(one: &[u8], other: &[u8]) -> bool {
    let digits = |at: usize| one[..at].iter().rev().take(5).any(|&byte| byte == b'\\') && one[at].is_ascii_hexdigit();
    one.len() == other.len()
        && (0..one.len()).all(|at| one[at] == other[at] || (one[at].eq_ignore_ascii_case(&other[at]) && digits(at)))
}

/// Every byte of a record changed to others: refused, or another record, never the same one by oversight.
#[test]
fn every_byte_counts() {
    let original = values::object(values::BASE);
    let record = decode_json(original.as_bytes()).unwrap();
    let mut json = original.clone().into_bytes();
    for at in 0..json.len() {
        let kept = json[at];
        let flipped = (0..8).map(|bit| kept ^ (1 << bit));
        for byte in flipped.chain(*b"\"\\{}[],:/. -01en").filter(|&byte| byte != kept) {
            json[at] = byte;
            if let Ok(read) = decode_json(&json) {
                assert_eq!(read == record, respelled(original.as_bytes(), &json), "{}", json.escape_ascii());
                check_damaged(&json);
            }
        }
        json[at] = kept;
    }
}

/// The same for the characters of a payload, which each hold parts of two bytes.
#[test]
fn every_character_counts() {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let vector = vectors::BWRAP_16;
    let record = decode(vector.text.as_bytes()).unwrap();
    let mut text = vector.text.as_bytes().to_vec();
    for at in 0..text.len() {
        let kept = text[at];
        let place = ALPHABET.iter().position(|&byte| byte == kept).unwrap();
        for bit in 0..6 {
            text[at] = ALPHABET[place ^ (1 << bit)];
            if let Ok(read) = decode(&text) {
                let json = URL_SAFE.decode(&text).unwrap();
                assert_eq!(read == record, respelled(vector.json.as_bytes(), &json), "{}", json.escape_ascii());
                check_damaged(&json);
            }
        }
        for byte in *b"=+/ \n\0!" {
            text[at] = byte;
            assert!(decode(&text).is_err(), "{at} {byte}");
        }
        text[at] = kept;
    }
}

/// Every length of a payload: refused, or whole but for its padding.
#[test]
fn a_cut_text_is_refused() {
    for vector in vectors::ALL {
        let unpadded = vector.text.trim_end_matches('=').len();
        let whole = decode(vector.text.as_bytes()).unwrap();
        for length in 0..vector.text.len() {
            match decode(&vector.text.as_bytes()[..length]) {
                Ok(record) => assert!(length == unpadded && record == whole, "{length}"),
                Err(_) => assert_ne!(length, unpadded),
            }
            assert!(decode_json(&vector.json.as_bytes()[..length.min(vector.json.len() - 1)]).is_err());
        }
    }
}
