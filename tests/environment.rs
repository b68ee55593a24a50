//! Of the caller's variables only those pass that are on the list or named; what is set is true inside.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use crate::harness::{Call, Done, PATHS, World, backends, has_landlock, program};

/// What `env -0` printed, by name; no name may be there twice.
fn variables(done: Done) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let done = done.code(0).stderr("");
    let mut found = BTreeMap::new();
    for entry in done.stdout.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
        let equals = entry.iter().position(|byte| *byte == b'=').expect("NAME=VALUE");
        let twice = found.insert(entry[..equals].to_vec(), entry[equals + 1..].to_vec());
        assert!(twice.is_none(), "twice: {}", String::from_utf8_lossy(entry));
    }
    found
}

/// `sandbox-run OPTION... -- env -0`.
fn env(world: &World, options: &[&str]) -> Call {
    world.run([options, &["--", "env", "-0"]].concat())
}

/// The value of one variable inside, if it is there.
fn value(call: Call, name: &str) -> Option<OsString> {
    variables(call.done()).remove(name.as_bytes()).map(OsString::from_vec)
}

fn map(expected: &[(&str, &str)]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    expected.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

/// What passes as it is.
const PASSED: &[(&str, &str)] = &[
    ("USER", "me"),
    ("LOGNAME", "me"),
    ("SHELL", "/bin/sh"),
    ("TERM", "xterm"),
    ("COLORTERM", "truecolor"),
    ("NO_COLOR", "1"),
    ("CLICOLOR", "1"),
    ("CLICOLOR_FORCE", "1"),
    ("FORCE_COLOR", "1"),
    ("LANG", "C.UTF-8"),
    ("LANGUAGE", "de:en"),
    ("LC_ALL", "C"),
    ("LC_TIME", "C"),
    ("TZ", "UTC"),
];

#[test]
fn exactly_the_documented_variables_pass() {
    let world = World::new();
    let (w, home) = (world.text("w"), world.text("home"));
    let login = |mut call: Call| {
        for (name, value) in [
            ("SECRET", "x"),
            ("FOO", "y"),
            ("AWS_SECRET_ACCESS_KEY", "z"),
            ("PWD", "/nowhere"),
            ("OLDPWD", "/"),
            ("SHLVL", "3"),
            ("_", "/usr/bin/env"),
            ("MAIL", "/var/mail/me"),
            ("EDITOR", "vi"),
            ("PAGER", "less"),
            ("LS_COLORS", "rs=0"),
            ("DISPLAY", ":0"),
            ("SSH_CONNECTION", "::1 1 ::1 22"),
            ("XDG_RUNTIME_DIR", "/run/user/0"),
            ("XDG_SESSION_ID", "1"),
            ("COLUMNS", "80"),
            ("LINES", "25"),
            ("TMP", "/nowhere"),
            ("TEMP", "/nowhere"),
            ("container", "docker"),
            ("LC", "x"),
            ("lc_all", "x"),
        ] {
            call = call.env(name, value);
        }
        for (name, value) in PASSED {
            call = call.env(name, value);
        }
        call
    };
    let mut expected = map(PASSED);
    expected.extend(map(&[("PATH", PATHS), ("HOME", &home), ("PWD", &w)]));
    // Without a sandbox there is no private directory for temporary files.
    let bare = expected.clone();
    expected.extend(map(&[("TMPDIR", "/tmp"), ("TMP", "/tmp"), ("TEMP", "/tmp"), ("TEMPDIR", "/tmp")]));
    assert_eq!(variables(login(env(&world, &["-b", "bwrap"])).done()), expected);
    assert_eq!(variables(login(env(&world, &["-q", "-b", "none"])).done()), bare);
    if has_landlock() {
        // Where they lead is another place in each run.
        let private = ["HOME", "TMPDIR", "TMP", "TEMP", "TEMPDIR"];
        let mut found = variables(login(env(&world, &["-b", "landlock"])).done());
        for name in private.map(str::as_bytes) {
            assert!(found.get(name).is_some_and(|value| *value != expected[name]), "{found:?}");
            found.insert(name.into(), expected[name].clone());
        }
        assert_eq!(found, expected);
    }

    expected.extend(map(&[("FOO", "y")]));
    assert_eq!(variables(login(env(&world, &["-e", "FOO"])).done()), expected);
}

#[test]
fn nothing_passes_when_the_default_is_nothing() {
    let world = World::new();
    let w = world.text("w");
    for backend in backends() {
        let run = |options: &[&str]| variables(env(&world, &[&backend[..], options].concat()).env("A", "a").done());
        assert_eq!(run(&["--no-default-env"]), map(&[("PWD", &w)]));
        let named = run(&["--no-default-env", "-e", "A", "-e", "PATH", "-e", "B=b"]);
        assert_eq!(named, map(&[("A", "a"), ("B", "b"), ("PATH", PATHS), ("PWD", &w)]));
    }
}

#[test]
fn a_value_arrives_byte_for_byte() {
    let world = World::new();
    let long = "v".repeat(131_000);
    let bytes = OsString::from_vec(b"X=\xff\xfe".to_vec());
    for backend in backends() {
        let set = |word: &str| {
            let name = word.split('=').next().expect("name");
            value(env(&world, &[&backend[..], &["-e", word]].concat()), name)
        };
        assert_eq!(set("A=b=c"), Some("b=c".into()));
        assert_eq!(set("E="), Some("".into()));
        assert_eq!(set("NL=a\nb"), Some("a\nb".into()));
        assert_eq!(set("Q='\"$HOME\" \\"), Some("'\"$HOME\" \\".into()));
        assert_eq!(set(&format!("LONG={long}")), Some(long.clone().into()));
        let mut words: Vec<OsString> = [&backend[..], &["-e"]].concat().into_iter().map(OsString::from).collect();
        words.extend([bytes.clone(), "--".into(), "env".into(), "-0".into()]);
        assert_eq!(value(world.run(words), "X").expect("set").as_bytes(), b"\xff\xfe");

        let pass = |word: &str| env(&world, &[&backend[..], &["-e", word]].concat());
        assert_eq!(value(pass("A").env("A", "a=b\nc"), "A"), Some("a=b\nc".into()));
        assert_eq!(
            value(pass("A").env("A", OsString::from_vec(b"\xff".to_vec())), "A").expect("set").as_bytes(),
            b"\xff"
        );
        assert_eq!(value(pass("A").env("A", ""), "A"), Some("".into()));
        assert_eq!(value(pass("A").env("A", &long), "A"), Some(long.clone().into()));
        assert_eq!(value(pass("A"), "A"), None);
    }
}

#[test]
fn a_name_that_is_not_set_is_a_note() {
    let world = World::new();
    world.run(["-e", "NO_SUCH", "-e", "NO_SUCH_*", "--", "true"]).done().is(0, "", "");
    let done = world.run(["-v", "-e", "NO_SUCH", "-e", "NO_SUCH_*", "--", "true"]).done().code(0).stdout("");
    for note in ["asked for and not set by the caller: NO_SUCH", "wildcards that match nothing: NO_SUCH_*"] {
        assert!(done.stderr.contains(&format!("sandbox-run: note: {note}\n")), "{}", done.stderr);
    }
}

#[test]
fn the_last_word_about_a_name_counts() {
    let world = World::new();
    let one = |options: &[&str]| value(env(&world, options).env("A_B", "outer"), "A_B");
    assert_eq!(one(&["-e", "A_B=1", "-e", "A_B=2"]), Some("2".into()));
    assert_eq!(one(&["-e", "A_B=1", "-e", "A_B"]), Some("outer".into()));
    assert_eq!(one(&["-e", "A_B", "-e", "A_B=1"]), Some("1".into()));
    assert_eq!(one(&["-e", "A_B=1", "-e", "A_*"]), Some("outer".into()));
    assert_eq!(one(&["-e", "A_*", "-e", "A_B=1"]), Some("1".into()));
}

#[test]
fn a_file_of_variables_is_read_in_its_place() {
    let world = World::new();
    world.write("w/file", b"# comment\n\nA=\"q\" $HOME # kept\nB\nC_*\r\nD=\xff\n");
    for backend in backends() {
        let run = |options: &[&str]| {
            let call = env(&world, &[&backend[..], options].concat());
            variables(call.env("B", "b").env("C_1", "c").env("C_KEY", "k").env("A", "a").done())
        };
        let found = run(&["--env-file", "file"]);
        for (name, value) in [("A", &b"\"q\" $HOME # kept"[..]), ("B", b"b"), ("C_1", b"c"), ("D", b"\xff")] {
            assert_eq!(found.get(name.as_bytes()).map(Vec::as_slice), Some(value), "{name}");
        }
        assert!(!found.contains_key(&b"C_KEY"[..]));
        assert_eq!(run(&["-e", "A=1", "--env-file", "file"])[&b"A"[..]], b"\"q\" $HOME # kept");
        assert_eq!(run(&["--env-file", "file", "-e", "A=1"])[&b"A"[..]], b"1");
    }
    world.write("w/bad", "A=1\nnot-a-name=hunter2\n");
    let refused = world.run(["--env-file", "bad", "true"]).done().refused(125, &["bad:2: "]);
    refused.stderr_lacks("hunter2");
    world.run(["--env-file", "missing", "true"]).done().refused(125, &["'missing'", "no such file or directory"]);
    world.run(["--env-file", ".", "true"]).done().refused(125, &["'.'", "is a directory"]);
}

/// The word as errors quote it.
fn quoted(word: &str) -> String {
    word.split_once('=').map_or_else(|| word.to_owned(), |(name, _)| format!("{name}=…"))
}

#[test]
fn a_word_that_is_no_variable_is_refused() {
    let world = World::new();
    let before = world.snapshot();
    for word in ["1A", "A B", "A-B=x", "", "=x", "A*", "*_X", "A*B", "*", "A_**", "A_*=x", "Ä=x"] {
        world.run(["-w", ".", "-e", word, "touch", "x"]).done().refused(125, &[&format!("'{}'", quoted(word))]);
    }
    assert_eq!(world.snapshot(), before);
    let found = variables(env(&world, &["-e", "A_B=x", "-e", "C_*"]).env("C_D", "y").done());
    assert_eq!((&found[&b"A_B"[..]][..], &found[&b"C_D"[..]][..]), (&b"x"[..], &b"y"[..]), "control");
}

#[test]
fn an_internal_name_is_refused_in_every_form() {
    let world = World::new();
    for word in ["SANDBOX_RUN_STAGE", "SANDBOX_RUN_STAGE=1", "SANDBOX_RUN_*", "SANDBOX_*", "SANDBOX_RUN_LOG=debug"] {
        world.run(["-e", word, "true"]).done().refused(125, &[&quoted(word), "internal"]);
        let file = world.write("w/file", word);
        world.run(["--env-file", file.to_str().expect("text"), "true"]).done().refused(125, &["file:1", "internal"]);
    }
    for backend in backends() {
        let call = env(&world, &backend).env("SANDBOX_RUN_STAGE", "3 abc").env("SANDBOX_RUN_OTHER", "x");
        let found = variables(call.done());
        assert!(found.keys().all(|name| !name.to_ascii_lowercase().starts_with(b"sandbox")), "{found:?}");
    }
}

#[test]
fn a_wildcard_holds_back_what_looks_secret() {
    let world = World::new();
    let callers = |mut call: Call| {
        for (name, value) in [
            ("MY_NAME", "a"),
            ("MY_API_KEY", "kkkk"),
            ("MY_DB_PASSWORD", "pppp"),
            ("MY_SECRET2", "ssss"),
            ("MY_PRIVATEKEY", "rrrr"),
            ("MY_PW", "wwww"),
            ("MY_TOKEN_2", "oooo"),
            ("MY_AUTHOR", "b"),
            ("MY_MONKEY2", "b"),
            ("MY_URL", "https://uuuu:pppp@h"),
            ("GIT_AUTHOR_NAME", "c"),
            ("GIT_SSH_COMMAND", "ssh -v"),
            ("TOKENIZERS_PARALLELISM", "true"),
        ] {
            call = call.env(name, value);
        }
        call
    };
    let wild = ["-e", "MY_*", "-e", "GIT_*", "-e", "TOKENIZERS_*"];
    for backend in backends() {
        let run = |options: &[&str]| variables(callers(env(&world, &[&backend[..], options].concat())).done());
        let found = run(&wild);
        for name in ["MY_NAME", "MY_AUTHOR", "MY_MONKEY2", "GIT_AUTHOR_NAME", "TOKENIZERS_PARALLELISM"] {
            assert!(found.contains_key(name.as_bytes()), "{name} is harmless");
        }
        for name in [
            "MY_API_KEY",
            "MY_DB_PASSWORD",
            "MY_SECRET2",
            "MY_PRIVATEKEY",
            "MY_PW",
            "MY_TOKEN_2",
            "MY_URL",
            "GIT_SSH_COMMAND",
        ] {
            assert!(!found.contains_key(name.as_bytes()), "{name} is held back");
            assert!(run(&["-e", name]).contains_key(name.as_bytes()), "{name} passes by its name");
            assert!(
                run(&[&wild[..], &["-e", name]].concat()).contains_key(name.as_bytes()),
                "{name} beside a wildcard"
            );
        }
    }
    for format in ["--dry-run", "--dry-run=json"] {
        let words = [&wild[..], &["-e", "MY_DB_PASSWORD", "-e", "T=tttt", format, "--", "true"]].concat();
        let told = callers(world.run(words)).done().code(0).stderr("");
        let told = told.stdout_has("MY_API_KEY").stdout_has("MY_URL").stdout_has("held back from a wildcard");
        for value in ["kkkk", "pppp", "uuuu", "tttt"] {
            assert!(!told.out().contains(value), "no value is shown: {value}\n{}", told.out());
        }
    }
}

#[test]
fn a_call_with_nothing_in_its_environment_works() {
    let world = World::new();
    for backend in backends() {
        let found = variables(env(&world, &backend).env_clear().done());
        assert_eq!(found[&b"PATH"[..]], b"/usr/local/bin:/usr/bin:/bin");
        assert!(!found.contains_key(&b"LANG"[..]) && !found.contains_key(&b"SHELL"[..]), "{found:?}");
        world.sh(backend, "echo $PATH").env_remove("PATH").done().is(0, "/usr/local/bin:/usr/bin:/bin\n", "");
    }
}

#[test]
fn path_keeps_its_absolute_entries() {
    let world = World::new();
    for backend in backends() {
        let path = |value: &str| world.sh(backend, "echo $PATH").env("PATH", value).done();
        path(":rel:/usr/bin::.:/bin:..:./x:").is(0, "/usr/bin:/bin\n", "");
        path("/no/such:/usr/bin").is(0, "/no/such:/usr/bin\n", "");
        path("").is(0, "/usr/local/bin:/usr/bin:/bin\n", "");
        path(":.:rel").is(0, "/usr/local/bin:/usr/bin:/bin\n", "");
    }
    world.sh(["-e", "PATH=rel:/bin"], "echo $PATH").done().is(0, "rel:/bin\n", "");
}

/// A call by `execve` itself, with entries that no shell would make.
fn with_entries(world: &World, words: &[&str], entries: &[&[u8]]) -> Done {
    let strings =
        |bytes: &[&[u8]]| -> Vec<CString> { bytes.iter().map(|text| CString::new(*text).expect("no NUL")).collect() };
    let path = CString::new(program().as_os_str().as_bytes()).expect("no NUL");
    let argv = strings(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
    let entries = strings(entries);
    let call = world.run([""; 0]).before_exec(move || match nix::unistd::execve(&path, &argv, &entries)? {});
    call.done()
}

#[test]
fn a_malformed_environment_is_put_in_order() {
    let world = World::new();
    let entries: &[&[u8]] = &[
        b"LANG=first",
        b"PATH=/nowhere",
        b"WITHOUT",
        b"",
        b"=without-name",
        b"==",
        b"=C:=x",
        b"\xff\xfe=name",
        b"A B=blank",
        b"1A=digit",
        b"FN()=() { :; }",
        b"DUP=1",
        b"PATH=/usr/bin:/bin",
        b"LANG=second",
        b"DUP=2",
        b"DUP=3",
        b"TERM",
        b"LANG=C",
    ];
    for backend in backends() {
        let words = [&["sandbox-run"], &backend[..], &["-e", "DUP", "--", "env", "-0"]].concat();
        let mut found = variables(with_entries(&world, &words, entries));
        for name in ["HOME", "PWD", "TMPDIR", "TMP", "TEMP", "TEMPDIR"] {
            found.remove(name.as_bytes());
        }
        assert_eq!(found, map(&[("DUP", "3"), ("LANG", "C"), ("PATH", "/usr/bin:/bin")]));
    }
    // Not even a name of our own, since the kernel takes an empty list of arguments.
    with_entries(&world, &[], entries).refused(125, &["no command given"]);
}

#[test]
fn a_large_environment_is_no_burden() {
    let world = World::new();
    for backend in backends() {
        let call = |options: &[&str]| {
            let mut call = env(&world, &[&backend[..], options].concat());
            for number in 0..8 {
                call = call.env(format!("BIG_{number}"), "v".repeat(120_000));
            }
            for number in 0..5_000 {
                call = call.env(format!("MANY_{number}"), "v");
            }
            call.done()
        };
        let dropped = call(&[]);
        assert!(dropped.took < Duration::from_secs(10), "{:?}", dropped.took);
        assert!(variables(dropped).keys().all(|name| !name.starts_with(b"BIG_") && !name.starts_with(b"MANY_")));
        let passed = variables(call(&["-e", "BIG_*", "-e", "MANY_*"]));
        assert_eq!(passed.keys().filter(|name| name.starts_with(b"MANY_")).count(), 5_000);
        assert_eq!(passed[&b"BIG_7"[..]].len(), 120_000);
    }
}

#[test]
fn a_variable_that_is_too_long_is_named() {
    let world = World::new();
    // The limit counts the name, the `=` and the NUL at the end.
    world.write("w/fits", format!("BIG={}", "v".repeat(131_072 - 5)));
    world.write("w/too-long", format!("BIG={}", "v".repeat(131_072 - 4)));
    world.write(
        "w/too-many",
        (0..40).fold(String::new(), |text, number| text + &format!("BIG_{number}={}\n", "v".repeat(100_000))),
    );
    for backend in backends() {
        let run = |file: &str| {
            world.run([&backend[..], &["--env-file", file, "--", "sh", "-c", "echo ${#BIG}"]].concat()).done()
        };
        run("fits").is(0, "131067\n", "");
        run("too-long").refused(125, &["'BIG'"]).stderr_lacks("vvvv");
        run("too-many").refused(126, &["argument list too long"]);
    }
}

#[test]
fn variables_of_a_proxy_pass_by_name_only() {
    let world = World::new();
    let names = ["http_proxy", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE"];
    for options in [&[][..], &["-q", "--net", "host"], &["-q", "-b", "none"], &["-q", "-b", "landlock"]] {
        if options.contains(&"landlock") && !has_landlock() {
            continue;
        }
        let run = |more: &[&str]| {
            let mut call = env(&world, &[options, more].concat());
            for name in names {
                call = call.env(name, "/etc/hosts");
            }
            let found = variables(call.done());
            names.into_iter().filter(|name| found.contains_key(name.as_bytes())).collect::<Vec<_>>()
        };
        assert_eq!(run(&[]), [""; 0]);
        assert_eq!(run(&["-e", "HTTPS_*", "-e", "SSL_*", "-e", "NO_*"]), [""; 0]);
        assert_eq!(run(&["-e", "HTTPS_PROXY"]), ["HTTPS_PROXY"]);
        assert_eq!(run(&["-e", "SSL_CERT_FILE"]), ["SSL_CERT_FILE"]);
    }
}

#[test]
fn what_is_set_is_true_inside() {
    let world = World::new();
    world.dir("w/deep");
    world.link("w/link", "deep");
    let script =
        "[ \"$PWD\" = \"$(pwd -P)\" ] && [ -d \"$HOME\" ] && touch \"$HOME/x\" \"$TMPDIR/x\" \"$TMP/y\" && mktemp";
    for dir in [".", "deep", "link"] {
        world.sh(["-C", dir], script).env("PWD", "/nowhere").done().code(0).stderr("").stdout_has("/tmp/");
    }
    // The caller's place for temporary files exists outside only.
    world.sh([""; 0], script).env("TMPDIR", world.path("o")).done().code(0).stdout_has("/tmp/");
    assert_eq!(value(env(&world, &["-e", "SHELL"]).env("SHELL", "/bin/sh"), "SHELL"), Some("/bin/sh".into()));
    assert_eq!(value(env(&world, &[]).env("SHELL", "/no/such/shell"), "SHELL"), None);
    assert_eq!(value(env(&world, &["-e", "HOME=/x"]), "HOME"), Some("/x".into()));
    assert_eq!(value(env(&world, &["-e", "TMPDIR=/x"]), "TMPDIR"), Some("/x".into()));
}

/// A version manager in `home`: a shim on PATH that needs its variable to find the real program.
fn toolchain(world: &World) -> String {
    world.script(
        "home/.cargo/bin/cargo",
        "#!/bin/sh\nexec \"$RUSTUP_HOME/toolchains/$RUSTUP_TOOLCHAIN/cargo\" \"$@\"\n",
    );
    world.script("home/.rustup/toolchains/stable/cargo", "#!/bin/sh\necho cargo 1.0 \"$@\"\n");
    for (secret, text) in [(".cargo/credentials.toml", "c"), (".npmrc", "n"), (".pypirc", "p")] {
        world.write(&format!("home/{secret}"), text);
    }
    world.write("home/.cargo/config.toml", "plain");
    format!("{}:{PATHS}", world.text("home/.cargo/bin"))
}

#[test]
fn a_toolchain_works_with_its_directories_and_without_its_credentials() {
    let world = World::new();
    let path = toolchain(&world);
    let run = |options: &[&str], script: &str| {
        let call = world.sh(options, script).env("PATH", &path).env("RUSTUP_TOOLCHAIN", "stable");
        call.env("CARGO_HOME", world.path("home/.cargo")).env("RUSTUP_HOME", world.path("home/.rustup")).done()
    };
    let granted = ["-r", "~/.cargo", "-r", "~/.rustup"];
    run(&granted, "cargo --version; cat ~/.cargo/config.toml").is(0, "cargo 1.0 --version\nplain", "");
    for secret in [".cargo/credentials.toml", ".npmrc", ".pypirc"] {
        let script = format!("cat ~/{secret}");
        for options in [&granted[..], &["-r", "~"]] {
            assert_eq!(run(options, &script).out(), "", "{secret} under {options:?}");
        }
        let named = format!("~/{secret}");
        assert_eq!(run(&["-r", &named], &script).code(0).out().len(), 1, "control: {secret} by its name");
    }
    // Variables that lead nowhere do not pass, and with them what depends on them.
    run(&[], "env | grep -E '^(CARGO|RUSTUP)'").is(1, "", "");
    run(&["-r", "~/.rustup"], "env | grep -E '^(CARGO|RUSTUP)' | sort").is(
        0,
        &format!("RUSTUP_HOME={}\nRUSTUP_TOOLCHAIN=stable\n", world.text("home/.rustup")),
        "",
    );
}
