//! `cargo xtask kind`: a kind cluster with real kubelets, whose workers get
//! simulated GPUs.

use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::building;
use crate::clients;
use crate::image;
use crate::needs;
use crate::sim_lib;
use crate::tools::{self, Sources, Use};

/// A kind cluster with real kubelets: `up`, `down`, `status`, `story`, `run`, `logs`,
/// and `check`: up, all stories, down
///
/// Docker or Podman is used where it answers, and kind's own node image where
/// it can be fetched; else both are made here, as root. What a node image is
/// made of is built first (`cargo xtask tools kind control-plane`): some ten
/// minutes, once. `cargo xtask kind -- --help` says more.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long, hide = true, env = "PATH", default_value = "")]
    path: OsString,
    #[command(flatten)]
    sources: Sources,
    /// What to do, and its options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    rest: Vec<OsString>,
}

/// Builds the programs of a package.
fn built(package: &str) -> anyhow::Result<()> {
    building::first(&["build", "--locked", "--package", package])
}

/// Runs it.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--locked", "--package", "slicewright-kind", "--"]).args(&args.rest);
    let is = |task: &str| args.rest.iter().any(|word| word == task || word == "check");
    // A list needs nothing.
    let story = is("story") && !args.rest.iter().any(|word| word == "--list");
    if is("up") {
        // It is some hundred megabytes, and what has to be installed depends on whether it can be fetched.
        writeln!(
            out,
            "looking for what a cluster needs; kind's node image is fetched now if it is not here yet"
        )?;
    }
    needs::require("cargo xtask kind", &needs::kind(&args.sources, is("up"), story))?;
    if is("up") || story {
        built("slicewright-kind")?;
    }
    if is("up") {
        for binary in tools::ensure_built(&args.sources, Use::CLUSTER, out)? {
            command.env(binary.variable(), &binary.path);
        }
        let library = sim_lib::ensure_built(&sim_lib::Args::default())?;
        clients::with_nvidia_smi(&library)?;
        built("slicewright-sim-cli")?;
        // This program stands in the same folder.
        let simulator = std::env::current_exe()?.with_file_name("slicewright-sim");
        command.env("SLICEWRIGHT_SIM_LIBRARY", library).env("SLICEWRIGHT_SIM", simulator);
    }
    if story {
        for binary in tools::ensure_built(&args.sources, Use::STORY, out)? {
            command.env(binary.variable(), &binary.path);
        }
        // Beside this program; not where the gate leaves its own, which may be of another commit.
        let folder = std::env::current_exe()?.with_file_name("images-kind");
        image::of_operator_and_agent(&args.sources, &args.path, &folder, out)?;
        command.env("SLICEWRIGHT_IMAGES", folder);
        // What a person has at hand.
        built("slicewright-cli")?;
        command.env("TEST_ASSET_SLICEWRIGHT", std::env::current_exe()?.with_file_name("slicewright"));
    }
    let status = command.current_dir(crate::root()).status().context("cannot run cargo")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(128);
    Ok(ExitCode::from(code))
}
