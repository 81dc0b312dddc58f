//! A workbench whose pod is never created: only its StatefulSet knows why.

use e2e::{NodeSpec, POOL, TEAM, mig, pod, policy, scenario, wait, workbench};
use serde_json::json;

#[test]
fn who_waits_for_a_pod_that_a_quota_forbids_reads_what_the_statefulset_says_and_keeps_no_gpu_cut() {
    scenario(async |scene| {
        let node = |name| NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-1g.10gb");
        scene.nodes_are(["n1", "n2"].map(node)).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research")).await?;
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "no-labs", "namespace": TEAM},
            "spec": {"hard": {"requests.nvidia.com/mig-3g.40gb": "0"}},
        });
        scene.apply(quota.clone()).await?;
        scene.apply(workbench("lab", &mig("3g.40gb"), 1)).await?;
        let said = scene.told("Notebook", "lab", "its StatefulSet cannot create its pod").await?;
        assert!(said.contains("exceeded quota: no-labs"), "{said}");
        // The set tries again and again, and what it says then is the newest: every release shows it in red.
        wait::asking("every release reads that there is no pod", wait::PATIENCE, async || {
            let lines = scene.lines_without_a_pod("lab").await?;
            let is_read = lines.iter().all(|line| line == "Failed to create pod");
            Ok(if is_read { Ok(()) } else { Err(format!("{lines:?}")) })
        })
        .await?;
        // The slice that was cut for it goes to who can start.
        scene.apply(pod("trains", &mig("7g.80gb"), 8)).await?;
        scene.apply(pod("trains-too", &mig("7g.80gb"), 8)).await?;
        scene.runs("trains").await?;
        scene.runs("trains-too").await?;
        scene.delete(quota).await
    });
}
