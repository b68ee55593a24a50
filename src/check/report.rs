//! What `--check` found, as text or JSON.

use serde::Serialize;

use crate::backend::Backend;
use crate::policy::Protection;
use crate::policy::protection::Strength;

/// What was found.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Whether some backend enforces the policy.
    pub(crate) works: bool,
    /// The first one that does; what `auto` would take.
    pub(crate) auto: Option<&'static str>,
    pub(crate) backends: Vec<Tried>,
}

/// One backend.
#[derive(Debug, Serialize)]
pub(crate) struct Tried {
    pub(crate) backend: &'static str,
    pub(crate) works: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) program: Option<String>,
    /// The version of Landlock on this kernel, which decides what the backend of that name can do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) landlock_abi: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) remedies: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) protections: Vec<Told>,
}

/// One protection under it.
#[derive(Debug, Serialize)]
pub(crate) struct Told {
    pub(crate) protection: &'static str,
    pub(crate) strength: &'static str,
    /// What enforces it, where hosts differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) missing: Option<String>,
    /// What would help, where something does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remedy: Option<&'static str>,
}

/// What the table of `backend` says of `like`, told of `protection`.
pub(crate) fn tell_table(backend: Backend, like: Protection, protection: Protection) -> Told {
    let strength = backend.strength(like);
    let missing = match strength {
        Strength::Partial(missing) => Some(missing.to_owned()),
        Strength::Enforced | Strength::Absent => None,
    };
    Told { protection: protection.word(), strength: strength.word(), by: None, missing, remedy: None }
}

impl Report {
    /// Whether some backend that `auto` would take enforces the policy.
    #[must_use]
    pub fn works(&self) -> bool {
        self.works
    }

    /// For people, or as one JSON object.
    #[must_use]
    pub fn render(&self, json: bool) -> Vec<u8> {
        if json {
            return crate::log::json_line(self);
        }
        let mut out = String::new();
        for tried in &self.backends {
            let verdict = match (tried.works, tried.backend == Backend::None.word()) {
                (true, true) => "works, isolates nothing",
                (true, false) => "works",
                (false, _) => "does not work here",
            };
            line(&mut out, &format!("{}: {verdict}", tried.backend));
            if let Some(program) = &tried.program {
                line(&mut out, &format!("  program: {program}"));
            }
            if let Some(version) = tried.landlock_abi {
                line(&mut out, &format!("  Landlock ABI: {version}"));
            }
            if let Some(reason) = &tried.reason {
                line(&mut out, &format!("  reason: {reason}"));
            }
            for remedy in &tried.remedies {
                line(&mut out, &format!("  remedy: {remedy}"));
            }
            for told in &tried.protections {
                let details: Vec<_> = told.by.into_iter().chain(told.missing.as_deref()).collect();
                let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join("; ")) };
                line(&mut out, &format!("  {}: {}{details}", told.protection, told.strength));
                if let Some(remedy) = told.remedy {
                    line(&mut out, &format!("    remedy: {remedy}"));
                }
            }
        }
        line(
            &mut out,
            &match self.auto {
                Some(backend) => format!("auto takes: {backend}"),
                None => "auto finds nothing that works here".to_owned(),
            },
        );
        out.into_bytes()
    }
}

fn line(out: &mut String, text: &str) {
    out.push_str(&crate::log::escape(text));
    out.push('\n');
}
