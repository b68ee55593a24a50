//! What the codec takes, what it refuses, and the words it does so with.

mod properties;
mod values;
mod vectors;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use base64::prelude::*;

use super::*;

fn refused(result: anyhow::Result<Record>) -> String {
    format!("{:#}", result.unwrap_err())
}

/// Inserts or replaces bytes at `at`.
fn spliced(text: &str, at: usize, removed: usize, with: &str) -> Vec<u8> {
    [&text.as_bytes()[..at], with.as_bytes(), &text.as_bytes()[at + removed..]].concat()
}

#[test]
fn golden_vectors_both_ways() {
    for (vector, length) in vectors::ALL.iter().zip([520, 448, 620, 636, 692]) {
        assert_eq!(vector.text.len(), length);
        let record = decode(vector.text.as_bytes()).unwrap();
        assert_eq!(decode_json(vector.json.as_bytes()).unwrap(), record);
        assert_eq!(String::from_utf8(encode_json(&record)).unwrap(), vector.json);
        assert_eq!(encode(&record), vector.text);
    }
}

#[test]
fn a_record_says_what_its_json_says() {
    let record = decode(vectors::BWRAP_16.text.as_bytes()).unwrap();
    let expected = Record {
        generation: Generation::Sixteen,
        active: true,
        allow_network: false,
        backend_type: "linux_bwrap".into(),
        copy_on_write_namespace: None,
        copy_on_write_roots: vec![],
        credential_source_paths: None,
        cwd_allow_hidden: None,
        cwd_hidden_scan_max_entries: NonZero::new(50_000).unwrap(),
        cwd_hidden_scan_overflow: Overflow::Warn,
        cwd_hidden_scan_recursive: false,
        deny_unix_socket_paths: Some(vec![OsString::from_vec(b"/tmp/\xff.sock".to_vec()).into()]),
        egress_relay_port: None,
        egress_socket_path: None,
        env_passthrough: None,
        mask_paths: None,
        read_roots: Some(vec!["/srv/données".into(), "/srv/😀".into()]),
        spawn_env_allowlist: Some(vec!["HOME".into(), "PATH".into()]),
        write_files: vec![],
        write_roots: vec!["/w s".into()],
    };
    assert_eq!(record, expected);

    let record = decode(vectors::BWRAP_19.text.as_bytes()).unwrap();
    assert_eq!(record.generation, Generation::Nineteen);
    assert_eq!(record.copy_on_write_roots, [Path::new("/w")]);
    assert_eq!(record.cwd_allow_hidden, Some(vec![".git".into(), ".venv".into()]));
    assert_eq!(record.cwd_hidden_scan_overflow, Overflow::Error);
    assert_eq!(record.mask_paths, Some(vec![PathBuf::from("/w/.env")]));
    assert_eq!(record.read_roots, Some(vec![]));

    let record = decode(vectors::NONE_14.text.as_bytes()).unwrap();
    assert_eq!(record.generation, Generation::Fourteen);
    assert!(record.cwd_hidden_scan_recursive);
}

#[test]
fn short_texts_are_refused() {
    for (text, words) in [
        ("e30=", "policy keys 'active', 'allow_network', 'backend_type', "),
        ("W10=", "Invalid launcher sandbox payload: expected an object, found a list"),
        ("bnVsbA==", "Invalid launcher sandbox payload: expected an object, found null"),
        ("", "policy payload is empty"),
        (" \n", "policy payload is empty"),
        ("====", "policy payload: character 1 is padding before the end of the text"),
        ("=", "character 1 is padding"),
        ("e", "1 characters of base64url cannot be whole bytes"),
        ("e30", "policy keys 'active', "),
    ] {
        let error = refused(decode(text.as_bytes()));
        assert!(error.starts_with(words) || error.contains(words), "{text}: {error}");
    }
}

#[test]
fn text_that_is_taken_although_it_is_not_canonical() {
    let expected = decode(vectors::NONE_16.text.as_bytes()).unwrap();
    let text = vectors::NONE_16.text;
    for text in [text.trim_end_matches('='), &format!(" \t\r\n{text}\n\n"), &format!("\x0c{text}")] {
        assert_eq!(decode(text.as_bytes()).unwrap(), expected);
    }
    for json in [
        format!(" \t\r\n{}\n", vectors::NONE_16.json),
        vectors::NONE_16.json.replace(':', " : ").replace(',', "\n,\t"),
        vectors::NONE_16.json.replace("active", r"\u0061ctive").replace("warn", r"w\u0061rn"),
    ] {
        assert_eq!(decode(URL_SAFE.encode(&json).as_bytes()).unwrap(), expected, "{json}");
        assert_eq!(decode_json(json.as_bytes()).unwrap(), expected, "{json}");
    }
}

/// Each row of the table of what lax base64 readers accept.
#[test]
fn text_quirks_are_refused_with_the_position() {
    let text = vectors::NONE_16.text;
    // The last four characters are `fQ==`: `Q` ends in four bits that must be zero.
    let (padded, last) = (text.len(), text.len() - 3);
    let cases: &[(Vec<u8>, &str)] = &[
        (spliced(text, 4, 1, "+"), "character 5 is of standard base64, expected base64url"),
        (spliced(text, 4, 1, "/"), "character 5 is of standard base64, expected base64url"),
        (spliced(text, 100, 0, " "), "character 101 is white space inside the text"),
        (spliced(text, 100, 0, "\r\n"), "character 101 is white space inside the text"),
        (spliced(text, 64, 0, "!"), "character 65 is not base64url"),
        (spliced(text, 64, 1, "*"), "character 65 is not base64url"),
        (spliced(text, 64, 1, "#"), "character 65 is not base64url"),
        (spliced(text, 64, 1, "\0"), "character 65 is not base64url"),
        (spliced(text, padded, 0, "e30="), "character 519 is padding before the end of the text"),
        (spliced(text, padded, 0, "e30"), "character 519 is padding before the end of the text"),
        (spliced(text, padded, 0, text), "character 519 is padding before the end of the text"),
        (spliced(text, padded, 0, "="), "is padding before the end of the text"),
        (spliced(text, padded - 1, 1, ""), "wrong padding after character 519"),
        (spliced(text, padded - 3, 3, ""), "517 characters of base64url cannot be whole bytes"),
        (spliced(text, last, 1, "R"), "character 518 has bits that belong to no byte"),
        (spliced(text, last, 3, "R"), "character 518 has bits that belong to no byte"),
        (b"e31=".to_vec(), "character 3 has bits that belong to no byte"),
        (spliced(text, 64, 1, "é"), "character 65 is not ASCII"),
        ([text.as_bytes(), b"\xff"].concat(), "character 521 is not ASCII"),
        (spliced(text, 0, 0, "\u{feff}"), "character 1 is not ASCII"),
        (format!("  {}", text.replacen('J', "+", 1)).into_bytes(), "character 5 is of standard base64"),
    ];
    for (text, words) in cases {
        let error = refused(decode(text));
        assert!(error.starts_with("policy payload: ") && error.contains(words), "{}: {error}", text.escape_ascii());
        assert!(error.is_ascii() && error.len() < 150, "{error}");
    }
}

/// Each row of the table of what lax JSON readers accept.
#[test]
fn json_quirks_are_refused() {
    let json = vectors::NONE_16.json;
    let inner = json.trim_start_matches('{').trim_end_matches('}');
    let cases: &[(Vec<u8>, &str)] = &[
        (json.replace("50000", "NaN").into(), "policy payload is not JSON: expected value at line 1 column "),
        (json.replace("50000", "Infinity").into(), "policy payload is not JSON: "),
        (json.replace("50000", "-Infinity").into(), "policy payload is not JSON: "),
        (format!("{{{inner},\"active\":false}}").into(), "policy key 'active' appears twice"),
        (format!("{{{inner},\"\\u0061ctive\":true}}").into(), "policy key 'active' appears twice"),
        (format!("\u{feff}{json}").into(), "policy payload begins with a byte order mark"),
        (json.replace("warn", "w\0rn").into(), "policy payload is not JSON: control character"),
        ([json.as_bytes(), b"\xff"].concat(), "policy payload is not UTF-8 at byte 389"),
        (b"{\"\xed\xb3\xbf\":1}".to_vec(), "policy payload is not UTF-8 at byte 3"),
        (b"\xff\xfe{\0}\0".to_vec(), "policy payload is not UTF-8 at byte 1"),
        (b"[]".to_vec(), "Invalid launcher sandbox payload: expected an object, found a list"),
        (format!("[{json}]").into(), "Invalid launcher sandbox payload: expected an object, found a list"),
        (b"1".to_vec(), "Invalid launcher sandbox payload: expected an object, found a number"),
        (b"-0.5e3".to_vec(), "Invalid launcher sandbox payload: expected an object, found a number"),
        (b"true".to_vec(), "Invalid launcher sandbox payload: expected an object, found a boolean"),
        (b" null ".to_vec(), "Invalid launcher sandbox payload: expected an object, found null"),
        (br#""{}""#.to_vec(), "Invalid launcher sandbox payload: expected an object, found a string"),
        (format!("{json}{json}").into(), "policy payload is not JSON: trailing characters"),
        (format!("{json} x").into(), "policy payload is not JSON: trailing characters"),
        (format!("{json},").into(), "policy payload is not JSON: trailing characters"),
        (format!("{{{inner},}}").into(), "policy payload is not JSON: key must be a string"),
        (json.replace('"', "'").into(), "policy payload is not JSON: key must be a string"),
        (format!("{json}// end").into(), "policy payload is not JSON: trailing characters"),
        (json[..100].into(), "policy payload is not JSON: EOF while parsing"),
        (vec![], "policy payload is not JSON: EOF while parsing a value"),
        (b"{\"\\udcff\":1}".to_vec(), "policy payload is not JSON: "),
    ];
    for (json, words) in cases {
        for error in [refused(decode_json(json)), refused(decode(URL_SAFE_NO_PAD.encode(json).as_bytes()))] {
            if !json.is_empty() {
                assert!(error.starts_with(words), "{}: {error}", json.escape_ascii());
            }
            assert!(error.len() < 150, "{error}");
        }
    }
}

#[test]
fn size_is_checked_before_anything_else() {
    let words = "policy payload is longer than 1048576 bytes";
    for text in [vec![b'!'; 2 << 20], vec![b' '; MAX_TEXT + 1]] {
        assert_eq!(refused(decode(&text)), words);
        assert_eq!(refused(decode_json(&text)), words);
    }
    // Just fits: the value is what is wrong then, not the size.
    let long = vectors::BWRAP_19.json.replace("/w/.env", &"a".repeat(700_000));
    assert!(refused(decode(URL_SAFE.encode(long).as_bytes())).contains("item 1: the path is not absolute"));
    let long = vectors::BWRAP_19.json.replace("/w/.env", &format!("/{}", "a".repeat(700_000)));
    assert!(decode(URL_SAFE.encode(long).as_bytes()).is_ok());
}

#[test]
fn depth_and_number_cost_neither_the_stack_nor_time() {
    let json = vectors::BWRAP_19.json;
    let nested = |open: &str, close: &str| open.repeat(100_000) + "1" + &close.repeat(100_000);
    let start = Instant::now();
    for (json, words) in [
        (nested("[", "]"), "Invalid launcher sandbox payload"),
        ("[".repeat(MAX_TEXT), "policy payload is not JSON: EOF while parsing a list"),
        (nested("{\"a\":", "}"), "policy key 'a' is unknown"),
        (
            json.replace("[\"/w/.env\"]", &nested("[", "]")),
            "policy key 'mask_paths', item 1: expected an absolute path",
        ),
        (json.replace("\"error\"", &nested("[", "]")), "policy key 'cwd_hidden_scan_overflow': expected one of"),
        (json.replace("50000", &"9".repeat(700_000)), "policy key 'cwd_hidden_scan_max_entries': expected a positive"),
        (format!("{{{}\"a\":0}}", "\"a\":0,".repeat(100_000)), "policy key 'a' is unknown"),
        (json.replace("[\"/w/.env\"]", &format!("[{}0]", "\"/\",".repeat(200_000))), "'mask_paths', item 200001: "),
    ] {
        let error = refused(decode_json(json.as_bytes()));
        assert!(error.contains(words), "{error}");
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}
