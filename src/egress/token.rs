//! What a client says to be served, where others than the target could reach the proxy: another word in each run.
//!
//! It is in the variables of the target and in the memory of the proxy, and in no text that is made here for anybody else.

use std::fmt;

/// By which name a client comes.
#[cfg(unix)]
const NAME: &str = "sandbox-run";

/// A name and a word that nobody can guess.
#[derive(Clone)]
pub struct Token(Vec<u8>);

impl Token {
    /// `NAME:WORD`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }

    /// One of this run alone.
    #[cfg(unix)]
    pub fn random() -> std::io::Result<Self> {
        use std::io::Read;
        let mut bytes = [0; 24];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let word = bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        Ok(Self::new(&format!("{NAME}:{word}")))
    }

    /// As it stands before `@` in the address of a proxy.
    #[must_use]
    pub fn in_url(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    /// Whether `said` is the same; the time that this takes says nothing about where they differ.
    #[must_use]
    pub fn is(&self, said: &[u8]) -> bool {
        let different = self.0.iter().zip(said).fold(0, |sum, (a, b)| sum | (a ^ b));
        std::hint::black_box(different) == 0 && self.0.len() == said.len()
    }

    /// Whether a field `Proxy-Authorization` says it.
    #[must_use]
    pub fn is_in(&self, field: &[u8]) -> bool {
        use base64::Engine;
        let Some((scheme, code)) = field.split_at_checked(6) else { return false };
        let said = base64::engine::general_purpose::STANDARD.decode(code.trim_ascii());
        scheme.eq_ignore_ascii_case(b"basic ") && said.is_ok_and(|said| self.is(&said))
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.is(&other.0)
    }
}

impl Eq for Token {}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_another_one_that_fits_into_a_url_and_into_socks() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert!(one != other && one == one.clone());
        let text = one.in_url();
        let (name, word) = text.split_once(':').unwrap();
        assert_eq!((name, word.len()), (NAME, 48));
        assert!(word.bytes().all(|byte| byte.is_ascii_hexdigit()), "nothing of it has to be escaped");
        assert!(one.is(text.as_bytes()) && !one.is(&text.as_bytes()[1..]) && !one.is(b""));
        assert_eq!(format!("{one:?}"), "Token");
    }
}
