//! What two built-in profiles take from the caller's environment: where the sockets of an agent and of a screen lie.
//!
//! A policy file cannot name them, because variables are never expanded in one and the paths differ from session to session.
//! So these values, and no others, are data for these profiles, and for nothing else: they are looked at only when the
//! profile was asked for by its name, and give what `--env NAME --allow-socket "$NAME"` would give. What is asked for is an
//! agent or a screen, so a value that leads to something of another kind (a container daemon, a key file) is refused, as far
//! as names tell. Nothing here looks at the file system: that the path is a socket is checked with every other grant.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::config::document::Document;
use crate::policy::env::{EnvName, EnvRule};

/// Words in the names of agents' sockets or of their directories.
const AGENT: &[&str] = &["agent", "ssh"];

/// Words in the names of Wayland sockets.
const SCREEN: &[&str] = &["gamescope", "wayland"];

/// Words in the names of files with X11 cookies.
const COOKIE: &[&str] = &["serverauth", "xauth", "xwaylandauth"];

/// Adds to a built-in profile what only the caller's environment knows; an error is the reason why it cannot be used.
pub(super) fn complete(
    name: &str,
    document: &mut Document,
    environment: &[(OsString, OsString)],
) -> Result<(), String> {
    let variable = |name: &str| {
        let found = environment.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_os_str());
        found.filter(|value| !value.is_empty())
    };
    match name {
        "ssh-agent" => agent(document, variable("SSH_AUTH_SOCK")),
        "display" => match (variable("WAYLAND_DISPLAY"), variable("DISPLAY")) {
            (Some(display), _) => wayland(document, display, variable("XDG_RUNTIME_DIR")),
            (None, Some(display)) => x11(document, display, variable("XAUTHORITY")),
            (None, None) => Err("neither WAYLAND_DISPLAY nor DISPLAY is set".into()),
        },
        _ => Ok(()),
    }
}

fn agent(document: &mut Document, socket: Option<&OsStr>) -> Result<(), String> {
    let path = PathBuf::from(socket.ok_or("SSH_AUTH_SOCK is not set")?);
    absolute("SSH_AUTH_SOCK", &path)?;
    let in_its_directory = path.parent().is_some_and(|directory| looks_like(AGENT, directory));
    if !in_its_directory && !looks_like(AGENT, &path) {
        return Err(strange("SSH_AUTH_SOCK", &path, "an agent"));
    }
    document.allow_unix_socket_paths.push(path);
    Ok(())
}

/// The path stands in the variable whole, so that nobody looks for it below an `XDG_RUNTIME_DIR` that is not in the view.
fn wayland(document: &mut Document, display: &OsStr, runtime: Option<&OsStr>) -> Result<(), String> {
    let path = if Path::new(display).is_absolute() {
        display.into()
    } else {
        if Path::new(display).file_name() != Some(display) {
            return Err(format!("WAYLAND_DISPLAY, '{}', is neither a name nor an absolute path", display.display()));
        }
        let runtime = runtime.ok_or("WAYLAND_DISPLAY is a name below XDG_RUNTIME_DIR, which is not set")?;
        Path::new(runtime).join(display)
    };
    absolute("XDG_RUNTIME_DIR", &path)?;
    if !looks_like(SCREEN, &path) {
        return Err(strange("WAYLAND_DISPLAY", &path, "a screen"));
    }
    document.env_set.push((name("WAYLAND_DISPLAY")?, path.clone().into()));
    document.allow_unix_socket_paths.push(path);
    Ok(())
}

fn x11(document: &mut Document, display: &OsStr, authority: Option<&OsStr>) -> Result<(), String> {
    let text = display.to_str().unwrap_or_default();
    let number = text.strip_prefix("unix").unwrap_or(text).strip_prefix(':').and_then(|rest| rest.split('.').next());
    let number = number.filter(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
    let number = number.ok_or_else(|| format!("DISPLAY, '{}', is no screen of this machine", display.display()))?;
    pass(document, "DISPLAY")?;
    match authority {
        Some(path) => {
            let path = PathBuf::from(path);
            absolute("XAUTHORITY", &path)?;
            if !looks_like(COOKIE, &path) {
                return Err(strange("XAUTHORITY", &path, "a cookie"));
            }
            pass(document, "XAUTHORITY")?;
            document.read_roots_optional.push(path);
        }
        None => document.read_roots_optional.push("~/.Xauthority".into()),
    }
    tracing::warn!(
        "profile 'display' opens the X11 screen '{text}': whatever runs inside can read what is typed and shown in every window"
    );
    document.allow_unix_socket_paths.push(format!("/tmp/.X11-unix/X{number}").into());
    Ok(())
}

fn pass(document: &mut Document, variable: &str) -> Result<(), String> {
    document.env.push(EnvRule::Pass(name(variable)?));
    Ok(())
}

fn name(variable: &str) -> Result<EnvName, String> {
    EnvName::parse(variable).map_err(|error| error.to_string())
}

fn absolute(variable: &str, path: &Path) -> Result<(), String> {
    if path.is_absolute() {
        return Ok(());
    }
    Err(format!("{variable} leads to '{}', which is no absolute path", path.display()))
}

/// Whether the last component has one of the words in it, in any case.
fn looks_like(words: &[&str], path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    words.iter().any(|word| name.contains(word))
}

fn strange(variable: &str, path: &Path, what: &str) -> String {
    let remedy = match variable {
        "XAUTHORITY" => "--read",
        _ => "--allow-socket",
    };
    format!(
        "{variable} leads to '{}', which is not named like {what}; '--env {variable}' with {remedy} passes any",
        path.display()
    )
}
