//! Records with the text that stands for them: three from the program that made the format, two by its rules.

/// A record's JSON and its payload text.
#[derive(Debug)]
pub(super) struct Vector {
    pub(super) json: &'static str,
    pub(super) text: &'static str,
}

/// Sixteen keys, no sandbox.
pub(super) const NONE_16: Vector = Vector {
    json: concat!(
        r#"{"active":false,"allow_network":true,"backend_type":"none","cwd_allow_hidden":null,"#,
        r#""cwd_hidden_scan_max_entries":50000,"cwd_hidden_scan_overflow":"warn","#,
        r#""cwd_hidden_scan_recursive":false,"deny_unix_socket_paths":null,"#,
        r#""egress_relay_port":null,"egress_socket_path":null,"env_passthrough":null,"#,
        r#""mask_paths":null,"read_roots":null,"spawn_env_allowlist":null,"write_files":[],"#,
        r#""write_roots":[]}"#,
    ),
    text: concat!(
        "eyJhY3RpdmUiOmZhbHNlLCJhbGxvd19uZXR3b3JrIjp0cnVlLCJiYWNrZW5kX3R5cGUiOiJub25lIiwiY3dkX2FsbG93X2hpZGRl",
        "biI6bnVsbCwiY3dkX2hpZGRlbl9zY2FuX21heF9lbnRyaWVzIjo1MDAwMCwiY3dkX2hpZGRlbl9zY2FuX292ZXJmbG93Ijoid2Fy",
        "biIsImN3ZF9oaWRkZW5fc2Nhbl9yZWN1cnNpdmUiOmZhbHNlLCJkZW55X3VuaXhfc29ja2V0X3BhdGhzIjpudWxsLCJlZ3Jlc3Nf",
        "cmVsYXlfcG9ydCI6bnVsbCwiZWdyZXNzX3NvY2tldF9wYXRoIjpudWxsLCJlbnZfcGFzc3Rocm91Z2giOm51bGwsIm1hc2tfcGF0",
        "aHMiOm51bGwsInJlYWRfcm9vdHMiOm51bGwsInNwYXduX2Vudl9hbGxvd2xpc3QiOm51bGwsIndyaXRlX2ZpbGVzIjpbXSwid3Jp",
        "dGVfcm9vdHMiOltdfQ==",
    ),
};

/// Fourteen keys, no sandbox; needs no padding.
pub(super) const NONE_14: Vector = Vector {
    json: concat!(
        r#"{"active":false,"allow_network":true,"backend_type":"none","cwd_allow_hidden":null,"#,
        r#""cwd_hidden_scan_max_entries":50000,"cwd_hidden_scan_overflow":"warn","#,
        r#""deny_unix_socket_paths":null,"egress_relay_port":null,"egress_socket_path":null,"#,
        r#""env_passthrough":null,"read_roots":null,"spawn_env_allowlist":null,"write_files":[],"#,
        r#""write_roots":[]}"#,
    ),
    text: concat!(
        "eyJhY3RpdmUiOmZhbHNlLCJhbGxvd19uZXR3b3JrIjp0cnVlLCJiYWNrZW5kX3R5cGUiOiJub25lIiwiY3dkX2FsbG93X2hpZGRl",
        "biI6bnVsbCwiY3dkX2hpZGRlbl9zY2FuX21heF9lbnRyaWVzIjo1MDAwMCwiY3dkX2hpZGRlbl9zY2FuX292ZXJmbG93Ijoid2Fy",
        "biIsImRlbnlfdW5peF9zb2NrZXRfcGF0aHMiOm51bGwsImVncmVzc19yZWxheV9wb3J0IjpudWxsLCJlZ3Jlc3Nfc29ja2V0X3Bh",
        "dGgiOm51bGwsImVudl9wYXNzdGhyb3VnaCI6bnVsbCwicmVhZF9yb290cyI6bnVsbCwic3Bhd25fZW52X2FsbG93bGlzdCI6bnVs",
        "bCwid3JpdGVfZmlsZXMiOltdLCJ3cml0ZV9yb290cyI6W119",
    ),
};

/// Sixteen keys with an accent, a character beyond U+FFFF and the byte 0xFF in paths.
pub(super) const BWRAP_16: Vector = Vector {
    json: concat!(
        r#"{"active":true,"allow_network":false,"backend_type":"linux_bwrap","#,
        r#""cwd_allow_hidden":null,"cwd_hidden_scan_max_entries":50000,"#,
        r#""cwd_hidden_scan_overflow":"warn","cwd_hidden_scan_recursive":false,"#,
        r#""deny_unix_socket_paths":["/tmp/\udcff.sock"],"egress_relay_port":null,"#,
        r#""egress_socket_path":null,"env_passthrough":null,"mask_paths":null,"#,
        r#""read_roots":["/srv/donn\u00e9es","/srv/\ud83d\ude00"],"spawn_env_allowlist":["HOME","#,
        r#""PATH"],"write_files":[],"write_roots":["/w s"]}"#,
    ),
    text: concat!(
        "eyJhY3RpdmUiOnRydWUsImFsbG93X25ldHdvcmsiOmZhbHNlLCJiYWNrZW5kX3R5cGUiOiJsaW51eF9id3JhcCIsImN3ZF9hbGxv",
        "d19oaWRkZW4iOm51bGwsImN3ZF9oaWRkZW5fc2Nhbl9tYXhfZW50cmllcyI6NTAwMDAsImN3ZF9oaWRkZW5fc2Nhbl9vdmVyZmxv",
        "dyI6Indhcm4iLCJjd2RfaGlkZGVuX3NjYW5fcmVjdXJzaXZlIjpmYWxzZSwiZGVueV91bml4X3NvY2tldF9wYXRocyI6WyIvdG1w",
        "L1x1ZGNmZi5zb2NrIl0sImVncmVzc19yZWxheV9wb3J0IjpudWxsLCJlZ3Jlc3Nfc29ja2V0X3BhdGgiOm51bGwsImVudl9wYXNz",
        "dGhyb3VnaCI6bnVsbCwibWFza19wYXRocyI6bnVsbCwicmVhZF9yb290cyI6WyIvc3J2L2Rvbm5cdTAwZTllcyIsIi9zcnYvXHVk",
        "ODNkXHVkZTAwIl0sInNwYXduX2Vudl9hbGxvd2xpc3QiOlsiSE9NRSIsIlBBVEgiXSwid3JpdGVfZmlsZXMiOltdLCJ3cml0ZV9y",
        "b290cyI6WyIvdyBzIl19",
    ),
};

/// Nineteen keys, no sandbox.
pub(super) const NONE_19: Vector = Vector {
    json: concat!(
        r#"{"active":false,"allow_network":true,"backend_type":"none","#,
        r#""copy_on_write_namespace":null,"copy_on_write_roots":[],"#,
        r#""credential_source_paths":null,"cwd_allow_hidden":null,"#,
        r#""cwd_hidden_scan_max_entries":50000,"cwd_hidden_scan_overflow":"warn","#,
        r#""cwd_hidden_scan_recursive":false,"deny_unix_socket_paths":null,"#,
        r#""egress_relay_port":null,"egress_socket_path":null,"env_passthrough":null,"#,
        r#""mask_paths":null,"read_roots":null,"spawn_env_allowlist":null,"write_files":[],"#,
        r#""write_roots":[]}"#,
    ),
    text: concat!(
        "eyJhY3RpdmUiOmZhbHNlLCJhbGxvd19uZXR3b3JrIjp0cnVlLCJiYWNrZW5kX3R5cGUiOiJub25lIiwiY29weV9vbl93cml0ZV9u",
        "YW1lc3BhY2UiOm51bGwsImNvcHlfb25fd3JpdGVfcm9vdHMiOltdLCJjcmVkZW50aWFsX3NvdXJjZV9wYXRocyI6bnVsbCwiY3dk",
        "X2FsbG93X2hpZGRlbiI6bnVsbCwiY3dkX2hpZGRlbl9zY2FuX21heF9lbnRyaWVzIjo1MDAwMCwiY3dkX2hpZGRlbl9zY2FuX292",
        "ZXJmbG93Ijoid2FybiIsImN3ZF9oaWRkZW5fc2Nhbl9yZWN1cnNpdmUiOmZhbHNlLCJkZW55X3VuaXhfc29ja2V0X3BhdGhzIjpu",
        "dWxsLCJlZ3Jlc3NfcmVsYXlfcG9ydCI6bnVsbCwiZWdyZXNzX3NvY2tldF9wYXRoIjpudWxsLCJlbnZfcGFzc3Rocm91Z2giOm51",
        "bGwsIm1hc2tfcGF0aHMiOm51bGwsInJlYWRfcm9vdHMiOm51bGwsInNwYXduX2Vudl9hbGxvd2xpc3QiOm51bGwsIndyaXRlX2Zp",
        "bGVzIjpbXSwid3JpdGVfcm9vdHMiOltdfQ==",
    ),
};

/// Nineteen keys with copy-on-write, masks and allowlists.
pub(super) const BWRAP_19: Vector = Vector {
    json: concat!(
        r#"{"active":true,"allow_network":false,"backend_type":"linux_bwrap","#,
        r#""copy_on_write_namespace":null,"copy_on_write_roots":["/w"],"#,
        r#""credential_source_paths":null,"cwd_allow_hidden":[".git",".venv"],"#,
        r#""cwd_hidden_scan_max_entries":50000,"cwd_hidden_scan_overflow":"error","#,
        r#""cwd_hidden_scan_recursive":false,"deny_unix_socket_paths":null,"#,
        r#""egress_relay_port":null,"egress_socket_path":null,"env_passthrough":null,"#,
        r#""mask_paths":["/w/.env"],"read_roots":[],"spawn_env_allowlist":["HOME","PATH"],"#,
        r#""write_files":[],"write_roots":["/w"]}"#,
    ),
    text: concat!(
        "eyJhY3RpdmUiOnRydWUsImFsbG93X25ldHdvcmsiOmZhbHNlLCJiYWNrZW5kX3R5cGUiOiJsaW51eF9id3JhcCIsImNvcHlfb25f",
        "d3JpdGVfbmFtZXNwYWNlIjpudWxsLCJjb3B5X29uX3dyaXRlX3Jvb3RzIjpbIi93Il0sImNyZWRlbnRpYWxfc291cmNlX3BhdGhz",
        "IjpudWxsLCJjd2RfYWxsb3dfaGlkZGVuIjpbIi5naXQiLCIudmVudiJdLCJjd2RfaGlkZGVuX3NjYW5fbWF4X2VudHJpZXMiOjUw",
        "MDAwLCJjd2RfaGlkZGVuX3NjYW5fb3ZlcmZsb3ciOiJlcnJvciIsImN3ZF9oaWRkZW5fc2Nhbl9yZWN1cnNpdmUiOmZhbHNlLCJk",
        "ZW55X3VuaXhfc29ja2V0X3BhdGhzIjpudWxsLCJlZ3Jlc3NfcmVsYXlfcG9ydCI6bnVsbCwiZWdyZXNzX3NvY2tldF9wYXRoIjpu",
        "dWxsLCJlbnZfcGFzc3Rocm91Z2giOm51bGwsIm1hc2tfcGF0aHMiOlsiL3cvLmVudiJdLCJyZWFkX3Jvb3RzIjpbXSwic3Bhd25f",
        "ZW52X2FsbG93bGlzdCI6WyJIT01FIiwiUEFUSCJdLCJ3cml0ZV9maWxlcyI6W10sIndyaXRlX3Jvb3RzIjpbIi93Il19",
    ),
};

/// All of them.
pub(super) const ALL: [Vector; 5] = [NONE_16, NONE_14, BWRAP_16, NONE_19, BWRAP_19];
