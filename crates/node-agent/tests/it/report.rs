//! What an agent that only reports tells, and when.

use sim_kubelet::Container;

use crate::api_server::Failure;
use crate::scene::Scene;

const IDLE: [&str; 4] = [
    "0: 3g.40gb@0 Idle; 3g.40gb@4 Idle",
    "1: 1g.10gb@0 Idle; 1g.10gb@1 Idle; 2g.20gb@4 Idle",
    "2: 7g.80gb@0 Idle",
    "3: 4g.40gb@0 Idle; 3g.40gb@4 Idle",
];

#[tokio::test]
async fn each_slice_is_told_with_its_place_and_its_holder() {
    let mut scene = Scene::new().await;
    scene.gives("research", "lab", "0:3g.40gb@4");
    scene.gives("research", "train", "5");
    scene.agent();
    scene
        .until_told(&[
            "0: 3g.40gb@0 Idle; 3g.40gb@4 InUse lab/main uid-of-lab/main",
            IDLE[1],
            IDLE[2],
            IDLE[3],
            "5: whole, train/main uid-of-train/main",
        ])
        .await;
    let status = scene.status();
    let (agent, observed) = (status.agent.unwrap(), status.observed.unwrap());
    assert_eq!((agent.pod_uid.as_str(), agent.boot_id.as_str(), agent.report), ("agent-1", "boot-1", 1));
    assert!(agent.driver.is_some_and(|driver| driver.starts_with("5")));
    assert_eq!(observed.gpus.len(), 8);
    assert!(observed.gpus.iter().all(|gpu| gpu.model == "A100-80GB" && gpu.uuid.is_some()), "{observed:#?}");
    assert_eq!(observed.gpus[0].slices[1].devices, [scene.id("0:3g.40gb@4")]);
}

#[tokio::test]
async fn who_comes_and_goes_is_told_and_what_is_nothing_new_is_not_written() {
    let mut scene = Scene::new().await;
    scene.agent();
    scene.until_told(&IDLE).await;
    scene.gives("research", "lab", "2:7g.80gb@0");
    let taken = "2: 7g.80gb@0 InUse lab/main uid-of-lab/main";
    scene.until_told(&[IDLE[0], IDLE[1], taken, IDLE[3]]).await;
    assert_eq!(scene.api.writes(), 2, "one for the start, one for the pod");
    // Kubelet writes its checkpoint for other reasons, too. When the second look begins, the first one has ended.
    for _ in 0..2 {
        let asked = scene.kubelet.calls().list;
        scene.plugin();
        scene.until_listed(asked + 1).await;
    }
    assert_eq!(scene.api.writes(), 2, "nothing is new");
    // The pod ends: kubelet's list knows at once, its checkpoint at the next allocation.
    scene.kubelet.update(|books| books.pods[0].ended = true).unwrap();
    scene.until_told(&[IDLE[0], IDLE[1], "2: 7g.80gb@0 InUse uid-of-lab/main", IDLE[3]]).await;
    scene.kubelet.update(|books| books.pods.clear()).unwrap();
    scene.until_told(&IDLE).await;
    assert_eq!(scene.api.writes(), 4);
}

/// Before 1.34 `List` names pods that have ended, without their devices. They hold what the checkpoint says, and nothing once
/// it says so no more.
#[tokio::test]
async fn a_pod_that_has_ended_and_is_still_listed_holds_nothing_by_the_list() {
    let mut scene = Scene::new().await;
    scene.kubelet.update(|books| books.lists_ended = true).unwrap();
    scene.gives("research", "lab", "2:7g.80gb@0");
    scene.gives("vision", "train", "0:3g.40gb@0");
    scene.agent();
    let train = "0: 3g.40gb@0 InUse train/main uid-of-train/main; 3g.40gb@4 Idle";
    scene.until_told(&[train, IDLE[1], "2: 7g.80gb@0 InUse lab/main uid-of-lab/main", IDLE[3]]).await;
    scene.kubelet.update(|books| books.pods[0].ended = true).unwrap();
    scene.until_told(&[train, IDLE[1], "2: 7g.80gb@0 InUse uid-of-lab/main", IDLE[3]]).await;
    scene.kubelet.update(|books| books.pods[0].containers[0].recorded = false).unwrap();
    scene.until_told(&[train, IDLE[1], IDLE[2], IDLE[3]]).await;
}

/// A thousand agents that looked at their objects each minute would be heard by the API server.
#[tokio::test]
async fn at_rest_nothing_is_asked_of_the_api_server_but_the_watch_that_is_open() {
    let mut scene = Scene::new().await;
    scene.gives("research", "lab", "2:7g.80gb@0");
    scene.agent();
    scene.until_told(&[IDLE[0], IDLE[1], "2: 7g.80gb@0 InUse lab/main uid-of-lab/main", IDLE[3]]).await;
    // Another second look: what the first one had to ask or write is done.
    for _ in 0..2 {
        let asked = scene.kubelet.calls().list;
        scene.plugin();
        scene.until_listed(asked + 1).await;
    }
    let requests = scene.api.requests();
    assert!(requests > 0, "the list, the watch and a write");
    for _ in 0..5 {
        let asked = scene.kubelet.calls().list;
        scene.plugin();
        scene.until_listed(asked + 1).await;
    }
    assert_eq!(scene.api.requests(), requests, "it looked five times, and asked nothing");
}

/// `List` leaves them out although they have their devices until the pod ends.
#[tokio::test]
async fn an_init_container_holds_its_slice_by_the_checkpoint_alone() {
    let mut scene = Scene::new().await;
    scene.gives("research", "lab", "0:3g.40gb@0");
    let prepare = Container { init: true, ..scene.container("prepare", "0:3g.40gb@4") };
    scene.kubelet.update(|books| books.pods[0].containers.push(prepare)).unwrap();
    scene.agent();
    let both = "0: 3g.40gb@0 InUse lab/main uid-of-lab/main; 3g.40gb@4 InUse uid-of-lab/prepare";
    scene.until_told(&[both, IDLE[1], IDLE[2], IDLE[3]]).await;
}

/// Kubelet enters a choice in what `List` shows before it writes the checkpoint.
#[tokio::test]
async fn a_slice_that_is_not_yet_in_the_checkpoint_is_held_by_the_list() {
    let mut scene = Scene::new().await;
    scene.gives("research", "lab", "0:3g.40gb@0");
    scene.kubelet.update(|books| books.pods[0].containers[0].recorded = false).unwrap();
    scene.agent();
    scene.until_told(&["0: 3g.40gb@0 InUse lab/main; 3g.40gb@4 Idle", IDLE[1], IDLE[2], IDLE[3]]).await;
}

#[tokio::test]
async fn an_agent_that_starts_again_reports_anew_under_a_higher_number() {
    let mut scene = Scene::new().await;
    scene.agent();
    scene.until_told(&IDLE).await;
    scene.agent_dies().await;
    scene.gives("research", "lab", "2:7g.80gb@0");
    scene.agent();
    let status = scene
        .until("the second one reports", |status| {
            status.agent.as_ref().is_some_and(|agent| agent.pod_uid == "agent-2")
        })
        .await;
    assert_eq!(status.agent.unwrap().report, 2);
    scene.until_told(&[IDLE[0], IDLE[1], "2: 7g.80gb@0 InUse lab/main uid-of-lab/main", IDLE[3]]).await;
    assert_eq!(scene.api.writes(), 2);
}

#[tokio::test]
async fn a_write_that_fails_or_whose_answer_is_lost_is_made_good() {
    for failure in [Failure::Refuse, Failure::LoseAnswer] {
        let mut scene = Scene::new().await;
        scene.api.fail(failure);
        scene.agent();
        scene.until_told(&IDLE).await;
        scene.gives("research", "lab", "2:7g.80gb@0");
        scene.until_told(&[IDLE[0], IDLE[1], "2: 7g.80gb@0 InUse lab/main uid-of-lab/main", IDLE[3]]).await;
    }
}

/// Until now the operator wrote what it counted; the labels stay its own.
#[tokio::test]
async fn an_agent_that_comes_later_takes_the_observation_over_and_leaves_the_labels() {
    let mut scene = Scene::new().await;
    let gpu = |index| {
        serde_json::json!({
            "index": index, "model": "A100-80GB", "migEnabled": false, "unhealthy": "it was",
            "heldBy": [{"namespace": "research", "name": "gone"}], "slices": [],
        })
    };
    let observed = serde_json::json!({
        "by": "Controller", "at": "2026-11-24T00:00:00Z", "bootId": "boot-0",
        "labels": {"nvidia.com/gpu.count": "8"}, "gpus": (0..9).map(gpu).collect::<Vec<_>>(),
    });
    scene.api.change(|node| node["status"] = serde_json::json!({"observed": observed, "slices": "8 GPUs"}));
    scene.agent();
    scene.until_told(&IDLE).await;
    let status = scene.status();
    assert_eq!(status.slices.as_deref(), Some("8 GPUs"));
    let observed = status.observed.unwrap();
    assert_eq!(observed.labels["nvidia.com/gpu.count"], "8");
    assert_eq!(observed.gpus.len(), 8);
    assert!(
        observed.gpus.iter().all(|gpu| gpu.unhealthy.is_none() && gpu.held_by.is_empty()),
        "{observed:#?}"
    );
}

/// An older copy of etcd was restored. What is of the future of that copy has versions that are assigned once more.
#[tokio::test]
async fn what_an_agent_told_is_told_again_when_the_apis_data_went_back_in_time() {
    let mut scene = Scene::new().await;
    scene.agent();
    scene.until_told(&IDLE).await;
    let before = scene.api.copy();
    scene.gives("research", "lab", "2:7g.80gb@0");
    let taken = [IDLE[0], IDLE[1], "2: 7g.80gb@0 InUse lab/main uid-of-lab/main", IDLE[3]];
    scene.until_told(&taken).await;
    scene.api.goes_back_to(before);
    scene.until_told(&taken).await;
}

#[tokio::test]
async fn what_somebody_else_wrote_into_its_fields_is_written_over() {
    let mut scene = Scene::new().await;
    scene.agent();
    scene.until_told(&IDLE).await;
    scene.api.change(|node| node["status"]["observed"]["gpus"] = serde_json::json!([]));
    scene.until_told(&IDLE).await;
}
