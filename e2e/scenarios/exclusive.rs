//! Jobs and groups of pods of which each has a rack to itself, as the real controllers of JobSet and LeaderWorkerSet place
//! them: the first pod keeps the pods of others away, and its own follow it. Slices are cut where the scheduler puts them,
//! although another rack could have them sooner.

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

/// The pods with a label, once there are so many of them in a phase.
async fn pods_with(
    scene: &Scene,
    (namespace, label): (&str, &str),
    phase: &str,
    many: usize,
) -> anyhow::Result<Vec<Pod>> {
    let pods: Api<Pod> = Api::namespaced(scene.client(), namespace);
    let with_label = ListParams::default().labels(label);
    wait::asking(&format!("{many} pods with {label} are {phase}"), wait::PATIENCE, async || {
        let found = pods.list(&with_label).await?.items;
        let is_it = |pod: &Pod| pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some(phase);
        let all = found.len() == many && found.iter().all(is_it);
        Ok(if all { Ok(found) } else { Err(format!("{} pods", found.len())) })
    })
    .await
}

/// The rack in which both pods with a label run.
async fn rack(scene: &Scene, pods: (&str, &str)) -> anyhow::Result<String> {
    let run = pods_with(scene, pods, "Running", 2).await?;
    let nodes = run.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref());
    let racks: BTreeSet<&str> = nodes.map(|node| if node < "n3" { "north" } else { "south" }).collect();
    ensure!(racks.len() == 1, "both are in one rack: {racks:?}");
    Ok(racks.into_iter().collect())
}

/// Two racks of two nodes with eight GPUs each. Two halves are free in the north, and a node is idle in either.
async fn two_racks(scene: &mut Scene) -> anyhow::Result<()> {
    let eight_gpus = |(name, rack, cut): (&str, &str, &str)| {
        NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").label(RACK, rack).layout(cut)
    };
    let (whole, halves) = ("all-7g.80gb", "all-3g.40gb");
    let nodes =
        [("n1", "north", whole), ("n2", "north", halves), ("n3", "south", whole), ("n4", "south", whole)];
    scene.nodes_are(nodes.map(eight_gpus)).await?;
    for (node, profile, slices) in [("n2", HALF, 14), ("n4", "7g.80gb", 8)] {
        let holds = format!("holds-{node}");
        let there = pod(&holds, &mig(profile), slices).of_neighbours();
        scene.apply(there.with("/spec/nodeSelector", json!({"kubernetes.io/hostname": node}))).await?;
        scene.runs(&of_neighbours(&holds)).await?;
    }
    Ok(())
}

#[test]
fn each_training_gets_its_slices_in_a_rack_without_another_one_and_one_too_many_is_told_why() {
    scenario(async |scene| {
        scene.pod_groups(Kind::JobSet).await?;
        two_racks(scene).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").at_a_time(2)).await?;

        let of = "jobset.sigs.k8s.io/jobset-name";
        let [first, second, third] = ["first", "second", "third"].map(|name| format!("{of}={name}"));
        scene.apply(training(TEAM, "first")).await?;
        ensure!(rack(scene, (TEAM, &first)).await? == "north", "two halves are free there");
        // The idle node of the north comes first by its name, and the scheduler would put nothing of the second there.
        scene.apply(training(NEIGHBOURS, "second")).await?;
        ensure!(rack(scene, (NEIGHBOURS, &second)).await? == "south", "the first is in the north");
        scene.offers("n1", &[("7g.80gb", 8)]).await?;
        scene.converged("research").await?;

        // Each rack has GPUs for it, and another training.
        scene.apply(training(TEAM, "third")).await?;
        let leader = pods_with(scene, (TEAM, &third), "Pending", 1).await?.remove(0).name_any();
        let told = scene.told("Pod", &leader, "exclusive placement").await?;
        ensure!(
            told.contains("has the same example.com/rack as pods of another group, and one of the two groups is to have it"),
            "{told}"
        );
        scene.converged("research").await?;
        scene.delete(training(NEIGHBOURS, "second")).await?;
        ensure!(rack(scene, (TEAM, &third)).await? == "south", "it follows where one has ended");
        scene.converged("research").await
    });
}

/// A server of two groups, each of a leader and a worker.
fn server() -> Value {
    let template = json!({"spec": Value::from(pod("unused", &mig(HALF), 1))["spec"]});
    json!({
        "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
        "metadata": {"name": "granite", "namespace": TEAM,
            "annotations": {"leaderworkerset.sigs.k8s.io/exclusive-topology": RACK}},
        "spec": {"replicas": 2, "leaderWorkerTemplate":
            {"size": 2, "leaderTemplate": template, "workerTemplate": template}},
    })
}

/// Both leaders wait at the same time, and for the second one slices are cut where the first one is not.
#[test]
fn each_group_of_a_server_gets_its_slices_in_a_rack_of_its_own() {
    scenario(async |scene| {
        scene.pod_groups(Kind::LeaderWorkerSet).await?;
        two_racks(scene).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").at_a_time(2)).await?;
        scene.apply(server()).await?;
        let group = |n: u32| format!("leaderworkerset.sigs.k8s.io/group-index={n}");
        let racks = [rack(scene, (TEAM, &group(0))).await?, rack(scene, (TEAM, &group(1))).await?];
        ensure!(racks[0] != racks[1], "both groups are in {racks:?}");
        scene.offers("n1", &[("7g.80gb", 8)]).await?;
        scene.converged("research").await
    });
}
