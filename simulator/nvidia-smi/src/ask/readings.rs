//! Readings that only the log and `--query-gpu` show. Values that the library does not provide are absent.

use nvml::library::{FieldValue, Gpu, Sample, Sampled};
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, GpuVirtualizationMode, HostVgpuMode, InfoRom, MemoryError, MemoryLocation,
    OperationMode, PcieUtilCounter, RetirementCause, TemperatureThreshold,
};
use nvml_wrapper::sys_exports::field_id as id;

use super::rounding::Rounding;
use crate::snapshot::{
    Board, ByLocation, ClockEvents, ClockSettings, EngineLoad, EventCounters, Inforom, LOCATIONS, Limits,
    LinkDetail, Location, Memory, MemoryErrors, Modes, Past, Pasts, Periods, PowerDetail, Readings,
    RemappedRows, Sessions, Thermal,
};

/// The scope of a field that means the memory, not the GPU.
const MEMORY_SCOPE: u32 = 2;

/// All of it.
pub(super) fn read(gpu: &Gpu<'_>, rounding: Rounding) -> Readings {
    let device = gpu.device();
    Readings {
        pci_class: gpu.pci_class().ok(),
        board: board(gpu),
        modes: modes(gpu),
        events: events(gpu),
        engines: EngineLoad {
            encoder: device.encoder_utilization().ok().map(|busy| busy.utilization),
            decoder: device.decoder_utilization().ok().map(|busy| busy.utilization),
            jpeg: gpu.jpeg_utilization().ok(),
            ofa: gpu.ofa_utilization().ok(),
        },
        pasts: pasts(gpu),
        encoding: device.encoder_stats().ok().map(|stats| Sessions {
            count: stats.session_count,
            frames: stats.average_fps,
            latency: stats.average_latency,
        }),
        grabbing: device.fbc_stats().ok().map(|stats| Sessions {
            count: stats.sessions_count,
            frames: stats.average_fps,
            latency: stats.average_latency,
        }),
        errors: errors(gpu),
        thermal: thermal(gpu),
        power: PowerDetail {
            average: count(gpu, id::NVML_FI_DEV_POWER_AVERAGE),
            instant: count(gpu, id::NVML_FI_DEV_POWER_INSTANT),
            memory_average: gpu
                .field(id::NVML_FI_DEV_POWER_AVERAGE, MEMORY_SCOPE)
                .ok()
                .and_then(FieldValue::count),
            requested_limit: device.power_management_limit().ok(),
        },
        clocks: ClockSettings {
            applications: pair(|clock| device.applications_clock(clock).ok()),
            default_applications: pair(|clock| device.default_applications_clock(clock).ok()),
            max_boost: device.max_customer_boost_clock(Clock::Graphics).ok(),
            supported: supported_clocks(device),
        },
        link: link(gpu),
        fabric: gpu.fabric().ok(),
        protected: gpu.protected_memory().ok().map(|(total, used, free)| Memory {
            total: rounding.mib(total),
            used: rounding.mib(used),
            free: rounding.mib(free),
            reserved: 0,
        }),
    }
}

/// What the driver remembers. Of clocks it remembers nothing.
fn pasts(gpu: &Gpu<'_>) -> Pasts {
    let past = |of| gpu.samples(of).ok().and_then(|samples| past(&samples));
    Pasts {
        power: past(Sampled::Power),
        gpu: past(Sampled::Gpu),
        memory: past(Sampled::Memory),
        encoder: past(Sampled::Encoder),
        decoder: past(Sampled::Decoder),
        jpeg: past(Sampled::Jpeg),
        ofa: past(Sampled::OpticalFlow),
    }
}

/// The summary of some samples; there is none of no sample.
fn past(samples: &[Sample]) -> Option<Past> {
    let values = || samples.iter().map(|sample| sample.value);
    let times = || samples.iter().map(|sample| sample.at);
    let count = samples.len() as u64;
    Some(Past {
        count,
        duration: times().max()? - times().min()?,
        max: values().max()?,
        min: values().min()?,
        mean: values().sum::<u64>() / count,
    })
}

/// A field of the whole GPU, as a count.
fn count(gpu: &Gpu<'_>, field: u32) -> Option<u64> {
    gpu.field(field, 0).ok().and_then(FieldValue::count)
}

fn pair(of: impl Fn(Clock) -> Option<u32>) -> (Option<u32>, Option<u32>) {
    (of(Clock::Graphics), of(Clock::Memory))
}

fn board(gpu: &Gpu<'_>) -> Board {
    let device = gpu.device();
    let version = |object| device.info_rom_version(object).ok();
    Board {
        part_number: device.board_part_number().ok(),
        is_multi_gpu: device.is_multi_gpu_board().ok(),
        module: gpu.module_id().ok(),
        pdi: gpu.pdi().ok(),
        // Without a rack around it the program shows none of its numbers (driver 580.159.04).
        platform: gpu.platform().ok().filter(|platform| platform.fabric_guid != [0; 16]),
        inforom: Inforom {
            image: device.info_rom_image_version().ok(),
            oem: version(InfoRom::OEM),
            ecc: version(InfoRom::ECC),
            power: version(InfoRom::Power),
            is_valid: validity(device),
            flushed: gpu.black_box_flush().ok().and_then(|(at, took)| Some((moment(at)?, took))),
        },
        gsp_version: device.gsp_firmware_version().ok(),
        gsp_mode: device.gsp_firmware_mode().ok().map(|mode| (mode.enabled, mode.default)),
    }
}

/// Whether the InfoROM is as it was written; a card without one cannot tell.
fn validity(device: &Device<'_>) -> Option<bool> {
    match device.validate_info_rom() {
        Ok(()) => Some(true),
        Err(nvml_wrapper::error::NvmlError::CorruptedInfoROM) => Some(false),
        Err(_) => None,
    }
}

/// Microseconds since 1970 as the log writes them.
pub(super) fn moment(microseconds: u64) -> Option<String> {
    let moment = jiff::Timestamp::from_microsecond(i64::try_from(microseconds).ok()?).ok()?;
    Some(moment.strftime("%Y/%m/%d %H:%M:%S.%3f").to_string())
}

fn modes(gpu: &Gpu<'_>) -> Modes {
    let device = gpu.device();
    Modes {
        addressing: gpu.addressing_mode().ok().and_then(|mode| match mode {
            0 => Some("None"),
            1 => Some("HMM"),
            2 => Some("ATS"),
            _ => None,
        }),
        accounting_buffer: device.accounting_buffer_size().ok(),
        operation: device
            .gpu_operation_mode()
            .ok()
            .map(|modes| (operation(modes.current), operation(modes.pending))),
        chip_to_chip: gpu.chip_to_chip().ok(),
        virtualization: device.virtualization_mode().ok().map(|mode| match mode {
            GpuVirtualizationMode::Bare => "None",
            GpuVirtualizationMode::PassThrough => "Pass-Through",
            GpuVirtualizationMode::Vgpu => "VGPU",
            GpuVirtualizationMode::HostVgpu => "Host VGPU",
            GpuVirtualizationMode::HostVsga => "Host VSGA",
        }),
        host_vgpu: device.vgpu_host_mode().ok().map(|mode| match mode {
            HostVgpuMode::NonSriov => "Non SR-IOV",
            HostVgpuMode::Sriov => "SR-IOV",
        }),
        dram_encryption: gpu.dram_encryption().ok(),
        recovery: count(gpu, id::NVML_FI_DEV_GET_GPU_RECOVERY_ACTION).and_then(|action| match action {
            0 => Some("None"),
            1 => Some("Reset"),
            2 => Some("Reboot"),
            3 => Some("Drain P2P"),
            4 => Some("Drain and Reset"),
            _ => None,
        }),
        reset_required: count(gpu, id::NVML_FI_DEV_RESET_STATUS).map(|status| status != 0),
        drain_recommended: count(gpu, id::NVML_FI_DEV_DRAIN_AND_RESET_STATUS).map(|status| status != 0),
        auto_boost: device
            .auto_boosted_clocks_enabled()
            .ok()
            .map(|boost| (boost.is_enabled, boost.is_enabled_default)),
        extended_memory: gpu.capabilities().ok().map(|bits| bits & 1 != 0),
    }
}

const fn operation(mode: OperationMode) -> &'static str {
    match mode {
        OperationMode::AllOn => "All On",
        OperationMode::Compute => "Compute",
        OperationMode::LowDP => "Low Double Precision",
    }
}

/// The bindings have these three under other numbers than the driver (580.159.04).
const REASON_SW_THERM_SLOWDOWN: u32 = 269;
const REASON_HW_THERM_SLOWDOWN: u32 = 270;
const REASON_HW_POWER_BRAKE_SLOWDOWN: u32 = 271;

fn events(gpu: &Gpu<'_>) -> ClockEvents {
    let device = gpu.device();
    // Nanoseconds, as the header has it of these fields.
    let micros = |field| count(gpu, field).map(|nanos| nanos / 1000);
    ClockEvents {
        active: device.current_throttle_reasons().ok().map(|reasons| reasons.bits()),
        supported: device.supported_throttle_reasons().ok().map(|reasons| reasons.bits()),
        counters: EventCounters {
            power_cap: micros(id::NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP),
            sync_boost: micros(id::NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST),
            software_thermal: micros(REASON_SW_THERM_SLOWDOWN),
            hardware_thermal: micros(REASON_HW_THERM_SLOWDOWN),
            power_brake: micros(REASON_HW_POWER_BRAKE_SLOWDOWN),
        },
    }
}

fn errors(gpu: &Gpu<'_>) -> MemoryErrors {
    let device = gpu.device();
    let periods = |kind: MemoryError| Periods {
        volatile: by_location(device, kind, EccCounter::Volatile),
        aggregate: by_location(device, kind, EccCounter::Aggregate),
    };
    let retired = |cause| device.retired_pages(cause).ok().map(|pages| pages.len() as u64);
    let rows = || {
        Some(RemappedRows {
            corrected: count(gpu, id::NVML_FI_DEV_REMAPPED_COR)?,
            uncorrected: count(gpu, id::NVML_FI_DEV_REMAPPED_UNC)?,
            pending: count(gpu, id::NVML_FI_DEV_REMAPPED_PENDING)? != 0,
            failed: count(gpu, id::NVML_FI_DEV_REMAPPED_FAILURE)? != 0,
        })
    };
    MemoryErrors {
        corrected: periods(MemoryError::Corrected),
        uncorrected: periods(MemoryError::Uncorrected),
        sram: gpu.sram_errors().ok(),
        pending_repairs: gpu.pending_repairs().ok(),
        retired: retired(RetirementCause::MultipleSingleBitEccErrors)
            .zip(retired(RetirementCause::DoubleBitEccError)),
        retirement_pending: device.are_pages_pending_retired().ok(),
        rows: rows(),
        remap: gpu.remap_availability().ok(),
    }
}

fn by_location(device: &Device<'_>, kind: MemoryError, period: EccCounter) -> ByLocation {
    let at = |location| device.memory_error_counter(kind, period, location).ok();
    let mut all = [None; LOCATIONS];
    for (place, location) in [
        (Location::Device, MemoryLocation::Device),
        (Location::RegisterFile, MemoryLocation::RegisterFile),
        (Location::L1, MemoryLocation::L1Cache),
        (Location::L2, MemoryLocation::L2Cache),
        (Location::Texture, MemoryLocation::Texture),
        (Location::Cbu, MemoryLocation::Cbu),
        (Location::Sram, MemoryLocation::SRAM),
    ] {
        all[place as usize] = at(location);
    }
    all[Location::Total as usize] = device.total_ecc_errors(kind, period).ok();
    ByLocation(all)
}

/// What can be set; many cards let nothing be set.
fn supported_clocks(device: &Device<'_>) -> Vec<(u32, Vec<u32>)> {
    let memory = device.supported_memory_clocks().unwrap_or_default();
    let graphics = |clock| device.supported_graphics_clocks(clock).unwrap_or_default();
    memory.into_iter().map(|clock| (clock, graphics(clock))).collect()
}

fn thermal(gpu: &Gpu<'_>) -> Thermal {
    let absolute = |threshold| gpu.device().temperature_threshold(threshold).ok().map(i64::from);
    let relative = |field| gpu.field(field, 0).ok().and_then(FieldValue::whole);
    Thermal {
        margin: gpu.margin_temperature().ok().map(i64::from),
        target: absolute(TemperatureThreshold::AcousticCurr),
        relative: Limits {
            shutdown: relative(id::NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT),
            slowdown: relative(id::NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT),
            max_operating: relative(id::NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT),
            memory_max: relative(id::NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT),
        },
        absolute: Limits {
            shutdown: absolute(TemperatureThreshold::Shutdown),
            slowdown: absolute(TemperatureThreshold::Slowdown),
            max_operating: absolute(TemperatureThreshold::GpuMax),
            memory_max: absolute(TemperatureThreshold::MemoryMax),
        },
    }
}

fn link(gpu: &Gpu<'_>) -> LinkDetail {
    let device = gpu.device();
    LinkDetail {
        device_max: gpu.max_link_generation().ok(),
        replays: device.pcie_replay_counter().ok(),
        rollovers: count(gpu, id::NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER),
        sent: device.pcie_throughput(PcieUtilCounter::Send).ok(),
        received: device.pcie_throughput(PcieUtilCounter::Receive).ok(),
        atomics: (
            count(gpu, id::NVML_FI_DEV_PCIE_OUTBOUND_ATOMICS_MASK),
            count(gpu, id::NVML_FI_DEV_PCIE_INBOUND_ATOMICS_MASK),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summarised_by_their_times_and_values() {
        let samples = [(3_000, 10), (1_000, 0), (5_000, 21)].map(|(at, value)| Sample { at, value });
        let summary = Past { count: 3, duration: 4_000, max: 21, min: 0, mean: 10 };
        assert_eq!(past(&samples), Some(summary));
        assert_eq!(past(&[]), None);
    }
}
