//! An older copy of etcd's data is restored while operators run. Running pods are decisive: the kubelets
//! follow the API from then on, and a restored pod has its slice again.

use std::time::Duration;

use e2e::etcd::Versions;
use e2e::wait::{until, until_one};
use e2e::{NodeSpec, POOL, Scene, mig, pod, policy, scenario};
use k8s_openapi::api::core::v1::Event;
use kube::api::Api;
use serde_json::Value;

/// By this a pod goes to one node.
const HOST: &str = "/spec/nodeSelector/kubernetes.io~1hostname";

fn eight_gpus(name: &str) -> NodeSpec {
    NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-1g.10gb")
}

fn on(name: &str, profile: &str, node: &str) -> Value {
    pod(name, &mig(profile), 1).with(HOST, node).into()
}

async fn ends(scene: &Scene, name: &str) -> anyhow::Result<()> {
    scene.pods().delete(name, &kube::api::DeleteParams::default()).await?;
    scene.is_gone(name).await
}

/// A pod was made anew on another node after the copy was made. When the copy
/// is back it runs where it was, and its slice is not cut for who asks next.
fn a_pod_that_is_back_keeps_its_slice(versions: Versions, replicas: usize) {
    scenario(async move |scene| {
        scene.nodes_are(["n1", "n2", "n3"].map(eight_gpus)).await?;
        // Long enough for whoever looks, on a machine that stands still for seconds while a control plane starts.
        scene.operator_with(|settings| settings.settle_after_restore = Duration::from_secs(20)).await?;
        for _ in 1..replicas {
            scene.operator_again().await?;
        }
        scene.apply(policy("research", "research")).await?;
        for gpu in 0..8 {
            scene.apply(on(&format!("lab-{gpu}"), "1g.10gb", "n1")).await?;
        }
        for gpu in 0..8 {
            assert_eq!(scene.runs(&format!("lab-{gpu}")).await?, "n1");
        }
        scene.converged("research").await?;
        let copy = scene.copy_etcd("before").await?;

        for gpu in 0..8 {
            let name = format!("lab-{gpu}");
            ends(scene, &name).await?;
            scene.apply(on(&name, "1g.10gb", "n2")).await?;
            assert_eq!(scene.runs(&name).await?, "n2");
        }
        scene.is_quiet().await?;

        scene.put_back_etcd(&copy, versions).await?;
        let said = scene.says("research", "Degraded", "True", "DataWentBack").await?;
        assert!(said.contains("no node is changed until"), "{said}");
        scene.told("GpuPartitionPolicy", "research", "went back in time").await?;
        let mut counted = false;
        for operator in scene.operators() {
            counted |= operator.metrics().await?.contains("slicewright_data_went_back_total");
        }
        assert!(counted, "the alert would not find it");
        for gpu in 0..8 {
            assert_eq!(scene.runs(&format!("lab-{gpu}")).await?, "n1", "its kubelet starts it again");
        }

        // What people write from now on is obeyed.
        scene.apply(policy("research", "research").mode("Paused")).await?;
        scene.says("research", "Ready", "False", "Paused").await?;
        scene.apply(policy("research", "research")).await?;

        // Who asks for all of a GPU of n1 has to wait, and a whole GPU is free on n2.
        scene.apply(on("stuck", "7g.80gb", "n1")).await?;
        scene.apply(on("served", "7g.80gb", "n2")).await?;
        assert_eq!(scene.runs("served").await?, "n2");
        let answer = scene.is_unserved("research", "stuck").await?;
        assert!(answer.message.contains("n1/gpu0"), "{}", answer.message);
        ends(scene, "stuck").await?;
        scene.converged("research").await
    });
}

#[test]
fn after_restored_etcd_a_pod_that_is_back_keeps_its_slice() {
    a_pod_that_is_back_keeps_its_slice(Versions::AsTheyWere, 1);
}

#[test]
fn after_restored_etcd_a_pod_that_is_back_keeps_its_slice_from_two_replicas() {
    a_pod_that_is_back_keeps_its_slice(Versions::AsTheyWere, 2);
}

#[test]
fn after_restored_etcd_with_raised_versions_a_pod_that_is_back_keeps_its_slice_from_two_replicas() {
    a_pod_that_is_back_keeps_its_slice(Versions::Raised, 2);
}

/// In each of these phases of a change a copy of before the change is put
/// back. One pod has its slice all the time, and nobody takes it; the change is
/// no longer wanted then, and everything comes to rest as it was.
fn a_restore_takes_a_change_back_in(phases: &'static [&'static str]) {
    scenario(async move |scene| {
        scene.nodes_are(["n1", "n2"].map(eight_gpus)).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research")).await?;
        // On a GPU that is cut for it, so that the others of its node are known to be idle.
        scene.apply(on("keeps", "3g.40gb", "n1")).await?;
        assert_eq!(scene.runs("keeps").await?, "n1");
        let versions = [Versions::AsTheyWere, Versions::Raised].into_iter().cycle();
        for (nth, (phase, versions)) in (1..).zip(phases.iter().zip(versions)) {
            // Of a cluster at rest, so that what the operator wrote last is in it.
            scene.converged("research").await?;
            scene.is_quiet().await?;
            let copy = scene.copy_etcd(&format!("before-{phase}")).await?;
            scene.apply(on("asks", "7g.80gb", "n1")).await?;
            scene.phase("n1", phase).await?;
            scene.put_back_etcd(&copy, versions).await?;
            went_back_for_the(scene, nth).await?;
            scene.is_gone("asks").await?;
            scene.offers("n1", &[("1g.10gb", 49), ("3g.40gb", 2)]).await?;
            // What was restored says already that it has converged; this the operator says.
            until_one(scene.policies(), "research", "the operator goes on", scene.patience(), |policy| {
                let conditions = policy.and_then(|p| p.status.as_ref()).map(|s| &s.conditions);
                let held = conditions.is_some_and(|c| c.iter().any(|c| c.reason == "DataWentBack"));
                if held { Err("it holds everything".to_owned()) } else { Ok(()) }
            })
            .await?;
            scene.converged("research").await?;
            assert_eq!(scene.runs("keeps").await?, "n1", "after a restore in {phase}");
        }
        Ok(())
    });
}

/// The condition holds for a few seconds only, in which a busy machine may look at nothing; the event stays.
async fn went_back_for_the(scene: &Scene, nth: usize) -> anyhow::Result<()> {
    let events: Api<Event> = Api::all(scene.client());
    until(events, &format!("data went back for time {nth}"), scene.patience(), |seen| {
        let told = seen.values().filter(|event| event.reason.as_deref() == Some("DataWentBack")).count();
        if told >= nth { Ok(()) } else { Err(format!("it was told {told} times")) }
    })
    .await
}

#[test]
fn restored_etcd_before_the_label_takes_the_change_back() {
    a_restore_takes_a_change_back_in(&["Mapping", "Cordoning", "Quiescing"]);
}

#[test]
fn restored_etcd_after_the_label_takes_the_change_back() {
    a_restore_takes_a_change_back_in(&["Changing", "Verifying", "Releasing"]);
}
