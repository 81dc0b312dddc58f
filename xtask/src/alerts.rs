//! `cargo xtask alerts`: the alerts, read by Prometheus' own promtool.

use std::io::Write;
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::tools::{self, Sources};

/// Where the alerts are, and when each fires.
const FOLDER: &str = "charts/slicewright/files";

/// Checks the alerts with Prometheus' own promtool
///
/// Lints the rules, and runs the tests beside them: each alert fires, does not
/// fire, and is over. That every query uses metrics that exist, and that each
/// alert has a runbook, is checked by `cargo test -p xtask --test alerts`,
/// without promtool.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: Sources,
}

/// Runs it.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let built = tools::ensure_built(&args.sources, &[tools::Use::Alerts], out)?;
    let promtool = built.iter().find(|b| b.name == "promtool").context("promtool was not built")?;
    let checks: [&[&str]; 2] = [
        &["check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"],
        &["test", "rules", "rules.test.yaml"],
    ];
    for check in checks {
        let mut command = Command::new(&promtool.path);
        command.args(check).current_dir(crate::root().join(FOLDER));
        writeln!(out, "promtool {}", check.join(" "))?;
        out.flush()?;
        if !command.status().context("cannot run promtool")?.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}
