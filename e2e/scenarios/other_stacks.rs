//! Clusters with other configurations than the operator's default: shared devices, no strategy, no MIG
//! manager, DRA, older components, an Operator that drains.

use cluster::{Fleet, NodeSpec};
use e2e::objects::{self, GPU_OPERATOR_NAMESPACE, MAP_NAME};
use e2e::{POOL, a100, mig, pod, policy, scenario, workbench};
use operands::{Flavour, Stack, Strategy};
use serde_json::{Value, json};

const SHARED_BY_TWO: &str = "version: v1\nsharing:\n  timeSlicing:\n    resources:\n      - {name: nvidia.com/mig-1g.10gb, replicas: 2}\n";

fn cluster_policy() -> Value {
    json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "gpu-cluster-policy"}})
}

#[test]
fn a_node_whose_devices_are_shared_is_left_alone_until_they_are_not() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene
            .apply(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "sharing", "namespace": GPU_OPERATOR_NAMESPACE},
                "data": {"two": SHARED_BY_TWO, "none": "version: v1\n"},
            }))
            .await?;
        let config = json!({"spec": {"devicePlugin": {"config": {"name": "sharing", "default": "none"}}}});
        scene.patch(cluster_policy(), config).await?;
        let choose = |name: &str| json!({"metadata": {"labels": {"nvidia.com/device-plugin.config": name}}});
        scene.patch_node("n1", choose("two")).await?;
        scene.offers("n1", &[("1g.10gb", 14)]).await?;
        scene
            .node("n1", "says that it is shared", |node| {
                (node.metadata.labels.as_ref()?.get("nvidia.com/mig-1g.10gb.replicas")? == "2").then_some(())
            })
            .await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        let message = scene.says("research", "Degraded", "True", "NotEstablished").await?;
        assert!(
            message.contains("its devices are shared by time-slicing")
                && message.contains("label nvidia.com/device-plugin.config=two"),
            "{message}"
        );
        let writes = scene.audit()?.writes()?;
        assert!(writes.iter().all(|write| write.object_ref.resource != "nodes"), "{writes:?}");
        // Whoever shared them takes it back.
        scene.patch_node("n1", choose("none")).await?;
        scene.offers("n1", &[("3g.40gb", 2)]).await?;
        scene.converged("research").await
    });
}

#[test]
fn a_node_under_dra_is_left_alone_with_a_reason() {
    scenario(async |scene| {
        let nodes = vec![NodeSpec::new("n1", 1, "A100-80GB").label(POOL, "research")];
        scene.world(Fleet { stack: Stack::Dra, nodes, ..Fleet::default() }).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("1g.10gb", 7)])).await?;
        let message = scene.says("research", "Degraded", "True", "HandsOff").await?;
        assert!(
            message.contains("n1: DRA (GPUCluster) manages its slices, so it is not changed"),
            "{message}"
        );
        let writes = scene.audit()?.writes()?;
        assert!(writes.iter().all(|write| write.object_ref.resource != "nodes"), "{writes:?}");
        Ok(())
    });
}

#[test]
fn without_mig_manager_nothing_starts_and_it_goes_on_when_it_is_back() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.patch(cluster_policy(), json!({"spec": {"migManager": {"enabled": false}}})).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        let node = scene
            .gpu_node("n1", "waits for MIG manager", |node| {
                let conditions = &node.status.as_ref()?.conditions;
                let ready = conditions.iter().find(|c| c.type_ == "Ready" && c.status == "False")?;
                ready.message.contains("migManager.enabled").then(|| ready.message.clone())
            })
            .await?;
        assert!(node.contains("spec.migManager.enabled: true"), "{node}");
        let writes = scene.audit()?.writes()?;
        assert!(writes.iter().all(|write| write.object_ref.resource != "nodes"), "{writes:?}");
        scene.patch(cluster_policy(), json!({"spec": {"migManager": {"enabled": true}}})).await?;
        scene.offers("n1", &[("3g.40gb", 2)]).await?;
        scene.converged("research").await
    });
}

#[test]
fn without_a_strategy_a_demand_driven_policy_says_which_one_to_set() {
    scenario(async |scene| {
        let nodes = vec![a100("n1", "all-1g.10gb")];
        scene.world(Fleet { strategy: Strategy::None, nodes, ..Fleet::default() }).await?;
        scene.offers_resources("n1", &[("nvidia.com/gpu", 1)]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research")).await?;
        let message = scene.says("research", "Accepted", "False", "StrategySingle").await?;
        assert!(message.contains(r#"{"spec":{"mig":{"strategy":"mixed"}}}"#), "{message}");
        Ok(())
    });
}

#[test]
fn the_components_of_published_go_modules_serve_a_workbench_too() {
    scenario(async |scene| {
        let nodes = vec![a100("n1", "all-1g.10gb")];
        scene.world(Fleet { release: "go-modules".to_owned(), nodes, ..Fleet::default() }).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research")).await?;
        scene.apply(workbench("lab", &mig("3g.40gb"), 1)).await?;
        assert_eq!(scene.workbench_runs("lab").await?, "n1");
        scene.converged("research").await
    });
}

#[test]
fn a_driver_upgrade_that_drains_is_waited_for_and_what_it_lost_is_brought_back() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        scene.converged("research").await?;
        scene.apply(pod("busy", &mig("3g.40gb"), 1)).await?;
        scene.runs("busy").await?;
        scene.simulator().turn("n1", "driver-upgrade-drains")?;
        scene.is_gone("busy").await?;
        scene
            .node("n1", "has its new driver", |node| {
                let labels = node.metadata.labels.as_ref()?;
                (labels.get("nvidia.com/gpu-driver-upgrade-state")? == "upgrade-done").then_some(())
            })
            .await?;
        scene.offers("n1", &[("3g.40gb", 2)]).await?;
        scene.converged("research").await
    });
}

#[test]
fn a_cluster_policy_of_another_map_is_pointed_to_ours_where_the_flag_allows_it() {
    scenario(async |scene| {
        let theirs = json!({"name": "default-mig-parted-config"});
        scene.cluster_policy(Flavour::OpenShift, Strategy::Mixed, theirs).await?;
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator_with(|settings| settings.patch_cluster_policy = true).await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        scene.offers("n1", &[("3g.40gb", 2)]).await?;
        scene.converged("research").await?;
        let (api, _) = objects::api_of(&scene.client(), &cluster_policy()).await?;
        let pointed = api.get("gpu-cluster-policy").await?;
        assert_eq!(pointed.data["spec"]["migManager"]["config"]["name"], MAP_NAME);
        Ok(())
    });
}
