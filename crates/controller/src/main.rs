//! `slicewright-operator`: arguments, logging, one call into the library.

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use controller::args::Args;
use controller::class::chain;
use controller::{client, telemetry};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> ExitCode {
    match operate(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Some errors repeat their cause.
            tracing::error!(error = chain(error.as_ref()), "the operator ends");
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
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    let mut term = signal(SignalKind::terminate()).context("failed to listen for SIGTERM")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        tracing::info!("told to stop");
        stop.cancel();
    });
    controller::run(client, settings, shutdown).await?;
    Ok(())
}
