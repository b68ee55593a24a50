//! Payloads for tests: records as pairs of key and JSON, and the five whose text is fixed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_URL_SAFE, Engine as _};

use crate::harness::{Call, World};

/// A record under construction: the sixteen keys of an active one in their order, values as JSON.
#[derive(Clone)]
pub struct Record(Vec<(String, String)>);

impl Record {
    /// A sandbox that gives away nothing but what its `write_roots` name: the world's `w`.
    pub fn new(world: &World) -> Self {
        let members = [
            ("active", "true"),
            ("allow_network", "false"),
            ("backend_type", r#""linux_bwrap""#),
            ("cwd_allow_hidden", "[]"),
            ("cwd_hidden_scan_max_entries", "50000"),
            ("cwd_hidden_scan_overflow", r#""error""#),
            ("cwd_hidden_scan_recursive", "true"),
            ("deny_unix_socket_paths", "null"),
            ("egress_relay_port", "null"),
            ("egress_socket_path", "null"),
            ("env_passthrough", "null"),
            ("mask_paths", "null"),
            ("read_roots", "null"),
            ("spawn_env_allowlist", r#"["HOME","PATH"]"#),
            ("write_files", "[]"),
        ];
        let mut members: Vec<_> = members.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        members.push(("write_roots".into(), list([world.path("w")])));
        Self(members)
    }

    /// The same with another value, or one more key.
    pub fn with(mut self, key: &str, value: impl Into<String>) -> Self {
        let value = value.into();
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some(member) => member.1 = value,
            None => self.0.push((key.into(), value)),
        }
        self
    }

    /// The same without a key.
    pub fn without(mut self, key: &str) -> Self {
        let before = self.0.len();
        self.0.retain(|(known, _)| known != key);
        assert_eq!(self.0.len() + 1, before, "{key}");
        self
    }

    /// The same with a second value for a key that has one.
    pub fn twice(mut self, key: &str, value: &str) -> Self {
        self.0.push((key.into(), value.into()));
        self
    }

    /// With the keys of the newest generation.
    pub fn nineteen(self) -> Self {
        self.with("copy_on_write_namespace", "null")
            .with("copy_on_write_roots", "[]")
            .with("credential_source_paths", "null")
    }

    /// The JSON, compact, in order of the keys.
    pub fn json(&self) -> String {
        let mut members = self.0.clone();
        members.sort_by(|a, b| a.0.cmp(&b.0));
        let members: Vec<_> = members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    }

    /// The payload.
    pub fn text(&self) -> String {
        encode(self.json())
    }
}

/// Base64url with padding.
pub fn encode(json: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE.encode(json)
}

/// Paths as a JSON list.
pub fn list(paths: impl IntoIterator<Item = PathBuf>) -> String {
    let paths: Vec<_> = paths.into_iter().collect();
    serde_json::to_string(&paths).expect("paths are text")
}

/// A directory of the fixtures.
pub fn fixtures(name: &str) -> PathBuf {
    // Not the one of the build: another user runs the tests from a copy of the tree.
    let top = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&top).join("tests/fixtures/policies").join(name)
}

/// JSON and payload of a fixed record.
pub fn vector(name: &str) -> (String, String) {
    let read = |ending: &str| fs::read_to_string(fixtures("vectors").join(format!("{name}.{ending}"))).expect(name);
    (read("json"), read("payload"))
}

/// Names of all of them.
pub const VECTORS: [&str; 5] = ["none-16", "none-14", "bwrap-16", "none-19", "bwrap-19"];

/// A call with this payload behind descriptor 3, which takes every byte and every length.
pub fn call(world: &World, payload: &[u8], words: &[&str]) -> Call {
    let mut file = tempfile::tempfile().expect("file");
    std::io::Write::write_all(&mut file, payload).expect("written");
    std::io::Seek::rewind(&mut file).expect("rewound");
    descriptor(world, file, words)
}

/// A call with the payload that this file holds behind descriptor 3.
pub fn descriptor(world: &World, file: File, words: &[&str]) -> Call {
    world.run([&["--policy-fd", "3"], words].concat()).fd(file, 3)
}
