//! `slicewright`: arguments in, one call into the library, an exit status out.

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut stdout = std::io::stdout().lock();
    let status = cli::run(std::env::args_os(), &mut stdout, &mut std::io::stderr().lock());
    // A reader that went away (`slicewright fleet | head`) is not an error of ours.
    let _ = stdout.flush();
    status.into()
}
