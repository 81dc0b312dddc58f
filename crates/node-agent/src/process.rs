//! The agent as a process: arguments, logging, signals, one call into the loop.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use controller::class::chain;
use controller::process::asked_to_stop;
use controller::{client, telemetry};

use crate::args::Args;

/// Runs the agent until it is told to stop, and says how it ended. Arguments
/// that are wrong, `--help` and `--version` end the process. One thread is
/// enough: the agent rests.
#[tokio::main(flavor = "current_thread")]
pub async fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match Box::pin(work(Args::parse_from(arguments))).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = chain(error.as_ref()), "the agent stops because of an error");
            ExitCode::FAILURE
        }
    }
}

async fn work(args: Args) -> anyhow::Result<()> {
    let (format, filter) = args.logging();
    telemetry::init(format, filter)?;
    let (kubeconfig, context) = args.api_server();
    let client = client::connect(kubeconfig, context).await?;
    let settings = args.settings()?;
    let shutdown = asked_to_stop()?;
    crate::run::run(client, settings, shutdown).await?;
    Ok(())
}
