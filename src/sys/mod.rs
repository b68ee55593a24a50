//! The only place with raw system calls and unsafe code: safe types over what the kernel offers.
//!
//! No policy here: functions do one thing, return `io::Result` or `nix::Result`, and decide nothing. What each system does in
//! its own way has the same names in `linux` and in `macos`; this is where one of them is chosen.
#![allow(unsafe_code)]

#[cfg(target_os = "linux")]
#[path = "linux/mod.rs"]
mod system;
#[cfg(target_os = "macos")]
#[path = "macos/mod.rs"]
mod system;

pub mod at;
pub mod fd;
pub mod filter;
#[cfg(any(test, target_os = "macos"))]
mod frames;
#[cfg(target_os = "linux")]
pub mod group;
pub mod inherited;
#[cfg(target_os = "linux")]
pub mod landlock;
#[cfg(target_os = "linux")]
pub mod mounts;
pub mod process;
pub mod signals;
pub mod streams;

pub use system::{acl, channel, image, keyring, pidfd};
#[cfg(target_os = "linux")]
pub use system::{allocator, attributes, beneath, namespaces, notify};
#[cfg(target_os = "macos")]
pub use system::{landlock, sandbox};
