//! Changes by others are respected: cordons, labels, maps, other policies.

use controller::MapRef;
use e2e::objects::{GPU_OPERATOR_NAMESPACE, MAP_NAME};
use e2e::{POOL, TEAM, a100, mig, policy, scenario, workbench};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::json;

#[test]
fn somebody_elses_cordon_stays_and_nothing_starts_until_it_goes() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.patch_node("n1", json!({"spec": {"unschedulable": true}})).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        let message = scene.says("research", "Ready", "False", "Waiting").await?;
        assert!(message.contains("n1/gpu0: it was cordoned by"), "{message}");
        let writes = scene.audit()?.writes()?;
        assert!(writes.iter().all(|write| write.object_ref.resource != "nodes"), "{writes:?}");
        scene.patch_node("n1", json!({"spec": {"unschedulable": null}})).await?;
        scene.offers("n1", &[("3g.40gb", 2)]).await?;
        scene.converged("research").await
    });
}

/// Any controller that prunes labels which it does not know.
#[test]
fn a_lost_cordon_mark_neither_stops_a_change_nor_leaves_a_node_cordoned() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb"), a100("n2", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        let pruned = json!({"metadata": {"labels": {"slicewright.io/cordoned-by": null}}});
        // Of one node as soon as it is cordoned, of the other when its label is written.
        let first = scene.first_cordoned().await?;
        scene.patch_node(&first, pruned.clone()).await?;
        let other = if first == "n1" { "n2" } else { "n1" };
        scene.phase(other, "Changing").await?;
        scene.patch_node(other, pruned).await?;
        for node in ["n1", "n2"] {
            scene.offers(node, &[("3g.40gb", 2)]).await?;
            let known = scene.phase(node, "Idle").await?;
            let last_error = known.status.and_then(|status| status.rollout).and_then(|r| r.last_error);
            assert_eq!(last_error, None, "{node}");
        }
        scene.converged("research").await
    });
}

#[test]
fn a_foreign_label_freezes_the_node_until_it_is_given_back() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        let layout = policy("research", "research").always(&[("3g.40gb", 2)]);
        scene.apply(layout.clone()).await?;
        scene.converged("research").await?;
        let node = scene.phase("n1", "Idle").await?;
        let ours = node.status.and_then(|s| s.rollout).and_then(|r| r.applied).unwrap_or_default();
        assert!(ours.starts_with("slicewright-"), "{ours}");
        // Somebody writes another layout, and MIG manager brings it about.
        let label = |value: &str| json!({"metadata": {"labels": {"nvidia.com/mig.config": value}}});
        scene.patch_node("n1", label("all-2g.20gb")).await?;
        scene.offers("n1", &[("2g.20gb", 3)]).await?;
        let message = scene.says("research", "Ready", "False", "ForeignLayout").await?;
        assert!(message.contains("all-2g.20gb") && message.contains(&ours), "{message}");
        scene.says("research", "Stalled", "True", "ForeignLayout").await?;
        // It is given back by the command that the condition names.
        scene.patch_node("n1", label(&ours)).await?;
        scene.offers("n1", &[("3g.40gb", 2)]).await?;
        scene.converged("research").await
    });
}

#[test]
fn a_map_that_gitops_manages_is_repeated_in_ours_and_stays_untouched() {
    scenario(async |scene| {
        let theirs = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "layouts-from-git", "namespace": GPU_OPERATOR_NAMESPACE,
                "annotations": {"argocd.argoproj.io/tracking-id": "gpus:/ConfigMap:nvidia-gpu-operator/layouts-from-git"},
            },
            "data": {"config.yaml": "version: v1\nmig-configs:\n  halves:\n    - devices: all\n      mig-enabled: true\n      mig-devices: {\"3g.40gb\": 2}\n"},
        });
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.apply(theirs).await?;
        let maps: Api<ConfigMap> = Api::namespaced(scene.client(), GPU_OPERATOR_NAMESPACE);
        let before = maps.get("layouts-from-git").await?;
        scene
            .operator_with(|settings| {
                let name = "layouts-from-git".to_owned();
                settings.administrators_map =
                    Some(MapRef { namespace: GPU_OPERATOR_NAMESPACE.to_owned(), name });
            })
            .await?;
        scene.apply(policy("research", "research").always(&[("2g.20gb", 3)])).await?;
        scene.offers("n1", &[("2g.20gb", 3)]).await?;
        scene.converged("research").await?;
        assert_eq!(maps.get("layouts-from-git").await?, before);
        let ours = maps.get(MAP_NAME).await?.data.unwrap_or_default();
        assert!(ours["config.yaml"].contains("halves"), "{}", ours["config.yaml"]);
        Ok(())
    });
}

#[test]
fn a_map_in_a_namespace_of_the_administrators_is_read_with_a_role_of_its_own() {
    scenario(async |scene| {
        let map = MapRef { namespace: TEAM.to_owned(), name: "layouts".to_owned() };
        scene
            .apply(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": map.name, "namespace": map.namespace},
                "data": {"config.yaml": "version: v1\nmig-configs:\n  halves:\n    - devices: all\n      mig-enabled: true\n      mig-devices: {\"3g.40gb\": 2}\n"},
            }))
            .await?;
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator_with(|settings| settings.administrators_map = Some(map)).await?;
        scene.apply(policy("research", "research").always(&[("2g.20gb", 3)])).await?;
        scene.offers("n1", &[("2g.20gb", 3)]).await?;
        scene.converged("research").await?;
        let maps: Api<ConfigMap> = Api::namespaced(scene.client(), GPU_OPERATOR_NAMESPACE);
        let ours = maps.get(MAP_NAME).await?.data.unwrap_or_default();
        assert!(ours["config.yaml"].contains("halves"), "{}", ours["config.yaml"]);
        Ok(())
    });
}

#[test]
fn of_two_policies_on_one_node_one_has_it_and_the_other_says_so() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-7g.80gb").label("tier", "gold")]).await?;
        scene.operator().await?;
        let gold = policy("gold", "none")
            .spec("/nodeSelector", json!({"matchLabels": {"tier": "gold"}}))
            .spec("/priority", 10)
            .always(&[("3g.40gb", 2)]);
        scene.apply(policy("research", "research").always(&[("1g.10gb", 7)]).mode("Paused")).await?;
        scene.apply(gold).await?;
        scene.apply(policy("research", "research").always(&[("1g.10gb", 7)])).await?;
        scene.offers("n1", &[("3g.40gb", 2)]).await?;
        scene.converged("gold").await?;
        let message = scene.says("research", "Accepted", "False", "Overruled").await?;
        assert!(message.contains("such as n1 to gold"), "{message}");
        // It has the node to itself again.
        scene.delete(policy("gold", "none")).await?;
        scene.offers("n1", &[("1g.10gb", 7)]).await
    });
}

#[test]
fn a_node_that_leaves_its_policy_keeps_its_layout() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        scene.converged("research").await?;
        scene.patch_node("n1", json!({"metadata": {"labels": {POOL: null}}})).await?;
        scene.says("research", "Accepted", "False", "NoNodes").await?;
        scene.apply(workbench("lab", &mig("1g.10gb"), 1)).await?;
        scene.is_unschedulable("lab-0").await?;
        scene.offers("n1", &[("3g.40gb", 2)]).await
    });
}
