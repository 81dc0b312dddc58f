//! `slicewright-sim`: arguments in, one call into the library, an exit status out.

use std::io::Write;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    match sim_cli::run(std::env::args_os(), &mut std::io::stdout()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Whoever closed standard error does not want to know.
            let _ = writeln!(std::io::stderr(), "slicewright-sim: {}", sim_cli::in_one_line(&error));
            ExitCode::FAILURE
        }
    }
}
