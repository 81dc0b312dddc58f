//! The fields of the queries that are not about a GPU as such.

use super::field::{Field, measured, plain, unknown};
use crate::snapshot::{Gpu, Process};

/// What a row of `--query-compute-apps` is about.
pub(crate) struct App {
    /// Now, as `2024/11/21 07:12:15.123`.
    pub(crate) time: String,
    /// Where it runs.
    pub(crate) gpu: Gpu,
    /// What runs.
    pub(crate) process: Process,
}

/// The fields of `--query-compute-apps`.
pub(crate) const APPS: &[Field<App>] = &[
    plain(&["timestamp"], |app| Some(app.time.clone())),
    plain(&["gpu_name"], |app| Some(app.gpu.name.clone())),
    plain(&["gpu_bus_id"], |app| Some(app.gpu.pci.id.clone())),
    plain(&["gpu_serial"], |app| app.gpu.serial.clone()),
    plain(&["gpu_uuid"], |app| Some(app.gpu.uuid.clone())),
    plain(&["pid"], |app| Some(app.process.pid.to_string())),
    plain(&["process_name", "name"], |app| Some(app.process.name.clone())),
    measured(&["used_gpu_memory", "used_memory"], "MiB", |app| app.process.memory.map(|mib| mib.to_string())),
];

/// What a row of `--query-accounted-apps` is about: a process that the driver
/// remembers.
pub(crate) struct Accounted {
    pub(crate) time: String,
    pub(crate) gpu: Gpu,
    pub(crate) pid: u32,
    /// In percent.
    pub(crate) busy: Option<u32>,
    pub(crate) memory_busy: Option<u32>,
    /// In MiB.
    pub(crate) most_memory: Option<u64>,
    /// In milliseconds; zero while it runs.
    pub(crate) took: u64,
}

/// The fields of `--query-accounted-apps`.
pub(crate) const ACCOUNTED: &[Field<Accounted>] = &[
    plain(&["timestamp"], |app| Some(app.time.clone())),
    plain(&["gpu_name"], |app| Some(app.gpu.name.clone())),
    plain(&["gpu_bus_id"], |app| Some(app.gpu.pci.id.clone())),
    plain(&["gpu_serial"], |app| app.gpu.serial.clone()),
    plain(&["gpu_uuid"], |app| Some(app.gpu.uuid.clone())),
    unknown(&["vgpu_instance"]),
    plain(&["pid"], |app| Some(app.pid.to_string())),
    measured(&["gpu_utilization", "gpu_util"], "%", |app| app.busy.map(|busy| busy.to_string())),
    measured(&["mem_utilization", "mem_util"], "%", |app| app.memory_busy.map(|busy| busy.to_string())),
    measured(&["max_memory_usage"], "MiB", |app| app.most_memory.map(|mib| mib.to_string())),
    measured(&["time"], "ms", |app| Some(app.took.to_string())),
];

/// What a row of `--query-retired-pages` is about.
pub(crate) struct Retired {
    pub(crate) time: String,
    pub(crate) gpu: Gpu,
    /// The page's address and when it was retired, where pages are retired.
    pub(crate) page: Option<(u64, String)>,
    pub(crate) cause: &'static str,
}

/// The fields of `--query-retired-pages`.
pub(crate) const RETIRED: &[Field<Retired>] = &[
    plain(&["timestamp"], |page| Some(page.time.clone())),
    plain(&["gpu_name"], |page| Some(page.gpu.name.clone())),
    plain(&["gpu_bus_id"], |page| Some(page.gpu.pci.id.clone())),
    plain(&["gpu_serial"], |page| page.gpu.serial.clone()),
    plain(&["gpu_uuid"], |page| Some(page.gpu.uuid.clone())),
    plain(&["retired_pages.address"], |page| page.page.as_ref().map(|(at, _)| format!("0x{at:016x}"))),
    plain(&["retired_pages.timestamp"], |page| page.page.as_ref().map(|(_, when)| when.clone())),
    plain(&["retired_pages.cause"], |page| Some(page.cause.to_owned())),
];

/// What a row of `--query-remapped-rows` is about.
pub(crate) struct Remapped {
    pub(crate) time: String,
    pub(crate) gpu: Gpu,
}

/// The fields of `--query-remapped-rows`.
pub(crate) const REMAPPED: &[Field<Remapped>] = &[
    plain(&["timestamp"], |of| Some(of.time.clone())),
    plain(&["gpu_name"], |of| Some(of.gpu.name.clone())),
    plain(&["gpu_bus_id"], |of| Some(of.gpu.pci.id.clone())),
    plain(&["gpu_serial"], |of| of.gpu.serial.clone()),
    plain(&["gpu_uuid"], |of| Some(of.gpu.uuid.clone())),
    plain(&["remapped_rows.correctable", "remapped_rows.sbe"], |of| {
        of.gpu.readings.errors.rows.map(|rows| rows.corrected.to_string())
    }),
    plain(&["remapped_rows.uncorrectable", "remapped_rows.dbe"], |of| {
        of.gpu.readings.errors.rows.map(|rows| rows.uncorrected.to_string())
    }),
    plain(&["remapped_rows.pending"], |of| of.gpu.readings.errors.rows.map(|rows| yes(rows.pending))),
    plain(&["remapped_rows.failure"], |of| of.gpu.readings.errors.rows.map(|rows| yes(rows.failed))),
    plain(&["remapped_rows.histogram.max"], |of| of.gpu.readings.errors.remap.map(|r| r.max.to_string())),
    plain(&["remapped_rows.histogram.high"], |of| of.gpu.readings.errors.remap.map(|r| r.high.to_string())),
    plain(&["remapped_rows.histogram.partial"], |of| {
        of.gpu.readings.errors.remap.map(|r| r.partial.to_string())
    }),
    plain(&["remapped_rows.histogram.low"], |of| of.gpu.readings.errors.remap.map(|r| r.low.to_string())),
    plain(&["remapped_rows.histogram.none"], |of| of.gpu.readings.errors.remap.map(|r| r.none.to_string())),
];

fn yes(state: bool) -> String {
    if state { "Yes" } else { "No" }.to_owned()
}

/// What a row of `--query-supported-clocks` is about: a pair that can be set.
pub(crate) struct ClockPair {
    pub(crate) time: String,
    pub(crate) gpu: Gpu,
    /// In MHz.
    pub(crate) memory: u32,
    pub(crate) graphics: u32,
}

/// The fields of `--query-supported-clocks`.
pub(crate) const CLOCKS: &[Field<ClockPair>] = &[
    plain(&["timestamp"], |pair| Some(pair.time.clone())),
    plain(&["gpu_name"], |pair| Some(pair.gpu.name.clone())),
    plain(&["gpu_bus_id"], |pair| Some(pair.gpu.pci.id.clone())),
    plain(&["gpu_serial"], |pair| pair.gpu.serial.clone()),
    plain(&["gpu_uuid"], |pair| Some(pair.gpu.uuid.clone())),
    measured(&["memory", "mem"], "MHz", |pair| Some(pair.memory.to_string())),
    measured(&["graphics", "gr"], "MHz", |pair| Some(pair.graphics.to_string())),
];
