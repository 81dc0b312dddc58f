//! The state after failures, row by row, for each generation of MIG manager; and the ways to recover a
//! node.

use crate::support::{bind, end, has, label, node, parked, pass, settle, slices, state, states};
use gpu::{Behaviour, Fault, NvmlError, Times, Verb};
use jiff::SignedDuration;
use operands::{ManagerVersion, Node, NodeFault, Opens, Operand, ScheduledFault, Setup, Strategy};

fn managed_by(manager: ManagerVersion) -> Setup {
    Setup { manager, ..Setup::default() }
}

fn old(manager: ManagerVersion) -> Node {
    node(managed_by(manager), &["A100-40GB"], Some("all-1g.5gb"))
}

#[track_caller]
fn check(node: &Node, expect_state: &str, expect_parked: bool) {
    assert_eq!((state(node), parked(node)), (Some(expect_state), expect_parked));
}

#[test]
fn a_name_that_is_not_there_fails_and_parks_nothing() {
    let mut node = old(ManagerVersion::V0_15_0);
    label(&mut node, "all-9g.90gb");
    settle(&mut node);
    check(&node, "failed", false);
    assert!(has(&node, &[("mig-1g.5gb", 7)]), "nothing was touched");
}

#[test]
fn an_operand_that_does_not_stop_wedges_by_version() {
    for (manager, expect_state, expect_parked) in [
        (ManagerVersion::V0_12, "success", false),
        (ManagerVersion::V0_15_0, "pending", true),
        (ManagerVersion::V0_15_1, "failed", false),
    ] {
        let mut node = old(manager);
        node.turn(NodeFault::DoesNotStop(Operand::DcgmExporter));
        label(&mut node, "all-3g.20gb");
        pass(&mut node, 4 * 60);
        check(&node, "pending", true);
        settle(&mut node);
        check(&node, expect_state, expect_parked);
    }
}

#[test]
fn the_wedge_lasts_until_the_managers_pod_is_deleted() {
    let mut node = old(ManagerVersion::V0_15_0);
    node.turn(NodeFault::DoesNotStop(Operand::DevicePlugin));
    label(&mut node, "all-3g.20gb");
    settle(&mut node);
    check(&node, "pending", true);
    node.turn(NodeFault::Clear);
    settle(&mut node);
    check(&node, "pending", true);
    assert!(has(&node, &[]), "no GPU at all, for ever");
    node.delete_operand(Operand::MigManager);
    settle(&mut node);
    check(&node, "success", false);
    assert!(has(&node, &[("mig-3g.20gb", 2)]));
}

#[test]
fn a_validator_that_cannot_be_deleted_wedges_when_all_is_done() {
    let mut node = old(ManagerVersion::V0_15_0);
    node.turn(NodeFault::ValidatorDeleteFails);
    label(&mut node, "all-3g.20gb");
    settle(&mut node);
    check(&node, "pending", true);
    assert_eq!(slices(&node, 0), ["3g.20gb@0", "3g.20gb@4"], "the GPUs have it");
}

#[test]
fn a_failure_after_a_full_run_leaves_everything_parked() {
    let mut node = old(ManagerVersion::V0_15_0);
    node.turn(NodeFault::CdiFails);
    label(&mut node, "all-3g.20gb");
    settle(&mut node);
    check(&node, "failed", false);

    node.turn(NodeFault::Clear);
    label(&mut node, "all-2g.10gb");
    settle(&mut node);
    check(&node, "success", false);

    node.turn(NodeFault::CdiFails);
    label(&mut node, "all-1g.5gb");
    settle(&mut node);
    check(&node, "failed", true);

    // Back under another name of the layout that is in place: already applied.
    node.turn(NodeFault::Clear);
    let map = node.mounted_map().replace("all-1g.5gb:", "gpp-alias:");
    node.update_map(&map);
    settle(&mut node);
    label(&mut node, "gpp-alias");
    settle(&mut node);
    check(&node, "success", true);
    assert!(has(&node, &[]), "state says success, and the node has nothing");

    node.delete_operand(Operand::MigManager);
    settle(&mut node);
    check(&node, "success", false);
    assert!(has(&node, &[("mig-1g.5gb", 7)]));
}

#[test]
fn the_script_unparks_after_every_failure() {
    let mut node = old(ManagerVersion::V0_12);
    label(&mut node, "all-2g.10gb");
    settle(&mut node);
    node.turn(NodeFault::CdiFails);
    label(&mut node, "all-1g.5gb");
    settle(&mut node);
    check(&node, "failed", false);
}

#[test]
fn a_busy_slice_fails_the_change_with_part_of_it_done() {
    let mut node = old(ManagerVersion::V0_15_0);
    for pod in ["a", "b", "c", "d", "e", "f", "g"] {
        bind(&mut node, pod, "mig-1g.5gb", 1, Opens::AtOnce);
    }
    pass(&mut node, 10);
    let holders: Vec<_> =
        node.truth()[0].slices.iter().map(|s| s.holder.clone().unwrap().replace("team/", "")).collect();
    for (start, holder) in holders.iter().enumerate() {
        if start != 4 {
            end(&mut node, holder);
        }
    }
    label(&mut node, "all-3g.20gb");
    let changes = settle(&mut node);
    assert_eq!(states(&changes), ["pending", "failed"]);
    assert!(changes.iter().any(|c| c.to_string().contains("In use by another client")));
    // GPU instances go in the order of their ids: starts 0 to 3, then the busy one.
    assert_eq!(slices(&node, 0), ["1g.5gb@4*", "1g.5gb@5", "1g.5gb@6"]);
    assert!(node.breaches().is_empty(), "what is open is protected");
    check(&node, "failed", false);
    assert!(has(&node, &[("mig-1g.5gb", 3)]));
}

#[test]
fn what_cannot_be_cut_leaves_that_gpu_empty_and_the_next_as_it_was() {
    let map = "version: v1
mig-configs:
  before:
    - {devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}
  too-much:
    - {devices: all, mig-enabled: true, mig-devices: {3g.20gb: 2, 1g.5gb: 1}}
";
    let machine = crate::support::machine(&["A100-40GB", "A100-40GB"]);
    let mut node = Node::new(Setup::default(), machine, [].into(), Some(map), Some("before")).unwrap();
    label(&mut node, "too-much");
    let changes = settle(&mut node);
    check(&node, "failed", false);
    assert!(changes.iter().any(|c| c.to_string()
        == "MIG manager: GPU 0: no order of creating 1 x 1g.5gb, 2 x 3g.20gb is accepted by the driver."));
    assert!(slices(&node, 0).is_empty());
    assert_eq!(slices(&node, 1).len(), 7);
    assert!(node.machine().gpus()[0].mig_is_on());
}

#[test]
fn an_order_is_found_where_one_exists() {
    let map = "version: v1
mig-configs:
  uneven:
    - {devices: all, mig-enabled: true, mig-devices: {1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1}}
";
    let machine = crate::support::machine(&["A100-40GB"]);
    let mut node = Node::new(Setup::default(), machine, [].into(), Some(map), None).unwrap();
    label(&mut node, "uneven");
    settle(&mut node);
    check(&node, "success", false);
    assert_eq!(slices(&node, 0), ["2g.10gb@0", "1g.5gb@2", "1g.5gb@3", "3g.20gb@4"], "largest first");
}

#[test]
fn a_busy_ampere_fails_a_mode_change_with_other_gpus_already_cleared() {
    let mut node = node(Setup::default(), &["A100-40GB", "A100-40GB"], Some("all-1g.5gb"));
    bind(&mut node, "trainer", "mig-1g.5gb", 1, Opens::AtOnce);
    pass(&mut node, 10);
    label(&mut node, "all-disabled");
    settle(&mut node);
    check(&node, "failed", false);
    let cleared = node.truth().iter().filter(|gpu| gpu.slices.is_empty()).count();
    assert!(cleared <= 1, "at most the GPU that nobody has open");
    assert!(node.breaches().is_empty());
}

#[test]
fn with_reboot_the_mode_arrives_with_the_next_boot() {
    let setup = Setup { with_reboot: true, ..Setup::default() };
    let machine = crate::support::machine(&["A100-40GB"]).passed_through();
    let mut node = Node::new(setup, machine, [].into(), None, None).unwrap();
    // A reset by hand is not possible either.
    node.turn(NodeFault::Hardware(Fault::Call {
        verb: Verb::Reset,
        gpu: None,
        behaviour: Behaviour::Fail(NvmlError::NotSupported),
        times: Times::UntilCleared,
    }));
    let boot = node.boot_id();
    label(&mut node, "all-1g.5gb");
    let mut changes = Vec::new();
    while node.ready() {
        let at = node.next_event().unwrap();
        changes.extend(node.tick(at));
    }
    assert_eq!(state(&node), Some("rebooting"));
    assert_eq!(node.boot_id(), boot);
    changes.extend(settle(&mut node));
    assert_eq!(states(&changes), ["pending", "rebooting", "pending", "success"]);
    assert_ne!(node.boot_id(), boot);
    assert!(has(&node, &[("mig-1g.5gb", 7)]));
}

#[test]
fn a_reboot_loses_the_slices_and_the_manager_cuts_them_again() {
    for (model, profile, advertised_meanwhile) in [("A100-40GB", "1g.5gb", 0), ("H100-80GB", "1g.10gb", 1)] {
        let mut node = node(Setup::default(), &[model], Some(&format!("all-{profile}")));
        bind(&mut node, "notebook", &format!("mig-{profile}"), 1, Opens::Never);
        pass(&mut node, 10);
        node.reboot();
        assert!(!node.ready());
        pass(&mut node, 301);
        assert!(node.ready());
        assert_eq!(state(&node), Some("success"), "stale");
        assert!(slices(&node, 0).is_empty());
        let mut most = 0;
        while let Some(at) = node.next_event() {
            node.tick(at);
            most = most.max(node.allocatable().get("nvidia.com/gpu").copied().unwrap_or(0));
        }
        assert_eq!(most, advertised_meanwhile, "{model}: Hopper loses its mode too and shows a full GPU");
        check(&node, "success", false);
        assert!(has(&node, &[(&format!("mig-{profile}"), 7)]));
        assert!(node.breaches().is_empty(), "a reboot is not a change of ours");
    }
}

#[test]
fn a_call_that_hangs_holds_the_run_until_the_pod_goes() {
    let mut node = old(ManagerVersion::V0_15_1);
    node.turn(NodeFault::Hardware(Fault::Call {
        verb: Verb::CreateGpuInstance,
        gpu: Some(0),
        behaviour: Behaviour::Hang,
        times: Times::Count(1),
    }));
    label(&mut node, "all-3g.20gb");
    settle(&mut node);
    check(&node, "pending", true);
    node.delete_operand(Operand::MigManager);
    settle(&mut node);
    check(&node, "success", false);
}

#[test]
fn a_slow_call_makes_the_run_longer() {
    let time = |slow: i64| {
        let mut node = old(ManagerVersion::V0_15_0);
        if slow > 0 {
            node.turn(NodeFault::Hardware(Fault::Call {
                verb: Verb::DestroyGpuInstance,
                gpu: None,
                behaviour: Behaviour::Slow(SignedDuration::from_secs(slow)),
                times: Times::Count(1),
            }));
        }
        label(&mut node, "all-3g.20gb");
        let changes = settle(&mut node);
        assert_eq!(states(&changes), ["pending", "success"]);
        changes.iter().rfind(|c| !states(std::slice::from_ref(*c)).is_empty()).unwrap().at
    };
    assert_eq!(time(90).duration_since(time(0)), SignedDuration::from_secs(90));
}

#[test]
fn a_plugin_that_never_registers_and_one_that_counts_wrong() {
    let mut node = old(ManagerVersion::V0_15_0);
    node.turn(NodeFault::PluginNeverRegisters);
    label(&mut node, "all-3g.20gb");
    settle(&mut node);
    check(&node, "success", false);
    assert!(has(&node, &[]));
    assert!(node.operand_pod(Operand::DevicePlugin).unwrap().is_ready());

    node.turn(NodeFault::Clear);
    node.turn(NodeFault::PluginCounts { resource: "nvidia.com/mig-3g.20gb".to_owned(), by: -1 });
    node.delete_operand(Operand::DevicePlugin);
    settle(&mut node);
    assert!(has(&node, &[("mig-3g.20gb", 1)]));
}

#[test]
fn a_validator_that_is_never_ready_keeps_the_others_waiting() {
    let mut node = old(ManagerVersion::V0_15_0);
    node.turn(NodeFault::ValidatorNeverReady);
    label(&mut node, "all-3g.20gb");
    settle(&mut node);
    check(&node, "success", false);
    assert!(has(&node, &[]));
    node.turn(NodeFault::Clear);
    settle(&mut node);
    assert!(has(&node, &[("mig-3g.20gb", 2)]));
}

#[test]
fn a_gpu_with_a_grave_error_is_unhealthy_until_the_plugin_starts_anew() {
    let mut node = node(Setup::default(), &["A100-40GB", "A100-40GB"], Some("all-3g.20gb"));
    let at = node.now() + SignedDuration::from_secs(60);
    node.schedule(ScheduledFault { at, fault: NodeFault::Hardware(Fault::Xid { gpu: 1, code: 31 }) });
    pass(&mut node, 120);
    assert!(has(&node, &[("mig-3g.20gb", 4)]), "31 is the application's fault");
    node.turn(NodeFault::Hardware(Fault::Xid { gpu: 1, code: 79 }));
    pass(&mut node, 10);
    assert!(has(&node, &[("mig-3g.20gb", 2)]));
    node.turn(NodeFault::Hardware(Fault::FallsOffTheBus { gpu: 1 }));
    settle(&mut node);
    label(&mut node, "all-1g.5gb");
    settle(&mut node);
    assert_eq!(state(&node), Some("failed"), "a lost GPU answers nothing");
}

#[test]
fn a_foreign_taint_keeps_operands_away_and_a_cordon_does_not() {
    let mut node = old(ManagerVersion::V0_15_0);
    node.set_unschedulable(true);
    label(&mut node, "all-3g.20gb");
    settle(&mut node);
    assert!(has(&node, &[("mig-3g.20gb", 2)]));
    node.set_foreign_taint(true);
    label(&mut node, "all-1g.5gb");
    settle(&mut node);
    check(&node, "success", false);
    assert!(has(&node, &[]));
    node.set_foreign_taint(false);
    settle(&mut node);
    assert!(has(&node, &[("mig-1g.5gb", 7)]));
}

#[test]
fn a_label_taken_away_while_idle_does_nothing_and_during_a_run_fails() {
    let mut node = old(ManagerVersion::V0_15_0);
    node.patch_labels([("nvidia.com/mig.config", None::<&str>)]);
    assert!(states(&settle(&mut node)).is_empty());
    label(&mut node, "all-1g.5gb");
    assert_eq!(states(&settle(&mut node)), Vec::<String>::new(), "success to success shows no change");

    label(&mut node, "all-3g.20gb");
    pass(&mut node, 5);
    node.patch_labels([("nvidia.com/mig.config", None::<&str>)]);
    let changes = settle(&mut node);
    assert_eq!(states(&changes), ["success", "failed"]);
}

#[test]
fn a_value_that_changes_and_changes_back_during_a_run_is_not_noticed() {
    let mut node = old(ManagerVersion::V0_15_0);
    label(&mut node, "all-3g.20gb");
    pass(&mut node, 5);
    label(&mut node, "all-2g.10gb");
    pass(&mut node, 5);
    label(&mut node, "all-3g.20gb");
    assert_eq!(states(&settle(&mut node)), ["success"]);
    label(&mut node, "all-2g.10gb");
    pass(&mut node, 5);
    label(&mut node, "all-1g.5gb");
    assert_eq!(
        states(&settle(&mut node)),
        ["success", "pending", "success"],
        "the latest value is done next"
    );
    assert!(has(&node, &[("mig-1g.5gb", 7)]));
}

#[test]
fn an_opted_out_operand_stays_out_and_an_absent_label_comes_back() {
    let mut node = old(ManagerVersion::V0_15_0);
    node.patch_labels([("nvidia.com/gpu.deploy.dcgm", Some("false"))]);
    node.patch_labels([("nvidia.com/gpu.deploy.dcgm-exporter", None::<&str>)]);
    settle(&mut node);
    assert_eq!(node.labels()["nvidia.com/gpu.deploy.dcgm-exporter"], "true");
    label(&mut node, "all-3g.20gb");
    settle(&mut node);
    assert_eq!(node.labels()["nvidia.com/gpu.deploy.dcgm"], "false");
    assert!(node.operand_pod(Operand::Dcgm).is_none());
    assert_eq!(node.labels()["nvidia.com/gpu.deploy.nvsm"], "true", "created by the first full run");
}

#[test]
fn a_display_gpu_beside_is_left_alone() {
    let display =
        std::sync::Arc::new(gpu::Model::without_mig("NVIDIA DGX Display", 4096, gpu::PciClass::Vga));
    let machine = crate::support::machine(&["A100-80GB"]).with_gpu(&display);
    let mut node = Node::new(Setup::default(), machine, [].into(), None, None).unwrap();
    // The plugin and GFD leave it out by its name; NVML and mig-parted do not.
    assert!(has(&node, &[("gpu", 1)]));
    assert_eq!(node.labels()["nvidia.com/gpu.mode"], "compute");
    label(&mut node, "all-1g.10gb");
    settle(&mut node);
    check(&node, "success", false);
    assert!(has(&node, &[("mig-1g.10gb", 7)]));
    assert_eq!(node.allocatable().get("nvidia.com/gpu").copied().unwrap_or_default(), 0);
    // `devices: all, mig-enabled: true` never asserts here: a new pod does it all again.
    node.delete_operand(Operand::MigManager);
    assert_eq!(states(&settle(&mut node)), ["pending", "success"]);
}

#[test]
fn under_single_a_mixed_node_crashes_the_plugin() {
    let setup = Setup { strategy: Strategy::Single, ..Setup::default() };
    let map = "version: v1
mig-configs:
  half:
    - {devices: [0], mig-enabled: true, mig-devices: {3g.20gb: 2}}
    - {devices: [1], mig-enabled: false}
";
    let machine = crate::support::machine(&["A100-40GB", "A100-40GB"]);
    let node = Node::new(setup, machine, [].into(), Some(map), Some("half")).unwrap();
    let plugin = node.operand_pod(Operand::DevicePlugin).unwrap();
    assert_eq!(
        plugin.problem.as_deref(),
        Some("all devices on the node must be configured with the same migEnabled value")
    );
}

#[test]
fn a_manager_that_crashes_works_on_nothing_until_it_runs_again() {
    let mut node = old(ManagerVersion::V0_15_0);
    node.turn(NodeFault::Crashes(Operand::MigManager));
    label(&mut node, "all-3g.20gb");
    settle(&mut node);
    check(&node, "success", false);
    assert!(has(&node, &[("mig-1g.5gb", 7)]));
    let pod = node.operand_pod(Operand::MigManager).unwrap();
    assert_eq!(pod.problem.as_deref(), Some("the container exits with code 1"));
    node.turn(NodeFault::Clear);
    settle(&mut node);
    check(&node, "success", false);
    assert!(has(&node, &[("mig-3g.20gb", 2)]), "it takes what the label says when it starts");
}

#[test]
fn a_plugin_that_crashes_takes_its_devices_with_it() {
    let mut node = old(ManagerVersion::V0_15_0);
    node.turn(NodeFault::Crashes(Operand::DevicePlugin));
    settle(&mut node);
    assert!(has(&node, &[]));
    node.delete_operand(Operand::DevicePlugin);
    settle(&mut node);
    assert!(has(&node, &[]), "a new pod crashes as well");
    node.turn(NodeFault::Clear);
    settle(&mut node);
    assert!(has(&node, &[("mig-1g.5gb", 7)]));
}

#[test]
fn labels_that_vanish_come_back() {
    let mut node = old(ManagerVersion::V0_15_0);
    let before = node.labels().get("nvidia.com/gpu.product").cloned();
    assert!(before.is_some());
    node.turn(NodeFault::LabelsVanish);
    assert_eq!(node.labels().get("nvidia.com/gpu.product"), None);
    settle(&mut node);
    assert_eq!(node.labels().get("nvidia.com/gpu.product").cloned(), before);
}

#[test]
fn a_driver_upgrade_cordons_parks_loses_the_slices_and_takes_all_back() {
    const UPGRADE: &str = "nvidia.com/gpu-driver-upgrade-state";
    let mut node = old(ManagerVersion::V0_15_0);
    node.turn(NodeFault::DriverUpgrade);
    pass(&mut node, 10);
    assert!(node.unschedulable());
    assert_eq!(node.labels()["nvidia.com/gpu.deploy.device-plugin"], "paused-for-driver-upgrade");
    settle(&mut node);
    assert!(!node.unschedulable());
    assert_eq!(node.labels()[UPGRADE], "upgrade-done");
    check(&node, "success", false);
    assert!(has(&node, &[("mig-1g.5gb", 7)]), "the manager's new pod has applied the label again");

    bind(&mut node, "lab", "mig-1g.5gb", 1, Opens::Never);
    node.turn(NodeFault::DriverUpgrade);
    settle(&mut node);
    assert_eq!(node.labels()[UPGRADE], "upgrade-failed", "nobody drains for it");
    assert!(node.unschedulable());
    assert!(node.breaches().is_empty());
}

#[test]
fn faults_that_end_while_the_node_is_down_do_not_keep_its_operands_down() {
    let mut node = old(ManagerVersion::V0_15_0);
    node.turn(NodeFault::ValidatorNeverReady);
    node.reboot();
    pass(&mut node, 60);
    node.turn(NodeFault::Clear);
    settle(&mut node);
    assert!(node.operand_pods().all(operands::OperandPod::is_ready));
    assert!(has(&node, &[("mig-1g.5gb", 7)]));
}
