//! What an agent costs. `--nocapture` shows it; `SLICEWRIGHT_AGENT` names the program to look at, such as the one of the
//! published image, which is built otherwise than the one of the tests.

use crate::scene::Scene;

/// How often it looks before it is measured.
const LOOKS: usize = 50;

/// What an agent may keep of its own, in KiB, whatever its build: twice what is seen.
const MOST_OF_ITS_OWN: u64 = 8 * 1024;

#[tokio::test]
async fn at_rest_an_agent_keeps_little_memory_of_its_own() {
    let mut scene = Scene::new().await;
    scene.agent();
    scene.until("the GPUs are reported", |status| status.observed.is_some()).await;
    println!("after the first look: {}", scene.cost());
    for _ in 0..LOOKS {
        let asked = scene.kubelet.calls().list;
        // Kubelet writes its checkpoint, so the agent looks.
        scene.kubelet.update(|_| ()).unwrap();
        scene.until_listed(asked + 1).await;
    }
    println!("after {LOOKS} looks: {}", scene.cost());
    let own = scene.own_memory();
    assert!(own < MOST_OF_ITS_OWN, "{own} KiB: {}", scene.cost());
}
