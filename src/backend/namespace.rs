//! Namespaces of our own: what bubblewrap does with a plan, without bubblewrap.
//!
//! Pure: from a plan to a list of operations, of which each says whether there is a place for it or one has to be made. Only in
//! memory is one ever made. `stage::namespace` carries the list out in a copy of this process, which then is process 1.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::launch::{Kernel, Launch, Namespaces, Operation, Place};
use crate::plan::base::DEVICES;
use crate::plan::view::MASK_MODE;
use crate::plan::{MountOp, Plan};
use crate::policy::protection::Strength;
use crate::policy::{Network, Protection};

/// What is enforced: the plan is that of bubblewrap, and so are its ends.
#[must_use]
pub const fn strength(protection: Protection) -> Strength {
    super::bwrap::strength(protection)
}

/// Size of `/dev`, in bytes: nodes and links, and sealed before anybody could write there.
const DEV_SIZE: u64 = 1 << 20;

/// Links in `/dev`, from and to.
const LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("core", "/proc/kcore"),
    ("ptmx", "pts/ptmx"),
];

/// The operations of a plan, for a copy of this process.
#[must_use]
pub fn launch(plan: &Plan) -> Launch {
    let Plan {
        view,
        frozen,
        network,
        // Nothing is left to the inner stage to mount.
        covers: _,
        reach: _,
        image: _,
        container: _,
        way_out: _,
        host_processes: _,
        // The inner stage's part: it gets these by the hand-off.
        backend: _,
        target: _,
        argv: _,
        workdir: _,
        environment: _,
        create: _,
        absent: _,
        recognised: _,
        unprotected: _,
        checks: _,
        hidden: _,
        rules: _,
        trace: _,
        scope_sockets: _,
        new_session: _,
        keep_fds: _,
        kill_after: _,
        limits: _,
        // The outer stage's.
        cgroup: _,
        procs_by_rlimit: _,
        gaps: _,
        warnings: _,
        notes: _,
        mounts: _,
    } = plan;
    let network = match network {
        Network::Off => true,
        Network::Host => false,
    };
    let places = HashMap::from([(Path::new("/"), Place::Made)]);
    let mut list = List { view, frozen, places, empty: HashSet::new(), operations: Vec::new() };
    for (number, op) in view.iter().enumerate() {
        list.mount(number, op);
    }
    Launch::Namespaces(Namespaces { network, operations: list.operations })
}

struct List<'a> {
    view: &'a [MountOp],
    frozen: &'a [PathBuf],
    /// What is found below each mount so far.
    places: HashMap<&'a Path, Place>,
    /// Where the empty directory is.
    empty: HashSet<&'a Path>,
    operations: Vec<Operation>,
}

impl<'a> List<'a> {
    /// What there is for a mount at `at`: it depends on what its directory lies on.
    fn place(&self, at: &Path) -> Place {
        let above = at.ancestors().skip(1).find_map(|above| self.places.get(above));
        above.copied().unwrap_or(Place::There)
    }

    fn push(&mut self, at: &'a Path, below: Place, operation: Operation) {
        self.places.insert(at, below);
        self.operations.push(operation);
    }

    fn mount(&mut self, number: usize, op: &'a MountOp) {
        match op {
            MountOp::Tmpfs { at, mode: MASK_MODE, .. } if self.is_empty(number, at) => {
                self.empty.insert(at);
                self.push(at, Place::There, Operation::Empty { at: at.clone(), directory: true });
            }
            MountOp::Tmpfs { at, mode, size } => {
                let place = self.place(at);
                self.push(at, Place::Made, Operation::Tmpfs { at: at.clone(), place, mode: *mode, size: *size });
            }
            MountOp::Dir { at } => self.operations.push(Operation::Directory { at: at.clone() }),
            MountOp::Link { at, text } => {
                self.operations.push(Operation::Link { at: at.clone(), text: text.clone() });
            }
            MountOp::Bind { from, at, write, device } => {
                let place = self.place(at);
                // A device works however its node is mounted; read-only keeps its mode and owner.
                let write = (*write || *device) && !self.frozen.contains(at);
                let tree = Operation::Tree { from: from.clone(), at: at.clone(), place, write, devices: *device };
                self.push(at, Place::There, tree);
            }
            MountOp::Copy { from, at } => {
                self.operations.push(Operation::Copy { from: from.clone(), at: at.clone() });
            }
            MountOp::Proc { at } => self.kernel(Kernel::Proc, at),
            MountOp::Queues { at } => self.kernel(Kernel::Queues, at),
            MountOp::Dev { at } => self.devices(at),
            MountOp::EmptyFile { at } => {
                self.operations.push(Operation::Empty { at: at.clone(), directory: false });
            }
            // Read-only from the start.
            MountOp::ReadOnly { at } if self.empty.contains(at.as_path()) => {}
            MountOp::ReadOnly { at } => self.operations.push(Operation::ReadOnly { at: at.clone() }),
        }
    }

    /// Whether nothing is made or mounted in what operation `number` mounts at `at`: all that would be comes after it, the
    /// nearest first.
    fn is_empty(&self, number: usize, at: &Path) -> bool {
        let next = self.view.get(number + 1).map(MountOp::at);
        next.is_none_or(|next| next == at || !next.starts_with(at))
    }

    fn kernel(&mut self, kind: Kernel, at: &'a Path) {
        let place = self.place(at);
        self.push(at, Place::There, Operation::Kernel { kind, at: at.to_owned(), place });
    }

    /// A minimal `/dev`. What a program expects of it and what `devpts` needs is what bubblewrap has there.
    fn devices(&mut self, at: &'a Path) {
        let place = self.place(at);
        self.push(at, Place::Made, Operation::Tmpfs { at: at.to_owned(), place, mode: 0o755, size: DEV_SIZE });
        for (name, ..) in DEVICES {
            let node = at.join(name);
            self.operations.push(Operation::Tree {
                from: Path::new("/dev").join(name),
                write: !self.frozen.contains(&node),
                at: node,
                place: Place::Made,
                devices: true,
            });
        }
        for (name, text) in LINKS {
            self.operations.push(Operation::Link { at: at.join(name), text: text.into() });
        }
        self.operations.push(Operation::Directory { at: at.join("shm") });
        self.operations.push(Operation::Kernel { kind: Kernel::Terminals, at: at.join("pts"), place: Place::Made });
    }
}
