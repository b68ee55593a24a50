//! The policy files of docs/examples and the tables of docs/policy.md, on the real program: each denial beside the same call
//! where nothing denies it.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;

use sandbox_run::config::fields::FIELDS;

use crate::harness::{Call, World, about_bwrap};
use crate::readme::project;

const ALL: [&str; 4] = ["minimal", "ci-job", "tool-server", "tool-runner"];

/// What the launcher sets, whatever the rules say.
const OURS: [&str; 5] = ["PWD", "TEMP", "TEMPDIR", "TMP", "TMPDIR"];

/// The variables that a tool server calls safe.
const SAFE: [&str; 19] = [
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TERM",
    "COLORTERM",
    "USER",
    "USERNAME",
    "LOGNAME",
    "USERPROFILE",
    "SYSTEMROOT",
    "VIRTUAL_ENV",
    "CONDA_DEFAULT_ENV",
    "CONDA_PREFIX",
    "OCT_MCP_SESSION_ID",
    "OCT_MCP_REQUEST_ID",
    "OCT_DBG_LEVEL",
    "OCT_DBG_FILE",
];

/// The variables of a tool runner.
const SIX: [&str; 6] = ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"];

/// What no tool is to see: secrets by their usual names, some of which hold no word that gives them away, ways out, hooks,
/// and what only a guess calls harmless.
const UNWANTED: [&str; 50] = [
    "ANTHROPIC_API_KEY",
    "OPENROUTER_API_KEY",
    "TELEGRAM_BOT_TOKEN",
    "DISCORD_BOT_TOKEN",
    "GMAIL_APP_PASSWORD",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "GITHUB_TOKEN",
    "GITLAB_TOKEN",
    "CI_JOB_TOKEN",
    "KUBECONFIG",
    "DATABASE_URL",
    "REDIS_URL",
    "SENTRY_DSN",
    "OPENAI_KEY",
    "STRIPE_SK",
    "SIGNING_KEY",
    "ENCRYPTION_KEY",
    "PGPASSFILE",
    "PGPASSWORD",
    "SLACK_WEBHOOK_URL",
    "GOOGLE_CREDENTIAL",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSH_AUTH_SOCK",
    "DOCKER_HOST",
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "GIT_SSH_COMMAND",
    "GIT_ASKPASS",
    "LESSOPEN",
    "NODE_OPTIONS",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PERL5OPT",
    "RUBYOPT",
    "PROMPT_COMMAND",
    "PS1",
    "ENV",
    "BASH_ENV",
    "LD_LIBRARY_PATH",
    "DYLD_INSERT_LIBRARIES",
    "OCT_MCP_CWD",
];

fn example(name: &str) -> String {
    project(&format!("docs/examples/{name}.toml")).to_str().expect("a path of text").to_owned()
}

/// The program under an example, with more words.
fn under(world: &World, name: &str, words: &[&str]) -> Call {
    let file = example(name);
    world.run(["--policy", &file].iter().chain(words))
}

/// The caller has every one of these variables, each with its own name as a value.
fn with_all(mut call: Call) -> Call {
    for name in SAFE.iter().chain(&UNWANTED).chain(&["TZ"]) {
        if !["PATH", "HOME"].contains(name) {
            call = call.env(name, name);
        }
    }
    call
}

/// The names of what `env` printed.
fn names(text: &str) -> BTreeSet<&str> {
    text.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect()
}

#[test]
fn the_minimal_file_has_five_lines_and_stands_in_the_document() {
    let text = fs::read_to_string(example("minimal")).unwrap();
    assert_eq!(text.lines().count(), 5, "{text}");
    let document = fs::read_to_string(project("docs/policy.md")).unwrap();
    assert!(document.contains(&format!("```toml\n{text}```\n")), "{document}");
}

#[test]
fn the_minimal_file() {
    let world = World::new();
    world.write("w/.env", "TOKEN=1");
    world.write("home/.cache/project/item", "cached\n");
    let script = "cat ~/.cache/project/item; cat .env; echo x > made; echo x > ~/.cache/project/item";
    let done = world.call("sh", ["-c", "cat .env"]).done();
    done.is(0, "TOKEN=1", "");
    let done = under(&world, "minimal", &["--", "sh", "-c", script]).done().code(2).stdout("cached\n");
    done.stderr_has("Read-only file system");
    assert_eq!(world.read("w/made"), "x\n");
    assert_eq!(world.read("home/.cache/project/item"), "cached\n");
}

#[test]
fn a_ci_job_reads_its_sources_and_writes_its_results() {
    let world = World::new();
    world.write("w/source", "source\n");
    world.write("w/.env", "TOKEN=1");
    world.write("w/.gitignore", "build\n");
    let script = "cat source .gitignore; ls -A; [ -e .env ] && cat .env; echo x > build/result; echo x > source";
    let done = under(&world, "ci-job", &["--", "sh", "-c", script]).done().code(2);
    done.stdout_has("source\nbuild\n").stdout_lacks("TOKEN").stderr_has("Read-only file system");
    assert_eq!(world.read("w/build/result"), "x\n");
    assert_eq!(world.read("w/source"), "source\n");
    // Shown, it would be there.
    under(&world, "ci-job", &["-r", ".env", "--", "cat", ".env"]).done().is(0, "TOKEN=1", "");
}

#[test]
fn a_ci_job_has_its_variables_and_no_token() {
    let world = World::new();
    let call = with_all(under(&world, "ci-job", &["--", "env"])).env("CI", "true").env("CI_JOB_ID", "7");
    let done = call.env("GITHUB_SHA", "abc").env("GITHUB_PAT", "secret").done().code(0);
    let text = done.out();
    for line in ["CI=true", "CI_JOB_ID=7", "GITHUB_SHA=abc", "SOURCE_DATE_EPOCH=0", "TMPDIR=/tmp"] {
        assert!(text.lines().any(|found| found == line), "{line}:\n{text}");
    }
    for name in UNWANTED.iter().chain(&["GITHUB_PAT"]) {
        assert!(!names(&text).contains(name), "{name}:\n{text}");
    }
    // It was the wildcard that held it back.
    under(&world, "ci-job", &["-e", "CI_JOB_TOKEN", "--", "sh", "-c", "echo $CI_JOB_TOKEN"])
        .env("CI_JOB_TOKEN", "by name")
        .done()
        .is(0, "by name\n", "");
}

#[test]
fn tools_get_exactly_their_variables() {
    let world = World::new();
    for (example, listed) in [("tool-server", &SAFE[..]), ("tool-runner", &SIX)] {
        let control = with_all(world.call("env", [""; 0])).env_remove("LD_LIBRARY_PATH").done().code(0).out();
        for name in SAFE.iter().chain(&UNWANTED).filter(|name| **name != "LD_LIBRARY_PATH") {
            assert!(names(&control).contains(name), "{name}");
        }
        let done = with_all(under(&world, example, &["--", "env"])).done().code(0).stderr("");
        let text = done.out();
        let expected: BTreeSet<&str> = listed.iter().chain(&OURS).copied().collect();
        assert_eq!(names(&text), expected, "{example}:\n{text}");
        for line in ["LC_ALL=LC_ALL", "TMPDIR=/tmp", &format!("HOME={}", world.text("home"))] {
            assert!(text.lines().any(|found| found == line), "{line}:\n{text}");
        }
    }
}

#[test]
fn a_caller_with_nothing_is_enough() {
    let world = World::new();
    let pwd = format!("PWD={}", world.text("w"));
    for example in ["tool-server", "tool-runner"] {
        let done = under(&world, example, &["--", "/usr/bin/env"]).env_clear().done().code(0).stderr("");
        let text = done.out();
        let ours: BTreeSet<&str> = OURS.into_iter().chain(["PATH", "HOME"]).collect();
        assert!(names(&text).is_subset(&ours), "{text}");
        for line in ["PATH=/usr/local/bin:/usr/bin:/bin", &pwd] {
            assert!(text.lines().any(|found| found == line), "{line}:\n{text}");
        }
    }
}

/// Without a sandbox: the grant of the profile asks for files as well, and each gap is needed, as the document says.
#[test]
fn a_tool_server_without_a_sandbox_names_what_it_gives_up() {
    let world = World::new();
    let example = std::fs::read_to_string(crate::readme::project("docs/examples/tool-server.toml")).expect("example");
    let run = |gaps: &[&str]| {
        let text =
            example.replace("backend_type = \"auto\"", &format!("backend_type = \"native\"\nallow_gaps = {gaps:?}"));
        assert!(text.contains("native"));
        world.write("o/p.toml", text);
        world.run(["-q", "--policy", "../o/p.toml", "echo", "ran"]).done()
    };
    let all = ["files-read", "files-write", "network"];
    run(&all).is(0, "ran\n", "");
    for (index, missing) in all.iter().enumerate() {
        let mut named = all.to_vec();
        named.remove(index);
        run(&named).refused(125, &[missing]);
    }
}

#[test]
fn a_tool_starts_in_its_project_and_is_told_so() {
    let world = World::new();
    let root = world.text("w");
    let told = format!("OCT_MCP_CWD={root}");
    let script = "pwd; echo \"$PWD $OCT_MCP_CWD\"; echo x > made";
    // The caller stands elsewhere, and has a stale value.
    let words = ["-C", &root, "-e", &told, "--", "sh", "-c", script];
    let done = under(&world, "tool-server", &words).cwd(world.path("o")).env("OCT_MCP_CWD", "stale").done();
    done.is(0, &format!("{root}\n{root} {root}\n"), "");
    assert_eq!(world.read("w/made"), "x\n");
    assert!(!world.has("o/made"));
}

#[test]
fn tools_write_in_their_project_and_nowhere_else() {
    let world = World::new();
    let (secret, outside) = (world.text("o/secret"), world.text("o"));
    world.write("home/.ssh/id_ed25519", "key");
    world.write("w/.git/config", "[core]\n");
    world.dir("w/.git/hooks");
    let script = format!(
        "echo x > made; echo x > .git/note; ls -A ~ | wc -l; \
         for f in {secret} ~/.ssh/id_ed25519 /etc/shadow; do cat $f && echo read; done; \
         for f in .git/hooks/pre-commit .git/config {outside}/new /usr/new /etc/new; do ( echo x > $f ) && [ -s $f ] && echo $f; done; true"
    );
    for example in ["tool-server", "tool-runner"] {
        let done = under(&world, example, &["--", "sh", "-c", &script]).done().code(0);
        done.stdout("0\n");
        assert_eq!((world.read("w/made"), world.read("w/.git/note")), ("x\n".into(), "x\n".into()));
        assert!(!world.has("o/new") && !world.has("w/.git/hooks/pre-commit"));
        assert_eq!(world.read("w/.git/config"), "[core]\n");
        // With a grant, it is there.
        let done = under(&world, example, &["-w", &outside, "--", "sh", "-c", &script]).done().code(0);
        done.stdout(&format!("0\ns3cretread\n{outside}/new\n"));
        for name in ["w/made", "w/.git/note", "o/new"] {
            fs::remove_file(world.path(name)).unwrap();
        }
    }
}

#[test]
fn no_example_reaches_the_network() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}", listener.local_addr().unwrap().port());
    world.call("bash", ["-c", &script]).done().is(0, "", "");
    for example in ALL {
        let done = under(&world, example, &["--", "bash", "-c", &script]).done().code(1);
        done.stderr_has("Connection refused");
        under(&world, example, &["--net", "host", "--", "bash", "-c", &script]).done().is(0, "", "");
    }
}

#[test]
fn no_example_loads_what_the_caller_preloads() {
    let world = World::new();
    let hook = world.write("w/hook", "echo hooked\n");
    world.call("bash", ["-c", "true"]).env("BASH_ENV", &hook).done().is(0, "hooked\n", "");
    world.call("bash", ["-c", "true"]).env("LD_PRELOAD", "/missing.so").done().code(0).stderr_has("/missing.so");
    for example in ALL {
        let call =
            under(&world, example, &["--", "bash", "-c", "echo \"$LD_PRELOAD$BASH_ENV\""]).env("BASH_ENV", &hook);
        call.done().is(0, "\n", "");
        // The loader complains once, about sandbox-run itself.
        let call = under(&world, example, &["--", "bash", "-c", "true; /bin/true"]).env("LD_PRELOAD", "/missing.so");
        let done = call.done().code(0);
        assert!(done.stderr.matches("/missing.so").count() <= 1, "{}", done.stderr);
    }
}

#[test]
fn no_example_runs_without_a_sandbox() {
    if about_bwrap("a program in place of bubblewrap") {
        return;
    }
    let world = World::new();
    for example in ALL {
        let done = under(&world, example, &["-b", "none", "--", "touch", "ran"]).done();
        done.refused(125, &["backend 'none'"]);
        let done =
            under(&world, example, &["-b", "bwrap", "--", "/usr/bin/touch", "ran"]).env("PATH", "/nowhere").done();
        done.refused(125, &[]);
        assert!(!world.has("w/ran"), "{example}");
    }
}

#[test]
fn settings_of_other_formats_are_refused_where_they_lie() {
    let world = World::new();
    for setting in [
        "sandbox_backend = \"auto\"",
        "memory_limit_mb = 256",
        "max_output_bytes = 1000",
        "max_memory_mb = 256",
        "max_cpu_seconds = 30",
        "max_processes = 64",
        "max_file_size_mb = 50",
        "env_allowlist = [\"PATH\"]",
        "shell_allowed_binaries = []",
        "shell_allow_strings = false",
        "write_denied_extensions = [\".sh\"]",
        "backend = \"direct\"",
        "rate_limit_calls = 60",
        "rate_limit_window = 60.0",
    ] {
        let key = setting.split(' ').next().unwrap();
        world.write("w/p.toml", format!("write_roots = [\".\"]\n{setting}\n"));
        let done = world.run(["--policy", "p.toml", "--", "touch", "ran"]).done();
        done.refused(125, &["p.toml:2:1", &format!("'{key}' is unknown")]);
    }
    // One with the same name wants its unit.
    world.write("w/p.toml", "write_roots = [\".\"]\ntimeout = 15.0\n");
    world.run(["--policy", "p.toml", "--", "touch", "ran"]).done().refused(125, &["p.toml:2:11", "'timeout'", "unit"]);
    world.write("w/p.toml", "backend_type = \"bogus\"\n");
    world.run(["--policy", "p.toml", "--", "touch", "ran"]).done().refused(125, &["p.toml:1", "bogus"]);
    world.write("w/p.toml", "backend_type = \"sandbox_exec\"\n");
    world.run(["--policy", "p.toml", "--", "touch", "ran"]).done().refused(125, &["'seatbelt'", "macOS only"]);
    assert!(!world.has("w/ran"));
    // One that is known.
    world.write("w/p.toml", "write_roots = [\".\"]\nbackend_type = \"bubblewrap\"\n");
    world.run(["--policy", "p.toml", "--", "touch", "ran"]).done().is(0, "", "");
    assert!(world.has("w/ran"));
}

/// The limits of each example, as the program takes them.
#[test]
fn the_limits_of_the_examples() {
    let world = World::new();
    for (example, lines) in [
        ("minimal", &[][..]),
        ("ci-job", &["timeout 3600s", "core 0 bytes"]),
        ("tool-server", &["timeout 120s", "output 10 MiB, then truncate"]),
        ("tool-runner", &["timeout 15s", "cpu time 30s", "file size 50 MiB", "output 10 MiB, then truncate"]),
    ] {
        let text = under(&world, example, &["--dry-run", "true"]).done().code(0).out();
        let found: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("limit: ")).collect();
        assert_eq!(found, lines, "{example}");
        // None of them asks for what a host may be unable to give.
        assert!(!text.contains("\ngap: "), "{text}");
    }
}

/// With the two lines that only some hosts can hold: the command runs under them, or nothing is started and both are named.
#[test]
fn a_limit_that_the_host_cannot_hold_is_no_limit_in_silence() {
    let world = World::new();
    let text = fs::read_to_string(example("tool-runner")).unwrap();
    let text = text.replace("# memory = ", "memory = ").replace("# max_procs = ", "max_procs = ");
    assert!(text.contains("\nmemory = ") && text.contains("\nmax_procs = "));
    world.write("o/all.toml", &text);
    world.write("o/gaps.toml", format!("allow_gaps = [\"memory\", \"procs\"]\n{text}"));
    let done = world.run(["--policy", "../o/all.toml", "--", "echo", "ran"]).done();
    if done.code == Some(0) {
        done.is(0, "ran\n", "");
    } else {
        done.refused(125, &["cannot enforce", "memory"]);
        let done = world.run(["--policy", "../o/gaps.toml", "--", "echo", "ran"]).done().code(0);
        done.stdout("ran\n").stderr_has("not enforced, as accepted: memory");
    }
}

/// The rows of the table between two marks of docs/policy.md, as cells.
fn table(mark: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(project("docs/policy.md")).unwrap();
    let from = text.split_once(&format!("<!-- {mark} -->\n")).expect("begins").1;
    let rows = from.split_once(&format!("<!-- /{mark} -->")).expect("ends").0.lines();
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn the_table_of_layers_has_every_key_once() {
    let rows = table("merge-table");
    let mut written: Vec<_> = rows[2..].iter().flat_map(|row| quoted(&row[0])).collect();
    let mut keys: Vec<_> = FIELDS.iter().map(|field| field.key).collect();
    written.sort_unstable();
    keys.sort_unstable();
    assert_eq!(written, keys);
}

#[test]
fn the_table_of_precedence_is_what_happens() {
    let world = World::new();
    world.write("o/a/b/f", "text");
    let (outer, inner) = (world.text("o/a"), world.text("o/a/b"));
    let script = format!("cat {inner}/f; echo x > {inner}/new");
    let rows = table("precedence");
    let mut cells = 0;
    for row in &rows[2..] {
        for (heading, expected) in rows[0].iter().zip(row).skip(1) {
            let mut lists: Vec<(&str, Vec<&str>)> = Vec::new();
            let places = quoted(&row[0])
                .map(|key| (key, outer.as_str()))
                .chain(quoted(heading).map(|key| (key, inner.as_str())));
            for (key, path) in places {
                match lists.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, paths)) => paths.push(path),
                    None => lists.push((key, vec![path])),
                }
            }
            // The order of keys and paths is of no account.
            for reversed in [false, true] {
                let mut lines: Vec<_> = lists.iter().map(|(key, paths)| format!("{key} = {paths:?}\n")).collect();
                if reversed {
                    lines.reverse();
                }
                world.write("w/p.toml", lines.concat());
                let done =
                    world.sh(["--policy", "p.toml"], &format!("{{ {script}; }} 2>/dev/null; true")).done().code(0);
                let found = match (done.out().as_str(), world.has("o/a/b/new")) {
                    ("text", true) => "writable",
                    ("text", false) => "read-only",
                    ("", false) => "hidden",
                    other => panic!("{other:?}"),
                };
                assert_eq!(found, expected, "{} {heading}:\n{}", row[0], lines.concat());
                if found == "writable" {
                    fs::remove_file(world.path("o/a/b/new")).unwrap();
                }
                cells += 1;
            }
        }
    }
    assert_eq!(cells, 2 * 7 * 5);
}
