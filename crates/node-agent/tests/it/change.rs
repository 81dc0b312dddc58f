//! A change of single slices by the program itself, beside a pod that keeps its own: without trouble, and with the
//! program killed at each write and in each call of the driver. Whatever happens, the next one comes to the same end.

use std::collections::BTreeSet;

use agent::{
    ChangeId, Container, Gate, GpuChange, GpuUuid, Outcome, Place, Pod, PodLife, PodList, PodUid, Stage,
    Wish, prove,
};
use gpu::{Behaviour, Fault, Share, Times, Verb};

use crate::api_server::{Moment, Strike};
use crate::node;
use crate::scene::{Scene, told};

pub(crate) fn places(texts: &[(&str, u8)]) -> BTreeSet<Place> {
    texts.iter().map(|(profile, start)| Place { profile: profile.parse().unwrap(), start: *start }).collect()
}

/// GPU 0: one of its two halves becomes two smaller slices. The other half is the lab's.
pub(crate) fn wish(scene: &Scene) -> Wish {
    let gpu = GpuUuid(scene.id("0").to_owned());
    let before = places(&[("3g.40gb", 0), ("3g.40gb", 4)]);
    let after = places(&[("3g.40gb", 0), ("2g.20gb", 4), ("1g.10gb", 6)]);
    Wish { id: ChangeId("change-1".to_owned()), permit: None, gpus: vec![GpuChange { gpu, before, after }] }
}

pub(crate) fn write(scene: &Scene, wish: &Wish) {
    let change = serde_json::to_value(api::node_agent::change(wish)).unwrap();
    scene.api.change(|node| node["spec"]["change"] = change);
}

/// The pods of the node, as the operator lists them.
fn pods(scene: &Scene) -> Vec<Pod> {
    let pod = |pod: &sim_kubelet::Pod| Pod {
        uid: PodUid(pod.uid.clone()),
        name: format!("{}/{}", pod.namespace, pod.name),
        life: if pod.ended { PodLife::Ended } else { PodLife::Live },
        is_plugin: false,
        containers: pod
            .containers
            .iter()
            .map(|container| Container {
                name: container.name.clone(),
                asks: container.devices.iter().map(|(name, ids)| (name.clone(), ids.len() as u64)).collect(),
            })
            .collect(),
    };
    scene.kubelet.books().pods.iter().map(pod).collect()
}

/// The operator's half: it takes the plugin away, proves, permits, and opens again. Says how the change ended.
async fn operator(scene: &Scene) -> Outcome {
    // One that starts again goes on from what is written.
    let wish = match scene.api.node().spec.change {
        Some(change) => api::node_agent::wish(&change).unwrap(),
        None => wish(scene),
    };
    operate(scene, wish).await
}

/// The same, for whatever is wished.
pub(crate) async fn operate(scene: &Scene, mut wish: Wish) -> Outcome {
    write(scene, &wish);
    // The plugin's stream ends; kubelet does not write its checkpoint for that.
    scene.kubelet.update_in_memory(|books| books.healthy.clear());
    let mut changes = scene.api.changes();
    loop {
        let account = api::node_agent::account(&scene.status()).unwrap();
        if let Some(account) = account {
            let gate = account.gate_for(&wish.id);
            if let Some(Stage::Ended(outcome)) = account.stage(&wish.id) {
                let outcome = outcome.clone();
                scene.plugin_of(&scene.machine());
                if gate == Some(Gate::Open) {
                    return outcome;
                }
            } else if gate == Some(Gate::Closed)
                && wish.permit.as_ref().is_none_or(|permit| permit.report != account.report)
            {
                let list = PodList { begun_after: account.report, pods: pods(scene) };
                wish.permit = Some(prove(&wish, &account, &list).expect("nobody has what goes"));
                write(scene, &wish);
            }
        }
        changes.changed().await.unwrap();
    }
}

/// The node with the lab on one half of GPU 0, which the simulator knows too: it counts whoever takes it as a breach.
async fn scene() -> Scene {
    let scene = Scene::new().await;
    scene.gives("research", "lab", "0:3g.40gb@0");
    scene
        .store
        .update(|state| {
            let gpu = state.machine.gpu(0).unwrap();
            let slice = gpu.instances.values().find(|slice| gpu.span_of(slice).0 == 0).unwrap().id;
            state.machine.allocate(Share::Slice(0, slice), "research/lab").unwrap();
        })
        .unwrap();
    scene
}

#[track_caller]
fn ended_well(scene: &Scene, outcome: &Outcome) {
    assert_eq!(*outcome, Outcome::Done, "{}", scene.log());
    assert!(scene.machine().breaches().is_empty(), "{:?}\n{}", scene.machine().breaches(), scene.log());
    let devices = node::devices(&scene.machine());
    let of_gpu_0: Vec<_> = devices.keys().filter(|name| name.starts_with("0:")).collect();
    assert_eq!(of_gpu_0, ["0:1g.10gb@6", "0:2g.20gb@4", "0:3g.40gb@0"]);
    let lines = told(&scene.status());
    assert_eq!(lines[0], "0: 3g.40gb@0 InUse lab/main uid-of-lab/main; 2g.20gb@4 Idle; 1g.10gb@6 Idle");
    assert_eq!(devices["0:3g.40gb@0"], scene.id("0:3g.40gb@0"));
}

#[tokio::test]
async fn half_a_gpu_is_recut_beside_a_pod_that_keeps_the_other_half() {
    let mut scene = scene().await;
    scene.agent_with(&["--mode", "change"]);
    let outcome = scene.patiently(operator(&scene)).await;
    ended_well(&scene, &outcome);
    println!("{} writes, the first report included", scene.api.writes());
    assert!(scene.api.writes() <= 12, "{} writes", scene.api.writes());
}

#[tokio::test]
async fn an_agent_that_only_reports_does_not_touch_a_gpu_whatever_the_operator_wants() {
    let mut scene = scene().await;
    scene.agent();
    let mut wish = wish(&scene);
    write(&scene, &wish);
    scene.kubelet.update_in_memory(|books| books.healthy.clear());
    let status = scene.until("it reports", |status| status.agent.is_some()).await;
    let report = api::node_agent::account(&status).unwrap().unwrap().report;
    wish.permit = Some(agent::Permit { report, gone: BTreeSet::new() });
    write(&scene, &wish);
    for _ in 0..3 {
        let asked = scene.kubelet.calls().list;
        scene.kubelet.update(|_| ()).unwrap();
        scene.until_listed(asked + 1).await;
    }
    assert_eq!(node::devices(&scene.machine()), node::devices(&node::machine()));
    assert_eq!(scene.status().agent.unwrap().change, None);
}

/// The program dies amid a change: before the API server has this write, or after.
async fn dies_at(scene: &mut Scene, strike: Strike) {
    scene.agent_with(&["--mode", "change"]);
    scene.api.strike(strike);
    let operated = async {
        let operating = operator(scene);
        tokio::pin!(operating);
        tokio::select! {
            // The write may be what the operator waits for, too.
            biased;
            () = scene.api.struck() => {}
            outcome = &mut operating => panic!("{strike:?} never came: {outcome:?}"),
        }
    };
    scene.patiently(operated).await;
    scene.agent_dies().await;
}

/// At each the program dies, once before the API server has it and once after.
#[tokio::test]
async fn an_agent_that_dies_at_any_write_is_followed_by_one_that_ends_the_change() {
    for at in [Moment::Closed, Moment::Claim, Moment::Outcome, Moment::Open] {
        for done in [false, true] {
            let mut scene = scene().await;
            dies_at(&mut scene, Strike { at, done }).await;
            scene.agent_with(&["--mode", "change"]);
            let outcome = scene.patiently(operator(&scene)).await;
            ended_well(&scene, &outcome);
        }
    }
}

/// The slices that it took are missing, and its operator waits for the outcome.
#[tokio::test]
async fn an_agent_that_only_reports_ends_what_the_one_before_it_has_claimed() {
    let mut scene = scene().await;
    dies_at(&mut scene, Strike { at: Moment::Claim, done: true }).await;
    scene.agent();
    let outcome = scene.patiently(operator(&scene)).await;
    ended_well(&scene, &outcome);
    assert_eq!(scene.status().agent.unwrap().mode, api::node_agent::AgentMode::Report);
}

#[tokio::test]
async fn an_agent_that_dies_in_a_call_of_the_driver_is_followed_by_one_that_ends_the_change() {
    let calls = [
        Verb::DestroyComputeInstance,
        Verb::DestroyGpuInstance,
        Verb::CreateGpuInstance,
        Verb::CreateComputeInstance,
    ];
    for verb in calls {
        let mut scene = scene().await;
        let hang = Fault::Call { verb, gpu: Some(0), behaviour: Behaviour::Hang, times: Times::Count(1) };
        scene.store.update(|state| state.machine.begin(hang.clone())).unwrap();
        scene.agent_with(&["--mode", "change"]);
        let operated = async {
            let operating = operator(&scene);
            tokio::pin!(operating);
            let hangs = async {
                // The fault is spent when somebody hangs in it.
                while scene.store.read(|state| state.machine.armed().count()).unwrap() > 0 {
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                }
            };
            tokio::select! {
                biased;
                () = hangs => {}
                outcome = &mut operating => panic!("{verb:?} was never called: {outcome:?}"),
            }
        };
        scene.patiently(operated).await;
        scene.agent_dies().await;
        scene.agent_with(&["--mode", "change"]);
        let outcome = scene.patiently(operator(&scene)).await;
        ended_well(&scene, &outcome);
    }
}
