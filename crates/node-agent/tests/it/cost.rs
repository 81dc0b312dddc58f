//! What an agent costs. `--nocapture` shows it; `SLICEWRIGHT_AGENT` names the program to look at, such as the one of the
//! published image, which is built otherwise than the one of the tests.

use std::time::Duration;

use crate::scene::{self, Scene};

/// How often it looks before it is measured.
const LOOKS: usize = 50;

/// What an agent may keep of its own, in KiB, whatever its build: twice what is seen.
const MOST_OF_ITS_OWN: u64 = 8 * 1024;

/// What an agent that is published may take, in KiB.
const MOST_RESIDENT: u64 = 15 * 1024;

/// More than a look takes.
const A_LOOK: Duration = Duration::from_secs(2);
/// Well within the minute after which it looks again.
const REST: Duration = Duration::from_secs(5);

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
    let own = scene.memory("RssAnon:");
    assert!(own < MOST_OF_ITS_OWN, "{own} KiB: {}", scene.cost());
    if scene::is_another_program() {
        let resident = scene.memory("VmRSS:");
        assert!(resident <= MOST_RESIDENT, "{resident} KiB: {}", scene.cost());
    }
}

/// The processor time is that of the agent alone, so that a busy machine changes nothing.
#[tokio::test]
async fn at_rest_an_agent_takes_no_processor_time() {
    let mut scene = Scene::new().await;
    scene.agent();
    scene.until("the GPUs are reported", |status| status.observed.is_some()).await;
    // The second look has begun, so what the report brought with it is done, and it ends soon.
    let asked = scene.kubelet.calls().list;
    scene.kubelet.update(|_| ()).unwrap();
    scene.until_listed(asked + 1).await;
    tokio::time::sleep(A_LOOK).await;
    let before = scene.processor_time();
    tokio::time::sleep(REST).await;
    let took = scene.processor_time() - before;
    println!("in {REST:?} of rest: {took} hundredths of a second");
    assert!(took <= 1, "{took} hundredths of a second in {REST:?}: {}", scene.cost());
}
