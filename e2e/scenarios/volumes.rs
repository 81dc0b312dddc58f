//! A pod whose disk is on one node, and one that needs a network interface: slices are cut where the scheduler can use
//! them.

use e2e::{NodeSpec, TEAM, mig, pod, policy, scenario, workbench};
use serde_json::{Value, json};

/// Eight GPUs, whole, so that the small slices that are wanted have to be cut.
fn eight_gpus(name: &str) -> NodeSpec {
    NodeSpec::new(name, 8, "A100-80GB").label(e2e::POOL, "research").layout("all-7g.80gb")
}

/// A local disk of a node, and the claim that has it.
fn disk_on(node: &str, claim: &str) -> [Value; 2] {
    let name = format!("disk-of-{claim}");
    let term =
        json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]});
    let common = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": ""});
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {"capacity": {"storage": "1Gi"}, "local": {"path": "/disk"},
            "claimRef": {"namespace": TEAM, "name": claim},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}},
    });
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": TEAM, "name": claim},
        "spec": {"volumeName": name, "resources": {"requests": {"storage": "1Gi"}}},
    });
    for object in [&mut volume, &mut claim] {
        let fields = common.as_object().into_iter().flatten();
        fields.for_each(|(field, value)| object["spec"][field] = value.clone());
    }
    [volume, claim]
}

#[test]
fn slices_are_cut_where_the_disks_of_pods_and_workbenches_are() {
    scenario(async |scene| {
        scene.nodes_are(["n1", "n2", "n3"].map(eight_gpus)).await?;
        scene.operator().await?;
        for (node, claim) in [("n3", "train-data"), ("n2", "lab-storage")] {
            for object in disk_on(node, claim) {
                scene.apply(object).await?;
            }
        }
        let volume = |claim: &str| json!([{"name": "disk", "persistentVolumeClaim": {"claimName": claim}}]);
        scene.apply(pod("train", &mig("3g.40gb"), 1).with("/spec/volumes", volume("train-data"))).await?;
        let lab = workbench("lab", &mig("3g.40gb"), 1);
        scene.apply(lab.with("/spec/template/spec/volumes", volume("lab-storage"))).await?;
        scene.is_unschedulable("train").await?;
        scene.is_unschedulable("lab-0").await?;
        scene.apply(policy("research", "research")).await?;
        assert_eq!(scene.runs("train").await?, "n3");
        assert_eq!(scene.workbench_runs("lab").await?, "n2");
        scene.converged("research").await?;
        scene.offers("n1", &[("7g.80gb", 8)]).await
    });
}
