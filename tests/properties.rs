//! What holds for every plan and every merge, whatever is in them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use sandbox_run::backend::Backend;
use sandbox_run::backend::bwrap::{self, Features};
use sandbox_run::config::{Layer, Set, merge};
use sandbox_run::launch::{Command, File, Launch, Word};
use sandbox_run::plan::env::Environment;
use sandbox_run::plan::target::Target;
use sandbox_run::plan::{MountOp, Plan};
use sandbox_run::policy::{Access, Grant, Missing, Network, Origin, PathRule, Protection};

/// bubblewrap's options that we use, and how many words follow. Those of the second list only say how the next is done.
const OPTIONS: &[(&str, usize)] = &[
    ("--unshare-user", 0),
    ("--unshare-pid", 0),
    ("--unshare-ipc", 0),
    ("--unshare-uts", 0),
    ("--unshare-cgroup-try", 0),
    ("--unshare-net", 0),
    ("--cap-drop", 1),
    ("--die-with-parent", 0),
    ("--as-pid-1", 0),
    ("--hostname", 1),
    ("--tmpfs", 1),
    ("--dir", 1),
    ("--symlink", 2),
    ("--bind", 2),
    ("--ro-bind", 2),
    ("--dev-bind", 2),
    ("--file", 2),
    ("--ro-bind-data", 2),
    ("--proc", 1),
    ("--dev", 1),
    ("--mqueue", 1),
    ("--remount-ro", 1),
    ("--chdir", 1),
];
const MODIFIERS: &[(&str, usize)] = &[("--perms", 1), ("--size", 1)];

/// A path as a plan has it: absolute, no `.` or `..`, any byte but NUL in a name.
fn path() -> impl Strategy<Value = PathBuf> {
    let name = prop_oneof![
        "[a-z]{1,6}".prop_map(String::into_bytes),
        Just(b"--unshare-net".to_vec()),
        Just(b"a b\nc".to_vec()),
        prop::collection::vec(prop_oneof![1_u8..=46, 48_u8..=255], 1..8),
    ]
    .prop_filter("no dots", |name| name != b"." && name != b"..");
    prop::collection::vec(name, 0..5).prop_map(|names| {
        let names = names.into_iter().map(OsString::from_vec);
        names.fold(PathBuf::from("/"), |path, name| path.join(name))
    })
}

fn mount() -> impl Strategy<Value = MountOp> {
    prop_oneof![
        (path(), any::<u16>(), any::<u64>()).prop_map(|(at, mode, size)| MountOp::Tmpfs {
            at,
            mode: u32::from(mode) & 0o1777,
            size
        }),
        path().prop_map(|at| MountOp::Dir { at }),
        (path(), "[a-z./]{1,9}").prop_map(|(at, text)| MountOp::Link { at, text: text.into() }),
        (path(), path(), any::<bool>(), any::<bool>()).prop_map(|(from, at, write, device)| MountOp::Bind {
            from,
            at,
            write,
            device
        }),
        (path(), path()).prop_map(|(from, at)| MountOp::Copy { from, at }),
        path().prop_map(|at| MountOp::Proc { at }),
        path().prop_map(|at| MountOp::Dev { at }),
        path().prop_map(|at| MountOp::Queues { at }),
        path().prop_map(|at| MountOp::EmptyFile { at }),
        path().prop_map(|at| MountOp::ReadOnly { at }),
    ]
}

pub fn plan(view: Vec<MountOp>, network: Network) -> Plan {
    let target = Target {
        word: "true".into(),
        literal: "/bin/true".into(),
        exec: "/bin/true".into(),
        file: "/bin/true".into(),
        files: Vec::new(),
        script_without_shebang: false,
    };
    Plan {
        backend: Backend::Bwrap,
        target,
        argv: vec!["true".into(), "s3cret-argument".into()],
        workdir: "/work".into(),
        environment: Environment { vars: vec![("NAME".into(), "s3cret-value".into())], ..Environment::default() },
        view,
        create: Vec::new(),
        absent: std::collections::BTreeSet::new(),
        recognised: sandbox_run::plan::git::whole::Recognised::default(),
        unprotected: Vec::new(),
        mounts: std::sync::Arc::default(),
        covers: std::collections::BTreeSet::new(),
        frozen: Vec::new(),
        reach: None,
        image: None,
        container: None,
        checks: Vec::new(),
        hidden: sandbox_run::plan::hidden::Scan::default(),
        network,
        way_out: None,
        host_processes: false,
        scope_sockets: false,
        new_session: true,
        keep_fds: std::collections::BTreeSet::new(),
        kill_after: Duration::from_secs(2),
        limits: sandbox_run::policy::Limits::default(),
        cgroup: None,
        procs_by_rlimit: false,
        rules: sandbox_run::plan::view::View::default(),
        trace: None,
        gaps: Vec::new(),
        warnings: Vec::new(),
        notes: Vec::new(),
    }
}

fn launched(plan: &Plan, features: Features) -> Command {
    let Launch::Program(command) = bwrap::launch(plan, Path::new("/usr/bin/bwrap"), features) else {
        panic!("bwrap starts a program")
    };
    command
}

/// The list as bubblewrap reads it: NUL-terminated words, a number for each descriptor.
fn written(words: &[Word]) -> (Vec<u8>, BTreeMap<Vec<u8>, File>) {
    let mut bytes = Vec::new();
    let mut files = BTreeMap::new();
    for word in words {
        match word {
            Word::Text(text) => bytes.extend_from_slice(text.as_bytes()),
            Word::Fd(file) => {
                let number = (10 + files.len()).to_string().into_bytes();
                bytes.extend_from_slice(&number);
                assert!(files.insert(number, file.clone()).is_none(), "one descriptor for each use");
            }
            Word::FdPath(_) | Word::Private(_) | Word::Scratch { .. } => {
                panic!("not among the options: {word:?}")
            }
        }
        bytes.push(0);
    }
    (bytes, files)
}

/// Options with their operands, read back as bubblewrap does; fails where it would stop or take a word for another.
fn parsed(bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut words = bytes.strip_suffix(b"\0").expect("terminated").split(|byte| *byte == 0).map(<[u8]>::to_vec);
    let mut options = Vec::new();
    while let Some(option) = words.next() {
        let known = OPTIONS.iter().chain(MODIFIERS).find(|(name, _)| name.as_bytes() == option);
        let (_, operands) = known.unwrap_or_else(|| panic!("not an option: {:?}", String::from_utf8_lossy(&option)));
        let mut found = vec![option];
        for _ in 0..*operands {
            let operand = words.next().expect("an operand");
            assert!(!operand.is_empty(), "empty operand of {:?}", String::from_utf8_lossy(&found[0]));
            found.push(operand);
        }
        options.push(found);
    }
    options
}

fn clean(path: &[u8]) -> bool {
    let parts = path.split(|byte| *byte == b'/').skip(1);
    path.starts_with(b"/") && parts.clone().all(|part| part != b".." && part != b".") && !path.contains(&0)
}

fn features() -> impl Strategy<Value = Features> {
    (any::<bool>(), any::<bool>()).prop_map(|(perms, size)| Features { perms, size })
}

fn network() -> impl Strategy<Value = Network> {
    prop_oneof![Just(Network::Off), Just(Network::Host)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a view holds, bubblewrap reads back exactly that, with the sandbox before the mounts.
    #[test]
    fn option_lists_are_well_formed(
        view in prop::collection::vec(mount(), 0..40), network in network(), features in features()
    ) {
        let plan = plan(view, network);
        let command = launched(&plan, features);
        prop_assert_eq!(&command, &launched(&plan, features), "the same each time");
        let (bytes, files) = written(&command.options);
        let options = parsed(&bytes);
        let name = |option: &[Vec<u8>]| String::from_utf8_lossy(&option[0]).into_owned();

        // What isolates comes first, each once, and nothing of it later.
        let mut first = vec!["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"];
        if network == Network::Off {
            first.push("--unshare-net");
        }
        first.push("--cap-drop");
        for (option, expected) in options.iter().zip(&first) {
            prop_assert_eq!(&name(option), expected);
        }
        prop_assert_eq!(&options[first.len() - 1][1], b"ALL");
        for option in &options[first.len()..] {
            let name = name(option);
            prop_assert!(!name.starts_with("--unshare") && !name.starts_with("--share") && !name.starts_with("--cap"));
            prop_assert!(!name.ends_with("-try"), "{}", name);
        }

        // Each operation is there, in order, under a clean absolute path; a modifier stands right before what takes it.
        let mut operations = Vec::new();
        for (index, option) in options.iter().enumerate() {
            let name = name(option);
            match name.as_str() {
                "--perms" | "--size" => {
                    let next = options[index + 1..].iter().find(|next| !["--perms", "--size"].map(str::as_bytes).contains(&&next[0][..]));
                    let next = String::from_utf8_lossy(&next.expect("something to modify")[0]).into_owned();
                    let takes: &[&str] = if name == "--size" { &["--tmpfs"] } else { &["--tmpfs", "--file", "--ro-bind-data"] };
                    prop_assert!(takes.contains(&next.as_str()), "{} before {}", name, next);
                    prop_assert!((name == "--size" && features.size) || (name == "--perms" && features.perms));
                }
                "--tmpfs" | "--dir" | "--symlink" | "--bind" | "--ro-bind" | "--dev-bind" | "--file" | "--ro-bind-data"
                | "--proc" | "--dev" | "--mqueue" | "--remount-ro" => {
                    prop_assert!(clean(option.last().expect("destination")), "{:?}", option);
                    if name.ends_with("bind") {
                        prop_assert!(clean(&option[1]), "{:?}", option);
                    }
                    operations.push(option.clone());
                }
                _ => {}
            }
        }
        prop_assert_eq!(operations.len(), plan.view.len());
        for (option, op) in operations.iter().zip(&plan.view) {
            let text = |path: &Path| path.as_os_str().as_bytes().to_vec();
            let (name, operands): (&str, Vec<Vec<u8>>) = match op {
                MountOp::Tmpfs { at, .. } => ("--tmpfs", vec![text(at)]),
                MountOp::Dir { at } => ("--dir", vec![text(at)]),
                MountOp::Link { at, text: to } => ("--symlink", vec![text(to), text(at)]),
                MountOp::Bind { from, at, device: true, .. } => ("--dev-bind", vec![text(from), text(at)]),
                MountOp::Bind { from, at, write: true, .. } => ("--bind", vec![text(from), text(at)]),
                MountOp::Bind { from, at, .. } => ("--ro-bind", vec![text(from), text(at)]),
                MountOp::Copy { from, at } => {
                    prop_assert_eq!(&files[&option[1]], &File::Host(from.clone()));
                    ("--file", vec![option[1].clone(), text(at)])
                }
                MountOp::EmptyFile { at } => {
                    prop_assert_eq!(&files[&option[1]], &File::Empty);
                    ("--ro-bind-data", vec![option[1].clone(), text(at)])
                }
                MountOp::Proc { at } => ("--proc", vec![text(at)]),
                MountOp::Dev { at } => ("--dev", vec![text(at)]),
                MountOp::Queues { at } => ("--mqueue", vec![text(at)]),
                MountOp::ReadOnly { at } => ("--remount-ro", vec![text(at)]),
            };
            prop_assert_eq!(&option[0], name.as_bytes());
            prop_assert_eq!(&option[1..], &operands[..]);
        }
        prop_assert_eq!(options.last().expect("options"), &vec![b"--chdir".to_vec(), b"/".to_vec()]);

        // The visible arguments hold nothing of the policy or of the command.
        prop_assert_eq!(command.arguments, vec!["--args".into(), Word::Fd(File::Options), "--".into(), Word::FdPath(File::Image)]);
        let holds = |word: &str| bytes.windows(word.len()).any(|window| window == word.as_bytes());
        prop_assert!(!holds("s3cret-value") && !holds("s3cret-argument"));
    }

    /// Flags over the defaults: what was typed is there, in order, and what was not typed stays closed.
    #[test]
    fn merging_loses_nothing(layer in layer()) {
        let policy = merge([layer.clone()]);
        let network = layer.network.as_ref().map(|set| set.value);
        prop_assert_eq!(&policy, &merge([layer.clone()]));
        prop_assert_eq!(&policy.files.grants, &layer.grants);
        prop_assert_eq!(&policy.files.masks, &layer.masks);
        prop_assert_eq!(&policy.files.protects, &layer.protects);
        prop_assert_eq!(&policy.deny_sockets, &layer.deny_sockets);
        prop_assert_eq!(&policy.allow_sockets, &layer.allow_sockets);
        prop_assert_eq!(&policy.accepted_gaps, &layer.accepted_gaps);
        prop_assert_eq!(policy.network, network.unwrap_or(Network::Off));
        prop_assert_eq!(policy.env.defaults, layer.env_defaults.as_ref().is_none_or(|set| set.value));
        prop_assert!(!policy.backends.list.is_empty());
        if layer.backends.is_none() {
            prop_assert!(!policy.backends.list.contains(&Backend::None), "nobody asked for no sandbox");
        }
        // The defaults alone ask for nothing, so that `none` gives them up; every typed restriction asks.
        prop_assert!(merge([Layer::default()]).asked.is_empty());
        let asks = |holds: bool, protection| !holds || policy.asked.contains(&protection);
        prop_assert!(asks(network == Some(Network::Off), Protection::Network));
        prop_assert!(asks(!layer.masks.is_empty(), Protection::Masks));
        prop_assert!(asks(!layer.grants.is_empty(), Protection::FilesRead));
        prop_assert!(asks(!layer.grants.is_empty(), Protection::FilesWrite));
        prop_assert!(asks(!layer.protects.is_empty(), Protection::FilesWrite));
        prop_assert!(asks(layer.tmp_size.is_some(), Protection::FilesWrite));
        prop_assert!(asks(!layer.deny_sockets.is_empty(), Protection::Sockets));
        prop_assert!(network != Some(Network::Host) || !policy.asked.contains(&Protection::Network));
    }

    /// One more restriction never takes back what was asked for.
    #[test]
    fn more_restrictions_ask_for_more(layer in layer(), rule in rule(), which in 0..4_usize) {
        let before = merge([layer.clone()]).asked;
        let mut more = layer;
        match which {
            0 => more.masks.push(rule),
            1 => more.protects.push(rule),
            2 => more.deny_sockets.push(rule),
            _ => more.network = Some(typed(Network::Off)),
        }
        let after = merge([more]).asked;
        prop_assert!(after.is_superset(&before) && !after.is_empty());
    }
}

fn typed<T>(value: T) -> Set<T> {
    Set::new(value, Origin::Flag("--typed"))
}

fn rule() -> impl Strategy<Value = PathRule> {
    path().prop_map(|path| PathRule { path, origin: Origin::Flag("--mask") })
}

fn layer() -> impl Strategy<Value = Layer> {
    let rules = || prop::collection::vec(rule(), 0..3);
    let access = prop_oneof![Just(Access::Read), Just(Access::Write)];
    let missing = prop_oneof![Just(Missing::Refuse), Just(Missing::Skip), Just(Missing::Create)];
    let grant = (path(), access, missing).prop_map(|(path, access, missing)| Grant {
        path,
        access,
        missing,
        file_only: false,
        origin: Origin::Flag("--read"),
    });
    let gap = prop::sample::select(Protection::ALL.to_vec());
    let gaps = prop::collection::btree_map(gap, Just(Origin::Flag("--allow-gap")), 0..3);
    let backends = prop::option::of(prop::collection::vec(prop::sample::select(Backend::ALL.to_vec()), 1..3));
    let lists = (prop::collection::vec(grant, 0..3), rules(), rules(), rules(), rules(), gaps);
    let scalars =
        (backends, prop::option::of(any::<u64>()), prop::option::of(network()), prop::option::of(any::<bool>()));
    (lists, scalars).prop_map(|((grants, masks, protects, allow_sockets, deny_sockets, accepted_gaps), scalars)| {
        let (backends, tmp_size, network, env_defaults) = scalars;
        Layer {
            backends: backends.map(typed),
            accepted_gaps,
            grants,
            masks,
            protects,
            tmp_size: tmp_size.map(typed),
            network: network.map(typed),
            allow_sockets,
            deny_sockets,
            env_defaults: env_defaults.map(typed),
            ..Layer::default()
        }
    })
}
