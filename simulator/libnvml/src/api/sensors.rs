//! Sensors: utilisation, temperature, clocks. A simulated card is idle or busy, depending on its clients,
//! and its readings are derived from its data sheet; a card without one answers NOT_SUPPORTED.

use std::ffi::{c_uint, c_ulonglong};

use gpu::{Gpu, NvmlError, Reply, Subject};
use nvml_wrapper_sys::bindings as sys;

use crate::argument::{Out, Versioned};
use crate::c_handle::Device;
use crate::figures::{self, Sheet};

/// Every sensor sits on a GPU: a MIG device has none.
fn card(of: Subject<'_>) -> Reply<&Gpu> {
    of.whole(NvmlError::NotSupported)
}

fn sheet(of: Subject<'_>) -> Reply<&'static Sheet> {
    figures::sheet(card(of)?).ok_or(NvmlError::NotSupported)
}

/// With MIG on, the device's own utilisation is not supported: of neither kind
/// of handle.
fn load(of: Subject<'_>) -> Reply<c_uint> {
    if card(of)?.mig_is_on() {
        return Err(NvmlError::NotSupported);
    }
    Ok(if of.is_busy() { 100 } else { 0 })
}

fn clock(of: Subject<'_>, kind: c_uint) -> Reply<c_uint> {
    let sheet = sheet(of)?;
    match kind {
        sys::nvmlClockType_enum_NVML_CLOCK_GRAPHICS | sys::nvmlClockType_enum_NVML_CLOCK_SM => {
            Ok(sheet.sm_mhz)
        }
        sys::nvmlClockType_enum_NVML_CLOCK_MEM => Ok(sheet.memory_mhz),
        sys::nvmlClockType_enum_NVML_CLOCK_VIDEO => {
            figures::board(of.gpu).map(|board| board.video_mhz).ok_or(NvmlError::NotSupported)
        }
        _ => Err(NvmlError::NotSupported),
    }
}

const fn is_clock(kind: c_uint) -> Reply<()> {
    if kind < sys::nvmlClockType_enum_NVML_CLOCK_COUNT { Ok(()) } else { Err(NvmlError::InvalidArgument) }
}

/// The period over which utilisation is said to be sampled.
const SAMPLED_US: c_uint = 167_000;

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

    /// Data-centre cards keep their clocks up; a simulated one shows the highest.
    fn nvmlDeviceGetClockInfo | nvmlDeviceGetMaxClockInfo | nvmlDeviceGetApplicationsClock
        | nvmlDeviceGetDefaultApplicationsClock | nvmlDeviceGetMaxCustomerBoostClock(
        call, device: Device, kind: c_uint, mhz: Out<c_uint>
    ) {
        is_clock(kind)?;
        mhz.set(call.ask(device, |of| clock(of, kind))?)
    }

    fn nvmlDeviceGetClock(call, device: Device, kind: c_uint, id: c_uint, mhz: Out<c_uint>) {
        is_clock(kind)?;
        if id >= sys::nvmlClockId_enum_NVML_CLOCK_ID_COUNT {
            return Err(NvmlError::InvalidArgument);
        }
        mhz.set(call.ask(device, |of| clock(of, kind))?)
    }

    /// The link runs as fast as the card can.
    fn nvmlDeviceGetMaxPcieLinkGeneration | nvmlDeviceGetGpuMaxPcieLinkGeneration | nvmlDeviceGetCurrPcieLinkGeneration(
        call, device: Device, generation: Out<c_uint>
    ) {
        generation.set(call.ask(device, |of| sheet(of).map(|sheet| sheet.pcie))?)
    }

    fn nvmlDeviceGetMaxPcieLinkWidth | nvmlDeviceGetCurrPcieLinkWidth(call, device: Device, lanes: Out<c_uint>) {
        call.ask(device, |of| sheet(of).map(drop))?;
        lanes.set(figures::PCIE_LANES)
    }

    fn nvmlDeviceGetCurrentClocksEventReasons | nvmlDeviceGetCurrentClocksThrottleReasons(
        call, device: Device, reasons: Out<c_ulonglong>
    ) {
        reasons.set(call.ask(device, |of| {
            card(of)?;
            Ok(if of.is_busy() { 0 } else { sys::nvmlClocksEventReasonGpuIdle.into() })
        })?)
    }

    fn nvmlDeviceGetSupportedClocksEventReasons | nvmlDeviceGetSupportedClocksThrottleReasons(
        call, device: Device, reasons: Out<c_ulonglong>
    ) {
        reasons.set(call.ask(device, |of| Ok(figures::reasons(card(of)?)))?)
    }
}
