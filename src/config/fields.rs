//! One table of the keys of a document: what each takes, what holds without it, what it means, what backends do with it.
//!
//! Manual page, JSON schema and suggestions come from it; a test holds it against the type that is read. A text promises
//! behaviour: it changes with the code that keeps the promise.

mod container;
mod jobobject;
mod near;

use crate::backend::Backend;
use crate::policy::Protection;
use crate::policy::hidden::Overflow;
use crate::policy::limits::{Limits, OutputOverflow};
use crate::policy::units::Size;

use super::document::{AUTO, SESSIONS};

pub use near::{is_slip_of, nearest, remark};

/// What a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A whole number, and the least that it can be.
    Count(u64),
    /// A number of bytes, or text with a unit, and the least that it can be.
    Size(u64),
    /// Text with a unit.
    Duration,
    /// Text with a unit that comes to whole seconds, at least one.
    Seconds,
    /// A path.
    Path,
    /// The name of a container image.
    Image,
    /// A list of paths.
    Paths,
    /// A list of names of profiles.
    Profiles,
    /// A list of names of variables.
    VariableNames,
    /// A list of names that begin with a dot, or `*`.
    HiddenNames,
    /// A list of words about variables.
    Variables,
    /// A table of text by variable.
    Values,
    /// A list of numbers of at least 3.
    Descriptors,
    /// Backends in one string, separated by commas.
    Backends,
    /// A list of protections.
    Protections,
    /// `error`, `warn` or `unlimited`.
    Overflow,
    /// `truncate` or `kill`.
    OutputOverflow,
    /// `auto`, `always` or `never`.
    Session,
}

impl Kind {
    /// The type as people say it.
    #[must_use]
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Boolean => "true or false",
            Self::Count(_) => "positive integer",
            Self::Size(_) => "integer, or string with K, M, G or T",
            Self::Duration | Self::Seconds => "string with ms, s, m or h",
            Self::Path => "path",
            Self::Image => "name of an image",
            Self::Paths => "list of paths",
            Self::Profiles | Self::VariableNames => "list of names",
            Self::HiddenNames => "list of names that begin with a dot",
            Self::Variables => "list of words",
            Self::Values => "table of strings",
            Self::Descriptors => "list of integers from 3",
            Self::Backends => "string, a comma list",
            Self::Protections => "list of protections",
            Self::Overflow | Self::OutputOverflow | Self::Session => "one of the words below",
        }
    }

    /// The words to choose from, where there is a fixed set of them.
    #[must_use]
    pub fn words(self) -> Vec<&'static str> {
        match self {
            Self::Backends => [AUTO].into_iter().chain(Backend::ALL.map(Backend::word)).collect(),
            Self::Protections => Protection::ALL.map(Protection::word).to_vec(),
            Self::Overflow => Overflow::ALL.map(Overflow::word).to_vec(),
            Self::OutputOverflow => OutputOverflow::ALL.map(OutputOverflow::word).to_vec(),
            Self::Session => SESSIONS.map(|(word, _)| word).to_vec(),
            Self::Boolean
            | Self::Count(_)
            | Self::Size(_)
            | Self::Duration
            | Self::Seconds
            | Self::Path
            | Self::Image
            | Self::Paths
            | Self::Profiles
            | Self::VariableNames
            | Self::HiddenNames
            | Self::Variables
            | Self::Values
            | Self::Descriptors => Vec::new(),
        }
    }
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name.
    pub key: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What holds when no source has the key.
    pub default: &'static str,
    /// What its numbers count; empty when it has none.
    pub unit: &'static str,
    /// What it means, one paragraph.
    pub about: &'static str,
    /// What bubblewrap does with it.
    bwrap: &'static str,
    /// What Landlock does with it.
    landlock: &'static str,
    /// What Seatbelt does with it.
    seatbelt: &'static str,
    /// What the backend without isolation does with it.
    none: &'static str,
    /// Other words that people write for it: of options, of other programs.
    guesses: &'static [&'static str],
}

impl Field {
    /// What a backend does with the key.
    #[must_use]
    pub fn does(&self, backend: Backend) -> &'static str {
        match backend {
            Backend::Bwrap => self.bwrap,
            Backend::Landlock => self.landlock,
            Backend::Seatbelt => self.seatbelt,
            Backend::Container(_) => container::does(self.key).unwrap_or(self.bwrap),
            Backend::JobObject => jobobject::does(self.key).unwrap_or(self.none),
            Backend::None => self.none,
        }
    }
}

const NOT_FILES: &str = "refused, unless allow_gaps has files-read and files-write; then without effect.";
const NOT_WRITES: &str = "refused, unless allow_gaps has files-write; then without effect.";
const NOT_MASKS: &str = "refused, unless allow_gaps has masks; then without effect.";
const NOT_SOCKETS: &str = "refused, unless allow_gaps has sockets; then without effect.";
const NO_SCAN: &str = "without effect: nothing is scanned.";
const SAME: &str = "the same.";
const SCANS: &str = "scans before the start.";
const FOUND: &str = "ends the processes that can be found.";
const PER_PROCESS: &str = "sets the resource limit of each process.";

/// Every key, in the order in which documents are written.
pub const FIELDS: [Field; 40] = [
    Field {
        key: "extends",
        kind: Kind::Profiles,
        default: "none",
        unit: "",
        about: "Profiles beneath this document, lowest first, by the names that --profile takes. What the document says \
            is laid over them: its single settings win, its lists add. A profile can extend others, but not itself.",
        bwrap: "sees the merged policy only.",
        landlock: SAME,
        seatbelt: SAME,
        none: SAME,
        guesses: &["profile", "profiles", "extend", "inherits", "base", "include"],
    },
    Field {
        key: "backend_type",
        kind: Kind::Backends,
        default: "auto",
        unit: "",
        about: "Backends to try, as with --backend: the first that starts the command under the whole policy is used. auto \
            stands for those of this platform that enforce everything, and never for no sandbox.",
        bwrap: "tried where the list has it; bubblewrap and linux_bwrap mean the same.",
        landlock: "tried where the list has it.",
        seatbelt: "tried where the list has it, on macOS; sandbox-exec and darwin_seatbelt mean the same.",
        none: "tried only where the list has it in so many words; native and direct mean the same.",
        guesses: &["backend", "backends", "sandbox", "sandbox_backend", "sandbox_type", "type"],
    },
    Field {
        key: "image",
        kind: Kind::Image,
        default: "none",
        unit: "",
        about: "The image in which the container backend starts the command, as with --image: a name that the engine knows, \
            best with its digest.",
        bwrap: "without effect.",
        landlock: SAME,
        seatbelt: "without effect.",
        none: "without effect.",
        guesses: &["container_image", "docker_image", "container"],
    },
    Field {
        key: "allow_gaps",
        kind: Kind::Protections,
        default: "none",
        unit: "",
        about: "Protections that may be missing. Without this, one that is needed and cannot be enforced is an error.",
        bwrap: "starts without them where this host cannot give them; 'processes' shows the host's /proc if no new one can \
            be mounted.",
        landlock: "starts without them where they cannot be had, and does without the measures that stand for them: with 'processes' \
            the host's /proc can be read, with 'sockets' Unix sockets work, with 'files-write' the one around it decides about mode, owner and \
             times of files, if there is one.",
        seatbelt: "starts without them where they are absent: memory and procs.",
        none: "starts although these, asked for in so many words, are not enforced.",
        guesses: &["allow_gap", "gaps", "accepted_gaps", "accept_gaps"],
    },
    Field {
        key: "read_roots",
        kind: Kind::Paths,
        default: "none",
        unit: "",
        about: "Files and directories that are visible at their own place and read-only, as with --read. A missing path is an \
            error. Inside a write grant they stay read-only.",
        bwrap: "mounts each read-only. A socket or FIFO inside can still be used.",
        landlock: "lets each be read and executed. A socket or FIFO inside cannot be used.",
        seatbelt: "lets each be read and executed. A socket inside cannot be connected to.",
        none: NOT_FILES,
        guesses: &["read", "reads", "read_paths", "read_only", "readable_roots", "allow_read", "readonly_paths"],
    },
    Field {
        key: "read_roots_optional",
        kind: Kind::Paths,
        default: "none",
        unit: "",
        about: "Like read_roots, but a path that does not exist is left out, as with --read-try.",
        bwrap: "mounts what exists.",
        landlock: "lets what exists be read.",
        seatbelt: "lets what exists be read and executed.",
        none: NOT_FILES,
        guesses: &["read_try", "optional_read_roots", "read_optional"],
    },
    Field {
        key: "write_roots",
        kind: Kind::Paths,
        default: "none",
        unit: "",
        about: "Files and directories that are visible and writable, as with --write; what is written stays on the host. A \
            missing path is an error; write_roots_create makes it. \".\" is the working directory, which is read-only \
            otherwise.",
        bwrap: "mounts each writable. Known places of secrets below them stay hidden.",
        landlock: "lets each be read and written. A hidden name or a protect inside is a gap.",
        seatbelt: "lets each be written, and keeps its name. Known places of secrets below them stay hidden.",
        none: NOT_FILES,
        guesses: &["write", "writes", "write_paths", "writable_roots", "writable", "allow_write"],
    },
    Field {
        key: "write_roots_create",
        kind: Kind::Paths,
        default: "none",
        unit: "",
        about: "Like write_roots, but a path that does not exist is made a directory, with its parents, as with --write and \
            --create-missing; it stays on the host once the command has started.",
        bwrap: "makes what is missing before the start, and mounts each writable.",
        landlock: "makes what is missing before the start, and lets each be written.",
        seatbelt: "makes what is missing before the start, and lets each be written.",
        none: "refused, unless allow_gaps has files-read and files-write; then makes what is missing.",
        guesses: &["write_create", "create_write_roots", "create_roots", "write_roots_missing"],
    },
    Field {
        key: "write_roots_optional",
        kind: Kind::Paths,
        default: "none",
        unit: "",
        about: "Like write_roots, but a path that does not exist is left out and never made, as with --write-try.",
        bwrap: "mounts what exists.",
        landlock: "lets what exists be written.",
        seatbelt: "lets what exists be written.",
        none: NOT_FILES,
        guesses: &["write_try", "optional_write_roots", "write_optional"],
    },
    Field {
        key: "write_files",
        kind: Kind::Paths,
        default: "none",
        unit: "",
        about: "Single files that can be written in place; a directory or a missing file is an error. A program that saves by \
            renaming needs its directory in write_roots instead.",
        bwrap: "mounts each writable.",
        landlock: "lets the file be written that is there at the start; another one by its name is out of reach.",
        seatbelt: "lets each be written in place, and keeps its name.",
        none: NOT_FILES,
        guesses: &["write_file", "writable_files"],
    },
    Field {
        key: "create_missing",
        kind: Kind::Boolean,
        default: "false",
        unit: "",
        about: "A short form: true treats every path in write_roots of the same document as one of write_roots_create. The \
            other lists mean the same either way.",
        bwrap: "makes what is missing before the start.",
        landlock: SAME,
        seatbelt: "makes what is missing before the start.",
        none: "makes what is missing before the start.",
        guesses: &["create", "mkdir", "create_dirs"],
    },
    Field {
        key: "mask_paths",
        kind: Kind::Paths,
        default: "none",
        unit: "",
        about: "Paths that must not be visible, as with --mask: an empty file or directory stands in the place of each. A \
            missing path is noted with -v and otherwise ignored. No later source takes one away again.",
        bwrap: "covers what exists at the start; a file that the host puts in its place later is seen.",
        landlock: "leaves them out of what can be read; their names can be seen. Refused inside write grants, unless allow_gaps has masks.",
        seatbelt: "denies each, under its name in either case, and keeps the names of the directories above it; listings show the name.",
        none: NOT_MASKS,
        guesses: &[
            "mask",
            "masks",
            "masked_paths",
            "hide",
            "hidden_paths",
            "deny_read",
            "deny_paths",
            "denied_paths",
            "credential_source_paths",
            "credential_paths",
        ],
    },
    Field {
        key: "protect_paths",
        kind: Kind::Paths,
        default: "none",
        unit: "",
        about: "Paths inside write grants that must not be written, as with --protect; they can be read, and neither replaced \
            nor renamed away. A missing path is no error: where the command can make it, a warning at the end says that it did. No later source \
            takes one away again.",
        bwrap: "mounts each read-only and holds the directories above it in place.",
        landlock: "refused, unless allow_gaps has files-write; then without effect.",
        seatbelt: "denies writing to each, and keeps the names of the directories above it.",
        none: NOT_WRITES,
        guesses: &["protect", "protects", "protected_paths", "deny_write", "read_only_paths"],
    },
    Field {
        key: "allow_unix_socket_paths",
        kind: Kind::Paths,
        default: "none",
        unit: "",
        about: "Unix sockets that can be connected to, as with --allow-socket, with the caller's variables that lead to them. A path that \
            is missing or no socket is an error.",
        bwrap: "mounts each; the sockets of the host are out of sight otherwise.",
        landlock: "lets each be connected to; refused before Landlock ABI 9, unless allow_gaps has sockets.",
        seatbelt: "lets each be connected to.",
        none: NOT_SOCKETS,
        guesses: &["allow_socket", "allow_sockets", "allow_unix_sockets", "sockets", "unix_sockets"],
    },
    Field {
        key: "deny_unix_socket_paths",
        kind: Kind::Paths,
        default: "none",
        unit: "",
        about: "Unix sockets that must not be connected to although a grant shows them, as with --deny-socket. A missing path \
            is noted and otherwise ignored. No later source takes one away again.",
        bwrap: "covers each with an empty file.",
        landlock: "without effect before Landlock ABI 9, when there are no Unix sockets; refused inside write grants after that, unless \
            allow_gaps has sockets.",
        seatbelt: "denies each.",
        none: NOT_SOCKETS,
        guesses: &["deny_socket", "deny_sockets", "deny_unix_sockets"],
    },
    Field {
        key: "cwd_allow_hidden",
        kind: Kind::HiddenNames,
        default: "the default list below",
        unit: "",
        about: "Names that begin with a dot and stay visible below the working directory and grants: every other such name is \
            masked, and a directory that cannot be listed is masked as a whole. \"default\" in the list stands for the names of \
            the default list, \"all-but-secrets\" for all names but those of well-known secrets, \"*\" for all names, and then nothing \
            is scanned; the widest word counts, and an empty list hides every name. With the default list a file that git tracks stays \
            visible as long as git has its very content, and well-known secrets never do, unless they are listed; a list without any \
            of these words counts alone. A later source replaces the list, and --show-hidden adds to it.",
        bwrap: "covers what the scan finds at the start.",
        landlock: "leaves out what the scan finds at the start. Refused inside write grants, unless allow_gaps has masks.",
        seatbelt: "denies what the scan finds at the start; listings show the names.",
        none: NOT_MASKS,
        guesses: &["show_hidden", "allow_hidden", "allow_dotfiles", "visible_hidden"],
    },
    Field {
        key: "cwd_hidden_scan_max_entries",
        kind: Kind::Count(1),
        default: "500000",
        unit: "directory entries",
        about: "The most entries that the scan for hidden names looks at, as with --hidden-scan-max. Directories of dependencies come last.",
        bwrap: SCANS,
        landlock: SCANS,
        seatbelt: SCANS,
        none: NO_SCAN,
        guesses: &["hidden_scan_max", "hidden_max", "hidden_scan_max_entries", "max_entries"],
    },
    Field {
        key: "cwd_hidden_scan_overflow",
        kind: Kind::Overflow,
        default: "error",
        unit: "",
        about: "What happens when the scan for hidden names reaches its limit, as with --hidden-scan-overflow: error refuses to \
            start, warn starts with what was found, unlimited goes on.",
        bwrap: SCANS,
        landlock: SCANS,
        seatbelt: SCANS,
        none: NO_SCAN,
        guesses: &["hidden_scan_overflow", "hidden_overflow", "overflow"],
    },
    Field {
        key: "cwd_hidden_scan_recursive",
        kind: Kind::Boolean,
        default: "true",
        unit: "",
        about: "Whether the scan for hidden names goes into directories below the top of each place.",
        bwrap: SCANS,
        landlock: SCANS,
        seatbelt: SCANS,
        none: NO_SCAN,
        guesses: &["hidden_scan_recursive", "hidden_recursive", "recursive"],
    },
    Field {
        key: "workdir",
        kind: Kind::Path,
        default: "the caller's",
        unit: "",
        about: "The directory in which the command starts, as with --workdir, and the one that relative paths begin in.",
        bwrap: "shows it read-only, unless a grant says more, and starts there.",
        landlock: "lets it be read, unless a grant says more, and starts there.",
        seatbelt: "lets it be read, unless a grant says more, and starts there.",
        none: "starts there.",
        guesses: &["cwd", "chdir", "working_dir", "working_directory", "work_dir", "dir"],
    },
    Field {
        key: "tmp_size",
        kind: Kind::Size(Size::PAGE.least()),
        default: "1G",
        unit: "bytes",
        about: "The size of each private directory in memory (/tmp, HOME, /dev/shm, /var/tmp where that is another one), as with \
            --tmp-size; at least one page (4K). K, M, G and T are powers of 1024. It bounds bytes, not the number of files.",
        bwrap: "bounds each; needs a bubblewrap with --size (0.7.0).",
        landlock: NOT_WRITES,
        seatbelt: "refused: private directories are on the disk, and unbounded.",
        none: NOT_WRITES,
        guesses: &["tmpfs_size", "tmp", "tmp_limit", "tmpdir_size"],
    },
    Field {
        key: "allow_network",
        kind: Kind::Boolean,
        default: "false",
        unit: "",
        about: "Whether the command has the network of the host. Otherwise it has a loopback interface of its own, and nothing \
            else.",
        bwrap: "makes a network namespace unless it is true.",
        landlock: "refuses sockets of the network unless it is true; there is no loopback interface either.",
        seatbelt: "lets addresses be reached when it is true; when it is false there is no loopback either.",
        none: "false is refused, unless allow_gaps has network.",
        guesses: &["network", "net", "allow_net", "network_access", "internet"],
    },
    Field {
        key: "env_default",
        kind: Kind::Boolean,
        default: "true",
        unit: "",
        about: "Whether the variables of the default list pass; false starts from nothing, as --no-default-env does.",
        bwrap: "the command gets exactly the variables that pass or are set.",
        landlock: SAME,
        seatbelt: SAME,
        none: SAME,
        guesses: &["default_env", "env_defaults"],
    },
    Field {
        key: "env",
        kind: Kind::Variables,
        default: "none",
        unit: "",
        about: "Words as with --env: NAME passes the caller's value, PREFIX_* passes every variable whose name begins so, but \
            for secret-looking ones, NAME=VALUE sets one. The last word about a name counts.",
        bwrap: "the command gets exactly the variables that pass or are set.",
        landlock: SAME,
        seatbelt: SAME,
        none: SAME,
        guesses: &["pass_env", "environment", "allow_env", "env_allow", "vars"],
    },
    Field {
        key: "env_set",
        kind: Kind::Values,
        default: "none",
        unit: "",
        about: "Values of variables by name, laid over env. In TOML either lines such as env_set.NAME = \"value\", or a section \
            [env_set] at the end of the file: every line below it belongs to it.",
        bwrap: "sets them; the values are in no argument list.",
        landlock: SAME,
        seatbelt: SAME,
        none: SAME,
        guesses: &["setenv", "set_env", "env_vars", "env_values", "variables"],
    },
    Field {
        key: "spawn_env_allowlist",
        kind: Kind::VariableNames,
        default: "the default list",
        unit: "",
        about: "Exactly the variables that pass, beside those that are set and the directory for temporary files (TMPDIR, TMP, \
            TEMP, TEMPDIR): env_default is false then, and must not be true. An empty list lets none pass.",
        bwrap: "the command gets exactly the variables that pass or are set.",
        landlock: SAME,
        seatbelt: SAME,
        none: SAME,
        guesses: &["spawn_env", "env_only", "env_allowlist", "env_allow_list", "env_whitelist"],
    },
    Field {
        key: "keep_fds",
        kind: Kind::Descriptors,
        default: "none",
        unit: "",
        about: "Descriptors above 2 that cross into the command, under their own numbers, as with --keep-fd. Each must be open.",
        bwrap: "closes every other one.",
        landlock: SAME,
        seatbelt: SAME,
        none: SAME,
        guesses: &["keep_fd", "fds", "pass_fds", "descriptors"],
    },
    Field {
        key: "keep_jobserver",
        kind: Kind::Boolean,
        default: "false",
        unit: "",
        about: "Passes the jobserver of make on: MAKEFLAGS, and what it names.",
        bwrap: "keeps the descriptors, or shows the FIFO.",
        landlock: "keeps the descriptors, or lets the FIFO be used.",
        seatbelt: "keeps the descriptors, or lets the FIFO be used.",
        none: "keeps the descriptors.",
        guesses: &["jobserver"],
    },
    Field {
        key: "new_session",
        kind: Kind::Session,
        default: "auto",
        unit: "",
        about: "Whether the command gets a session of its own, and with it no controlling terminal: always, never, or, with \
            auto, when none of the three standard streams is a terminal.",
        bwrap: "makes the session; a terminal that the command keeps takes no input from it in either case.",
        landlock: SAME,
        seatbelt: "makes the session; a terminal that the command keeps takes input from it.",
        none: "makes the session.",
        guesses: &["session", "setsid", "new_sid"],
    },
    Field {
        key: "timeout",
        kind: Kind::Duration,
        default: "none",
        unit: "ms, s, m or h; must be written",
        about: "How long the command may run, as with --timeout; then it gets SIGTERM, after kill_after everything inside is killed, \
            and the status is 124. Zero means no limit, also over a lower layer that has one.",
        bwrap: "ends every process inside.",
        landlock: SAME,
        seatbelt: FOUND,
        none: FOUND,
        guesses: &[
            "wall_time",
            "wall_clock",
            "time_limit",
            "max_time",
            "timeout_seconds",
            "timeout_ms",
            "max_wall_time",
        ],
    },
    Field {
        key: "kill_after",
        kind: Kind::Duration,
        default: "2s",
        unit: "ms, s, m or h; must be written",
        about: "The time between a signal that asks the command to end, be it that of a limit, and SIGKILL to everything inside, \
            as with --kill-after.",
        bwrap: "ends every process inside.",
        landlock: SAME,
        seatbelt: FOUND,
        none: FOUND,
        guesses: &["grace", "grace_period", "kill_timeout", "kill_grace"],
    },
    Field {
        key: "memory",
        kind: Kind::Size(Limits::MIN_MEMORY),
        default: "none",
        unit: "bytes",
        about: "How much memory everything inside may use together, files in private directories included, as with --memory; at \
            least 16M. Where that is not enough, everything inside is killed.",
        bwrap: "makes a control group for the run; refused where it cannot, unless allow_gaps has memory.",
        landlock: "the same, but for files in private directories, which are on disk.",
        seatbelt: "refused, unless allow_gaps has memory; then without effect.",
        none: "as bwrap does; a process that may write to the group's files can leave it.",
        guesses: &["max_memory", "memory_limit", "mem", "mem_limit", "max_mem", "memory_max", "ram", "rlimit_rss"],
    },
    Field {
        key: "cpu_time",
        kind: Kind::Seconds,
        default: "none",
        unit: "ms, s, m or h; must be written",
        about: "How much processor time may be used, in whole seconds, as with --cpu-time; at least one.",
        bwrap: "sets the resource limit of each process, and counts the whole tree where a control group can be made.",
        landlock: SAME,
        seatbelt: PER_PROCESS,
        none: "as bwrap does.",
        guesses: &["cpu", "max_cpu", "cpu_limit", "max_cpu_time", "cpu_seconds", "max_cpu_seconds", "rlimit_cpu"],
    },
    Field {
        key: "max_procs",
        kind: Kind::Count(Limits::PROCS.least()),
        default: "none",
        unit: "processes and threads",
        about: "How many processes and threads the command may have at a time, itself included, as with --max-procs.",
        bwrap: "makes a control group for the run, or for an ordinary user on Linux 5.14 sets a resource limit; refused where \
            neither is possible, unless allow_gaps has procs.",
        landlock: "makes a control group for the run; refused where it cannot, unless allow_gaps has procs.",
        seatbelt: "refused, unless allow_gaps has procs; then without effect.",
        none: "makes a control group for the run, which a process that may write to its files can leave; refused where it cannot, \
            unless allow_gaps has procs.",
        guesses: &[
            "max_processes",
            "nproc",
            "pids",
            "pids_limit",
            "pids_max",
            "processes",
            "max_pids",
            "rlimit_nproc",
            "tasks_max",
        ],
    },
    Field {
        key: "max_file_size",
        kind: Kind::Size(0),
        default: "none",
        unit: "bytes",
        about: "How large each file can be made, as with --max-file-size; 0 lets nothing be written to files. Pipes are no files.",
        bwrap: PER_PROCESS,
        landlock: SAME,
        seatbelt: PER_PROCESS,
        none: SAME,
        guesses: &["fsize", "file_size", "max_filesize", "file_size_limit", "rlimit_fsize"],
    },
    Field {
        key: "max_open_files",
        kind: Kind::Count(Limits::MIN_OPEN_FILES),
        default: "none",
        unit: "descriptors",
        about: "How many descriptors each process may have open, as with --max-open-files; at least 16.",
        bwrap: PER_PROCESS,
        landlock: SAME,
        seatbelt: PER_PROCESS,
        none: SAME,
        guesses: &["nofile", "open_files", "max_fds", "max_files", "fd_limit", "rlimit_nofile"],
    },
    Field {
        key: "address_space",
        kind: Kind::Size(Limits::MIN_ADDRESS_SPACE),
        default: "none",
        unit: "bytes",
        about: "How much address space each process may have, as with --address-space; at least 16M. Programs that reserve much \
            more than they use fail under it; for memory there is memory.",
        bwrap: PER_PROCESS,
        landlock: SAME,
        seatbelt: "refused: macOS keeps no such limit.",
        none: SAME,
        guesses: &["virtual_memory", "vmem", "max_address_space", "as_limit", "rlimit_as"],
    },
    Field {
        key: "core",
        kind: Kind::Size(0),
        default: "none",
        unit: "bytes",
        about: "How large a core file can be, as with --core; 0 means no core files. A program of the host that takes core dumps \
            from the kernel by a pipe still gets them.",
        bwrap: PER_PROCESS,
        landlock: SAME,
        seatbelt: PER_PROCESS,
        none: SAME,
        guesses: &["core_size", "max_core", "core_limit", "core_file_size", "rlimit_core"],
    },
    Field {
        key: "max_output",
        kind: Kind::Size(0),
        default: "none",
        unit: "bytes",
        about: "How much standard output and standard error together may come to, as with --max-output: so many bytes pass exactly. \
            Both are pipes then.",
        bwrap: "counts what passes.",
        landlock: SAME,
        seatbelt: SAME,
        none: SAME,
        guesses: &["output_limit", "max_output_bytes", "max_output_size", "output_max", "max_stdout"],
    },
    Field {
        key: "output_overflow",
        kind: Kind::OutputOverflow,
        default: "truncate",
        unit: "",
        about: "What happens at max_output, as with --output-overflow: truncate throws the rest away and lets the command go on, \
            kill ends it with status 124. Without max_output it says nothing.",
        bwrap: "counts what passes.",
        landlock: SAME,
        seatbelt: SAME,
        none: SAME,
        guesses: &["on_output_overflow", "max_output_overflow", "output_mode"],
    },
];

#[cfg(test)]
mod tests;
