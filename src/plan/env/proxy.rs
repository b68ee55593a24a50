//! The variables by which programs find a proxy.

/// Names and values for a proxy on `port` of 127.0.0.1. With `loopback` it is asked for addresses of the loopback interface as
/// well, otherwise those are the sandbox's own.
pub(super) fn variables(port: u16, loopback: bool) -> Vec<(&'static str, String)> {
    let http = format!("http://127.0.0.1:{port}");
    // The one with 'h' leaves names to the proxy.
    let socks = format!("socks5h://127.0.0.1:{port}");
    let own = if loopback { "" } else { "localhost,127.0.0.1,::1" };
    let java = |scheme| format!("-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort={port}");
    let java_own = if loopback { " -Dhttp.nonProxyHosts=" } else { "" };
    let mut variables = Vec::new();
    // curl reads the first one in small letters only, others in capitals only.
    for (names, value) in [
        (["HTTP_PROXY", "http_proxy"], &http),
        (["HTTPS_PROXY", "https_proxy"], &http),
        (["ALL_PROXY", "all_proxy"], &socks),
        (["GRPC_PROXY", "grpc_proxy"], &http),
        (["NO_PROXY", "no_proxy"], &own.to_owned()),
    ] {
        variables.extend(names.map(|name| (name, value.clone())));
    }
    variables.push(("JAVA_TOOL_OPTIONS", format!("{} {}{java_own}", java("http"), java("https"))));
    variables.push(("NODE_USE_ENV_PROXY", "1".to_owned()));
    variables
}
