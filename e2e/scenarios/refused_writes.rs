//! The API server refuses what the operator writes, until a human allows it:
//! whoever looks at the node, at the policy or at his own workbench reads who
//! refuses it, in the refuser's own words.

use anyhow::Context;
use e2e::objects::{MAP_NAME, OPERATOR_USER};
use e2e::{NodeSpec, POOL, Scene, mig, pod, policy, scenario};
use serde_json::{Value, json};

const WORDS: &str = "nothing moves on Fridays";

fn eight_gpus(name: &str) -> NodeSpec {
    NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-1g.10gb")
}

/// Nobody may write these objects but under the name of somebody else.
fn refusal(resource: &str, group: &str, operations: &[&str]) -> [Value; 2] {
    let admission = "admissionregistration.k8s.io/v1";
    [
        json!({
            "apiVersion": admission, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "fridays"},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [
                    {"apiGroups": [group], "apiVersions": ["*"], "operations": operations, "resources": [resource]}]},
                "validations": [{
                    "expression": format!("request.userInfo.username != '{OPERATOR_USER}'"),
                    "message": WORDS,
                }],
            },
        }),
        json!({
            "apiVersion": admission, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "fridays"},
            "spec": {"policyName": "fridays", "validationActions": ["Deny"]},
        }),
    ]
}

async fn refuse(scene: &Scene, resource: &str, group: &str, operations: &[&str]) -> anyhow::Result<()> {
    for object in refusal(resource, group, operations) {
        scene.apply(object).await?;
    }
    Ok(())
}

async fn allow(scene: &Scene) -> anyhow::Result<()> {
    for object in refusal("nodes", "", &["UPDATE"]) {
        scene.delete(object).await?;
    }
    Ok(())
}

#[test]
fn refused_writes_of_a_node_are_told_in_the_refusers_words_and_done_once_they_are_allowed() {
    scenario(async |scene| {
        scene.nodes_are(["n1", "n2", "n3"].map(eight_gpus)).await?;
        refuse(scene, "nodes", "", &["UPDATE"]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research")).await?;
        scene.apply(pod("asks", &mig("3g.40gb"), 1)).await?;
        let said = scene.says("research", "Ready", "False", "WriteRefused").await?;
        let metrics = scene.operators().first().context("it was started")?.metrics().await?;
        let counted =
            |line: &str| line.starts_with("slicewright_refused_writes{") && line.contains("kind=\"Node\"");
        assert!(metrics.lines().any(counted), "the alert would not find it:\n{metrics}");
        assert!(said.contains(WORDS) && said.contains("patch Node "), "{said}");
        scene.says("research", "Stalled", "True", "WriteRefused").await?;
        let told = scene.told("Pod", "asks", WORDS).await?;
        assert!(!told.contains("at about"), "nobody knows when: {told}");
        // For longer than a write may take to be seen: nothing is given up for it.
        let name = told.split(' ').next().unwrap_or_default().to_owned();
        let ready = scene
            .gpu_node(&name, "quotes who refuses", |node| {
                let conditions = &node.status.as_ref()?.conditions;
                let ready = conditions.iter().find(|c| c.type_ == "Ready" && c.reason == "WriteRefused")?;
                Some(ready.message.clone())
            })
            .await?;
        assert!(ready.contains(WORDS), "{ready}");
        let node = scene.phase(&name, "Cordoning").await?;
        let error = node.status.and_then(|status| status.rollout).and_then(|rollout| rollout.last_error);
        assert_eq!(error, None, "a refusal is no write that was not seen");
        allow(scene).await?;
        scene.runs("asks").await?;
        scene.converged("research").await
    });
}

#[test]
fn refused_writes_of_the_map_are_told_by_the_policy() {
    scenario(async |scene| {
        scene.nodes_are(["n1", "n2"].map(eight_gpus)).await?;
        refuse(scene, "configmaps", "", &["CREATE", "UPDATE"]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        let said = scene.says("research", "Ready", "False", "WriteRefused").await?;
        assert!(said.contains(WORDS) && said.contains(MAP_NAME), "{said}");
        allow(scene).await?;
        for node in ["n1", "n2"] {
            scene.each_gpu_offers(node, &[("3g.40gb", 2)]).await?;
        }
        scene.converged("research").await
    });
}

#[test]
fn refused_writes_of_events_are_told_when_they_may_be() {
    scenario(async |scene| {
        scene.nodes_are(["n1", "n2"].map(eight_gpus)).await?;
        refuse(scene, "events", "events.k8s.io", &["CREATE"]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research")).await?;
        scene.apply(pod("asks", &mig("3g.40gb"), 1)).await?;
        scene.runs("asks").await?;
        assert_eq!(scene.story_of("Pod", "asks").await?, "", "nothing could be told");
        allow(scene).await?;
        scene.told("Pod", "asks", "is changed for it").await?;
        scene.converged("research").await
    });
}
