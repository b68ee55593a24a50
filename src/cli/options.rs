//! Which options exist, what they take and under which heading they stand.
//!
//! No help text is here: this runs at every start, and texts are copied when they are attached. They are in `texts`.

use clap::{Arg, ArgAction, Command, ValueHint};

use super::value::{self, Value};

/// The name of the program, in completions too.
pub(super) const NAME: &str = "sandbox-run";

/// The one form of the command line.
pub(super) const USAGE: &str = "sandbox-run [OPTIONS] [--] COMMAND [ARG]...";

/// All options, without help; the identifier of each is its long name.
pub(super) fn command() -> Command {
    let command = Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .override_usage(USAGE)
        .no_binary_name(true)
        .args_override_self(true)
        // Our own stand under a heading like all others.
        .disable_help_flag(true)
        .disable_version_flag(true);
    let command = command.next_help_heading("Backend").args([
        one("backend", "LIST", value::BACKENDS).short('b'),
        one("image", "NAME", value::IMAGE),
        many("allow-gap", "LIST", value::GAPS),
        switch("check"),
        switch("json"),
    ]);
    let command = command.next_help_heading("Policy").args([
        many("profile", "NAME", value::NAME).short('p'),
        many("policy", "FILE", value::PATH).value_hint(ValueHint::FilePath),
        many("policy-payload", "TEXT", value::TEXT),
        many("policy-fd", "N", value::OWN_FD),
        one("print-policy", "FORM", value::POLICY_FORM)
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("toml"),
    ]);
    let command = command.next_help_heading("Files").args([
        path("read").short('r'),
        path("read-try"),
        path("write").short('w'),
        path("write-try"),
        switch("create-missing"),
        path("mask"),
        path("protect"),
        many("show-hidden", "NAME", value::HIDDEN_NAME),
        one("hidden-scan-max", "N", value::SCAN_MAX),
        one("hidden-scan-overflow", "WHAT", value::SCAN_OVERFLOW),
        one("workdir", "DIR", value::PATH).short('C').value_hint(ValueHint::DirPath),
        one("tmp-size", "SIZE", value::TMP_SIZE),
    ]);
    let command = command.next_help_heading("Network").args([
        one("net", "off|host", value::NETWORK),
        many("allow-host", "RULE", value::HOST_RULE),
        many("credential", "SPEC", value::CREDENTIAL),
        one("upstream-proxy", "URL", value::UPSTREAM),
        one("egress-socket", "PATH", value::PATH).value_hint(ValueHint::FilePath),
        one("egress-port", "N", value::PORT),
        one("net-log", "FILE", value::PATH).value_hint(ValueHint::FilePath),
        path("deny-socket"),
        path("allow-socket"),
    ]);
    let command = command.next_help_heading("Environment").args([
        many("env", "NAME[=VALUE]", value::ENV).short('e'),
        many("env-file", "FILE", value::PATH).value_hint(ValueHint::FilePath),
        switch("no-default-env"),
    ]);
    let command = command.next_help_heading("Limits").args([
        one("timeout", "DUR", value::DURATION),
        one("kill-after", "DUR", value::DURATION),
        one("memory", "SIZE", value::MEMORY),
        one("cpu-time", "DUR", value::CPU_TIME),
        one("max-procs", "N", value::PROCS),
        one("max-file-size", "SIZE", value::SIZE),
        one("max-open-files", "N", value::OPEN_FILES),
        one("address-space", "SIZE", value::ADDRESS_SPACE),
        one("core", "SIZE", value::SIZE),
        one("max-output", "SIZE", value::SIZE),
        one("output-overflow", "WHAT", value::OUTPUT_OVERFLOW),
    ]);
    let command = command.next_help_heading("Process").args([
        many("keep-fd", "N", value::KEEP_FD),
        switch("keep-jobserver"),
        one("new-session", "WHEN", value::NEW_SESSION),
    ]);
    let command = command.next_help_heading("Report").args([
        one("result", "FILE", value::PATH).value_hint(ValueHint::FilePath),
        one("result-fd", "N", value::OWN_FD),
        switch("capture"),
        one("audit-log", "FILE", value::PATH).value_hint(ValueHint::FilePath),
        one("dry-run", "text|json", value::FORMAT).num_args(0..=1).require_equals(true).default_missing_value("text"),
        path("explain"),
        switch("trace"),
        switch("verbose").short('v').action(ArgAction::Count),
        switch("quiet").short('q'),
        one("log-format", "text|json", value::LOG_FORMAT),
    ]);
    command.next_help_heading("Other").args([
        one("completions", "SHELL", value::SHELL),
        switch("help").short('h').action(ArgAction::Help),
        switch("version").short('V').action(ArgAction::Version),
    ])
}

fn switch(name: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue)
}

/// The last value counts.
fn one<T: Clone + Send + Sync + 'static>(name: &'static str, value_name: &'static str, value: Value<T>) -> Arg {
    Arg::new(name)
        .long(name)
        .action(ArgAction::Set)
        .value_name(value_name)
        .value_parser(value)
        // Without a hint shells offer file names.
        .value_hint(ValueHint::Other)
        // `words` has already decided what is a value.
        .allow_hyphen_values(true)
}

/// Every value counts.
fn many<T: Clone + Send + Sync + 'static>(name: &'static str, value_name: &'static str, value: Value<T>) -> Arg {
    one(name, value_name, value).action(ArgAction::Append)
}

/// Every path counts.
fn path(name: &'static str) -> Arg {
    // Not `AnyPath`: only with this one bash keeps going into directories and copes with blanks.
    many(name, "PATH", value::PATH).value_hint(ValueHint::FilePath)
}
