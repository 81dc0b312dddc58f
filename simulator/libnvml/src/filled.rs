//! Answers without gaps. A struct of C may have bytes that belong to no field, because the next field is
//! aligned. A program that reads such a struct through other bindings, in which a field is wider, reads these
//! bytes, too: what this library leaves there must not be a part of its own stack. So only types that have
//! no such bytes are written into a caller's memory; the compiler counts them. Structs that have gaps are
//! written as those of `padded`, in which the gaps are fields.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings as sys;

use crate::first_versions::{AttributesV1, ComputeInstanceInfoV1, EventDataV1, PciInfoV1, PciInfoV2};

/// A type of C's of which every byte belongs to a field.
pub(crate) trait Filled: Copy {}

impl Filled for c_char {}
impl Filled for c_uchar {}
impl Filled for c_int {}
impl Filled for c_uint {}
impl Filled for i64 {}
impl Filled for c_ulonglong {}
impl Filled for f64 {}
impl<T> Filled for *mut T {}
impl<T> Filled for *const T {}
impl<T: Filled, const N: usize> Filled for [T; N] {}
/// Eight bytes, of which all are set whatever the value's type is.
impl Filled for sys::nvmlValue_t {}

/// How long a field is.
pub(crate) const fn width<T, F: Filled>(_: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

/// Structs whose fields, all of which are named, leave no gap.
macro_rules! filled {
    ($( $type:ty { $($field:ident),* $(,)? } )*) => {$(
        impl $crate::filled::Filled for $type {}
        const _: () = assert!(
            0 $( + $crate::filled::width(|whole: &$type| &whole.$field) )* == size_of::<$type>(),
            concat!(stringify!($type), " has bytes of no field: it belongs to `padded`")
        );
    )*};
}
pub(crate) use filled;

filled! {
    PciInfoV1 { bus_id, domain, bus, device, pci_device_id }
    PciInfoV2 { v1, pci_sub_system_id, reserved }
    AttributesV1 { multiprocessor_count, shared_copy_engine_count, shared_decoder_count, shared_encoder_count, shared_jpeg_count, shared_ofa_count }
    EventDataV1 { device, event_type, event_data }
    ComputeInstanceInfoV1 { device, gpu_instance, id, profile_id }
    sys::nvmlPciInfo_t { busIdLegacy, domain, bus, device, pciDeviceId, pciSubSystemId, busId }
    sys::nvmlPciInfoExt_v1_t { version, domain, bus, device, pciDeviceId, pciSubSystemId, baseClass, subClass, busId }
    sys::nvmlUtilization_t { gpu, memory }
    sys::nvmlMemory_t { total, free, used }
    sys::nvmlBAR1Memory_t { bar1Total, bar1Free, bar1Used }
    sys::nvmlRowRemapperHistogramValues_t { max, high, partial, low, none }
    sys::nvmlFBCStats_t { sessionsCount, averageFPS, averageLatency }
    sys::nvmlEventData_t { device, eventType, eventData, gpuInstanceId, computeInstanceId }
    sys::nvmlGpuInstanceInfo_t { device, id, profileId, placement }
    sys::nvmlGpuInstancePlacement_t { start, size }
    sys::nvmlComputeInstancePlacement_t { start, size }
    sys::nvmlComputeInstanceInfo_t { device, gpuInstance, id, profileId, placement }
    sys::nvmlGpuInstanceProfileInfo_t { id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount, copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount, memorySizeMB }
    sys::nvmlComputeInstanceProfileInfo_t { id, sliceCount, instanceCount, multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount }
    sys::nvmlComputeInstanceProfileInfo_v2_t { version, id, sliceCount, instanceCount, multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount, name }
    sys::nvmlComputeInstanceProfileInfo_v3_t { version, id, sliceCount, instanceCount, multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount, name, capabilities }
    sys::nvmlDeviceAttributes_t { multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount, gpuInstanceSliceCount, computeInstanceSliceCount, memorySizeMB }
    sys::nvmlC2cModeInfo_v1_t { isC2cEnabled }
    sys::nvmlGpmSupport_t { version, isSupportedDevice }
    sys::nvmlGpmMetric_t { metricId, nvmlReturn, value, metricInfo }
    sys::nvmlGpmMetric_t__bindgen_ty_1 { shortName, longName, unit }
    sys::nvmlFieldValue_t { fieldId, scopeId, timestamp, latencyUsec, valueType, nvmlReturn, value }
    sys::nvmlSample_t { timeStamp, sampleValue }
    sys::nvmlTemperature_v1_t { version, sensorType, temperature }
    sys::nvmlMarginTemperature_v1_t { version, marginTemperature }
    sys::nvmlDeviceAddressingMode_v1_t { version, value }
    sys::nvmlRepairStatus_v1_t { version, bChannelRepairPending, bTpcRepairPending }
    sys::nvmlSystemDriverBranchInfo_v1_t { version, branch }
    sys::nvmlViolationTime_t { referenceTime, violationTime }
    sys::nvmlConfComputeSystemCaps_t { cpuCaps, gpusCaps }
    sys::nvmlConfComputeSystemState_t { environment, ccFeature, devToolsMode }
    sys::nvmlConfComputeMemSizeInfo_t { protectedMemSizeKib, unprotectedMemSizeKib }
    sys::nvmlEccErrorCounts_t { l1Cache, l2Cache, deviceMemory, registerFile }
    sys::nvmlVgpuVersion_t { minVersion, maxVersion }
    sys::nvmlClockOffset_v1_t { version, type_, pstate, clockOffsetMHz, minClockOffsetMHz, maxClockOffsetMHz }
    sys::nvmlDevicePerfModes_v1_t { version, str_ }
    sys::nvmlDeviceCurrentClockFreqs_v1_t { version, str_ }
    sys::nvmlDeviceCapabilities_v1_t { version, capMask }
    sys::nvmlGpuDynamicPstatesInfo_st { flags, utilization }
    sys::nvmlGpuDynamicPstatesInfo_st__bindgen_ty_1 { bIsPresent, percentage, incThreshold, decThreshold }
}
