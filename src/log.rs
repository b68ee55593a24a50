//! Diagnostics on standard error: one line each, escaped, as text or as JSON.
//!
//! Never on standard output, which belongs to the target.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::writer::MakeWriterExt;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::cli::{LogFormat, Verbosity};
use crate::error::Error;
use crate::sys;

/// The variable that sets the verbosity and nothing else.
pub const VARIABLE: &str = "SANDBOX_RUN_LOG";

/// The target of events that carry a remedy for the error before them.
const HINT: &str = "hint";

/// The target of events that somebody asked for by an option of its own.
const WANTED: &str = "wanted";

/// Sets up diagnostics for the rest of the process. Options win over the variable's `value`.
pub fn start(verbosity: Verbosity, format: LogFormat, value: Option<&std::ffi::OsStr>) {
    let by_variable = from_variable(value);
    let level = match (verbosity.quiet, verbosity.verbose) {
        (true, _) => LevelFilter::ERROR,
        (false, 0) => by_variable.unwrap_or(LevelFilter::WARN),
        (false, 1) => LevelFilter::INFO,
        (false, 2) => LevelFilter::DEBUG,
        (false, _) => LevelFilter::TRACE,
    };
    let shown = move |event: &Metadata<'_>| *event.level() <= level || event.target() == WANTED;
    let builder = tracing_subscriber::fmt()
        // Warnings are kept in each case.
        .with_max_level(level.max(LevelFilter::WARN))
        .with_writer((|| Stderr).with_filter(shown))
        .with_ansi(false)
        // It would report a standard error that cannot be written to there, and panic.
        .log_internal_errors(false);
    // A second start, as tests in one process make it, keeps the first.
    let _started = match format {
        LogFormat::Text => builder.event_format(Lines).finish().with(Keep).try_init(),
        LogFormat::Json => {
            let builder = builder.with_writer((|| Json(Stderr)).with_filter(shown));
            builder.json().flatten_event(true).with_target(false).finish().with(Keep).try_init()
        }
    };
    let counts = verbosity == Verbosity::default();
    if counts && by_variable.is_none() && value.is_some_and(|value| !value.is_empty()) {
        tracing::warn!("{VARIABLE} is none of off, error, warn, info, debug, trace: warnings and errors are shown");
    }
}

fn from_variable(value: Option<&std::ffi::OsStr>) -> Option<LevelFilter> {
    value?.to_str()?.parse().ok()
}

/// Says why nothing ran.
pub fn failure(error: &Error) {
    tracing::error!("{error}");
    for hint in error.hints() {
        tracing::error!(target: HINT, "hint: {hint}");
    }
}

/// Says as a warning what was asked for, and so is no notice that `-q` would keep back.
pub fn wanted(text: &str) {
    tracing::warn!(target: WANTED, "{text}");
}

/// Says that something went wrong beside the run, whose status stays.
pub fn trouble(text: &str) {
    tracing::error!("{text}");
}

/// Warnings and errors so far, whether or not they were shown.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The texts of all warnings and errors so far, in order, for a report; those that were not to be shown as well.
#[must_use]
pub fn said() -> Vec<String> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Keeps what [`said`] tells.
struct Keep;

impl<S: Subscriber> Layer<S> for Keep {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() <= Level::WARN {
            let mut message = Message(String::new());
            event.record(&mut message);
            SAID.lock().unwrap_or_else(PoisonError::into_inner).push(readable(&message.0).into_owned());
        }
    }
}

/// Whether the run was ended: from then on nobody who does not read may keep us.
static HURRY: AtomicBool = AtomicBool::new(false);

/// What is said from now on is said to whoever listens, and not waited for.
pub fn hurry() {
    HURRY.store(true, Ordering::Relaxed);
}

/// Standard error.
struct Stderr;

impl io::Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !HURRY.load(Ordering::Relaxed) {
            return io::stderr().write(bytes);
        }
        sys::streams::write_error(bytes, PATIENCE)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// A stream that gets whole lines of JSON, and steers nobody's terminal.
struct Json<W>(W);

impl<W: io::Write> io::Write for Json<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(&unsteered(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// `value` as a line of JSON that a terminal can be shown.
#[must_use]
pub fn json_line(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = unsteered(&serde_json::to_vec(value).unwrap_or_default()).into_owned();
    bytes.push(b'\n');
    bytes
}

/// JSON with the same meaning, in which what would steer a terminal is written as `\u…`. JSON asks for that only below U+0020.
#[must_use]
pub fn unsteered(json: &[u8]) -> Cow<'_, [u8]> {
    let foreign = |char: char| steers(char) && char >= ' ';
    match std::str::from_utf8(json) {
        Ok(text) if text.contains(foreign) => {
            let mut safe = String::with_capacity(text.len() + 16);
            for char in text.chars() {
                if foreign(char) {
                    // All of them have one code unit, and a text takes everything.
                    let _written = write!(safe, "\\u{:04x}", u32::from(char));
                } else {
                    safe.push(char);
                }
            }
            Cow::Owned(safe.into_bytes())
        }
        _ => Cow::Borrowed(json),
    }
}

/// How long a stalled reader of standard error is waited for in a hurry.
const PATIENCE: Duration = Duration::from_millis(100);

/// `sandbox-run: …` for errors, with the level's word for everything else.
struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let word = match *event.metadata().level() {
            Level::ERROR => "",
            // What was asked for needs no warning of it.
            _ if event.metadata().target() == WANTED => "",
            Level::WARN => "warning: ",
            Level::INFO => "note: ",
            Level::DEBUG => "debug: ",
            Level::TRACE => "trace: ",
        };
        let mut message = Message(String::new());
        event.record(&mut message);
        // Who asks for more than warnings asks for all of it.
        let warns = *event.metadata().level() <= Level::WARN;
        let text = if warns { readable(&message.0) } else { Cow::Borrowed(&*message.0) };
        writeln!(out, "sandbox-run: {word}{}", escape(&text))
    }
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

/// Text that cannot move the cursor, ring, end a line or turn the reading direction.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for char in text.chars() {
        if steers(char) {
            safe.extend(char.escape_default());
        } else {
            safe.push(char);
        }
    }
    safe
}

/// Foreign text as an error repeats it: whole, or its two ends around `…` when it is longer than `most` characters.
#[must_use]
pub fn excerpt(text: &str, most: usize) -> Cow<'_, str> {
    // The end is where a line of foreign text has its quote and what it is followed by.
    const TAIL: usize = 16;
    if text.len() <= most || text.chars().count() <= most {
        return Cow::Borrowed(text);
    }
    let head = text.char_indices().nth(most.saturating_sub(TAIL + 1)).map_or(0, |(at, _)| at);
    let tail = text.char_indices().nth_back(TAIL - 1).map_or(text.len(), |(at, _)| at);
    Cow::Owned(format!("{}…{}", &text[..head], &text[tail..]))
}

/// The most characters of a word that an error repeats: no option, key or name is longer.
pub const WORD_SHOWN_MAX: usize = 80;

/// A message in which nothing is longer than anybody reads, whoever wrote the parts of it: no path that the kernel takes is
/// shortened, and what is longer is cut in the middle.
#[must_use]
pub fn readable(message: &str) -> Cow<'_, str> {
    const PATH_MAX: usize = 4096;
    const LINE_MAX: usize = 4 * PATH_MAX;
    if message.len() <= PATH_MAX {
        return Cow::Borrowed(message);
    }
    let part = |part| if str::len(part) > PATH_MAX { excerpt(part, WORD_SHOWN_MAX) } else { Cow::Borrowed(part) };
    let parts = message.split_inclusive(' ').map(part).collect::<String>();
    Cow::Owned(excerpt(&parts, LINE_MAX).into_owned())
}

/// Control characters, and those that end a line or reorder what stands around them.
#[must_use]
pub fn steers(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::{escape, excerpt, json_line, readable};

    #[test]
    fn json_steers_no_terminal_and_means_the_same() {
        let text = "a\u{1b}\u{7f}\u{9b}2J\u{202e}ü\n\u{2028}\"";
        let line = String::from_utf8(json_line(&text)).unwrap();
        assert_eq!(line, "\"a\\u001b\\u007f\\u009b2J\\u202eü\\n\\u2028\\\"\"\n");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
    }

    #[test]
    fn escapes_what_a_terminal_would_obey() {
        assert_eq!(escape("a\u{1b}[2J\nb\u{7}\u{202e}ü\u{2028}"), "a\\u{1b}[2J\\nb\\u{7}\\u{202e}ü\\u{2028}");
    }

    #[test]
    fn both_ends_of_a_long_word_are_shown() {
        for (text, most, shown) in [
            ("", 20, ""),
            ("ab", 20, "ab"),
            ("12345678901234567890", 20, "12345678901234567890"),
            ("abc45678901234567890x", 20, "abc…678901234567890x"),
            ("äöü45678901234567890x", 20, "äöü…678901234567890x"),
            ("äöüäöüäöüäöüäöüäöüäö", 20, "äöüäöüäöüäöüäöüäöüäö"),
        ] {
            assert_eq!(excerpt(text, most), shown);
        }
    }

    #[test]
    fn a_message_has_an_end() {
        let path = format!("/{}", "x".repeat(4000));
        let fine = format!("cannot use '{path}': too long ({path}) {path} {path}");
        assert_eq!(readable(&fine), fine, "every path that the kernel takes");
        let long = format!("cannot use '{}': too long", "ü".repeat(100_000));
        let short = readable(&long);
        assert!(
            short.starts_with("cannot use 'üü") && short.ends_with("üü': too long") && short.contains('…'),
            "{short}"
        );
        assert!(short.chars().count() < 120, "{short}");
        assert!(readable(&"x ".repeat(100_000)).chars().count() <= 4 * 4096);
    }
}
