//! What the container backend does with each key, where that is not what bubblewrap does.

/// By key; a key that is not here is treated as bubblewrap does.
const SENTENCES: &[(&str, &str)] = &[
    (
        "backend_type",
        "tried only where the list has it in so many words: container takes podman or docker, whichever is found first.",
    ),
    ("image", "starts a container of it; an image that is not there is an error, nothing is fetched."),
    (
        "allow_gaps",
        "starts without them where this host cannot give them: 'memory' and 'procs' where the engine sets no such limit.",
    ),
    ("read_roots", "mounts each read-only over what the image has there; '/', /etc and /sys are refused."),
    ("write_roots", "mounts each writable over what the image has there; '/', /etc and /sys are refused."),
    ("allow_unix_socket_paths", "mounts each; the socket of a container engine is refused."),
    ("deny_unix_socket_paths", "covers each with an empty file."),
    ("mask_paths", "covers what exists at the start; a file that the host puts in its place later is seen."),
    ("workdir", "shows it read-only, unless a grant says more, and starts there."),
    ("tmp_size", "bounds each."),
    ("allow_network", "starts the container without a network unless it is true, and with that of the host if it is."),
    ("env_default", "the same; PATH is that of the image, and no other variable of the image passes."),
    ("env", "the same; PATH is that of the image unless a word names it."),
    ("keep_fds", "hands each to the command, and no other."),
    ("new_session", "always a session of its own; never is refused."),
    (
        "memory",
        "has the engine set the limit, and looks whether it did; refused where not, unless allow_gaps has memory.",
    ),
    (
        "max_procs",
        "has the engine set the limit, and looks whether it did; refused where not, unless allow_gaps has procs.",
    ),
];

/// The sentence about `key`, if it has one of its own.
pub(super) fn does(key: &str) -> Option<&'static str> {
    SENTENCES.iter().find(|(name, _)| *name == key).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::super::FIELDS;
    use super::*;

    #[test]
    fn every_sentence_is_about_a_key() {
        for (key, _) in SENTENCES {
            assert!(FIELDS.iter().any(|field| field.key == *key), "{key}");
        }
    }
}
