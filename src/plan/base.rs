//! What every view holds: the parts of the host that programs need to start, and the places that are never shown.
//!
//! Lists, and how a name is looked up in them; `resolve` puts them into the view.

pub mod macos;

use std::ffi::OsStr;
use std::path::Path;

use crate::policy::hidden;

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
    "debian_version",
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
    "lsb-release",
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

/// Parts of `/proc` in which everybody may have the kernel watch the machine for him.
pub const WATCHED: &[&str] = &["/proc/pressure"];

/// Files of `/proc` that no namespace holds and that tell of the caller: empty in every view.
pub const CALLERS: &[&str] = &["/proc/key-users", "/proc/keys"];

/// What the launcher program mounts in `/dev`, with the number by which the kernel knows each.
pub const DEVICES: &[(&str, u64, u64)] =
    &[("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];

/// A directory of ordinary files inside [`RESERVED`]: private like `/tmp`, what lies below can be granted.
pub const SHARED: &str = "/dev/shm";

/// What leads to the host's processes, from the root: hidden below any wider grant. What it is, for whoever asks.
pub const RUNTIME: &[(&str, &str)] = &[
    ("run", "control sockets"),
    ("var/run", "control sockets"),
    ("sys/fs/bpf", "programs and tables in the kernel"),
    ("sys/fs/pstore", "messages of crashes"),
    ("sys/kernel/debug", "the kernel's view of all processes"),
    ("sys/kernel/tracing", "the kernel's view of all processes"),
];

/// What only root can read, from the root: hidden like [`SECRETS`], since the caller may be root.
pub const ROOT_SECRETS: &[(&str, &str)] = &[
    ("etc/.git", "the history of settings, password hashes included"),
    ("etc/NetworkManager/system-connections", "passwords of networks"),
    ("etc/apt/auth.conf", "repository passwords"),
    ("etc/apt/auth.conf.d", "repository passwords"),
    ("etc/ceph", "keys of a cluster"),
    ("etc/cloudflared", "credentials of services"),
    ("etc/credstore", "credentials of services"),
    ("etc/credstore.encrypted", "credentials of services"),
    ("etc/cryptsetup-keys.d", "keys of disks"),
    ("etc/davfs2/secrets", "passwords of hosts"),
    ("etc/exim4/passwd.client", "passwords of hosts"),
    ("etc/gshadow", "password hashes"),
    ("etc/gshadow-", "password hashes"),
    ("etc/ipsec.d/private", "private keys"),
    ("etc/ipsec.secrets", "passwords of networks"),
    ("etc/krb5.keytab", "keys of this host"),
    ("etc/kubernetes/admin.conf", "cluster credentials"),
    ("etc/kubernetes/pki", "private keys"),
    ("etc/letsencrypt", "private keys"),
    ("etc/munge/munge.key", "keys of this host"),
    ("etc/mysql/debian.cnf", "database passwords"),
    ("etc/netplan", "passwords of networks"),
    ("etc/openvpn", "private keys"),
    ("etc/pki/tls/private", "private keys"),
    ("etc/postfix/sasl_passwd", "passwords of hosts"),
    ("etc/ppp/chap-secrets", "passwords of networks"),
    ("etc/ppp/pap-secrets", "passwords of networks"),
    ("etc/rancher/k3s/k3s.yaml", "cluster credentials"),
    ("etc/rndc.key", "private keys"),
    ("etc/samba/smbpasswd", "password hashes"),
    ("etc/shadow", "password hashes"),
    ("etc/shadow-", "password hashes"),
    ("etc/shadow.dpkg-old", "password hashes"),
    ("etc/shadow.rpmsave", "password hashes"),
    ("etc/ssh/ssh_host_dsa_key", "private keys"),
    ("etc/ssh/ssh_host_ecdsa_key", "private keys"),
    ("etc/ssh/ssh_host_ed25519_key", "private keys"),
    ("etc/ssh/ssh_host_rsa_key", "private keys"),
    ("etc/ssl/private", "private keys"),
    ("etc/swanctl/private", "private keys"),
    ("etc/wireguard", "private keys"),
    ("etc/wpa_supplicant", "passwords of networks"),
    ("var/backups/gshadow.bak", "password hashes"),
    ("var/backups/passwd.bak", "password hashes"),
    ("var/backups/shadow.bak", "password hashes"),
    ("var/lib/bluetooth", "keys of devices"),
    ("var/lib/iwd", "passwords of networks"),
    ("var/lib/kubelet/pki", "private keys"),
    ("var/lib/rancher/k3s/server/tls", "private keys"),
    ("var/lib/rancher/k3s/server/token", "cluster credentials"),
    ("var/lib/samba/private", "password hashes"),
    ("var/lib/sss", "password hashes"),
    ("var/lib/systemd/credential.secret", "credentials of services"),
    ("var/lib/tailscale/tailscaled.state", "private keys"),
    ("var/lib/zerotier-one/identity.secret", "private keys"),
    ("var/spool/cron", "commands of all users, passwords included"),
];

/// Places that hold credentials, each with what they are. Below HOME they are known by path and hidden under any wider grant;
/// elsewhere the scan finds them, at any depth of a grant. A grant of the place itself shows it. One `*` in the last name
/// stands for any text; names of the default list, such as `.env.example`, are never meant.
///
/// With `./` in front a place is one that people commit with a project: git's word shows it like any other hidden name, where
/// git has the very content. Whoever sees the repository reads that anyway, and the project cannot do without.
///
/// Only names with a dot in front, or below one: by other names (`credentials.json`, `id_rsa`) go as many examples and test
/// data as secrets, and an empty file in their place would break what is tested.
pub const SECRETS: &[(&str, &str)] = &[
    (".env", "passwords and tokens of an application"),
    (".env.*", "passwords and tokens of an application"),
    (".envrc", "passwords and tokens of a shell"),
    (".secrets", "passwords and tokens"),
    (".htpasswd", "password hashes"),
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
    (".pypirc", "registry passwords"),
    (".cargo/credentials", "registry tokens"),
    (".cargo/credentials.toml", "registry tokens"),
    (".gem/credentials", "registry tokens"),
    (".composer/auth.json", "registry tokens"),
    (".config/composer/auth.json", "registry tokens"),
    (".local/share/uv/credentials", "registry tokens"),
    (".dev.vars", "passwords and tokens of an application"),
    (".streamlit/secrets.toml", "passwords and tokens of an application"),
    (".config/openstack", "cloud credentials"),
    (".config/.wrangler/config", "cloud credentials"),
    (".config/argocd", "cluster credentials"),
    (".config/filezilla", "passwords of hosts"),
    (".filezilla", "passwords of hosts"),
    (".config/tea", "tokens of the Gitea client"),
    (".vagrant/machines", "private keys"),
    (".m2/settings.xml", "repository passwords"),
    (".m2/settings-security.xml", "repository passwords"),
    (".gradle/gradle.properties", "repository passwords"),
    (".terraform.d/credentials.tfrc.json", "cloud credentials"),
    (".boto", "cloud credentials"),
    (".s3cfg", "cloud credentials"),
    (".oci", "cloud credentials"),
    (".fly/config.yml", "cloud credentials"),
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
    (".Xauthority-*", "access to the display"),
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
    (".bash_history.*", "what was typed, passwords included"),
    (".bash_history-*", "what was typed, passwords included"),
    (".zsh_history", "what was typed, passwords included"),
    (".mysql_history", "what was typed, passwords included"),
    (".psql_history", "what was typed, passwords included"),
    (".node_repl_history", "what was typed, passwords included"),
    (".sqlite_history", "what was typed, passwords included"),
    (".python_history", "what was typed, passwords included"),
    (".irb_history", "what was typed, passwords included"),
    (".Rhistory", "what was typed, passwords included"),
    (".Renviron", "passwords and tokens of a session"),
    (".dockercfg", "registry credentials"),
    (".kubeconfig", "cluster credentials"),
    (".config/hcloud", "cloud credentials"),
    (".config/helm/registry", "registry credentials"),
    (".config/scaleway", "cloud credentials"),
    (".ansible/vault_password", "passwords"),
    (".terraformrc", "cloud credentials"),
    (".vault_password", "passwords"),
    (".dbt/profiles.yml", "database passwords"),
    (".snowflake", "database passwords"),
    (".snowsql", "database passwords"),
    (".serverlessrc", "cloud credentials"),
    (".rclone.conf", "cloud credentials"),
    (".smbcredentials", "passwords of hosts"),
    (".msmtprc", "mail and passwords"),
    (".config/msmtp", "mail and passwords"),
    (".mbsyncrc", "mail and passwords"),
    (".config/isyncrc", "mail and passwords"),
    (".fetchmailrc", "mail and passwords"),
    (".offlineimaprc", "mail and passwords"),
    (".mylogin.cnf", "database passwords"),
    (".pki/nssdb", "private keys"),
    (".vnc/passwd", "passwords"),
    (".local/share/kwalletd", "passwords"),
    (".config/1Password", "passwords"),
    (".1password", "access to an agent of passwords or keys"),
    (".bitwarden-ssh-agent.sock", "access to an agent of passwords or keys"),
    (".cache/keyring-*", "access to an agent of passwords or keys"),
    (".colima", "access to containers or an editor on the host"),
    (".rd/docker.sock", "access to containers or an editor on the host"),
    (".local/share/containers/podman", "access to containers or an editor on the host"),
    (".emacs.d/server", "access to containers or an editor on the host"),
    (".gemini", "tokens of an assistant"),
    (".config/github-copilot", "tokens of an assistant"),
    (".ethereum", "a wallet"),
    (".config/solana", "a wallet"),
    (".config/BraveSoftware", "sessions and passwords of a browser"),
    (".config/microsoft-edge", "sessions and passwords of a browser"),
    (".config/opera", "sessions and passwords of a browser"),
    (".config/vivaldi", "sessions and passwords of a browser"),
    (".librewolf", "sessions and passwords of a browser"),
    (".config/Signal", "messages, and the key to them"),
    (".local/share/TelegramDesktop", "the session of a messenger"),
    (".purple", "passwords of messengers"),
    (".weechat/sec.conf", "passwords of messengers"),
    (".config/weechat/sec.conf", "passwords of messengers"),
    (".config/Bitwarden", "passwords"),
    (".config/Bitwarden CLI", "passwords"),
    (".local/share/python_keyring", "passwords"),
    (".config/syncthing", "private keys"),
    (".local/state/syncthing", "private keys"),
    (".config/borg/keys", "keys of backups"),
    (".pulumi/credentials.json", "cloud credentials"),
    (".config/stripe", "tokens of a service"),
    (".config/ngrok", "tokens of a service"),
    (".ngrok2", "tokens of a service"),
    (".config/netlify", "cloud credentials"),
    (".config/configstore", "tokens of many command-line tools"),
    (".local/share/com.vercel.cli", "cloud credentials"),
    (".railway", "cloud credentials"),
    (".local/share/opencode/auth.json", "tokens of an assistant"),
    (".config/pypoetry/auth.toml", "registry tokens"),
    (".local/share/atuin", "what was typed, and the key to all of it"),
    (".ash_history", "what was typed, passwords included"),
    (".cloudflared", "cloud credentials"),
    (".viminfo", "what was typed, passwords included"),
    (".lesshst", "what was typed, passwords included"),
    (".local/state/nvim", "what was typed, passwords included"),
    (".local/share/fish/fish_history", "what was typed, passwords included"),
    (".idea/dataSources*", "database passwords"),
    (".idea/webServers.xml", "passwords of hosts"),
    (".idea/workspace.xml", "variables of a session, tokens included"),
    (".terraform/terraform.tfstate", "cloud credentials"),
    (".direnv/*.env", "passwords and tokens of a shell"),
    ("./.bundle/config", "registry passwords"),
    ("./.devcontainer/*.env", "passwords and tokens of an application"),
    ("./.mvn/settings.xml", "repository passwords"),
    ("./.yarnrc", "registry tokens"),
    ("./.yarnrc.yml", "registry tokens"),
];

/// So many directories a place of [`SECRETS`] has at most above its last name.
pub const DEEPEST_SECRET: usize = 3;

/// Begins a place of [`SECRETS`] that is often committed.
pub const COMMITTED: &str = "./";

/// Directories below HOME in which toolchains and package managers keep what they have fetched: a hundred thousand files, full of
/// hidden names that the tools themselves need, and no secret but those of [`SECRETS`]. Under the default list no other names are
/// hidden in one, unless it is the working directory. Nothing that may as well be the name of a project is here.
pub const TOOLS: &[&str] = &[
    ".asdf",
    ".bun",
    ".cabal",
    ".cache",
    ".cargo",
    ".conda",
    ".deno",
    ".fnm",
    ".g",
    ".gem",
    ".ghcup",
    ".goenv",
    ".gradle",
    ".gvm",
    ".ivy2",
    ".jabba",
    ".jdks",
    ".jenv",
    ".juliaup",
    ".konan",
    ".local/lib",
    ".local/pipx",
    ".local/go",
    ".local/share",
    ".m2",
    ".mix",
    ".nodenv",
    ".npm",
    ".nuget",
    ".nvm",
    ".opam",
    ".pnpm-store",
    ".pub-cache",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rvm",
    ".sbt",
    ".sdkman",
    ".stack",
    ".virtualenvs",
    ".volta",
    ".yarn",
    "anaconda3",
    "go/bin",
    "go/pkg",
    "mambaforge",
    "miniconda3",
    "miniforge3",
];

/// What is known of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secret {
    /// What is in it.
    pub what: &'static str,
    /// Whether it is often committed, with nothing secret in it.
    pub committed: bool,
}

/// What [`SECRETS`] says of `name` in `directory`: what is in it, or nothing.
#[must_use]
pub fn secret(directory: &Path, name: &OsStr) -> Option<Secret> {
    let fits = |place: &str| {
        let mut parts = place.rsplit('/');
        let last = parts.next().unwrap_or_default();
        let above = directory.ancestors().map(Path::file_name);
        hidden::matches(last, name.as_encoded_bytes())
            && parts.zip(above).all(|(part, above)| above.is_some_and(|above| above == part))
    };
    // Asked of every name that a search meets: one byte leaves out nearly all places.
    let end = name.as_encoded_bytes().last();
    let mut near = SECRETS.iter().filter(|(place, _)| {
        let last = place.as_bytes().last();
        last == Some(&b'*') || last == end
    });
    let found = near.find_map(|(place, what)| {
        let bare = place.trim_start_matches(COMMITTED);
        fits(bare).then_some(Secret { what, committed: bare.len() < place.len() })
    })?;
    (!hidden::is_default(name)).then_some(found)
}

/// The well-known secret that `path` is or lies in, as far as names tell.
#[must_use]
pub fn secret_above(path: &Path) -> Option<(&Path, Secret)> {
    path.ancestors().find_map(|at| Some((at, secret(at.parent()?, at.file_name()?)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_at_any_depth_and_by_whole_names() {
        for (directory, name, expected) in [
            ("/w", ".ssh", true),
            ("/w/a/b", ".netrc", true),
            ("/w", ".env", true),
            ("/w", ".env.production", true),
            ("/w", ".env.example", false),
            ("/w", ".env.sample", false),
            ("/w", ".env.template", false),
            ("/w", ".environment", false),
            ("/w", "env", false),
            ("/w/.config", "gh", true),
            ("/w/x/.config", "gcloud", true),
            ("/w/config", "gh", false),
            ("/w", "gh", false),
            ("/", "gh", false),
            ("/w/.cargo", "credentials.toml", true),
            ("/w/.cargo", "config.toml", false),
            ("/w/.local/share", "keyrings", true),
            ("/w/share", "keyrings", false),
            ("/w/.local/share/fish", "fish_history", true),
            ("/w/.cache", "keyring-Xy12", true),
            ("/w/.devcontainer", "dev.env", true),
            ("/w/devcontainer", "dev.env", false),
            ("/w", ".yarnrc.yml", true),
        ] {
            assert_eq!(secret(Path::new(directory), OsStr::new(name)).is_some(), expected, "{directory} {name}");
        }
    }

    #[test]
    fn every_secret_is_below_a_dot_once_and_off_the_default_list() {
        let mut seen = std::collections::BTreeSet::new();
        for (place, what) in SECRETS {
            assert!(seen.insert(place.trim_start_matches(COMMITTED)), "{place} twice");
            assert!(place.trim_start_matches(COMMITTED).starts_with('.') && !what.is_empty(), "{place}");
            assert!(!hidden::is_default(OsStr::new(place)), "{place}");
            for text in ["", "x"] {
                let path = Path::new("/w").join(place.replace('*', text));
                let (directory, name) = (path.parent().unwrap(), path.file_name().unwrap());
                assert!(secret(directory, name).is_some(), "{}", path.display());
            }
            assert!(place.trim_start_matches(COMMITTED).matches('/').count() <= DEEPEST_SECRET, "{place}");
        }
    }
}
