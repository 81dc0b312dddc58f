//! The hardware profiles that are published for OpenShift AI, on a fleet of nodes with eight GPUs: what is
//! offered, what is withdrawn and when, and what is never touched.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod frozen;
mod gpus;
mod hands;
mod nodes;
mod running;
mod seats;

use std::collections::BTreeSet;

use api::foreign::HardwareProfile;
use api::foreign::hardware_profile::{DISABLED, WITHDRAWN};
use jiff::{SignedDuration, Timestamp};
use reconcile::menu::Stand;
use reconcile::{MenuAct, MenuRound, MenuSettings};
use serde_json::{Value, json};

use crate::cluster::Cluster;

const APPLICATIONS: &str = "redhat-ods-applications";
const PRODUCT: &str = "nvidia.com/gpu.product";

/// OpenShift AI is installed.
fn install(cluster: &mut Cluster) {
    add(
        cluster,
        "dscinitialization.opendatahub.io/v2",
        "DSCInitialization",
        json!({
        "metadata": {"name": "default-dsci"}, "spec": {"applicationsNamespace": APPLICATIONS}}),
    );
}

/// Two nodes with eight GPUs under one policy; OpenShift AI is installed.
fn fleet() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.settings.menu = Some(MenuSettings::default());
    cluster.hgx("n1");
    cluster.hgx("n2");
    install(&mut cluster);
    cluster
}

fn add(cluster: &mut Cluster, api_version: &str, kind: &str, object: Value) {
    cluster.objects.add_value(api_version, kind, object, &mut |problem| panic!("{problem}"));
}

/// One round, whose writes are done as the API server does them. Says what
/// was done, as `create gpu-…`.
fn round(cluster: &mut Cluster) -> Vec<String> {
    let MenuRound { writes, differs_since, was_there, .. } = cluster.round().menu;
    cluster.objects.menu_differs_since = differs_since;
    cluster.objects.menu_was_there = was_there;
    let mut done = Vec::new();
    for write in writes {
        let key = (APPLICATIONS.to_owned(), write.name.clone());
        let version = format!("{}", cluster.objects.hardware_profiles.len() + 1000);
        let verb = match write.act {
            MenuAct::Create(mut manifest) => {
                assert!(!cluster.objects.hardware_profiles.contains_key(&key), "{key:?} is there");
                manifest["metadata"]["uid"] = json!(format!("u-{}", write.name));
                manifest["metadata"]["resourceVersion"] = json!(version);
                let read: HardwareProfile = serde_json::from_value(manifest).unwrap();
                cluster.objects.hardware_profiles.insert(key, read);
                cluster.objects.menu_differs_since.remove(&write.name);
                cluster.objects.menu_was_there.insert(write.name.clone());
                "create"
            }
            MenuAct::Withdraw { if_version } => {
                let at = cluster.now.to_string();
                let profile = at_version(cluster, &key, &if_version);
                let annotations = profile.metadata.annotations.get_or_insert_default();
                annotations.insert(DISABLED.to_owned(), "true".to_owned());
                annotations.insert(WITHDRAWN.to_owned(), at);
                "withdraw"
            }
            MenuAct::OfferAgain { if_version } => {
                let profile = at_version(cluster, &key, &if_version);
                let annotations = profile.metadata.annotations.get_or_insert_default();
                annotations.insert(DISABLED.to_owned(), "false".to_owned());
                annotations.remove(WITHDRAWN);
                "offer again"
            }
            MenuAct::Delete { if_version, uid } => {
                assert_eq!(at_version(cluster, &key, &if_version).metadata.uid.as_deref(), Some(&*uid));
                cluster.objects.hardware_profiles.remove(&key);
                "delete"
            }
        };
        done.push(format!("{verb} {}", write.name));
    }
    done
}

fn at_version<'a>(
    cluster: &'a mut Cluster,
    key: &(String, String),
    version: &str,
) -> &'a mut HardwareProfile {
    let profile = cluster.objects.hardware_profiles.get_mut(key).unwrap();
    assert_eq!(profile.metadata.resource_version.as_deref(), Some(version));
    profile
}

/// Time passes, in rounds of a minute. Says all that was done.
fn minutes(cluster: &mut Cluster, n: u32) -> Vec<String> {
    let mut done = Vec::new();
    for _ in 0..n {
        cluster.now += SignedDuration::from_mins(1);
        done.extend(round(cluster));
    }
    done
}

/// The name of the only profile of ours that contains all of these words.
fn name(cluster: &Cluster, words: &[&str]) -> String {
    let all = cluster.objects.hardware_profiles.keys().map(|(_, name)| name.clone());
    let found: Vec<String> = all.filter(|name| words.iter().all(|word| name.contains(word))).collect();
    assert_eq!(found.len(), 1, "{words:?}: {found:?}");
    found[0].clone()
}

fn profile<'a>(cluster: &'a mut Cluster, name: &str) -> &'a mut HardwareProfile {
    cluster.objects.hardware_profiles.get_mut(&(APPLICATIONS.to_owned(), name.to_owned())).unwrap()
}

fn stand(cluster: &Cluster, name: &str) -> Option<Stand> {
    cluster.round().menu.stands.get(name).copied()
}

fn annotate(cluster: &mut Cluster, name: &str, key: &str, value: &str) {
    let profile = profile(cluster, name);
    profile.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
}

fn never_again(cluster: &mut Cluster, slice: &str) {
    cluster.policy(json!({"type": "DemandDriven", "demandDriven": {
        "slices": [{"profile": slice, "maxCount": 0}]}}));
}

#[test]
fn each_slice_that_the_policy_allows_is_offered_once_complete_and_for_its_pool_and_product() {
    let mut cluster = fleet();
    let done = round(&mut cluster);
    let slices: BTreeSet<String> = cluster
        .objects
        .hardware_profiles
        .values()
        .map(|profile| profile.spec.identifiers[2].identifier.replace("nvidia.com/mig-", ""))
        .collect();
    let wanted = ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"];
    assert_eq!(slices, wanted.map(str::to_owned).into(), "{done:?}");
    assert_eq!(done.len(), wanted.len());
    assert_eq!(round(&mut cluster), [""; 0], "and then there is rest");

    let small = name(&cluster, &["1g-10gb"]);
    // Another name would make another profile of each that is published: think twice.
    assert_eq!(small, "gpu-research-a100-sxm4-80gb-1g-10gb-df7e0c7e");
    let small = json!(profile(&mut cluster, &small));
    let counts = |n: usize| {
        let found = &small["spec"]["identifiers"][n];
        (
            found["identifier"].clone(),
            found["minCount"].clone(),
            found["defaultCount"].clone(),
            found["maxCount"].clone(),
        )
    };
    // 32 cores and 256 GiB: a seventh of an eighth of nine tenths, but no less than one core.
    assert_eq!(counts(0), (json!("cpu"), json!(1), json!(1), json!(1)));
    assert_eq!(counts(1), (json!("memory"), json!("1Gi"), json!("4Gi"), json!("4Gi")));
    assert_eq!(counts(2), (json!("nvidia.com/mig-1g.10gb"), json!(1), json!(1), json!(1)));
    let node = &small["spec"]["scheduling"]["node"];
    assert_eq!(node["nodeSelector"], json!({"pool": "research", PRODUCT: "NVIDIA-A100-SXM4-80GB"}));
    assert_eq!(small["metadata"]["annotations"][DISABLED], "false");
}

#[test]
fn what_is_free_never_decides() {
    let mut cluster = fleet();
    round(&mut cluster);
    for n in 0..8 {
        cluster.pod(&format!("a{n}"), "7g.80gb", Some("n1"));
        cluster.pod(&format!("b{n}"), "7g.80gb", Some("n2"));
    }
    assert_eq!(minutes(&mut cluster, 60), [""; 0], "people wait for a slice; it is still on the menu");
}

#[test]
fn a_slice_that_nobody_can_have_any_more_is_withdrawn_after_a_while_and_deleted_once_nothing_names_it() {
    let mut cluster = fleet();
    round(&mut cluster);
    let large = name(&cluster, &["7g-80gb"]);
    // A stopped workbench of somebody.
    add(
        &mut cluster,
        "kubeflow.org/v1",
        "Notebook",
        json!({
        "metadata": {"namespace": "team", "name": "old", "annotations": {
            "opendatahub.io/hardware-profile-name": large, "opendatahub.io/hardware-profile-namespace": APPLICATIONS,
            "kubeflow-resource-stopped": "2026-11-01T00:00:00Z"}},
        "spec": {"template": {"spec": {"containers": [{"name": "old"}]}}}}),
    );
    never_again(&mut cluster, "7g.80gb");
    assert_eq!(minutes(&mut cluster, 10), [""; 0]);
    assert_eq!(stand(&cluster, &large), Some(Stand::Outdated));
    assert_eq!(minutes(&mut cluster, 1), [format!("withdraw {large}")]);
    assert_eq!(minutes(&mut cluster, 60), [""; 0], "a stopped workbench names it");
    assert_eq!(stand(&cluster, &large), Some(Stand::InUse));
    // A model server in another project, too.
    add(
        &mut cluster,
        "serving.kserve.io/v1beta1",
        "InferenceService",
        json!({
        "metadata": {"namespace": "team", "name": "llm", "annotations": {
            "opendatahub.io/hardware-profile-name": large,
            "opendatahub.io/hardware-profile-namespace": APPLICATIONS}}}),
    );
    cluster.objects.notebooks.clear();
    assert_eq!(minutes(&mut cluster, 5), [""; 0]);
    cluster.objects.model_servers.clear();
    assert_eq!(minutes(&mut cluster, 1), [format!("delete {large}")]);
    assert_eq!(minutes(&mut cluster, 60), [""; 0]);
}

/// Its webhook refuses a workbench whose profile is gone, and with it every change that would mend the workbench.
#[test]
fn a_profile_that_something_unreadable_names_stays_until_that_is_gone_or_names_another() {
    let users = [
        ("kubeflow.org/v1", "Notebook", json!({"template": "of a later release"})),
        ("serving.kserve.io/v1beta1", "InferenceService", json!({})),
        ("serving.kserve.io/v1alpha1", "LLMInferenceService", json!({})),
    ];
    for (api_version, kind, spec) in users {
        let mut cluster = fleet();
        round(&mut cluster);
        let large = name(&cluster, &["7g-80gb"]);
        let user = |profile: &str, spec: &Value| {
            json!({
            "metadata": {"namespace": "team", "name": "odd", "annotations": {
                "opendatahub.io/hardware-profile-name": profile,
                "opendatahub.io/hardware-profile-namespace": APPLICATIONS}},
            "spec": spec, "status": {"readyReplicas": "of a later release"}})
        };
        let mut complaints = Vec::new();
        cluster.objects.add_value(api_version, kind, user(&large, &spec), &mut |problem| {
            complaints.push(problem.to_string());
        });
        // Of a model server nothing but its metadata is read.
        assert_eq!(complaints.len(), usize::from(kind == "Notebook"), "{complaints:?}");
        never_again(&mut cluster, "7g.80gb");
        assert_eq!(minutes(&mut cluster, 90), [format!("withdraw {large}")], "{kind}");
        assert_eq!(stand(&cluster, &large), Some(Stand::InUse), "{kind}");
        cluster.objects.add_value(api_version, kind, user("another", &spec), &mut |_| ());
        assert_eq!(minutes(&mut cluster, 1), [format!("delete {large}")], "{kind}");
    }
}

#[test]
fn nodes_that_come_back_soon_change_nothing_and_later_the_same_profile_is_offered_again() {
    let mut cluster = fleet();
    round(&mut cluster);
    let all = cluster.objects.hardware_profiles.len();
    let ready = |cluster: &mut Cluster, status: &str| {
        for node in ["n1", "n2"] {
            cluster.edit_node(node, |node| {
                let conditions = node.status.as_mut().unwrap().conditions.as_mut().unwrap();
                conditions[0].status = status.to_owned();
            });
        }
    };
    ready(&mut cluster, "False");
    assert_eq!(minutes(&mut cluster, 9), [""; 0]);
    ready(&mut cluster, "True");
    assert_eq!(minutes(&mut cluster, 30), [""; 0], "a restart of all nodes is no reason");
    ready(&mut cluster, "False");
    let withdrawn = minutes(&mut cluster, 12);
    assert_eq!(withdrawn.len(), all, "{withdrawn:?}");
    ready(&mut cluster, "True");
    assert_eq!(minutes(&mut cluster, 9), [""; 0], "offered again only once they stay");
    let again = minutes(&mut cluster, 3);
    assert_eq!(again.len(), all, "{again:?}");
    assert!(again.iter().all(|done| done.starts_with("offer again gpu-research-")), "{again:?}");
    assert_eq!(minutes(&mut cluster, 60), [""; 0]);
}

/// Another program that takes them for its own, or somebody who cleans up. Nobody fights over it, round after round.
#[test]
fn a_profile_that_somebody_deletes_again_and_again_comes_back_each_time_only_after_a_while() {
    let mut cluster = fleet();
    round(&mut cluster);
    let large = name(&cluster, &["7g-80gb"]);
    let key = (APPLICATIONS.to_owned(), large.clone());
    let mut created = 0;
    for _ in 0..60 {
        cluster.objects.hardware_profiles.remove(&key);
        let done = minutes(&mut cluster, 1);
        created += done.len();
        assert!(done.iter().all(|done| *done == format!("create {large}")), "{done:?}");
    }
    assert_eq!(created, 5, "each eleven minutes, since for ten it was missed");
    // Once it stays away for a reason, it is new when it comes again.
    let mut cluster = fleet();
    round(&mut cluster);
    never_again(&mut cluster, "7g.80gb");
    assert_eq!(minutes(&mut cluster, 30), [format!("withdraw {large}"), format!("delete {large}")]);
    cluster.policy(json!({"type": "DemandDriven"}));
    assert_eq!(minutes(&mut cluster, 1), [format!("create {large}")]);
}

#[test]
fn an_operator_that_begins_anew_waits_anew_and_never_acts_sooner() {
    let mut cluster = fleet();
    round(&mut cluster);
    never_again(&mut cluster, "7g.80gb");
    minutes(&mut cluster, 9);
    cluster.objects.menu_differs_since.clear();
    assert_eq!(minutes(&mut cluster, 10), [""; 0]);
    assert_eq!(minutes(&mut cluster, 1).len(), 1);
}

#[test]
fn a_smaller_node_gives_another_profile_another_name_and_the_old_one_stays_until_nothing_names_it() {
    let mut cluster = fleet();
    round(&mut cluster);
    let before = name(&cluster, &["7g-80gb"]);
    let spec = json!(profile(&mut cluster, &before).spec);
    cluster.hgx("n3");
    cluster.edit_node("n3", |node| {
        let allocatable = node.status.as_mut().unwrap().allocatable.as_mut().unwrap();
        allocatable.get_mut("cpu").unwrap().0 = "16".to_owned();
    });
    assert_eq!(minutes(&mut cluster, 10), [""; 0]);
    let done = minutes(&mut cluster, 1);
    let is_of = |verb: &str| done.iter().filter(|done| done.starts_with(verb)).count();
    assert_eq!((is_of("create"), is_of("withdraw")), (done.len() / 2, done.len() / 2), "{done:?}");
    assert!(done.contains(&format!("withdraw {before}")), "{done:?}");
    assert_eq!(json!(profile(&mut cluster, &before).spec), spec, "a spec is never changed");
    minutes(&mut cluster, 11);
    let after = name(&cluster, &["7g-80gb"]);
    assert_ne!(before, after);
    assert_eq!(json!(profile(&mut cluster, &after).spec.identifiers[0].default_count), json!(1));
    assert_eq!(minutes(&mut cluster, 60), [""; 0]);
}

#[test]
fn a_little_less_memory_on_a_node_is_no_new_profile_where_the_old_one_fits_and_uses_most() {
    let mut cluster = fleet();
    round(&mut cluster);
    for (memory, changes) in [("257Gi", false), ("300Gi", false), ("600Gi", true)] {
        for node in ["n1", "n2"] {
            cluster.edit_node(node, |node| {
                let allocatable = node.status.as_mut().unwrap().allocatable.as_mut().unwrap();
                allocatable.get_mut("memory").unwrap().0 = memory.to_owned();
            });
        }
        assert_eq!(!minutes(&mut cluster, 30).is_empty(), changes, "{memory}");
    }
}

#[test]
fn profiles_of_others_are_never_touched_whatever_they_are_called() {
    let mut cluster = fleet();
    round(&mut cluster);
    let ours = name(&cluster, &["3g-40gb"]);
    // Another program has made one of the very name; and somebody has copied ours.
    let theirs = profile(&mut cluster, &ours);
    theirs.metadata.labels = None;
    let mut copy = theirs.clone();
    copy.metadata.labels =
        Some([("app.kubernetes.io/managed-by".to_owned(), "slicewright".to_owned())].into());
    copy.metadata.name = Some("our-favourite".to_owned());
    cluster
        .objects
        .hardware_profiles
        .insert((APPLICATIONS.to_owned(), "our-favourite".to_owned()), copy.clone());
    copy.metadata.name = Some(ours.clone());
    copy.metadata.namespace = Some("team".to_owned());
    cluster.objects.hardware_profiles.insert(("team".to_owned(), ours.clone()), copy);
    never_again(&mut cluster, "3g.40gb");
    assert_eq!(minutes(&mut cluster, 60), [""; 0]);
    cluster.policy(json!({"type": "DemandDriven"}));
    assert_eq!(minutes(&mut cluster, 60), [""; 0]);
    assert_eq!(stand(&cluster, &ours), Some(Stand::NameTaken));
    let problems = cluster.round().menu.problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].to_string().contains("is somebody else's, so it is left alone"), "{}", problems[0]);
}

#[test]
fn ours_that_somebody_edited_is_reported_and_not_fought_over() {
    let mut cluster = fleet();
    round(&mut cluster);
    let edited = name(&cluster, &["2g-20gb"]);
    let identifiers = &mut profile(&mut cluster, &edited).spec.identifiers;
    identifiers[0].max_count = Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(64));
    assert_eq!(minutes(&mut cluster, 60), [""; 0]);
    assert_eq!(stand(&cluster, &edited), Some(Stand::Edited));
    assert!(cluster.round().menu.problems[0].message.contains("has been edited"));
    never_again(&mut cluster, "2g.20gb");
    assert_eq!(minutes(&mut cluster, 60), [""; 0], "not even when nobody can have it");
}

#[test]
fn a_switch_that_somebody_moved_stays_where_it_is() {
    let mut cluster = fleet();
    round(&mut cluster);
    let (off, on) = (name(&cluster, &["1g-20gb"]), name(&cluster, &["7g-80gb"]));
    annotate(&mut cluster, &off, DISABLED, "true");
    assert_eq!(minutes(&mut cluster, 60), [""; 0]);
    assert_eq!(stand(&cluster, &off), Some(Stand::SetByHand));
    never_again(&mut cluster, "7g.80gb");
    assert_eq!(minutes(&mut cluster, 12), [format!("withdraw {on}")]);
    annotate(&mut cluster, &on, DISABLED, "false");
    assert_eq!(minutes(&mut cluster, 60), [""; 0]);
    assert_eq!(stand(&cluster, &on), Some(Stand::SetByHand));
}

#[test]
fn a_queue_gets_one_of_each_slice_that_selects_no_node() {
    let mut cluster = fleet();
    cluster.settings.menu = Some(MenuSettings { queues: vec!["gpus".to_owned()], ..MenuSettings::default() });
    round(&mut cluster);
    let queued = name(&cluster, &["gpu-q-gpus-3g-40gb"]);
    let spec = json!(profile(&mut cluster, &queued).spec);
    assert_eq!(spec["scheduling"]["type"], "Queue");
    assert_eq!(spec["scheduling"]["kueue"]["localQueueName"], "gpus");
    assert_eq!(spec["scheduling"]["node"], Value::Null);
    assert_eq!(cluster.objects.hardware_profiles.len(), 12, "a Node variant of each, and a Queue variant");
}

#[test]
fn nodes_with_taints_that_say_gpu_are_tolerated_and_others_are_told_of() {
    let mut cluster = fleet();
    let taint = |cluster: &mut Cluster, node: &str, key: &str| {
        cluster.edit_node(node, |node| {
            node.spec.get_or_insert_default().taints = Some(vec![k8s_openapi::api::core::v1::Taint {
                key: key.to_owned(),
                effect: "NoSchedule".to_owned(),
                ..Default::default()
            }]);
        });
    };
    taint(&mut cluster, "n1", "nvidia.com/gpu");
    taint(&mut cluster, "n2", "maintenance");
    round(&mut cluster);
    let small = name(&cluster, &["1g-10gb"]);
    let spec = json!(profile(&mut cluster, &small).spec);
    assert_eq!(
        spec["scheduling"]["node"]["tolerations"],
        json!([{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}])
    );
    assert_eq!(cluster.round().menu.problems, []);
    taint(&mut cluster, "n1", "dedicated");
    let problems = cluster.round().menu.problems;
    assert!(problems[0].message.contains("have taints such as"), "{problems:?}");
}

#[test]
fn a_selector_that_labels_cannot_say_is_told_of_and_queues_are_served_nevertheless() {
    let mut cluster = fleet();
    cluster.settings.menu = Some(MenuSettings { queues: vec!["gpus".to_owned()], ..MenuSettings::default() });
    cluster.edit_policy(|policy| {
        policy.spec.node_selector = serde_json::from_value(
            json!({"matchExpressions": [{"key": "pool", "operator": "In", "values": ["research", "lab"]}]}),
        )
        .unwrap();
    });
    let done = round(&mut cluster);
    assert!(done.iter().all(|done| done.starts_with("create gpu-q-gpus-")), "{done:?}");
    assert_eq!(done.len(), 6);
    assert!(cluster.round().menu.problems[0].to_string().contains("spec.nodeSelector"));
}

#[test]
fn nothing_is_written_without_openshift_ai_or_while_the_clusters_data_settles() {
    let mut cluster = fleet();
    cluster.objects.installations.clear();
    assert_eq!(round(&mut cluster), [""; 0]);
    let mut cluster = fleet();
    cluster.obstacles.settles_until = Some(Timestamp::MAX);
    assert_eq!(round(&mut cluster), [""; 0]);
    let mut cluster = fleet();
    cluster.settings.menu = None;
    assert_eq!(round(&mut cluster), [""; 0]);
}

#[test]
fn a_spec_that_is_written_is_read_back_as_the_same_and_its_name_is_one() {
    let mut cluster = fleet();
    cluster.settings.menu = Some(MenuSettings { queues: vec!["a".repeat(63)], ..MenuSettings::default() });
    cluster.edit_policy(|policy| policy.metadata.name = Some("research".to_owned()));
    round(&mut cluster);
    for ((_, name), profile) in &cluster.objects.hardware_profiles {
        assert!(name.len() <= 63, "{name}");
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{name}");
        assert!(!name.contains("--") && profile.is_published(), "{name}");
        let shown = profile.annotation("opendatahub.io/display-name").unwrap();
        assert!(shown.len() <= 128 && shown.starts_with("GPU slice "), "{shown}");
    }
}
