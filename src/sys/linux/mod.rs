//! What Linux does in its own way.

pub mod acl;
pub mod allocator;
pub mod at;
pub mod attributes;
pub mod beneath;
pub mod channel;
pub mod fd;
pub mod image;
pub mod keyring;
pub mod namespaces;
pub mod notify;
pub mod pidfd;
pub mod process;
pub mod signals;
