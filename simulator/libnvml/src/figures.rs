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

    /// The branch's name. It says little of the version: 580.159.04 is of `r582_49`.
    pub(crate) fn branch(&self) -> String {
        if self.driver == "580.159.04" {
            return "r582_49".to_owned();
        }
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
    /// The product's name, as NVML says it.
    product: &'static str,
    /// The highest clock of the multiprocessors, in MHz.
    pub(crate) sm_mhz: u32,
    /// The clock of the memory, in MHz.
    pub(crate) memory_mhz: u32,
    /// The generation of its PCI Express interface.
    pub(crate) pcie: u32,
    /// The lanes of that.
    pub(crate) lanes: u32,
}

impl Sheet {
    /// What one lane of its link carries, in MB/s.
    pub(crate) const fn pcie_mb_s(&self) -> u32 {
        match self.pcie {
            1 => 2500,
            2 => 5000,
            3 => 8000,
            4 => 16_000,
            _ => 32_000,
        }
    }
}

/// A product with 16 lanes.
const fn of(product: &'static str, sm_mhz: u32, memory_mhz: u32, pcie: u32) -> Sheet {
    Sheet { product, sm_mhz, memory_mhz, pcie, lanes: 16 }
}

/// NVIDIA's data sheets and product briefs; where a line says so, what people's nvidia-smi printed.
const SHEETS: &[Sheet] = &[
    of("NVIDIA A100-PCIE-40GB", 1410, 1215, 4),
    of("NVIDIA A100-SXM4-40GB", 1410, 1215, 4),
    of("NVIDIA A100 80GB PCIe", 1410, 1512, 4),
    of("NVIDIA A100-SXM4-80GB", 1410, 1593, 4),
    of("NVIDIA A30", 1440, 1215, 4),
    of("NVIDIA H100 PCIe", 1755, 1593, 5),
    of("NVIDIA H100 80GB HBM3", 1980, 2619, 5),
    // Printed (evidence id 19173983937).
    of("NVIDIA H800", 1980, 2619, 5),
    of("NVIDIA H100 NVL", 1785, 2619, 5),
    of("NVIDIA H200", 1980, 3201, 5),
    // The clock was printed (evidence id 70893487575); its memory is as fast as that of the H200.
    of("NVIDIA H200 NVL", 1785, 3201, 5),
    of("NVIDIA GH200 480GB", 1980, 2619, 5),
    // The same GPU beside less memory of its processor.
    of("NVIDIA GH200 120GB", 1980, 2619, 5),
    // The clocks were printed (55590807253; 65756700163 and 71584485825).
    of("NVIDIA RTX PRO 6000 Blackwell Server Edition", 2430, 12_481, 5),
    of("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 3090, 14_001, 5),
    of("Tesla P4", 1531, 3003, 3),
    of("Tesla P40", 1531, 3615, 3),
    of("Tesla P100-PCIE-16GB", 1328, 715, 3),
    of("Tesla P100-SXM2-16GB", 1480, 715, 3),
    of("Tesla V100-PCIE-16GB", 1380, 877, 3),
    of("Tesla V100-PCIE-32GB", 1380, 877, 3),
    of("Tesla V100-SXM2-16GB", 1530, 877, 3),
    of("Tesla V100-SXM2-32GB", 1530, 877, 3),
    of("Tesla T4", 1590, 5001, 3),
    Sheet { lanes: 8, ..of("NVIDIA A2", 1770, 6251, 4) },
    of("NVIDIA A10", 1695, 6251, 4),
    of("NVIDIA A10G", 1710, 6251, 4),
    of("NVIDIA A40", 1740, 7251, 4),
    of("NVIDIA L4", 2040, 6251, 4),
    of("NVIDIA L20", 2520, 9001, 4),
    of("NVIDIA L40", 2490, 9001, 4),
    of("NVIDIA L40S", 2520, 9001, 4),
];

/// The data sheet of a GPU, if it is known: of the whole name, since an H200 NVL is not an H200.
pub(crate) fn sheet(gpu: &Gpu) -> Option<&'static Sheet> {
    SHEETS.iter().find(|sheet| sheet.product == gpu.model.product)
}

/// What a simulated card shows for a temperature, in °C: one for a card at
/// rest, one for a card at work.
pub(crate) fn temperature(of: Subject<'_>) -> u32 {
    if of.is_busy() { 55 } else { 31 }
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

/// The driver keeps so much of the address window for itself, in KiB: an
/// A100-SXM4-40GB, an H100 and an H200 with driver 580.
const BAR1_OF_DRIVER_KIB: u64 = 1664;

/// The address window: how large it is, and how much of it is used, in KiB. Of
/// a GPU: its memory, as a power of two; from 580 on what its clients use is seen
/// through it. Of a MIG device its share by memory: up to driver 560 of the window,
/// of which 1 MiB is missing in every capture; from 580 on of what the card's memory
/// leaves of it, which the card then shows as used. Where no capture shows what the
/// driver reserves, as before.
pub(crate) fn bar1_kib(of: Subject<'_>) -> Option<(u64, u64)> {
    let kib = |mib: u32| u64::from(mib) * 1024;
    let memory = of.gpu.model.memory_mib;
    let mut whole = memory.checked_next_power_of_two()?;
    let beside = usable_mib(of).filter(|_| of.machine.driver().0 >= BAR1_BESIDE_MEMORY);
    // A window that has no room beside the memory is twice as large.
    if beside.is_some_and(|usable| whole < usable + BAR1_KEPT) {
        whole *= 2;
    }
    let Some((gi, _)) = of.mig else {
        let used = match beside {
            Some(usable) if of.gpu.mig_is_on() => kib(usable),
            Some(usable) => {
                BAR1_OF_DRIVER_KIB
                    + kib(of.clients().map(|c| c.memory_mib).fold(0, u32::saturating_add).min(usable))
            }
            None => 0,
        };
        return Some((kib(whole), used));
    };
    let (_, size) = of.gpu.span_of(gi);
    let units = u32::from(of.gpu.geometry()?.memory());
    match beside {
        Some(usable) => Some((kib((whole - usable - BAR1_KEPT) * u32::from(size) / units), 0)),
        None => Some((kib((whole / units * u32::from(size)).checked_sub(1)?), 0)),
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
