//! Structs of earlier headers, as the functions without a suffix, or with an earlier one, still have them.
//! `nvml-wrapper-sys` has only the last version of each struct, and a program that was built with an
//! earlier header has only the memory that these structs need.

use std::ffi::{c_char, c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings as sys;

/// Of `nvmlDeviceGetPciInfo`, before NVML 2.285.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct PciInfoV1 {
    pub(crate) bus_id: [c_char; 16],
    pub(crate) domain: c_uint,
    pub(crate) bus: c_uint,
    pub(crate) device: c_uint,
    pub(crate) pci_device_id: c_uint,
}

impl PciInfoV1 {
    /// What this version has of the last one.
    pub(crate) const fn from_last(info: &sys::nvmlPciInfo_t) -> Self {
        Self {
            bus_id: info.busIdLegacy,
            domain: info.domain,
            bus: info.bus,
            device: info.device,
            pci_device_id: info.pciDeviceId,
        }
    }
}

/// Of `nvmlDeviceGetPciInfo_v2`, up to NVML 8.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct PciInfoV2 {
    pub(crate) v1: PciInfoV1,
    pub(crate) pci_sub_system_id: c_uint,
    pub(crate) reserved: [c_uint; 4],
}

/// Of `nvmlDeviceGetAttributes`, before slices and memory were added.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttributesV1 {
    pub(crate) multiprocessor_count: c_uint,
    pub(crate) shared_copy_engine_count: c_uint,
    pub(crate) shared_decoder_count: c_uint,
    pub(crate) shared_encoder_count: c_uint,
    pub(crate) shared_jpeg_count: c_uint,
    pub(crate) shared_ofa_count: c_uint,
}

/// Of `nvmlEventSetWait`, before an event named instances.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventDataV1 {
    pub(crate) device: sys::nvmlDevice_t,
    pub(crate) event_type: c_ulonglong,
    pub(crate) event_data: c_ulonglong,
}

/// Of `nvmlComputeInstanceGetInfo`, before it told the placement.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ComputeInstanceInfoV1 {
    pub(crate) device: sys::nvmlDevice_t,
    pub(crate) gpu_instance: sys::nvmlGpuInstance_t,
    pub(crate) id: c_uint,
    pub(crate) profile_id: c_uint,
}

// The figures are those of the headers that had these structs; a caller has no
// more room than this.
const _: () = assert!(size_of::<PciInfoV1>() == 32 && size_of::<PciInfoV2>() == 52);
const _: () = assert!(size_of::<AttributesV1>() == 24 && size_of::<EventDataV1>() == 24);
const _: () = assert!(size_of::<ComputeInstanceInfoV1>() == 24);
