//! Processes in namespaces of their own, and what is set in these.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sched::CloneFlags;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use nix::unistd::Pid;

use crate::sys::process::exit_now;

/// Runs `child` in a copy of this process that is in new namespaces of these kinds, and returns its number; `child` never
/// returns here. In a new process namespace the copy is process 1.
///
/// The process must have one thread, as this program always has: then the copy may allocate and take locks.
pub fn fork<N>(kinds: CloneFlags, child: impl FnOnce() -> N) -> nix::Result<Pid> {
    let flags = libc::c_ulong::try_from(kinds.bits() | libc::SIGCHLD).unwrap_or(0);
    let none = 0 as libc::c_ulong;
    // One architecture takes stack and flags in the other order.
    let [first, second] = if cfg!(target_arch = "s390x") { [none, flags] } else { [flags, none] };
    // SAFETY: without a stack and without shared memory this is fork: the copy goes on with a copy of all memory. This program
    // starts no threads before it forks, so no lock can be left held by one that is not copied.
    let pid = Errno::result(unsafe { libc::syscall(libc::SYS_clone, first, second, none, none, none) })?;
    if pid == 0 {
        child();
        exit_now(125)
    }
    i32::try_from(pid).map(Pid::from_raw).map_err(|_| Errno::ERANGE)
}

/// Sets the name of the host, as this namespace has it.
pub fn set_host_name(name: &str) -> nix::Result<()> {
    // SAFETY: the kernel reads as many bytes as the text has.
    Errno::result(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) }).map(drop)
}

/// Moves this process to the top directory of an open tree, makes it the root directory, and lets go of the old one with all that
/// is mounted below it.
pub fn enter_root(root: &OwnedFd) -> nix::Result<()> {
    nix::unistd::fchdir(root)?;
    // Onto itself: the old root lies on the new one, and there it is unmounted (pivot_root(2)).
    nix::unistd::pivot_root(Path::new("."), Path::new("."))?;
    nix::mount::umount2(Path::new("."), nix::mount::MntFlags::MNT_DETACH)?;
    nix::unistd::chdir(Path::new("/"))
}

/// The beginning of a message about a network interface: `nlmsghdr` and `ifinfomsg`, or `nlmsgerr` in the answer.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Interface {
    length: u32,
    kind: u16,
    flags: u16,
    number: u32,
    port: u32,
    /// `ifinfomsg`: family and kind of device. In an answer: the error number, negated, or 0.
    family: i32,
    index: i32,
    state: u32,
    change: u32,
}

/// Switches the loopback interface of this network namespace on; the kernel gives it its addresses (rtnetlink(7)).
pub fn loopback() -> io::Result<()> {
    const NEWLINK: u16 = 16;
    const REQUEST_AND_ACKNOWLEDGE: u16 = 1 | 4;
    const UP: u32 = 1;
    const ERROR: u16 = 2;
    const SIZE: usize = size_of::<Interface>();
    let kernel = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
    let asked = Interface {
        length: u32::try_from(SIZE).unwrap_or(0),
        kind: NEWLINK,
        flags: REQUEST_AND_ACKNOWLEDGE,
        // The first interface of a namespace is this one.
        index: 1,
        state: UP,
        change: UP,
        ..Interface::default()
    };
    // SAFETY: any bytes are valid in an array of bytes, and the structure has no padding: its parts are as large as they lie apart.
    let bytes: [u8; SIZE] = unsafe { std::mem::transmute(asked) };
    send(kernel.as_raw_fd(), &bytes, MsgFlags::empty())?;
    let mut bytes = [0; SIZE];
    let length = recv(kernel.as_raw_fd(), &mut bytes, MsgFlags::empty())?;
    // SAFETY: any bytes are a valid structure of integers of the same size.
    let answer: Interface = unsafe { std::mem::transmute(bytes) };
    if length < 20 || answer.kind != ERROR {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if answer.family == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(answer.family.saturating_neg())) }
}

/// Wipes what this process was started with out of its memory: nothing is left to be read of it in `/proc`, by whoever it may be.
///
/// The words are the caller's, with paths and policies in them, and so are the variables. Whoever becomes process 1 of a sandbox
/// without another exec would show the words to everybody inside.
pub fn forget_start() {
    unsafe extern "C" {
        /// `argv[0]` as the C library found it.
        static program_invocation_name: *mut libc::c_char;
        /// The variables, up to a null pointer.
        static environ: *const *mut libc::c_char;
    }
    // The words lie one behind the other (execve(2) puts them there, and /proc shows them so), each with a NUL.
    let length: usize = std::env::args_os().map(|word| word.len() + 1).sum();
    // SAFETY: the C library sets the pointer before `main` and this program never does.
    let first = unsafe { program_invocation_name };
    if !first.is_null() && length > 1 {
        // SAFETY: these are the bytes of the words, in writable memory for as long as the process lives; nobody holds a reference to
        // them, since the standard library makes copies when it is asked.
        unsafe { std::ptr::write_bytes(first, 0, length) };
    }
    // SAFETY: as above.
    let mut next = unsafe { environ };
    while !next.is_null() {
        // SAFETY: not null, so it leads to the next pointer of a list that ends with a null one.
        let variable = unsafe { *next };
        if variable.is_null() {
            return;
        }
        // SAFETY: a variable is a string that ends with a NUL.
        let length = unsafe { libc::strlen(variable) };
        // SAFETY: its bytes are in writable memory, on the stack or where setenv put them, and this program has one thread, which
        // holds no reference to them here.
        unsafe { std::ptr::write_bytes(variable, 0, length) };
        // SAFETY: the list goes on behind a pointer that is not null.
        next = unsafe { next.add(1) };
    }
}
