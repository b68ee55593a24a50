//! Every key has its texts, and what is proposed for a wrong one leads nowhere worse.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::value::Error;
use serde::de::{Deserializer, Error as _, Visitor};

use super::super::document::Document;
use super::*;

/// Accepts no value; its error holds the names of the fields.
struct Keys;

impl<'de> Deserializer<'de> for Keys {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("not a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        Err(Error::custom(fields.join(" ")))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[test]
fn the_table_has_the_keys_of_the_type_in_its_order() {
    let keys = Document::deserialize(Keys).unwrap_err().to_string();
    assert_eq!(keys, FIELDS.map(|field| field.key).join(" "));
}

#[test]
fn no_name_leads_to_two_keys() {
    let names: Vec<_> = FIELDS.iter().flat_map(|field| field.guesses.iter().chain([&field.key])).collect();
    let set: BTreeSet<_> = names.iter().collect();
    assert_eq!(names.len(), set.len());
}

#[test]
fn each_backend_has_a_sentence_for_each_key() {
    for field in FIELDS {
        for backend in Backend::ALL {
            assert!(field.does(backend).ends_with('.'), "{}", field.key);
        }
        assert!(field.about.ends_with('.') && !field.default.is_empty(), "{}", field.key);
    }
}

#[test]
fn a_near_miss_finds_its_key() {
    for (word, key) in [
        ("alow_network", "allow_network"),
        ("allowNetwork", "allow_network"),
        ("allow-network", "allow_network"),
        ("network", "allow_network"),
        ("alowRead", "read_roots"),
        ("readRoots", "read_roots"),
        ("read_root", "read_roots"),
        ("ReadRoots", "read_roots"),
        ("denyRead", "mask_paths"),
        ("maskPaths", "mask_paths"),
        ("mask_path", "mask_paths"),
        ("allowUnixSockets", "allow_unix_socket_paths"),
        ("deny_unix_socket_path", "deny_unix_socket_paths"),
        ("sandbox_backend", "backend_type"),
        ("env_allowlist", "spawn_env_allowlist"),
        ("envAllowlist", "spawn_env_allowlist"),
        ("credential_source_paths", "mask_paths"),
        ("block_unix_sockets", "deny_unix_socket_paths"),
        ("cwd_allow_hiden", "cwd_allow_hidden"),
        ("hidden_paths", "mask_paths"),
        ("envSet", "env_set"),
        ("workDir", "workdir"),
        ("write_root", "write_roots"),
        ("writeFiles", "write_files"),
        ("profile", "extends"),
        ("wall_time", "timeout"),
        ("time_out", "timeout"),
        ("timeoutMs", "timeout"),
        ("max_memory", "memory"),
        ("memoryMax", "memory"),
        ("max_memory_mb", "memory"),
        ("memory_limit_mb", "memory"),
        ("max_cpu_seconds", "cpu_time"),
        ("nproc", "max_procs"),
        ("pids_limit", "max_procs"),
        ("max_processes", "max_procs"),
        ("fsize", "max_file_size"),
        ("max_file_size_mb", "max_file_size"),
        ("rlimit_nofile", "max_open_files"),
        ("max_output_bytes", "max_output"),
    ] {
        assert_eq!(nearest(word), Some(key), "{word}");
    }
    for word in ["", "x", "zzzzzzzz", "rate_limit_calls", "active"] {
        assert_eq!(nearest(word), None, "{word}");
    }
}

/// What takes something away leads to no key that gives, and what gives to none that takes away.
#[test]
fn no_suggestion_is_the_opposite() {
    let takes = |key: &str| ["mask_paths", "protect_paths", "deny_unix_socket_paths"].contains(&key);
    let names = || FIELDS.iter().flat_map(|field| field.guesses.iter().chain([&field.key]));
    for name in names() {
        for start in ["no_", "no", "not_", "deny_", "block_", "disable_", "disallow_", "forbid_", "un", "without_"] {
            let word = format!("{start}{name}");
            // `nofile` is a limit in its own right.
            let own = word.starts_with("nofile");
            assert!(own || nearest(&word).is_none_or(takes), "{word}: {:?}", nearest(&word));
        }
        for start in ["allow_", "allowed_", "permit_", "show_", "enable_"] {
            let word = format!("{start}{name}");
            assert!(!nearest(&word).is_some_and(takes), "{word}: {:?}", nearest(&word));
        }
    }
    for word in ["unset_env", "hidden", "env_denylist", "env_blacklist", "nonetwork", "network_disabled", "dotfiles"] {
        assert_eq!(remark(word), None, "{word}");
    }
}

#[test]
fn what_is_no_key_is_said_to_be_none() {
    for (word, said) in [
        ("no_network", "did you mean 'allow_network = false'?"),
        ("disableNetwork", "did you mean 'allow_network = false'?"),
        ("no_default_env", "did you mean 'env_default = false'?"),
        ("no-create-missing", "did you mean 'create_missing = false'?"),
        ("copy_on_write_roots", "copy-on-write is not available"),
        ("egress_relay_port", "filtered egress is not available"),
    ] {
        assert_eq!(remark(word).as_deref(), Some(said), "{word}");
    }
    for word in ["no_write_roots", "no_timeout", "no_env"] {
        assert_eq!(remark(word), None, "{word}");
    }
}
