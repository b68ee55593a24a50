//! The variables by which programs find a proxy, and whom to trust where it looks into connections.

use std::ffi::OsString;
use std::path::Path;

use crate::egress::token::Token;

/// A proxy on a port of 127.0.0.1.
#[derive(Clone, Debug)]
pub struct Proxy<'a> {
    /// Its port.
    pub port: String,
    /// What has to be said there first.
    pub token: Option<&'a Token>,
    /// Whether it is asked for addresses of the loopback interface as well; otherwise those are the sandbox's own.
    pub loopback: bool,
    /// A file with all certificates that are to be trusted.
    pub trust: Option<&'a Path>,
}

/// Variables that name a file with certificates to trust. All name the same: most programs trust what is in it instead of what
/// the system trusts, some besides.
const TRUST: &[&str] = &[
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "NPM_CONFIG_CAFILE",
    "npm_config_cafile",
    "CARGO_HTTP_CAINFO",
    "DENO_CERT",
    "AWS_CA_BUNDLE",
    "NIX_SSL_CERT_FILE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "BUNDLE_SSL_CA_CERT",
    "COMPOSER_CAFILE",
];

/// Names and values.
pub(super) fn variables(proxy: &Proxy) -> Vec<(&'static str, OsString)> {
    let Proxy { port, token, loopback, trust } = proxy;
    let user = token.map(|token| token.in_url() + "@").unwrap_or_default();
    let http = format!("http://{user}127.0.0.1:{port}");
    // The one with 'h' leaves names to the proxy.
    let socks = format!("socks5h://{user}127.0.0.1:{port}");
    let own = if *loopback { "" } else { "localhost,127.0.0.1,::1" };
    let java = |scheme| format!("-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort={port}");
    let java_own = if *loopback { " -Dhttp.nonProxyHosts=" } else { "" };
    let mut variables: Vec<(&str, OsString)> = Vec::new();
    // curl reads the first one in small letters only, others in capitals only.
    for (names, value) in [
        (["HTTP_PROXY", "http_proxy"], http.as_str()),
        (["HTTPS_PROXY", "https_proxy"], &http),
        (["ALL_PROXY", "all_proxy"], &socks),
        (["GRPC_PROXY", "grpc_proxy"], &http),
        (["NO_PROXY", "no_proxy"], own),
    ] {
        variables.extend(names.map(|name| (name, value.into())));
    }
    // Java says aloud what it finds there, and has no option for who asks.
    if token.is_none() {
        variables.push(("JAVA_TOOL_OPTIONS", format!("{} {}{java_own}", java("http"), java("https")).into()));
    }
    variables.push(("NODE_USE_ENV_PROXY", "1".into()));
    if let Some(trust) = trust {
        variables.extend(TRUST.iter().map(|name| (*name, trust.as_os_str().to_owned())));
    }
    variables
}
