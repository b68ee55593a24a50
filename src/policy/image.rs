//! The name of a container image.

use std::fmt;

/// A name that an engine can look up: never an option, never empty, of the characters that references are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageName(String);

/// What podman takes before a colon for the way to an image that it then loads. Images of these names go by a longer one, such as
/// `localhost/docker:1`.
const TRANSPORTS: &[&str] = &[
    "containers-storage",
    "dir",
    "docker",
    "docker-archive",
    "docker-daemon",
    "oci",
    "oci-archive",
    "ostree",
    "sif",
    "tarball",
];

impl ImageName {
    /// From text; the error is the reason, to stand behind the text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let first = text.bytes().next().ok_or("is empty")?;
        if !first.is_ascii_alphanumeric() {
            return Err("does not begin with a letter or a digit");
        }
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@+".contains(&byte);
        if !text.bytes().all(fits) {
            return Err("holds a character other than letters, digits and '._-/:@+'");
        }
        if TRANSPORTS.iter().any(|word| text.strip_prefix(word).is_some_and(|rest| rest.starts_with(':'))) {
            return Err("names a place to fetch an image from, and not an image that is there");
        }
        Ok(Self(text.to_owned()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_an_option_or_two_words() {
        for good in
            ["python:3.12-slim", "localhost:5000/a/b@sha256:0123", "sha256:ab", "A_b.c", "0", "directory:x", "a/dir:x"]
        {
            assert_eq!(ImageName::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "-x",
            "--privileged",
            "/etc",
            ".",
            "a b",
            "a\nb",
            "a\0b",
            "ä",
            "a,b",
            "$x",
            "a=b",
            "docker-archive:/x",
            "dir:x",
            "docker://x",
            "oci-archive:x:y",
        ] {
            assert!(ImageName::parse(bad).is_err(), "{bad}");
        }
    }
}
