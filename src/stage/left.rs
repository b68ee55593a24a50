//! What the target leaves in places of the sandbox's own, which end with it: looked at inside, told outside.
//!
//! Only for those who ask for more than warnings, and only as much as takes no time: names and sizes, never what is in a file.
//! What it finds is the target's word and decides nothing.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::denials::abbreviated;
use crate::host::Host;
use crate::plan::{MountOp, Plan};
use crate::sys;

/// How many entries are looked at.
const ENTRIES: u32 = 20_000;

/// How long that may take.
const TIME: Duration = Duration::from_millis(200);

/// How deep.
const DEPTH: u32 = 32;

/// How many names are told of each place.
const TOLD: usize = 5;

/// The part of a hand-off that asks for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wanted {
    /// A memory file for the answer.
    pub file: RawFd,
    /// Which of the places where the target may write are the sandbox's own, by their number.
    pub places: Vec<usize>,
}

/// What is in one place.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Left {
    /// The largest first; relative to the place.
    items: Vec<Item>,
    /// How many items there are besides.
    more: usize,
    /// Whether not everything was looked at.
    cut: bool,
}

/// A file, or a directory with all that is in it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Item {
    name: String,
    files: u64,
    bytes: u64,
    directory: bool,
}

/// Places that end with the sandbox, by their number among those where the target may write.
fn private(plan: &Plan) -> Vec<(usize, PathBuf)> {
    let own = |place: &Path| {
        plan.view.iter().any(|op| matches!(op, MountOp::Tmpfs { at, .. } if at == place))
            && place != Path::new("/dev/shm")
    };
    plan.walls().enumerate().filter(|(_, place)| own(place)).map(|(number, place)| (number, place.to_owned())).collect()
}

/// The outer stage's end.
#[derive(Debug)]
pub struct Listener {
    file: File,
    places: Vec<PathBuf>,
}

impl Listener {
    /// Makes the file, where somebody would hear of it.
    pub fn start(plan: &Plan) -> io::Result<Option<Self>> {
        if !tracing::enabled!(tracing::Level::INFO) || !plan.backend.has_view() {
            return Ok(None);
        }
        let places = private(plan).into_iter().map(|(_, place)| place).collect();
        Ok(Some(Self { file: sys::fd::scratch(c"left")?, places }))
    }

    /// What the inner stage has to be told.
    #[must_use]
    pub fn wanted(&self, plan: &Plan) -> Wanted {
        Wanted { file: self.number(), places: private(plan).into_iter().map(|(number, _)| number).collect() }
    }

    /// The descriptor that has to reach the inner stage.
    #[must_use]
    pub fn number(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Says what was left, after the end.
    pub fn tell(self, host: &Host) {
        let answer = sys::fd::read_whole(self.file.as_fd()).ok();
        let answer: Option<Vec<Left>> = answer.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        for (place, left) in self.places.iter().zip(answer.unwrap_or_default()) {
            if let Some(line) = told(place, &left, host) {
                tracing::info!("{line}");
            }
        }
    }
}

fn told(place: &Path, left: &Left, host: &Host) -> Option<String> {
    let Left { items, more, cut } = left;
    if items.is_empty() {
        return None;
    }
    let mut words: Vec<String> = items.iter().take(TOLD).map(|item| item.told(place, host)).collect();
    let more = more + items.len().saturating_sub(TOLD);
    if more > 0 {
        words.push(format!("{more} more"));
    }
    let is_home = host.home.as_deref() == Some(place);
    let what = if is_home { "HOME".to_owned() } else { format!("'{}'", place.display()) };
    let rest = if *cut { ", as far as it was looked at" } else { "" };
    Some(format!(
        "written to the private {what} and gone: {}{rest}; -w PATH keeps what is written there",
        words.join(", ")
    ))
}

impl Item {
    fn told(&self, place: &Path, host: &Host) -> String {
        let path = abbreviated(&place.join(&self.name), host);
        let bytes = size(self.bytes);
        match (self.directory, self.files) {
            (false, _) => format!("{path} ({bytes})"),
            (true, 1) => format!("{path} (1 file, {bytes})"),
            (true, files) => format!("{path} ({files} files, {bytes})"),
        }
    }
}

/// A number of bytes, rounded for readers.
fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| bytes >> shift > 0) {
        Some((shift, unit)) => format!("{} {unit}", (bytes + (1 << (shift - 1))) >> shift),
        None if bytes == 1 => "1 byte".to_owned(),
        None => format!("{bytes} bytes"),
    }
}

/// Looks, inside, and writes the answer. Failing only means that nothing is told.
pub fn look(wanted: &Wanted, file: File, writable: &[PathBuf]) {
    let mut search = Search { entries: ENTRIES, until: Instant::now() + TIME, cut: false };
    let mut all = Vec::new();
    for place in wanted.places.iter().filter_map(|number| writable.get(*number)) {
        search.cut = false;
        let mut items = Vec::new();
        search.place(place, &mut items);
        for item in &mut items {
            if let Some(name) = item.name.strip_prefix(&format!("{}/", place.display())) {
                item.name = name.to_owned();
            }
        }
        items.sort_by(|one, other| other.bytes.cmp(&one.bytes).then_with(|| one.name.cmp(&other.name)));
        let more = items.len().saturating_sub(TOLD);
        items.truncate(TOLD);
        all.push(Left { items, more, cut: search.cut });
    }
    let mut file = file;
    let _told = serde_json::to_vec(&all).map(|bytes| file.write_all(&bytes));
}

/// How much may still be looked at.
struct Search {
    entries: u32,
    until: Instant,
    cut: bool,
}

/// What is in a directory, and whether something is mounted in it.
struct Content {
    files: u64,
    bytes: u64,
    /// Items of it, if it leads to a mount and so was made for that.
    items: Option<Vec<Item>>,
}

impl Search {
    /// What is in a place itself.
    fn place(&mut self, place: &Path, items: &mut Vec<Item>) {
        let Ok(top) = fs::symlink_metadata(place) else { return };
        let (found, _) = self.directory(place, top.dev(), 0);
        items.extend(found);
    }

    /// The items of a directory, and whether something is mounted in it, at any depth.
    fn directory(&mut self, directory: &Path, device: u64, depth: u32) -> (Vec<Item>, bool) {
        let (mut items, mut mounts) = (Vec::new(), false);
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if self.entries == 0 || depth > DEPTH || Instant::now() > self.until {
                self.cut = true;
                break;
            }
            self.entries -= 1;
            let path = entry.path();
            let Ok(found) = fs::symlink_metadata(&path) else { continue };
            if found.dev() != device {
                mounts = true;
                continue;
            }
            let name = path.display().to_string();
            if !found.is_dir() {
                items.push(Item { name, files: 1, bytes: found.len(), directory: false });
                continue;
            }
            let Content { files, bytes, items: below } = self.content(&path, device, depth + 1);
            match below {
                Some(below) => {
                    mounts = true;
                    items.extend(below);
                }
                // Directories alone hold nothing that anybody would miss.
                None if files == 0 => {}
                None => items.push(Item { name, files, bytes, directory: true }),
            }
        }
        (items, mounts)
    }

    fn content(&mut self, directory: &Path, device: u64, depth: u32) -> Content {
        let (items, mounts) = self.directory(directory, device, depth);
        Content {
            files: items.iter().map(|item| item.files).sum(),
            bytes: items.iter().map(|item| item.bytes).sum(),
            items: mounts.then_some(items),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_the_names_at_the_top() {
        let top = tempfile::tempdir().unwrap();
        for (name, text) in [("small", "1"), ("dir/a", "12"), ("dir/b/c", "123"), ("big", "123456789")] {
            let path = top.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::create_dir(top.path().join("empty")).unwrap();
        let file = sys::fd::scratch(c"test").unwrap();
        let wanted = Wanted { file: file.as_raw_fd(), places: vec![1, 7] };
        look(&wanted, file.try_clone().unwrap(), &[PathBuf::from("/"), top.path().to_owned()]);
        let found: Vec<Left> = serde_json::from_slice(&sys::fd::read_whole(file.as_fd()).unwrap()).unwrap();
        let item = |name: &str, files, bytes, directory| Item { name: name.into(), files, bytes, directory };
        let items = vec![item("big", 1, 9, false), item("dir", 2, 5, true), item("small", 1, 1, false)];
        assert_eq!(found, [Left { items, more: 0, cut: false }]);
    }

    #[test]
    fn sizes_for_readers() {
        for (bytes, expected) in
            [(0, "0 bytes"), (1, "1 byte"), (1023, "1023 bytes"), (1024, "1 KiB"), (1_600_000, "2 MiB")]
        {
            assert_eq!(size(bytes), expected);
        }
    }
}
