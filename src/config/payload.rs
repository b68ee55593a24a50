//! The wire form of a policy: base64url text around a JSON record, read strictly and written canonically.
//!
//! Pure: nothing here reads a file, knows this host or decides what a record means for a run. Nothing is guessed: a key
//! that is missing, unknown, repeated or of the wrong type is an error that names it, because a reader that fills gaps
//! in turns a damaged policy into a weaker one. Error texts name keys and positions and hold no part of a value: paths
//! and names may be private.
//!
//! A *generation* is one of the three sets of keys in which records exist; a record has exactly the keys of one.

mod read;
mod text;
mod write;

#[cfg(test)]
#[cfg(unix)]
mod tests;

use std::ffi::OsString;
use std::num::NonZero;
use std::path::PathBuf;

use anyhow::Result;

pub use crate::policy::hidden::Overflow;
pub use write::{encode, encode_json};

/// The most bytes of text, or of bare JSON, that are looked at; what is longer is refused before it is decoded.
pub const MAX_TEXT: usize = 1 << 20;

/// The backend that is no sandbox; the only one of an inactive record.
const NONE: &str = "none";

/// The macOS backend, whose socket addresses are shorter.
const SEATBELT: &str = "darwin_seatbelt";

/// Every `backend_type` there is.
const BACKENDS: [&str; 4] = ["linux_bwrap", SEATBELT, "windows_jobobject", NONE];

/// A set of keys in which records exist, named by its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// The first: without the two keys of [`Generation::Sixteen`], always scanning recursively.
    Fourteen,
    /// Adds `cwd_hidden_scan_recursive` and `mask_paths`.
    Sixteen,
    /// Adds `copy_on_write_namespace`, `copy_on_write_roots` and `credential_source_paths`.
    Nineteen,
}

/// A record: each field is the key of the same name, checked; whether a backend honours it is decided elsewhere.
///
/// Paths are absolute, without `.`, `..` and repeated slashes, and any bytes but NUL. Lists keep their order. Where a
/// field is optional, `None` is the wire's null, or a key that the generation does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The set of keys that was read, or the smallest one to write; see [`encode_json`].
    pub generation: Generation,
    /// Whether any sandbox is applied; true exactly when `backend_type` is not `none`.
    pub active: bool,
    /// Whether the target may use the network. The egress fields force isolation whatever this says.
    pub allow_network: bool,
    /// `linux_bwrap`, `darwin_seatbelt`, `windows_jobobject` or `none`.
    pub backend_type: String,
    /// Identity of the overlay namespace: three integers.
    pub copy_on_write_namespace: Option<[i64; 3]>,
    /// Directories whose changes are thrown away.
    pub copy_on_write_roots: Vec<PathBuf>,
    /// Credential files that nothing mounted may contain.
    pub credential_source_paths: Option<Vec<PathBuf>>,
    /// Hidden names left visible: each a single path component, or `*` for all. An empty list masks every one.
    pub cwd_allow_hidden: Option<Vec<OsString>>,
    /// The most entries that the scan for hidden names visits.
    pub cwd_hidden_scan_max_entries: NonZero<u64>,
    /// What happens beyond that.
    pub cwd_hidden_scan_overflow: Overflow,
    /// Whether the scan descends below the top level; always true in [`Generation::Fourteen`], which has no key for it.
    pub cwd_hidden_scan_recursive: bool,
    /// Unix sockets that must not be connectable.
    pub deny_unix_socket_paths: Option<Vec<PathBuf>>,
    /// Loopback TCP port of the relay inside the sandbox, never 0; present exactly with `egress_socket_path`.
    pub egress_relay_port: Option<u16>,
    /// Unix socket of the filtering proxy, as seen inside, at most 107 bytes (macOS: 103).
    pub egress_socket_path: Option<PathBuf>,
    /// Names of variables that the process which asks for the sandbox may inherit itself.
    pub env_passthrough: Option<Vec<String>>,
    /// Paths that must not be visible.
    pub mask_paths: Option<Vec<PathBuf>>,
    /// Read-only grants.
    pub read_roots: Option<Vec<PathBuf>>,
    /// Names of the only variables that reach the target; an empty list lets none through.
    pub spawn_env_allowlist: Option<Vec<String>>,
    /// Single files that may be written.
    pub write_files: Vec<PathBuf>,
    /// Directories that may be written.
    pub write_roots: Vec<PathBuf>,
}

/// Reads base64url text as it was typed: white space at the ends is ignored, padding is optional but must be right.
///
/// The error gives the position of a wrong character, counted from 1, or names the key of a wrong value.
pub fn decode(text: &[u8]) -> Result<Record> {
    decode_json(&text::decode(text)?)
}

/// Reads the bare JSON of a record; white space around the value is ignored.
pub fn decode_json(json: &[u8]) -> Result<Record> {
    text::check_size(json)?;
    read::record(json)
}
