//! Parts that are missing, broken or lying: each is told, and what is not known is not called free.

use gpu::{Activity, Behaviour, Client, Fault, Target, Times, Verb};

use crate::scene::{Scene, told};

const IDLE: [&str; 4] = [
    "0: 3g.40gb@0 Idle; 3g.40gb@4 Idle",
    "1: 1g.10gb@0 Idle; 1g.10gb@1 Idle; 2g.20gb@4 Idle",
    "2: 7g.80gb@0 Idle",
    "3: 4g.40gb@0 Idle; 3g.40gb@4 Idle",
];

/// Whether no slice of the node is called free.
fn nothing_is_free(scene: &Scene) -> bool {
    let observed = scene.status().observed.unwrap();
    let slices = observed.gpus.iter().flat_map(|gpu| &gpu.slices);
    slices.clone().count() > 0 && slices.clone().all(|slice| slice.used != api::gpu_node::SliceUse::Idle)
}

fn says(scene: &Scene, text: &str) -> bool {
    told(&scene.status()).iter().any(|line| line.contains(text))
}

#[tokio::test]
async fn without_kubelets_socket_no_slice_counts_as_free_until_it_is_there_again() {
    let mut scene = Scene::new().await;
    let socket = scene.kubelet.socket();
    let aside = socket.with_extension("aside");
    std::fs::rename(&socket, &aside).unwrap();
    scene.agent();
    scene.until("it tells", |_| says(&scene, "there is no socket")).await;
    assert!(nothing_is_free(&scene), "{:#?}", told(&scene.status()));
    std::fs::rename(&aside, &socket).unwrap();
    // A kubelet that starts writes its checkpoint.
    scene.plugin();
    scene.until_told(&IDLE).await;
}

#[tokio::test]
async fn a_kubelet_that_refuses_makes_its_books_unreadable() {
    let mut scene = Scene::new().await;
    scene.kubelet.refuse(Some("rejected by rate limit"));
    scene.agent();
    scene.until("it tells", |_| says(&scene, "rejected by rate limit")).await;
    assert!(nothing_is_free(&scene));
    scene.kubelet.refuse(None);
    scene.plugin();
    scene.until_told(&IDLE).await;
}

#[tokio::test]
async fn a_checkpoint_that_is_missing_or_garbage_makes_the_books_unreadable_and_its_holders_stay() {
    let mut scene = Scene::new().await;
    scene.gives("research", "lab", "2:7g.80gb@0");
    std::fs::remove_file(scene.kubelet.checkpoint()).unwrap();
    scene.agent();
    scene.until("it is missing", |_| says(&scene, "there is no checkpoint")).await;
    assert!(nothing_is_free(&scene));
    assert!(says(&scene, "7g.80gb@0 MaybeInUse lab/main"), "{:#?}", told(&scene.status()));
    std::fs::write(scene.kubelet.checkpoint(), "\0garbage").unwrap();
    scene.until("it is garbage", |_| says(&scene, "is not one that this agent can read")).await;
    assert!(nothing_is_free(&scene));
    scene.plugin();
    let taken = "2: 7g.80gb@0 InUse lab/main uid-of-lab/main";
    scene.until_told(&[IDLE[0], IDLE[1], taken, IDLE[3]]).await;
}

#[tokio::test]
async fn a_device_that_the_driver_does_not_know_may_be_any_slice() {
    let mut scene = Scene::new().await;
    let pod = sim_kubelet::Pod::new("research", "lab", "nvidia.com/mig-3g.40gb", &["MIG-of-yesterday"]);
    scene.kubelet.update(|books| books.pods.push(pod)).unwrap();
    scene.agent();
    scene.until("it tells", |_| says(&scene, "unknown MIG-of-yesterday: lab/main uid-of-lab/main")).await;
    assert!(nothing_is_free(&scene));
}

/// Which pods may be about to get one, nobody can say: not even when the plugin has stopped for a change.
#[tokio::test]
async fn slices_that_the_plugin_offers_under_another_name_are_told_and_none_counts_as_free() {
    let mut scene = Scene::new().await;
    scene.plugin_renames("3g.40gb", "nvidia.com/half");
    scene.agent();
    let said = "books: the device plugin offers slices 3g.40gb as nvidia.com/half, so nobody can say";
    scene.until("it tells", |_| says(&scene, said)).await;
    let asked = scene.kubelet.calls().list;
    scene.kubelet.update(|books| books.healthy.clear()).unwrap();
    scene.until_listed(asked + 1).await;
    scene.gives("research", "lab", "2:7g.80gb@0");
    scene.until("it has looked since", |_| says(&scene, "7g.80gb@0 MaybeInUse lab/main")).await;
    assert!(says(&scene, said), "{:#?}", told(&scene.status()));
    scene.plugin();
    let taken = "2: 7g.80gb@0 InUse lab/main uid-of-lab/main";
    scene.until_told(&[IDLE[0], IDLE[1], taken, IDLE[3]]).await;
}

/// Its pod was deleted by force, and its process is still there.
#[tokio::test]
async fn an_agent_beside_another_one_does_nothing_until_the_process_of_that_one_has_ended() {
    let mut scene = Scene::new().await;
    scene.agent();
    scene.until_told(&IDLE).await;
    let mut first = scene.leave_agent();
    scene.agent();
    scene.until_logged("another agent works on this node").await;
    let writes = scene.api.writes();
    scene.gives("research", "lab", "2:7g.80gb@0");
    let taken = "2: 7g.80gb@0 InUse lab/main uid-of-lab/main";
    scene.until_told(&[IDLE[0], IDLE[1], taken, IDLE[3]]).await;
    let wrote = |scene: &Scene| scene.status().agent.map(|agent| agent.pod_uid);
    assert_eq!(wrote(&scene).as_deref(), Some("agent-1"));
    assert_eq!(scene.api.writes(), writes + 1, "they do not answer each other");
    first.kill().await.unwrap();
    scene
        .until("the second one works", |status| {
            status.agent.as_ref().is_some_and(|agent| agent.pod_uid == "agent-2")
        })
        .await;
    assert_eq!(told(&scene.status()), [IDLE[0], IDLE[1], taken, IDLE[3]]);
}

#[tokio::test]
async fn two_pods_on_one_slice_are_both_told() {
    let mut scene = Scene::new().await;
    scene.gives("research", "lab", "2:7g.80gb@0");
    scene.gives("research", "other", "2:7g.80gb@0");
    scene.agent();
    let both = "2: 7g.80gb@0 InUse lab/main other/main uid-of-lab/main uid-of-other/main";
    scene.until_told(&[IDLE[0], IDLE[1], both, IDLE[3], "1 held twice"]).await;
}

#[tokio::test]
async fn a_process_that_no_book_explains_keeps_its_slice() {
    let mut scene = Scene::new().await;
    scene
        .store
        .update(|state| {
            let slice = state.machine.gpu(2).unwrap().instances.values().next().unwrap().id;
            let target = Target::ComputeInstance(2, slice, 0);
            let name = "python3".to_owned();
            let client = Client { pid: 4242, name, target, activity: Activity::Computes, memory_mib: 512 };
            state.machine.open(client).unwrap();
        })
        .unwrap();
    scene.agent();
    scene.until_told(&[IDLE[0], IDLE[1], "2: 7g.80gb@0 MaybeInUse (a process)", IDLE[3]]).await;
}

#[tokio::test]
async fn a_gpu_that_falls_off_the_bus_is_told_and_hides_no_other() {
    let mut scene = Scene::new().await;
    scene.gives("research", "lab", "2:7g.80gb@0");
    scene.agent();
    let taken = "2: 7g.80gb@0 InUse lab/main uid-of-lab/main";
    scene.until_told(&[IDLE[0], IDLE[1], taken, IDLE[3]]).await;
    scene.store.update(|state| state.machine.begin(Fault::FallsOffTheBus { gpu: 3 })).unwrap();
    scene.plugin();
    let status = scene
        .until("it tells", |status| {
            status
                .observed
                .as_ref()
                .is_some_and(|seen| seen.gpus.iter().any(|gpu| gpu.driver_error.is_some()))
        })
        .await;
    let gpus = status.observed.unwrap().gpus;
    assert_eq!(gpus.len(), 8, "it is still one of the node's");
    let silent: Vec<_> = gpus.iter().filter(|gpu| gpu.driver_error.is_some()).map(|gpu| gpu.index).collect();
    assert_eq!(silent, [3]);
    assert_eq!(told(&scene.status())[..3], [IDLE[0], IDLE[1], taken]);
}

#[tokio::test]
async fn a_driver_that_hangs_makes_every_gpu_silent_and_is_asked_by_one_thread_at_most() {
    let mut scene = Scene::new().await;
    scene.agent_with(&["--driver-timeout", "2s"]);
    scene.until_told(&IDLE).await;
    let hang = |times| Fault::Call { verb: Verb::Query, gpu: Some(1), behaviour: Behaviour::Hang, times };
    scene.store.update(|state| state.machine.begin(hang(Times::UntilCleared))).unwrap();
    scene.plugin();
    scene.until("it tells", |_| says(&scene, "the driver has not answered")).await;
    let silent = told(&scene.status());
    assert_eq!(silent.len(), 8, "every GPU, and nothing else: {silent:#?}");
    // It looks again, and does not start a second thread that hangs, too.
    scene.plugin();
    scene.until("it tells", |_| says(&scene, "the driver has not answered an earlier call")).await;
}

#[tokio::test]
async fn without_a_driver_nothing_is_said_of_gpus_and_the_log_says_why() {
    let mut scene = Scene::new().await;
    let driver = scene.folder.path().join("driver/usr");
    let aside = driver.with_extension("aside");
    std::fs::rename(&driver, &aside).unwrap();
    scene.agent();
    scene.until_logged("no driver is installed below").await;
    assert_eq!(told(&scene.status()), ["nothing"]);
    assert_eq!(scene.api.writes(), 0);
    std::fs::rename(&aside, &driver).unwrap();
    scene.plugin();
    scene.until_told(&IDLE).await;
}

/// A driver that goes while the agent runs: its GPUs are still those of the node.
#[tokio::test]
async fn a_driver_that_is_taken_away_leaves_every_gpu_silent() {
    let mut scene = Scene::new().await;
    scene.agent();
    scene.until_told(&IDLE).await;
    std::fs::remove_dir_all(scene.folder.path().join("driver/usr")).unwrap();
    scene.plugin();
    scene.until("it tells", |_| says(&scene, "no driver is installed below")).await;
    assert_eq!(told(&scene.status()).len(), 8);
    // The next agent knows of them from the GpuNode.
    scene.agent_dies().await;
    scene.agent();
    scene
        .until("it reports", |status| status.agent.as_ref().is_some_and(|agent| agent.pod_uid == "agent-2"))
        .await;
    assert_eq!(told(&scene.status()).len(), 8);
}

#[tokio::test]
async fn the_library_is_closed_between_two_looks() {
    let mut scene = Scene::new().await;
    scene.agent();
    scene.until_told(&IDLE).await;
    let open = |scene: &Scene| scene.store.read(|state| state.machine.clients().count()).unwrap();
    assert_eq!(open(&scene), 0, "no client of the driver is left");
    let maps = scene.maps();
    assert!(!maps.contains("libsimulated_nvml"), "the library is unloaded");
}
