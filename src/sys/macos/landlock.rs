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
