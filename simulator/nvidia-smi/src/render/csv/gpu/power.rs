//! Temperatures, power and clocks.

use super::super::field::{Field, measured, plain, unknown, unmeasured};
use super::{S, number, watts};
use crate::generation::Form;

pub(super) const FIELDS: &[Field<S>] = &[
    plain(&["temperature.gpu"], |s| number(s.gpu.temperature)),
    plain(&["temperature.gpu.tlimit"], |s| number(s.gpu.readings.thermal.margin)),
    plain::<S>(&["temperature.memory"], |s| number(s.gpu.memory_temperature)).bare(),
    plain::<S>(&["power.management"], |s| s.gpu.power.limit.map(|_| "Supported".to_owned()))
        .deprecated_from(Form::R590),
    measured(&["power.draw"], "W", |s| watts(s.gpu.power.draw)),
    measured(&["power.draw.average", "gpu.power.draw.average"], "W", |s| watts(s.gpu.readings.power.average)),
    measured(&["power.draw.instant", "gpu.power.draw.instant"], "W", |s| watts(s.gpu.readings.power.instant)),
    measured(&["power.limit", "gpu.power.requested_limit"], "W", |s| {
        watts(s.gpu.readings.power.requested_limit)
    }),
    measured(&["enforced.power.limit", "gpu.power.current_limit"], "W", |s| watts(s.gpu.power.limit)),
    measured(&["power.default_limit", "gpu.power.default_limit"], "W", |s| watts(s.gpu.power.default_limit)),
    measured(&["power.min_limit", "gpu.power.min_limit"], "W", |s| watts(s.gpu.power.min_limit)),
    measured(&["power.max_limit", "gpu.power.max_limit"], "W", |s| watts(s.gpu.power.max_limit)),
];

/// The module that a GPU shares with a CPU, and how power is smoothed: no
/// simulated card has either.
pub(super) const NOT_MODELLED: &[Field<S>] = &[
    unmeasured(&["module.power.draw.average"], "W"),
    unmeasured(&["module.power.draw.instant"], "W"),
    unmeasured(&["module.power.limit", "module.power.requested_limit"], "W"),
    unmeasured(&["module.enforced.power.limit", "module.power.current_limit"], "W"),
    unmeasured(&["module.power.default_limit"], "W"),
    unmeasured(&["module.power.min_limit"], "W"),
    unmeasured(&["module.power.max_limit"], "W"),
    unknown::<S>(&["power_smoothing.delayed_power_smoothing_supported"]).listed_before(Form::R595),
    unmeasured::<S>(&["power_smoothing.primary_power_floor"], "W").listed_before(Form::R595),
    unmeasured::<S>(&["power_smoothing.secondary_power_floor"], "W").listed_before(Form::R595),
    unmeasured::<S>(&["power_smoothing.min_primary_floor_activation_offset"], "W").listed_before(Form::R595),
    unmeasured::<S>(&["power_smoothing.min_primary_floor_activation_point"], "W").listed_before(Form::R595),
    unmeasured::<S>(&["power_smoothing.window_multiplier"], "ms").listed_before(Form::R595),
    unmeasured::<S>(&["power_smoothing.curr_profile.secondary_power_floor"], "W").listed_before(Form::R595),
    unknown::<S>(&["power_smoothing.curr_profile.primary_floor_act_window_multiplier"])
        .listed_before(Form::R595),
    unknown::<S>(&["power_smoothing.curr_profile.primary_floor_tar_window_multiplier"])
        .listed_before(Form::R595),
    unmeasured::<S>(&["power_smoothing.curr_profile.primary_floor_act_offset"], "W")
        .listed_before(Form::R595),
    unmeasured::<S>(&["power_smoothing.admin_override.secondary_power_floor"], "W").listed_before(Form::R595),
    unknown::<S>(&["power_smoothing.admin_override.primary_floor_act_window_multiplier"])
        .listed_before(Form::R595),
    unknown::<S>(&["power_smoothing.admin_override.primary_floor_tar_window_multiplier"])
        .listed_before(Form::R595),
    unmeasured::<S>(&["power_smoothing.admin_override.primary_floor_act_offset"], "W")
        .listed_before(Form::R595),
    unmeasured::<S>(&["edpp_multiplier"], "%").listed_from(Form::R590),
];

pub(super) const CLOCKS: &[Field<S>] = &[
    measured(&["clocks.current.graphics", "clocks.gr"], "MHz", |s| number(s.gpu.clocks.graphics)),
    measured(&["clocks.current.sm", "clocks.sm"], "MHz", |s| number(s.gpu.clocks.sm)),
    measured(&["clocks.current.memory", "clocks.mem"], "MHz", |s| number(s.gpu.clocks.memory)),
    measured(&["clocks.current.video", "clocks.video"], "MHz", |s| number(s.gpu.clocks.video)),
    measured::<S>(&["clocks.applications.graphics", "clocks.applications.gr"], "MHz", |s| {
        number(s.gpu.readings.clocks.applications.0)
    })
    .deprecated_from(Form::R590),
    measured::<S>(&["clocks.applications.memory", "clocks.applications.mem"], "MHz", |s| {
        number(s.gpu.readings.clocks.applications.1)
    })
    .deprecated_from(Form::R590),
    measured::<S>(&["clocks.default_applications.graphics", "clocks.default_applications.gr"], "MHz", |s| {
        number(s.gpu.readings.clocks.default_applications.0)
    })
    .deprecated_from(Form::R590),
    measured::<S>(&["clocks.default_applications.memory", "clocks.default_applications.mem"], "MHz", |s| {
        number(s.gpu.readings.clocks.default_applications.1)
    })
    .deprecated_from(Form::R590),
    measured(&["clocks.max.graphics", "clocks.max.gr"], "MHz", |s| number(s.gpu.max_clocks.graphics)),
    measured(&["clocks.max.sm"], "MHz", |s| number(s.gpu.max_clocks.sm)),
    measured(&["clocks.max.memory", "clocks.max.mem"], "MHz", |s| number(s.gpu.max_clocks.memory)),
];
