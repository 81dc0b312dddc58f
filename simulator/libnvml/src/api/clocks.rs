//! Clocks and performance states. A simulated card runs at its highest clocks; one whose clocks at rest were
//! seen goes down to them while nobody computes on it. Its readings are derived from its data sheet; a card
//! without one answers NOT_SUPPORTED.

use std::ffi::{c_int, c_uint};
use std::fmt::Write as _;

use gpu::{Gpu, Load, NvmlError, Reply, Subject};
use nvml_wrapper_sys::bindings as sys;

use crate::argument::{Out, OutArray, Versioned, text};
use crate::boards::{self, Asked, CLOCK_STEP_MHZ};
use crate::c_handle::Device;
use crate::figures::{self, Sheet};

const GRAPHICS: c_uint = sys::nvmlClockType_enum_NVML_CLOCK_GRAPHICS;
const SM: c_uint = sys::nvmlClockType_enum_NVML_CLOCK_SM;
const MEMORY: c_uint = sys::nvmlClockType_enum_NVML_CLOCK_MEM;
const VIDEO: c_uint = sys::nvmlClockType_enum_NVML_CLOCK_VIDEO;

/// The performance states of a card that was asked: with slow memory, and with fast.
const STATES: [sys::nvmlPstates_t; 2] =
    [sys::nvmlPStates_enum_NVML_PSTATE_2, sys::nvmlPStates_enum_NVML_PSTATE_0];

/// Clocks are those of a GPU: a MIG device has none.
fn card(of: Subject<'_>) -> Reply<&Gpu> {
    of.whole(NvmlError::NotSupported)
}

fn sheet(of: Subject<'_>) -> Reply<&'static Sheet> {
    figures::sheet(card(of)?).ok_or(NvmlError::NotSupported)
}

fn asked(of: Subject<'_>) -> Reply<Asked> {
    boards::asked(card(of)?).ok_or(NvmlError::NotSupported)
}

/// The highest.
fn highest(of: Subject<'_>, kind: c_uint) -> Reply<c_uint> {
    let sheet = sheet(of)?;
    match kind {
        GRAPHICS | SM => Ok(sheet.sm_mhz),
        MEMORY => Ok(sheet.memory_mhz),
        VIDEO => boards::board(of.gpu).map(|board| board.video_mhz).ok_or(NvmlError::NotSupported),
        _ => Err(NvmlError::InvalidArgument),
    }
}

/// The one that it runs at.
fn current(of: Subject<'_>, kind: c_uint) -> Reply<c_uint> {
    let at_rest = boards::asked(card(of)?).filter(|_| of.load() == Load::Rest).map(|asked| asked.at_rest_mhz);
    match (kind, at_rest) {
        (GRAPHICS | SM, Some(at_rest)) => Ok(at_rest.sm),
        (VIDEO, Some(at_rest)) => Ok(at_rest.video),
        // The code for a current clock that does not exist is another than for others.
        (sys::nvmlClockType_enum_NVML_CLOCK_COUNT, _) => Err(NvmlError::NotSupported),
        _ => highest(of, kind),
    }
}

/// The one that applications are given, for which the video engines have none.
fn for_applications(of: Subject<'_>, kind: c_uint) -> Reply<c_uint> {
    if kind == VIDEO { Err(NvmlError::NotSupported) } else { highest(of, kind) }
}

/// The one that a customer can choose.
fn for_customers(of: Subject<'_>, kind: c_uint) -> Reply<c_uint> {
    if kind == VIDEO || kind == MEMORY { Err(NvmlError::NotSupported) } else { highest(of, kind) }
}

/// Clocks of the memory that can be set, the highest first.
fn of_memory(of: Subject<'_>) -> Reply<[c_uint; 2]> {
    Ok([sheet(of)?.memory_mhz, asked(of)?.slow_memory_mhz])
}

/// The lowest and the highest clock in a performance state.
fn span(of: Subject<'_>, kind: c_uint, state: sys::nvmlPstates_t) -> Reply<[c_uint; 2]> {
    let at_rest = asked(of)?.at_rest_mhz;
    let fast = state == sys::nvmlPStates_enum_NVML_PSTATE_0;
    match kind {
        _ if kind >= sys::nvmlClockType_enum_NVML_CLOCK_COUNT => Err(NvmlError::InvalidArgument),
        _ if !STATES.contains(&state) => Err(NvmlError::Unknown),
        MEMORY => of_memory(of).map(|[high, low]| if fast { [high; 2] } else { [low; 2] }),
        VIDEO => Ok([at_rest.video, highest(of, kind)?]),
        _ => Ok([at_rest.sm, highest(of, kind)?]),
    }
}

/// Clocks as the text in which older tools look for them.
fn words(multiprocessors: [c_uint; 3], memory_mhz: c_uint) -> String {
    let ([now, least, most], rate) = (multiprocessors, 2 * memory_mhz);
    format!(
        "nvclock={now}, nvclockmin={least}, nvclockmax={most}, nvclockeditable=0, memclock={memory_mhz}, memclockmin={memory_mhz}, memclockmax={memory_mhz}, memclockeditable=0, memTransferRate={rate}, memTransferRatemin={rate}, memTransferRatemax={rate}, memTransferRateeditable=0"
    )
}

entries! {
    fn nvmlDeviceGetClockInfo(call, device: Device, kind: c_uint, mhz: Out<c_uint>) {
        mhz.set(call.ask(device, |of| current(of, kind))?)
    }

    fn nvmlDeviceGetMaxClockInfo(call, device: Device, kind: c_uint, mhz: Out<c_uint>) {
        mhz.set(call.ask(device, |of| highest(of, kind))?)
    }

    fn nvmlDeviceGetApplicationsClock | nvmlDeviceGetDefaultApplicationsClock(
        call, device: Device, kind: c_uint, mhz: Out<c_uint>
    ) {
        mhz.set(call.ask(device, |of| for_applications(of, kind))?)
    }

    fn nvmlDeviceGetMaxCustomerBoostClock(call, device: Device, kind: c_uint, mhz: Out<c_uint>) {
        mhz.set(call.ask(device, |of| for_customers(of, kind))?)
    }

    fn nvmlDeviceGetClock(call, device: Device, kind: c_uint, id: c_uint, mhz: Out<c_uint>) {
        let answer = match id {
            sys::nvmlClockId_enum_NVML_CLOCK_ID_CURRENT => current,
            sys::nvmlClockId_enum_NVML_CLOCK_ID_CUSTOMER_BOOST_MAX => for_customers,
            _ if id < sys::nvmlClockId_enum_NVML_CLOCK_ID_COUNT => for_applications,
            _ => return Err(NvmlError::InvalidArgument),
        };
        mhz.set(call.ask(device, |of| answer(of, kind))?)
    }

    fn nvmlDeviceGetSupportedMemoryClocks(call, device: Device, count: Out<c_uint>, mhz: OutArray<c_uint>) {
        mhz.fill_at_most(count, &call.ask(device, of_memory)?)?
    }

    /// The same with each clock of the memory.
    fn nvmlDeviceGetSupportedGraphicsClocks(
        call, device: Device, memory_mhz: c_uint, count: Out<c_uint>, mhz: OutArray<c_uint>
    ) {
        let (least, most) = call.ask(device, |of| {
            if !of_memory(of)?.contains(&memory_mhz) {
                return Err(NvmlError::NotFound);
            }
            Ok((asked(of)?.at_rest_mhz.sm, highest(of, SM)?))
        })?;
        let all: Vec<_> = (least..=most).rev().step_by(CLOCK_STEP_MHZ as usize).collect();
        mhz.fill_at_most(count, &all)?
    }

    fn nvmlDeviceGetMinMaxClockOfPState(
        call, device: Device, kind: c_uint, state: sys::nvmlPstates_t, least: Out<c_uint>, most: Out<c_uint>
    ) {
        let [low, high] = call.ask(device, |of| span(of, kind, state))?;
        least.set(low);
        most.set(high)
    }

    /// The caller says how many bytes its array has. What is left of it is filled with the state that is none.
    fn nvmlDeviceGetSupportedPerformanceStates(
        call, device: Device, states: OutArray<sys::nvmlPstates_t>, size: c_uint
    ) {
        call.ask(device, asked)?;
        let room = size as usize / size_of::<sys::nvmlPstates_t>();
        if states.is_null() {
            return Err(NvmlError::InvalidArgument);
        }
        if room < STATES.len() {
            return Err(NvmlError::InsufficientSize);
        }
        // A caller who claims more room than there are states gets as many as can mean something.
        let mut all = STATES.to_vec();
        all.resize(room.min(sys::NVML_MAX_GPU_PERF_PSTATES as usize), sys::nvmlPStates_enum_NVML_PSTATE_UNKNOWN);
        states.fill(&all)
    }

    fn nvmlDeviceGetPerformanceModes(call, device: Device, modes: Versioned) {
        let modes = modes.must_be::<sys::nvmlDevicePerfModes_v1_t>(1)?;
        let told = call.ask(device, |of| {
            let (least, most, mut told) = (asked(of)?.at_rest_mhz.sm, highest(of, SM)?, String::new());
            for (mode, memory_mhz) in of_memory(of)?.into_iter().rev().enumerate() {
                let between = if mode > 0 { " ; " } else { "" };
                let clocks = words([least, least, most], memory_mhz);
                write!(told, "{between}perf={mode}, {clocks}").map_err(|_| NvmlError::Unknown)?;
            }
            Ok(told)
        })?;
        modes.update(|modes| modes.str_ = text(&told))?
    }

    fn nvmlDeviceGetCurrentClockFreqs(call, device: Device, clocks: Versioned) {
        let clocks = clocks.must_be::<sys::nvmlDeviceCurrentClockFreqs_v1_t>(1)?;
        let told = call.ask(device, |of| {
            let least = asked(of)?.at_rest_mhz.sm;
            Ok(words([current(of, SM)?, least, highest(of, SM)?], current(of, MEMORY)?))
        })?;
        clocks.update(|clocks| clocks.str_ = text(&told))?
    }

    /// Nothing is overclocked.
    fn nvmlDeviceGetGpcClkVfOffset | nvmlDeviceGetMemClkVfOffset(call, device: Device, mhz: Out<c_int>) {
        call.ask(device, asked)?;
        mhz.set(0)
    }

    fn nvmlDeviceGetGpcClkMinMaxVfOffset | nvmlDeviceGetMemClkMinMaxVfOffset(
        call, device: Device, least: Out<c_int>, most: Out<c_int>
    ) {
        call.ask(device, asked)?;
        least.set(0);
        most.set(0)
    }

    fn nvmlDeviceGetClockOffsets(call, device: Device, offsets: Versioned) {
        let offsets = offsets.must_be::<sys::nvmlClockOffset_v1_t>(1)?;
        call.ask(device, asked)?;
        offsets.update(|offsets| {
            (offsets.clockOffsetMHz, offsets.minClockOffsetMHz, offsets.maxClockOffsetMHz) = (0, 0, 0);
        })?
    }

    fn nvmlDeviceGetAdaptiveClockInfoStatus(call, device: Device, status: Out<c_uint>) {
        call.ask(device, asked)?;
        status.set(sys::NVML_ADAPTIVE_CLOCKING_INFO_STATUS_ENABLED)
    }

    /// The loads by which a card would choose its state: of its engines, its memory, its video engines and
    /// its bus.
    fn nvmlDeviceGetDynamicPstatesInfo(call, device: Device, info: Out<sys::nvmlGpuDynamicPstatesInfo_t>) {
        let load = call.ask(device, |of| asked(of).and(super::sensors::load(of)))?;
        let part = |i: usize| sys::nvmlGpuDynamicPstatesInfo_st__bindgen_ty_1 {
            bIsPresent: (i < 4).into(),
            percentage: if i == 0 { load } else { 0 },
            incThreshold: 0,
            decThreshold: 0,
        };
        info.set(sys::nvmlGpuDynamicPstatesInfo_t { flags: 0, utilization: std::array::from_fn(part) })
    }
}
