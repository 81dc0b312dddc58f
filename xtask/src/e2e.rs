//! `cargo xtask e2e`: scenarios on a real control plane.

use std::io::Write;
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::tools::{self, Sources};

/// Runs the scenarios on a real control plane
///
/// Each NAME selects the scenarios whose name contains it; without one all
/// run. The control plane is built first where that has not happened yet
/// (`cargo xtask tools`).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where they run
    #[arg(long, value_enum, default_value_t = Provider::Processes, env = PROVIDER)]
    provider: Provider,
    /// How many run at a time, each on a control plane of its own
    /// [default: one for each core]
    #[arg(long, value_name = "N")]
    jobs: Option<u16>,
    /// Run those of the release check instead: with real Flux and OLM
    #[arg(long)]
    release: bool,
    /// List the scenarios and stop
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    sources: Sources,
    /// Parts of the names of scenarios
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// How the tests are told where to run.
const PROVIDER: &str = "SLICEWRIGHT_E2E_PROVIDER";

/// How the tests are told where to write how long they took.
const TIMES: &str = "SLICEWRIGHT_E2E_TIMES";
/// How many of the slowest are told.
const TOLD: usize = 5;

/// The scenarios that took longest, slowest first, from lines of seconds and
/// name.
fn slowest(taken: &str) -> Vec<String> {
    let read = |line: &str| {
        let (seconds, name) = line.split_once(' ')?;
        Some((seconds.parse::<f64>().ok()?, name.to_owned()))
    };
    let mut all: Vec<_> = taken.lines().filter_map(read).collect();
    all.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    all.truncate(TOLD);
    all.into_iter().map(|(seconds, name)| format!("{seconds:>6.1} s  {name}")).collect()
}

/// Where scenarios run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Provider {
    /// A control plane of plain processes on this machine
    Processes,
    /// The cluster of the current kubeconfig: only what a scenario made is removed
    Kubeconfig,
}

/// Runs it.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let mut command = Command::new("cargo");
    command.args(["test", "--quiet", "--package", "slicewright-e2e", "--locked"]);
    // What the harness promises is tested with the scenarios, unless some are named.
    if args.names.is_empty() && !args.list && !args.release {
        command.arg("--lib");
    }
    let target = if args.release { "release" } else { "scenarios" };
    command.args(["--test", target, "--"]).args(&args.names);
    if args.list {
        command.arg("--list");
    } else if let Provider::Processes = args.provider {
        let mut uses = vec![tools::Use::ControlPlane, tools::Use::Packaging];
        uses.extend(args.release.then_some(tools::Use::Release));
        for binary in tools::ensure_built(&args.sources, &uses, out)? {
            command.env(binary.variable(), &binary.path);
        }
    }
    if let Some(jobs) = args.jobs {
        command.arg(format!("--test-threads={jobs}"));
    }
    let provider = match args.provider {
        Provider::Processes => "processes",
        Provider::Kubeconfig => "kubeconfig",
    };
    let times = std::env::temp_dir().join(format!("slicewright-e2e-times-{}", std::process::id()));
    command.env(PROVIDER, provider).env("INSTA_UPDATE", "no").env(TIMES, &times);
    let status = command.current_dir(crate::root()).status().context("cannot run cargo")?;
    let taken = std::fs::read_to_string(&times).unwrap_or_default();
    // It may never have been made.
    let _ = std::fs::remove_file(&times);
    for line in slowest(&taken) {
        writeln!(out, "{line}")?;
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(128);
    Ok(ExitCode::from(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_are_told_first_and_not_all_of_them() {
        let taken = "3.2 a\n12.0 b\nrubbish\n0.5 c\n4.0 d\n5.0 e\n6.0 f\n";
        let names: Vec<_> =
            slowest(taken).iter().map(|l| l.split_whitespace().last().unwrap().to_owned()).collect();
        assert_eq!(names, ["b", "f", "e", "d", "a"]);
    }
}
