//! `slicewright-sim operator`: the part of the GPU Operator, on a cluster
//! where its operands run.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::signal::unix::{SignalKind, signal};

/// Does the GPU Operator's part on a cluster with NVIDIA's components, until it is told to stop.
///
/// It labels nodes on which NFD found GPUs, lets the components' DaemonSets follow ClusterPolicy
/// (the map of layouts, the MIG strategy, the device plugin's configurations, MIG manager on or
/// off), and writes whether they are ready.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The namespace of the components.
    #[arg(long, value_name = "NAME", default_value = "gpu-operator")]
    namespace: String,
    /// How to reach the API server; otherwise as kubectl finds it, or as a pod does.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

pub(crate) async fn run(args: Args, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    let config = match &args.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).context("the kubeconfig cannot be read")?;
            kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?
        }
        None => kube::Config::infer().await.context("there is no kubeconfig to use")?,
    };
    let client = kube::Client::try_from(config)?;
    let mut told = signal(SignalKind::terminate()).context("cannot be told to stop")?;
    writeln!(out, "doing the GPU Operator's part in the namespace {}", args.namespace)?;
    out.flush()?;
    tokio::select! {
        never = gpu_operator::run(client, &args.namespace) => match never {},
        _ = told.recv() => Ok(()),
        ended = tokio::signal::ctrl_c() => Ok(ended?),
    }
}
