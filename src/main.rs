//! The program: becomes the inner stage when it is one, otherwise makes one call and leaves with its status.

use std::process::ExitCode;

use sandbox_run::exit::Status;
use sandbox_run::{call, stage, sys};

fn main() -> ExitCode {
    stage::inner::claim();
    let status = call::run(std::env::args_os().skip(1));
    if status == Status::Interrupted {
        // A shell leaves its loop only when its child died of Ctrl-C, not when it reports that something else did.
        sys::signals::die_of_interrupt();
    }
    ExitCode::from(status.code())
}
