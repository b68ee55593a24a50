//! What a copy of this process does to have a sandbox around it, as lines.

use serde::Serialize;

use crate::launch::{Kernel, Namespaces, Operation, Place};

/// Namespaces, and what is done in them.
#[derive(Serialize)]
pub struct Own {
    /// The kinds of namespaces.
    pub namespaces: Vec<&'static str>,
    /// What is done, in order.
    pub operations: Vec<String>,
}

impl Own {
    /// Of a launch.
    pub fn of(launch: &Namespaces) -> Self {
        let kinds = ["user", "mount", "process", "ipc", "host name", "control group"].into_iter();
        Self {
            namespaces: kinds.chain(launch.network.then_some("network")).collect(),
            operations: launch.operations.iter().map(line).collect(),
        }
    }
}

fn line(operation: &Operation) -> String {
    let made = |place: &Place| match place {
        Place::Made => ", made first",
        Place::There => "",
    };
    match operation {
        Operation::Tmpfs { at, place, mode, size } => {
            format!("mount tmpfs {} mode={mode:04o},size={size}{}", at.display(), made(place))
        }
        Operation::Directory { at } => format!("mkdir {}", at.display()),
        Operation::Link { at, text } => format!("symlink {} -> {}", at.display(), text.display()),
        Operation::Tree { from, at, place, write, devices } => {
            let write = if *write { "rw" } else { "ro" };
            let devices = if *devices { "" } else { ",nodev" };
            let from = if from == at { String::new() } else { format!(" from {}", from.display()) };
            format!("bind {}{from} {write},nosuid{devices}{}", at.display(), made(place))
        }
        Operation::Copy { from, at } if from == at => format!("copy {}", at.display()),
        Operation::Copy { from, at } => format!("copy {} from {}", at.display(), from.display()),
        Operation::Kernel { kind, at, place } => {
            let kind = match kind {
                Kernel::Proc => "proc",
                Kernel::Terminals => "devpts",
                Kernel::Queues => "mqueue",
            };
            format!("mount {kind} {}{}", at.display(), made(place))
        }
        Operation::Empty { at, directory: true } => format!("hide directory {}", at.display()),
        Operation::Empty { at, directory: false } => format!("hide file {}", at.display()),
        Operation::ReadOnly { at } => format!("remount {} ro", at.display()),
    }
}
