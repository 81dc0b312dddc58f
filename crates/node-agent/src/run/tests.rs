//! What the loop does with the answers of others.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, patch};
use serde_json::json;

use agent::{ChangeId, GpuChange, Place, Stage};

use super::*;
use crate::driver::{Driver, Library};
use crate::kubelet::Kubelet;
use crate::look::Eyes;

#[test]
fn a_write_that_met_the_operators_is_tried_again_at_once_while_pods_wait_and_only_once() {
    assert_eq!(after_outdated(1, true), Until::Now);
    assert_eq!(after_outdated(2, true), Until::Something(SOON));
    assert_eq!(after_outdated(1, false), Until::Something(SOON));
}

/// An API server at which the operator was faster, but for the write with this number.
fn contested(free: usize) -> Client {
    const OBJECT: &str = "/apis/slicewright.io/v1alpha1/gpunodes/gpu-7";
    let node = json!({
        "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode",
        "metadata": {"name": "gpu-7", "uid": "object-1", "resourceVersion": "8"},
        "spec": {"policy": "research"},
    });
    let refused = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict",
        "message": "the object has been modified; please apply your changes to the latest version",
    });
    let (node, refused, writes) = (node.to_string(), refused.to_string(), AtomicUsize::new(0));
    let read = node.clone();
    let writes = Arc::new(writes);
    let write = async move || {
        let is_free = writes.fetch_add(1, Ordering::Relaxed) == free;
        if is_free { (StatusCode::OK, node.clone()) } else { (StatusCode::CONFLICT, refused.clone()) }
    };
    let router = Router::new()
        .route(OBJECT, get(async move || read.clone()))
        .route(&format!("{OBJECT}/status"), patch(write));
    Client::new(router, "default")
}

fn agent(client: Client, folder: &std::path::Path) -> Agent {
    let (soon, long) = (Duration::from_secs(5), Duration::from_secs(60));
    let settings = Settings {
        node: "gpu-7".to_owned(),
        pod: PodUid("agent-1".to_owned()),
        boot: BootId("boot-1".to_owned()),
        mode: AgentMode::Change,
        eyes: Eyes {
            kubelet: Kubelet { socket: folder.join("kubelet.sock"), patience: soon },
            checkpoint: folder.join("kubelet_internal_checkpoint"),
            driver: Driver::new(Library::Below(folder.to_owned()), soon),
        },
        settle: soon,
        every: long,
        call_timeout: soon,
        health_address: None,
        stuck_after: long,
    };
    Agent::new(client, settings, Arc::new(Health::new(long))).expect("the folder is there")
}

/// Two in a row meet the operator's; the third is done, so that the next one is the first again.
#[tokio::test]
async fn the_agent_leaves_kubelet_alone_after_the_second_write_in_a_row_that_met_the_operators() {
    let folder = tempfile::tempdir().expect("there is room");
    let mut agent = agent(contested(2), folder.path());
    let account = Account {
        report: ReportNumber(7),
        agent: PodUid("agent-1".to_owned()),
        boot: BootId("boot-1".to_owned()),
        gate: None,
        known: Known::default(),
        change: None,
    };
    let version = agent::ObjectVersion("7".to_owned());
    let mut next = Vec::new();
    for _ in 0..5 {
        next.push(agent.write(account.clone(), Writes::Report, &version, None, true).await);
    }
    let later = Until::Something(SOON);
    assert_eq!(next, [Until::Now, later, Until::Now, Until::Now, later]);
    // Nobody waits for a report.
    assert_eq!(agent.write(account, Writes::Report, &version, None, false).await, later);
}

/// What an agent of this boot told, with this GPU and this stage of a change.
fn told(gpus: &serde_json::Value, stage: &serde_json::Value) -> GpuNode {
    let node = json!({
        "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode",
        "metadata": {"name": "gpu-7", "uid": "object-1", "resourceVersion": "7"},
        "spec": {"policy": "research"},
        "status": {
            "observed": {"by": "Agent", "at": "2026-11-24T00:00:00Z", "bootId": "boot-1", "gpus": gpus},
            "agent": {
                "podUid": "agent-1", "bootId": "boot-1", "version": "1.2.3", "mode": "Change", "report": 7,
                "at": "2026-11-24T00:00:00Z", "change": {"id": "change-1", "bootId": "boot-1", "stage": stage},
            },
        },
    });
    serde_json::from_value(node).expect("it has every field")
}

#[test]
fn what_is_claimed_is_not_forgotten_though_what_was_seen_cannot_be_read() {
    let readable =
        json!([{"index": 0, "model": "A100-80GB", "uuid": "GPU-0", "migEnabled": true, "slices": []}]);
    let unreadable = json!([{"index": 0, "model": "A100-80GB", "migEnabled": true, "slices": []}]);
    for gpus in [readable, unreadable] {
        let account = account(&told(&gpus, &json!("Claimed"))).expect("an agent wrote it");
        assert_eq!(account.report, ReportNumber(7));
        assert_eq!(account.stage(&ChangeId("change-1".to_owned())), Some(&Stage::Claimed), "{gpus}");
    }
    // A change that turns back has a reason, and this one has none.
    let account = account(&told(
        &json!([{"index": 0, "model": "A100-80GB", "migEnabled": true, "slices": []}]),
        &json!("Restoring"),
    ));
    assert_eq!(account.expect("an agent wrote it").change, None);
}

/// The GPUs behind it have other indices since, and it has no card any more.
#[tokio::test]
async fn a_claim_keeps_what_was_told_of_a_gpu_that_is_there_no_more() {
    let folder = tempfile::tempdir().expect("there is room");
    let mut agent = agent(contested(0), folder.path());
    let gone =
        json!([{"index": 0, "model": "A100-80GB", "uuid": "GPU-0", "migEnabled": false, "slices": []}]);
    let node = told(&gone, &json!("Claimed"));
    let account = account(&node).expect("an agent wrote it");
    assert!(agent.object.offer(node));
    let version = agent::ObjectVersion("7".to_owned());
    assert!(agent.cards.is_empty());
    assert_eq!(agent.write(account, Writes::Claim, &version, None, true).await, Until::Now);
}

/// Kubelet replaces its checkpoint amid an allocation, when `List` can make it give one device twice. The time is that of
/// the runtime, which goes on to the next moment that somebody waits for.
#[tokio::test(start_paused = true)]
async fn kubelet_is_left_alone_until_its_checkpoint_has_rested_and_not_for_ever() {
    let folder = tempfile::tempdir().expect("there is room");
    let mut agent = agent(contested(0), folder.path());
    agent.objects = futures::stream::pending().boxed();
    agent.changes.ensure().expect("the folder is there");
    let (settle, checkpoint) = (agent.settings.settle, agent.settings.eyes.checkpoint.clone());
    assert_eq!(settle, Duration::from_secs(5));
    let writes = async |at: &[u64]| {
        let begun = Instant::now();
        for second in at {
            tokio::time::sleep_until(begun + Duration::from_secs(*second)).await;
            let new = checkpoint.with_extension("new");
            std::fs::write(&new, "x").expect("there is room");
            std::fs::rename(&new, &checkpoint).expect("there is room");
            // The kernel's news is read before the time goes on.
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
        }
    };
    let burst: Vec<u64> = (0..40).step_by(2).collect();
    for (at, longest, looks_at) in [
        // Nobody writes it: a minute.
        (&[][..], 60, 60),
        // Once: settle after that; not at once, and not in a minute.
        (&[7][..], 60, 12),
        // Again before it has rested: from then on anew.
        (&[7, 10, 14][..], 60, 19),
        // A burst: five times settle after its beginning.
        (&burst[..], 60, 25),
        // What was to be looked at earlier is.
        (&[1, 2][..], 4, 4),
    ] {
        let begun = Instant::now();
        let looks = async {
            agent.wait(Until::Something(Duration::from_secs(longest))).await;
            (begun.elapsed() + Duration::from_millis(500)).as_secs()
        };
        let (looked_at, ()) = tokio::join!(looks, writes(at));
        assert_eq!(looked_at, looks_at, "written at {at:?}");
        // What came after that look is for the next one.
        while tokio::time::timeout(Duration::ZERO, agent.changes.next()).await.is_ok() {}
    }
}

/// What the operator writes meanwhile is looked at then as well, but for a change: behind its closed gate kubelet
/// allocates nothing.
#[tokio::test(start_paused = true)]
async fn what_the_operator_writes_amid_an_allocation_waits_until_the_checkpoint_has_rested_unless_it_is_a_change()
 {
    let folder = tempfile::tempdir().expect("there is room");
    let change = json!({"id": "change-1", "gpus": []});
    for (spec, looks_at) in [(json!({"policy": "other"}), 12), (json!({"change": change}), 9)] {
        let mut agent = agent(contested(0), folder.path());
        agent.changes.ensure().expect("the folder is there");
        let begun = Instant::now();
        let node = json!({
            "metadata": {"name": "gpu-7", "uid": "another", "resourceVersion": "9"}, "spec": spec,
        });
        let node = serde_json::from_value(node).expect("it has every field");
        let written = async move {
            tokio::time::sleep_until(begun + Duration::from_secs(9)).await;
            Ok(Event::Apply(node))
        };
        agent.objects = futures::stream::once(written).chain(futures::stream::pending()).boxed();
        let checkpoint = agent.settings.eyes.checkpoint.clone();
        let allocation = async {
            tokio::time::sleep_until(begun + Duration::from_secs(7)).await;
            std::fs::write(&checkpoint, "x").expect("there is room");
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
        };
        let looks = async {
            agent.wait(Until::Something(Duration::from_secs(60))).await;
            (begun.elapsed() + Duration::from_millis(500)).as_secs()
        };
        let (looked_at, ()) = tokio::join!(looks, allocation);
        assert_eq!(looked_at, looks_at, "{spec}");
    }
}

#[tokio::test]
async fn what_a_change_waits_for_is_looked_for_less_often_with_time() {
    let folder = tempfile::tempdir().expect("there is room");
    let mut agent = agent(contested(0), folder.path());
    let silent = json!([{
        "index": 0, "model": "A100-80GB", "uuid": "GPU-0", "migEnabled": false, "driverError": "it hangs", "slices": [],
    }]);
    let account = account(&told(&silent, &json!("Claimed"))).expect("an agent wrote it");
    agent.remembered.wrote(&account);
    let places = |text: &str| [Place { profile: text.parse().expect("a profile"), start: 0 }].into();
    let gpu = agent::GpuUuid("GPU-0".to_owned());
    let change = GpuChange { gpu, before: places("7g.80gb"), after: places("3g.40gb") };
    let seen = |turn, is| agent::Seen { turn: agent::Turn(turn), is };
    let observation = Observation {
        me: PodUid("agent-1".to_owned()),
        boot: BootId("boot-1".to_owned()),
        version: agent::ObjectVersion("7".to_owned()),
        wish: Some(Wish { id: ChangeId("change-1".to_owned()), permit: None, gpus: vec![change] }),
        look: agent::Look {
            gate: agent::Seen { turn: agent::Turn(1), is: Gate::Ajar },
            books: agent::Seen { turn: agent::Turn(2), is: agent::Books::default() },
            layout: seen(3, account.known.layout.clone()),
        },
        account: Some(account),
    };
    let mut pauses = Vec::new();
    for _ in 0..20 {
        pauses.push(agent.step(observation.clone(), None).await);
    }
    let seconds = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 16, 30, 30, 30, 30, 30, 30];
    assert_eq!(pauses, seconds.map(|seconds| Until::Something(Duration::from_secs(seconds))));
    // Something else is to be done: from then on it is as at first.
    agent.step(Observation { wish: None, account: None, ..observation }, None).await;
    assert_eq!(agent.waited, 0);
}
