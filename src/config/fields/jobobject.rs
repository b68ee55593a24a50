//! What the backend of Windows does with each key, where that is not what the backend without isolation does.

/// By key.
const SENTENCES: &[(&str, &str)] = &[
    ("backend_type", "tried where the list has it, on Windows; windows_jobobject means the same."),
    ("allow_gaps", "starts without these: files, masks, network, sockets and privileges are never enforced."),
    ("write_roots_create", "refused, unless allow_gaps has files-read and files-write; then makes what is missing."),
    ("allow_network", "false is refused, unless allow_gaps has network."),
    ("env_default", "the same, with the names that Windows needs; names are compared without regard to case."),
    ("env", "the same; names are compared without regard to case."),
    ("env_set", "the same; names are compared without regard to case."),
    ("keep_fds", "refused: only the three standard streams cross."),
    ("keep_jobserver", "refused: only the three standard streams cross."),
    ("new_session", "always is refused; the command keeps the console."),
    ("timeout", "ends every process in the job."),
    ("kill_after", "ends every process in the job after it; the first signal is Ctrl-Break."),
    ("memory", "limits what all processes of the job have committed: more is not given, and nothing is ended."),
    ("cpu_time", "limits the user time of all processes of the job together."),
    ("max_procs", "limits the processes of the job; threads are not counted."),
    ("max_file_size", "refused, unless allow_gaps has file-size; then without effect."),
    ("max_open_files", "refused, unless allow_gaps has open-files; then without effect."),
    ("address_space", "limits what each process has committed."),
    ("core", "refused: there are no core files."),
];

/// The sentence about `key`, if it has one of its own.
pub(super) fn does(key: &str) -> Option<&'static str> {
    SENTENCES.iter().find(|(name, _)| *name == key).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::super::FIELDS;
    use super::SENTENCES;

    #[test]
    fn every_sentence_is_about_a_key() {
        for (key, _) in SENTENCES {
            assert!(FIELDS.iter().any(|field| field.key == *key), "{key}");
        }
    }
}
