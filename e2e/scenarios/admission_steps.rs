//! What may come between the steps of an admission: the operator dies, the workbench is stopped, somebody else
//! takes the slice, or the node is taken away. Real Kueue; nodes with eight GPUs each, and somebody on all of one.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use api::foreign::notebook::STOPPED;
use controller::settings::Kueue;
use e2e::expect::allocatable;
use e2e::manifests::Manifest;
use e2e::wire::{Death, Wire};
use e2e::{NodeSpec, POOL, Scene, TEAM, mig, pod, policy, scenario, wait, workbench};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::queues::{CHECK, QUEUE, check_says, one_queue, wait_for_gates, was_unschedulable, workloads};

const HOSTNAME: &str = "kubernetes.io/hostname";
/// By which somebody else holds a pod back that Kueue has let go.
const HOLD: &str = "team.example/hold";

/// Writes after which the cluster is another one. All others tell of it, or remember.
const ACTS: [&str; 5] = ["status of an AdmissionCheck", "status of a Workload", "GpuNode", "map", "node"];

/// A node with eight whole slices.
fn eight_gpus(name: &str) -> NodeSpec {
    NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-7g.80gb")
}

/// Nodes with eight GPUs each, and somebody on all GPUs of those that are full; and a policy. Others are idle: without
/// an agent nobody knows which of several equal slices of a node is in use.
async fn nodes_of_which(scene: &mut Scene, names: &[&str], full: &[&str]) -> anyhow::Result<()> {
    scene.nodes_are(names.iter().copied().map(eight_gpus)).await?;
    for node in full {
        takes(scene, &format!("holds-{node}"), node, ("7g.80gb", 8)).await?;
    }
    scene.apply(policy("research", "research")).await
}

/// Somebody without a queue takes so many slices of a node.
async fn takes(scene: &Scene, name: &str, node: &str, (profile, count): (&str, u32)) -> anyhow::Result<()> {
    let there = json!({HOSTNAME: node});
    scene.apply(pod(name, &mig(profile), count).with("/spec/nodeSelector", there)).await?;
    scene.runs(name).await.map(drop)
}

/// The same, with an operator, and a queue that gives quota for four `3g.40gb`.
async fn queue_over(scene: &mut Scene, names: &[&str], full: &[&str]) -> anyhow::Result<()> {
    scene.queues().await?;
    nodes_of_which(scene, names, full).await?;
    scene.operator_with(|settings| settings.kueue = Kueue::AdmissionCheck).await?;
    one_queue(scene, &[(&mig("3g.40gb"), 4)]).await
}

/// A workbench in the queue.
fn lab() -> Manifest {
    workbench("lab", &mig("3g.40gb"), 1).labelled(QUEUE, "research")
}

/// The status of the only workload.
async fn the_workload(scene: &Scene) -> anyhow::Result<Value> {
    let all = workloads(scene).await?.list(&ListParams::default()).await?.items;
    ensure!(all.len() == 1, "there are {} workloads", all.len());
    Ok(all[0].data["status"].clone())
}

/// Fails if Kueue has ever taken the only workload back.
async fn was_never_taken_back(scene: &Scene) -> anyhow::Result<()> {
    let status = the_workload(scene).await?;
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let was_evicted = conditions.iter().any(|condition| condition["type"] == "Evicted");
    ensure!(!was_evicted && status["requeueState"].is_null(), "it was sent back into its queue: {status}");
    let check =
        status["admissionChecks"].as_array().into_iter().flatten().find(|check| check["name"] == CHECK);
    ensure!(check.is_some_and(|check| check["state"] == "Ready"), "the check says something else: {status}");
    Ok(())
}

#[test]
fn an_operator_that_dies_after_each_of_its_writes_gets_a_workbench_from_its_queue_to_its_slice() {
    scenario(async |scene| {
        scene.queues().await?;
        nodes_of_which(scene, &["n1", "n2"], &["n1"]).await?;
        one_queue(scene, &[(&mig("3g.40gb"), 4)]).await?;
        scene.apply(lab()).await?;
        let mut kinds = BTreeMap::new();
        // A life that begins anew tells what it finds before it answers the queue, and does not know what the one
        // before told. One that always died right there would never answer: so after a life that only told or
        // remembered, the next one has one more write.
        let mut after = 0;
        for deaths in 0.. {
            ensure!(deaths < 200, "it does not get anywhere: {kinds:?}");
            let wire = Wire::dying_after(after);
            scene.operator_through(wire.clone(), |settings| settings.kueue = Kueue::AdmissionCheck).await?;
            let runs = async {
                scene.workbench_runs("lab").await?;
                scene.converged("research").await
            };
            let done = tokio::select! {
                () = wire.is_written() => false,
                done = runs => { done?; true }
            };
            scene.kill_operators();
            if done {
                break;
            }
            let tried = wire.tried();
            let acted = tried.keys().any(|kind| ACTS.contains(kind));
            after = if acted { 0 } else { after + 1 };
            for kind in tried.into_keys() {
                *kinds.entry(kind).or_insert(0) += 1;
            }
        }
        let wanted = [
            "status of an AdmissionCheck",
            "status of a Workload",
            "GpuNode",
            "status of a GpuNode",
            "map",
            "node",
            "event",
        ];
        for kind in wanted {
            ensure!(kinds.contains_key(kind), "it never died after a write of this kind: {kind}; {kinds:?}");
        }
        was_never_taken_back(scene).await?;
        ensure!(
            !was_unschedulable(scene, "lab-0").await?,
            "its slice was there before anybody looked for it"
        );
        // One GPU was cut, once.
        let mut cut = 0;
        for node in ["n1", "n2"] {
            let truth = scene.simulator().truth(node)?;
            cut += truth.iter().filter(|gpu| gpu.slices.len() > 1).count();
        }
        ensure!(cut == 1, "{cut} GPUs were cut for one workbench");
        // The first to live finishes what is left to be said.
        scene.operator_through(Wire::failing(&[]), |settings| settings.kueue = Kueue::AdmissionCheck).await?;
        scene.converged("research").await
    });
}

#[test]
fn a_workbench_that_is_stopped_while_its_queue_holds_it_gets_no_slice_and_starts_later_like_any_other() {
    scenario(async |scene| {
        queue_over(scene, &["n1", "n2"], &["n1", "n2"]).await?;
        scene.apply(lab()).await?;
        check_says(scene, "lab", "Pending", "not served").await?;
        scene.patch(lab(), json!({"metadata": {"annotations": {STOPPED: "2026-11-26T10:00:00Z"}}})).await?;
        scene.is_gone("lab-0").await?;
        let api = workloads(scene).await?;
        // Kueue 0.16 takes its workload away; 0.19 keeps it, without quota.
        wait::asking("its workload is gone or on hold", scene.patience(), async || {
            let left = api.list(&ListParams::default()).await?.items;
            let statuses: Vec<&Value> = left.iter().map(|workload| &workload.data["status"]).collect();
            Ok(if statuses.iter().all(is_on_hold) { Ok(()) } else { Err(json!(statuses).to_string()) })
        })
        .await?;
        scene
            .policy("research", "has nobody who waits", |object| {
                let unserved = object.status.as_ref()?.unserved.as_ref();
                unserved.is_none_or(|unserved| unserved.total == 0).then_some(())
            })
            .await?;
        // There is room now, and nobody who wants it.
        scene.delete(pod("holds-n2", &mig("7g.80gb"), 8)).await?;
        scene.is_gone("holds-n2").await?;
        scene.is_quiet().await?;
        scene.converged("research").await?;
        scene.offers("n2", &[("7g.80gb", 8)]).await?;
        scene.patch(lab(), json!({"metadata": {"annotations": {STOPPED: null}}})).await?;
        check_says(scene, "lab", "Ready", "its slices are free on n2").await?;
        assert_eq!(scene.workbench_runs("lab").await?, "n2");
        ensure!(
            !was_unschedulable(scene, "lab-0").await?,
            "its slice was there before anybody looked for it"
        );
        Ok(())
    });
}

/// Whether Kueue says of a workload that it has no quota, since it is stopped.
fn is_on_hold(status: &&Value) -> bool {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut quota = conditions.filter(|condition| condition["type"] == "QuotaReserved");
    quota.any(|condition| condition["status"] == "False" && condition["reason"] == "OnHold")
}

/// A workbench that Kueue has let go, and that somebody else holds back; says for which node.
async fn held_back(scene: &Scene) -> anyhow::Result<String> {
    scene.apply(lab().with("/spec/template/spec/schedulingGates", json!([{"name": HOLD}]))).await?;
    let ready = check_says(scene, "lab", "Ready", "its slices are free on").await?;
    wait_for_gates(scene, "lab-0", &[HOLD]).await?;
    node_of(&ready)
}

/// The node to which the pods of a workload are kept.
fn node_of(ready: &Value) -> anyhow::Result<String> {
    let node = ready["podSetUpdates"][0]["nodeSelector"][HOSTNAME].as_str();
    Ok(node.with_context(|| format!("it is kept to no node: {ready}"))?.to_owned())
}

/// Somebody without a queue takes every `3g.40gb` of a node; says how many.
async fn all_are_taken(scene: &Scene, node: &str) -> anyhow::Result<i64> {
    let there = allocatable(&scene.nodes().get(node).await?, &mig("3g.40gb"));
    ensure!(there > 0, "{node} offers none");
    takes(scene, "thief", node, ("3g.40gb", u32::try_from(there)?)).await?;
    Ok(there)
}

async fn let_go(scene: &Scene) -> anyhow::Result<()> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lab-0", "namespace": TEAM}});
    scene.patch(pod, json!({"spec": {"schedulingGates": []}})).await
}

#[test]
fn a_slice_that_somebody_takes_before_the_pod_has_it_is_cut_again_on_the_same_node() {
    scenario(async |scene| {
        queue_over(scene, &["n1", "n2", "n3"], &["n3"]).await?;
        let node = held_back(scene).await?;
        let taken = all_are_taken(scene, &node).await?;
        scene
            .node(&node, "has another slice", |object| {
                (allocatable(object, &mig("3g.40gb")) > taken).then_some(())
            })
            .await?;
        scene.converged("research").await?;
        was_never_taken_back(scene).await?;
        let_go(scene).await?;
        assert_eq!(scene.workbench_runs("lab").await?, node);
        assert_eq!(scene.runs("thief").await?, node, "who took the slice keeps it");
        was_never_taken_back(scene).await
    });
}

#[test]
fn a_slice_that_is_taken_where_no_other_fits_sends_the_workload_back_and_to_the_other_node() {
    scenario(async |scene| {
        queue_over(scene, &["n1", "n2", "n3"], &["n3"]).await?;
        let first = held_back(scene).await?;
        // No other GPU of it is left.
        takes(scene, "others", &first, ("7g.80gb", 7)).await?;
        all_are_taken(scene, &first).await?;
        let other = if first == "n1" { "n2" } else { "n1" };
        // Kueue gives it its quota anew after half a minute.
        check_says(scene, "lab", "Ready", &format!("its slices are free on {other}")).await?;
        wait_for_gates(scene, "lab-0", &[HOLD]).await?;
        let_go(scene).await?;
        assert_eq!(scene.workbench_runs("lab").await?, other);
        ensure!(
            !was_unschedulable(scene, "lab-0").await?,
            "its slice was there before anybody looked for it"
        );
        assert_eq!(scene.runs("thief").await?, first, "who took the slice keeps it");
        Ok(())
    });
}

#[test]
fn a_node_that_others_cordon_under_a_workbench_takes_nothing_from_its_workload() {
    scenario(async |scene| {
        queue_over(scene, &["n1", "n2", "n3"], &["n3"]).await?;
        scene.apply(lab()).await?;
        let node = scene.workbench_runs("lab").await?;
        let uid = scene.pods().get("lab-0").await?.uid();
        scene.is_quiet().await?;
        let before = the_workload(scene).await?["admissionChecks"].clone();
        scene.patch_node(&node, json!({"spec": {"unschedulable": true}})).await?;
        // Whoever comes next gets the other node, and by then the operator has seen the first one cordoned.
        let next = workbench("next", &mig("3g.40gb"), 1).labelled(QUEUE, "research");
        scene.apply(next.clone()).await?;
        // A node that others cordon is unavailable, and the policy lets one be.
        let one = format!("at most 1 of the policy's nodes may be unavailable, and 1 are: {node}");
        check_says(scene, "next", "Pending", &one).await?;
        scene.apply(policy("research", "research").at_a_time(2)).await?;
        let other = scene.workbench_runs("next").await?;
        ensure!(other != node, "{other} is cordoned by others");
        scene.is_quiet().await?;
        scene.delete(next).await?;
        wait::asking("only the first workload is left", scene.patience(), async || {
            Ok(the_workload(scene).await.map(drop).map_err(|error| error.to_string()))
        })
        .await?;
        assert_eq!(the_workload(scene).await?["admissionChecks"], before, "nothing more is said of who runs");
        was_never_taken_back(scene).await?;
        assert_eq!(scene.pods().get("lab-0").await?.uid(), uid, "it is the same pod");
        assert_eq!(scene.workbench_runs("lab").await?, node);
        scene.patch_node(&node, json!({"spec": {"unschedulable": null}})).await?;
        scene.converged("research").await
    });
}

/// Its pod is ended by force, as an administrator does with those of a machine that is gone. Kueue keeps the next one
/// to the same node.
#[test]
fn a_node_that_is_lost_under_a_workbench_gives_its_next_pod_back_to_the_queue_and_to_the_other_node() {
    scenario(async |scene| {
        queue_over(scene, &["n1", "n2", "n3"], &["n3"]).await?;
        scene.apply(lab()).await?;
        let first = scene.workbench_runs("lab").await?;
        let other = if first == "n1" { "n2" } else { "n1" };
        scene.simulator().delete_node(&first).await?;
        let by_force = DeleteParams::default().grace_period(0);
        scene.pods().delete("lab-0", &by_force).await?;
        // Kueue gives it its quota anew after half a minute.
        check_says(scene, "lab", "Ready", &format!("its slices are free on {other}")).await?;
        assert_eq!(scene.workbench_runs("lab").await?, other);
        scene.converged("research").await?;
        // Between its pods the workbench had none, and no quota: nothing was begun for it then.
        let story = scene.story_of("Node", other).await?;
        ensure!(!story.contains("RepartitionTakenBack"), "a change was begun too early: {story}");
        Ok(())
    });
}

/// How often the operator sent a workload back, as the API server heard it: also where the operator did not hear the
/// answer.
fn retries(scene: &Scene, workload: &str) -> anyhow::Result<usize> {
    let sends_back = |write: &e2e::audit::Request| {
        let checks =
            write.request_object.as_ref().and_then(|body| body["status"]["admissionChecks"].as_array());
        checks.is_some_and(|checks| checks.iter().any(|check| check["state"] == "Retry"))
    };
    let writes = scene.audit()?.writes()?;
    let of_it = writes.iter().filter(|write| {
        write.object_ref.resource == "workloads"
            && write.object_ref.name.contains(workload)
            && write.response_status.code < 300
    });
    Ok(of_it.filter(|write| sends_back(write)).count())
}

/// How often Kueue has taken the workload of a workbench back for the sake of a check.
async fn times_evicted(scene: &Scene, lab: &str) -> anyhow::Result<i64> {
    let all = workloads(scene).await?.list(&ListParams::default()).await?.items;
    let of_it = all.iter().find(|workload| workload.name_any().contains(lab));
    let status = &of_it.with_context(|| format!("{lab} has no workload"))?.data["status"];
    let evictions = status["schedulingStats"]["evictions"].as_array().into_iter().flatten();
    Ok(evictions.filter_map(|eviction| eviction["count"].as_i64()).sum())
}

/// Two workbenches have a node: one runs, and the pod of the other, which Kueue has let go, is still held back by
/// somebody else. That node is taken away by others, and the operator dies when it sends the second one back.
async fn dies_at_a_retry(scene: &mut Scene, death: Death) -> anyhow::Result<()> {
    queue_over(scene, &["n1", "n2", "n3"], &["n3"]).await?;
    scene.apply(policy("research", "research").at_a_time(2)).await?;
    let runs = workbench("runs", &mig("3g.40gb"), 1).labelled(QUEUE, "research");
    scene.apply(runs).await?;
    let first = scene.workbench_runs("runs").await?;
    let uid = scene.pods().get("runs-0").await?.uid();
    ensure!(held_back(scene).await? == first, "the second slice of the same GPU is free");
    scene.is_quiet().await?;
    scene.kill_operators();

    scene.patch_node(&first, json!({"spec": {"unschedulable": true}})).await?;
    scene.stays_cordoned(&first);
    let wire = Wire::dying_at("status of a Workload", death);
    scene.operator_through(wire.clone(), |settings| settings.kueue = Kueue::AdmissionCheck).await?;
    wait::asking("the operator is about to send it back", scene.patience(), async || {
        Ok(if wire.tried().contains_key("status of a Workload") {
            Ok(())
        } else {
            Err(format!("{:?}", wire.tried()))
        })
    })
    .await?;
    wire.is_written().await;
    scene.kill_operators();
    let done = usize::from(death == Death::After);
    // Its log is written after its answer.
    wait::asking(&format!("the API server has heard it {done} times"), scene.patience(), async || {
        let heard = retries(scene, "lab")?;
        Ok(if heard == done { Ok(()) } else { Err(format!("{heard} times")) })
    })
    .await?;

    // The next one finds whichever it was.
    scene.operator_through(Wire::default(), |settings| settings.kueue = Kueue::AdmissionCheck).await?;
    let other = if first == "n1" { "n2" } else { "n1" };
    check_says(scene, "lab", "Ready", &format!("its slices are free on {other}")).await?;
    wait_for_gates(scene, "lab-0", &[HOLD]).await?;
    let_go(scene).await?;
    assert_eq!(scene.workbench_runs("lab").await?, other);
    ensure!(!was_unschedulable(scene, "lab-0").await?, "its slice was there before anybody looked for it");
    scene.is_quiet().await?;
    assert_eq!(retries(scene, "lab")?, 1, "it is sent back once");
    assert_eq!(times_evicted(scene, "lab").await?, 1, "and Kueue took it back once");
    // Who runs there keeps what it has.
    assert_eq!(retries(scene, "runs")?, 0);
    assert_eq!(times_evicted(scene, "runs").await?, 0);
    assert_eq!(scene.pods().get("runs-0").await?.uid(), uid, "it is the same pod");
    Ok(())
}

#[test]
fn an_operator_that_dies_before_it_has_sent_a_workload_back_is_followed_by_one_that_does_so_once() {
    scenario(async |scene| dies_at_a_retry(scene, Death::Before).await);
}

#[test]
fn an_operator_that_dies_when_it_has_sent_a_workload_back_is_followed_by_one_that_does_not_do_so_again() {
    scenario(async |scene| dies_at_a_retry(scene, Death::After).await);
}
