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

/// A node with eight T4s, each for one pod, of another pool.
fn t4(name: &str) -> Value {
    let mut t4 = node(name);
    let labels = &mut t4["metadata"]["labels"];
    labels["pool"] = "notebooks".into();
    labels["nvidia.com/gpu.product"] = "Tesla-T4".into();
    labels["nvidia.com/gpu.count"] = "8".into();
    labels["nvidia.com/mig.capable"] = "false".into();
    t4["status"]["allocatable"]["nvidia.com/gpu"] = "8".into();
    t4
}

/// A policy that shares the T4s of that pool by four.
fn shares(rename: bool) -> Value {
    let mut policy = policy("notebooks");
    policy["spec"]["nodeSelector"] = json!({"matchLabels": {"pool": "notebooks"}});
    policy["spec"]["layout"] = json!({"type": "None"});
    policy["spec"]["sharing"] = json!({"type": "TimeSlicing", "rename": rename,
        "rules": [{"model": "T4", "resource": "nvidia.com/gpu", "replicas": 4}]});
    policy
}

#[test]
fn an_offer_of_whole_gpus_where_all_are_cut_and_none_is_made_whole_is_said() {
    let a1 = || cut(node("a1"), "all-1g.10gb", &[("mig-1g.10gb", 14)]);
    let never = "offers nvidia.com/gpu, which no policy of its nodes leaves or makes: write `wholeGpus` in a demand-driven layout, or `mig: Disabled` for some GPUs of a static one";
    check("nvidia.com/gpu", &[a1(), policy("research")], Some(never));
    // One that makes them, one that leaves them, a GPU that is whole, and cards that know no MIG.
    let mut makes = policy("research");
    makes["spec"]["layout"]["demandDriven"] = json!({"wholeGpus": {"maxCount": 2}});
    check("nvidia.com/gpu", &[a1(), makes.clone()], None);
    makes["spec"]["layout"]["demandDriven"] = json!({"wholeGpus": {"maxCount": 0}});
    check("nvidia.com/gpu", &[a1(), makes], Some(never));
    let mut leaves = policy("research");
    leaves["spec"]["layout"] = json!({"type": "Static", "static": {"gpus": [
        {"indices": [0], "mig": "Disabled"}, {"slices": [{"profile": "1g.10gb", "count": 7}]}]}});
    check("nvidia.com/gpu", &[a1(), leaves.clone()], None);
    // Rules by which GPUs are whole, and none of these two.
    for rule in [json!({"indices": [5], "mig": "Disabled"}), json!({"model": "H100-80GB", "mig": "Disabled"})]
    {
        leaves["spec"]["layout"]["static"]["gpus"][0] = rule;
        check("nvidia.com/gpu", &[a1(), leaves.clone()], Some(never));
    }
    check("nvidia.com/gpu", &[a1(), node("a2"), policy("research")], None);
    check("nvidia.com/gpu", &[a1(), t4("t1"), policy("research")], None);
    check("nvidia.com/gpu", &[], Some("offers nvidia.com/gpu, which no node of the fleet has"));
}

#[test]
fn an_offer_of_shares_that_nobody_makes_is_said_and_so_is_one_of_whole_gpus_that_are_shared() {
    let gpus = |n: &str| {
        let mut t4 = t4("t1");
        t4["status"]["allocatable"]["nvidia.com/gpu"] = n.into();
        t4
    };
    let none = "offers nvidia.com/gpu.shared, which no policy of its nodes makes of nvidia.com/gpu: write nvidia.com/gpu, or a rule of `spec.sharing` for it";
    check("nvidia.com/gpu.shared", &[t4("t1"), policy("research")], Some(none));
    check("nvidia.com/gpu.shared", &[t4("t1"), shares(false)], Some(none));
    // Before the node is shared, and while its GPUs are still for one pod each.
    check("nvidia.com/gpu.shared", &[t4("t1"), shares(true)], None);
    check("nvidia.com/gpu", &[t4("t1"), shares(true)], None);
    // Somebody else shares them.
    let mut theirs = gpus("0");
    theirs["status"]["allocatable"]["nvidia.com/gpu.shared"] = "32".into();
    check("nvidia.com/gpu.shared", &[theirs, policy("research")], None);

    // Once it is shared as its policy says, nobody can have one alone.
    let config = rollout::PluginConfig::of_gpus(4, true, true);
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "slicewright-plugin-config", "namespace": "nvidia-gpu-operator"},
        "data": {config.key(): config.render()},
    });
    let mut shared = gpus("0");
    shared["status"]["allocatable"]["nvidia.com/gpu.shared"] = "32".into();
    shared["metadata"]["labels"]["nvidia.com/device-plugin.config"] = config.key().into();
    shared["metadata"]["labels"]["nvidia.com/gpu.replicas"] = "4".into();
    let taken = "offers nvidia.com/gpu, which is called nvidia.com/gpu.shared on all of its nodes, where several pods share it: write that";
    check("nvidia.com/gpu", &[shared, map, shares(true)], Some(taken));
}

#[test]
fn slices_are_judged_by_the_name_that_they_have_and_not_for_nodes_that_are_never_cut() {
    let a1 = || cut(node("a1"), "all-1g.10gb", &[("mig-1g.10gb", 14)]);
    let none = "offers nvidia.com/mig-3g.40gb.shared, which no policy of its nodes makes of nvidia.com/mig-3g.40gb: write nvidia.com/mig-3g.40gb, or a rule of `spec.sharing` for it";
    check("nvidia.com/mig-3g.40gb.shared", &[a1(), policy("research")], Some(none));
    let mut by_two = policy("research");
    by_two["spec"]["sharing"] =
        json!({"type": "TimeSlicing", "rules": [{"resource": "nvidia.com/mig-3g.40gb", "replicas": 2}]});
    check("nvidia.com/mig-3g.40gb.shared", &[a1(), by_two.clone()], None);
    check("nvidia.com/mig-2g.20gb", &[a1(), by_two], None);
    // A pool of T4s beside it has no slices, however its GPUs are shared.
    let fleet = [node("n1"), policy("research"), t4("t1"), shares(true)];
    check("nvidia.com/mig-1g.5gb", &fleet, Some("offers 1g.5gb, which no GPU of the fleet can have"));
}

#[test]
fn a_profile_for_a_product_is_right_before_and_after_its_gpus_are_shared_under_their_own_name() {
    let said = |product: &str, resource: &str| {
        let mut profile = offers(resource);
        profile["spec"]["scheduling"] = json!({"type": "Node",
            "node": {"nodeSelector": {"nvidia.com/gpu.product": product}}});
        let seen = see(&[t4("t1"), shares(false), profile]);
        let said = seen.problems.iter().filter(|p| p.object.starts_with("HardwareProfile"));
        said.map(|problem| problem.message.clone()).collect::<Vec<_>>()
    };
    assert_eq!(said("Tesla-T4-SHARED", "nvidia.com/gpu"), [""; 0]);
    assert_eq!(said("Tesla-T4", "nvidia.com/gpu"), [""; 0]);
    let other = "offers nvidia.com/gpu, which no node that its node selector allows has";
    assert_eq!(said("NVIDIA-L40S", "nvidia.com/gpu"), [other]);
}

#[test]
fn more_than_one_share_is_no_second_gpu() {
    let mut profile = offers("nvidia.com/gpu.shared");
    profile["spec"]["identifiers"][2]["maxCount"] = 2.into();
    let seen = see(&[t4("t1"), shares(true), profile.clone()]);
    let said: Vec<_> = seen.problems.iter().filter(|p| p.object.starts_with("HardwareProfile")).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].to_string().contains("a second share gives no second GPU"), "{said:?}");
    // Of whole GPUs somebody may want several.
    profile["spec"]["identifiers"][2]["identifier"] = "nvidia.com/gpu".into();
    let seen = see(&[t4("t1"), profile]);
    assert_eq!(seen.problems.iter().filter(|p| p.object.starts_with("HardwareProfile")).count(), 0);
}
