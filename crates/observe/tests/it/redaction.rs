//! A fleet that is recorded without the names of users' objects has the same plan: the plan of the redacted
//! fleet is the redacted plan. And none of the names is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use mig::Catalog;
use observe::objects::Objects;
use observe::snapshot::record::{self, Recording};
use observe::snapshot::redact::{Keep, redact};
use observe::snapshot::{self, Provenance, Pseudonyms, Redacted, Snapshot};
use observe::{ClusterView, Settings, observe};
use planner::decide::{Decision, decide};
use planner::demand::{Request, Together};
use planner::inventory::{Slices, Use};
use planner::names::PodRef;
use planner::plan::Plan;
use planner::report::Outcome;
use proptest::prelude::*;
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2026-11-20T08:00:00Z".parse().unwrap()
}

fn objects(all: Vec<Value>) -> Objects {
    let text = json!({
        "apiVersion": snapshot::API_VERSION, "kind": snapshot::KIND, "takenAt": now(), "objects": all,
    });
    read(&text.to_string()).objects
}

#[track_caller]
fn read(text: &str) -> Snapshot {
    let mut problems = Vec::new();
    let read = snapshot::read("fleet.yaml", text, &mut problems);
    assert_eq!(problems, [], "{text}");
    read
}

fn written(objects: &Objects, provenance: Provenance) -> String {
    let recording = Recording { taken_at: now(), cluster: Some("lab".to_owned()), provenance };
    record::text(&recording, objects)
}

fn node(name: &str, pool: &str, entry: &str, slices: &Value) -> Value {
    let mut allocatable = slices.clone();
    allocatable["cpu"] = json!("64");
    allocatable["memory"] = json!("512Gi");
    allocatable["pods"] = json!("250");
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "annotations": {"example.com/bought-by": "quagga-hardware"}, "labels": {
            "slicewright.io/pool": pool, "example.com/zone": "z1", "example.com/rack": name, "example.com/cost-center": "quagga",
            "nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
            "nvidia.com/gpu.count": "2", "nvidia.com/mig.capable": "true", "nvidia.com/mig.strategy": "mixed",
            "nvidia.com/mig.config": entry, "nvidia.com/mig.config.state": "success",
        }},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn policy(name: &str, pool: &str, layout: &Value) -> Value {
    json!({
        "apiVersion": api::API_VERSION, "kind": "GpuPartitionPolicy",
        "metadata": {"name": name, "annotations": {"example.com/owner": "quagga@example.com"}},
        "spec": {"nodeSelector": {"matchLabels": {"slicewright.io/pool": pool}}, "layout": layout},
    })
}

fn pod(namespace: &str, name: &str, owner: Option<(&str, &str)>, profile: &str, at: Option<&str>) -> Value {
    let owners: Vec<Value> = owner
        .iter()
        .map(|(kind, name)| {
            json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": true})
        })
        .collect();
    let mut labels = json!({"app": if namespace.starts_with("nvidia-") { "nvidia-device-plugin" } else { "quagga-app" }, "team": "quagga"});
    if let Some(("StatefulSet", name)) = owner {
        labels["statefulset"] = json!(name);
        labels["notebook-name"] = json!(name);
    }
    let resource = format!("nvidia.com/mig-{profile}");
    // Some keep apart from their siblings, by a label that nobody else selects by.
    let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"team": "quagga"}}, "topologyKey": "example.com/rack"}]}});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": namespace, "name": name, "labels": labels, "ownerReferences": owners,
            "creationTimestamp": "2026-11-20T07:00:00Z",
            "annotations": {"example.com/user": "quagga"},
        },
        "spec": {
            "nodeName": at,
            "affinity": if name.len() > 4 { apart } else { Value::Null },
            "containers": [{"name": name, "resources": {"limits": {"cpu": "1", resource: "1"}}}],
        },
        "status": if at.is_some() { json!({"phase": "Running"}) } else { json!({
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "quagga is in the way"}],
        }) },
    })
}

/// Who asks: namespace, name, what stands behind the pod, and the profile.
#[derive(Clone, Debug)]
struct Ask {
    namespace: String,
    name: String,
    kind: u8,
    profile: &'static str,
}

fn asks() -> impl Strategy<Value = Vec<Ask>> {
    // Names that sort in every way around each other and around names that are kept.
    let namespace = prop::sample::select(vec!["aye-aye", "dugong", "dugong-b", "okapi", "team-kept", "zebu"]);
    let name = prop::sample::select(vec!["gnu", "gnu-lab", "kudu", "serval", "serval2", "tapir"]);
    let profile = prop::sample::select(vec!["1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb"]);
    let ask = (namespace, name, 0..4u8, profile).prop_map(|(namespace, name, kind, profile)| Ask {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        kind,
        profile,
    });
    prop::collection::vec(ask, 0..12)
}

fn world(asks: &[Ask], holders: &[Ask]) -> Objects {
    let demand = json!({"type": "DemandDriven", "demandDriven": {
        "namespaceSelector": {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["none"]}]},
    }});
    let fixed =
        json!({"type": "Static", "static": {"gpus": [{"slices": [{"profile": "2g.20gb", "count": 3}]}]}});
    let mut all = vec![
        node("gpu-1", "research", "all-1g.10gb", &json!({"nvidia.com/mig-1g.10gb": "14"})),
        node("gpu-2", "research", "all-7g.80gb", &json!({"nvidia.com/mig-7g.80gb": "2"})),
        node("gpu-3", "teaching", "all-3g.40gb", &json!({"nvidia.com/mig-3g.40gb": "4"})),
        policy("research", "research", &demand),
        policy("teaching", "teaching", &fixed),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "okapi", "labels": {
            "kubernetes.io/metadata.name": "okapi", "tier": "gold", "quagga": "yes"}}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "zebu", "labels": {
            "kubernetes.io/metadata.name": "zebu", "tier": "none"}}}),
        pod("nvidia-gpu-operator", "nvidia-device-plugin-abcde", None, "none", Some("gpu-1")),
    ];
    for (number, Ask { namespace, name, kind, profile }) in asks.iter().enumerate() {
        let set =
            |name: &str| pod(namespace, &format!("{name}-0"), Some(("StatefulSet", name)), profile, None);
        match kind {
            // A workbench that has no pod yet.
            0 => all.push(json!({
                "apiVersion": "kubeflow.org/v1", "kind": "Notebook",
                "metadata": {
                    "namespace": namespace, "name": name, "creationTimestamp": "2026-11-20T07:00:00Z",
                    "annotations": {
                        "opendatahub.io/hardware-profile-name": "okapi-large",
                        "opendatahub.io/hardware-profile-namespace": "okapi",
                        "opendatahub.io/username": "quagga",
                    },
                },
                "spec": {"template": {"spec": {"containers": [
                    {"name": "quagga-proxy"},
                    {"name": name, "resources": {"limits": {"cpu": "1"}}},
                ]}}},
            })),
            1 => all.push(set(name)),
            2 => {
                let replicas = format!("{name}-5d8f");
                let owner = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": "u", "controller": true});
                all.push(json!({
                    "apiVersion": "apps/v1", "kind": "ReplicaSet",
                    "metadata": {"namespace": namespace, "name": replicas, "ownerReferences": [owner]},
                }));
                let name = format!("{replicas}-{number:05}");
                all.push(pod(namespace, &name, Some(("ReplicaSet", &replicas)), profile, None));
            }
            _ => {
                // Its disk is on a node, which is called by a label that nobody else selects by.
                let mut bare = pod(namespace, &format!("{name}.bare{number}"), None, profile, None);
                let claim = format!("{name}-serval-disk");
                bare["spec"]["volumes"] = json!([
                    {"name": "quagga", "persistentVolumeClaim": {"claimName": claim}},
                    {"name": "quagga2", "persistentVolumeClaim": {"claimName": "quagga-anywhere"}},
                ]);
                all.push(bare);
                let term = json!({"matchExpressions": [{"key": "disks.example.com/node", "operator": "In", "values": ["gpu-2"]}]});
                all.push(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "metadata": {"namespace": namespace, "name": claim}, "spec": {"volumeName": "quagga-volume"}}));
                all.push(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "quagga-volume"},
                    "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}}));
            }
        }
    }
    for (number, Ask { namespace, name, .. }) in holders.iter().enumerate() {
        all.push(pod(namespace, &format!("{name}-held{number}"), None, "1g.10gb", Some("gpu-1")));
        all.push(pod(namespace, &format!("{name}-kept{number}"), None, "3g.40gb", Some("gpu-3")));
    }
    all.push(json!({
        "apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile",
        "metadata": {"namespace": "okapi", "name": "okapi-large", "annotations": {"opendatahub.io/display-name": "quagga"}},
        "spec": {"identifiers": [
            {"identifier": "nvidia.com/mig-3g.40gb", "displayName": "quagga's", "defaultCount": 1},
            {"identifier": "cpu", "displayName": "CPU", "defaultCount": 2, "resourceType": "CPU"},
            {"identifier": "memory", "displayName": "Memory", "defaultCount": "8Gi", "resourceType": "Memory"},
        ]},
    }));
    objects(all)
}

fn planned(objects: &Objects) -> (ClusterView, Decision) {
    let seen = observe(objects, Catalog::builtin(), &Settings::default(), now());
    let decision = decide(&seen.inventory, &seen.requests, &seen.policies);
    (seen, decision)
}

fn used(used: &mut Use, names: &Pseudonyms) {
    match used {
        Use::Idle => {}
        Use::InUse { by } => *by = names.pod(by),
        Use::MaybeInUse { by } => by.iter_mut().for_each(|pod| *pod = names.pod(pod)),
    }
}

fn renamed(plan: &Plan, names: &Pseudonyms) -> Plan {
    let mut plan = plan.clone();
    for step in &mut plan.steps {
        step.evicts.iter_mut().for_each(|pod| *pod = names.pod(pod));
        step.serves.iter_mut().for_each(|id| *id = names.request(id));
        for gpu in &mut step.gpus {
            match &mut gpu.before {
                Slices::Placed(slices) => slices.iter_mut().for_each(|slice| used(&mut slice.used, names)),
                Slices::Counted(slices) => slices.iter_mut().for_each(|slice| used(&mut slice.used, names)),
                Slices::MigOff { used: of } => used(of, names),
            }
        }
    }
    plan
}

/// Everything of the requests but the labels of their namespaces, of which
/// those go that nobody selects by.
fn asked(requests: &[Request], names: Option<&Pseudonyms>) -> BTreeMap<String, Value> {
    let told = requests.iter().map(|request| {
        let id = names.map_or_else(|| request.id.clone(), |names| names.request(&request.id));
        // A rule by which it keeps apart has another name then, and the same meaning.
        let rules = request.keeps_apart.values().enumerate().map(|(n, label)| (n.to_string(), label.clone()));
        let near =
            request.together.rules.values().enumerate().map(|(n, label)| (n.to_string(), label.clone()));
        let nameless = |name: &Option<String>| name.as_ref().map(|_| String::new());
        let together = Together {
            gang: nameless(&request.together.gang),
            workload: nameless(&request.together.workload),
            rules: near.collect(),
        };
        let mut told = Request {
            id: id.clone(),
            namespace_labels: BTreeMap::new(),
            keeps_apart: rules.collect(),
            together,
            ..request.clone()
        };
        for volume in &mut told.constraints.volumes {
            let claim = |names: &Pseudonyms| names.thing(&request.id.namespace, &volume.claim);
            volume.claim = names.map_or_else(|| volume.claim.clone(), claim);
        }
        (id.to_string(), json!(told))
    });
    told.collect()
}

fn keep() -> Keep {
    Keep {
        namespaces: BTreeSet::from(["team-kept".to_owned()]),
        labels: BTreeSet::from(["example.com/zone".to_owned()]),
    }
}

/// What must not be left of the world.
const SECRETS: [&str; 12] = [
    "quagga",
    "aye-aye",
    "dugong",
    "okapi",
    "zebu",
    "gnu",
    "kudu",
    "serval",
    "tapir",
    "cost-center",
    "bought-by",
    "5d8f",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, rng_seed: proptest::test_runner::RngSeed::Fixed(24), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_plan_of_the_redacted_fleet_is_the_redacted_plan(asks in asks(), holders in asks()) {
        let world = world(&asks, &holders);
        let (redacted, names) = redact(&world, &keep());
        let provenance = Provenance {
            redacted: Some(Redacted { kept_namespaces: vec!["team-kept".into()], kept_labels: vec![] }),
            ..Provenance::default()
        };
        let text = written(&redacted, provenance.clone());
        for secret in SECRETS {
            prop_assert!(!text.contains(secret), "{secret} is left: {text}");
        }
        let read = read(&text);
        prop_assert_eq!(&read.provenance, &provenance);
        let ((before, plan), (after, hidden)) = (planned(&world), planned(&read.objects));
        prop_assert_eq!(asked(&before.requests, Some(&names)), asked(&after.requests, None));
        prop_assert_eq!(renamed(&plan.plan, &names), hidden.plan.clone());
        let outcomes = |decision: &Decision| {
            decision.report.policies.iter().map(|p| (p.policy.clone(), p.supply.clone())).collect::<Vec<_>>()
        };
        prop_assert_eq!(outcomes(&plan), outcomes(&hidden));
        prop_assert_eq!(plan.report.certificate, hidden.report.certificate);
    }

    #[test]
    fn a_fleet_that_is_written_and_read_is_planned_as_it_was(asks in asks(), holders in asks()) {
        let world = world(&asks, &holders);
        let read = read(&written(&world, Provenance::default())).objects;
        let ((before, plan), (after, again)) = (planned(&world), planned(&read));
        prop_assert_eq!(before.requests, after.requests);
        prop_assert_eq!(before.inventory, after.inventory);
        prop_assert_eq!(before.problems, after.problems);
        prop_assert_eq!(plan.plan, again.plan);
        prop_assert_eq!(written(&read, Provenance::default()), written(&world, Provenance::default()));
    }
}

/// A workload of a StatefulSet that has quota, and a check that is ours.
fn queued(namespace: &str, name: &str) -> Vec<Value> {
    let kueue = |kind: &str, mut object: Value| {
        object["apiVersion"] = json!("kueue.x-k8s.io/v1beta2");
        object["kind"] = json!(kind);
        object
    };
    vec![
        kueue(
            "AdmissionCheck",
            json!({"metadata": {"name": "gpu-slices", "labels": {"by": "quagga"}},
            "spec": {"controllerName": "slicewright.io/slices"}}),
        ),
        kueue(
            "ResourceFlavor",
            json!({"metadata": {"name": "pool"},
            "spec": {"nodeLabels": {"example.com/cost-centre": "c1"}}}),
        ),
        kueue(
            "Workload",
            json!({
                "metadata": {"namespace": namespace, "name": format!("statefulset-{name}-5d8f1"),
                    "creationTimestamp": "2026-11-20T07:00:00Z",
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": "u"}]},
                "spec": {"queueName": "quagga-queue", "podSets": [{"name": "main", "count": 2, "template": {"spec": {
                    "containers": [{"name": name, "resources": {"limits": {"nvidia.com/mig-2g.20gb": "1"}}}]}}}]},
                "status": {
                    "conditions": [{"type": "QuotaReserved", "status": "True", "reason": "", "message": "by quagga",
                        "lastTransitionTime": "2026-11-20T07:00:00Z"}],
                    "admission": {"clusterQueue": "quagga", "podSetAssignments": [
                        {"name": "main", "flavors": {"nvidia.com/mig-2g.20gb": "pool"}, "count": 2}]},
                    "admissionChecks": [{"name": "gpu-slices", "state": "Pending",
                        "message": format!("not served: {namespace}/{name} has it")}],
                },
            }),
        ),
    ]
}

#[test]
fn what_waits_in_a_queue_is_recorded_without_names_and_is_the_same_request() {
    let mut all = queued("dugong", "gnu");
    let mut n1 = node("n1", "a", "all-2g.20gb", &json!({"nvidia.com/mig-2g.20gb": "6"}));
    n1["metadata"]["labels"]["example.com/cost-centre"] = json!("c1");
    all.extend([n1, policy("a", "a", &json!({"type": "DemandDriven"}))]);
    let world = objects(all);
    let (redacted, names) = redact(&world, &Keep::default());
    let text = written(&redacted, Provenance::default());
    for secret in ["quagga", "dugong", "gnu", "5d8f"] {
        assert!(!text.contains(secret), "{secret} is left: {text}");
    }
    let ((before, plan), (after, hidden)) = (planned(&world), planned(&read(&text).objects));
    assert_eq!(before.requests.len(), 2, "{:?}", before.problems);
    assert_eq!(asked(&before.requests, Some(&names)), asked(&after.requests, None));
    let served = |decision: &Decision| {
        let outcomes = decision.report.requests.iter().map(|report| &report.outcome);
        outcomes.filter(|outcome| !matches!(outcome, Outcome::Unserved { .. })).count()
    };
    assert_eq!((served(&plan), served(&hidden)), (2, 2), "the label of the flavor is kept");
    assert_eq!(after.queued.len(), 1);
}

/// By which rules pods that are to come keep apart is told by a number.
#[test]
fn how_the_pods_of_a_workload_will_keep_apart_is_recorded_without_what_they_select_by() {
    let mut all = queued("dugong", "gnu");
    let template = &mut all[2]["spec"]["podSets"][0]["template"];
    template["metadata"] = json!({"labels": {"app": "quagga", "team": "okapi"}});
    template["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "quagga"}}, "topologyKey": "kubernetes.io/hostname"}]}});
    let world = objects(all);
    let (redacted, _) = redact(&world, &Keep::default());
    let text = written(&redacted, Provenance::default());
    for secret in ["quagga", "okapi", "podAntiAffinity"] {
        assert!(!text.contains(secret), "{secret} is left: {text}");
    }
    for of in [&world, &read(&text).objects] {
        let apart: Vec<usize> =
            planned(of).0.requests.iter().map(|request| request.keeps_apart.len()).collect();
        assert_eq!(apart, [1, 1]);
    }
}

/// Which job is in the way of which is told by numbers.
#[test]
fn jobs_that_are_placed_exclusively_are_recorded_without_what_they_are_called() {
    let policy = policy("research", "research", &json!({"type": "DemandDriven"}));
    let cut = json!({"nvidia.com/mig-1g.10gb": "14"});
    let mut all = vec![policy];
    all.extend(["gpu-1", "gpu-2"].map(|name| node(name, "research", "all-1g.10gb", &cut)));
    for (job, at) in [("quagga-a", Some("gpu-1")), ("quagga-b", None)] {
        let mut pod = pod("okapi", "gnu", None, "1g.10gb", at);
        pod["metadata"]["name"] = json!(format!("{job}-0"));
        let of = "jobset.sigs.k8s.io/job-key";
        pod["metadata"]["labels"] = json!({of: job, "jobset.sigs.k8s.io/priority": "0"});
        let others =
            json!([{"key": of, "operator": "Exists"}, {"key": of, "operator": "NotIn", "values": [job]}]);
        pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([
            {"labelSelector": {"matchExpressions": others}, "topologyKey": "example.com/rack", "namespaceSelector": {}}]);
        all.push(pod);
    }
    let annotations =
        json!({"alpha.jobset.sigs.k8s.io/exclusive-topology": "example.com/zone", "of": "quagga"});
    all.push(json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"namespace": "okapi", "name": "quagga-c", "annotations": annotations}}));
    let world = objects(all);
    let (redacted, _) = redact(&world, &Keep::default());
    let text = written(&redacted, Provenance::default());
    let placed = read(&text).objects.placed_alone;
    assert_eq!(placed.values().collect::<Vec<_>>(), ["example.com/zone"]);
    let zone = |node: &Arc<Node>| {
        node.metadata.labels.as_ref().is_some_and(|all| all.contains_key("example.com/zone"))
    };
    assert!(redacted.nodes.values().all(zone), "nodes have the label that it names");
    assert_eq!(placed, redacted.placed_alone);
    assert_eq!(read(&written(&world, Provenance::default())).objects.placed_alone, world.placed_alone);
    let called = ["quagga-a", "quagga-b"].map(|job| planner::plan::digest(job.as_bytes()));
    for secret in called.iter().map(String::as_str).chain(["quagga", "podAntiAffinity", "job-key"]) {
        assert!(!text.contains(secret), "{secret} is left: {text}");
    }
    for of in [&world, &read(&text).objects] {
        let report = planned(of).1.report;
        let served: Vec<String> = { report.requests.iter() }
            .map(|request| match &request.outcome {
                Outcome::ServedNow { node, .. } | Outcome::ServedByPlan { node, .. } => node.to_string(),
                Outcome::Unserved { why, .. } => why.to_string(),
            })
            .collect();
        assert_eq!(served, ["gpu-2"]);
    }
}

#[test]
fn who_holds_a_slice_and_is_idle_is_recorded_without_a_name_whatever_stands_where_the_time_should() {
    let lab = |name: &str, active: &str| {
        json!({"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "metadata": {
            "namespace": "dugong", "name": name, "annotations": {"notebooks.kubeflow.org/last-activity": active}}})
    };
    let world = objects(vec![
        node("n1", "a", "all-2g.20gb", &json!({"nvidia.com/mig-2g.20gb": "6"})),
        lab("gnu", "2026-11-20T05:00:00Z[quagga]"),
        pod("dugong", "gnu-0", Some(("StatefulSet", "gnu")), "2g.20gb", Some("n1")),
        lab("yak", "since quagga went"),
        pod("dugong", "yak-0", Some(("StatefulSet", "yak")), "2g.20gb", Some("n1")),
    ]);
    let text = written(&redact(&world, &Keep::default()).0, Provenance::default());
    for secret in ["quagga", "dugong", "gnu", "yak"] {
        assert!(!text.contains(secret), "{secret} is left: {text}");
    }
    let since = |objects: &Objects| {
        let (seen, _) = planned(objects);
        seen.idle.holders.iter().map(|holder| (holder.node.0.clone(), holder.since)).collect::<Vec<_>>()
    };
    let hidden = since(&read(&text).objects);
    assert_eq!(hidden.len(), 1, "{hidden:?}");
    assert_eq!(hidden[0].1, since(&world)[0].1);
}

#[test]
fn what_expectations_and_policies_speak_of_keeps_its_name() {
    let ask = |namespace: &str| Ask {
        namespace: namespace.to_owned(),
        name: "gnu".to_owned(),
        kind: 1,
        profile: "1g.10gb",
    };
    let mut world = world(&[ask("team-kept"), ask("okapi")], &[]);
    let named = policy(
        "named",
        "other",
        &json!({"type": "DemandDriven", "demandDriven": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "okapi"}},
        }}),
    );
    world.policies.extend(objects(vec![named]).policies);
    let (redacted, _) = redact(&world, &keep());
    let pods: Vec<&str> = redacted.pods.keys().map(|(namespace, _)| namespace.as_str()).collect();
    assert_eq!(pods, ["nvidia-gpu-operator", "okapi", "team-kept"]);
    let labels = redacted.nodes["gpu-1"].metadata.labels.as_ref().unwrap();
    assert!(labels.contains_key("example.com/zone") && !labels.contains_key("example.com/cost-center"));
    assert_eq!(
        redacted.pods.keys().map(|(_, name)| name.as_str()).collect::<Vec<_>>(),
        ["nvidia-device-plugin-abcde", "w-1-0", "w-1-0"]
    );
}

#[test]
fn a_node_that_is_on_its_way_tells_no_names() {
    let mut world =
        world(&[Ask { namespace: "okapi".into(), name: "gnu".into(), kind: 1, profile: "1g.10gb" }], &[]);
    let seen = json!({
        "apiVersion": api::API_VERSION, "kind": "GpuNode", "metadata": {"name": "gpu-1"},
        "spec": {},
        "status": {
            "conditions": [{"type": "Ready", "status": "False", "reason": "Waiting", "message": "waits for okapi/gnu-0.", "lastTransitionTime": "2026-11-20T07:00:00Z"}],
            "observed": {"by": "Controller", "at": "2026-11-20T07:00:00Z", "gpus": [{"index": 0, "model": "A100-80GB", "migEnabled": true,
                "slices": [{"profile": "1g.10gb", "used": "MaybeInUse", "by": [{"namespace": "okapi", "name": "gnu-0"}, {"namespace": "dugong", "name": "gone-7"}]}]}]},
            "rollout": {"phase": "Idle", "lastError": "okapi/gnu-0 cannot be evicted"},
        },
    });
    world.gpu_nodes.extend(objects(vec![seen]).gpu_nodes);
    let (redacted, names) = redact(&world, &Keep::default());
    let text = written(&redacted, Provenance::default());
    for secret in ["okapi", "gnu", "dugong", "gone"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    let status = redacted.gpu_nodes["gpu-1"].status.as_ref().unwrap();
    let pod = names.pod(&PodRef { namespace: "okapi".to_owned(), name: "gnu-0".to_owned() });
    assert!(redacted.pods.contains_key(&(pod.namespace.clone(), pod.name.clone())));
    assert_eq!(status.conditions[0].message, format!("waits for {pod}."));
    let _ = read(&text);
}
