//! Seats: GPUs of nodes that are not cut, slices that several pods share, and who asks for either.

use std::collections::BTreeMap;

use mig::ProfileName;
use planner::inventory::{Seating, Sharing, Use};
use planner::names::NodeName;
use planner::report::Offered;
use rollout::{Method, PluginConfig, Shared};
use serde_json::{Value, json};

use crate::words::{cut, node, node_of, pod, policy, see, texts};

/// A node with so many cards without MIG.
fn cards(name: &str, product: &str, gpus: u32) -> Value {
    let mut cards = node(name);
    let labels = &mut cards["metadata"]["labels"];
    labels["nvidia.com/gpu.product"] = product.into();
    labels["nvidia.com/gpu.count"] = gpus.to_string().into();
    labels["nvidia.com/mig.capable"] = "false".into();
    labels["pool"] = "notebooks".into();
    cards["status"]["allocatable"]["nvidia.com/gpu"] = gpus.to_string().into();
    cards
}

/// The same, shared by four under a name of its own, by somebody else's configuration.
fn shared(mut cards: Value, gpus: u32) -> Value {
    let labels = &mut cards["metadata"]["labels"];
    let product = labels["nvidia.com/gpu.product"].as_str().unwrap().to_owned();
    labels["nvidia.com/gpu.product"] = format!("{product}-SHARED").into();
    labels["nvidia.com/gpu.replicas"] = "4".into();
    let allocatable = &mut cards["status"]["allocatable"];
    allocatable["nvidia.com/gpu"] = "0".into();
    allocatable["nvidia.com/gpu.shared"] = (gpus * 4).to_string().into();
    cards
}

/// Our map of configurations, and a node that is told one of them.
fn told(mut node: Value, config: &PluginConfig) -> [Value; 2] {
    node["metadata"]["labels"]["nvidia.com/device-plugin.config"] = config.key().into();
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "slicewright-plugin-config", "namespace": "nvidia-gpu-operator"},
        "data": {config.key(): config.render()},
    });
    [node, map]
}

fn seating<'s>(seen: &'s observe::ClusterView, name: &str) -> &'s Seating {
    &seen.inventory.seating[&NodeName::from(name)]
}

#[test]
fn nodes_without_mig_are_supply_in_seats_whoever_shares_them() {
    let mut gone = cards("v1", "Tesla-V100-SXM2-32GB", 8);
    gone["status"]["conditions"][0]["status"] = "False".into();
    let seen = see(&[
        policy("research"),
        cards("t1", "Tesla-T4", 4),
        shared(cards("l1", "NVIDIA-L4", 2), 2),
        gone,
        cut(node("a1"), "all-1g.10gb", &[("mig-1g.10gb", 14)]),
        pod("a", "train", &[("gpu", 1)], Some("t1")),
        pod("a", "lab-0", &[("gpu.shared", 1)], Some("l1")),
        pod("b", "lab-1", &[("gpu.shared", 2)], Some("l1")),
    ]);
    assert_eq!(texts(&seen.problems), [] as [&str; 0]);
    assert_eq!(seating(&seen, "t1").to_string(), "4 x T4, as nvidia.com/gpu: 1 held, 3 free");
    assert_eq!(
        seating(&seen, "l1").to_string(),
        "2 x L4, each shared by 4, as nvidia.com/gpu.shared: 8 seats, 3 held, 5 free"
    );
    assert!(!seating(&seen, "v1").node.schedulable, "it is not ready");
    assert!(!seen.inventory.seating.contains_key(&NodeName::from("a1")), "it is cut");
    assert!(!seen.inventory.nodes.contains_key(&NodeName::from("t1")), "nothing is planned for it");
}

/// Somebody writes `spec.nodeName` by hand: the scheduler places no such pod.
#[test]
fn a_pod_that_asks_for_more_seats_than_a_node_can_ever_have_holds_none_until_it_is_started() {
    let by_hand = |phase: &str| {
        let mut pod = pod("a", "greedy", &[("gpu.shared", 4_000_000_000)], Some("l1"));
        pod["status"]["phase"] = phase.into();
        pod
    };
    let fleet = |greedy: Value| {
        see(&[
            policy("research"),
            shared(cards("l1", "NVIDIA-L4", 8), 8),
            shared(cards("l2", "NVIDIA-L4", 8), 8),
            pod("a", "lab-0", &[("gpu.shared", 3)], Some("l1")),
            greedy,
        ])
    };
    let seen = fleet(by_hand("Pending"));
    assert_eq!((seating(&seen, "l1").held(), seating(&seen, "l2").held()), (3, 0));
    assert_eq!(
        texts(&seen.problems),
        [
            "Pod a/greedy: requests 4000000000 nvidia.com/gpu.shared, but node l1 can never have more than 384: the kubelet will refuse it, so it holds nothing"
        ]
    );
    // What the kubelet has started has what it asks for, whatever we think of it.
    let seen = fleet(by_hand("Running"));
    assert_eq!(seating(&seen, "l1").held(), 4_000_000_003);
    // As many as another sharing of the same GPUs could offer may be given to it yet.
    let mut fits = by_hand("Pending");
    fits["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu.shared"] = "384".into();
    assert_eq!(seating(&fleet(fits), "l1").held(), 387);
}

#[test]
fn shared_resources_are_requests_and_no_slip_of_the_pen() {
    let seen = see(&[
        policy("research"),
        node("a1"),
        shared(cards("t1", "Tesla-T4", 2), 2),
        pod("a", "gpu", &[("gpu.shared", 1)], None),
        pod("a", "slice", &[("mig-1g.10gb.shared", 1)], None),
        pod("a", "oops", &[("mig-oops.shared", 1)], None),
    ]);
    let asks = |name: &str| seen.requests.iter().find(|r| r.id.name == name).expect("a request");
    assert_eq!(asks("gpu").shared, BTreeMap::from([(Offered::SharedGpu, 1)]));
    let profile: ProfileName = "1g.10gb".parse().unwrap();
    assert_eq!(asks("slice").shared, BTreeMap::from([(Offered::SharedSlice(profile), 1)]));
    assert!(asks("gpu").refused.is_none() && asks("slice").refused.is_none());
    assert!(asks("oops").refused.is_some());
    assert_eq!(texts(&seen.problems).len(), 1, "{:?}", texts(&seen.problems));
}

#[test]
fn where_a_container_may_ask_for_one_seat_who_asks_for_two_is_refused_for_good() {
    let one_each = PluginConfig::of_gpus(4, true, true);
    let [t1, map] = told(shared(cards("t1", "Tesla-T4", 2), 2), &one_each);
    let mut in_two = pod("a", "in-two", &[("gpu.shared", 1)], None);
    let container = in_two["spec"]["containers"][0].clone();
    in_two["spec"]["containers"].as_array_mut().unwrap().push(container);
    in_two["spec"]["containers"][1]["name"] = "other".into();
    let objects = vec![t1, map, pod("a", "greedy", &[("gpu.shared", 2)], None), in_two];
    let refusal = |objects: &[Value], name: &str| {
        let seen = see(objects);
        let found = seen.requests.iter().find(|r| r.id.name == name).expect("a request");
        found.refused.clone()
    };
    let greedy = refusal(&objects, "greedy").expect("the device plugin refuses it");
    assert!(
        greedy.why.contains("one of its containers asks for 2 of nvidia.com/gpu.shared"),
        "{}",
        greedy.why
    );
    assert_eq!(greedy.advice, "ask for one nvidia.com/gpu.shared in each container");
    assert_eq!(refusal(&objects, "in-two"), None, "each of its containers has one");
    // Somebody else's configuration says nothing of it, so there it may be.
    let mut beside = objects;
    beside.push(shared(cards("t2", "Tesla-T4", 2), 2));
    assert_eq!(refusal(&beside, "greedy"), None);
}

/// A server that is cut into slices of which each is shared by two.
fn server() -> [Value; 2] {
    let replicas = BTreeMap::from([("nvidia.com/mig-1g.10gb".to_owned(), 2)]);
    let sharing = Shared { by: Method::TimeSlicing, rename: true, one_each: true, replicas };
    let config = PluginConfig { strategy: None, sharing: Some(sharing) };
    let mut a1 = cut(node("a1"), "all-1g.10gb", &[("mig-1g.10gb.shared", 28)]);
    a1["metadata"]["labels"]["nvidia.com/mig-1g.10gb.replicas"] = "2".into();
    told(a1, &config)
}

#[test]
fn a_slice_that_two_share_is_idle_only_when_no_pod_of_the_node_has_a_seat_of_its_profile() {
    let profile: ProfileName = "1g.10gb".parse().unwrap();
    let with = |holders: &[(&str, &str)]| {
        let mut objects = vec![policy("research")];
        objects.extend(server());
        objects.extend(holders.iter().map(|(name, asks)| pod("a", name, &[(asks, 1)], Some("a1"))));
        let seen = see(&objects);
        assert_eq!(texts(&seen.problems), [] as [&str; 0]);
        node_of(&seen, "a1").clone()
    };
    let both = with(&[("ada", "mig-1g.10gb.shared"), ("bob", "mig-1g.10gb.shared")]);
    assert_eq!(both.hold, None, "what is shared as we say is no doubt");
    assert_eq!(both.shared[&profile], Sharing { replicas: 2, renamed: true, one_each: true });
    assert_eq!(both.allocated[&profile], 2);
    let uses = |node: &planner::inventory::Node| -> Vec<Use> {
        let slices = node.gpus.values().flat_map(|gpu| gpu.slices.iter());
        slices.map(|slice| slice.used.clone()).collect()
    };
    // Nobody knows on which of the 14 they sit: on one, or on two.
    assert_eq!(uses(&both).len(), 14);
    assert!(uses(&both).iter().all(|used| used.holders().len() == 2), "{:?}", uses(&both));
    let bob = with(&[("bob", "mig-1g.10gb.shared")]);
    assert!(uses(&bob).iter().all(|used| !used.is_idle() && used.holders().len() == 1), "{:?}", uses(&bob));
    // Who had a slice for itself before it was shared holds one still.
    let old = with(&[("eve", "mig-1g.10gb")]);
    assert!(uses(&old).iter().all(|used| !used.is_idle()), "{:?}", uses(&old));
    assert!(uses(&with(&[])).iter().all(Use::is_idle));
    // As many as there are seats: each slice has its two, and still no pod has one for itself.
    let names: Vec<String> = (0..28).map(|i| format!("lab-{i}")).collect();
    let all: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "mig-1g.10gb.shared")).collect();
    let full = with(&all);
    assert_eq!(full.allocated[&profile], 28);
    assert!(uses(&full).iter().all(|used| matches!(used, Use::MaybeInUse { by } if by.len() == 28)));
}

#[test]
fn who_wants_whole_gpus_finds_them_on_cards_without_mig_while_they_are_free() {
    let train = || pod("a", "train", &[("gpu", 2)], None);
    let finds = |objects: &[Value]| see(objects).requests[0].finds.clone();
    let t1 = || cards("t1", "Tesla-T4", 2);
    assert_eq!(finds(&[policy("research"), node("a1"), t1(), train()]), Some("t1".into()));
    let held = pod("a", "other", &[("gpu", 1)], Some("t1"));
    assert_eq!(finds(&[policy("research"), node("a1"), t1(), held, train()]), None);
    // What is shared under a name of its own is no whole GPU.
    assert_eq!(finds(&[policy("research"), node("a1"), shared(t1(), 2), train()]), None);
}

/// Two whole GPUs that four pods share each, beside one that is cut.
fn half_shared(rename: bool) -> [Value; 3] {
    let replicas = BTreeMap::from([("nvidia.com/gpu".to_owned(), 4)]);
    let sharing = Shared { by: Method::TimeSlicing, rename, one_each: true, replicas };
    let config = PluginConfig { strategy: None, sharing: Some(sharing) };
    let gpu = if rename { "gpu.shared" } else { "gpu" };
    let mut a1 = cut(node("a1"), "slicewright-2whole", &[(gpu, 8), ("mig-1g.10gb", 7)]);
    a1["metadata"]["labels"]["nvidia.com/gpu.count"] = "3".into();
    a1["metadata"]["labels"]["nvidia.com/gpu.replicas"] = "4".into();
    let layouts = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "slicewright-mig-config", "namespace": "nvidia-gpu-operator"},
        "data": {"config.yaml": "version: v1\nmig-configs:\n  slicewright-2whole:\n    - {devices: [0, 1], mig-enabled: false}\n    - {devices: [2], mig-enabled: true, mig-devices: {1g.10gb: 7}}\n"},
    });
    let [a1, map] = told(a1, &config);
    [a1, map, layouts]
}

/// While one of its sharers is there, a whole GPU is not idle: it would be planned to be cut, and whoever was told that it
/// is served there would wait for a change that waits for the sharer.
#[test]
fn a_whole_gpu_that_several_share_beside_slices_is_idle_when_the_last_of_them_has_gone() {
    for rename in [true, false] {
        let resource = if rename { "gpu.shared" } else { "gpu" };
        let with = |names: &[&str]| {
            let mut objects = vec![policy("research")];
            objects.extend(half_shared(rename));
            objects.extend(names.iter().map(|name| pod("a", name, &[(resource, 1)], Some("a1"))));
            let seen = see(&objects);
            assert_eq!(texts(&seen.problems), [] as [&str; 0], "{rename}");
            node_of(&seen, "a1").clone()
        };
        let free = with(&[]);
        assert_eq!(free.whole_shared, Some(Sharing { replicas: 4, renamed: rename, one_each: true }));
        let whole = |node: &planner::inventory::Node| -> Vec<Use> {
            node.gpus.values().filter_map(|gpu| gpu.slices.whole().cloned()).collect()
        };
        assert_eq!(whole(&free), [Use::Idle, Use::Idle]);
        // Three pods, more than there are GPUs: nobody knows on which they sit.
        let three = with(&["ada", "bob", "eve"]);
        assert_eq!(three.hold, None, "{rename}");
        assert!(whole(&three).iter().all(|used| used.holders().len() == 3), "{:?}", whole(&three));
        assert!(
            three
                .gpus
                .values()
                .filter(|gpu| !gpu.slices.is_mig_off())
                .all(|gpu| gpu.slices.uses().all(Use::is_idle))
        );
    }
}

/// Who waits for a share of a GPU beside slices is told who has those that there are, and not that nobody offers any.
#[test]
fn shares_of_whole_gpus_beside_slices_are_supply_in_seats() {
    for rename in [true, false] {
        let resource = if rename { "gpu.shared" } else { "gpu" };
        let mut objects = vec![policy("research")];
        objects.extend(half_shared(rename));
        objects.push(pod("a", "ada", &[(resource, 1)], Some("a1")));
        objects.push(pod("a", "small", &[("mig-1g.10gb", 1)], Some("a1")));
        let seen = see(&objects);
        let seats = seating(&seen, "a1");
        assert_eq!((seats.gpus, seats.total(), seats.held()), (2, 8, 1), "{rename}");
        assert_eq!(seats.sharing, Sharing { replicas: 4, renamed: rename, one_each: true });
        assert!(seats.node.schedulable);
        // The planner goes on to see what can be cut.
        assert_eq!(node_of(&seen, "a1").gpus.len(), 3);
    }
    // Where each is for one pod, they are planned.
    let mut alone = vec![policy("research")];
    let [mut a1, map, layouts] = half_shared(true);
    a1["metadata"]["labels"].as_object_mut().unwrap().remove("nvidia.com/device-plugin.config");
    a1["metadata"]["labels"].as_object_mut().unwrap().remove("nvidia.com/gpu.replicas");
    let allocatable = a1["status"]["allocatable"].as_object_mut().unwrap();
    allocatable.remove("nvidia.com/gpu.shared");
    allocatable.insert("nvidia.com/gpu".to_owned(), "2".into());
    alone.extend([a1, map, layouts]);
    let seen = see(&alone);
    assert!(seen.inventory.seating.is_empty());
    assert_eq!(node_of(&seen, "a1").gpus.len(), 3);
}

/// How a device is shared does not cut it: who waits for the node is told what it has, and not that it has no GPU.
#[test]
fn a_node_that_nobody_has_cut_yet_keeps_its_gpus_while_its_sharing_changes() {
    let replicas = BTreeMap::from([("nvidia.com/mig-1g.10gb".to_owned(), 2)]);
    let sharing = Shared { by: Method::TimeSlicing, rename: true, one_each: true, replicas };
    let config = PluginConfig { strategy: None, sharing: Some(sharing) };
    let [a1, map] = told(node("a1"), &config);
    let gpu_node = json!({
        "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode", "metadata": {"name": "a1"}, "spec": {},
        "status": {"rollout": {"phase": "Verifying", "progress": {"phase": "Verifying", "target": {
            "layout": {}, "label": config.key(), "sharing": {"config": config, "devices": {"nvidia.com/gpu": 2}},
        }}}},
    });
    let mut shares = policy("research");
    shares["spec"]["sharing"] = json!({"type": "TimeSlicing", "rules": [
        {"resource": "nvidia.com/mig-1g.10gb", "replicas": 2},
    ]});
    let seen = see(&[shares, a1, map, gpu_node]);
    let a1 = node_of(&seen, "a1");
    assert_eq!((a1.gpus.len(), &a1.hold), (2, &Some(planner::inventory::Hold::Changing)));
    assert!(a1.gpus.values().all(|gpu| gpu.slices.is_mig_off()));
}
