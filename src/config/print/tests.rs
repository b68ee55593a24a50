//! Whatever the policy, its text reads back as the same policy.

use std::os::unix::ffi::OsStringExt;

use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::backend::Backend;
use crate::config::file::{self, Format};
use crate::config::layer::{Layer, Set, merge};
use crate::policy::hidden::{Overflow, Shown};
use crate::policy::{Access, Grant, Missing, Network, NewSession, Protection};

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

fn set<T: std::fmt::Debug>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Option<Set<T>>> {
    option::of((value, origin()).prop_map(|(value, origin)| Set::new(value, origin)))
}

fn path_rules() -> impl Strategy<Value = Vec<PathRule>> {
    vec((path(), origin()).prop_map(|(path, origin)| PathRule { path, origin }), 0..3)
}

fn hidden_names() -> impl Strategy<Value = Shown> {
    let name = bytes()
        .prop_filter("a single part", |name| !name.contains(&b'/') && name != b"." && name != b".." && name != b"*");
    prop_oneof![Just(Shown::All), btree_set(name.prop_map(OsString::from_vec), 0..3).prop_map(Shown::Names)]
}

/// Every kind of grant that a source can ask for and a document can tell apart.
fn grants() -> impl Strategy<Value = Vec<Grant>> {
    let kinds = |missing| {
        vec![
            (Access::Read, Missing::Refuse, false),
            (Access::Read, Missing::Skip, false),
            (Access::Write, missing, false),
            (Access::Write, Missing::Skip, false),
            (Access::Write, Missing::Refuse, true),
        ]
    };
    select(vec![Missing::Refuse, Missing::Create]).prop_flat_map(move |missing| {
        let grant = (path(), select(kinds(missing)), origin());
        vec(
            grant.prop_map(|(path, (access, missing, file_only), origin)| Grant {
                path,
                access,
                missing,
                file_only,
                origin,
            }),
            0..5,
        )
    })
}

prop_compose! {
    fn lists()(
        accepted_gaps in btree_set(select(Protection::ALL.to_vec()), 0..3),
        grants in grants(),
        masks in path_rules(),
        protects in path_rules(),
        allow_sockets in path_rules(),
        deny_sockets in path_rules(),
        env in vec(rule(), 0..6),
        keep_fds in btree_set(3..i32::MAX, 0..3),
    ) -> Layer {
        Layer { accepted_gaps, grants, masks, protects, allow_sockets, deny_sockets, env, keep_fds, ..Layer::default() }
    }
}

prop_compose! {
    fn policy()(
        lists in lists(),
        backends in set(select(vec![vec![Backend::Bwrap], vec![Backend::None], vec![Backend::Bwrap, Backend::None]])),
        tmp_size in set(prop_oneof![4096..u64::MAX, (12_u32..63).prop_map(|shift| 1 << shift)]),
        workdir in set(path()),
        network in set(select(vec![Network::Off, Network::Host])),
        env_defaults in set(any::<bool>()),
        keep_jobserver in set(any::<bool>()),
        new_session in set(select(vec![NewSession::Auto, NewSession::Always, NewSession::Never])),
        kill_after in set(prop_oneof![
            (0..3_000_000_000_u64, 0..1_000_000_000_u32).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos)),
            (0..10_000_u64).prop_map(Duration::from_millis),
        ]),
        hidden in (set(hidden_names()), set(1..=u64::MAX), set(select(Overflow::ALL.to_vec())), set(any::<bool>())),
    ) -> Policy {
        let (hidden_shown, hidden_max_entries, hidden_overflow, hidden_recursive) = hidden;
        merge([Layer {
            backends, tmp_size, workdir, network, env_defaults, keep_jobserver, new_session, kill_after, hidden_shown,
            hidden_max_entries, hidden_overflow, hidden_recursive, ..lists
        }])
    }
}

/// The policy without origins, its grants in the order of documents, a network that is off asked for where it is written.
fn bare(mut policy: Policy) -> Policy {
    let order = ["read_roots", "read_roots_optional", "write_roots", "write_roots_optional", "write_files"];
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
}

fn rules(words: &[&str]) -> Vec<EnvRule> {
    words.iter().map(|word| EnvRule::parse(OsStr::new(word)).unwrap()).collect()
}

fn hash_of(env: &[&str]) -> String {
    hash(&merge([Layer { env: rules(env), ..Layer::default() }]))
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
        hidden_shown: Some(Set::new(Shown::Names(BTreeSet::new()), Origin::File("p.toml".into()))),
        env: rules(&["A", "B=é"]),
        keep_fds: [3, 9].into(),
        ..Layer::default()
    }])
}

#[test]
fn toml_shows_who_decided() {
    let expected = r#"backend_type = "bwrap"
read_roots_optional = [
    "base64:L/8=",  # from payload
]
write_roots = [
    "/w",  # from --write
    "/v",  # from profile 'ci\n'
]
cwd_allow_hidden = []  # from p.toml
tmp_size = "64M"  # from profile 'ci\n'
allow_network = true  # from --net
env = ["A"]
env_set.B = "é"
keep_fds = [3, 9]
"#;
    assert_eq!(toml(&example()), expected);
}

#[test]
fn json_is_indented() {
    let expected = r#"{
  "backend_type": "bwrap",
  "read_roots_optional": [
    "base64:L/8="
  ],
  "write_roots": [
    "/w",
    "/v"
  ],
  "cwd_allow_hidden": [],
  "tmp_size": "64M",
  "allow_network": true,
  "env": [
    "A"
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
        r#"{"allow_network":true,"backend_type":"bwrap","cwd_allow_hidden":[],"env":["A"],"env_set":{"B":"\u00e9"},"#,
        r#""keep_fds":[3,9],"read_roots_optional":["base64:L/8="],"tmp_size":"64M","write_roots":["/v","/w"]}"#
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
