//! The command with everything a reader or a shell wants to know: help texts, examples, exit status, completions.
//!
//! Nothing here takes part in running a command.

use clap::{Arg, Command, ValueHint};
use clap_complete::Shell;

use super::options::{self, NAME};
use super::texts::{ABOUT, LONG_ABOUT, TEXTS};
use crate::exit;
use crate::policy::limits::Limit;

/// Command lines that work as they are, each with what it does.
pub const EXAMPLES: &[(&str, &str)] = &[
    ("Run the tests without network; they can write only to /tmp and an empty home", "sandbox-run make test"),
    ("Build in the working directory, but leave the history alone", "sandbox-run -w . --protect .git -- make"),
    ("Fetch with the host's network and the user's settings", "sandbox-run --net host -r ~/.gitconfig -w . git pull"),
    ("Pass one secret and a group of settings, hide a file", "sandbox-run -e API_TOKEN -e 'CI_*' --mask .env ./deploy"),
    ("See what would be visible, and which variables would be dropped", "sandbox-run --dry-run -w . -- make"),
    ("Find out why it does not work here", "sandbox-run --check"),
];

/// How a run ends under a limit: which limit and how, the status, the word in the result.
pub const ENDS: &[(&str, Code, Option<Limit>)] = &[
    ("--timeout", Code::Number(124), Some(Limit::Time)),
    ("--max-output, --output-overflow kill", Code::Number(124), Some(Limit::Output)),
    ("--max-output, truncate", Code::Own, Some(Limit::Output)),
    ("--memory, SIGKILL to everything", Code::Number(137), Some(Limit::Memory)),
    ("--cpu-time, SIGXCPU", Code::Number(152), Some(Limit::Cpu)),
    ("--cpu-time, SIGKILL", Code::Number(137), Some(Limit::Cpu)),
    ("--max-file-size, SIGXFSZ", Code::Number(153), Some(Limit::FileSize)),
    ("--max-file-size, EFBIG", Code::Own, None),
    ("--max-procs, EAGAIN", Code::Own, Some(Limit::Procs)),
    ("--max-open-files, EMFILE", Code::Own, None),
    ("--address-space, ENOMEM", Code::Own, None),
    ("--core", Code::Own, None),
];

/// The status in a row of [`ENDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// This number.
    Number(u8),
    /// Whatever the command makes of the failure.
    Own,
}

/// What stands under every table of the exit status.
pub const EXIT_NOTE: &str =
    "A command can itself exit with these numbers; 'status' in the object of --result tells them apart.";

/// The variables that are read for our own sake, each with its meaning.
pub const ENVIRONMENT: &[(&str, &str)] = &[(
    "SANDBOX_RUN_LOG",
    "How much is said on standard error when neither -v nor -q is given: off, error, warn, info, debug or trace; \
     of another word a warning tells. Changes nothing else; no variable changes what is enforced.",
)];

/// The command with all its texts, from which help, man page and completions are made.
#[must_use]
pub fn command() -> Command {
    options::command()
        .about(ABOUT)
        .long_about(LONG_ABOUT)
        .after_help(after_help())
        .max_term_width(100)
        .mut_args(document)
        .next_help_heading(None)
        .arg(
            Arg::new("COMMAND")
                .num_args(0..)
                .trailing_var_arg(true)
                .value_hint(ValueHint::CommandWithArguments)
                .help("The command and its arguments, taken as they are"),
        )
}

/// The completion script for a shell, as it is committed below `completions/`.
#[must_use]
pub fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), NAME, &mut script);
    script
}

/// Help as printed by `-h` or `--help`.
pub(super) fn text(long: bool) -> String {
    let mut command = command();
    let text = if long { command.render_long_help() } else { command.render_help() };
    text.to_string()
}

fn document(arg: Arg) -> Arg {
    let Some(text) = TEXTS.iter().find(|text| arg.get_id() == text.id) else { return arg };
    let mut short = text.short.to_owned();
    let mut long = text.long.to_owned();
    if !text.default.is_empty() {
        let default = format!(" [default: {}]", text.default);
        // In the summary only where it is not obvious.
        if arg.get_action().takes_values() && text.default != "none" {
            short.push_str(&default);
        }
        long.push_str(&default);
    }
    // The choices are in the name of the value or in the text.
    let hide_choices = arg.get_action().takes_values();
    arg.help(short).long_help(long).hide_possible_values(hide_choices)
}

/// Two lines for each entry, so that neither breaks at a place where it could be misread.
fn after_help() -> String {
    let mut text = String::from("Examples:");
    for (what, line) in EXAMPLES {
        text.extend(["\n  ", what, ":\n      ", line]);
    }
    text.push_str("\n\nEnvironment variables:");
    for (name, meaning) in ENVIRONMENT {
        text.extend(["\n  ", name, "\n      ", meaning]);
    }
    text.push_str("\n\nExit status:");
    for (status, when) in exit::TABLE {
        text.extend(["\n  ", status, "\n      ", when]);
    }
    text.extend(["\n  ", EXIT_NOTE]);
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::OsString;

    use super::*;
    use crate::cli::parse;
    use crate::config::{self, layer};
    use crate::policy::Protection;
    use crate::policy::fs::DEFAULT_TMP_SIZE;
    use crate::policy::units::{Size, Span};

    #[test]
    fn every_option_has_a_text_and_every_text_an_option() {
        let options: BTreeSet<String> =
            options::command().get_arguments().map(|arg| arg.get_id().to_string()).collect();
        let texts: BTreeSet<String> = TEXTS.iter().map(|text| text.id.to_owned()).collect();
        assert_eq!(options, texts);
        assert_eq!(texts.len(), TEXTS.len());
        for text in TEXTS {
            assert!(text.short.len() <= 60 && !text.short.ends_with('.'), "{}", text.short);
            assert!(text.long.ends_with('.') && !text.long.contains("  "), "{}", text.long);
        }
    }

    #[test]
    fn the_texts_name_the_real_defaults() {
        let default = |id| TEXTS.iter().find(|text| text.id == id).unwrap().default;
        assert_eq!(default("tmp-size").parse::<Size>().unwrap().bytes(), DEFAULT_TMP_SIZE);
        let kill_after = default("kill-after").parse::<Span>().unwrap().duration();
        assert_eq!(kill_after, layer::DEFAULT_KILL_AFTER);
        let policy = |words: &[&str]| config::merge([parse(words.iter().map(OsString::from)).unwrap().layer]);
        let silent = policy(&["x"]);
        let overflow = default("output-overflow");
        let typed =
            ["--net", default("net"), "--new-session", default("new-session"), "--output-overflow", overflow, "x"];
        let typed = policy(&typed);
        assert_eq!((silent.network, silent.new_session), (typed.network, typed.new_session));
        assert_eq!(silent.limits, typed.limits);
        let gaps = TEXTS.iter().find(|text| text.id == "allow-gap").unwrap().long;
        let words = Protection::ALL.map(Protection::word).join(", ");
        assert!(gaps.contains(&format!(": {words}.")), "{gaps}");
    }

    #[test]
    fn the_ends_have_the_statuses_that_are_given() {
        for (what, code, limit) in ENDS {
            let options = options::command();
            let option = what.split([' ', ',']).next().unwrap();
            assert!(options.get_arguments().any(|arg| arg.get_long() == option.strip_prefix("--")), "{what}");
            let Code::Number(number) = code else { continue };
            let status = match (number, limit) {
                (152, _) => exit::Status::Signaled(libc::SIGXCPU),
                (153, _) => exit::Status::Signaled(libc::SIGXFSZ),
                (_, limit) => exit::Status::Limited(limit.unwrap()),
            };
            assert_eq!(status.code(), *number, "{what}");
        }
        for limit in Limit::ALL {
            assert!(ENDS.iter().any(|(_, _, word)| *word == Some(limit)), "{limit}");
        }
    }

    #[test]
    fn help_is_plain_and_fits() {
        for width in [40, 80, 100] {
            for long in [false, true] {
                let mut command = command().term_width(width);
                let text = if long { command.render_long_help() } else { command.render_help() };
                let text = text.to_string();
                assert!(!text.contains('\x1b'));
                for heading in ["Backend", "Files", "Network", "Environment", "Limits", "Process", "Report", "Other"] {
                    assert!(text.contains(&format!("\n{heading}:\n")), "{heading}");
                }
                for line in text.lines() {
                    // The words of an option and of an example stay on one line.
                    let whole = line.contains("--") || line.contains("sandbox-run");
                    assert!(line.chars().count() <= width || whole, "{width}: {line}");
                }
            }
        }
    }

    #[test]
    fn examples_are_accepted() {
        for (_, line) in EXAMPLES {
            let words: Vec<OsString> = line.split(' ').skip(1).map(|word| word.trim_matches('\'').into()).collect();
            parse(words).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
}
