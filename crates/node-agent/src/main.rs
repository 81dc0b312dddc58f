//! `slicewright-agent`: one call into the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    node_agent::process::run(std::env::args_os())
}
