//! Groups of pods, as the real controllers of JobSet and LeaderWorkerSet make them: a person writes one
//! object, and each of its pods that wants slices is one request. The nodes are full of somebody else's pods,
//! and what these leave is cut for the group.

use controller::settings::Kueue;
use e2e::pod_groups::Kind;
use e2e::{Fleet, NodeSpec, POOL, Scene, TEAM, mig, pod, policy, scenario, wait};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::queues::{QUEUE, check_says, one_queue, was_unschedulable};

/// What every pod of a group wants four of: half of a GPU. Eight pods need two whole nodes.
const HALF: &str = "3g.40gb";
const HALVES: u32 = 4;

/// A pod of somebody else with so many whole GPUs of a node.
fn serves(name: &str, gpus: u32, node: &str) -> Value {
    let whole = pod(name, &mig("7g.80gb"), gpus);
    whole.with("/spec/nodeSelector", json!({"kubernetes.io/hostname": node})).into()
}

/// Three nodes with eight GPUs each. Eight pods of somebody are on `n3`, and stay.
async fn three_nodes(scene: &mut Scene) -> anyhow::Result<()> {
    let node = |name| NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-7g.80gb");
    scene.world(Fleet { nodes: ["n1", "n2", "n3"].map(node).into(), ..Fleet::default() }).await?;
    for n in 0..8 {
        scene.apply(serves(&format!("serves-{n}"), 1, "n3")).await?;
    }
    for n in 0..8 {
        scene.runs(&format!("serves-{n}")).await?;
    }
    Ok(())
}

/// The same, with a training of somebody on each of the two others.
async fn three_full_nodes(scene: &mut Scene) -> anyhow::Result<()> {
    three_nodes(scene).await?;
    for node in ["n1", "n2"] {
        scene.apply(serves(&format!("trains-on-{node}"), 8, node)).await?;
        scene.runs(&format!("trains-on-{node}")).await?;
    }
    Ok(())
}

/// Both trainings end.
async fn two_nodes_become_free(scene: &Scene) -> anyhow::Result<()> {
    for node in ["n1", "n2"] {
        scene.delete(serves(&format!("trains-on-{node}"), 8, node)).await?;
    }
    Ok(())
}

/// The template of a pod of a group; the launcher of a training asks for no GPU.
fn template(resource: &str) -> Value {
    json!({"spec": Value::from(pod("unused", resource, HALVES))["spec"]})
}

/// A launcher without a GPU, and two Jobs of four workers each.
fn training() -> Value {
    let mut launcher = template(&mig(HALF));
    launcher["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1", "memory": "2Gi"}});
    let jobs = |name: &str, replicas: u32, pods: u32, template: Value| {
        json!({"name": name, "replicas": replicas, "template": {"spec": {
            "parallelism": pods, "completions": pods, "template": template,
        }}})
    };
    json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": "train", "namespace": TEAM},
        "spec": {"replicatedJobs": [jobs("launcher", 1, 1, launcher), jobs("worker", 2, 4, template(&mig(HALF)))]},
    })
}

/// One server: a leader and seven workers.
fn server() -> Value {
    json!({
        "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
        "metadata": {"name": "granite", "namespace": TEAM},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {
            "size": 8, "leaderTemplate": template(&mig(HALF)), "workerTemplate": template(&mig(HALF)),
        }},
    })
}

fn in_queue(mut group: Value) -> Value {
    group["metadata"]["labels"] = json!({QUEUE: "research"});
    group
}

/// The label of the pods of a group, with its name.
fn label_of(kind: Kind) -> &'static str {
    match kind {
        Kind::JobSet => "jobset.sigs.k8s.io/jobset-name=train",
        Kind::LeaderWorkerSet => "leaderworkerset.sigs.k8s.io/name=granite",
    }
}

fn asks_for_a_slice(pod: &Pod) -> bool {
    let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.any(|container| {
        let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        requests.is_some_and(|requests| requests.contains_key(&mig(HALF)))
    })
}

/// Waits until eight pods of a group run on slices, and so many without one,
/// and says their names and nodes.
async fn group_runs(scene: &Scene, kind: Kind, without: usize) -> anyhow::Result<Vec<(String, String)>> {
    let of_group = ListParams::default().labels(label_of(kind));
    wait::asking(&format!("the pods of the {kind:?} run"), wait::PATIENCE, async || {
        let found = scene.pods().list(&of_group).await?.items;
        let runs = |pod: &&Pod| pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running");
        let on = |pod: &Pod| Some((pod.name_any(), pod.spec.as_ref()?.node_name.clone()?));
        let (on_slices, others): (Vec<&Pod>, Vec<&Pod>) =
            found.iter().filter(runs).partition(|pod| asks_for_a_slice(pod));
        let is_it = found.len() == 8 + without && on_slices.len() == 8 && others.len() == without;
        let slices: Vec<_> = on_slices.into_iter().filter_map(on).collect();
        Ok(if is_it { Ok(slices) } else { Err(format!("{} pods, on slices {slices:?}", found.len())) })
    })
    .await
}

/// The group stands on what was free, four pods on each node, and nobody else has moved.
async fn stands_beside_the_others(
    scene: &Scene,
    kind: Kind,
    without: usize,
) -> anyhow::Result<Vec<(String, String)>> {
    let pods = group_runs(scene, kind, without).await?;
    for node in ["n1", "n2"] {
        assert_eq!(pods.iter().filter(|(_, on)| on == node).count(), 4, "{pods:?}");
        scene.offers(node, &[(HALF, 16)]).await?;
    }
    let others = scene.running().await?.iter().filter(|name| name.starts_with("serves-")).count();
    assert_eq!(others, 8);
    scene.offers("n3", &[("7g.80gb", 8)]).await?;
    Ok(pods)
}

/// Waits until exactly these wait: `eight` is who stands behind them, once for each pod.
async fn eight_wait(scene: &Scene, eight: &str) -> anyhow::Result<()> {
    scene
        .policy("research", &format!("says that eight pods of {eight} wait"), |object| {
            let unserved = object.status.as_ref()?.unserved.as_ref()?;
            let named: Vec<String> =
                unserved.requests.iter().map(|r| format!("{} {}", r.kind, r.name)).collect();
            (unserved.total == 8 && named == vec![eight; 8]).then_some(())
        })
        .await
}

#[test]
fn each_worker_of_a_job_set_is_a_request_of_its_own_and_the_launcher_runs_without_one() {
    scenario(async |scene| {
        scene.pod_groups(Kind::JobSet).await?;
        three_full_nodes(scene).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").at_a_time(2)).await?;
        scene.apply(training()).await?;
        eight_wait(scene, "JobSet train").await?;
        let launcher = ListParams::default()
            .labels("jobset.sigs.k8s.io/jobset-name=train,jobset.sigs.k8s.io/replicatedjob-name=launcher");
        let launcher = scene.pods().list(&launcher).await?.items.remove(0);
        scene.runs(&launcher.name_any()).await?;
        two_nodes_become_free(scene).await?;
        stands_beside_the_others(scene, Kind::JobSet, 1).await?;
        scene.converged("research").await
    });
}

#[test]
fn the_leader_and_the_workers_of_a_server_wait_under_its_name_and_start_on_two_nodes() {
    scenario(async |scene| {
        scene.pod_groups(Kind::LeaderWorkerSet).await?;
        three_full_nodes(scene).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").at_a_time(2)).await?;
        scene.apply(server()).await?;
        eight_wait(scene, "LeaderWorkerSet granite").await?;
        two_nodes_become_free(scene).await?;
        stands_beside_the_others(scene, Kind::LeaderWorkerSet, 0).await?;
        scene.converged("research").await
    });
}

/// A group in a queue whose slices take two nodes: it is let go as a whole, once all of its slices
/// are there, and the scheduler never looks for one in vain.
fn is_let_go_as_a_whole(kind: Kind, group: Value, without: usize) {
    scenario(async |scene| {
        scene.pod_groups(kind).await?;
        scene.queues().await?;
        three_nodes(scene).await?;
        scene.operator_with(|settings| settings.kueue = Kueue::AdmissionCheck).await?;
        scene.apply(policy("research", "research").at_a_time(2)).await?;
        one_queue(scene, &[(&mig(HALF), 8 * HALVES)]).await?;
        let name = group["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        scene.apply(in_queue(group)).await?;
        check_says(scene, &name, "Pending", "slices for 0 of 8 pods are free").await?;
        check_says(scene, &name, "Ready", "its slices are free on n1, n2").await?;
        for (pod, _) in stands_beside_the_others(scene, kind, without).await? {
            assert!(!was_unschedulable(scene, &pod).await?, "{pod}");
        }
        scene.converged("research").await
    });
}

#[test]
fn a_job_set_in_a_queue_is_one_workload_and_is_let_go_as_a_whole() {
    is_let_go_as_a_whole(Kind::JobSet, training(), 1);
}

#[test]
fn a_server_in_a_queue_is_one_workload_and_is_let_go_as_a_whole() {
    is_let_go_as_a_whole(Kind::LeaderWorkerSet, server(), 0);
}
