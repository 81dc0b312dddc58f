//! `cargo xtask chart`: the chart, checked by real Helm.

use std::io::Write;
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::building;
use crate::needs;
use crate::tools::{self, Sources};

/// Checks the Helm chart with real Helm
///
/// Lints it, renders every set of values under charts/slicewright/ci and
/// compares with what was reviewed, sees bad values refused, and compares the
/// rights with those of the code. Installing, upgrading and uninstalling it on
/// a real API server is a scenario: `cargo xtask e2e installation`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
}

/// What it runs.
pub(crate) const USES: &[tools::Use] = &[tools::Use::Packaging];

/// Runs it.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    needs::require("cargo xtask chart", &needs::components(&args.sources, USES))?;
    let mut command = Command::new("cargo");
    command.args([
        "test",
        "--quiet",
        "--package",
        "slicewright-packaging",
        "--locked",
        "--lib",
        "--test",
        "it",
        "--",
        "--skip",
        "olm_bundle::",
    ]);
    for binary in tools::ensure_built(&args.sources, USES, out)? {
        command.env(binary.variable(), &binary.path);
    }
    building::first(&[
        "test",
        "--no-run",
        "--package",
        "slicewright-packaging",
        "--locked",
        "--lib",
        "--test",
        "it",
    ])?;
    command.env("INSTA_UPDATE", "no");
    let status = command.current_dir(crate::root()).status().context("cannot run cargo")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(128);
    Ok(ExitCode::from(code))
}
