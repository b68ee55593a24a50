//! Sizes and durations as people write them.
//!
//! Text to number and nothing else: whether a number makes sense for a setting is decided where the setting is read.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::limits::Floor;
use crate::log;

/// A number of bytes: a whole number, alone or with `K M G T` or `KiB MiB GiB TiB`, both powers of 1024.
///
/// `KB` is no unit here, since half of the world reads it as 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(u64);

impl Size {
    /// The size of a memory page: no file system holds anything in less.
    pub const PAGE: Floor = Floor::new(4096, "is less than one page (4K)");

    /// The largest size that the kernel has a number for: of files, and of file systems in memory.
    pub const MAX: Self = Self(i64::MAX.cast_unsigned());

    /// A number of bytes, or the reason against it, to stand behind what was written.
    pub fn new(bytes: u64) -> Result<Self, &'static str> {
        if bytes > Self::MAX.0 { Err(TOO_LARGE) } else { Ok(Self(bytes)) }
    }

    /// The number of bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.0
    }
}

const NOT_A_SIZE: &str = "is not a size (a whole number of bytes, or with K, M, G, T, KiB, MiB, GiB, TiB)";
const NOT_A_DURATION: &str = "is not a duration (one number and one unit of ms, s, m, h; seconds without)";
const TOO_LARGE: &str = "is more than 63 bits of bytes";

impl FromStr for Size {
    type Err = BadUnit;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (digits, unit) = split_number(text, |c| c.is_ascii_digit());
        let shift = match unit {
            "" => 0,
            "K" | "KiB" => 10,
            "M" | "MiB" => 20,
            "G" | "GiB" => 30,
            "T" | "TiB" => 40,
            _ => return Err(BadUnit::not_a_size(text)),
        };
        if digits.is_empty() {
            return Err(BadUnit::not_a_size(text));
        }
        let bad = |what| BadUnit { text: text.to_owned(), what, meant: None };
        // Only too many digits can make this fail.
        let count = digits.parse::<u64>().map_err(|_| bad(TOO_LARGE))?;
        Self::new(count.saturating_mul(1 << shift)).map_err(bad)
    }
}

/// A length of time: a number, whole or with a decimal point, in seconds or with `ms`, `s`, `m` or `h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(Duration);

impl Span {
    /// The longest one, a hundred years: whatever is longer means the same, and this can be added to any clock.
    pub const MAX: Self = Self(Duration::from_hours(100 * 365 * 24));

    /// The same as the standard library's type.
    #[must_use]
    pub fn duration(self) -> Duration {
        self.0
    }
}

impl FromStr for Span {
    type Err = BadUnit;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (number, unit) = split_number(text, |c| c.is_ascii_digit() || c == '.');
        let nanos_per_unit: u128 = match unit {
            "ms" => 1_000_000,
            "" | "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(BadUnit::not_a_duration(text)),
        };
        let nanos = decimal(number, nanos_per_unit).ok_or_else(|| BadUnit::not_a_duration(text))?;
        Ok(u64::try_from(nanos).map_or(Self::MAX, |nanos| Self(Duration::from_nanos(nanos)).min(Self::MAX)))
    }
}

/// `number` times `scale`, or `None` if the text is not a decimal number.
///
/// Saturates; what is more than nothing stays more than nothing, since 0 often has a meaning of its own.
fn decimal(number: &str, scale: u128) -> Option<u128> {
    // Digits behind these are below a nanosecond in every unit.
    const PLACES: usize = 18;

    let (whole, fraction) = match number.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None if number.is_empty() => return None,
        None => (number, ""),
    };
    let digit = |c: u8| c.is_ascii_digit().then(|| u128::from(c - b'0'));
    let mut value = 0_u128;
    for c in whole.bytes() {
        value = value.saturating_mul(10).saturating_add(digit(c)?);
    }
    value = value.saturating_mul(scale);
    let mut part = 0;
    let mut divisor = 1;
    let mut positive = false;
    for (place, c) in fraction.bytes().enumerate() {
        let digit = digit(c)?;
        positive |= digit > 0;
        if place < PLACES {
            part = part * 10 + digit;
            divisor *= 10;
        }
    }
    value = value.saturating_add(part * scale / divisor);
    Some(if positive { value.max(1) } else { value })
}

/// The longest start of `text` that belongs to a number, and the rest.
fn split_number(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// The text is not a size or not a duration; displays with the text in quotes and, where there is one, what was meant.
#[derive(Debug)]
pub struct BadUnit {
    text: String,
    what: &'static str,
    meant: Option<String>,
}

impl BadUnit {
    fn not_a_size(text: &str) -> Self {
        let meant = likely::<Size>(text, |unit| {
            let first = unit.to_ascii_uppercase().chars().next()?;
            let known = ["", "B", "I", "IB"].contains(&&*unit[1..].to_ascii_uppercase());
            (known && "KMGT".contains(first)).then(|| first.to_string())
        });
        Self { text: text.to_owned(), what: NOT_A_SIZE, meant }
    }

    fn not_a_duration(text: &str) -> Self {
        let meant = likely::<Span>(text, |unit| {
            let unit = match unit.to_ascii_lowercase().as_str() {
                "ms" | "msec" | "msecs" | "millis" | "milliseconds" => "ms",
                "s" | "sec" | "secs" | "second" | "seconds" => "s",
                // Not `M`, which could be a month.
                "min" | "mins" | "minute" | "minutes" => "m",
                "h" | "hr" | "hrs" | "hour" | "hours" => "h",
                _ => return None,
            };
            Some(unit.to_owned())
        });
        Self { text: text.to_owned(), what: NOT_A_DURATION, meant }
    }

    /// The same where text without a unit is refused.
    #[must_use]
    pub fn with_unit(mut self) -> Self {
        self.what = match self.what {
            NOT_A_SIZE => "is not a size (a whole number with K, M, G, T, KiB, MiB, GiB, TiB)",
            NOT_A_DURATION => "is not a duration (one number and one unit of ms, s, m, h)",
            other => other,
        };
        self
    }
}

impl fmt::Display for BadUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' {}", log::excerpt(&self.text, log::WORD_SHOWN_MAX), self.what)?;
        match &self.meant {
            // Its number is as long as the one that was written.
            Some(meant) if meant.len() > log::WORD_SHOWN_MAX => Ok(()),
            Some(meant) => write!(f, ": did you mean '{meant}'?"),
            None => Ok(()),
        }
    }
}

/// The text with the unit that `unit` takes its own for, if that is then a value; blanks between both are left out.
fn likely<T: FromStr>(text: &str, unit: impl Fn(&str) -> Option<String>) -> Option<String> {
    let (number, written) = split_number(text, |c| c.is_ascii_digit() || c == '.');
    let written = written.trim_start_matches(' ');
    if number.is_empty() || written.is_empty() || !written.is_ascii() {
        return None;
    }
    let likely = format!("{number}{}", unit(written)?);
    // The same text again would be asked about for ever.
    (likely != text && likely.parse::<T>().is_ok()).then_some(likely)
}

impl std::error::Error for BadUnit {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("1", 1),
            ("007", 7),
            ("4096", 4096),
            ("4K", 4 << 10),
            ("4KiB", 4 << 10),
            ("3M", 3 << 20),
            ("3MiB", 3 << 20),
            ("2G", 2 << 30),
            ("2GiB", 2 << 30),
            ("1T", 1 << 40),
            ("1TiB", 1 << 40),
            ("9223372036854775807", (1 << 63) - 1),
            ("8388607T", 8_388_607 << 40),
        ] {
            assert_eq!(text.parse::<Size>().unwrap().bytes(), bytes, "{text}");
        }
    }

    #[test]
    fn not_sizes() {
        for text in [
            "", " ", "K", "-1", "+1", "1.5G", "1 G", " 1", "1 ", "1k", "1KB", "1Ki", "1B", "1GB", "1KK", "0x10", "1e3",
            "1_000", "abc", "٣", "1\n",
        ] {
            let error = text.parse::<Size>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("'{text}' is not a size")), "{text}: {error}");
        }
        for text in [
            "9223372036854775808",
            "18446744073709551615",
            "18446744073709551616",
            "8388608T",
            "16777215T",
            "16777216T",
            "99999999999999999999999999G",
        ] {
            let error = text.parse::<Size>().unwrap_err().to_string();
            assert!(error.contains("more than 63 bits") && error.contains(text), "{text}: {error}");
        }
    }

    #[test]
    fn what_was_meant() {
        for (text, meant) in [
            ("512m", Some("512M")),
            ("1k", Some("1K")),
            ("512MB", Some("512M")),
            ("1Gi", Some("1G")),
            ("1 G", Some("1G")),
            ("1.5g", None),
            ("1x", None),
            ("1b", None),
            ("1 ", None),
            ("M", None),
            ("1.5G", None),
            ("1\u{fb03}", None),
        ] {
            let error = text.parse::<Size>().unwrap_err().to_string();
            let end = meant.map_or("TiB)".to_owned(), |meant| format!("TiB): did you mean '{meant}'?"));
            assert!(error.ends_with(&end), "{error}");
        }
        for (text, meant) in [
            ("10sec", Some("10s")),
            ("1.5 hours", Some("1.5h")),
            ("5min", Some("5m")),
            ("5M", None),
            ("1h30m", None),
            ("2d", None),
            ("1.sec", None),
        ] {
            let error = text.parse::<Span>().unwrap_err().to_string();
            let end = meant.map_or("without)".to_owned(), |meant| format!("without): did you mean '{meant}'?"));
            assert!(error.ends_with(&end), "{error}");
        }
    }

    #[test]
    fn durations() {
        for (text, nanos) in [
            ("0", 0),
            ("0.0", 0),
            ("0.2", 200_000_000),
            (".5", 500_000_000),
            ("0.2s", 200_000_000),
            ("250ms", 250_000_000),
            ("0.5ms", 500_000),
            ("10s", 10_000_000_000),
            ("90", 90_000_000_000),
            ("5m", 300_000_000_000),
            ("1h", 3_600_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("0.000000001", 1),
            // Never rounded down to "none".
            ("0.0000000001", 1),
            ("0.0000000000000000000000000000001h", 1),
            ("1.0000000000000000000000000000001", 1_000_000_000),
        ] {
            let duration = text.parse::<Span>().unwrap().duration();
            assert_eq!(duration, Duration::from_nanos(nanos), "{text}");
        }
    }

    #[test]
    fn huge_durations_stop_at_a_hundred_years() {
        let nines = "9".repeat(400);
        for text in ["876001h", "99999999999", "18446744073709551616", &nines, &format!("{nines}h")] {
            assert_eq!(text.parse::<Span>().unwrap(), Span::MAX, "{text}");
        }
        assert!(std::time::Instant::now().checked_add(Span::MAX.duration()).is_some());
    }

    #[test]
    fn not_durations() {
        for text in [
            "", " ", "s", ".", "5.", "1.2.3", "-1", "+1", "-0.5s", "abc", "1x", "1e400", "1e3", "5 s", " 5", "5 ",
            "inf", "nan", "infinity", "1d", "1S", "1M", "1min", "1us", "1m30s", "0x10", "1_000", "٣", "5\n",
        ] {
            let error = text.parse::<Span>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("'{text}' is not a duration")), "{text}: {error}");
        }
    }
}
