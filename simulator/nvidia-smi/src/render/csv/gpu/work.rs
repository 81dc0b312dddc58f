//! The activity of a GPU.

use super::super::field::{Field, measured, plain};
use super::{S, memory, number, word};
use crate::snapshot::{ComputeMode, Sessions, Utilization};

pub(super) const FIELDS: &[Field<S>] = &[
    measured(&["fan.speed"], "%", |s| number(s.gpu.fan)),
    plain(&["pstate"], |s| s.gpu.performance.map(|state| format!("P{state}"))),
    plain(&["clocks_event_reasons.supported", "clocks_throttle_reasons.supported"], |s| {
        mask(s.gpu.readings.events.supported)
    }),
    plain(&["clocks_event_reasons.active", "clocks_throttle_reasons.active"], |s| {
        mask(s.gpu.readings.events.active)
    }),
    plain(&["clocks_event_reasons.gpu_idle", "clocks_throttle_reasons.gpu_idle"], |s| active(s, 0x1)),
    plain(
        &[
            "clocks_event_reasons.applications_clocks_setting",
            "clocks_throttle_reasons.applications_clocks_setting",
        ],
        |s| active(s, 0x2),
    ),
    plain(&["clocks_event_reasons.sw_power_cap", "clocks_throttle_reasons.sw_power_cap"], |s| active(s, 0x4)),
    plain(&["clocks_event_reasons.hw_slowdown", "clocks_throttle_reasons.hw_slowdown"], |s| active(s, 0x8)),
    plain(
        &["clocks_event_reasons.hw_thermal_slowdown", "clocks_throttle_reasons.hw_thermal_slowdown"],
        |s| active(s, 0x40),
    ),
    plain(
        &["clocks_event_reasons.hw_power_brake_slowdown", "clocks_throttle_reasons.hw_power_brake_slowdown"],
        |s| active(s, 0x80),
    ),
    plain(
        &["clocks_event_reasons.sw_thermal_slowdown", "clocks_throttle_reasons.sw_thermal_slowdown"],
        |s| active(s, 0x20),
    ),
    plain(&["clocks_event_reasons.sync_boost", "clocks_throttle_reasons.sync_boost"], |s| active(s, 0x10)),
    measured(&["clocks_event_reasons_counters.sw_power_cap"], "us", |s| {
        number(s.gpu.readings.events.counters.power_cap)
    }),
    measured(&["clocks_event_reasons_counters.sync_boost"], "us", |s| {
        number(s.gpu.readings.events.counters.sync_boost)
    }),
    measured(&["clocks_event_reasons_counters.sw_thermal_slowdown"], "us", |s| {
        number(s.gpu.readings.events.counters.software_thermal)
    }),
    measured(&["clocks_event_reasons_counters.hw_thermal_slowdown"], "us", |s| {
        number(s.gpu.readings.events.counters.hardware_thermal)
    }),
    measured(&["clocks_event_reasons_counters.hw_power_brake_slowdown"], "us", |s| {
        number(s.gpu.readings.events.counters.power_brake)
    }),
    measured(&["memory.total"], "MiB", |s| memory(s.gpu.memory.as_ref(), |memory| memory.total)),
    measured(&["memory.reserved"], "MiB", |s| memory(s.gpu.memory.as_ref(), |memory| memory.reserved)),
    measured(&["memory.used"], "MiB", |s| memory(s.gpu.memory.as_ref(), |memory| memory.used)),
    measured(&["memory.free"], "MiB", |s| memory(s.gpu.memory.as_ref(), |memory| memory.free)),
    plain(&["compute_mode"], |s| {
        word(s.gpu.compute_mode.map(|mode| match mode {
            ComputeMode::Default => "Default",
            ComputeMode::Prohibited => "Prohibited",
            ComputeMode::ExclusiveProcess => "Exclusive_Process",
        }))
    }),
    plain(&["compute_cap"], |s| s.gpu.compute_capability.clone()),
    measured(&["utilization.gpu"], "%", |s| busy(s, |busy| busy.gpu)),
    measured(&["utilization.memory"], "%", |s| busy(s, |busy| busy.memory)),
    measured(&["utilization.encoder"], "%", |s| engine(s, s.gpu.readings.engines.encoder)),
    measured(&["utilization.decoder"], "%", |s| engine(s, s.gpu.readings.engines.decoder)),
    measured(&["utilization.jpeg"], "%", |s| engine(s, s.gpu.readings.engines.jpeg)),
    measured(&["utilization.ofa"], "%", |s| engine(s, s.gpu.readings.engines.ofa)),
    plain(&["encoder.stats.sessionCount"], |s| sessions(s, |sessions| sessions.count)),
    plain(&["encoder.stats.averageFps"], |s| sessions(s, |sessions| sessions.frames)),
    plain(&["encoder.stats.averageLatency"], |s| sessions(s, |sessions| sessions.latency)),
];

fn mask(bits: Option<u64>) -> Option<String> {
    bits.map(|bits| format!("0x{bits:016X}"))
}

fn active(of: &S, bit: u64) -> Option<String> {
    let mask = of.gpu.readings.events.active?;
    Some(if mask & bit == 0 { "Not Active" } else { "Active" }.to_owned())
}

/// How busy the whole GPU is, which is told only with MIG off.
fn busy(of: &S, part: fn(&Utilization) -> u32) -> Option<String> {
    engine(of, of.gpu.utilization.as_ref().map(part))
}

fn engine(of: &S, percent: Option<u32>) -> Option<String> {
    number(percent.filter(|_| !of.gpu.mig_is_on()))
}

fn sessions(of: &S, part: fn(&Sessions) -> u32) -> Option<String> {
    number(of.gpu.readings.encoding.as_ref().map(part))
}
