//! A layout changes without faults: the order of events, and how much of it the API shows at each moment.

use crate::support::{
    allocatable, bind, end, has, label, machine, node, parked, pass, plugin_created, settle, slices, start,
    state, states,
};
use jiff::SignedDuration;
use operands::{Change, Flavour, Opens, Operand, PodPhase, Setup, Strategy, What};

fn at(changes: &[Change], found: impl Fn(&What) -> bool) -> SignedDuration {
    changes.iter().find(|c| found(&c.what)).expect("it happened").at.duration_since(start())
}

fn is_label(what: &What, key: &str, value: Option<&str>) -> bool {
    matches!(what, What::Label { key: k, value: v } if k.ends_with(key) && v.as_deref() == value)
}

#[test]
fn success_comes_before_the_slices_do() {
    let mut node = node(Setup::default(), &["A100-40GB"], Some("all-1g.5gb"));
    assert!(has(&node, &[("mig-1g.5gb", 7)]));
    let before = plugin_created(&node).unwrap();
    label(&mut node, "all-balanced");
    let changes = settle(&mut node);

    assert_eq!(states(&changes), ["pending", "success"]);
    let parked = at(&changes, |w| is_label(w, "deploy.device-plugin", Some("paused-for-mig-change")));
    let pending = at(&changes, |w| is_label(w, "mig.config.state", Some("pending")));
    let unparked = at(&changes, |w| is_label(w, "deploy.device-plugin", Some("true")));
    let success = at(&changes, |w| is_label(w, "mig.config.state", Some("success")));
    let plugin = at(&changes, |w| {
        matches!(
            w,
            What::Operand {
                operand: Operand::DevicePlugin,
                phase: Some(operands::OperandPhase::Starting),
                ..
            }
        )
    });
    let there = at(
        &changes,
        |w| matches!(w, What::Allocatable { resource, count: 1 } if resource.ends_with("3g.20gb")),
    );
    let labels = at(&changes, |w| is_label(w, "mig-3g.20gb.count", Some("1")));
    assert!(pending <= parked && parked < unparked && unparked <= success);
    assert!(success < plugin && plugin < there && there < labels, "success is not schedulable");
    assert!(plugin_created(&node).unwrap() > before);
    assert!(has(&node, &[("mig-1g.5gb", 2), ("mig-2g.10gb", 1), ("mig-3g.20gb", 1)]));
    assert!(node.breaches().is_empty());
}

#[test]
fn the_old_state_stays_until_the_manager_wakes() {
    let mut node = node(Setup::default(), &["A100-40GB"], Some("all-1g.5gb"));
    label(&mut node, "all-2g.10gb");
    node.tick(node.now());
    assert_eq!(state(&node), Some("success"), "a stale success, with another label");
    pass(&mut node, 3);
    assert_eq!(state(&node), Some("pending"));
}

#[test]
fn an_applied_layout_goes_from_success_to_success_and_parks_nothing() {
    let mut node = node(Setup::default(), &["A100-40GB"], Some("all-1g.5gb"));
    node.patch_labels([("nvidia.com/mig.config", Some("all-1g.5gb")), ("nvidia.com/mig.config.state", None)]);
    assert!(settle(&mut node).iter().all(|c| is_label(&c.what, "mig.config.state", None)), "no edge, no run");
    let map = node.mounted_map().replace("all-1g.5gb:", "gpp-alias:");
    node.update_map(&map);
    settle(&mut node);
    label(&mut node, "gpp-alias");
    let changes = settle(&mut node);
    assert_eq!(states(&changes), ["success"]);
    assert!(!changes.iter().any(|c| is_label(
        &c.what,
        "deploy.device-plugin",
        Some("paused-for-mig-change")
    )));
}

#[test]
fn a_label_before_its_entry_has_arrived_fails_and_a_retry_needs_an_edge() {
    let mut node = node(Setup::default(), &["A100-40GB"], Some("all-1g.5gb"));
    let map = node.mounted_map().replace("all-3g.20gb:", "gpp-new:");
    node.update_map(&map);
    label(&mut node, "gpp-new");
    pass(&mut node, 30);
    assert_eq!(state(&node), Some("failed"));
    assert!(!parked(&node));
    settle(&mut node);
    assert_eq!(state(&node), Some("failed"), "new content alone starts nothing");
    label(&mut node, "gpp-new");
    settle(&mut node);
    assert_eq!(state(&node), Some("failed"), "the same value is no edge");
    node.delete_operand(Operand::MigManager);
    settle(&mut node);
    assert_eq!(state(&node), Some("success"), "a new pod looks again");
    assert_eq!(slices(&node, 0), ["3g.20gb@0", "3g.20gb@4"]);
}

#[test]
fn on_openshift_the_labels_of_gfd_vanish_and_with_helm_they_stay() {
    for (flavour, vanish) in [(Flavour::OpenShift, true), (Flavour::Helm, false)] {
        let setup = Setup { flavour, ..Setup::default() };
        let mut node = node(setup, &["H100-80GB"], Some("all-1g.10gb"));
        assert_eq!(node.labels()["nvidia.com/gpu.product"], "NVIDIA-H100-80GB-HBM3");
        label(&mut node, "all-balanced");
        let changes = settle(&mut node);
        assert_eq!(changes.iter().any(|c| is_label(&c.what, "gpu.product", None)), vanish, "{flavour:?}");
        for (key, value) in [
            ("gpu.product", "NVIDIA-H100-80GB-HBM3"),
            ("gpu.count", "1"),
            ("gpu.replicas", "0"),
            ("mig-1g.10gb.count", "2"),
            ("mig-1g.10gb.memory", "9984"),
            ("mig-1g.10gb.multiprocessors", "16"),
            ("mig-2g.20gb.memory", "20096"),
            ("mig-3g.40gb.multiprocessors", "60"),
            ("mig-3g.40gb.product", "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb"),
        ] {
            assert_eq!(node.labels()[&format!("nvidia.com/{key}")], value, "{key}");
        }
    }
}

#[test]
fn allocatable_is_zero_at_once_and_capacity_after_five_minutes_and_keys_stay() {
    let mut node = node(Setup::default(), &["A100-40GB"], Some("all-1g.5gb"));
    label(&mut node, "all-7g.40gb");
    pass(&mut node, 120);
    assert!(has(&node, &[("mig-7g.40gb", 1)]));
    assert_eq!(node.allocatable()["nvidia.com/mig-1g.5gb"], 0);
    assert_eq!(node.capacity()["nvidia.com/mig-1g.5gb"], 7, "the old layout, still");
    settle(&mut node);
    assert_eq!(node.capacity()["nvidia.com/mig-1g.5gb"], 0);
    assert_eq!(node.allocatable()["nvidia.com/mig-1g.5gb"], 0);
}

#[test]
fn resources_come_one_after_the_other() {
    let mut node = node(Setup::default(), &["A100-40GB"], Some("all-1g.5gb"));
    label(&mut node, "all-balanced");
    let mut seen = Vec::new();
    while let Some(at) = node.next_event() {
        node.tick(at);
        let now = allocatable(&node);
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    }
    let sizes: Vec<_> = seen.iter().map(Vec::len).collect();
    assert_eq!(sizes, [1, 0, 1, 2, 3], "partial vectors are visible");
}

#[test]
fn an_idle_notebook_loses_its_slice_and_nvidia_calls_it_success() {
    let mut node = node(Setup::default(), &["A100-40GB"], Some("all-1g.5gb"));
    assert_eq!(bind(&mut node, "notebook", "mig-1g.5gb", 1, Opens::Never), PodPhase::Starting);
    pass(&mut node, 60);
    label(&mut node, "all-3g.20gb");
    settle(&mut node);
    assert_eq!(state(&node), Some("success"));
    let [breach] = node.breaches() else { panic!("one breach: {:?}", node.breaches()) };
    assert_eq!(breach.owner, "team/notebook");
}

#[test]
fn a_change_of_another_gpu_leaves_a_busy_gpu_alone() {
    let map = "version: v1
mig-configs:
  before:
    - {devices: [0, 1], mig-enabled: true, mig-devices: {1g.5gb: 7}}
  after:
    - {devices: [0], mig-enabled: true, mig-devices: {1g.5gb: 7}}
    - {devices: [1], mig-enabled: true, mig-devices: {3g.20gb: 2}}
";
    let machine = machine(&["A100-40GB", "A100-40GB"]);
    let mut node =
        operands::Node::new(Setup::default(), machine, [].into(), Some(map), Some("before")).unwrap();
    for pod in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"] {
        bind(&mut node, pod, "mig-1g.5gb", 1, Opens::AtOnce);
    }
    pass(&mut node, 10);
    let truth = node.truth();
    for holder in truth[1].slices.iter().filter_map(|s| s.holder.as_deref()) {
        end(&mut node, holder.trim_start_matches("team/"));
    }
    label(&mut node, "after");
    settle(&mut node);
    assert_eq!(state(&node), Some("success"));
    assert!(has(&node, &[("mig-1g.5gb", 7), ("mig-3g.20gb", 2)]));
    assert!(node.breaches().is_empty());
    assert_eq!(node.pods().filter(|p| p.has_open()).count(), 7);
}

#[test]
fn a_pod_that_binds_where_there_is_nothing_is_refused_by_the_kubelet() {
    let mut node = node(Setup::default(), &["A30"], Some("all-2g.12gb"));
    bind(&mut node, "a", "mig-2g.12gb", 2, Opens::Never);
    let PodPhase::Failed { reason, message } = bind(&mut node, "b", "mig-2g.12gb", 1, Opens::Never) else {
        panic!("there is none left")
    };
    assert_eq!(reason, "UnexpectedAdmissionError", "the device manager is asked first");
    assert_eq!(
        message,
        "Allocate failed due to requested number of devices unavailable for nvidia.com/mig-2g.12gb. \
         Requested: 1, Available: 0, which is unexpected"
    );
    let PodPhase::Failed { reason, message } = bind(&mut node, "c", "mig-1g.6gb", 1, Opens::Never) else {
        panic!("there are none")
    };
    assert_eq!(reason, "OutOfnvidia.com/mig-1g.6gb", "which does not know this resource");
    assert_eq!(
        message,
        "Node didn't have enough resource: nvidia.com/mig-1g.6gb, requested: 1, used: 0, capacity: 0"
    );
    end(&mut node, "a");
    assert_eq!(bind(&mut node, "b", "mig-2g.12gb", 1, Opens::Never), PodPhase::Starting);
}

#[test]
fn a_new_pod_of_mig_manager_waits_for_its_map_and_mounts_it_as_it_is() {
    let mut node = node(Setup::default(), &["A30"], Some("all-2g.12gb"));
    let two =
        "version: v1\nmig-configs: {two: [{devices: all, mig-enabled: true, mig-devices: {2g.12gb: 2}}]}";
    let four = two.replace("two", "four").replace("2g.12gb: 2", "1g.6gb: 4");
    node.lose_map();
    node.delete_operand(Operand::MigManager);
    settle(&mut node);
    assert!(!node.operand_pod(Operand::MigManager).unwrap().is_ready(), "its volume cannot be mounted");
    label(&mut node, "four");
    node.update_map(&four);
    settle(&mut node);
    assert_eq!(state(&node), Some("success"));
    assert!(has(&node, &[("mig-1g.6gb", 4)]));

    // A running pod sees new content late; one that is made anew sees it at once.
    node.update_map(two);
    assert_eq!(node.mounted_map(), four);
    node.mount_map(two);
    assert_eq!(node.mounted_map(), two);
    settle(&mut node);
    assert_eq!(node.mounted_map(), two);
}

#[test]
fn under_single_slices_are_gpus_and_two_profiles_crash_the_plugin() {
    let setup = Setup { strategy: Strategy::Single, ..Setup::default() };
    let mut node = node(setup, &["A100-80GB"], Some("all-1g.10gb"));
    assert!(has(&node, &[("gpu", 7)]));
    assert_eq!(node.labels()["nvidia.com/gpu.product"], "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb");
    assert_eq!(node.labels()["nvidia.com/gpu.count"], "7");
    bind(&mut node, "workbench", "gpu", 7, Opens::Never);
    assert_eq!(node.truth()[0].slices.iter().filter(|s| s.holder.is_some()).count(), 7);
    end(&mut node, "workbench");

    label(&mut node, "all-balanced");
    settle(&mut node);
    assert_eq!(state(&node), Some("success"), "the manager is content");
    assert!(has(&node, &[]), "and nothing can be scheduled");
    let plugin = node.operand_pod(Operand::DevicePlugin).unwrap();
    assert!(!plugin.is_ready());
    assert_eq!(plugin.problem.as_deref(), Some("more than one MIG device type present on node"));
    assert_eq!(node.labels()["nvidia.com/gpu.product"], "NVIDIA-A100-SXM4-80GB-MIG-INVALID");
    assert_eq!(node.labels()["nvidia.com/gpu.count"], "0");
}
