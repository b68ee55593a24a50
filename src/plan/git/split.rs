//! An index that is based on another one: its entries without a name have that of an entry there, and another mode or content.
//!
//! Takes any bytes. Format: gitformat-index(5), "Split index" and "EWAH".

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::index::{self, Hash, malformed};
use super::kept::open;

/// git knows a dozen.
const MOST_EXTENSIONS: usize = 100;

/// Calls `each` with name, mode and object for every entry of the file, with those that it replaces in one of the `bases`; that git
/// would read others, or none, is an error.
pub(super) fn each(file: &File, sha256: bool, bases: &Path, each: &mut dyn FnMut(&[u8], u32, &Hash)) -> io::Result<()> {
    let mut nameless = Vec::new();
    let end = index::read(file, sha256, &mut |entry| {
        if entry.name.is_empty() {
            nameless.push((entry.mode, entry.hash.clone()));
        } else {
            each(entry.name, entry.mode, &entry.hash);
        }
    })?;
    undone(file, end, sha256, each)?;
    if nameless.is_empty() {
        return Ok(());
    }
    let (base, places) = replaced(file, end, sha256, nameless.len())?;
    let (mut number, mut wrong) = (0, places.len() != nameless.len());
    let mut replaced = places.into_iter().zip(nameless).peekable();
    // Without it git reads nothing, either.
    let base = open(&bases.join(format!("sharedindex.{base}"))).map_err(|_| malformed())?;
    index::read(&base, sha256, &mut |entry| {
        if let Some((_, (mode, hash))) = replaced.next_if(|(place, _)| *place == number) {
            wrong |= entry.name.is_empty();
            each(entry.name, mode, &hash);
        }
        number += 1;
    })?;
    if wrong || replaced.next().is_some() { Err(malformed()) } else { Ok(()) }
}

/// Calls `each` for every entry of a conflict that was resolved: git puts them back when it is asked to (`checkout -m`).
fn undone(file: &File, end: u64, sha256: bool, each: &mut dyn FnMut(&[u8], u32, &Hash)) -> io::Result<()> {
    let Some((at, length)) = extension(file, end, sha256, *b"REUC")? else { return Ok(()) };
    let length = usize::try_from(length).map_err(|_| malformed())?;
    let mut text = vec![0; length];
    file.read_exact_at(&mut text, at)?;
    let mut rest = text.as_slice();
    while !rest.is_empty() {
        let mut word = || {
            let end = rest.iter().position(|byte| *byte == 0).ok_or_else(malformed)?;
            let (word, more) = rest.split_at(end);
            rest = &more[1..];
            Ok::<_, io::Error>(word)
        };
        let name = word()?;
        let mut modes = [0; 3];
        for mode in &mut modes {
            let digits = std::str::from_utf8(word()?).map_err(|_| malformed())?;
            *mode = u32::from_str_radix(digits, 8).map_err(|_| malformed())?;
        }
        for mode in modes.into_iter().filter(|mode| *mode != 0) {
            let (hash, more) = rest.split_at_checked(if sha256 { 32 } else { 20 }).ok_or_else(malformed)?;
            rest = more;
            each(name, mode, &Hash::of_bytes(hash).ok_or_else(malformed)?);
        }
    }
    Ok(())
}

/// Where an extension of this name begins, and how long it is. Extensions begin at `end`.
fn extension(file: &File, end: u64, sha256: bool, name: [u8; 4]) -> io::Result<Option<(u64, u32)>> {
    let last = file.metadata()?.len().saturating_sub(if sha256 { 32 } else { 20 });
    let mut at = end;
    for _ in 0..MOST_EXTENSIONS {
        if at >= last {
            return Ok(None);
        }
        let head: [u8; 8] = bytes(file, at)?;
        let length = number(&head, 4);
        if at + 8 + u64::from(length) > last {
            return Err(malformed());
        }
        if head.starts_with(&name) {
            return Ok(Some((at + 8, length)));
        }
        at += 8 + u64::from(length);
    }
    Err(malformed())
}

/// The name of the base, and the numbers of `count` entries there that are replaced. Extensions begin at `end`.
fn replaced(file: &File, end: u64, sha256: bool, count: usize) -> io::Result<(String, Vec<u64>)> {
    let hash: u64 = if sha256 { 32 } else { 20 };
    let (at, _) = extension(file, end, sha256, *b"link")?.ok_or_else(malformed)?;
    let mut base = vec![0; if sha256 { 32 } else { 20 }];
    file.read_exact_at(&mut base, at)?;
    let base = base.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let base = base.filter_map(|digit| char::from_digit(digit.into(), 16)).collect();
    // What the base has and this one has not comes first.
    let deleted = Bitmap::at(file, at + hash)?;
    Ok((base, Bitmap::at(file, deleted.end())?.set(file, count)?))
}

/// A compressed set of numbers.
struct Bitmap {
    words: u64,
    count: u64,
}

impl Bitmap {
    fn at(file: &File, at: u64) -> io::Result<Self> {
        let head: [u8; 8] = bytes(file, at)?;
        Ok(Self { words: at + 8, count: number(&head, 4).into() })
    }

    fn end(&self) -> u64 {
        self.words + 8 * self.count + 4
    }

    /// The numbers in it; more than `most` are an error.
    fn set(&self, file: &File, most: usize) -> io::Result<Vec<u64>> {
        let word = |place: u64| bytes(file, self.words + 8 * place).map(u64::from_be_bytes);
        let (mut numbers, mut bit, mut place) = (Vec::new(), 0_u64, 0);
        while place < self.count {
            // So many words of the same bits, and so many as they are.
            let run = word(place)?;
            let (same, plain) = ((run >> 1) & u64::from(u32::MAX), run >> 33);
            place += 1;
            if run & 1 == 1 {
                if numbers.len() as u64 + 64 * same > most as u64 {
                    return Err(malformed());
                }
                numbers.extend(bit..bit + 64 * same);
            }
            bit += 64 * same;
            for _ in 0..plain {
                let bits = word(place)?;
                numbers.extend((0..64).filter(|number| bits >> number & 1 == 1).map(|number| bit + number));
                if numbers.len() > most {
                    return Err(malformed());
                }
                place += 1;
                bit += 64;
            }
        }
        Ok(numbers)
    }
}

fn bytes<const N: usize>(file: &File, at: u64) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A file with this bitmap at its beginning.
    fn bitmap(words: &[u64]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[0; 4]).unwrap();
        file.write_all(&u32::try_from(words.len()).unwrap().to_be_bytes()).unwrap();
        for word in words {
            file.write_all(&word.to_be_bytes()).unwrap();
        }
        file.write_all(&[0; 4]).unwrap();
        file
    }

    #[test]
    fn numbers_in_a_compressed_set() {
        let set = |words: &[u64], most| {
            let file = bitmap(words);
            Bitmap::at(&file, 0).unwrap().set(&file, most).map_err(|error| error.kind())
        };
        // Two words of zeros, then one as it is; then one of ones.
        assert_eq!(set(&[2 << 1 | 1 << 33, 0b101], 9), Ok(vec![128, 130]));
        assert_eq!(set(&[1 << 1 | 1, 1 << 33, 1], 65), Ok((0..65).collect()));
        assert_eq!(set(&[], 0), Ok(Vec::new()));
        let bad = Err(io::ErrorKind::InvalidData);
        assert_eq!(set(&[1 << 1 | 1], 63), bad);
        assert_eq!(set(&[u64::from(u32::MAX) << 1 | 1], 1000), bad);
        assert_eq!(set(&[1 << 33, 3], 1), bad);
        assert!(set(&[5 << 33, 3], 9).is_err());
    }
}
