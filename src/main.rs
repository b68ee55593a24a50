//! The program: becomes the inner stage when it is one, otherwise makes one call and leaves with its status.

use std::process::ExitCode;

use sandbox_run::{call, stage};

fn main() -> ExitCode {
    stage::inner::claim();
    ExitCode::from(call::run(std::env::args_os().skip(1)).code())
}
