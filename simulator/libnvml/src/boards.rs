//! Facts about boards that were captured: firmware, clocks at rest, temperature limits, memory.

use std::ffi::c_uint;

use gpu::{Gpu, Subject};
use nvml_wrapper_sys::bindings as sys;

/// What a captured board says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Board {
    product: &'static str,
    /// The version of its InfoROM's image.
    pub(crate) image: &'static str,
    /// That of the object for its maker.
    pub(crate) oem: &'static str,
    /// That of the object for ECC.
    pub(crate) ecc: &'static str,
    /// Its part number.
    pub(crate) part: &'static str,
    /// Its place among the modules of a chassis.
    pub(crate) module: c_uint,
    /// Whether it is on a board with NVSwitches.
    pub(crate) fabric: bool,
    /// How its memory is addressed (`NVML_DEVICE_ADDRESSING_MODE_*`).
    pub(crate) addressing: c_uint,
    /// How many banks can remap rows.
    banks: c_uint,
    /// From where on it slows down, less how warm it is.
    limit_c: i32,
    /// Where its limits are, seen from there.
    limits: Limits,
    /// The highest clock of its video engines, in MHz.
    pub(crate) video_mhz: c_uint,
    /// What NVML itself said of it.
    pub(crate) asked: Option<Asked>,
    /// What its memory tells of itself, where it is measured.
    memory: Option<MemorySensors>,
    /// Whether its link to a processor is in use, where it has one.
    pub(crate) c2c: Option<bool>,
}

/// What NVML says of a card that was asked everything; of other captures only
/// what nvidia-smi prints is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// The clocks of multiprocessors and video engines at rest, which are the
    /// lowest that they have, in MHz.
    pub(crate) at_rest_mhz: Engines,
    /// The clock of the memory when it is slow, in MHz.
    pub(crate) slow_memory_mhz: c_uint,
    /// The width of the bus to its memory, in bits.
    pub(crate) bus_bits: c_uint,
    /// CUDA cores.
    pub(crate) cores: c_uint,
    /// Its limits in °C, for which NVML has another function.
    pub(crate) limits_c: Limits,
}

/// The clocks of two kinds of engines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Engines {
    pub(crate) sm: c_uint,
    pub(crate) video: c_uint,
}

/// The clocks of multiprocessors that can be set are so far apart, in MHz.
pub(crate) const CLOCK_STEP_MHZ: c_uint = 15;

/// An H100 and an H200, driver 580.159.04.
const fn hopper(slow_memory_mhz: c_uint, bus_bits: c_uint) -> Asked {
    Asked {
        at_rest_mhz: Engines { sm: 345, video: 765 },
        slow_memory_mhz,
        bus_bits,
        cores: 16_896,
        limits_c: Limits { shutdown: 95, slowdown: 89, gpu_max: 87, memory_max: Some(95) },
    }
}

/// The sensors of a card's memory: what they show at rest, and at work.
#[derive(Clone, Copy, Debug)]
struct MemorySensors {
    /// How much warmer than the GPU it is, in °C.
    warmer_c: u32,
    /// What it draws, in mW.
    power_mw: [c_uint; 2],
}

/// Temperatures at which a card shuts down, slows down, or works no longer as
/// it should, in °C.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) shutdown: i32,
    pub(crate) slowdown: i32,
    pub(crate) gpu_max: i32,
    /// Of its memory, where it is measured.
    pub(crate) memory_max: Option<i32>,
}

/// An H100 with drivers 580 and 590 and an L40S with 595, of public captures; an
/// H200 with driver 580.
const BOARDS: &[Board] = &[
    Board {
        product: "NVIDIA H100 80GB HBM3",
        image: "G520.0200.00.05",
        oem: "2.1",
        ecc: "7.16",
        part: "692-2G520-0200-000",
        module: 7,
        fabric: true,
        addressing: sys::nvmlDeviceAddressingModeType_t_NVML_DEVICE_ADDRESSING_MODE_NONE,
        banks: 2560,
        limit_c: 87,
        limits: Limits { shutdown: -8, slowdown: -2, gpu_max: 0, memory_max: Some(0) },
        video_mhz: 1545,
        asked: Some(hopper(1593, 5120)),
        // 48 °C beside 42, and 58 beside 53.
        memory: Some(MemorySensors { warmer_c: 6, power_mw: [44_000, 93_980] }),
        c2c: Some(false),
    },
    Board {
        product: "NVIDIA H200",
        image: "G520.0282.02.02",
        oem: "2.1",
        ecc: "7.16",
        part: "692-2G520-0282-001",
        module: 1,
        fabric: true,
        addressing: sys::nvmlDeviceAddressingModeType_t_NVML_DEVICE_ADDRESSING_MODE_NONE,
        banks: 3072,
        limit_c: 87,
        limits: Limits { shutdown: -8, slowdown: -2, gpu_max: 0, memory_max: Some(0) },
        video_mhz: 1545,
        asked: Some(hopper(2201, 6016)),
        // 39 °C beside 35.
        memory: Some(MemorySensors { warmer_c: 4, power_mw: [52_960, 133_230] }),
        c2c: Some(false),
    },
    Board {
        product: "NVIDIA L40S",
        image: "G133.0242.00.03",
        oem: "2.1",
        ecc: "6.16",
        part: "900-2G133-0080-000",
        module: 1,
        fabric: false,
        addressing: sys::nvmlDeviceAddressingModeType_t_NVML_DEVICE_ADDRESSING_MODE_HMM,
        banks: 192,
        limit_c: 88,
        limits: Limits { shutdown: -5, slowdown: -2, gpu_max: 0, memory_max: None },
        video_mhz: 1965,
        asked: None,
        memory: None,
        c2c: None,
    },
];

/// What a capture shows of a board.
pub(crate) fn board(gpu: &Gpu) -> Option<&'static Board> {
    BOARDS.iter().find(|board| board.product == gpu.model.product)
}

/// The reasons for which it can be slow, as bits: as captured, or the one that a
/// simulated card has.
pub(crate) fn reasons(gpu: &Gpu) -> u64 {
    if board(gpu).is_some() { 0x1ff } else { sys::nvmlClocksEventReasonGpuIdle.into() }
}

/// How many banks of its memory can remap rows.
pub(crate) fn banks(gpu: &Gpu) -> Option<c_uint> {
    board(gpu).map(|board| board.banks)
}

/// The driver from which on a card whose limits are relative says so.
const RELATIVE_LIMITS: u16 = 545;

/// From how many °C on it slows down.
pub(crate) fn temperature_limit(gpu: &Gpu) -> Option<i32> {
    board(gpu).map(|board| board.limit_c)
}

/// The limits of a card that counts from where it slows down.
pub(crate) fn relative_limits(of: Subject<'_>) -> Option<Limits> {
    board(of.gpu).filter(|_| of.machine.driver().0 >= RELATIVE_LIMITS).map(|board| board.limits)
}

/// What NVML says of a card that was asked everything.
pub(crate) fn asked(gpu: &Gpu) -> Option<Asked> {
    board(gpu)?.asked
}

/// The limits of a card in °C, of captures: an H100's and an H200's; of an A100 80GB PCIe
/// (evidence 31166464907), an A100-SXM4-40GB (47337582899) and a T4
/// (22551222574).
pub(crate) fn absolute_limits(gpu: &Gpu) -> Option<Limits> {
    let asked = || asked(gpu).map(|asked| asked.limits_c);
    match gpu.model.product.as_str() {
        "NVIDIA A100 80GB PCIe" | "NVIDIA A100-SXM4-40GB" => {
            Some(Limits { shutdown: 92, slowdown: 89, gpu_max: 85, memory_max: Some(95) })
        }
        "Tesla T4" => Some(Limits { shutdown: 96, slowdown: 93, gpu_max: 85, memory_max: None }),
        _ => asked(),
    }
}

/// How warm a card's memory is, in °C, where it is measured.
pub(crate) fn memory_temperature(of: Subject<'_>) -> Option<u32> {
    board(of.gpu)?.memory.map(|memory| crate::figures::temperature(of) + memory.warmer_c)
}

/// What a card's memory draws, in mW, where it is measured.
pub(crate) fn memory_power(of: Subject<'_>) -> Option<c_uint> {
    board(of.gpu)?.memory.map(|memory| memory.power_mw[usize::from(of.is_busy())])
}
