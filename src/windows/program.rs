//! Which file a word means: the search for a program, as text, with the file system asked by whoever calls.
//!
//! The current directory is never searched. A batch file is no program: `cmd` would read its arguments by rules of its own.

use std::ffi::{OsStr, OsString};

use crate::plan::env::windows::{is_absolute, path_entries};

/// What is taken for a program when `PATHEXT` does not say in which order.
const EXTENSIONS: [&str; 4] = [".COM", ".EXE", ".BAT", ".CMD"];

/// What becomes of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A file to start.
    Program(OsString),
    /// A file that `cmd` would have to read.
    Batch(OsString),
    /// Nothing.
    Nothing,
    /// No name that a program can have; why.
    Refused(&'static str),
}

/// What `word` means in `directory` with this search path. `is_file` says whether there is such a file.
#[must_use]
pub fn find(
    word: &OsStr,
    directory: &OsStr,
    path: &OsStr,
    extensions: Option<&OsStr>,
    is_file: &dyn Fn(&OsStr) -> bool,
) -> Found {
    if let Some(reason) = refusal(word) {
        return Found::Refused(reason);
    }
    let extensions = order(extensions);
    let in_place = |base: OsString| -> Option<OsString> {
        let names = candidates(&base, &extensions);
        names.into_iter().find(|name| is_file(name))
    };
    let found = if has_separator(word) {
        in_place(if is_absolute(word) { word.to_owned() } else { below(directory, word) })
    } else {
        path_entries(path).iter().find_map(|entry| in_place(below(entry, word)))
    };
    match found {
        Some(name) if is_batch(&name) => Found::Batch(name),
        Some(name) => Found::Program(name),
        None => Found::Nothing,
    }
}

/// What the system would read as something else than the file of this name.
fn refusal(word: &OsStr) -> Option<&'static str> {
    let bytes = word.as_encoded_bytes();
    let name = bytes.rsplit(|byte| matches!(byte, b'\\' | b'/')).next().unwrap_or_default();
    let rest = if bytes.get(1) == Some(&b':') { &bytes[2..] } else { bytes };
    if name.is_empty() {
        Some("it is the name of a directory")
    } else if bytes.starts_with(br"\\?\") || bytes.starts_with(br"\\.\") {
        Some("it is the name of a device")
    } else if bytes.get(1) == Some(&b':') && !is_absolute(word) {
        Some("it depends on the current directory of a drive")
    } else if rest.contains(&b':') {
        Some("it is the name of a stream in a file")
    } else if name.ends_with(b".") || name.ends_with(b" ") {
        // The system takes these off: `x.bat.` is a batch file.
        Some("it ends with a dot or a blank, which the system takes off")
    } else if is_device(name) {
        Some("it is the name of a device")
    } else if bytes.iter().any(|byte| matches!(byte, b'"' | b'*' | b'?' | b'<' | b'>' | b'|' | 0..0x20)) {
        Some("no file has such a name")
    } else {
        None
    }
}

/// Names that mean a device in every directory, with any ending.
#[must_use]
pub fn is_device(name: &[u8]) -> bool {
    let stem = name.split(|byte| *byte == b'.').next().unwrap_or_default();
    let stem = stem.trim_ascii_end().to_ascii_uppercase();
    match stem.as_slice() {
        b"CON" | b"PRN" | b"AUX" | b"NUL" | b"CONIN$" | b"CONOUT$" => true,
        [b'C', b'O', b'M', digit] | [b'L', b'P', b'T', digit] => digit.is_ascii_digit(),
        _ => false,
    }
}

/// The endings of programs in the order in which they are tried.
fn order(extensions: Option<&OsStr>) -> Vec<String> {
    let told = extensions.map(|list| list.to_string_lossy().to_ascii_uppercase()).unwrap_or_default();
    // What is registered for other endings is no program that could be started.
    let mut order: Vec<String> =
        told.split(';').filter(|ending| EXTENSIONS.contains(ending)).map(str::to_owned).collect();
    order.extend(
        EXTENSIONS
            .iter()
            .filter(|ending| !told.split(';').any(|told| told == **ending))
            .map(|ending| (*ending).to_owned()),
    );
    order
}

/// The names that are tried for a word: itself if it has such an ending, otherwise with each, and in the end without any.
fn candidates(base: &OsStr, extensions: &[String]) -> Vec<OsString> {
    if extensions.iter().any(|ending| ends_with(base, ending)) {
        return vec![base.to_owned()];
    }
    let with = extensions.iter().map(|ending| {
        let mut name = base.to_owned();
        name.push(ending.to_ascii_lowercase());
        name
    });
    with.chain([base.to_owned()]).collect()
}

fn ends_with(name: &OsStr, ending: &str) -> bool {
    let (name, ending) = (name.as_encoded_bytes(), ending.as_bytes());
    name.len() > ending.len() && name[name.len() - ending.len()..].eq_ignore_ascii_case(ending)
}

/// Whether `cmd` would be started for the file.
fn is_batch(name: &OsStr) -> bool {
    [".BAT", ".CMD"].iter().any(|ending| ends_with(name, ending))
}

fn has_separator(word: &OsStr) -> bool {
    word.as_encoded_bytes().iter().any(|byte| matches!(byte, b'\\' | b'/' | b':'))
}

fn below(directory: &OsStr, name: &OsStr) -> OsString {
    let mut path = directory.to_owned();
    // `\x` begins at the root of the drive.
    if let [b'\\' | b'/', ..] = name.as_encoded_bytes() {
        let drive: String = directory.to_string_lossy().chars().take(2).collect();
        path = drive.into();
    } else if !directory.as_encoded_bytes().ends_with(b"\\") && !directory.as_encoded_bytes().ends_with(b"/") {
        path.push("\\");
    }
    path.push(name);
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [&str; 9] = [
        r"C:\W\here.exe",
        r"C:\W\sub\tool.exe",
        r"C:\root.com",
        r"C:\bin\tool.exe",
        r"C:\bin\tool.com",
        r"D:\b\script.bat",
        r"D:\b\python3.11.exe",
        r"D:\b\plain",
        r"D:\b\nul.exe",
    ];

    fn found(word: &str) -> Found {
        // As the system takes it: either separator, and nothing for a dot.
        let plain = |name: &OsStr| name.to_str().unwrap().replace('/', "\\").replace("\\.\\", "\\");
        let is_file = |name: &OsStr| FILES.iter().any(|file| plain(name).eq_ignore_ascii_case(file));
        let path = OsStr::new(r".;;C:\bin;D:\b\;rel");
        find(OsStr::new(word), OsStr::new(r"C:\W"), path, Some(OsStr::new(".vbs;.exe;.COM")), &is_file)
    }

    #[test]
    fn a_word_is_looked_for_where_it_may_be() {
        for (word, expected) in [
            ("tool", r"C:\bin\tool.exe"),
            ("tool.com", r"C:\bin\tool.com"),
            ("TOOL.EXE", r"C:\bin\TOOL.EXE"),
            ("python3.11", r"D:\b\python3.11.exe"),
            ("plain", r"D:\b\plain"),
            (r".\here", r"C:\W\.\here.exe"),
            (r"sub/tool", r"C:\W\sub/tool.exe"),
            (r"\root", r"C:\root.com"),
            (r"C:\bin\tool", r"C:\bin\tool.exe"),
        ] {
            assert_eq!(found(word), Found::Program(expected.into()), "{word}");
        }
        assert_eq!(found("script"), Found::Batch(r"D:\b\script.bat".into()));
        assert_eq!(found(r"D:\b\script.BAT"), Found::Batch(r"D:\b\script.BAT".into()));
        for word in ["here", "here.exe", "nothing", "tool.vbs", r".\nothing", r"E:\x.exe"] {
            assert_eq!(found(word), Found::Nothing, "{word}");
        }
    }

    #[test]
    fn names_that_mean_something_else_are_refused() {
        for word in [
            r"D:\b\script.bat.",
            "script.bat ",
            "script.bat::$DATA",
            r"D:\b\script.bat:x",
            "C:tool",
            "nul",
            "NUL.exe",
            r"C:\x\com1",
            r"\\?\C:\bin\tool.exe",
            r"\\.\pipe\x",
            "a\"b",
            "to*l",
            r"C:\bin\",
            "",
            "CON ",
        ] {
            assert!(matches!(found(word), Found::Refused(_)), "{word}: {:?}", found(word));
        }
        assert!(!matches!(found("console"), Found::Refused(_)));
        assert!(!matches!(found("com10"), Found::Refused(_)));
    }
}
