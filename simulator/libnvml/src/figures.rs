//! Figures that programs ask for and that the engine does not have: what a
//! product's data sheet says, and what a simulated card shows instead of
//! sensors. What neither says stays absent and is answered NOT_SUPPORTED.

use std::ffi::c_uint;

use gpu::{Activity, Gpu, Subject};
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
    pub(crate) fn of(state: &State) -> Self {
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
            _ => 13010,
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
    /// Total board power, in W.
    pub(crate) power_w: u32,
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
    Sheet { product: "NVIDIA A100-PCIE-40GB", power_w: 250, sm_mhz: 1410, memory_mhz: 1215, pcie: 4 },
    Sheet { product: "NVIDIA A100-SXM4-40GB", power_w: 400, sm_mhz: 1410, memory_mhz: 1215, pcie: 4 },
    Sheet { product: "NVIDIA A100 80GB PCIe", power_w: 300, sm_mhz: 1410, memory_mhz: 1512, pcie: 4 },
    Sheet { product: "NVIDIA A100-SXM4-80GB", power_w: 400, sm_mhz: 1410, memory_mhz: 1593, pcie: 4 },
    Sheet { product: "NVIDIA A30", power_w: 165, sm_mhz: 1440, memory_mhz: 1215, pcie: 4 },
    Sheet { product: "NVIDIA H100 PCIe", power_w: 350, sm_mhz: 1755, memory_mhz: 1593, pcie: 5 },
    Sheet { product: "NVIDIA H100 80GB HBM3", power_w: 700, sm_mhz: 1980, memory_mhz: 2619, pcie: 5 },
    Sheet { product: "NVIDIA H100 NVL", power_w: 400, sm_mhz: 1785, memory_mhz: 2619, pcie: 5 },
    Sheet { product: "NVIDIA H200", power_w: 700, sm_mhz: 1980, memory_mhz: 3201, pcie: 5 },
    Sheet { product: "Tesla T4", power_w: 70, sm_mhz: 1590, memory_mhz: 5001, pcie: 3 },
];

/// The data sheet of a GPU, if it is known.
pub(crate) fn sheet(gpu: &Gpu) -> Option<&'static Sheet> {
    let fits = |sheet: &&Sheet| gpu.model.product.starts_with(sheet.product);
    SHEETS.iter().filter(fits).max_by_key(|sheet| sheet.product.len())
}

/// Whether somebody computes on it.
pub(crate) fn is_busy(of: Subject<'_>) -> bool {
    of.clients().any(|client| client.activity == Activity::Computes)
}

/// What a simulated card shows for a temperature, in °C: one for a card at
/// rest, one for a card at work.
pub(crate) fn temperature(of: Subject<'_>) -> u32 {
    if is_busy(of) { 55 } else { 31 }
}

/// What it draws, in mW: a sixth of what it may at rest, four fifths at work.
pub(crate) fn power_mw(of: Subject<'_>) -> Option<u32> {
    let limit = sheet(of.gpu)?.power_w * 1000;
    Some(if is_busy(of) { limit / 5 * 4 } else { limit / 6 })
}

/// The address window. Of a GPU: its memory, as a power of two. Of a MIG
/// device its share of that, by memory, of which 1 MiB is missing in every
/// capture up to driver 560; how later drivers count is not known.
pub(crate) fn bar1_mib(of: Subject<'_>) -> Option<u32> {
    let whole = of.gpu.model.memory_mib.checked_next_power_of_two()?;
    let Some((gi, _)) = of.mig else { return Some(whole) };
    let (_, size) = of.gpu.span_of(gi);
    let units = of.gpu.geometry()?.memory();
    (whole / u32::from(units) * u32::from(size)).checked_sub(1)
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
