//! A change waits until kubelet offers nothing. The agent asks for that often, and for nothing else.

use gpu::{Behaviour, Fault, Times, Verb};
use jiff::SignedDuration;

use crate::change::{wish, write};
use crate::scene::Scene;

const IDLE: [&str; 4] = [
    "0: 3g.40gb@0 Idle; 3g.40gb@4 Idle",
    "1: 1g.10gb@0 Idle; 1g.10gb@1 Idle; 2g.20gb@4 Idle",
    "2: 7g.80gb@0 Idle",
    "3: 4g.40gb@0 Idle; 3g.40gb@4 Idle",
];

/// An agent that has reported, and that looks by itself only after a test has given up.
async fn at_rest() -> Scene {
    let mut scene = Scene::new().await;
    scene.agent_with(&["--mode", "change", "--look-every", "4m"]);
    scene.until_told(&IDLE).await;
    scene
}

async fn until_closed_is_told(scene: &Scene) {
    let closed = |status: &api::gpu_node::GpuNodeStatus| {
        let gate = status.agent.as_ref().and_then(|agent| agent.gate.as_ref());
        gate.is_some_and(|gate| gate.state == api::node_agent::GateState::Closed)
    };
    scene.until("the gate is told to be closed", closed).await;
}

/// Kubelet is asked first, and the driver, which may take seconds, last.
#[tokio::test]
async fn a_gate_that_closes_while_the_driver_answers_is_told() {
    let scene = at_rest().await;
    let slow = Behaviour::Slow(SignedDuration::from_secs(3));
    let fault = Fault::Call { verb: Verb::Query, gpu: Some(0), behaviour: slow, times: Times::Count(1) };
    scene.store.update(|state| state.machine.begin(fault)).unwrap();
    let looked = scene.kubelet.calls().list;
    write(&scene, &wish(&scene));
    scene.until_listed(looked + 1).await;
    scene.kubelet.update_in_memory(|books| books.healthy.clear());
    until_closed_is_told(&scene).await;
}

/// kubernetes#137534. Kubelet tells its devices in another order each time, which is nothing new.
#[tokio::test]
async fn as_long_as_kubelet_offers_the_same_its_list_is_left_alone() {
    let scene = at_rest().await;
    let before = scene.kubelet.calls();
    write(&scene, &wish(&scene));
    scene.until_asked_what_it_offers(before.allocatable + 8).await;
    assert_eq!(scene.kubelet.calls().list, before.list + 1, "once, for the change\n{}", scene.log());
    scene.kubelet.update_in_memory(|books| books.healthy.clear());
    until_closed_is_told(&scene).await;
}
