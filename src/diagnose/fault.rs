//! What would help where this program could not build a sandbox by itself.

use super::{
    CONFINED, MASKED_PROC, NO_CAPABILITIES, NO_MOUNTS, NO_PROC, NO_PROCESSES, NOT_ABOVE, READ_ONLY_PROC,
    by_step_in_process, filtered, no_further, not_permitted, restricted_by_apparmor,
};
use crate::stage::fault::{Act, Fault};
use crate::stage::outcome::Reason;

/// For a reason that has a step or a fault.
pub(super) fn remedy(reason: &Reason) -> Option<String> {
    let by_step = || reason.step.and_then(by_step_in_process);
    let text = match &reason.fault {
        Some(fault) => by_fault(fault)?,
        None if reason.text.contains("/proc/self") => NO_PROC,
        None => by_step()?,
    };
    Some(text.to_owned())
}

fn by_fault(Fault { act, errno, at: _ }: &Fault) -> Option<&'static str> {
    let text = match (act, *errno) {
        (Act::Namespaces | Act::Leave, libc::ENOSPC | libc::EUSERS) => no_further(),
        (Act::Namespaces, libc::EPERM) if restricted_by_apparmor() && !filtered() => by_module(),
        (Act::Namespaces, libc::EPERM) => not_permitted(),
        (Act::Namespaces, libc::EAGAIN) => NO_PROCESSES,
        (Act::Namespaces | Act::Ids, libc::EACCES) | (Act::Loopback, libc::EPERM) => by_module(),
        (Act::Ids, libc::EPERM) if restricted_by_apparmor() => by_module(),
        (Act::Ids, libc::EPERM) => NO_CAPABILITIES,
        (Act::Ids, libc::EROFS) => READ_ONLY_PROC,
        (Act::Ids, libc::ENOENT) => NO_PROC,
        (Act::Apart, libc::EACCES) => NO_MOUNTS,
        (Act::Apart | Act::Root, libc::EPERM) if filtered() => NO_MOUNTS,
        (Act::Apart, libc::EPERM) => CONFINED,
        (Act::Kernel, libc::EPERM) => MASKED_PROC,
        (Act::Source | Act::Place, libc::EACCES) => NOT_ABOVE,
        (Act::Enter, libc::EINVAL) => {
            "the root directory here is that of an initial ramdisk, which cannot be exchanged"
        }
        _ => return None,
    };
    Some(text)
}

fn by_module() -> &'static str {
    if restricted_by_apparmor() {
        "AppArmor restricts user namespaces here (kernel.apparmor_restrict_unprivileged_userns=1): install a profile that allows \
         them for this program, or bubblewrap, for which systems have one"
    } else {
        "a security module restricts user namespaces here: allow them for this program"
    }
}
