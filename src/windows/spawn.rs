//! Starting a process: halted, inside a job, with three handles and no other.
#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;

use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::System::Threading::{
    CREATE_NEW_PROCESS_GROUP, CREATE_SUSPENDED, CREATE_UNICODE_ENVIRONMENT, CreateProcessW,
    DeleteProcThreadAttributeList, EXTENDED_STARTUPINFO_PRESENT, GetExitCodeProcess, INFINITE,
    InitializeProcThreadAttributeList, LPPROC_THREAD_ATTRIBUTE_LIST, PROC_THREAD_ATTRIBUTE_HANDLE_LIST,
    PROC_THREAD_ATTRIBUTE_JOB_LIST, PROCESS_INFORMATION, ResumeThread, STARTF_USESTDHANDLES, STARTUPINFOEXW,
    TerminateProcess, UpdateProcThreadAttribute, WaitForSingleObject,
};

use super::begin::System;
use super::job::{ENDED, Job};
use super::limits::Values;

/// What a process is started with.
#[derive(Debug)]
pub struct Start {
    /// The program's file, with its final NUL.
    pub program: Vec<u16>,
    /// Its command line, with its final NUL.
    pub command_line: Vec<u16>,
    /// Its variables, each with its final NUL, and one more at the end.
    pub environment: Vec<u16>,
    /// Where it starts, with a final NUL.
    pub directory: Vec<u16>,
    /// The three standard streams, which can be inherited.
    pub streams: [OwnedHandle; 3],
    /// Whether it gets a process group of its own, which the keys of the console do not reach.
    pub group: bool,
}

/// A process of ours. Dropping it leaves it to its job.
#[derive(Debug)]
pub struct Process {
    handle: OwnedHandle,
    thread: OwnedHandle,
    /// Its number, and that of its group if it has one.
    pub id: u32,
}

impl Process {
    /// The handle, to wait for it in another thread.
    pub fn handle(&self) -> io::Result<OwnedHandle> {
        self.handle.try_clone()
    }

    /// Its status, once it has ended.
    pub fn status(&self) -> io::Result<u32> {
        let mut status = 0;
        // SAFETY: the handle is open, and `status` is writable.
        let done = unsafe { GetExitCodeProcess(self.handle.as_raw_handle(), &raw mut status) };
        if done == 0 { Err(io::Error::last_os_error()) } else { Ok(status) }
    }
}

/// Waits until the process of this handle has ended.
pub fn wait(process: &OwnedHandle) {
    // SAFETY: the handle is open for as long as it is borrowed. Whatever it answers, there is nothing more to wait for.
    let _answer = unsafe { WaitForSingleObject(process.as_raw_handle(), INFINITE) };
}

/// Text as the system takes it, with a final NUL; `None` if it has one inside.
#[must_use]
pub fn wide(text: &OsStr) -> Option<Vec<u16>> {
    let units: Vec<u16> = text.encode_wide().chain([0]).collect();
    (units.iter().position(|unit| *unit == 0) == Some(units.len() - 1)).then_some(units)
}

/// Attributes of a process to be, and what they point at.
struct Attributes<'a> {
    /// In words, which is how it has to lie.
    list: Vec<usize>,
    /// The list holds pointers to these.
    _values: &'a [HANDLE],
}

impl<'a> Attributes<'a> {
    fn new(most: u32, values: &'a [HANDLE]) -> io::Result<Self> {
        let mut size = 0;
        // SAFETY: without a list the call only says how large one has to be.
        let _size = unsafe { InitializeProcThreadAttributeList(ptr::null_mut(), most, 0, &raw mut size) };
        let mut list = vec![0_usize; size.div_ceil(size_of::<usize>()).max(1)];
        // SAFETY: the list has the size that was asked for.
        let done = unsafe { InitializeProcThreadAttributeList(list.as_mut_ptr().cast(), most, 0, &raw mut size) };
        if done == 0 { Err(io::Error::last_os_error()) } else { Ok(Self { list, _values: values }) }
    }

    fn pointer(&mut self) -> LPPROC_THREAD_ATTRIBUTE_LIST {
        self.list.as_mut_ptr().cast()
    }

    /// Adds an attribute whose value is a list of handles, a part of the values.
    fn add(&mut self, attribute: u32, handles: &'a [HANDLE]) -> io::Result<()> {
        // SAFETY: the list was initialised, and the handles live as long as it: both have the same lifetime.
        let done = unsafe {
            UpdateProcThreadAttribute(
                self.pointer(),
                0,
                attribute as usize,
                handles.as_ptr().cast(),
                size_of_val(handles),
                ptr::null_mut(),
                ptr::null(),
            )
        };
        if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Drop for Attributes<'_> {
    fn drop(&mut self) {
        // SAFETY: `new` has initialised it, and it is used no more.
        unsafe { DeleteProcThreadAttributeList(self.pointer()) };
    }
}

impl Start {
    /// Makes a halted process, inside `job` if that is given.
    fn create(&self, job: Option<&Job>) -> io::Result<Process> {
        let [stdin, stdout, stderr] = self.streams.each_ref().map(AsRawHandle::as_raw_handle);
        let mut values = vec![stdin, stdout, stderr];
        values.extend(job.map(|job| job.handle().as_raw_handle()));
        let (streams, jobs) = values.split_at(3);
        let mut attributes = Attributes::new(2, &values)?;
        attributes.add(PROC_THREAD_ATTRIBUTE_HANDLE_LIST, streams)?;
        if !jobs.is_empty() {
            attributes.add(PROC_THREAD_ATTRIBUTE_JOB_LIST, jobs)?;
        }
        let mut startup = STARTUPINFOEXW::default();
        startup.StartupInfo.cb = u32::try_from(size_of::<STARTUPINFOEXW>()).map_err(io::Error::other)?;
        startup.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
        startup.StartupInfo.hStdInput = stdin;
        startup.StartupInfo.hStdOutput = stdout;
        startup.StartupInfo.hStdError = stderr;
        startup.lpAttributeList = attributes.pointer();
        let group = if self.group { CREATE_NEW_PROCESS_GROUP } else { 0 };
        let flags = CREATE_SUSPENDED | CREATE_UNICODE_ENVIRONMENT | EXTENDED_STARTUPINFO_PRESENT | group;
        // The call may write to it.
        let mut command_line = self.command_line.clone();
        let mut made = PROCESS_INFORMATION::default();
        // SAFETY: each text ends with a NUL, the block of variables with two; the startup information is the extended one, as `cb` and
        // the flags say, and its list of attributes is alive; all handles in it are open, and `made` is writable.
        let done = unsafe {
            CreateProcessW(
                self.program.as_ptr(),
                command_line.as_mut_ptr(),
                ptr::null(),
                ptr::null(),
                1,
                flags,
                self.environment.as_ptr().cast(),
                self.directory.as_ptr(),
                &raw const startup.StartupInfo,
                &raw mut made,
            )
        };
        if done == 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just opened it for us.
        let handle = unsafe { OwnedHandle::from_raw_handle(made.hProcess) };
        // SAFETY: as above.
        let thread = unsafe { OwnedHandle::from_raw_handle(made.hThread) };
        Ok(Process { handle, thread, id: made.dwProcessId })
    }
}

/// What systems answer that know no job in the list of attributes: `ERROR_NOT_SUPPORTED`, `ERROR_INVALID_PARAMETER`.
const UNKNOWN: [i32; 2] = [50, 87];

impl System for Start {
    type Job = Job;
    type Process = Process;
    type Error = io::Error;

    fn job(&self) -> io::Result<Job> {
        Job::new()
    }

    fn limit(&self, job: &Job, values: &Values) -> io::Result<()> {
        job.limit(values)
    }

    fn restrict(&self, job: &Job, restrictions: u32) -> io::Result<()> {
        job.restrict(restrictions)
    }

    fn born(&self, job: &Job) -> io::Result<Option<Process>> {
        match self.create(Some(job)) {
            Ok(process) => Ok(Some(process)),
            Err(error) if error.raw_os_error().is_some_and(|code| UNKNOWN.contains(&code)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn halted(&self) -> io::Result<Process> {
        self.create(None)
    }

    fn take(&self, job: &Job, process: &Process) -> io::Result<()> {
        job.take(&process.handle)
    }

    fn holds(&self, job: &Job, process: &Process) -> io::Result<bool> {
        job.holds(&process.handle)
    }

    fn resume(&self, process: &Process) -> io::Result<()> {
        // SAFETY: the handle is open, and the thread halted by its creation.
        let before = unsafe { ResumeThread(process.thread.as_raw_handle()) };
        if before == u32::MAX { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn end(&self, process: &Process) {
        // SAFETY: the handle is open. It was never let go on, so that a failure leaves a process that does nothing.
        let _done = unsafe { TerminateProcess(process.handle.as_raw_handle(), ENDED) };
    }
}
