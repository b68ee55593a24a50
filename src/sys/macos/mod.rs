//! What macOS does in its own way. None of it was tried on a Mac; it is compiled and read.

pub mod acl;
pub mod at;
pub mod channel;
pub mod fd;
pub mod image;
pub mod keyring;
pub mod landlock;
pub mod pidfd;
pub mod process;
pub mod sandbox;
pub mod signals;
