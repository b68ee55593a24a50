//! bubblewrap: the plan as its options.
//!
//! Emits typed operations of fixed arity only, so that no word can be taken for another; never a `-try` form, never a
//! relative or empty path. What bubblewrap does not do is left to the inner stage: system-call filter, checks, exec.

use std::ffi::OsString;
use std::path::Path;

use crate::launch::{Command, File, Launch, Word};
use crate::plan::{MountOp, Plan};
use crate::policy::protection::{PER_PROCESS, Strength};
use crate::policy::{Network, Protection};

/// What is enforced, and where it ends.
#[must_use]
pub const fn strength(protection: Protection) -> Strength {
    match protection {
        Protection::FilesRead
        | Protection::FilesWrite
        | Protection::Network
        | Protection::Processes
        | Protection::Privileges
        | Protection::Environment
        | Protection::Memory
        | Protection::Procs
        | Protection::FileSize
        | Protection::OpenFiles
        | Protection::Output
        | Protection::Time => Strength::Enforced,
        Protection::Cpu => Strength::Partial(PER_PROCESS),
        Protection::Masks => Strength::Partial(
            "a mask covers the name as it was at the start: a file that the host puts in its place later is seen",
        ),
        Protection::Sockets => {
            Strength::Partial("a Unix socket or FIFO that lies inside a grant can be used unless it is denied")
        }
    }
}

/// Options that not every release has. All are assumed; what a release refuses is left out in a second attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// `--perms`, since 0.5.0.
    pub perms: bool,
    /// `--size`, since 0.7.0.
    pub size: bool,
}

impl Features {
    /// Everything this backend can make use of.
    pub const ALL: Self = Self { perms: true, size: true };

    /// From what `bwrap --help` lists; `None` when that is no list of bubblewrap's options.
    #[must_use]
    pub fn from_help(help: &str) -> Option<Self> {
        let has = |option: &str| help.split_whitespace().any(|word| word == option);
        has("--args").then(|| Self { perms: has("--perms"), size: has("--size") })
    }
}

/// bubblewrap's own limit on the number of words, its argument vector and option files taken together.
pub const MAX_WORDS: usize = 9000;

/// Name of our own executable in `/dev`, where it has to have one.
const IMAGE: &str = ".sandbox-run";

/// Options for all that a plan says about mounts, namespaces and capabilities.
#[must_use]
pub fn launch(plan: &Plan, program: &Path, features: Features) -> Launch {
    let operations = plan.by_launcher();
    let Plan {
        view: _,
        covers,
        frozen,
        reach: _,
        image,
        container: _,
        network,
        way_out: _,
        host_processes: _,
        // The inner stage's part: it gets these by the hand-off.
        backend: _,
        target: _,
        argv: _,
        workdir: _,
        environment: _,
        create: _,
        absent: _,
        recognised: _,
        unprotected: _,
        checks: _,
        hidden: _,
        rules: _,
        trace: _,
        scope_sockets: _,
        new_session: _,
        keep_fds: _,
        kill_after: _,
        limits: _,
        // The outer stage starts the launcher in a group.
        cgroup: _,
        procs_by_rlimit: _,
        gaps: _,
        warnings: _,
        notes: _,
        mounts: _,
    } = plan;
    let mut options = Options { words: Vec::new(), features };
    // First, so that a list that is cut short loses mounts and not the sandbox; the inner stage checks the last mount.
    for option in ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"] {
        options.push([option]);
    }
    match network {
        Network::Off => options.push(["--unshare-net"]),
        Network::Host => {}
    }
    options.push(["--cap-drop", "ALL"]);
    if !covers.is_empty() || !frozen.is_empty() {
        // For the inner stage alone: it mounts what is left to it, gives up both and checks that nothing is left of them.
        options.push(["--cap-add", "CAP_SYS_ADMIN"]);
        options.push(["--cap-add", "CAP_SETPCAP"]);
    }
    // Not `--die-with-parent`: it ends only the half of bubblewrap that is our child, at a moment when the other half may
    // still wait for a word from it, and would wait for ever. Process 1 ends with the outer stage by the control socket.
    options.push(["--as-pid-1"]);
    // Resolves without a network, unlike a made-up name.
    options.push(["--hostname", "localhost"]);
    let mut executed = Word::FdPath(File::Image);
    for op in operations {
        options.mount(op);
        // While that directory can still be written.
        if let (MountOp::Dev { at }, Some(image)) = (op, image) {
            let place = at.join(IMAGE);
            options.push(["--ro-bind".into(), image.clone().into_os_string(), place.clone().into_os_string()]);
            executed = Word::Text(place.into_os_string());
        }
    }
    options.push(["--chdir", "/"]);
    Launch::Program(Command {
        program: program.to_owned(),
        arguments: vec!["--args".into(), Word::Fd(File::Options), "--".into(), executed],
        options: options.words,
        door: None,
    })
}

struct Options {
    words: Vec<Word>,
    features: Features,
}

impl Options {
    fn push<const N: usize, T: Into<OsString>>(&mut self, words: [T; N]) {
        self.words.extend(words.map(|word| Word::Text(word.into())));
    }

    fn path(&mut self, option: &str, at: &Path) {
        self.push([option.into(), at.as_os_str().to_owned()]);
    }

    fn perms(&mut self, mode: u32) {
        if self.features.perms {
            self.push(["--perms".to_owned(), format!("{mode:04o}")]);
        }
    }

    fn mount(&mut self, op: &MountOp) {
        match op {
            MountOp::Tmpfs { at, mode, size } => {
                self.perms(*mode);
                if self.features.size {
                    self.push(["--size".to_owned(), size.to_string()]);
                }
                self.path("--tmpfs", at);
            }
            MountOp::Dir { at } => self.path("--dir", at),
            MountOp::Link { at, text } => {
                self.push(["--symlink".into(), text.clone().into_os_string(), at.clone().into_os_string()]);
            }
            MountOp::Bind { from, at, write, device } => {
                let option = match (device, write) {
                    (true, _) => "--dev-bind",
                    (false, true) => "--bind",
                    (false, false) => "--ro-bind",
                };
                self.push([option.into(), from.clone().into_os_string(), at.clone().into_os_string()]);
            }
            MountOp::Copy { from, at } => {
                self.perms(0o444);
                self.push(["--file"]);
                self.words.push(Word::Fd(File::Host(from.clone())));
                self.push([at.clone().into_os_string()]);
            }
            MountOp::Proc { at } => self.path("--proc", at),
            MountOp::Dev { at } => self.path("--dev", at),
            MountOp::Queues { at } => self.path("--mqueue", at),
            MountOp::EmptyFile { at } => {
                self.perms(0o444);
                self.push(["--ro-bind-data"]);
                self.words.push(Word::Fd(File::Empty));
                self.push([at.clone().into_os_string()]);
            }
            MountOp::ReadOnly { at } => self.path("--remount-ro", at),
        }
    }
}
