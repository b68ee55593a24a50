//! What programs need of the system besides files: services, devices, numbers, and the network when it is on.
//!
//! Fixed lists, gathered from profiles that others publish. Nothing here depends on a plan but the network.

use crate::backend::sbpl::{Expr, Profile};
use crate::error::Result;
use crate::plan::way_out::Entry;
use crate::policy::Network;

use super::of;

/// Users and groups, the directory of a user, the log, notices of changes.
const SERVICES: &[&str] = &[
    "com.apple.bsd.dirhelper",
    "com.apple.logd",
    "com.apple.system.logger",
    "com.apple.system.notification_center",
    "com.apple.system.opendirectoryd.libinfo",
    "com.apple.system.opendirectoryd.membership",
];

/// Trust in certificates, and the state of the network.
const NETWORK_SERVICES: &[&str] =
    &["com.apple.SystemConfiguration.configd", "com.apple.networkd", "com.apple.ocspd", "com.apple.trustd.agent"];

/// Numbers of the machine. Not those of other processes but by their number, and never their arguments: these hold secrets.
const NUMBERS: &[&str] = &[
    "kern.argmax",
    "kern.boottime",
    "kern.clockrate",
    "kern.hostname",
    "kern.iossupportversion",
    "kern.maxfiles",
    "kern.maxfilesperproc",
    "kern.maxproc",
    "kern.maxprocperuid",
    "kern.ngroups",
    "kern.osproductversion",
    "kern.osrelease",
    "kern.ostype",
    "kern.osvariant_status",
    "kern.osversion",
    "kern.secure_kernel",
    "kern.tcsm_available",
    "kern.tcsm_enable",
    "kern.usrstack64",
    "kern.version",
    "sysctl.name2oid",
    "sysctl.oidfmt",
    "sysctl.proc_cputype",
    "sysctl.proc_native",
    "vm.loadavg",
];

/// Beginnings of names of such numbers.
const NUMBERS_BELOW: &[&str] = &["hw.", "kern.proc.pgrp.", "kern.proc.pid.", "machdep.cpu."];

/// Devices that are the same for everybody: read.
const READ: &[&str] = &["/dev", "/dev/autofs_nowait", "/dev/random", "/dev/urandom", "/dev/zero"];

/// The same: read and written.
const WRITE: &[&str] =
    &["/dev/dtracehelper", "/dev/null", "/dev/ptmx", "/dev/stderr", "/dev/stdin", "/dev/stdout", "/dev/tty"];

/// Where each user has a directory for temporary files and one for caches.
pub(super) const CACHES: &str = "/private/var/folders";

/// Services of every run.
pub(super) fn base(profile: &mut Profile) -> Result<()> {
    profile.heading("base services");
    profile.rule("allow", &["mach-lookup"], all("global-name", SERVICES)?);
    profile.everywhere("allow", &["ipc-posix-sem", "ipc-posix-shm"]);
    let mut numbers = all("sysctl-name", NUMBERS)?;
    numbers.extend(all("sysctl-name-prefix", NUMBERS_BELOW)?);
    profile.rule("allow", &["sysctl-read"], numbers);
    // Python sets flags of descriptors by it, of pipes as well.
    profile.everywhere("allow", &["file-ioctl"]);
    Ok(())
}

/// Devices, and terminals that are made inside: the system marks these, so that no other one is meant.
pub(super) fn devices(profile: &mut Profile) -> Result<()> {
    profile.heading("devices");
    profile.rule("allow", &["file-read*"], all("literal", READ)?);
    let mut written = all("literal", WRITE)?;
    written.push(of("subpath", "/dev/fd")?);
    profile.rule("allow", &["file-read*", "file-write*"], written);
    profile.everywhere("allow", &["pseudo-tty"]);
    let made = [of("regex", "^/dev/ttys[0-9]+$")?, of("extension", "com.apple.sandbox.pty")?];
    profile.rule("allow", &["file-read*", "file-write*"], [Expr::all(made.to_vec())]);
    Ok(())
}

/// The linker's cache of the user. Not the directories around it, which show the files of others.
pub(super) fn dyld_cache() -> Result<Expr> {
    of("regex", &format!("^{CACHES}/[^/]+/[^/]+/C/com[.]apple[.]dyld(/|$)"))
}

/// The network of the host, or nothing, or the port of a proxy. By address and never as a whole: that would open every Unix socket as
/// well.
///
/// With a proxy neither names are looked up nor certificates judged by services of the system: these ask others, on behalf of whoever
/// asks them and with what he says.
pub(super) fn network(profile: &mut Profile, network: Network, entry: Option<&Entry>) -> Result<()> {
    match network {
        Network::Off => {
            if let Some(entry) = entry {
                profile.heading("network");
                profile.rule(
                    "allow",
                    &["network-outbound"],
                    [address("remote", &format!("localhost:{}", entry.number()))?],
                );
            }
        }
        Network::Host => {
            let of_system = |name, what| Expr::form(name, [Expr::Word(what)]);
            profile.heading("network");
            profile.rule("allow", &["network-outbound"], [address("remote", "*:*")?]);
            profile.rule("allow", &["network-bind", "network-inbound"], [address("local", "*:*")?]);
            profile.rule("allow", &["mach-lookup"], all("global-name", NETWORK_SERVICES)?);
            profile.rule("allow", &["sysctl-read"], [of("sysctl-name-prefix", "net.routetable.")?]);
            let control =
                vec![of_system("socket-domain", "AF_SYSTEM"), Expr::form("socket-protocol", [Expr::Number(2)])];
            let sockets = [Expr::all(control), of_system("socket-domain", "AF_ROUTE")];
            profile.rule("allow", &["system-socket"], sockets);
        }
    }
    Ok(())
}

/// The filter of an address, of which a profile knows two hosts: any, and this one by loopback.
fn address(end: &'static str, text: &str) -> Result<Expr> {
    Ok(Expr::form(end, [Expr::Word("ip"), Expr::Text(super::Text::new(text).map_err(super::unsayable)?)]))
}

fn all(filter: &'static str, names: &[&str]) -> Result<Vec<Expr>> {
    names.iter().map(|name| of(filter, name)).collect()
}
