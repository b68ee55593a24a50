//! The one string that a program of Windows gets for its arguments, by the quoting rules of the C runtime.
//!
//! Never through `cmd`, whose rules are others. In UTF-16 units and nothing but these, so that it is the same on every system.

/// The longest command line that `CreateProcess` takes, its final NUL included.
pub const MAX: usize = 32_767;

const QUOTE: u16 = b'"' as u16;
const BACKSLASH: u16 = b'\\' as u16;
const SPACE: u16 = b' ' as u16;
const TAB: u16 = b'\t' as u16;

/// Why there is no command line for some words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsayable {
    /// The name of the program has a quote in it, for which its place has no spelling.
    Program,
    /// A word has a NUL in it.
    Nul,
    /// It would be longer than [`MAX`].
    Length,
}

impl Unsayable {
    /// The reason as text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Program => "the name of a program cannot have a quote in it",
            Self::Nul => "an argument has a NUL in it",
            Self::Length => "together they are longer than the 32767 characters that a command line can have",
        }
    }
}

/// The command line of `words`, the name of the program first, with its final NUL.
pub fn command_line(words: &[Vec<u16>]) -> Result<Vec<u16>, Unsayable> {
    let mut line = Vec::new();
    for (index, word) in words.iter().enumerate() {
        if word.contains(&0) {
            return Err(Unsayable::Nul);
        }
        if index == 0 {
            program(word, &mut line)?;
        } else {
            line.push(SPACE);
            argument(word, &mut line);
        }
        if line.len() >= MAX {
            return Err(Unsayable::Length);
        }
    }
    line.push(0);
    Ok(line)
}

/// The first word is read up to its closing quote, backslashes as they are.
fn program(word: &[u16], line: &mut Vec<u16>) -> Result<(), Unsayable> {
    if word.contains(&QUOTE) {
        return Err(Unsayable::Program);
    }
    line.push(QUOTE);
    line.extend_from_slice(word);
    line.push(QUOTE);
    Ok(())
}

/// Backslashes mean themselves, except before a quote: there each is written twice, and the quote behind one more.
fn argument(word: &[u16], line: &mut Vec<u16>) {
    // Every other blank too: runtimes differ in what ends a word.
    let plain = |unit: &u16| !matches!(*unit, QUOTE | 0x00..=0x20);
    if !word.is_empty() && word.iter().all(plain) {
        line.extend_from_slice(word);
        return;
    }
    line.push(QUOTE);
    let mut backslashes = 0;
    for unit in word {
        match *unit {
            BACKSLASH => backslashes += 1,
            QUOTE => {
                line.extend(std::iter::repeat_n(BACKSLASH, backslashes + 1));
                backslashes = 0;
            }
            _ => backslashes = 0,
        }
        line.push(*unit);
    }
    line.extend(std::iter::repeat_n(BACKSLASH, backslashes));
    line.push(QUOTE);
}

/// What `CommandLineToArgvW` makes of a line, without its final NUL.
#[must_use]
pub fn parsed(line: &[u16]) -> Vec<Vec<u16>> {
    let mut words = Vec::new();
    let mut units = line.iter().copied().peekable();
    let mut first = Vec::new();
    if units.next_if_eq(&QUOTE).is_some() {
        first.extend(units.by_ref().take_while(|unit| *unit != QUOTE));
    } else {
        while let Some(unit) = units.next_if(|unit| !matches!(*unit, SPACE | TAB)) {
            first.push(unit);
        }
    }
    words.push(first);
    loop {
        while units.next_if(|unit| matches!(*unit, SPACE | TAB)).is_some() {}
        if units.peek().is_none() {
            return words;
        }
        let mut word = Vec::new();
        let mut quoted = false;
        while let Some(unit) = units.next_if(|unit| quoted || !matches!(*unit, SPACE | TAB)) {
            let mut backslashes = usize::from(unit == BACKSLASH);
            if backslashes == 0 {
                if unit == QUOTE {
                    // Two quotes inside quotes are one.
                    if quoted && units.next_if_eq(&QUOTE).is_some() {
                        word.push(QUOTE);
                    } else {
                        quoted = !quoted;
                    }
                } else {
                    word.push(unit);
                }
                continue;
            }
            while units.next_if_eq(&BACKSLASH).is_some() {
                backslashes += 1;
            }
            if units.peek() != Some(&QUOTE) {
                word.extend(std::iter::repeat_n(BACKSLASH, backslashes));
                continue;
            }
            word.extend(std::iter::repeat_n(BACKSLASH, backslashes / 2));
            if backslashes % 2 == 1 {
                word.extend(units.next());
            }
        }
        words.push(word);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wide(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    fn line(words: &[&str]) -> Result<String, Unsayable> {
        let words: Vec<_> = words.iter().map(|word| wide(word)).collect();
        let line = command_line(&words)?;
        assert_eq!(line.last(), Some(&0));
        Ok(String::from_utf16(&line[..line.len() - 1]).unwrap())
    }

    #[test]
    fn words_are_quoted_where_that_is_needed() {
        for (words, expected) in [
            (&["p"][..], r#""p""#),
            (&[r"C:\Program Files\p.exe", "a"], r#""C:\Program Files\p.exe" a"#),
            (&[r"C:\d\", "a b", ""], r#""C:\d\" "a b" """#),
            (&["p", r"a\b", r"a\\", r"a b\", r#"a\"b"#], r#""p" a\b a\\ "a b\\" "a\\\"b""#),
            (&["p", r#"""#, "\t", "%PATH%", "^&|"], "\"p\" \"\\\"\" \"\t\" %PATH% ^&|"),
        ] {
            assert_eq!(line(words).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        assert_eq!(line(&["a\"b"]), Err(Unsayable::Program));
        assert_eq!(line(&["p", "a\0b"]), Err(Unsayable::Nul));
        assert_eq!(line(&["p", &"x".repeat(MAX - 4)]), Err(Unsayable::Length));
        assert_eq!(line(&["p", &"x".repeat(MAX - 5)]).map(|line| line.len()), Ok(MAX - 1));
    }

    #[test]
    fn the_parser_reads_as_documented() {
        for (text, expected) in [
            (r#"p "a b" c"#, &["p", "a b", "c"][..]),
            (r#""p q" a\\b d"e f"g h"#, &["p q", r"a\\b", "de fg", "h"]),
            (r#"p a\\\"b c d"#, &["p", r#"a\"b"#, "c", "d"]),
            (r#"p a\\\\"b c" d e"#, &["p", r"a\\b c", "d", "e"]),
        ] {
            let words: Vec<_> = parsed(&wide(text)).iter().map(|word| String::from_utf16(word).unwrap()).collect();
            assert_eq!(words, expected);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            program in "[a-zA-Z:\\\\ .]{1,12}",
            arguments in prop::collection::vec(
                prop::collection::vec(prop_oneof![
                    Just(QUOTE), Just(BACKSLASH), Just(SPACE), Just(TAB), Just(u16::from(b'a')), 1_u16..,
                ], 0..12),
                0..6,
            ),
        ) {
            let words: Vec<_> = std::iter::once(wide(&program)).chain(arguments).collect();
            let line = command_line(&words).unwrap();
            prop_assert_eq!(parsed(&line[..line.len() - 1]), words);
        }
    }
}
