//! The view of a program that uses NVML through the wrapper that Rust programs use, unmodified.
#![allow(unsafe_code, reason = "the environment is set, and a library loaded")]

use crate::support::Sim;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::error::NvmlError;

#[test]
fn a_node_is_enumerated_with_names_uuids_memory_and_versions() {
    let sim = Sim::with(&["A100-80GB", "H100-80GB"]);
    let nvml = sim.wrapper();
    assert_eq!(nvml.device_count().unwrap(), 2);
    assert_eq!(nvml.sys_driver_version().unwrap(), "580.65.06");
    assert_eq!(nvml.sys_nvml_version().unwrap(), "13.580.65.06");
    assert_eq!(nvml.sys_cuda_driver_version().unwrap(), 13000);
    let second = nvml.device_by_index(1).unwrap();
    assert_eq!(second.name().unwrap(), "NVIDIA H100 80GB HBM3");
    assert_eq!(second.index().unwrap(), 1);
    assert_eq!(second.minor_number().unwrap(), 1);
    assert_eq!(second.memory_info().unwrap().total >> 20, 81559);
    assert_eq!(second.temperature(TemperatureSensor::Gpu).unwrap(), 31);
    let uuid = second.uuid().unwrap();
    assert_eq!(nvml.device_by_uuid(uuid.as_str()).unwrap().uuid().unwrap(), uuid);
    let pci = second.pci_info().unwrap();
    assert_eq!((pci.bus_id.as_str(), pci.bus), ("00000000:02:00.0", 2));
    assert_eq!(nvml.device_by_pci_bus_id("0000:02:00.0").unwrap().index().unwrap(), 1);
    assert!(matches!(nvml.device_by_index(2), Err(NvmlError::InvalidArg)));
    assert!(matches!(nvml.device_by_uuid("GPU-nobody"), Err(NvmlError::NotFound)));
}

#[test]
fn mig_is_switched_on_and_stays_on_for_whoever_comes_next() {
    let sim = Sim::with(&["A100-80GB"]);
    {
        let nvml = sim.wrapper();
        let device = nvml.device_by_index(0).unwrap();
        assert_eq!(device.mig_device_count().unwrap(), 0);
        device.set_mig_mode(true).unwrap();
        assert_eq!(device.mig_device_count().unwrap(), 7);
    }
    let nvml = sim.wrapper();
    let mode = nvml.device_by_index(0).unwrap().mig_mode().unwrap();
    assert_eq!((mode.current, mode.pending), (1, 1));
}
