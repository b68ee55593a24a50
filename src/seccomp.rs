//! The system-call filter of the inner stage: what namespaces and capabilities do not close.
//!
//! Allows what it does not name. It refuses terminal injection, new namespaces, the keyrings of the caller, sockets that no
//! network namespace holds back, and everything that reaches the kernel by another table of call numbers than the one it knows.
//! A few dozen instructions put together from a table: nothing that a start would notice.

use crate::sys::filter::Instruction;

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xC000_00B7;

// Classic BPF operations, from linux/bpf_common.h.
const LOAD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

// Offsets in struct seccomp_data, little endian.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

const ALLOW: u32 = 0x7FFF_0000;
const KILL_PROCESS: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// `CLONE_NEW` with NS, CGROUP, UTS, IPC, USER, PID, NET. `CLONE_NEWTIME` shares its bit with the exit signal of `clone` and needs none.
const NEW_NAMESPACE: u32 = 0x7E02_0000;
/// Pushes a character into the terminal's input (CVE-2017-5226).
const TIOCSTI: u32 = 0x5412;
/// Pastes into a virtual console's input.
const TIOCLINUX: u32 = 0x541C;
/// x32 calls carry the 64-bit architecture word and this bit; a kernel without x32 answers ENOSYS, and so do we.
const X32: u32 = 0x4000_0000;
/// Sockets to the hypervisor and to other virtual machines: no network namespace holds them.
const AF_VSOCK: u32 = 40;

/// What is done with one call.
enum Verdict {
    /// Refused, always.
    Refuse,
    /// The kernel pretends not to know it, so that callers fall back to another.
    Unknown,
    /// Refused when the low 32 bits of this argument, which are what the kernel reads, equal one of these (CVE-2019-10063).
    RefuseIf { argument: u32, equals: &'static [u32] },
    /// Refused when this argument has one of these bits.
    RefuseAny { argument: u32, bits: u32 },
}

/// The calls that are not simply allowed.
const TABLE: &[(libc::c_long, Verdict)] = &[
    (libc::SYS_ioctl, Verdict::RefuseIf { argument: 1, equals: &[TIOCSTI, TIOCLINUX] }),
    (libc::SYS_clone, Verdict::RefuseAny { argument: 0, bits: NEW_NAMESPACE }),
    // Its flags are in memory where no filter looks; ENOSYS makes libc fall back to clone.
    (libc::SYS_clone3, Verdict::Unknown),
    (libc::SYS_unshare, Verdict::Refuse),
    (libc::SYS_setns, Verdict::Refuse),
    // Keyrings are not namespaced: the caller's can be read, and what is put there outlives the run.
    (libc::SYS_keyctl, Verdict::Refuse),
    (libc::SYS_add_key, Verdict::Refuse),
    (libc::SYS_request_key, Verdict::Refuse),
    (libc::SYS_socket, Verdict::RefuseIf { argument: 0, equals: &[AF_VSOCK] }),
    // Limits of process 1, which has our user id: its end would be the end of the run, by another status.
    (libc::SYS_prlimit64, Verdict::RefuseIf { argument: 0, equals: &[1] }),
];

/// Our own process group holds the caller's processes when the session is shared, and no process namespace hides a group.
const OWN_GROUP: (libc::c_long, Verdict) = (libc::SYS_kill, Verdict::RefuseIf { argument: 0, equals: &[0] });

const fn step(code: u16, k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction { code, jt, jf, k }
}

/// The filter. `own_group` refuses signals to the own process group as well.
#[must_use]
pub fn program(own_group: bool) -> Vec<Instruction> {
    let mut program = vec![
        step(LOAD, ARCHITECTURE, 0, 0),
        step(IF_EQUAL, ARCH, 1, 0),
        // A foreign table of numbers (i386 by int 0x80, 32-bit arm) would pass every comparison below.
        step(RETURN, KILL_PROCESS, 0, 0),
        step(LOAD, NUMBER, 0, 0),
        step(IF_AT_LEAST, X32, 0, 1),
        step(RETURN, ERRNO | ENOSYS, 0, 0),
    ];
    for (call, verdict) in TABLE.iter().chain(own_group.then_some(&OWN_GROUP)) {
        let branch = branch(verdict);
        // Every branch is short and ends by returning; its length fits.
        let length = u8::try_from(branch.len()).unwrap_or(u8::MAX);
        program.push(step(IF_EQUAL, u32::try_from(*call).unwrap_or(u32::MAX), 0, length));
        program.extend(branch);
    }
    program.push(step(RETURN, ALLOW, 0, 0));
    program
}

/// What follows when the number is the one.
fn branch(verdict: &Verdict) -> Vec<Instruction> {
    let refuse = step(RETURN, ERRNO | EPERM, 0, 0);
    let allow = step(RETURN, ALLOW, 0, 0);
    match verdict {
        Verdict::Refuse => vec![refuse],
        Verdict::Unknown => vec![step(RETURN, ERRNO | ENOSYS, 0, 0)],
        Verdict::RefuseIf { argument, equals } => {
            let compare = (1..=equals.len()).rev().zip(*equals);
            let compare = compare.map(|(left, value)| step(IF_EQUAL, *value, u8::try_from(left).unwrap_or(u8::MAX), 0));
            [step(LOAD, ARGUMENTS + 8 * argument, 0, 0)].into_iter().chain(compare).chain([allow, refuse]).collect()
        }
        Verdict::RefuseAny { argument, bits } => {
            vec![step(LOAD, ARGUMENTS + 8 * argument, 0, 0), step(IF_ANY_BIT, *bits, 1, 0), allow, refuse]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the program as the kernel does, over (architecture, number, first argument, second argument).
    fn verdict(program: &[Instruction], arch: u32, call: u32, first: u64, second: u64) -> u32 {
        let mut words = [0_u32; 8];
        words[0] = call;
        words[1] = arch;
        for (at, argument) in [(4, first), (6, second)] {
            words[at] = u32::try_from(argument & u64::from(u32::MAX)).unwrap();
            words[at + 1] = u32::try_from(argument >> 32).unwrap();
        }
        let (mut line, mut value) = (0, 0);
        loop {
            let step = program[line];
            let holds = match step.code {
                LOAD => {
                    value = words[step.k as usize / 4];
                    line += 1;
                    continue;
                }
                RETURN => return step.k,
                IF_EQUAL => value == step.k,
                IF_AT_LEAST => value >= step.k,
                IF_ANY_BIT => value & step.k != 0,
                code => panic!("unknown operation {code:#x}"),
            };
            line += 1 + usize::from(if holds { step.jt } else { step.jf });
        }
    }

    fn number(call: libc::c_long) -> u32 {
        u32::try_from(call).unwrap()
    }

    #[test]
    fn the_own_group_is_refused_on_demand() {
        let kill = number(libc::SYS_kill);
        for (own_group, expected) in [(false, ALLOW), (true, ERRNO | EPERM)] {
            assert_eq!(verdict(&program(own_group), ARCH, kill, 0, 15), expected);
        }
        assert_eq!(verdict(&program(true), ARCH, kill, 7, 15), ALLOW);
    }

    #[test]
    fn verdicts() {
        let ioctl = number(libc::SYS_ioctl);
        let clone = number(libc::SYS_clone);
        for (call, first, second, expected) in [
            (number(libc::SYS_read), 0, 0, ALLOW),
            (ioctl, 0, 0x5413, ALLOW),
            (ioctl, 0, 0x5412, ERRNO | EPERM),
            (ioctl, 0, 0xFFFF_FFFF_0000_5412, ERRNO | EPERM),
            (ioctl, 0, 0x1_0000_541C, ERRNO | EPERM),
            (clone, 0x0100_4111, 0, ALLOW),
            (clone, 0x1000_0011, 0, ERRNO | EPERM),
            (clone, 0x0002_0000, 0, ERRNO | EPERM),
            (number(libc::SYS_clone3), 0, 0, ERRNO | ENOSYS),
            (number(libc::SYS_unshare), 0, 0, ERRNO | EPERM),
            (number(libc::SYS_setns), 0, 0, ERRNO | EPERM),
            (number(libc::SYS_keyctl), 0, 0, ERRNO | EPERM),
            (number(libc::SYS_socket), 40, 1, ERRNO | EPERM),
            (number(libc::SYS_socket), 1, 1, ALLOW),
            (number(libc::SYS_prlimit64), 1, 0, ERRNO | EPERM),
            (number(libc::SYS_prlimit64), 0, 0, ALLOW),
            (number(libc::SYS_kill), 1, 0, ALLOW),
            (0x4000_0000 | number(libc::SYS_getpid), 0, 0, ERRNO | ENOSYS),
        ] {
            assert_eq!(
                verdict(&program(false), ARCH, call, first, second),
                expected,
                "call {call} {first:#x} {second:#x}"
            );
        }
        assert_eq!(verdict(&program(false), 0x4000_0003, 20, 0, 0), KILL_PROCESS);
    }
}
