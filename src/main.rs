//! The program: becomes the inner stage when it is one, otherwise makes one call and leaves with its status.

#[cfg(all(target_os = "linux", target_env = "musl"))]
#[global_allocator]
static ALLOCATOR: sandbox_run::sys::allocator::Allocator = sandbox_run::sys::allocator::Allocator::new();

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    use sandbox_run::error::Kind;
    use sandbox_run::exit::Status;
    use sandbox_run::{call, stage, sys};

    stage::inner::claim();
    let status = call::run(std::env::args_os().skip(1));
    match status {
        // A shell leaves its loop only when its child died of Ctrl-C, not when it reports that something else did.
        Status::Interrupted => sys::signals::die_of(libc::SIGINT),
        Status::Failed(Kind::Interrupted(signal)) => sys::signals::die_of(signal),
        _ => {}
    }
    std::process::ExitCode::from(status.code())
}

/// A status has 32 bits here, and an `ExitCode` eight.
#[cfg(windows)]
fn main() {
    let code = sandbox_run::call::run(std::env::args_os().skip(1));
    std::process::exit(code.cast_signed());
}
