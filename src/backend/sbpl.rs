//! The language of Seatbelt profiles as typed expressions: what is text is quoted, and nothing that is text becomes a rule.
//!
//! Knows the grammar and not what is allowed; `seatbelt` decides that.

use std::fmt::{self, Write};
use std::path::Path;

/// So many bytes a profile has at most; what the system itself takes is not documented.
pub const MAX_PROFILE: usize = 256 << 10;

/// A string of a profile, without control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(String);

/// Why something cannot be said in a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsayable {
    /// It has bytes that are no UTF-8, and nothing says how a profile would take them.
    NotUtf8,
    /// It has a control character; a line break would end a comment, a NUL the profile.
    Control(char),
}

impl fmt::Display for Unsayable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUtf8 => f.write_str("it has bytes that are no UTF-8"),
            Self::Control(char) => write!(f, "it has the control character U+{:04X}", u32::from(*char)),
        }
    }
}

impl Text {
    /// `text`, unless a profile cannot hold it.
    pub fn new(text: &str) -> Result<Self, Unsayable> {
        match text.chars().find(|char| char.is_control()) {
            Some(char) => Err(Unsayable::Control(char)),
            None => Ok(Self(text.to_owned())),
        }
    }

    /// The bytes of `path`.
    pub fn of(path: &Path) -> Result<Self, Unsayable> {
        Self::new(path.to_str().ok_or(Unsayable::NotUtf8)?)
    }

    /// As it is, without quotes.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Text {
    /// In quotes. In one pass, since the backslash that escapes a quote must not be escaped again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for char in self.0.chars() {
            if matches!(char, '"' | '\\') {
                f.write_char('\\')?;
            }
            f.write_char(char)?;
        }
        f.write_char('"')
    }
}

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    /// A name that the language knows.
    Word(&'static str),
    /// A number.
    Number(u32),
    /// A string.
    Text(Text),
    /// A form: a name and what it is applied to.
    Form(&'static str, Vec<Expr>),
}

impl Expr {
    /// `(name arguments…)`.
    pub fn form(name: &'static str, arguments: impl IntoIterator<Item = Self>) -> Self {
        Self::Form(name, arguments.into_iter().collect())
    }

    /// `(name "text")`.
    #[must_use]
    pub fn of_text(name: &'static str, text: Text) -> Self {
        Self::Form(name, vec![Self::Text(text)])
    }

    /// What is inside of all of `parts`; one alone stays as it is.
    #[must_use]
    pub fn all(mut parts: Vec<Self>) -> Self {
        match parts.len() {
            1 => parts.remove(0),
            _ => Self::Form("require-all", parts),
        }
    }

    /// What `part` does not match.
    #[must_use]
    pub fn except(part: Self) -> Self {
        Self::Form("require-not", vec![part])
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => f.write_str(word),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{text}"),
            Self::Form(name, arguments) => {
                write!(f, "({name}")?;
                for argument in arguments {
                    write!(f, " {argument}")?;
                }
                f.write_char(')')
            }
        }
    }
}

/// A profile in the making.
#[derive(Debug)]
pub struct Profile(String);

impl Profile {
    /// With nothing in it but the version of the language.
    #[must_use]
    pub fn new() -> Self {
        Self("(version 1)\n".to_owned())
    }

    /// A heading, for readers.
    pub fn heading(&mut self, what: &'static str) {
        self.0.extend(["\n; ", what, "\n"]);
    }

    /// A rule: `verb`, the operations, and the filters of which one has to match. A rule whose filters have all gone would hold
    /// for everything, so it is none.
    pub fn rule(&mut self, verb: &'static str, operations: &[&'static str], filters: impl IntoIterator<Item = Expr>) {
        let filters: Vec<_> = filters.into_iter().collect();
        if !filters.is_empty() {
            self.write(verb, operations, &filters);
        }
    }

    /// A rule that holds whatever an operation is about.
    pub fn everywhere(&mut self, verb: &'static str, operations: &[&'static str]) {
        self.write(verb, operations, &[]);
    }

    fn write(&mut self, verb: &str, operations: &[&str], filters: &[Expr]) {
        let between = if filters.len() == 1 { " " } else { "\n  " };
        self.0.extend(["(", verb, " ", &operations.join(" ")]);
        for filter in filters {
            self.0.extend([between, &filter.to_string()]);
        }
        self.0.push_str(")\n");
    }

    /// As `sandbox-exec` reads it.
    #[must_use]
    pub fn text(self) -> String {
        self.0
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn the_backslash_is_escaped_once() {
        for (text, quoted) in [
            ("/a b", r#""/a b""#),
            (r#"/a"b"#, r#""/a\"b""#),
            (r"/a\b", r#""/a\\b""#),
            (r#"/a\"b"#, r#""/a\\\"b""#),
            (r#"/") (allow default) (""#, r#""/\") (allow default) (\"""#),
            ("/\u{e9};(", "\"/\u{e9};(\""),
            ("", r#""""#),
        ] {
            assert_eq!(Text::new(text).unwrap().to_string(), quoted);
        }
    }

    #[test]
    fn what_no_profile_can_hold_is_refused() {
        for char in ['\0', '\n', '\r', '\t', '\u{1b}', '\u{7f}', '\u{85}'] {
            assert_eq!(Text::new(&format!("/a{char}b")), Err(Unsayable::Control(char)));
        }
        assert_eq!(Text::of(Path::new(OsStr::from_bytes(b"/a\xff"))), Err(Unsayable::NotUtf8));
        assert_eq!(Unsayable::Control('\n').to_string(), "it has the control character U+000A");
    }

    #[test]
    fn several_filters_are_one_a_line_and_a_rule_without_any_is_none() {
        let path = |text: &str| Expr::of_text("literal", Text::new(text).unwrap());
        let mut profile = Profile::new();
        profile.rule("allow", &["file-read*"], []);
        profile.everywhere("deny", &["default"]);
        profile.heading("files");
        profile.rule("allow", &["file-read*"], [Expr::all(vec![path("/a"), Expr::except(path("/b"))])]);
        profile.rule("deny", &["file-read*", "file-write*"], [Expr::all(vec![path("/a")]), path("/c")]);
        let expected = "(version 1)\n(deny default)\n\n; files\n(allow file-read* (require-all (literal \"/a\") (require-not (literal \"/b\"))))\n\
             (deny file-read* file-write*\n  (literal \"/a\")\n  (literal \"/c\"))\n";
        assert_eq!(profile.text(), expected);
    }
}
