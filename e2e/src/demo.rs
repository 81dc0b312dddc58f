//! A demonstration of the product on a real control plane: a virtual fleet, the
//! operator, a policy, hardware profiles, and users with requests. The demo
//! reports events as they happen, and the final state at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use api::condition::reason;
use api::{GpuNode, GpuPartitionPolicy};
use cluster::{Cluster, Fleet};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::control_plane::{ControlPlane, client_of};
use crate::expect::is_shown_on;
use crate::objects::{self, OPERATOR_USER};
use crate::operator::{self, Operator, SPEED};

/// What the operator signs its events with.
const SIGNED: &str = "slicewright.io/operator";
/// How long nothing may be told until the story is taken to be over, if no node is on its way.
const SILENCE: Duration = Duration::from_secs(8);
/// How long nothing may be told while one is: on a machine that also compiles, a step takes some times as long.
const STILL: Duration = Duration::from_secs(80);
/// How long the whole story may take, whatever is told.
const LONGEST: Duration = Duration::from_secs(600);

/// Tells it. With `keep`, everything stays until the reader ends it.
///
/// # Errors
/// When a part of it does not start.
pub async fn run(keep: bool, kubectl: Option<&Path>, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "Starting etcd, kube-apiserver, kube-controller-manager and kube-scheduler ...")?;
    out.flush()?;
    let plane = ControlPlane::start(OPERATOR_USER).await?;
    let client = client_of(plane.administrator()).await?;
    objects::install_crds(&client, &objects::our_crds()).await?;
    objects::install_crds(&client, &objects::minimal_crds()?).await?;
    objects::install_operator(&client).await?;

    let shutdown = CancellationToken::new();
    let mut fleet = Fleet::from_yaml(&example("fleet.yaml")?)?;
    fleet.speed = SPEED;
    let names: Vec<_> = fleet.each_node().map(|node| node.name).collect();
    writeln!(out, "Virtual GPU nodes: {}. Their minutes are seconds here.", names.join(", "))?;
    let nodes = tokio::spawn(Cluster::new(client.clone(), fleet, shutdown.clone())?.run());
    let mut settings = operator::settings("demo");
    settings.patch_cluster_policy = true;
    let operator = Operator::start(operator::account(plane.administrator()).await?, settings)?;
    wait_for_nodes(&client, names.len()).await?;
    write!(out, "{}", picture(&client).await?)?;

    let mut asked = Vec::new();
    for file in ["policy.yaml", "hardware-profiles.yaml", "workbenches.yaml"] {
        writeln!(out, "\n$ kubectl apply -f examples/demo/{file}")?;
        for object in objects::documents(&example(file)?)? {
            if let Some(namespace) = object["metadata"]["namespace"].as_str() {
                objects::ensure_namespace(&client, namespace, &json!({})).await?;
            }
            objects::apply(&client, &object).await?;
            if object["kind"] == "Notebook" {
                asked.push(object);
            }
        }
    }
    writeln!(out)?;
    follow(&client, out).await?;

    writeln!(out, "\nHow the fleet is cut now:")?;
    write!(out, "{}", picture(&client).await?)?;
    writeln!(out, "\nWhat people got:")?;
    for notebook in &asked {
        writeln!(out, "  {}", answer(&client, notebook).await?)?;
    }
    look_around(&plane, keep, kubectl, out)?;
    if keep {
        out.flush()?;
        tokio::signal::ctrl_c().await?;
    }
    operator.stop().await?;
    shutdown.cancel();
    nodes.await??;
    Ok(())
}

fn example(file: &str) -> anyhow::Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/demo").join(file);
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

async fn wait_for_nodes(client: &Client, many: usize) -> anyhow::Result<()> {
    let api: Api<GpuNode> = Api::all(client.clone());
    crate::wait::until(api, "every node was looked at", crate::wait::PATIENCE, |seen| {
        let known = seen.values().filter(|node| node.status.as_ref().is_some_and(|s| s.observed.is_some()));
        if known.count() == many { Ok(()) } else { Err("some were not".to_owned()) }
    })
    .await
}

/// Tells the operator's events as they come, until nothing more happens.
async fn follow(client: &Client, out: &mut dyn Write) -> anyhow::Result<()> {
    let api: Api<Event> = Api::all(client.clone());
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).applied_objects());
    let policies: Api<GpuPartitionPolicy> = Api::all(client.clone());
    let begin = Instant::now();
    let mut told = BTreeSet::new();
    let mut quiet = Duration::ZERO;
    while begin.elapsed() < LONGEST {
        let event = match tokio::time::timeout(SILENCE, events.next()).await {
            Ok(Some(event)) => event,
            Ok(None) => break,
            Err(_) => {
                quiet += SILENCE;
                let seen = policies.list(&ListParams::default()).await?;
                if quiet >= STILL || !seen.iter().any(is_on_its_way) {
                    break;
                }
                continue;
            }
        };
        quiet = Duration::ZERO;
        let Ok(event) = event else { continue };
        let about = event.regarding.clone().unwrap_or_default();
        let kind = about.kind.unwrap_or_default();
        let name = about.name.clone().unwrap_or_default();
        let note = event.note.clone().unwrap_or_default();
        // A workbench whose pod came after the first word is told again on the pod.
        let workbench = name.strip_suffix("-0").unwrap_or(&name).to_owned();
        let is_ours = event.reporting_controller.as_deref() == Some(SIGNED);
        let is_asker = matches!(kind.as_str(), "Notebook" | "Pod");
        let once = if is_asker { (workbench, note.clone()) } else { (event.name_any(), String::new()) };
        if !is_ours || !told.insert(once) {
            continue;
        }
        writeln!(out, "{:>5.1} s  {kind} {name}: {note}", begin.elapsed().as_secs_f64())?;
        out.flush()?;
    }
    Ok(())
}

/// Whether a policy has no answer yet, or nodes that are being changed.
fn is_on_its_way(policy: &GpuPartitionPolicy) -> bool {
    let mut conditions = policy.status.iter().flat_map(|status| &status.conditions);
    let ready = conditions.find(|condition| condition.type_ == "Ready");
    ready.is_none_or(|ready| [reason::PENDING, reason::CHANGING].contains(&ready.reason.as_str()))
}

/// What each GPU is cut into, and who has it.
async fn picture(client: &Client) -> anyhow::Result<String> {
    let nodes: Api<GpuNode> = Api::all(client.clone());
    let mut text = String::new();
    for node in nodes.list(&ListParams::default()).await? {
        let observed = node.status.as_ref().and_then(|status| status.observed.as_ref());
        for gpu in observed.iter().flat_map(|observed| &observed.gpus) {
            let mut slices: BTreeMap<&str, (usize, BTreeSet<&str>)> = BTreeMap::new();
            for slice in &gpu.slices {
                let entry = slices.entry(&slice.profile).or_default();
                entry.0 += 1;
                entry.1.extend(slice.by.iter().map(|pod| pod.name.as_str()));
            }
            let words: Vec<_> = slices
                .into_iter()
                .map(|(profile, (count, by))| {
                    let by: Vec<_> = by.into_iter().collect();
                    let by = if by.is_empty() { String::new() } else { format!(" ({})", by.join(", ")) };
                    format!("{count} x {profile}{by}")
                })
                .collect();
            let cut = if words.is_empty() { "MIG is off".to_owned() } else { words.join(", ") };
            text.push_str(&format!("  {:<5} gpu{} {:<10} {cut}\n", node.name_any(), gpu.index, gpu.model));
        }
    }
    Ok(text)
}

/// Whether a workbench runs, and else what it was told last.
async fn answer(client: &Client, notebook: &Value) -> anyhow::Result<String> {
    let word = |field: &str| notebook["metadata"][field].as_str().unwrap_or_default().to_owned();
    let (name, namespace) = (word("name"), word("namespace"));
    let profile = &notebook["metadata"]["annotations"]["opendatahub.io/hardware-profile-name"];
    let who = format!("{namespace}/{name} ({})", profile.as_str().unwrap_or_default());
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let pod = pods.get_opt(&format!("{name}-0")).await?;
    let running = pod.filter(|pod| pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running"));
    if let Some(node) = running.and_then(|pod| pod.spec?.node_name) {
        return Ok(format!("{who} runs on {node}"));
    }
    let events: Api<Event> = Api::namespaced(client.clone(), &namespace);
    let mut events = events.list(&ListParams::default()).await?.items;
    events.retain(|event| {
        let about = event.regarding.clone().unwrap_or_default();
        event.reporting_controller.as_deref() == Some(SIGNED)
            && is_shown_on("Notebook", &name, about.kind.as_deref(), about.name.as_deref())
    });
    events.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
    let last = events.pop().and_then(|event| event.note).unwrap_or_else(|| "nothing yet".to_owned());
    Ok(format!("{who} waits, and was told: {last}"))
}

fn look_around(
    plane: &ControlPlane,
    keep: bool,
    kubectl: Option<&Path>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if !keep {
        writeln!(out, "\nWith `cargo xtask demo --keep` all of this stays, to be looked at with kubectl.")?;
        return Ok(());
    }
    let kubectl = kubectl.map_or_else(|| "kubectl".to_owned(), |path| path.display().to_string());
    writeln!(out, "\nIt runs until you press Ctrl-C. Look around in another terminal:")?;
    writeln!(out, "  export KUBECONFIG={}", plane.kubeconfig().display())?;
    for command in [
        "get gpp,gpunodes",
        "get notebooks,pods -A",
        "describe gpp research",
        "events -n team-b --for pod/gwen-0",
        "delete notebook -n team-b finn    # and see who gets the GPU",
    ] {
        writeln!(out, "  {kubectl} {command}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A policy that the operator has told this of itself; nothing, if it has not seen it.
    fn policy(ready: Option<&str>) -> GpuPartitionPolicy {
        let mut policy: Value = crate::policy("research", "research").into();
        if let Some(reason) = ready {
            let at = "2026-11-20T08:00:00Z";
            let ready = json!({"type": "Ready", "status": "False", "reason": reason, "message": "", "lastTransitionTime": at});
            policy["status"] = json!({"conditions": [ready]});
        }
        serde_json::from_value(policy).unwrap()
    }

    #[test]
    fn the_story_is_not_over_while_a_node_is_being_changed_however_slowly() {
        for goes_on in [None, Some(reason::PENDING), Some(reason::CHANGING)] {
            assert!(is_on_its_way(&policy(goes_on)), "{goes_on:?}");
        }
        // Who waits for a pod to end may wait for ever.
        for over in [reason::CONVERGED, reason::WAITING, reason::ROLLOUT_FAILED] {
            assert!(!is_on_its_way(&policy(Some(over))), "{over}");
        }
    }
}
