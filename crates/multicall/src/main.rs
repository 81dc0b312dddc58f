//! The one program of the operator's image.

use std::process::ExitCode;

use multicall::{Program, program};

/// In place of musl's, which is made for small programs: with it the operator takes half as much memory again, and half as
/// much time for a round (docs/adr/0008-the-cache.md).
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match program(std::env::args_os().next().as_deref()) {
        Program::Operator => controller::process::run(std::env::args_os()),
        Program::Command => cli::process::run(std::env::args_os()),
    }
}
