//! A node that its agent changes reboots: its slices are gone, and MIG manager, which would cut them again, is off.

use std::collections::BTreeSet;

use e2e::expect::is_cordoned;
use e2e::{Scene, scenario};
use gpu::{Behaviour, Fault, Times, Verb};
use k8s_openapi::api::core::v1::Node;
use operands::NodeFault;

use crate::agent_changes::{computes, is_at, the_agent_has_cut_for_a_workbench};

/// Every slice of the node: its GPU, its profile and its UUID, which is another one at another place.
fn slices(scene: &Scene) -> anyhow::Result<BTreeSet<(usize, String, Option<String>)>> {
    let gpus = scene.simulator().truth("n1")?.into_iter().enumerate();
    let slice =
        |(index, slice): (usize, operands::SliceTruth)| (index, slice.profile.to_string(), slice.uuid);
    Ok(gpus
        .flat_map(|(index, gpu)| gpu.slices.into_iter().map(move |slice| (index, slice)))
        .map(slice)
        .collect())
}

fn boot(node: &Node) -> Option<String> {
    Some(node.status.as_ref()?.node_info.as_ref()?.boot_id.clone())
}

/// Goes down and comes up again; nobody schedules onto it before its agent has reported.
async fn reboots(scene: &Scene) -> anyhow::Result<()> {
    let before = scene.node("n1", "has a boot id", boot).await?;
    scene.simulator().reboot("n1")?;
    scene.node("n1", "has another boot id", |node| boot(node).filter(|now| *now != before)).await?;
    assert!(slices(scene)?.is_empty(), "its instances are lost");
    scene.node("n1", "is cordoned", |node| is_cordoned(node).then_some(())).await
}

#[test]
fn a_node_gets_the_slices_that_it_had_at_their_places_and_is_closed_until_then() {
    scenario(async |scene| {
        let (agent, _) = the_agent_has_cut_for_a_workbench(scene).await?;
        let had = slices(scene)?;
        agent.kill().await?;
        reboots(scene).await?;
        let agent = scene.agent_that_changes("n1").await?;
        scene.node("n1", "is open", |node| (!is_cordoned(node)).then_some(())).await?;
        assert_eq!(slices(scene)?, had, "{}", agent.log());
        assert_eq!(scene.workbench_runs("lab").await?, "n1");
        scene.apply(computes("after", "3g.40gb")).await?;
        assert_eq!(scene.runs("after").await?, "n1");
        scene.converged("research").await?;
        drop(agent);
        Ok(())
    });
}

/// Whoever makes an instance next never hears of it.
fn cutting_hangs() -> Fault {
    Fault::Call {
        verb: Verb::CreateGpuInstance,
        gpu: None,
        behaviour: Behaviour::Hang,
        times: Times::Count(1),
    }
}

/// The agent has claimed a change and the node goes down: what it was to become nobody knows any more. The slices that were
/// there before the change, which was for two pods.
async fn goes_down_amid_a_change(
    scene: &mut Scene,
) -> anyhow::Result<BTreeSet<(usize, String, Option<String>)>> {
    let (agent, _) = the_agent_has_cut_for_a_workbench(scene).await?;
    let had = slices(scene)?;
    // A change takes less than a second: this one does not get beyond the first slice.
    scene.simulator().begin_fault("n1", NodeFault::Hardware(cutting_hangs()))?;
    scene.apply(computes("next", "7g.80gb")).await?;
    scene.apply(computes("other", "2g.20gb")).await?;
    scene.gpu_node("n1", "is being changed", |node| is_at("claim", node).then_some(())).await?;
    agent.kill().await?;
    scene.simulator().clear("n1")?;
    reboots(scene).await?;
    Ok(had)
}

#[test]
fn a_node_that_reboots_amid_a_change_serves_the_requests_of_the_change_after_all() {
    scenario(async |scene| {
        goes_down_amid_a_change(scene).await?;
        let agent = scene.agent_that_changes("n1").await?;
        scene.node("n1", "is open", |node| (!is_cordoned(node)).then_some(())).await?;
        assert_eq!(scene.runs("other").await?, "n1");
        assert_eq!(scene.runs("next").await?, "n1");
        scene.converged("research").await?;
        drop(agent);
        Ok(())
    });
}

/// Nobody asks for another layout any more, so that what comes back stays to be seen.
#[test]
fn a_node_that_reboots_amid_a_change_gets_the_slices_that_were_verified_before_it() {
    scenario(async |scene| {
        let had = goes_down_amid_a_change(scene).await?;
        scene.delete(computes("next", "7g.80gb")).await?;
        scene.delete(computes("other", "2g.20gb")).await?;
        let agent = scene.agent_that_changes("n1").await?;
        scene.node("n1", "is open", |node| (!is_cordoned(node)).then_some(())).await?;
        assert_eq!(slices(scene)?, had, "{}", agent.log());
        scene.converged("research").await?;
        assert_eq!(slices(scene)?, had, "{}", agent.log());
        Ok(())
    });
}
