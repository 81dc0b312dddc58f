//! Objects that a user with rights in one namespace can write, on a fleet of nodes with eight GPUs and
//! network cards: they can make others wait, but nothing more.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use crate::cluster::{Cluster, MANAGER, OPERATOR, PLUGIN, Until};
use planner::inventory::{Hold, Slices, Use};
use planner::names::{GpuIndex, NodeName};
use reconcile::Round;
use rollout::{Action, Outlook, Phase};
use serde_json::{Value, json};

/// Four nodes with eight GPUs each, the first of which has seven small slices
/// on each GPU.
fn fleet() -> Cluster {
    let mut cluster = Cluster::new();
    for name in ["n1", "n2", "n3", "n4"] {
        cluster.hgx(name);
    }
    cluster.is_cut("n1", "1g.10gb", 56);
    cluster
}

/// A node with eight cards without MIG, each of which four pods share by
/// somebody else's configuration.
fn add_sharing_node(cluster: &mut Cluster, name: &str) {
    cluster.node(name);
    cluster.edit_node(name, |node| {
        let labels = node.metadata.labels.get_or_insert_default();
        labels.retain(|key, _| !key.contains("/mig"));
        labels.insert("nvidia.com/gpu.product".to_owned(), "Tesla-T4-SHARED".to_owned());
        labels.insert("nvidia.com/gpu.count".to_owned(), "8".to_owned());
        labels.insert("nvidia.com/gpu.replicas".to_owned(), "4".to_owned());
        let allocatable = node.status.as_mut().unwrap().allocatable.as_mut().unwrap();
        allocatable.remove("nvidia.com/mig-7g.80gb");
        for (resource, n) in [("nvidia.com/gpu", "0"), ("nvidia.com/gpu.shared", "32")] {
            let quantity = k8s_openapi::apimachinery::pkg::api::resource::Quantity(n.to_owned());
            allocatable.insert(resource.to_owned(), quantity);
        }
    });
}

/// A pod of a tenant.
fn pod(name: &str, resource: &str, count: &str, on: Option<&str>) -> Value {
    let waits = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/4 nodes are available"}]);
    json!({
        "metadata": {"name": name, "namespace": "team", "uid": format!("u-{name}"),
            "creationTimestamp": "2026-11-21T08:00:00Z"},
        "spec": {"nodeName": on, "containers": [{"name": "main", "resources": {
            "limits": {resource: count}, "requests": {resource: count}}}]},
        "status": {"phase": "Pending", "conditions": if on.is_none() { waits } else { json!([]) }},
    })
}

fn hold<'a>(round: &'a Round, node: &str) -> Option<&'a Hold> {
    round.planned.view.inventory.nodes[&NodeName::from(node)].hold.as_ref()
}

#[test]
fn a_pod_that_asks_for_more_than_its_node_can_have_is_a_number_and_holds_nothing() {
    for count in ["57", "10000000", "4000000000", "9223372036854775807"] {
        let mut cluster = fleet();
        cluster.add_pod(pod("by-hand", "nvidia.com/mig-1g.10gb", count, Some("n1")));
        let round = cluster.round();
        assert_eq!(hold(&round, "n1"), None, "{count}");
        let gpu = &round.planned.view.inventory.nodes[&NodeName::from("n1")].gpus[&GpuIndex(0)];
        let Slices::Counted(slices) = &gpu.slices else { panic!("its slices are counted") };
        assert!(slices.iter().all(|slice| slice.used == Use::Idle));
        let said: Vec<_> = round
            .planned
            .view
            .problems
            .iter()
            .map(ToString::to_string)
            .filter(|p| p.contains("by-hand"))
            .collect();
        let number = count.parse::<u64>().unwrap().min(u64::from(u32::MAX));
        assert_eq!(
            said,
            [format!(
                "Pod team/by-hand: requests {number} nvidia.com/mig-1g.10gb, but node n1 can never have more than 56: the kubelet will refuse it, so it holds nothing"
            )]
        );
    }
}

#[test]
fn a_pod_that_the_kubelet_has_started_holds_what_it_asks_for_whatever_we_think_of_it() {
    let mut cluster = fleet();
    let mut started = pod("by-hand", "nvidia.com/mig-1g.10gb", "57", Some("n1"));
    started["status"]["phase"] = "Running".into();
    cluster.add_pod(started);
    let round = cluster.round();
    let Some(Hold::NotEstablished { why }) = hold(&round, "n1") else { panic!("it is left alone") };
    assert_eq!(why, "its pods hold 57 1g.10gb slice(s), but it has only 56");
}

/// Moments that a tenant can write where somebody was last active.
const TIMES: [&str; 6] = [
    "",
    "yesterday",
    "-009999-01-02T00:00:00Z",
    "9999-12-30T22:00:00Z",
    "99999-01-01T00:00:00Z",
    "2026-02-30T25:61:61+99:99",
];

/// Every number that a tenant can write, at every place.
#[test]
fn no_number_that_a_tenant_writes_is_counted_out() {
    let mut most = 0;
    let counts = [
        "-1",
        "0",
        "1",
        "4000000000",
        "4294967295",
        "4294967296",
        "9223372036854775807",
        "99999999999999999999999999999999999999",
        "1E",
        "9999999P",
        "1e30",
        "1e999999999",
        "1n",
        "0.000000000000000001",
    ];
    let resources = [
        "nvidia.com/mig-1g.10gb",
        "nvidia.com/mig-1g.10gb.shared",
        "nvidia.com/mig-255g.65535gb",
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "cpu",
        "memory",
        "ephemeral-storage",
    ];
    for count in counts {
        let mut cluster = fleet();
        add_sharing_node(&mut cluster, "s1");
        for (n, resource) in resources.iter().enumerate() {
            for on in [None, Some("n1"), Some("n2"), Some("s1"), Some("nowhere")] {
                let name = format!("p{n}-{}", on.unwrap_or("waits"));
                let mut pod = pod(&name, resource, count, on);
                pod["spec"]["overhead"] = json!({(*resource): count});
                pod["spec"]["resources"] = json!({"limits": {"cpu": count, "memory": count}});
                pod["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {"sizeLimit": count}}]);
                pod["spec"]["initContainers"] = json!([{"name": "init", "restartPolicy": "Always",
                    "resources": {"limits": {(*resource): count}}}]);
                cluster.add_pod(pod);
            }
            let mut asks = pod(&format!("asks-{n}"), resource, count, None);
            // A request that asks for a slice as well is planned for.
            asks["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/mig-2g.20gb"] = "1".into();
            cluster.add_pod(asks);
        }
        for (key, ordinal) in [
            ("apps.kubernetes.io/pod-index", count),
            ("batch.kubernetes.io/job-completion-index", "4294967295"),
        ] {
            let mut indexed = pod(&format!("set-{}", key.len()), "nvidia.com/mig-1g.10gb", "1", None);
            indexed["metadata"]["labels"] = json!({key: ordinal});
            indexed["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet",
                "name": "set", "uid": "u-set", "controller": true}]);
            cluster.add_pod(indexed);
        }
        let mut add = |api_version: &str, kind: &str, mut object: Value| {
            object["metadata"]["creationTimestamp"] = "2026-11-21T08:00:00Z".into();
            cluster.objects.add_value(api_version, kind, object, &mut |_| {});
        };
        add(
            "infrastructure.opendatahub.io/v1",
            "HardwareProfile",
            json!({
                "metadata": {"namespace": "team", "name": "large"},
                "spec": {"identifiers": [{"identifier": "nvidia.com/mig-1g.10gb", "displayName": "x",
                    "minCount": count, "maxCount": count, "defaultCount": count}]},
            }),
        );
        add(
            "kubeflow.org/v1",
            "Notebook",
            json!({
                "metadata": {"namespace": "team", "name": "lab",
                    "annotations": {"opendatahub.io/hardware-profile-name": "large"}},
                "spec": {"template": {"spec": {"priority": i32::MAX, "containers": [{"name": "lab"}]}}},
            }),
        );
        for (n, when) in TIMES.into_iter().enumerate() {
            let annotations = json!({"notebooks.kubeflow.org/last-activity": when,
                "opendatahub.io/hardware-profile-name": "large"});
            add(
                "kubeflow.org/v1",
                "Notebook",
                json!({
                    "metadata": {"namespace": "team", "name": format!("used-{n}"), "annotations": annotations},
                    "spec": {"template": {"spec": {"containers": [{"name": "lab",
                        "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}]}}},
                }),
            );
        }
        add(
            "kueue.x-k8s.io/v1beta1",
            "AdmissionCheck",
            json!({"metadata": {"name": "slicewright"}, "spec": {"controllerName": "slicewright.io/slices"}}),
        );
        for (n, many) in [i32::MIN, -1, 0, i32::MAX, i32::MAX].into_iter().enumerate() {
            let template = json!({"spec": {"priority": many, "containers": [{"name": "main",
                "resources": {"requests": {"nvidia.com/mig-1g.10gb": count}}}]}});
            add(
                "kueue.x-k8s.io/v1beta1",
                "Workload",
                json!({
                    "metadata": {"namespace": "team", "name": format!("queued-{n}")},
                    "spec": {"priority": many, "podSets": [{"name": "a", "count": many, "template": template},
                        {"name": "b", "count": many, "template": template}]},
                    "status": {"conditions": [{"type": "QuotaReserved", "status": "True", "reason": "r",
                        "message": "", "lastTransitionTime": "2026-11-21T08:00:00Z"}],
                        "admissionChecks": [{"name": "slicewright", "state": "Pending", "message": "",
                        "lastTransitionTime": "2026-11-21T08:00:00Z"}]},
                }),
            );
        }
        for name in ["n1", "n2"] {
            let round = cluster.round();
            assert!(round.planned.plan.checked().is_some(), "{count}: {:?}", round.planned.plan.notes());
            let from_numbers = round.planned.view.requests.iter().filter(|r| r.id.kind == "Workload").count();
            let seats = &round.planned.view.inventory.seating[&NodeName::from("s1")];
            assert_eq!(seats.total(), 32, "{count}");
            // 32 GPUs have room for 224 slices; each pod set beyond that is told so once.
            assert!(from_numbers <= 224 + 4, "{count}: {from_numbers} requests of {name}");
            most = most.max(from_numbers);
        }
    }
    assert!(most >= 224, "{most} requests at most: the workloads are not read");
}

#[test]
fn a_node_with_network_cards_is_cut_and_proved_and_a_pod_with_one_is_in_nobodys_way() {
    let mut cluster = fleet();
    cluster.policy(json!({"type": "DemandDriven", "demandDriven": {"slices": [
        {"profile": "3g.40gb", "minCount": 64}]}}));
    cluster.settle();
    for node in ["n2", "n3", "n4"] {
        assert_eq!(cluster.offers(node, "3g.40gb"), "16", "{node}");
        assert!(!cluster.is_cordoned(node));
    }
}

/// Pods of a tenant with the labels, the names and the looks of the GPU
/// Operator's, in a namespace that sorts before its own.
fn impostors(cluster: &mut Cluster, node: &str, ready: bool) {
    for app in [MANAGER, PLUGIN, "nvidia-cuda-validator", "nvidia-device-plugin-validator"] {
        cluster.add_pod(json!({
            "metadata": {"name": format!("{app}-{node}"), "namespace": "a-team", "uid": format!("u-a-{app}-{node}"),
                "labels": {"app": app},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": app, "uid": "u-a",
                    "controller": true}]},
            "spec": {"nodeName": node, "containers": [{"name": "main"}]},
            "status": {"phase": "Running",
                "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
        }));
    }
}

#[test]
fn impostors_of_operands_neither_fail_a_proof_nor_are_deleted() {
    assert!("a-team" < OPERATOR, "the impostors come first");
    let mut cluster = fleet();
    for node in ["n1", "n2", "n3", "n4"] {
        impostors(&mut cluster, node, false);
    }
    cluster.pod("asks", "3g.40gb", None);
    // A manager that fails is replaced: its own pod is, and no other.
    cluster.managers_fail = true;
    let mut deleted = Vec::new();
    for _ in 0..400 {
        let before = cluster.writes;
        let round = cluster.step(Until::End);
        for node in round.nodes.values() {
            for action in &node.advance.actions {
                if let Action::DeletePod { pod, .. } = action {
                    deleted.push(pod.namespace.clone());
                }
            }
        }
        cluster.managers_fail = deleted.is_empty();
        if cluster.writes == before {
            cluster.now =
                round.wake_at.unwrap_or(cluster.now).max(cluster.now + jiff::SignedDuration::from_secs(1));
        }
        if !deleted.is_empty() && round.nodes.values().all(|n| n.advance.progress.phase == Phase::Idle) {
            break;
        }
    }
    assert!(!deleted.is_empty() && deleted.iter().all(|namespace| namespace == OPERATOR), "{deleted:?}");
    let round = cluster.round();
    assert!(round.nodes.values().all(|n| !matches!(n.advance.outlook, Outlook::Failed(_))));
}

#[test]
fn a_holder_with_the_label_of_a_validator_keeps_its_slice() {
    for app in ["nvidia-cuda-validator", "nvidia-device-plugin-validator"] {
        let mut cluster = fleet();
        let mut holder = pod("holder", "nvidia.com/mig-1g.10gb", "1", Some("n1"));
        holder["metadata"]["labels"] = json!({"app": app});
        holder["status"]["phase"] = "Running".into();
        cluster.add_pod(holder);
        let round = cluster.round();
        let gpu = &round.planned.view.inventory.nodes[&NodeName::from("n1")].gpus[&GpuIndex(0)];
        let Slices::Counted(slices) = &gpu.slices else { panic!("its slices are counted") };
        assert!(slices.iter().all(|slice| matches!(slice.used, Use::MaybeInUse { .. })), "{app}");
    }
}
