//! A node goes from MIG manager to its agent and back while fifteen pods compute on it: each of them has the slice that
//! it had, by UUID and serial, and its process computes on.

use std::collections::BTreeMap;
use std::time::Duration;

use api::gpu_node::ObservedBy;
use controller::calls::Calls;
use controller::give_back::{GivenBack, forget, give_back};
use e2e::expect::is_cordoned;
use e2e::objects::OPERATOR_NAMESPACE;
use e2e::{Scene, scenario};
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use crate::agent_changes::{computes, the_agent_has_cut_for_a_workbench, they_have_what_they_had};

const MANAGER: &str = "nvidia.com/gpu.deploy.mig-manager";
const CONFIG: &str = "nvidia.com/mig.config";
const STATE: &str = "nvidia.com/mig.config.state";

fn labels(node: &Node) -> BTreeMap<&str, &str> {
    let labels = node.metadata.labels.iter().flatten();
    let ours = labels.filter(|(key, _)| [MANAGER, CONFIG, STATE].contains(&key.as_str()));
    ours.map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

/// MIG manager has the node, under an entry of ours, and found nothing to do.
async fn mig_manager_has_it(scene: &Scene) -> anyhow::Result<()> {
    scene
        .node("n1", "is MIG manager's", |node| {
            assert!(!is_cordoned(node), "it is never closed for that");
            let said = labels(node);
            let entry = said
                .get(CONFIG)
                .is_some_and(|entry| entry.starts_with("slicewright-") && !entry.contains("agent"));
            (entry && said.get(MANAGER) == Some(&"true") && said.get(STATE) == Some(&"success")).then_some(())
        })
        .await
}

#[test]
fn a_node_goes_to_its_agent_and_back_and_to_it_again_under_pods_that_compute() {
    scenario(async |scene| {
        let (agent, before) = the_agent_has_cut_for_a_workbench(scene).await?;
        scene
            .node("n1", "is the agent's", |node| (labels(node).get(MANAGER) == Some(&"false")).then_some(()))
            .await?;
        they_have_what_they_had(scene, &before)?;

        // It only reports from now on.
        agent.kill().await?;
        let agent = scene.agent_on("n1").await?;
        mig_manager_has_it(scene).await?;
        scene.converged("research").await?;
        they_have_what_they_had(scene, &before)?;

        agent.kill().await?;
        let agent = scene.agent_that_changes("n1").await?;
        scene.apply(computes("next", "2g.20gb")).await?;
        assert_eq!(scene.runs("next").await?, "n1");
        they_have_what_they_had(scene, &before)?;
        scene.converged("research").await?;
        drop(agent);
        Ok(())
    });
}

/// Where an agent is uninstalled, nothing of it is left: MIG manager has the node, and the operator says what it sees.
#[test]
fn a_node_whose_agent_is_uninstalled_goes_back_and_what_the_agent_said_is_taken_out() {
    scenario(async |scene| {
        let (agent, before) = the_agent_has_cut_for_a_workbench(scene).await?;
        agent.kill().await?;
        scene.agent_is_uninstalled("n1").await?;
        mig_manager_has_it(scene).await?;
        scene
            .gpu_node("n1", "is seen by the operator", |node| {
                let status = node.status.as_ref()?;
                let observed = status.observed.as_ref()?;
                (observed.by == ObservedBy::Controller && status.agent.is_none()).then_some(())
            })
            .await?;
        they_have_what_they_had(scene, &before)?;
        scene.converged("research").await
    });
}

/// As the hook of an uninstallation does it: the agent lives and may change slices, and gives the node up all the same.
#[test]
fn before_the_operator_is_stopped_for_good_it_gives_the_nodes_of_living_agents_back() {
    scenario(async |scene| {
        let (agent, before) = the_agent_has_cut_for_a_workbench(scene).await?;
        let calls = Calls::new(scene.client(), Duration::from_secs(10));
        let lease = (OPERATOR_NAMESPACE.to_owned(), "slicewright-operator".to_owned());
        let given = give_back(&calls, &lease, scene.patience()).await?;
        assert_eq!(given, GivenBack { back: vec!["n1".to_owned()], left: Vec::new() });
        mig_manager_has_it(scene).await?;
        scene.converged("research").await?;
        they_have_what_they_had(scene, &before)?;
        scene.stop_operators().await?;
        forget(&calls).await?;
        let mark = "slicewright.io/give-back";
        let marked = |node: &Node| node.metadata.labels.iter().flatten().any(|(key, _)| key == mark);
        scene.node("n1", "is not marked any more", |node| (!marked(node)).then_some(())).await?;
        // Nobody would give it back now.
        assert_eq!(give_back(&calls, &lease, scene.patience()).await?, GivenBack::default());

        // Slicewright is installed again: the agent has the node as before.
        scene.operator_again().await?;
        scene.apply(computes("next", "2g.20gb")).await?;
        assert_eq!(scene.runs("next").await?, "n1");
        they_have_what_they_had(scene, &before)?;
        scene.converged("research").await?;
        drop(agent);
        Ok(())
    });
}

/// MIG manager comes back by somebody's hand. It is told an entry that no map has, so it says that it failed, and leaves
/// the GPUs alone; the next change switches it off again.
#[test]
fn a_mig_manager_that_somebody_switches_on_beside_the_agent_touches_nothing() {
    scenario(async |scene| {
        let (agent, before) = the_agent_has_cut_for_a_workbench(scene).await?;
        scene.patch_node("n1", json!({"metadata": {"labels": {MANAGER: "true"}}})).await?;
        scene
            .node("n1", "has a MIG manager that failed", |node| {
                (labels(node).get(STATE) == Some(&"failed")).then_some(())
            })
            .await?;
        they_have_what_they_had(scene, &before)?;
        scene.apply(computes("next", "2g.20gb")).await?;
        assert_eq!(scene.runs("next").await?, "n1");
        scene
            .node("n1", "is the agent's", |node| (labels(node).get(MANAGER) == Some(&"false")).then_some(()))
            .await?;
        they_have_what_they_had(scene, &before)?;
        scene.converged("research").await?;
        drop(agent);
        Ok(())
    });
}
