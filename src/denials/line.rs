//! One line of `strace -f -y`: the call, its paths, and the error.
//!
//! Whatever is not understood is passed over: a line may come from the target as well.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::Want;

/// A call and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub call: Call,
    /// The name of the error, if it is one that a sandbox gives.
    pub error: Option<String>,
}

/// A call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// As people know it.
    pub name: String,
    /// The paths it is about; relative ones to `directory` or that of the process.
    pub paths: Vec<PathBuf>,
    /// What for.
    pub want: Want,
    /// The working directory of the process, if the line tells.
    pub directory: Option<PathBuf>,
}

/// Errors by which a sandbox refuses.
const REFUSALS: [&str; 4] = ["ENOENT", "EROFS", "EACCES", "EPERM"];

/// Calls that change a directory: what makes, moves or removes a name.
const NAMING: [&str; 14] = [
    "link",
    "linkat",
    "mkdir",
    "mkdirat",
    "mknod",
    "mknodat",
    "rename",
    "renameat",
    "renameat2",
    "rmdir",
    "symlink",
    "symlinkat",
    "unlink",
    "unlinkat",
];

/// Calls that change what they name.
const CHANGING: [&str; 17] = [
    "chmod",
    "chown",
    "creat",
    "fchmodat",
    "fchmodat2",
    "fchownat",
    "futimesat",
    "lchown",
    "lremovexattr",
    "lsetxattr",
    "removexattr",
    "setxattr",
    "truncate",
    "truncate64",
    "utime",
    "utimensat",
    "utimes",
];

/// The number of the process and the rest.
pub(super) fn process(text: &str) -> Option<(u32, &str)> {
    let (number, rest) = text.split_once(' ')?;
    Some((number.parse().ok()?, rest.trim_start()))
}

/// Whether a line was cut in two by that of another process.
pub(super) enum Half<'a> {
    First(&'a str),
    Second(&'a str),
    Whole,
}

pub(super) fn half(text: &str) -> Half<'_> {
    if let Some(first) = text.strip_suffix("<unfinished ...>") {
        return Half::First(first.trim_end());
    }
    match text.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>")) {
        Some((_, second)) => Half::Second(second),
        None => Half::Whole,
    }
}

/// A call of any kind, before its arguments are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Raw<'a> {
    /// As the kernel knows it.
    pub name: &'a str,
    /// Between the brackets.
    pub arguments: &'a str,
    /// The name of the error, or what the call gave.
    pub result: Result<&'a str, &'a str>,
}

/// Takes a whole line apart.
pub(super) fn raw(text: &str) -> Option<Raw<'_>> {
    let (name, rest) = text.split_once('(')?;
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_') {
        return None;
    }
    let (arguments, result) = rest.rsplit_once(" = ")?;
    let arguments = arguments.trim_end().strip_suffix(')')?;
    let result = match result.strip_prefix("-1 ") {
        Some(error) => Err(error.split(' ').next().unwrap_or_default()),
        None => Ok(result),
    };
    Some(Raw { name, arguments, result })
}

/// The file that a call which gave a descriptor has opened, as the kernel names it.
pub(super) fn opened(result: &str) -> Option<PathBuf> {
    let (number, rest) = result.split_once('<')?;
    let path = unescape(rest.split_once('>')?.0);
    (number.bytes().all(|byte| byte.is_ascii_digit()) && path.is_absolute()).then_some(path)
}

/// The text of a C string whose opening quote has gone by.
pub(super) fn string(text: &str) -> Option<PathBuf> {
    Some(unescape(&text[..closing(text)?]))
}

/// What a whole line says of files.
pub(super) fn parse(text: &str) -> Option<Line> {
    let name = raw(text)?.name;
    let (_, rest) = text.split_once('(')?;
    let Arguments { quoted, rest: tail, directory, working } = arguments(rest)?;
    let (_, result) = tail.rsplit_once(" = ")?;
    let error = match result.strip_prefix("-1 ") {
        Some(error) => {
            let word = error.split(' ').next().unwrap_or_default();
            // A name that something is mounted on stays.
            let kept = (word == "EBUSY" && NAMING.contains(&name)).then_some(&"EBUSY");
            Some(REFUSALS.iter().find(|refusal| **refusal == word).or(kept)?.to_string())
        }
        // A success is of interest for the working directory only.
        None => None,
    };
    let flags = |flag: &str| tail.contains(flag);
    let opens = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].into_iter().any(flags);
    let want = if NAMING.contains(&name) {
        Want::Name
    } else if CHANGING.contains(&name) || opens || name.contains("access") && flags("W_OK") {
        Want::Write
    } else {
        Want::Read
    };
    let wanted = match name {
        // The text of the link names nothing yet.
        "symlink" | "symlinkat" => 1..2,
        "rename" | "renameat" | "renameat2" | "link" | "linkat" => 0..2,
        _ => 0..1,
    };
    let paths =
        quoted.into_iter().enumerate().filter(|(index, path)| wanted.contains(index) && !path.as_os_str().is_empty());
    let paths = paths.map(|(_, path)| match &directory {
        Some(directory) => directory.join(path),
        None => path,
    });
    let name = match name {
        "openat" | "openat2" => "open",
        "newfstatat" | "fstatat64" | "statx" | "stat64" | "lstat64" => "stat",
        "faccessat" | "faccessat2" => "access",
        name => {
            name.strip_suffix("at2").or_else(|| name.strip_suffix("at")).filter(|short| short.len() > 3).unwrap_or(name)
        }
    };
    Some(Line { call: Call { name: name.to_owned(), paths: paths.collect(), want, directory: working }, error })
}

struct Arguments<'a> {
    /// Strings among the arguments, not those in lists or structures.
    quoted: Vec<PathBuf>,
    /// What stands outside of strings, from the first on.
    rest: &'a str,
    /// Where the first descriptor among the arguments leads.
    directory: Option<PathBuf>,
    /// The same of `AT_FDCWD`.
    working: Option<PathBuf>,
}

fn arguments(text: &str) -> Option<Arguments<'_>> {
    let mut found = Arguments { quoted: Vec::new(), rest: "", directory: None, working: None };
    let mut depth = 0_u32;
    let mut bytes = text.bytes().enumerate();
    let mut word = 0;
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => {
                let length = closing(&text[at + 1..])?;
                if depth == 0 {
                    found.quoted.push(unescape(&text[at + 1..at + 1 + length]));
                }
                bytes.nth(length);
                found.rest = text.get(at + length + 2..)?;
            }
            b'<' if depth == 0 && found.quoted.is_empty() => {
                let end = text[at..].find('>')?;
                let path = unescape(&text[at + 1..at + end]);
                let current = text[word..at].ends_with("AT_FDCWD");
                if path.is_absolute() {
                    found.working = current.then(|| path.clone());
                    found.directory.get_or_insert(path);
                }
                bytes.nth(end - 1);
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' => word = at + 1,
            b')' if depth == 0 => break,
            _ => {}
        }
    }
    // Without a path there is nothing to tell.
    (!found.quoted.is_empty()).then_some(found)
}

/// Length of a string up to its closing quote.
fn closing(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

/// The bytes that strace wrote as a C string.
fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let digits = rest.iter().take(3).take_while(|byte| (b'0'..=b'7').contains(*byte)).count();
        if digits > 0 {
            let value = rest[..digits].iter().fold(0_u32, |value, digit| value * 8 + u32::from(digit - b'0'));
            bytes.push(u8::try_from(value & 0xff).unwrap_or_default());
            rest = &rest[digits..];
            continue;
        }
        let Some((&letter, tail)) = rest.split_first() else { break };
        rest = tail;
        bytes.push(match letter {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'f' => 0x0c,
            b'v' => 0x0b,
            other => other,
        });
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_any_kind() {
        for (text, expected) in [
            (
                "unshare(CLONE_NEWUSER)            = -1 EPERM (Operation not permitted)",
                Some(("CLONE_NEWUSER", Err("EPERM"))),
            ),
            ("mount(\"a = b\", NULL) = -1 EPERM (x)", Some(("\"a = b\", NULL", Err("EPERM")))),
            ("openat(AT_FDCWD</w>, \"f\", O_RDONLY) = 3</w/f>", Some(("AT_FDCWD</w>, \"f\", O_RDONLY", Ok("3</w/f>")))),
            ("getpid() = 7", Some(("", Ok("7")))),
            ("+++ exited with 0 +++", None),
            ("Unshare(1) = 0", None),
            ("unshare(", None),
        ] {
            assert_eq!(raw(text).map(|raw| (raw.arguments, raw.result)), expected, "{text}");
        }
        for (result, expected) in [
            ("3</w/f>", Some("/w/f")),
            ("3</w/f>(deleted)", Some("/w/f")),
            ("3</w/\\76>", Some("/w/>")),
            ("3<socket:[7]>", None),
            ("3", None),
            ("x</w>", None),
        ] {
            assert_eq!(opened(result), expected.map(PathBuf::from), "{result}");
        }
    }

    fn call(text: &str) -> (String, Vec<String>, bool, Option<String>) {
        let Line { call, error } = parse(text).unwrap();
        (call.name, call.paths.iter().map(|path| path.display().to_string()).collect(), call.want != Want::Read, error)
    }

    #[test]
    fn lines_as_strace_writes_them() {
        let refused = |error: &str| Some(error.to_owned());
        for (line, name, paths, write, error) in [
            (
                "openat(AT_FDCWD</w>, \"/usr/x\", O_WRONLY|O_CREAT|O_CLOEXEC, 0777) = -1 EROFS (Read-only file system)",
                "open",
                &["/usr/x"][..],
                true,
                refused("EROFS"),
            ),
            (
                "mkdir(\"/n/x\", 0777)            = -1 ENOENT (No such file or directory)",
                "mkdir",
                &["/n/x"],
                true,
                refused("ENOENT"),
            ),
            (
                "rename(\"/n/a\", \"/b\") = -1 EACCES (Permission denied)",
                "rename",
                &["/n/a", "/b"],
                true,
                refused("EACCES"),
            ),
            (
                "symlink(\"t\", \"/n/l\") = -1 ENOENT (No such file or directory)",
                "symlink",
                &["/n/l"],
                true,
                refused("ENOENT"),
            ),
            (
                "execve(\"/n\", [\"a\", \"b = c\"], 0x7f /* 3 vars */) = -1 ENOENT (No such file or directory)",
                "execve",
                &["/n"],
                false,
                refused("ENOENT"),
            ),
            (
                "rename(\"/n/a\", \"/b\") = -1 EBUSY (Device or resource busy)",
                "rename",
                &["/n/a", "/b"],
                true,
                refused("EBUSY"),
            ),
            ("access(\"/n\", W_OK) = -1 EROFS (Read-only file system)", "access", &["/n"], true, refused("EROFS")),
            (
                "statx(AT_FDCWD</w>, \"/m\", AT_STATX_SYNC_AS_STAT, STATX_MODE, 0x7) = -1 ENOENT (No such file)",
                "stat",
                &["/m"],
                false,
                refused("ENOENT"),
            ),
            (
                "unlinkat(4</d>, \"f\", 0) = -1 EROFS (Read-only file system)",
                "unlink",
                &["/d/f"],
                true,
                refused("EROFS"),
            ),
            (
                "chmod(\"/n/\\n\\\"\\303\\251\", 0700) = -1 EPERM (Operation not permitted)",
                "chmod",
                &["/n/\n\"é"],
                true,
                refused("EPERM"),
            ),
            ("chdir(\"/usr\")                     = 0", "chdir", &["/usr"], false, None),
            ("newfstatat(3</a\\74b>, \"\", {st_mode=S_IFREG|0644, ...}, AT_EMPTY_PATH) = 0", "stat", &[], false, None),
        ] {
            let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
            assert_eq!(call(line), (name.to_owned(), paths, write, error), "{line}");
        }
    }

    #[test]
    fn what_is_no_such_line() {
        for line in [
            "",
            "openat(",
            "openat(AT_FDCWD, \"/x",
            "openat(AT_FDCWD</x, \"/x\", 0) = -1",
            "--- SIGCHLD {} ---",
            "+++ exited with 0 +++",
            "open(\"/x\", O_RDONLY) = -1 ELOOP (Too many)",
            "open(\"/x\\",
            "O(\"/x\") = -1 ENOENT",
            "getcwd(0) = 5",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
