//! The one program of the operator's image.

use std::process::ExitCode;

use multicall::{Program, program};

fn main() -> ExitCode {
    match program(std::env::args_os().next().as_deref()) {
        Program::Operator => controller::process::run(std::env::args_os()),
        Program::Command => cli::process::run(std::env::args_os()),
    }
}
