//! The structs of the C interface have the layout of C: the figures are those that a C compiler gave for
//! NVIDIA's header (NVML 13, on x86-64 Linux), and `nvml-wrapper-sys`, whose types this library uses, must
//! agree with them.

use std::mem::{align_of, offset_of, size_of};

use nvml_wrapper_sys::bindings::*;

macro_rules! layouts {
    ($( $type:ident: $size:literal, $align:literal { $($field:ident: $offset:literal),* $(,)? } )*) => {$(
        assert_eq!(size_of::<$type>(), $size, "the size of {}", stringify!($type));
        assert_eq!(align_of::<$type>(), $align, "the alignment of {}", stringify!($type));
        $( assert_eq!(
            offset_of!($type, $field), $offset, "where {} has {}", stringify!($type), stringify!($field)
        ); )*
    )*};
}

#[test]
fn structs_are_laid_out_as_c_lays_them_out() {
    layouts! {
        nvmlPciInfo_t: 68, 4 {
            busIdLegacy: 0, domain: 16, bus: 20, device: 24, pciDeviceId: 28, pciSubSystemId: 32, busId:
            36,
        }
        nvmlPciInfoExt_v1_t: 64, 4 {
            version: 0, domain: 4, bus: 8, device: 12, pciDeviceId: 16, pciSubSystemId: 20, baseClass:
            24, subClass: 28, busId: 32,
        }
        nvmlPlatformInfo_v1_t: 44, 4 { version: 0, ibGuid: 4, rackGuid: 20, nodeIndex: 38, moduleId: 40 }
        nvmlPlatformInfo_v2_t: 44, 4 { version: 0, ibGuid: 4, chassisSerialNumber: 20, hostId: 38, moduleId: 40 }
        nvmlPdi_v1_t: 16, 8 { version: 0, value: 8 }
        nvmlSample_t: 16, 8 { timeStamp: 0, sampleValue: 8 }
        nvmlViolationTime_t: 16, 8 { referenceTime: 0, violationTime: 8 }
        nvmlGpuDynamicPstatesInfo_t: 132, 4 { flags: 0, utilization: 4 }
        nvmlEccErrorCounts_t: 32, 8 { l1Cache: 0, l2Cache: 8, deviceMemory: 16, registerFile: 24 }
        nvmlDevicePerfModes_v1_t: 2052, 4 { version: 0, str_: 4 }
        nvmlDeviceCurrentClockFreqs_v1_t: 2052, 4 { version: 0, str_: 4 }
        nvmlClockOffset_v1_t: 24, 4 { version: 0, type_: 4, pstate: 8, clockOffsetMHz: 12, maxClockOffsetMHz: 20 }
        nvmlDeviceCapabilities_v1_t: 8, 4 { version: 0, capMask: 4 }
        nvmlConfComputeMemSizeInfo_t: 16, 8 { protectedMemSizeKib: 0, unprotectedMemSizeKib: 8 }
        nvmlConfComputeSystemCaps_t: 8, 4 { cpuCaps: 0, gpusCaps: 4 }
        nvmlConfComputeSystemState_t: 12, 4 { environment: 0, ccFeature: 4, devToolsMode: 8 }
        nvmlConfComputeGetKeyRotationThresholdInfo_v1_t: 16, 8 { version: 0, attackerAdvantage: 8 }
        nvmlProcessDetailList_v1_t: 24, 8 { version: 0, mode: 4, numProcArrayEntries: 8, procArray: 16 }
        nvmlProcessDetail_v1_t: 32, 8 { pid: 0, usedGpuMemory: 8, gpuInstanceId: 16, computeInstanceId: 20, usedGpuCcProtectedMemory: 24 }
        nvmlUtilization_t: 8, 4 {
            gpu: 0, memory: 4,
        }
        nvmlMemory_t: 24, 8 {
            total: 0, free: 8, used: 16,
        }
        nvmlMemory_v2_t: 40, 8 {
            version: 0, total: 8, reserved: 16, free: 24, used: 32,
        }
        nvmlBAR1Memory_t: 24, 8 {
            bar1Total: 0, bar1Free: 8, bar1Used: 16,
        }
        nvmlProcessInfo_v1_t: 16, 8 {
            pid: 0, usedGpuMemory: 8,
        }
        nvmlProcessInfo_v2_t: 24, 8 {
            pid: 0, usedGpuMemory: 8, gpuInstanceId: 16, computeInstanceId: 20,
        }
        nvmlDeviceAttributes_t: 40, 8 {
            multiprocessorCount: 0, sharedCopyEngineCount: 4, sharedDecoderCount: 8, sharedEncoderCount:
            12, sharedJpegCount: 16, sharedOfaCount: 20, gpuInstanceSliceCount: 24,
            computeInstanceSliceCount: 28, memorySizeMB: 32,
        }
        nvmlEventData_t: 32, 8 {
            device: 0, eventType: 8, eventData: 16, gpuInstanceId: 24, computeInstanceId: 28,
        }
        nvmlFieldValue_t: 40, 8 {
            fieldId: 0, scopeId: 4, timestamp: 8, latencyUsec: 16, valueType: 24, nvmlReturn: 28, value:
            32,
        }
        nvmlUUID_v1_t: 52, 4 {
            version: 0, type_: 4, value: 8,
        }
        nvmlGpuInstancePlacement_t: 8, 4 {
            start: 0, size: 4,
        }
        nvmlGpuInstanceProfileInfo_t: 48, 8 {
            id: 0, isP2pSupported: 4, sliceCount: 8, instanceCount: 12, multiprocessorCount: 16,
            copyEngineCount: 20, decoderCount: 24, encoderCount: 28, jpegCount: 32, ofaCount: 36,
            memorySizeMB: 40,
        }
        nvmlGpuInstanceProfileInfo_v2_t: 152, 8 {
            version: 0, id: 4, isP2pSupported: 8, sliceCount: 12, instanceCount: 16,
            multiprocessorCount: 20, copyEngineCount: 24, decoderCount: 28, encoderCount: 32, jpegCount:
            36, ofaCount: 40, memorySizeMB: 48, name: 56,
        }
        nvmlGpuInstanceProfileInfo_v3_t: 152, 8 {
            version: 0, id: 4, sliceCount: 8, instanceCount: 12, multiprocessorCount: 16,
            copyEngineCount: 20, decoderCount: 24, encoderCount: 28, jpegCount: 32, ofaCount: 36,
            memorySizeMB: 40, name: 48, capabilities: 144,
        }
        nvmlGpuInstanceInfo_t: 24, 8 {
            device: 0, id: 8, profileId: 12, placement: 16,
        }
        nvmlComputeInstancePlacement_t: 8, 4 {
            start: 0, size: 4,
        }
        nvmlComputeInstanceProfileInfo_t: 36, 4 {
            id: 0, sliceCount: 4, instanceCount: 8, multiprocessorCount: 12, sharedCopyEngineCount: 16,
            sharedDecoderCount: 20, sharedEncoderCount: 24, sharedJpegCount: 28, sharedOfaCount: 32,
        }
        nvmlComputeInstanceProfileInfo_v2_t: 136, 4 {
            version: 0, id: 4, sliceCount: 8, instanceCount: 12, multiprocessorCount: 16,
            sharedCopyEngineCount: 20, sharedDecoderCount: 24, sharedEncoderCount: 28, sharedJpegCount:
            32, sharedOfaCount: 36, name: 40,
        }
        nvmlComputeInstanceProfileInfo_v3_t: 140, 4 {
            version: 0, id: 4, sliceCount: 8, instanceCount: 12, multiprocessorCount: 16,
            sharedCopyEngineCount: 20, sharedDecoderCount: 24, sharedEncoderCount: 28, sharedJpegCount:
            32, sharedOfaCount: 36, name: 40, capabilities: 136,
        }
        nvmlComputeInstanceInfo_t: 32, 8 {
            device: 0, gpuInstance: 8, id: 16, profileId: 20, placement: 24,
        }
        nvmlSystemDriverBranchInfo_v1_t: 84, 4 {
            version: 0, branch: 4,
        }
        nvmlTemperature_v1_t: 12, 4 {
            version: 0, sensorType: 4, temperature: 8,
        }
    }
}

#[test]
fn handles_are_pointers_and_codes_are_unsigned_ints() {
    let pointer = size_of::<*mut u8>();
    assert_eq!(size_of::<nvmlDevice_t>(), pointer);
    assert_eq!(size_of::<nvmlGpuInstance_t>(), pointer);
    assert_eq!(size_of::<nvmlComputeInstance_t>(), pointer);
    assert_eq!(size_of::<nvmlEventSet_t>(), pointer);
    assert_eq!(size_of::<nvmlReturn_t>(), 4);
}
