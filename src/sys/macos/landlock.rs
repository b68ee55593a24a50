//! There is no Landlock on this system, as on a kernel without it.

/// Version of Landlock: none.
#[must_use]
pub fn version() -> i32 {
    0
}

/// Whether abstract sockets and signals can be kept from a process by it.
#[must_use]
pub fn scopes(_: i32) -> bool {
    false
}

/// Whether writing can be.
#[must_use]
pub fn binds_writing(_: i32) -> bool {
    false
}

/// Whether emptying files can be.
#[must_use]
pub fn binds_emptying(_: i32) -> bool {
    false
}

/// Whether TCP can be.
#[must_use]
pub fn binds_ports(_: i32) -> bool {
    false
}

/// Whether sockets with a path can be.
#[must_use]
pub fn binds_sockets(_: i32) -> bool {
    false
}

/// What the kernel answers when asked for its version.
pub fn probe() -> std::io::Result<i32> {
    Err(nix::errno::Errno::ENOSYS.into())
}
