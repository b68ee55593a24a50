//! The way into a container: a socket in a directory of the run, through which everything that other launchers inherit is passed.
//!
//! A process of ours waits at the socket, hands the inner stage its end of the control socket, the hand-off and the descriptors
//! of the target, and stays until the run is over: it removes the directory, and the container where the program that started it
//! was killed. Whoever comes without the nonce gets nothing.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, accept4, bind,
    connect, listen, recvmsg, sendmsg, setsockopt, socket, socketpair, sockopt,
};
use nix::sys::time::TimeVal;
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, geteuid, getpid, pipe2, setsid};

use super::abandoned::{self as left, hold};
use super::handoff::{self, Handoff};
use super::way_out::Wanted;
use crate::backend::container::{DOOR, EMPTY, LOADER, SOCKET};
use crate::host::Host;
use crate::sys;
use crate::sys::pidfd::PidFd;

/// How long the engine may take to remove a container, however often it is asked.
const REMOVAL: Duration = Duration::from_secs(30);

/// The same for one that has hung before. Somebody waits, and the next run removes what is left.
const REMOVAL_BY_HUNG: Duration = Duration::from_secs(5);

/// How long the engine may go on when sandbox-run was killed: one that works ends with the container, which ends at once.
const GOES_ON: Duration = Duration::from_secs(5);

/// How often the engine is asked for that.
const ATTEMPTS: u32 = 3;

/// Between two looks for a container that a killed program may still have made.
const PAUSE: Duration = Duration::from_secs(1);

/// How long whoever comes to the door may take to say who he is.
const SPEECH: TimeVal = TimeVal::new(2, 0);

/// As many descriptors as one message takes.
const MOST: usize = 253;

/// Whether processes whose parent is gone go to somebody else than this process.
pub(super) fn leave_orphans(leave: bool) -> io::Result<()> {
    Ok(nix::sys::prctl::set_child_subreaper(!leave)?)
}

/// The directory of a run in a container of `engine`, not made yet: where the caller's own files of a session are, or else in `/tmp`.
pub(super) fn choose(host: &Host, engine: &str) -> io::Result<PathBuf> {
    let mut number = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut number)?;
    Ok(place(host).join(format!("{}{:032x}", prefix(engine), u128::from_ne_bytes(number))))
}

/// The directory of one run, with the socket in it.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    /// Locks the directory as long as a process of the run has it.
    lock: OwnedFd,
    listener: OwnedFd,
}

impl Place {
    fn make(path: &Path, loader: Option<&[u8]>) -> io::Result<Self> {
        loop {
            DirBuilder::new().mode(0o700).create(path)?;
            // Between these two it is what nobody holds, and can be taken for left behind.
            if let Some(lock) = hold(path, true)? {
                let filled = Self::fill(path, loader).inspect_err(|_| remove(path));
                return filled.map(|listener| Self { path: path.to_owned(), lock, listener });
            }
        }
    }

    fn fill(path: &Path, loader: Option<&[u8]>) -> io::Result<OwnedFd> {
        if let Some(loader) = loader {
            let path = path.join(LOADER);
            OpenOptions::new().write(true).create_new(true).mode(0o755).open(&path)?.write_all(loader)?;
            fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        }
        let empty = path.join(EMPTY);
        OpenOptions::new().write(true).create_new(true).mode(0o444).open(&empty)?;
        // Whatever the umask has taken away.
        fs::set_permissions(&empty, Permissions::from_mode(0o444))?;
        fs::set_permissions(path, Permissions::from_mode(0o700))?;
        let door = path.join(DOOR);
        DirBuilder::new().mode(0o700).create(&door)?;
        fs::set_permissions(&door, Permissions::from_mode(0o700))?;
        let directory = File::open(&door)?;
        let listener =
            socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)?;
        // A name that is short enough, wherever the directory lies.
        let short = format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd());
        bind(listener.as_raw_fd(), &UnixAddr::new(short.as_str())?)?;
        fs::set_permissions(door.join(SOCKET), Permissions::from_mode(0o600))?;
        listen(&listener, Backlog::new(8)?)?;
        Ok(listener)
    }
}

/// Where a dynamic loader of glibc reads what it loads into every program.
const PRELOAD: &[u8] = b"/etc/ld.so.preload\0";

/// As long, and no file.
const NO_PRELOAD: &[u8] = b"/dev/null/nothing/\0";

/// A dynamic loader that reads no list of what it loads into every program: one of an image, or of a grant, would be loaded into
/// the inner stage. No option and no variable switches that off.
fn without_preload(mut loader: Vec<u8>) -> Vec<u8> {
    let mut from = 0;
    while let Some(found) = loader[from..].windows(PRELOAD.len()).position(|part| part == PRELOAD) {
        from += found;
        loader[from..from + PRELOAD.len()].copy_from_slice(NO_PRELOAD);
    }
    loader
}

/// How the name of the directory of a run begins, which is also that of the container.
fn prefix(engine: &str) -> String {
    format!("sandbox-run-{engine}-")
}

/// The directory of a run of which no process is there any more.
#[derive(Debug)]
pub(super) struct Abandoned {
    path: PathBuf,
    /// While it is held nobody else takes it for one.
    _lock: OwnedFd,
}

impl Abandoned {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the container, should it be there, and the directory.
    pub(super) fn clear(self, removal: &Removal) {
        removal.run(REMOVAL);
        remove(&self.path);
    }
}

/// What runs with `engine` have left that were killed with all their processes.
pub(super) fn abandoned(host: &Host, engine: &str) -> Vec<Abandoned> {
    let prefix = prefix(engine);
    let places = BTreeSet::from([place(host), "/tmp".into()]);
    let all = places.iter().flat_map(|place| left::abandoned(place, &prefix).collect::<Vec<_>>());
    all.map(|(path, lock)| Abandoned { _lock: lock, path }).collect()
}

/// `XDG_RUNTIME_DIR` where it is the caller's own and has a name that every engine can be told.
fn place(host: &Host) -> PathBuf {
    let plain = |path: &Path| {
        path.to_str().is_some_and(|text| text.chars().all(|char| char.is_ascii_alphanumeric() || "/._-".contains(char)))
    };
    let given = host.variable("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute() && plain(path));
    let own = |path: &PathBuf| {
        let found = fs::symlink_metadata(path);
        found.is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o777 == 0o700)
    };
    given.filter(own).unwrap_or_else(|| "/tmp".into())
}

fn remove(path: &Path) {
    // Ours alone, by its mode: nobody else has put anything there.
    if let Err(error) = fs::remove_dir_all(path) {
        tracing::debug!("'{}' stays: {}", path.display(), sys::process::describe(&error));
    }
}

/// What removes a container whose program was killed.
#[derive(Debug)]
pub(super) struct Removal {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
}

impl Removal {
    fn run(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        // An engine that finds a container in the middle of its end may give up. What it says is of no use: mostly that there is
        // no such container.
        for _ in 0..ATTEMPTS {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // One that hangs is not asked again: somebody waits.
                return;
            }
            match sys::process::run(&self.program, &self.arguments, &self.environment, left) {
                Ok(said) if said.success => return,
                _ => std::thread::sleep(PAUSE / 4),
            }
        }
    }
}

/// How a run has ended, for whoever clears up after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The program that started the container has seen to its removal.
    Removed,
    /// It may have left it.
    Left,
    /// It did not answer.
    Hung,
}

impl Ending {
    /// As it is told to the process at the door.
    const fn word(self) -> u8 {
        match self {
            Self::Removed => b'd',
            Self::Left => b'r',
            Self::Hung => b'h',
        }
    }
}

/// The process at the door, seen from the outer stage.
#[derive(Debug)]
pub(super) struct Keeper {
    pid: Pid,
    tell: File,
    /// Where the program that starts the container says who it is.
    announced: OwnedFd,
    /// For the case that it is killed.
    directory: PathBuf,
    /// So that nobody takes the directory for left behind then.
    _lock: OwnedFd,
    removal: Removal,
}

impl Keeper {
    /// Starts it; it makes the directory `path`, with a copy of `loader`, and passes `gifts` on in this order to whoever knows the nonce.
    pub(super) fn start(
        path: PathBuf,
        loader: Option<&Path>,
        nonce: &str,
        gifts: &[RawFd],
        removal: Removal,
    ) -> io::Result<Self> {
        let loader = loader.map(fs::read).transpose()?.map(without_preload);
        if gifts.len() > MOST {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors to keep"));
        }
        // Before the fork: afterwards this process may already be gone, and its number somebody else's.
        let watched = PidFd::open(getpid().as_raw())?;
        let (told, tell) = pipe2(OFlag::O_CLOEXEC)?;
        let (ready, settled) = pipe2(OFlag::O_CLOEXEC)?;
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let (heard, announced) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
        let pid = sys::process::fork(|| {
            let _ended = keep(
                &path,
                loader.as_deref(),
                nonce,
                gifts,
                &removal,
                [&watched.as_fd(), &told.as_fd(), &heard.as_fd()],
                &settled.into(),
            );
            sys::process::exit_now(0)
        })?;
        let mut errno = [0; 4];
        let ended = |_| io::Error::other("the process that waits for the container ended early");
        let made = File::from(ready).read_exact(&mut errno).map_err(ended);
        let made = made.and_then(|()| match i32::from_ne_bytes(errno) {
            0 => hold(&path, true)?.ok_or_else(|| io::Error::other("the directory of the run is gone")),
            errno => Err(io::Error::from_raw_os_error(errno)),
        });
        let lock = made.inspect_err(|_| remove(&path))?;
        Ok(Self { pid, tell: tell.into(), announced, directory: path, _lock: lock, removal })
    }

    /// In the process that becomes the engine's program: gives a handle on itself to the process at the door, which ends it should
    /// nobody else do so.
    pub(super) fn announce(&self) -> io::Result<()> {
        let own = PidFd::open(getpid().as_raw())?;
        give(&self.announced, &[own.as_fd().as_raw_fd()])
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// The run is over.
    pub(super) fn end(mut self, ending: Ending) {
        // Killed meanwhile: nobody is left to tell.
        let _told = self.tell.write_all(&[ending.word()]);
        drop(self.tell);
        // Whoever waits for all children may have taken it in already.
        while waitpid(self.pid, None) == Err(Errno::EINTR) {}
        if fs::symlink_metadata(&self.directory).is_ok() {
            self.removal.run(if ending == Ending::Hung { REMOVAL_BY_HUNG } else { REMOVAL });
            remove(&self.directory);
        }
    }
}

/// In the keeper.
fn keep(
    path: &Path,
    loader: Option<&[u8]>,
    nonce: &str,
    gifts: &[RawFd],
    removal: &Removal,
    [watched, told, heard]: [&BorrowedFd; 3],
    settled: &File,
) -> io::Result<()> {
    setsid()?;
    // Nothing that is sent to the group of a terminal, or to everybody, shall end it.
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None)?;
    sys::fd::silence(&[0, 1, 2])?;
    // Not before this process is out of reach of what is sent to its group is there anything to be cleared up, and from then on
    // it is there to do it.
    let place = match Place::make(path, loader) {
        Ok(place) => place,
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            return (&*settled).write_all(&errno.to_ne_bytes());
        }
    };
    let own =
        [&place.listener.as_fd(), watched, told, heard, &place.lock.as_fd()].map(|file: &BorrowedFd| file.as_raw_fd());
    // Nobody to hear it is what is found out below.
    let _told = (&*settled).write_all(&0_i32.to_ne_bytes());
    sys::fd::close_others(&[&own, gifts].concat())?;
    std::env::set_current_dir("/")?;
    let mut waiting = true;
    loop {
        let mut polled = vec![PollFd::new(*watched, PollFlags::POLLIN), PollFd::new(*told, PollFlags::POLLIN)];
        if waiting {
            polled.push(PollFd::new(place.listener.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut polled, PollTimeout::NONE) {
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        let woken = |index: usize| polled.get(index).and_then(PollFd::any).unwrap_or(false);
        if woken(0) || woken(1) {
            break;
        }
        if woken(2)
            && let Ok(Some(visitor)) = let_in(place.listener.as_fd(), nonce)
        {
            waiting = false;
            // Shut before anything is said: whoever waits there hears the end.
            let _gone = fs::remove_file(place.path.join(DOOR).join(SOCKET));
            sys::fd::close_others(&[&own[1..], &[visitor.as_raw_fd()], gifts].concat())?;
            // One that is gone by now is one that does not start.
            let _given = give(&visitor, gifts);
            drop(visitor);
            // What the target has must be the target's alone.
            sys::fd::close_others(&own[1..])?;
        }
    }
    // A container that comes now finds nobody, and ends.
    sys::fd::close_others(&own[1..])?;
    let mut word = [0];
    match nix::unistd::read(told, &mut word) {
        Ok(1) if word[0] == Ending::Removed.word() => {}
        Ok(1) if word[0] == Ending::Hung.word() => removal.run(REMOVAL_BY_HUNG),
        Ok(1) => removal.run(REMOVAL),
        // Killed. Then the program that starts the container may have been, too, and only just have made it.
        _ if has_ended(*heard) => {
            removal.run(REMOVAL);
            std::thread::sleep(PAUSE);
            removal.run(REMOVAL);
        }
        _ => removal.run(REMOVAL_BY_HUNG),
    }
    remove(&place.path);
    Ok(())
}

/// Whether the engine's program, which has announced itself at `heard`, has come to its end without us. One that has not is ended,
/// with all that it has started.
fn has_ended(heard: BorrowedFd) -> bool {
    // One that is not heard of has not begun: it would have given up.
    let Ok([engine]) = <[_; 1]>::try_from(take(&heard, &mut [0; 1]).unwrap_or_default()) else { return true };
    let engine = PidFd::of_descriptor(engine);
    let deadline = Instant::now() + GOES_ON;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut polled = [PollFd::new(engine.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO)) {
            Err(Errno::EINTR) => {}
            Ok(0) | Err(_) => break,
            Ok(_) => return true,
        }
    }
    sys::process::kill_tree_of(&engine);
    false
}

/// A message and the descriptors that come with it.
fn take(socket: &impl AsRawFd, byte: &mut [u8; 1]) -> io::Result<Vec<OwnedFd>> {
    let mut space = nix::cmsg_space!([RawFd; MOST]);
    let mut parts = [IoSliceMut::new(byte)];
    let received = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let mut taken = Vec::new();
    for message in received.cmsgs()? {
        if let ControlMessageOwned::ScmRights(numbers) = message {
            taken.extend(numbers.into_iter().filter_map(sys::fd::adopt));
        }
    }
    Ok(taken)
}

/// The next one who comes, if he has the nonce.
fn let_in(listener: BorrowedFd, nonce: &str) -> io::Result<Option<OwnedFd>> {
    let visitor = accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC)?;
    let Some(visitor) = sys::fd::adopt(visitor) else { return Ok(None) };
    setsockopt(&visitor, sockopt::ReceiveTimeout, &SPEECH)?;
    let mut said = [0; 64];
    let length = nix::unistd::read(&visitor, &mut said)?;
    Ok(Some(visitor).filter(|_| said.get(..length) == Some(nonce.as_bytes())))
}

fn give(visitor: &OwnedFd, gifts: &[RawFd]) -> io::Result<()> {
    let parts = [IoSlice::new(b"r")];
    sendmsg::<()>(visitor.as_raw_fd(), &parts, &[ControlMessage::ScmRights(gifts)], MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}

/// In the container: asks at the door `path` for what was left there for this process, and puts it into its places.
pub(super) fn enter(path: &str, nonce: &str) -> io::Result<Handoff> {
    let door = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
    connect(door.as_raw_fd(), &UnixAddr::new(path)?)?;
    nix::unistd::write(&door, nonce.as_bytes())?;
    let mut gifts = take(&door, &mut [0])?.into_iter();
    let mut next = || gifts.next().ok_or_else(|| io::Error::other("not all that was promised was handed over"));
    let (control, file) = (next()?, next()?);
    let mut handoff = handoff::read(&file, nonce)?;
    let header = &mut handoff.header;
    // Out of the way of the numbers that are kept.
    let least = header.keep.last().map_or(3, |last| last.saturating_add(1));
    let settle = |file: OwnedFd| -> io::Result<RawFd> {
        let placed = sys::fd::duplicate_above(&file, least)?;
        Ok(std::os::fd::IntoRawFd::into_raw_fd(placed))
    };
    header.control = settle(control)?;
    for stream in header.streams.iter_mut().filter(|stream| stream.is_some()) {
        *stream = Some(settle(next()?)?);
    }
    if let Some(left) = &mut header.left {
        left.file = settle(next()?)?;
    }
    if let Some(number) = header.way_out.as_mut().and_then(Wanted::number_mut) {
        *number = settle(next()?)?;
    }
    let kept = header.keep.iter().map(|number| Ok((*number, sys::fd::duplicate_above(next()?, least)?)));
    let kept = kept.collect::<io::Result<Vec<_>>>()?;
    // All others are closed by now, but the door and the file.
    drop((door, file));
    for (number, file) in kept {
        sys::fd::place(&file, number)?;
        sys::fd::set_cloexec(number, true)?;
    }
    Ok(handoff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loader_reads_no_list() {
        let loader = b"\x7fELF /etc/ld.so.preload\0/etc/ld.so.cache\0".to_vec();
        let length = loader.len();
        let changed = without_preload(loader);
        assert_eq!(changed, b"\x7fELF /dev/null/nothing/\0/etc/ld.so.cache\0");
        assert_eq!(changed.len(), length);
        assert_eq!(without_preload(b"/etc/ld.so.preloads\0".to_vec()), b"/etc/ld.so.preloads\0");
        assert!(fs::symlink_metadata("/dev/null/nothing/").is_err());
    }

    #[test]
    fn a_directory_is_held_until_the_last_descriptor_is_closed() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("sandbox-run-podman-0");
        let none = |wait: bool| hold(&path, wait).unwrap().is_none();
        assert!(none(true) && none(false), "there is none");
        fs::create_dir(&path).unwrap();
        let first = hold(&path, true).unwrap().unwrap();
        let second = first.try_clone().unwrap();
        assert!(none(false), "held");
        drop(first);
        assert!(none(false), "held by the other one");
        drop(second);
        let last = hold(&path, false).unwrap().unwrap();
        // Whoever has opened it before it was removed gets nothing, and not what has its name by then.
        let old = File::open(&path).unwrap();
        drop(last);
        remove(&path);
        assert!(left::lock(old.try_clone().unwrap(), &path, true).unwrap().is_none(), "removed");
        fs::create_dir(&path).unwrap();
        assert!(left::lock(old, &path, true).unwrap().is_none(), "another one");
        let link = above.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(hold(&link, true).is_err());
    }
}
