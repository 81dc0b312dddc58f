//! What pods are made from is kept in parts, of which those that are equal are shared ([`TemplateSpec`]). Nobody who reads
//! may notice: the answers are those for templates in one piece.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::foreign::TemplateSpec;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodSpec;
use mig::Catalog;
use observe::objects::Objects;
use observe::snapshot::record::{self, Recording};
use observe::snapshot::redact::{Keep, redact};
use observe::snapshot::{self, Provenance};
use observe::{Settings, observe, pods};
use proptest::prelude::*;
use serde_json::{Value, json};

const RESOURCES: [&str; 6] = [
    "cpu",
    "nvidia.com/mig-1g.10gb",
    "nvidia.com/mig-3g.40gb",
    "nvidia.com/mig-oops",
    "nvidia.com/gpu",
    "rdma/nic",
];

fn now() -> Timestamp {
    "2026-11-20T08:00:00Z".parse().unwrap()
}

fn objects(all: Vec<Value>) -> Objects {
    let text = json!({
        "apiVersion": snapshot::API_VERSION, "kind": snapshot::KIND, "takenAt": now(), "objects": all,
    });
    let mut problems = Vec::new();
    let read = snapshot::read("fleet.yaml", &text.to_string(), &mut problems);
    assert_eq!(problems, []);
    read.objects
}

/// A container: its name is that of its object, or another.
fn container(of: &'static str) -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec![of, "proxy", ""]);
    let policy = prop::option::of(Just("Always"));
    (name, amounts(), amounts(), policy).prop_map(|(name, limits, requests, policy)| {
        let resources = (limits.is_some() || requests.is_some())
            .then(|| json!({"limits": limits, "requests": requests, "claims": null}));
        json!({"name": name, "resources": resources, "restartPolicy": policy})
    })
}

/// Of each resource an amount; some cannot be read.
fn amounts() -> impl Strategy<Value = Option<Value>> {
    let resources = prop::sample::subsequence(RESOURCES.to_vec(), 0..3);
    let amount = prop::sample::select(vec!["0", "1", "2", "500m", "many"]);
    let all = (resources, prop::collection::vec(amount, 3));
    prop::option::of(all.prop_map(|(resources, amounts)| resources.into_iter().zip(amounts).collect()))
}

fn volume() -> impl Strategy<Value = Value> {
    let names = || prop::sample::select(vec!["disk-a", "disk-b", "elsewhere"]);
    (names(), names(), 0..4u8).prop_map(|(name, claim, kind)| match kind {
        0 => json!({"name": name, "emptyDir": {}}),
        1 => json!({"name": name, "persistentVolumeClaim": {"claimName": claim}}),
        2 => json!({"name": name, "ephemeral": {}}),
        _ => json!({"name": name, "persistentVolumeClaim": {"claimName": name}}),
    })
}

/// What pods of an object of this name are made from.
fn template(of: &'static str) -> impl Strategy<Value = Value> {
    let containers = prop::collection::vec(container(of), 0..4);
    let init = prop::option::of(prop::collection::vec(container(of), 0..3));
    let volumes = prop::option::of(prop::collection::vec(volume(), 0..3));
    let selects = prop::option::of(prop::sample::select(vec!["gpu-1", "gpu-2"]));
    (containers, init, volumes, selects, prop::option::of(0..2i32)).prop_map(
        |(containers, init, volumes, selects, priority)| {
            let selector = selects.map(|host| json!({"kubernetes.io/hostname": host}));
            json!({"containers": containers, "initContainers": init, "volumes": volumes, "nodeSelector": selector,
                "priority": priority})
        },
    )
}

fn workbench() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec!["lab", "gnu"]);
    let annotations = (prop::option::of(Just("large")), prop::option::of(Just("disk-a")));
    name.prop_flat_map(move |name| (Just(name), template(name), annotations.clone())).prop_map(
        |(name, spec, (profile, claims))| {
            let profile = profile.map(|name| ("opendatahub.io/hardware-profile-name", name));
            let claims = claims.map(|claims| ("slicewright.io/volume-claims", claims));
            let annotations: serde_json::Map<_, _> = profile
                .into_iter()
                .chain(claims)
                .map(|(key, value)| (key.to_owned(), json!(value)))
                .collect();
            json!({"apiVersion": "kubeflow.org/v1", "kind": "Notebook",
                "metadata": {"namespace": "team", "name": name, "creationTimestamp": "2026-11-20T07:00:00Z",
                    "annotations": annotations},
                "spec": {"template": {"spec": spec}}})
        },
    )
}

fn workload() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec!["lab", "yak"]);
    let sets = name.prop_flat_map(|name| (Just(name), prop::collection::vec(template(name), 1..3)));
    (sets, any::<bool>(), prop::sample::select(vec!["Pending", "Ready", "Retry"])).prop_map(
        |((name, specs), has_quota, state)| {
            let sets: Vec<Value> = specs
                .into_iter()
                .enumerate()
                .map(|(n, spec)| json!({"name": format!("set-{n}"), "count": 2, "template": {"spec": spec}}))
                .collect();
            json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
                "metadata": {"namespace": "team", "name": format!("statefulset-{name}"),
                    "creationTimestamp": "2026-11-20T07:00:00Z",
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": "u"}]},
                "spec": {"queueName": "queue", "podSets": sets},
                "status": {
                    "conditions": [{"type": "QuotaReserved", "status": if has_quota { "True" } else { "False" },
                        "reason": "", "message": "", "lastTransitionTime": "2026-11-20T07:00:00Z"}],
                    "admission": {"clusterQueue": "queue", "podSetAssignments": [
                        {"name": "set-0", "flavors": {"nvidia.com/mig-1g.10gb": "pool"}, "count": 1}]},
                    "admissionChecks": [{"name": "gpu-slices", "state": state, "message": "", "podSetUpdates": [
                        {"name": "set-0", "nodeSelector": {"kubernetes.io/hostname": "gpu-1"}}]}]}})
        },
    )
}

/// What is asked in: nodes, a queue with a check of ours, a hardware profile, and disks of which one is on a node.
fn surroundings() -> Vec<Value> {
    let node = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name, "slicewright.io/pool": "research", "nvidia.com/gpu.present": "true",
                "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.count": "2",
                "nvidia.com/mig.capable": "true", "nvidia.com/mig.strategy": "mixed",
                "nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/mig.config.state": "success"}},
            "status": {"allocatable": {"nvidia.com/mig-1g.10gb": "14", "cpu": "64", "memory": "512Gi", "pods": "250"},
                "conditions": [{"type": "Ready", "status": "True"}]}})
    };
    let kueue = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let term = json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["gpu-2"]}]});
    vec![
        node("gpu-1"),
        node("gpu-2"),
        json!({"apiVersion": api::API_VERSION, "kind": "GpuPartitionPolicy", "metadata": {"name": "research"},
            "spec": {"nodeSelector": {"matchLabels": {"slicewright.io/pool": "research"}}, "layout": {"type": "DemandDriven"}}}),
        kueue("AdmissionCheck", "gpu-slices", json!({"controllerName": "slicewright.io/slices"})),
        kueue("ResourceFlavor", "pool", json!({"nodeLabels": {"slicewright.io/pool": "research"}})),
        kueue("ClusterQueue", "queue", json!({"resourceGroups": []})),
        json!({"apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile",
            "metadata": {"namespace": "team", "name": "large"},
            "spec": {"identifiers": [{"identifier": "nvidia.com/mig-3g.40gb", "displayName": "large", "defaultCount": 1}]}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "team", "name": "disk-a"},
            "spec": {"volumeName": "volume"}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "volume"},
            "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}}),
    ]
}

/// The same objects, with each template in one piece.
fn in_one_piece(small: &Objects) -> Objects {
    let mut whole = small.clone();
    let templates = |spec: &mut TemplateSpec| *spec = spec.in_one_piece();
    whole.notebooks.values_mut().for_each(|lab| templates(&mut Arc::make_mut(lab).spec.template.spec));
    for workload in whole.workloads.values_mut() {
        let sets = &mut Arc::make_mut(workload).spec.pod_sets;
        sets.iter_mut().for_each(|set| templates(&mut set.template.spec));
    }
    whole
}

fn recorded(objects: &Objects) -> String {
    let recording = Recording { taken_at: now(), cluster: None, provenance: Provenance::default() };
    record::text(&recording, objects)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, rng_seed: proptest::test_runner::RngSeed::Fixed(22), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whoever_reads_does_not_notice_that_templates_are_in_parts(
        workbenches in prop::collection::vec(workbench(), 0..3),
        workloads in prop::collection::vec(workload(), 0..3),
    ) {
        let mut all = surroundings();
        all.extend(workbenches);
        all.extend(workloads);
        let small = objects(all);
        let whole = in_one_piece(&small);
        let seen = |objects: &Objects| {
            format!("{:#?}", observe(objects, Catalog::builtin(), &Settings::default(), now()))
        };
        prop_assert_eq!(seen(&small), seen(&whole));
        prop_assert_eq!(recorded(&small), recorded(&whole));
        let redacted = |objects: &Objects| recorded(&redact(objects, &Keep::default()).0);
        prop_assert_eq!(redacted(&small), redacted(&whole));
    }

    #[test]
    fn a_template_takes_of_gpus_what_its_pods_take(spec in template("lab"), overhead in amounts()) {
        let mut spec: PodSpec = serde_json::from_value(spec).unwrap();
        spec.overhead = overhead.map(|all| serde_json::from_value(all).unwrap());
        let is_of_gpus = |(resource, n): &(String, u64)| *n > 0 && mig::GpuResource::is_one(resource);
        let takes: BTreeMap<_, _> = pods::all_that_it_takes(&spec).into_iter().filter(is_of_gpus).collect();
        let small = TemplateSpec::from(spec);
        prop_assert_eq!(&pods::gpus_of_template(&small), &takes);
        prop_assert_eq!(&pods::gpus_of_template(&small.in_one_piece()), &takes);
    }
}
