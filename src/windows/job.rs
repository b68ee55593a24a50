//! A job object: made, configured, asked and ended.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
use windows_sys::Win32::System::IO::{CreateIoCompletionPort, GetQueuedCompletionStatus};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, IsProcessInJob, JOBOBJECT_ASSOCIATE_COMPLETION_PORT,
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, JOBOBJECT_BASIC_LIMIT_INFORMATION, JOBOBJECT_BASIC_UI_RESTRICTIONS,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JOBOBJECTINFOCLASS, JobObjectAssociateCompletionPortInformation,
    JobObjectBasicAccountingInformation, JobObjectBasicUIRestrictions, JobObjectExtendedLimitInformation,
    QueryInformationJobObject, SetInformationJobObject, TerminateJobObject,
};
use windows_sys::Win32::System::Threading::GetCurrentProcess;
use windows_sys::core::BOOL;

use super::limits::Values;
use crate::policy::limits::Limit;
use crate::sys::process::Usage;

/// The status of a process that we ended: a number that no program is likely to choose.
pub const ENDED: u32 = 0xE053_5221;

/// The status that the system gives to a process that reached the limit of processor time: `ERROR_NOT_ENOUGH_QUOTA`.
pub const OUT_OF_TIME: u32 = 1816;

/// How long the members of a job that was ended may take to be gone.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether this process is in somebody's job.
pub fn are_inside_one() -> io::Result<bool> {
    // SAFETY: takes nothing and cannot fail.
    let us = unsafe { GetCurrentProcess() };
    let mut held: BOOL = 0;
    // SAFETY: the process is this one, without a job any job is meant, and `held` is writable.
    let done = unsafe { IsProcessInJob(us, ptr::null_mut(), &raw mut held) };
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(held != 0) }
}

/// A job without a name; dropping it ends everything in it, once the limits are set.
#[derive(Debug)]
pub struct Job {
    handle: OwnedHandle,
    /// Where the system tells of limits that were reached; a machine that has no such place tells nothing.
    port: Option<OwnedHandle>,
}

impl Job {
    /// Makes one.
    pub fn new() -> io::Result<Self> {
        // SAFETY: both pointers may be null: the default security, with which the handle is not inherited, and no name.
        let raw = unsafe { CreateJobObjectW(ptr::null(), ptr::null()) };
        if raw.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just made it, and nobody else has it.
        let handle = unsafe { OwnedHandle::from_raw_handle(raw) };
        let mut job = Self { handle, port: None };
        job.port = job.listen().ok();
        Ok(job)
    }

    /// Makes a place for messages.
    fn listen(&self) -> io::Result<OwnedHandle> {
        // SAFETY: no file and no port to begin with, as the documentation has it for a new port.
        let raw = unsafe { CreateIoCompletionPort(INVALID_HANDLE_VALUE, ptr::null_mut(), 0, 1) };
        if raw.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just made it, and nobody else has it.
        let port = unsafe { OwnedHandle::from_raw_handle(raw) };
        let told = JOBOBJECT_ASSOCIATE_COMPLETION_PORT {
            CompletionKey: ptr::null_mut(),
            CompletionPort: port.as_raw_handle(),
        };
        self.set(JobObjectAssociateCompletionPortInformation, &told)?;
        Ok(port)
    }

    fn set<T>(&self, class: JOBOBJECTINFOCLASS, value: &T) -> io::Result<()> {
        let size = u32::try_from(size_of::<T>()).map_err(io::Error::other)?;
        // SAFETY: `value` is readable for its size, and each caller gives the structure that belongs to the class.
        let done =
            unsafe { SetInformationJobObject(self.handle.as_raw_handle(), class, ptr::from_ref(value).cast(), size) };
        if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn ask<T: Default>(&self, class: JOBOBJECTINFOCLASS) -> io::Result<T> {
        let mut value = T::default();
        let size = u32::try_from(size_of::<T>()).map_err(io::Error::other)?;
        // SAFETY: `value` is writable for its size, any bytes are a value of these structures of numbers, and each caller asks for
        // the structure that belongs to the class.
        let done = unsafe {
            QueryInformationJobObject(
                self.handle.as_raw_handle(),
                class,
                ptr::from_mut(&mut value).cast(),
                size,
                ptr::null_mut(),
            )
        };
        if done == 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
    }

    /// Sets its limits.
    pub fn limit(&self, values: &Values) -> io::Result<()> {
        let Values { flags, active_processes, process_memory, job_memory, job_user_time } = *values;
        let limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION {
            BasicLimitInformation: JOBOBJECT_BASIC_LIMIT_INFORMATION {
                LimitFlags: flags,
                ActiveProcessLimit: active_processes,
                PerJobUserTimeLimit: job_user_time,
                ..Default::default()
            },
            ProcessMemoryLimit: process_memory,
            JobMemoryLimit: job_memory,
            ..Default::default()
        };
        self.set(JobObjectExtendedLimitInformation, &limits)
    }

    /// Sets what its members may not do to the desktop.
    pub fn restrict(&self, restrictions: u32) -> io::Result<()> {
        let restrictions = JOBOBJECT_BASIC_UI_RESTRICTIONS { UIRestrictionsClass: restrictions };
        self.set(JobObjectBasicUIRestrictions, &restrictions)
    }

    /// Takes a process in.
    pub fn take(&self, process: &OwnedHandle) -> io::Result<()> {
        // SAFETY: both handles are open as long as their owners are.
        let done = unsafe { AssignProcessToJobObject(self.handle.as_raw_handle(), process.as_raw_handle()) };
        if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Whether a process is a member.
    pub fn holds(&self, process: &OwnedHandle) -> io::Result<bool> {
        let mut held: BOOL = 0;
        // SAFETY: both handles are open as long as their owners are, and `held` is writable.
        let done = unsafe { IsProcessInJob(process.as_raw_handle(), self.handle.as_raw_handle(), &raw mut held) };
        if done == 0 { Err(io::Error::last_os_error()) } else { Ok(held != 0) }
    }

    /// The handle, to start a process with.
    #[must_use]
    pub fn handle(&self) -> &OwnedHandle {
        &self.handle
    }

    /// Ends every member, and waits until they are gone.
    pub fn end(&self) -> io::Result<()> {
        // SAFETY: the handle is open, and the status is a number.
        let done = unsafe { TerminateJobObject(self.handle.as_raw_handle(), ENDED) };
        if done == 0 {
            return Err(io::Error::last_os_error());
        }
        let start = Instant::now();
        while self.accounts()?.ActiveProcesses > 0 {
            if start.elapsed() > PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn accounts(&self) -> io::Result<JOBOBJECT_BASIC_ACCOUNTING_INFORMATION> {
        self.ask(JobObjectBasicAccountingInformation)
    }

    /// What all members have used so far.
    pub fn usage(&self) -> io::Result<Usage> {
        let accounts = self.accounts()?;
        let limits: JOBOBJECT_EXTENDED_LIMIT_INFORMATION = self.ask(JobObjectExtendedLimitInformation)?;
        // In units of 100 ns.
        let time = |units: i64| Duration::from_nanos(u64::try_from(units).unwrap_or(0).saturating_mul(100));
        Ok(Usage {
            user: time(accounts.TotalUserTime),
            system: time(accounts.TotalKernelTime),
            max_rss_kib: limits.PeakJobMemoryUsed as u64 / 1024,
        })
    }

    /// The limits that the system told of as reached so far.
    #[must_use]
    pub fn reached(&self) -> BTreeSet<Limit> {
        let mut reached = BTreeSet::new();
        let Some(port) = &self.port else { return reached };
        loop {
            let (mut message, mut key, mut about) = (0, 0, ptr::null_mut());
            // SAFETY: the port is open, and the three places are writable; with no time to wait the call returns at once. For a job
            // the third is a number and never followed.
            let more = unsafe {
                GetQueuedCompletionStatus(port.as_raw_handle(), &raw mut message, &raw mut key, &raw mut about, 0)
            };
            if more == 0 {
                return reached;
            }
            // JOB_OBJECT_MSG_…, from winnt.h.
            match message {
                1 => reached.insert(Limit::Cpu),
                3 => reached.insert(Limit::Procs),
                9 | 10 => reached.insert(Limit::Memory),
                _ => false,
            };
        }
    }
}
