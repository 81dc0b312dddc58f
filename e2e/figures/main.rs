//! Measures the operator on a real control plane: memory, processor time, the time from a request to a
//! label, and its requests to the API server at rest. The operator runs as a separate process, so that it
//! can be measured.

mod process;
mod queued;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Parser;
use cluster::{Fleet, NodeSpec};
use controller::settings::Kueue;
use e2e::audit::{Object, Request};
use e2e::{POOL, Scene, mig, pod, policy, scenario, wait};
use futures::StreamExt;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, ResourceExt, api::ListParams};
use tokio::time::Instant;

use crate::process::Measured;

/// Measures the operator beside a control plane with virtual GPU nodes, and
/// prints a line of a table, and of a second one about queues.
#[derive(Clone, Debug, Parser)]
struct Args {
    /// How many nodes, of two A100-80GB each; two at least.
    #[arg(long, default_value_t = 10)]
    nodes: u32,
    /// How many pods hold a slice, on one half of the nodes; four for each at most.
    #[arg(long, default_value_t = 20)]
    pods: u32,
    /// How many requests are made one after another, each for a GPU that has to be cut anew.
    #[arg(long, default_value_t = 8)]
    requests: u32,
    /// For how many seconds it is watched at rest.
    #[arg(long, default_value_t = 60)]
    rest: u64,
    /// How many workloads of Kueue then get quota one after another, each for a slice that is free. None: without Kueue.
    #[arg(long, default_value_t = 0)]
    queued: u32,
    /// How many workloads have quota before that, and wait for slices that nobody can have.
    #[arg(long, default_value_t = 0)]
    waiting: u32,
    /// How many workloads of Kueue have ended before that, and are still there.
    #[arg(long, default_value_t = 0)]
    ended: u32,
    /// (for this program itself) be the operator, with this kubeconfig
    #[arg(long, hide = true)]
    operator: Option<PathBuf>,
}

/// Half of the nodes have pods, so that their GPUs stay as they are.
const HALF: &str = "figures/half";
/// Nodes are listed and watched for longer than scenarios are.
const PATIENCE: Duration = Duration::from_secs(900);
/// For how many seconds in a row it does nothing before it counts as at rest.
const IDLE_FOR: u32 = 6;
/// How many seconds of processor time within one second are nothing.
const IDLE: f64 = 0.05;
/// A minute of the map's mount is nothing here, and what is measured is ours.
const SETTLE: SignedDuration = SignedDuration::from_millis(200);

#[expect(clippy::print_stdout, reason = "what was measured is its output")]
fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(kubeconfig) = &args.operator {
        return process::be_the_operator(kubeconfig, args.queued > 0);
    }
    let told = std::panic::catch_unwind(|| {
        scenario(async |scene| {
            println!("{}", measure(scene, &args).await?);
            Ok(())
        });
    });
    if told.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

const HEAD_AT_REST: &str = "at rest: requests a minute | writes | processor";

const HEAD: &str = "\
| nodes | pods in all | resident, first | resident, most | processor until synced | demand to cordon p50, p99 | demand to label p50, p99 | processor for each change | at rest: requests a minute | writes | processor |
|---|---|---|---|---|---|---|---|---|---|---|";

async fn measure(scene: &mut Scene, args: &Args) -> anyhow::Result<String> {
    ensure!(args.nodes >= 2 && args.pods <= 2 * args.nodes, "--nodes is 2 at least, --pods 2 a node at most");
    let half = |name: &str, count: u32| {
        let spec = NodeSpec::new(name, 2, "A100-80GB").layout("all-1g.10gb");
        NodeSpec { count: Some(count), ..spec.label(POOL, "research").label(HALF, name) }
    };
    let nodes = vec![half("busy", args.nodes / 2), half("idle", args.nodes - args.nodes / 2)];
    let mut fleet = Fleet { nodes, ..Fleet::default() };
    fleet.timings.map_mount = SignedDuration::ZERO;
    if args.queued > 0 {
        scene.queues().await?;
    }
    scene.world(fleet).await?;
    for n in 0..args.pods {
        let held = pod(&format!("held-{n}"), &mig("1g.10gb"), 1);
        scene.apply(held.with("/spec/nodeSelector", serde_json::json!({HALF: "busy"}))).await?;
    }
    running(scene, "held-", args.pods).await?;
    scene.apply(policy("research", "research")).await?;
    let everywhere: Api<Pod> = Api::all(scene.client());
    let all = everywhere.list_metadata(&ListParams::default()).await?.items.len();

    if args.queued > 0 {
        let mut settings = e2e::operator::settings("figures");
        settings.kueue = Kueue::AdmissionCheck;
        scene.grant_for(&settings).await?;
    }
    let mut operator = Measured::start(&scene.operator_kubeconfig().await?, args.queued > 0)?;
    scene.policy("research", "was read", |p| p.status.as_ref()?.observed_generation).await?;
    quiet(scene).await?;
    let (first, until_synced) = (operator.resident()?, operator.processor()?);

    let mut cordons = Vec::new();
    let mut labels = Vec::new();
    for n in 0..args.requests {
        let (cordon, label) = one_request(scene, n).await?;
        cordons.push(cordon);
        labels.push(label);
    }
    quiet(scene).await?;
    let each = (operator.processor()? - until_synced) / f64::from(args.requests.max(1));

    let rest = at_rest(scene, &mut operator, args.rest).await?;
    let line = format!(
        "| {} | {all} | {first:.0} MiB | {:.0} MiB | {until_synced:.1} s | {} | {} | {each:.2} s | {rest} |",
        args.nodes,
        operator.most_resident()?,
        percentiles(&mut cordons),
        percentiles(&mut labels),
    );
    if args.queued == 0 {
        return Ok(format!("{HEAD}\n{line}"));
    }
    let queued = queued::measure(scene, args.ended, args.waiting, args.queued).await?;
    let rest = at_rest(scene, &mut operator, args.rest).await?;
    let most = operator.most_resident()?;
    let rest = format!("| resident, most | {HEAD_AT_REST} |\n|---|---|---|---|\n| {most:.0} MiB | {rest} |");
    Ok(format!("{HEAD}\n{line}\n\n{}\n{queued}\n\n{rest}", queued::HEAD))
}

/// Waits until the operator has hardly worked for as long as a round of a thousand nodes takes: it writes
/// nothing long before it has looked at the last change. Says how long that took.
async fn idle(operator: &Measured) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let mut still = 0;
    while still < IDLE_FOR {
        ensure!(begun.elapsed() < PATIENCE, "the operator never comes to rest");
        let before = operator.processor()?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        still = if operator.processor()? - before < IDLE { still + 1 } else { 0 };
    }
    Ok(begun.elapsed())
}

/// Watches the operator for so many seconds without changes: how much it asks, writes and works. Cells of a table.
async fn at_rest(scene: &Scene, operator: &mut Measured, seconds: u64) -> anyhow::Result<String> {
    let waited = idle(operator).await?;
    say(&format!("at rest {:.0} s after the last write", waited.as_secs_f64()));
    let before = operator.processor()?;
    let audit = scene.audit_from_now()?;
    tokio::select! {
        () = tokio::time::sleep(Duration::from_secs(seconds)) => {}
        ended = operator.ended() => anyhow::bail!("the operator ended by itself: {}", ended?),
    }
    let (requests, writes) = (audit.requests()?, audit.writes()?.len());
    let busy = (operator.processor()? - before) * 100.0 / f64::from(u32::try_from(seconds)?);
    let minutes = f64::from(u32::try_from(seconds)?) / 60.0;
    let leases = requests.iter().filter(|request| request.is_about_a_lease()).count();
    say_what(&requests);
    let a_minute = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX)) / minutes;
    Ok(format!("{:.0} (leases {:.0}) | {writes} | {busy:.1} %", a_minute(requests.len()), a_minute(leases)))
}

/// What was asked for beside leases, for whoever wonders about the count.
fn say_what(requests: &[Request]) {
    let mut many = std::collections::BTreeMap::<String, usize>::new();
    for request in requests.iter().filter(|request| !request.is_about_a_lease()) {
        let Object { resource, subresource, .. } = &request.object_ref;
        *many.entry(format!("{} {resource}/{subresource}", request.verb)).or_default() += 1;
    }
    for (what, many) in many {
        say(&format!("at rest: {many} x {}", what.trim_end_matches('/')));
    }
}

#[expect(clippy::print_stderr, reason = "it explains a figure, and is no row of the table")]
fn say(what: &str) {
    eprintln!("{what}");
}

fn percentiles(all: &mut [Duration]) -> String {
    all.sort_unstable();
    let at = |percent: usize| all.get((all.len() * percent / 100).min(all.len().saturating_sub(1)));
    let text =
        |found: Option<&Duration>| found.map_or("-".to_owned(), |d| format!("{:.2} s", d.as_secs_f64()));
    format!("{}, {}", text(at(50)), text(at(99)))
}

/// Waits until so many pods whose names begin so run.
async fn running(scene: &Scene, prefix: &str, many: u32) -> anyhow::Result<()> {
    wait::asking("the pods run", PATIENCE, async || {
        let running = scene.running().await?;
        let found = running.iter().filter(|name| name.starts_with(prefix)).count();
        Ok(if found >= many as usize { Ok(()) } else { Err(format!("{found} of {many} run")) })
    })
    .await
}

/// Waits until the operator has written nothing for three seconds.
async fn quiet(scene: &Scene) -> anyhow::Result<()> {
    let mut audit = scene.audit_from_now()?;
    let mut since = Instant::now();
    wait::asking("the operator has nothing to write", PATIENCE, async || {
        let writes = audit.writes()?;
        if let Some(last) = writes.last() {
            audit = scene.audit_from_now()?;
            since = Instant::now();
            return Ok(Err(format!("it wrote {last}")));
        }
        let still = since.elapsed() < Duration::from_secs(3);
        Ok(if still { Err("it is quiet only just".to_owned()) } else { Ok(()) })
    })
    .await
}

/// A pod asks for a whole GPU, which none has: how long until a node is
/// cordoned for it, and until MIG manager is told.
async fn one_request(scene: &Scene, n: u32) -> anyhow::Result<(Duration, Duration)> {
    let mut events = Box::pin(watcher(scene.nodes(), Config::default().labels(&format!("{HALF}=idle"))));
    let config = |node: &Node| node.labels().get("nvidia.com/mig.config").cloned();
    let mut before = std::collections::BTreeMap::new();
    let mut begun = None;
    let mut cordoned = None;
    let name = format!("asks-{n}");
    let told = async {
        while let Some(event) = events.next().await {
            match event? {
                Event::InitApply(node) => {
                    before.insert(node.name_any(), config(&node));
                }
                Event::InitDone => {
                    scene.apply(pod(&name, &mig("7g.80gb"), 1)).await?;
                    begun = Some(Instant::now());
                }
                Event::Apply(node) => {
                    let Some(begun) = begun else { continue };
                    if node.labels().contains_key("slicewright.io/cordoned-by") {
                        cordoned.get_or_insert_with(|| begun.elapsed());
                    }
                    if before.get(&node.name_any()).is_some_and(|was| *was != config(&node)) {
                        return Ok((cordoned.context("it was cordoned before")?, begun.elapsed()));
                    }
                }
                Event::Init | Event::Delete(_) => {}
            }
        }
        anyhow::bail!("the watch ended")
    };
    let found = tokio::time::timeout(PATIENCE, told).await.context("no node was told anything")??;
    running(scene, &name, 1).await?;
    quiet(scene).await?;
    Ok(found)
}
