//! Sensors: utilisation, temperature, fans. A simulated card is idle or busy, depending on its clients,
//! and its readings are derived from its data sheet; a card without one answers NOT_SUPPORTED.

use std::ffi::{c_uint, c_ulonglong};

use gpu::{Gpu, Load, NvmlError, Reply, Subject};
use nvml_wrapper_sys::bindings as sys;

use crate::argument::{Ignored, Out, OutArray, Versioned};
use crate::boards;
use crate::c_handle::Device;
use crate::figures::{self, Sheet};

/// Every sensor sits on a GPU: a MIG device has none.
fn card(of: Subject<'_>) -> Reply<&Gpu> {
    of.whole(NvmlError::NotSupported)
}

/// Of other cards it is not known what NVML says.
fn asked(of: Subject<'_>) -> Reply<()> {
    boards::asked(card(of)?).map(drop).ok_or(NvmlError::NotSupported)
}

fn sheet(of: Subject<'_>) -> Reply<&'static Sheet> {
    figures::sheet(card(of)?).ok_or(NvmlError::NotSupported)
}

/// With MIG on, the device's own utilisation is not supported: of neither kind
/// of handle.
pub(super) fn load(of: Subject<'_>) -> Reply<c_uint> {
    if card(of)?.mig_is_on() {
        return Err(NvmlError::NotSupported);
    }
    Ok(if of.is_busy() { 100 } else { 0 })
}

/// The period over which utilisation is said to be sampled.
const SAMPLED_US: c_uint = 100_000;

entries! {
    fn nvmlDeviceGetUtilizationRates(call, device: Device, rates: Out<sys::nvmlUtilization_t>) {
        let gpu = call.ask(device, load)?;
        rates.set(sys::nvmlUtilization_t { gpu, memory: 0 })
    }

    /// Nothing encodes or decodes on a simulated card.
    fn nvmlDeviceGetEncoderUtilization | nvmlDeviceGetDecoderUtilization | nvmlDeviceGetJpgUtilization | nvmlDeviceGetOfaUtilization(
        call, device: Device, percent: Out<c_uint>, period: Out<c_uint>
    ) {
        call.ask(device, load)?;
        percent.set(0);
        period.set(SAMPLED_US)
    }

    fn nvmlDeviceGetEncoderStats(
        call, device: Device, sessions: Out<c_uint>, frames: Out<c_uint>, latency: Out<c_uint>
    ) {
        call.ask(device, |of| card(of).map(drop))?;
        sessions.set(0);
        frames.set(0);
        latency.set(0)
    }

    /// The share of its encoders that is free, although an H100 has none (driver 580).
    fn nvmlDeviceGetEncoderCapacity(call, device: Device, codec: c_uint, percent: Out<c_uint>) {
        call.ask(device, asked)?;
        percent.set(match codec {
            sys::nvmlEncoderQueryType_enum_NVML_ENCODER_QUERY_H264 | sys::nvmlEncoderQueryType_enum_NVML_ENCODER_QUERY_HEVC => 100,
            sys::nvmlEncoderQueryType_enum_NVML_ENCODER_QUERY_AV1 => return Err(NvmlError::NotSupported),
            _ => return Err(NvmlError::InvalidArgument),
        })
    }

    fn nvmlDeviceGetEncoderSessions | nvmlDeviceGetFBCSessions(
        call, device: Device, count: Out<c_uint>, _sessions: OutArray<c_uint>
    ) {
        call.ask(device, |of| card(of).map(drop))?;
        count.set(0)
    }

    /// A board without fans has none of any number.
    fn nvmlDeviceGetNumFans(call, device: Device, fans: Out<c_uint>) {
        call.ask(device, asked)?;
        fans.set(0)
    }

    fn nvmlDeviceGetFanSpeed_v2(call, device: Device, _fan: c_uint, _speed: Ignored) {
        call.ask(device, |of| asked(of).and(Err(NvmlError::InvalidArgument)))?
    }

    fn nvmlDeviceGetFanSpeedRPM(call, device: Device, _speed: Ignored) {
        call.ask(device, |of| asked(of).and(Err(NvmlError::InvalidArgument)))?
    }

    fn nvmlDeviceGetMinMaxFanSpeed(call, device: Device, _least: Ignored, _most: Ignored) {
        call.ask(device, |of| asked(of).and(Err(NvmlError::InvalidArgument)))?
    }

    fn nvmlDeviceGetFBCStats(call, device: Device, stats: Out<sys::nvmlFBCStats_t>) {
        call.ask(device, |of| card(of).map(drop))?;
        stats.set(sys::nvmlFBCStats_t { sessionsCount: 0, averageFPS: 0, averageLatency: 0 })
    }

    fn nvmlDeviceGetTemperature(call, device: Device, sensor: c_uint, temperature: Out<c_uint>) {
        if sensor >= sys::nvmlTemperatureSensors_enum_NVML_TEMPERATURE_COUNT {
            return Err(NvmlError::InvalidArgument);
        }
        temperature.set(call.ask(device, |of| card(of).map(|_| figures::temperature(of)))?)
    }

    fn nvmlDeviceGetTemperatureV(call, device: Device, temperature: Versioned) {
        let answer = temperature.must_be::<sys::nvmlTemperature_v1_t>(1)?;
        if answer.get()?.sensorType >= sys::nvmlTemperatureSensors_enum_NVML_TEMPERATURE_COUNT {
            return Err(NvmlError::InvalidArgument);
        }
        let is = call.ask(device, |of| card(of).map(|_| figures::temperature(of)))?;
        answer.update(|answer| answer.temperature = is.cast_signed())?
    }

    fn nvmlDeviceGetPerformanceState | nvmlDeviceGetPowerState(call, device: Device, state: Out<sys::nvmlPstates_t>) {
        call.ask(device, |of| card(of).map(drop))?;
        state.set(sys::nvmlPStates_enum_NVML_PSTATE_0)
    }

    /// The link runs as fast as the card can.
    fn nvmlDeviceGetMaxPcieLinkGeneration | nvmlDeviceGetGpuMaxPcieLinkGeneration | nvmlDeviceGetCurrPcieLinkGeneration(
        call, device: Device, generation: Out<c_uint>
    ) {
        generation.set(call.ask(device, |of| sheet(of).map(|sheet| sheet.pcie))?)
    }

    fn nvmlDeviceGetMaxPcieLinkWidth | nvmlDeviceGetCurrPcieLinkWidth(call, device: Device, lanes: Out<c_uint>) {
        lanes.set(call.ask(device, |of| sheet(of).map(|sheet| sheet.lanes))?)
    }

    /// As the header numbers the generations, and in MB/s.
    fn nvmlDeviceGetPcieLinkMaxSpeed(call, device: Device, speed: Out<c_uint>) {
        speed.set(call.ask(device, |of| sheet(of).map(|sheet| sheet.pcie))?)
    }

    fn nvmlDeviceGetPcieSpeed(call, device: Device, megabytes: Out<c_uint>) {
        megabytes.set(call.ask(device, |of| sheet(of).map(Sheet::pcie_mb_s))?)
    }

    fn nvmlDeviceGetCurrentClocksEventReasons | nvmlDeviceGetCurrentClocksThrottleReasons(
        call, device: Device, reasons: Out<c_ulonglong>
    ) {
        reasons.set(call.ask(device, |of| {
            card(of)?;
            Ok(match of.load() {
                Load::Rest => sys::nvmlClocksEventReasonGpuIdle.into(),
                Load::Open | Load::Work => 0,
            })
        })?)
    }

    fn nvmlDeviceGetSupportedClocksEventReasons | nvmlDeviceGetSupportedClocksThrottleReasons(
        call, device: Device, reasons: Out<c_ulonglong>
    ) {
        reasons.set(call.ask(device, |of| Ok(boards::reasons(card(of)?)))?)
    }

    /// The struct counts before whether there are fans (driver 580).
    fn nvmlDeviceGetCoolerInfo(call, device: Device, info: Versioned) {
        info.must_be::<sys::nvmlCoolerInfo_v1_t>(1)?;
        call.ask(device, |_| Err(NvmlError::NotSupported))?
    }
}
