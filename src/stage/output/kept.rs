//! Output that is kept in memory: how much of which stream.

/// What is kept of both streams within one size: all if it fits, otherwise the beginning of each, with a fifth for standard
/// error at least, so that no flood hides why the target failed.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) most: u64,
    pub(crate) bytes: [Vec<u8>; 2],
    written: [u64; 2],
}

impl Kept {
    pub(crate) fn new(most: u64) -> Self {
        Self { most, bytes: [Vec::new(), Vec::new()], written: [0, 0] }
    }

    /// Returns whether something is lost.
    pub(crate) fn push(&mut self, index: usize, bytes: &[u8]) -> bool {
        let whole = self.bytes[index].len() as u64 == self.written[index];
        self.written[index] += bytes.len() as u64;
        let reserve = self.most.div_ceil(5);
        let [out, err] = self.written;
        let out = out.min((self.most - reserve).max(self.most.saturating_sub(err)));
        let keep = [out, err.min(self.most - out)].map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        if whole {
            let room = keep[index].saturating_sub(self.bytes[index].len()).min(bytes.len());
            self.bytes[index].extend_from_slice(&bytes[..room]);
        }
        for (kept, keep) in self.bytes.iter_mut().zip(keep) {
            kept.truncate(keep);
        }
        self.written.iter().sum::<u64>() > self.most
    }
}

#[cfg(test)]
mod tests {
    use super::Kept;

    /// What is kept of `out` and then `err`, each coming in pieces of `piece` bytes.
    fn kept(most: u64, out: usize, err: usize, piece: usize) -> ([usize; 2], bool) {
        let mut kept = Kept::new(most);
        let mut lost = false;
        for (index, size) in [(0, out), (1, err)] {
            let bytes: Vec<u8> = (0..size).map(|at| u8::try_from(at % 251).unwrap_or_default()).collect();
            for part in bytes.chunks(piece) {
                lost |= kept.push(index, part);
            }
            assert!(bytes.starts_with(&kept.bytes[index]), "always a beginning");
        }
        assert!(kept.bytes.iter().map(Vec::len).sum::<usize>() as u64 <= most);
        (kept.bytes.map(|bytes| bytes.len()), lost)
    }

    #[test]
    fn nothing_is_lost_when_it_fits() {
        for (out, err) in [(10, 300), (700, 300), (1000, 0), (0, 1000), (999, 1)] {
            for piece in [1, 7, 1000] {
                assert_eq!(kept(1000, out, err, piece), ([out, err], false), "{out}+{err}");
            }
        }
    }

    #[test]
    fn a_flood_on_one_stream_leaves_room_for_the_other() {
        for piece in [1, 7, 5000] {
            assert_eq!(kept(1000, 5000, 5, piece), ([995, 5], true));
            assert_eq!(kept(1000, 5000, 500, piece), ([800, 200], true));
            assert_eq!(kept(1000, 0, 5000, piece), ([0, 1000], true));
            assert_eq!(kept(1000, 300, 5000, piece), ([300, 700], true));
            assert_eq!(kept(0, 3, 3, piece), ([0, 0], true));
        }
    }

    #[test]
    fn whichever_comes_first() {
        let mut kept = Kept::new(1000);
        assert!(!kept.push(1, &[b'e'; 1000]));
        assert!(kept.push(0, &[b'o'; 900]));
        assert_eq!(kept.bytes.each_ref().map(Vec::len), [800, 200]);
        assert!(kept.push(1, b"more"));
        assert_eq!(kept.bytes.each_ref().map(Vec::len), [800, 200]);
    }
}
