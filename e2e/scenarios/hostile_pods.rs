//! A user fills a namespace with the largest objects that the API server accepts. The user is told that
//! they are too long; others are not affected.

use std::time::Duration;

use e2e::{NodeSpec, POOL, mig, pod, policy, scenario};
use serde_json::{Value, json};

fn eight_gpus(name: &str) -> NodeSpec {
    NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-1g.10gb")
}

/// A pod that may go to a node that has one of so many values.
fn choosy(name: &str, values: usize) -> Value {
    let values: Vec<_> = (0..values).map(|n| format!("v{n}")).collect();
    let terms = json!([{"matchExpressions": [{"key": "pool", "operator": "In", "values": values}]}]);
    pod(name, &mig("3g.40gb"), 1)
        .in_namespace("hostile")
        .with(
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
            terms,
        )
        .into()
}

/// What this process has in memory, in MiB.
fn resident() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    let kib: u64 = line.split_whitespace().nth(1).unwrap_or_default().parse()?;
    Ok(kib / 1024)
}

#[test]
fn hostile_pods_cost_little_and_others_have_their_answers() {
    scenario(async |scene| {
        scene.nodes_are(["n1", "n2"].map(eight_gpus)).await?;
        scene
            .apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hostile"}}))
            .await?;
        for n in 0..24 {
            let mut gated = choosy(&format!("gated-{n}"), 100_000);
            gated["spec"]["schedulingGates"] = json!([{"name": "example.com/never"}]);
            scene.apply(gated).await?;
        }
        scene.apply(choosy("loud", 100_000)).await?;
        // Listed in pages, as after a start, and not one by one.
        let before = resident()?;
        scene.operator_with(|settings| settings.batch_delay = Duration::from_millis(50)).await?;
        scene.apply(policy("research", "research")).await?;
        scene.apply(pod("lab", &mig("3g.40gb"), 1)).await?;
        scene.runs("lab").await?;
        let told = scene.told("Pod", "loud", "too long to be evaluated").await?;
        assert!(told.contains("select nodes by a few labels"), "{told}");
        let answer = scene.is_unserved("research", "loud").await?;
        assert_eq!(answer.reason, "Refused", "{}", answer.message);
        let after = resident()?;
        assert!(after < before + 128, "{before} MiB before, {after} MiB after");
        scene.converged("research").await?;
        scene.delete(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hostile"}})).await
    });
}
