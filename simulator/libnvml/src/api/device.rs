//! The identity of a GPU or a MIG device: name, UUID, index, architecture.

use std::ffi::{c_int, c_uint};

use gpu::NvmlError;
use nvml_wrapper_sys::bindings as sys;

use crate::argument::{Out, OutText};
use crate::c_handle::Device;
use crate::figures;

entries! {
    fn nvmlDeviceGetName(call, device: Device, name: OutText, length: c_uint) {
        let device = call.device(device)?;
        name.set(length, &call.query(|nvml| nvml.name(device))?)?
    }

    fn nvmlDeviceGetUUID(call, device: Device, uuid: OutText, length: c_uint) {
        let device = call.device(device)?;
        uuid.set(length, &call.query(|nvml| nvml.uuid(device))?)?
    }

    /// Of a MIG device: its index inside the GPU.
    fn nvmlDeviceGetIndex(call, device: Device, index: Out<c_uint>) {
        let device = call.device(device)?;
        index.set(call.query(|nvml| nvml.index(device))?.into())
    }

    /// The number of `/dev/nvidia<minor>`; here the index.
    fn nvmlDeviceGetMinorNumber(call, device: Device, minor: Out<c_uint>) {
        minor.set(call.ask(device, |of| of.whole(NvmlError::InvalidArgument).map(|_| of.index.into()))?)
    }

    fn nvmlDeviceGetBrand(call, device: Device, brand: Out<sys::nvmlBrandType_t>) {
        brand.set(call.ask(device, |of| Ok(figures::brand(of.gpu)))?)
    }

    fn nvmlDeviceGetArchitecture(call, device: Device, architecture: Out<sys::nvmlDeviceArchitecture_t>) {
        architecture.set(call.ask(device, |of| Ok(figures::architecture(of.gpu)))?)
    }

    fn nvmlDeviceGetCudaComputeCapability(call, device: Device, major: Out<c_int>, minor: Out<c_int>) {
        let capability = call.ask(device, |of| of.gpu.model.compute_capability.ok_or(NvmlError::NotSupported));
        let (high, low) = capability?;
        major.set(high.into());
        minor.set(low.into())
    }

    fn nvmlDeviceGetSerial(call, device: Device, serial: OutText, length: c_uint) {
        let text = call.ask(device, |of| of.whole(NvmlError::InvalidArgument).map(figures::serial))?;
        serial.set(length, &text)?
    }

    /// Nobody's BIOS: it says so.
    fn nvmlDeviceGetVbiosVersion(call, device: Device, version: OutText, length: c_uint) {
        call.ask(device, |of| of.whole(NvmlError::InvalidArgument).map(drop))?;
        version.set(length, figures::VBIOS)?
    }

    fn nvmlDeviceGetBusType(call, device: Device, bus: Out<sys::nvmlBusType_t>) {
        bus.set(call.ask(device, |of| of.whole(NvmlError::InvalidArgument).map(|_| sys::NVML_BUS_TYPE_PCIE))?)
    }

    fn nvmlDeviceGetVirtualizationMode(call, device: Device, mode: Out<sys::nvmlGpuVirtualizationMode_t>) {
        mode.set(call.ask(device, |of| {
            of.whole(NvmlError::InvalidArgument)?;
            Ok(if of.machine.is_passed_through() {
                sys::nvmlGpuVirtualizationMode_NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH
            } else {
                sys::nvmlGpuVirtualizationMode_NVML_GPU_VIRTUALIZATION_MODE_NONE
            })
        })?)
    }
}
