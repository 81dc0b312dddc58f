//! Training jobs of which each has a rack to itself, as the real controller of JobSet places them: the first pod of a job
//! keeps other jobs' pods away, and the others follow it. Slices are cut where the scheduler puts them, although another
//! rack has the very slices free.

use std::collections::BTreeSet;

use anyhow::ensure;
use e2e::manifests::of_neighbours;
use e2e::pod_groups::Kind;
use e2e::{NEIGHBOURS, NodeSpec, POOL, Scene, TEAM, mig, pod, policy, scenario, wait};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

const RACK: &str = "example.com/rack";
const HALF: &str = "3g.40gb";

/// Two workers, each with half of a GPU, in a rack without other jobs.
fn training(namespace: &str, name: &str) -> Value {
    let template = json!({"spec": Value::from(pod("unused", &mig(HALF), 1))["spec"]});
    let workers = json!({"parallelism": 2, "completions": 2, "template": template});
    json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": name, "namespace": namespace,
            "annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": RACK}},
        "spec": {"replicatedJobs": [{"name": "worker", "replicas": 1, "template": {"spec": workers}}]},
    })
}

/// The pods of a training, once there are so many of them in a phase.
async fn pods_of(
    scene: &Scene,
    (namespace, training): (&str, &str),
    phase: &str,
    many: usize,
) -> anyhow::Result<Vec<Pod>> {
    let pods: Api<Pod> = Api::namespaced(scene.client(), namespace);
    let of_training = ListParams::default().labels(&format!("jobset.sigs.k8s.io/jobset-name={training}"));
    wait::asking(&format!("{many} pods of {training} are {phase}"), wait::PATIENCE, async || {
        let found = pods.list(&of_training).await?.items;
        let is_it = |pod: &Pod| pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some(phase);
        let all = found.len() == many && found.iter().all(is_it);
        Ok(if all { Ok(found) } else { Err(format!("{} pods", found.len())) })
    })
    .await
}

/// The rack in which both workers run.
async fn rack(scene: &Scene, training: (&str, &str)) -> anyhow::Result<String> {
    let run = pods_of(scene, training, "Running", 2).await?;
    let nodes = run.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref());
    let racks: BTreeSet<&str> = nodes.map(|node| if node < "n3" { "north" } else { "south" }).collect();
    ensure!(racks.len() == 1, "both are in one rack: {racks:?}");
    Ok(racks.into_iter().collect())
}

#[test]
fn each_training_gets_its_slices_in_a_rack_without_another_one_and_one_too_many_is_told_why() {
    scenario(async |scene| {
        scene.pod_groups(Kind::JobSet).await?;
        let eight_gpus = |(name, rack, cut): (&str, &str, &str)| {
            NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").label(RACK, rack).layout(cut)
        };
        let (whole, halves) = ("all-7g.80gb", "all-3g.40gb");
        let nodes =
            [("n1", "north", whole), ("n2", "north", halves), ("n3", "south", whole), ("n4", "south", whole)];
        scene.nodes_are(nodes.map(eight_gpus)).await?;
        // Others leave two halves of n2, and nothing of n4.
        for (node, profile, slices) in [("n2", HALF, 14), ("n4", "7g.80gb", 8)] {
            let holds = format!("holds-{node}");
            let there = pod(&holds, &mig(profile), slices).of_neighbours();
            scene.apply(there.with("/spec/nodeSelector", json!({"kubernetes.io/hostname": node}))).await?;
            scene.runs(&of_neighbours(&holds)).await?;
        }
        scene.operator().await?;
        scene.apply(policy("research", "research").at_a_time(2)).await?;

        let (first, second) = ((TEAM, "first"), (NEIGHBOURS, "second"));
        scene.apply(training(first.0, first.1)).await?;
        ensure!(rack(scene, first).await? == "north", "two halves are free there");
        // The idle node of the north comes first by its name, and the scheduler would put nothing of the second there.
        scene.apply(training(second.0, second.1)).await?;
        ensure!(rack(scene, second).await? == "south", "the first is in the north");
        scene.offers("n1", &[("7g.80gb", 8)]).await?;
        scene.converged("research").await?;

        // Each rack has GPUs for it, and another training.
        scene.apply(training(TEAM, "third")).await?;
        let leader = pods_of(scene, (TEAM, "third"), "Pending", 1).await?.remove(0).name_any();
        let told = scene.told("Pod", &leader, "exclusive placement").await?;
        ensure!(
            told.contains("has the same example.com/rack as pods of another group, and one of the two groups is to have it"),
            "{told}"
        );
        scene.converged("research").await?;
        scene.delete(training(second.0, second.1)).await?;
        ensure!(rack(scene, (TEAM, "third")).await? == "south", "it follows where one has ended");
        scene.converged("research").await
    });
}
