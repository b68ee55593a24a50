//! From a [`Record`] to its one canonical spelling: sorted keys, no blanks, ASCII only.
//!
//! Checks nothing and drops nothing.

use std::ffi::OsStr;
use std::path::Path;

use base64::engine::general_purpose::URL_SAFE;
use base64::prelude::*;

use super::{Generation, Record};

/// Writes the record as padded base64url text: the same record always gives the same bytes.
#[must_use]
pub fn encode(record: &Record) -> String {
    URL_SAFE.encode(encode_json(record))
}

/// Writes the record as compact JSON with sorted keys.
///
/// Everything but printable ASCII is escaped as `\u` with lower-case digits, beyond U+FFFF as a surrogate pair; a byte
/// that is not UTF-8 becomes a lone surrogate from `\udc80` to `\udcff`. A record that holds what its generation has no
/// key for is written in the next generation that has one: a mask is never lost for the sake of an old form.
#[must_use]
pub fn encode_json(record: &Record) -> Vec<u8> {
    let generation = smallest_generation(record).max(record.generation);
    let sixteen = generation >= Generation::Sixteen;
    let nineteen = generation >= Generation::Nineteen;
    // Taken apart without `..`, so that a new field cannot be forgotten here.
    let Record {
        generation: _,
        active,
        allow_network,
        backend_type,
        copy_on_write_namespace,
        copy_on_write_roots,
        credential_source_paths,
        cwd_allow_hidden,
        cwd_hidden_scan_max_entries,
        cwd_hidden_scan_overflow,
        cwd_hidden_scan_recursive,
        deny_unix_socket_paths,
        egress_relay_port,
        egress_socket_path,
        env_passthrough,
        mask_paths,
        read_roots,
        spawn_env_allowlist,
        write_files,
        write_roots,
    } = record;
    let mut out = Object(String::new());
    out.plain("active", active);
    out.plain("allow_network", allow_network);
    out.text("backend_type", Some(backend_type.as_ref()));
    if nineteen {
        out.integers("copy_on_write_namespace", copy_on_write_namespace.as_ref());
        out.list("copy_on_write_roots", Some(copy_on_write_roots));
        out.list("credential_source_paths", credential_source_paths.as_ref());
    }
    out.list("cwd_allow_hidden", cwd_allow_hidden.as_ref());
    out.plain("cwd_hidden_scan_max_entries", cwd_hidden_scan_max_entries);
    out.text("cwd_hidden_scan_overflow", Some(cwd_hidden_scan_overflow.word().as_ref()));
    if sixteen {
        out.plain("cwd_hidden_scan_recursive", cwd_hidden_scan_recursive);
    }
    out.list("deny_unix_socket_paths", deny_unix_socket_paths.as_ref());
    match egress_relay_port {
        Some(port) => out.plain("egress_relay_port", port),
        None => out.plain("egress_relay_port", "null"),
    }
    out.text("egress_socket_path", egress_socket_path.as_deref().map(Path::as_os_str));
    out.list("env_passthrough", env_passthrough.as_ref());
    if sixteen {
        out.list("mask_paths", mask_paths.as_ref());
    }
    out.list("read_roots", read_roots.as_ref());
    out.list("spawn_env_allowlist", spawn_env_allowlist.as_ref());
    out.list("write_files", Some(write_files));
    out.list("write_roots", Some(write_roots));
    out.finish()
}

/// The first generation that has a key for everything the record says.
fn smallest_generation(record: &Record) -> Generation {
    let copies = record.copy_on_write_namespace.is_some() || !record.copy_on_write_roots.is_empty();
    if copies || record.credential_source_paths.is_some() {
        Generation::Nineteen
    } else if record.mask_paths.is_some() || !record.cwd_hidden_scan_recursive {
        Generation::Sixteen
    } else {
        Generation::Fourteen
    }
}

/// An object in the making; a `String`, so that it cannot be anything but text.
struct Object(String);

impl Object {
    fn key(&mut self, key: &str) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        string(&mut self.0, key.as_ref());
        self.0.push(':');
    }

    /// A value whose own text is JSON: a number, a boolean, null.
    fn plain(&mut self, key: &str, value: &(impl ToString + ?Sized)) {
        self.key(key);
        self.0.push_str(&value.to_string());
    }

    fn text(&mut self, key: &str, value: Option<&OsStr>) {
        match value {
            Some(value) => {
                self.key(key);
                string(&mut self.0, value);
            }
            None => self.plain(key, "null"),
        }
    }

    fn list<T: AsRef<OsStr>>(&mut self, key: &str, values: Option<&Vec<T>>) {
        let write = |out: &mut String, value: &T| string(out, value.as_ref());
        self.items(key, values.map(Vec::as_slice), write);
    }

    fn integers(&mut self, key: &str, values: Option<&[i64; 3]>) {
        self.items(key, values.map(<[i64; 3]>::as_slice), |out, value| out.push_str(&value.to_string()));
    }

    fn items<T>(&mut self, key: &str, values: Option<&[T]>, write: impl Fn(&mut String, &T)) {
        let Some(values) = values else { return self.plain(key, "null") };
        self.key(key);
        self.0.push('[');
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                self.0.push(',');
            }
            write(&mut self.0, value);
        }
        self.0.push(']');
    }

    fn finish(mut self) -> Vec<u8> {
        self.0.push('}');
        self.0.into_bytes()
    }
}

/// Appends `text` as a JSON string.
fn string(out: &mut String, text: &OsStr) {
    out.push('"');
    for chunk in text.as_encoded_bytes().utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                ' '..='~' => out.push(char),
                _ => char.encode_utf16(&mut [0; 2]).iter().for_each(|&unit| escape(out, unit)),
            }
        }
        chunk.invalid().iter().for_each(|&byte| escape(out, 0xDC00 + u16::from(byte)));
    }
    out.push('"');
}

fn escape(out: &mut String, unit: u16) {
    out.push_str("\\u");
    for shift in [12, 8, 4, 0] {
        out.extend(char::from_digit(u32::from(unit >> shift) & 0xF, 16));
    }
}
