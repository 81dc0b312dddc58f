//! The replacements for OpenShift AI: the effects on a Notebook without our operator.

use std::collections::BTreeSet;

use anyhow::ensure;
use api::foreign::notebook::LOCK;
use e2e::{NodeSpec, POOL, Scene, TEAM, mig, pod, scenario, scenario_on_any_nodes, wait, workbench};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

const STOPPED: &str = "kubeflow-resource-stopped";

fn notebooks(scene: &Scene) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("kubeflow.org", "v1", "Notebook"));
    Api::namespaced_with(scene.client(), TEAM, &resource)
}

/// Waits until something is true of a Notebook.
async fn notebook<T>(
    scene: &Scene,
    name: &str,
    what: &str,
    judge: impl Fn(&DynamicObject) -> Option<T>,
) -> anyhow::Result<T> {
    let api = notebooks(scene);
    let waiting = kube::runtime::wait::await_condition(api, name, |object: Option<&DynamicObject>| {
        object.is_some_and(|object| judge(object).is_some())
    });
    let found = tokio::time::timeout(scene.patience(), waiting).await;
    let found = found.map_err(|_| anyhow::anyhow!("the Notebook {name} never {what}"))??;
    found.as_ref().and_then(&judge).ok_or_else(|| anyhow::anyhow!("the Notebook {name} is gone"))
}

fn condition(object: &DynamicObject, kind: &str, status: &str) -> Option<String> {
    let conditions = object.data["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|c| c["type"] == kind && c["status"] == status)?;
    Some(found["message"].as_str().unwrap_or_default().to_owned())
}

fn object(name: &str) -> Value {
    json!({"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "metadata": {"name": name, "namespace": TEAM}})
}

#[test]
fn a_workbench_mirrors_its_pod_and_is_stopped_and_started_by_its_annotation() {
    scenario_on_any_nodes(async |scene| {
        scene.nodes_are([NodeSpec::new("n1", 1, "A100-80GB").layout("all-1g.10gb")]).await?;
        scene.apply(workbench("lab", &mig("1g.10gb"), 1)).await?;
        scene.workbench_runs("lab").await?;
        notebook(scene, "lab", "is ready", |object| {
            condition(object, "Ready", "True")?;
            (object.data["status"]["readyReplicas"] == 1).then_some(())
        })
        .await?;
        let stop = json!({"metadata": {"annotations": {STOPPED: "2026-11-20T18:00:00Z"}}});
        scene.patch(object("lab"), stop).await?;
        scene.is_gone("lab-0").await?;
        notebook(scene, "lab", "has no pod any more", |object| {
            (object.data["status"]["conditions"].as_array()?.is_empty()
                && object.data["status"]["readyReplicas"] == 0)
                .then_some(())
        })
        .await?;
        scene.patch(object("lab"), json!({"metadata": {"annotations": {STOPPED: null}}})).await?;
        scene.workbench_runs("lab").await?;

        scene.apply(workbench("half", &mig("3g.40gb"), 1)).await?;
        let message =
            notebook(scene, "half", "waits", |object| condition(object, "PodScheduled", "False")).await?;
        assert!(message.contains("Insufficient nvidia.com/mig-3g.40gb"), "{message}");
        Ok(())
    });
}

/// Where OpenShift AI keeps its profiles.
const APPLICATIONS: &str = "redhat-ods-applications";

/// A profile with this many slices.
fn profile(slices: u32) -> Value {
    let identifier = |name: &str, count: Value| json!({"displayName": name, "identifier": name, "minCount": count, "defaultCount": count});
    json!({
        "apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile",
        "metadata": {"name": "slice", "namespace": APPLICATIONS},
        "spec": {
            "identifiers": [identifier("cpu", json!(1)), identifier("memory", json!("2Gi")),
                identifier("nvidia.com/mig-1g.10gb", json!(slices))],
            "scheduling": {"type": "Node", "node": {"nodeSelector": {"kubernetes.io/os": "linux"}}},
        },
    })
}

/// A workbench with that profile, which says itself how much CPU it wants.
fn with_the_profile(name: &str) -> Value {
    json!({
        "apiVersion": "kubeflow.org/v1", "kind": "Notebook",
        "metadata": {"name": name, "namespace": TEAM, "annotations": {
            "opendatahub.io/hardware-profile-name": "slice",
            "opendatahub.io/hardware-profile-namespace": APPLICATIONS,
        }},
        "spec": {"template": {"spec": {"containers": [
            {"name": name, "image": "registry.example/lab:1", "resources": {
                "requests": {"cpu": "2"}, "limits": {"cpu": "2"}}}]}}},
    })
}

/// What the only container of a running workbench asks for, and where it may run.
async fn asked(scene: &Scene, name: &str) -> anyhow::Result<(Value, Value)> {
    scene.workbench_runs(name).await?;
    let pods: Api<Pod> = Api::namespaced(scene.client(), TEAM);
    let pod = serde_json::to_value(pods.get(&format!("{name}-0")).await?)?;
    let requests = pod["spec"]["containers"][0]["resources"]["requests"].clone();
    Ok((requests, pod["spec"]["nodeSelector"].clone()))
}

#[test]
fn a_hardware_profile_gives_what_the_workbench_does_not_say_and_keeps_a_running_one_as_it_is() {
    scenario(async |scene| {
        scene.nodes_are([NodeSpec::new("n1", 1, "A100-80GB").layout("all-1g.10gb")]).await?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": APPLICATIONS}});
        scene.apply(namespace).await?;
        scene.apply(profile(1)).await?;
        scene.apply(with_the_profile("lab")).await?;
        let (requests, selector) = asked(scene, "lab").await?;
        assert_eq!(requests["nvidia.com/mig-1g.10gb"], "1");
        assert_eq!(requests["cpu"], "2", "what the user gave stays");
        assert_eq!(selector["kubernetes.io/os"], "linux");

        let sets: Api<StatefulSet> = Api::namespaced(scene.client(), TEAM);
        let before = sets.get("lab").await?;
        let pod = scene.pods().get("lab-0").await?.metadata.uid;
        // Somebody edits the profile. Who comes now gets more of it, so it has been seen.
        scene.apply(profile(2)).await?;
        let mut tries = 0;
        wait::asking("a new workbench gets two slices", scene.patience(), async || {
            tries += 1;
            let name = format!("next-{tries}");
            scene.apply(with_the_profile(&name)).await?;
            let (requests, _) = asked(scene, &name).await?;
            scene.delete(object(&name)).await?;
            scene.is_gone(&format!("{name}-0")).await?;
            let slices = &requests["nvidia.com/mig-1g.10gb"];
            Ok(if slices == "2" { Ok(()) } else { Err(slices.to_string()) })
        })
        .await?;
        // The one that runs is written, so that the webhook is asked of it again. The next one comes after that.
        let seen = json!({"metadata": {"annotations": {"team.example/touched": "yes"}}});
        scene.patch(object("lab"), seen).await?;
        scene.apply(with_the_profile("last")).await?;
        scene.workbench_runs("last").await?;
        let after = sets.get("lab").await?;
        assert_eq!(after.metadata.generation, before.metadata.generation);
        assert_eq!(after.spec, before.spec);
        assert_eq!(scene.pods().get("lab-0").await?.metadata.uid, pod, "it is the same pod");
        Ok(())
    });
}

/// odh-notebook-controller's webhook locks each new workbench with the annotation by which users stop theirs.
#[test]
fn a_workbench_that_is_locked_while_it_is_made_runs_without_anybody_starting_it() {
    scenario_on_any_nodes(async |scene| {
        scene.nodes_are([NodeSpec::new("n1", 1, "A100-80GB").layout("all-1g.10gb")]).await?;
        let mut lab = Value::from(workbench("lab", &mig("1g.10gb"), 1));
        lab["metadata"]["annotations"][STOPPED] = json!(LOCK);
        scene.apply(lab).await?;
        scene.workbench_runs("lab").await?;
        notebook(scene, "lab", "is let go", |object| {
            let annotations = object.metadata.annotations.as_ref();
            annotations.is_none_or(|annotations| !annotations.contains_key(STOPPED)).then_some(())
        })
        .await
    });
}

#[test]
fn an_idle_workbench_is_culled_when_culling_is_on() {
    scenario_on_any_nodes(async |scene| {
        scene.nodes_are([NodeSpec::new("n1", 1, "A100-80GB").layout("all-1g.10gb")]).await?;
        scene.apply(workbench("lab", &mig("1g.10gb"), 1)).await?;
        scene.workbench_runs("lab").await?;
        let culler = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "notebook-controller-culler-config", "namespace": "nvidia-gpu-operator"},
            "data": {"ENABLE_CULLING": "true", "CULL_IDLE_TIME": "2"}});
        scene.apply(culler).await?;
        notebook(scene, "lab", "is stopped by the culler", |object| {
            object.metadata.annotations.as_ref()?.get(STOPPED).cloned()
        })
        .await?;
        scene.is_gone("lab-0").await
    });
}

/// The notebook controller writes a status whenever it looks at a workbench, with the time of it.
#[test]
fn a_status_that_is_written_again_and_again_by_its_controller_makes_the_operator_write_nothing() {
    scenario(async |scene| {
        let eight_gpus =
            |name: &str| NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-7g.80gb");
        scene.research_has(["n1", "n2"].map(eight_gpus)).await?;
        scene.apply(pod("holds", &mig("7g.80gb"), 8)).await?;
        scene.runs("holds").await?;
        scene.apply(workbench("lab", &mig("3g.40gb"), 1)).await?;
        scene.workbench_runs("lab").await?;
        scene.converged("research").await?;
        scene.is_quiet().await?;
        let audit = scene.audit_from_now()?;
        let api = notebooks(scene);
        let (mut touched, mut times) = (0, BTreeSet::new());
        wait::asking("its status has had four times", scene.patience(), async || {
            touched += 1;
            let seen = json!({"metadata": {"annotations": {"team.example/touched": touched.to_string()}}});
            scene.patch(object("lab"), seen).await?;
            times.insert(api.get("lab").await?.data["status"]["conditions"][0]["lastProbeTime"].to_string());
            Ok(if times.len() >= 4 { Ok(()) } else { Err(format!("{times:?}")) })
        })
        .await?;
        scene.is_quiet().await?;
        let written: Vec<String> = audit.writes()?.iter().map(ToString::to_string).collect();
        ensure!(written.is_empty(), "the operator wrote: {written:#?}");
        Ok(())
    });
}
