//! What the head of a program file says about how the kernel will start it.
//!
//! Reads a bounded part of one file and decides nothing: whether an interpreter exists is for `target` to find out.
//! Garbage is an answer, never a failure, because the kernel's own verdict comes with exec.
//!
//! Terms: an *image* is the file as the kernel sees it; a *shebang* is its `#!` line.

use std::env::consts::ARCH;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How the kernel will treat a program file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// A `#!` line names the program that runs this file.
    Script {
        /// As written; a relative name is resolved against the working directory.
        interpreter: PathBuf,
        /// The rest of the line: the kernel passes it as one argument, blanks included.
        argument: Option<OsString>,
    },
    /// An ELF file, well formed or not.
    Elf {
        /// This machine can run it by itself. Otherwise exec fails, or an emulator with a loader path of its own takes over.
        native: bool,
        /// The dynamic loader (`PT_INTERP`), as written; `None` for a static program and for a header that makes no sense.
        interpreter: Option<PathBuf>,
    },
    /// A program of macOS, there: the system has all that starts it.
    Mach,
    /// None of these: exec gives ENOEXEC unless a handler is registered with binfmt\_misc.
    Other,
    /// May be executed and not read (mode 0111), so that its head cannot be known.
    Unreadable,
}

/// What the kernel looks at to choose a format (`BINPRM_BUF_SIZE`).
const HEAD: usize = 256;

/// The kernel refuses a longer table of program headers.
const MAX_PROGRAM_HEADERS: usize = 65_536;

/// The kernel refuses a longer loader name (`PATH_MAX`, the closing NUL included).
const MAX_INTERPRETER: usize = 4096;

impl Image {
    /// Looks at the file `path`, which was a regular file a moment ago.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        let Some(file) = open(path) else { return Self::Unreadable };
        Self::parse(|offset, length| read_at(&file, offset, length))
    }

    /// `source` gives up to so many bytes at an offset, fewer only at the end of the file.
    fn parse(source: impl Fn(u64, usize) -> Vec<u8>) -> Self {
        let head = source(0, HEAD);
        if head.starts_with(b"#!") {
            return shebang(head).map_or(Self::Other, |(interpreter, argument)| Self::Script { interpreter, argument });
        }
        if head.starts_with(b"\x7fELF") {
            return Self::Elf { native: is_native(&head), interpreter: loader(&head, source) };
        }
        if cfg!(target_os = "macos") && is_mach(&head) {
            return Self::Mach;
        }
        Self::Other
    }
}

/// Whether a file begins as a program of macOS, for one processor or for several.
fn is_mach(head: &[u8]) -> bool {
    const ONE: [u32; 2] = [0xFEED_FACE, 0xFEED_FACF];
    const SEVERAL: [u32; 2] = [0xCAFE_BABE, 0xCAFE_BABF];
    let Some(first) = head.first_chunk() else { return false };
    ONE.contains(&u32::from_ne_bytes(*first)) || SEVERAL.contains(&u32::from_be_bytes(*first))
}

/// Opens for reading without waiting: the name may have been replaced by a FIFO or a link since it was resolved.
fn open(path: &Path) -> Option<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().is_ok_and(|meta| meta.is_file()).then_some(file)
}

/// Up to `length` bytes at `offset`; an error ends the data, as the end of the file does.
fn read_at(file: &File, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        let Some(position) = offset.checked_add(filled as u64) else { break };
        match file.read_at(&mut bytes[filled..], position) {
            Ok(0) | Err(_) => break,
            Ok(count) => filled += count,
        }
    }
    bytes.truncate(filled);
    bytes
}

/// The interpreter and the argument of a `#!` line by the rules of Linux (`fs/binfmt_script.c`).
///
/// `None` where the kernel says ENOEXEC: no name, or a name that may be cut off at the end of the buffer.
fn shebang(mut head: Vec<u8>) -> Option<(PathBuf, Option<OsString>)> {
    // The kernel reads into a buffer of zeros, so that a short file ends its line by a NUL.
    head.resize(HEAD, 0);
    let end = head.iter().position(|&byte| byte == b'\n' || byte == 0);
    let line = trim_blanks(&head[2..end.unwrap_or(HEAD - 1)]);
    let (name, rest) = line.split_at(line.iter().position(|&byte| is_blank(byte)).unwrap_or(line.len()));
    if name.is_empty() || (end.is_none() && rest.is_empty() && !is_blank(head[HEAD - 1])) {
        return None;
    }
    let argument = trim_blanks(rest);
    Some((
        PathBuf::from(OsStr::from_bytes(name)),
        (!argument.is_empty()).then(|| OsStr::from_bytes(argument).to_owned()),
    ))
}

/// Space and tab; no other white space counts, a carriage return least of all.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn trim_blanks(mut line: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = line
        && is_blank(*first)
    {
        line = rest;
    }
    while let [rest @ .., last] = line
        && is_blank(*last)
    {
        line = rest;
    }
    line
}

/// Where the fields of one ELF class are.
struct Class {
    /// Width of addresses and offsets.
    word: usize,
    table_offset: usize,
    entry_size: usize,
    entry_count: usize,
    /// Size of one program header; the kernel accepts no other.
    program_header: usize,
    segment_offset: usize,
    segment_size: usize,
}

const CLASS_32: Class = Class {
    word: 4,
    table_offset: 28,
    entry_size: 42,
    entry_count: 44,
    program_header: 32,
    segment_offset: 4,
    segment_size: 16,
};

const CLASS_64: Class = Class {
    word: 8,
    table_offset: 32,
    entry_size: 54,
    entry_count: 56,
    program_header: 56,
    segment_offset: 8,
    segment_size: 32,
};

const PT_INTERP: usize = 3;

/// The loader that `PT_INTERP` names; only the first one counts (`fs/binfmt_elf.c`).
///
/// `None` also for every header that the kernel would refuse: exec says so better than we can.
fn loader(head: &[u8], source: impl Fn(u64, usize) -> Vec<u8>) -> Option<PathBuf> {
    let class = match head.get(4)? {
        1 => CLASS_32,
        2 => CLASS_64,
        _ => return None,
    };
    let field = |bytes: &[u8], at, width| number(bytes, at, width, *head.get(5)?);
    let small = |bytes: &[u8], at, width| usize::try_from(field(bytes, at, width)?).ok();

    let size = small(head, class.entry_count, 2)?.checked_mul(class.program_header)?;
    if small(head, class.entry_size, 2)? != class.program_header || size > MAX_PROGRAM_HEADERS {
        return None;
    }
    let table = source(field(head, class.table_offset, class.word)?, size);
    let entry = table.chunks_exact(class.program_header).find(|entry| small(entry, 0, 4) == Some(PT_INTERP))?;
    let length = small(entry, class.segment_size, class.word)?;
    if !(2..=MAX_INTERPRETER).contains(&length) {
        return None;
    }
    let mut name = source(field(entry, class.segment_offset, class.word)?, length);
    if name.len() != length || name.last() != Some(&0) {
        return None;
    }
    name.truncate(name.iter().position(|&byte| byte == 0)?);
    Some(PathBuf::from(OsString::from_vec(name)))
}

/// Whether the machine field is one that kernels of our own architecture run without an emulator.
fn is_native(head: &[u8]) -> bool {
    let own: &[u64] = match ARCH {
        "x86" | "x86_64" => &[3, 62],
        "arm" | "aarch64" => &[40, 183],
        "riscv32" | "riscv64" => &[243],
        "powerpc" | "powerpc64" => &[20, 21],
        "s390x" => &[22],
        _ => return true,
    };
    let machine = head.get(5).and_then(|&order| number(head, 18, 2, order));
    machine.is_some_and(|machine| own.contains(&machine))
}

/// An unsigned number of `width` bytes; `order` is the byte order mark of ELF.
fn number(bytes: &[u8], at: usize, width: usize, order: u8) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(width)?)?;
    let shift = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    match order {
        1 => Some(bytes.iter().rev().fold(0, shift)),
        2 => Some(bytes.iter().fold(0, shift)),
        _ => None,
    }
}

/// The program that `#!/…/env ARGUMENT` starts, as far as the text alone tells.
///
/// `None` when there is none or when it depends on variables (`${…}` after `-S`).
#[must_use]
pub fn env_program(argument: &OsStr) -> Option<OsString> {
    let argument = argument.as_bytes();
    let words = match split_string(argument) {
        Some(text) => split(text)?,
        // Without -S the whole rest of the line is one word, blanks included.
        None => vec![argument.to_vec()],
    };
    let mut words = words.into_iter();
    let mut options = true;
    while let Some(word) = words.next() {
        match word.as_slice() {
            b"--" if options => options = false,
            [b'-', ..] if options => {
                if takes_next(&word)? {
                    words.next();
                }
            }
            _ if word.contains(&b'=') => options = false,
            _ => return Some(OsString::from_vec(word)),
        }
    }
    None
}

/// The text given to `-S` (possibly behind other short options) or `--split-string=`.
fn split_string(argument: &[u8]) -> Option<&[u8]> {
    if let Some(text) = argument.strip_prefix(b"--split-string=") {
        return Some(text);
    }
    let cluster = argument.strip_prefix(b"-")?;
    let at = cluster.iter().position(|byte| !matches!(byte, b'i' | b'v' | b'0'))?;
    cluster[at..].strip_prefix(b"S")
}

/// Long options of env, and whether each needs a value; those that start nothing are left out.
const ENV_OPTIONS: &[(&str, bool)] = &[
    ("argv0", true),
    ("block-signal", false),
    ("chdir", true),
    ("debug", false),
    ("default-signal", false),
    ("ignore-environment", false),
    ("ignore-signal", false),
    ("list-signal-handling", false),
    ("null", false),
    ("split-string", true),
    ("unset", true),
];

/// Whether an option of env takes the next word as its value; `None` for a second `-S` and for what is not known: a value that is
/// taken for the program would show a file that nobody starts.
fn takes_next(option: &[u8]) -> Option<bool> {
    if let Some(long) = option.strip_prefix(b"--") {
        let name = long.split(|byte| *byte == b'=').next().unwrap_or_default();
        // It can be cut short as long as it is no other one's beginning.
        let mut meant = ENV_OPTIONS.iter().filter(|(option, _)| option.as_bytes().starts_with(name));
        let (option, value) = meant.next().filter(|_| meant.next().is_none())?;
        return (*option != "split-string").then_some(*value && name.len() == long.len());
    }
    let letters = option.get(1..)?;
    match letters.iter().position(|byte| !matches!(byte, b'i' | b'v' | b'0')) {
        None => Some(false),
        Some(at) => matches!(letters[at], b'u' | b'C' | b'a').then_some(at + 1 == letters.len()),
    }
}

/// Splits as `env -S` of GNU coreutils does; `None` for variables, unknown escapes and open quotes.
fn split(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (None, b' ' | b'\t'..=b'\r') => words.extend(word.take()),
            (None, b'#') if word.is_none() => return Some(words),
            (None, b'\'' | b'"') => {
                word.get_or_insert_default();
                quote = Some(byte);
            }
            (Some(open), _) if open == byte => quote = None,
            (None | Some(b'"'), b'$') => return None,
            (_, b'\\') => match (quote, bytes.next()?) {
                (_, byte @ (b'\\' | b'\'')) => word.get_or_insert_default().push(byte),
                (Some(b'\''), byte) => word.get_or_insert_default().extend([b'\\', byte]),
                (_, byte @ (b'"' | b'#' | b'$')) => word.get_or_insert_default().push(byte),
                (Some(_), b'_') => word.get_or_insert_default().push(b' '),
                (None, b'_') => words.extend(word.take()),
                (None, b'c') => break,
                (_, b'f') => word.get_or_insert_default().push(b'\x0c'),
                (_, b'n') => word.get_or_insert_default().push(b'\n'),
                (_, b'r') => word.get_or_insert_default().push(b'\r'),
                (_, b't') => word.get_or_insert_default().push(b'\t'),
                (_, b'v') => word.get_or_insert_default().push(b'\x0b'),
                _ => return None,
            },
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    static OWN_HEAD: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let own = std::env::current_exe().unwrap();
        read_at(&open(&own).unwrap(), 0, 4096)
    });

    fn of(bytes: &[u8]) -> Image {
        Image::parse(|offset, length| slice(bytes, offset, length))
    }

    fn slice(bytes: &[u8], offset: u64, length: usize) -> Vec<u8> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        bytes[start..].iter().copied().take(length).collect()
    }

    #[test]
    fn programs_of_macos_are_told_by_their_first_bytes() {
        let program: [&[u8]; 4] =
            [b"\xCF\xFA\xED\xFE\x0C\0\0\x01", b"\xCE\xFA\xED\xFE", b"\xCA\xFE\xBA\xBE\0\0\0\x02", b"\xCA\xFE\xBA\xBF"];
        for head in program {
            assert!(is_mach(head), "{}", head.escape_ascii());
            // Elsewhere they are programs of nobody, and the second kind may be a class of Java.
            assert_eq!(of(head), if cfg!(target_os = "macos") { Image::Mach } else { Image::Other });
        }
        for head in [&b"\x7fELF"[..], b"#!/bin/sh\n", b"\xCF\xFA\xED", b"\xBE\xBA\xFE\xCA", b""] {
            assert!(!is_mach(head), "{}", head.escape_ascii());
        }
    }

    fn script(line: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        match of(line) {
            Image::Script { interpreter, argument } => {
                Some((interpreter.into_os_string().into_vec(), argument.map(OsStringExt::into_vec)))
            }
            Image::Other => None,
            other => panic!("{other:?}"),
        }
    }

    /// A minimal ELF file with one `PT_INTERP`, laid out far from the start of the file.
    fn elf(wide: bool, big: bool, machine: u16, name: &[u8]) -> Vec<u8> {
        let class = if wide { CLASS_64 } else { CLASS_32 };
        let mut file = vec![0; 9000];
        let mut put = |at: usize, width: usize, value: u64| {
            let bytes = if big { value.to_be_bytes() } else { value.to_le_bytes() };
            let bytes = if big { &bytes[8 - width..] } else { &bytes[..width] };
            file[at..at + width].copy_from_slice(bytes);
        };
        put(18, 2, machine.into());
        put(class.table_offset, class.word, 6000);
        put(class.entry_size, 2, class.program_header as u64);
        put(class.entry_count, 2, 3);
        put(6000, 4, 6);
        let entry = 6000 + class.program_header;
        put(entry, 4, PT_INTERP as u64);
        put(entry + class.segment_offset, class.word, 8000);
        put(entry + class.segment_size, class.word, name.len() as u64);
        file[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 1 + u8::from(wide), 1 + u8::from(big)]);
        file[8000..8000 + name.len()].copy_from_slice(name);
        file
    }

    #[test]
    fn shebang_lines() {
        let cases = [
            (&b"#!/bin/sh\n"[..], &b"/bin/sh"[..], None),
            (b"#!/bin/sh", b"/bin/sh", None),
            (b"#! \t /bin/sh  -e x \t\nrest", b"/bin/sh", Some(&b"-e x"[..])),
            (b"#!/bin/sh\r\n", b"/bin/sh\r", None),
            (b"#!/b\xff\xfe/sh \xff\n", b"/b\xff\xfe/sh", Some(b"\xff")),
            (b"#!sh\n", b"sh", None),
            (b"#!/bin/sh\0junk\n", b"/bin/sh", None),
        ];
        for (line, name, argument) in cases {
            let expected = Some((name.to_vec(), argument.map(<[u8]>::to_vec)));
            assert_eq!(script(line), expected, "{}", line.escape_ascii());
        }
        for line in [&b"#!\n/bin/sh\n"[..], b"#!", b"#!   \n", b"#", b"", b"echo hello\n"] {
            assert_eq!(script(line), None, "{}", line.escape_ascii());
        }
    }

    #[test]
    fn a_name_that_may_be_cut_off_is_no_name() {
        let line = |length: usize| [b"#!/", "x".repeat(length - 3).as_bytes()].concat();
        let full = [&line(255)[..], b"\n"].concat();
        assert_eq!(script(&full).map(|(name, _)| name.len()), Some(253));
        assert_eq!(script(&[&line(256)[..], b"\n"].concat()), None);
        let blank = [&line(255)[..], b" tail\n"].concat();
        assert_eq!(script(&blank).map(|(name, _)| name.len()), Some(253));
    }

    #[test]
    fn loaders_of_every_class_and_order() {
        for wide in [false, true] {
            for big in [false, true] {
                let Image::Elf { interpreter, .. } = of(&elf(wide, big, 62, b"/lib/\xffld.so\0")) else {
                    panic!("not ELF");
                };
                assert_eq!(interpreter, Some(PathBuf::from(OsStr::from_bytes(b"/lib/\xffld.so"))));
            }
        }
        let unterminated = of(&elf(true, false, 62, b"/lib/ld.so"));
        assert!(matches!(unterminated, Image::Elf { interpreter: None, .. }), "{unterminated:?}");
        let cut = of(&elf(true, false, 62, b"/lib/ld.so\0")[..8005]);
        assert!(matches!(cut, Image::Elf { interpreter: None, .. }), "{cut:?}");
    }

    #[test]
    fn our_own_program_is_native_and_alien_ones_are_not() {
        let own = Image::read(&std::env::current_exe().unwrap());
        assert!(matches!(own, Image::Elf { native: true, .. }), "{own:?}");
        let alien = of(&elf(true, false, 0xfffe, b"/lib/ld.so\0"));
        assert!(matches!(alien, Image::Elf { native: false, interpreter: Some(_) }), "{alien:?}");
    }

    #[test]
    fn only_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(Image::read(&fifo), Image::Unreadable);
        assert_eq!(Image::read(dir.path()), Image::Unreadable);
        assert_eq!(Image::read(&dir.path().join("missing")), Image::Unreadable);
    }

    #[test]
    fn what_env_starts() {
        let cases = [
            ("python3", Some("python3")),
            ("python3 -u", Some("python3 -u")),
            ("-S python3 -u", Some("python3")),
            ("-Spython3", Some("python3")),
            ("-vS python3 -u", Some("python3")),
            ("--split-string=python3 -u", Some("python3")),
            ("-S -i A=1 B='x y' python3", Some("python3")),
            ("-S -u NAME --chdir /tmp -C/ -- A=b python3", Some("python3")),
            ("-S -iu NAME -uNAME --unset=N python3", Some("python3")),
            ("-S --unse N --chd /tmp --argv=x --ignore-e --deb python3", Some("python3")),
            ("-S --unse=N --block-signal=INT --default python3", Some("python3")),
            ("-S --ignore python3", None),
            ("-S --de python3", None),
            ("-S --split python3 python3", None),
            ("-S --split=python3", None),
            ("--split=python3", None),
            ("-S --unknown python3", None),
            ("-S --version python3", None),
            ("-S -P /usr python3", None),
            ("-S -iP/usr python3", None),
            ("-S -ivu N - python3", Some("python3")),
            ("-S 'my python' -u", Some("my python")),
            (r#"-S "my\_py\"thon" -u"#, Some("my py\"thon")),
            (r"-S my\_python", Some("my")),
            ("-S # python3", None),
            ("-S ${PYTHON}", None),
            ("-S 'python3", None),
            ("-S -S python3", None),
            ("-S", None),
            ("-i", None),
            ("A=b", None),
        ];
        for (argument, expected) in cases {
            assert_eq!(env_program(argument.as_ref()), expected.map(OsString::from), "{argument}");
        }
        let bytes = OsStr::from_bytes(b"py\xffthon");
        assert_eq!(env_program(bytes), Some(bytes.to_owned()));
    }

    proptest! {
        #[test]
        fn damaged_headers_never_panic(
            damage in prop::collection::vec((0..4096_usize, any::<u8>()), 0..64),
            header in prop::collection::vec((0..64_usize, any::<u8>()), 0..8),
            keep in 0..4096_usize,
        ) {
            let mut head = OWN_HEAD.clone();
            for (at, byte) in damage.into_iter().chain(header) {
                head[at] = byte;
            }
            of(&head);
            of(&head[..keep]);
        }

        #[test]
        fn arbitrary_bytes_never_panic(tail in prop::collection::vec(any::<u8>(), 0..600)) {
            for magic in [&b"#!"[..], b"\x7fELF", b"\x7fELF\x01\x01", b"\x7fELF\x02\x02", b""] {
                of(&[magic, &tail].concat());
            }
            for argument in [[&b"-S "[..], &tail].concat(), tail] {
                let name = env_program(OsStr::from_bytes(&argument));
                prop_assert!(name.is_none_or(|name| !name.as_bytes().contains(&b'=')));
            }
        }
    }
}
