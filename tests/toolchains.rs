//! Profiles of toolchains: each really runs its toolchain, and the credentials beside it stay out of reach.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::{Call, World, alone, find, has, skip};

/// Files below HOME that a toolchain's profile shows, and such that it must not.
const BESIDE: &[(&str, &[&str], &[&str])] = &[
    (
        "rust",
        &[".cargo/env", ".cargo/registry/index", ".rustup/settings.toml"],
        &[".cargo/credentials", ".cargo/credentials.toml", ".ssh/id", "plain"],
    ),
    (
        "node",
        &[".nvm/alias/default", ".volta/bin/node", ".local/share/fnm/aliases", "n/bin/node"],
        &[".npmrc", ".yarnrc.yml", ".npm/_cacache/x", ".ssh/id", "plain"],
    ),
    (
        "python",
        &[".pyenv/version", ".local/share/uv/python/x", ".virtualenvs/v/pyvenv.cfg", ".local/bin/uv", "miniconda3/x"],
        &[
            ".pypirc",
            ".netrc",
            ".config/pip/pip.conf",
            ".config/pypoetry/auth.toml",
            ".local/share/uv/credentials/x",
            ".local/share/keyrings/x",
            "plain",
        ],
    ),
    ("go", &["go/pkg/mod/x", "go/bin/tool", "sdk/x"], &[".config/go/env", "go/src/mine/.env", ".netrc", "plain"]),
    (
        "jvm",
        &[".m2/repository/x.jar", ".sdkman/candidates/java/x", ".gradle/wrapper/x", ".jdks/x"],
        &[
            ".m2/settings.xml",
            ".m2/settings-security.xml",
            ".gradle/gradle.properties",
            ".gradle/init.d/x.gradle",
            "plain",
        ],
    ),
    (
        "git",
        &[".gitconfig", ".config/git/ignore"],
        &[".git-credentials", ".config/git/credentials", ".config/gh/hosts.yml", ".ssh/id", "plain"],
    ),
];

#[test]
fn toolchain_profiles_show_what_is_there_and_no_credentials() {
    for (name, shown, hidden) in BESIDE {
        let world = World::new();
        // Nothing is there yet: nothing is missing.
        let before = world.snapshot();
        world.run(["-p", name, "true"]).done().is(0, "", "");
        assert_eq!(world.snapshot(), before, "{name}");
        for file in shown.iter().chain(*hidden) {
            let text = if *file == ".gitconfig" { "# x\n" } else { "x\n" };
            world.write(&format!("home/{file}"), text);
        }
        let script = "cd; for file; do [ -z \"$(cat \"$file\" 2>/dev/null)\" ] || echo \"$file\"; done";
        let seen = |options: &[&str], files: &[&str]| {
            let words = [options, &["sh", "-c", script, "-"], files].concat();
            world.run(words).done().code(0).out().lines().map(String::from).collect::<Vec<_>>()
        };
        let all = [*shown, *hidden].concat();
        let outside = world.call("sh", [&["-c", script, "-"], &all[..]].concat()).done().code(0).out();
        assert_eq!(outside.lines().collect::<Vec<_>>(), all, "{name}: outside");
        assert_eq!(seen(&[], &all), [""; 0], "{name}: without it");
        assert_eq!(seen(&["-p", name], &all), *shown, "{name}");
        // A read grant, not a write grant.
        let before = world.snapshot();
        for file in *shown {
            let done = world.sh(["-p", name], &format!("echo y >>~/{file}")).done();
            assert_ne!(done.code, Some(0), "{name}: {file}");
        }
        assert_eq!(world.snapshot(), before, "{name}");
        // The same under a view that shows all of HOME.
        let secret = |file: &&&str| {
            [".ssh", "credentials", ".npmrc", ".yarnrc", ".pypirc", ".netrc", "settings", "gradle.p", "/gh/"]
                .iter()
                .any(|part| file.contains(part))
        };
        let secrets: Vec<&str> = hidden.iter().filter(secret).filter(|file| !file.contains("/uv/")).copied().collect();
        assert_eq!(seen(&["-p", "host-read", "-p", name], &secrets), [""; 0], "{name}: with host-read");
    }
}

/// Where the toolchain of this machine lies, if rustup put it there and this user can read it.
fn rustup() -> Option<(PathBuf, PathBuf)> {
    let home = std::env::var_os("HOME").map(PathBuf::from)?;
    let place = |variable: &str, name: &str| {
        fs::canonicalize(std::env::var_os(variable).map_or_else(|| home.join(name), PathBuf::from)).ok()
    };
    let (cargo, rustup) = (place("CARGO_HOME", ".cargo")?, place("RUSTUP_HOME", ".rustup")?);
    (cargo.join("bin/rustup").is_file() && rustup.join("toolchains").is_dir()).then_some((cargo, rustup))
}

#[test]
fn rust_builds_a_crate() {
    let Some((cargo, rustup)) = rustup() else { return skip("rustup", "no toolchain of it that this user can read") };
    let world = World::new();
    // A HOME of our own, with the toolchain of this machine behind a link.
    world.dir("home/.cargo/bin");
    for tool in ["cargo", "rustc"] {
        alone(|| fs::copy(cargo.join("bin/rustup"), world.path("home/.cargo/bin").join(tool))).unwrap();
    }
    world.link("home/.rustup", &rustup);
    world.write("home/.cargo/credentials.toml", "token");
    world.write("home/.cargo/plain", "plain");
    world.write("w/Cargo.toml", "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    world.write("w/src/main.rs", "fn main() { println!(\"tiny\"); }\n");
    let path = format!("{}:{}", world.text("home/.cargo/bin"), crate::harness::PATHS);
    let call = |options: &[&str], script: &str| world.sh(options, script).env("PATH", &path);
    let pointed =
        |call: Call| call.env("CARGO_HOME", world.path("home/.cargo")).env("RUSTUP_HOME", world.path("home/.rustup"));
    call(&["-p", "rust"], "cargo --version && rustc --version").done().code(0).stderr("").stdout_has("cargo 1");
    pointed(call(&["-p", "rust"], "cargo --version; echo $CARGO_HOME $RUSTUP_HOME"))
        .done()
        .code(0)
        .stdout_has(&format!("{} {}\n", world.text("home/.cargo"), world.text("home/.rustup")));
    call(&["-p", "build", "-p", "rust"], "cargo build -q --offline && target/debug/tiny").done().is(0, "tiny\n", "");
    assert!(world.has("w/target/debug/tiny"));
    let without = call(&["-p", "build"], "~/.cargo/bin/cargo --version").done();
    assert_ne!(without.code, Some(0));
    let cat = world.sh(["-p", "rust"], "cat ~/.cargo/plain ~/.cargo/credentials.toml 2>/dev/null; env");
    let done = pointed(cat).done().code(0).stdout_has("plain").stdout_lacks("token");
    done.stdout_lacks("SANDBOX_RUN");
    world.call("cat", [world.text("home/.cargo/credentials.toml")]).done().is(0, "token", "");
}

#[test]
fn cargo_home_elsewhere_hides_its_credentials_too() {
    let world = World::new();
    world.write("o/cargo/credentials.toml", "token");
    world.write("o/cargo/plain", "plain");
    let cargo = world.text("o/cargo");
    let script = "echo \"$CARGO_HOME\"; cat \"$CARGO_HOME\"/* 2>/dev/null";
    let call = |options: &[&str]| world.sh(options, script).env("CARGO_HOME", &cargo);
    call(&["-p", "rust", "-r", &cargo]).done().stdout_has(&cargo).stdout_has("plain").stdout_lacks("token");
    call(&["-p", "rust"]).done().stdout("\n");
}

#[test]
fn node_runs_a_script() {
    if !has("node") {
        return;
    }
    let world = World::new();
    // As a version manager has it: the program below HOME, found by PATH.
    let node = find("node").unwrap();
    world.script("home/.nvm/versions/node/v0/bin/node", &format!("#!/bin/sh\nexec {} \"$@\"\n", node.display()));
    world.write("home/.npmrc", "//registry.example.org/:_authToken=token\n");
    world.write("home/.nvm/plain", "plain\n");
    world.write("w/package.json", "{\"name\":\"tiny\",\"scripts\":{\"go\":\"node main.js\"}}\n");
    world.write("w/node_modules/dep/index.js", "module.exports = 'dep'\n");
    world.write("w/lib/local.mjs", "export const word = 'local'\n");
    let main = "require('fs').writeFileSync('made', 'x');
        import('./lib/local.mjs').then(m => console.log(process.env.NVM_DIR, m.word, require('dep')))\n";
    world.write("w/main.js", main);
    let nvm = world.text("home/.nvm");
    let path = format!("{nvm}/versions/node/v0/bin:{}", crate::harness::PATHS);
    let call = |options: &[&str], script: &str| world.sh(options, script).env("PATH", &path).env("NVM_DIR", &nvm);
    let said = format!("{nvm} local dep\n");
    call(&["-p", "node", "-p", "build"], "node main.js && cat made").done().is(0, &format!("{said}x"), "");
    // Without the profile it is another program that PATH leads to, and the variable leads nowhere.
    call(&["-p", "build"], "node main.js").done().is(0, "undefined local dep\n", "");
    if find("npm").is_some() {
        call(&["-p", "node", "-p", "build"], "npm run -s go").done().is(0, &said, "");
    }
    let read = |name: &str| {
        format!("node -e \"console.log(require('fs').readFileSync(process.env.HOME + '/{name}', 'utf8'))\"")
    };
    call(&["-p", "node"], &read(".nvm/plain")).done().is(0, "plain\n\n", "");
    call(&["-p", "node"], &read(".npmrc")).done().code(1).stdout("").stderr_has("ENOENT");
    world.call("sh", ["-c", &read(".npmrc")]).done().code(0).stdout_has("token");
}

/// npm is no part of Debian's node: where it is, what it has in its cache is installed without a network.
#[test]
fn npm_installs_from_its_cache() {
    if find("node").is_none() || find("npm").is_none() {
        return eprintln!("not tried: there is no npm here");
    }
    let world = World::new();
    world.write("o/dep/package.json", "{\"name\":\"dep\",\"version\":\"1.0.0\"}\n");
    world.write("o/dep/index.js", "module.exports = 'from the cache'\n");
    let fill = "cd ../o && npm pack -s ./dep >/dev/null && npm cache add ./dep-1.0.0.tgz";
    world.call("sh", ["-c", fill]).done().code(0);
    let digest = "process.stdout.write(require('crypto').createHash('sha512')
        .update(require('fs').readFileSync('../o/dep-1.0.0.tgz')).digest('base64'))";
    let digest = world.call("node", ["-e", digest]).done().code(0).out();
    world.write("w/package.json", "{\"name\":\"app\",\"version\":\"1.0.0\",\"dependencies\":{\"dep\":\"1.0.0\"}}\n");
    let lock = serde_json::json!({"name": "app", "version": "1.0.0", "lockfileVersion": 3, "packages": {
        "": {"name": "app", "version": "1.0.0", "dependencies": {"dep": "1.0.0"}},
        "node_modules/dep": {"version": "1.0.0", "resolved": "http://127.0.0.1:1/dep-1.0.0.tgz",
            "integrity": format!("sha512-{digest}")}}});
    world.write("w/package-lock.json", lock.to_string());
    let install = "npm ci -s --offline && node -p 'require(\"dep\")'";
    // Its cache inside is one of its own, which it can write to and which is empty.
    world
        .sh(["-p", "node", "-p", "build"], &format!("mkdir -p ~/.npm/_cacache/tmp && {install}"))
        .done()
        .code(1)
        .stdout("");
    world.sh(["-p", "node", "-p", "build", "-w", "~/.npm"], install).done().is(0, "from the cache\n", "");
}

#[test]
fn python_runs_from_a_virtual_environment_and_by_pyenv() {
    let world = World::new();
    world.write("home/.pypirc", "password = token\n");
    world.write("home/.netrc", "password token\n");
    let venv = world.text("home/.virtualenvs/v");
    world.call("python3", ["-m", "venv", "--without-pip", &venv]).done().code(0);
    let call = |options: &[&str], script: &str| {
        let path = format!("{venv}/bin:{}", crate::harness::PATHS);
        world.sh(options, script).env("PATH", path).env("VIRTUAL_ENV", &venv)
    };
    let prefix = "python3 -c 'import sys, os; print(sys.prefix, os.environ.get(\"VIRTUAL_ENV\"))'";
    call(&["-p", "python"], prefix).done().is(0, &format!("{venv} {venv}\n"), "");
    call(&[], prefix).done().stdout_lacks(&venv);
    let read = "python3 -c 'import os; print(open(os.path.expanduser(\"~/.pypirc\")).read())'";
    call(&["-p", "python"], read).done().code(1).stdout("").stderr_has("FileNotFoundError");
    world.call("sh", ["-c", read]).done().code(0).stdout_has("token");

    // As pyenv has it: a script beside PATH chooses one of several environments.
    let root = world.text("home/.pyenv");
    world.call("python3", ["-m", "venv", "--without-pip", &format!("{root}/versions/own")]).done().code(0);
    world.write("home/.pyenv/version", "own\n");
    world.script(
        "home/.pyenv/shims/python3",
        "#!/bin/sh\nexec \"$PYENV_ROOT/versions/$(cat \"$PYENV_ROOT/version\")/bin/python3\" \"$@\"\n",
    );
    let version = "python3 -c 'import sys; print(sys.prefix)'; echo $PYENV_ROOT";
    let call = |options: &[&str], root: &str| {
        let path = format!("{root}/shims:{root}/bin:{}", crate::harness::PATHS);
        world.sh(options, version).env("PATH", &path).env("PYENV_ROOT", root)
    };
    call(&["-p", "python"], &root).done().is(0, &format!("{root}/versions/own\n{root}\n"), "");
    call(&[], &root).done().code(0).stdout_lacks(&root);

    // The real one, where there is one: it is no package.
    let pyenv = std::env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv"));
    let used = |root: &PathBuf| root.join("shims/python3").is_file() && root.join("version").is_file();
    let Some(pyenv) = pyenv.filter(used) else { return eprintln!("not tried: there is no pyenv here") };
    fs::rename(&root, world.path("home/own")).unwrap();
    world.link("home/.pyenv", &pyenv);
    call(&["-p", "python"], &root).done().code(0).stdout_has("/versions/").stdout_has(&root).stderr("");
}

#[test]
fn java_compiles_and_runs() {
    if !has("java") || !has("javac") {
        return;
    }
    let world = World::new();
    world.write("home/.m2/settings.xml", "password");
    world.write("home/.gradle/gradle.properties", "password");
    world.write("home/.m2/repository/plain", "plain");
    let source = "import java.nio.file.*;
        class Main { public static void main(String[] a) throws Exception {
            for (String f : a) System.out.print(Files.readString(Path.of(System.getenv(\"HOME\"), f)) + \"\\n\"); } }";
    world.write("w/Main.java", source);
    let compile = "javac Main.java && java Main .m2/repository/plain";
    world.sh(["-p", "jvm", "-p", "build"], compile).done().is(0, "plain\n", "");
    assert!(world.has("w/Main.class"));
    for secret in [".m2/settings.xml", ".gradle/gradle.properties"] {
        let run = format!("java Main {secret}");
        world.sh(["-p", "jvm"], &run).done().code(1).stdout("").stderr_has("NoSuchFileException");
        world.call("sh", ["-c", &run]).done().is(0, "password\n", "");
    }
    // Classes of the local repository, as build tools put them on the path.
    world.write("o/Lib.java", "package lib; public class Lib { public static String word() { return \"library\"; } }");
    world.call("javac", ["-d", &world.text("home/.m2/repository"), &world.text("o/Lib.java")]).done().code(0);
    world.write(
        "w/Use.java",
        "class Use { public static void main(String[] a) { System.out.println(lib.Lib.word()); } }",
    );
    let script = "java -cp ~/.m2/repository Use.java";
    world.sh(["-p", "jvm"], script).done().is(0, "library\n", "");
    assert_ne!(world.sh(["-r", "/etc"], script).done().stdout("").code, Some(0));
}

/// A module that lies in a cache and nowhere else, put there by way of a proxy of files.
fn fill_module_cache(world: &World) {
    let source = "package dep\n\nfunc Word() string { return \"from the cache\" }\n";
    world.write("o/proxy/example.org/dep/@v/v1.0.0.info", "{\"Version\":\"v1.0.0\"}\n");
    world.write("o/proxy/example.org/dep/@v/v1.0.0.mod", "module example.org/dep\n");
    world.write("o/proxy/example.org/dep/@v/list", "v1.0.0\n");
    world.write("o/dep.go", source);
    let zip = "import sys, zipfile
z = zipfile.ZipFile(sys.argv[1], 'w')
z.writestr('example.org/dep@v1.0.0/go.mod', 'module example.org/dep\\n')
z.write(sys.argv[2], 'example.org/dep@v1.0.0/dep.go')
z.close()";
    let archive = world.text("o/proxy/example.org/dep/@v/v1.0.0.zip");
    world.call("python3", ["-c", zip, &archive, &world.text("o/dep.go")]).done().is(0, "", "");
    world.write("w/go.mod", "module tiny\n\ngo 1.19\n\nrequire example.org/dep v1.0.0\n");
    let main = "package main\n\nimport (\n\"example.org/dep\"\n\"fmt\"\n\"os\"\n)\n
        func main() {\n for _, name := range os.Args[1:] {\n if _, err := os.ReadFile(name); err != nil {\n fmt.Println(err)\n }\n }
        fmt.Println(dep.Word())\n}\n";
    world.write("w/main.go", main);
    let call = world.call("go", ["mod", "tidy"]).env("GOPROXY", format!("file://{}", world.text("o/proxy")));
    call.env("GONOSUMDB", "*").env("GOFLAGS", "-modcacherw").done().code(0);
}

#[test]
fn go_builds_and_runs_with_modules_of_its_cache() {
    if !has("go") {
        return;
    }
    let world = World::new();
    fill_module_cache(&world);
    let token = world.write("home/.config/go/env", "GOFLAGS=-x\n");
    let netrc = world.write("home/.netrc", "password token\n");
    let secrets = [token.to_str().unwrap(), netrc.to_str().unwrap()];
    let plain = world.text("home/go/pkg/mod/example.org/dep@v1.0.0/dep.go");
    let run = [&["go", "run", ".", &plain], &secrets[..]].concat();
    let missing = secrets.map(|path| format!("open {path}: no such file or directory\n")).concat();
    let before = world.snapshot();
    world.run([&["-p", "go"], &run[..]].concat()).done().is(0, &format!("{missing}from the cache\n"), "");
    for words in
        [&["go", "vet", "."][..], &["go", "test", "."], &["go", "list", "-deps", "."], &["go", "mod", "verify"]]
    {
        world.run([&["-p", "go"], words].concat()).done().code(0).stderr("");
    }
    assert_eq!(world.snapshot(), before, "the working directory and the cache are read-only");
    world.sh(["-p", "go", "-p", "build"], "go build -o tiny . && ./tiny").done().is(0, "from the cache\n", "");
    assert!(world.has("w/tiny"));
    // Its own caches are new ones, and what it is told about itself is Debian's or whoever's.
    let settings = "go env GOPATH GOCACHE GOFLAGS; ls ~/.cache 2>/dev/null; go env GOROOT >/dev/null";
    let home = world.text("home");
    world.sh(["-p", "go"], settings).done().is(0, &format!("{home}/go\n{home}/.cache/go-build\n\n"), "");
    // The controls: without the profile there is no such module, outside the secrets are read.
    world.run(["go", "run", "."]).env("GOPROXY", "off").done().code(1).stdout("").stderr_has("example.org/dep");
    let outside = world.call("go", &run[1..]).env("GOFLAGS", "-mod=mod").done().code(0);
    outside.stdout("from the cache\n");
}

#[test]
fn go_elsewhere_is_found_by_its_variables() {
    if !has("go") {
        return;
    }
    let world = World::new();
    fill_module_cache(&world);
    fs::rename(world.path("home/go"), world.path("o/go")).unwrap();
    let place = world.text("o/go");
    for (variable, value) in [("GOPATH", place.clone()), ("GOMODCACHE", format!("{place}/pkg/mod"))] {
        let call = |options: &[&str]| world.run([options, &["go", "run", "."]].concat()).env(variable, &value);
        call(&["-p", "go", "-r", &place]).done().is(0, "from the cache\n", "");
        call(&["-p", "go"]).done().code(1).stdout("");
    }
}

#[test]
fn git_commits_under_the_users_name() {
    let world = World::new();
    world.write("home/.gitconfig", "[user]\nname = Somebody\nemail = somebody@example.org\n");
    world.write("home/.config/git/ignore", "ignored\n");
    world.write("home/.git-credentials", "https://user:token@example.org\n");
    world.call("git", ["init", "-q", "-b", "main", "."]).done().code(0);
    let commit =
        "touch file ignored; git add file; git commit -q -m one && git log --format='%an %ae' && git status -s";
    world.sh(["-p", "git", "-p", "build"], commit).done().is(0, "Somebody somebody@example.org\n", "");
    world.sh(["-p", "build"], "git commit -q --allow-empty -m two").done().code(128).stdout("");
    let call = world.sh(["-p", "git", "-p", "build"], "git commit -q --allow-empty -m two; git log -1 --format=%an");
    call.env("GIT_AUTHOR_NAME", "Other").done().is(0, "Other\n", "");
    let fill = "printf 'protocol=https\\nhost=example.org\\n\\n' | GIT_TERMINAL_PROMPT=0 git -c credential.helper=store credential fill";
    world.sh(["-p", "git"], fill).done().stdout_lacks("token");
    world.call("sh", ["-c", fill]).done().stdout_has("token");
}
