//! `cargo xtask sanitize`: the tests of the simulated NVML under AddressSanitizer, which sees every access of
//! the library to memory that is not the caller's or its own.

use std::io::Write;
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};

use crate::needs::{self, NIGHTLY};

/// Runs the tests of the simulated libnvidia-ml.so.1 under AddressSanitizer
///
/// Needs a nightly toolchain. The library and the programs that load it are
/// compiled for it, in a folder of their own.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only tests whose names contain one of these
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// The library is loaded by the tests, so that it finds the sanitizer's functions in their program.
const FLAGS: &str = "-Zsanitizer=address -Clink-args=-rdynamic";

/// A thread that may make no system call: the sanitizer makes some.
const LEFT_OUT: &str = "silence::";

/// Runs it.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    needs::require("cargo xtask sanitize", &[NIGHTLY])?;
    let here = std::env::current_exe()?;
    let folder = here.ancestors().nth(2).context("cannot find the target folder")?.join("sanitize");
    // With a target of its own, what runs while it is built (macros) is compiled without.
    let machine = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let test = |rest: &[&str]| {
        let mut test = Command::new("cargo");
        test.args(["+nightly", "test", "--locked", "--target", &machine]);
        test.args(["--package", "slicewright-sim-libnvml", "--test", "it"]).args(rest);
        test.env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", &folder).current_dir(crate::root());
        // A process keeps its handles until it ends.
        test.env("ASAN_OPTIONS", "detect_leaks=0");
        test.status().context("cannot run cargo")
    };
    ensure!(test(&["--no-run"])?.success(), "the tests do not build");
    let names: Vec<_> = args.names.iter().map(String::as_str).collect();
    let passed = test(&[&["--", "--skip", LEFT_OUT], &names[..]].concat())?.success();
    writeln!(out, "AddressSanitizer {}", if passed { "found nothing" } else { "or a test found something" })?;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
