//! Which key an unknown word was probably meant to be: by likeness, by another spelling, by another program's name for it.
//!
//! A suggestion is followed: none leads to the opposite of what was written, or to less than it.

use super::{FIELDS, Kind};

/// Keys that only take something away.
const TAKES: [&str; 3] = ["mask_paths", "protect_paths", "deny_unix_socket_paths"];

/// Keys of wire records that no document has, each with the reason.
const RECORD_ONLY: [(&str, &str); 6] = [
    ("active", "it stands in payloads; backend_type says whether there is a sandbox"),
    ("copy_on_write_namespace", "copy-on-write is not available"),
    ("copy_on_write_roots", "copy-on-write is not available"),
    ("egress_relay_port", "filtered egress is not available"),
    ("egress_socket_path", "filtered egress is not available"),
    ("env_passthrough", "it has no effect in payloads; the variables that pass are in 'spawn_env_allowlist'"),
];

/// What to say of an unknown word: the key that was probably meant, or why there is none.
#[must_use]
pub fn remark(word: &str) -> Option<String> {
    let reason = RECORD_ONLY.iter().find(|(key, _)| *key == word).map(|(_, reason)| (*reason).to_owned());
    let near = || nearest(word).map(|key| format!("did you mean '{key}'?"));
    reason.or_else(near).or_else(|| without(word).map(|key| format!("did you mean '{key} = false'?")))
}

/// The key of which the word says that it is not so.
fn without(word: &str) -> Option<&'static str> {
    let word = snake_case(word);
    let (first, rest) = word.split_once('_')?;
    let key = nearest(rest).filter(|_| denies(first) && !denies(rest))?;
    FIELDS.iter().any(|field| field.key == key && field.kind == Kind::Boolean).then_some(key)
}

/// The key that was probably meant by an unknown word; also finds it in camel case, with dashes or by another name.
#[must_use]
pub fn nearest(word: &str) -> Option<&'static str> {
    const ENOUGH: f64 = 0.7;
    // Comparing takes the product of both lengths.
    const LONGEST: usize = 40;
    if word.len() > LONGEST || RECORD_ONLY.iter().any(|(key, _)| *key == word) {
        return None;
    }
    let word = snake_case(word);
    let (denies, permits) = (denies(&word), permits(&word));
    let agrees = |name: &str, key| name == word || if TAKES.contains(&key) { !permits } else { !denies };
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(name, &word);
    // What differs by more than this in length alone cannot be near; it saves most of the comparing.
    let near_in_length = |name: &str| name.len().abs_diff(word.len()) * 3 <= name.len().max(word.len());
    let names = FIELDS.iter().flat_map(|field| {
        // Between two names as near, the key itself comes last, and the last of the greatest is taken.
        field
            .guesses
            .iter()
            .chain([&field.key])
            .filter(|name| near_in_length(name) && agrees(name, field.key))
            .map(move |name| (likeness(name), field.key))
    });
    let best = names.filter(|(likeness, _)| *likeness >= ENOUGH).max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.map(|(_, key)| key)
}

/// Whether a part of the word takes something away. Too many count rather than too few: a suggestion is the most that is lost.
fn denies(word: &str) -> bool {
    const BEGINNINGS: [&str; 22] = [
        "no", "un", "deny", "denie", "block", "black", "ban", "disa", "forbid", "prohibit", "prevent", "restrict",
        "refuse", "reject", "without", "exclude", "remove", "drop", "clear", "mask", "hid", "protect",
    ];
    // `nofile` and `nproc` are limits, sockets are of Unix.
    let other = |part: &str| part.starts_with("unix") || part.starts_with("unlimit") || part == "nofile";
    // What is hidden by itself, of which a list says what is not.
    let hidden = permits(word) || word.contains("scan");
    word.split('_').any(|part| {
        let begins = BEGINNINGS.iter().any(|start| part.starts_with(start));
        begins && !other(part) && !(hidden && part.starts_with("hid"))
    })
}

/// Whether a part of the word gives something.
fn permits(word: &str) -> bool {
    const WORDS: [&str; 10] =
        ["allow", "allowed", "permit", "permitted", "enable", "show", "shown", "expose", "exposed", "grant"];
    word.split('_').any(|part| WORDS.contains(&part))
}

/// Whether a word in small letters is the key but for a letter or two.
#[must_use]
pub fn is_slip_of(word: &str, key: &str) -> bool {
    let small = word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    small && word.len() <= key.len() + 2 && strsim::osa_distance(word, key) <= (key.len() / 4).min(2)
}

/// `readRoots`, `read-roots` and `READ_ROOTS` as `read_roots`.
fn snake_case(word: &str) -> String {
    let mut snake = String::new();
    let mut after_lower = false;
    for char in word.chars() {
        if char.is_uppercase() && after_lower {
            snake.push('_');
        }
        after_lower = char.is_lowercase() || char.is_ascii_digit();
        if char == '-' || char == ' ' { snake.push('_') } else { snake.extend(char.to_lowercase()) }
    }
    snake
}
