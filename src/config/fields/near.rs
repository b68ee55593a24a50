//! Which key an unknown word was probably meant to be: by likeness, by another spelling, by another program's name for it.

use super::FIELDS;

/// The key that was probably meant by an unknown word; also finds it in camel case, with dashes or by another name.
#[must_use]
pub fn nearest(word: &str) -> Option<&'static str> {
    const ENOUGH: f64 = 0.7;
    // Comparing takes the product of both lengths.
    const LONGEST: usize = 40;
    if word.len() > LONGEST {
        return None;
    }
    let word = snake_case(word);
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(name, &word);
    // What differs by more than this in length alone cannot be near; it saves most of the comparing.
    let near_in_length = |name: &str| name.len().abs_diff(word.len()) * 3 <= name.len().max(word.len());
    let names = FIELDS.iter().flat_map(|field| {
        // Between two names as near, the key itself comes last, and the last of the greatest is taken.
        field
            .guesses
            .iter()
            .chain([&field.key])
            .filter(|name| near_in_length(name))
            .map(move |name| (likeness(name), field.key))
    });
    let best = names.filter(|(likeness, _)| *likeness >= ENOUGH).max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.map(|(_, key)| key)
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
