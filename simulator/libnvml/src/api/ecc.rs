//! ECC: on, as on every card with MIG as it is delivered. Errors are those of
//! the memory; caches and register files have none.

use std::ffi::{c_uint, c_ulonglong};

use gpu::{EccErrors, NvmlError, Reply, Subject};
use nvml_wrapper_sys::bindings as sys;

use crate::argument::Out;
use crate::c_handle::Device;

const ON: c_uint = sys::nvmlEnableState_enum_NVML_FEATURE_ENABLED;
const CORRECTED: c_uint = sys::nvmlMemoryErrorType_enum_NVML_MEMORY_ERROR_TYPE_CORRECTED;
const VOLATILE: c_uint = sys::nvmlEccCounterType_enum_NVML_VOLATILE_ECC;

/// Cards whose memory does not correct errors say nothing.
fn has_ecc(of: Subject<'_>) -> Reply<()> {
    if of.gpu.model.ecc { Ok(()) } else { Err(NvmlError::NotSupported) }
}

/// From Ampere on, only the memory of the card and all SRAM together have
/// counters; before, each kind of SRAM has its own.
fn has_counter(of: Subject<'_>, location: c_uint) -> Reply<()> {
    let late = of.gpu.model.compute_capability.is_some_and(|(major, _)| major >= 8);
    let there = match location {
        sys::nvmlMemoryLocation_enum_NVML_MEMORY_LOCATION_DEVICE_MEMORY => true,
        sys::nvmlMemoryLocation_enum_NVML_MEMORY_LOCATION_SRAM => late,
        _ => !late,
    };
    if there { Ok(()) } else { Err(NvmlError::NotSupported) }
}

/// How many errors of a kind were counted, since the last reset or ever.
const fn count_of(errors: &EccErrors, kind: c_uint, counter: c_uint) -> c_ulonglong {
    match (kind == CORRECTED, counter == VOLATILE) {
        (true, true) => errors.corrected,
        (true, false) => errors.corrected_ever,
        (false, true) => errors.uncorrected,
        (false, false) => errors.uncorrected_ever,
    }
}

/// Whether the card remaps rows of its memory.
pub(super) fn remaps(of: Subject<'_>) -> Reply<()> {
    let gpu = of.whole(NvmlError::NotSupported)?;
    let late = gpu.model.compute_capability.is_some_and(|(major, _)| major >= 8);
    if gpu.model.ecc && late { Ok(()) } else { Err(NvmlError::NotSupported) }
}

fn check(kind: c_uint, counter: c_uint) -> Reply<()> {
    let known = kind < sys::nvmlMemoryErrorType_enum_NVML_MEMORY_ERROR_TYPE_COUNT
        && counter < sys::nvmlEccCounterType_enum_NVML_ECC_COUNTER_TYPE_COUNT;
    if known { Ok(()) } else { Err(NvmlError::InvalidArgument) }
}

entries! {
    fn nvmlDeviceGetEccMode(call, device: Device, current: Out<sys::nvmlEnableState_t>, pending: Out<sys::nvmlEnableState_t>) {
        call.ask(device, has_ecc)?;
        current.set(ON);
        pending.set(ON)
    }

    fn nvmlDeviceGetDefaultEccMode(call, device: Device, mode: Out<sys::nvmlEnableState_t>) {
        call.ask(device, has_ecc)?;
        mode.set(ON)
    }

    fn nvmlDeviceGetTotalEccErrors(call, device: Device, kind: c_uint, counter: c_uint, count: Out<c_ulonglong>) {
        check(kind, counter)?;
        count.set(call.ask(device, |of| has_ecc(of).map(|()| count_of(&of.gpu.ecc, kind, counter)))?)
    }

    fn nvmlDeviceGetMemoryErrorCounter(
        call, device: Device, kind: c_uint, counter: c_uint, location: c_uint, count: Out<c_ulonglong>
    ) {
        check(kind, counter)?;
        if location >= sys::nvmlMemoryLocation_enum_NVML_MEMORY_LOCATION_COUNT {
            return Err(NvmlError::InvalidArgument);
        }
        let in_memory = location == sys::nvmlMemoryLocation_enum_NVML_MEMORY_LOCATION_DEVICE_MEMORY;
        let all = call.ask(device, |of| {
            has_ecc(of).and(has_counter(of, location)).map(|()| count_of(&of.gpu.ecc, kind, counter))
        })?;
        count.set(if in_memory { all } else { 0 })
    }

    /// Of the kinds of SRAM nothing is known here, as on hardware.
    fn nvmlDeviceGetDetailedEccErrors(
        call, device: Device, kind: c_uint, counter: c_uint, counts: Out<sys::nvmlEccErrorCounts_t>
    ) {
        check(kind, counter)?;
        let deviceMemory = call.ask(device, |of| remaps(of).map(|()| count_of(&of.gpu.ecc, kind, counter)))?;
        counts.set(sys::nvmlEccErrorCounts_t { l1Cache: 0, l2Cache: 0, deviceMemory, registerFile: 0 })
    }

    /// Cards from Ampere on remap rows instead of retiring pages. A card that is cut does not tell (seen on an
    /// H100 with driver 590).
    fn nvmlDeviceGetRemappedRows(
        call, device: Device, corrected: Out<c_uint>, uncorrected: Out<c_uint>, pending: Out<c_uint>, failed: Out<c_uint>
    ) {
        call.ask(device, |of| remaps(of).and(if of.gpu.instances.is_empty() { Ok(()) } else { Err(NvmlError::NotSupported) }))?;
        for answer in [corrected, uncorrected, pending, failed] {
            answer.set(0);
        }
    }
}
