//! The program against the table, by running it as the kernel does.

use std::collections::BTreeMap;

use super::*;

/// Every combination of options that belong together.
fn all_options() -> impl Iterator<Item = Options> {
    // With namespaces around the target, and without any, where only root makes a difference.
    (0..32).chain((0..64).map(|bits| bits << 4 & !16 | bits << 3 & 8)).map(|bits: u32| Options {
        own_group: bits & 1 != 0,
        shared_group: bits & 2 != 0,
        trace: bits & 4 != 0,
        as_root: bits & 8 != 0,
        old_landlock: bits & 16 != 0,
        bare: bits & 32 != 0,
        // One or the other.
        no_network: bits & 64 != 0 && bits & 512 == 0,
        way_out: bits & 512 != 0,
        no_unix: bits & 128 != 0,
        no_metadata: bits & 256 != 0,
        asked: bits & 128 != 0,
    })
}

/// The program's answer, and the number of instructions that it took.
fn run(program: &[Instruction], arch: u32, call: u32, arguments: [u64; 6]) -> (u32, usize) {
    let mut words = [0_u32; 16];
    words[0] = call;
    words[1] = arch;
    for (at, argument) in (4..).step_by(2).zip(arguments) {
        words[at] = u32::try_from(argument & u64::from(u32::MAX)).unwrap();
        words[at + 1] = u32::try_from(argument >> 32).unwrap();
    }
    let (mut line, mut value) = (0, 0);
    for steps in 1.. {
        let step = program[line];
        let holds = match step.code {
            LOAD => {
                value = words[step.k as usize / 4];
                line += 1;
                continue;
            }
            JUMP => {
                line += 1 + step.k as usize;
                continue;
            }
            AND => {
                value &= step.k;
                line += 1;
                continue;
            }
            RETURN => return (step.k, steps),
            IF_EQUAL => value == step.k,
            IF_AT_LEAST => value >= step.k,
            IF_ANY_BIT => value & step.k != 0,
            code => panic!("unknown operation {code:#x}"),
        };
        line += 1 + usize::from(if holds { step.jt } else { step.jf });
    }
    unreachable!()
}

/// What the table says, read in the plainest way.
fn expected(options: Options, number: u32, arguments: [u64; 6]) -> u32 {
    if number > NEWEST {
        return ERRNO | ENOSYS;
    }
    let low = |argument: u32| u32::try_from(arguments[argument as usize] & u64::from(u32::MAX)).unwrap();
    for group in groups(options) {
        for call in group.calls.iter().filter(|call| u32::try_from(call.number) == Ok(number)) {
            let holds = |test: &Test| match *test {
                Test::Is(argument, values) => values.contains(&low(argument)),
                Test::IsNot(argument, values) => !values.contains(&low(argument)),
                Test::Within(argument, first, last) => (first..=last).contains(&low(argument)),
                Test::Masked(argument, bits, values) => values.contains(&(low(argument) & bits)),
                Test::MaskedNot(argument, bits, values) => !values.contains(&(low(argument) & bits)),
                Test::HasAny(argument, bits) => low(argument) & bits != 0,
                Test::HasNone(argument, bits) => low(argument) & bits == 0,
                Test::IsPointer(argument) => arguments[argument as usize] != 0,
            };
            if call.tests.iter().all(holds) {
                return match group.answer {
                    Answer::Refused => ERRNO | EPERM,
                    Answer::Unknown => ERRNO | ENOSYS,
                    Answer::Asked if options.asked => ASK,
                    Answer::Asked => ERRNO | EACCES,
                };
            }
        }
    }
    ALLOW
}

#[test]
fn the_program_says_what_the_table_says() {
    let values = [
        [0, 1, 2, 3, 10, 16, 17, 40, 0x5412, 0x541C, 0o100, 0o4755, 0o20_000_000, 0x4_0000, 0x2_0000, 0xFFFF_FFFF],
        // Requests of file systems, beside those that all have.
        [
            0x5000_940E,
            0x4004_9409,
            0x4020_940D,
            0xC018_9436,
            0x9408,
            0x5000_9417,
            0x8048_6616,
            0xC050_6617,
            0xC040_6618,
            0x800C_6613,
            0x4010_BC10,
            0x4018_6F04,
            0x4004_7211,
            0x8004_7210,
            0x4000_BB10,
            0x9417,
        ],
        // Around each range of requests, with and without queries.
        [
            0x540A, 0x540C, 0x5423, 0x4AFF, 0x4B00, 0x4B3A, 0x4B44, 0x4BFF, 0x4C00, 0x55FF, 0x5600, 0x5606, 0x5700, 0,
            1, 2,
        ],
        [
            0x3FFF_FFFF,
            0x4000_0000,
            0x7FFF_FFFF,
            0x8000_0000,
            0x4008_6602,
            0x4008_6601,
            0x401C_5820,
            0x4080_6685,
            0,
            1,
            2,
            3,
            4,
            5,
            6,
            7,
        ],
    ]
    .concat();
    for options in all_options() {
        let program = program(options);
        for number in 0..600 {
            for (at, value) in values.iter().copied().enumerate() {
                for high in [0, 1 << 32] {
                    // The same everywhere, and neighbours that differ.
                    let other = values[(at * 7 + 3) % values.len()];
                    for arguments in [[value | high; 6], [value | high, other, value, other, value, other]] {
                        let (told, _) = run(&program, ARCH, number, arguments);
                        assert_eq!(told, expected(options, number, arguments), "{options:?} {number} {arguments:x?}");
                    }
                }
            }
        }
        for foreign in [0x4000_0003, 0x4000_0028, 0, ARCH ^ 1] {
            assert_eq!(run(&program, foreign, 20, [0; 6]).0, KILL_PROCESS);
        }
        let x32 = 0x4000_0000;
        for x32 in [x32, x32 | 0x27, x32 | 0x223, u32::MAX] {
            assert_eq!(run(&program, ARCH, x32, [0; 6]).0, ERRNO | ENOSYS);
        }
    }
}

#[test]
fn the_program_is_short_and_each_way_through_it_shorter() {
    let program = program(Options {
        own_group: true,
        shared_group: true,
        as_root: true,
        old_landlock: true,
        ..Options::default()
    });
    assert!(program.len() < 220, "{} instructions", program.len());
    let steps = |number, argument| run(&program, ARCH, number, [argument; 6]).1;
    let ioctl = u32::try_from(libc::SYS_ioctl).unwrap();
    let longest = (0..600).filter(|number| *number != ioctl).map(|number| steps(number, 0)).max().unwrap();
    assert!(longest <= 18, "{longest} steps");
    // TCGETS, FIONREAD, FIONBIO, FIOCLEX: what programs call often.
    let longest = [0x5401, 0x541B, 0x5421, 0x5451].map(|request| steps(ioctl, request)).into_iter().max().unwrap();
    assert!(longest <= 32, "{longest} steps");
}

#[test]
fn a_search_may_be_longer_than_a_comparison_jumps() {
    let mut program = Program::default();
    let ranges: Vec<_> = (0..3000).map(|number| (number * 2, program.answer(number))).collect();
    program.search(&ranges);
    program.step(LOAD, NUMBER, 0, 0);
    let program = program.into_instructions();
    for number in 0..3000 {
        assert_eq!(run(&program, ARCH, number * 2, [0; 6]).0, number);
        assert_eq!(run(&program, ARCH, number * 2 + 1, [0; 6]).0, number);
    }
}

#[test]
fn each_call_has_one_answer_and_stands_in_a_group_once() {
    let mut seen: BTreeMap<&str, (&str, Answer, bool)> = BTreeMap::new();
    for group in GROUPS {
        assert!(!group.calls.is_empty() && !group.reason.is_empty());
        for call in group.calls {
            assert_eq!(call.tests.is_empty(), call.when.is_empty(), "{}", call.name());
            let whole = call.tests.is_empty();
            if let Some((name, answer, earlier)) = seen.insert(call.name(), (group.name, group.answer, whole)) {
                // What is refused for some arguments may be decided one by one for the rest.
                let decided = answer == Answer::Refused && group.answer == Answer::Asked && !earlier;
                assert!(decided || answer == group.answer, "{}", call.name());
                assert!(
                    name != group.name || !whole && !earlier,
                    "{} is refused whole and by its arguments",
                    call.name()
                );
            }
        }
    }
}

/// What programs cannot do without, or fall back from badly.
#[test]
fn what_must_not_be_refused_is_not() {
    let free = [
        libc::SYS_clone,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_wait4,
        libc::SYS_waitid,
        libc::SYS_futex,
        libc::SYS_futex_waitv,
        libc::SYS_openat,
        libc::SYS_openat2,
        libc::SYS_statx,
        libc::SYS_renameat2,
        libc::SYS_epoll_pwait,
        libc::SYS_eventfd2,
        libc::SYS_timerfd_create,
        libc::SYS_signalfd4,
        libc::SYS_inotify_init1,
        libc::SYS_pipe2,
        libc::SYS_ppoll,
        libc::SYS_prctl,
        libc::SYS_seccomp,
        libc::SYS_landlock_create_ruleset,
        libc::SYS_landlock_add_rule,
        libc::SYS_landlock_restrict_self,
        libc::SYS_rseq,
        libc::SYS_set_robust_list,
        libc::SYS_membarrier,
        libc::SYS_getrandom,
        libc::SYS_memfd_create,
        libc::SYS_memfd_secret,
        libc::SYS_mmap,
        libc::SYS_mprotect,
        libc::SYS_pkey_mprotect,
        libc::SYS_madvise,
        libc::SYS_mlock,
        libc::SYS_shmget,
        libc::SYS_mq_open,
        libc::SYS_sendmsg,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_accept4,
        libc::SYS_sendto,
        libc::SYS_recvfrom,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_getaffinity,
        libc::SYS_mbind,
        libc::SYS_set_mempolicy,
        libc::SYS_fallocate,
        libc::SYS_copy_file_range,
        libc::SYS_splice,
        libc::SYS_sendfile,
        libc::SYS_flock,
        libc::SYS_fcntl,
        libc::SYS_name_to_handle_at,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_send_signal,
        libc::SYS_close_range,
        libc::SYS_clock_nanosleep,
        libc::SYS_setsid,
        libc::SYS_setpgid,
        libc::SYS_ioctl,
        libc::SYS_prlimit64,
        libc::SYS_setpriority,
        libc::SYS_ioprio_set,
        libc::SYS_personality,
        libc::SYS_fchmodat,
        libc::SYS_mkdirat,
    ];
    // As an ordinary user; what root is refused has a group of its own.
    let program = program(Options { own_group: true, shared_group: true, ..Options::default() });
    for number in free {
        assert_eq!(run(&program, ARCH, u32::try_from(number).unwrap(), [0; 6]).0, ALLOW, "{number}");
    }
}
