//! Real files in a temporary directory, found and followed. Everything holds for root and for others.

use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// A canonical working directory with files in it.
struct Place {
    _dir: TempDir,
    root: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        Self { _dir: dir, root }
    }

    fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(name)
    }

    fn dir(&self, name: &str) -> PathBuf {
        fs::create_dir_all(self.at(name)).unwrap();
        self.at(name)
    }

    fn file(&self, name: impl AsRef<Path>, mode: u32, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// A program without anything behind it.
    fn program(&self, name: impl AsRef<Path>) -> PathBuf {
        self.file(name, 0o755, elf(None))
    }

    fn link(&self, name: impl AsRef<Path>, text: impl AsRef<Path>) -> Needed {
        symlink(&text, self.at(&name)).unwrap();
        Needed::Link { at: self.at(name), text: text.as_ref().to_owned() }
    }

    fn resolve_in(&self, path: &[PathBuf], word: impl AsRef<OsStr>) -> Result<Target, Fault> {
        resolve(&Search { word: word.as_ref(), path, workdir: &self.root })
    }

    fn resolve(&self, word: impl AsRef<OsStr>) -> Result<Target, Fault> {
        self.resolve_in(&[], word)
    }

    /// The message and the kind of a search that fails, with the temporary directory shown as `W`.
    fn fault(&self, path: &[PathBuf], word: impl AsRef<OsStr>) -> (Kind, String) {
        let error = Error::from(self.resolve_in(path, word).unwrap_err());
        (error.kind(), error.to_string().replace(self.root.to_str().unwrap(), "W"))
    }

    fn refused(&self, word: &str, reason: &str) {
        let expected = format!("cannot execute '{word}': {reason}");
        assert_eq!(self.fault(&[], word), (Kind::NotExecutable, expected));
    }
}

/// A 64-bit little-endian ELF file of our own machine, with or without a loader.
fn elf(loader: Option<&Path>) -> Vec<u8> {
    let own = fs::read(std::env::current_exe().unwrap()).unwrap();
    let mut file = own[..64].to_vec();
    file[4..6].copy_from_slice(&[2, 1]);
    file[18..20].copy_from_slice(&own[18..20]);
    file[32..40].copy_from_slice(&64_u64.to_le_bytes());
    file[54..58].copy_from_slice(&[56, 0, u8::from(loader.is_some()), 0]);
    if let Some(loader) = loader {
        let name = [loader.as_os_str().as_bytes(), b"\0"].concat();
        let mut header = [0_u8; 56];
        header[0] = 3;
        header[8..16].copy_from_slice(&120_u64.to_le_bytes());
        header[32..40].copy_from_slice(&(name.len() as u64).to_le_bytes());
        file.extend(header);
        file.extend(name);
    }
    file
}

fn file(path: impl Into<PathBuf>) -> Needed {
    Needed::File(path.into())
}

/// What a name needs, in order, on this machine: computed by other means than the code under test.
fn last_file(target: &Target) -> &Path {
    match target.files.last() {
        Some(Needed::File(path)) => path,
        other => panic!("{other:?}"),
    }
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

#[test]
fn a_word_with_a_slash_is_that_file() {
    let place = Place::new();
    let tool = place.program("tool");
    let target = place.resolve("./tool").unwrap();
    assert_eq!(
        target,
        Target {
            word: "./tool".into(),
            literal: "./tool".into(),
            exec: tool.clone(),
            file: tool.clone(),
            files: vec![file(&tool)],
            script_without_shebang: false,
        }
    );
    assert_eq!(place.resolve(&tool).unwrap().exec, tool);
}

#[test]
fn the_exec_name_is_normal_and_literal() {
    let place = Place::new();
    place.dir("sub/deep");
    let tool = place.program("tool");
    let link = place.link("ls", "tool");
    let target = place.resolve(".//sub/.././/ls").unwrap();
    assert_eq!(target.exec, place.at("ls"));
    assert_eq!(target.literal, Path::new(".//sub/.././/ls"));
    assert_eq!(target.word, ".//sub/.././/ls");
    assert_eq!(target.files, [Needed::Directory(place.at("sub")), link, file(&tool)]);
}

#[test]
fn dot_dot_behind_a_link_leads_where_the_link_leads() {
    let place = Place::new();
    place.dir("real/inner");
    place.program("tool");
    let tool = place.program("real/tool");
    let link = place.link("short", "real/inner");
    let target = place.resolve("short/../tool").unwrap();
    assert_eq!(target.exec, tool);
    assert_eq!(target.files, [link, Needed::Directory(place.at("real/inner")), file(&tool)]);
}

#[test]
fn directories_left_again_are_named_only_when_nothing_else_makes_them() {
    let place = Place::new();
    let tool = place.program("tool");
    let name = place.root.file_name().unwrap().to_owned();
    let word = Path::new("..").join(name).join("tool");
    assert_eq!(place.resolve(word).unwrap().files, [file(&tool)]);
    // `..` at the root stays there, and behind a `/bin` that is a link it leads to where the link leads.
    let exec = place.resolve("/../../bin/../bin/sh").unwrap().exec;
    assert_eq!(exec, Path::new("/bin").canonicalize().unwrap().with_file_name("bin/sh"));
}

#[test]
fn every_link_of_a_chain_is_needed_in_order() {
    let place = Place::new();
    place.dir("opt/v2");
    place.dir("alternatives");
    let tool = place.program("opt/v2/tool");
    let expected = [
        place.link("awk", place.at("alternatives/awk")),
        place.link("alternatives/awk", "../current/tool"),
        place.link("current", "opt/v2/"),
        file(&tool),
    ];
    let target = place.resolve("./awk").unwrap();
    assert_eq!(target.files, expected);
    assert_eq!(target.exec, place.at("awk"));
    assert_eq!(target.file, tool);
}

#[test]
fn an_absolute_link_restarts_at_the_root_and_nothing_is_named_twice() {
    let place = Place::new();
    let shell = place.program("shell");
    let link = place.link("sh", place.at("shell"));
    let script = place.file("s", 0o755, format!("#!{}\n", place.at("sh").display()));
    let again = place.file("t", 0o755, format!("#!{}\n", script.display()));
    let target = place.resolve("./t").unwrap();
    assert_eq!(target.files, [file(again), file(script), link, file(shell)]);
}

#[test]
fn forty_links_pass_and_one_more_does_not() {
    let place = Place::new();
    place.program("l0");
    for index in 1..=41 {
        place.link(format!("l{index}"), format!("l{}", index - 1));
    }
    assert_eq!(place.resolve("./l40").unwrap().files.len(), 41);
    place.refused("./l41", "too many levels of symbolic links");
    assert!(fs::File::open(place.at("l40")).is_ok(), "the kernel agrees");
    assert!(fs::File::open(place.at("l41")).is_err(), "the kernel agrees");
    place.link("loop", "loop");
    place.refused("./loop", "too many levels of symbolic links");
}

#[test]
fn what_exists_and_is_no_program_is_126() {
    let place = Place::new();
    place.file("plain", 0o644, "");
    place.dir("dir");
    place.program("tool");
    place.link("door", "dir");
    nix::unistd::mkfifo(&place.at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    place.refused("./plain", "has no execute permission");
    place.refused("./dir", "is a directory");
    place.refused("./dir/", "is a directory");
    place.refused("./door", "is a directory");
    place.refused(".", "is a directory");
    place.refused("..", "is a directory");
    place.refused("/", "is a directory");
    place.refused("./fifo", "is not a regular file");
    place.refused("./tool/", "not a directory");
    place.refused("./tool/x", "not a directory");
    place.refused("./tool/../tool", "not a directory");
    place.refused(&format!("./{}", "n".repeat(300)), "file name too long");
}

#[test]
fn what_does_not_exist_is_127() {
    let place = Place::new();
    place.link("dangling", "gone");
    let path = [place.root.clone(), place.at("missing"), PathBuf::from("/usr/bin")];
    let cases = [
        ("./nosuch", "cannot find './nosuch': no such file or directory"),
        ("./dangling", "cannot find './dangling': no such file or directory"),
        ("dangling", "cannot find 'dangling' in PATH"),
        ("nosuchcmd", "cannot find 'nosuchcmd' in PATH"),
        ("", "cannot find '' in PATH"),
    ];
    for (word, text) in cases {
        assert_eq!(place.fault(&path, word), (Kind::NotFound, text.to_owned()));
    }
}

#[test]
fn the_first_program_in_path_wins_over_what_only_has_its_name() {
    let place = Place::new();
    let path: Vec<PathBuf> = ["a", "b", "c", "d"].map(|name| place.dir(name)).into();
    place.dir("a/tool");
    place.file("b/tool", 0o644, "");
    place.program("c/tool");
    place.program("d/tool");
    let target = place.resolve_in(&path, "tool").unwrap();
    assert_eq!(target.word, "tool");
    assert_eq!(target.literal, place.at("c/tool"));
    assert_eq!(target.exec, place.at("c/tool"));
    assert_eq!(
        place.fault(&path[..2], "tool"),
        (Kind::NotExecutable, "cannot execute 'tool': 'W/a/tool' is a directory".to_owned())
    );
    place.link("b/loop", "loop");
    assert_eq!(
        place.fault(&path, "loop"),
        (
            Kind::NotExecutable,
            "cannot execute 'loop': 'W/b/loop' cannot be executed: too many levels of symbolic links".to_owned()
        )
    );
    let long = "n".repeat(300);
    assert_eq!(place.fault(&path, &long).0, Kind::NotExecutable);
}

#[test]
fn directories_of_path_that_cannot_be_searched_are_skipped() {
    let place = Place::new();
    let closed = place.dir("closed");
    let open = place.dir("open");
    place.program("closed/hidden");
    place.program("plain");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let path = [closed.clone(), place.at("plain"), place.at("missing"), open];
    assert_eq!(place.fault(&path, "nosuchcmd").0, Kind::NotFound);
    let hidden = place.resolve_in(&path, "hidden");
    let direct = place.resolve("closed/hidden");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    if is_root() {
        assert!(hidden.is_ok() && direct.is_ok(), "{hidden:?} {direct:?}");
    } else {
        assert!(matches!(hidden, Err(Fault::NotFound { .. })), "{hidden:?}");
        let text = direct.unwrap_err().to_string();
        assert_eq!(text, "cannot execute 'closed/hidden': permission denied");
    }
}

#[test]
fn the_working_directory_is_not_searched_and_the_hint_says_so() {
    let place = Place::new();
    place.program("mytool");
    place.file("data", 0o644, "");
    let hints = |word: &str| Error::from(place.resolve(word).unwrap_err()).hints().to_vec();
    assert_eq!(hints("mytool"), ["the working directory is not searched; type './mytool'"]);
    assert!(hints("data").is_empty());
    assert!(hints("nosuch").is_empty());
    assert!(place.resolve_in(std::slice::from_ref(&place.root), "mytool").is_ok());
}

#[test]
fn a_script_needs_its_interpreter_and_the_loader_of_that() {
    let place = Place::new();
    let loader = place.program("ld.so");
    let shell = place.file("sh", 0o755, elf(Some(&loader)));
    let script = place.file("s", 0o755, format!("#! {} -e\n", shell.display()));
    let target = place.resolve("./s").unwrap();
    assert_eq!(target.files, [file(script), file(shell), file(loader)]);
    assert!(!target.script_without_shebang);
}

#[test]
fn a_relative_interpreter_belongs_to_the_working_directory() {
    let place = Place::new();
    place.dir("bin");
    let shell = place.program("sh");
    let script = place.file("bin/s", 0o755, "#!sh\n");
    assert_eq!(place.resolve("bin/s").unwrap().files, [file(script), file(shell)]);
}

#[test]
fn a_missing_interpreter_is_126_and_named() {
    let place = Place::new();
    place.file("s", 0o755, "#!/nope\n");
    place.file("e", 0o755, elf(Some(Path::new("/nope/ld.so"))));
    place.file("dos", 0o755, "#!/bin/sh\r\n");
    place.file("outer", 0o755, format!("#!{}\n", place.at("s").display()));
    place.refused("./s", "its interpreter '/nope' does not exist");
    place.refused("./e", "its interpreter '/nope/ld.so' does not exist");
    place.refused("./outer", "its interpreter '/nope' does not exist");
    place.refused("./dos", "its interpreter '/bin/sh\r' does not exist");
    assert_eq!(Error::from(place.resolve("./dos").unwrap_err()).hints().len(), 1);
    assert!(Error::from(place.resolve("./s").unwrap_err()).hints().is_empty());
}

#[test]
fn an_interpreter_that_is_no_program_is_126_with_the_reason() {
    let place = Place::new();
    place.dir("dir");
    place.file("plain", 0o644, "");
    for (name, reason) in [
        ("dir", "is a directory"),
        ("plain", "has no execute permission"),
        ("plain/x", "cannot be executed: not a directory"),
    ] {
        place.file("s", 0o755, format!("#!{}\n", place.at(name).display()));
        let expected = format!("cannot execute './s': its interpreter 'W/{name}' {reason}");
        assert_eq!(place.fault(&[], "./s"), (Kind::NotExecutable, expected));
    }
}

#[test]
fn chains_of_scripts_are_as_long_as_the_kernel_allows() {
    let place = Place::new();
    place.program("s0");
    for index in 1..=6 {
        let line = format!("#!{}\n", place.at(format!("s{}", index - 1)).display());
        place.file(format!("s{index}"), 0o755, line);
    }
    assert_eq!(place.resolve("./s5").unwrap().files.len(), 6);
    place.refused("./s6", "too many levels of interpreters");
    place.file("self", 0o755, format!("#!{}\n", place.at("self").display()));
    place.refused("./self", "too many levels of interpreters");
}

#[test]
fn env_lines_bring_the_program_that_env_looks_for() {
    let place = Place::new();
    let bin = place.dir("bin");
    let env = place.program("env");
    let python = place.program("bin/python3.11");
    let link = place.link("bin/python3", "python3.11");
    for argument in ["python3", "-S python3 -u", "-S A=b python3 -u", "bin/python3"] {
        let script = place.file("s", 0o755, format!("#!{} {argument}\n", env.display()));
        let target = place.resolve_in(std::slice::from_ref(&bin), "./s").unwrap();
        let expected = [file(script), file(&env), link.clone(), file(&python)];
        assert_eq!(target.files, expected, "{argument}");
    }
}

#[test]
fn what_env_will_not_find_is_left_to_env() {
    let place = Place::new();
    let bin = place.dir("bin");
    let env = place.program("env");
    place.file("bin/plain", 0o644, "");
    place.file("bin/broken", 0o755, "#!/nope\n");
    for argument in ["nope", "-S nope -u", "plain", "broken", "-S ${X}", "-i", ""] {
        let script = place.file("s", 0o755, format!("#!{} {argument}\n", env.display()));
        let target = place.resolve_in(std::slice::from_ref(&bin), "./s").unwrap();
        assert_eq!(target.files, [file(script), file(&env)], "{argument}");
    }
}

#[test]
fn env_lines_that_lead_to_each_other_end() {
    let place = Place::new();
    let env = place.program("env");
    let line = format!("#!{} self\n", env.display());
    let script = place.file("self", 0o755, line);
    let target = place.resolve_in(std::slice::from_ref(&place.root), "self").unwrap();
    assert_eq!(target.files, [file(script), file(env)]);
}

#[test]
fn a_file_that_the_kernel_does_not_know_runs_by_the_shell() {
    let place = Place::new();
    let shell = Path::new("/bin/sh").canonicalize().unwrap();
    let unknown = place.file("unknown", 0o755, "echo hello\n");
    let outer = place.file("outer", 0o755, format!("#!{}\n", unknown.display()));
    for name in ["unknown", "empty", "no-name", "outer"] {
        match name {
            "empty" => drop(place.file(name, 0o755, "")),
            "no-name" => drop(place.file(name, 0o755, "#!\n")),
            _ => {}
        }
        let target = place.resolve(format!("./{name}")).unwrap();
        assert!(target.script_without_shebang, "{name}");
        assert_eq!(target.files[0], file(place.at(name)));
        assert!(target.files.contains(&file(&shell)), "{target:?}");
        assert_eq!(target.files.contains(&file(&unknown)), name == "unknown" || name == "outer");
    }
    assert!(place.resolve("./outer").unwrap().files.contains(&file(&outer)));
}

#[test]
fn a_program_that_cannot_be_read_is_no_fault() {
    let place = Place::new();
    let tool = place.file("tool", 0o111, elf(None));
    let target = place.resolve("./tool").unwrap();
    assert_eq!(target.files, [file(tool)]);
    assert!(!target.script_without_shebang);
}

#[test]
fn a_nonsense_elf_file_is_left_to_the_kernel() {
    let place = Place::new();
    let tool = place.file("tool", 0o755, b"\x7fELF\x02");
    assert_eq!(place.resolve("./tool").unwrap().files, [file(tool)]);
}

#[test]
fn a_program_of_another_machine_may_lack_its_loader() {
    let place = Place::new();
    let mut alien = elf(Some(Path::new("/nope/ld.so")));
    alien[18..20].copy_from_slice(&[0xfe, 0xff]);
    let tool = place.file("tool", 0o755, alien);
    assert_eq!(place.resolve("./tool").unwrap().files, [file(tool)]);
}

#[test]
fn names_are_bytes() {
    let place = Place::new();
    let name = OsStr::from_bytes(b"t\xff\n o");
    let tool = place.program(Path::new(OsStr::from_bytes(b"r\xfe")));
    let link = place.link(Path::new(name), Path::new(OsStr::from_bytes(b"./r\xfe")));
    let target = place.resolve_in(std::slice::from_ref(&place.root), name).unwrap();
    assert_eq!(target.word, name);
    assert_eq!(target.exec, place.at(Path::new(name)));
    assert_eq!(target.files, [link, file(tool)]);
}

#[test]
fn the_programs_of_this_machine_resolve() {
    let place = Place::new();
    for word in ["sh", "env", "ls"] {
        let target = place.resolve_in(&path_entries(None), word).unwrap();
        assert_eq!(target.file, target.exec.canonicalize().unwrap());
        for needed in &target.files {
            match needed {
                Needed::Link { at, text } => {
                    assert_eq!(fs::read_link(at).unwrap(), *text);
                    let parent = at.parent().unwrap();
                    assert_eq!(parent.canonicalize().unwrap(), parent);
                }
                Needed::File(path) => assert_eq!(path.canonicalize().unwrap(), *path),
                Needed::Directory(path) => panic!("{path:?}"),
            }
        }
        assert!(last_file(&target).is_absolute());
    }
}

#[test]
fn path_entries_are_absolute() {
    let entries = |text: &str| path_entries(Some(OsStr::new(text)));
    let default: Vec<PathBuf> = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from).into();
    assert_eq!(entries("/a:.:b::/c/:../d"), [Path::new("/a"), Path::new("/c/")]);
    assert_eq!(entries(""), default);
    assert_eq!(entries(".::bin"), default);
    assert_eq!(path_entries(None), default);
    let bytes = OsStr::from_bytes(b"/\xff:/b");
    assert_eq!(path_entries(Some(bytes))[0].as_os_str(), OsStr::from_bytes(b"/\xff"));
}
