//! Which nodes a request may use.

use planner::demand::{Apart, Operator};
use planner::eligible::{Eligibility, Judge, judge};
use planner::predicted_labels::LabelsAfter;
use planner::testing::{NodeBuilder, RequestBuilder, a30, a100, a100_40, fleet, node, request};

/// What the request is told of a node called `ridge`; nothing when it may use it.
fn told(node: NodeBuilder, request: RequestBuilder) -> Option<String> {
    let (node, request) = (node.build(), request.build());
    match judge(&request, &"ridge".into(), &node, &LabelsAfter::predict(&node)) {
        Eligibility::Yes => None,
        Eligibility::No { reason } => Some(match reason.advice() {
            Some(advice) => format!("{reason}; {advice}"),
            None => reason.to_string(),
        }),
    }
}

#[track_caller]
fn may(node: NodeBuilder, request: RequestBuilder) {
    assert_eq!(told(node, request), None);
}

#[track_caller]
fn may_not(node: NodeBuilder, request: RequestBuilder, because: &str) {
    assert_eq!(told(node, request).as_deref(), Some(because));
}

fn small() -> RequestBuilder {
    request("notebook").asks("1g.10gb", 1)
}

/// A node whose GPU is whole today, as GFD labels it under strategy mixed.
fn labelled() -> NodeBuilder {
    node()
        .gpu(a100().idle("7g.80gb", 0))
        .label("nvidia.com/mig.strategy", "mixed")
        .label("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB")
        .label("nvidia.com/gpu.count", "1")
        .label("nvidia.com/gpu.memory", "81920")
        .label("nvidia.com/mig-7g.80gb.count", "1")
        .label("nvidia.com/mig-7g.80gb.product", "NVIDIA-A100-SXM4-80GB-MIG-7g.80gb")
}

#[test]
fn selectors_and_affinity() {
    may(node(), small());
    may(node(), small().selects("pool", "lab"));
    may_not(node(), small().selects("pool", "prod"), "has label pool=lab (wanted: prod)");
    may_not(node(), small().selects("zone", "a"), "has no label zone (wanted: a)");

    let either =
        || small().or_affinity("zone", Operator::In, &["a", "b"]).or_affinity("rank", Operator::Gt, &["3"]);
    may(node().label("zone", "b"), either());
    may(node().label("zone", "c").label("rank", "4"), either());
    may_not(
        node().label("zone", "c").label("rank", "3"),
        either(),
        "does not match the node affinity: zone In (a, b); nor rank Gt (3)",
    );
    may(node(), small().or_on_node("ridge"));
    may_not(
        node(),
        small().or_on_node("valley"),
        "does not match the node affinity: metadata.name In (valley)",
    );
    let mut nothing = small().or_on_node("ridge").build();
    nothing.constraints.affinity[0].fields.clear();
    let ridge = node().build();
    let answer = judge(&nothing, &"ridge".into(), &ridge, &LabelsAfter::predict(&ridge));
    assert!(!answer.is_yes(), "a term without expressions matches nothing");
}

#[test]
fn a_volume_keeps_away_from_every_node_that_cannot_have_it() {
    let zone_a = || node().label("zone", "a").label("host", "ridge");
    may(zone_a(), small().volume("data", "zone", &["a", "b"]));
    may_not(
        zone_a(),
        small().volume("data", "zone", &["b", "c"]),
        "cannot have the volume of claim data, which is on nodes with zone In (b, c)",
    );
    // Each of several has to be there, whatever the pod's own affinity says.
    may(zone_a(), small().volume("data", "zone", &["a"]).volume("cache", "host", &["ridge"]));
    may_not(
        zone_a(),
        small().or_affinity("zone", Operator::In, &["a"]).volume("data", "zone", &["a"]).volume(
            "cache",
            "host",
            &["valley"],
        ),
        "cannot have the volume of claim cache, which is on nodes with host In (valley)",
    );
    let mut nowhere = small().volume("data", "zone", &["a"]).build();
    nowhere.constraints.volumes[0].nodes.clear();
    let ridge = zone_a().build();
    let Eligibility::No { reason } = judge(&nowhere, &"ridge".into(), &ridge, &LabelsAfter::predict(&ridge))
    else {
        panic!("a volume that no node can have")
    };
    assert_eq!(reason.to_string(), "cannot have the volume of claim data, which no node can");
}

#[test]
fn resources_of_others_have_to_be_free() {
    let two = || node().free_of("rdma/hca", 2);
    may(two(), small().takes_of("rdma/hca", 2));
    may_not(two(), small().takes_of("rdma/hca", 3), "has 2 of rdma/hca free (wanted: 3)");
    may_not(node(), small().takes_of("rdma/hca", 1), "has 0 of rdma/hca free (wanted: 1)");
}

#[test]
fn taints_keep_away_unless_borne() {
    let tainted = || node().taint("nvidia.com/gpu", "", "NoSchedule");
    may_not(tainted(), small(), "has taint nvidia.com/gpu:NoSchedule, which is not tolerated");
    may(tainted(), small().tolerates("nvidia.com/gpu"));
    may(tainted(), small().tolerates(""));
    may(node().taint("busy", "yes", "PreferNoSchedule"), small());
    may_not(
        node().taint("busy", "yes", "NoExecute"),
        small(),
        "has taint busy=yes:NoExecute, which is not tolerated",
    );
    // Whether pods can bind is `Node::schedulable`'s to say.
    may(node().taint("node.kubernetes.io/unschedulable", "", "NoSchedule"), small());
}

#[test]
fn room_beside_slices() {
    let cramped = || node().room(2_000, 4 << 30, 1);
    may(cramped(), small().takes(2_000, 4 << 30));
    may_not(cramped(), small().takes(2_001, 0), "has 2000m CPU free (wanted: 2001m)");
    may_not(cramped(), small().takes(0, 5 << 30), "has 4096 MiB memory free (wanted: 5120 MiB)");
    may_not(node().room(9_000, 0, 0), small(), "has 0 pod slots free");
    may(cramped().free_storage(2 << 30), small().takes_storage(2 << 30));
    may_not(
        cramped().free_storage(2 << 30),
        small().takes_storage((2 << 30) + 1),
        "has 2048 MiB ephemeral storage free (wanted: 2049 MiB)",
    );
    // An overcommitted node still takes a pod that asks for nothing there.
    may(node().room(-1, -1, 5), small());
}

#[test]
fn labels_that_follow_the_layout_are_judged_as_they_will_be() {
    may(labelled(), small().selects("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"));
    may(labelled(), small().selects("nvidia.com/gpu.count", "1"));
    may(labelled(), small().selects("nvidia.com/mig-1g.10gb.product", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"));
    may(labelled(), small().or_affinity("nvidia.com/mig-1g.10gb.count", Operator::Gt, &["6"]));
    may_not(
        labelled(),
        small().or_affinity("nvidia.com/mig-1g.10gb.count", Operator::Gt, &["7"]),
        "does not match the node affinity: nvidia.com/mig-1g.10gb.count Gt (7)",
    );
    may(labelled(), small().or_affinity("nvidia.com/mig-1g.10gb.memory", Operator::Gt, &["8000"]));
    assert!(
        told(labelled(), small().or_affinity("nvidia.com/mig-1g.10gb.memory", Operator::Gt, &["16000"]))
            .is_some()
    );
    // It never has this profile.
    may_not(
        node().gpu(a30()).label("nvidia.com/gpu.product", "NVIDIA-A30"),
        small().or_affinity("nvidia.com/mig-1g.10gb.product", Operator::Exists, &[]),
        "does not match the node affinity: nvidia.com/mig-1g.10gb.product Exists",
    );
    // What it has today and the request does not ask for is taken as it is.
    may(labelled(), small().selects("nvidia.com/mig-7g.80gb.count", "1"));
    may_not(
        labelled(),
        small().selects("nvidia.com/mig-3g.40gb.count", "1"),
        "has no label nvidia.com/mig-3g.40gb.count (wanted: 1)",
    );
}

#[test]
fn media_profiles_are_written_with_dots_in_labels() {
    let media = a100_40();
    let with_media = {
        let mut gpu = media.build();
        let mut specs = gpu.geometry.profiles().to_vec();
        let mut extra = specs[0].clone();
        extra.name = "1g.5gb+me".parse().expect("a name");
        specs.push(extra);
        gpu.geometry = std::sync::Arc::new(mig::Geometry::new(8, 7, specs).expect("a geometry"));
        planner::testing::GpuBuilder::new("A100-40GB", gpu.geometry)
    };
    let node = node().gpu(with_media).label("nvidia.com/gpu.product", "NVIDIA-A100-PCIE-40GB");
    let video = || request("video").asks("1g.5gb+me", 1);
    may(
        node.clone(),
        video().selects("nvidia.com/mig-1g.5gb.me.product", "NVIDIA-A100-PCIE-40GB-MIG-1g.5gb.me"),
    );
    may(node.clone(), video().selects("nvidia.com/mig-1g.5gb.me.count", "1"));
    may_not(
        node,
        video().selects("nvidia.com/mig-1g.5gb.me.count", "2"),
        "has label nvidia.com/mig-1g.5gb.me.count=1 to 1 (wanted: 2)",
    );
}

#[test]
fn the_single_form_of_a_label_gets_advice() {
    may_not(
        labelled(),
        small().selects("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"),
        "never has label nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB-MIG-1g.10gb under MIG strategy mixed; \
         select by `nvidia.com/mig-1g.10gb.product: NVIDIA-A100-SXM4-80GB-MIG-1g.10gb`",
    );
    may_not(
        labelled(),
        small().or_affinity("nvidia.com/gpu.product", Operator::In, &["NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"]),
        "never has label nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB-MIG-1g.10gb under MIG strategy mixed; \
         select by `nvidia.com/mig-1g.10gb.product: NVIDIA-A100-SXM4-80GB-MIG-1g.10gb`",
    );
    may_not(
        labelled().single_strategy(),
        small(),
        "has MIG strategy single, where slices are nvidia.com/gpu and have no own resource; \
         ask for `nvidia.com/gpu`, which is a slice there",
    );
    // What strategy `single` wrote onto `gpu.*` is gone under `mixed`.
    may_not(
        labelled().label("nvidia.com/gpu.slices.gi", "1"),
        small().selects("nvidia.com/gpu.slices.gi", "1"),
        "has no label nvidia.com/gpu.slices.gi (wanted: 1)",
    );
}

/// GPUs that are shared as wholes under their own name carry it in the product's name; slices of them do not.
#[test]
fn a_product_that_is_shared_now_may_be_selected_as_it_will_be() {
    let shared = || labelled().label("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB-SHARED");
    let product = "nvidia.com/mig-1g.10gb.product";
    may(shared(), small().selects(product, "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"));
    may_not(
        shared(),
        small().selects(product, "NVIDIA-A100-SXM4-80GB-SHARED-MIG-1g.10gb"),
        "has label nvidia.com/mig-1g.10gb.product=NVIDIA-A100-SXM4-80GB-MIG-1g.10gb \
         (wanted: NVIDIA-A100-SXM4-80GB-SHARED-MIG-1g.10gb)",
    );
    // Once the last GPU is cut, it is shared no more.
    may(shared(), small().selects("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"));
    may(shared(), small().selects("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB-SHARED"));
    may_not(
        shared(),
        small().selects("nvidia.com/gpu.product", "NVIDIA-L4"),
        "has label nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB or NVIDIA-A100-SXM4-80GB-SHARED (wanted: NVIDIA-L4)",
    );
}

#[test]
fn requests_that_ask_alike_are_judged_once() {
    let inventory = fleet()
        .node("ridge", labelled().label("zone", "a"))
        .node("valley", labelled().label("zone", "b"))
        .build();
    let mut judge = Judge::new(&inventory);
    let in_zone = |name: &str, zone: &str| small_named(name).selects("zone", zone).build();
    let first = judge.nodes_for(&in_zone("one", "a"));
    let again = judge.nodes_for(&in_zone("two", "a"));
    let other = judge.nodes_for(&in_zone("three", "b"));
    assert!(std::sync::Arc::ptr_eq(&first, &again));
    assert!(first[0].is_yes() && !first[1].is_yes());
    assert!(!other[0].is_yes() && other[1].is_yes());
}

/// What is known of a request that differs only in the room that it takes is used for the next one, and its room is not.
#[test]
fn requests_that_take_more_room_are_told_what_each_would_be_told_alone() {
    let inventory = fleet()
        .node("elsewhere", labelled().label("zone", "b").room(1_000, 1 << 30, 1))
        .node("full", labelled().label("zone", "a").room(1_000, 8 << 30, 10))
        .node("like-it", labelled().label("zone", "a").room(1_000, 8 << 30, 10))
        .node("no-slots", labelled().label("zone", "a").room(9_000, 90 << 30, 0))
        .node("roomy", labelled().label("zone", "a").room(9_000, 90 << 30, 10))
        .build();
    let mut all = Judge::new(&inventory);
    let takes =
        [(500, 1 << 30), (2_000, 1 << 30), (500, 9 << 30), (0, 0), (500, 1 << 30), (20_000, 100 << 30)];
    let told: Vec<Vec<String>> = takes
        .into_iter()
        .enumerate()
        .map(|(n, (cpu_milli, memory_bytes))| {
            let request =
                small_named(&n.to_string()).selects("zone", "a").takes(cpu_milli, memory_bytes).build();
            let together = all.nodes_for(&request);
            let alone: Vec<Eligibility> = (inventory.nodes.iter())
                .map(|(name, node)| judge(&request, name, node, &LabelsAfter::predict(node)))
                .collect();
            assert_eq!(*together, *alone, "{request:?}");
            let words = alone.iter().map(|of| of.reason().map_or("may".to_owned(), ToString::to_string));
            words.collect()
        })
        .collect();
    let elsewhere = "has label zone=b (wanted: a)";
    let no_slots = "has 0 pod slots free";
    let cpu = "has 1000m CPU free (wanted: 2000m)";
    let memory = "has 8192 MiB memory free (wanted: 9216 MiB)";
    assert_eq!(told[0], [elsewhere, "may", "may", no_slots, "may"]);
    assert_eq!(told[1], [elsewhere, cpu, cpu, no_slots, "may"]);
    assert_eq!(told[2], [elsewhere, memory, memory, no_slots, "may"]);
}

fn small_named(name: &str) -> RequestBuilder {
    request(name).asks("1g.10gb", 1)
}

/// A node as the reference writes it: its parts, separated by semicolons.
fn node_of(text: &str) -> NodeBuilder {
    let start = match text {
        "whole" => return labelled(),
        "single" => return labelled().single_strategy(),
        _ => node().gpu(a100()),
    };
    text.split("; ").fold(start, |node, part| match part.split_once(' ').expect("a word and its value") {
        ("label", label) => {
            let (key, value) = label.split_once('=').expect("KEY=VALUE");
            node.label(key, value)
        }
        ("taint", taint) => {
            let (taint, effect) = taint.rsplit_once(':').expect("KEY[=VALUE]:EFFECT");
            let (key, value) = taint.split_once('=').unwrap_or((taint, ""));
            node.taint(key, value, effect)
        }
        ("free", free) => {
            let free: Vec<&str> = free.split(' ').collect();
            let (cpu, memory) = cpu_and_memory(&free);
            node.room(cpu, memory, free[2].parse().expect("pods"))
        }
        ("has", free) => {
            let (amount, resource) = free.split_once(' ').expect("AMOUNT RESOURCE");
            node.free_of(resource, amount.parse().expect("an amount"))
        }
        ("storage", free) => node.free_storage(gib(free)),
        (word, _) => panic!("a node has no `{word}`"),
    })
}

fn cpu_and_memory(words: &[&str]) -> (i64, i64) {
    let cpu = words[0].strip_suffix('m').expect("thousandths of a core");
    (cpu.parse().expect("a number"), gib(words[1]))
}

fn gib(word: &str) -> i64 {
    word.strip_suffix("Gi").expect("GiB").parse::<i64>().expect("a number") << 30
}

fn request_of(text: &str) -> RequestBuilder {
    text.split("; ").fold(request("notebook"), |request, part| {
        let words: Vec<&str> = part.split(' ').collect();
        match words.as_slice() {
            ["asks", profile] => request.asks(profile, 1),
            ["volume", claim, key, "In", values] => {
                request.volume(claim, key, &values.split(',').collect::<Vec<_>>())
            }
            ["needs", amount, resource] => request.takes_of(resource, amount.parse().expect("an amount")),
            ["stores", bytes] => request.takes_storage(gib(bytes)),
            ["selects", label] => {
                let (key, value) = label.split_once('=').expect("KEY=VALUE");
                request.selects(key, value)
            }
            ["affinity", key, operator, values @ ..] => {
                let operator = match *operator {
                    "In" => Operator::In,
                    "NotIn" => Operator::NotIn,
                    "Exists" => Operator::Exists,
                    "Gt" => Operator::Gt,
                    other => panic!("no operator `{other}`"),
                };
                let values: Vec<&str> = values.iter().flat_map(|list| list.split(',')).collect();
                request.or_affinity(key, operator, &values)
            }
            ["apart", topology] => {
                let topology = Some((*topology).to_owned()).filter(|label| label != "kubernetes.io/hostname");
                request.kept_off("ridge", Apart::AntiAffinity { topology })
            }
            ["alone", topology] => {
                let topology = Some((*topology).to_owned()).filter(|label| label != "kubernetes.io/hostname");
                request.kept_off("ridge", Apart::Exclusive { topology })
            }
            ["near", topology] => {
                request.kept_off("ridge", Apart::Affinity { topology: (*topology).to_owned() })
            }
            ["spread", topology, max_skew] => {
                let max_skew = max_skew.parse().expect("a number");
                request.kept_off("ridge", Apart::Spread { topology: (*topology).to_owned(), max_skew })
            }
            ["on", name] => request.or_on_node(name),
            ["tolerates", key] => request.tolerates(key),
            ["takes", takes @ ..] => {
                let (cpu, memory) = cpu_and_memory(takes);
                request.takes(cpu, memory)
            }
            other => panic!("a request has no `{other:?}`"),
        }
    })
}

#[test]
fn the_examples_of_the_reference_hold() {
    let page = include_str!("../../../../docs/reference/eligibility.md");
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| node |"));
    let mut examples = 0;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [node, request, answer] = cells.as_slice() else { panic!("three cells: {row}") };
        let told = told(node_of(node), request_of(request)).unwrap_or_else(|| "yes".to_owned());
        assert_eq!(told, *answer, "{row}");
        examples += 1;
    }
    assert!(examples > 20, "{examples}");
}
