//! Requests within TLS that is looked into: rules about paths, secrets, and whom the proxy trusts.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::*;
use crate::egress::credentials::Spec;
use crate::egress::intercept::{Interception, Roots};
use crate::egress::secrets::Credential;

/// An authority of the test, and what it trusts.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// A server for `names` that remembers what it was told within TLS and answers `answer`.
    fn server(&self, names: &[&str], answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Server {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap().der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let config = Arc::new(config);
        let heard = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&heard);
        let server = Server::start(move |stream, _| {
            let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
            let head = head_of(&mut stream);
            all.lock().unwrap().extend_from_slice(head.as_bytes());
            if !head.is_empty() {
                let _sent = stream.write_all(answer(&head).as_bytes());
                stream.conn.send_close_notify();
                let _flushed = stream.flush();
            }
        });
        Server { heard, ..server }
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn hello(_: &str) -> String {
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".into()
}

fn inspection(authority: &Authority, credentials: &[(&str, &str)]) -> Inspection {
    let mut roots = Roots::default();
    roots.add(authority.certificate.clone());
    let credential = |(index, (spec, secret)): (usize, &(&str, &str))| {
        Credential::new(&Spec::parse(spec).unwrap(), secret.as_bytes(), &format!("oa_cred_{index:048}")).unwrap()
    };
    Inspection {
        interception: Interception::new(&roots).unwrap(),
        credentials: credentials.iter().enumerate().map(credential).collect(),
    }
}

/// Asks within TLS, through a tunnel to `host`, as a client that trusts what the target is told to trust.
fn ask(world: &World, host: &str, port: u16, request: &str) -> io::Result<String> {
    use rustls::pki_types::pem::PemObject;
    let inspection = world.proxy.inspection.as_ref().unwrap();
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(inspection.interception.bundle().as_bytes()) {
        roots.add(root.unwrap()).unwrap();
    }
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tunnel = world.tunnel(&format!("{host}:{port}")).map_err(io::Error::other)?;
    let name = ServerName::try_from(host.to_owned()).unwrap();
    let mut stream = StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), tunnel);
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn plain(host: &str, port: u16, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n")
}

#[test]
fn rules_about_paths_hold_within_tls() {
    let authority = Authority::new();
    let server = authority.server(&["ok.test"], hello);
    let port = server.port;
    let mut setup = setup(&[&format!("GET ok.test:{port}/repos/**"), &format!("127.0.0.1:{port}")]);
    setup.inspection = Some(inspection(&authority, &[]));
    let world = setup.start();
    assert!(ask(&world, "ok.test", port, &plain("ok.test", port, "/repos/x?q")).unwrap().ends_with("hello"));
    assert_eq!(server.heard(), format!("GET /repos/x?q HTTP/1.1\r\nHost: ok.test:{port}\r\nConnection: close\r\n\r\n"));
    for (request, status) in [
        (plain("ok.test", port, "/you"), "403"),
        (plain("ok.test", port, "/repos/../you"), "403"),
        (plain("no.test", port, "/repos/x"), "421"),
        (plain("ok.test", port, "/repos/x").replace("GET", "POST"), "403"),
        (plain("ok.test", port, "/repos/x").replace("\r\n", "\n"), "400"),
    ] {
        let answer = ask(&world, "ok.test", port, &request).unwrap();
        assert_eq!(answer.get(9..12), Some(status), "{request} {answer}");
    }
    let answer = ask(&world, "ok.test", port, &plain("ok.test", port, "/you")).unwrap();
    assert!(answer.contains(&format!("--allow-host 'GET ok.test:{port}/you'")), "{answer}");
    assert_eq!(server.heard().matches("GET ").count(), 1);
    let lines = world.lines(7);
    assert_eq!(
        (&lines[0]["kind"], &lines[0]["path"], &lines[0]["verdict"]),
        (&"https".into(), &"/repos/x".into(), &"allowed".into())
    );
    // What cannot be looked into does not pass.
    let mut stream = world.tunnel(&format!("ok.test:{port}")).unwrap();
    stream.write_all(b"\0\0").unwrap();
    assert_eq!(rest(&mut stream), "");
}

#[test]
fn a_server_is_verified_by_what_the_host_trusts() {
    let authority = Authority::new();
    for (server, reason) in [
        (Authority::new().server(&["ok.test"], hello), "invalid peer certificate"),
        (authority.server(&["no.test"], hello), "not valid for name"),
    ] {
        let port = server.port;
        let mut setup = setup(&[
            &format!("ok.test:{port}/**"),
            &format!("GET ok.test:{port}"),
            &format!("127.0.0.1:{port}"),
            "!ok.test/x",
        ]);
        setup.inspection = Some(inspection(&authority, &[]));
        let world = setup.start();
        let answer = ask(&world, "ok.test", port, &plain("ok.test", port, "/")).unwrap();
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        assert!(answer.contains(reason), "{answer}");
        assert_eq!(server.heard(), "");
    }
    // Its own authority is nobody outside: what it signs is for inside.
    let (one, other) = (inspection(&authority, &[]), inspection(&authority, &[]));
    assert_ne!(one.interception.authority(), other.interception.authority());
    assert!(one.interception.bundle().ends_with(one.interception.authority()));
    assert!(!one.interception.bundle().contains("PRIVATE"));
}

#[test]
fn a_secret_reaches_its_host_and_no_other() {
    let authority = Authority::new();
    let server = authority.server(&["ok.test", "no.test"], |head| {
        // A server that tells what it was told.
        let told = head.lines().find(|line| line.starts_with("Authorization")).unwrap_or("X: y");
        format!("HTTP/1.1 200 OK\r\nX-Echo: {told}\r\nX-Other: z\r\nContent-Length: 5\r\n\r\nhello")
    });
    let port = server.port;
    let rules = [format!("ok.test:{port}"), format!("no.test:{port}"), format!("127.0.0.1:{port}")];
    let mut setup = setup(&[&rules[0], &rules[1], &rules[2]]);
    setup.inspection = Some(inspection(&authority, &[("type=https_bearer,host=ok.test,env=T", "s3cret")]));
    let world = setup.start();
    let placeholder = world.proxy.inspection.as_ref().unwrap().credentials[0].placeholder().to_owned();
    let with = |host: &str, fields: &str| plain(host, port, "/").replace("\r\n\r\n", &format!("\r\n{fields}\r\n\r\n"));

    let answer = ask(&world, "ok.test", port, &plain("ok.test", port, "/")).unwrap();
    assert!(answer.ends_with("hello") && answer.contains("X-Other: z") && !answer.contains("s3cret"), "{answer}");
    assert!(server.heard().contains("Authorization: Bearer s3cret\r\n"), "{}", server.heard());
    let held = format!("Authorization: Bearer {placeholder}");
    assert!(ask(&world, "ok.test", port, &with("ok.test", &held)).unwrap().ends_with("hello"));
    assert_eq!(server.heard().matches("Authorization: Bearer s3cret\r\n").count(), 2);
    let trace = plain("ok.test", port, "/").replace("GET", "TRACE");
    assert!(ask(&world, "ok.test", port, &trace).unwrap().ends_with("hello"));
    assert_eq!(server.heard().matches("s3cret").count(), 2);
    let answer = ask(&world, "ok.test", port, &with("ok.test", &format!("X: {placeholder}"))).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("X-Sandbox-Run: credential"), "{answer}");

    // In the clear neither the secret nor what stands for it is passed on.
    let clear = get("ok.test", port, "/").replace("\r\n\r\n", &format!("\r\n{held}\r\n\r\n"));
    assert!(world.ask(clear).starts_with("HTTP/1.1 403 "));
    // Another host is not looked into, and what the client trusts there is what the host trusts.
    assert!(ask(&world, "no.test", port, &plain("no.test", port, "/")).unwrap().ends_with("hello"));
    assert_eq!(server.heard().matches("s3cret").count(), 2);
    assert!(!std::fs::read_to_string(&world.log).unwrap().contains("s3cret"));
}

#[test]
fn a_secret_is_added_for_whom_the_proxy_is_for_and_nobody_else() {
    let authority = Authority::new();
    let server = authority.server(&["ok.test"], hello);
    let port = server.port;
    let mut setup = setup(&[&format!("ok.test:{port}"), &format!("127.0.0.1:{port}")]);
    setup.inspection = Some(inspection(&authority, &[("type=https_bearer,host=ok.test,env=T", "s3cret")]));
    setup.token = Some(Token::new("user:pass"));
    let world = setup.start();
    let stranger = world.ask(format!("CONNECT ok.test:{port} HTTP/1.1\r\nHost: ok.test:{port}\r\n\r\n"));
    assert!(stranger.starts_with("HTTP/1.1 407 "), "{stranger}");
    assert_eq!(server.connections(), 0);
    assert!(ask(&world, "ok.test", port, &plain("ok.test", port, "/")).unwrap().ends_with("hello"));
    assert!(server.heard().contains("Authorization: Bearer s3cret\r\n"), "{}", server.heard());
    // What is denied within the tunnel is the run's.
    let trace = plain("ok.test", port, "/").replace("\r\n\r\n", "\r\nTransfer-Encoding: x\r\n\r\n");
    assert!(ask(&world, "ok.test", port, &trace).unwrap().starts_with("HTTP/1.1 "));
    assert_eq!((world.sums().allowed, world.sums().denied, world.lines(2).len()), (1, 1, 2));
}

#[test]
fn clients_that_trust_nobody_are_told_of_in_the_log() {
    let authority = Authority::new();
    let server = authority.server(&["ok.test"], hello);
    let port = server.port;
    let mut setup = setup(&[&format!("GET ok.test:{port}"), &format!("127.0.0.1:{port}")]);
    setup.inspection = Some(inspection(&authority, &[]));
    let world = setup.start();
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let tunnel = world.tunnel(&format!("ok.test:{port}")).unwrap();
    let name = ServerName::try_from("ok.test").unwrap();
    let mut stream = StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), tunnel);
    assert!(stream.write_all(b"GET / HTTP/1.1\r\n\r\n").and_then(|()| stream.read(&mut [0])).is_err());
    drop(stream);
    let line = &world.lines(1)[0];
    assert_eq!((&line["verdict"], &line["reason"]), (&"denied".into(), &"opening".into()));
    assert_eq!(server.heard(), "");
}

#[test]
fn large_bodies_cross_what_is_looked_into() {
    const LENGTH: usize = 8 * 1024 * 1024;
    let authority = Authority::new();
    let server = authority.server(&["ok.test"], |_| {
        format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n{}", "0123456789abcdef".repeat(LENGTH / 16))
    });
    let port = server.port;
    let mut setup = setup(&[&format!("GET ok.test:{port}"), &format!("127.0.0.1:{port}")]);
    setup.inspection = Some(inspection(&authority, &[]));
    let world = setup.start();
    let answer = ask(&world, "ok.test", port, &plain("ok.test", port, "/")).unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    assert_eq!(body.len(), LENGTH);
    assert!(body.as_bytes().chunks(16).all(|piece| piece == b"0123456789abcdef"));
}
