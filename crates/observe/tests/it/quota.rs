//! Where the quota of Kueue's queues does not fit the fleet, on nodes with eight GPUs on which others hold
//! slices: what is not covered, what no layout has, and less than what is held.

use observe::snapshot::record::{self, Recording};
use observe::snapshot::redact::{Keep, redact};
use observe::snapshot::{self, Provenance};
use observe::{ClusterView, Objects, manifest};
use serde_json::{Value, json};

use crate::words::*;

/// A node with eight A100-80GB, cut in small slices, of which somebody holds one.
fn hgx(name: &str) -> Vec<Value> {
    let mut node = cut(node(name), "all-1g.10gb", &[("mig-1g.10gb", 56)]);
    node["metadata"]["labels"]["nvidia.com/gpu.count"] = "8".into();
    vec![node, pod("team-b", &format!("holder-{name}"), &[("mig-1g.10gb", 1)], Some(name))]
}

fn fleet() -> Vec<Value> {
    ["n1", "n2"].into_iter().flat_map(hgx).collect()
}

fn kueue(kind: &str, name: &str, namespace: Option<&str>, rest: Value) -> Value {
    let mut object = rest;
    object["apiVersion"] = "kueue.x-k8s.io/v1beta2".into();
    object["kind"] = kind.into();
    object["metadata"] = json!({"name": name, "namespace": namespace});
    object
}

fn flavor(name: &str, labels: Value) -> Value {
    kueue("ResourceFlavor", name, None, json!({"spec": {"nodeLabels": labels}}))
}

fn queue(name: &str, flavor: &str, resource: &str, quota: u32) -> Value {
    kueue(
        "ClusterQueue",
        name,
        None,
        json!({"spec": {"resourceGroups": [{"coveredResources": [resource], "flavors": [
        {"name": flavor, "resources": [{"name": resource, "nominalQuota": quota}]}]}]}}),
    )
}

fn local(namespace: &str, name: &str, to: &str) -> Value {
    kueue("LocalQueue", name, Some(namespace), json!({"spec": {"clusterQueue": to}}))
}

/// A workbench in a queue without a check, as Kueue makes its workload.
fn workbench(namespace: &str, name: &str, queue: &str, resource: &str) -> Value {
    kueue(
        "Workload",
        &format!("statefulset-{name}"),
        Some(namespace),
        json!({
            "spec": {"queueName": queue, "podSets": [{"name": "main", "count": 1, "template": {"spec": {
                "containers": [{"name": name, "resources": {"limits": {resource: "1"}}}]}}}]},
            "status": {"conditions": [{"type": "QuotaReserved", "status": "False", "reason": "Pending",
                "message": "resource unavailable in ClusterQueue", "lastTransitionTime": "2026-11-21T08:00:00Z"}]},
        }),
    )
}

/// Kueue has looked at a workload, and says what it counts of it.
fn counted(mut workload: Value, resource: &str) -> Value {
    workload["status"]["resourceRequests"] = json!([{"name": "main", "resources": {resource: "1"}}]);
    workload
}

fn finished(mut workload: Value) -> Value {
    let mut finished = workload["status"]["conditions"][0].clone();
    (finished["type"], finished["status"]) = ("Finished".into(), "True".into());
    workload["status"]["conditions"].as_array_mut().expect("a list").push(finished);
    workload
}

fn drifts(seen: &ClusterView) -> Vec<String> {
    seen.drifts.iter().map(|drift| format!("{}: {drift}", drift.queue)).collect()
}

const SMALL: &str = "nvidia.com/mig-1g.10gb";
const LARGE: &str = "nvidia.com/mig-3g.40gb";
const WHOLE: &str = "nvidia.com/mig-7g.80gb";

#[test]
fn the_queue_that_openshift_ai_makes_covers_no_slice_that_people_ask_for() {
    let mut objects = fleet();
    let profile = json!({
        "apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile",
        "metadata": {"namespace": "redhat-ods-applications", "name": "three-of-seven"},
        "spec": {"scheduling": {"type": "Queue", "kueue": {"localQueueName": "default"}}, "identifiers": [
            {"identifier": "cpu", "displayName": "CPU", "minCount": 1, "defaultCount": 1},
            {"identifier": LARGE, "displayName": "slice", "minCount": 1, "defaultCount": 1}]},
    });
    objects.extend([
        policy("research"),
        flavor("nvidia-gpu-flavor", json!({})),
        // What the nodes said while their GPUs were whole.
        queue("default", "nvidia-gpu-flavor", "nvidia.com/gpu", 16),
        queue("elsewhere", "nvidia-gpu-flavor", "nvidia.com/gpu", 0),
        local("team-a", "default", "default"),
        local("team-b", "other", "elsewhere"),
        counted(workbench("team-a", "lab", "default", LARGE), LARGE),
        // One that has ended asks for nothing any more.
        finished(counted(workbench("team-a", "done", "default", WHOLE), WHOLE)),
        profile,
    ]);
    assert_eq!(
        drifts(&see(&objects)),
        [
            "default: nvidia.com/gpu in flavor nvidia-gpu-flavor: its nominalQuota is 16, but no layout of its nodes \
             has more than 0; lower the quota to 0",
            "default: nvidia.com/mig-3g.40gb is not covered, so that Kueue admits nobody who asks for it, and workloads \
             ask for it (team-a/statefulset-lab), hardware profiles offer it (redhat-ods-applications/three-of-seven); \
             add it to coveredResources in spec.resourceGroups of ClusterQueue default, with a nominalQuota in each flavor"
        ]
    );
}

/// A queue of `memory` of accelerators, which a workbench that asks for a large slice is in, of which Kueue says this.
fn of_transformed(status: Value) -> Vec<String> {
    let mut lab = workbench("team-a", "lab", "default", LARGE);
    for (member, value) in status.as_object().unwrap() {
        lab["status"][member] = value.clone();
    }
    let others = workbench("team-b", "other", "research", LARGE);
    let objects = [
        flavor("gpus", json!({})),
        queue("default", "gpus", "example.com/accelerator-memory", 640),
        queue("research", "gpus", "example.com/accelerator-memory", 640),
        local("team-a", "default", "default"),
        local("team-b", "research", "research"),
        lab,
        others,
    ];
    drifts(&see(&objects))
}

/// Kueue may be told to count something else instead of a slice. It says so of each workload at which it looks.
#[test]
fn a_queue_is_not_blamed_where_kueue_counts_something_else_instead_of_a_slice() {
    let counts = |resource: &str| json!([{"name": "main", "resources": {"cpu": "1", resource: "1"}}]);
    let transformed = of_transformed(json!({"resourceRequests": counts("example.com/accelerator-memory")}));
    assert_eq!(transformed, [""; 0], "neither this queue nor another one: it is configured for all");
    let admitted = of_transformed(json!({
        "conditions": [{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "",
            "lastTransitionTime": "2026-11-21T08:00:00Z"}],
        "admission": {"clusterQueue": "default", "podSetAssignments": [{"name": "main", "count": 1,
            "flavors": {"example.com/accelerator-memory": "gpus"}}]},
    }));
    assert_eq!(admitted, [""; 0]);
    // Nobody has said it yet.
    let unknown = of_transformed(json!({}));
    assert_eq!(unknown.len(), 2);
    assert!(
        unknown[0].starts_with(
            "default: nvidia.com/mig-3g.40gb is not covered, so that Kueue admits nobody who asks for it, unless its \
             configuration has it count something else instead, and workloads ask for it (team-a/statefulset-lab); add it"
        ),
        "{unknown:?}"
    );
    let counted = of_transformed(json!({"resourceRequests": counts(LARGE)}));
    assert_eq!(counted.len(), 2);
    assert!(counted[0].contains("admits nobody who asks for it, and workloads ask for it"), "{counted:?}");
}

/// What is said of a quota in one queue for the nodes of the pool.
fn of_quota(mut objects: Vec<Value>, resource: &str, quota: u32) -> Vec<String> {
    objects.push(flavor("pool", json!({"pool": "research"})));
    objects.push(queue("research", "pool", resource, quota));
    drifts(&see(&objects))
}

#[track_caller]
fn check_most(objects: &[Value], resource: &str, most: u32) {
    assert_eq!(of_quota(objects.to_vec(), resource, most), [""; 0]);
    let above = of_quota(objects.to_vec(), resource, most + 1);
    assert_eq!(above.len(), 1);
    assert!(above[0].contains(&format!("has more than {most}; lower the quota to {most}")), "{above:?}");
}

#[test]
fn a_quota_may_be_what_empty_gpus_could_have_whoever_holds_what_now() {
    let with = |layout: Value| {
        let mut policy = policy("research");
        policy["spec"]["layout"] = layout;
        [fleet(), vec![policy]].concat()
    };
    let on_demand = with(json!({"type": "DemandDriven"}));
    check_most(&on_demand, SMALL, 112);
    check_most(&on_demand, LARGE, 32);
    check_most(&on_demand, "nvidia.com/mig-4g.40gb", 16);
    // Two small slices are held, so no layout of today has 32 large ones: that passes.
    let capped = with(
        json!({"type": "DemandDriven", "demandDriven": {"slices": [{"profile": "3g.40gb", "maxCount": 5}]}}),
    );
    check_most(&capped, LARGE, 5);
    let said = of_quota(capped, LARGE, 8);
    assert!(said[0].ends_with("or raise maxCount of 3g.40gb in policy research"), "{said:?}");
    // More than the policy allows is there: it stays while somebody may hold it.
    let too_many = with(
        json!({"type": "DemandDriven", "demandDriven": {"slices": [{"profile": "1g.10gb", "maxCount": 5}]}}),
    );
    check_most(&too_many, SMALL, 112);
    let fixed = with(json!({"type": "Static", "static": {"gpus": [
        {"indices": [0, 1], "slices": [{"profile": "3g.40gb", "count": 2}]}, {"slices": [{"profile": "7g.80gb", "count": 1}]}]}}));
    check_most(&fixed, LARGE, 8);
    check_most(&fixed, "nvidia.com/mig-7g.80gb", 12);
    check_most(&fixed, SMALL, 0);
}

/// The nodes are all cut today, so they say that they have no whole GPU.
#[test]
fn whole_gpus_that_a_static_policy_wants_can_be_promised() {
    let with = |rules: Value| {
        let mut policy = policy("research");
        policy["spec"]["layout"] = json!({"type": "Static", "static": {"gpus": rules}});
        [fleet(), vec![policy]].concat()
    };
    let rules =
        json!([{"indices": [0, 1], "mig": "Disabled"}, {"slices": [{"profile": "1g.10gb", "count": 7}]}]);
    check_most(&with(rules.clone()), "nvidia.com/gpu", 4);
    check_most(&with(rules), SMALL, 84);
    check_most(&with(json!([{"mig": "Disabled"}])), "nvidia.com/gpu", 16);
    check_most(&with(json!([{"slices": [{"profile": "1g.10gb", "count": 7}]}])), "nvidia.com/gpu", 0);
}

#[test]
fn whole_gpus_that_requests_can_make_can_be_promised() {
    let with = |bounds: Value| {
        let mut policy = policy("research");
        policy["spec"]["layout"]["demandDriven"] = json!({"wholeGpus": bounds});
        [fleet(), vec![policy]].concat()
    };
    check_most(&with(json!({})), "nvidia.com/gpu", 16);
    check_most(&with(json!({"maxCount": 0})), "nvidia.com/gpu", 0);
    check_most(&with(json!({})), SMALL, 112);
}

#[test]
fn where_no_policy_cuts_a_node_it_offers_what_it_has() {
    check_most(&fleet(), SMALL, 112);
    check_most(&fleet(), LARGE, 0);
}

#[test]
fn under_strategy_single_no_profile_has_a_resource_of_its_own() {
    let mut objects = fleet();
    for node in objects.iter_mut().filter(|object| object["kind"] == "Node") {
        node["metadata"]["labels"]["nvidia.com/mig.strategy"] = "single".into();
        node["metadata"]["labels"]["nvidia.com/gpu.product"] = "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb".into();
        node["metadata"]["labels"]["nvidia.com/gpu.count"] = "56".into();
        let allocatable = &mut node["status"]["allocatable"];
        allocatable.as_object_mut().unwrap().remove(SMALL);
        allocatable["nvidia.com/gpu"] = "56".into();
    }
    objects.retain(|object| object["kind"] == "Node");
    check_most(&objects, "nvidia.com/gpu", 112);
    check_most(&objects, SMALL, 0);
}

#[test]
fn a_flavor_without_nodes_and_a_misspelt_resource_are_told_as_such() {
    let mut objects = [fleet(), vec![policy("research")]].concat();
    objects.push(flavor("other-pool", json!({"pool": "vision"})));
    objects.push(queue("vision", "other-pool", LARGE, 4));
    objects.push(queue("misspelt", "other-pool", "nvidia.com/mig-3g.40g", 4));
    let said = drifts(&see(&objects));
    assert!(said[0].contains("this is not the resource of a profile"), "{said:?}");
    assert!(said[1].contains("no node with a GPU has the nodeLabels of the flavor"), "{said:?}");
    assert_eq!(said.len(), 2);
}

/// 16 GPUs have 32 large slices at most.
#[test]
fn queues_that_fit_by_themselves_and_not_together_are_each_told_of_the_others() {
    let with = |queues: &[(&str, u32)]| {
        let mut objects = [fleet(), vec![policy("research"), flavor("pool", json!({}))]].concat();
        objects.extend(queues.iter().map(|(name, quota)| queue(name, "pool", LARGE, *quota)));
        drifts(&see(&objects))
    };
    assert_eq!(with(&[("research", 20), ("vision", 12), ("idle", 0)]), [""; 0]);
    let said = with(&[("research", 20), ("vision", 13), ("idle", 0)]);
    assert_eq!(
        said,
        [
            "research: nvidia.com/mig-3g.40gb in flavor pool: with the quota of vision for the same nodes, it is 33, but no \
             layout of its nodes has more than 32; Kueue admits people who then wait for slices: lower these quotas to 32 \
             in all, or put the queues into one cohort and let them borrow",
            "vision: nvidia.com/mig-3g.40gb in flavor pool: with the quota of research for the same nodes, it is 33, but no \
             layout of its nodes has more than 32; Kueue admits people who then wait for slices: lower these quotas to 32 \
             in all, or put the queues into one cohort and let them borrow",
        ]
    );
    // Where one is wrong by itself, that is said first.
    let said = with(&[("research", 33), ("vision", 13)]);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("research: ") && said[0].ends_with("lower the quota to 32"), "{said:?}");
    // Other nodes, or another profile, are another matter.
    let mut objects = [
        fleet(),
        vec![policy("research"), flavor("pool", json!({})), flavor("other", json!({"pool": "vision"}))],
    ]
    .concat();
    objects.extend([queue("a", "pool", LARGE, 32), queue("b", "pool", SMALL, 112)]);
    assert_eq!(drifts(&see(&objects)), [""; 0]);
}

#[test]
fn who_holds_more_than_the_quota_has_borrowed_it_unless_nobody_lends() {
    let check = |more: Value, is_drift: bool| {
        let mut queue = queue("research", "pool", SMALL, 4);
        queue["spec"].as_object_mut().unwrap().extend(more["spec"].as_object().unwrap().clone());
        if let Some(limit) = more.get("limit") {
            queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["borrowingLimit"] =
                limit.clone();
        }
        queue["status"] = json!({"flavorsReservation": [
            {"name": "pool", "resources": [{"name": SMALL, "total": "7", "borrowed": "3"}]}]});
        let objects = [fleet(), vec![policy("research"), flavor("pool", json!({})), queue]].concat();
        let said = drifts(&see(&objects));
        assert_eq!(said.len(), usize::from(is_drift), "{said:?}");
        said.into_iter().next().unwrap_or_default()
    };
    assert_eq!(
        check(json!({"spec": {}}), true),
        "research: nvidia.com/mig-1g.10gb in flavor pool: workloads hold 7, but its nominalQuota is 4; Kueue admits \
         nobody there until 3 are given back, or the quota is raised"
    );
    check(json!({"spec": {"cohortName": "ai"}}), false);
    check(json!({"spec": {"cohortName": "ai"}, "limit": "3"}), false);
    assert!(
        check(json!({"spec": {"cohort": "ai"}, "limit": 1}), true).contains("is 4 and 1 may be borrowed")
    );
}

#[test]
fn in_a_recording_without_names_the_same_quota_is_wrong_for_queues_of_other_names() {
    let mut world = Objects::default();
    let mut objects = fleet();
    objects.extend([
        policy("research"),
        flavor("pool", json!({})),
        queue("quagga", "pool", SMALL, 200),
        local("okapi", "quagga-labs", "quagga"),
        workbench("okapi", "gnu", "quagga-labs", LARGE),
    ]);
    for object in &objects {
        manifest::read(&mut world, "test.yaml", &object.to_string(), &mut Vec::new());
    }
    let (redacted, _) = redact(&world, &Keep::default());
    let recording = Recording { taken_at: now(), cluster: None, provenance: Provenance::default() };
    let text = record::text(&recording, &redacted);
    for secret in ["quagga", "okapi", "gnu"] {
        assert!(!text.contains(secret), "{secret} is left: {text}");
    }
    let mut problems = Vec::new();
    let read = snapshot::read("fleet.yaml", &text, &mut problems).objects;
    assert_eq!(problems, []);
    let seen = |objects: &Objects| {
        let seen = observe::observe(objects, mig::Catalog::builtin(), &observe::Settings::default(), now());
        let drifts = seen.drifts.into_iter();
        drifts.map(|d| (d.flavor.clone(), d.resource.clone(), d.what.name(), d.what.by())).collect::<Vec<_>>()
    };
    assert_eq!(seen(&world).len(), 2);
    assert_eq!(seen(&read), seen(&world), "who waits is still found in its queue");
    assert!(
        read.cluster_queues.keys().all(|name| name.starts_with("w-")),
        "{:?}",
        read.cluster_queues.keys()
    );
}
