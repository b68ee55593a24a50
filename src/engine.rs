//! Finding a container engine, and what has to go into a container for our own executable to run there.
//!
//! Looks at files and variables only; no engine is asked anything before it starts the container.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::backend::container::{Executable, Found};
use crate::backend::{Backend, Engine};
use crate::diagnose;
use crate::error::{Error, Kind, Result};
use crate::host::Host;
use crate::plan::image::Image;

/// Variables by which the programs find their settings, their service and their helpers.
const VARIABLES: &[&str] = &[
    "CONTAINERS_CONF",
    "CONTAINERS_CONF_OVERRIDE",
    "CONTAINERS_REGISTRIES_CONF",
    "CONTAINERS_STORAGE_CONF",
    "CONTAINER_CONNECTION",
    "CONTAINER_HOST",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_API_VERSION",
    "DOCKER_CERT_PATH",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "DOCKER_TLS",
    "DOCKER_TLS_VERIFY",
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    "STORAGE_DRIVER",
    "STORAGE_OPTS",
    "TMPDIR",
    "USER",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];

/// The first engine that `wanted` allows, in a directory that `untrusted` has no say in.
pub fn find(host: &Host, wanted: Engine, untrusted: &[&Path]) -> Result<Found> {
    let backend = Backend::Container(wanted);
    let mut passed_over = Vec::new();
    for engine in wanted.candidates() {
        let program = match host.find_tool(engine.word(), untrusted) {
            Ok(program) => program,
            Err(reasons) => {
                passed_over.extend(reasons);
                continue;
            }
        };
        refuse_elsewhere(host, backend)?;
        let own = own(host)
            .map_err(|reason| Error::text(Kind::Backend, format!("cannot use backend '{backend}': {reason}")))?;
        let user = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        return Ok(Found { engine: *engine, program, user, own, environment: environment(host) });
    }
    let names: Vec<_> = wanted.candidates().iter().map(|engine| engine.word()).collect();
    Err(diagnose::no_engine(backend, &names, &passed_over))
}

fn environment(host: &Host) -> Vec<(OsString, OsString)> {
    let value = |name: &&str| Some(((*name).into(), host.variable(name)?.to_owned()));
    VARIABLES.iter().filter_map(value).collect()
}

/// Refuses a service on another machine, whose files are not the ones that were planned.
fn refuse_elsewhere(host: &Host, backend: Backend) -> Result<()> {
    for name in ["DOCKER_HOST", "CONTAINER_HOST"] {
        let Some(value) = host.variable(name).filter(|value| !value.is_empty()) else { continue };
        if !value.as_bytes().starts_with(b"unix:") {
            let text = format!("cannot use backend '{backend}': {name} leads to a service on another machine");
            return Err(Error::text(Kind::Backend, text).hint(format!("leave out {name}")));
        }
    }
    Ok(())
}

/// Sockets of container engines that are there, by their real names.
#[must_use]
pub fn sockets(host: &Host) -> Vec<PathBuf> {
    let named = ["DOCKER_HOST", "CONTAINER_HOST"].into_iter().filter_map(|name| host.variable(name));
    let named = named.filter_map(|value| value.as_bytes().strip_prefix(b"unix:"));
    let named = named.map(|path| PathBuf::from(OsStr::from_bytes(path.strip_prefix(b"//").unwrap_or(path))));
    let usual =
        ["/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock"];
    let of_user = host.variable("XDG_RUNTIME_DIR").map(PathBuf::from).into_iter();
    let of_user = of_user.flat_map(|dir| [dir.join("docker.sock"), dir.join("podman/podman.sock")]);
    let all = named.chain(usual.map(PathBuf::from)).chain(of_user);
    let real: BTreeSet<_> = all.filter_map(|path| std::fs::canonicalize(path).ok()).collect();
    real.into_iter().collect()
}

/// Files and directories of settings, there or not, in which `engine` reads which programs it starts on the host.
#[must_use]
pub fn settings(host: &Host, engine: Engine) -> Vec<PathBuf> {
    let own = |name: &str| host.variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = own("XDG_CONFIG_HOME").or_else(|| Some(host.home.as_ref()?.join(".config")));
    let files = match engine {
        Engine::Docker => vec![own("DOCKER_CONFIG").or_else(|| Some(host.home.as_ref()?.join(".docker")))],
        Engine::Podman | Engine::Any => {
            let usual = |name: &str| config.as_ref().map(|config| config.join("containers").join(name));
            let mut files = vec![own("CONTAINERS_CONF_OVERRIDE")];
            match own("CONTAINERS_CONF") {
                Some(named) => files.push(Some(named)),
                None => files.extend([usual("containers.conf"), usual("containers.conf.d")]),
            }
            files.push(own("CONTAINERS_STORAGE_CONF").or_else(|| usual("storage.conf")));
            files
        }
    };
    let cwd = host.cwd.as_deref().unwrap_or(Path::new("/"));
    files.into_iter().flatten().map(|file| real(&cwd.join(file))).collect()
}

/// The real name of what may be missing: that of the part which is there, and the rest.
fn real(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|part| Some((part, std::fs::canonicalize(part).ok()?)));
    let Some((part, real)) = there else { return path.to_owned() };
    path.strip_prefix(part)
        .map_or(real.clone(), |rest| if rest.as_os_str().is_empty() { real } else { real.join(rest) })
}

/// Our own executable and what it takes to run it where there may be no library.
fn own(host: &Host) -> std::result::Result<Executable, String> {
    let program = host.image.clone().ok_or("the file of sandbox-run itself is no longer where it was started")?;
    let Image::Elf { interpreter, .. } = Image::read(&program) else {
        return Err(format!("'{}' cannot be read", program.display()));
    };
    let Some(loader) = interpreter else { return Ok(Executable { program, dynamic: None }) };
    let loader = std::fs::canonicalize(&loader).unwrap_or(loader);
    let maps = std::fs::read("/proc/self/maps").map_err(|error| crate::sys::process::describe(&error))?;
    let mapped: BTreeSet<PathBuf> = maps.split(|byte| *byte == b'\n').filter_map(mapped).collect();
    let libraries: Vec<_> = mapped.into_iter().filter(|path| *path != program && *path != loader).collect();
    Ok(Executable { program, dynamic: Some((loader, libraries)) })
}

/// The library in a line of `/proc/PID/maps`: six fields, the last of which is the path.
fn mapped(line: &[u8]) -> Option<PathBuf> {
    let at = line.iter().position(|byte| *byte == b'/')?;
    let path = Path::new(OsStr::from_bytes(line.get(at..)?));
    let name = path.file_name()?.as_bytes();
    let is_library = name.ends_with(b".so") || name.windows(4).any(|part| part == b".so.");
    is_library.then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_names() {
        let line = |path: &str| format!("7f00-7f01 r-xp 00000000 fe:00 12    {path}").into_bytes();
        for (path, expected) in [
            ("/usr/lib/x86_64-linux-gnu/libc.so.6", true),
            ("/lib/libgcc_s.so.1", true),
            ("/opt/a b/libx.so", true),
            ("/usr/bin/sandbox-run", false),
            ("/usr/lib/locale/C.utf8/LC_CTYPE", false),
            ("[heap]", false),
            ("", false),
        ] {
            assert_eq!(mapped(&line(path)), expected.then(|| PathBuf::from(path)), "{path}");
        }
    }
}
