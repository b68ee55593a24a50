//! The limits of a policy as the numbers of a job object.
//!
//! Plain data: which flags and which fields are set is the same on every system, and tested there.

use crate::policy::Limits;

/// `JOB_OBJECT_LIMIT_…`, from winnt.h.
pub mod flags {
    /// Each job time.
    pub const JOB_TIME: u32 = 0x4;
    /// The number of processes.
    pub const ACTIVE_PROCESS: u32 = 0x8;
    /// Memory of each process.
    pub const PROCESS_MEMORY: u32 = 0x100;
    /// Memory of all.
    pub const JOB_MEMORY: u32 = 0x200;
    /// A crash is an end, and no question on the screen.
    pub const DIE_ON_UNHANDLED_EXCEPTION: u32 = 0x400;
    /// A member may start processes outside: never set.
    pub const BREAKAWAY_OK: u32 = 0x800;
    /// What a member starts is outside: never set.
    pub const SILENT_BREAKAWAY_OK: u32 = 0x1000;
    /// The end of the last handle is the end of all.
    pub const KILL_ON_JOB_CLOSE: u32 = 0x2000;
}

/// `JOB_OBJECT_UILIMIT_…`, all of them: handles of others' windows, reading and writing the clipboard, system parameters, display
/// settings, global atoms, other desktops, ending the session.
pub const UI_RESTRICTIONS: u32 = 0xff;

/// What is set; a field counts when its flag is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// `LimitFlags`.
    pub flags: u32,
    /// `ActiveProcessLimit`.
    pub active_processes: u32,
    /// `ProcessMemoryLimit` in bytes.
    pub process_memory: usize,
    /// `JobMemoryLimit` in bytes.
    pub job_memory: usize,
    /// `PerJobUserTimeLimit` in units of 100 ns.
    pub job_user_time: i64,
}

impl Values {
    /// What a job is told for `limits`. What it has no word for is not among them: that is a gap, or refused.
    #[must_use]
    pub fn of(limits: &Limits) -> Self {
        let Limits {
            memory,
            cpu_time,
            max_procs,
            address_space,
            // The supervisor's.
            timeout: _,
            max_output: _,
            overflow: _,
            // Nobody's.
            max_file_size: _,
            max_open_files: _,
            core: _,
        } = limits;
        let mut values =
            Self { flags: flags::KILL_ON_JOB_CLOSE | flags::DIE_ON_UNHANDLED_EXCEPTION, ..Self::default() };
        if let Some(bytes) = memory {
            values.flags |= flags::JOB_MEMORY;
            values.job_memory = usize::try_from(*bytes).unwrap_or(usize::MAX);
        }
        if let Some(bytes) = address_space {
            values.flags |= flags::PROCESS_MEMORY;
            values.process_memory = usize::try_from(*bytes).unwrap_or(usize::MAX);
        }
        if let Some(number) = max_procs {
            values.flags |= flags::ACTIVE_PROCESS;
            values.active_processes = u32::try_from(*number).unwrap_or(u32::MAX);
        }
        if let Some(seconds) = cpu_time {
            values.flags |= flags::JOB_TIME;
            let units = i64::try_from(*seconds).ok().and_then(|seconds| seconds.checked_mul(10_000_000));
            values.job_user_time = units.unwrap_or(i64::MAX);
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALWAYS: u32 = 0x2400;

    #[test]
    fn exactly_what_was_asked_for_is_set() {
        let limits = |change: fn(&mut Limits)| {
            let mut limits = Limits::default();
            change(&mut limits);
            Values::of(&limits)
        };
        assert_eq!(limits(|_| {}), Values { flags: ALWAYS, ..Values::default() });
        let memory = limits(|limits| limits.memory = Some(64 << 20));
        assert_eq!(memory, Values { flags: ALWAYS | 0x200, job_memory: 64 << 20, ..Values::default() });
        let space = limits(|limits| limits.address_space = Some(3));
        assert_eq!(space, Values { flags: ALWAYS | 0x100, process_memory: 3, ..Values::default() });
        let procs = limits(|limits| limits.max_procs = Some(7));
        assert_eq!(procs, Values { flags: ALWAYS | 0x8, active_processes: 7, ..Values::default() });
        let cpu = limits(|limits| limits.cpu_time = Some(2));
        assert_eq!(cpu, Values { flags: ALWAYS | 0x4, job_user_time: 20_000_000, ..Values::default() });
        let large = limits(|limits| {
            limits.cpu_time = Some(u64::MAX);
            limits.max_procs = Some(u64::MAX);
        });
        assert_eq!((large.job_user_time, large.active_processes), (i64::MAX, u32::MAX));
        let others = limits(|limits| {
            limits.timeout = Some(std::time::Duration::from_secs(1));
            limits.max_output = Some(1);
            limits.max_file_size = Some(1);
            limits.max_open_files = Some(20);
        });
        assert_eq!(others.flags, ALWAYS);
    }

    #[test]
    fn nothing_lets_a_member_leave() {
        let limits = Limits {
            memory: Some(1),
            cpu_time: Some(1),
            max_procs: Some(1),
            address_space: Some(1),
            ..Limits::default()
        };
        assert_eq!(Values::of(&limits).flags & (flags::BREAKAWAY_OK | flags::SILENT_BREAKAWAY_OK), 0);
    }
}
