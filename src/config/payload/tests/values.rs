//! The set of keys, and every value that lax readers turn into something else.

use super::*;

/// A valid record of nineteen keys as pairs of key and JSON value.
pub(super) const BASE: [(&str, &str); 19] = [
    ("active", "true"),
    ("allow_network", "false"),
    ("backend_type", r#""linux_bwrap""#),
    ("copy_on_write_namespace", "[1,-2,3]"),
    ("copy_on_write_roots", r#"["/w"]"#),
    ("credential_source_paths", r#"["/c"]"#),
    ("cwd_allow_hidden", r#"[".git"]"#),
    ("cwd_hidden_scan_max_entries", "50000"),
    ("cwd_hidden_scan_overflow", r#""error""#),
    ("cwd_hidden_scan_recursive", "true"),
    ("deny_unix_socket_paths", r#"["/s"]"#),
    ("egress_relay_port", "8080"),
    ("egress_socket_path", r#""/run/e.sock""#),
    ("env_passthrough", r#"["TERM"]"#),
    ("mask_paths", r#"["/m\u00e9\ud83d\ude00"]"#),
    ("read_roots", r#"["/r"]"#),
    ("spawn_env_allowlist", r#"["PATH"]"#),
    ("write_files", r#"["/w/f"]"#),
    ("write_roots", r#"["/w"]"#),
];

const PATH_LISTS: [&str; 7] = [
    "copy_on_write_roots",
    "credential_source_paths",
    "deny_unix_socket_paths",
    "mask_paths",
    "read_roots",
    "write_files",
    "write_roots",
];

pub(super) fn object(pairs: impl IntoIterator<Item = (&'static str, &'static str)>) -> String {
    let members: Vec<String> = pairs.into_iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}

/// The base record with other values for some keys, read.
fn with(changes: &[(&str, &str)]) -> anyhow::Result<Record> {
    for (key, _) in changes {
        assert!(BASE.iter().any(|(known, _)| known == key), "{key}");
    }
    let member = |key: &str, value: &str| {
        let change = changes.iter().find(|(changed, _)| *changed == key);
        format!("\"{key}\":{}", change.map_or(value, |(_, value)| value))
    };
    let members: Vec<String> = BASE.iter().map(|(key, value)| member(key, value)).collect();
    decode_json(format!("{{{}}}", members.join(",")).as_bytes())
}

fn check(key: &str, value: &str, words: &str) {
    let error = refused(with(&[(key, value)]));
    assert!(error.starts_with(&format!("policy key '{key}'")), "{key} {value}: {error}");
    assert!(error.contains(words), "{key} {value}: {error}");
}

#[test]
fn the_base_is_valid_and_canonical() {
    let record = with(&[]).unwrap();
    assert_eq!(String::from_utf8(encode_json(&record)).unwrap(), object(BASE));
    assert_eq!(record.copy_on_write_namespace, Some([1, -2, 3]));
    assert_eq!((record.egress_relay_port, record.egress_socket_path), (Some(8080), Some("/run/e.sock".into())));
}

#[test]
fn only_whole_sets_of_keys() {
    let read = |json: String| decode_json(json.as_bytes());
    for vector in vectors::ALL {
        let pairs: Vec<(&str, &str)> = BASE.into_iter().filter(|(key, _)| vector.json.contains(key)).collect();
        let whole = read(object(pairs.iter().copied())).unwrap();
        assert_eq!(whole.generation, decode(vector.text.as_bytes()).unwrap().generation);
        for (left_out, _) in &pairs {
            let error = refused(read(object(pairs.iter().copied().filter(|(key, _)| key != left_out))));
            assert!(error.contains(&format!("'{left_out}'")) && error.contains(" missing"), "{left_out}: {error}");
        }
        // One key of a later generation makes all of them necessary.
        for added in BASE.iter().filter(|(key, _)| !vector.json.contains(key)) {
            let error = refused(read(object(pairs.iter().chain([added]).copied())));
            assert!(error.contains(" missing, which a record with '"), "{error}");
        }
    }
}

#[test]
fn unknown_keys_are_named_if_they_are_words() {
    let read = |key: &'static str| refused(decode_json(object(BASE.into_iter().chain([(key, "1")])).as_bytes()));
    assert_eq!(read("write_root"), "policy key 'write_root' is unknown");
    assert_eq!(read("Active"), "policy key 'Active' is unknown");
    assert_eq!(read("egress_auth_token"), "policy key 'egress_auth_token' is unknown");
    for key in ["", "/home/u/secret", r"a\nb", r"\u001b[2J", "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeee"] {
        assert_eq!(read(key), "policy payload has an unknown key that is no plain word");
    }
}

/// `{}` is the classic: read leniently it means no sandbox and a network.
#[test]
fn an_empty_object_names_every_key_of_the_smallest_set() {
    let error = refused(decode_json(b"{}"));
    let names: Vec<&str> = error.split('\'').skip(1).step_by(2).collect();
    assert_eq!(names.len(), 14);
    assert!(names.contains(&"allow_network") && error.contains(" are missing: a record has every key"), "{error}");
}

/// Each row of the table of lax values.
#[test]
fn lax_values_are_refused() {
    for (key, value, words) in [
        ("active", r#""no""#, "expected true or false, found a string"),
        ("active", r#""false""#, "expected true or false, found a string"),
        ("active", "1", "expected true or false, found a number"),
        ("active", "null", "expected true or false, found null"),
        ("active", "false", "is false, but 'backend_type' names a sandbox"),
        ("backend_type", "null", "expected one of linux_bwrap, darwin_seatbelt, windows_jobobject, none, found null"),
        ("backend_type", r#""""#, "found another string"),
        ("backend_type", r#""None""#, "found another string"),
        ("backend_type", r#""linux_landlock""#, "one of linux_bwrap, darwin_seatbelt, windows_jobobject, none"),
        ("allow_network", "null", "expected true or false, found null"),
        ("allow_network", "0", "expected true or false, found a number"),
        ("allow_network", r#""false""#, "expected true or false, found a string"),
        ("write_roots", r#""/x""#, "expected a list of paths, found a string"),
        ("write_roots", "null", "expected a list of paths, found null"),
        ("write_roots", r#"{"/x":1}"#, "expected a list of paths, found an object"),
        ("write_files", "null", "expected a list of paths, found null"),
        ("copy_on_write_roots", "null", "expected a list of paths, found null"),
        ("read_roots", r#""/y""#, "expected a list of paths, found a string"),
        ("spawn_env_allowlist", r#""PATH""#, "expected a list of variable names, found a string"),
        ("spawn_env_allowlist", "false", "expected a list of variable names, found a boolean"),
        ("spawn_env_allowlist", r#"["A=1"]"#, "item 1: a variable name consists of"),
        ("spawn_env_allowlist", r#"["A",""]"#, "item 2: a variable name consists of"),
        ("spawn_env_allowlist", r#"["LC_*"]"#, "item 1: a variable name consists of"),
        ("spawn_env_allowlist", r#"["1A"]"#, "item 1: a variable name consists of"),
        ("spawn_env_allowlist", r#"["Ä"]"#, "item 1: a variable name consists of"),
        ("spawn_env_allowlist", r#"["A\u0000"]"#, "item 1: the text holds a NUL"),
        ("spawn_env_allowlist", r#"["\udcff"]"#, "item 1: a variable name consists of"),
        ("env_passthrough", r#"["A="]"#, "item 1: a variable name consists of"),
        ("env_passthrough", "[null]", "item 1: expected the name of a variable, found null"),
        ("cwd_hidden_scan_max_entries", "-5", "expected a positive integer, found another number"),
        ("cwd_hidden_scan_max_entries", "0", "expected a positive integer, found another number"),
        ("cwd_hidden_scan_max_entries", "true", "expected a positive integer, found a boolean"),
        ("cwd_hidden_scan_max_entries", "1.0", "expected a positive integer, found another number"),
        ("cwd_hidden_scan_max_entries", "5e4", "expected a positive integer, found another number"),
        ("cwd_hidden_scan_max_entries", "18446744073709551616", "expected a positive integer, found another number"),
        ("cwd_hidden_scan_max_entries", r#""5""#, "expected a positive integer, found a string"),
        ("cwd_hidden_scan_max_entries", "null", "expected a positive integer, found null"),
        ("cwd_hidden_scan_overflow", r#""bogus""#, "expected one of error, warn, unlimited, found another string"),
        ("cwd_hidden_scan_overflow", "null", "expected one of error, warn, unlimited, found null"),
        ("cwd_hidden_scan_recursive", r#""true""#, "expected true or false, found a string"),
        ("egress_relay_port", "true", "expected an integer from 1 to 65535 or null, found a boolean"),
        ("egress_relay_port", "1.9", "expected an integer from 1 to 65535 or null, found another number"),
        ("egress_relay_port", r#""80""#, "expected an integer from 1 to 65535 or null, found a string"),
        ("egress_relay_port", "0", "expected an integer from 1 to 65535 or null, found another number"),
        ("egress_relay_port", "65536", "expected an integer from 1 to 65535 or null, found another number"),
        ("egress_relay_port", "-1", "expected an integer from 1 to 65535 or null, found another number"),
        ("egress_relay_port", "null", "is null, but 'egress_socket_path' needs it"),
        ("egress_socket_path", "null", "is null, but 'egress_relay_port' needs it"),
        ("egress_socket_path", "5", "expected an absolute path, found a number"),
        ("egress_socket_path", r#""e.sock""#, "the path is not absolute"),
        ("copy_on_write_namespace", "[1,2]", "expected a list of three integers or null, found a list of 2"),
        ("copy_on_write_namespace", "[1,2,3,4]", "expected a list of three integers or null, found a list of 4"),
        ("copy_on_write_namespace", "[1,2.0,3]", "item 2: expected an integer of 64 bits, found another number"),
        ("copy_on_write_namespace", "[-0,2,3]", "item 1: expected an integer of 64 bits, found another number"),
        ("copy_on_write_namespace", r#"[1,2,"3"]"#, "item 3: expected an integer of 64 bits, found a string"),
        ("copy_on_write_namespace", "[9223372036854775808,0,0]", "item 1: expected an integer of 64 bits"),
        ("copy_on_write_namespace", "1", "expected a list of three integers or null, found a number"),
        ("cwd_allow_hidden", r#"".git""#, "expected a list of names, found a string"),
        ("cwd_allow_hidden", r#"["."]"#, "item 1: the name is not a single path component"),
        ("cwd_allow_hidden", r#"[".a",".."]"#, "item 2: the name is not a single path component"),
        ("cwd_allow_hidden", r#"["a/b"]"#, "item 1: the name is not a single path component"),
        ("cwd_allow_hidden", r#"["/a"]"#, "item 1: the name is not a single path component"),
        ("cwd_allow_hidden", r#"["a/"]"#, "item 1: the name is not a single path component"),
        ("cwd_allow_hidden", r#"[""]"#, "item 1: the name is not a single path component"),
        ("cwd_allow_hidden", r#"["a\u0000"]"#, "item 1: the text holds a NUL"),
        ("cwd_allow_hidden", "[1]", "item 1: expected a name, found a number"),
    ] {
        check(key, value, words);
    }
    assert!(refused(with(&[("backend_type", r#""none""#)])).contains("'active' is true, but 'backend_type' is 'none'"));
}

#[test]
fn every_list_of_paths_is_read_the_same_way() {
    for key in PATH_LISTS {
        for (value, words) in [
            ("true", "expected a list of paths, found a boolean"),
            (r#"["/ok",null]"#, "item 2: expected an absolute path, found null"),
            ("[1]", "item 1: expected an absolute path, found a number"),
            ("[true]", "item 1: expected an absolute path, found a boolean"),
            (r#"[["/x"]]"#, "item 1: expected an absolute path, found a list"),
            (r#"[{"path":"/x"}]"#, "item 1: expected an absolute path, found an object"),
            (r#"[""]"#, "item 1: expected an absolute path, found an empty string"),
            (r#"["a//b"]"#, "item 1: the path is not absolute"),
            (r#"["./x"]"#, "item 1: the path is not absolute"),
            (r#"["~"]"#, "item 1: the path is not absolute"),
            (r#"["~/x"]"#, "item 1: the path is not absolute"),
            (r#"[" /x"]"#, "item 1: the path is not absolute"),
            (r#"["/a/../b"]"#, "item 1: the path has a '..' in it"),
            (r#"["/.."]"#, "item 1: the path has a '..' in it"),
            (r#"["/a\u002f.\u002e/b"]"#, "item 1: the path has a '..' in it"),
            (r#"["/a\u0000b"]"#, "item 1: the text holds a NUL"),
            (r#"["/\ud83d"]"#, "item 1: the text holds half a surrogate pair"),
            (r#"["/\ud83d\u0041"]"#, "item 1: the text holds half a surrogate pair"),
            (r#"["/\ud83d\n"]"#, "item 1: the text holds half a surrogate pair"),
            (r#"["/\udc7f"]"#, "item 1: the text holds half a surrogate pair"),
            (r#"["/\udd00"]"#, "item 1: the text holds half a surrogate pair"),
            (r#"["/\udc00"]"#, "item 1: the text holds half a surrogate pair"),
            (r#"["/\udfff"]"#, "item 1: the text holds half a surrogate pair"),
        ] {
            check(key, value, words);
        }
    }
}

#[test]
fn paths_lose_only_what_repeats() {
    for (value, path, canonical) in [
        (r#"["/a//b"]"#, &b"/a/b"[..], r#"["/a/b"]"#),
        (r#"["/a//b/"]"#, b"/a/b", r#"["/a/b"]"#),
        (r#"["//a/./b/."]"#, b"/a/b", r#"["/a/b"]"#),
        (r#"["/"]"#, b"/", r#"["/"]"#),
        (r#"["///."]"#, b"/", r#"["/"]"#),
        (r#"["/~/$HOME/..."]"#, b"/~/$HOME/...", r#"["/~/$HOME/..."]"#),
        (r#"["\/a"]"#, b"/a", r#"["/a"]"#),
        (r#"["/\u00E9é"]"#, "/éé".as_bytes(), r#"["/\u00e9\u00e9"]"#),
        (r#"["/\uD83D\uDE00😀"]"#, "/😀😀".as_bytes(), r#"["/\ud83d\ude00\ud83d\ude00"]"#),
        (r#"["/\udc80\uDCFF"]"#, b"/\x80\xff", r#"["/\udc80\udcff"]"#),
        // Escaped bytes that together are UTF-8 are that text: one path, one spelling.
        (r#"["/\udcc3\udca9"]"#, "/é".as_bytes(), r#"["/\u00e9"]"#),
        (r#"["/\udced\udca0\udc80"]"#, b"/\xed\xa0\x80", r#"["/\udced\udca0\udc80"]"#),
        (r#"["/\u0001\b\t\n\f\r\"\\\u007f"]"#, b"/\x01\x08\t\n\x0c\r\"\\\x7f", r#"["/\u0001\b\t\n\f\r\"\\\u007f"]"#),
        (r#"["/a","/a"]"#, b"/a", r#"["/a","/a"]"#),
    ] {
        let record = with(&[("write_roots", value)]).unwrap();
        assert_eq!(record.write_roots[0].as_os_str().as_encoded_bytes(), path, "{value}");
        let json = String::from_utf8(encode_json(&record)).unwrap();
        assert!(json.ends_with(&format!("\"write_roots\":{canonical}}}")), "{json}");
    }
}

#[test]
fn a_socket_address_fits_its_platform() {
    for (backend, most) in [("linux_bwrap", 107), ("darwin_seatbelt", 103)] {
        let socket = |length: usize| format!("\"/{}\"", "s".repeat(length - 1));
        let backend = format!("\"{backend}\"");
        let read = |path: &str| with(&[("backend_type", &backend), ("egress_socket_path", path)]);
        assert!(read(&socket(most)).is_ok());
        let error = refused(read(&socket(most + 1)));
        assert_eq!(error, format!("policy key 'egress_socket_path': the address of a socket has at most {most} bytes"));
    }
}

#[test]
fn values_at_the_edge_are_taken() {
    for (key, value) in [
        ("cwd_hidden_scan_max_entries", "1"),
        ("cwd_hidden_scan_max_entries", "18446744073709551615"),
        ("egress_relay_port", "1"),
        ("egress_relay_port", "65535"),
        ("copy_on_write_namespace", "[-9223372036854775808,0,9223372036854775807]"),
        ("cwd_allow_hidden", r#"["*"]"#),
        ("cwd_allow_hidden", r#"["...","a b","\udcff","\\"]"#),
        ("cwd_allow_hidden", "[]"),
        ("spawn_env_allowlist", "[]"),
        ("spawn_env_allowlist", r#"["_","a1","Path","PATH","PATH"]"#),
        ("read_roots", "null"),
    ] {
        let record = with(&[(key, value)]).unwrap();
        let json = String::from_utf8(encode_json(&record)).unwrap();
        assert!(json.contains(&format!("\"{key}\":{value},")), "{json}");
        assert_eq!(decode_json(json.as_bytes()).unwrap(), record);
    }
}

#[test]
fn nothing_is_lost_for_the_sake_of_an_old_generation() {
    let old = decode(vectors::NONE_14.text.as_bytes()).unwrap();
    let written = |change: fn(&mut Record)| {
        let mut record = old.clone();
        change(&mut record);
        let read = decode(encode(&record).as_bytes()).unwrap();
        assert_eq!(read, Record { generation: read.generation, ..record });
        read.generation
    };
    assert_eq!(written(|_| ()), Generation::Fourteen);
    assert_eq!(written(|record| record.mask_paths = Some(vec!["/m".into()])), Generation::Sixteen);
    assert_eq!(written(|record| record.cwd_hidden_scan_recursive = false), Generation::Sixteen);
    assert_eq!(written(|record| record.copy_on_write_roots = vec!["/w".into()]), Generation::Nineteen);
    assert_eq!(written(|record| record.copy_on_write_namespace = Some([0; 3])), Generation::Nineteen);
    assert_eq!(written(|record| record.credential_source_paths = Some(vec![])), Generation::Nineteen);
}
