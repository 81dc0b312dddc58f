//! The replacements for OpenShift AI: the effects on a Notebook without our operator.

use std::collections::BTreeSet;

use anyhow::ensure;
use e2e::{NodeSpec, POOL, Scene, TEAM, mig, pod, scenario, scenario_on_any_nodes, wait, workbench};
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

#[test]
fn a_hardware_profile_gives_what_the_workbench_does_not_say_and_keeps_a_running_one_as_it_is() {
    scenario(async |scene| {
        scene.nodes_are([NodeSpec::new("n1", 1, "A100-80GB").layout("all-1g.10gb")]).await?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "redhat-ods-applications"}});
        scene.apply(namespace).await?;
        let identifier = |name: &str, count: Value| json!({"displayName": name, "identifier": name, "minCount": count, "defaultCount": count});
        let profile = json!({
            "apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile",
            "metadata": {"name": "slice", "namespace": "redhat-ods-applications"},
            "spec": {
                "identifiers": [identifier("cpu", json!(1)), identifier("memory", json!("2Gi")),
                    identifier("nvidia.com/mig-1g.10gb", json!(1))],
                "scheduling": {"type": "Node", "node": {"nodeSelector": {"kubernetes.io/os": "linux"}}},
            },
        });
        scene.apply(profile.clone()).await?;
        let lab = json!({
            "apiVersion": "kubeflow.org/v1", "kind": "Notebook",
            "metadata": {"name": "lab", "namespace": TEAM, "annotations": {
                "opendatahub.io/hardware-profile-name": "slice",
                "opendatahub.io/hardware-profile-namespace": "redhat-ods-applications",
            }},
            "spec": {"template": {"spec": {"containers": [
                {"name": "lab", "image": "registry.example/lab:1", "resources": {
                    "requests": {"cpu": "2"}, "limits": {"cpu": "2"}}}]}}},
        });
        scene.apply(lab).await?;
        scene.workbench_runs("lab").await?;
        let pods: Api<Pod> = Api::namespaced(scene.client(), TEAM);
        let pod = serde_json::to_value(pods.get("lab-0").await?)?;
        let resources = &pod["spec"]["containers"][0]["resources"]["requests"];
        assert_eq!(resources["nvidia.com/mig-1g.10gb"], "1");
        assert_eq!(resources["cpu"], "2", "what the user gave stays");
        assert_eq!(pod["spec"]["nodeSelector"]["kubernetes.io/os"], "linux");
        Ok(())
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
