//! Which variable names mean what: the tables behind the environment rules.
//!
//! Exact names and prefixes only; what a name looks like is used for nothing but holding variables back from a wildcard.
//! Every table is sorted by bytes, so that a look-up costs the same in an environment of thousands.

/// Passed by default when the caller has them. `PATH`, `HOME` and the temporary directory are the launcher's, see there.
pub const DEFAULTS: &[&str] = &[
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLORTERM",
    "FORCE_COLOR",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "NO_COLOR",
    "SHELL",
    "TERM",
    "TZ",
    "USER",
];

/// The one prefix that passes by default, under the rules of a typed wildcard.
pub const DEFAULT_PREFIX: &str = "LC_";

/// Variables whose inherited value never passes: each one runs code, redirects a library or opens a vault in the first
/// program that starts.
pub const DENIED: &[&str] = &[
    "BASHOPTS",
    "BASH_ENV",
    "BW_SESSION",
    "CDPATH",
    "CLASSPATH",
    "COR_ENABLE_PROFILING",
    "COR_PROFILER",
    "DOTNET_STARTUP_HOOKS",
    "ENV",
    "FPATH",
    "GCONV_PATH",
    "GEM_HOME",
    "GEM_PATH",
    "GETCONF_DIR",
    "GLIBC_TUNABLES",
    "GLOBIGNORE",
    "GOFLAGS",
    "HOSTALIASES",
    "IFS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "LOCALDOMAIN",
    "LOCPATH",
    "LUA_CPATH",
    "LUA_INIT",
    "LUA_PATH",
    "NLSPATH",
    "NODE_OPTIONS",
    "NODE_PATH",
    "OP_SERVICE_ACCOUNT_TOKEN",
    "PERL5DB",
    "PERL5LIB",
    "PERL5OPT",
    "PERLLIB",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS4",
    "PYTHONHOME",
    "PYTHONINSPECT",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RESOLV_HOST_CONF",
    "RES_OPTIONS",
    "RUBYLIB",
    "RUBYOPT",
    "SHELLOPTS",
    "VAULT_TOKEN",
    "ZDOTDIR",
    "_JAVA_OPTIONS",
    "__COMPAT_LAYER",
];

/// Beginnings of names whose inherited value never passes. `LUA_…_` are the forms with a version,
/// read before the plain ones.
pub const DENIED_PREFIXES: &[&str] = &[
    "BASH_FUNC_",
    "CORECLR_",
    "DYLD_",
    "LD_",
    "LUA_CPATH_",
    "LUA_INIT_",
    "LUA_PATH_",
    "MALLOC_",
    "Malloc",
    "OP_SESSION_",
];

/// Names under which the launcher of the payload format's own tool has kept its variables over time.
const FOREIGN_LAUNCHERS: &[&str] = &["OMNIAGENTS_", "OMNIGENTS_", "OMNIGENT_"];

/// Variables that no wildcard admits, though nothing in the name looks secret: sockets, values that are commands, CA
/// bundles. Proxies have a rule of their own.
pub const BY_NAME_ONLY: &[&str] = &[
    "AWS_CA_BUNDLE",
    "BUNDLE_SSL_CA_CERT",
    "CARGO_HTTP_CAINFO",
    "COMPOSER_CAFILE",
    "CONTAINER_HOST",
    "CURL_CA_BUNDLE",
    "DATABASE_URL",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "DENO_CERT",
    "DOCKER_HOST",
    "GIT_ASKPASS",
    "GIT_CONFIG",
    "GIT_DIR",
    "GIT_EDITOR",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_PROXY_COMMAND",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSL_CAINFO",
    "GIT_TEMPLATE_DIR",
    "GIT_WORK_TREE",
    "GPG_AGENT_INFO",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "NIX_SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "NOTIFY_SOCKET",
    "OPENSSL_CONF",
    "PIP_CERT",
    "PULSE_SERVER",
    "REQUESTS_CA_BUNDLE",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "SSH_AGENT_PID",
    "SSH_ASKPASS",
    "SSH_AUTH_SOCK",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "WAYLAND_DISPLAY",
    "WAYLAND_SOCKET",
    "XDG_RUNTIME_DIR",
];

/// Those of them by which programs find the certificates of authorities.
const CA_BUNDLES: &[&str] = &[
    "AWS_CA_BUNDLE",
    "BUNDLE_SSL_CA_CERT",
    "CARGO_HTTP_CAINFO",
    "COMPOSER_CAFILE",
    "CURL_CA_BUNDLE",
    "DENO_CERT",
    "GIT_SSL_CAINFO",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "NIX_SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

const BY_NAME_ONLY_PREFIXES: &[&str] = &["CLOUDSDK_PROXY_", "GIT_CONFIG_"];

/// Toolchains, as far as their variables belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toolchain {
    /// Rust.
    Rust,
    /// Node and its version managers.
    Node,
    /// Python, its version managers and environments.
    Python,
    /// Go.
    Go,
    /// Every other one; none of their variables depends on another.
    Other,
}

/// Variables that name one directory of a toolchain; they pass by default when that directory is in the view. Lists of
/// directories are left out: a list with one hidden part has no right answer.
pub const POINTERS: &[(&str, Toolchain)] = &[
    ("ANDROID_HOME", Toolchain::Other),
    ("ASDF_DATA_DIR", Toolchain::Other),
    ("ASDF_DIR", Toolchain::Other),
    ("BUN_INSTALL", Toolchain::Other),
    ("CABAL_DIR", Toolchain::Other),
    ("CARGO_HOME", Toolchain::Rust),
    ("CARGO_TARGET_DIR", Toolchain::Rust),
    ("CCACHE_DIR", Toolchain::Other),
    ("COMPOSER_HOME", Toolchain::Other),
    ("CONDA_PREFIX", Toolchain::Python),
    ("DENO_DIR", Toolchain::Other),
    ("DENO_INSTALL", Toolchain::Other),
    ("FNM_DIR", Toolchain::Node),
    ("GHCUP_INSTALL_BASE_PREFIX", Toolchain::Other),
    ("GOBIN", Toolchain::Go),
    ("GOCACHE", Toolchain::Go),
    ("GOMODCACHE", Toolchain::Go),
    ("GOPATH", Toolchain::Go),
    ("GOROOT", Toolchain::Go),
    ("GRADLE_USER_HOME", Toolchain::Other),
    ("HOMEBREW_PREFIX", Toolchain::Other),
    ("JAVA_HOME", Toolchain::Other),
    ("JDK_HOME", Toolchain::Other),
    ("M2_HOME", Toolchain::Other),
    ("MAVEN_HOME", Toolchain::Other),
    ("MISE_DATA_DIR", Toolchain::Other),
    ("NVM_DIR", Toolchain::Node),
    ("N_PREFIX", Toolchain::Node),
    ("OPAMROOT", Toolchain::Other),
    ("OPAM_SWITCH_PREFIX", Toolchain::Other),
    ("PIPX_HOME", Toolchain::Python),
    ("PNPM_HOME", Toolchain::Node),
    ("PYENV_ROOT", Toolchain::Python),
    ("RBENV_ROOT", Toolchain::Other),
    ("RUSTUP_HOME", Toolchain::Rust),
    ("SCCACHE_DIR", Toolchain::Other),
    ("SDKMAN_DIR", Toolchain::Other),
    ("STACK_ROOT", Toolchain::Other),
    ("UV_CACHE_DIR", Toolchain::Python),
    ("VIRTUAL_ENV", Toolchain::Python),
    ("VOLTA_HOME", Toolchain::Node),
    ("XDG_CACHE_HOME", Toolchain::Other),
    ("XDG_CONFIG_HOME", Toolchain::Other),
    ("XDG_DATA_HOME", Toolchain::Other),
];

/// Variables that choose among what a toolchain's directories hold; they pass by default when one of its pointers did.
pub const SELECTORS: &[(&str, Toolchain)] = &[
    ("CONDA_DEFAULT_ENV", Toolchain::Python),
    ("GOTOOLCHAIN", Toolchain::Go),
    ("NODE_ENV", Toolchain::Node),
    ("PYENV_VERSION", Toolchain::Python),
    ("RUSTUP_TOOLCHAIN", Toolchain::Rust),
];

/// Whole segments, between `_`, that make a name look secret, whatever number follows.
const SECRET_SEGMENTS: &[&str] = &[
    "APIKEYS",
    "AUTH",
    "BEARER",
    "COOKIE",
    "COOKIES",
    "CRED",
    "CREDENTIAL",
    "CREDENTIALS",
    "CREDS",
    "DSN",
    "JWT",
    "KEY",
    "KEYS",
    "KEYTAB",
    "MNEMONIC",
    "PASS",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PASSWORDS",
    "PAT",
    "PATS",
    "PEM",
    "PIN",
    "PSK",
    "PW",
    "PWD",
    "SECRET",
    "SECRETS",
    "SESSION",
    "SK",
    "TOKEN",
    "TOKENS",
    "TOTP",
    "WEBHOOK",
    "WEBHOOKS",
];

/// Endings that make a name look secret without a `_` before them, as in `PGPASSWORD`.
const SECRET_ENDINGS: &[&str] = &[
    "ACCESSKEY",
    "APIKEY",
    "AUTHKEY",
    "CREDENTIAL",
    "CREDENTIALS",
    "ENCRYPTIONKEY",
    "MASTERKEY",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PRIVATEKEY",
    "PRIVKEY",
    "SECRET",
    "SECRETKEY",
    "SECRETS",
    "SIGNINGKEY",
    "SSHKEY",
    "TOKEN",
];

/// Whether the table, sorted by bytes, has the name.
#[must_use]
pub fn contains(table: &[&str], name: &str) -> bool {
    table.binary_search(&name).is_ok()
}

/// The toolchain under which the table, sorted by bytes, has the name.
#[must_use]
pub fn toolchain(table: &[(&str, Toolchain)], name: &str) -> Option<Toolchain> {
    let index = table.binary_search_by(|(entry, _)| (*entry).cmp(name)).ok()?;
    table.get(index).map(|(_, toolchain)| *toolchain)
}

/// Whether the inherited value of `name` never passes, whatever rule asks for it.
#[must_use]
pub fn never_inherited(name: &str) -> bool {
    contains(DENIED, name)
        || DENIED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || FOREIGN_LAUNCHERS.iter().any(|prefix| {
            name.strip_prefix(prefix).is_some_and(|rest| {
                rest.starts_with("LAUNCHER_SPAWN_")
                    || rest == "RUNNER_TUNNEL_BINDING_TOKEN"
                    || rest == "RUNNER_INITIAL_AUTH_TOKEN"
            })
        })
}

/// Whether `name` must be typed in full to pass.
#[must_use]
pub fn by_name_only(name: &str) -> bool {
    contains(BY_NAME_ONLY, name)
        || BY_NAME_ONLY_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || is_proxy(name)
}

/// Whether `name` is a proxy variable: tools read either case, and many have one of their own.
#[must_use]
pub fn is_proxy(name: &str) -> bool {
    ends_with_ignoring_case(name, "_PROXY")
}

/// Whether programs do not reach the network without `name` where the caller has set it: a proxy or the certificates of one. A
/// list of what is reached without a proxy is no such thing.
#[must_use]
pub fn is_way_out(name: &str) -> bool {
    contains(CA_BUNDLES, name) || (is_proxy(name) && !ends_with_ignoring_case(name, "NO_PROXY"))
}

/// Whether `name` looks as if its value were secret. Whole segments count, since `AUTHOR` is not `AUTH`.
#[must_use]
pub fn looks_secret(name: &str) -> bool {
    // A path to a socket, which is by name only for another reason, and the working directory.
    if name == "SSH_AUTH_SOCK" || name == "PWD" {
        return false;
    }
    name.split('_').any(|segment| {
        // A second secret has a number: `TOKEN2`, `API_KEY_2`.
        let word = segment.trim_end_matches(|c: char| c.is_ascii_digit());
        SECRET_ENDINGS.iter().any(|ending| ends_with_ignoring_case(word, ending))
            || SECRET_SEGMENTS.iter().any(|secret| word.eq_ignore_ascii_case(secret))
    })
}

/// Whether the value holds a URL with a user part (`scheme://user@`, with or without a password).
#[must_use]
pub fn has_user_in_url(value: &[u8]) -> bool {
    let mut rest = value;
    while let Some(colon) = rest.iter().position(|&byte| byte == b':') {
        let has_scheme = colon > 0 && rest[colon - 1].is_ascii_alphanumeric();
        rest = &rest[colon + 1..];
        if !has_scheme {
            continue;
        }
        let Some(after) = rest.strip_prefix(b"//") else { continue };
        let end = after
            .iter()
            .position(|byte| matches!(byte, b'/' | b'?' | b'#') || byte.is_ascii_whitespace())
            .unwrap_or(after.len());
        if after[..end].contains(&b'@') {
            return true;
        }
        // Not from `end`: a list without blanks has the next scheme inside what looks like the authority.
        rest = after;
    }
    false
}

fn ends_with_ignoring_case(name: &str, ending: &str) -> bool {
    name.len()
        .checked_sub(ending.len())
        .and_then(|start| name.get(start..))
        .is_some_and(|tail| tail.eq_ignore_ascii_case(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_and_do_not_contradict_each_other() {
        for table in [DEFAULTS, DENIED, BY_NAME_ONLY] {
            assert!(table.is_sorted_by(|a, b| a < b), "{table:?}");
        }
        for table in [POINTERS, SELECTORS] {
            assert!(table.is_sorted_by(|a, b| a.0 < b.0), "{table:?}");
        }
        for name in DEFAULTS.iter().chain(POINTERS.iter().map(|(name, _)| name)) {
            assert!(!never_inherited(name) && !by_name_only(name), "{name}");
        }
        assert!(SELECTORS.iter().all(|(_, of)| *of != Toolchain::Other));
    }

    #[test]
    fn what_never_passes() {
        for name in [
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "DYLD_INSERT_LIBRARIES",
            "GLIBC_TUNABLES",
            "MALLOC_TRACE",
            "MallocLogFile",
            "BASH_ENV",
            "ENV",
            "PS4",
            "IFS",
            "BASH_FUNC_x",
            "LUA_INIT_5_4",
            "OP_SESSION_abc",
            "OMNIGENT_LAUNCHER_SPAWN_WRAPPED",
            "OMNIAGENTS_LAUNCHER_SPAWN_WRAPPED",
            "OMNIGENTS_LAUNCHER_SPAWN_PRIVATE_TMPDIR",
            "OMNIGENT_RUNNER_TUNNEL_BINDING_TOKEN",
            "OMNIGENT_RUNNER_INITIAL_AUTH_TOKEN",
        ] {
            assert!(never_inherited(name), "{name}");
        }
        for name in ["LD", "LDFLAGS", "MALLOC", "ENVIRONMENT", "OMNIGENT", "OMNIGENT_HOME", "PATH"] {
            assert!(!never_inherited(name), "{name}");
        }
    }

    #[test]
    fn secrets_are_told_by_segments() {
        for name in [
            "OPENAI_KEY",
            "GOOGLE_CREDENTIAL",
            "PGPASSWORD",
            "SENTRY_DSN",
            "MY_API_KEY",
            "MY_DB_PASSWORD",
            "my_token",
            "myApiKey",
            "AWS_SESSION_TOKEN",
            "AWS_ACCESS_KEY_ID",
            "SLACK_WEBHOOK_URL",
            "GITHUB_PAT",
            "A_ENCRYPTION_KEYS",
            "TOKEN",
            "DB_PWD",
            "CI_JOB_JWT",
            "CI_BEARER",
            "CI_CREDS",
            "CI_PRIVATE_PEM",
            "MY_SECRET2",
            "MY_TOKEN_2",
            "MY_KEY01",
            "MY_PRIVATEKEY",
            "MY_PW",
            "MY_PW1",
            "MY_DB_PASSPHRASE",
            "MY_DBPASSPHRASE",
            "MY_CREDS",
            "MY_COOKIES",
            "MYTOKEN_OLD",
            "mySecretKey",
            "STRIPE_SK",
            "WIFI_PSK",
            "WALLET_MNEMONIC",
        ] {
            assert!(looks_secret(name), "{name}");
        }
        for name in [
            "PWD",
            "OLDPWD",
            "XAUTHORITY",
            "SSH_AUTH_SOCK",
            "GIT_AUTHOR_NAME",
            "GIT_AUTHOR_EMAIL",
            "TOKENIZERS_PARALLELISM",
            "KEYBOARD_LAYOUT",
            "MY_AUTHOR",
            "MY_PATH",
            "PASSENGER_APP",
            "OAUTH_CLIENT_ID",
            "MONKEY",
            "MY_MONKEY2",
            "MY_PWA",
            "MY_TASK",
            "MY_2",
            "2",
            "SECRETARY_NAME",
            "KEYMAP",
        ] {
            assert!(!looks_secret(name), "{name}");
        }
    }

    #[test]
    fn a_url_with_a_user_part() {
        for value in [
            "https://u:p@h",
            "https://token@h/x",
            "postgres://u:p@h:5432/db?x",
            "jdbc:postgresql://u:p@h/db",
            "a=b c git+ssh://git@h/r",
            "http://h/x,https://u:p@h",
            "http://a https://u@h",
            "http://a,https://u:p@h",
        ] {
            assert!(has_user_in_url(value.as_bytes()), "{value}");
        }
        for value in [
            "",
            "u@h",
            "https://h/@scope/x",
            "https://h?mail=a@b",
            "://u@h",
            "a:b@c",
            "mailto:u@h",
            ":://::",
            "https://h user@h",
        ] {
            assert!(!has_user_in_url(value.as_bytes()), "{value}");
        }
    }
}
