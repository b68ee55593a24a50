//! The index of a work tree: its entries one by one, and whether one has a name that leads out of the work tree.
//!
//! git checks names when it puts them into an index, and believes those that it reads. Takes any bytes and follows no offset that it
//! has not come to by itself. Format: gitformat-index(5), versions 2 to 4.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;

/// More of an index is not read: two million names, twice what the largest known repositories have.
pub const LONGEST: u64 = 256 << 20;

/// Longer than the kernel lets a path be.
const LONGEST_NAME: usize = 4096;

/// What names of this length and of greater ones have in the place of a length.
const NO_LENGTH: usize = 0xfff;

/// git knows a dozen.
const MOST_EXTENSIONS: usize = 100;

/// git makes one for each processor, at most.
const MOST_BLOCKS: u64 = 10_000;

/// What an entry is that stands for a directory of a sparse index.
pub(super) const DIRECTORY: u32 = 0o04_0000;

/// And for a submodule.
pub(super) const SUBMODULE: u32 = 0o16_0000;

/// For a regular file.
pub(super) const FILE: u32 = 0o10_0644;

/// And for one that can be executed.
pub(super) const PROGRAM: u32 = 0o10_0755;

/// A file on disk, in an index.
#[derive(Debug)]
pub struct Entry<'a> {
    /// Its path from the top; none where a split index has it from another.
    pub name: &'a [u8],
    /// What it is, and whether it can be executed.
    pub mode: u32,
    /// Bytes on disk, modulo 2³²; 0 when git does not know.
    pub size: u32,
    /// Of its content.
    pub hash: Hash,
    /// How many bytes it takes, with all of the name.
    pub length: usize,
    /// Where it begins.
    at: u64,
    /// How much of the name is that of the entry before.
    kept: usize,
}

/// What git names a content by, in either of its object formats.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Hash {
    /// The common one.
    Sha1([u8; 20]),
    /// The newer one.
    Sha256([u8; 32]),
}

impl Hash {
    /// Of as many bytes as one of them has.
    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let sha1 = || bytes.try_into().map(Self::Sha1);
        bytes.try_into().map(Self::Sha256).or_else(|_| sha1()).ok()
    }

    /// Whether it is that of an empty file.
    pub(super) fn is_of_nothing(&self) -> bool {
        matches!(
            self,
            Self::Sha1([0xe6, 0x9d, 0xe2, 0x9b, 0xb2, 0xd1, 0xd6, 0x43, ..])
                | Self::Sha256([0x47, 0x3a, 0x0f, 0x4c, 0x3b, 0xe8, 0xa9, 0x36, ..])
        )
    }
}

pub(crate) fn malformed() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

/// Calls `each` for every entry, in order; says where they end.
pub fn entries(
    mut from: impl BufRead,
    sha256: bool,
    mut each: impl FnMut(&Entry) -> io::Result<()>,
) -> io::Result<u64> {
    let [version, count] = header(&bytes(&mut from)?)?;
    let (mut at, mut name) = (12, Vec::new());
    for _ in 0..count {
        // Times, device and inode, then mode, owner and size.
        let stat: [u8; 40] = bytes(&mut from)?;
        let hash = if sha256 { Hash::Sha256(bytes(&mut from)?) } else { Hash::Sha1(bytes(&mut from)?) };
        let flags = u16::from_be_bytes(bytes(&mut from)?);
        let extended = flags & 0x4000 != 0;
        if extended {
            let _more: [u8; 2] = bytes(&mut from)?;
        }
        let before = 40 + if sha256 { 32 } else { 20 } + 2 + if extended { 2 } else { 0 };
        let mut read = before;
        if version == 4 {
            // The name goes on from the one before, without this many bytes of it.
            let (dropped, length) = offset(&mut from)?;
            let kept = name.len().checked_sub(dropped).ok_or_else(malformed)?;
            name.truncate(kept);
            read += length;
        } else {
            name.clear();
        }
        let kept = name.len();
        let room = LONGEST_NAME.saturating_sub(kept) as u64;
        from.by_ref().take(room).read_until(0, &mut name)?;
        // git goes by the length.
        if name.pop() != Some(0) || usize::from(flags) & NO_LENGTH != name.len().min(NO_LENGTH) {
            return Err(malformed());
        }
        read += name.len() - kept + 1;
        if version != 4 {
            // One NUL is read already; entries take a multiple of eight bytes.
            let padding = 7 - (before + name.len()) % 8;
            from.read_exact(&mut [0; 8][..padding])?;
            read += padding;
        }
        let [mode, size] = [24, 36].map(|at| number(&stat, at));
        each(&Entry { name: &name, mode, size, hash, length: before + name.len(), at, kept })?;
        at += read as u64;
    }
    Ok(at)
}

/// Calls `each` for every entry of the file, and says where they end; that git would read others, or none, is an error.
pub fn read(file: &File, sha256: bool, each: &mut dyn FnMut(&Entry)) -> io::Result<u64> {
    let data = file.metadata()?;
    if !data.is_file() {
        return Err(malformed());
    }
    if data.len() > LONGEST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let table = Table::of(file, data.len(), sha256)?;
    let mut starts = table.as_ref().map(|table| table.blocks.as_slice()).unwrap_or_default().iter().peekable();
    let mut number = 0;
    let end = entries(BufReader::with_capacity(256 << 10, file.take(LONGEST)), sha256, |entry| {
        if let Some((at, _)) = starts.next_if(|(_, first)| *first == number)
            && (*at != entry.at || entry.kept > 0)
        {
            return Err(malformed());
        }
        number += 1;
        each(entry);
        Ok(())
    })?;
    let fits = table.as_ref().is_none_or(|table| table.at == end && table.count.is_none_or(|count| count == number));
    if fits && starts.next().is_none() { Ok(end) } else { Err(malformed()) }
}

/// What lets git read entries of a large index from several places at once.
struct Table {
    /// Where entries end.
    at: u64,
    /// How many there are, where places are given.
    count: Option<u64>,
    /// Places, each with the number of its first entry.
    blocks: Vec<(u64, u64)>,
}

impl Table {
    fn of(file: &File, length: u64, sha256: bool) -> io::Result<Option<Self>> {
        let hash = if sha256 { 32 } else { 20 };
        // It is the last one before the hash of all.
        let Some(last) = length.checked_sub(hash + 12 + hash) else { return Ok(None) };
        let end: [u8; 12] = bytes_at(file, last)?;
        if !end.starts_with(b"EOIE") || u64::from(number(&end, 4)) != 4 + hash {
            return Ok(None);
        }
        let at = u64::from(number(&end, 8));
        let (mut table, mut next) = (Self { at, count: None, blocks: Vec::new() }, at);
        for _ in 0..MOST_EXTENSIONS {
            if next >= last {
                return Ok(Some(table));
            }
            let head: [u8; 8] = bytes_at(file, next)?;
            let size = u64::from(number(&head, 4));
            if head.starts_with(b"IEOT") && table.count.is_none() {
                table.blocks(file, next + 8, size)?;
            }
            next += 8 + size;
        }
        Err(malformed())
    }

    fn blocks(&mut self, file: &File, at: u64, size: u64) -> io::Result<()> {
        let version: [u8; 4] = bytes_at(file, at)?;
        if number(&version, 0) != 1 || size % 8 != 4 || size / 8 > MOST_BLOCKS {
            return Err(malformed());
        }
        let mut first = 0;
        for block in 0..size / 8 {
            let block: [u8; 8] = bytes_at(file, at + 4 + 8 * block)?;
            let [place, count] = [0, 4].map(|at| u64::from(number(&block, at)));
            if count == 0 {
                return Err(malformed());
            }
            self.blocks.push((place, first));
            first += count;
        }
        self.count = Some(first);
        Ok(())
    }
}

/// Version and number of entries.
fn header(header: &[u8; 12]) -> io::Result<[u32; 2]> {
    let [magic, version, count] = [0, 4, 8].map(|at| number(header, at));
    let known = magic == u32::from_be_bytes(*b"DIRC") && (2..=4).contains(&version);
    if known { Ok([version, count]) } else { Err(malformed()) }
}

fn bytes<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn bytes_at<const N: usize>(file: &File, at: u64) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// A number in git's form for offsets, seven bits a byte, one added at each step; and its length.
fn offset(from: &mut impl Read) -> io::Result<(usize, usize)> {
    let mut value = 0_usize;
    for length in 1..=4 {
        let [byte] = bytes(from)?;
        value = (value << 7) | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Ok((value, length));
        }
        value += 1;
    }
    Err(malformed())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::paths::is_refused;
    use super::*;

    /// The first name that git would refuse.
    fn refused(file: &File) -> io::Result<Option<Vec<u8>>> {
        let mut refused = None;
        read(file, false, &mut |entry| {
            if refused.is_none() && !entry.name.is_empty() && is_refused(entry.name, false) {
                refused = Some(entry.name.to_owned());
            }
        })?;
        Ok(refused)
    }

    /// An index of version 4 with these names, each with how much it keeps of the one before, and extensions.
    fn index(names: &[(usize, &str)], extensions: impl Fn(&[u64], u64) -> Vec<u8>) -> File {
        let mut index = b"DIRC\0\0\0\x04".to_vec();
        index.extend(u32::try_from(names.len()).unwrap().to_be_bytes());
        let (mut before, mut places) = (String::new(), Vec::new());
        for (kept, rest) in names {
            places.push(index.len() as u64);
            let name = format!("{}{rest}", &before[..*kept]);
            index.extend([0; 60]);
            index.extend(u16::try_from(name.len()).unwrap().to_be_bytes());
            index.push(u8::try_from(before.len() - kept).unwrap());
            index.extend(rest.as_bytes());
            index.push(0);
            before = name;
        }
        let end = index.len() as u64;
        index.extend(extensions(&places, end));
        index.extend([0; 20]);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&index).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        file
    }

    /// Entries that begin in blocks of two, and where they end.
    fn table(blocks: &[(u64, u32)], end: u64) -> Vec<u8> {
        let small = |number: u64| u32::try_from(number).unwrap().to_be_bytes();
        let mut table = b"TREE\0\0\0\x02xxIEOT".to_vec();
        table.extend(small(4 + 8 * blocks.len() as u64));
        table.extend([0, 0, 0, 1]);
        for (place, count) in blocks {
            table.extend(small(*place));
            table.extend(count.to_be_bytes());
        }
        table.extend(b"EOIE\0\0\0\x18");
        table.extend(small(end));
        table.extend([0; 20]);
        table
    }

    type Blocks<'a> = &'a dyn Fn(&[u64]) -> Vec<(u64, u32)>;

    #[test]
    fn no_place_is_read_that_entries_do_not_begin_at() {
        let good = [(0, "a/b"), (2, "c"), (0, "foo"), (0, "foo/x")];
        let checked = |names: &[(usize, &str)], blocks: Blocks, more: u64| {
            refused(&index(names, |places, end| table(&blocks(places), end + more))).map_err(|error| error.kind())
        };
        assert_eq!(refused(&index(&good, |_, _| Vec::new())).unwrap(), None);
        assert_eq!(checked(&good, &|at| vec![(at[0], 2), (at[2], 2)], 0), Ok(None));
        let bad = Err(io::ErrorKind::InvalidData);
        assert_eq!(checked(&good, &|at| vec![(at[0], 2), (at[2] + 1, 2)], 0), bad);
        assert_eq!(checked(&good, &|at| vec![(at[0], 2), (at[3], 2)], 0), bad);
        assert_eq!(checked(&good, &|at| vec![(at[0], 2), (at[2], 1)], 0), bad);
        assert_eq!(checked(&good, &|at| vec![(at[0], 2), (at[2], 9)], 0), bad);
        assert!(checked(&good, &|at| vec![(at[0], 2), (at[2], 2)], 1).is_err());
        // At the beginning of a block git takes nothing from the name before.
        let cut = [(0, "a/b"), (3, "/etc/passwd")];
        assert_eq!(checked(&cut, &|at| vec![(at[0], 2)], 0), Ok(None));
        assert_eq!(checked(&cut, &|at| vec![(at[0], 1), (at[1], 1)], 0), bad);
    }

    #[test]
    fn names_that_lead_elsewhere() {
        let name = |names: &[(usize, &str)]| refused(&index(names, |_, _| Vec::new())).unwrap();
        assert_eq!(name(&[(0, "a"), (0, "../x"), (0, ".git/x")]), Some(b"../x".to_vec()));
        assert_eq!(name(&[(0, "a/"), (2, "/x")]), Some(b"a/".to_vec()));
        assert_eq!(name(&[(0, ""), (0, "a")]), None);
    }
}
