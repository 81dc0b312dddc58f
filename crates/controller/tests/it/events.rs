//! All events of a story from its beginning to its end, with their objects and texts, kept whole.

#[path = "../../../reconcile/tests/it/cluster/mod.rs"]
mod cluster;

use cluster::Cluster;
use controller::publish::catalogue;
use controller::publish::discreet::TellNames;
use controller::publish::events::Draft;
use controller::publish::news::{SentEvents, Written, drafts};
use jiff::Timestamp;
use observe::Objects;
use reconcile::Round;
use reconcile::review::Fingerprint;
use rollout::Phase;
use serde_json::json;

/// The events of a story, one line each.
#[derive(Default)]
struct Story {
    told: SentEvents,
    names: TellNames,
    lines: Vec<String>,
}

impl Story {
    /// What a round that was written has to tell.
    fn hear(&mut self, objects: &Objects, round: &Round, now: Timestamp) {
        let written = Written {
            nodes: round.gpu_nodes.keys().cloned().collect(),
            policies: round.policies.keys().cloned().collect(),
        };
        for draft in drafts(&mut self.told, self.names, objects, round, &written, now) {
            let Draft { regarding, related, warning, reason, action, note, once: _ } = draft;
            let kind = regarding.kind.unwrap_or_default();
            let name = [regarding.namespace, regarding.name];
            let name = name.into_iter().flatten().collect::<Vec<_>>().join("/");
            let related =
                related.and_then(|r| r.kind).map(|kind| format!(", with its {kind}")).unwrap_or_default();
            assert!(
                catalogue::page().contains(&format!("`{reason}`")),
                "{reason} has no line in the reference"
            );
            let loud = if warning { "Warning" } else { "Normal" };
            self.lines.push(format!("{kind} {name}: {loud} {reason} ({action}{related}): {note}"));
        }
    }

    fn until(&mut self, cluster: &mut Cluster, phase: Phase) {
        cluster.until("n1", phase, |objects, round, now| self.hear(objects, round, now));
    }

    /// One round.
    fn next(&mut self, cluster: &mut Cluster) {
        let seen = cluster.objects.clone();
        let round = cluster.step(cluster::Until::End);
        self.hear(&seen, &round, cluster.now);
    }

    fn text(&self) -> String {
        self.lines.join("\n")
    }
}

fn asks(profile: &str) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    cluster.pod("asks", profile, None);
    cluster
}

#[test]
fn somebody_asks_and_a_node_is_changed() {
    let mut cluster = asks("1g.10gb");
    let mut story = Story::default();
    story.until(&mut cluster, Phase::Mapping);
    story.until(&mut cluster, Phase::Idle);
    story.next(&mut cluster);
    cluster.pod("asks", "1g.10gb", Some("n1"));
    story.next(&mut cluster);
    insta::assert_snapshot!("served", story.text());
}

#[test]
fn somebody_asks_and_nobody_gives_way() {
    let mut cluster = asks("1g.10gb");
    cluster.pod("has", "7g.80gb", Some("n1"));
    let mut story = Story::default();
    story.next(&mut cluster);
    story.next(&mut cluster);
    insta::assert_snapshot!("unserved", story.text());
}

#[test]
fn a_workbench_can_never_start() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    cluster.workbench("lab", "gone");
    cluster.workbench(&"n".repeat(64), "gone");
    let mut story = Story::default();
    story.next(&mut cluster);
    story.next(&mut cluster);
    insta::assert_snapshot!("refused", story.text());
}

#[test]
fn the_menu_offers_what_nobody_can_have() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    let offers = |name: &str, resource: &str| {
        let identifier = |resource: &str| json!({"identifier": resource, "displayName": resource, "minCount": 1, "defaultCount": 1, "maxCount": 1});
        serde_json::from_value::<api::foreign::HardwareProfile>(json!({
            "metadata": {"namespace": "redhat-ods-applications", "name": name, "uid": format!("uid-{name}")},
            "spec": {"identifiers": [identifier("cpu"), identifier("memory"), identifier(resource)]},
        }))
        .expect("it is a hardware profile")
    };
    let key = |name: &str| ("redhat-ods-applications".to_owned(), name.to_owned());
    for (name, resource) in [("good", "nvidia.com/mig-1g.10gb"), ("bad", "nvidia.com/mig-1g.5gb")] {
        cluster.objects.hardware_profiles.insert(key(name), offers(name, resource));
    }
    let mut story = Story::default();
    story.next(&mut cluster);
    story.next(&mut cluster);
    // It is mended, and broken again in another way.
    cluster.objects.hardware_profiles.insert(key("bad"), offers("bad", "nvidia.com/mig-2g.20gb"));
    story.next(&mut cluster);
    cluster.objects.hardware_profiles.insert(key("bad"), offers("bad", "nvidia.com/mig-2g.20g"));
    story.next(&mut cluster);
    // Without a policy, slices are somebody else's business.
    cluster.objects.policies.clear();
    cluster.objects.hardware_profiles.insert(key("bad"), offers("bad", "nvidia.com/mig-1g.5gb"));
    story.next(&mut cluster);
    insta::assert_snapshot!("menu", story.text());
}

/// A workbench of two containers, of which none has its name, and a profile that offers a slice.
fn whose_profile_is_applied_to_no_container() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    cluster.workbench("lab", "slice");
    let key = ("team".to_owned(), "lab".to_owned());
    let lab = std::sync::Arc::make_mut(cluster.objects.notebooks.get_mut(&key).expect("a workbench"));
    lab.spec.template.spec.change(|spec| {
        let named = |name: &str| k8s_openapi::api::core::v1::Container {
            name: name.to_owned(),
            ..Default::default()
        };
        spec.containers = vec![named("main"), named("proxy")];
    });
    let offers = |resource| json!({"identifier": resource, "displayName": resource, "minCount": 1, "defaultCount": 1, "maxCount": 1});
    let profile = json!({"metadata": {"namespace": "team", "name": "slice"},
        "spec": {"identifiers": [offers("cpu"), offers("memory"), offers("nvidia.com/mig-1g.10gb")]}});
    let profile = serde_json::from_value(profile).expect("a hardware profile");
    cluster.objects.hardware_profiles.insert(("team".to_owned(), "slice".to_owned()), profile);
    cluster
}

/// The pod of the workbench `lab`, which asks for no GPU, on a node or waiting for one.
fn its_pod(cluster: &mut Cluster, on: Option<&str>) {
    cluster.add_pod(json!({
        "metadata": {"namespace": "team", "name": "lab-0", "uid": "u-lab-0", "labels": {"notebook-name": "lab"}},
        "spec": {"nodeName": on, "containers": [{"name": "main"}, {"name": "proxy"}]},
        "status": {"phase": if on.is_some() { "Running" } else { "Pending" }},
    }));
}

/// Whoever gets nothing of its hardware profile is told once on each of the places where the dashboard looks.
#[test]
fn a_workbench_to_which_no_profile_is_applied_is_told_where_the_dashboard_looks() {
    let note = "Normal SliceUnavailable (Plan): not served: it requests neither a slice nor a GPU, since it has the containers main, proxy, but none has the name lab of the workbench, so OpenShift AI from 3.4 on does not apply its hardware profile slice (up to 3.3, it applied it to every container); give one container this name";
    let of_lab = |story: &Story| -> Vec<String> {
        story.lines.iter().filter(|line| line.contains(" team/lab")).cloned().collect()
    };
    let mut cluster = whose_profile_is_applied_to_no_container();
    let mut story = Story::default();
    story.next(&mut cluster);
    story.next(&mut cluster);
    let mut told = vec![format!("Notebook team/lab: {note}")];
    assert_eq!(of_lab(&story), told, "it has nothing else");
    // Its StatefulSet says why it makes no pod.
    let key = ("team".to_owned(), "lab".to_owned());
    cluster.objects.unmade.insert(key.clone(), "exceeded quota".to_owned());
    story.next(&mut cluster);
    story.next(&mut cluster);
    told.push(format!("StatefulSet team/lab: {note}"));
    assert_eq!(of_lab(&story), told);
    // Then the pod comes, and runs: without the slice.
    cluster.objects.unmade.remove(&key);
    for on in [None, None, Some("n1"), Some("n1")] {
        its_pod(&mut cluster, on);
        story.next(&mut cluster);
    }
    told.push(format!("Pod team/lab-0: {note}"));
    assert_eq!(of_lab(&story), told, "and on nothing else");
}

#[test]
fn mig_manager_fails_whatever_is_tried() {
    let mut cluster = asks("1g.10gb");
    cluster.managers_fail = true;
    let mut story = Story::default();
    story.until(&mut cluster, Phase::Failed);
    story.next(&mut cluster);
    insta::assert_snapshot!("failed", story.text());
}

#[test]
fn somebody_else_labels_a_node() {
    let mut cluster = asks("1g.10gb");
    cluster.settle();
    cluster.pod("asks", "1g.10gb", Some("n1"));
    cluster.settle();
    let mut story = Story::default();
    cluster.edit_node("n1", |node| {
        let labels = node.metadata.labels.get_or_insert_default();
        labels.insert(rollout::names::MIG_CONFIG.to_owned(), "all-disabled".to_owned());
    });
    story.next(&mut cluster);
    story.next(&mut cluster);
    insta::assert_snapshot!("foreign-layout", story.text());
}

/// The round of a cluster, as what was reviewed is made of it.
fn reviewed(cluster: &Cluster) -> Fingerprint {
    let planned = cluster.round().planned;
    let policies = &cluster.objects.policies;
    Fingerprint::new(
        &planned.plan,
        policies,
        &planned.policy_of,
        &planned.view.inventory,
        &planned.view.requests,
    )
}

#[test]
fn what_was_reviewed_is_not_what_would_be_done() {
    let mut cluster = asks("1g.10gb");
    let annotations = reviewed(&cluster).annotations();
    cluster.edit_policy(|policy| {
        let own = annotations.into_iter().map(|(key, text)| (key.to_owned(), text));
        policy.metadata.annotations = Some(own.collect());
        // The annotation comes before the policies that were reviewed.
        policy.spec.priority = 1;
    });
    let mut story = Story::default();
    story.next(&mut cluster);
    // Then they come, to a fleet that is another by now.
    cluster.node("n2");
    cluster.edit_policy(|policy| policy.spec.priority = 0);
    story.next(&mut cluster);
    story.next(&mut cluster);
    let told: Vec<_> = story.lines.into_iter().filter(|line| line.contains("ReviewMoved")).collect();
    insta::assert_snapshot!("review", told.join("\n"));
}

#[test]
fn a_policy_stops_making_sense_and_makes_sense_again() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    let mut story = Story::default();
    story.next(&mut cluster);
    cluster.policy(json!({"type": "DemandDriven", "demandDriven": {
        "slices": [{"profile": "1g.10gb", "minCount": 5, "maxCount": 4}]}}));
    story.next(&mut cluster);
    story.next(&mut cluster);
    cluster.policy(json!({"type": "DemandDriven"}));
    story.next(&mut cluster);
    insta::assert_snapshot!("makes-no-sense", story.text());
}

/// Everything that is written into a namespace of tenants is an event (the rights allow nothing else), so this is
/// what they can read of others.
#[test]
fn nobody_reads_in_their_namespace_who_holds_what_in_another() {
    let told = |names| {
        let mut cluster = Cluster::new();
        cluster.node("n1");
        cluster.pod("alice-0", "7g.80gb", Some("n1"));
        let mut alice = cluster.objects.pods.remove(&("team".to_owned(), "alice-0".to_owned())).unwrap();
        std::sync::Arc::make_mut(&mut alice).metadata.namespace = Some("team-b".to_owned());
        cluster.objects.pods.insert(("team-b".to_owned(), "alice-0".to_owned()), alice);
        cluster.pod("asks", "1g.10gb", None);
        let mut story = Story { names, ..Story::default() };
        story.next(&mut cluster);
        story.lines
    };
    let of_who_asks = |lines: Vec<String>| lines.into_iter().find(|line| line.starts_with("Pod team/asks: "));
    let own = told(TellNames::OwnNamespace);
    let policy = own.iter().find(|line| line.starts_with("GpuPartitionPolicy research: ")).unwrap().clone();
    assert!(policy.contains("pod team-b/alice-0 ends (or moves)"), "administrators read who: {policy}");
    let own = of_who_asks(own).unwrap();
    assert!(!own.contains("alice") && !own.contains("team-b"), "{own}");
    let help =
        "What would help: a pod of another namespace ends (or moves): it holds 7g.80gb on n1/gpu0; or ";
    assert!(own.contains(help), "{own}");
    let all = of_who_asks(told(TellNames::All)).unwrap();
    assert!(all.contains("pod team-b/alice-0 ends (or moves): it holds 7g.80gb on n1/gpu0; or "), "{all}");
}

/// A workload of Kueue in the queue `research`, of so many pods that want a whole GPU each.
fn queued(cluster: &mut Cluster, name: &str, pods: u32, has_quota: bool) {
    let slice = "nvidia.com/mig-7g.80gb";
    let reserved = if has_quota { "True" } else { "False" };
    let mut object = json!({
        "metadata": {"namespace": "team", "name": format!("job-{name}"), "uid": format!("uid-{name}"),
            "creationTimestamp": "2026-11-21T08:00:00Z", "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": format!("u-{name}"), "controller": true}]},
        "spec": {"queueName": "research", "podSets": [{"name": "main", "count": pods, "template": {"spec": {
            "containers": [{"name": "main", "resources": {"limits": {slice: "1"}}}]}}}]},
        "status": {"conditions": [{"type": "QuotaReserved", "status": reserved, "reason": "", "message": "",
            "lastTransitionTime": cluster.now}]},
    });
    if has_quota {
        object["status"]["admission"] = json!({"clusterQueue": "research", "podSetAssignments": [
            {"name": "main", "count": pods, "flavors": {slice: "pool"}}]});
        object["status"]["admissionChecks"] =
            json!([{"name": "gpu-slices", "state": "Pending", "message": ""}]);
    }
    kueue(cluster, "Workload", object);
}

fn kueue(cluster: &mut Cluster, kind: &str, object: serde_json::Value) {
    cluster.objects.add_value("kueue.x-k8s.io/v1beta2", kind, object, &mut |problem| panic!("{problem}"));
}

/// Each time that a workload goes back into its queue, its owner is told, and who else it is for only where that may
/// be read.
#[test]
fn who_loses_its_quota_to_another_is_told_each_time_and_once() {
    let mut cluster = Cluster::new();
    cluster.settings.answers_checks = true;
    cluster.node("n1");
    let slice = "nvidia.com/mig-7g.80gb";
    kueue(
        &mut cluster,
        "AdmissionCheck",
        json!({"metadata": {"name": "gpu-slices"}, "spec": {"controllerName": "slicewright.io/slices"}}),
    );
    kueue(&mut cluster, "ResourceFlavor", json!({"metadata": {"name": "pool"}}));
    let local =
        json!({"metadata": {"namespace": "team", "name": "research"}, "spec": {"clusterQueue": "research"}});
    kueue(&mut cluster, "LocalQueue", local);
    kueue(
        &mut cluster,
        "ClusterQueue",
        json!({"metadata": {"name": "research"}, "spec": {"resourceGroups": [{"coveredResources": [slice],
            "flavors": [{"name": "pool", "resources": [{"name": slice, "nominalQuota": 2}]}]}]},
            "status": {"flavorsReservation": [{"name": "pool", "resources": [{"name": slice, "total": 2}]}]}}),
    );
    queued(&mut cluster, "single", 1, false);
    let mut notes = Vec::new();
    for _ in 0..2 {
        queued(&mut cluster, "large", 2, true);
        let mut story = Story::default();
        for _ in 0..2 {
            story.next(&mut cluster);
            cluster.now += cluster.settings.quota_hold;
        }
        let told = "Job team/large: Normal SliceUnavailable (Retry): its quota goes to team/job-single";
        let lines = story.lines.iter().filter(|line| line.starts_with(told)).count();
        assert_eq!(lines, 1, "{}", story.text());
        let written = Written::default();
        cluster.objects.unserved_quota.asked = None;
        let round = cluster.round();
        let drafts = drafts(
            &mut SentEvents::default(),
            TellNames::All,
            &cluster.objects,
            &round,
            &written,
            cluster.now,
        );
        notes.extend(drafts.into_iter().filter(|draft| draft.action == "Retry").map(|draft| draft.once));
        // Kueue takes the quota, and gives it again later.
        queued(&mut cluster, "large", 2, false);
        story.next(&mut cluster);
        cluster.now += jiff::SignedDuration::from_mins(1);
    }
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert_ne!(notes[0], notes[1], "the second time is another event");
}
