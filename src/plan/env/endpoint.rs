//! What a variable leads to outside the process: sockets, displays and files that its value names.
//!
//! Nothing here asks whether the thing is there, or whether the target may reach it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// What a variable leads to outside the process.
pub(super) enum Endpoint {
    /// A socket in the file system.
    Socket(PathBuf),
    /// A socket in the network namespace.
    Abstract,
    /// The value itself is a path, to something else than a socket.
    Other,
}

/// What the value of a capability variable leads to; `None` for other variables, remote hosts and values of other forms.
pub(super) fn endpoint(name: &str, value: &OsStr, runtime_dir: Option<&OsStr>) -> Option<Endpoint> {
    let socket = |path: &str| Path::new(path).is_absolute().then(|| Endpoint::Socket(path.into()));
    let text = || value.to_str();
    match name {
        "SSH_AUTH_SOCK" => Some(Endpoint::Socket(value.into())),
        "NOTIFY_SOCKET" if value.as_encoded_bytes().starts_with(b"@") => Some(Endpoint::Abstract),
        "NOTIFY_SOCKET" => socket(text()?),
        "WAYLAND_DISPLAY" => {
            let path = Path::new(runtime_dir.unwrap_or_default()).join(value);
            Some(Endpoint::Socket(path))
        }
        "GPG_AGENT_INFO" => socket(text()?.split(':').next()?),
        "TMUX" => socket(text()?.split(',').next()?),
        "DOCKER_HOST" | "CONTAINER_HOST" => socket(text()?.strip_prefix("unix://")?),
        "PULSE_SERVER" => {
            let text = text()?;
            socket(text.strip_prefix("unix:").unwrap_or(text))
        }
        "DISPLAY" => {
            let screen = text()?.strip_prefix("unix").or(text())?.strip_prefix(':')?;
            let number = screen.split('.').next()?;
            let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| Endpoint::Socket(format!("/tmp/.X11-unix/X{number}").into()))
        }
        "DBUS_SESSION_BUS_ADDRESS" | "DBUS_SYSTEM_BUS_ADDRESS" => {
            let mut pairs = text()?.split(';').next()?.strip_prefix("unix:")?.split(',');
            pairs.find_map(|pair| match pair.split_once('=')? {
                ("path", path) => socket(path),
                ("abstract", _) => Some(Endpoint::Abstract),
                _ => None,
            })
        }
        "XDG_RUNTIME_DIR" | "XAUTHORITY" => Some(Endpoint::Other),
        _ => None,
    }
}
