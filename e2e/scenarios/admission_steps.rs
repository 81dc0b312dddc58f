//! What may come between the steps of an admission, with real Kueue: a workbench is stopped while its queue holds it.

use anyhow::ensure;
use api::foreign::notebook::STOPPED;
use controller::settings::Kueue;
use e2e::manifests::Manifest;
use e2e::{NodeSpec, POOL, Scene, mig, pod, policy, scenario, wait, workbench};
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::queues::{QUEUE, check_says, one_queue, was_unschedulable, workloads};

/// A node with eight whole slices.
fn eight_gpus(name: &str) -> NodeSpec {
    NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-7g.80gb")
}

/// Two nodes with eight GPUs each, of which others have all; a policy, an operator, and a queue that gives quota for
/// four `3g.40gb`.
async fn queue_over_two_full_nodes(scene: &mut Scene) -> anyhow::Result<()> {
    scene.queues().await?;
    scene.nodes_are(["n1", "n2"].map(eight_gpus)).await?;
    for node in ["n1", "n2"] {
        let holds = pod(&format!("holds-{node}"), &mig("7g.80gb"), 8);
        scene.apply(holds.with("/spec/nodeSelector", json!({"kubernetes.io/hostname": node}))).await?;
        scene.runs(&format!("holds-{node}")).await?;
    }
    scene.apply(policy("research", "research")).await?;
    scene.operator_with(|settings| settings.kueue = Kueue::AdmissionCheck).await?;
    one_queue(scene, &[(&mig("3g.40gb"), 4)]).await
}

/// A workbench in the queue.
fn lab() -> Manifest {
    workbench("lab", &mig("3g.40gb"), 1).labelled(QUEUE, "research")
}

#[test]
fn a_workbench_that_is_stopped_while_its_queue_holds_it_gets_no_slice_and_starts_later_like_any_other() {
    scenario(async |scene| {
        queue_over_two_full_nodes(scene).await?;
        scene.apply(lab()).await?;
        check_says(scene, "lab", "Pending", "not served").await?;
        scene.patch(lab(), json!({"metadata": {"annotations": {STOPPED: "2026-11-26T10:00:00Z"}}})).await?;
        scene.is_gone("lab-0").await?;
        let api = workloads(scene).await?;
        wait::asking("its workload is gone", scene.patience(), async || {
            let left = api.list(&ListParams::default()).await?.items;
            let statuses: Vec<&Value> = left.iter().map(|workload| &workload.data["status"]).collect();
            Ok(if left.is_empty() { Ok(()) } else { Err(json!(statuses).to_string()) })
        })
        .await?;
        scene
            .policy("research", "has nobody who waits", |object| {
                let unserved = object.status.as_ref()?.unserved.as_ref();
                unserved.is_none_or(|unserved| unserved.total == 0).then_some(())
            })
            .await?;
        // There is room now, and nobody who wants it.
        scene.delete(pod("holds-n2", &mig("7g.80gb"), 8)).await?;
        scene.is_gone("holds-n2").await?;
        scene.is_quiet().await?;
        scene.converged("research").await?;
        scene.offers("n2", &[("7g.80gb", 8)]).await?;
        scene.patch(lab(), json!({"metadata": {"annotations": {STOPPED: null}}})).await?;
        check_says(scene, "lab", "Ready", "its slices are free on n2").await?;
        assert_eq!(scene.workbench_runs("lab").await?, "n2");
        ensure!(
            !was_unschedulable(scene, "lab-0").await?,
            "its slice was there before anybody looked for it"
        );
        Ok(())
    });
}
