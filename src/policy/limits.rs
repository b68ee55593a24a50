//! How much the target may use: time, memory, processes, files, output.
//!
//! Numbers only. What a backend counts, and what it does when a number is reached, is the backend's and the stages'.

use std::fmt;
use std::time::Duration;

/// The limits of one run; `None` is no limit of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Wall clock, from the start of the target.
    pub timeout: Option<Duration>,
    /// Memory of the whole tree in bytes, private files in memory included.
    pub memory: Option<u64>,
    /// Processor time in whole seconds.
    pub cpu_time: Option<u64>,
    /// Processes and threads at a time.
    pub max_procs: Option<u64>,
    /// Size of each file that is written, in bytes.
    pub max_file_size: Option<u64>,
    /// Descriptors that each process has open.
    pub max_open_files: Option<u64>,
    /// Address space of each process in bytes.
    pub address_space: Option<u64>,
    /// Size of a core file in bytes.
    pub core: Option<u64>,
    /// Standard output and standard error together, in bytes.
    pub max_output: Option<u64>,
    /// What happens at [`max_output`](Self::max_output).
    pub overflow: OutputOverflow,
}

impl Limits {
    /// The fewest descriptors that a program can be started with.
    pub const MIN_OPEN_FILES: u64 = 16;

    /// The least memory that a sandbox can be started in.
    pub const MIN_MEMORY: u64 = 16 << 20;

    /// The least address space in which a program can be loaded.
    pub const MIN_ADDRESS_SPACE: u64 = 16 << 20;

    /// What [`memory`](Self::memory) can be.
    pub const MEMORY: Floor = Floor::new(Self::MIN_MEMORY, "is less than 16M, the least that a sandbox starts in");

    /// What [`address_space`](Self::address_space) can be.
    pub const ADDRESS_SPACE: Floor =
        Floor::new(Self::MIN_ADDRESS_SPACE, "is less than 16M, the least that a program can be loaded in");

    /// What [`max_open_files`](Self::max_open_files) can be.
    pub const OPEN_FILES: Floor =
        Floor::new(Self::MIN_OPEN_FILES, "is less than 16, the fewest that a program can be started with");

    /// What [`max_procs`](Self::max_procs) can be.
    pub const PROCS: Floor = Floor::new(1, "is less than 1, the command itself");

    /// The number of seconds for [`cpu_time`](Self::cpu_time), or why there is none, to stand behind what was written.
    pub fn cpu_seconds(time: Duration) -> Result<u64, &'static str> {
        if time.subsec_nanos() != 0 {
            return Err("is not a whole number of seconds, in which processor time is counted");
        }
        Floor::new(1, "is less than one second").check(time.as_secs())
    }
}

/// The least that a number can be.
#[derive(Clone, Copy, Debug)]
pub struct Floor {
    least: u64,
    reason: &'static str,
}

impl Floor {
    /// `reason` stands behind a number that is too small.
    #[must_use]
    pub const fn new(least: u64, reason: &'static str) -> Self {
        Self { least, reason }
    }

    /// The least number.
    #[must_use]
    pub const fn least(self) -> u64 {
        self.least
    }

    /// The number, or the reason against it.
    pub fn check(self, number: u64) -> Result<u64, &'static str> {
        if number < self.least { Err(self.reason) } else { Ok(number) }
    }
}

impl Limits {
    /// Each setting by its key, and whether there is one.
    #[must_use]
    pub fn settings(&self) -> [(bool, &'static str); 10] {
        let Self {
            timeout,
            memory,
            cpu_time,
            max_procs,
            max_file_size,
            max_open_files,
            address_space,
            core,
            max_output,
            overflow,
        } = self;
        [
            (timeout.is_some(), "timeout"),
            (memory.is_some(), "memory"),
            (cpu_time.is_some(), "cpu_time"),
            (max_procs.is_some(), "max_procs"),
            (max_file_size.is_some(), "max_file_size"),
            (max_open_files.is_some(), "max_open_files"),
            (address_space.is_some(), "address_space"),
            (core.is_some(), "core"),
            (max_output.is_some(), "max_output"),
            (*overflow != OutputOverflow::default(), "output_overflow"),
        ]
    }
}

/// What happens when the target has written more than it may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputOverflow {
    /// The rest is thrown away, and the target goes on.
    #[default]
    Truncate,
    /// The target is ended.
    Kill,
}

impl OutputOverflow {
    /// Both, in the order of lists shown to people.
    pub const ALL: [Self; 2] = [Self::Truncate, Self::Kill];

    /// The word in options and documents.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Truncate => "truncate",
            Self::Kill => "kill",
        }
    }
}

/// A limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// The wall clock.
    Time,
    /// Standard output and standard error.
    Output,
    /// Memory of the tree.
    Memory,
    /// Processor time.
    Cpu,
    /// The size of a file.
    FileSize,
    /// The number of processes.
    Procs,
}

impl Limit {
    /// All of them, the one that explains an end best first.
    pub const ALL: [Self; 6] = [Self::Time, Self::Output, Self::Memory, Self::Cpu, Self::FileSize, Self::Procs];

    /// What has happened when we ended a run for it.
    #[must_use]
    pub fn reached(self) -> &'static str {
        match self {
            Self::Time => "its time is over (--timeout)",
            Self::Output => "it wrote more than it may (--max-output)",
            Self::Memory => "there was no memory left for it (--memory)",
            Self::Cpu => "its processor time is over (--cpu-time)",
            Self::FileSize => "a file became too large (--max-file-size)",
            Self::Procs => "it had too many processes (--max-procs)",
        }
    }

    /// The word in results.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Time => "timeout",
            Self::Output => "output-limit",
            Self::Memory => "memory-limit",
            Self::Cpu => "cpu-limit",
            Self::FileSize => "file-size-limit",
            Self::Procs => "process-limit",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
