//! The three standard streams of a target: handed on as they are, or pipes whose output goes through us, counted and bounded.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, IsTerminal, PipeReader, Read, Write};
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::ptr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use windows_sys::Win32::Foundation::{DUPLICATE_SAME_ACCESS, DuplicateHandle};
use windows_sys::Win32::System::Threading::GetCurrentProcess;

use super::supervise::Event;
use crate::stage::account::Written;
use crate::stage::kept::Kept;
use crate::sys::process::describe;

/// The most that is read at once.
const CHUNK: usize = 64 << 10;

/// The most that is kept where no limit was given.
const KEPT: u64 = 10 << 20;

/// How long a slow reader of ours is waited for once a run was ended.
const PATIENCE: Duration = Duration::from_secs(2);

/// A copy of the handle that a child can inherit.
fn inheritable(handle: BorrowedHandle<'_>) -> io::Result<OwnedHandle> {
    // SAFETY: takes nothing and cannot fail.
    let us = unsafe { GetCurrentProcess() };
    let mut copy = ptr::null_mut();
    // SAFETY: the handle is open for as long as it is borrowed, the process is this one, and `copy` is writable.
    let done = unsafe { DuplicateHandle(us, handle.as_raw_handle(), us, &raw mut copy, 0, 1, DUPLICATE_SAME_ACCESS) };
    if done == 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made it, and nobody else has it.
    Ok(unsafe { OwnedHandle::from_raw_handle(copy) })
}

/// A stream of ours for the target; one that is not open leads nowhere.
fn own(handle: BorrowedHandle<'_>) -> io::Result<OwnedHandle> {
    if handle.as_raw_handle().is_null() {
        return inheritable(File::options().read(true).write(true).open("NUL")?.as_handle());
    }
    inheritable(handle)
}

/// What is asked of output.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The most of both streams together that is passed on or kept.
    pub most: Option<u64>,
    /// Keep it instead of passing it on.
    pub capture: bool,
    /// Count it.
    pub count: bool,
}

impl Wish {
    /// Whether output has to come through us. A console stays the target's own where it would only be counted.
    fn is_needed(self) -> bool {
        let console = || io::stdout().is_terminal() || io::stderr().is_terminal();
        self.most.is_some() || self.capture || (self.count && !console())
    }
}

/// The streams for the target, and our ends of them.
pub fn make(wish: Wish) -> io::Result<([OwnedHandle; 3], Option<Relay>)> {
    let stdin = own(io::stdin().as_handle())?;
    if !wish.is_needed() {
        return Ok(([stdin, own(io::stdout().as_handle())?, own(io::stderr().as_handle())?], None));
    }
    let (out, to_out) = io::pipe()?;
    let (err, to_err) = io::pipe()?;
    let theirs = [stdin, inheritable(to_out.as_handle())?, inheritable(to_err.as_handle())?];
    let sink = |handle: BorrowedHandle<'_>| -> io::Result<File> { Ok(File::from(own(handle)?)) };
    let sinks = [sink(io::stdout().as_handle())?, sink(io::stderr().as_handle())?];
    Ok((theirs, Some(Relay { sources: [out, err], sinks, wish })))
}

/// Our ends of the target's output, before it starts.
#[derive(Debug)]
pub struct Relay {
    sources: [PipeReader; 2],
    sinks: [File; 2],
    wish: Wish,
}

/// What came through so far.
#[derive(Debug)]
struct State {
    most: Option<u64>,
    passed: u64,
    written: [u64; 2],
    over: bool,
    lost: bool,
    kept: Option<Kept>,
}

/// Output that is being passed on.
#[derive(Debug)]
pub struct Passing {
    state: Arc<Mutex<State>>,
    done: Receiver<()>,
}

impl Relay {
    /// Begins to pass on; `events` hears when there is more than may be.
    #[must_use]
    pub fn begin(self, events: &Sender<Event>) -> Passing {
        let Self { sources, sinks, wish } = self;
        let kept = wish.capture.then(|| Kept::new(wish.most.unwrap_or(KEPT)));
        let most = wish.most.filter(|_| !wish.capture);
        let state = State { most, passed: 0, written: [0; 2], over: false, lost: false, kept };
        let state = Arc::new(Mutex::new(state));
        let (ended, done) = mpsc::channel();
        for (index, (source, sink)) in sources.into_iter().zip(sinks).enumerate() {
            let (state, events, ended) = (Arc::clone(&state), events.clone(), ended.clone());
            thread::spawn(move || {
                pass(index, source, sink, &state, &events);
                // Nobody waits any more when the run was given up.
                let _heard = ended.send(());
            });
        }
        Passing { state, done }
    }
}

/// Passes one stream on until its end, or until nobody takes it.
fn pass(index: usize, mut source: PipeReader, mut sink: File, state: &Mutex<State>, events: &Sender<Event>) {
    let mut buffer = vec![0; CHUNK];
    // The end of a pipe is an error or nothing.
    while let Ok(read @ 1..) = source.read(&mut buffer) {
        let bytes = buffer.get(..read).unwrap_or_default();
        let mut now = state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { most, passed, written, over, kept, .. } = &mut *now;
        if let Some(count) = written.get_mut(index) {
            *count += read as u64;
        }
        let room = most.map_or(u64::MAX, |most| most - *passed);
        let fits = usize::try_from(room).unwrap_or(usize::MAX).min(read);
        let was_over = *over;
        let pass_on = if let Some(kept) = kept {
            *over |= kept.push(index, bytes);
            0
        } else {
            *over |= fits < read;
            *passed += fits as u64;
            fits
        };
        let first = *over && !was_over;
        drop(now);
        if first {
            // The run may be over already.
            let _heard = events.send(Event::Over);
        }
        if let Err(error) = sink.write_all(bytes.get(..pass_on).unwrap_or_default()) {
            // ERROR_BROKEN_PIPE, ERROR_NO_DATA: a reader that has left wants no more. The target sees the same, its pipe being closed.
            let left = error.kind() == io::ErrorKind::BrokenPipe || matches!(error.raw_os_error(), Some(109 | 232));
            if !left {
                let name = if index == 0 { "standard output" } else { "standard error" };
                tracing::warn!("cannot pass {name} on: {}", describe(&error));
                state.lock().unwrap_or_else(PoisonError::into_inner).lost = true;
            }
            return;
        }
    }
}

impl Passing {
    /// Waits for the rest, and says what was written. A run that was `ended` keeps nobody for long.
    pub fn finish(self, ended: bool) -> Written {
        for _ in 0..2 {
            let told = if ended { self.done.recv_timeout(PATIENCE).is_ok() } else { self.done.recv().is_ok() };
            if !told {
                break;
            }
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let [stdout, stderr] = state.written;
        Written {
            stdout: Some(stdout),
            stderr: Some(stderr),
            truncated: state.over || state.lost,
            over: state.over,
            too_large: false,
            captured: state.kept.take().map(|kept| kept.bytes),
        }
    }
}
