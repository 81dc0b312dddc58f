//! `slicewright-sim cluster`: a fleet of virtual GPU nodes on an API server.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use cluster::{Cluster, Fleet};
use kube::config::{KubeConfigOptions, Kubeconfig};
use operands::{OperandPhase, What};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

/// Keeps a fleet of virtual GPU nodes on an API server, until it is interrupted.
///
/// Scheduler and controllers are the real ones. The nodes do what NFD, the GPU Operator, MIG
/// manager, the device plugin, GPU feature discovery and the kubelet would do, over simulated
/// GPUs; nothing runs in their pods.
#[derive(Debug, clap::Args)]
#[command(after_long_help = after_help())]
pub(crate) struct Args {
    /// The fleet, as a file of YAML (below).
    #[arg(long, value_name = "FILE")]
    fleet: PathBuf,
    /// How to reach the API server; otherwise as kubectl finds it.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of that file.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// How many times faster than real time the simulated time runs. Overrides the `speed` of the fleet.
    #[arg(long, value_name = "N")]
    speed: Option<f64>,
}

fn after_help() -> String {
    use cluster::annotations as a;
    let faults: Vec<String> =
        operands::faults::FAULTS.iter().map(|(form, meaning)| format!("  {form:<28} {meaning}")).collect();
    format!(
        "A fleet:
  speed: 20                  # 20 times faster than real
  flavour: openshift         # or helm: how the GPU Operator was installed
  strategy: mixed            # or single
  manager: \"0.15.0\"          # MIG manager: 0.12, 0.15.0 or 0.15.1
  openShiftAI: true          # Notebooks become pods
  nodes:
    - name: gpu              # gpu-1, gpu-2, gpu-3
      count: 3
      gpus: [{{model: A100-80GB, count: 2}}]
      labels: {{slicewright.io/pool: research}}
      layout: all-1g.10gb    # applied long ago; without it MIG is off
      cpu: 64
      memory: 512Gi

On a Node, by `kubectl annotate --overwrite node NAME KEY=VALUE`:
  {fault:<36} what goes wrong from now on, separated by `;`
  {reboot:<36} each new value reboots it

On a Pod (durations are simulated time):
  {opens:<36} when it opens its devices: never (an idle notebook), at-once, 90s
  {starts:<36} from binding to running
  {stops:<36} from deletion to gone
  {succeeds:<36} it ends well so long after it runs
  {fails:<36} it fails so long after it runs

What can go wrong on a node:
{faults}

A slice that is taken from a pod that had it is told here as BREACH, and by an event of the pod.",
        fault = a::FAULT,
        reboot = a::REBOOT,
        opens = a::OPENS,
        starts = a::STARTS_AFTER,
        stops = a::STOPS_AFTER,
        succeeds = a::SUCCEEDS_AFTER,
        fails = a::FAILS_AFTER,
        faults = faults.join("\n"),
    )
}

/// Runs until interrupted.
pub(crate) async fn run(args: Args, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    let Args { fleet, kubeconfig, context, speed } = args;
    let text = tokio::fs::read_to_string(&fleet)
        .await
        .with_context(|| format!("--fleet {}: the file cannot be read", fleet.display()))?;
    let mut fleet = Fleet::from_yaml(&text).with_context(|| format!("--fleet {}", fleet.display()))?;
    fleet.speed = speed.unwrap_or(fleet.speed);
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let config = match kubeconfig {
        Some(path) => {
            let file =
                Kubeconfig::read_from(&path).with_context(|| format!("--kubeconfig {}", path.display()))?;
            kube::Config::from_custom_kubeconfig(file, &options).await?
        }
        None if options.context.is_some() => kube::Config::from_kubeconfig(&options).await?,
        None => kube::Config::infer().await.context("no cluster to talk to: give --kubeconfig")?,
    };
    let server = config.cluster_url.to_string();
    let client = kube::Client::try_from(config)?;
    let count = fleet.each_node().count();
    let flavour = format!("{:?}", fleet.flavour);
    writeln!(out, "{count} nodes on {server}, {flavour} flavour, {} times faster than real", fleet.speed)?;

    let shutdown = CancellationToken::new();
    let cluster = Cluster::new(client, fleet, shutdown.clone())?;
    let handle = cluster.handle();
    let mut changes = handle.changes();
    let mut breaches = 0;
    let mut running = tokio::spawn(cluster.run());
    loop {
        tokio::select! {
            ended = &mut running => return Ok(ended??),
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                shutdown.cancel();
            }
            change = changes.recv() => match change {
                Ok((node, change)) => {
                    if let Some(text) = noticed(&change.what) {
                        writeln!(out, "{node}: {text}")?;
                    }
                    let all = handle.breaches();
                    for breach in all.iter().skip(breaches) {
                        writeln!(out, "BREACH {breach}")?;
                    }
                    breaches = all.len();
                }
                Err(RecvError::Lagged(n)) => writeln!(out, "({n} changes are not shown)")?,
                Err(RecvError::Closed) => {}
            },
        }
    }
}

/// What of a node's changes people would look for, and not every label.
fn noticed(what: &What) -> Option<String> {
    match what {
        What::Label { key, value: Some(value) }
            if key == operands::MIG_CONFIG || key == operands::MIG_CONFIG_STATE =>
        {
            Some(format!("{key} is {value}"))
        }
        What::Operand { name, phase: Some(OperandPhase::CrashLooping), .. } => {
            Some(format!("{name} crashes again and again"))
        }
        What::Allocatable { resource, count } => Some(format!("offers {count} {resource}")),
        What::Unschedulable(_)
        | What::Ready(_)
        | What::Booted { .. }
        | What::Pod { .. }
        | What::ManagerLog { .. } => Some(what.to_string()),
        What::Label { .. } | What::Capacity { .. } | What::Operand { .. } => None,
    }
}
