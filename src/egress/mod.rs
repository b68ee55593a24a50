//! The way out of a sandbox without a network: a relay inside, a filtering proxy outside.
//!
//! ```text
//!  target --> 127.0.0.1:PORT (relay, inside) --> Unix socket --> proxy (outside) --> server
//! ```
//!
//! Where the target has no network of its own, the proxy listens on a port of the host, and serves who says a word of the run.
//!
//! The relay carries bytes and decides nothing. The proxy is the only part outside that reads what a target wrote; it
//! starts nothing, reads no file, and knows of the policy only the rules. Nothing here starts a process: `stage` does.

pub mod credentials;
pub mod host;
pub mod path;
pub mod rules;
#[cfg(unix)]
pub mod source;
pub mod token;
pub mod upstream;

#[cfg(any(target_os = "linux", all(unix, feature = "proxy")))]
pub mod flow;
#[cfg(target_os = "linux")]
pub mod relay;

#[cfg(feature = "proxy")]
pub mod address;
#[cfg(feature = "proxy")]
pub mod body;
#[cfg(feature = "proxy")]
pub mod head;
#[cfg(feature = "proxy")]
pub mod hello;
#[cfg(all(unix, feature = "intercept"))]
pub mod intercept;
pub mod log;
#[cfg(all(unix, feature = "proxy"))]
pub mod proxy;
#[cfg(all(unix, feature = "intercept"))]
pub mod secrets;
#[cfg(feature = "proxy")]
pub mod socks;

/// Lets this process have as many descriptors as it may: connections take two each.
#[cfg(unix)]
pub fn raise_open_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // Fewer connections then, and nothing else. Some systems take no more than the second, however much is allowed.
        let _raised = [1 << 16, 10240].iter().find(|most| {
            let wanted = hard.min(**most);
            wanted > soft && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_ok()
        });
    }
}
