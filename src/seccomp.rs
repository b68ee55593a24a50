//! The system-call filter of the inner stage: what namespaces and capabilities do not close.
//!
//! A constant program, so that no start pays for building it. It refuses terminal injection and new namespaces, and
//! everything that reaches the kernel by another table of call numbers than the one it knows.

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
const ARGUMENT_0: u32 = 16;
const ARGUMENT_1: u32 = 24;

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

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
const fn number(call: libc::c_long) -> u32 {
    call as u32
}

const fn load(offset: u32) -> Instruction {
    Instruction { code: LOAD, jt: 0, jf: 0, k: offset }
}

const fn finish(action: u32) -> Instruction {
    Instruction { code: RETURN, jt: 0, jf: 0, k: action }
}

/// When the comparison holds, go to line `goal`; this is line `here`.
#[allow(clippy::cast_possible_truncation)]
const fn when(code: u16, k: u32, here: usize, goal: usize) -> Instruction {
    Instruction { code, jt: (goal - here - 1) as u8, jf: 0, k }
}

const LINE_IOCTL: usize = 11;
const LINE_CLONE: usize = 15;
const LINE_EPERM: usize = 18;
const LINE_ENOSYS: usize = 19;

/// The filter. Requests and flags are compared in their low 32 bits, as the kernel reads them (CVE-2019-10063).
pub const PROGRAM: [Instruction; 20] = [
    load(ARCHITECTURE),
    when(IF_EQUAL, ARCH, 1, 3),
    // A foreign table of numbers (i386 by int 0x80, 32-bit arm) would pass every comparison below.
    finish(KILL_PROCESS),
    load(NUMBER),
    when(IF_AT_LEAST, X32, 4, LINE_ENOSYS),
    when(IF_EQUAL, number(libc::SYS_ioctl), 5, LINE_IOCTL),
    when(IF_EQUAL, number(libc::SYS_clone), 6, LINE_CLONE),
    // Its flags are in memory where no filter looks; ENOSYS makes libc fall back to clone.
    when(IF_EQUAL, number(libc::SYS_clone3), 7, LINE_ENOSYS),
    when(IF_EQUAL, number(libc::SYS_unshare), 8, LINE_EPERM),
    when(IF_EQUAL, number(libc::SYS_setns), 9, LINE_EPERM),
    finish(ALLOW),
    load(ARGUMENT_1),
    when(IF_EQUAL, TIOCSTI, 12, LINE_EPERM),
    when(IF_EQUAL, TIOCLINUX, 13, LINE_EPERM),
    finish(ALLOW),
    load(ARGUMENT_0),
    when(IF_ANY_BIT, NEW_NAMESPACE, 16, LINE_EPERM),
    finish(ALLOW),
    finish(ERRNO | EPERM),
    finish(ERRNO | ENOSYS),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the program as the kernel does, over (architecture, number, first argument, second argument).
    fn verdict(arch: u32, call: u32, first: u64, second: u64) -> u32 {
        let mut words = [0_u32; 8];
        words[0] = call;
        words[1] = arch;
        for (at, argument) in [(4, first), (6, second)] {
            words[at] = u32::try_from(argument & u64::from(u32::MAX)).unwrap();
            words[at + 1] = u32::try_from(argument >> 32).unwrap();
        }
        let (mut line, mut value) = (0, 0);
        loop {
            let step = PROGRAM[line];
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
            (0x4000_0000 | number(libc::SYS_getpid), 0, 0, ERRNO | ENOSYS),
        ] {
            assert_eq!(verdict(ARCH, call, first, second), expected, "call {call} {first:#x} {second:#x}");
        }
        assert_eq!(verdict(0x4000_0003, 20, 0, 0), KILL_PROCESS);
    }
}
