//! What is published of slices that several pods share: a seat of each, under its own resource, with what it is worth
//! beside neighbours.

use std::collections::BTreeMap;

use api::foreign::cluster_policy::DevicePluginConfig;
use api::policy_status::SeatSupply;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use planner::names::PolicyName;
use rollout::{Method, PluginConfig, Shared};
use serde_json::json;

use super::{fleet, minutes, name, profile, round};
use crate::cluster::{Cluster, OPERATOR};

const SMALL: &str = "nvidia.com/mig-1g.10gb";

/// Two nodes with eight GPUs that are cut into small slices, each of which so many pods share by policy.
fn shared_by(replicas: u32) -> Cluster {
    let mut cluster = fleet();
    let of = BTreeMap::from([(SMALL.to_owned(), replicas)]);
    let shared = Shared { by: Method::TimeSlicing, rename: true, one_each: true, replicas: of };
    let config = PluginConfig { strategy: None, sharing: Some(shared) };
    let map: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": "slicewright-plugin-config", "namespace": OPERATOR, "resourceVersion": "9"},
        "data": {config.key(): config.render()},
    }))
    .unwrap();
    cluster.objects.config_maps.insert((OPERATOR.to_owned(), "slicewright-plugin-config".to_owned()), map);
    let operator = cluster.objects.cluster_policies.get_mut("gpu-cluster-policy").unwrap();
    operator.spec.device_plugin.config =
        Some(DevicePluginConfig { name: "slicewright-plugin-config".to_owned(), default: String::new() });
    cluster.edit_policy(|policy| {
        policy.spec.sharing = serde_json::from_value(json!({"type": "TimeSlicing", "rules": [
            {"resource": SMALL, "replicas": replicas},
        ]}))
        .unwrap();
    });
    for node in ["n1", "n2"] {
        cluster.edit_node(node, |node| {
            let labels = node.metadata.labels.get_or_insert_default();
            labels.remove("nvidia.com/mig-7g.80gb.count");
            for (key, value) in [
                ("nvidia.com/mig.config", "all-1g.10gb".to_owned()),
                ("nvidia.com/mig-1g.10gb.count", "56".to_owned()),
                ("nvidia.com/mig-1g.10gb.replicas", replicas.to_string()),
                ("nvidia.com/device-plugin.config", config.key()),
            ] {
                labels.insert(key.to_owned(), value);
            }
            let status = node.status.get_or_insert_default();
            for resources in [&mut status.allocatable, &mut status.capacity] {
                let resources = resources.get_or_insert_default();
                resources.remove("nvidia.com/mig-7g.80gb");
                resources.insert(format!("{SMALL}.shared"), Quantity((56 * replicas).to_string()));
            }
        });
    }
    cluster
}

#[test]
fn a_slice_that_several_share_is_offered_as_a_seat_and_says_what_that_is_worth() {
    let mut cluster = shared_by(2);
    round(&mut cluster);
    let seat = name(&cluster, &["1g-10gb"]);
    assert!(seat.contains("1g-10gb-shared-2"), "{seat}");
    let seat = profile(&mut cluster, &seat).clone();
    let (cpu, memory, slice) =
        (&seat.spec.identifiers[0], &seat.spec.identifiers[1], &seat.spec.identifiers[2]);
    assert_eq!(slice.identifier, "nvidia.com/mig-1g.10gb.shared");
    assert_eq!(slice.display_name, "GPU slice 1g.10gb, shared by 2");
    // Half of what a slice for one pod brings: 256 GiB, nine tenths of them, of 56 slices for two.
    assert_eq!((json!(cpu)["maxCount"].clone(), json!(memory)["maxCount"].clone()), (json!(1), json!("2Gi")));
    assert_eq!(
        seat.annotation("opendatahub.io/description"),
        Some(
            "1 compute slice and 10 GB of memory of a GPU, shared by 2 pods, with no memory limit of its own. If none is free, the workload waits until one is."
        )
    );
    let shown = seat.annotation("opendatahub.io/display-name").unwrap();
    assert!(shown.starts_with("GPU slice 1g.10gb, shared by 2 ("), "{shown}");
    // Large slices are for one pod each, as ever.
    let large = name(&cluster, &["3g-40gb"]);
    let large = profile(&mut cluster, &large).clone();
    assert_eq!(large.spec.identifiers[2].identifier, "nvidia.com/mig-3g.40gb");
    assert!(!large.annotation("opendatahub.io/description").unwrap().contains("shared"));
    assert_eq!(minutes(&mut cluster, 60), [""; 0], "and then there is rest");
}

#[test]
fn three_instead_of_two_is_another_offer_under_another_name() {
    let (mut two, mut three) = (shared_by(2), shared_by(3));
    round(&mut two);
    round(&mut three);
    let names = [name(&two, &["1g-10gb"]), name(&three, &["1g-10gb"])];
    assert_ne!(names[0], names[1]);
    assert!(names[1].contains("1g-10gb-shared-3"), "{names:?}");
}

#[test]
fn the_status_of_the_policy_counts_seats_beside_slices() {
    let mut cluster = shared_by(2);
    for (pod, node) in [("lab1", "n1"), ("lab2", "n1"), ("lab3", "n2")] {
        cluster.pod(pod, "1g.10gb.shared", Some(node));
    }
    let found = cluster.round();
    let status = &found.policies[&PolicyName("research".to_owned())];
    let expect = SeatSupply {
        resource: "nvidia.com/mig-1g.10gb.shared".to_owned(),
        devices: 112,
        total: 224,
        held: 3,
        free: 221,
        planned: 224,
        requested: 0,
        unserved: 0,
    };
    assert_eq!(status.seats, [expect]);
    let slices = status.supply.iter().find(|of| of.profile == "1g.10gb").unwrap();
    assert_eq!(slices.present, 112, "bounds go on counting slices");
}

#[test]
fn a_rule_for_slices_that_no_card_of_the_nodes_can_have_is_named_in_the_condition() {
    let mut cluster = shared_by(2);
    cluster.edit_policy(|policy| {
        policy.spec.sharing = serde_json::from_value(json!({"type": "TimeSlicing", "rules": [
            {"resource": SMALL, "replicas": 2},
            {"resource": "nvidia.com/mig-1g.5gb", "replicas": 2},
        ]}))
        .unwrap();
    });
    let (status, _, message) = Cluster::condition(&cluster.round(), "Accepted").unwrap();
    assert_eq!(status, "True", "the rule is right for other nodes");
    let warning = "Warning: spec.sharing.rules[1].resource: is `nvidia.com/mig-1g.5gb`, which no GPU of the 2 node(s) of this policy can have";
    assert!(message.contains(warning), "{message}");
}
