//! Workbenches and jobs that wait in Kueue's queues: real Kueue reserves quota, and our admission check
//! reports when the slices exist.

use anyhow::Context;
use controller::settings::Kueue;
use e2e::{Fleet, NodeSpec, POOL, Scene, TEAM, mig, objects, pod, policy, scenario, wait, workbench};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use crate::snapshot::Recorder;

pub(crate) use e2e::queue::{CHECK, CONTROLLER, QUEUE, kueue, one_queue, one_queue_for, workloads};

/// Nodes with four GPUs, seven small slices on each.
fn four_gpus(name: &str) -> NodeSpec {
    NodeSpec::new(name, 4, "A100-80GB").label(POOL, "research").layout("all-1g.10gb")
}

/// Kueue with one queue, `research`, that gives so much of each resource and
/// asks our check; an operator that answers it; and a policy over two nodes
/// with four GPUs each.
pub(crate) async fn research_queues(scene: &mut Scene, quota: &[(&str, u32)]) -> anyhow::Result<()> {
    scene.queues().await?;
    scene.world(Fleet { nodes: vec![four_gpus("n1"), four_gpus("n2")], ..Fleet::default() }).await?;
    scene.operator_with(|settings| settings.kueue = Kueue::AdmissionCheck).await?;
    scene.apply(policy("research", "research").at_a_time(2)).await?;
    one_queue(scene, quota).await
}

/// Waits until our check says so of the workload that this object owns, and
/// returns its entry.
pub(crate) async fn check_says(scene: &Scene, owner: &str, state: &str, part: &str) -> anyhow::Result<Value> {
    Ok(status_when_check_says(scene, owner, state, part).await?.0)
}

/// The same, with the status of the workload at that moment.
async fn status_when_check_says(
    scene: &Scene,
    owner: &str,
    state: &str,
    part: &str,
) -> anyhow::Result<(Value, Value)> {
    let what = format!("the check says {state} of {owner}: {part}");
    let api = workloads(scene).await?;
    wait::asking(&what, wait::PATIENCE, async || {
        let seen = api.list(&ListParams::default()).await?.items;
        let owned = seen.iter().find(|workload| {
            let names = [owner.to_owned(), format!("{owner}-0")];
            workload.metadata.owner_references.iter().flatten().any(|of| names.contains(&of.name))
        });
        let Some(workload) = owned else { return Ok(Err(format!("{owner} has no workload"))) };
        let checks = workload.data["status"]["admissionChecks"].as_array().cloned().unwrap_or_default();
        let entry = checks.into_iter().find(|check| check["name"] == CHECK);
        let says = |entry: &Value| {
            entry["state"] == state && entry["message"].as_str().is_some_and(|text| text.contains(part))
        };
        let status = &workload.data["status"];
        Ok(entry.filter(says).map(|entry| (entry, status.clone())).ok_or_else(|| status.to_string()))
    })
    .await
}

/// What OpenShift AI's dashboard makes its status line of while a check is
/// pending: without `Admitted` it reads "Waiting for quota in QUEUE", although
/// the quota is there (docs/adr/0014).
fn reads_waiting_for_quota(status: &Value) {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let holds = |kind: &str| conditions.iter().any(|c| c["type"] == kind && c["status"] == "True");
    assert!(holds("QuotaReserved"), "our check speaks once there is quota: {conditions:?}");
    for other in ["Admitted", "PodsReady", "Evicted", "Preempted", "Finished"] {
        assert!(!holds(other), "{other} would be another line: {conditions:?}");
    }
}

/// Waits until Kueue has deactivated a workload whose name begins so, with what our check said of it. It
/// resets the check at once, so the entry itself is there for a moment only; the event quotes it.
async fn was_rejected(scene: &Scene, workload: &str, part: &str) -> anyhow::Result<()> {
    let events: Api<k8s_openapi::api::core::v1::Event> = Api::namespaced(scene.client(), TEAM);
    let rejected = ListParams::default().fields("involvedObject.kind=Workload,reason=AdmissionCheckRejected");
    wait::asking(&format!("{workload}… is rejected: {part}"), wait::PATIENCE, async || {
        let notes: Vec<_> = events
            .list(&rejected)
            .await?
            .into_iter()
            .map(|event| (event.involved_object.name.unwrap_or_default(), event.message.unwrap_or_default()))
            .collect();
        let is_it = |(name, note): &(String, String)| {
            name.starts_with(workload) && note.contains(CHECK) && note.contains(part)
        };
        Ok(if notes.iter().any(is_it) { Ok(()) } else { Err(format!("{notes:?}")) })
    })
    .await
}

/// Whether the scheduler ever said that it cannot place this pod.
pub(crate) async fn was_unschedulable(scene: &Scene, name: &str) -> anyhow::Result<bool> {
    let events: Api<k8s_openapi::api::core::v1::Event> = Api::namespaced(scene.client(), TEAM);
    let of_pod = ListParams::default().fields(&format!("involvedObject.kind=Pod,involvedObject.name={name}"));
    Ok(events.list(&of_pod).await?.iter().any(|event| event.reason.as_deref() == Some("FailedScheduling")))
}

async fn the_pod(scene: &Scene, name: &str) -> anyhow::Result<Pod> {
    Ok(scene.pods().get(name).await?)
}

/// The objects of the guide, in its order.
pub(crate) fn guide() -> anyhow::Result<Vec<Value>> {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guides/queues.md"))?;
    let mut objects = Vec::new();
    // What stands before is an excerpt of a policy.
    let (_, section) =
        page.split_once("## The objects\n").context("the guide has no section with objects")?;
    for block in section.split("```yaml\n").skip(1) {
        objects.extend(objects::documents(block.split("```").next().unwrap_or_default())?);
    }
    Ok(objects)
}

#[test]
fn the_workbench_of_the_guide_starts_once_its_slice_is_there_and_was_never_unschedulable() {
    scenario(async |scene| {
        scene.queues().await?;
        scene.world(Fleet { nodes: vec![four_gpus("n1"), four_gpus("n2")], ..Fleet::default() }).await?;
        scene.operator_with(|settings| settings.kueue = Kueue::AdmissionCheck).await?;
        scene.apply(policy("research", "research")).await?;
        scene.converged("research").await?;
        for object in guide()? {
            scene.apply(object).await?;
        }
        let (_, status) = status_when_check_says(scene, "lab", "Pending", "3g.40gb").await?;
        reads_waiting_for_quota(&status);
        let ready = check_says(scene, "lab", "Ready", "its slices are free on").await?;
        let node = scene.workbench_runs("lab").await?;
        let log = scene.event_log("lab").await?;
        for reason in ["SliceComing", "UpdatedAdmissionCheck", "Scheduled"] {
            let event = log.iter().find(|event| event.reason.as_deref() == Some(reason));
            let event = event.with_context(|| format!("{reason} is not in the log"))?;
            // As a warning no release would show its reason.
            assert_eq!(event.type_.as_deref(), Some("Normal"), "{reason}");
        }
        assert_eq!(ready["podSetUpdates"][0]["nodeSelector"], json!({"kubernetes.io/hostname": node}));
        let spec = the_pod(scene, "lab-0").await?.spec.unwrap_or_default();
        assert_eq!(spec.node_selector.unwrap_or_default().get("kubernetes.io/hostname"), Some(&node));
        assert!(
            !was_unschedulable(scene, "lab-0").await?,
            "its slice was there before anybody looked for it"
        );
        scene.converged("research").await
    });
}

#[test]
fn what_asks_for_no_slices_passes_at_once_and_what_no_layout_can_serve_is_rejected() {
    scenario(async |scene| {
        research_queues(scene, &[("nvidia.com/mig-3g.41gb", 4)]).await?;
        let plain = pod("plain", "cpu", 1).labelled(QUEUE, "research");
        scene.apply(plain).await?;
        scene.runs("plain").await?;
        scene.apply(pod("typo", "nvidia.com/mig-3g.41gb", 1).labelled(QUEUE, "research")).await?;
        was_rejected(scene, "pod-typo-", "nvidia.com/mig-3g.41gb").await
    });
}

/// The queue that OpenShift AI makes, as it counts the GPUs of whole nodes.
fn queue_of_openshift_ai() -> [Value; 4] {
    let group = |flavor: &str, quotas: &[(&str, &str)]| {
        let quota = |(name, n): &(&str, &str)| json!({"name": name, "nominalQuota": n});
        json!({"coveredResources": quotas.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
            "flavors": [{"name": flavor, "resources": quotas.iter().map(quota).collect::<Vec<_>>()}]})
    };
    let groups = json!([
        group("default-flavor", &[("cpu", "100"), ("memory", "500Gi")]),
        group("nvidia-gpu-flavor", &[("nvidia.com/gpu", "8")]),
    ]);
    let mut local = kueue("LocalQueue", "default", json!({"clusterQueue": "default"}));
    local["metadata"]["namespace"] = json!(TEAM);
    [
        kueue("ResourceFlavor", "default-flavor", json!({})),
        kueue("ResourceFlavor", "nvidia-gpu-flavor", json!({})),
        kueue("ClusterQueue", "default", json!({"namespaceSelector": {}, "resourceGroups": groups})),
        local,
    ]
}

#[test]
fn who_waits_in_the_queue_that_openshift_ai_makes_is_explained_to_whoever_may_only_read() {
    scenario(async |scene| {
        scene.queues().await?;
        scene.world(Fleet { nodes: vec![four_gpus("n1"), four_gpus("n2")], ..Fleet::default() }).await?;
        scene.operator_with(|settings| settings.kueue = Kueue::Report).await?;
        scene.apply(policy("research", "research")).await?;
        for object in queue_of_openshift_ai() {
            scene.apply(object).await?;
        }
        scene.apply(workbench("lab", &mig("3g.40gb"), 1).labelled(QUEUE, "default")).await?;
        let recorder = Recorder::new(scene).await?;
        wait::asking("the queue says who waits in it and why", wait::PATIENCE, async || {
            let said = recorder.explains("queue", "default").await?;
            let drift = |what: &str, resource: &str| {
                let mut all = said["drift"].as_array().into_iter().flatten();
                all.any(|drift| drift["what"] == what && drift["resource"] == resource)
            };
            let waits = said["waiting"][0]["why"].as_str().unwrap_or_default();
            let is_told = drift("not_covered", &mig("3g.40gb"))
                && drift("more_than_any_layout", "nvidia.com/gpu")
                && waits.contains("Kueue says:")
                && waits.contains(&mig("3g.40gb"));
            Ok(if is_told { Ok(()) } else { Err(said.to_string()) })
        })
        .await?;
        let of_team = recorder.explains("queue", &format!("{TEAM}/default")).await?;
        assert_eq!(of_team["waitingTotal"], 1, "{of_team}");
        let line = "slicewright_queue_quota_drift{queue=\"default\",flavor=\"\",profile=\"3g.40gb\",kind=\"not_covered\"} 1";
        wait::asking("the operator counts it", wait::PATIENCE, async || {
            let metrics = scene.operators().first().context("it was started")?.metrics().await?;
            Ok(if metrics.contains(line) { Ok(()) } else { Err(metrics) })
        })
        .await
    });
}

/// All eight GPUs have a pod, and another that its queue would let go waits for our check.
pub(crate) async fn eight_run_and_a_second_waits(scene: &mut Scene) -> anyhow::Result<()> {
    research_queues(scene, &[(&mig("7g.80gb"), 20)]).await?;
    for n in 0..8 {
        scene.apply(pod(&format!("first-{n}"), &mig("7g.80gb"), 1).labelled(QUEUE, "research")).await?;
    }
    for n in 0..8 {
        scene.runs(&format!("first-{n}")).await?;
    }
    scene.apply(pod("second", &mig("7g.80gb"), 1).labelled(QUEUE, "research")).await?;
    check_says(scene, "second", "Pending", "not served").await.map(drop)
}

#[test]
fn two_wait_for_the_last_slice_and_the_second_is_told_and_starts_when_the_first_has_gone() {
    scenario(async |scene| {
        eight_run_and_a_second_waits(scene).await?;
        assert_eq!(scene.running().await?.len(), 8);
        scene.delete(pod("first-3", &mig("7g.80gb"), 1)).await?;
        scene.runs("second").await?;
        assert!(!was_unschedulable(scene, "second").await?);
        Ok(())
    });
}

#[test]
fn an_operator_that_begins_anew_answers_what_waits_and_kueue_may_be_away_meanwhile() {
    scenario(async |scene| {
        research_queues(scene, &[(&mig("3g.40gb"), 4)]).await?;
        scene.apply(workbench("lab", &mig("3g.40gb"), 1).labelled(QUEUE, "research")).await?;
        check_says(scene, "lab", "Pending", "3g.40gb").await?;
        scene.kill_operators();
        scene.kueue().ends().await?;
        scene.kueue().begin().await?;
        scene.kueue().answers(&scene.client()).await?;
        scene.operator_again().await?;
        check_says(scene, "lab", "Ready", "").await?;
        scene.workbench_runs("lab").await?;
        Ok(())
    });
}

/// Another check of ours.
const SECOND: &str = "gpu-slices-too";

/// The queue asks both checks of ours about what gets quota of its flavor; the second is like this.
async fn asks_a_second_check(scene: &Scene, mut spec: Value) -> anyhow::Result<()> {
    spec["controllerName"] = json!(CONTROLLER);
    scene.apply(kueue("AdmissionCheck", SECOND, spec)).await?;
    let checks = [CHECK, SECOND].map(|name| json!({"name": name, "onFlavors": ["pool"]}));
    let both = json!({"spec": {"admissionChecksStrategy": {"admissionChecks": checks}}});
    scene.patch(kueue("ClusterQueue", "research", json!({})), both).await
}

/// Both entries are one field manager's: an answer of the one must not take the other away.
#[test]
fn a_workbench_of_a_queue_with_two_checks_of_ours_starts_once_both_have_let_it_go() {
    scenario(async |scene| {
        research_queues(scene, &[(&mig("3g.40gb"), 4)]).await?;
        asks_a_second_check(scene, json!({})).await?;
        is_active(scene, SECOND, "True", "Active").await?;
        scene.apply(workbench("lab", &mig("3g.40gb"), 1).labelled(QUEUE, "research")).await?;
        let (_, status) = status_when_check_says(scene, "lab", "Ready", "its slices are free on").await?;
        let node = scene.workbench_runs("lab").await?;
        let there = json!({"kubernetes.io/hostname": node});
        let entries = status["admissionChecks"].as_array().cloned().unwrap_or_default();
        let mut said: Vec<_> = entries
            .iter()
            .map(|entry| (&entry["name"], &entry["state"], &entry["podSetUpdates"][0]["nodeSelector"]))
            .collect();
        said.sort_by_key(|(name, ..)| name.to_string());
        let ready = json!("Ready");
        assert_eq!(said, [(&json!(CHECK), &ready, &there), (&json!(SECOND), &ready, &there)]);
        Ok(())
    });
}

#[test]
fn a_queue_with_a_check_of_ours_that_has_parameters_gives_no_quota_and_the_check_says_why() {
    scenario(async |scene| {
        research_queues(scene, &[(&mig("1g.10gb"), 4)]).await?;
        let of = json!({"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "any"});
        asks_a_second_check(scene, json!({"parameters": of})).await?;
        is_active(scene, SECOND, "False", "ParametersNotSupported").await?;
        scene.apply(pod("late", &mig("1g.10gb"), 1).labelled(QUEUE, "research")).await?;
        gives_no_quota(scene).await
    });
}

/// Waits until a workload is told that its queue is not active.
async fn gives_no_quota(scene: &Scene) -> anyhow::Result<()> {
    let api = workloads(scene).await?;
    wait::asking("the queue says why it gives nothing", wait::PATIENCE, async || {
        let text = json!(api.list(&ListParams::default()).await?.items).to_string();
        let is_told = text.contains("QuotaReserved") && text.contains("inactive");
        Ok(if is_told { Ok(()) } else { Err(text) })
    })
    .await
}

/// The condition `Active` of the check: its status and reason.
async fn active(scene: &Scene, status: &str, reason: &str) -> anyhow::Result<()> {
    is_active(scene, CHECK, status, reason).await
}

/// The same of any check.
async fn is_active(scene: &Scene, name: &str, status: &str, reason: &str) -> anyhow::Result<()> {
    let (api, _) = objects::api_of(&scene.client(), &kueue("AdmissionCheck", name, json!({}))).await?;
    wait::asking(&format!("{name} is Active={status}, {reason}"), wait::PATIENCE, async || {
        let check = api.get(name).await?;
        let conditions = check.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is_it = |c: &Value| c["type"] == "Active" && c["status"] == status && c["reason"] == reason;
        Ok(if conditions.iter().any(is_it) { Ok(()) } else { Err(json!(conditions).to_string()) })
    })
    .await
}

/// What an operator has that gets its settings from the environment: the rights do not go with the switch.
fn rights_that_stay() -> [Value; 2] {
    let rule = |resource: &str, verb: &str| json!({"apiGroups": ["kueue.x-k8s.io"], "resources": [resource], "verbs": [verb]});
    let name = json!({"name": "answers-checks", "labels": {objects::OURS: "true"}});
    [
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": name,
            "rules": [rule("admissionchecks", "list"), rule("admissionchecks/status", "patch")]}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": name,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "answers-checks"},
            "subjects": [{"kind": "ServiceAccount", "name": objects::OPERATOR_ACCOUNT,
                "namespace": objects::OPERATOR_NAMESPACE}]}),
    ]
}

#[test]
fn an_operator_that_is_switched_off_says_so_of_its_check_if_it_still_may_and_the_queue_gives_no_quota() {
    scenario(async |scene| {
        research_queues(scene, &[(&mig("1g.10gb"), 4)]).await?;
        active(scene, "True", "Active").await?;
        // The chart takes the right with the setting.
        scene.stop_operators().await?;
        scene.operator_with(|settings| settings.kueue = Kueue::Off).await?;
        scene.operators()[0].has_run_rounds(1).await?;
        active(scene, "True", "Active").await?;
        // With OLM the right stays.
        scene.stop_operators().await?;
        for object in rights_that_stay() {
            scene.apply(object).await?;
        }
        scene.operator_with(|settings| settings.kueue = Kueue::Off).await?;
        active(scene, "False", "SwitchedOff").await?;
        scene.apply(pod("late", &mig("1g.10gb"), 1).labelled(QUEUE, "research")).await?;
        gives_no_quota(scene).await?;
        // Switched on again, the queue goes on.
        scene.stop_operators().await?;
        scene.operator_with(|settings| settings.kueue = Kueue::AdmissionCheck).await?;
        active(scene, "True", "Active").await?;
        scene.apply(pod("next", &mig("1g.10gb"), 1).labelled(QUEUE, "research")).await?;
        scene.runs("next").await?;
        Ok(())
    });
}

#[test]
fn a_node_that_is_lost_before_the_pod_has_it_gives_the_workload_back_to_its_queue_and_to_another_node() {
    scenario(async |scene| {
        research_queues(scene, &[(&mig("1g.10gb"), 4)]).await?;
        scene.converged("research").await?;
        // Somebody else holds the pod back once Kueue has let it go.
        let hold = "team.example/hold";
        let held = workbench("lab", &mig("1g.10gb"), 1)
            .labelled(QUEUE, "research")
            .with("/spec/template/spec/schedulingGates", json!([{"name": hold}]));
        scene.apply(held).await?;
        let ready = check_says(scene, "lab", "Ready", "its slices are free on").await?;
        let node = |ready: &Value| {
            let selector = &ready["podSetUpdates"][0]["nodeSelector"]["kubernetes.io/hostname"];
            selector.as_str().unwrap_or_default().to_owned()
        };
        let first = node(&ready);
        wait_for_gates(scene, "lab-0", &[hold]).await?;
        scene.patch_node(&first, json!({"spec": {"unschedulable": true}})).await?;
        scene.stays_cordoned(&first);
        wait::asking("Kueue takes the workload back", wait::PATIENCE, async || {
            let seen = workloads(scene).await?.list(&ListParams::default()).await?.items;
            let text =
                json!(seen.iter().map(|workload| &workload.data["status"]).collect::<Vec<_>>()).to_string();
            Ok(if text.contains("AdmissionCheck") && text.contains("Requeued") { Ok(()) } else { Err(text) })
        })
        .await?;
        let again = check_says(scene, "lab", "Ready", "its slices are free on").await?;
        assert_ne!(node(&again), first);
        wait_for_gates(scene, "lab-0", &[hold]).await?;
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lab-0", "namespace": TEAM}});
        scene.patch(pod, json!({"spec": {"schedulingGates": []}})).await?;
        assert_eq!(scene.workbench_runs("lab").await?, node(&again));
        Ok(())
    });
}

/// Waits until a pod has these gates and no others.
pub(crate) async fn wait_for_gates(scene: &Scene, pod: &str, gates: &[&str]) -> anyhow::Result<()> {
    wait::asking(&format!("{pod} has the gates {gates:?}"), wait::PATIENCE, async || {
        let found = scene.pods().get_opt(pod).await?.and_then(|pod| pod.spec).unwrap_or_default();
        let has: Vec<String> = found.scheduling_gates.into_iter().flatten().map(|gate| gate.name).collect();
        Ok(if has == gates { Ok(()) } else { Err(format!("{has:?}")) })
    })
    .await
}

#[test]
fn a_job_of_three_pods_is_admitted_as_a_whole_and_runs_where_its_slices_were_made() {
    scenario(async |scene| {
        research_queues(scene, &[(&mig("2g.20gb"), 6)]).await?;
        let template = Value::from(pod("unused", &mig("2g.20gb"), 1))["spec"].clone();
        let mut template = json!({"spec": template});
        template["spec"]["restartPolicy"] = json!("Never");
        scene
            .apply(json!({
                "apiVersion": "batch/v1", "kind": "Job",
                "metadata": {"name": "train", "namespace": TEAM, "labels": {QUEUE: "research"}},
                "spec": {"parallelism": 3, "completions": 3, "completionMode": "Indexed", "template": template},
            }))
            .await?;
        check_says(scene, "train", "Pending", "slices for 0 of 3 pods are free").await?;
        let ready = check_says(scene, "train", "Ready", "its slices are free on").await?;
        let node = ready["podSetUpdates"][0]["nodeSelector"]["kubernetes.io/hostname"].clone();
        wait::asking("its pods run on that node", wait::PATIENCE, async || {
            let pods = scene.pods().list(&ListParams::default().labels("job-name=train")).await?.items;
            let nodes: Vec<Value> = pods
                .iter()
                .filter(|pod| {
                    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
                })
                .map(|pod| json!(pod.spec.as_ref().and_then(|spec| spec.node_name.clone())))
                .collect();
            Ok(if nodes == vec![node.clone(); 3] { Ok(()) } else { Err(format!("{nodes:?}")) })
        })
        .await?;
        scene.converged("research").await
    });
}
