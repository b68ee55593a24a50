//! The secrets of one run, and the upstream proxy: looked up here, once, however many backends are tried.
//!
//! They go to the proxy and nowhere else. What says that one cannot be had has nothing of it.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::egress::upstream::{Spec, URL_MAX, Url};
use crate::error::{Error, Kind, Result};
use crate::host::Host;
use crate::plan::way_out::To;
use crate::plan::{Plan, expand, links};
use crate::policy::Upstream;

/// Secrets that were found.
#[derive(Debug, Default)]
pub struct Secrets {
    #[cfg(feature = "intercept")]
    found: found::Found,
    upstream: Option<Box<(Upstream, Url)>>,
}

impl Secrets {
    /// Looks up what `plan` wants for requests, and refuses a run that would carry one of these secrets inside.
    pub fn find(&mut self, plan: &Plan, host: &Host) -> Result<()> {
        self.find_upstream(plan, host)?;
        // No plan of another build wants any.
        #[cfg(feature = "intercept")]
        self.found.complete(plan, host)?;
        Ok(())
    }

    fn find_upstream(&mut self, plan: &Plan, host: &Host) -> Result<()> {
        let wanted = match plan.way_out.as_ref().map(|way| &way.to) {
            Some(To::Proxy(filter)) => filter.upstream.as_ref(),
            Some(To::Socket(_)) | None => None,
        };
        let Some(wanted) = wanted else {
            self.upstream = None;
            return Ok(());
        };
        // What an earlier attempt has read is not read again.
        let url = match self.upstream.take().filter(|known| known.0 == *wanted) {
            Some(known) => known.1,
            None => read_url(wanted, plan, host)?,
        };
        let variable = plan.environment.vars.iter().find(|(_, value)| url.is_in(value.as_bytes()));
        if let Some((name, _)) = variable {
            let reason = format!("the variable '{}' of the command has its password in it", name.display());
            return Err(refuse_upstream(wanted, &reason));
        }
        if plan.argv.iter().any(|word| url.is_in(word.as_bytes())) {
            return Err(refuse_upstream(wanted, "an argument of the command has its password in it"));
        }
        self.upstream = Some(Box::new((wanted.clone(), url)));
        Ok(())
    }

    /// The proxy that is asked for connections.
    #[must_use]
    pub fn upstream(&self) -> Option<&Url> {
        self.upstream.as_ref().map(|known| &known.1)
    }

    /// What the proxy needs to add them.
    #[cfg(feature = "intercept")]
    #[must_use]
    pub fn credentials(&self) -> Vec<crate::egress::secrets::Credential> {
        self.found.credentials.clone()
    }
}

/// The URL, wherever it is. What is wrong with it is said without anything of it.
fn read_url(wanted: &Upstream, plan: &Plan, host: &Host) -> Result<Url> {
    let (place, text) = match &wanted.spec {
        Spec::Url(url) => return Ok(url.clone()),
        Spec::Env(name) => {
            let place = format!("the variable '{name}'");
            let value = host.variable(name).ok_or_else(|| refuse_upstream(wanted, &format!("{place} is not set")))?;
            (place, value.as_bytes().to_vec())
        }
        Spec::File(path) => {
            let place = format!("the file '{}'", path.display());
            let full = expand(path, host, Some(&plan.workdir))?;
            let bytes = bounded(&full).map_err(|error| {
                refuse_upstream(wanted, &format!("{place} cannot be read: {}", links::reason(&full, &error)))
            })?;
            (place, bytes)
        }
    };
    let wrong = |reason: &str| refuse_upstream(wanted, &format!("{place} {reason}"));
    if text.len() > URL_MAX {
        return Err(wrong(&format!("is longer than {URL_MAX} bytes")));
    }
    let text = std::str::from_utf8(&text).map_err(|_| wrong("is not UTF-8"))?;
    Url::parse(text.trim_ascii()).map_err(|reason| wrong(&reason))
}

/// No more than a little over the longest URL.
fn bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(URL_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn refuse_upstream(wanted: &Upstream, reason: &str) -> Error {
    Error::text(Kind::Policy, format!("cannot use the upstream proxy ({}): {reason}", wanted.origin))
}

#[cfg(feature = "intercept")]
mod found {
    use std::fmt;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;
    use std::time::Duration;

    use zeroize::Zeroizing;

    use crate::egress::credentials::{Source, Spec};
    use crate::egress::secrets::{Credential, SECRET_MAX, read_file};
    use crate::error::{Error, Kind, Result};
    use crate::host::Host;
    use crate::plan::way_out::{Added, To};
    use crate::plan::{Plan, expand, links};
    use crate::sys::process::{describe, run};

    /// How long a command may take: some ask a person, who has to find a key.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// What was read, and what became of it for the plan at hand.
    #[derive(Default)]
    pub(super) struct Found {
        read: Vec<(Spec, Zeroizing<Vec<u8>>)>,
        pub(super) credentials: Vec<Credential>,
    }

    impl fmt::Debug for Found {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Found").field("credentials", &self.credentials).finish_non_exhaustive()
        }
    }

    impl Found {
        pub(super) fn complete(&mut self, plan: &Plan, host: &Host) -> Result<()> {
            let Some(To::Proxy(filter)) = plan.way_out.as_ref().map(|way| &way.to) else { return Ok(()) };
            self.credentials.clear();
            for added in &filter.added {
                let secret = self.read(added, plan, host)?;
                let credential = Credential::new(&added.spec, &secret, &added.placeholder);
                let credential =
                    credential.map_err(|bad| refuse(added, &format!("{} {}", place(&added.spec), bad.0)))?;
                stays_outside(&credential, added, plan)?;
                self.credentials.push(credential);
            }
            Ok(())
        }

        /// What an earlier attempt has read is not read again.
        fn read(&mut self, added: &Added, plan: &Plan, host: &Host) -> Result<Zeroizing<Vec<u8>>> {
            if let Some((_, secret)) = self.read.iter().find(|(spec, _)| *spec == added.spec) {
                return Ok(secret.clone());
            }
            let wrong = |reason: &str| refuse(added, &format!("{} {reason}", place(&added.spec)));
            let secret = match &added.spec.source {
                Source::Env(name) => {
                    let value = host.variable(name).ok_or_else(|| wrong("is not set"))?;
                    Zeroizing::new(value.as_bytes().to_vec())
                }
                Source::File(path) => {
                    let full = expand(path, host, Some(&plan.workdir))?;
                    let read = read_file(&full);
                    read.map_err(|error| wrong(&format!("cannot be read: {}", links::reason(&full, &error))))?
                }
                Source::Command(words) => {
                    let words = ["-c".into(), words.into()];
                    let said = run(Path::new("/bin/sh"), &words, &host.environment, PATIENCE);
                    let said = said.map_err(|error| wrong(&format!("cannot be started: {}", describe(&error))))?;
                    let (secret, error) = (Zeroizing::new(said.stdout), said.stderr);
                    if !said.success {
                        let error = String::from_utf8_lossy(&error);
                        let last = error.lines().rev().find(|line| !line.trim().is_empty());
                        let last = last.map(|line| format!(": {}", line.trim())).unwrap_or_default();
                        return Err(wrong(&format!("fails, or takes longer than {} s{last}", PATIENCE.as_secs())));
                    }
                    secret
                }
            };
            if secret.len() >= SECRET_MAX {
                return Err(wrong("is longer than 16383 bytes"));
            }
            self.read.push((added.spec.clone(), secret.clone()));
            Ok(secret)
        }
    }

    /// Refuses a target that would have the secret from the beginning.
    fn stays_outside(credential: &Credential, added: &Added, plan: &Plan) -> Result<()> {
        let variable = plan.environment.vars.iter().find(|(_, value)| credential.is_in(value.as_bytes()));
        if let Some((name, _)) = variable {
            let error =
                refuse(added, &format!("the variable '{}' of the command has the secret in it", name.display()));
            return Err(error.hint(format!(
                "without that variable, or with 'as={}', the command gets a placeholder",
                name.display()
            )));
        }
        if plan.argv.iter().any(|word| credential.is_in(word.as_bytes())) {
            return Err(refuse(added, "an argument of the command has the secret in it"));
        }
        Ok(())
    }

    /// The source as people say it, never what is in it.
    fn place(spec: &Spec) -> String {
        match &spec.source {
            Source::Env(name) => format!("the variable '{name}'"),
            Source::File(path) => format!("the file '{}'", path.display()),
            Source::Command(words) => format!("the command '{words}'"),
        }
    }

    fn refuse(added: &Added, reason: &str) -> Error {
        let Added { spec, origin, .. } = added;
        Error::text(Kind::Policy, format!("cannot use the credential for '{}' ({origin}): {reason}", spec.host))
    }
}
