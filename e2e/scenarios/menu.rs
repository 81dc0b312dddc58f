//! The hardware profiles that the operator publishes for OpenShift AI: people start workbenches with them,
//! and nothing that the operator writes later reaches a running workbench.

use anyhow::{Context, ensure};
use api::foreign::hardware_profile::DISABLED;
use controller::settings::HardwareProfiles;
use e2e::{Fleet, NodeSpec, POOL, Scene, TEAM, mig, objects, policy, scenario, wait};
use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams};
use serde_json::{Value, json};
use workbenches::profile::RULES;

use crate::injector::Injector;

/// Where OpenShift AI offers hardware profiles to all projects.
pub(crate) const APPLICATIONS: &str = "redhat-ods-applications";

/// OpenShift AI, two nodes with four GPUs each, an operator that publishes
/// hardware profiles, and a policy.
pub(crate) async fn published(scene: &mut Scene) -> anyhow::Result<()> {
    scene.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": APPLICATIONS}})).await?;
    scene
        .apply(json!({
            "apiVersion": "dscinitialization.opendatahub.io/v1", "kind": "DSCInitialization",
            "metadata": {"name": "default-dsci"}, "spec": {"applicationsNamespace": APPLICATIONS},
        }))
        .await?;
    let four_gpus =
        |name: &str| NodeSpec::new(name, 4, "A100-80GB").label(POOL, "research").layout("all-1g.10gb");
    scene.world(Fleet { nodes: vec![four_gpus("n1"), four_gpus("n2")], ..Fleet::default() }).await?;
    scene
        .operator_with(|settings| {
            settings.hardware_profiles = HardwareProfiles::Publish;
            settings.menu.hold = SignedDuration::from_secs(2);
        })
        .await?;
    scene.apply(policy("research", "research")).await
}

/// A hardware profile of any state, to name its kind.
fn profile(name: &str) -> Value {
    json!({"apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile",
        "metadata": {"name": name, "namespace": APPLICATIONS}})
}

async fn profiles(scene: &Scene) -> anyhow::Result<Api<DynamicObject>> {
    Ok(objects::api_of(&scene.client(), &profile("any")).await?.0)
}

/// Waits until there is a profile for slices of this kind that is as wanted,
/// and returns it.
pub(crate) async fn offered(scene: &Scene, slice: &str, disabled: &str) -> anyhow::Result<DynamicObject> {
    let api = profiles(scene).await?;
    wait::asking(&format!("{slice} is on the menu, disabled: {disabled}"), wait::PATIENCE, async || {
        let all = api.list(&ListParams::default()).await?.items;
        let is_it = |object: &DynamicObject| {
            let identifiers = object.data["spec"]["identifiers"].as_array().cloned().unwrap_or_default();
            identifiers.iter().any(|identifier| identifier["identifier"] == mig(slice))
                && object.annotations().get(DISABLED).is_some_and(|value| value == disabled)
        };
        let told = all
            .iter()
            .map(|object| format!("{} {:?}", object.name_any(), object.annotations().get(DISABLED)));
        let told = told.collect::<Vec<_>>().join(", ");
        Ok(all.into_iter().find(is_it).ok_or(told))
    })
    .await
}

/// A workbench that gets all of its resources from a hardware profile.
fn workbench_with(profile: &str) -> Value {
    json!({
        "apiVersion": "kubeflow.org/v1", "kind": "Notebook",
        "metadata": {"name": "lab", "namespace": TEAM, "annotations": {
            "opendatahub.io/hardware-profile-name": profile,
            "opendatahub.io/hardware-profile-namespace": APPLICATIONS,
        }},
        "spec": {"template": {"spec": {"containers": [{"name": "lab", "image": "registry.example/lab:1"}]}}},
    })
}

/// The no-longer-allowed slice of the policy.
fn without(slice: &str) -> Value {
    json!({"spec": {"layout": {"demandDriven": {"slices": [{"profile": slice, "maxCount": 0}]}}}})
}

/// A workbench with the published profile for halves of GPUs runs; the profile is withdrawn, and offered again. Each
/// time the workbench is written as the culler does it, and its profile is injected again.
async fn keeps_its_stateful_set(scene: &Scene, lab: &Value, name: &str) -> anyhow::Result<()> {
    scene.apply(lab.clone()).await?;
    scene.workbench_runs("lab").await?;
    let sets: Api<StatefulSet> = Api::namespaced(scene.client(), TEAM);
    let before = sets.get("lab").await?;
    let pod = scene.pods().get("lab-0").await?.uid();

    let research = Value::from(policy("research", "research"));
    scene.patch(research.clone(), without("3g.40gb")).await?;
    offered(scene, "3g.40gb", "true").await?;
    let seen = |minute: &str| {
        let at = format!("2026-11-24T10:{minute}:00Z");
        json!({"metadata": {"annotations": {"notebooks.kubeflow.org/last-activity": at}}})
    };
    scene.patch(lab.clone(), seen("00")).await?;
    scene.is_quiet().await?;
    offered(scene, "3g.40gb", "true").await.context("a running workbench names it")?;

    scene.patch(research, json!({"spec": {"layout": {"demandDriven": {"slices": []}}}})).await?;
    ensure!(offered(scene, "3g.40gb", "false").await?.name_any() == name, "it is the same profile");
    scene.patch(lab.clone(), seen("01")).await?;
    scene.is_quiet().await?;
    let after = sets.get("lab").await?;
    assert_eq!(after.metadata.generation, before.metadata.generation);
    assert_eq!(after.spec, before.spec);
    assert_eq!(scene.pods().get("lab-0").await?.uid(), pod, "it is the same pod");
    scene.converged("research").await
}

#[test]
fn a_running_workbench_keeps_its_stateful_set_whatever_happens_to_its_published_profile() {
    scenario(async |scene| {
        published(scene).await?;
        let name = offered(scene, "3g.40gb", "false").await?.name_any();
        keeps_its_stateful_set(scene, &workbench_with(&name), &name).await
    });
}

/// The same with what the API server stores by the rules of each release before the newest: with a proxy, which is asked
/// for a slice of its own up to 3.3, and a user's wishes of nodes, which those releases replace or clear.
#[test]
fn it_keeps_it_too_when_the_webhooks_of_older_releases_write_into_it() {
    scenario(async |scene| {
        published(scene).await?;
        let name = offered(scene, "3g.40gb", "false").await?.name_any();
        let mut lab = workbench_with(&name);
        let pod = &mut lab["spec"]["template"]["spec"];
        let proxy = json!({"name": "oauth-proxy", "image": "registry.example/proxy:1"});
        pod["containers"].as_array_mut().context("it has containers")?.push(proxy);
        pod["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
        pod["tolerations"] = json!([{"key": "spot", "operator": "Exists"}]);
        let (_, older) = RULES.split_last().context("there are releases")?;
        for rules in older {
            let injector = Injector::of_release(scene, rules.release).await?;
            let kept = keeps_its_stateful_set(scene, &lab, &name).await;
            kept.with_context(|| format!("by the rules of {}", rules.release))?;
            scene.delete(lab.clone()).await?;
            scene.is_gone("lab-0").await?;
            injector.ends(scene).await?;
        }
        Ok(())
    });
}

#[test]
fn a_profile_that_nothing_names_is_deleted_and_one_of_a_stopped_workbench_is_not() {
    scenario(async |scene| {
        published(scene).await?;
        let name = offered(scene, "2g.20gb", "false").await?.name_any();
        let free = offered(scene, "4g.40gb", "false").await?.name_any();
        let mut stopped = workbench_with(&name);
        stopped["metadata"]["annotations"]["kubeflow-resource-stopped"] = json!("2026-11-20T10:00:00Z");
        scene.apply(stopped.clone()).await?;
        let none = json!({"spec": {"layout": {"demandDriven": {"slices": [
            {"profile": "2g.20gb", "maxCount": 0}, {"profile": "4g.40gb", "maxCount": 0}]}}}});
        scene.patch(Value::from(policy("research", "research")), none).await?;
        offered(scene, "2g.20gb", "true").await?;
        is_gone(scene, &free).await?;
        scene.is_quiet().await?;
        offered(scene, "2g.20gb", "true").await.context("a stopped workbench still names it")?;
        scene.delete(stopped).await?;
        is_gone(scene, &name).await
    });
}

async fn is_gone(scene: &Scene, name: &str) -> anyhow::Result<()> {
    let api = profiles(scene).await?;
    wait::asking(&format!("{name} is deleted"), wait::PATIENCE, async || {
        let found = api.get_opt(name).await?;
        Ok(found.map_or(Ok(()), |object| Err(format!("{:?}", object.annotations()))))
    })
    .await
}

#[test]
fn a_profile_that_somebody_edited_and_one_of_others_under_our_name_are_left_alone_and_told_of() {
    scenario(async |scene| {
        published(scene).await?;
        let edited = offered(scene, "1g.20gb", "false").await?;
        let name = edited.name_any();
        let mut identifiers = edited.data["spec"]["identifiers"].clone();
        identifiers[0]["maxCount"] = json!(64);
        scene.patch(profile(&name), json!({"spec": {"identifiers": identifiers}})).await?;
        let theirs = offered(scene, "7g.80gb", "false").await?.name_any();
        scene
            .patch(
                profile(&theirs),
                json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "argocd"}}}),
            )
            .await?;
        scene.patch(Value::from(policy("research", "research")), without("7g.80gb")).await?;
        told(scene, &name, "has been edited").await?;
        scene.is_quiet().await?;
        let api = profiles(scene).await?;
        assert_eq!(api.get(&name).await?.data["spec"]["identifiers"][0]["maxCount"], 64);
        assert_eq!(api.get(&theirs).await?.annotations()[DISABLED], "false");
        Ok(())
    });
}

/// Waits until an event on a profile says so.
async fn told(scene: &Scene, name: &str, part: &str) -> anyhow::Result<()> {
    let events: Api<k8s_openapi::api::core::v1::Event> = Api::namespaced(scene.client(), APPLICATIONS);
    let of_profile = ListParams::default().fields(&format!("involvedObject.name={name}"));
    wait::asking(&format!("{name} is told: {part}"), wait::PATIENCE, async || {
        let notes: Vec<_> =
            events.list(&of_profile).await?.into_iter().filter_map(|event| event.message).collect();
        Ok(if notes.iter().any(|note| note.contains(part)) { Ok(()) } else { Err(format!("{notes:?}")) })
    })
    .await
}

#[test]
fn an_operator_that_only_reports_writes_no_profile() {
    scenario(async |scene| {
        scene
            .apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": APPLICATIONS}}))
            .await?;
        scene
            .apply(json!({
                "apiVersion": "dscinitialization.opendatahub.io/v1", "kind": "DSCInitialization",
                "metadata": {"name": "default-dsci"}, "spec": {"applicationsNamespace": APPLICATIONS},
            }))
            .await?;
        scene.nodes_are([NodeSpec::new("n1", 4, "A100-80GB").label(POOL, "research")]).await?;
        scene.operator_with(|settings| settings.hardware_profiles = HardwareProfiles::Report).await?;
        scene.apply(policy("research", "research")).await?;
        scene.converged("research").await?;
        assert!(profiles(scene).await?.list(&ListParams::default()).await?.items.is_empty());
        Ok(())
    });
}
