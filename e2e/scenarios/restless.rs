//! Permanent disturbances: the operator's records are deleted, the API server goes down again and again,
//! nodes flap, policies are edited all the time.

use std::ops::AsyncFnMut;

use e2e::objects::{GPU_OPERATOR_NAMESPACE, MAP_NAME};
use e2e::{NodeSpec, POOL, Scene, a100, mig, pod, policy, scenario, wait};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

fn four_gpus(name: &str) -> NodeSpec {
    NodeSpec::new(name, 4, "A100-80GB").label(POOL, "research").layout("all-1g.10gb")
}

/// Something happens in each phase of a change, while somebody trains on a GPU
/// of the same node; the pod keeps its slice, and the node comes to its layout.
async fn in_each_phase(
    scene: &mut Scene,
    mut happens: impl AsyncFnMut(&mut Scene) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    scene.nodes_are([four_gpus("n1")]).await?;
    scene.operator().await?;
    scene.apply(policy("research", "research")).await?;
    // On a GPU that is cut for it, so that the others are known to be idle.
    scene.apply(pod("trains", &mig("4g.40gb"), 1)).await?;
    scene.runs("trains").await?;
    // All that the other three GPUs have, so that each has to be cut anew.
    let asked = [("7g.80gb", 3), ("2g.20gb", 9)].into_iter().cycle();
    for ((profile, count), phase) in asked.zip(["Mapping", "Cordoning", "Quiescing", "Changing", "Verifying"])
    {
        scene.converged("research").await?;
        let asks = pod("asks", &mig(profile), count);
        scene.apply(asks.clone()).await?;
        scene.phase("n1", phase).await?;
        happens(scene).await?;
        scene.runs("asks").await?;
        scene.delete(asks).await?;
        scene.is_gone("asks").await?;
    }
    assert_eq!(scene.running().await?, ["trains"]);
    scene.converged("research").await
}

#[test]
fn a_gpu_node_that_is_deleted_in_any_phase_is_made_anew_and_the_change_comes_to_its_end() {
    scenario(async |scene| {
        in_each_phase(scene, async |scene| {
            scene.gpu_nodes().delete("n1", &DeleteParams::default()).await?;
            Ok(())
        })
        .await
    });
}

#[test]
fn a_map_that_is_deleted_in_any_phase_is_written_anew_and_the_change_comes_to_its_end() {
    scenario(async |scene| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": MAP_NAME, "namespace": GPU_OPERATOR_NAMESPACE}});
        in_each_phase(scene, async |scene| scene.delete(map.clone()).await).await
    });
}

/// Without pods that wait: the scheduler takes longer with each restart until it
/// looks again, up to half a minute.
#[test]
fn an_api_server_that_is_killed_in_every_phase_changes_nothing_in_the_end() {
    scenario(async |scene| {
        scene.nodes_are([four_gpus("n1")]).await?;
        scene.operator().await?;
        let layouts = [("3g.40gb", 2), ("1g.10gb", 7)].into_iter().cycle();
        for ((profile, count), phase) in
            layouts.zip(["Mapping", "Cordoning", "Quiescing", "Changing", "Verifying"])
        {
            scene.apply(policy("research", "research").always(&[(profile, count)])).await?;
            scene.phase("n1", phase).await?;
            scene.restart_api_server().await?;
            scene.each_gpu_offers("n1", &[(profile, i64::from(count))]).await?;
            scene.converged("research").await?;
        }
        Ok(())
    });
}

#[test]
fn two_policies_that_are_edited_all_the_time_are_followed_to_what_they_say_last() {
    scenario(async |scene| {
        let of = |pool: &'static str| {
            move |name: &'static str| {
                NodeSpec::new(name, 2, "A100-80GB").label(POOL, pool).layout("all-1g.10gb")
            }
        };
        scene
            .nodes_are(["n1", "n2"].map(of("research")).into_iter().chain(["n3", "n4"].map(of("teaching"))))
            .await?;
        scene.operator().await?;
        let cordons = scene.count_cordons();
        let layouts = [("3g.40gb", 2), ("1g.10gb", 7), ("2g.20gb", 3)];
        let mut edits = 0;
        wait::asking("both policies were edited often enough", wait::PATIENCE, async || {
            for name in ["research", "teaching"] {
                scene.apply(policy(name, name).always(&[layouts[edits % layouts.len()]])).await?;
            }
            edits += 1;
            Ok(if edits >= 100 { Ok(()) } else { Err(format!("{edits} times")) })
        })
        .await?;
        for name in ["research", "teaching"] {
            scene.apply(policy(name, name).always(&[("3g.40gb", 2)])).await?;
        }
        for node in ["n1", "n2", "n3", "n4"] {
            scene.each_gpu_offers(node, &[("3g.40gb", 2)]).await?;
        }
        for name in ["research", "teaching"] {
            scene.converged(name).await?;
        }
        assert!(cordons.most() <= 2, "each policy allows one of its nodes to be away");
        Ok(())
    });
}

#[test]
fn nodes_that_flap_keep_nobody_from_a_slice() {
    scenario(async |scene| {
        let names: Vec<String> = (1..=20).map(|n| format!("n{n:02}")).collect();
        scene.nodes_are(names.iter().map(|name| a100(name, "all-1g.10gb").label(POOL, "research"))).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research")).await?;
        scene.converged("research").await?;
        let cordons = scene.count_cordons();
        scene.apply(pod("asks", &mig("3g.40gb"), 1)).await?;
        scene.apply(pod("asks-too", &mig("7g.80gb"), 1)).await?;
        let away =
            json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Flaps"}]}});
        let mut flaps = 0;
        wait::asking("they have flapped often enough", wait::PATIENCE, async || {
            let name = &names[flaps * 7 % names.len()];
            scene.nodes().patch_status(name, &PatchParams::default(), &Patch::Strategic(&away)).await?;
            flaps += 1;
            Ok(if flaps >= 200 { Ok(()) } else { Err(format!("{flaps} times")) })
        })
        .await?;
        scene.runs("asks").await?;
        scene.runs("asks-too").await?;
        scene.converged("research").await?;
        assert!(cordons.most() <= 1, "the policy allows one node to be away");
        Ok(())
    });
}
