//! What a person reads beside a workbench in OpenShift AI's dashboard, in each release, from the click until it runs: with
//! real events of the scheduler, of Kueue and of the operator.

use controller::settings::Kueue;
use e2e::{NodeSpec, POOL, Scene, TEAM, mig, pod, policy, scenario, workbench};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};

use crate::queues::{QUEUE, one_queue};

/// Before anything is said of it.
const WAITS: &str = "Waiting for server request to start...";
/// What the scheduler says.
const RED: &str = "Insufficient resources to start";
const ASSIGNED: &str = "Pod assigned";
/// What the newer releases show of our last word.
const FREE: &str = "SliceFree";

/// Two nodes with eight GPUs each; somebody is on all GPUs of the first.
async fn nodes(scene: &mut Scene) -> anyhow::Result<()> {
    let eight_gpus =
        |name: &str| NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-7g.80gb");
    scene.nodes_are(["n1", "n2"].map(eight_gpus)).await?;
    scene.apply(pod("holds", &mig("7g.80gb"), 8)).await?;
    scene.runs("holds").await?;
    scene.apply(policy("research", "research")).await
}

#[test]
fn from_click_to_running_a_person_reads_what_each_release_makes_of_the_slice_that_is_cut() {
    scenario(async |scene| {
        nodes(scene).await?;
        scene.operator().await?;
        scene.converged("research").await?;
        let reader = scene.reader_of("lab").await?;
        scene.apply(workbench("lab", &mig("3g.40gb"), 1)).await?;
        let sentence = scene.told("Pod", "lab-0", "3g.40gb will be ready there").await?;
        scene.workbench_runs("lab").await?;
        let read = reader.until_it_runs().await?;
        let problem = "There was a problem with the workbench";
        let ours = ["There was a problem with the notebook", problem, problem, "SliceComing", "SliceComing"];
        for (mut read, ours) in read.into_iter().zip(ours) {
            // While its node is cut, the scheduler says something else each time and so begins a new series, which is read
            // until our next word. That a slice is free is read where the scheduler takes its time.
            let mut red = 0;
            read.retain(|line| {
                red += usize::from(line == RED);
                (line != RED || red == 1) && line != FREE
            });
            read.dedup();
            assert_eq!(read, [WAITS, RED, ours, ASSIGNED]);
        }
        ours_are_older_than_the_schedulers(scene).await?;
        is_said_again_once(scene, &sentence).await
    });
}

/// The dashboard shows the newest: what we say never hides that the pod has its node.
async fn ours_are_older_than_the_schedulers(scene: &Scene) -> anyhow::Result<()> {
    let told = scene.event_log("lab").await?;
    let reason = |event: &Event| event.reason.clone().unwrap_or_default();
    let at = |event: &Event| event.event_time.as_ref().map(|time| time.0);
    let assigned = told.iter().find(|event| reason(event) == "Scheduled").and_then(at);
    let ours = told.iter().filter(|event| reason(event).starts_with("Slice"));
    let ours: Vec<_> = ours.map(|event| (reason(event), at(event))).collect();
    assert!(assigned.is_some() && !ours.is_empty(), "{assigned:?} {ours:?}");
    assert!(ours.iter().all(|(_, at)| at.is_some() && *at < assigned), "{ours:?}, assigned at {assigned:?}");
    Ok(())
}

/// The notebook controller says on the Notebook what is said on the pod; the operator does not do so beside.
async fn is_said_again_once(scene: &Scene, sentence: &str) -> anyhow::Result<()> {
    let events: Api<Event> = Api::namespaced(scene.client(), TEAM);
    let of_notebook = ListParams::default().fields("involvedObject.kind=Notebook,involvedObject.name=lab");
    let wanted = [format!("Reissued from pod/lab-0: {sentence}")];
    e2e::wait::asking("the notebook controller says it again", scene.patience(), async || {
        let said = events.list(&of_notebook).await?.into_iter().filter_map(|event| event.message);
        let said: Vec<String> = said.filter(|message| message.contains(sentence)).collect();
        Ok(if said == wanted { Ok(()) } else { Err(format!("{said:?}")) })
    })
    .await
}

#[test]
fn from_click_to_running_in_a_queue_a_person_reads_of_quota_until_the_slice_is_there() {
    scenario(async |scene| {
        scene.queues().await?;
        nodes(scene).await?;
        scene.operator_with(|settings| settings.kueue = Kueue::AdmissionCheck).await?;
        one_queue(scene, &[(&mig("3g.40gb"), 4)]).await?;
        scene.converged("research").await?;
        let reader = scene.reader_of("lab").await?;
        scene.apply(workbench("lab", &mig("3g.40gb"), 1).labelled(QUEUE, "research")).await?;
        scene.workbench_runs("lab").await?;
        let read = reader.until_it_runs().await?;
        let quota = "Waiting for quota in research";
        // Once there is a slice, the words are those of the moment: ours and what Kueue repeats of them, then Kueue's that
        // it lets the pod go and the scheduler's. Kueue speaks after it has acted and in whole seconds, so its word may be
        // the older or the newer of the two.
        let notebook = ["There was a problem with the notebook"];
        let workbench = ["There was a problem with the workbench"];
        // Events and workloads come by watches of their own: our first word may be read before the quota, and Kueue's that
        // there is a workload.
        let pending = [quota, workbench[0]];
        let reasons = ["CreatedWorkload", quota, "SliceComing", "UpdatedAdmissionCheck", FREE];
        let (started, by_name) = (["Workbench container started", ASSIGNED], ["Started", ASSIGNED]);
        follows(&read[0], &[WAITS], &[&notebook, &started]);
        follows(&read[1], &[WAITS], &[&workbench, &started]);
        follows(&read[2], &[WAITS], &[&pending, &started]);
        for read in &read[3..] {
            follows(read, &[WAITS], &[&reasons, &by_name]);
        }
        ours_are_older_than_the_schedulers(scene).await?;
        assert!(read[2..].iter().all(|read| read.iter().any(|line| line == quota)), "{read:?}");
        Ok(())
    });
}

/// These lines were read first; after them only some of the others, in the order of their groups.
#[track_caller]
fn follows(read: &[String], first: &[&str], then: &[&[&str]]) {
    let (begin, rest) = read.split_at(first.len().min(read.len()));
    assert_eq!(begin, first);
    let group = |line: &String| then.iter().position(|group| group.contains(&line.as_str()));
    let groups: Option<Vec<usize>> = rest.iter().map(group).collect();
    assert!(!rest.is_empty() && groups.is_some_and(|groups| groups.is_sorted()), "{read:?}");
}
