//! Running the real program against the real kernel, in six lines a test.
//!
//! A [`World`] is a fresh set of directories and an environment that holds nothing of the machine's own. A test calls the
//! program, then compares status, standard output, standard error and what became of the host's files. Nothing here
//! simulates anything.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

/// No test takes longer than this; one that would is a hang and fails.
const PATIENCE: Duration = Duration::from_mins(1);

/// The program under test.
pub fn program() -> PathBuf {
    std::env::var_os("SANDBOX_RUN_BIN").map_or_else(|| env!("CARGO_BIN_EXE_sandbox-run").into(), PathBuf::from)
}

/// Whether the tests run as root.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Skips a test for want of `what`, unless `SANDBOX_RUN_MUST_RUN` names it (or `all`): then it fails.
pub fn skip(what: &str, why: &str) {
    let must = std::env::var_os("SANDBOX_RUN_MUST_RUN").unwrap_or_default();
    let must = must.to_string_lossy();
    assert!(!must.split(',').any(|word| word == what || word == "all"), "may not be skipped ({what}): {why}");
    eprintln!("skipped ({what}): {why}");
}

/// Whether `program` is installed; skips for want of it when not.
pub fn has(program: &str) -> bool {
    let found = find(program).is_some();
    if !found {
        skip(program, "not installed");
    }
    found
}

/// Whether this machine lets us have a control group for memory, found out without the program under test: a group is made
/// and removed. Says so when not; no package can change that, so it is no skip.
pub fn has_memory_groups() -> bool {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let parents = own.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let top = Path::new("/sys/fs/cgroup");
        let (top, unified) = if controllers.is_empty() { (top.to_owned(), true) } else { (top.join("memory"), false) };
        if !unified && !controllers.split(',').any(|one| one == "memory") {
            return None;
        }
        let parent = top.join(path.trim_start_matches('/'));
        let control = || fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
        (!unified || control().contains("memory")).then_some(parent)
    });
    for parent in parents {
        let probe = parent.join(format!("probe-{}-{:?}", std::process::id(), std::thread::current().id()));
        if fs::create_dir(&probe).is_ok() {
            fs::remove_dir(&probe).expect("own group");
            return true;
        }
    }
    eprintln!("not tried: this machine lets nobody like us make a control group for memory");
    false
}

/// Held for reading while a program is started, for writing while a file is made that may be executed later.
static STARTING: RwLock<()> = RwLock::new(());

/// Makes a file while no other test starts a program: between fork and exec the copy would hold the file open for writing,
/// and nobody could execute it ("text file busy").
pub fn alone<T>(make: impl FnOnce() -> T) -> T {
    let _held = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    make()
}

/// The words of a call of the program under test: where `SANDBOX_RUN_INSTEAD` names a backend, that one in place of bubblewrap, be
/// it typed or taken.
fn by<S: AsRef<OsStr>>(own: bool, words: impl IntoIterator<Item = S>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
    let Some(instead) = std::env::var_os("SANDBOX_RUN_INSTEAD").filter(|_| own) else { return words };
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let typed = words[..end].iter().position(|word| word == "-b" || word == "--backend");
    match typed {
        Some(at) => {
            let list = words[at + 1].to_string_lossy().replace("bwrap", &instead.to_string_lossy());
            words[at + 1] = list.into();
        }
        None if words[..end].iter().any(|word| word.to_string_lossy().starts_with("--policy")) => {}
        None => drop(words.splice(0..0, ["-b".into(), instead])),
    }
    words
}

/// Whether to leave a test out because it is about bubblewrap itself and another backend is in its place; says why.
pub fn about_bwrap(why: &str) -> bool {
    let instead = std::env::var_os("SANDBOX_RUN_INSTEAD");
    if let Some(backend) = &instead {
        eprintln!("left out for {}: {why}", backend.display());
    }
    instead.is_some()
}

/// Absolute path of a program on the test's own PATH, or `None`.
pub fn find(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&PATHS).map(|dir| dir.join(program)).find(|path| fs::metadata(path).is_ok())
}

/// Options that choose each backend in turn and silence its warnings: for what holds under all of them.
pub const BACKENDS: [[&str; 3]; 4] =
    [["-q", "-b", "bwrap"], ["-q", "-b", "none"], ["-q", "-b", "landlock"], ["-q", "-b", "namespace"]];

/// Those of them that this machine can have.
pub fn backends() -> impl Iterator<Item = [&'static str; 3]> {
    let landlock = has_landlock();
    BACKENDS.into_iter().filter(move |words| landlock || !words.contains(&"landlock"))
}

/// Whether options choose a backend that mounts a view.
pub fn has_view(options: &[impl AsRef<str>]) -> bool {
    options.iter().any(|word| ["bwrap", "namespace"].contains(&word.as_ref()))
}

/// `backend` with what lets a process that the command starts read of itself in `/proc`.
pub fn open_proc(backend: [&'static str; 3]) -> Vec<&'static str> {
    let more: &[_] = if backend.contains(&"landlock") { &["--allow-gap", "processes"] } else { &[] };
    [&backend[..], more].concat()
}

/// The same for other lists of options.
pub fn usable<T: Copy + std::fmt::Debug>(lists: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    let landlock = has_landlock();
    lists.into_iter().filter(move |list| landlock || !format!("{list:?}").contains("landlock"))
}

/// Whether this kernel has the Landlock that the backend takes; skips for want of it when not.
pub fn has_landlock() -> bool {
    let version = sandbox_run::sys::landlock::version();
    if version < 6 {
        skip("landlock", "this kernel has no Landlock ABI 6");
    }
    version >= 6
}

/// PATH of every call.
pub const PATHS: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// Fresh directories, none below another's HOME or `/tmp`: `w` to work in, `o` outside, `home`. Removed at the end.
pub struct World {
    top: tempfile::TempDir,
    aside: tempfile::TempDir,
}

impl World {
    /// `o/secret` holds `s3cret`; the rest is empty.
    pub fn new() -> Self {
        Self::below("/var/tmp")
    }

    /// The same where a search of the whole host does not look: with what keeps one from starting, or is warned of.
    pub fn apart() -> Self {
        Self::below("/tmp")
    }

    fn below(place: &str) -> Self {
        let top = tempfile::Builder::new().prefix("sandbox-run-test-").tempdir_in(place).expect("temporary directory");
        let aside =
            tempfile::Builder::new().prefix("sandbox-run-aside-").tempdir_in("/tmp").expect("temporary directory");
        fs::set_permissions(aside.path(), fs::Permissions::from_mode(0o755)).expect("mode");
        let world = Self { top, aside };
        fs::set_permissions(world.top.path(), fs::Permissions::from_mode(0o755)).expect("mode");
        for name in ["w", "o", "home"] {
            fs::create_dir(world.top.path().join(name)).expect("directory");
        }
        world.write("o/secret", "s3cret");
        world
    }

    /// Absolute path of `name` in this world.
    pub fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.top.path()).expect("top").join(name)
    }

    /// The same as text.
    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("test paths are text").to_owned()
    }

    /// Makes a file, parents included.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("parent")).expect("parents");
        alone(|| fs::write(&path, content)).expect("file");
        path
    }

    /// Makes an executable file, parents included.
    pub fn script(&self, name: &str, content: &str) -> PathBuf {
        let path = self.write(name, content);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("mode");
        path
    }

    /// Makes a directory, parents included.
    pub fn dir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).expect("directory");
        path
    }

    /// Makes a symbolic link.
    pub fn link(&self, name: &str, to: impl AsRef<Path>) -> PathBuf {
        let path = self.path(name);
        std::os::unix::fs::symlink(to, &path).expect("link");
        path
    }

    /// The program under test by another name, that of its processes; no part of this world's files.
    pub fn program_as(&self, name: &str) -> PathBuf {
        let path = self.aside.path().join(name);
        std::os::unix::fs::symlink(program(), &path).expect("link");
        path
    }

    /// Content of a file as text.
    pub fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.path(name)).expect("readable")).into_owned()
    }

    /// Whether something has that name.
    pub fn has(&self, name: &str) -> bool {
        fs::symlink_metadata(self.path(name)).is_ok()
    }

    /// A call of the program with these words, in `w`.
    pub fn run<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Call {
        self.call(program(), words)
    }

    /// `sandbox-run … -- sh -c SCRIPT`.
    pub fn sh<S: AsRef<OsStr>>(&self, options: impl IntoIterator<Item = S>, script: &str) -> Call {
        let mut words: Vec<OsString> = options.into_iter().map(|word| word.as_ref().to_owned()).collect();
        words.extend(["--", "sh", "-c", script].map(OsString::from));
        self.run(words)
    }

    /// A call of any program, in the same place and environment: the control.
    pub fn call<S: AsRef<OsStr>>(&self, program: impl AsRef<OsStr>, words: impl IntoIterator<Item = S>) -> Call {
        let own = program.as_ref() == self::program();
        let mut command = Command::new(program);
        command.args(by(own, words)).current_dir(self.path("w")).env_clear();
        command.env("HOME", self.path("home")).env("PATH", PATHS).env("TERM", "dumb").env("LANG", "C.UTF-8");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Call { command, input: None, files: Vec::new() }
    }

    /// Everything about every file of this world: to compare before and after.
    pub fn snapshot(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let mut todo = vec![self.path("")];
        while let Some(path) = todo.pop() {
            let data = fs::symlink_metadata(&path).expect("metadata");
            let mut text = format!(
                "{:o} {}:{} inode {} links {} mtime {}.{:09}",
                data.mode(),
                data.uid(),
                data.gid(),
                data.ino(),
                data.nlink(),
                data.mtime(),
                data.mtime_nsec()
            );
            if data.is_dir() {
                todo.extend(fs::read_dir(&path).expect("directory").map(|entry| entry.expect("entry").path()));
            } else if data.is_symlink() {
                write!(text, " -> {}", fs::read_link(&path).expect("link").display()).expect("text");
            } else if data.is_file() {
                write!(text, " {:?}", fs::read(&path).map_err(|error| error.kind())).expect("text");
            }
            found.insert(path, text);
        }
        found
    }
}

/// One call, to be adjusted and run.
pub struct Call {
    command: Command,
    input: Option<Vec<u8>>,
    files: Vec<(OwnedFd, RawFd)>,
}

impl Call {
    /// Sets a variable of the caller.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Removes a variable of the caller.
    pub fn env_remove(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Removes every variable of the caller.
    pub fn env_clear(mut self) -> Self {
        self.command.env_clear();
        self
    }

    /// Starts elsewhere.
    pub fn cwd(mut self, dir: impl AsRef<Path>) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Standard input.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self.command.stdin(Stdio::piped());
        self
    }

    /// Takes standard input from somewhere else.
    pub fn stdin_from(mut self, from: impl Into<Stdio>) -> Self {
        self.command.stdin(from);
        self
    }

    /// Sends standard output somewhere else.
    pub fn stdout(mut self, to: impl Into<Stdio>) -> Self {
        self.command.stdout(to);
        self
    }

    /// Sends standard error somewhere else.
    pub fn stderr(mut self, to: impl Into<Stdio>) -> Self {
        self.command.stderr(to);
        self
    }

    /// Leaves `file` open in the call under `number`.
    pub fn fd(mut self, file: impl Into<OwnedFd>, number: RawFd) -> Self {
        self.files.push((file.into(), number));
        self
    }

    /// Closes these of the standard streams.
    pub fn closed(self, streams: &[RawFd]) -> Self {
        let streams = streams.to_vec();
        self.before_exec(move || Ok(streams.iter().try_for_each(|stream| nix::unistd::close(*stream))?))
    }

    /// Does something in the child right before exec; it may only make system calls.
    #[allow(unsafe_code)]
    pub fn before_exec(mut self, action: impl FnMut() -> std::io::Result<()> + Send + Sync + 'static) -> Self {
        // SAFETY: the contract of this function is passed on to its callers, all of them below tests/.
        unsafe { self.command.pre_exec(action) };
        self
    }

    /// Starts it and returns at once.
    pub fn spawn(mut self) -> Running {
        let files = std::mem::take(&mut self.files);
        let numbers: Vec<_> = files.iter().map(|(file, number)| (file.as_raw_fd(), *number)).collect();
        let mut call = self;
        if !numbers.is_empty() {
            call = call.before_exec(move || {
                // First out of the way of each other, then into place.
                let mut moved = [0; 16];
                for (slot, (from, _)) in moved.iter_mut().zip(&numbers) {
                    *slot = nix::fcntl::fcntl(borrow(*from), nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(200))?;
                }
                for (from, (_, to)) in moved.iter().zip(&numbers) {
                    duplicate(*from, *to)?;
                }
                Ok(())
            });
        }
        // Before the program can begin to count.
        let (started, child) = {
            let _held = STARTING.read().unwrap_or_else(PoisonError::into_inner);
            (Instant::now(), call.command.spawn())
        };
        let mut child = child.expect("the program starts");
        if let Some(input) = call.input {
            let mut pipe = child.stdin.take().expect("pipe");
            // A target that does not read all of it is no fault of the test.
            std::thread::spawn(move || drop(pipe.write_all(&input)));
        }
        let collect = |stream: Option<Box<dyn Read + Send>>| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                if let Some(mut stream) = stream {
                    stream.read_to_end(&mut bytes).expect("readable pipe");
                }
                bytes
            })
        };
        let stdout = collect(child.stdout.take().map(|stream| Box::new(stream) as _));
        let stderr = collect(child.stderr.take().map(|stream| Box::new(stream) as _));
        drop(files);
        Running { child, stdout, stderr, started }
    }

    /// Runs it to its end.
    pub fn done(self) -> Done {
        self.spawn().done()
    }
}

#[allow(unsafe_code)]
fn borrow(fd: RawFd) -> std::os::fd::BorrowedFd<'static> {
    // SAFETY: used between fork and exec for descriptors that the parent holds open.
    unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) }
}

#[allow(unsafe_code)]
fn duplicate(from: RawFd, to: RawFd) -> std::io::Result<()> {
    // SAFETY: two integers; used between fork and exec.
    if unsafe { libc::dup2(from, to) } == -1 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// A call under way.
pub struct Running {
    child: Child,
    stdout: std::thread::JoinHandle<Vec<u8>>,
    stderr: std::thread::JoinHandle<Vec<u8>>,
    started: Instant,
}

impl Running {
    /// Process number of sandbox-run.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid()), signal).expect("signal");
    }

    /// Waits for the end; longer than a minute is a hang.
    pub fn done(mut self) -> Done {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                break status;
            }
            if Instant::now() > deadline {
                let _gone = self.child.kill();
                panic!("still running after {PATIENCE:?}");
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let took = self.started.elapsed();
        Done {
            code: status.code(),
            signal: status.signal(),
            stdout: self.stdout.join().expect("reader"),
            stderr: String::from_utf8_lossy(&self.stderr.join().expect("reader")).into_owned(),
            took,
        }
    }
}

/// How a call ended. Each check prints everything when it fails.
pub struct Done {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
    pub took: Duration,
}

impl Done {
    /// Exit status, standard output and standard error are exactly these.
    #[track_caller]
    pub fn is(self, code: i32, stdout: &str, stderr: &str) -> Self {
        self.code(code).stdout(stdout).stderr(stderr)
    }

    /// It exited with this status.
    #[track_caller]
    pub fn code(self, code: i32) -> Self {
        assert!(self.code == Some(code), "expected status {code}\n{}", self.all());
        self
    }

    /// Standard output is exactly this.
    #[track_caller]
    pub fn stdout(self, text: &str) -> Self {
        assert!(self.stdout == text.as_bytes(), "expected on stdout: {text:?}\n{}", self.all());
        self
    }

    /// Standard error is exactly this.
    #[track_caller]
    pub fn stderr(self, text: &str) -> Self {
        assert!(self.stderr == text, "expected on stderr: {text:?}\n{}", self.all());
        self
    }

    /// Standard output has this in it.
    #[track_caller]
    pub fn stdout_has(self, text: &str) -> Self {
        assert!(self.out().contains(text), "expected in stdout: {text:?}\n{}", self.all());
        self
    }

    /// Standard output does not have this in it.
    #[track_caller]
    pub fn stdout_lacks(self, text: &str) -> Self {
        assert!(!self.out().contains(text), "not expected in stdout: {text:?}\n{}", self.all());
        self
    }

    /// Standard error has this in it.
    #[track_caller]
    pub fn stderr_has(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "expected in stderr: {text:?}\n{}", self.all());
        self
    }

    /// Standard error does not have this in it.
    #[track_caller]
    pub fn stderr_lacks(self, text: &str) -> Self {
        assert!(!self.stderr.contains(text), "not expected in stderr: {text:?}\n{}", self.all());
        self
    }

    /// The contract of a refusal: this status, nothing on stdout, one line `sandbox-run: cannot …` with each of `words` in
    /// it, then only hints.
    #[track_caller]
    pub fn refused(self, code: i32, words: &[&str]) -> Self {
        let done = self.code(code).stdout("");
        let mut lines = done.stderr.lines();
        let first = lines.next().unwrap_or_default();
        assert!(first.starts_with("sandbox-run: cannot "), "expected one line of refusal\n{}", done.all());
        for word in words {
            assert!(first.contains(word), "expected {word:?} in the refusal\n{}", done.all());
        }
        assert!(
            lines.all(|line| line.starts_with("sandbox-run: hint: ")),
            "expected only hints after it\n{}",
            done.all()
        );
        done
    }

    /// Standard output as text.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    fn all(&self) -> String {
        format!(
            "status: {:?}, signal: {:?}, after {:?}\n--- stdout\n{}\n--- stderr\n{}\n---",
            self.code,
            self.signal,
            self.took,
            self.out().chars().take(4000).collect::<String>(),
            self.stderr.chars().take(4000).collect::<String>()
        )
    }
}

/// Waits until `holds`, at most ten seconds; says whether it came true.
pub fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// Processes of this machine whose command line has `text` in it, zombies left out.
pub fn processes_with(text: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let mut bytes = Vec::new();
        if File::open(entry.path().join("cmdline")).is_ok_and(|mut file| file.read_to_end(&mut bytes).is_ok()) {
            let line = String::from_utf8_lossy(&bytes).replace('\0', " ");
            if line.contains(text) && pid != std::process::id().cast_signed() {
                found.push(pid);
            }
        }
    }
    found
}

/// A process of this machine, as its `stat` has it.
pub struct Process {
    pub pid: i32,
    /// As `ps` shows it: `T` is stopped, `Z` a zombie.
    pub state: char,
    pub parent: i32,
    pub session: i32,
}

/// All processes of this machine that can be seen.
pub fn processes() -> Vec<Process> {
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    all.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let session = fields.nth(1)?.parse().ok()?;
        Some(Process { pid, state, parent, session })
    })
    .collect()
}
