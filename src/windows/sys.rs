//! What the shared modules ask of a system, as this one answers it: the same names and signatures as `sys` of Unix.

/// Descriptors, which have no numbers here.
pub mod fd {
    use std::os::windows::io::OwnedHandle;

    /// Takes a descriptor over: there is none.
    #[must_use]
    pub fn adopt(_: i32) -> Option<OwnedHandle> {
        None
    }
}

/// Processes, and the words for errors.
pub mod process {
    use std::io;
    use std::time::Duration;

    /// An error number in the manner of our messages.
    #[must_use]
    pub fn reason(code: i32) -> String {
        let text = match code {
            2 => "no such file",
            3 => "no such directory",
            5 => "permission denied",
            6 => "not open",
            // What the system says of these has a place for a name in it.
            193 | 216 => "not a program of this system",
            740 => "it asks for the rights of an administrator",
            _ => "",
        };
        if !text.is_empty() {
            return text.to_owned();
        }
        let told = io::Error::from_raw_os_error(code).to_string();
        let told = told.split(" (os error ").next().unwrap_or_default().trim_end_matches('.');
        let mut chars = told.chars();
        let text = chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect());
        if text.is_empty() { format!("error {code}") } else { text }
    }

    /// An input/output error in the same manner.
    #[must_use]
    pub fn describe(error: &io::Error) -> String {
        error.raw_os_error().map_or_else(|| error.to_string(), reason)
    }

    /// What the processes of a job have used.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Usage {
        /// Processor time in user mode.
        pub user: Duration,
        /// Processor time in the kernel.
        pub system: Duration,
        /// The most memory that all together had committed, in KiB.
        pub max_rss_kib: u64,
    }
}

/// The three standard streams of this process.
pub mod streams {
    use std::io::{self, Write};
    use std::time::Duration;

    /// What reading or writing a stream gives that is not open.
    #[must_use]
    pub fn not_open() -> io::Error {
        // ERROR_INVALID_HANDLE
        io::Error::from_raw_os_error(6)
    }

    /// Writes to standard error. Nothing here ends a wait for its reader.
    pub fn write_error(bytes: &[u8], _: Duration) -> io::Result<usize> {
        io::stderr().write(bytes)
    }
}
