//! What every view holds: the parts of the host that programs need to start, and the places that are never shown.
//!
//! Lists and nothing else; `resolve` puts them into the view.

/// Top-level system directories. On a merged `/usr` most are links, which are reproduced as links.
pub const SYSTEM: &[&str] = &["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// Where the system keeps its programs.
pub const PROGRAMS: &[&str] = &["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Entries of `/etc` that programs need and that hold nothing private. Missing ones are left out.
///
/// `ssl` is split because `/etc/ssl/private` must not come along when the caller is root.
pub const ETC: &[&str] = &[
    "alternatives",
    "ca-certificates",
    "crypto-policies",
    "fonts",
    "gai.conf",
    "gitconfig",
    "group",
    "host.conf",
    "hosts",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "protocols",
    "resolv.conf",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
];

/// Trees that belong to the sandbox: nothing below them can be granted or masked, but devices and [`SHARED`].
pub const RESERVED: &[&str] = &["/proc", "/dev"];

/// Parts of `/proc` that set the machine, for whoever has root's user id, whatever capabilities it lacks.
pub const MACHINE: &[&str] = &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/mtrr", "/proc/sys", "/proc/sysrq-trigger"];

/// A directory of ordinary files inside [`RESERVED`]: private like `/tmp`, what lies below can be granted.
pub const SHARED: &str = "/dev/shm";

/// Where control sockets of the host lie, from the root; hidden below a grant of the whole host.
pub const RUNTIME: &[&str] = &["run", "var/run"];

/// What only root can read, from the root: hidden like [`SECRETS`], since the caller may be root.
pub const ROOT_SECRETS: &[(&str, &str)] = &[
    ("etc/shadow", "password hashes"),
    ("etc/shadow-", "password hashes"),
    ("etc/gshadow", "password hashes"),
    ("etc/gshadow-", "password hashes"),
    ("etc/ssl/private", "private keys"),
    ("etc/ssh/ssh_host_ecdsa_key", "private keys"),
    ("etc/ssh/ssh_host_ed25519_key", "private keys"),
    ("etc/ssh/ssh_host_rsa_key", "private keys"),
];

/// Places below HOME that hold credentials: hidden below any wider grant, shown by a grant of the place itself.
pub const SECRETS: &[(&str, &str)] = &[
    (".ssh", "private keys"),
    (".gnupg", "private keys"),
    (".aws", "cloud credentials"),
    (".azure", "cloud credentials"),
    (".config/gcloud", "cloud credentials"),
    (".kube", "cluster credentials"),
    (".docker", "registry credentials"),
    (".config/containers/auth.json", "registry credentials"),
    (".netrc", "passwords of hosts"),
    (".git-credentials", "passwords of git hosts"),
    (".config/git/credentials", "passwords of git hosts"),
    (".config/gh", "tokens of the GitHub client"),
    (".config/glab-cli", "tokens of the GitLab client"),
    (".config/hub", "tokens of the GitHub client"),
    (".npmrc", "registry tokens"),
    (".yarnrc.yml", "registry tokens"),
    (".pypirc", "registry passwords"),
    (".cargo/credentials", "registry tokens"),
    (".cargo/credentials.toml", "registry tokens"),
    (".gem/credentials", "registry tokens"),
    (".composer/auth.json", "registry tokens"),
    (".m2/settings.xml", "repository passwords"),
    (".m2/settings-security.xml", "repository passwords"),
    (".gradle/gradle.properties", "repository passwords"),
    (".terraform.d/credentials.tfrc.json", "cloud credentials"),
    (".boto", "cloud credentials"),
    (".s3cfg", "cloud credentials"),
    (".oci", "cloud credentials"),
    (".fly", "cloud credentials"),
    (".databrickscfg", "cloud credentials"),
    (".config/doctl", "cloud credentials"),
    (".config/rclone", "cloud credentials"),
    (".config/op", "passwords"),
    (".config/sops", "private keys"),
    (".config/age", "private keys"),
    (".age", "private keys"),
    (".minikube", "cluster credentials"),
    (".circleci/cli.yml", "a token"),
    (".kaggle", "a token"),
    (".huggingface", "a token"),
    (".cache/huggingface/token", "a token"),
    (".claude.json", "tokens of an assistant"),
    (".claude/.credentials.json", "tokens of an assistant"),
    (".codex/auth.json", "tokens of an assistant"),
    (".config/pip", "registry passwords"),
    (".nuget/NuGet.Config", "registry passwords"),
    (".authinfo", "passwords of hosts"),
    (".authinfo.gpg", "passwords of hosts"),
    (".vault_pass", "passwords"),
    (".Xauthority", "access to the display"),
    (".thunderbird", "mail and passwords"),
    (".bitcoin", "a wallet"),
    (".electrum", "a wallet"),
    (".vault-token", "a token"),
    (".pgpass", "database passwords"),
    (".my.cnf", "database passwords"),
    (".password-store", "passwords"),
    (".local/share/keyrings", "passwords"),
    (".mozilla", "sessions and passwords of a browser"),
    (".config/google-chrome", "sessions and passwords of a browser"),
    (".config/chromium", "sessions and passwords of a browser"),
    (".bash_history", "what was typed, passwords included"),
    (".zsh_history", "what was typed, passwords included"),
    (".mysql_history", "what was typed, passwords included"),
    (".psql_history", "what was typed, passwords included"),
    (".node_repl_history", "what was typed, passwords included"),
    (".sqlite_history", "what was typed, passwords included"),
    (".python_history", "what was typed, passwords included"),
];
