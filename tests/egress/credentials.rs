//! Secrets reach the server that they are for, and nobody else: what the command has is a placeholder.

use serde_json::Value;

use super::named::{Authority, Named, Server};
use crate::harness::World;

const SECRET: &str = "s3cret-of-this-test";
const CURL: &str = "curl -sS --max-time 10";

#[test]
fn a_secret_goes_to_its_host_and_to_no_other() {
    let Some(named) = Named::new() else { return };
    let script = format!("{CURL} {} {}", named.url("a.test"), named.url("b.test"));
    let call = |spec: &str| named.sh(&["--credential", spec], &script).env("TOKEN", SECRET).done();
    for (spec, field) in [
        ("type=https_bearer,host=a.test,env=TOKEN", "Authorization: Bearer s3cret-of-this-test"),
        ("type=https_basic,host=A.test.,env=TOKEN,user=u", "Authorization: Basic dTpzM2NyZXQtb2YtdGhpcy10ZXN0"),
        (
            "type=git_https,host=a.test,env=TOKEN",
            "Authorization: Basic eC1hY2Nlc3MtdG9rZW46czNjcmV0LW9mLXRoaXMtdGVzdA==",
        ),
        ("type=header,host=a.test,env=TOKEN,name=X-Key", "X-Key: s3cret-of-this-test"),
    ] {
        call(spec).is(0, "hello\nhello\n", "");
        let (a, b) = (named.a.heard_now(), named.b.heard_now());
        assert!(a.contains(&format!("{field}\r\n")), "{a}");
        assert!(b.starts_with("GET / HTTP/1.1\r\n") && !b.to_ascii_lowercase().contains("authorization"), "{b}");
        assert!(!b.contains("X-Key"), "{b}");
    }
    // Without, nothing is added, and nobody looks inside.
    named.sh(&[], &script).env("TOKEN", SECRET).env("CURL_CA_BUNDLE", "").done().is(0, "hello\nhello\n", "");
    assert!(!named.a.heard().contains("Authorization"), "{}", named.a.heard());
}

#[test]
fn the_command_has_a_placeholder() {
    let Some(named) = Named::new() else { return };
    let spec = "type=https_bearer,host=a.test,env=TOKEN";
    let call = |script: &str| {
        named
            .sh(&["--credential", spec, "-e", "TOKEN"], script)
            .env("TOKEN", SECRET)
            .done()
            .code(0)
            .stderr_lacks(SECRET)
            .out()
    };
    let (first, second) = (call("echo $TOKEN"), call("echo $TOKEN"));
    assert!(first.starts_with("oa_cred_") && first.trim().len() == 56, "{first}");
    assert_ne!(first, second);

    let (a, b) = (named.url("a.test"), named.url("b.test"));
    let field = |url: &str, field: &str| call(&format!("{CURL} -H \"{field}\" {url}"));
    assert_eq!(field(&a, "Authorization: Bearer $TOKEN"), "hello\n");
    assert!(named.a.heard_now().contains("Authorization: Bearer s3cret-of-this-test\r\n"));
    // Somewhere else it is worth nothing, and nobody hears of it.
    for (url, name) in [(&b, "Authorization: Bearer $TOKEN"), (&b, "X: $TOKEN"), (&a, "X: $TOKEN")] {
        let refused = field(url, name);
        assert!(refused.contains("holds a placeholder that stands for nothing there"), "{refused}");
    }
    call(&format!("{CURL} {b}?q=$TOKEN | grep -q placeholder"));
    assert_eq!((named.a.heard_now(), named.b.heard_now()), (String::new(), String::new()));
    // In path and body it stays what it is.
    assert_eq!(call(&format!("{CURL} -d \"body $TOKEN\" {a}$TOKEN")), "hello\n");
    let heard = named.a.heard_now();
    assert_eq!((heard.matches("oa_cred_").count(), heard.matches(SECRET).count()), (2, 1), "{heard}");
    // Other fields are the command's own.
    assert_eq!(field(&b, "X: y"), "hello\n");
    assert!(named.b.heard_now().contains("X: y\r\n"));
    assert_eq!(field(&a, "Authorization: Bearer mine"), "hello\n");
    assert!(named.a.heard_now().contains("Authorization: Bearer mine\r\n"));
    // Methods that give back what was sent have none.
    assert_eq!(call(&format!("{CURL} -X TRACE {a}; {CURL} -X OPTIONS {a}")), "hello\nhello\n");
    assert!(!named.a.heard_now().contains(SECRET));
}

#[test]
fn the_secret_is_nowhere_else() {
    let Some(named) = Named::new() else { return };
    let world = &named.world;
    let python = "import os, re, subprocess, sys\n\
         secret = b'-of-this-test'\n\
         secret = b's3cret' + secret\n\
         url = sys.argv[1]\n\
         print(subprocess.run(['curl', '-sS', url], stdout=subprocess.PIPE).stdout.decode(), end='')\n\
         found = []\n\
         def look(name, read):\n    \
             try:\n        \
                 if secret in read(): found.append(name)\n    \
             except (OSError, ValueError): pass\n\
         for pid in filter(str.isdigit, os.listdir('/proc')):\n    \
             for what in ('environ', 'cmdline'):\n        \
                 name = f'/proc/{pid}/{what}'\n        \
                 look(name, lambda: open(name, 'rb').read())\n\
         for top in ('/tmp', '/dev/shm', os.environ['HOME'], os.getcwd(), '/etc'):\n    \
             for place, _, files in os.walk(top):\n        \
                 for file in files:\n            \
                     name = os.path.join(place, file)\n            \
                     look(name, lambda: open(name, 'rb').read() if os.path.isfile(name) else b'')\n\
         print(found)";
    let spec = "type=https_bearer,host=a.test,env=TOKEN";
    let options = ["--credential", spec, "--result", "result", "--audit-log", "audit", "--net-log", "net", "-vv"];
    let url = named.url("a.test");
    let words = [&options[..], &["--", "python3", "-c", python, &url]].concat();
    named.run(words).env("TOKEN", SECRET).done().code(0).stdout("hello\n[]\n").stderr_lacks(SECRET);
    assert!(named.a.heard().contains(SECRET));
    for file in ["result", "audit", "net"] {
        let text = world.read(&format!("w/{file}"));
        assert!(text.contains("a.test") && !text.contains(SECRET), "{text}");
    }
    for option in ["--dry-run", "--dry-run=json", "--print-policy", "--print-policy=toml"] {
        let done = named.run(["--credential", spec, option, "--", "true"]).env("TOKEN", SECRET).done().code(0);
        done.stdout_has(spec).stdout_lacks(SECRET).stderr_lacks(SECRET);
    }
    // What is hashed does not depend on it.
    let hash = |secret: &str| {
        named.sh(&["--credential", spec, "--result", "result"], "true").env("TOKEN", secret).done().code(0);
        let result: Value = serde_json::from_str(&world.read("w/result")).unwrap();
        result["policy_sha256"].as_str().unwrap().to_owned()
    };
    assert_eq!(hash(SECRET), hash("another one"));
}

#[test]
fn the_memory_of_the_command_has_no_secret() {
    let Some(named) = Named::new() else { return };
    // All that a process of the sandbox can read of itself, and of the others.
    let python = "import os, re, sys\n\
        part = 'of-this-test'\n\
        secret = ('s3cret', part)\n\
        found = 0\n\
        for pid in filter(str.isdigit, os.listdir('/proc')):\n    \
            try:\n        \
                maps = open(f'/proc/{pid}/maps').read().splitlines(); memory = open(f'/proc/{pid}/mem', 'rb')\n    \
            except OSError: continue\n    \
            for line in maps:\n        \
                low, high = (int(n, 16) for n in line.split()[0].split('-'))\n        \
                if 'r' not in line.split()[1] or high - low > 1 << 28: continue\n        \
                try:\n            \
                    memory.seek(low); found += re.search(bytes(secret[0], 'ascii') + b'[-]' + bytes(part, 'ascii'), memory.read(high - low)) is not None\n        \
                except (OSError, ValueError, OverflowError): pass\n\
        print(found)";
    let call = |spec: &[&str], token: &str| {
        let words = [spec, &["-e", "TOKEN", "--", "python3", "-c", python]].concat();
        named.run(words).env("TOKEN", token).done().code(0).out()
    };
    assert_eq!(call(&["--credential", "type=https_bearer,host=a.test,env=TOKEN"], SECRET), "0\n");
    // The search finds what is there.
    assert_ne!(call(&[], SECRET), "0\n");
}

#[test]
fn a_file_with_a_secret_cannot_be_read_inside() {
    let Some(named) = Named::new() else { return };
    let world = &named.world;
    world.write("o/token", format!("{SECRET}\n"));
    world.write("o/other", "other\n");
    let file = world.text("o/token");
    let (grant, spec) = (world.text("o"), format!("type=https_bearer,host=a.test,file={file}"));
    let script = format!("cat {file} {grant}/other; {CURL} {}", named.url("a.test"));
    // A pipe is read once, here.
    let options = ["--credential", "type=https_bearer,host=a.test,file=/dev/stdin"];
    let curl = format!("{CURL} {}; cat", named.url("a.test"));
    named.sh(&options, &curl).stdin(SECRET).done().is(0, "hello\n", "");
    assert!(named.a.heard_now().contains(&format!("Bearer {SECRET}\r\n")));
    for grants in [&["-r", &grant][..], &["-r", &file, "-r", &grant], &["-w", &grant]] {
        let options = [grants, &["--credential", &spec]].concat();
        named.sh(&options, &script).done().code(0).stdout("other\nhello\n");
        assert!(named.a.heard_now().contains(&format!("Bearer {SECRET}\r\n")));
    }
    named.sh(&["-r", &grant], &format!("cat {file}")).done().is(0, &format!("{SECRET}\n"), "");
    // By a document as well; a relative path is one of the working directory.
    world.write("w/token", SECRET);
    world.write("w/policy.toml", "credentials = [\"type=https_bearer,host=a.test,file=token\"]\n");
    named.sh(&["--policy", "policy.toml"], "cat token").done().is(0, "", "");
}

#[test]
fn a_command_runs_outside_and_once() {
    let Some(named) = Named::new() else { return };
    let world = &named.world;
    let spec = format!(
        "type=https_bearer,host=a.test,command=echo run >>{}; printf '%s\\n' {SECRET}, | tr -d ,",
        world.text("o/runs")
    );
    // The first backend cannot start it.
    let options = ["-b", "bwrap", "--credential", &spec];
    named.sh(&options, &format!("{CURL} {}; cat {}", named.url("a.test"), world.text("o/runs"))).done().code(1);
    assert!(named.a.heard_now().contains(&format!("Bearer {SECRET}\r\n")));
    assert_eq!(world.read("o/runs"), "run\n");
    // Whoever only asks does not start it.
    for option in ["--dry-run", "--print-policy"] {
        named.run(["--credential", &spec, option, "--", "true"]).done().code(0);
    }
    named.run(["--credential", &spec, "--explain", "/etc/passwd", "--", "true"]).done().code(0);
    assert_eq!(world.read("o/runs"), "run\n");
    let failing = "type=https_bearer,host=a.test,command=echo locked >&2; exit 3";
    let done = named.sh(&["-w", ".", "--credential", failing], "touch started").done();
    done.refused(125, &["command 'echo locked >&2; exit 3' fails", "locked"]);
    // A file that lies about does not say what is started outside.
    world.write("w/policy.toml", "credentials = ['type=https_bearer,host=a.test,command=touch made; echo x']\n");
    let done = named.sh(&["--policy", "policy.toml"], "true").done();
    done.refused(125, &["credentials", "only --credential on the command line"]);
    assert!(!world.has("w/started") && !world.has("w/made"));
}

#[test]
fn the_authority_is_one_of_the_run_and_its_key_is_nowhere() {
    let Some(named) = Named::new() else { return };
    let spec = "type=https_bearer,host=a.test,env=TOKEN";
    let call = |script: &str| named.sh(&["--credential", spec], script).env("TOKEN", SECRET).done();
    // One file, which all variables name, with what the host trusts and one more.
    let variables =
        "SSL_CERT_FILE CURL_CA_BUNDLE REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS GIT_SSL_CAINFO PIP_CERT CARGO_HTTP_CAINFO";
    let script = format!(
        "for name in {variables}; do eval \"echo \\$$name\"; done | sort -u; grep -c BEGIN $SSL_CERT_FILE; stat -c %a $SSL_CERT_FILE"
    );
    call(&script).code(0).stdout_has(".sandbox-run-ca.pem\n").stdout_has("\n444\n");
    let last = "awk '/BEGIN/ { text = \"\" } { text = text $0 } END { print text }' $SSL_CERT_FILE";
    let (first, second) = (call(last).code(0).out(), call(last).code(0).out());
    assert!(first.starts_with("-----BEGIN CERTIFICATE") && first != second, "{first}");
    let keys = "grep -rlE 'BEGIN ([A-Z]+ )?PRIVATE' /tmp /dev/shm \"$HOME\" . 2>/dev/null; env | grep -c PRIVATE";
    call(keys).code(1).stdout("0\n");
    // Outside nothing is left of it.
    call("cat $SSL_CERT_FILE >kept").code(2);
    let kept = call("cat $SSL_CERT_FILE").code(0).out();
    named.world.write("o/kept", kept);
    assert!(std::fs::metadata("/tmp/.sandbox-run-ca.pem").is_err());
    let bundle = named.world.text("o/kept");
    let url = named.url("a.test");
    let script = format!("{CURL} --cacert {bundle} {url}");
    named.sh(&["--credential", spec, "-r", &bundle], &script).env("TOKEN", SECRET).done().code(60);
    // Where no room is for it, nothing starts; where /tmp is the host's, it lies elsewhere.
    named
        .sh(&["-b", "bwrap", "--credential", spec, "--tmp-size", "4K"], "true")
        .env("TOKEN", SECRET)
        .done()
        .refused(125, &["put the certificates of the proxy where programs find them"])
        .stderr_has("--tmp-size");
    let done = named.sh(&["--credential", spec, "-w", "/tmp"], "echo $SSL_CERT_FILE").env("TOKEN", SECRET).done();
    done.code(0).stdout("/dev/shm/.sandbox-run-ca.pem\n");
    // Whom nobody trusts outside is not trusted inside.
    let stranger = Server::start(&Authority::new(), "a.test");
    let rules = [format!("a.test:{}", stranger.port), format!("127.0.0.1:{}", stranger.port)];
    let options = ["--credential", spec, "--allow-host", &rules[0], "--allow-host", &rules[1]];
    let url = format!("https://a.test:{}/", stranger.port);
    let script = format!("{CURL} -w '%{{http_code}}' {url}");
    named.sh(&options, &script).env("TOKEN", SECRET).done().code(0).stdout_has("cannot speak TLS").stdout_has("502");
    assert_eq!(stranger.heard(), "");
}

#[test]
fn what_cannot_be_kept_starts_nothing() {
    let world = World::new();
    world.write("w/empty", "");
    let refused = |options: &[&str], words: &[&str]| {
        let words: Vec<&str> = words.to_vec();
        let options = [&["-w", ".", "-b", "bwrap"], options].concat();
        world.sh(options, "touch started").env("TOKEN", SECRET).env("OTHER", SECRET).done().refused(125, &words);
        assert!(!world.has("w/started"), "{words:?}");
    };
    let spec = "type=https_bearer,host=a.test,env=TOKEN";
    let allowed = ["--allow-host", "a.test", "--credential"];
    refused(&["--credential", spec], &["without the proxy of --allow-host"]);
    refused(&["--allow-host", "b.test", "--credential", spec], &["'a.test'", "no rule lets requests reach that host"]);
    for (spec, words) in [
        ("type=https_bearer,host=a.test", &["has none of 'env', 'file' and 'command'"][..]),
        ("type=https_bearer,host=*.a.test,env=TOKEN", &["a host with '*'"]),
        ("type=bearer,host=a.test,env=TOKEN", &["unknown type 'bearer'"]),
        ("type=https_bearer,host=a.test,env=UNSET", &["the variable 'UNSET' is not set"]),
        ("type=https_bearer,host=a.test,file=/nope", &["the file '/nope' cannot be read: no such file or directory"]),
        ("type=https_bearer,host=a.test,file=empty", &["the file 'empty' is empty"]),
        ("type=https_bearer,host=a.test,command=printf 'a\\nb'", &["more than one line"]),
    ] {
        refused(&[&allowed[..], &[spec]].concat(), &[&["--credential"], words].concat());
    }
    let twice = [&allowed[..], &[spec, "--credential", "type=https_basic,host=a.test,env=OTHER"]].concat();
    refused(&twice, &["the same field 'Authorization'"]);
    // What would go in by another way.
    refused(&[&allowed[..], &[spec, "-e", "OTHER"]].concat(), &["the variable 'OTHER' of the command has the secret"]);
    let typed = format!("TOKEN=x {SECRET}");
    refused(&[&allowed[..], &[spec, "-e", &typed]].concat(), &["the variable 'TOKEN' of the command has the secret"]);
    let done = world.sh([&allowed[..], &[spec]].concat(), &format!("echo {SECRET}")).env("TOKEN", SECRET).done();
    done.refused(125, &["an argument of the command has the secret"]);
    let options = [&["-b", "none", "--allow-gap", "network"], &allowed[..], &[spec]].concat();
    let done = world.sh(options, "true").env("TOKEN", SECRET).done();
    done.refused(125, &["credential for 'a.test' (--credential) under backend 'none'"]);
    world.sh([&allowed[..], &[spec]].concat(), "echo started").env("TOKEN", SECRET).done().is(0, "started\n", "");
}
