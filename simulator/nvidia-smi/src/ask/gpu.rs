//! One GPU and its MIG devices.

use nvml::library::MigDevice;
use nvml::{Code, Error};
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{
    Brand, Clock, ComputeMode, EccCounter, MemoryError, PerformanceState, TemperatureSensor,
};
use nvml_wrapper::enums::device::DeviceArchitecture;
use nvml_wrapper::sys_exports::field_id;

use super::rounding::Rounding;
use super::{Found, engines, processes, readings, without_attributes};
use crate::generation::Driver;
use crate::snapshot::{self, Attributes, Clocks, Ecc, Gpu, Link, Memory, MigMode, Power, Utilization};

/// What `-L` says of a GPU.
///
/// # Errors
/// The library's, about its name or UUID.
pub(crate) fn listed(found: &Found<'_>) -> Result<Gpu, Error> {
    named(found, Rounding::Up)
}

fn named(found: &Found<'_>, rounding: Rounding) -> Result<Gpu, Error> {
    Ok(Gpu {
        index: found.index,
        name: found.gpu.name()?,
        uuid: found.gpu.uuid()?,
        pci: found.pci.clone(),
        mig: mig_mode(found),
        devices: devices(found, rounding)?,
        ..Gpu::default()
    })
}

/// Everything about a GPU, with its processes.
///
/// # Errors
/// The library's, about its name or UUID.
pub(crate) fn everything(library: &nvml::Library, found: &Found<'_>) -> Result<Gpu, Error> {
    let device = found.gpu.device();
    let rounding = Rounding::for_driver(Driver::from_version(&library.driver_version().unwrap_or_default()));
    let identity = Gpu {
        minor: device.minor_number().ok(),
        brand: device.brand().ok().and_then(brand),
        architecture: device.architecture().ok().and_then(architecture),
        serial: device.serial().ok(),
        vbios: device.vbios_version().ok(),
        board_id: device.board_id().ok(),
        compute_capability: device
            .cuda_compute_capability()
            .ok()
            .map(|capability| format!("{}.{}", capability.major, capability.minor)),
        ..named(found, rounding)?
    };
    let settings = Gpu {
        persistence: device.is_in_persistent_mode().ok(),
        display_mode: device.is_display_connected().ok(),
        display_active: device.is_display_active().ok(),
        accounting: device.is_accounting_enabled().ok(),
        compute_mode: device.compute_mode().ok().map(compute_mode),
        ecc: ecc(device),
        ..identity
    };
    let all = Gpu {
        fan: device.fan_speed(0).ok(),
        temperature: device.temperature(TemperatureSensor::Gpu).ok(),
        memory_temperature: found
            .gpu
            .field(field_id::NVML_FI_DEV_MEMORY_TEMP, 0)
            .ok()
            .and_then(|celsius| u32::try_from(celsius.count()?).ok()),
        performance: device.performance_state().ok().and_then(performance),
        power: power(device),
        clocks: clocks(|clock| device.clock_info(clock).ok()),
        max_clocks: clocks(|clock| device.max_clock_info(clock).ok()),
        memory: memory(device, rounding),
        bar1: bar1(device),
        utilization: device
            .utilization_rates()
            .ok()
            .map(|busy| Utilization { gpu: busy.gpu, memory: busy.memory }),
        link: Link {
            generation: device.current_pcie_link_gen().ok(),
            max_generation: device.max_pcie_link_gen().ok(),
            width: device.current_pcie_link_width().ok(),
            max_width: device.max_pcie_link_width().ok(),
        },
        readings: readings::read(&found.gpu, rounding),
        ..settings
    };
    let processes = processes::list(library, found, all.mig_is_on());
    Ok(Gpu { processes, ..all })
}

fn mig_mode(found: &Found<'_>) -> Option<MigMode> {
    let on = |mode| mode == nvml::library::Mode::Enabled;
    let mode = found.gpu.mig_mode().ok()?;
    Some(MigMode { current: on(mode.current), pending: on(mode.pending) })
}

/// The MIG devices, by index. One that vanishes between two questions is left
/// out.
fn devices(found: &Found<'_>, rounding: Rounding) -> Result<Vec<snapshot::MigDevice>, Error> {
    let mut devices = Vec::new();
    for index in 0..found.gpu.max_mig_devices().unwrap_or(0) {
        let described = found.gpu.mig_device(index).and_then(|device| described(index, &device, rounding));
        match described {
            Ok(device) => devices.push(device),
            Err(error) if matches!(error.code(), Some(Code::NotFound | Code::InvalidArgument)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(devices)
}

fn described(index: u32, mig: &MigDevice<'_>, rounding: Rounding) -> Result<snapshot::MigDevice, Error> {
    let device = mig.device();
    let name = mig.name()?;
    let profile = name.split_once(" MIG ").map_or(name.as_str(), |(_, profile)| profile);
    Ok(snapshot::MigDevice {
        index,
        gpu_instance: mig.gpu_instance_id()?,
        compute_instance: mig.compute_instance_id()?,
        profile: without_attributes(profile),
        uuid: mig.uuid()?,
        memory: memory(device, rounding),
        bar1: bar1(device),
        attributes: mig
            .attributes()
            .ok()
            .map(|has| Attributes { multiprocessors: has.multiprocessors, engines: engines(has.engines) }),
        uncorrected: uncorrected(device),
    })
}

fn ecc(device: &Device<'_>) -> Option<Ecc> {
    let mode = device.is_ecc_enabled().ok()?;
    Some(Ecc {
        current: mode.currently_enabled,
        pending: mode.pending_enabled,
        uncorrected: uncorrected(device),
    })
}

fn uncorrected(device: &Device<'_>) -> Option<u64> {
    device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile).ok()
}

fn power(device: &Device<'_>) -> Power {
    let limits = device.power_management_limit_constraints().ok();
    Power {
        draw: device.power_usage().ok(),
        limit: device.enforced_power_limit().ok(),
        default_limit: device.power_management_limit_default().ok(),
        min_limit: limits.as_ref().map(|limits| limits.min_limit),
        max_limit: limits.as_ref().map(|limits| limits.max_limit),
    }
}

fn clocks(of: impl Fn(Clock) -> Option<u32>) -> Clocks {
    Clocks {
        graphics: of(Clock::Graphics),
        sm: of(Clock::SM),
        memory: of(Clock::Memory),
        video: of(Clock::Video),
    }
}

fn memory(device: &Device<'_>, rounding: Rounding) -> Option<Memory> {
    let memory = device.memory_info().ok()?;
    Some(Memory {
        total: rounding.mib(memory.total),
        used: rounding.mib(memory.used),
        free: rounding.mib(memory.free),
        reserved: rounding.mib(memory.reserved),
    })
}

/// Whole MiB: the share of a MIG device has a rest, which is left away, and so is that of what is used. What
/// is free is what is left of these.
fn bar1(device: &Device<'_>) -> Option<Memory> {
    let memory = device.bar1_memory_info().ok()?;
    let (total, used) = (memory.total >> 20, memory.used >> 20);
    Some(Memory { total, used, free: total - used, reserved: 0 })
}

const fn performance(state: PerformanceState) -> Option<u8> {
    Some(match state {
        PerformanceState::Zero => 0,
        PerformanceState::One => 1,
        PerformanceState::Two => 2,
        PerformanceState::Three => 3,
        PerformanceState::Four => 4,
        PerformanceState::Five => 5,
        PerformanceState::Six => 6,
        PerformanceState::Seven => 7,
        PerformanceState::Eight => 8,
        PerformanceState::Nine => 9,
        PerformanceState::Ten => 10,
        PerformanceState::Eleven => 11,
        PerformanceState::Twelve => 12,
        PerformanceState::Thirteen => 13,
        PerformanceState::Fourteen => 14,
        PerformanceState::Fifteen => 15,
        PerformanceState::Unknown => return None,
    })
}

const fn compute_mode(mode: ComputeMode) -> snapshot::ComputeMode {
    match mode {
        ComputeMode::Default => snapshot::ComputeMode::Default,
        ComputeMode::Prohibited => snapshot::ComputeMode::Prohibited,
        ComputeMode::ExclusiveThread | ComputeMode::ExclusiveProcess => {
            snapshot::ComputeMode::ExclusiveProcess
        }
    }
}

fn brand(brand: Brand) -> Option<&'static str> {
    Some(match brand {
        Brand::Quadro => "Quadro",
        Brand::Tesla => "Tesla",
        Brand::NVS => "NVS",
        Brand::GRID => "Grid",
        Brand::GeForce => "GeForce",
        Brand::Titan => "Titan",
        Brand::QuadroRTX => "Quadro RTX",
        Brand::NvidiaRTX => "NVIDIA RTX",
        Brand::Nvidia => "NVIDIA",
        _ => return None,
    })
}

const fn architecture(architecture: DeviceArchitecture) -> Option<&'static str> {
    Some(match architecture {
        DeviceArchitecture::Kepler => "Kepler",
        DeviceArchitecture::Maxwell => "Maxwell",
        DeviceArchitecture::Pascal => "Pascal",
        DeviceArchitecture::Volta => "Volta",
        DeviceArchitecture::Turing => "Turing",
        DeviceArchitecture::Ampere => "Ampere",
        DeviceArchitecture::Ada => "Ada Lovelace",
        DeviceArchitecture::Hopper => "Hopper",
        DeviceArchitecture::Blackwell => "Blackwell",
        DeviceArchitecture::Unknown => return None,
    })
}
