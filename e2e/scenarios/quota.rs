//! Who holds quota, and who could use it: real Kueue, with our check on its queues.

use anyhow::{Context, ensure};
use e2e::manifests::{Manifest, of_neighbours};
use e2e::{NEIGHBOURS, Scene, mig, pod, scenario, scenario_of_kueue, wait};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::queues::{
    CHECK, QUEUE, check_says, eight_run_and_a_second_waits, kueue, research_queues, was_unschedulable,
    workloads,
};

pub(crate) use e2e::queue::job;

/// Waits until so many pods of a job run, and says on which nodes.
pub(crate) async fn job_runs(scene: &Scene, job: &str, pods: usize) -> anyhow::Result<Vec<String>> {
    let of_job = ListParams::default().labels(&format!("job-name={job}"));
    wait::asking(&format!("{pods} pods of {job} run"), wait::PATIENCE, async || {
        let found = scene.pods().list(&of_job).await?.items;
        let runs = |pod: &&Pod| pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running");
        let mut nodes: Vec<String> =
            found.iter().filter(runs).filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect();
        nodes.sort();
        Ok(if nodes.len() == pods { Ok(nodes) } else { Err(format!("{} run on {nodes:?}", nodes.len())) })
    })
    .await
}

fn is_of_job(workload: &DynamicObject, job: &str) -> bool {
    workload.metadata.owner_references.iter().flatten().any(|owner| owner.name == job)
}

/// The status of the workload that a job owns, once it is as it should be.
async fn workload_of(
    scene: &Scene,
    job: &str,
    what: &str,
    is: impl Fn(&Value) -> bool,
) -> anyhow::Result<Value> {
    let api = workloads(scene).await?;
    wait::asking(&format!("the workload of {job} {what}"), wait::PATIENCE, async || {
        let all = api.list(&ListParams::default()).await?.items;
        let owned = all.iter().find(|workload| is_of_job(workload, job));
        let status = owned.map(|workload| workload.data["status"].clone()).unwrap_or_default();
        Ok(if is(&status) { Ok(status) } else { Err(status.to_string()) })
    })
    .await
}

fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

fn holds(status: &Value, kind: &str) -> bool {
    condition(status, kind).is_some_and(|condition| condition["status"] == "True")
}

/// Nine pods want a whole GPU each, and hold all the quota; there are eight.
async fn large_holds_all_of_the_quota(scene: &mut Scene) -> anyhow::Result<()> {
    research_queues(scene, &[(&mig("7g.80gb"), 9)]).await?;
    scene.apply(job("large", &mig("7g.80gb"), 9)).await?;
    check_says(scene, "large", "Pending", "not served").await.map(drop)
}

/// Two others wait for the quota.
#[test]
fn quota_that_is_held_by_one_who_cannot_be_served_goes_to_one_who_can_and_stays_there() {
    scenario_of_kueue(false, async |scene| {
        large_holds_all_of_the_quota(scene).await?;
        // Nobody waits, so it keeps its quota.
        scene.apply(job("pair", &mig("7g.80gb"), 2)).await?;
        job_runs(scene, "pair", 2).await?;
        let told = scene.told("Job", "large", "its quota goes to").await?;
        ensure!(told.contains("which waits for it and can be served"), "{told}");
        // It was evicted after the delay, waits for quota again, and the others run on.
        let back = workload_of(scene, "large", "waits for quota again", |status| {
            holds(status, "Evicted")
                && holds(status, "Requeued")
                && condition(status, "QuotaReserved").is_some_and(|condition| condition["status"] == "False")
        })
        .await?;
        ensure!(
            condition(&back, "Evicted").context("it is evicted")?["reason"] == "AdmissionCheck",
            "{back}"
        );
        ensure!(back["admissionChecks"][0]["retryCount"] == 1, "{back}");
        ensure!(scene.running().await?.len() == 2, "nobody was disturbed");
        // With all of the quota it is as before, and nobody waits for it.
        scene.delete(job("pair", &mig("7g.80gb"), 2)).await?;
        check_says(scene, "large", "Pending", "not served").await?;
        Ok(())
    });
}

/// The same with Kueue since 0.17, which gives quota to the one who was evicted before it asks those who wait.
#[test]
fn quota_that_comes_back_to_its_holder_at_once_stays_with_it_and_people_read_what_helps() {
    scenario_of_kueue(true, async |scene| {
        large_holds_all_of_the_quota(scene).await?;
        scene.apply(job("pair", &mig("7g.80gb"), 2)).await?;
        let told = scene.told("Job", "large", "its quota goes to").await?;
        ensure!(told.contains("which waits for it and can be served"), "{told}");
        // It has its quota again, and with it what helps; or Kueue has asked the others first after all, which a slow
        // machine may bring about.
        let keeps = "Kueue has given it back once without asking them first, so this workload keeps it";
        let api = workloads(scene).await?;
        let kept = wait::asking("large has its quota again, or pair has it", wait::PATIENCE, async || {
            let all = api.list(&ListParams::default()).await?.items;
            let of = |job: &str| all.iter().find(|workload| is_of_job(workload, job));
            let (Some(large), Some(pair)) = (of("large"), of("pair")) else { return Ok(Err(String::new())) };
            let says = large.data["status"]["admissionChecks"][0]["message"].as_str().unwrap_or_default();
            if says.contains(keeps) {
                return Ok(Ok(Some(large.name_any())));
            }
            let passed = holds(&pair.data["status"], "Admitted");
            Ok(if passed { Ok(None) } else { Err(large.data["status"].to_string()) })
        })
        .await?;
        if let Some(large) = kept {
            // What helps, as it was told.
            let inactive = Patch::Merge(json!({"spec": {"active": false}}));
            api.patch(&large, &PatchParams::default(), &inactive).await?;
        }
        job_runs(scene, "pair", 2).await?;
        Ok(())
    });
}

/// Each team has quota of its own for a whole GPU, and the other team has seven of eight, and then all.
#[test]
fn two_teams_want_one_slice_and_the_second_reads_what_it_waits_for_without_the_names_of_the_first() {
    scenario(async |scene| {
        research_queues(scene, &[(&mig("7g.80gb"), 20)]).await?;
        let mut local = kueue("LocalQueue", "research", json!({"clusterQueue": "research"}));
        local["metadata"]["namespace"] = json!(NEIGHBOURS);
        scene.apply(local).await?;
        let first = (0..7).map(|n| format!("first-{n}")).collect::<Vec<_>>();
        for name in &first {
            scene.apply(theirs(name)).await?;
        }
        for name in &first {
            scene.runs(&of_neighbours(name)).await?;
        }
        // The older one gets the last.
        scene.apply(theirs("wins")).await?;
        scene.runs(&of_neighbours("wins")).await?;
        scene.apply(pod("second", &mig("7g.80gb"), 1).labelled(QUEUE, "research")).await?;
        let waits = check_says(scene, "second", "Pending", "not served").await?;
        let message = waits["message"].as_str().unwrap_or_default();
        let named = first.iter().any(|name| message.contains(name.as_str())) || message.contains("wins");
        ensure!(!named && !message.contains(NEIGHBOURS), "who holds the slices is the other team's: {waits}");
        scene.delete(theirs("wins")).await?;
        scene.runs("second").await?;
        ensure!(!was_unschedulable(scene, "second").await?, "its slice was there before it was looked for");
        Ok(())
    });
}

/// A pod of the other team, in its queue.
fn theirs(name: &str) -> Manifest {
    pod(name, &mig("7g.80gb"), 1).of_neighbours().labelled(QUEUE, "research")
}

/// No node has more than four GPUs, and six pods want one each.
#[test]
fn a_gang_that_needs_two_nodes_is_let_go_once_the_slices_of_all_its_pods_are_there() {
    scenario(async |scene| {
        research_queues(scene, &[(&mig("7g.80gb"), 6)]).await?;
        scene.apply(job("gang", &mig("7g.80gb"), 6)).await?;
        check_says(scene, "gang", "Pending", "of 6 pods are free").await?;
        let ready = check_says(scene, "gang", "Ready", "its slices are free on n1, n2").await?;
        // One selector holds for all pods of a set, so there is none.
        ensure!(ready["podSetUpdates"].as_array().is_none_or(Vec::is_empty), "{ready}");
        let nodes = job_runs(scene, "gang", 6).await?;
        ensure!(nodes.contains(&"n1".to_owned()) && nodes.contains(&"n2".to_owned()), "{nodes:?}");
        for pod in scene.pods().list(&ListParams::default().labels("job-name=gang")).await?.items {
            let name = pod.metadata.name.unwrap_or_default();
            ensure!(!was_unschedulable(scene, &name).await?, "{name}");
        }
        scene.converged("research").await
    });
}

#[test]
fn who_waits_for_a_check_that_is_taken_off_its_queue_is_admitted_and_waits_as_anybody_does() {
    scenario(async |scene| {
        eight_run_and_a_second_waits(scene).await?;
        let queue = kueue("ClusterQueue", "research", json!({}));
        scene.patch(queue, json!({"spec": {"admissionChecksStrategy": null}})).await?;
        // Kueue lets it go; the scheduler cannot place it, and it is told what it waits for.
        scene.is_unschedulable("second").await?;
        let admitted =
            workload_of(scene, "second", "is admitted", |status| holds(status, "Admitted")).await?;
        let says = admitted["admissionChecks"].as_array().cloned().unwrap_or_default();
        ensure!(says.iter().all(|check| check["name"] != CHECK), "{admitted}");
        scene.told("Pod", "second", "not served").await?;
        scene.delete(pod("first-3", &mig("7g.80gb"), 1)).await?;
        scene.runs("second").await?;
        Ok(())
    });
}
