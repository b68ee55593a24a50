use std::ffi::OsStr;

use super::*;

/// An entry of a regular file, or of another mode.
fn entry(version: u32, name: &[u8], mode: u32, before: &[u8]) -> Vec<u8> {
    let mut entry = vec![0; 24];
    entry.extend(mode.to_be_bytes());
    entry.extend([0; 8]);
    entry.extend(7_u32.to_be_bytes());
    entry.extend([0xab; 20]);
    entry.extend(u16::try_from(name.len().min(0xfff)).unwrap().to_be_bytes());
    if version == 4 {
        let common = name.iter().zip(before).take_while(|(one, other)| one == other).count();
        let dropped = before.len() - common;
        // One more in the higher part, as the format has it.
        if dropped >= 128 {
            entry.push(0x80 | u8::try_from((dropped >> 7) - 1).unwrap());
        }
        entry.push(u8::try_from(dropped & 0x7f).unwrap());
        entry.extend(&name[common..]);
        entry.push(0);
    } else {
        entry.extend(name);
        entry.resize((entry.len() + 8) & !7, 0);
    }
    entry
}

const FILE: u32 = 0o100_644;

fn index(version: u32, names: &[(&[u8], u32)]) -> Vec<u8> {
    let mut index = b"DIRC".to_vec();
    index.extend(version.to_be_bytes());
    index.extend(u32::try_from(names.len()).unwrap().to_be_bytes());
    let mut before: &[u8] = b"";
    for (name, mode) in names {
        index.extend(entry(version, name, *mode, before));
        before = name;
    }
    index.extend([0; 20]);
    index
}

fn names(index: &[u8]) -> Option<Vec<String>> {
    let tracked = parse(index, false, &mut Budget::default()).ok()?;
    Some(tracked.names.keys().map(|name| name.display().to_string()).collect())
}

#[test]
fn every_version_keeps_files_and_submodules_below_a_dot() {
    let long = [b"z/".as_slice(), &[b'x'; 250], b"/.y"].concat();
    let all: &[(&[u8], u32)] = &[
        (b".a", FILE),
        (b".d/x", FILE),
        (b".d/y", 0o100_755),
        (b".link", 0o120_000),
        (b".module", 0o160_000),
        (b".sparse/", 0o040_000),
        (b"a.b/c.d", FILE),
        (b"plain", FILE),
        (b"sub/.b", FILE),
        (&long, FILE),
        (b"zz/.c", FILE),
    ];
    let long = String::from_utf8(long.clone()).unwrap();
    for version in 2..=4 {
        assert_eq!(
            names(&index(version, all)).unwrap(),
            [".a", ".d/x", ".d/y", ".module", "sub/.b", &long, "zz/.c"],
            "{version}"
        );
    }
    let tracked = parse(&index(2, all)[..], false, &mut Budget::default()).unwrap();
    assert_eq!(tracked.names[OsStr::new(".a")], Stamp { size: 7, hash: Hash::Sha1([0xab; 20]), submodule: false });
    let below: Vec<_> = tracked.below(Path::new(".d")).collect();
    assert_eq!(below, [Path::new(".d/x"), Path::new(".d/y")]);
    assert_eq!(tracked.below(Path::new(".")).count(), 0);
}

#[test]
fn an_extended_entry_has_two_bytes_more() {
    let mut extended = index(3, &[(b".skipped", FILE)]);
    let flags = 12 + 60;
    extended[flags] = 0x40;
    extended.splice(flags + 2..flags + 2, [0x40, 0]);
    // Two bytes less of padding, or eight more.
    assert_eq!(names(&[&extended[..12 + 64 + 8], &[0; 28]].concat()), Some(vec![".skipped".into()]));
}

#[test]
fn what_is_malformed_is_no_index() {
    let good = index(2, &[(b".a", FILE), (b"b/.c", FILE)]);
    assert!(names(&good).is_some());
    for cut in 0..good.len() - 20 {
        assert_eq!(names(&good[..cut]), None, "cut at {cut}");
    }
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        names(&bytes)
    };
    for (at, byte) in [(0, b'X'), (7, 1), (7, 5), (8, 0x10)] {
        assert_eq!(with(at, byte), None, "{at} {byte}");
    }
    for version in 2..=4 {
        for name in [&b""[..], b"/.a", b".a/", b".a//b", b"../.a", b".a/../b", b"./.a", &[b'.'; 4096]] {
            assert_eq!(names(&index(version, &[(name, FILE)])), None, "{version} {}", name.escape_ascii());
        }
    }
    // More of a name dropped than there is.
    let mut compressed = index(4, &[(b".a", FILE)]);
    compressed[12 + 62] = 1;
    assert_eq!(names(&compressed), None);
    compressed.splice(12 + 62..12 + 63, [0xff; 9]);
    assert_eq!(names(&compressed), None);
}

/// Whatever the bytes are, reading them ends, and no name leads out of the work tree.
#[test]
fn any_bytes() {
    use proptest::prelude::*;
    let good = index(4, &[(b".a", FILE), (b".d/x", FILE), (b"b/.c", FILE)]);
    proptest!(|(at in 0..good.len(), byte: u8, other in 0..good.len(), more: u8)| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes[other] = more;
        for name in names(&bytes).unwrap_or_default() {
            prop_assert!(!name.starts_with('/') && !name.split('/').any(|part| part == ".."), "{name}");
        }
    });
}

#[test]
fn the_same_content_and_no_other() {
    let top = tempfile::tempdir().unwrap();
    let top = fs::canonicalize(top.path()).unwrap();
    fs::create_dir(top.join(".d")).unwrap();
    fs::write(top.join(".d/f"), "hello\n").unwrap();
    std::os::unix::fs::symlink(".d", top.join(".l")).unwrap();
    std::os::unix::fs::symlink("f", top.join(".d/l")).unwrap();
    nix::unistd::mkfifo(&top.join(".d/fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    // git hash-object, in each format.
    let hex = |text: &str| {
        (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect::<Vec<_>>()
    };
    let sha1 = Hash::Sha1(hex("ce013625030ba8dba906f756967f9e9ca394464a").try_into().unwrap());
    let sha256 = "2cf8d83d9ee29543b34a87727421fdecb7e3f3a183d337639025de576db9ebb4";
    let sha256 = Hash::Sha256(hex(sha256).try_into().unwrap());
    for hash in [sha1, sha256] {
        let stamp = |size| Stamp { size, hash: hash.clone(), submodule: false };
        let names = [".d/f", ".d/l", ".d/fifo", ".l/f", ".d/none"].map(|name| (name.into(), stamp(6)));
        let mut tracked = Tracked { names: names.into_iter().collect() };
        let state = |tracked: &Tracked, name: &str, budget: u64| {
            tracked.state(&top, Path::new(name), &mut Budget { files: budget, indexes: 0 })
        };
        assert_eq!(state(&tracked, ".d/f", 6), State::Same);
        assert_eq!(state(&tracked, ".d/f", 5), State::Changed, "the bound");
        for name in [".d/l", ".d/fifo", ".l/f", ".d/none", ".d", "f"] {
            assert_eq!(state(&tracked, name, 99), State::Gone, "{name}");
        }
        for (size, expected) in [(0, State::Same), (7, State::Changed)] {
            tracked.names.insert(".d/f".into(), stamp(size));
            assert_eq!(state(&tracked, ".d/f", 99), expected, "{size}");
        }
        fs::write(top.join(".d/f"), "hellO\n").unwrap();
        tracked.names.insert(".d/f".into(), stamp(6));
        assert_eq!(state(&tracked, ".d/f", 99), State::Changed);
        fs::write(top.join(".d/f"), "hello\n").unwrap();
    }
}

#[test]
fn names_that_no_file_can_have_are_left_out() {
    let deep = |depth: usize| [b".d/".repeat(depth - 1).as_slice(), b"x"].concat();
    let wide = |length: usize| [b".", vec![b'x'; length - 1].as_slice()].concat();
    let [deepest, deeper, widest, wider] =
        [deep(DEEPEST), deep(DEEPEST + 1), wide(LONGEST_PART), wide(LONGEST_PART + 1)];
    for version in [2, 4] {
        let all: [(&[u8], u32); 4] = [(&deepest, FILE), (&deeper, FILE), (&widest, FILE), (&wider, FILE)];
        let kept = names(&index(version, &all)).unwrap();
        let expected = [&deepest, &widest].map(|name| String::from_utf8(name.clone()).unwrap());
        assert_eq!(kept, expected, "{version}");
    }
}

#[test]
fn a_small_index_of_long_names_is_not_read_to_its_end() {
    let long: Vec<_> = (0..1000).map(|number| format!("{}{number:04}", "x/".repeat(1900)).into_bytes()).collect();
    let all: Vec<(&[u8], u32)> = long.iter().map(|name| (name.as_slice(), FILE)).collect();
    let bytes = index(4, &all);
    assert!(bytes.len() < 100_000, "{}", bytes.len());
    let read = |indexes| parse(&bytes[..], false, &mut Budget { files: 0, indexes }).map(drop);
    assert_eq!(read(1000 * 3800).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    read(1000 * 4000).unwrap();
    // What one repository takes is not there for the next.
    let mut budget = Budget { files: 0, indexes: 1000 * 6000 };
    parse(&bytes[..], false, &mut budget).unwrap();
    assert!(parse(&bytes[..], false, &mut budget).is_err());
}

#[test]
fn each_look_costs() {
    let mut budget = Budget { files: 3 * LOOK, indexes: 0 };
    assert!(budget.look(Path::new("a/b")));
    assert!(!budget.look(Path::new("a/b")));
    assert!(!budget.look(Path::new("a")), "it is spent");
}

#[test]
fn names_below_a_directory_are_found_whatever_lies_between() {
    let all: &[(&[u8], u32)] =
        &[(b".d", FILE), (b".d-x/y", FILE), (b".d.x", FILE), (b".d/x", FILE), (b".d/x/y", FILE), (b".d0", FILE)];
    let tracked = parse(&index(2, all)[..], false, &mut Budget::default()).unwrap();
    let below: Vec<_> = tracked.below(Path::new(".d")).collect();
    assert_eq!(below, [".d", ".d/x", ".d/x/y"].map(Path::new));
}
