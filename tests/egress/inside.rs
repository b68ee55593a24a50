//! Rules about methods and paths hold in https as they do in http: the proxy looks into it, and only then.

use super::named::Named;
use super::{Server, told};

#[test]
fn rules_about_paths_hold_in_https() {
    let Some(named) = Named::new() else { return };
    let port = named.a.port;
    let rule = format!("GET a.test:{port}/repos/**");
    let words = ["--allow-host".to_owned(), rule, "--allow-host".into(), format!("127.0.0.1:{port}")];
    let program = crate::harness::program();
    let curl = |more: &[&str]| {
        let command = ["--net-log", "log", "--", "curl", "-sS", "--max-time", "10"];
        let words = words.iter().map(String::as_str).chain(command).chain(more.iter().copied());
        named.call(program.to_str().unwrap(), words).done()
    };
    curl(&[&named.url("a.test/repos/x?q=1")]).is(0, "hello\n", "");
    assert!(named.a.heard_now().starts_with("GET /repos/x?q=1 HTTP/1.1\r\n"));
    curl(&[&named.url("a.test/you")]).code(0).stdout_has(&format!(
        "no rule allows GET of '/you' at 'a.test:{port}'\nsandbox-run: hint: --allow-host 'GET a.test:{port}/you'"
    ));
    curl(&["-d", "x", &named.url("a.test/repos/x")]).code(0).stdout_has("no rule allows POST of '/repos/x'");
    curl(&["--path-as-is", &named.url("a.test/repos/../you")]).code(0).stdout_has("no rule allows GET of '/you'");
    assert_eq!(named.a.heard_now(), "");
    let log = named.world.read("w/log");
    assert!(log.contains("\"path\":\"/you\"") && !log.contains("q=1"), "{log}");
}

/// The same for requests in the clear, at a port that is not the one of the web, whichever way they take.
#[test]
fn rules_about_paths_are_told_to_clients_of_socks() {
    let Some(named) = Named::new() else { return };
    let server = Server::start();
    let (at, address) = (format!("a.test:{}", server.port), format!("127.0.0.1:{}", server.port));
    let program = crate::harness::program();
    let curl = |path: &str, more: &[&str]| {
        let (rule, url) = (format!("GET {at}/repos/**"), format!("http://{at}{path}"));
        let words = ["--allow-host", &rule, "--allow-host", &address, "--", "curl", "-sS", "--max-time", "10", &url];
        named.call(program.to_str().unwrap(), words.iter().chain(more)).done().code(0)
    };
    let refused = format!(
        "sandbox-run: no rule allows GET of '/you' at '{at}'\nsandbox-run: hint: --allow-host 'GET {at}/you'\n"
    );
    for way in [&[][..], &["-p"], &["--proxy", "socks5h://127.0.0.1:3128"]] {
        curl("/repos/x", way).is(0, "hello\n", "");
        curl("/you", way).is(0, &refused, &told(&[&at]));
    }
    assert_eq!(server.heard().matches("GET ").count(), 3);
}

#[test]
fn nobody_looks_where_no_rule_wants_it() {
    let Some(named) = Named::new() else { return };
    // The certificate that arrives is the server's own, and no variable leads to another.
    let script = format!("curl -sS {}; echo \"[$SSL_CERT_FILE]\"; ls -A /tmp | grep ca.pem", named.url("a.test"));
    named.sh(&[], &script).done().is(1, "hello\n[]\n", "");
}
