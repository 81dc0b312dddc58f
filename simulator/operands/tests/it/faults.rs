//! Faults that others have no story for, and what is patched together.

use crate::support::{has, label, node, pass, settle, state, states};
use jiff::SignedDuration;
use operands::{Flavour, MIG_CONFIG, NodeFault, Operand, Setup, What};

const PRODUCT: &str = "nvidia.com/mig-3g.40gb.count";

#[test]
fn a_plugin_that_is_never_created_offers_nothing_until_it_is() {
    let mut node = node(Setup::default(), &["A100-80GB"], Some("all-1g.10gb"));
    node.turn(NodeFault::DoesNotStart(Operand::DevicePlugin));
    label(&mut node, "all-3g.40gb");
    settle(&mut node);
    assert_eq!(state(&node), Some("success"));
    assert!(node.operand_pod(Operand::DevicePlugin).is_none());
    assert!(has(&node, &[]), "success, and nothing to be had");
    node.turn(NodeFault::Clear);
    settle(&mut node);
    assert!(has(&node, &[("mig-3g.40gb", 2)]));
}

#[test]
fn without_mig_managers_pod_a_label_is_only_a_label() {
    let mut node = node(Setup::default(), &["A100-80GB"], Some("all-1g.10gb"));
    node.turn(NodeFault::DoesNotStart(Operand::MigManager));
    node.delete_operand(Operand::MigManager);
    settle(&mut node);
    label(&mut node, "all-3g.40gb");
    assert_eq!(states(&settle(&mut node)), Vec::<String>::new());
    assert_eq!(state(&node), Some("success"), "of the run before");
    assert!(has(&node, &[("mig-1g.10gb", 7)]));
    node.turn(NodeFault::Clear);
    settle(&mut node);
    assert!(has(&node, &[("mig-3g.40gb", 2)]));
}

#[test]
fn labels_that_lag_come_so_much_later_than_what_they_count() {
    let comes = |lag: i64| {
        let mut node = node(Setup::default(), &["A100-80GB"], Some("all-1g.10gb"));
        node.turn(NodeFault::GfdLags(SignedDuration::from_secs(lag)));
        label(&mut node, "all-3g.40gb");
        let changes = settle(&mut node);
        let at = |found: &dyn Fn(&What) -> bool| changes.iter().find(|c| found(&c.what)).map(|c| c.at);
        let there = at(
            &|what| matches!(what, What::Allocatable { resource, count: 2 } if resource.ends_with("3g.40gb")),
        );
        let told = at(&|what| matches!(what, What::Label { key, value: Some(_) } if key == PRODUCT));
        let (Some(there), Some(told)) = (there, told) else { panic!("neither came") };
        told.duration_since(there)
    };
    assert_eq!(comes(90), comes(0) + SignedDuration::from_secs(90));
}

#[test]
fn somebody_who_uncordons_does_so_once() {
    let mut node = node(Setup::default(), &["A100-80GB"], Some("all-1g.10gb"));
    node.set_unschedulable(true);
    node.turn(NodeFault::Uncordon);
    assert!(!node.unschedulable());
    node.set_unschedulable(true);
    settle(&mut node);
    assert!(node.unschedulable());
}

/// The Operator does not watch the label: with Helm, one that was removed comes
/// back when it reconciles for another reason.
#[test]
fn a_removed_configuration_is_stamped_again_at_the_next_occasion_and_not_before() {
    for (flavour, stamped) in [(Flavour::Helm, Some("all-disabled")), (Flavour::OpenShift, None)] {
        let setup = Setup { flavour, ..Setup::default() };
        let mut node = node(setup, &["A100-80GB"], Some("all-1g.10gb"));
        node.patch_labels([(MIG_CONFIG, None::<&str>)]);
        settle(&mut node);
        assert_eq!(node.labels().get(MIG_CONFIG), None, "{flavour:?}");
        node.patch_labels([("nvidia.com/gpu.deploy.dcgm", None::<&str>)]);
        settle(&mut node);
        assert_eq!(node.labels()["nvidia.com/gpu.deploy.dcgm"], "true", "an absent label is put back");
        assert_eq!(node.labels().get(MIG_CONFIG).map(String::as_str), stamped, "{flavour:?}");
    }
}

#[test]
fn what_is_parked_is_parked_in_one_moment_and_whoever_opted_out_is_not() {
    const CLIENT: &str = "nvidia.com/gpu.deploy.client";
    let mut node = node(Setup::default(), &["A100-80GB"], Some("all-1g.10gb"));
    node.patch_labels([(CLIENT, Some("true")), ("nvidia.com/gpu.deploy.dcgm", Some("false"))]);
    settle(&mut node);
    label(&mut node, "all-3g.40gb");
    let changes = pass(&mut node, 5);
    let parked: Vec<_> = changes
        .iter()
        .filter_map(|change| match &change.what {
            What::Label { key, value } if value.as_deref() == Some(operands::PAUSED) => {
                Some((change.at, key))
            }
            _ => None,
        })
        .collect();
    let mut keys: Vec<_> =
        parked.iter().map(|(_, key)| key.trim_start_matches("nvidia.com/gpu.deploy.")).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["client", "dcgm-exporter", "device-plugin", "gpu-feature-discovery"]);
    assert!(parked.iter().all(|(at, _)| *at == parked[0].0), "{parked:?}");
    settle(&mut node);
    assert_eq!(node.labels()[CLIENT], "true");
    assert_eq!(node.labels()["nvidia.com/gpu.deploy.dcgm"], "false");
}
