//! What nearly every program looks for and does without: told only to those who ask for more.
//!
//! A table of places by prefix, and no guess: a program that fails for want of one of these says so itself.

use std::path::Path;

/// Places, each with everything below it.
const PLACES: &[&str] = &[
    // The C library: locales, the loader, users and hosts by way of services.
    "/etc/ld.so.nohwcap",
    "/etc/ld.so.preload",
    "/etc/locale.alias",
    "/etc/selinux",
    "/run/nscd",
    "/run/systemd/resolve/io.systemd.Resolve",
    "/run/systemd/userdb",
    "/usr/lib/locale",
    "/usr/share/locale",
    "/var/cache/nscd",
    "/var/db/nscd",
    "/var/lib/sss",
    "/var/run/nscd",
    "/var/run/systemd/userdb",
    // The size of the machine, for which there are other sources.
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    "/sys/fs/cgroup",
    "/sys/fs/selinux",
    "/sys/kernel/mm",
    // Terminals and line editing.
    "/etc/terminfo",
    "/lib/terminfo",
];

/// Names of files that are looked for on the way to others.
const NAMES: &[&str] = &["sitecustomize.py", "usercustomize.py"];

/// Whether `path` is looked for by programs that do without it.
pub(super) fn is_probe(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let statistics = || {
        // Java looks for others of its kind.
        path.parent() == Some(Path::new("/tmp")) && name.is_some_and(|name| name.starts_with("hsperfdata_"))
    };
    PLACES.iter().any(|place| path.starts_with(place)) || name.is_some_and(|name| NAMES.contains(&name)) || statistics()
}

/// Whether `path` is what git makes to keep what it found out on the way (`git status`, `git diff`), and does without where it
/// cannot; commands that change something need it, and fail.
pub(super) fn is_spare_lock(path: &Path) -> bool {
    let lock = path.file_name().is_some_and(|name| name == "index.lock");
    lock && path.components().any(|part| part.as_os_str() == ".git")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_names_only() {
        for (path, expected) in [
            ("/usr/share/locale/locale.alias", true),
            ("/usr/share/locale", true),
            ("/usr/share/locales", false),
            ("/sys/fs/cgroup/memory/memory.max", true),
            ("/etc/shadow", false),
            ("/tmp/hsperfdata_root", true),
            ("/tmp/x/hsperfdata_root", false),
            ("/tmp", false),
        ] {
            assert_eq!(is_probe(Path::new(path)), expected, "{path}");
        }
    }
}
