//! The cluster would not report a workbench that can never start: its controller only writes to its own
//! log. The operator informs its user; it also informs users who request a slice that does not exist, and
//! administrators who offer one.

use e2e::{TEAM, a100, mig, scenario, scenario_on_any_nodes, wait, workbench};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt};
use serde_json::json;

#[test]
fn a_workbench_that_can_never_start_is_told_why_and_nothing_is_cut_for_it() {
    scenario_on_any_nodes(async |scene| {
        scene.research_has([a100("n1", "all-1g.10gb")]).await?;
        let lost = workbench("lost", "cpu", 1).annotated("opendatahub.io/hardware-profile-name", "gone");
        scene.apply(lost).await?;
        let long = "n".repeat(64);
        scene.apply(workbench(&long, &mig("3g.40gb"), 1)).await?;
        let told = scene.told("Notebook", "lost", "which does not exist").await?;
        assert!(told.contains("names the hardware profile team-a/gone, which does not exist"), "{told}");
        assert!(told.contains("What would help: choose another hardware profile"), "{told}");
        let told = scene.told("Notebook", &long, "its name has 64 characters").await?;
        assert!(told.contains("What would help: create the workbench again"), "{told}");
        for name in ["lost", &long] {
            let answer = scene.is_unserved("research", name).await?;
            assert_eq!(answer.reason, "Refused", "{}", answer.message);
        }
        scene.converged("research").await?;
        scene.each_gpu_offers("n1", &[("1g.10gb", 7)]).await
    });
}

#[test]
fn who_misspells_a_resource_and_a_menu_that_offers_what_nobody_can_have_are_told() {
    scenario(async |scene| {
        scene.research_has([a100("n1", "all-1g.10gb")]).await?;
        scene.apply(workbench("typo", "nvidia.com/mig-3g.40g", 1)).await?;
        let told = scene.told("Notebook", "typo", "which is not the resource of a profile").await?;
        assert!(told.contains("named like nvidia.com/mig-1g.10gb"), "{told}");
        assert_eq!(scene.is_unserved("research", "typo").await?.reason, "Refused");
        let identifier = |name: &str| json!({"identifier": name, "displayName": name, "minCount": 1, "defaultCount": 1, "maxCount": 1});
        let identifiers = ["cpu", "memory", "nvidia.com/mig-1g.5gb"].map(identifier);
        scene
            .apply(json!({
                "apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile",
                "metadata": {"name": "small", "namespace": TEAM}, "spec": {"identifiers": identifiers},
            }))
            .await?;
        scene
            .told("HardwareProfile", "small", "it offers 1g.5gb, which no GPU of the fleet can have")
            .await?;
        scene.converged("research").await?;
        scene.each_gpu_offers("n1", &[("1g.10gb", 7)]).await
    });
}

#[test]
fn a_workbench_with_a_long_name_gets_its_slice_like_any_other() {
    scenario_on_any_nodes(async |scene| {
        scene.research_has([a100("n1", "all-1g.10gb")]).await?;
        let name = "n".repeat(60);
        scene.apply(workbench(&name, &mig("3g.40gb"), 1)).await?;
        let pods: Api<Pod> = Api::namespaced(scene.client(), TEAM);
        let pod = wait::until(pods, "its pod runs", scene.patience(), |seen| {
            let runs = |pod: &&Pod| pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running");
            let found = seen.values().find(|pod| pod.labels().get("notebook-name") == Some(&name));
            found.filter(runs).map(ResourceExt::name_any).ok_or_else(|| "it does not".to_owned())
        })
        .await?;
        let story = scene.story_of("Pod", &pod).await?;
        let told: Vec<_> = story.lines().collect();
        let different: std::collections::BTreeSet<_> = told.iter().collect();
        assert!(!told.is_empty() && different.len() == told.len(), "each thing is told once: {told:#?}");
        scene.converged("research").await
    });
}
