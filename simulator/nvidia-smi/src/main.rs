//! `nvidia-smi`.

use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    #[expect(clippy::disallowed_methods, reason = "the shell's one look at the clock")]
    let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    ExitCode::from(nvidia_smi::run(&arguments, &now, &mut io::stdout(), &mut io::stderr()))
}
