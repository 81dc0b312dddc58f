//! A policy selects nodes by a label that GPU feature discovery removes during their change. They belong to
//! the policy until the change is complete.

use std::path::Path;

use anyhow::Context;
use e2e::wait::until;
use e2e::{NodeSpec, POOL, Scene, mig, policy, scenario, workbench};
use serde_json::{Value, json};

const CAPABLE: &str = "nvidia.com/mig.capable";

fn eight_gpus(name: &str) -> NodeSpec {
    NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-1g.10gb")
}

/// The first policy of the installation guide, as somebody has it who agreed
/// with what it says: it does it. It comes before a policy for the rest.
fn documented() -> anyhow::Result<Value> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/first/policy.yaml");
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut policy: Value = serde_saphyr::from_str(&text)?;
    policy["spec"]["mode"] = json!("Enforce");
    policy["spec"]["priority"] = json!(10);
    policy["spec"]["rollout"] = json!({"cooldown": "0s"});
    Ok(policy)
}

/// What condition `Accepted` of a policy said, each time that its status was written.
fn accepted(written: &[Value], policy: &str) -> Vec<String> {
    let mine =
        written.iter().filter(|o| o["kind"] == "GpuPartitionPolicy" && o["metadata"]["name"] == policy);
    let conditions = mine.flat_map(|policy| policy["status"]["conditions"].as_array().into_iter().flatten());
    let accepted = conditions.filter(|condition| condition["type"] == "Accepted");
    accepted.map(|c| format!("{}: {}", c["reason"], c["message"])).collect()
}

/// A node of two is cut under a policy, beside another one that would have it
/// if the first one let go. Gives what the first one said while that lasted.
async fn one_is_cut(scene: &mut Scene, first: Value) -> anyhow::Result<Vec<String>> {
    scene.nodes_are(["n1", "n2"].map(eight_gpus)).await?;
    scene.operator().await?;
    scene.apply(first).await?;
    scene.says("fleet", "Accepted", "True", "Valid").await?;
    scene.apply(policy("rest", "research")).await?;
    scene.says("rest", "Accepted", "False", "Overruled").await?;
    let from_now = scene.audit_from_now()?;
    scene.apply(workbench("lab", &mig("3g.40gb"), 1)).await?;
    until(scene.nodes(), "a node is without its label while it changes", scene.patience(), |nodes| {
        let labels =
            |node: &k8s_openapi::api::core::v1::Node| node.metadata.labels.clone().unwrap_or_default();
        let gone =
            nodes.values().any(|node| labels(node).contains_key(POOL) && !labels(node).contains_key(CAPABLE));
        gone.then_some(()).ok_or_else(|| "all have it".to_owned())
    })
    .await?;
    scene.workbench_runs("lab").await?;
    scene.converged("fleet").await?;
    let written = from_now.objects()?;
    let others = accepted(&written, "rest");
    assert!(others.iter().all(|said| said.starts_with("\"Overruled\"")), "a node was let go: {others:#?}");
    Ok(accepted(&written, "fleet"))
}

#[test]
fn the_documented_first_policy_keeps_its_nodes_while_they_change_and_needs_no_warning() {
    scenario(async |scene| {
        let said = one_is_cut(scene, documented()?).await?;
        assert!(!said.is_empty(), "its status was never written");
        assert!(said.iter().all(|said| said == r#""Valid": "it has 2 nodes""#), "{said:#?}");
        Ok(())
    });
}

#[test]
fn a_policy_by_a_label_that_goes_away_keeps_its_nodes_while_they_change_and_is_warned() {
    scenario(async |scene| {
        let mut policy = documented()?;
        policy["spec"]["nodeSelector"] = json!({"matchLabels": {CAPABLE: "true"}});
        let said = one_is_cut(scene, policy).await?;
        assert!(!said.is_empty(), "its status was never written");
        for said in &said {
            assert!(said.starts_with(r#""Valid": "it has 2 nodes. Warning: spec.nodeSelector"#), "{said}");
            assert!(said.contains("`nvidia.com/gpu.present"), "{said}");
        }
        Ok(())
    });
}
