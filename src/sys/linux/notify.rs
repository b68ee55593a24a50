//! System calls of another process that a filter hands to this one to be decided: receiving them, looking at what they name, and
//! answering.
//!
//! Decides nothing itself.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use crate::sys::filter::Instruction;

/// Loads `program` for this process and all it starts, and returns the descriptor on which it asks; needs `no_new_privs`.
///
/// EBUSY where a filter around this process asks somebody already.
pub fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    // Newer than the constants of some C libraries: linux/seccomp.h.
    const SET_MODE_FILTER: libc::c_uint = 1;
    const NEW_LISTENER: libc::c_ulong = 1 << 3;
    /// Who asks waits for the answer, whatever signal comes: half of a call could not be taken back (Linux 5.19).
    const WAIT_KILLABLE_RECV: libc::c_ulong = 1 << 5;

    let len = u16::try_from(program.len()).map_err(io::Error::other)?;
    let record = libc::sock_fprog { len, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: `record` and the instructions it points to, which have the layout of the C library's, live until the call
    // returns; the kernel copies and checks them and changes nothing.
    let number = unsafe {
        libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, NEW_LISTENER | WAIT_KILLABLE_RECV, &raw const record)
    };
    owned(number)
}

/// A call that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    id: u64,
    /// Number of the thread that makes it, as it is known here.
    pub thread: u32,
    /// Number of the call.
    pub number: libc::c_long,
    /// Its arguments, as they are in registers.
    pub arguments: [u64; 6],
}

/// The low half of a register, which is all that the kernel reads of such an argument.
#[must_use]
pub fn low(argument: u64) -> i32 {
    let [a, b, c, d, ..] = argument.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It returns 0.
    Done,
    /// It fails with this error number.
    Refused(i32),
    /// The kernel does what it asks for, with whatever its arguments lead to by then.
    GoOn,
}

/// Where calls come in.
#[derive(Debug)]
pub struct Listener(OwnedFd);

// Of linux/seccomp.h, the same on all architectures: direction, size, '!' and number.
const RECEIVE: libc::c_ulong = 0xC050_2100;
const SEND: libc::c_ulong = 0xC018_2101;
const IS_VALID: libc::c_ulong = 0x4008_2102;
const SET_FLAGS: libc::c_ulong = 0x4008_2104;

impl Listener {
    /// Has whoever asks give its processor up to whoever answers, so that hardly a signal finds a call that nobody has received
    /// yet: until then it is interrupted like any that waits. Linux 6.6; elsewhere it only takes longer.
    pub fn hasten(&self) {
        const SYNC_WAKE_UP: libc::c_ulong = 1;
        // SAFETY: the request takes a number and no pointer.
        let _set = unsafe { libc::ioctl(self.0.as_raw_fd(), SET_FLAGS as _, SYNC_WAKE_UP) };
    }

    /// The next call; `None` when whoever made it is gone.
    pub fn receive(&self) -> io::Result<Option<Call>> {
        // SAFETY: the structure is integers only, for which zero is a value; the kernel wants it zeroed.
        let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the request takes a pointer to a structure of this type, which lives until the call returns.
        let received = unsafe { libc::ioctl(self.0.as_raw_fd(), RECEIVE as _, &raw mut call) };
        if received == 0 {
            let libc::seccomp_data { nr, args, .. } = call.data;
            return Ok(Some(Call { id: call.id, thread: call.pid, number: nr.into(), arguments: args }));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::EINTR) => Ok(None),
            _ => Err(error),
        }
    }

    /// Whether the thread still waits, so that what was read under its number was its own.
    #[must_use]
    pub fn waits(&self, call: &Call) -> bool {
        // SAFETY: the request takes a pointer to a number, which lives until the call returns.
        unsafe { libc::ioctl(self.0.as_raw_fd(), IS_VALID as _, &raw const call.id) == 0 }
    }

    /// Lets the call end, or begin. Never waits; whoever is gone needs no answer.
    pub fn answer(&self, call: &Call, answer: Answer) {
        const CONTINUE: u32 = 1;
        let (error, flags) = match answer {
            Answer::Done => (0, 0),
            Answer::Refused(errno) => (-errno, 0),
            Answer::GoOn => (0, CONTINUE),
        };
        let mut response = libc::seccomp_notif_resp { id: call.id, val: 0, error, flags };
        // SAFETY: the request takes a pointer to a structure of this type, which lives until the call returns.
        let _sent = unsafe { libc::ioctl(self.0.as_raw_fd(), SEND as _, &raw mut response) };
    }
}

impl From<OwnedFd> for Listener {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What a thread has open under this number: the same, not another one of its kind.
pub fn descriptor(thread: u32, number: i32) -> io::Result<OwnedFd> {
    /// A thread and not the process that it belongs to: `O_EXCL` (Linux 6.9).
    const THREAD: libc::c_uint = 0o200;
    let open = |process: u32, flags: libc::c_uint| {
        // SAFETY: pidfd_open takes two integers.
        owned(unsafe { libc::syscall(libc::SYS_pidfd_open, process, flags) })
    };
    let process = match open(thread, THREAD) {
        // Before, threads with descriptors of their own are told apart by their processes only.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => open(process_of(thread)?, 0)?,
        opened => opened?,
    };
    // SAFETY: pidfd_getfd takes three integers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) })
}

/// The process of a thread.
fn process_of(thread: u32) -> io::Result<u32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status"))?;
    let number = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    number.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
}

/// A descriptor that a system call has returned, or why it has not.
fn owned(number: libc::c_long) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    let number = i32::try_from(number).map_err(io::Error::other)?;
    // SAFETY: the kernel just returned this descriptor, so it is open and ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Memory of a thread that waits.
#[derive(Debug)]
pub struct Memory(File);

impl Memory {
    /// That of the thread with this number.
    pub fn of(thread: u32) -> io::Result<Self> {
        File::open(format!("/proc/{thread}/mem")).map(Self)
    }

    /// `length` bytes at `address`.
    pub fn bytes(&self, address: u64, length: usize) -> Result<Vec<u8>, i32> {
        let mut bytes = vec![0; length];
        self.0.read_exact_at(&mut bytes, address).map_err(|_| libc::EFAULT)?;
        Ok(bytes)
    }

    /// The string at `address`, without the NUL that ends it, if that comes within `most` bytes.
    pub fn string(&self, address: u64, most: usize, too_long: i32) -> Result<Vec<u8>, i32> {
        const PAGE: u64 = 4096;
        let mut string = Vec::new();
        while string.len() < most {
            // What comes after the page may not be there.
            let from = address.checked_add(string.len() as u64).ok_or(libc::EFAULT)?;
            let length = usize::try_from(PAGE - from % PAGE).unwrap_or(1);
            let part = self.bytes(from, length)?;
            if let Some(end) = part.iter().position(|byte| *byte == 0) {
                string.extend_from_slice(&part[..end]);
                return if string.len() < most { Ok(string) } else { Err(too_long) };
            }
            string.extend_from_slice(&part);
        }
        Err(too_long)
    }
}
