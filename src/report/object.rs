//! The result object: which fields there are, what they mean, and how they follow from what is known.
//!
//! Format 1. Fields are added under the same number; a change of meaning is another number.

use std::ffi::OsString;
use std::time::Duration;

use serde::Serialize;

use super::known::{Chosen, Known};
use crate::egress::log::Sums;
use crate::error::Kind;
use crate::exit::Status;
use crate::log::json_line;
use crate::plan::Gap;
use crate::policy::limits::Limit;
use crate::stage::account::{End, Written};

/// Numbers that reports have for these two signals, the same on every Unix.
const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;

/// The number of the format.
pub const VERSION: u32 = 1;

/// The words of `status`, each with its meaning.
pub const STATUSES: &[(&str, &str)] = &[
    ("exited", "the command ran and exited"),
    ("signaled", "the command ran and a signal ended it"),
    ("timeout", "the time limit ended it"),
    ("output-limit", "the output limit ended it"),
    ("not-started", "the command never ran"),
];

/// The words of `reason`, each with its meaning.
pub const REASONS: &[(&str, &str)] = &[
    ("timeout", "the time limit was reached"),
    ("output-limit", "the output limit was reached and ended the command"),
    ("memory-limit", "the kernel ended a process for want of memory below the limit"),
    (
        "cpu-limit",
        "the limit of processor time was reached: by everything together where a control group counts it, otherwise by the command \
         itself; of a process that the command took in nobody else knows",
    ),
    ("file-size-limit", "a file would have grown beyond the limit, or SIGXFSZ ended the command, whoever sent it"),
    ("process-limit", "a process or thread could not be started because of the limit"),
    ("usage", "the command line cannot be understood"),
    ("policy", "the policy, or a report, cannot be carried out as written"),
    ("gap", "a protection that was asked for cannot be enforced here"),
    ("backend", "no backend could start the command"),
    ("not-found", "the command does not exist"),
    ("hidden", "the command exists on the host and is hidden by the policy"),
    ("not-executable", "the command, or its interpreter, cannot be executed"),
    (
        "terminated",
        "sandbox-run got SIGTERM, SIGINT, SIGHUP or SIGQUIT, which ask for an end, or another signal of which the command died",
    ),
];

/// The fields in their order, each with its meaning.
pub const FIELDS: &[(&str, &str)] = &[
    (
        "version",
        "The number of this format: 1. Fields may be added under the same number; pass over those that you do not know.",
    ),
    ("status", "How it ended."),
    (
        "exit_code",
        "The status with which the command itself exited, after a limit too; null if it did not exit. On Windows all its 32 bits, as a \
         signed number.",
    ),
    ("signal", "The number of the signal that ended the command, whoever sent it; null if none did."),
    ("reason", "Why it ended so, or why it was not started; null if there is nothing to explain."),
    ("backend", "The backend that ran the command; null if none did."),
    (
        "gaps",
        "What was not enforced: objects with the word of the protection and what is missing; null if no backend ran the \
         command.",
    ),
    (
        "policy_sha256",
        "SHA-256 of the merged policy in its canonical form, as '--dry-run' shows it; null if there was no policy.",
    ),
    (
        "argv",
        "The command and its arguments as typed, bytes that are not text replaced; null if the command line did not tell \
         where they begin.",
    ),
    ("pid", "The number of the command's process on the host; null if unknown."),
    ("started_at", "When the command started, UTC in the form of RFC 3339 with milliseconds; null if it did not."),
    ("wall_ms", "Milliseconds from its start to its end; null if it did not start."),
    (
        "user_ms",
        "Processor time in user mode of everything inside, in milliseconds, the start of the sandbox (a few of them) included; \
         null if unknown.",
    ),
    ("system_ms", "The same in the kernel."),
    (
        "max_rss_kib",
        "The greatest memory in use, in KiB: of the whole tree where a control group counted it, otherwise of the largest \
         process; null if unknown.",
    ),
    (
        "stdout_bytes",
        "Bytes that the command and what it started wrote on standard output until the end of the run; null if they were not \
         counted: on a terminal or another device, and in a file that is appended to, since others may add to it as well; where \
         both streams lead to the same place (2>&1) they are not told apart, and with '--max-output' this is the sum. Where \
         standard output is a file and no limit needs what is written to pass through sandbox-run, this is how far the position \
         in the file moved: the command can move it as it likes, and so can whoever else has the same file open from the caller.",
    ),
    ("stderr_bytes", "The same of standard error."),
    (
        "truncated",
        "Whether output did not arrive: because of its limit, which 'limits_hit' then names, or because it could not be passed \
         on, to a full disk for one or to a reader who did not take it until the end.",
    ),
    ("limits_hit", "All limits that were reached, as far as that can be known, by the words of 'reason'."),
    (
        "requests",
        "How many requests the proxy of '--allow-host' allowed and denied, how many failed, how many bytes went up and down, \
         which hosts with ports were denied and how often (32 of them at most), and how many lines of '--net-log' were lost; null \
         without that proxy.",
    ),
    ("env_dropped", "Names of the variables that were not passed on, no values; null if no backend ran the command."),
    (
        "warnings",
        "What sandbox-run said as a warning or error on standard error, or would have said without '-q', a text for each \
         line.",
    ),
    (
        "stdout",
        "With '--capture' only: the kept standard output, bytes that are not text replaced; null if nothing ran.",
    ),
    ("stderr", "With '--capture' only: the same of standard error."),
];

/// What a call was and how it ended.
#[derive(Debug)]
pub struct Run {
    /// The words of the target, if the command line told where they begin.
    pub argv: Option<Vec<OsString>>,
    /// How it ended.
    pub status: Status,
}

/// The result object.
#[derive(Debug, Serialize)]
pub struct Object {
    version: u32,
    status: &'static str,
    exit_code: Option<i32>,
    signal: Option<i32>,
    reason: Option<&'static str>,
    backend: Option<&'static str>,
    gaps: Option<Vec<Gap>>,
    policy_sha256: Option<String>,
    argv: Option<Vec<String>>,
    pid: Option<i32>,
    started_at: Option<String>,
    wall_ms: Option<u64>,
    user_ms: Option<u64>,
    system_ms: Option<u64>,
    max_rss_kib: Option<u64>,
    stdout_bytes: Option<u64>,
    stderr_bytes: Option<u64>,
    truncated: bool,
    limits_hit: Vec<&'static str>,
    requests: Option<Sums>,
    env_dropped: Option<Vec<String>>,
    warnings: Vec<String>,
    #[serde(flatten)]
    output: Option<Output>,
}

/// What was kept.
#[derive(Debug, Default, Serialize)]
struct Output {
    stdout: Option<String>,
    stderr: Option<String>,
}

impl Object {
    /// The object of a run.
    pub(crate) fn new(run: Run, known: Known, capture: bool, warnings: Vec<String>) -> Self {
        let Known { policy_sha256, chosen, account } = known;
        // A signal can come before there is a target to end.
        let started = account.started_at.is_some() || account.end.is_some();
        let (status, end) = match run.status {
            Status::Failed(_) => ("not-started", None),
            Status::Signaled(_) | Status::Interrupted if !started => ("not-started", None),
            Status::Done => ("exited", Some(End::Exited(0))),
            Status::Exited(code) => ("exited", Some(End::Exited(code.into()))),
            Status::Signaled(signal) => ("signaled", Some(End::Signaled(signal))),
            Status::Interrupted => ("signaled", Some(End::Signaled(SIGINT))),
            Status::Limited(Limit::Time) => ("timeout", None),
            Status::Limited(Limit::Output) => ("output-limit", None),
            Status::Limited(Limit::Memory | Limit::Cpu | Limit::FileSize | Limit::Procs) => {
                ("signaled", Some(End::Signaled(SIGKILL)))
            }
        };
        let end = account.end.or(end);
        let went_well = account.end == Some(End::Exited(0));
        let reason = match run.status {
            Status::Failed(kind) => Some(why_not_started(kind)),
            _ if account.ended_by.is_some() => account.ended_by.map(Limit::word),
            // Whatever came before, it needs no reason.
            _ if went_well => None,
            _ if account.asked.is_some() => Some("terminated"),
            // Output that was only cut ends nothing.
            _ => account.limits_hit.iter().copied().find(|limit| *limit != Limit::Output).map(Limit::word),
        };
        let written = account.output.as_ref();
        let (backend, gaps, env_dropped) = match chosen {
            Some(Chosen { backend, gaps, env_dropped }) => (Some(backend.word()), Some(gaps), Some(env_dropped)),
            None => (None, None, None),
        };
        Self {
            version: VERSION,
            status,
            exit_code: match end {
                Some(End::Exited(code)) => Some(code),
                Some(End::Signaled(_)) | None => None,
            },
            signal: match end {
                Some(End::Signaled(signal)) => Some(signal),
                Some(End::Exited(_)) | None => None,
            },
            reason,
            backend,
            gaps,
            policy_sha256,
            argv: run.argv.map(|words| words.iter().map(|word| word.to_string_lossy().into_owned()).collect()),
            pid: account.pid,
            started_at: account.started_at.map(|time| humantime::format_rfc3339_millis(time).to_string()),
            wall_ms: account.wall.map(millis),
            user_ms: account.usage.map(|usage| millis(usage.user)),
            system_ms: account.usage.map(|usage| millis(usage.system)),
            max_rss_kib: account.usage.map(|usage| usage.max_rss_kib),
            stdout_bytes: written.and_then(|written| written.stdout),
            stderr_bytes: written.and_then(|written| written.stderr),
            truncated: written.is_some_and(|written| written.truncated),
            limits_hit: account.limits_hit.iter().map(|limit| limit.word()).collect(),
            requests: account.requests.clone(),
            env_dropped,
            warnings,
            output: capture.then(|| account.output.map(Output::of).unwrap_or_default()),
        }
    }

    /// Leaves out what is no business of a log.
    pub(crate) fn forget_output(&mut self) {
        self.output = None;
    }

    /// As one line, with its end.
    pub(crate) fn line(&self) -> Vec<u8> {
        json_line(self)
    }
}

impl Output {
    fn of(written: Written) -> Self {
        let truncated = written.truncated;
        let text = |bytes: Vec<u8>| Some(lossy(&bytes, truncated));
        match written.captured {
            Some([stdout, stderr]) => Self { stdout: text(stdout), stderr: text(stderr) },
            None => Self::default(),
        }
    }
}

/// Bytes as text. A character that was cut in two at the end is left out rather than replaced.
fn lossy(bytes: &[u8], cut: bool) -> String {
    let whole = match std::str::from_utf8(bytes.utf8_chunks().last().map_or(&[], |chunk| chunk.invalid())) {
        Err(error) if cut && error.error_len().is_none() => {
            bytes.len() - bytes.utf8_chunks().last().map_or(0, |chunk| chunk.invalid().len())
        }
        _ => bytes.len(),
    };
    String::from_utf8_lossy(&bytes[..whole]).into_owned()
}

fn why_not_started(kind: Kind) -> &'static str {
    match kind {
        Kind::Usage => "usage",
        Kind::Policy => "policy",
        Kind::Gap => "gap",
        Kind::Backend => "backend",
        Kind::NotFound => "not-found",
        Kind::Hidden => "hidden",
        Kind::NotExecutable => "not-executable",
        Kind::Interrupted(_) => "terminated",
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::{Duration, SystemTime};

    use serde_json::{Value, json};

    use super::*;
    use crate::stage::account::{Account, Usage};

    fn object(status: Status, account: Account) -> Value {
        let known = Known { account, ..Known::default() };
        let run = Run { argv: Some(vec!["a\u{1b}\n\u{202e}é".into()]), status };
        let line = Object::new(run, known, true, vec!["w".into()]).line();
        assert!(line.ends_with(b"}\n") && !line.contains(&0x1b) && !line[..line.len() - 1].contains(&b'\n'));
        serde_json::from_slice(&line).unwrap()
    }

    fn told(status: Status, account: Account) -> Value {
        let object = object(status, account);
        json!([object["status"], object["exit_code"], object["signal"], object["reason"]])
    }

    fn ran(end: End) -> Account {
        Account { started_at: Some(SystemTime::UNIX_EPOCH), end: Some(end), ..Account::default() }
    }

    #[test]
    fn every_ending_is_told_apart() {
        let exit = |code| ran(End::Exited(code));
        let kill = || ran(End::Signaled(9));
        assert_eq!(told(Status::Exited(5), exit(5)), json!(["exited", 5, null, null]));
        assert_eq!(told(Status::Exited(5), Account::default()), json!(["exited", 5, null, null]));
        assert_eq!(told(Status::Signaled(9), kill()), json!(["signaled", null, 9, null]));
        assert_eq!(told(Status::Interrupted, ran(End::Signaled(2))), json!(["signaled", null, 2, null]));
        for (kind, word) in [
            (Kind::Usage, "usage"),
            (Kind::Policy, "policy"),
            (Kind::Gap, "gap"),
            (Kind::Backend, "backend"),
            (Kind::NotFound, "not-found"),
            (Kind::Hidden, "hidden"),
            (Kind::NotExecutable, "not-executable"),
            (Kind::Interrupted(15), "terminated"),
        ] {
            assert_eq!(told(Status::Failed(kind), Account::default()), json!(["not-started", null, null, word]));
        }
        for limit in Limit::ALL {
            let word = limit.word();
            let account = Account { ended_by: Some(limit), limits_hit: Limit::ALL.into(), asked: Some(15), ..exit(3) };
            assert_eq!(told(Status::Limited(limit), account)[3], json!(word));
            let account = Account { limits_hit: [limit, Limit::Output].into(), ..kill() };
            let reason = if limit == Limit::Output { Value::Null } else { json!(word) };
            assert_eq!(told(Status::Signaled(9), account), json!(["signaled", null, 9, reason]));
        }
        let limited = |limit| Account { ended_by: Some(limit), ..kill() };
        assert_eq!(told(Status::Limited(Limit::Time), limited(Limit::Time)), json!(["timeout", null, 9, "timeout"]));
        let output = limited(Limit::Output);
        assert_eq!(told(Status::Limited(Limit::Output), output), json!(["output-limit", null, 9, "output-limit"]));
        let asked = |account| Account { asked: Some(15), ..account };
        assert_eq!(told(Status::Exited(0), asked(exit(0))), json!(["exited", 0, null, null]));
        assert_eq!(told(Status::Exited(3), asked(exit(3))), json!(["exited", 3, null, "terminated"]));
        let early = asked(Account::default());
        assert_eq!(told(Status::Signaled(15), early), json!(["not-started", null, null, "terminated"]));
    }

    #[test]
    fn every_reason_and_status_has_a_meaning() {
        let reasons: BTreeSet<_> = REASONS.iter().map(|(word, _)| *word).collect();
        assert_eq!(reasons.len(), REASONS.len());
        let kinds = [Kind::Usage, Kind::Policy, Kind::Gap, Kind::Backend, Kind::NotFound, Kind::Hidden];
        let words = kinds.into_iter().chain([Kind::NotExecutable]).map(why_not_started);
        let words: BTreeSet<_> = words.chain(Limit::ALL.map(Limit::word)).chain(["terminated"]).collect();
        assert_eq!(reasons, words);
    }

    #[test]
    fn the_fields_are_these() {
        let account = Account {
            pid: Some(7),
            started_at: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123)),
            wall: Some(Duration::from_micros(1500)),
            usage: Some(Usage { user: Duration::from_secs(1), system: Duration::ZERO, max_rss_kib: 4 }),
            output: Some(Written {
                stdout: Some(9),
                stderr: None,
                truncated: true,
                over: false,
                too_large: false,
                captured: Some([b"\xffa\0\xc3".to_vec(), b"e\n".to_vec()]),
            }),
            ..ran(End::Exited(0))
        };
        let object = object(Status::Exited(0), account);
        let keys: BTreeSet<_> = object.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, FIELDS.iter().map(|(key, _)| *key).collect());
        assert_eq!(object["started_at"], "2023-11-14T22:13:20.123Z");
        assert_eq!(object["wall_ms"], 1);
        assert_eq!(object["argv"], json!(["a\u{1b}\n\u{202e}é"]));
        assert_eq!([&object["stdout"], &object["stderr"]], ["\u{fffd}a\0", "e\n"]);
        assert_eq!(object["stderr_bytes"], Value::Null);
    }

    #[test]
    fn only_a_cut_character_is_left_out() {
        assert_eq!(lossy("aé".as_bytes(), true), "aé");
        assert_eq!(lossy(b"a\xc3", true), "a");
        assert_eq!(lossy(b"a\xc3", false), "a\u{fffd}");
        assert_eq!(lossy(b"a\xff", true), "a\u{fffd}");
        assert_eq!(lossy(b"", true), "");
    }
}
