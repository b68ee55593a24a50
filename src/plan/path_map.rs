//! Values by absolute path, in path order with parents first, with quick answers about what is above and below a path.
//!
//! Compares bytes where the standard library would take paths apart again for each comparison.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The names of a path, each after a zero byte: so bytes have the order of paths, and what is above is a beginning.
fn key(path: &Path) -> Vec<u8> {
    let bytes = path.as_os_str().as_bytes();
    let mut key = Vec::with_capacity(bytes.len());
    for name in bytes.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".") {
        key.push(0);
        key.extend_from_slice(name);
    }
    key
}

/// A map by path.
#[derive(Clone, Debug)]
pub(super) struct PathMap<V>(BTreeMap<Vec<u8>, (PathBuf, V)>);

impl<V> Default for PathMap<V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<V> PathMap<V> {
    /// What is at exactly `path`.
    pub fn get(&self, path: &Path) -> Option<&V> {
        self.0.get(&key(path)).map(|(_, value)| value)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, path: &Path) -> Option<&mut V> {
        self.0.get_mut(&key(path)).map(|(_, value)| value)
    }

    pub fn contains(&self, path: &Path) -> bool {
        self.0.contains_key(&key(path))
    }

    pub fn insert(&mut self, path: &Path, value: V) {
        self.0.insert(key(path), (path.to_owned(), value));
    }

    pub fn remove(&mut self, path: &Path) {
        self.0.remove(&key(path));
    }

    /// What is at `path`, or else at the nearest place above it.
    pub fn nearest(&self, path: &Path) -> Option<(&Path, &V)> {
        let key = key(path);
        let mut above = key.as_slice();
        loop {
            if let Some((at, value)) = self.0.get(above) {
                return Some((at, value));
            }
            above = &above[..above.iter().rposition(|byte| *byte == 0)?];
        }
    }

    /// All, parents first.
    pub fn iter(&self) -> impl Iterator<Item = (&PathBuf, &V)> {
        self.0.values().map(|(at, value)| (at, value))
    }

    /// What is below `path`, and not at it, parents first.
    pub fn below(&self, path: &Path) -> impl Iterator<Item = (&Path, &V)> {
        let mut start = key(path);
        start.push(0);
        let length = start.len();
        self.0
            .range(start.clone()..)
            .take_while(move |(key, _)| key.get(..length) == Some(&start[..]))
            .map(|(_, (at, value))| (at.as_path(), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_paths() {
        let mut paths: Vec<PathBuf> =
            ["/", "/a", "/a b", "/a-b", "/a/b", "/a/b/c", "/a.b", "/a0", "/ab", "/a/\u{e4}", "/\u{1}"]
                .map(Into::into)
                .into();
        let mut map = PathMap::default();
        for path in &paths {
            map.insert(path, ());
        }
        paths.sort();
        assert_eq!(map.iter().map(|(at, ())| at.clone()).collect::<Vec<_>>(), paths);
    }

    #[test]
    fn above_and_below_go_by_names() {
        let mut map = PathMap::default();
        for path in ["/a/b", "/a/b/c/d", "/a/bc", "/x"] {
            map.insert(Path::new(path), path.to_owned());
        }
        let nearest = |path: &str| map.nearest(Path::new(path)).map(|(at, _)| at.display().to_string());
        assert_eq!(nearest("/a/b/c"), Some("/a/b".into()));
        assert_eq!(nearest("/a//b/./c/d/"), Some("/a/b/c/d".into()));
        assert_eq!(nearest("/a/bcd"), None);
        assert_eq!(nearest("/"), None);
        let below = |path: &str| map.below(Path::new(path)).map(|(at, _)| at.to_owned()).collect::<Vec<_>>();
        assert_eq!(below("/a/b"), [PathBuf::from("/a/b/c/d")]);
        assert_eq!(below("/").len(), 4);
        assert!(below("/x").is_empty());
        map.insert(Path::new("/"), "/".into());
        assert_eq!(map.nearest(Path::new("/q/r")).map(|(at, _)| at), Some(Path::new("/")));
        map.remove(Path::new("/a/b/"));
        assert!(!map.contains(Path::new("/a/b")) && map.get(Path::new("/a/bc")).is_some());
    }
}
