//! `slicewright-operator`: one call into the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    controller::process::run(std::env::args_os())
}
