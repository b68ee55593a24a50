//! Which refused calls the system-call filter answers for, told from how strace writes their arguments.
//!
//! Speaks of calls that [`GROUPS`](crate::seccomp::table::GROUPS) names and of no others; what it cannot tell from the text it
//! takes for the kernel's own answer.

use std::collections::BTreeSet;

use crate::seccomp;
use crate::seccomp::table::{Answer, Applies, Call, Group};

/// Groups whose callers take another way: every program that starts a thread meets one of them.
const FALL_BACK: [&str; 3] = ["clone3", "openat2 of root", "openat2 under old Landlock"];

/// Names of the calls that a tracer has to tell of, as strace takes them; `?` for those that it may not know.
pub(crate) fn traced(options: seccomp::Options) -> BTreeSet<&'static str> {
    let calls = seccomp::groups(options).filter(|group| !FALL_BACK.contains(&group.name)).flat_map(|group| group.calls);
    calls.filter(|call| call.number >= 0).map(Call::name).collect()
}

/// The group for which the filter refuses `call` with these arguments, if it does.
pub(super) fn refuses(options: seccomp::Options, call: &str, arguments: &str, error: &str) -> Option<&'static Group> {
    seccomp::groups(options).find(|group| {
        let answers = group.answer.name() == error && !FALL_BACK.contains(&group.name);
        answers
            && group.calls.iter().any(|known| {
                known.name() == call && (known.when.is_empty() || applies(call, group, arguments) == Some(true))
            })
    })
}

/// The option that would allow it.
pub(super) fn remedy(group: &Group) -> &'static str {
    match group.applies {
        Applies::SharedGroup | Applies::OwnGroup => "--new-session always gives the command a group of its own",
        Applies::Untraced => "--trace allows it",
        Applies::Root => "no option allows it to root",
        Applies::NoNetwork => "--net host allows it, with the whole network",
        Applies::WayOut => "--allow-host allows a host to what asks the proxy, --net host the whole network",
        Applies::NoUnix => "--allow-gap sockets allows it, with every socket of the host",
        Applies::NoMetadata | Applies::RootNoMetadata if group.answer == Answer::Asked => {
            "a write grant allows it for what lies below"
        }
        Applies::Always | Applies::OldLandlock | Applies::Bare | Applies::NoMetadata | Applies::RootNoMetadata => {
            "no option allows it"
        }
    }
}

/// Whether a call that is refused for some arguments only was made with these; `None` for one that is not known here.
fn applies(call: &str, group: &Group, arguments: &str) -> Option<bool> {
    let mut words = arguments.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    let mut parts = arguments.split(", ");
    let first = parts.next().unwrap_or_default();
    match (group.applies, call) {
        (Applies::NoNetwork, _) => return Some(matches!(first, "AF_INET" | "AF_INET6" | "AF_NETLINK")),
        (Applies::WayOut, "socket") => {
            let internet = matches!(first, "AF_INET" | "AF_INET6");
            let plain = arguments.contains("SOCK_STREAM") && matches!(parts.nth(1), Some("IPPROTO_TCP" | "IPPROTO_IP"));
            return Some(first == "AF_NETLINK" || internet && !plain);
        }
        (Applies::WayOut, "setsockopt") => {
            const LEADING: [&str; 5] =
                ["IP_OPTIONS", "SO_BINDTODEVICE", "SO_BINDTOIFINDEX", "TCP_FASTOPEN_CONNECT", "TCP_ULP"];
            return Some(words.any(|word| LEADING.contains(&word)));
        }
        (Applies::WayOut, _) => return Some(arguments.contains("MSG_FASTOPEN")),
        (Applies::NoUnix, "socket") => return Some(matches!(first, "AF_UNIX" | "AF_LOCAL")),
        (Applies::NoUnix, _) => return Some(arguments.contains("SOCK_DGRAM") || arguments.contains("SOCK_RAW")),
        (Applies::NoMetadata, "seccomp") => return Some(arguments.contains("NEW_LISTENER")),
        (Applies::NoMetadata, _) => return Some(parts.next() != Some("NULL")),
        // Of another process, or of more than one.
        (Applies::Bare, "setpriority") => return Some(first != "PRIO_PROCESS" || parts.next() != Some("0")),
        (Applies::Bare, "ioprio_set") => return Some(first != "IOPRIO_WHO_PROCESS" || parts.next() != Some("0")),
        (Applies::Bare, _) => return Some(first != "0"),
        _ => {}
    }
    Some(match call {
        "clone" => words.any(|word| word.starts_with("CLONE_NEW")),
        // What it may do without a filter takes no privilege.
        "unshare" | "personality" => true,
        "ioctl" => words.any(|word| word == "TIOCSTI" || word == "TIOCLINUX"),
        "prlimit64" => first == "1",
        "kill" => first == "0",
        "setpriority" => first == "PRIO_PGRP",
        "ioprio_set" => first == "IOPRIO_WHO_PGRP",
        "socket" => match first {
            "AF_UNIX" | "AF_LOCAL" | "AF_INET" | "AF_INET6" => false,
            "AF_NETLINK" => parts.nth(1) != Some("NETLINK_ROUTE"),
            _ => true,
        },
        "socketpair" => !matches!(first, "AF_UNIX" | "AF_LOCAL" | "AF_INET" | "AF_INET6"),
        "open" | "openat" if group.applies == Applies::OldLandlock => {
            let has = |flag| arguments.contains(flag);
            has("O_TRUNC") && !has("O_WRONLY") && !has("O_RDWR")
        }
        "chmod" | "fchmod" | "fchmodat" | "fchmodat2" | "open" | "openat" | "creat" | "mknod" | "mknodat" => {
            words.any(is_setuid)
        }
        _ => return None,
    })
}

/// Whether a word is a mode, as strace writes it, with the bit that makes a program run as its owner.
fn is_setuid(word: &str) -> bool {
    let mode = word.strip_prefix('0').and_then(|digits| u32::from_str_radix(digits, 8).ok());
    word == "S_ISUID" || mode.is_some_and(|mode| mode & 0o4000 != 0 && mode <= 0o7777)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seccomp::table::GROUPS;

    const ALL: seccomp::Options = seccomp::Options {
        own_group: true,
        shared_group: true,
        trace: true,
        as_root: true,
        old_landlock: true,
        bare: false,
        no_network: false,
        way_out: false,
        no_unix: false,
        no_metadata: false,
        asked: false,
    };

    #[test]
    fn every_call_that_is_refused_for_some_arguments_is_known() {
        for group in GROUPS {
            for call in group.calls.iter().filter(|call| !call.when.is_empty()) {
                assert!(applies(call.name(), group, "").is_some(), "{call}");
            }
        }
    }

    #[test]
    fn calls_as_strace_writes_them() {
        for (call, arguments, error, expected) in [
            ("mount", "\"a\", \"b\", \"tmpfs\", 0, NULL", "EPERM", Some("mounts")),
            ("mount", "\"a\", \"b\", \"tmpfs\", 0, NULL", "ENOENT", None),
            ("unshare", "CLONE_NEWUSER", "EPERM", Some("namespaces")),
            ("clone", "child_stack=NULL, flags=CLONE_NEWUSER|SIGCHLD", "EPERM", Some("namespaces")),
            ("clone", "child_stack=NULL, flags=CLONE_VM|SIGCHLD", "EPERM", None),
            ("clone3", "{flags=0}, 88", "ENOSYS", None),
            ("io_uring_setup", "8, {flags=0}", "ENOSYS", Some("io_uring")),
            ("socket", "AF_VSOCK, SOCK_STREAM, 0", "EPERM", Some("sockets")),
            ("socket", "AF_NETLINK, SOCK_RAW, NETLINK_AUDIT", "EPERM", Some("sockets")),
            ("socket", "AF_NETLINK, SOCK_RAW, NETLINK_ROUTE", "EPERM", None),
            ("socket", "AF_INET, SOCK_RAW, IPPROTO_ICMP", "EPERM", None),
            ("ioctl", "0</dev/pts/1>, TIOCSTI, \"a\"", "EPERM", Some("terminal input")),
            ("ioctl", "0</dev/pts/1>, TIOCSCTTY, 0", "EPERM", None),
            ("chmod", "\"f\", 04755", "EPERM", Some("setuid files of root")),
            ("fchmodat", "AT_FDCWD</w>, \"f\", 0755", "EPERM", None),
            ("openat", "AT_FDCWD</w>, \"f\", O_RDONLY|O_TRUNC", "EPERM", Some("emptying by name")),
            ("openat", "AT_FDCWD</w>, \"f\", O_WRONLY|O_CREAT|O_TRUNC, 0666", "EPERM", None),
            ("kill", "0, SIGTERM", "EPERM", Some("signals to the caller's group")),
            ("kill", "7, SIGTERM", "EPERM", None),
            ("prlimit64", "1, RLIMIT_CORE, NULL, 0x7ff", "EPERM", Some("process 1")),
            ("ptrace", "PTRACE_TRACEME", "EPERM", None),
        ] {
            let group = refuses(ALL, call, arguments, error);
            assert_eq!(group.map(|group| group.name), expected, "{call}({arguments})");
        }
    }
}
