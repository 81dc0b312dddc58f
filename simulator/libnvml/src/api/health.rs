//! A card's reports about its wear: rows, pages and SRAM, replays on the bus, its distance from temperature
//! limits. A simulated card does not wear.

use std::ffi::{c_int, c_uint, c_ulonglong};

use gpu::{Gpu, NvmlError, Reply, Subject};
use nvml_wrapper_sys::bindings as sys;

use super::ecc::remaps;
use crate::argument::{Out, OutArray, Versioned};
use crate::boards;
use crate::c_handle::Device;
use crate::figures;
use crate::padded::SramErrors;

/// Cards before Ampere retire pages; later ones remap rows.
fn retires(of: Subject<'_>) -> Reply<()> {
    let gpu = of.whole(NvmlError::NotSupported)?;
    if gpu.model.ecc && remaps(of).is_err() { Ok(()) } else { Err(NvmlError::NotSupported) }
}

/// SRAM is counted from Ampere on.
fn counts_sram(of: Subject<'_>) -> Reply<()> {
    remaps(of)
}

fn whole(of: Subject<'_>) -> Reply<&Gpu> {
    of.whole(NvmlError::NotSupported)
}

const fn is_cause(cause: c_uint) -> Reply<()> {
    if cause < sys::nvmlPageRetirementCause_enum_NVML_PAGE_RETIREMENT_CAUSE_COUNT {
        Ok(())
    } else {
        Err(NvmlError::InvalidArgument)
    }
}

/// What nvidia-smi shows of an idle link, in KB/s.
const IDLE_KB_S: c_uint = 300;

entries! {
    /// How many banks can still remap rows: all of them, as far as a capture says how many there are. A card that
    /// is cut tells this one.
    fn nvmlDeviceGetRowRemapperHistogram(call, device: Device, values: Out<sys::nvmlRowRemapperHistogramValues_t>) {
        let banks = call.ask(device, |of| remaps(of).and(boards::banks(of.gpu).ok_or(NvmlError::NotSupported)))?;
        values.set(sys::nvmlRowRemapperHistogramValues_t { max: banks, high: 0, partial: 0, low: 0, none: 0 })
    }

    fn nvmlDeviceGetRetiredPages(
        call, device: Device, cause: c_uint, count: Out<c_uint>, _addresses: OutArray<c_ulonglong>
    ) {
        is_cause(cause)?;
        call.ask(device, retires)?;
        count.set(0)
    }

    fn nvmlDeviceGetRetiredPages_v2(
        call, device: Device, cause: c_uint, count: Out<c_uint>, _addresses: OutArray<c_ulonglong>,
        _times: OutArray<c_ulonglong>
    ) {
        is_cause(cause)?;
        call.ask(device, retires)?;
        count.set(0)
    }

    fn nvmlDeviceGetRetiredPagesPendingStatus(call, device: Device, pending: Out<sys::nvmlEnableState_t>) {
        call.ask(device, retires)?;
        pending.set(sys::nvmlEnableState_enum_NVML_FEATURE_DISABLED)
    }

    /// Nothing happened in a simulated SRAM.
    fn nvmlDeviceGetSramEccErrorStatus(call, device: Device, status: Versioned) {
        let status = status.must_be::<SramErrors>(1)?;
        let version = status.get()?.version;
        call.ask(device, counts_sram)?;
        status.set(SramErrors {
            version,
            _1: 0,
            aggregateUncParity: 0,
            aggregateUncSecDed: 0,
            aggregateCor: 0,
            volatileUncParity: 0,
            volatileUncSecDed: 0,
            volatileCor: 0,
            aggregateUncBucketL2: 0,
            aggregateUncBucketSm: 0,
            aggregateUncBucketPcie: 0,
            aggregateUncBucketMcu: 0,
            aggregateUncBucketOther: 0,
            bThresholdExceeded: 0,
            _2: 0,
        })
    }

    fn nvmlDeviceGetPcieReplayCounter(call, device: Device, count: Out<c_uint>) {
        call.ask(device, |of| whole(of).map(drop))?;
        count.set(0)
    }

    /// Nothing goes over the link of a simulated card but what a driver says to a card at rest.
    fn nvmlDeviceGetPcieThroughput(call, device: Device, counter: c_uint, kilobytes: Out<c_uint>) {
        if counter >= sys::nvmlPcieUtilCounter_enum_NVML_PCIE_UTIL_COUNT {
            return Err(NvmlError::InvalidArgument);
        }
        call.ask(device, |of| whole(of).map(drop))?;
        kilobytes.set(IDLE_KB_S)
    }

    /// Of later cards nvidia-smi shows a margin instead; NVML tells both (an H100 and an H200, driver 580).
    fn nvmlDeviceGetTemperatureThreshold(call, device: Device, kind: c_uint, degrees: Out<c_uint>) {
        if kind >= sys::nvmlTemperatureThresholds_enum_NVML_TEMPERATURE_THRESHOLD_COUNT {
            return Err(NvmlError::InvalidArgument);
        }
        let limits = call.ask(device, |of| boards::absolute_limits(whole(of)?).ok_or(NvmlError::NotSupported))?;
        let limit = match kind {
            sys::nvmlTemperatureThresholds_enum_NVML_TEMPERATURE_THRESHOLD_SHUTDOWN => Some(limits.shutdown),
            sys::nvmlTemperatureThresholds_enum_NVML_TEMPERATURE_THRESHOLD_SLOWDOWN => Some(limits.slowdown),
            sys::nvmlTemperatureThresholds_enum_NVML_TEMPERATURE_THRESHOLD_GPU_MAX => Some(limits.gpu_max),
            sys::nvmlTemperatureThresholds_enum_NVML_TEMPERATURE_THRESHOLD_MEM_MAX => limits.memory_max,
            _ => None,
        };
        degrees.set(limit.ok_or(NvmlError::NotSupported)?.cast_unsigned())
    }

    /// Nothing waits for a repair.
    fn nvmlDeviceGetRepairStatus(call, device: Device, status: Versioned) {
        let status = status.must_be::<sys::nvmlRepairStatus_v1_t>(1)?;
        let version = status.get()?.version;
        call.ask(device, |of| boards::board(whole(of)?).map(drop).ok_or(NvmlError::NotSupported))?;
        status.set(sys::nvmlRepairStatus_v1_t { version, bChannelRepairPending: 0, bTpcRepairPending: 0 })
    }

    /// How far a card is from where it slows down; from Ada on, cards tell this instead of limits.
    fn nvmlDeviceGetMarginTemperature(call, device: Device, margin: Versioned) {
        let margin = margin.must_be::<sys::nvmlMarginTemperature_v1_t>(1)?;
        let version = margin.get()?.version;
        let degrees = call.ask(device, |of| {
            let limit = boards::temperature_limit(whole(of)?).ok_or(NvmlError::NotSupported)?;
            Ok(limit - figures::temperature(of).cast_signed())
        })?;
        margin.set(sys::nvmlMarginTemperature_v1_t { version, marginTemperature: degrees as c_int })
    }

    /// The struct counts before whether there is anything to tell (driver 580).
    fn nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts(call, device: Device, counts: Versioned) {
        counts.must_be::<sys::nvmlEccSramUniqueUncorrectedErrorCounts_v1_t>(1)?;
        call.ask(device, |_| Err(NvmlError::NotSupported))?
    }
}
