//! MIG devices: a handle for each compute instance, used in place of a GPU's.

use std::ffi::{c_uint, c_void};

use gpu::{NvmlError, Reply};
use nvml_wrapper_sys::bindings::nvmlDeviceAttributes_t;

use crate::argument::Out;
use crate::c_handle::Device;
use crate::entry::Call;
use crate::first_versions::AttributesV1;
use crate::handle::Handle;

type Pointer = *mut c_void;

/// What a MIG device has. Multiprocessors that no source tells of are 0.
fn attributes_of(call: &mut Call<'_>, device: Device) -> Reply<nvmlDeviceAttributes_t> {
    let device = call.device(device)?;
    let has = call.query(|nvml| nvml.attributes(device))?;
    Ok(nvmlDeviceAttributes_t {
        multiprocessorCount: has.multiprocessors.unwrap_or(0),
        sharedCopyEngineCount: has.engines.copy,
        sharedDecoderCount: has.engines.decoder,
        sharedEncoderCount: has.engines.encoder,
        sharedJpegCount: has.engines.jpeg,
        sharedOfaCount: has.engines.ofa,
        gpuInstanceSliceCount: has.gpu_instance_slices.into(),
        computeInstanceSliceCount: has.compute_instance_slices.into(),
        memorySizeMB: has.memory_mib.into(),
    })
}

entries! {
    /// 0 with MIG off, or without.
    fn nvmlDeviceGetMaxMigDeviceCount(call, device: Device, count: Out<c_uint>) {
        let device = call.device(device)?;
        count.set(call.query(|nvml| nvml.max_mig_device_count(device))?.into())
    }

    /// Ascending by GPU instance and compute instance, without gaps; indices
    /// shift when instances with lower ids come and go.
    fn nvmlDeviceGetMigDeviceHandleByIndex(call, device: Device, index: c_uint, mig: Out<Pointer>) {
        let device = call.device(device)?;
        let index = u16::try_from(index).map_err(|_| NvmlError::InvalidArgument)?;
        let found = call.query(|nvml| nvml.mig_device_handle_by_index(device, index))?;
        mig.set(call.give(Handle::Device(found)))
    }

    fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(call, mig: Device, device: Out<Pointer>) {
        let mig = call.device(mig)?;
        let parent = call.query(|nvml| nvml.parent(mig))?;
        device.set(call.give(Handle::Device(parent)))
    }

    fn nvmlDeviceIsMigDeviceHandle(call, device: Device, is: Out<c_uint>) {
        is.set(call.ask(device, |of| Ok(of.mig.is_some().into()))?)
    }

    fn nvmlDeviceGetGpuInstanceId(call, device: Device, id: Out<c_uint>) {
        let device = call.device(device)?;
        id.set(call.query(|nvml| nvml.instance_ids(device))?.0.into())
    }

    fn nvmlDeviceGetComputeInstanceId(call, device: Device, id: Out<c_uint>) {
        let device = call.device(device)?;
        id.set(call.query(|nvml| nvml.instance_ids(device))?.1.into())
    }

    fn nvmlDeviceGetAttributes(call, device: Device, attributes: Out<AttributesV1>) {
        let all = attributes_of(call, device)?;
        attributes.set(AttributesV1 {
            multiprocessor_count: all.multiprocessorCount,
            shared_copy_engine_count: all.sharedCopyEngineCount,
            shared_decoder_count: all.sharedDecoderCount,
            shared_encoder_count: all.sharedEncoderCount,
            shared_jpeg_count: all.sharedJpegCount,
            shared_ofa_count: all.sharedOfaCount,
        })
    }

    fn nvmlDeviceGetAttributes_v2(call, device: Device, attributes: Out<nvmlDeviceAttributes_t>) {
        attributes.set(attributes_of(call, device)?)
    }
}
