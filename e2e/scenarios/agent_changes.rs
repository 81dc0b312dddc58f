//! Single slices that the agent of a node changes beside pods that compute: operator, API server and agent are the real
//! programs, and the virtual node's GPUs and kubelet are what the agent finds. Whatever dies on the way, no pod loses
//! its slice; which slice a pod has is told by serial, since one that is made again at its place has the same UUID.

use std::collections::BTreeMap;

use anyhow::Context;
use api::GpuNode;
use api::node_agent::{ChangeStage, GateState};
use cluster::annotations::OPENS;
use e2e::agents::Agent;
use e2e::expect::is_cordoned;
use e2e::manifests::{Manifest, of_neighbours};
use e2e::wire::Wire;
use e2e::{Fleet, NodeSpec, POOL, Scene, mig, pod, policy, scenario, workbench};
use jiff::SignedDuration;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams};

/// One node with eight GPUs, each cut into two halves.
pub(crate) fn halves(name: &str) -> NodeSpec {
    NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-3g.40gb")
}

/// A pod that computes on what it gets.
pub(crate) fn computes(name: &str, profile: &str) -> Manifest {
    pod(name, &mig(profile), 1).annotated(OPENS, "at-once")
}

/// What a pod has: the UUID of its slice, its serial, and whether a process computes on it.
pub(crate) type Has = (Option<String>, u64, bool);

/// Who has which slice of a node.
pub(crate) fn held(scene: &Scene, node: &str) -> anyhow::Result<BTreeMap<String, Has>> {
    let slices = scene.simulator().truth(node)?.into_iter().flat_map(|gpu| gpu.slices);
    Ok(slices.filter_map(|slice| Some((slice.holder?, (slice.uuid, slice.serial, slice.open)))).collect())
}

/// Who computes on a half: by turns one of the team and one of their neighbours.
fn train(n: usize) -> (Manifest, String) {
    let name = format!("train-{n}");
    let pod = computes(&name, "3g.40gb");
    if n.is_multiple_of(2) { (pod, name) } else { (pod.of_neighbours(), of_neighbours(&name)) }
}

/// Fifteen of the sixteen halves are computed on; the last one is beside one of them. Says who has what.
pub(crate) async fn one_half_is_left(scene: &mut Scene) -> anyhow::Result<BTreeMap<String, Has>> {
    scene.nodes_are([halves("n1")]).await?;
    scene.agents_are_installed().await?;
    scene.operator().await?;
    scene.apply(policy("research", "research")).await?;
    for i in 0..15 {
        scene.apply(train(i).0).await?;
    }
    for i in 0..15 {
        scene.runs(&train(i).1).await?;
    }
    let held = held(scene, "n1")?;
    assert_eq!(held.len(), 15);
    assert!(held.values().all(|(_, _, open)| *open), "they compute: {held:?}");
    Ok(held)
}

/// The last half was cut by an agent for a workbench, which runs, beside the fifteen: the node is the agent's.
pub(crate) async fn the_agent_has_cut_for_a_workbench(
    scene: &mut Scene,
) -> anyhow::Result<(Agent, BTreeMap<String, Has>)> {
    let before = one_half_is_left(scene).await?;
    let agent = scene.agent_that_changes("n1").await?;
    scene.apply(workbench("lab", &mig("1g.10gb"), 1)).await?;
    assert_eq!(scene.workbench_runs("lab").await?, "n1");
    scene.converged("research").await?;
    Ok((agent, before))
}

/// Whoever computed computes, on the slice that it had.
#[track_caller]
pub(crate) fn they_have_what_they_had(scene: &Scene, before: &BTreeMap<String, Has>) -> anyhow::Result<()> {
    let mut now = held(scene, "n1")?;
    now.retain(|pod, _| before.contains_key(pod));
    assert_eq!(now, *before);
    Ok(())
}

#[test]
fn the_rest_of_a_gpu_is_recut_for_another_while_a_pod_computes_on_it() {
    scenario(async |scene| {
        let before = one_half_is_left(scene).await?;
        scene.apply(workbench("lab", &mig("1g.10gb"), 1)).await?;
        scene.is_unserved("research", "lab").await?;
        // Nothing keeps the agent of another node from reporting for this one.
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(scene.client());
        bindings.delete("slicewright-agent", &DeleteParams::default()).await?;
        let agent = scene.agent_that_changes("n1").await?;
        let said = scene.says("research", "Degraded", "True", "AgentUnguarded").await?;
        assert!(
            said.contains("the ValidatingAdmissionPolicyBinding slicewright-agent does not exist"),
            "{said}"
        );
        scene.is_unserved("research", "lab").await?;
        let is_whole = |gpu: &operands::GpuTruth| gpu.slices.len() == 2;
        assert!(scene.simulator().truth("n1")?.iter().all(is_whole), "nothing is recut");
        scene.agents_are_installed().await?;
        assert_eq!(scene.workbench_runs("lab").await.with_context(|| agent.log())?, "n1");
        they_have_what_they_had(scene, &before)?;
        for i in 0..15 {
            assert_eq!(scene.runs(&train(i).1).await?, "n1");
        }
        let cut =
            |gpu: &operands::GpuTruth| gpu.slices.iter().map(|slice| slice.profile.to_string()).collect();
        let cut: Vec<Vec<String>> = scene.simulator().truth("n1")?.iter().map(cut).collect();
        let whole = cut.iter().filter(|slices| **slices == ["3g.40gb", "3g.40gb"]).count();
        assert_eq!(whole, 7, "one GPU was recut: {cut:?}");
        scene.converged("research").await?;
        drop(agent);
        Ok(())
    });
}

/// How far a change is, by what anybody can see.
const STEPS: [&str; 7] = ["store", "hold", "closed", "permit", "claim", "change", "open"];

pub(crate) fn is_at(step: &str, node: &GpuNode) -> bool {
    let status = node.status.as_ref();
    let agent = status.and_then(|status| status.agent.as_ref());
    let phase =
        status.and_then(|status| status.rollout.as_ref()).map_or("", |rollout| rollout.phase.as_str());
    let wanted = node.spec.change.as_ref();
    let told =
        agent.and_then(|agent| agent.change.as_ref()).filter(|told| wanted.is_some_and(|w| w.id == told.id));
    match step {
        "store" => phase == "Cordoning",
        "closed" => agent.and_then(|agent| agent.gate.as_ref()).is_some_and(|gate| {
            gate.state == GateState::Closed && wanted.is_some_and(|wanted| wanted.id == gate.change)
        }),
        "permit" => wanted.is_some_and(|wanted| wanted.permit.is_some()),
        "claim" => told.is_some(),
        "change" => told.is_some_and(|told| told.stage != ChangeStage::Claimed),
        "open" => phase == "Verifying",
        other => panic!("{other} is seen in the node"),
    }
}

async fn until_at(scene: &Scene, step: &str) -> anyhow::Result<()> {
    if step == "hold" {
        scene.node("n1", "is cordoned", |node| is_cordoned(node).then_some(())).await
    } else {
        scene.gpu_node("n1", &format!("is at {step}"), |node| is_at(step, node).then_some(())).await
    }
}

/// Who asks next: one for a small slice, one for the half, and so on, so that each needs a recut.
pub(crate) fn asks(n: usize) -> Manifest {
    computes(&format!("next-{n}"), ["1g.10gb", "3g.40gb"][n % 2])
}

/// Who is killed, and starts anew at once.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Agent,
    Operator,
}

/// One change for each step, at which the victim is killed. In each the node is open again at the end, who asked has its
/// slice, and who computed has the slice that it had. What is killed before a write, or does not hear of one, is in
/// `crates/rollout/tests/it/slices/killed.rs` and `crates/node-agent/tests/it/change.rs`.
fn is_killed_at_each_step(victim: Victim) {
    scenario(async |scene| {
        let before = one_half_is_left(scene).await?;
        let mut agent = scene.agent_that_changes("n1").await?;
        for (n, step) in STEPS.into_iter().enumerate() {
            // Watched before it is asked: some steps are over within a blink, and a watch does not tell of what was.
            tokio::try_join!(until_at(scene, step), scene.apply(asks(n)))?;
            match victim {
                Victim::Agent => {
                    agent.kill().await?;
                    agent = scene.agent_that_changes("n1").await?;
                }
                Victim::Operator => {
                    scene.kill_operators();
                    scene.operator_again().await?;
                }
            }
            let runs = scene.runs(&format!("next-{n}")).await;
            assert_eq!(runs.with_context(|| format!("{victim:?} killed at {step}: {}", agent.log()))?, "n1");
            they_have_what_they_had(scene, &before)?;
            scene.converged("research").await?;
            scene.delete(asks(n)).await?;
            scene.is_gone(&format!("next-{n}")).await?;
        }
        scene.converged("research").await?;
        drop(agent);
        Ok(())
    });
}

#[test]
fn an_agent_that_is_killed_at_any_step_is_followed_by_one_that_ends_the_change() {
    is_killed_at_each_step(Victim::Agent);
}

#[test]
fn an_operator_that_is_killed_at_any_step_is_followed_by_one_that_ends_the_change() {
    is_killed_at_each_step(Victim::Operator);
}

/// Not at a moment that somebody happens to see: after each of its writes, of which it does not hear any more.
#[test]
fn an_operator_that_dies_after_each_of_its_writes_lets_the_agent_end_the_change() {
    scenario(async |scene| {
        let before = one_half_is_left(scene).await?;
        scene.stop_operators().await?;
        let agent = scene.agent_that_changes("n1").await?;
        scene.apply(asks(0)).await?;
        let mut kinds = BTreeMap::new();
        // A life that begins amid a change proves anew, tells of it and writes that down before it acts. One that
        // always died right there would never act: so after a life that only told, the next one has one more write.
        let mut after = 0;
        for deaths in 0.. {
            assert!(deaths < 200, "it does not get anywhere: {kinds:?}");
            let wire = Wire::dying_after(after);
            scene.operator_through(wire.clone(), |_| ()).await?;
            let served = tokio::select! {
                () = wire.is_written() => false,
                served = async { scene.runs("next-0").await?; scene.converged("research").await } => {
                    served?;
                    true
                }
            };
            scene.kill_operators();
            they_have_what_they_had(scene, &before)?;
            if served {
                break;
            }
            let tried = wire.tried();
            let acted = tried.keys().any(|kind| ["GpuNode", "node"].contains(kind));
            after = if acted { 0 } else { after + 1 };
            for kind in tried.into_keys() {
                *kinds.entry(kind).or_insert(0) += 1;
            }
        }
        for kind in ["GpuNode", "status of a GpuNode", "node"] {
            assert!(kinds.contains_key(kind), "it never died after a write of this kind: {kind}; {kinds:?}");
        }
        scene.operator_through(Wire::default(), |_| ()).await?;
        assert_eq!(scene.runs("next-0").await?, "n1");
        they_have_what_they_had(scene, &before)?;
        scene.converged("research").await?;
        drop(agent);
        Ok(())
    });
}

/// Between kubelet's choice and the entry in its books a slice looks free for a second or more, here. Somebody writes
/// the node into pods by hand all the while, so that no cordon keeps them away.
#[test]
fn no_pod_that_is_admitted_beside_recuts_loses_its_slice() {
    scenario(async |scene| {
        let mut fleet = Fleet { nodes: vec![halves("n1")], ..Fleet::default() };
        // A minute here is a second.
        fleet.timings.plugin_answers = SignedDuration::from_secs(45);
        fleet.timings.books_entered = SignedDuration::from_secs(45);
        scene.world(fleet).await?;
        scene.agents_are_installed().await?;
        scene.operator().await?;
        scene.apply(policy("research", "research")).await?;
        let agent = scene.agent_that_changes("n1").await?;
        let (mut admitted, mut refused) = (0, 0);
        for n in 0..6 {
            let profile = ["1g.10gb", "2g.20gb", "3g.40gb"][n % 3];
            scene.apply(asks_for(n, profile)).await?;
            let mut rushes = Vec::new();
            for step in ["store", "hold", "closed", "claim"] {
                // It may have been quicker, or have nothing to do.
                let seen = until_at(scene, step);
                let _ = tokio::time::timeout(std::time::Duration::from_millis(1_500), seen).await;
                for (i, profile) in ["3g.40gb", "1g.10gb"].into_iter().enumerate() {
                    let name = format!("rush-{n}-{step}-{i}");
                    let rush = pod(&name, &mig(profile), 1).with("/spec/nodeName", "n1");
                    scene.apply(rush.clone()).await?;
                    rushes.push((name, rush));
                }
            }
            for (name, rush) in rushes {
                let pods: Api<Pod> = scene.pods();
                let phase =
                    e2e::wait::until_one(pods, &name, "it is admitted or not", scene.patience(), |pod| {
                        let phase =
                            pod.and_then(|pod| pod.status.as_ref()?.phase.clone()).unwrap_or_default();
                        if phase == "Running" || phase == "Failed" { Ok(phase) } else { Err(phase) }
                    })
                    .await?;
                *(if phase == "Running" { &mut admitted } else { &mut refused }) += 1;
                scene.delete(rush).await?;
            }
            assert!(
                scene.simulator().breaches().is_empty(),
                "{:?}\n{}",
                scene.simulator().breaches(),
                agent.log()
            );
        }
        assert!(admitted >= 6, "{admitted} of them were admitted, {refused} refused");
        scene.pods().delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        scene.converged("research").await?;
        drop(agent);
        Ok(())
    });
}

fn asks_for(n: usize, profile: &str) -> Manifest {
    pod(&format!("asks-{n}"), &mig(profile), 1)
}
