//! Nodes whose GPUs a policy shares: which configuration each gets, what is refused, and what is left alone.

use observe::ClusterView;
use planner::names::NodeName;
use rollout::{Method, PluginConfig, Shared, SharingWanted};
use serde_json::{Value, json};

use crate::words::{cut, node, node_of, pod, policy, problems_of, see, texts};

/// A node with eight T4s, whole.
fn t4(name: &str) -> Value {
    let mut t4 = node(name);
    let labels = &mut t4["metadata"]["labels"];
    labels["nvidia.com/gpu.product"] = "Tesla-T4".into();
    labels["nvidia.com/gpu.count"] = "8".into();
    labels["nvidia.com/mig.capable"] = "false".into();
    t4["status"]["allocatable"]["nvidia.com/gpu"] = "8".into();
    t4
}

/// The same, shared by four under its own name, with our key.
fn t4_shared(name: &str) -> Value {
    let mut shared = t4(name);
    let labels = &mut shared["metadata"]["labels"];
    labels["nvidia.com/gpu.product"] = "Tesla-T4-SHARED".into();
    labels["nvidia.com/gpu.replicas"] = "4".into();
    labels["nvidia.com/device-plugin.config"] = by(4).key().into();
    shared["status"]["allocatable"]["nvidia.com/gpu"] = "32".into();
    shared
}

fn by(replicas: u32) -> PluginConfig {
    PluginConfig::of_gpus(replicas, false, false)
}

fn shares(sharing: &Value) -> Value {
    let mut policy = policy("research");
    policy["spec"]["layout"] = json!({"type": "None"});
    policy["spec"]["sharing"] = sharing.clone();
    policy
}

/// Both keys of a published map of a university's cluster, as a policy.
fn both_keys() -> Value {
    shares(&json!({"type": "TimeSlicing", "rename": false, "oneEach": false, "rules": [
        {"model": "A100-40GB", "resource": "nvidia.com/gpu", "replicas": 8},
        {"model": "Tesla T4", "resource": "nvidia.com/gpu", "replicas": 4},
    ]}))
}

fn wanted(seen: &ClusterView, name: &str) -> Option<SharingWanted> {
    seen.nodes[&NodeName::from(name)].shared.as_ref().and_then(|shared| shared.wanted.clone())
}

#[test]
fn each_node_gets_the_configuration_of_its_card_and_it_is_that_of_the_published_map() {
    let mut a100 = node("a1");
    a100["metadata"]["labels"]["nvidia.com/gpu.product"] = "NVIDIA-A100-SXM4-40GB".into();
    let mut l40 = t4("l1");
    l40["metadata"]["labels"]["nvidia.com/gpu.product"] = "NVIDIA-L40".into();
    let seen = see(&[both_keys(), t4("t1"), a100, l40]);
    assert_eq!(wanted(&seen, "t1"), Some(SharingWanted::As(by(4))));
    assert_eq!(wanted(&seen, "a1"), Some(SharingWanted::As(by(8))));
    assert_eq!(wanted(&seen, "l1"), None, "no rule is for it");
    // The text of the map, without the entry for slices with one replica.
    let tesla_t4 = "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4";
    assert_eq!(by(4).render(), tesla_t4);
    assert_eq!(by(8).render(), tesla_t4.replace("4", "8").replace("T8", "T4"));
}

#[test]
fn a_node_that_is_shared_is_nobodys_doubt_and_its_pods_are_no_contradiction() {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "slicewright-plugin-config", "namespace": "nvidia-gpu-operator"},
        "data": {by(4).key(): by(4).render()},
    });
    let pods: Vec<Value> = (0..20).map(|n| pod("a", &format!("lab{n}"), &[("gpu", 1)], Some("t1"))).collect();
    let mut objects = vec![both_keys(), map, t4_shared("t1"), t4("t2")];
    objects.extend(pods);
    let seen = see(&objects);
    assert_eq!(texts(&seen.problems), [] as [&str; 0]);
    assert_eq!(node_of(&seen, "t1").hold, None);
    let view = &seen.nodes[&NodeName::from("t1")];
    assert_eq!(view.shared_gpus(), Some((8, by(4))));
    assert_eq!(
        view.sharing_in_words().as_deref(),
        Some(
            "each GPU is shared by 4, as nvidia.com/gpu, with no memory limit of its own, by policy research"
        )
    );
    assert_eq!(
        seen.nodes[&NodeName::from("t2")].sharing_in_words().as_deref(),
        Some("policy research wants: each GPU is shared by 4, as nvidia.com/gpu; now: no GPU is shared")
    );
}

#[test]
fn without_a_policy_with_sharing_nothing_is_said_of_these_nodes() {
    let seen = see(&[policy("research"), t4("t1"), node("a1")]);
    assert!(!seen.nodes.contains_key(&NodeName::from("t1")));
    assert_eq!(seen.nodes[&NodeName::from("a1")].shared, None);
}

#[test]
fn auto_shares_cards_without_mig_and_leaves_the_others_to_their_layout() {
    let mut policy = policy("research");
    policy["spec"]["sharing"] =
        json!({"type": "Auto", "rules": [{"resource": "nvidia.com/gpu", "replicas": 4}]});
    let a1 = cut(node("a1"), "all-1g.10gb", &[("mig-1g.10gb", 14)]);
    let seen = see(&[policy, t4("t1"), a1]);
    let asked = PluginConfig::of_gpus(4, true, true);
    assert_eq!(wanted(&seen, "t1"), Some(SharingWanted::As(asked)));
    assert_eq!(seen.nodes[&NodeName::from("a1")].shared, None);
    assert_eq!(node_of(&seen, "a1").gpus.len(), 2);
}

#[test]
fn of_two_policies_the_higher_decides_how_a_node_is_shared_and_of_equals_the_first_by_name() {
    let other = |name: &str, replicas: u32, priority: i32| {
        let rules = json!([{"model": "T4", "resource": "nvidia.com/gpu", "replicas": replicas}]);
        let mut other =
            shares(&json!({"type": "TimeSlicing", "rename": false, "oneEach": false, "rules": rules}));
        other["metadata"]["name"] = name.into();
        other["spec"]["priority"] = priority.into();
        other
    };
    let shared_by = |policies: [Value; 2]| {
        let [first, second] = policies;
        let seen = see(&[t4("t1"), t4("t2"), first, second]);
        assert_eq!(wanted(&seen, "t1"), wanted(&seen, "t2"));
        wanted(&seen, "t1")
    };
    assert_eq!(shared_by([other("a", 4, 0), other("b", 6, 1)]), Some(SharingWanted::As(by(6))));
    assert_eq!(shared_by([other("b", 6, 0), other("a", 4, 0)]), Some(SharingWanted::As(by(4))));
}

#[test]
fn while_feature_discovery_says_nothing_it_is_not_known_which_rule_is_for_a_node() {
    let mut silent = t4("t1");
    for label in ["product", "count"] {
        silent["metadata"]["labels"].as_object_mut().unwrap().remove(&format!("nvidia.com/gpu.{label}"));
    }
    let seen = see(&[both_keys(), silent]);
    assert_eq!(wanted(&seen, "t1"), Some(SharingWanted::Unknown));
}

#[test]
fn a_text_that_somebody_edited_under_our_key_is_not_believed() {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "slicewright-plugin-config", "namespace": "nvidia-gpu-operator"},
        "data": {by(4).key(): by(6).render(), "theirs": by(2).render()},
    });
    let seen = see(&[both_keys(), map, t4_shared("t1")]);
    assert_eq!(seen.nodes[&NodeName::from("t1")].shared_gpus(), None);
}

#[track_caller]
fn refused(sharing: &str, layout: &str, expect: &str) {
    let text = format!(
        "apiVersion: slicewright.io/v1alpha1\nkind: GpuPartitionPolicy\nmetadata: {{name: p}}\nspec:\n  \
         nodeSelector: {{matchLabels: {{pool: research}}}}\n  layout: {{type: {layout}}}\n  sharing: {sharing}\n"
    );
    let problems = problems_of(&text);
    assert!(problems.iter().any(|problem| problem.contains(expect)), "{problems:#?}");
}

#[test]
fn what_cannot_work_is_refused_with_the_field_the_value_and_what_to_write() {
    refused(
        "{type: MPS, rules: [{resource: nvidia.com/gpu, replicas: 4}]}",
        "DemandDriven",
        "spec.sharing.type: is MPS beside layout DemandDriven, and MPS serves whole GPUs with MIG off only",
    );
    refused(
        "{type: MPS, rules: [{model: V100-32GB, resource: nvidia.com/gpu, replicas: 17}]}",
        "None",
        "rules[0].replicas: is 17; 2 to 16 are allowed: the control daemon of MPS",
    );
    refused(
        "{type: TimeSlicing, rules: [{model: A100-40GB, resource: nvidia.com/mig-1g.5gb, replicas: 1}]}",
        "DemandDriven",
        "rules[0].replicas: is 1; 2 to 48 are allowed: fewer than two is no sharing, and the device plugin does not start with it (since 0.12): leave the rule out",
    );
    refused(
        "{type: Auto, rules: [{resource: nvidia.com/mig-1g.5gb, replicas: 2}]}",
        "DemandDriven",
        "rules[0].resource: is `nvidia.com/mig-1g.5gb`, and type Auto shares whole GPUs only: write `type: TimeSlicing`",
    );
    refused(
        "{type: MPS, rules: [{resource: nvidia.com/mig-1g.5gb, replicas: 2}]}",
        "None",
        "rules[0].resource: is `nvidia.com/mig-1g.5gb`, and type MPS shares whole GPUs only: write `type: TimeSlicing`",
    );
    for sharing in ["TimeSlicing", "MPS"] {
        let sharing =
            format!("{{type: {sharing}, rules: [{{model: T4, resource: nvidia.com/gpu, replicas: 49}}]}}");
        refused(&sharing, "None", "rules[0].replicas: is 49; 2 to 48 are allowed: no GPU serves more");
    }
    // The device plugin ignores both: all GPUs of a node are shared, under one name, or none.
    for field in ["devices: [0]", "rename: nvidia.com/tiny", "indices: [0]"] {
        let sharing =
            format!("{{type: TimeSlicing, rules: [{{resource: nvidia.com/gpu, replicas: 2, {field}}}]}}");
        refused(&sharing, "None", &format!("spec.sharing.rules[0].{}", field.split(':').next().unwrap()));
    }
    refused(
        "{type: TimeSlicing, rules: [{resource: nvidia.com/mig-1g.5gb, replicas: 2}]}",
        "None",
        "rules[0].resource: is `nvidia.com/mig-1g.5gb`, and layout.type is None, so there are no slices to share",
    );
    refused(
        "{type: TimeSlicing, rules: [{model: T4, resource: nvidia.com/mig-1g.5gb, replicas: 2}]}",
        "DemandDriven",
        "rules[0].resource: is `nvidia.com/mig-1g.5gb`, and T4 has no MIG, so no slices",
    );
    refused(
        "{type: TimeSlicing, rules: [{model: A100-80GB, resource: nvidia.com/mig-1g.5gb, replicas: 2}]}",
        "DemandDriven",
        "and A100-80GB has no such slices; it has: nvidia.com/mig-1g.10gb",
    );
    refused(
        "{type: TimeSlicing, rules: [{resource: nvidia.com/mig-1c.3g.40gb, replicas: 2}]}",
        "DemandDriven",
        "a part of a slice (a compute instance), which has no resource of its own",
    );
    refused(
        "{type: TimeSlicing, rules: [{resource: nvidia.com/gpu.shared, replicas: 2}]}",
        "None",
        "write the resource itself, nvidia.com/gpu",
    );
    refused(
        "{type: TimeSlicing, rules: [{model: T5, resource: nvidia.com/gpu, replicas: 2}]}",
        "None",
        "rules[0].model: `T5` is not a known card; did you mean `T4`?",
    );
    refused(
        "{type: TimeSlicing, rules: [{model: T4, resource: nvidia.com/gpu, replicas: 2}, {model: Tesla T4, resource: nvidia.com/gpu, replicas: 4}]}",
        "None",
        "rules[1]: is for the same resource and model as rules[0]",
    );
    refused(
        "{type: Auto, rules: [{model: A100-40GB, resource: nvidia.com/gpu, replicas: 2}]}",
        "None",
        "rules[0]: is never used: with type Auto only cards without MIG are shared",
    );
    refused("{type: TimeSlicing, rules: [{resource: nvidia.com/gpu, replicas: 1}]}", "None", "replicas");
}

/// A pool of A100s that a policy cuts on demand, and whose small slices two share.
fn slices_by(replicas: u32) -> Value {
    let mut policy = policy("research");
    policy["spec"]["sharing"] = json!({"type": "TimeSlicing", "rules": [
        {"model": "A100-80GB", "resource": "nvidia.com/mig-1g.10gb", "replicas": replicas},
        {"resource": "nvidia.com/mig-1g.5gb", "replicas": 6},
        {"resource": "nvidia.com/gpu", "replicas": 4},
    ]});
    policy
}

fn slices_config() -> PluginConfig {
    let replicas = [("nvidia.com/gpu".to_owned(), 4), ("nvidia.com/mig-1g.10gb".to_owned(), 2)];
    let shared = Shared { by: Method::TimeSlicing, rename: true, one_each: true, replicas: replicas.into() };
    PluginConfig { strategy: None, sharing: Some(shared) }
}

fn map_with(config: &PluginConfig) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "slicewright-plugin-config", "namespace": "nvidia-gpu-operator"},
        "data": {config.key(): config.render()},
    })
}

#[test]
fn slices_are_shared_beside_a_layout_and_a_configuration_has_only_what_the_card_can_have() {
    let a1 = cut(node("a1"), "all-1g.10gb", &[("mig-1g.10gb", 14)]);
    let seen = see(&[slices_by(2), t4("t1"), a1]);
    assert_eq!(wanted(&seen, "a1"), Some(SharingWanted::As(slices_config())));
    assert_eq!(wanted(&seen, "t1"), Some(SharingWanted::As(PluginConfig::of_gpus(4, true, true))));
    assert_eq!(node_of(&seen, "a1").gpus.len(), 2, "its layout is planned as ever");
}

#[test]
fn a_node_whose_slices_are_shared_by_us_shows_its_slices_and_one_that_others_share_does_not() {
    let mut a1 = cut(node("a1"), "all-1g.10gb", &[("mig-1g.10gb", 0), ("mig-1g.10gb.shared", 28)]);
    a1["metadata"]["labels"]["nvidia.com/device-plugin.config"] = slices_config().key().into();
    a1["metadata"]["labels"]["nvidia.com/mig-1g.10gb.replicas"] = "2".into();
    let seen = see(&[slices_by(2), map_with(&slices_config()), a1.clone()]);
    assert_eq!(node_of(&seen, "a1").hold, None, "{:?}", texts(&seen.problems));
    let profiles: usize = node_of(&seen, "a1").gpus.values().map(|gpu| gpu.slices.profiles().count()).sum();
    assert_eq!(profiles, 14);
    assert_eq!(seen.nodes[&NodeName::from("a1")].shared_as(), Some(slices_config()));
    // Without our text under the key nobody knows what these numbers mean.
    let seen = see(&[slices_by(2), a1]);
    assert!(matches!(node_of(&seen, "a1").hold, Some(planner::inventory::Hold::NotEstablished { .. })));
}

#[test]
fn what_a_policy_makes_of_a_device_is_known_before_the_node_is_cut() {
    let (mut objects, mut problems) = (observe::Objects::default(), Vec::new());
    observe::manifest::read(&mut objects, "p.yaml", &slices_by(2).to_string(), &mut problems);
    let shares = observe::shared::policy(&objects, mig::Catalog::builtin(), "research").expect("it shares");
    let seats = |model: &str, resource: &str| {
        let seats = shares.seats_of(model, resource);
        (seats.resource, seats.replicas)
    };
    assert_eq!(seats("A100-80GB", "nvidia.com/mig-1g.10gb"), ("nvidia.com/mig-1g.10gb.shared".to_owned(), 2));
    assert_eq!(seats("A100-40GB", "nvidia.com/mig-1g.10gb"), ("nvidia.com/mig-1g.10gb".to_owned(), 1));
    assert_eq!(seats("A100-40GB", "nvidia.com/mig-1g.5gb"), ("nvidia.com/mig-1g.5gb.shared".to_owned(), 6));
    assert_eq!(seats("A100-80GB", "nvidia.com/mig-7g.80gb"), ("nvidia.com/mig-7g.80gb".to_owned(), 1));
    assert_eq!(seats("T4", "nvidia.com/gpu"), ("nvidia.com/gpu.shared".to_owned(), 4));
}

/// The settings of the GPU Operator, with a MIG strategy for all nodes.
fn cluster_policy(strategy: &str) -> Value {
    json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "gpu-cluster-policy"},
        "spec": {"mig": {"strategy": strategy}, "devicePlugin": {"config": {"name": "slicewright-plugin-config"}}}})
}

fn by_mps(replicas: u32) -> Value {
    let mut policy = policy("research");
    policy["spec"]["layout"] = json!({"type": "None"});
    policy["spec"]["sharing"] =
        json!({"type": "MPS", "rules": [{"resource": "nvidia.com/gpu", "replicas": replicas}]});
    policy
}

#[track_caller]
fn refused_there(seen: &ClusterView, name: &str, expect: &str) {
    let Some(SharingWanted::Refused(why)) = wanted(seen, name) else {
        panic!("{name} is not refused: {:?}", wanted(seen, name))
    };
    assert!(why.contains(expect), "{why}");
}

#[test]
fn mps_is_refused_while_the_strategy_is_mixed_for_all_nodes_and_for_cards_that_serve_fewer() {
    let mut v100 = t4("v1");
    v100["metadata"]["labels"]["nvidia.com/gpu.product"] = "Tesla-V100-SXM2-16GB".into();
    let a1 = cut(node("a1"), "all-1g.10gb", &[("mig-1g.10gb", 14)]);
    let fleet =
        |strategy: &str| see(&[cluster_policy(strategy), by_mps(32), t4("t1"), v100.clone(), a1.clone()]);
    let mixed = fleet("mixed");
    for name in ["t1", "v1"] {
        refused_there(
            &mixed,
            name,
            "kubectl patch clusterpolicies.nvidia.com gpu-cluster-policy --type merge -p '{\"spec\":{\"mig\":{\"strategy\":null}}}'",
        );
    }
    let by_node = fleet("");
    let replicas = [("nvidia.com/gpu".to_owned(), 32)].into();
    let shared = Shared { by: Method::Mps, rename: true, one_each: true, replicas };
    let expect = PluginConfig { strategy: None, sharing: Some(shared) };
    assert_eq!(wanted(&by_node, "t1"), Some(SharingWanted::As(expect)));
    refused_there(
        &by_node,
        "v1",
        "a V100-16GB serves 16: write a rule `{model: V100-16GB, resource: nvidia.com/gpu, replicas: 16}` before it",
    );
    refused_there(&by_node, "a1", "one of its GPUs is partitioned, but its policy partitions no GPU");
}

#[test]
fn where_cluster_policy_leaves_the_strategy_open_nodes_that_are_cut_get_it_with_their_configuration() {
    let a1 = cut(node("a1"), "all-1g.10gb", &[("mig-1g.10gb", 14)]);
    let seen = see(&[cluster_policy(""), slices_by(2), a1.clone(), t4("t1")]);
    let mixed = PluginConfig { strategy: Some(rollout::Strategy::Mixed), ..slices_config() };
    assert_eq!(wanted(&seen, "a1"), Some(SharingWanted::As(mixed)));
    assert_eq!(wanted(&seen, "t1"), Some(SharingWanted::As(PluginConfig::of_gpus(4, true, true))));
    let single = see(&[cluster_policy("single"), slices_by(2), a1]);
    refused_there(&single, "a1", "with the MIG strategy `single` slices are not offered by profile");
}

#[test]
fn a_key_of_ours_means_nothing_while_cluster_policy_points_the_plugin_elsewhere() {
    let mut settings = cluster_policy("mixed");
    let seen = see(&[settings.clone(), both_keys(), map_with(&by(4)), t4_shared("t1")]);
    assert_eq!(seen.nodes[&NodeName::from("t1")].shared_as(), Some(by(4)));
    settings["spec"]["devicePlugin"]["config"]["name"] = "time-slicing-config".into();
    let seen = see(&[settings, both_keys(), map_with(&by(4)), t4_shared("t1")]);
    assert_eq!(seen.nodes[&NodeName::from("t1")].shared_as(), None);
}

/// What is said against the way in which a policy shares the cards of a node.
#[track_caller]
fn warned(objects: &[Value], name: &str, expect: &[&str]) {
    let seen = see(objects);
    let labels = objects.iter().find(|object| object["metadata"]["name"] == name).map(|object| {
        serde_json::from_value::<std::collections::BTreeMap<String, String>>(
            object["metadata"]["labels"].clone(),
        )
    });
    let id = NodeName::from(name);
    let said = seen.nodes[&id].sharing_warnings(&labels.unwrap().unwrap(), seen.inventory.nodes.get(&id));
    assert_eq!(said.len(), expect.len(), "{said:#?}");
    for (said, expect) in said.iter().zip(expect) {
        assert!(said.contains(expect), "{said}");
    }
}

#[test]
fn what_the_advice_calls_impossible_or_a_risk_is_said_of_what_a_policy_does() {
    let whole = |sharing: Value| shares(&sharing);
    let rules = json!([{"resource": "nvidia.com/gpu", "replicas": 4}]);
    let slicing = whole(json!({"type": "TimeSlicing", "rules": rules}));
    let mps = whole(json!({"type": "MPS", "rules": rules}));
    let mut guest = t4("v1");
    guest["metadata"]["labels"]["nvidia.com/vgpu.present"] = "true".into();
    let mut a100_guest = node("v2");
    a100_guest["metadata"]["labels"]["nvidia.com/vgpu.present"] = "true".into();
    let fleet = |policy: &Value| {
        [policy.clone(), cluster_policy(""), t4("t1"), node("a1"), guest.clone(), a100_guest.clone()]
    };
    warned(&fleet(&slicing), "t1", &[]);
    let mig = "shares whole GPUs of A100-80GB by time-slicing, without memory of their own for pods; MIG is recommended";
    warned(&fleet(&slicing), "a1", &[mig]);
    warned(&fleet(&mps), "t1", &["policy research shares T4 by MPS: "]);
    warned(
        &fleet(&mps),
        "a1",
        &["shares A100-80GB by MPS: a failure of one pod ends all", "by MPS, without memory of their own"],
    );
    let out = "by MPS, which does not work there: the device plugin serves whole cards by it";
    warned(&fleet(&mps), "v1", &[out]);
    warned(&fleet(&mps), "v2", &[out]);
}

/// What is said of the rules of a policy, by `rules[n].resource`.
fn of_rules(objects: &[Value]) -> Vec<String> {
    let said = texts(&see(objects).problems).into_iter();
    said.filter(|text| text.contains("].resource")).collect()
}

#[test]
fn a_rule_for_slices_that_no_gpu_of_its_nodes_can_have_is_told_of_with_what_there_is() {
    let mut policy = policy("research");
    policy["spec"]["sharing"] = json!({"type": "TimeSlicing", "rules": [
        {"resource": "nvidia.com/gpu", "replicas": 4},
        {"resource": "nvidia.com/mig-1g.5gb", "replicas": 2},
        {"resource": "nvidia.com/mig-1g.10gb", "replicas": 2},
    ]});
    let a1 = cut(node("a1"), "all-1g.10gb", &[("mig-1g.10gb", 14)]);
    let said = of_rules(&[policy.clone(), a1.clone(), t4("t1")]);
    assert_eq!(said.len(), 1, "{said:#?}");
    let begins = "warning: GpuPartitionPolicy research: spec.sharing.rules[1].resource: is `nvidia.com/mig-1g.5gb`, which no GPU of the 2 node(s) of this policy can have, so the rule shares nothing: A100-80GB has nvidia.com/mig-1g.10gb, ";
    assert!(said[0].contains(begins.trim_start_matches("warning: ")), "{said:#?}");
    assert!(said[0].ends_with("; T4 has no MIG, so no slices"), "{said:#?}");
    // One card of the pool has them.
    let mut small = cut(node("a2"), "all-1g.5gb", &[("mig-1g.5gb", 14)]);
    small["metadata"]["labels"]["nvidia.com/gpu.product"] = "NVIDIA-A100-SXM4-40GB".into();
    assert_eq!(of_rules(&[policy.clone(), a1.clone(), small]), [""; 0]);
    // Labels come some time after a node: until then nobody knows what it may have.
    let mut fresh = node("a3");
    fresh["metadata"]["labels"].as_object_mut().unwrap().remove("nvidia.com/gpu.product");
    assert_eq!(of_rules(&[policy, a1, fresh]), [""; 0]);
}

/// The device plugin ends beside MIG while it shares through MPS: a layout would never be proved, and the node stay closed.
#[test]
fn a_node_that_shares_through_mps_is_cut_only_after_it_shares_otherwise() {
    let replicas = [("nvidia.com/gpu".to_owned(), 4)].into();
    let shared = Shared { by: Method::Mps, rename: true, one_each: true, replicas };
    let config = PluginConfig { strategy: None, sharing: Some(shared) };
    let mut a1 = node("a1");
    let labels = &mut a1["metadata"]["labels"];
    labels["nvidia.com/device-plugin.config"] = config.key().into();
    labels["nvidia.com/mig.strategy"] = "single".into();
    labels["nvidia.com/gpu.replicas"] = "4".into();
    labels["nvidia.com/gpu.sharing-strategy"] = "mps".into();
    a1["status"]["allocatable"]["nvidia.com/gpu"] = "0".into();
    a1["status"]["allocatable"]["nvidia.com/gpu.shared"] = "8".into();
    let mut cuts = policy("research");
    cuts["spec"]["layout"] =
        json!({"type": "Static", "static": {"gpus": [{"slices": [{"profile": "1g.10gb", "count": 7}]}]}});
    let hold = |policy: &Value| {
        let seen = see(&[cluster_policy("single"), map_with(&config), a1.clone(), policy.clone()]);
        node_of(&seen, "a1").hold.clone()
    };
    let Some(planner::inventory::Hold::NotEstablished { why }) = hold(&cuts) else {
        panic!("it would be cut")
    };
    assert!(why.contains("through MPS") && why.contains("write `sharing: {type: None}`"), "{why}");
    cuts["spec"]["sharing"] = json!({"type": "None"});
    assert_eq!(hold(&cuts), None, "the sharing ends first");
}

/// Requests make a GPU whole for a pod that asks for one alone; shared, nobody would ever get it.
#[test]
fn whole_gpus_on_demand_are_not_shared() {
    let mut policy = slices_by(2);
    policy["spec"]["layout"]["demandDriven"] = json!({"wholeGpus": {}});
    let found = |policy: &Value| {
        texts(&see(std::slice::from_ref(policy)).problems)
            .into_iter()
            .filter(|text| text.contains("wholeGpus"))
            .collect::<Vec<_>>()
    };
    let [text] = found(&policy).try_into().expect("one rule");
    assert!(
        text.contains("spec.sharing.rules[2].resource: is `nvidia.com/gpu` beside `wholeGpus`"),
        "{text}"
    );
    policy["spec"]["sharing"]["rules"][2]["model"] = "T4".into();
    assert_eq!(found(&policy), [""; 0], "no T4 is ever cut");
    policy["spec"]["sharing"]["rules"][2].as_object_mut().expect("a rule").remove("model");
    policy["spec"]["layout"]["demandDriven"] = json!({"wholeGpus": {"maxCount": 0}});
    assert_eq!(found(&policy), [""; 0], "none is made whole");
}
