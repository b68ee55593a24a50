use proptest::prelude::*;

use super::*;

fn rules(texts: &[&str]) -> Rules {
    Rules::new(texts.iter().map(|text| Rule::parse(text).unwrap()).collect())
}

fn host(text: &str) -> Host {
    Host::parse(text).unwrap()
}

/// One word for what `texts` say about a connection into which nobody looks.
fn tunnel(texts: &[&str], to: &str, port: u16) -> &'static str {
    word(rules(texts).decide(&host(to), port, None))
}

fn request(texts: &[&str], method: &str, to: &str, port: u16, path: &str) -> &'static str {
    let path = RequestPath::parse(path.as_bytes()).unwrap();
    word(rules(texts).decide(&host(to), port, Some(&Inside { method, path: &path })))
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allowed(_) => "allowed",
        Verdict::Inspect(_) => "inspect",
        Verdict::Denied(Denial::Rule(_)) => "forbidden",
        Verdict::Denied(Denial::Host) => "host",
        Verdict::Denied(Denial::Port) => "port",
        Verdict::Denied(Denial::Inside) => "inside",
    }
}

#[test]
fn hosts_by_name_and_by_domain() {
    let list = ["ok.test", "*.sub.test"];
    for name in ["ok.test", "OK.test", "ok.test.", "a.sub.test", "a.b.sub.test"] {
        assert_eq!(tunnel(&list, name, 443), "allowed", "{name}");
    }
    for name in ["sub.test", "notok.test", "ok.test.evil.test", "xsub.test", "test", "127.0.0.1"] {
        assert_eq!(tunnel(&list, name, 443), "host", "{name}");
    }
}

#[test]
fn a_port_is_part_of_the_rule() {
    assert_eq!(tunnel(&["ok.test"], "ok.test", 80), "allowed");
    assert_eq!(tunnel(&["ok.test"], "ok.test", 443), "allowed");
    assert_eq!(tunnel(&["ok.test"], "ok.test", 22), "port");
    assert_eq!(tunnel(&["ok.test:22"], "ok.test", 22), "allowed");
    assert_eq!(tunnel(&["ok.test:8443"], "ok.test", 443), "port");
}

#[test]
fn addresses_and_networks() {
    assert_eq!(tunnel(&["127.0.0.1:8080"], "127.0.0.1", 8080), "allowed");
    assert_eq!(tunnel(&["127.0.0.1:8080"], "127.0.0.1", 8081), "port");
    assert_eq!(tunnel(&["127.0.0.1:8080"], "127.0.0.2", 8080), "host");
    assert_eq!(tunnel(&["127.0.0.0/8"], "127.9.9.9", 80), "allowed");
    assert_eq!(tunnel(&["127.0.0.0/8:22"], "127.9.9.9", 22), "allowed");
    assert_eq!(tunnel(&["127.0.0.0/8"], "128.0.0.1", 80), "host");
    assert_eq!(tunnel(&["[::1]:80"], "[::1]", 80), "allowed");
    assert_eq!(tunnel(&["[fd00::]/8:443", "[fe80::/10]"], "[fd12::1]", 443), "allowed");
    assert_eq!(tunnel(&["[fd00::]/8:443", "[fe80::/10]"], "[fe80::1]", 80), "allowed");
    assert_eq!(tunnel(&["[fd00::]/8:443", "[fe80::/10]"], "[fe00::1]", 80), "host");
    assert_eq!(tunnel(&["127.0.0.1"], "[::ffff:127.0.0.1]", 80), "allowed");
    assert_eq!(tunnel(&["0.0.0.0/0"], "[::1]", 80), "host");
    assert_eq!(tunnel(&["[::]/0"], "[::1]", 80), "allowed");
    assert_eq!(tunnel(&["[::]/0"], "1.2.3.4", 80), "host");
    assert_eq!(request(&["127.0.0.1/api"], "GET", "127.0.0.1", 80, "/api"), "allowed");
    assert_eq!(request(&["10.0.0.0/8/api/**"], "GET", "10.1.1.1", 80, "/api/x"), "allowed");
    assert_eq!(request(&["10.0.0.0/8:80/api/**"], "GET", "10.1.1.1", 80, "/x"), "inside");
}

#[test]
fn methods_and_paths_are_seen_in_requests_only() {
    let list = ["GET,post ok.test/repos/me/**"];
    for (method, path, verdict) in [
        ("GET", "/repos/me/x", "allowed"),
        ("POST", "/repos/me", "allowed"),
        ("get", "/repos/me", "inside"),
        ("HEAD", "/repos/me", "inside"),
        ("GET", "/repos/me/../../admin", "inside"),
        ("GET", "/repos/me2", "inside"),
    ] {
        assert_eq!(request(&list, method, "ok.test", 80, path), verdict, "{method} {path}");
    }
    assert_eq!(tunnel(&list, "ok.test", 443), "inspect");
    assert_eq!(tunnel(&["* ok.test", "ok.test/**"], "ok.test", 443), "allowed");
    assert_eq!(request(&["* ok.test"], "PROPFIND", "ok.test", 80, "/"), "inside");
    assert_eq!(request(&["ok.test"], "PROPFIND", "ok.test", 80, "/"), "allowed");
    // What a rule says about one port says nothing about another.
    assert_eq!(tunnel(&["GET ok.test/x", "ok.test:443"], "ok.test", 443), "allowed");
    assert_eq!(tunnel(&["GET ok.test/x", "ok.test:443"], "ok.test", 80), "inspect");
}

#[test]
fn what_forbids_wins_and_is_not_evaded_by_encryption() {
    let list = ["!evil.ok.test", "*.ok.test", "!a.ok.test/admin/**", "a.ok.test:22"];
    assert_eq!(tunnel(&list, "evil.ok.test", 443), "forbidden");
    assert_eq!(tunnel(&list, "evil.ok.test", 22), "forbidden");
    assert_eq!(tunnel(&list, "b.ok.test", 443), "allowed");
    assert_eq!(tunnel(&list, "a.ok.test", 443), "inspect");
    assert_eq!(tunnel(&list, "a.ok.test", 22), "inspect");
    assert_eq!(request(&list, "GET", "a.ok.test", 80, "/admin"), "forbidden");
    assert_eq!(request(&list, "GET", "a.ok.test", 80, "//admin/x"), "forbidden");
    assert_eq!(request(&list, "GET", "a.ok.test", 80, "/public"), "allowed");
    let rules = rules(&["ok.test", "!10.0.0.0/8", "10.1.1.1:80"]);
    assert!(rules.forbids("10.1.1.1".parse().unwrap(), 80, None).is_some());
    assert!(rules.grants("10.1.1.1".parse().unwrap(), 80, None).is_some());
    assert!(rules.grants("10.1.1.1".parse().unwrap(), 443, None).is_none());
}

#[test]
fn an_address_is_granted_for_what_its_rule_says() {
    let rules = rules(&["ok.test", "GET 127.0.0.1/x"]);
    let (x, y) = (RequestPath::parse(b"/x").unwrap(), RequestPath::parse(b"/y").unwrap());
    let address = "127.0.0.1".parse().unwrap();
    assert!(rules.grants(address, 80, Some(&Inside { method: "GET", path: &x })).is_some());
    assert!(rules.grants(address, 80, Some(&Inside { method: "GET", path: &y })).is_none());
    assert!(rules.grants(address, 80, None).is_none());
}

#[test]
fn rules_that_can_never_match_are_refused() {
    for text in [
        "",
        " ",
        "!",
        "! ok.test",
        "!!ok.test",
        "* *",
        "*",
        "GET *",
        "https://ok.test",
        "GET https://ok.test/x",
        "FOO ok.test/x",
        "GET, POST ok.test/x",
        ",GET ok.test",
        "GET,,POST ok.test",
        "CONNECT ok.test",
        "ok.test:0",
        "ok.test:99999",
        "ok.test:x",
        "ok.test:",
        "ok.test:080",
        "::1",
        "[::1",
        "[::1]x",
        "[::1]]",
        "a b",
        "ok..test",
        ".ok.test",
        "*ok.test",
        "a.*.test",
        "*.",
        "**.test",
        "u@ok.test",
        "ok.test#x",
        "ok.test?x",
        "bücher.test",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "10.0.0.1/8",
        "10.0.0.0/33",
        "[fd00::1]/8",
        "[fd00::]/129",
        "[::ffff:127.0.0.1]",
        "ok.test/a/../b",
        "ok.test//a",
        "ok.test/a**",
        "ok.test/a%2fb",
        "ok.test/a\\b",
        "GET ok.test /x",
        "ok.test\0",
        "GET\nok.test",
        "ok.test:80:90",
        "10.0.0.0/99999999999",
    ] {
        assert!(Rule::parse(text).is_err(), "{text:?}");
    }
    for text in ["[::1]:80", " ok.test\n", "GET  ok.test", "!GET ok.test/x", "*.org", "get,HEAD\tok.test:8080/a/*"] {
        assert!(Rule::parse(text).is_ok(), "{text:?}");
    }
}

#[test]
fn a_refused_rule_says_what_was_meant() {
    let meant = |text| Rule::parse(text).unwrap_err().meant;
    assert_eq!(meant("https://ok.test/x").as_deref(), Some("ok.test/x"));
    assert_eq!(meant("::1").as_deref(), Some("[::1]"));
    assert_eq!(meant("10.0.0.1/8").as_deref(), Some("10.0.0.0/8"));
    assert_eq!(meant("[fd00::1]/8").as_deref(), Some("[fd00::]/8"));
    assert_eq!(
        Rule::parse("ok.test:0\n").unwrap_err().to_string(),
        "'ok.test:0\\n' has a port that is no number from 1 to 65535"
    );
}

#[test]
fn rules_that_only_forbid_are_told() {
    assert!(rules(&["!ok.test"]).only_deny());
    assert!(!rules(&["!ok.test", "no.test"]).only_deny());
    assert!(!rules(&[]).only_deny());
}

proptest! {
    #[test]
    fn reading_never_panics_and_what_is_read_reads_again(text in "\\PC{0,40}") {
        if let Ok(rule) = Rule::parse(&text) {
            prop_assert_eq!(Rule::parse(&rule.to_string()).unwrap(), rule);
        }
    }

    #[test]
    fn a_name_is_allowed_by_itself_alone(name in "[a-z]{1,8}(\\.[a-z]{1,8}){1,3}", other in "[a-z]{1,8}(\\.[a-z]{1,8}){1,3}") {
        let list = [name.as_str()];
        prop_assert_eq!(tunnel(&list, &name.to_ascii_uppercase(), 443), "allowed");
        prop_assert_eq!(tunnel(&list, &other, 443) == "allowed", name == other);
        let star = format!("*.{name}");
        prop_assert_eq!(tunnel(&[&star], &format!("{other}.{name}"), 443), "allowed");
        prop_assert_eq!(tunnel(&[&star], &format!("{other}{name}"), 443) == "allowed", format!("{other}{name}").ends_with(&format!(".{name}")));
        prop_assert_eq!(tunnel(&[&star], &name, 443), "host");
    }

    #[test]
    fn nets_contain_what_shares_their_bits(bits in 0_u8..=32, address: u32, other: u32) {
        let mask = if bits == 0 { 0 } else { u32::MAX << (32 - bits) };
        let first = std::net::Ipv4Addr::from_bits(address & mask);
        let net = Net::new(first.into(), bits).unwrap();
        prop_assert!(net.contains(std::net::Ipv4Addr::from_bits(address).into()));
        prop_assert_eq!(net.contains(std::net::Ipv4Addr::from_bits(other).into()), other & mask == address & mask);
    }
}
