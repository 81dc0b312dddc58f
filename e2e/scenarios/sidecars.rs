//! OpenShift AI up to 3.3 writes the slice of a hardware profile into every container of a workbench, and before 3.5 a
//! workbench whose profile is gone cannot be changed. The webhook is a stand-in by the rules of each release, and the
//! API server asks it.

use anyhow::{Context, ensure};
use e2e::{NodeSpec, POOL, Scene, TEAM, mig, objects, pod, policy, scenario};
use kube::api::{Api, DynamicObject};
use serde_json::{Value, json};

use crate::injector::{Injector, profile_with};
use crate::menu::APPLICATIONS;
use crate::snapshot::Recorder;

/// A workbench that asks for nothing but a hardware profile, with the proxy that the notebook controller puts beside it.
fn with_a_proxy(profile: &str) -> Value {
    let container = |name: &str| json!({"name": name, "image": "registry.example/lab:1"});
    json!({
        "apiVersion": "kubeflow.org/v1", "kind": "Notebook",
        "metadata": {"name": "lab", "namespace": TEAM, "annotations": {
            "opendatahub.io/hardware-profile-name": profile,
            "opendatahub.io/hardware-profile-namespace": APPLICATIONS,
        }},
        "spec": {"template": {"spec": {"containers": [container("lab"), container("oauth-proxy")]}}},
    })
}

/// The same as stopped by its user.
fn stopped() -> Value {
    json!({"metadata": {"annotations": {"kubeflow-resource-stopped": "2026-11-27T18:00:00Z"}}})
}

async fn notebooks(scene: &Scene) -> anyhow::Result<Api<DynamicObject>> {
    Ok(objects::api_of(&scene.client(), &with_a_proxy("any")).await?.0)
}

/// OpenShift AI of a release with one profile, two nodes with eight GPUs each and somebody on five of one, an operator
/// and a policy; and a workbench with that profile. Says how many slices of the simulated GPUs it has in the end.
async fn slices_of_a_workbench(scene: &mut Scene, release: &str) -> anyhow::Result<usize> {
    let eight_gpus =
        |name: &str| NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-7g.80gb");
    scene.nodes_are(["n1", "n2"].map(eight_gpus)).await?;
    scene.apply(pod("holds", &mig("7g.80gb"), 5)).await?;
    scene.runs("holds").await?;
    scene.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": APPLICATIONS}})).await?;
    scene.apply(profile_with("slice", &mig("3g.40gb"))).await?;
    let injector = Injector::of_release(scene, release).await?;
    scene.operator().await?;
    scene.apply(policy("research", "research")).await?;
    scene.apply(with_a_proxy("slice")).await?;
    let node = scene.workbench_runs("lab").await?;
    let holder = format!("{TEAM}/lab-0");
    let truth = scene.simulator().truth(&node)?;
    let held = truth.iter().flat_map(|gpu| &gpu.slices);
    let held = held.filter(|slice| slice.holder.as_deref() == Some(holder.as_str())).count();
    scene.converged("research").await?;
    injector.ends(scene).await?;
    Ok(held)
}

/// What each container of the stored Notebook asks for.
async fn asked_by_each(scene: &Scene) -> anyhow::Result<Vec<Value>> {
    let stored = notebooks(scene).await?.get("lab").await?;
    let containers = stored.data["spec"]["template"]["spec"]["containers"].as_array().cloned();
    let containers = containers.context("a Notebook has containers")?;
    Ok(containers
        .iter()
        .map(|container| container["resources"]["requests"][mig("3g.40gb")].clone())
        .collect())
}

#[test]
fn on_2_25_the_proxy_of_a_workbench_asks_for_a_slice_too_both_are_on_one_node_and_its_user_can_read_why() {
    scenario(async |scene| {
        let slices = slices_of_a_workbench(scene, "2.25").await?;
        ensure!(slices == 2, "each of its containers has one: {slices}");
        assert_eq!(asked_by_each(scene).await?, ["1", "1"]);
        let said = Recorder::new(scene).await?.explains("workbench", &format!("{TEAM}/lab")).await?;
        let why = format!("2 of its containers ask for {} (lab, oauth-proxy)", mig("3g.40gb"));
        ensure!(said.to_string().contains(&why), "{why}: {said}");
        Ok(())
    });
}

#[test]
fn on_3_4_only_the_workbench_itself_gets_a_slice() {
    scenario(async |scene| {
        let slices = slices_of_a_workbench(scene, "3.4").await?;
        ensure!(slices == 1, "its proxy has none: {slices}");
        assert_eq!(asked_by_each(scene).await?, [json!("1"), Value::Null]);
        Ok(())
    });
}

/// Why the operator never deletes a profile that something names (docs/adr/0016).
#[test]
fn a_workbench_whose_profile_is_gone_can_be_stopped_from_3_5_on_and_none_is_made_without_its_profile() {
    scenario(async |scene| {
        scene
            .apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": APPLICATIONS}}))
            .await?;
        scene.apply(profile_with("slice", &mig("3g.40gb"))).await?;
        let injector = Injector::of_release(scene, "3.4").await?;
        let refused = |done: anyhow::Result<()>, profile: &str| {
            let error = done.err().map(|error| format!("{error:#}")).unwrap_or_default();
            let words = format!("hardware profile '{profile}' not found in namespace '{APPLICATIONS}'");
            ensure!(error.contains(&words), "{error}");
            anyhow::Ok(())
        };
        refused(scene.apply(with_a_proxy("none")).await, "none")?;
        scene.apply(with_a_proxy("slice")).await?;
        scene.delete(profile_with("slice", &mig("3g.40gb"))).await?;
        refused(scene.patch(with_a_proxy("slice"), stopped()).await, "slice")?;
        injector.ends(scene).await?;
        let injector = Injector::of_release(scene, "3.5").await?;
        scene.patch(with_a_proxy("slice"), stopped()).await?;
        refused(scene.patch(with_a_proxy("slice"), with_a_proxy("none")).await, "none")?;
        injector.ends(scene).await
    });
}
