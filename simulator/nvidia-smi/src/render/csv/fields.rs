//! The fields of `--query-gpu`, as data: names (the first is the heading),
//! unit, and where the value comes from.

use super::Subject as S;
use crate::snapshot::{ComputeMode, Memory, Utilization};

/// A field of a row about a `T`.
pub(crate) struct Field<T> {
    /// Its names; the first is printed.
    pub(crate) names: &'static [&'static str],
    /// Its unit.
    pub(crate) unit: Option<&'static str>,
    /// Its value, without the unit.
    pub(crate) value: fn(&T) -> Option<String>,
}

const fn plain(names: &'static [&'static str], value: fn(&S) -> Option<String>) -> Field<S> {
    Field { names, unit: None, value }
}

const fn measured(
    names: &'static [&'static str],
    unit: &'static str,
    value: fn(&S) -> Option<String>,
) -> Field<S> {
    Field { names, unit: Some(unit), value }
}

fn switch(state: Option<bool>) -> Option<String> {
    state.map(|on| if on { "Enabled" } else { "Disabled" }.to_owned())
}

fn number<N: ToString>(number: Option<N>) -> Option<String> {
    number.map(|number| number.to_string())
}

fn watts(milliwatts: Option<u32>) -> Option<String> {
    milliwatts.map(|mw| format!("{}.{:02}", mw / 1000, mw % 1000 / 10))
}

fn memory(of: &S, part: fn(&Memory) -> u64) -> Option<String> {
    number(of.gpu.memory.as_ref().map(part))
}

/// Utilisation of the whole GPU, which there is only with MIG off.
fn busy(of: &S, part: fn(&Utilization) -> u32) -> Option<String> {
    number(of.gpu.utilization.filter(|_| !of.gpu.mig_is_on()).as_ref().map(part))
}

/// All of them.
pub(crate) const GPU_FIELDS: &[Field<S>] = &[
    plain(&["timestamp"], |s| Some(s.time.clone())),
    plain(&["driver_version"], |s| Some(s.system.driver.clone())),
    plain(&["count"], |s| Some(s.count.to_string())),
    plain(&["name", "gpu_name"], |s| Some(s.gpu.name.clone())),
    plain(&["serial", "gpu_serial"], |s| s.gpu.serial.clone()),
    plain(&["uuid", "gpu_uuid"], |s| Some(s.gpu.uuid.clone())),
    plain(&["pci.bus_id", "gpu_bus_id"], |s| Some(s.gpu.pci.id.clone())),
    plain(&["pci.domain"], |s| Some(format!("0x{:04X}", s.gpu.pci.domain))),
    plain(&["pci.bus"], |s| Some(format!("0x{:02X}", s.gpu.pci.bus))),
    plain(&["pci.device"], |s| Some(format!("0x{:02X}", s.gpu.pci.device))),
    plain(&["pci.device_id"], |s| Some(format!("0x{:08X}", s.gpu.pci.device_id))),
    plain(&["pci.sub_device_id"], |s| s.gpu.pci.subsystem_id.map(|id| format!("0x{id:08X}"))),
    plain(&["pcie.link.gen.current", "pcie.link.gen.gpucurrent"], |s| number(s.gpu.link.generation)),
    plain(&["pcie.link.gen.max", "pcie.link.gen.gpumax"], |s| number(s.gpu.link.max_generation)),
    plain(&["pcie.link.width.current"], |s| number(s.gpu.link.width)),
    plain(&["pcie.link.width.max"], |s| number(s.gpu.link.max_width)),
    plain(&["index"], |s| Some(s.gpu.index.to_string())),
    plain(&["display_mode"], |s| switch(s.gpu.display_mode)),
    plain(&["display_active"], |s| switch(s.gpu.display_active)),
    plain(&["persistence_mode"], |s| switch(s.gpu.persistence)),
    plain(&["accounting.mode"], |s| switch(s.gpu.accounting)),
    plain(&["vbios_version"], |s| s.gpu.vbios.clone()),
    plain(&["compute_mode"], |s| {
        s.gpu.compute_mode.map(|mode| {
            match mode {
                ComputeMode::Default => "Default",
                ComputeMode::Prohibited => "Prohibited",
                ComputeMode::ExclusiveProcess => "Exclusive_Process",
            }
            .to_owned()
        })
    }),
    plain(&["compute_cap"], |s| s.gpu.compute_capability.clone()),
    plain(&["mig.mode.current"], |s| switch(s.gpu.mig.map(|mode| mode.current))),
    plain(&["mig.mode.pending"], |s| switch(s.gpu.mig.map(|mode| mode.pending))),
    measured(&["fan.speed"], "%", |s| number(s.gpu.fan)),
    plain(&["pstate"], |s| s.gpu.performance.map(|state| format!("P{state}"))),
    measured(&["memory.total"], "MiB", |s| memory(s, |memory| memory.total)),
    measured(&["memory.reserved"], "MiB", |s| memory(s, |memory| memory.reserved)),
    measured(&["memory.used"], "MiB", |s| memory(s, |memory| memory.used)),
    measured(&["memory.free"], "MiB", |s| memory(s, |memory| memory.free)),
    measured(&["utilization.gpu"], "%", |s| busy(s, |busy| busy.gpu)),
    measured(&["utilization.memory"], "%", |s| busy(s, |busy| busy.memory)),
    plain(&["temperature.gpu"], |s| number(s.gpu.temperature)),
    plain(&["temperature.memory"], |s| number(s.gpu.memory_temperature)),
    measured(&["power.draw"], "W", |s| watts(s.gpu.power.draw)),
    measured(&["power.draw.average"], "W", |s| watts(s.gpu.power.draw)),
    measured(&["power.draw.instant"], "W", |s| watts(s.gpu.power.draw)),
    measured(&["power.limit"], "W", |s| watts(s.gpu.power.limit)),
    measured(&["enforced.power.limit"], "W", |s| watts(s.gpu.power.limit)),
    measured(&["power.default_limit"], "W", |s| watts(s.gpu.power.default_limit)),
    measured(&["power.min_limit"], "W", |s| watts(s.gpu.power.min_limit)),
    measured(&["power.max_limit"], "W", |s| watts(s.gpu.power.max_limit)),
    measured(&["clocks.current.graphics", "clocks.gr"], "MHz", |s| number(s.gpu.clocks.graphics)),
    measured(&["clocks.current.sm", "clocks.sm"], "MHz", |s| number(s.gpu.clocks.sm)),
    measured(&["clocks.current.memory", "clocks.mem"], "MHz", |s| number(s.gpu.clocks.memory)),
    measured(&["clocks.current.video", "clocks.video"], "MHz", |s| number(s.gpu.clocks.video)),
    measured(&["clocks.max.graphics", "clocks.max.gr"], "MHz", |s| number(s.gpu.max_clocks.graphics)),
    measured(&["clocks.max.sm"], "MHz", |s| number(s.gpu.max_clocks.sm)),
    measured(&["clocks.max.memory", "clocks.max.mem"], "MHz", |s| number(s.gpu.max_clocks.memory)),
    plain(&["ecc.mode.current"], |s| switch(s.gpu.ecc.map(|ecc| ecc.current))),
    plain(&["ecc.mode.pending"], |s| switch(s.gpu.ecc.map(|ecc| ecc.pending))),
    plain(&["ecc.errors.uncorrected.volatile.total"], |s| number(s.gpu.ecc.and_then(|ecc| ecc.uncorrected))),
];
