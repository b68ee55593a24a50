//! Diagnostics on standard error: one line each, escaped, as text or as JSON.
//!
//! Never on standard output, which belongs to the target.

use std::fmt;
use std::io;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::cli::{LogFormat, Verbosity};
use crate::error::Error;

/// The variable that sets the verbosity and nothing else.
pub const VARIABLE: &str = "SANDBOX_RUN_LOG";

/// The target of events that carry a remedy for the error before them.
const HINT: &str = "hint";

/// Sets up diagnostics for the rest of the process. Options win over the variable's `value`.
pub fn start(verbosity: Verbosity, format: LogFormat, value: Option<&std::ffi::OsStr>) {
    let level = match (verbosity.quiet, verbosity.verbose) {
        (true, _) => LevelFilter::ERROR,
        (false, 0) => from_variable(value).unwrap_or(LevelFilter::WARN),
        (false, 1) => LevelFilter::INFO,
        (false, 2) => LevelFilter::DEBUG,
        (false, _) => LevelFilter::TRACE,
    };
    let builder = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(io::stderr)
        .with_ansi(false)
        // It would report a standard error that cannot be written to there, and panic.
        .log_internal_errors(false);
    // A second start, as tests in one process make it, keeps the first.
    let _started = match format {
        LogFormat::Text => builder.event_format(Lines).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).with_target(false).try_init(),
    };
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
            Level::WARN => "warning: ",
            Level::INFO => "note: ",
            Level::DEBUG => "debug: ",
            Level::TRACE => "trace: ",
        };
        let mut message = Message(String::new());
        event.record(&mut message);
        writeln!(out, "sandbox-run: {word}{}", escape(&message.0))
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
        let bidi =
            matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{061c}');
        if char.is_control() || bidi {
            safe.extend(char.escape_default());
        } else {
            safe.push(char);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn escapes_what_a_terminal_would_obey() {
        assert_eq!(escape("a\u{1b}[2J\nb\u{7}\u{202e}ü"), "a\\u{1b}[2J\\nb\\u{7}\\u{202e}ü");
    }
}
