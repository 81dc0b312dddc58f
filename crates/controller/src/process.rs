//! The operator as a process: arguments, logging, signals, one call into the loop. The program
//! `slicewright-operator` is only this; the single program of the image is this and the `slicewright`
//! command (crates/multicall).

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::args::Args;
use crate::class::chain;
use crate::{client, telemetry};

/// Runs the operator until it is told to stop, and says how it ended.
/// Arguments that are wrong, `--help` and `--version` end the process.
#[tokio::main]
pub async fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match Box::pin(operate(Args::parse_from(arguments))).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Some errors repeat their cause.
            tracing::error!(error = chain(error.as_ref()), "the operator stops because of an error");
            ExitCode::FAILURE
        }
    }
}

async fn operate(args: Args) -> anyhow::Result<()> {
    let (format, filter) = args.logging();
    telemetry::init(format, filter)?;
    let (kubeconfig, context) = args.api_server();
    let client = client::connect(kubeconfig, context).await?;
    let settings = args.settings()?;
    let shutdown = asked_to_stop()?;
    crate::run(client, settings, shutdown).await?;
    Ok(())
}

/// Cancelled when the process is asked to stop: by SIGTERM, or by Ctrl-C.
///
/// # Errors
/// When nobody can listen for SIGTERM.
pub fn asked_to_stop() -> anyhow::Result<CancellationToken> {
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    let mut term = signal(SignalKind::terminate()).context("failed to listen for SIGTERM")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        tracing::info!("stopping, as requested");
        stop.cancel();
    });
    Ok(shutdown)
}
