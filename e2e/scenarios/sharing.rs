//! Nodes whose GPUs or slices a policy shares, by time-slicing or through MPS.

use std::collections::BTreeMap;

use e2e::manifests::{Manifest, Policy, of_neighbours};
use e2e::objects::GPU_OPERATOR_NAMESPACE;
use e2e::wait::until;
use e2e::{NodeSpec, POOL, Scene, pod, policy, scenario, workbench};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::Api;
use serde_json::{Value, json};

const SHARED: &str = "nvidia.com/gpu.shared";

fn shares(sharing: Value) -> Policy {
    policy("notebooks", "notebooks").spec("/layout", json!({"type": "None"})).spec("/sharing", sharing)
}

fn by(replicas: u32) -> Policy {
    let rules = json!([{"model": "T4", "resource": "nvidia.com/gpu", "replicas": replicas}]);
    shares(json!({"type": "TimeSlicing", "rules": rules}))
}

/// An administrator points ClusterPolicy to our map, which is there.
async fn point(scene: &Scene, policy: &str) -> anyhow::Result<String> {
    let command = scene.says(policy, "Degraded", "True", "PluginMapNotOurs").await?;
    points_to(scene, MAP).await?;
    Ok(command)
}

async fn points_to(scene: &Scene, map: &str) -> anyhow::Result<()> {
    scene.patch(settings(), json!({"spec": {"devicePlugin": {"config": {"name": map}}}})).await
}

fn settings() -> Value {
    json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "gpu-cluster-policy"}})
}

#[test]
fn the_operator_points_cluster_policy_to_its_map_in_a_window_where_the_flag_allows_it() {
    scenario(async |scene| {
        scene.nodes_are([NodeSpec::new("t1", 4, "T4").label(POOL, "notebooks")]).await?;
        scene.operator_with(|settings| settings.patch_device_plugin = true).await?;

        // The only window is in a year that this control plane does not see.
        let never = json!([{"schedule": "0 0 29 2 *", "duration": "1m"}]);
        scene.apply(by(4).spec("/rollout/windows", never)).await?;
        let waits = scene.says("notebooks", "Degraded", "True", "PluginMapNotOurs").await?;
        assert!(waits.contains("when a window opens"), "{waits}");
        scene.offers_resources("t1", &[("nvidia.com/gpu", 4)]).await?;

        // Any time is in a window.
        scene.apply(by(4)).await?;
        scene.offers_resources("t1", &[(SHARED, 16)]).await?;
        scene.converged("notebooks").await
    });
}

#[test]
fn t4s_are_shared_by_four_but_not_under_a_pod_that_has_one_and_are_whole_again_when_nobody_has_a_share() {
    scenario(async |scene| {
        let node = |name: &str| NodeSpec::new(name, 4, "T4").label(POOL, "notebooks");
        scene.nodes_are([node("t1"), node("t2")]).await?;
        scene.operator().await?;
        let train = pod("train", "nvidia.com/gpu", 1).of_neighbours();
        scene.apply(train.clone()).await?;
        let busy = scene.runs(&of_neighbours("train")).await?;
        let idle = if busy == "t1" { "t2" } else { "t1" };

        // The map comes first; an administrator points ClusterPolicy to it, by the command that is printed.
        scene.apply(by(4)).await?;
        let command = point(scene, "notebooks").await?;
        assert!(command.contains("kubectl patch clusterpolicies.nvidia.com gpu-cluster-policy"), "{command}");

        // The pod would get neighbours: its node waits.
        scene.offers_resources(idle, &[(SHARED, 16)]).await?;
        let waits = scene.waits_for("notebooks", "train").await?;
        assert!(
            waits.contains(&format!("{busy}: its GPUs cannot be shared in another way while pods hold")),
            "{waits}"
        );
        scene.offers_resources(&busy, &[("nvidia.com/gpu", 4)]).await?;
        scene.delete(train).await?;
        scene.offers_resources(&busy, &[(SHARED, 16)]).await?;
        scene.converged("notebooks").await?;

        // More share each GPU under a pod that has a share, and none do when it has gone.
        let lab = pod("lab", SHARED, 1).of_neighbours();
        scene.apply(lab.clone()).await?;
        let there = scene.runs(&of_neighbours("lab")).await?;
        scene.apply(by(6)).await?;
        scene.offers_resources(&there, &[(SHARED, 24)]).await?;
        scene.converged("notebooks").await?;
        scene.apply(shares(json!({"type": "None"}))).await?;
        scene.waits_for("notebooks", "lab").await?;
        scene.offers_resources(&there, &[(SHARED, 24)]).await?;
        scene.delete(lab).await?;
        scene.offers_resources("t1", &[("nvidia.com/gpu", 4)]).await?;
        scene.offers_resources("t2", &[("nvidia.com/gpu", 4)]).await?;
        scene.converged("notebooks").await
    });
}

#[test]
fn a_share_of_a_small_slice_is_for_two_and_the_slice_is_cut_only_when_both_have_gone() {
    scenario(async |scene| {
        const SMALL: &str = "nvidia.com/mig-1g.10gb.shared";
        let node =
            |name: &str| NodeSpec::new(name, 2, "A100-80GB").layout("all-3g.40gb").label(POOL, "research");
        scene.nodes_are([node("n1"), node("n2")]).await?;
        scene.operator().await?;
        let rules = json!([{"model": "A100-80GB", "resource": "nvidia.com/mig-1g.10gb", "replicas": 2}]);
        let sharing = json!({"type": "TimeSlicing", "rules": rules});
        let by_two = |slices: &[(&str, u32)]| {
            policy("research", "research").always(slices).spec("/sharing", sharing.clone())
        };
        scene.apply(by_two(&[("1g.10gb", 7)])).await?;
        point(scene, "research").await?;
        for node in ["n1", "n2"] {
            scene.offers_resources(node, &[(SMALL, 28)]).await?;
        }
        scene.converged("research").await?;

        let on_n1 = |pod: Manifest| pod.with("/spec/nodeSelector", json!({"kubernetes.io/hostname": "n1"}));
        let labs = [on_n1(pod("a", SMALL, 1)), on_n1(pod("b", SMALL, 1).of_neighbours())];
        for lab in &labs {
            scene.apply(lab.clone()).await?;
        }
        for name in ["a", &of_neighbours("b")] {
            scene.runs(name).await?;
        }
        scene.apply(by_two(&[("3g.40gb", 2)])).await?;
        scene.offers_resources("n2", &[("nvidia.com/mig-3g.40gb", 4)]).await?;
        scene.offers_resources("n1", &[(SMALL, 28)]).await?;
        let [first, last] = labs;
        scene.delete(first).await?;
        scene.waits_for("research", "b").await?;
        scene.offers_resources("n1", &[(SMALL, 28)]).await?;
        scene.delete(last).await?;
        scene.offers_resources("n1", &[("nvidia.com/mig-3g.40gb", 4)]).await?;
        scene.converged("research").await
    });
}

#[test]
fn in_a_pool_of_a100s_and_t4s_auto_shares_the_t4s_and_the_a100s_are_cut_as_ever() {
    scenario(async |scene| {
        let node = |name: &str, gpus, model: &str| NodeSpec::new(name, gpus, model).label(POOL, "research");
        let a100s = node("n1", 2, "A100-80GB").layout("all-3g.40gb");
        scene.nodes_are([a100s, node("t1", 4, "T4"), node("t2", 4, "T4")]).await?;
        scene.operator().await?;
        let rules = json!([{"resource": "nvidia.com/gpu", "replicas": 4}]);
        let auto = json!({"type": "Auto", "rules": rules});
        scene.apply(policy("research", "research").always(&[("1g.10gb", 7)]).spec("/sharing", auto)).await?;
        point(scene, "research").await?;
        for node in ["t1", "t2"] {
            scene.offers_resources(node, &[(SHARED, 16)]).await?;
        }
        scene.offers("n1", &[("1g.10gb", 14)]).await?;
        scene.converged("research").await?;
        // Each finds what it asks for where it is.
        scene.apply(pod("slice", "nvidia.com/mig-1g.10gb", 1)).await?;
        assert_eq!(scene.runs("slice").await?, "n1");
        scene.apply(pod("lab", SHARED, 1)).await?;
        assert_ne!(scene.runs("lab").await?, "n1");
        scene.converged("research").await
    });
}

#[test]
fn mps_is_refused_while_all_nodes_are_mixed_and_served_where_each_node_has_its_strategy() {
    scenario(async |scene| {
        let t4 = |name: &str| NodeSpec::new(name, 4, "T4").label(POOL, "notebooks");
        let a100 = NodeSpec::new("n1", 2, "A100-80GB").layout("all-3g.40gb").label(POOL, "research");
        scene.nodes_are([t4("t1"), t4("t2"), a100]).await?;
        scene.operator().await?;
        let rules = json!([{"model": "T4", "resource": "nvidia.com/gpu", "replicas": 4}]);
        scene.apply(shares(json!({"type": "MPS", "rules": rules}))).await?;
        let command = scene.says("notebooks", "Accepted", "False", "SharingRefused").await?;
        assert!(command.contains(r#"-p '{"spec":{"mig":{"strategy":null}}}'"#), "{command}");
        scene.offers_resources("t1", &[("nvidia.com/gpu", 4)]).await?;

        // Somebody follows it. The node that is cut gets its strategy by a policy with sharing.
        scene.patch(settings(), json!({"spec": {"mig": {"strategy": null}}})).await?;
        scene
            .apply(
                policy("research", "research")
                    .always(&[("1g.10gb", 7)])
                    .spec("/sharing", json!({"type": "None"})),
            )
            .await?;
        point(scene, "notebooks").await?;
        for node in ["t1", "t2"] {
            scene.offers_resources(node, &[(SHARED, 16)]).await?;
        }
        scene.offers("n1", &[("1g.10gb", 14)]).await?;
        scene.converged("notebooks").await?;
        scene.converged("research").await
    });
}

#[test]
fn a_daemon_of_mps_that_does_not_start_gives_the_node_back_what_it_had() {
    scenario(async |scene| {
        scene.nodes_are([NodeSpec::new("t1", 4, "T4").label(POOL, "notebooks")]).await?;
        scene.operator().await?;
        scene.simulator().turn("t1", "does-not-start mps-control-daemon")?;
        scene.patch(settings(), json!({"spec": {"mig": {"strategy": null}}})).await?;
        let rules = json!([{"model": "T4", "resource": "nvidia.com/gpu", "replicas": 4}]);
        scene.apply(shares(json!({"type": "MPS", "rules": rules}))).await?;
        point(scene, "notebooks").await?;
        let waits = scene.waits_for("notebooks", "the control daemon of MPS is not ready").await?;
        assert!(waits.contains("retried at "), "{waits}");
        scene.offers_resources("t1", &[("nvidia.com/gpu", 4)]).await
    });
}

#[test]
fn two_notebooks_share_the_t4_of_a_node_a_third_waits_and_a_whole_one_beside_it_is_nobody_elses() {
    scenario(async |scene| {
        let node = |name: &str, model: &str| NodeSpec::new(name, 1, model).label(POOL, "notebooks");
        scene.nodes_are([node("t1", "T4"), node("t2", "T4")]).await?;
        scene.operator().await?;
        let whole = workbench("whole", "nvidia.com/gpu", 1).of_neighbours();
        scene.apply(whole.clone()).await?;
        let alone = scene.workbench_runs(&of_neighbours("whole")).await?;
        let other = if alone == "t1" { "t2" } else { "t1" };
        scene.apply(by(2)).await?;
        point(scene, "notebooks").await?;
        scene.offers_resources(other, &[(SHARED, 2)]).await?;
        scene.apply(workbench("a", SHARED, 1)).await?;
        scene.apply(workbench("b", SHARED, 1).of_neighbours()).await?;
        for name in ["a", &of_neighbours("b")] {
            assert_eq!(scene.workbench_runs(name).await?, other);
        }
        scene.apply(workbench("c", SHARED, 1)).await?;
        scene.waits_for("notebooks", "whole").await?;
        // Whose seat the other one is, is not said.
        let told = scene.told("Notebook", "c", "2 of 2 seats").await?;
        assert!(told.contains("held by team-a/a-0, a pod of another namespace"), "{told}");
        scene.offers_resources(&alone, &[("nvidia.com/gpu", 1)]).await?;
        // The whole one is given back, and its node has room for the third.
        scene.delete(whole).await?;
        assert_eq!(scene.workbench_runs("c").await?, alone);
        scene.converged("notebooks").await
    });
}

#[test]
fn an_operator_that_is_killed_at_any_step_of_a_change_of_sharing_converges_when_it_is_back() {
    scenario(async |scene| {
        scene.nodes_are([NodeSpec::new("t1", 4, "T4").label(POOL, "notebooks")]).await?;
        scene.operator().await?;
        scene.apply(by(2)).await?;
        point(scene, "notebooks").await?;
        scene.offers_resources("t1", &[(SHARED, 8)]).await?;
        // A device plugin needs no time of its own for a change: the label leads on to the proof.
        for (phase, replicas) in
            ["Mapping", "Cordoning", "Quiescing", "Verifying", "Releasing"].iter().zip(3..)
        {
            scene.apply(by(replicas)).await?;
            scene.phase("t1", phase).await?;
            scene.kill_operators();
            scene.operator_again().await?;
            scene.offers_resources("t1", &[(SHARED, 4 * i64::from(replicas))]).await?;
            scene.converged("notebooks").await?;
        }
        Ok(())
    });
}

const MAP: &str = "slicewright-plugin-config";

fn map() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": MAP, "namespace": GPU_OPERATOR_NAMESPACE},
    })
}

fn label(node: &Node, key: &str) -> Option<String> {
    node.metadata.labels.as_ref()?.get(key).cloned()
}

/// The texts of our map, once it has these keys.
async fn map_has(scene: &Scene, wanted: &[&str]) -> anyhow::Result<BTreeMap<String, String>> {
    let maps: Api<ConfigMap> = Api::namespaced(scene.client(), GPU_OPERATOR_NAMESPACE);
    let what = format!("{MAP} has {wanted:?}");
    until(maps, &what, scene.patience(), |maps| {
        let map = maps.get(&format!("{GPU_OPERATOR_NAMESPACE}/{MAP}"));
        let data = map.ok_or("it is not there")?.data.clone().unwrap_or_default();
        let keys: Vec<&str> = data.keys().map(String::as_str).collect();
        if keys == wanted { Ok(data.clone()) } else { Err(format!("it has {keys:?}")) }
    })
    .await
}

#[test]
fn a_map_that_is_deleted_or_edited_comes_back_with_the_key_of_a_node_that_no_policy_shares_any_more() {
    scenario(async |scene| {
        scene.nodes_are([NodeSpec::new("t1", 4, "T4").label(POOL, "notebooks")]).await?;
        scene.operator().await?;
        scene.apply(by(4)).await?;
        point(scene, "notebooks").await?;
        scene.offers_resources("t1", &[(SHARED, 16)]).await?;
        scene.converged("notebooks").await?;
        let key =
            scene.node("t1", "is told a key", |node| label(node, "nvidia.com/device-plugin.config")).await?;
        let before = map_has(scene, &[&key]).await?;

        // Nobody shares any more, and the node keeps what it has.
        scene.delete(by(4)).await?;
        scene.delete(map()).await?;
        assert_eq!(map_has(scene, &[&key]).await?, before);
        scene.offers_resources("t1", &[(SHARED, 16)]).await?;

        // An operator that has forgotten the node as well finds it by the labels.
        scene.stop_operators().await?;
        let forgotten = json!({
            "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode", "metadata": {"name": "t1"},
        });
        scene.delete(forgotten).await?;
        scene.delete(map()).await?;
        scene.operator_again().await?;
        assert_eq!(map_has(scene, &[&key]).await?, before);

        // Somebody takes the key out, and leaves one of his own.
        scene.patch(map(), json!({"data": {key.as_str(): null, "theirs": "version: v1"}})).await?;
        let after = map_has(scene, &[&key, "theirs"]).await?;
        assert_eq!(after[&key], before[&key]);
        scene.offers_resources("t1", &[(SHARED, 16)]).await
    });
}

#[test]
fn a_node_whose_layout_and_sharing_both_change_is_cordoned_once() {
    scenario(async |scene| {
        const SMALL: &str = "nvidia.com/mig-1g.10gb.shared";
        let node = NodeSpec::new("n1", 2, "A100-80GB").layout("all-3g.40gb").label(POOL, "research");
        scene.nodes_are([node]).await?;
        scene.operator().await?;
        let cut = |slices: &[(&str, u32)], sharing: Value| {
            policy("research", "research").always(slices).spec("/sharing", sharing)
        };
        let by = |replicas: u32| {
            let rules = json!([{"resource": "nvidia.com/mig-1g.10gb", "replicas": replicas}]);
            json!({"type": "TimeSlicing", "rules": rules})
        };
        // The device plugin reads our map before both change, so that both can be mounted in time.
        scene.apply(cut(&[("3g.40gb", 2)], by(3))).await?;
        point(scene, "research").await?;
        scene.node("n1", "is told a key", |node| label(node, "nvidia.com/device-plugin.config")).await?;
        scene.converged("research").await?;

        let both_ways = [
            (cut(&[("1g.10gb", 7)], by(2)), (SMALL, 28)),
            (cut(&[("3g.40gb", 2)], json!({"type": "None"})), ("nvidia.com/mig-3g.40gb", 4)),
        ];
        for (policy, offers) in both_ways {
            let from_now = scene.audit_from_now()?;
            scene.apply(policy).await?;
            scene.offers_resources("n1", &[offers]).await?;
            scene.converged("research").await?;
            let cordons = from_now.writes()?.into_iter().filter(|write| {
                let body = write.request_object.as_ref();
                write.object_ref.resource == "nodes"
                    && write.response_status.code == 200
                    && body.is_some_and(|body| body["spec"]["unschedulable"] == true)
            });
            let cordons: Vec<String> = cordons.map(|write| write.to_string()).collect();
            assert_eq!(cordons.len(), 1, "{cordons:#?}");
        }
        Ok(())
    });
}

#[test]
fn cluster_policy_that_points_away_and_back_while_a_node_is_cut_delays_its_sharing_and_harms_nobody() {
    scenario(async |scene| {
        const SMALL: &str = "nvidia.com/mig-1g.10gb.shared";
        const LARGE: &str = "nvidia.com/mig-3g.40gb.shared";
        let node = NodeSpec::new("n1", 3, "A100-80GB").layout("all-3g.40gb").label(POOL, "research");
        scene.nodes_are([node]).await?;
        scene.operator().await?;
        let cut = |slices: &[(&str, u32)], replicas: u32| {
            let rules = json!([
                {"resource": "nvidia.com/mig-3g.40gb", "replicas": 3},
                {"resource": "nvidia.com/mig-1g.10gb", "replicas": replicas},
            ]);
            policy("research", "research")
                .always(slices)
                .spec("/sharing", json!({"type": "TimeSlicing", "rules": rules}))
        };
        scene.apply(cut(&[("3g.40gb", 2)], 3)).await?;
        point(scene, "research").await?;
        scene.offers_resources("n1", &[(LARGE, 18)]).await?;
        scene.converged("research").await?;

        scene.apply(cut(&[("1g.10gb", 7)], 2)).await?;
        scene.phase("n1", "Changing").await?;
        points_to(scene, "elsewhere").await?;
        scene.phase("n1", "Verifying").await?;
        points_to(scene, MAP).await?;
        scene.offers_resources("n1", &[(SMALL, 42)]).await?;
        scene.converged("research").await
    });
}
