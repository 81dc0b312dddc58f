//! Ready means: what the agent saw last is in its `GpuNode`. The operator believes it only while it is.

use serde_json::json;

use crate::scene::Scene;

#[tokio::test]
async fn an_agent_is_ready_when_what_it_saw_is_written_and_not_while_it_is_not() {
    let mut scene = Scene::new().await;
    scene.has_probes = true;
    scene.api.refuses(true);
    scene.agent();
    scene.until_ready(Some("etcd is not there")).await;
    scene.api.refuses(false);
    scene.until_ready(None).await;
    assert!(scene.status().observed.is_some());
    // What comes later has to be written as well.
    scene.api.refuses(true);
    scene.gives("research", "lab", "2:7g.80gb@0");
    scene.until_ready(Some("etcd is not there")).await;
    scene.api.refuses(false);
    scene.until_ready(None).await;
    assert!(format!("{:?}", scene.status().observed).contains("uid-of-lab"), "{:?}", scene.status().observed);
}

/// An open driver cannot be unloaded.
#[tokio::test]
async fn while_somebody_else_works_on_the_driver_the_agent_leaves_it_closed_and_is_not_ready() {
    let mut scene = Scene::new().await;
    scene.has_probes = true;
    scene.agent();
    scene.until_ready(None).await;
    let upgrade = "a driver upgrade (pod-deletion-required)";
    scene.api.change(|node| node["spec"]["driverInUseBy"] = json!(upgrade));
    scene.until_ready(Some(upgrade)).await;
    let (looks, writes) = (scene.kubelet.calls().list, scene.api.writes());
    // Kubelet writes its checkpoint, and the agent takes a turn without a look.
    scene.gives("research", "lab", "2:7g.80gb@0");
    scene.until_logged_again("the driver stays closed").await;
    assert_eq!((scene.kubelet.calls().list, scene.api.writes()), (looks, writes));
    scene.api.change(|node| node["spec"] = json!({"policy": "research"}));
    scene.until("the pod is seen", |status| format!("{status:?}").contains("uid-of-lab")).await;
    scene.until_ready(None).await;
}
