//! Ctrl-C and Ctrl-Break: survived by us, passed on to a target that does not get them itself.
#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use windows_sys::Win32::System::Console::{
    CTRL_BREAK_EVENT, CTRL_C_EVENT, GenerateConsoleCtrlEvent, SetConsoleCtrlHandler,
};
use windows_sys::core::BOOL;

/// The process group of the target, if it has one of its own; 0 otherwise.
static GROUP: AtomicU32 = AtomicU32::new(0);

/// Whether a person asked for the end.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Keeps this process alive when its console is told to interrupt what runs in it.
pub fn survive() -> io::Result<()> {
    // SAFETY: `interrupted` only uses atomics and a call that any thread may make, as the thread that the system makes for it needs.
    let done = unsafe { SetConsoleCtrlHandler(Some(interrupted), 1) };
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Passes such events on to the group of this process from now on, which the console leaves out.
pub fn pass_on(group: u32) {
    GROUP.store(group, Ordering::SeqCst);
}

/// Whether there was such an event.
#[must_use]
pub fn asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}

/// Asks the programs of a process group to end, as Ctrl-Break does.
pub fn interrupt(group: u32) -> io::Result<()> {
    // SAFETY: takes two numbers; a group that does not exist any more is an error.
    let done = unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, group) };
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

unsafe extern "system" fn interrupted(event: u32) -> BOOL {
    // The end of the console or of the session is our end as well, and with the job that of the target.
    if event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT {
        return 0;
    }
    ASKED.store(true, Ordering::SeqCst);
    let group = GROUP.load(Ordering::SeqCst);
    if group != 0 {
        // A target that is gone needs nothing any more.
        let _gone = interrupt(group);
    }
    1
}
