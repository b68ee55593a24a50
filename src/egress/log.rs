//! What is told about requests: a line of JSON for each, and sums for the result.
//!
//! No query, no field and no body of a request is ever written: secrets live there.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// The most hosts that the sums name.
const NAMED_MAX: usize = 32;

/// The longest text about what would help that is kept: it goes through a pipe with the sums, and has parts of the target's.
const REMEDY_MAX: usize = 1024;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It was passed on.
    Allowed,
    /// It was not.
    Denied,
    /// It would have been, but nobody answered.
    Failed,
}

/// In which way it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A request with a plain URL.
    #[default]
    Http,
    /// A request within TLS that was looked into.
    Https,
    /// A connection by CONNECT.
    Connect,
    /// A connection by SOCKS.
    Socks,
}

/// One request.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Entry {
    /// In which way it came.
    pub kind: Kind,
    /// Its method, where one could be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Whom it was for, if that could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// At which port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Its path without the query, where one could be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why it was denied or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the client was answered, or the server's own status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What would allow it, or why nothing does.
    #[serde(skip)]
    pub remedy: Option<String>,
    /// The address that was connected to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Bytes that went to the server.
    pub bytes_up: u64,
    /// Bytes that came from it.
    pub bytes_down: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    verdict: Outcome,
    #[serde(flatten)]
    entry: &'a Entry,
    ms: u128,
}

/// Sums over all requests of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// Passed on.
    pub allowed: u64,
    /// Refused.
    pub denied: u64,
    /// Nobody answered.
    pub failed: u64,
    /// Bytes that went to servers.
    pub bytes_up: u64,
    /// Bytes that came from them.
    pub bytes_down: u64,
    /// Hosts with ports that were denied, and how often; the first ones.
    pub denied_hosts: BTreeMap<String, u64>,
    /// Lines that could not be written.
    pub lost_lines: u64,
}

/// Where lines go, and the sums.
#[derive(Debug, Default)]
pub struct NetLog {
    file: Option<Mutex<File>>,
    counted: Mutex<Counted>,
}

/// Sums, and what would help.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// The sums.
    pub sums: Sums,
    /// For each of the hosts that were denied what would allow it, or why nothing does: what was told first.
    pub remedies: BTreeMap<String, String>,
}

impl NetLog {
    /// Lines go to `file`, if there is one; it should be open for appending.
    #[must_use]
    pub fn new(file: Option<File>) -> Self {
        Self { file: file.map(Mutex::new), counted: Mutex::default() }
    }

    /// Counts a request and writes its line, in one piece.
    pub fn tell(&self, outcome: Outcome, entry: &Entry, took: Duration) {
        let mut lost = false;
        if let Some(file) = &self.file {
            let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
            let line = serde_json::to_vec(&Line { time, verdict: outcome, entry, ms: took.as_millis() });
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            lost = line
                .map_err(std::io::Error::from)
                .and_then(|mut line| {
                    line.push(b'\n');
                    file.write_all(&line)
                })
                .is_err();
        }
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let Counted { sums, remedies } = &mut *counted;
        sums.lost_lines += u64::from(lost);
        sums.bytes_up += entry.bytes_up;
        sums.bytes_down += entry.bytes_down;
        match outcome {
            Outcome::Allowed => sums.allowed += 1,
            Outcome::Failed => sums.failed += 1,
            Outcome::Denied => {
                sums.denied += 1;
                if let (Some(host), Some(port)) = (&entry.host, entry.port) {
                    let name = format!("{host}:{port}");
                    if sums.denied_hosts.len() < NAMED_MAX || sums.denied_hosts.contains_key(&name) {
                        if let Some(remedy) = entry.remedy.as_ref().filter(|text| text.len() <= REMEDY_MAX) {
                            remedies.entry(name.clone()).or_insert_with(|| remedy.clone());
                        }
                        *sums.denied_hosts.entry(name).or_default() += 1;
                    }
                }
            }
        }
    }

    /// What was counted so far.
    #[must_use]
    pub fn counted(&self) -> Counted {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    #[test]
    fn a_line_for_each_and_sums_for_all() {
        let mut file = tempfile::tempfile().unwrap();
        let log = NetLog::new(Some(file.try_clone().unwrap()));
        let entry = |host: &str| Entry {
            method: Some("GET".into()),
            host: Some(host.into()),
            port: Some(80),
            path: Some("/a\"\n".into()),
            status: Some(403),
            bytes_down: 3,
            ..Entry::default()
        };
        log.tell(Outcome::Denied, &entry("no.test"), Duration::from_millis(7));
        log.tell(Outcome::Allowed, &entry("ok.test"), Duration::ZERO);
        for number in 0..100 {
            log.tell(Outcome::Denied, &entry(&format!("no{number}.test")), Duration::ZERO);
        }
        let sums = log.counted().sums;
        assert_eq!((sums.allowed, sums.denied, sums.bytes_down, sums.denied_hosts.len()), (1, 101, 306, NAMED_MAX));
        assert_eq!(serde_json::from_str::<Sums>(&serde_json::to_string(&sums).unwrap()).unwrap(), sums);
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text.lines().count(), 102);
        let line: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!((&line["verdict"], &line["path"], &line["ms"]), (&"denied".into(), &"/a\"\n".into(), &7.into()));
        assert!(line["time"].as_str().unwrap().ends_with('Z'));
    }
}
