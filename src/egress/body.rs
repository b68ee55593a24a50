//! How long the body of a message is, and its bytes in one spelling.
//!
//! What goes on is written anew from what was understood: two readers of one message never see different ends.

/// The longest line with the size of a chunk.
const CHUNK_LINE_MAX: usize = 1024;

/// The most bytes of fields behind the last chunk.
const TRAILER_MAX: usize = 16 * 1024;

/// How a message says where its body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// After so many bytes.
    Length(u64),
    /// In chunks that say so.
    Chunked,
    /// With the connection; for answers only.
    ToEnd,
}

/// What is wrong with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadBody(pub &'static str);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Raw(u64),
    Endless,
    ChunkLine,
    ChunkData(u64),
    /// The line end behind the data of a chunk, of which one byte may have been seen.
    ChunkEnd(bool),
    Trailer,
    Done,
}

/// Takes a body as it comes in and gives it as it goes on.
#[derive(Debug)]
pub struct Body {
    state: State,
    line: Vec<u8>,
    trailer: usize,
    /// Whether parameters of chunks are dropped instead of refused.
    lenient: bool,
}

impl Body {
    /// The body of a request, in which nothing is tolerated.
    #[must_use]
    pub fn of_request(framing: Framing) -> Self {
        Self::new(framing, false)
    }

    /// The body of an answer.
    #[must_use]
    pub fn of_answer(framing: Framing) -> Self {
        Self::new(framing, true)
    }

    fn new(framing: Framing, lenient: bool) -> Self {
        let state = match framing {
            Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Raw(length),
            Framing::Chunked => State::ChunkLine,
            Framing::ToEnd => State::Endless,
        };
        Self { state, line: Vec::new(), trailer: 0, lenient }
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether the end of the connection is an end for it.
    #[must_use]
    pub fn may_end_here(&self) -> bool {
        matches!(self.state, State::Done | State::Endless)
    }

    /// Takes bytes and appends to `out` what goes on; gives how many were taken, fewer only when the body has ended.
    pub fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize, BadBody> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.state {
                State::Done => break,
                State::Endless => {
                    out.extend_from_slice(rest);
                    rest = &[];
                }
                State::Raw(left) => {
                    let (part, left) = split(&mut rest, left);
                    out.extend_from_slice(part);
                    self.state = if left == 0 { State::Done } else { State::Raw(left) };
                }
                State::ChunkData(left) => {
                    let (part, left) = split(&mut rest, left);
                    out.extend_from_slice(part);
                    self.state = if left == 0 { State::ChunkEnd(false) } else { State::ChunkData(left) };
                }
                State::ChunkEnd(half) => {
                    let expected = if half { b'\n' } else { b'\r' };
                    if rest[0] != expected {
                        return Err(BadBody("a chunk is longer than it says"));
                    }
                    out.push(expected);
                    rest = &rest[1..];
                    self.state = if half { State::ChunkLine } else { State::ChunkEnd(true) };
                }
                State::ChunkLine => {
                    if self.line_ends(&mut rest, CHUNK_LINE_MAX)? {
                        let size = size(&self.line, self.lenient)?;
                        self.line.clear();
                        out.extend_from_slice(format!("{size:x}\r\n").as_bytes());
                        self.state = if size == 0 { State::Trailer } else { State::ChunkData(size) };
                    }
                }
                State::Trailer => {
                    if self.line_ends(&mut rest, TRAILER_MAX)? {
                        self.trailer += self.line.len() + 2;
                        if self.trailer > TRAILER_MAX {
                            return Err(BadBody("the fields behind the last chunk are too long"));
                        }
                        // The fields themselves stay here: they could be taken for those of the head.
                        if self.line.is_empty() {
                            out.extend_from_slice(b"\r\n");
                            self.state = State::Done;
                        }
                        self.line.clear();
                    }
                }
            }
        }
        Ok(bytes.len() - rest.len())
    }

    /// Moves bytes up to a line end into `line`; whether it was there.
    fn line_ends(&mut self, rest: &mut &[u8], most: usize) -> Result<bool, BadBody> {
        while let Some((&byte, after)) = rest.split_first() {
            *rest = after;
            match (byte, self.line.last()) {
                (b'\n', Some(b'\r')) => {
                    self.line.pop();
                    return Ok(true);
                }
                (b'\n', _) => return Err(BadBody("a line between chunks ends without a carriage return")),
                (_, Some(b'\r')) => return Err(BadBody("a carriage return stands alone between chunks")),
                _ => self.line.push(byte),
            }
            if self.line.len() > most {
                return Err(BadBody("a line between chunks is too long"));
            }
        }
        Ok(false)
    }
}

/// The next bytes, at most `left`, and how many are left then.
fn split<'a>(rest: &mut &'a [u8], left: u64) -> (&'a [u8], u64) {
    let take = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
    let (part, after) = rest.split_at(take);
    *rest = after;
    (part, left - take as u64)
}

fn size(line: &[u8], lenient: bool) -> Result<u64, BadBody> {
    let digits = if lenient {
        let end = line.iter().position(|byte| matches!(byte, b';' | b' ' | b'\t')).unwrap_or(line.len());
        &line[..end]
    } else {
        line
    };
    // Sixteen digits are all that 64 bits have; one less leaves room for sums.
    let good = (1..=15).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).unwrap_or_default();
    u64::from_str_radix(text, 16).ok().filter(|_| good).ok_or(BadBody("a chunk has no plain size"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The body in pieces of `step` bytes: what went on, how many bytes were taken, whether it ended.
    fn through(mut body: Body, bytes: &[u8], step: usize) -> Result<(Vec<u8>, usize, bool), BadBody> {
        let (mut out, mut taken) = (Vec::new(), 0);
        for piece in bytes.chunks(step) {
            let count = body.take(piece, &mut out)?;
            taken += count;
            if count < piece.len() {
                break;
            }
        }
        Ok((out, taken, body.is_done()))
    }

    #[test]
    fn a_body_ends_where_it_says() {
        for step in [1, 3, 100] {
            let done = through(Body::of_request(Framing::Length(5)), b"helloGET /", step).unwrap();
            assert_eq!(done, (b"hello".to_vec(), 5, true));
            let done =
                through(Body::of_request(Framing::Chunked), b"005\r\nhello\r\n0\r\nX: y\r\n\r\nGET /", step).unwrap();
            assert_eq!(done, (b"5\r\nhello\r\n0\r\n\r\n".to_vec(), 23, true));
            let done = through(Body::of_request(Framing::Length(5)), b"hell", step).unwrap();
            assert_eq!(done, (b"hell".to_vec(), 4, false));
        }
        assert!(Body::of_request(Framing::Length(0)).is_done());
    }

    #[test]
    fn odd_chunks_are_refused() {
        for bytes in [
            &b"5;x=y\r\nhello\r\n"[..],
            b"5 \r\nhello\r\n",
            b" 5\r\nhello\r\n",
            b"+5\r\nhello\r\n",
            b"0x5\r\nhello\r\n",
            b"-1\r\n",
            b"\r\n",
            b"5\nhello\n",
            b"5\rhello",
            b"5\r\nhelloX\n",
            b"5\r\nhello\n",
            b"fffffffffffffffff\r\n",
            b"10000000000000000\r\n",
            b"g\r\n",
            b"5\r\nhello\r\n0\r\nX: y\n\n",
        ] {
            assert!(through(Body::of_request(Framing::Chunked), bytes, 100).is_err(), "{}", bytes.escape_ascii());
        }
        let endless = [b"0\r\n".as_slice(), &b"x: y\r\n".repeat(5000)].concat();
        assert!(through(Body::of_request(Framing::Chunked), &endless, 100).is_err());
        assert!(through(Body::of_request(Framing::Chunked), &[b'0'; 5000], 100).is_err());
        let (out, ..) = through(Body::of_answer(Framing::Chunked), b"5 ;x=y\r\nhello\r\n0\r\n\r\n", 100).unwrap();
        assert_eq!(out, b"5\r\nhello\r\n0\r\n\r\n");
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(bytes in proptest::collection::vec(proptest::sample::select(b"0123afx;\r\n: ".to_vec()), 0..60), step in 1_usize..8) {
            let whole = through(Body::of_request(Framing::Chunked), &bytes, 1000);
            let parts = through(Body::of_request(Framing::Chunked), &bytes, step);
            prop_assert_eq!(whole, parts);
        }

        #[test]
        fn what_goes_on_reads_the_same(parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..50), 0..5)) {
            let mut wire = Vec::new();
            for part in &parts {
                wire.extend_from_slice(format!("{:04X}\r\n", part.len()).as_bytes());
                wire.extend_from_slice(part);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(b"00\r\n\r\n");
            let (once, taken, done) = through(Body::of_request(Framing::Chunked), &wire, 7).unwrap();
            prop_assert!(done && taken == wire.len());
            let (twice, ..) = through(Body::of_request(Framing::Chunked), &once, 5).unwrap();
            prop_assert_eq!(once, twice);
        }
    }
}
