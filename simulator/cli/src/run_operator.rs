//! `slicewright-sim operator`: replaces the GPU Operator on a cluster where its operands run.

use std::io::Write;

use crate::in_cluster::{Server, StopSignal};

/// Acts as the GPU Operator on a cluster with NVIDIA's components, until it is stopped.
///
/// It labels the nodes on which NFD found GPUs, adapts the components' DaemonSets to ClusterPolicy
/// (the map of layouts, the MIG strategy, the device plugin's configurations, MIG manager on or
/// off), and reports whether they are ready.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The namespace of the components.
    #[arg(long, value_name = "NAME", default_value = "gpu-operator")]
    namespace: String,
    #[command(flatten)]
    server: Server,
}

pub(crate) async fn run(args: Args, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    let client = args.server.client().await?;
    let told = StopSignal::listen()?;
    writeln!(out, "doing the GPU Operator's part in the namespace {}", args.namespace)?;
    out.flush()?;
    tokio::select! {
        never = crate::gpu_operator::run(client, &args.namespace) => match never {},
        ended = told.comes() => ended,
    }
}
