//! The types that functions of the header take, with their sizes: how much memory a caller has behind each
//! pointer.

use std::ffi::c_ulonglong;

use nvml_wrapper_sys::bindings::*;

/// its first word names, if it has one.
pub(crate) struct Struct {
    pub(crate) size: usize,
    pub(crate) versions: &'static [u32],
}

const fn plain(size: usize) -> Option<Struct> {
    Some(Struct { size, versions: &[] })
}

const fn versioned<T>(versions: &'static [u32]) -> Option<Struct> {
    Some(Struct { size: size_of::<T>(), versions })
}

/// The types that simulated functions take. The figures of the first versions
/// are written out, since the bindings know the last ones only.
pub(crate) fn type_of(kind: &str) -> Option<Struct> {
    const POINTER: usize = size_of::<*mut u8>();
    match kind {
        "c_int"
        | "c_uint"
        | "nvmlReturn_t"
        | "nvmlEnableState_t"
        | "nvmlBrandType_t"
        | "nvmlComputeMode_t"
        | "nvmlPstates_t"
        | "nvmlBusType_t"
        | "nvmlDeviceArchitecture_t"
        | "nvmlGpuVirtualizationMode_t" => plain(4),
        "nvmlGpuTopologyLevel_t" | "nvmlGpuP2PStatus_t" | "nvmlIntNvLinkDeviceType_t" => plain(4),
        "c_ulonglong" | "c_ulong" => plain(size_of::<c_ulonglong>()),
        "nvmlDevice_t" | "nvmlGpuInstance_t" | "nvmlComputeInstance_t" | "nvmlEventSet_t" => plain(POINTER),
        "nvmlC2cModeInfo_v1_t" | "nvmlPowerSource_t" | "nvmlValueType_t" => plain(4),
        "nvmlSample_t" | "nvmlViolationTime_t" | "nvmlConfComputeMemSizeInfo_t" => plain(16),
        "nvmlGpuDynamicPstatesInfo_t" => plain(132),
        "nvmlEccErrorCounts_t" => plain(32),
        "nvmlConfComputeSystemCaps_t" | "nvmlVgpuVersion_t" => plain(8),
        "nvmlConfComputeSystemState_t" => plain(12),
        "nvmlConfComputeGetKeyRotationThresholdInfo_t" => {
            versioned::<nvmlConfComputeGetKeyRotationThresholdInfo_v1_t>(&[1])
        }
        // Both versions are of one size.
        "nvmlPlatformInfo_t" => versioned::<nvmlPlatformInfo_v2_t>(&[1, 2]),
        "nvmlCoolerInfo_t" => versioned::<nvmlCoolerInfo_v1_t>(&[1]),
        "nvmlNvLinkInfo_t" => versioned::<nvmlNvLinkInfo_v1_t>(&[1]),
        "nvmlEccSramUniqueUncorrectedErrorCounts_t" => {
            versioned::<nvmlEccSramUniqueUncorrectedErrorCounts_v1_t>(&[1])
        }
        "nvmlPdi_t" => versioned::<nvmlPdi_v1_t>(&[1]),
        "nvmlDevicePerfModes_t" => versioned::<nvmlDevicePerfModes_v1_t>(&[1]),
        "nvmlDeviceCurrentClockFreqs_t" => versioned::<nvmlDeviceCurrentClockFreqs_v1_t>(&[1]),
        "nvmlClockOffset_t" => versioned::<nvmlClockOffset_v1_t>(&[1]),
        "nvmlDeviceCapabilities_t" => versioned::<nvmlDeviceCapabilities_v1_t>(&[1]),
        // Only the beginning, which is that of all versions, is written.
        "nvmlGridLicensableFeatures_t" => plain(8),
        "nvmlFBCStats_t" => plain(12),
        "nvmlProcessUtilizationSample_t" => plain(32),
        "nvmlProcessesUtilizationInfo_t" => versioned::<nvmlProcessesUtilizationInfo_v1_t>(&[1]),
        "nvmlRepairStatus_t" => versioned::<nvmlRepairStatus_v1_t>(&[1]),
        // Its array is not there, and has no room.
        "nvmlProcessDetailList_t" => versioned::<nvmlProcessDetailList_v1_t>(&[1]),
        "nvmlGpmSample_t" => plain(POINTER),
        "nvmlGpmSupport_t" => plain(8),
        "nvmlPowerValue_v2_t" => versioned::<nvmlPowerValue_v2_t>(&[2]),
        "nvmlSystemEventSetCreateRequest_t" => versioned::<nvmlSystemEventSetCreateRequest_v1_t>(&[1]),
        "nvmlSystemEventSetFreeRequest_t" => versioned::<nvmlSystemEventSetFreeRequest_v1_t>(&[1]),
        "nvmlSystemRegisterEventRequest_t" => versioned::<nvmlSystemRegisterEventRequest_v1_t>(&[1]),
        "nvmlSystemEventSetWaitRequest_t" => versioned::<nvmlSystemEventSetWaitRequest_v1_t>(&[1]),
        "nvmlPciInfo_v1_t" => plain(32),
        "nvmlPciInfo_v2_t" => plain(52),
        "nvmlPciInfo_t" => plain(68),
        "nvmlDeviceAttributes_v1_t" | "nvmlEventData_v1_t" | "nvmlComputeInstanceInfo_v1_t" => plain(24),
        "nvmlDeviceAttributes_t" => plain(40),
        "nvmlEventData_t" | "nvmlComputeInstanceInfo_t" => plain(32),
        "nvmlProcessInfo_v1_t" => plain(16),
        "nvmlProcessInfo_v2_t" | "nvmlProcessInfo_t" => plain(24),
        "nvmlUtilization_t" => plain(8),
        "nvmlMemory_t" | "nvmlBAR1Memory_t" | "nvmlGpuInstanceInfo_t" => plain(24),
        "nvmlFieldValue_t" => plain(40),
        "nvmlGpuInstanceProfileInfo_t" => plain(48),
        "nvmlComputeInstanceProfileInfo_t" => plain(36),
        "nvmlGpuInstancePlacement_t" | "nvmlComputeInstancePlacement_t" => plain(8),
        "nvmlRowRemapperHistogramValues_t" => plain(20),
        "nvmlGpuFabricInfo_t" => plain(size_of::<nvmlGpuFabricInfo_t>()),
        "nvmlGpuFabricInfoV_t" => versioned::<nvmlGpuFabricInfo_v3_t>(&[3]),
        "nvmlEccSramErrorStatus_t" => versioned::<nvmlEccSramErrorStatus_v1_t>(&[1]),
        "nvmlMarginTemperature_t" => versioned::<nvmlMarginTemperature_v1_t>(&[1]),
        "nvmlDeviceAddressingMode_t" => versioned::<nvmlDeviceAddressingMode_v1_t>(&[1]),
        "nvmlMemory_v2_t" => versioned::<nvmlMemory_v2_t>(&[2]),
        "nvmlPciInfoExt_t" => versioned::<nvmlPciInfoExt_v1_t>(&[1]),
        "nvmlTemperature_t" => versioned::<nvmlTemperature_v1_t>(&[1]),
        "nvmlUUID_t" => versioned::<nvmlUUID_v1_t>(&[1]),
        "nvmlSystemDriverBranchInfo_t" => versioned::<nvmlSystemDriverBranchInfo_v1_t>(&[1]),
        "nvmlGpuInstanceProfileInfo_v2_t" => versioned::<nvmlGpuInstanceProfileInfo_v2_t>(&[2, 3]),
        "nvmlComputeInstanceProfileInfo_v2_t" => versioned::<nvmlComputeInstanceProfileInfo_v2_t>(&[2]),
        "nvmlComputeInstanceProfileInfo_v3_t" => versioned::<nvmlComputeInstanceProfileInfo_v3_t>(&[3]),
        _ => None,
    }
}

/// How many values the caller's array has room for: as many as the header says
/// that there can be, or as many as the caller says.
pub(crate) fn length_of_array(function: &str, argument: &str, count: usize) -> usize {
    match (function, argument) {
        ("nvmlDeviceGetFieldValues" | "nvmlDeviceClearFieldValues", "values") => count,
        ("nvmlDeviceGetProcessUtilization", "utilization") => count,
        ("nvmlDeviceGetSamples", "samples") => count,
        // The caller says how many bytes these are.
        (_, "pstates") => count / 4,
        (_, "clocksMHz" | "pids" | "sessionInfos" | "sessionInfo") => count,
        (_, "infos" | "deviceArray" | "cpuSet" | "nodeSet") => count,
        // Seven instances of the smallest profile, and one placement more.
        (_, "gpuInstances" | "computeInstances" | "placements") => 8,
        _ => 1,
    }
}
