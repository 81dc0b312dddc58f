//! What a card did until now: how long its clocks were reduced, and samples of its readings. A simulated
//! card keeps no record of the past: its clocks are reduced for want of work only, and its samples show what
//! it shows now.

use std::ffi::{c_uint, c_ulonglong};

use gpu::{NvmlError, Reply, Subject};
use nvml_wrapper_sys::bindings as sys;

use super::{power, sensors};
use crate::argument::{Out, OutArray};
use crate::boards;
use crate::c_handle::Device;

/// Of other cards it is not known what NVML says.
fn asked(of: Subject<'_>) -> Reply<()> {
    boards::asked(of.whole(NvmlError::NotSupported)?).map(drop).ok_or(NvmlError::NotSupported)
}

/// For how long it had nothing to compute, in ns.
pub(super) fn without_work_ns(of: Subject<'_>) -> Reply<c_ulonglong> {
    asked(of)?;
    Ok(of.idle_us(store::now()).saturating_mul(1000))
}

/// For how long its clocks were down, in ns: nobody had a context on it.
pub(super) fn with_low_clocks_ns(of: Subject<'_>) -> Reply<c_ulonglong> {
    asked(of)?;
    Ok(of.rest_us(store::now()).saturating_mul(1000))
}

/// For how long its clocks were lower for one reason, in ns.
fn reduced_ns(of: Subject<'_>, reason: c_uint) -> Reply<c_ulonglong> {
    asked(of)?;
    match reason {
        sys::nvmlPerfPolicyType_enum_NVML_PERF_POLICY_LOW_UTILIZATION => without_work_ns(of),
        sys::nvmlPerfPolicyType_enum_NVML_PERF_POLICY_TOTAL_APP_CLOCKS
        | sys::nvmlPerfPolicyType_enum_NVML_PERF_POLICY_TOTAL_BASE_CLOCKS => with_low_clocks_ns(of),
        sys::nvmlPerfPolicyType_enum_NVML_PERF_POLICY_POWER
            ..=sys::nvmlPerfPolicyType_enum_NVML_PERF_POLICY_RELIABILITY => Ok(0),
        _ => Err(NvmlError::InvalidArgument),
    }
}

/// How many samples a card keeps, and how far apart they are, in µs.
struct Kept {
    count: u64,
    apart_us: u64,
}

/// 119 samples over 2.36 s, and 71 over 14 s (an H100, driver 580).
const OF_POWER: Kept = Kept { count: 119, apart_us: 20_000 };
const OF_WORK: Kept = Kept { count: 71, apart_us: 200_000 };

/// What the samples of one kind show, and how many there are.
fn sampled(of: Subject<'_>, kind: c_uint) -> Reply<(c_uint, Kept)> {
    asked(of)?;
    match kind {
        sys::nvmlSamplingType_enum_NVML_TOTAL_POWER_SAMPLES => Ok((power::draw(of)?, OF_POWER)),
        sys::nvmlSamplingType_enum_NVML_GPU_UTILIZATION_SAMPLES => Ok((sensors::load(of)?, OF_WORK)),
        sys::nvmlSamplingType_enum_NVML_PROCESSOR_CLK_SAMPLES
        | sys::nvmlSamplingType_enum_NVML_MEMORY_CLK_SAMPLES => Err(NvmlError::NotFound),
        sys::nvmlSamplingType_enum_NVML_MEMORY_UTILIZATION_SAMPLES
        | sys::nvmlSamplingType_enum_NVML_ENC_UTILIZATION_SAMPLES
        | sys::nvmlSamplingType_enum_NVML_DEC_UTILIZATION_SAMPLES
        | sys::nvmlSamplingType_enum_NVML_JPG_UTILIZATION_SAMPLES
        | sys::nvmlSamplingType_enum_NVML_OFA_UTILIZATION_SAMPLES => sensors::load(of).map(|_| (0, OF_WORK)),
        _ => Err(NvmlError::InvalidArgument),
    }
}

entries! {
    fn nvmlDeviceGetViolationStatus(call, device: Device, reason: c_uint, time: Out<sys::nvmlViolationTime_t>) {
        let violationTime = call.ask(device, |of| reduced_ns(of, reason))?;
        let referenceTime = store::now().as_microsecond().cast_unsigned();
        time.set(sys::nvmlViolationTime_t { referenceTime, violationTime })
    }

    /// Those since the caller last looked. Who has no array is told how long it would have to be.
    fn nvmlDeviceGetSamples(
        call, device: Device, kind: c_uint, last_seen: c_ulonglong, value_type: Out<sys::nvmlValueType_t>,
        count: Out<c_uint>, samples: OutArray<sys::nvmlSample_t>
    ) {
        let (value, Kept { count: kept, apart_us }) = call.ask(device, |of| sampled(of, kind))?;
        let now = store::now().as_microsecond().cast_unsigned();
        let sample = |age: u64| sys::nvmlSample_t {
            timeStamp: now.saturating_sub(age * apart_us),
            sampleValue: sys::nvmlValue_t { ullVal: value.into() },
        };
        let all: Vec<_> = (0..kept).rev().map(sample).filter(|sample| sample.timeStamp > last_seen).collect();
        if all.is_empty() {
            return Err(NvmlError::NotFound);
        }
        value_type.set(sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT);
        if samples.is_null() {
            count.set(kept as c_uint);
            return Ok(());
        }
        // The newest, where there is not room for all.
        let room = count.get()? as usize;
        let shown = &all[all.len() - all.len().min(room)..];
        samples.fill(shown);
        count.set(shown.len() as c_uint)
    }
}
