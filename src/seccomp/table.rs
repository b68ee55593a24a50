//! Which system calls the target is refused, what it is told, and why: data only.
//!
//! Everything not named here is allowed. A call that this list wants and the C library's constants lack does not compile; the
//! few that are newer than those constants, or that another architecture has not, stand in `calls`. Left out on purpose:
//! calls that want a capability even to be of use (`adjtimex`), placement of memory (`mbind` and its kin: little gained, warnings
//! of programs that care about nodes), `modify_ldt` (wine), `seccomp`, `prctl` and `landlock_*`, with which programs confine
//! themselves further.

use std::fmt;

use libc::c_long;

/// What a refused caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// EPERM: not allowed.
    Refused,
    /// ENOSYS: the kernel does not know it. For calls whose callers then take another way.
    Unknown,
    /// Somebody who knows what the call is about decides, and EACCES where nobody can be asked.
    Asked,
}

impl Answer {
    /// Name of the error number.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "EPERM",
            Self::Unknown => "ENOSYS",
            Self::Asked => "EACCES",
        }
    }
}

/// In which runs a group counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applies {
    /// In all.
    Always,
    /// Unless the target is to be traced.
    Untraced,
    /// When the target may be in the process group of the caller.
    SharedGroup,
    /// When the same is true and nothing else keeps signals from that group.
    OwnGroup,
    /// When the target is root.
    Root,
    /// On kernels whose Landlock knows of writing and not of emptying (ABI 2, Linux 5.19 to 6.1).
    OldLandlock,
    /// When no namespace is around the target.
    Bare,
    /// When the target is in the host's network and shall not have it.
    NoNetwork,
    /// When the target is in the host's network and shall have nothing of it but one port.
    WayOut,
    /// When the target must reach no Unix socket and no Landlock says so (before ABI 9, Linux 7.1).
    NoUnix,
    /// When nothing but the filter keeps the target from files' metadata.
    NoMetadata,
    /// When the same is true and the target is root, whose most files are.
    RootNoMetadata,
}

/// Calls that are refused for one reason.
#[derive(Debug)]
pub struct Group {
    /// A few words for lists.
    pub name: &'static str,
    /// Why.
    pub reason: &'static str,
    /// What the caller is told.
    pub answer: Answer,
    /// In which runs.
    pub applies: Applies,
    /// The calls.
    pub calls: &'static [Call],
}

/// One call and, where it is not refused whole, what its arguments must be.
#[derive(Debug)]
pub struct Call {
    symbol: &'static str,
    /// Its number; negative where this architecture or system has no such call.
    pub number: c_long,
    /// When it is refused, in words; empty for always.
    pub when: &'static str,
    /// The same for the filter: all of these hold.
    pub tests: &'static [Test],
}

impl Call {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.symbol.trim_start_matches("SYS_")
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        if self.when.is_empty() { Ok(()) } else { write!(f, " ({})", self.when) }
    }
}

/// Something to be said of one argument, counted from 0.
///
/// Of its low 32 bits, because those are what the kernel reads of every argument named here: a comparison of all 64 is got
/// around by setting a high one (CVE-2019-10063).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// It is one of these.
    Is(u32, &'static [u32]),
    /// It is none of these.
    IsNot(u32, &'static [u32]),
    /// It is one of those from the first to the last.
    Within(u32, u32, u32),
    /// Of these bits it has what one of these values has.
    Masked(u32, u32, &'static [u32]),
    /// Of these bits it has what none of these values has.
    MaskedNot(u32, u32, &'static [u32]),
    /// It has one of these bits.
    HasAny(u32, u32),
    /// It has none of these bits.
    HasNone(u32, u32),
    /// It is not null: the one test of all 64 bits, because the kernel reads all of a pointer.
    IsPointer(u32),
}

/// Call numbers, under the names of the C library.
#[cfg(target_os = "linux")]
pub(crate) mod calls {
    #![allow(non_upper_case_globals, reason = "the names of the C library")]
    use libc::c_long;
    pub use libc::*;

    // The same on every architecture, and newer than the constants of the C library: linux/unistd.h.
    pub const SYS_fchmodat2: c_long = 452;
    pub const SYS_setxattrat: c_long = 463;
    pub const SYS_removexattrat: c_long = 466;
    pub const SYS_open_tree_attr: c_long = 467;
    pub const SYS_file_setattr: c_long = 469;

    // Missing in musl's table.
    #[cfg(target_arch = "aarch64")]
    pub const SYS_kexec_file_load: c_long = 294;

    // Removed from Linux long ago; the numbers are not given out again.
    #[cfg(target_arch = "x86_64")]
    pub const SYS_create_module: c_long = 174;
    #[cfg(target_arch = "x86_64")]
    pub const SYS_get_kernel_syms: c_long = 177;
    #[cfg(target_arch = "x86_64")]
    pub const SYS_query_module: c_long = 178;

    /// Calls that were given up before this architecture came.
    #[cfg(target_arch = "aarch64")]
    macro_rules! without { ($($symbol:ident)+) => { $(pub const $symbol: c_long = -1;)+ } }
    #[cfg(target_arch = "aarch64")]
    without!(SYS_create_module SYS_get_kernel_syms SYS_query_module SYS_ioperm SYS_iopl SYS_sysfs SYS__sysctl SYS_ustat SYS_uselib);
    #[cfg(target_arch = "aarch64")]
    without!(SYS_chmod SYS_open SYS_creat SYS_mknod SYS_chown SYS_lchown SYS_utime SYS_utimes SYS_futimesat);
}

/// The newest call that was looked at: what came later does not exist inside until somebody has.
pub const NEWEST: u32 = 469;

/// The number of a call.
#[cfg(target_os = "linux")]
macro_rules! number {
    ($symbol:ident) => {
        calls::$symbol
    };
}

/// No system but Linux has these calls.
#[cfg(not(target_os = "linux"))]
macro_rules! number {
    ($symbol:ident) => {
        -1
    };
}

/// `SYS_name`, or `SYS_name if "words": test, test`.
macro_rules! calls {
    ($($symbol:ident $(if $when:literal: $($test:expr),+)?);+ $(;)?) => {
        &[$(Call {
            symbol: stringify!($symbol),
            number: number!($symbol),
            when: concat!($($when)?),
            tests: &[$($($test),+)?],
        }),+]
    };
}

/// NS, CGROUP, UTS, IPC, USER, PID, NET. `CLONE_NEWTIME` shares its bit with the exit signal of `clone` and needs none there.
const CLONE_NEW: u32 = 0x7E02_0000;
/// FS, FILES, SYSVSEM, VM, SIGHAND, THREAD: what a process may stop sharing without any namespace.
const UNSHARE_HARMLESS: u32 = 0x0000_0200 | 0x0000_0400 | 0x0004_0000 | 0x0000_0100 | 0x0000_0800 | 0x0001_0000;
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541C;
const TIOCEXCL: u32 = 0x540C;
const TIOCSETD: u32 = 0x5423;
const TCXONC: u32 = 0x540A;
const TCOOFF: u32 = 0;
/// Requests that only virtual consoles know (linux/kd.h, linux/vt.h), and those among them that ask and change nothing.
const KD: (u32, u32) = (0x4B00, 0x4BFF);
const KD_QUERIES: &[u32] = &[
    0x4B31, // KDGETLED
    0x4B33, // KDGKBTYPE
    0x4B3B, // KDGETMODE
    0x4B40, // GIO_SCRNMAP
    0x4B44, // KDGKBMODE
    0x4B46, // KDGKBENT
    0x4B48, // KDGKBSENT
    0x4B4A, // KDGKBDIACR
    0x4B4C, // KDGETKEYCODE
    0x4B60, // GIO_FONT
    0x4B62, // KDGKBMETA
    0x4B64, // KDGKBLED
    0x4B66, // GIO_UNIMAP
    0x4B69, // GIO_UNISCRNMAP
    0x4B6B, // GIO_FONTX
    0x4B70, // GIO_CMAP
    0x4BFA, // KDGKBDIACRUC
];
const VT: (u32, u32) = (0x5600, 0x56FF);
const VT_QUERIES: &[u32] = &[
    0x5600, // VT_OPENQRY
    0x5601, // VT_GETMODE
    0x5603, // VT_GETSTATE
    0x5607, // VT_WAITACTIVE
    0x560D, // VT_GETHIFONTMASK
    0x560E, // VT_WAITEVENT
];
/// Requests that hand over a structure begin here: direction and size stand in the upper half.
const HANDS_OVER: (u32, u32) = (0x4000_0000, 0x7FFF_FFFF);
/// Direction of a request that hands over or asks for a structure: what has none is as old as terminals.
const DIRECTION: u32 = 0xC000_0000;
/// Type and number of a request, without direction and size.
const REQUEST: u32 = 0xFFFF;
/// The type alone.
const REQUEST_TYPE: u32 = 0xFF00;
/// btrfs and bcachefs: subvolumes and snapshots by name.
const VOLUMES: &[u32] = &[0x9400, 0xBC00];
/// What all file systems have of the first: FICLONE, FICLONERANGE, FIDEDUPERANGE.
const CLONES: &[u32] = &[0x9409, 0x940D, 0x9436];
/// Setting a policy of encryption, adding and removing a key, for one user and for all (linux/fscrypt.h); the last is
/// `OCFS2_IOC_REFLINK`, which names both files by paths in memory.
const ENCRYPTION: &[u32] = &[0x6613, 0x6617, 0x6618, 0x6619, 0x6F04];
/// exfat and ntfs3 have it as well.
const FAT_IOCTL_SET_ATTRIBUTES: u32 = 0x4004_7211;
const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
const FS_IOC_SETVERSION: u32 = 0x4008_7602;
const EXT4_IOC_SETVERSION: u32 = 0x4008_6604;
const FS_IOC_FSSETXATTR: u32 = 0x401C_5820;
const FS_IOC_ENABLE_VERITY: u32 = 0x4080_6685;
const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const AF_NETLINK: u32 = 16;
const NETLINK_ROUTE: u32 = 0;
const PER_LINUX: u32 = 0;
const ADDR_NO_RANDOMIZE: u32 = 0x0004_0000;
const PERSONALITY_QUERY: u32 = u32::MAX;
const PRIO_PROCESS: u32 = 0;
const PRIO_PGRP: u32 = 1;
const IOPRIO_WHO_PROCESS: u32 = 1;
const IOPRIO_WHO_PGRP: u32 = 2;
/// `SOCK_STREAM` and `SOCK_SEQPACKET`, each with any of `SOCK_NONBLOCK` and `SOCK_CLOEXEC`: what cannot be sent elsewhere.
const CONNECTED: &[u32] =
    &[1, 1 | 0o4000, 1 | 0o2_000_000, 1 | 0o2_004_000, 5, 5 | 0o4000, 5 | 0o2_000_000, 5 | 0o2_004_000];
/// `SOCK_STREAM` with any of the two.
const STREAM: &[u32] = &[1, 1 | 0o4000, 1 | 0o2_000_000, 1 | 0o2_004_000];
/// The protocol of such a socket that is asked for by no number, and by its own.
const TCP: &[u32] = &[0, 6];
const MSG_FASTOPEN: u32 = 0x2000_0000;
const SOL_IP: u32 = 0;
const IP_OPTIONS: u32 = 4;
const SOL_SOCKET: u32 = 1;
const SO_BINDTODEVICE: u32 = 25;
const SO_BINDTOIFINDEX: u32 = 62;
const SOL_TCP: u32 = 6;
const TCP_FASTOPEN_CONNECT: u32 = 30;
const TCP_ULP: u32 = 31;
const S_ISUID: u32 = 0o4000;
const O_TRUNC: u32 = 0o1000;
const NEW_LISTENER: u32 = 1 << 3;
const O_ACCMODE: u32 = 0o3;
/// `O_CREAT` and the bit of `O_TMPFILE` that does not mean a directory. Without either the mode is whatever a register held.
const CREATES: u32 = 0o100 | 0o20_000_000;

/// All groups, in the order in which they are listed.
pub const GROUPS: &[Group] = &[
    Group {
        name: "kernel modules",
        reason: "code in the kernel",
        answer: Answer::Refused,
        applies: Applies::Always,
        calls: calls![
            SYS_init_module; SYS_finit_module; SYS_delete_module; SYS_create_module; SYS_query_module; SYS_get_kernel_syms
        ],
    },
    Group {
        name: "mounts",
        reason: "undo masks, make read-only places writable",
        answer: Answer::Refused,
        applies: Applies::Always,
        calls: calls![
            SYS_mount; SYS_umount2; SYS_pivot_root; SYS_chroot; SYS_open_tree; SYS_open_tree_attr; SYS_move_mount;
            SYS_fsopen; SYS_fsconfig; SYS_fsmount; SYS_fspick; SYS_mount_setattr
        ],
    },
    Group {
        name: "file handles",
        reason: "open a file by its number, past every path",
        answer: Answer::Refused,
        applies: Applies::Always,
        calls: calls![SYS_open_by_handle_at],
    },
    Group {
        name: "namespaces",
        reason: "fresh capabilities reach parts of the kernel that are made for root",
        answer: Answer::Refused,
        applies: Applies::Always,
        calls: calls![
            SYS_clone if "with a CLONE_NEW flag": Test::HasAny(0, CLONE_NEW);
            SYS_unshare if "for more than files, directories, memory and semaphores":
                Test::HasAny(0, !UNSHARE_HARMLESS);
            SYS_setns
        ],
    },
    Group {
        name: "clone3",
        reason: "its flags are in memory, where no filter looks; the C library falls back to clone",
        answer: Answer::Unknown,
        applies: Applies::Always,
        calls: calls![SYS_clone3],
    },
    Group {
        name: "tracing",
        reason: "memory and descriptors of other processes",
        answer: Answer::Refused,
        applies: Applies::Untraced,
        calls: calls![SYS_ptrace; SYS_process_vm_readv; SYS_kcmp; SYS_pidfd_getfd],
    },
    Group {
        name: "other processes",
        reason: "memory of other processes; no tracer needs these",
        answer: Answer::Refused,
        applies: Applies::Always,
        calls: calls![SYS_process_vm_writev; SYS_process_madvise],
    },
    Group {
        name: "process 1",
        reason: "it has our user id, and its end is the end of the run, by another status",
        answer: Answer::Refused,
        applies: Applies::Always,
        calls: calls![SYS_prlimit64 if "of process 1": Test::Is(0, &[1])],
    },
    Group {
        name: "keyrings",
        reason: "no namespace holds them: the caller's can be read, and what is put there outlives the run",
        answer: Answer::Refused,
        applies: Applies::Always,
        calls: calls![SYS_add_key; SYS_request_key; SYS_keyctl],
    },
    Group {
        name: "observation",
        reason: "the kernel's memory by side channels, files and processes of others",
        answer: Answer::Refused,
        applies: Applies::Always,
        calls: calls![SYS_bpf; SYS_perf_event_open; SYS_fanotify_init; SYS_lookup_dcookie],
    },
    Group {
        name: "page faults",
        reason: "holds the kernel still in the middle of a copy, the first step of many attacks on it",
        answer: Answer::Refused,
        applies: Applies::Always,
        calls: calls![SYS_userfaultfd],
    },
    Group {
        name: "io_uring",
        reason: "opens files and sockets past this filter; programs fall back",
        answer: Answer::Unknown,
        applies: Applies::Always,
        calls: calls![SYS_io_uring_setup; SYS_io_uring_enter; SYS_io_uring_register],
    },
    Group {
        name: "clock",
        reason: "the machine has one",
        answer: Answer::Refused,
        applies: Applies::Always,
        calls: calls![SYS_clock_settime; SYS_settimeofday],
    },
    Group {
        name: "machine",
        reason: "its state, swap, quota and log belong to its owner",
        answer: Answer::Refused,
        applies: Applies::Always,
        calls: calls![
            SYS_reboot; SYS_kexec_load; SYS_kexec_file_load; SYS_swapon; SYS_swapoff; SYS_acct; SYS_quotactl;
            SYS_quotactl_fd; SYS_syslog; SYS_vhangup
        ],
    },
    Group {
        name: "host name",
        reason: "it is the sandbox's, and fixed",
        answer: Answer::Refused,
        applies: Applies::Always,
        calls: calls![SYS_sethostname; SYS_setdomainname],
    },
    Group {
        name: "ports",
        reason: "devices, past the kernel",
        answer: Answer::Refused,
        applies: Applies::Always,
        calls: calls![SYS_ioperm; SYS_iopl],
    },
    Group {
        name: "relics",
        reason: "code that nobody uses and nobody tests",
        answer: Answer::Refused,
        applies: Applies::Always,
        calls: calls![SYS_nfsservctl; SYS_sysfs; SYS__sysctl; SYS_ustat; SYS_uselib],
    },
    Group {
        name: "personality",
        reason: "memory that can be executed by accident, addresses that can be guessed; turning off randomisation for oneself \
                 is what debuggers do",
        answer: Answer::Refused,
        applies: Applies::Always,
        calls: calls![
            SYS_personality if "but for 0, ADDR_NO_RANDOMIZE and the query":
                Test::IsNot(0, &[PER_LINUX, ADDR_NO_RANDOMIZE, PERSONALITY_QUERY])
        ],
    },
    Group {
        name: "terminal input",
        reason: "types commands for whoever reads the terminal next (CVE-2017-5226)",
        answer: Answer::Refused,
        applies: Applies::Always,
        calls: calls![SYS_ioctl if "TIOCSTI, TIOCLINUX": Test::Is(1, &[TIOCSTI, TIOCLINUX])],
    },
    // What modes, size and foreground are is needed, and put right again by shells. Left out is what the kernel keeps for
    // capabilities (TIOCCONS, TIOCSLCKTRMIOS, TIOCVHANGUP) or for the other end of a terminal (TIOCPKT).
    Group {
        name: "terminal state",
        reason: "outlives the run and leaves the caller's terminal dead: another discipline, nobody may open it, no output; keyboard, \
                 screen and fonts of a virtual console",
        answer: Answer::Refused,
        applies: Applies::Always,
        calls: calls![
            SYS_ioctl if "TIOCSETD, TIOCEXCL": Test::Is(1, &[TIOCSETD, TIOCEXCL]);
            SYS_ioctl if "TCXONC with TCOOFF": Test::Is(1, &[TCXONC]), Test::Is(2, &[TCOOFF]);
            SYS_ioctl if "KD… but for queries": Test::Within(1, KD.0, KD.1), Test::IsNot(1, KD_QUERIES);
            SYS_ioctl if "VT… but for queries": Test::Within(1, VT.0, VT.1), Test::IsNot(1, VT_QUERIES)
        ],
    },
    Group {
        name: "flags of files",
        reason: "a descriptor for reading is enough, so that a file given as standard input keeps what is set; verity makes it one \
                 that nobody writes again",
        answer: Answer::Refused,
        applies: Applies::Always,
        calls: calls![
            SYS_ioctl if "FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_SETVERSION, FS_IOC_ENABLE_VERITY, FAT_IOCTL_SET_ATTRIBUTES":
                Test::Within(1, HANDS_OVER.0, HANDS_OVER.1),
                Test::Is(1, &[
                    FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_SETVERSION, EXT4_IOC_SETVERSION, FS_IOC_ENABLE_VERITY,
                    FAT_IOCTL_SET_ATTRIBUTES
                ]);
            SYS_file_setattr
        ],
    },
    Group {
        name: "file systems",
        reason: "snapshots show what is masked, subvolumes are made and removed whatever Landlock and write protection of names say; keys \
                 of encrypted directories are everybody's, and stay",
        answer: Answer::Refused,
        applies: Applies::Always,
        calls: calls![
            SYS_ioctl if "btrfs and bcachefs, but for FICLONE, FICLONERANGE, FIDEDUPERANGE":
                Test::HasAny(1, DIRECTION), Test::Masked(1, REQUEST_TYPE, VOLUMES), Test::MaskedNot(1, REQUEST, CLONES);
            SYS_ioctl if "FS_IOC_SET_ENCRYPTION_POLICY, FS_IOC_ADD_ENCRYPTION_KEY, FS_IOC_REMOVE_ENCRYPTION_KEY, OCFS2_IOC_REFLINK":
                Test::HasAny(1, DIRECTION), Test::Masked(1, REQUEST, ENCRYPTION)
        ],
    },
    Group {
        name: "sockets",
        reason: "no network namespace holds the hypervisor's (AF_VSOCK); the others are much code for few",
        answer: Answer::Refused,
        applies: Applies::Always,
        calls: calls![
            SYS_socket if "but for AF_UNIX, AF_INET, AF_INET6, AF_NETLINK":
                Test::IsNot(0, &[AF_UNIX, AF_INET, AF_INET6, AF_NETLINK]);
            SYS_socket if "AF_NETLINK but for NETLINK_ROUTE":
                Test::Is(0, &[AF_NETLINK]), Test::IsNot(2, &[NETLINK_ROUTE]);
            SYS_socketpair if "but for AF_UNIX, AF_INET, AF_INET6":
                Test::IsNot(0, &[AF_UNIX, AF_INET, AF_INET6])
        ],
    },
    Group {
        name: "signals to the caller's group",
        reason: "no process namespace hides a group of processes; only where Landlock does not hold signals back",
        answer: Answer::Refused,
        applies: Applies::OwnGroup,
        calls: calls![SYS_kill if "to the own process group": Test::Is(0, &[0])],
    },
    Group {
        name: "priorities of the caller's group",
        reason: "the same group, for which the kernel asks the user id only",
        answer: Answer::Refused,
        applies: Applies::SharedGroup,
        calls: calls![
            SYS_setpriority if "of a process group": Test::Is(0, &[PRIO_PGRP]);
            SYS_ioprio_set if "of a process group": Test::Is(0, &[IOPRIO_WHO_PGRP])
        ],
    },
    Group {
        name: "setuid files of root",
        reason: "a file of root with this bit, in a write grant or behind a descriptor that was passed on, makes everybody on the host root",
        answer: Answer::Refused,
        applies: Applies::Root,
        calls: calls![
            SYS_chmod if "with S_ISUID": Test::HasAny(1, S_ISUID);
            SYS_fchmod if "with S_ISUID": Test::HasAny(1, S_ISUID);
            SYS_fchmodat if "with S_ISUID": Test::HasAny(2, S_ISUID);
            SYS_fchmodat2 if "with S_ISUID": Test::HasAny(2, S_ISUID);
            SYS_open if "with S_ISUID": Test::HasAny(1, CREATES), Test::HasAny(2, S_ISUID);
            SYS_openat if "with S_ISUID": Test::HasAny(2, CREATES), Test::HasAny(3, S_ISUID);
            SYS_creat if "with S_ISUID": Test::HasAny(1, S_ISUID);
            SYS_mknod if "with S_ISUID": Test::HasAny(1, S_ISUID);
            SYS_mknodat if "with S_ISUID": Test::HasAny(2, S_ISUID)
        ],
    },
    Group {
        name: "openat2 of root",
        reason: "the same by a mode in memory, where no filter looks; programs fall back to openat",
        answer: Answer::Unknown,
        applies: Applies::Root,
        calls: calls![SYS_openat2],
    },
    Group {
        name: "emptying by name",
        reason: "a file of the host that is open for reading could be emptied by its name in /proc/self/fd; ftruncate works",
        answer: Answer::Refused,
        applies: Applies::OldLandlock,
        calls: calls![
            SYS_truncate;
            SYS_open if "for reading with O_TRUNC": Test::HasAny(1, O_TRUNC), Test::HasNone(1, O_ACCMODE);
            SYS_openat if "for reading with O_TRUNC": Test::HasAny(2, O_TRUNC), Test::HasNone(2, O_ACCMODE)
        ],
    },
    Group {
        name: "openat2 under old Landlock",
        reason: "the same by flags in memory, where no filter looks; programs fall back to openat",
        answer: Answer::Unknown,
        applies: Applies::OldLandlock,
        calls: calls![SYS_openat2],
    },
    Group {
        name: "network",
        reason: "the network is the host's, and nothing else keeps the command from it",
        answer: Answer::Refused,
        applies: Applies::NoNetwork,
        calls: calls![SYS_socket if "AF_INET, AF_INET6, AF_NETLINK": Test::Is(0, &[AF_INET, AF_INET6, AF_NETLINK])],
    },
    Group {
        name: "network but for a way out",
        reason: "the network is the host's: of it there is TCP to the proxy; what leads a connection elsewhere, or makes one in \
                 another way, is closed",
        answer: Answer::Refused,
        applies: Applies::WayOut,
        calls: calls![
            SYS_socket if "AF_NETLINK": Test::Is(0, &[AF_NETLINK]);
            SYS_socket if "AF_INET, AF_INET6 but for SOCK_STREAM":
                Test::Is(0, &[AF_INET, AF_INET6]), Test::IsNot(1, STREAM);
            SYS_socket if "AF_INET, AF_INET6 but for TCP": Test::Is(0, &[AF_INET, AF_INET6]), Test::IsNot(2, TCP);
            SYS_sendto if "with MSG_FASTOPEN": Test::HasAny(3, MSG_FASTOPEN);
            SYS_sendmsg if "with MSG_FASTOPEN": Test::HasAny(2, MSG_FASTOPEN);
            SYS_sendmmsg if "with MSG_FASTOPEN": Test::HasAny(3, MSG_FASTOPEN);
            SYS_setsockopt if "IP_OPTIONS": Test::Is(1, &[SOL_IP]), Test::Is(2, &[IP_OPTIONS]);
            SYS_setsockopt if "SO_BINDTODEVICE, SO_BINDTOIFINDEX":
                Test::Is(1, &[SOL_SOCKET]), Test::Is(2, &[SO_BINDTODEVICE, SO_BINDTOIFINDEX]);
            SYS_setsockopt if "TCP_FASTOPEN_CONNECT, TCP_ULP":
                Test::Is(1, &[SOL_TCP]), Test::Is(2, &[TCP_FASTOPEN_CONNECT, TCP_ULP])
        ],
    },
    Group {
        name: "connections",
        reason: "the address is in memory, where no filter looks; nobody is to connect to the command",
        answer: Answer::Asked,
        applies: Applies::WayOut,
        calls: calls![SYS_connect; SYS_listen],
    },
    Group {
        name: "Unix sockets",
        reason: "nothing else keeps the command from the sockets of the host; pairs that cannot be sent elsewhere work",
        answer: Answer::Refused,
        applies: Applies::NoUnix,
        calls: calls![
            SYS_socket if "AF_UNIX": Test::Is(0, &[AF_UNIX]);
            SYS_socketpair if "AF_UNIX but for SOCK_STREAM and SOCK_SEQPACKET":
                Test::Is(0, &[AF_UNIX]), Test::IsNot(1, CONNECTED)
        ],
    },
    Group {
        name: "objects without a path",
        reason: "the caller's, where no namespace holds them",
        answer: Answer::Unknown,
        applies: Applies::Bare,
        calls: calls![
            SYS_shmget; SYS_shmat; SYS_shmctl; SYS_semget; SYS_semop; SYS_semtimedop; SYS_semctl; SYS_msgget; SYS_msgsnd;
            SYS_msgrcv; SYS_msgctl; SYS_mq_open; SYS_mq_unlink
        ],
    },
    Group {
        name: "limits and priorities of others",
        reason: "for processes outside the kernel asks the user id only",
        answer: Answer::Refused,
        applies: Applies::Bare,
        calls: calls![
            SYS_prlimit64 if "of another process": Test::IsNot(0, &[0]);
            SYS_setpriority if "but for a process": Test::IsNot(0, &[PRIO_PROCESS]);
            SYS_setpriority if "of another process": Test::IsNot(1, &[0]);
            SYS_ioprio_set if "but for a process": Test::IsNot(0, &[IOPRIO_WHO_PROCESS]);
            SYS_ioprio_set if "of another process": Test::IsNot(1, &[0]);
            SYS_sched_setscheduler if "of another process": Test::IsNot(0, &[0]);
            SYS_sched_setparam if "of another process": Test::IsNot(0, &[0]);
            SYS_sched_setattr if "of another process": Test::IsNot(0, &[0])
        ],
    },
    Group {
        name: "metadata by name",
        reason: "Landlock does not know mode, owner, times and attributes, of whichever file",
        answer: Answer::Asked,
        applies: Applies::NoMetadata,
        calls: calls![
            SYS_chmod; SYS_fchmodat; SYS_fchmodat2; SYS_chown; SYS_lchown; SYS_fchownat; SYS_utime; SYS_utimes;
            SYS_futimesat; SYS_utimensat if "by name": Test::IsPointer(1); SYS_setxattr; SYS_lsetxattr;
            SYS_removexattr; SYS_lremovexattr
        ],
    },
    Group {
        name: "new calls for metadata",
        reason: "the same by structures that grow; programs fall back",
        answer: Answer::Unknown,
        applies: Applies::NoMetadata,
        calls: calls![SYS_setxattrat; SYS_removexattrat],
    },
    Group {
        name: "filters that ask",
        reason: "whoever is asked could let through what is decided here",
        answer: Answer::Refused,
        applies: Applies::NoMetadata,
        calls: calls![SYS_seccomp if "with SECCOMP_FILTER_FLAG_NEW_LISTENER": Test::HasAny(1, NEW_LISTENER)],
    },
    Group {
        name: "metadata of root's files",
        reason: "the same by a descriptor: root owns most of what can be read",
        answer: Answer::Asked,
        applies: Applies::RootNoMetadata,
        calls: calls![
            SYS_fchmod; SYS_fchown; SYS_fsetxattr; SYS_fremovexattr
        ],
    },
];
