//! The duration of each scenario, and the skipped ones with their reasons, for `cargo xtask e2e`, which
//! prints them at its end: each should take a few seconds, and a skipped scenario must not be mistaken for
//! a passed one.

use std::fs::File;
use std::io::Write;
use std::time::Duration;

/// The variable that names the file into which it is written.
const VARIABLE: &str = "SLICEWRIGHT_E2E_TIMES";

/// Notes how long the scenario of this thread took: a line with seconds and
/// name. Tests of one process write at the same time, each its line at once.
pub(crate) fn note(took: Duration) {
    append(|name| format!("{:.1} {name}\n", took.as_secs_f64()));
}

/// Notes that the scenario of this thread was left out: a line with a dash,
/// its name, and why.
pub(crate) fn left_out(why: &str) {
    append(|name| format!("- {name}: {why}\n"));
}

fn append(line: impl FnOnce(&str) -> String) {
    #[expect(clippy::disallowed_methods, reason = "a test has no command line to be told by")]
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    let line = line(std::thread::current().name().unwrap_or("somebody"));
    // Nothing depends on it.
    let _ =
        File::options().create(true).append(true).open(path).and_then(|mut f| f.write_all(line.as_bytes()));
}
