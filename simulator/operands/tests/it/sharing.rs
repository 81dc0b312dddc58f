//! The resources of the device plugin and the labels of GFD under every strategy, when devices are shared,
//! and for each generation of the plugin.

use std::collections::BTreeMap;

use crate::support::{bind, end, has, label, machine, node, pass, settle};
use operands::{
    Flavour, Node, NodeFault, Opens, Operand, OperandPhase, PLUGIN_CONFIG, PluginVersion, PodPhase, Setup,
    Strategy,
};

fn shares(method: &str, more: &str, resources: &[(&str, u32)]) -> String {
    let list: Vec<String> =
        resources.iter().map(|(name, n)| format!("{{name: nvidia.com/{name}, replicas: {n}}}")).collect();
    format!("version: v1\nsharing: {{{method}: {{{more}resources: [{}]}}}}\n", list.join(", "))
}

fn files() -> BTreeMap<String, String> {
    let files = [
        ("none", "version: v1\n".to_owned()),
        ("ts-4", shares("timeSlicing", "", &[("gpu", 4), ("mig-1g.10gb", 2)])),
        ("renamed", shares("timeSlicing", "renameByDefault: true, ", &[("gpu", 4), ("mig-1g.10gb", 2)])),
        (
            "one-each",
            shares("timeSlicing", "failRequestsGreaterThanOne: true, ", &[("gpu", 4), ("mig-1g.10gb", 2)]),
        ),
        ("mps-8", shares("mps", "", &[("gpu", 8)])),
        ("mps-64", shares("mps", "", &[("gpu", 64)])),
        ("one", shares("timeSlicing", "", &[("gpu", 1)])),
        ("single", "version: v1\nflags: {migStrategy: single}\n".to_owned()),
    ];
    files.map(|(name, text)| (name.to_owned(), text)).into()
}

/// A node whose ClusterPolicy names the ConfigMap above, with a default.
fn configured(strategy: Strategy, layout: Option<&str>, default: &str) -> Node {
    let mut node = node(Setup { strategy, ..Setup::default() }, &["A100-80GB"], layout);
    node.set_plugin_config(Some(files()), default);
    settle(&mut node);
    node
}

fn choose(node: &mut Node, name: &str) {
    node.patch_labels([(PLUGIN_CONFIG, Some(name))]);
}

#[track_caller]
fn says(node: &Node, expect: &[(&str, &str)]) {
    for (key, value) in expect {
        assert_eq!(
            node.labels().get(&format!("nvidia.com/{key}")).map(String::as_str),
            Some(*value),
            "{key}"
        );
    }
}

#[track_caller]
fn exits(node: &Node, operand: Operand, expect: &str) {
    let pod = node.operand_pod(operand).expect("it is there");
    assert_eq!((pod.phase, pod.problem.as_deref()), (OperandPhase::CrashLooping, Some(expect)));
}

#[test]
fn time_slicing_multiplies_what_is_there_and_the_labels_say_so() {
    let node = configured(Strategy::Mixed, None, "ts-4");
    assert!(has(&node, &[("gpu", 4)]));
    says(
        &node,
        &[
            ("gpu.product", "NVIDIA-A100-SXM4-80GB-SHARED"),
            ("gpu.replicas", "4"),
            ("gpu.count", "1"),
            ("gpu.sharing-strategy", "time-slicing"),
            ("mps.capable", "false"),
        ],
    );
    let node = configured(Strategy::Mixed, Some("all-1g.10gb"), "ts-4");
    assert!(has(&node, &[("mig-1g.10gb", 14)]));
    says(
        &node,
        &[
            ("mig-1g.10gb.count", "7"),
            ("mig-1g.10gb.replicas", "2"),
            ("mig-1g.10gb.product", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb-SHARED"),
            ("gpu.product", "NVIDIA-A100-SXM4-80GB"),
            ("gpu.replicas", "0"),
        ],
    );
    let node = configured(Strategy::Single, Some("all-1g.10gb"), "ts-4");
    assert!(has(&node, &[("gpu", 28)]));
    says(&node, &[("gpu.product", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb-SHARED"), ("gpu.count", "7")]);
}

#[test]
fn renamed_devices_are_another_resource_and_the_product_keeps_its_name() {
    let mut node = configured(Strategy::Mixed, Some("all-1g.10gb"), "");
    assert!(has(&node, &[("mig-1g.10gb", 7)]));
    choose(&mut node, "renamed");
    settle(&mut node);
    assert!(has(&node, &[("mig-1g.10gb.shared", 14)]), "and the old name is at zero");
    assert_eq!(node.allocatable()["nvidia.com/mig-1g.10gb"], 0);
    assert_eq!(node.capacity()["nvidia.com/mig-1g.10gb"], 0, "after the grace");
    says(
        &node,
        &[
            ("mig-1g.10gb.product", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"),
            ("mig-1g.10gb.replicas", "2"),
            ("mig-1g.10gb.sharing-strategy", "time-slicing"),
        ],
    );
}

#[test]
fn sharers_hold_the_same_slice_and_it_is_free_when_the_last_has_gone() {
    let mut node = configured(Strategy::Mixed, Some("all-7g.80gb"), "");
    let text = shares("timeSlicing", "", &[("mig-7g.80gb", 2)]);
    node.set_plugin_config(Some(BTreeMap::from([("two".to_owned(), text)])), "two");
    settle(&mut node);
    for name in ["a", "b"] {
        assert_eq!(bind(&mut node, name, "mig-7g.80gb", 1, Opens::Never), PodPhase::Starting);
    }
    assert!(matches!(bind(&mut node, "c", "mig-7g.80gb", 1, Opens::Never), PodPhase::Failed { .. }));
    end(&mut node, "a");
    assert_eq!(crate::support::slices(&node, 0), ["7g.80gb@0*"], "b has it still");
    label(&mut node, "all-1g.10gb");
    settle(&mut node);
    assert_eq!(node.breaches().len(), 1, "it was taken from b");
    end(&mut node, "b");
    assert!(crate::support::slices(&node, 0).iter().all(|slice| !slice.ends_with('*')));
}

#[test]
fn pods_are_spread_over_the_devices_and_one_each_refuses_two() {
    let mut node = node(Setup::default(), &["A100-80GB", "A100-80GB"], None);
    node.set_plugin_config(Some(files()), "one-each");
    settle(&mut node);
    assert!(has(&node, &[("gpu", 8)]));
    for name in ["a", "b"] {
        bind(&mut node, name, "gpu", 1, Opens::Never);
    }
    let holders: Vec<_> = node.truth().into_iter().map(|gpu| gpu.holder.is_some()).collect();
    assert_eq!(holders, [true, true]);
    let PodPhase::Failed { reason, message } = bind(&mut node, "two", "gpu", 2, Opens::Never) else {
        panic!("two are refused");
    };
    assert_eq!(reason, "UnexpectedAdmissionError");
    assert!(message.contains("maximum request size for shared resources is 1"), "{message}");
}

#[test]
fn who_had_a_gpu_alone_counts_as_nobody_once_it_is_shared_and_gets_as_many_neighbours_as_any() {
    let mut node = node(Setup::default(), &["A100-80GB", "A100-80GB"], None);
    node.set_plugin_config(Some(files()), "none");
    settle(&mut node);
    bind(&mut node, "train", "gpu", 1, Opens::Never);
    choose(&mut node, "renamed");
    settle(&mut node);
    assert!(has(&node, &[("gpu.shared", 8)]));
    assert_eq!(node.shared_unawares().len(), 0);
    for n in 0..8 {
        assert_eq!(bind(&mut node, &format!("lab{n}"), "gpu.shared", 1, Opens::Never), PodPhase::Starting);
    }
    let neighbours: Vec<_> = node
        .shared_unawares()
        .iter()
        .map(|pair| (pair.first.name.as_str(), pair.second.name.as_str()))
        .collect();
    // They are spread in turn, by the number of shares given and not by who was there before.
    assert_eq!(neighbours, [("train", "lab0"), ("train", "lab2"), ("train", "lab4"), ("train", "lab6")]);
}

#[test]
fn a_running_pod_keeps_its_device_when_the_number_of_replicas_changes() {
    let mut node = configured(Strategy::Mixed, None, "ts-4");
    bind(&mut node, "lab", "gpu", 1, Opens::Never);
    choose(&mut node, "none");
    settle(&mut node);
    assert!(has(&node, &[("gpu", 1)]));
    assert!(node.truth()[0].holder.is_some());
    assert!(node.breaches().is_empty());
}

#[test]
fn edited_content_under_the_same_name_is_read_when_the_pod_is_new() {
    let mut node = configured(Strategy::Mixed, None, "ts-4");
    let mut edited = files();
    edited.insert("ts-4".to_owned(), shares("timeSlicing", "", &[("gpu", 6)]));
    node.update_plugin_config(edited);
    settle(&mut node);
    assert!(has(&node, &[("gpu", 4)]), "already configured, skipping");
    node.delete_operand(Operand::DevicePlugin);
    settle(&mut node);
    assert!(has(&node, &[("gpu", 6)]));
}

#[test]
fn a_name_that_is_not_there_crashes_beside_a_plugin_that_goes_on() {
    let mut node = configured(Strategy::Mixed, None, "ts-4");
    choose(&mut node, "ts-9");
    settle(&mut node);
    exits(&node, Operand::DevicePlugin, "specified config ts-9 does not exist");
    exits(&node, Operand::GpuFeatureDiscovery, "specified config ts-9 does not exist");
    assert!(has(&node, &[("gpu", 4)]), "the plugin's own container goes on");
    // Somebody adds the file: after the mount's delay the containers start.
    let mut more = files();
    more.insert("ts-9".to_owned(), shares("timeSlicing", "", &[("gpu", 9)]));
    node.update_plugin_config(more);
    pass(&mut node, 50);
    assert!(has(&node, &[("gpu", 4)]));
    settle(&mut node);
    assert!(has(&node, &[("gpu", 9)]));
    assert!(node.operand_pods().all(operands::OperandPod::is_ready));
}

#[test]
fn one_replica_is_an_error_that_the_plugin_exits_with() {
    let mut node = configured(Strategy::Mixed, None, "");
    choose(&mut node, "one");
    settle(&mut node);
    exits(&node, Operand::DevicePlugin, "number of replicas must be >= 2: nvidia.com/gpu has 1");
}

#[test]
fn mps_waits_for_its_server_which_waits_for_gfd() {
    let mut node = configured(Strategy::Single, None, "");
    choose(&mut node, "mps-8");
    pass(&mut node, 20);
    assert!(has(&node, &[]), "the server is not there, and nothing is offered");
    assert!(node.operand_pod(Operand::MpsControlDaemon).is_none(), "GFD has not spoken yet");
    settle(&mut node);
    says(&node, &[("mps.capable", "true"), ("gpu.sharing-strategy", "mps"), ("gpu.replicas", "8")]);
    assert!(node.operand_pod(Operand::MpsControlDaemon).is_some_and(operands::OperandPod::is_ready));
    assert!(has(&node, &[("gpu", 8)]));
    assert!(matches!(bind(&mut node, "two", "gpu", 2, Opens::Never), PodPhase::Failed { .. }));

    choose(&mut node, "none");
    settle(&mut node);
    assert!(has(&node, &[("gpu", 1)]));
    assert!(node.operand_pod(Operand::MpsControlDaemon).is_none());
}

#[test]
fn mps_is_for_whole_gpus_and_not_for_mixed() {
    let mixed = configured(Strategy::Mixed, None, "mps-8");
    exits(&mixed, Operand::DevicePlugin, "using --mig-strategy=mixed is not supported with MPS");
    let cut = configured(Strategy::Single, Some("all-1g.10gb"), "mps-8");
    exits(&cut, Operand::DevicePlugin, "sharing.mps is not supported for MIG devices");
    exits(&cut, Operand::GpuFeatureDiscovery, "sharing.mps is not supported for MIG devices");
}

#[test]
fn too_many_for_mps_end_its_daemon_and_the_plugin_waits_until_somebody_asks_for_fewer() {
    let mut many = configured(Strategy::Single, None, "mps-64");
    pass(&mut many, 600);
    let too_many = "invalid MPS configuration: nvidia.com/gpu has 64 replicas, and 48 is the most";
    exits(&many, Operand::MpsControlDaemon, too_many);
    assert!(many.operand_pod(Operand::DevicePlugin).is_some_and(operands::OperandPod::is_ready));
    assert!(has(&many, &[]), "it asks every half minute, and offers nothing");
    choose(&mut many, "mps-8");
    settle(&mut many);
    assert!(has(&many, &[("gpu", 8)]));
}

#[test]
fn without_a_strategy_slices_are_not_seen() {
    let none =
        node(Setup { strategy: Strategy::None, ..Setup::default() }, &["A100-80GB"], Some("all-1g.10gb"));
    assert!(has(&none, &[("gpu", 1)]));
    assert!(!none.labels().contains_key("nvidia.com/mig.strategy"));
    assert!(!none.labels().keys().any(|key| key.starts_with("nvidia.com/mig-")));

    // Empty: the file decides, node by node.
    let by_file = configured(Strategy::Configured, Some("all-1g.10gb"), "single");
    assert!(has(&by_file, &[("gpu", 7)]));
    says(&by_file, &[("mig.strategy", "single"), ("gpu.count", "7")]);
    let unset = configured(Strategy::Configured, Some("all-1g.10gb"), "none");
    assert!(has(&unset, &[("gpu", 1)]));
}

#[test]
fn a_change_of_the_layout_takes_the_configuration_along() {
    let mut node = configured(Strategy::Mixed, Some("all-7g.80gb"), "");
    choose(&mut node, "ts-4");
    settle(&mut node);
    label(&mut node, "all-1g.10gb");
    settle(&mut node);
    assert!(has(&node, &[("mig-1g.10gb", 14)]));
}

#[test]
fn an_older_plugin_offers_suffixed_profiles_under_the_plain_name() {
    for (plugin, resource) in
        [(PluginVersion::V0_18_2, "mig-1g.10gb"), (PluginVersion::V0_20_0, "mig-1g.10gb.me")]
    {
        let node = node(Setup { plugin, ..Setup::default() }, &["A100-80GB"], Some("all-1g.10gb.me"));
        assert!(has(&node, &[(resource, 1)]), "{plugin}: {:?}", crate::support::allocatable(&node));
    }
}

#[test]
fn maps_arrive_at_times_of_their_own_within_the_range() {
    let arrives = |name: &str| {
        let mut setup = Setup { flavour: Flavour::Helm, ..Setup::default() };
        setup.timings.map_mount = jiff::SignedDuration::from_secs(10);
        setup.timings.map_mount_spread = jiff::SignedDuration::from_secs(80);
        let machine = gpu::Machine::new(name, gpu::DriverBranch::default(), crate::support::start())
            .with_gpu(&gpu::Model::find("A100-80GB").expect("a model"));
        let mut node = Node::new(setup, machine, BTreeMap::new(), None, None).expect("it is possible");
        let text = node.mounted_map().replace("all-balanced", "new");
        node.update_map(&text);
        let mut seconds = 0;
        while node.mounted_map() != text {
            pass(&mut node, 1);
            seconds += 1;
        }
        seconds
    };
    let times: Vec<i64> = (0..20).map(|n| arrives(&format!("worker-{n}"))).collect();
    assert!(times.iter().all(|t| (10..=90).contains(t)), "{times:?}");
    assert!(times.iter().max() > times.iter().min().map(|t| t + 30).as_ref(), "{times:?}");

    let mut node =
        Node::new(Setup::default(), machine(&["A30"]), BTreeMap::new(), None, None).expect("possible");
    node.turn(NodeFault::MapMountsAfter(jiff::SignedDuration::from_mins(5)));
    let text = node.mounted_map().replace("all-balanced", "new");
    node.update_map(&text);
    pass(&mut node, 299);
    assert_ne!(node.mounted_map(), text);
    pass(&mut node, 1);
    assert_eq!(node.mounted_map(), text);
}

#[test]
fn an_upgrade_that_drains_deletes_who_holds_a_device_and_goes_on() {
    let mut node = node(Setup::default(), &["A100-80GB"], Some("all-1g.10gb"));
    bind(&mut node, "lab", "mig-1g.10gb", 1, Opens::Never);
    node.turn(NodeFault::DriverUpgradeDrains);
    pass(&mut node, 10);
    says(&node, &[("gpu-driver-upgrade-state", "pod-deletion-required")]);
    assert_eq!(node.pods_to_delete().iter().map(ToString::to_string).collect::<Vec<_>>(), ["team/lab"]);
    end(&mut node, "lab");
    settle(&mut node);
    says(&node, &[("gpu-driver-upgrade-state", "upgrade-done")]);
    assert!(!node.unschedulable());
    assert!(node.breaches().is_empty(), "it waited");

    let mut node = crate::support::node(Setup::default(), &["A100-80GB"], Some("all-1g.10gb"));
    bind(&mut node, "stays", "mig-1g.10gb", 1, Opens::Never);
    node.turn(NodeFault::DriverUpgradeDrains);
    settle(&mut node);
    says(&node, &[("gpu-driver-upgrade-state", "upgrade-failed")]);
    assert!(node.unschedulable() && node.breaches().is_empty());
}
