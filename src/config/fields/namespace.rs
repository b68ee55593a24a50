//! What the backend of our own namespaces does with each key, where that is not what bubblewrap does.

/// By key; a key that is not here is treated as bubblewrap does.
const SENTENCES: &[(&str, &str)] = &[("backend_type", "tried where the list has it."), ("tmp_size", "bounds each.")];

/// The sentence about `key`, if it has one of its own.
pub(super) fn does(key: &str) -> Option<&'static str> {
    SENTENCES.iter().find(|(name, _)| *name == key).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::super::FIELDS;
    use super::SENTENCES;

    #[test]
    fn each_sentence_is_about_a_key() {
        for (key, _) in SENTENCES {
            assert!(FIELDS.iter().any(|field| field.key == *key), "{key}");
        }
    }
}
