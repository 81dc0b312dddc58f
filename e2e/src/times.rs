//! How long each scenario took, for `cargo xtask e2e`, which tells the slowest:
//! each is to be a few seconds.

use std::fs::File;
use std::io::Write;
use std::time::Duration;

/// The variable that names the file into which it is written.
const VARIABLE: &str = "SLICEWRIGHT_E2E_TIMES";

/// Notes how long the scenario of this thread took: a line with seconds and
/// name. Tests of one process write at the same time, each its line at once.
pub(crate) fn note(took: Duration) {
    #[expect(clippy::disallowed_methods, reason = "a test has no command line to be told by")]
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    let thread = std::thread::current();
    let line = format!("{:.1} {}\n", took.as_secs_f64(), thread.name().unwrap_or("somebody"));
    // Nothing depends on it.
    let _ =
        File::options().create(true).append(true).open(path).and_then(|mut f| f.write_all(line.as_bytes()));
}
