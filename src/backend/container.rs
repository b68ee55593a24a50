//! A container: the plan as options of `podman run` or `docker run`.
//!
//! The root is that of an image, read-only; everything else is as under other backends. No value of a variable and no word of
//! the command is among the options: the inner stage, which is the only process that the engine starts, gets them by a socket
//! in a directory of the run. Options are typed and of fixed arity; an image name or a path is never taken for one.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::Engine;
use crate::error::{Error, Kind, Result};
use crate::launch::{Command, Door, Launch, RUN, Word, named};
use crate::plan::{MountOp, Plan};
use crate::policy::protection::{PER_PROCESS, Strength};
use crate::policy::{Network, Protection};
use crate::stage::cgroup::Wants;

/// What is enforced, and where it ends.
#[must_use]
pub const fn strength(protection: Protection) -> Strength {
    match protection {
        Protection::FilesRead => {
            Strength::Partial("what the image holds is seen, and what the engine is set up to add to every container")
        }
        Protection::FilesWrite
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

/// An engine as it was found, and what goes into the container with the plan.
#[derive(Clone, Debug)]
pub struct Found {
    /// Which one; never [`Engine::Any`].
    pub engine: Engine,
    /// Absolute path of its program.
    pub program: PathBuf,
    /// The caller.
    pub user: (u32, u32),
    /// Our own executable, for the inner stage.
    pub own: Executable,
    /// Variables of the caller by which the program finds its settings and its service.
    pub environment: Vec<(OsString, OsString)>,
}

/// An executable with all that it takes to run it in an image that may have nothing.
#[derive(Clone, Debug)]
pub struct Executable {
    /// The file.
    pub program: PathBuf,
    /// The dynamic loader and the libraries, where it is not static.
    pub dynamic: Option<(PathBuf, Vec<PathBuf>)>,
}

/// The directory inside in which our own things are mounted. An image cannot hold what it does not know, such as a link on which
/// the engine would mount ours, and a grant over it.
const OURS: &str = concat!("/.", "\0");

/// The socket inside, in a run of this `name`.
#[must_use]
pub fn socket(name: &OsStr) -> PathBuf {
    PathBuf::from(named(OURS.as_ref(), name)).join(DOOR).join(SOCKET)
}

/// Directory of the socket, in `OURS` and in the directory of the run.
pub const DOOR: &str = "door";

/// The socket in it.
pub const SOCKET: &str = "socket";

/// An empty file in the directory of the run.
pub const EMPTY: &str = "empty";

/// The dynamic loader, in both.
pub const LOADER: &str = "loader";

/// What each container of ours is marked with.
pub const LABEL: &str = "sandbox-run";

/// Options for all that a plan says about mounts, namespaces, capabilities and limits.
pub fn launch(plan: &Plan, found: Option<&Found>) -> Result<Launch> {
    let found = found.ok_or_else(|| Error::text(Kind::Backend, "cannot use a container: no engine was looked for"))?;
    let Plan {
        view,
        container,
        network,
        // Found out here and not planned for.
        image: _,
        mounts: _,
        // By the door, with what the inner stage gets.
        way_out: _,
        host_processes: _,
        // Mounts are the engine's alone.
        covers: _,
        frozen: _,
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
        reach: _,
        checks: _,
        hidden: _,
        rules: _,
        trace: _,
        scope_sockets: _,
        new_session: _,
        keep_fds: _,
        kill_after: _,
        limits: _,
        cgroup,
        procs_by_rlimit: _,
        gaps: _,
        warnings: _,
        notes: _,
    } = plan;
    let image = container.as_ref().map_or("", |container| container.image.as_str());
    let mut options = Options { words: Vec::new(), found };
    options.isolation(*network);
    if cgroup.is_some() {
        options.limits(&Wants::of(plan));
    }
    options.ours();
    for op in view {
        options.mount(op);
    }
    options.start(image);
    let mut look = Options { words: Vec::new(), found };
    look.isolation(Network::Off);
    look.ours();
    look.start(image);
    let question = match found.engine {
        Engine::Podman => {
            Some(["image", "inspect", "--format", "{{json .Annotations}}", image].map(OsString::from).into())
        }
        // It starts containers without them.
        Engine::Docker | Engine::Any => None,
    };
    let removal = match found.engine {
        Engine::Podman => vec!["rm".into(), "--force".into(), "--ignore".into(), RUN.into()],
        Engine::Docker | Engine::Any => vec!["rm".into(), "--force".into(), RUN.into()],
    };
    let loader = found.own.dynamic.as_ref().map(|(loader, _)| loader.clone());
    Ok(Launch::Program(Command {
        program: found.program.clone(),
        arguments: options.words,
        options: Vec::new(),
        door: Some(Door { environment: found.environment.clone(), question, look: look.words, removal, loader }),
    }))
}

/// Variables that make a dynamic loader load something into a program, or write a file. An empty `LD_TRACE_LOADED_OBJECTS` would
/// have it list and not start: with one of the image nothing runs.
const LOADED_BY: &[&str] = &["LD_PRELOAD", "LD_AUDIT", "LD_DEBUG", "LD_DEBUG_OUTPUT", "LD_PROFILE", "GLIBC_TUNABLES"];

/// Names of our own things in [`OURS`].
const PROGRAM: &str = "sandbox-run";
const LIBRARIES: &str = "lib";

/// Refuses what a container would make of a plan that nobody can mean, or that cannot be said to the engine.
///
/// `sockets` are those of container engines on this host, by their real names: whoever talks to one is root on the host. `settings`
/// are what the engine reads: what it is told there to start runs on the host.
pub fn check(plan: &Plan, found: &Found, sockets: &[PathBuf], settings: &[PathBuf]) -> Result<()> {
    let refuse = |what: &Path, reason: &str| {
        let text = format!("cannot show '{}' in a container: {reason}", what.display());
        Err(Error::text(Kind::Backend, text))
    };
    for socket in sockets {
        if plan.shows(socket) {
            return refuse(
                socket,
                "it is the socket of a container engine, and whoever talks to it is root on the host",
            );
        }
    }
    for path in settings {
        if plan.lets_write(path) {
            let text = format!(
                "cannot let the command write '{}': {} reads there which programs it starts on the host",
                path.display(),
                found.engine.word()
            );
            return Err(Error::text(Kind::Backend, text).hint("grant other directories, or those below one by one"));
        }
    }
    for op in &plan.view {
        let at = match op {
            MountOp::Bind { from, at, .. } => {
                let name = from.file_name().unwrap_or_default();
                if ["docker.sock", "podman.sock", "containerd.sock", "crio.sock"].iter().any(|socket| name == *socket) {
                    return refuse(
                        from,
                        "it is the socket of a container engine, and whoever talks to it is root on the host",
                    );
                }
                if at == Path::new("/etc") || at.starts_with("/sys") {
                    return refuse(at, "the container has its own");
                }
                at
            }
            MountOp::Tmpfs { at, .. } | MountOp::EmptyFile { at } | MountOp::Copy { at, .. } => at,
            MountOp::Dir { .. }
            | MountOp::Link { .. }
            | MountOp::Proc { .. }
            | MountOp::Dev { .. }
            | MountOp::Queues { .. }
            | MountOp::ReadOnly { .. } => continue,
        };
        if !can_be_said(op, found.engine) {
            return refuse(at, &format!("{} has no way to write that name", found.engine.word()));
        }
    }
    Ok(())
}

/// Refuses a command line that the kernel would refuse, with the numbers.
pub fn check_size(command: &Command) -> Result<()> {
    /// A quarter of the customary stack, as the kernel counts it, and some room for the environment.
    const MOST: usize = 1_900_000;
    let length = |word: &Word| match word {
        Word::Text(text) => text.len(),
        Word::Scratch { before, name, after } => before.len() + name.len() + after.len() + 64,
        Word::Fd(_) | Word::FdPath(_) | Word::Private(_) => 32,
    };
    // Each word has a pointer and ends in a NUL.
    let total: usize = command.arguments.iter().map(|word| length(word) + 9).sum();
    if total <= MOST {
        return Ok(());
    }
    let (program, words) = (command.program.display(), command.arguments.len());
    let text =
        format!("cannot pass the plan to '{program}': it takes {words} words of {total} bytes, at most {MOST} fit");
    Err(Error::text(Kind::Backend, text).hint("grant or mask directories instead of many files"))
}

/// Whether the engine can be told of the place of `op`.
fn can_be_said(op: &MountOp, engine: Engine) -> bool {
    let Some(text) = op.at().to_str() else { return false };
    let has = |chars: &[char]| text.contains(chars);
    let docker = engine != Engine::Podman;
    match op {
        MountOp::Bind { device: true, .. } => !has(&[':', '\n', '\r']),
        // Docker takes a colon for the end of the path, podman reads no quotes.
        MountOp::Tmpfs { mode, .. } if docker && *mode != crate::plan::view::MASK_MODE => !has(&[':', '\n', '\r']),
        MountOp::Tmpfs { .. } if !docker => !has(&[',', '"', '\n', '\r']),
        _ if docker => !has(&['\r']),
        // By one option or by the other.
        _ => !(has(&['\n', '\r', '"', '\\']) || has(&[',']) && has(&[':'])),
    }
}

struct Options<'a> {
    words: Vec<Word>,
    found: &'a Found,
}

impl Options<'_> {
    fn push<const N: usize, T: Into<OsString>>(&mut self, words: [T; N]) {
        self.words.extend(words.map(|word| Word::Text(word.into())));
    }

    /// Namespaces, capabilities, the root, the user.
    fn isolation(&mut self, network: Network) {
        // Never a fetch, and nothing that stays.
        self.push(["run", "--rm", "--pull", "never", "--log-driver", "none", "--no-healthcheck", "--sig-proxy=false"]);
        self.push(["--name", RUN]);
        self.push(["--label", LABEL]);
        self.push([
            "--network",
            match network {
                Network::Off => "none",
                Network::Host => "host",
            },
        ]);
        self.push(["--ipc", "private", "--hostname", "localhost"]);
        self.push(["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]);
        // Files of the host keep their labels, and no others can be opened by a labelled process.
        self.push(["--security-opt", "label=disable"]);
        self.push(["--read-only"]);
        let (user, group) = self.found.user;
        match self.found.engine {
            Engine::Podman => {
                self.push([
                    "--read-only-tmpfs=false",
                    "--image-volume",
                    "ignore",
                    "--http-proxy=false",
                    "--ulimit",
                    "host",
                ]);
                if user != 0 {
                    self.push(["--userns", "keep-id"]);
                    if network == Network::Host {
                        // It would be that of the host, with its control groups writable.
                        self.tmpfs(Path::new("/sys"), crate::plan::view::MASK_MODE, 4096, false);
                    }
                }
            }
            Engine::Docker | Engine::Any => {}
        }
        self.push(["--user".to_owned(), format!("{user}:{group}")]);
    }

    fn limits(&mut self, wants: &Wants) {
        if let Some(memory) = wants.memory {
            self.push(["--memory".to_owned(), memory.to_string()]);
            // Swap is not on top of it.
            self.push(["--memory-swap".to_owned(), memory.to_string()]);
        }
        if let Some(procs) = wants.procs {
            self.push(["--pids-limit".to_owned(), procs.to_string()]);
        }
    }

    /// Our own executable, and the way to the outer stage.
    fn ours(&mut self) {
        let found = self.found;
        let ours = Path::new(OURS);
        self.bind(&found.own.program, &ours.join(PROGRAM), false);
        if let Some((_, libraries)) = &found.own.dynamic {
            // A copy that does not read `/etc/ld.so.preload`: an image can have a link there, which leads into a grant.
            self.scratch(LOADER, &ours.join(LOADER));
            for library in libraries {
                let name = library.file_name().unwrap_or_default();
                self.bind(library, &ours.join(LIBRARIES).join(name), false);
            }
        }
        self.scratch(DOOR, &ours.join(DOOR));
    }

    /// What is started, in `image`, after all options.
    fn start(&mut self, image: &str) {
        self.push(["--workdir", "/"]);
        // The value is in the environment of the program, where nobody else reads it.
        self.push(["--env", crate::stage::handoff::MARKER]);
        let inside = |name: &str| format!("{OURS}/{name}");
        // Of what the image sets, a loader obeys these.
        for name in LOADED_BY {
            self.push(["--env".to_owned(), format!("{name}=")]);
        }
        let arguments: Vec<String> = if self.found.own.dynamic.is_none() {
            self.push(["--entrypoint".to_owned(), inside(PROGRAM)]);
            Vec::new()
        } else {
            self.push(["--entrypoint".to_owned(), inside(LOADER)]);
            vec!["--library-path".into(), inside(LIBRARIES), inside(PROGRAM)]
        };
        self.words.push(image.into());
        self.words.extend(arguments.into_iter().map(Word::from));
    }

    /// A read-only mount of something in the directory of the run.
    fn scratch(&mut self, name: &str, at: &Path) {
        let [before, after] = if self.reads_quotes() {
            ["type=bind,src=".into(), join([",".as_ref(), &quoted("dst=", at), ",readonly".as_ref()])]
        } else if by_volume(at) {
            self.push(["--volume"]);
            let after = join([":".as_ref(), at.as_os_str(), ":ro,nodev,nosuid".as_ref()]);
            self.words.push(Word::Scratch { before: "".into(), name: name.into(), after });
            return;
        } else {
            ["type=bind,src=".into(), join([",dst=".as_ref(), at.as_os_str(), ",readonly,nodev,nosuid".as_ref()])]
        };
        self.push(["--mount"]);
        self.words.push(Word::Scratch { before, name: name.into(), after });
    }

    fn reads_quotes(&self) -> bool {
        self.found.engine != Engine::Podman
    }

    fn bind(&mut self, from: &Path, at: &Path, write: bool) {
        let (from_text, at_text) = (from.as_os_str(), at.as_os_str());
        if self.reads_quotes() {
            let flag = if write { "" } else { ",readonly" };
            let value =
                join(["type=bind,".as_ref(), &quoted("src=", from), ",".as_ref(), &quoted("dst=", at), flag.as_ref()]);
            self.push(["--mount".into(), value]);
        } else if by_volume(from) || by_volume(at) {
            // podman makes no directory where the source is missing, as docker does.
            let flag = if write { ":rw,nodev,nosuid" } else { ":ro,nodev,nosuid" };
            self.push(["--volume".into(), join([from_text, ":".as_ref(), at_text, flag.as_ref()])]);
        } else {
            let flag = if write { ",nodev,nosuid" } else { ",readonly,nodev,nosuid" };
            let value = join(["type=bind,src=".as_ref(), from_text, ",dst=".as_ref(), at_text, flag.as_ref()]);
            self.push(["--mount".into(), value]);
        }
    }

    fn tmpfs(&mut self, at: &Path, mode: u32, size: u64, home: bool) {
        if at == Path::new(crate::plan::base::SHARED) {
            return self.push(["--shm-size".to_owned(), size.to_string()]);
        }
        let mask = mode == crate::plan::view::MASK_MODE;
        let (user, group) = self.found.user;
        if self.reads_quotes() {
            if mask {
                let value = join([
                    "type=tmpfs,".as_ref(),
                    &quoted("dst=", at),
                    format!(",tmpfs-size={size},tmpfs-mode={mode:04o},readonly").as_ref(),
                ]);
                return self.push(["--mount".into(), value]);
            }
            let owner = if home { format!(",uid={user},gid={group}") } else { String::new() };
            let options = format!(":rw,exec,nosuid,nodev,size={size},mode={mode:04o}{owner}");
            return self.push(["--tmpfs".into(), join([at.as_os_str(), options.as_ref()])]);
        }
        // Nothing of the image shows through.
        let options = format!(
            ",tmpfs-size={size},tmpfs-mode={mode:04o},notmpcopyup{}",
            match (mask, home) {
                (true, _) => ",ro",
                (false, true) => ",U=true",
                (false, false) => "",
            }
        );
        self.push(["--mount".into(), join(["type=tmpfs,dst=".as_ref(), at.as_os_str(), options.as_ref()])]);
    }

    fn mount(&mut self, op: &MountOp) {
        match op {
            MountOp::Tmpfs { at, mode, size } => self.tmpfs(at, *mode, *size, *mode == 0o700),
            MountOp::Bind { from, at, device: true, .. } => {
                let value = join([from.as_os_str(), ":".as_ref(), at.as_os_str(), ":rw".as_ref()]);
                self.push(["--device".into(), value]);
            }
            MountOp::Bind { from, at, write, device: false } => self.bind(from, at, *write),
            MountOp::Copy { from, at } => self.bind(from, at, false),
            MountOp::EmptyFile { at } => self.scratch(EMPTY, at),
            // The engine's own, or made by it where a mount needs a place.
            MountOp::Dir { .. }
            | MountOp::Link { .. }
            | MountOp::Proc { .. }
            | MountOp::Dev { .. }
            | MountOp::Queues { .. }
            | MountOp::ReadOnly { .. } => {}
        }
    }
}

/// Whether podman has to be told by the option that splits at colons and not at commas.
fn by_volume(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().contains(&b',')
}

/// A field of a comma-separated value, in quotes where it needs them.
fn quoted(key: &str, path: &Path) -> OsString {
    let plain = join([key.as_ref(), path.as_os_str()]);
    // A path that is no text was refused before.
    match plain.to_str() {
        Some(text) if text.contains([',', '"', '\n']) => format!("\"{}\"", text.replace('"', "\"\"")).into(),
        _ => plain,
    }
}

fn join<const N: usize>(parts: [&OsStr; N]) -> OsString {
    let mut whole = OsString::new();
    for part in parts {
        whole.push(part);
    }
    whole
}
