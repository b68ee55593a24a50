//! The only place with raw system calls and unsafe code: safe types over what the kernel offers.
//!
//! No policy here: functions do one thing, return `io::Result` or `nix::Result`, and decide nothing.
#![allow(unsafe_code)]

pub mod acl;
pub mod at;
pub mod fd;
pub mod filter;
pub mod group;
pub mod image;
pub mod inherited;
pub mod keyring;
#[cfg(target_os = "linux")]
pub mod landlock;
pub mod mounts;
pub mod pidfd;
pub mod process;
pub mod signals;
