//! What the schema of policy files takes is what the program reads, both ways as far as a schema can tell.

use std::fs::File;

use sandbox_run::config::file;

use super::policy::schema;
use crate::harness::World;
use crate::printing;

/// Whether the schema takes each of these files, says a language that has regular expressions.
fn taken(world: &World, files: &[String]) -> Vec<bool> {
    let script = world.write("o/schema.py", include_str!("../fixtures/schema.py"));
    let schema = world.write("o/policy.schema.json", schema().to_string());
    let words = [script, schema].map(|path| path.to_str().unwrap().to_owned());
    let done = world.call("/usr/bin/python3", words.iter().chain(files)).done().code(0).stderr("");
    let answers: Vec<_> = done.out().lines().map(|line| line == "yes").collect();
    assert_eq!(answers.len(), files.len());
    answers
}

#[test]
fn the_schema_takes_what_is_printed() {
    let world = printing::world();
    let mut files = Vec::new();
    for (index, (line, _)) in printing::LINES.iter().enumerate() {
        for form in ["json", "toml"] {
            let words = line.split_whitespace().map(str::to_owned).chain([format!("--print-policy={form}")]);
            let null = || File::open("/dev/null").unwrap();
            let printed = world.run(words).fd(null(), 3).fd(null(), 4).done().code(0).out();
            files.push(world.write(&format!("o/p{index}.{form}"), printed).to_str().unwrap().to_owned());
        }
    }
    let taken = taken(&world, &files);
    let refused: Vec<_> = files.iter().zip(&taken).filter(|(_, taken)| !**taken).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn the_schema_takes_examples_and_built_in_profiles() {
    let world = World::new();
    let mut files = Vec::new();
    for dir in ["docs/examples", "src/config/profiles"] {
        for entry in std::fs::read_dir(super::file(dir)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "toml") {
                files.push(path.to_str().unwrap().to_owned());
            }
        }
    }
    assert!(files.len() > 10);
    let taken = taken(&world, &files);
    let refused: Vec<_> = files.iter().zip(&taken).filter(|(_, taken)| !**taken).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

/// A member of a JSON document, and whether it is read; the schema has to agree.
const MEMBERS: &[(&str, bool)] = &[
    (r#""$schema": "./policy.schema.json""#, true),
    (r#""$schema": 1"#, false),
    (r#""nosuch": 1"#, false),
    (r#""allow_network": true"#, true),
    (r#""allow_network": "true""#, false),
    (r#""backend_type": "auto,none""#, true),
    (r#""backend_type": "bubblewrap""#, true),
    (r#""backend_type": "native,linux_bwrap,direct""#, true),
    (r#""backend_type": "docker""#, true),
    (r#""backend_type": "podman,bwrap""#, true),
    (r#""backend_type": "dockr""#, false),
    (r#""image": "debian:12@sha256:0a""#, true),
    (r#""image": "-x""#, false),
    (r#""image": """#, false),
    (r#""backend_type": "auto,""#, false),
    (r#""backend_type": "auto auto""#, false),
    (r#""allow_gaps": ["masks"]"#, true),
    (r#""allow_gaps": ["mask"]"#, false),
    (r#""read_roots": ["/", "a b", "base64:/w=="]"#, true),
    (r#""read_roots": [""]"#, false),
    (r#""read_roots": ["a\u0000b"]"#, false),
    (r#""read_roots": "/""#, false),
    (r#""workdir": "~""#, true),
    (r#""workdir": "\u0000""#, false),
    (r#""cwd_allow_hidden": ["default", ".env"]"#, true),
    (r#""cwd_allow_hidden": ["*"]"#, true),
    (r#""cwd_allow_hidden": ["all-but-secrets", ".env"]"#, true),
    (r#""cwd_allow_hidden": ["all-but-secret"]"#, false),
    (r#""cwd_allow_hidden": ["..a", "...", ".a b"]"#, true),
    (r#""cwd_allow_hidden": [".."]"#, false),
    (r#""cwd_allow_hidden": ["."]"#, false),
    (r#""cwd_allow_hidden": [".a/b"]"#, false),
    (r#""cwd_allow_hidden": [".a\u0000"]"#, false),
    (r#""cwd_allow_hidden": ["env"]"#, false),
    (r#""cwd_allow_hidden": ["defaults"]"#, false),
    (r#""cwd_hidden_scan_max_entries": 18446744073709551615"#, true),
    (r#""cwd_hidden_scan_max_entries": 18446744073709551616"#, false),
    (r#""cwd_hidden_scan_max_entries": 0"#, false),
    (r#""cwd_hidden_scan_overflow": "warn""#, true),
    (r#""cwd_hidden_scan_overflow": "Warn""#, false),
    (r#""tmp_size": "64M""#, true),
    (r#""tmp_size": 4096"#, true),
    (r#""tmp_size": 4095"#, false),
    (r#""tmp_size": "64m""#, false),
    (r#""tmp_size": "64""#, false),
    (r#""max_output": 0"#, true),
    (r#""max_output": 9223372036854775807"#, true),
    (r#""max_output": 9223372036854775808"#, false),
    (r#""max_output": "8388607T""#, true),
    (r#""max_output": "99999999T""#, false),
    (r#""max_output": "007KiB""#, true),
    (r#""env": ["A", "MY_*", "B=", "C=a\nb", "base64:QT0="]"#, true),
    (r#""env": ["1A"]"#, false),
    (r#""env": ["A*"]"#, false),
    (r#""env": ["A=\u0000"]"#, false),
    (r#""env": ["SANDBOX_RUN_X=1"]"#, false),
    (r#""env": ["SANDBOX_RUN_X"]"#, false),
    (r#""env": ["SANDBOX_RUN", "SANDBOX_RUNS=1", "SANDBOX_R=*"]"#, true),
    (r#""env": ["SANDBOX_RUN_*"]"#, false),
    (r#""env": ["SANDBOX_*"]"#, false),
    (r#""env": ["A\n"]"#, false),
    (r#""env_set": {"A": "", "b_1": "x\n"}"#, true),
    (r#""env_set": {"A": "\u0000"}"#, false),
    (r#""env_set": {"A": 1}"#, false),
    (r#""env_set": {"A B": ""}"#, false),
    (r#""env_set": {"SANDBOX_RUN_STAGE": ""}"#, false),
    (r#""spawn_env_allowlist": ["PATH"]"#, true),
    (r#""spawn_env_allowlist": []"#, true),
    (r#""spawn_env_allowlist": ["PATH=1"]"#, false),
    (r#""spawn_env_allowlist": ["MY_*"]"#, false),
    (r#""spawn_env_allowlist": ["SANDBOX_RUN_X"]"#, false),
    (r#""keep_fds": [3, 2147483647]"#, true),
    (r#""keep_fds": [2]"#, false),
    (r#""keep_fds": [2147483648]"#, false),
    (r#""new_session": "never""#, true),
    (r#""new_session": true"#, false),
    (r#""timeout": "250ms""#, true),
    (r#""timeout": ".5h""#, true),
    (r#""timeout": "0s""#, true),
    (r#""timeout": "5.s""#, false),
    (r#""timeout": "10""#, false),
    (r#""timeout": "10d""#, false),
    (r#""cpu_time": "1000ms""#, true),
    (r#""cpu_time": "1.5m""#, true),
    (r#""cpu_time": "0.05m""#, true),
    (r#""cpu_time": "0.0025h""#, true),
    (r#""cpu_time": "2.00s""#, true),
    (r#""cpu_time": "300s""#, true),
    (r#""cpu_time": "0s""#, false),
    (r#""cpu_time": "0.000ms""#, false),
    (r#""cpu_time": ".5s""#, false),
    (r#""cpu_time": "100ms""#, false),
    (r#""cpu_time": "0.01m""#, false),
    (r#""cpu_time": "0.0001h""#, false),
    (r#""cpu_time": "0m""#, false),
    (r#""max_procs": 1"#, true),
    (r#""max_procs": 0"#, false),
    (r#""max_procs": 1.5"#, false),
    (r#""max_procs": 18446744073709551616"#, false),
    (r#""max_open_files": 15"#, false),
    (r#""output_overflow": "kill""#, true),
    (r#""output_overflow": "none""#, false),
];

#[test]
fn the_schema_takes_what_is_read_and_nothing_else() {
    let world = World::new();
    let mut files = Vec::new();
    for (index, (member, read)) in MEMBERS.iter().enumerate() {
        let text = format!("{{{member}}}");
        assert_eq!(file::read(text.as_bytes(), "p.json", None).is_ok(), *read, "{member}");
        files.push(world.write(&format!("o/m{index}.json"), text).to_str().unwrap().to_owned());
    }
    // Nobody who reads a document knows which profiles there are; what cannot be the name of one is told by the schema.
    for (index, (member, _)) in NAMES.iter().enumerate() {
        files.push(world.write(&format!("o/n{index}.json"), format!("{{{member}}}")).to_str().unwrap().to_owned());
    }
    let taken = taken(&world, &files);
    let wrong: Vec<_> = MEMBERS.iter().chain(NAMES).zip(taken).filter(|((_, read), taken)| read != taken).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

const NAMES: &[(&str, bool)] = &[
    (r#""extends": ["build", "my-1.x_y"]"#, true),
    (r#""extends": ["../x"]"#, false),
    (r#""extends": [""]"#, false),
    (r#""extends": ["Build"]"#, false),
];
