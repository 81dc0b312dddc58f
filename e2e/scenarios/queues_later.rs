//! Kueue is installed or upgraded after Slicewright: until it is there an operator that answers its checks serves
//! whoever asks without a queue, and from then on those who wait in one, in whatever version its kinds are served.

use controller::settings::Kueue;
use e2e::{NodeSpec, POOL, Scene, TEAM, mig, objects, pod, policy, scenario, wait};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::queues::{check_says, guide, kueue, was_unschedulable};

/// Kinds of Kueue that come with the cluster of a scenario.
fn of_kueue() -> anyhow::Result<Vec<Value>> {
    let all = objects::foreign_crds()?.into_iter();
    Ok(all.filter(|crd| crd["spec"]["group"] == "kueue.x-k8s.io").collect())
}

#[test]
fn an_operator_that_was_there_before_kueue_answers_its_checks_as_soon_as_there_is_one() {
    scenario(async |scene| {
        scene.remove_crds(&of_kueue()?).await?;
        let eight_gpus =
            |name: &str| NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-1g.10gb");
        scene.nodes_are(["n1", "n2"].map(eight_gpus)).await?;
        scene.operator_with(|settings| settings.kueue = Kueue::AdmissionCheck).await?;
        scene.apply(policy("research", "research")).await?;
        // Without Kueue it is an operator like any other.
        scene.apply(pod("early", &mig("2g.20gb"), 1)).await?;
        let early = scene.runs("early").await?;
        scene.converged("research").await?;
        scene.queues().await?;
        for object in guide()? {
            scene.apply(object).await?;
        }
        check_says(scene, "lab", "Ready", "its slices are free on").await?;
        scene.workbench_runs("lab").await?;
        assert!(
            !was_unschedulable(scene, "lab-0").await?,
            "its slice was there before anybody looked for it"
        );
        assert_eq!(scene.runs("early").await?, early);
        // The operator that answered is the one that was there before.
        assert_eq!(scene.operators().len(), 1);
        let (checks, _) =
            objects::api_of(&scene.client(), &kueue("AdmissionCheck", "gpu-slices", json!({}))).await?;
        let active = checks.get("gpu-slices").await?.data["status"]["conditions"][0].clone();
        assert_eq!((&active["type"], &active["status"]), (&json!("Active"), &json!("True")));
        scene.converged("research").await
    });
}

/// A kind of Kueue as its API has it: one version is served, and stored.
fn kind_in(version: &str, (kind, plural, scope): (&str, &str, &str)) -> Value {
    let versions = ["v1beta1", "v1beta2"].map(|name| {
        json!({"name": name, "served": name == version, "storage": name == version, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.kueue.x-k8s.io")},
        "spec": {"group": "kueue.x-k8s.io", "scope": scope, "versions": versions,
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")}},
    })
}

const KINDS: [(&str, &str, &str); 5] = [
    ("Workload", "workloads", "Namespaced"),
    ("AdmissionCheck", "admissionchecks", "Cluster"),
    ("ResourceFlavor", "resourceflavors", "Cluster"),
    ("ClusterQueue", "clusterqueues", "Cluster"),
    ("LocalQueue", "localqueues", "Namespaced"),
];

/// A check of ours, and a workload that has quota and waits for it, in a version; waits until both are answered.
async fn both_are_answered(scene: &Scene, version: &str, check: &str) -> anyhow::Result<()> {
    let api_version = format!("kueue.x-k8s.io/{version}");
    let ours = json!({"apiVersion": api_version, "kind": "AdmissionCheck", "metadata": {"name": check},
        "spec": {"controllerName": "slicewright.io/slices"}});
    let name = format!("waits-for-{check}");
    let waits = json!({"apiVersion": api_version, "kind": "Workload", "metadata": {"name": name, "namespace": TEAM},
        "spec": {"queueName": "research", "podSets": [{"name": "main", "count": 1, "template": {"spec": {
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}}}]}});
    for object in [&ours, &waits] {
        scene.apply(object.clone()).await?;
    }
    let (workloads, _) = objects::api_of(&scene.client(), &waits).await?;
    let quota = json!({"status": {
        "conditions": [{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "",
            "lastTransitionTime": "2026-11-26T10:00:00Z"}],
        "admissionChecks": [{"name": check, "state": "Pending", "message": "",
            "lastTransitionTime": "2026-11-26T10:00:00Z"}]}});
    workloads.patch_status(&name, &PatchParams::default(), &Patch::Merge(quota)).await?;
    let (checks, _) = objects::api_of(&scene.client(), &ours).await?;
    wait::asking(&format!("check and workload are answered in {version}"), wait::PATIENCE, async || {
        let active = checks.get(check).await?.data["status"]["conditions"][0]["status"].clone();
        let state = workloads.get(&name).await?.data["status"]["admissionChecks"][0]["state"].clone();
        let is = (active == "True", state == "Ready");
        Ok(if is == (true, true) { Ok(()) } else { Err(format!("active: {active}, workload: {state}")) })
    })
    .await
}

/// As after an upgrade of Kueue that ends a version, under an operator that goes on.
#[test]
fn kinds_of_kueue_that_are_served_in_another_version_are_read_and_answered_in_that_one() {
    scenario(async |scene| {
        scene.remove_crds(&of_kueue()?).await?;
        objects::install_crds(&scene.client(), &KINDS.map(|kind| kind_in("v1beta1", kind))).await?;
        scene.nodes_are([NodeSpec::new("n1", 8, "A100-80GB").label(POOL, "research")]).await?;
        scene.operator_with(|settings| settings.kueue = Kueue::AdmissionCheck).await?;
        both_are_answered(scene, "v1beta1", "before").await?;
        let upgraded = KINDS.map(|kind| kind_in("v1beta2", kind));
        objects::install_crds(&scene.client(), &upgraded).await?;
        both_are_answered(scene, "v1beta2", "after").await?;
        scene.remove_crds(&upgraded).await
    });
}
