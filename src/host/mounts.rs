//! Where file systems are mounted, and so under which names one file can be reached.
//!
//! Reads the kernel's list and nothing else. A name here is a path without links. Two file systems that show the same files
//! (overlays, file servers of this machine) are two to the kernel, and to us.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// What the kernel appends to the root of a mount that was removed since.
const REMOVED: &[u8] = b"//deleted";

/// All mounts of this process.
#[derive(Debug, Default)]
pub struct Mounts {
    all: Vec<Mount>,
    /// By the mount below and the place: the one that was made last lies on top.
    on: HashMap<(u32, PathBuf), usize>,
    /// Those with a file that another one has as well.
    twice: Vec<usize>,
}

#[derive(Debug)]
struct Mount {
    id: u32,
    below: u32,
    /// The file system.
    device: String,
    /// What of it is mounted.
    root: PathBuf,
    point: PathBuf,
    read_only: bool,
    /// The type of the file system.
    kind: String,
}

/// A file, by its place in its file system.
#[derive(Debug, PartialEq, Eq)]
struct Place<'a> {
    device: &'a str,
    path: PathBuf,
}

/// The kernel's list of the mounts of this process, as it is.
pub fn table() -> io::Result<Vec<u8>> {
    // It has no length that could be asked for.
    let mut list = Vec::with_capacity(16 << 10);
    File::open("/proc/self/mountinfo")?.read_to_end(&mut list)?;
    Ok(list)
}

impl Mounts {
    /// Those of this process; none where the list cannot be read.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self::parse(&table().unwrap_or_default())
    }

    fn parse(list: &[u8]) -> Self {
        let all: Vec<Mount> = list.split(|byte| *byte == b'\n').filter_map(Mount::parse).collect();
        let on = all.iter().enumerate().map(|(number, mount)| ((mount.below, mount.point.clone()), number)).collect();
        let mut devices: HashMap<&str, Vec<usize>> = HashMap::new();
        for (number, mount) in all.iter().enumerate() {
            devices.entry(&mount.device).or_default().push(number);
        }
        let mut twice = Vec::new();
        for same in devices.values() {
            let overlap = |one: usize, other: usize| {
                let (one, other) = (&all[one].root, &all[other].root);
                one.starts_with(other) || other.starts_with(one)
            };
            twice.extend(same.iter().filter(|one| same.iter().any(|other| other != *one && overlap(**one, *other))));
        }
        twice.sort_unstable();
        Self { all, on, twice }
    }

    /// Whether any file has two names by mounts.
    #[must_use]
    pub fn give_second_names(&self) -> bool {
        !self.twice.is_empty()
    }

    /// The other names of what is at `path`; of those that can be written only, if `write`.
    #[must_use]
    pub fn names(&self, path: &Path, write: bool) -> Vec<PathBuf> {
        let Some(place) = self.place(path).filter(|_| self.give_second_names()) else { return Vec::new() };
        let mounts = self.second(&place, write);
        let names = mounts.filter_map(|mount| Some(joined(&mount.point, place.path.strip_prefix(&mount.root).ok()?)));
        names.filter(|name| name != path && self.place(name).as_ref() == Some(&place)).collect()
    }

    /// The other names of `path`, whose directory is there and which need not be.
    #[must_use]
    pub fn names_of_entry(&self, path: &Path, write: bool) -> Vec<PathBuf> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
        self.names(above, write).into_iter().map(|above| above.join(name)).collect()
    }

    /// Mounts that show a part of what is in the directory `path`, and lie outside of it.
    #[must_use]
    pub fn parts(&self, path: &Path, write: bool) -> Vec<PathBuf> {
        let Some(place) = self.place(path).filter(|_| self.give_second_names()) else { return Vec::new() };
        let parts = self.twice.iter().map(|number| &self.all[*number]).filter(|mount| {
            mount.device == place.device
                && mount.root != place.path
                && mount.root.starts_with(&place.path)
                && !mount.point.starts_with(path)
                && !(write && mount.read_only)
        });
        let seen = |point: &PathBuf| self.top(point).is_some_and(|top| top.point == *point);
        parts.map(|mount| mount.point.clone()).filter(seen).collect()
    }

    /// Mounts of file systems whose type is one of those, as far as they are seen: where they are, and the type.
    pub fn of_kind(&self, is_one: impl Fn(&str) -> bool) -> impl Iterator<Item = (&Path, &str)> {
        let those = self.all.iter().filter(move |mount| is_one(&mount.kind));
        let seen = those.filter(|mount| self.top(&mount.point).is_some_and(|top| top.id == mount.id));
        seen.map(|mount| (mount.point.as_path(), mount.kind.as_str()))
    }

    /// The type of the file system in which `path` lies.
    #[must_use]
    pub fn kind(&self, path: &Path) -> Option<&str> {
        Some(self.top(path)?.kind.as_str())
    }

    fn second<'a>(&'a self, place: &'a Place, write: bool) -> impl Iterator<Item = &'a Mount> {
        let mounts = self.twice.iter().map(|number| &self.all[*number]);
        mounts.filter(move |mount| {
            mount.device == place.device && place.path.starts_with(&mount.root) && !(write && mount.read_only)
        })
    }

    fn place(&self, path: &Path) -> Option<Place<'_>> {
        let mount = self.top(path)?;
        let below = path.strip_prefix(&mount.point).ok()?;
        Some(Place { device: &mount.device, path: joined(&mount.root, below) })
    }

    /// The mount on which `path` lies.
    fn top(&self, path: &Path) -> Option<&Mount> {
        let known = |id: u32| self.all.iter().any(|mount| mount.id == id);
        let mut top = self.all.iter().find(|mount| !known(mount.below) || mount.below == mount.id)?;
        let mut ways: Vec<&Path> = path.ancestors().collect();
        ways.reverse();
        for at in ways {
            // As many as there are: each lies on the one before.
            for _ in 0..self.all.len() {
                let Some(number) = self.on.get(&(top.id, at.to_owned())) else { break };
                let next = &self.all[*number];
                if next.id == top.id {
                    break;
                }
                top = next;
            }
        }
        Some(top)
    }
}

impl Mount {
    /// From a line of `mountinfo` (`proc_pid_mountinfo(5)`).
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let mut word = || fields.next().map(|field| String::from_utf8_lossy(field).into_owned());
        let (id, below, device) = (word()?.parse().ok()?, word()?.parse().ok()?, word()?);
        let (root, point, options) = (fields.next()?, fields.next()?, fields.next()?);
        let kind = fields.skip_while(|field| *field != b"-").nth(1).map(String::from_utf8_lossy).unwrap_or_default();
        let read_only = options.split(|byte| *byte == b',').any(|option| option == b"ro");
        let removed = root.ends_with(REMOVED);
        (!removed).then(|| Self {
            id,
            below,
            device,
            root: unescaped(root),
            point: unescaped(point),
            read_only,
            kind: kind.into_owned(),
        })
    }
}

/// A join that adds no slash where nothing follows.
fn joined(above: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { above.to_owned() } else { above.join(below) }
}

/// Where the mount of a line of `mountinfo` is.
#[must_use]
pub fn point(line: &[u8]) -> Option<PathBuf> {
    line.split(|byte| *byte == b' ').nth(4).map(unescaped)
}

/// The number that the kernel gives to the mount of a line of `mountinfo`.
#[must_use]
pub fn number(line: &[u8]) -> Option<u64> {
    str::from_utf8(line.split(|byte| *byte == b' ').next()?).ok()?.parse().ok()
}

/// A path in which blanks and backslashes are octal numbers.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| *first == b'\\').and_then(|digits| str::from_utf8(digits).ok());
        let byte = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
1 0 8:1 / / rw - ext4 /dev/a rw
2 1 0:5 / /proc rw - proc proc rw
3 1 8:1 /home/u/p /al rw - ext4 /dev/a rw
4 1 8:1 /home/u/p/.git/hooks /home/u/p/h\\040k rw - ext4 /dev/a rw
5 1 8:1 /home/u/p /ro ro - ext4 /dev/a rw
6 1 8:1 /gone//deleted /gone rw - ext4 /dev/a rw
7 1 8:2 / /over rw - ext4 /dev/b rw
8 7 8:2 /x /over rw - ext4 /dev/b rw
9 3 0:9 / /al/deep rw - tmpfs none rw
";

    fn names(path: &str, write: bool) -> Vec<String> {
        let names = Mounts::parse(LIST.as_bytes()).names(Path::new(path), write);
        names.iter().map(|name| name.display().to_string()).collect()
    }

    #[test]
    fn mount_points_are_read_as_the_kernel_writes_them() {
        for (line, expected) in [
            (&b"36 35 98:0 /mnt1 /mnt2 rw,noatime - ext3 /dev/root rw"[..], Some("/mnt2")),
            (b"36 35 98:0 / /a\\040b\\134c\\011 rw - ext3 none rw", Some("/a b\\c\t")),
            (b"36 35 98:0 / /end\\", Some("/end\\")),
            (b"36 35 98:0 / /bad\\9zz", Some("/bad\\9zz")),
            (b"", None),
        ] {
            assert_eq!(point(line), expected.map(PathBuf::from), "{}", line.escape_ascii());
        }
    }

    #[test]
    fn a_file_has_a_name_for_each_mount_that_shows_it() {
        assert_eq!(names("/home/u/p/a.log", false), ["/al/a.log", "/ro/a.log"]);
        assert_eq!(names("/al/a.log", true), ["/home/u/p/a.log"]);
        assert_eq!(names("/ro", true), ["/home/u/p", "/al"]);
        assert_eq!(names("/home/u/p/.git/hooks/x", true), ["/al/.git/hooks/x", "/home/u/p/h k/x"]);
        assert_eq!(names("/home/u/p/h k", true), ["/home/u/p/.git/hooks", "/al/.git/hooks"]);
        assert_eq!(names("/home/u", false), [""; 0]);
        // Another file system lies on it there; the first of two mounts on one place is out of sight.
        assert_eq!(names("/home/u/p/deep/x", false), ["/ro/deep/x"]);
        assert_eq!(names("/al/deep/x", false), [""; 0]);
        assert_eq!(names("/over/y", false), [""; 0]);
        let entry = Mounts::parse(LIST.as_bytes()).names_of_entry(Path::new("/al"), false);
        assert_eq!(entry, Vec::<PathBuf>::new());
    }

    #[test]
    fn a_directory_has_parts_elsewhere() {
        let mounts = Mounts::parse(LIST.as_bytes());
        let parts = |path: &str, write| mounts.parts(Path::new(path), write);
        assert_eq!(parts("/home/u/p/.git", true), [Path::new("/home/u/p/h k")]);
        assert_eq!(parts("/home/u", true), ["/al", "/home/u/p/h k"].map(PathBuf::from)[..1]);
        assert_eq!(parts("/home/u", false), ["/al", "/ro"].map(PathBuf::from));
        assert_eq!(parts("/home/u/p/src", false), Vec::<PathBuf>::new());
        assert!(!Mounts::parse(b"1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 / /b rw - ext4 b rw\n").give_second_names());
        assert!(Mounts::parse(b"garbage\n\n1 x\n").names(Path::new("/a"), false).is_empty());
    }
}
