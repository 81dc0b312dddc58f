//! Pods that have to be in one zone and start together, in a queue of real Kueue, and a real scheduler that knows the
//! zones: the slices of all of them are cut in one zone, or none.

use anyhow::ensure;
use controller::settings::Kueue;
use e2e::manifests::of_neighbours;
use e2e::{NodeSpec, POOL, Scene, TEAM, mig, pod, policy, scenario};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::queues::{check_says, one_queue, was_unschedulable};
use crate::quota::{job, job_runs};

const ZONE: &str = "topology.kubernetes.io/zone";

/// More halves of a GPU than one node has, and fewer than two.
const WORKERS: u32 = 20;

/// A training whose workers have to be in one zone.
fn training() -> Value {
    let labels = json!({"training": "llama"});
    let mut job = job("train", &mig("3g.40gb"), WORKERS);
    let template = &mut job["spec"]["template"];
    template["metadata"]["labels"] = labels.clone();
    template["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!([{"labelSelector": {"matchLabels": labels}, "topologyKey": ZONE}]);
    job
}

/// Somebody of another team with so many whole GPUs of a node.
async fn holds(scene: &Scene, name: &str, gpus: u32, node: &str) -> anyhow::Result<()> {
    let pod = pod(name, &mig("7g.80gb"), gpus).of_neighbours();
    scene.apply(pod.with("/spec/nodeSelector", json!({"kubernetes.io/hostname": node}))).await?;
    scene.runs(&of_neighbours(name)).await?;
    Ok(())
}

#[test]
fn a_gang_that_has_to_be_in_one_zone_waits_without_a_cut_until_one_zone_has_slices_for_all_of_it() {
    scenario(async |scene| {
        scene.queues().await?;
        let eight_gpus = |(name, zone): (&str, &str)| {
            NodeSpec::new(name, 8, "A100-80GB")
                .label(POOL, "research")
                .label(ZONE, zone)
                .layout("all-7g.80gb")
        };
        let nodes = [("n1", "north"), ("n2", "north"), ("n3", "south"), ("n4", "south")];
        scene.nodes_are(nodes.map(eight_gpus)).await?;
        // One node of each zone is free: enough for all of them, if they could be anywhere.
        holds(scene, "holds-n1", 8, "n1").await?;
        holds(scene, "trains", 8, "n3").await?;
        scene.operator_with(|settings| settings.kueue = Kueue::AdmissionCheck).await?;
        scene.apply(policy("research", "research").at_a_time(2)).await?;
        one_queue(scene, &[(&mig("3g.40gb"), WORKERS)]).await?;
        scene.apply(training()).await?;
        let said = "its 20 pods start together and have to be in one part of the cluster by \
                    topology.kubernetes.io/zone, and none has slices for all of them: for 16 in north, for 16 in south";
        check_says(scene, "train", "Pending", said).await?;
        scene.is_quiet().await?;
        for node in ["n2", "n4"] {
            scene.offers(node, &[("7g.80gb", 8)]).await?;
        }

        // The south has room for all of them now: none of the twenty is begun in the north.
        let trains = pod("trains", &mig("7g.80gb"), 8).of_neighbours();
        scene.delete(Value::from(trains)).await?;
        let ready = check_says(scene, "train", "Ready", "its slices are free on n3, n4").await?;
        ensure!(ready["podSetUpdates"][0]["nodeSelector"] == json!({ZONE: "south"}), "{ready}");
        let nodes = job_runs(scene, "train", WORKERS as usize).await?;
        ensure!(nodes.iter().all(|node| node == "n3" || node == "n4"), "{nodes:?}");
        let of_job = ListParams::default().labels("job-name=train");
        for worker in scene.pods().list(&of_job).await?.items {
            let name = worker.name_any();
            ensure!(!was_unschedulable(scene, &name).await?, "{name} of {TEAM} was never looked for in vain");
        }
        scene.offers("n2", &[("7g.80gb", 8)]).await?;
        scene.converged("research").await
    });
}
