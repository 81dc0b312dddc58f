//! The gate, by kubelet's list of healthy devices.

use agent::{Device, DeviceId, Gate, GpuLayout, GpuState, GpuUuid};

use crate::scene::{device, layout};

#[track_caller]
fn check(healthy: &[Device], there: &str, expect: Gate) {
    assert_eq!(Gate::from_devices(Some(healthy), &layout(there)), expect);
}

fn other(resource: &str, id: &str) -> Device {
    Device { resource: resource.to_owned(), id: DeviceId(id.to_owned()) }
}

#[test]
fn it_is_closed_once_kubelet_offers_nothing_of_any_gpu() {
    check(&[], "1g@0", Gate::Closed);
    check(&[other("nvidia.com/hostdev", "0000:3b:00.1"), other("intel.com/qat", "7")], "1g@0", Gate::Closed);
}

#[test]
fn whatever_is_offered_under_any_name_keeps_it_from_being_closed() {
    check(&[device("1g@0")], "1g@0 1g@1", Gate::Ajar);
    check(&[other("nvidia.com/mig-9x.odd", "7")], "1g@0", Gate::Ajar);
    check(&[other("example.com/renamed", "MIG-1g@5")], "1g@0", Gate::Ajar);
    check(&[other("nvidia.com/gpu.shared", "GPU-b::3")], "1g@0", Gate::Ajar);
}

#[test]
fn it_is_open_when_exactly_the_slices_that_are_there_are_offered() {
    check(&[device("1g@0"), device("3g@4")], "1g@0 3g@4", Gate::Open);
    check(&[device("1g@0"), device("3g@4"), device("1g@1")], "1g@0 3g@4", Gate::Ajar);
}

#[test]
fn a_gpu_without_mig_may_be_offered_or_not() {
    let mut there = layout("1g@0");
    there.gpus.push(GpuLayout { uuid: GpuUuid("GPU-display".to_owned()), state: GpuState::Whole });
    let whole = |id: &str| other("nvidia.com/gpu", id);
    assert_eq!(Gate::from_devices(Some(&[device("1g@0")]), &there), Gate::Open);
    assert_eq!(Gate::from_devices(Some(&[device("1g@0"), whole("GPU-display")]), &there), Gate::Open);
    assert_eq!(Gate::from_devices(Some(&[whole("GPU-display")]), &there), Gate::Ajar);
    assert_eq!(Gate::from_devices(Some(&[device("1g@0"), whole("GPU-other")]), &there), Gate::Ajar);
}

/// Its devices are offered as long as nobody has told the plugin: whose they are, only the driver could say.
#[test]
fn what_is_offered_beyond_the_known_slices_may_be_of_a_gpu_about_which_the_driver_does_not_answer() {
    let mut there = layout("1g@0");
    let silent = GpuState::Silent { why: "GPU is lost".to_owned() };
    there.gpus.push(GpuLayout { uuid: GpuUuid("GPU-lost".to_owned()), state: silent });
    let of_the_lost = other("nvidia.com/mig-3g.40gb", "MIG-of-the-lost");
    assert_eq!(Gate::from_devices(Some(&[device("1g@0"), of_the_lost.clone()]), &there), Gate::Open);
    assert_eq!(Gate::from_devices(Some(&[device("1g@0")]), &there), Gate::Open);
    assert_eq!(Gate::from_devices(Some(&[of_the_lost]), &there), Gate::Ajar, "what is known is not offered");
    assert_eq!(Gate::from_devices(Some(&[]), &there), Gate::Closed);
}

#[test]
fn a_list_that_could_not_be_had_proves_nothing() {
    assert_eq!(Gate::from_devices(None, &layout("1g@0")), Gate::Ajar);
}
