//! Why a request is not passed on, in words for people, programs and the log.

use std::io;
use std::net::IpAddr;

use super::super::address::Failure;
use super::super::host::Host;
use super::super::log::Outcome;
use super::super::rules::{Denial, Inside, Rule};
use super::super::socks;
use super::super::upstream::Url;
use crate::log::escape;
use crate::sys;

/// A request that is not passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) outcome: Outcome,
    pub(super) status: u16,
    /// One word for programs.
    pub(super) code: &'static str,
    /// One line for people.
    pub(super) text: String,
    /// What would have to be added.
    pub(super) hint: Option<String>,
    pub(super) rule: Option<String>,
}

/// How a rule for exactly this host and port is written.
fn rule_for(host: &Host, port: u16) -> String {
    if matches!(port, 80 | 443) { host.to_string() } else { format!("{host}:{port}") }
}

impl Refused {
    /// What cannot be understood, or in more than one way.
    pub(super) fn request(status: u16, reason: &str) -> Self {
        let text = format!("the request {reason}");
        Self { outcome: Outcome::Denied, status, code: "request", text, hint: None, rule: None }
    }

    fn denied(code: &'static str, text: String, hint: Option<String>) -> Self {
        Self { outcome: Outcome::Denied, status: 403, code, text, hint, rule: None }
    }

    /// What no rule allows, or one forbids.
    pub(super) fn by_rules(denial: Denial, host: &Host, port: u16, inside: Option<&Inside>) -> Self {
        let name = format!("'{host}:{port}'");
        let hint = |rule: &str| Some(format!("--allow-host {rule}"));
        let (code, text, hint, rule) = match denial {
            Denial::Rule(rule) => {
                ("denylist", format!("the rule '{rule}' forbids {name}"), None, Some(rule.to_string()))
            }
            Denial::Host => ("allowlist", format!("no rule allows {name}"), hint(&rule_for(host, port)), None),
            Denial::Port => {
                ("port", format!("no rule allows {name}, only other ports of it"), hint(&rule_for(host, port)), None)
            }
            Denial::Inside => {
                let Some(inside) = inside else {
                    let text = format!("no rule allows {name}");
                    return Self::denied("inside", text, hint(&rule_for(host, port)));
                };
                let what = format!("{} of '{}' at {name}", inside.method, inside.path.as_str());
                let rule = format!("{} {}{}", inside.method, rule_for(host, port), inside.path.as_str());
                match Rule::parse(&rule).map(|rule| rule.allows(host, port, inside)) {
                    Ok(true) => {
                        let quoted = rule.replace('\'', r"'\''");
                        ("inside", format!("no rule allows {what}"), hint(&format!("'{quoted}'")), None)
                    }
                    Ok(false) => {
                        let text = format!("no rule allows {what}, and none can name it: methods are in capitals");
                        ("inside", text, None, None)
                    }
                    Err(bad) => {
                        let text = format!("no rule allows {what}, and none can name it: it {}", bad.reason);
                        ("inside", text, None, None)
                    }
                }
            }
        };
        Self { outcome: Outcome::Denied, status: 403, code, text, hint, rule }
    }

    /// A connection into which nobody looks, where a rule is about what is in it.
    pub(super) fn opaque(rule: &Rule, host: &Host, port: u16) -> Self {
        Self {
            outcome: Outcome::Denied,
            status: 403,
            code: "inside",
            text: format!(
                "the rules for '{host}:{port}' are about methods or paths, which an encrypted connection hides"
            ),
            hint: Some(format!(
                "--allow-host {} allows all of it, unless a rule with '!' is about its paths",
                rule_for(host, port)
            )),
            rule: Some(rule.to_string()),
        }
    }

    /// What does not begin as a connection to this host does.
    pub(super) fn opening(reason: &str, host: &Host, port: u16) -> Self {
        let text = format!("the connection to '{host}:{port}' {reason}");
        Self { outcome: Outcome::Denied, status: 421, code: "opening", text, hint: None, rule: None }
    }

    /// A server that nobody reached, or must not reach.
    pub(super) fn unreached(failure: Failure, host: &Host, port: u16) -> Self {
        let name = format!("'{host}:{port}'");
        let denied = |code, text, hint, rule| Self { outcome: Outcome::Denied, status: 403, code, text, hint, rule };
        let failed = |status, code, text| Self { outcome: Outcome::Failed, status, code, text, hint: None, rule: None };
        let circle = |proxy| Self { status: 508, ..denied("loop", format!("{name} is {proxy} itself"), None, None) };
        match failure {
            Failure::Unresolved => failed(502, "resolve", format!("cannot resolve {name}")),
            Failure::Address(address, what) => {
                let address = Host::address(address);
                let text = match host {
                    Host::Name(_) => format!("{name} is at {address}, which is {what}"),
                    Host::Address(_) => format!("{name} is {what}"),
                };
                denied("address", text, Some(format!("--allow-host {}", rule_for(&address, port))), None)
            }
            Failure::Forbidden(address, rule) => denied(
                "denylist",
                format!("{name} is at {}, which the rule '{rule}' forbids", spelled(address)),
                None,
                Some(rule.to_string()),
            ),
            Failure::Loop => circle("this proxy"),
            Failure::Upstream => circle("the upstream proxy"),
            Failure::TimedOut => failed(504, "timeout", format!("{name} does not answer")),
            Failure::Unreachable(error) => {
                failed(502, "unreachable", format!("cannot connect to {name}: {}", sys::process::describe(&error)))
            }
        }
    }

    /// An upstream proxy that nobody reached.
    pub(super) fn no_upstream(failure: &Failure, upstream: &Url) -> Self {
        let name = format!("the upstream proxy '{upstream}'");
        let failed = |status, code, text| Self { outcome: Outcome::Failed, status, code, text, hint: None, rule: None };
        match failure {
            Failure::TimedOut => failed(504, "timeout", format!("{name} does not answer")),
            Failure::Unreachable(error) => {
                failed(502, "upstream", format!("cannot connect to {name}: {}", sys::process::describe(error)))
            }
            Failure::Unresolved | Failure::Address(..) | Failure::Forbidden(..) | Failure::Loop | Failure::Upstream => {
                failed(502, "upstream", format!("cannot resolve {name}"))
            }
        }
    }

    /// An upstream proxy that does not do what it was asked for.
    pub(super) fn by_upstream(status: u16, phrase: &str, upstream: &Url, host: &Host, port: u16) -> Self {
        let phrase = match (status, phrase) {
            (407, _) if upstream.authorization().is_some() => ", it does not accept the user and password".to_owned(),
            (407, _) => ", it wants a user and a password".to_owned(),
            // It may say what it was told.
            (_, _) if upstream.authorization().is_some() => String::new(),
            (_, "") => String::new(),
            (_, phrase) => format!(" ({})", escape(&crate::log::excerpt(phrase, crate::log::WORD_SHOWN_MAX))),
        };
        Self::upstream_fails(&format!("answers {status}{phrase}"), upstream, host, port)
    }

    /// The same where it is no answer.
    pub(super) fn upstream_fails(reason: &str, upstream: &Url, host: &Host, port: u16) -> Self {
        let text = format!("cannot reach '{host}:{port}': the upstream proxy '{upstream}' {reason}");
        Self { outcome: Outcome::Failed, status: 502, code: "upstream", text, hint: None, rule: None }
    }

    /// A server that answered in no way that is known, or not to the end.
    pub(super) fn answer(reason: &str, host: &Host, port: u16) -> Self {
        let text = format!("the answer of '{host}:{port}' {reason}");
        Self { outcome: Outcome::Failed, status: 502, code: "answer", text, hint: None, rule: None }
    }

    /// Somebody who waited for too long.
    pub(super) fn late() -> Self {
        Self { status: 408, code: "timeout", ..Self::request(408, "does not end") }
    }

    /// Somebody who did not say who it is.
    pub(super) fn stranger() -> Self {
        Self { code: "token", ..Self::request(407, "does not say who sends it") }
    }

    pub(super) fn of_error(error: &io::Error, what: &str, host: &Host, port: u16) -> Self {
        if error.kind() == io::ErrorKind::TimedOut {
            return Self { status: 504, ..Self::answer("does not come", host, port) };
        }
        Self::answer(&format!("{what}: {}", sys::process::describe(error)), host, port)
    }

    /// The same as an answer of HTTP.
    pub(super) fn http(&self, tunnel: bool, head_only: bool) -> Vec<u8> {
        let hint = self.hint.as_ref().map_or_else(String::new, |hint| format!("sandbox-run: hint: {hint}\n"));
        let body = format!("sandbox-run: {}\n{hint}", self.text);
        let phrase = match self.status {
            400 => "Bad Request",
            403 => "Forbidden",
            405 => "Method Not Allowed",
            407 => "Proxy Authentication Required",
            408 => "Request Timeout",
            414 => "URI Too Long",
            417 => "Expectation Failed",
            421 => "Misdirected Request",
            431 => "Request Header Fields Too Large",
            501 => "Not Implemented",
            502 => "Bad Gateway",
            504 => "Gateway Timeout",
            505 => "HTTP Version Not Supported",
            508 => "Loop Detected",
            _ => "Refused",
        };
        // Clients show nothing else of an answer to CONNECT.
        let phrase = match (&self.hint, tunnel) {
            (Some(hint), true) => format!("{phrase} by sandbox-run, hint: {hint}"),
            (None, true) if self.code == "upstream" => format!("{phrase} by sandbox-run: {}", self.text),
            (None, true) => format!("{phrase} by sandbox-run"),
            (_, false) => phrase.to_owned(),
        };
        let token = if self.status == 407 { "Proxy-Authenticate: Basic realm=\"sandbox-run\"\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {} {phrase}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nX-Sandbox-Run: \
             {}\r\n{token}Connection: close\r\n\r\n",
            self.status,
            body.len(),
            self.code
        );
        if head_only { head.into_bytes() } else { (head + &body).into_bytes() }
    }

    /// The same as an answer of SOCKS.
    pub(super) fn socks(&self) -> socks::Reply {
        match (self.outcome, self.code) {
            (Outcome::Failed, "resolve") => socks::Reply::Unreachable,
            (Outcome::Denied, "request") => socks::Reply::Failed,
            (Outcome::Denied, _) => socks::Reply::Denied,
            (_, "timeout") => socks::Reply::TimedOut,
            (_, "unreachable") => socks::Reply::Refused,
            _ => socks::Reply::Failed,
        }
    }
}

fn spelled(address: IpAddr) -> Host {
    Host::address(address)
}
