//! Variables by which the caller's surroundings run code in every program that starts have no effect.

use std::fs;

use crate::harness::{Call, Done, World, backends};

/// A library that appends the name of every process that loads it to `w/loaded`.
fn library(world: &World) -> String {
    let source = format!(
        "#include <fcntl.h>\n#include <unistd.h>\n
         __attribute__((constructor)) static void loaded(void) {{
             char name[64];
             int in = open(\"/proc/self/comm\", O_RDONLY), out = open(\"{}\", O_WRONLY | O_APPEND | O_CREAT, 0666);
             if (out >= 0) write(out, name, read(in, name, sizeof name));
             close(in), close(out);
         }}\n",
        world.text("w/loaded")
    );
    world.write("w/hook.c", source);
    let compiler = ["-shared", "-fPIC", "-w", "-o", "hook.so", "hook.c"];
    world.call("gcc", compiler).env("TMPDIR", world.path("w")).done().is(0, "", "");
    world.text("w/hook.so")
}

#[test]
fn a_preloaded_library_is_loaded_by_nothing_that_we_start() {
    let world = World::new();
    let library = library(&world);
    let loaded = |call: Call| {
        let file = world.path("w/loaded");
        let _absent = fs::remove_file(&file);
        call.env("LD_PRELOAD", &library).done().code(0);
        fs::read_to_string(&file).unwrap_or_default()
    };
    assert_eq!(loaded(world.call("true", [""; 0])), "true\n", "control: it is loaded outside");
    // The caller's own loader comes before us, unless the program is static.
    let by_the_caller = loaded(world.run(["--version"]));
    for backend in backends() {
        let gap = ["--allow-gap", "files-read,files-write", "-w", "."];
        let run = |words: &[&str]| loaded(world.run([&backend[..], &gap, words].concat()));
        for words in [&["--", "true"][..], &["--", "bash", "-c", "true; env >/dev/null"], &["--", "python3", "-c", "0"]]
        {
            assert_eq!(run(words), by_the_caller, "{backend:?} {words:?}");
            assert_eq!(run(&[&["-e", "LD_*"], words].concat()), by_the_caller, "{backend:?} LD_* {words:?}");
            assert_eq!(run(&[&["-e", "LD_PRELOAD"], words].concat()), by_the_caller, "{backend:?} by name {words:?}");
        }
        let typed = format!("LD_PRELOAD={library}");
        assert_eq!(run(&["-e", &typed, "--", "true"]), format!("{by_the_caller}true\n"), "control: typed on purpose");
    }
    assert!(matches!(by_the_caller.as_str(), "" | "sandbox-run\n"), "{by_the_caller:?}");
}

const HOOKS: &[(&str, &str)] = &[
    ("LD_PRELOAD", ""),
    ("LD_LIBRARY_PATH", "/nowhere"),
    ("LD_AUDIT", ""),
    ("GLIBC_TUNABLES", "glibc.malloc.check=0"),
    ("GCONV_PATH", "/nowhere"),
    ("LOCPATH", "/nowhere"),
    ("MALLOC_TRACE", "/nowhere/trace"),
    ("RES_OPTIONS", "debug"),
    ("HOSTALIASES", "/nowhere"),
    ("BASH_ENV", "HOOK.sh"),
    ("ENV", "HOOK.sh"),
    ("PROMPT_COMMAND", "touch HOOKED"),
    ("PS1", "$(touch HOOKED)"),
    ("PS4", "$(touch HOOKED)"),
    ("SHELLOPTS", "xtrace"),
    ("BASHOPTS", "extdebug"),
    ("CDPATH", "/"),
    ("IFS", "/"),
    ("ZDOTDIR", "/nowhere"),
    ("BASH_FUNC_hooked%%", "() { touch HOOKED; }"),
    ("BASH_FUNC_ls%%", "() { touch HOOKED; }"),
    ("PYTHONSTARTUP", "HOOK.py"),
    ("PYTHONPATH", "HOOKS"),
    ("PYTHONHOME", "/nowhere"),
    ("PYTHONINSPECT", "1"),
    ("PERL5OPT", "-MHook"),
    ("PERL5LIB", "HOOKS"),
    ("RUBYOPT", "-rHook"),
    ("RUBYLIB", "HOOKS"),
    ("NODE_OPTIONS", "--require=/nowhere"),
    ("NODE_PATH", "HOOKS"),
    ("JAVA_TOOL_OPTIONS", "-javaagent:/nowhere"),
    ("_JAVA_OPTIONS", "-Xmx1m"),
    ("CLASSPATH", "HOOKS"),
    ("GOFLAGS", "-mod=mod"),
    ("LUA_INIT", "@/nowhere"),
    ("VAULT_TOKEN", "s"),
    ("OP_SESSION_me", "s"),
    ("OMNIGENT_LAUNCHER_SPAWN_X", "s"),
    ("OMNIGENT_RUNNER_TUNNEL_BINDING_TOKEN", "s"),
    ("SANDBOX_RUN_STAGE", "3 0"),
];

/// Names that a rule may ask for.
fn names() -> impl Iterator<Item = &'static str> {
    HOOKS.iter().map(|(name, _)| *name).filter(|name| !name.contains('%') && !name.starts_with("SANDBOX_RUN_"))
}

fn hooked(world: &World, mut call: Call, only: Option<&[&str]>) -> Call {
    let (hooks, touched) = (world.text("w/hooks"), world.text("w/hooked"));
    for (name, value) in HOOKS.iter().filter(|(name, _)| only.is_none_or(|only| only.contains(name))) {
        let value =
            value.replace("HOOKS", &hooks).replace("HOOKED", &touched).replace("HOOK", &format!("{hooks}/hook"));
        call = call.env(name, value);
    }
    call
}

#[test]
fn hooks_of_shells_and_interpreters_do_nothing() {
    let world = World::new();
    let touched = world.text("w/hooked");
    world.write("w/hooks/hook.sh", format!("touch {touched}\n"));
    world.write("w/hooks/sitecustomize.py", format!("open('{touched}', 'w')\n"));
    world.write("w/hooks/Hook.pm", format!("open(F, '>', '{touched}'); 1;\n"));
    let acts = |done: Done| {
        done.code(0);
        fs::remove_file(&touched).is_ok()
    };
    let plain = |world: &World, words: &[&str]| world.call(words[0], &words[1..]);
    for (names, words) in [
        (&["BASH_ENV"][..], &["bash", "-c", "true"][..]),
        (&["BASH_FUNC_ls%%"], &["bash", "-c", "ls"]),
        (&["PYTHONPATH"], &["python3", "-c", "0"]),
        (&["PERL5OPT", "PERL5LIB"], &["perl", "-e", "0"]),
    ] {
        assert!(acts(hooked(&world, plain(&world, words), Some(names)).done()), "control: {names:?} acts outside");
        for backend in backends() {
            let options = ["--allow-gap", "files-read,files-write", "-w", ".", "--"];
            let call = world.run([&backend[..], &options, words].concat());
            assert!(!acts(hooked(&world, call, None).done()), "{backend:?} {names:?}");
        }
    }
}

#[test]
fn no_hook_is_inherited_and_one_warning_names_those_that_were_asked_for() {
    let world = World::new();
    let kept = |done: &Done| {
        let out = done.out();
        HOOKS.iter().map(|(name, _)| *name).filter(|name| out.contains(&format!("{name}="))).collect::<Vec<_>>()
    };
    for backend in backends() {
        let backend = &backend[1..];
        let quiet = if backend.contains(&"none") { &["-q"][..] } else { &[] };
        let done = hooked(&world, world.run([quiet, backend, &["--", "env"]].concat()), None).done();
        assert_eq!(kept(&done.code(0).stderr("")), [""; 0]);

        let mut words: Vec<&str> = backend.to_vec();
        words.extend(names().flat_map(|name| ["-e", name]));
        words.extend(["-e", "LD_*", "-e", "PYTHON_*", "-e", "OMNIGENT_*", "--", "env"]);
        let done = hooked(&world, world.run(words), None).done().code(0);
        assert_eq!(kept(&done), [""; 0]);
        let warnings: Vec<_> = done.stderr.lines().filter(|line| line.contains("never pass")).collect();
        let [warning] = warnings[..] else { panic!("expected one warning\n{}", done.stderr) };
        for name in names() {
            assert!(warning.contains(&format!(" {name}")), "{name} is named in: {warning}");
        }
    }
}

#[test]
fn a_hook_passes_when_its_value_is_typed() {
    let world = World::new();
    for backend in backends() {
        for name in names() {
            let typed = format!("{name}=typed");
            // Not by a program that would act on it.
            let words = [&backend[..], &["-e", &typed, "--", "cat", "/proc/self/environ"]].concat();
            let done = hooked(&world, world.run(words), None).done().code(0);
            assert!(done.out().split('\0').any(|entry| entry == typed), "{typed}\n{}", done.out());
        }
    }
}
