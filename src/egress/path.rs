//! Paths of requests in one spelling, and patterns of whole segments for them.
//!
//! A server sees the spelling that was matched: what could be read in two ways is refused, not guessed.

use std::fmt;

/// The path of a request without its query: percent-encoding, dots and case of hex digits settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestPath {
    normal: String,
    /// Without empty segments, where there are any: many servers join slashes.
    joined: Option<String>,
}

impl RequestPath {
    /// Reads a path that begins with a slash.
    pub fn parse(text: &[u8]) -> Result<Self, &'static str> {
        let normal = settle(text)?;
        let joined = normal.contains("//").then(|| {
            let mut joined = String::with_capacity(normal.len());
            for c in normal.chars() {
                if c != '/' || !joined.ends_with('/') {
                    joined.push(c);
                }
            }
            joined
        });
        Ok(Self { normal, joined })
    }

    /// What stands for no path at all: no pattern names it.
    #[must_use]
    pub fn whole_server() -> Self {
        Self { normal: String::new(), joined: None }
    }

    /// The path in the spelling that the server gets.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.normal
    }
}

/// Decodes what needs no encoding, removes dot segments, refuses what servers read in different ways.
fn settle(text: &[u8]) -> Result<String, &'static str> {
    if text.first() != Some(&b'/') {
        return Err("does not begin with '/'");
    }
    let mut flat = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'%' => {
                let byte = match rest {
                    [high, low, after @ ..] => {
                        rest = after;
                        hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low)
                    }
                    _ => None,
                }
                .ok_or("has a '%' without two hex digits")?;
                match byte {
                    b'/' | b'\\' => return Err("has an encoded slash"),
                    0..0x20 | 0x7f => return Err("has an encoded control character"),
                    b'-' | b'.' | b'_' | b'~' => flat.push(char::from(byte)),
                    _ if byte.is_ascii_alphanumeric() => flat.push(char::from(byte)),
                    _ => encode(&mut flat, byte),
                }
            }
            b'\\' => return Err("has a backslash"),
            b'#' => return Err("has a fragment"),
            0..=0x20 | 0x7f => return Err("has a blank or control character"),
            0x80.. => encode(&mut flat, byte),
            _ => flat.push(char::from(byte)),
        }
    }
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = flat[1..].split('/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        // Some servers drop a parameter before they look at dots.
        let bare = segment.split(';').next().unwrap_or_default();
        if matches!(bare, "." | "..") && bare != segment {
            return Err("has dots before a parameter");
        }
        match segment {
            "." => {}
            ".." => {
                kept.pop();
            }
            _ => {
                kept.push(segment);
                continue;
            }
        }
        if last {
            kept.push("");
        }
    }
    Ok(format!("/{}", kept.join("/")))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

pub(super) fn encode(text: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    text.push('%');
    text.push(char::from(DIGITS[usize::from(byte >> 4)]));
    text.push(char::from(DIGITS[usize::from(byte & 15)]));
}

/// A pattern for paths: `*` and `?` within a segment, `**` for any number of whole segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    text: String,
    segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Any,
    One(String),
}

impl PathPattern {
    /// Reads a pattern that begins with a slash; `None` is one that every path matches.
    pub fn parse(text: &str) -> Result<Option<Self>, &'static str> {
        if text.contains("//") {
            return Err("has an empty segment in its path");
        }
        let settled = settle(text.as_bytes()).map_err(|reason| match reason {
            "has an encoded slash" => "has an encoded slash in its path, which is refused in requests",
            "has a backslash" => "has a backslash in its path, which is refused in requests",
            "has a fragment" => "has a '#' in its path, which no request has",
            "has a blank or control character" => "has a blank or control character in its path",
            "has a '%' without two hex digits" => "has a '%' without two hex digits in its path",
            _ => "has a path that no request has",
        })?;
        if text.split('/').any(|segment| matches!(segment, "." | "..")) {
            return Err("has '.' or '..' in its path, which requests are freed of");
        }
        let mut segments = Vec::new();
        for segment in settled[1..].split('/') {
            segments.push(match segment {
                "**" => Segment::Any,
                _ if segment.contains("**") => {
                    return Err("has '**' beside other characters (it stands for whole segments)");
                }
                _ => Segment::One(segment.to_owned()),
            });
        }
        segments.dedup_by(|a, b| *a == Segment::Any && *b == Segment::Any);
        if segments == [Segment::Any] {
            return Ok(None);
        }
        Ok(Some(Self { text: settled, segments }))
    }

    /// Whether `path` matches in every way that servers may read it.
    #[must_use]
    pub fn surely_matches(&self, path: &RequestPath) -> bool {
        self.matches(&path.normal) && path.joined.as_ref().is_none_or(|joined| self.matches(joined))
    }

    /// Whether `path` matches in some way that servers may read it.
    #[must_use]
    pub fn maybe_matches(&self, path: &RequestPath) -> bool {
        let free = Self {
            text: String::new(),
            segments: self
                .segments
                .iter()
                .map(|segment| match segment {
                    Segment::Any => Segment::Any,
                    Segment::One(pattern) => Segment::One(pattern.to_ascii_lowercase()),
                })
                .collect(),
        };
        let either = |path: &str| self.matches(path) || free.matches(&loose(path));
        either(&path.normal) || path.joined.as_deref().is_some_and(either)
    }

    fn matches(&self, path: &str) -> bool {
        let Some(path) = path.strip_prefix('/') else { return false };
        let segments: Vec<&str> = path.split('/').collect();
        wild(
            &self.segments,
            &segments,
            |segment| *segment == Segment::Any,
            |segment, text| match segment {
                Segment::Any => false,
                Segment::One(pattern) => {
                    wild(pattern.as_bytes(), text.as_bytes(), |c| *c == b'*', |c, byte| matches!(c, b'?') || c == byte)
                }
            },
        )
    }
}

/// `path` as servers read it that drop parameters, and blanks and dots at the end of a name, and know no capitals.
fn loose(path: &str) -> String {
    let mut segments: Vec<_> = Vec::new();
    for segment in path.to_ascii_lowercase().split('/') {
        let mut bare = segment.split(';').next().unwrap_or_default();
        while let Some(shorter) = bare.strip_suffix('.').or_else(|| bare.strip_suffix("%20")) {
            bare = shorter;
        }
        segments.push(bare.to_owned());
    }
    segments.join("/")
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether `text` matches `pattern`, of which `any` stands for any number of items. Going back to the last one is enough,
/// so this takes no more than length times length.
fn wild<P, T>(pattern: &[P], text: &[T], any: impl Fn(&P) -> bool, one: impl Fn(&P, &T) -> bool) -> bool {
    let (mut at, mut seen, mut back) = (0, 0, None);
    while seen < text.len() {
        if pattern.get(at).is_some_and(&any) {
            back = Some((at, seen));
            at += 1;
        } else if pattern.get(at).is_some_and(|item| one(item, &text[seen])) {
            at += 1;
            seen += 1;
        } else if let Some((star, from)) = back {
            back = Some((star, from + 1));
            (at, seen) = (star + 1, from + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(any)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> RequestPath {
        RequestPath::parse(text.as_bytes()).unwrap()
    }

    fn pattern(text: &str) -> PathPattern {
        PathPattern::parse(text).unwrap().unwrap()
    }

    #[test]
    fn a_path_has_one_spelling() {
        for (text, settled) in [
            ("/", "/"),
            ("/a/./b", "/a/b"),
            ("/repos/me/../../admin", "/admin"),
            ("/a/%2e%2E/b", "/b"),
            ("/../../x", "/x"),
            ("/a/..", "/"),
            ("/a/b/.", "/a/b/"),
            ("/%61%7e%c3%a9", "/a~%C3%A9"),
            ("/é", "/%C3%A9"),
            ("/a%20b%3b", "/a%20b%3B"),
            ("/a//b", "/a//b"),
        ] {
            assert_eq!(path(text).as_str(), settled, "{text}");
        }
    }

    #[test]
    fn what_servers_read_in_different_ways_is_refused() {
        for text in [
            "",
            "a",
            "/a%2fb",
            "/a%5Cb",
            "/a%00",
            "/a%0d%0aX",
            "/a\\b",
            "/a b",
            "/a\r\n",
            "/%",
            "/%4",
            "/%zz",
            "/a#b",
            "/a/..;x/b",
            "/.;/b",
        ] {
            assert!(RequestPath::parse(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn two_stars_stand_for_whole_segments() {
        for (rule, yes, no) in [
            (
                "/repos/**/issues",
                vec!["/repos/issues", "/repos/a/issues", "/repos/a/b/issues"],
                vec!["/repos/a/notissues", "/repos/a/issues/1"],
            ),
            ("/x/**", vec!["/x", "/x/", "/x/a/b"], vec!["/xy", "/", "/y/x"]),
            ("/a/*", vec!["/a/b", "/a/"], vec!["/a", "/a/b/c"]),
            ("/a/?.txt", vec!["/a/b.txt"], vec!["/a/bc.txt", "/a/.txt"]),
            ("/a*c/d", vec!["/ac/d", "/abbc/d"], vec!["/ab/c/d", "/abc/"]),
            ("/**/b/**", vec!["/b", "/a/b/c"], vec!["/a"]),
            ("/a", vec!["/a", "/%61", "/./a"], vec!["/a/"]),
        ] {
            for text in yes {
                assert!(pattern(rule).surely_matches(&path(text)), "{rule} {text}");
            }
            for text in no {
                assert!(!pattern(rule).maybe_matches(&path(text)), "{rule} {text}");
            }
        }
        // What some servers take for the same.
        for text in ["/A", "/a;x=y", "/a.", "/a%20"] {
            assert!(pattern("/a").maybe_matches(&path(text)) && !pattern("/a").surely_matches(&path(text)), "{text}");
        }
        assert_eq!(PathPattern::parse("/**"), Ok(None));
        assert_eq!(PathPattern::parse("/**/**"), Ok(None));
        assert!(!pattern("/*").maybe_matches(&RequestPath::whole_server()));
    }

    #[test]
    fn slashes_that_a_server_may_join_count_both_ways() {
        assert!(!pattern("/a/**/c").surely_matches(&path("//a/c")));
        assert!(pattern("/admin/**").maybe_matches(&path("//admin/x")));
        assert!(!pattern("/*/admin").surely_matches(&path("//admin")));
    }

    #[test]
    fn dead_patterns_are_refused() {
        for text in ["/a**", "/a/**b/c", "/a//b", "/a/../b", "/./a", "/a%2fb", "/a\\b", "/a#b", "/a b", "/%4"] {
            assert!(PathPattern::parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn settling_twice_changes_nothing(text in "/[a-z./%;0-9~é]{0,30}") {
            if let Ok(once) = RequestPath::parse(text.as_bytes()) {
                let twice = path(once.as_str());
                prop_assert_eq!(&once, &twice);
                prop_assert!(!once.as_str().split('/').any(|segment| segment == "." || segment == ".."));
            }
        }

        #[test]
        fn a_path_matches_itself_and_everything_below_its_stars(text in "(/[a-z]{1,5}){1,4}", below in "(/[a-z]{1,5}){0,3}") {
            prop_assert!(pattern(&text).surely_matches(&path(&text)));
            let stars = format!("{text}/**");
            let lower = format!("{text}{below}");
            prop_assert!(pattern(&stars).surely_matches(&path(&lower)));
            let beside = format!("{text}x{below}");
            prop_assert!(!pattern(&stars).maybe_matches(&path(&beside)));
        }

        #[test]
        fn long_patterns_take_no_time(stars in 1_usize..60) {
            let rule = pattern(&format!("/{}c", "a*".repeat(stars)));
            let long = path(&format!("/{}b", "a".repeat(4000)));
            prop_assert!(!rule.maybe_matches(&long));
        }
    }
}
