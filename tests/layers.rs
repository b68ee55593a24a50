//! Layers add up by rules that hold whatever is in them; and what a command line adds to a file is seen in a run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use sandbox_run::backend::Backend;
use sandbox_run::config::{Layer, Set, merge};
use sandbox_run::policy::env::{EnvName, EnvRule};
use sandbox_run::policy::hidden::{Names, Others, Overflow, Shown, is_hidden};
use sandbox_run::policy::limits::OutputOverflow;
use sandbox_run::policy::{
    Access, EnvEntry, Grant, ImageName, Missing, Network, NewSession, Origin, PathRule, Protection,
};

use crate::harness::World;

fn origin() -> impl Strategy<Value = Origin> {
    prop_oneof![
        Just(Origin::Default),
        Just(Origin::Payload),
        Just(Origin::Profile("p".into())),
        Just(Origin::File("f".into())),
        Just(Origin::Flag("--x")),
    ]
}

/// Boxed, since a layer of so many parts would be too large for the stack of a test.
fn set<T: Clone + std::fmt::Debug + 'static>(
    value: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<Option<Set<T>>> {
    option::of((value, origin()).prop_map(|(value, origin)| Set::new(value, origin))).boxed()
}

fn path() -> impl Strategy<Value = PathBuf> {
    "(/|~/|)[a-c]{1,2}(/[a-c]){0,2}".prop_map(PathBuf::from)
}

fn rules() -> impl Strategy<Value = Vec<PathRule>> {
    vec((path(), origin()).prop_map(|(path, origin)| PathRule { path, origin }), 0..3)
}

fn grants() -> impl Strategy<Value = Vec<Grant>> {
    let grant =
        (path(), any::<bool>(), select(vec![Missing::Refuse, Missing::Skip, Missing::Create]), any::<bool>(), origin());
    let grant = grant.prop_map(|(path, write, missing, file_only, origin)| {
        let access = if write { Access::Write } else { Access::Read };
        Grant { path, access, missing, file_only, origin }
    });
    vec(grant, 0..3)
}

fn env() -> impl Strategy<Value = Vec<EnvEntry>> {
    let name = || "[A-C]".prop_map(|name| EnvName::parse(&name).unwrap());
    let rule = prop_oneof![
        name().prop_map(EnvRule::Pass),
        "[A-C]_".prop_map(EnvRule::PassPrefix),
        (name(), "[a-c]?").prop_map(|(name, value)| EnvRule::Set(name, value.into())),
    ];
    vec((rule, origin()).prop_map(|(rule, origin)| EnvEntry { rule, origin }), 0..3)
}

fn shown() -> impl Strategy<Value = Shown> {
    let names = btree_set("\\.[a-c]".prop_map(OsString::from), 0..3);
    let others = vec![Others::Hidden, Others::Default, Others::AllButSecrets];
    prop_oneof![
        Just(Shown::All),
        (names, select(others)).prop_map(|(listed, others)| Shown::Names(Names { others, listed }))
    ]
}

fn layer() -> impl Strategy<Value = Layer> {
    let backends = set(subsequence(Backend::ALL.to_vec(), 1..=Backend::ALL.len()));
    let gap = select(vec![Protection::Masks, Protection::Network, Protection::Sockets]);
    let gaps = btree_map(gap, origin(), 0..=3);
    let keep_fds = btree_map(3..9, origin(), 0..3);
    let first = (backends, gaps, grants(), rules(), rules(), rules(), rules(), env(), keep_fds);
    let sessions = select(vec![NewSession::Auto, NewSession::Always, NewSession::Never]);
    let images = select(vec!["a", "b:1"]).prop_map(|name| ImageName::parse(name).unwrap());
    let second = (
        set(images),
        set(4096..9000_u64),
        set(path()),
        set(select(vec![Network::Off, Network::Host])),
        set(any::<bool>()),
        set(any::<bool>()),
        set(sessions),
        set((0..9_u64).prop_map(Duration::from_secs)),
    );
    let third = (
        set(shown()),
        btree_set("\\.[d-f]|all-but-secrets|[*]".prop_map(OsString::from), 0..2),
        set(1..99_u64),
        set(select(Overflow::ALL.to_vec())),
        set(any::<bool>()),
    );
    let fourth = (
        set((0..3_u64).prop_map(Duration::from_secs)),
        set((16 << 20)..99_999_999_u64),
        set(1..99_u64),
        set(1..99_u64),
        set(0..99_u64),
        set(16..99_u64),
        set((16 << 20)..99_999_999_u64),
        set(0..99_u64),
        set(0..99_u64),
        set(select(OutputOverflow::ALL.to_vec())),
    );
    (first.boxed(), second.boxed(), third.boxed(), fourth.boxed()).prop_map(|(first, second, third, fourth)| {
        let (backends, gaps, grants, masks, protects, allow_sockets, deny_sockets, env, keep_fds) = first;
        let (image, tmp_size, workdir, network, env_defaults, keep_jobserver, new_session, kill_after) = second;
        let (hidden_shown, hidden_added, hidden_max_entries, hidden_overflow, hidden_recursive) = third;
        let (
            timeout,
            memory,
            cpu_time,
            max_procs,
            max_file_size,
            max_open_files,
            address_space,
            core,
            max_output,
            output_overflow,
        ) = fourth;
        Layer {
            backends,
            image,
            accepted_gaps: gaps,
            grants,
            masks,
            protects,
            tmp_size,
            workdir,
            network,
            // They decide about the network as well; their own tests say how.
            allow_hosts: Vec::new(),
            credentials: Vec::new(),
            upstream_proxy: None,
            egress_socket: None,
            egress_port: None,
            allow_sockets,
            deny_sockets,
            env,
            env_defaults,
            keep_fds,
            keep_jobserver,
            new_session,
            kill_after,
            hidden_shown,
            hidden_added,
            hidden_max_entries,
            hidden_overflow,
            hidden_recursive,
            timeout,
            memory,
            cpu_time,
            max_procs,
            max_file_size,
            max_open_files,
            address_space,
            core,
            max_output,
            output_overflow,
        }
    })
}

/// The single settings of a layer as text, by name; none that is silent.
fn singles(layer: &Layer) -> Vec<(&'static str, Option<String>)> {
    fn text<T: std::fmt::Debug>(set: Option<&Set<T>>) -> Option<String> {
        set.map(|set| format!("{set:?}"))
    }
    vec![
        ("backends", text(layer.backends.as_ref())),
        ("image", text(layer.image.as_ref())),
        ("tmp_size", text(layer.tmp_size.as_ref())),
        ("workdir", text(layer.workdir.as_ref())),
        ("network", text(layer.network.as_ref())),
        ("env_defaults", text(layer.env_defaults.as_ref())),
        ("keep_jobserver", text(layer.keep_jobserver.as_ref())),
        ("new_session", text(layer.new_session.as_ref())),
        ("kill_after", text(layer.kill_after.as_ref())),
        ("hidden_shown", text(layer.hidden_shown.as_ref())),
        ("hidden_max_entries", text(layer.hidden_max_entries.as_ref())),
        ("hidden_overflow", text(layer.hidden_overflow.as_ref())),
        ("hidden_recursive", text(layer.hidden_recursive.as_ref())),
        ("timeout", text(layer.timeout.as_ref())),
        ("memory", text(layer.memory.as_ref())),
        ("cpu_time", text(layer.cpu_time.as_ref())),
        ("max_procs", text(layer.max_procs.as_ref())),
        ("max_file_size", text(layer.max_file_size.as_ref())),
        ("max_open_files", text(layer.max_open_files.as_ref())),
        ("address_space", text(layer.address_space.as_ref())),
        ("core", text(layer.core.as_ref())),
        ("max_output", text(layer.max_output.as_ref())),
        ("output_overflow", text(layer.output_overflow.as_ref())),
    ]
}

proptest! {
    #[test]
    fn grouping_does_not_matter(a in layer(), b in layer(), c in layer()) {
        let left = a.clone().under(b.clone()).under(c.clone());
        prop_assert_eq!(&left, &a.clone().under(b.clone().under(c.clone())));
        prop_assert_eq!(merge([left]), merge([a, b, c]));
    }

    #[test]
    fn a_silent_layer_changes_nothing(a in layer()) {
        prop_assert_eq!(&a, &a.clone().under(Layer::default()));
        prop_assert_eq!(&a, &Layer::default().under(a.clone()));
    }

    #[test]
    fn the_last_single_setting_wins(layers in vec(layer(), 0..5)) {
        let merged = singles(&layers.iter().cloned().fold(Layer::default(), Layer::under));
        for (index, (name, value)) in merged.iter().enumerate() {
            let last = layers.iter().rev().find_map(|layer| singles(layer)[index].1.clone());
            prop_assert_eq!(value, &last, "{}", name);
        }
    }

    #[test]
    fn lists_add(a in layer(), b in layer()) {
        let both = a.clone().under(b.clone());
        prop_assert_eq!(both.grants, [a.grants, b.grants].concat());
        prop_assert_eq!(both.masks, [a.masks, b.masks].concat());
        prop_assert_eq!(both.protects, [a.protects, b.protects].concat());
        prop_assert_eq!(both.allow_sockets, [a.allow_sockets, b.allow_sockets].concat());
        prop_assert_eq!(both.deny_sockets, [a.deny_sockets, b.deny_sockets].concat());
        prop_assert_eq!(both.hidden_added, &a.hidden_added | &b.hidden_added);
        prop_assert_eq!(both.env, [a.env, b.env].concat());
        prop_assert_eq!(both.keep_fds, a.keep_fds.into_iter().chain(b.keep_fds).collect());
        prop_assert_eq!(both.accepted_gaps, a.accepted_gaps.into_iter().chain(b.accepted_gaps).collect());
    }

    /// Whatever lies above, below or between: what was forbidden once is forbidden, and by whom is known.
    #[test]
    fn nothing_forbidden_is_lost(layers in vec(layer(), 1..5)) {
        let policy = merge(layers.clone());
        for layer in &layers {
            prop_assert!(layer.masks.iter().all(|rule| policy.files.masks.contains(rule)));
            prop_assert!(layer.protects.iter().all(|rule| policy.files.protects.contains(rule)));
            prop_assert!(layer.deny_sockets.iter().all(|rule| policy.deny_sockets.contains(rule)));
        }
        // And nothing is granted that no layer grants.
        for grant in &policy.files.grants {
            prop_assert!(layers.iter().any(|layer| layer.grants.contains(grant)));
        }
        let gaps: BTreeMap<_, _> = layers.iter().flat_map(|layer| layer.accepted_gaps.clone()).collect();
        prop_assert_eq!(policy.accepted_gaps, gaps);
    }

    /// What the sources ask for in so many words stays asked for, with more sources too: `none` will refuse it.
    #[test]
    fn what_is_asked_for_stays(a in layer(), b in layer()) {
        let mut both = merge([a.clone(), b.clone()]).asked;
        let alone = merge([a]).asked;
        // A later single setting may take these back.
        if b.network.is_some() { both.insert(Protection::Network); }
        let widens = b.hidden_added.iter().any(|name| !is_hidden(name));
        if b.hidden_shown.is_some() || widens { both.insert(Protection::Masks); }
        if b.timeout.is_some() { both.insert(Protection::Time); }
        prop_assert!(alone.is_subset(&both), "{alone:?} {both:?}");
    }

    /// Each single setting that somebody decided has its origin, and no other.
    #[test]
    fn origins_are_known(layers in vec(layer(), 0..4)) {
        let merged = layers.iter().cloned().fold(Layer::default(), Layer::under);
        let policy = merge(layers);
        let mut decided = singles(&merged).iter().filter(|(_, value)| value.is_some()).count();
        decided += usize::from(merged.hidden_shown.is_none() && !merged.hidden_added.is_empty());
        prop_assert_eq!(policy.origins.len(), decided);
        prop_assert_eq!(policy.origins.get("allow_network").cloned(), merged.network.map(|set| set.origin));
        prop_assert_eq!(policy.origins.get("kill_after").cloned(), merged.kill_after.map(|set| set.origin));
        prop_assert_eq!(policy.origins.get("memory").cloned(), merged.memory.map(|set| set.origin));
        prop_assert_eq!(policy.origins.get("output_overflow").cloned(), merged.output_overflow.map(|set| set.origin));
        // Zero is a decision too: for no limit.
        prop_assert_eq!(policy.limits.timeout, merged.timeout.as_ref().map(|set| set.value).filter(|time| !time.is_zero()));
        prop_assert_eq!(policy.origins.get("timeout").cloned(), merged.timeout.map(|set| set.origin));
    }
}

/// defaults < profiles in order < file < options, seen by what the target gets.
#[test]
fn each_layer_over_the_one_below() {
    let world = World::new();
    for (name, value) in [("one", "1"), ("two", "2")] {
        let masks = format!("mask_paths = ['{}']\n", world.text(&format!("w/{name}")));
        world.write(
            &format!("home/.config/sandbox-run/profiles/{name}.toml"),
            format!("{masks}[env_set]\nV = '{value}'\nP{value} = 'x'\n"),
        );
    }
    world.write("p.toml", format!("mask_paths = ['{}']\n[env_set]\nV = '3'\nP3 = 'x'\n", world.text("w/three")));
    for file in ["w/one", "w/two", "w/three", "w/four"] {
        world.write(file, "x");
    }
    let run = |words: &[&str]| world.sh(words, "echo $V $P1 $P2 $P3; cat one two three four").done().out();
    assert_eq!(run(&[]), "\nxxxx");
    assert_eq!(run(&["-p", "one"]), "1 x\nxxx");
    assert_eq!(run(&["-p", "one", "-p", "two"]), "2 x x\nxx");
    assert_eq!(run(&["-p", "two", "-p", "one"]), "1 x x\nxx");
    let file = ["--policy", "../p.toml"];
    assert_eq!(run(&[&file[..], &["-p", "two", "-p", "one"]].concat()), "3 x x x\nx");
    assert_eq!(run(&[&["-e", "V=4"], &file[..], &["-p", "one"]].concat()), "4 x x\nxx");
    assert_eq!(run(&[&["--mask", "four", "-p", "two"], &file[..]].concat()), "3 x x\nx");
    // A grant above does not lift a mask below: the same path stays hidden.
    assert_eq!(run(&["-p", "one", "-r", "one", "-w", "one"]), "1 x\nxxx");
}

/// Each rule about variables has its source behind it, in the dry run without its value; the hash does not know it.
#[test]
fn each_variable_names_who_decided_about_it() {
    let world = World::new();
    world.write("home/.config/sandbox-run/profiles/mine.toml", "env = ['FROM_PROFILE', 'OVER']\n");
    world.write("p.toml", "env = ['MY_*', 'EARLY=hunter2', 'MY_A']\n[env_set]\nLATE = 'hunter2'\nOVER = 'hunter2'\n");
    world.write("vars", "IN_FILE=hunter2\nOVER=hunter2\n");
    let words =
        ["-p", "mine", "--policy", "../p.toml", "--env-file", "../vars", "-e", "CI=hunter2", "-e", "X", "-e", "Y_*"];
    let run = |more: &[&str]| world.run([&words, more].concat()).done().code(0).out();
    let expected = [
        ("pass", "FROM_PROFILE", "profile 'mine'"),
        ("pass", "MY_*", "../p.toml"),
        ("set", "EARLY", "../p.toml"),
        ("pass", "MY_A", "../p.toml"),
        ("set", "LATE", "../p.toml"),
        ("set", "IN_FILE", "--env-file"),
        ("set", "OVER", "--env-file"),
        ("set", "CI", "--env"),
        ("pass", "X", "--env"),
        ("pass", "Y_*", "--env"),
    ];
    let text = run(&["--dry-run", "true"]);
    let said: Vec<_> = text.lines().filter(|line| line.contains(" variable '")).collect();
    assert_eq!(said, expected.map(|(does, name, from)| format!("setting: {does} variable '{name}' from {from}")));
    let json = run(&["--dry-run=json", "true"]);
    let read: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let said = read["settings"].as_array().unwrap().iter().filter(|setting| setting.get("variable").is_some());
    let rows = expected.map(
        |(does, name, from)| serde_json::json!({"setting": format!("{does} variable"), "variable": name, "from": from}),
    );
    assert_eq!(said.cloned().collect::<Vec<_>>(), rows);
    assert!(!text.contains("hunter2") && !json.contains("hunter2"));

    let toml = run(&["--print-policy=toml"]);
    for line in [
        "    \"FROM_PROFILE\",  # from profile 'mine'\n    \"OVER\",  # from profile 'mine'\n",
        "    \"MY_*\",  # from ../p.toml\n    \"EARLY=hunter2\",  # from ../p.toml\n",
        "    \"IN_FILE=hunter2\",  # from --env-file\n",
        "    \"X\",  # from --env\n    \"Y_*\",  # from --env\n]\n",
    ] {
        assert!(toml.contains(line), "{line}\n{toml}");
    }
    let last = ["--policy", "../p.toml", "-e", "CI=hunter2", "--print-policy=toml"];
    let toml = world.run(last).done().code(0).out();
    for line in ["env_set.LATE = \"hunter2\"  # from ../p.toml\n", "env_set.CI = \"hunter2\"  # from --env\n"] {
        assert!(toml.contains(line), "{line}\n{toml}");
    }
}

/// A list of exactly these variables says so, from wherever it comes.
#[test]
fn an_exact_list_names_its_source() {
    let world = World::new();
    world.write("p.toml", "spawn_env_allowlist = ['HOME']\n");
    let record = crate::wire::Record::new(&world).with("spawn_env_allowlist", r#"["HOME"]"#).text();
    let rows = [
        (&["--policy", "../p.toml"][..], "../p.toml", "../p.toml"),
        (&["--policy-payload", &record], "payload", "payload"),
        (&["--no-default-env", "-e", "HOME"], "--no-default-env", "--env"),
    ];
    for (words, decided, passed) in rows {
        let text = world.run([words, &["-q", "--dry-run", "true"]].concat()).done().code(0).out();
        for line in
            [format!("setting: env_default from {decided}\n"), format!("setting: pass variable 'HOME' from {passed}\n")]
        {
            assert!(text.contains(&line), "{line}\n{text}");
        }
        assert_eq!(text.contains(&format!("'TMPDIR' from {passed}\n")), decided != "--no-default-env", "{text}");
    }
}

/// Options narrow a file freely; what they add has their name behind it.
#[test]
fn what_an_option_adds_is_named() {
    let world = World::new();
    let file = format!("read_roots = ['{}']\nallow_network = true\nallow_gaps = ['sockets']\n", world.text("o"));
    world.write("p.toml", file);
    let dry = |words: &[&str]| {
        world.run([&["--policy", "../p.toml"], words, &["--dry-run", "true"]].concat()).done().code(0).out()
    };
    let plain = dry(&[]);
    assert!(plain.contains("network: host\n") && plain.contains("setting: allow_network from ../p.toml\n"), "{plain}");
    assert!(plain.contains(&format!("setting: read '{}' from ../p.toml\n", world.text("o"))), "{plain}");
    let narrowed = dry(&["--net", "off", "--mask", "../o/secret"]);
    assert!(
        narrowed.contains("network: off\n") && narrowed.contains("setting: allow_network from --net\n"),
        "{narrowed}"
    );
    assert!(narrowed.contains("setting: mask '../o/secret' from --mask\n"), "{narrowed}");
    let widened = dry(&["-w", "."]);
    assert!(widened.contains("setting: write '.' from --write\n"), "{widened}");
    world.run(["--policy", "../p.toml", "cat", "../o/secret"]).done().is(0, "s3cret", "");
    world.run(["--policy", "../p.toml", "--mask", "../o/secret", "cat", "../o/secret"]).done().is(0, "", "");
}
