//! Structs of the header that have bytes of no field, with these bytes as fields of their own (`_1`, `_2`),
//! which are zero. All other names are the header's, and where the header has them.
#![allow(non_snake_case, reason = "the header's names")]

use std::ffi::{c_char, c_uchar, c_uint, c_ulonglong};
use std::mem::offset_of;

use nvml_wrapper_sys::bindings as sys;

use crate::filled::filled;

/// A struct, the header's, and which fields they have in common.
macro_rules! padded {
    ($( $(#[$doc:meta])* $name:ident of $original:ident { $($field:ident: $type:ty),* $(,)? } like { $($same:ident),* } )*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name { $(pub(crate) $field: $type),* }
        filled! { $name { $($field),* } }
        const _: () = assert!(size_of::<$name>() == size_of::<sys::$original>());
        $( const _: () = assert!(offset_of!($name, $same) == offset_of!(sys::$original, $same)); )*
    )*};
}

padded! {
    /// Of `nvmlDeviceGetGpuFabricInfo`.
    FabricInfoV1 of nvmlGpuFabricInfo_t {
        clusterUuid: [c_uchar; 16], status: c_uint, cliqueId: c_uint, state: c_uchar, _1: [u8; 3],
    } like { clusterUuid, status, cliqueId, state }
    /// Of `nvmlDeviceGetGpuFabricInfoV`, version 2.
    FabricInfoV2 of nvmlGpuFabricInfo_v2_t {
        version: c_uint, clusterUuid: [c_uchar; 16], status: c_uint, cliqueId: c_uint, state: c_uchar, _1: [u8; 3], healthMask: c_uint,
    } like { version, clusterUuid, status, cliqueId, state, healthMask }
    /// The same, version 3.
    FabricInfoV3 of nvmlGpuFabricInfo_v3_t {
        version: c_uint, clusterUuid: [c_uchar; 16], status: c_uint, cliqueId: c_uint, state: c_uchar, _1: [u8; 3], healthMask: c_uint, healthSummary: c_uchar, _2: [u8; 3],
    } like { version, clusterUuid, status, cliqueId, state, healthMask, healthSummary }
    /// Of `nvmlDeviceGetMemoryInfo_v2`.
    MemoryV2 of nvmlMemory_v2_t {
        version: c_uint, _1: c_uint, total: c_ulonglong, reserved: c_ulonglong, free: c_ulonglong, used: c_ulonglong,
    } like { version, total, reserved, free, used }
    /// A process, in the first version.
    ProcessInfoV1 of nvmlProcessInfo_v1_t {
        pid: c_uint, _1: c_uint, usedGpuMemory: c_ulonglong,
    } like { pid, usedGpuMemory }
    /// A process, with the instances that it uses.
    ProcessInfoV2 of nvmlProcessInfo_v2_t {
        pid: c_uint, _1: c_uint, usedGpuMemory: c_ulonglong, gpuInstanceId: c_uint, computeInstanceId: c_uint,
    } like { pid, usedGpuMemory, gpuInstanceId, computeInstanceId }
    /// The same, with what is protected.
    ProcessDetail of nvmlProcessDetail_v1_t {
        pid: c_uint, _1: c_uint, usedGpuMemory: c_ulonglong, gpuInstanceId: c_uint, computeInstanceId: c_uint, usedGpuCcProtectedMemory: c_ulonglong,
    } like { pid, usedGpuMemory, gpuInstanceId, computeInstanceId, usedGpuCcProtectedMemory }
    /// What a process uses.
    UtilizationSample of nvmlProcessUtilizationSample_t {
        pid: c_uint, _1: c_uint, timeStamp: c_ulonglong, smUtil: c_uint, memUtil: c_uint, encUtil: c_uint, decUtil: c_uint,
    } like { pid, timeStamp, smUtil, memUtil, encUtil, decUtil }
    /// The same, with more engines.
    UtilizationInfo of nvmlProcessUtilizationInfo_v1_t {
        timeStamp: c_ulonglong, pid: c_uint, smUtil: c_uint, memUtil: c_uint, encUtil: c_uint, decUtil: c_uint, jpgUtil: c_uint, ofaUtil: c_uint, _1: c_uint,
    } like { timeStamp, pid, smUtil, memUtil, encUtil, decUtil, jpgUtil, ofaUtil }
    /// An event of the system.
    SystemEvent of nvmlSystemEventData_v1_t {
        eventType: c_ulonglong, gpuId: c_uint, _1: c_uint,
    } like { eventType, gpuId }
    /// The request for a set of them.
    SystemEventSetRequest of nvmlSystemEventSetCreateRequest_v1_t {
        version: c_uint, _1: c_uint, set: sys::nvmlSystemEventSet_t,
    } like { version, set }
    /// Errors of caches and register files.
    SramErrors of nvmlEccSramErrorStatus_v1_t {
        version: c_uint, _1: c_uint, aggregateUncParity: c_ulonglong, aggregateUncSecDed: c_ulonglong, aggregateCor: c_ulonglong, volatileUncParity: c_ulonglong, volatileUncSecDed: c_ulonglong, volatileCor: c_ulonglong, aggregateUncBucketL2: c_ulonglong, aggregateUncBucketSm: c_ulonglong, aggregateUncBucketPcie: c_ulonglong, aggregateUncBucketMcu: c_ulonglong, aggregateUncBucketOther: c_ulonglong, bThresholdExceeded: c_uint, _2: c_uint,
    } like { version, aggregateUncParity, aggregateUncSecDed, aggregateCor, volatileUncParity, volatileUncSecDed, volatileCor, aggregateUncBucketL2, aggregateUncBucketSm, aggregateUncBucketPcie, aggregateUncBucketMcu, aggregateUncBucketOther, bThresholdExceeded }
    /// A GPU instance profile, version 2.
    ProfileInfoV2 of nvmlGpuInstanceProfileInfo_v2_t {
        version: c_uint, id: c_uint, isP2pSupported: c_uint, sliceCount: c_uint, instanceCount: c_uint, multiprocessorCount: c_uint, copyEngineCount: c_uint, decoderCount: c_uint, encoderCount: c_uint, jpegCount: c_uint, ofaCount: c_uint, _1: c_uint, memorySizeMB: c_ulonglong, name: [c_char; 96],
    } like { version, id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount, copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount, memorySizeMB, name }
    /// The same, version 3.
    ProfileInfoV3 of nvmlGpuInstanceProfileInfo_v3_t {
        version: c_uint, id: c_uint, sliceCount: c_uint, instanceCount: c_uint, multiprocessorCount: c_uint, copyEngineCount: c_uint, decoderCount: c_uint, encoderCount: c_uint, jpegCount: c_uint, ofaCount: c_uint, memorySizeMB: c_ulonglong, name: [c_char; 96], capabilities: c_uint, _1: c_uint,
    } like { version, id, sliceCount, instanceCount, multiprocessorCount, copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount, memorySizeMB, name, capabilities }
    /// Where a board is in its chassis.
    PlatformV1 of nvmlPlatformInfo_v1_t {
        version: c_uint, ibGuid: [c_uchar; 16], rackGuid: [c_uchar; 16], chassisPhysicalSlotNumber: c_uchar, computeSlotIndex: c_uchar, nodeIndex: c_uchar, peerType: c_uchar, moduleId: c_uchar, _1: [u8; 3],
    } like { version, ibGuid, rackGuid, chassisPhysicalSlotNumber, computeSlotIndex, nodeIndex, peerType, moduleId }
    /// The same, with other names.
    PlatformV2 of nvmlPlatformInfo_v2_t {
        version: c_uint, ibGuid: [c_uchar; 16], chassisSerialNumber: [c_uchar; 16], slotNumber: c_uchar, trayIndex: c_uchar, hostId: c_uchar, peerType: c_uchar, moduleId: c_uchar, _1: [u8; 3],
    } like { version, ibGuid, chassisSerialNumber, slotNumber, trayIndex, hostId, peerType, moduleId }
    /// A board's own number.
    Pdi of nvmlPdi_v1_t {
        version: c_uint, _1: c_uint, value: c_ulonglong,
    } like { version, value }
    /// When keys are to be changed.
    KeyRotation of nvmlConfComputeGetKeyRotationThresholdInfo_v1_t {
        version: c_uint, _1: c_uint, attackerAdvantage: c_ulonglong,
    } like { version, attackerAdvantage }
}
