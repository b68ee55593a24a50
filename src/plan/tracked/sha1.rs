//! SHA-1 (FIPS 180-4), by which git names contents. Not for anything that needs a hash without collisions.

/// A hash in the making.
pub struct Sha1 {
    state: [u32; 5],
    /// Bytes so far.
    length: u64,
    block: [u8; 64],
}

impl Sha1 {
    /// Of nothing yet.
    pub const fn new() -> Self {
        let state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
        Self { state, length: 0, block: [0; 64] }
    }

    /// More bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let filled = (self.length % 64) as usize;
            let (now, later) = bytes.split_at(bytes.len().min(64 - filled));
            self.block[filled..filled + now.len()].copy_from_slice(now);
            self.length += now.len() as u64;
            if self.length.is_multiple_of(64) {
                self.compress();
            }
            bytes = later;
        }
    }

    /// The hash of all of them.
    pub fn finish(mut self) -> [u8; 20] {
        let bits = self.length.wrapping_mul(8);
        self.update(&[0x80]);
        while self.length % 64 != 56 {
            self.update(&[0]);
        }
        self.update(&bits.to_be_bytes());
        let mut hash = [0; 20];
        for (slot, word) in hash.chunks_exact_mut(4).zip(self.state) {
            slot.copy_from_slice(&word.to_be_bytes());
        }
        hash
    }

    fn compress(&mut self) {
        let mut words = [0_u32; 80];
        for (word, bytes) in words.iter_mut().zip(self.block.as_chunks().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        for round in 16..80 {
            let mixed = words[round - 3] ^ words[round - 8] ^ words[round - 14] ^ words[round - 16];
            words[round] = mixed.rotate_left(1);
        }
        let mut now = self.state;
        for (round, word) in words.into_iter().enumerate() {
            let [first, x, y, z, last] = now;
            let (mixed, constant) = match round {
                0..20 => ((x & y) | (!x & z), 0x5a82_7999_u32),
                20..40 => (x ^ y ^ z, 0x6ed9_eba1),
                40..60 => ((x & y) | (x & z) | (y & z), 0x8f1b_bcdc),
                _ => (x ^ y ^ z, 0xca62_c1d6),
            };
            let parts = [mixed, last, constant, word];
            let next = parts.into_iter().fold(first.rotate_left(5), u32::wrapping_add);
            now = [next, first, x.rotate_left(30), y, z];
        }
        for (slot, more) in self.state.iter_mut().zip(now) {
            *slot = slot.wrapping_add(more);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn hex(parts: &[&[u8]]) -> String {
        let mut hash = Sha1::new();
        for part in parts {
            hash.update(part);
        }
        hash.finish().iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").unwrap();
            text
        })
    }

    #[test]
    fn as_the_standard_says() {
        assert_eq!(hex(&[]), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(hex(&[b"abc"]), "a9993e364706816aba3e25717850c26c9cd0d89d");
        let two_blocks = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(hex(&[two_blocks]), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
        assert_eq!(hex(&[&vec![b'a'; 1_000_000]]), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
        // What git says of an empty file.
        assert_eq!(hex(&[b"blob 0\0"]), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
    }

    #[test]
    fn however_it_is_cut() {
        let bytes: Vec<u8> = (0..=255).collect();
        for length in 0..200 {
            let whole = hex(&[&bytes[..length]]);
            for cut in [0, 1, length / 2, length.saturating_sub(1)].map(|cut| cut.min(length)) {
                assert_eq!(hex(&[&bytes[..cut], &bytes[cut..length]]), whole, "{length} cut at {cut}");
            }
        }
    }
}
