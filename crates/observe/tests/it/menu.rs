//! The offers of hardware profiles must be attainable, otherwise a problem is reported.

use crate::words::*;
use serde_json::{Value, json};

fn offers(resource: &str) -> Value {
    let identifier =
        |name: &str| json!({"identifier": name, "displayName": name, "minCount": 1, "defaultCount": 1});
    json!({
        "apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile",
        "metadata": {"namespace": "redhat-ods-applications", "name": "slice"},
        "spec": {"identifiers": [identifier("cpu"), identifier("memory"), identifier(resource)]},
    })
}

/// What is said of a menu with this one offer.
#[track_caller]
fn check(resource: &str, beside: &[Value], expect: Option<&str>) {
    let mut objects = beside.to_vec();
    objects.push(offers(resource));
    let seen = see(&objects);
    let said: Vec<_> = seen.problems.iter().filter(|p| p.object.starts_with("HardwareProfile")).collect();
    let said: Vec<_> = said.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(said, expect.into_iter().collect::<Vec<_>>());
}

#[test]
fn an_offer_that_no_gpu_or_no_policy_can_meet_is_said() {
    let fleet = [node("n1"), policy("research")];
    check("nvidia.com/mig-1g.10gb", &fleet, None);
    check("nvidia.com/mig-1g.5gb", &fleet, Some("offers 1g.5gb, which no GPU of the fleet can have"));
    let misspelt = "offers `nvidia.com/mig-1g.10g`, which is not the resource of a profile; such resources are named like nvidia.com/mig-1g.10gb";
    check("nvidia.com/mig-1g.10g", &fleet, Some(misspelt));
    let mut never = policy("research");
    never["spec"]["layout"]["demandDriven"] = json!({"slices": [{"profile": "3g.40gb", "maxCount": 0}]});
    let refused = "offers 3g.40gb, which no policy of its nodes allows";
    check("nvidia.com/mig-3g.40gb", &[node("n1"), never.clone()], Some(refused));
    // Somebody else's node beside it has some.
    let mut other = cut(node("n2"), "all-3g.40gb", &[("mig-3g.40gb", 4)]);
    other["metadata"]["labels"]["pool"] = "theirs".into();
    check("nvidia.com/mig-3g.40gb", &[node("n1"), never, other], None);
}

/// Labels come some time after a node: until then nobody knows what it may have.
#[test]
fn what_a_node_has_whose_gpus_are_not_known_yet_is_not_denied() {
    let mut fresh = node("n2");
    fresh["metadata"]["labels"]["nvidia.com/gpu.product"] = Value::Null;
    let labels =
        fresh["metadata"]["labels"].as_object_mut().map(|labels| labels.remove("nvidia.com/gpu.product"));
    assert!(labels.is_some());
    check("nvidia.com/mig-1g.5gb", &[node("n1"), policy("research"), fresh], None);
}

/// What is said of a profile with these counts of a resource, or of its CPU.
#[track_caller]
fn counts(resource: &str, counts: &Value, expect: &[&str]) {
    let mut profile = offers("nvidia.com/mig-1g.10gb");
    let identifiers = profile["spec"]["identifiers"].as_array_mut().expect("there are some");
    let identifier = identifiers.iter_mut().find(|i| i["identifier"] == resource).expect("it is one of them");
    for (field, count) in counts.as_object().expect("counts have names") {
        identifier[field] = count.clone();
    }
    let seen = see(&[node("n1"), policy("research"), profile]);
    let said: Vec<_> = seen.problems.iter().filter(|p| p.object.starts_with("HardwareProfile")).collect();
    let said: Vec<_> = said.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), expect.len(), "{said:?}");
    for (said, expect) in said.iter().zip(expect) {
        assert!(said.contains(expect), "{said}");
    }
}

#[test]
fn a_profile_that_the_dashboard_hides_for_its_counts_is_said() {
    let slice = "nvidia.com/mig-1g.10gb";
    counts(slice, &json!({"maxCount": 1}), &[]);
    counts(slice, &json!({"minCount": "1", "defaultCount": "1", "maxCount": "1"}), &[]);
    counts("cpu", &json!({"minCount": "500m", "defaultCount": 2, "maxCount": "4"}), &[]);
    counts("memory", &json!({"minCount": "1Gi", "defaultCount": "8Gi", "maxCount": "16Gi"}), &[]);
    let over = "has for nvidia.com/mig-1g.10gb a minCount 2 that is more than defaultCount 1, so the dashboard hides the profile";
    counts(slice, &json!({"minCount": 2, "defaultCount": 1, "maxCount": 1}), &[over]);
    counts(
        "memory",
        &json!({"minCount": "8Gi", "defaultCount": "8Gi", "maxCount": "4Gi"}),
        &["defaultCount 8Gi that is more than maxCount 4Gi"],
    );
    counts(
        "cpu",
        &json!({"minCount": 4, "defaultCount": 2, "maxCount": 8}),
        &["minCount 4 that is more than defaultCount 2"],
    );
    counts(
        "cpu",
        &json!({"minCount": 1, "defaultCount": "9000m", "maxCount": 8}),
        &["defaultCount 9000m that is more than maxCount 8"],
    );
    counts(
        slice,
        &json!({"defaultCount": "one"}),
        &["defaultCount `one` that is no number, so the dashboard hides the profile"],
    );
    counts(slice, &json!({"minCount": "1.5"}), &["minCount `1.5` that is no whole number"]);
    counts("memory", &json!({"maxCount": "8 gigs"}), &["maxCount `8 gigs` that is no number"]);
    counts(slice, &json!({"minCount": 0}), &["minCount 0 that is less than 1"]);
}

/// Profiles without slices are somebody else's business.
#[test]
fn the_counts_of_a_profile_without_slices_are_not_judged() {
    let mut profile = offers("nvidia.com/gpu");
    profile["spec"]["identifiers"][0]["minCount"] = "many".into();
    let seen = see(&[node("n1"), policy("research"), profile]);
    assert_eq!(seen.problems.iter().filter(|p| p.object.starts_with("HardwareProfile")).count(), 0);
}
