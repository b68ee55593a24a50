//! From what a launcher said to a cause and a remedy, for people.
//!
//! Text of other programs is read here for hints only; nothing is decided by it.

mod fault;

use std::fs;
use std::io;
use std::path::Path;

use crate::backend::{Backend, jobobject};
use crate::error::{Error, Kind, Result};
use crate::policy::Protection;
use crate::stage::control::Step;
use crate::stage::outcome::Reason;

/// There is no usable `bwrap`.
#[must_use]
pub fn no_bwrap(passed_over: &[String]) -> Error {
    let install = "install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap)";
    if passed_over.is_empty() {
        return Error::text(Kind::Backend, "cannot use backend 'bwrap': no bwrap in an absolute directory of PATH")
            .hint(install);
    }
    Error::text(Kind::Backend, format!("cannot use backend 'bwrap': {}", passed_over.join("; ")))
        .hint("put a bwrap that only root can change into a directory of PATH")
}

/// Refuses to start a backend that this system does not have; what it would do can still be printed.
pub fn elsewhere(backend: Backend) -> Result<()> {
    match backend.elsewhere() {
        None => Ok(()),
        Some(_) if backend == Backend::JobObject => Err(jobobject::of_windows()),
        Some(system) => {
            let error =
                Error::text(Kind::Backend, format!("cannot use backend '{backend}': it works on {system} only"));
            // What is mounted where depends on a host that has these mounts.
            Err(if backend == Backend::Bwrap { error } else { error.hint("--dry-run shows what it would be told") })
        }
    }
}

/// The kernel answers no question about Landlock.
#[must_use]
pub fn no_landlock(error: &io::Error) -> Error {
    let refuse = |reason: &str| Error::text(Kind::Backend, format!("cannot use backend 'landlock': {reason}"));
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => refuse("Landlock is switched off in this kernel")
            .hint("start the kernel with landlock in its list lsm=, as CONFIG_LSM has it by default"),
        Some(libc::ENOSYS) => {
            refuse("this kernel has no Landlock").hint("Linux 5.19 or newer has what it takes, if built with it")
        }
        Some(libc::EPERM) => refuse("a system-call filter around this process refuses Landlock")
            .hint("run the container with a seccomp profile that allows landlock_create_ruleset"),
        _ => refuse(&crate::sys::process::describe(error)),
    }
}

/// The kernel's Landlock is too old to be of use.
#[must_use]
pub fn old_landlock(version: i32) -> Error {
    let reason = "it forbids every rename between directories, and has no word for emptying files";
    Error::text(
        Kind::Backend,
        format!("cannot use backend 'landlock': this kernel has its version {version}: {reason}"),
    )
    .hint("Linux 5.19 or newer has version 2")
}

/// What of the words of a container engine says why it failed: there may be warnings before, and advice after.
#[must_use]
pub fn said_by_engine(said: &str) -> String {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines().find(|line| line.contains("rror:") || line.contains("rror response"));
    let other = lines().find(|line| !line.starts_with("time=\""));
    let line = error.or(other).or_else(|| lines().next()).unwrap_or_default();
    line.strip_prefix("Error: ").unwrap_or(line).to_owned()
}

/// There is no usable engine for a container; `wanted` says which were looked for.
#[must_use]
pub fn no_engine(backend: Backend, wanted: &[&str], passed_over: &[String]) -> Error {
    let wanted = wanted.join(" or ");
    let reason = if passed_over.is_empty() {
        format!("no {wanted} in an absolute directory of PATH")
    } else {
        passed_over.join("; ")
    };
    Error::text(Kind::Backend, format!("cannot use backend '{backend}': {reason}"))
        .hint("install podman (Debian, Ubuntu: apt-get install podman uidmap; Fedora: dnf install podman)")
}

/// A backend failed before the target started; `program` is what it started.
#[must_use]
pub fn not_started(backend: Backend, program: &Path, reason: &Reason) -> Error {
    let error = Error::text(Kind::Backend, format!("cannot start the sandbox with backend '{backend}': {reason}"));
    let known = match backend {
        _ if reason.lacks_descriptors() => Some(NO_DESCRIPTORS.to_owned()),
        // The others are about bubblewrap.
        Backend::Landlock
            if matches!(reason.step, Some(Step::View | Step::Workdir))
                && nix::unistd::geteuid().is_root()
                && reason.text.contains("permission denied") =>
        {
            Some(NOT_ABOVE.to_owned())
        }
        Backend::Landlock => reason.step.and_then(by_step_in_process).map(str::to_owned),
        Backend::Container(_) => remedy_for_engine(reason),
        Backend::Namespace => fault::remedy(reason),
        Backend::Seatbelt if reason.step.is_some() => None,
        Backend::Bwrap | Backend::Seatbelt | Backend::JobObject | Backend::None => remedy(reason),
    };
    match (known, backend) {
        (Some(hint), _) => error.hint(hint),
        (None, _) if reason.group => error,
        (None, Backend::Bwrap) => {
            error.hint(format!("what was found in PATH as bubblewrap is '{}'", program.display()))
        }
        (None, Backend::Container(_)) => {
            error.hint(format!("the engine that was found in PATH is '{}'", program.display()))
        }
        (None, Backend::Namespace | Backend::Landlock | Backend::Seatbelt | Backend::JobObject | Backend::None) => {
            error
        }
    }
}

/// Why Seatbelt cannot be had inside of itself.
pub const NESTED: &str = "this is already inside a sandbox of the system, and profiles do not nest";

/// What helps where a limit on a whole tree has nobody to keep it; `missing` is why.
#[must_use]
pub fn without_group(protection: Protection, missing: &str) -> Option<&'static str> {
    // A grant that is in the way is named by the reason itself.
    if !missing.starts_with(NO_GROUP) || missing.contains("write grant") {
        return None;
    }
    match protection {
        Protection::Memory => Some(
            "run it as root with a writable /sys/fs/cgroup, where systemd runs, or in a control group delegated to this user; \
             --address-space bounds each process anywhere",
        ),
        Protection::Procs => Some(
            "run it as root with a writable /sys/fs/cgroup, where systemd runs, or in a control group delegated to this user",
        ),
        Protection::FilesRead
        | Protection::FilesWrite
        | Protection::Masks
        | Protection::Network
        | Protection::Sockets
        | Protection::Processes
        | Protection::Privileges
        | Protection::Environment
        | Protection::Cpu
        | Protection::FileSize
        | Protection::OpenFiles
        | Protection::Output
        | Protection::Time => None,
    }
}

/// How a reason begins for which a limit has no control group.
pub const NO_GROUP: &str = "no control group can be made";

/// What helps root where a directory of somebody else is closed to others.
const NOT_ABOVE: &str = "inside a sandbox root is not above the permissions of others: run as the owner of that directory, or \
     open its parents with chmod a+x";

/// What would help.
#[must_use]
pub fn remedy(reason: &Reason) -> Option<String> {
    if let Some(step) = reason.step {
        return by_step(step).map(str::to_owned);
    }
    let said = reason.said.as_str();
    let has = |fragment: &str| said.contains(fragment);
    // What failed on the way to the launcher is in our words, or in those of the standard library.
    let ours = |fragment: &str| reason.text.to_ascii_lowercase().contains(fragment);
    let text = if has("setting up uid map: Permission denied")
        || has("RTM_NEWADDR: Operation not permitted")
        || has("RTM_NEWLINK: Operation not permitted")
        || (has("namespace failed: Permission denied"))
        || (has("No permissions to creat") && restricted_by_apparmor() && !filtered())
    {
        if restricted_by_apparmor() {
            "AppArmor restricts user namespaces here (kernel.apparmor_restrict_unprivileged_userns=1): install a profile \
             that allows bwrap, on Ubuntu 24.04 from /usr/share/apparmor/extra-profiles/bwrap-userns-restrict"
        } else {
            "a security module restricts user namespaces here: allow them for bwrap"
        }
    } else if has("RTM_NEWADDR: File exists") {
        "this kernel is emulated (gVisor) and lacks what a network of its own takes: run elsewhere"
    } else if has("Can't find source path") && has("Permission denied") {
        NOT_ABOVE
    } else if has("max_*_namespaces exceeded") || has("No space left on device") {
        no_further()
    } else if has("No permissions to creat") || has("namespace failed: Operation not permitted") {
        not_permitted()
    } else if has("setting up uid map: Read-only file system") {
        READ_ONLY_PROC
    } else if has("setting up uid map: Operation not permitted") {
        NO_CAPABILITIES
    } else if has("Failed to mount tmpfs: No such file") {
        "bwrap needs a directory /tmp on the host: make it"
    } else if reason.text.contains("/proc/self") {
        NO_PROC
    } else if has("Can't mount proc") {
        MASKED_PROC
    } else if has("Failed to make / slave: Permission denied") {
        NO_MOUNTS
    } else if has("Failed to make / slave") {
        CONFINED
    } else if has("Resource temporarily unavailable") {
        NO_PROCESSES
    } else if has("File too large") || ours("file too large") {
        "the limit on the size of files is too low for a start (ulimit -f); --max-file-size limits the command only"
    } else if has("Exceeded maximum number of arguments") {
        "grant or mask directories instead of many files"
    } else if has("Failed to connect to bus") || has("transient scope unit") {
        "systemd-run, which makes the control group for a limit, could not: --allow-gap memory,procs runs the command without \
         what it cannot limit"
    } else if reason.text == NESTED {
        "run it outside, or with '--backend none' under the rules of that sandbox alone"
    } else if has("Unknown option") {
        "this bwrap is too old: 0.4.0 or newer is needed"
    } else if has("Can't create file at") && has("No such device or address") {
        "this bwrap is too old to hide a socket: 0.5.0 or newer is needed"
    } else if has("Unexpected capabilities") {
        "this process has capabilities without being root: drop its ambient capabilities first"
    } else if has("Unable to remount") {
        "a mount below a grant cannot be made read-only: grant its neighbours one by one"
    } else if reason.text.contains("did not start the command within") {
        "on a host with hidepid on /proc bwrap hangs at this place; otherwise look at what 'sandbox-run --check' says"
    } else {
        return None;
    };
    Some(text.to_owned())
}

const READ_ONLY_PROC: &str = "this is already inside a sandbox whose /proc is read-only";
const NO_CAPABILITIES: &str =
    "this is already inside a sandbox that took the capabilities away, or /proc is mounted with hidepid";
const NO_PROC: &str = "/proc is not mounted here, and nothing can be started without it";
const MASKED_PROC: &str = "parts of /proc are masked here, as inside a container: run the container with unmasked /proc, or \
    accept that the host's process list shows through with --allow-gap processes";
const NO_MOUNTS: &str = "this container may not mount anything: give it CAP_SYS_ADMIN or run outside";
const CONFINED: &str = "this process is already confined by Landlock, which forbids mounting";
const NO_PROCESSES: &str = "the limit on processes of this user is reached (ulimit -u)";
const NO_DESCRIPTORS: &str =
    "the limit on open files is too low for a start (ulimit -n); --max-open-files limits the command only";

/// Whether this process is held to a profile of `AppArmor`.
fn confined_by_apparmor() -> bool {
    let label = |name: &str| fs::read_to_string(format!("/proc/self/attr/{name}")).ok();
    // The second place is that of whichever security module is the first.
    label("apparmor/current").or_else(|| label("current")).is_some_and(|label| label.trim().ends_with(" (enforce)"))
}

fn restricted_by_apparmor() -> bool {
    sysctl("kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1")
}

/// For each kind of namespace the switch, and what to say where it is off.
macro_rules! switches {
    ($($kind:literal)*) => {
        [$((
            concat!("user/max_", $kind, "_namespaces"),
            concat!(
                "namespaces of one kind are switched off here (user.max_", $kind, "_namespaces=0): raise the limit, or leave the \
                 sandbox that set it"
            ),
        )),*]
    };
}

/// A limit on namespaces is reached.
fn no_further() -> &'static str {
    let switches = switches!("user" "mnt" "pid" "net" "uts" "ipc" "cgroup");
    let off = switches.into_iter().find(|(name, _)| sysctl(name).as_deref() == Some("0"));
    off.map_or("this is already inside a sandbox that allows no further user namespaces", |(_, text)| text)
}

/// User namespaces are refused.
fn not_permitted() -> &'static str {
    if sysctl("kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        "user namespaces are switched off for ordinary users here: sysctl kernel.unprivileged_userns_clone=1"
    } else if filtered() {
        "this is already inside a container or another sandbox, whose system-call filter refuses new namespaces: leave it, or \
         run the container with a seccomp profile that allows unshare and clone"
    } else if confined_by_apparmor() {
        "an AppArmor profile confines this process and refuses what a user namespace gives: allow userns and capability sys_admin \
         in it"
    } else {
        "the kernel refuses user namespaces here, as it does inside a chroot"
    }
}

/// What would help where a container did not start.
fn remedy_for_engine(reason: &Reason) -> Option<String> {
    let has = |fragment: &str| reason.said.contains(fragment);
    let text = match reason.step {
        Some(Step::NotIsolated | Step::Privileges) => {
            "the engine is set up to give containers more than was asked for: look at its settings (containers.conf, daemon.json)"
        }
        Some(Step::View) => {
            "files were replaced while the container was being made, or the engine runs on another machine than this one"
        }
        Some(Step::Writable) => {
            "a file system below a read grant, a link or volume of the image or one of the engine's settings would be writable: \
             grant its neighbours one by one, or use another image"
        }
        Some(Step::Image) => {
            "nothing was mounted yet: use another image, or grant directories above or beside the one that the image has a link for"
        }
        Some(Step::Landlock | Step::Filter) => "the engine's own system-call filter is too old: update the engine",
        None if reason.group => "--allow-gap memory,procs runs the command without what the engine does not limit",
        None if has("image not known")
            || has("No such image")
            || has("unable to find image")
            || has("Unable to find image") =>
        {
            "the image must be there before the start: 'podman pull NAME' or 'docker pull NAME' fetches it"
        }
        None if reason.text.contains("by the annotation") => {
            "'podman create', 'podman export' and 'podman import' make an image without annotations of it, and without its variables"
        }
        None if has("Cannot connect to the Docker daemon") || has("failed to connect to the docker API") => {
            "start the Docker service, or use podman, which needs none"
        }
        None if has("permission denied while trying to connect") => {
            "this user may not talk to the Docker service; podman needs no such right"
        }
        None if has("newuidmap") || has("subuid") || has("insufficient UIDs") => {
            "rootless podman takes a range for this user in /etc/subuid and /etc/subgid, and newuidmap (package uidmap)"
        }
        None if has("cannot reach the process that wants this container") => {
            "the engine must run on this machine, and as this user or as root"
        }
        Some(_) | None => return None,
    };
    Some(text.to_owned())
}

fn by_step(step: Step) -> Option<&'static str> {
    match step {
        Step::NotIsolated | Step::Privileges => {
            Some("the program found as bwrap did not build the sandbox it was asked for")
        }
        Step::View => Some("files were replaced while the sandbox was being built: start again"),
        Step::Incomplete => Some("the program found as bwrap stopped reading its options early"),
        Step::Trust => Some("they take some hundred kilobytes of the private /tmp (--tmp-size)"),
        Step::WayOut => Some("choose another --egress-port: those below 1024 are not to be had inside"),
        Step::Handle
        | Step::Cover
        | Step::Landlock
        | Step::Descriptors
        | Step::Signals
        | Step::Fork
        | Step::Session
        | Step::Workdir
        | Step::Filter
        | Step::Layers
        | Step::Scratch
        | Step::Children
        | Step::Limits
        | Step::Connections
        | Step::Image
        | Step::Writable => None,
    }
}

/// The same where there is no launcher.
fn by_step_in_process(step: Step) -> Option<&'static str> {
    match step {
        Step::View => by_step(step),
        Step::Children => {
            Some("mount /proc; inside another Landlock sandbox --allow-gap processes for that one opens it")
        }
        Step::Connections => Some(
            "inside another sandbox, and where a filter allows no pidfd_getfd, none by Landlock lets requests leave: leave out \
             --allow-host there",
        ),
        Step::NotIsolated => Some("this kernel says that it enforces Landlock and does not: choose another backend"),
        Step::Privileges
        | Step::Incomplete
        | Step::Handle
        | Step::Cover
        | Step::Landlock
        | Step::Descriptors
        | Step::Signals
        | Step::Fork
        | Step::Session
        | Step::Workdir
        | Step::Filter
        | Step::Layers
        | Step::Scratch
        | Step::WayOut
        | Step::Trust
        | Step::Limits
        | Step::Image
        | Step::Writable => None,
    }
}

fn sysctl(name: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/sys/{name}")).ok().map(|text| text.trim().to_owned())
}

/// Whether a system-call filter is loaded in this process.
pub(crate) fn filtered() -> bool {
    fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| status.lines().any(|line| line.split_whitespace().eq(["Seccomp:", "2"])))
}
