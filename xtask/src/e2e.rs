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
    command.env(PROVIDER, provider).env("INSTA_UPDATE", "no");
    let status = command.current_dir(crate::root()).status().context("cannot run cargo")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(128);
    Ok(ExitCode::from(code))
}
