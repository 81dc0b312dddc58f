//! What a node agent rests on, and what may go wrong beneath it: monitors that hold slices, and a kubelet that forgets.

use gpu::{Caller, NvmlError};
use jiff::SignedDuration;
use operands::{Node, NodeFault, Opens, Operand, PodName, PodPhase, Setup, Timings};

use crate::support::{bind, end, has, label, node, pass, settle, slices, state};

const MONITORS: [Operand; 2] = [Operand::Dcgm, Operand::DcgmExporter];

/// Destroys the first slice of a GPU, as the agent does.
fn destroys_one(node: &mut Node, gpu: u16) -> Result<(), NvmlError> {
    let first = node.truth()[usize::from(gpu)].slices[0].gpu_instance;
    let mut nvml = node.machine_mut().nvml(Caller::Root);
    let device = nvml.device_handle_by_index(gpu)?;
    let instance = nvml.gpu_instance_by_id(device, first)?;
    for compute in nvml.compute_instances(instance)? {
        nvml.destroy_compute_instance(compute)?;
    }
    nvml.destroy_gpu_instance(instance)
}

#[test]
fn a_slice_that_a_monitor_holds_is_in_use_until_the_pods_of_all_monitors_are_gone() {
    let mut node = node(Setup::default(), &["A100-80GB"; 8], Some("all-1g.10gb"));
    node.turn(NodeFault::DcgmHoldsSlices);
    assert_eq!(destroys_one(&mut node, 5), Err(NvmlError::InUse));
    let pause = |operand: Operand| (operand.deploy_label(), Some("paused-for-slicewright"));
    node.patch_labels([pause(Operand::Dcgm)]);
    settle(&mut node);
    assert_eq!(destroys_one(&mut node, 5), Err(NvmlError::InUse), "the exporter has it open as well");
    node.patch_labels([pause(Operand::DcgmExporter)]);
    assert_eq!(destroys_one(&mut node, 5), Err(NvmlError::InUse), "its pod ends, and has not ended");
    settle(&mut node);
    assert_eq!(destroys_one(&mut node, 5), Ok(()));
    // They are back, and hold what is there now.
    node.patch_labels(MONITORS.map(|operand| (operand.deploy_label(), Some("true"))));
    settle(&mut node);
    assert_eq!(destroys_one(&mut node, 5), Err(NvmlError::InUse));
    node.turn(NodeFault::Clear);
    assert_eq!(destroys_one(&mut node, 5), Ok(()));
}

#[test]
fn without_that_fault_monitors_hold_nothing_and_mig_manager_gets_by_with_it() {
    let mut plain = node(Setup::default(), &["A100-80GB"; 8], Some("all-1g.10gb"));
    assert_eq!(destroys_one(&mut plain, 0), Ok(()));
    let mut node = node(Setup::default(), &["A100-80GB"; 8], Some("all-1g.10gb"));
    node.turn(NodeFault::DcgmHoldsSlices);
    label(&mut node, "all-3g.40gb");
    settle(&mut node);
    assert_eq!(state(&node), Some("success"), "it parks them before it cuts");
    assert!(has(&node, &[("mig-3g.40gb", 16)]));
    assert_eq!(destroys_one(&mut node, 7), Err(NvmlError::InUse), "they hold the new ones");
}

#[test]
fn what_a_monitor_held_before_a_reboot_or_a_crash_nobody_holds_after_it() {
    let mut node = node(Setup::default(), &["A100-80GB"], Some("all-1g.10gb"));
    node.turn(NodeFault::DcgmHoldsSlices);
    for operand in MONITORS {
        node.turn(NodeFault::Crashes(operand));
    }
    assert_eq!(destroys_one(&mut node, 0), Ok(()));
    node.turn(NodeFault::Clear);
    settle(&mut node);
    node.turn(NodeFault::DcgmHoldsSlices);
    assert!(node.machine().clients().count() > 0);
    node.reboot();
    assert_eq!(node.machine().clients().count(), 0);
}

/// A kubelet that is slow to enter what it has given, and two tenants' pods on its eight GPUs.
fn slow() -> Node {
    let timings = Timings { books_entered: SignedDuration::from_secs(30), ..Timings::default() };
    let mut node = node(Setup { timings, ..Setup::default() }, &["A100-80GB"; 8], Some("all-3g.40gb"));
    for n in 0..4 {
        assert_eq!(
            bind(&mut node, &format!("train-{n}"), "mig-3g.40gb", 1, Opens::Never),
            PodPhase::Starting
        );
    }
    settle(&mut node);
    node
}

fn devices(node: &Node, pod: &str) -> Vec<String> {
    let pod = node.pod(&PodName::new("team", pod)).expect("it is there");
    pod.devices.values().flatten().cloned().collect()
}

#[test]
fn a_list_amid_an_allocation_lets_kubelet_give_one_device_twice_where_a_fault_says_so() {
    for (fault, twice) in [(Some(NodeFault::ListForgets), true), (None, false)] {
        let mut node = slow();
        fault.into_iter().for_each(|fault| node.turn(fault));
        bind(&mut node, "first", "mig-3g.40gb", 1, Opens::Never);
        end(&mut node, "train-0");
        node.list();
        pass(&mut node, 60);
        // Of the free ones it takes the first by UUID: that may be the one of the pod that has ended.
        for name in ["second", "third"] {
            bind(&mut node, name, "mig-3g.40gb", 1, Opens::Never);
        }
        let shared: Vec<_> = node.shared_unawares().iter().map(|shared| shared.first.name.as_str()).collect();
        assert_eq!(shared, if twice { vec!["first"] } else { Vec::new() });
        let given = ["first", "second", "third"].map(|pod| devices(&node, pod));
        assert_eq!(given[1..].contains(&given[0]), twice, "{given:?}");
    }
}

#[test]
fn a_list_at_rest_or_with_nobody_gone_forgets_nothing() {
    let mut node = slow();
    node.turn(NodeFault::ListForgets);
    bind(&mut node, "first", "mig-3g.40gb", 1, Opens::Never);
    node.list();
    bind(&mut node, "second", "mig-3g.40gb", 1, Opens::Never);
    settle(&mut node);
    end(&mut node, "train-0");
    node.list();
    for n in 0..11 {
        bind(&mut node, &format!("more-{n}"), "mig-3g.40gb", 1, Opens::Never);
    }
    settle(&mut node);
    assert!(node.shared_unawares().is_empty(), "{:?}", node.shared_unawares());
    let held = (0..8).flat_map(|gpu| slices(&node, gpu)).filter(|slice| slice.ends_with('*')).count();
    assert_eq!(held, 16, "each of them has its own");
}

#[test]
fn a_kubelet_that_starts_anew_leaves_who_runs_alone_and_refuses_who_does_not_until_the_plugin_registers() {
    let mut node = node(Setup::default(), &["A100-80GB"; 8], Some("all-3g.40gb"));
    bind(&mut node, "train", "mig-3g.40gb", 1, Opens::AtOnce);
    settle(&mut node);
    let given = devices(&node, "train");
    bind(&mut node, "slow", "mig-3g.40gb", 1, Opens::Never);
    node.turn(NodeFault::KubeletRestarts);
    let phase = |node: &Node, pod: &str| node.pod(&PodName::new("team", pod)).unwrap().phase.clone();
    assert_eq!((phase(&node, "train"), devices(&node, "train")), (PodPhase::Running, given));
    assert!(matches!(phase(&node, "slow"), PodPhase::Failed { .. }), "{:?}", phase(&node, "slow"));
    assert_eq!(node.healthy_devices().count(), 0);
    assert!(matches!(bind(&mut node, "early", "mig-3g.40gb", 1, Opens::Never), PodPhase::Failed { .. }));
    settle(&mut node);
    assert_eq!(node.healthy_devices().count(), 16, "the plugin has seen the new socket");
    assert_eq!(bind(&mut node, "late", "mig-3g.40gb", 1, Opens::Never), PodPhase::Starting);

    // Where the plugin is away, nobody registers.
    node.patch_labels([(Operand::DevicePlugin.deploy_label(), Some("paused-for-slicewright"))]);
    settle(&mut node);
    node.turn(NodeFault::KubeletRestarts);
    settle(&mut node);
    assert_eq!(node.healthy_devices().count(), 0);
    assert_eq!(phase(&node, "train"), PodPhase::Running);
}
