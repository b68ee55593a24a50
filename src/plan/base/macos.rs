//! What every view holds on macOS, where rules are carried out on the host's own files.
//!
//! Lists, and what the system calls the same file; looks at nothing. Gathered from profiles that others publish: none of it was
//! tried on a Mac.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::plan::view::FileKind::{self, Directory, File};

/// Parts of the system that programs need to start: code, and settings that hold nothing private.
///
/// Code only of `/usr/local`, `/opt` and `/Library`, where packages keep data beside it. Not all of `/System`: below
/// [`DATA`] are the homes of all users.
pub const SYSTEM: &[(&str, FileKind)] = &[
    ("/Library/Apple", Directory),
    ("/Library/Developer/CommandLineTools", Directory),
    ("/Library/Filesystems/NetFSPlugins", Directory),
    ("/Library/Fonts", Directory),
    ("/Library/Frameworks", Directory),
    ("/Library/Java", Directory),
    ("/Library/Perl", Directory),
    ("/Library/Ruby", Directory),
    ("/System/Applications", Directory),
    ("/System/Cryptexes", Directory),
    ("/System/DriverKit", Directory),
    ("/System/Library", Directory),
    ("/System/Volumes/Preboot/Cryptexes", Directory),
    ("/System/iOSSupport", Directory),
    ("/bin", Directory),
    ("/opt/homebrew/Cellar", Directory),
    ("/opt/homebrew/Frameworks", Directory),
    ("/opt/homebrew/bin", Directory),
    ("/opt/homebrew/include", Directory),
    ("/opt/homebrew/lib", Directory),
    ("/opt/homebrew/opt", Directory),
    ("/opt/homebrew/sbin", Directory),
    ("/opt/homebrew/share", Directory),
    ("/opt/local/bin", Directory),
    ("/opt/local/include", Directory),
    ("/opt/local/lib", Directory),
    ("/opt/local/libexec", Directory),
    ("/opt/local/sbin", Directory),
    ("/opt/local/share", Directory),
    ("/private/etc/bashrc", File),
    ("/private/etc/gitconfig", File),
    ("/private/etc/group", File),
    ("/private/etc/hosts", File),
    ("/private/etc/localtime", File),
    ("/private/etc/manpaths", File),
    ("/private/etc/networks", File),
    ("/private/etc/passwd", File),
    ("/private/etc/paths", File),
    ("/private/etc/paths.d", Directory),
    ("/private/etc/profile", File),
    ("/private/etc/protocols", File),
    ("/private/etc/resolv.conf", File),
    ("/private/etc/rpc", File),
    ("/private/etc/services", File),
    ("/private/etc/shells", File),
    ("/private/etc/ssl/cert.pem", File),
    ("/private/etc/ssl/certs", Directory),
    ("/private/etc/ssl/openssl.cnf", File),
    ("/private/etc/zprofile", File),
    ("/private/etc/zshenv", File),
    ("/private/etc/zshrc", File),
    ("/private/var/db/dyld", Directory),
    ("/private/var/db/mds", Directory),
    ("/private/var/db/oah", Directory),
    ("/private/var/db/timezone", Directory),
    ("/private/var/db/xcode_select_link", File),
    ("/private/var/run/resolv.conf", File),
    ("/private/var/select", Directory),
    ("/sbin", Directory),
    ("/usr/bin", Directory),
    ("/usr/include", Directory),
    ("/usr/lib", Directory),
    ("/usr/libexec", Directory),
    ("/usr/local/Cellar", Directory),
    ("/usr/local/Frameworks", Directory),
    ("/usr/local/bin", Directory),
    ("/usr/local/include", Directory),
    ("/usr/local/lib", Directory),
    ("/usr/local/opt", Directory),
    ("/usr/local/sbin", Directory),
    ("/usr/local/share", Directory),
    ("/usr/sbin", Directory),
    ("/usr/share", Directory),
];

/// Links at the root that programs look at by themselves, and where they lead.
pub const LINKS: &[(&str, &str)] = &[("/etc", "/private/etc"), ("/tmp", "/private/tmp"), ("/var", "/private/var")];

/// The volume of data, in which every file of a user has a second name (a firmlink).
pub const DATA: &str = "/System/Volumes/Data";

/// Below HOME: cookies, mail, messages and keychains of applications, under names without a dot. Never shown by a wider grant.
pub const HOME_SECRETS: &[(&str, &str)] = &[("Library", "data of applications, keychains and cookies")];

/// Places of secrets and of what leads to other processes, hidden below any wider grant.
pub const SECRETS: &[(&str, FileKind)] = &[
    ("/Library/Application Support/com.apple.TCC", Directory),
    ("/Library/Keychains", Directory),
    ("/private/etc/krb5.keytab", File),
    ("/private/etc/master.passwd", File),
    ("/private/etc/ssh/ssh_host_dsa_key", File),
    ("/private/etc/ssh/ssh_host_ecdsa_key", File),
    ("/private/etc/ssh/ssh_host_ed25519_key", File),
    ("/private/etc/ssh/ssh_host_rsa_key", File),
    ("/private/etc/sudoers", File),
    ("/private/etc/sudoers.d", Directory),
    ("/private/var/backups", Directory),
    ("/private/var/db/dslocal", Directory),
    ("/private/var/folders", Directory),
    ("/private/var/root", Directory),
    ("/private/var/run", Directory),
    ("/private/var/vm", Directory),
];

/// By which names of hosts are looked up: the only socket of the system that comes with the network.
pub const RESOLVER: &str = "/private/var/run/mDNSResponder";

/// Where the private directories of runs are. Short, since the path of a Unix socket has at most 103 bytes.
pub const SCRATCH: &str = "/private/tmp";

/// The private directory of one run, known by `number`; without one nothing is started, and what is printed has a mark in its place.
#[must_use]
pub fn scratch(number: Option<u64>) -> PathBuf {
    let name = match number {
        Some(number) => format!("sandbox-run-{number:016x}"),
        None => "sandbox-run-{run}".to_owned(),
    };
    Path::new(SCRATCH).join(name)
}

/// The name by which the system knows `path`, absolute and without links of the caller's own.
///
/// A rule about another name never matches: for a grant that is a program that does not run, for a denial a hole.
#[must_use]
pub fn canonical(path: &Path) -> Cow<'_, Path> {
    let data = path.strip_prefix(DATA).ok().filter(|rest| !rest.as_os_str().is_empty());
    let path = data.map_or(Cow::Borrowed(path), |rest| Path::new("/").join(rest).into());
    for (link, place) in LINKS {
        if let Ok(rest) = path.strip_prefix(link) {
            // Joining nothing would add a slash.
            let place = Path::new(place);
            return if rest.as_os_str().is_empty() { place.into() } else { place.join(rest).into() };
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_has_one_name() {
        for (path, name) in [
            ("/tmp", "/private/tmp"),
            ("/tmp/x", "/private/tmp/x"),
            ("/tmpfiles", "/tmpfiles"),
            ("/var/folders/a", "/private/var/folders/a"),
            ("/etc/hosts", "/private/etc/hosts"),
            ("/private/tmp/x", "/private/tmp/x"),
            ("/Users/u/etc", "/Users/u/etc"),
            ("/System/Volumes/Data/Users/u", "/Users/u"),
            ("/System/Volumes/Data/tmp/u", "/private/tmp/u"),
            ("/System/Volumes/Data", "/System/Volumes/Data"),
            ("/System/Volumes/Database", "/System/Volumes/Database"),
            ("/", "/"),
        ] {
            assert_eq!(canonical(Path::new(path)), Path::new(name));
            assert_eq!(canonical(Path::new(name)), Path::new(name), "once is enough");
        }
    }

    #[test]
    fn the_lists_use_the_names_of_the_system() {
        let system = SYSTEM.iter().chain(SECRETS).map(|(path, _)| *path);
        for path in system.chain([SCRATCH, DATA]) {
            assert_eq!(canonical(Path::new(path)), Path::new(path));
        }
        for (path, _) in SYSTEM {
            let secret = SECRETS.iter().find(|(secret, _)| Path::new(secret).starts_with(path));
            assert_eq!(secret, None, "'{path}' shows it");
            assert!(!Path::new(DATA).starts_with(path), "'{path}' shows the homes of all");
        }
    }

    #[test]
    fn runs_have_directories_of_their_own() {
        assert_ne!(scratch(Some(1)), scratch(Some(2)));
        assert!(scratch(Some(u64::MAX)).as_os_str().len() < 103 - 50, "room for the name of a socket");
        assert_eq!(scratch(None), Path::new("/private/tmp/sandbox-run-{run}"));
    }
}
