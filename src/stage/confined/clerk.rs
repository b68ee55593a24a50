//! Decides about mode, owner, times and attributes of files, which Landlock does not know: the filter hands each such call to the
//! inner stage, which carries it out where a write grant lies and nowhere else. Calls about sockets are the [`Switch`]'s.
//!
//! Never lets a call go on by itself: what it names in memory could be something else by then. Acts on the file that it has opened
//! itself, with no more privileges than the target has.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, sendmsg, socketpair,
};
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;

use super::confine::Confine;
use super::switch::Switch;
use crate::plan::reach::{Allowed, Right};
use crate::seccomp;
use crate::seccomp::table::calls;
use crate::sys::at::{place, through};
use crate::sys::notify::{self, Answer, Call, Listener, Memory};
use crate::sys::{attributes, process};

/// An error number that the target is told.
type Errno = i32;

/// The two ends of what a listener is sent over: of the inner stage, of the target to be.
pub fn pair(_: &Confine) -> nix::Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
}

/// In the process that becomes the target: loads the filter, and hands what it asks on to the inner stage if there is one that
/// will answer.
pub fn load(confine: &Confine, to: Option<&OwnedFd>) -> io::Result<()> {
    let mut options = confine.filter;
    if let Some(to) = to.filter(|_| options.no_metadata || options.way_out) {
        options.asked = true;
        match notify::load(&seccomp::program(options)) {
            Ok(listener) => {
                let fds = [listener.as_raw_fd()];
                let rights = [ControlMessage::ScmRights(&fds)];
                sendmsg::<()>(to.as_raw_fd(), &[IoSlice::new(b"!")], &rights, MsgFlags::MSG_NOSIGNAL, None)?;
                return Ok(());
            }
            // Inside another such run there can be no second one.
            Err(error) if options.way_out => return Err(error),
            Err(_) => {}
        }
        options.asked = false;
    }
    options.no_metadata &= !confine.lenient;
    crate::sys::filter::load(&seccomp::program(options))
}

/// Whoever answers.
pub struct Clerk<'a> {
    listener: Listener,
    rules: &'a [Allowed],
    switch: Option<Switch>,
    /// Whether somebody may still ask. The listener stays open all the same: without it the kernel lets another one be made.
    open: bool,
}

impl<'a> Clerk<'a> {
    /// Takes in what [`load`] has sent, once the target runs; gives up what privileges this process still has.
    #[must_use]
    pub fn receive(from: &OwnedFd, rules: &'a [Allowed], switch: Option<Switch>) -> Option<Self> {
        let mut byte = [0_u8];
        let mut space = nix::cmsg_space!([std::os::fd::RawFd; 1]);
        let mut parts = [IoSliceMut::new(&mut byte)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
        let received = recvmsg::<()>(from.as_raw_fd(), &mut parts, Some(&mut space), flags).ok()?;
        let listener = received.cmsgs().ok()?.find_map(|message| match message {
            ControlMessageOwned::ScmRights(fds) => fds.into_iter().next().and_then(crate::sys::fd::adopt),
            _ => None,
        })?;
        // Root's could do to a file what the target cannot.
        process::drop_capabilities().ok()?;
        let listener = Listener::from(listener);
        listener.hasten();
        if switch.is_some() {
            crate::egress::raise_open_files();
        }
        Some(Self { listener, rules, switch, open: true })
    }

    /// Where to wait for the next call; `None` when nobody is left who could make one.
    #[must_use]
    pub fn waiting(&self) -> Option<BorrowedFd<'_>> {
        self.open.then(|| self.listener.as_fd())
    }

    /// What else to wait for: connections that come in, and room for those that were made.
    pub fn connections(&self) -> impl Iterator<Item = PollFd<'_>> {
        let switch = self.switch.iter();
        let coming =
            switch.clone().filter_map(Switch::waiting).map(|listener| PollFd::new(listener, PollFlags::POLLIN));
        coming.chain(switch.filter_map(Switch::full).map(|channel| PollFd::new(channel, PollFlags::POLLOUT)))
    }

    /// How long to wait at most.
    #[must_use]
    pub fn patience(&self) -> PollTimeout {
        const TICK: u16 = 1000;
        let hurries = self.switch.as_ref().is_some_and(Switch::hurries);
        if hurries { PollTimeout::from(TICK) } else { PollTimeout::NONE }
    }

    /// Sees to connections.
    pub fn connect(&mut self) {
        if let Some(switch) = &mut self.switch {
            switch.accept(&self.listener);
        }
    }

    /// Answers what waits there.
    pub fn serve(&mut self, ended: bool) {
        match self.listener.receive() {
            Ok(Some(call)) => {
                let answer = match &mut self.switch {
                    Some(switch) if [calls::SYS_connect, calls::SYS_listen].contains(&call.number) => {
                        switch.decide(&self.listener, &call)
                    }
                    _ => Some(self.decide(&call).map_or_else(Answer::Refused, |()| Answer::Done)),
                };
                if let Some(answer) = answer {
                    self.listener.answer(&call, answer);
                }
            }
            Ok(None) => self.open &= !ended,
            Err(_) => self.open = false,
        }
    }

    fn decide(&self, call: &Call) -> Result<(), Errno> {
        let memory = Memory::of(call.thread).map_err(|_| libc::EACCES)?;
        let (object, change) = understand(call, &memory)?;
        let file = object.open(call.thread)?;
        // Until here the number could have become another thread's.
        if !self.listener.waits(call) {
            return Err(libc::ENOSYS);
        }
        if !self.is_granted(&file) {
            return Err(libc::EACCES);
        }
        change.make(&file)
    }

    /// Whether a file lies where the target may write.
    fn is_granted(&self, file: &File) -> bool {
        let Ok(place) = fs::read_link(through(file)) else { return false };
        let Ok(data) = file.metadata() else { return false };
        // The name may be one of another tree, which is mounted nowhere any more; a file without one is known by its file system.
        let named =
            fs::symlink_metadata(&place).is_ok_and(|found| (found.dev(), found.ino()) == (data.dev(), data.ino()));
        let rules = self.rules.iter().filter(|rule| rule.right == Right::Write && place.starts_with(&rule.path));
        let same = |rule: &Allowed| {
            let found = fs::symlink_metadata(&rule.path).ok().map(|found| (found.dev(), found.ino()));
            // A rule is about the file that was there, whatever has its name now.
            let near = named || data.nlink() == 0 && found.is_some_and(|(device, _)| device == data.dev());
            near && found.is_some() && rule.file.is_none_or(|file| found == Some(file))
        };
        rules.into_iter().any(same)
    }
}

/// What a call is about.
#[derive(Debug, PartialEq, Eq)]
enum Object {
    /// A descriptor, or the working directory.
    Open(Place),
    /// What a path leads to.
    Path { from: Place, path: OsString, follow: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Workdir,
    Descriptor(i32),
}

impl Place {
    fn of(argument: u64) -> Self {
        match notify::low(argument) {
            libc::AT_FDCWD => Self::Workdir,
            number => Self::Descriptor(number),
        }
    }

    /// Opens it as a place in the tree only, whatever the thread may do with it.
    fn open(self, thread: u32) -> Result<File, Errno> {
        let path = match self {
            Self::Workdir => format!("/proc/{thread}/cwd"),
            Self::Descriptor(number) if number < 0 => return Err(libc::EBADF),
            Self::Descriptor(number) => format!("/proc/{thread}/fd/{number}"),
        };
        let file = place(Path::new(&path), true);
        file.map_err(|error| if error.kind() == io::ErrorKind::NotFound { libc::EBADF } else { libc::EACCES })
    }
}

impl Object {
    fn path(memory: &Memory, from: u64, address: u64, flags: i32) -> Result<Self, Errno> {
        if flags & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0 {
            return Err(libc::EINVAL);
        }
        let path = memory.string(address, 4096, libc::ENAMETOOLONG)?;
        if path.is_empty() {
            let opened = flags & libc::AT_EMPTY_PATH != 0;
            return if opened { Ok(Self::Open(Place::of(from))) } else { Err(libc::ENOENT) };
        }
        let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
        if let Some(number) = descriptor(&path).filter(|_| follow) {
            return Ok(Self::Open(Place::Descriptor(number)));
        }
        Ok(Self::Path { from: Place::of(from), path: OsString::from_vec(path), follow })
    }

    fn open(&self, thread: u32) -> Result<File, Errno> {
        let (from, path, follow) = match self {
            Self::Open(place) => return place.open(thread),
            Self::Path { from, path, follow } => (from, Path::new(path), follow),
        };
        let mut flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
        flags.set(OFlag::O_NOFOLLOW, !follow);
        // Such links would lead by this process's descriptors, not by the thread's.
        let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS);
        let opened =
            if path.is_absolute() { openat2(AT_FDCWD, path, how) } else { openat2(from.open(thread)?, path, how) };
        opened.map(File::from).map_err(|errno| errno as i32)
    }
}

/// The number in a path by which the C library means a descriptor: it has no other name for a call on one that is open as a place
/// only.
fn descriptor(path: &[u8]) -> Option<i32> {
    let names = ["/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"];
    let number = names.into_iter().find_map(|name| path.strip_prefix(name.as_bytes()))?;
    let digits = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(number).ok().filter(|_| digits)?.parse().ok()
}

/// What a call does.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Mode(u32),
    Owner(Option<u32>, Option<u32>),
    Times(TimeSpec, TimeSpec),
    Set { name: Vec<u8>, value: Vec<u8>, flags: i32 },
    Remove { name: Vec<u8> },
}

impl Change {
    fn make(&self, file: &File) -> Result<(), Errno> {
        let path = through(file);
        let link = file.metadata().is_ok_and(|found| found.is_symlink());
        let made = match self {
            Self::Mode(_) if link => return Err(libc::EOPNOTSUPP),
            // chmod(2) and setxattr(2): a link has none of its own that is not the system's.
            Self::Set { .. } | Self::Remove { .. } if link => return Err(libc::EPERM),
            Self::Mode(mode) => fs::set_permissions(path, Permissions::from_mode(*mode)),
            Self::Owner(user, group) => std::os::unix::fs::chown(path, *user, *group),
            Self::Times(read, written) => {
                utimensat(AT_FDCWD, &path, read, written, UtimensatFlags::FollowSymlink).map_err(io::Error::from)
            }
            Self::Set { name, value, flags } => attributes::set(&path, name, value, *flags),
            Self::Remove { name } => attributes::remove(&path, name),
        };
        made.map_err(|error| error.raw_os_error().unwrap_or(libc::EACCES))
    }
}

fn mode(argument: u64) -> Change {
    Change::Mode(notify::low(argument).cast_unsigned() & 0o7777)
}

fn owner(user: u64, group: u64) -> Change {
    let one = |argument| Some(notify::low(argument).cast_unsigned()).filter(|number| *number != u32::MAX);
    Change::Owner(one(user), one(group))
}

/// What is at an address: two times, each of two numbers; `scale` makes nanoseconds of the second.
fn times(memory: &Memory, address: u64, scale: Option<i64>) -> Result<Change, Errno> {
    let now = TimeSpec::new(0, libc::UTIME_NOW);
    if address == 0 {
        return Ok(Change::Times(now, now));
    }
    let bytes = memory.bytes(address, 32)?;
    let number = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        i64::from_ne_bytes(word)
    };
    let time = |at| match scale {
        None => Ok(TimeSpec::new(number(at), number(at + 8))),
        Some(scale) if (0..1_000_000).contains(&number(at + 8)) => {
            Ok(TimeSpec::new(number(at), number(at + 8) * scale))
        }
        Some(_) => Err(libc::EINVAL),
    };
    Ok(Change::Times(time(0)?, time(16)?))
}

/// The same of utime(2): two numbers of seconds.
fn seconds(memory: &Memory, address: u64) -> Result<Change, Errno> {
    if address == 0 {
        return times(memory, 0, None);
    }
    let bytes = memory.bytes(address, 16)?;
    let (read, written) = bytes.split_at(8);
    let time = |bytes: &[u8]| {
        let mut word = [0; 8];
        word.copy_from_slice(bytes);
        TimeSpec::new(i64::from_ne_bytes(word), 0)
    };
    Ok(Change::Times(time(read), time(written)))
}

/// What `call` is about and what it does, read from the registers and the memory of who makes it.
#[cfg_attr(target_arch = "aarch64", allow(unreachable_patterns, reason = "calls that it has not are one number"))]
fn understand(call: &Call, memory: &Memory) -> Result<(Object, Change), Errno> {
    const HERE: u64 = libc::AT_FDCWD.cast_unsigned() as u64;
    const NOFOLLOW: i32 = libc::AT_SYMLINK_NOFOLLOW;
    let [one, two, three, four, five, _] = call.arguments;
    let name = |address| memory.string(address, 256, libc::ERANGE);
    let open = |number| Object::Open(Place::Descriptor(notify::low(number)));
    let path = |from, address, flags| Object::path(memory, from, address, flags);
    let attribute = || -> Result<Change, Errno> {
        let length = usize::try_from(four).ok().filter(|length| *length <= 65536).ok_or(libc::E2BIG)?;
        let value = if length == 0 { Vec::new() } else { memory.bytes(three, length)? };
        Ok(Change::Set { name: name(two)?, value, flags: notify::low(five) })
    };
    Ok(match call.number {
        calls::SYS_chmod => (path(HERE, one, 0)?, mode(two)),
        calls::SYS_fchmod => (open(one), mode(two)),
        calls::SYS_fchmodat => (path(one, two, 0)?, mode(three)),
        calls::SYS_fchmodat2 => (path(one, two, notify::low(four))?, mode(three)),
        calls::SYS_chown => (path(HERE, one, 0)?, owner(two, three)),
        calls::SYS_lchown => (path(HERE, one, NOFOLLOW)?, owner(two, three)),
        calls::SYS_fchown => (open(one), owner(two, three)),
        calls::SYS_fchownat => (path(one, two, notify::low(five))?, owner(three, four)),
        calls::SYS_utime => (path(HERE, one, 0)?, seconds(memory, two)?),
        calls::SYS_utimes => (path(HERE, one, 0)?, times(memory, two, Some(1000))?),
        // Without a path it is about the descriptor.
        calls::SYS_futimesat if two == 0 => (open(one), times(memory, three, Some(1000))?),
        calls::SYS_futimesat => (path(one, two, 0)?, times(memory, three, Some(1000))?),
        calls::SYS_utimensat => (path(one, two, notify::low(four))?, times(memory, three, None)?),
        calls::SYS_setxattr => (path(HERE, one, 0)?, attribute()?),
        calls::SYS_lsetxattr => (path(HERE, one, NOFOLLOW)?, attribute()?),
        calls::SYS_fsetxattr => (open(one), attribute()?),
        calls::SYS_removexattr => (path(HERE, one, 0)?, Change::Remove { name: name(two)? }),
        calls::SYS_lremovexattr => (path(HERE, one, NOFOLLOW)?, Change::Remove { name: name(two)? }),
        calls::SYS_fremovexattr => (open(one), Change::Remove { name: name(two)? }),
        _ => return Err(libc::EACCES),
    })
}
