//! A queue that is topology-aware, with real Kueue: it looks for slices that exist before it asks any check, and
//! places the pods itself.

use anyhow::ensure;
use controller::settings::Kueue;
use e2e::{NodeSpec, POOL, mig, pod, policy, scenario, wait};
use serde_json::{Value, json};

use crate::queues::{check_says, kueue, one_queue_for};
use crate::quota::{job, job_runs};
use crate::snapshot::Recorder;

/// The label of a rack.
const RACK: &str = "topology.example/rack";

/// The racks are in another order than the nodes: what Kueue takes first is not what a plan takes first.
#[test]
fn a_topology_queue_admits_once_a_floor_keeps_slices_ready_and_the_pods_run_where_kueue_puts_them() {
    scenario(async |scene| {
        scene.queues().await?;
        let eight_gpus = |name: &str, rack: &str| {
            NodeSpec::new(name, 8, "A100-80GB")
                .label(POOL, "research")
                .label(RACK, rack)
                .layout("all-7g.80gb")
        };
        scene.nodes_are([eight_gpus("n1", "r2"), eight_gpus("n2", "r1"), eight_gpus("n3", "r3")]).await?;
        let holds = pod("holds-n3", &mig("7g.80gb"), 8);
        scene.apply(holds.with("/spec/nodeSelector", json!({"kubernetes.io/hostname": "n3"}))).await?;
        scene.runs("holds-n3").await?;
        scene.operator_with(|settings| settings.kueue = Kueue::AdmissionCheck).await?;
        scene.apply(policy("research", "research")).await?;
        scene.apply(kueue("Topology", "racks", json!({"levels": [{"nodeLabel": RACK}]}))).await?;
        let flavor = json!({"nodeLabels": {POOL: "research"}, "topologyName": "racks"});
        one_queue_for(scene, flavor, &[(&mig("3g.40gb"), 8)]).await?;
        scene.apply(job("train", &mig("3g.40gb"), 2)).await?;

        let recorder = Recorder::new(scene).await?;
        let said = wait::asking("the queue says why nobody is admitted", wait::PATIENCE, async || {
            let said = recorder.explains("queue", "research").await?;
            let why = said["waiting"][0]["why"].as_str().unwrap_or_default();
            Ok(if why.contains("topology") { Ok(said) } else { Err(said.to_string()) })
        })
        .await?;
        for part in ["it is topology-aware in pool (topology racks)", "minCount or spareCount", "Kueue says:"]
        {
            ensure!(said.to_string().contains(part), "{part}: {said}");
        }
        scene.is_quiet().await?;
        for node in ["n1", "n2"] {
            scene.offers(node, &[("7g.80gb", 8)]).await?;
        }

        // What is said to help. One node has at most sixteen, so both get some.
        scene.apply(policy("research", "research").bounds("3g.40gb", &json!({"minCount": 24}))).await?;
        let ready = check_says(scene, "train", "Ready", "").await?;
        let nodes = job_runs(scene, "train", 2).await?;
        ensure!(ready["podSetUpdates"].as_array().is_none_or(Vec::is_empty), "Kueue places them: {ready}");
        let pods = scene.pods().list(&kube::api::ListParams::default().labels("job-name=train")).await?.items;
        let selected = |pod: &k8s_openapi::api::core::v1::Pod| -> Option<Value> {
            Some(json!(pod.spec.as_ref()?.node_selector.as_ref()?.get(RACK)?))
        };
        let racks: Vec<Value> = pods.iter().filter_map(selected).collect();
        ensure!(racks.len() == 2, "Kueue says in which rack they run: {racks:?}, {nodes:?}");
        scene.converged("research").await
    });
}
