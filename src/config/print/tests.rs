//! Whatever the policy, its text reads back as the same policy.

use std::os::unix::ffi::OsStringExt;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::backend::Backend;
use crate::config::file::{self, Format};
use crate::config::layer::{Layer, Set, merge};
use crate::policy::hidden::{Names, Others, Overflow, Shown};
use crate::policy::limits::OutputOverflow;
use crate::policy::units::Size;
use crate::policy::{Access, EnvEntry, Grant, ImageName, Missing, Network, NewSession, Protection};

/// Bytes without NUL: text, text that needs quotes, bytes that are no text, and what looks encoded.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[a-z/.~]{1,8}".prop_map(String::into_bytes),
        select(vec![
            "a \"b\" 'c' \\",
            "#\n= [x]\r\t",
            "größe \u{1f600}\u{202e}\u{7f}\u{85}",
            "base64:YQ==",
            "base64:",
            "\"\"\"",
            "'''",
            "\\udc80",
            "*"
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        vec(1_u8..=255, 1..8),
        "\\PC{1,8}".prop_map(String::into_bytes),
    ]
}

fn path() -> impl Strategy<Value = PathBuf> {
    bytes().prop_map(|bytes| OsString::from_vec(bytes).into())
}

fn name() -> impl Strategy<Value = EnvName> {
    prop_oneof!["[A-Z]{1,2}", select(vec!["workdir", "env", "MY_A", "MY_B", "Y_A"]).prop_map(str::to_owned)]
        .prop_map(|name| EnvName::parse(name).unwrap())
}

fn rule() -> impl Strategy<Value = EnvRule> {
    prop_oneof![
        name().prop_map(EnvRule::Pass),
        select(vec!["MY_", "M_", "Y_"]).prop_map(|prefix| EnvRule::PassPrefix(prefix.into())),
        (name(), vec(1_u8..=255, 0..6)).prop_map(|(name, value)| EnvRule::Set(name, OsString::from_vec(value))),
    ]
}

fn origin() -> impl Strategy<Value = Origin> {
    prop_oneof![
        Just(Origin::Default),
        Just(Origin::Payload),
        Just(Origin::Flag("--read")),
        bytes().prop_map(|name| Origin::File(String::from_utf8_lossy(&name).into())),
        bytes().prop_map(|name| Origin::Profile(String::from_utf8_lossy(&name).into())),
    ]
}

fn entry() -> impl Strategy<Value = EnvEntry> {
    (rule(), origin()).prop_map(|(rule, origin)| EnvEntry { rule, origin })
}

/// Boxed, since a policy of so many parts would be too large for the stack of a test.
fn set<T: std::fmt::Debug + 'static>(value: impl Strategy<Value = T> + 'static) -> BoxedStrategy<Option<Set<T>>> {
    option::of((value, origin()).prop_map(|(value, origin)| Set::new(value, origin))).boxed()
}

/// Numbers of bytes, round ones among them.
fn sizes(least: u64) -> impl Strategy<Value = u64> {
    let round = (0_u32..63).prop_map(|shift| 1 << shift);
    prop_oneof![Just(least), least..=Size::MAX.bytes(), round.prop_map(move |size: u64| size.max(least))]
}

fn times() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0..3_000_000_000_u64, 0..1_000_000_000_u32).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos)),
        (0..10_000_u64).prop_map(Duration::from_millis),
        Just(Duration::ZERO),
    ]
}

fn path_rules() -> impl Strategy<Value = Vec<PathRule>> {
    vec((path(), origin()).prop_map(|(path, origin)| PathRule { path, origin }), 0..3)
}

fn hidden_names() -> impl Strategy<Value = Shown> {
    let name = bytes().prop_map(|name| [b".", name.as_slice()].concat());
    let name = name.prop_filter("a single part", |name| !name.contains(&b'/') && name != b"." && name != b"..");
    prop_oneof![
        Just(Shown::All),
        (
            btree_set(name.prop_map(OsString::from_vec), 0..3),
            select(vec![Others::Hidden, Others::Default, Others::AllButSecrets])
        )
            .prop_map(|(listed, others)| Shown::Names(Names { others, listed }))
    ]
}

/// Every kind of grant that a source can ask for and a document can tell apart.
fn grants() -> impl Strategy<Value = Vec<Grant>> {
    let kinds = vec![
        (Access::Read, Missing::Refuse, false),
        (Access::Read, Missing::Skip, false),
        (Access::Write, Missing::Refuse, false),
        (Access::Write, Missing::Create, false),
        (Access::Write, Missing::Skip, false),
        (Access::Write, Missing::Refuse, true),
    ];
    let grant = (path(), select(kinds), origin()).prop_map(|(path, kind, origin)| {
        let (access, missing, file_only) = kind;
        Grant { path, access, missing, file_only, origin }
    });
    vec(grant, 0..6)
}

prop_compose! {
    fn lists()(
        accepted_gaps in btree_map(select(Protection::ALL.to_vec()), origin(), 0..3),
        grants in grants(),
        masks in path_rules(),
        protects in path_rules(),
        allow_sockets in path_rules(),
        deny_sockets in path_rules(),
        env in vec(entry(), 0..6),
        keep_fds in btree_map(3..i32::MAX, origin(), 0..3),
    ) -> Layer {
        Layer { accepted_gaps, grants, masks, protects, allow_sockets, deny_sockets, env, keep_fds, ..Layer::default() }
    }
}

prop_compose! {
    fn limits()(
        timeout in set(times()),
        memory in set(sizes(16 << 20)),
        cpu_time in set(1..3_000_000_000_u64),
        max_procs in set(1..=u64::MAX),
        max_file_size in set(sizes(0)),
        max_open_files in set(16..=u64::MAX),
        address_space in set(sizes(16 << 20)),
        core in set(sizes(0)),
        max_output in set(sizes(0)),
        output_overflow in set(select(OutputOverflow::ALL.to_vec())),
    ) -> Layer {
        Layer {
            timeout, memory, cpu_time, max_procs, max_file_size, max_open_files, address_space, core, max_output,
            output_overflow, ..Layer::default()
        }
    }
}

prop_compose! {
    fn policy()(
        lists in lists().boxed(),
        backends in set(select(vec![vec![Backend::Bwrap], vec![Backend::None], vec![Backend::Bwrap, Backend::None]])),
        image in set(select(vec!["debian:12", "a/b@sha256:0"]).prop_map(|name| ImageName::parse(name).unwrap())),
        tmp_size in set(sizes(4096)),
        workdir in set(path()),
        network in set(select(vec![Network::Off, Network::Host])),
        env_defaults in set(any::<bool>()),
        keep_jobserver in set(any::<bool>()),
        new_session in set(select(vec![NewSession::Auto, NewSession::Always, NewSession::Never])),
        kill_after in set(times()),
        limits in limits().boxed(),
        hidden in (set(hidden_names()), set(1..=u64::MAX), set(select(Overflow::ALL.to_vec())), set(any::<bool>())),
    ) -> Policy {
        let (hidden_shown, hidden_max_entries, hidden_overflow, hidden_recursive) = hidden;
        merge([Layer {
            backends, image, tmp_size, workdir, network, env_defaults, keep_jobserver, new_session, kill_after, hidden_shown,
            hidden_max_entries, hidden_overflow, hidden_recursive, ..lists.under(limits)
        }])
    }
}

/// The policy without origins, its grants in the order of documents, a network that is off asked for where it is written.
fn bare(mut policy: Policy) -> Policy {
    let order = [
        "read_roots",
        "read_roots_optional",
        "write_roots",
        "write_roots_create",
        "write_roots_optional",
        "write_files",
    ];
    policy.files.grants.sort_by_key(|grant| order.iter().position(|key| *key == grant_key(grant)));
    for grant in &mut policy.files.grants {
        grant.origin = Origin::Default;
    }
    let files = &mut policy.files;
    for rules in [&mut files.masks, &mut files.protects, &mut policy.allow_sockets, &mut policy.deny_sockets] {
        for rule in rules {
            rule.origin = Origin::Default;
        }
    }
    for entry in &mut policy.env.rules {
        entry.origin = Origin::Default;
    }
    for origin in policy.accepted_gaps.values_mut().chain(policy.keep_fds.values_mut()) {
        *origin = Origin::Default;
    }
    policy.origins.clear();
    if policy.network == Network::Off && !policy.backends.list.contains(&Backend::None) {
        policy.asked.insert(Protection::Network);
    }
    policy
}

fn read(text: &str, format: Format) -> Document {
    file::read(text.as_bytes(), "f", Some(format)).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn again(document: Document) -> Policy {
    merge([document.layer(&Origin::File("f".into()))])
}

proptest! {
    #[test]
    fn a_document_of_a_policy_is_that_policy(policy in policy()) {
        let other = again(Document::of(&policy));
        prop_assert_eq!(bare(other), bare(policy));
    }

    #[test]
    fn what_is_printed_reads_back(policy in policy()) {
        let document = Document::of(&policy);
        let (json, toml) = (json(&policy), toml(&policy));
        prop_assert_eq!(&read(&json, Format::Json), &document, "{}", json);
        prop_assert_eq!(&read(&toml, Format::Toml), &document, "{}", toml);
        // Paths compare by their parts; the text must be the same to the byte.
        let (by_json, by_toml) = (again(read(&json, Format::Json)), again(read(&toml, Format::Toml)));
        prop_assert_eq!(&super::json(&by_json), &json);
        prop_assert_eq!(&super::json(&by_toml), &json);
        prop_assert_eq!(super::toml(&by_json), super::toml(&by_toml));
        prop_assert!(!json.chars().chain(toml.chars()).any(|char| steers(char) && char != '\n'), "{}", toml);
    }

    #[test]
    fn the_canonical_form_is_one(policy in policy()) {
        let canonical = canonical(&policy);
        prop_assert!(canonical.iter().all(|byte| (b' '..=b'~').contains(byte)));
        let text = String::from_utf8(canonical.clone()).unwrap();
        let other = again(read(&text, Format::Json));
        prop_assert_eq!(super::canonical(&other), canonical);
        prop_assert_eq!(hash(&other), hash(&policy));
    }

    #[test]
    fn the_hash_knows_no_order_and_no_origin(policy in policy()) {
        let mut other = bare(policy.clone());
        other.files.grants.reverse();
        other.files.masks.reverse();
        other.files.masks.extend(policy.files.masks.clone());
        other.deny_sockets.reverse();
        prop_assert_eq!(hash(&other), hash(&policy));
        other.files.masks.push(PathRule { path: "/one/more".into(), origin: Origin::Default });
        prop_assert_ne!(hash(&other), hash(&policy));
    }

    /// Each grant keeps its own answer to a missing path, whatever the others say.
    #[test]
    fn the_hash_knows_which_grants_are_made(policy in policy()) {
        for index in 0..policy.files.grants.len() {
            let mut other = policy.clone();
            let grant = &mut other.files.grants[index];
            grant.missing = match (grant_key(grant), grant.missing) {
                ("write_roots", _) => Missing::Create,
                ("write_roots_create", _) => Missing::Refuse,
                _ => continue,
            };
            let alike = |other: &Grant| plain(&other.path) == plain(&policy.files.grants[index].path);
            if policy.files.grants.iter().filter(|other| alike(other)).count() == 1 {
                prop_assert_ne!(hash(&other), hash(&policy));
            }
        }
    }

    /// Behind each rule stands who asked, in the order of the rules.
    #[test]
    fn toml_names_the_origin_of_each_variable(rules in vec(rule(), 0..8)) {
        let origins: Vec<Origin> = (0..rules.len()).map(|index| Origin::File(format!("from-{index}").into())).collect();
        let env = rules.iter().zip(&origins).map(|(rule, origin)| EnvEntry { rule: rule.clone(), origin: origin.clone() });
        let text = toml(&merge([Layer { env: env.collect(), ..Layer::default() }]));
        let said: Vec<_> = text.lines().filter_map(|line| Some(line.rsplit_once("  # from ")?.1.to_owned())).collect();
        prop_assert_eq!(said, origins.iter().map(ToString::to_string).collect::<Vec<_>>(), "{}", text);
    }
}

fn rules(words: &[&str], origin: &Origin) -> Vec<EnvEntry> {
    EnvEntry::all(words.iter().map(|word| EnvRule::parse(OsStr::new(word)).unwrap()), origin).collect()
}

fn hash_of(env: &[&str]) -> String {
    let of = |origin| hash(&merge([Layer { env: rules(env, &origin), ..Layer::default() }]));
    assert_eq!(of(Origin::Payload), of(Origin::Flag("--env")), "{env:?}");
    of(Origin::Payload)
}

#[test]
fn rules_about_variables_that_mean_the_same_hash_the_same() {
    for (a, b) in [
        (&["A=1", "B"][..], &["B", "A=1"][..]),
        (&["A", "A=1"], &["A=1"]),
        (&["A=2", "A=1"], &["A=1"]),
        (&["MY_*", "A=1", "B", "B"], &["B", "MY_*", "A=1"]),
        (&["MY_A=1", "B", "MY_*"], &["B", "MY_A=1", "MY_*"]),
    ] {
        assert_eq!(hash_of(a), hash_of(b), "{a:?} {b:?}");
    }
    for (a, b) in [(&["A"][..], &["A=1"][..]), (&["MY_A=1", "MY_*"], &["MY_*", "MY_A=1"]), (&["A=1", "A"], &["A=1"])] {
        assert_ne!(hash_of(a), hash_of(b), "{a:?} {b:?}");
    }
}

fn example() -> Policy {
    let flag = Origin::Flag("--write");
    let profile = Origin::Profile("ci\n".into());
    merge([Layer {
        grants: vec![
            Grant {
                path: "/w".into(),
                access: Access::Write,
                missing: Missing::Refuse,
                file_only: false,
                origin: flag.clone(),
            },
            Grant {
                path: "/new".into(),
                access: Access::Write,
                missing: Missing::Create,
                file_only: false,
                origin: flag.clone(),
            },
            Grant {
                path: "/v".into(),
                access: Access::Write,
                missing: Missing::Refuse,
                file_only: false,
                origin: profile.clone(),
            },
            Grant {
                path: OsString::from_vec(b"/\xff".to_vec()).into(),
                access: Access::Read,
                missing: Missing::Skip,
                file_only: false,
                origin: Origin::Payload,
            },
        ],
        network: Some(Set::new(Network::Host, Origin::Flag("--net"))),
        tmp_size: Some(Set::new(64 << 20, profile)),
        hidden_shown: Some(Set::new(Shown::only(BTreeSet::new()), Origin::File("p.toml".into()))),
        env: [rules(&["A"], &Origin::Flag("--env")), rules(&["M_*", "B=é"], &Origin::File("p.toml".into()))].concat(),
        accepted_gaps: [(Protection::Cpu, Origin::Flag("--allow-gap"))].into(),
        keep_fds: [(3, Origin::Flag("--keep-fd")), (9, Origin::File("p.toml".into()))].into(),
        ..Layer::default()
    }])
}

#[test]
fn toml_shows_who_decided() {
    let expected = r#"backend_type = "bwrap,namespace,landlock"
allow_gaps = [
    "cpu",  # from --allow-gap
]
read_roots_optional = [
    "base64:L/8=",  # from payload
]
write_roots = [
    "/w",  # from --write
    "/v",  # from profile 'ci\n'
]
write_roots_create = [
    "/new",  # from --write
]
cwd_allow_hidden = []  # from p.toml
tmp_size = "64M"  # from profile 'ci\n'
allow_network = true  # from --net
env = [
    "A",  # from --env
    "M_*",  # from p.toml
]
env_set.B = "é"  # from p.toml
keep_fds = [
    3,  # from --keep-fd
    9,  # from p.toml
]
"#;
    assert_eq!(toml(&example()), expected);
}

#[test]
fn json_is_indented() {
    let expected = r#"{
  "backend_type": "bwrap,namespace,landlock",
  "allow_gaps": [
    "cpu"
  ],
  "read_roots_optional": [
    "base64:L/8="
  ],
  "write_roots": [
    "/w",
    "/v"
  ],
  "write_roots_create": [
    "/new"
  ],
  "cwd_allow_hidden": [],
  "tmp_size": "64M",
  "allow_network": true,
  "env": [
    "A",
    "M_*"
  ],
  "env_set": {
    "B": "é"
  },
  "keep_fds": [
    3,
    9
  ]
}
"#;
    assert_eq!(json(&example()), expected);
}

#[test]
fn the_canonical_bytes_and_their_hash() {
    let expected = concat!(
        r#"{"allow_gaps":["cpu"],"allow_network":true,"backend_type":"bwrap,namespace,landlock","cwd_allow_hidden":[],"env":["A","M_*"],"env_set":{"B":"\u00e9"},"#,
        r#""keep_fds":[3,9],"read_roots_optional":["base64:L/8="],"tmp_size":"64M","write_roots":["/v","/w"],"write_roots_create":["/new"]}"#
    );
    assert_eq!(String::from_utf8(canonical(&example())).unwrap(), expected);
    let hash = hash(&example());
    assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash}");
    let spelled = |path: &str| {
        let mask = PathRule { path: path.into(), origin: Origin::Default };
        super::hash(&merge([Layer { masks: vec![mask], ..Layer::default() }]))
    };
    assert_eq!(spelled("/a//b/./"), spelled("/a/b"));
}
