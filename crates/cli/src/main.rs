//! `slicewright`: one call into the library.

use std::process::ExitCode;

/// In place of musl's, in the archives for Linux: as in the operator's image (docs/adr/0008-the-cache.md).
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::process::run(std::env::args_os())
}
