//! Running the real program, in a few lines a test. Nothing here simulates anything.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// No test takes longer than this; one that would is a hang and fails.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// What a job object never enforces, as `--allow-gap` takes it.
pub const GAPS: &str = "files-read,files-write,masks,network,sockets,privileges";

/// The program under test.
pub fn program() -> PathBuf {
    let path = std::env::var_os("SANDBOX_RUN_BIN");
    let path = path.map_or_else(|| env!("CARGO_BIN_EXE_sandbox-run").into(), PathBuf::from);
    // Cargo names it without a drive when it was built on another system.
    std::path::absolute(path).expect("a path")
}

/// A fresh directory to work in; removed at the end.
pub struct World {
    top: tempfile::TempDir,
}

impl World {
    pub fn new() -> Self {
        Self { top: tempfile::tempdir().expect("temporary directory") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("test paths are text").to_owned()
    }

    pub fn has(&self, name: &str) -> bool {
        fs::metadata(self.path(name)).is_ok()
    }

    /// Waits for a file that somebody is about to make.
    #[track_caller]
    pub fn wait_for(&self, name: &str) {
        let start = Instant::now();
        while !self.has(name) {
            assert!(start.elapsed() < PATIENCE, "'{name}' was never made");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// A call of the program with these words.
    pub fn run<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Call {
        let mut command = Command::new(program());
        command.args(words).current_dir(self.top.path());
        Call { command, stdin: Vec::new() }
    }

    /// The same with all gaps accepted, and nothing said about it.
    pub fn quiet<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Call {
        let mut call = self.run(["-q", "--allow-gap", GAPS]);
        call.command.args(words);
        call
    }

    /// A call of another program, without the sandbox.
    pub fn outside<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Call {
        let mut words = words.into_iter();
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).current_dir(self.top.path());
        Call { command, stdin: Vec::new() }
    }
}

/// One call.
pub struct Call {
    command: Command,
    stdin: Vec<u8>,
}

impl Call {
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Removes every variable of the caller.
    pub fn env_clear(mut self) -> Self {
        self.command.env_clear();
        self
    }

    /// The command, for a test that has its own ideas about the streams.
    pub fn command(self) -> Command {
        self.command
    }

    pub fn stdin(mut self, bytes: &str) -> Self {
        self.stdin = bytes.into();
        self
    }

    pub fn start(mut self) -> Running {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().expect("it starts");
        let mut to = child.stdin.take().expect("standard input");
        let bytes = self.stdin;
        thread::spawn(move || to.write_all(&bytes));
        let read = |mut from: Box<dyn Read + Send>| {
            thread::spawn(move || {
                let mut bytes = Vec::new();
                from.read_to_end(&mut bytes).expect("output");
                bytes
            })
        };
        let stdout = read(Box::new(child.stdout.take().expect("standard output")));
        let stderr = read(Box::new(child.stderr.take().expect("standard error")));
        Running { child, stdout, stderr }
    }

    #[track_caller]
    pub fn done(self) -> Done {
        self.start().done()
    }
}

/// A call that runs.
pub struct Running {
    child: Child,
    stdout: thread::JoinHandle<Vec<u8>>,
    stderr: thread::JoinHandle<Vec<u8>>,
}

impl Running {
    pub fn kill(&mut self) {
        self.child.kill().expect("it can be ended");
    }

    #[track_caller]
    pub fn done(mut self) -> Done {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a status") {
                break status;
            }
            assert!(start.elapsed() < PATIENCE, "it hangs");
            thread::sleep(Duration::from_millis(5));
        };
        let code = status.code().expect("a status").cast_unsigned();
        let [stdout, stderr] = [self.stdout, self.stderr].map(|reader| reader.join().expect("bytes"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("\r\n", "\n");
        Done { code, bytes: stdout.len() + stderr.len(), stdout: text(&stdout), stderr: text(&stderr) }
    }
}

/// What a call came to; line ends are those of Unix.
pub struct Done {
    pub code: u32,
    /// How many bytes both streams had.
    pub bytes: usize,
    pub stdout: String,
    pub stderr: String,
}

impl Done {
    #[track_caller]
    pub fn is(self, code: u32, stdout: &str, stderr: &str) -> Self {
        assert_eq!((self.code, &*self.stdout, &*self.stderr), (code, stdout, stderr));
        self
    }

    /// Refused by the program, for reasons in which these words are.
    #[track_caller]
    pub fn refused(self, code: u32, words: &[&str]) -> Self {
        assert_eq!((self.code, &*self.stdout), (code, ""), "{}", self.stderr);
        let first = self.stderr.lines().next().unwrap_or_default();
        assert!(first.starts_with("sandbox-run: cannot "), "{}", self.stderr);
        for word in words {
            assert!(first.contains(word), "'{word}' is not in: {}", self.stderr);
        }
        self
    }
}

/// This test program as a target that does something: see `helper`.
pub fn helper(what: &str) -> Vec<String> {
    let image = std::env::current_exe().expect("image");
    let image = image.to_str().expect("test paths are text").to_owned();
    [image.as_str(), "helper::act", "--exact", "--nocapture", "-q", "--", what].map(str::to_owned).to_vec()
}

/// What the helper said between its marks, since the test framework talks as well.
pub fn said(stdout: &str) -> Vec<String> {
    let mark = |line: &str| line.strip_prefix("helper: ").map(str::to_owned);
    stdout.lines().filter_map(mark).collect()
}

/// Reads a JSON object.
#[track_caller]
pub fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}
