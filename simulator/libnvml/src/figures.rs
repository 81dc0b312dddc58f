//! Figures that programs read and that the engine does not have: values of a product's data sheet, and
//! readings that a simulated card shows instead of sensors. All other values are absent and answered with
//! NOT_SUPPORTED.

use std::ffi::c_uint;

use gpu::{Gpu, Subject};
use nvml_wrapper_sys::bindings as sys;
use store::State;

/// A version of the simulator, and nobody's BIOS.
pub(crate) const VBIOS: &str = "00.00.00.00.00";

/// Versions of the driver, of NVML and of CUDA, which come together.
#[derive(Clone, Debug)]
pub(crate) struct Versions {
    /// The driver, such as `580.65.06`.
    pub(crate) driver: String,
    /// The highest CUDA that it serves: major * 1000 + minor * 10.
    pub(crate) cuda: i32,
}

impl Versions {
    pub(crate) fn from_state(state: &State) -> Self {
        let cuda = match state.machine.driver().0 {
            ..=459 => 11000,
            460..=469 => 11020,
            470..=494 => 11040,
            495..=509 => 11050,
            510..=514 => 11060,
            515..=519 => 11070,
            520..=524 => 11080,
            525..=529 => 12000,
            530..=534 => 12010,
            535..=544 => 12020,
            545..=549 => 12030,
            550..=554 => 12040,
            555..=559 => 12050,
            560..=564 => 12060,
            565..=569 => 12070,
            570..=574 => 12080,
            575..=579 => 12090,
            580..=589 => 13000,
            590..=594 => 13010,
            _ => 13020,
        };
        Self { driver: state.driver_version.clone(), cuda }
    }

    /// NVML's own: CUDA's major version, then the driver's.
    pub(crate) fn nvml(&self) -> String {
        format!("{}.{}", self.cuda / 1000, self.driver)
    }

    /// The branch's name.
    pub(crate) fn branch(&self) -> String {
        format!("r{}_00", self.driver.split('.').next().unwrap_or_default())
    }
}

/// An address on the PCI bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PciAddress {
    pub(crate) domain: u32,
    pub(crate) bus: u32,
    pub(crate) device: u32,
}

impl PciAddress {
    /// Reads `00000000:01:00.0`, or shorter spellings of it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.split_once('.').map_or(text, |(before, _)| before);
        let hex = |part: &str| u32::from_str_radix(part, 16).ok();
        match text.split(':').collect::<Vec<_>>()[..] {
            [bus, device] => Some(Self { domain: 0, bus: hex(bus)?, device: hex(device)? }),
            [domain, bus, device] => {
                Some(Self { domain: hex(domain)?, bus: hex(bus)?, device: hex(device)? })
            }
            _ => None,
        }
    }

    /// As one number, as boards and the driver's events have it: an H100 at `0000:00:09.0` says 0x9.
    pub(crate) const fn id(self) -> u32 {
        self.domain << 16 | self.bus << 8 | self.device
    }

    /// With a domain of four digits.
    pub(crate) fn legacy(self) -> String {
        format!("{:04X}:{:02X}:{:02X}.0", self.domain, self.bus, self.device)
    }
}

/// What a product's data sheet says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sheet {
    /// How the product's name begins.
    product: &'static str,
    /// The highest clock of the multiprocessors, in MHz.
    pub(crate) sm_mhz: u32,
    /// The clock of the memory, in MHz.
    pub(crate) memory_mhz: u32,
    /// The generation of its PCI Express interface, which has 16 lanes.
    pub(crate) pcie: u32,
}

/// Lanes of the PCI Express interface of every card in the table.
pub(crate) const PCIE_LANES: u32 = 16;

/// NVIDIA's data sheets and product briefs. The longest name counts.
const SHEETS: &[Sheet] = &[
    Sheet { product: "NVIDIA A100-PCIE-40GB", sm_mhz: 1410, memory_mhz: 1215, pcie: 4 },
    Sheet { product: "NVIDIA A100-SXM4-40GB", sm_mhz: 1410, memory_mhz: 1215, pcie: 4 },
    Sheet { product: "NVIDIA A100 80GB PCIe", sm_mhz: 1410, memory_mhz: 1512, pcie: 4 },
    Sheet { product: "NVIDIA A100-SXM4-80GB", sm_mhz: 1410, memory_mhz: 1593, pcie: 4 },
    Sheet { product: "NVIDIA A30", sm_mhz: 1440, memory_mhz: 1215, pcie: 4 },
    Sheet { product: "NVIDIA H100 PCIe", sm_mhz: 1755, memory_mhz: 1593, pcie: 5 },
    Sheet { product: "NVIDIA H100 80GB HBM3", sm_mhz: 1980, memory_mhz: 2619, pcie: 5 },
    Sheet { product: "NVIDIA H100 NVL", sm_mhz: 1785, memory_mhz: 2619, pcie: 5 },
    Sheet { product: "NVIDIA H200", sm_mhz: 1980, memory_mhz: 3201, pcie: 5 },
    Sheet { product: "NVIDIA GH200 480GB", sm_mhz: 1980, memory_mhz: 2619, pcie: 5 },
    Sheet { product: "Tesla P4", sm_mhz: 1531, memory_mhz: 3003, pcie: 3 },
    Sheet { product: "Tesla P40", sm_mhz: 1531, memory_mhz: 3615, pcie: 3 },
    Sheet { product: "Tesla P100-PCIE-16GB", sm_mhz: 1328, memory_mhz: 715, pcie: 3 },
    Sheet { product: "Tesla P100-SXM2-16GB", sm_mhz: 1480, memory_mhz: 715, pcie: 3 },
    Sheet { product: "Tesla V100-PCIE", sm_mhz: 1380, memory_mhz: 877, pcie: 3 },
    Sheet { product: "Tesla V100-SXM2", sm_mhz: 1530, memory_mhz: 877, pcie: 3 },
    Sheet { product: "Tesla T4", sm_mhz: 1590, memory_mhz: 5001, pcie: 3 },
    Sheet { product: "NVIDIA A2", sm_mhz: 1770, memory_mhz: 6251, pcie: 4 },
    Sheet { product: "NVIDIA A10", sm_mhz: 1695, memory_mhz: 6251, pcie: 4 },
    Sheet { product: "NVIDIA A10G", sm_mhz: 1710, memory_mhz: 6251, pcie: 4 },
    Sheet { product: "NVIDIA A40", sm_mhz: 1740, memory_mhz: 7251, pcie: 4 },
    Sheet { product: "NVIDIA L4", sm_mhz: 2040, memory_mhz: 6251, pcie: 4 },
    Sheet { product: "NVIDIA L20", sm_mhz: 2520, memory_mhz: 9001, pcie: 4 },
    Sheet { product: "NVIDIA L40", sm_mhz: 2490, memory_mhz: 9001, pcie: 4 },
    Sheet { product: "NVIDIA L40S", sm_mhz: 2520, memory_mhz: 9001, pcie: 4 },
];

/// The data sheet of a GPU, if it is known.
pub(crate) fn sheet(gpu: &Gpu) -> Option<&'static Sheet> {
    let fits = |sheet: &&Sheet| gpu.model.product.starts_with(sheet.product);
    SHEETS.iter().filter(fits).max_by_key(|sheet| sheet.product.len())
}

/// What a simulated card shows for a temperature, in °C: one for a card at
/// rest, one for a card at work.
pub(crate) fn temperature(of: Subject<'_>) -> u32 {
    if of.is_busy() { 55 } else { 31 }
}

/// How warm a card's memory is, in °C, where it is measured.
pub(crate) fn memory_temperature(of: Subject<'_>) -> Option<u32> {
    board(of.gpu)?.memory.map(|memory| temperature(of) + memory.warmer_c)
}

/// What a card's memory draws, in mW, where it is measured.
pub(crate) fn memory_power(of: Subject<'_>) -> Option<c_uint> {
    board(of.gpu)?.memory.map(|memory| memory.power_mw[usize::from(of.is_busy())])
}

/// What is left of a card's memory when the driver has taken what it reserves,
/// in MiB, where it was seen what that is.
fn usable_mib(of: Subject<'_>) -> Option<u32> {
    let reserved = of.gpu.reserved_kib(of.machine.driver());
    (reserved > 0).then(|| of.gpu.model.memory_mib.saturating_sub(reserved / 1024))
}

/// The driver from which on MIG devices share what the card's memory leaves of
/// the address window.
const BAR1_BESIDE_MEMORY: u16 = 580;

/// Of which so much is kept for the GPU itself, in MiB.
const BAR1_KEPT: u32 = 512;

/// The address window: how large it is, and how much of it is used, in MiB. Of
/// a GPU: its memory, as a power of two. Of a MIG device its share by memory:
/// up to driver 560 of the window, of which 1 MiB is missing in every capture;
/// from 580 on of what the card's memory leaves of it, which the card then shows
/// as used. Where no capture shows what the driver reserves, as before.
pub(crate) fn bar1_mib(of: Subject<'_>) -> Option<(u32, u32)> {
    let memory = of.gpu.model.memory_mib;
    let mut whole = memory.checked_next_power_of_two()?;
    let beside = usable_mib(of).filter(|_| of.machine.driver().0 >= BAR1_BESIDE_MEMORY);
    // A window that has no room beside the memory is twice as large.
    if beside.is_some_and(|usable| whole < usable + BAR1_KEPT) {
        whole *= 2;
    }
    let Some((gi, _)) = of.mig else {
        return Some((whole, beside.filter(|_| of.gpu.mig_is_on()).unwrap_or(0)));
    };
    let (_, size) = of.gpu.span_of(gi);
    let units = u32::from(of.gpu.geometry()?.memory());
    match beside {
        Some(usable) => Some(((whole - usable - BAR1_KEPT) * u32::from(size) / units, 0)),
        None => Some(((whole / units * u32::from(size)).checked_sub(1)?, 0)),
    }
}

/// The architecture, by the compute capability.
pub(crate) fn architecture(gpu: &Gpu) -> c_uint {
    match gpu.model.compute_capability {
        Some((6, _)) => sys::NVML_DEVICE_ARCH_PASCAL,
        Some((7, 0 | 2)) => sys::NVML_DEVICE_ARCH_VOLTA,
        Some((7, _)) => sys::NVML_DEVICE_ARCH_TURING,
        Some((8, 9)) => sys::NVML_DEVICE_ARCH_ADA,
        Some((8, _)) => sys::NVML_DEVICE_ARCH_AMPERE,
        Some((9, _)) => sys::NVML_DEVICE_ARCH_HOPPER,
        Some((10.., _)) => sys::NVML_DEVICE_ARCH_BLACKWELL,
        _ => sys::NVML_DEVICE_ARCH_UNKNOWN,
    }
}

/// The brand, by the product's name.
pub(crate) fn brand(gpu: &Gpu) -> c_uint {
    match gpu.model.product.split(' ').next() {
        Some("Tesla") => sys::nvmlBrandType_enum_NVML_BRAND_TESLA,
        Some("NVIDIA") => sys::nvmlBrandType_enum_NVML_BRAND_NVIDIA,
        _ => sys::nvmlBrandType_enum_NVML_BRAND_UNKNOWN,
    }
}

/// A serial number of thirteen digits, made from the UUID: the same card has
/// the same one.
pub(crate) fn serial(gpu: &Gpu) -> String {
    let digits = gpu.uuid.bytes().fold(0u64, |n, byte| (n * 31 + u64::from(byte)) % 1_000_000_000_000);
    format!("1{digits:012}")
}

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
    /// What its memory tells of itself, where it is measured.
    memory: Option<MemorySensors>,
    /// Whether its link to a processor is in use, where it has one.
    pub(crate) c2c: Option<bool>,
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

/// An H100 with driver 590 and an L40S with 595, of public captures.
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
        // 48 °C beside 42, and 58 beside 53.
        memory: Some(MemorySensors { warmer_c: 6, power_mw: [44_000, 93_980] }),
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

/// The limits of a card that counts from zero, of captures: of an A100 80GB PCIe
/// (evidence 31166464907), an A100-SXM4-40GB (47337582899) and a T4
/// (22551222574).
pub(crate) fn absolute_limits(gpu: &Gpu) -> Option<Limits> {
    match gpu.model.product.as_str() {
        "NVIDIA A100 80GB PCIe" | "NVIDIA A100-SXM4-40GB" => {
            Some(Limits { shutdown: 92, slowdown: 89, gpu_max: 85, memory_max: Some(95) })
        }
        "Tesla T4" => Some(Limits { shutdown: 96, slowdown: 93, gpu_max: 85, memory_max: None }),
        _ => None,
    }
}
