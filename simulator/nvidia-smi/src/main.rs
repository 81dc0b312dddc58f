//! `nvidia-smi`.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use jiff::Zoned;

/// The machine's own clock, in UTC.
struct System;

impl nvidia_smi::Clock for System {
    fn now(&self) -> Zoned {
        #[expect(clippy::disallowed_methods, reason = "the shell's one look at the clock")]
        let now = jiff::Timestamp::now();
        now.to_zoned(jiff::tz::TimeZone::UTC)
    }

    fn wait(&mut self, time: Duration) -> bool {
        #[expect(clippy::disallowed_methods, reason = "what -l asks for is to wait")]
        std::thread::sleep(time);
        true
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    ExitCode::from(nvidia_smi::run(&arguments, &mut System, &mut io::stdout(), &mut io::stderr()))
}
