//! Faults of virtual GPU nodes, and their appearance in the API: each row of the simulator's table that
//! affects the operator. No operator runs here; the test does its steps by hand.

use e2e::{Fleet, NodeSpec, Scene, mig, pod, scenario};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use operands::{Flavour, PodName, Strategy};
use serde_json::{Value, json};

const OPERATOR: &str = "nvidia-gpu-operator";
const CONFIG: &str = "nvidia.com/mig.config";
const STATE: &str = "nvidia.com/mig.config.state";
const PLUGIN: &str = "nvidia.com/gpu.deploy.device-plugin";

/// The map that the ClusterPolicy of scenarios names.
fn map() -> Value {
    let layouts = "version: v1\nmig-configs:\n  \
        sevenths: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]\n  \
        halves: [{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}]\n";
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": e2e::objects::MAP_NAME, "namespace": OPERATOR},
        "data": {"config.yaml": layouts},
    })
}

fn has_label(node: &Node, key: &str, value: &str) -> Option<()> {
    (node.labels().get(key).map(String::as_str) == Some(value)).then_some(())
}

/// One node that is cut into sevenths, and a manager that knows the map.
async fn sevenths(scene: &mut Scene) -> anyhow::Result<()> {
    // The map is there before MIG manager is: one that came up without it may
    // read the label first, and finds no such layout.
    scene.apply(map()).await?;
    scene.nodes_are([NodeSpec::new("n1", 1, "A100-80GB")]).await?;
    change(scene, "sevenths").await?;
    scene.offers("n1", &[("1g.10gb", 7)]).await
}

async fn change(scene: &Scene, name: &str) -> anyhow::Result<()> {
    scene.patch_node("n1", json!({"metadata": {"labels": {CONFIG: name, STATE: null}}})).await
}

async fn manager(scene: &Scene) -> anyhow::Result<Pod> {
    let api: Api<Pod> = Api::namespaced(scene.client(), OPERATOR);
    let pods = api.list(&ListParams::default().labels("app=nvidia-mig-manager")).await?;
    pods.into_iter().next().ok_or_else(|| anyhow::anyhow!("there is no pod of MIG manager"))
}

#[test]
fn operands_that_do_not_stop_wedge_mig_manager_and_deleting_its_pod_heals_it() {
    scenario(async |scene| {
        sevenths(scene).await?;
        scene.simulator().turn("n1", "does-not-stop device-plugin")?;
        change(scene, "halves").await?;
        scene
            .node("n1", "is pending and parked", |node| {
                has_label(node, STATE, "pending")?;
                has_label(node, PLUGIN, "paused-for-mig-change")
            })
            .await?;
        // It gives up after five minutes without a word: nothing changes any more.
        let mut changes = scene.simulator().changes();
        let gave_up = async {
            loop {
                let (_, change) = changes.recv().await?;
                if change.to_string().contains("timed out waiting for pods of nvidia-device-plugin-daemonset")
                {
                    return anyhow::Ok(());
                }
            }
        };
        tokio::time::timeout(e2e::wait::PATIENCE, gave_up).await??;
        scene.node("n1", "is still pending", |node| has_label(node, STATE, "pending")).await?;

        scene.simulator().clear("n1")?;
        let pods: Api<Pod> = Api::namespaced(scene.client(), OPERATOR);
        pods.delete(&manager(scene).await?.name_any(), &DeleteParams::default()).await?;
        scene.offers("n1", &[("3g.40gb", 2)]).await?;
        scene.node("n1", "is done", |node| has_label(node, STATE, "success")).await
    });
}

#[test]
fn after_a_full_run_a_failure_leaves_the_operands_parked_under_a_success() {
    scenario(async |scene| {
        sevenths(scene).await?;
        scene.simulator().turn("n1", "cdi-fails")?;
        change(scene, "halves").await?;
        scene
            .node("n1", "has failed and is parked", |node| {
                has_label(node, STATE, "failed")?;
                has_label(node, PLUGIN, "paused-for-mig-change")
            })
            .await?;
        // The layout is in place by now; asked again, the manager is content.
        scene.simulator().clear("n1")?;
        scene.patch_node("n1", json!({"metadata": {"labels": {CONFIG: null}}})).await?;
        change(scene, "halves").await?;
        scene
            .node("n1", "says success and offers nothing", |node| {
                has_label(node, STATE, "success")?;
                has_label(node, PLUGIN, "paused-for-mig-change")
            })
            .await?;
        scene.offers("n1", &[]).await
    });
}

#[test]
fn a_slice_that_is_open_stops_the_change_and_the_pod_keeps_it() {
    scenario(async |scene| {
        sevenths(scene).await?;
        scene
            .apply(pod("busy", &mig("1g.10gb"), 1).annotated(cluster::annotations::OPENS, "at-once"))
            .await?;
        scene.runs("busy").await?;
        change(scene, "halves").await?;
        scene.node("n1", "has failed", |node| has_label(node, STATE, "failed")).await?;
        let truth = scene.simulator().truth("n1")?;
        let kept = truth[0].slices.iter().filter(|slice| slice.holder.as_deref() == Some("team-a/busy"));
        assert_eq!(kept.count(), 1, "{truth:#?}");
        assert!(scene.simulator().breaches().is_empty());
        Ok(())
    });
}

#[test]
fn a_name_that_the_mounted_map_does_not_have_yet_fails() {
    scenario(async |scene| {
        sevenths(scene).await?;
        let mut newer = map();
        let text = newer["data"]["config.yaml"].as_str().unwrap_or_default().replace("halves", "later");
        newer["data"]["config.yaml"] = json!(text);
        scene.apply(newer).await?;
        change(scene, "later").await?;
        scene.node("n1", "has failed", |node| has_label(node, STATE, "failed")).await?;
        scene.offers("n1", &[("1g.10gb", 7)]).await
    });
}

#[test]
fn a_reboot_loses_the_slices_until_the_manager_has_cut_them_again() {
    scenario(async |scene| {
        sevenths(scene).await?;
        let boot = |node: &Node| Some(node.status.as_ref()?.node_info.as_ref()?.boot_id.clone());
        let before = scene.node("n1", "has a boot id", boot).await?;
        let ready = |node: &Node, wanted: &str| {
            let conditions = node.status.as_ref()?.conditions.as_ref()?;
            conditions.iter().any(|c| c.type_ == "Ready" && c.status == wanted).then_some(())
        };
        let reboot = json!({"metadata": {"annotations": {cluster::annotations::REBOOT: "1"}}});
        scene.patch_node("n1", reboot).await?;
        scene.node("n1", "is down", |node| ready(node, "False")).await?;
        scene.node("n1", "is ready", |node| ready(node, "True")).await?;
        let after = scene.node("n1", "has a boot id", boot).await?;
        assert_ne!(before, after);
        scene.offers("n1", &[("1g.10gb", 7)]).await
    });
}

#[test]
fn operands_come_back_under_a_cordon_and_not_under_a_foreign_taint() {
    scenario(async |scene| {
        sevenths(scene).await?;
        scene.patch_node("n1", json!({"spec": {"unschedulable": true}})).await?;
        change(scene, "halves").await?;
        let offers = |node: &Node, count: &str| {
            let allocatable = node.status.as_ref()?.allocatable.as_ref()?;
            (allocatable.get(&mig("3g.40gb"))?.0 == count).then_some(())
        };
        scene.node("n1", "offers halves under the cordon", |node| offers(node, "2")).await?;

        let taints = json!([{"key": "team", "value": "vision", "effect": "NoSchedule"}]);
        scene.patch_node("n1", json!({"spec": {"unschedulable": null, "taints": taints}})).await?;
        change(scene, "sevenths").await?;
        scene
            .node("n1", "says success and offers nothing", |node| {
                has_label(node, STATE, "success")?;
                offers(node, "0")
            })
            .await?;
        scene.patch_node("n1", json!({"spec": {"taints": null}})).await?;
        scene.offers("n1", &[("1g.10gb", 7)]).await
    });
}

#[test]
fn helm_stamps_a_default_and_single_offers_slices_as_gpus() {
    scenario(async |scene| {
        let nodes = vec![
            NodeSpec::new("n1", 1, "A100-80GB"),
            NodeSpec::new("n2", 1, "A100-80GB").layout("all-1g.10gb"),
        ];
        let fleet = Fleet { flavour: Flavour::Helm, strategy: Strategy::Single, nodes, ..Fleet::default() };
        scene.world(fleet).await?;
        scene.node("n1", "has the default", |node| has_label(node, CONFIG, "all-disabled")).await?;
        scene.offers_resources("n1", &[("nvidia.com/gpu", 1)]).await?;
        scene.offers_resources("n2", &[("nvidia.com/gpu", 7)]).await?;

        // The strategy is the whole cluster's: plugin and GFD start anew everywhere.
        let policy = json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy",
            "metadata": {"name": "cluster-policy"}});
        scene.patch(policy, json!({"spec": {"mig": {"strategy": "mixed"}}})).await?;
        scene.offers("n2", &[("1g.10gb", 7)]).await
    });
}

#[test]
fn a_pod_says_when_it_starts_and_when_it_is_done() {
    scenario(async |scene| {
        sevenths(scene).await?;
        let job = pod("job", &mig("1g.10gb"), 1)
            .annotated(cluster::annotations::STARTS_AFTER, "2m")
            .annotated(cluster::annotations::SUCCEEDS_AFTER, "1m");
        scene.apply(job).await?;
        let pods: Api<Pod> = Api::namespaced(scene.client(), e2e::TEAM);
        let phase = |pod: Option<&Pod>| pod?.status.as_ref()?.phase.clone();
        let mut seen = Vec::new();
        e2e::wait::until_one(pods, "job", "the job is done", e2e::wait::PATIENCE, |pod| {
            let phase = phase(pod).unwrap_or_default();
            if seen.last() != Some(&phase) {
                seen.push(phase.clone());
            }
            if phase == "Succeeded" { Ok(()) } else { Err(format!("it is {phase}")) }
        })
        .await?;
        assert!(
            seen.ends_with(&["Pending".to_owned(), "Running".to_owned(), "Succeeded".to_owned()]),
            "{seen:?}"
        );
        assert!(scene.simulator().truth("n1")?[0].slices.iter().all(|slice| slice.holder.is_none()));
        assert!(!scene.simulator().open(&PodName::new(e2e::TEAM, "job")), "it has nothing to open any more");
        Ok(())
    });
}

#[test]
fn nodes_come_and_go_with_their_pods() {
    scenario(async |scene| {
        sevenths(scene).await?;
        scene.apply(pod("lost", &mig("1g.10gb"), 1)).await?;
        scene.runs("lost").await?;
        scene.simulator().delete_node("n1").await?;
        scene.is_gone("lost").await?;
        scene.simulator().add_node(NodeSpec::new("n2", 1, "A100-80GB").layout("sevenths"))?;
        scene.apply(pod("next", &mig("1g.10gb"), 1)).await?;
        assert_eq!(scene.runs("next").await?, "n2");
        Ok(())
    });
}
