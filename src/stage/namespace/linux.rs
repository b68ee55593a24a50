//! A sandbox that a copy of this process builds around itself: it becomes process 1 of its own namespaces and goes on as the
//! inner stage, without another exec.
//!
//! Nothing is mounted or made on the host: the copy has a mount namespace of its own from its first instruction on, and makes files
//! on file systems in memory that it mounted itself.

#[path = "root.rs"]
mod root;

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::mount::MsFlags;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, getegid, geteuid, getpid};

use super::cgroup::Group;
use super::control::{Inner, Report};
use super::fault::{Act, Fault};
use super::gate::Gate;
use super::handoff::Handoff;
use super::inner::{self, FAILED};
use super::outcome::Reason;
use super::way_out::Wanted;
use crate::launch::Namespaces;
use crate::plan::Plan;
use crate::sys;
use crate::sys::pidfd::PidFd;

/// Resolves without a network, unlike a made-up name.
const HOST_NAME: &str = "localhost";

/// Starts the inner stage in a copy of this process that builds `namespaces` first.
pub fn start(
    plan: &Plan,
    namespaces: &Namespaces,
    handoff: &Handoff,
    inner: &Inner,
    group: Option<&Group>,
) -> Result<Pid, Reason> {
    let gate = Gate::of(group)?;
    let outer = PidFd::open(getpid().as_raw())?;
    // Inside they have no number until somebody gives them one.
    let ids = [geteuid().as_raw(), getegid().as_raw()];
    let mut kinds = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS;
    kinds.set(CloneFlags::CLONE_NEWNET, namespaces.network);
    let launcher = sys::namespaces::fork(kinds, || {
        if let Some(number) = gate.opener() {
            drop(sys::fd::adopt(number));
        }
        gate.wait();
        become_first(&Task { namespaces, handoff, inner, group, outer: &outer, ids })
    });
    let launcher = launcher.map_err(|errno| Reason::from(Fault::of(Act::Namespaces, errno)))?;
    gate.open(plan, group, launcher)?;
    Ok(launcher)
}

/// What the copy is given.
struct Task<'a> {
    namespaces: &'a Namespaces,
    handoff: &'a Handoff,
    inner: &'a Inner,
    group: Option<&'a Group>,
    /// The process that it is a copy of.
    outer: &'a PidFd,
    /// User and group outside.
    ids: [u32; 2],
}

/// In the copy. Does not return.
fn become_first(task: &Task) -> Infallible {
    match build(task) {
        Ok(()) => inner::in_process(task.handoff, task.inner),
        Err(fault) => {
            // Not told is what the outer stage sees by the end of the socket.
            let _told = task.inner.report_more(Report::Unbuilt, &fault.bytes());
            sys::process::exit_now(FAILED)
        }
    }
}

fn build(task: &Task) -> Result<(), Fault> {
    let Task { namespaces, handoff, inner, group, outer, ids: [user, group_id] } = *task;
    let of = |act: Act| move |error: io::Error| Fault::of(act, error);
    if let Some(group) = group {
        group.enter().map_err(of(Act::Group))?;
    }
    let header = &handoff.header;
    let given = header.streams.iter().flatten().copied().chain(header.keep.iter().copied());
    let way_out = header.way_out.as_ref().and_then(Wanted::number);
    let own = [inner.as_fd().as_raw_fd(), outer.as_fd().as_raw_fd()];
    let kept: Vec<_> = given.chain(header.left.as_ref().map(|left| left.file)).chain(way_out).chain(own).collect();
    sys::fd::close_others(&kept).map_err(of(Act::Descriptors))?;
    sys::fd::silence(&[0, 1, 2]).map_err(of(Act::Descriptors))?;
    sys::namespaces::forget_start();
    // Where there is no room for a new one, the filter still keeps the target from the caller's.
    let _left = sys::keyring::leave();
    match unshare(CloneFlags::CLONE_NEWCGROUP) {
        // Only now, in the group that is to be the highest in sight. A kernel without such namespaces has no such sight either.
        Ok(()) | Err(Errno::EINVAL) => {}
        Err(errno) => return Err(Fault::of(Act::Namespaces, errno)),
    }
    let proc = open_proc().map_err(|errno| Fault::of(Act::Ids, errno))?;
    // As root of the namespace: some file systems are mounted for nobody else.
    map(&proc, [0, user], [0, group_id]).map_err(of(Act::Ids))?;
    let none: Option<&Path> = None;
    nix::mount::mount(none, Path::new("/"), none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .map_err(|errno| Fault::of(Act::Apart, errno))?;
    if namespaces.network {
        sys::namespaces::loopback().map_err(of(Act::Loopback))?;
    }
    sys::namespaces::set_host_name(HOST_NAME).map_err(|errno| Fault::of(Act::Name, errno))?;
    let mask = nix::sys::stat::umask(Mode::empty());
    let root = root::build(&namespaces.operations, &proc)?;
    nix::sys::stat::umask(mask);
    // Before the new root hides what could be written there. Where it cannot be, the filter still refuses such namespaces.
    let _limited = set(&proc, "sys/user/max_user_namespaces", "1");
    sys::namespaces::enter_root(&root).map_err(|errno| Fault::of(Act::Enter, errno))?;
    drop(root);
    leave(&proc, user, group_id)?;
    drop(proc);
    // A change of user would undo it.
    sys::process::end_with_parent().map_err(|errno| Fault::of(Act::Parent, errno))?;
    let mut polled = [PollFd::new(outer.as_fd(), PollFlags::POLLIN)];
    match poll(&mut polled, PollTimeout::ZERO) {
        Ok(0) => Ok(()),
        // Gone before that.
        Ok(_) => sys::process::exit_now(FAILED),
        Err(errno) => Err(Fault::of(Act::Parent, errno)),
    }
}

/// Goes to a user namespace below, whose capabilities are none over what was built, and gives up these, too.
fn leave(proc: &OwnedFd, user: u32, group: u32) -> Result<(), Fault> {
    match unshare(CloneFlags::CLONE_NEWUSER) {
        Ok(()) => map(proc, [user, 0], [group, 0]).map_err(|error| Fault::of(Act::Leave, error))?,
        // With kernel.unprivileged_userns_clone=0 Debian's kernel takes root of a namespace for an ordinary user. Who is root outside
        // has the same number on this level, and goes without capabilities here, as under bubblewrap.
        Err(Errno::EPERM) if user == 0 && group == 0 => {}
        Err(errno) => return Err(Fault::of(Act::Leave, errno)),
    }
    nix::sys::prctl::set_no_new_privs().map_err(|errno| Fault::of(Act::Privileges, errno))?;
    sys::process::drop_capabilities().map_err(|error| Fault::of(Act::Privileges, error))
}

/// The `/proc` of the host, which leads to this process by `self` also when the root directory is another.
fn open_proc() -> nix::Result<OwnedFd> {
    nix::fcntl::open("/proc", OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
}

/// Maps one user and one group, each from inside to outside, and lets nobody drop a group.
fn map(proc: &OwnedFd, user: [u32; 2], group: [u32; 2]) -> io::Result<()> {
    let line = |[inside, outside]: [u32; 2]| format!("{inside} {outside} 1\n");
    match set(proc, "self/setgroups", "deny") {
        Ok(()) => {}
        // Of a program that its user cannot read, such files are root's.
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            nix::sys::prctl::set_dumpable(true)?;
            set(proc, "self/setgroups", "deny")?;
        }
        Err(error) => return Err(error),
    }
    set(proc, "self/uid_map", &line(user))?;
    set(proc, "self/gid_map", &line(group))
}

/// Writes a file of `/proc`: in one piece, as the kernel wants it.
fn set(proc: &OwnedFd, name: &str, text: &str) -> io::Result<()> {
    let file = openat(proc, name, OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    File::from(file).write_all(text.as_bytes())
}
